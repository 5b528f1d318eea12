"""Cases of tests as data: what a module goes through stands in MODULE.toml beside it, or in data/MODULE.json."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path


def cases(module):
    """Return the cases of a test module, by the names that it gives them."""
    path = Path(module)
    if (table := path.with_suffix(".toml")).is_file():
        return tomllib.loads(table.read_text("utf-8"))
    return json.loads((path.parent / "data" / f"{path.stem}.json").read_text("utf-8"))

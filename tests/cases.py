"""Cases of tests as data: what a module goes through stands in data/MODULE.json beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def cases(module: str) -> Any:
    """Return the cases of a test module, by the names that it gives them."""
    path = Path(module)
    return json.loads((path.parent / "data" / f"{path.stem}.json").read_text("utf-8"))

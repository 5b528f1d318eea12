"""Cases of tests as data: what a module goes through stands in MODULE.toml beside it, or in data/MODULE.json."""

import functools
import json
import tomllib
from pathlib import Path

import pytest

FULL = functools.partial(pytest.param, marks=pytest.mark.full)
"""A case of the full count of a guarantee."""


def cases(module, name=None):
    """Return the cases of a test module, by the names that it gives them, or those of a named file of its data."""
    path = Path(module)
    if name or not (table := path.with_suffix(".toml")).is_file():
        table = path.parent / "data" / (name or f"{path.stem}.json")
    text = table.read_text("utf-8")
    return tomllib.loads(text) if table.suffix == ".toml" else json.loads(text)

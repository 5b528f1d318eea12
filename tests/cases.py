"""What a module of tests has in the TOML file of its name: cases, and tables that it goes by."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def cases(file: str) -> dict[str, Any]:
    """Return the content of the TOML file beside a module, from its ``__file__``."""
    return tomllib.loads(Path(file).with_suffix(".toml").read_text(encoding="utf-8"))

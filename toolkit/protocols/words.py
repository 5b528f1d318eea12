"""The words that the evidence of the one-shot test knows, from ``data/words.toml``."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Final

_TEXT: Final = (resources.files("toolkit.protocols") / "data" / "words.toml").read_text(encoding="utf-8")
WORDS: Final = {name: frozenset(text.split()) for name, text in tomllib.loads(_TEXT).items()}


def one_of(name: str) -> str:
    """Return a pattern of one list, the longest first; ``_`` in it stands for a blank."""
    return "|".join(sorted((word.replace("_", " ") for word in WORDS[name]), key=len, reverse=True))

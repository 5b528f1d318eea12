"""What a command has to say: fields for ``--json``, text for people, and an exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Summary:
    """The end of a command."""

    fields: Mapping[str, Any]
    text: str
    exit_code: int = 0

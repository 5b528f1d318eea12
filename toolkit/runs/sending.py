"""What is known of a call while it is on its way, and what a gateway has done since it opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from toolkit.models.base import ModelRequest
from toolkit.runs.endpoint import Endpoint


@dataclass
class Counters:
    """What a gateway has done since it opened; shown as progress."""

    asked: int = 0
    from_ledger: int = 0
    failed: int = 0
    retried: int = 0
    spent_aud: float = 0.0


@dataclass
class Sending:
    """One call on its way: its attempts so far, what is set aside for it and what it may have cost already.

    ``sent`` says that a request is out, or that its reply is not in the ledger yet.
    """

    request: ModelRequest
    endpoint: Endpoint
    worst_aud: float
    attempts: list[dict[str, Any]] = field(default_factory=list)
    reserved_aud: float = 0.0
    unsure_aud: float = 0.0
    spent_aud: float = 0.0
    in_batch: bool = False
    sent: bool = False

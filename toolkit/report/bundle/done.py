"""What a study did, as its methods section tells it: read from plan and ledger, nothing of it calculated here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolkit.report.bundle.evidence import Evidence

if TYPE_CHECKING:
    from toolkit.models.prices import Price
    from toolkit.plan import Plan
    from toolkit.runs.provenance import Asked


@dataclass(frozen=True)
class Done:
    """What a study did."""

    plan: Plan
    answers: Sequence[Asked]
    paid: Sequence[Asked]
    status: Mapping[str, Any]
    manifest: Mapping[str, Any]
    evidence: Evidence = field(default_factory=Evidence)
    unscored: int = 0
    people: tuple[int, int] = (0, 0)
    prices: Mapping[str, Price | None] = field(default_factory=dict)

"""What a study did, as its methods section tells it: read from plan and ledger, nothing of it calculated here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolkit.report.bundle.evidence import Evidence

if TYPE_CHECKING:
    from toolkit.models.prices import Price
    from toolkit.plan import Plan
    from toolkit.runs.asked import Asked


@dataclass(frozen=True)
class Done:
    """What a study did.

    Parameters
    ----------
    plan
        The planned study.
    answers
        Models that gave the answers and the judgements of the study as it stands, from
        `toolkit.runs.asked.asked_models`; a judge of a test without kept judgements has all its calls.
    paid
        All that the study paid for, calls under earlier settings too; from the same.
    status
        From `toolkit.runs.status.study_status`.
    manifest
        From `toolkit.report.manifest.manifest`.
    evidence
        What was calculated.
    unscored
        Whole answers that have no score, because too few judges scored them.
    people
        How many people rated answers, and how many answers they rated.
    clusters
        Groups of bases that share neither a text nor a call; None where nobody counted them.
    flaws
        Flaws of the dataset that the study file accepts, with how often each is there.
    settled
        What was written down when money that may have been billed was settled, a line each.
    prices
        Price of every model and judge by the name of the model; None where none is known any more.
    """

    plan: Plan
    answers: Sequence[Asked]
    paid: Sequence[Asked]
    status: Mapping[str, Any]
    manifest: Mapping[str, Any]
    evidence: Evidence = field(default_factory=Evidence)
    unscored: int = 0
    people: tuple[int, int] = (0, 0)
    prices: Mapping[str, Price | None] = field(default_factory=dict)
    clusters: int | None = None
    flaws: Mapping[str, int] = field(default_factory=dict)
    settled: Sequence[str] = ()

"""What is known of one judge as an instrument: agreement with the others, bias, cost, and what probes did to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.agreement.correlations import clustered_pearson
from toolkit.stats.agreement.probe_shift import POINTS, ProbeShift, ProbeShifts
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import CLUSTERED, clustered_mean, clustered_slope
from toolkit.stats.inference.proportions import share
from toolkit.stats.result import Estimate, estimates_frame

PER_TOKENS: Final = 100
SLOPE_UNIT: Final = f"{POINTS} per {PER_TOKENS} tokens of reply"
_COLUMNS: Final = (
    *("run_id", "base", "model", "judge", "judge_model", "failed"),
    *("aud_cost", "latency_ms", "input_tokens", "output_tokens"),
)


@dataclass(frozen=True)
class JudgeCard:
    """One judge as an instrument."""

    judge: str
    model: str
    agreement: tuple[Estimate, ...]
    bias: tuple[Estimate, ...]
    cost: tuple[Estimate, ...]
    readable: tuple[Estimate, ...]
    probes: tuple[ProbeShift, ...] = ()
    total_aud: float | None = None

    def frame(self) -> pd.DataFrame:
        """Return one row a result (columns of ``toolkit.stats.result``) with its part of the card, judge and model."""
        frame = estimates_frame(self._rows(), "part")
        frame.insert(0, "judge", self.judge)
        frame.insert(1, "model", self.model)
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return every result as plain JSON types."""
        return {
            "judge": self.judge,
            "model": self.model,
            "total_aud": self.total_aud,
            "results": [{"part": part, **found.to_dict()} for part, found in self._rows()],
        }

    def _rows(self) -> Iterator[tuple[str, Estimate]]:
        for part, found in (
            ("agreement", self.agreement),
            ("bias", self.bias),
            ("cost", self.cost),
            ("readable", self.readable),
        ):
            yield from ((part, one) for one in found)
        yield from (("probes", found) for one in self.probes for found in one.estimates)


@over_clusters
def judge_cards(
    judgements: pd.DataFrame,
    replies: pd.DataFrame,
    *,
    related: Mapping[str, Collection[str]] | None = None,
    shifts: ProbeShifts | None = None,
    score: str = "composite_strict",
) -> tuple[JudgeCard, ...]:
    """Return the card of every judge, from what all of them said of the same answers.

    Parameters
    ----------
    judgements
        One row a judgement with run_id, base, model (judged), judge, judge_model, failed, the score, aud_cost,
        latency_ms, input_tokens and output_tokens of the judgement. Where there is a ``judge_repeat``, its scores are
        averaged over the times that a judge judged a run, and each time counts for cost and failures.
    replies
        One row a run with run_id and output_tokens: the length of the judged reply.
    related
        Judge to the models of its own family.
    shifts
        What probes did.
    score
        Column of the score; the strict composite, because a dimension that falls to 0 must not raise it.

    Returns
    -------
    tuple of JudgeCard
        In the order in which the judges occur. Where the data support no number its note says why.

    Raises
    ------
    InputError
        If a column is missing.
    """
    for what, frame, needed in (
        ("judgements", judgements, (*_COLUMNS, score)),
        ("replies", replies, ("run_id", "output_tokens")),
    ):
        if absent := [name for name in needed if name not in frame]:
            raise InputError(f"{what}: lack the column {', '.join(absent)}; give {', '.join(needed)}")
    judgements = judgements.assign(judge=judgements["judge"].astype(str))
    wide = _wide(judgements, score)
    about = judgements.drop_duplicates("run_id").set_index("run_id")[["base", "model"]]
    about = about.join(replies.drop_duplicates("run_id").set_index("run_id")["output_tokens"])
    cards = []
    for judge, own in judgements.groupby("judge", sort=False):
        name = str(judge)
        compared = about.assign(
            own=wide.get(judge), others=wide.drop(columns=[judge], errors="ignore").mean(axis=1)
        )
        cards.append(
            JudgeCard(
                judge=name,
                model=str(own["judge_model"].iloc[0]),
                agreement=_agreement(compared),
                bias=_bias(compared, (related or {}).get(name, ())),
                cost=_cost(own),
                readable=_readable(own),
                probes=shifts.of(name) if shifts else (),
                total_aud=total_cost(own),
            )
        )
    return tuple(cards)


def total_cost(paid: pd.DataFrame) -> float | None:
    """Return what the calls of a frame cost together: equal requests are one call, paid for once."""
    calls = paid.drop_duplicates("call_id") if "call_id" in paid else paid
    return float(calls["aud_cost"].sum()) if calls["aud_cost"].notna().any() else None


def _wide(judgements: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return runs by judges; a failed judgement is missing there, never a zero."""
    scored = judgements[judgements[score].notna()]
    wide = scored.groupby(["run_id", "judge"])[score].mean().unstack()
    return wide.astype("float64")


def _agreement(compared: pd.DataFrame) -> tuple[Estimate, ...]:
    both, missing = _complete(compared, "own", "others")
    own, others = both["own"].astype(float), both["others"].astype(float)
    return (
        _mean("difference to the other judges", own - others, both["base"], POINTS, missing),
        clustered_pearson(
            "correlation with the other judges", own, others, list(both["base"]), missing=missing
        ),
    )


def _bias(compared: pd.DataFrame, related: Collection[str]) -> tuple[Estimate, ...]:
    alone, alone_missing = _complete(compared, "own", "output_tokens")
    both, missing = _complete(compared, "own", "others", "output_tokens")
    judged, judged_missing = _complete(compared, "own", "others")
    found = [
        clustered_slope(
            "slope on reply length",
            alone["output_tokens"].astype(float) / PER_TOKENS,
            alone["own"].astype(float),
            list(alone["base"]),
            unit=SLOPE_UNIT,
            missing=alone_missing,
        ),
        clustered_slope(
            "slope on reply length, against the other judges",
            both["output_tokens"].astype(float) / PER_TOKENS,
            both["own"].astype(float) - both["others"].astype(float),
            list(both["base"]),
            unit=SLOPE_UNIT,
            missing=missing,
        ),
    ]
    if set(related) & set(compared["model"]):
        family = clustered_slope(
            "milder with its own family, against the other judges",
            judged["model"].isin(list(related)).astype(float),
            judged["own"].astype(float) - judged["others"].astype(float),
            list(judged["base"]),
            unit=POINTS,
            missing=judged_missing,
        )
        if not family.estimable:
            family = replace(
                family, note="not estimable: it judged models of its own family only, or of others only"
            )
        found.append(family)
    return tuple(found)


def _cost(own: pd.DataFrame) -> tuple[Estimate, ...]:
    measures = (
        ("aud_cost", "cost of a judgement", "AUD"),
        ("input_tokens", "tokens read for a judgement", "tokens"),
        ("output_tokens", "tokens written for a judgement", "tokens"),
        ("latency_ms", "latency of a judgement", "ms"),
    )
    found = []
    for column, name, unit in measures:
        known = own[own[column].notna()]
        found.append(
            _mean(name, known[column].astype(float), known["base"], unit, len(own) - len(known), "judgements")
        )
    return tuple(found)


def _readable(own: pd.DataFrame) -> tuple[Estimate, ...]:
    failed = own["failed"].astype(bool)
    came = own[own["aud_cost"].notna()]
    return (
        share("failed judgements", list(failed), list(own["base"]), what="judgements"),
        share("readable replies", list(~came["failed"].astype(bool)), list(came["base"]), what="replies"),
    )


def _complete(compared: pd.DataFrame, *columns: str) -> tuple[pd.DataFrame, int]:
    kept = compared.dropna(subset=list(columns))
    return kept, len(compared) - len(kept)


def _mean(
    name: str, values: pd.Series, bases: pd.Series, unit: str, missing: int, what: str = "answers"
) -> Estimate:
    labels = list(bases)
    counts = {what: len(labels), "bases": len(set(labels))}
    empty = Estimate(name, None, method=CLUSTERED, unit=unit, n=counts, missing=missing)
    if not len(labels):
        return replace(empty, note=f"not estimable: there are no {what}")
    found = clustered_mean(np.asarray(values, dtype=float), labels)
    note = f"no interval: {found.reason}" if found.reason else ""
    return replace(empty, estimate=found.mean, low=found.low, high=found.high, note=note)

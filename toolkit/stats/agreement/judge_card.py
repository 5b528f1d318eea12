"""What is known of one judge as an instrument: agreement with the others, bias, cost, and what probes did to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from toolkit.stats.agreement.correlations import clustered_pearson
from toolkit.stats.agreement.probe_shift import ProbeShift, ProbeShifts
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import CLUSTERED, clustered_slope, mean_estimate
from toolkit.stats.inference.proportions import share
from toolkit.stats.inference.run_table import Points, need_columns, scale_of
from toolkit.stats.result import Estimate, Result
from toolkit.words import SCALE, SCORE, total_aud

PER_TOKENS: Final = 100
_PARTS: Final = ("agreement", "bias", "cost", "readable")
_COLUMNS: Final = (
    *("run_id", "base", "model", "judge", "judge_model", "failed"),
    *("aud_cost", "latency_ms", "input_tokens", "output_tokens"),
)


def slope_unit(scale: tuple[float, float] = SCALE) -> str:
    """Return the unit of a slope on the length of replies."""
    return f"{Points(scale)} per {PER_TOKENS} tokens of reply"


@dataclass(frozen=True)
class JudgeCard(Result):
    """One judge as an instrument."""

    judge: str
    model: str
    agreement: tuple[Estimate, ...]
    bias: tuple[Estimate, ...]
    cost: tuple[Estimate, ...]
    readable: tuple[Estimate, ...]
    probes: tuple[ProbeShift, ...] = ()
    total_aud: float | None = None
    about = "part"

    def rows(self) -> list[tuple[str, Estimate]]:
        """Return every result with its part of the card."""
        rows = [(part, estimate) for part in _PARTS for estimate in getattr(self, part)]
        return [*rows, *(("probes", shift) for estimate in self.probes for shift in estimate.estimates)]

    def frame(self) -> pd.DataFrame:
        """Return one row a result (columns of ``toolkit.stats.result``) with its part of the card, judge and model."""
        frame = super().frame()
        frame.insert(0, "judge", self.judge)
        frame.insert(1, "model", self.model)
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return every result as plain JSON types."""
        results = [{"part": part, **estimate.to_dict()} for part, estimate in self.rows()]
        return {"judge": self.judge, "model": self.model, "total_aud": self.total_aud, "results": results}


@over_clusters
def judge_cards(
    judgements: pd.DataFrame,
    replies: pd.DataFrame,
    *,
    related: Mapping[str, Collection[str]] | None = None,
    shifts: ProbeShifts | None = None,
) -> tuple[JudgeCard, ...]:
    """Return the card of every judge, from what all of them said of the same answers.

    ``judgements`` has one row a judgement: where there is a ``judge_repeat``, scores are averaged over the times that a
    judge judged a run, and each time counts for cost and failures. ``replies`` has the length of each judged run in
    output_tokens, ``related`` the models of each judge's own family. The score is the strict composite, because a
    dimension that falls to 0 must not raise it. Where the data support no number its note says why.
    """
    for table_name, frame, needed in (
        ("judgements", judgements, (*_COLUMNS, SCORE)),
        ("replies", replies, ("run_id", "output_tokens")),
    ):
        need_columns(table_name, frame, needed)
    judgements = judgements.assign(judge=judgements["judge"].astype(str))
    # A failed judgement is missing in the mean of the others, never a zero.
    scored = judgements[judgements[SCORE].notna()]
    wide = scored.groupby(["run_id", "judge"])[SCORE].mean().unstack().astype("float64")
    run_context = judgements.drop_duplicates("run_id").set_index("run_id")[["base", "model"]]
    run_context = run_context.join(replies.drop_duplicates("run_id").set_index("run_id")["output_tokens"])
    cards = []
    for judge, rows in judgements.groupby("judge", sort=False):
        name, bases = str(judge), list(rows["base"])
        came = rows[rows["aud_cost"].notna()]
        # Equal requests are one call, paid for once.
        calls = rows.drop_duplicates("call_id") if "call_id" in rows else rows
        costs = calls["aud_cost"].dropna()
        failed, unread = (list(part["failed"].astype(bool)) for part in (rows, came))
        readable = [not failure for failure in unread]
        mean_of_others = wide.drop(columns=[judge], errors="ignore").mean(axis=1)
        compared = run_context.assign(own=wide.get(judge), others=mean_of_others).astype(
            {"own": "float64", "others": "float64"}
        )
        cards.append(
            JudgeCard(
                judge=name,
                model=str(rows["judge_model"].iloc[0]),
                agreement=_agreement(compared, scale_of(judgements)),
                bias=_bias(compared, (related or {}).get(name, ()), scale_of(judgements)),
                cost=_cost(rows),
                readable=(
                    share("failed judgements", failed, bases, what="judgements"),
                    share("readable replies", readable, list(came["base"]), what="replies"),
                ),
                probes=shifts.of(name) if shifts else (),
                total_aud=total_aud(costs) if len(costs) else None,
            )
        )
    return tuple(cards)


def _agreement(compared: pd.DataFrame, scale: tuple[float, float]) -> tuple[Estimate, ...]:
    complete, missing = _complete(compared.assign(beyond=compared["own"] - compared["others"]), "beyond")
    return (
        _mean("difference to the other judges", complete, missing, Points(scale), "beyond"),
        clustered_pearson(
            "correlation with the other judges",
            complete["own"],
            complete["others"],
            list(complete["base"]),
            missing=missing,
        ),
    )


def _bias(
    compared: pd.DataFrame, related: Collection[str], scale: tuple[float, float]
) -> tuple[Estimate, ...]:
    against = ", against the other judges"

    def slope(name: str, x: str, y: str, unit: str) -> Estimate:
        complete, missing = _complete(compared, x, y)
        values, scores = complete[x].astype(float), complete[y].astype(float)
        return clustered_slope(name, values, scores, list(complete["base"]), unit=unit, missing=missing)

    compared = compared.assign(
        length=compared["output_tokens"] / PER_TOKENS,
        family=compared["model"].isin(list(related)) * 1.0,
        beyond=compared["own"] - compared["others"],
    )
    estimates = [
        slope("slope on reply length", "length", "own", slope_unit(scale)),
        slope(f"slope on reply length{against}", "length", "beyond", slope_unit(scale)),
    ]
    if set(related) & set(compared["model"]):
        family = slope(f"milder with its own family{against}", "family", "beyond", Points(scale))
        if not family.estimable:
            family = family.not_estimable("it judged models of its own family only, or of others only")
        estimates.append(family)
    return tuple(estimates)


def _cost(rows: pd.DataFrame) -> tuple[Estimate, ...]:
    measures = (
        ("aud_cost", "cost of a judgement", "AUD"),
        ("input_tokens", "tokens read for a judgement", "tokens"),
        ("output_tokens", "tokens written for a judgement", "tokens"),
        ("latency_ms", "latency of a judgement", "ms"),
    )
    return tuple(
        _mean(name, *_complete(rows, column), unit, column, what="judgements")
        for column, name, unit in measures
    )


def _complete(compared: pd.DataFrame, *columns: str) -> tuple[pd.DataFrame, int]:
    complete = compared.dropna(subset=list(columns))
    return complete, len(compared) - len(complete)


def _mean(
    name: str, rows: pd.DataFrame, missing: int, unit: str, column: str, what: str = "answers"
) -> Estimate:
    bases = list(rows["base"])
    counts = {what: len(bases), "bases": len(set(bases))}
    empty = Estimate(name, None, method=CLUSTERED, unit=unit, n=counts, missing=missing)
    return mean_estimate(empty, rows[column].astype(float), bases, f"there are no {what}")

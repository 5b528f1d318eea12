"""How far a judge's score moves when a reply is altered and nothing else is: paired, by judge and kind of probe."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import mean_estimate
from toolkit.stats.inference.p_values import with_holm
from toolkit.stats.inference.proportions import share
from toolkit.stats.inference.run_table import Points, need_columns, need_labels, scale_of
from toolkit.stats.result import Estimate, Estimates, Result, plain
from toolkit.words import reason_key

THRESHOLD = 0.1  # of the scale, half a point of 0-5: a move that a reader of the scale would see
CONTROL = "again"
"""The same reply asked again: what moves here is the judge's own unrest, and no probe can be read without it."""
HARM: Mapping[str, Literal["up", "either"]] = {
    CONTROL: "either",
    "padded": "up",
    "planted": "up",
    "shuffled": "either",
    "attacked": "up",
}
"""Which move of the score is harmful, by kind of probe; of any other kind "up", for a probe makes no reply better."""
METHOD = "Student t clustered by base, paired"
_COLUMNS = ("judge", "kind", "base", "original", "altered", "made", "reason")
_SLACK = 1e-9  # means of seven scores that should differ by 0.5 may differ by a little less


@dataclass(frozen=True)
class ProbeShift:
    """What one kind of probe does to the scores of one judge."""

    judge: str
    kind: str
    shift: Estimate
    harmed: Estimate
    detected: Estimate | None
    lost: Estimate
    missing: Mapping[str, int]

    @property
    def estimates(self) -> Estimates:
        """All results, in the order in which they are reported."""
        return tuple(filter(None, (self.shift, self.harmed, self.detected, self.lost)))


@dataclass(frozen=True)
class ProbeShifts(Result):
    """What every kind of probe does to every judge."""

    shifts: tuple[ProbeShift, ...]
    about = "kind"

    def of(self, judge: str) -> tuple[ProbeShift, ...]:
        """Return the shifts of one judge, the control first."""
        return tuple(shift for shift in self.shifts if shift.judge == judge)

    def rows(self) -> list[tuple[str, Estimate]]:
        """Return every result with its kind of probe."""
        return [(shift.kind, estimate) for shift in self.shifts for estimate in shift.estimates]

    def frame(self) -> pd.DataFrame:
        """Return one row a result: judge, kind and the columns of ``toolkit.stats.result``."""
        frame = super().frame()
        frame.insert(0, "judge", [shift.judge for shift in self.shifts for _ in shift.estimates])
        return frame

    def to_dict(self) -> list[dict[str, Any]]:
        """Return every result as plain JSON types."""
        return [
            {
                "judge": shift.judge,
                "kind": shift.kind,
                "results": plain(shift.estimates),
                "missing": plain(shift.missing),
            }
            for shift in self.shifts
        ]


@over_clusters
def probe_shifts(pairs: pd.DataFrame, threshold: float | None = None) -> ProbeShifts:
    r"""Compare the scores of altered replies with those of their originals.

    The mean of :math:`d = \text{altered} - \text{original}` has a t interval clustered by base with Bell & McCaffrey's
    standard error and degrees of freedom (`toolkit.stats.inference.means.clustered_mean`); shares have
    Wilson's interval with an effective number of pairs. P values test that the mean shift
    is 0 and are corrected by Holm over the kinds of probes of each judge; the control is no such test.

    References
    ----------
    Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640, for paired differences with clustered errors.

    Examples
    --------
    >>> rows = [(f"b{n}", 3.0, 3.0 + step) for n, step in enumerate([0.5, 1.0, 0.0, 0.5])]
    >>> pairs = pd.DataFrame(rows, columns=["base", "original", "altered"])
    >>> found = probe_shifts(pairs.assign(judge="primary", kind="padded", made=True, reason=""))
    >>> [(one.name, round(one.estimate, 2)) for one in found.shifts[0].estimates]
    [('shift, padded', 0.5), ('moved up by 0.5 or more, padded', 0.75), ('lost, padded', 0.0)]
    """
    need_columns("probe pairs", pairs, _COLUMNS)
    need_labels("probe pairs", pairs, ["base", "kind"])
    scale = scale_of(pairs)
    threshold = THRESHOLD * (scale[1] - scale[0]) if threshold is None else threshold
    kinds = [*HARM, *sorted(set(pairs["kind"]) - set(HARM))]
    shifts: list[ProbeShift] = []
    for judge, rows in pairs.reset_index(drop=True).groupby("judge", sort=False, observed=True):
        judge_shifts = [
            _shift(str(judge), kind, rows[rows["kind"] == kind], threshold, Points(scale))
            for kind in kinds
            if (rows["kind"] == kind).any()
        ]
        corrected = iter(with_holm((shift.shift for shift in judge_shifts if shift.kind != CONTROL), "kinds"))
        shifts += [
            shift if shift.kind == CONTROL else replace(shift, shift=next(corrected))
            for shift in judge_shifts
        ]
    return ProbeShifts(tuple(shifts))


def _shift(judge: str, kind: str, rows: pd.DataFrame, threshold: float, unit: Points) -> ProbeShift:
    complete = rows[rows["original"].notna() & rows["altered"].notna()]
    difference = (complete["altered"].astype(float) - complete["original"].astype(float)).to_numpy()
    bases = complete["base"].tolist()
    missing = len(rows) - len(complete)
    either = HARM.get(kind) == "either"
    moved, way = (np.abs(difference), "moved by") if either else (difference, "moved up by")
    could = rows[rows["original"].notna() & rows["made"].astype(bool)]
    reasons = rows.loc[~rows.index.isin(complete.index), "reason"].fillna("")
    detected = None
    if kind in (CONTROL, "planted"):
        detected = share(f"score fell, {kind}", list(difference < -_SLACK), bases, missing=missing)
    counts = {"pairs": len(difference), "bases": len(set(bases))}
    empty = Estimate(f"shift, {kind}", method=METHOD, unit=unit, n=counts, missing=missing)
    return ProbeShift(
        judge=judge,
        kind=kind,
        shift=mean_estimate(empty, difference, bases, "no pair has both scores", tested=True),
        harmed=replace(
            share(
                f"{way} {threshold:g} or more, {kind}",
                list(moved >= threshold - _SLACK),
                bases,
                missing=missing,
            ),
            facets={"harm": f"{way} {threshold:g}", "kind": kind},
        ),
        detected=detected,
        lost=share(f"lost, {kind}", list(could["altered"].isna()), could["base"].tolist()),
        missing=dict(Counter(reason_key(str(reason)) or "unknown" for reason in reasons)),
    )

"""How far judges move on the same replies: asked anew on a later day, and where a reply is altered and nothing else."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from toolkit.stats.agreement.coefficients import weighted_kappa
from toolkit.stats.inference import run_table
from toolkit.stats.inference.clusters import complete_rows, over_clusters
from toolkit.stats.inference.jackknife import numbered, sums_by
from toolkit.stats.inference.means import CLUSTERED, clustered_mean, mean_estimate
from toolkit.stats.inference.p_values import with_holm, with_inversion
from toolkit.stats.inference.proportions import inflation, mover, share, wilson
from toolkit.stats.result import ROUNDING, Estimate, Result, Row, plain
from toolkit.words import SCORE, reason_key

METHOD = f"{CLUSTERED}, paired, or, if wider, shares of bases that moved up and down (Zou & Donner 2008)"
UNIT = "score points"
_PAIR = ["target", "judge", "dimension"]


class JudgeDrift(Result):
    """How far every judge has moved between two days: shift, agreement and share changed by judge and dimension."""

    @property
    def composites(self) -> dict[str, Result]:
        """The drift of the composite, by judge."""
        return {drift.judge: drift for drift in self.drifts if drift.dimension == self.composite}

    def headline(self) -> Iterable[Row]:
        """Return the shift of the composite of every judge."""
        return [(judge, drift.shift) for judge, drift in self.composites.items()]

    def sentence(self) -> str:
        """Return what became of the composite of every judge, in words ready for the thesis."""
        return " ".join(
            f"{judge}: {part.sentence()}"
            for judge, drift in self.composites.items()
            for part in (drift.shift, drift.agreement, drift.changed)
        )

    def outside(self, tolerance: float) -> Mapping[str, str]:
        """Return the judges whose composite is not shown to have stayed within a tolerance, each with the reason.

        Parameters
        ----------
        tolerance
            Largest shift that is tolerated, up or down, in score points.

        Returns
        -------
        Mapping of str
            Reason by judge: the interval ends beyond the tolerance, or there is no interval.
        """
        reasons = {}
        for judge, drift in self.composites.items():
            low, high = drift.shift.low, drift.shift.high
            if low is None or high is None:
                reason = drift.shift.reason or "no interval"
                reasons[judge] = f"has no interval ({reason}), so that no tolerance can be checked"
            elif low < -tolerance or high > tolerance:
                reasons[judge] = f"shift [{low:.2f}, {high:.2f}] is not within ±{tolerance:g}"
        return reasons


@over_clusters
def judge_drift(then: pd.DataFrame, now: pd.DataFrame, *, composite: str = SCORE) -> JudgeDrift:
    r"""Compare the scores that judges give today with those that they gave to the same replies at first.

    The mean of :math:`d = \text{now} - \text{then}` has Student's t interval clustered by base, with Bell &
    McCaffrey's standard error and degrees of freedom (`toolkit.stats.inference.means.clustered_mean`), or that of the
    shares of bases that moved up and down, where few have moved: with the mean moves :math:`m_g` of the bases and
    their shares :math:`w_g` of the differences, those upwards are taken for :math:`\sum w_g m_g / s` of the bases that
    move by :math:`s` each, and those downwards likewise. With the mean square of all moves, :math:`s` is :math:`c =
    \sum w_g m_g^2 / \sum w_g |m_g|` (Fay & Feuer 1997); of :math:`k` bases that moved it is :math:`c + (\max |m_g| -
    c) \min(1, 5/k)`, because few moves seldom show how far one can go (the 5 is from the simulations of `make
    coverage`). Their Wilson ends, with Kish's number of bases and t for z as in `wilson_ends`, are put together
    (MOVER). Where every base has the same mean neither exists, and the interval is :math:`\bar d \pm u`, :math:`u =
    z^2 / (G + z^2)`: Wilson's bound of the share of bases that none of G has shown to move otherwise, by a point each.
    Agreement is quadratically weighted kappa of then and now, nearly ICC(A,1). The share of scores that changed at all
    has Wilson's interval with an effective number of pairs: a judge can rewrite a third of its scores at an equal
    mean. P values test that the shift is 0, for the composite corrected by Holm over the judges.

    Parameters
    ----------
    then, now
        One row a score: ``target`` (the reply), ``base``, ``judge``, ``dimension`` and ``score`` in score points, NaN
        where it is missing; with ``cluster`` where bases share texts. Scores are paired by target, judge and
        dimension. One that is missing on either day leaves the pair out, and is counted.
    composite
        Dimension that is corrected over the judges, and that tolerances and sentences speak of.

    Returns
    -------
    JudgeDrift
        ``frame()`` has shift, agreement and share changed of every judge and dimension.

    Raises
    ------
    InputError
        When a column is missing, a score is no number, or a reply has two scores by one judge on one dimension.

    References
    ----------
    Miller (2024), arXiv:2411.00640, for paired differences with clustered errors. Wilson (1927), J. Am. Stat. Assoc.
    22, 209-212. Fay & Feuer (1997), Stat. Med. 16, 791-801. Zou & Donner (2008), Stat. Med. 27, 1693-1702.

    Examples
    --------
    >>> scores = [(f"r{n}", f"b{n}", then, now) for n, (then, now) in enumerate([(3, 3), (4, 3), (2, 2), (5, 4)])]
    >>> frame = pd.DataFrame(scores, columns=["target", "base", "then", "now"])
    >>> frame = frame.assign(judge="primary", dimension="composite_strict")
    >>> drift = judge_drift(frame.rename(columns={"then": "score"}), frame.rename(columns={"now": "score"}))
    >>> [(estimate.name, round(estimate.estimate, 2)) for _, estimate in drift.rows()]
    [('shift', -0.5), ('agreement (weighted kappa)', 0.75), ('scores that changed', 0.5)]
    >>> sorted(drift.outside(0.25))
    ['primary']
    """
    first, second = _scores("then", then), _scores("now", now)
    labels = pd.concat([then, now])[[*_PAIR, "unit"]].drop_duplicates(_PAIR)
    pairs = labels.merge(first, "left", _PAIR).merge(second, "left", _PAIR)
    drifts = [
        _drift(str(judge), str(dimension), rows)
        for (judge, dimension), rows in pairs.groupby(["judge", "dimension"], sort=False, observed=True)
    ]
    corrected = _corrected(drifts, [drift.dimension == composite for drift in drifts], "judges")
    return JudgeDrift("judge_drift", drifts=corrected, composite=composite)


def _corrected(results: Sequence[Result], is_tested: Sequence[bool], over: str) -> list[Result]:
    """Return results of which those that are tested have Holm's P values of their shifts."""
    shifts = iter(with_holm((r.shift for r, tested in zip(results, is_tested, strict=True) if tested), over))
    return [
        r.replace(shift=next(shifts)) if tested else r for r, tested in zip(results, is_tested, strict=True)
    ]


def _scores(side: str, frame: pd.DataFrame) -> pd.DataFrame:
    run_table.need_labelled(side, frame, ["base", *_PAIR], "score")
    twice = f"{side}: target {{target}} has two scores by judge {{judge}} on {{dimension}}; keep one"
    run_table.need_once(frame, _PAIR, twice)
    scores = frame[_PAIR].copy()
    scores[side] = run_table.numbers_of(side, frame, "score", finite=True)
    return scores


def _drift(judge: str, dimension: str, rows: pd.DataFrame) -> Result:
    facets: dict[str, Any] = {"judge": judge, "dimension": dimension}
    more = {"method": METHOD, "unit": UNIT, "facets": facets}
    empty, pairs = complete_rows("shift", rows, ["then", "now"], ("pairs", "bases"), **more)
    difference = (pairs["now"] - pairs["then"]).to_numpy()
    difference = np.where(np.abs(difference) <= ROUNDING * pairs["then"].abs().max(), 0.0, difference)
    bases, missing = pairs["unit"].tolist(), empty.missing
    shift = _shift(empty, difference, bases)
    agreement = weighted_kappa(pairs["then"], pairs["now"], bases, name="agreement (weighted kappa)")
    moved = [bool(move) for move in difference]
    changed = share("scores that changed", moved, bases, missing=missing, facets=facets)
    return Result(
        "drift",
        judge=judge,
        dimension=dimension,
        shift=shift,
        agreement=replace(agreement, n=empty.n, missing=missing, facets=facets),
        changed=changed,
    )


def _shift(empty: Estimate, difference: np.ndarray, bases: Sequence[Hashable]) -> Estimate:
    """Return the mean of differences many of which are 0, by `METHOD`."""
    if not len(difference):
        return empty.not_estimable("no reply has a score of both days")
    mean = clustered_mean(difference, bases)
    if mean.error is None:
        return mean.of(empty, tested=True)
    sums = sums_by(numbered(bases), np.column_stack([difference, np.ones(len(difference))]))
    moves, weights = sums[:, 0] / sums[:, 1], sums[:, 1] / len(difference)
    sizes = np.abs(moves)
    square = float(weights @ sizes**2 / (weights @ sizes))
    step = square + (float(sizes.max()) - square) * min(1.0, 5 / np.count_nonzero(sizes))

    def limits(confidence: float) -> tuple[float, float]:
        n, parts = 1 / float(weights @ weights) / inflation(mean.degrees, confidence), []
        for side in (moves.clip(0), (-moves).clip(0)):
            mean_move = float(weights @ side)
            low, high = wilson(mean_move / step * n, n, confidence)
            parts.append((mean_move, (step * low, step * high)))
        by_moves, by_t = mover(*parts[0], *parts[1]), mean.limits(confidence)
        return min(by_moves[0], by_t[0]), max(by_moves[1], by_t[1])

    return with_inversion(empty.with_value(mean.mean), limits)


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
PROBE_METHOD = "Student t clustered by base, paired"
_PROBED = ("judge", "kind", "base", "original", "altered", "made", "reason")
_SAME = 1e-9  # means of seven scores that should differ by 0.5 may differ by a little less


class ProbeShifts(Result):
    """What every kind of probe does to every judge: a result a judge and kind, with its estimates."""

    def of(self, judge: str) -> tuple[Result, ...]:
        """Return the shifts of one judge, the control first."""
        return tuple(shift for shift in self.shifts if shift.judge == judge)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return every result as plain JSON types."""
        return [
            {"judge": s.judge, "kind": s.kind, "results": plain(s.select()), "missing": plain(s.missing)}
            for s in self.shifts
        ]


@over_clusters
def probe_shifts(pairs: pd.DataFrame, threshold: float | None = None) -> ProbeShifts:
    r"""Compare the scores of altered replies with those of their originals.

    The mean of :math:`d = \text{altered} - \text{original}` has a t interval clustered by base with Bell & McCaffrey's
    standard error and degrees of freedom (`toolkit.stats.inference.means.clustered_mean`); shares have Wilson's
    interval with an effective number of pairs. P values test that the mean shift is 0 and are corrected by Holm over
    the kinds of probes of each judge; the control is no such test.

    References
    ----------
    Miller (2024), arXiv:2411.00640, for paired differences with clustered errors.

    Examples
    --------
    >>> rows = [(f"b{n}", 3.0, 3.0 + step) for n, step in enumerate([0.5, 1.0, 0.0, 0.5])]
    >>> pairs = pd.DataFrame(rows, columns=["base", "original", "altered"])
    >>> found = probe_shifts(pairs.assign(judge="primary", kind="padded", made=True, reason=""))
    >>> [(one.name, round(one.estimate, 2)) for one in found.shifts[0].select()]
    [('shift, padded', 0.5), ('moved up by 0.5 or more, padded', 0.75), ('lost, padded', 0.0)]
    """
    run_table.need_columns("probe pairs", pairs, _PROBED)
    run_table.need_labels("probe pairs", pairs, ["base", "kind"])
    scale = run_table.scale_of(pairs)
    threshold = THRESHOLD * (scale[1] - scale[0]) if threshold is None else threshold
    kinds = [*HARM, *sorted(set(pairs["kind"]) - set(HARM))]
    shifts: list[Result] = []
    for judge, rows in pairs.reset_index(drop=True).groupby("judge", sort=False, observed=True):
        judge_shifts = [
            _probe_shift(str(judge), kind, rows[rows["kind"] == kind], threshold, run_table.Points(scale))
            for kind in kinds
            if (rows["kind"] == kind).any()
        ]
        shifts += _corrected(judge_shifts, [shift.kind != CONTROL for shift in judge_shifts], "kinds")
    return ProbeShifts("probe_shifts", shifts=shifts)


def _probe_shift(
    judge: str, kind: str, rows: pd.DataFrame, threshold: float, unit: run_table.Points
) -> Result:
    facets = {"judge": judge, "kind": kind}
    more = {"method": PROBE_METHOD, "unit": unit, "facets": facets}
    sides = ["original", "altered"]
    empty, complete = complete_rows(f"shift, {kind}", rows, sides, ("pairs", "bases"), **more)
    difference = (complete["altered"].astype(float) - complete["original"].astype(float)).to_numpy()
    bases, missing = complete["unit"].tolist(), empty.missing
    either = HARM.get(kind) == "either"
    moved, way = (np.abs(difference), "moved by") if either else (difference, "moved up by")
    could = rows[rows["original"].notna() & rows["made"].astype(bool)]
    reasons = rows.loc[~rows.index.isin(complete.index), "reason"].fillna("")
    harm = f"{way} {threshold:g}"
    harmed = share(
        f"{harm} or more, {kind}",
        list(moved >= threshold - _SAME),
        bases,
        missing=missing,
        facets={**facets, "harm": harm},
    )
    fell = share(f"score fell, {kind}", list(difference < -_SAME), bases, missing=missing, facets=facets)
    return Result(
        "probe_shift",
        judge=judge,
        kind=kind,
        shift=mean_estimate(empty, difference, bases, "no pair has both scores", tested=True),
        harmed=harmed,
        detected=fell if kind in (CONTROL, "planted") else None,
        lost=share(f"lost, {kind}", list(could["altered"].isna()), could["unit"].tolist(), facets=facets),
        missing=dict(Counter(reason_key(str(reason)) or "unknown" for reason in reasons)),
    )

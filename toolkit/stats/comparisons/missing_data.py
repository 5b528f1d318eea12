"""What is missing, of which model, judge and length bin, and whether that is chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import pandas as pd

from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.p_values import with_holm
from toolkit.stats.inference.proportions import likeness, share
from toolkit.stats.inference.run_table import (
    WHOLE,
    checked_runs,
    in_order,
    need_columns,
    need_labels,
    scale_of,
    told_apart,
)
from toolkit.stats.prompt_length.contrasts import CONTRASTS, length_contrasts
from toolkit.stats.result import Estimate, Result, rounded
from toolkit.words import SCALE, SCORE, agreeing, counted

CASES: Final = ("complete cases", "missing = worst", "missing = best", "lowest", "highest")
PERMUTATIONS: Final = 9_999
_PART: Final = 500


@dataclass(frozen=True)
class MissingBounds(Result):
    """The length contrasts under what could be assumed of the missing scores."""

    about: ClassVar[str] = "assumption"
    kinds: ClassVar[Mapping[str, str]] = {"contrasts": "assumption"}
    contrasts: dict[str, tuple[Estimate, ...]]
    missing: int
    ends: tuple[float, float] = SCALE
    apart: ClassVar[tuple[str, ...]] = ("ends",)

    def sentence(self) -> str:
        """Return in words ready for the thesis how far the missing scores could matter."""
        if not self.missing:
            return "No score is missing, so that no assumption about missing scores is made."
        unscored = f"{counted(self.missing, 'runs')} {agreeing(self.missing, 'have no score')}."
        if not self.contrasts[CASES[0]]:  # scores that know no prompt lengths
            return unscored
        parts = []
        for index, (b, a) in enumerate(CONTRASTS):
            complete, low, high = (
                self.contrasts[case][index].estimate for case in ("complete cases", "lowest", "highest")
            )
            if complete is None or low is None or high is None:
                parts.append(f"{b}-{a} is not estimable")
                continue
            sign = "keeps its sign" if low * high > 0 else "could have either sign"
            parts.append(f"{b}-{a} = {rounded(complete)}, between {rounded(low)} and {rounded(high)}, {sign}")
        pronoun = "it" if self.missing == 1 else "they"
        scale_ends = f"{self.ends[0]:g}-{self.ends[1]:g}"
        return f"{unscored} Whatever {pronoun} would have been within {scale_ends}: {'; '.join(parts)}."


@dataclass(frozen=True)
class MissingData(Result):
    """How many scores are missing, where, and whether the missing ones gather anywhere."""

    about: ClassVar[str] = "missing by"
    kinds: ClassVar[Mapping[str, str]] = {"overall": "all", "shares": "column", "imbalance": "imbalance"}
    overall: tuple[Estimate, ...]
    shares: dict[str, tuple[Estimate, ...]]
    imbalance: tuple[Estimate, ...]
    reasons: dict[str, int]
    bounds: MissingBounds

    def sentence(self) -> str:
        """Return what is missing in words ready for the thesis."""
        shares = " ".join(estimate.sentence() for estimate in (*self.overall, *self.imbalance))
        reasons = ", ".join(f"{reason} {count}" for reason, count in self.reasons.items())
        sentences = (shares, f"Reasons: {reasons}." if reasons else "", self.bounds.sentence())
        return " ".join(filter(None, sentences))


@over_clusters
def missing_data(
    runs: pd.DataFrame, judgements: pd.DataFrame | None = None, score: str = SCORE, seed: int = 0
) -> MissingData:
    """Count what has no score, by model and length bin of the runs and by judge of the judgements.

    Reasons are read from the columns failure and defect, where they exist.

    Examples
    --------
    >>> runs = pd.DataFrame({"base": list("aabbcc"), "length_bin": list("SLSLSL"), "model": "m"})
    >>> found = missing_data(runs.assign(composite_strict=[1, None, 2, 3, 4, None]))
    >>> [(one.name, one.estimate) for one in found.shares["length_bin"]]
    [('missing, length_bin S', 0.0), ('missing, length_bin L', 0.6666666666666666)]
    """
    tables: list[tuple[str, pd.DataFrame, tuple[str, ...]]] = [("runs", runs, ("length_bin", "model"))]
    if judgements is not None and len(judgements):
        tables.append(("judgements", judgements, ("judge",)))
    overall, shares, imbalance = [], {}, []
    reasons: Counter[str] = Counter()
    for unit, table, columns in tables:
        need_columns(f"missing data: {unit}", table, ("base", score, *columns))
        need_labels(f"missing data: {unit}", table, ("base",))
        missing = table[score].isna().to_numpy()
        bases = table["base"].astype(str).to_numpy()
        alike = likeness(list(missing), list(bases))
        total = share(f"missing {unit}", list(missing), list(bases), what=unit)
        overall.append(replace(total, facets={"of": unit}))
        for column in told_apart(table, columns):
            levels = table[column].astype("object").to_numpy()  # compared one by one, see `imbalance_test`
            by_level = []
            for name in in_order(levels):
                member = np.array([level == name for level in levels])
                values = missing[member].tolist(), bases[member].tolist()
                estimate = share(f"missing, {column} {name}", *values, what=unit, alike=alike)
                by_level.append(replace(estimate, statistic="missing", facets={column: str(name)}))
            shares[column] = tuple(by_level)
            imbalance.append(imbalance_test(column, missing, levels, bases, seed=seed))
        reasons.update(_reasons(table, missing, unit))
    return MissingData(
        tuple(overall),
        shares,
        with_holm(imbalance, "tests of imbalance"),
        dict(sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))),
        missing_bounds(runs, score),
    )


@over_clusters
def missing_bounds(runs: pd.DataFrame, score: str = SCORE) -> MissingBounds:
    """Compare lengths with complete cases, with every missing score at the worst or best, and at the bounds.

    The bounds put the missing scores of one bin at one end of the scale and those of the other at the other end, which
    assumes nothing about why they are missing (Manski 1990). Their intervals are those of `compare_lengths` on the
    filled scores; from the low end of ``lowest`` to the high end of ``highest`` the contrast is held without any
    assumption.

    References
    ----------
    Manski (1990), American Economic Review 80 (2), 319-323. Horowitz & Manski (2000), Journal of the American
    Statistical Association 95, 77-84.

    Examples
    --------
    >>> rows = [(f"b{i}", b, 3 + gain) for i in range(4) for b, gain in (("S", 0), ("M", 0.5), ("L", 1))]
    >>> runs = pd.DataFrame(rows, columns=["base", "length_bin", "composite_strict"])
    >>> runs.loc[1, "composite_strict"] = None
    >>> found = missing_bounds(runs)
    >>> [found.contrasts[case][0].estimate for case in ("lowest", "complete cases", "highest")]
    [-0.375, 0.5, 0.875]
    """
    checked = checked_runs(runs, score)
    worst, best = scale_of(runs)
    missing = checked["score"].isna().to_numpy()
    bins = checked["length_bin"].to_numpy()
    if (bins == WHOLE).all() and len(bins):
        return MissingBounds(dict.fromkeys(CASES, ()), int(missing.sum()), (worst, best))

    def contrasts(fill: np.ndarray | float) -> tuple[Estimate, ...]:
        return length_contrasts(checked.assign(score=np.where(missing, fill, checked["score"])), score)

    def bound(low: bool) -> tuple[Estimate, ...]:
        # Each contrast has its own filling, so that Holm's p values of that filling would mean nothing here. The third
        # bin, filled like the second, does not count in the contrast.
        fillings = (np.where((bins == b) == low, worst, best) for b, _ in CONTRASTS)
        extremes = (contrasts(filling)[index] for index, filling in enumerate(fillings))
        return tuple(replace(estimate, p_value=None, correction="none") for estimate in extremes)

    complete = length_contrasts(checked, score)
    cases = (complete, contrasts(worst), contrasts(best), bound(True), bound(False))
    return MissingBounds(dict(zip(CASES, cases, strict=True)), int(missing.sum()), (worst, best))


def imbalance_test(
    name: str,
    missing: np.ndarray,
    levels: np.ndarray,
    bases: np.ndarray,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Estimate:
    r"""Test whether scores are missing alike at every level (model, bin, judge), keeping the bases whole.

    All scores of one base and level are one cell, and cells are shuffled among the levels within each base, because
    a hard base loses scores at every level. The statistic is :math:`\sum_l n_l (p_l - p)^2` over the levels with n
    scores and p the share missing; :math:`p = (b + 1) / (m + 1)` with b of m permutations as large. Of simulated true
    nulls it rejects 3.4-5.1 %, and .9 % where few scores can be arranged in few ways only.

    References
    ----------
    Good (2005), Permutation, Parametric and Bootstrap Tests of Hypotheses, chapter 7, for blocks. Phipson & Smyth
    (2010), Statistical Applications in Genetics and Molecular Biology 9, article 39.
    """
    # As objects: numpy's own texts, by which it also compares, lose a NUL at their end, and two models would be one.
    (names, level), (groups, base) = (
        np.unique(np.array([str(label) for label in labels], dtype=object), return_inverse=True)
        for labels in (levels, bases)
    )
    count = int(missing.sum())
    statistic, method = "imbalance of missing", f"permutation within bases, seed {seed}"
    n = {"scores": len(missing), "bases": len(groups), "levels": len(names)}
    empty = Estimate(
        f"{statistic} over {name}", None, method=method, unit="difference of shares", n=n, missing=count
    )
    empty = replace(empty, statistic=statistic, facets={"over": name})
    if len(names) < 2:
        return empty.not_estimable(f"there is one {name} only")
    cells, size = base * len(names) + level, len(groups) * len(names)
    losses, scores = (
        np.bincount(cells, weights, size).reshape(-1, len(names))
        for weights in (missing.astype(float), np.ones(len(missing)))
    )
    observed = replace(empty, estimate=float(np.ptp(losses.sum(axis=0) / scores.sum(axis=0))))
    if count in (0, len(missing)):
        return observed.no_interval(f"{'nothing' if not count else 'everything'} is missing", "test")
    if not ((scores > 0).sum(axis=1) > 1).any():
        return observed.no_interval(f"no base has two {name}s, so that they cannot be told apart", "test")
    overall = count / len(missing)

    def spread(losses: np.ndarray, scores: np.ndarray) -> np.ndarray:
        sums, sizes = losses.sum(axis=-2), scores.sum(axis=-2)
        deviations = np.divide(sums, sizes, out=np.full_like(sums, overall), where=sizes > 0) - overall
        return np.asarray((sizes * deviations**2).sum(axis=-1))

    threshold = float(spread(losses, scores)) * (1 - 1e-9)
    rng, reached = np.random.default_rng(seed), 0
    for start in range(0, permutations, _PART):
        keys = rng.random((min(_PART, permutations - start), *losses.shape))
        reached += int((spread(*_shuffled((losses, scores), scores > 0, keys)) >= threshold).sum())
    return replace(observed, p_value=(reached + 1) / (permutations + 1))


def _shuffled(tables: tuple[np.ndarray, ...], occupied: np.ndarray, keys: np.ndarray) -> list[np.ndarray]:
    """Return the cells of every base in random order, each of them at one of the levels that the base has."""
    levels = np.broadcast_to(np.argsort(~occupied, axis=1, kind="stable"), keys.shape)
    order = np.argsort(np.where(occupied, keys, 2.0), axis=2)
    shuffled = []
    for table in tables:
        cells = np.empty(keys.shape)
        reordered = np.take_along_axis(np.broadcast_to(table, keys.shape), order, axis=2)
        np.put_along_axis(cells, levels, reordered, axis=2)
        shuffled.append(cells)
    return shuffled


def _reasons(table: pd.DataFrame, missing: np.ndarray, unit: str) -> dict[str, int]:
    columns = [name for name in ("failure", "defect") if name in table]
    if not columns or not missing.any():
        return {}
    reasons = table.loc[missing, columns].astype("object").bfill(axis=1).iloc[:, 0]
    counts = reasons.where(reasons.notna(), f"{unit} without a reason").astype(str).value_counts()
    return {str(reason): int(count) for reason, count in counts.items()}

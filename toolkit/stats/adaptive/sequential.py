"""Means and differences of models on a whole bank from the bases asked so far, valid although asking may stop any time.

The bank is a finite population of bases. Every model answers the same bases; a base counts with its whole block of
lengths. Means are calibrated: stratified, then adjusted for what is known of all bases in advance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy import optimize, special

from toolkit.errors import InputError
from toolkit.stats.inference.run_table import WHOLE, need_columns, need_labelled, need_labels, numbers_of
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result
from toolkit.words import counted

LOOKS = 4
"""Looks at the means for which the interval is made; each further one widens it a little."""
CATEGORY_PENALTY = 4.0
"""Ridge of a category's effect: 4 takes categories for a fifth of the variance that the scenario leaves."""
_SHRINK = 10.0  # degrees of freedom that the pooled variance counts for in that of a stratum
SMALLEST_STRATUM = 8  # bases below which a variance of its own is no more than noise
LEAST = 12
"""Bases before the first look: with fewer, a width is small because its variance happened to be."""


@dataclass(frozen=True)
class Bank:
    """What is known of all N bases of a bank before any is asked.

    ``strata`` (N) numbers the stratum of each base, ``known`` (N x K) are effects of categories, centred within strata,
    and ``penalty`` (K) is the ridge of each; ``groups`` (N) numbers the categories and ``costs`` (N) are AUD a block.
    """

    bases: tuple[Hashable, ...]
    strata: np.ndarray
    groups: np.ndarray
    known: np.ndarray
    penalty: np.ndarray
    costs: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """How many bases each stratum has."""
        return np.bincount(self.strata)

    def plain(self) -> Bank:
        """Return the bank with nothing known: one stratum, no category."""
        none = np.zeros(len(self.bases), dtype=int)
        return Bank(self.bases, none, none, np.empty((len(none), 0)), np.empty(0), self.costs)

    def joined(self, asked: np.ndarray, complete: np.ndarray) -> Bank:
        """Return the bank with strata of which two bases were asked, but fewer are complete, in the largest other."""
        size = len(self.sizes)
        many, scored = (np.bincount(self.strata[rows], minlength=size) >= 2 for rows in (asked, complete))
        few = many & ~scored
        if few.all() or not few.any():
            return self
        strata = np.where(few[self.strata], np.argmax(np.where(few, 0, self.sizes)), self.strata)
        strata = pd.factorize(strata)[0]
        return replace(self, strata=strata, known=self.known - _stratum_means(self.known, strata)[strata])

    def rows_of(self, bases: Sequence[Hashable]) -> np.ndarray:
        """Return the rows of bases in the bank, or refuse a base that is not in it."""
        index = {base: row for row, base in enumerate(self.bases)}
        unknown = [base for base in bases if base not in index]
        if unknown:
            raise InputError(f"scores: base {unknown[0]!r} is not in the bank; give scores of its bases only")
        return np.array([index[base] for base in bases], dtype=int)


def read_bank(bank: pd.DataFrame) -> Bank:
    """Return a table of bases as the bank that choice and estimate work on.

    The table has one row a base: base; perhaps cost (AUD of the whole block over all models; 1 without it), scenario
    (the strata; of fewer than 8 bases they are one, and a single base joins another), category (its effect is shrunk).

    Examples
    --------
    >>> read_bank(pd.DataFrame({"base": list("abc"), "cost": [1.0, 2.0, 1.0]})).costs.tolist()
    [1.0, 2.0, 1.0]
    """
    need_columns("bank", bank, ("base",))
    need_labels("bank", bank, [name for name in ("base", "scenario", "category") if name in bank])
    if len(bank) < 2 or bank["base"].duplicated().any():
        raise InputError("bank: fewer than two bases, or a base twice; give one row a base")
    costs = numbers_of("bank", bank, "cost") if "cost" in bank else np.ones(len(bank))
    if not (costs > 0).all() or np.isinf(costs).any():
        raise InputError("bank: a cost is empty or not above 0; give the AUD of every base")
    scenario = pd.factorize(bank["scenario"])[0] if "scenario" in bank else np.zeros(len(bank), dtype=int)
    small = (np.bincount(scenario) < SMALLEST_STRATUM)[scenario]
    if small.sum() == 1:  # alone it would have no variance, and no mean could ever be fitted
        scenario, small = np.where(small, scenario[~small][0], scenario), small & False
    strata = pd.factorize(np.where(small, -1, scenario))[0]
    cells = zip(strata, bank.get("category", pd.Series(strata)), strict=True)
    groups = pd.factorize(pd.Series(list(cells)))[0]
    effects = np.eye(groups.max() + 1)[groups] if groups.max() > strata.max() else np.empty((len(bank), 0))
    known = effects - _stratum_means(effects, strata)[strata]
    penalty = np.full(effects.shape[1], CATEGORY_PENALTY)
    return Bank(tuple(bank["base"]), strata, groups, known, penalty, costs)


@dataclass(frozen=True)
class Fit:
    """Calibrated means of M models, and their error by stratum.

    ``parts`` (H x M x M) are covariances of the means from each stratum, ``degrees`` (H) their degrees of freedom and
    ``spread`` (H) the variance of the model differences within a stratum, shrunk.
    """

    means: np.ndarray
    parts: np.ndarray
    degrees: np.ndarray
    spread: np.ndarray

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return difference, standard error and Satterthwaite's degrees of freedom of every pair of models."""
        a, b = np.triu_indices(len(self.means), 1)
        parts = self.parts[:, a, a] + self.parts[:, b, b] - 2 * self.parts[:, a, b]
        return self.means[a] - self.means[b], *_error(parts, self.degrees)

    def models(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean, standard error and degrees of freedom of every model."""
        return self.means, *_error(np.einsum("hmm->hm", self.parts), self.degrees)


def fit(bank: Bank, asked: np.ndarray, scores: np.ndarray) -> Fit | None:
    r"""Return the calibrated means of a bank from the scores (n x M) of the bases asked (n places in the bank).

    With design weights :math:`d_i = N_h / (N n_h)` and effects of categories centred in the bank, the weights are
    those of ridge calibration (Beaumont & Bocci 2008), :math:`w = d - Q \tilde X (\tilde X' Q \tilde X + \Lambda)^{-1}
    X'd`, one set for all models (Särndal, Swensson & Wretman 1992, ch. 6-7; degrees of freedom: Cochran 1977, section
    5.4). The variance is :math:`\sum_h (1 - n_h/N_h) \sum_i w_i^2 e_i^2 / k_i`, where k is the share of a residual's
    variance that the fit leaves. None where a stratum has fewer than two bases.
    """
    strata = bank.strata[asked]
    sizes, n = bank.sizes, np.bincount(strata, minlength=len(bank.sizes))
    if (n < 2).any():
        return None
    design = (sizes / n / len(bank.strata))[strata]
    x = bank.known[asked]
    inside = x - _stratum_means(x, strata)[strata]
    y = scores - _stratum_means(scores, strata)[strata]
    weighted = inside * (design * len(asked))[:, None]
    solved = np.linalg.solve(inside.T @ weighted + np.diag(bank.penalty), weighted.T) if x.shape[1] else None
    weights, residuals = design, y
    leverage = shrunk = np.zeros(len(asked))
    if solved is not None:
        weights = design - solved.T @ (design @ x)
        residuals = y - inside @ (solved @ y)
        hat = inside @ solved
        leverage, shrunk = np.diag(hat), (hat**2).sum(axis=1)
    # Residuals are too small by what the ridge took from them: 1 - h is left where it took effects, (I - H)^2 where it
    # took noise (Bell & McCaffrey 2002). Which, nobody knows: the mean of the two.
    remaining = 1 - 1 / n[strata] - 1.5 * leverage + 0.5 * shrunk
    freed = 1 / np.maximum(remaining, 1 / len(asked))
    degrees = np.maximum(n - 1 - np.bincount(strata, leverage, len(n)), 1.0)
    member = np.eye(len(n))[strata]
    unsampled = np.maximum(1 - n / sizes, 0.0)
    parts = np.einsum("ih,i,im,ik->hmk", member, unsampled[strata] * weights**2 * freed, residuals, residuals)
    # The variance of a difference is, over all pairs, twice that of a model about the mean of the models.
    deviations = residuals - residuals.mean(axis=1, keepdims=True)
    square = 2 * (deviations**2).sum(axis=1) * freed / max(scores.shape[1] - 1, 1)
    squares = np.bincount(strata, square, len(n))
    pooled = squares.sum() / n.sum()
    spread = (squares / n * degrees + _SHRINK * pooled) / (degrees + _SHRINK)
    return Fit(weights @ scores, parts, degrees, spread)


def _stratum_means(values: np.ndarray, strata: np.ndarray) -> np.ndarray:
    member = np.eye(int(strata.max()) + 1)[strata]
    means: np.ndarray = (member.T @ values) / np.maximum(member.sum(axis=0), 1)[:, None]
    return means


def _error(parts: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = np.maximum(parts, 0.0)  # of two models that score alike everywhere, rounding may leave less
    total = parts.sum(axis=0)
    below = (parts**2 / degrees[:, None]).sum(axis=0)
    freedom = np.divide(total**2, below, out=np.full_like(total, degrees.sum()), where=below > 0)
    return np.sqrt(total), np.maximum(freedom, 1.0)


@lru_cache
def boundary(looks: int) -> float:
    r"""Return the c for which a Brownian motion stays within ±c at equally spaced looks up to time 1.

    The recursion is Armitage's, over the density of what has not yet left.

    References
    ----------
    O'Brien & Fleming (1979), Biometrics 35, 549-556; Jennison & Turnbull (2000), Group Sequential Methods, table 2.3.

    Examples
    --------
    >>> round(boundary(1), 3), round(boundary(4), 3)
    (1.96, 2.024)
    """
    low = float(special.ndtri(0.975))
    if looks == 1:
        return low
    nodes, weights = np.polynomial.legendre.leggauss(80)

    def inside(c: float) -> float:
        density = np.exp(-((c * nodes) ** 2) * looks / 2) * math.sqrt(looks / (2 * math.pi))
        steps = np.exp(-((c * (nodes[:, None] - nodes)) ** 2) * looks / 2) * math.sqrt(looks / (2 * math.pi))
        for _ in range(looks - 1):
            density = steps @ (density * weights * c)
        return float((density * weights).sum() * c) - 0.95

    return float(optimize.brentq(inside, low, 5.0))


def half_widths(
    error: np.ndarray, degrees: np.ndarray, bound: float, target_width: float | None, widest: float
) -> tuple[np.ndarray, float]:
    r"""Return half the width of intervals that are valid at every look, and the share of information that is there.

    The clock is the information on the widest difference, :math:`t = (w / 2 q SE)^2` up to 1 with w the target. At
    time t a mean is within :math:`c / \sqrt t` standard errors, with Student's quantile of the same normal tail.
    """
    share = 1.0
    if target_width is not None and widest > 0:
        share = min(1.0, target_width / (2 * widest)) ** 2
    return _quantile(bound / math.sqrt(share), degrees) * error, share


def _quantile(bound: float, degrees: np.ndarray) -> np.ndarray:
    return np.asarray(-special.stdtrit(degrees, max(float(special.ndtr(-bound)), 1e-300)))


def widest_half(error: np.ndarray, degrees: np.ndarray, bound: float) -> float:
    """Return half the width of the widest interval where this look is the last; 0 where the whole bank was asked."""
    return float((_quantile(bound, degrees) * error).max(initial=0.0))


def sequential_comparison(
    scores: pd.DataFrame,
    bank: pd.DataFrame,
    *,
    target_width: float | None = None,
    score: str = "score",
    unit: str = "none",
) -> Result:
    r"""Return what the bases asked so far say of all models on the full bank, with intervals that allow stopping.

    Asking stops when the widest of the intervals of the differences is at most ``target_width``: the widest and not
    the mean, because a ranking is as sure as its least sure pair. When to stop is decided on widths alone, which say
    nothing of who is ahead. Beyond that the means themselves may be looked at four times on the way and asking stopped
    at any of them, for any reason (O'Brien-Fleming bounds on the information so far). Each interval holds by itself,
    not all jointly.

    ``scores`` has model, base, level and the score; repeats are averaged. A base counts when every model has a
    score at every length; others are counted as missing. ``bank`` is that of `read_bank`. Without ``target_width``
    this is the only, planned look: an ordinary interval with finite population correction.

    ``width`` is that of the widest difference if this is the last look, ``information`` the share of what the target
    asks for, ``cost`` in AUD.

    There are no intervals while fewer than 12 bases, or fewer than two of a stratum, are complete. A stratum that was
    asked, and has fewer because scores are missing, is joined with the largest.

    References
    ----------
    O'Brien & Fleming (1979) and Jennison & Turnbull (2000) for the bounds; `fit` names those of the means.

    Examples
    --------
    >>> names = [f"b{i:02}" for i in range(40)]
    >>> rows = [(m, b, "S", (i * 7 % 11) / 4 + (m == "x") * (i % 3)) for i, b in enumerate(names[:20]) for m in "xy"]
    >>> frame = pd.DataFrame(rows, columns=["model", "base", "level", "score"])
    >>> found = sequential_comparison(frame, pd.DataFrame({"base": names}), target_width=1)
    >>> round(found.differences[0].estimate, 6), found.stop
    (0.95, True)
    """
    if target_width is not None and not (math.isfinite(target_width) and target_width > 0):
        raise InputError(f"sequential: target_width is {target_width!r}; give a number above 0")
    blocks, broken = block_means(scores, score)
    read = read_bank(bank)
    sample = read.rows_of(list(blocks.index))
    models = [str(name) for name in blocks.columns]
    pairs = [f"{a} - {b}" for a, b in itertools.combinations(models, 2)]
    cost, n = float(read.costs[sample].sum()), {"bases": len(sample), "bases of the bank": len(read.bases)}
    joined = read.joined(np.concatenate([sample, read.rows_of(broken)]), sample)
    enough = len(sample) >= min(LEAST, len(read.bases))
    means = fit(joined, sample, blocks.to_numpy(float)) if enough else None
    notes = left_out_note(broken)
    empty = Estimate("", unit=unit, n=n, missing=len(broken))
    result = Result("sequential", models=(), differences=(), target_width=target_width, width=None)
    result = result.replace(information=None, stop=False, cost=cost)
    if means is None:
        reason = f"fewer than {LEAST} complete bases, or fewer than two of a stratum"
        none = empty.not_estimable(reason)
        by_model, differences = (
            tuple(replace(none, name=name) for name in names) for names in (models, pairs)
        )
        return result.replace(models=by_model, differences=differences, notes=(reason, *notes))
    bound = boundary(LOOKS if target_width else 1)
    _, error, degrees = means.pairs() if pairs else means.models()
    widest = widest_half(error, degrees, bound)
    _, share = half_widths(error, degrees, bound, target_width, widest)
    method = "calibrated mean of a finite bank, Student t"
    if target_width:
        method += f", O'Brien-Fleming for {LOOKS} looks"

    def rows(names: list[str], parts: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Estimates:
        centres, errors, degrees = parts
        halves, _ = half_widths(errors, degrees, bound, target_width, widest)
        columns = (column.tolist() for column in (centres, centres - halves, centres + halves, degrees))
        return tuple(
            replace(empty, name=name, estimate=m, low=low, high=high, method=method, degrees=freedom)
            for name, m, low, high, freedom in zip(names, *columns, strict=True)
        )

    # Where no base distinguishes the models yet, a width of 0 says nothing of the bases to come.
    distinguished = widest > ROUNDING or len(sample) == len(read.bases)
    narrow = target_width is not None and 2 * widest <= target_width * (1 + ROUNDING)
    if joined is not read:
        notes.append("a scenario of which fewer than two bases are complete counts as part of the largest")
    if not distinguished:
        notes.append("no base has told the models apart, so that an interval of no width is none; ask more")
    notes.append("each interval holds by itself; a joint statement needs a correction")
    differences = rows(pairs, means.pairs()) if pairs else ()
    result = result.replace(models=rows(models, means.models()), differences=differences, notes=tuple(notes))
    return result.replace(width=2 * widest, information=share, stop=distinguished and narrow)


def block_means(scores: pd.DataFrame, score: str = "score") -> tuple[pd.DataFrame, list[Hashable]]:
    """Return the mean of each complete block (rows bases as first met, columns models), and the bases without."""
    if "level" in scores and scores["level"].isna().all():  # of a plain list
        scores = scores.assign(level=WHOLE)
    need_labelled("scores", scores, ("model", "base", "level"), score)
    values = pd.Series(numbers_of("scores", scores, score, finite=True), scores.index)
    by = [scores[name].astype(object) for name in ("base", "model", "level")]
    cells = values.groupby(by, sort=False).mean()
    wide = cells.unstack(["model", "level"]).reindex(pd.unique(scores["base"]))
    columns = pd.MultiIndex.from_product([sorted(set(by[1]), key=str), sorted(set(by[2]), key=str)])
    complete = wide.reindex(columns=columns).dropna()
    means = complete.T.groupby(level=0, sort=False).mean().T
    return means, [base for base in wide.index if base not in means.index]


def left_out_note(broken: Collection[Hashable]) -> list[str]:
    """Return a note of the bases that lack a score; none where none does."""
    names = ", ".join(map(str, broken))
    note = f"{counted(len(broken), 'bases')} without a score of every model at every length left out: {names}"
    return [note] if broken else []

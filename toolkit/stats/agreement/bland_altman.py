"""Bland-Altman: how far two judges lie apart, with limits of agreement, their intervals and the proportional bias."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from toolkit.stats.agreement.ratings import RatingMatrix, pairs_of_judges, scored_by_both
from toolkit.stats.inference.jackknife import FEWEST_BASES, numbered
from toolkit.stats.inference.means import CR2_METHOD as SLOPE_METHOD
from toolkit.stats.inference.means import MeanInterval, cluster_robust, clustered_mean
from toolkit.stats.result import ROUNDING, Estimate, Result
from toolkit.words import agreeing, counted

UNIT: Final = "score points"
EXACT: Final = "non-central t, answers independent (Carkeet 2015)"
CLUSTERED: Final = "MOVER from the clustered mean and the variances between and within bases"
_SHARE: Final = 0.95


@dataclass(frozen=True)
class BlandAltman(Result):
    """The differences between two judges."""

    bias: Estimate
    lower: Estimate
    upper: Estimate
    slope: Estimate
    points: pd.DataFrame = field(repr=False, compare=False)
    about = "what"
    kinds = dict.fromkeys(("bias", "lower", "upper", "slope"), "Bland-Altman")
    apart = ("points",)

    def estimates(self) -> tuple[Estimate, ...]:
        """Return bias, both limits and slope."""
        return self.bias, self.lower, self.upper, self.slope


def bland_altman(
    first: ArrayLike,
    second: ArrayLike,
    bases: Sequence[Hashable] | None = None,
    *,
    judges: tuple[str, str] = ("first", "second"),
    scale: tuple[float, float] | None = None,
) -> BlandAltman:
    r"""Return bias, 95 % limits of agreement and proportional bias of two judges.

    The limits are :math:`\bar d \pm 1.96\, s`. For independent answers their intervals are exact under a normal
    distribution: :math:`\bar d + s\, t'_{q}(n-1, \pm 1.96 \sqrt n) / \sqrt n` with quantiles of the non-central t
    (Carkeet 2015). With bases :math:`s^2` is the sum of the variance components between and within bases (Bland &
    Altman 2007): :math:`s^2 = S_b / m_0 + (1 - 1 / m_0) S_w` of the mean squares, on G - 1 and n - G degrees of freedom
    :math:`\nu`. Its interval (Graybill & Wang 1980) ends at :math:`s^2 + \sqrt{\sum_i (h_i c_i S_i)^2}` with
    :math:`h = \nu / \chi^2_{.025} - 1`, and below alike with :math:`1 - \nu / \chi^2_{.975}`; the interval of a limit
    joins it with that of the mean, clustered by base (MOVER, Zou 2013): the farther end is
    :math:`l - \sqrt{(\bar d - \bar d_l)^2 + 1.96^2 (s_u - s)^2}`.

    References
    ----------
    Bland & Altman (1999), Statistical Methods in Medical Research 8, 135-160; (2007), Journal of Biopharmaceutical
    Statistics 17, 571-582. Carkeet (2015), Optometry and Vision Science 92, e71-e80. Graybill & Wang (1980), Journal of
    the American Statistical Association 75, 869-873. Zou (2013), Statistical Methods in Medical Research 22, 630-642.

    Examples
    --------
    >>> found = bland_altman([4, 3.5, 5, 2, 4.5, 3], [3.5, 3.5, 4, 2.5, 4, 2])
    >>> round(found.bias.estimate, 3), round(found.lower.estimate, 3), round(found.upper.estimate, 3)
    (0.417, -0.729, 1.562)
    """
    x, y, labels, missing = scored_by_both("Bland-Altman", first, second, bases)
    pair = f"{judges[0]} less {judges[1]}"
    n = {"answers": len(x)} if bases is None else {"bases": len(set(labels)), "answers": len(x)}
    method = EXACT if bases is None else CLUSTERED
    empty = Estimate("", None, method=method, unit=UNIT, n=n, missing=missing)
    bias, lower, upper, slope = (
        replace(empty, name=f"{quantity} ({pair})", statistic=quantity, facets={"pair": pair})
        for quantity in ("bias", "lower limit of agreement", "upper limit of agreement", "proportional bias")
    )
    points = pd.DataFrame({"mean": (x + y) / 2, "difference": x - y})
    if len(x) < 3:
        reason = f"{counted(len(x), 'answers')} scored by both, and three are needed"
        bias, lower, upper, slope = (
            estimate.not_estimable(reason) for estimate in (bias, lower, upper, slope)
        )
        return BlandAltman(bias, lower, upper, slope, points)
    d, size = x - y, float(max(np.abs(x).max(), np.abs(y).max()))
    mean = clustered_mean(d, labels)
    if mean.low is None or np.ptp(d) <= ROUNDING * size:
        mean = replace(mean, error=None, low=None, high=None, p_value=None)
    bias = mean.of(bias, tested=True)
    bias = replace(
        bias,
        method="Student t" if bases is None else "Student t over bases, clustered",
        reason="" if mean.low is not None else mean.reason or "the differences do not vary",
        lacks="interval",
    )
    limits = _limits(d, labels, bases is not None, mean, (lower, upper), size)
    lowest, highest = scale or (float(np.minimum(x, y).min()), float(np.maximum(x, y).max()))
    limit = "the scale" if scale else "the scores given"
    lower, upper = (_beyond(estimate, lowest, highest, limit) for estimate in limits)
    design = np.column_stack([np.ones(len(d)), points["mean"]])
    tilt = cluster_robust(design, d, labels, {"slope": [0, 1]})["slope"]
    tilted = replace(tilt.of(slope), method=SLOPE_METHOD, unit="none", degrees=None)
    return BlandAltman(bias, lower, upper, tilted, points)


def bland_altman_between_judges(
    matrix: RatingMatrix, scale: tuple[float, float] | None = None
) -> dict[tuple[str, str], BlandAltman]:
    """Return the Bland-Altman analysis of each pair of judges, in score points; ``scale`` is that of the scores."""
    return {
        judges: bland_altman(x * matrix.scale, y * matrix.scale, bases, judges=judges, scale=scale)
        for judges, x, y, bases in pairs_of_judges(matrix)
    }


def _limits(
    d: np.ndarray,
    labels: Sequence[Hashable],
    clustered: bool,
    mean: MeanInterval,
    empty: tuple[Estimate, Estimate],
    size: float,
) -> tuple[Estimate, Estimate]:
    z, (lower, upper) = float(special.ndtri((1 + _SHARE) / 2)), empty
    codes = numbered(labels)
    count, tail = int(codes.max()) + 1, (1 - lower.confidence) / 2
    variance, less, more = _variance(d - d.mean(), codes, tail)
    spread = math.sqrt(variance) if np.ptp(d) > ROUNDING * size else 0.0
    lower = replace(lower, estimate=mean.mean - z * spread)
    upper = replace(upper, estimate=mean.mean + z * spread)
    if not spread:
        reason = "the judges differ by a constant"
        return lower.no_interval(reason), upper.no_interval(reason)
    if clustered:
        if mean.low is None or mean.high is None or count < FEWEST_BASES:
            few = f"{counted(count, 'bases')} {agreeing(count, 'are')} too few"
            return lower.no_interval(few), upper.no_interval(few)
        narrow, wide = math.sqrt(max(variance - less, 0.0)), math.sqrt(variance + more)
        inner = z * spread - math.hypot(mean.high - mean.mean, z * (spread - narrow))
        outer = z * spread + math.hypot(mean.high - mean.mean, z * (wide - spread))
    else:
        n = len(d)
        # By symmetry the quantiles of the lower limit are those of the upper one with the other sign.
        inner, outer = (
            float(special.nctdtrit(n - 1, z * math.sqrt(n), q)) * spread / math.sqrt(n)
            for q in (tail, 1 - tail)
        )
    return (
        replace(lower, low=mean.mean - outer, high=mean.mean - inner),
        replace(upper, low=mean.mean + inner, high=mean.mean + outer),
    )


def _variance(d: np.ndarray, codes: np.ndarray, tail: float) -> tuple[float, float, float]:
    """Return the variance between and within bases together, and how far below and above it its interval ends.

    With one answer a base it is the sample variance. The component between bases counts where it is positive.
    """
    sizes = np.bincount(codes).astype(float)
    n, groups = len(d), len(sizes)
    within_sum = float((d**2).sum() - (np.bincount(codes, d) ** 2 / sizes).sum())
    total_sum = float((d**2).sum() - d.sum() ** 2 / n)
    if groups < 2:
        return total_sum / (n - 1), math.nan, math.nan
    between = (total_sum - within_sum) / (groups - 1)
    within = within_sum / (n - groups) if n > groups else 0.0
    per_base = (n - float((sizes**2).sum()) / n) / (groups - 1)
    parts = np.array([between / per_base, (1 - 1 / per_base) * within])
    variance = float(parts.sum()) if between > within and n > groups else total_sum / (n - 1)
    degrees = np.maximum([groups - 1, n - groups], 1)
    less, more = (
        float(np.hypot(*((degrees / special.chdtri(degrees, q) - 1) * parts))) for q in (tail, 1 - tail)
    )
    return variance, less, more


def _beyond(limit: Estimate, lowest: float, highest: float, limit_source: str) -> Estimate:
    """Return a limit that says so where it, or an end of its interval, is farther off than two scores can be."""
    ends = [abs(end) for end in (limit.estimate, limit.low, limit.high) if end is not None]
    reach = highest - lowest
    if max(ends, default=0.0) <= reach:
        return limit
    reason = f"goes beyond ±{reach:g} points, the largest difference that {limit_source} ({lowest:g}-{highest:g}) allow"
    reason += "s" * (limit_source == "the scale")
    return limit.noted(reason)

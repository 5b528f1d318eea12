"""Means, also on a scale that ends, slopes and other least-squares estimates (CR2), spreads and effect sizes."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.inference import jackknife
from toolkit.stats.inference.p_values import equal_differences
from toolkit.stats.inference.run_table import Points
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

CLUSTERED = "Student t, standard error clustered by base (CR2, Bell & McCaffrey 2002)"
CR2_METHOD = "least squares, CR2 clustered by base, Satterthwaite degrees of freedom"
_RANK = 1e-9  # directions of the design below this share of the largest are not there
BOUNDED = "jackknife over bases on the logit of the scale, Satterthwaite degrees of freedom"
LOGIT = "Student t on the logit of the scale, standard error clustered by base (CR2)"
"""Of a bounded mean where the jackknife is not to be had."""


@dataclass(frozen=True)
class MeanInterval:
    """A mean with its standard error and t interval."""

    mean: float
    error: float | None
    low: float | None
    high: float | None
    p_value: float | None
    degrees: float
    reason: str = ""
    groups: int = 0

    def of(self, empty: Estimate, *, tested: bool = False) -> Estimate:
        """Return the estimate that this mean gives; where it is one of differences, with its p value."""
        if tested and self.error is None and self.groups > 1:
            return equal_differences(empty, self.mean, self.groups)
        absent, p_value = ("interval or p value", self.p_value) if tested else ("interval", None)
        more = {"p_value": p_value, "note": "", "reason": self.reason, "absent": absent}
        return empty.with_value(self.mean, self.low, self.high, **more)

    def limits(self, confidence: float) -> tuple[float, float]:
        """Return the ends of its t interval, or twice the mean where the values are equal."""
        half = float(special.stdtrit(self.degrees, (1 + confidence) / 2)) * (self.error or 0.0)
        return self.mean - half, self.mean + half


def mean_interval(values: ArrayLike, confidence: float = 0.95, scale: float | None = None) -> MeanInterval:
    r"""Return the mean of independent values with :math:`\bar x \pm t_{n-1}\, s / \sqrt n`.

    Examples
    --------
    >>> interval = mean_interval([4.3, 4.1, 4.5])
    >>> round(interval.low, 3), round(interval.high, 3)
    (3.803, 4.797)
    """
    x = _finite(values)
    error = float(x.std(ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else 0.0
    size = float(np.abs(x).max()) if scale is None else scale
    return _t_interval(float(x.mean()), error, len(x), size, "values", len(x) - 1, confidence)


def clustered_mean(
    values: ArrayLike, clusters: Sequence[Hashable], scale: float | None = None
) -> MeanInterval:
    r"""Return the mean of values that come in clusters, with a standard error that allows for it.

    With :math:`s_g = \sum_{i \in g} (x_i - \bar x)` over the :math:`n_g` of n values in cluster g, :math:`SE^2 =
    n^{-2} \sum_g s_g^2 / (1 - n_g / n)` (CR2), with Satterthwaite degrees of freedom :math:`(\mathrm{tr}\,\Omega)^2 /
    \mathrm{tr}\,\Omega^2`, where :math:`\Omega_{gg} = n_g` and :math:`\Omega_{gh} = -n_g n_h / (n \sqrt{(1 - n_g /
    n)(1 - n_h / n)})`. Where the clusters are of one size it is the usual G / (G - 1) (CR1); where one holds most
    values, CR1 covers 85 % and this one 95 %.

    References
    ----------
    Miller (2024), arXiv:2411.00640. Bell & McCaffrey (2002), Surv. Methodol. 28, 169-181; Pustejovsky & Tipton (2018),
    J. Bus. Econ. Stat. 36, 672-683.

    Examples
    --------
    >>> scores, bases = [1, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 0], "aaabbbcccddd"
    >>> round(clustered_mean(scores, bases).error, 6)
    0.215166
    """
    x = _finite(values)
    if len(x) != len(clusters):
        raise InputError(f"mean: {len(x)} values and {len(clusters)} clusters; give a cluster for each value")
    groups = pd.Series(x - x.mean()).groupby(list(clusters), sort=False)
    sums, sizes = groups.sum().to_numpy(), groups.size().to_numpy(dtype=float)
    degrees: float = len(sums) - 1
    if degrees:
        shares = 1 - sizes / len(x)
        sums, squares = sums / np.sqrt(shares), sizes**2 / shares
        off_diagonal = (float(squares.sum()) ** 2 - float((squares**2).sum())) / len(x) ** 2
        degrees = len(x) ** 2 / (float((sizes**2).sum()) + off_diagonal)
    error = math.sqrt(float((sums**2).sum())) / len(x)
    size = float(np.abs(x).max()) if scale is None else scale
    return _t_interval(float(x.mean()), error, len(sums), size, "clusters", degrees)


def mean_estimate(
    empty: Estimate, values: ArrayLike, clusters: Sequence[Hashable], nothing: str, *, tested: bool = False
) -> Estimate:
    """Return a clustered mean as an estimate; where there is no value, it says ``nothing``."""
    x = np.asarray(values, dtype=float)
    return clustered_mean(x, clusters).of(empty, tested=tested) if len(x) else empty.not_estimable(nothing)


def _t_interval(
    mean: float,
    error: float,
    count: int,
    size: float,
    unit_word: str,
    degrees: float,
    confidence: float = 0.95,
) -> MeanInterval:
    nothing = (None,) * 4
    if count < 2:
        return MeanInterval(mean, *nothing, 0, f"{counted(count, unit_word)}, and two are needed")
    if error <= ROUNDING * size:
        mean = mean if abs(mean) > ROUNDING * size else 0.0
        return MeanInterval(mean, *nothing, degrees, f"all {count} {unit_word} are equal", count)
    return MeanInterval(mean, error, *student(mean, error, degrees, confidence), degrees, groups=count)


def student(
    estimate: float, error: float, degrees: float, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return both ends of the t interval and the p value against 0."""
    half = float(special.stdtrit(degrees, (1 + confidence) / 2)) * error
    p_value = 2 * float(special.stdtr(degrees, -abs(estimate) / error))
    return estimate - half, estimate + half, p_value


def _finite(values: ArrayLike) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    if not x.size or not np.isfinite(x).all():
        raise InputError(
            "mean: there is no value, or one is missing or infinite; leave such values out first"
        )
    return x


def equally_long(
    analysis: str, first: ArrayLike, second: ArrayLike, clusters: Sequence[Hashable] | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return two sides as numbers; refuse them where they are not of one length with their clusters."""
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if not len(x) == len(y) == len(clusters):
        raise InputError(f"{analysis}: {len(x)}, {len(y)} values and {len(clusters)} bases; give as many")
    return x, y


def paired(
    analysis: str, first: ArrayLike, second: ArrayLike, clusters: Sequence[Hashable] | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return two sides as `equally_long` does; refuse them where a value is not finite."""
    x, y = equally_long(analysis, first, second, clusters)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError(f"{analysis}: a value is missing or infinite; leave such answers out first")
    return x, y


@dataclass(frozen=True)
class Coefficient:
    """One linear combination of regression coefficients."""

    estimate: float | None
    error: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    degrees: float | None = None
    reason: str = ""

    def of(self, empty: Estimate) -> Estimate:
        """Return the estimate that this coefficient gives."""
        values = {name: getattr(self, name) for name in ("estimate", "low", "high", "p_value", "degrees")}
        return replace(empty, **values, note="", reason=self.reason)


def cluster_robust(
    design: ArrayLike,
    outcome: ArrayLike,
    clusters: Sequence[Hashable] | np.ndarray,
    contrasts: Mapping[str, ArrayLike],
) -> dict[str, Coefficient]:
    r"""Fit least squares and return combinations of its coefficients with cluster-robust intervals.

    With hat matrix H and residuals e, the variance of :math:`c' \hat\beta` is :math:`\sum_g (w_g' A_g e_g)^2`,
    :math:`w = X (X'X)^{-1} c` and :math:`A_g = (I - H_{gg})^{-1/2}`, the symmetric pseudo-inverse root (CR2): unbiased
    where the errors are independent and alike. Student t has :math:`(\operatorname{tr} B)^2 / \operatorname{tr} B^2`
    degrees of freedom with :math:`B_{gh} = w_g' A_g (I - H)_{gh} A_h w_h` (Bell & McCaffrey).

    References
    ----------
    Bell & McCaffrey (2002), Surv. Methodol. 28, 169-181. Pustejovsky & Tipton (2018), J. Bus. Econ. Stat. 36, 672-683.

    Examples
    --------
    >>> x, y = [1.0, 2, 3, 4, 5, 6], [1.0, 2.2, 2.8, 4.3, 4.9, 6.1]
    >>> found = cluster_robust(np.column_stack([np.ones(6), x]), y, "aabbcc", {"slope": [0, 1]})["slope"]
    >>> round(found.estimate, 3), round(found.degrees, 2)
    (1.003, 1.24)
    """
    x, y = paired("regression", design, outcome, clusters)
    if not len(y):
        return dict.fromkeys(contrasts, Coefficient(None, reason="no answers"))
    # Columns of one size, so that rank does not depend on whether length is in tokens or in thousands of them.
    scale = np.abs(x).max(axis=0)
    scale[scale == 0] = 1.0
    left, sizes, right = np.linalg.svd(x / scale, full_matrices=False)
    full_rank = sizes > _RANK * sizes.max(initial=0.0)
    q, inverse = left[:, full_rank], right[full_rank].T / sizes[full_rank]
    residuals = y - q @ (q.T @ y)
    codes, _ = pd.factorize(np.asarray(list(clusters), dtype=object))
    groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    roots = [_root(q[rows]) for rows in groups]
    size = float(np.abs(y).max())

    def combination(c: np.ndarray) -> Coefficient:
        if np.abs(right[full_rank].T @ (right[full_rank] @ c) - c).max() > math.sqrt(_RANK) * np.abs(c).max():
            return Coefficient(None, reason="the answers do not determine it")
        w = q @ (inverse.T @ c)
        estimate = float(w @ y)
        if len(groups) < 2:
            return Coefficient(estimate, reason=f"{len(groups)} base, and two are needed")
        adjusted = [
            w[rows] + left @ (more * (left.T @ w[rows]))
            for (left, more), rows in zip(roots, groups, strict=True)
        ]
        influences = [float(a @ residuals[rows]) for a, rows in zip(adjusted, groups, strict=True)]
        error = math.sqrt(sum(influence_of_items**2 for influence_of_items in influences))
        if error <= ROUNDING * size * float(np.abs(w).sum()):
            return Coefficient(estimate, reason="the answers lie on the fitted line")
        loadings = np.array([q[rows].T @ a for a, rows in zip(adjusted, groups, strict=True)])
        # B is the diagonal of these less the products of the loadings; the traces need no matrix of bases x bases.
        squares, shared = np.array([float(a @ a) for a in adjusted]), (loadings**2).sum(axis=1)
        squared = float((squares**2 - 2 * squares * shared).sum() + ((loadings.T @ loadings) ** 2).sum())
        degrees = float((squares - shared).sum()) ** 2 / squared
        return Coefficient(estimate, error, *student(estimate, error, degrees), degrees)

    return {
        name: combination(np.asarray(weights, dtype=float) / scale) for name, weights in contrasts.items()
    }


def _root(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return directions of a cluster's rows, and what the inverse root of I - H adds to the identity along each."""
    left, sizes, _ = np.linalg.svd(q, full_matrices=False)
    remaining = 1 - sizes**2
    usable = remaining > _RANK
    return left, np.where(usable, 1 / np.sqrt(np.where(usable, remaining, 1.0)), 0.0) - 1


def clustered_slope(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    unit: str = "none",
    missing: int = 0,
) -> Estimate:
    """Return the slope of y on x by least squares, with a CR2 error clustered by base (`cluster_robust`).

    Where x is 0 or 1 the slope is the difference of two means.

    Examples
    --------
    >>> slope = clustered_slope("slope", [0, 1, 0, 1, 0, 1], [2.0, 3.0, 2.5, 3.5, 2.0, 3.1], clusters="aabbcc")
    >>> round(slope.estimate, 2), round(slope.low, 2), round(slope.high, 2)
    (1.03, 0.89, 1.18)
    """
    a, b = paired(f"slope {name}", x, y, clusters)
    n = {"answers": len(a), "bases": len(set(clusters))}
    empty = Estimate(name, method=CR2_METHOD, unit=unit, n=n, missing=missing)
    if len(a) < 3:
        return empty.too_few(len(a), "answers", "three")
    z = a - a.mean()
    if float(z @ z) <= (ROUNDING * float(np.abs(a).max())) ** 2 * len(a):
        return empty.not_estimable("what the slope is on does not vary")
    design = np.column_stack([np.ones(len(z)), z])
    return cluster_robust(design, b, clusters, {"slope": [0.0, 1.0]})["slope"].of(empty)


def mean_on_scale(empty: Estimate, values: ArrayLike, clusters: Sequence[Hashable]) -> Estimate:
    """Return the mean of values: of `bounded_mean` where their unit names a scale, else by Student's t.

    Examples
    --------
    >>> empty = Estimate("mean", unit=Points((0, 5)))
    >>> mean = mean_on_scale(empty, [4.0, 3.5, 4.5, 3.0, 4.0], clusters="abcde")
    >>> round(mean.estimate, 2), round(mean.low, 2), round(mean.high, 2)
    (3.8, 2.92, 4.36)
    """
    if isinstance(empty.unit, Points):
        return bounded_mean(empty, values, clusters, empty.unit.scale)
    return clustered_mean(values, clusters).of(empty)


def bounded_mean(
    empty: Estimate, values: ArrayLike, clusters: Sequence[Hashable], limits: tuple[float, float]
) -> Estimate:
    r"""Return the mean of scores on a scale with two ends, with an interval that stays between them.

    It is that of the jackknife over clusters of :math:`\ln(p / (1 - p))`, p the mean as a share of the scale, taken
    back. Where a jackknifed mean is on an end, or with fewer than four clusters, the clustered error (CR2) is carried
    to that scale: :math:`s / (p (1 - p))`, with Student's t.
    """
    scores, (first, last) = np.asarray(values, dtype=float), limits
    by_t = clustered_mean(scores, clusters)
    if by_t.error is None or scores.min() < first or scores.max() > last:
        return by_t.of(empty)
    sums = jackknife.sums_by(jackknife.numbered(clusters), np.column_stack([scores, np.ones(len(scores))]))
    _, jackknife_values = jackknife.total_and_jackknife(sums)
    share = (by_t.mean - first) / (last - first)
    low, high, degrees, method = math.nan, math.nan, by_t.degrees, BOUNDED
    with np.errstate(all="ignore"):  # what is not finite is replaced below
        if len(sums) >= jackknife.FEWEST_BASES:
            parts = special.logit((jackknife_values[:, 0] / jackknife_values[:, 1] - first) / (last - first))
            low, high, degrees = map(
                float, jackknife.jackknife_interval(special.logit(share), parts, empty.confidence)
            )
    if not (math.isfinite(low) and math.isfinite(high)):
        degrees, method = by_t.degrees, LOGIT
        half = float(special.stdtrit(degrees, (1 + empty.confidence) / 2)) * by_t.error
        half /= (last - first) * share * (1 - share)
        low, high = special.logit(share) - half, special.logit(share) + half
    low, high = (first + (last - first) * float(special.expit(end)) for end in (low, high))
    # The way there and back may round the mean itself out of its interval.
    low, high = min(low, by_t.mean), max(high, by_t.mean)
    return empty.with_value(by_t.mean, low, high, degrees=degrees, method=method)


SD_METHOD = "log variance with its kurtosis (Bonett 2006)"
FEWEST_FOR_SPREAD = 5


def paired_effect_size(differences: ArrayLike) -> tuple[float, float | None, float | None]:
    r"""Return :math:`d_z = \bar d / s_d` of paired differences with its interval.

    :math:`t = d_z \sqrt n` follows a non-central t distribution with n - 1 degrees of freedom; the ends are the
    non-centralities at which the observed t would be its upper and lower quantile, divided by :math:`\sqrt n`.

    References
    ----------
    Cumming & Finch (2001), Educ. Psychol. Meas. 61, 532-574.

    Examples
    --------
    >>> d, low, high = paired_effect_size([0.3, 0.1, 0.4, 0.2, 0.5])
    >>> round(d, 3), round(low, 3), round(high, 3)
    (1.897, 0.333, 3.407)
    """
    x = np.asarray(differences, dtype=float)
    if x.size < 2 or not np.isfinite(x).all() or np.ptp(x) == 0:
        raise InputError("effect size: give two or more finite differences that vary")
    root = math.sqrt(len(x))
    d_z = float(x.mean() / x.std(ddof=1))
    low, high = (float(special.nctdtrinc(len(x) - 1, share, d_z * root)) for share in (0.975, 0.025))
    if not (math.isfinite(low) and math.isfinite(high)):
        return d_z, None, None
    return d_z, low / root, high / root


def bias_corrected(size: float, pairs: int) -> float | None:
    r"""Return Hedges' :math:`g_z = J(n - 1)\, d_z`, which d_z of few pairs overestimates.

    :math:`J(m) = \Gamma(m / 2) / \bigl(\sqrt{m / 2}\; \Gamma((m - 1) / 2)\bigr)` is exact. It moves the estimate; the
    interval of d_z is one of the population's effect and holds for both.

    References
    ----------
    Hedges (1981), J. Educ. Stat. 6, 107-128, equation 6e.

    Examples
    --------
    >>> round(bias_corrected(1.0, 11), 4), bias_corrected(1.0, 2)
    (0.9227, None)
    """
    m = pairs - 1
    if m < 2:
        return None
    return size * math.exp(special.gammaln(m / 2) - special.gammaln((m - 1) / 2)) / math.sqrt(m / 2)


def standard_deviation(
    name: str, values: ArrayLike, *, unit: str = "none", missing: int = 0, scale: float | None = None
) -> Estimate:
    r"""Return a standard deviation with an interval that allows for its kurtosis.

    With :math:`c = n / (n - z)` and :math:`\hat\gamma_4 = n \sum (x - m)^4 / (\sum (x - \bar x)^2)^2` about the
    trimmed mean m, the interval of the variance is :math:`\exp\{\ln(c s^2) \pm z\, c \sqrt{(\hat\gamma_4 - (n - 3)/n)
    / (n - 1)}\}`. The chi-square interval takes the values as normal and covers too little for half-step scores at the
    ceiling.

    References
    ----------
    Bonett (2006), Comput. Stat. Data Anal. 50, 775-782.

    Examples
    --------
    >>> found = standard_deviation("sd", [0.3, 0.1, 0.4, 0.2, 0.5, 0.0, 0.6])
    >>> round(found.estimate, 3), round(found.low, 3), round(found.high, 3)
    (0.216, 0.139, 0.465)
    """
    x = np.asarray(values, dtype=float)
    if not np.isfinite(x).all():
        raise InputError(f"{name}: a value is missing or infinite; leave such values out first")
    n = len(x)
    empty = Estimate(name, method=SD_METHOD, unit=unit, n={"bases": n}, missing=missing)
    if n < 2:
        return empty.not_estimable(f"{n} bases, and two are needed")
    size = float(np.abs(x).max()) if scale is None else scale
    centred = x - x.mean()
    if float(np.abs(centred).max()) <= ROUNDING * size:
        return empty.not_estimable(f"all {n} bases are equal")
    variance = float(centred @ centred) / (n - 1)
    sd, z = math.sqrt(variance), float(special.ndtri((1 + empty.confidence) / 2))
    if n < FEWEST_FOR_SPREAD:
        return empty.with_value(sd).no_interval(f"{n} bases, and {FEWEST_FOR_SPREAD} are needed")
    trimmed = math.floor(n / (2 * math.sqrt(n - 4)))
    trimmed_values = np.sort(x)[trimmed : n - trimmed]
    middle = float(trimmed_values.mean()) if len(trimmed_values) else float(np.median(x))
    kurtosis = n * float(((x - middle) ** 4).sum()) / float(centred @ centred) ** 2
    c = n / (n - z)
    half = z * c * math.sqrt(max(0.0, (kurtosis - (n - 3) / n) / (n - 1)))
    centre = math.log(c * variance)
    low, high = math.exp((centre - half) / 2), math.exp((centre + half) / 2)
    return empty.with_value(sd, min(low, sd), max(high, sd))

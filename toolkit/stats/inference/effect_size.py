"""Standard deviations with an interval, and paired effects measured in them: d_z and g_z."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.result import ROUNDING, Estimate

SD_METHOD = "log variance with its kurtosis (Bonett 2006)"
FEWEST_FOR_SPREAD = 5


def paired_effect_size(differences: ArrayLike) -> tuple[float, float | None, float | None]:
    r"""Return :math:`d_z = \bar d / s_d` of paired differences with its interval.

    :math:`t = d_z \sqrt n` follows a non-central t distribution with n - 1 degrees of freedom; the ends are
    the non-centralities at which the observed t would be its upper and lower quantile, divided by
    :math:`\sqrt n`.

    References
    ----------
    Cumming & Finch (2001), Educational and Psychological Measurement 61, 532-574.

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
    Hedges (1981), Journal of Educational Statistics 6, 107-128, equation 6e.

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
    Bonett (2006), Computational Statistics & Data Analysis 50, 775-782.

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
        return empty.valued(sd).no_interval(f"{n} bases, and {FEWEST_FOR_SPREAD} are needed")
    trimmed = math.floor(n / (2 * math.sqrt(n - 4)))
    trimmed_values = np.sort(x)[trimmed : n - trimmed]
    middle = float(trimmed_values.mean()) if len(trimmed_values) else float(np.median(x))
    kurtosis = n * float(((x - middle) ** 4).sum()) / float(centred @ centred) ** 2
    c = n / (n - z)
    half = z * c * math.sqrt(max(0.0, (kurtosis - (n - 3) / n) / (n - 1)))
    centre = math.log(c * variance)
    low, high = math.exp((centre - half) / 2), math.exp((centre + half) / 2)
    return empty.valued(sd, min(low, sd), max(high, sd))

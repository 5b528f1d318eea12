"""The size of a paired effect in standard deviations, with the interval of the non-central t distribution."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError


def paired_effect_size(
    differences: ArrayLike, confidence: float = 0.95
) -> tuple[float, float | None, float | None]:
    r"""Return :math:`d_z = \bar d / s_d` of paired differences with its interval.

    :math:`t = d_z \sqrt n` follows a non-central t distribution with n - 1 degrees of freedom; the ends are
    the non-centralities at which the observed t would be its upper and lower quantile, divided by
    :math:`\sqrt n`.

    Parameters
    ----------
    differences
        One finite difference per base, two at least, not all equal.
    confidence
        Coverage of the interval.

    Returns
    -------
    tuple
        d_z, low, high, without unit; low and high are None where the distribution cannot be inverted.

    Raises
    ------
    InputError
        If there are fewer than two differences, one is missing or infinite, or they do not vary.

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
    tail = (1 - confidence) / 2
    low, high = (float(special.nctdtrinc(len(x) - 1, share, d_z * root)) for share in (1 - tail, tail))
    if not (math.isfinite(low) and math.isfinite(high)):
        return d_z, None, None
    return d_z, low / root, high / root

"""Power of the two one-sided tests that two length bins, or models, are equivalent within a margin."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.power.answer import (
    PowerAnswer,
    check_count,
    check_share,
    check_size,
    over_spread,
    percent,
    smallest,
    unanswerable,
    whole,
)

METHOD: Final = "exact, bivariate non-central t distribution (Phillips 1990)"


def equivalence_power(
    margin: float, sd: float, n: float, *, difference: float = 0.0, alpha: float = 0.05
) -> PowerAnswer:
    """Return how likely two one-sided paired t tests over n bases declare equivalence.

    References
    ----------
    Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15, 657-680. Phillips (1990), the same 18,
    137-144.

    Examples
    --------
    >>> round(equivalence_power(0.25, 0.6, 50).estimate, 3)
    0.792
    """
    _check(margin, sd, difference, alpha)
    check_count("n", n)
    power = tost_power(margin, difference, sd / math.sqrt(n), n - 1, alpha)
    return PowerAnswer(
        "power of the test of equivalence",
        power,
        method=METHOD,
        unit="probability",
        n={"bases": whole(n)},
        note=_assumed(margin, sd, difference, alpha),
        words=f"Two one-sided paired t tests (alpha = {alpha:.3g}) over {n:g} bases declare equivalence within "
        f"±{margin:g} with a probability of {percent(power)}, where the true difference is {difference:g} and the "
        f"standard deviation of the differences {sd:.3g}.",
    )


def equivalence_bases(
    margin: float, sd: float, *, difference: float = 0.0, power: float = 0.8, alpha: float = 0.05
) -> PowerAnswer:
    """Return how many bases the two one-sided paired t tests need to declare equivalence.

    Parameters
    ----------
    margin, sd, difference, alpha
        As in `equivalence_power`.
    power
        Wanted probability of declaring it.

    Returns
    -------
    PowerAnswer
        In bases, not rounded. None where the difference is not inside the margin.

    Raises
    ------
    InputError
        If a number cannot be used.

    Examples
    --------
    >>> equivalence_bases(0.25, 0.6).whole
    51
    """
    _check(margin, sd, difference, alpha)
    check_share("power", power)
    name = f"bases needed for equivalence with power {power:g}"
    if abs(difference) >= margin:
        reason = f"a true difference of {difference:g} is not within ±{margin:g}"
        return unanswerable(name, reason, method=METHOD, unit="bases")
    n = smallest(lambda m: tost_power(margin, difference, sd / math.sqrt(m), m - 1, alpha), power, 2.0)
    if n is None:
        reason = f"no study is large enough for a margin of {margin:g}"
        return unanswerable(name, reason, method=METHOD, unit="bases")
    reached = tost_power(margin, difference, sd / math.sqrt(whole(n)), whole(n) - 1, alpha)
    return PowerAnswer(
        name,
        n,
        method=METHOD,
        unit="bases",
        note=f"{_assumed(margin, sd, difference, alpha)}; power {reached:.3f} at {whole(n)}",
        words=f"To declare equivalence within ±{margin:g} with a probability of {power:.0%}, where the true "
        f"difference is {difference:g} and the standard deviation of the differences {sd:.3g}, two one-sided paired "
        f"t tests (alpha = {alpha:.3g}) need {whole(n)} bases.",
    )


def smallest_margin(
    n: float,
    sd: float,
    *,
    difference: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
    unit: str = "none",
) -> PowerAnswer:
    """Return the smallest margin within which n bases would declare equivalence with the wanted power.

    Examples
    --------
    >>> round(smallest_margin(50, 0.6).estimate, 4)
    0.2518
    """
    _check(1.0, sd, difference, alpha)
    check_share("power", power)
    check_count("n", n)
    error = sd / math.sqrt(n)

    def chance(beyond: float) -> float:
        return tost_power(abs(difference) + beyond * error, difference, error, n - 1, alpha)

    name = f"margin of equivalence at power {power:g}"
    beyond = smallest(chance, power, 0.0)
    if beyond is None:
        return unanswerable(name, f"{n:g} bases cannot reach power {power:g}", method=METHOD, unit=unit)
    margin = abs(difference) + beyond * error
    return PowerAnswer(
        name,
        margin,
        method=METHOD,
        unit=unit,
        n={"bases": whole(n)},
        note=f"true difference {difference:g}, standard deviation of the differences {sd:g}, alpha {alpha:g}",
        words=f"With {n:g} bases two one-sided paired t tests (alpha = {alpha:.3g}) declare equivalence with a "
        f"probability of {power:.0%} only within ±{margin:.3f}{'' if unit == 'none' else f' {unit}'} or wider.",
    )


def tost_power(margin: float, difference: float, error: float, degrees: float, alpha: float) -> float:
    r"""Return the exact power of two one-sided t tests for any design.

    Equivalence is declared where :math:`-m + t s < \hat\Delta < m - t s`; given the estimated standard error
    :math:`s = q \cdot SE` the chance is a difference of two normal probabilities, and its mean over q is taken by
    integration. This is the difference of two of Owen's Q functions.

    Examples
    --------
    >>> cv = math.sqrt(math.log(0.3**2 + 1))  # the 2x2 crossover of bioequivalence: CV 30 %, 40 subjects
    >>> round(tost_power(math.log(1.25), math.log(0.95), cv * math.sqrt(2 / 40), 38, 0.05), 6)
    0.815845
    """
    critical = float(special.stdtrit(degrees, 1 - alpha))
    above, below = (margin - difference) / error, (margin + difference) / error

    def declared(q: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, special.ndtr(above - critical * q) - special.ndtr(critical * q - below))

    widest = (above + below) / (2 * critical)
    bends = [(end - z) / critical for end in (above, below) for z in (-9, 0, 9)]
    return over_spread(declared, degrees, [widest, *bends])


def _check(margin: float, sd: float, difference: float, alpha: float) -> None:
    check_size("the margin", margin)
    check_size("the standard deviation", sd)
    check_size("the difference", abs(difference), least=-1.0)
    check_share("alpha", alpha)
    if alpha >= 0.5:
        raise InputError(f"power: alpha is {alpha!r}; a one-sided test needs a level below 0.5, such as 0.05")


def _assumed(margin: float, sd: float, difference: float, alpha: float) -> str:
    return (
        f"margin {margin:g}, true difference {difference:g}, standard deviation of the differences {sd:g}, "
        f"alpha {alpha:g} for each test"
    )

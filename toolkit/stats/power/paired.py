"""Power of the paired t test and of Miller's paired comparison of two models: power, n, and detectable effect."""

from __future__ import annotations

import math
from typing import Final

from scipy import special

from toolkit.stats.power.answer import (
    PowerAnswer,
    check_count,
    check_share,
    check_size,
    percent,
    smallest,
    t_power,
    unanswerable,
    whole,
)

EXACT: Final = "exact, non-central t distribution"
MILLER: Final = "normal approximation (Miller 2024, section 5)"


def paired_power(effect: float, sd: float, n: float, *, alpha: float = 0.05) -> PowerAnswer:
    r"""Return how likely a two-sided paired t test over n bases finds an effect.

    The statistic has a non-central t distribution with n - 1 degrees of freedom and non-centrality
    :math:`\delta = \sqrt n\, |\Delta| / \sigma_d`; power is :math:`P(|T| > t_{n-1, 1-\alpha/2})`.

    References
    ----------
    Cohen (1988), Statistical Power Analysis for the Behavioral Sciences, 2nd edition, section 2.3.

    Examples
    --------
    >>> round(paired_power(0.5, 1.0, 34).estimate, 3)
    0.808

    A d_z of 1.2 with 100 bases does not have the power of .98 that one reads; that takes 14 bases:

    >>> paired_power(1.2, 1.0, 100).sentence()
    'A two-sided paired t test (alpha = 0.05) over 100 bases finds d_z = 1.200 with a power of more than 99.9%.'
    >>> bases_needed(1.2, 1.0, power=0.98).whole
    14
    """
    _check(sd=sd, alpha=alpha)
    check_count("n", n)
    check_size("effect", abs(effect), least=-1.0)
    power = t_power(n - 1, abs(effect) / sd * math.sqrt(n), alpha)
    return PowerAnswer(
        "power of the paired t test",
        power,
        method=EXACT,
        unit="probability",
        n={"bases": whole(n)},
        note=f"effect {effect:g}, standard deviation of the differences {sd:g}, alpha {alpha:g}",
        words=f"A two-sided paired t test (alpha = {alpha:.3g}) over {n:g} bases finds {_effect_words(effect, sd)} "
        f"with a power of {percent(power)}.",
    )


def bases_needed(effect: float, sd: float, *, power: float = 0.8, alpha: float = 0.05) -> PowerAnswer:
    """Return how many bases a two-sided paired t test needs to find an effect.

    Parameters
    ----------
    effect, sd, alpha
        As in `paired_power`.
    power
        Wanted probability of finding the effect.

    Returns
    -------
    PowerAnswer
        In bases, not rounded: ``whole`` is the number to ask for. At least 2. None for an effect of 0, or one that
        more than ten million bases would not show.

    Raises
    ------
    InputError
        If a number cannot be used.

    Examples
    --------
    >>> needed = bases_needed(0.5, 1.0)
    >>> round(needed.estimate, 2), needed.whole
    (33.37, 34)
    """
    _check(sd=sd, alpha=alpha, power=power)
    check_size("effect", abs(effect), least=-1.0)
    name = f"bases needed for power {power:g}"
    if effect == 0:
        return unanswerable(name, "an effect of 0 is found by no number of bases", method=EXACT, unit="bases")
    d_z = abs(effect) / sd
    n = smallest(lambda m: t_power(m - 1, d_z * math.sqrt(m), alpha), power, 2.0)
    if n is None:
        return unanswerable(name, f"d_z = {d_z:.3g} is too small for any study", method=EXACT, unit="bases")
    reached = t_power(whole(n) - 1, d_z * math.sqrt(whole(n)), alpha)
    return PowerAnswer(
        name,
        n,
        method=EXACT,
        unit="bases",
        note=f"effect {effect:g}, standard deviation of the differences {sd:g}, alpha {alpha:g}; power "
        f"{reached:.3f} at {whole(n)}",
        words=f"To find {_effect_words(effect, sd)} with a power of {power:.0%}, a two-sided paired t test (alpha = "
        f"{alpha:.3g}) needs {whole(n)} bases, which have {percent(reached)}.",
    )


def detectable_effect(
    n: float, sd: float, *, power: float = 0.8, alpha: float = 0.05, unit: str = "none"
) -> PowerAnswer:
    """Return the smallest effect that a two-sided paired t test over n bases finds with the wanted power.

    Examples
    --------
    >>> round(detectable_effect(100, 1.0).estimate, 4)
    0.2829
    """
    _check(sd=sd, alpha=alpha, power=power)
    check_count("n", n)
    d_z = detectable_d_z(n, power, alpha)
    name = f"detectable effect at power {power:g}"
    if d_z is None:
        return unanswerable(name, f"{n:g} bases cannot reach power {power:g}", method=EXACT, unit=unit)
    shown = "" if unit == "none" else f" {unit}"
    return PowerAnswer(
        name,
        d_z * sd,
        method=EXACT,
        unit=unit,
        n={"bases": whole(n)},
        note=f"standard deviation of the differences {sd:g}, alpha {alpha:g}; d_z {d_z:.3f}",
        words=f"With {n:g} bases a two-sided paired t test (alpha = {alpha:.3g}) finds a difference of "
        f"{d_z * sd:.3f}{shown} (d_z = {d_z:.3f}) with a power of {power:.0%}; smaller ones are likely to be missed.",
    )


def detectable_d_z(n: float, power: float, alpha: float) -> float | None:
    """Return the detectable effect in standard deviations of the differences; None where n is too small for any.

    Examples
    --------
    >>> round(detectable_d_z(34, 0.8, 0.05), 3)
    0.495
    """
    root = math.sqrt(n)
    shift = smallest(lambda delta: t_power(n - 1, delta, alpha), power, 0.0)
    return None if shift is None else shift / root


def paired_sample_size(
    effect: float,
    between: float,
    within: tuple[float, float] = (0.0, 0.0),
    repeats: tuple[int, int] = (1, 1),
    *,
    power: float = 0.8,
    alpha: float = 0.05,
) -> PowerAnswer:
    r"""Return Miller's number of questions for a paired comparison of two models with repeats.

    :math:`n = (z_{\alpha/2} + z_\beta)^2 (\omega^2 + \sigma_A^2 / K_A + \sigma_B^2 / K_B) / \delta^2`. It uses normal
    quantiles, so that for fewer than about 50 bases `bases_needed` asks for two more, and is right.

    References
    ----------
    Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640, section 5.

    Examples
    --------
    >>> round(paired_sample_size(0.03, 1 / 9).estimate, 1)
    969.0
    """
    _check(alpha=alpha, power=power)
    check_size("effect", abs(effect), least=-1.0)
    for what, variance in (("between", between), ("within", within[0]), ("within", within[1])):
        check_size(what, variance, least=-1e-300)
    for count in repeats:
        check_count("repeats", count, least=1)
    name = f"questions needed for power {power:g}"
    variance = between + within[0] / repeats[0] + within[1] / repeats[1]
    if effect == 0 or variance == 0:
        reason = "an effect of 0 is never found" if effect == 0 else "nothing varies, so nothing is uncertain"
        return unanswerable(name, reason, method=MILLER, unit="questions")
    z = float(special.ndtri(1 - alpha / 2)) + float(special.ndtri(power))
    n = z * z * variance / effect**2
    shown = "/".join(str(count) for count in dict.fromkeys(repeats))
    return PowerAnswer(
        name,
        n,
        method=MILLER,
        unit="questions",
        note=f"effect {effect:g}, variance of a difference {variance:g} ({between:g} of it between questions), "
        f"alpha {alpha:g}",
        words=f"To find a difference of {abs(effect):g} between two models with a power of {power:.0%} (alpha = "
        f"{alpha:.3g}, two-sided, paired), {whole(n)} independent questions with {shown} answers of each model are "
        "needed (Miller 2024).",
    )


def _check(*, sd: float | None = None, alpha: float, power: float | None = None) -> None:
    check_share("alpha", alpha)
    if sd is not None:
        check_size("the standard deviation", sd)
    if power is not None:
        check_share("power", power)


def _effect_words(effect: float, sd: float) -> str:
    d_z = f"d_z = {abs(effect) / sd:.3f}"
    return d_z if sd == 1 else f"a difference of {abs(effect):g} ({d_z})"

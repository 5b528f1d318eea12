"""How many human ratings are still needed for an interval of a wanted width."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scipy import special

from toolkit.errors import InputError
from toolkit.stats.human.ppi import CalibratedMean
from toolkit.stats.result import Estimate

MOST: Final = 1_000_000  # ratings beyond which nobody rates; the search ends there


@dataclass(frozen=True)
class RatingsNeeded:
    """How many answers people must rate until an interval is as narrow as wanted."""

    about: str
    width: float
    rated: int
    width_now: float | None
    needed: int | None
    width_then: float | None
    note: str
    more: int | None = None  # how many answers are still to be rated

    def sentence(self) -> str:
        """Return the result in words ready for the thesis."""
        now = "" if self.width_now is None else f" (now {self.width_now:.3f} wide with {self.rated})"
        if self.needed is None:
            outcome = f"no number of ratings gives an interval {self.width:g} wide{now}: {self.note}"
        elif not self.more:
            outcome = f"the interval is {self.width:g} wide or narrower already{now}; {self.note}"
        else:
            outcome = (
                f"{self.more} more answers rated by people, {self.needed} in all, are expected to give an interval "
                f"{self.width:g} wide{now}; {self.note}"
            )
        return f"{self.about}: {outcome}."


def ratings_for_mean(mean: CalibratedMean, width: float) -> RatingsNeeded:
    r"""Return how many answers people must rate until the calibrated mean has an interval of a wanted width.

    With n of all T answers rated and the correlation r of people and judges, the error of the tuned mean of independent
    answers is :math:`SE^2(n) = c\,[1 - r^2 (1 - n/T)] / n` (Angelopoulos et al. 2024, at the best lambda); c is what
    makes it the error that is there now. What the bases add to the error now, the clustered :math:`SE^2` less the
    independent one, stays, because more ratings of the same bases tell nothing of other bases. The width is
    :math:`2\,t_\nu SE(n)`; the rated bases, and with them :math:`\nu`, grow in proportion up to all of them.

    It is a forecast from few ratings: in simulated studies with 30 ratings that asked for .67 of the width, the width
    after that many ratings was .66 (300 and 100 bases), .72 (30 bases) and .89 (12 bases) of the first in the mean.

    References
    ----------
    Angelopoulos, Duchi & Zrnic (2024), PPI++: Efficient prediction-powered inference, arXiv:2311.01453.

    Examples
    --------
    >>> from toolkit.stats.human.ppi import prediction_powered_mean
    >>> people, same = [4, 3, 5, 2, 4, 3, 5, 4], [4.5, 3.5, 4.5, 3, 4, 3.5, 5, 4.5]
    >>> others = [4, 4.5, 3.5, 5, 3, 4, 4.5, 3.5] * 12
    >>> ratings_for_mean(prediction_powered_mean("mean", people, same, others), 0.6).more
    6
    """
    _check(width)
    calibrated = mean.calibrated
    rated = calibrated.n["rated answers"]
    if calibrated.low is None or calibrated.high is None or not mean.independent_error:
        reason = calibrated.remarks or "there is no interval yet"
        return RatingsNeeded(calibrated.name, width, rated, None, None, None, reason)
    rated_bases = calibrated.n.get("rated bases", rated)
    level = (1 + calibrated.confidence) / 2
    degrees = calibrated.degrees or rated_bases - 1
    now = (calibrated.high - calibrated.low) / 2 / float(special.stdtrit(degrees, level))
    r2 = (mean.correlation or 0.0) ** 2 if mean.tuning else 0.0
    every = mean.answers

    def unit(n: int) -> float:
        return (1 - r2 * (1 - n / every)) / n

    independent = min(now, mean.independent_error) ** 2
    between_bases = now**2 - independent

    def width_of(n: int) -> float:
        error = math.sqrt(between_bases + independent * unit(n) / unit(rated))
        bases = min(mean.bases, max(2, round(rated_bases * n / rated)))
        grown = degrees * (max(rated_bases, bases) - 1) / (rated_bases - 1)
        return 2 * float(special.stdtrit(grown, level)) * error

    note = f"with the spread of {rated} ratings and a correlation of people and judges of {math.sqrt(r2):.2f}"
    impossible = (
        f"rating all {every} answers gives {width_of(every):.3f}, so more bases or answers are needed"
    )
    return _least(calibrated, width, rated, width_of, every, note, impossible)


def ratings_for_agreement(agreement: Estimate, width: float) -> RatingsNeeded:
    r"""Return how many answers must be rated until a kappa or correlation has an interval of a wanted width.

    Half the interval on Fisher's scale, :math:`h = (\operatorname{artanh} u - \operatorname{artanh} l) / 2`, shrinks
    with :math:`\sqrt{n / n'}`; :math:`n'` is the least for which
    :math:`\tanh(z + h') - \tanh(z - h') \le w` at the middle z of the interval (Bonett & Wright 2000 for
    correlations). Where answers share bases, it takes new bases in the same proportion.

    References
    ----------
    Bonett & Wright (2000), Psychometrika 65, 23-28.

    Examples
    --------
    >>> found = ratings_for_agreement(Estimate("r", 0.6, 0.265, 0.806, n={"answers": 25}), 0.2)
    >>> found.needed
    183
    """
    _check(width)
    rated, low, high = agreement.n["answers"], agreement.low, agreement.high
    if low is None or high is None or not -1 < low < high < 1:
        reason = agreement.remarks or "there is no interval from which to reckon"
        return RatingsNeeded(agreement.name, width, rated, None, None, None, reason)
    middle, half = (math.atanh(low) + math.atanh(high)) / 2, (math.atanh(high) - math.atanh(low)) / 2

    def width_of(n: int) -> float:
        shrunk = half * math.sqrt(rated / n)
        return math.tanh(middle + shrunk) - math.tanh(middle - shrunk)

    note = f"with the spread of {rated} answers, and new bases in the same proportion"
    return _least(agreement, width, rated, width_of, MOST, note, f"more than {MOST} would be needed")


def _check(width: float) -> None:
    if not 0 < width < math.inf:
        raise InputError(f"ratings needed: width {width:g} cannot be; give a positive number")


def _least(
    estimate: Estimate,
    width: float,
    rated: int,
    width_of: Callable[[int], float],
    most: int,
    note: str,
    impossible: str,
) -> RatingsNeeded:
    """Return the smallest number, not below those that are there, with an interval narrow enough; it falls with n."""
    now = None if estimate.low is None or estimate.high is None else estimate.high - estimate.low
    if width_of(most) > width:
        return RatingsNeeded(estimate.name, width, rated, now, None, width_of(most), impossible)
    needed = bisect_left(range(most), -width - 1e-12, lo=rated, key=lambda n: -width_of(n))
    return RatingsNeeded(
        estimate.name, width, rated, now, needed, width_of(needed), note, max(0, needed - rated)
    )

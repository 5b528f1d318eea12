"""The bootstrap over bases of the intraclass correlations, from closed-form mean squares."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from toolkit.counting import counted
from toolkit.errors import InputError
from toolkit.stats.base_sums import BaseSums, base_sums, forms_of_sums
from toolkit.stats.bca import LARGEST_LOSS, bca_interval
from toolkit.stats.icc import with_interval
from toolkit.stats.jackknife import FEWEST_BASES
from toolkit.stats.mean_squares import FORMS
from toolkit.stats.result import Estimate

METHODS: Final = {
    "bca": "BCa bootstrap over bases with t quantiles",
    "percentile": "percentile bootstrap over bases",
}


def bootstrap_icc(
    values: np.ndarray,
    bases: Sequence[Hashable],
    resamples: int = 2000,
    seed: int = 0,
    *,
    method: Literal["bca", "percentile"] = "bca",
    confidence: float = 0.95,
) -> tuple[tuple[Estimate, ...], ...]:
    r"""Return the six intraclass correlations of each scale with an interval by resampling whole bases.

    Every mean square is a function of sums over bases, so a resample is a product of counts and sums and no table is
    ever built: 2,000 resamples of 300 answers, 3 judges and 8 scales take some milliseconds. The percentile interval
    takes the quantiles of the resamples; BCa moves them by their bias and the acceleration (``bca_interval``).

    Neither is the default of ``reliability``, because both are too short. In 500 simulated studies each (300 of 100
    bases) with three judges and half-step scores, 95 % intervals cover 85-92 % (percentile) and 90-96 % (BCa) with 12
    bases, 88-91 % and 92-94 % with 30, and 89-93 % and 91-94 % with 100; with nearly half of the scores at the ceiling
    79-88 % and 87-92 % with 12 bases. The jackknife of ``clustered_icc`` is closest to 95 %: see there.

    Parameters
    ----------
    values
        Scores without a gap, targets x judges x scales (or targets x judges for one scale).
    bases
        Base of each target.
    resamples
        Number of resamples.
    seed
        Seed of the resamples.
    method
        ``bca`` or ``percentile``.
    confidence
        Coverage of the interval.

    Returns
    -------
    tuple of tuple of Estimate
        For each scale the six forms in the order of ``FORMS``; without an interval where there are fewer than four
        bases, or resamples give no number. It holds for these judges.

    Raises
    ------
    InputError
        If the table has a gap or another shape, or there are fewer than 100 resamples.

    References
    ----------
    Efron (1987), Journal of the American Statistical Association 82, 171-185. McGraw & Wong (1996).

    Examples
    --------
    >>> scores = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    >>> found = bootstrap_icc(scores, range(6))[0]
    >>> [round(one.estimate, 4) for one in found]
    [0.1657, 0.2898, 0.7148, 0.4428, 0.6201, 0.9093]
    """
    if method not in METHODS:
        raise InputError(f"bootstrap: method {method!r} is unknown; choose {' or '.join(METHODS)}")
    sums = base_sums(_scaled(values), bases)
    whole = forms_of_sums(sums.whole)
    replicates = resampled_forms(sums, resamples, seed)
    without = forms_of_sums(sums.left_out)
    n = {"bases": sums.bases, "answers": len(values), "judges": sums.sums.shape[2] - 3}
    return tuple(
        tuple(
            _estimate(
                Estimate(form, None, method=METHODS[method], n=n, confidence=confidence),
                float(whole[scale, place]),
                replicates[:, scale, place],
                without[:, scale, place],
                method,
            )
            for place, form in enumerate(FORMS)
        )
        for scale in range(len(whole))
    )


def resampled_forms(sums: BaseSums, resamples: int = 2000, seed: int = 0) -> np.ndarray:
    """Return the six forms of each resample of bases, shape (resamples, scales, 6); NaN where there is none.

    Parameters
    ----------
    sums
        What each base adds.
    resamples, seed
        As in ``bootstrap_icc``.

    Raises
    ------
    InputError
        If there are fewer than 100 resamples.
    """
    return forms_of_sums(sums.drawn(draw_counts(sums.bases, resamples, seed)))


def draw_counts(bases: int, resamples: int, seed: int) -> np.ndarray:
    """Return how often each base is drawn in each resample, shape (resamples, bases).

    Parameters
    ----------
    bases, resamples, seed
        Numbers of bases and resamples, and the seed.

    Raises
    ------
    InputError
        If there are fewer than 100 resamples.
    """
    if resamples < 100:
        raise InputError(f"bootstrap: {resamples} resamples give no tail; ask for 100 at least")
    if bases < 1:
        return np.zeros((resamples, 0))
    chance = np.random.default_rng(seed)
    return chance.multinomial(bases, np.full(bases, 1 / bases), size=resamples).astype(float)


def _ends(
    whole: float, replicates: np.ndarray, without: np.ndarray, method: str, confidence: float
) -> tuple[float, float] | None:
    usable = replicates[np.isfinite(replicates)]
    if len(usable) < (1 - LARGEST_LOSS) * len(replicates):
        return None
    if method == "bca":
        return bca_interval(usable, whole, without, confidence) if np.isfinite(without).all() else None
    low, high = np.quantile(usable, [(1 - confidence) / 2, (1 + confidence) / 2])
    return (float(low), float(high)) if high > low else None


def _estimate(
    empty: Estimate, whole: float, replicates: np.ndarray, without: np.ndarray, method: str
) -> Estimate:
    if not np.isfinite(whole):
        why = "the scores do not vary as they must, or there are fewer than two answers or judges"
        return replace(empty, note=f"not estimable: {why}")
    found = replace(empty, estimate=whole)
    if empty.n["bases"] < FEWEST_BASES:
        return replace(
            found, note=f"no interval: {counted(empty.n['bases'], 'bases')}, and {FEWEST_BASES} are needed"
        )
    ends = _ends(whole, replicates, without, method, empty.confidence)
    if ends is None:
        return replace(found, note="no interval: too many resamples of the bases give no number")
    return with_interval(found, *ends)


def _scaled(values: np.ndarray) -> np.ndarray:
    """Return the table with a largest magnitude of 1, which changes no correlation and spares the precision."""
    table = np.asarray(values, dtype=float)
    finite = np.abs(table[np.isfinite(table)])
    return table / finite.max() if finite.size and finite.max() > 0 else table

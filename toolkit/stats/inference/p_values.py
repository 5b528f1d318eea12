"""P values: of the paired permutation test, with its interval, and of several tests, corrected for being several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from toolkit.errors import InputError
from toolkit.stats.result import Estimate
from toolkit.words import agreeing, counted

EXACT_UP_TO: Final = 16  # pairs up to which all 2^n patterns are counted; beyond, a seeded sample of them
PATTERNS: Final = 2**EXACT_UP_TO
_PART: Final = 4096
_SLACK: Final = 1e-9  # sums that differ by less than this share of their size are equal: 0.1 + 0.2 is not 0.3


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return Holm's step-down p values, which bound the chance of one false finding among all tests.

    A test without a p value (None) is not counted and keeps None.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6, 65-70.
    """
    tested = {index: p for index, p in enumerate(p_values) if p is not None and p == p}
    outside = [p for p in tested.values() if not 0 <= p <= 1]
    if outside:
        raise InputError(f"Holm: p value {outside[0]:g} is not between 0 and 1; correct it")
    corrected: list[float | None] = [None] * len(p_values)
    # statsmodels' multipletests collects garbage at each call, which took two fifths of the figures of a study.
    largest = 0.0
    for step, (index, p) in enumerate(sorted(tested.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(tested) - step) * float(p)))
        corrected[index] = largest
    return tuple(corrected)


def with_holm(results: Iterable[Estimate], over: str = "") -> tuple[Estimate, ...]:
    """Return results with Holm's p values and the word for it, ``Holm over 3 contrasts``, where several have one."""
    tests = tuple(results)
    count = sum(test.p_value is not None for test in tests)
    word = f"Holm over {count} {over}" if over else f"Holm, {count} tests"
    return tuple(
        test if p is None else replace(test, p_value=p, correction=word if count > 1 else "none")
        for test, p in zip(tests, holm([test.p_value for test in tests]), strict=True)
    )


@dataclass(frozen=True)
class SignFlip:
    """A mean of paired differences with its permutation p value and interval."""

    mean: float
    low: float | None
    high: float | None
    p_value: float
    method: str
    reason: str = ""


def sign_flip(differences: ArrayLike, seed: int = 0) -> SignFlip:
    r"""Test that paired differences are as likely to be :math:`-d` as :math:`d`, and invert the test.

    The p value is the share of patterns of signs :math:`s` with :math:`|\sum s_i d_i| \ge |\sum d_i|`; the interval
    ends at the :math:`k`-th smallest and largest of the :math:`2^n - 1` means of subsets with
    :math:`k = \lfloor 2^n \alpha / 2 \rfloor` (Hartigan's typical values). Beyond 16 pairs a seeded sample of
    patterns is used; then :math:`p = (b + 1) / (m + 1)`, because a p value is never 0.

    References
    ----------
    Fisher (1935), The Design of Experiments, section 21. Hartigan (1969), Journal of the American Statistical
    Association 64, 1303-1317. Phipson & Smyth (2010), Statistical Applications in Genetics and Molecular Biology
    9, article 39.

    Examples
    --------
    >>> found = sign_flip([0.3, 0.1, 0.4, 0.2, 0.5, 0.6])
    >>> found.p_value, round(found.low, 2), round(found.high, 2)
    (0.03125, 0.1, 0.6)
    """
    d = np.asarray(differences, dtype=float)
    if not d.size or not np.isfinite(d).all():
        raise InputError(
            "paired test: there is no difference, or one is missing or infinite; leave such pairs out"
        )
    exact = len(d) <= EXACT_UP_TO
    parts = [(part @ d, part.sum(axis=1)) for part in _subsets(len(d), exact, seed)]
    sums, sizes = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    total = float(d.sum())
    slack = _SLACK * float(np.abs(d).sum())
    extreme = int((np.abs(2 * sums - total) >= abs(total) - slack).sum())
    means = np.sort(sums[sizes > 0] / sizes[sizes > 0])
    method = (
        f"all {len(sums)} sign patterns"
        if exact
        else f"{len(sums)} sign patterns drawn with seed {seed} (Phipson & Smyth 2010)"
    )
    p_value = extreme / len(sums) if exact else (extreme + 1) / (len(sums) + 1)
    # With all patterns the empty subset is one of the 2^n; with a sample the m means part the line in m + 1.
    k = math.floor((len(means) + 1) * 0.025 + _SLACK)
    mean = float(d.mean())
    if k < 1:
        reason = f"{counted(len(d), 'pairs')} {agreeing(len(d), 'are')} too few for a 95% interval"
        return SignFlip(mean, None, None, p_value, f"paired permutation test, {method}", reason)
    method = f"paired permutation test and its inversion (Hartigan 1969), {method}"
    return SignFlip(mean, float(means[k - 1]), float(means[-k]), p_value, method)


def _subsets(n: int, exact: bool, seed: int) -> Iterator[np.ndarray]:
    """Yield all or drawn subsets of n pairs, one a row of 0 and 1, in parts: a thousand pairs fit into memory."""
    if exact:
        yield (np.arange(2**n)[:, None] >> np.arange(n)[None, :] & 1).astype(float)
        return
    dice = np.random.default_rng(seed)
    for rows in (*[_PART] * (PATTERNS // _PART - 1), _PART - 1):
        yield dice.integers(0, 2, (rows, n)).astype(float)

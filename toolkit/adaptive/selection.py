"""Which base is asked next: where one AUD takes most from the variance of the differences of models.

Within a stratum the order is drawn by the seed before anything is asked; what the scores decide is only how many bases
of each stratum are asked. A base is never preferred for its own cost or its own answers, so that those asked stand for
those that are not.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.adaptive.sequential import LEAST, Bank, block_means, fit, read_bank

FIRST: Final = 4
"""Bases of each stratum before its variance is believed enough to be compared."""


def next_bases(
    bank: pd.DataFrame,
    scores: pd.DataFrame,
    *,
    seed: int,
    count: int = 1,
    score: str = "score",
) -> list[str]:
    r"""Return the bases to ask next of all models, a pure function of the bank, the scores so far and the seed.

    The stratum whose next base is expected to take most from the variance of the model differences per AUD,
    :math:`W_h^2 s_h^2 [1/n_h - 1/(n_h + 1)] / \bar c_h`, gives the next base of its order, which spreads over
    categories: Neyman's allocation at cost, found step by step. :math:`s_h^2` is over all pairs of models, shrunk to
    the other strata; :math:`\bar c_h` the mean cost of the stratum. The first bases, twelve and four of each stratum,
    are in proportion.

    Parameters
    ----------
    bank
        As for `toolkit.stats.read_bank`.
    scores
        Of the bases asked so far: model, base, length_bin, score; no row at the start.
    seed
        Of the orders within strata.
    count
        How many, one round.
    score
        Column of the scores.

    Returns
    -------
    list of str
        At most ``count`` bases; empty when the bank is exhausted.

    Raises
    ------
    InputError
        When the bank or the scores cannot be used.

    References
    ----------
    Cochran (1977), Sampling Techniques, section 5.5. Fogliato et al. (2024), arXiv:2406.07320.

    Examples
    --------
    >>> bank = pd.DataFrame({"base": list("abcdef"), "scenario": "SOC_INCIDENT", "category": list("xxyyzz")})
    >>> none = pd.DataFrame(columns=["model", "base", "length_bin", "score"])
    >>> next_bases(bank, none, seed=1, count=3)
    ['e', 'c', 'a']
    """
    if count < 1:
        raise InputError(f"adaptive: count is {count!r}; give at least 1")
    read = read_bank(bank)
    means, _ = block_means(scores, score)
    seen = read.places(list(pd.unique(scores["base"])))
    whole = read.places(list(means.index))
    in_order = np.argsort(whole)  # sums of floats, and so the choice, must not hang on the order of rows
    whole, values = whole[in_order], means.to_numpy(float)[in_order]
    chosen = by_variance(read, seen, whole, values, seed, count)
    return [str(read.bases[place]) for place in chosen]


def by_variance(
    bank: Bank, seen: np.ndarray, whole: np.ndarray, values: np.ndarray, seed: int, count: int
) -> np.ndarray:
    """Return the places of the next bases; ``seen`` were asked, ``whole`` of them have the scores ``values`` (n, M)."""
    order = [place for place in spread_order(bank, seed) if place not in set(seen.tolist())]
    sizes, strata = bank.sizes, bank.strata
    n = np.bincount(strata[seen], minlength=len(sizes)).astype(float)
    costs = np.bincount(strata, bank.costs) / sizes
    found = fit(bank, whole, values) if len(whole) else None
    chosen: list[int] = []
    while order and len(chosen) < count:
        left = n < sizes
        early = left & (n < FIRST)
        if found is None or n.sum() < LEAST or early.any():
            wanted = np.where(early if n.sum() >= LEAST else left, (n + 0.5) / sizes, np.inf)
            stratum = int(np.argmin(wanted))
        else:
            gain = sizes.astype(float) ** 2 * found.spread / (n * (n + 1)) / costs
            stratum = int(np.argmax(np.where(left, gain, -np.inf)))
        place = next(place for place in order if strata[place] == stratum)
        order.remove(place)
        chosen.append(place)
        n[stratum] += 1
    return np.array(chosen, dtype=int)


def at_random(
    bank: Bank, seen: np.ndarray, whole: np.ndarray, values: np.ndarray, seed: int, count: int
) -> np.ndarray:
    """Return the places of the next bases of common-item random sampling without replacement, the baseline."""
    order = np.random.default_rng(seed).permutation(len(bank.bases))
    return order[~np.isin(order, seen)][:count]


def spread_order(bank: Bank, seed: int) -> list[int]:
    """Return all places in an order of which every beginning is spread over categories, each base as likely as another.

    The j-th base of a category of m, in random order, stands at (j - u) / m with one u of the category: for every base
    that is uniform over 0 to 1.
    """
    dice = np.random.default_rng(seed)
    shuffled = dice.permutation(len(bank.bases))
    groups = bank.groups[shuffled]
    sizes = np.bincount(groups)
    start = dice.random(len(sizes))
    rank = pd.Series(groups).groupby(groups).cumcount().to_numpy() + 1
    return [
        int(place) for place in shuffled[np.argsort((rank - start[groups]) / sizes[groups], kind="stable")]
    ]

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

    ``bank`` is that of `toolkit.stats.read_bank`; ``scores`` have model, base, length_bin and score of the bases asked
    so far, no row at the start. At most ``count`` bases are returned, none when the bank is exhausted.

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
    sampled = read.rows_of(list(pd.unique(scores["base"])))
    complete = read.rows_of(list(means.index))
    in_order = np.argsort(complete)  # sums of floats, and so the choice, must not depend on the order of rows
    complete, values = complete[in_order], means.to_numpy(float)[in_order]
    return [str(read.bases[row]) for row in by_variance(read, sampled, complete, values, seed, count)]


def by_variance(
    bank: Bank, sampled: np.ndarray, complete: np.ndarray, values: np.ndarray, seed: int, count: int
) -> np.ndarray:
    """Return the rows of the next bases; of those ``sampled``, ``complete`` have the scores ``values`` (n, M)."""
    earlier = set(sampled.tolist())
    order = [row for row in spread_order(bank, seed) if row not in earlier]
    sizes, strata = bank.sizes, bank.strata
    n = np.bincount(strata[sampled], minlength=len(sizes)).astype(float)
    costs = np.bincount(strata, bank.costs) / sizes
    means = fit(bank, complete, values) if len(complete) else None
    chosen: list[int] = []
    while order and len(chosen) < count:
        unfinished = n < sizes
        early = unfinished & (n < FIRST)
        if means is None or n.sum() < LEAST or early.any():
            shares = np.where(early if n.sum() >= LEAST else unfinished, (n + 0.5) / sizes, np.inf)
            stratum = int(np.argmin(shares))
        else:
            gain = sizes.astype(float) ** 2 * means.spread / (n * (n + 1)) / costs
            stratum = int(np.argmax(np.where(unfinished, gain, -np.inf)))
        row = next(row for row in order if strata[row] == stratum)
        order.remove(row)
        chosen.append(row)
        n[stratum] += 1
    return np.array(chosen, dtype=int)


def at_random(
    bank: Bank, sampled: np.ndarray, complete: np.ndarray, values: np.ndarray, seed: int, count: int
) -> np.ndarray:
    """Return the rows of the next bases of common-item random sampling without replacement, the baseline."""
    order = np.random.default_rng(seed).permutation(len(bank.bases))
    return order[~np.isin(order, sampled)][:count]


def spread_order(bank: Bank, seed: int) -> list[int]:
    """Return all rows in an order whose every beginning is spread over categories, each base as likely as another."""
    # The j-th base of a category of m, in random order, has the key (j - u) / m with one u of the category: for every
    # base that is uniform over 0 to 1.
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(bank.bases))
    groups = bank.groups[shuffled]
    sizes = np.bincount(groups)
    start = rng.random(len(sizes))
    rank = pd.Series(groups).groupby(groups).cumcount().to_numpy() + 1
    order = np.argsort((rank - start[groups]) / sizes[groups], kind="stable")
    return [int(row) for row in shuffled[order]]

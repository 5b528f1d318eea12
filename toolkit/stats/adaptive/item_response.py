"""Item response with two parameters an item: ability, information, the next item, and the score on a whole bank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from toolkit.errors import InputError
from toolkit.stats.result import Estimate


@dataclass(frozen=True)
class AdaptiveTest:
    """The items of an adaptive test in their order, with the ability after each."""

    items: tuple[int, ...]
    theta: tuple[float, ...]


def information(a: ArrayLike, b: ArrayLike, theta: ArrayLike) -> np.ndarray:
    r"""Return Fisher's information of items on an ability, :math:`a^2 P (1 - P)` with :math:`P = 1 / (1 + e^{-a(\theta - b)})`.

    Parameters
    ----------
    a, b
        Discrimination and difficulty of each item.
    theta
        Ability, in standard deviations of models; broadcast against the items.

    Returns
    -------
    numpy.ndarray
        Of the shape that a, b and theta have together.

    References
    ----------
    Lord (1980), Applications of Item Response Theory, section 5.4.

    Examples
    --------
    >>> information([1.0, 1.5], [-1.0, 0.0], 0.0).round(4).tolist()
    [0.1966, 0.5625]
    """  # noqa: E501
    a, p = np.asarray(a, dtype=float), _expected(a, b, theta)
    return np.asarray(a**2 * p * (1 - p))


def ability(a: ArrayLike, b: ArrayLike, answers: ArrayLike) -> Estimate:
    r"""Return the most likely ability after answers, with the prior N(0, 1).

    Parameters
    ----------
    a, b
        Discrimination (above 0) and difficulty of the items answered.
    answers
        0 to 1 each; a share such as score / 5 counts as that share of a right answer.

    Returns
    -------
    Estimate
        MAP, with the normal interval of the posterior, :math:`1 / \sqrt{1 + \sum I(\theta)}`; 0 without answers.

    Raises
    ------
    InputError
        When there are not as many of each, a is not above 0, or an answer is not between 0 and 1.

    References
    ----------
    Hofmann et al. (2025), Fluid Language Model Benchmarking.

    Examples
    --------
    >>> round(ability([1.5], [0.0], [1]).estimate, 4)
    0.4874
    """
    theta = float(abilities(a, b, np.asarray(answers, dtype=float)[None, :])[0])
    error = 1 / np.sqrt(1 + float(information(a, b, theta).sum()))
    half = float(special.ndtri(0.975)) * error
    n = {"items": int(np.size(a))}
    return Estimate("ability", theta, theta - half, theta + half, "MAP of a 2PL with prior N(0, 1)", n=n)


def abilities(a: ArrayLike, b: ArrayLike, answers: np.ndarray) -> np.ndarray:
    """Return the MAP of each model (rows of answers); the posterior has one mode, between bounds that a and b give."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape or answers.shape[1:] != a.shape:
        raise InputError(
            f"item response: {a.size} a, {b.size} b and {answers.shape[1:]} answers; give as many"
        )
    if not ((a > 0) & np.isfinite(a) & np.isfinite(b)).all():
        raise InputError(
            "item response: an a is not above 0, or a b no number; leave such items out of the bank"
        )
    if not ((answers >= 0) & (answers <= 1)).all():
        raise InputError(
            "item response: an answer is not between 0 and 1; divide scores by the highest possible"
        )
    most = float(a.sum()) + 1.0
    return np.array(
        [
            optimize.brentq(lambda t, y=y: float(a @ (y - _expected(a, b, t))) - t, -most, most, xtol=1e-12)
            for y in answers
        ]
    )


def adaptive_test(a: ArrayLike, b: ArrayLike, answers: ArrayLike, items: int | None = None) -> AdaptiveTest:
    """Return the adaptive test over a bank whose answers are all known: the most informative item each time.

    Parameters
    ----------
    a, b, answers
        Of all items of the bank.
    items
        How many are asked; None for all.

    Returns
    -------
    AdaptiveTest
        Places of the items in the order asked, from 0, and the ability after each.

    Raises
    ------
    InputError
        As for `ability`.

    References
    ----------
    Hofmann et al. (2025), Fluid Language Model Benchmarking.

    Examples
    --------
    >>> adaptive_test([1, 1.5, 0.8, 2], [-1, 0, 0.5, 1], [1, 1, 0, 0]).items
    (1, 3, 0, 2)
    """
    a, b, given = (np.asarray(values, dtype=float) for values in (a, b, answers))
    asked: list[int] = []
    thetas: list[float] = []
    while len(asked) < (len(a) if items is None else min(items, len(a))):
        asked.append(next_item(a, b, thetas[-1] if thetas else 0.0, asked))
        thetas.append(float(abilities(a[asked], b[asked], given[None, asked])[0]))
    return AdaptiveTest(tuple(asked), tuple(thetas))


def next_item(a: ArrayLike, b: ArrayLike, theta: float, asked: list[int]) -> int:
    """Return the place of the item that tells most at an ability, of those not asked; the first of equals."""
    gain = information(a, b, theta)
    gain[asked] = -np.inf
    return int(np.argmax(gain))


def bank_scores(a: ArrayLike, b: ArrayLike, scores: ArrayLike) -> Estimate:
    r"""Return the mean score of a model on a whole bank: scores where it was asked, the 2PL's expectation elsewhere.

    After items chosen by information a plain mean is of hard or easy items, not of the bank.

    Parameters
    ----------
    a, b
        Of all N items of the bank.
    scores
        N shares from 0 to 1, NaN where the item was not asked.

    Returns
    -------
    Estimate
        With the normal interval of what was not asked: the error of the ability, and the binomial variance of the
        answers. It rests on the 2PL being right.

    Raises
    ------
    InputError
        As for `ability`.

    References
    ----------
    Polo et al. (2024), tinyBenchmarks, arXiv:2402.14992 (p-IRT).

    Examples
    --------
    >>> round(bank_scores([1, 1.5, 0.8, 2], [-1, 0, 0.5, 1], [np.nan, 1, np.nan, 0]).estimate, 3)
    0.557
    """
    a, b, y = (np.asarray(values, dtype=float) for values in (a, b, scores))
    asked = ~np.isnan(y)
    theta = float(abilities(a[asked], b[asked], y[None, asked])[0])
    expected = _expected(a, b, theta)
    rest = ~asked
    slope = float((a * expected * (1 - expected))[rest].sum())
    variance = slope**2 / (1 + float(information(a, b, theta)[asked].sum()))
    variance += float((expected * (1 - expected))[rest].sum())
    mean = float(np.where(asked, y, expected).mean())
    half = float(special.ndtri(0.975)) * np.sqrt(variance) / len(a)
    n = {"items": int(asked.sum()), "items of the bank": len(a)}
    return Estimate("score on the bank", mean, mean - half, mean + half, "2PL where not asked", "share", n)


def _expected(a: ArrayLike, b: ArrayLike, theta: ArrayLike) -> np.ndarray:
    return np.asarray(
        special.expit(np.asarray(a, dtype=float) * (np.asarray(theta) - np.asarray(b, dtype=float)))
    )

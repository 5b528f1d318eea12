"""P values of several tests, corrected for being several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from toolkit.errors import InputError
from toolkit.stats.result import Estimate


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return Holm's step-down p values, which bound the chance of one false finding among all tests.

    A test without a p value (None) is not counted and keeps None.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6, 65-70.
    """
    return _corrected("Holm", p_values, _step_down)


def false_discovery(p_values: Sequence[float | None], dependent: bool = False) -> tuple[float | None, ...]:
    """Return p values corrected so that the expected share of false findings among all findings is bounded.

    By Benjamini & Hochberg for independent tests, by Benjamini & Yekutieli whatever their dependence.

    References
    ----------
    Benjamini & Hochberg (1995), Journal of the Royal Statistical Society B 57, 289-300. Benjamini & Yekutieli
    (2001), Annals of Statistics 29, 1165-1188, theorem 1.3.
    """
    from scipy.stats import false_discovery_control

    by = partial(false_discovery_control, method="by" if dependent else "bh")
    return _corrected("false discovery", p_values, by)


def with_holm(results: Iterable[Estimate], over: str = "") -> tuple[Estimate, ...]:
    """Return results with Holm's p values and the word for it, ``Holm over 3 contrasts``, where several have one."""
    tests = tuple(results)
    count = sum(test.p_value is not None for test in tests)
    word = f"Holm over {count} {over}" if over else f"Holm, {count} tests"
    return tuple(
        test if p is None else replace(test, p_value=p, correction=word if count > 1 else "none")
        for test, p in zip(tests, holm([test.p_value for test in tests]), strict=True)
    )


def _step_down(p_values: np.ndarray) -> np.ndarray:
    # statsmodels' multipletests collects garbage at each call, which took two fifths of the figures of a study.
    order = np.argsort(p_values)
    steps = (len(order) - np.arange(len(order))) * p_values[order]
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def _corrected(
    analysis: str, p_values: Sequence[float | None], correct: Callable[[np.ndarray], np.ndarray]
) -> tuple[float | None, ...]:
    tested = {index: p for index, p in enumerate(p_values) if p is not None and p == p}
    outside = [p for p in tested.values() if not 0 <= p <= 1]
    if outside:
        raise InputError(f"{analysis}: p value {outside[0]:g} is not between 0 and 1; correct it")
    corrected: list[float | None] = [None] * len(p_values)
    for index, p in zip(tested, correct(np.array([*tested.values()])) if tested else (), strict=True):
        corrected[index] = float(p)
    return tuple(corrected)

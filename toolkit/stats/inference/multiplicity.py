"""P values of several tests, corrected for being several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from toolkit.errors import InputError
from toolkit.stats.result import Estimate


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    r"""Return Holm's step-down p values, which bound the chance of one false finding among all tests.

    With :math:`p_{(1)} \le \dots \le p_{(m)}`, the corrected value is
    :math:`\tilde p_{(i)} = \min(1, \max_{j \le i} (m - j + 1)\, p_{(j)})`.

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6, 65-70.

    Examples
    --------
    >>> [round(p, 4) for p in holm([0.5, 0.003, 0.32, 0.054, 0.0003])]
    [0.64, 0.012, 0.64, 0.162, 0.0015]
    """
    made = [(p, position) for position, p in enumerate(p_values) if p is not None and p == p]
    outside = [p for p, _ in made if not 0 <= p <= 1]
    if outside:
        raise InputError(f"Holm: p value {outside[0]:g} is not between 0 and 1; correct it")
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, position) in enumerate(sorted(made)):
        largest = max(largest, (len(made) - rank) * p)
        corrected[position] = min(1.0, largest)
    return tuple(corrected)


def false_discovery(p_values: Sequence[float | None], dependent: bool = False) -> tuple[float | None, ...]:
    r"""Return p values corrected so that the expected share of false findings among all findings is bounded.

    With :math:`p_{(1)} \le \dots \le p_{(m)}` the corrected value is
    :math:`\tilde p_{(i)} = \min(1, \min_{j \ge i} c\, m\, p_{(j)} / j)`, where c = 1 (Benjamini & Hochberg) for
    independent tests, and :math:`c = \sum_{j=1}^m 1/j` (Benjamini & Yekutieli) whatever their dependence.

    References
    ----------
    Benjamini & Hochberg (1995), Journal of the Royal Statistical Society B 57, 289-300. Benjamini & Yekutieli
    (2001), Annals of Statistics 29, 1165-1188, theorem 1.3.

    Examples
    --------
    >>> [round(p, 4) for p in false_discovery([0.5, 0.003, 0.32, 0.054, 0.0003])]
    [0.5, 0.0075, 0.4, 0.09, 0.0015]
    """
    made = [(p, position) for position, p in enumerate(p_values) if p is not None and p == p]
    outside = [p for p, _ in made if not 0 <= p <= 1]
    if outside:
        raise InputError(f"false discovery: p value {outside[0]:g} is not between 0 and 1; correct it")
    factor = len(made) * (sum(1 / rank for rank in range(1, len(made) + 1)) if dependent else 1.0)
    corrected: list[float | None] = [None] * len(p_values)
    smallest = 1.0
    for rank, (p, position) in reversed(list(enumerate(sorted(made), start=1))):
        smallest = min(smallest, factor * p / rank)
        corrected[position] = smallest
    return tuple(corrected)


def with_holm(results: Iterable[Estimate], correction: str) -> tuple[Estimate, ...]:
    """Return results with Holm's p values and the word for it; one without a p value stays as it is."""
    given = tuple(results)
    return tuple(
        one if p is None else replace(one, p_value=p, correction=correction)
        for one, p in zip(given, holm([one.p_value for one in given]), strict=True)
    )


def holm_over(results: Iterable[Estimate], what: str) -> tuple[Estimate, ...]:
    """Return results with Holm's p values, corrected for as many tests as there are: ``Holm over 3 contrasts``."""
    given = tuple(results)
    tests = sum(one.p_value is not None for one in given)
    return with_holm(given, f"Holm over {tests} {what}" if tests > 1 else "none")

"""What was sampled of a bank: its cells, how like the bank, how new each base, and how well its items measure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.spatial.distance import jensenshannon

from toolkit.errors import InputError
from toolkit.stats.adaptive.sequential import block_means
from toolkit.stats.inference.proportions import clopper_pearson
from toolkit.stats.inference.run_table import need_columns, need_labels, scale_of
from toolkit.stats.result import ROUNDING, Estimate, Result
from toolkit.words import agreeing, counted

TAXONOMY: Final = ("scenario", "category", "csf", "length_bin")
FEW_MODELS: Final = 10  # models below which a correlation over models is mostly chance


@dataclass(frozen=True)
class Taxonomy(Result):
    """What a sample is of its bank; ``novelty`` has one number for each base, in the order asked."""

    about: ClassVar[str] = "taxonomy"
    kinds: ClassVar[Mapping[str, str]] = {name: name for name in ("coverage", "divergence", "items")}
    coverage: tuple[Estimate, ...]
    divergence: Estimate
    items: tuple[Estimate, ...]
    novelty: tuple[float, ...]


def sample_taxonomy(
    prompts: pd.DataFrame,
    asked: Sequence[Hashable],
    *,
    by: Sequence[str] = TAXONOMY,
    scores: pd.DataFrame | None = None,
    similarity: ArrayLike | None = None,
    permutations: int = 999,
    seed: int = 0,
) -> Taxonomy:
    r"""Return what a sample of bases covers of its bank.

    ``prompts`` is the bank, one row a prompt with base and the columns of ``by``, whose values make the cells; an
    empty csf is a value of its own. ``asked`` are bases in the order asked, each with its whole block; ``scores`` have
    their model, base, length_bin and score. ``similarity`` is N x N, 0 to 1, of all bases in the order in which they
    first stand in ``prompts``. The divergence is compared with ``permutations`` samples of as many bases.

    Shares of the values of each column, and of the cells, that the sample has; the Jensen-Shannon divergence (nats) of
    its cells to the bank's, with p the share of random samples that are as far; the mean novelty, 1 less the highest
    similarity to a base asked before (1 for the first); the share of bases on which every model has the maximum at
    every length (Clopper-Pearson); and the median over bases of Pearson's r, over models, of a base's score with the
    mean of the other bases.

    References
    ----------
    Lin (1991), IEEE Transactions on Information Theory 37, 145-151, for the divergence. Phipson & Smyth (2010) for p.

    Examples
    --------
    >>> bank = pd.DataFrame({"base": list("aabbccdd"), "scenario": list("xxxxyyyy"), "length_bin": list("SL" * 4)})
    >>> found = sample_taxonomy(bank, ["a", "b"], by=("scenario", "length_bin"))
    >>> [round(one.estimate, 2) for one in found.coverage], round(found.divergence.estimate, 3)
    ([0.5, 1.0, 0.5], 0.216)
    """
    need_columns("prompts", prompts, ("base", *by))
    need_labels("prompts", prompts, ("base",))
    bases = list(pd.unique(prompts["base"]))
    index = {base: row for row, base in enumerate(bases)}
    unknown = [base for base in asked if base not in index]
    if unknown or len(set(asked)) != len(asked) or not len(asked):
        raise InputError(
            f"taxonomy: {unknown[:1] or 'no base, or one twice'} asked; give bases of the bank, each once"
        )
    sample = np.array([index[base] for base in asked])
    n = {"bases": len(asked), "bases of the bank": len(bases)}
    columns = {name: prompts[name].astype(object).where(prompts[name].notna(), "none") for name in by}
    crossed = " x ".join(by)
    columns[crossed] = pd.Series(list(zip(*columns.values(), strict=True)), index=prompts.index)
    rows = np.array([index[base] for base in prompts["base"]])
    # How many prompts of each base (rows) are in each cell.
    cells = {name: pd.crosstab(rows, pd.factorize(column)[0]).to_numpy() for name, column in columns.items()}

    def covered(name: str) -> Estimate:
        share, facets = float((cells[name][sample].sum(axis=0) > 0).mean()), {"cells": name}
        title = f"coverage of {name}"
        return Estimate(title, share, unit="share", n=n, statistic="coverage", facets=facets)

    items: list[Estimate] = []
    novelties: np.ndarray = np.empty(0)
    if similarity is not None:
        novelties, unit = novelty(similarity, sample, len(bases)), "1 - highest similarity before"
        items.append(Estimate("mean novelty", float(novelties.mean()), unit=unit, n=n))
    if scores is not None:
        items += _items(scores[scores["base"].isin(set(asked))])
    divergence = _divergence(cells[crossed], sample, permutations, seed, n)
    return Taxonomy(tuple(map(covered, cells)), divergence, tuple(items), tuple(novelties.tolist()))


def novelty(similarity: ArrayLike, order: ArrayLike, size: int | None = None) -> np.ndarray:
    """Return what each base adds in an order: 1 less its highest similarity to one before; 1 for the first.

    ``similarity`` is N x N, 0 to 1; ``order`` has the rows of the bases in the order asked, as has what is returned.

    Examples
    --------
    >>> novelty([[1, 0.2, 0.9], [0.2, 1, 0], [0.9, 0, 1]], [0, 1, 2]).round(2).tolist()
    [1.0, 0.8, 0.1]
    """
    table, rows = np.asarray(similarity, dtype=float), np.asarray(order, dtype=int)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or (size is not None and len(table) != size):
        raise InputError(
            f"novelty: the similarity has the shape {table.shape}; give one row and column a base"
        )
    if not ((table >= -ROUNDING) & (table <= 1 + ROUNDING)).all():
        raise InputError("novelty: a similarity is not between 0 and 1")
    before = np.tril(table[np.ix_(rows, rows)], -1)
    return np.asarray(1 - before.max(axis=1, initial=0.0))


def _jensen_shannon(counts: np.ndarray, bank: np.ndarray) -> np.ndarray:
    # The distance of what is alike but for rounding is the root of a number just below 0.
    return np.nan_to_num(np.asarray(jensenshannon(counts, bank, axis=-1))) ** 2


def _divergence(
    cells: np.ndarray, sample: np.ndarray, permutations: int, seed: int, n: dict[str, int]
) -> Estimate:
    """Return the divergence to the bank and how often a random sample of as many bases is as far from it."""
    bank = cells.sum(axis=0)
    observed = float(_jensen_shannon(cells[sample].sum(axis=0), bank))
    divergence = Estimate("Jensen-Shannon divergence to the bank", observed, unit="nats", n=n)
    if not permutations:
        return divergence
    orders = np.argsort(np.random.default_rng(seed).random((permutations, len(cells))), axis=1)
    null = _jensen_shannon(np.stack([cells[order[: len(sample)]].sum(axis=0) for order in orders]), bank)
    p_value = (1 + int((null >= observed - ROUNDING).sum())) / (1 + permutations)
    mean = f"random samples of as many bases have {null.mean():.4f} in the mean"
    return replace(divergence, p_value=p_value, note=f"{mean}; one-sided, {permutations} drawn")


def _items(scores: pd.DataFrame) -> Iterator[Estimate]:
    means, incomplete = block_means(scores)
    values, missing = means.to_numpy(float), len(incomplete)
    n = {"bases": len(values), "models": values.shape[1] if values.size else 0}
    ceiling = Estimate("bases at the ceiling", None, unit="share", n=n, missing=missing)
    correlation = Estimate("median item-total correlation", None, n=n, missing=missing)
    if not len(values):
        yield from (estimate.not_estimable("no complete base") for estimate in (ceiling, correlation))
        return
    top = int((values >= scale_of(scores)[1] - 1e-9).all(axis=1).sum())
    low, high = clopper_pearson(top, len(values))
    yield replace(ceiling, estimate=top / len(values), low=low, high=high, method="Clopper-Pearson")
    totals = values.sum(axis=0) - values
    item, total = (x - x.mean(axis=1, keepdims=True) for x in (values, totals))
    size = np.sqrt((item**2).sum(axis=1) * (total**2).sum(axis=1))
    varies = size > 1e-9
    if values.shape[1] < 3 or not varies.any():
        yield correlation.not_estimable("fewer than three models, or all score alike")
        return
    r = (item * total).sum(axis=1)[varies] / size[varies]
    alike = int((~varies).sum())
    note = agreeing(alike, f"{counted(alike, 'bases')} on which all models score alike have none")
    if values.shape[1] < FEW_MODELS:
        note += f"; over {values.shape[1]} models a single correlation is mostly chance"
    method = "Pearson, base left out of the total"
    yield replace(correlation, estimate=float(np.median(r)), method=method, note=note)

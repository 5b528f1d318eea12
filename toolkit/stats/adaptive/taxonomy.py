"""What was sampled of a bank: its cells, how like the bank, how new each base, and how well its items measure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.spatial.distance import jensenshannon

from toolkit.errors import InputError
from toolkit.stats.adaptive.sequential import block_means
from toolkit.stats.inference.proportions import clopper_pearson
from toolkit.stats.inference.run_table import need_columns, need_labels
from toolkit.stats.result import ROUNDING, Estimate, Result
from toolkit.words import SCALE, agreeing, counted

TAXONOMY: Final = ("scenario", "category", "csf", "length_bin")
FEW_MODELS: Final = 10  # models below which a correlation over models is mostly chance


@dataclass(frozen=True)
class Taxonomy(Result):
    """What a sample is of its bank; ``novelty`` has one number for each base, in the order asked."""

    about: ClassVar[str] = "taxonomy"
    coverage: tuple[Estimate, ...]
    divergence: Estimate
    items: tuple[Estimate, ...]
    novelty: tuple[float, ...]

    def rows(self) -> Iterator[tuple[str, Estimate]]:
        """Return coverage, divergence, then what is known of the items."""
        yield from (("coverage", found) for found in self.coverage)
        yield ("divergence", self.divergence)
        yield from (("items", found) for found in self.items)


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

    Parameters
    ----------
    prompts
        The bank, one row a prompt: base and the columns of ``by``; an empty csf is a value of its own.
    asked
        Bases in the order asked; each with its whole block.
    by
        Columns whose values make the cells.
    scores
        Of the bases asked: model, base, length_bin, score; for the items at the ceiling and the correlations.
    similarity
        N x N, of all bases of the bank in the order in which they first stand in ``prompts``, 0 to 1.
    permutations, seed
        Samples of as many bases drawn at random, without replacement, that the divergence is held against.

    Returns
    -------
    Taxonomy
        Shares of the values of each column, and of the cells, that the sample has; the Jensen-Shannon divergence (nats)
        of its cells to the bank's, with p the share of random samples that are as far; the mean novelty, 1 less the
        highest similarity to a base asked before (1 for the first); the share of bases on which every model has the
        maximum at every length (Clopper-Pearson); and the median over bases of Pearson's r, over models, of a base's
        score with the mean of the other bases.

    Raises
    ------
    InputError
        When a column is missing, a base is not in the bank or asked twice, or the similarity is of another shape.

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
    where = {base: place for place, base in enumerate(bases)}
    wrong = [base for base in asked if base not in where]
    if wrong or len(set(asked)) != len(asked) or not len(asked):
        raise InputError(
            f"taxonomy: {wrong[:1] or 'no base, or one twice'} asked; give bases of the bank, each once"
        )
    places = np.array([where[base] for base in asked])
    columns = {name: prompts[name].astype(object).where(prompts[name].notna(), "none") for name in by}
    cells = {name: _counts(column, prompts["base"], where) for name, column in columns.items()}
    crossed = pd.Series(list(zip(*columns.values(), strict=True)), index=prompts.index)
    cells[" x ".join(by)] = whole = _counts(crossed, prompts["base"], where)
    n = {"bases": len(asked), "bases of the bank": len(bases)}
    coverage = tuple(
        Estimate(
            f"coverage of {name}",
            float((of[places].sum(axis=0) > 0).mean()),
            unit="share",
            n=n,
            statistic="coverage",
            facets={"cells": name},
        )
        for name, of in cells.items()
    )
    items: list[Estimate] = []
    new: np.ndarray = np.empty(0)
    if similarity is not None:
        new = novelty(similarity, places, len(bases))
        items.append(Estimate("mean novelty", float(new.mean()), unit="1 - highest similarity before", n=n))
    if scores is not None:
        items += _items(scores[scores["base"].isin(set(asked))])
    return Taxonomy(
        coverage, _divergence(whole, places, permutations, seed, n), tuple(items), tuple(new.tolist())
    )


def novelty(similarity: ArrayLike, order: ArrayLike, size: int | None = None) -> np.ndarray:
    """Return what each base adds in an order: 1 less its highest similarity to one before; 1 for the first.

    Parameters
    ----------
    similarity
        N x N, 0 to 1.
    order
        Places of the bases in the order asked.
    size
        N, where the bank says it.

    Returns
    -------
    numpy.ndarray
        One number a base, in the order asked.

    Raises
    ------
    InputError
        When the similarity is not square, of another size, or not between 0 and 1.

    Examples
    --------
    >>> novelty([[1, 0.2, 0.9], [0.2, 1, 0], [0.9, 0, 1]], [0, 1, 2]).round(2).tolist()
    [1.0, 0.8, 0.1]
    """
    alike, places = np.asarray(similarity, dtype=float), np.asarray(order, dtype=int)
    if alike.ndim != 2 or alike.shape[0] != alike.shape[1] or (size is not None and len(alike) != size):
        raise InputError(
            f"novelty: the similarity has the shape {alike.shape}; give one row and column a base"
        )
    if not ((alike >= -ROUNDING) & (alike <= 1 + ROUNDING)).all():
        raise InputError("novelty: a similarity is not between 0 and 1")
    before = np.tril(alike[np.ix_(places, places)], -1)
    return np.asarray(1 - before.max(axis=1, initial=0.0))


def _counts(values: pd.Series, bases: pd.Series, where: dict[Hashable, int]) -> np.ndarray:
    """Return how many prompts of each base (rows) stand in each cell."""
    cell, found = pd.factorize(values)
    counts = np.zeros((len(where), len(found)))
    np.add.at(counts, (np.array([where[base] for base in bases]), cell), 1)
    return counts


def _jensen_shannon(counts: np.ndarray, bank: np.ndarray) -> np.ndarray:
    # The distance of what is alike but for rounding is the root of a number just below 0.
    return np.nan_to_num(np.asarray(jensenshannon(counts, bank, axis=-1))) ** 2


def _divergence(
    cells: np.ndarray, places: np.ndarray, permutations: int, seed: int, n: dict[str, int]
) -> Estimate:
    """Return the divergence to the bank and how often a random sample of as many bases is as far from it."""
    bank = cells.sum(axis=0)
    found = float(_jensen_shannon(cells[places].sum(axis=0), bank))
    dice = np.random.default_rng(seed)
    drawn = np.argsort(dice.random((permutations, len(cells))), axis=1)[:, : len(places)]
    null = (
        _jensen_shannon(np.stack([cells[one].sum(axis=0) for one in drawn]), bank)
        if permutations
        else np.empty(0)
    )
    name = "Jensen-Shannon divergence to the bank"
    if not permutations:
        return Estimate(name, found, unit="nats", n=n)
    p_value = (1 + int((null >= found - ROUNDING).sum())) / (1 + permutations)
    note = (
        f"random samples of as many bases have {null.mean():.4f} in the mean; one-sided, {permutations} drawn"
    )
    return Estimate(name, found, unit="nats", n=n, p_value=p_value, note=note)


def _items(scores: pd.DataFrame) -> Iterator[Estimate]:
    means, absent = block_means(scores)
    broken = len(absent)
    values = means.to_numpy(float)
    n = {"bases": len(values), "models": values.shape[1] if values.size else 0}
    ceiling = Estimate("bases at the ceiling", None, unit="share", n=n, missing=broken)
    title = "median item-total correlation"
    if not len(values):
        yield ceiling.not_estimable("no complete base")
        yield Estimate(title, None, n=n, missing=broken).not_estimable("no complete base")
        return
    top = int((values >= SCALE[1] - 1e-9).all(axis=1).sum())
    low, high = clopper_pearson(top, len(values))
    yield Estimate(ceiling.name, top / len(values), low, high, "Clopper-Pearson", "share", n, missing=broken)
    rest = values.sum(axis=0) - values
    one, other = (x - x.mean(axis=1, keepdims=True) for x in (values, rest))
    size = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    told = size > 1e-9
    correlation = Estimate(title, None, n=n, missing=broken)
    if values.shape[1] < 3 or not told.any():
        yield correlation.not_estimable("fewer than three models, or all score alike")
        return
    r = (one * other).sum(axis=1)[told] / size[told]
    alike = int((~told).sum())
    note = agreeing(alike, f"{counted(alike, 'bases')} on which all models score alike have none")
    if values.shape[1] < FEW_MODELS:
        note += f"; over {values.shape[1]} models a single correlation is mostly chance"
    yield Estimate(
        title,
        float(np.median(r)),
        method="Pearson, base left out of the total",
        n=n,
        missing=broken,
        note=note,
    )

"""What was sampled of a bank: its cells, and how like the bank it is."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy.spatial.distance import jensenshannon

from toolkit.errors import InputError
from toolkit.stats.inference.run_table import need_labelled
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result

TAXONOMY = ("scenario", "category", "csf", "length_bin")
PERMUTATIONS = 999


@dataclass(frozen=True)
class Taxonomy(Result):
    """What a sample covers of its bank, and how far its cells are from the bank's."""

    about = "taxonomy"
    kinds: ClassVar[Mapping[str, str]] = {name: name for name in ("coverage", "divergence")}
    coverage: Estimates
    divergence: Estimate


def sample_taxonomy(
    prompts: pd.DataFrame, asked: Sequence[Hashable], *, by: Sequence[str] = TAXONOMY, seed: int = 0
) -> Taxonomy:
    r"""Return what a sample of bases covers of its bank.

    ``prompts`` is the bank, one row a prompt with base and the columns of ``by``, whose values make the cells; an
    empty csf is a value of its own. ``asked`` are bases, each with its whole block.

    Shares of the values of each column, and of the cells, that the sample has; and the Jensen-Shannon divergence (nats)
    of its cells to the bank's, with p the share of 999 random samples of as many bases that are as far.

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
    need_labelled("prompts", prompts, ("base",), *by)
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
    coverage = []
    for name, counts in cells.items():
        share, title = float((counts[sample].sum(axis=0) > 0).mean()), f"coverage of {name}"
        estimate = Estimate(title, share, unit="share", n=n, statistic="coverage", facets={"cells": name})
        coverage.append(estimate)
    bank_cells = cells[crossed].sum(axis=0)
    observed = float(_jensen_shannon(cells[crossed][sample].sum(axis=0), bank_cells))
    orders = np.argsort(np.random.default_rng(seed).random((PERMUTATIONS, len(bases))), axis=1)
    samples = np.stack([cells[crossed][order[: len(sample)]].sum(axis=0) for order in orders])
    null = _jensen_shannon(samples, bank_cells)
    p_value = (1 + int((null >= observed - ROUNDING).sum())) / (1 + PERMUTATIONS)
    mean = f"random samples of as many bases have {null.mean():.4f} in the mean"
    note = f"{mean}; one-sided, {PERMUTATIONS} drawn"
    name = "Jensen-Shannon divergence to the bank"
    divergence = Estimate(name, observed, unit="nats", n=n, p_value=p_value, note=note)
    return Taxonomy(tuple(coverage), divergence)


def _jensen_shannon(counts: np.ndarray, bank: np.ndarray) -> np.ndarray:
    # The distance of what is alike but for rounding is the root of a number just below 0.
    return np.nan_to_num(np.asarray(jensenshannon(counts, bank, axis=-1))) ** 2

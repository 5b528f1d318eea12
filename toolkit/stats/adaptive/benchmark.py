"""Adaptive against static benchmarking, measured on parts of a bank, and what such a part covers of it."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.spatial.distance import jensenshannon

from toolkit.errors import InputError
from toolkit.stats.adaptive import sequential
from toolkit.stats.inference.means import mean_estimate
from toolkit.stats.inference.proportions import clopper_pearson, rate_mean
from toolkit.stats.inference.run_table import need_labelled
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result

BASES_PER_ROUND = 2  # small, so that designs are compared and not round sizes

Choose = Callable[[sequential.Bank, np.ndarray, np.ndarray, np.ndarray, int, int], np.ndarray]
"""Bank, rows sampled, those with scores, their scores (n x M), seed and count in, the next rows out."""


@dataclass(frozen=True)
class BenchmarkDesign:
    """A way to ask a bank: how bases are chosen, and whether strata and categories are used."""

    name: str
    choose: Choose
    calibrated: bool = True


def benchmark_designs(
    scores: pd.DataFrame,
    bank: pd.DataFrame,
    designs: Sequence[BenchmarkDesign],
    *,
    target_width: float,
    seeds: int = 200,
    score: str = "score",
    cost_unit: str = "AUD",
) -> Result:
    r"""Return what designs cost and how near they come to the full bank, over seeds; the first is the baseline.

    Each design asks two bases at a time until the widest interval of a difference is at most ``target_width``.

    ``scores`` has model, base, level and the score of every model on every base; bases without all of them are
    left out, and 12 are needed. ``bank`` is that of `read_bank`, with cost in ``cost_unit`` per base. The baseline is
    commonly random sampling of common items; `toolkit.adaptive.rounds` has both choices.

    Trials have design, seed, bases and cost when the width was reached, covered (share of the differences whose
    interval has the truth), always_covered (at every look), all_covered (all differences), and at the equal cost: tau,
    score_error and width. Curves have one row per design, seed and round: bases, cost, and the width by then.

    For each design: median cost and bases to the width; the ratio of its cost to the baseline's with the same seed;
    coverage of the differences on the full bank, when the width is reached, at every look, and of all jointly; and at
    equal cost Kendall's tau-b with the full bank's ranking, the error of the means, and the widest interval.

    References
    ----------
    Kossen et al. (2021), Active Testing, ICML.

    Examples
    --------
    >>> from toolkit.adaptive.rounds import at_random, by_variance
    >>> bases = [f"b{i}" for i in range(16)]
    >>> rows = [(m, b, "S", 3 + (m == "x") + (i * 7 % 5) / 4) for m in "xy" for i, b in enumerate(bases)]
    >>> scores = pd.DataFrame(rows, columns=["model", "base", "level", "score"])
    >>> designs = [BenchmarkDesign("random", at_random), BenchmarkDesign("adaptive", by_variance)]
    >>> bank = pd.DataFrame({"base": bases, "cost": 1.0})
    >>> result = benchmark_designs(scores, bank, designs, target_width=0.5, seeds=2)
    >>> sorted(result.trials["design"].unique())
    ['adaptive', 'random']
    """
    means, _ = sequential.block_means(scores, score)
    scored = bank["base"].isin(means.index)
    count, least = int(scored.sum()), sequential.LEAST
    if count < least or means.shape[1] < 2 or not designs or seeds < 1:
        lack = (
            f"{count} of {len(bank)} bases have a score of every model at every level, and {least} are needed"
        )
        raise InputError(
            f"benchmark: {lack if count < least else 'nothing to compare; give two models or more'}"
        )
    read = sequential.read_bank(bank[scored])
    values = means.loc[list(read.bases)].to_numpy(float)
    setups = ((read, values, seed) for seed in range(seeds))
    notes = sequential.left_out_note(bank.loc[~scored, "base"].tolist())
    return trials_summary(setups, designs, target_width, cost_unit, notes)


@dataclass(frozen=True)
class _Trial:
    """After each round of a trial: cost, number of bases, half width of the widest difference, and fit."""

    cost: np.ndarray
    bases: np.ndarray
    half: np.ndarray
    fits: list[sequential.Fit]


def _trial(
    bank: sequential.Bank,
    values: np.ndarray,
    design: BenchmarkDesign,
    seed: int,
    target: float,
    budget: float,
) -> _Trial:
    """Sample bases until both the width and the budget are reached."""
    design_bank = bank if design.calibrated else bank.plain()
    bound, sample = sequential.boundary(sequential.LOOKS), np.empty(0, dtype=int)
    cost, bases, half, fits = list[float](), list[int](), list[float](), list[sequential.Fit]()
    while len(sample) < len(values) and not (half and 2 * min(half) <= target and cost[-1] >= budget):
        count = BASES_PER_ROUND if len(sample) >= sequential.LEAST else sequential.LEAST
        chosen = design.choose(bank, sample, sample, values[sample], seed, count)
        sample = np.concatenate([sample, chosen])
        fitted = sequential.fit(design_bank, sample, values[sample])
        if fitted is not None:
            _, error, degrees = fitted.pairs()
            cost.append(float(bank.costs[sample].sum()))
            bases.append(len(sample))
            half.append(sequential.widest_half(error, degrees, bound))
            fits.append(fitted)
    return _Trial(np.array(cost), np.array(bases), np.array(half), fits)


def trials_summary(
    setups: Iterable[tuple[sequential.Bank, np.ndarray, int]],
    designs: Sequence[BenchmarkDesign],
    target: float,
    unit: str = "AUD",
    more_notes: Iterable[str] = (),
) -> Result:
    """Return the summary of designs tried on banks, each with its true scores and a seed."""
    if not target > 0:
        raise InputError(f"benchmark: target_width is {target!r}; give a number above 0")
    banks = list(setups)
    budget = 0.0
    rows: list[dict[str, object]] = []
    curves: list[pd.DataFrame] = []
    for design in designs:
        runs = [_trial(bank, values, design, seed, target, budget) for bank, values, seed in banks]
        if not rows:  # the budget is the median cost of the baseline, which runs again with it
            budget = float(np.median([run.cost[run.half * 2 <= target][0] for run in runs]))
            runs = [_trial(bank, values, design, seed, target, budget) for bank, values, seed in banks]
        for run, (_, values, seed) in zip(runs, banks, strict=True):
            label: dict[str, Any] = {"design": design.name, "seed": seed}
            rows.append(label | _row(run, values, target, budget))
            curve = pd.DataFrame({"bases": run.bases, "cost": run.cost, "width": 2 * run.half})
            curves.append(curve.assign(**label))
    frame = pd.DataFrame(rows)
    first = designs[0].name
    results = {design.name: _estimates(frame, design.name, first, budget, unit) for design in designs}
    notes = (
        f"width {target:g} of the widest difference; equal cost is {budget:.4g} {unit}, the median of {first}",
        "an interval holds for one difference, not for all jointly",
        *more_notes,
    )
    return Result(
        "benchmark",
        target_width=target,
        results=results,
        notes=notes,
        trials=frame,
        curves=pd.concat(curves, ignore_index=True),
    )


def _row(run: _Trial, values: np.ndarray, target: float, budget: float) -> dict[str, object]:
    """Return the results of one trial where its width was reached, and at the last round within the budget."""
    truth = values.mean(axis=0)
    first, second = np.triu_indices(len(truth), 1)
    at_width = int(np.argmax(2 * run.half <= target))
    inside = []
    bound = sequential.boundary(sequential.LOOKS)
    information = np.minimum(target / (2 * np.maximum(run.half, 1e-150)), 1.0) ** 2
    # The four looks: the first round at which 1/4, 2/4, 3/4 and all of the information is there.
    for look in np.unique(
        [np.argmax(information >= k / sequential.LOOKS - ROUNDING) for k in range(1, sequential.LOOKS + 1)]
    ):
        estimate, error, degrees = run.fits[look].pairs()
        half, _ = sequential.half_widths(error, degrees, bound, target, float(run.half[look]))
        inside.append(np.abs(estimate - (truth[first] - truth[second])) <= half + 1e-12)
    covered = inside[-1]
    at_budget = max(int(np.searchsorted(run.cost, budget * (1 + 1e-12), side="right")) - 1, 0)
    means = run.fits[at_budget].means
    return {
        "bases": int(run.bases[at_width]),
        "cost": float(run.cost[at_width]),
        "covered": float(covered.mean()),
        "always_covered": float(np.all(inside, axis=0).mean()),
        "all_covered": bool(covered.all()),
        "tau": float(stats.kendalltau(means, truth, variant="b").statistic),
        "score_error": float(np.sqrt(((means - truth) ** 2).mean())),
        "width": float(2 * run.half[at_budget]),
    }


def _estimates(frame: pd.DataFrame, name: str, baseline: str, budget: float, unit: str) -> Estimates:
    trials = frame[frame["design"] == name].set_index("seed")
    trials["ratio"] = trials["cost"] / frame[frame["design"] == baseline].set_index("seed")["cost"]
    count, at_cost = len(trials), f" at {budget:.4g} {unit}"

    def median(title: str, column: str, unit: str = "none", statistic: str = "") -> Estimate:
        """Return the median with the interval of its binomial ranks."""
        x, rank = np.sort(trials[column].to_numpy(float)), int(stats.binom.ppf(0.025, count, 0.5))
        low, high = (float(x[rank - 1]), float(x[count - rank])) if rank >= 1 else (None, None)
        n, middle = {"seeds": count}, float(np.median(x))
        return Estimate(title, middle, low, high, "binomial ranks", unit, n, statistic=statistic)

    def rate(title: str, column: str, statistic: str = "") -> Estimate:
        empty = Estimate(title, unit="share", n={"seeds": count}, statistic=statistic)
        return rate_mean(empty, trials[column], list(trials.index))

    tau = trials["tau"].dropna()
    ranked = Estimate(
        f"Kendall's tau{at_cost}",
        method="Student t over seeds",
        n={"seeds": len(tau)},
        missing=count - len(tau),
    )
    joint, coverage = int(trials["all_covered"].sum()), "coverage of the differences"
    ends, n = clopper_pearson(joint, count), {"seeds": count}
    return (
        median("cost to the width", "cost", unit),
        median("bases to the width", "bases", "bases"),
        median(f"cost over that of {baseline}", "ratio", "share", "cost over the baseline"),
        rate(coverage, "covered", coverage),
        rate("coverage at every look", "always_covered"),
        Estimate("coverage of all jointly", joint / count, *ends, "Clopper-Pearson", "share", n),
        median(f"error of the means{at_cost}", "score_error", statistic="error of the means"),
        median(f"width{at_cost}", "width"),
        mean_estimate(ranked, tau, list(tau.index), "every ranking is of ties"),
    )


TAXONOMY = ("scenario", "category", "csf", "level")
PERMUTATIONS = 999


def sample_taxonomy(
    prompts: pd.DataFrame, asked: Sequence[Hashable], *, by: Sequence[str] = TAXONOMY, seed: int = 0
) -> Result:
    r"""Return what a sample of bases covers of its bank.

    ``prompts`` is the bank, one row per prompt with base and the columns of ``by``, whose values make the cells; an
    empty csf is a value of its own. ``asked`` are bases, each with its whole block.

    Shares of the values of each column, and of the cells, that the sample has; Jensen-Shannon divergence (nats) to the
    bank's cells, with p the share of samples, this one and 999 random ones of equal size, at least as far.

    References
    ----------
    Lin (1991), IEEE Trans. Inf. Theory 37, 145-151, for the divergence. Phipson & Smyth (2010) for p.

    Examples
    --------
    >>> bank = pd.DataFrame({"base": list("aabbccdd"), "scenario": list("xxxxyyyy"), "level": list("SL" * 4)})
    >>> found = sample_taxonomy(bank, ["a", "b"], by=("scenario", "level"))
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
    return Result("taxonomy", coverage=coverage, divergence=divergence)


def _jensen_shannon(counts: np.ndarray, bank: np.ndarray) -> np.ndarray:
    # The distance of what is alike but for rounding is the root of a number just below 0.
    return np.nan_to_num(np.asarray(jensenshannon(counts, bank, axis=-1))) ** 2

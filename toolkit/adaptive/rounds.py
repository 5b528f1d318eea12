"""Adaptive benchmarking: which base is asked next, an adaptive study in rounds, and a finished one asked again so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.pipeline import run_plan
from toolkit.plan import Plan
from toolkit.prompts.dataset import without_arms
from toolkit.runs.gateway import endpoints_of, worst_aud
from toolkit.runs.measure import Outcome
from toolkit.stats.adaptive.benchmark import BenchmarkDesign, benchmark_designs, sample_taxonomy
from toolkit.stats.adaptive.sequential import LEAST, Bank, block_means, fit, read_bank, sequential_comparison
from toolkit.stats.result import Result
from toolkit.store.filters import planned_runs
from toolkit.words import total_aud

FIRST = 4  # bases of each stratum before its variance is believed enough to be compared
ROUND = 4  # bases asked before it looks again: so many blocks of all models keep the providers busy


def next_bases(
    bank: pd.DataFrame, scores: pd.DataFrame, *, seed: int, count: int = 1, score: str = "score"
) -> list[str]:
    """Return at most ``count`` bases to ask next of all models, by the bank, the scores so far and the seed alone."""
    # Neyman's allocation at cost: Cochran (1977), section 5.5; Fogliato et al. (2024), arXiv:2406.07320.
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
    """Return the rows of the next bases; of those ``sampled``, ``complete`` have the scores ``values`` (n, M).

    The first bases, twelve and four of each stratum, are in proportion. Then the stratum whose next base is expected to
    take most from the variance of the model differences per AUD gives the next base of its order.
    """
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


if TYPE_CHECKING:
    from toolkit.store.connection import Store

DESIGNS = (
    BenchmarkDesign("random", at_random, calibrated=False),
    BenchmarkDesign("random, calibrated", at_random),
    BenchmarkDesign("adaptive", by_variance),
)
"""The baseline is common items at random; the second has the estimate of the third, so that the choice alone shows."""


def run_adaptively(plan: Plan, store: Store, *, replay: bool = False, **options: Any) -> Outcome:
    """Run an adaptive study round by round, whole bases of all models, until its differences have the wanted width."""
    # The next bases follow from the scores and the seed alone: a study that was killed goes through the same rounds.
    bank, runs, score = bank_of(plan), planned_runs(plan, store), plan.study.analysis.score
    if replay:
        return run_plan(_of_bases(plan, runs["base"].unique()), store, replay=True, **options)
    bases: list[str] = []
    rounds: list[Outcome] = []
    while chosen := next_bases(
        bank, runs[runs["base"].isin(bases)], seed=plan.study.seed, count=ROUND, score=score
    ):
        part = _of_bases(plan, chosen)
        rounds.append(run_plan(part, store, **options))
        bases += chosen
        runs = planned_runs(_of_bases(plan, bases), store)
        scored = runs.loc[runs["base"].isin(chosen) & runs[score].notna(), "base"].value_counts()
        if rounds[-1].budget or scored.max() < len(part.runs) / len(chosen):  # no block that says something
            break
        width = plan.study.target_width
        if sequential_comparison(runs, bank, target_width=width, score=score).stop:
            break
    # The last pass asks what the rounds still lack, mostly nothing, and reports the state of all of them.
    passes = [*rounds, run_plan(_of_bases(plan, bases), store, **options)] if len(rounds) > 1 else rounds
    return replace(
        passes[-1],
        new_calls=sum(outcome.new_calls for outcome in passes),
        spent_aud=total_aud(outcome.spent_aud for outcome in passes),
        failed_before=sum((Counter(outcome.failed_before) for outcome in rounds), Counter()),
    )


def bank_of(plan: Plan) -> pd.DataFrame:
    """Return base, scenario, category and the cost of the whole block in AUD at worst; 1 where models cost nothing."""
    _need_judges(plan)
    if len(set(plan.clusters.values())) < len(plan.clusters):
        raise InputError(
            f"study {plan.study.name}: bases of {plan.dataset.name} share texts, so they are not independent and "
            "cannot be chosen one by one; leave the copies out (`toolkit prompts check`)"
        )
    endpoints = {endpoint.key: endpoint for endpoint in endpoints_of(plan)}
    prompts = {prompt.prompt_id: prompt for prompt in plan.dataset.prompts}
    rows = []
    for run in plan.runs:
        if not run.of_arm:
            prompt, request = prompts[run.prompt.prompt_id], run.request
            aud = worst_aud(request, endpoints[request.provider, request.model, request.endpoint])
            rows.append((prompt.base, prompt.scenario, prompt.category, aud))
    names = ["base", "scenario", "category"]
    frame = pd.DataFrame(rows, columns=[*names, "aud"])
    bank = frame.groupby(names, sort=False, as_index=False).sum()
    paid = bool((bank["aud"] > 0).all())
    bank = bank.assign(cost=bank["aud"] if paid else 1.0)
    bank.attrs["unit"] = "AUD" if paid else "bases"
    return bank


def _need_judges(plan: Plan) -> None:
    if not plan.test.judged:
        raise InputError(
            f"study {plan.study.name}: test {plan.test.name} has no judges, and so no scores to choose bases by; "
            "study.results() and study.compare_models() have its numbers"
        )


def _of_bases(plan: Plan, bases: Collection[str]) -> Plan:
    prompts = {prompt.prompt_id for prompt in plan.dataset.prompts if prompt.base in bases}
    return replace(plan, runs=plan.runs.of_prompts(prompts))


def benchmark(plan: Plan, runs: pd.DataFrame, target_width: float, seeds: int) -> Result:
    """Return what each of the designs would have cost and found in a finished study, over seeds."""
    bank, score = bank_of(plan), plan.study.analysis.score
    return benchmark_designs(
        runs, bank, DESIGNS, target_width=target_width, seeds=seeds, score=score, cost_unit=bank.attrs["unit"]
    )


def adaptive_order(plan: Plan, runs: pd.DataFrame, count: int) -> list[str]:
    """Return the bases that an adaptive study would have asked first, from the scores of a finished one."""
    bank, order, score = bank_of(plan), list[str](), plan.study.analysis.score
    while len(order) < count:
        scored, size = runs[runs["base"].isin(order)], min(ROUND, count - len(order))
        order += next_bases(bank, scored, seed=plan.study.seed, count=size, score=score)
    return order


def taxonomy(plan: Plan, runs: pd.DataFrame, asked: Sequence[str] | None = None) -> Result:
    """Return what some bases, by default those asked, cover of the dataset."""
    _need_judges(plan)
    order = list(asked) if asked is not None else list(runs.sort_values("created_at")["base"].unique())
    if not order:
        raise InputError(f"study {plan.study.name}: no base was asked yet; run the study first")
    prompts = pd.DataFrame(
        [
            {"base": prompt.base, "scenario": prompt.scenario, "category": prompt.category,
             "csf": prompt.metadata.get("csf"), "level": prompt.level}
            for prompt in without_arms(plan.dataset.prompts)
        ]
    )  # fmt: skip
    return sample_taxonomy(prompts, order, seed=plan.study.seed)

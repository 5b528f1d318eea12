"""Adaptive benchmarking: an adaptive study asked in rounds, and a finished one asked again as if it were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from toolkit.adaptive.selection import at_random, by_variance, next_bases
from toolkit.errors import InputError
from toolkit.measure import Outcome
from toolkit.pipeline import run_plan
from toolkit.plan import Plan
from toolkit.prompts.similarity import jaccard
from toolkit.runs.gateway import endpoints_of, worst_aud
from toolkit.stats.adaptive.benchmark import Benchmark, BenchmarkDesign, benchmark_designs
from toolkit.stats.adaptive.sequential import sequential_comparison
from toolkit.stats.adaptive.taxonomy import Taxonomy, sample_taxonomy
from toolkit.store.filters import planned_runs
from toolkit.words import total_aud

if TYPE_CHECKING:
    from toolkit.store.connection import Store

ROUND: Final = 4
"""Bases that an adaptive study asks before it looks again: so many blocks of all models keep the providers busy."""
DESIGNS: Final = (
    BenchmarkDesign("random", at_random, calibrated=False),
    BenchmarkDesign("random, calibrated", at_random),
    BenchmarkDesign("adaptive", by_variance),
)
"""The baseline is common items at random; the second has the estimate of the third, so that the choice alone shows."""


def run_adaptively(plan: Plan, store: Store, *, replay: bool = False, **how: Any) -> Outcome:
    """Ask and judge an adaptive study round by round, whole bases of all models, until its differences are told apart.

    Which bases are next follows from the scores of the rounds before and the seed alone, so that a study that was
    killed goes through the same rounds, and asks what is missing in them.
    """
    bank, runs, score = bank_of(plan), planned_runs(plan, store), plan.study.analysis.score
    if replay:
        return run_plan(_of_bases(plan, runs["base"].unique()), store, replay=True, **how)
    done: list[str] = []
    rounds: list[Outcome] = []
    while chosen := next_bases(
        bank, runs[runs["base"].isin(done)], seed=plan.study.seed, count=ROUND, score=score
    ):
        part = _of_bases(plan, chosen)
        rounds.append(run_plan(part, store, **how))
        done += chosen
        runs = planned_runs(_of_bases(plan, done), store)
        scored = runs.loc[runs["base"].isin(chosen) & runs[score].notna(), "base"].value_counts()
        if rounds[-1].budget or scored.max() < len(part.runs) / len(chosen):  # no block that says something
            break
        width = plan.study.target_width
        if sequential_comparison(runs, bank, target_width=width, score=score).stop:
            break
    # Asks what is still missing of the rounds, mostly nothing, and says how all of them stand.
    whole = run_plan(_of_bases(plan, done), store, **how) if len(rounds) > 1 else rounds[0]
    every = [*rounds, whole] if len(rounds) > 1 else rounds
    return replace(
        whole,
        new_calls=sum(one.new_calls for one in every),
        spent_aud=total_aud(one.spent_aud for one in every),
        failed_before=sum((Counter(one.failed_before) for one in rounds), Counter()),
    )


def bank_of(plan: Plan) -> pd.DataFrame:
    """Return the bases of a plan as a bank: base, scenario, category and the cost of its whole block in AUD at worst.

    Where models cost nothing, each base costs one: ``attrs["unit"]`` says which.
    """
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
        prompt, asked = prompts[run.prompt.prompt_id], run.request
        aud = worst_aud(asked, endpoints[asked.provider, asked.model, asked.endpoint])
        rows.append((prompt.base, prompt.scenario, prompt.category, aud))
    frame = pd.DataFrame(rows, columns=["base", "scenario", "category", "aud"])
    bank = frame.groupby(["base", "scenario", "category"], sort=False, as_index=False).sum()
    paid = bool((bank["aud"] > 0).all())
    found = bank.assign(cost=bank["aud"] if paid else 1.0)
    found.attrs["unit"] = "AUD" if paid else "bases"
    return found


def _need_judges(plan: Plan) -> None:
    if not plan.test.judged:
        raise InputError(
            f"study {plan.study.name}: test {plan.test.name} has no judges, and so no scores of bases at every length; "
            "study.results() and study.compare_models() have its numbers"
        )


def _of_bases(plan: Plan, bases: Collection[str]) -> Plan:
    wanted = set(bases)
    of = {prompt.prompt_id for prompt in plan.dataset.prompts if prompt.base in wanted}
    return replace(plan, runs=plan.runs.of_prompts(of))


def benchmark(plan: Plan, runs: pd.DataFrame, target_width: float, seeds: int) -> Benchmark:
    """Return what each of the designs would have cost and found in a finished study, over seeds."""
    bank, score = bank_of(plan), plan.study.analysis.score
    return benchmark_designs(
        runs, bank, DESIGNS, target_width=target_width, seeds=seeds, score=score, cost_unit=bank.attrs["unit"]
    )


def adaptive_order(plan: Plan, runs: pd.DataFrame, count: int) -> list[str]:
    """Return the bases that an adaptive study would have asked first, from the scores of a finished one."""
    bank, asked, score = bank_of(plan), list[str](), plan.study.analysis.score
    while len(asked) < count:
        known = runs[runs["base"].isin(asked)]
        asked += next_bases(
            bank, known, seed=plan.study.seed, count=min(ROUND, count - len(asked)), score=score
        )
    return asked


def taxonomy(plan: Plan, runs: pd.DataFrame, asked: Sequence[str] | None = None) -> Taxonomy:
    """Return what some bases, by default those asked, cover of the dataset, and how well its items measure."""
    _need_judges(plan)
    order = list(asked) if asked is not None else list(runs.sort_values("created_at")["base"].unique())
    if not order:
        raise InputError(f"study {plan.study.name}: no base was asked yet; run the study first")
    rows = [
        (one.base, one.scenario, one.category, one.metadata.get("csf"), one.length_bin, one.text)
        for one in plan.dataset.prompts
    ]
    prompts = pd.DataFrame(rows, columns=["base", "scenario", "category", "csf", "length_bin", "text"])
    texts = prompts.groupby("base", sort=False)["text"].agg("\n".join)
    similarity = np.clip(jaccard(list(texts)), 0, 1)
    scores = runs.rename(columns={plan.study.analysis.score: "score"})
    return sample_taxonomy(prompts, order, scores=scores, similarity=similarity, seed=plan.study.seed)

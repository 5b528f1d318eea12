"""How far the judges of a study can be trusted: probed with altered replies, compared on labelled answers.

Both ask through the study's gateway, into its ledger and under its budget: what the ledger has is not asked again.
"""

from __future__ import annotations

import math
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.errors import BudgetReached, InputError
from toolkit.judges.alterations import KINDS, Altering, Probe, deal, probes_of, shipped_attacks
from toolkit.judges.hallucination import (
    MODES,
    REASONS,
    HallucinationVerdict,
    Mode,
    hallucination_requests,
    judge_hallucination,
)
from toolkit.judges.labelled import LabelledItem
from toolkit.judges.probes import (
    Bench,
    ProbeResult,
    Target,
    probe_pairs,
    probe_requests,
)
from toolkit.judges.request import JudgeSpec, fence_code
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.pipeline import ask_study
from toolkit.plan import Plan, PlannedRun
from toolkit.runs.execution import each
from toolkit.stats.agreement.probe_shift import CONTROL
from toolkit.stats.detection.deciders import Decider, baselines, compare_deciders, decider, deciders_frame
from toolkit.stats.detection.prevalence import Prevalence, corrected_prevalence
from toolkit.stats.result import Estimate
from toolkit.store.records import reply_texts, stored_runs
from toolkit.words import Summary

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.stats.agreement.judge_card import JudgeCard
    from toolkit.store.connection import Store
    from toolkit.study import Study

REPLIES: Final = 12
"""Replies that are probed by default."""
ATTACKS: Final = 3
"""Attacks for each reply by default: with 12 replies they are 36 different ones."""
_AHEAD: Final = 3
"""Verdicts under way for each request that may be: one that waits for its last vote must not stop the others."""


# --- probes ---------------------------------------------------------------------------------------------------------


def probe_bench(plan: Plan) -> Bench:
    """Return how the probes of a study are judged: as its runs are."""
    return Bench(plan.judges_of, plan.rubric, plan.manner)


def probe_targets(
    plan: Plan,
    store: Store,
    *,
    replies: int = REPLIES,
    seed: int | None = None,
    kinds: Collection[str] = tuple(KINDS),
    attacks: int | None = ATTACKS,
) -> tuple[Target, ...]:
    """Return the replies that `probe_judges` would probe, with their altered versions; nothing is asked."""
    if not (plan.test.judged and plan.judges):
        raise InputError(
            f"study {plan.study.name}: no judge scores its replies (test {plan.test.name}); probe a rubric study"
        )
    seed = plan.study.seed if seed is None else seed
    stored = stored_runs(store, plan.study.name, plan.call_ids)
    whole = {key: run for key, run in stored.items() if not (run.failure or run.excluded)}
    by_blob = reply_texts(store, whole.values())
    texts = {key: by_blob.get(run.blob_id or "", "") for key, run in whole.items()}
    chosen = balanced_sample([run for run in plan.runs if texts.get(run.key, "").strip()], replies, seed)
    if not chosen:
        raise InputError(
            f"study {plan.study.name}: there is no stored reply to probe; run the study first, and ask for one or more"
        )
    targets = []
    for run, hand in zip(chosen, deal(shipped_attacks(), len(chosen), attacks, seed), strict=True):
        task, text = run.prompt.text, texts[run.key]
        prior = fence_code(task if plan.rubric.shows_task else "", text, plan.study.seed)
        made = probes_of(Altering(text, seed, hand, prior), kinds)
        control = Probe(CONTROL, "unaltered", text)
        run_id = whole[run.key].run_id
        targets.append(
            Target(run_id, _base(run), _bin(run), run.model, run.repeat, task, text, (control, *made))
        )
    return tuple(targets)


def balanced_sample(runs: Sequence[PlannedRun], size: int, seed: int) -> tuple[PlannedRun, ...]:
    """Return a seeded sample of runs that takes models and length bins in turn, and every base as seldom as it can."""
    dice = random.Random(f"replies {seed}")
    cells: dict[tuple[str, str], list[PlannedRun]] = defaultdict(list)
    for run in dice.sample(list(runs), len(runs)):
        cells[run.model, _bin(run)].append(run)
    order = [cells[name] for name in sorted(cells)]
    dice.shuffle(order)
    used: Counter[str] = Counter()
    chosen: list[PlannedRun] = []
    while len(chosen) < min(size, len(runs)):
        for cell in order:
            if cell and len(chosen) < size:
                run = min(cell, key=lambda one: used[_base(one)])
                cell.remove(run)
                used[_base(run)] += 1
                chosen.append(run)
    return tuple(chosen)


def probe_judges(
    plan: Plan,
    store: Store,
    *,
    replies: int = REPLIES,
    seed: int | None = None,
    kinds: Collection[str] = tuple(KINDS),
    attacks: int | None = ATTACKS,
    progress: bool = True,
) -> ProbeResult:
    """Ask every judge about stored replies and their altered versions, with the study's own rubric and manner."""
    targets = probe_targets(plan, store, replies=replies, seed=seed, kinds=kinds, attacks=attacks)
    bench = probe_bench(plan)
    asked: list[Answer] = []

    async def work(ask: Ask, stop: threading.Event) -> ProbeResult:
        async def counted(request: ModelRequest) -> Answer:
            answer = await ask(request)
            if not answer.from_ledger:
                asked.append(answer)
            return answer

        pairs = await probe_pairs(bench, targets, counted)
        return ProbeResult(plan.study.name, targets, pairs, len(asked), sum(one.aud_cost for one in asked))

    return ask_study(plan, store, work, requests=probe_requests(bench, targets), progress=progress)


def cards_of(study: Study, result: ProbeResult | None = None) -> tuple[JudgeCard, ...]:
    """Return the card of every judge of a study, with what probes did where there are any."""
    from toolkit.stats.agreement.judge_card import judge_cards

    related = {role: judge.related for role, judge in study.plan.judges.items()}
    shifts = result.shifts() if result else None
    return judge_cards(study.judgements(), study.runs(), related=related, shifts=shifts)


def write_cards(study: Study, result: ProbeResult | None, folder: Path | str) -> list[Path]:
    """Write the card of every judge of a study, as figure and table, and return the files."""
    from toolkit.report.captions import join, source_words
    from toolkit.report.plots.judge_card import write_judge_cards

    source = source_words(study.runs(), study.name, study.plan.dataset.version)
    return write_judge_cards(cards_of(study, result), folder, end=join(source, study.note), study=study.name)


def _base(run: PlannedRun) -> str:
    return str(getattr(run.item.context, "base", run.item.item_id))


def _bin(run: PlannedRun) -> str:
    return str(getattr(run.item.context, "length_bin", ""))


# --- hallucination judges on labelled answers -----------------------------------------------------------------------


def compare_hallucination(
    plan: Plan,
    store: Store,
    items: Sequence[LabelledItem],
    modes: Sequence[Mode] = ("cot",),
    k: int = 5,
    *,
    progress: bool = True,
) -> HallucinationComparison:
    """Have every judge of a study judge every item in every mode, and compare them with the labels.

    Parameters
    ----------
    plan, store
        The planned study, whose judges, ledger, limits and budget hold, and its open store.
    items
        The labelled set.
    modes
        How the judges are asked; see `toolkit.judges.hallucination`.
    k
        Votes on each item.
    progress
        Whether to show progress.

    Returns
    -------
    HallucinationComparison
        Where the budget was reached, of the items that were judged until then.

    Raises
    ------
    InputError
        If the study has no judges, or an item has no label, or two items have one name.
    """
    _check(items, modes)
    keys = [(judge, mode) for judge in plan.judges.values() for mode in dict.fromkeys(modes)]
    found: list[HallucinationVerdict] = []

    async def work(ask: Ask, stop: threading.Event) -> BudgetReached | None:
        async def judge_one(one: tuple[LabelledItem, JudgeSpec, Mode]) -> None:
            item, judge, mode = one
            found.append(await judge_hallucination(item, judge=judge, mode=mode, k=k, ask=ask))

        # Item by item, so that a reached budget leaves all judges and modes with the same items.
        todo = [(item, judge, mode) for item in items for judge, mode in keys]
        return await each([todo], judge_one, at_once=_AHEAD * plan.study.concurrency, stop=stop)

    requests = comparison_requests(plan, items, modes, k)
    reached = ask_study(plan, store, work, requests=requests, label="votes", progress=progress)
    return comparison_of(
        items,
        [(judge.role, judge.name, mode) for judge, mode in keys],
        found,
        k=k,
        study=plan.study.name,
        note=plan.study.note,
        budget=str(reached) if reached else None,
    )


def comparison_requests(
    plan: Plan, items: Sequence[LabelledItem], modes: Sequence[Mode] = ("cot",), k: int = 5
) -> tuple[ModelRequest, ...]:
    """Return every request of `compare_hallucination`, to say what they cost before one is sent."""
    return tuple(
        request
        for item in items
        for judge in plan.judges.values()
        for mode in dict.fromkeys(modes)
        for request in hallucination_requests(item, judge, mode, k)
    )


def _check(items: Sequence[LabelledItem], modes: Sequence[Mode]) -> None:
    if not items:
        raise InputError("hallucination: there is no item; give a labelled set")
    if not modes:
        raise InputError(f"hallucination: there is no mode; give some of {', '.join(MODES)}")
    bare = [item.item_id for item in items if item.hallucinated is None]
    if bare:
        raise InputError(
            f"hallucination: {len(bare)} of {len(items)} items have no label, first {bare[0]!r}; leave them out"
        )
    twice = [name for name, count in Counter(item.item_id for item in items).items() if count > 1]
    if twice:
        raise InputError(f"hallucination: item {twice[0]!r} is there twice; give each its own item_id")


@dataclass(frozen=True)
class HallucinationComparison:
    """What every judge and mode made of a labelled set, and how often it was right."""

    study: str
    note: str
    items: tuple[LabelledItem, ...]
    k: int
    verdicts: tuple[HallucinationVerdict, ...]
    deciders: tuple[Decider, ...]
    baselines: tuple[Decider, ...]
    contrasts: tuple[Estimate, ...]
    failures: Mapping[str, int]
    budget: str | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return one row per judge and mode, then one per baseline; see `deciders_frame`."""
        return deciders_frame((*self.deciders, *self.baselines))

    def contrasts_frame(self) -> pd.DataFrame:
        """Return one row per difference of two accuracies, with its interval and corrected p value."""
        from toolkit.stats.result import estimates_frame

        return estimates_frame([("accuracy", one) for one in self.contrasts], "of")

    def verdicts_frame(self) -> pd.DataFrame:
        """Return one row a verdict: what was decided of which item and whether that is right, votes and reasons."""
        import pandas as pd

        by_id = {item.item_id: item for item in self.items}
        return pd.DataFrame([_verdict_row(by_id[one.item_id], one) for one in self.verdicts])

    def decider(self, judge: str | None = None, mode: str | None = None) -> Decider:
        """Return one judge in one mode; either may be left out where there is one only."""
        fits = [one for one in self.deciders if judge in (None, one.judge) and mode in (None, one.mode)]
        if len(fits) != 1:
            known = "; ".join(f"judge={one.judge!r}, mode={one.mode!r}" for one in fits or self.deciders)
            raise InputError(f"{len(fits)} judges and modes fit {judge!r} and {mode!r}; name one of {known}")
        return fits[0]

    def prevalence(
        self, decisions: Sequence[bool | None], judge: str | None = None, mode: str | None = None
    ) -> Prevalence:
        """Return the share of hallucinations behind what a judge decided of unlabelled items."""
        return corrected_prevalence(decisions, self.decider(judge, mode).found.counts)

    def figures(self, folder: Path | str) -> list[Path]:
        """Write the figure and the table into a folder, and return the paths."""
        from toolkit.report.plots.hallucination import write_hallucination_report

        return write_hallucination_report(
            self.deciders,
            self.baselines,
            self.contrasts,
            k=self.k,
            end=f"Study {self.study}. {self.note}".strip(),
            folder=folder,
        )

    @property
    def unreadable(self) -> dict[str, int]:
        """How many replies gave no vote, by the reason; the same reply would be read the same way again."""
        reasons = (reason for one in self.verdicts for reason in one.reasons if reason is not None)
        return dict(Counter(reason.split(":")[0] for reason in reasons if reason.startswith(REASONS)))

    @property
    def outcome(self) -> dict[str, Any]:
        """What `toolkit.report.show.need_whole` asks for: votes planned and failed, why, and the budget."""
        planned = len(self.items) * len(self.deciders) * self.k
        failed = sum(self.failures.values())
        return {"planned": planned, "failed": failed, "failures": self.failures, "budget": self.budget}

    @property
    def exit_code(self) -> int:
        """0 done, 1 done but some votes got no reply, 3 budget reached."""
        return 3 if self.budget else int(bool(self.failures))

    def summary(self, files: Sequence[Path] = ()) -> Summary:
        """Return what the command line says at the end, and which files were written."""
        from toolkit.report.plots.hallucination import hallucination_text

        hallucinated = sum(bool(item.hallucinated) for item in self.items)
        fields: dict[str, Any] = {
            "study": self.study,
            "items": len(self.items),
            "hallucinated": hallucinated,
            "prevalence": hallucinated / len(self.items),
            "k": self.k,
            "rows": [_fields(one) for one in (*self.deciders, *self.baselines)],
            "contrasts": [one.to_dict() for one in self.contrasts],
            "failures": dict(self.failures),
            "unreadable": self.unreadable,
            "budget": self.budget,
            "files": [str(path) for path in files],
        }
        lines = [
            f"labelled  {hallucinated} of {len(self.items)} items are hallucinated "
            f"(prevalence {hallucinated / len(self.items):.3f})",
            hallucination_text(self.deciders, self.baselines, self.contrasts),
            *(f"no reply  {count} x {reason}" for reason, count in self.failures.items()),
            *(f"no vote   {count} x {reason}" for reason, count in self.unreadable.items()),
            *([self.budget] if self.budget else []),
            *map(str, files),
        ]
        return Summary(fields, "\n".join(lines), self.exit_code)


def comparison_of(
    items: Sequence[LabelledItem],
    asked: Sequence[tuple[str, str, str]],
    verdicts: Iterable[HallucinationVerdict],
    *,
    k: int,
    study: str = "",
    note: str = "",
    budget: str | None = None,
) -> HallucinationComparison:
    """Compare verdicts with the labels."""
    found = {(one.item_id, one.judge, str(one.mode)): one for one in verdicts}
    labels = [bool(item.hallucinated) for item in items]
    # Items of one document, or of one question, are one unit.
    sources = [item.documents or item.question for item in items]
    bases = sources if len(set(sources)) < len(sources) else None
    deciders = []
    for judge, model, mode in asked:
        said = [found.get((item.item_id, judge, mode)) for item in items]
        deciders.append(
            decider(
                judge,
                model,
                mode,
                labels=labels,
                decisions=[one.decision if one else None for one in said],
                asked=[one is not None for one in said],
                bases=bases,
                scores=[one.score if one else None for one in said],
                votes=[one.votes if one else () for one in said],
                aud=math.fsum(one.aud_cost for one in said if one),
                unreadable=sum(one.unreadable for one in said if one),
            )
        )
    simple = baselines(labels, [len(item.answer) for item in items], bases)
    keys = ((item.item_id, judge, mode) for item in items for judge, _, mode in asked)
    ordered = tuple(found[key] for key in keys if key in found)
    reasons = (reason for one in ordered for reason in one.reasons if reason is not None)
    return HallucinationComparison(
        study,
        note,
        tuple(items),
        k,
        ordered,
        tuple(deciders),
        simple,
        (
            *compare_deciders(labels, deciders, bases=bases),
            *compare_deciders(labels, deciders, simple, bases),
        ),
        dict(Counter(reason for reason in reasons if not reason.startswith(REASONS))),
        budget,
    )


def _verdict_row(item: LabelledItem, verdict: HallucinationVerdict) -> dict[str, Any]:
    decided = verdict.decision
    row: dict[str, Any] = {"item_id": item.item_id, "domain": item.domain, "topic": item.topic}
    row |= {name: getattr(verdict, name) for name in ("judge", "model", "mode")}
    row |= {"hallucinated": item.hallucinated, "decision": decided}
    row |= {"correct": None if decided is None else decided == item.hallucinated}
    last = ("reason", "score", "explanation", "k", "unreadable", "votes", "reasons", "aud_cost", "call_ids")
    return row | {name: getattr(verdict, name) for name in last}


def _fields(one: Decider) -> dict[str, Any]:
    first = {name: getattr(one, name) for name in ("judge", "model", "mode")}
    names = ("unasked", "aud", "aud_per_correct", "replies", "unreadable", "unreadable_share")
    return {
        **first,
        "counts": vars(one.found.counts),
        **{name: getattr(one, name) for name in names},
        "estimates": [estimate.to_dict() for estimate in one.estimates()],
    }

"""Has the judges of a study judge altered versions of its replies, or look for required elements in its replies.

Every request goes through the study's gateway and counts for its budget.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pandas as pd

from toolkit.errors import InputError
from toolkit.judges.elements import CONTENT, DIGEST, INSTRUMENT, elements_request, find_elements
from toolkit.judges.judgement import Judgement, judge, judgement_requests
from toolkit.judges.request import JudgeSpec, fence_code, shown_before
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.pipeline import ask_study
from toolkit.plan import Plan, PlannedRun
from toolkit.probes.alterations import Altering, Probe, deal, probes_of, shipped_attacks
from toolkit.scoring import SEED_SCHEME, Scheme
from toolkit.stats.agreement.probe_shift import CONTROL, ProbeShifts, probe_shifts
from toolkit.store.records import judgement_record, reply_texts, stored_runs
from toolkit.words import Summary, choices, counted, money, total_aud

if TYPE_CHECKING:
    from toolkit.store.connection import Store
    from toolkit.study import Study

REPLIES: Final = 12  # probed replies by default
ATTACKS: Final = 3  # attacks for each reply by default: with 12 replies they are 36 different ones
STRICT: Final = "composite_strict"
"""The score of shifts: a dimension that falls to 0 must not raise it, as it would raise the seed's composite."""


@dataclass(frozen=True)
class Target:
    """One probed reply: its origin, its text, and its altered versions with the control."""

    run_id: str
    base: str
    length_bin: str
    model: str
    repeat: int
    task: str
    text: str
    probes: tuple[Probe, ...]
    reference: str = ""


def usable_replies(plan: Plan, store: Store) -> dict[tuple[str, str, int], tuple[str, str]]:
    """Return run id and text of every stored reply that the study counts, by the key of its run."""
    stored = stored_runs(store, plan.study.name, plan.call_ids)
    usable = {key: run for key, run in stored.items() if not (run.failure or run.excluded)}
    texts = reply_texts(store, usable.values())
    return {key: (run.run_id, texts.get(run.blob_id or "", "")) for key, run in usable.items()}


def probe_targets(
    plan: Plan, store: Store, *, replies: int = REPLIES, attacks: int = ATTACKS
) -> tuple[Target, ...]:
    """Return the replies that `probe_judges` would probe, with their altered versions; no model is called."""
    name, seed = plan.study.name, plan.study.seed
    if not (plan.test.judged and plan.judges):
        message = f"study {name}: no judge scores its replies (test {plan.test.name}); probe a rubric study"
        raise InputError(message)
    usable = {key: reply for key, reply in usable_replies(plan, store).items() if reply[1].strip()}
    chosen = balanced_sample([run for run in plan.runs if run.key in usable], replies, seed)
    if not chosen:
        raise InputError(
            f"study {name}: there is no stored reply to probe; run the study first, and ask for one or more"
        )
    targets = []
    for run, hand in zip(chosen, deal(shipped_attacks(), len(chosen), attacks, seed), strict=True):
        task, (run_id, text) = run.prompt.text, usable[run.key]
        reference = str(run.prompt.context or "")
        prior = fence_code(shown_before(plan.rubric, plan.manner, task, reference), text, seed)
        probes = (Probe(CONTROL, "unaltered", text), *probes_of(Altering(text, seed, hand, prior)))
        targets.append(Target(run_id, *_cell(run), run.model, run.repeat, task, text, probes, reference))
    return tuple(targets)


def _cell(run: PlannedRun) -> tuple[str, str]:
    """Return base and length bin of a run."""
    context = run.item.context
    return str(getattr(context, "base", run.item.item_id)), str(getattr(context, "length_bin", ""))


def balanced_sample(runs: Sequence[PlannedRun], size: int, seed: int) -> tuple[PlannedRun, ...]:
    """Return a seeded sample of runs, balanced over models and length bins, that repeats bases as little as it can.

    Replies to prompts of length arms are left out, as analyses leave them out.
    """
    dice = random.Random(f"replies {seed}")
    cells: dict[tuple[str, str], list[PlannedRun]] = defaultdict(list)
    plain = [run for run in runs if not run.of_arm]
    for run in dice.sample(plain, len(plain)):
        cells[run.model, _cell(run)[1]].append(run)
    order = [cells[name] for name in sorted(cells)]
    dice.shuffle(order)
    counts: Counter[str] = Counter()
    chosen: list[PlannedRun] = []
    while len(chosen) < min(size, len(plain)):
        for cell in order:
            if cell and len(chosen) < size:
                run = min(cell, key=lambda candidate: counts[_cell(candidate)[0]])
                cell.remove(run)
                counts[_cell(run)[0]] += 1
                chosen.append(run)
    return tuple(chosen)


def probe_requests(plan: Plan, targets: Sequence[Target]) -> tuple[ModelRequest, ...]:
    """Return every request of a probe, repairs aside, to estimate its cost."""
    requests = (
        request
        for target in targets
        for _, spec, _, text in _judge_texts(plan, target)
        for request in judgement_requests(
            spec, plan.rubric, task=target.task, response=text, manner=plan.manner, reference=target.reference
        )
    )
    return tuple({request.identity(): request for request in requests}.values())


def _judge_texts(plan: Plan, target: Target) -> Iterator[tuple[JudgeSpec, JudgeSpec, Probe | None, str]]:
    """Yield each judge, the same with its repeat index, and each text: the original (``None``) and the altered."""
    # Original and altered text have the same repeat index, so that they differ in the text alone; the control is the
    # next repeat of the judge on this run (test-retest).
    for judge_spec in plan.judges_of(target.model).values():
        for probe in (None, *target.probes):
            text = target.text if probe is None else probe.text
            if text is not None:
                again = 1 if probe is not None and probe.kind == CONTROL else 0
                yield judge_spec, judge_spec.of_run(target.repeat, again), probe, text


def probe_judges(
    plan: Plan, store: Store, *, replies: int = REPLIES, attacks: int = ATTACKS, progress: bool = True
) -> ProbeResult:
    """Ask every judge about stored replies and their altered versions; replies in the ledger are used again."""
    targets = probe_targets(plan, store, replies=replies, attacks=attacks)
    new: list[Answer] = []

    async def work(ask: Ask, stop: threading.Event) -> ProbeResult:
        async def counted(request: ModelRequest) -> Answer:
            answer = await ask(request)
            if not answer.from_ledger:
                new.append(answer)
            return answer

        async def judge_text(target: Target, spec: JudgeSpec, text: str) -> Judgement:
            options: dict[str, Any] = {"rubric": plan.rubric, "manner": plan.manner, "ask": counted}
            options["reference"] = target.reference
            return await judge(text, target.task, judge=spec, related=target.model in spec.related, **options)

        # All at once: the gateway enforces the limits.
        tasks: dict[tuple[int, str, Probe | None], asyncio.Task[Judgement]] = {}
        async with asyncio.TaskGroup() as group:
            for index, target in enumerate(targets):
                for spec, repeat_spec, probe, text in _judge_texts(plan, target):
                    tasks[index, spec.role, probe] = group.create_task(judge_text(target, repeat_spec, text))
        judgements = {key: task.result() for key, task in tasks.items()}
        pairs = []
        for index, target in enumerate(targets):
            for spec in plan.judges_of(target.model).values():
                original = judgements[index, spec.role, None]
                altered = ((probe, judgements.get((index, spec.role, probe))) for probe in target.probes)
                pairs += [Pair(target, spec, probe, original, judgement) for probe, judgement in altered]
        spent = total_aud(answer.aud_cost for answer in new)
        return ProbeResult(plan.study.name, targets, tuple(pairs), len(new), spent, plan.rubric.scheme)

    return ask_study(plan, store, work, requests=probe_requests(plan, targets), progress=progress)


class Pair(NamedTuple):
    """The judgements of one judge on a reply and its altered version; ``altered`` is ``None`` where none was made."""

    target: Target
    spec: JudgeSpec
    probe: Probe
    original: Judgement
    altered: Judgement | None

    def row(self, score: str) -> dict[str, Any]:
        """Return the pair as a row of `ProbeResult.frame`."""
        row = {name: getattr(self.target, name) for name in ("run_id", "base", "length_bin", "model")}
        row |= {"judge": self.spec.role, "judge_model": self.spec.name}
        row |= {name: getattr(self.probe, name) for name in ("kind", "variant", "detail")}
        for name, judgement in (("original", self.original), ("altered", self.altered)):
            row[name] = None
            if judgement and (scores := judgement.scores) is not None:
                row[name] = scores[score] if score in scores else getattr(judgement, score)
        reason = ""
        if self.altered is None:
            reason = self.probe.reason or "not made"
        elif self.original.failed:
            reason = f"original {self.original.reason}"
        elif self.altered.failed:
            reason = f"altered {self.altered.reason}"
        return row | {"made": self.altered is not None, "reason": reason}


@dataclass(frozen=True)
class ProbeResult:
    """The result of a probe: every pair of judgements, and the shifts between them."""

    study: str
    targets: tuple[Target, ...]
    pairs: tuple[Pair, ...]
    new_calls: int
    spent_aud: float
    scheme: Scheme = SEED_SCHEME

    def frame(self, score: str = STRICT) -> pd.DataFrame:
        """Return one row a pair: run, base, judge, kind, variant, detail, original and altered score, reason."""
        allowed = (STRICT, "composite", *self.scheme.names)
        if score not in allowed:
            raise InputError(f"score {score!r} is unknown; {choices(score, allowed)}")
        frame = pd.DataFrame([pair.row(score) for pair in self.pairs])
        frame.attrs["scale"] = self.scheme.scale
        return frame.astype({"original": "float64", "altered": "float64", "made": "bool"})

    def shifts(self, score: str = STRICT) -> ProbeShifts:
        """Return how far each kind of probe moves each judge; see `toolkit.stats.agreement.probe_shift`."""
        return probe_shifts(self.frame(score))

    @property
    def unanswered(self) -> int:
        """Number of judgements without an answer; the same command asks them again."""
        judgements = (judgement for pair in self.pairs for judgement in (pair.original, pair.altered))
        by_identity = {id(judgement): judgement for judgement in judgements if judgement}
        return sum(not judgement.answered for judgement in by_identity.values())

    def summary(self) -> Summary:
        """Return the summary of the command line; exit code 1 where a judge did not answer."""
        shifts = self.shifts()
        bins = Counter(target.length_bin for target in self.targets)
        spread = ", ".join(f"{count} {name}" for name, count in bins.items())
        lines = [
            f"replies  {len(self.targets)} probed ({spread}), {len(self.pairs)} pairs",
            f"calls    {self.new_calls} asked now, {money(self.spent_aud)} spent now",
        ]
        for shift in shifts.shifts:
            lines += [f"{shift.judge}: {estimate.sentence()}" for estimate in shift.estimates]
        for shift in shifts.shifts:
            missing = shift.missing.items()
            lines += [f"{shift.judge}: missing, {shift.kind}: {n} x {reason}" for reason, n in missing]
        fields = {
            "replies": len(self.targets),
            "pairs": len(self.pairs),
            "new_calls": self.new_calls,
            "spent_aud": self.spent_aud,
            "unanswered": self.unanswered,
            "score": STRICT,
            "shifts": shifts.to_dict(),
        }
        return Summary(fields, "\n".join(lines), int(self.unanswered > 0))


# --- required elements, a second instrument beside the rubric ---------------------------------------------------------


@dataclass(frozen=True)
class ElementTarget:
    """One reply, the elements that its base requires, and one judge."""

    run: PlannedRun
    run_id: str
    text: str
    elements: Sequence[str]
    judge: JudgeSpec
    related: bool

    @property
    def request(self) -> ModelRequest:
        """The request to the judge."""
        return elements_request(self.judge, self.elements, self.run.prompt.text, self.text)


def element_targets(plan: Plan, store: Store) -> tuple[ElementTarget, ...]:
    """Return every stored reply of a base with elements, once for each judge; no model is called."""
    prompts = plan.dataset.prompts
    required = {p.prompt_id: p.metadata["elements"] for p in prompts if p.metadata.get("elements")}
    if not required:
        raise InputError(
            f"study {plan.study.name}: dataset {plan.dataset.name} names no required elements; give its bases the key "
            'elements, or take dataset = "rq1_controlled"'
        )
    replies, targets = usable_replies(plan, store), []
    for run in (run for run in plan.runs if run.key in replies and run.prompt.prompt_id in required):
        for spec in plan.judges_of(run.model).values():
            related, elements = run.model in spec.related, required[run.prompt.prompt_id]
            targets.append(ElementTarget(run, *replies[run.key], elements, spec.of_run(run.repeat), related))
    return tuple(targets)


def ask_elements(plan: Plan, store: Store, *, progress: bool = True) -> tuple[Judgement, ...]:
    """Have every judge look for the required elements in every reply; replies in the ledger are used again."""
    targets = element_targets(plan, store)
    store.add_rubric(DIGEST, INSTRUMENT, DIGEST[:12], CONTENT)

    async def work(ask: Ask, stop: threading.Event) -> tuple[Judgement, ...]:
        async def look(target: ElementTarget) -> Judgement:
            judgement = await find_elements(
                target.text, target.run.prompt.text, target.elements, judge=target.judge, ask=ask,
                related=target.related,
            )  # fmt: skip
            if judgement.answered:
                store.writer.post(judgement_record(target.run_id, plan.study.name, judgement))
            return judgement

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(look(target)) for target in targets]
        return tuple(task.result() for task in tasks)

    return ask_study(plan, store, work, requests=[target.request for target in targets], progress=progress)


def elements_summary(study: Study, judgements: Sequence[Judgement]) -> Summary:
    """Summarise the judgements and their agreement with the rubric; exit code 1 where a judge did not answer."""
    result = study.required_elements()
    unanswered = sum(not judgement.answered for judgement in judgements)
    unread = sum(judgement.failed and judgement.answered for judgement in judgements)
    line = f"elements  {counted(len(judgements), 'judgements')}, {unread} unreadable, {unanswered} unanswered"
    fields = {"judgements": len(judgements), "unreadable": unread, "unanswered": unanswered}
    fields |= {"elements": result.to_dict()}
    return Summary(fields, f"{line}\n{result.sentence()}", int(unanswered > 0))

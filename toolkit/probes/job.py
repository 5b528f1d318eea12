"""Has the judges of a study judge altered versions of its replies, or look for required elements in its replies.

Every request goes through the study's gateway and counts for its budget.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from toolkit.errors import InputError
from toolkit.judges.elements import CONTENT, DIGEST, INSTRUMENT
from toolkit.judges.judgement import Judgement
from toolkit.judges.request import JudgeSpec, all_of, fence_code, shown_before
from toolkit.models.base import Ask, ModelRequest
from toolkit.pipeline import ask_stage, ask_study
from toolkit.plan import Plan, PlannedRun
from toolkit.probes.alterations import Altering, Probe, deal, probes_of, shipped_attacks
from toolkit.runs.instruments import ELEMENTS, JUDGEMENTS
from toolkit.runs.stages import Task, is_usable, stage_requests
from toolkit.stats.agreement.drift import CONTROL, ProbeShifts, probe_shifts
from toolkit.store.records import StoredRun, reply_texts, stored_runs
from toolkit.words import SCORE, Summary, template, total_aud

if TYPE_CHECKING:
    from toolkit.store.connection import Store
    from toolkit.study import Study

REPLIES = 12  # probed replies by default
ORIGINAL = "original"  # kind of the unaltered reply, as the study had it judged
ATTACKS = 3  # attacks for each reply by default: with 12 replies they are 36 different ones


@dataclass(frozen=True)
class Reply:
    """A stored reply: its run, as it was planned and as it stands in the store, its text, and its altered versions."""

    run: PlannedRun
    stored: StoredRun
    text: str
    probes: tuple[Probe, ...] = ()

    @property
    def run_id(self) -> str:
        """The id of the run's record."""
        return self.stored.run_id

    @property
    def base(self) -> str:
        """The base of its prompt."""
        return str(getattr(self.run.item.context, "base", self.run.item.item_id))

    @property
    def level(self) -> str:
        """The length bin of its prompt, empty where it has none."""
        return str(getattr(self.run.item.context, "level", ""))


def outcome_counts(judgements: Sequence[Judgement]) -> dict[str, int]:
    """Return the numbers of judgements, of unreadable and of unanswered ones."""
    return {
        "judgements": len(judgements),
        "unreadable": sum(judgement.failed and judgement.answered for judgement in judgements),
        "unanswered": sum(not judgement.answered for judgement in judgements),
    }


def usable_replies(plan: Plan, store: Store) -> list[Reply]:
    """Return every stored reply that the study counts, in the order of its runs."""
    stored = stored_runs(store, plan.study.name, plan.call_ids)
    usable = [(run, stored[run.key]) for run in plan.runs if is_usable(stored.get(run.key))]
    texts = reply_texts(store, (record for _, record in usable))
    return [Reply(run, record, texts.get(record.blob_id or "", "")) for run, record in usable]


def probe_targets(
    plan: Plan, store: Store, *, replies: int = REPLIES, attacks: int = ATTACKS
) -> tuple[Reply, ...]:
    """Return the replies that `probe_judges` would probe, with their altered versions; no model is called."""
    name, seed = plan.study.name, plan.study.seed
    if not (plan.test.judged and plan.judges):
        raise InputError(
            f"study {name}: no judge scores its replies (test {plan.test.name}); probe a rubric study"
        )
    usable = [reply for reply in usable_replies(plan, store) if reply.text.strip()]
    chosen = balanced_sample(usable, replies, seed)
    if not chosen:
        raise InputError(
            f"study {name}: there is no stored reply to probe; run the study first, and ask for one or more"
        )
    targets = []
    for reply, hand in zip(chosen, deal(shipped_attacks(), len(chosen), attacks, seed), strict=True):
        prompt = reply.run.prompt
        shown = shown_before(plan.rubric, plan.manner, prompt.text, str(prompt.context or ""))
        altered = probes_of(Altering(reply.text, seed, hand, fence_code(shown, reply.text, seed)))
        targets.append(replace(reply, probes=(Probe(CONTROL, "unaltered", reply.text), *altered)))
    return tuple(targets)


def balanced_sample(replies: Sequence[Reply], size: int, seed: int) -> tuple[Reply, ...]:
    """Return a seeded sample of replies, balanced over models and length bins, that repeats bases as little as it can.

    Replies to prompts of length arms are left out, as analyses leave them out.
    """
    rng = random.Random(f"replies {seed}")
    cells: dict[tuple[str, str], list[Reply]] = defaultdict(list)
    plain = [reply for reply in replies if not reply.run.of_arm]
    for reply in rng.sample(plain, len(plain)):
        cells[reply.run.model, reply.level].append(reply)
    order = [cells[name] for name in sorted(cells)]
    rng.shuffle(order)
    counts: Counter[str] = Counter()
    chosen: list[Reply] = []
    while len(chosen) < min(size, len(plain)):
        for cell in order:
            if cell and len(chosen) < size:
                reply = min(cell, key=lambda candidate: counts[candidate.base])
                cell.remove(reply)
                counts[reply.base] += 1
                chosen.append(reply)
    return tuple(chosen)


def probe_requests(plan: Plan, targets: Sequence[Reply]) -> list[ModelRequest]:
    """Return every request of a probe, repairs aside, to estimate its cost; of equal ones the last."""
    requests = (
        request
        for target in targets
        for task, probe in _tasks(plan, target)
        for request in (JUDGEMENTS.requests(plan, task, [probe.text]) if probe.text is not None else ())
    )
    return list({request.identity(): request for request in requests}.values())


def _tasks(plan: Plan, target: Reply) -> Iterator[tuple[Task, Probe]]:
    """Yield the task of each judge with the original, a probe of its own, and then with each altered text."""
    # Original and altered text have the same repeat index, so that they differ in the text alone; the control is the
    # next repeat of the judge on this run (test-retest).
    for spec in plan.judges_of(target.run.model).values():
        for probe in (Probe(ORIGINAL, "", target.text), *target.probes):
            yield Task(spec.of_run(target.run.repeat, int(probe.kind == CONTROL)), (target.run.key,)), probe


def probe_judges(
    plan: Plan, store: Store, *, replies: int = REPLIES, attacks: int = ATTACKS, progress: bool = True
) -> ProbeResult:
    """Ask every judge about stored replies and their altered versions; replies in the ledger are used again."""
    targets = probe_targets(plan, store, replies=replies, attacks=attacks)
    tasks = [(target, *item) for target in targets for item in _tasks(plan, target)]

    async def work(ask: Ask, stop: threading.Event) -> list[Judgement]:
        made = ((task, probe.text) for _, task, probe in tasks if probe.text is not None)
        return await all_of(JUDGEMENTS.judge(plan, task, [text], ask) for task, text in made)

    requests = probe_requests(plan, targets)
    judgements, paid = ask_study(plan, store, work, requests=requests, progress=progress)
    ahead, pairs = iter(judgements), list[Pair]()
    for target, task, probe in tasks:
        judgement = next(ahead) if probe.text is not None else None
        if judgement and probe.kind == ORIGINAL:
            original = judgement
        else:
            pairs.append(Pair(target, task.judge, probe, original, judgement))
    spent = total_aud(answer.aud_cost for answer in paid)
    unanswered = outcome_counts(judgements)["unanswered"]
    return ProbeResult(targets, pairs, len(paid), spent, unanswered, plan.rubric.scale)


class Pair(NamedTuple):
    """The judgements of one judge on a reply and its altered version; ``altered`` is ``None`` where none was made."""

    target: Reply
    spec: JudgeSpec
    probe: Probe
    original: Judgement
    altered: Judgement | None

    def row(self) -> dict[str, Any]:
        """Return the pair as a row of `ProbeResult.frame`."""
        reason = ""
        if self.altered is None:
            reason = self.probe.reason or "not made"
        elif self.original.failed:
            reason = f"original {self.original.reason}"
        elif self.altered.failed:
            reason = f"altered {self.altered.reason}"
        return {
            **{name: getattr(self.target, name) for name in ("run_id", "base", "level")},
            "model": self.target.run.model,
            "judge": self.spec.role,
            "judge_model": self.spec.name,
            **{name: getattr(self.probe, name) for name in ("kind", "variant", "detail")},
            # The strict composite: a dimension that falls to 0 must not raise it, as it would raise the seed's.
            "original": self.original.composite_strict,
            "altered": self.altered.composite_strict if self.altered else None,
            "made": self.altered is not None,
            "reason": reason,
        }


@dataclass(frozen=True)
class ProbeResult:
    """The result of a probe: every pair of judgements, and the shifts between them."""

    targets: Sequence[Reply]
    pairs: Sequence[Pair]
    new_calls: int
    spent_aud: float
    unanswered: int
    scale: tuple[float, float]

    def frame(self) -> pd.DataFrame:
        """Return one row a pair: run, base, judge, kind, variant, detail, original and altered score, reason."""
        frame = pd.DataFrame([pair.row() for pair in self.pairs])
        frame.attrs["scale"] = self.scale
        return frame.astype({"original": "float64", "altered": "float64", "made": "bool"})

    def shifts(self) -> ProbeShifts:
        """Return how far each kind of probe moves each judge; see `toolkit.stats.agreement.drift`."""
        return probe_shifts(self.frame())

    def summary(self) -> Summary:
        """Return the summary of the command line; exit code 1 where a judge did not answer."""
        shifts = self.shifts()
        bins = Counter(target.level for target in self.targets)
        spread = ", ".join(f"{count} {name}" for name, count in bins.items())
        counts = {"replies": len(self.targets), "pairs": len(self.pairs)}
        fields = counts | {name: getattr(self, name) for name in ("new_calls", "spent_aud", "unanswered")}
        words = {"spread": spread, "each_shift": shifts.shifts}
        text = template("probes", "probed.jinja").render(fields | words)
        fields |= {"score": SCORE, "shifts": shifts.to_dict()}
        return Summary(fields, text, int(self.unanswered > 0))


# --- required elements, a second instrument beside the rubric ---------------------------------------------------------


def element_requests(plan: Plan, store: Store) -> list[ModelRequest]:
    """Return every request to a judge about the elements of a stored reply, to estimate the cost."""
    if not any(prompt.metadata.get("elements") for prompt in plan.dataset.prompts):
        raise InputError(
            f"study {plan.study.name}: dataset {plan.dataset.name} names no required elements; give its bases the key "
            'elements, or take dataset = "rq1_controlled"'
        )
    return stage_requests(ELEMENTS, plan, store)


def ask_elements(plan: Plan, store: Store, *, progress: bool = True) -> list[Judgement]:
    """Have every judge look for the required elements in every reply; replies in the ledger are used again."""
    store.add_rubric(DIGEST, INSTRUMENT, DIGEST[:12], CONTENT)
    return ask_stage(ELEMENTS, plan, store, progress=progress)[0]


def elements_summary(study: Study, judgements: Sequence[Judgement]) -> Summary:
    """Summarise the judgements and their agreement with the rubric; exit code 1 where a judge did not answer."""
    result, counts = study.required_elements(), outcome_counts(judgements)
    text = template("probes", "elements.jinja").render(counts, sentence=result.sentence())
    return Summary(counts | {"elements": result.to_dict()}, text, int(counts["unanswered"] > 0))

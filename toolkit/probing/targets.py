"""Which stored replies of a study are probed, how each is altered, and what is then asked."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolkit.errors import InputError
from toolkit.judges.ask import JudgeSpec, fence_code
from toolkit.judges.attacks import deal, shipped_attacks
from toolkit.judges.judgement import judgement_requests
from toolkit.judges.probes import KINDS, Probe, probes_of
from toolkit.models.base import ModelRequest
from toolkit.plan import PlannedRun
from toolkit.protocols.rubric_study import judge_of_run
from toolkit.stats.agreement.probe_shift import CONTROL
from toolkit.store.stored import reply_texts, stored_runs

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.store.connection import Store

REPLIES: Final = 12
"""Replies that are probed by default."""
ATTACKS: Final = 3
"""Attacks for each reply by default: with 12 replies they are 36 different ones."""


@dataclass(frozen=True)
class Target:
    """One reply that is probed: its run, its text, and its altered versions, the unaltered control among them."""

    run: PlannedRun
    run_id: str
    text: str
    probes: tuple[Probe, ...]

    @property
    def base(self) -> str:
        """The base that its prompt belongs to."""
        return _base(self.run)

    @property
    def length_bin(self) -> str:
        """The length bin of its prompt; empty where a test knows none."""
        return _bin(self.run)


def probe_targets(
    plan: Plan,
    store: Store,
    *,
    replies: int = REPLIES,
    seed: int | None = None,
    kinds: Collection[str] = KINDS,
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
    texts = reply_texts(store, whole.values())
    found = [
        run for run in plan.runs if run.key in whole and texts.get(whole[run.key].blob_id or "", "").strip()
    ]
    chosen = balanced_sample(found, replies, seed)
    if not chosen:
        raise InputError(
            f"study {plan.study.name}: there is no stored reply to probe; run the study first, and ask for one or more"
        )
    hands = deal(shipped_attacks(), len(chosen), attacks, seed)
    targets = []
    for run, hand in zip(chosen, hands, strict=True):
        run_id, text = whole[run.key].run_id, texts[whole[run.key].blob_id or ""]
        prior = fence_code(run.prompt.text if plan.rubric.shows_task else "", text, plan.study.seed)
        made = probes_of(run_id, text, seed, kinds, hand, prior=prior)
        control = Probe(run_id, CONTROL, "unaltered", text)
        targets.append(Target(run, run_id, text, (control, *made)))
    return tuple(targets)


def probe_requests(plan: Plan, targets: Sequence[Target]) -> tuple[ModelRequest, ...]:
    """Return every request that probing sends, repairs aside, for a cost estimate before anything is sent."""
    found: dict[str, ModelRequest] = {}
    for target in targets:
        for spec in plan.judges_of(target.run.model).values():
            for probe in (None, *target.probes):
                text = target.text if probe is None else probe.text
                if text is None:
                    continue
                asked = asked_as(spec, target, probe)
                for request in judgement_requests(
                    asked, plan.rubric, task=target.run.prompt.text, response=text, manner=plan.manner
                ):
                    found.setdefault(request.identity(), request)
    return tuple(found.values())


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


def asked_as(spec: JudgeSpec, target: Target, probe: Probe | None) -> JudgeSpec:
    """Return the judge as it is asked: the control is the next time that it judges this run (test-retest)."""
    again = 1 if probe is not None and probe.kind == CONTROL else 0
    return judge_of_run(spec, target.run.repeat, again)


def _base(run: PlannedRun) -> str:
    return str(getattr(run.item.context, "base", run.item.item_id))


def _bin(run: PlannedRun) -> str:
    return str(getattr(run.item.context, "length_bin", ""))

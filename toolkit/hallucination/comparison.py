"""Hallucination judges of a study on labelled answers: asked through its gateway, compared with the labels."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from toolkit.errors import BudgetReached, InputError
from toolkit.hallucination.labelled import LabelledItem
from toolkit.hallucination.votes import (
    REASONS,
    HallucinationVerdict,
    Mode,
    hallucination_requests,
    judge_hallucination,
)
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import Ask, ModelRequest
from toolkit.pipeline import ask_study
from toolkit.plan import Plan
from toolkit.report.manifest import claim_folder
from toolkit.runs.execution import each
from toolkit.stats.detection.deciders import Decider, baselines, compare_deciders, decider, deciders_frame
from toolkit.stats.inference.p_values import LEVEL
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import Summary, reason_key, total_aud

if TYPE_CHECKING:
    from toolkit.store.connection import Store

_AHEAD = 3  # verdicts under way for each request at once: one that waits must not stop the others
_WHO = ("judge", "model", "mode")
_READ = ("reason", "score", "explanation", "votes", "reasons", "aud_cost", "call_ids")
_COSTS = ("unasked", "aud", "aud_per_correct", "replies", "unreadable", "unreadable_share")


def compare_hallucination(
    plan: Plan,
    store: Store,
    items: Sequence[LabelledItem],
    modes: Sequence[Mode],
    k: int,
    *,
    progress: bool = True,
) -> HallucinationComparison:
    """Have every judge of a study judge every item in every mode with k votes, and compare them with the labels.

    Returned is what was judged until the budget was reached; `InputError` is raised where the study has no judges, an
    item has no label, or two items have one name. ``boolean`` and ``cot-seed`` of the ``modes`` reproduce seed 004 and
    are not hardened against answers that speak to the judge.
    """
    if not items:
        raise InputError("hallucination: there is no item; give a labelled set")
    if bare := [item.item_id for item in items if item.hallucinated is None]:
        raise InputError(
            f"hallucination: {len(bare)} of {len(items)} items have no label, first {bare[0]!r}; leave them out"
        )
    if twice := [name for name, count in Counter(item.item_id for item in items).items() if count > 1]:
        raise InputError(f"hallucination: item {twice[0]!r} is there twice; give each its own item_id")
    keys = [(judge, mode) for judge in plan.judges.values() for mode in dict.fromkeys(modes)]
    verdicts = {}

    async def work(ask: Ask, stop: threading.Event) -> BudgetReached | None:
        async def judge_one(request: tuple[LabelledItem, JudgeSpec, Mode]) -> None:
            item, judge, mode = request
            verdict = await judge_hallucination(item, judge=judge, mode=mode, k=k, ask=ask)
            verdicts[item.item_id, judge.role, mode] = verdict

        # Item by item, so that a reached budget leaves all judges and modes with the same items.
        todo = [(item, judge, mode) for item in items for judge, mode in keys]
        return await each([todo], judge_one, at_once=_AHEAD * plan.study.concurrency, stop=stop)

    requests = comparison_requests(plan, items, modes, k)
    reached = ask_study(plan, store, work, requests=requests, label="votes", progress=progress)
    labels = [bool(item.hallucinated) for item in items]
    # Items of one document, or of one question, are one unit.
    sources = [item.documents or item.question for item in items]
    bases = sources if len(set(sources)) < len(sources) else None
    deciders = []
    for judge, mode in keys:
        replies = [verdicts.get((item.item_id, judge.role, mode)) for item in items]
        judged = [verdict for verdict in replies if verdict]
        deciders.append(
            decider(
                judge.role,
                judge.name,
                mode,
                labels=labels,
                bases=bases,
                decisions=[verdict.decision if verdict else None for verdict in replies],
                asked=[verdict is not None for verdict in replies],
                scores=[verdict.score if verdict else None for verdict in replies],
                votes=[verdict.votes if verdict else () for verdict in replies],
                aud=total_aud(verdict.aud_cost for verdict in judged),
                unreadable=sum(verdict.votes.count(None) for verdict in judged),
            )
        )
    simple = baselines(labels, [len(item.answer) for item in items], bases)
    among = compare_deciders(labels, deciders, bases=bases)
    ordered = (verdicts.get((item.item_id, judge.role, mode)) for item in items for judge, mode in keys)
    return HallucinationComparison(
        study=plan.study.name,
        note=plan.study.note,
        items=tuple(items),
        k=k,
        verdicts=tuple(filter(None, ordered)),
        deciders=tuple(deciders),
        baselines=simple,
        contrasts=(*among, *compare_deciders(labels, deciders, simple, bases)),
        budget=str(reached) if reached else None,
    )


def comparison_requests(
    plan: Plan, items: Sequence[LabelledItem], modes: Sequence[Mode], k: int
) -> tuple[ModelRequest, ...]:
    """Return every request of `compare_hallucination`, to say what they cost before one is sent."""
    return tuple(
        request
        for item in items
        for judge in plan.judges.values()
        for mode in dict.fromkeys(modes)
        for request in hallucination_requests(item, judge, mode, k)
    )


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
    budget: str | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return one row per judge and mode, then one per baseline; see `deciders_frame`."""
        return deciders_frame((*self.deciders, *self.baselines))

    def contrasts_frame(self) -> pd.DataFrame:
        """Return one row per difference of two accuracies, with its interval and corrected p value."""
        return estimates_frame([("accuracy", contrast) for contrast in self.contrasts], "of")

    def verdicts_frame(self) -> pd.DataFrame:
        """Return one row a verdict: what was decided of which item and whether that is right, votes and reasons."""
        by_id = {item.item_id: item for item in self.items}
        rows = []
        for verdict in self.verdicts:
            item, decision = by_id[verdict.item_id], verdict.decision
            row = {name: getattr(item, name) for name in ("item_id", "domain", "topic")}
            row |= {name: getattr(verdict, name) for name in _WHO}
            row |= {"hallucinated": item.hallucinated, "decision": decision}
            row["correct"] = None if decision is None else decision == item.hallucinated
            rows.append(row | {name: getattr(verdict, name) for name in _READ})
        return pd.DataFrame(rows)

    def figures(self, folder: Path | str) -> list[Path]:
        """Write the figure and the table into a folder, and return the paths."""
        from toolkit.hallucination.figures import hallucination_figure, hallucination_table
        from toolkit.report.figure import About, save_all

        claim_folder(self.study, Path(folder) / "figures", Path(folder) / "tables")
        context = About(source=f"Study {self.study}", note=self.note)
        figure = hallucination_figure(self.deciders, self.baselines, k=self.k, context=context)
        table = hallucination_table(self.deciders, self.baselines, k=self.k, context=context)
        return save_all([figure], [table], folder)

    @property
    def failures(self) -> dict[str, int]:
        """How many votes got no reply, by the reason; asking again may help."""
        return dict(Counter(reason for reason in self._reasons() if not reason.startswith(REASONS)))

    @property
    def unreadable(self) -> dict[str, int]:
        """How many replies gave no vote, by the reason; the same reply would be read the same way again."""
        return dict(Counter(reason_key(reason) for reason in self._reasons() if reason.startswith(REASONS)))

    def _reasons(self) -> Iterator[str]:
        return (reason for verdict in self.verdicts for reason in verdict.reasons if reason is not None)

    @property
    def outcome(self) -> dict[str, Any]:
        """What `toolkit.report.show.need_whole` asks for: votes planned and failed, why, and the budget."""
        planned, failures = len(self.items) * len(self.deciders) * self.k, self.failures
        failed = sum(failures.values())
        return {"planned": planned, "failed": failed, "failures": failures, "budget": self.budget}

    def verdict(self) -> str:
        """Return which judges are shown to be right more often than the baselines that read nothing, and how often."""
        pairs = list(product(self.deciders, self.baselines))
        behind = {
            judge.label
            for (judge, _), test in zip(pairs, self.contrasts[-len(pairs) :], strict=True)
            if test.p_value is None or test.p_value >= LEVEL or (test.estimate or 0.0) <= 0
        }
        better = [judge.label for judge in self.deciders if judge.label not in behind]
        names = "; ".join(better) or "no judge"
        rates = (f"{judge.label}: {judge.found.rate('accuracy').sentence()}" for judge in self.deciders)
        return "\n".join([f"Shown to be right more often than baselines that read nothing: {names}.", *rates])

    def summary(self, files: Sequence[Path] = ()) -> Summary:
        """Return what a command says at its end; exit code 3 for a reached budget, 1 for a vote without reply."""
        items, hallucinated = len(self.items), sum(bool(item.hallucinated) for item in self.items)
        share = f"prevalence {hallucinated / items:.3f}"
        lines = [self.verdict(), f"labelled  {hallucinated} of {items} items are hallucinated ({share})"]
        rows = []
        for row in (*self.deciders, *self.baselines):
            estimates = row.estimates()
            rows.append({name: getattr(row, name) for name in (*_WHO, *_COSTS)})
            rows[-1]["counts"] = vars(row.found.counts)
            rows[-1]["estimates"] = [estimate.to_dict() for estimate in estimates]
            cost = "" if row.aud is None else f": AUD {row.aud:.4f}, {row.replies} replies"
            lines += [f"{row.label}{cost}", *(f"  {estimate.sentence()}" for estimate in estimates)]
        lines += [contrast.sentence() for contrast in self.contrasts]
        lines += [f"no reply  {count} x {reason}" for reason, count in self.failures.items()]
        lines += [f"no vote   {count} x {reason}" for reason, count in self.unreadable.items()]
        lines += [*filter(None, [self.budget]), *map(str, files)]
        fields = {
            "study": self.study,
            "items": items,
            "hallucinated": hallucinated,
            "prevalence": hallucinated / items,
            "k": self.k,
            "rows": rows,
            "contrasts": [contrast.to_dict() for contrast in self.contrasts],
            "failures": self.failures,
            "unreadable": self.unreadable,
            "budget": self.budget,
            "files": [str(path) for path in files],
        }
        return Summary(fields, "\n".join(lines), 3 if self.budget else int(bool(self.failures)))

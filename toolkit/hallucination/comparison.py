"""Hallucination judges of a study on answers: asked through its gateway, compared with the labels that there are."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product, takewhile
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import pandas as pd

from toolkit.errors import BudgetReached, InputError
from toolkit.files.tables import csv_bytes
from toolkit.files.writing import write_atomically
from toolkit.hallucination.labelled import OWN, LabelledItem
from toolkit.hallucination.votes import (
    MODES,
    REASONS,
    HallucinationVerdict,
    Mode,
    Task,
    hallucination_requests,
    judge_hallucination,
    verdict_of,
)
from toolkit.models.base import Ask, ModelRequest
from toolkit.pipeline import ask_study
from toolkit.plan import Plan
from toolkit.report.manifest import claim_folder
from toolkit.report.show import Files
from toolkit.runs.execution import each
from toolkit.runs.ledger import Ledger
from toolkit.stats.detection.rates import (
    Decider,
    baselines,
    compare_deciders,
    decider,
    deciders_frame,
    hallucination_shares,
)
from toolkit.stats.inference.p_values import LEVEL
from toolkit.stats.result import ROWS, Estimate, Result, estimates_frame, plain
from toolkit.store.connection import Store
from toolkit.store.documents import Call
from toolkit.words import Summary, one_line, reason_key, template, total_aud

_AHEAD = 3  # verdicts under way for each request at once: one that waits must not stop the others
_WHO = ("judge", "model", "mode")
_COLUMNS = ["judge", "question", "truth", "inference", "metric", "explanation"]
"""As seed 004 prints them, and whose verdict it is."""
_FIELDS = ("study", "k", "contrasts", "shares", "failures", "unreadable", "budget")
_COSTS = ("unasked", "aud", "aud_per_correct", "replies", "unreadable", "unreadable_share")


def hallucination_tasks(plan: Plan, items: Iterable[LabelledItem], modes: Iterable[Mode]) -> list[Task]:
    """Return every answer with each judge of a study and each prompt.

    ``boolean`` and ``cot-seed`` of the ``modes`` reproduce seed 004 and are not hardened against answers that speak to
    the judge.

    Examples
    --------
    >>> from toolkit import Study, read_items
    >>> plan = Study.load("templates/planted.toml").plan
    >>> len(hallucination_tasks(plan, read_items("security"), ["cot", "boolean"]))
    432
    """
    return [
        (item, judge.of_run(item.run.get("repeat", 0)), mode)
        for item in items
        for judge in plan.judges_of(item.run.get("model", "")).values()
        for mode in dict.fromkeys(modes)
    ]


def reply_items(plan: Plan, runs: pd.DataFrame) -> list[LabelledItem]:
    """Return the replies of a study that count, each with its prompt as the question; ``runs`` have them as ``reply``.

    A reference answer, where the base has one, is the perfect answer.
    """
    items = []
    for run in runs[(runs["status"] == "succeeded") & ~runs["excluded"]].to_dict("records"):
        prompt = plan.sources[run["prompt_id"]]
        reference = prompt.metadata.get("reference")
        items.append(LabelledItem(run["run_id"], prompt.text, run["reply"], reference, run=run))
    return items


def compare_hallucination(
    plan: Plan, store: Store, tasks: Sequence[Task], k: int, *, progress: bool = True
) -> "HallucinationComparison":
    """Put answers to judges with k votes, compare those that have a label with it, and count yes of the others.

    Returned is what was judged until the budget was reached; `InputError` is raised where the study has no judges or
    there is no answer. Items are told apart by their ``item_id``.

    Examples
    --------
    >>> tasks = hallucination_tasks(study.plan, read_items("security"), ["cot"])  # doctest: +SKIP
    >>> comparison = compare_hallucination(study.plan, study.store, tasks, k=5)  # doctest: +SKIP
    >>> [judge.label for judge in comparison.deciders]  # doctest: +SKIP
    ['primary (judge-fair), cot', 'secondary (judge-fair-too), cot', 'tertiary (judge-severe), cot']
    """
    if plan.judges and not tasks:
        raise InputError(
            f"study {plan.study.name}: there is no answer to judge; run it first, or give a file"
        )
    verdicts = {task: verdict_of(task, (), ()) for task in tasks}

    async def work(ask: Ask, stop: threading.Event) -> BudgetReached | None:
        async def judge_one(task: Task) -> None:
            item, judge, mode = task
            verdicts[task] = await judge_hallucination(item, judge=judge, mode=mode, k=k, ask=ask)

        # Item by item, so that a reached budget leaves all judges and modes with the same items.
        return await each([tasks], judge_one, at_once=_AHEAD * plan.study.concurrency, stop=stop)

    requests = comparison_requests(tasks, k)
    reached, _ = ask_study(
        plan, store, work, requests=requests, label="votes", purpose="hallucination", progress=progress
    )
    labelled = [task for task in tasks if task[0].hallucinated is not None]
    items = [*dict.fromkeys(item for item, *_ in labelled)]
    labels = [bool(item.hallucinated) for item in items]
    # Items of one document, or of one question, are one unit.
    sources = [item.documents or item.question for item in items]
    bases = sources if len(set(sources)) < len(sources) else None
    deciders = []
    for judge, mode in dict.fromkeys((judge, mode) for _, judge, mode in labelled):
        replies = [verdicts[item, judge, mode] for item in items]
        votes = [verdict.votes for verdict in replies]
        deciders.append(
            decider(
                judge.role,
                judge.name,
                mode,
                labels=labels,
                bases=bases,
                decisions=[verdict.decision for verdict in replies],
                asked=[*map(bool, votes)],
                scores=[verdict.metric for verdict in replies],
                votes=votes,
                aud=total_aud(verdict.aud_cost for verdict in replies),
                unreadable=[*chain(*votes)].count(None),
            )
        )
    simple = baselines(labels, [len(item.answer) for item in items], bases) if items else ()
    among = compare_deciders(labels, deciders, bases=bases)
    rows = [verdict_row(task[0], verdicts[task]) for task in tasks if task[0].hallucinated is None]
    return HallucinationComparison(
        study=plan.study.name,
        # Of the answers of a file no model of the study gave one.
        warning=replace(plan, models=plan.models if tasks[0][0].run else {}).warning,
        note=plan.study.note,
        k=k,
        verdicts=verdicts,
        deciders=tuple(deciders),
        baselines=simple,
        contrasts=(*among, *compare_deciders(labels, deciders, simple, bases)),
        shares=hallucination_shares(pd.DataFrame(rows)) if rows else None,
        budget=str(reached) if reached else None,
    )


def comparison_requests(tasks: Iterable[Task], k: int) -> tuple[ModelRequest, ...]:
    """Return every request of `compare_hallucination`, to say what they cost before one is sent.

    Examples
    --------
    >>> from toolkit import Study, read_items
    >>> plan = Study.load("templates/planted.toml").plan
    >>> tasks = hallucination_tasks(plan, read_items("security")[:2], ["cot"])
    >>> len(comparison_requests(tasks, k=5))
    30
    """
    return tuple(request for task in tasks for request in hallucination_requests(*task, k))


def reply_verdicts(plan: Plan, store: Store, runs: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of what judges said of the replies, as the calls of the ledger have it; nobody is asked.

    Nothing of it is stored but the calls, which are known by the identities of the requests.
    """
    calls = store.each_where(Call, {"purpose": "hallucination"}, only=("study",))
    call_ids = {call["_id"] for call in calls}
    answers = Ledger(store, plan.study.name).prefetch(call_ids)
    for task in hallucination_tasks(plan, reply_items(plan, runs), MODES):
        ids = (request.identity() for request in hallucination_requests(*task))
        replies = [answers[call] for call in takewhile(call_ids.__contains__, ids) if call in answers]
        if replies:
            yield verdict_row(task[0], verdict_of(task, (), replies))


def verdict_row(item: LabelledItem, verdict: HallucinationVerdict) -> dict[str, Any]:
    """Return a row of a verdict: the texts, who answered and who judged, and what was decided.

    ``metric`` is the share of yes among the ``k`` votes that can be read; items of one document, or of one question,
    are one ``cluster``, replies of a study by their base.
    """
    row = {name: getattr(item, name) for name in OWN} | {"cluster": item.documents or item.question}
    row |= {**item.run, **vars(verdict)}
    row |= {"truth": row.pop("reference"), "inference": row.pop("answer")}
    return row | {"k": len(verdict.votes), "reason": verdict.reason}


def verdicts_text(verdicts: pd.DataFrame) -> str:
    """Return the first verdicts with their texts, a line each, cut to the width of the terminal; the frame has all."""
    yes_or_no = verdicts["decision"].map({True: "yes", False: "no"})
    metric = verdicts["metric"].astype(object).where(verdicts["k"] > 1, yes_or_no)
    table = verdicts.assign(metric=metric)[_COLUMNS].head(ROWS)
    table = table.dropna(axis="columns", how="all").astype(object).fillna("")
    most = get_terminal_size().columns // len(table.columns) - 1
    cut = table.map(lambda cell: one_line(str(cell), most).ljust(most))
    return f"{len(table)} of {len(verdicts)} verdicts\n{cut.to_string(index=False, justify='left')}"


@dataclass(frozen=True)
class HallucinationComparison:
    """What every judge and mode made of answers: how often right where they have a label, else the share of yes."""

    study: str
    warning: str
    note: str
    k: int
    verdicts: Mapping[Task, HallucinationVerdict]
    deciders: tuple[Decider, ...]
    baselines: tuple[Decider, ...]
    contrasts: tuple[Estimate, ...]
    shares: Result | None = None
    budget: str | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return one row per judge and mode, then one per baseline; see `deciders_frame`."""
        return deciders_frame((*self.deciders, *self.baselines))

    def contrasts_frame(self) -> pd.DataFrame:
        """Return one row per difference of two accuracies, with its interval and corrected p value."""
        return estimates_frame([("accuracy", contrast) for contrast in self.contrasts], "of")

    def verdicts_frame(self) -> pd.DataFrame:
        """Return one row a verdict: the texts, what was decided and whether that is right, votes and reasons."""
        return pd.DataFrame(verdict_row(item, verdict) for (item, *_), verdict in self.verdicts.items())

    def figures(self, folder: Path | str) -> Files:
        """Write the figure and the table of labelled answers, and all verdicts, into a folder; return the paths."""
        from toolkit.hallucination.figures import hallucination_figure, hallucination_table
        from toolkit.report.figure import About, save_all

        claim_folder(self.study, Path(folder) / "figures", Path(folder) / "tables")
        context = About(f"Study {self.study}", self.warning, note=self.note)
        files = Files()
        if self.deciders:
            figure = hallucination_figure(self.deciders, self.baselines, k=self.k, context=context)
            table = hallucination_table(self.deciders, self.baselines, k=self.k, context=context)
            files = save_all([figure, table], folder)
        verdicts = Path(folder) / "tables" / "hallucination_verdicts.csv"
        files.append(write_atomically(verdicts, csv_bytes(self.verdicts_frame())))
        return files

    @property
    def failures(self) -> dict[str, int]:
        """How many votes got no reply, by the reason; asking again may help."""
        return dict(Counter(reason for reason in self._reasons() if not reason.startswith(REASONS)))

    @property
    def unreadable(self) -> dict[str, int]:
        """How many replies gave no vote, by the reason; the same reply would be read the same way again."""
        return dict(Counter(reason_key(reason) for reason in self._reasons() if reason.startswith(REASONS)))

    def _reasons(self) -> Iterator[str]:
        return filter(None, chain(*(verdict.reasons for verdict in self.verdicts.values())))

    @property
    def outcome(self) -> dict[str, Any]:
        """What `toolkit.report.show.need_whole` asks for: votes planned and failed, why, and the budget."""
        counts = {"planned": len(self.verdicts) * self.k, "failed": sum(self.failures.values())}
        return {**counts, "failures": self.failures, "budget": self.budget}

    def verdict(self) -> str:
        """Return which judges are shown to be right more often than baselines that read nothing; the shares of yes."""
        shares = [estimate.sentence() for estimate in self.shares.shares] if self.shares else []
        if not self.deciders:
            return "\n".join(shares)
        pairs = [*product(self.deciders, self.baselines)]
        behind = {
            judge.label
            for (judge, _), test in zip(pairs, self.contrasts[-len(pairs) :], strict=True)
            if test.p_value is None or test.p_value >= LEVEL or (test.estimate or 0.0) <= 0
        }
        names = "; ".join(judge.label for judge in self.deciders if judge.label not in behind) or "no judge"
        rates = (f"{judge.label}: {judge.found.rate('accuracy').sentence()}" for judge in self.deciders)
        better = f"Shown to be right more often than baselines that read nothing: {names}."
        return "\n".join([better, *rates, *shares])

    def summary(self, files: Sequence[Path] = ()) -> Summary:
        """Return what a command says at its end; exit code 3 for a reached budget, 1 for a vote without reply."""
        labels = {item: item.hallucinated for item, *_ in self.verdicts if item.hallucinated is not None}
        items, hallucinated = len(labels), sum(labels.values())
        prevalence = hallucinated / items if items else None
        rows = []
        for row in (*self.deciders, *self.baselines):
            counts = {"counts": row.found.counts, "estimates": row.estimates()}
            rows.append(plain({name: getattr(row, name) for name in (*_WHO, *_COSTS)} | counts))
        fields = {name: plain(getattr(self, name)) for name in _FIELDS}
        fields |= {"items": items, "hallucinated": hallucinated, "prevalence": prevalence, "rows": rows}
        fields |= {"verdicts": plain(self.shares and self.shares.verdicts), "files": [*map(str, files)]}
        text = template("hallucination", "compared.jinja").render(
            fields,
            warning=self.warning,
            deciders=(*self.deciders, *self.baselines),
            contrasts=self.contrasts,
            verdict=self.verdict(),
            table=self.shares and verdicts_text(self.shares.verdicts),
        )
        return Summary(fields, text, 3 if self.budget else int(bool(self.failures)))

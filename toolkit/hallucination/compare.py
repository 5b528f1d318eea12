"""How far hallucination judges can be trusted: every judge of a study, in every mode, on one labelled set."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from toolkit.errors import BudgetReached, InputError
from toolkit.hallucination.comparison import HallucinationComparison, comparison_of
from toolkit.judges.ask import JudgeSpec
from toolkit.judges.hallucination import HallucinationVerdict, hallucination_requests, judge_hallucination
from toolkit.judges.hallucination_prompts import MODES, Mode
from toolkit.judges.labelled import LabelledItem
from toolkit.models.base import Ask, ModelRequest
from toolkit.pipeline import ask_study
from toolkit.runs.execution import each

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.store.connection import Store

_AHEAD: Final = 3
"""Verdicts under way for each request that may be: one that waits for its last vote must not stop the others."""


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
        The planned study, whose judges, ledger, limits and budget hold, and its open store. What the ledger has is
        not asked again: a second run asks nothing.
    items
        The labelled set.
    modes
        How the judges are asked; see `toolkit.judges.hallucination_prompts`.
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
    found: dict[tuple[str, str, str], HallucinationVerdict] = {}

    async def work(ask: Ask, stop: threading.Event) -> BudgetReached | None:
        async def judge_one(one: tuple[LabelledItem, JudgeSpec, Mode]) -> None:
            item, judge, mode = one
            verdict = await judge_hallucination(item, judge=judge, mode=mode, k=k, ask=ask)
            found[item.item_id, judge.role, mode] = verdict

        # Item by item, so that a reached budget leaves all judges and modes with the same items.
        todo = [(item, judge, mode) for item in items for judge, mode in keys]
        return await each([todo], judge_one, at_once=_AHEAD * plan.study.concurrency, stop=stop)

    requests = comparison_requests(plan, items, modes, k)
    reached = ask_study(plan, store, work, requests=requests, label="votes", progress=progress)
    return comparison_of(
        items,
        [(judge.role, judge.name, mode) for judge, mode in keys],
        found.values(),
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


def some_items(items: Sequence[LabelledItem], limit: int | None, seed: int) -> tuple[LabelledItem, ...]:
    """Return as many items as asked for, each label as frequent among them as in the file, in their own order.

    Accuracy, F1, kappa and "always the majority" depend on how frequent a label is, so a part keeps it.

    Parameters
    ----------
    items
        Labelled items.
    limit
        How many; None for all.
    seed
        Decides which. A larger limit holds the items of a smaller one.

    Examples
    --------
    >>> items = [LabelledItem(str(n), "?", "!", hallucinated=n < 9) for n in range(12)]
    >>> [item.hallucinated for item in some_items(items, 4, seed=1)]
    [True, True, True, False]
    """
    if limit is None or limit >= len(items):
        return tuple(items)
    dice = random.Random(seed)
    ranked: list[tuple[float, int]] = []
    for label in (True, False, None):
        places = [place for place, item in enumerate(items) if item.hallucinated is label]
        dice.shuffle(places)
        ranked += [((rank + 0.5) / len(places), place) for rank, place in enumerate(places)]
    ranked.sort()  # the labels take turns, each as often as it is there
    return tuple(items[place] for place in sorted(place for _, place in ranked[:limit]))


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

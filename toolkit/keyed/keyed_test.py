"""The keyed test: questions of a table that has their answers, each reply scored by comparison with the key."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from statistics import mode
from string import ascii_uppercase as LETTERS
from typing import TYPE_CHECKING, Any

import pandas as pd

from toolkit.errors import InputError
from toolkit.judges.request import JudgeSpec
from toolkit.judges.rubric import shipped_words
from toolkit.keyed.answers import SHARE, Read
from toolkit.keyed.refusals import BY_PROVIDER, refusal_request
from toolkit.keyed.scorers import SCORERS, check_table
from toolkit.keyed.scorers import scorer as find_scorer
from toolkit.keyed.table import KeyedItem, keeps_order, load_keyed
from toolkit.keyed.texts import plain
from toolkit.models.base import Ask
from toolkit.models.scripted import Question
from toolkit.prompt_test import (
    Annotator,
    MeasuredTestItem,
    Measurement,
    Prompt,
    PromptReply,
    PromptResponseTest,
    PromptWithContext,
    Result,
    ResultType,
    TestItem,
    TestItemAnnotations,
    mean_result,
    one_model,
)
from toolkit.prompts.dataset import SHIPPED
from toolkit.stats.comparisons.models import RATE_UNIT
from toolkit.stats.inference.run_table import WHOLE
from toolkit.store.frame_files import KINDS

if TYPE_CHECKING:
    from toolkit.study_file import StudyFile

_DECOY_ITEMS = 50
"""Items whose answers a scripted model takes for wrong ones."""
OF_ALL, READABLE = "correct_of_all", "readable"
_TYPES = dict(shipped_words("answers", "keyed"))
"""Columns of answers beside the scores of a scorer and what a run has."""


class KeyedTest(PromptResponseTest):
    """Accuracy on a table of questions with a key; the options of a question are shuffled by seed and repeat."""

    name = "keyed"
    keyed = True

    def __init__(
        self,
        *,
        study: StudyFile,
        folder: Path,
        scorer: str = "choice",
        columns: Mapping[str, Any] | None = None,
        licence: str = "",
        shuffle: bool = True,
        tolerance: Mapping[str, float] | None = None,
        ask_judges: bool = False,
        judges: Sequence[JudgeSpec] = (),
    ) -> None:
        if study.dataset in SHIPPED:
            raise InputError(f"dataset: {study.dataset!r} has no key; name a table that has one")
        self.table = load_keyed(study.dataset, columns)
        settings = {} if tolerance is None else {"tolerance": tolerance}
        self.scorer = find_scorer(scorer, folder, self.table.items, **settings)
        check_table(self.table, self.scorer)
        labels = {label for item in self.table.items for label in item.answers}
        if scorer == "label" and len({plain(label).casefold() for label in labels}) < len(labels):
            note = "some labels differ in capitals or marks alone: each is a label of its own"
            self.table = replace(self.table, notes=(*self.table.notes, note))
        if ask_judges and (scorer != "refusal" or not judges):
            raise InputError('ask_judges is for scorer = "refusal", with a judge under [judges]')
        self.asks_judges, self.judges = ask_judges, tuple(judges)
        taken = {*_TYPES, *KINDS["runs"], READABLE}
        if clashes := [name for name, _ in self.scorer.measures if name in taken]:
            raise InputError(
                f"scorer {scorer}: {clashes[0]!r} is a column of every answer; name its score otherwise"
            )
        self.licence, items = licence, self.table.items
        if study.bases is not None:
            if study.bases > len(items):
                raise InputError(
                    f"bases = {study.bases}: the table has {len(items)} questions; ask for at most as many"
                )
            chosen = random.Random(study.seed).sample(range(len(items)), study.bases)
            items = tuple(items[number] for number in sorted(chosen))
        # Options in another order make another prompt, so that each repeat has prompts of its own.
        self.shuffles, self._seed = shuffle, study.seed
        shuffled = shuffle and any(len(item.options) > 1 and not keeps_order(item) for item in items)
        self._orders = study.repeats if shuffled else 1
        self._prompts: dict[str, tuple[KeyedItem, tuple[str, ...]]] = {}
        self._items = tuple(map(self._test_item, items))

    def _test_item(self, item: KeyedItem) -> TestItem:
        prompts = []
        for repeat in range(self._orders):
            displayed = self.options(item, repeat)
            form = self.scorer.form(item, displayed)
            name = f"{item.item_id}/order{repeat + 1}" if repeat else item.item_id
            prompt = Prompt("\n".join(filter(None, (item.prompt, form))), name)
            self._prompts[prompt.text] = item, displayed
            prompts.append(PromptWithContext(prompt, item, repeat if self._orders > 1 else None))
        return TestItem(item.item_id, tuple(prompts), item, cluster=item.cluster, category=item.group or "")

    def question(self, text: str) -> Question | None:
        """Return what a prompt asks as a scripted model is told it: cluster and options, right and wrong answers."""
        if text not in self._prompts or self.scorer.name not in SCORERS or not self.scorer.needs_key:
            return None
        item, displayed = self._prompts[text]
        letters = sorted(zip(displayed, LETTERS, strict=False))
        answers: list[Any] = [letter for _, letter in letters]
        if self.scorer.several and displayed:
            key = [item.options[LETTERS.index(letter)] for letter in self.scorer.key(item)]
            answers += [[letter for option, letter in letters if option in key], answers[:]]
        elif not displayed:
            keys = [row.answer for row in self.table.items[:_DECOY_ITEMS] if row.answer]
            answers = [item.answer, *keys, *self.scorer.decoys]
        right: list[Any] = []
        wrong: list[Any] = []
        for answer in answers:
            read = self.scorer.read(json.dumps({"answer": answer}), item, displayed)
            if not read.reason:
                (right if self.scores(read, item)[OF_ALL] == 1 else wrong).append(answer)
        return (item.cluster or item.item_id, sorted(displayed)), right, wrong

    @property
    def has_options(self) -> bool:
        """Whether questions come with options to choose from."""
        return any(len(item.options) > 1 for item in self.table.items)

    def options(self, item: KeyedItem, repeat: int) -> tuple[str, ...]:
        """Return the options of a question in the order in which a repeat shows them."""
        if not self.shuffles or len(item.options) < 2 or keeps_order(item):
            return item.options
        rng = random.Random(f"{self._seed}/{item.item_id}/{repeat if self._orders > 1 else 0}")
        return tuple(rng.sample(item.options, len(item.options)))

    def make_test_items(self) -> tuple[TestItem, ...]:
        """Return one item per question; with repeats it has a prompt for each order of its options."""
        return self._items

    def annotators(self) -> Mapping[str, Annotator]:
        """Return the judges that say whether a reply refuses, where a study has them asked."""
        return {"refusal": self._ask_judges} if self.asks_judges else {}

    async def _ask_judges(self, reply: PromptReply, ask: Ask) -> Read:
        from toolkit.hallucination.votes import majority_vote

        request, text = reply.prompt.text, reply.text or ""
        judges = [judge.of_run(reply.repeat) for judge in self.judges]
        refuses, remarks, _ = await majority_vote(
            judges, lambda judge: refusal_request(judge, request, text), ask
        )
        return Read(None, f"no majority: {remarks}") if refuses is None else Read("yes" if refuses else "no")

    def read(self, answered: TestItemAnnotations) -> Read:
        """Return what a reply answers, or why it cannot be read."""
        (reply,), item = answered.replies, answered.item.context
        if reply.text is None:  # a reply that was withheld is a refusal, and to all other scorers missing
            withheld = self.scorer.name == "refusal" and reply.failure in BY_PROVIDER
            return Read("yes") if withheld else Read(None, reply.failure or "no reply")
        if self.asks_judges:
            (verdict,) = answered.annotations.get("refusal", (None,))
            return verdict or Read(None, "not judged yet")
        return self.scorer.read(reply.text, item, self.options(item, reply.repeat))

    def scores(self, read: Read, item: KeyedItem, has_reply: bool = True) -> Mapping[str, float]:
        """Return the scores of what was read, and with the unreadable counted as wrong; no score without a reply."""
        if read.reason:
            return {OF_ALL: 0.0, READABLE: 0.0} if has_reply else {}
        scores, main = self.scorer.score(read.value, item), self.scorer.measures[0][0]
        if not 0 <= scores[main] <= 1:
            raise InputError(
                f"scorer {self.scorer.name}: gives {scores[main]:g} for item {item.item_id}, and {main}, its first "
                "score, is a share; divide it by the most there can be"
            )
        return {**scores, OF_ALL: scores[main], READABLE: 1.0}

    def measure_quality(self, item_annotations: TestItemAnnotations) -> list[Measurement]:
        """Return the scores of one answer; all are missing, with the reason, where it could not be read."""
        read, (reply,) = self.read(item_annotations), item_annotations.replies
        scores = self.scores(read, item_annotations.item.context, reply.text is not None)
        types = self.result_types()
        return [Measurement(kind.name, scores.get(kind.name), kind.unit, read.reason) for kind in types]

    def result_types(self) -> tuple[ResultType, ...]:
        """Return the mean of each score, that of the main one over all replies, and the share that could be read."""
        return tuple(starmap(ResultType, (*self.scorer.measures, (OF_ALL, SHARE), (READABLE, SHARE))))

    def aggregate_measurements(self, measured_items: Sequence[MeasuredTestItem]) -> list[Result]:
        """Return the results of one model, with intervals over independent questions."""
        one_model(measured_items)
        return [
            mean_result(
                kind.name, measured_items, kind.name, kind.unit, (0.0, 1.0) if kind.unit == SHARE else None
            )
            for kind in self.result_types()
        ]


def answers_frame(
    test: KeyedTest, annotated: Iterable[TestItemAnnotations], runs: pd.DataFrame
) -> pd.DataFrame:
    """Return one row an answer: what was read, what the key has, every score, and where the right option stood."""
    measures, is_choice = [name for name, _ in test.scorer.measures], test.scorer.name == "choice"
    # What the commonest key scores; what a function of the user scores is known to the function alone.
    keys = [as_text(item.context.answer) for item in test.make_test_items() if item.context.answer]
    comparable = keys and test.scorer.name in SCORERS and not test.has_options
    commonest = mode(keys) if comparable else None
    rows = []
    for answered in annotated:
        (reply,), item = answered.replies, answered.item.context
        if not reply.run_id:
            continue
        read, options = test.read(answered), test.options(item, reply.repeat)
        # In a choice the key is the letter of the right option, in the order of the file.
        key = test.scorer.key(item) if is_choice else item.answer
        row = {
            "run_id": reply.run_id,
            "base": item.item_id,
            "model": reply.model,
            "repeat": reply.repeat,
            "key": as_text(key),
            "answer": as_text(read.value),
            "reason": read.reason,
            "chance": test.scorer.chance(item),
            "majority": None if commonest is None else float(as_text(item.answer) == commonest),
            "options": len(options),
            **test.scores(read, item, reply.text is not None),
        }
        for name, letter in (("position", key), ("chosen_position", read.value)) if is_choice else ():
            row[name] = options.index(item.options[LETTERS.index(letter)]) if letter else None
        rows.append(row)
    types = _TYPES | dict.fromkeys(measures, "float64")
    answers = pd.DataFrame(rows, columns=list(types)).astype(types)
    answers = answers.merge(runs[["run_id", "cluster", "category", "aud_cost"]], on="run_id", how="left")
    answers.attrs |= {"score": measures[0], "base": "items"}
    return answers


def scored_runs(runs: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Return runs with the score of their answers as their composite, as the analyses of scores take them."""
    name, by_run = answers.attrs["score"], answers.set_index("run_id")
    score = runs["run_id"].map(by_run[name]).astype("float64")
    failure = runs["failure"].where(runs["failure"].notna(), runs["run_id"].map(by_run["reason"]))
    table = runs.assign(
        composite=score, composite_strict=score, judged=score.notna(), judge_count=0, zeros=0, level=WHOLE,
        failure=failure,
    )  # fmt: skip
    table[name] = score
    table.attrs |= {"scale": (0.0, 1.0), "units": {name: RATE_UNIT}}
    return table


def as_text(value: Any) -> str | None:
    """Return an answer or a key as text."""
    if value is None or isinstance(value, str):
        return value
    return ", ".join(map(str, value)) if isinstance(value, Iterable) else f"{value:g}"

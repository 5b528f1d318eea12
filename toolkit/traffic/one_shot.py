"""The one-shot test of seed 000: whether a model reads a sample as expected and invents nothing.

A method is a prompt (a variant with a question in it), perhaps a document, a sample and a model; an experiment is one
shot of it; a test is N experiments of one method.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from toolkit.errors import InputError
from toolkit.files.reading import read_toml
from toolkit.files.strict import checked
from toolkit.judges.request import JudgeSpec, fence_code
from toolkit.judges.rubric import fill
from toolkit.models.base import Ask, Message, ModelRequest
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
from toolkit.scoring import one_shot_score
from toolkit.stats.one_shot.methods import (
    KEYS,
    NO_DOCUMENT,
    UNIT,
    VERDICTS,
    WEIGHTS,
    MethodScore,
    method_estimates,
    overall,
    score_methods,
)
from toolkit.traffic.measures import ANSWERS, Table
from toolkit.traffic.questions import Question, Texts, load_questions
from toolkit.traffic.sample import Sample, load_sample
from toolkit.traffic.typed import Expected, Verdict, expectation, readable, typed_verdict
from toolkit.words import choices

FORMATS = ("typed", "text")
_COLUMNS = [*KEYS, "repeat", "verdict", "matched", "found", "why", "invented", "unreadable", "run_id"]
_TEXTS = read_toml(resources.files("toolkit.traffic") / "one_shot.toml")


@dataclass(frozen=True)
class OneShotContext:
    """What one method is made of, with the answer that is expected where its question has one."""

    variant: str
    document: str
    question: Question
    sample: Sample
    expected: Expected | None = field(default=None, repr=False, compare=False)


def experiments_frame(annotated: Iterable[TestItemAnnotations]) -> pd.DataFrame:
    """Return one row an experiment, with its verdict."""
    rows = []
    for item in annotated:
        (reply,) = item.replies
        verdict = _stored_verdict(item)
        row = _method(item.item, reply.model) | {"repeat": reply.repeat, "run_id": reply.run_id}
        rows.append(row | vars(verdict) | {"invented": "; ".join(verdict.invented)})
    types = dict.fromkeys(_COLUMNS, "string") | {"repeat": "Int64", "matched": "boolean"}
    return pd.DataFrame(rows, columns=_COLUMNS).astype(types)


def _method(item: TestItem, model: str) -> dict[str, Any]:
    """Return what names the method of an experiment."""
    context: OneShotContext = item.context
    method = (item.item_id, context.variant, context.document, context.question.id, context.sample.name)
    return dict(zip(KEYS, (*method, model), strict=True))


def _stored_verdict(item: TestItemAnnotations) -> Verdict:
    """Return the verdict of an experiment; where there is none it says why."""
    (reply,) = item.replies
    missing = "no verdict yet" if reply.text is not None else f"run failed: {reply.failure}"
    annotated = item.annotations.get("verdict", (None,))[0]
    verdict: Verdict = annotated or Verdict(None, missing)
    return verdict if verdict.verdict else replace(verdict, why=f"incomplete: {verdict.why}")


class OneShotTest(PromptResponseTest):
    """N experiments of each method, scored by expected answers, unexpected answers and hallucinations."""

    name = "one_shot"
    default_repeats = 10
    repeats_together = True

    def __init__(
        self,
        *,
        samples: Sequence[str | Path] | None = None,
        questions: Sequence[Question] | str | Path | None = None,
        only: Sequence[str] | None = None,
        prompts: Sequence[str | Mapping[str, str]] = ("plain",),
        documents: Sequence[Mapping[str, str]] = ({"id": NO_DOCUMENT, "text": ""},),
        weights: Sequence[float] = WEIGHTS,
        confidence: float = 0.95,
        answer_format: str = "typed",
        judges: Sequence[JudgeSpec] = (),
        folder: Path | None = None,
    ) -> None:
        base_folder = folder or Path()
        # Refuses bad weights and confidences before any call.
        checked_score = one_shot_score(1, 0, 0, weights, confidence)
        self.weights, self.confidence = checked_score.weights, checked_score.confidence
        self.judges = tuple(judges)
        self.answer_format = answer_format
        if answer_format not in FORMATS:
            allowed = choices(answer_format, FORMATS)
            raise InputError(f"one-shot test: answer_format {answer_format!r}: {allowed}")
        self.texts = checked(Texts, {"prompts": prompts, "documents": documents}, "options", base_folder)
        if questions is None or isinstance(questions, str | Path):
            selected = load_questions(None if questions is None else base_folder / questions)
        else:
            selected = tuple(questions)
        ids = {question.id for question in selected}
        if unknown := next((name for name in only or () if name not in ids), None):
            raise InputError(f"question {unknown!r} is unknown; {choices(unknown, sorted(ids))}")
        selected = tuple(question for question in selected if only is None or question.id in only)
        self.samples = _samples(samples, selected, base_folder)
        selected = tuple(question for question in selected if question.sample in self.samples)
        if not selected:
            raise InputError("one-shot test: nothing is left to ask; give questions")
        self.questions = selected
        alike = {question.text: question.id for question in reversed(selected)}
        self.bases = {question.id: alike[question.text] for question in selected}
        typed = answer_format == "typed"
        tables = {name: Table(sample.frame) for name, sample in self.samples.items()}
        self.asks_judges = bool(self.judges) and not typed
        expected = {
            question.id: expectation(question, tables[question.sample])
            for question in selected
            if typed or question.answer is not None
        }
        items = []
        for (condition, (variant, document)), question in product(self.texts.conditions.items(), selected):
            basis, sample = expected.get(question.id), self.samples[question.sample]
            context = OneShotContext(variant.id, document.id, question, sample, basis)
            name, form = f"{condition}/{question.id}", _form(basis) if basis and typed else ""
            text = variant.prompt(question.text + form, sample.csv, document.text)
            items.append(TestItem(name, (PromptWithContext(Prompt(text, name), context),), context))
        self._items = tuple(items)

    def make_test_items(self) -> tuple[TestItem, ...]:
        """Return one item per prompt, document and question: a method, but for its model."""
        return self._items

    def annotators(self) -> Mapping[str, Annotator]:
        """Return the one annotator."""
        return {"verdict": self._annotate}

    async def _annotate(self, reply: PromptReply, ask: Ask) -> Verdict:
        """Return the verdict by comparison of typed claims, or by judges of free text."""
        context: OneShotContext = reply.prompt.context
        if context.expected and self.answer_format == "typed":
            return typed_verdict(reply.text or "", context.expected)
        if not self.judges:
            return Verdict(None, _TEXTS["without_judges"])
        if not (reply.text or "").strip():
            return Verdict("unexpected", "the reply is empty", False)
        # An answer that invents is a hallucination even where it holds the expected value: the protocol scores how far
        # a model can be trusted to read a sample, and a reader cannot tell the true half from the invented one.
        invents, reasons, calls = await self._ask("invents", reply, ask)
        why = f"invented, say the judges: {reasons}"
        if invents is not False:
            return Verdict("hallucinated" if invents else None, why, calls=calls)
        meets, reasons, more = await self._ask("meets", reply, ask)
        becomes = {True: "expected", False: "unexpected", None: None}[meets]
        why += f"; expected, say the judges: {reasons}"
        return Verdict(becomes, why, meets, calls=calls + more)

    async def _ask(self, name: str, reply: PromptReply, ask: Ask) -> tuple[bool | None, str, tuple[str, ...]]:
        """Ask every judge one yes-or-no question; return the majority, the reasons and the calls."""
        context: OneShotContext = reply.prompt.context
        question, answer, csv = context.question.text, reply.text or "", context.sample.csv
        requirement = _requirement(context)
        values = {"csv": csv, "question": question, "answer": answer, "requirement": requirement}
        template = _TEXTS["rules"] + _TEXTS[name] + _TEXTS["fenced"]

        def request(judge: JudgeSpec) -> ModelRequest:
            nonce = fence_code(f"{csv}\n{question}", answer, judge.seed)
            return judge.request((Message("user", fill(template, values | {"nonce": nonce})),))

        from toolkit.hallucination.votes import majority_vote

        return await majority_vote([judge.of_run(reply.repeat) for judge in self.judges], request, ask)

    def measure_quality(self, item_annotations: TestItemAnnotations) -> list[Measurement]:
        """Return as measurements of 0 or 1 the verdict of one experiment, and whether it is unreadable."""
        verdict = _stored_verdict(item_annotations)
        reason = None if verdict.verdict else verdict.why
        values = {name: None if reason else float(verdict.verdict == name) for name in VERDICTS}
        judged = any(item_annotations.annotations.get("verdict", ()))
        values["unreadable"] = float(verdict.unreadable is not None) if judged else None
        return [Measurement(name, value, "experiments", reason) for name, value in values.items()]

    def result_types(self) -> tuple[ResultType, ...]:
        """Return score and raw score of every method, and the means of each prompt and document."""
        return tuple(ResultType(result.name, UNIT) for result in self.aggregate_measurements(()))

    def aggregate_measurements(self, measured_items: Sequence[MeasuredTestItem]) -> list[Result]:
        """Return the results of one model; a method with a missing experiment has no score, and says so."""
        one_model(measured_items)
        rows = [
            {
                **_method(item.item, item.model),
                "repeat": item.repeat,
                "verdict": next((name for name in VERDICTS if item.value(name) == 1), None),
                "unreadable": "yes" if item.value("unreadable") else None,
            }
            for item in measured_items
        ]
        frame = pd.DataFrame(rows, columns=[*KEYS, "repeat", "verdict", "unreadable"])
        scored = score_methods(frame, self.weights, self.confidence)
        by_name = {method.method: method for method in scored}
        methods = []
        for item in self._items:
            # A method without planned experiments is in the results too.
            unplanned = MethodScore(0, 0, 0, 0, score=None, **_method(item, ""))
            methods.append(by_name.get(item.item_id, unplanned))
        results: list[Result] = [
            estimate for method in methods for estimate in method_estimates(method, self.confidence)
        ]
        for condition, kind in product(self.texts.conditions, ("score", "raw")):
            alike = [method for method in scored if method.method == f"{condition}/{method.question}"]
            results.append(overall(f"mean {kind}, {condition}", alike, kind, self.confidence))
        for condition in self.texts.conditions if self.answer_format == "typed" else ():
            items = [item for item in measured_items if item.item.item_id.startswith(f"{condition}/")]
            results.append(mean_result(f"unreadable, {condition}", items, "unreadable", "share", (0, 1)))
        return results


def _form(expected: Expected) -> str:
    """Return what a question adds about the form of a typed answer: its columns, its choices, and an example."""
    columns = ", ".join(name for name in expected.table.cells if name not in ANSWERS)
    words = ", ".join(expected.answer.choices)
    choice = fill(_TEXTS["choice"], {"choices": words}) if words else ""
    first = "several" if expected.answer.claims else "first"
    return fill(_TEXTS["typed"] + _TEXTS[first], {"columns": columns, "choice": choice})


def _requirement(context: OneShotContext) -> str:
    """Return what a reply must do, or the expected answer, as a sentence for a judge."""
    expected = context.expected
    if expected is None:
        return str(context.question.requirement)
    answer, value, sentences = expected.answer, expected.value, _TEXTS["requirements"]
    if not answer.known:
        return str(sentences["unknown"])
    if answer.claims:
        required = (
            f"{claim.measure} {claim.column or 'of rows'} where {claim.filter or 'all'} is "
            f"{readable(claim.of(expected.table))}"
            for claim in answer.claims
        )
        return f"{sentences['claims']} {'; '.join(required)}"
    if isinstance(value, list):
        return f"{sentences['set']} {', '.join(dict.fromkeys(map(readable, value)))}"
    if isinstance(value, Decimal):
        value = value if answer.measure is None else value / expected.scale
        number = int(value) if value % 1 == 0 else float(value)
        within = f" (within {answer.tolerance:g})" if answer.tolerance else ""
        return f"{sentences['number']} {number}{within}"
    return f"{sentences['exact']} {readable(value)}"


def _samples(
    samples: Sequence[str | Path] | None, questions: Sequence[Question], folder: Path
) -> dict[str, Sample]:
    """Return the samples that are asked about, by the names that questions give them."""
    named = dict.fromkeys(question.sample for question in questions)
    if samples is None:
        return {name: load_sample(name, folder) for name in named}
    loaded: dict[str, Sample] = {}
    for source in samples:
        sample = load_sample(source, folder)
        names = [sample.name, str(source)]
        if not named.keys() & names:
            raise InputError(
                f"sample {sample.name!r} has no question; name a file with one under [options] questions "
                "(toolkit/traffic/questions.toml is an example), or take the sample out"
            )
        loaded |= {name: sample for name in names if name in named}
    return loaded

"""A model that asks nobody: the same request always gets the same reply, for tests and dry runs.

With a planted truth, which is written in the study file, what a study finds can be compared with it: a model's reply
carries its quality in words; a judge reads it there and scores it with its own severity and noise.
"""

import inspect
import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

from toolkit.errors import ModelError, ToolkitError
from toolkit.files.digests import digest
from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec, model_spec
from toolkit.models.tokens import count_tokens
from toolkit.models.usage import estimated_usage
from toolkit.words import DIMENSIONS, LENGTH_BINS, SCALE

Answer = str | ModelReply
Script = Callable[[ModelRequest], Answer | Awaitable[Answer]]
Question = tuple[tuple[str, Sequence[str]], Sequence[Any], Sequence[Any]]
"""Cluster and options of a question, its right answers, and wrong ones."""
BASE_SD = 0.35  # of how hard bases are, the same for every model and length
OWN_SD = 0.25  # of a reply about what its model, base and length make of it
JUDGE_SD = 0.3  # of one judge's score of one dimension, on a scale as long as 0-5
SHARED = (0.3, 0.2)
"""Shares of what makes a question hard: what its cluster has in common, and what the question has for all models."""
TIE = 0.1  # replies that seem less apart to a judge are equally good
_SEGMENT = re.compile(r"^Segment (\d+) of (\d+) of the reply:$", re.MULTILINE)
_TOLD = re.compile(r"case ([0-9a-f]{12}), planted quality (-?\d+\.\d+)")


class ScriptedModel:
    """A model whose replies are decided by a function, by a list of texts, or by the request alone."""

    def __init__(
        self,
        script: Script | Sequence[str] | None = None,
        *,
        spec: ModelSpec | None = None,
        question: Callable[[str], Question | None] | None = None,
    ) -> None:
        self._script, self._question = script, question
        self._spec = spec or model_spec("scripted")

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Return the scripted reply; what goes wrong in a script is a reply that failed, with its reason."""
        try:
            answer = self._answer(request)
            if inspect.isawaitable(answer):
                answer = await answer
        except ToolkitError:
            raise
        except Exception as error:  # a StopIteration, too, which no coroutine can let out
            raise ModelError(f"{type(error).__name__}: {error}", reason="script_failed") from error
        if isinstance(answer, ModelReply):
            return answer
        return ModelReply(
            text=answer,
            finish_reason="stop",
            usage=estimated_usage(self._spec, request, answer),
            model=self._spec.model,
            raw={"scripted": answer},
        )

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _answer(self, request: ModelRequest) -> Answer | Awaitable[Answer]:
        if callable(self._script):
            return self._script(request)
        rng = random.Random(request.identity())
        if self._script:
            return self._script[rng.randrange(len(self._script))]
        schema = request.response_schema
        example = None if schema is None else example_of(json.loads(schema), rng)
        if self._spec.planted:
            truth, text = dict(self._spec.planted), request.messages[-1].content
            truth["added"] = dict.fromkeys(self._spec.around, 0.0) | dict(truth.get("added") or ())
            question = self._question(text) if self._question and "accuracy" in truth else None
            return planted_answer(truth, request, example, question)
        if example is not None:
            return json.dumps(example)
        return f"Scripted reply {request.identity()[:12]}."


def example_of(schema: Mapping[str, Any], rng: random.Random) -> Any:
    """Return a value that follows a JSON schema, the same for the same dice."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {name: example_of(part, rng) for name, part in schema.get("properties", {}).items()}
        case "array":
            low = schema.get("minItems", 1)
            size = rng.randint(low, max(low, schema.get("maxItems", low)))
            return [example_of(schema.get("items", {}), rng) for _ in range(size)]
        case "integer":
            low = schema.get("minimum", 0)
            return rng.randint(low, schema.get("maximum", low + 5))
        case "number":
            low = schema.get("minimum", 0.0)
            return round(rng.uniform(low, schema.get("maximum", low + 5.0)), 1)
        case "boolean":
            return rng.random() < 0.5
        case _:
            return f"scripted {rng.randrange(10_000)}"[: schema.get("maxLength")]


def planted_answer(
    truth: Mapping[str, Any], request: ModelRequest, example: Any, question: Question | None = None
) -> str:
    """Return the reply of a model, or the scores of a judge: ``example``, which follows its schema, with scores set.

    With a ``question`` of a test with a key it is an answer to that. ``truth`` is a `toolkit.models.entries.Planted`.
    For the share of requests that fail a ``ModelError`` is raised.
    """
    if example is not None:
        return _planted_judgement(truth, request, example)
    text = request.messages[-1].content
    tokens = count_tokens(text)
    length_bin = min(LENGTH_BINS, key=lambda name: abs(tokens - sum(LENGTH_BINS[name]) / 2))
    marks: dict[str, float] = dict(truth.get("added", ()))
    lines = [line for line in text.splitlines() if not any(mark in line for mark in marks)]
    opening = next((line for line in lines if line.strip()), "")
    # What is drawn depends on who is asked, the repeat, and the opening and length of the prompt: a fact that is worded
    # otherwise changes no truth.
    sent = "\n".join(message.content for message in request.messages)
    levels = [mark for mark in marks if mark in sent]
    case, rng = _drawn(truth, request, f"{opening} {length_bin}{''.join(levels)}")
    if question:
        return _planted_choice(truth["accuracy"], question, request)
    added = {"S": 0.0, "M": truth["m_minus_s"], "L": truth["m_minus_s"] + truth["l_minus_m"]}[length_bin]
    added += sum(marks[mark] for mark in levels)
    level = truth["level"] + added + random.Random(opening).gauss(0, BASE_SD) + rng.gauss(0, OWN_SD)
    facts = [line for line in text.splitlines() if line.startswith("- ")]
    chosen = rng.sample(facts, min(len(facts), rng.randint(2, 5)))
    listing = "\n".join(f"{number}. To be dealt with: {line[2:]}" for number, line in enumerate(chosen, 1))
    return f"No language model wrote this reply (case {case}, planted quality {level:.2f}).\n{listing}"


def _drawn(truth: Mapping[str, Any], request: ModelRequest, subject: str) -> tuple[str, random.Random]:
    """Return the name of what a model makes of a subject, and the numbers drawn for it; for some, it fails."""
    case = digest(subject, request.model, request.endpoint, request.repeat)[:12]
    rng = random.Random(case)
    if rng.random() < truth["failures"]:
        raise ModelError("planted: this reply is one of those that fail", reason="planted_failure")
    return case, rng


def _planted_judgement(truth: Mapping[str, Any], request: ModelRequest, example: Any) -> str:
    """Return what a judge says of the reply that it is shown, in whatever turn, as the schema of its answer asks."""
    text = "\n".join(message.content for message in request.messages)
    replies = list(_TOLD.finditer(text))
    if example.keys() == {"reason", "better"}:
        return _planted_vote(truth, request, replies, example)
    properties = json.loads(request.response_schema or "{}")["properties"]
    steps = {
        name: [step for step in part["enum"] if step is not None]
        for name, part in properties.items()
        if "number" in part.get("type", "")  # of a dimension that may be null, too
    }
    findings = properties.get("findings")
    if not (steps or findings):
        return json.dumps(example)
    if not replies:
        raise ModelError("planted: no quality is planted in this reply", reason="no_planted_quality")
    _, rng = _drawn(truth, request, replies[0][1])
    level = float(replies[0][2]) - truth["severity"]
    scale = next(iter(steps.values()), SCALE)  # its lowest score is left to replies that earn none
    noise, allowed = JUDGE_SD * (scale[-1] - scale[0]) / 5, scale[1:] if len(scale) > 2 else scale
    names = DIMENSIONS if steps.keys() <= {*DIMENSIONS} else steps
    raw = {name: level + rng.gauss(0, noise) for name in names}
    if findings:  # a major one takes a point of five; those of a reply are dealt to its segments
        number, count = map(int, _SEGMENT.findall(text)[-1])
        local = findings["items"]["properties"]["dimension"]["enum"]
        lacking = [name for name in local for _ in range(round(SCALE[1] - raw.get(name, level)))]
        dealt = lacking[number - 1 :: count]
        major = [{"what": "Scripted.", "dimension": name, "severity": "major"} for name in dealt]
        return json.dumps({"findings": major[: findings["maxItems"]]})
    scores = {name: min(allowed, key=lambda step: abs(step - score)) for name, score in raw.items()}
    low = min(scores, key=scores.__getitem__).replace("_", " ")
    return json.dumps({name: scores.get(name, f"Scripted: weakest in {low}.") for name in example})


def _planted_choice(accuracy: float, question: Question, request: ModelRequest) -> str:
    """Return an answer that is right by the key of a question, or a wrong one: right with the planted probability.

    What makes a question hard is normal and shared in part, within clusters and between models, as in real sets.
    """
    subject, right, wrong = question
    identity = (request.model, request.endpoint, request.repeat)
    draws = [random.Random(repr(part)).gauss() for part in (subject[0], subject, (subject, identity))]
    weights = (*SHARED, 1 - sum(SHARED))
    hardness = sum(weight**0.5 * draw for weight, draw in zip(weights, draws, strict=True))
    answers = right if NormalDist().cdf(hardness) < accuracy or not wrong else wrong
    return json.dumps({"answer": random.Random(repr((subject, identity))).choice(answers)})


def _planted_vote(
    truth: Mapping[str, Any], request: ModelRequest, replies: Sequence[re.Match[str]], example: Any
) -> str:
    """Return the vote of a judge on two replies, whose qualities it reads with noise; the first has its bonus."""
    cases = [match[1] for match in replies]
    rng = random.Random(json.dumps([*cases, request.model, request.endpoint, request.repeat]))
    if rng.random() < truth["failures"]:
        raise ModelError("planted: this vote is one of those that fail", reason="planted_failure")
    if len(replies) != 2:
        return json.dumps(example)
    first, second = (float(match[2]) for match in replies)
    difference = first + truth.get("first_bonus", 0.0) - second + rng.gauss(0, JUDGE_SD)
    better = "tie" if abs(difference) < TIE else "A" if difference > 0 else "B"
    return json.dumps({**example, "better": better})

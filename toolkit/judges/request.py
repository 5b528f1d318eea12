"""The request to a judge: the rubric's text around a fenced task and reply, the schema of the answer, one repair."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from toolkit.errors import ModelError
from toolkit.files.digests import sha256_hex
from toolkit.judges.focus import focus_lines
from toolkit.judges.parse import Unreadable, reason_field
from toolkit.judges.rubric import Rubric, fill, shipped_words
from toolkit.models.base import Answer, Ask, Message, ModelReply, ModelRequest

Focus = Literal["off", "listed", "per_sentence"]
FSP_DISABLED = "(none: FSP disabled)"
"""The text under FOCUS SENTENCES when focus sentence prompting is off."""
TOP_LOGPROBS = 8
"""Number of alternatives of each token: six digits and two more; a longer scale has more. The ledger stores some 60 kB
a reply; OpenAI's most, 20, would be 150."""
REASONS_LENGTH = 160
"""Longest reasons of a structured judge, in characters: output costs time and money."""
RUN_STRIDE = 1000
"""Distance of a judge's repeat index between repeats of a run, whatever the number of judges: two runs with the same
reply are judged twice."""
AGAIN_STRIDE = 10
"""Distance of the index between repeated judgements of one reply: above the number of judges, with room for 50."""
DAY_STRIDE = 10_000_000
"""Distance of the index between days on which the same is asked anew (`toolkit.probes.drift`): above 1,000 repeats of a
run."""
REPAIR = (
    "Your reply cannot be read: {reason}. Answer once more, about the same material, in exactly the form that was "
    "asked for and with nothing before or after it. Be brief."
)
"""The message about an unreadable reply; the reply itself is the turn before it."""
NOT_REPAIRED = ("refusal", "filtered")  # a model that refused is not asked again
UNPARSED = "parser failed"
UNANSWERED = "unanswered"
"""Start of the reason of a judgement whose requests did not all get a reply: asking again may help."""


@dataclass(frozen=True)
class Manner:
    """How all judges of an ensemble are asked, the same for S, M and L (DESIGN decision 8)."""

    focus: Focus = "off"
    focus_sentences: int = 5
    length_normalization: bool = False
    shuffle: bool = False
    repair: bool = True
    expected: bool = False
    repeats: int = 1
    related: Literal["mark", "exclude"] = "mark"
    reference: bool = False

    def sentence(self) -> str:
        """Return the sentence of notes and methods on a manner other than the default; empty for the default."""
        descriptions = {
            "off": "",
            "listed": f"Focus sentence prompting: {self.focus_sentences} sentences of each reply named to the judges.",
            "per_sentence": "Focus sentence prompting: one request for each segment of a reply.",
        }
        again = f"Each judge judged {self.repeats} times." if self.repeats > 1 else ""
        shown = "The judges saw the reference answer of each base." if self.reference else ""
        return " ".join(words for words in (descriptions[self.focus], again, shown) if words)


PLAIN = Manner()  # one request, no focus sentences, one repair


@dataclass(frozen=True)
class JudgeSpec:
    """One judge of the ensemble: its model and its parameters."""

    role: str
    name: str
    provider: str
    model: str
    endpoint: str | None = None
    temperature: float | None = 0.1
    max_tokens: int = 1000
    structured: bool = False
    seed: int | None = None
    seed_supported: bool = False
    repeat: int = 0
    specialization: str = ""
    logprobs: bool = False
    options: str | None = None
    related: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    """Dimensions on which it counts twice in the mean over judges."""

    def request(self, messages: tuple[Message, ...], schema: str | None = None) -> ModelRequest:
        """Return the request that sends messages to this judge; the schema is left out where its model takes none."""
        return ModelRequest(
            provider=self.provider,
            model=self.model,
            messages=messages,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self.seed + self.repeat if self.seed_supported and self.seed is not None else None,
            response_schema=schema if self.structured else None,
            endpoint=self.endpoint,
            repeat=self.repeat,
            options=self.options,
        )

    def worded(self, words: Mapping[str, Any], values: Mapping[str, str], schema: object) -> ModelRequest:
        """Return the request that the instructions and the template of a file of words make with some values."""
        parts = {"system": "instructions", "user": "template"}.items()
        messages = tuple(Message(role, fill(words[part], values)) for role, part in parts)
        return self.request(messages, compact_json(schema))

    def of_run(self, repeat: int, again: int = 0) -> JudgeSpec:
        """Return the judge for a repeat of a run and a repeated judgement: its repeat index makes the call unique."""
        return replace(self, repeat=self.repeat + AGAIN_STRIDE * again + RUN_STRIDE * repeat)


def judge_request(
    judge: JudgeSpec, rubric: Rubric, task: str, response: str, manner: Manner = PLAIN, reference: str = ""
) -> ModelRequest:
    """Return the request that asks one judge to score one reply."""
    if manner.shuffle:
        rubric = shuffled(rubric, judge, task)
    listed = manner.focus == "listed"
    nonce = fence_code(shown_before(rubric, manner, task, reference), response, judge.seed)
    key_sentences = focus_lines(response, manner.focus_sentences) if listed else FSP_DISABLED
    static = rubric.static(whole=manner.expected)
    values = static | {
        "focus": fill(rubric.focus, {"nonce": nonce, "key_sentences": key_sentences}) if listed else "",
        "key_sentences": key_sentences,
        "nonce": nonce,
        "response_content": response,
        "task": task,
        "reference": reference_section(manner, reference, nonce),
    }
    # Before all else where a rubric names no place, so that the question stays the last that a judge reads.
    template = rubric.template if rubric.shows_reference else "{reference}" + rubric.template
    messages = [Message("user", fill(template, values))]
    if rubric.instructions:
        messages.insert(0, Message("system", fill(rubric.instructions, static)))
    request = judge.request(tuple(messages), answer_schema(rubric, integers=manner.expected))
    if not (manner.expected and judge.logprobs):
        return request
    return replace(request, top_logprobs=max(TOP_LOGPROBS, int(rubric.scale[1] - rubric.scale[0]) + 3))


def reference_section(manner: Manner, reference: str, nonce: str) -> str:
    """Return the fenced reference answer with what it is for; empty where judges do not see it."""
    words = shipped_words("reference")["section"] if manner.reference else ""
    return fill(words, {"nonce": nonce, "reference": reference})


def shown_before(rubric: Rubric, manner: Manner, task: str, reference: str) -> str:
    """Return what a judge is shown beside the reply: the code of the fence is a part of none of it."""
    shown = task if rubric.shows_task else ""
    return f"{shown}\n{reference}" if manner.reference else shown


def shuffled(rubric: Rubric, judge: JudgeSpec, task: str) -> Rubric:
    """Return the rubric with its dimensions in an order drawn from seed, repeat and task."""
    # It differs between tasks, so that no dimension profits from its position. It does not differ between replies: a
    # reply and its altered version (`toolkit.probes.alterations`) are judged in the same order.
    order = list(rubric.dimensions)
    random.Random(json.dumps([judge.seed, judge.repeat, task])).shuffle(order)
    return rubric.model_copy(update={"dimensions": tuple(order)})


def fence_code(task: str, response: str, seed: int | None) -> str:
    """Return the code of the fence: the same for the same material, and never part of it."""
    # A hash and not a random number, so that a resumed study sends the same call. A reply cannot contain its own hash
    # on purpose; where it does by chance, the next code is taken. JSON keeps the parts apart.
    material = (task + "\n" + response).lower()
    codes = (_candidate(task, response, seed, number) for number in itertools.count())
    return next(code for code in codes if code not in material)


def _candidate(task: str, response: str, seed: int | None, number: int) -> str:
    text = json.dumps([task, response, seed, number])
    return sha256_hex(text)[:16]


def answer_schema(rubric: Rubric, *, integers: bool = False) -> str:
    """Return the JSON schema of a judge's answer as JSON text, reasons first where the rubric asks for them."""
    # Scores are an enumeration: llama.cpp does not enforce the bounds of `number`. A judge writes the keys in the order
    # of the schema.
    low, high = rubric.scale
    steps = tuple(map(float, range(int(low), int(high) + 1))) if integers else rubric.steps
    allowed: list[float | None] = [int(step) if step.is_integer() else step for step in steps]
    score = {"type": "number", "enum": allowed}
    reason = {"type": "string", "maxLength": REASONS_LENGTH}
    properties: dict[str, object] = {"reasons": reason} if rubric.asks_reasons is True else {}
    for name in rubric.names:
        if rubric.asks_reasons == "each":
            properties[reason_field(name)] = reason
        optional = {"type": ["number", "null"], "enum": [*allowed, None]}
        properties[name] = optional if name in rubric.scheme.optional else score
    return compact_json(object_schema(properties))


def object_schema(properties: dict[str, object]) -> dict[str, object]:
    """Return the schema of an object with exactly these properties."""
    names = list(properties)
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def compact_json(schema: object) -> str:
    """Return a schema as JSON text, as it is part of a call's identity."""
    return json.dumps(schema, separators=(",", ":"))


T = TypeVar("T")


async def all_of(looks: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all; an error is raised when what the others have paid for has come."""
    results = []
    for look in await asyncio.gather(*looks, return_exceptions=True):
        if isinstance(look, BaseException):
            raise look
        results.append(look)
    return results


@dataclass(frozen=True)
class JudgeReply(Generic[T]):
    """The readable reply of a judge, or why there is none; ``interrupted``: a request is still to be sent."""

    read: T | None
    reason: str | None
    answers: tuple[Answer, ...]
    call_id: str
    interrupted: bool = False


async def ask_and_read(
    request: ModelRequest, read: Callable[[str, str], T], ask: Ask, repair: bool = True
) -> JudgeReply[T]:
    """Ask a judge and read the text and the finish reason of its reply; ask once more where it is `Unreadable`."""
    call_id, answers, first = request.identity(), tuple[Answer, ...](), ""
    while True:
        try:
            answer = await ask(request)
        except ModelError as error:
            reason = f"{error.reason}: {error}"
            reason = f"{UNANSWERED}: the repair: {reason}; first: {first}" if first else reason
            return JudgeReply(None, reason, answers, call_id, error.is_pending)
        answers += (answer,)
        try:
            return JudgeReply(read(answer.reply.text, answer.reply.finish_reason), None, answers, call_id)
        except Unreadable as error:
            reason = f"{error}; first: {first}" if first else str(error)
        except Exception as error:
            # One of ours, over a reply that is paid for: it is saved, and a replay reads it again.
            return JudgeReply(None, f"{UNPARSED}: {type(error).__name__}: {error}", answers, call_id)
        if first or not repair or reason.startswith(NOT_REPAIRED):
            return JudgeReply(None, reason, answers, call_id)
        request, first = repair_request(request, answer.reply, reason), reason


def repair_request(request: ModelRequest, reply: ModelReply, reason: str) -> ModelRequest:
    """Return the request that shows a judge its unreadable reply and what is wrong with it."""
    # Providers refuse an empty turn of the assistant.
    reply_turn = (Message("assistant", reply.text),) if reply.text.strip() else ()
    message = Message("user", REPAIR.format(reason=reason))
    return replace(request, messages=(*request.messages, *reply_turn, message))

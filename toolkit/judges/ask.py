"""The request a judge is sent: the rubric's words around a fenced task and reply, and the answer's schema."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from dataclasses import dataclass, replace
from typing import Final

from toolkit.judges.focus import focus_lines
from toolkit.judges.manner import PLAIN, Manner
from toolkit.judges.rubric import Rubric, fill
from toolkit.models.base import Message, ModelRequest

FSP_DISABLED: Final = "(none: FSP disabled)"
"""What stands under FOCUS SENTENCES when focus sentence prompting is off."""
TOP_LOGPROBS: Final = 8
"""How many alternatives of each token are asked for: six digits and room for two more. All are kept in the ledger,
some 60 kB a reply; the most that OpenAI gives, 20, would be 150."""
REASONS_LENGTH: Final = 160
"""Longest reasons text a structured judge may write, in characters: output is what costs time and money."""


@dataclass(frozen=True)
class JudgeSpec:
    """One judge of the ensemble: which model is asked, and how."""

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
    related: tuple[str, ...] = ()


def judge_request(
    judge: JudgeSpec, rubric: Rubric, *, task: str, response: str, manner: Manner = PLAIN
) -> ModelRequest:
    """Return the request that asks one judge to score one reply.

    Examples
    --------
    >>> from toolkit.judges.rubric import load_rubric
    >>> judge = JudgeSpec("primary", "demo", "scripted", "echo")
    >>> request = judge_request(judge, load_rubric("default"), task="Name the port.", response="Port 22.")
    >>> [message.role for message in request.messages], "Port 22." in request.messages[1].content
    (['system', 'user'], True)
    """
    if manner.shuffle:
        rubric = shuffled(rubric, judge, task)
    listed = manner.focus == "listed"
    nonce = fence_code(task if rubric.shows_task else "", response, judge.seed)
    key_sentences = focus_lines(response, manner.focus_sentences) if listed else FSP_DISABLED
    static = {
        "criteria": "\n".join(dimension.line() for dimension in rubric.dimensions),
        "step": "1" if manner.expected else "0.5",
    }
    values = {
        **static,
        "focus": fill(rubric.focus, {"nonce": nonce, "key_sentences": key_sentences}) if listed else "",
        "key_sentences": key_sentences,
        "nonce": nonce,
        "response_content": response,
        "task": task,
    }
    messages = [Message("user", fill(rubric.template, values))]
    if rubric.instructions:
        messages.insert(0, Message("system", fill(rubric.instructions, static)))
    return ModelRequest(
        provider=judge.provider,
        model=judge.model,
        messages=tuple(messages),
        temperature=judge.temperature,
        max_tokens=judge.max_tokens,
        seed=judge.seed + judge.repeat if judge.seed_supported and judge.seed is not None else None,
        response_schema=answer_schema(rubric, whole=manner.expected) if judge.structured else None,
        endpoint=judge.endpoint,
        repeat=judge.repeat,
        top_logprobs=TOP_LOGPROBS if manner.expected and judge.logprobs else None,
    )


def shuffled(rubric: Rubric, judge: JudgeSpec, task: str) -> Rubric:
    """Return the rubric with its dimensions in an order that the seed, the task and the repeat decide.

    Which dimension is asked first then differs from task to task, so that its place cannot bias one of them; not from
    reply to reply, so that a reply and its altered twin (`toolkit.judges.probes`) meet the same order.
    """
    order = list(rubric.dimensions)
    random.Random(json.dumps([judge.seed, judge.repeat, task])).shuffle(order)
    return replace(rubric, dimensions=tuple(order))


def fence_code(task: str, response: str, seed: int | None) -> str:
    """Return the code of the fence: the same for the same material, and never part of it.

    The code is a hash and not a random number, so that the call keeps its identity when a study is resumed.
    To close the fence, a reply would have to hold its own hash; one that does by chance gets the next code.

    Examples
    --------
    >>> fence_code("task", "reply", 1) == fence_code("task", "reply", 1)
    True
    """
    material = (task + "\n" + response).lower()
    return next(
        code for n in itertools.count() if (code := _candidate(task, response, seed, n)) not in material
    )


def _candidate(task: str, response: str, seed: int | None, n: int) -> str:
    # JSON keeps the parts apart: ("ab", "c") and ("a", "bc") are different material.
    text = json.dumps([task, response, seed, n])
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def answer_schema(rubric: Rubric, *, whole: bool = False) -> str:
    """Return the JSON schema of a judge's answer as JSON text, reasons first where the rubric asks for them.

    Scores are an enumeration in half steps: in llama.cpp ``number`` with bounds lets 8 and 12 through, as we
    measured, while an enumeration holds. The order of the keys is the order in which the judge writes them.
    """
    per_point = 1 if whole else 2
    low, high = (int(per_point * end) for end in rubric.scale)
    steps = [step / per_point for step in range(low, high + 1)]
    score = {"type": "number", "enum": [int(step) if step.is_integer() else step for step in steps]}
    properties: dict[str, object] = dict.fromkeys(rubric.names, score)
    if rubric.asks_reasons:
        properties = {"reasons": {"type": "string", "maxLength": REASONS_LENGTH}, **properties}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return json.dumps(schema, separators=(",", ":"))

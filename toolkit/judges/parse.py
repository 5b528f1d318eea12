"""What a judge said, read strictly: the scores of one JSON object, or the reason why there are none."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from toolkit.judges.rubric import Rubric

REASONS: Final = (
    "empty",
    "refusal",
    "filtered",
    "truncated",
    "prose",
    "not an object",
    "malformed",
    "too deep",
    "two objects",
    "trailing text",
    "duplicate key",
    "nested",
    "extra key",
    "missing dimension",
    "not a number",
    "nan",
    "out of scale",
)
"""The stable words a reason starts with; what follows a colon is detail."""
REASON_KEYS: Final = ("reasons", "reason")
FENCE: Final = "```"
THINK: Final = ("<think>", "</think>")
_MARKS: Final = "\ufeff\u200b"


@dataclass(frozen=True)
class Parsed:
    """One judge reply as read: either ``scores`` or a ``reason``, never both."""

    scores: Mapping[str, float] | None
    reason: str | None = None
    reasons: str | None = None


class Unreadable(Exception):
    """Raised while a reply is read; becomes the reason why there is nothing in it, and leaves no reader."""

    def __init__(self, word: str, detail: str = "") -> None:
        super().__init__(f"{word}: {detail}" if detail else word)


def parse_judgement(text: str, rubric: Rubric, finish_reason: str = "stop") -> Parsed:
    """Read one judge reply: exactly one JSON object with every dimension on the scale, or else a reason.

    Nothing is repaired and nothing is guessed: a number fished out of prose would measure the parser. What changes
    nothing about which object is meant is taken off: one code fence around the whole reply, a byte order mark, and
    the thinking aloud that some models put before their reply between ``<think>`` and ``</think>``. A complete
    object counts even when the provider says that it stopped at the token limit.

    Examples
    --------
    >>> from toolkit.judges.rubric import load_rubric
    >>> parse_judgement("I would give it 4 of 5.", load_rubric("default")).reason
    "prose: 'I would give it 4 of 5.'"
    """
    try:
        answer = one_object(text, finish_reason)
        reasons = _reasons(answer) if rubric.asks_reasons else None
        return Parsed(_scores(answer, rubric), reasons=reasons)
    except Unreadable as error:
        return Parsed(None, reason=str(error))


def one_object(text: str, finish_reason: str) -> dict[str, Any]:
    """Return the one JSON object that a reply is; raises ``Unreadable`` where it is anything else."""
    if finish_reason == "refusal":
        raise Unreadable("refusal", quoted(text))
    if finish_reason == "filter":
        raise Unreadable("filtered", quoted(text))
    body = text.strip().strip(_MARKS).strip()
    if body.startswith(THINK[0]) and THINK[1] in body:
        body = body.partition(THINK[1])[2].strip()
    if body.startswith(FENCE) and body.endswith(FENCE) and len(body) >= 2 * len(FENCE):
        body = body[len(FENCE) : -len(FENCE)].strip()
        body = body[4:].strip() if body[:4].lower() == "json" else body
    if not body:
        raise Unreadable("truncated" if finish_reason == "length" else "empty")
    try:
        value, end = _DECODER.raw_decode(body)
    except json.JSONDecodeError as error:
        raise _not_json(body, error, finish_reason) from error
    except RecursionError as error:
        raise Unreadable("too deep") from error
    if rest := body[end:].strip():
        # A reply that starts with a bare number or word is prose that happens to begin like JSON.
        if not isinstance(value, dict):
            raise Unreadable("prose", quoted(body))
        raise Unreadable("two objects" if rest[0] == "{" else "trailing text", quoted(rest))
    if not isinstance(value, dict):
        raise Unreadable("not an object", quoted(body))
    return value


def _not_json(body: str, error: json.JSONDecodeError, finish_reason: str) -> Unreadable:
    # A decoder that ran out of text, inside a string or elsewhere, saw the beginning of something.
    ran_out = error.pos >= len(body) or error.msg.startswith("Unterminated string")
    if finish_reason == "length" or (body[0] in "{[" and ran_out):
        return Unreadable("truncated", quoted(body[-40:]))
    if body[0] not in "{[":
        return Unreadable("prose", quoted(body))
    return Unreadable("malformed", quoted(body[max(0, error.pos - 20) : error.pos + 20]))


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    answer = dict(pairs)
    if len(answer) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise Unreadable("duplicate key", quoted(counts.most_common(1)[0][0]))
    return answer


# Integers are read as floats: int() refuses more than 4,300 digits, float() takes them.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=float, parse_constant=float)


def _reasons(answer: dict[str, Any]) -> str | None:
    found = [answer.pop(key) for key in REASON_KEYS if isinstance(answer.get(key), str)]
    # A lone surrogate is legal in JSON and in no encoding, so the store could not keep it.
    return " ".join(found).encode("utf-8", "replace").decode("utf-8") or None


def _scores(answer: dict[str, Any], rubric: Rubric) -> dict[str, float]:
    for key, value in answer.items():
        if isinstance(value, dict | list):
            raise Unreadable("nested", quoted(key))
    if extra := [key for key in answer if key not in rubric.names]:
        raise Unreadable("extra key", quoted(", ".join(extra)))
    if missing := [name for name in rubric.names if name not in answer]:
        raise Unreadable("missing dimension", ", ".join(missing))
    return {name: _score(name, answer[name], rubric.scale) for name in rubric.names}


def _score(name: str, value: object, scale: tuple[float, float]) -> float:
    # Every JSON number is a float here, so true, false, null and text are told apart by type alone.
    if not isinstance(value, float):
        raise Unreadable("not a number", f"{name} is {quoted(json.dumps(value))}")
    if math.isnan(value):
        raise Unreadable("nan", name)
    if not scale[0] <= value <= scale[1]:
        raise Unreadable("out of scale", f"{name} is {value:g}, the scale is {scale[0]:g} to {scale[1]:g}")
    return value + 0.0  # -0.0 becomes 0.0


def quoted(text: str) -> str:
    """Return what was seen, short and on one line."""
    short = " ".join(text.split())
    return repr(short if len(short) <= 60 else short[:59] + "…")

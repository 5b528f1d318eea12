"""The requests of focus sentence prompting segment by segment: one shared beginning, one question at the end."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from typing import Any

from toolkit.judges.ask import JudgeSpec, answer_schema, fence_code, shuffled
from toolkit.judges.findings import MOST_FINDINGS, SEVERITY_WEIGHTS, findings_schema
from toolkit.judges.manner import Manner
from toolkit.judges.rubric import Rubric, fill
from toolkit.judges.segments import Segment, segments
from toolkit.models.base import Message, ModelRequest


def per_sentence_requests(
    judge: JudgeSpec, rubric: Rubric, manner: Manner, task: str, response: str
) -> tuple[ModelRequest, ...]:
    """Return the request about the whole reply, then one for each of its segments.

    All of them begin with the same messages, byte for byte, so a provider that caches prefixes reads task and reply
    once. A turn of the assistant stands between the material and the question: some chat templates refuse two turns
    of the user in a row, and in one message with the question the material could not end a cached prefix. A reply
    without a segment, an empty one for example, is scored on all dimensions in the one request about the whole.

    Examples
    --------
    >>> from toolkit.judges.rubric import load_rubric
    >>> judge = JudgeSpec("primary", "demo", "scripted", "echo")
    >>> requests = per_sentence_requests(judge, load_rubric("default"), Manner(), "Name it.", "SSH. Port 22.")
    >>> len(requests), len({request.messages[:3] for request in requests})
    (3, 1)
    """
    if manner.shuffle:
        rubric = shuffled(rubric, judge, task)
    pieces = segments(response)
    whole, local = whole_part(rubric, pieces), local_part(rubric)
    words = _words()
    nonce = fence_code(task if rubric.shows_task else "", response, judge.seed)
    fixed = {
        "nonce": nonce,
        "local": "\n".join(f"{d.name}: {words['faults'][d.name]} ({d.question})" for d in local.dimensions),
        "whole": "\n".join(dimension.line() for dimension in whole.dimensions),
        "names": ", ".join(whole.names),
        "any_local": "|".join(local.names),
        "any_severity": "|".join(SEVERITY_WEIGHTS),
        "most": str(MOST_FINDINGS),
    }
    shown = words["task"] + words["reply"] if rubric.shows_task else words["reply"]
    prefix = (
        Message("system", fill(words["rules"], fixed)),
        Message("user", fill(shown, {**fixed, "task": task, "reply": response}), cached=bool(pieces)),
        Message("assistant", fill(words["ready"], fixed)),
    )

    def request(question: str, schema: Callable[[], str], **values: str) -> ModelRequest:
        return ModelRequest(
            provider=judge.provider,
            model=judge.model,
            messages=(*prefix, Message("user", fill(words[question], {**fixed, **values}))),
            temperature=judge.temperature,
            max_tokens=judge.max_tokens,
            seed=judge.seed + judge.repeat if judge.seed_supported and judge.seed is not None else None,
            response_schema=schema() if judge.structured else None,
            endpoint=judge.endpoint,
            repeat=judge.repeat,
        )

    about_segments = (
        request(
            "ask_segment",
            partial(findings_schema, local.names),
            number=str(number),
            segments=str(len(pieces)),
            segment=piece.of(response),
        )
        for number, piece in enumerate(pieces, 1)
    )
    return (request("ask_whole", partial(answer_schema, whole)), *about_segments)


def whole_part(rubric: Rubric, pieces: Sequence[Segment]) -> Rubric:
    """Return the rubric of the request about the whole."""
    asked = tuple(d for d in rubric.dimensions if d.scope == "whole" or not pieces)
    return replace(rubric, dimensions=asked, asks_reasons=True)


def local_part(rubric: Rubric) -> Rubric:
    """Return the rubric with the dimensions that are looked for segment by segment."""
    return replace(rubric, dimensions=tuple(d for d in rubric.dimensions if d.scope == "local"))


@cache
def _words() -> dict[str, Any]:
    path = resources.files("toolkit.judges") / "data" / "per_sentence.toml"
    return tomllib.loads(path.read_text("utf-8"))

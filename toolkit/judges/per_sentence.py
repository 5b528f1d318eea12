"""Focus sentence prompting, segment by segment: every request shows the whole reply and asks about one segment.

After Domhan and Zhu (2025), arXiv:2505.01761: a judge that is asked about more text at once reports fewer of its
errors. Faults of segments decide the local dimensions; completeness and actionability are scored in one request about
the whole reply, so that omissions count. The *sum* of weights gives an error the same cost in a short and in a long
reply, but a judge that raises false alarms takes more from a long one; the sum *per 100 tokens* gives false alarms the
same cost in every reply, but an error in 900 tokens a quarter of what it costs in 225. Both are stored; the score uses
the sum unless the study sets ``length_normalization``.
"""

import json
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolkit.judges.parse import Parsed, Unreadable, check_keys, one_object, parse_judgement, quote, storable
from toolkit.judges.request import (
    REASONS_LENGTH,
    UNANSWERED,
    JudgeReply,
    JudgeSpec,
    Manner,
    all_of,
    answer_schema,
    ask_and_read,
    compact_json,
    fence_code,
    object_schema,
    reference_section,
    shown_before,
    shuffled,
)
from toolkit.judges.rubric import Rubric, fill, shipped_words
from toolkit.judges.segments import Segment, segments
from toolkit.models.base import Ask, Message, ModelRequest
from toolkit.words import SCALE

SEVERITY_WEIGHTS: Mapping[str, float] = {"minor": 1.0, "major": 5.0, "critical": 25.0}
"""Weight of one finding, after MQM (Freitag et al. 2021, TACL 9, 1460-1474); 25 is their weight for a passage that is
no translation at all, and GEMBA-MQM (Kocmi & Federmann 2023, WMT, 768-775) gives it to every critical error."""
ZERO_SCORE_WEIGHT = 25.0  # weight, or weight per 100 tokens, from which the score is the lowest
MOST_FINDINGS = 8  # most findings a judge may report of one segment
TOKENS_PER_SEGMENT = 20.0
"""Tokens (o200k_base) of one segment, on average: measured 26 to 29 in prose and 13 to 30 in Markdown documents."""
_KEYS = ("what", "dimension", "severity")


# --- requests -------------------------------------------------------------------------------------------------------


def per_sentence_requests(
    judge: JudgeSpec, rubric: Rubric, manner: Manner, task: str, response: str, reference: str = ""
) -> tuple[ModelRequest, ...]:
    """Return the request about the whole reply, then one for each of its segments."""
    # All requests begin with the same bytes, so that a provider that caches prefixes reads task and reply once. A turn
    # of the assistant separates material and question: some chat templates refuse two turns of the user in a row, and
    # material and question in one message could not be cached. A reply without a segment, for example an empty one, is
    # scored on all dimensions in the request about the whole.
    if manner.shuffle:
        rubric = shuffled(rubric, judge, task)
    pieces = segments(response)
    overall, local = _split_rubric(rubric, pieces)
    prompt_texts = shipped_words("per_sentence")
    faults = prompt_texts["faults"]
    shared_fields = rubric.static() | {
        "nonce": fence_code(shown_before(rubric, manner, task, reference), response, judge.seed),
        "local": "\n".join(
            f"{d.name}: " + (f"{faults[d.name]} ({d.question})" if d.name in faults else d.question)
            for d in local.dimensions
        ),
        "whole": overall.criteria,
        "names": ", ".join(overall.names),
        "any_local": "|".join(local.names),
        "any_severity": "|".join(SEVERITY_WEIGHTS),
        "most": str(MOST_FINDINGS),
    }
    material = prompt_texts["task"] + prompt_texts["reply"] if rubric.shows_task else prompt_texts["reply"]
    shown = {
        "task": task,
        "reply": response,
        "reference": reference_section(manner, reference, shared_fields["nonce"]),
    }
    prefix = (
        Message("system", fill(prompt_texts["rules"], shared_fields)),
        Message("user", fill("{reference}" + material, shared_fields | shown), cached=bool(pieces)),
        Message("assistant", fill(prompt_texts["ready"], shared_fields)),
    )

    def request(question: str, schema: str, **values: str) -> ModelRequest:
        message = Message("user", fill(prompt_texts[question], shared_fields | values))
        return judge.request((*prefix, message), schema)

    schema = findings_schema(local.names)
    segment_requests = (
        request("ask_segment", schema, number=str(n), segments=str(len(pieces)), segment=piece.of(response))
        for n, piece in enumerate(pieces, 1)
    )
    return (request("ask_whole", answer_schema(overall)), *segment_requests)


def findings_schema(dimensions: Sequence[str]) -> str:
    """Return the JSON schema of a list of findings as JSON text."""
    finding = object_schema(
        {
            "what": {"type": "string", "maxLength": REASONS_LENGTH},
            "dimension": {"type": "string", "enum": list(dimensions)},
            "severity": {"type": "string", "enum": list(SEVERITY_WEIGHTS)},
        }
    )
    findings = {"type": "array", "minItems": 0, "maxItems": MOST_FINDINGS, "items": finding}
    return compact_json(object_schema({"findings": findings}))


def estimate_segments(tokens: float) -> float:
    """Return the average number of segments of a reply of some length, for estimates before there is a reply."""
    return max(1.0, tokens / TOKENS_PER_SEGMENT) if tokens > 0 else 0.0


def _split_rubric(rubric: Rubric, pieces: Sequence[Segment]) -> tuple[Rubric, Rubric]:
    overall = tuple(d for d in rubric.dimensions if d.scope == "whole" or not pieces)
    local = tuple(d for d in rubric.dimensions if d.scope == "local")
    return (
        rubric.model_copy(update={"dimensions": overall, "asks_reasons": True}),
        rubric.model_copy(update={"dimensions": local}),
    )


# --- replies --------------------------------------------------------------------------------------------------------


def parse_findings(text: str, dimensions: Sequence[str], finish_reason: str = "stop") -> list[dict[str, Any]]:
    """Read exactly one JSON object with a list of findings; one unreadable finding makes the reply `Unreadable`."""
    answer = one_object(text, finish_reason)
    check_keys(answer, ("findings",))
    listed = answer["findings"]
    if not isinstance(listed, list):
        raise Unreadable("not a list", quote(json.dumps(listed)))
    if len(listed) > MOST_FINDINGS:
        raise Unreadable("too many findings", f"{len(listed)}, at most {MOST_FINDINGS} of one segment")
    findings = []
    for item in listed:
        if not isinstance(item, dict):
            raise Unreadable("not a finding", quote(json.dumps(item)))
        check_keys(item, _KEYS)
        for key in _KEYS:
            if not isinstance(item[key], str):
                raise Unreadable("not text", f"{key} is {quote(json.dumps(item[key]))}")
        dimension, severity = (item[key].strip().lower() for key in ("dimension", "severity"))
        if dimension not in dimensions:
            raise Unreadable("unknown dimension", quote(item["dimension"]))
        if severity not in SEVERITY_WEIGHTS:
            raise Unreadable("unknown severity", quote(item["severity"]))
        findings.append({"dimension": dimension, "severity": severity, "what": storable(item["what"])})
    return findings


def bounded_score(weight: float, scale: tuple[float, float] = SCALE) -> float:
    """Return the highest score for weight 0, falling linearly to the lowest at `ZERO_SCORE_WEIGHT`."""
    return scale[0] + (scale[1] - scale[0]) * max(0.0, 1.0 - weight / ZERO_SCORE_WEIGHT)


# --- one judge on one reply -----------------------------------------------------------------------------------------


async def judge_per_sentence(
    ask: Ask, judge: JudgeSpec, rubric: Rubric, task: str, response: str, manner: Manner, reference: str
) -> JudgeReply[Parsed]:
    """Have one judge read a whole reply and each of its segments."""
    # The requests about the whole and about the first segment are sent one after the other, then all others together:
    # a provider caches a prefix once a request with it is answered, and the two kinds have different schemas and so
    # different prefixes. Where one of the two replies cannot be used, the others are not paid for.
    from toolkit.models.tokens import count_tokens

    pieces = segments(response)
    overall, local = _split_rubric(rubric, pieces)
    first, *segment_requests = per_sentence_requests(judge, rubric, manner, task, response, reference)

    def ask_segment(request: ModelRequest) -> Awaitable[JudgeReply[list[dict[str, Any]]]]:
        return ask_and_read(
            request, lambda text, end: parse_findings(text, local.names, end), ask, manner.repair
        )

    overall_answer = await ask_and_read(
        first, lambda text, end: parse_judgement(text, overall, end), ask, manner.repair
    )
    segment_answers: list[JudgeReply[list[dict[str, Any]]]] = []
    if overall_answer.reason is None and segment_requests:
        segment_answers.append(await ask_segment(segment_requests[0]))
        if segment_answers[0].reason is None:
            segment_answers += await all_of(map(ask_segment, segment_requests[1:]))
    combined = replace(
        overall_answer,
        reason=_reason(overall_answer, segment_answers, len(pieces)),
        answers=(*overall_answer.answers, *(answer for reply in segment_answers for answer in reply.answers)),
        interrupted=overall_answer.interrupted or any(outcome.interrupted for outcome in segment_answers),
    )
    if combined.reason is not None or overall_answer.read is None:
        return combined
    findings = [
        finding | {"segment": number, "start": piece.start, "end": piece.end}
        for number, (piece, outcome) in enumerate(zip(pieces, segment_answers, strict=True), 1)
        for finding in outcome.read or ()
    ]
    # A reply without segments has no sums: 0 would say that nothing is wrong.
    sums = dict.fromkeys(local.names, 0.0) if pieces else {}
    for finding in findings:
        sums[finding["dimension"]] += SEVERITY_WEIGHTS[finding["severity"]]
    tokens = count_tokens(response)
    rates = {name: 100 * weight / tokens for name, weight in sums.items()}
    weights = rates if manner.length_normalization else sums
    scores = {name: bounded_score(weight, rubric.scale) for name, weight in weights.items()}
    scores |= overall_answer.read.scores
    detail = {
        "findings": findings,
        "sums": sums,
        "per_100_tokens": rates,
        "tokens": tokens,
        "segments": len(pieces),
    }
    ordered = {name: scores[name] for name in rubric.names if name in scores}
    return replace(combined, read=Parsed(ordered, overall_answer.read.reasons, detail))


def _reason(overall: JudgeReply[Any], segment_answers: Sequence[JudgeReply[Any]], count: int) -> str | None:
    unanswered = None
    for number, reply in enumerate((overall, *segment_answers)):
        location = f"segment {number} of {count}" if number else "whole reply"
        # An unreadable reply is reported first: asking again helps only where requests were unanswered.
        if reply.reason and reply.answers and not reply.reason.startswith(UNANSWERED):
            word, _, detail = reply.reason.partition(": ")
            return f"{word}: {location}: {detail}" if detail else f"{word}: {location}"
        if reply.reason and not unanswered:
            unanswered = f"{UNANSWERED}: {location}: {reply.reason.removeprefix(f'{UNANSWERED}: ')}"
    return unanswered

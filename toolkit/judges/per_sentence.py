"""Focus sentence prompting, segment by segment: the whole reply in every request, one segment asked about at a time.

After Domhan and Zhu (2025), "Same evaluation, more tokens: On the effect of input length for machine translation
evaluation using Large Language Models", EMNLP 2025, arXiv:2505.01761: a judge that is shown more text at once reports
fewer of the errors in it, so it is shown all of it and asked about one sentence. What a judge finds wrong belongs to
the local dimensions; completeness and actionability are scored in one request about the whole, so that omissions count.

How much one error costs depends on what the findings are counted in:

- The *sum* of their weights makes the same error cost the same in a short and in a long reply. A judge that raises a
  false alarm about a share f of all segments adds f times their number, so a long reply loses more by false alarms.
- The sum *per 100 tokens* lets those false alarms cost every reply the same, but the same error then costs a reply of
  900 tokens a quarter of what it costs one of 225.

Both are kept with every judgement; the score rests on the sum unless the study sets ``length_normalization``. Only a
false alarm rate near 0, which a planted-error probe measures, makes the sum fair to long replies. And a local
dimension says that nothing wrong was found: a reply that says nothing of risk has no finding about risk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from toolkit.judges.ask import JudgeSpec
from toolkit.judges.findings import Finding, Findings, bounded_score, parse_findings, severity_sums
from toolkit.judges.hear import UNANSWERED, Heard, hear
from toolkit.judges.manner import Manner
from toolkit.judges.parse import Parsed, parse_judgement
from toolkit.judges.per_sentence_ask import local_part, per_sentence_requests, whole_part
from toolkit.judges.rubric import Rubric
from toolkit.judges.segments import segments
from toolkit.models.base import Answer, Ask, ModelReply

TOKENS_PER_SEGMENT: Final = 20.0
"""Tokens (o200k_base) of one segment, on average.

Measured here: 26 to 29 in the prompts of the demo dataset, which are prose, and 13 to 30 in Markdown documents; replies
have more lists and headings than prompts, and an estimate of money had better be high.
"""


@dataclass(frozen=True)
class SentenceScores:
    """What one judge said of one reply, asked segment by segment."""

    scores: Mapping[str, float] | None
    findings: tuple[Finding, ...] = ()
    sums: Mapping[str, float] = field(default_factory=dict)
    per_100_tokens: Mapping[str, float] = field(default_factory=dict)
    tokens: int = 0
    segments: int = 0
    reason: str | None = None
    reasons: str | None = None
    answers: tuple[Answer, ...] = ()
    call_id: str = ""

    def detail(self) -> dict[str, Any] | None:
        """Return what is kept beside the scores, as plain JSON types; ``None`` when there are no scores."""
        if self.scores is None:
            return None
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "sums": dict(self.sums),
            "per_100_tokens": dict(self.per_100_tokens),
            "tokens": self.tokens,
            "segments": self.segments,
        }


async def judge_per_sentence(
    response: str, task: str, *, judge: JudgeSpec, rubric: Rubric, manner: Manner, ask: Ask
) -> SentenceScores:
    """Have one judge look at one reply segment by segment, and at the whole of it.

    The request about the whole and the one about the first segment go first, one after the other, and the others
    together: a provider's cache holds a prefix only once a request with it was answered, and a JSON schema is part
    of the prefix, so each of the two kinds of request has to come once. Where one of the first two cannot be used,
    the others are not paid for.
    """
    from toolkit.models.tokens import count_tokens

    pieces = segments(response)
    whole, local = whole_part(rubric, pieces), local_part(rubric)
    first, *others = per_sentence_requests(judge, rubric, manner, task, response)

    def read_whole(reply: ModelReply) -> Parsed:
        return parse_judgement(reply.text, whole, reply.finish_reason)

    def read_segment(reply: ModelReply) -> Findings:
        return parse_findings(reply.text, local.names, reply.finish_reason)

    of_whole = await hear(first, read_whole, ask, repair=manner.repair)
    of_segments: list[Heard[Findings]] = []
    if of_whole.reason is None and others:
        of_segments.append(await hear(others[0], read_segment, ask, repair=manner.repair))
        if of_segments[0].reason is None:
            rest = (hear(other, read_segment, ask, repair=manner.repair) for other in others[1:])
            of_segments += await _all(rest)
    said = SentenceScores(
        scores=None,
        tokens=count_tokens(response),
        segments=len(pieces),
        reason=_reason(of_whole, of_segments, len(pieces)),
        reasons=of_whole.read.reasons if of_whole.read else None,
        answers=(*of_whole.answers, *(answer for heard in of_segments for answer in heard.answers)),
        call_id=of_whole.call_id,
    )
    if said.reason is not None or of_whole.read is None or of_whole.read.scores is None:
        return said
    findings = tuple(
        finding.found_in(number, piece)
        for number, (piece, heard) in enumerate(zip(pieces, of_segments, strict=True), 1)
        for finding in (heard.read.findings if heard.read else ())
    )
    return _weighed(said, findings, of_whole.read.scores, rubric, local, manner)


def estimate_segments(tokens: float) -> float:
    """Return how many segments a reply of a given length has on average, for estimates before there is a reply.

    Examples
    --------
    >>> estimate_segments(0), estimate_segments(5), estimate_segments(400)
    (0.0, 1.0, 20.0)
    """
    return max(1.0, tokens / TOKENS_PER_SEGMENT) if tokens > 0 else 0.0


def _weighed(
    said: SentenceScores,
    findings: tuple[Finding, ...],
    of_whole: Mapping[str, float],
    rubric: Rubric,
    local: Rubric,
    manner: Manner,
) -> SentenceScores:
    # Without a segment nothing was looked for, so there is no sum: 0 would say that nothing is wrong.
    sums = severity_sums(findings, local.names) if said.segments else {}
    rates = {name: 100 * weight / said.tokens for name, weight in sums.items()}
    scores = {name: bounded_score(w) for name, w in (rates if manner.length_normalization else sums).items()}
    scores |= of_whole
    return replace(
        said,
        scores={name: scores[name] for name in rubric.names},
        findings=findings,
        sums=sums,
        per_100_tokens=rates,
    )


def _reason(of_whole: Heard[Parsed], of_segments: Sequence[Heard[Findings]], count: int) -> str | None:
    said = [("whole reply", of_whole.reason, of_whole.answers)]
    said += [
        (f"segment {n} of {count}", heard.reason, heard.answers) for n, heard in enumerate(of_segments, 1)
    ]
    failed = [(place, reason, answers) for place, reason, answers in said if reason is not None]
    # A reply that cannot be read stays so; only where there is none of these does asking again help.
    for place, reason, answers in failed:
        if answers and not reason.startswith(UNANSWERED):
            word, _, detail = reason.partition(": ")
            return f"{word}: {place}: {detail}" if detail else f"{word}: {place}"
    for place, reason, _ in failed:
        return f"{UNANSWERED}: {place}: {reason.removeprefix(f'{UNANSWERED}: ')}"
    return None


async def _all(hearing: Iterable[Awaitable[Heard[Findings]]]) -> list[Heard[Findings]]:
    """Return what all of them heard; an error is raised only once the others, which are paid for, have come home."""
    found = await asyncio.gather(*hearing, return_exceptions=True)
    heard = [one for one in found if not isinstance(one, BaseException)]
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return heard

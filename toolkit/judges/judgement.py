"""One judge, one reply, one judgement: scores with what they cost, or the reason why there are none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolkit.judges.parse import Parsed, expected_scores, parse_judgement
from toolkit.judges.per_sentence import judge_per_sentence, per_sentence_requests
from toolkit.judges.request import (
    PLAIN,
    UNANSWERED,
    Focus,
    JudgeReply,
    JudgeSpec,
    Manner,
    ask_and_read,
    judge_request,
)
from toolkit.judges.rubric import Rubric
from toolkit.models.base import Ask, ModelRequest
from toolkit.scoring import Scheme


@dataclass(frozen=True)
class Judgement:
    """The judgement of one judge on one reply; ``interrupted`` means that a request is still to be sent: not stored."""

    judge: str
    model: str
    rubric: str
    rubric_digest: str
    scores: Mapping[str, float] | None = None
    composite: float | None = None
    composite_strict: float | None = None
    zeros: int | None = None
    reason: str | None = None
    reasons: str | None = None
    call_id: str | None = None
    call_ids: tuple[str, ...] = ()
    aud_cost: float | None = None
    latency_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    judge_repeat: int = 0
    focus: Focus = "off"
    reference: bool = False
    related: bool = False
    repaired: bool = False
    expected: Mapping[str, float] | None = None
    expected_mass: Mapping[str, float] | None = None
    detail: Mapping[str, Any] | None = None
    interrupted: bool = False

    @property
    def failed(self) -> bool:
        """Whether there are no scores; a failed judgement is missing everywhere, never zero."""
        return self.scores is None

    @property
    def answered(self) -> bool:
        """Whether every request got a reply, readable or not; if one did not, asking again may help."""
        return self.aud_cost is not None and not (self.reason or "").startswith(UNANSWERED)

    @property
    def label(self) -> str:
        """Name of the judgement within its run; see `judge_label`."""
        return judge_label(self.judge, self.judge_repeat)


def judge_label(role: str, repeat: int) -> str:
    """Return the label of a judgement: the role, and from the second repeat on its number."""
    return role if repeat == 0 else f"{role}_{repeat + 1}"


def judgement_requests(
    judge: JudgeSpec, rubric: Rubric, task: str, response: str, manner: Manner = PLAIN, reference: str = ""
) -> tuple[ModelRequest, ...]:
    """Return every request to one judge about one reply, repairs aside; the first one's id names the judgement."""
    if manner.focus == "per_sentence":
        return per_sentence_requests(judge, rubric, manner, task, response, reference)
    return (judge_request(judge, rubric, task, response, manner, reference),)


async def judge(
    response: str,
    task: str,
    *,
    judge: JudgeSpec,
    rubric: Rubric,
    ask: Ask,
    manner: Manner = PLAIN,
    judge_repeat: int = 0,
    related: bool = False,
    reference: str = "",
) -> Judgement:
    """Have one judge score one reply; it sees the reference answer where the manner says so."""
    at_once, material = manner.focus != "per_sentence", (judge, rubric, task, response, manner, reference)
    if at_once:
        request = judge_request(*material)
        outcome = await ask_and_read(
            request, lambda text, end: parse_judgement(text, rubric, end), ask, manner.repair
        )
    else:
        outcome = await judge_per_sentence(ask, *material)
    judgement = replace(
        judgement_of(judge, outcome, rubric.name, rubric.digest, related),
        judge_repeat=judge_repeat,
        focus=manner.focus,
        reference=manner.reference,
        repaired=at_once and len(outcome.answers) > 1,  # of many answers none is a repair of the whole
    )
    if judgement.scores is None:
        return judgement
    judgement = with_scores(judgement, judgement.scores, rubric.scheme)
    if not (manner.expected and at_once):
        return judgement
    expected = expected_scores(outcome.answers[-1].reply.raw, rubric.names, rubric.scale)
    scores = {name: score for name, (score, _) in expected.items()}
    masses = {name: mass for name, (_, mass) in expected.items()}
    return replace(judgement, expected=scores or None, expected_mass=masses or None)


def judgement_of(
    judge: JudgeSpec, reply: JudgeReply[Parsed], rubric: str, digest: str, related: bool
) -> Judgement:
    """Return the judgement in the reply of a judge, with the cost of its answers and without composites."""
    parsed, answers = reply.read if reply.reason is None else None, reply.answers
    judgement = Judgement(
        judge=judge.role,
        model=judge.name,
        rubric=rubric,
        rubric_digest=digest,
        scores=parsed.scores if parsed else None,
        reason=reply.reason,
        reasons=reply.read.reasons if reply.read else None,
        call_id=reply.call_id,
        call_ids=tuple(answer.call_id for answer in answers),
        related=related,
        repaired=len(answers) > 1,
        detail=parsed.detail if parsed else None,
        interrupted=reply.interrupted,
    )
    if not answers:  # it has no cost
        return judgement
    return replace(
        judgement,
        aud_cost=sum(answer.aud_cost for answer in answers),
        latency_ms=sum(answer.latency_ms for answer in answers),
        input_tokens=sum(answer.reply.usage.input for answer in answers),
        output_tokens=sum(answer.reply.usage.output for answer in answers),
    )


def with_scores(judgement: Judgement, scores: Mapping[str, float], scheme: Scheme) -> Judgement:
    """Return a judgement with scores and the numbers that follow from them."""
    composite, strict, zeros = scheme.composite(scores), scheme.strict(scores), scheme.zeros(scores)
    return replace(judgement, scores=scores, composite=composite, composite_strict=strict, zeros=zeros)

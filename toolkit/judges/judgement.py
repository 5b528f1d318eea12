"""One judge, one reply, one judgement: scores with what they cost, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.errors import ModelError
from toolkit.judges.ask import JudgeSpec, judge_request
from toolkit.judges.parse import Parsed, parse_judgement
from toolkit.judges.rubric import Rubric
from toolkit.models.base import Answer, Ask
from toolkit.scoring.composite import calculate_composite_score, composite_strict, count_zeros


@dataclass(frozen=True)
class Judgement:
    """What one judge said of one reply.

    Parameters
    ----------
    judge, model
        The judge's role, and its model's name in the study.
    rubric, rubric_digest
        Name of the rubric and the hash of its content.
    scores
        Score of each dimension, 0 to 5; ``None`` when the judgement failed.
    composite, composite_strict
        Mean of the scores above 0, and of all of them; ``None`` when the judgement failed.
    zeros
        How many scores of 0 ``composite`` left out; ``None`` when the judgement failed.
    reason
        Why the judgement failed: a stable word, a colon, detail; ``None`` when it did not.
    reasons
        The judge's own reasons for its numbers.
    call_id
        Identity of the call, whether it was answered or not.
    aud_cost, latency_ms, input_tokens, output_tokens
        What the answer cost, in AUD, milliseconds and tokens; ``None`` when none came.
    """

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
    aud_cost: float | None = None
    latency_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def failed(self) -> bool:
        """Whether the judge gave no scores; a failed judgement is missing everywhere, never zero."""
        return self.scores is None

    @property
    def answered(self) -> bool:
        """Whether the model answered at all, readable or not; if it did not, asking again may help."""
        return self.aud_cost is not None


async def judge(response: str, task: str, *, judge: JudgeSpec, rubric: Rubric, ask: Ask) -> Judgement:
    """Have one judge score one reply.

    Parameters
    ----------
    response
        The whole reply.
    task
        The prompt that was answered.
    judge
        Which model judges, and how; two judges of one model need different ``repeat`` values to be two calls.
    rubric
        What it is told.
    ask
        Request in, kept answer out.

    Returns
    -------
    Judgement
        Failed, with its reason, when the model did not answer or its answer cannot be read. A reached budget
        and a cancellation are not failures of the judge and are raised.
    """
    request = judge_request(judge, rubric, task=task, response=response)
    try:
        answer = await ask(request)
    except ModelError as error:
        return Judgement(
            judge=judge.role,
            model=judge.name,
            rubric=rubric.name,
            rubric_digest=rubric.digest,
            reason=f"{error.reason}: {error}",
            call_id=request.identity(),
        )
    return read_judgement(answer, judge, rubric)


def read_judgement(answer: Answer, judge: JudgeSpec, rubric: Rubric) -> Judgement:
    """Make the judgement out of a judge's kept answer: free, so that a better parser can read it again.

    Parameters
    ----------
    answer
        The answer from the ledger.
    judge, rubric
        Who was asked, and with which rubric.
    """
    parsed = parse_judgement(answer.reply.text, rubric, answer.reply.finish_reason)
    composite, strict, zeros = _composites(parsed)
    return Judgement(
        judge=judge.role,
        model=judge.name,
        rubric=rubric.name,
        rubric_digest=rubric.digest,
        scores=parsed.scores,
        composite=composite,
        composite_strict=strict,
        zeros=zeros,
        reason=parsed.reason,
        reasons=parsed.reasons,
        call_id=answer.call_id,
        aud_cost=answer.aud_cost,
        latency_ms=answer.latency_ms,
        input_tokens=answer.reply.usage.input,
        output_tokens=answer.reply.usage.output,
    )


def _composites(parsed: Parsed) -> tuple[float | None, float | None, int | None]:
    if parsed.scores is None:
        return None, None, None
    scores = parsed.scores
    return calculate_composite_score(scores), composite_strict(scores), count_zeros(scores)

"""One judgement: scores with their cost, or a reason; a reached budget is nobody's failure."""

from __future__ import annotations

import asyncio
import json

import pytest

from toolkit.errors import BudgetReached, ModelError
from toolkit.judges.ask import judge_request
from toolkit.judges.judgement import judge, read_judgement
from toolkit.models.base import Answer, ModelReply, Usage


def judged(ask, spec, rubric):
    return asyncio.run(judge("Port 22.", "Name the port.", judge=spec, rubric=rubric, ask=ask))


def test_a_readable_answer_becomes_scores_composites_and_cost(asker, good, spec, default):
    found = judged(asker(good(4, clarity=0, reasons="Terse.")), spec, default)
    assert not found.failed
    assert found.answered
    assert found.scores["relevance"] == 4
    assert found.composite == 4
    assert found.composite_strict == pytest.approx(24 / 7)
    assert found.zeros == 1
    assert (found.judge, found.model, found.rubric) == ("primary", "judge-a", "default")
    assert found.rubric_digest == default.digest
    assert found.reasons == "Terse."
    assert found.reason is None
    assert (found.aud_cost, found.latency_ms, found.input_tokens, found.output_tokens) == (
        0.002,
        150,
        100,
        20,
    )
    assert (
        found.call_id == judge_request(spec, default, task="Name the port.", response="Port 22.").identity()
    )


def test_an_unreadable_answer_is_missing_and_still_paid_for(asker, spec, default):
    found = judged(asker("Four of five."), spec, default)
    assert found.failed
    assert found.answered
    assert found.reason == "prose: 'Four of five.'"
    assert (found.scores, found.composite, found.composite_strict, found.zeros) == (None, None, None, None)
    assert found.aud_cost == 0.002


def test_seven_true_zeros_are_a_judgement_and_not_a_failure(asker, good, spec, default):
    found = judged(asker(good(0)), spec, default)
    assert (found.failed, found.composite, found.composite_strict, found.zeros) == (False, 0, 0, 7)


def test_a_model_that_does_not_answer_is_missing_and_costs_nothing_known(asker, spec, default):
    found = judged(asker(ModelError("judge-a did not answer in 60 s", reason="timeout")), spec, default)
    assert found.failed
    assert not found.answered
    assert found.reason == "timeout: judge-a did not answer in 60 s"
    assert (found.aud_cost, found.latency_ms, found.input_tokens) == (None, None, None)
    assert len(found.call_id) == 64


@pytest.mark.parametrize(
    "error", [BudgetReached("no money"), asyncio.CancelledError(), KeyError("a fault of ours")]
)
def test_what_is_no_failure_of_the_judge_is_raised(asker, spec, default, error):
    with pytest.raises(type(error)):
        judged(asker(error), spec, default)


def test_a_kept_answer_can_be_read_again_without_asking(spec, default, good):
    reply = ModelReply(json.dumps(json.loads(good(3))), "stop", Usage(1, 1), "m")
    found = read_judgement(Answer("id", reply, 0.1, 1.0, 1, True), spec, default)
    assert (found.composite, found.call_id) == (3, "id")

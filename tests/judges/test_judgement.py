"""One judgement: scores with their cost, or a reason; a reached budget is nobody's failure."""

from __future__ import annotations

import asyncio

import pytest

from toolkit.errors import BudgetReached, ModelError
from toolkit.judges.judgement import judge, judgement_requests
from toolkit.judges.request import Manner, judge_request

ONCE = Manner(repair=False)


def judged(ask, spec, rubric, manner=ONCE, **more):
    return asyncio.run(
        judge("Port 22.", "Name the port.", judge=spec, rubric=rubric, ask=ask, manner=manner, **more)
    )


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


def test_one_repair_shows_the_judge_its_error_and_costs_what_both_cost(asker, good, spec, default):
    found = judged(asker("Four of five.", good(3)), spec, default, Manner())
    assert (found.composite, found.reason, found.repaired) == (3, None, True)
    assert (found.aud_cost, found.latency_ms, found.input_tokens, found.output_tokens) == (
        0.004,
        300,
        200,
        40,
    )
    first = judge_request(spec, default, task="Name the port.", response="Port 22.")
    assert found.call_id == first.identity()


def test_a_judge_that_errs_twice_is_missing_with_both_reasons(asker, spec, default):
    found = judged(asker("Four of five.", "{}"), spec, default, Manner())
    assert found.failed
    assert found.answered
    assert found.reason.startswith("missing dimension: technical_accuracy")
    assert found.reason.endswith("first: prose: 'Four of five.'")
    assert found.aud_cost == 0.004


def test_a_repair_that_was_not_answered_leaves_the_judgement_to_be_asked_again(asker, spec, default):
    error = ModelError("too busy", reason="overloaded")
    found = judged(asker("Four of five.", error), spec, default, Manner())
    assert found.failed
    assert not found.answered
    assert found.reason == "unanswered: the repair: overloaded: too busy; first: prose: 'Four of five.'"
    assert found.aud_cost == 0.002


def test_which_time_and_which_family_are_kept_with_the_judgement(asker, good, spec, default):
    found = judged(asker(good(3)), spec, default, ONCE, judge_repeat=2, related=True)
    assert (found.label, found.related, found.focus) == ("primary_3", True, "off")


def test_the_requests_of_a_judgement_are_known_beforehand(spec, default):
    (request,) = judgement_requests(spec, default, task="Name the port.", response="Port 22.")
    assert request == judge_request(spec, default, task="Name the port.", response="Port 22.")

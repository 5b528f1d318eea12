"""One judge on one reply, and several together: scores with their cost or a reason, never a zero for a failure."""

from __future__ import annotations

import asyncio
import json
import math
import re
from dataclasses import replace

import pytest
from cases import cases

from toolkit.errors import BudgetReached, InputError, ModelError
from toolkit.judges.ensemble import ensemble_evaluation
from toolkit.judges.judgement import Judgement, judge, judgement_requests
from toolkit.judges.per_sentence import per_sentence_requests
from toolkit.judges.request import FSP_DISABLED, JudgeSpec, Manner, judge_request
from toolkit.judges.rubric import load_rubric
from toolkit.models.base import Answer, Message, ModelReply, ModelRequest, Usage
from toolkit.words import DIMENSIONS, JUDGE_ROLES, LENGTH_BINS

CASES = cases(__file__)

DEFAULT, SEED_V1 = load_rubric("default"), load_rubric("seed-v1")
SPEC = JudgeSpec("primary", "judge-a", "scripted", "judge-a-2025", seed=7)
TASK, REPLY = "Write the first containment steps for HOST-22.", "1. Isolate HOST-22.\n2. Keep its memory."
ONCE = Manner(repair=False)
SEGMENTS = Manner(focus="per_sentence")


def scored(score=4, **changes):
    return json.dumps({**dict.fromkeys(DIMENSIONS, score), **changes})


class Asked:
    """An `ask` that answers by a function of the request: a text, or an error to raise; it keeps what it was asked."""

    def __init__(self, answer):
        self.answer = answer
        self.requests: list[ModelRequest] = []

    async def __call__(self, request):
        self.requests.append(request)
        said = self.answer(request)
        if isinstance(said, BaseException):
            raise said
        reply = ModelReply(said, "stop", Usage(100, 20), request.model)
        return Answer(request.identity(), reply, 0.002, 150.0, 1, False)


def in_turn(*said):
    left = list(said)
    return Asked(lambda request: left.pop(0))


def judged(ask, manner=ONCE, response=REPLY, **more):
    options = {"judge": SPEC, "rubric": DEFAULT, "manner": manner, "ask": ask} | more
    return asyncio.run(judge(response, TASK, **options))


# --- one judge ------------------------------------------------------------------------------------------------------


def test_a_readable_answer_becomes_scores_composites_and_cost():
    found = judged(in_turn(scored(4, clarity=0, reasons="Terse.")), judge_repeat=2, related=True)
    (request,) = judgement_requests(SPEC, DEFAULT, task=TASK, response=REPLY)
    call = request.identity()
    scores = {**dict.fromkeys(DIMENSIONS, 4), "clarity": 0}
    numbers = {"aud_cost": 0.002, "latency_ms": 150, "input_tokens": 100, "output_tokens": 20, "zeros": 1}
    about = {"reasons": "Terse.", "call_id": call, "call_ids": (call,), "judge_repeat": 2, "related": True}
    strict = pytest.approx(24 / 7)
    assert found == Judgement(
        "primary", "judge-a", "default", DEFAULT.digest, scores, 4, strict, **numbers, **about
    )
    assert (found.failed, found.answered, found.label) == (False, True, "primary_3")
    zeros = judged(in_turn(scored(0)))
    assert (zeros.failed, zeros.composite, zeros.composite_strict, zeros.zeros) == (False, 0, 0, 7)


def test_a_null_is_in_neither_composite_and_no_zero():
    """The means are those of the six others; the true zero of clarity is out of the seed's composite alone."""
    found = judged(in_turn(scored(4, compliance_alignment=None, clarity=0, clarity_reason="Terse.")))
    six = [name for name in DIMENSIONS if name != "compliance_alignment"]
    assert found.scores == {**dict.fromkeys(six, 4), "clarity": 0}
    assert (found.composite, found.composite_strict, found.zeros) == (4, pytest.approx(20 / 6), 1)
    assert found.reasons == "clarity: Terse."
    assert judged(in_turn(scored(4, compliance_alignment=None)), rubric=SEED_V1).failed


@pytest.mark.parametrize(
    ("said", "answered", "reason"),
    [
        ("Four of five.", True, "prose: 'Four of five.'"),
        (ModelError("no answer in 60 s", reason="timeout"), False, "timeout: no answer in 60 s"),
    ],
)
def test_what_gave_no_scores_is_missing_and_paid_for_where_it_was_answered(said, answered, reason):
    """What was not answered costs nothing known and may be asked again."""
    found = judged(in_turn(said))
    assert (found.failed, found.answered, found.reason) == (True, answered, reason)
    numbers = (found.scores, found.composite, found.composite_strict, found.zeros)
    cost = (found.aud_cost, found.latency_ms, found.input_tokens)
    assert (*numbers, *cost) == (None,) * 4 + ((0.002, 150, 100) if answered else (None,) * 3)
    assert len(found.call_id) == 64


@pytest.mark.parametrize("manner", [ONCE, SEGMENTS])
@pytest.mark.parametrize("error", [BudgetReached("no money"), asyncio.CancelledError(), KeyError("ours")])
def test_what_is_no_failure_of_the_judge_is_raised(manner, error):
    with pytest.raises(type(error)):
        judged(in_turn(error), manner)


def test_one_repair_shows_the_judge_its_words_and_its_error_and_costs_what_both_cost():
    ask = in_turn("Four of five.", scored(3))
    found = judged(ask, Manner())
    assert (found.composite, found.reason, found.repaired) == (3, None, True)
    assert (found.aud_cost, found.latency_ms) == (0.004, 300)
    assert (found.input_tokens, found.output_tokens) == (200, 40)
    first, second = ask.requests
    assert found.call_id == first.identity()
    said = Message("assistant", "Four of five.")
    assert second == replace(first, messages=(*first.messages, said, second.messages[3]))
    assert "prose: 'Four of five.'" in second.messages[3].content


@pytest.mark.parametrize(
    ("said", "manner", "reason", "answered"),
    [
        (("No.", "{}"), Manner(), "missing dimension: .*; first: prose: 'No.'", True),
        (("No.", ModelError("busy", reason="overloaded")), Manner(),
         "unanswered: the repair: overloaded: busy; first: prose: 'No.'", False),
        (("No.",), ONCE, "prose: 'No.'", True),
    ],
)  # fmt: skip
def test_a_repair_comes_once_at_the_most(said, manner, reason, answered):
    ask = in_turn(*said)
    found = judged(ask, manner)
    assert (found.failed, found.answered, len(ask.requests)) == (True, answered, len(said))
    assert re.fullmatch(reason, found.reason, re.DOTALL)


def test_who_will_not_answer_is_not_talked_into_it_and_silence_has_no_turn():
    """Anthropic refuses an empty turn of the assistant."""

    async def refuses(request):
        reply = ModelReply("I will not.", "refusal", Usage(1, 1), "m")
        return Answer(request.identity(), reply, 0.0, 1.0, 1, False)

    assert judged(refuses, Manner()).reason.startswith("refusal")
    ask = in_turn("  ", scored())
    judged(ask, Manner())
    assert [message.role for message in ask.requests[1].messages] == ["system", "user", "user"]


# --- the request ----------------------------------------------------------------------------------------------------


def test_seed_v1_is_one_message_and_the_default_puts_what_never_changes_first():
    (message,) = judge_request(SPEC, SEED_V1, task=TASK, response=REPLY).messages
    expected = SEED_V1.template.replace("{key_sentences}", FSP_DISABLED).replace("{response_content}", REPLY)
    assert (message.role, message.content) == ("user", expected)
    first = judge_request(SPEC, DEFAULT, task=TASK, response=REPLY).messages
    other = judge_request(SPEC, DEFAULT, task="Another task.", response="Another reply.").messages
    assert [message.role for message in first] == ["system", "user"]
    assert first[0] == other[0]
    assert "clarity: Is it clear? 0 unreadable; 1 confusing" in first[0].content
    assert first[1].content.index(TASK) < first[1].content.index(REPLY)
    assert not re.search(r"\{[a-z_]+\}", first[0].content + first[1].content)


@pytest.mark.parametrize("manner", [Manner(), SEGMENTS])
def test_everything_of_the_spec_reaches_every_request(manner):
    def requests(spec):
        return judgement_requests(spec, DEFAULT, task=TASK, response=REPLY, manner=manner)

    spec = JudgeSpec(
        "tertiary", "c", "compatible", "m", "http://127.0.0.1:1/v1", 0.5, 77, True, 3, True, repeat=4
    )
    for one in requests(spec):
        assert (one.provider, one.model, one.endpoint) == ("compatible", "m", "http://127.0.0.1:1/v1")
        assert (one.temperature, one.max_tokens, one.seed, one.repeat) == (0.5, 77, 7, 4)
        assert json.loads(one.response_schema)["additionalProperties"] is False
    for one in requests(SPEC):  # the seed's parameters; no seed and no schema where the model takes none
        assert (one.temperature, one.max_tokens, one.seed, one.response_schema) == (0.1, 1000, None, None)
    assert requests(replace(SPEC, role="secondary", name="x", specialization="y")) == requests(SPEC)
    repeated, first = ({one.identity() for one in requests(replace(SPEC, repeat=n))} for n in (1, 0))
    assert not repeated & first
    assert requests(replace(SPEC, seed_supported=True, seed=None))[0].seed is None


# --- segment by segment ---------------------------------------------------------------------------------------------

CLEAN = [f"Step {number} keeps host {number} apart and its memory safe." for number in range(60)]
ERROR = "Telnet is an encrypted protocol."
OF_WHOLE = {"actionability": 4, "completeness": 3.5, "compliance_alignment": 5}
WHOLE = json.dumps({"reasons": "Fine.", **OF_WHOLE})
PLACE = re.compile(
    r"Segment (\d+) of (\d+) of the reply:\n<<<SEGMENT \w+>>>\n(.*?)\n<<<END SEGMENT", re.DOTALL
)


def planted(length, *places):
    return " ".join(ERROR if number in places else CLEAN[number] for number in range(length))


def finding(severity, dimension="technical_accuracy"):
    return json.dumps({"findings": [{"what": "?", "dimension": dimension, "severity": severity}]})


def seeing(instead=lambda n, r: None):
    """A judge that sees the planted error wherever it stands, and can be told what to do instead."""

    def answer(request):
        place = PLACE.search(request.messages[3].content)
        said = instead(int(place[1]) if place else 0, request)
        if said is not None:
            return said
        if place is None:
            return WHOLE
        return finding("major") if ERROR in place[3] else '{"findings": []}'

    return Asked(answer)


def parts(response, ask=None, manner=SEGMENTS, **more):
    return judged(ask or seeing(), manner, response, **more)


@pytest.mark.parametrize("place", [0, -1])
def test_the_same_error_costs_the_same_in_a_short_and_in_a_long_reply(place):
    """Clean against planted, 4 against 60 segments: the loss is the weight of one major finding, wherever it stands."""
    losses = []
    for length in (4, 60):
        clean, marred = parts(planted(length)), parts(planted(length, place % length))
        assert (clean.detail["segments"], marred.detail["segments"]) == (length, length)
        assert [one["segment"] for one in marred.detail["findings"]] == [place % length + 1]
        losses.append({name: clean.scores[name] - marred.scores[name] for name in DIMENSIONS})
        twice = parts(planted(length, 0, length - 1))
        assert (twice.detail["sums"]["technical_accuracy"], twice.scores["technical_accuracy"]) == (10, 3)
    assert losses == [{**dict.fromkeys(DIMENSIONS, 0), "technical_accuracy": 1}] * 2


def test_length_normalization_weighs_an_error_and_false_alarms_by_the_length():
    """As the module says: false alarms in a share of the segments cost a long reply more unless normalized."""
    normalized = replace(SEGMENTS, length_normalization=True)
    short, long = (parts(planted(length, 0), manner=normalized) for length in (4, 60))
    assert short.detail["sums"] == long.detail["sums"]
    for found in (short, long):
        rate = 500 / found.detail["tokens"]
        assert found.detail["per_100_tokens"]["technical_accuracy"] == pytest.approx(rate)
        assert found.scores["technical_accuracy"] == pytest.approx(5 * (1 - rate / 25))

    def lost(length, manner):
        ask = seeing(lambda number, request: finding("minor", "clarity") if number % 4 == 1 else None)
        return 5 - parts(planted(length), ask, manner).scores["clarity"]

    assert lost(60, SEGMENTS) == pytest.approx(15 * lost(4, SEGMENTS))
    assert lost(60, normalized) == pytest.approx(lost(4, normalized), rel=0.1)


def test_whole_dimensions_come_from_the_whole_reply_and_local_ones_from_the_findings():
    ask, reply = seeing(), planted(3, 1)
    found = parts(reply, ask)
    assert (found.reason, found.reasons, tuple(found.scores)) == (None, "Fine.", DIMENSIONS)
    assert {name: found.scores[name] for name in OF_WHOLE} == OF_WHOLE
    assert set(found.detail["sums"]) == set(DIMENSIONS) - OF_WHOLE.keys()
    assert (len(ask.requests), found.output_tokens, found.call_id) == (4, 80, ask.requests[0].identity())
    (one,) = json.loads(json.dumps(found.detail))["findings"]
    assert (reply[one["start"] : one["end"]], one["segment"]) == (ERROR, 2)
    again = seeing()
    assert parts(reply, again) == found
    assert again.requests == ask.requests


def test_segment_by_segment_a_null_is_left_out_too():
    """What applies to no task is asked about the whole reply, and no sum of findings takes its place."""
    null = json.dumps({"reasons": "Fine.", **OF_WHOLE, "compliance_alignment": None})
    ask = seeing(lambda number, request: null if number == 0 else None)
    found = parts(planted(3), ask)
    assert tuple(found.scores) == tuple(name for name in DIMENSIONS if name != "compliance_alignment")
    assert "compliance_alignment" not in found.detail["sums"]
    assert found.composite_strict == pytest.approx((4 + 3.5 + 4 * 5) / 6)
    schema = json.loads(
        judgement_requests(replace(SPEC, structured=True), DEFAULT, TASK, planted(3), SEGMENTS)[
            0
        ].response_schema
    )
    assert [name for name, part in schema["properties"].items() if None in part.get("enum", ())] == [
        "compliance_alignment"
    ]


@pytest.mark.parametrize("reply", ["", " \n", "---"])
def test_a_reply_without_a_segment_is_scored_on_the_whole_alone(reply):
    """Nothing was looked for, so no sum says that nothing is wrong, and no dimension gets a 5 for silence."""
    ask = in_turn(scored(0, reasons="Nothing there."))
    found = parts(reply, ask)
    assert len(ask.requests) == 1
    assert not any(message.cached for message in ask.requests[0].messages)
    assert found.scores == dict.fromkeys(DIMENSIONS, 0)
    kept = [found.detail[name] for name in ("segments", "sums", "per_100_tokens", "findings")]
    assert kept == [0, {}, {}, []]


@pytest.mark.parametrize(("number", "asked", "place"), CASES["broken_part"])
def test_a_judgement_that_rests_on_a_part_is_none(number, asked, place):
    """What cannot be used is known after the first two requests at the earliest; all that was paid for is kept."""
    ask = seeing(lambda n, request: "It is fine." if n == number else None)
    found = parts(planted(9, 5), ask, replace(SEGMENTS, repair=False))
    assert (found.scores, found.detail, found.reason) == (None, None, f"prose: {place}: 'It is fine.'")
    assert (len(ask.requests), found.output_tokens) == (asked, 20 * asked)


def test_segments_that_fail_say_whether_asking_again_may_help():
    """A repair for every segment; one that cannot be read outweighs one that was not answered."""
    down, whole = ModelError("down", reason="network"), planted(3, 1)
    ask = seeing(lambda n, request: "Fine." if n in (0, 2) and len(request.messages) == 4 else None)
    found = parts(whole, ask)
    assert (found.reason, found.detail["sums"]["technical_accuracy"], len(ask.requests)) == (None, 5, 6)
    found = parts(whole, seeing(lambda n, request: down if n == 2 else None))
    assert (found.scores, found.reason) == (None, "unanswered: segment 2 of 3: network: down")
    found = parts(whole, seeing(lambda n, r: None if n != 2 else "Fine." if len(r.messages) == 4 else down))
    assert found.reason == "unanswered: segment 2 of 3: the repair: network: down; first: prose: 'Fine.'"
    assert (found.answered, found.output_tokens) == (False, 80)
    both = seeing(lambda n, request: down if n == 2 else "Fine." if n == 3 else None)
    assert parts(whole, both, replace(SEGMENTS, repair=False)).reason == "prose: segment 3 of 3: 'Fine.'"


@pytest.mark.parametrize("error", [BudgetReached("no money"), KeyError("a fault of ours")])
def test_the_first_two_go_alone_and_an_error_is_raised_once_the_others_have_come_home(
    error,
):
    """A provider's cache holds a prefix once a request with it was answered; what was sent was paid for."""
    home, under_way, at_once = [], [], []
    seen = seeing(lambda number, request: error if number == 3 else None)

    async def slow(request):
        under_way.append(1)
        at_once.append(len(under_way))
        await asyncio.sleep(0.01)
        under_way.pop()
        found = await seen(request)
        home.append(found.call_id)
        return found

    with pytest.raises(type(error)):
        parts(planted(6), slow)
    assert len(home) == 6
    assert at_once == [1, 1, 1, 2, 3, 4, 5]


# --- the ensemble ---------------------------------------------------------------------------------------------------

ALL = {*DIMENSIONS, "composite", "composite_strict"}
KEYS = ("mean_scores", "std_scores", "median_scores", "confidence_intervals")


def said(role, score, **changes):
    """A judgement with one score everywhere, or a failed one."""
    ask = in_turn("no" if score is None else scored(score, **changes))
    return judged(ask, judge=replace(SPEC, role=role))


def ensemble(*scores, judges=0):
    judgements = [said(role, score) for role, score in zip(JUDGE_ROLES, scores, strict=False)]
    return ensemble_evaluation(judgements, judges=[SPEC] * (judges or len(judgements)))


def test_three_judges_give_the_numbers_of_the_seed_s_example():
    """The composites 4.3, 4.1 and 4.5 of seed 002, section 3.1: mean 4.3, standard deviation 0.2."""
    aggregated = ensemble(4.3, 4.1, 4.5)["aggregated"]
    assert aggregated["mean_scores"]["composite"] == pytest.approx(4.3)
    assert aggregated["std_scores"]["composite"] == pytest.approx(0.2)
    half = 4.302652729911275 * 0.2 / math.sqrt(3)  # Student t, two degrees of freedom, table value
    assert aggregated["confidence_intervals"]["composite"] == pytest.approx([4.3 - half, 4.3 + half])
    assert (aggregated["judge_count"], aggregated["judged"]) == (3, True)
    for key in KEYS:
        assert set(aggregated[key]) == ALL


def test_one_judge_that_a_study_names_alone_is_enough():
    aggregated = ensemble(4)["aggregated"]
    assert (aggregated["judged"], aggregated["judge_count"], aggregated["zeros"]) == (True, 1, 0)
    assert aggregated["mean_scores"] == aggregated["median_scores"] == dict.fromkeys(ALL, 4)
    assert aggregated["std_scores"] == aggregated["confidence_intervals"] == dict.fromkeys(ALL)
    assert aggregated["leave_one_out"] == {"primary": None}


@pytest.mark.parametrize(("scores", "judges"), CASES["too_few"])
def test_fewer_than_two_of_several_judges_leave_the_run_unjudged(scores, judges):
    """Whether the others failed, or were not asked yet."""
    evaluation = ensemble(*scores, judges=judges)
    aggregated = evaluation["aggregated"]
    assert aggregated["judged"] is False
    for failed in [one for one in evaluation["judge_results"].values() if one["evaluation_failed"]]:
        assert [failed[name] for name in ("scores", "composite", "composite_strict")] == [None] * 3
        assert (failed["reason"], failed["zeros"]) == ("prose: 'no'", 0)
    assert (aggregated["judge_count"], aggregated["zeros"]) == (len(scores) - scores.count(None), None)
    for key in KEYS:
        assert aggregated[key] == dict.fromkeys(ALL)


def test_a_judge_that_judges_again_counts_once_with_its_mean_over_what_can_be_read():
    """True zeros are counted, and only the strict composite feels them."""
    again = [replace(said("primary", score), judge_repeat=n) for n, score in enumerate((1, 4, None))]
    evaluation = ensemble_evaluation([*again, said("secondary", 4.5, clarity=0)], judges=[SPEC] * 2)
    primary = evaluation["judge_results"]["primary"]
    assert (primary["composite"], primary["scores"]["clarity"], primary["reason"]) == (2.5, 2.5, None)
    assert (primary["repeats"], primary["composites"]) == ({"asked": 3, "readable": 2}, [1, 4, None])
    aggregated = evaluation["aggregated"]
    assert (aggregated["zeros"], aggregated["judge_count"]) == (1, 2)
    means = aggregated["mean_scores"]
    assert (means["composite"], means["clarity"]) == (3.5, 1.25)
    assert means["composite_strict"] == pytest.approx((2.5 + 4.5 * 6 / 7) / 2)
    for twice in ([said("primary", 4), said("primary", 5)], [again[1]] * 2):
        with pytest.raises(InputError, match="a role may judge a run once"):
            ensemble_evaluation(twice, judges=[SPEC] * 2)


@pytest.mark.parametrize(("given", "mean", "strict"), CASES["may_differ"])
def test_judges_may_differ_about_what_applies(given, mean, strict):
    """Each judge's composite is of what it scored; the dimension itself needs two who scored it, as any score."""
    judgements = [
        said(role, 4, compliance_alignment=score) for role, score in zip(JUDGE_ROLES, given, strict=True)
    ]
    evaluation = ensemble_evaluation(judgements, DEFAULT.scheme, judges=[SPEC] * 3)
    means = evaluation["aggregated"]["mean_scores"]
    assert (evaluation["aggregated"]["judged"], evaluation["aggregated"]["judge_count"]) == (True, 3)
    assert means["compliance_alignment"] == mean
    assert means["composite_strict"] == pytest.approx(strict / 21)
    assert {means[name] for name in DIMENSIONS if name != "compliance_alignment"} == {4}
    # A judge that judges again has the mean of the times at which it scored the dimension.
    again = replace(said("primary", 4, compliance_alignment=3), judge_repeat=1)
    primary = ensemble_evaluation([judgements[0], again], DEFAULT.scheme, judges=[SPEC])["judge_results"][
        "primary"
    ]
    assert primary["scores"]["compliance_alignment"] == (3 if given[0] is None else 2.5)


def test_all_requests_of_a_reply_begin_alike_whatever_the_length_of_its_prompt():
    """One for the whole and one for each segment; only the material ends a cached prefix."""
    reply, questions = planted(7), []
    for _, tokens in LENGTH_BINS.values():
        task = TASK + " It burns." * (tokens // 3)
        requests = per_sentence_requests(SPEC, DEFAULT, SEGMENTS, task, reply)
        assert len({request.messages[:3] for request in requests}) == 1
        assert len({request.identity() for request in requests}) == 1 + 7
        for request in requests:
            turns = [[message.role, message.cached] for message in request.messages]
            assert turns == CASES["turns"]
            assert all(text in request.messages[1].content for text in (reply, task))
        questions.append([re.sub(r"[0-9a-f]{16}", "-", request.messages[3].content) for request in requests])
    assert questions[0] == questions[1] == questions[2]
    whole, *others = per_sentence_requests(
        replace(SPEC, structured=True), DEFAULT, SEGMENTS, TASK, "One. Two."
    )
    assert [*json.loads(whole.response_schema)["properties"]] == ["reasons", *OF_WHOLE]
    assert {json.loads(other.response_schema)["required"][0] for other in others} == {"findings"}
    hidden = per_sentence_requests(SPEC, SEED_V1, SEGMENTS, TASK, "One.")
    assert not any(TASK in message.content for request in hidden for message in request.messages)
    assert "Factual correctness in cybersecurity context" in hidden[0].messages[0].content


def test_shuffling_changes_the_order_of_the_dimensions_and_nothing_else():
    rules = set()
    for repeat in range(6):
        ask = seeing()
        found = parts(planted(3), ask, replace(SEGMENTS, shuffle=True), judge=replace(SPEC, repeat=repeat))
        assert tuple(found.scores) == DIMENSIONS
        rules |= {request.messages[0].content for request in ask.requests}
    assert len(rules) > 1

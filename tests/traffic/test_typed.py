"""Typed answers: a claim holds only where its own subject and rows give its value, and nothing else is a verdict."""

import asyncio
import json
import time
from functools import cache

import pandas as pd
import pytest
from cases import cases

from toolkit.errors import InputError
from toolkit.files.strict import checked
from toolkit.prompt_test import MeasuredTestItem, PromptReply, annotate
from toolkit.stats.one_shot.methods import methods_frame, score_methods
from toolkit.traffic.measures import MEASURES, Answer, Table
from toolkit.traffic.one_shot import OneShotTest, experiments_frame
from toolkit.traffic.questions import Question, load_questions
from toolkit.traffic.sample import load_sample
from toolkit.traffic.typed import Expected, expectation, typed_verdict

CASES = cases(__file__)

QUESTIONS = {question.id: question for question in load_questions()}
POSTS = {"method": "POST"}
SERVER = {"source": "198.51.100.40"}


@cache
def table(sample):
    return Table(load_sample(sample).frame)


@cache
def expected(name):
    return expectation(QUESTIONS[name], table(QUESTIONS[name].sample))


def claim(value, measure, conditions, rows="all", unit=None, **of):
    of |= {"measure": measure, "filter": conditions}
    return {"value": value, "unit": unit, "of": of, "rows": rows}


def open_question(sample):
    return f"{sample}_flow" if f"{sample}_flow" in QUESTIONS else f"{sample}_suspicious"


def verdict(name, *claims, text=""):
    return typed_verdict(text or json.dumps({"claims": claims}), expected(name))


def of_subject(subject, sample):
    value = json.loads(json.dumps(subject.of(table(sample)), default=float))
    of = {"among": subject.among} if subject.among is not None else {}
    return claim(value, subject.measure, subject.filter, column=subject.column, **of)


KNOWN = [name for name, question in QUESTIONS.items() if question.answer.known]


@pytest.mark.parametrize("name", KNOWN)
def test_the_subject_of_every_shipped_question_is_the_expected_answer(name):
    """Over all rows of its filter, and again with these rows by number; the answer to another question is not."""
    answer, sample = QUESTIONS[name].answer, QUESTIONS[name].sample
    if answer.claims:
        claims = [of_subject(subject, sample) for subject in answer.claims]
        assert verdict(name, *reversed(claims)).verdict == "expected"
        assert verdict(name, *claims[:-1]).verdict == "unexpected"
        assert "no claim gives" in verdict(name, *claims[:-1]).why
        return
    wrong = claim(1, "count", {"number": 1})
    assert verdict(name, wrong).verdict == "unexpected"
    choice = answer.type == "one_of"
    right = claim(answer.value, "choice", {}, [1]) if choice else of_subject(answer, sample)
    assert verdict(name, right).verdict == "expected"
    assert verdict(name, right, wrong | {"value": 2}).verdict == "hallucinated"
    chosen = table(sample).select(answer.filter)[0]
    rows = [1] if choice else [index + 1 for index in table(sample).nonempty(answer.column, chosen)]
    assert verdict(name, right | {"rows": rows}).verdict == "expected"


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_not_known_is_an_answer_and_never_an_invention(name):
    """Expected where the sample does not hold the answer; a true claim beside it changes nothing, a false one does."""
    unknown, true = {"value": "not in the sample", "rows": []}, claim(1, "count", {"number": 1})
    becomes = "unexpected" if name in KNOWN else "expected"
    assert verdict(name, unknown).verdict == becomes
    assert verdict(name, text="Not in the sample.").verdict == becomes
    assert verdict(name, unknown, true).verdict == becomes
    assert verdict(name, unknown, true | {"value": 2}).verdict == "hallucinated"
    assert verdict(name, true).verdict == "unexpected"
    answer = QUESTIONS[name].answer
    if name in KNOWN and not answer.claims and not answer.choices:
        assert verdict(name, unknown, of_subject(answer, QUESTIONS[name].sample)).verdict == "expected"


@pytest.mark.parametrize(("name", "claims", "becomes"), CASES["replies"], ids=str)
def test_a_reply_is_read_as_a_person_reads_it_and_answers_only_what_is_asked(name, claims, becomes):
    text = claims if isinstance(claims, str) else json.dumps({"claims": claims})
    begin = time.process_time()
    result = verdict(name, text=text)
    assert result.verdict == becomes, result.why
    assert (result.unreadable is None) == (becomes is not None)
    assert time.process_time() - begin < 1


HOLDS = CASES["holds"]  # fmt: skip


@pytest.mark.parametrize(("sample", "held"), HOLDS, ids=str)
def test_a_claim_that_the_sample_gives_holds(sample, held):
    result = verdict(open_question(sample), held)
    assert (result.verdict, result.why[:14]) == ("unexpected", "no claim gives"), result.why
    assert result.invented == ()


FALSE = CASES["false"]  # fmt: skip


@pytest.mark.parametrize(("sample", "false", "why"), FALSE, ids=str)
def test_a_claim_that_the_sample_or_its_rows_do_not_give_makes_a_hallucination(sample, false, why):
    result = verdict(open_question(sample), false)
    assert result.verdict == "hallucinated"
    assert why in result.why
    assert result.why.startswith("claim 1 (")


@pytest.mark.parametrize(("name", "first", "becomes"), CASES["first"])  # fmt: skip
def test_the_first_claim_answers_a_closed_question(name, first, becomes):
    assert verdict(name, first).verdict == becomes
    if becomes == "expected":  # a second claim answers nothing, and has no tolerance
        second = verdict(name, claim(1, "count", {"number": 1}), first).verdict
        assert second == ("hallucinated" if "34" in str(first["value"]) else "unexpected")


def test_an_open_question_takes_a_value_and_a_first_value_over_the_same_row():
    answer = QUESTIONS["login_post_flow"].answer
    assert answer is not None
    claims = [of_subject(subject, "login_post") for subject in answer.claims[:2]]
    same_row = claim("/home", "value", {"number": 18}, column="uri")
    assert verdict("login_post_flow", *claims, same_row).verdict == "expected"
    other_rows = claim(2, "count", {"number": [1, 2]})  # the right value of other rows
    assert verdict("login_post_flow", other_rows, claims[1], same_row).verdict == "unexpected"
    other_row = claim("/login", "value", {"number": 9}, column="uri")
    assert verdict("login_post_flow", *claims, other_row).verdict == "unexpected"


GOOD = claim(2, "count", POSTS)
BODY = json.dumps({"claims": [GOOD]})
DOUBLED = '{"claims": [{"value": 2, "value": 3, "of": {"measure": "count"}, "rows": []}]}'


@pytest.mark.parametrize(("text", "why"), [
    ("", "empty"), (" ", "empty"), ("Two.", "no JSON"), ("{}", "no JSON object with claims"),
    (BODY[:-6], "no JSON"), ('{"claims": {}}', "no value"), ('{"claims": [2]}', "claim 1 is no object"),
    (json.dumps({"claims": [GOOD] * 41}), "more than 40 claims"),
    (DOUBLED, "a key twice"), ('{"claims": [], "claims": []}', "a key twice"), ("{" * 20_000, "no JSON"),
    ('{"a":' * 3_900, "deeper than 100"), ("[" * 19_000, "no JSON"), ("x" * 20_001, "longer than 20,000"),
    ('{"claims": [' + '{"value": [' * 60 + "1" + "]}" * 60 + "]}", "deeper than 100"),
    *((json.dumps({"claims": [wrong, GOOD]}), why) for wrong, why in CASES["wrong"]),
])  # fmt: skip
def test_what_cannot_be_read_is_missing_with_its_reason(text, why):
    begin = time.process_time()
    result = typed_verdict(text, expected("login_post_posts"))
    assert result.verdict is None
    assert result.why.startswith("unreadable: ")
    assert result.unreadable
    assert why in result.why
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(("wrong", "why"), CASES["wrong"])
def test_an_unreadable_claim_beside_the_answer_leaves_it_as_it_is(wrong, why):
    assert verdict("login_post_posts", GOOD, wrong).verdict == "expected"
    false = claim(3, "count", POSTS)
    assert verdict("login_post_posts", wrong, false).verdict == "hallucinated"


def test_a_choice_is_for_a_question_that_gives_choices_and_rests_on_rows():
    choice = claim("client", "choice", {"number": 1}, [2])
    assert "is for a question that gives choices" in verdict("login_post_flow", choice).why
    assert "rests on no row" in verdict("slow_download_closes", choice).why


@pytest.mark.parametrize(
    "number",
    ["1e999999999999999999999", "1e99999", "-1e-99999", "9" * 15_000, "0." + "9" * 15_000],
)
def test_numbers_of_any_size_cost_nothing_and_are_not_the_value(number):
    begin = time.process_time()
    assert verdict("login_post_posts", text=BODY.replace("2", number, 1)).verdict == "hallucinated"
    assert verdict("login_post_posts", text=BODY.replace('"POST"', number)).verdict == "hallucinated"
    text = BODY.replace('"all"', f"[{number}]")
    assert verdict("login_post_posts", text=text).verdict is None
    assert time.process_time() - begin < 1


def test_many_ranges_of_a_large_sample_are_read_once():
    frame = pd.DataFrame({"number": range(1, 10_001), "source": "2001:db8::1"})
    basis = Expected(Answer(type="integer", value=10_000), 10_000, Table(frame))
    text = json.dumps({"claims": [claim(10_000, "count", {"source": "2001:0DB8:0::1"}, ["1-10000"] * 1_500)]})
    begin = time.process_time()
    assert typed_verdict(text, basis).verdict == "expected"
    assert time.process_time() - begin < 1


# --- questions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "why"), CASES["unusable"])  # fmt: skip
def test_an_answer_that_cannot_be_used_is_refused_in_one_line(answer, why):
    with pytest.raises(InputError, match=why) as caught:
        checked(
            Question, {"id": "q", "sample": "login_post", "text": "?", "answer": answer}, "q.toml, question 1"
        )
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("q.toml, question 1, answer")


@pytest.mark.parametrize(("answer", "why"), CASES["not_given"])  # fmt: skip
def test_an_answer_that_the_sample_does_not_give_is_refused_before_any_call(answer, why):
    question = checked(Question, {"id": "q", "sample": "login_post", "text": "?", "answer": answer}, "q")
    with pytest.raises(InputError, match=why) as caught:
        OneShotTest(questions=[question])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("answer", "first", "becomes"), CASES["literal"])  # fmt: skip
def test_a_literal_value_is_met_in_any_unit_of_its_kind(answer, first, becomes):
    question = Question(id="q", sample="login_post", text="?", answer=Answer.model_validate(answer))
    basis = expectation(question, table("login_post"))
    assert typed_verdict(json.dumps({"claims": [first]}), basis).verdict == becomes


def test_pairs_follow_the_order_in_each_stream_and_need_their_columns():
    frame = load_sample("redirects_and_404s").frame
    pairs = Table(frame)
    answers = [int(cell) for cell in pairs.cells["answers"] if cell is not None]
    assert answers == [4, 8, 11, 14, 18, 26, 30, 33]
    cut = frame[frame["number"] > 4].reset_index(drop=True)  # its first response belongs to no request
    assert [str(cell) for cell in Table(cut).cells["answers"] if cell is not None][:2] == ["8", "11"]
    assert "answers" not in Table(frame.drop(columns="stream")).cells
    assert Table(frame.drop(columns="number")).index[1] == 0
    continued = frame.assign(status=frame["status"].mask(frame["number"] == 6, 100))
    assert Table(continued).partner[3] == 8  # row 4 is answered by row 9, after "100 Continue"


# --- the test ---------------------------------------------------------------------------------------------------------


def test_typed_is_the_default_and_its_form_names_columns_choices_and_measures():
    test = OneShotTest()
    texts = {item.context.question.id: item.prompts[0].text for item in test.make_test_items()}
    assert len(texts) == len(QUESTIONS)
    assert not test.asks_judges
    form = texts["slow_download_closes"]
    assert all(f"{measure}" in form for measure in MEASURES)
    assert "choice (a word of: client, server)" in form
    assert "choice" not in texts["plain_gets_host"]
    assert "payload_length; and two more: answers" in " ".join(form.split())
    assert "The first claim answers the question." in form
    assert "Give one claim for each thing" in texts["plain_gets_flow"]
    assert "{" + "columns}" not in form


def test_verdicts_and_reasons_are_in_the_frame_and_the_unreadable_is_incomplete():
    test = OneShotTest(only=["login_post_posts"])
    (item,) = test.make_test_items()
    false = json.dumps({"claims": [GOOD, claim(3, "count", POSTS)]})

    async def nobody(request):
        raise AssertionError("no model may be asked")

    async def annotated(text):
        reply = PromptReply(item.prompts[0], text, "r", "m")
        return await annotate(test, item, [reply], nobody)

    rows = [asyncio.run(annotated(text)) for text in (BODY, false, "Two.")]
    measured = [
        MeasuredTestItem(item, tuple(test.measure_quality(row)), "m", n) for n, row in enumerate(rows)
    ]
    results = {result.name: result for result in test.aggregate_measurements(measured)}
    assert results["raw, plain/login_post_posts"].reason == "incomplete: I1+I0+H = 2 of 3, 1 unreadable"
    assert results["unreadable, plain"].estimate == pytest.approx(1 / 3)
    methods = methods_frame(score_methods(experiments_frame(rows)))
    assert methods[["missing", "unreadable"]].to_numpy().tolist() == [[1, 1]]
    frame = experiments_frame(rows)
    assert frame["verdict"].fillna("none").tolist() == ["expected", "hallucinated", "none"]
    assert frame["matched"].fillna(False).tolist() == [True, True, False]
    assert frame["found"].fillna("").tolist() == ["2", "2", ""]
    assert frame["invented"].fillna("").tolist() == ["", "claim 2 count where method POST = 3", ""]
    assert frame["why"].iloc[2] == "incomplete: unreadable: no JSON object with claims"
    assert frame["unreadable"].fillna("").tolist() == ["", "", "no claims"]
    assert [measurement.value for measurement in test.measure_quality(rows[2])] == [None, None, None, 1]

"""Typed answers: a claim holds only where its own subject and rows give its value, and nothing else is a verdict."""

from __future__ import annotations

import asyncio
import json
import time
from functools import cache
from typing import Any

import pandas as pd
import pytest

from toolkit.errors import InputError
from toolkit.files import checked
from toolkit.prompt_test import PromptReply, annotate
from toolkit.traffic.measures import MEASURES, Answer, Table
from toolkit.traffic.one_shot import OneShotTest, experiments_frame
from toolkit.traffic.questions import Question, load_questions
from toolkit.traffic.sample import load_sample
from toolkit.traffic.typed import Expected, Verdict, expectation, typed_verdict

QUESTIONS = {question.id: question for question in load_questions()}
POSTS = {"method": "POST"}
SERVER = {"source": "198.51.100.40"}
POLLS = {"host": "updates.example"}
ANY = {"method": "*"}
ANSWERED = {"status": "*"}


@cache
def table(sample: str) -> Table:
    return Table(load_sample(sample).frame)


@cache
def expected(name: str) -> Expected:
    return expectation(QUESTIONS[name], table(QUESTIONS[name].sample))


def claim(
    value: Any, measure: str, conditions: Any, rows: Any = "all", unit: Any = None, **of: Any
) -> dict[str, Any]:
    of |= {"measure": measure, "filter": conditions}
    return {"value": value, "unit": unit, "of": of, "rows": rows}


def open_question(sample: str) -> str:
    return f"{sample}_flow" if f"{sample}_flow" in QUESTIONS else f"{sample}_suspicious"


def verdict(name: str, *claims: Any, text: str = "") -> Verdict:
    return typed_verdict(text or json.dumps({"claims": claims}), expected(name))


def of_subject(subject: Any, sample: str) -> dict[str, Any]:
    value = json.loads(json.dumps(subject.of(table(sample)), default=float))
    of = {"among": subject.among} if subject.among is not None else {}
    return claim(value, subject.measure, subject.filter, column=subject.column, **of)


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_the_subject_of_every_shipped_question_is_the_expected_answer(name: str) -> None:
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


HOLDS = [
    # every measure, its value over all rows of the filter
    ("login_post", claim(2, "count", POSTS)), ("login_post", claim(0, "count", {"method": "PUT"}, [])),
    ("login_post", claim(1, "distinct", POSTS, [9, 14], column="uri")),
    ("login_post", claim("/login", "value", POSTS, column="uri")),
    ("login_post", claim("/login", "first", ANY, [4], column="uri")),
    ("login_post", claim("/static/site.css", "last", ANY, column="uri")),
    ("login_post", claim([200, 401, 302, 200, 200], "list", {}, column="status")),
    ("login_post", claim([302, 401, 200], "set", {}, column="status")),
    ("login_post", claim([], "list", {"uri": "/nothing"}, [], column="status")),
    ("slow_download", claim(45706, "sum", SERVER, unit="bytes", column="payload_length")),
    ("slow_download", claim(45.7, "sum", SERVER, unit="kB", column="payload_length")),
    ("slow_download", claim("44.6 KiB", "sum", SERVER, column="payload_length")),
    ("slow_download", claim(1289.6, "mean", SERVER, column="length")),
    ("slow_download", claim(1514, "max", {}, [6], column="length")),
    ("login_post", claim(1.3, "duration", POSTS, [9, 14], "s")),
    ("login_post", claim(1300, "duration", POSTS, unit="ms")),
    ("login_post", claim(1300050, "duration", POSTS, unit="us")),
    ("beaconing", claim(1.97, "mean_interval", POLLS, unit="seconds")),
    ("beaconing", claim(0.727, "share", {"status": 204}, among={"status": "*"})),
    ("beaconing", claim(0.2, "share", {"number": 6}, [6, 9, 16, 19, 22], among={"number": [6, 9, 16, 19, 22]})),
    ("beaconing", claim("72.7%", "share", {"status": 204}, among={"status": "*"})),
    ("beaconing", claim(73, "share", {"status": 204}, unit="%", among={"status": "*"})),
    ("login_post", claim("no", "exists", {"status": 500}, [])),
    # a URL with the host of the rows
    ("login_post", claim("http://portal.example/login", "value", POSTS, column="uri")),
    ("login_post", claim("HTTP://Portal.Example:80/login", "first", ANY, [4], column="uri")),
    ("login_post", claim("portal.example/static/site.css", "last", ANY, column="uri")),
    ("plain_gets", claim("http://intranet.example", "first", ANY, column="uri")),
    ("plain_gets", claim(["http://intranet.example/news?page=2", "/news"], "list", {"number": [8, 16]}, column="uri")
     | {"value": ["/news", "http://intranet.example/news?page=2"]}),
    ("sql_injection", claim(1, "count", {"uri": "http://shop.example/products?id=3' OR '1'='1"}, [18])),
    # filters
    ("login_post", claim(3, "count", {"status": [200, 401], "number": {"max": 20}}, [6, 11, 19])),
    ("login_post", claim(19, "count", {"method": None})),
    ("login_post", claim(5, "count", {"status": {"min": 200}})),
    ("sql_injection", claim(1, "count", {"uri": "/products?id=3' OR '1'='1"}, [18])),
    ("login_post", claim(1, "count", {"time": 0.9205}, [11])),
    ("login_post", claim(1, "count", {"tcp_flags": "ACK, SYN"}, [2])),
    # pairs of requests and responses, and rows that may be cited beside those of the filter
    ("login_post", claim(401, "value", {"answers": 9}, [9, 11], column="status")),
    ("login_post", claim("POST", "value", {"answered_by": 16}, ["14"], column="method")),
    ("login_post", claim(11, "value", {"number": 9}, column="answered_by")),
    ("login_post", claim([4, 9, 14, 18, 20], "list", {"status": "*"}, column="answers")),
    ("sql_injection", claim([500, 200], "list", {"answers": [14, 18]}, [14, "16-16", "25"], column="status")),
    # forms of rows and values
    ("slow_download", claim(3, "count", {"number": {"max": 3}}, ["1-3"])),
    ("slow_download", claim(3, "count", {"number": {"max": 3}}, "1–2, 3")),
    ("login_post", claim("2 requests", "count", POSTS)), ("login_post", claim("2", "count", POSTS, ["all"])),
    ("login_post", claim(["/login"], "value", POSTS, column="uri")),
]  # fmt: skip


@pytest.mark.parametrize(("sample", "held"), HOLDS, ids=str)
def test_a_claim_that_the_sample_gives_holds(sample: str, held: dict[str, Any]) -> None:
    result = verdict(open_question(sample), held)
    assert (result.verdict, result.why[:14]) == ("unexpected", "no claim gives"), result.why
    assert result.invented == ()


FALSE = [
    # value
    ("login_post", claim(3, "count", POSTS), "it says 3, the sample gives 2"),
    ("login_post", claim(True, "count", POSTS), "says yes"),
    ("login_post", claim("1,97", "count", POSTS), "says 1,97"),
    ("login_post", claim(2, "count", POSTS, unit="s"), "s is no unit of count"),
    ("slow_download", claim(45700, "sum", SERVER, column="payload_length"), "sample gives 45706"),
    ("slow_download", claim(45.706, "sum", SERVER, unit="KiB", column="payload_length"), "gives 45706"),
    ("login_post", claim(1.31, "duration", POSTS, unit="s"), "gives 1.300050164"),
    ("beaconing", claim(0.74, "share", {"status": 204}, among={"status": "*"}), "gives 0.727272727"),
    ("beaconing", claim(72.7, "share", {"status": 204}, among={"status": "*"}), "gives 0.727272727"),
    # order and members of a list
    ("login_post", claim([401, 200, 302, 200, 200], "list", {}, column="status"), "says [401, 200"),
    ("login_post", claim([200, 401, 302], "list", {}, column="status"), "sample gives [200, 401, 302, 200, 200]"),
    ("login_post", claim([], "list", {"status": 200}, [], column="uri") | {"value": ["/x"]}, "says [/x]"),
    # another host, scheme, path or port than those of the rows
    ("login_post", claim("http://evil.example/login", "value", POSTS, column="uri"), "says http://evil.example/login"),
    ("login_post", claim("https://portal.example/login", "value", POSTS, column="uri"), "says https:"),
    ("login_post", claim("http://portal.example:8080/login", "value", POSTS, column="uri"), "says http:"),
    ("beaconing", claim("http://updates.example/lunch", "value", {"number": 14}, column="uri"), "gives /lunch"),
    ("beaconing", claim(1, "count", {"uri": "http://updates.example/lunch"}), "has uri http://updates.example/lunch"),
    # rows
    ("login_post", claim(2, "count", POSTS, [9]), "the cited rows give 1"),
    ("login_post", claim(2, "count", POSTS, [9, 14, 18]), "row 18 is not what the filter says"),
    ("login_post", claim(2, "count", POSTS, [9, 14, 25]), "no row 25"),
    ("login_post", claim(2, "count", POSTS, ["9-999999999"]), "no row 25"),
    ("login_post", claim(2, "count", POSTS, [-9, 14]), "no row -9"),
    ("login_post", claim("portal.example", "value", {}, [4, 5], column="host"), "empty in a cited row"),
    ("login_post", claim("no", "exists", {"status": 500}, [6]), "row 6"),
    ("login_post", claim("yes", "exists", {"status": 200}, []), "cited rows give no"),
    # subject
    ("login_post", claim(2, "count", {"server": "nginx"}), "no column 'server'"),
    ("login_post", claim(2, "count", {"method": "PUT"}), "no row of the sample has method PUT"),
    ("login_post", claim(1, "count", {"status": {"min": 500, "max": 599}}), "status from 500 to 599"),
    ("login_post", claim("/login", "value", ANY, column="uri"), "3 different values"),
    ("login_post", claim(5, "sum", POSTS, column="uri"), "holds no numbers"),
    ("login_post", claim("x", "first", {"status": 302}, column="uri"), "no row that the filter selects has a value"),
    ("login_post", claim(0, "mean_interval", {"status": 302}), "needs more rows"),
    ("login_post", claim(0, "share", {"status": 302}, among={"status": 999}), "status 999"),
    ("login_post", claim(0, "share", {"status": 500}, among={"status": 200, "method": "GET"}), "no row is among"),
    # relation
    ("login_post", claim(302, "value", {"answers": 9}, column="status"), "sample gives 401"),
    ("login_post", claim(401, "value", {"answers": 9}, [11, 14], column="status"), "row 14"),
    ("login_post", claim(1, "count", {"answers": 5}), "answers 5"),
]  # fmt: skip


@pytest.mark.parametrize(("sample", "false", "why"), FALSE, ids=str)
def test_a_claim_that_the_sample_or_its_rows_do_not_give_makes_a_hallucination(sample, false, why) -> None:
    result = verdict(open_question(sample), false)
    assert result.verdict == "hallucinated"
    assert why in result.why
    assert result.why.startswith("claim 1 (")


@pytest.mark.parametrize(("name", "first", "becomes"), [
    ("login_post_seconds_between", claim(1.34, "duration", POSTS), "expected"),  # tolerance of the question
    ("login_post_seconds_between", claim(1340, "duration", POSTS, unit="ms"), "expected"),
    ("login_post_seconds_between", claim(1, "duration", POSTS), "expected"),
    ("login_post_seconds_between", claim(1.36, "duration", POSTS), "hallucinated"),
    ("login_post_seconds_between", claim(2, "count", POSTS), "unexpected"),  # another kind of quantity
    ("beaconing_interval", claim(2, "count", {"number": [1, 2]}), "unexpected"),
    ("beaconing_polls", claim(9, "distinct", POLLS, column="uri"), "expected"),  # the value decides
    ("beaconing_polls", claim(2, "mean_interval", POLLS), "unexpected"),
    ("slow_download_server", claim("192.0.2.23", "first", {}, column="source"), "unexpected"),
    ("slow_download_closes", claim("client", "choice", {"number": 63}, [63]), "expected"),
    ("slow_download_closes", claim("server", "choice", {"number": 65}, [65]), "unexpected"),
    ("slow_download_closes", claim("client", "choice", {"number": 63}, []), "hallucinated"),
    ("redirects_and_404s_server_error", claim(False, "exists", {"status": {"min": 500}}, []), "expected"),
    ("redirects_and_404s_server_error", claim("yes", "exists", {"status": 404}), "unexpected"),
    ("login_post_statuses", claim([200, 401, 302, 200, 200], "list", {}, column="status"), "expected"),
    ("login_post_status_order", claim([200, 302, 401], "set", {}, column="status"), "unexpected"),
    ("slow_download_uri", claim("http://files.example/exports/audit.csv", "value", ANY, column="uri"), "expected"),
    ("plain_gets_curl", claim("/Health", "value", {"uri": "/health"}, column="uri"), "hallucinated"),
    ("sql_injection_error", claim("/products?id=3'", "value", {"answered_by": 16}, column="uri"), "expected"),
    ("login_post_flow", claim("/home", "value", {"number": 18}, column="uri"), "unexpected"),
])  # fmt: skip
def test_the_first_claim_answers_a_closed_question(name: str, first: dict[str, Any], becomes: str) -> None:
    assert verdict(name, first).verdict == becomes
    if becomes == "expected":  # a second claim answers nothing, and has no tolerance
        second = verdict(name, claim(1, "count", {"number": 1}), first).verdict
        assert second == ("hallucinated" if "34" in str(first["value"]) else "unexpected")


def test_an_open_question_takes_a_value_and_a_first_value_over_the_same_row() -> None:
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
FLAT = {"value": 2, "measure": "count", "filter": POSTS, "rows": [9, 14]}
BODY = json.dumps({"claims": [GOOD]})
DOUBLED = '{"claims": [{"value": 2, "value": 3, "of": {"measure": "count"}, "rows": []}]}'


@pytest.mark.parametrize("text", [
    f"```json\n{BODY}\n```", f"Two {{requests}}: {BODY} I am sure.", f"{BODY}\n{BODY}", json.dumps({"claims": [FLAT]}),
    json.dumps({"note": 1, "claims": [GOOD | {"why": "rows 9 and 14"}]}),
    BODY.replace("2", "2.0", 1), BODY.replace("2", "2e0", 1),
])  # fmt: skip
def test_fences_prose_repetition_and_flat_claims_are_read(text: str) -> None:
    assert verdict("login_post_posts", text=text).verdict == "expected"


@pytest.mark.parametrize(("text", "why"), [
    ("", "empty"), (" ", "empty"), ("Two.", "no JSON"), ("{}", "no JSON object with claims"),
    (BODY[:-3], "no JSON"),
    (f"{BODY} {json.dumps({'claims': [GOOD | {'value': 3}]})}", "2 different objects"),
    ('{"claims": []}', "no claims"), ('{"claims": {}}', "no claims"),
    ('{"claims": [2]}', "claim 1 is no object"),
    (DOUBLED, "a key twice"), ('{"claims": [], "claims": []}', "a key twice"), ("{" * 20_000, "no JSON"),
    ('{"a":' * 3_900, "deeper than 100"), ("[" * 19_000, "no JSON"), ("x" * 20_001, "longer than 20,000"),
    ('{"claims": [' + '{"value": [' * 60 + "1" + "]}" * 60 + "]}", "deeper than 100"),
    *((json.dumps({"claims": [GOOD, wrong]}), why) for wrong, why in (
        ({"value": 2, "rows": [1]}, "claim 2 has no of"), (GOOD | {"value": None}, "claim 2 has no value"),
        (GOOD | {"rows": None}, "no rows"),
        (GOOD | {"of": {"measure": "median"}}, "unknown measure 'median'"),
        (GOOD | {"of": "POST"}, "unknown measure"),
        (GOOD | {"of": {"measure": "value", "filter": {}}}, "needs a column"),
        (claim(1, "share", {}), "among"),
        (claim(1, "count", "all"), "must be an object"), (claim({"a": 1}, "count", {}), "value is an object"),
        (claim(1, "count", {}, ["row 9"]), "'row 9' is no row number"),
        (claim(1, "count", {}, ["9-7"]), "no row number"),
        (claim(1, "count", {}, [1.5]), "no row number"), (claim(1, "count", {}, [True]), "no row number"),
        (claim(1, "count", {}, {}), "no row number"),
        (claim(1, "count", {"status": {"like": 4}}), "filter on status"),
        (claim(1, "count", {"status": {"min": "a"}}), "filter on status"),
        (claim(1, "count", {"status": [[200]]}), "filter on status"),
    )),
])  # fmt: skip
def test_what_cannot_be_read_is_missing_with_its_reason(text: str, why: str) -> None:
    begin = time.process_time()
    result = typed_verdict(text, expected("login_post_posts"))
    assert result.verdict is None
    assert result.why.startswith("unreadable: ")
    assert why in result.why
    assert time.process_time() - begin < 1


def test_a_choice_is_for_a_question_that_gives_choices_and_rests_on_rows() -> None:
    choice = claim("client", "choice", {"number": 1}, [2])
    assert "is for a question that gives choices" in verdict("login_post_flow", choice).why
    assert "row 2 is not" in verdict("slow_download_closes", choice).why


@pytest.mark.parametrize(
    "number",
    ["1e999999999999999999999", "1e99999", "-1e-99999", "9" * 15_000, "0." + "9" * 15_000, "NaN", "Infinity"],
)
def test_numbers_of_any_size_cost_nothing_and_are_not_the_value(number: str) -> None:
    begin = time.process_time()
    assert verdict("login_post_posts", text=BODY.replace("2", number, 1)).verdict == "hallucinated"
    assert verdict("login_post_posts", text=BODY.replace('"POST"', number)).verdict == "hallucinated"
    text = BODY.replace('"all"', f"[{number}]")
    assert verdict("login_post_posts", text=text).verdict is None
    assert time.process_time() - begin < 1


def test_many_ranges_of_a_large_sample_are_read_once() -> None:
    frame = pd.DataFrame({"number": range(1, 10_001), "source": "2001:db8::1"})
    basis = Expected(Answer(type="integer", value=10_000), 10_000, Table(frame))
    text = json.dumps({"claims": [claim(10_000, "count", {"source": "2001:0DB8:0::1"}, ["1-10000"] * 1_500)]})
    begin = time.process_time()
    assert typed_verdict(text, basis).verdict == "expected"
    assert time.process_time() - begin < 1


# --- questions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "why"), [
    ({"type": "integer"}, "exactly one of"),
    ({"type": "integer", "value": 2, "measure": "count"}, "exactly one of"),
    ({"type": "integer", "measure": "counts"}, "Input should be"),
    ({"type": "size", "value": 2}, "Input should be"),
    ({"type": "text", "measure": "value"}, "needs a column"),
    ({"type": "integer", "measure": "count", "column": "uri"}, "takes no column"),
    ({"type": "share", "measure": "share"}, "needs among"),
    ({"type": "one_of", "value": "a"}, "needs choices"),
    ({"type": "one_of", "value": "a", "choices": ["b"]}, "none of the choices"),
    ({"type": "claims", "value": 1}, "needs claims"),
    ({"type": "claims", "claims": [{"measure": "count", "rows": 1}]}, "unknown key 'rows'"),
    ({"type": "text", "value": "a", "filter": {"uri": 1}}, "needs a measure"),
    ({"type": "duration", "value": 1, "unit": "fortnight"}, "unit 'fortnight' is none"),
    ({"type": "integer", "value": 1, "tolerance": -1}, "greater than or equal to 0"),
])  # fmt: skip
def test_an_answer_that_cannot_be_used_is_refused_in_one_line(answer: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        checked(
            Question, {"id": "q", "sample": "login_post", "text": "?", "answer": answer}, "q.toml, question 1"
        )
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("q.toml, question 1, answer")


@pytest.mark.parametrize(("answer", "why"), [
    ({"type": "integer", "measure": "distinct", "column": "server"}, "no column 'server'"),
    ({"type": "integer", "measure": "count", "filter": {"status": {"like": 4}}}, "filter on status"),
    ({"type": "text", "measure": "value", "column": "uri"}, "3 different values"),
    ({"type": "text", "value": 4}, "not of the type text"),
    ({"type": "status", "measure": "value", "column": "uri", "filter": {"number": 4}}, "not of the type status"),
    ({"type": "integer", "measure": "count", "filter": {"method": ["POST", "PUT"]}}, "has method PUT"),
    ({"type": "claims", "claims": [{"measure": "first", "column": "uri", "filter": {"number": 99}}]}, "no row that"),
])  # fmt: skip
def test_an_answer_that_the_sample_does_not_give_is_refused_before_any_call(answer, why) -> None:
    question = checked(Question, {"id": "q", "sample": "login_post", "text": "?", "answer": answer}, "q")
    with pytest.raises(InputError, match=why) as caught:
        OneShotTest(questions=[question])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("answer", "first", "becomes"), [
    ({"type": "duration", "value": 1300, "unit": "ms", "tolerance": 50}, claim(1.34, "duration", POSTS), "expected"),
    ({"type": "duration", "value": 1300, "unit": "ms", "tolerance": 10}, claim(1.3, "duration", POSTS), "expected"),
    ({"type": "duration", "value": 1.3}, claim(1300, "duration", POSTS, unit="ms"), "expected"),
    ({"type": "number", "value": 1.3}, claim(1.3, "duration", POSTS), "expected"),
    ({"type": "integer", "value": 1}, claim(1, "duration", POSTS), "unexpected"),
    ({"type": "number", "value": 3, "tolerance": 1}, claim(2, "count", POSTS), "expected"),
    ({"type": "number", "value": 4, "tolerance": 1}, claim(2, "count", POSTS), "unexpected"),
    ({"type": "number", "value": 3, "tolerance": 1}, claim(3, "count", POSTS), "hallucinated"),  # a count is exact
    ({"type": "share", "value": 20, "unit": "%"}, claim(0.2, "share", {"status": 401}, among=ANSWERED), "expected"),
    ({"type": "status", "value": 401}, claim("401", "value", {"answers": 9}, column="status"), "expected"),
    ({"type": "list", "value": [401, 302]}, claim([302, 401], "set", {"answers": [9, 14]}, column="status"),
     "unexpected"),
    ({"type": "set", "value": [401, 302]}, claim([302, 401], "set", {"answers": [9, 14]}, column="status"), "expected"),
    ({"type": "yes_no", "value": "no"}, claim(False, "exists", {"status": 500}), "expected"),
    ({"type": "host", "value": "portal.example"}, claim("PORTAL.example", "value", {}, column="host"), "expected"),
])  # fmt: skip
def test_a_literal_value_is_met_in_any_unit_of_its_kind(answer, first, becomes) -> None:
    question = Question(id="q", sample="login_post", text="?", answer=Answer.model_validate(answer))
    basis = expectation(question, table("login_post"))
    assert typed_verdict(json.dumps({"claims": [first]}), basis).verdict == becomes


def test_pairs_follow_the_order_in_each_stream_and_need_their_columns() -> None:
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


def test_typed_is_the_default_and_its_form_names_columns_choices_and_measures() -> None:
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


def test_verdicts_and_reasons_are_in_the_frame_and_the_unreadable_is_incomplete() -> None:
    test = OneShotTest(only=["login_post_posts"])
    (item,) = test.make_test_items()
    false = json.dumps({"claims": [GOOD, claim(3, "count", POSTS)]})

    async def nobody(request: Any) -> Any:
        raise AssertionError("no model may be asked")

    async def annotated(text: str) -> Any:
        reply = PromptReply(item.prompts[0], text, "r", "m")
        return await annotate(test, item, [reply], nobody)

    rows = [asyncio.run(annotated(text)) for text in (BODY, false, "Two.")]
    frame = experiments_frame(rows)
    assert frame["verdict"].fillna("none").tolist() == ["expected", "hallucinated", "none"]
    assert frame["matched"].fillna(False).tolist() == [True, True, False]
    assert frame["found"].fillna("").tolist() == ["2", "2", ""]
    assert frame["invented"].fillna("").tolist() == ["", "claim 2 count where method POST = 3", ""]
    assert frame["why"].iloc[2] == "incomplete: unreadable: no JSON object with claims"
    assert {measurement.value for measurement in test.measure_quality(rows[2])} == {None}

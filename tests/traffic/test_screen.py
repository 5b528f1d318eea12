"""The screen of free text: what a sample refutes, what is bound to a subject, and the rest, which is not checked."""

from __future__ import annotations

import runpy
import time
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from toolkit.traffic.mentions import numbers, scan
from toolkit.traffic.screen import Facts, screen

CARD = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "write_instrument_card.py"))
chance_acceptance = CARD["chance_acceptance"]
CASES = tomllib.loads((Path(__file__).parent / "data" / "cases.toml").read_text("utf-8"))
A, B = "10.0.0.7", "198.51.100.30"
ROWS = [
    (A, B, 50301, 8080, "SYN", 0, None, None, None, None, None),
    (B, A, 8080, 50301, "SYN,ACK", 0, None, None, None, None, None),
    (A, B, 50301, 8080, "PSH,ACK", 0, "GET", "shop.example:8080", "/", None, "curl/8.5.0"),
    (B, A, 8080, 50301, "PSH,ACK", 0, None, None, None, 301, None),
    (A, B, 50301, 8080, "PSH,ACK", 0, "GET", "shop.example:8080", "/start", None, "curl/8.5.0"),
    (B, A, 8080, 50301, "PSH,ACK", 0, None, None, None, 200, None),
    (A, B, 50302, 8080, "PSH,ACK", 1, "GET", "shop.example:8080", "/search?q=%27+OR+1", None, "Mozilla/5.0 (X11)"),
    (B, A, 8080, 50302, "PSH,ACK", 1, None, None, None, 500, None),
    (A, B, 50302, 8080, "PSH,ACK", 1, "POST", "shop.example:8080", "/images/a.png", None, "Mozilla/5.0 (X11)"),
    (B, A, 8080, 50302, "PSH,ACK", 1, None, None, None, 404, None),
    (A, "fe80::1", 50303, 8080, "SYN", 2, None, None, None, None, None),
]  # fmt: skip
COLUMNS = ["source", "destination", "source_port", "destination_port", "tcp_flags", "stream", "method", "host", "uri",
           "status", "user_agent"]  # fmt: skip


@pytest.fixture(scope="module")
def facts() -> Facts:
    frame = pd.DataFrame(ROWS, columns=COLUMNS)
    frame = frame.assign(number=range(1, 12), time=[n / 2 for n in range(11)], length=range(101, 112))
    whole = ("source_port", "destination_port", "stream", "status", "number", "length")
    frame = frame.astype(dict.fromkeys(whole, "Int64"))
    return Facts("shop", frame.to_csv(index=False), frame)


def in_state(answer, facts, state, question=""):
    return [(flag.kind, flag.text) for flag in screen(answer, facts, question) if flag.state == state]


@pytest.mark.parametrize("answer", CASES["clean"])
def test_what_the_sample_has_or_an_answer_denies_or_supposes_is_not_refuted(answer, facts):
    assert in_state(answer, facts, "refuted") == []


@pytest.mark.parametrize(("answer", "kind", "text"), CASES["refuted"])
def test_what_the_sample_lacks_or_has_not_there_is_refuted(answer, kind, text, facts):
    """Exactly one name or number of each answer is refuted, and it says where it stands."""
    (refuted,) = [flag for flag in screen(answer, facts) if flag.state == "refuted"]
    assert (refuted.kind, refuted.text) == (kind, text)
    assert answer[refuted.position :].startswith(text)


@pytest.mark.parametrize(("answer", "kind", "text"), CASES["bound"])
def test_a_value_is_bound_to_the_packet_or_the_noun_beside_it(answer, kind, text, facts):
    assert (kind, text) in in_state(answer, facts, "bound")
    assert in_state(answer, facts, "refuted") == []


@pytest.mark.parametrize(("text", "states"), CASES["reading"])
def test_marks_words_and_units_are_read_as_what_they_are(text, states, facts):
    """What an examiner met, with its neighbours: plurals of codes, brackets, flags, cells of tables, decimal commas."""
    kinds = {"count", "number", "time", "size", "port", "packet", "status", "share"}
    flags = [flag for flag in screen(text, facts) if flag.kind in kinds]
    assert "; ".join(f"{flag.kind} {flag.text} {flag.state}" for flag in flags) == states


def test_what_is_bound_to_nothing_is_not_checked_although_the_sample_has_that_value(facts):
    """That the sample has a value somewhere says nothing of an answer."""
    answer = "10.0.0.7 gets 4 of them on port 8080 with status 404 after 2 s, 3 in all; 50 % are 105 bytes."
    assert {flag.state for flag in screen(answer, facts)} == {"not checked"}
    assert len(screen(answer, facts)) == 8


def test_a_question_may_restrict_what_its_answer_counts_and_name_what_the_sample_lacks(facts):
    """An answer may leave out what the question has said, and repeat what it names."""
    assert in_state("There are 3 packets.", facts, "refuted") == [("count", "3")]
    assert in_state("There are 3 packets.", facts, "refuted", "How many packets go to fe80::1?") == []
    question = "Did 8.8.8.8 ask evil.example for /admin on port 443 with status 418 in 99 requests?"
    answer = "Yes: 8.8.8.8 asked evil.example for /admin on port 443 with status 418 in 99 requests."
    assert len(in_state(answer, facts, "refuted")) == 6
    assert in_state(answer, facts, "refuted", question) == []


def test_a_packet_has_its_own_values_and_those_of_its_request_or_response(facts):
    """Packet 5 asks for /start and is answered by 200; 301 and 500 belong elsewhere; packet 1 has no status at all."""
    state = {
        flag.text: flag.state for flag in screen("packet 5 asks for /start with 200 or 301 or 500", facts)
    }
    assert state == {
        "5": "not checked",
        "/start": "bound",
        "200": "bound",
        "301": "refuted",
        "500": "refuted",
    }
    redirected = "packet 3 is redirected with a 301 to /start (packet 5), and packet 9 is not"
    assert {flag.text: flag.state for flag in screen(redirected, facts) if flag.kind != "packet"} == {
        "301": "bound", "/start": "not checked",
    }  # fmt: skip
    for undecided in (
        "packets 5 and 8 have 500 and 200",
        "packet 1 begins what ends with 500",
        "packet 5 is not 500",
    ):
        assert in_state(undecided, facts, "refuted") == []


def test_a_sample_without_columns_refutes_no_number_and_breaks_nothing():
    """Columns can be chosen, so every one of them may be absent."""
    facts = Facts("empty", "number\n", pd.DataFrame({"number": []}))
    assert (facts.cut, facts.most) == (frozenset(), {})
    assert in_state("10.0.0.7 on port 80 with status 200 in 3 s and 4 requests", facts, "refuted") == [
        ("address", "10.0.0.7")
    ]
    assert set(chance_acceptance(facts).values()) == {None}


def test_chance_acceptance_is_counted_by_the_rules_themselves(facts):
    """By hand: one of the counts 0 to 11 is right; four statuses of 500; nothing is checked of a share."""
    shares = chance_acceptance(facts)
    assert shares["count alone in its clause"] == pytest.approx(1 / 12)
    assert shares["status"] == pytest.approx(4 / 500)
    assert shares["packet number"] == pytest.approx(11 / 12)
    assert shares["count among other words"] == pytest.approx(
        (12 + 5 + 5) / 36
    )  # up to all packets, requests, replies
    assert (shares["time"], shares["size"], shares["share"], shares["other number"]) == (1, 1, 1, 1)
    assert shares["port"] < 0.02
    without = facts.frame.drop(columns=["status", "source_port"])
    assert chance_acceptance(Facts("part", without.to_csv(index=False), without))["status"] is None


@pytest.mark.parametrize(
    "text",
    ["a." * 6_000, "1." * 6_000, "1," * 6_000, "123 " * 2_500, "123," * 2_500, "http://" * 5_000,
     "(" * 20_000 + "/a" + ")" * 20_000, ":" * 15_000, "status " * 5_000, "one " * 5_000, "no " * 5_000,
     "status 200, 201 and " * 2_000, "\0" * 15_000, "packet 3 " * 3_000, "two and a half " * 2_000,
     *(pytest.param(text, marks=pytest.mark.full)
       for text in ("1 " * 6_000, "port 1, " * 5_000, "/a " * 5_000, "1 get " * 5_000))],
)  # fmt: skip
def test_hostile_answers_are_read_in_no_time(text, facts):
    start = time.process_time()
    screen(text, facts, "How many HTTP requests does the sample hold?")
    assert time.process_time() - start < 5


@pytest.mark.parametrize(("text", "expected"), CASES["mentions"])
def test_mentions_are_found_with_their_places(text, expected):
    found = scan(text)[0]
    assert [[mention.kind, mention.value] for mention in found] == expected
    assert all(text[mention.start : mention.end] == mention.text for mention in found)


@pytest.mark.parametrize(("text", "values"), CASES["numbers"])
def test_numbers_are_read_as_they_are_written(text, values):
    assert [pytest.approx(number.values[0]) for number in numbers(text)] == values


def test_a_number_that_can_be_read_in_two_ways_has_both_readings():
    """A comma or point before three digits is a mark of thousands or of decimals."""
    assert [numbers(text)[0].values for text in ("1,234 s", "45.706 bytes", "1.97 s")] == [
        (1234.0, 1.234), (45706.0, 45.706), (1.97,)
    ]  # fmt: skip


def test_a_cell_that_goes_on_is_no_fact_and_what_it_may_be_is_not_refuted() -> None:
    """Of a capture with a snap length: neither its beginning nor a count that rests on it decides anything."""
    whole = [
        (1, "GET", "shop.example", "/start", "HTTP"),
        (2, "GET", "internal.example", "/admin/login", "HTTP"),
    ]
    cut = [whole[0], (2, "GET", "interna[cut]", "/admin/log[cut]", "TCP[cut]")]
    names = ["number", "method", "host", "uri", "protocol"]
    frames = [pd.DataFrame(rows, columns=names) for rows in (whole, cut)]
    full, part = (Facts("s", frame.to_csv(index=False), frame) for frame in frames)
    answer = "internal.example is asked for /admin/login by GET, and shop.example for /start over HTTP."
    assert in_state(answer, full, "refuted") == in_state(answer, part, "refuted") == []
    assert set(part.rows["path"]) == {"/start"}
    assert part.cut == {"host", "uri", "protocol"}
    assert "/admin" not in part.text
    assert len(in_state("It asks evil.example for /other.", full, "refuted")) == 2
    answer = "There are 7 HTTP requests with GET."
    assert [in_state(answer, facts, "refuted") for facts in (full, part)] == [[("count", "7")], []]

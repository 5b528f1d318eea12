"""Evidence of hallucination: what an answer claims, what the sample holds, and what is left alone as unclear."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from toolkit.traffic.evidence import evidence
from toolkit.traffic.mentions import numbers, scan
from toolkit.traffic.sample import Facts

CASES = tomllib.loads((Path(__file__).parent / "data" / "cases.toml").read_text("utf-8"))
HOW_MANY = "How many HTTP requests does the sample hold? Answer with the number only."
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
    frame = frame.astype(dict.fromkeys(("source_port", "destination_port", "stream", "status"), "Int64"))
    return Facts("shop", frame.to_csv(index=False), frame)


HOW_MANY = "How many HTTP requests does the sample hold? Answer with the number only."


@pytest.mark.parametrize("answer", CASES["held"])
def test_what_the_sample_holds_or_what_follows_from_it_is_held(answer, facts):
    claims = evidence(answer, facts)
    assert claims
    assert [claim for claim in claims if not claim.held] == []


@pytest.mark.parametrize(("answer", "kind", "text"), CASES["invented"])
def test_what_the_sample_does_not_hold_is_invented(answer, kind, text, facts):
    """Exactly one claim of each answer is invented, and it says where it stands."""
    invented = [claim for claim in evidence(answer, facts) if not claim.held]
    assert [(claim.kind, claim.text) for claim in invented] == [(kind, text)]
    assert answer[invented[0].position :].startswith(text)


@pytest.mark.parametrize("answer", CASES["unclear"])
def test_an_unclear_claim_is_no_hallucination(answer, facts):
    """What is denied, supposed, usual, approximate or something else altogether is left alone."""
    assert [claim for claim in evidence(answer, facts) if not claim.held] == []


def test_what_the_question_names_is_never_invented(facts):
    """A question may hold what the sample does not, and an answer may repeat it."""
    question = "Did 8.8.8.8 ask evil.example for /admin on port 443 with status 418 in 99 requests?"
    answer = "Yes: 8.8.8.8 asked evil.example for /admin on port 443 with status 418 in 99 requests."
    assert all(claim.held for claim in evidence(answer, facts, question))
    assert len([claim for claim in evidence(answer, facts) if not claim.held]) == 6
    # A key that knows more than the sample's columns is right.
    assert [evidence("/other", facts, "", known)[0].held for known in ("/other", "")] == [True, False]


@pytest.mark.parametrize(("answer", "question", "expected"), CASES["bare"])
def test_a_bare_number_means_what_the_question_asks_for(answer, question, expected, facts):
    """A model that is told to answer with the number only is held to the same as one that writes a sentence."""
    claims = evidence(answer, facts, question)
    assert [[claim.kind, claim.text, claim.held] for claim in claims] == expected


def test_a_sample_without_columns_holds_nothing_and_breaks_nothing():
    """Columns can be chosen, so every one of them may be absent; an empty sample has a count of 0."""
    facts = Facts("empty", "number\n", pd.DataFrame({"number": []}))
    assert (facts.addresses, facts.hosts, facts.paths, facts.ports) == (frozenset(),) * 4
    assert facts.counts == {0}
    assert not evidence("10.0.0.7", facts)[0].held


def test_counts_follow_from_the_sample_by_hand(facts):
    """Rows, requests, requests of a method, statuses beyond 399, packets of an address: counted by hand."""
    assert {11, 4, 3, 1, 2, 6, 10} <= facts.counts
    assert max(facts.counts) < 23
    assert facts.statuses == {200, 301, 404, 500}
    assert facts.ports == {8080, 50301, 50302, 50303}


@pytest.mark.parametrize(
    "text",
    ["a." * 15_000, "1." * 15_000, "http://" * 5_000, "(" * 20_000 + "/a" + ")" * 20_000, ":" * 30_000,
     "port 1, " * 5_000, "status " * 5_000, "one " * 10_000, "/a " * 10_000, "no " * 10_000, "1 get " * 5_000,
     "status 200, 201 and " * 2_000, "\0" * 30_000],
)  # fmt: skip
def test_hostile_answers_are_read_in_no_time(text, facts):
    start = time.process_time()
    evidence(text, facts, HOW_MANY)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(("text", "expected"), CASES["mentions"])
def test_mentions_are_found_with_their_places(text, expected):
    found = scan(text)[0]
    assert [[mention.kind, mention.value] for mention in found] == expected
    assert all(text[mention.start : mention.end] == mention.text for mention in found)


@pytest.mark.parametrize(("text", "values"), CASES["numbers"])
def test_numbers_are_read_as_they_are_written(text, values):
    assert [pytest.approx(number.values[0]) for number in numbers(text)] == values


def test_a_cell_that_goes_on_is_no_fact_and_what_it_may_be_is_not_invented() -> None:
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
    assert {claim.held for claim in evidence(answer, full)} == {True}
    assert [(c.text, c.held) for c in evidence(answer, part)] == [
        ("GET", True), ("shop.example", True), ("/start", True)
    ]  # fmt: skip
    assert evidence("It asks interna for /admin/log.", part) == ()
    assert part.paths == {"/start"}
    assert "/admin" not in part.text
    assert [c.held for c in evidence("It asks evil.example for /other.", part)] == [False, False]
    assert [c.held for c in evidence("There are 7 HTTP requests with GET.", full) if c.held is False]
    assert not [c for c in evidence("There are 7 HTTP requests with GET.", part) if not c.held]

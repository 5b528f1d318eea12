"""Evidence of hallucination: what an answer claims, what the sample holds, and what is left alone as unclear."""

from __future__ import annotations

import time

import pandas as pd
import pytest

from toolkit.traffic.evidence import evidence
from toolkit.traffic.mentions import numbers, scan
from toolkit.traffic.sample_facts import Facts

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

HELD = [
    "10.0.0.7 asks 198.51.100.30.", "The server is http://shop.example:8080/start?",
    "Its address is FE80:0:0:0:0:0:0:1.", "198.51.100.30:8080 answers", "Everything lies in 10.0.0.0/8.",
    "It asks /start, /search?q=%27+OR+1 and `/`.", "It asks /search?q=' OR 1.", "It asks /search and /SEARCH/.",
    "It reads pictures under /images/.", "It reads /ima* and /images/...", "status 200",
    "Status codes 200, 301, 404 and 500.", "HTTP 404", "404 Not Found", "returned 500", "port 8080",
    "ports 50301, 50302 and 50303", "TCP/8080", '{"port": 8080, "status": 200}',
    "There are 11 packets and 4 requests.", "three GET requests and one POST request",
    "2 different user agents, 3 TCP streams", "eleven rows", "6 packets of stream 0", "4 HTTP requests",
    "404 responses",
]  # fmt: skip
INVENTED = [
    ("10.9.9.9 asks.", "address", "10.9.9.9"), ("The attacker is 10.0.0.77.", "address", "10.0.0.77"),
    ("It also asks 2001:db8::99.", "address", "2001:db8::99"),
    ("It lies in 172.16.0.0/12.", "address", "172.16.0.0/12"),
    ("So [198.51.100.31](http://shop.example) answers", "address", "198.51.100.31"),
    ("The host is evil.example.", "host", "evil.example"),
    ("The host is shop.example.com", "host", "shop.example.com"),
    ("It asks www.shop.example", "host", "www.shop.example"), ("`host`: c2.top", "host", "c2.top"),
    ("https://update-service.zip", "host", "update-service.zip"),
    ("See below. It asks evil.example.", "host", "evil.example"),
    ("No, it asks evil.example", "host", "evil.example"),
    ("The server does not answer, but it asks evil.example", "host", "evil.example"),
    ("It asks /admin", "path", "/admin"), ("It asks `/wp-login.php`.", "path", "/wp-login.php"),
    ("It asks /starting", "path", "/starting"), ("It asks /search?q=2", "path", "/search?q=2"),
    ("GET /login HTTP/1.1", "path", "/login"), ("http://shop.example/login", "path", "/login"),
    ("status 403", "status", "403"), ("The status codes are 200, 302 and 404.", "status", "302"),
    ("HTTP 418", "status", "418"), ("302 Found", "status", "302"),
    ("The server returned a status code of 503.", "status", "503"), ('{"status": 201}', "status", "201"),
    ("port 443", "port", "443"), ("ports 8080 and 8443", "port", "8443"),
    ("198.51.100.30:9999", "port", "9999"), ('{"port": 50399}', "port", "50399"),
    ('{"source_port": 50399}', "port", "50399"), ('{"http_statusCode": 201}', "status", "201"),
    ("UDP/53", "port", "53"), ("There are 99 requests.", "count", "99"),
    ("It holds 1,024 packets", "count", "1,024"), ("nineteen HTTP requests", "count", "nineteen"),
    ("It was asked 37 times", "count", "37"), ("42 different TCP streams", "count", "42"),
    ("599 responses", "count", "599"), ("about 99 requests", "count", "99"),
    ("more than 99 packets", "count", "99"), ("the first 99 packets", "count", "99"),
    ("10-99 requests", "count", "99"), ("packet 99 requests nothing", "packet", "99"),
    ("the agent is Chrome/120.0.0.0", "product", "Chrome/120.0.0.0"),
    ("00:11:22:33:44:55 asks", "mac", "00:11:22:33:44:55"), ("at 10:31:22", "date", "10:31:22"),
    ("It fetches setup.py", "file", "setup.py"),
]  # fmt: skip
UNCLEAR = [
    "", "I do not know.", "There is no request to 8.8.8.8.",
    "No host named evil.example occurs, nor 8.8.8.8, 1.1.1.1 or 9.9.9.9.",
    "evil.example does not appear in the sample.", "8.8.8.8 isn’t in it",
    "If it had asked evil.example, that would matter.", "For example, 203.0.113.9 could be an attacker.",
    "By default port 443 is used, and the usual status is 204.", "See https://owasp.org/injection for more.",
    "Block 203.0.113.0/24.", "The field http.host, e.g. ip.src", "HTTP/1.1 and TCP/IP and and/or 24/7",
    "Ports 49152-65535 are ephemeral.", "It tries to read /etc/passwd.", "std::vector",
    "It returned 150 bytes after 300 ms.", "99 bytes in 99 seconds", "99", "The log ends.It shows nothing",
    "mail to admin@evil.example", "*.evil.example", "version 1.2.3.4.5", "300.300.300.300",
]  # fmt: skip


@pytest.mark.parametrize("answer", HELD)
def test_what_the_sample_holds_or_what_follows_from_it_is_held(answer, facts):
    claims = evidence(answer, facts)
    assert claims
    assert [claim for claim in claims if not claim.held] == []


@pytest.mark.parametrize(("answer", "kind", "text"), INVENTED)
def test_what_the_sample_does_not_hold_is_invented(answer, kind, text, facts):
    """Exactly one claim of each answer is invented, and it says where it stands."""
    invented = [claim for claim in evidence(answer, facts) if not claim.held]
    assert [(claim.kind, claim.text) for claim in invented] == [(kind, text)]
    assert answer[invented[0].position :].startswith(text)


@pytest.mark.parametrize("answer", UNCLEAR)
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


@pytest.mark.parametrize(("answer", "question", "expected"), [
    ("99", HOW_MANY, [("count", "99", False)]), ("**99**.", HOW_MANY, [("count", "99", False)]),
    ("4", HOW_MANY, [("count", "4", True)]), ("nineteen", HOW_MANY, [("count", "nineteen", False)]),
    ("[200, 302]", "Which status codes occur?", [("status", "200", True), ("status", "302", False)]),
    ("443", "To which port?", [("port", "443", False)]), ("99", "How many bytes does it send?", []),
    ("99", "How many seconds pass?", []),
    ("404", "How many responses have status code 404?", [("count", "404", True)]),
])  # fmt: skip
def test_a_bare_number_means_what_the_question_asks_for(answer, question, expected, facts):
    """A model that is told to answer with the number only is held to the same as one that writes a sentence."""
    claims = evidence(answer, facts, question)
    assert [(claim.kind, claim.text, claim.held) for claim in claims] == expected


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


@pytest.mark.parametrize(("text", "expected"), [
    ("http://[::1]:80/a", [("address", "::1"), ("port", "80"), ("path", "/a")]),
    ("http://a.example/a(b)", [("host", "a.example"), ("path", "/a(b)")]),
    ("(http://a.example/a)", [("host", "a.example"), ("path", "/a")]), ("<a href='/x'>", [("path", "/x")]),
    ("</b> //x ../y", []), ("10.0.0.7/24 /24", [("network", "10.0.0.7/24")]),
    ("GET / HTTP/1.1", [("path", "/")]),
])  # fmt: skip
def test_mentions_are_found_with_their_places(text, expected):
    found = scan(text)[0]
    assert [(one.kind, one.value) for one in found] == expected
    assert all(text[one.start : one.end] == one.text for one in found)


@pytest.mark.parametrize(("text", "values"), [
    ("1,234.5", [1234.5]), ("−3", [-3]), ("3-4", [3, 4]), ("1e3", [1000]), ("5 ms", [0.005]), ("5 min", [300]),
    ("5k", [5000]), ("the 5th of 0x5 in a5", []), ("2024-05-06 10:11:12", []), ("one of them", [1]),
    ("one of 7", [7]), ("three-way", []), ("ninety-nine", [99]), ("50%", [50]),
])  # fmt: skip
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

"""Answer keys at the edges: what counts as the expected answer, what does not, and what is left undecided."""

from __future__ import annotations

import time

import pytest

from toolkit.errors import InputError
from toolkit.traffic.questions import AnswerKey, answer_key, matches

HOST = AnswerKey("exact", "intranet.example")
PATH = AnswerKey("exact", "/news")
ADDRESS = AnswerKey("exact", "203.0.113.66")
AGENT = AnswerKey("exact", "Wget/1.21.4")
BROWSER = AnswerKey("exact", "Mozilla/5.0 (X11; Linux x86_64)")
METHOD = AnswerKey("exact", "POST")
MEDIA = AnswerKey("exact", "application/x-www-form-urlencoded")
WORD = AnswerKey("exact", "beaconing")
TWELVE = AnswerKey("number", 12)
ZERO = AnswerKey("number", 0)
LARGE = AnswerKey("number", 1234567)
SECONDS = AnswerKey("number", 1.3, 0.05)
CODES = AnswerKey("set", (200, 302, 401))
PATHS = AnswerKey("set", ("/", "/news", "/health"))
METHODS = AnswerKey("set", ("GET", "POST"))
NOTHING = AnswerKey("set", ())
PARAMETER = AnswerKey("regex", r"(?i)\bid\b")
PORT = AnswerKey("json", 50302, field="port")
URI = AnswerKey("json", "/poll?n=6", field="uri")
LIST = AnswerKey("json", ("/a", "/b"), field="uris")
FLAG = AnswerKey("json", True, field="found")

Q_HOST = "Which host does 10.0.0.1 name beside shop.example? Answer with the host name only."
Q_COUNT = "How many of the 40 packets go to port 8080? Answer with the number only."

REPLIES = [
    (HOST, True, [
        "intranet.example", " `Intranet.Example`. ", '"intranet.example"', "**intranet.example**",
        "The host is intranet.example.", "The requests name http://intranet.example/news.",
        "10.0.0.1 names intranet.example and also shop.example.",
        "updates.example, intranet.example: hard to say.\nFinal answer: intranet.example",
        "The answer is **intranet.example**, seen beside updates.example", "int\u200branet.example",
    ]),
    (HOST, False, [
        "intranet.example or updates.example", "The hosts are intranet.example and updates.example.",
        "It is not intranet.example.", "It isn’t intranet.example", "www.intranet.example",
        "intranet.example.org", "intranet", "I do not know.",
        "Answer: updates.example\nI first thought of intranet.example", "", "  \n",
    ]),
    (PATH, True, ["/news", "The path is /news.", "GET /news HTTP/1.1"]),
    (PATH, False, ["/news?page=2", "/newsletter", "/news, then /health"]),
    (ADDRESS, True, ["203.0.113.66", "The attacker is 203.0.113.66 (port 4444)."]),
    (ADDRESS, False, ["203.0.113.6", "203.0.113.66 or 203.0.113.67"]),
    (AnswerKey("exact", "fe80::1"), True, ["It is FE80:0:0:0:0:0:0:1."]),
    (AGENT, True, ["wget/1.21.4", "The user agent is Wget/1.21.4."]),
    (AGENT, False, ["Wget/1.21", "Wget/1.21.4 or curl/8.5.0"]),
    (BROWSER, True, ["User agent: mozilla/5.0 (X11;  Linux x86_64)"]),
    (BROWSER, False, ["Mozilla/5.0 (X11; Linux x86_64) and curl/8.5.0", "Mozilla/5.0"]),
    (METHOD, True, ["The method is POST", "POST, never GET"]),
    (MEDIA, True, ["It is application/x-www-form-urlencoded."]),
    (MEDIA, False, ["application/json"]),
    (WORD, True, ["This is beaconing."]),
    (WORD, False, ["This is not beaconing.", "beaconing or scanning", "beaconing " + "and much more " * 20]),
    (TWELVE, True, [
        "12", "12.0", "Twelve.", "There are 12 packets to port 8080.", "12 of the 40 packets",
        "There are 12 requests: 8 GET and 4 POST.", "**12** (8 GET and 4 POST)", "8 + 4\nAnswer: 12",
        "12, not 13", "8 GET and 4 POST requests, so 12",
    ]),
    (TWELVE, False, [
        "There are 8 GET and 12 POST.", "12 or 13", "12-13", "not 12", "more than 12", "-12", "the 12th", "112",
        "one hundred and twelve", "twenty one", "10.0.0.12", "http://a.example/12", "40",
    ]),
    (ZERO, True, ["0", "zero", "None."]),
    (ZERO, False, ["none of them, or 3"]),
    (LARGE, True, ["1,234,567", "1\u202f234\u202f567 bytes"]),
    (LARGE, False, ["1234568"]),
    (SECONDS, True, ["1.3", "1.35 seconds", "1300 ms"]),
    (SECONDS, False, ["1.3 ms", "1.36"]),
    (CODES, True, [
        "[200, 302, 401]", "```json\n[401, 200, 302]\n```", "401, 302 and 200",
        "- 200 OK\n- 302 Found\n- 401 Unauthorized", "The codes are:\n1. 200 (3 times)\n2. 302\n3. 401",
        "The status codes are 200, 302 and 401.",
    ]),
    (CODES, False, ["[200, 302]", "[200, 302, 401, 404]", "200, 302, but not 401"]),
    (PATHS, True, [
        '["/", "/news", "/health"]', '["/health", "/news", "/", "/news"]', "/news, /health, /",
        "- `/`\n- `/news`\n- `/health`", "The paths are `/`, `/news` and `/health`.",
        '["/news"] and ["/", "/health"]',
    ]),
    (PATHS, False, ['["/", "/news", "/health", "/admin"]']),
    (METHODS, True, ["GET and POST", "GET (5), POST (2)"]),
    (METHODS, False, ["GET, POST, HEAD"]),
    (NOTHING, True, ["[]", "None"]),
    (NOTHING, False, ["/a"]),
    (PARAMETER, True, ["The parameter is ID."]),
    (PARAMETER, False, ["idle"]),
    (PORT, True, ['{"port": 50302}', 'Sure:\n```json\n{"port": "50302"}\n```\nDone {']),
    (PORT, False, [
        '{"port": 50302, "port": 1}', '{"port": 50302} {"port": 50303}', '{"port": null}', '{"port": true}',
        '{"source_port": 50302}', "50302", '{"port": 50302',
    ]),
    (URI, True, ['{"uri": "/poll?n=6"}']),
    (URI, False, ['{"uri": "/poll?n=7"}']),
    (LIST, True, ['{"uris": ["/b", "/a"]}']),
    (LIST, False, ['{"uris": "/a, /b"}']),
    (FLAG, True, ['{"found": true}']),
    (FLAG, False, ['{"found": 1}']),
]  # fmt: skip
REPLY_ROWS = [(key, text, expected) for key, expected, texts in REPLIES for text in texts]


@pytest.mark.parametrize(
    ("key", "text", "expected"), REPLY_ROWS, ids=[f"{k.kind}-{t[:40]!r}" for k, t, _ in REPLY_ROWS]
)
def test_a_reply_gives_the_expected_answer_or_not(key, text, expected):
    question = Q_HOST if key is HOST else Q_COUNT if key in (TWELVE, ZERO) else ""
    match = matches(key, text, question)
    assert match.matched is expected, match
    assert match.why


def test_a_unit_is_what_the_question_asks_for_and_a_kilobyte_may_be_1000_or_1024_bytes():
    key = AnswerKey("number", 350, 1)
    assert matches(key, "350 ms", "How many ms?").matched
    assert not matches(key, "350 ms", "How many seconds?").matched
    for value in (2000, 2048):
        assert matches(AnswerKey("number", value), "2 KB", "How many bytes?").matched


def test_what_a_judge_must_decide_or_no_pattern_can_stays_undecided(monkeypatch):
    """A pattern that never ends or a reply too long for it is neither a match nor a miss; an empty reply is none."""
    key = AnswerKey("judge", "It says that this is a beacon.")
    assert matches(key, "A beacon.").matched is None
    assert matches(key, " ").matched is False
    monkeypatch.setattr("toolkit.traffic.questions.REGEX_SECONDS", 0.05)
    slow = matches(AnswerKey("regex", r"(x+x+)+y"), "x" * 5000)
    long = matches(PARAMETER, "id " * 10_000)
    assert slow.matched is long.matched is None
    assert "longer than" in slow.why
    assert "20000 characters" in long.why
    assert matches(AnswerKey("regex", r"^(a|aa)+(b|bb)+\1+$(c)"), "a" * 5000 + "!").matched is not True


@pytest.mark.parametrize(
    "text",
    ["{" * 30_000, '{"a":' * 3_000, "[" * 30_000, "a." * 15_000, "1," * 15_000, "(" * 30_000, "/a " * 10_000,
     "answer is " * 3_000, "- " * 15_000, "not " * 10_000, "**a" * 10_000, ":" * 30_000, "\0" * 30_000],
)  # fmt: skip
def test_hostile_replies_are_read_in_no_time(text):
    start = time.process_time()
    for key in (HOST, PATH, AGENT, BROWSER, TWELVE, CODES, PATHS, METHODS, PORT, WORD):
        assert matches(key, text, Q_HOST).matched is False
    assert time.process_time() - start < 10


def test_a_key_of_a_question_file_is_checked_and_frozen():
    assert answer_key({"kind": "set", "value": ["/a"]}, "q") == AnswerKey("set", ("/a",))
    assert answer_key({"kind": "number", "value": 3, "tolerance": 1}, "q") == AnswerKey("number", 3, 1.0)
    assert answer_key({"kind": "set", "value": [1, 2]}, "q").texts() == ("1", "2")
    assert answer_key({"kind": "regex", "value": "a|b"}, "q").texts() == ()


@pytest.mark.parametrize(("data", "said"), [
    ({}, "a value and a kind"), ("text", "a value and a kind"), ({"kind": "exact"}, "a value and a kind"),
    ({"kind": "like", "value": "a"}, "exact, number, set"), ({"kind": "exact", "value": ""}, "must be a text"),
    ({"kind": "exact", "value": 3}, "must be a text"),
    ({"kind": "exact", "value": "a", "tolerance": 1}, "no 'tolerance'"),
    ({"kind": "number", "value": "3"}, "finite number"), ({"kind": "number", "value": True}, "finite number"),
    ({"kind": "number", "value": float("nan")}, "finite number"),
    ({"kind": "number", "value": 3, "tolerance": -1}, "0 or more"),
    ({"kind": "set", "value": "/a"}, "list of texts"), ({"kind": "set", "value": [["/a"]]}, "list of texts"),
    ({"kind": "json", "value": 3}, "name of a field"),
    ({"kind": "json", "value": {"a": 1}, "field": "x"}, "text, a number"),
    ({"kind": "regex", "value": "("}, "does not compile"),
])  # fmt: skip
def test_a_key_that_cannot_be_used_is_refused_in_one_line(data, said):
    with pytest.raises(InputError, match=said) as caught:
        answer_key(data, "question q1")
    assert str(caught.value).startswith("question q1")
    assert "\n" not in str(caught.value)

"""Answer keys at the edges: what counts as the expected answer, what does not, and what is left undecided."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest

from toolkit.traffic.questions import AnswerKey, answer_key, matches

CASES = tomllib.loads((Path(__file__).parent / "data" / "cases.toml").read_text("utf-8"))["key"]
KEYS = [answer_key(row["key"]) for row in CASES]
PARAMETER = AnswerKey("regex", r"(?i)\bid\b")
ROWS = [
    (key, text, row.get("question", ""), side == "right")
    for key, row in zip(KEYS, CASES, strict=True)
    for side in ("right", "wrong")
    for text in row.get(side, ())
]


@pytest.mark.parametrize(
    ("key", "text", "question", "expected"), ROWS, ids=[f"{row[0].kind}-{row[1][:40]!r}" for row in ROWS]
)
def test_a_reply_gives_the_expected_answer_or_not(key, text, question, expected):
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
    ['{"a":' * 3_000, "a." * 6_000, "1," * 6_000, "(" * 12_000, "answer is " * 1_500, "- " * 6_000, "not " * 4_000,
     "**a" * 4_000, *(pytest.param(text, marks=pytest.mark.full)
       for text in ("{" * 12_000, "[" * 12_000, "/a " * 4_000, ":" * 12_000, "\0" * 12_000))],
)  # fmt: skip
def test_hostile_replies_are_read_in_no_time(text):
    start = time.process_time()
    for row, key in zip(CASES, KEYS, strict=True):
        if key.kind != "regex" and key.value not in ((), 0):
            assert matches(key, text, row.get("question", "")).matched is False
    assert time.process_time() - start < 10


def test_a_key_of_a_question_file_is_checked_and_frozen():
    assert answer_key({"kind": "set", "value": ["/a"]}) == AnswerKey("set", ("/a",))
    assert answer_key({"kind": "number", "value": 3, "tolerance": 1}) == AnswerKey("number", 3, 1.0)
    assert answer_key({"kind": "set", "value": [1, 2]}).texts() == ("1", "2")
    assert answer_key({"kind": "regex", "value": "a|b"}).texts() == ()


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
    with pytest.raises(ValueError, match=said) as caught:
        answer_key(data)
    assert "\n" not in str(caught.value)

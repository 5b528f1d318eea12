"""Judge replies as they really come: each gives the right scores or the right reason, none an exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.judges.parse import REASONS, parse_judgement
from toolkit.judges.rubric import load_rubric
from toolkit.words import DIMENSIONS

SCORES = dict(zip(DIMENSIONS, [4.2, 4.5, 4.1, 4.3, 4.0, 4.4, 4.6], strict=True))
GOOD = json.dumps(SCORES)
FIRST, *OTHERS = DIMENSIONS


def with_raw(value: str) -> str:
    """Return a full answer whose clarity is this raw text."""
    return GOOD.replace("4.6", value)


READABLE = {
    "compact": GOOD,
    "pretty": json.dumps(SCORES, indent=2),
    "space around": f"\n\n  {GOOD} \r\n\t",
    "json fence": f"```json\n{GOOD}\n```",
    "JSON fence": f"```JSON\n{GOOD}\n```",
    "bare fence": f"```\n{GOOD}\n```",
    "windows fence": f"```json\r\n{GOOD}\r\n```\r\n",
    "fence on one line": f"```json {GOOD} ```",
    "other order": json.dumps(dict(reversed(SCORES.items()))),
    "exponents": with_raw("46e-1"),
}


@pytest.mark.parametrize("text", READABLE.values(), ids=READABLE)
def test_exactly_one_object_is_read(text, default):
    parsed = parse_judgement(text, default)
    assert parsed.scores == SCORES
    assert list(parsed.scores) == list(DIMENSIONS)
    assert parsed.reason is None


@pytest.mark.parametrize(("raw", "score"), [("0", 0.0), ("5", 5.0), ("-0", 0.0), ("5.0", 5.0), ("-0.0", 0.0)])
def test_the_ends_of_the_scale_count_and_zero_has_no_sign(raw, score, default):
    clarity = parse_judgement(with_raw(raw), default).scores["clarity"]
    assert (clarity, str(clarity)) == (score, str(score))


UNREADABLE = {
    "nothing": ("", "empty"),
    "only space": (" \n\t ", "empty"),
    "empty fence": ("```json\n```", "empty"),
    "prose": ("The reply is good, I would give it four.", "prose"),
    "prose before": (f"Here are the scores:\n{GOOD}", "prose"),
    "prose and fence": (f"Sure!\n```json\n{GOOD}\n```", "prose"),
    "fence and prose": (f"```json\n{GOOD}\n```\nI hope this helps.", "prose"),
    "open fence": (f"```json\n{GOOD}", "prose"),
    "number and prose": ("4 out of 5", "prose"),
    "german": ("Die Antwort ist gut: Klarheit 4, Relevanz 5.", "prose"),
    "japanese": ("回答は良いです。", "prose"),
    "refusal in words": ("I'm sorry, but I cannot evaluate this response.", "prose"),
    "byte order mark": ("\ufeff" + GOOD, "prose"),
    "prose after": (f"{GOOD}\nThe reply is clear.", "trailing text"),
    "trailing brace": (GOOD + "}", "trailing text"),
    "trailing comma": (GOOD + ",", "trailing text"),
    "two fences": (f"```json\n{GOOD}\n```\nor\n```json\n{GOOD}\n```", "trailing text"),
    "two objects": (GOOD + GOOD, "two objects"),
    "two lines of objects": (f"{GOOD}\n{GOOD}", "two objects"),
    "list": (f"[{GOOD}]", "not an object"),
    "bare number": ("4.5", "not an object"),
    "bare string": ('"4.5"', "not an object"),
    "null": ("null", "not an object"),
    "cut in a number": (GOOD[: GOOD.index("4.4") + 3], "truncated"),
    "cut in a key": (GOOD[: GOOD.index("relevance") + 3], "truncated"),
    "cut after a comma": (GOOD[: GOOD.index(' "relevance')], "truncated"),
    "only a brace": ("{", "truncated"),
    "comma inside": (with_raw("4.6,"), "malformed"),
    "decimal comma": (with_raw("4,5"), "malformed"),
    "bare fraction": (with_raw("4/5"), "malformed"),
    "single quotes": (GOOD.replace('"', "'"), "malformed"),
    "bare keys": (GOOD.replace('"', ""), "malformed"),
    "comments": (GOOD.replace("{", "{ // scores\n"), "malformed"),
    "leading zero": (with_raw("04"), "malformed"),
    "plus sign": (with_raw("+4"), "malformed"),
    "python None": (with_raw("None"), "malformed"),
    "fraction": (with_raw('"5/5"'), "not a number"),
    "string": (with_raw('"4"'), "not a number"),
    "empty string": (with_raw('""'), "not a number"),
    "n/a": (with_raw('"N/A"'), "not a number"),
    "null score": (with_raw("null"), "not a number"),
    "true": (with_raw("true"), "not a number"),
    "false": (with_raw("false"), "not a number"),
    "NaN": (with_raw("NaN"), "nan"),
    "nine": (with_raw("9.0"), "out of scale"),
    "just above": (with_raw("5.0001"), "out of scale"),
    "negative": (with_raw("-1"), "out of scale"),
    "percent": (with_raw("85"), "out of scale"),
    "infinity": (with_raw("Infinity"), "out of scale"),
    "minus infinity": (with_raw("-Infinity"), "out of scale"),
    "overflow": (with_raw("1e999"), "out of scale"),
    "five thousand digits": (with_raw("4" * 5000), "out of scale"),
    "six of seven": (json.dumps(dict.fromkeys(OTHERS, 4)), "missing dimension"),
    "none of seven": ("{}", "missing dimension"),
    "another case": (GOOD.replace("clarity", "Clarity"), "extra key"),
    "eighth dimension": (json.dumps({**SCORES, "overall": 4}), "extra key"),
    "composite too": (json.dumps({**SCORES, "composite": 4.3}), "extra key"),
    "reasons not text": (json.dumps({"reasons": 4, **SCORES}), "extra key"),
    "nested scores": (json.dumps({"scores": SCORES}), "nested"),
    "nested score": (json.dumps({**SCORES, FIRST: {"score": 4, "reason": "x"}}), "nested"),
    "score in a list": (with_raw("[4]"), "nested"),
    "reasons in a list": (json.dumps({"reasons": ["a"], **SCORES}), "nested"),
    "twice the same key": (GOOD[:-1] + ', "clarity": 1}', "duplicate key"),
    "very deep list": ("[" * 200_000, "too deep"),
    "very deep object": ('{"a":' * 200_000, "too deep"),
}


@pytest.mark.parametrize(("text", "word"), UNREADABLE.values(), ids=UNREADABLE)
def test_anything_else_is_missing_with_its_reason(text, word, default):
    parsed = parse_judgement(text, default)
    assert parsed.scores is None
    assert parsed.reason.split(":")[0] == word
    assert word in REASONS
    assert len(parsed.reason) < 200


def test_the_detail_names_the_dimension_and_the_value(default):
    assert (
        parse_judgement(with_raw("9.0"), default).reason == "out of scale: clarity is 9, the scale is 0 to 5"
    )
    six = json.dumps(dict.fromkeys(OTHERS, 4))
    assert parse_judgement(six, default).reason == f"missing dimension: {FIRST}"


@pytest.mark.parametrize("key", ["reasons", "reason"])
def test_reasons_are_kept_when_they_were_asked_for_and_refused_when_not(key, default, seed_v1):
    text = json.dumps({key: "Clear, but cites nothing.", **SCORES})
    parsed = parse_judgement(text, default)
    assert (parsed.scores, parsed.reasons) == (SCORES, "Clear, but cites nothing.")
    assert parse_judgement(text, seed_v1).reason == f"extra key: '{key}'"


def test_scores_without_reasons_count(default):
    assert parse_judgement(GOOD, default).reasons is None


def test_reasons_that_no_encoding_can_hold_are_made_storable(default):
    text = '{"reasons": "bad \\ud800 half",' + GOOD[1:]
    assert parse_judgement(text, default).reasons == "bad ? half"


@pytest.mark.parametrize(
    ("text", "finish", "word"),
    [
        (GOOD[:-8], "length", "truncated"),
        ("The reply is", "length", "truncated"),
        ("", "length", "truncated"),
        (f"```json\n{GOOD[:-8]}", "length", "truncated"),
        (GOOD, "refusal", "refusal"),
        ("I cannot help with that.", "refusal", "refusal"),
        ("", "filter", "filtered"),
    ],
)
def test_how_the_reply_ended_decides_the_reason(text, finish, word, default):
    parsed = parse_judgement(text, default, finish)
    assert (parsed.scores, parsed.reason.split(":")[0]) == (None, word)


@pytest.mark.parametrize("finish", ["stop", "length", "other"])
def test_a_complete_object_counts_however_the_provider_says_it_ended(finish, default):
    assert parse_judgement(GOOD, default, finish).scores == SCORES


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
OBJECTS = st.dictionaries(st.sampled_from([*DIMENSIONS, "reasons", "x"]), VALUES).map(json.dumps)
PIECES = st.sampled_from(
    ["{", "}", "[", "]", '"', ",", ":", "```", "json", "\n", "4", "NaN", "\\u", "\ud800", GOOD]
)


@settings(deadline=None, derandomize=True)
@given(
    st.one_of(st.text(), OBJECTS, st.lists(PIECES).map("".join)),
    st.sampled_from(["stop", "length", "filter", "refusal", "other", ""]),
)
def test_no_text_raises_and_none_gives_a_score_off_the_scale(text, finish):
    parsed = parse_judgement(text, load_rubric("default"), finish)
    if parsed.scores is None:
        assert parsed.reason.split(":")[0] in REASONS
        parsed.reason.encode("utf-8")
    else:
        assert parsed.reason is None
        assert set(parsed.scores) == set(DIMENSIONS)
        assert all(0 <= score <= 5 for score in parsed.scores.values())


@settings(deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from(DIMENSIONS), st.floats(0, 5), min_size=7))
def test_scores_on_the_scale_come_back_as_they_were_written(scores):
    assert parse_judgement(json.dumps(scores), load_rubric("default")).scores == scores

"""Judge replies as they really come: each gives the right scores or findings, or the right reason."""

import json
import random
import time

import pytest
from cases import cases
from hypothesis import given
from hypothesis import strategies as st

from toolkit.files.reading import TooDeep
from toolkit.judges.parse import Unreadable, json_objects, marked_pairs, parse_judgement
from toolkit.judges.per_sentence import (
    MOST_FINDINGS,
    bounded_score,
    findings_schema,
    parse_findings,
)
from toolkit.judges.request import answer_schema
from toolkit.judges.rubric import load_rubric
from toolkit.models.scripted import example_of
from toolkit.words import DIMENSIONS

CASES = cases(__file__)

DEFAULT, SEED_V1 = load_rubric("default"), load_rubric("seed-v1")
SCORES = dict(zip(DIMENSIONS, [4.2, 4.5, 4.1, 4.3, 4.0, 4.4, 4.6], strict=True))
GOOD = json.dumps(SCORES)


def read(text, finish_reason="stop"):
    return parse_judgement(text, DEFAULT, finish_reason)


def why(text, finish_reason="stop", rubric=DEFAULT):
    with pytest.raises(Unreadable) as caught:
        parse_judgement(text, rubric, finish_reason)
    return str(caught.value)


def with_raw(value):
    """A full answer whose clarity is this raw text."""
    return GOOD.replace("4.6", value)


def whole(texts):
    """Return texts of the cases, in which the word GOOD stands for a good answer."""
    return [text.replace("GOOD", GOOD) for text in texts]


UNREADABLE = {word: whole(texts) for word, texts in CASES["unreadable"].items()}
UNREADABLE["out of scale"].append(with_raw("4" * 5000))
UNREADABLE["too deep"] = ["[" * 200_000, '{"a":' * 200_000]


@pytest.mark.parametrize("text", whole(CASES["readable"]))
def test_exactly_one_object_is_read(text):
    scores = read(text).scores
    assert scores == SCORES
    assert list(scores) == list(DIMENSIONS)


@pytest.mark.parametrize("word", UNREADABLE)
def test_anything_else_is_missing_with_its_reason(word):
    for text in UNREADABLE[word]:
        reason = why(text)
        assert (reason.split(":")[0], len(reason) < 200) == (word, True), text[:80]


@pytest.mark.parametrize("key", ["reasons", "reason"])
def test_reasons_are_kept_when_they_were_asked_for_and_refused_when_not(key):
    text = json.dumps({key: "Clear, but cites nothing.", **SCORES})
    assert (read(text).scores, read(text).reasons) == (SCORES, "Clear, but cites nothing.")
    assert why(text, rubric=SEED_V1) == f"extra key: '{key}'"
    assert read(GOOD).reasons is None
    assert read('{"reasons": "bad \\ud800 half",' + GOOD[1:]).reasons == "bad ? half"


def test_a_reason_for_each_dimension_is_a_line_and_one_that_is_missing_is_no_fault():
    """In the order of the rubric, whatever that of the reply; a rubric that asked for none refuses them."""
    said = {
        "clarity_reason": "Short.",
        "technical_accuracy_reason": "Port 23 is \\ud800 telnet.",
        "reasons": "So so.",
    }
    text = json.dumps(said | SCORES).replace("\\\\ud800", "\\ud800")
    lines = ["technical_accuracy: Port 23 is ? telnet.", "clarity: Short.", "So so."]
    assert (read(text).scores, read(text).reasons.split("\n")) == (SCORES, lines)
    assert why(json.dumps({"clarity_reason": 4, **SCORES})) == "extra key: 'clarity_reason'"
    unjudged = dict.fromkeys(("compliance_alignment_reason", "compliance_alignment"))
    assert "compliance_alignment" not in read(json.dumps({**SCORES, **unjudged})).scores
    assert why(json.dumps({"clarity_reason": None, **SCORES})) == "extra key: 'clarity_reason'"
    assert why(json.dumps({"wit_reason": "None.", **SCORES})) == "extra key: 'wit_reason'"
    assert (
        why(json.dumps({"clarity_reason": "Short.", **SCORES}), rubric=SEED_V1)
        == "extra key: 'clarity_reason'"
    )


@pytest.mark.parametrize("name", DIMENSIONS)
def test_only_an_optional_dimension_may_be_null_and_it_must_be_there(name):
    """It is left out and never 0; the seed's rubric has none such."""
    text = json.dumps(SCORES | {name: None})
    if name == "compliance_alignment":
        assert read(text).scores == {other: score for other, score in SCORES.items() if other != name}
    else:
        assert why(text) == f"not a number: {name} is 'null'"
    assert why(text, rubric=SEED_V1) == f"not a number: {name} is 'null'"
    without = json.dumps({other: score for other, score in SCORES.items() if other != name})
    assert why(without) == f"missing dimension: {name}"
    schema = json.loads(answer_schema(DEFAULT))["properties"]
    assert (None in schema[name]["enum"]) == (schema[name]["type"] == ["number", "null"])
    assert (None in schema[name]["enum"]) == (name == "compliance_alignment")
    assert "null" not in answer_schema(SEED_V1)


@pytest.mark.parametrize("integers", [False, True])
def test_what_follows_the_schema_of_the_default_rubric_is_read(integers):
    """A reason before each score, in order; a model that answers by the schema alone is always readable."""
    schema = json.loads(answer_schema(DEFAULT, integers=integers))
    assert [*schema["properties"]] == [key for name in DIMENSIONS for key in (f"{name}_reason", name)]
    made = [read(json.dumps(example_of(schema, random.Random(seed)))) for seed in range(50)]
    assert {len(answer.scores) for answer in made} == {6, 7}
    assert all(answer.reasons.count("\n") == 6 for answer in made)
    of_seed = json.loads(answer_schema(SEED_V1))["properties"]
    assert [*of_seed] == [*DIMENSIONS]
    assert of_seed["clarity"] == {"type": "number", "enum": [step / 2 for step in range(11)]}


@pytest.mark.parametrize(("text", "finish", "word"), CASES["ended"])
def test_how_the_reply_ended_decides_the_reason(text, finish, word):
    assert why(*whole([text]), finish).split(":")[0] == word
    assert all(
        read(GOOD, end).scores == SCORES for end in ("stop", "length", "error", "unknown", "other")
    )  # complete is complete


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just([1]))
WHOLE = st.dictionaries(st.sampled_from(DIMENSIONS), st.floats(0, 5), min_size=7).map(json.dumps)
OBJECTS = WHOLE | st.dictionaries(st.sampled_from([*DIMENSIONS, "reasons", "x"]), VALUES).map(json.dumps)
PIECES = st.sampled_from([*'{}[]",:4\n', "```", "json", "NaN", "\\u", "\ud800", GOOD])


@given(
    st.one_of(st.text(), OBJECTS, st.lists(PIECES).map("".join)),
    st.sampled_from(["stop", "length", "filter", "refusal", "other", ""]),
)
def test_no_text_raises_and_none_gives_a_score_off_the_scale(text, finish):
    reason = ""
    try:
        scores = read(text, finish).scores
    except Unreadable as error:
        reason = str(error)
    else:
        assert set(DIMENSIONS) - set(scores) <= {"compliance_alignment"}
        assert all(0 <= score <= 5 for score in scores.values())
        assert not text.startswith("{") or scores.items() <= json.loads(text).items()  # as they were written
    assert not reason or reason.split(":")[0] in {*UNREADABLE, "refusal", "filtered"}
    reason.encode("utf-8")


# --- lists of findings ----------------------------------------------------------------------------------------------

NAMES = ("technical_accuracy", "clarity")
ONE = {"what": "Port 23 is telnet.", "dimension": "technical_accuracy", "severity": "major"}


def said(*items):
    return json.dumps({"findings": items})


@pytest.mark.parametrize(("text", "expected"), [
    (said(), []), (said(ONE, ONE), [ONE, ONE]), (f"```json\n{said(ONE)}\n```", [ONE]),
    (said(ONE | {"severity": " Critical", "what": ""}), [ONE | {"severity": "critical", "what": ""}]),
    (said(*[ONE] * MOST_FINDINGS), [ONE] * 8),
    (said(ONE).replace("Port 23", "\\ud800"), [ONE | {"what": "? is telnet."}]),
])  # fmt: skip
def test_a_list_of_findings_is_read(text, expected):
    assert parse_findings(text, NAMES) == expected


@pytest.mark.parametrize(("text", "reason"), CASES["faults"])  # fmt: skip
def test_what_is_no_list_of_findings_has_a_reason_and_no_finding(text, reason):
    with pytest.raises(Unreadable) as caught:
        parse_findings(text, NAMES)
    assert str(caught.value).startswith(reason)
    for finish, refused in (("refusal", "refusal"), ("filter", "filtered")):
        with pytest.raises(Unreadable, match=refused):
            parse_findings(said(), NAMES, finish)


def test_what_follows_the_schema_of_findings_is_read():
    """A model that answers by the schema alone is always readable; the schema holds names, severities and lengths."""
    schema = json.loads(findings_schema(NAMES))
    listed = schema["properties"]["findings"]
    assert (listed["minItems"], listed["maxItems"]) == (0, MOST_FINDINGS)
    item = listed["items"]["properties"]
    assert item["dimension"]["enum"] == list(NAMES)
    assert item["severity"]["enum"] == ["minor", "major", "critical"]
    assert item["what"]["maxLength"] == 160
    for part in (schema, listed["items"]):
        assert (part["required"], part["additionalProperties"]) == (list(part["properties"]), False)
    made = (json.dumps(example_of(schema, random.Random(seed))) for seed in range(50))
    assert {0, MOST_FINDINGS} <= {len(parse_findings(text, NAMES)) for text in made}


@pytest.mark.parametrize(("weight", "score"), CASES["bounded"])
def test_the_bounded_score_falls_in_a_line_and_stays_on_the_scale(weight, score):
    assert bounded_score(weight) == pytest.approx(score)


# --- objects in replies that only nearly are JSON ---------------------------------------------------------------------

HOSTILE = [
    "{" * 20_000, "{'" * 9_999, "{a:'" * 5_000, "{/*" * 6_600, "{'a':1," + "[1," * 90 + "1," * 9_000,
    '{"a":' + "'\\" * 9_000, "{“" * 9_999, '{"a": 1' + ",000" * 4_900,
]  # fmt: skip


@pytest.mark.parametrize(("text", "objects"), [*CASES["nearly"], *((text, []) for text in HOSTILE)])
def test_objects_are_read_as_they_are_meant_and_long_hostile_text_costs_nothing(text, objects):
    begin = time.process_time()
    assert json_objects(text, json.JSONDecoder(object_pairs_hook=marked_pairs)) == objects
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("text", ['{"a":' * 3_900, "{a:" * 5_000, "{'a':[" * 2_000])
def test_objects_that_are_too_deep_are_refused(text):
    with pytest.raises(TooDeep, match="deeper than 100 levels"):
        json_objects(text, json.JSONDecoder())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
)


@given(st.dictionaries(st.text(), _JSON, max_size=4), st.booleans())
def test_strict_json_is_read_as_json_reads_it(value, ascii_alone):
    text = f"It is {json.dumps(value, ensure_ascii=ascii_alone, indent=1)}."
    assert json_objects(text, json.JSONDecoder()) == [value]

"""Expected scores: the mean over the digits a judge could have written, and missing wherever that is not known."""

import copy
import json
import math

import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.judges.parse import expected_scores
from toolkit.words import DIMENSIONS

CASES = cases(__file__)

LIKELY = {"4": 0.6, "5": 0.2, "3": 0.1}


def entry(token, chances=None, *, data=None, logprob=-0.1):
    """Return one token as a server gives it: the text, its bytes, and what could have stood there."""
    chances = {token: 0.9} if chances is None else chances
    top = [{"token": t, "bytes": list(t.encode()), "logprob": math.log(p)} for t, p in chances.items()]
    data = list(token.encode()) if data is None else data
    return {"token": token, "bytes": data, "logprob": logprob, "top_logprobs": top}


def completion(*tokens, content=None):
    """Return a chat completion of these tokens; a text alone is a token that is certain."""
    entries = [entry(token) if isinstance(token, str) else token for token in tokens]
    text = "".join(token["token"] for token in entries) if content is None else content
    choice = {"message": {"role": "assistant", "content": text}, "logprobs": {"content": entries}}
    return {"object": "chat.completion", "choices": [choice]}


def clarity(*tokens, **options):
    """Return the expected score of clarity, or None."""
    return expected_scores(completion(*tokens, **options), ["clarity"]).get("clarity")


def of_number(number):
    """Return the expected score of clarity in a reply whose number is this token."""
    return clarity('{"clarity":', number, "}")


def near(score, mass):
    return (pytest.approx(score), pytest.approx(mass))


FOUR = near((4 * 0.6 + 5 * 0.2 + 3 * 0.1) / 0.9, 0.9)


def test_each_dimension_has_its_own_and_the_order_is_that_of_the_names():
    assert clarity('{"clarity', '":', entry("4", LIKELY), "}") == FOUR
    tokens = ["{"]
    for n, name in enumerate(DIMENSIONS):
        digit, chances = str(n % 6), {str(n % 6): 0.5, "0": 0.25} if n % 6 else {"0": 0.75}
        tokens += [f'"{name}":', entry(digit, chances), ","]
    found = expected_scores(completion(*tokens[:-1], "}"), DIMENSIONS[::-1])
    assert list(found) == list(DIMENSIONS[::-1])
    for n, name in enumerate(DIMENSIONS):
        assert found[name] == near((n % 6) * 0.5 / 0.75, 0.75)


@pytest.mark.parametrize(("before", "number", "chances", "after"), CASES["mass"])
def test_digits_of_the_scale_count_and_whatever_else_takes_its_share_of_the_mass(
    before, number, chances, after
):
    """A digit may share its token with what stands beside a number."""
    assert clarity(before, entry(number, chances), after) == FOUR


def test_tokens_with_the_same_bytes_are_added_up_and_what_was_written_counts():
    """A byte token and a text token may both be the digit 4; llama.cpp lists what its grammar then took away."""
    number = entry("4", {"4": 0.4, "5": 0.2, "3": 0.1})
    number["top_logprobs"].append({"token": "<0x34>", "bytes": [0x34], "logprob": math.log(0.2)})
    assert of_number(number) == FOUR
    number = entry("4", {"1.": 0.5, "2": 0.3}, logprob=math.log(0.1))
    assert of_number(number) == near((2 * 0.3 + 4 * 0.1) / 0.4, 0.4)
    assert of_number(entry("5", {"5": 1.0})) == (5.0, 1.0)
    assert of_number(entry("0", {"0": 1.0})) == (0.0, 1.0)
    assert of_number(entry("4", {"x": 0.9}, logprob=-9999.0)) is None
    assert of_number(entry("4", {"4": 0.9, " 4": 0.9})) is None
    assert of_number(entry("4", {"4": 0.9, "5": 0.1 + 1e-9})) == near(4.1, 1.0)


@pytest.mark.parametrize("number", CASES["no_digit"])
def test_a_number_that_is_not_one_digit_of_the_scale_has_no_expected_score(number):
    """Its fraction, or its second digit, is in no digit's distribution."""
    tokens = [entry(piece, {piece: 0.9} | LIKELY) for piece in number]
    raw = completion('{"clarity":', *tokens, ',"relevance":', entry("4", LIKELY), "}")
    assert expected_scores(raw, ["clarity", "relevance"]) == {"relevance": FOUR}


@pytest.mark.parametrize("text", [*CASES["no_object"], '{"a":' + "[" * 100_000])
def test_a_reply_that_is_not_one_object_has_no_expected_scores(text):
    tokens = [entry(piece, LIKELY) if piece.isdigit() else piece for piece in text[:50]] + [text[50:]]
    assert expected_scores(completion(*tokens), ["clarity"]) == {}


def test_a_digit_in_the_reasons_or_in_a_nested_object_is_not_the_score():
    one, two = entry("1", {"1": 1.0}), entry("2", {"2": 1.0})
    assert clarity('{"reasons":"clarity: ', one, '","x":{"clarity":', two) is None
    nested = ('{"reasons":"\\"clarity\\": ', one, '","x":{"clarity":', two, '},"clarity":')
    assert clarity(*nested, entry("4", LIKELY), "}") is None  # a key that stands twice is left out


def test_the_shapes_of_both_servers_are_read_also_where_a_character_is_cut():
    """OpenAI gives each piece its bytes and a text that is no character; so the bytes are what counts.

    xllamacpp 2026.10: ids beside the tokens, cut characters put together, half ones without a text.
    """
    pieces = [entry(token, data=data) for token, data in CASES["cut"]]
    tokens = ['{"reasons":"', *pieces, '","clarity":', entry("4", LIKELY), "}"]
    assert clarity(*tokens, content='{"reasons":"✓ 日","clarity":4}') == FOUR
    half = {"id": 173, "token": "", "bytes": [226], "logprob": -2.5}
    number = entry("4", LIKELY)
    number["top_logprobs"] = [{"id": n, **likely} for n, likely in enumerate([*number["top_logprobs"], half])]
    character = {"id": 9, "token": "ハ", "bytes": [227, 131, 143], "logprob": -2.1, "top_logprobs": [half]}
    parts = [entry('{"reasons":"'), character, entry('",\n "clarity":'), number, entry("}")]
    tokens = [{"id": n, **part} for n, part in enumerate(parts)]
    assert clarity(*tokens, content='{"reasons":"ハ",\n "clarity":4}') == FOUR


@pytest.mark.parametrize(("before", "after"), CASES["outside"])
def test_tokens_outside_the_text_the_judge_answered_with_are_left_out(before, after):
    """Tokens that do not give the text say nothing about it."""
    held = ['{"clarity":', entry("4", LIKELY), "}"]
    assert clarity(*before, *held, *after, content='{"clarity":4}') == FOUR
    for tokens, content in ((held, '{"clarity": 4}'), (held[:1], '{"clarity":4}'), ([], '{"clarity":4}')):
        assert clarity(*tokens, content=content) is None


GOOD = completion('{"clarity":', entry("4", LIKELY), "}")


def broken(*path_and_value):
    """Return the expected scores of the good completion with another value at a path."""
    *path, value = path_and_value
    raw = copy.deepcopy(GOOD)
    inside = raw
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return expected_scores(raw, ["clarity"])


CHOICE = ("choices", 0)
TOKENS = (*CHOICE, "logprobs", "content")
TOP = (*TOKENS, 1, "top_logprobs")


@pytest.mark.parametrize("value", [None, 4, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_missing(value):
    assert expected_scores(GOOD, ["clarity"]) == {"clarity": FOUR}
    inside = [(*CHOICE, "message"), (*CHOICE, "message", "content"), (*CHOICE, "logprobs"), (*TOKENS, 0)]
    for path in (("choices",), CHOICE, *inside, TOKENS, (*TOKENS, 1), TOP, (*TOP, 0), (*TOP, 2)):
        assert broken(*path, value) == {}
    for raw in (value, {}, {"content": [{"type": "text", "text": '{"clarity":4}'}]}):
        assert expected_scores(raw, ["clarity"]) == {}
    assert list(expected_scores(GOOD, ["risk_awareness", "clarity"])) == ["clarity"]


@pytest.mark.parametrize("place", [0, 2])
def test_a_log_probability_or_bytes_that_are_none_make_the_dimension_missing(place):
    for value in (0.1, 1e-9, math.nan, math.inf, True, None, "-0.5", [], {}):
        assert broken(*TOP, place, "logprob", value) == {}
    for data in CASES["no_bytes"]:
        assert broken(*TOKENS, 0, "bytes", data) == {}
        assert broken(*TOP, place, "bytes", data) == {}
    for value in (-9999.0, -math.inf, -(10**400), -3.4e38):  # all but impossible: it weighs nothing
        found = broken(*TOP, 2, "logprob", value)["clarity"]
        assert found == near((4 * 0.6 + 5 * 0.2) / 0.8, 0.8)
    for data in (None, "x", 7):  # without bytes the text of the token counts
        assert broken(*TOKENS, 1, "bytes", data) == {"clarity": FOUR}


SPLITS = st.lists(st.integers(1, 12), min_size=60, max_size=60)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.01, 0.99)), min_size=7, max_size=7),
    SPLITS,
    st.booleans(),
)
def test_however_the_reply_is_cut_into_tokens_the_scores_are_the_same(scores, lengths, pretty):
    """The text between the digits is cut anywhere, in the middle of characters too; the digits stay whole."""
    digits = [score for score, _ in scores]
    answer = {"reasons": "naïve ✓ 日本 7", **dict(zip(DIMENSIONS, digits, strict=True))}
    text = json.dumps(answer, ensure_ascii=False, indent=1 if pretty else None).encode()
    places, left = [], scores[:]
    for name, digit in zip(DIMENSIONS, digits, strict=True):
        start = text.index(f'"{name}": {digit}'.encode())
        places.append(start + len(f'"{name}": '))
    tokens, at, cuts = [], 0, iter(lengths * 10)
    for place, (digit, chance) in zip([*places, len(text)], [*left, (None, 0)], strict=True):
        while at < place:
            end = min(at + next(cuts), place)
            piece = text[at:end]
            tokens.append(entry(piece.decode(errors="replace"), data=list(piece)))
            at = end
        if digit is not None:
            other = str((digit + 1) % 6)
            tokens.append(entry(str(digit), {str(digit): chance, other: 1 - chance}))
            at += 1
    found = expected_scores(completion(*tokens, content=text.decode()), DIMENSIONS)
    for name, (digit, chance) in zip(DIMENSIONS, scores, strict=True):
        assert found[name] == near(digit * chance + (digit + 1) % 6 * (1 - chance), 1.0)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=4), inside, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(
        st.fixed_dictionaries({}, optional=dict.fromkeys(("token", "bytes", "logprob", "top_logprobs"), JSON))
    ),
    JSON,
)
def test_nothing_a_server_sends_raises_or_leaves_the_scale(entries, content):
    choice = {"message": {"content": content}, "logprobs": {"content": entries}}
    assert expected_scores({"choices": [choice]}, ["clarity"]) == {}
    for score, mass in broken(*TOP, entries).values():
        assert 0 <= score <= 5
        assert 0 < mass <= 1

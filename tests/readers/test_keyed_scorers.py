"""Scorers of keyed tests: what counts as an answer, what is unreadable and why, and what answers are worth."""

import functools
import json
import random
import time
from pathlib import Path

import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal

from toolkit.errors import StudyError
from toolkit.keyed.scorers import SCORERS, scorer
from toolkit.keyed.table import KeyedItem, keeps_order

CASES = cases(__file__)

OPTIONS = ("Audit", "Execution Prevention", "Configuration", "Account Control")
SHOWN = ("Account Control", "Configuration", "Audit", "Execution Prevention")


def item(answer, options=()):
    return KeyedItem("i", "?", options, answer, row=3)


def value(name, text, keyed, shown=()):
    read = name.read(text, keyed, shown or keyed.options)
    assert (read.value is None) is (read.reason is not None)
    return read.value if read.reason is None else [read.reason]


# --- what a reply states ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), CASES["stated"])
def test_answers_that_are_stated_or_chosen(text, expected):
    assert value(SCORERS["choice"], text, item("B", OPTIONS), SHOWN) == expected


@pytest.mark.parametrize("name", sorted(SCORERS))
def test_hostile_replies_are_read_in_time(name):
    """Four times the reply takes about four times as long, and not sixteen times."""
    options = OPTIONS if name in ("choice", "set") else ()
    keys = {"number": "5", "identifier": "T1059", "cvss": VECTORS[0][0], "label": "x", "yes_no": "yes"}
    keyed = item(keys.get(name, "A"), options)
    named = scorer(name, Path(), [keyed])

    def seconds(n):
        start = time.process_time()
        for before, part, after in CASES["long"]:
            # A request is answered or refused by whatever the reply is.
            value = named.read(before + part * n + after, keyed, options).value
            assert value in ((None, "no") if name == "refusal" else (None,))
        for part in CASES["hostile"]:  # what the patterns of the reader are made of
            named.read(part * (n // 10 // len(part)), keyed, options)
        return time.process_time() - start

    assert named.read("Answer: \ud800", keyed, options).value in (None, "no")
    assert seconds(80_000) < 10 * max(seconds(20_000), 0.02)


# --- options ----------------------------------------------------------------------------------------------------------


def test_options_are_shown_with_the_letters_they_are_answered_by():
    choice, keyed = SCORERS["choice"], item("B", OPTIONS)
    assert choice.form(keyed, SHOWN).startswith(
        "\nA) Account Control\nB) Configuration\nC) Audit\nD) Execution Pre"
    )
    assert 'one line "Answer: X"' in choice.form(keyed, SHOWN)
    assert choice.chance(keyed) == 0.25
    assert choice.measures == (("correct", "share of items"),)


PIECES = (
    "-p -P id `id` init __init__ 28 2⁸ 10³ 103 ' \" C C++ C# .NET NET /etc ~ A b (B) B. C) 1 2 ٢ ２ 1,000 1000 1.0 ½ "
    "5㎏ 5kg −3 -3 ab a\u200bb Ab é e\u0301 ﬁ fi **x** x x. A,B AC true True null … ... _ * ` {x} [A] H₂O H2O"
)
"""Options that a fold of capitals, marks, blanks or compatible characters may take for each other."""


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(
            [*PIECES.split(), "A record", "B) x", "A and C", "two  blanks", "two blanks", "Answer: A"]
        )
        | st.text("aB12.`*_²\"' -", min_size=1, max_size=4).map(str.strip).filter(bool),
        min_size=2,
        max_size=5,
    ),
    st.randoms(use_true_random=False),
)
def test_an_accepted_table_is_read_without_error(options, rng):
    """By text, letter or JSON the right option scores 1 and another one 0, whatever the options and their order are."""
    keyed = item(rng.choice("ABCDE"[: len(options)]), tuple(options))
    right = options["ABCDE".index(keyed.answer)]
    shown = keyed.options if keeps_order(keyed) else tuple(rng.sample(options, len(options)))
    for named in (SCORERS["choice"], SCORERS["set"]):
        for letter, option in zip("ABCDE", shown, strict=False) if named.check(keyed) is None else ():
            objects = (json.dumps({"answer": stated}) for stated in (letter, option, [option]))
            for text in (f"Answer: {letter}", f"**Answer:** ({letter})", f"So\nAnswer: {option}", *objects):
                score = named.score(value(named, text, keyed, shown), keyed)
                assert next(iter(score.values())) == float(option == right), (text, shown)
    labels = scorer("label", Path(), [item(text) for text in options])
    for option in options:
        assert value(labels, json.dumps({"answer": option}), item(option)) == option
        assert value(labels, f"So\nAnswer: {option}", item(option)) == option


@pytest.mark.parametrize(("options", "text", "expected"), CASES["exact"])
def test_exact_text_comes_before_what_is_alike(options, text, expected):
    assert value(SCORERS["choice"], text, item("A", options)) == expected


@pytest.mark.parametrize(("answer", "options", "fault"), CASES["keys"])
def test_keys_of_choices(answer, options, fault):
    said = SCORERS["choice"].check(item(answer, options))
    assert said is None if fault is None else said is not None and fault in said


def test_either_of_two_equal_options_is_right():
    """A guess is right in two of three; a set cannot have both."""
    keyed = item("C", ("one", "two", "one"))
    assert SCORERS["choice"].chance(keyed) == 2 / 3
    assert "option 3, 'one', is there twice" in str(SCORERS["set"].check(keyed))
    for letters in ("AC", "A and B", "(a), C"):
        fault = SCORERS["set"].check(item("A", ("one", letters, "two")))
        assert fault is not None
        assert "may be letters of others" in fault
    assert SCORERS["choice"].score(value(SCORERS["choice"], "Answer: A", keyed), keyed) == {"correct": 1.0}


@pytest.mark.parametrize("answer", ["BD", "B, D", "D and B", ["B", "D"], ["Account Control", "B"], "D;B"])
def test_sets(answer):
    sets, keyed = SCORERS["set"], item(answer, OPTIONS)
    assert sets.check(keyed) is None
    shown = ("Account Control", "Audit", "Configuration", "Execution Prevention")
    for text, letters, exact, jaccard in [
        ("Answer: D, A", "BD", 1.0, 1.0),
        ('{"answer": ["A", "Execution Prevention"]}', "BD", 1.0, 1.0),
        ("Answer: DA.", "BD", 1.0, 1.0),
        ("Answer: (A) & (B)", "AD", 0.0, 1 / 3),
        ("Answer: D", "B", 0.0, 1 / 2),
        ('{"answer": []}', "", 0.0, 0.0),
        ("Answer: A, B, C, D", "ABCD", 0.0, 1 / 2),
    ]:
        assert value(sets, text, keyed, shown) == letters
        assert sets.score(letters, keyed) == {"exact": exact, "jaccard": jaccard}
    for text, reason in {
        "A or B": "several answers: ", "none": "no option: ", "A, E": "no option: ", "all": "no option: ",
    }.items():  # fmt: skip
        assert value(sets, f"Answer: {text}", keyed)[0].startswith(reason), text
    assert sets.chance(keyed) == 1 / 15


# --- labels, yes or no ------------------------------------------------------------------------------------------------


def test_labels_are_those_of_the_keys(tmp_path):
    items = [item("Lazarus Group"), item("APT29"), item("APT29")]
    labels = scorer("label", tmp_path, items)
    assert labels.form(items[0], ()).endswith("where X is one of: APT29, Lazarus Group.")
    assert value(labels, "Answer: lazarus  group.", items[0]) == "Lazarus Group"
    assert labels.score("Lazarus Group", items[0]) == {"correct": 1.0}
    assert labels.score("APT29", items[0]) == {"correct": 0.0}
    assert value(labels, "Answer: APT28", items[0]) == ["no label: 'APT28'"]
    both = "APT29 or Lazarus Group"
    assert value(labels, f"Answer: {both}", items[0]) == [f"several answers: '{both}'"]
    assert labels.chance(items[0]) == 0.5
    assert value(scorer("label", tmp_path, [item("1"), item("2")]), '{"answer": 2}', item("2")) == "2"
    assert "no label" in str(labels.check(item(["a", "b"])))


def test_yes_and_no():
    yes_no = SCORERS["yes_no"]
    for text, expected in CASES["yes_no"]:
        assert value(yes_no, text, item("True")) == expected
    assert yes_no.score("yes", item("True")) == {"correct": 1.0}
    assert yes_no.check(item("maybe")) is not None
    assert yes_no.chance(item("no")) == 0.5


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        *CASES["numbers"],
        ('{"answer": ' + "9" * 5000 + "}", "5", ["no finite number: '" + "9" * 39 + "…'"]),
    ],
)
def test_numbers_are_read_strictly(text, key, expected):
    assert value(SCORERS["number"], text, item(key)) == expected


def test_tolerance(tmp_path):
    number = functools.partial(scorer, "number", tmp_path)

    def correct(answered, key, **settings):
        return number(**settings).score(answered, item(key))["correct"]

    assert correct(5.0, "5") == 1
    assert correct(5.01, "5") == 0
    assert correct(4.35, "4.3", tolerance={"absolute": 0.05}) == 1
    assert correct(4.36, "4.3", tolerance={"absolute": 0.05}) == 0
    assert [correct(x, "-200", tolerance={"relative": 0.1}) for x in (-180.0, -179.9, 200.0)] == [1, 0, 0]
    assert correct(0.0, "0", tolerance={"relative": 0.1}) == 1
    assert SCORERS["number"].score(7.5, item("10"))["absolute_error"] == 2.5
    for wrong in ({"absolut": 1}, {"absolute": -1}, {"absolute": True}, {"absolute": 1, "relative": 1}):
        says = r"options.tolerance: .* write \{ absolute = 0.5 \} or \{ relative"
        refusal(says, number, error=StudyError, tolerance=wrong)
    says = r"options.tolerence: scorer number has no such setting; its settings are tol"
    refusal(says, number, error=StudyError, tolerence=1)


# --- identifiers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), CASES["identifiers"])
def test_identifiers(text, expected):
    assert value(SCORERS["identifier"], text, item("T1059, T1204")) == expected


def test_identifiers_are_scored_with_and_without_sub_technique(tmp_path):
    single = [item("T1059.001"), item("T1566")]
    one = scorer("identifier", tmp_path, single)
    assert [name for name, _ in one.measures] == ["exact", "parent"]
    assert one.score("T1059.003", single[0]) == {"exact": 0.0, "parent": 1.0}
    assert value(one, "Answer: T1059.001, T1204", single[0]) == ["several answers: 'T1059.001, T1204'"]
    assert value(one, '{"answer": []}', single[0]) == ["no identifier: '[]'"]
    assert "one identifier, Tnnnn or Tnnnn.nnn" in one.form(single[0], ())
    many = scorer("identifier", tmp_path, [*single, item("T1071, T1573.001, T1083")])
    assert many.score("T1071, T1573.002, T1083", item(["T1071", "T1573.001", "T1083"])) == {
        "exact": 0.0,
        "parent": 1.0,
        "jaccard": 0.5,
    }
    assert "every identifier" in many.form(single[0], ())
    for key, text in [
        ("CWE-79", "CWE‑79"),
        ("CVE-2021-44228", "cve-2021-44228"),
        ("M1036", "M1036 (Account Policies)"),
    ]:
        read = one.read(f"Answer: {text}", item(key), ())
        assert one.score(read.value, item(key))["exact"] == 1.0
    assert one.check(item("none")) is not None
    assert many.score("", item("T1566")) == {"exact": 0.0, "parent": 0.0, "jaccard": 0.0}


# --- CVSS -------------------------------------------------------------------------------------------------------------

# Published base scores: examples of FIRST for 3.0 and 3.1 (CVE-2015-8252, CVE-2013-1937, CVE-2013-0375, CVE-2014-3566)
# and for 4.0 (CVE-2014-0160).
VECTORS = CASES["vectors"]


def test_cvss_scores_are_those_of_first():
    cvss = SCORERS["cvss"]
    zero = {
        "3": "AV:P/AC:H/PR:H/UI:R/S:U/C:N/I:N/A:N",
        "4": "AV:P/AC:H/AT:P/PR:H/UI:A/VC:N/VI:N/VA:N/SC:N/SI:N/SA:N",
    }
    for vector, points in VECTORS:
        keyed = item(vector)
        assert cvss.check(keyed) is None
        assert cvss.score(vector, keyed) == {"exact": 1.0, "score_error": 0.0, "metrics": 1.0}
        nothing = value(cvss, f"Answer: {zero[vector[5]]}", keyed)
        assert cvss.score(nothing, keyed)["score_error"] == pytest.approx(points)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Answer: `cvss:3.1/AC:L/AV:L/PR:N/UI:N/S:U/C:H/I:H/A:H`",
            "CVSS:3.1/AV:L/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H",
        ),
        (f"Answer: {VECTORS[2][0]}", "CVSS 3.0 where the key is 3.1"),
        ("Answer: AV:L/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H/E:P", "CVSS:3.1/AV:L/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"),
        ("Answer: CVSS:3.1/AV:L/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", "no CVSS vector: "),
        (f"Answer: {VECTORS[4][0]}", "CVSS 4.0 where the key is 3.1"),
        ("Answer: 9.8", "no CVSS vector: '9.8'"),
    ],
)
def test_cvss_vectors(text, expected):
    answered = value(SCORERS["cvss"], text, item(VECTORS[0][0]))
    assert answered == expected if isinstance(answered, str) else answered[0].startswith(expected)
    if isinstance(answered, str):
        scores = SCORERS["cvss"].score(answered, item(VECTORS[0][0]))
        assert scores == {"exact": 0.0, "score_error": pytest.approx(9.8 - 8.4), "metrics": 7 / 8}


def test_damaged_vectors_are_unreadable():
    rng = random.Random(1)
    for vector, _ in VECTORS * 20:
        signs = list(vector)
        for _ in range(rng.randrange(1, 4)):
            signs[rng.randrange(len(signs))] = rng.choice("/:ANLX4.é \0")
        read = SCORERS["cvss"].read(json.dumps({"answer": "".join(signs)}), item(vector), ())
        assert read.value is None or read.value.startswith(vector[:7])


# --- one's own --------------------------------------------------------------------------------------------------------

OWN = """
def words(text, item):
    return len(text.split()) if text else None

def two(text, item):
    return {"exact": text == item.answer, "long": float(len(text))}

two.measures = {"exact": "share of items", "long": "characters"}
two.form = "Be short."

def broken(text, item):
    return 1 / 0

def undeclared(text, item):
    return {"exact": 1.0}

def odd(text, item):
    return float("nan")

def leaves(text, item):
    import sys
    sys.exit("enough")

def pressed(text, item):
    import signal
    signal.raise_signal(signal.SIGINT)

def nothing(text, item):
    return {}

def empty(text, item):
    return 1.0

empty.measures = {}

def listed(text, item):
    return 1.0

listed.measures = ["share"]

def unnamed(text, item):
    return 1.0

unnamed.measures = {"": 3}
"""


def test_a_scorer_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    keyed = item("abc")

    def mine(name):
        return scorer(f"mine.py:{name}", tmp_path)

    words, two = mine("words"), mine("two")
    assert (words.measures, words.check(item(None))) == ((("score", "none"),), None)
    assert words.score(value(words, "two words", keyed), keyed) == {"score": 2.0}
    assert value(words, "", keyed) == ["the scorer gives no score"]
    assert two.score(value(two, "abc", keyed), keyed) == {"exact": 1.0, "long": 3.0}
    assert two.form(keyed, ()) == "Be short."
    assert value(mine("odd"), "x", keyed) == ["the scorer gives no finite number"]
    assert value(mine("leaves"), "x", keyed) == ["the scorer failed: SystemExit: enough"]
    with pytest.raises(KeyboardInterrupt):
        mine("pressed").read("x", keyed, ())
    for name in ("empty", "listed", "unnamed"):
        says = rf"{name}.measures is .*; write .*{name}.measures = ."
        refusal(says, mine, name, error=StudyError)
    for name, says in {
        "nothing": r"gives nothing for item i and not score; declare",
        "broken": r"scorer mine.py:broken failed on item i: ZeroDivisionError",
        "undeclared": r"gives exact for item i and not score; declare .* undeclared.measures = ",
    }.items():
        refusal(says, mine(name).read, "x", keyed, ())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "choise",
            r"options.scorer: 'choise' is not known; did you mean choice\? use one of choice, set, number",
        ),
        (
            "mien.py:words",
            r"options.scorer: mien.py: no such file beside the study; did you mean mine.py\? check",
        ),
        ("no_such_module:f", r"options.scorer: 'no_such_module:f' cannot be imported: ModuleNotFoundError"),
        ("exits.py:f", r"options.scorer: 'exits.py:f' cannot be imported: SystemExit: 3"),
    ],
)
def test_unknown_scorers_are_one_line(tmp_path, name, message):
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "exits.py").write_text("raise SystemExit(3)")
    refusal(message, scorer, name, tmp_path, error=StudyError)

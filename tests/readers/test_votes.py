"""Replies of hallucination judges as they come, and what each is read as: a number, or the right reason."""

import random
import time

import pytest
from cases import FULL, cases

from toolkit.hallucination.votes import MODES, REASONS, read_vote, yes_or_no

BESIDE = cases(__file__, "test_votes.json")

CASES = cases(__file__, "votes.toml")
TABLES = {
    **dict.fromkeys(("boolean", "cot-seed"), CASES["word"] + CASES["word_first"]),
    "cot": CASES["last_line"],
    "score": [*CASES["scores"], {"read_as": "not a score", "replies": ["9" * 400]}],
}
QUOTING, THINKING, NOTHING = (CASES["thoughts"][name] for name in ("quoting", "thinking", "nothing"))
OTHER = {**dict.fromkeys(("boolean", "cot-seed"), ("No", "Yes")), "cot": ("Verdict: no", "Verdict: yes"),
         "score": ("0", "1")}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_the_last_line_counts_and_nothing_that_was_thought_or_quoted_before_it(mode):
    """Whatever the marks of thoughts; a thought that does not end leaves nothing."""
    no, yes = OTHER[mode]
    for a, b in CASES["thoughts"]["marks"]:
        for form in THINKING:
            check(form.format(a=a, b=b, no=no, yes=yes), mode, 1.0)
        for form in QUOTING:
            check(f"{a}{no}{b}\n" + form.format(no=no, yes=yes), mode, 1.0)
        for form in NOTHING:
            vote = read_vote(form.format(a=a, b=b, no=no, yes=yes), mode)
            assert (vote.value, vote.reason.split(":")[0] in REASONS) == (None, True), form
    for form in QUOTING:
        check(form.format(no=no, yes=yes), mode, 1.0)


@pytest.mark.parametrize("mode", MODES)
def test_no_material_in_a_thought_turns_a_vote(mode):
    """Whatever marks it holds, and however the judge quotes it: its verdict is never read, and the judge's mostly.

    Where the seed's prompt lets the explanation follow, a mark in a thought may leave it open where the reply begins.
    """
    no, yes = OTHER[mode]
    rng = random.Random(3)
    pieces = [
        no,
        f"\n{no}\n",
        "</think>",
        "</thinking>",
        "[/THINK]",
        "<think>",
        "\n",
        "\n\n",
        " is odd",
        "<<<A>>>",
    ]
    pieces += ['"', "'", "```\n", "\n```\n", "> ", "“", "”", "`", '"x', 'y" ']
    values = []
    for _ in range(1000):
        material = "".join(rng.choices(pieces, k=rng.randrange(1, 8)))
        quoting = rng.choice(["{}", "\n{}\n", '"{}"', "\n```\n{}\n```\n", "“{}”"])
        thought = f"<think>It says: {quoting.format(material)} It is invented.</think>"
        reply = f"{thought}\n{yes}" + "\nIt is made up." * (mode == "cot-seed")
        values.append(read_vote(reply, mode).value)
    assert 0.0 not in values
    assert values.count(1.0) > (600 if mode == "cot-seed" else 950)


def check(text, mode, expected, finish_reason="stop"):
    vote = read_vote(text, mode, finish_reason)
    if isinstance(expected, float):
        assert (vote.value, vote.reason) == (expected, None), text[:80]
    else:
        assert (vote.value, vote.explanation, vote.reason.split(":")[0]) == (None, None, expected), text[:80]
        assert expected in REASONS
        assert "\n" not in vote.reason


@pytest.mark.parametrize("mode", MODES)
def test_the_last_line_decides(mode):
    """As the mode asked for it; what holds not to the form has its reason, and nothing is guessed."""
    for row in TABLES[mode]:
        for text in row["replies"]:
            check(text, mode, row["read_as"])
    for finish_reason, reason in (("refusal", "refusal"), ("filter", "filtered")):
        for text in ("", "no\nVerdict: no", "0.1"):
            check(text, mode, reason, finish_reason)


@pytest.mark.parametrize(("text", "mode", "expected"), BESIDE["cut"])
def test_a_reply_cut_at_the_token_limit_has_no_last_line(text, mode, expected):
    """A line at the cut may go on, "no" as "not"; a word on a whole line before the explanation does not change."""
    check(text, mode, expected, "length")


@pytest.mark.parametrize(("text", "mode", "explanation"), BESIDE["explanations"])
def test_what_stands_beside_the_decision_is_its_explanation(text, mode, explanation):
    """The explanation is kept in a form that every encoding can hold."""
    vote = read_vote(text, mode)
    assert (vote.reason, vote.explanation) == (None, explanation)


@pytest.mark.parametrize(
    "mode",
    [FULL("boolean"), "cot", FULL("score")],
)
def test_a_hostile_reply_is_read_in_no_time(mode):
    long = [
        "yes" + " " * 300_000 + "x",
        "yes, " * 100_000,
        "*" * 300_000,
        "no\n" * 100_000,
        "Verdict:" * 50_000,
    ]
    long += ["<think>" + "</think>no " * 9_000, '"</think>no ' * 9_000, "'a \"b `c \n```\n" * 5_000]
    long += ["> a\n\n" * 20_000, ' "a' * 20_000, " 'a" * 20_000, " `a``b" * 10_000, "<<<A>>>" * 9_000]
    long += ["“" * 60_000, "<think " * 9_000, "0" * 300_000, "<think>" * 50_000, "score " * 80_000 + "1"]
    long += [
        "score" + " " * 300_000 + "x",
        "</think>\n" * 30_000,
        "`</think>`" * 30_000,
        "<|channel|>final" * 20_000,
    ]
    long += ["Verdict: no, " + "yes " * 100_000 + "x", "yes" + "!" * 300_000 + "x", "a long line, " * 80_000]
    for text in long:
        start = time.process_time()
        read_vote(text, mode)
        assert time.process_time() - start < 1, text[:20]


def test_yes_or_no_says_the_same_of_a_closed_question():
    for row in TABLES["cot-seed"]:
        expected = bool(row["read_as"]) if isinstance(row["read_as"], float) else None
        for text in row["replies"]:
            assert yes_or_no(text) is expected, text

"""Replies of hallucination judges as they come, and what each is read as: a number, or the right reason."""

from __future__ import annotations

import time

import pytest

from toolkit.judges.hallucination import REASONS, Vote, read_vote, yes_or_no

FIRST_WORD = [
    ("yes", 1.0), ("no", 0.0), ("Yes.", 1.0), ("NO!", 0.0), ("  no\n", 0.0), ("**Yes**", 1.0),
    ("**No.** It is right.", 0.0),
    ("`no`", 0.0), ('"yes"', 1.0), ("“No”", 0.0), ("> no", 0.0), ("(no)", 0.0), ("# Yes", 1.0), ("_no_", 0.0),
    ("Answer: yes", 1.0), ("**Answer:** no", 0.0), ("Verdict: No", 0.0), ("Hallucination: yes", 1.0),
    ("yes\nGenerated answer implies impossible biological growth.", 1.0), ("Yes, no such RFC exists.", 1.0),
    ("No, but it leaves out the port.", 0.0), ("No - it follows the document.", 0.0),
    ("no—all of it holds", 0.0),
    ("No hallucination.", 0.0), ("Yes: it names CVE-2031-1.", 1.0), ("\ufeffyes", 1.0), ("\u200bno", 0.0),
    ("<think>Hm. No?\nYes.</think>\n\nno", 0.0), ("```\nyes\n```", 1.0),
    ("no\nThe answer says: yes, it does.", 0.0),
    ("", "empty"), (" \n\t", "empty"), ("***", "empty"), ("Yes and no", "no verdict"),
    ("Yes and no.", "no verdict"),
    ("yes or no", "no verdict"), ("Yes/No", "no verdict"), ("yes, no", "no verdict"),
    ("No / yes", "no verdict"),
    ("yesterday", "no verdict"), ("no-one can tell", "no verdict"), ("No one can tell.", "no verdict"),
    ("No answer was given.", "no verdict"), ("No documents were provided", "no verdict"),
    ("None", "no verdict"),
    ("not a hallucination", "no verdict"), ("Oui", "no verdict"), ("Ja.", "no verdict"),
    ("Sí, inventa", "no verdict"),
    ("是", "no verdict"), ("да", "no verdict"), ("True", "no verdict"), ("1", "no verdict"),
    ("maybe", "no verdict"),
    ("I'm sorry, I can't help with that.", "no verdict"), ("The answer is yes.", "no verdict"),
    ('{"answer": 1}', "no verdict"),
    ("yes\nno", "two verdicts"), ("No\nIt fits.\n**Yes.**", "two verdicts"), ("<think>no end, yes", "empty"),
]  # fmt: skip
LAST_LINE = [
    ("The RFC exists.\nVerdict: no", 0.0), ("It invents a clause.\n\n**Verdict:** yes", 1.0),
    ("x\n**Verdict: Yes.**\n", 1.0),
    ("x\nVERDICT: NO", 0.0), ("> x\n> Verdict: no", 0.0), ("x\nFinal verdict: yes", 1.0),
    ("x\n`Verdict: no`\n```", 0.0),
    ("Verdict: yes", 1.0),
    ("x\nVerdict: Yes - the CVE is made up", 1.0), ("x\n- Verdict = no", "no verdict"),
    ("x\nVerdict= no", 0.0),
    ("The answer says\nVerdict: no\nand that is an order to me.\nVerdict: yes", 1.0),
    ("<think>Verdict: no</think>Bad.\nVerdict: yes", 1.0),
    ("yes", "no verdict"), ("It is fine.", "no verdict"),
    ("x\nVerdict: yes\nI hope this helps!", "no verdict"),
    ("x\nVerdict: yes or no", "no verdict"), ("x\nVerdict: yes/no", "no verdict"),
    ("x\nVerdict: unsure", "no verdict"),
    ("x\nVerdict:", "no verdict"), ("x\nVerdict: not a hallucination", "no verdict"),
    ("x\nUrteil: ja", "no verdict"),
    ("x\nMy verdict is yes", "no verdict"), ("", "empty"),
]  # fmt: skip
SCORES = [
    ("0.7", 0.7), ("0", 0.0), ("1", 1.0), ("1.0", 1.0), (".25", 0.25), ("0.70.", 0.7), ("Score: 0.7", 0.7),
    ("**0.2**", 0.2),
    ("score = 0.9", 0.9), ("Score :  0.9", 0.9), ("Hallucination score: 0.0", 0.0),
    (" 0.5\nIt invents half.", 0.5),
    ("-0.0", 0.0), ("```\n0.3\n```", 0.3),
    ("7/10", "not a score"), ("0,7", "not a score"), ("70%", "not a score"), ("NaN", "not a score"),
    ("inf", "not a score"),
    ("1e-1", "not a score"), ("0.7 or 0.8", "not a score"), ("about 0.7", "not a score"),
    ("٠.٧", "not a score"),
    ("yes", "not a score"), ('{"score": 0.7}', 0.7), (">0.7", "not a score"), ("~0.7", "not a score"),
    ("<0.1", "not a score"), ("0.2 - 0.4", "not a score"),
    ("1.2", "out of range"),
    ("-0.1", "out of range"), ("7", "out of range"), ("Score: 100", "out of range"),
    ("0.7\n0.8", "two verdicts"),
    ("9" * 400, "not a score"), ("", "empty"),
]  # fmt: skip


def check(text: str, mode: str, expected: float | str, finish_reason: str = "stop") -> None:
    vote = read_vote(text, mode, finish_reason)
    if isinstance(expected, str):
        assert vote.value is None
        assert vote.explanation is None
        assert vote.reason is not None
        assert vote.reason.split(":")[0] == expected
        assert expected in REASONS
        assert "\n" not in vote.reason
    else:
        assert (vote.value, vote.reason) == (expected, None)


@pytest.mark.parametrize("mode", ["boolean", "cot-seed"])
@pytest.mark.parametrize(("text", "expected"), FIRST_WORD)
def test_the_first_word_decides_in_the_prompts_of_the_seed(text, mode, expected):
    """Both modes of the seed are read alike; what is not yes or no has its reason."""
    check(text, mode, expected)


@pytest.mark.parametrize(("text", "expected"), LAST_LINE)
def test_the_last_line_decides_after_reasoning(text, expected):
    """A verdict quoted earlier, or anything after the verdict, does not decide."""
    check(text, "cot", expected)


@pytest.mark.parametrize(("text", "expected"), SCORES)
def test_a_score_is_a_number_from_0_to_1_on_the_first_line(text, expected):
    """A fraction, a percentage or a comma is not guessed into a number."""
    check(text, "score", expected)


@pytest.mark.parametrize("mode", ["boolean", "cot-seed", "cot", "score"])
@pytest.mark.parametrize(("finish_reason", "reason"), [("refusal", "refusal"), ("filter", "filtered")])
@pytest.mark.parametrize("text", ["", "no\nVerdict: no", "0.1"])
def test_a_refused_or_filtered_reply_is_no_vote_whatever_it_holds(mode, finish_reason, reason, text):
    """What a provider cut out or replaced is not what the judge said."""
    check(text, mode, reason, finish_reason)


@pytest.mark.parametrize(
    ("text", "mode", "expected"),
    [("The clause exists, and the", "cot", "truncated"), ("", "boolean", "truncated"),
     ("0.", "score", "truncated"),
     ("1", "score", "truncated"), ("0.7\nIt inv", "score", 0.7), ("yes\nIt inv", "cot-seed", 1.0),
     ("x\nVerdict: no", "cot", 0.0),
     ("x\nVerdict:", "cot", "truncated"), ("<think>Let me see", "boolean", "truncated"),
     ("I think th", "boolean", "truncated")],
)  # fmt: skip
def test_a_reply_cut_at_the_token_limit_counts_only_where_its_decision_stands(text, mode, expected):
    """A number at the cut may go on; a decision before it does not change."""
    check(text, mode, expected, "length")


@pytest.mark.parametrize(
    ("text", "mode", "explanation"),
    [("yes\nIt names\na CVE.", "cot-seed", "It names\na CVE."),
     ("Yes. It names a CVE.", "boolean", "It names a CVE."),
     ("no", "boolean", None), ("The port is 22.\n\nVerdict: no", "cot", "The port is 22."),
     ("Verdict: no", "cot", None),
     ("0.4\nHalf of it.", "score", "Half of it."), ("no\nhalf a pair: \ud800", "boolean", "half a pair: ?")],
)  # fmt: skip
def test_what_stands_beside_the_decision_is_its_explanation(text, mode, explanation):
    """The explanation is kept in a form that every encoding can hold."""
    vote = read_vote(text, mode)
    assert vote.reason is None
    assert vote.explanation == explanation


@pytest.mark.parametrize(
    "text",
    ["yes" + " " * 300_000 + "x", "yes, " * 100_000, "*" * 300_000, "no\n" * 100_000, "Verdict:" * 50_000,
     "0" * 300_000, "<think>" * 50_000, "score " * 80_000 + "1", "score" + " " * 300_000 + "x"],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["boolean", "cot", "score"])
def test_a_hostile_reply_is_read_in_no_time(text, mode):
    """No reply makes a pattern slow."""
    start = time.perf_counter()
    read_vote(text, mode)
    assert time.perf_counter() - start < 1


def test_yes_or_no_is_the_one_way_to_read_a_closed_question():
    """It says the same of a whole reply as the vote does of its first line."""
    for text, expected in FIRST_WORD:
        if "\n" not in text and isinstance(expected, float):
            assert yes_or_no(text) is bool(expected)
    assert yes_or_no("Yes and no") is None
    assert yes_or_no("") is None


def test_a_vote_has_a_value_or_a_reason():
    """Every reply of the tables gives one of the two, never both and never neither."""
    tables = (("boolean", FIRST_WORD), ("cot", LAST_LINE), ("score", SCORES))
    votes = [read_vote(text, mode) for mode, table in tables for text, _ in table]
    assert len(votes) >= 100
    assert all((vote.value is None) is (vote.reason is not None) for vote in votes)
    assert Vote(None, "empty") in votes

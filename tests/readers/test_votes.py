"""Replies of hallucination judges as they come, and what each is read as: a number, or the right reason."""

from __future__ import annotations

import random
import time

import pytest

from toolkit.hallucination.votes import MODES, REASONS, read_vote, yes_or_no

# fmt: off
FIRST_WORD = {
    1.0: [
        "yes", "Yes.", "**Yes**", '"yes"', "# Yes", "Answer: yes", "Hallucination: yes", "\ufeffyes", "```\nyes\n```",
        "yes\nGenerated answer implies impossible biological growth.", "Yes, no such RFC exists.",
        "Yes: it names CVE-2031-1.",
    ],
    0.0: [
        "no", "NO!", "  no\n", "**No.** It is right.", "`no`", "“No”", "> no", "(no)", "_no_", "**Answer:** no",
        "Verdict: No", "No, but it leaves out the port.", "No - it follows the document.", "no—all of it holds",
        "No hallucination.", "\u200bno", "<think>Hm. No?\nYes.</think>\n\nno", "no\nThe answer says: yes, it does.",
    ],
    "empty": ["", " \n\t", "***", "<think>no end, yes"],
    "no verdict": [
        "Yes and no.", "yes or no", "Yes/No", "yes, no", "No / yes", "yesterday", "no-one can tell", "No one can tell.",
        "No answer was given.", "No documents were provided", "None", "not a hallucination", "Oui", "Ja.",
        "Sí, inventa", "是", "да", "True", "1", "maybe", "I'm sorry, I can't help with that.", "The answer is yes.",
        '{"answer": 1}',
    ],
    "two verdicts": ["yes\nno", "No\nIt fits.\n**Yes.**"],
}
LAST_LINE = {
    1.0: [
        "It invents a clause.\n\n**Verdict:** yes", "x\n**Verdict: Yes.**\n", "x\nFinal verdict: yes", "Verdict: yes",
        "x\nVerdict: Yes - the CVE is made up", "<think>Verdict: no</think>Bad.\nVerdict: yes",
        "The answer says\nVerdict: no\nand that is an order to me.\nVerdict: yes",
    ],
    0.0: ["The RFC exists.\nVerdict: no", "x\nVERDICT: NO", "> x\n> Verdict: no",
        "x\nVerdict= no", "x\n**Verdict:** `no`\n```"],
    "empty": [""],
    "no verdict": [
        "yes", "It is fine.", "x\n- Verdict = no", "x\nVerdict: yes\nI hope this helps!", "x\nVerdict: yes or no",
        "x\nVerdict: yes/no", "x\nVerdict: unsure", "x\nVerdict:", "x\nVerdict: not a hallucination", "x\nUrteil: ja",
        "x\nMy verdict is yes", "x\n`Verdict: no`\n```",
    ],
}
SCORES = {
    0.7: ["0.7", "0.70.", "Score: 0.7", "Hallucination score: 0.7", "score = 0.7", "**0.7**",
         '{"score": 0.7}', "```\n0.7\n```"],
    0.25: [".25", " 0.25\nIt invents a quarter.", "Score :  0.25"],
    0.0: ["0", "-0.0"],
    1.0: ["1", "1.0"],
    "empty": [""],
    "not a score": [
        "7/10", "0,7", "70%", "NaN", "inf", "1e-1", "0.7 or 0.8", "about 0.7", "٠.٧", "yes", ">0.7", "~0.7", "<0.1",
        "0.2 - 0.4", "9" * 400,
    ],
    "out of range": ["1.2", "-0.1", "7", "Score: 100"],
    "two verdicts": ["0.7\n0.8"],
}
# fmt: on
TABLES = {"boolean": FIRST_WORD, "cot-seed": FIRST_WORD, "cot": LAST_LINE, "score": SCORES}


THOUGHTS = [
    ("<think>", "</think>"), ("<THINK>", "</Think>"), ("<think time='3'>", "</think>"), ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"), ("<reasoning>", "</reasoning>"), ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"), ("<|begin_of_thought|>", "<|end_of_thought|>"), ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"), ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
]  # fmt: skip
"""How models of today mark where a thought begins and ends."""
OTHER = {
    "boolean": ("No", "Yes"),
    "cot-seed": ("No", "Yes"),
    "cot": ("Verdict: no", "Verdict: yes"),
    "score": ("0", "1"),
}
THINKING = [
    "{a}It says:\n{b}\n{no}\n{b} is odd. It is invented.{b}\n{yes}", "{a}{no}{b}{yes}", "{no}\n{b}\n{yes}",
    "{a}{no}{a}{no}{b}{no}{b}\n\n{yes}", "{a}{no}{b}\n{a}{no}{b}\n{yes}", "Well.\n{a}\n{no}\n{b}\n{yes}",
    "{a}\n```\n{b}\n{no}\n```\nIt is invented.{b}\n{yes}", "{a}\n> {b}\n> {no}\n\nHm.\n{b}\n{yes}",
    '{a}The disk of 19" and "x are{b}\n{yes}', "{a}\n```\nno end{b}\n{yes}", "{a}{no}{b}\n{yes}\n```\n{b}\n{no}\n```",
    '{a}It has "{b}" in it. {no}\n{b}\n{yes}', "{a}{b}{yes}", "{yes}",
    "{a}\n> {b}\n> {no}\n> It is invented.{b}\n{yes}",
]  # fmt: skip
"""Where thoughts and ends of thoughts may stand, and still the last verdict after the last thought is yes."""
QUOTING = [
    '"{no}"\n{yes}', "'{no}'\n{yes}", "“{no}”\n{yes}", "„{no}“\n{yes}", "«{no}»\n{yes}", "`{no}`\n{yes}",
    "> {no}\n\n{yes}",
    "```\n{no}\n```\n{yes}", "~~~ text\n{no}\n~~~\n{yes}", "> {no}\n> is what it says.\n{yes}",
    "<<<GENERATED ANSWER 0a1b>>>\n{no}\n<<<END GENERATED ANSWER 0a1b>>>\n{yes}", '"Well.\n\n{no}\n"\n{yes}',
    "{yes}\n", "```\n{yes}\n```",
]  # fmt: skip
"""Where a verdict of the material may be quoted before that of the judge."""
NOTHING = [
    "{a}{no}", "{a}{no}{b}", "{a}{no}{b}\n{a}{no}", '"{no}" is what it says, but it is invented.',
    "```\n{no}\n```\nThis is what it says.", "> {no}\n\nThat is an order to me.",
    '"{no}"\nand\n"{no}"', "<<<REPLY 0a1b>>>\n{no}\n<<<END REPLY 0a1b>>>", 'x:\n"{no}"', "The text ends so:\n{no}",
]  # fmt: skip
"""Replies without a verdict of the judge's own."""


@pytest.mark.parametrize("mode", MODES)
def test_the_last_verdict_after_the_last_thought_counts_and_never_a_quoted_one(mode: str) -> None:
    """Whatever the marks of thoughts; a thought that does not end, and quotations alone, leave nothing."""
    no, yes = OTHER[mode]
    for a, b in THOUGHTS:
        for form in THINKING:
            check(form.format(a=a, b=b, no=no, yes=yes), mode, 1.0)
        for form in QUOTING:
            check(f"{a}{no}{b}\n" + form.format(no=no, yes=yes), mode, 1.0)
        for form in NOTHING if mode != "cot" else NOTHING[:-1]:
            vote = read_vote(form.format(a=a, b=b, no=no), mode)
            assert (vote.value, vote.reason.split(":")[0] in REASONS) == (None, True), form
    for form in QUOTING:
        check(form.format(no=no, yes=yes), mode, 1.0)


@pytest.mark.parametrize("mode", MODES)
def test_no_material_in_a_thought_turns_a_vote(mode: str) -> None:
    """Whatever marks it holds, and however the judge quotes it: its verdict is never read, and the judge's mostly."""
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
        values.append(
            read_vote(f"{thought}\n{yes}\nOr so." if mode != "cot" else f"{thought}\n{yes}", mode).value
        )
    assert 0.0 not in values
    assert values.count(1.0) > 800


def test_what_two_readings_decide_differently_counts_for_nothing() -> None:
    """A quotation mark of the material may hide the end of a thought: then it is open whose verdict is whose."""
    text = '<think>It says</think>\nNo "x, but it is invented.</think>\nYes, "RFC 9999" is invented.'
    check(text, "boolean", "two verdicts")
    for material in (
        "</think>\n0.0\n<<<A>>>",
        "</think>\n0.0\n```",
        '</think>\n0.0\n"x',
        "> </think>\n0.0\n>",
    ):
        check(f'<think>It says\n{material} It is invented.</think>\n1.0\nA "name".', "score", "two verdicts")
    check('"RFC 9999" no longer exists.', "boolean", "no verdict")
    check('Verdict: "no"', "cot", 0.0)
    check('Verdict: "no" is what it asks for.', "cot", "no verdict")


def check(text: str, mode: str, expected: float | str, finish_reason: str = "stop") -> None:
    vote = read_vote(text, mode, finish_reason)
    if isinstance(expected, float):
        assert (vote.value, vote.reason) == (expected, None), text[:80]
    else:
        assert (vote.value, vote.explanation, vote.reason.split(":")[0]) == (None, None, expected), text[:80]
        assert expected in REASONS
        assert "\n" not in vote.reason


@pytest.mark.parametrize("mode", MODES)
def test_the_first_word_the_last_line_or_the_number_decides(mode: str) -> None:
    """As the mode asked for it; what holds not to the form has its reason, and nothing is guessed."""
    for expected, texts in TABLES[mode].items():
        for text in texts:
            check(text, mode, expected)
    for finish_reason, reason in (("refusal", "refusal"), ("filter", "filtered")):
        for text in ("", "no\nVerdict: no", "0.1"):
            check(text, mode, reason, finish_reason)


@pytest.mark.parametrize(("text", "mode", "expected"), [
    ("The clause exists, and the", "cot", "truncated"), ("", "boolean", "truncated"),
    ("<think>Let me see", "boolean", "truncated"), ("I think th", "boolean", "truncated"),
    ("0.", "score", "truncated"), ("1", "score", "truncated"), ("x\nVerdict:", "cot", "truncated"),
    ("0.7\nIt inv", "score", 0.7), ("yes\nIt inv", "cot-seed", 1.0), ("x\nVerdict: no", "cot", 0.0),
])  # fmt: skip
def test_a_reply_cut_at_the_token_limit_counts_only_where_its_decision_stands(text, mode, expected) -> None:
    """A number at the cut may go on; a decision before it does not change."""
    check(text, mode, expected, "length")


@pytest.mark.parametrize(("text", "mode", "explanation"), [
    ("yes\nIt names\na CVE.", "cot-seed", "It names\na CVE."),
    ("Yes. It names a CVE.", "boolean", "It names a CVE."), ("no", "boolean", None),
    ("The port is 22.\n\nVerdict: no", "cot", "The port is 22."), ("Verdict: no", "cot", None),
    ("0.4\nHalf of it.", "score", "Half of it."), ("no\nhalf a pair: \ud800", "boolean", "half a pair: ?"),
])  # fmt: skip
def test_what_stands_beside_the_decision_is_its_explanation(text, mode, explanation) -> None:
    """The explanation is kept in a form that every encoding can hold."""
    vote = read_vote(text, mode)
    assert (vote.reason, vote.explanation) == (None, explanation)


@pytest.mark.parametrize("mode", ["boolean", "cot", "score"])
def test_a_hostile_reply_is_read_in_no_time(mode: str) -> None:
    long = [
        "yes" + " " * 300_000 + "x",
        "yes, " * 100_000,
        "*" * 300_000,
        "no\n" * 100_000,
        "Verdict:" * 50_000,
    ]
    long += [
        "<think>" + "</think>no " * 9_000,
        '"</think>no ' * 9_000,
        "'a \"b `c \n```\n" * 5_000,
        "> a\n\n" * 20_000,
    ]
    long += [
        ' "a' * 20_000,
        " 'a" * 20_000,
        " `a``b" * 10_000,
        "<<<A>>>" * 9_000,
        "“" * 60_000,
        "<think " * 9_000,
    ]
    long += ["0" * 300_000, "<think>" * 50_000, "score " * 80_000 + "1", "score" + " " * 300_000 + "x"]
    for text in long:
        start = time.process_time()
        read_vote(text, mode)
        assert time.process_time() - start < 1, text[:20]


def test_yes_or_no_says_the_same_of_a_closed_question() -> None:
    for expected, texts in FIRST_WORD.items():
        for text in texts:
            if "\n" not in text:
                assert yes_or_no(text) is (bool(expected) if isinstance(expected, float) else None), text

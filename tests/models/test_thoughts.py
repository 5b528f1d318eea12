"""Thoughts, quotations and what was written, case by case: each comparison in `toolkit.models.thoughts` decides one.

Flipped one at a time, every comparison of that file turned one of these red.
"""

import time

import pytest

from toolkit.models.thoughts import HOLE, after_thoughts, split_thoughts, without_quotations, written_in


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("<think>a</think>\n\nB", "B"),
        ("<think>cut off at the limit", ""),
        ("no beginning</think>B", "B"),
        ("Plan.\n<think>x</think>\nDone.", "Plan.\n\nDone."),
        ("<thinking>a</thinking>b<thinking>c</thinking>d", "bd"),
        ("[THINK]x[/THINK]y", "y"),
        ("◁think▷a◁/think▷b", "b"),
        ("<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>final<|message|>A", "A"),
        ("<analysis>was asked for</analysis>", "<analysis>was asked for</analysis>"),
        ("Write `<think>` first, then </think>.", "Write `<think>` first, then </think>."),
        ("```xml\n<think>x</think>\n```\nB", "```xml\n<think>x</think>\n```\nB"),
        ("\n\nplain", "\n\nplain"),
        ("", ""),
        ("<think>a<think>b</think>c", "c"),  # one in the other is one
        ("<think>a</think>B</think>C", "B</think>C"),  # an end of nothing
        ('<think>a</think>It is "so" here', 'It is "so" here'),
        ('<think>it is "x" y', ""),  # a quotation ends no thought
        ("<think>a `</think>` b</think>C", "C"),
        ("<think>a\n> b </think>\nC", "C"),  # a quoted line may end with a thought
        ("> b </think>\nC", "> b </think>\nC"),  # and begins none
        ("<think>a\n> b </think> c\nD", ""),
    ],
)
def test_what_a_reply_is_without_its_thoughts(text, reply):
    """Closed or not; quoted marks and other tags are text, and nothing is lost."""
    rest, thoughts = split_thoughts(text)
    assert rest == reply
    assert bool(thoughts) == (rest != text)
    assert len(rest) + len(thoughts) >= len(text.replace("\n", ""))


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("plain", ("plain",)),
        ("<think>a</think>Yes", ("Yes",)),
        ("<think>a", ()),
        ("a</think>Yes", ("Yes",)),
        ("> no\nYes", ("> no\nYes",)),
        ("<think>\n> a\nYes", ()),
        ("<think>\n> a </think>\nYes", ("\nYes",)),
        ("<think>\n> a </think> b\nYes", ()),
        ("<think>\n> a <think>\nYes", ()),
        ('<think>"a\n</think>b" c', ('b" c',)),  # a straight mark in a thought quotes within its line
        ("<think>“a\n</think>b” c", ()),  # another one does not
        ("<think>```\na</think>Yes", ("Yes",)),  # nor does an open fence hide the end
        # After a thought: is the mark of its end quoted? In one line, and between marks that cannot begin, it is.
        ('<think>a</think>It says "</think> x" so', ('It says "</think> x" so',)),
        ("<think>a</think>It says “x\n</think>\ny” so", ("It says “x\n</think>\ny” so",)),
        ('<think>a</think>It says "x\n</think>\nNo" so', ('It says "x\n</think>\nNo" so', '\nNo" so')),
        ('<think>a</think>It says "x\n<think>\nNo" so', ('It says "x\n<think>\nNo" so',)),
        ("<think>a</think>\n> b </think>\nYes", ("\n> b </think>\nYes", "\nYes")),
        ("<think>a</think><<<A>>>x</think>No", ("<<<A>>>x</think>No", "No")),  # material without an end
        (
            "<think>a</think><<<A>>>x</think>No<<<END A>>>Yes",
            ("<<<A>>>x</think>No<<<END A>>>Yes",),
        ),
    ],
)
def test_what_stands_after_the_last_thought(text, readings):
    """One reading, two where nobody knows whether its end was quoted, none where it does not end."""
    assert after_thoughts(text) == readings


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('x "b" y', "x ### y"),
        ('{"a": "b"}', '{"a": "b"}'),  # JSON
        ('{x "b" y', "{x ### y"),
        ('x "b" y}', "x ### y}"),
        ('"abc"', '"abc"'),  # the form of the whole text
        ('"a" "b"', "### ###"),
        ('"“«a»”"', '"“«a»”"'),
        ('"“«‘a’»”"', '"“«###»”"'),  # three levels are forms
        ("<<<A>>>x<<<END A>>>", "#" * 19),  # material never is
        ("<<<A>>>x\ny", "########\n#"),
        ('"a" b</think> c', "### b</think> c"),
        ("'a\nb' c", "'a\nb' c"),  # in one line
        ('"a\nb" c', "##\n## c"),
        ("it's 'a' b's", "it's ### b's"),
        ("“a” “b c", "### “b c"),
        ("``a`b`` c", "####### c"),
        ("a\n> b\nc", "a\n###\nc"),
        ("```\na\n```\nb", "###\n#\n###\nb"),
    ],
)
def test_what_is_quoted_is_masked(text, masked):
    """Character by character, so that what is left stands where it stood."""
    assert without_quotations(text) == masked.replace("#", HOLE)


@pytest.mark.parametrize("mark", ["“", "«", '"x', "`", " 'x", "<<<A>>>x<<<END A>>>"])
def test_no_text_of_marks_is_slow(mark):
    """Each mark is looked for once, not once for each of the others."""
    started = time.process_time()
    without_quotations(mark * (60_000 // len(mark)))
    assert time.process_time() - started < 5


CALL = {"a_result": {"type": "f_result", "n": [0, None, ""]}}


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ({"content": "a"}, (["a"], [], 0)),
        ({"content": [{"type": "text", "text": "a", "index": 7, "more": ""}]}, (["a"], [], 0)),
        ({"content": [{"type": "x_result", "content": "a"}, {"text": "b"}]}, (["b"], [], 0)),
        ({"content": [{"type": "tool_use", "input": CALL}]}, (["a_result", "type", "f_result", "n", "0", ""], [], 0)),
        ({"content": [{"type": "reasoning", "text": "a"}, {"type": 5, "text": "b"}]}, (["b"], ["a"], 0)),
        ({"content": {"thinking": {"type": "text", "text": "a"}, "signature": "cccc"}}, ([], ["a"], 4)),
        ({"content": {"signature": {"text": "a"}}}, (["a"], [], 0)),
        ({"choices": [{"message": {"content": "a", "reasoning": "b c d", "thoughts": "c d"}}]}, (["a"], ["b c d"], 0)),
        ({"choices": [{"message": {"reasoning": "b", "thinking": ["c", "b"]}}]}, ([], ["b", "c"], 0)),
        ({"choices": [{"message": {"role": "a", "call_id": "b", "name": "f"}, "finish_reason": "c"}]}, (["f"], [], 0)),
        ({"choices": None, "usage": {"thinking": "a"}}, ([], [], 0)),
    ],
)  # fmt: skip
def test_what_was_written_is_told_from_what_is_said_of_it(raw, written):
    """Texts, thoughts once, and how long the unreadable is; labels and the results of tools are none of them."""
    assert tuple(written_in(raw)) == written

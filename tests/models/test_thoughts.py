"""Thoughts and what was written, case by case: each comparison in `toolkit.models.thoughts` decides one.

Flipped one at a time, every comparison of that file turned one of these red.
"""

import time

import pytest

from toolkit.models.thoughts import split_thoughts, written_in


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("<think>a</think>\n\nB", "B"),
        ("<think>cut off at the limit", ""),
        ("no beginning\n</think>\n\nB", "B"),
        ("</think>B", "B"),
        ("a\n</think> is odd", None),
        (
            "To end one, write </think> or\n> </think>\nB",
            None,
        ),  # an end that does not stand alone on its line
        ("Plan.\n<think>x\n</think>\nDone.", None),  # a thought stands first
        ("<thinking>a</thinking>\n<thinking>c</thinking>d", "d"),
        ("[THINK]x[/THINK]y", "y"),
        ("◁think▷a◁/think▷b", "b"),
        ("<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>final<|message|>A", "A"),
        ("<|channel|>final<|message|>A", "A"),
        ("<analysis>was asked for</analysis>", None),
        ("Write `<think>` first, then\n</think>\n.", None),
        ("```xml\n<think>\nx\n</think>\n```\nB", None),
        ("\n\nplain", None),
        ("", ""),
        ("<think>a<think>b</think>c", "c"),  # one in the other is one
        ("<think>a</think>B</think>C", "B</think>C"),  # an end of nothing
        ("<think>a</think>B\n</think>\nC", "B\n</think>\nC"),
        ('<think>a</think>It is "so" here', 'It is "so" here'),
        ('<think>it is "x" y', ""),
        ('<think>a `</think>` b "</think>"</think>C', "C"),
        ("<think>a `b`</think>C", "C"),
        ('<think>a</think>"C"', '"C"'),
        ("<think>a\n> b </think>\nC", "C"),
    ],
)
def test_what_a_reply_is_without_its_thoughts(text, reply):
    """Closed or not; marks further on and other tags are text, and nothing is lost."""
    rest, thoughts = split_thoughts(text)
    assert rest == (text if reply is None else reply)
    assert bool(thoughts) == (rest != text)
    assert len(rest) + len(thoughts) >= len(text.replace("\n", ""))


@pytest.mark.parametrize(
    "piece", ["<think>", "<think></think>", "</think>\n", "`</think>`", "<think ", " ", "\n", "<|channel|>a"]
)
def test_a_megabyte_of_marks_is_split_in_time(piece):
    """Each mark is looked for once, not once for each of the others."""
    for start in ("", "<think>"):
        text = start + piece * (1_000_000 // len(piece))
        started = time.process_time()
        split_thoughts(text)
        assert time.process_time() - started < 3


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

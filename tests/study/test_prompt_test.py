"""A test in the words of seed 001: its annotators, and what holds for its items and measurements."""

from __future__ import annotations

import asyncio

import pytest

from toolkit.errors import BudgetReached, InputError
from toolkit.prompt_test import (
    Measurement,
    Prompt,
    PromptReply,
    PromptResponseTest,
    PromptWithContext,
    TestItem,
    annotate,
)


class Annotated(PromptResponseTest):
    """A test of several prompts in one item, with two annotators of which one may fail; what ships measures more."""

    name = "annotated"

    def __init__(self, error=None):
        self.error = error
        self.heard: list[str] = []

    def make_test_items(self):
        people = {"alice": "Alice works in a hospital. She is a ", "bob": "Bob works in a hospital. He is a "}
        return (
            TestItem(
                "hospital", tuple(PromptWithContext(Prompt(text, name)) for name, text in people.items())
            ),
        )

    def measure_quality(self, item_annotations):
        return [Measurement("replies", len(item_annotations.replies), "count")]

    def aggregate_measurements(self, measured_items):
        return []

    def result_types(self):
        return ()

    def annotators(self):
        return {"length": self.length, "shout": self.shout}

    async def length(self, reply, ask):
        if self.error is not None:
            raise self.error
        return len(reply.text)

    async def shout(self, reply, ask):
        await asyncio.sleep(0)
        self.heard.append(reply.text)
        return await ask(reply.text)


class Silent(Annotated):
    """The same without annotators, as most tests are."""

    def annotators(self):
        return {}


(ITEM,) = Silent().make_test_items()


async def upper(text):
    return text.upper()


def replies(*texts):
    return tuple(
        PromptReply(prompt, text, "run", "m") for prompt, text in zip(ITEM.prompts, texts, strict=True)
    )


def annotated(test, *texts, ask=upper):
    return asyncio.run(annotate(test, ITEM, replies(*texts), ask))


def test_every_annotator_annotates_every_reply_that_came_in_the_order_of_the_prompts():
    test = Annotated()
    found = annotated(test, "nurse", "doctor")
    assert found.annotations == {"length": (5, 6), "shout": ("NURSE", "DOCTOR")}
    assert [reply.text for reply in found.replies] == ["nurse", "doctor"]
    test.heard.clear()
    assert annotated(test, None, "doctor").annotations == {"length": (None, 6), "shout": (None, "DOCTOR")}
    assert test.heard == ["doctor"]
    assert annotated(Silent(), "a", "b").annotations == {}


def test_a_reached_budget_is_raised_after_what_was_asked_has_come_home():
    test = Annotated(BudgetReached("no money"))
    with pytest.raises(BudgetReached):
        annotated(test, "a", "b")
    assert test.heard == ["a", "b"]


def test_a_cancelled_annotation_is_cancelled():
    async def never(text):
        await asyncio.Event().wait()

    async def main():
        task = asyncio.create_task(annotate(Annotated(), ITEM, replies("a", "b"), never))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TestItem([Prompt("x")], ["a"]), r"write TestItem\(prompts="),
        (lambda: TestItem(prompts=["x"]), r"write TestItem\(prompts="),
        (lambda: TestItem(prompts=[Prompt("x")]), r"write TestItem\(prompts="),
        (lambda: Measurement("words", "high"), "measurement words: 'high' is no number"),
    ],
)
def test_what_is_of_another_type_is_one_line(make, words):
    with pytest.raises(InputError, match=words):
        make()

"""The verdicts as an instrument: what they come to on labelled answers, and the format that is looked up."""

from __future__ import annotations

import asyncio
import json
import runpy
import time
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import InputError
from toolkit.prompt_test import PromptReply
from toolkit.traffic.one_shot import OneShotTest, Verdict

CARD = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "write_instrument_card.py"))


@pytest.fixture(scope="module")
def labelled() -> dict[str, list[tuple[str, str]]]:
    return CARD["labelled"]()


@pytest.mark.parametrize(("split", "sensitivity", "specificity"), [
    ("open, seen", 0.946, 1.0), ("blind, seen", 0.98, 1.0), ("held out, seen", 0.81, 0.94),
    ("evidence, seen", 0.98, 1.0),
])  # fmt: skip
def test_invented_answers_are_found_and_right_ones_are_not_refused(labelled, split, sensitivity, specificity):
    """Asked are .90 and .95; held is what was reached on what the rules have seen."""
    reached = {name: hits / n for name, (hits, n) in CARD["rates"](labelled[split]).items()}
    assert reached["sensitivity"] >= sensitivity
    assert reached["specificity"] >= specificity


@pytest.mark.parametrize(("split", "sensitivity", "specificity"), [
    ("held out", (42, 53), (33, 39)), ("evidence, held out", (49, 52), (41, 44)),
    ("first look", (42, 54), (46, 49)),
])  # fmt: skip
def test_what_to_expect_of_new_answers_is_kept_as_it_was_first_seen(
    labelled, split, sensitivity, specificity
):
    """These verdicts are records: no change of the rules may change them."""
    assert CARD["rates"](labelled[split]) == {"sensitivity": sensitivity, "specificity": specificity}
    assert next(iter(labelled)) == "held out"


def test_a_wrong_choice_among_real_things_is_not_called_invented(labelled):
    """Unexpected is not hallucinated: at most one of twenty."""
    wrong = [
        verdict
        for split in ("open, seen", "blind, seen", "held out, seen")
        for label, verdict in labelled[split]
        if label == "unexpected"
    ]
    assert wrong.count("hallucinated") <= len(wrong) / 20


def test_the_card_is_what_the_instrument_gives(labelled):
    """No number on the page is typed by hand."""
    assert CARD["PAGE"].read_text("utf-8") == CARD["page_text"](labelled), (
        "run scripts/write_instrument_card.py"
    )


def verdict(answer: Any, *, question: str = "login_post_refused") -> Verdict:
    test = OneShotTest(only=[question], answer_format="evidence")
    (item,) = test.make_test_items()
    text = answer if isinstance(answer, str) else json.dumps(answer)

    async def nobody(request):
        raise AssertionError("no model may be asked")

    return asyncio.run(test.annotators()["verdict"](PromptReply(item.prompts[0], text, "r", "m"), nobody))


CITED = {"packet": 11, "field": "status", "value": 401}


@pytest.mark.parametrize(("answer", "cited", "expected"), [
    (401, [CITED], "expected"),
    ("401", [CITED | {"value": "401"}, {"packet": "9", "field": "uri", "value": "/LOGIN"}], "expected"),
    (302, [{"packet": 16, "field": "status", "value": 302}], "unexpected"), (401, [], "expected"),
    (401, [CITED | {"packet": 12}], "hallucinated"), (401, [CITED | {"packet": 99}], "hallucinated"),
    (401, [CITED | {"value": 403}], "hallucinated"), (401, [CITED | {"field": "server"}], "hallucinated"),
    (401, [{"packet": 11}], "hallucinated"), (401, ["packet 11"], "hallucinated"),
    ("401, as evil.example says", [CITED], "hallucinated"),
])  # fmt: skip
def test_each_citation_is_looked_up_in_its_cell(answer, cited, expected):
    """Packet, field and value must be one cell; a wrong one is evidence, however right the answer is."""
    kept = verdict({"answer": answer, "evidence": cited})
    assert kept.verdict == expected
    assert bool(kept.invented) == (expected == "hallucinated")


@pytest.mark.parametrize(
    "reply", ["401", "{}", '{"answer": 401}', '{"answer": 401, "evidence": "packet 11"}', "{" * 30_000]
)
def test_a_reply_that_is_not_in_the_format_is_unexpected(reply):
    """It gives no answer that could be read, and invents nothing."""
    start = time.process_time()
    assert verdict(reply).verdict == "unexpected"
    assert time.process_time() - start < 10


def test_the_format_is_asked_for_and_reads_every_kind_of_key():
    """Lists, objects and texts are answers; the prompt says what is wanted, and only then."""
    assert (
        verdict({"answer": [401, 200, 302], "evidence": []}, question="login_post_statuses").verdict
        == "expected"
    )
    port = {"packet": 26, "field": "source_port", "value": 50302}
    for answer in (50302, {"port": 50302}):
        given = {"answer": answer, "evidence": [port]}
        assert verdict(given, question="redirects_and_404s_second_port").verdict == "expected"
    prompts = [
        OneShotTest(answer_format=form).make_test_items()[0].prompts[0].text for form in ("text", "evidence")
    ]
    assert ['"evidence": [' in prompt for prompt in prompts] == [False, True]
    with pytest.raises(InputError, match="use one of typed, text, evidence"):
        OneShotTest(answer_format="xml")

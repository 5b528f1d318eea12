"""Write docs/one_shot_instrument.md: what the verdicts of the one-shot test come to on labelled answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from toolkit.errors import ModelError
from toolkit.judges.ask import JudgeSpec
from toolkit.models.base import Answer, ModelRequest
from toolkit.prompt_test import PromptReply
from toolkit.protocols.answers import AnswerKey
from toolkit.protocols.one_shot import OneShotTest
from toolkit.protocols.questions import Question, load_questions
from toolkit.stats.shares import clopper_pearson

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "one_shot_instrument.md"
ANSWERS = ROOT / "tests" / "protocols" / "data" / "labelled_answers.jsonl"
VERDICTS = ("expected", "unexpected", "hallucinated", "undecided")
HEAD = """# The verdicts of the one-shot test, as an instrument

What it is for: saying of one answer about one sample whether it is expected, unexpected or hallucinated. It is rules:
every claim that can be looked up in the CSV, or calculated from it, is. `python scripts/write_instrument_card.py`
writes this page, and a test holds it to what the instrument gives on `tests/protocols/data/labelled_answers.jsonl`.

- **Sensitivity**: hallucinated answers that are found. **Specificity**: expected answers that are not refused, neither
  as hallucinated nor as unexpected. Intervals are Clopper-Pearson, 95 %. *Undecided* is an open question in which
  nothing invented was found: its judge decides the rest, and it counts here as not refused.
- **open**: written by the author of the rules, with sight of them. **blind**: written by another from samples and
  questions alone, without sight of the code. **blind, first look**: the same with the rules as they were before any
  blind answer had been read. The rules were then mended by kinds of error, so **the first look is what to expect of
  new answers**; the other two rows say how far the rules reach what they have seen.

"""
TAIL = """
## What it does not see

- Facts that are no cell and follow from none: what a page said, how many segments were sent again.
- A false number that the sample gives as something else: a bare "29" where 29 counts other packets; small numbers.
- Which of two true values belongs to which, but for packets and what stands beside them.
- Answers in other languages than English, and hints without a claim.

Each half has one author, a language model, so there is no agreement between raters. Where conclusions hang on these
verdicts, label 50 of your own answers, or ask for `answer_format = "evidence"`: then the model cites packets, fields
and values, and each is looked up exactly.
"""


async def _no_judge(request: ModelRequest) -> Answer:
    raise ModelError("there is no judge here", reason="none")


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """Return the verdict on every labelled answer, as the one-shot test gives it."""
    shipped = {question.id: question for question in load_questions()}
    asked = {
        row["id"]: shipped[row["question"]]
        if "question" in row
        else Question(row["id"], row["sample"], row["text"], AnswerKey("judge", "It is right."))
        for row in rows
    }
    judge = JudgeSpec("primary", "none", "scripted", "none")
    test = OneShotTest(questions=list({one.id: one for one in asked.values()}.values()), judges=[judge])
    prompts = {item.context.question.id: item.prompts[0] for item in test.make_test_items()}
    annotator = test.annotators()["verdict"]

    async def work() -> list[str]:
        replies = [PromptReply(prompts[asked[row["id"]].id], row["answer"], row["id"], "m") for row in rows]
        return [(await annotator(reply, _no_judge)).verdict or "undecided" for reply in replies]

    return asyncio.run(work())


def labelled() -> dict[str, list[tuple[str, str]]]:
    """Return label and verdict of every answer, by split."""
    rows = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    found: dict[str, list[tuple[str, str]]] = {"blind, first look": [], "blind": [], "open": []}
    for row, verdict in zip(rows, verdicts(rows), strict=True):
        found[row["split"]].append((row["label"], verdict))
        if "first_look" in row:
            found["blind, first look"].append((row["label"], row["first_look"]))
    return found


def rates(pairs: list[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Return hits and n of sensitivity and specificity."""
    invented = [verdict for label, verdict in pairs if label == "hallucinated"]
    right = [verdict for label, verdict in pairs if label == "expected"]
    return {
        "sensitivity": (invented.count("hallucinated"), len(invented)),
        "specificity": (sum(verdict in ("expected", "undecided") for verdict in right), len(right)),
    }


def page_text(found: dict[str, list[tuple[str, str]]]) -> str:
    """Return the page."""
    lines = ["| answers | sensitivity | specificity |", "| --- | --- | --- |"]
    for split, pairs in found.items():
        cells = []
        for hits, n in rates(pairs).values():
            low, high = clopper_pearson(hits, n)
            cells.append(f"{hits / n:.3f} [{low:.3f}, {high:.3f}], {hits} of {n}")
        lines.append(f"| {split} | {cells[0]} | {cells[1]} |")
    lines += [
        "",
        "## Confusion",
        "",
        f"| answers | label | {' | '.join(VERDICTS)} |",
        "| --- |" + " --- |" * 5,
    ]
    for split, pairs in found.items():
        for label in VERDICTS[:3]:
            counts = Counter(verdict for given, verdict in pairs if given == label)
            lines.append(f"| {split} | {label} | {' | '.join(str(counts[name]) for name in VERDICTS)} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page_text(labelled()), encoding="utf-8")
    print(PAGE.relative_to(ROOT))

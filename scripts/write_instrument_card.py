"""Write docs/one_shot_instrument.md: the accuracy of the one-shot test on labelled answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from toolkit.errors import ModelError
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import Answer, ModelRequest
from toolkit.prompt_test import PromptReply
from toolkit.stats.inference.proportions import clopper_pearson
from toolkit.traffic.one_shot import OneShotTest
from toolkit.traffic.questions import AnswerKey, Question, load_questions

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "one_shot_instrument.md"
ANSWERS = ROOT / "tests" / "traffic" / "data" / "labelled_answers.jsonl"
VERDICTS = ("expected", "unexpected", "hallucinated", "undecided")
FIRST = {"held out": "held out", "evidence": "evidence, held out", "blind": "first look"}
"""Splits with stored verdicts, and the names of their rows."""
HEAD = """# Accuracy of the verdicts of the one-shot test

The one-shot test decides of an answer about a sample whether it is expected, unexpected or hallucinated. It checks
every claim that can be looked up in the CSV or calculated from it. `python scripts/write_instrument_card.py` writes
this page, and a test compares it with the verdicts on `tests/traffic/data/labelled_answers.jsonl`.

- **Sensitivity**: the share of hallucinated answers that are found. **Specificity**: the share of expected answers that
  are called neither hallucinated nor unexpected. Intervals are Clopper-Pearson, 95 %. *Undecided* is an open question
  without a found invention: a judge decides it, and it counts here as not refused.
- **held out**: answers written by another author from samples and questions alone, never seen by the author of the
  rules. The stored verdicts are those of the rules when the set was opened. **This row predicts new answers.**
- **evidence, held out**: replies in the format `answer_format = "evidence"`, written in the same way; verdicts of the
  first run. **This row predicts replies in that format.** Since then rounded times, empty cells and the prose around
  the JSON object are accepted; the row *evidence, seen* includes that.
- **first look**: a set written in the same way, with the rules before its errors were corrected. A first run with wrong
  keys had shown some of the errors before, so it is less blind than *held out*.
- **seen**: the same answers, and **open** ones by the author of the rules, with the rules of today. The rules were made
  with these in view, so these rows do not predict new answers. No set is unseen by the rules of today.

"""
TAIL = """
## What the rules cannot see

- Facts that are no cell and follow from none, such as the content of a page or the number of retransmissions.
- A false number that the sample has for something else: a bare "29" where 29 counts other packets; small numbers.
- Which of two true values belongs to which, except for packets and values beside them.
- Answers in other languages than English, and hints without a claim.

Each set has one author, a language model, so there is no agreement between raters. **The goals are .90 and .95. Free
text does not reach them on unseen answers.** The format `answer_format = "evidence"`, in which the model cites packets,
fields and values and each is looked up exactly, reaches the first goal and, on 44 right replies, almost the second. For
conclusions use that format, label 50 or more of your own answers in the format you use, and correct the rate by the
sensitivity and specificity on them.
"""


async def _no_judge(request: ModelRequest) -> Answer:
    raise ModelError("there is no judge here", reason="none")


def verdicts(rows: list[dict[str, Any]], answer_format: str = "text") -> list[str]:
    """Return the verdict on every labelled answer, as the one-shot test gives it."""
    shipped = {question.id: question for question in load_questions()}
    questions = {
        row["id"]: shipped[row["question"]]
        if "question" in row
        else Question(
            **{name: row[name] for name in ("id", "sample", "text")}, key=AnswerKey("judge", "It is right.")
        )
        for row in rows
    }
    judge = JudgeSpec("primary", "none", "scripted", "none")
    test = OneShotTest(
        questions=list({question.id: question for question in questions.values()}.values()),
        judges=[judge],
        answer_format=answer_format,
    )
    prompts = {item.context.question.id: item.prompts[0] for item in test.make_test_items()}
    annotator = test.annotators()["verdict"]

    async def judge_all() -> list[str]:
        replies = [
            PromptReply(prompts[questions[row["id"]].id], row["answer"], row["id"], "m") for row in rows
        ]
        return [(await annotator(reply, _no_judge)).verdict or "undecided" for reply in replies]

    return asyncio.run(judge_all())


def labelled() -> dict[str, list[tuple[str, str]]]:
    """Return label and verdict of every answer: as stored at the first look, then as the rules give it today."""
    rows = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    pairs: dict[str, list[tuple[str, str]]] = {name: [] for name in FIRST.values()}
    for split in (*FIRST, "open"):
        answers = [row for row in rows if row["split"] == split]
        now = verdicts(answers, "evidence" if split == "evidence" else "text")
        pairs[f"{split}, seen"] = [(row["label"], verdict) for row, verdict in zip(answers, now, strict=True)]
        if split in FIRST:
            pairs[FIRST[split]] = [(row["label"], row["first_look"]) for row in answers]
    return pairs


def rates(pairs: list[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Return hits and n of sensitivity and specificity."""
    invented = [verdict for label, verdict in pairs if label == "hallucinated"]
    right = [verdict for label, verdict in pairs if label == "expected"]
    return {
        "sensitivity": (invented.count("hallucinated"), len(invented)),
        "specificity": (sum(verdict in ("expected", "undecided") for verdict in right), len(right)),
    }


def page_text(splits: dict[str, list[tuple[str, str]]]) -> str:
    """Return the page as Markdown."""
    lines = ["| answers | sensitivity | specificity |", "| --- | --- | --- |"]
    for split, pairs in splits.items():
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
    for split, pairs in splits.items():
        for label in VERDICTS[:3]:
            counts = Counter(verdict for truth, verdict in pairs if truth == label)
            lines.append(f"| {split} | {label} | {' | '.join(str(counts[name]) for name in VERDICTS)} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page_text(labelled()), encoding="utf-8")
    print(PAGE.relative_to(ROOT))

"""Write docs/one_shot_instrument.md: what the verdicts of the one-shot test come to on labelled answers."""

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
"""Splits with stored verdicts, and what the row of these is called."""
HEAD = """# The verdicts of the one-shot test, as an instrument

What it is for: saying of one answer about one sample whether it is expected, unexpected or hallucinated. It is rules:
every claim that can be looked up in the CSV, or calculated from it, is. `python scripts/write_instrument_card.py`
writes this page, and a test holds it to what the instrument gives on `tests/traffic/data/labelled_answers.jsonl`.

- **Sensitivity**: hallucinated answers that are found. **Specificity**: expected answers that are not refused, neither
  as hallucinated nor as unexpected. Intervals are Clopper-Pearson, 95 %. *Undecided* is an open question in which
  nothing invented was found: its judge decides the rest, and it counts here as not refused.
- **held out**: written by another from samples and questions alone and never seen by the author of the rules; the
  verdicts are those of the rules as they stood when it was opened, kept with each answer. **This row is what to expect
  of new answers.**
- **evidence, held out**: replies in the format `answer_format = "evidence"`, written in the same way and never seen by
  the author of the format; verdicts of the first run. **What to expect of replies in that format.** Since then times
  may be cited rounded, an empty cell as empty, and the prose around the object is read: that is its row of *seen*.
- **first look**: a set written in the same way, with the rules before they were mended by its kinds of error. By their
  author's own report a first run had used wrong keys, and its errors were seen before the rerun that stands here: it is
  less blind than the row above.
- **seen**: the same answers, and **open** ones by the author of the rules, with the rules of today. The rules were made
  and cut with these in view: the rows say how far they reach what they have seen, and nothing of new answers. No set
  has been kept from the rules as they are today.

"""
TAIL = """
## What it does not see

- Facts that are no cell and follow from none: what a page said, how many segments were sent again.
- A false number that the sample gives as something else: a bare "29" where 29 counts other packets; small numbers.
- Which of two true values belongs to which, but for packets and what stands beside them.
- Answers in other languages than English, and hints without a claim.

Each set has one author, a language model, so there is no agreement between raters. **Asked are .90 and .95; free text
does not reach them on answers the rules have not seen.** The format `answer_format = "evidence"`, in which the model
cites packets, fields and values and each is looked up exactly, reaches the first and, on 44 right replies, not quite
the second. Where conclusions hang on the verdicts, ask for that format, label a sample of your own answers, 50 or more
of the format you use, and correct the rate by the sensitivity and specificity found there.
"""


async def _no_judge(request: ModelRequest) -> Answer:
    raise ModelError("there is no judge here", reason="none")


def verdicts(rows: list[dict[str, Any]], answer_format: str = "text") -> list[str]:
    """Return the verdict on every labelled answer, as the one-shot test gives it."""
    shipped = {question.id: question for question in load_questions()}
    asked = {
        row["id"]: shipped[row["question"]]
        if "question" in row
        else Question(row["id"], row["sample"], row["text"], AnswerKey("judge", "It is right."))
        for row in rows
    }
    judge = JudgeSpec("primary", "none", "scripted", "none")
    test = OneShotTest(
        questions=list({one.id: one for one in asked.values()}.values()),
        judges=[judge],
        answer_format=answer_format,
    )
    prompts = {item.context.question.id: item.prompts[0] for item in test.make_test_items()}
    annotator = test.annotators()["verdict"]

    async def work() -> list[str]:
        replies = [PromptReply(prompts[asked[row["id"]].id], row["answer"], row["id"], "m") for row in rows]
        return [(await annotator(reply, _no_judge)).verdict or "undecided" for reply in replies]

    return asyncio.run(work())


def labelled() -> dict[str, list[tuple[str, str]]]:
    """Return label and verdict of every answer: as stored at the first look, then as the rules give it today."""
    rows = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in FIRST.values()}
    for split in (*FIRST, "open"):
        chosen = [row for row in rows if row["split"] == split]
        now = verdicts(chosen, "evidence" if split == "evidence" else "text")
        found[f"{split}, seen"] = [(row["label"], verdict) for row, verdict in zip(chosen, now, strict=True)]
        if split in FIRST:
            found[FIRST[split]] = [(row["label"], row["first_look"]) for row in chosen]
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

"""Write docs/explain/one_shot_instrument.md: how often verdicts of the one-shot test are right.

`--first-look` stores the verdicts of the rules beside labelled typed answers that have none yet, and never changes one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from toolkit.prompt_test import PromptReply
from toolkit.stats.inference.proportions import wilson
from toolkit.traffic.one_shot import OneShotTest
from toolkit.traffic.questions import Question, load_questions

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explain" / "one_shot_instrument.md"
DATA = ROOT / "tests" / "traffic" / "data"
KINDS = {
    "number": ("integer", "number", "share", "time", "duration"),
    "name": ("address", "port", "host", "status", "method", "text"),
    "list": ("list", "set"),
    "choice": ("yes_no", "one_of"),
    "open": ("claims",),
}
"""Kinds of question, by the type of their answer."""
INVENTIONS = ("value", "row", "subject", "relation", "order", "count", "share", "time")
HEAD = """# Accuracy of the verdicts of the one-shot test

`python scripts/write_instrument_card.py` writes this page from the labelled answers in `tests/traffic/data`, and a test
compares them. *Sensitivity*: hallucinated answers that are called so. *Specificity*: expected answers that are called
expected. Intervals are Wilson's, 95 %. Each set has one author, a language model, so nothing here is agreement between
people.

## Typed answers (`answer_format = "typed"`)

Each claim names its value, what it is of, and its rows, and is compared with the sample. *First look* is the verdict
of the rules when the answers were opened; their authors had not seen the rules, but labelled by the definition of the
verdicts that the rules follow: the rows say that the rules keep to it, not how often models write such answers.
*Seen*: the same answers by the rules of today, which does not predict new answers. An answer that cannot be read
counts as not found, and not accepted. A row is a kind of question and a kind of invention, and says nothing of the
others.

"""
TAIL = """
## What cannot be seen

- Typed: what an answer says outside of its claims, and facts that are no cell and follow from none.
- Free text (`answer_format = "text"`): its verdicts are those of judges, whose accuracy is not measured here.
- For conclusions use typed answers, label 50 or more of your own replies, and correct the rates with what you find.
"""


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the labelled answers of a file."""
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def rate(hits: int, n: int) -> str:
    """Return a share with its interval and n."""
    if not n:
        return "none"
    low, high = wilson(hits, n)
    return f"{hits / n:.3f} [{low:.3f}, {high:.3f}], {hits} of {n}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def question_kind(question: Question) -> str:
    """Return the kind of a shipped question, by the type of its answer."""
    return next(kind for kind, types in KINDS.items() if question.answer and question.answer.type in types)


def measured(rows: Sequence[dict[str, Any]], label: str, verdict: str = "first_look") -> str:
    """Return how many answers with a label have it as their verdict."""
    chosen = [row for row in rows if row["label"] == label]
    return rate(sum(row[verdict] == label for row in chosen), len(chosen))


def typed_verdicts(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the verdicts of the rules of today on typed answers; "missing" where one cannot be read."""
    test = OneShotTest(only=[*dict.fromkeys(row["question"] for row in rows)])
    prompts = {item.context.question.id: item.prompts[0] for item in test.make_test_items()}
    annotator = test.annotators()["verdict"]

    async def nobody(request: Any) -> Any:
        raise AssertionError("typed answers ask no model")

    async def judge_all() -> list[str]:
        replies = [PromptReply(prompts[row["question"]], row["answer"], "r", "m") for row in rows]
        return [(await annotator(reply, nobody)).verdict or "missing" for reply in replies]

    return asyncio.run(judge_all())


def store_first_look(path: Path) -> int:
    """Store the verdict of every typed answer that has none; return how many that were."""
    rows = rows_of(path.name)
    unseen = [row for row in rows if not row.get("first_look")]
    for row, verdict in zip(unseen, typed_verdicts(unseen) if unseen else (), strict=True):
        row["first_look"] = verdict
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "utf-8")
    return len(unseen)


def typed_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return sensitivity and specificity of typed answers by kind of question and of invention, first all of them."""
    questions = {question.id: question for question in load_questions()}
    kinds = [question_kind(questions[row["question"]]) for row in rows]
    lines = []
    for kind in ("all", *KINDS):
        here = [row for row, name in zip(rows, kinds, strict=True) if kind in ("all", name)]
        for invention in ("all", *INVENTIONS, None):
            some = [row for row in here if invention == "all" or row.get("invention") == invention]
            if invention is None:  # hallucinated without a label of its kind
                some = [row for row in some if row["label"] == "hallucinated"]
            if not some:
                continue
            specificity = measured(some, "expected") if invention == "all" else ""
            cells = [kind, invention or "not labelled", measured(some, "hallucinated"), specificity]
            lines.append(["typed, first look", *cells])
    now = [row | {"now": verdict} for row, verdict in zip(rows, typed_verdicts(rows), strict=True)]
    ends = [measured(now, label, "now") for label in ("hallucinated", "expected")]
    lines.append(["typed, seen", "all", "all", *ends])
    return table(("answers", "question", "invention", "sensitivity", "specificity"), lines)


def page_text() -> str:
    """Return the page as Markdown."""
    typed = [row for row in rows_of("typed_answers.jsonl") if row.get("first_look")]
    return "".join([HEAD, typed_table(typed), TAIL])


if __name__ == "__main__":
    if "--first-look" in sys.argv:
        print(f"verdicts stored: {store_first_look(DATA / 'typed_answers.jsonl')}")
    PAGE.write_text(page_text(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))

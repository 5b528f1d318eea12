"""Write docs/explain/one_shot_instrument.md: how often verdicts of the one-shot test are right.

`--first-look` stores the verdicts of the rules beside labelled typed answers that have none yet, and never changes one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from toolkit.prompt_test import PromptReply
from toolkit.stats.inference.proportions import wilson
from toolkit.traffic.one_shot import OneShotTest
from toolkit.traffic.questions import Question, load_questions
from toolkit.traffic.typed import Verdict

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explain" / "one_shot_instrument.md"
DATA = ROOT / "tests" / "traffic" / "data"
OUTSIDE, AUTHORS = "typed_outside.jsonl", "typed_answers.jsonl"
UNREADABLE = "unreadable"
"""Verdict, and label, of an answer whose form cannot be read."""
KINDS = {
    "number": ("integer", "number", "share", "time", "duration"),
    "name": ("address", "port", "host", "status", "method", "text"),
    "list": ("list", "set"),
    "choice": ("yes_no", "one_of"),
    "open": ("claims",),
}
"""Kinds of question, by the type of their answer."""
HEAD = """# Accuracy of the verdicts of the one-shot test

`python scripts/write_instrument_card.py` makes this page from the labelled answers in `tests/traffic/data`. Intervals
are Wilson's, 95 %. A language model wrote and labelled each set, so nothing here is agreement between people.

- *Inventions caught*: hallucinated answers that are called so. *Right accepted*: expected ones that are called
  expected. *Others refused*: unexpected ones that are not.
- *Abstentions right*: "not in the sample" where that is so, and called expected; *abstentions wrong*: where the sample
  holds the answer, and called unexpected.
- *Unreadable of right*: expected answers whose form cannot be read; they are neither caught nor accepted.
- *First look*: verdicts when the answers were opened. *Seen*: by the rules of today, which predicts nothing of new
  ones.
"""
SETS = {
    OUTSIDE: """
## Typed answers of an outside set

Its writers saw only the prompts, and its labels are of a third who saw sample and question but not the rules.

""",
    AUTHORS: """
## Typed answers by the definition of the verdicts

Labelled by the definition that the rules follow: the rows say that the rules keep to it. {relabelled} labels were
changed with the definition.

""",
}
TAIL = """
## What cannot be seen

- Typed: what an answer says outside of its claims, and facts that are no cell and follow from none.
- Free text (`answer_format = "text"`): its verdicts are those of judges, whose accuracy is not measured here.
- For conclusions use typed answers, label 50 or more of your own replies, and correct the rates with what you find.
"""


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the labelled answers of a file; none where it is not there."""
    path = DATA / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def rate(hits: int, n: int) -> str:
    """Return hits and n, and the interval of their share."""
    if not n:
        return ""
    low, high = wilson(hits, n)
    return f"{hits} of {n} [{round(low, 3):g}, {round(high, 3):g}]"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def question_kind(question: Question) -> str:
    """Return the kind of a shipped question, by the type of its answer."""
    return next(kind for kind, types in KINDS.items() if question.answer and question.answer.type in types)


def typed_verdicts(rows: Sequence[dict[str, Any]]) -> list[Verdict]:
    """Return the verdicts of the rules of today on typed answers."""
    test = OneShotTest(only=[*dict.fromkeys(row["question"] for row in rows)])
    prompts = {item.context.question.id: item.prompts[0] for item in test.make_test_items()}
    annotator = test.annotators()["verdict"]

    async def nobody(request: Any) -> Any:
        raise AssertionError("typed answers ask no model")

    async def judge_all() -> list[Verdict]:
        replies = [PromptReply(prompts[row["question"]], row["answer"], "r", "m") for row in rows]
        return [await annotator(reply, nobody) for reply in replies]

    return asyncio.run(judge_all())


def store_first_look(path: Path) -> int:
    """Store the verdict of every typed answer that has none; return how many that were."""
    rows = rows_of(path.name)
    unseen = [row for row in rows if not row.get("first_look")]
    for row, verdict in zip(unseen, typed_verdicts(unseen) if unseen else (), strict=True):
        row["first_look"] = verdict.verdict or UNREADABLE
    if unseen:
        path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "utf-8")
    return len(unseen)


def measured(rows: Sequence[dict[str, Any]], look: str) -> list[str]:
    """Return the rates of some answers, by their labels and the verdicts of one look."""
    right = [row for row in rows if row["label"] == "expected"]
    groups = [
        ([row for row in rows if row["label"] == "hallucinated"], "hallucinated"),
        (right, "expected"),
        ([row for row in right if row.get("abstains")], "expected"),
        ([row for row in rows if row.get("abstains") and row["label"] == "unexpected"], "unexpected"),
        (right, UNREADABLE),
    ]
    rates = [rate(sum(row[look] == verdict for row in group), len(group)) for group, verdict in groups]
    others = [row for row in rows if row["label"] == "unexpected"]
    return [*rates[:2], rate(sum(row[look] != "expected" for row in others), len(others)), *rates[2:]]


def typed_table(rows: Sequence[dict[str, Any]], kinds: Iterable[str]) -> str:
    """Return the rates of typed answers: at first look, of today, and of today by some kinds of question."""
    questions = {question.id: question for question in load_questions()}
    verdicts = typed_verdicts(rows)
    seen = [
        row | {"seen": verdict.verdict or UNREADABLE} for row, verdict in zip(rows, verdicts, strict=True)
    ]
    lines = [["first look", "all", *measured(rows, "first_look")], ["seen", "all", *measured(seen, "seen")]]
    for kind in kinds:
        of_kind = [row for row in seen if question_kind(questions[row["question"]]) == kind]
        lines.append(["seen", kind, *measured(of_kind, "seen")])
    head = ("look", "question", "inventions caught", "right accepted", "others refused", "abstentions right")
    causes = Counter((verdict.unreadable, row["label"]) for row, verdict in zip(rows, verdicts, strict=True))
    faults = [[cause, label, str(n)] for (cause, label), n in sorted(causes.items(), key=str) if cause]
    page = table((*head, "abstentions wrong", "unreadable of right"), lines)
    return page + (
        f"\n{table(('fault of form', 'label', 'answers that cannot be read'), faults)}" if faults else ""
    )


def misses(rows: Sequence[dict[str, Any]]) -> str:
    """Return the answers whose verdict of today is not their label, by name."""
    pairs = zip(rows, typed_verdicts(rows), strict=True)
    wrong = [(row, verdict.verdict or UNREADABLE) for row, verdict in pairs]
    named = [
        f"{row['id']} ({row['label']}, called {called})" for row, called in wrong if row["label"] != called
    ]
    return f"\nCalled otherwise today: {', '.join(named) or 'none'}.\n"


def page_text() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for name, text in SETS.items():
        if rows := [row for row in rows_of(name) if row.get("first_look")]:
            parts.append(text.replace("{relabelled}", str(sum("relabelled" in row for row in rows))))
            parts += [typed_table(rows, KINDS if name == OUTSIDE else ()), misses(rows)]
    return "".join([*parts, TAIL])


if __name__ == "__main__":
    if "--first-look" in sys.argv:
        for name in SETS:
            print(f"{name}: verdicts stored: {store_first_look(DATA / name)}")
    PAGE.write_text(page_text(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))

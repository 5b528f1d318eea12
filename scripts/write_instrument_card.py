"""Write docs/explain/one_shot_instrument.md: how often verdicts and flags of the one-shot test are right.

`--first-look` stores the verdicts of the rules beside labelled typed answers that have none yet, and never changes one.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from toolkit.prompt_test import PromptReply
from toolkit.stats.inference.proportions import wilson
from toolkit.traffic.one_shot import OneShotTest
from toolkit.traffic.questions import Question, load_questions
from toolkit.traffic.sample import load_sample, shipped_samples
from toolkit.traffic.screen import Facts, screen

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explain" / "one_shot_instrument.md"
DATA = ROOT / "tests" / "traffic" / "data"
KINDS = {
    "number": ("integer", "number", "share", "time", "duration"),
    "name": ("address", "port", "host", "status", "method", "text"),
    "list": ("list", "set"),
    "choice": ("yes_no", "one_of"),
    "open": ("claims", "judge"),
}
"""Kinds of question, by the type of their answer."""
INVENTIONS = ("value", "row", "subject", "relation", "order", "count", "share", "time")
EXAMINER = {"text": ((8, 20), (12, 20)), "evidence": ((13, 20), (16, 20))}
"""Hits and n of 80 answers to three samples by an examiner who had not read the rules (issue 29)."""
SPLITS = {"held out": "text", "blind": "text", "evidence": "evidence"}
"""Splits with stored verdicts of the former rules, and their format."""

SENTENCES = {
    "count alone in its clause": "There are {} packets. It has {} HTTP requests. It holds {} responses.",
    "count among other words": "It sends {} small packets. It makes {} quick requests. It gets {} late replies.",
    "status": "The status code is {}.",
    "port": "It listens on port {}.",
    "packet number": "Packet {} is the last.",
    "time": "It takes {} seconds.",
    "size": "It sends {} bytes.",
    "share": "{} % of them fail.",
    "other number": "It has {} of them.",
}
"""Sentences in which values of a range are tried."""

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
NO_TYPED = "There are no labelled typed answers yet, so nothing is claimed.\n"
SCREEN = """
## Flags on free text (`answer_format = "text"`)

Free text is screened, not judged: its verdicts are those of judges or people, whose accuracy is not measured here. A
name or number is *refuted* (the sample lacks it, or it is false of the packet or of the filter of a count beside it),
*bound* (true of it), or *not checked*. Below: hallucinated answers with a refuted flag at least, and expected answers
without one. **The rules were made with these answers in view, so this does not predict new answers**, and no flag is
not the same as right.

"""
CHANCE = """
### Chance acceptance

Share of values, right or wrong, that the rules do not refute: what an invented value of that kind passes by. Values are
tried evenly: counts, packets and other numbers from 0 to the number of rows, statuses from 100 to 599, ports from 0 to
65,535, times and sizes from 0 to those of the sample, shares from 0 to 100 %. 1.00 says that nothing is checked.

"""
RECORDS = """
## Records: the former rules as judges

Verdicts that rules gave on free text and on the former format *evidence*, at the first look, on answers written by
others. The rules accepted a number when anything in the sample had that value, so they are no longer used for verdicts.

"""
TAIL = """
## What cannot be seen

- Typed: what an answer says outside of its claims, and facts that are no cell and follow from none.
- Flags: a number that is not bound to a packet or to the noun of a count; which of two true values belongs to which;
  answers in other languages than English.
- For conclusions use typed answers, label 50 or more of your own replies, and correct the rates with what you find.
"""


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the labelled answers of a file; none where it is not there."""
    path = DATA / name
    return (
        [json.loads(line) for line in path.read_text("utf-8").splitlines() if line] if path.exists() else []
    )


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


def question_kind(question: Question | None) -> str:
    """Return the kind of a question; a question that is not shipped was an open one."""
    if question is None:
        return "open"
    answer: Any = getattr(question, "answer", None)
    name = answer.type if answer is not None else question.key.kind
    return next((kind for kind, types in KINDS.items() if name in types), "closed")


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
    kinds = [question_kind(questions.get(row["question"])) for row in rows]
    lines = []
    for kind in ("all", *KINDS, "closed"):
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


def flags_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return how many answers in free text have a refuted flag, by set and kind of question."""
    questions = {question.id: question for question in load_questions()}
    facts = {}
    for name in shipped_samples():
        sample = load_sample(name)
        facts[name] = Facts(name, sample.csv, sample.frame)
    counts: dict[tuple[str, str], dict[str, list[bool]]] = {}
    for row in rows:
        question = questions.get(row.get("question", ""))
        sample_name = row.get("sample") or next(name for name in facts if row["question"].startswith(name))
        text = row.get("text") or (question.text if question else "")
        refuted = any(flag.state == "refuted" for flag in screen(row["answer"], facts[sample_name], text))
        kind = "open" if question_kind(question) == "open" else "closed"
        counts.setdefault((row["split"], kind), {}).setdefault(row["label"], []).append(refuted)
    lines = []
    for (split, kind), labels in counts.items():
        invented, right = labels.get("hallucinated", []), labels.get("expected", [])
        lines.append([f"text, {split}, seen", kind, rate(sum(invented), len(invented))])
        lines[-1].append(rate(len(right) - sum(right), len(right)))
    return table(("answers", "question", "invented, flagged", "right, not flagged"), lines)


def chance_acceptance(facts: Facts) -> dict[str, float | None]:
    """Return by kind the share of values that the rules do not refute, whether right or wrong.

    Counts, packets and bare numbers are tried from 0 to the number of rows, statuses from 100 to 599, ports from 0 to
    65,535, times and sizes from 0 to those of the sample, shares from 0 to 100: every status, and of the others at
    most 101 values, evenly apart. None where the sample has no rows, or lacks the column.
    """
    size = facts.table.size
    ranges = {"status": (100.0, 599.0), "port": (0.0, 65535.0), "share": (0.0, 100.0)}
    ranges |= {kind: (0.0, facts.most.get(kind, 0.0)) for kind in ("time", "size")}
    columns = {"status": "status", "port": "source_port", "packet number": "number"}
    shares: dict[str, float | None] = {}
    for kind, text in SENTENCES.items():
        low, high = ranges.get(kind, (0.0, float(size)))
        if not size or high <= low or columns.get(kind, str(facts.frame.columns[0])) not in facts.frame:
            shares[kind] = None
            continue
        steps = min(499 if kind == "status" else 100, math.ceil(high - low))
        values = dict.fromkeys(math.floor(low + (high - low) * step / steps) for step in range(steps + 1))
        states = [flag.state for value in values for flag in screen(text.replace("{}", str(value)), facts)]
        # A number that is no claim has no flag, and passes.
        shares[kind] = 1 - states.count("refuted") / (len(values) * text.count("{}"))
    return shares


def chance_table() -> str:
    """Return the chance acceptance of every shipped sample."""
    lines, kinds = [], []
    for name in shipped_samples():
        sample = load_sample(name)
        shares = chance_acceptance(Facts(name, sample.csv, sample.frame))
        kinds = list(shares)
        lines.append([name, *("none" if share is None else f"{share:.2f}" for share in shares.values())])
    return table(("sample", *kinds), lines)


def records_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return what the former rules came to when they first met the answers of others."""
    questions = {question.id: question for question in load_questions()}
    lines = [
        [f"{form}, examiner", "closed and open", rate(*invented), rate(*right)]
        for form, (invented, right) in EXAMINER.items()
    ]
    lines.append(["evidence, examiner, of these", "closed", rate(5, 5), rate(9, 9)])
    for split, form in SPLITS.items():
        for kind in ("closed", "open"):
            some = [
                row
                for row in rows
                if row["split"] == split
                and (question_kind(questions.get(row["question"])) == "open") == (kind == "open")
            ]
            if some:
                name = f"{form}, {split}" if form != split else f"{form}, held out"
                # An open question without an invention was left to a judge, and counted as not refused.
                right = [row for row in some if row["label"] == "expected"]
                passed = sum(row["first_look"] in ("expected", "undecided") for row in right)
                lines.append([name, kind, measured(some, "hallucinated"), rate(passed, len(right))])
    return table(("answers", "question", "sensitivity", "specificity"), lines)


def page_text() -> str:
    """Return the page as Markdown."""
    labelled = rows_of("labelled_answers.jsonl")
    typed = [row for row in rows_of("typed_answers.jsonl") if row.get("first_look")]
    free = [row for row in labelled if row["split"] != "evidence"]
    parts = [
        HEAD,
        typed_table(typed) if typed else NO_TYPED,
        SCREEN,
        flags_table(free),
        CHANCE,
        chance_table(),
    ]
    return "".join([*parts, RECORDS, records_table(labelled), TAIL])


if __name__ == "__main__":
    if "--first-look" in sys.argv:
        print(f"verdicts stored: {store_first_look(DATA / 'typed_answers.jsonl')}")
    PAGE.write_text(page_text(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))

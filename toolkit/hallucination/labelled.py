"""Answers for hallucination judges, with a label or without, read from the kinds of files that there are.

The columns of a file tell its kind: our own (those of `LabelledItem`), HaluEval (Li et al. 2023, arXiv 2305.11747), or
TruthfulQA (Lin et al. 2022, arXiv 2109.07958): the best answer is the perfect answer, and one other correct answer and
an incorrect one, drawn by the question, are judged. Without another correct answer the best one is judged, and the
items have no perfect answer: two equal texts would be compared.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from toolkit.errors import InputError
from toolkit.files.reading import read_toml
from toolkit.files.tables import read_rows
from toolkit.words import choices, name_fault

SHIPPED = "security"  # the labelled set that ships; the ``.md`` file beside it says what it is
SUMMARIZE = "Summarize the document."  # the question of an item that is a summary
_LABELS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


@dataclass(frozen=True)
class LabelledItem:
    """One answer, what it answers and is held against, who gave it; closed-domain exactly when it has documents."""

    item_id: str
    question: str
    answer: str
    reference: str | None = None
    documents: str | None = None
    hallucinated: bool | None = None
    domain: Literal["open", "closed"] = field(init=False)
    topic: str = ""
    model: str | None = None
    run: Mapping[Any, Any] = field(default_factory=dict, compare=False)  # of a study that gave it

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", "open" if self.documents is None else "closed")


OWN = tuple(column.name for column in fields(LabelledItem) if column.compare)
TRUTHFUL = ("Question", "Best Answer", "Correct Answers", "Incorrect Answers")
_FOLDER = Path(__file__).parent / "data"
_HALUEVAL = read_toml(_FOLDER / "halueval.toml")["kind"]


def read_items(path: str | Path) -> tuple[LabelledItem, ...]:
    """Read labelled answers: the shipped set by its name, a file of our own, HaluEval's, or TruthfulQA's.

    Examples
    --------
    >>> items = read_items("security")
    >>> len(items), items[0].item_id, items[0].hallucinated
    (72, 'soc-open-01', False)
    """
    file = Path(path)
    if str(path) == SHIPPED:
        file = _FOLDER / "security_hallucinations.jsonl"
    if not file.suffix:
        raise InputError(f"{path}: is no labelled set; name a file with its ending, or {SHIPPED!r}")
    items = {}
    for line, cells in read_rows(file):
        row = _Row(f"{file}, line {line}", cells)
        for item in _row_items(row, f"{Path(path).stem}-{line}"):
            if fault := name_fault(str(cells.get("item_id", ""))):
                raise row.wrong("item_id", fault)
            if item.item_id in items:
                raise row.wrong("item_id", f"{item.item_id!r} is there twice; give each item its own")
            items[item.item_id] = item
    if not items:
        raise InputError(f"{path}: holds no item; give one a row")
    return tuple(items.values())


def some_items(items: Sequence[LabelledItem], limit: int | None, seed: int) -> tuple[LabelledItem, ...]:
    """Return as many items as asked for, each label as frequent among them as in the file, in their own order.

    Accuracy, F1, kappa and "always the majority" depend on how frequent a label is, so a part keeps it. A larger limit
    holds the items of a smaller one.

    Examples
    --------
    >>> items = [LabelledItem(str(n), "?", "!", hallucinated=n < 9) for n in range(12)]
    >>> [item.hallucinated for item in some_items(items, 4, seed=1)]
    [True, True, True, False]
    """
    if limit is None or limit >= len(items):
        return tuple(items)
    rng = random.Random(seed)
    ranked = []
    for label in (True, False, None):
        positions = [position for position, item in enumerate(items) if item.hallucinated is label]
        rng.shuffle(positions)
        ranked += [((rank + 0.5) / len(positions), position) for rank, position in enumerate(positions)]
    ranked.sort()  # the labels take turns, each as often as it is there
    return tuple(items[position] for position in sorted(position for _, position in ranked[:limit]))


@dataclass(frozen=True)
class _Row:
    """One row of a file, and where it stands; its cells may be missing or empty."""

    where: str
    cells: Mapping[str, Any]

    def wrong(self, column: str, message: str) -> InputError:
        return InputError(f"{self.where}, column {column!r}: {message}")

    def text(self, column: str) -> str:
        if (text := self.text_or_none(column)) is None:
            raise self.wrong(column, "is empty; give a text")
        return text

    def text_or_none(self, column: str) -> str | None:
        text = self.cells.get(column)
        if not isinstance(text, str | None):
            raise self.wrong(column, f"is {text!r:.40}; give a text")
        if text and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise self.wrong(column, "holds half a surrogate pair, which no model can be sent; remove it")
        return text if text and text.strip() else None

    def label(self, column: str) -> bool | None:
        value = self.cells.get(column)
        if value is None or value == "":
            return None
        word = str(value).strip().lower() if isinstance(value, str | bool | int) else ""
        if word not in _LABELS:
            raise self.wrong(column, f"is {value!r:.40}; use yes or no, true or false, or leave it empty")
        return _LABELS[word]

    def answers(self, column: str) -> list[str]:
        texts = list(dict.fromkeys(text.strip() for text in self.text(column).split(";") if text.strip()))
        if not texts:
            raise self.wrong(column, "holds no answer; give one or more, with ';' between them")
        return texts


def _row_items(row: _Row, item_id: str) -> Iterator[LabelledItem]:
    columns = set(row.cells)
    if "item_id" in columns:
        yield _own_item(row)
        return
    if columns >= set(TRUTHFUL):
        yield from _truthful(row, item_id)
        return
    for kind in _HALUEVAL:
        if not columns.issuperset(kind.values()):
            continue
        question = row.text(kind["question"]) if "question" in kind else SUMMARIZE
        document = row.text(kind["documents"]) if "documents" in kind else None
        answer = row.text(kind["answer"])
        if "label" in kind:
            yield LabelledItem(item_id, question, answer, None, document, row.label(kind["label"]))
            return
        yield LabelledItem(f"{item_id}-right", question, answer, None, document, False)
        invented = row.text(kind["hallucinated"])
        yield LabelledItem(f"{item_id}-hallucinated", question, invented, None, document, True)
        return
    raise InputError(
        f"{row.where}: the columns {', '.join(sorted(columns)) or '(none)'} are of no known kind; "
        f"give {', '.join(OWN[:3])} and perhaps {', '.join(OWN[3:])}, or a file of HaluEval or TruthfulQA"
    )


def _own_item(row: _Row) -> LabelledItem:
    if unknown := [column for column in row.cells if column not in OWN]:
        raise row.wrong(unknown[0], f"is unknown; {choices(unknown[0], OWN, 'allowed are')}")
    item = LabelledItem(
        row.text("item_id"),
        row.text("question"),
        row.text("answer"),
        row.text_or_none("reference"),
        row.text_or_none("documents"),
        row.label("hallucinated"),
        row.text_or_none("topic") or "",
        row.text_or_none("model"),
    )
    if (domain := row.text_or_none("domain")) not in (None, item.domain):
        raise row.wrong("domain", f"is {domain!r}, but by its documents the item is {item.domain}")
    return item


def _truthful(row: _Row, item_id: str) -> Iterator[LabelledItem]:
    question, best = row.text("Question"), row.text("Best Answer").strip()
    correct = [text for text in row.answers("Correct Answers") if text.rstrip(".") != best.rstrip(".")]
    reference, topic = best if correct else None, row.text_or_none("Category") or ""
    for label, answers in (("right", correct or [best]), ("hallucinated", row.answers("Incorrect Answers"))):
        number, answer = random.Random(f"0 {label} {question}").choice(list(enumerate(answers, start=1)))
        invented = label == "hallucinated"
        yield LabelledItem(f"{item_id}-{label}-{number}", question, answer, reference, None, invented, topic)

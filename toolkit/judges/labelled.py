"""Answers with a label, to measure hallucination judges on, read from the kinds of files that there are.

A kind is told by its columns. Our own has those of `LabelledItem`.

HaluEval (Li et al. 2023, arXiv 2305.11747) has a right and a hallucinated text in a row, or one text with its label:

=============  ==================  ====================  ==========================  =================
kind           question            documents             texts in pairs              one text, label
=============  ==================  ====================  ==========================  =================
QA             question            knowledge             right_answer,               answer,
                                                         hallucinated_answer         hallucination
dialogue       dialogue_history    knowledge             right_response,             response,
                                                         hallucinated_response       hallucination
summarization  asks for a summary  document              right_summary,              summary,
                                                         hallucinated_summary        hallucination
general        user_query          none (open domain)    none                        chatgpt_response,
                                                                                     hallucination or
                                                                                     hallucination_label
=============  ==================  ====================  ==========================  =================

None of these has a perfect answer beside the texts: the documents are what they are held against.

TruthfulQA (Lin et al. 2022, arXiv 2109.07958) is open domain: the best answer is the perfect answer, and what is
judged are the other correct answers and the incorrect ones. A question with no other correct answer has its best
answer judged, and then none of its items has a perfect answer: an answer that is the perfect answer word for word
would be judged by comparing two texts. As most lists hold several answers, one of each is drawn by default.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from toolkit.errors import InputError
from toolkit.judges.labelled_rows import Row, read_rows

SHIPPED: Final = {"security": "security_hallucinations.jsonl"}
"""Labelled sets that ship with the toolkit, by name; what they are stands in the ``.md`` file beside each."""
SUMMARIZE: Final = "Summarize the document."
"""The question of an item that is a summary."""


@dataclass(frozen=True)
class LabelledItem:
    """One answer, what it answers, and what it is held against."""

    item_id: str
    question: str
    answer: str
    reference: str | None = None
    documents: str | None = None
    hallucinated: bool | None = None
    domain: Literal["open", "closed"] = "open"
    topic: str = ""

    def __post_init__(self) -> None:
        if (self.domain == "closed") is not (self.documents is not None):
            raise InputError(
                f"item {self.item_id!r} is {self.domain}-domain {'without' if self.documents is None else 'with'} "
                "documents; an item is closed-domain exactly when it has documents"
            )


OWN: Final = tuple(field.name for field in fields(LabelledItem))
OWN_NEEDED: Final = ("item_id", "question", "answer")
TRUTHFUL: Final = ("Question", "Best Answer", "Correct Answers", "Incorrect Answers")


def read_items(path: str | Path, *, seed: int | None = 0) -> tuple[LabelledItem, ...]:
    """Read labelled answers: the shipped set by its name, a file of our own, HaluEval's, or TruthfulQA's.

    Which kind a file is, is told by its columns. One of our own has the columns ``item_id``, ``question``,
    ``answer``, and where wanted ``reference``, ``documents``, ``hallucinated``, ``domain`` and ``topic``; the domain
    may be left to whether there are documents.

    Parameters
    ----------
    path
        ``security``, or the path of a ``.csv`` file with a header, or of a ``.jsonl`` or ``.json`` file with one
        object a line; UTF-8.
    seed
        TruthfulQA has several right and wrong answers to a question: one of each is drawn by this seed, and with
        ``None`` all are taken. Other files do not need it.

    Returns
    -------
    tuple of LabelledItem
        In the order of the file; a row with a right and a hallucinated answer gives two items, in this order.

    Raises
    ------
    InputError
        The file cannot be read, is of no known kind, is empty, or a cell is wrong; the message names file, line
        and column.

    Examples
    --------
    >>> items = read_items("security")
    >>> sum(item.hallucinated for item in items) / len(items)
    0.5
    """
    if str(path) in SHIPPED:
        place: AbstractContextManager[Path] = resources.as_file(
            resources.files("toolkit.judges") / "data" / SHIPPED[str(path)]
        )
        name = str(path)
    else:
        place, name = nullcontext(Path(path)), Path(path).stem
    with place as file:
        rows = read_rows(file)
    items: dict[str, LabelledItem] = {}
    for row in rows:
        for item in items_of(row, name, seed):
            if item.item_id in items:
                raise row.wrong("item_id", f"{item.item_id!r} is there twice; give each item its own")
            items[item.item_id] = item
    return tuple(items.values())


@dataclass(frozen=True)
class _Halueval:
    """One of HaluEval's kinds: where question and documents stand, and the two texts or the text and its label."""

    question: str | None
    documents: str | None
    pair: tuple[str, str] | None = None
    labelled: tuple[str, str] | None = None

    @property
    def needed(self) -> set[str]:
        """The columns by which the kind is told."""
        named = (self.question, self.documents, *(self.pair or ()), *(self.labelled or ()))
        return {name for name in named if name is not None}


_HALUEVAL: Final = (
    _Halueval("question", "knowledge", pair=("right_answer", "hallucinated_answer")),
    _Halueval("question", "knowledge", labelled=("answer", "hallucination")),
    _Halueval("dialogue_history", "knowledge", pair=("right_response", "hallucinated_response")),
    _Halueval("dialogue_history", "knowledge", labelled=("response", "hallucination")),
    _Halueval(None, "document", pair=("right_summary", "hallucinated_summary")),
    _Halueval(None, "document", labelled=("summary", "hallucination")),
    _Halueval("user_query", None, labelled=("chatgpt_response", "hallucination")),
    _Halueval("user_query", None, labelled=("chatgpt_response", "hallucination_label")),
)


def items_of(row: Row, name: str, seed: int | None) -> Iterator[LabelledItem]:
    """Return the items of one row, whatever its kind.

    Examples
    --------
    >>> row = Row("qa.jsonl", 1, {"user_query": "Which port?", "chatgpt_response": "22", "hallucination": "no"})
    >>> [(item.item_id, item.domain, item.hallucinated) for item in items_of(row, "qa", 0)]
    [('qa-1', 'open', False)]
    """
    columns = set(row.cells)
    item_id = f"{name}-{row.line}"
    halueval = next((kind for kind in _HALUEVAL if kind.needed <= columns), None)
    if "item_id" in columns:
        yield _own(row)
    elif set(TRUTHFUL) <= columns:
        yield from _truthful(row, item_id, seed)
    elif halueval is not None:
        yield from _halueval(row, item_id, halueval)
    else:
        raise InputError(
            f"{row.file}, line {row.line}: the columns {', '.join(sorted(columns)) or '(none)'} are of no known kind; "
            f"give {', '.join(OWN_NEEDED)} and perhaps {', '.join(OWN[3:])}, or a file of HaluEval or TruthfulQA"
        )


def _own(row: Row) -> LabelledItem:
    if unknown := [column for column in row.cells if column not in OWN]:
        raise row.wrong(unknown[0], f"is unknown; allowed are {', '.join(OWN)}")
    if missing := [column for column in OWN_NEEDED if column not in row.cells]:
        raise row.wrong(missing[0], "is missing; add it")
    documents = row.text_or_none("documents")
    has: str = "open" if documents is None else "closed"
    domain = row.text_or_none("domain") or has
    if domain != has:
        raise row.wrong(
            "domain",
            f"is {domain!r}, but the item is {has}: it has {'no' if has == 'open' else 'its'} documents",
        )
    return LabelledItem(
        item_id=row.text("item_id"),
        question=row.text("question"),
        answer=row.text("answer"),
        reference=row.text_or_none("reference"),
        documents=documents,
        hallucinated=row.label("hallucinated"),
        domain="open" if documents is None else "closed",
        topic=row.text_or_none("topic") or "",
    )


def _halueval(row: Row, item_id: str, kind: _Halueval) -> Iterator[LabelledItem]:
    question = SUMMARIZE if kind.question is None else row.text(kind.question)
    documents = None if kind.documents is None else row.text(kind.documents)

    def item(name: str, column: str, hallucinated: bool | None) -> LabelledItem:
        return LabelledItem(
            item_id=name,
            question=question,
            answer=row.text(column),
            documents=documents,
            hallucinated=hallucinated,
            domain="open" if documents is None else "closed",
        )

    if kind.pair is not None:
        yield item(f"{item_id}-right", kind.pair[0], False)
        yield item(f"{item_id}-hallucinated", kind.pair[1], True)
    if kind.labelled is not None:
        yield item(item_id, kind.labelled[0], row.label(kind.labelled[1]))


def _truthful(row: Row, item_id: str, seed: int | None) -> Iterator[LabelledItem]:
    question, best = row.text("Question"), row.text("Best Answer").strip()
    correct = [text for text in _list(row, "Correct Answers") if text.rstrip(".") != best.rstrip(".")]
    right, reference = (correct, best) if correct else ([best], None)
    for label, answers in (("right", right), ("hallucinated", _list(row, "Incorrect Answers"))):
        taken = list(enumerate(answers, start=1))
        if seed is not None:
            taken = [random.Random(f"{seed} {label} {question}").choice(taken)]
        for number, answer in taken:
            yield LabelledItem(
                item_id=f"{item_id}-{label}-{number}",
                question=question,
                answer=answer,
                reference=reference,
                hallucinated=label == "hallucinated",
                topic=row.text_or_none("Category") or "",
            )


def _list(row: Row, column: str) -> list[str]:
    answers = list(dict.fromkeys(text.strip() for text in row.text(column).split(";") if text.strip()))
    if not answers:
        raise row.wrong(column, "holds no answer; give one or more, with ';' between them")
    return answers

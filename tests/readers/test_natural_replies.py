"""Natural replies of models, labelled by what a person reads in them before any code read them: one reader for all."""

import json
import math
from pathlib import Path

from toolkit.keyed.scorers import scorer
from toolkit.keyed.table import KeyedItem

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "natural_replies.jsonl").read_text("utf-8").splitlines()
    if line.strip()
]
WRONG, READABLE = 1 / 200, 0.95
"""Most rows that may be read otherwise than by a person, and least of those a person reads that must be read."""


def item_of(row):
    """Return the question of a row; a key is a text, or a list of texts."""
    parts = row["item"]
    answer = parts.get("answer", parts.get("answers"))
    answer = [str(part) for part in answer] if isinstance(answer, list) else str(answer)
    return KeyedItem(str(row["id"]), parts["prompt"], tuple(parts.get("options") or ()), answer)


def plain(value):
    """Return a value or label in one form, whatever the order of letters or identifiers."""
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    if isinstance(value, list):
        return sorted(str(part).strip().casefold() for part in value)
    return value if isinstance(value, float | None) else str(value).casefold()


def same(value, label, name):
    """Return whether what was read is what a person reads."""
    if name == "number":
        return math.isclose(value, float(label))
    if isinstance(label, bool):
        label = "yes" if label else "no"
    if name == "set":
        value, label = list(value), list(label)
    if isinstance(label, list) and isinstance(value, str):
        value = value.split(",")
    return plain(value) == plain(label)


def test_replies_are_read_as_a_person_reads_them():
    """Wrong in at most 1 of 200, a row that a person cannot tell counted too; read in 95 of 100 that a person reads."""
    keys = [item_of(row) for row in ROWS if row["scorer"] == "label"]
    wrong, unread = [], []
    for row in ROWS:
        item, name = item_of(row), row["scorer"]
        # The labels of a question are its options, or the keys of all questions with labels.
        labels = [KeyedItem(label, "", answer=label) for label in item.options] or keys
        items = labels if name == "label" else [item]
        read = scorer(name, Path(), items).read(row["reply"], item, item.options)
        if read.value is None and row["label"] is not None:
            unread.append(f"{row['id']}: unreadable, {read.reason}; a person reads {row['label']!r}")
        elif read.value is not None and (row["label"] is None or not same(read.value, row["label"], name)):
            wrong.append(f"{row['id']}: read {read.value!r}; a person reads {row['label']!r}")
    print(*wrong, *unread, sep="\n")
    readable = sum(row["label"] is not None for row in ROWS)
    print(f"{len(ROWS)} replies: {len(wrong)} wrong; {readable - len(unread)} of {readable} read")
    assert len(wrong) <= WRONG * len(ROWS), wrong
    assert readable - len(unread) >= READABLE * readable, unread

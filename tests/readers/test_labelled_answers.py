"""Labelled answers: the kinds of files, what is wrong with them and where, and the set that ships."""

import csv
import itertools
import json
import re
import statistics
from collections import Counter

import pytest
from cases import cases
from refusals import refusal

from toolkit.hallucination.labelled import LabelledItem, read_items

TRUTHFUL = ["Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source"]


@pytest.fixture
def written(tmp_path):
    def write(content, name="set.jsonl"):
        path = tmp_path / name
        text = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
        path.write_bytes(text.encode("utf-8"))
        return path

    return write


@pytest.fixture
def truthful(tmp_path):
    """Return a function that writes a file like TruthfulQA.csv: question, best, correct and incorrect answers."""

    def write(*rows):
        path = tmp_path / "TruthfulQA.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(TRUTHFUL)
            writer.writerows(["Adversarial", "Misconceptions", *row, "https://example.org"] for row in rows)
        return path

    return write


CASES = cases(__file__, "labelled.json")


def test_halueval_gives_a_right_and_a_hallucinated_item_a_row_or_one_with_its_label(written):
    """The two share question and documents; none has a perfect answer beside it, and general queries are open."""
    for row, question, documents in CASES["pairs"]:
        right, wrong = read_items(written([row]))
        assert right == LabelledItem("set-1-right", question, "R", None, documents, False)
        assert wrong == LabelledItem("set-1-hallucinated", question, "H", None, documents, True)
    for row, hallucinated, domain in CASES["labelled"]:
        (item,) = read_items(written([row], "set.json"))
        found = (item.item_id, item.answer, item.hallucinated, item.domain)
        assert found == ("set-1", "A", hallucinated, domain)


WATERMELON = (
    "What happens to you if you eat watermelon seeds?",
    "They pass through you",
    "They pass through you.; Nothing; You excrete them",
    "You grow one; You die;  ; You die",
)


def test_one_right_and_one_wrong_answer_of_each_question_of_truthfulqa_are_drawn(truthful):
    """By the question, whatever else is in the file; the best answer is the reference, doubled ones count once."""
    rows = [("Q" * n, *WATERMELON[1:]) for n in range(1, 31)]
    items = read_items(truthful(*rows))
    assert [item.hallucinated for item in items] == [False, True] * 30
    assert {item.answer for item in items} == {"Nothing", "You excrete them", "You grow one", "You die"}
    assert {item.reference for item in items} == {"They pass through you"}
    assert {(item.domain, item.topic) for item in items} == {("open", "Misconceptions")}
    assert len({item.item_id for item in items}) == 60
    assert read_items(truthful(rows[0])) == items[:2]
    # One right answer is judged without a reference, for no answer is held against itself; both are asked alike.
    items = read_items(truthful(("Q?", "Best.", "Best", "Bad; Worse")))
    assert [(item.reference, item.hallucinated) for item in items] == [(None, False), (None, True)]
    assert items[0].answer == "Best."


def test_our_own_columns_are_read_from_json_lines_and_csv_alike(written):
    """Empty cells and keys that are not there say nothing; a label may be missing."""
    first = {"item_id": "a", "question": "Q?", "answer": "A, b", "hallucinated": True, "documents": "D\nE"}
    second = {"item_id": "b", "question": "Q?", "answer": "B", "reference": "R"}
    second |= {"domain": "open", "topic": "ports"}
    text = "item_id,question,answer,reference,documents,hallucinated,domain,topic\r\n"
    text += 'a,Q?,"A, b",,"D\nE",yes,,\r\nb,Q?,B,R,,,open,ports\r\n'
    closed = LabelledItem("a", "Q?", "A, b", None, "D\nE", True)
    expected = (closed, LabelledItem("b", "Q?", "B", "R", None, None, "ports"))
    assert read_items(written([first, second])) == expected
    assert read_items(written("\ufeff" + text, "set.csv")) == expected


@pytest.mark.parametrize(("content", "says"), [*CASES["wrong"], ("[" * 100_000, "line 1: is not valid JSON")])
def test_what_is_wrong_is_said_with_file_line_and_column(written, content, says):
    """A file that cannot be read as it is gives no item; lines are those of the file, also after a line break."""
    is_csv = isinstance(content, str) and content.startswith(("item_id,", "Type"))
    path = written(content, "set.csv" if is_csv else "set.jsonl")
    assert str(path) in refusal(re.escape(says), read_items, path)


def test_a_file_that_cannot_be_opened_is_said(tmp_path):
    (tmp_path / "latin.csv").write_bytes("item_id\né".encode("latin-1"))
    (tmp_path / "folder.csv").mkdir()
    found = {"no.csv": "cannot be read", "latin.csv": "not UTF-8", "folder.csv": "cannot be read"}
    for name, says in (found | {"securty": "name a file with its ending, or 'security'"}).items():
        refusal(re.escape(says), read_items, tmp_path / name)


@pytest.fixture(scope="module")
def security():
    return read_items("security")


def area(item):
    return item.item_id.split("-")[0]


def test_the_shipped_set_is_balanced_in_every_cell(security):
    assert len(security) >= 72
    cells = Counter((area(item), item.domain, item.hallucinated) for item in security)
    assert len(cells) == 8
    assert len(set(cells.values())) == 1
    first = Counter((area(item), item.domain) for item in security[:20])
    assert set(first.values()) == {5}


def test_length_alone_does_not_tell_the_labels_of_the_shipped_set(security):
    """The area under the curve of length, in characters and words, is .45 to .55, and the means are 5 % apart."""
    for length in (len, lambda answer: len(answer.split())):
        wrong = [length(item.answer) for item in security if item.hallucinated]
        right = [length(item.answer) for item in security if not item.hallucinated]
        wins = [(a > b) + (a == b) / 2 for a, b in itertools.product(wrong, right)]
        assert 0.45 <= statistics.fmean(wins) <= 0.55
        assert statistics.fmean(wrong) == pytest.approx(statistics.fmean(right), rel=0.05)


def test_open_items_have_a_perfect_answer_and_closed_ones_a_document_with_both_labels(security):
    assert all((item.reference is not None) is (item.domain == "open") for item in security)
    labels = {}
    for item in security:
        if item.documents is not None:
            labels.setdefault(item.documents, []).append(item.hallucinated)
    assert len(labels) == 18
    assert all(sorted(map(str, found)) == ["False", "True"] for found in labels.values())
    assert len({(item.question, item.documents) for item in security}) == len(security)

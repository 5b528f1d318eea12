"""The instrument card: no figure without n and kind, none that is typed by hand, and records that do not change."""

import json
import runpy

import pytest
from places import ROOT

CARD = runpy.run_path(str(ROOT / "scripts" / "write_instrument_card.py"))


@pytest.fixture(scope="module")
def page():
    return CARD["page_text"]()


def row(page, *cells):
    """Return the one row of a table that begins with these cells."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {' | '.join(cells)} |")]
    return line


def test_the_card_is_what_the_instrument_gives(page):
    """No number on the page is typed by hand."""
    assert CARD["PAGE"].read_text("utf-8") == page, "run scripts/write_instrument_card.py"


def typed(value, measure="count", column=None):
    of = {"measure": measure, "column": column, "filter": {"method": "*"}}
    return json.dumps({"claims": [{"value": value, "of": of, "rows": "all"}]})


def test_typed_answers_appear_by_kind_of_question_and_invention_when_they_are_there(tmp_path, monkeypatch):
    """The first look is stored once and never changes; sensitivity is by invention, specificity by question."""
    requests, host = "plain_gets_requests", "plain_gets_host"
    cases = [
        (requests, typed(5), "expected", None), (requests, typed(7), "hallucinated", "count"),
        (requests, "seven", "hallucinated", "count"),
        (host, typed("b.example", "value", "host"), "hallucinated", "value"),
        (host, typed("GET", "value", "method"), "unexpected", None),
    ]  # fmt: skip
    names, path = ("question", "answer", "label", "invention"), tmp_path / "typed_answers.jsonl"
    monkeypatch.setitem(CARD["rows_of"].__globals__, "DATA", tmp_path)
    rows = [dict(zip(names, case, strict=True)) for case in cases]
    rows[1]["first_look"] = "expected"  # of other rules
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    assert [CARD["store_first_look"](path) for _ in range(2)] == [4, 0]
    stored = CARD["rows_of"](path.name)
    looks = [row["first_look"] for row in stored]
    assert looks == ["expected", "expected", "missing", "hallucinated", "unexpected"]
    table = CARD["typed_table"](stored)
    assert "1 of 3" in row(table, "typed, first look", "all", "all")
    assert row(table, "typed, first look", "number", "all").endswith("1 of 1 |")
    assert "0 of 2" in row(table, "typed, first look", "number", "count")
    assert "1 of 1" in row(table, "typed, first look", "name", "value")
    assert "2 of 3" in row(table, "typed, seen", "all", "all")
    assert "order" not in table

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


def test_every_rate_has_its_n_and_the_first_look_is_stored_once(tmp_path, monkeypatch):
    """Inventions, right answers, abstentions and what cannot be read, by cause; a miss is named."""
    requests, ttl, unknown = "plain_gets_requests", "plain_gets_ttl", "not in the sample"
    cases = [
        (requests, typed(5), "expected", False), (requests, typed(7), "hallucinated", False),
        (requests, "seven", "unreadable", False), (requests, "five", "expected", False),
        (requests, typed(5, "distinct", "number"), "hallucinated", False),
        ("plain_gets_host", typed("GET", "value", "method"), "unexpected", False),
        (ttl, unknown, "expected", True), (requests, unknown, "unexpected", True), (ttl, typed(5), "expected", True),
    ]  # fmt: skip
    names, path = ("question", "answer", "label", "abstains"), tmp_path / CARD["OUTSIDE"]
    monkeypatch.setitem(CARD["rows_of"].__globals__, "DATA", tmp_path)
    rows = [{"id": f"o{n}", **dict(zip(names, case, strict=True))} for n, case in enumerate(cases)]
    rows[1]["first_look"] = "expected"  # of other rules
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    assert [CARD["store_first_look"](path) for _ in range(2)] == [8, 0]
    stored = CARD["rows_of"](path.name)
    assert [row["first_look"] for row in stored][:4] == ["expected", "expected", "unreadable", "unreadable"]
    page = CARD["page_text"]()
    assert "outside set" in page
    assert "by the definition" not in page  # its file is not there
    for look, caught in (("first look", "0 of 2"), ("seen", "1 of 2")):
        cells = row(page, look, "all").split(" | ")
        assert [cell.partition(" [")[0] for cell in cells[2:]] == [
            caught, "2 of 4", "2 of 2", "1 of 2", "1 of 1", "1 of 4"
        ]  # fmt: skip
    assert row(page, "no claims", "expected").endswith("| 1 |")
    assert "o4 (hallucinated, called expected)" in page

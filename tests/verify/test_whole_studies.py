"""Expected against actual: a scripted study through the real pipeline, and what a wrong formula does to the table."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from toolkit.stats import length
from toolkit.study import Study
from toolkit.verify.expected import Agreement
from toolkit.verify.whole_studies import compared_tables, finished_study
from toolkit.words import DIMENSIONS

NAME = "judges fail and give zeros"


@pytest.fixture(scope="module")
def scripted() -> Iterator[Study]:
    """A finished study of 36 runs and 108 judgements, some of which cannot be used and some of which hold a zero."""
    with finished_study(NAME, 20261121) as study:
        yield study


def test_every_table_of_the_study_is_what_the_raw_calls_say(scripted: Study) -> None:
    """Judgements, runs, status, lengths and reliability, each calculated a second time by other formulas."""
    agreement = Agreement(tuple(compared_tables(NAME, scripted)))
    assert not agreement.differing, [one.sentence() for one in agreement.differing]
    assert [one.table for one in agreement.tables] == [
        "judgements",
        "runs",
        "status and cost",
        "prompt lengths",
        "reliability",
    ]
    assert [one.numbers for one in agreement.tables] == [108 * 10, 36 * 13, 6, 24, 8 * 10]
    assert "5 tables agree, 0 differ" in agreement.sentence()
    json.dumps(agreement.to_dict(), allow_nan=False)


def test_the_study_has_what_makes_it_hard(scripted: Study) -> None:
    """Judges that fail, true zeros, and runs of three, two and fewer judges, or agreement would mean little."""
    judgements, runs = scripted.judgements(), scripted.runs()
    assert 0 < judgements["failed"].sum() < 54
    assert (judgements[list(DIMENSIONS)] == 0).any(axis=None)
    assert runs["judge_count"].nunique() > 1
    assert (judgements["composite"] > judgements["composite_strict"]).any()


def test_a_wrong_correction_is_found(scripted: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """P values that are not corrected differ from those expected, and no other table does."""
    monkeypatch.setattr(length, "holm", lambda values: tuple(values))
    tables = {one.table: one for one in compared_tables(NAME, scripted)}
    assert [name for name, one in tables.items() if not one.agrees] == ["prompt lengths"]
    assert "p_value" in tables["prompt lengths"].worst


def test_a_judge_that_counts_as_zero_is_found(scripted: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where failed judgements are scored 0, as the predecessor did, judgements and reliability differ."""
    honest = scripted.judgements()
    scores = [*DIMENSIONS, "composite", "composite_strict"]
    wrong = honest.assign(**{name: honest[name].fillna(0.0) for name in scores})
    monkeypatch.setattr(scripted, "judgements", lambda: wrong)
    differing = {one.table for one in compared_tables(NAME, scripted) if not one.agrees}
    assert differing == {"judgements", "reliability"}

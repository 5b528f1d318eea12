"""How results are shown, and how estimates are collected from them."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from score_tables import crossed, named

from toolkit.stats import compare_conditions, compare_models, pareto, reliability
from toolkit.stats.result import COLUMNS, Estimate, Result, estimates_frame, estimates_of


def one_result(*estimates):
    """Return a result of some estimates, of an analysis without words of its own."""
    return Result("one_result", found=estimates)


def runs():
    dice = np.random.default_rng(5)
    frame = crossed(model=["one", "<b>two</b>"], base=named("b", 12), level="SML")
    return frame.assign(composite_strict=dice.uniform(2, 4, len(frame)), scenario="SOC", aud_cost=0.01)


def ratings():
    dice = np.random.default_rng(6)
    frame = crossed(target=named("b", 20), judge="xyz", dimension=["clarity", "composite_strict"])
    return frame.assign(score=dice.uniform(1, 5, len(frame)))


@pytest.mark.parametrize("make", [compare_conditions, compare_models, pareto])
def test_every_result_shows_itself_in_twenty_lines_and_as_inert_html(make):
    found = make(runs())  # type: ignore[operator]
    text, html = repr(found), found._repr_html_()
    assert 3 <= len(text.splitlines()) <= 20
    assert "<b>" not in html
    assert "<script" not in html
    rows = list(found.headline())
    words = rows[0][1].sentence() if rows else found.sentence()
    assert text.splitlines()[-1][:60] == words[:60]


def test_the_composite_and_absolute_agreement_come_first():
    text = repr(reliability(ratings())).splitlines()
    assert text[0] == "Reliability"
    assert text[1].split()[:2] == ["composite_strict", "ICC(A,1)"]
    assert not any("clarity" in line for line in text)
    assert re.search(r"further rows: \.frame\(\)", "\n".join(text))


def test_no_row_one_row_and_one_without_a_number():
    assert repr(one_result()).startswith("One result\n")
    assert "<strong>One result</strong>" in one_result()._repr_html_()
    ninety = one_result(Estimate("M-S", 0.3, 0.1, 0.5, "TOST", confidence=0.9))
    assert "[0.100, 0.500] (90%)" in repr(ninety)
    assert "[0.100, 0.500] (90%)" in ninety._repr_html_()
    one = one_result(Estimate("M-S", 0.3, 0.1, 0.5, "t", n={"bases": 12}))
    assert "M-S = 0.300, 95% interval [0.100, 0.500] (t); n = 12 bases." in repr(one)
    assert one._repr_html_().count("<svg") == 1
    none = one_result(Estimate("M-S", None).not_estimable("one base <i>only</i>"))
    assert "one base" in repr(none)
    assert "<i>" not in none._repr_html_()


def test_an_interval_is_drawn_where_it_lies():
    pair = one_result(Estimate("a", -1.0, -2.0, 0.0), Estimate("b", 1.0, 0.0, 2.0))
    centres = [float(x) for x in re.findall(r'cx="([\d.]+)"', pair._repr_html_())]
    assert centres == [40.0, 110.0]  # 150 pixels wide, 5 at either end, for -2 to 2


ONE, TWO = Estimate("one", 1.0), Estimate("two", None, note="not estimable: nothing there")


@dataclass(frozen=True)
class Inner:
    per_level: tuple[Estimate, ...]
    count: int = 3


@dataclass(frozen=True)
class Outer:
    by_model: dict[tuple[str, str], Inner]
    whole: Estimate
    frame: object = None


def test_estimates_are_found_in_dataclasses_mappings_and_sequences_in_order():
    """The place is told in the words of the fields."""
    found = estimates_of(Outer({("gpt", "S"): Inner((ONE, TWO)), ("gpt", "M"): Inner(())}, ONE))
    assert found == [("by model gpt S per level", ONE), ("by model gpt S per level", TWO), ("whole", ONE)]
    assert estimates_of(TWO) == [("", TWO)]


def test_a_missing_number_is_nan_and_the_columns_are_numbers():
    """Also where there is no result at all."""
    empty = Estimate("r", None, note="not estimable: one answer", n={"bases": 2, "answers": 6})
    for rows in ([("clarity", empty)], []):
        frame = estimates_frame(rows, "dimension")
        assert list(frame.columns) == ["dimension", *COLUMNS]
        assert frame["estimate"].dtype == "float64"
        assert frame[["estimate", "low", "high", "p_value"]].isna().all(axis=None)
        assert list(frame["n"]) == ["2 bases, 6 answers"] * len(rows)

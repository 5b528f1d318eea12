"""Every estimate of a result is found once, whatever holds it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from toolkit.stats.result import COLUMNS, Estimate, estimates_frame, estimates_of

ONE, TWO = Estimate("one", 1.0), Estimate("two", None, note="not estimable: nothing there")


@dataclass(frozen=True)
class Inner:
    per_bin: tuple[Estimate, ...]
    count: int = 3


@dataclass(frozen=True)
class Outer:
    by_model: dict[tuple[str, str], Inner]
    whole: Estimate
    frame: object = None


def test_estimates_are_found_in_dataclasses_mappings_and_sequences_in_order() -> None:
    """The place is told in the words of the fields."""
    found = estimates_of(Outer({("gpt", "S"): Inner((ONE, TWO)), ("gpt", "M"): Inner(())}, ONE))
    assert found == [("by model gpt S per bin", ONE), ("by model gpt S per bin", TWO), ("whole", ONE)]
    assert estimates_of(TWO) == [("", TWO)]


@pytest.mark.parametrize("nothing", [None, 3, "text", (), {}, Outer, Inner(())])
def test_what_holds_no_estimate_gives_none(nothing: object) -> None:
    """Text and classes are not walked into."""
    assert estimates_of(nothing) == []


def test_a_missing_number_is_nan_and_the_columns_are_numbers() -> None:
    """Also where there is no result at all."""
    empty = Estimate("r", None, note="not estimable: one answer", n={"bases": 2, "answers": 6})
    for rows in ([("clarity", empty)], []):
        frame = estimates_frame(rows, "dimension")
        assert list(frame.columns) == ["dimension", *COLUMNS]
        assert frame["estimate"].dtype == "float64"
        assert frame[["estimate", "low", "high", "p_value"]].isna().all(axis=None)
        assert list(frame["n"]) == ["2 bases, 6 answers"] * len(rows)

"""Every estimate of a result is found once, whatever holds it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from toolkit.stats.result import Estimate, estimates_of

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


@pytest.mark.parametrize("nothing", [None, 3, "text", (), {}, Outer, Inner(())])
def test_what_holds_no_estimate_gives_none(nothing: object) -> None:
    """Text and classes are not walked into."""
    assert estimates_of(nothing) == []


def test_an_estimate_by_itself_has_no_place() -> None:
    """It is the whole result."""
    assert estimates_of(TWO) == [("", TWO)]

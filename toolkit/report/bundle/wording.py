"""Words that sentences of the methods are made of: lists, reasons, amounts of money (counts: `toolkit.words`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal


def joined(names: Sequence[str], last: str = "and") -> str:
    """Return names as a sentence lists them."""
    return ", ".join(names[:-1]) + f" {last} {names[-1]}" if len(names) > 1 else "".join(names)


def listed(what: str, names: Sequence[str]) -> str:
    """Return a noun in the number of the names that follow it."""
    return f"{what}{'' if len(names) == 1 else 's'} {joined(names)}"


def reasons(counts: Mapping[str, int]) -> str:
    """Return counts by reason in brackets, nothing where there are none."""
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    return f" ({told})" if told else ""


def aud(value: float) -> str:
    """Return an amount with its cents, and with three digits where it is less than 1: never rounded to nothing."""
    small = f"{Decimal(f'{value:.3g}'):f}"
    return small if 0 < value < 1 and len(small) > len("0.00") else f"{value:.2f}"

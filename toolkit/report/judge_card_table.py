"""The table of a judge's card: every result with its interval, n and P value."""

from __future__ import annotations

from typing import Final

import pandas as pd

from toolkit.report import captions
from toolkit.report.labels import decimals
from toolkit.report.latex import latex_table
from toolkit.report.tables import Table
from toolkit.stats.agreement.judge_card import SLOPE_UNIT, JudgeCard
from toolkit.stats.agreement.probe_shift import POINTS
from toolkit.stats.result import Estimate, rounded_apart

CONTROL_WORDS: Final = "asked again, unaltered"
KIND_WORDS: Final = {
    "again": CONTROL_WORDS,
    "padded": "padded with filler",
    "planted": "one planted error",
    "shuffled": "paragraphs shuffled",
    "attacked": "attack inside",
}
"""Kinds of probes in the words of a figure."""
_SHORT: Final = {"none": "", POINTS: "points", SLOPE_UNIT: "points per 100 tokens"}


def judge_card_table(card: JudgeCard, name: str, *, note: str = "", source: str = "") -> Table:
    """Return the card of one judge as a table, one row a result."""
    told = [found for part in (card.agreement, card.bias, card.readable, card.cost) for found in part]
    told += [found for one in card.probes for found in one.estimates]
    rows = [
        {
            "result": found.name,
            "unit": _SHORT.get(found.unit, found.unit.split(" of ")[0]),
            "estimate": with_interval(found) or None,
            "n": _n(found),
            "p": found.p_value if found.correction != "none" else "",
            "test": captions.role_words(found),
        }
        for found in told
    ]
    corrections = sorted({one.correction for one in told if one.correction != "none"})
    level = "Estimate [95% interval]"
    heads = {
        "result": "Result",
        "unit": "Unit",
        "estimate": level,
        "n": "n (bases)",
        "p": "p",
        "test": "Test",
    }
    caption = captions.join(
        f"Card of judge {card.judge} ({card.model}).",
        "Differences and slopes against the other judges are positive where this judge is milder.",
        f"P values: {', '.join(corrections)}." if corrections else "",
        captions.interval_words(told),
        captions.not_estimable_words([one for one in told if not one.estimable]),
        source,
        note,
    )
    if not corrections:
        del heads["p"], heads["test"]  # only shifts under probes are tested
    frame = pd.DataFrame(rows, columns=list(heads))
    latex = latex_table(
        frame, caption, f"tab:{name.replace('_', '-')}", heads, p_values=("p",) if corrections else ()
    )
    return Table(name, latex, card.frame(), caption)


def with_interval(found: Estimate) -> str:
    """Return an estimate and its interval as text, with the decimals that suit its unit."""
    if found.estimate is None:
        return ""
    text = shown(found.estimate, found.unit)
    if found.low is None or found.high is None:
        return text
    values = (found.estimate, found.low, found.high)
    low, high = shown(found.low, found.unit), shown(found.high, found.unit)
    if len({text, low, high}) < len(set(values)):  # more digits, so that what differs looks different
        text, low, high = (one.replace("-", "−") for one in rounded_apart(values))
    return f"{text} [{low}, {high}]"


def shown(value: float, unit: str) -> str:
    """Return a number with the decimals that suit its unit, and a true minus."""
    if unit == "AUD":
        text = f"{value:.3g}"
    elif unit in ("ms", "tokens"):
        text = f"{value:,.0f}"
    else:
        return decimals(value, 3 if " per " in unit else 2)
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def _n(found: Estimate) -> str:
    bases = found.n.get("bases", 0)
    return f"{next((count for what, count in found.n.items() if what != 'bases'), 0)} ({bases})"

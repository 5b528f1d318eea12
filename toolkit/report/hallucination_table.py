"""Hallucination judges in numbers: a table for the thesis, lines for a terminal, and all files in one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from toolkit.report import captions
from toolkit.report.estimates_table import estimates_table
from toolkit.report.hallucination_figure import hallucination_figure, undecided_words
from toolkit.report.latex import latex_table
from toolkit.report.saving import save_figure
from toolkit.report.tables import Table, save_table
from toolkit.stats.detection.deciders import Decider, deciders_frame
from toolkit.stats.result import Estimate
from toolkit.words import counted

NAME: Final = "hallucination_judges"
_HEADS: Final = {
    "who": "Judge",
    "mode": "Mode",
    "n": "n",
    "accuracy": "Acc.",
    "interval": "95% interval",
    "sensitivity": "Se",
    "specificity": "Sp",
    "F1": "F1",
    "kappa": "kappa",
    "agreement": "Votes",
    "aud": "AUD",
    "each": "AUD/right",
    "unreadable": "Unread.",
}


def hallucination_table(
    deciders: Sequence[Decider],
    baselines: Sequence[Decider] = (),
    *,
    k: int,
    note: str = "",
    source: str = "",
) -> Table:
    """Return one row per judge and mode, and per baseline: rates, agreement, cost, what could not be read."""
    everyone = (*deciders, *baselines)
    shown = pd.DataFrame([_row(one) for one in everyone], columns=list(_HEADS))
    rates = [one.found.rate("accuracy") for one in everyone]
    caption = captions.join(
        f"Hallucination judges on a labelled set (n: decided items; k = {counted(k, 'votes')} on each).",
        "Se and Sp: sensitivity and specificity for hallucinated answers. kappa: Cohen's, between decision and label. "
        "Votes: Fleiss' kappa among the votes on the same item. AUD/right: AUD for one right verdict. Unread.: "
        "share of replies without a vote.",
        f"Accuracy: {captions.interval_words(rates)}",
        undecided_words(deciders),
        captions.not_estimable_words(
            [
                one
                for row in deciders
                for one in (row.kappa, row.agreement)
                if one is not None and not one.estimable
            ]
        ),
        source,
        note,
    )
    places = {"aud": 4, "each": 5}
    latex = latex_table(shown, caption, "tab:hallucination-judges", _HEADS, decimals=places)
    return Table(NAME, latex, deciders_frame(everyone), caption)


def contrasts_table(contrasts: Sequence[Estimate], *, note: str = "", source: str = "") -> Table:
    """Return the differences between accuracies with their corrected p values."""
    title = "Hallucination judges: differences of accuracies on the items that both decided."
    keyed = [("accuracy", one) for one in contrasts]
    return estimates_table("hallucination_contrasts", title, keyed, key="of", note=note, source=source)


def hallucination_text(
    deciders: Sequence[Decider], baselines: Sequence[Decider], contrasts: Sequence[Estimate]
) -> str:
    """Return the comparison as lines for a terminal."""
    return "\n".join(_lines(deciders, baselines, contrasts))


def write_hallucination_report(
    deciders: Sequence[Decider],
    baselines: Sequence[Decider],
    contrasts: Sequence[Estimate],
    *,
    k: int,
    folder: Path | str,
    note: str = "",
    source: str = "",
) -> list[Path]:
    """Write the figure and the tables; the same verdicts give the same bytes."""
    place = Path(folder)
    about: dict[str, Any] = {"note": note, "source": source}
    files = save_figure(hallucination_figure(deciders, baselines, k=k, **about), place / "figures")
    tables = [hallucination_table(deciders, baselines, k=k, **about)]
    tables += [contrasts_table(contrasts, **about)] if contrasts else []
    return files + [path for table in tables for path in save_table(table, place / "tables")]


def _row(one: Decider) -> dict[str, Any]:
    accuracy = one.found.rate("accuracy")
    return {
        "who": one.judge if one.is_baseline else f"{one.judge} ({one.model})",
        "mode": one.mode,
        "n": one.found.counts.decided,
        "accuracy": accuracy.estimate,
        "interval": None if accuracy.low is None else (accuracy.low, accuracy.high),
        **{rate: one.found.rate(rate).estimate for rate in ("sensitivity", "specificity", "F1")},
        "kappa": one.kappa.estimate,
        "agreement": one.agreement.estimate if one.agreement else None,
        "aud": one.aud,
        "each": one.aud_per_correct,
        "unreadable": one.unreadable_share,
    }


def _lines(
    deciders: Sequence[Decider], baselines: Sequence[Decider], contrasts: Sequence[Estimate]
) -> Iterator[str]:
    for one in (*deciders, *baselines):
        counts = one.found.counts
        yield one.label
        asked = f"  {counted(counts.items, 'items')}, {counts.undecided} undecided"
        asked += f", {one.unasked} not asked" if one.unasked else ""
        if not one.is_baseline:
            asked += (
                f"; {counted(one.replies, 'replies')}, {one.unreadable} without a vote; {_money(one.aud)} AUD"
            )
            asked += f", {_money(one.aud_per_correct)} for each right verdict"
        yield asked
        rates = (one.found.rate(name) for name in ("accuracy", "sensitivity", "specificity", "F1"))
        strict = [one.found.rate("accuracy", strict=True)] if counts.undecided else []
        for found in (*rates, *strict, one.kappa, one.auc, one.agreement):
            if found is not None:
                yield f"  {found.name:<42} {_value(found)}"
    for found in contrasts:
        how = "" if found.correction == "none" else f" ({found.adjusted})"
        p = "" if found.p_value is None else f", p = {found.p_value:.3g}{how}"
        yield f"{found.name}  {_value(found)}{p}"


def _value(found: Estimate) -> str:
    if found.estimate is None:
        return found.note
    if found.low is None or found.high is None:
        return f"{found.estimate:.3f}  {found.note}"
    return f"{found.estimate:.3f}  [{found.low:.3f}, {found.high:.3f}]"


def _money(aud: float | None) -> str:
    return "no" if aud is None else f"{aud:.4f}"

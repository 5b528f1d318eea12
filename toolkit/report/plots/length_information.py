"""What length does to quality at equal information, and information at equal length, step by step."""

from __future__ import annotations

from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.prompt_length.information import LengthInformation
from toolkit.stats.result import Estimate

NAME: Final = "length_information"
_COLUMNS: Final = ("step", "part", "name", "estimate", "low", "high", "p_value", "bases")
_LOOKS: Final = {
    "information": style.ModelStyle(style.PALETTE[0], "s", "-"),
    "length": style.ModelStyle(style.PALETTE[3], "^", "-"),
    "both": style.PLAIN,
}
_ROW_MM: Final = 6.0
_TITLES: Final = ("From S to M", "From S to L", "From S as long as M to L, by way of L as short as M")


def length_information(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw what each step from a shorter prompt to a longer one does, in all and in its two parts."""
    if analyses.runs_with_arms.empty:
        raise NothingToDraw("no prompt of a length arm was asked")
    result, text = analyses.length_and_information(), captions.TEXTS[NAME]
    parts = _parts(result)
    estimates = [e for *_, e in parts]
    data = style.data_of(parts, _COLUMNS)
    if data.empty:
        raise NothingToDraw("no two bases have the scores of a step")
    values = style.values_of(data, lambda row: f"{row.name}, {row.part}: {style.decimals(row.estimate)}")
    return context.figure(
        NAME, _draw(data), data, f"{text['alt']}: {values}.",
        text["seen"],
        [captions.differences_words(estimates)],
        [result.sentence(), captions.notes_words(result.notes)],
        estimates=estimates, missing=captions.unpaired_words(estimates, "of a prompt of a step"),
        counts=captions.estimates_n_words(e for e in estimates if e.estimable),
    )  # fmt: skip


def _parts(result: LengthInformation) -> list[tuple[str, str, Estimate]]:
    """Return step, part and estimate of every row, the sum of a step after its parts."""
    parts = {"information": result.information, "length": result.length, "both": result.total}
    return [
        (title, part, estimates[number])
        for number, title in enumerate(_TITLES)
        for part, estimates in parts.items()
        if number < len(estimates)
    ]


def _draw(data: pd.DataFrame) -> Figure:
    figure, panels = style.panels_of(data, "step", _ROW_MM, 8, 16, sharex=True)
    for step, rows, axes in panels:
        style.forest_panel(axes, rows, rows["part"], "", looks=[_LOOKS[part] for part in rows["part"]])
        axes.set_title(step)
    axes.set_xlabel("Difference of the mean composite score (points)")
    return style.settle(figure)

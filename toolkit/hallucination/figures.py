"""How often hallucination judges are right, beside baselines: a figure and tables."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

import pandas as pd
from matplotlib.figure import Figure

from toolkit.report import captions, style
from toolkit.report.figure import ALONE, About, FigureWithCaption
from toolkit.report.tables import Table, estimates_table
from toolkit.stats.detection.rates import Decider, deciders_frame
from toolkit.stats.result import Estimate
from toolkit.words import counted

NAME = "hallucination_judges"
RATES = ("accuracy", "sensitivity", "specificity")  # one panel each
_LINES: tuple[Literal["--", ":"], ...] = ("--", ":")
_ROW_MM = 6.0


def hallucination_figure(
    deciders: Sequence[Decider], baselines: Sequence[Decider] = (), *, k: int, context: About = ALONE
) -> FigureWithCaption:
    """Draw a forest: one row per judge and mode, one panel per rate, baselines as vertical lines."""
    everyone = (*deciders, *baselines)
    data = style.data_of(
        (
            (decider.label, decider.judge, decider.model, decider.mode, rate, decider.found.rate(rate))
            for decider, rate in product(everyone, RATES)
        ),
        ("row", "judge", "model", "mode", "rate"),
        ("items", "missing"),
        every=True,
    )
    n = {
        "items": max((decider.found.counts.items for decider in everyone), default=0),
        "judges": len({decider.judge for decider in deciders}),
        "modes": len({decider.mode for decider in deciders}),
    }
    context = replace(context, n=n)
    estimated = data[data["estimate"].notna()]
    if estimated[estimated["mode"] != ""].empty:
        empty = context.nothing_drawn(NAME, "no item was decided", "Hallucination judges")
        return replace(empty, data=data, notes=undecided_words(deciders))
    with style.thesis_style():
        figure = _draw(estimated, deciders, baselines)
    estimates = [
        replace(decider.found.rate(rate), name=f"{rate} of {decider.label}", missing=0)
        for decider, rate in product(deciders, RATES)
    ]
    return context.worded(
        NAME, figure, data, {"beside": baselines}, [captions.UNCORRECTED],
        estimates=estimates, counts=f"{captions.n_words(n)}, k = {k}", missing=undecided_words(deciders),
    )  # fmt: skip


def undecided_words(deciders: Sequence[Decider]) -> str:
    """Say how many decisions are missing and what became of them; the data have them by judge and mode."""
    undecided = sum(decider.found.counts.undecided for decider in deciders)
    unasked = sum(decider.unasked for decider in deciders)
    left_out = "undecided, left out and not counted as wrong: " + counted(undecided, "decisions")
    return captions.clauses(
        left_out if undecided else "", f"not asked: {counted(unasked, 'decisions')}" if unasked else ""
    )


def _draw(estimated: pd.DataFrame, deciders: Sequence[Decider], baselines: Sequence[Decider]) -> Figure:
    rows, looks = (
        [decider.label for decider in deciders],
        style.model_styles(decider.model for decider in deciders),
    )
    figure = style.new_figure(style.PAGE_MM, 26 + _ROW_MM * len(rows))
    panels = figure.subplots(1, len(RATES), sharey=True)
    for axes, rate in zip(panels, RATES, strict=True):
        marks = estimated[estimated["rate"] == rate].set_index("row")
        for at, decider in enumerate(deciders):
            style.forest(axes, marks.reindex([decider.label]), [at], looks[decider.model])
        for baseline, line in zip(baselines, _LINES, strict=False):
            for value in marks["estimate"].reindex([baseline.label]).dropna():
                axes.axvline(value, color=style.GREY, linestyle=line, linewidth=1.0, zorder=0.5)
        axes.set_xlim(-0.03, 1.03)  # a share is seen against the whole it is a share of
        axes.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
        axes.set_title(rate.capitalize())
    style.row_axis(panels[0], list(style.shortened(rows, 46).values()), (len(rows) - 0.4, -0.6))
    panels[1].set_xlabel("Share of items")
    pairs = zip(baselines, _LINES, strict=False)
    handles = [style.handle(baseline.label, color=style.GREY, linestyle=line) for baseline, line in pairs]
    style.legend(figure, handles, columns=2)
    return style.settle(figure)


def hallucination_table(
    deciders: Sequence[Decider], baselines: Sequence[Decider] = (), *, k: int, context: About = ALONE
) -> Table:
    """Return one row per judge and mode, and per baseline: rates, agreement with the labels, and cost."""
    everyone = (*deciders, *baselines)
    keyed = []
    for decider in everyone:
        rates = {name.capitalize(): decider.found.rate(name) for name in RATES}
        # One interval a row; those of the others are in the data.
        others = {**rates, "F1": decider.found.rate("F1"), "kappa": decider.kappa}
        others["AUD"] = Estimate("", decider.aud, unit="AUD")
        cells = {name: replace(estimate, low=None, high=None) for name, estimate in others.items()}
        cells["Accuracy"] = rates["Accuracy"]
        for name, estimate in cells.items():
            keyed.append((("judge", decider.label), replace(estimate, name=name, missing=0)))
    title = "Hallucination judges on a labelled set"
    basis = [f"{counted(k, 'votes')} for each decision", undecided_words(deciders)]
    return estimates_table(
        NAME, title, keyed, context=context, data=deciders_frame(everyone), basis=basis,
        note=["Sensitivity and specificity are those for hallucinated answers; kappa is Cohen's, with the label"],
    )  # fmt: skip

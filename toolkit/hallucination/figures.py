"""How often hallucination judges are right, beside baselines: a figure, tables, and lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toolkit.report import captions, style
from toolkit.report.figure import ALONE, About, FigureWithCaption
from toolkit.report.tables import Keyed, Table, estimates_table
from toolkit.stats.detection.deciders import Decider, deciders_frame
from toolkit.stats.result import Estimate
from toolkit.words import counted

NAME: Final = "hallucination_judges"
RATES: Final = ("accuracy", "sensitivity", "specificity")  # one panel each
_COLUMNS: Final = ("row", "judge", "model", "mode", "rate", "estimate", "low", "high", "items", "undecided")
_LINES: Final[tuple[Literal["--", ":"], ...]] = ("--", ":")
_ROW_MM: Final = 6.0
_HEADS: Final = ("Acc.", "Se", "Sp", "F1", "kappa", "Votes", "AUD", "AUD/right", "Unread.")
_NAMED: Final = 3  # more judges and modes than this are not named one by one in a caption; the data have each


def hallucination_figure(
    deciders: Sequence[Decider], baselines: Sequence[Decider] = (), *, k: int, context: About = ALONE
) -> FigureWithCaption:
    """Draw a forest: one row per judge and mode, one panel per rate, baselines as vertical lines."""
    everyone = (*deciders, *baselines)
    rows = [_row(decider, rate) for decider in everyone for rate in RATES]
    data = pd.DataFrame(rows, columns=list(_COLUMNS))
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
    labels, lines = ([decider.label for decider in group] for group in (deciders, baselines))
    with style.thesis_style():
        figure = _draw(estimated, labels, lines, style.model_styles(decider.model for decider in deciders))
    estimates = [
        replace(decider.found.rate(rate), name=f"{rate} of {decider.label}", missing=0)
        for decider in deciders
        for rate in RATES
    ]
    grey = [f"{line} {decider.judge}" for line, decider in zip(("dashed", "dotted"), baselines, strict=False)]
    values = "; ".join(f"{row.row}, {row.rate}: {row.estimate:.2f}" for row in style.rows_of(estimated))
    beside = f"; grey lines: {' and '.join(grey)} on the same items" if grey else ""
    return context.figure(
        NAME, figure, data, f"Marks with intervals in three panels: {values}.",
        "Hallucination judges on a labelled set: accuracy, share of hallucinations found (sensitivity) and share of "
        f"true answers passed (specificity){beside}.",
        [captions.UNCORRECTED],
        estimates=estimates, counts=f"{captions.n_words(n)}, k = {k}", missing=undecided_words(deciders),
    )  # fmt: skip


def undecided_words(deciders: Sequence[Decider]) -> str:
    """Say how many items have no decision and how many were not asked about, and what became of them."""
    undecided = _counted([(decider.found.counts.undecided, decider.label) for decider in deciders])
    unasked = _counted([(decider.unasked, decider.label) for decider in deciders])
    return captions.clauses(
        f"undecided items, left out and not counted as wrong: {undecided}" if undecided else "",
        f"items not asked about: {unasked}" if unasked else "",
    )


def _counted(counts: Sequence[tuple[int, str]]) -> str:
    some = [(count, label) for count, label in counts if count]
    if len(some) <= _NAMED:
        return "; ".join(f"{count} of {label}" for count, label in some)
    numbers = sorted({count for count, _ in some})
    most = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
    return f"{most} of each of {len(some)} judges and modes"


def _row(decider: Decider, rate: str) -> tuple[object, ...]:
    estimate = decider.found.rate(rate)
    labels = (decider.label, decider.judge, decider.model, decider.mode, rate)
    numbers = (estimate.estimate, estimate.low, estimate.high, estimate.n.get("items", 0))
    return (*labels, *numbers, decider.found.counts.undecided)


def _draw(
    estimated: pd.DataFrame, rows: Sequence[str], lines: Sequence[str], styles: dict[str, style.ModelStyle]
) -> Figure:
    figure = style.new_figure(style.PAGE_MM, 26 + _ROW_MM * len(rows))
    panels = figure.subplots(1, len(RATES), sharey=True)
    for axes, rate in zip(panels, RATES, strict=True):
        rate_rows = estimated[estimated["rate"] == rate]
        marked = rate_rows[rate_rows["row"].isin(rows)]
        for (label, model), marks in marked.groupby(["row", "model"], sort=False):
            style.forest(axes, marks, [rows.index(label)] * len(marks), styles[str(model)])
        for label, line in zip(lines, _LINES, strict=False):
            for value in rate_rows.loc[rate_rows["row"] == label, "estimate"]:
                axes.axvline(value, color=style.GREY, linestyle=line, linewidth=1.0, zorder=0.5)
        axes.set_xlim(-0.03, 1.03)  # a share is seen against the whole it is a share of
        axes.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
        axes.set_title(rate.capitalize())
    style.row_axis(panels[0], list(style.shortened(rows, 46).values()), (len(rows) - 0.4, -0.6))
    panels[1].set_xlabel("Share of items")
    named = zip(lines, _LINES, strict=False)
    handles = [Line2D([], [], color=style.GREY, linestyle=line, label=label) for label, line in named]
    style.legend(figure, handles, columns=2)
    return style.settle(figure)


def hallucination_table(
    deciders: Sequence[Decider], baselines: Sequence[Decider] = (), *, k: int, context: About = ALONE
) -> Table:
    """Return one row per judge and mode, and per baseline: rates, agreement, cost, what could not be read."""
    everyone = (*deciders, *baselines)
    keyed: list[Keyed] = []
    for decider in everyone:
        rates = [decider.found.rate(rate) for rate in (*RATES, "F1")]
        votes = decider.agreement or Estimate("", None)
        costs = [Estimate("", value, unit="AUD") for value in (decider.aud, decider.aud_per_correct)]
        cells = (*rates, decider.kappa, votes, *costs, Estimate("", decider.unreadable_share))
        for name, estimate in zip(_HEADS, cells, strict=True):
            ends: dict[str, Any] = {} if name == _HEADS[0] else {"low": None, "high": None}
            keyed.append((("judge", decider.label), replace(estimate, name=name, missing=0, **ends)))
    heads = (
        "Acc.: accuracy. Se and Sp: sensitivity and specificity for hallucinated answers. kappa: Cohen's, between "
        "decision and label. Votes: Fleiss' kappa among the votes on the same item. AUD/right: AUD for one right "
        "verdict. Unread.: share of replies without a vote."
    )
    title = "Hallucination judges on a labelled set"
    basis = [f"{counted(k, 'votes')} for each decision", undecided_words(deciders)]
    return estimates_table(
        NAME, title, keyed, context=context, data=deciders_frame(everyone), basis=basis,
        note=["Se and Sp: sensitivity and specificity for hallucinated answers; the notes explain the other columns"],
        notes=[heads],
    )  # fmt: skip


def contrasts_table(contrasts: Sequence[Estimate], *, context: About = ALONE) -> Table:
    """Return the differences between accuracies with their corrected p values."""
    title = "Hallucination judges: differences of accuracies on the items that both decided"
    keyed = [("accuracy", contrast) for contrast in contrasts]
    return estimates_table("hallucination_contrasts", title, keyed, key="of", context=context)


def hallucination_text(
    deciders: Sequence[Decider], baselines: Sequence[Decider], contrasts: Sequence[Estimate]
) -> str:
    """Return the comparison as lines for a terminal."""
    lines: list[str] = []
    for decider in (*deciders, *baselines):
        counts = decider.found.counts
        heading = f"  {counted(counts.items, 'items')}, {counts.undecided} undecided"
        heading += f", {decider.unasked} not asked" if decider.unasked else ""
        if not decider.is_baseline:
            replies = f"{counted(decider.replies, 'replies')}, {decider.unreadable} without a vote"
            heading += f"; {replies}; {_money(decider.aud)} AUD, "
            heading += f"{_money(decider.aud_per_correct)} for each right verdict"
        rates = (decider.found.rate(name) for name in (*RATES, "F1"))
        strict = [decider.found.rate("accuracy", strict=True)] if counts.undecided else []
        estimates = filter(None, (*rates, *strict, decider.kappa, decider.auc, decider.agreement))
        lines += [decider.label, heading]
        lines += [f"  {estimate.name:<42} {_value(estimate)}" for estimate in estimates]
    for estimate in contrasts:
        correction = "" if estimate.correction == "none" else f" ({estimate.adjusted})"
        p = "" if estimate.p_value is None else f", p = {estimate.p_value:.3g}{correction}"
        lines.append(f"{estimate.name}  {_value(estimate)}{p}")
    return "\n".join(lines)


def _value(estimate: Estimate) -> str:
    if estimate.estimate is None:
        return estimate.remarks
    if estimate.low is None or estimate.high is None:
        return f"{estimate.estimate:.3f}  {estimate.remarks}"
    return f"{estimate.estimate:.3f}  [{estimate.low:.3f}, {estimate.high:.3f}]"


def _money(aud: float | None) -> str:
    return "no" if aud is None else f"{aud:.4f}"

"""The card of a judge: one page with its agreement, bias, probes and cost, as a figure and a table."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from toolkit.report import captions, style
from toolkit.report.escape import TERMS
from toolkit.report.figure import ALONE, About, FigureWithCaption, save_all
from toolkit.report.show import Files
from toolkit.report.tables import Keyed, Table, estimates_table, with_interval
from toolkit.stats.agreement.judge_card import JudgeCard, slope_unit
from toolkit.stats.inference.run_table import Points
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import counted, scale_words

CARD: Final = "judge_card"  # stands for the cards of all judges; their files are named after the judges
PROBED: Final = "_probed"  # end of the name of a card with probes
_ROW_MM: Final = 4.3
_PANEL_MM: Final = 14.5  # axis, label and heading of a panel
_HEADING_MM: Final = 14.0
_SHARE: Final = (0.0, 1.0)
_NAME_SIGNS: Final = frozenset(string.ascii_letters + string.digits)
KIND_WORDS: Final = TERMS["probes"]
"""Kinds of probes in the words of a figure."""


def judge_card(card: JudgeCard, *, context: About = ALONE) -> FigureWithCaption:
    """Draw everything that is known of one judge on one page."""
    panels = _panels(card)
    estimates = [estimate for panel in panels for _, estimate in panel.rows] + list(card.cost)
    with style.thesis_style():
        figure = _draw(card, panels)
    n = {"results": sum(estimate.estimable for estimate in estimates)}
    values = "; ".join(f"{e.name} {with_interval(e)}" for e in estimates if e.estimate is not None)
    shifts, text = [probe.shift for probe in card.probes], captions.TEXTS["judge_card"]
    corrections = sorted({shift.correction for shift in shifts if shift.correction != "none"})
    missing = [
        f"{KIND_WORDS.get(probe.kind, probe.kind)}: {count} x {reason}"
        for probe in card.probes
        for reason, count in probe.missing.items()
    ]
    lost = sum(count for probe in card.probes for count in probe.missing.values())
    named = {"judge": card.judge, "model": card.model}
    return context.figure(
        judge_card_name(card), figure, card.frame(), text["alt"].format(values=values, **named),
        text["seen"].format(probed=text["probed"] if card.probes else "", **named),
        [text["note"], not card.probes and "no probes were tried"],
        [
            text["score"].format(scale=scale_words(context.scale, "-")),
            len(card.bias) > 2 and text["family"],
            card.probes and text["probes"],
            corrections and text["shifts"].format(corrections=", ".join(corrections)),
            missing and text["missing"].format(pairs="; ".join(missing)),
        ],
        n=n, estimates=estimates, counts=captions.estimates_n_words(card.agreement[:1]), missing="",
        also=[
            shifts and text["pairs"].format(n=captions.ranges_words(shifts)),
            lost and f"{counted(lost, 'pairs')} missing, never counted as 0",
        ],
    )  # fmt: skip


def write_judge_cards(cards: Sequence[JudgeCard], folder: Path | str, *, context: About = ALONE) -> Files:
    """Write the figure and the table of every card; the same cards give the same bytes."""
    files = Files()
    for card in cards:
        figure, table = judge_card(card, context=context), judge_card_table(card, context=context)
        files += save_all([figure], [table], folder, context.study)
    return files


def judge_card_name(card: JudgeCard) -> str:
    """Return the stem of a card's files; one with probes has a name of its own.

    The figures of a study have no probes and must not overwrite the card that was paid for.
    """
    parts = groupby(card.judge, _NAME_SIGNS.__contains__)
    stem = "_".join("".join(signs) for printable, signs in parts if printable) or "unnamed"
    if stem != card.judge:  # of several judges that are alike in these signs each has its file
        stem += f"_{hashlib.sha256(card.judge.encode()).hexdigest()[:6]}"
    return f"{CARD}_{stem}{PROBED if card.probes else ''}"


@dataclass(frozen=True)
class _Panel:
    """Rows that share an axis: its heading, its label, and its ends where they are fixed."""

    title: str
    label: str
    rows: Sequence[tuple[str, Estimate]]
    ends: tuple[float, float] | None = None


def _panels(card: JudgeCard) -> list[_Panel]:
    difference, correlation = card.agreement
    slopes = [estimate for estimate in card.bias if estimate.unit != difference.unit]
    family = [estimate for estimate in card.bias if estimate.unit == difference.unit]
    leniency = [("difference to their mean", difference)]
    leniency += [("more, with models of its own family", estimate) for estimate in family]
    points = "Score points on the same answers (right: milder than they are)"
    panels = [
        _Panel("Agreement with the other judges", points, leniency),
        _Panel("", "Pearson's r", [("correlation with their mean", correlation)], (-1.0, 1.0)),
        _Panel(
            "Length of the reply",
            "Score points per 100 tokens (right: longer replies score higher)",
            list(zip(("its score", "its score minus that of the others"), slopes, strict=True)),
        ),
    ]
    if card.probes:
        kinds = [(KIND_WORDS.get(probe.kind, probe.kind), probe) for probe in card.probes]
        shifts = [(kind, probe.shift) for kind, probe in kinds]
        shares = [(f"{probe.harmed.facets['harm']}+: {kind}", probe.harmed) for kind, probe in kinds]
        shares += [(f"fell: {kind}", probe.detected) for kind, probe in kinds if probe.detected is not None]
        shares += [(f"no score left: {kind}", probe.lost) for kind, probe in kinds if probe.lost.estimate]
        label = "Score of the altered reply minus that of the original, points"
        panels += [
            _Panel("Probes: how far its score moves", label, shifts),
            _Panel("Probes: how often it moves", "Share of altered replies", shares, _SHARE),
        ]
    replies = zip(("judgements that failed", "replies that could be read"), card.readable, strict=True)
    label = "Share of judgements asked for, and of replies that came"
    return [*panels, _Panel("Judgements", label, list(replies), _SHARE)]


def _text(estimate: Estimate) -> str:
    return with_interval(estimate) or f"not estimable: {estimate.reason}"


def _draw(card: JudgeCard, panels: Sequence[_Panel]) -> Figure:
    rows = [*(len(panel.rows) + 0.4 for panel in panels), len(card.cost)]
    figure = style.new_figure(style.PAGE_MM, _ROW_MM * sum(rows) + _PANEL_MM * len(panels) + _HEADING_MM)
    grid = figure.subplots(len(rows), 1, height_ratios=rows)
    for axes, panel in zip(grid, panels, strict=False):
        _draw_panel(axes, panel)
    _draw_cost(grid[-1], card)
    title = f"Judge {style.shorten(card.judge, 24)}: {style.shorten(card.model, 48)}"
    figure.suptitle(title, fontweight="bold", x=0.02, ha="left")
    figure.set_layout_engine("constrained", hspace=0.1, w_pad=0.1)  # headings belong to the panel below
    return style.settle(figure)


def _draw_panel(axes: Axes, panel: _Panel) -> None:
    count = len(panel.rows)
    for up, (label, estimate) in enumerate(reversed(panel.rows)):
        if estimate.estimate is None:
            halo = {"color": style.GREY, "path_effects": [withStroke(linewidth=2.5, foreground="white")]}
            style.beside(axes, up, style.shorten(_text(estimate), 62), 0.01, **halo)
            continue
        look = style.ModelStyle(style.GREY, "o", "-") if label.endswith(KIND_WORDS["again"]) else style.PLAIN
        marks = estimates_frame([("", estimate)], "of")
        style.forest(axes, marks, [up], look, width=1.2, size=4.5, clip=False)
        style.beside(axes, up, f"{_text(estimate)}, n = {captions.cases(estimate)}")
    if panel.ends != _SHARE:  # 0 is no effect; of a share it is an end
        axes.axvline(0, color=style.GREY, linewidth=0.7, linestyle="--", zorder=0)
    style.row_axis(axes, [style.shorten(label, 44) for label, _ in reversed(panel.rows)], (-0.7, count - 0.3))
    axes.set_xlabel(panel.label)
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.spines["left"].set_visible(False)
    if panel.ends:
        low, high = panel.ends
        axes.set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
        axes.spines["bottom"].set_bounds(low, high)
        return
    # 0 and every end are shown, and a difference is not so small that it looks like one.
    ends = [abs(end) for _, e in panel.rows for end in (e.estimate, e.low, e.high) if end is not None]
    reach = max([*ends, 0.05 if "per" in panel.rows[0][1].unit else 0.5]) * 1.08
    axes.set_xlim(-reach, reach)


def _draw_cost(axes: Axes, card: JudgeCard) -> None:
    axes.set_axis_off()
    axes.set_ylim(-0.5, len(card.cost) - 0.5)
    total = "" if card.total_aud is None else with_interval(Estimate("", card.total_aud))
    axes.set_title(f"Cost (all together {total} AUD)" if total else "Cost", loc="left", fontweight="bold")
    for up, cost in enumerate(reversed(card.cost)):
        unit = f" {cost.unit}" if cost.estimable and cost.unit != "tokens" else ""
        style.beside(axes, up, style.shorten(f"{cost.name}: {_text(cost)}{unit}", 100), 0.0)


def judge_card_table(card: JudgeCard, *, context: About = ALONE) -> Table:
    """Return the card of one judge as a table, one row a result."""
    estimates = [*card.agreement, *card.bias, *card.readable, *card.cost]
    estimates += [estimate for probe in card.probes for estimate in probe.estimates]
    short = {"none": "", Points(context.scale): "points", slope_unit(context.scale): "points per 100 tokens"}
    keyed: list[Keyed] = []
    for estimate in estimates:
        unit = "share" if estimate.unit.startswith("share") else short.get(estimate.unit, estimate.unit)
        name = f"{estimate.name} ({unit})" if unit else estimate.name
        p = estimate.p_value if estimate.correction != "none" else None  # only shifts under probes are tested
        keyed.append(("estimate", replace(estimate, name=name, p_value=p)))
    title = f"Card of judge {card.judge}, {card.model}"
    note = [captions.TEXTS["judge_card"]["table"]]
    return estimates_table(judge_card_name(card), title, keyed, context=context, data=card.frame(), note=note)

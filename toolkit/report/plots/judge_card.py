"""The card of a judge: one page with its agreement, bias, probes and cost, as a figure and a table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from toolkit.report import captions, style
from toolkit.report.figure import FigureWithCaption, save_figure
from toolkit.report.tables import Placed, Table, estimates_table, save_table, with_interval
from toolkit.stats.agreement.judge_card import JudgeCard, slope_unit
from toolkit.stats.inference.run_table import points
from toolkit.stats.result import Estimate, estimates_frame
from toolkit.words import scale_words

CARD: Final = "judge_card"  # stands for the cards of all judges; their files are named after the judges
PROBED: Final = "_probed"  # end of the name of a card with probes
_ROW_MM: Final = 4.3
_PANEL_MM: Final = 14.5  # axis, label and heading of a panel
_HEADING_MM: Final = 14.0
_SHARE: Final = (0.0, 1.0)
CONTROL_WORDS: Final = "asked again, unaltered"
KIND_WORDS: Final = {
    "again": CONTROL_WORDS,
    "padded": "padded with filler",
    "planted": "one planted error",
    "shuffled": "paragraphs shuffled",
    "attacked": "attack inside",
}
"""Kinds of probes in the words of a figure."""


def judge_card(card: JudgeCard, *, end: str = "") -> FigureWithCaption:
    """Draw everything that is known of one judge on one page."""
    panels = _panels(card)
    found = [estimate for panel in panels for _, estimate in panel.rows] + list(card.cost)
    with style.thesis_style():
        figure = _draw(card, panels)
    n = {"results": sum(one.estimable for one in found)}
    told = (f"{e.name} {with_interval(e)}" for e in found if e.estimate is not None)
    alt_text = f"Card of judge {card.judge} ({card.model}), marks with intervals: {'; '.join(told)}."
    caption = _caption(card, found, end)
    return FigureWithCaption(judge_card_name(card), figure, caption, alt_text, card.frame(), n)


def write_judge_cards(
    cards: Sequence[JudgeCard], folder: Path | str, *, end: str = "", study: str = ""
) -> list[Path]:
    """Write the figure and the table of every card; the same cards give the same bytes."""
    place = Path(folder)
    files = []
    for card in cards:
        drawn = judge_card(card, end=end)
        files += save_figure(drawn, place / "figures")
        files += save_table(judge_card_table(card, end=end), place / "tables", study)
    return files


def judge_card_name(card: JudgeCard) -> str:
    """Return the stem of a card's files; one with probes has a name of its own.

    The figures of a study have no probes and must not overwrite the card that was paid for.
    """
    stem = re.sub(r"[^A-Za-z0-9]+", "_", card.judge).strip("_") or "unnamed"
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
    slopes = [one for one in card.bias if one.unit != difference.unit]
    milder = [("difference to their mean", difference)]
    milder += [("more, with models of its own family", e) for e in card.bias if e.unit == difference.unit]
    points = "Score points on the same answers (right: milder than they are)"
    panels = [
        _Panel("Agreement with the other judges", points, milder),
        _Panel("", "Pearson's r", [("correlation with their mean", correlation)], (-1.0, 1.0)),
        _Panel(
            "Length of the reply",
            "Score points per 100 tokens (right: longer replies score higher)",
            list(zip(("its score", "its score minus that of the others"), slopes, strict=True)),
        ),
    ]
    if card.probes:
        kinds = [(KIND_WORDS.get(one.kind, one.kind), one) for one in card.probes]
        harms = [one.harmed.name.rsplit(", ", 1)[0].replace(" or more", "+") for one in card.probes]
        often = [(f"{harm}: {kind}", one.harmed) for harm, (kind, one) in zip(harms, kinds, strict=True)]
        often += [(f"fell: {kind}", one.detected) for kind, one in kinds if one.detected is not None]
        often += [(f"no score left: {kind}", one.lost) for kind, one in kinds if one.lost.estimate]
        shift = "Score of the altered reply minus that of the original, points"
        panels += [
            _Panel("Probes: how far its score moves", shift, [(kind, one.shift) for kind, one in kinds]),
            _Panel("Probes: how often it moves", "Share of altered replies", often, _SHARE),
        ]
    named = zip(("judgements that failed", "replies that could be read"), card.readable, strict=True)
    asked = "Share of judgements asked for, and of replies that came"
    return [*panels, _Panel("Judgements", asked, list(named), _SHARE)]


def _told(found: Estimate) -> str:
    """Return an estimate with its interval, or why there is none."""
    return with_interval(found) or f"not estimable: {found.remarks.removeprefix('not estimable: ')}"


def _cases(found: Estimate) -> int:
    return next((count for what, count in found.n.items() if what != "bases"), 0)


def _draw(card: JudgeCard, panels: Sequence[_Panel]) -> Figure:
    rows = [*(len(panel.rows) + 0.4 for panel in panels), len(card.cost)]
    figure = style.new_figure(style.PAGE_MM, _ROW_MM * sum(rows) + _PANEL_MM * len(panels) + _HEADING_MM)
    places = figure.subplots(len(rows), 1, height_ratios=rows)
    for axes, panel in zip(places, panels, strict=False):
        _draw_panel(axes, panel)
    _draw_cost(places[-1], card)
    title = f"Judge {style.shorten(card.judge, 24)}: {style.shorten(card.model, 48)}"
    figure.suptitle(title, fontsize=10, x=0.02, ha="left")
    figure.set_layout_engine("constrained", hspace=0.1, w_pad=0.1)  # headings belong to the panel below
    return style.settle(figure)


def _draw_panel(axes: Axes, panel: _Panel) -> None:
    count = len(panel.rows)
    for up, (label, found) in enumerate(reversed(panel.rows)):
        if found.estimate is None:
            halo = [withStroke(linewidth=2.5, foreground="white")]
            style.beside(axes, up, style.shorten(_told(found), 62), 0.01, color=style.GREY, path_effects=halo)
            continue
        look = style.ModelStyle(style.GREY if label.endswith(CONTROL_WORDS) else style.INK, "o", "-")
        style.forest(axes, estimates_frame([("", found)], "of"), [up], look, width=1.2, size=4.5, clip=False)
        style.beside(axes, up, f"{_told(found)}, n = {_cases(found)}")
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
    ends = [abs(end) for _, one in panel.rows for end in (one.estimate, one.low, one.high) if end is not None]
    reach = max([*ends, 0.05 if "per" in panel.rows[0][1].unit else 0.5]) * 1.08
    axes.set_xlim(-reach, reach)


def _draw_cost(axes: Axes, card: JudgeCard) -> None:
    axes.set_axis_off()
    axes.set_ylim(-0.5, len(card.cost) - 0.5)
    total = (
        "" if card.total_aud is None else f" (all together {with_interval(Estimate('', card.total_aud))} AUD)"
    )
    axes.set_title(f"Cost{total}", loc="left", fontweight="bold")
    for up, found in enumerate(reversed(card.cost)):
        unit = f" {found.unit}" if found.estimable and found.unit != "tokens" else ""
        style.beside(axes, up, style.shorten(f"{found.name}: {_told(found)}{unit}", 100), 0.0)


def _caption(card: JudgeCard, found: Sequence[Estimate], end: str) -> str:
    shifts = [one.shift for one in card.probes]
    corrections = sorted({one.correction for one in shifts if one.correction != "none"})
    missing = [
        f"{KIND_WORDS.get(one.kind, one.kind)}: {count} x {reason}"
        for one in card.probes
        for reason, count in one.missing.items()
    ]
    return captions.join(
        f"Card of judge {card.judge} ({card.model}); {captions.estimates_n_words(card.agreement[:1])}.",
        f"Scores are the strict composite ({scale_words('-')}), in which a dimension of 0 counts.",
        "A positive difference means that the judge is milder than the mean of the others.",
        "The family's row is how much more so with models of its own family than with others."
        if len(card.bias) > 2
        else "",
        "A slope on reply length is no proof of bias, because longer replies may be better; that of the difference to "
        "the others compares judges on the same replies.",
        "Probes alter a stored reply: filler that says nothing (about half its length again), one false fact, its "
        "paragraphs in another order, or an instruction to the judge. The grey control is the same reply asked again: "
        "a move as large as the control's is the judge's own unrest."
        if card.probes
        else "No probes were tried.",
        f"Probe pairs: {captions.estimates_n_words(shifts)}." if shifts else "",
        f"P values of the shifts are in the table, corrected by {', '.join(corrections)}."
        if corrections
        else "",
        f"Missing pairs, never counted as 0: {'; '.join(missing)}." if missing else "",
        captions.interval_words(found),
        f"Nothing {'else ' * bool(corrections)}is corrected for the number of results.",
        captions.no_interval_words((one.name, one) for one in found),
        captions.not_estimable_words([one for one in found if not one.estimable]),
        end,
    )


def judge_card_table(card: JudgeCard, *, end: str = "") -> Table:
    """Return the card of one judge as a table, one row a result."""
    told = [found for part in (card.agreement, card.bias, card.readable, card.cost) for found in part]
    told += [found for one in card.probes for found in one.estimates]
    keyed: list[Placed] = []
    for found in told:
        short = {"none": "", points(): "points", slope_unit(): "points per 100 tokens"}
        unit = short.get(found.unit, found.unit.split(" of ")[0])
        name = f"{found.name} ({unit})" if unit else found.name
        p = found.p_value if found.correction != "none" else None  # only shifts under probes are tested
        keyed.append(("estimate", replace(found, name=name, p_value=p)))
    end = captions.join(
        "Differences and slopes against the other judges are positive where this judge is milder.", end
    )
    title = f"Card of judge {card.judge}, {card.model}"
    return estimates_table(judge_card_name(card), title, keyed, end=end, data=card.frame())

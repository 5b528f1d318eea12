"""One look for every figure: millimetres, type, colours that survive grey print, and the parts that figures share."""

import hashlib
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib import rc_context, rc_params_from_file, style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from toolkit.errors import InputError
from toolkit.report.show import plain_text
from toolkit.words import scale_words

COLUMN_MM = 85.0  # width of one thesis column in millimetres
PAGE_MM = 160.0  # width of the text block of a thesis page in millimetres
MM_PER_INCH = 25.4
PAGE_HIGH_MM = 170.0
"""Height of a figure in millimetres that leaves room for its caption on a thesis page."""
MANY = 200
"""Answers beyond which lines and marks are a tangle, and their density is drawn."""
MANY_BASES = 40  # most of them that are told apart as lines
CROWD = 3  # more models than this need a page's width where they share one panel
_CLOSE = 8  # letters beside one another that are too few to read a name by
GREY = "#8C8C8C"
"""Everything that is context and not the finding."""
SHADE: dict[str, Any] = {"color": GREY, "alpha": 0.22, "linewidth": 0, "zorder": 0}
"""A band of what counts as equal."""
INK = "#000000"
FONT_PT = 9.0
_WIDTHS = (120.0, 250.0)
"""Widths of a page in mm that have room for type of 9 pt; smaller type is for narrower ones."""
_FONTS = (6.0, 14.0)
_SIZE: ContextVar[tuple[float, float]] = ContextVar("_SIZE", default=(PAGE_MM, FONT_PT))

# Okabe & Ito 2008 without yellow, which vanishes on white paper, and black, which means "all models".
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
Line = Literal["-", "--", "-.", ":"]
LINES: tuple[Line, ...] = ("-", "--", "-.", ":")

_STYLE = Path(__file__).with_name("thesis.mplstyle")
_LOOK = rc_params_from_file(_STYLE, use_default_template=False)
_RC: dict[str, Any] = {str(name): value for name, value in _LOOK.items()}


class NothingToDraw(Exception):
    """Why a study cannot give a figure."""


@dataclass(frozen=True)
class ModelStyle:
    """How one model is drawn: colour for the screen, marker and line for grey paper."""

    color: str
    marker: str
    line: Line


PLAIN = ModelStyle(INK, "o", "-")
"""The look of what is of no model, or of all of them."""


@contextmanager
def thesis_style() -> Iterator[None]:
    """Draw and save in the style of the thesis, and leave the user's own settings as they were."""
    # "default" first: a user's matplotlibrc must not change a figure.
    with style.context(["default", _RC, {"font.size": _SIZE.get()[1]}]):
        yield


@contextmanager
def sized(width: float | None = None, font: float | None = None) -> Iterator[None]:
    """Draw for a page whose text is ``width`` mm wide, in type of ``font`` pt; a column stays its share of the page."""
    page, points = PAGE_MM if width is None else width, FONT_PT if font is None else font
    widths = (math.ceil(_WIDTHS[0] * points / FONT_PT), _WIDTHS[1])
    label = f"width in mm for type of {points:g} pt"
    for value, (least, most), name in ((points, _FONTS, "font in pt"), (page, widths, label)):
        if not least <= value <= most:
            raise InputError(f"figures: {name} is {value:g}; give {least:g} to {most:g}")
    token = _SIZE.set((page, points))
    try:
        yield
    finally:
        _SIZE.reset(token)


def new_figure(width_mm: float, height_mm: float) -> Figure:
    """Return an empty figure of a size in mm, that on a page of 160 mm in type of 9 pt."""
    if not (width_mm > 0 and height_mm > 0):
        raise InputError(f"figure size {width_mm} x {height_mm} mm: give two positive sides")
    page, font = _SIZE.get()
    size = (width_mm * page / PAGE_MM / MM_PER_INCH, height_mm * font / FONT_PT / MM_PER_INCH)
    figure = Figure(figsize=size, dpi=300, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def is_wide(figure: Figure) -> bool:
    """Return whether a figure is wider than a column of the thesis that it is drawn for."""
    return bool(figure.get_figwidth() * MM_PER_INCH > (COLUMN_MM + 1) * _SIZE.get()[0] / PAGE_MM)


def settle(figure: Figure) -> Figure:
    """Lay a figure out once and for all: a layout moves with every drawing, so that PDF and PNG would differ."""
    for _ in range(2):
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)  # without drawing, which takes as long again
    # No engine at all, where "none" leaves a place for one and matplotlib draws every file twice.
    with rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
        figure.set_layout_engine()
    return figure


def model_styles(names: Iterable[str], among: Iterable[str] = ()) -> dict[str, ModelStyle]:
    """Give every model its own look, the same in every figure: the hash of its name picks, and later ones move on."""
    drawn = set(names)
    colours, slots = len(PALETTE), len(PALETTE) * len(MARKERS)
    used: set[int] = set()
    styles: dict[str, ModelStyle] = {}
    for name in sorted(drawn.union(among)):
        preferred = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % colours
        in_order = [(preferred + step) % colours for step in range(colours)] + list(range(colours, slots))
        slot = next((number for number in in_order if number not in used), preferred)
        used.add(slot)
        # Eight models differ in their marker, which is all that grey paper shows; after 24 places, where colours and
        # markers have run through together, one step on makes new pairs of them.
        look = slot + slot // math.lcm(colours, len(MARKERS))
        styles[name] = ModelStyle(
            PALETTE[slot % colours], MARKERS[look % len(MARKERS)], LINES[look % len(LINES)]
        )
    return {name: style for name, style in styles.items() if name in drawn}


def score_axis(
    axes: Axes, scale: tuple[float, float], label: str = "Composite score", *, which: str = "y"
) -> None:
    """Show the whole scale, so that no difference looks larger than it is."""
    low, high = scale
    ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    ticks = [tick for tick in ticks if low <= tick <= high]
    labels, pad = [f"{tick:g}" for tick in ticks], (high - low) / 50  # a marker at an end is drawn whole
    look: dict[str, Any] = {"lim": (low - pad, high + pad), "ticks": ticks, "ticklabels": labels}
    look["label"] = f"{label} ({scale_words(scale, '–')})" if label else ""
    axes.set(**{f"{which}{name}": value for name, value in look.items()})
    axes.spines["left" if which == "y" else "bottom"].set_bounds(low, high)


SHADES = LinearSegmentedColormap.from_list("", ["#EDF4F9", "#5B9BC8"])
"""For what is counted or averaged: lighter is less on grey paper too, and black text can be read on the darkest."""
PLAIN_NUMBERS = FuncFormatter(lambda value, _: f"{value:,.6g}")


def log_axis(axes: Axes, smallest: float, largest: float) -> None:
    """Scale the horizontal axis by its logarithm, with plain numbers."""
    axes.set_xscale("log")
    axes.set_xlim(smallest / 2, largest * 1.5)
    subs = (1.0,) if largest / smallest > 500 else (1.0, 3.0)
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=subs))
    axes.xaxis.set_major_formatter(PLAIN_NUMBERS)
    axes.xaxis.set_minor_formatter(NullFormatter())


def cut_axis(
    axes: Axes,
    scale: tuple[float, float],
    values: Any,
    pad: float | None = None,
    *,
    which: str = "y",
) -> str:
    """Show the part of the scale that values take (and ``pad``), with marks where it is cut; return words on that."""
    pad = (scale[1] - scale[0]) / 20 if pad is None else pad
    numbers = np.asarray(values, dtype=float)
    ends = (max(scale[0], np.nanmin(numbers) - pad), min(scale[1], np.nanmax(numbers) + pad))
    axes.set(**{f"{which}lim": ends})
    way = [(-1, -0.5), (1, 0.5)] if which == "y" else [(-0.5, -1), (0.5, 1)]
    for far, end, limit in zip((0, 1), ends, scale, strict=True):
        if end != limit:
            x, y = (0, far) if which == "y" else (far, 0)
            look: dict[str, Any] = {"color": INK, "markersize": 8, "linestyle": "none", "clip_on": False}
            axes.plot(x, y, marker=way, transform=axes.transAxes, **look)
    part = "{:.2g} to {:.2g} of the scale from {:g} to {:g}".format(*ends, *scale)
    return f"the score axis is cut (slanted marks): it shows {part}" if ends != scale else ""


def density(
    axes: Axes, x: pd.Series, y: pd.Series, extent: tuple[float, float, float, float]
) -> PolyCollection:
    """Shade how many answers lie where, because marks would hide each other; an edge shows a single one on paper."""
    return axes.hexbin(
        x.astype(float), y.astype(float), gridsize=(18, 12), cmap=SHADES, mincnt=1, extent=extent,
        linewidths=0.2, edgecolors=GREY, zorder=1,
    )  # fmt: skip


def scatter(axes: Axes, x: pd.Series, y: pd.Series, look: ModelStyle, size: float, alpha: float) -> None:
    """Draw the answers of a model, those at the ends of an axis whole."""
    more: dict[str, Any] = {"markersize": size, "alpha": alpha, "markeredgewidth": 0, "clip_on": False}
    if len(x):  # a line without a point would leave no room to the panels
        axes.plot(x, y, look.marker, color=look.color, zorder=2, **more)


def side_by_side(looks: Mapping[str, ModelStyle], step: float) -> Iterator[tuple[str, ModelStyle, float]]:
    """Give what shares a place, each with its look and how far it stands from the middle of all."""
    for number, (name, look) in enumerate(looks.items()):
        yield name, look, (number - (len(looks) - 1) / 2) * step


def row_height(rows: int, around: float, most: float, least: float) -> float:
    """Return the height of a row in mm: many stand closer, so that the figure keeps its type on one page."""
    return min(most, max(least, (PAGE_HIGH_MM - around) / rows))


def threshold(axes: Axes, at: float, label: str) -> None:
    """Name a line above the panel."""
    look: dict[str, Any] = {"color": INK, "fontsize": "small", "ha": "center", "va": "bottom"}
    axes.text(at, 1.01, label, transform=axes.get_xaxis_transform(), **look)


def grid(
    count: int, *, across: int = 3, head: float, tall: float, lone: float | None = None, **shared: Any
) -> tuple[Figure, list[Axes], int]:
    """Return a figure with a panel for each thing, the panels, and how many stand side by side."""
    side = min(across, count)
    down = -(-count // side)
    height = lone if side == 1 and lone is not None else tall
    figure = new_figure(COLUMN_MM if side == 1 else PAGE_MM, head + height * down)
    panels = figure.subplots(down, side, squeeze=False, **shared)
    for empty in range(count, down * side):
        panels.flat[empty].set_axis_off()
        if shared.get("sharex"):
            panels.flat[empty - side].tick_params(labelbottom=True)
    return figure, list(panels.flat[:count]), side


def stacked(sizes: Sequence[float], row: float, more: float, **shared: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel above the other, each as high as its rows, and ``more`` around all of them."""
    figure = new_figure(PAGE_MM, row * sum(sizes) + more)
    return figure, list(figure.subplots(len(sizes), 1, squeeze=False, height_ratios=sizes, **shared)[:, 0])


def panels_of(
    data: pd.DataFrame, by: str, row: float, head: float, **shared: Any
) -> tuple[Figure, list[tuple[Any, pd.DataFrame, Axes]]]:
    """Return a figure with a panel for each group of rows: its name, its rows and its axes, with a head of ``head``."""
    groups = list(data.groupby(by, sort=False))
    sizes = [len(rows) for _, rows in groups]
    figure, panels = stacked(sizes, row, head * len(groups), **shared)
    return figure, [(*group, axes) for group, axes in zip(groups, panels, strict=True)]


def forest(
    axes: Axes,
    marks: pd.DataFrame,
    up: Iterable[float],
    look: ModelStyle,
    *,
    width: float = 1.1,
    size: float = 5,
    clip: bool = True,
) -> None:
    """Draw estimates with their intervals, one above the other; an interval ends with the axis."""
    rows = marks[["estimate", "low", "high"]].itertuples(index=False)
    for height, (value, low, high) in zip(up, rows, strict=True):
        if pd.notna(low) and pd.notna(high):
            axes.plot([low, high], [height, height], color=look.color, linewidth=width, zorder=2)
        if pd.notna(value):
            axes.plot(
                [value], [height], color=look.color, marker=look.marker, markersize=size, linestyle="none",
                clip_on=clip, zorder=3,
            )  # fmt: skip


def arrow(axes: Axes, end: float, up: float, text: str, color: str, **look: Any) -> None:
    """Draw the end of an interval that goes on beyond the left or right end of the axis, to the number above it."""
    side = "left" if end <= 0 else "right"
    axes.plot(end, up, color=color, marker="<" if end <= 0 else ">", markersize=4, clip_on=False, zorder=3)
    axes.annotate(
        text, (end, up), (0, 2), textcoords="offset points", color=color, ha=side, va="bottom", **look
    )


def bars(axes: Axes, values: Iterable[float], height: float) -> None:
    """Draw values as bars from the bottom."""
    widths = list(values)
    look: dict[str, Any] = {"color": GREY, "edgecolor": INK, "linewidth": 0.6}
    axes.barh(range(len(widths)), widths, height=height, zorder=1, **look)


def beside(axes: Axes, up: float, text: str, x: float = 1.02, **more: Any) -> None:
    """Write beside a row; ``x`` is a share of the width of the panel."""
    look = {"color": INK, "va": "center" if "\n" in text else "center_baseline", "linespacing": 1.05, **more}
    axes.text(x, up, text, transform=axes.get_yaxis_transform(), **look)


def forest_panel(
    axes: Axes,
    rows: pd.DataFrame,
    label: str = "",
    *,
    looks: Sequence[ModelStyle] = (),
    at: float | None = 0.0,
    digits: int = 2,
) -> None:
    """Draw rows from the top, and a grey line ``at`` what matters.

    Beside each stands its ``label``, and its ``text``, by default its numbers; ``hollow`` ones are drawn so.
    """
    if at is not None:
        axes.axvline(at, color=GREY, linewidth=0.8, zorder=0)
    looks = looks or [PLAIN] * len(rows)
    for down, (row, look) in enumerate(zip(rows_of(rows), looks, strict=True)):
        up = len(rows) - 1 - down
        forest(axes, rows.iloc[[down]], [up], look, width=1.6)
        numbers = interval(row, partial(decimals, digits=digits))
        beside(axes, up, getattr(row, "text", numbers))
        if getattr(row, "hollow", False):
            axes.plot([row.estimate], [up], "o", color="white", markeredgecolor=INK, markersize=5, zorder=4)
    row_axis(axes, list(rows["label"])[::-1])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(label)


def row_axis(axes: Axes, labels: Sequence[str], ends: tuple[float, float] | None = None) -> None:
    """Name the rows of a panel, the first one at height 0."""
    axes.set_yticks(range(len(labels)), list(labels))
    axes.set_ylim(*(ends or (-0.6, len(labels) - 0.4)))
    axes.tick_params(axis="y", length=0)


def legend(
    figure: Figure, handles: Sequence[Artist], *, columns: int = 1, where: str = "upper", **more: Any
) -> None:
    """Put the legend outside of the panels, in fewer columns where it would be cut at the edge of the figure."""
    look: dict[str, Any] = {"loc": f"outside {where} center", "borderaxespad": 0.2, **more}
    for count in range(columns if handles else 0, 0, -1):
        drawn = figure.legend(handles=list(handles), ncols=count, **look)
        if count == 1 or drawn.get_window_extent().width <= figure.bbox.width:
            break
        drawn.remove()


def handle(label: str, **look: Any) -> Line2D:
    """Return an entry of a legend."""
    return Line2D([], [], label=label, **look)


def model_handles(styles: Mapping[str, ModelStyle], limit: int = 34) -> list[Line2D]:
    """Return the entry of each model in a legend."""
    labels = shortened(styles, limit)
    return [
        handle(labels[name], color=look.color, marker=look.marker, linestyle="none")
        for name, look in styles.items()
    ]


def message_figure(message: str) -> Figure:
    """Return a figure that says in its middle why there is nothing to draw."""
    figure = new_figure(COLUMN_MM, 40)
    axes = figure.subplots()
    axes.set_axis_off()
    lines = textwrap.fill(message, 46)  # letters of 8 pt that fit on a line
    axes.text(0.5, 0.5, lines, ha="center", va="center", transform=axes.transAxes, color=INK)
    return settle(figure)


def _letters(limit: int) -> int:
    """Return how many letters fit where ``limit`` of them do on a page of 160 mm in type of 9 pt."""
    page, font = _SIZE.get()
    return max(8, int(limit * page / PAGE_MM * FONT_PT / font))


def shorten(name: str, limit: int = 34) -> str:
    """Return a name on one line that fits a legend, cut in its middle: names of models differ at their ends."""
    line, most = _line(name), _letters(limit)
    head = most // 2 - 1
    return line if len(line) <= most else f"{line[:head]}…{line[head + 1 - most :]}"


def shortened(names: Iterable[str], limit: int = 34) -> dict[str, str]:
    """Return names as they fit a legend, no two of them alike."""
    plain = {name: shorten(name, limit) for name in names}
    labels = list(plain.values())
    return {
        name: f"{label} ({labels[: number + 1].count(label)})" if labels.count(label) > 1 else label
        for number, (name, label) in enumerate(plain.items())
    }


def paired(rows: Mapping[str, Sequence[str]], limit: int = 44) -> dict[str, str]:
    """Return the label of each row that is of a model or of two, of which both can be read."""
    names = list(dict.fromkeys(name for parts in rows.values() for name in parts))
    cut = {
        count: shortened(names, (limit - 3 * (count - 1)) // count) for count in set(map(len, rows.values()))
    }
    return {
        row: whole if (whole := " − ".join(map(_line, parts))) and len(whole) <= _letters(limit)
        else " − ".join(cut[len(parts)][name] for name in parts)
        for row, parts in rows.items()
    }  # fmt: skip


def decimals(value: float, digits: int = 2, *, sign: bool = False) -> str:
    """Return a number as a figure prints it: a true minus, and none before what rounds to zero."""
    text = f"{value:{'+' * sign},.{digits}f}"
    return text.lstrip("+-") if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def interval(result: Any, printed: Callable[[float], str] = decimals) -> str:
    """Return an estimate, or a row of one, with its interval, where it has one, as a figure prints them."""
    if pd.isna(result.estimate):
        return "not estimable"
    value = printed(result.estimate)
    if pd.isna(result.low) or pd.isna(result.high):
        return value
    return f"{value} [{printed(result.low)}, {printed(result.high)}]"


def _line(name: str) -> str:
    """Return a name as one line that can be drawn: a sign that the font lacks is named, as in the LaTeX tables."""
    line = " ".join(plain_text(str(name)).split())  # text of others
    if line.isascii():
        return line
    font = get_font(findfont(_RC["font.family"][0]))  # matplotlib keeps both
    return "".join(c if font.get_char_index(ord(c)) else f"[U+{ord(c):04X}]" for c in line)


def data_of(
    parts: Iterable[tuple[Any, ...]],
    keys: Sequence[str],
    more: Sequence[str] = (),
    *,
    every: bool = False,
    nothing: str = "",
) -> pd.DataFrame:
    """Return the data of a figure: keys, ends, fields and counts of each estimate there is, or of ``every`` one.

    Where there is none, ``nothing`` says why there is nothing to draw.
    """
    columns = [*keys, "estimate", "low", "high", *more]
    rows = [
        (*names, *(getattr(e, name, e.n.get(name)) for name in columns[len(names) :]))
        for *names, e in parts
        if every or e.estimable
    ]
    if nothing and not rows:
        raise NothingToDraw(nothing)
    numbers = dict.fromkeys({"estimate", "low", "high", "p_value"}.intersection(columns), "float64")
    return pd.DataFrame(rows, columns=columns).astype(numbers)


def values_of(data: pd.DataFrame, text: str) -> str:
    """Return a text filled in for each row that has an estimate, for those who do not see the figure."""
    present = data[data["estimate"].notna()] if "estimate" in data else data
    return "; ".join(text.format(row=row) for row in rows_of(present))


def rows_of(frame: pd.DataFrame) -> Iterator[Any]:
    """Give the rows of a frame with their columns as attributes, which may be of any type."""
    return frame.itertuples(index=False)

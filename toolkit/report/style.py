"""One look for every figure: millimetres, type, and colours that survive colour blindness and grey print."""

from __future__ import annotations

import hashlib
import math
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from toolkit.errors import InputError
from toolkit.words import SCALE

COLUMN_MM: Final = 85.0
"""Width of one thesis column in millimetres."""
PAGE_MM: Final = 160.0
"""Width of the text block of a thesis page in millimetres."""
MM_PER_INCH: Final = 25.4
PAGE_HIGH_MM: Final = 170.0
"""Height of a figure in millimetres that leaves room for its caption on a thesis page."""
CROWD: Final = 3
"""More models than this need a page's width where they share one panel."""
GREY: Final = "#8C8C8C"
"""Everything that is context and not the finding."""
INK: Final = "#000000"

# Okabe & Ito 2008 without yellow, which vanishes on white paper, and black, which means "all models".
PALETTE: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "p")
LINES: Final[tuple[Literal["-", "--", "-.", ":"], ...]] = ("-", "--", "-.", ":")

_RC: Final[dict[str, Any]] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib, so that a figure looks the same on every machine
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "lines.linewidth": 1.0,
    "lines.markersize": 5,
    "text.usetex": False,
    "text.parse_math": False,  # a "$" in a model's name is a dollar sign
    "pdf.fonttype": 42,  # TrueType: editable, and accepted by thesis and journal checks that refuse Type 3
    "pdf.compression": 6,
    "svg.hashsalt": "toolkit",
    "svg.fonttype": "path",  # outlines: the same picture where the font is not installed
    "savefig.bbox": None,  # "tight" would change the width that was asked for
    "text.hinting": "no_hinting",  # or text is wider on a screen than on paper, and runs over the edge
    "figure.constrained_layout.w_pad": 0.03,
    "figure.constrained_layout.h_pad": 0.03,
}


@dataclass(frozen=True)
class ModelStyle:
    """How one model is drawn: colour for the screen, marker and line for grey paper."""

    color: str
    marker: str
    line: Literal["-", "--", "-.", ":"]


@contextmanager
def thesis_style() -> Iterator[None]:
    """Draw and save in the style of the thesis, and leave the user's own settings as they were."""
    with style.context(["default", _RC]):  # "default" first: a user's matplotlibrc must not change a figure
        yield


def new_figure(width_mm: float, height_mm: float) -> Figure:
    """Return an empty figure of a size in millimetres that no window and no backend of the user knows of."""
    if not (width_mm > 0 and height_mm > 0):
        raise InputError(f"figure size {width_mm} x {height_mm} mm: give two positive sides")
    figure = Figure(figsize=(width_mm / MM_PER_INCH, height_mm / MM_PER_INCH), dpi=300, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def settle(figure: Figure) -> Figure:
    """Lay the figure out once and for all, and return it.

    The layout of matplotlib moves a little with every drawing and with the resolution; a figure that is laid
    out again for PDF and for PNG is two figures, and the second PDF differs from the first.
    """
    for _ in range(2):
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)  # without drawing, which takes as long again
    figure.set_layout_engine("none")
    return figure


def model_styles(names: Iterable[str], among: Iterable[str] = ()) -> dict[str, ModelStyle]:
    """Give every model its own look, the same in every figure of a study and whatever the order of the names.

    The hash of the name picks the colour. Two models that pick the same one are told apart by moving the
    alphabetically later one on, so up to six models differ in colour, eight in marker and forty-eight in one of the
    two.
    """
    shown = set(names)
    colours, places = len(PALETTE), len(PALETTE) * len(MARKERS)
    taken: set[int] = set()
    styles: dict[str, ModelStyle] = {}
    for name in sorted(shown.union(among)):
        wanted = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % colours
        in_order = [(wanted + step) % colours for step in range(colours)] + list(range(colours, places))
        place = next((p for p in in_order if p not in taken), wanted)
        taken.add(place)
        # Eight models differ in their marker, which is all that grey paper shows; after 24 places, where colours and
        # markers have run through together, one step on makes new pairs of them.
        look = place + place // math.lcm(colours, len(MARKERS))
        styles[name] = ModelStyle(
            PALETTE[place % colours], MARKERS[look % len(MARKERS)], LINES[look % len(LINES)]
        )
    return {name: style for name, style in styles.items() if name in shown}


def score_axis(axes: Axes, label: str = "Composite score (0–5)", *, which: str = "y") -> None:
    """Show the whole 0-5 scale, so that no difference looks larger than it is."""
    low, high = SCALE
    ticks = [float(tick) for tick in range(int(low), int(high) + 1)]
    margin = 0.1  # a marker at 0 or 5 is drawn whole
    if which == "y":
        axes.set_ylim(low - margin, high + margin)
        axes.set_yticks(ticks, [f"{tick:.0f}" for tick in ticks])
        axes.set_ylabel(label)
        axes.spines["left"].set_bounds(low, high)
    else:
        axes.set_xlim(low - margin, high + margin)
        axes.set_xticks(ticks, [f"{tick:.0f}" for tick in ticks])
        axes.set_xlabel(label)
        axes.spines["bottom"].set_bounds(low, high)


def message_figure(width_mm: float, height_mm: float, message: str) -> Figure:
    """Return a figure that says in its middle why there is nothing to draw."""
    figure = new_figure(width_mm, height_mm)
    axes = figure.subplots()
    axes.set_axis_off()
    lines = textwrap.fill(message, max(20, int(0.55 * width_mm)))  # letters of 8 pt that fit on a line
    axes.text(0.5, 0.5, lines, ha="center", va="center", transform=axes.transAxes, color=INK)
    return settle(figure)

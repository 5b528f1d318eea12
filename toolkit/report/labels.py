"""Labels of figures: names that fit and stay apart, and letters beside marks that hide nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

import numpy as np
from matplotlib.font_manager import findfont, get_font
from matplotlib.ft2font import FT2Font

from toolkit.report.show import plain_text

Place = tuple[float, float]

_AWAY: Final = (9.0, 12.0, 15.0, 19.0)
"""Distances of a label from its mark in points, the nearest first."""
_TURNS: Final = tuple(math.radians(angle) for angle in (135, 45, 90, 180, 0, 225, 315, 270))
"""Directions, the most usual first: above and to the left."""
_HALF: Final = 3.5
"""Half of the side of a letter of 8 pt in points."""
_TOUCHES: Final = {"outside": 100.0, "label": 30.0, "mark": 10.0, "line": 2.0}


def shorten(name: str, limit: int = 34) -> str:
    r"""Return a name on one line that fits a legend."""
    line = _line(name)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def shortened(names: Iterable[str], limit: int = 34) -> dict[str, str]:
    """Return names as they fit a legend, no two of them alike: names of models often differ at their end only."""
    plain = {name: shorten(name, limit) for name in names}
    ends = list(plain.values())
    told = [_middle_cut(n, limit) if ends.count(short) > 1 else short for n, short in plain.items()]
    return {
        name: f"{short} ({told[: place + 1].count(short)})" if told.count(short) > 1 else short
        for place, (name, short) in enumerate(zip(plain, told, strict=True))
    }


def decimals(value: float, places: int = 2, *, sign: bool = False) -> str:
    """Return a number as a figure prints it: a true minus, and none before what rounds to zero."""
    text = f"{value:{'+' * sign}.{places}f}"
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", "−")


def _line(name: str) -> str:
    """Return a name as one line that can be drawn: a sign that the font lacks is named, as in the LaTeX tables."""
    line = " ".join(plain_text(str(name)).split())
    if line.isascii():
        return line
    return "".join(c if _font().get_char_index(ord(c)) else f"[U+{ord(c):04X}]" for c in line)


@cache
def _font() -> FT2Font:
    return get_font(findfont("DejaVu Sans"))


def _middle_cut(name: str, limit: int) -> str:
    line = _line(name)
    head = limit // 2 - 1
    return line if len(line) <= limit else f"{line[:head]}…{line[head + 1 - limit :]}"


def label_offsets(
    marks: Sequence[Place], lines: Sequence[Place], size: tuple[float, float], *, radius: float = 3.5
) -> list[Place]:
    """Return where the one-letter label of each mark stands, relative to its mark.

    Labels are placed one after the other, each where it touches least: the border first of all, then other labels,
    marks and lines. The same marks give the same labels.
    """
    taken: list[Place] = []
    offsets = []
    centres = np.array(marks, dtype=float).reshape(-1, 2)
    crossed = np.array(lines, dtype=float).reshape(-1, 2)
    for x, y in marks:
        best, least = (0.0, 0.0), math.inf
        for away in _AWAY:
            for turn in _TURNS:
                offset = (away * math.cos(turn), away * math.sin(turn))
                at = np.array([x + offset[0], y + offset[1]])
                touched = (
                    _TOUCHES["outside"] * _is_outside(at, size)
                    + _TOUCHES["label"] * _near(at, np.array(taken).reshape(-1, 2), 2 * _HALF)
                    + _TOUCHES["mark"] * int((np.hypot(*(centres - at).T) < _HALF + radius).sum())
                    + _TOUCHES["line"] * _near(at, crossed, _HALF)
                    + away / 4  # farther only where it frees the label
                )
                if touched < least - 1e-9:
                    best, least = offset, touched
        offsets.append(best)
        taken.append((x + best[0], y + best[1]))
    return offsets


def _is_outside(at: np.ndarray, size: tuple[float, float]) -> bool:
    return bool((at < _HALF).any() or (at > np.array(size) - _HALF).any())


def _near(at: np.ndarray, others: np.ndarray, reach: float) -> int:
    return int((np.abs(others - at).max(axis=1) < reach).sum()) if len(others) else 0

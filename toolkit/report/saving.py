"""Figures with their caption, and files that are complete or not there and the same bytes every time."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import pandas as pd
from matplotlib.figure import Figure

from toolkit.errors import InputError
from toolkit.files import write_atomically
from toolkit.report.show import plain_text
from toolkit.report.style import thesis_style

PNG_DPI: Final = 300
PICTURES: Final = ("pdf", "svg", "png")
SUFFIXES: Final = (".pdf", ".svg", ".png", ".csv", ".txt")
"""Files of a figure: the picture, the data that it draws, and its caption."""


@dataclass(frozen=True)
class FigureWithCaption:
    """A figure that explains itself; a notebook shows it when it is the last line of a cell."""

    name: str
    figure: Figure
    caption: str
    alt_text: str
    data: pd.DataFrame
    n: dict[str, int]
    left_out: str = ""

    def _repr_png_(self) -> bytes:
        """Return the picture for a notebook (150 dpi: the screen, not the thesis)."""
        return render(self, "png", dpi=150)


def render(figure: FigureWithCaption, kind: str, *, dpi: int = PNG_DPI) -> bytes:
    """Return the figure as the bytes of a file, the same bytes for the same figure."""
    alt_text = plain_text(figure.alt_text)  # an SVG that holds a control character is no SVG
    words: dict[str, dict[str, str | None]] = {
        "pdf": {
            "Title": figure.name,
            "Subject": alt_text,
            "CreationDate": None,
            "Creator": None,
            "Producer": None,
        },
        "png": {"Title": figure.name, "Description": alt_text, "Software": None},
        "svg": {"Title": figure.name, "Description": alt_text, "Date": None, "Creator": None},
    }
    if kind not in words:
        raise InputError(f"figure format {kind!r}: use one of {', '.join(words)}")
    buffer = io.BytesIO()
    with thesis_style():
        figure.figure.savefig(buffer, format=kind, dpi=dpi, metadata=words[kind])
    return buffer.getvalue() if kind != "svg" else _described(buffer.getvalue(), alt_text)


def _described(svg: bytes, alt_text: str) -> bytes:
    """Return the SVG with its alt text where a screen reader looks for it; matplotlib has only the title there."""
    return svg.replace(b"</title>", f"</title>\n <desc>{escape(alt_text)}</desc>".encode(), 1)


def save_figure(figure: FigureWithCaption, folder: Path | str) -> list[Path]:
    """Write ``NAME.pdf``, ``.svg`` and ``.png`` (300 dpi), ``.csv`` (its data) and ``.txt`` (its caption).

    The alt text stands inside of the pictures: Subject of the PDF, ``desc`` of the SVG, Description of the PNG.
    """
    place = Path(folder)
    return [
        *(write_atomically(place / f"{figure.name}.{kind}", render(figure, kind)) for kind in PICTURES),
        write_atomically(place / f"{figure.name}.csv", csv_bytes(figure.data)),
        write_atomically(place / f"{figure.name}.txt", f"{plain_text(figure.caption)}\n".encode()),
    ]


def take_away_others(folder: Path, pattern: str, kept: Iterable[str]) -> None:
    """Remove what an earlier call wrote under such names and this one did not: it shows what no longer holds."""
    stay = set(kept)
    for path in sorted(folder.glob(f"{pattern}.*")):
        if path.suffix in (*SUFFIXES, ".tex") and path.stem not in stay and path.is_file():
            path.unlink()


def csv_bytes(frame: pd.DataFrame) -> bytes:
    r"""Return the frame as UTF-8 CSV with the same line ends on every system."""
    return frame.to_csv(index=False, lineterminator="\n").encode()

"""Figures with their caption, and files that are complete or not there and the same bytes every time."""

from __future__ import annotations

import io
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from toolkit.errors import InputError
from toolkit.report.style import thesis_style

PNG_DPI: Final = 300


@dataclass(frozen=True)
class FigureWithCaption:
    """A figure that explains itself; a notebook shows it when it is the last line of a cell.

    Parameters
    ----------
    name
        Stem of its files, e.g. ``quality_by_length``.
    figure
        The drawing, sized in millimetres.
    caption
        What is shown, n, what the interval is and how it was made, what is missing.
    alt_text
        The figure in words for who cannot see it.
    data
        Exactly what is drawn, one row a mark.
    n
        Bases, answers, models, judges and repeats that the figure rests on.
    """

    name: str
    figure: Figure
    caption: str
    alt_text: str
    data: pd.DataFrame
    n: dict[str, int]

    def _repr_png_(self) -> bytes:
        """Return the picture for a notebook (150 dpi: the screen, not the thesis)."""
        return render(self, "png", dpi=150)


def render(figure: FigureWithCaption, kind: str, *, dpi: int = PNG_DPI) -> bytes:
    """Return the figure as the bytes of a file, the same bytes for the same figure.

    Parameters
    ----------
    figure
        What to render.
    kind
        ``"pdf"``, ``"png"`` or ``"svg"``.
    dpi
        Pixels per inch of a PNG.

    Returns
    -------
    bytes
        Without a date and without the name of any program, which would differ between two renders.

    Raises
    ------
    InputError
        When ``kind`` is none of the three.
    """
    words: dict[str, dict[str, str | None]] = {
        "pdf": {
            "Title": figure.name,
            "Subject": figure.alt_text,
            "CreationDate": None,
            "Creator": None,
            "Producer": None,
        },
        "png": {"Title": figure.name, "Description": figure.alt_text, "Software": None},
        "svg": {"Title": figure.name, "Description": figure.alt_text, "Date": None, "Creator": None},
    }
    if kind not in words:
        raise InputError(f"figure format {kind!r}: use one of {', '.join(words)}")
    buffer = io.BytesIO()
    with thesis_style():
        figure.figure.savefig(buffer, format=kind, dpi=dpi, metadata=words[kind])
    return buffer.getvalue()


def save_figure(figure: FigureWithCaption, folder: Path | str) -> list[Path]:
    """Write ``NAME.pdf``, ``NAME.png`` (300 dpi), ``NAME.csv`` (its data) and ``NAME.txt`` (its caption).

    Parameters
    ----------
    figure
        What to save.
    folder
        Where; made when it is not there.

    Returns
    -------
    list of Path
        The four files.
    """
    place = Path(folder)
    return [
        write_atomically(place / f"{figure.name}.pdf", render(figure, "pdf")),
        write_atomically(place / f"{figure.name}.png", render(figure, "png")),
        write_atomically(place / f"{figure.name}.csv", csv_bytes(figure.data)),
        write_atomically(place / f"{figure.name}.txt", f"{figure.caption}\n".encode()),
    ]


def csv_bytes(frame: pd.DataFrame) -> bytes:
    r"""Return the frame as UTF-8 CSV with the same line ends on every system.

    Examples
    --------
    >>> csv_bytes(pd.DataFrame({"a": [1, None]}))
    b'a\n1.0\n""\n'
    """
    return frame.to_csv(index=False, lineterminator="\n").encode()


def write_atomically(path: Path, content: bytes) -> Path:
    """Write a file that is either complete or not there, also when the process is killed half-way.

    Parameters
    ----------
    path
        The file; its folder is made when it is not there.
    content
        All of its bytes.

    Returns
    -------
    Path
        The same path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).chmod(0o644)  # mkstemp makes it private; a figure is for the supervisor too
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path

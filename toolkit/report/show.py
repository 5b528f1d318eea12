"""What notebooks and templates show: figures with captions, findings as sentences, replies as plain text."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from toolkit.errors import InputError, ToolkitError
from toolkit.stats.result import Estimate

_KEPT: Final = "\n\t"
_ESCAPES: Final = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])?")
_SCREEN_DPI: Final = 110
_COLUMNS: Final = 100
_FIRST: Final = "run `make demo`, or `toolkit run` with your study file, in a shell first"


class NothingToShow(ToolkitError):
    """There are no results yet; a notebook shows it as one line instead of a traceback."""


class NotWhole(ToolkitError):
    """A study was asked and something of it is missing; the notebook has shown the rest."""

    exit_code = 1


def need_results(status: Mapping[str, Any], advice: str = _FIRST) -> None:
    """Stop a notebook at this cell with one line when the study has no result to look at.

    Parameters
    ----------
    status
        What ``study.status()`` returned.
    advice
        What to do.

    Raises
    ------
    NothingToShow
        When no run has succeeded.

    Examples
    --------
    >>> need_results({"study": "demo", "done": 36})
    """
    if not status["done"]:
        raise NothingToShow(f"study {status['study']}: no run has succeeded yet; {advice}")


def need_whole(outcome: Mapping[str, Any], what: str = "runs") -> None:
    """Stop a notebook at its end with one line when runs failed or the budget is reached, so that a batch knows.

    Parameters
    ----------
    outcome
        What ``study.run()`` returned.
    what
        What it counts.

    Raises
    ------
    NotWhole
        When a run failed or the budget kept one from being asked.

    Examples
    --------
    >>> need_whole({"planned": 36, "failed": 0, "failures": {}, "budget": None})
    """
    if outcome["budget"]:
        raise NotWhole(outcome["budget"])
    if outcome["failed"]:
        why = ", ".join(f"{count} x {reason}" for reason, count in outcome["failures"].items())
        raise NotWhole(
            f"{outcome['failed']} of {outcome['planned']} {what} failed ({why}); run it again, or the batch with "
            "--retry"
        )


def show_figure(files: Iterable[Path], name: str) -> None:
    """Show one of the figures that ``study.figures()`` wrote, as wide as in the thesis, and its caption.

    Of a figure that the study cannot give it says why.

    Parameters
    ----------
    files
        The paths that ``study.figures()`` returned.
    name
        Stem of the figure, e.g. ``quality_by_length``.

    Raises
    ------
    InputError
        When there is no such figure.
    """
    from IPython.display import Image, display

    from toolkit.report.saving import PNG_DPI
    from toolkit.report.study_figures import why_left_out

    found = {path.name: path for path in map(Path, files)}
    if why := why_left_out(list(found.values()), name):
        print_text(f"Figure {name} is left out: {why}.")
        return
    if f"{name}.png" not in found or f"{name}.txt" not in found:
        known = ", ".join(sorted(path.stem for path in found.values() if path.suffix == ".png"))
        raise InputError(f"figure {name!r}: there is none of that name; use one of {known}")
    content = found[f"{name}.png"].read_bytes()
    caption = found[f"{name}.txt"].read_text(encoding="utf-8")
    pixels = int.from_bytes(content[16:20], "big")  # width in the header of every PNG
    display(Image(data=content, format="png", width=round(pixels * _SCREEN_DPI / PNG_DPI), alt=caption))
    print_text(caption)


def say(estimates: Iterable[Estimate]) -> None:
    """Print results as sentences ready for the thesis, one a line.

    Parameters
    ----------
    estimates
        Any results of ``toolkit.stats``.

    Examples
    --------
    >>> say([Estimate("S", 2.5, 2.0, 3.0, "t over bases", n={"bases": 12})])
    S = 2.500, 95% interval [2.000, 3.000] (t over bases); n = 12 bases.
    """
    for one in estimates:
        print_text(one.sentence())


def plain_text(text: str) -> str:
    r"""Return what a model wrote without what would act on a screen: escapes, control and invisible characters."""
    lines = _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join(c for c in lines if c in _KEPT or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))


def print_text(text: str) -> None:
    r"""Print what a model wrote as text and as nothing else: no markup, no colours, no overwriting.

    Parameters
    ----------
    text
        Any text; control characters other than line ends and tabs are dropped, line ends are made equal,
        and lines are wrapped.

    Examples
    --------
    >>> print_text("<b>bold</b>\x1b[31m red\x1b[0m\rover")
    <b>bold</b> red
    over
    """
    for line in plain_text(text).split("\n"):
        # JupyterLab would break a long line in the middle of a word.
        print(textwrap.fill(line, _COLUMNS, replace_whitespace=False, break_on_hyphens=False))

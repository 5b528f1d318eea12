"""What notebooks and templates show: figures with captions, findings as sentences, replies as plain text."""

from __future__ import annotations

import base64
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pandas as pd

from toolkit.errors import InputError, ToolkitError
from toolkit.stats.result import Estimate, Result
from toolkit.words import RESULT_TYPE, Summary, counted, is_unseen, template

if TYPE_CHECKING:
    from toolkit.report.blocks import Part

_ESCAPES = re.compile(  # text of others
    r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])?"
)
PNG_DPI = 300
_SCREEN_DPI = 110
_WIDTH = 640  # pixels of a figure's width as the last line of a cell
_LINE = 78
LEFT_OUT = "left_out.txt"  # file that names the figures a study cannot give, and why
_FIRST = "run `make demo`, or `toolkit run` with your study file, in a shell first"


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
    >>> need_results({"study": "mine", "done": 9})
    >>> try:
    ...     need_results({"study": "mine", "done": 0}, "run it first")
    ... except NothingToShow as error:
    ...     print(error)
    study mine: no run has succeeded yet; run it first
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
    >>> need_whole({"budget": None, "failed": 0})
    >>> try:
    ...     need_whole({"budget": None, "failed": 2, "planned": 9, "failures": {"timeout": 2}})
    ... except NotWhole as error:
    ...     print(error)
    2 of 9 runs failed (2 x timeout); run it again, or the batch with --retry
    """
    if outcome["budget"]:
        raise NotWhole(outcome["budget"])
    if outcome["failed"]:
        reasons = ", ".join(f"{count} x {reason}" for reason, count in outcome["failures"].items())
        raise NotWhole(
            f"{outcome['failed']} of {outcome['planned']} {what} failed ({reasons}); run it again, or the batch with "
            "--retry"
        )


def show_figure(files: Files, name: str) -> None:
    """Show one of the figures that ``study.figures()`` wrote, as wide as in the thesis, and its caption.

    Of a figure that the study cannot give it says why.

    Parameters
    ----------
    files
        What ``study.figures()`` or ``study.bundle()`` returned.
    name
        Stem of the figure, e.g. ``quality_by_length``.

    Raises
    ------
    InputError
        When there is no such figure.

    Examples
    --------
    >>> show_figure(study.figures(), "quality_by_length")  # doctest: +SKIP
    """
    from IPython.display import Image, display

    paths = {path.name: path for path in files}
    if reason := files.left_out.get(name):
        print_text(f"Figure {name} is left out: {reason}.")
        return
    if f"{name}.png" not in paths or f"{name}.txt" not in paths:
        names = ", ".join(sorted(path.stem for path in paths.values() if path.suffix == ".png"))
        raise InputError(f"figure {name!r}: there is none of that name; use one of {names}")
    content = paths[f"{name}.png"].read_bytes()
    caption = paths[f"{name}.txt"].read_text(encoding="utf-8")
    pixels = int.from_bytes(content[16:20], "big")  # width in the header of every PNG
    display(
        Image(
            data=content,
            format="png",
            width=round(pixels * _SCREEN_DPI / PNG_DPI),
            alt=files.alt_text(name, caption),
        )
    )
    print_text(caption)


def picture_html(content: bytes, alt: str, caption: str) -> str:
    """Return a PNG with its alt text and its caption for a notebook, and for the HTML that is made of it."""
    data = base64.b64encode(content).decode()
    look = f'style="max-width:100%;width:{_WIDTH}px"'
    return f'<img alt="{escape(alt)}" {look} src="data:image/png;base64,{data}"><p>{escape(plain_text(caption))}</p>'


class Files(list[Path]):
    """Paths of what was written, which show their figures with captions in a notebook, and what was left out."""

    def __init__(
        self,
        paths: Iterable[Path] = (),
        shown: Iterable[Part] = (),
        left_out: Mapping[str, str] | None = None,
    ) -> None:
        """Hold the paths, and what they show."""
        super().__init__(paths)
        self.shown, self.left_out = [*shown], dict(left_out or {})

    def __iadd__(self, other: Iterable[Path]) -> Files:  # type: ignore[override,misc]
        """Add other paths, and what they show."""
        self.extend(other)
        if isinstance(other, Files):
            self.shown += other.shown
            self.left_out |= other.left_out
        return self

    def alt_text(self, name: str, default: str) -> str:
        """Return the description of a figure."""
        return next((part.alt_text for part in self.shown if part.place == f"figures/{name}"), default)

    def __repr__(self) -> str:
        """Say how many figures and tables there are, and where."""
        figures = sum(path.suffix == ".png" for path in self)
        tables = sum(path.suffix == ".tex" and path.parent.name in ("tables", "statistics") for path in self)
        folder = Path(os.path.commonpath(self)) if self else Path()
        return f"{counted(figures, 'figures')} and {counted(tables, 'LaTeX tables')} in {folder}"

    def _repr_html_(self) -> str:
        paths = {path.name: path for path in self}
        parts = [f"<p>{escape(repr(self))}</p>"]
        for name in (path.stem for path in self if path.suffix == ".png" and f"{path.stem}.txt" in paths):
            caption = paths[f"{name}.txt"].read_text(encoding="utf-8")
            alt = self.alt_text(name, caption)
            parts.append(f"<p><strong>{name.replace('_', ' ')}</strong></p>")
            parts.append(picture_html(paths[f"{name}.png"].read_bytes(), alt, caption))
        absent = (f"<p>{name} is left out: {escape(reason)}.</p>" for name, reason in self.left_out.items())
        return "".join([*parts, *absent])


class Link(type(Path())):  # type: ignore[misc]
    """The path of a page, which a notebook shows as a link."""

    def _repr_html_(self) -> str:
        return f'<a href="{quote(os.path.relpath(self))}" target="_blank">{escape(self.name)}</a>'


def written_summary(files: Sequence[Path], fields: Mapping[str, Any] | None = None) -> Summary:
    """Return what a command says of the files that it wrote: how many and where, and each path as a field."""
    return Summary({**(fields or {}), "files": [str(path) for path in files]}, repr(Files(files)))


def result(table: pd.DataFrame | Result) -> None:
    """Show a table as what a template found; a batch collects it beside the parameters of each notebook.

    Parameters
    ----------
    table
        A frame, or a result of ``toolkit.stats``, whose ``frame()`` is taken.

    Examples
    --------
    ``result(study.length(score))`` as the last line of a template.
    """
    from IPython.display import display

    frame = table.frame() if isinstance(table, Result) else table
    html = table._repr_html_() if isinstance(table, Result) else frame.to_html()
    rows = json.loads(frame.to_json(orient="records", date_format="iso"))
    display({RESULT_TYPE: rows, "text/plain": str(table), "text/html": html}, raw=True)


def study_html(title: str, status: Mapping[str, Any], *, judged: bool) -> str:
    """Return how far a study is, what it cost, what to call next, and what else there is to call."""
    from toolkit.report.escape import TERMS
    from toolkit.runs.status import status_sentence

    words = {"title": title, "sentence": status_sentence(status), "judged": judged, "groups": TERMS["calls"]}
    return lines_html(template("report", "study.jinja").render(status, **words).splitlines())


def lines_html(lines: Sequence[str]) -> str:
    """Return lines of text for a notebook: the first one strong, and indented those that begin with a blank."""
    first, *following = (f"{'&emsp;' * line.startswith(' ')}{escape(line.strip())}" for line in lines)
    return "<br>".join([f"<strong>{first}</strong>", *following])


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
    for estimate in estimates:
        print_text(estimate.sentence())


def plain_text(text: str) -> str:
    r"""Return what a model wrote without what would act on a screen: escapes, control and invisible characters."""
    lines = _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join(c for c in lines if " " <= c <= "~" or c in "\n\t" or not is_unseen(c))


def print_text(text: str) -> None:
    r"""Print what a model wrote as text and as nothing else: no markup, no colours, no overwriting.

    Parameters
    ----------
    text
        Any text; control characters other than line ends and tabs are dropped, line ends are made equal, and lines are
        wrapped.

    Examples
    --------
    >>> print_text("<b>bold</b>\x1b[31m red\x1b[0m\rover")
    <b>bold</b> red
    over
    """
    for line in plain_text(text).split("\n"):  # text of others
        # JupyterLab would break a long line in the middle of a word.
        print(textwrap.fill(line, _LINE, replace_whitespace=False, break_on_hyphens=False))

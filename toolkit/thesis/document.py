"""The bundle as one document for those without LaTeX: Word, or Markdown, by pandoc from what the bundle is made of.

Methods, figures, tables and references are those of the bundle, whose LaTeX pandoc reads: what a document says cannot
differ from it. What models and study files are called is escaped there, once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from toolkit.errors import InputError
from toolkit.files import write_atomically
from toolkit.report.escape import escape_breaking, readable, with_signs
from toolkit.report.show import alt_text_of
from toolkit.words import choices

FORMATS: Final = {"docx": "docx", "md": "markdown-raw_html-raw_tex-fenced_divs-native_divs"}
"""Formats of a document beside LaTeX, and how pandoc writes them."""
_PART: Final = re.compile(
    r"\\(?:input|bundletable|bundlelong)\{(?:\\bundlehome )?((figures|tables)/[\w.-]+\.tex)\}"
)
_PICTURE: Final = re.compile(r"\\bundlefigure\{([\w.-]+)\.pdf\}.*\n")
_NO_OPTION: Final = str.maketrans({"%": " percent", "\\": "/", "{": "(", "}": ")"})
"""Signs that end an option of a command: pandoc takes the alt text as it stands there."""
_CAPTION: Final = re.compile(r"\\caption(?:\[(?:[^\]{}]|\{[^{}]*\})*\])?\{")
_ZEROS: Final = re.compile(r"\\phantom\{0+\}")
_EPOCH: Final = "315532800"  # 1980, the first year of a zip: the same document is the same bytes


def check_format(name: str) -> None:
    """Refuse a format that is not known, or for which pandoc is lacking, before anything is calculated."""
    if name not in ("latex", *FORMATS):
        raise InputError(f"format {name!r}: {choices(name, ('latex', *FORMATS))}")
    if name != "latex":
        try:
            import pypandoc  # type: ignore[import-untyped]  # noqa: F401
        except ImportError:
            raise InputError(
                f"format {name}: needs pandoc; pip install 'llm-security-toolkit[word]' brings it"
            ) from None


def write_document(folder: Path, title: str, left_out: list[str], name: str) -> Path:
    """Write ``bundle.docx`` or ``bundle.md`` into the folder of a bundle, from the LaTeX that stands there."""
    import pypandoc

    path = folder / f"bundle.{name}"
    # pandoc knows no environment over two columns, and \emergencystretch is for TeX alone.
    told = [r"\documentclass{article}", rf"\title{{{escape_breaking(title)}}}", r"\begin{document}"]
    methods = (folder / "methods.tex").read_text(encoding="utf-8")
    told += [
        r"\section{Methods}",
        methods.replace(r"\begingroup\emergencystretch=3em", "").replace(r"\endgroup", ""),
    ]
    told += [r"\section{Figures and tables}", *(f"{line}\n" for line in left_out)]
    told += [*_parts(folder, alt=name == "docx"), r"\section*{References}", r"\end{document}"]
    text = with_signs("\n".join(told))
    # In the folder, so that the document names no path of this machine.
    extra = ["--citeproc", "--bibliography=references.bib", "--wrap=none"]
    if name == "md":
        made = pypandoc.convert_text(
            text, FORMATS[name], format="latex", extra_args=extra, cworkdir=str(folder)
        )
        return write_atomically(path, f"# {title}\n\n{made}".encode())
    with _at_the_epoch():
        pypandoc.convert_text(
            text, name, format="latex", outputfile=path.name, extra_args=extra, cworkdir=str(folder)
        )
    return path


def _parts(folder: Path, *, alt: bool) -> Iterator[str]:
    """Yield each figure and table in the order of the bundle, with its number in its caption."""
    counts = {"figures": 0, "tables": 0}
    for part, kind in _PART.findall((folder / "figures.tex").read_text(encoding="utf-8")):
        counts[kind] += 1
        text = (folder / part).read_text(encoding="utf-8")
        number = f"{'Figure' if kind == 'figures' else 'Table'} {counts[kind]}. "
        text = _CAPTION.sub(rf"\\caption{{{number}", text, count=1)
        if picture := _PICTURE.search(text):
            told = _picture(folder, picture[1], alt=alt)
            text = f"{text[: picture.start()]}{told}{text[picture.end() :]}"
        text = text.replace("{figure*}", "{figure}").replace("[htbp]", "", 1).replace(r"\\*", r"\\")
        yield _ZEROS.sub("", text)


def _picture(folder: Path, name: str, *, alt: bool) -> str:
    """Return the picture of a figure; Markdown has one text for it, and that is its caption."""
    told = readable(alt_text_of(folder / "figures" / f"{name}.svg")).translate(_NO_OPTION)
    options = rf"[width=\linewidth,alt={{{told}}}]" if alt else ""
    return rf"\includegraphics{options}{{figures/{name}.png}}" + "\n"


@contextmanager
def _at_the_epoch() -> Iterator[None]:
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = _EPOCH
    try:
        yield
    finally:
        if before is None:
            del os.environ["SOURCE_DATE_EPOCH"]
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before

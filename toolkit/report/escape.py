"""Text and numbers as LaTeX that prints them and does nothing else: no text from a model can become a command."""

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import cast

from jinja2 import Environment

from toolkit.files.reading import read_toml
from toolkit.report.visible import visible
from toolkit.words import DIMENSIONS, SCENARIOS, joined, pages, visible_name


def data_file(name: str) -> dict[str, dict[str, str]]:
    """Return the content of a data file of this folder."""
    return read_toml(files("toolkit.report") / f"{name}.toml")


_SIGNS = data_file("latex")
_MATHEMATICS = {sign: f"$\\{name}$" for name, signs in _SIGNS["mathematics"].items() for sign in signs}
_PRINTED = _MATHEMATICS | _SIGNS["text"]
_LABEL_SIGNS = frozenset(f"{string.ascii_letters}{string.digits}:.-")
_STUDY_SIGNS = _LABEL_SIGNS - {":"} | {"_"}
_LETTERS = "".join(chr(c) for c in range(0xC0, 0x100) if chr(c) not in "ÐðÞþ×÷")
"""Letters that pdflatex prints in every font encoding."""
TERMS: Mapping[str, Mapping[str, str]] = data_file("terms")
_FIELD_TERMS = (
    {name: name.replace("_", " ") for name in DIMENSIONS}
    | {name: f"{name[:3]} {name[4:].lower()}" for name in SCENARIOS}
    | dict(TERMS["words"])
)
"""Names of the code, as a committee reads them."""
_TERM = rf"(?<![\w-])(?:{'|'.join(map(re.escape, _FIELD_TERMS))})(?![\w-])"
_MINUS = r"(?<![\w.)\]/-])-(?=\.?\d)|(?<=(?<![\w-])[SML])-(?=[SML](?![\w-]))|(?<=\S )-(?= \S)"
"""Hyphens that are a minus: before a number, between two prompt lengths, and alone between two names."""
_REPLACED = rf"{_TERM}|{_MINUS}|(?<=\w )x(?= \w)"
NO_TITLES: Mapping[str, str] = {}
_names: ContextVar[tuple[str, Mapping[str, str]]] = ContextVar("names", default=("", NO_TITLES))
"""Pattern of names of the user that are printed as they are, or by their titles."""
_TOKEN = re.compile(r"\b[dg]_(?:z|av)\b|(?<=[-',!?])(?=[-',`])|.", re.DOTALL)  # text of others
"""An effect size, which is set as mathematics; the place in a pair that would become one sign; any other character."""
_SENTENCE_END = r" \(n = |[.:;] |\.?$"
_LONG_WORD = 16
_PIECES = re.compile(r"[^_/:.=@,+-]{1,12}[_/:.=@,+-]?|[_/:.=@,+-]")  # text of others
MISSING = "--"  # what a cell shows when there is no number; never a zero


def escape(text: object) -> str:
    """Return text as LaTeX that prints it and does nothing else; a sign that LaTeX lacks is named by its code point."""
    return _escaped(_plain(text))


def _escaped(line: str) -> str:
    return _TOKEN.sub(_escaped_token, line)


def _escaped_token(match: re.Match[str]) -> str:
    token = match[0]
    if not token:
        return "{}"  # keeps "--" two hyphens and "''" two apostrophes
    if len(token) > 1:
        return f"${token[0]}_{{{token[2:]}}}$"
    printable = " " <= token <= "~" or token in _LETTERS
    return _PRINTED.get(token) or (token if printable else f"{{[}}U+{ord(token):04X}{{]}}")


def escape_breaking(text: object) -> str:
    """Return text as `escape` does, with places in its long words, such as names of models, where a line may end."""
    return _breaking(_plain(text))


def escape_verbatim(line: str) -> str:
    """Return a line of a text of others as `escape_breaking` does, with none of its words replaced by others."""
    return _breaking(visible(line))


def _breaking(line: str) -> str:
    return " ".join(
        # A short word of signs that cannot be printed is a long one of their names.
        _escaped(word).replace("{]}{[}", r"{]}\allowbreak{}{[}")
        if len(word) <= _LONG_WORD
        else r"\allowbreak{}".join(map(_escaped, _PIECES.findall(word)))
        for word in line.split(" ")  # text of others
    )


def caption_latex(caption: str) -> str:
    r"""Return the command of a caption, of which a list of figures or tables shows the first sentence only."""
    text = caption.strip()
    ends = re.finditer(_except_names(_SENTENCE_END), text)  # text of others: a name may hold a full stop
    first = next(end.start() for end in ends if end.lastgroup != "name")
    return rf"\caption[{escape_breaking(text[:first])}]{{{escape_breaking(caption)}}}"


def label_of(name: str, study: str = "") -> str:
    r"""Return what stands in ``\label`` after ``fig:`` or ``tab:``: the study, of several in a thesis, and the name."""
    label = "".join(c if c in _LABEL_SIGNS else "-" for c in name)
    return f"{''.join(c if c in _STUDY_SIGNS else '-' for c in study)}:{label}" if study else label


@contextmanager
def names_kept(names: Iterable[str], titles: Mapping[str, str] = NO_TITLES) -> Iterator[None]:
    """Write files in which names of models, judges and the like stand as they are given, or by their titles."""
    titles = {name: title for name, title in titles.items() if "_" in name}
    pattern = re.compile(f"{_REPLACED}|[.:;] ")  # text of others
    own = {name for name in names if name} - _FIELD_TERMS.keys() - titles.keys()
    literal = (name for name in own if pattern.search(name))
    parts = [re.escape(name) for name in sorted(literal, key=len, reverse=True)]  # text of others
    parts += [rf"(?<![\w-]){name}(?![\w-])" for name in titles]
    before = _names.set(("|".join(parts), titles))
    try:
        yield
    finally:
        _names.reset(before)


def readable(text: str) -> str:
    """Return text with the words of the field for names of the code, and with one sign for a minus everywhere."""
    return re.sub(_except_names(_REPLACED), _replacement, text)  # text of others: names stand in it


def _except_names(pattern: str) -> str:
    literal, _ = _names.get()
    return f"(?P<name>{literal})|{pattern}" if literal else pattern


def _replacement(match: re.Match[str]) -> str:
    text = match[0]
    if match.lastgroup == "name":
        return _names.get()[1].get(text, text)
    return _FIELD_TERMS.get(text, {"-": "−", "x": "×"}.get(text, text))


def _plain(text: object) -> str:
    return readable(" ".join(visible_name(str(text)).split()))  # text of others


@cache
def latex_templates() -> Environment:
    """Return the templates of LaTeX; their tags are none that TeX knows."""
    filters = {
        "breaking": escape_breaking, "caption": caption_latex, "joined": joined, "latex": escape,
        "verbatim": escape_verbatim,
    }  # fmt: skip
    return pages(
        "",
        filters,
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def latex_macro(part: str) -> Callable[..., str]:
    """Return a macro of ``blocks.jinja``."""
    return cast(
        Callable[..., str], getattr(latex_templates().get_template("report/blocks.jinja").module, part)
    )

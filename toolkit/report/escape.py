"""Text and numbers as LaTeX that prints them and does nothing else: no text from a model can become a command."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from toolkit.words import DIMENSIONS, LENGTH_BINS, SCENARIOS

_SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    # As mathematics: in text these three are of a font that small installations draw in dots.
    "$": r"$\mathdollar$",
    "§": r"$\mathsection$",
    "£": r"$\mathsterling$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "`": r"\char96{}",
    # A row that starts with one of these would be read as an argument of the "\\" before it.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": "--",
    "—": "---",
    "‐": "-",
    "‑": "-",
    "°": r"$^{\circ}$",
    "²": "$^{2}$",
    "³": "$^{3}$",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "…": r"\dots{}",
}
_COMMANDS: Final = {
    "×": "times", "÷": "div", "±": "pm", "·": "cdot", "•": "bullet", "≤": "leq", "≥": "geq", "≠": "neq",
    "≈": "approx", "≡": "equiv", "∞": "infty", "√": "surd", "∑": "sum", "∏": "prod", "∈": "in", "∂": "partial",
    "←": "leftarrow", "→": "rightarrow", "↑": "uparrow", "↓": "downarrow", "↔": "leftrightarrow",
    "⇐": "Leftarrow", "⇒": "Rightarrow", "⇔": "Leftrightarrow", "✓": "surd", "µ": "mu",
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi",
    "ρ": "rho", "σ": "sigma", "ς": "varsigma", "τ": "tau", "υ": "upsilon", "φ": "varphi", "χ": "chi",
    "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi",
    "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
"""Signs that every LaTeX has as a command of mathematics."""
_PRINTED: Final = {**_SPECIAL, "−": "$-$", **{sign: f"$\\{name}$" for sign, name in _COMMANDS.items()}}
_SIGNS: Final = {f"$\\{name}$": sign for sign, name in _COMMANDS.items()} | {
    "$-$": "−",
    "$^{2}$": "²",
    r"$\mathdollar$": r"\$",
}
_LETTERS: Final = "".join(chr(c) for c in range(0xC0, 0x100) if chr(c) not in "ÐðÞþ×÷")
"""Letters that pdflatex prints in every font encoding."""
_READ: Final = {
    **{f"length_bin {name}": f"length {name}" for name in LENGTH_BINS},
    **{name: name.replace("_", " ") for name in DIMENSIONS},
    **{name: f"{name[:3]} {name[4:].lower()}" for name in SCENARIOS},
    "length_bin": "prompt length", "composite_strict": "strict composite", "rubric_study": "rubric study",
    "per aud": "per AUD", "aud per": "AUD per", "E-rho2": "Eρ²", "Phi": "Φ",
}  # fmt: skip
"""Names of the code, as a committee reads them."""
_NAMES: Final = rf"(?<![\w-])(?:{'|'.join(map(re.escape, _READ))})(?![\w-])"
_MINUS: Final = r"(?<![\w.)\]/-])-(?=\.?\d)|(?<=(?<![\w-])[SML])-(?=[SML](?![\w-]))|(?<=\S )-(?= \S)"
"""Hyphens that are a minus: before a number, between two prompt lengths, and alone between two names."""
_CHANGED: Final = rf"{_NAMES}|{_MINUS}|(?<=\w )x(?= \w)"
_kept: ContextVar[str] = ContextVar("kept", default="")
"""Pattern of names that stay as they are."""
_EFFECT: Final = re.compile(r"\b([dg]_(?:z|av))\b")  # effect sizes are set as mathematics
_LIGATURE: Final = re.compile(r"(?<=[-',!?])(?=[-',`])")
_SENTENCE_END: Final = r" \(n = |[.:;] |\.?$"
_LONG_WORD: Final = 16
_PIECES: Final = re.compile(r"[^_/:.=@,+-]{1,12}[_/:.=@,+-]?|[_/:.=@,+-]")
MISSING: Final = "--"  # what a cell shows when there is no number; never a zero


def with_signs(latex: str) -> str:
    """Return LaTeX with signs in place of the mathematics that prints them, for what is not printed by TeX."""
    for command, sign in _SIGNS.items():
        latex = latex.replace(command, sign)
    return latex


def escape(text: object) -> str:
    r"""Return text as LaTeX that prints it and does nothing else.

    Characters of control are dropped, white space becomes one space, and a character that pdflatex cannot
    print is named by its code point instead of stopping the thesis.
    """
    return _escaped(_plain(text))


def _escaped(line: str) -> str:
    told = _EFFECT.split(line)
    for place, part in enumerate(told):
        # "{}" inside keeps "--" two hyphens and "''" two apostrophes.
        pieces = ("".join(_escape_one(c) for c in piece) for piece in _LIGATURE.split(part))
        told[place] = "{}".join(pieces) if place % 2 == 0 else "${}_{{{}}}$".format(*part.split("_"))
    return "".join(told)


def escape_breaking(text: object) -> str:
    r"""Return text as `escape` does, with places in its long words where a line may end.

    A name of a model without a blank would otherwise stand out of the page.
    """
    return " ".join(_with_breaks(word) for word in _plain(text).split(" "))


def caption_latex(caption: str) -> str:
    r"""Return the command of a caption, of which a list of figures or tables shows the first sentence only."""
    text = caption.strip()
    ends = (end.start() for end in re.finditer(_but_names(_SENTENCE_END), text) if end.lastgroup != "kept")
    short = text[: next(ends)]
    return rf"\caption[{escape_breaking(short)}]{{{escape_breaking(caption)}}}"


def label_of(name: str, study: str = "") -> str:
    r"""Return what stands in ``\label`` behind its ``fig:`` or ``tab:``: the study, then the name.

    One thesis may hold the bundles of several studies, whose figures have the same names.
    """
    own = re.sub(r"[^A-Za-z0-9:.-]", "-", name)
    return f"{re.sub(r'[^A-Za-z0-9._-]', '-', study)}:{own}" if study else own


def with_study(latex: str, study: str) -> str:
    r"""Return a table with the name of its study in its label, as `label_of` writes it."""
    return latex.replace(r"\label{tab:", rf"\label{{tab:{label_of('', study)}")


@contextmanager
def names_kept(names: Iterable[str]) -> Iterator[None]:
    """Write files in which the names of models, judges and the like stand as they are given, whatever is in them."""
    pattern = f"{_CHANGED}|[.:;] "
    changed = (name for name in {*names} - _READ.keys() if name and re.search(pattern, name))
    before = _kept.set("|".join(map(re.escape, sorted(changed, key=len, reverse=True))))
    try:
        yield
    finally:
        _kept.reset(before)


def readable(text: str) -> str:
    """Return text with the words of the field for names of the code, and with one sign for a minus everywhere."""
    return re.sub(_but_names(_CHANGED), _read, text)


def _but_names(pattern: str) -> str:
    return f"(?P<kept>{_kept.get()})|{pattern}" if _kept.get() else pattern


def _read(match: re.Match[str]) -> str:
    text = match[0]
    return text if match.lastgroup == "kept" else _READ.get(text, {"-": "−", "x": "×"}.get(text, text))


def _plain(text: object) -> str:
    line = readable(" ".join(unicodedata.normalize("NFC", str(text)).split()))
    return "".join(c for c in line if unicodedata.category(c) not in ("Cc", "Cf", "Cs"))


def _with_breaks(word: str) -> str:
    if len(word) <= _LONG_WORD:
        # A short word of signs that cannot be printed is a long one of their names.
        return _escaped(word).replace("{]}{[}", r"{]}\allowbreak{}{[}")
    return r"\allowbreak{}".join(_escaped(piece) for piece in _PIECES.findall(word))


def _escape_one(character: str) -> str:
    if character in _PRINTED:
        return _PRINTED[character]
    if " " <= character <= "~" or character in _LETTERS:
        return character
    return f"{{[}}U+{ord(character):04X}{{]}}"


def number(value: float | None, decimals: int) -> str:
    """Return a number with fixed decimals and a true minus, so that a right-aligned column aligns the points."""
    if value is None or not math.isfinite(value):
        return MISSING
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "$-$")


def p_value(value: float | None) -> str:
    """Return a P value with three decimals, or that it is smaller."""
    if value is None or not math.isfinite(value):
        return MISSING
    return "$<$0.001" if value < 0.001 else f"{value:.3f}"

"""LaTeX tables in the manner of booktabs: numbers aligned, and no text from a model can become a command."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from toolkit.errors import InputError

_SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
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
    "−": "$-$",
    "×": r"$\times$",
    "÷": r"$\div$",
    "±": r"$\pm$",
    "°": r"$^{\circ}$",
    "µ": r"$\mu$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "α": r"$\alpha$",
    "§": r"\S{}",
    "£": r"\pounds{}",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "…": r"\dots{}",
}
_LETTERS: Final = "".join(chr(c) for c in range(0xC0, 0x100) if chr(c) not in "ÐðÞþ×÷")
"""Letters that pdflatex prints in every font encoding."""
_LIGATURE: Final = re.compile(r"(?<=[-',!?])(?=[-',`])")
MISSING: Final = "--"
"""What a cell shows when there is no number; never a zero."""


def escape(text: object) -> str:
    r"""Return text as LaTeX that prints it and does nothing else.

    Characters of control are dropped, white space becomes one space, and a character that pdflatex cannot
    print is named by its code point instead of stopping the thesis.

    Parameters
    ----------
    text
        Anything; its ``str`` is used.

    Returns
    -------
    str
        Safe in a cell, a caption or running text.

    Examples
    --------
    >>> print(escape("50% of $x_1 & \\input{/etc/passwd}"))
    50\% of \$x\_1 \& \textbackslash{}input\{/etc/passwd\}
    >>> escape("a\x00b \U0001f600")
    'ab {[}U+1F600{]}'
    """
    line = " ".join(unicodedata.normalize("NFC", str(text)).split())
    kept = "".join(c for c in line if unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    # "{}" inside keeps "--" two hyphens and "''" two apostrophes.
    return "{}".join("".join(_escape_one(c) for c in part) for part in _LIGATURE.split(kept))


def _escape_one(character: str) -> str:
    if character in _SPECIAL:
        return _SPECIAL[character]
    if " " <= character <= "~" or character in _LETTERS:
        return character
    return f"{{[}}U+{ord(character):04X}{{]}}"


def number(value: float | None, decimals: int) -> str:
    """Return a number with fixed decimals and a true minus, so that a right-aligned column aligns the points.

    Examples
    --------
    >>> number(-0.126, 2), number(None, 2), number(float("nan"), 2), number(-0.001, 2)
    ('$-$0.13', '--', '--', '0.00')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "$-$")


def interval(low: float | None, high: float | None, decimals: int) -> str:
    """Return an interval in brackets that a row may start with.

    Examples
    --------
    >>> interval(-0.1, 0.25, 2), interval(None, None, 2)
    ('{[}$-$0.10, 0.25{]}', '--')
    """
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return MISSING
    return f"{{[}}{number(low, decimals)}, {number(high, decimals)}{{]}}"


def p_value(value: float | None) -> str:
    """Return a P value with three decimals, or that it is smaller.

    Examples
    --------
    >>> p_value(0.0004), p_value(0.03), p_value(None)
    ('$<$0.001', '0.030', '--')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    return "$<$0.001" if value < 0.001 else f"{value:.3f}"


def latex_table(
    frame: pd.DataFrame,
    caption: str,
    label: str,
    columns: Mapping[str, str] | None = None,
    *,
    decimals: int | Mapping[str, int] = 2,
    p_values: tuple[str, ...] = (),
) -> str:
    r"""Return a frame as a floating LaTeX table that needs ``\usepackage{booktabs}`` only.

    Parameters
    ----------
    frame
        One row of the table a row. A tuple of two numbers is an interval, ``""`` an empty cell, and a missing
        value ``--``.
    caption
        Plain text; say n in it.
    label
        For ``\ref``: letters, digits, ``:``, ``-`` and ``.`` only.
    columns
        Which columns in which order, and the heading of each; all under their own names when not given.
    decimals
        Decimals of the floating numbers, for all columns or for each by name (2 where it is not named).
    p_values
        Columns that hold P values.

    Returns
    -------
    str
        The ``table`` environment, ended by a new line.

    Raises
    ------
    InputError
        When a column is not in the frame or the label holds another character.

    Examples
    --------
    >>> frame = pd.DataFrame({"bin": ["S", "M"], "mean": [2.5, -1.25]})
    >>> print(latex_table(frame, "Mean by bin (n = 2).", "tab:bins", {"bin": "Bin", "mean": "Mean"}))
    \begin{table}[htbp]
      \centering\footnotesize
      \caption{Mean by bin (n = 2).}
      \label{tab:bins}
      \begin{tabular}{lr}
        \toprule
        Bin & Mean \\
        \midrule
        S & 2.50 \\
        M & $-$1.25 \\
        \bottomrule
      \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    if not re.fullmatch(r"[A-Za-z0-9:.-]+", label):
        raise InputError(f"label {label!r} of a table: use letters, digits, ':', '-' and '.' only")
    heads = dict(columns) if columns is not None else {str(name): str(name) for name in frame.columns}
    unknown = [name for name in heads if name not in frame.columns]
    if unknown:
        raise InputError(
            f"column {unknown[0]!r} of table {label}: the frame has {', '.join(map(str, frame))}"
        )
    places = {n: decimals if isinstance(decimals, int) else decimals.get(n, 2) for n in heads}
    body = [
        [_cell(value, places[name], name in p_values) for name, value in zip(heads, row, strict=True)]
        for row in frame[list(heads)].astype(object).itertuples(index=False, name=None)
    ]
    aligned = "".join("r" if _is_numeric(frame[name]) else "l" for name in heads)
    lines = [
        r"\begin{table}[htbp]",
        r"  \centering\footnotesize",
        rf"  \caption{{{escape(caption)}}}",
        rf"  \label{{{label}}}",
        rf"  \begin{{tabular}}{{{aligned}}}",
        r"    \toprule",
        f"    {' & '.join(escape(head) for head in heads.values())} " + r"\\",
        r"    \midrule",
        *(f"    {' & '.join(cells)} " + r"\\" for cells in body),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _is_numeric(column: pd.Series) -> bool:
    told = [v for v in column.astype(object) if not _is_missing(v) and v != ""]
    return bool(told) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in told)


def _is_missing(value: Any) -> bool:
    return (
        value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))
    )


def _cell(value: Any, decimals: int, is_p: bool) -> str:
    if isinstance(value, tuple):
        return interval(value[0], value[1], decimals)
    if _is_missing(value):
        return MISSING
    if is_p and isinstance(value, float):
        return p_value(value)
    if isinstance(value, float):
        return number(value, decimals)
    return escape(value)

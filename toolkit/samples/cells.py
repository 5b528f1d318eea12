"""One cell of a CSV: safe in a spreadsheet, and the original text again when it is read back.

A cell that begins with one of ``= + - @``, a tab, a carriage return, a line feed, or the full-width forms of the four,
can become a formula when a spreadsheet opens the file; text in captures is chosen by strangers. Such a cell gets an
apostrophe in front. So does one that begins with an apostrophe, which makes taking it off again unambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_MARK: Final = "'"
_RISKY: Final = frozenset("=+-@\t\r\n＝＋－＠" + _MARK)
_QUOTED: Final = re.compile('["\r\n]').search
_AFTER_COMMA: Final = re.compile(f",[{re.escape(''.join(sorted(_RISKY)))}]").search


def guard(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return _MARK + text if text and text[0] in _RISKY else text


def unguard(text: str) -> str:
    """Return what ``guard`` was given."""
    return text[1:] if len(text) > 1 and text[0] == _MARK and text[1] in _RISKY else text


def csv_line(cells: Sequence[str], texts: Sequence[bool]) -> str:
    r"""Return one line of CSV (RFC 4180, but ``\n`` at the end)."""
    line = ",".join(cells)
    # Hardly a line needs more than this, and there are millions.
    if (
        line.count(",") == len(cells) - 1
        and line
        and not (line[0] in _RISKY or _QUOTED(line) or _AFTER_COMMA(line))
    ):
        return line + "\n"
    line = ",".join([_text(cell) if text else cell for cell, text in zip(cells, texts, strict=True)])
    return (line or '""') + "\n"


@lru_cache(maxsize=4096)  # flags and addresses come back for ever
def _text(text: str) -> str:
    cell = guard(text)
    return '"' + cell.replace('"', '""') + '"' if "," in cell or _QUOTED(cell) else cell

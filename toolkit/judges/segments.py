"""Cuts a reply into the segments that a judge reads one by one, each with its position in the text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["sentence", "list_item", "table_row", "code", "heading"]

UNDIVIDED = ("code", "heading", "table_row")
"""Kinds that are one segment however many sentences they hold."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


NEVER_FINAL = _set("e.g i.e cf vs viz ca approx resp incl excl dr mr mrs ms prof st messrs")
"""Abbreviations that no sentence ends with."""
BEFORE_NUMBERS = _set(
    "no nos nr fig figs sec art arts p pp para paras ch vol cl reg regs s ss app tab eq ver v rev pt"
    " jan feb mar apr jun jul aug sep sept oct nov dec"
)
"""Abbreviations only before a number; otherwise the word itself ends the sentence ("Is it safe? No.")."""
SOMETIMES_FINAL = _set("inc ltd co corp pty jr sr al dept gov")
"""Abbreviations that end a sentence at times, as initials ("J.", "U.S.") do: the next word decides."""
STARTERS = _set(
    "the this that these those there it its a an in on at if we you he she they i for from to as by with after"
    " before when while where however therefore then also no not all any each both some because since although"
    " once until use do check isolate review ensure confirm notify"
)
"""Words that, with a capital, begin a sentence rather than go on with a name."""

# Every quantifier is possessive or bounded and every pattern starts at a fixed position: the time is linear, also for
# hostile text.
_LINE = re.compile(
    r"(?<![^\r\n])(?=[^\r\n])(?:[ \t]*+>)*+[ \t]*+(?:"
    r"(?P<rule>[-*_=|:+ \t]++(?=[\r\n]|\Z))"
    r"|(?P<fence>`{3,}+(?=[^`\r\n]*+(?:[\r\n]|\Z))|~{3,}+)"
    r"|(?P<heading>\#{1,6}+(?=[ \t])|\*\*(?=[^*\r\n]++(?<![.!?。！？])\*\*[:：]?[ \t]*+(?:[\r\n]|\Z)))"
    r"|(?P<item>(?:[-*+•◦▪‣–]|(?:\*\*)?\(?\d{1,3}[.)](?:\*\*)?|\(?[A-Za-z]\))(?=[ \t]))"
    r"|(?P<row>\|)"
    r"|(?P<plain>[^ \t\r\n])?)[^\r\n]*+"
)
_BREAKS = ("\n", "\r", "\r\n")
# `re` finds one set three times as fast as alternatives; the look-behind keeps a match from starting inside a run of
# stops.
_STOP = re.compile(
    r"[.!?…؟।۔。！？｡](?:(?<=[.!?…؟।۔])(?<![.!?…؟।۔]{2})[.!?…؟।۔]*+[\"'”’»)\]*_`]*+(?=\s|\Z)"
    r"|(?<=[。！？｡])[。！？｡]*+[」』”’）)\"'*]*+)"
)
_NEXT = re.compile(r"\s*+[\"'“‘«(\[*_]{0,4}+(\S{0,40})")
_IDENTIFIER = re.compile(r"[_/\\@\d]|\w\.\w\w")
_ENUMERATOR = re.compile(r"[\s*_(>]*(?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,4})")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_TICKS = re.compile(r"`++")
_MEANING = re.compile(r"[^\W_]|[\u2190-\u24ff\u25a0-\U0010ffff]")
"""A letter, a digit or a symbol such as an emoji; a piece without one is markup and no segment."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece of a text."""

    start: int
    end: int
    kind: Kind

    def of(self, text: str) -> str:
        """Return the text of the segment."""
        return text[self.start : self.end]


def segments(text: str) -> tuple[Segment, ...]:
    r"""Cut a reply into sentences, list items, table rows, fenced code and headings, in the order they stand.

    Every letter and digit of the text is in exactly one segment; what is left out is white space and markup that
    means nothing by itself (rules, the line under a table's head, quote marks of a block). A list item or a
    paragraph of several sentences is as many segments of its kind. A fence that is never closed reaches to the
    end, as in Markdown. The time taken grows with the length of the text and with nothing else.

    Examples
    --------
    >>> text = "Block 10.0.0.1, e.g. at the proxy. Then:\n1. **Isolate** it"
    >>> [(piece.kind, piece.of(text)) for piece in segments(text)]
    [('sentence', 'Block 10.0.0.1, e.g. at the proxy.'), ('sentence', 'Then:'), ('list_item', '1. **Isolate** it')]
    """
    pieces: list[Segment] = []
    for start, end, kind in blocks(text):
        # Most lines of a list have no stop inside, and a search for one is cheap.
        undivided = kind in UNDIVIDED or not _STOP.search(text, start, end)
        for stop in (end,) if undivided else _stops(text, start, end):
            if _MEANING.search(text, start, stop):
                piece = text[start:stop]
                at = stop - len(piece.lstrip())
                pieces.append(Segment(at, start + len(piece.rstrip()), kind))
            start = stop
    return tuple(pieces)


def blocks(text: str) -> Iterator[tuple[int, int, Kind]]:
    """Yield the paragraphs, items, rows, headings and code blocks of a text; only markup is between them."""
    fence, fence_start = "", 0  # the open fence, if any
    start = end = -1  # the open paragraph or item, if any
    kind: Kind = "sentence"
    last_line = -1  # where the last line of the open paragraph starts
    previous, table = 0, False
    for line in _LINE.finditer(text):
        name, line_end = line.lastgroup, line.end()
        line_start = line.start(name) if name else line_end
        if fence:
            marks = line["fence"]
            if marks and marks.startswith(fence) and not text[line.end("fence") : line_end].strip():
                yield fence_start, line_end, "code"
                fence = ""
            previous = line_end
            continue
        # Two line ends, a line of white space or a hard line break of Markdown (two spaces) end a paragraph.
        gap = text[previous : line.start()]
        parted = gap not in _BREAKS or text[max(previous - 2, 0) : previous] == "  "
        previous = line_end
        under_head = name == "rule" and "|" in line[0] and "-" in line[0]
        if under_head and start >= 0 and not parted and "|" in text[last_line:end]:
            if last_line > start:
                yield start, last_line, kind
            yield last_line, end, "table_row"
            start, table = -1, True
            continue
        table = (table or under_head) and not parted and "|" in line[0]
        if name == "plain" and start >= 0 and not parted and not table:
            end, last_line = line_end, line_start
            continue
        if start >= 0:
            yield start, end, kind
            start = -1
        if name == "fence":
            fence, fence_start = line["fence"], line_start
        elif name == "heading":
            yield line_start, line_end, "heading"
        elif name == "row" or (name == "plain" and table):
            yield line_start, line_end, "table_row"
        elif name in ("item", "plain"):
            start, end, last_line = line_start, line_end, line_start
            kind = "list_item" if name == "item" else "sentence"
    if start >= 0:
        yield start, end, kind
    if fence:
        yield fence_start, len(text), "code"


def _stops(text: str, start: int, end: int) -> list[int]:
    ends: list[int] = []
    codes = iter(_code_spans(text, start, end) if text.find("`", start, end) >= 0 else ())
    code = next(codes, None)
    for stop in _STOP.finditer(text, start, end):
        at = stop.start()
        while code is not None and code[1] <= at:
            code = next(codes, None)
        in_code = code is not None and code[0] <= at
        if not in_code and _ends_sentence(text, ends[-1] if ends else start, stop, end):
            ends.append(stop.end())
    return [*ends, end]


def _ends_sentence(text: str, first: int, stop: re.Match[str], end: int) -> bool:
    at = stop.start()
    mark = text[at]
    if mark in "。！？｡":
        return True
    following = _NEXT.match(text, stop.end(), end)
    word = following[1] if following else ""
    if not word:
        return True
    # "... he asked" goes on; "... svc_backup ran it" does not, because identifiers have no capital.
    if word[0].islower() and not _IDENTIFIER.search(word.rstrip(".,;:!?)")):
        return False
    if mark != "." or text[at + 1 : at + 2] in (".", "!", "?"):
        return True
    if at - first < 12 and _ENUMERATOR.fullmatch(text, first, at):
        return False
    return not _abbreviates(text[max(first, at - 16) : at], word)


def _abbreviates(before: str, word: str) -> bool:
    """Return whether the stop after ``before`` belongs to an abbreviation that goes on with ``word``."""
    if not before or before[-1].isspace():
        return False
    token = before.split()[-1].lstrip("([\"'“‘*_`").lower()
    if token in NEVER_FINAL:
        return True
    if token in BEFORE_NUMBERS:
        return word[0].isdigit()
    if token in SOMETIMES_FINAL or (token[1:2] in ("", ".") and _INITIALS.fullmatch(token)):
        return word.rstrip(".,;:!?)'’").lower() not in STARTERS
    return False


def _code_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of inline code: from a run of backticks to the next run of the same length."""
    runs = [run.span() for run in _TICKS.finditer(text, start, end)]
    closes: dict[int, int] = {}  # by length, the nearest run to the right
    partner = [-1] * len(runs)
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        partner[number] = closes.get(length, -1)
        closes[length] = number
    number = 0
    while number < len(runs):
        closing = partner[number]
        if closing >= 0:
            yield runs[number][0], runs[closing][1]
        number = max(closing, number) + 1

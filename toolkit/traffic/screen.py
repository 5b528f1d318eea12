"""Flag the names and numbers of a free-text answer that a sample refutes; a flag is no verdict.

Nothing is accepted because the sample has that value somewhere: a name or number is bound to what it is said of (the
packet, or the noun of a count, beside it), refuted, or not checked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from csv import reader
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote_plus

from toolkit.traffic.measures import Table
from toolkit.traffic.mentions import (
    METHODS,
    WORDS,
    Mention,
    Number,
    canonical_address,
    numbers,
    numbers_in,
    patterns,
    refanged,
    scan,
)
from toolkit.traffic.sample import CUT

if TYPE_CHECKING:
    import pandas as pd

State = Literal["refuted", "bound", "not checked"]
_EXCUSES: Final = patterns("excuses")
_SCREEN: Final = patterns("screen")
_BEFORE: Final = patterns("before", r"(?i)(?<![A-Za-z])(?:{})[\s\"'`*\[:=]*$")
_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    **{name: (name,) for name in ("method", "status", "stream", "host", "protocol")},
    **{"packet": ("number",), "path": ("uri",), "parameter": ("uri",), "type": ("content_type",)},
    **{"agent": ("user_agent",), "product": ("user_agent",), "address": ("source", "destination")},
    **{"size": ("length", "payload_length"), "port": ("source_port", "destination_port", "host")},
}
"""Columns in which a kind of name or number stands."""
_NOUN_KIND: Final = {
    **dict.fromkeys(("connection", "flow", "session", "conversation"), "stream"),
    **dict.fromkeys(("ip", "client", "server", "machine", "device"), "address"),
    **dict.fromkeys(("page", "resource", "file", "endpoint", "uri", "url"), "path"),
    **{"hostname": "host", "domain": "host", "code": "status", "statu": "status"},
}
_NOUNS: Final = WORDS["rows"] | WORDS["requests"] | WORDS["responses"] | WORDS["values"]
_PLAIN: Final = {"http", "different", "distinct", "unique", "total", "the"}


@dataclass(frozen=True)
class Facts:
    """The facts of one sample; two objects of the same sample are equal."""

    sample: str
    csv: str = field(repr=False)
    frame: pd.DataFrame = field(repr=False, compare=False)

    @cached_property
    def text(self) -> str:
        """The CSV in lower case, and again with URL encoding removed, for names that are no whole cell."""
        text = self.csv
        if self.cut:
            rows = reader(text.splitlines())
            text = "\n".join(",".join("" if cell.endswith(CUT) else cell for cell in row) for row in rows)
        return f"{text}\n{unquote_plus(text)}".lower()

    @cached_property
    def cut(self) -> frozenset[str]:
        """Columns with values that the capture has cut off."""
        return frozenset(name for name, cells in self.table.cells.items() if any(map(_is_cut, cells)))

    @cached_property
    def table(self) -> Table:
        """The rows with their pairs of requests and responses."""
        return Table(self.frame)

    @cached_property
    def rows(self) -> dict[str, dict[str, frozenset[int]]]:
        """By kind, the rows of each value in the form that answers name it."""
        result: dict[str, dict[str, frozenset[int]]] = {}
        for kind, columns in _COLUMNS.items():
            rows: dict[str, set[int]] = {}
            for column in columns:
                for row, cell in enumerate(self.table.cells.get(column, ()) if column in self.frame else ()):
                    for value in () if cell is None or _is_cut(cell) else _forms(kind, cell):
                        rows.setdefault(value, set()).add(row)
            result[kind] = {value: frozenset(indices) for value, indices in rows.items()}
        return result

    @cached_property
    def with_value(self) -> dict[str, frozenset[int]]:
        """By kind, the rows that have a value."""
        return {kind: frozenset[int]().union(*rows.values()) for kind, rows in self.rows.items()}

    def partners(self, rows: frozenset[int]) -> frozenset[int]:
        """Return the requests of responses, and the responses of requests."""
        return frozenset(self.table.partner[row] for row in rows if row in self.table.partner)

    @cached_property
    def most(self) -> dict[str, float]:
        """Largest time in seconds, all bytes, and the largest number that a cell or a sum of bytes has."""
        numeric = self.frame.select_dtypes("number").astype(float)
        sizes = numeric.reindex(columns=list(_COLUMNS["size"])).sum()
        most = {"number": numeric.max().max(), "size": sizes.max()}
        most |= {"time": numeric["time"].max()} if "time" in numeric else {}
        most["number"] = max(most["number"], most["size"], float(len(self.frame)))
        return {kind: float(value) for kind, value in most.items() if value > 0}


def _is_cut(cell: Any) -> bool:
    return isinstance(cell, str) and cell.endswith(CUT)


def _forms(kind: str, cell: Any) -> tuple[str, ...]:
    """Return the forms in which answers name a cell."""
    if kind == "path":
        return decoded_path(cell), decoded_path(cell).split("?")[0]
    if kind == "host":
        return (re.sub(r":\d+$", "", cell.lower()),)
    if kind == "port" and isinstance(cell, str):  # of a host
        return tuple(re.findall(r":(\d{1,5})$", cell))
    if kind == "protocol":
        return tuple(cell.lower().split("/"))
    return (canonical_address(str(cell)),)


def decoded_path(path: str) -> str:
    """Return a path, or a whole address of the web, as its path and query, decoded, in small letters."""
    path = re.sub(r"^https?://[^/]*", "", path, flags=re.IGNORECASE)
    return unquote_plus(path).lower().rstrip("/") or "/"


@dataclass(frozen=True)
class Flag:
    """One name or number of an answer: refuted, bound to what it is said of and true there, or not checked."""

    kind: str
    text: str
    position: int
    state: State


_Spans = dict[tuple[int, int], tuple[str, State]]


def screen(answer: str, facts: Facts, question: str = "") -> tuple[Flag, ...]:
    """Return the names and numbers of an answer with what the sample says of each.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"host": ["shop.example", None], "status": [pd.NA, 200]})
    >>> facts = Facts("tiny", frame.to_csv(), frame)
    >>> answer = "There are 2 packets, one of them for evil.example and 2 of others."
    >>> [(flag.kind, flag.text, flag.state) for flag in screen(answer, facts)]
    [('count', '2', 'bound'), ('host', 'evil.example', 'refuted'), ('number', '2', 'not checked')]
    """
    text, positions = refanged(answer)
    text = text.replace("’", "'")
    named, bare = scan(text)
    spans: _Spans = {}
    for kind, start, end, lacking in (*_names(named, facts), *_words(bare, facts)):
        cut = not facts.cut.isdisjoint(_COLUMNS.get(kind, ()))
        spans[start, end] = (kind, "refuted" if lacking and not cut else "not checked")
    for number, kind, state in _numbered(bare, facts, question):
        spans[number.start, number.end] = (kind, state)
    prompt_names = {(mention.kind, mention.value) for mention in scan(refanged(question)[0])[0]}
    prompt_numbers = {value for number in numbers(question) for value in number.values}
    repeated = {(m.start, m.end) for m in named if (m.kind, m.value) in prompt_names}
    repeated |= {(n.start, n.end) for n in numbers_in(bare) if set(n.values) & prompt_numbers}
    for (start, end), (kind, state) in spans.items():
        if state == "refuted" and ((start, end) in repeated or _excused(text, start, end)):
            spans[start, end] = (kind, "not checked")
    spans |= _of_packets(bare, named, facts)
    return tuple(
        Flag(kind, answer[positions[start] : positions[end]], positions[start], state)
        for (start, end), (kind, state) in sorted(spans.items())
    )


def _excused(text: str, start: int, end: int) -> bool:
    """Say whether the words around a name or number deny it, suppose it, or say what is usual."""
    before = _EXCUSES["idioms"].sub(lambda m: " " * len(m[0]), text[max(0, start - 200) : start])
    cuts = [cut.end() for cut in _EXCUSES["clause_end"].finditer(before)]
    clause = before[cuts[-1] :] if cuts else before
    return bool(_EXCUSES["before"].search(clause) or _EXCUSES["after"].match(text[end : end + 90]))


# --- names ------------------------------------------------------------------------------------------------------------


def _names(named: Sequence[Mention], facts: Facts) -> Iterator[tuple[str, int, int, bool]]:
    """Yield every name with whether the sample lacks it; networks and statements of SQL may be said in many ways."""
    for m in named:
        if m.value != "/" and not _SCREEN["no_claim"].match(m.value):
            yield m.kind, m.start, m.end, m.kind not in ("network", "sql") and not _has(m, facts)


def _has(m: Mention, facts: Facts) -> bool:
    if m.kind != "path":
        return m.value in facts.rows.get(m.kind, ()) or (m.kind != "port" and _stands_in(m.value, facts.text))
    path, paths = decoded_path(m.value), facts.rows["path"]
    # A folder, the beginning of a query string, or a path that is marked as incomplete.
    start = path + ("" if m.open_end or "?" in path else "/")
    return path in paths or any(p.startswith(start) for p in paths) or _stands_in(m.value, facts.text)


@lru_cache(maxsize=4096)  # replies repeat themselves
def _stands_in(value: str, text: str) -> bool:
    return bool(re.search(rf"(?<![\w.-]){re.escape(value.lower())}(?![\w-]|\.\w)", text))


def _words(bare: str, facts: Facts) -> Iterator[tuple[str, int, int, bool]]:
    """Yield programs, protocols and methods, which are claims only if the table has their column."""
    for kind in ("agent", "protocol", "method"):
        for match in _SCREEN[kind].finditer(bare) if _COLUMNS[kind][0] in facts.frame else ():
            word = match[0].lower()
            absent = kind == "protocol" or word.rstrip("s") not in facts.text
            yield kind, match.start(), match.end(), absent and word not in facts.rows[kind]


# --- numbers ----------------------------------------------------------------------------------------------------------


def _numbered(bare: str, facts: Facts, question: str) -> Iterator[tuple[Number, str, State]]:
    """Yield the numbers of an answer with their kind and state; what is no claim is left out."""
    last_end, last_kind = 0, ""
    elliptic = bool(re.search(r"(?i)\bhow many\b|\bnumber of\b", question))
    for number in numbers_in(bare):
        kind = _number_kind(number, bare)
        if kind == "number" and _SCREEN["listed"].fullmatch(bare[last_end : number.start]):
            kind = last_kind if last_kind in ("packet", "stream", "port", "status") else kind
        last_end, last_kind = number.end, kind
        count_state = _count_state(number, bare, facts, elliptic) if kind == "number" else None
        if count_state:
            yield number, "count", count_state
        elif kind not in ("", "skip"):
            values = [value for value in number.values if not math.isnan(value)]
            lacking = bool(values) and all(_outside(kind, value, facts) for value in values)
            yield number, kind, "refuted" if lacking else "not checked"


def _number_kind(number: Number, bare: str) -> str:
    """Return the kind of a number from its unit, its neighbours and the words before it; empty for no claim."""
    before, after = bare[max(0, number.start - 60) : number.start], bare[number.end : number.end + 40]
    before, unit = re.split(r"[\n;|]|[.!?]\s", before)[-1], number.unit.lower()
    if _SCREEN["rate"].match(after):
        return ""
    if unit == "%" or re.match(r"(?i)\s*(?:%|per ?cent)", after):
        return "share"
    if _SCREEN["time"].fullmatch(unit):
        return "time"
    if _SCREEN["size"].fullmatch(unit) or re.match(r"(?i)[\s-]bytes?\b", after):
        return "size"
    if _SCREEN["operator_before"].search(before) or _SCREEN["operator_after"].match(after):
        return ""  # a part of a calculation, or of a range
    if not number.written.is_integer() or "." in number.text:
        return "number" if number.unit else ""
    digits = number.text[0].isdigit()
    code = number.text.isdigit() and 100 <= number.written <= 599
    if re.match(r"(?i)\s*/\s*(?:tcp|udp)\b", after):
        return "port"
    if code and _SCREEN["reason_phrase"].match(after):
        return "status"
    kinds = (kind for kind, pattern in _BEFORE.items() if digits and pattern.search(before))
    return next((kind for kind in kinds if kind != "status" or code), "number")


def _outside(kind: str, value: float, facts: Facts) -> bool:
    """Say whether a value is outside of all that the sample has of its kind; a missing column refutes nothing."""
    if kind == "share":
        return not 0 <= value <= 100
    if kind in ("packet", "stream", "status", "port"):
        return bool(facts.rows[kind]) and f"{value:.15g}" not in facts.rows[kind]
    return kind in facts.most and abs(value) > 1.1 * facts.most[kind]  # rounded


def _count_state(number: Number, bare: str, facts: Facts, elliptic: bool) -> State | None:
    """Return whether a count is that of the rows its noun selects; None where no noun follows that can be counted.

    Where other words of the clause may restrict the noun, or the words of the question (``elliptic``), only a larger
    count is refuted.
    """
    noun = _noun(_SCREEN["phrase_end"].split(bare[number.end : number.end + 90])[0], facts)
    if noun is None:
        return None
    count, exact, length = noun
    if math.isnan(number.written) or facts.cut:
        return "not checked"
    begin, end = _clause(bare, number.start, number.end + length)
    words = re.findall(r"[^\W\d_]+|\d+|\0", f"{bare[begin : number.start]} {bare[number.end + length : end]}")
    exact &= not elliptic and "(" not in (bare[begin - 1 : begin], bare[end : end + 1])
    exact &= any(_SCREEN["anchor"].fullmatch(word) for word in words)
    if exact and all(_SCREEN["neutral"].fullmatch(word) for word in words):
        return "bound" if count in number.readings else "refuted"
    slack = 1.1 if _SCREEN["approximate"].search(bare[max(0, number.start - 16) : number.start]) else 1.0
    return "refuted" if min(number.readings) > slack * count else "not checked"


def _noun(phrase: str, facts: Facts) -> tuple[int, bool, int] | None:
    """Return how many a noun phrase selects, whether each of its words is understood, and its length."""
    base, exact, filtered = frozenset(range(facts.table.size)), True, 0
    tokens = [] if "'s " in phrase else list(re.finditer(r"[A-Za-z0-9.-]+", phrase))[:5]
    for token, following in zip_longest(tokens, tokens[1:]):
        stem, later = token[0].lower().strip(".-"), following[0].lower().rstrip("s") if following else ""
        singular = stem[:-1] if stem.endswith("s") and not stem.endswith("ss") else stem
        verb = min({stem.upper(), singular.upper()} & {*METHODS}, default="")
        if verb or re.fullmatch(r"[1-5]\d\ds?", stem):
            kind, value = ("method", verb.lower()) if verb else ("status", singular)
            if kind not in facts.frame:
                return None
            rows = facts.rows[kind].get(value, frozenset())
            paired = later in (WORDS["responses"] if verb else WORDS["requests"])
            base, filtered = base & (facts.partners(rows) if paired else rows), token.end()
        elif {stem, singular} & (WORDS["requests"] | WORDS["responses"]) and later != "code":
            kind = "method" if {stem, singular} & WORDS["requests"] else "status"
            return (len(base & facts.with_value[kind]), exact, token.end()) if kind in facts.frame else None
        elif singular in WORDS["rows"]:
            return len(base), exact, token.end()
        elif singular in WORDS["values"] and later not in _NOUNS:
            count = len(facts.rows.get(_NOUN_KIND.get(singular, singular), ()))
            return (count, exact, token.end()) if count else None
        elif stem not in _PLAIN or (stem == "http" and later in WORDS["rows"]):
            exact = False  # another word, or a layer of many packets, or a cell of the column protocol
    return (len(base), exact, filtered) if filtered else None


# --- values of a packet -----------------------------------------------------------------------------------------------


def _of_packets(bare: str, named: Sequence[Mention], facts: Facts) -> _Spans:
    """Return the values that a clause names with one packet: bound where it or its request or response has them."""
    spans: _Spans = {}
    for match in _SCREEN["packet"].finditer(bare) if "number" in facts.frame and not facts.cut else ():
        itself = facts.rows["packet"].get(match["number"].lstrip("0"))
        begin, stop = _clause(bare, *match.span("number"))
        if bare[begin - 1 : begin] == "(":  # "/admin (packet 26)": the bracket refers to the words before it
            begin = _clause(bare, begin - 1, stop)[0]
        if not itself or len(_SCREEN["packet"].findall(bare[begin:stop])) != 1:
            continue
        exchange = itself | facts.partners(itself)
        for kind, value, start, end in _values(bare, begin, stop, named, match.span("number")):
            rows, basis = facts.rows[kind].get(value), itself if kind == "size" else exchange
            # A value of the packet in brackets behind it, or where a response leads to.
            redirected = kind == "path" and "redirect" in bare[begin:stop]
            elsewhere = redirected or _SCREEN["bracket_next"].match(bare, end)
            differs = (rows or kind == "size") and facts.with_value[kind] & basis
            if rows and rows & basis:
                spans[start, end] = (kind, "bound")
            elif differs and not elsewhere and not _excused(bare, start, end):
                spans[start, end] = (kind, "refuted")
    return spans


def _values(
    bare: str, begin: int, stop: int, named: Sequence[Mention], itself: tuple[int, int]
) -> Iterator[tuple[str, str, int, int]]:
    """Yield the values in a clause: method, status, path, host, address and size."""
    for mention in named:
        if begin <= mention.start < stop and mention.kind in ("path", "host", "address"):
            value = decoded_path(mention.value) if mention.kind == "path" else mention.value
            yield mention.kind, value, mention.start, mention.end
    for verb in _SCREEN["method"].finditer(bare, begin, stop):
        yield "method", verb[0].lower(), verb.start(), verb.end()
    for number in numbers_in(bare[begin:stop]):
        start, end, kind = number.start + begin, number.end + begin, _number_kind(number, bare[begin:stop])
        if (start, end) != itself and number.written.is_integer():
            if kind == "size" and number.unit.lower() in ("byte", "bytes", "b"):
                yield "size", f"{number.written:.0f}", start, end
            elif kind in ("number", "status") and number.text.isdigit():
                yield "status", number.text, start, end


def _clause(bare: str, start: int, end: int) -> tuple[int, int]:
    """Return where the clause around a position begins and ends."""
    first, last = max(0, start - 160), min(len(bare), end + 160)
    cuts = (cut.end() for cut in _SCREEN["segment_end"].finditer(bare, first, start))
    after = _SCREEN["segment_end"].search(bare, end, last)
    return max(cuts, default=first), after.start() if after else last

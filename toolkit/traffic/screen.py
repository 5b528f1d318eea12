"""Flag the names and numbers of a free-text answer that a sample refutes; a flag is no verdict.

Nothing is accepted because the sample has that value somewhere: a name or number is bound to what it is said of (the
packet, or the filter of a count, beside it), refuted, or not checked.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, Literal

from toolkit.traffic.mentions import METHODS, WORDS, Mention, Number, numbers, numbers_in, patterns, refanged, scan
from toolkit.traffic.sample import Facts, decoded_path

State = Literal["refuted", "bound", "not checked"]
_EXCUSES: Final = patterns("excuses")
_SCREEN: Final = patterns("screen")
_BEFORE: Final = patterns("before", r"(?i)(?<![A-Za-z])(?:{})[\s\"'`*\[:=]*$")
_LOOKED_UP: Final = {"agent": "user_agent", "protocol": "protocol", "method": "method"}
_NOUN_COLUMN: Final = {
    **dict.fromkeys(("connection", "flow", "session", "conversation"), "stream"),
    **dict.fromkeys(("ip", "client", "server", "machine", "device"), "address"),
    **dict.fromkeys(("page", "resource", "file", "endpoint"), "path"),
    **{"hostname": "host", "domain": "host", "code": "status", "statu": "status"},
    **{"url": "uri", "agent": "user_agent", "type": "content_type"},
}
_PAIRED: Final = {"status": "replied", "method": "asked method", "path": "asked path"}
"""Rows of a request by its response, and of a response by its request."""
_NOUNS: Final = WORDS["rows"] | WORDS["requests"] | WORDS["responses"] | WORDS["values"]
_NEUTRAL: Final = {"http", "different", "distinct", "unique", "total", "the"}


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
    >>> from toolkit.traffic.sample import Facts
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
        spans[start, end] = (kind, "refuted" if lacking else "not checked")
    for number, kind, state in _numbered(bare, facts, question):
        spans[number.start, number.end] = (kind, state)
    asked_names = {(mention.kind, mention.value) for mention in scan(refanged(question)[0])[0]}
    asked_numbers = {value for number in numbers(question) for value in number.values}
    repeated = {(m.start, m.end) for m in named if (m.kind, m.value) in asked_names}
    repeated |= {(n.start, n.end) for n in numbers_in(bare) if set(n.values) & asked_numbers}
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
    """Yield every unambiguous name with whether the sample lacks it."""
    for m in named:
        if m.value != "/" and not _SCREEN["no_claim"].match(m.value):
            lacking = not _has(m, facts) and not facts.may_go_on(m.kind, m.value)
            yield "address" if m.kind == "network" else m.kind, m.start, m.end, lacking


def _has(m: Mention, facts: Facts) -> bool:
    if m.kind == "port":
        return int(m.value) in facts.ports
    if m.kind == "network":
        try:
            network = ipaddress.ip_network(m.value, strict=False)
            return any(ipaddress.ip_address(a) in network for a in facts.addresses if ":" in a or "." in a)
        except ValueError:
            return True
    if m.kind == "path":
        path = decoded_path(m.value)
        # A folder, the beginning of a query string, or a path that is marked as incomplete.
        start = path + ("" if m.open_end or "?" in path else "/")
        same = any(path in (stored, stored.split("?")[0]) for stored in facts.paths)
        return same or any(stored.startswith(start) for stored in facts.paths) or _stands_in(m.value, facts.text)
    if m.kind == "parameter":
        name, content = m.value.split("=", 1)
        content = content.strip("\"'").rstrip(".:")
        if f"{name}=" not in facts.text:
            return len(name) < 3 or _stands_in(content, facts.text)
        return bool(re.search(rf"(?<!\w){re.escape(f'{name}={content}')}(?!\d)", facts.text))
    if m.kind == "sql":
        return re.sub(r"\s*,\s*", ",", m.value) in facts.text
    return m.value in {"address": facts.addresses, "host": facts.hosts}.get(m.kind, ()) or _stands_in(
        m.value, facts.text
    )


def _stands_in(value: str, text: str) -> bool:
    return bool(re.search(rf"(?<![\w.-]){re.escape(value.lower())}(?![\w-]|\.\w)", text))


def _words(bare: str, facts: Facts) -> Iterator[tuple[str, int, int, bool]]:
    """Yield programs, protocols and methods, which are claims only if the table has their column."""
    for kind, column in _LOOKED_UP.items():
        for match in _SCREEN[kind].finditer(bare) if column in facts.frame else ():
            word = match[0].lower()
            if kind == "protocol":
                lacking = word not in facts.masks["layer"]
            else:
                lacking = word not in facts.text and word.rstrip("s") not in facts.text
            yield kind, match.start(), match.end(), lacking and not facts.may_go_on(kind, word)


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
    """Return the kind of a number from its unit, its neighbours and the words before it."""
    before, after = bare[max(0, number.start - 60) : number.start], bare[number.end : number.end + 40]
    before, unit = re.split(r"[\n;|]|[.!?]\s", before)[-1], number.unit.lower()
    if re.match(r"(?i)[\s\w]{0,14}?(?:/\s?s\b|\bper\b|ps\b)", after):
        return ""  # a rate
    if unit == "%" or re.match(r"(?i)\s*(?:%|per ?cent)", after):
        return "share"
    for kind in ("time", "size"):
        if _SCREEN[kind].fullmatch(unit) and not (unit == "b" and after[:1] != "B"):
            return kind
    if re.match(r"(?i)[\s-]bytes?\b", after):
        return "size"
    if re.search(r"(?:[-–+×÷]|(?<![A-Za-z])/|\d\s?\*)\s?$", before) or re.match(r"\s?[-–+×*÷]\s?\d|\s?=", after):
        return ""  # a part of a calculation, or of a range
    if not (math.isfinite(number.written) and number.written.is_integer()) or "." in number.text:
        return "number" if number.unit else ""
    if re.match(r"(?i)\s*/\s*(?:tcp|udp)\b", after):
        return "port"
    code = number.text.isdigit() and 100 <= number.written <= 599
    if code and re.match(r"(?i)s\b|[\"'`*)]*\s*\(?(?:OK|(?:Not )?Found|Moved|Forbidden|Unauthori[sz]ed|responses?)\b", after):
        return "status"
    return _before_kind(number, before)


def _before_kind(number: Number, before: str) -> str:
    code = number.text.isdigit() and 100 <= number.written <= 599
    for kind, pattern in _BEFORE.items() if number.text[0].isdigit() else ():
        if pattern.search(before) and (kind != "status" or code):
            return kind
    return "number"


def _outside(kind: str, value: float, facts: Facts) -> bool:
    """Say whether a value is outside of all that the sample has of its kind; columns that are missing refute nothing."""
    whole = str(int(value)) if value.is_integer() else ""
    if kind == "share":
        return not 0 <= value <= 100
    if kind in ("packet", "stream"):
        column = "number" if kind == "packet" else kind
        return column in facts.frame and whole not in facts.values(column)
    if kind == "status":
        return kind in facts.frame and int(value) not in facts.statuses
    if kind == "port":
        return bool(facts.ports) and int(value) not in facts.ports
    most = facts.most.get(kind)
    return most is not None and abs(value) > 1.01 * most


# --- counts: of the rows of a filter ----------------------------------------------------------------------------------


def _count_state(number: Number, bare: str, facts: Facts, elliptic: bool) -> State | None:
    """Return whether a count is that of the rows its noun selects; None where no noun follows that can be counted.

    Where other words of the clause may restrict the noun, or the words of the question (``elliptic``), only a larger
    count is refuted.
    """
    phrase = _SCREEN["phrase_end"].split(bare[number.end : number.end + 90])[0]
    noun = _noun(phrase, facts)
    if noun is None:
        return None
    rows, exact, length = noun
    exact &= not elliptic
    values = {value for value in number.readings if not math.isnan(value)}
    if not values or facts.cut:
        return "not checked"
    start, end = number.end + length, number.end + length + 160
    cut = _SCREEN["segment_end"].search(bare, start, end)
    cuts = _SCREEN["segment_end"].finditer(bare, max(0, number.start - 160), number.start)
    begin = max((cut.end() for cut in cuts), default=max(0, number.start - 160))
    clause = f"{bare[begin : number.start]} {bare[start : cut.start() if cut else end]}"
    words = re.findall(r"[^\W\d_]+|\d+|\0", clause)
    bracketed = bare[begin - 1 : begin] == "(" or (cut and cut[0] == "(")
    exact &= not bracketed and any(_SCREEN["anchor"].fullmatch(word) for word in words)
    if exact and all(_SCREEN["neutral"].fullmatch(word) for word in words):
        return "bound" if rows.bit_count() in values else "refuted"
    return "refuted" if min(values) > rows.bit_count() else "not checked"


def _noun(phrase: str, facts: Facts) -> tuple[int, bool, int] | None:
    """Return the rows that a noun phrase selects, whether each of its words is understood, and its length."""
    base, exact, filtered = facts.all_rows, True, 0
    tokens = [] if "'s " in phrase else list(re.finditer(r"[A-Za-z0-9.-]+", phrase))[:5]
    for token, following in zip_longest(tokens, tokens[1:]):
        stem, later = token[0].lower().strip(".-"), following[0].lower().rstrip("s") if following else ""
        singular = stem[:-1] if stem.endswith("s") and not stem.endswith("ss") else stem
        verbs = {stem.upper(), singular.upper()} & {*METHODS}
        column = "method" if {stem, singular} & WORDS["requests"] else "status"
        if verbs or re.fullmatch(r"[1-5]\d\ds?", stem):
            name, value = ("method", verbs.pop()) if verbs else ("status", stem.rstrip("s"))
            if name not in facts.frame:
                return None
            paired = later in (WORDS["responses"] if name == "method" else WORDS["requests"])
            base &= facts.rows(_PAIRED[name] if paired else name, value)
            filtered = token.end()
        elif column == "method" or ({stem, singular} & WORDS["responses"] and later != "code"):
            return (base & facts.rows_with(column), exact, token.end()) if column in facts.frame else None
        elif singular in WORDS["rows"]:
            return base, exact, token.end()
        elif singular in WORDS["values"] and later not in _NOUNS:
            rows = facts.first_rows(_NOUN_COLUMN.get(singular, singular))
            return (rows, exact, token.end()) if rows else None
        elif stem not in _NEUTRAL or (stem == "http" and later in WORDS["rows"]):
            exact = False  # another word, or a layer of many packets, or a cell of the column protocol
    return (base, exact, filtered) if filtered else None


# --- values of a packet -----------------------------------------------------------------------------------------------


def _of_packets(bare: str, named: Sequence[Mention], facts: Facts) -> _Spans:
    """Return the values that a clause names together with one packet: bound where its row or exchange has them."""
    spans: _Spans = {}
    for match in _SCREEN["packet"].finditer(bare) if "number" in facts.frame and not facts.cut else ():
        packet = match["number"].lstrip("0") or "0"
        if packet not in facts.values("number"):
            continue
        begin, stop = _around(bare, *match.span("number"))
        if len(_SCREEN["packet"].findall(bare[begin:stop])) != 1:
            continue
        itself = facts.rows("number", packet)
        paired, near = facts.exchange(packet)
        for kind, value, start, end in _values(bare, begin, stop, named, match.span("number")):
            columns = ("length", "payload_length") if kind == "size" else (kind, _PAIRED.get(kind, ""))
            rows = facts.rows(columns[0], value) | facts.rows(columns[1], value)
            bound = rows & (itself if kind == "size" else itself | paired)
            if bound or ((rows or kind == "size") and not (rows & near or _excused(bare, start, end))):
                spans[start, end] = (kind, "bound" if bound else "refuted")
    return spans


def _values(
    bare: str, begin: int, stop: int, named: Sequence[Mention], itself: tuple[int, int]
) -> Iterator[tuple[str, str, int, int]]:
    """Yield the values in a clause: method, status, path, host, address and size."""
    for mention in named:
        if begin <= mention.start < stop and mention.kind in ("path", "host", "address"):
            path = decoded_path(mention.value).split("?")[0]
            yield mention.kind, path if mention.kind == "path" else mention.value, mention.start, mention.end
    for verb in _SCREEN["method"].finditer(bare, begin, stop):
        yield "method", verb[0], verb.start(), verb.end()
    for number in numbers_in(bare[begin:stop]):
        start, end = number.start + begin, number.end + begin
        if (start, end) != itself and number.written.is_integer():
            if number.unit.lower() in ("byte", "bytes", "b"):
                yield "size", f"{number.written:.0f}", start, end
            elif number.text.isdigit() and _number_kind(number, bare[begin:stop]) in ("number", "status"):
                yield "status", number.text, start, end


def _around(bare: str, start: int, end: int) -> tuple[int, int]:
    """Return where the clause around a position begins and ends."""
    first = max(0, start - 160)
    cuts = [first, *(cut.end() for cut in _SCREEN["segment_end"].finditer(bare, first, start))]
    if len(cuts) > 1 and bare[cuts[-1] - 1] == "(":
        cuts.pop()  # "/admin (packet 26)": the bracket refers to the words before it
    after = _SCREEN["segment_end"].search(bare, end, end + 160)
    return cuts[-1], after.start() if after else min(len(bare), end + 160)


# --- chance -----------------------------------------------------------------------------------------------------------

_SENTENCES: Final = {
    "count alone in its clause": ("There are {} packets.", "It has {} HTTP requests.", "It holds {} responses."),
    "count among other words": ("It sends {} small packets.", "It makes {} quick requests.", "It gets {} late replies."),
    "status": ("The status code is {}.",),
    "port": ("It listens on port {}.",),
    "packet number": ("Packet {} is the last.",),
    "time": ("It takes {} seconds.",),
    "size": ("It sends {} bytes.",),
    "share": ("{} % of them fail.",),
    "other number": ("It has {} of them.",),
}
"""Sentences in which every value of a range is tried."""


def chance_acceptance(facts: Facts) -> dict[str, float | None]:
    """Return by kind the share of values that the rules do not refute, whether right or wrong.

    Counts, packets and bare numbers are tried from 0 to the number of rows, statuses from 100 to 599, ports from 0 to
    65,535, times and sizes from 0 to the whole sample, shares from 0 to 100; at most 101 values each, evenly apart.
    None where the sample has no rows, or lacks the column.
    """
    n = len(facts.frame)
    ranges = {"status": (100.0, 599.0), "port": (0.0, 65535.0), "share": (0.0, 100.0)}
    ranges |= {kind: (0.0, facts.most.get(kind, 0.0)) for kind in ("time", "size")}
    columns = {"status": "status", "port": "source_port", "packet number": "number"}
    shares: dict[str, float | None] = {}
    for kind, sentences in _SENTENCES.items():
        low, high = ranges.get(kind, (0.0, float(n)))
        if not n or high <= low or columns.get(kind, "number") not in facts.frame:
            shares[kind] = None
            continue
        steps = min(100, math.ceil(high - low)) if kind != "status" else 499
        values = dict.fromkeys(math.floor(low + (high - low) * step / steps) for step in range(steps + 1))
        tried = [screen(sentence.format(value), facts) for sentence in sentences for value in values]
        passing = sum(all(flag.state != "refuted" for flag in flags) for flags in tried)
        shares[kind] = passing / len(tried)
    return shares

"""Find the claims of an answer that the sample can confirm or refute: the evidence of hallucination.

Names are looked up in the table, numbers in the table and in what can be calculated from it. A denial or supposition
excuses the words that it governs. An answer without a refuted claim may still be invented; a judge decides that.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from toolkit.traffic.mentions import (
    METHODS,
    NUMBER_WORDS,
    WORDS,
    Mention,
    Number,
    numbers,
    numbers_in,
    patterns,
    refanged,
    scan,
)
from toolkit.traffic.sample import Facts, decoded_path

_EXCUSES: Final = patterns("excuses")
_EVIDENCE: Final = patterns("evidence")
_BEFORE: Final = patterns("before", r"(?i)(?<![A-Za-z])(?:{})[\s\"'`*(\[:=]*$")
_NO_NAMES: Final = {*NUMBER_WORDS, "yes", "none", "nothing", "unknown", "unclear", "null", "both", "neither"}
_COUNT_WORDS: Final = NUMBER_WORDS | {"once": 1, "twice": 2}
_NOUNS: Final = WORDS["rows"] | WORDS["requests"] | WORDS["responses"] | WORDS["values"]
_NOUN_COLUMN: Final = {
    **dict.fromkeys(("connection", "flow", "session", "conversation"), "stream"),
    **dict.fromkeys(("ip", "client", "server", "machine", "device"), "address"),
    **dict.fromkeys(("page", "resource", "file", "endpoint"), "path"),
    **{"hostname": "host", "domain": "host", "code": "status", "statu": "status"},
    **{"url": "uri", "agent": "user_agent", "type": "content_type"},
}


@dataclass(frozen=True)
class Claim:
    """One statement of an answer that the sample confirms or refutes."""

    kind: str
    text: str
    position: int
    held: bool


# The kind of a claim, its start and end, and whether the sample confirms it.
_Span = tuple[str, int, int, bool]


def evidence(answer: str, facts: Facts, question: str = "", key_text: str = "") -> tuple[Claim, ...]:
    """Return the checkable claims of an answer and whether the sample confirms each.

    >>> import pandas as pd
    >>> from toolkit.traffic.sample import Facts
    >>> frame = pd.DataFrame({"host": ["shop.example", None], "status": [pd.NA, 200]})
    >>> facts = Facts("tiny", frame.to_csv(), frame)
    >>> [(c.kind, c.text, c.held) for c in evidence("shop.example and evil.example: status 200.", facts)]
    [('host', 'shop.example', True), ('host', 'evil.example', False), ('status', '200', True)]
    """
    text, positions = refanged(answer)
    text = text.replace("’", "'")
    prompt_text = f"{question}\n{key_text}"
    prompt_names = {(m.kind, m.value) for m in scan(refanged(prompt_text)[0])[0]}
    prompt_numbers = {value for number in numbers(prompt_text) for value in number.values}
    named, bare = scan(text)
    # As a span, and whether cells that were cut off may hold the value.
    candidates: list[tuple[str, int, int, bool, bool]] = []
    for kind, value, start, end, in_sample in (*_names(named, facts), *_words(bare, facts)):
        supported = in_sample or (kind, value) in prompt_names or value.lower() in prompt_text.lower()
        candidates.append((kind, start, end, supported, facts.may_go_on(kind, value)))
    for number, kind, rows in _numbered(bare, question, facts):
        decided = True if set(number.values) & prompt_numbers else _holds_number(kind, rows, number, facts)
        if decided is not None:
            candidates.append((kind, number.start, number.end, decided, bool(facts.cut)))
    claims: list[_Span] = []
    for kind, start, end, supported, unsure in candidates:
        before, after = text[max(0, start - 200) : start], text[end : end + 90]
        if supported or not (unsure or _excused(before, after, kind)):
            name = {"network": "address", "simple count": "count"}.get(kind, kind)
            claims.append((name, start, end, supported))
    uncut = [*_rows(bare, named, facts), *_occurrence_claims(text, facts)]
    word = re.fullmatch(r"[\s\"'`*]*([A-Za-z_][\w-]{2,40})[\s\"'`*.]*", text)
    if word and _EVIDENCE["asks_a_name"].search(question) and word[1].lower() not in _NO_NAMES:
        supported = word[1].lower() in facts.text or word[1].lower() in prompt_text.lower()
        uncut.append(("name", word.start(1), word.end(1), supported))
    claims += [claim for claim in uncut if claim[3] or not facts.cut]
    claims.sort(key=lambda claim: claim[1])
    return tuple(
        Claim(kind, answer[positions[s] : positions[e]], positions[s], ok) for kind, s, e, ok in claims
    )


def _rows(bare: str, named: Collection[Mention], facts: Facts) -> Iterator[_Span]:
    """Yield packets that a clause names together with values which neither they nor their exchange have."""
    for match in _EVIDENCE["packet"].finditer(bare):
        start, end, number = match.start("number"), match.end("number"), int(match["number"])
        if str(number) not in facts.values("number"):
            continue
        begin, stop = _around(bare, start, end)
        clause = bare[begin:stop]
        if len(_EVIDENCE["packet"].findall(clause)) != 1:
            continue
        # A size must stand in the row of the packet itself, everything else in its exchange.
        exchange_rows = [facts.rows("method", verb[0]) for verb in _EVIDENCE["method"].finditer(clause)]
        for mention in named:
            if mention.kind == "path" and begin <= mention.start < stop:
                path = decoded_path(mention.value).split("?")[0]
                exchange_rows.append(facts.rows("uri", mention.value) or facts.rows("path", path))
        packet_rows: list[int] = []
        for quantity in numbers_in(clause):
            if quantity.unit.lower() in ("byte", "bytes", "b"):
                size = quantity.text.replace(",", "")
                packet_rows.append(facts.rows("length", size) | facts.rows("payload_length", size))
            elif quantity.text.isdigit() and int(quantity.text) in facts.statuses:
                exchange_rows.append(facts.rows("status", quantity.text))
        exchange, itself = facts.exchange(number), facts.rows("number", str(number))
        elsewhere = [rows and not rows & exchange for rows in exchange_rows]
        if any(elsewhere) or any(rows and not rows & itself for rows in packet_rows):
            yield "packet", start, end, False


def _around(bare: str, start: int, end: int) -> tuple[int, int]:
    """Return where the clause around a position begins and ends."""
    first = max(0, start - 160)
    cuts = [first, *(cut.end() for cut in _EVIDENCE["segment_end"].finditer(bare, first, start))]
    if len(cuts) > 1 and bare[cuts[-1] - 1] == "(":
        cuts.pop()  # "/admin (packet 26)": the bracket refers to the words before it
    after = _EVIDENCE["segment_end"].search(bare, end, end + 160)
    return cuts[-1], after.start() if after else min(len(bare), end + 160)


def _occurrence_claims(text: str, facts: Facts) -> Iterator[_Span]:
    for match in _EVIDENCE["occurrences"].finditer(text):
        word, value, start = match["count"].lower(), match["value"].lower(), match.start("value")
        count = _COUNT_WORDS.get(word, int(word) if word.isdigit() else -1)
        columns = [values[value] for values in facts.masks.values() if value in values]
        if columns and 0 <= count < 100 and not text[start - 5 : start].lower().endswith("port "):
            row = "|" in match[0] and not match["times"].strip()  # which may begin with its number
            numbered = row and any(str(count) in facts.values(name) for name in ("number", "stream"))
            supported = numbered or any(count == rows.bit_count() for rows in columns)
            yield "count", match.start("count"), match.end("count"), supported


def _names(named: Collection[Mention], facts: Facts) -> Iterator[tuple[str, str, int, int, bool]]:
    """Yield every unambiguous name with whether the sample has it."""
    for m in named:
        parameter = m.value.split("=")[0]
        ambiguous = (
            (m.kind == "path" and (m.value == "/" or _EVIDENCE["system_files"].match(m.value.lower())))
            or (m.kind == "product" and _EVIDENCE["no_product"].match(m.value))
            or (m.kind == "parameter" and len(parameter) < 3 and f"{parameter}=" not in facts.text)
        )
        if not ambiguous:
            yield m.kind, m.value, m.start, m.end, _holds(m.kind, m.value, m.open_end, facts)


@lru_cache(maxsize=4096)
def _holds(kind: str, value: str, open_end: bool, facts: Facts) -> bool:
    if kind == "port":
        return int(value) in facts.ports
    if kind == "network":
        try:
            network = ipaddress.ip_network(value, strict=False)
            return any(ipaddress.ip_address(a) in network for a in facts.addresses if ":" in a or "." in a)
        except ValueError:
            return True
    if kind == "path":
        path = decoded_path(value)
        if path in facts.paths or any(path == stored_path.split("?")[0] for stored_path in facts.paths):
            return True
        # A folder, the beginning of a query string, or a path that is marked as incomplete.
        start = path + ("" if open_end or "?" in path else "/")
        return any(p.startswith(start) for p in facts.paths) or _stands_in(value.lower(), facts.text)
    if kind == "parameter":
        name, content = value.split("=", 1)
        content = content.strip("\"'").rstrip(".:")
        if f"{name}=" not in facts.text:
            return _stands_in(content, facts.text)
        return bool(re.search(rf"(?<!\w){re.escape(f'{name}={content}')}(?!\d)", facts.text))
    if kind == "sql":
        return re.sub(r"\s*,\s*", ",", value) in facts.text
    column = {"address": facts.addresses, "host": facts.hosts}.get(kind, ())
    return value in column or _stands_in(value, facts.text)


def _stands_in(value: str, text: str) -> bool:
    return bool(re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w-]|\.\w)", text))


def _words(bare: str, facts: Facts) -> Iterator[tuple[str, str, int, int, bool]]:
    """Yield programs, places, protocols and methods, which are claims only if the table has their column."""
    for kind, name, column in (
        ("agent", "tools", "user_agent"),
        ("place", "places", "uri"),
        ("protocol", "protocols", "protocol"),
        ("method", "method", "method"),
    ):
        for match in _EVIDENCE[name].finditer(bare) if column in facts.frame else ():
            word = match[0].lower()
            if kind == "protocol":
                supported = word in facts.masks["layer"]
            else:
                singular = word.rstrip("s")
                supported = word in facts.text or any(singular in value for value in facts.values(column))
            yield kind, word, match.start(), match.end(), supported


# --- what excuses a claim -------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)  # replies repeat themselves
def _excused(before: str, after: str, kind: str) -> bool:
    """Say whether the words around a claim deny it, suppose it, or describe what is usual."""
    before = _EXCUSES["idioms"].sub(lambda m: " " * len(m[0]), before)
    clause = _clause(before)
    if any(_EXCUSES[name].search(clause) for name in ("denial", "supposed")):
        return True
    if any(_EXCUSES[name].match(after) for name in ("absent", "would")):
        return True
    open_brackets = before.replace("(", " ").replace(")", " ")
    following = _EXCUSES["clause_end"].split(after, maxsplit=1)[0] if kind in ("port", "network") else ""
    usual = any(_EXCUSES["usual"].search(words) for words in (_clause(open_brackets), following))
    return kind in WORDS["excusable"] and usual  # an address, host or path is never usual


def _clause(before: str) -> str:
    cuts = [cut.end() for cut in _EXCUSES["clause_end"].finditer(before)]
    return before[cuts[-1] :] if cuts else before


# --- numbers: each with its kind, and for a count the rows that it counts ---------------------------------------------


def _numbered(bare: str, question: str, facts: Facts) -> Iterator[tuple[Number, str, int]]:
    """Yield the numbers of an answer with their kind, which the words around them give; others are no claims."""
    quantities = list(numbers_in(bare))
    remainder = bare
    for number in reversed(quantities):
        remainder = remainder[: number.start] + remainder[number.end :]
    if not re.search(r"[^\W_]", re.sub(r"(?i)\band\b|\bjson\b", "", remainder)):
        kind, rows = _question_kind(question.lower(), facts)
        yield from ((number, kind, rows) for number in quantities if kind)
        return
    last_end, last_kind = 0, ""
    for number in quantities:
        kind, rows = _number_kind(number, bare, facts)
        joined = _EVIDENCE["listed_on"].fullmatch(bare[last_end : number.start])
        if joined and kind == "number" and last_kind in ("packet", "stream", "port", "status"):
            kind = last_kind
        last_end, last_kind = number.end, kind
        if kind not in ("", "skip"):
            yield number, kind, rows


def _question_kind(question: str, facts: Facts) -> tuple[str, int]:
    if re.search(r"how many|number of", question):
        if re.search(r"how many (?:\w+ ){0,2}bytes", question):
            return "size", 0
        if re.search(r"how many (?:\w+ )?(?:seconds|milliseconds|minutes)|time in seconds", question):
            return "time", 0
        noun = _noun(re.split(r"how many|number of", question, maxsplit=1)[1], facts)
        base = facts.all_rows if noun is None else noun
        # The rows with the values that the question names.
        for column in ("method", "status", "host", "source", "payload_length"):
            for value in facts.masks.get(column, {}):
                rows = facts.rows(column, value) | (facts.rows("replied", value) if column == "status" else 0)
                if base & rows and len(value) > 2 and _stands_in(value, question):
                    base &= rows
        return "simple count", base
    if re.search(r"\b(?:mean|average|interval)\b|in seconds|time", question):
        return "time", 0
    if "status code" in question:
        return "status", 0
    return ("port" if re.search(r"\bports?\b", question) else ""), 0


def _number_kind(number: Number, bare: str, facts: Facts) -> tuple[str, int]:
    """Return the kind of a number from its unit, the words before it, and the noun after it."""
    before, after = bare[max(0, number.start - 60) : number.start], bare[number.end : number.end + 90]
    before = re.split(r"[\n;]|[.!?]\s", before)[-1]
    unit = number.unit.lower()
    if _EVIDENCE["rate"].match(after) or unit.endswith("ps"):
        noun = _noun(re.split(r"(?i)\bper\b|/", after)[0] + " ", facts)
        return "rate", facts.all_rows if noun is None else noun
    if unit == "%" or re.match(r"\s*(?:%|per ?cent|percent)", after):
        return "share", 0
    if _EVIDENCE["time"].fullmatch(unit):
        return "time", 0
    if _EVIDENCE["size"].fullmatch(unit) or re.match(r"(?i)[\s-]*bytes?\b", after):
        return "size", 0
    if not (math.isfinite(number.written) and number.written.is_integer()):
        versioned = _EVIDENCE["versioned"].search(before)
        return ("number" if re.search(r"\d\.\d", number.text) and not versioned else "", 0)
    value = int(number.written)
    if re.match(r"\s*/\s*(?:tcp|udp)\b", after, re.IGNORECASE):
        return "port", 0
    digits, may_be_status = not number.text[0].isalpha(), 100 <= value <= 599
    if digits and may_be_status and _EVIDENCE["reason_phrase"].match(after):
        return "status", 0
    if _EVIDENCE["operator_before"].search(before) or _EVIDENCE["operator_after"].match(after):
        return "", 0  # part of a calculation; its result is checked where it has a noun or a unit
    noun = _noun(after, facts)
    for kind, pattern in _BEFORE.items() if digits else ():
        if pattern.search(before) and not (kind == "status" and (noun or not may_be_status)):
            return kind, 0
    return ("number", 0) if noun is None else ("count", noun)


def _noun(after: str, facts: Facts) -> int | None:
    """Return the rows that a noun phrase counts in, None without a known noun."""
    base, counted = facts.all_rows, False
    words = re.findall(r"[A-Za-z0-9.-]+", _EVIDENCE["phrase_end"].split(after)[0].lower())
    for index, word in enumerate(words[:6]):
        stem = word.strip(".-")
        singular = stem[:-1] if stem.endswith("s") and not stem.endswith("ss") else stem
        following = words[index + 1].rstrip("s") if index + 1 < len(words) else ""
        if verbs := {stem.upper(), singular.upper()} & {*METHODS}:
            base &= facts.rows("method", verbs.pop())
            counted = True
        elif re.fullmatch(r"[1-5]\d\ds?", stem):
            base &= facts.rows("status", stem.rstrip("s"))
            counted = True
        elif {stem, singular} & WORDS["requests"]:
            return base & facts.rows_with("method") if "method" in facts.frame else base
        elif {stem, singular} & WORDS["responses"]:
            if following != "code":
                return base & facts.rows_with("status") if "status" in facts.frame else base
        elif singular in WORDS["rows"]:
            return base
        elif singular in WORDS["values"] and following not in _NOUNS:
            return facts.first_rows(_NOUN_COLUMN.get(singular, singular))
        elif stem not in WORDS["qualifiers"]:
            break
    return base if counted else None


def _holds_number(kind: str, base: int, number: Number, facts: Facts) -> bool | None:
    """Say whether the sample gives this number at its precision; None where columns are missing."""
    values = [value for value in number.values if not math.isnan(value)]
    if not values:
        return True
    integer = int(values[0]) if values[0].is_integer() else -1
    if kind in ("status", "stream") and kind not in facts.frame:
        return None
    if kind in ("status", "port"):
        return integer in (facts.statuses if kind == "status" else facts.ports)
    if kind == "packet":
        return 0 <= integer <= len(facts.frame) + 1 or str(integer) in facts.values("number")
    if kind == "stream":
        streams = facts.values("stream")
        return integer <= len(streams) or str(integer) in streams
    if kind == "simple count":
        return integer in facts.simple_counts_in(base)
    if kind == "count":
        counts = facts.counts_in(base)
        exact = integer in counts or (integer >= 100 and integer in facts.statuses)
        return exact or (number.approximate and _near(number, counts))
    if kind in ("time", "size"):
        amounts = facts.times if kind == "time" else facts.sizes
        return _near(number, amounts) if amounts else None
    if kind == "share":
        return _near(number, facts.shares)
    if kind == "rate":
        rates = facts.rates(base, sized="b" in number.unit.lower())
        return _near(number, {rate * factor for rate in rates for factor in (1, 60, 8)}) if rates else None
    if integer >= 0 and (integer <= 12 or integer in facts.counts or _stands_in(str(integer), facts.text)):
        return True
    if 0 <= integer < 1000:  # small enough to be the sum of something by chance
        return number.approximate and _near(number, facts.counts)
    amounts = facts.times | facts.sizes | facts.shares
    return _near(number, amounts) or _stands_in(number.text.strip("+-−"), facts.text)


def _near(number: Number, targets: Collection[float]) -> bool:
    """Say whether a number is a target within one unit of its last digit, or within a tenth if it is approximate."""
    decimals = len(number.text.partition(".")[2])
    for value in number.values:
        scale = abs(value / number.written) if number.written else 1.0
        integral_bytes = scale == 1 and not decimals and number.unit in ("byte", "bytes", "b")
        slack = 0.5 if integral_bytes else 1.0001 * scale * 10.0**-decimals
        if number.approximate:
            slack = max(slack, abs(value) / 10)
        if any(abs(value - target) <= slack for target in targets):
            return True
    return False

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
from functools import lru_cache, reduce
from typing import Final

from toolkit.traffic.mentions import METHODS, WORDS, Mention, alternatives, mentions, refanged, scan
from toolkit.traffic.named_values import NUMBER_WORDS, Number, numbers, numbers_in
from toolkit.traffic.sample_facts import Facts, decoded_path

_SYSTEM_FILES: Final = re.compile(r"/(?:etc|var|usr|tmp|bin|opt|proc|dev|root)(?:/|$)")
"""Paths of a file system, which answers about attacks may name."""

# What a word of denial or supposition governs ends where another clause begins.
_CLAUSE_END: Final = re.compile(
    r"(?i)[.!?](?=\s)|[\n;—]|:(?!//)| [-–] |[()]"
    r"|\b(?:but|however|so|instead(?! of)|therefore|thus|because|since|although|though|while|whereas|which|who|then)\b"
    r"|,?\s(?:and|or)\s+(?=(?:then|also|it|he|they|later|even|still|instead|thereby)\b"
    r"|(?!(?:address|access|status|class|https|this|process|dns|tls)\b)[a-z]{2,}(?:s|ed)\s(?!(?:named|called|address|codes?|ports?)\b))"
    r"|,(?!\s*(?:nor|or|and)\b)(?=\s*[a-z'’]{2,}\s)|^\W*no,"
)
_IDIOMS: Final = re.compile(
    r"(?i)\bnot (?:found|modified|allowed|implemented)\b|\bno (?:doubt|fewer|less|more|other|surprise|matter)\b"
    r"|\bnot (?:only|just|merely|surprisingly|to mention|least)\b"
    r"|\bnothing but\b|\bnone other\b|\bwithout (?:a )?doubt\b|\bno\.\s*\d|\bif any\b"
)
_DENIAL: Final = re.compile(
    r"(?i)\b(?:no|not|never|without|neither|nor|none|nothing|cannot|absent|lacks?|lacking|instead of|rather than|unlike"
    r"|other than|except|excluding|free of|zero|0(?= \w))\b|n't\b|≠|!="
)
_SUPPOSED: Final = re.compile(
    r"(?i)\b(?:if|would|e\.g|for example|for instance|such as|similar to|resembl\w+|imitat\w+|mimic\w*|impersonat\w+"
    r"|pos(?:es|ing) as|masquerad\w+|expect\w*|suppose|hypothetical\w*|imagine"
    r"|see|refer|block|consider|recommend\w*|enforce|enable|requir\w+|switch|migrat\w+|should|advis\w+|mail to|write to"
    r"|known as|stands for|as defined|according to RFC)\b"
)
_GENERAL: Final = re.compile(
    r"(?i)\b(?:typical\w*|usual\w*|normal\w*|by default|default|standard|common\w*|often|generally|well-known|ephemeral"
    r"|(?:registered|dynamic) ports?|iana|rfc|range|reserved|private|documentation|conventional\w*)\b"
)
_PRESENT: Final = re.compile(
    r"(?i)^[^.!?;\n]{0,50}?\b(?:(?:is|was|are|were|does|do|did)(?: not|n't)|never)\s+(?:\w+\s+){0,2}?"
    r"(?:appear|occur|present|exist|seen|found|contained|used|requested|in|part|listed|there)"
)
_TOOLS: Final = re.compile(rf"(?i)(?<![\w-])(?:{alternatives('tools')})(?![\w.-]*\w=)(?![\w-])")
_PROTOCOLS: Final = re.compile(rf"(?<![\w/.-])(?:{alternatives('protocols')})(?![\w/-])")
_LOCATIONS: Final = re.compile(rf"\b(?:{alternatives('places')})\b")
_METHOD: Final = re.compile(
    rf"(?<![\w-])(?:{'|'.join(METHODS)})s?(?![\w-])(?!\s+(?:FROM|INTO|TABLE|statement|clause))"
)


@dataclass(frozen=True)
class Claim:
    """One statement of an answer that the sample confirms or refutes."""

    kind: str
    text: str
    position: int
    held: bool


def evidence(answer: str, facts: Facts, question: str = "", key_text: str = "") -> tuple[Claim, ...]:
    """Return the checkable claims of an answer and whether the sample confirms each.

    >>> import pandas as pd
    >>> from toolkit.traffic.sample_facts import Facts
    >>> frame = pd.DataFrame({"host": ["shop.example", None], "status": [pd.NA, 200]})
    >>> facts = Facts("tiny", frame.to_csv(), frame)
    >>> [(c.kind, c.text, c.held) for c in evidence("shop.example and evil.example: status 200.", facts)]
    [('host', 'shop.example', True), ('host', 'evil.example', False), ('status', '200', True)]
    """
    text, positions = refanged(answer)
    text = text.replace("’", "'")
    prompt_text = f"{question}\n{key_text}"
    prompt_names = {(m.kind, m.value) for m in mentions(refanged(prompt_text)[0])}
    prompt_numbers = {value for number in numbers(prompt_text) for value in number.values}
    named, bare = scan(text)
    claims: list[tuple[str, int, int, bool]] = []
    for kind, value, start, end, in_sample in (*_names(named, facts), *_words(bare, facts)):
        supported = in_sample or (kind, value) in prompt_names or value.lower() in prompt_text.lower()
        if supported or not (facts.may_go_on(kind, value) or _excused(text, start, end, kind)):
            claims.append(("address" if kind == "network" else kind, start, end, supported))
    for number, number_kind in _numbered(bare, question, facts):
        in_prompt = bool(set(number.values) & prompt_numbers)
        decided = True if in_prompt else _holds_number(number_kind, number, facts)
        name = number_kind[0]
        # A count may depend on cells that were cut off; then it is neither confirmed nor invented.
        unsure = decided is False and bool(facts.cut)
        if decided or (decided is False and not (unsure or _excused(text, number.start, number.end, name))):
            claims.append((name.removeprefix("simple "), number.start, number.end, decided))
    rows = (*_rows(bare, named, facts), *_occurrence_claims(text, facts))
    claims += [claim for claim in rows if claim[3] or not facts.cut]
    word = re.fullmatch(r"[\s\"'`*]*([A-Za-z_][\w-]{2,40})[\s\"'`*.]*", text)
    if word and _ASKS_A_NAME.search(question) and word[1].lower() not in _NO_NAMES:
        supported = word[1].lower() in facts.text or word[1].lower() in prompt_text.lower()
        if supported or not facts.cut:
            claims.append(("name", word.start(1), word.end(1), supported))
    claims.sort(key=lambda claim: claim[1])
    return tuple(
        Claim(kind, answer[positions[s] : positions[e]], positions[s], ok) for kind, s, e, ok in claims
    )


_NO_NAMES: Final = {*NUMBER_WORDS, "yes", "none", "nothing", "unknown", "unclear", "null", "both", "neither"}
_ASKS_A_NAME: Final = re.compile(
    r"(?i)\b(?:which|what|whose)\b.{0,60}\b(?:uris?|urls?|paths?|hosts?|address(?:es)?|agents?|parameters?|methods?|types?|files?)\b"
)
_PACKET: Final = re.compile(
    r"(?i)\b(?:packet|frame|row)\s(?:no\. |number |#)?(?P<number>\d{1,9})(?!\d|\.\d|\s?(?:-|–|to|and|,)\s?\d)"
)
_SEGMENT: Final = re.compile(
    r"[.;:!?](?=\s)|[\n()]|,\s|\b(?:and|but|then|while|which|who|after|before|until)\b"
)
_OCCURRENCES: Final = re.compile(
    r"(?i)(?<![\w/.?&=-])(?P<value>\d{3}|[A-Z]{3,7}|/[\w/.?&=%-]{1,80}|(?:[\w-]{1,63}\.){1,8}\w{2,24})[\"'`*]*"
    r"(?:\s*\(\s*|\s*:\s+|\s*\|\s*|\s+(?:occurs|appears)\s+)[\"'`*]*(?P<count>\d{1,9}|[a-z]{3,9})"
    r"(?P<times>\s*(?:times|x\b|×)|(?=[\"'`*]*\s*(?:\)|\||\n|$)))"
)


def _rows(bare: str, named: Collection[Mention], facts: Facts) -> Iterator[tuple[str, int, int, bool]]:
    """Yield packets that a clause names together with values which neither they nor their exchange have."""
    numbers_ = facts.values("number")
    for match in _PACKET.finditer(bare):
        start, end, number = match.start("number"), match.end("number"), int(match["number"])
        if str(number) not in numbers_:
            continue
        begin, stop = _around(bare, start, end)
        if len(_PACKET.findall(bare[begin:stop])) != 1:
            continue
        clause = bare[begin:stop]
        # A size must stand in the row of the packet itself, everything else in its exchange.
        exchange_rows = [facts.rows("method", verb[0]) for verb in _METHOD.finditer(clause)]
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
    cuts = [first, *(cut.end() for cut in _SEGMENT.finditer(bare, first, start))]
    if len(cuts) > 1 and bare[cuts[-1] - 1] == "(":
        cuts.pop()  # "/admin (packet 26)": the bracket refers to the words before it
    after = _SEGMENT.search(bare, end, end + 160)
    return cuts[-1], after.start() if after else min(len(bare), end + 160)


def _occurrence_claims(text: str, facts: Facts) -> Iterator[tuple[str, int, int, bool]]:
    """Yield stated frequencies of a value: "404 (four times)", "GET: 4", "| 200 | 3 |"."""
    for match in _OCCURRENCES.finditer(text):
        word, value, start = match["count"].lower(), match["value"].lower(), match.start("value")
        words = {**NUMBER_WORDS, "once": 1, "twice": 2}
        count = words.get(word, int(word) if word.isdigit() else -1)
        columns = [values[value] for values in facts.masks.values() if value in values]
        if columns and 0 <= count < 100 and not text[start - 5 : start].lower().endswith("port "):
            row = "|" in match[0] and not match["times"].strip()  # which may begin with its number
            numbered = row and any(str(count) in facts.values(name) for name in ("number", "stream"))
            supported = numbered or any(count == rows.bit_count() for rows in columns)
            yield "count", match.start("count"), match.end("count"), supported


def _names(named: Collection[Mention], facts: Facts) -> Iterator[tuple[str, str, int, int, bool]]:
    """Yield every unambiguous name with whether the sample has it."""
    for m in named:
        if m.kind == "path" and (m.value == "/" or _SYSTEM_FILES.match(m.value.lower())):
            continue
        if m.kind == "product" and re.match(r"(?i)(?:https?|tcp|ip|udp|tls|ssl|rfc|and|or|col)/", m.value):
            continue
        if m.kind == "parameter" and m.value.index("=") < 3 and f"{m.value.split('=')[0]}=" not in facts.text:
            continue
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
    if (kind == "address" and value in facts.addresses) or (kind == "host" and value in facts.hosts):
        return True
    return _stands_in(value, facts.text)


def _stands_in(value: str, text: str) -> bool:
    return bool(re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w-]|\.\w)", text))


def _words(bare: str, facts: Facts) -> Iterator[tuple[str, str, int, int, bool]]:
    """Yield programs, protocols and methods, which are claims only if the table has their column."""
    for kind, pattern, column in (
        ("agent", _TOOLS, "user_agent"),
        ("place", _LOCATIONS, "uri"),
        ("protocol", _PROTOCOLS, "protocol"),
        ("method", _METHOD, "method"),
    ):
        if column not in facts.frame:
            continue
        for match in pattern.finditer(bare):
            word = match[0].lower()
            if kind == "protocol":
                supported = word in facts.masks["layer"]
            else:
                cells = facts.values(column)
                supported = word in facts.text or any(word.rstrip("s") in value for value in cells)
            yield kind, word, match.start(), match.end(), supported


# --- what excuses a claim -------------------------------------------------------------------------------------------


def _excused(text: str, start: int, end: int, kind: str) -> bool:
    """Say whether the words around a claim deny it, suppose it, or describe what is usual."""
    return _excuse(text[max(0, start - 200) : start], text[end : end + 90], kind)


@lru_cache(maxsize=4096)  # replies repeat themselves
def _excuse(before: str, after: str, kind: str) -> bool:
    before = _IDIOMS.sub(lambda m: " " * len(m[0]), before)
    clause = _clause(before)
    if _DENIAL.search(clause) or _SUPPOSED.search(clause):
        return True
    if _PRESENT.match(after) or re.match(r"(?i)[^.;!?\n]{0,40}\b(?:would|should)\b", after):
        return True
    open_brackets = before.replace("(", " ").replace(")", " ")
    following = _CLAUSE_END.split(after, maxsplit=1)[0] if kind in ("port", "network") else ""
    usual = _GENERAL.search(_clause(open_brackets)) or _GENERAL.search(following)
    return kind in WORDS["excusable"] and bool(usual)  # an address, host or path is never usual


def _clause(before: str) -> str:
    cuts = [cut.end() for cut in _CLAUSE_END.finditer(before)]
    return before[cuts[-1] :] if cuts else before


# --- numbers ----------------------------------------------------------------------------------------------------------

_Kind = tuple[str, int]  # the kind of a number, and for a count the rows that it counts
_BEFORE: Final = tuple(
    (kind, re.compile(rf"(?i)(?<![A-Za-z])(?:{words})[\s\"'`*(\[:=]*$"))
    for kind, words in (
        ("packet", r"(?:packet|frame|row|line|record)s?(?: (?:numbers?|no\.?|#))?[\s:=#]*"),
        ("stream", r"(?:stream|connection|flow|conversation)s?(?: (?:numbers?|index|id|no\.?))?[\s:=#]*"),
        ("port", r"ports?(?: numbers?)?(?: (?:is|was|are|were|of))*[\s:=]*|(?:tcp|udp)[/ ]"),
        ("status", r"(?:status|code|http|error|return|answer|repl|respon|get|got|receiv|g[ai]ve)[a-z]*"
         r"(?: (?:with|of|is|was|are|an?|codes?|http|status))*[\s:=]*"),
        ("skip", r"(?:RFC|CWE-?|CAPEC-?|OWASP|A|T|step|phase|section|figure|table|chapter|version|v|level|question"
         r"|answer|windows|firefox|chrome|gecko|rv:|IPv|layer|port range"
         r"|(?:MTU|MSS)(?: of| is)?|A\d\d?:|SHA-?|AES-?|year|q|no|top|http/|tls|size of a)[\s:]*"),
    )
)  # fmt: skip
_REASONS: Final = re.compile(
    r"[\"'`*)]*\s*\(?(?:OK|Found|Not Found|Moved|Forbidden|Unauthori[sz]ed|Internal Server)\b"
)
_NOUN_COLUMN: Final = {
    **dict.fromkeys(("connection", "flow", "session", "conversation"), "stream"),
    **dict.fromkeys(("ip", "client", "server", "machine", "device"), "address"),
    **dict.fromkeys(("page", "resource", "file", "endpoint"), "path"),
    **dict.fromkeys(("hostname", "domain"), "host"),
    **dict.fromkeys(("code", "statu"), "status"),
    **{"url": "uri", "agent": "user_agent", "type": "content_type"},
}
_NOUNS: Final = WORDS["rows"] | WORDS["requests"] | WORDS["responses"] | WORDS["values"]
_WORD: Final = re.compile(r"[A-Za-z0-9.-]+")
_TIME: Final = re.compile(r"(?:m|u|µ|μ)?s(?:ecs?)?|m?secs?|(?:milli)?seconds?|mins?|minutes?|h|hours?")
_SIZE: Final = re.compile(r"[kmg]?i?b|(?:kilo|kibi|mega)?bytes?|octets?|k|kbs")


def _numbered(bare: str, question: str, facts: Facts) -> Iterator[tuple[Number, _Kind]]:
    """Yield the numbers of an answer with their kind, which the words around them give; others are no claims."""
    quantities = list(numbers_in(bare))
    remainder = bare
    for number in reversed(quantities):
        remainder = remainder[: number.start] + remainder[number.end :]
    if not re.search(r"[^\W_]", re.sub(r"(?i)\band\b|\bjson\b", "", remainder)):
        kind = _question_kind(question, facts)
        yield from ((number, kind) for number in quantities if kind[0])
        return
    last: tuple[int, _Kind] = (0, ("", 0))
    for number in quantities:
        kind = _number_kind(number, bare, facts)
        joined = re.fullmatch(
            r"[\"'`*]*\s*(?:,|and|or|,\s*and|to|-|–)\s*[\"'`*]*", bare[last[0] : number.start]
        )
        if joined and kind[0] == "number" and last[1][0] in ("packet", "stream", "port", "status"):
            kind = last[1]
        last = (number.end, kind)
        if kind[0] and kind[0] != "skip":
            yield number, kind


def _question_kind(question: str, facts: Facts) -> _Kind:
    question_text = question.lower()
    if re.search(r"how many|number of", question_text):
        if re.search(r"how many (?:\w+ ){0,2}bytes", question_text):
            return "size", 0
        if re.search(r"how many (?:\w+ )?(?:seconds|milliseconds|minutes)|time in seconds", question_text):
            return "time", 0
        noun = _noun(re.split(r"how many|number of", question_text, maxsplit=1)[1], facts)
        return "simple count", _question_rows(facts.all_rows if noun is None else noun, question_text, facts)
    if re.search(r"\b(?:mean|average|interval)\b|in seconds|time", question_text):
        return "time", 0
    if "status code" in question_text:
        return "status", 0
    return ("port" if re.search(r"\bports?\b", question_text) else ""), 0


def _question_rows(base: int, question_text: str, facts: Facts) -> int:
    """Return the rows that a question asks about: those with the values that it names."""
    for columns in (("method",), ("status", "replied"), ("host",), ("source",), ("payload_length",)):
        for value in facts.masks.get(columns[0], {}):
            rows = base & reduce(lambda union, name: union | facts.rows(name, value), columns, 0)
            if rows and len(value) > 2 and _stands_in(value, question_text):
                base = rows
    return base


def _number_kind(number: Number, bare: str, facts: Facts) -> _Kind:
    """Return the kind of a number from its unit, the words before it, and the noun after it."""
    before, after = bare[max(0, number.start - 60) : number.start], bare[number.end : number.end + 90]
    before = re.split(r"[\n;]|[.!?]\s", before)[-1]
    integral = float(number.written).is_integer() if math.isfinite(number.written) else False
    unit = number.unit.lower()
    if re.match(
        r"(?i)[\s\w]{0,14}(?:/s\b|/sec|/second|/minute|/min\b|\s*(?:per|a|each|every)\s+(?:second|minute|sec|s)\b|ps\b)",
        after,
    ) or unit.endswith("ps"):
        noun = _noun(re.split(r"(?i)\bper\b|/", after)[0] + " ", facts)
        return "rate", facts.all_rows if noun is None else noun
    if unit in ("%",) or re.match(r"\s*(?:%|per ?cent|percent)", after):
        return "share", 0
    if _TIME.fullmatch(unit):
        return "time", 0
    if _SIZE.fullmatch(unit) or re.match(r"(?i)[\s-]*bytes?\b", after):
        return "size", 0
    if not integral:
        versioned = re.search(r"(?i)(?:version|v|tls|/|rv:?|http)\s*$", before)
        return ("number" if re.search(r"\d\.\d", number.text) and not versioned else "", 0)
    value = int(number.written)
    if re.match(r"\s*/\s*(?:tcp|udp)\b", after, re.IGNORECASE):
        return "port", 0
    digits = not number.text[0].isalpha()
    if digits and 100 <= value <= 599 and _REASONS.match(after):
        return "status", 0
    if re.search(r"(?:[+×*=÷−]|(?<![A-Za-z])/)\s*$|\d\s+[x-]\s+$", before) or re.match(
        r"\s*[+×*/=÷]|\s+[x−-]\s+\d", after
    ):
        return "", 0  # part of a calculation; its result is checked where it has a noun or a unit
    noun = _noun(after, facts)
    for kind, pattern in _BEFORE:
        if digits and pattern.search(before):
            if kind == "status" and (noun or not 100 <= value <= 599):
                continue
            return kind, 0
    if noun is not None:
        return "count", noun
    return "number", 0


def _noun(after: str, facts: Facts) -> int | None:
    """Return the rows that a noun phrase counts in, None without a known noun."""
    base, counted = facts.all_rows, False
    phrase = re.split(
        r"[\n,;:()|+=*/×]|\.\s|\b(?:and|or|from|to|in|with|that|which|are|is|were|was|carry|have|on|for|by|at)\b",
        after,
    )[0]
    words = _WORD.findall(phrase.lower())
    for index, word in enumerate(words[:6]):
        stem = word.strip(".-")
        singular = stem[:-1] if stem.endswith("s") and not stem.endswith("ss") else stem
        following = words[index + 1].rstrip("s") if index + 1 < len(words) else ""
        if stem.upper() in METHODS or (singular.upper() in METHODS and stem.endswith("s")):
            base &= facts.rows("method", singular if singular.upper() in METHODS else stem)
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


def _holds_number(kind: _Kind, number: Number, facts: Facts) -> bool | None:
    """Say whether the sample gives this number at its precision; None where columns are missing."""
    name, base = kind
    values = [value for value in number.values if not math.isnan(value)]
    if not values:
        return True
    integer = int(values[0]) if values[0].is_integer() else -1
    if name == "status":
        return integer in facts.statuses if "status" in facts.frame else None
    if name == "port":
        return integer in facts.ports
    if name == "packet":
        return 0 <= integer <= len(facts.frame) + 1 or str(integer) in facts.values("number")
    if name == "stream":
        streams = facts.values("stream")
        return integer <= len(streams) or str(integer) in streams if "stream" in facts.frame else None
    if name == "simple count":
        return integer in facts.simple_counts_in(base)
    if name == "count":
        counts = facts.counts if base < 0 else facts.counts_in(base)  # negative: of unknown rows
        if integer in counts or (integer >= 100 and integer in facts.statuses):
            return True
        return _near(number, frozenset(counts)) if number.approximate else False
    if name == "time":
        return _near(number, facts.times) if facts.times else None
    if name == "size":
        return _near(number, facts.sizes) if facts.sizes else None
    if name == "share":
        return _near(number, facts.shares)
    if name == "rate":
        rates = facts.rates(base, sized="b" in number.unit.lower())
        return _near(number, {rate * factor for rate in rates for factor in (1, 60, 8)}) if rates else None
    if integer >= 0 and (integer <= 12 or integer in facts.counts or _stands_in(str(integer), facts.text)):
        return True
    if 0 <= integer < 1000:  # small enough to be the sum of something by chance
        return bool(number.approximate) and _near(number, facts.counts)
    return _near(number, facts.times | facts.sizes | facts.shares) or _stands_in(
        number.text.strip("+-−"), facts.text
    )


def _near(number: Number, targets: Collection[float]) -> bool:
    """Say whether a number is a target within one unit of its last digit, or within a tenth if it is approximate."""
    decimals = len(number.text.partition(".")[2]) if "." in number.text else 0
    for value in number.values:
        scale = abs(value / number.written) if number.written else 1.0
        integral_bytes = scale == 1 and not decimals and number.unit in ("byte", "bytes", "b")
        slack = 0.5 if integral_bytes else 1.0001 * scale * 10.0**-decimals
        if number.approximate:
            slack = max(slack, abs(value) / 10)
        if any(abs(value - target) <= slack for target in targets):
            return True
    return False

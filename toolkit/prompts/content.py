"""Checks of the text of one prompt: leftovers, dates, sums, hashes, addresses and identifiers; and its readability."""

import calendar
import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from datetime import date

Flaw = tuple[str, str, str]
"""A kind of `toolkit.prompts.check.KINDS`, what is wrong, and how to mend it."""

_PLACEHOLDER = re.compile(
    r"\{\{?\s*[A-Za-z_][\w ]*\}?\}|\$\{\w+\}|<[A-Z][A-Z_ ]{2,}>|"
    r"\[(?i:insert|your|add|todo|tbd|name|date|company)\b[^\]]*\]|"
    r"\b(?:TODO|TBD|FIXME|XXX+|lorem ipsum|undefined|NaN)\b|%[sd]\b|\b(?:None|null) (?:hosts?|users?|systems?)\b"
)
_MODEL_TALK = re.compile(
    r"\bas an ai\b|\b(?:sure|certainly|of course)[!,] here\b|\bhere is the (?:revised|rewritten|expanded|short\w*)\b|"
    r"\b(?:short|medium|long)(?:er)? version of the prompt\b",
    re.IGNORECASE,
)
_MOJIBAKE = re.compile("\u00c3[\u0080-\u00bf]|\u00e2\u20ac|\u00c2[\u00a0-\u00bf]|\ufffd")
_BROKEN = re.compile(r"(?<![.\s])\s+[,;](?=\s)|,,|;;|(?<!\.)\.\.(?!\.)|\(\s*\)|^\s*[-*]\s*$", re.MULTILINE)
_QUOTED = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"")
_MONTHS = {name.casefold(): number for number, name in enumerate(calendar.month_name) if name}
_DAYS = "|".join(calendar.day_name)
_WORDED = re.compile(
    rf"(?:\b({_DAYS}),? )?\b(\d{{1,2}}) ({'|'.join(calendar.month_name[1:])}) (\d{{4}})\b", re.IGNORECASE
)
_ISO = re.compile(r"(?<![\d-])(\d{4})-(\d{2})-(\d{2})(?![\d-])")
_CLOCK = re.compile(r"(?<![\d:.])(\d{2}):(\d{2})(?::(\d{2}))?(?![\d:])")
_DATE = r"(\d{1,2} [A-Z][a-z]+ \d{4}|\d{4}-\d{2}-\d{2})"
_SPAN = re.compile(rf"\bfrom {_DATE} (?:to|until) {_DATE}\b")
_NUMBER = r"(\d{1,3}(?:,\d{3})+|\d+)"
_SHARE = re.compile(
    rf"\b{_NUMBER} of (?:the |its |these )?{_NUMBER}\b(?![.:/-]\d| (?:{'|'.join(calendar.month_name[1:])}))"
    r"([^.;]{0,40}?\((\d+(?:\.\d+)?) ?%\))?"
)
_PERCENT = re.compile(r"(?<![\d.,])(\d{3,}(?:\.\d+)?) ?% of\b")
_ADDS_UP = re.compile(
    rf"\b{_NUMBER} [a-z][\w -]{{2,30}}: ({_NUMBER} [^\d.;:]{{2,40}}(?:,|,? and) )+{_NUMBER} [a-z]"
)
_HEX = re.compile(
    r"(?<![\w-])(?:(MD5|SHA-?1|SHA-?256|SHA-?512)[ :=]+)?([0-9a-fA-F]{24,})(?![\w-])", re.IGNORECASE
)
_HASHES = {32: "MD5", 40: "SHA-1", 56: "SHA-224", 64: "SHA-256", 96: "SHA-384", 128: "SHA-512"}
_IPV4 = re.compile(r"(?<![\w.-])(\d{1,4}(?:\.\d{1,4}){3})(?![\w-]|\.\d)")
_IPV6 = re.compile(
    r"(?<![\w:.])((?:[0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F:]*|(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4})(?![\w:])"
)
_NETS = "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 233.252.0.0/24 2001:db8::/32 3fff::/20"
_DOCUMENTATION = [ipaddress.ip_network(net) for net in _NETS.split()]
"""RFC 5737, RFC 6676, RFC 3849 and RFC 9637."""
_DOMAIN = re.compile(
    r"(?<![\w.-])((?:[A-Za-z0-9_-]+(?:\.|\[\.\]))+"
    r"(?:com|net|org|io|co|au|uk|us|eu|de|fr|nl|nz|ca|sg|in|ru|cn|kp|ir|xyz|top|info|biz|online|site|cloud|app|dev))"
    r"(?![\w-]|\.\w)"
)
_RESERVED = re.compile(r"(?:^|\.)example\.(?:com|net|org)$", re.IGNORECASE)  # RFC 2606
_IDENTIFIER = re.compile(r"\bCVE-[\w-]+|(?<![\w.-])T\d{3,6}(?:\.\d+)?(?![\w.-]*\w)|\bport (\d{5,})\b")
_WELL_FORMED = re.compile(r"CVE-(?:1999|20\d\d)-\d{4,7}|T\d{4}(?:\.\d{3})?")


def scars_in(text: str) -> Iterator[Flaw]:
    """Yield leftovers of a template, a model or a wrong encoding."""
    plain = _QUOTED.sub("Q", text)  # a quotation from a log is left as it is
    if placeholder := _PLACEHOLDER.search(plain):
        yield "placeholder", f"has a placeholder: {placeholder.group()}", "write what belongs there"
    if talk := _MODEL_TALK.search(text):
        yield "model_talk", f"has words of the model that wrote it: {talk.group()}", "leave them out"
    hidden = [c for c in text if unicodedata.category(c) in ("Cf", "Cc", "Co", "Cn") and c not in "\n\t\r"]
    if hidden or _MOJIBAKE.search(text):
        sign = f"U+{ord(hidden[0]):04X}" if hidden else "signs of a wrong encoding"
        yield "hidden_character", f"has {sign}", "write the plain character, or save the file as UTF-8"
    if broken := _BROKEN.search(plain):
        around = " ".join(plain[max(0, broken.start() - 20) : broken.end() + 20].split())
        yield "broken_text", f"has an empty place or doubled punctuation: {around}", "fill it or take it out"
    pairs = [pair for pair in ("()", "[]") if plain.count(pair[0]) != plain.count(pair[1])]
    quotes = [mark for mark in '`"' if any(line.count(mark) % 2 for line in text.splitlines())]
    if pairs or quotes:
        # "(1)" opens and closes; "1)" of a list closes only and is fine.
        opened = [p for p in pairs if p != "()" or plain.count("(") > plain.count(")")]
        if opened or quotes:
            yield "broken_text", f"opens {' '.join([*opened, *quotes])} and does not close it", "close it"
    if not re.search(r"[.?!:;)\]`\"'\u201d\u2019>|}]$", text.rstrip()):
        yield "unfinished", f"ends in the middle of a sentence: {text.rstrip()[-40:]}", "end the sentence"


def dates_in(text: str) -> Iterator[Flaw]:
    """Yield dates and times that do not exist, wrong weekdays, and spans that run backwards."""
    for weekday, day, month, year in _WORDED.findall(text):
        yield from _day(f"{day} {month} {year}", int(year), _MONTHS[month.casefold()], int(day), weekday)
    for year, month, day in _ISO.findall(text):
        if 1900 <= int(year) <= 2100:
            yield from _day(f"{year}-{month}-{day}", int(year), int(month), int(day), "")
    for hour, minute, second in _CLOCK.findall(text):
        if int(hour) > 24 or int(minute) > 59 or int(second or 0) > 60:
            clock = ":".join(part for part in (hour, minute, second) if part)
            yield "date", f"there is no time {clock}", "correct the time"
    for first, last in _SPAN.findall(text):
        began, ended = _date(first), _date(last)
        if began and ended and began > ended:
            yield "date", f"runs backwards from {first} to {last}", "put the earlier date first"


def _day(text: str, year: int, month: int, day: int, weekday: str) -> Iterator[Flaw]:
    try:
        actual = calendar.day_name[date(year, month, day).weekday()]
    except ValueError:
        yield "date", f"there is no day {text}", "correct the date"
        return
    if weekday and weekday.casefold() != actual.casefold():
        yield "date", f"{text} is a {actual}, not a {weekday}", "correct the date or the weekday"


def _date(text: str) -> date | None:
    try:
        if "-" in text:
            return date.fromisoformat(text)
        day, month, year = text.split()
        return date(int(year), _MONTHS[month.casefold()], int(day))
    except (ValueError, KeyError):
        return None


def sums_in(text: str) -> Iterator[Flaw]:
    """Yield parts larger than their total, wrong percentages, and lists that do not add up."""
    for part, group, _, percent in _SHARE.findall(text):
        few, all_ = _count(part), _count(group)
        if few > all_ and not 1900 <= all_ <= 2100:
            yield "sum", f"says {part} of {group}", "correct the numbers"
        elif percent and all_:
            digits = len(percent.partition(".")[2])
            if abs(100 * few / all_ - float(percent)) > 0.51 * 10**-digits:
                fault = f"says {percent} % for {part} of {group}, which is {100 * few / all_:.{digits}f} %"
                yield "sum", fault, "correct the numbers"
    for percent in _PERCENT.findall(text):
        if float(percent) > 100:
            yield "sum", f"says {percent} % of something", "correct the number"
    for listed in _ADDS_UP.finditer(text):
        total, *parts = [_count(number) for number in re.findall(_NUMBER, listed.group())]
        if sum(parts) != total:
            quotation = " ".join(listed.group().split())
            yield "sum", f"the parts add up to {sum(parts)}: {quotation}", "correct the numbers"


def _count(digits: str) -> int:
    return int(digits.replace(",", ""))


def technical_in(text: str) -> Iterator[Flaw]:
    """Yield hashes of a wrong length, addresses and domains that may be in use, and malformed identifiers."""
    for label, digits in _HEX.findall(text):
        if digits.isdigit() and not label:
            continue  # a long number is no hash
        stated = re.sub(r"^SHA-?", "SHA-", label.upper())
        kind = _HASHES.get(len(digits))
        if kind is None or (stated and stated != kind):
            fault = f"has a {stated or 'hash'} of {len(digits)} digits: {digits[:16]}…"
            yield "hash", fault, "give it the digits of its kind: MD5 32, SHA-1 40, SHA-256 64"
    for literal in [*_IPV4.findall(text), *_IPV6.findall(text)]:
        try:
            address = ipaddress.ip_address(literal)
        except ValueError:
            yield "address", f"{literal} is no address", "correct it"
            continue
        documented = any(address in net for net in _DOCUMENTATION if net.version == address.version)
        if not documented and address.is_global:
            mend = "use 192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24, 2001:db8::/32 or a private address"
            yield "address", f"{literal} belongs to somebody", mend
    for domain in _DOMAIN.findall(text):
        if not _RESERVED.search(domain.replace("[.]", ".")):
            mend = "use example.com, .example, .test or .invalid"
            yield "address", f"{domain} may belong to somebody", mend
    for match in _IDENTIFIER.finditer(text):
        port = match.group(1)
        if int(port) > 65535 if port else not _WELL_FORMED.fullmatch(match.group().rstrip("-.")):
            yield "identifier", f"there can be no {match.group()}", "correct it"


def readability(text: str) -> float:
    """Return the Flesch-Kincaid grade of a text: 0.39 words a sentence + 11.8 syllables a word - 15.59.

    Kincaid et al. 1975, Derivation of new readability formulas for Navy enlisted personnel. A line of a list is a
    sentence; a syllable is a group of vowels, less a silent final e.

    Examples
    --------
    >>> round(readability("The cat sat on the mat."), 2)
    -1.45
    """
    sentences = [
        s for line in text.splitlines() for s in re.split(r"(?<=[.!?;])\s+", line) if re.search(r"\w", s)
    ]
    words = re.findall(r"[A-Za-z]+(?:['\u2019][A-Za-z]+)?", text)
    if not words:
        return float("nan")
    syllables = 0
    for word in map(str.casefold, words):
        groups = len(re.findall(r"[aeiouy]+", word))
        silent = word.endswith("e") and not word.endswith(("le", "ee"))
        syllables += max(1, groups - (silent and groups > 1))
    return 0.39 * len(words) / max(1, len(sentences)) + 11.8 * syllables / len(words) - 15.59

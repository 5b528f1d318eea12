"""Find the names (addresses, hosts, ports, paths, programs ...) and the numbers in a text, with their positions.

Replies are hostile: every pattern takes time that is linear in the length of the text. Defanged names
(``hxxp://evil[.]example``) are restored.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Callable, Iterator, KeysView, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final


def _data(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("toolkit.traffic") / name).read_text(encoding="utf-8"))


WORDS: Final[dict[str, KeysView[str]]] = {
    name: dict.fromkeys(text.split()).keys() for name, text in _data("words.toml").items()
}
"""Lists of words, each in its order and looked up like a set."""
METHODS: Final = tuple(WORDS["methods"])
SOURCES: Final = _data("patterns.toml")
# The longest alternative first; ``_`` in a word stands for a blank.
_PARTS: Final = SOURCES["parts"] | {
    name: "|".join(sorted((word.replace("_", " ") for word in words), key=len, reverse=True))
    for name, words in WORDS.items()
}


def patterns(table: str, around: str = "{}") -> dict[str, re.Pattern[str]]:
    """Return the expressions of one table of ``patterns.toml``, each put into the braces of ``around``."""
    expressions = {}
    for name, source in SOURCES[table].items():
        text = re.sub(r"\{([a-z]\w*)\}", lambda part: str(_PARTS[part[1]]), "".join(source))
        expressions[name] = re.compile(around.replace("{}", text))
    return expressions


KINDS: Final = patterns("mentions")
_NAMES: Final = patterns("names")
_NUMBERS: Final = patterns("numbers")


@dataclass(frozen=True)
class Mention:
    """One thing a text names."""

    kind: str
    text: str
    value: str
    start: int
    end: int
    open_end: bool = False


def refanged(text: str) -> tuple[str, list[int]]:
    """Return a text with defanged names restored, and the position of each character in the original."""
    pieces, positions, last = [], [], 0
    for match in _NAMES["defanged"].finditer(text):
        inner = match[0].strip("[](){}\\").lower()
        restored = {"dot": ".", "hxxp": "http"}.get(inner, inner)
        pieces += [text[last : match.start()], restored]
        positions += [*range(last, match.start()), *[match.start()] * len(restored)]
        last = match.end()
    return "".join([*pieces, text[last:]]), [*positions, *range(last, len(text) + 1)]


def canonical_address(value: str) -> str:
    """Return an address in its shortest form; other text as it is, in lower case."""
    try:
        return str(ipaddress.ip_address(value.strip("[]")))
    except ValueError:
        return value.lower()


def scan(text: str) -> tuple[tuple[Mention, ...], str]:
    """Return the names in a text in their order, and the text with them blanked out."""
    # The kinds are looked for one after another, each in what the ones before it have left.
    results: list[Mention] = []
    bare = text
    for kind, pattern in KINDS.items():
        pieces, last = [], 0
        for match in pattern.finditer(bare):
            named = tuple(_match_mentions(kind, match))
            if not named and kind != "version":
                continue
            results.extend(named)
            end = max((mention.end for mention in named), default=match.end())
            pieces += [bare[last : match.start()], "\0" * (end - match.start())]
            last = end
        bare = "".join([*pieces, bare[last:]])
    return tuple(sorted(results, key=lambda mention: mention.start)), bare


def _match_mentions(kind: str, match: re.Match[str]) -> Iterator[Mention]:
    """Yield what a match of one kind names; nothing where it is something else."""
    text, start = match[0], match.start()
    if kind in _ACCEPTED:
        if _ACCEPTED[kind](match):
            yield from _authority_mentions(kind, match)
    elif kind == "root":
        yield _path_mention(match.string, text, start)
    elif kind == "path":
        path = _trimmed(text)
        if path and not re.fullmatch(r"/\d{1,3}", path):  # " /24" is a prefix length
            yield _path_mention(match.string, path, start)
    elif kind != "version":
        text = text.rstrip(".,;:*_") if kind in ("product", "media", "parameter") else text
        yield Mention(kind, text, text.lower(), start, start + len(text))


def _authority_mentions(kind: str, match: re.Match[str]) -> Iterator[Mention]:
    groups = match.groupdict()
    host = groups.get("host") or match[0]
    start = match.start("host") if "host" in groups else match.start()
    end = start + len(host)
    value = canonical_address(host.rstrip("."))
    is_address = ":" in value or bool(re.fullmatch(r"[\d.]+", value))
    path = _trimmed(groups.get("path") or "")
    if is_address and (prefix := re.fullmatch(r"/\d{1,3}", path)):
        yield Mention("network", host + prefix[0], value + prefix[0], start, end + len(prefix[0]))
        return
    is_file = kind == "host" and _is_file(match)
    yield Mention("address" if is_address else "file" if is_file else "host", host, value, start, end)
    if port := groups.get("port"):
        yield Mention("port", port, str(int(port)), match.start("port"), match.end("port"))
    if path and (path != "/" or kind != "url"):
        yield _path_mention(match.string, path, match.start("path"))


def _path_mention(text: str, path: str, start: int) -> Mention:
    end = start + len(path)
    following = text[end : end + 3]
    open_end = following.startswith(("...", "…", "*", "{", "<")) or path.endswith(("*", "…"))
    return Mention("path", path, path.rstrip("*…"), start, end, open_end)


def _trimmed(path: str) -> str:
    """Return a path without the punctuation of the sentence around it."""
    path = path.rstrip(".,;:!?*_")
    for opening, closing in ("()", "[]"):
        if path.endswith(closing) and opening not in path:
            path = path.rstrip(closing + ".,;:!?*_")
    return path


def _is_v4(match: re.Match[str]) -> bool:
    # "Chrome/120.0.0.0" is a version; octets beyond 255 are one too.
    after_product = re.search(r"[A-Za-z]/$", match.string[max(0, match.start() - 2) : match.start()])
    return not after_product and all(int(octet) <= 255 for octet in match["host"].split("."))


def _is_v6(match: re.Match[str]) -> bool:
    try:
        ipaddress.IPv6Address(match[0])
    except ValueError:
        return False
    return bool(re.search(r"\d", match[0]))


def _is_file(match: re.Match[str]) -> bool:
    named = _NAMES["called_host"].search(match.string[max(0, match.start() - 30) : match.start()])
    return not named and match["host"].rsplit(".", 1)[1].lower() in WORDS["files"]


def _is_host(match: re.Match[str]) -> bool:
    """Say whether a dotted word is a host or file, and not a Wireshark field, "e.g" or "log.It"."""
    labels = match["host"].split(".")
    last = labels[-1]
    if last.lower() in WORDS["sample_files"] and _is_file(match):
        return False  # an answer may name the file of the sample freely
    run_on = last not in (last.lower(), last.upper())
    return (
        not run_on
        and labels[0].lower() not in WORDS["fields"]
        and any(len(label) > 1 for label in labels[:-1])
    )


_ACCEPTED: Final[dict[str, Callable[[re.Match[str]], bool]]] = {
    **{"v4": _is_v4, "v6": _is_v6, "host": _is_host},
    "url": lambda match: bool(re.search(r"\w", match["host"])),
}


# --- numbers ----------------------------------------------------------------------------------------------------------

NUMBER_WORDS: Final = dict(zip(WORDS["numbers"], [*range(20), *range(20, 100, 10)], strict=True))
_SCALES: Final[dict[str, tuple[float, ...]]] = {
    unit: tuple(factors) for units, factors in SOURCES["scales"].items() for unit in units.split()
}


@dataclass(frozen=True)
class Number:
    """A number in a text: as it may be read (NaN if unreadable), and these values in the base unit."""

    readings: tuple[float, ...]
    values: tuple[float, ...]
    text: str
    unit: str
    start: int
    end: int

    @property
    def written(self) -> float:
        """Return the likeliest reading."""
        return self.readings[0]


def numbers(text: str) -> tuple[Number, ...]:
    """Return the numbers that a text names as digits or words, without digits of addresses, paths and the like."""
    return numbers_in(scan(text)[1])


def numbers_in(bare: str) -> tuple[Number, ...]:
    """Return the numbers of a text in which everything else that holds digits is blanked out."""
    digits = [number for match in _NUMBERS["digits"].finditer(bare) for number in _numbers(match)]
    blanked = _NUMBERS["digits"].sub(lambda m: "\0" * (m.end("half") - m.start()) + (m["unit"] or ""), bare)
    words = [_worded(match) for match in _NUMBERS["words"].finditer(blanked)]
    ordered = sorted((*digits, *words), key=lambda number: number.start)
    if len(ordered) > 1:  # "one" beside other numbers is usually a pronoun
        ordered = [number for number in ordered if number.text.lower() != "one"] or ordered[:1]
    return tuple(ordered)


def _numbers(match: re.Match[str]) -> Iterator[Number]:
    """Yield the number of a match, or each of several that blanks or commas join."""
    text, start, end = match.string, match.start("digits"), match.end("number")
    groups, mark, unit = re.split(r"\D", match["digits"]), match["mark"] or "", (match["unit"] or "").strip()
    name, touching = unit.lower(), bool(unit) and not match["unit"][0].isspace()
    if _is_list(match, groups, mark):
        for part in re.finditer(r"\d+", match["digits"]):
            value, position = (float(part[0]),), start + part.start()
            yield Number(value, value, part[0], "", position, position + len(part[0]))
        return
    code = re.fullmatch(r"[1-5]\d\d", match["number"])
    if code and touching and name == "s" and _NUMBERS["plural"].search(text[max(0, start - 24) : start]):
        unit = name = ""  # "are 204s" are no seconds
    singular = name.rstrip("s") if len(unit) > 2 and not name.endswith("ms") else name
    scale = _SCALES.get(name) or _SCALES.get(singular) or (1.0,)
    if touching and name == "k":
        scale = (1e3,)
    elif touching and unit and scale == (1.0,) and name not in WORDS["touching_units"]:
        return  # "12th", "0x1f", "5a3f"
    written = ["".join(groups)]
    if match["rest"]:
        written = [f"{written[0]}.{match['rest'][1:]}"]
    elif len(groups) == 2 and mark in (",", "."):  # a mark of thousands or of decimals; bytes are whole
        written.insert(mark == "," or name in ("b", "byte", "bytes"), ".".join(groups))
    after_word = text[max(0, match.start() - 1) : match.start()].isalnum()
    sign = "" if after_word else match["sign"] or ""
    minus, more = (-1 if sign in ("-", "−") else 1), 0.5 if match["half"] else 0.0
    readings = tuple(minus * (float(value + (match["power"] or "")) + more) for value in written)
    values = tuple(value * factor for value in readings for factor in scale)
    yield Number(readings, values, text[start - len(sign) : end], unit, start - len(sign), end)


def _is_list(match: re.Match[str], groups: Sequence[str], mark: str) -> bool:
    """Say whether blanks or commas join several numbers ("200 301") and no groups of three digits ("2 496 bytes")."""
    text, start, following = match.string, match.start("digits"), match.string[match.end("number") :][:16]
    codes = [bool(re.fullmatch(r"[1-5]\d\d", group)) for group in groups]
    if mark == ",":
        return all(codes) and (len(groups) > 2 or text[max(0, start - 1) : start] == "[")
    counts_codes = codes[-1] and _NUMBERS["counted_codes"].match(following)
    alone = not re.search(r"\w", following or text[:start])
    joined = not all(codes) and not counts_codes and (alone or _NUMBERS["joins_blank"].match(following))
    return mark == " " and not joined


def _worded(match: re.Match[str]) -> Number:
    word, unit = match["word"].lower(), (match["unit"] or "").lower()
    tens, ones = NUMBER_WORDS.get(word, 0.5), NUMBER_WORDS[(match["ones"] or "zero").lower()]
    unread = match["large"] or (ones and tens < 20) or (word == "half" and not unit)
    value = float("nan") if unread else tens + ones + (0.5 if match["half"] else 0.0)
    scale = _SCALES.get(unit) or _SCALES.get(unit.rstrip("s")) or (1.0,)
    start, end = match.start(), max(match.end(name) for name in ("word", "ones", "large", "half"))
    values = tuple(value * factor for factor in scale)
    return Number((value,), values, match.string[start:end], unit, start, end)

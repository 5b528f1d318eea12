"""Find the addresses, hosts, ports, paths, programs and similar names in a text, with their positions.

Replies are hostile: every pattern takes time that is linear in the length of the text. Defanged names
(``hxxp://evil[.]example``) are restored.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Final

_TEXT: Final = (resources.files("toolkit.traffic") / "words.toml").read_text(encoding="utf-8")
WORDS: Final = {name: frozenset(text.split()) for name, text in tomllib.loads(_TEXT).items()}


def alternatives(name: str) -> str:
    """Return a pattern of one list, the longest first; ``_`` in it stands for a blank."""
    return "|".join(sorted((word.replace("_", " ") for word in WORDS[name]), key=len, reverse=True))


METHODS: Final = ("GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT")
_SAMPLE_FILES: Final = frozenset({"csv", "pcap", "pcapng", "cap"})
"""File types of the sample itself, which an answer may name freely."""
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?"
_TAIL: Final = r"""(?::(?P<port>\d{1,5})(?![\w.]))?(?P<path>/[^\s<>"'`|\\^{}\x00]*)?"""
_HOST_PATTERN: Final = (
    rf"(?i)(?<![\w.@*/=$-])(?P<host>(?:{_LABEL}\.){{1,8}}[a-z]{{2,24}})(?![\w@(=-]|\.\w)" + _TAIL
)
_PATTERNS: Final = {
    "url": r"(?i)(?<!\w)(?:https?|wss?|ftp)://(?P<host>\[[0-9a-f:.]{2,45}\]|[^\s<>\"'`/:?#|\\^{}\[\]()\x00]{1,255})"
    + _TAIL,
    "cve": r"(?i)(?<!\w)CVE-\d{4}-\d{4,7}(?!\d)",
    "email": r"(?i)(?<![\w.])[a-z0-9._+-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}(?!\w)",
    "mac": r"(?i)(?<![\w:-])[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5}"
    r"|(?:-[0-9a-f]{2}){5}|(?<=\w\w)[0-9a-f]{2}(?:\.[0-9a-f]{4}){2})(?![\w:-])",
    "v4": r"(?<![\w.])(?P<host>(?:\d{1,3}\.){3}\d{1,3})(?!\w|\.\d)" + _TAIL,
    "v6": r"(?<![\w:.])[0-9A-Fa-f:]{2,39}(?:(?<=:)(?:\d{1,3}\.){3}\d{1,3})?(?![\w:])",
    "host": _HOST_PATTERN,
    "media": r"(?i)(?<![\w./])(?:text|application|image|audio|video|font|multipart)/[\w.+-]{1,80}",
    "version": r"(?i)(?<![\w./])(?:https?|tls|ssl)/\d[\d.]*",
    "product": r"(?<![\w./])(?!(?i:tcp|udp)/)[A-Za-z][\w.+-]{0,60}/v?\d[\w.+-]*",
    "hash": r"(?i)(?<!\w)(?=[0-9a-f]*[a-f])(?=[a-f]*\d)(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})(?!\w)",
    "date": r"(?<![\w:.])(?:\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?|\d{1,2}:\d\d:\d\d)(?:\.\d+)?Z?(?!\w)",
    "sql": r"(?i)\bselect\s{1,3}[\w*]{1,30}(?:\s?,\s?[\w*]{1,30}){0,9}\s{1,3}from\s{1,3}\w{1,40}",
    "parameter": r"(?<![\w.&?/%<])(?!href|src)[A-Za-z][\w-]{0,30}=(?!=)[\"']?[^\s\"'`,;()&<>|\x00]{1,100}",
    "path": r"""(?<![\w/.:<~\\-])/(?:[\w~%.+@=&?!$:-][^\s<>"'`|\\^{}\x00]*)""",
    "root": r"""(?:(?<=["'`])/(?=["'`])|(?<=GET )/(?=\s)|(?<=POST )/(?=\s)"""
    r"""|(?<=HEAD )/(?=\s)|(?<=[|,:*-] )/(?=\s*[|,(\n]))""",
}
COMPILED: Final = {kind: re.compile(pattern) for kind, pattern in _PATTERNS.items()}
_NAMED: Final = re.compile(
    r"(?i)\b(?:host(?:name)?s?|domains?)(?:\s+(?:is|was|named|called))?[\s:\"'`*]{1,4}$"
)
_DEFANGED: Final = re.compile(
    r"(?i)\[(?:\.|dot)\]|\((?:\.|dot)\)|\{\.\}|(?<=\w)\[:\](?=\w|/)|\[://\]|\bhxxp(?=s?\W)|\\\.(?=\w)"
)


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
    for match in _DEFANGED.finditer(text):
        inner = match[0].strip("[](){}\\").lower()
        restored = {"dot": ".", "hxxp": "http"}.get(inner, inner)
        pieces += [text[last : match.start()], restored]
        positions += [*range(last, match.start()), *[match.start()] * len(restored)]
        last = match.end()
    return "".join([*pieces, text[last:]]), [*positions, *range(last, len(text) + 1)]


def mentions(text: str) -> tuple[Mention, ...]:
    """Return the names in a text, in the order of the text."""
    return scan(text)[0]


def canonical_address(value: str) -> str:
    """Return an address in its shortest form; other text as it is, in lower case."""
    try:
        return str(ipaddress.ip_address(value.strip("[]")))
    except ValueError:
        return value.lower()


def scan(text: str) -> tuple[tuple[Mention, ...], str]:
    """Return the mentions of a text, and the text with them blanked out."""
    # The kinds are looked for one after another, each in what the ones before it have left.
    results: list[Mention] = []
    bare = text
    for kind, pattern in COMPILED.items():
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
    """Return what a match of one kind names; nothing where it is something else."""
    text = match[0]
    if kind in _ACCEPTED:
        if _ACCEPTED[kind](match):
            yield from _authority_mentions(match)
    elif kind == "root":
        yield _path_mention(match.string, text, match.start())
    elif kind == "path":
        path = _trimmed(text)
        if path and not re.fullmatch(r"/\d{1,3}", path):  # " /24" is a prefix length
            yield _path_mention(match.string, path, match.start())
    elif kind != "version":
        text = text.rstrip(".,;:*_") if kind in ("product", "media", "parameter") else text
        yield Mention(kind, text, text.lower(), match.start(), match.start() + len(text))


def _authority_mentions(match: re.Match[str]) -> Iterator[Mention]:
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
    is_file = match.re is COMPILED["host"] and _is_file(match)
    yield Mention("address" if is_address else "file" if is_file else "host", host, value, start, end)
    if port := groups.get("port"):
        yield Mention("port", port, str(int(port)), match.start("port"), match.end("port"))
    if path and (path != "/" or match.re is not COMPILED["url"]):
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
    if match[0].count(":") < 2 or not re.search(r"\d", match[0]):
        return False
    try:
        ipaddress.IPv6Address(match[0])
    except ValueError:
        return False
    return True


def _is_file(match: re.Match[str]) -> bool:
    named = _NAMED.search(match.string[max(0, match.start() - 30) : match.start()])
    return not named and match["host"].rsplit(".", 1)[1].lower() in WORDS["files"]


def _is_host(match: re.Match[str]) -> bool:
    """Say whether a dotted word is a host or file, and not a Wireshark field, "e.g" or "log.It"."""
    labels = match["host"].split(".")
    last = labels[-1]
    if last.lower() in _SAMPLE_FILES and _is_file(match):
        return False
    run_on = last != last.lower() and last != last.upper()
    return (
        not run_on
        and labels[0].lower() not in WORDS["fields"]
        and any(len(label) > 1 for label in labels[:-1])
    )


_ACCEPTED: Final[dict[str, Callable[[re.Match[str]], bool]]] = {
    **{"v4": _is_v4, "v6": _is_v6, "host": _is_host},
    "url": lambda match: bool(re.search(r"\w", match["host"])),
}

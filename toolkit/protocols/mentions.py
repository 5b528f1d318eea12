"""What a text names: addresses, hosts, ports and URL paths, each with its place in the text.

Replies are hostile: every pattern here takes time that grows with the length of the text and not faster.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

_LABELS: Final = (
    "example test invalid localhost local lan internal intranet corp home onion "
    "com org net edu gov mil int io co biz xyz cloud online tech store shop "
    "ru cn de uk fr au nl eu ca jp br es ch se pl kr tv cc tk"
)
TOP_LEVEL: Final = frozenset(_LABELS.split())
"""Last labels that make a dotted word a host name. Endings that are words or file types ("it", "me", "py") are
left out: "the log.It shows" and "setup.py" are no hosts."""
METHODS: Final = ("GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT")
_TAIL: Final = r"""(?::(?P<port>\d{1,5})(?![\w.]))?(?P<path>/[^\s<>"'`|\\^{}\x00]*)?"""
_URL: Final = re.compile(
    r"(?i)(?<!\w)https?://(?P<host>\[[0-9a-f:.]{2,45}\]|[^\s<>\"'`/:?#|\\^{}\[\]()\x00]{1,255})" + _TAIL
)
_V4: Final = re.compile(r"(?<![\w.])(?P<host>(?:\d{1,3}\.){3}\d{1,3})(?!\w|\.\d)" + _TAIL)
_V6: Final = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{2,39}(?:(?<=:)(?:\d{1,3}\.){3}\d{1,3})?(?![\w:])")
_HOST: Final = re.compile(
    r"(?i)(?<![\w.@*/-])(?P<host>(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24})(?![\w@(-]|\.\w)"
    + _TAIL
)
_NAMED: Final = re.compile(
    r"(?i)\b(?:host(?:name)?s?|domains?)(?:\s+(?:is|was|named|called))?[\s:\"'`*]{1,4}$"
)
_PATH: Final = re.compile(r"""(?<![\w/.:<~\\-])/(?:[\w~%.+@=&?!$:-][^\s<>"'`|\\^{}\x00]*)""")
_ROOT: Final = re.compile(
    r"""(?:(?<=["'`])/(?=["'`])|(?<=GET )/(?=\s)|(?<=POST )/(?=\s)|(?<=HEAD )/(?=\s))"""
)
_PRODUCT: Final = re.compile(r"(?<![\w./])[A-Za-z][\w.+-]{0,60}/v?\d[\w.+-]*")
_HARDWARE: Final = re.compile(r"(?i)(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])")
_TIME: Final = re.compile(
    r"(?<![\w:.])\d{1,4}[:-]\d{1,2}[:-]\d{1,2}(?:[T ]\d\d:\d\d(?::\d\d)?)?(?:\.\d+)?Z?(?!\w)"
)
_Accept = Callable[[re.Match[str], str, Collection[str]], bool]


@dataclass(frozen=True)
class Mention:
    """One thing a text names.

    Parameters
    ----------
    kind
        ``address``, ``network``, ``host``, ``port`` or ``path``.
    text
        As it is written.
    value
        In the form in which two mentions of one thing are equal.
    start, end
        Its place in the text, in characters.
    open_end
        Whether the text goes on with a wildcard or dots, so that only the beginning is named.
    """

    kind: str
    text: str
    value: str
    start: int
    end: int
    open_end: bool = False


def mentions(text: str, suffixes: Collection[str] = ()) -> tuple[Mention, ...]:
    """Return the addresses, hosts, ports and URL paths that a text names, in the order of the text.

    Parameters
    ----------
    text
        Any text.
    suffixes
        Last labels that make a dotted word a host name, beside ``TOP_LEVEL``.

    Returns
    -------
    tuple of Mention

    Examples
    --------
    >>> [(m.kind, m.value) for m in mentions("GET http://shop.example:8080/cart from 10.0.0.7.")]
    [('host', 'shop.example'), ('port', '8080'), ('path', '/cart'), ('address', '10.0.0.7')]
    """
    return _scan(text, suffixes)[0]


def without_mentions(text: str, suffixes: Collection[str] = ()) -> str:
    """Return the text, as long as it was, with everything that `mentions` finds, products and times blanked out.

    Examples
    --------
    >>> without_mentions("3 of HTTP/1.1 on 10.0.0.7").replace(chr(0), "_")
    '3 of ________ on ________'
    """
    return _scan(text, suffixes)[1]


def same_address(value: str) -> str:
    """Return an address in its shortest form; other text as it is, in lower case.

    Examples
    --------
    >>> same_address("FE80:0:0:0:0:0:0:1"), same_address("shop.example")
    ('fe80::1', 'shop.example')
    """
    try:
        return str(ipaddress.ip_address(value.strip("[]")))
    except ValueError:
        return value.lower()


def _scan(text: str, suffixes: Collection[str]) -> tuple[tuple[Mention, ...], str]:
    """Find the kinds one after another, each in what the ones before it have left."""
    found: list[Mention] = []
    bare = text
    for pattern, accept in ((_URL, _any_host), (_V4, _is_v4), (_V6, _is_v6), (_HOST, _is_host)):
        bare = _take(pattern, accept, bare, suffixes, found)
    for pattern in (_HARDWARE, _TIME, _PRODUCT):
        bare = pattern.sub(lambda match: "\0" * len(match[0]), bare)

    def take_path(match: re.Match[str]) -> str:
        path = _trimmed(match[0])
        if not path or re.fullmatch(r"/\d{1,3}", path):  # " /24" is a prefix length
            return match[0]
        found.append(_path_mention(match.string, path, match.start()))
        return "\0" * len(match[0])

    bare = _PATH.sub(take_path, bare)
    found += [Mention("path", "/", "/", match.start(), match.end()) for match in _ROOT.finditer(bare)]
    return tuple(sorted(found, key=lambda mention: mention.start)), bare


def _take(
    pattern: re.Pattern[str], accept: _Accept, bare: str, suffixes: Collection[str], found: list[Mention]
) -> str:
    pieces, last = [], 0
    for match in pattern.finditer(bare):
        if not accept(match, bare, suffixes):
            continue
        made, end = tuple(_of_authority(match, bare)), match.end()
        if made:
            end = max(mention.end for mention in made)
        found.extend(made)
        pieces += [bare[last : match.start()], "\0" * (end - match.start())]
        last = end
    return "".join([*pieces, bare[last:]])


def _of_authority(match: re.Match[str], text: str) -> Iterator[Mention]:
    """Return the host or address of a match, and the port and path that follow it."""
    groups = match.groupdict()
    host = groups.get("host") or match[0]
    start = match.start("host") if "host" in groups else match.start()
    end = start + len(host)
    value = same_address(host.rstrip("."))
    is_address = ":" in value or bool(re.fullmatch(r"[\d.]+", value))
    path = _trimmed(groups.get("path") or "")
    if is_address and (prefix := re.fullmatch(r"/\d{1,3}", path)):
        yield Mention("network", host + prefix[0], value + prefix[0], start, end + len(prefix[0]))
        return
    yield Mention("address" if is_address else "host", host, value, start, end)
    if port := groups.get("port"):
        yield Mention("port", port, str(int(port)), match.start("port"), match.end("port"))
    if path and (path != "/" or match.re is not _URL):
        yield _path_mention(text, path, match.start("path"))


def _path_mention(text: str, path: str, start: int) -> Mention:
    end = start + len(path)
    following = text[end : end + 3]
    open_end = following.startswith(("...", "…", "*", "{", "<")) or path.endswith(("*", "…"))
    return Mention("path", path, path.rstrip("*…"), start, end, open_end)


def _trimmed(path: str) -> str:
    """Take off the punctuation of the sentence around a path; a bracket that it opened itself stays."""
    path = path.rstrip(".,;:!?*_")
    for opening, closing in ("()", "[]"):
        if path.endswith(closing) and opening not in path:
            path = path.rstrip(closing + ".,;:!?*_")
    return path


def _any_host(match: re.Match[str], text: str, suffixes: Collection[str]) -> bool:
    return bool(re.search(r"\w", match["host"]))


def _is_v4(match: re.Match[str], text: str, suffixes: Collection[str]) -> bool:
    # "Chrome/120.0.0.0" is a version; octets beyond 255 are one too.
    after_product = re.search(r"[A-Za-z]/$", text[max(0, match.start() - 2) : match.start()])
    return not after_product and all(int(octet) <= 255 for octet in match["host"].split("."))


def _is_v6(match: re.Match[str], text: str, suffixes: Collection[str]) -> bool:
    if match[0].count(":") < 2 or not re.search(r"\d", match[0]):
        return False
    try:
        ipaddress.IPv6Address(match[0])
    except ValueError:
        return False
    return True


def _is_host(match: re.Match[str], text: str, suffixes: Collection[str]) -> bool:
    last = match["host"].rsplit(".", 1)[1].lower()
    return (
        last in TOP_LEVEL
        or last in suffixes
        or bool(_NAMED.search(text[max(0, match.start() - 30) : match.start()]))
    )

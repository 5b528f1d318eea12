"""Replace addresses by pseudonyms: one key gives one mapping, and a common prefix of two addresses stays common.

The mapping is a keyed permutation of the tree of prefixes after Xu, Fan, Ammar and Moon (ICNP 2002), with BLAKE2b: bit
i is inverted or not by a keyed bit of the bits before it. Kept: equality, length of common prefixes, and the kind of
an address (private, multicast, loopback, IPv4 in IPv6 ...), so a public IPv4 address keeps about its first four bits.
Lost: the owner, directed broadcasts, and the tie between a MAC and an address made from it. It protects a sample that
is shared, not one that is attacked: who knows some pairs knows a prefix of the others.
"""

import ipaddress
import re
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from urllib.parse import unquote

from toolkit.errors import InputError
from toolkit.files.reading import read_text

_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_DOT = r"(?:\.|%2[eE])"
_COLON = r"(?::|%3[aA])"
_AFTER_ESCAPE = r"(?<=%[0-9A-Fa-f]{2})"
_QUAD = rf"{_OCTET}(?:{_DOT}{_OCTET}){{3}}"
_IPV4 = rf"(?:{_AFTER_ESCAPE}|(?<!\d)(?<!\d\.)){_QUAD}(?!\d|\.\d)"
_VERSION4 = rf"(?<![A-Za-z]/){_IPV4}"
_COLONS = (
    rf"(?:{_AFTER_ESCAPE}|(?<![0-9A-Za-z:]))(?:[0-9A-Fa-f]{{0,4}}{_COLON}){{2,7}}(?:{_QUAD}|[0-9A-Fa-f]{{0,4}})"
    r"(?![0-9A-Za-z:])"
)
_DASHED_MAC = r"(?P<dashed>(?<![0-9A-Za-z-])[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}(?![0-9A-Za-z-]))"
# One pass: what was replaced is never looked at again, or an IPv4 address in an IPv6 address is mapped twice.
_ANY, _ANY_VERSION = (re.compile(f"{_COLONS}|{_DASHED_MAC}|{quad}") for quad in (_IPV4, _VERSION4))


@dataclass(frozen=True)
class Pseudonyms:
    """The mapping of one key."""

    key: str
    unchanged: set[str] = field(default_factory=set, compare=False)
    """Addresses met so far whose pseudonym is themselves: they name no machine (``127.0.0.1``, broadcast, ...)."""

    def __post_init__(self) -> None:
        if not self.key:
            raise InputError("pseudonyms: the key is empty; make one with: openssl rand -hex 32")

    def __repr__(self) -> str:
        """Say nothing of the key, which would end in a traceback or a notebook."""
        return "Pseudonyms(key=hidden)"

    def address(self, text: str) -> str:
        """Return the pseudonym of an address, or the text as it is when it is none."""
        pseudonym, unchanged = _address(self.key, text)
        if unchanged:
            self.unchanged.add(pseudonym)
        return pseudonym

    def text(self, text: str, *, versions: bool = False) -> str:
        """Return a text with every address in it replaced, percent-encoded dots and colons included."""
        quad = _VERSION4 if versions else _IPV4

        def replace(match: re.Match[str]) -> str:
            if match["dashed"]:
                return self.address(match[0].replace("-", ":")).replace(":", "-")
            changed = self._plain(match[0])
            # Colons that are no address may stand before one: "80:192.0.2.1".
            return changed if changed != match[0] else re.sub(quad, lambda f: self._plain(f[0]), changed)

        return (_ANY_VERSION if versions else _ANY).sub(replace, text)

    def _plain(self, written: str) -> str:
        plain = unquote(written)
        changed = self.address(plain)
        return written if changed == plain else changed


def read_key(path: Path) -> str:
    """Return the key in a file: its text without the white space around it."""
    key = read_text(path, what="key").strip()
    if not key:
        raise InputError(f"{path}: holds no key; make one with: openssl rand -hex 32 > {path}")
    return key


@lru_cache(maxsize=65_536)
def _address(key: str, text: str) -> tuple[str, bool]:
    """Return the pseudonym of an address, and whether it is the address itself."""
    if re.fullmatch(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}", text):
        number = int(text.replace(":", ""), 16)
        card = _permute(key, "mac", number).to_bytes(6, "big").hex(":")
        return card, card == text.lower()
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text, False
    number, network = int(address), ""
    if address.version == 6 and (number >> 32 << 32, 96) not in _FIXED["ipv6"][1]:
        mapped = _permute(key, "ipv6", number)
        return str(ipaddress.IPv6Address(mapped)), mapped == number
    if address.version == 6:
        network = str(ipaddress.IPv6Address(number >> 32 << 32)).removesuffix("0:0")
    number &= 0xFFFFFFFF
    mapped = _permute(key, "ipv4", number)
    return network + str(ipaddress.IPv4Address(mapped)), mapped == number


def _permute(key: str, kind: str, number: int) -> int:
    """Turn over each bit or not by a keyed bit of the bits before it, unless it is fixed.

    Fixed are the bits on the way to a network that maps onto itself.
    """
    width, networks, always = _FIXED[kind]
    secret = blake2b(key.encode(), digest_size=32, person=b"toolkit samples").digest()
    result = 0
    for index in range(width):
        before = number >> (width - index)
        bit = number >> (width - index - 1) & 1
        on_path = any(index < length and first >> (width - index) == before for first, length in networks)
        if not (on_path or index in always):
            keyed = blake2b(f"{kind}/{index}/{before}".encode(), digest_size=1, key=secret).digest()
            bit ^= keyed[0] & 1
        result = result << 1 | bit
    return result


def _networks(texts: str) -> tuple[tuple[int, int], ...]:
    networks = map(ipaddress.ip_network, texts.split())
    return tuple((int(network.network_address), network.prefixlen) for network in networks)


_IPV4_NETWORKS = (
    "0.0.0.0/32 127.0.0.1/32 127.0.0.0/8 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 169.254.0.0/16 224.0.0.0/4 "
    "255.255.255.255/32"
)
# The last two carry an IPv4 address in 32 bits (RFC 4291, RFC 6052), which has the pseudonym that it has alone.
_IPV6_NETWORKS = "::/128 ::1/128 fe80::/10 fc00::/7 ff00::/8 ::ffff:0:0/96 64:ff9b::/96"
# Of each kind of address: its bits, the networks that map onto themselves, and bits that never change: those that say
# whether a MAC is locally administered, and whether it is a group.
_FIXED = {
    "ipv4": (32, _networks(_IPV4_NETWORKS), ()),
    "ipv6": (128, _networks(_IPV6_NETWORKS), ()),
    "mac": (48, ((0, 48), (2**48 - 1, 48)), (6, 7)),
}

r"""From what tshark says of a packet to a row of a sample; both readers hand their records to this one function.

A record holds one string a field of ``asked_fields``: empty where the packet has no such field, and several
values joined by a carriage return, which no value can hold because tshark writes one as ``\r``. Backspace, tab, line
feed and form feed inside a value are ``\b``, ``\t``, ``\n`` and ``\f`` in the same way; a backslash stays as it is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

Record = tuple[str, ...]
Row = tuple[str | None, ...]

SEVERAL: Final = "\r"
_FIELDS: Final = (
    "frame.number",
    "frame.time_relative",
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "eth.src",
    "eth.dst",
    "tcp.srcport",
    "tcp.dstport",
    "udp.srcport",
    "udp.dstport",
    "_ws.col.protocol",
    "frame.len",
    "tcp.flags",
    "tcp.stream",
    "http.request.method",
    "http.host",
    "http.request.uri",
    "http.response.code",
    "http.content_type",
    "http.user_agent",
    "tcp.len",
)
_METHOD: Final = _FIELDS.index("http.request.method")
_STATUS: Final = _FIELDS.index("http.response.code")
_FLAGS: Final = (
    "FIN",
    "SYN",
    "RST",
    "PSH",
    "ACK",
    "URG",
    "ECE",
    "CWR",
    "AE",
)  # bit 0 upwards, as in RFC 9293
_QUOTING: Final = frozenset({"icmp", "icmpv6"})


def asked_fields(version: tuple[int, ...]) -> tuple[str, ...]:
    """Return the fields to ask tshark for.

    Parameters
    ----------
    version
        Of tshark, e.g. ``(4, 0, 17)``.

    Returns
    -------
    tuple of str
        In the order of a record. Before 4.2 a column is known by its title only, and an unknown one is silently empty.

    Examples
    --------
    >>> asked_fields((4, 0, 17))[13], asked_fields((4, 4, 0))[13]
    ('_ws.col.Protocol', '_ws.col.protocol')
    """
    if version >= (4, 2):
        return _FIELDS
    return tuple("_ws.col.Protocol" if field == "_ws.col.protocol" else field for field in _FIELDS)


def cells_of(record: Record) -> tuple[str, ...]:
    """Return the row of a sample for one record, one text a column of ``COLUMNS``; empty where it is missing.

    Of several values of a field the first counts, which is the outermost. What an ICMP error quotes belongs to
    another packet, so its ports, stream and HTTP fields are left out.

    Parameters
    ----------
    record
        As both readers give it.

    Returns
    -------
    tuple of str
        As long as ``COLUMNS``.

    Examples
    --------
    >>> record = ("3", "0.5", "eth:ethertype:arp", *[""] * 4, "02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff")
    >>> cells_of((*record, *[""] * 4, "ARP", "42", *[""] * 9))[:5]
    ('3', '0.5', '02:00:00:00:00:01', 'ff:ff:ff:ff:ff:ff', '')
    """
    if SEVERAL in "".join(record):
        record = tuple(value.partition(SEVERAL)[0] for value in record)
    network, transport, quotes = _layers(record[2])
    ports = record[transport : transport + 2] if transport else _NO_PORTS
    packet = (record[0], record[1], record[network], record[network + 1], *ports, record[13], record[14])
    if quotes:
        return packet + _NO_MORE
    return (*packet, _flags(record[15]), *record[16:])


def row_of(record: Record) -> Row:
    """Return the same as ``cells_of`` with ``None`` where a value is missing.

    Parameters
    ----------
    record
        As both readers give it.

    Returns
    -------
    tuple of str or None
        As long as ``COLUMNS``.
    """
    return tuple(cell or None for cell in cells_of(record))


def holds_several_messages(record: Record) -> bool:
    """Say whether a packet holds more than one HTTP request or reply, of which a row shows the first.

    Parameters
    ----------
    record
        As both readers give it.

    Returns
    -------
    bool
        True for pipelined requests or replies that share a packet.
    """
    return SEVERAL in record[_METHOD] or SEVERAL in record[_STATUS]


_NO_PORTS: Final = ("", "")
_NO_MORE: Final = ("",) * 9


@lru_cache(maxsize=4096)
def _layers(protocols: str) -> tuple[int, int, bool]:
    """Return where the record holds the outermost address and port (0: none), and whether the packet quotes another."""
    layers = protocols.split(":")
    end = next((index for index, layer in enumerate(layers) if layer in _QUOTING), len(layers))
    own = layers[:end]
    network = next((_NETWORK[layer] for layer in own if layer in _NETWORK), _FIELDS.index("eth.src"))
    transport = next((_TRANSPORT[layer] for layer in own if layer in _TRANSPORT), 0)
    return network, transport, end < len(layers)


_NETWORK: Final = {"ip": _FIELDS.index("ip.src"), "ipv6": _FIELDS.index("ipv6.src")}
_TRANSPORT: Final = {"tcp": _FIELDS.index("tcp.srcport"), "udp": _FIELDS.index("udp.srcport")}


@lru_cache(maxsize=1024)
def _flags(value: str) -> str:
    if not value:
        return ""
    bits = int(value, 16)
    return ",".join(name for bit, name in enumerate(_FLAGS) if bits >> bit & 1) or "none"

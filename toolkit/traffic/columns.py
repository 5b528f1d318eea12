r"""The columns of a sample, and how tshark's record of a packet becomes a row; both readers use this.

A record has one string for each field of ``tshark_fields``, empty where the packet lacks it; several values are joined
by a carriage return. Inside values tshark escapes control characters (``\r``, ``\b``, ``\t``, ``\n``, ``\f``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from toolkit.errors import InputError
from toolkit.words import choices

COLUMNS: Final = {
    "number": "Int64",
    "time": "float64",
    "source": "string",
    "destination": "string",
    "source_port": "Int64",
    "destination_port": "Int64",
    "protocol": "string",
    "length": "Int64",
    "tcp_flags": "string",
    "stream": "Int64",
    "method": "string",
    "host": "string",
    "uri": "string",
    "status": "Int64",
    "content_type": "string",
    "user_agent": "string",
    "payload_length": "Int64",
}
"""Name and dtype; time in s since the first packet, lengths in bytes, addresses and ports of the innermost packet."""
NAMES: Final = tuple(COLUMNS)


def choose(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns of these names, in the order given; all of them for ``None``."""
    chosen = (names,) if isinstance(names, str) else NAMES if names is None else tuple(names)
    if unknown := [name for name in chosen if name not in COLUMNS]:
        raise InputError(
            f"column {unknown[0]!r} of a sample: there is none; {choices(unknown[0], NAMES, 'choose from')}"
        )
    if not chosen:
        raise InputError("columns of a sample: name at least one, or leave them out for all")
    if len(set(chosen)) < len(chosen):
        raise InputError(f"columns of a sample: one is named twice in {', '.join(chosen)}")
    return chosen


Record = tuple[str, ...]

SEVERAL: Final = "\r"
_FIELDS: Final = (
    *("frame.number", "frame.time_relative", "frame.protocols", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst"),
    *("eth.src", "eth.dst", "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport", "_ws.col.protocol"),
    *("frame.len", "tcp.flags", "tcp.stream", "http.request.method", "http.host", "http.request.uri"),
    *("http.response.code", "http.content_type", "http.user_agent", "tcp.len"),
    *("frame.cap_len", "http.request.version", "http.request.line", "http.response.line"),
)
_AT: Final = {field: index for index, field in enumerate(_FIELDS)}
CUT: Final = "[cut]"
"""Ends a cell whose value was cut off by a snap length (``tcpdump -s``)."""
_HEADERS: Final = {"host": "host", "user-agent": "user_agent", "content-type": "content_type"}
# Bit 0 upwards, as in RFC 9293.
_FLAGS: Final = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE")
_QUOTING: Final = frozenset({"icmp", "icmpv6"})
_NETWORK: Final = {name: _AT[f"{name}.src"] for name in ("eth", "ip", "ipv6")}
_TRANSPORT: Final = {name: _AT[f"{name}.srcport"] for name in ("tcp", "udp")}


def tshark_fields(version: tuple[int, ...]) -> tuple[str, ...]:
    """Return the fields to ask tshark for."""
    if version >= (4, 2):
        return _FIELDS
    return tuple("_ws.col.Protocol" if field == "_ws.col.protocol" else field for field in _FIELDS)


def row_cells(record: Record) -> tuple[str, ...]:
    """Return the row of a sample for one record, one text a column of ``COLUMNS``; empty where it is missing.

    A row shows the innermost packet of a tunnel, the first of several HTTP messages, and nothing that an ICMP error
    quotes. In a packet that was captured in part, cells that may be incomplete end with ``CUT``.
    """
    special, cut = peculiarities(record), set()
    if "cut" in special:
        cut.add("protocol")  # it rests on all layers
    if (
        "cut" in special and "several" not in special
    ):  # of several messages the row shows the first, which is complete
        lines = record[_AT["http.request.line"]] or record[_AT["http.response.line"]]
        last = lines.split(SEVERAL)[-1]
        if not lines and not record[_AT["http.request.version"]]:
            cut.add("uri")
        elif not last.endswith("\\n"):
            cut.add(_HEADERS.get(last.partition(":")[0].strip().lower(), "protocol"))
    named = zip(NAMES, _cells(record), strict=True)
    return tuple(f"{cell}{CUT}" if cell and name in cut else cell for name, cell in named)


def peculiarities(record: Record) -> set[str]:
    """Return what is special about a packet.

    Captured in part (cut), several HTTP messages, inside a tunnel, or of a protocol that is not decoded.
    """
    protocols = record[_AT["frame.protocols"]]
    signs = {
        "cut": int(record[_AT["frame.cap_len"]] or 0) < int(record[_AT["frame.len"]] or 0),
        "several": any(SEVERAL in record[_AT[f"http.{end}"]] for end in ("request.method", "response.code")),
        "tunnelled": _layers(protocols).inner,
        "http2": "http2" in protocols.split(":"),
        "sctp": "sctp" in protocols.split(":"),
    }
    return {name for name, special in signs.items() if special}


def _cells(record: Record) -> tuple[str, ...]:
    layers = _layers(record[_AT["frame.protocols"]])

    def value(field: int, occurrence: int = 0) -> str:
        values = record[field].split(SEVERAL)
        return values[min(occurrence, len(values) - 1)]

    def pair(field: int, occurrence: int) -> tuple[str, str]:
        return (value(field, occurrence), value(field + 1, occurrence)) if field else ("", "")

    ends = (*pair(layers.network, layers.network_occurrence), *pair(layers.transport, layers.occurrence))
    head = (value(0), value(1), *ends, value(_AT["_ws.col.protocol"]), value(_AT["frame.len"]))
    if layers.quotes:
        return (*head, *("",) * 9)
    flags, stream, length = (
        value(_AT[f"tcp.{name}"], layers.occurrence) for name in ("flags", "stream", "len")
    )
    http = (value(field) for field in range(_AT["http.request.method"], _AT["tcp.len"]))
    return (*head, _flags(flags), stream, *http, length)


class _Layers(NamedTuple):
    network: int  # where the record holds the innermost address of the sender
    network_occurrence: int  # which of the values of that field it is, 0 for the outermost
    transport: int  # the same for the port; 0 for none
    occurrence: int
    quotes: bool
    inner: bool


@lru_cache(maxsize=4096)
def _layers(protocols: str) -> _Layers:
    """Return the fields of the innermost addresses and ports, and whether the packet quotes or carries another."""
    layers = protocols.split(":")
    end = next((index for index, layer in enumerate(layers) if layer in _QUOTING), len(layers))
    outer = layers[:end]
    networks = [index for index, layer in enumerate(outer) if layer in _NETWORK]
    last = networks[-1] if networks else 0
    network = _NETWORK.get(outer[last] if outer else "", _NETWORK["eth"])
    top = next((index for index in range(last, end) if outer[index] in _TRANSPORT), None)
    transport, occurrence = (0, 0) if top is None else (_TRANSPORT[outer[top]], outer[:top].count(outer[top]))
    carried = any(outer[index] != "eth" for index in networks[:-1])
    return _Layers(
        network,
        outer[:last].count(outer[last]) if outer else 0,
        transport,
        occurrence,
        end < len(layers),
        carried,
    )


@lru_cache(maxsize=1024)
def _flags(value: str) -> str:
    if not value:
        return ""
    bits = int(value, 16)
    return ",".join(name for bit, name in enumerate(_FLAGS) if bits >> bit & 1) or "none"

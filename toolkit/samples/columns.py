"""The columns of a sample: the one place that says which there are, in which order, and what each means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toolkit.errors import InputError


@dataclass(frozen=True)
class Column:
    """One column of a sample."""

    name: str
    field: str
    dtype: str
    unit: str
    meaning: str


COLUMNS: Final[tuple[Column, ...]] = (
    Column("number", "frame.number", "Int64", "", "Position of the packet in the capture, from 1."),
    Column("time", "frame.time_relative", "float64", "s", "Time since the first packet of the capture."),
    Column(
        "source", "ip.src, ipv6.src or eth.src", "string", "", "Outermost address that sent it, else its MAC."
    ),
    Column(
        "destination",
        "ip.dst, ipv6.dst or eth.dst",
        "string",
        "",
        "Outermost address it is for, else its MAC.",
    ),
    Column("source_port", "tcp.srcport or udp.srcport", "Int64", "", "Port of the outermost TCP or UDP."),
    Column(
        "destination_port", "tcp.dstport or udp.dstport", "Int64", "", "Port of the outermost TCP or UDP."
    ),
    Column(
        "protocol", "_ws.col.protocol", "string", "", "Protocol as the list of packets in Wireshark says it."
    ),
    Column("length", "frame.len", "Int64", "byte", "Length of the frame on the wire."),
    Column(
        "tcp_flags",
        "tcp.flags",
        "string",
        "",
        "Flags that are set, such as SYN,ACK; none where no flag is set.",
    ),
    Column("stream", "tcp.stream", "Int64", "", "TCP connection within the capture, from 0."),
    Column("method", "http.request.method", "string", "", "HTTP method of a request."),
    Column("host", "http.host", "string", "", "Host header of a request."),
    Column("uri", "http.request.uri", "string", "", "Target of a request, as sent."),
    Column("status", "http.response.code", "Int64", "", "Status code of a reply."),
    Column("content_type", "http.content_type", "string", "", "Content-Type header."),
    Column("user_agent", "http.user_agent", "string", "", "User-Agent header of a request."),
    Column("payload_length", "tcp.len", "Int64", "byte", "Bytes of TCP payload."),
)
NAMES: Final[tuple[str, ...]] = tuple(column.name for column in COLUMNS)


def choose(names: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns of these names, in the order given; all of them for ``None``."""
    if names is None:
        return COLUMNS
    if isinstance(names, str):
        names = (names,)
    known = dict(zip(NAMES, COLUMNS, strict=True))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"column {unknown[0]!r} of a sample: there is none; choose from {', '.join(NAMES)}")
    if not names:
        raise InputError("columns of a sample: name at least one, or leave them out for all")
    if len(set(names)) < len(names):
        raise InputError(f"columns of a sample: one is named twice in {', '.join(names)}")
    return tuple(known[name] for name in names)

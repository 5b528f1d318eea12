r"""Start tshark and end it in any case; read a capture by PyShark; a record as a row.

A record has one string for each field of ``tshark_fields``, empty where the packet lacks it; several values are joined
by a carriage return. Inside values tshark escapes control characters (``\r``, ``\b``, ``\t``, ``\n``, ``\f``).
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Coroutine, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import cache, lru_cache
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from packaging.version import Version
from pyshark import FileCapture
from pyshark.tshark.output_parser.tshark_ek import TsharkEkJsonParser

from toolkit.errors import InputError
from toolkit.files.reading import similar_file
from toolkit.traffic.sample import CUT, NAMES, TABLE

Record = tuple[str, ...]

SEVERAL = "\r"
_FIELDS = tuple(TABLE["tshark"]["fields"])
_AT = {field: index for index, field in enumerate(_FIELDS)}
_QUOTING = ("icmp", "icmpv6")
_NETWORK = {name: _AT[f"{name}.src"] for name in ("eth", "ip", "ipv6")}
_TRANSPORT = {name: _AT[f"{name}.srcport"] for name in ("tcp", "udp")}


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
        # Of several messages the row shows the first, which is complete.
        if "several" not in special:
            lines = record[_AT["http.request.line"]] or record[_AT["http.response.line"]]
            last = lines.split(SEVERAL)[-1]
            if not lines and not record[_AT["http.request.version"]]:
                cut.add("uri")
            elif not last.endswith("\\n"):
                cut.add(TABLE["tshark"]["headers"].get(last.partition(":")[0].strip().lower(), "protocol"))
    named = zip(NAMES, _cells(record), strict=True)
    return tuple(f"{cell}{CUT}" if cell and name in cut else cell for name, cell in named)


def peculiarities(record: Record) -> set[str]:
    """Return what is special about a packet: in part, several messages, in a tunnel, a protocol that is not decoded."""
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

    ends = (*pair(*layers.network), *pair(*layers.transport))
    head = (value(0), value(1), *ends, value(_AT["_ws.col.protocol"]), value(_AT["frame.len"]))
    if layers.quotes:
        return (*head, *("",) * 9)
    tcp_fields = (_AT[f"tcp.{name}"] for name in ("flags", "stream", "len"))
    flags, stream, length = (value(field, layers.transport[1]) for field in tcp_fields)
    http = (value(field) for field in range(_AT["http.request.method"], _AT["tcp.len"]))
    return (*head, _flags(flags), stream, *http, length)


class _Layers(NamedTuple):
    network: tuple[
        int, int
    ]  # field of the innermost address of the sender, and which of its values, 0 the outermost
    transport: tuple[int, int]  # the same for the port; 0 for none
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
    transport = (0, 0) if top is None else (_TRANSPORT[outer[top]], outer[:top].count(outer[top]))
    carried = any(outer[index] != "eth" for index in networks[:-1])
    before = outer[:last].count(outer[last]) if outer else 0
    return _Layers((network, before), transport, end < len(layers), carried)


@lru_cache(maxsize=1024)
def _flags(value: str) -> str:
    if not value:
        return ""
    bits = int(value, 16)
    return ",".join(name for bit, name in enumerate(TABLE["tshark"]["flags"]) if bits >> bit & 1) or "none"


# --- the programs -----------------------------------------------------------------------------------------------------

_MOST_WORDS = 65_536  # bytes of complaints that are read; a broken capture can make tshark talkative


class DamagedCapture(InputError):
    """A capture that cannot be read to its end; raised after the last packet that could be read."""


def _find_program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise InputError(
            f"{name}: not found on PATH; install Wireshark's command line (apt-get install tshark)"
        )
    return path


@cache
def tshark_version() -> tuple[int, ...]:
    """Return the version of the installed tshark, e.g. ``(4, 0, 17)``."""
    path = _find_program("tshark")
    result = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if version := re.search(r"\(Wireshark\) (\d+)\.(\d+)\.(\d+)", result.stdout):
        return tuple(map(int, version.groups()))
    raise InputError(f"{path}: does not say its version; install Wireshark's command line again")


@contextmanager
def running(name: str, arguments: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """Run a program of Wireshark with its messages in a file, and end it in any case."""
    # In the C locale and without the user's preferences. Ctrl-C is ours: a tshark that ends quietly on it would look
    # like a short capture.
    program = _find_program(name)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WIRESHARK_")}
    with tempfile.TemporaryDirectory(prefix=f"toolkit-{name}-") as home, tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=words,
            env={**environment, "LC_ALL": "C", "HOME": home, "WIRESHARK_CONFIG_DIR": home},
            start_new_session=True,
        )
        with process:  # closes its pipe and waits for it
            try:
                yield process, words
            finally:
                process.kill()  # does nothing once it has ended


@contextmanager
def _running_tshark(arguments: Sequence[str], capture: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run tshark on a capture, and raise its error message after its output has been read."""
    with running("tshark", arguments) as (process, complaints):
        yield process
        code = process.wait()
        complaints.seek(0)
        words = complaints.read(_MOST_WORDS).decode(errors="replace")
        # As one line without its own preambles.
        lines = (line.strip() for line in words.splitlines() if not line.startswith("Running as user"))
        text = " ".join(line for line in lines if set(line) - set("^~ "))
        text = text.removeprefix("tshark: ").replace(f'The file "{capture}"', "the file")
        message = printable_line(text).removesuffix(".")
        if code < 0:
            raise InputError(
                f"{capture}: tshark was ended by signal {-code}; {message or 'it gave no reason'}"
            )
        if code:
            raise DamagedCapture(f"{capture}: {message or f'tshark ended with code {code}'}")


def check_capture(path: Path) -> None:
    """Raise InputError when there is no readable file, before any program is started on it."""
    if not path.exists():
        raise InputError(f"{path}: no such capture; {similar_file(path)}check the path")
    if not path.is_file():
        raise InputError(f"{path}: not a file; name a pcap or pcapng file")
    try:
        with path.open("rb") as stream:
            if not stream.read(1):
                raise InputError(f"{path}: the capture is empty (0 bytes); record it again")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None


def printable_line(text: str) -> str:
    r"""Return a text that cannot break a line or steer a terminal."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


# --- PyShark ----------------------------------------------------------------------------------------------------------

# As ``-T fields`` writes them; measured with tshark 4.0 for every byte, and tested.
_ESCAPED = str.maketrans({"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"})


class _Loop:
    """What PyShark takes for its event loop: runs a coroutine that never waits, so that a running kernel can use it."""

    def run_until_complete(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise RuntimeError("PyShark waits for something else than the output of tshark")


class _Output:
    """The output of a tshark that was started elsewhere, as PyShark reads it."""

    def __init__(self, pipe: BufferedReader) -> None:
        self.stdout, self._pipe = self, pipe

    async def read(self, size: int) -> bytes:
        return self._pipe.read1(size)


class _Parser(TsharkEkJsonParser):
    """PyShark's parser of the EK stream, for packets that hold a few fields in place of all layers."""

    def __init__(self) -> None:
        self._keys = [field.replace(".", "_") for field in tshark_fields(tshark_version())]

    def _parse_single_packet(self, packet: bytes) -> Record:
        layers = json.loads(packet.decode(errors="replace"))["layers"]
        return tuple(
            SEVERAL.join(text.translate(_ESCAPED) for text in layers.get(key, ())) for key in self._keys
        )


class _Capture(FileCapture):
    """PyShark's capture of a file: only the fields of a sample are requested, and tshark is in our hands.

    PyShark alone starts tshark through asyncio, which fails beside a running loop and replaces the child watcher of the
    user, and kills it at the end, which hides the exit code of a truncated capture.
    """

    def arguments(self) -> list[str]:
        return ["-n", "-T", "ek", *self.get_parameters()]

    def _setup_tshark_output_parser(self) -> _Parser:
        return _Parser()

    def _get_tshark_version(self) -> Version:
        return Version(".".join(map(str, tshark_version())))


def packet_records(capture: Path, display_filter: str | None = None) -> Generator[Record, None, None]:
    """Yield one record a packet, in the order of the capture, in constant memory; its number is that of Wireshark."""
    check_capture(capture)
    # To tshark times begin at the first frame, which may be no packet, and a filter may leave out the first packet.
    with closing(_packets(capture, None)) as packets:
        start = next((Decimal(record[1] or 0) for record in packets), 0)
    for record in _packets(capture, display_filter):
        yield (record[0], f"{Decimal(record[1]) - start:f}", *record[2:]) if start and record[1] else record


def _packets(capture: Path, display_filter: str | None) -> Generator[Record, None, None]:
    options = [word for field in tshark_fields(tshark_version()) for word in ("-e", field)]
    source = _Capture(
        str(capture.absolute()), use_ek=True, display_filter=display_filter, custom_parameters=options,
        eventloop=_Loop(),
    )  # fmt: skip
    with _running_tshark(source.arguments(), capture.absolute()) as tshark:
        output = _Output(cast(BufferedReader, tshark.stdout))
        for record in source._packets_from_tshark_sync(existing_process=output):
            # Custom blocks, a journal and reports of a device are frames to tshark; only packets came over a link.
            if record[_AT["frame.encap_type"]]:
                yield record

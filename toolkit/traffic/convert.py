"""Convert a capture into the CSV of a sample, with a JSON of its provenance beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from toolkit.errors import InputError
from toolkit.table_files import csv_text
from toolkit.traffic.columns import (
    COLUMNS,
    CUT,
    NAMES,
    Record,
    choose,
    has_layer,
    holds_several_messages,
    in_tunnel,
    is_cut,
    row_cells,
)
from toolkit.traffic.pseudonyms import Pseudonyms
from toolkit.traffic.tshark import (
    DamagedCapture,
    check_capture,
    fast_records,
    pyshark_records,
    tshark_version,
)
from toolkit.words import Summary, choices

_AT_ONCE: Final = 5_000  # rows that wait for their file to be opened: thousands of streams, one open file
_STREAM: Final = NAMES.index("stream")
READERS: Final = {"pyshark": pyshark_records, "fast": fast_records}
LARGE: Final = 5_000_000  # bytes of capture from which "auto" takes the fast reader
_ADDRESSES: Final = frozenset({"source", "destination"})
_TEXTS: Final = frozenset({"host", "uri", "content_type", "user_agent"})


@dataclass(frozen=True)
class Converted:
    """What a conversion wrote."""

    files: tuple[Path, ...]
    packets: int
    reader: str
    truncated: bool
    note: str | None

    def summary(self) -> Summary:
        """Return what the command line says."""
        names = ", ".join(map(str, self.files[:3])) + (" ..." if len(self.files) > 3 else "")
        text = f"{self.packets:,} packet{'s' * (self.packets != 1)} in {names}"
        text += f" ({len(self.files):,} files)" if len(self.files) > 1 else ""
        fields = {**asdict(self), "files": [str(path) for path in self.files]}
        return Summary(fields, text if self.note is None else f"{text}\nnote: {self.note}")


def convert(
    source: Path | str,
    target: Path | str,
    *,
    columns: Sequence[str] | None = None,
    per_stream: bool = False,
    pseudonymise: str | None = None,
    reader: str = "auto",
    display_filter: str | None = None,
    capture_hash: bool = True,
) -> Converted:
    """Convert a capture into the CSV of a sample; a file has its final name only when it is complete.

    UTF-8, line feeds, RFC 4180 quoting. A cell that a spreadsheet could run as a formula has an apostrophe in front,
    which ``load_sample`` removes. Tabs and line ends inside a value are escaped as tshark does. ``per_stream`` writes
    ``TARGET-stream-0.csv`` and so on, one a TCP stream, and ``TARGET-other.csv`` for other packets. ``pseudonymise``
    is a key with which addresses and MACs are replaced everywhere. A display filter does not change times.
    """
    capture, final = Path(source), Path(target)
    if final.suffix != ".csv":
        raise InputError(f"{final}: name a target that ends in .csv")
    check_capture(capture)
    if reader not in ("auto", *READERS):
        raise InputError(f"reader {reader!r}: {choices(reader, ('auto', *READERS))}")
    by_size = "fast" if capture.stat().st_size >= LARGE else "pyshark"
    name = by_size if reader == "auto" else reader
    chosen = choose(columns)
    pseudonyms = Pseudonyms(pseudonymise) if pseudonymise is not None else None
    tally = _Tally(pseudonyms)
    with staging_for(final) as staging:
        table = Tables(staging, final.stem, chosen, per_stream)
        with closing(READERS[name](capture, display_filter)) as records:
            try:
                for record in records:
                    tally.add(record)
                    cells = row_cells(record)
                    table.add(cells if pseudonyms is None else _hidden(cells, pseudonyms))
            except DamagedCapture as damage:
                if not tally.packets:
                    raise
                tally.damage = str(damage)
        if not tally.packets:
            reason = (
                f"no packet passes the filter {display_filter!r}" if display_filter else "it holds no packet"
            )
            raise InputError(f"{capture}: {reason}; nothing was written")
        counts = table.close()
        provenance = _provenance(capture, chosen, name, display_filter, tally, capture_hash)
        for stem, packets in counts.items():
            stream = stem.removeprefix(f"{final.stem}-").removeprefix("stream-") if per_stream else None
            fields = {**provenance, "packets": packets, "stream": stream}
            text = json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
            (staging / f"{stem}.json").write_text(text, encoding="utf-8")
        files = tuple(move(staging, final.parent, stem) for stem in counts)
        if per_stream:
            remove_earlier_streams(final, counts)
    return Converted(files, tally.packets, name, tally.incomplete, tally.note())


@dataclass
class _Tally:
    pseudonyms: Pseudonyms | None
    packets: int = 0
    several: int = 0
    tunnelled: int = 0
    cut: int = 0
    http2: int = 0
    sctp: int = 0
    damage: str | None = None

    def add(self, record: Record) -> None:
        """Count a packet and what is special about it."""
        self.packets += 1
        self.several += holds_several_messages(record)
        self.tunnelled += in_tunnel(record)
        self.cut += is_cut(record)
        self.http2 += has_layer(record, "http2")
        self.sctp += has_layer(record, "sctp")

    @property
    def incomplete(self) -> bool:
        """Whether the table lacks packets, or parts of packets, that were sent."""
        return self.damage is not None or self.cut > 0

    def note(self) -> str | None:
        """Return what to know, as one line."""
        shows = "of which the table shows the"
        unchanged = sorted(self.pseudonyms.unchanged) if self.pseudonyms else []
        parts = {
            f"{self.damage}; packets before that, which are in the table: {self.packets:,}": self.damage,
            f"packets with several HTTP messages: {self.several:,}, {shows} first": self.several,
            f"packets inside a tunnel: {self.tunnelled:,}, {shows} innermost packet; "
            "length is that of the whole frame": self.tunnelled,
            f"no pseudonym for addresses that name no machine: {', '.join(unchanged)}": unchanged,
            f"packets that the capture holds in part (a snap length): {self.cut:,}; a cell that ends in {CUT} goes on, "
            "and more may be missing": self.cut,
            f"packets of HTTP/2 in clear: {self.http2:,}; their requests and replies are not decoded": self.http2,
            f"packets of SCTP: {self.sctp:,}; their ports are not decoded": self.sctp,
        }
        return "; ".join(part for part, counts in parts.items() if counts) or None


def _hidden(cells: Sequence[str], pseudonyms: Pseudonyms) -> list[str]:
    def hide(name: str, cell: str) -> str:
        if name in _TEXTS and cell.endswith(CUT):  # half an address would pass for a text
            return CUT
        if name in _ADDRESSES:
            return pseudonyms.address(cell)
        return pseudonyms.text(cell, versions=name == "user_agent") if name in _TEXTS else cell

    return [hide(name, cell) for name, cell in zip(NAMES, cells, strict=True)]


def _provenance(
    capture: Path,
    columns: Sequence[str],
    reader: str,
    display_filter: str | None,
    tally: _Tally,
    capture_hash: bool,
) -> dict[str, Any]:
    """Return the origin of the table, without key, folder or date, so that the same capture gives the same bytes."""
    identity: dict[str, Any] = {}
    pseudonyms = tally.pseudonyms
    if capture_hash:
        with capture.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        identity = {"capture_sha256": digest, "capture_bytes": capture.stat().st_size}

    def shareable(text: str | None) -> str | None:
        return pseudonyms.text(text) if pseudonyms and text else text

    note = tally.note()
    return {
        "capture": shareable(capture.name),
        **identity,
        "tools": {
            "toolkit": version("llm-security-toolkit"),
            "tshark": ".".join(map(str, tshark_version())),
            "pyshark": version("pyshark"),
        },
        "reader": reader,
        "display_filter": shareable(display_filter),
        "columns": list(columns),
        "truncated": tally.incomplete,
        "note": shareable(note.replace(str(capture.absolute()), capture.name)) if note else None,
        "pseudonymised": pseudonyms is not None,
    }


@contextmanager
def staging_for(final: Path) -> Iterator[Path]:
    """Give a temporary hidden folder beside a file, so that moving a file out of it is one step."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{final.stem}.", dir=final.parent) as staging:
            yield Path(staging)
    except OSError as error:
        raise InputError(f"{final}: cannot be written ({error.strerror or error})") from None


class Tables:
    """The CSVs of one conversion, written to a hidden folder until they are complete."""

    def __init__(self, folder: Path, stem: str, columns: Sequence[str], per_stream: bool) -> None:
        self._folder, self._stem, self._per_stream = folder, stem, per_stream
        self._positions = [NAMES.index(name) for name in columns]
        self._texts = {at for at, name in enumerate(columns) if COLUMNS[name] == "string"}
        self._header = tuple(columns)
        self._waiting: dict[str, list[list[str]]] = {}
        self._count = 0
        self._rows: dict[str, int] = {}

    def add(self, cells: Sequence[str]) -> None:
        """Add a row, one cell a column of ``COLUMNS``, to the table that it belongs to."""
        stem = self._stem
        if self._per_stream:
            stem = f"{stem}-stream-{cells[_STREAM]}" if cells[_STREAM] else f"{stem}-other"
        self._waiting.setdefault(stem, []).append([cells[position] for position in self._positions])
        self._count += 1
        if self._count >= _AT_ONCE:
            self._flush()

    def close(self) -> dict[str, int]:
        """Write the remaining rows and return the number of rows of each table by its file stem."""
        self._flush()
        return self._rows

    def _flush(self) -> None:
        for stem, rows in self._waiting.items():
            with (self._folder / f"{stem}.csv").open("a", encoding="utf-8", newline="") as stream:
                stream.write(csv_text(rows if stem in self._rows else [self._header, *rows], self._texts))
            self._rows[stem] = self._rows.get(stem, 0) + len(rows)
        self._waiting.clear()
        self._count = 0


def move(staging: Path, folder: Path, stem: str) -> Path:
    """Move a table, and its provenance after it."""
    # Killed half-way, a table has no provenance, never another's.
    (folder / f"{stem}.json").unlink(missing_ok=True)
    for suffix in (".csv", ".json"):
        (staging / f"{stem}{suffix}").replace(folder / f"{stem}{suffix}")
    return folder / f"{stem}.csv"


def remove_earlier_streams(final: Path, written: Mapping[str, int]) -> None:
    """Remove the streams of an earlier conversion to the same name, which would pass for streams of this one."""
    for path in sorted(final.parent.glob("*.csv")):
        ours = path.stem == f"{final.stem}-other" or path.stem.removeprefix(f"{final.stem}-stream-").isdigit()
        if ours and path.stem not in written and path.with_suffix(".json").is_file():
            path.unlink()
            path.with_suffix(".json").unlink()

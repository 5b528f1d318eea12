"""Convert a capture into the CSV of a sample, with a JSON of its provenance beside it."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from toolkit.errors import InputError
from toolkit.files.digests import sha256_of
from toolkit.files.reading import read_toml
from toolkit.files.tables import csv_text
from toolkit.traffic.pseudonyms import Pseudonyms
from toolkit.traffic.sample import COLUMNS, CUT, NAMES, choose
from toolkit.traffic.tshark import (
    DamagedCapture,
    check_capture,
    packet_records,
    peculiarities,
    row_cells,
    tshark_version,
)
from toolkit.words import Summary

_AT_ONCE = 5_000  # rows that wait for their file to be opened: thousands of streams, one open file
_ADDRESSES = ("source", "destination")
_NOTES = read_toml(Path(__file__).parent / "notes.toml")
_TEXTS = ("host", "uri", "content_type", "user_agent")


@dataclass(frozen=True)
class Converted:
    """What a conversion wrote."""

    files: tuple[Path, ...]
    packets: int
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
    display_filter: str | None = None,
    capture_hash: bool = True,
) -> Converted:
    """Convert a capture into the CSV of a sample; a file has its final name only when it is complete.

    A cell that a spreadsheet could run as a formula has an apostrophe in front, which ``load_sample`` removes; tabs and
    line ends inside a value are escaped as tshark does. ``per_stream`` writes ``TARGET-stream-0.csv`` and so on, and
    ``TARGET-other.csv`` for packets without a TCP stream. ``pseudonymise`` is a key. A filter does not change times.

    Examples
    --------
    >>> convert(shipped_capture("plain_gets"), "flow.csv").packets  # doctest: +SKIP
    31
    """
    capture, final = Path(source), Path(target)
    if final.suffix != ".csv":
        raise InputError(f"{final}: name a target that ends in .csv")
    check_capture(capture)
    chosen = choose(columns)
    pseudonyms = Pseudonyms(pseudonymise) if pseudonymise is not None else None
    special, damage = Counter[str](), ""
    with staging_for(final) as staging:
        tables = _Tables(staging, final.stem, chosen, per_stream)
        with closing(packet_records(capture, display_filter)) as records:
            try:
                for record in records:
                    special.update(peculiarities(record))
                    tables.add(_shown(row_cells(record), pseudonyms))
            except DamagedCapture as error:
                if not tables.packets:
                    raise
                damage = str(error)
        if not tables.packets:
            unmatched = f"no packet passes the filter {display_filter!r}"
            raise InputError(
                f"{capture}: {unmatched if display_filter else 'it holds no packet'}; nothing was written"
            )
        tables.flush()
        truncated, values = bool(damage or special["cut"]), {**special, "damage": damage}
        values |= {"unchanged": ", ".join(sorted(pseudonyms.unchanged)) if pseudonyms else ""}
        notes = (text for name, text in _NOTES.items() if values.get(name))
        note = "; ".join(notes).format(**values, packets=tables.packets) or None
        identity = {}
        if capture_hash:
            identity = {"capture_sha256": sha256_of(capture), "capture_bytes": capture.stat().st_size}

        def shareable(text: str | None) -> str | None:
            return pseudonyms.text(text) if pseudonyms and text else text

        # Without key, folder or date, so that the same capture gives the same bytes.
        provenance = {
            "capture": shareable(capture.name),
            **identity,
            "tools": {
                "toolkit": version("llm-security-toolkit"),
                "tshark": ".".join(map(str, tshark_version())),
                "pyshark": version("pyshark"),
            },
            "display_filter": shareable(display_filter),
            "columns": list(chosen),
            "truncated": truncated,
            "note": shareable(note and note.replace(str(capture.absolute()), capture.name)),
            "pseudonymised": pseudonyms is not None,
        }
        pairs = []
        for stem, packets in tables.rows.items():
            stream = stem.removeprefix(f"{final.stem}-").removeprefix("stream-") if per_stream else None
            fields = {**provenance, "packets": packets, "stream": stream}
            text = json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
            (staging / f"{stem}.json").write_text(text, encoding="utf-8")
            pairs.append([final.with_name(f"{stem}{ending}") for ending in (".csv", ".json")])
        for pair in pairs:
            for written in pair:
                if written.exists() and not _is_provenance(pair[1]):
                    raise InputError(f"{written}: is there, and no earlier sample; name another target")
        for pair in pairs:
            # Killed half-way, a table has no provenance, never another's.
            pair[1].unlink(missing_ok=True)
            for written in pair:
                (staging / written.name).replace(written)
        if per_stream:
            _remove_earlier_streams(final, tables.rows)
    return Converted(tuple(table for table, _ in pairs), tables.packets, truncated, note)


def _shown(cells: Sequence[str], pseudonyms: Pseudonyms | None) -> dict[str, str]:
    """Return the cells of a row by column, with the pseudonyms of their addresses."""
    shown = dict(zip(NAMES, cells, strict=True))
    if pseudonyms is None:
        return shown
    for name in _ADDRESSES:
        shown[name] = pseudonyms.address(shown[name])
    for name in _TEXTS:
        cut = shown[name].endswith(CUT)  # half an address would pass for a text
        shown[name] = CUT if cut else pseudonyms.text(shown[name], versions=name == "user_agent")
    return shown


def _is_provenance(path: Path) -> bool:
    try:
        return {"capture", "tools"} <= json.loads(path.read_text(encoding="utf-8")).keys()
    except (OSError, ValueError, AttributeError):
        return False


@contextmanager
def staging_for(final: Path) -> Iterator[Path]:
    """Give a temporary hidden folder beside a file, so that moving a file out of it is one step."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{final.stem}.", dir=final.parent) as staging:
            yield Path(staging)
    except OSError as error:
        raise InputError(f"{final}: cannot be written ({error.strerror or error})") from None


class _Tables:
    """The CSVs of one conversion, with the number of rows of each by its file stem."""

    def __init__(self, folder: Path, stem: str, columns: Sequence[str], per_stream: bool) -> None:
        self._folder, self._stem, self._per_stream = folder, stem, per_stream
        self._texts = {at for at, name in enumerate(columns) if COLUMNS[name] == "string"}
        self._header = list(columns)
        self._waiting = defaultdict[str, list[list[str]]](list)
        self.packets = 0
        self.rows = Counter[str]()

    def add(self, cells: Mapping[str, str]) -> None:
        """Add a row, one cell a column of ``COLUMNS``, to the table that it belongs to."""
        stem = self._stem
        if self._per_stream:
            stem = f"{stem}-stream-{cells['stream']}" if cells["stream"] else f"{stem}-other"
        self._waiting[stem].append([cells[name] for name in self._header])
        self.packets += 1
        if self.packets % _AT_ONCE == 0:
            self.flush()

    def flush(self) -> None:
        for stem, rows in self._waiting.items():
            with (self._folder / f"{stem}.csv").open("a", encoding="utf-8", newline="") as stream:
                stream.write(csv_text(rows if stem in self.rows else [self._header, *rows], self._texts))
            self.rows[stem] += len(rows)
        self._waiting.clear()


def _remove_earlier_streams(final: Path, written: Collection[str]) -> None:
    """Remove the streams of an earlier conversion to the same name, which would pass for streams of this one."""
    for path in sorted(final.parent.glob("*.csv")):
        ours = path.stem == f"{final.stem}-other" or path.stem.removeprefix(f"{final.stem}-stream-").isdigit()
        if ours and path.stem not in written and path.with_suffix(".json").is_file():
            path.unlink()
            path.with_suffix(".json").unlink()

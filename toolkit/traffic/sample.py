"""A sample: its columns, the CSV that a model sees, the same as a typed frame, and the facts that follow from it.

Facts are its values and every number that follows from them, with which claims are compared. A set of rows is an
integer: bit i is set if row i is in it. Filters are `&` and `|`, a count is a count of bits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from csv import reader
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, reduce
from html import escape
from importlib.resources import files
from itertools import combinations, islice, pairwise
from operator import or_
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

from toolkit.errors import InputError
from toolkit.files import read_text
from toolkit.table_files import csv_records, unguard
from toolkit.traffic.mentions import canonical_address
from toolkit.viewer.visible import visible
from toolkit.words import choices, counted

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = {
    **{
        "number": "Int64",
        "time": "float64",
        "source": "string",
        "destination": "string",
        "source_port": "Int64",
    },
    **{"destination_port": "Int64", "protocol": "string", "length": "Int64", "tcp_flags": "string"},
    **{"stream": "Int64", "method": "string", "host": "string", "uri": "string", "status": "Int64"},
    **{"content_type": "string", "user_agent": "string", "payload_length": "Int64"},
}
"""Name and dtype; time in s since the first packet, lengths in bytes, addresses and ports of the innermost packet."""
NAMES: Final = tuple(COLUMNS)
CUT: Final = "[cut]"
"""Ends a cell whose value was cut off by a snap length (``tcpdump -s``)."""


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


@dataclass(frozen=True)
class Sample:
    """A CSV of one flow, made from a capture."""

    name: str
    csv: str
    frame: pd.DataFrame
    about: Mapping[str, Any]

    def __repr__(self) -> str:
        """Say how large the sample is, and show its first packets."""
        return f"{self._size()}\n{self._head().to_string()}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._size())}</p>{self._head().to_html(notebook=True)}"  # cells are escaped by pandas

    def _size(self) -> str:
        rows, columns = self.frame.shape
        return (
            f"Sample {self.name}: {counted(rows, 'packets')}, {counted(columns, 'columns')}, the first ones:"
        )

    def _head(self) -> pd.DataFrame:
        return self.frame.iloc[:5, :9].map(lambda cell: visible(cell) if isinstance(cell, str) else cell)


@cache
def shipped_samples() -> tuple[str, ...]:
    """Return the names of the samples that come with the toolkit, sorted."""
    folder = files("toolkit.traffic") / "data"
    return tuple(sorted(entry.name[:-4] for entry in folder.iterdir() if entry.name.endswith(".csv")))


def shipped_capture(name: str) -> Path:
    """Return the capture that a sample of this name was made from."""
    if name not in shipped_samples():
        raise InputError(f"sample {name!r}: does not ship; name one of {', '.join(shipped_samples())}")
    return Path(str(files("toolkit.traffic") / "data" / f"{name}.pcapng"))


def load_sample(path_or_name: str | Path) -> Sample:
    """Read a sample by its name where it ships, or by the path of a CSV that ``toolkit samples convert`` wrote."""
    import pandas as pd

    if isinstance(path_or_name, str) and path_or_name in shipped_samples():
        path = Path(str(files("toolkit.traffic") / "data" / f"{path_or_name}.csv"))
    else:
        path = Path(path_or_name)
    shipped = f"; or name one of {', '.join(shipped_samples())}" if not path.suffix else ""
    text = read_text(path, "", "sample", f"name a CSV that toolkit samples convert wrote{shipped}")
    # Not pandas.read_csv: it fills a short row and drops the end of a long one without an error.
    records = [cells for _, cells in csv_records(path, text) if cells]
    if not records:
        raise InputError(f"{path}: not a table (it is empty)")
    names, *rows = records
    if not set(names) & set(NAMES):
        must = f"the first line must name some of {', '.join(NAMES)}"
        raise InputError(f"{path}: has no column of a sample; {must}")
    if len(set(names)) < len(names):
        raise InputError(f"{path}: the first line names a column twice; each name stands for one column")
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise InputError(f"{path}: row {number} has {len(row)} cells, the first line has {len(names)}")
    table = pd.DataFrame(rows, columns=names, dtype=str)
    frame = pd.DataFrame({name: _typed(table[name], COLUMNS.get(name, "string"), path) for name in names})
    sidecar = path.with_suffix(".json")
    try:
        provenance = json.loads(read_text(sidecar)) if sidecar.is_file() else {}
    except ValueError as error:
        raise InputError(f"{sidecar}: not JSON ({error}); convert the capture again") from None
    if not isinstance(provenance, dict):
        raise InputError(f"{sidecar}: not a provenance object; convert the capture again")
    return Sample(path.stem, text, frame, provenance)


def _typed(cells: pd.Series, dtype: str, path: Path) -> pd.Series:
    import pandas as pd

    if dtype == "string":
        plain = cells.map(unguard).astype("string")
        return plain.mask(plain == "")
    numbers = pd.to_numeric(cells.where(cells != "", None), errors="coerce")
    bad = numbers.isna() & (cells != "")
    if dtype == "Int64":
        bad |= numbers.notna() & (numbers % 1 != 0)
    if bad.any():
        at = int(bad.to_numpy().argmax())
        problem = f"{cells.iloc[at]!r} is not a number of its kind"
        raise InputError(f"{path}: row {at + 1}, column {cells.name}: {problem}")
    return numbers.astype(dtype)  # type: ignore[call-overload]


# --- the facts of a sample --------------------------------------------------------------------------------------------

_GROUPED: Final = tuple(name for name in COLUMNS if name not in ("number", "time"))
"""Columns whose values are counted, alone and two by two."""
_ENDPOINTS: Final = {"address": ("source", "destination"), "port": ("source_port", "destination_port")}
_SOURCE_COLUMN: Final = {
    **dict.fromkeys(("path", "parameter", "place", "sql"), "uri"),
    **dict.fromkeys(("agent", "product"), "user_agent"),
}
MAX_VALUES: Final = 40
"""Values of one column, the most frequent ones, that are combined with others and added up."""


@dataclass(frozen=True)
class Facts:
    """The facts of one sample; two objects of the same sample are equal."""

    sample: str
    csv: str = field(repr=False)
    frame: pd.DataFrame = field(repr=False, compare=False)

    @cached_property
    def text(self) -> str:
        """The CSV in lower case, and again with URL encoding removed, for names that are no whole cell."""
        text = self.csv
        if self.cut:
            rows = reader(text.splitlines())
            text = "\n".join(",".join("" if cell.endswith(CUT) else cell for cell in row) for row in rows)
        return f"{text}\n{unquote_plus(text)}".lower()

    @cached_property
    def cut(self) -> dict[str, set[str]]:
        """Beginnings of values that the capture has cut off, by column; no other property includes them."""
        columns = {name: self._column(name) for name in map(str, self.frame)}
        return {
            name: beginnings
            for name, cells in columns.items()
            if (beginnings := {cell.removesuffix(CUT) for cell in cells if cell and cell.endswith(CUT)})
        }

    def may_go_on(self, kind: str, value: str) -> bool:
        """Say whether a name may be a value that the capture has cut off."""
        parts = self.cut.get(_SOURCE_COLUMN.get(kind, kind), ())
        name = decoded_path(value) if kind == "path" else value.lower()
        return any(
            kind in ("protocol", "parameter", "sql") or part.startswith(name) or name.startswith(part)
            for part in parts
        )

    @cached_property
    def addresses(self) -> frozenset[str]:
        """Addresses in their shortest form."""
        return frozenset(map(canonical_address, self.values("source") | self.values("destination")))

    @cached_property
    def hosts(self) -> frozenset[str]:
        """Hosts in small letters, without ports."""
        return frozenset(re.sub(r":\d+$", "", value) for value in self.values("host"))

    @cached_property
    def paths(self) -> frozenset[str]:
        """Paths decoded, in small letters, with their query string."""
        return frozenset(decoded_path(value) for value in self.values("uri"))

    @cached_property
    def statuses(self) -> frozenset[int]:
        """Status codes."""
        return frozenset(int(value) for value in self.values("status"))

    @cached_property
    def ports(self) -> frozenset[int]:
        """Ports of both ends, and those that hosts name."""
        named = (re.findall(r":(\d{1,5})$", value) for value in self.values("host"))
        ends = (self.values(name) for name in _ENDPOINTS["port"])
        return frozenset(int(port) for several in (*named, *ends) for port in several)

    @cached_property
    def all_rows(self) -> int:
        """All rows."""
        return (1 << len(self.frame)) - 1

    @cached_property
    def masks(self) -> dict[str, dict[str, int]]:
        """The rows of each value of each column, the most frequent first, and of values derived from columns."""
        masks = {}
        for name in (column for column in _GROUPED if column in self.frame):
            rows = _united(
                (cell, 1 << index) for index, cell in enumerate(self._facts(name)) if cell is not None
            )
            masks[name] = dict(sorted(rows.items(), key=lambda item: -item[1].bit_count()))
        for name, ends in _ENDPOINTS.items():
            masks[name] = _united(pair for end in ends for pair in masks.get(end, {}).items())
        parts = {
            "flag": ("tcp_flags", lambda value: value.split(",")),
            "path": ("uri", lambda value: [decoded_path(value).split("?")[0]]),
            "layer": ("protocol", lambda value: value.split("/")),
        }
        for name, (column, split) in parts.items():
            masks[name] = _united(
                (part, rows) for value, rows in masks.get(column, {}).items() for part in split(value)
            )
        return masks | self._exchanges(masks)

    def _exchanges(self, masks: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """Return requests by the status of their reply, replies by their request, and the packets of each reply."""
        pairs: dict[str, list[tuple[str, int]]]
        pairs = {name: [] for name in ("replied", "asked method", "asked path", "reply")}
        if not {"stream", "method", "status"} <= set(self.frame):
            return {}
        cells = {name: self._facts(name) for name in ("method", "status", "uri") if name in self.frame}
        for rows in masks["stream"].values():
            inside = _indices(rows)
            requests = [index for index in inside if cells["method"][index]]
            replied = [index for index in inside if cells["status"][index]]
            for request, after in zip(requests, [*requests[1:], len(self.frame)], strict=False):
                sender_rows = next((r for r in masks.get("source", {}).values() if r >> request & 1), 0)
                between = (i for i in inside if request < i < after and i not in requests)
                answer = sum(1 << i for i in between if not sender_rows >> i & 1)
                pairs["reply"].append((str(request), answer))
            for request, reply in zip(requests, replied, strict=False):
                pairs["replied"].append((str(cells["status"][reply]), 1 << request))
                pairs["asked method"].append((str(cells["method"][request]), 1 << reply))
                if "uri" in cells:
                    path = decoded_path(cells["uri"][request] or "").split("?")[0]
                    pairs["asked path"].append((path, 1 << reply))
        return {name: _united(rows) for name, rows in pairs.items()}

    def values(self, column: str) -> frozenset[str]:
        """Return the values of a column in small letters."""
        cells = self._facts(column) if column in self.frame else []
        return frozenset(value for value in cells if value is not None)

    def cell(self, packet: str, column: str) -> str | None:
        """Return a cell in lower case; None where there is no such cell, or it is empty."""
        numbers = self._column("number") if {"number", column} <= set(self.frame) else []
        return self._column(column)[numbers.index(packet)] if packet in numbers else None

    def exchange(self, number: int) -> int:
        """Return a packet's row, its neighbours in its stream, and the request and reply that it goes with."""
        index = self._column("number").index(str(number))
        streams = self.masks.get("stream", {}).values()
        inside = _indices(next((rows for rows in streams if rows >> index & 1), self.all_rows))
        position = inside.index(index)
        exchange = sum(1 << i for i in inside[max(0, position - 1) : position + 2])
        for request, replies in self.masks.get("reply", {}).items():
            if int(request) == index or replies >> index & 1:
                exchange |= 1 << int(request) | replies
        return exchange

    def rows(self, column: str, value: str) -> int:
        """Return the rows in which a column has a value."""
        if column == "number":
            return 1 << self._column("number").index(value)
        return self.masks.get(column, {}).get(value.lower(), 0)

    def rows_with(self, column: str) -> int:
        """Return the rows in which a column has any value."""
        return reduce(or_, self.masks.get(column, {}).values(), 0)

    def first_rows(self, column: str) -> int:
        """Return the first row of each value of a column."""
        return reduce(or_, (rows & -rows for rows in self.masks.get(column, {}).values()), 0) or self.all_rows

    @cached_property
    def counts(self) -> frozenset[int]:
        """Every count that follows from the whole sample."""
        return self.counts_in(self.all_rows)

    @lru_cache(maxsize=64)  # noqa: B019 - a sample lives as long as its test
    def simple_counts_in(self, base: int) -> frozenset[int]:
        """Return the counts of a set of rows that one filter, or its complement, gives."""
        counts = {0, base.bit_count()}
        for values in self.masks.values():
            sizes = [(rows & base).bit_count() for rows in values.values()]
            nonempty = reduce(or_, values.values(), 0) & base
            counts |= {nonempty.bit_count(), base.bit_count() - nonempty.bit_count()}
            counts |= {n for size in sizes for n in (size, base.bit_count() - size)}
        return frozenset(counts)

    @lru_cache(maxsize=64)  # noqa: B019 - a sample lives as long as its test
    def counts_in(self, base: int) -> frozenset[int]:
        """Return every count of rows and values under filters, complements, and sums of two and three."""
        rows_in_base = base.bit_count()
        counts = {0, rows_in_base}
        chosen: list[set[int]] = []
        for values in self.masks.values():
            subsets = [rows & base for rows in values.values() if rows & base]
            total = reduce(or_, subsets, 0)
            counts |= {len(subsets), total.bit_count(), rows_in_base - total.bit_count()}
            sizes = [rows.bit_count() for rows in subsets]
            counts |= {n for size in sizes for n in (size, total.bit_count() - size, rows_in_base - size)}
            few = subsets[:MAX_VALUES]
            counts |= {(a | b).bit_count() for a, b in combinations(few, 2)}
            counts |= {(a | b | c).bit_count() for a, b, c in combinations(few[:12], 3)}
            chosen.append({*few, total})
        for first, second in combinations(chosen, 2):
            counts |= {(a & b).bit_count() for a in first for b in second}
        return frozenset(counts)

    def groups(self) -> Iterator[tuple[int, list[int]]]:
        """Yield the rows of every value, of requests and of replies, with their indices."""
        sets = {self.all_rows, *(rows for values in self.masks.values() for rows in values.values())}
        sets |= {self.rows_with(name) for name in ("method", "status")}
        for rows in sets - {0}:
            yield rows, _indices(rows)

    @cached_property
    def times(self) -> frozenset[float]:
        """Times, durations, and the means, medians and ends of intervals, in seconds."""
        points = {*self._time}
        for _, indices in self.groups() if self._time else ():
            inside = [self._time[index] for index in indices]
            gaps = [b - a for a, b in pairwise(inside)]
            points |= {inside[-1] - inside[0], *gaps, *((mean(gaps), median(gaps)) if gaps else ())}
        return frozenset(points)

    @cached_property
    def _time(self) -> list[float]:
        return [float(value) for value in self.frame["time"]] if "time" in self.frame else []

    @cached_property
    def sizes(self) -> frozenset[float]:
        """Sizes in bytes: those of packets, and sum, mean, smallest and largest of every set of rows."""
        sizes: set[float] = set()
        for size in self._bytes:
            for _, indices in self.groups():
                inside = [size[index] for index in indices]
                sizes |= {sum(inside), mean(inside), median(inside), *inside}
        return frozenset(sizes)

    @cached_property
    def _bytes(self) -> list[list[float]]:
        names = [name for name in ("length", "payload_length") if name in self.frame]
        return [[float(value or 0) for value in self._column(name)] for name in names]

    @cached_property
    def shares(self) -> frozenset[float]:
        """Shares in percent of one set of rows in another."""
        sets = [rows for rows, _ in self.groups()]
        wholes = [self.all_rows, self.rows_with("method"), self.rows_with("status")]
        for name in ("stream", "source", "address", "host"):
            wholes += islice(self.masks.get(name, {}).values(), MAX_VALUES)
        counts = {(a & b).bit_count() / b.bit_count() for b in wholes if b for a in sets}
        return frozenset(100 * value for share in counts for value in (share, 1 - share))

    def rates(self, base: int, *, sized: bool) -> frozenset[float]:
        """Return packets or bytes per second of the sets of rows within a base."""
        time, rates = self._time, set()
        for rows, indices in self.groups() if time else ():
            if rows & ~base:
                continue
            amounts: list[float] = [len(indices), len(indices) - 1]
            if sized:
                amounts = [sum(column[index] for index in indices) for column in self._bytes]
            spans = {max(time) - min(time), time[indices[-1]] - time[indices[0]]} - {0.0}
            rates |= {amount / span for amount in amounts for span in spans}
        return frozenset(rates)

    def _column(self, name: str) -> list[str | None]:
        return [cell_text(value) for value in self.frame[name]]

    def _facts(self, name: str) -> list[str | None]:
        return [None if cell and cell.endswith(CUT) else cell for cell in self._column(name)]


def decoded_path(path: str) -> str:
    """Return a path, or a whole address of the web, as its path and query, decoded, in small letters."""
    path = re.sub(r"^https?://[^/]*", "", path, flags=re.IGNORECASE)
    decoded = unquote_plus(path).lower()
    return decoded.rstrip("/") or "/"


def cell_text(value: Any) -> str | None:
    """Return a cell in small letters, whole numbers without a point; None where it is empty."""
    text = str(value)
    return None if text in ("<NA>", "nan", "None", "") else re.sub(r"\.0$", "", text).lower()


def _indices(rows: int) -> list[int]:
    return [index for index, bit in enumerate(reversed(bin(rows))) if bit == "1"]


def _united(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    rows_by_value: dict[str, int] = {}
    for value, rows in pairs:
        rows_by_value[value] = rows_by_value.get(value, 0) | rows
    return rows_by_value

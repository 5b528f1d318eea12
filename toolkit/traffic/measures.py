"""What can be calculated over rows of a sample, and the answer that a question expects.

A subject is a measure over the rows that a filter selects: the number of rows with ``status`` 404, the ``uri`` of the
row that row 16 answers. Questions declare with it what they expect, and models declare with it what a value is of.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args
from urllib.parse import unquote_plus

from pydantic import Field, model_validator

from toolkit.files.reading import read_toml
from toolkit.files.strict import Strict
from toolkit.traffic.sample import CUT
from toolkit.words import choices

if TYPE_CHECKING:
    import pandas as pd

Measure = Literal[
    "count", "distinct", "value", "first", "last", "list", "set", "sum", "mean", "min", "max",
    "duration", "mean_interval", "share", "exists",
]  # fmt: skip
MEASURES = (*get_args(Measure), "choice")
WORDS = read_toml(Path(__file__).parent / "readings.toml")
OF_COLUMN = WORDS["of_column"]
ANSWERS = ("answers", "answered_by")
"""In the row of a response the number of its request row, and in the row of a request that of its response row."""
_LARGEST = 18
"""Digits before the point of a number that can be of a sample; no arithmetic is done with larger ones."""
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d{1,40})(?:\.\d{1,40})?(?:[eE][-+]?\d{1,2})?")
_SPELLED = re.compile(
    r"(?<![\w.,'’])(?P<sign>[-+]?)(?:(?P<groups>\d{1,3}(?:[ ,'’_\u00a0\u2009\u202f]\d{3})++(?:\.\d{1,40}+)?)"
    r"|(?P<plain>\d{1,40}+(?:[.,]\d{1,40}+)?(?:[eE][-+]?\d{1,2}+)?))(?![.,]?\d)\s{0,3}(?P<unit>%|[A-Za-zµμ]{1,20}+)?"
)
_FRACTION = re.compile(r"(\d{1,9}) ?(?:/|of|out of) ?(\d{1,9})(?: [a-zA-Z ]{1,60})?")
_FROM_TO = re.compile(r"(\d{1,9}) ?(?:-|–|to|\.\.) ?(\d{1,9})")
_ASIDE = re.compile(r"\([^()]{0,200}\)|^[^=≈]{0,200}[=≈]")
"""What stands in brackets beside a number, or before it as the formula that it comes from."""
_LONGEST = 300
"""Signs of a text that are read as something that it is not to the letter."""
_MOST_SPELLINGS = 20
"""Values of one condition that may be no cells to the letter."""
UNITS = {
    name: (kind, Decimal(size))
    for kind, sizes in read_toml(Path(__file__).parent / "units.toml").items()
    for size, names in sizes.items()
    for name in names
}
"""The kind of quantity of a unit, and how many seconds, bytes or parts of 1 it is."""


Rows = frozenset[int]
"""Places of rows of a sample."""


class Fault(Exception):
    """Why a subject or an answer is not right."""


class Unreadable(Fault):
    """Why a subject or an answer cannot be read at all: what kind of fault of form it has, and which."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


class Refuted(Fault):
    """Why a subject is not of this sample, or gives no value there."""


def number_in(value: Any) -> Decimal | None:
    """Return a number with the digits that it is written with, from a number or a text that is one.

    >>> number_in("45,706"), number_in(Decimal("1.970")), number_in("4a"), number_in(True)
    (Decimal('45706'), Decimal('1.970'), None, None)
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = Decimal(value.strip().replace(",", ""))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        value = Decimal(str(value)) if math.isfinite(value) else None
    usable = isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) <= _LARGEST
    return value if usable else None


def spelled(value: Any) -> tuple[Decimal | None, str]:
    """Return the one number that a text says, and its unit; no number where it says none or several.

    >>> [str(spelled(text)[0]) for text in ("200 OK", "45'706", "1/5", "1024 - 2 = 1022", "5 (rows 4, 8)", "4 or 5")]
    ['200', '45706', '0.200000000000000', '1022', '5', 'None']
    """
    if not isinstance(value, str):
        return number_in(value), ""
    text = " ".join(value.split())
    if len(text) > _LONGEST:
        return None, ""
    if text.casefold() in WORDS["numbers"]:
        return Decimal(WORDS["numbers"].index(text.casefold())), ""
    while (shorter := _ASIDE.sub("", text).strip(" ~")) and shorter != text:
        text = shorter
    if (part := _FRACTION.fullmatch(text)) and int(part[2]):
        return (Decimal(part[1]) / Decimal(part[2])).quantize(Decimal("1e-15")), ""
    numbers = list(_SPELLED.finditer(text))
    if len(numbers) != 1:
        return None, ""
    sign, groups, plain, unit = numbers[0].groups()
    digits = re.sub(r"[^\d.]", "", groups) if groups else plain.replace(",", ".")
    return number_in(sign + digits), unit or ""


def dimension(measure: str, column: str | None) -> str:
    """Return the kind of quantity that a measure gives: count, time, size, share, number or text."""
    kinds = WORDS["kinds"]
    kind: str | None = kinds["measures"].get(measure) or kinds["columns"].get(column)
    return kind or ("mean" if measure in ("sum", "mean") else "number")


def unit_of(unit: str) -> tuple[str, Decimal]:
    """Return the kind of quantity of a unit and its size; an empty kind for a noun, which counts something."""
    names = (unit, unit.casefold(), unit.partition(" ")[0])  # "% of the requests"
    return next((UNITS[name] for name in names if name in UNITS), ("", Decimal(1)))


def canonical_address(value: str) -> str:
    """Return an address in its shortest form; other text as it is, in lower case."""
    try:
        return str(ipaddress.ip_address(value.strip("[]")))
    except ValueError:
        return value.lower()


def canonical(column: str | None, value: Any) -> Any:
    """Return the form in which values of a column are equal: addresses in short, URIs decoded, texts without case."""
    if (number := number_in(value)) is not None:
        return number
    text = " ".join(str(value).removesuffix(CUT).split()).strip('`"')
    if column == "uri":
        for _ in range(3):
            text = unquote_plus(text)
        return text
    if column == "tcp_flags":
        return ",".join(sorted(part.upper() for part in re.split(r"[\s,;|/+-]+", text) if part))
    if column == "host":
        return text.casefold().rstrip(".")
    return canonical_address(text) if column in ("source", "destination") else text.casefold()


def _url(text: str) -> str:
    """Return host and URI of a URL: the scheme of the traffic is http, its port 80 and its empty path "/"."""
    host, _, path = re.sub("(?i)^http://", "", text.strip()).partition("/")
    return f"{canonical('host', re.sub(':80$|[][]', '', host))}/{canonical('uri', path)}"


class Table:
    """The rows of a sample by number, with two more columns that pair requests and responses."""

    def __init__(self, frame: pd.DataFrame) -> None:
        cells = {str(name): [_cell(value) for value in frame[name]] for name in frame}
        self.size = len(frame)
        numbers = cells.setdefault("number", [Decimal(number) for number in range(1, self.size + 1)])
        self.index = {int(number): index for index, number in enumerate(numbers) if number is not None}
        self.partner: dict[int, int] = {}
        if {"stream", "method", "status"} <= set(cells):
            self.partner = _partners(cells)
            for name, end in zip(ANSWERS, ("status", "method"), strict=True):
                cells[name] = [None] * self.size
                for row, partner in self.partner.items():
                    cells[name][row] = None if cells[end][row] is None else numbers[partner]
        self.cells = cells

    @cached_property
    def rows_by_value(self) -> dict[str, dict[Any, Rows]]:
        """The rows of each value of each column, in its canonical form; None is the empty cell."""
        return {
            name: _rows_by_key(None if cell is None else canonical(name, cell) for cell in column)
            for name, column in self.cells.items()
        }

    @cached_property
    def rows_by_spelling(self) -> dict[str, dict[str, Rows]]:
        """The rows of each URL, and of each host and address with its port."""
        rows = {}
        for name, neighbour, form in WORDS["beside"]:
            if {name, neighbour} <= self.cells.keys():
                pairs = zip(self.cells[name], self.cells[neighbour], strict=True)
                rows[name] = _rows_by_key("" if None in pair else _url(form.format(*pair)) for pair in pairs)
        return rows

    def rows_like(self, name: str, value: Any) -> Rows:
        """Return the rows whose cell a text names that is none: a URL, an address with a port, cells among words."""
        by_value, text = self.rows_by_value[name], str(value).strip()
        if rows := self.rows_by_spelling.get(name, {}).get(_url(text.replace(" port ", ":"))):
            return rows
        if name == "tcp_flags":
            flags = set(str(canonical(name, text)).split(","))
            keys = [key for key in by_value if key and flags <= set(str(key).split(","))]
        else:
            words = [word for word in re.split(r"[\s()\[\],;|]+", text[:_LONGEST]) if word]
            named = {word: canonical(name, word) for word in words}
            keys = [key for key in named.values() if key in by_value]
            strange = [word for word, key in named.items() if key not in by_value]
            before = takewhile(lambda word: word in strange, words)
            usual = [word for word in strange if word.isalpha() or self._is_cell(word)]
            if len(usual) < len(strange) or any(word.casefold() in WORDS["negations"] for word in before):
                keys = []
        return frozenset().union(*(by_value[key] for key in keys))

    def _is_cell(self, word: str) -> bool:
        return any(canonical(name, word) in by_value for name, by_value in self.rows_by_value.items())

    def rows_matching(self, name: str, pattern: str) -> Rows:
        """Return the rows whose cell fits a pattern, in which a star stands for anything, or 4xx."""
        text = str(canonical(name, pattern[:_LONGEST]))
        starred = re.sub(r"[?[]", r"[\g<0>]", text.replace("xx", "*") if name == "status" else text)
        rows = [
            some
            for key, some in self.rows_by_value[name].items()
            if "*" in starred and key is not None
            if fnmatchcase(f"{key:f}" if isinstance(key, Decimal) else key, starred)
        ]
        return frozenset().union(*rows)

    def column(self, name: Any) -> str:
        """Return the name of a column; raise `Refuted` where the sample has none of this name."""
        if not isinstance(name, str) or name not in self.cells:
            raise Refuted(f"the sample has no column {str(name)[:60]!r}")
        return name

    def select(self, conditions: Any, *, paired: bool = False, whole: bool = False) -> tuple[Rows, str]:
        """Return the rows that a filter selects, and its first condition that no row fulfils.

        Where ``paired``, a row fulfils what its request or response does; where ``whole``, each value of a list must be
        there.
        """
        if not isinstance(conditions, Mapping):
            raise Unreadable("filter", "its filter is not an object of columns and values")
        selected, absent = frozenset(range(self.size)), ""
        for name, condition in conditions.items():
            rows, missing = self._rows(self.column(name), condition)
            selected &= self.with_partners(rows) if paired else rows
            absent = absent or ("" if rows and not whole else missing)
        return selected, absent

    def with_partners(self, rows: Iterable[int]) -> Rows:
        """Return rows with the request or response that belongs to each."""
        return frozenset(index for row in rows for index in (row, self.partner.get(row, row)))

    def _rows(self, name: str, condition: Any) -> tuple[Rows, str]:
        by_value = self.rows_by_value[name]
        if isinstance(condition, Mapping):
            low, high = (condition.get(end) for end in ("min", "max"))
            ends = [None if end is None else number_in(end) for end in (low, high)]
            if not condition or set(condition) - {"min", "max"} or (ends != [low, high] and None in ends):
                raise Unreadable(
                    "filter", f"its filter on {name} is neither a value nor a range with min and max"
                )
            rows = self._between(name, *ends)
            return rows, "" if rows else f"{name} from {low} to {high}"
        if condition == "*":
            rows = frozenset(range(self.size)) - by_value.get(None, frozenset())
            return rows, "" if rows else f"any {name}"
        values = condition if isinstance(condition, list | tuple) else [condition]
        if any(isinstance(value, Mapping | list | tuple) for value in values):
            raise Unreadable("filter", f"its filter on {name} has a list or an object in a list")
        selected, missing = set[int](), ""
        spellings = {None if value is None else canonical(name, value): value for value in values}
        for value, spelling in spellings.items():
            equal = by_value.get(value, frozenset())
            if not equal and (bounds := _FROM_TO.fullmatch(str(spelling))):
                equal = self._between(name, Decimal(bounds[1]), Decimal(bounds[2]))
            elif not equal and isinstance(value, Decimal) and name == "time":
                equal = self._between(name, value - half_digit(value), value + half_digit(value))
            elif not equal and isinstance(spelling, str) and len(spellings) <= _MOST_SPELLINGS:
                equal = self.rows_like(name, spelling) or self.rows_matching(name, spelling)
            selected |= equal
            missing = missing or ("" if equal else f"{name} {str(spelling)[:80]}")
        return frozenset(selected), missing

    def _between(self, name: str, low: Decimal | None, high: Decimal | None) -> Rows:
        return frozenset(
            index
            for index, cell in enumerate(self.cells[name])
            if isinstance(cell, Decimal) and (low is None or cell >= low) and (high is None or cell <= high)
        )

    def nonempty(self, column: str | None, rows: Iterable[int]) -> list[int]:
        """Return rows in their order, of a column those that have a value."""
        if column is None:
            return sorted(rows)
        cells = self.cells[self.column(column)]
        return [row for row in sorted(rows) if cells[row] is not None]

    def calculate(self, measure: str, column: str | None, rows: Rows, among: Rows) -> Any:
        """Return what a measure gives over rows; raise `Refuted` where it gives no value."""
        if measure in OF_COLUMN:
            column = self.column(column)
            values = [self.cells[column][row] for row in self.nonempty(column, rows)]
            return self._of_column(measure, column, values)
        if measure in ("exists", "count"):
            return bool(rows) if measure == "exists" else Decimal(len(rows))
        if measure == "share":
            if not among:
                raise Refuted("no row is among those that the share is of")
            return Decimal(len(rows)) / len(among)
        times = [self.cells[self.column("time")][row] for row in self.nonempty("time", rows)]
        if len(times) < (2 if measure == "mean_interval" else 1):
            raise Refuted(f"{measure} needs more rows than {len(times)}")
        span = times[-1] - times[0]
        return span / (len(times) - 1) if measure == "mean_interval" else span

    def _of_column(self, measure: str, column: str, values: list[Any]) -> Any:
        spellings: dict[Any, Any] = {}
        for value in values:
            spellings.setdefault(canonical(column, value), value)
        different = list(spellings.values())
        if measure == "distinct":
            return Decimal(len(different))
        if measure in ("list", "set"):
            return values if measure == "list" else different
        if not values:
            raise Refuted(f"no row that the filter selects has a value in the column {column}")
        if measure == "value" and len(different) > 1:
            raise Refuted(f"the column {column} has {len(different)} different values in these rows")
        if measure in ("sum", "mean", "min", "max"):
            if not all(isinstance(value, Decimal) for value in values):
                raise Refuted(f"the column {column} holds no numbers")
            total = sum(values, Decimal(0))
            arithmetic = {"sum": total, "mean": total / len(values), "min": min(values), "max": max(values)}
            return arithmetic[measure]
        return values[-1] if measure == "last" else values[0]


def half_digit(number: Decimal) -> Decimal:
    """Return half a unit of the last digit that a number is written with."""
    return Decimal(5).scaleb(int(number.as_tuple().exponent) - 1)


def _rows_by_key(keys: Iterable[Any]) -> dict[Any, Rows]:
    """Return the rows of each key."""
    rows = defaultdict(set)
    for index, key in enumerate(keys):
        rows[key].add(index)
    return {key: frozenset(indices) for key, indices in rows.items()}


def _cell(value: Any) -> Any:
    text = str(value)
    if text in ("<NA>", "nan", "None", ""):
        return None
    return text if isinstance(value, str) else Decimal(text).normalize() + 0


def _partners(cells: Mapping[str, list[Any]]) -> dict[int, int]:
    """Return the response of each request and the reverse, in order in each stream; 1xx is no final response."""
    open_requests = defaultdict(list)
    partner = {}
    for row, stream in enumerate(cells["stream"]):
        if cells["method"][row] is not None:
            open_requests[stream].append(row)
            continue
        final = (status := cells["status"][row]) is not None and (status == 101 or not 100 <= status < 200)
        if final and (waiting := open_requests.get(stream)):
            request = waiting.pop(0)
            partner[request], partner[row] = row, request
    return partner


# --- what a question expects ------------------------------------------------------------------------------------------

Type = Literal[
    "integer", "number", "share", "time", "duration", "address", "port", "host", "status", "method", "text",
    "list", "set", "yes_no", "one_of", "claims",
]  # fmt: skip


class Subject(Strict):
    """A measure over the rows that a filter selects."""

    measure: Measure | None = None
    column: str | None = None
    filter: dict[str, Any] = Field(default_factory=dict)
    among: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        parts = self.filter or self.column or self.among is not None
        if self.measure is None and (parts or type(self) is Subject):
            raise ValueError("needs a measure; add it")
        needs = self.measure in OF_COLUMN
        if needs != (self.column is not None):
            raise ValueError(f"the measure {self.measure} {'needs a' if needs else 'takes no'} column")
        if (self.measure == "share") != (self.among is not None):
            raise ValueError("the measure share, and no other, needs among = { ... }")
        return self

    def of(self, table: Table) -> Any:
        """Return the value in a sample; raise ``ValueError`` where the sample does not give it."""
        try:
            rows, absent = table.select(self.filter, whole=True)
            among = table.select(self.among or {})[0]
            value = table.calculate(str(self.measure), self.column, rows, among)
        except Fault as error:
            raise ValueError(f"{error}; correct the question") from None
        if absent and value not in (0, False, []):
            raise ValueError(f"no row of the sample has {absent}; correct the filter")
        return value


class Answer(Subject):
    """The answer that a question expects: a type, and a subject, a literal value or claims.

    >>> Answer(type="integer", measure="count", filter={"method": "POST"}).type
    'integer'
    """

    type: Type
    value: Any = None
    unit: str = ""
    tolerance: float = Field(default=0.0, ge=0)
    choices: tuple[str, ...] = Field(default=(), strict=False)
    claims: tuple[Subject, ...] = Field(default=(), strict=False)
    known: bool = True

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        sources = (self.measure, self.value, self.claims or None, None if self.known else False)
        if sum(source is not None for source in sources) != 1:
            raise ValueError(
                "needs exactly one of measure, value, for the type claims claims, and known = false"
            )
        for kind, name in (("claims", "claims"), ("one_of", "choices")):
            if (self.type == kind) != bool(getattr(self, name)):
                raise ValueError(f"the type {kind}, and no other, needs {name} = [ ... ]")
        if self.choices and self.value is not None and self.value not in self.choices:
            raise ValueError(f"value {self.value!r} is none of the choices {', '.join(self.choices)}")
        if self.unit and self.unit not in UNITS:
            raise ValueError(f"unit {self.unit!r} is none; {choices(self.unit, UNITS)}")
        return self

    def value_in(self, table: Table) -> Any:
        """Return the expected value, of an open question None; raise ``ValueError`` where the sample gives none."""
        for claim in self.claims:
            claim.of(table)  # refuses what the sample does not give
        if self.claims or not self.known:
            return None
        return fitting(self.type, self.value if self.measure is None else self.of(table))


def fitting(kind: str, value: Any) -> Any:
    """Return an expected value in the form of its type; raise ``ValueError`` where it has another form."""
    if kind in ("list", "set"):
        if isinstance(value, list):
            return value
    elif kind == "yes_no":
        if (truth := truth_of(value)) is not None:
            return truth
    elif kind in WORDS["kinds"]["types"]:
        number = number_in(value)
        if number is not None and (kind not in ("integer", "port", "status") or number % 1 == 0):
            return number
    elif isinstance(value, str) and value.strip():
        return value
    raise ValueError(f"the expected value {value!r} is not of the type {kind}")


def truth_of(value: Any) -> bool | None:
    """Return what a yes or no says; None for anything else."""
    return (
        value
        if isinstance(value, bool)
        else WORDS["truths"].get(re.split(r"\W", str(value).strip().casefold())[0])
    )

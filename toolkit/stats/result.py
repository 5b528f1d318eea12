"""The frozen result every statistic returns: estimate, interval, method, n, what was missing, and its sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from itertools import islice, pairwise
from math import isfinite
from typing import Any, Self

import pandas as pd

from toolkit.stats import WORDS
from toolkit.words import DIMENSIONS, SCORE, counted, level_words, one_line, template

ROUNDING = 1e-12  # what is smaller than this share of the size of the numbers is rounding, not data
COLUMNS = (
    "name",
    "estimate",
    "low",
    "high",
    "p_value",
    "method",
    "degrees",
    "n",
    "missing",
    "correction",
    "note",
)
_WRITTEN = (
    "name", "estimate", "low", "high", "confidence", "method", "degrees", "unit", "n", "missing", "correction",
    "p_value", "note", "statistic", "facets", "role", "status", "reason",
)  # fmt: skip
"""Parts of a result as JSON, in their order."""
_WORDS = {name: name.replace("_", " ") for name in (*DIMENSIONS, SCORE, "level")}
"""Names of the code among keys of results, in words; names of others stay as they are."""
LEVELS = ("level", "model", "judge")
"""Facets that a label names beside their value."""
ROWS = 12
"""Rows that are shown; the frame has all."""
CONFIDENCE = 0.95  # of every interval whose level is not said beside it
GROUPS = "independent groups"
"""What is counted where bases share texts."""
_GROUPED = "bases that share texts or sources count as one"


def rounded(value: float) -> str:
    """Return a number for a sentence: three decimals, or three digits where those would show next to nothing.

    Examples
    --------
    >>> rounded(2.3456), rounded(-0.0), rounded(-7e-17), rounded(0.000041234)
    ('2.346', '0.000', '0.000', '0.0000412')
    """
    if abs(value) < ROUNDING:
        return "0.000"
    return f"{Decimal(f'{value:.3g}'):f}" if abs(value) < 0.01 else f"{value:.3f}"


def digits_apart(values: Iterable[float | None], decimals: int) -> int:
    """Return the decimals at which numbers that differ are printed differently, ``decimals`` at least."""
    numbers = {value for value in values if value is not None and isfinite(value)}
    size = max(map(abs, numbers), default=0.0)
    gaps = [a for a, b in pairwise(sorted(numbers)) if b - a > ROUNDING * max(1.0, size)]
    distinct = len(gaps) + 1 if numbers else 0
    digits = decimals
    while digits < 12 and len({f"{value:.{digits}f}" for value in numbers}) < distinct:
        digits += 1
    return digits


def rounded_apart(values: Sequence[float | None]) -> list[str]:
    """Return numbers for a sentence, with as many digits as print those apart that differ."""
    numbers = {value for value in values if value is not None}
    digits = digits_apart(numbers, 3)
    short = digits == 3 or len(set(map(rounded, numbers))) == len(numbers)
    return ["" if value is None else rounded(value) if short else f"{value:.{digits}f}" for value in values]


@dataclass(frozen=True)
class Estimate:
    """One number about a study with everything a reader needs to trust it; never rounded.

    ``name`` is printed as it is and never read back: ``statistic`` is the part of it that heads a column, and
    ``facets`` what the number is of, e.g. ``{"model": "gpt-4o"}``. ``reason`` says why there is no number, or where
    there is one, no interval or test (``absent``). ``role`` is confirmatory or exploratory; a description has none.
    ``family`` counts the tests that ``correction`` is for. ``note`` holds free remarks; `remarks` puts reason, note
    and role together.
    """

    name: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    method: str = ""
    unit: str = "none"
    n: Mapping[str, int] = field(default_factory=dict)
    missing: int = 0
    confidence: float = CONFIDENCE
    correction: str = "none"
    p_value: float | None = None
    note: str = ""
    degrees: float | None = None
    statistic: str = ""
    facets: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    role: str = ""
    absent: str = "interval"
    family: int = 1

    @property
    def estimable(self) -> bool:
        """Whether there is a number at all."""
        return self.estimate is not None

    @property
    def counts(self) -> str:
        """What it rests on, e.g. ``36 answers, 3 judges``."""
        return ", ".join(counted(value, key) for key, value in self.n.items())

    @property
    def bases(self) -> int | None:
        """How many independent items its n counts, whatever it calls them."""
        return next((self.n[unit] for unit in ("bases", "prompts", "items", GROUPS) if unit in self.n), None)

    @property
    def procedure(self) -> str:
        """Its method in the words of its n, which calls bases of some lists prompts or items."""
        noun = next((n for n in ("prompt", "item") if f"{n}s" in self.n and "bases" not in self.n), "base")
        return self.method.replace("base", noun)

    @property
    def adjusted(self) -> str:
        """What was adjusted for several tests and that the interval was not; ``none`` where nothing was."""
        interval_note = "; interval unadjusted" if self.correction != "none" and self.low is not None else ""
        return self.correction + interval_note

    @property
    def label(self) -> str:
        """What it is of, for a row whose column is the statistic; nothing where the two are not told apart."""
        parts = (f"{key} {name}" if key in LEVELS else name for key, name in self.facets.items())
        return ", ".join(parts) if self.statistic else ""

    @property
    def status(self) -> str:
        """What there is: ``estimated``, ``no_interval`` (a number with a reason why not more) or ``not_estimable``."""
        if self.estimate is None:
            return "not_estimable"
        return "no_interval" if self.reason else "estimated"

    @property
    def remarks(self) -> str:
        """The reason why something is missing, the note, the role and what counts as a base, as one text."""
        if self.estimate is None:
            return ("not estimable: " if self.reason else "") + self.why_no_number
        return _joined(
            self.note, self.reason and f"no {self.absent}: {self.reason}", self.role, self._grouped
        )

    @property
    def why_no_number(self) -> str:
        """The remarks on a result that is known to have no number."""
        return _joined(self.reason, self.note, self.role, self._grouped)

    @property
    def rounded(self) -> tuple[str, str]:
        """Its number with the unit, and its interval or nothing, rounded for a sentence."""
        estimate, low, high = rounded_apart((self.estimate, self.low, self.high))
        unit = "" if self.unit in ("", "none") else f" {self.unit}"
        return estimate + unit, f"[{low}, {high}]" if low and high else ""

    @property
    def _grouped(self) -> str:
        return _GROUPED if GROUPS in self.n else ""

    def with_value(
        self, estimate: float, low: float | None = None, high: float | None = None, **more: Any
    ) -> Self:
        """Return the result with its number, the ends of its interval, and other fields."""
        return replace(self, estimate=estimate, low=low, high=high, **more)

    def mapped(self, change: Callable[[float], float]) -> Self:
        """Return the result with its number and both ends changed alike."""
        numbers = self.estimate, self.low, self.high
        estimate, low, high = (x if x is None else change(x) for x in numbers)
        return replace(self, estimate=estimate, low=low, high=high)

    def with_note(self, *notes: str) -> Self:
        """Return the result with more notes after its own."""
        return replace(self, note=_joined(self.note, *notes))

    def not_estimable(self, reason: str) -> Self:
        """Return the result without a number, and why; a role and earlier notes go with the number."""
        return replace(self, estimate=None, low=None, high=None, reason=reason, note="", role="")

    def too_few(self, count: int, units: str, least: int | str = "two") -> Self:
        """Return the result without a number, because it would rest on so few."""
        return self.not_estimable(f"{counted(count, units)}, and {least} are needed")

    def no_interval(self, reason: str, absent: str = "interval") -> Self:
        """Return the result with the reason why it has no interval, or what else it lacks."""
        return replace(self, reason=reason, absent=absent)

    def sentence(self) -> str:
        """Return the result in words ready for the thesis, rounded only here."""
        counts = f"; n = {self.counts}" if self.n else ""
        if self.estimate is None:
            return f"{self.name}: not estimable ({self.why_no_number}){counts}."
        estimate, ends = self.rounded
        text = f"{self.name} = {estimate}"
        degrees = "" if self.degrees is None else f", {self.degrees:.1f} degrees of freedom"
        if ends:
            text += f", {level_words(self.confidence)} interval {ends} ({self.procedure}{degrees})"
        if self.p_value is not None:
            text += f", p = {self.p_value:.3g}"
            if self.correction != "none":
                text += f" ({self.adjusted})"
        text += counts
        if self.missing:
            text += f"; {self.missing} missing"
        note = f". {self.remarks[:1].upper()}{self.remarks[1:]}" if self.remarks else ""
        return text + note + ("" if note.endswith(".") else ".")

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON types."""
        changed = {"n": dict(self.n), "correction": self.adjusted, "note": self.remarks}
        values = {name: getattr(self, name) for name in _WRITTEN}
        return values | changed | {"facets": dict(self.facets)}


Estimates = tuple[Estimate, ...]
"""Several estimates in the order of their rows."""
Row = tuple[str, Estimate]
"""An estimate with what it is about."""


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


class Result:
    """What an analysis returns: its estimates in named parts, notes, and facts that are no estimates.

    Each of them is an attribute, such as ``contrasts`` of the comparison of lengths. What is the same of every result
    of an analysis stands in its table of words (``analyses.toml``): what it is called, the leading column of its
    frame, its parts and what each is about, which of them a reader wants first, and which its sentence is made of.

    Parameters
    ----------
    analysis
        Its name.
    text
        Its sentence, where that is more than the sentences of its estimates.
    rows
        Estimates with what each is about, where the parts alone do not say it.
    **values
        Parts, notes and facts, in the order of tables and JSON; a part is an estimate, or a tuple or mapping of some.

    Examples
    --------
    >>> result = Result("gain", gains=(Estimate("gain of x", 0.5, statistic="gain", facets={"model": "x"}),))
    >>> result.select(statistic="gain", model="x")[0].estimate, result.frame().loc[0, "about"]
    (0.5, 'gains')
    """

    def __init__(
        self,
        analysis: str,
        /,
        *,
        text: Callable[[Any], str] | None = None,
        rows: Callable[[Any], Iterable[Row]] | None = None,
        **values: Any,
    ) -> None:
        """Take the parts, notes and facts."""
        self.analysis = analysis
        self.values: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in values.items()
        }
        self._text, self._rows = text, rows

    def __getattr__(self, name: str) -> Any:
        """Return a part, note or fact."""
        values = self.__dict__.get("values", {})
        if name not in values:
            raise AttributeError(f"this result has no {name!r}; it has {', '.join(values)}")
        return values[name]

    def __dir__(self) -> list[str]:
        """Return what a notebook completes."""
        return [*super().__dir__(), *self.values]

    def __eq__(self, other: object) -> bool:
        """Return whether another result says the same; frames are not compared."""
        return isinstance(other, Result) and self._numbers() == other._numbers()

    __hash__ = object.__hash__

    def _numbers(self) -> tuple[str, dict[str, Any]]:
        numbers = {name: part for name, part in self.values.items() if not isinstance(part, pd.DataFrame)}
        return self.analysis, numbers

    def replace(self, **values: Any) -> Self:
        """Return the result with other parts, notes or facts."""
        other = copy(self)
        other.values = self.values | values
        return other

    @property
    def words(self) -> Mapping[str, Any]:
        """What is said of every result of its analysis."""
        return WORDS.get(self.analysis, {})

    @property
    def is_spoken(self) -> bool:
        """Whether its sentence is another than that of all its estimates."""
        return type(self).sentence is not Result.sentence or self._text is not None or "spoken" in self.words

    def select(self, statistic: str | None = None, **facets: str) -> Estimates:
        """Return the estimates of a statistic, or of all, with these facets."""
        estimates = (estimate for _, estimate in placed(self) if facets.items() <= estimate.facets.items())
        return tuple(e for e in estimates if statistic in (None, e.statistic))

    def rows(self) -> Iterable[Row]:
        """Return every estimate with what it is about, in the order of the frame."""
        if self._rows is not None:
            return self._rows(self)
        if "parts" in self.words:
            return self.rows_of(self.words["parts"])
        about = self._about[-1]
        return ((estimate.facets.get(about, label), estimate) for label, estimate in estimates_of(self))

    def frame(self) -> pd.DataFrame:
        """Return one row per estimate (columns of `toolkit.stats.result.COLUMNS`) with what it is about."""
        rows, (*others, about) = list(self.rows()), self._about
        frame = estimates_frame(rows, about)
        for place, facet in enumerate(others):
            frame.insert(place, facet, [estimate.facets[facet] for _, estimate in rows])
        return frame

    @property
    def _about(self) -> list[str]:
        about = self.words.get("about", "about")
        return about if isinstance(about, list) else [about]

    def sentence(self) -> str:
        """Return the result in words ready for the thesis."""
        if self._text is not None:
            return self._text(self)
        if "spoken" not in self.words:
            return sentences(self.rows())
        leads = dict(self.words["spoken"])
        return " ".join(leads[part] + e.sentence() for part in leads for _, e in self.rows_of([part]))

    def headline(self) -> Iterable[Row]:
        """Return the rows that a reader wants first, the very first as a sentence too."""
        return self.rows_of(self.words["first"]) if "first" in self.words else self.rows()

    def rows_of(self, names: Iterable[str]) -> Iterator[Row]:
        """Return the estimates of some parts with what each is about."""
        labels = self.words.get("parts", {})
        for name in names:
            value = self.values[name]
            label = labels.get(name, name).format(**self.values)
            groups = value.items() if isinstance(value, Mapping) else ((label, value),)
            yield from ((label, estimate) for label, part in groups for _, estimate in placed(part))

    def __repr__(self) -> str:
        """Return at most twenty lines: estimates, intervals, n, and the first as a sentence."""
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def to_dict(self) -> Any:
        """Return everything as plain JSON types."""
        hidden = self.words.get("hidden", ())
        return {name: plain(value) for name, value in self.values.items() if name not in hidden}


def sentences(rows: Iterable[Row]) -> str:
    """Return the sentences of some estimates."""
    return " ".join(estimate.sentence() for _, estimate in rows)


def plain(value: Any) -> Any:
    """Return a value as plain JSON types; what holds estimates becomes lists and objects of them."""
    if isinstance(value, Estimate | Result):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {", ".join(map(str, _parts(key))): plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        is_named = value and all(isinstance(part, tuple) and isinstance(part[-1], Estimate) for part in value)
        return plain(dict(value)) if is_named else [plain(part) for part in value]
    if isinstance(value, pd.DataFrame):
        return value.astype(object).where(value.notna(), None).to_dict("records")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


def estimates_frame(keyed: Iterable[tuple[str, Estimate]], key: str) -> pd.DataFrame:
    """Return one row per result, with a leading column that says what the result is about.

    Numbers are floats, NaN where there is none; ``n`` is text such as ``36 answers, 3 judges``.

    Examples
    --------
    >>> frame = estimates_frame([("clarity", Estimate("ICC(A,1)", 0.5, n={"answers": 36}))], "dimension")
    >>> frame.loc[0, "n"]
    '36 answers'
    """
    rows = [
        {name: getattr(result, name) for name in COLUMNS}
        | {key: label, "n": result.counts, "correction": result.adjusted, "note": result.remarks}
        for label, result in keyed
    ]
    frame = pd.DataFrame(rows, columns=[key, *COLUMNS])
    numbers = ["estimate", "low", "high", "p_value", "degrees"]
    return frame.astype(dict.fromkeys(numbers, "float64"))


def wide(estimates: Mapping[str, Estimate | None]) -> dict[str, float | None]:
    """Return columns for estimates of one row: NAME, NAME_low and NAME_high; nothing of an estimate that is none.

    Examples
    --------
    >>> wide({"gain": Estimate("gain", 0.5, 0.25, 0.75)})
    {'gain': 0.5, 'gain_low': 0.25, 'gain_high': 0.75}
    """
    ends = {"": "estimate", "_low": "low", "_high": "high"}
    return {
        f"{name}{end}": getattr(number, field, None)
        for name, number in estimates.items()
        for end, field in ends.items()
    }


def estimates_of(result: Any) -> list[tuple[str, Estimate]]:
    """Return all estimates of a result, however it is built, with the names of what holds them.

    Examples
    --------
    >>> [(where, one.name) for where, one in estimates_of({"by_judge": (Estimate("ICC(A,1)", 0.5),)})]
    [('by_judge', 'ICC(A,1)')]
    """
    return [(" ".join(path), estimate) for path, estimate in placed(result)]


def placed(result: Any) -> list[tuple[tuple[str, ...], Estimate]]:
    """Return all estimates of a result with the names of what holds them, the outermost first."""
    return list(_walk(result, ()))


def _walk(result: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Estimate]]:
    if isinstance(result, Estimate):
        yield path, result
    elif isinstance(result, Result) or (is_dataclass(result) and not isinstance(result, type)):
        for name, value in (result.values if isinstance(result, Result) else vars(result)).items():
            part = name.replace("_", " ")
            again = part in ("result", "results", *path[-1:])
            yield from _walk(value, path if again else (*path, part))
    elif isinstance(result, Mapping):
        for key, value in result.items():
            part = " ".join(_WORDS.get(name, str(name)) for name in _parts(key))
            yield from _walk(value, (*path, part))
    elif isinstance(result, tuple | list):
        for value in result:
            yield from _walk(value, path)


def _parts(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def as_text(result: Result) -> str:
    """Return a result in at most 20 lines: a title, a row each, how many more there are, and the first in words."""
    rows = _first(result)
    cells = [[label, estimate.name, *_numbers(estimate), estimate.counts] for label, estimate in rows]
    width = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(["", *(cell.ljust(size) for cell, size in zip(row, width, strict=True) if size)]).rstrip()
        for row in cells
    ]
    lines = lines or [result.frame().head(ROWS).to_string(index=False)]
    return "\n".join([_title(result), *lines, *_ends(result, rows)])


def as_html(result: Result) -> str:
    """Return the same as a table, each interval drawn on the axis of the rows of its kind and unit."""
    rows, axes = _first(result), defaultdict[tuple[str, str], list[float]](list)
    for label, estimate in rows:
        numbers = estimate.estimate, estimate.low, estimate.high
        axes[label, estimate.unit] += [number for number in numbers if number is not None]
    page: str = template("stats", "result.jinja").render(
        title=_title(result),
        rows=[(label, e, _numbers(e), axes[label, e.unit]) for label, e in rows],
        table=result.frame().head(ROWS).to_html(index=False, border=0),
        lines=_ends(result, rows),
    )
    return page


def _first(result: Result) -> list[tuple[str, Estimate]]:
    return list(islice(result.headline(), ROWS))


def _title(result: Result) -> str:
    title = result.words.get("result", result.analysis.replace("_", " ").capitalize())
    return str(title).format(**result.values)


def _ends(result: Result, rows: Sequence[tuple[str, Estimate]]) -> list[str]:
    more = len(result.frame()) - min(len(rows) or ROWS, len(result.frame()))
    lines = [f"{counted(more, 'further rows')}: .frame()"] if more else []
    words = rows[0][1].sentence() if rows else result.sentence()
    return [*lines, one_line(words, 600)]


def _numbers(result: Estimate) -> tuple[str, str]:
    if result.estimate is None:
        return "not estimable", result.why_no_number
    estimate, ends = result.rounded
    level = "" if result.confidence == CONFIDENCE else f" ({level_words(result.confidence)})"
    return estimate, ends and ends + level

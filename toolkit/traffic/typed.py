"""Typed answers: claims with the subject and the rows that they rest on, compared with the sample.

A reply is one JSON object ``{"claims": [{"value", "unit", "of": {"measure", "column", "filter", "among"}, "rows"}]}``.
Each claim is calculated again, over all rows of its filter and over the rows that it cites. An answer with a false
claim is hallucinated; a reply that cannot be read has no verdict and a reason.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from toolkit.errors import InputError
from toolkit.files.reading import TooDeep
from toolkit.judges.parse import DOUBLED, json_objects, marked_pairs
from toolkit.traffic.measures import (
    MEASURES,
    OF_COLUMN,
    Answer,
    Refuted,
    Rows,
    Subject,
    Table,
    Unreadable,
    canonical,
    dimension,
    half_digit,
    number_in,
    truth_of,
    unit_of,
)
from toolkit.traffic.questions import MAX_TEXT, Question

_TYPES = {
    "share": "share", "time": "time", "duration": "time", "integer": "count", "port": "number", "status": "number",
}  # fmt: skip
_COLUMNS = {"address": "source", "host": "host"}
_EXACT_KINDS = frozenset({"count", "number"})
_ROUNDING = Decimal("1e-12")  # of means, which have 28 digits
_WITH_UNIT = re.compile(r"\s*([-+]?[\d.,]{1,40})\s*(%|[A-Za-zµμ]{1,20})\s*")
_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:[-–]\s*(\d{1,9})\s*)?")


Ranges = tuple[tuple[int, int], ...]
"""First and last numbers of rows."""


@dataclass(frozen=True)
class TypedClaim:
    """One claim of a reply as it was read, not yet compared with a sample; rows are None for all of its filter."""

    number: int
    value: Any
    unit: str
    measure: str
    column: str | None
    filter: Any
    among: Any
    rows: Ranges | None

    @cached_property
    def values(self) -> list[Any]:
        """What it states, one value too as a list."""
        return self.value if isinstance(self.value, list) else [self.value]

    @cached_property
    def kind(self) -> str:
        """The kind of quantity that the claim states."""
        return dimension(self.measure, self.column)

    @cached_property
    def scale(self) -> Decimal:
        """How many seconds, bytes or parts of 1 its unit is; raises `Refuted` for a unit of another kind."""
        kind, factor = unit_of(self.unit)
        text = self.kind == "text" or (self.kind == "number" and None in map(number_in, self.values))
        if kind and kind != self.kind and not text:
            raise Refuted(f"{self.unit} is no unit of {self.measure} {self.column or ''}".rstrip())
        return factor if kind == self.kind else Decimal(1)

    def __str__(self) -> str:
        """Return the claim in a few words."""
        conditions = ", ".join(f"{name} {readable(value)}" for name, value in self.filter.items())
        subject = f"{self.measure} {self.column or ''} {'where ' * bool(conditions)}{conditions}"
        return " ".join(f"{subject} = {readable(self.value)} {self.unit}".split())[:200]


@dataclass(frozen=True)
class Verdict:
    """The verdict on one answer with its reason; None where it cannot be read, or no judge decides."""

    verdict: str | None
    matched: bool | None
    found: str | None
    why: str
    invented: tuple[str, ...] = ()
    """Typed claims that the sample does not hold."""
    calls: tuple[str, ...] = ()


# --- reading ----------------------------------------------------------------------------------------------------------


def _digits(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except ArithmeticError:  # an exponent of more digits than a Decimal has
        return text


_EXACT = json.JSONDecoder(object_pairs_hook=marked_pairs, parse_int=_digits, parse_float=_digits)


def read_claims(text: str) -> tuple[TypedClaim, ...]:
    """Return the claims of a reply; raise `Unreadable` with the reason where there are none to read.

    >>> claim = '{"value": 2, "of": {"measure": "count", "filter": {"method": "POST"}}, "rows": ["9-14"]}'
    >>> print(*read_claims(f'In short: {{"claims": [{claim}]}}'))
    count where method POST = 2
    """
    if len(text) > MAX_TEXT:
        raise Unreadable(f"the reply is longer than {MAX_TEXT:,} characters")
    objects = []
    try:
        replied = json_objects(text, _EXACT)
    except TooDeep as fault:
        raise Unreadable(f"the reply is {fault}") from None
    for parsed in replied:
        if _has_doubled(parsed):
            raise Unreadable("an object has a key twice; which value counts is not decided")
        if "claims" in parsed and parsed not in objects:
            objects.append(parsed)
    if not objects:
        raise Unreadable("no JSON object with claims" if text.strip() else "the reply is empty")
    if len(objects) > 1:
        raise Unreadable(f"{len(objects)} different objects with claims; which is the answer is not decided")
    claims = objects[0]["claims"]
    if not isinstance(claims, list) or not claims:
        raise Unreadable("no claims: the list is empty or no list")
    return tuple(_claim(number, claim) for number, claim in enumerate(claims, 1))


def _has_doubled(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and DOUBLED in value) or any(map(_has_doubled, parts))


def _claim(number: int, claim: Any) -> TypedClaim:
    if not isinstance(claim, dict):
        raise Unreadable(f"claim {number} is no object")
    subject = claim["of"] if "of" in claim else {name: claim[name] for name in _FLAT if name in claim}
    for name, part in (("value", claim.get("value")), ("of", subject or None), ("rows", claim.get("rows"))):
        if part is None:
            raise Unreadable(f"claim {number} has no {name}")
    measure = subject.get("measure") if isinstance(subject, dict) else None
    if not isinstance(measure, str) or measure not in MEASURES:
        raise Unreadable(f"claim {number} has the unknown measure {readable(measure)[:60]!r}")
    conditions, column = subject.get("filter") or {}, subject.get("column") or None
    among = subject.get("among") if measure == "share" else None
    if measure in OF_COLUMN and not isinstance(column, str):
        raise Unreadable(f"claim {number}: the measure {measure} needs a column")
    if not isinstance(conditions, dict) or (measure == "share" and not isinstance(among, dict)):
        raise Unreadable(
            f"claim {number}: filter, and for a share among, must be an object of columns and values"
        )
    if isinstance(claim["value"], dict):
        raise Unreadable(f"claim {number}: the value is an object")
    value, unit = claim["value"], str(claim.get("unit") or "").strip()
    parts = _WITH_UNIT.fullmatch(value) if isinstance(value, str) and not unit else None
    if parts and (unit_of(parts[2])[0] or " " in value.strip()):  # "1.3s", "2 requests"
        value, unit = parts[1], parts[2]
    rows = _ranges(number, claim["rows"])
    return TypedClaim(number, value, unit, measure, column, conditions, among, rows)


_FLAT = ("measure", "column", "filter", "among")


def _ranges(number: int, rows: Any) -> Ranges | None:
    ranges = []
    for row in rows if isinstance(rows, list) else [rows]:
        for part in row.split(",") if isinstance(row, str) else [row]:
            bounds = _RANGE.fullmatch(part) if isinstance(part, str) else None
            low = number_in(bounds[1] if bounds else part)
            high = number_in(bounds[2]) if bounds and bounds[2] else low
            if isinstance(part, str) and part.strip().casefold() == "all":
                return None
            if low is None or high is None or low % 1 or high < low:
                raise Unreadable(
                    f"claim {number}: {readable(part)[:60]!r} is no row number, no range and not all"
                )
            ranges.append((int(low), int(high)))
    return tuple(ranges)


def readable(value: Any) -> str:
    """Return a value as a person would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        more = [f"and {len(value) - 20} more"] if len(value) > 20 else []
        return "[" + ", ".join([*map(readable, value[:20]), *more]) + "]"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {readable(part)}" for name, part in value.items())
    if isinstance(value, Decimal) and (number := number_in(value)) is not None:
        return format(round(number, 9).normalize() + 0, "f")
    return "empty" if value is None else " ".join(str(value).split())


# --- comparing --------------------------------------------------------------------------------------------------------


def equal(claim: TypedClaim, truth: Any, slack: Decimal = Decimal(0)) -> bool:
    """Say whether a claim's value is a value of a sample, both in its unit and to half a unit of its last digit."""
    if isinstance(truth, bool):
        return truth_of(claim.value) is truth
    values = claim.values
    if isinstance(truth, list):
        if claim.measure == "set":
            values, truth = (_sorted_set(claim.column, members) for members in (values, truth))
        return len(values) == len(truth) and all(
            _same(claim, value, member, slack) for value, member in zip(values, truth, strict=True)
        )
    return len(values) == 1 and _same(claim, values[0], truth, slack)


def with_uris(claim: TypedClaim, table: Table) -> TypedClaim:
    """Return a claim about URIs with the URI of its rows in place of each URL that names their host too."""
    if claim.column != "uri" or not any(map(table.rows_of_url, claim.values)):
        return claim
    try:
        rows = table.select(claim.filter)[0]
        rows &= rows if claim.rows is None else _cited(claim.rows, table)
    except (Refuted, Unreadable):  # which the check tells of
        return claim
    uris = [
        next((table.cells["uri"][row] for row in table.rows_of_url(value) & rows), value)
        for value in claim.values
    ]
    return replace(claim, value=uris if isinstance(claim.value, list) else uris[0])


def _sorted_set(column: str | None, members: list[Any]) -> list[Any]:
    different = {canonical(column, member): member for member in members}
    numbers = sorted(value for value in different if isinstance(value, Decimal))
    texts = sorted(str(value) for value in different if not isinstance(value, Decimal))
    return [different.get(value, value) for value in [*numbers, *texts]]


def _same(claim: TypedClaim, value: Any, truth: Any, slack: Decimal) -> bool:
    number = number_in(value)
    if isinstance(value, list | dict):
        return False
    if number is None or not isinstance(truth, Decimal):
        return bool(canonical(claim.column, value) == canonical(claim.column, truth))
    if claim.kind in _EXACT_KINDS:
        return abs(number - truth) <= slack
    return abs(number * claim.scale - truth) <= max(half_digit(number) * claim.scale, slack) + _ROUNDING


def check(claim: TypedClaim, table: Table, slack: Decimal = Decimal(0)) -> None:
    """Compare one claim with the sample; raise `Refuted` with the reason where it does not hold."""
    rows, absent = table.select(claim.filter)
    among, absent_among = table.select(claim.among) if claim.measure == "share" else (Rows(), "")
    if claim.column is not None:
        table.column(claim.column)
    value = claim.value
    says_none = value == [] or truth_of(value) is False or (number_in(value) == 0 and claim.measure in _NONE)
    if absent_among or (absent and not says_none):
        raise Refuted(f"no row of the sample has {absent or absent_among}")
    cited = rows if claim.rows is None else _cited(claim.rows, table)
    inside = cited & rows
    for row in sorted(cited - rows - among):
        if table.partner.get(row) not in inside:
            raise Refuted(f"row {readable(table.cells['number'][row])} is not what the filter says")
    if claim.measure == "choice":
        if not inside:
            raise Refuted("it rests on no row")
        return
    _ = claim.scale
    listed = claim.measure == "value" and claim.rows is not None
    if listed and len(table.nonempty(claim.column, inside)) < len(inside):
        raise Refuted(f"the column {claim.column} is empty in a cited row")
    for over, subject in ((rows, "the sample gives"), (inside, "the cited rows give")):
        try:
            truth = table.calculate(claim.measure, claim.column, over, among)
        except Refuted as error:
            raise Refuted(f"{subject} no value ({error})") from None
        if not equal(claim, truth, slack):
            raise Refuted(f"it says {readable(value)[:80]}, {subject} {readable(truth)[:200]}")


_NONE = frozenset({"count", "distinct", "share"})


def _cited(ranges: Ranges, table: Table) -> Rows:
    cited = set()
    following = min((low for low, _ in ranges), default=0)
    for low, high in sorted(ranges):
        for number in range(max(low, following), high + 1):  # ends at the first number that no row has
            if number not in table.index:
                raise Refuted(f"the sample has no row {number}")
            cited.add(table.index[number])
        following = max(following, high + 1)
    return frozenset(cited)


# --- the verdict ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """What a question expects of one sample."""

    answer: Answer
    value: Any
    table: Table

    @cached_property
    def kind(self) -> str:
        """The kind of quantity that is expected; empty where a literal number has no unit."""
        if self.answer.measure is not None:
            return dimension(self.answer.measure, self.answer.column)
        return _TYPES.get(self.answer.type, unit_of(self.answer.unit)[0])

    @property
    def scale(self) -> Decimal:
        """How many seconds, bytes or parts of 1 the unit of the question is."""
        return unit_of(self.answer.unit)[1]

    @property
    def slack(self) -> Decimal:
        """The tolerance of the question, in seconds, bytes or parts of 1."""
        return Decimal(str(self.answer.tolerance)) * self.scale

    def asks_for(self, claim: TypedClaim) -> bool:
        """Say whether a claim states a quantity of the expected kind; counts and plain numbers are alike."""
        return self.kind in ("", claim.kind) or {self.kind, claim.kind} <= {*_EXACT_KINDS, "mean"}

    def met_by(self, claim: TypedClaim) -> bool:
        """Say whether a claim that holds states the expected value."""
        answer, truth = self.answer, self.value
        if answer.type in ("list", "set") or isinstance(truth, str | bool):
            column = answer.column or _COLUMNS.get(answer.type) or claim.column
            measure, unit = "set" if answer.type == "set" else "list", claim.unit * (claim.kind == self.kind)
            return equal(replace(claim, measure=measure, column=column, unit=unit), truth)
        truth *= self.scale if answer.measure is None else 1
        return self.asks_for(claim) and equal(claim, truth, self.slack)

    def required_of(self, claims: tuple[TypedClaim, ...]) -> Subject | None:
        """Return the first required claim of an open question that no claim makes."""
        for subject in self.answer.claims:
            truth, basis = subject.of(self.table), self._basis(subject)
            if not any(self._basis(claim) == basis and equal(claim, truth) for claim in claims):
                return subject
        return None

    def _basis(self, subject: Subject | TypedClaim) -> tuple[str, str | None, list[int], Rows]:
        """Return measure, column and rows; the first, the last and the only value are alike over the same row."""
        measure, column = str(subject.measure), subject.column if subject.measure in OF_COLUMN else None
        rows = self.table.nonempty(column, self.table.select(subject.filter)[0])
        among = self.table.select(subject.among or {})[0]
        if measure in ("first", "last"):
            rows = rows[:1] if measure == "first" else rows[-1:]
        return "value" if measure in ("first", "last") else measure, column, rows, among


def typed_verdict(text: str, expected: Expected) -> Verdict:
    """Return the verdict on a typed reply, with one sentence as the reason."""
    try:
        claims = tuple(with_uris(claim, expected.table) for claim in read_claims(text))
        if not expected.answer.choices and any(claim.measure == "choice" for claim in claims):
            raise Unreadable("the measure choice is for a question that gives choices")
        faults = [_fault(claim, expected) for claim in claims]
    except Unreadable as error:
        return Verdict(None, None, None, f"unreadable: {error}")
    first, false = claims[0], [(claim, fault) for claim, fault in zip(claims, faults, strict=True) if fault]
    matched: bool | None
    if expected.answer.claims:
        absent = None if false else expected.required_of(claims)
        matched = None if false else absent is None
        reason = f"no claim gives {absent.measure} {absent.column or ''}" if absent else "all are there"
    else:
        matched = not faults[0] and expected.met_by(first)
        reason = f"expected is {readable(expected.value)}, claim 1 says {readable(first.value)[:200]}"
    if false:
        claim, fault = false[0]
        reason = f"claim {claim.number} ({claim}) is false: {fault}"
    verdict = "hallucinated" if false else "expected" if matched else "unexpected"
    invented = tuple(f"claim {claim.number} {claim}" for claim, _ in false)
    return Verdict(verdict, matched, readable(first.value)[:200], reason, invented)


def _fault(claim: TypedClaim, expected: Expected) -> str:
    """Return why a claim does not hold; empty where it does."""
    answers = claim.number == 1 and claim.kind not in _EXACT_KINDS and expected.asks_for(claim)
    try:
        check(claim, expected.table, expected.slack if answers else Decimal(0))
    except Refuted as error:
        return str(error)
    return ""


def expectation(question: Question, table: Table) -> Expected:
    """Return what a question expects of a sample."""
    if question.answer is None:
        raise InputError(
            f"question {question.id}: "
            'a requirement is for free text; give it answer = { ... }, or set answer_format = "text"'
        )
    try:
        return Expected(question.answer, question.answer.value_in(table), table)
    except ValueError as error:
        raise InputError(f"question {question.id}, answer: {error}") from None

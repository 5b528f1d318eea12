"""Typed answers: claims with the subject and the rows that they rest on, compared with the sample.

A reply is one JSON object ``{"claims": [{"value", "unit", "of": {"measure", "column", "filter", "among"}, "rows"}]}``.
Each claim is read as it is meant, where there is one way to, and calculated again, over all rows of its filter and
over the rows that it cites. An answer with a false claim is hallucinated; a closed question is answered by a claim
about what it asks for; a reply that cannot be read has no verdict and a reason.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

from toolkit.errors import InputError
from toolkit.files.reading import TooDeep
from toolkit.judges.parse import DOUBLED, json_objects, marked_pairs
from toolkit.traffic.measures import (
    ANSWERS,
    MEASURES,
    OF_COLUMN,
    WORDS,
    Answer,
    Fault,
    Refuted,
    Rows,
    Subject,
    Table,
    Unreadable,
    canonical,
    dimension,
    half_digit,
    number_in,
    spelled,
    truth_of,
    unit_of,
)
from toolkit.traffic.questions import MAX_TEXT, Question
from toolkit.words import one_line

_EXACT_KINDS = ("count", "number")
_ROUNDING = Decimal("1e-12")  # of means, which have 28 digits
_RANGE = re.compile(r"\s*(-?\d{1,9})\s*(?:[-–]\s*(\d{1,9})\s*)?")
_PLAIN = re.compile(r"\d{1,18}(?:\.\d{1,18})?")
_NEAR = Decimal("0.01")
_MOST_CLAIMS = 40  # of one reply: a person writes a few
_LONGEST = 400  # signs of a text that says that something is not known
_UNKNOWN = re.compile(
    r"\b(?:not|isn't|no) (?:\w+ ){0,3}(?:in|by|from|within|known|given|available|recorded|captured|present|shown)\b"
    r"|\bcan(?:not|'t| not) (?:be )?(?:determin|tell|told|know|answer|sa[yi]|see|infer|deriv|found|identif)"
    r"|\b(?:unknown|undetermined|unanswerable|n/a)\b"
    r"|\b(?:not|n't) (?:hold|contain|include|show|say|tell|record|reveal|answer)\b|\binsufficient\b",
    re.IGNORECASE,
)
"""What says that something is not known; of bare text, and of a value that is no cell of the sample."""
_NAMES = {
    kind: {word: name for name, words in WORDS[kind].items() for word in (name.replace("_", " "), *words)}
    for kind in ("measures", "columns")
}
_HTTP = frozenset(WORDS["http"])
"""Columns of a request and its response, which a claim may take for one row."""
_ENDPOINTS = WORDS["endpoints"]
_OF_CELLS = WORDS["of_cells"]


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
    paired: bool = False
    """Whether a request and its response are one row of its filter."""
    cited: bool = False
    """Whether its subject is only the one row that it cites."""

    @cached_property
    def values(self) -> list[Any]:
        """What it states, one value too as a list."""
        return self.value if isinstance(self.value, list) else [self.value]

    @cached_property
    def kind(self) -> str:
        """The kind of quantity that the claim states."""
        return dimension(self.measure, self.column)

    def scale(self, unit: str) -> Decimal:
        """Return how many seconds, bytes or parts of 1 a unit is; raise `Refuted` for a unit of another kind."""
        kind, factor = unit_of(self.unit or unit)
        text = self.kind == "text" or (self.kind == "number" and None in map(number_in, self.values))
        if kind and kind != self.kind and not text:
            raise Refuted(f"{self.unit or unit} is no unit of {self.measure} {self.column or ''}".rstrip())
        return factor if kind == self.kind else Decimal(1)

    def selected(self, table: Table) -> tuple[Rows, str]:
        """Return the rows that it is about, and the first condition of its filter that no row fulfils."""
        rows, absent = table.select(self.filter, paired=self.paired)
        if self.paired and self.measure != "duration":
            column = self.column if self.column in _HTTP else "method"
            rows = frozenset(table.nonempty(column, rows))
        inside = rows & self.basis(table) if self.cited else rows
        return inside if len(inside) == 1 else rows, absent

    def basis(self, table: Table) -> Rows:
        """Return the rows that it cites; raise `Refuted` where one is not in the sample."""
        if self.rows is None:
            return frozenset(range(table.size))
        cited = set()
        following = min((low for low, _ in self.rows), default=0)
        for low, high in sorted(self.rows):
            for number in range(max(low, following), high + 1):  # ends at the first number that no row has
                if number not in table.index:
                    raise Refuted(f"the sample has no row {number}")
                cited.add(table.index[number])
            following = max(following, high + 1)
        return table.with_partners(cited) if self.paired else frozenset(cited)

    def __str__(self) -> str:
        """Return the claim in a few words."""
        subject = f"{self.measure} {self.column or ''} {'where ' * bool(self.filter)}{readable(self.filter)}"
        return " ".join(f"{subject} = {readable(self.value)} {self.unit}".split())[:200]


@dataclass(frozen=True)
class Verdict:
    """The verdict on one answer with its reason; None where it cannot be read, or no judge decides."""

    verdict: str | None
    why: str
    matched: bool | None = None
    found: str | None = None
    invented: tuple[str, ...] = ()
    """Typed claims that the sample does not hold."""
    calls: tuple[str, ...] = ()
    unreadable: str | None = None
    """Of a typed answer that cannot be read, what kind of fault of form it has."""


# --- reading ----------------------------------------------------------------------------------------------------------


def _digits(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except ArithmeticError:  # an exponent of more digits than a Decimal has
        return text


_EXACT = json.JSONDecoder(object_pairs_hook=marked_pairs, parse_int=_digits, parse_float=_digits)


def stated_claims(text: str) -> list[Any]:
    """Return the claims of a reply as they stand; raise `Unreadable` with the reason where there are none to read.

    Of several objects with claims the last counts. Claims may stand alone, and an answer that is not known too.

    >>> stated_claims('Not {"claims": [1]}, but {"claims": [{"value": "a"}]}'), stated_claims("Not in the sample.")
    ([{'value': 'a'}], [None])
    """
    if len(text) > MAX_TEXT:
        raise Unreadable("too long", f"the reply is longer than {MAX_TEXT:,} characters")
    try:
        objects = json_objects(text, _EXACT)
    except TooDeep as fault:
        raise Unreadable("too deep", f"the reply is {fault}") from None
    if repr(DOUBLED)[1:-1] in str(objects):
        raise Unreadable("a key twice", "an object has a key twice; which value counts is not decided")
    wrapped = [claims[0] for claims in (_with_key({"claims", "claim"}, value) for value in objects) if claims]
    broken = not wrapped and re.search(r"""["'“]claims?["'”]\s{0,9}:""", text)
    if wrapped:
        claims = wrapped[-1].get("claims", wrapped[-1].get("claim"))
        claims = claims if isinstance(claims, list) else [claims]
    else:
        claims = [] if broken else _bare(objects)
    if len(claims) > _MOST_CLAIMS:
        raise Unreadable("too long", f"there are more than {_MOST_CLAIMS} claims")
    answer = text.strip("` \n").removeprefix("json").strip()
    if not claims and (wrapped or (answer and not broken and _is_unknown(answer))):
        return [None]
    if not claims:
        raise Unreadable("no claims", "no JSON object with claims" if text.strip() else "the reply is empty")
    return claims


def _with_key(keys: set[str], value: Any) -> list[dict[str, Any]]:
    """Return the outermost objects in a value that have one of some keys."""
    if isinstance(value, dict) and not keys.isdisjoint(value):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value for part in parts for value in _with_key(keys, part)]


def _bare(objects: list[Any]) -> list[Any]:
    """Return claims that stand in no list of claims; of two about the same the later counts."""
    claims = {}
    for claim in _with_key({"value"}, objects):
        subject = [part for name, part in claim.items() if name not in ("value", "unit", "rows")]
        claims[readable(subject)] = claim
    return list(claims.values())


def _is_unknown(value: Any) -> bool:
    """Say whether a value says that the answer is not known."""
    if isinstance(value, str):
        short = len(value) <= _LONGEST and _UNKNOWN.search(value)
        return bool(short) or value.strip(" -–—?").casefold() in ("", "null", "none", "nan", "[]")
    return value is None or (isinstance(value, list) and all(map(_is_unknown, value)))


def read_claim(number: int, claim: Any) -> TypedClaim:
    """Return a claim as it was written; raise `Unreadable` where a part is missing, `Refuted` where it is invented.

    >>> print(read_claim(1, {"value": 2, "of": {"measure": "count", "filter": {"method": "POST"}}}))
    count where method POST = 2
    """
    if not isinstance(claim, dict):
        raise Unreadable("no claim", f"claim {number} is no object")
    if "value" not in claim:
        raise Unreadable("no value", f"claim {number} has no value")
    subject = claim | (claim["of"] if isinstance(claim.get("of"), dict) else {})
    if not subject.keys() & {"measure", "column", "filter"}:
        raise Unreadable("no subject", f"claim {number} has no of")
    measure, column = _word("measures", subject.get("measure")), subject.get("column") or None
    if column is None and measure in _NAMES["columns"]:
        measure, column = "value", measure
    if measure not in MEASURES:
        if measure.casefold() in WORDS["statistics"]:
            raise Unreadable("measure", f"claim {number} has the unknown measure {measure!r}")
        raise Refuted(f"it invents the measure {readable(measure)[:60]!r}")
    if measure in OF_COLUMN and column is None:
        raise Unreadable("no column", f"claim {number}: the measure {measure} needs a column")
    if isinstance(value := claim.get("value"), dict):
        raise Unreadable("value", f"claim {number}: the value is an object")
    filters = (subject.get("filter") or {}, subject.get("among") if measure == "share" else None)
    if not all(isinstance(part, dict | None) for part in filters):
        raise Unreadable("filter", f"claim {number}: filter and among must be objects of columns and values")
    conditions, among = (
        part and {_word("columns", name): condition for name, condition in part.items()} for part in filters
    )
    name, unit = None if column is None else _word("columns", column), str(claim.get("unit") or "").strip()
    rows = _ranges(number, subject.get("rows"))
    return TypedClaim(number, value, unit, measure, name, conditions, among, rows)


def _word(kind: str, name: Any) -> str:
    """Return the name of a measure or column for another word for it; a word that is none as it is."""
    word = " ".join(re.split(r"[\s_.-]+", readable(name).casefold())[:20])
    return str(_NAMES[kind].get(word, readable(name)))


def _ranges(number: int, rows: Any) -> Ranges | None:
    """Return the rows that a claim cites, or None where it cites none, or all."""
    text = ",".join(map(str, rows if isinstance(rows, list) else [rows])).casefold()
    parts = [part.strip() for part in re.split(r",|\b(?:rows?|and)\b", text)]
    if rows in (None, []) or "all" in parts:
        return None
    ranges = []
    for part in filter(None, parts) if any(parts) else [text]:
        bounds = _RANGE.fullmatch(part)
        if not bounds or int(bounds[2] or bounds[1]) < int(bounds[1]):
            excerpt = one_line(part, 60)
            raise Unreadable("rows", f"claim {number}: {excerpt!r} is no row number, no range and not all")
        ranges.append((int(bounds[1]), int(bounds[2] or bounds[1])))
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


# --- how a claim can be meant -----------------------------------------------------------------------------------------


def readings(claim: TypedClaim, answer: Answer, table: Table) -> Iterator[TypedClaim]:
    """Yield a claim as it is written, then as it can be meant where it does not hold to the letter."""
    values = list(_values(claim, answer))
    for meant in chain(values, *(_subjects(value, answer, table) for value in values)):
        yield with_cells(meant, table)


def _values(claim: TypedClaim, answer: Answer) -> Iterator[TypedClaim]:
    """Yield a claim with its value, with the choice that its value names, and with a list that its value is as text."""
    if claim.measure != "choice" or not answer.choices:
        yield claim
    if answer.type == "yes_no" and isinstance(truth_of(claim.value), bool):
        yield replace(claim, measure="exists", column=None)
    if answer.choices and claim.measure in (*_OF_CELLS, "choice"):
        text = readable(claim.value)
        chosen = [word for word in answer.choices if re.search(rf"(?i)(?<!\w){re.escape(word)}(?!\w)", text)]
        value = chosen[0] if len(chosen) == 1 else chosen or claim.value
        yield replace(claim, measure="choice", column=None, value=value)
    if claim.measure not in ("value", "list", "set", "distinct"):
        return
    listed = [claim.value] if isinstance(claim.value, list) and len(claim.value) > 1 else []
    if isinstance(claim.value, str):
        text = claim.value.strip("[]() ")
        between = r"\s*(?:→|->|;|\n|>)\s*" if re.search("→|->|;|\n|>", text) else r",\s*(?:and )?|\s+and\s+"
        pattern = r"[\s,;]+" if re.fullmatch(r"[\d\s,;]+", text) else between
        listed = [[part.strip(" '\"") for part in re.split(pattern, text)]]
    measures = (claim.measure,) if claim.measure in ("list", "set") else ("list", "set")
    yield from (replace(claim, value=value, measure=measure) for value in listed for measure in measures)


def _subjects(claim: TypedClaim, answer: Answer, table: Table) -> Iterator[TypedClaim]:
    """Yield a claim about other rows: with its column, the cited one, of pairs, or a share of others."""
    if claim.measure == "count" and claim.column:
        yield replace(claim, filter=claim.filter | {claim.column: "*"})
    if claim.measure == "value" and claim.rows is not None:
        yield replace(claim, cited=True)
    if claim.measure == "share" and claim.among is None:
        for among in (answer.among, dict.fromkeys(claim.filter, "*"), {}):
            if among is not None:
                yield replace(claim, among=among)
    elif claim.filter and claim.filter.keys() <= _HTTP:
        with suppress(Fault):  # which the check tells of
            if not table.nonempty(claim.column, claim.selected(table)[0]):
                yield replace(claim, paired=True)


def with_cells(claim: TypedClaim, table: Table) -> TypedClaim:
    """Return a claim with the cell of its rows in place of each value that names this cell in another way."""
    if claim.measure not in _OF_CELLS or claim.column not in table.cells:
        return claim
    column, by_value = table.cells[claim.column], table.rows_by_value[claim.column]
    try:
        rows = claim.selected(table)[0] & claim.basis(table)
    except Fault:  # which the check tells of
        return claim
    values = []
    for value in claim.values:
        named = isinstance(value, str) and canonical(claim.column, value) not in by_value
        cells = {column[row] for row in table.rows_like(claim.column, value) & rows} if named else set()
        values.append(cells.pop() if len(cells) == 1 else value)
    return replace(claim, value=values if isinstance(claim.value, list) else values[0])


# --- comparing --------------------------------------------------------------------------------------------------------


def equal(claim: TypedClaim, truth: Any, slack: Decimal = Decimal(0)) -> bool:
    """Say whether a claim's value is a value of a sample, both in its unit and to half a unit of its last digit."""
    values = claim.values
    if isinstance(truth, bool):
        if (stated := truth_of(claim.value)) is None:
            raise Unreadable("value", f"claim {claim.number}: {readable(claim.value)[:60]!r} is no yes or no")
        return stated is truth
    members = truth if isinstance(truth, list) else [truth]
    if claim.measure == "set":
        values, members = (_sorted_set(claim.column, some) for some in (values, members))
    return len(values) == len(members) and all(
        _same(claim, value, member, slack) for value, member in zip(values, members, strict=True)
    )


def _sorted_set(column: str | None, members: list[Any]) -> list[Any]:
    different = {canonical(column, member): member for member in members}
    numbers = sorted(value for value in different if isinstance(value, Decimal))
    texts = sorted(str(value) for value in different if not isinstance(value, Decimal))
    return [different.get(value, value) for value in [*numbers, *texts]]


def _same(claim: TypedClaim, value: Any, truth: Any, slack: Decimal) -> bool:
    if isinstance(value, list | dict):
        return False
    if not isinstance(truth, Decimal):
        return bool(canonical(claim.column, value) == canonical(claim.column, truth))
    number, unit = spelled(value)
    scale = claim.scale(unit)
    exact = truth / scale
    if number is None:
        # Of several numbers one may be meant; a word in place of a cell, and a number beyond all samples, are false.
        text = "" if isinstance(value, Decimal) else readable(value)
        near = [abs(Decimal(part) / exact - 1) < _NEAR for part in _PLAIN.findall(text) if exact]
        if any(near) or (text and not near and claim.measure not in _OF_CELLS):
            raise Unreadable("value", f"claim {claim.number}: {text[:60]!r} is no single number")
        return False
    if claim.kind in _EXACT_KINDS:
        return abs(number - truth) <= slack
    if 4 <= len(number.as_tuple().digits) <= 16 and exact.quantize(number, ROUND_DOWN) == number:
        return True  # cut off, and not rounded
    return abs(number - exact) * scale <= max(half_digit(number) * scale, slack) + _ROUNDING


def check(claim: TypedClaim, table: Table, slack: Decimal = Decimal(0)) -> None:
    """Compare one claim with the sample; raise `Refuted` with the reason where it does not hold."""
    if claim.measure == "share" and claim.among is None:
        raise Unreadable("filter", f"claim {claim.number}: a share needs among")
    rows, absent = claim.selected(table)
    among, absent_among = table.select(claim.among or {})
    if claim.column is not None:
        table.column(claim.column)
    inside = rows & claim.basis(table)
    if claim.measure == "choice":
        if not inside:
            raise Refuted("it rests on no row")
        return
    for over, subject in ((rows, "the sample gives"), (inside, "the cited rows give")):
        try:
            truth = table.calculate(claim.measure, claim.column, over, among)
        except Refuted as error:
            fault = f"{subject} no value ({error})"
        else:
            if equal(claim, truth, slack):
                continue
            fault = f"it says {readable(claim.value)[:80]}, {subject} {readable(truth)[:200]}"
        missing = absent or absent_among
        raise Refuted(f"no row of the sample has {missing}" if missing else fault)


# --- what a value is of -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Basis:
    """What a subject is calculated from: of a column the rows with a value, of one value the rows that give it."""

    table: Table
    measure: str
    column: str | None
    rows: tuple[int, ...]
    among: Rows | None

    @classmethod
    def of(cls, subject: Subject | TypedClaim, table: Table) -> "Basis":
        """Return the basis of a subject in a sample; of alike measures the same one."""
        selected = (
            subject.selected(table) if isinstance(subject, TypedClaim) else table.select(subject.filter)
        )
        measure, column = str(subject.measure), subject.column if subject.measure in OF_COLUMN else None
        rows = table.nonempty(column, selected[0])
        if measure in ("first", "last"):
            rows = rows[:1] if measure == "first" else rows[-1:]
        elif measure in ("min", "max") and rows:
            end = table.calculate(measure, column, frozenset(rows), Rows())
            rows = [row for row in rows if table.cells[str(column)][row] == end]
        measure = "value" if measure in _OF_CELLS else "count" if measure == "exists" else measure
        if measure == "mean_interval" and len(rows) == 2:
            measure = "duration"
        elif measure == "value" and column == "time" and len(rows) == 1 and table.cells["time"][0] == 0:
            measure, column, rows = "duration", None, [0, *rows]  # times are since the first packet
        if measure == "duration":
            rows = [*rows[:1], *rows[-1:]]
        among = None if subject.among is None else table.select(subject.among)[0]
        return cls(table, measure, column, tuple(rows), among)

    def partner(self) -> "Basis":
        """Return the same of the requests or responses that belong to the rows."""
        partner = self.table.partner
        rows = sorted(partner[row] for row in self.rows if row in partner)
        return replace(self, column=_ENDPOINTS.get(self.column, self.column), rows=tuple(rows))

    def values(self, column: str | None) -> list[Any]:
        """Return the values of a column in its rows."""
        cells = self.table.cells[str(column)]
        return [None if cells[row] is None else canonical(column, cells[row]) for row in self.rows]

    def alike(self, other: "Basis") -> bool:
        """Say whether another basis has the same rows, or by another way the same different values."""
        if self.among != other.among:
            return False
        if {self.measure, other.measure} == {"count", "distinct"}:
            counted, different = sorted((self, other), key=lambda basis: basis.measure)
            values = counted.values(different.column)
            return len(set(values)) == len(values) and set(values) == set(different.values(different.column))
        if (self.measure, self.column) != (other.measure, other.column):
            return False
        if self.measure in ("value", "distinct"):
            alike = set(self.values(self.column)) == set(other.values(self.column))
            return alike and not self.flows.isdisjoint(other.flows)
        return self.rows == other.rows

    @property
    def flows(self) -> set[Any]:
        """Its rows; for an address or a port the streams of the rows with who sends in them."""
        cells_by_name = [self.table.cells.get(name) for name in ("stream", "source")]
        if self.column not in _ENDPOINTS or None in cells_by_name:
            return set(self.rows)
        return {tuple(cells[row] for cells in cells_by_name if cells) for row in self.rows}


def _narrowest(conditions: Mapping[str, Any], table: Table) -> Any:
    """Return what makes a filter select nothing: the rows of its narrowest condition, or the column of an empty one."""
    chosen = {name: table.with_partners(table.select({name: part})[0]) for name, part in conditions.items()}
    name = min(chosen, key=lambda key: len(chosen[key]), default="")
    return chosen.get(name) or name


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
        return str(WORDS["kinds"]["types"].get(self.answer.type) or unit_of(self.answer.unit)[0])

    @property
    def scale(self) -> Decimal:
        """How many seconds, bytes or parts of 1 the unit of the question is."""
        return unit_of(self.answer.unit)[1]

    @cached_property
    def slack(self) -> Decimal:
        """The tolerance of the question in seconds, bytes or parts of 1, below every difference within the sample."""
        column = "time" if self.kind == "time" else self.answer.column
        cells = sorted({cell for cell in self.table.cells.get(column or "", ()) if isinstance(cell, Decimal)})
        differences = [high - low for low, high in pairwise(cells)]
        if self.answer.among is not None:
            differences = [1 / Decimal(len(self.table.select(self.answer.among)[0]))]
        tolerance = Decimal(str(self.answer.tolerance)) * self.scale
        return min([tolerance, *(difference / 2 for difference in differences)])

    def asks_for(self, claim: TypedClaim, subject: Subject) -> bool:
        """Say whether a claim is about what a subject is about, by its rows or by another way to the same values."""
        if claim.measure == "choice" or subject.measure is None:
            return False
        expected, stated = (Basis.of(part, self.table) for part in (subject, claim))
        if not (expected.rows or stated.rows) and expected.measure == stated.measure == "count":
            return bool(_narrowest(subject.filter, self.table) == _narrowest(claim.filter, self.table))
        # Requests and their responses are as many; which of them is counted matters, but where a filter names both.
        if stated.column in _ENDPOINTS:
            paired = self.table.partner.keys() >= {*stated.rows}
        else:
            paired = stated.measure == "count" and not {*subject.filter, *claim.filter}.isdisjoint(ANSWERS)
        return expected.alike(stated) or (paired and expected.alike(stated.partner()))

    def gives(self, claim: TypedClaim, subject: Subject, truth: Any) -> bool:
        """Say whether a claim that holds is about a subject and states its value."""
        if not self.asks_for(claim, subject):
            return False
        try:
            if isinstance(truth, bool):
                return (
                    equal(claim, truth)
                    if claim.measure == "exists"
                    else bool(spelled(claim.value)[0]) is truth
                )
            if isinstance(truth, list):
                form = subject.measure if self.answer.claims else self.answer.type
                return equal(replace(claim, measure=str(form)), truth)
            return all(_same(claim, value, truth, self.slack) for value in claim.values)
        except Unreadable:  # the value of another measure
            return False

    def met_by(self, claim: TypedClaim) -> bool:
        """Say whether a claim that holds answers the closed question."""
        answer, truth = self.answer, self.value
        if answer.choices:
            return claim.measure == "choice"
        if answer.measure is not None:
            return self.gives(claim, answer, truth)
        if isinstance(truth, list | str | bool):
            column = WORDS["columns_of_types"].get(answer.type) or claim.column
            measure, unit = "set" if answer.type == "set" else "list", claim.unit * (claim.kind == self.kind)
            return equal(replace(claim, measure=measure, column=column, unit=unit), truth)
        alike = self.kind in ("", claim.kind) or {self.kind, claim.kind} <= {*_EXACT_KINDS, "mean"}
        return alike and equal(claim, truth * self.scale, self.slack)

    def holds(self, claim: TypedClaim) -> None:
        """Raise `Refuted` or `Unreadable` where a claim does not hold, or where it makes a false choice."""
        answer = self.answer
        if claim.measure == "choice" and not answer.choices:
            raise Unreadable("measure", "the measure choice is for a question that gives choices")
        within = answer.tolerance > 0 and claim.kind not in _EXACT_KINDS and self.asks_for(claim, answer)
        check(claim, self.table, self.slack if within else Decimal(0))
        if claim.measure == "choice" and claim.value != self.value:
            if isinstance(claim.value, list):
                raise Unreadable("value", f"claim {claim.number}: {readable(claim.value)} is no one choice")
            right = readable(self.value) if answer.known else "not in the sample"
            raise Refuted(f"it chooses {readable(claim.value)[:80]}, right is {right}")

    def required_of(self, claims: list[TypedClaim]) -> Subject | None:
        """Return the first required claim of an open question that no claim makes."""
        for subject in self.answer.claims:
            truth = subject.of(self.table)
            if not any(self.gives(claim, subject, truth) for claim in claims):
                return subject
        return None


@dataclass(frozen=True)
class Outcome:
    """What became of one claim: how it is meant so that it holds, or why it does not hold or cannot be read."""

    number: int
    value: Any
    text: str
    claim: TypedClaim | None = None
    fault: Fault | None = None


def _outcome(number: int, stated: Any, expected: Expected) -> Outcome | None:
    """Return what becomes of a claim, or None where it says that the answer is not known."""
    value = stated.get("value", ...) if isinstance(stated, dict) else stated
    text, faults = readable(value)[:200], list[Fault]()
    try:
        claim = read_claim(number, stated)
        text = str(claim)
        for reading in readings(claim, expected.answer, expected.table):
            try:
                expected.holds(reading)
                return Outcome(number, reading.value, text, reading)
            except Fault as fault:
                faults.append(fault)
    except Fault as fault:
        faults.append(fault)
    if _is_unknown(value):
        return None
    # A claim that is false in one way to read it and cannot be read in others is false.
    false = next((fault for fault in faults if isinstance(fault, Refuted)), faults[0])
    return Outcome(number, value, text, fault=false)


def typed_verdict(text: str, expected: Expected) -> Verdict:
    """Return the verdict on a typed reply, with one sentence as the reason."""
    try:
        stated = stated_claims(text)
    except Unreadable as error:
        return Verdict(None, f"unreadable: {error}", unreadable=error.cause)
    all_outcomes = [_outcome(number, claim, expected) for number, claim in enumerate(stated, 1)]
    outcomes = [outcome for outcome in all_outcomes if outcome is not None]
    first = outcomes[0] if outcomes else None
    value = readable(first.value)[:200] if first else "not in the sample"
    claims = [outcome.claim for outcome in outcomes if outcome.claim]
    false = [outcome for outcome in outcomes if isinstance(outcome.fault, Refuted)]
    unread = [outcome.fault for outcome in outcomes if isinstance(outcome.fault, Unreadable)]
    matched: bool | None
    if not expected.answer.known:
        matched = None in all_outcomes
        reason = "the sample does not hold the answer"
    elif expected.answer.claims:
        absent = None if false else expected.required_of(claims)
        matched = None if false else absent is None
        reason = f"no claim gives {absent.measure} {absent.column or ''}" if absent else "all are there"
    else:
        matched = first is not None and first.claim is not None and expected.met_by(first.claim)
        speaker = f"claim {first.number}" if first else "the reply"
        reason = f"expected is {readable(expected.value)}, {speaker} says {value}"
        unread = unread if first and isinstance(first.fault, Unreadable) else []
    if false:
        reason = f"claim {false[0].number} ({false[0].text}) is false: {false[0].fault}"
        invented = tuple(f"claim {outcome.number} {outcome.text}" for outcome in false)
        return Verdict("hallucinated", reason, matched, value, invented)
    if unread and not matched:
        return Verdict(None, f"unreadable: {unread[0]}", found=value, unreadable=unread[0].cause)
    return Verdict("expected" if matched else "unexpected", reason, matched, value)


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

"""Tables of the thesis: the estimates of a result, each statistic a column where it repeats."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from toolkit.report import captions, style
from toolkit.report.blocks import LINE, WIDEST, Grid, Part
from toolkit.report.captions import ALONE, Context
from toolkit.report.escape import TERMS, readable
from toolkit.stats.result import CONFIDENCE, Estimate, digits_apart, estimates_frame
from toolkit.words import level_words

if TYPE_CHECKING:
    from toolkit.stats.agreement.reliability import Reliability
    from toolkit.stats.result import Result

_COLUMNS = TERMS["columns"]
_LARGE = 100.0  # a number from which on decimals say nothing
_NOISE = 1e-6

Keyed = tuple[str | tuple[str, ...], Estimate]
"""An estimate and the names of what holds it, the outermost first."""
Panel = dict[tuple[str, str], Estimate]
"""Estimates by their row and column."""


@dataclass(frozen=True)
class Table(Part):
    """A table ready for the thesis: what is printed, its data, and the estimates that these rest on."""

    name: str
    grid: Grid
    data: pd.DataFrame
    estimates: Sequence[Estimate] = ()
    notes: str = ""
    folder: str = "tables"

    @property
    def block(self) -> Grid:
        """What a document shows of it."""
        return self.grid

    @property
    def caption(self) -> str:
        """The caption without its number."""
        return self.grid.caption

    @property
    def latex(self) -> str:
        """The table in LaTeX, with a label that names no study."""
        return self.grid.latex()


def estimates_table(
    name: str,
    title: str,
    keyed: Sequence[Keyed],
    *,
    key: str = "of",
    context: Context = ALONE,
    label: str = "",
    data: pd.DataFrame | None = None,
    basis: Sequence[object] = (),
    note: Sequence[object] = (),
    notes: Sequence[object] = (),
) -> Table:
    """Return results as a table with their data, each statistic a column where it repeats, and the n of all once."""
    results = [result for _, result in keyed]
    cells = _cells(keyed)
    panels = _panels(cells)
    frequent = Counter(tuple(result.n.items()) for result in results if result.n).most_common(1)
    usual = dict(frequent[0][0]) if frequent else {}
    if any(_differing(panel) for panel in panels):  # what rows have in common is all that is said of all
        usual = {unit: n for unit, n in usual.items() if all(result.n.get(unit) == n for result in results)}
    rows: list[list[str]] = []
    heads: list[int] = []
    exceptions: list[str] = []
    for panel in panels:
        names, columns = (list(dict.fromkeys(part)) for part in zip(*panel, strict=True))
        blocks = [_column(name, [panel.get((row, name)) for row in names]) for name in columns]
        if by_row := _differing(panel):
            unusual = [{unit: n for unit, n in by_row[row].items() if usual.get(unit) != n} for row in names]
            blocks.append(["n", *map(captions.counts_words, unusual)])
        else:
            exceptions += _exceptions(panel, usual)
        for part in _fitting(blocks, max(map(len, names))):
            heads.append(len(rows))
            rows += map(list, zip(["", *names], *part, strict=True))
    width = max(map(len, rows), default=0)
    head, *body = [row + [""] * (width - len(row)) for row in rows] or [[""]]
    grid = pd.DataFrame(body, columns=head)
    bracketed = any(result.low is not None for result in results)
    caption, remarks = context.compose(
        f"{title}{': intervals in brackets' if bracketed else ''}.",
        [
            captions.n_words(usual) if usual else "n stands in the notes" if exceptions else "",
            captions.interval_words(results),
            captions.missing_before(results),
            *basis,
        ],
        [captions.corrections_words(results), captions.roles_words(results), *note],
        [captions.sentence(*exceptions), captions.tests_words(results), *notes],
        [replace(c.estimate, statistic=c.column if c.column != _COLUMNS[""] else "") for c in cells],
    )
    flat = ((holder if isinstance(holder, str) else " ".join(holder), result) for holder, result in keyed)
    panel_rows = [row - 1 for row in heads[1:]]
    block = Grid(grid, caption, label or name.replace("_", "-"), panel_rows)
    return Table(name, block, estimates_frame(flat, key) if data is None else data, results, remarks)


@dataclass(frozen=True)
class _Cell:
    """Where an estimate stands: the part of the result that it is of, its row and its column."""

    part: str
    row: str
    column: str
    estimate: Estimate


def _cells(keyed: Sequence[Keyed]) -> list[_Cell]:
    """Return where each estimate stands: what repeats in the names of estimates becomes a column."""
    pairs = [(estimate.statistic or estimate.name, estimate.label) for _, estimate in keyed]
    statistics = Counter(statistic for statistic, _ in dict.fromkeys(pairs))
    labels = Counter(label for _, label in dict.fromkeys(pairs))
    names = Counter(estimate.name for _, estimate in keyed)
    cells = []
    for (holder, estimate), (statistic, label) in zip(keyed, pairs, strict=True):
        part, *inner = (holder,) if isinstance(holder, str) else holder or ("",)
        if inner and (names[estimate.name] > 1 or not label):
            row = " ".join(inner[inner[0] == "contrasts" and len(inner) > 1 :])
            cells.append(_Cell(part, row, estimate.name, estimate))
        elif label and (statistics[statistic] > 2 or labels[label] > 1):
            cells.append(_Cell("", label, statistic, estimate))
        else:
            name = estimate.name.replace(":", " in ") if part == "components" else estimate.name
            cells.append(_Cell("", name, part if part != name else "", estimate))
    heads = (_COLUMNS.get(cell.column, cell.column) + TERMS["parts"].get(cell.part, "") for cell in cells)
    return [replace(cell, column=head) for cell, head in zip(cells, heads, strict=True)]


def _panels(cells: Iterable[_Cell]) -> list[Panel]:
    """Return what shares its rows together; an estimate whose place is taken gets a row of the same name."""
    columns: dict[tuple[str, str], dict[str, Estimate]] = {}
    for cell in cells:
        column, row = columns.setdefault((cell.part, cell.column), {}), cell.row
        while row in column:
            row += "\u200b"  # is not printed
        column[row] = cell.estimate
    panels: list[tuple[str, Panel]] = []
    for (part, name), column in columns.items():
        alike = (panel for owner, panel in panels if owner == part and any(row in column for row, _ in panel))
        if (panel := next(alike, None)) is None:
            panels.append((part, panel := {}))
        panel |= {(row, name): estimate for row, estimate in column.items()}
    return [panel for _, panel in panels]


def _column(name: str, estimates: Sequence[Estimate | None]) -> list[str]:
    """Return the head of a column and its cells: estimate, interval and P value."""
    levels = {e.confidence for e in estimates if e is not None and e.low is not None}
    level = f" [{level_words(levels.pop())} interval]" if len(levels) == 1 and levels != {CONFIDENCE} else ""
    cells = [name + level]
    for e in estimates:
        p = None if e is None else e.p_value
        tested = "" if p is None else ", p < 0.001" if p < 0.001 else f", p = {p:.3f}"
        cells.append("" if e is None else f"{with_interval(e) or '–'}{tested}")
    return cells


def _fitting(columns: Sequence[list[str]], first: int) -> Iterator[Sequence[list[str]]]:
    widths = [min(max(map(len, cells)), WIDEST) + 3 for cells in columns]
    line, parts = LINE - min(first, WIDEST), 1
    while True:
        size = -(-len(columns) // parts)
        starts = range(0, len(columns), size)
        if size == 1 or all(sum(widths[start : start + size]) <= line for start in starts):
            yield from (columns[start : start + size] for start in starts)
            return
        parts += 1


def _differing(panel: Panel) -> dict[str, Mapping[str, int]]:
    """Return n of each row where rows differ in it and columns do not; nothing elsewhere."""
    pairs = [(row, estimate.n) for (row, _), estimate in panel.items() if estimate.n]
    rows = dict(pairs)
    alike = all(n == rows[row] for row, n in pairs) and len(rows) == len({row for row, _ in panel})
    return rows if alike and len({tuple(n.items()) for n in rows.values()}) > 1 else {}


def _exceptions(panel: Panel, usual: Mapping[str, int]) -> list[str]:
    heads: dict[str, list[str]] = {}
    for column in dict.fromkeys(column for _, column in panel):
        unusual = [e for (_, name), e in panel.items() if name == column and e.n and e.n != usual]
        if unusual:
            names = [column] if column != _COLUMNS[""] else [estimate.name for estimate in unusual]
            heads.setdefault(captions.estimates_n_words(unusual), []).extend(names)
    return [f"for {', '.join(names)} {counts}" for counts, names in heads.items()]


def with_interval(estimate: Estimate) -> str:
    """Return an estimate and its interval as text, with the decimals that suit its unit and print those apart."""
    value, low, high = estimate.estimate, estimate.low, estimate.high
    if value is None:
        return ""
    numbers = (value,) if low is None or high is None else (value, low, high)
    size = abs(value)
    digits = 3 if " per " in estimate.unit else 2
    if estimate.unit in ("judgements", "tokens") or size >= _LARGE:
        digits = 0
    if _NOISE < size < (0.1 if estimate.unit == "AUD" else 0.5 * 10**-digits):
        # What is not nothing does not print as nothing, and of money two digits count.
        digits = (estimate.unit == "AUD") - math.floor(math.log10(size))
    text, *ends = (style.decimals(number, digits_apart(numbers, digits)) for number in numbers)
    return f"{text} [{', '.join(ends)}]" if ends else text


def reliability_table(reliability: Reliability, *, context: Context = ALONE) -> Table:
    """Return how far the judges agree, a row a dimension: ICC(A,1), ICC(A,k), for leniency is error here, and alpha."""
    keyed: list[Keyed] = []
    for key, forms in reliability.icc.items():
        estimates = [form for form in forms if form.name in ("ICC(A,1)", "ICC(A,k)")]
        estimates += [alpha] if (alpha := reliability.alpha_over_judges.get(key)) is not None else []
        keyed += [(("score", readable(key)), estimate) for estimate in estimates]
    over, text = reliability.alpha_over_dimensions, captions.TEXTS["reliability"]
    notes = [captions.capital(over.sentence()) if over is not None else ""]
    notes.append(captions.notes_words(reliability.notes))
    return estimates_table(
        "reliability", text["seen"], keyed, key="score", context=context, note=[text["note"]], notes=notes
    )


def judges_table(comparison: Result, judges: Mapping[str, str], *, context: Context = ALONE) -> Table:
    """Return what is known of each judge, one row a judge, by the names that ``judges`` gives to roles."""
    text, keyed = captions.TEXTS["judges"], []
    for statistic, head in TERMS["judges"].items():
        for estimate in comparison.select(statistic):
            facets = {"name": judges.get(estimate.facets["judge"], estimate.facets["judge"])}
            # Only leniency is tested, and its table of agreement has the corrected P value.
            keyed.append((statistic, replace(estimate, statistic=head, facets=facets, p_value=None)))
    note = [text["table_note"]]
    return estimates_table("judges", text["table"], keyed, key="part", context=context, note=note)


def length_table(comparison: Result, *, context: Context = ALONE) -> Table:
    """Return means, differences and effect sizes of the levels."""
    keyed: list[Keyed] = [("per level", e) for e in comparison.per_level]
    keyed += [("contrasts", e) for e in comparison.contrasts]
    keyed += [("", e) for e in comparison.corrected_effect_sizes]
    text = captions.TEXTS["length"]
    effects = [e for e in comparison.corrected_effect_sizes if e.estimable]
    notes = [effects and text["effect_size"], captions.notes_words(comparison.notes)]
    basis = [captions.unpaired_words(comparison.contrasts)]
    seen = text["seen"].format(varied=context.factor, lengths=context.lengths)
    name = "length" if comparison.title == "prompt length" else "levels"
    return estimates_table(name, seen, keyed, key="what", context=context, basis=basis, notes=notes)

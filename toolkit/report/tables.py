"""Tables of the thesis: any results, the reliability of the judges, and the comparison of prompt lengths."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd

from toolkit.files import write_atomically
from toolkit.report import captions, style
from toolkit.report.escape import readable, with_study
from toolkit.report.latex import latex_table
from toolkit.stats.result import CONFIDENCE, Estimate, digits_apart, estimates_frame
from toolkit.table_files import csv_bytes
from toolkit.words import coverage

if TYPE_CHECKING:
    from toolkit.stats.agreement.reliability import Reliability
    from toolkit.stats.prompt_length.contrasts import LengthComparison

_COLUMNS: Final = {
    "": "estimate", "slope": "estimate", "per bin": "mean", "contrasts": "difference", "anova": "all lengths",
    "friedman": "all lengths", "aud per base": "AUD", "overall": "share", "missing": "share missing",
    "components": "variance", "models": "mean", "differences": "difference", "total": "in all",
    "direct": "at equal reply length",
}  # fmt: skip
"""What a column is called that holds one part of a result."""
_PARTS: Final = {"icc independent": ", independent", "bounds": ", if filled in"}
"""What columns add to their names where two parts of a result have the same."""
_LINE: Final = 112  # characters of a line of small type
_FIRST: Final = 26  # most characters of it that names of rows take
_LARGE: Final = 100.0  # a number from which on decimals say nothing
_NOISE: Final = 1e-6
_TERMS: Final = {"term": "Term", "f": "F", "p_value": "p", "p_holm": "p (Holm over all terms)"}


Placed = tuple[str | tuple[str, ...], Estimate]
"""An estimate and what holds it, the outermost first."""


@dataclass(frozen=True)
class Table:
    """A table ready for the thesis."""

    name: str
    latex: str
    data: pd.DataFrame
    caption: str


def save_table(table: Table, folder: Path | str, study: str = "") -> list[Path]:
    r"""Write ``NAME.tex`` (to ``\input`` in the thesis) and ``NAME.csv`` (its numbers, unrounded)."""
    place = Path(folder)
    return [
        write_atomically(place / f"{table.name}.tex", with_study(table.latex, study).encode()),
        write_atomically(place / f"{table.name}.csv", csv_bytes(table.data)),
    ]


def corrections_words(results: Iterable[Estimate]) -> str:
    """Say how P values were corrected for multiplicity, and that the intervals beside them were not."""
    told = [one for one in results if one.correction != "none" and one.p_value is not None]
    how = "; ".join(dict.fromkeys(one.correction for one in told))
    intervals = ", intervals unadjusted" if any(one.low is not None for one in told) else ""
    return f"P values corrected for multiplicity: {how}{intervals}." if told else ""


def estimates_table(
    name: str,
    title: str,
    keyed: Sequence[Placed],
    *,
    key: str = "of",
    end: str = "",
    label: str = "",
    data: pd.DataFrame | None = None,
) -> Table:
    """Return results as a LaTeX table with their data, each statistic a column where it repeats.

    What is the same for all, n and methods, stands in the caption once; what differs stands beside its row or in a
    note.
    """
    results = [result for _, result in keyed]
    cells = _cells(keyed)
    panels = _panels(cells)
    usual = _usual(one.n for one in results)
    if any(_differing(panel) for panel in panels):  # what rows have in common is all that is said of all
        usual = {what: n for what, n in usual.items() if all(one.n.get(what) == n for one in results)}
    rows: list[list[str]] = []
    heads: list[int] = []
    notes: list[str] = []
    for panel in panels:
        names, columns = (list(dict.fromkeys(part)) for part in zip(*panel, strict=True))
        blocks = [_column(name, [panel.get((row, name)) for row in names]) for name in columns]
        if by_row := _differing(panel):
            left = [{what: n for what, n in by_row[row].items() if usual.get(what) != n} for row in names]
            blocks.append(["n", *(captions.n_words(n).removeprefix("n = ") for n in left)])
        else:
            notes += _exceptions(panel, usual)
        for part in _fitting(blocks, max(map(len, names))):
            heads.append(len(rows))
            rows += map(list, zip(["", *names], *part, strict=True))
    width = max(map(len, rows), default=0)
    frame = pd.DataFrame([row + [""] * (width - len(row)) for row in rows or [[""]]])
    frame.columns = frame.columns.map(str)
    brackets = "In brackets " if any(one.low is not None for one in results) else ""
    ways = Counter((part, column) for part, column, _ in {(c.part, c.column, c.one.method) for c in cells})
    plain = {place for place, count in ways.items() if count == 1 and place[1] != _COLUMNS[""]}
    of = [cell.column if (cell.part, cell.column) in plain else cell.one.name for cell in cells]
    counts = [captions.n_words(usual)] if usual else []
    caption = captions.join(
        f"{title.rstrip('.')} ({'; '.join([*counts, *notes])})." if usual or notes else title,
        f"{brackets}{captions.interval_words(results, of)}",
        captions.tests_words(results),
        corrections_words(results),
        captions.roles_words(results),
        captions.not_estimable_words(results),
        end,
    )
    if data is None:
        flat = ((about if isinstance(about, str) else " ".join(about), one) for about, one in keyed)
        data = estimates_frame(flat, key)
    columns_of = {str(name): str(head) for name, head in frame.iloc[0].items()}
    more = [at - 1 for at in heads[1:]]
    text = latex_table(
        frame.iloc[1:], caption, f"tab:{label or name.replace('_', '-')}", columns_of, panels=more
    )
    return Table(name, text, data, caption)


@dataclass(frozen=True)
class _Cell:
    """Where an estimate stands: the part of the result that it is of, its row and its column."""

    part: str
    row: str
    column: str
    one: Estimate


def _cells(keyed: Sequence[Placed]) -> list[_Cell]:
    """Return where each estimate stands: what repeats in the names of estimates becomes a column."""
    split = [(one.statistic or one.name, one.label) for _, one in keyed]
    whats = Counter(what for what, _ in dict.fromkeys(split))
    ofs = Counter(of for _, of in dict.fromkeys(split))
    names = Counter(one.name for _, one in keyed)
    found = []
    for (about, one), (what, of) in zip(keyed, split, strict=True):
        first, *rest = (about,) if isinstance(about, str) else about or ("",)
        if rest and (names[one.name] > 1 or not of):
            row = " ".join(rest[rest[0] == "contrasts" and len(rest) > 1 :])
            found.append(_Cell(first, row, one.name, one))
        elif of and (whats[what] > 2 or ofs[of] > 1):
            found.append(_Cell("", of, what, one))
        else:
            name = one.name.replace(":", " in ") if first == "components" else one.name
            found.append(_Cell("", name, first if first != name else "", one))
    heads = (_COLUMNS.get(cell.column, cell.column) + _PARTS.get(cell.part, "") for cell in found)
    return [replace(cell, column=head) for cell, head in zip(found, heads, strict=True)]


def _panels(cells: Iterable[_Cell]) -> list[dict[tuple[str, str], Estimate]]:
    """Return what shares its rows together; an estimate whose place is taken gets a row of the same name."""
    columns: dict[tuple[str, str], dict[str, Estimate]] = {}
    for cell in cells:
        own, row = columns.setdefault((cell.part, cell.column), {}), cell.row
        while row in own:
            row += "\u200b"  # is not printed
        own[row] = cell.one
    panels: list[tuple[str, dict[tuple[str, str], Estimate]]] = []
    for (part, column), own in columns.items():
        told = {(row, column): one for row, one in own.items()}
        beside = (
            of for name, of in panels if name == part and not own.keys().isdisjoint(row for row, _ in of)
        )
        if (panel := next(beside, None)) is None:
            panels.append((part, told))
        else:
            panel |= told
    return [panel for _, panel in panels]


def _column(name: str, ones: Sequence[Estimate | None]) -> list[str]:
    """Return the head of a column and its cells: estimate, interval and P value."""
    levels = {one.confidence for one in ones if one is not None and one.low is not None}
    other = levels - {CONFIDENCE}
    told = [f"{name} [{coverage(other.pop())} interval]" if len(levels) == len(other) == 1 else name]
    for one in ones:
        p = None if one is None else one.p_value
        tested = "" if p is None else ", p < 0.001" if p < 0.001 else f", p = {p:.3f}"
        told.append("" if one is None else (with_interval(one) or "–") + tested)
    return told


def _fitting(columns: Sequence[list[str]], first: int) -> Iterator[Sequence[list[str]]]:
    """Give the columns in as few parts as the width of a line needs, of as many columns each."""
    widths = [max(map(len, cells)) + 3 for cells in columns]
    room, parts = _LINE - min(first, _FIRST), 1
    while True:
        each = -(-len(columns) // parts)
        starts = range(0, len(columns), each)
        if each == 1 or all(sum(widths[start : start + each]) <= room for start in starts):
            yield from (columns[start : start + each] for start in starts)
            return
        parts += 1


def _usual(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the n that most estimates have."""
    told = Counter(tuple(n.items()) for n in counts if n)
    return dict(told.most_common(1)[0][0]) if told else {}


def _differing(panel: Mapping[tuple[str, str], Estimate]) -> dict[str, Mapping[str, int]]:
    """Return n of each row where rows differ in it and columns do not; nothing elsewhere."""
    counted = [(row, one.n) for (row, _), one in panel.items() if one.n]
    rows = dict(counted)
    alike = all(n == rows[row] for row, n in counted) and len(rows) == len({row for row, _ in panel})
    return rows if alike and len({tuple(n.items()) for n in rows.values()}) > 1 else {}


def _exceptions(panel: Mapping[tuple[str, str], Estimate], usual: Mapping[str, int]) -> list[str]:
    """Return what is said of columns that have another n than most."""
    heads: dict[str, list[str]] = {}
    for column in dict.fromkeys(column for _, column in panel):
        own = [one for (_, of), one in panel.items() if of == column and one.n and one.n != usual]
        if own:
            told = [column] if column != _COLUMNS[""] else [one.name for one in own]
            heads.setdefault(captions.estimates_n_words(own), []).extend(told)
    return [f"for {', '.join(names)} {words}" for words, names in heads.items()]


def with_interval(found: Estimate) -> str:
    """Return an estimate and its interval as text, with the decimals that suit its unit and print those apart."""
    if found.estimate is None:
        return ""
    has_ends = found.low is not None and found.high is not None
    ends = (found.estimate, found.low, found.high) if has_ends else (found.estimate,)
    size = abs(found.estimate)
    places = 0 if found.unit in ("ms", "tokens") or size >= _LARGE else 3 if " per " in found.unit else 2
    if _NOISE < size < (0.1 if found.unit == "AUD" else 0.5 * 10**-places):
        # What is not nothing does not print as nothing, and of money two digits count.
        places = (found.unit == "AUD") - math.floor(math.log10(size))
    told = [style.decimals(end, digits_apart(ends, places)) for end in ends if end is not None]
    return f"{told[0]} [{told[1]}, {told[2]}]" if len(told) > 1 else told[0]


def terms_table(name: str, title: str, frame: pd.DataFrame, *, end: str, label: str) -> Table:
    """Return tests of terms, which have degrees of freedom in place of intervals."""
    # A column in which nothing stands, such as notes where there are none, tells a reader nothing.
    told = [str(column) for column in frame.columns if not len(frame) or frame[column].astype(str).any()]
    heads = {column: _TERMS.get(column, column.replace("_", " ")) for column in told}
    shown = frame.replace({"term": {":": " × "}}, regex=True)
    caption = captions.join(f"{title}.", end)
    p_values = tuple(column for column in told if column.startswith("p_"))
    latex = latex_table(shown, caption, f"tab:{label}", heads, decimals=3, p_values=p_values)
    return Table(name, latex, frame, caption)


def reliability_table(reliability: Reliability, *, end: str = "") -> Table:
    """Return how far the judges agree, one row a dimension: ICC(A,1), ICC(A,k) and alpha over judges.

    Leniency of a judge is error here, so the absolute-agreement forms are printed; the data hold all six.
    """
    printed: list[Placed] = []
    data: list[tuple[str, Estimate]] = []
    for key, forms in reliability.icc.items():
        alpha = reliability.alpha_over_judges.get(key)
        told = [*(form for form in forms if form.name in ("ICC(A,1)", "ICC(A,k)")), alpha]
        printed += [(("score", readable(key)), one) for one in told if one is not None]
        data += [(key, e) for e in (*forms, *reliability.icc_these_judges[key], alpha) if e is not None]
    over = reliability.alpha_over_dimensions
    end = captions.join(
        "ICC(A,1) is the reliability of one judge and ICC(A,k) that of the mean of all, both for absolute "
        "agreement; alpha is Cronbach's alpha over judges.",
        captions.capital(over.sentence()) if over is not None else "",
        captions.notes_words(reliability.notes),
        end,
    )
    data += [("all dimensions", over)] if over is not None else []
    frame = estimates_frame(data, "score")
    return estimates_table("reliability", "Reliability of the judges", printed, end=end, data=frame)


def forms_table(reliability: Reliability, *, end: str = "") -> Table:
    """Return all six forms of the ICC of the composite, then ICC(A,.) again with the interval for these judges."""
    key = reliability.headline_score
    forms, these = reliability.icc.get(key, ()), reliability.icc_these_judges.get(key, ())
    title = f"Six forms of the intraclass correlation, {readable(key)} score"
    end = captions.join(
        "1: one random judge, A: absolute agreement, C: consistency; k: mean of all judges.", end
    )
    keyed = [(key, one) for one in (*forms, *these)]
    return estimates_table("icc_forms", title, keyed, key="score", end=end)


def length_table(
    comparison: LengthComparison, other: LengthComparison | None = None, *, beside: str = "", end: str = ""
) -> Table:
    """Return the means of the length bins and their paired differences, with P values and effect sizes.

    The same of the ``other`` composite is printed below, where there is one; the sentence ``beside`` says which it is.
    """
    means, contrasts = comparison.per_bin, comparison.contrasts
    effects = (*comparison.corrected_effect_sizes, *comparison.effect_sizes)
    printed = [("per bin", one) for one in means] + [("contrasts", one) for one in contrasts]
    if other is not None:
        printed += [("mean, other composite", one) for one in other.per_bin]
        printed += [("difference, other composite", one) for one in other.contrasts]
    data = [("mean", one) for one in means] + [("difference", one) for one in contrasts]
    data += [("effect size", one) for one in (*comparison.effect_sizes, *comparison.corrected_effect_sizes)]
    end = captions.join(
        beside,
        "g_z is d_z corrected for its bias; the interval is of the population's effect and holds for both.",
        captions.unpaired_words(contrasts),
        captions.notes_words(comparison.notes),
        end,
    )
    printed += [("", one) for one in effects]
    title = "Quality by prompt length, compared within bases"
    return estimates_table("length", title, printed, end=end, data=estimates_frame(data, "what"))

"""Every figure and table of a judged study: a row each. All of them are written in one call, and what cannot be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from toolkit.analyses import Analyses
from toolkit.errors import InputError
from toolkit.files import write_atomically
from toolkit.report import captions
from toolkit.report.figure import (
    About,
    FigureWithCaption,
    NothingToDraw,
    nothing_drawn,
    save_figure,
    take_away_others,
)
from toolkit.report.plots.cost_quality import cost_quality
from toolkit.report.plots.generalizability import decision_study, variance_components
from toolkit.report.plots.judge_card import CARD, PROBED, judge_card, judge_card_table
from toolkit.report.plots.judges import bland_altman, icc_forest, judge_agreement
from toolkit.report.plots.missing import missing_data
from toolkit.report.plots.prompt_length import (
    dimension_profile,
    equivalence,
    length_effects,
    quality_by_length,
)
from toolkit.report.plots.reply_length import length_slope
from toolkit.report.show import LEFT_OUT, reasons_left_out
from toolkit.report.style import thesis_style
from toolkit.report.tables import (
    Table,
    estimates_table,
    forms_table,
    length_table,
    reliability_table,
    save_table,
    terms_table,
)
from toolkit.stats.result import Result, placed


@dataclass(frozen=True)
class Row:
    """A figure of a judged study: its name, what it is called, and how it is drawn from the analyses."""

    name: str
    title: str
    draw: Callable[[Analyses, About], FigureWithCaption]
    needs_scores: bool = True


FIGURES: Final = (
    Row("length_effects", "What prompt length does", length_effects),
    Row("quality_by_length", "Quality by prompt length", quality_by_length),
    Row("equivalence", "Equivalence of prompt lengths", equivalence),
    Row("dimension_profile", "Profile of the dimensions", dimension_profile),
    Row("cost_quality", "Quality against cost", cost_quality),
    Row("length_slope", "Length of the reply and score", length_slope),
    Row("judge_agreement", "Agreement between judges", judge_agreement),
    Row("bland_altman", "Bland-Altman plots of the judges", bland_altman),
    Row("icc_forest", "Intraclass correlations of the judges", icc_forest),
    Row("variance_components", "Variance components", variance_components),
    Row("decision_study", "Decision study", decision_study),
    Row("missing_data", "Missing scores", missing_data, needs_scores=False),
)
"""In the order in which bundle and thesis show them; the cards of the judges follow, one a judge."""
NAMES: Final = (*(row.name for row in FIGURES), CARD)


def draw_study(of: Analyses, about: About, only: Collection[str] = ()) -> list[FigureWithCaption]:
    """Draw the figures of a study; one that it cannot give has its reason in ``left_out``."""
    if unknown := sorted(set(only) - set(NAMES)):
        raise InputError(f"figure {unknown[0]!r}: there is none of that name; use one of {', '.join(NAMES)}")
    drawn = [_drawn(row, of, about) for row in FIGURES if row.name in only or not only]
    if only and CARD not in only:
        return drawn
    cards = of.judge_cards() if of.is_judged else ()
    end = captions.join(about.source, about.note)
    drawn += [judge_card(card, end=end) for card in cards]
    return drawn if cards else [*drawn, _left_out(CARD, "Cards of the judges", "no judged runs", about)]


def _drawn(row: Row, of: Analyses, about: About) -> FigureWithCaption:
    try:
        if row.needs_scores and not of.is_judged:
            raise NothingToDraw("no judged runs")
        with thesis_style():
            return row.draw(of, about)
    except NothingToDraw as why:
        return _left_out(row.name, row.title, str(why), about)


def _left_out(name: str, title: str, why: str, about: About) -> FigureWithCaption:
    drawn = nothing_drawn(name, captions.join(f"{title}: {why}.", about.end), why, left_out=why)
    return replace(drawn, n=about.n)


def write_figures(of: Analyses, about: About, folder: Path | str, only: Collection[str] = ()) -> list[Path]:
    """Write every figure and table that a judged study can give; the same study gives the same bytes.

    With names in ``only`` these figures alone are calculated and written, and no table.
    """
    place = Path(folder)
    files = save_drawn(draw_study(of, about, only), place / "figures", about, part=bool(only))
    if only:
        return files
    tables: list[Table] = []
    if of.is_judged:
        end = about.whole
        tables = [made(of.reliability(), end=end) for made in (reliability_table, forms_table)]
        strict = of.length("composite_strict") if captions.zeros_left_out(of.runs) else None
        tables += [length_table(of.length(), strict, end=end)]
        cards = captions.join(about.source, about.note)  # of the strict composite
        tables += [judge_card_table(card, end=cards) for card in of.judge_cards()]
    files += [path for table in tables for path in save_table(table, place / "tables", about.study)]
    names = [table.name for table in tables]
    for name in ("reliability", "icc_forms", "length"):
        take_away_others(place / "tables", name, names)
    _take_away_cards(place / "tables", names)
    return files


def save_drawn(
    figures: Sequence[FigureWithCaption], folder: Path, about: About, *, part: bool = False
) -> list[Path]:
    """Write the figures that hold something, and name those that do not with the reason.

    The files that an earlier call wrote of a figure which is now left out are taken away: they show what no longer
    holds.
    """
    path = folder / LEFT_OUT
    files = [path for figure in figures if not figure.left_out for path in save_figure(figure, folder)]
    reasons = reasons_left_out(path) if part else {}
    for figure in figures:
        reasons.pop(figure.name, None)
        if figure.left_out:
            reasons[figure.name] = figure.left_out
            take_away_others(folder, figure.name, ())
    if any(figure.name.startswith(CARD) for figure in figures):
        _take_away_cards(folder, (figure.name for figure in figures if not figure.left_out))
    if not reasons:
        path.unlink(missing_ok=True)
        return files
    lines = ["Figures that this study cannot give:"]
    lines += [f"{name}: {reasons[name]}" for name in NAMES if name in reasons]
    lines += [line for line in (about.source, about.note) if line]
    return [*files, write_atomically(path, ("\n".join(lines) + "\n").encode())]


def _take_away_cards(folder: Path, kept: Iterable[str]) -> None:
    """Remove the cards of judges that the study no longer has; a card with probes was paid for and stays."""
    probed = (path.stem for path in folder.glob(f"{CARD}_*{PROBED}.*"))
    take_away_others(folder, f"{CARD}_*", [*kept, *probed])


def write_statistics(results: Mapping[str, tuple[str, Any]], about: About, folder: Path | str) -> list[Path]:
    """Write a table of each result, and one text with the sentence of every estimate."""
    if not results:
        raise InputError("statistics: no run is judged by two judges or more; judge the study first")
    place = Path(folder) / "statistics"
    end = about.whole
    written: list[Path] = []
    told = [line for line in (about.source, about.note) if line]
    for name, (title, result) in results.items():
        found = placed(result)
        # The plain sentence of a result is that of its estimates, which follow.
        own = getattr(type(result), "sentence", Result.sentence) is not Result.sentence
        told += ["", title, *([result.sentence()] if own else [])]
        told += [f"{' '.join(where)}: {one.sentence()}".removeprefix(": ") for where, one in found]
        label = f"statistics-{name.replace('_', '-')}"  # figures have tables of the same names beside them
        if found:
            table = estimates_table(name, f"{title}.", found, key="Of", end=end, label=label)
        else:  # tests of terms have degrees of freedom in place of intervals
            how = result.how() if hasattr(result, "how") else ""
            table = terms_table(name, title, result.frame(), end=captions.join(how, end), label=label)
        written += save_table(table, place, about.study)
    text = "\n".join(told).strip() + "\n"
    return [*written, write_atomically(place / "sentences.txt", text.encode())]

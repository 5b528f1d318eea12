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
from toolkit.report.plots.models import model_means
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
from toolkit.runs.progress import Progress
from toolkit.stats.result import Result, placed
from toolkit.words import choices


@dataclass(frozen=True)
class Row:
    """A figure: its name, what it is called, how it is drawn from the analyses, and which of them it asks.

    One that stands in for an analysis is drawn only where the scores in hand cannot answer that.
    """

    name: str
    title: str
    draw: Callable[[Analyses, About], FigureWithCaption]
    asks: str
    needs_scores: bool = True
    stands_in_for: str = ""


FIGURES: Final = (
    Row("length_effects", "What prompt length does", length_effects, "length"),
    Row("quality_by_length", "Quality by prompt length", quality_by_length, "length"),
    Row("equivalence", "Equivalence of prompt lengths", equivalence, "length"),
    Row("model_means", "Means of the models", model_means, "compare_models", stands_in_for="length"),
    Row("dimension_profile", "Profile of the dimensions", dimension_profile, "dimension_profile"),
    Row("cost_quality", "Quality against cost", cost_quality, "pareto"),
    Row("length_slope", "Length of the reply and score", length_slope, "length_bias"),
    Row("judge_agreement", "Agreement between judges", judge_agreement, "reliability"),
    Row("bland_altman", "Bland-Altman plots of the judges", bland_altman, "bland_altman"),
    Row("icc_forest", "Intraclass correlations of the judges", icc_forest, "reliability"),
    Row("variance_components", "Variance components", variance_components, "generalizability"),
    Row("decision_study", "Decision study", decision_study, "generalizability"),
    Row("missing_data", "Missing scores", missing_data, "missing", needs_scores=False),
)
"""In the order in which bundle and thesis show them; the cards of the judges follow, one a judge."""
NAMES: Final = (*(row.name for row in FIGURES), CARD)


def draw_study(
    of: Analyses, about: About, only: Collection[str] = (), *, progress: bool = False
) -> list[FigureWithCaption]:
    """Draw the figures of a study; one that it cannot give has its reason in ``left_out``."""
    if unknown := sorted(set(only) - set(NAMES)):
        raise InputError(f"figure {unknown[0]!r}: there is none of that name; {choices(unknown[0], NAMES)}")
    rows = [row for row in FIGURES if not (row.stands_in_for and of.answers(row.stands_in_for))]
    rows = [row for row in rows if row.name in only or not only]
    bar = Progress("figures", len(rows), shown=progress, money=False)
    drawn = []
    for row in rows:
        drawn.append(_drawn(row, of, about))
        bar.step()
    bar.close()
    if only and CARD not in only:
        return drawn
    cards = of.judge_cards() if of.is_judged and of.answers("judge_cards") else ()
    end = captions.join(about.source, about.note)
    drawn += [judge_card(card, end=end, scale=about.scale) for card in cards]
    why = of.unanswerable.get("judge_cards", "no judged runs")
    return drawn if cards else [*drawn, _left_out(CARD, "Cards of the judges", why, about)]


def _drawn(row: Row, of: Analyses, about: About) -> FigureWithCaption:
    try:
        if row.needs_scores and not of.is_judged:
            raise NothingToDraw("no judged runs")
        if why := of.unanswerable.get(row.asks):
            raise NothingToDraw(why)
        with thesis_style():
            return row.draw(of, about)
    except NothingToDraw as why:
        return _left_out(row.name, row.title, str(why), about)


def _left_out(name: str, title: str, why: str, about: About) -> FigureWithCaption:
    drawn = nothing_drawn(name, captions.join(f"{title}: {why}.", about.end), why, left_out=why)
    return replace(drawn, n=about.n)


def write_figures(
    of: Analyses, about: About, folder: Path | str, only: Collection[str] = (), *, progress: bool = False
) -> list[Path]:
    """Write every figure and table that a judged study can give; the same study gives the same bytes.

    With names in ``only`` these figures alone are calculated and written, and no table.
    """
    place = Path(folder)
    files = save_drawn(
        draw_study(of, about, only, progress=progress), place / "figures", about, part=bool(only)
    )
    if only:
        return files
    tables: list[Table] = []
    if of.is_judged:
        end = about.whole
        if of.answers("reliability"):
            tables += [made(of.reliability(), end=end) for made in (reliability_table, forms_table)]
        if of.answers("length"):
            other = of.length(of.other_score) if captions.zeros_left_out(of.runs) else None
            tables += [length_table(of.length(), other, beside=captions.composites_words(of), end=end)]
        elif of.answers("compare_models"):
            title = "Means of the models, and their differences within items"
            tables += [estimates_table("models", title, placed(of.compare_models()), end=about.end)]
        if not of.answers("length") and len(of.human):  # a study has it in its statistics
            people = of.calibration()
            held = [("calibrated", one.calibrated) for one in (*people.means.values(), *people.differences)]
            held += [("agreement", one) for one in people.agreement]
            tables.append(estimates_table("people", "Judges held against people", held, end=about.end))
        if of.answers("judge_cards"):
            cards = captions.join(about.source, about.note)  # of the strict composite
            tables += [judge_card_table(card, end=cards, scale=about.scale) for card in of.judge_cards()]
    files += [path for table in tables for path in save_table(table, place / "tables", about.study)]
    names = [table.name for table in tables]
    for name in ("reliability", "icc_forms", "length", "models", "people"):
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

"""Every figure and table of a judged study: a row each. All of them are written in one call, and what cannot be."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.analyses import NO_SCORES, ON_ANSWERS, ON_VOTES, OWN, PAIRWISE, QUESTIONS, UNVARIED
from toolkit.analyses.answers import Analyses
from toolkit.errors import InputError
from toolkit.files.writing import write_atomically
from toolkit.report import captions
from toolkit.report.blocks import Part
from toolkit.report.escape import data_file
from toolkit.report.figure import (
    About,
    FigureWithCaption,
    save_all,
    take_away_others,
)
from toolkit.report.plots import conditions, cost_quality, judges
from toolkit.report.plots.results import (
    hallucination_shares,
    model_means,
    own_analysis,
    pair_strengths,
    position_bias,
)
from toolkit.report.show import LEFT_OUT, Files
from toolkit.report.style import NothingToDraw, thesis_style
from toolkit.report.tables import Table, estimates_table, judges_table, length_table, reliability_table
from toolkit.runs.progress import Progress
from toolkit.stats import WORDS
from toolkit.stats.result import placed, plain
from toolkit.words import choices


@dataclass(frozen=True)
class Row:
    """A figure: how it is drawn, which analysis it asks, and which one it stands in for where scores lack that."""

    draw: Callable[[Analyses, About], FigureWithCaption]
    asks: str
    needs_scores: bool = True
    stands_in_for: str = ""

    @property
    def name(self) -> str:
        """The name of the figure and of its files: that of the function, or of an analysis of one's own."""
        return self.asks if isinstance(self.draw, partial) else self.draw.__name__


FIGURES = (
    Row(conditions.conditions, "conditions"),
    Row(conditions.quality_by_length, "length"),
    Row(model_means, "compare_models", stands_in_for="length"),
    Row(pair_strengths, "compare_pairs", needs_scores=False),
    Row(position_bias, "compare_pairs", needs_scores=False),
    Row(conditions.dimension_profile, "dimension_profile"),
    Row(cost_quality.cost_quality, "pareto"),
    Row(judges.judge_agreement, "reliability"),
    Row(judges.icc_forest, "reliability"),
    Row(judges.variance_components, "generalizability"),
    Row(judges.decision_study, "generalizability"),
    Row(judges.judges, "compare_judges"),
    Row(hallucination_shares, "hallucination", needs_scores=False),
)
"""In the order in which bundle and thesis show them."""
NAMES = tuple(row.name for row in FIGURES)
REPORT = data_file("contents")
TABLES = (
    "reliability", "judges", "length", "levels", "models", "people", "pairs",
    "conditions_variant", "conditions_document", "conditions_model", "conditions_sample",
)  # fmt: skip


def _figures() -> tuple[Row, ...]:
    """Return all figures, those of analyses of one's own last."""
    return (*FIGURES, *(Row(partial(own_analysis, name=name), name) for name in OWN))


def draw_study(
    analyses: Analyses,
    context: About,
    only: Collection[str] = (),
    *,
    progress: bool = False,
) -> list[FigureWithCaption]:
    """Draw the figures of a study; one that it cannot give has its reason in ``left_out``."""
    by_name = {row.name: row for row in _figures()}
    if unknown := sorted(set(only) - by_name.keys()):
        raise InputError(f"figure {unknown[0]!r}: there is none of that name; {choices(unknown[0], by_name)}")
    rows = [by_name[name] for name in only] or [
        row
        for row in _applicable(analyses)
        if not (row.stands_in_for and analyses.answers(row.stands_in_for))
    ]
    return _draw_rows(rows, analyses, context, progress=progress)


def draw_report(analyses: Analyses, context: About, *, complete: bool, progress: bool = False) -> list[Part]:
    """Draw what a report shows, or every figure where ``complete`` of a study, and make its tables."""
    # The mean of one model stands in the figure of its levels already.
    alone = analyses.answers("length") and "compare_models" in analyses.lacking
    names = report_order("figures")
    rows = [
        row
        for row in _applicable(analyses)
        if (complete or row.name in names) and not (alone and row.stands_in_for)
    ]
    return [*_draw_rows(rows, analyses, context, progress=progress), *study_tables(analyses, context)]


def _applicable(analyses: Analyses) -> list[Row]:
    """Return the figures of what a study sets out to measure: all else is no loss to be named."""
    foreign = QUESTIONS.keys() - ON_ANSWERS if analyses.is_keyed else set()
    unasked = {"hallucination": analyses.hallucination_verdicts, **dict.fromkeys(PAIRWISE, analyses.pairs)}
    foreign |= {name for name, frame in unasked.items() if frame.empty}
    foreign |= {"length"} if analyses.factor else set()
    foreign |= {name for name, reason in analyses.lacking.items() if reason == UNVARIED}
    return [row for row in _figures() if row.asks not in foreign]


def _draw_rows(
    rows: Sequence[Row], analyses: Analyses, context: About, *, progress: bool
) -> list[FigureWithCaption]:
    bar = Progress("figures", len(rows), shown=progress, money=False)
    figures = []
    for row in rows:
        figures.append(_draw(row, analyses, context))
        bar.step()
    bar.close()
    return figures


def report_order(kind: str) -> list[str]:
    """Return the names of the figures or the tables of a report, the one first that it shows before all others."""
    return [*OWN, *REPORT[kind]]


def _draw(row: Row, analyses: Analyses, context: About) -> FigureWithCaption:
    try:
        compares = not analyses.pairs.empty
        if not analyses.is_judged and (row.needs_scores or (compares and row.asks not in ON_VOTES)):
            raise NothingToDraw(NO_SCORES if compares else "no judged runs")
        lacking = analyses.unanswerable if row.stands_in_for else analyses.lacking
        if reason := lacking.get(row.asks):
            raise NothingToDraw(reason)
        with thesis_style():
            return row.draw(analyses, context)
    except NothingToDraw as error:
        title = captions.TEXTS.get(row.name, WORDS[row.asks])["title"]
        return context.nothing_drawn(row.name, str(error), title, left_out=str(error))


def write_figures(
    analyses: Analyses,
    context: About,
    folder: Path | str,
    only: Collection[str] = (),
    *,
    progress: bool = False,
) -> Files:
    """Write every figure and table of a study, or the figures in ``only``; the same study gives the same bytes."""
    folder = Path(folder)
    figures = draw_study(analyses, context, only, progress=progress)
    tables = [] if only else study_tables(analyses, context)
    return save_drawn([*figures, *tables], folder, context, whole=not only)


def study_tables(analyses: Analyses, context: About) -> list[Table]:
    """Return the tables of a study."""
    tables = _tables(analyses, context) if analyses.is_judged else []
    if not analyses.pairs.empty:
        title = "Votes on pairs of replies: models compared, and their strengths"
        tables.append(estimates_table("pairs", title, placed(analyses.compare_pairs()), context=context))
    return tables


def _tables(analyses: Analyses, context: About) -> list[Table]:
    tables: list[Table] = []
    if analyses.factor or analyses.answers("length"):
        tables.append(length_table(analyses.conditions(), context=context))
    elif "compare_models" not in analyses.unanswerable:
        compared = analyses.compare_models()
        title = f"Means of the models{', and their differences within items' if compared.differences else ''}"
        tables.append(estimates_table("models", title, placed(compared), context=context))
    if analyses.answers("reliability"):
        tables.append(reliability_table(analyses.reliability(), context=context))
        tables.append(judges_table(analyses.compare_judges(), context.judges, context=context))
    if not analyses.answers("length") and len(analyses.human):  # a study has it in its statistics
        people = analyses.calibration()
        estimates = [
            ("calibrated", mean.calibrated) for mean in (*people.means.values(), *people.differences)
        ]
        estimates += [("agreement", estimate) for estimate in people.agreement]
        tables.append(estimates_table("people", "Judges held against people", estimates, context=context))
    return tables


def save_drawn(parts: Sequence[Part], folder: Path | str, context: About, *, whole: bool = True) -> Files:
    """Write tables and figures that hold something; of a whole study also why others are not there, and no old ones."""
    path, written = Path(folder) / "figures" / LEFT_OUT, [part for part in parts if not part.left_out]
    files = save_all(written, folder, context.study)
    files.left_out = {part.name: part.left_out for part in parts if part.left_out}
    stale = [("figures", name) for name in files.left_out]
    if whole:
        stale += [("figures", "one_shot_methods_*"), ("figures", "conditions")]
        stale += [("tables", name) for name in TABLES]
    for kind, pattern in stale:
        take_away_others(Path(folder) / kind, pattern, [part.name for part in written if part.folder == kind])
    if files.left_out and whole:
        lines = [*context.about(), "Figures that this study cannot give:"]
        lines += [f"{name}: {reason}" for name, reason in files.left_out.items()]
        files.append(write_atomically(path, ("\n".join(lines) + "\n").encode()))
    elif whole:
        path.unlink(missing_ok=True)
    return files


def write_statistics(results: Mapping[str, tuple[str, Any]], context: About, folder: Path | str) -> Files:
    """Write a table of each result, and one text with the sentence of every estimate."""
    if not results:
        raise InputError("statistics: no run has a score; judge the study first")
    folder, files = Path(folder) / "statistics", Files()
    lines = context.about()
    for name, (title, result) in results.items():
        estimates = placed(result)
        lines += ["", title]
        # The plain sentence of a result is that of its estimates, which follow.
        if getattr(result, "is_spoken", False):
            lines.append(result.sentence())
        lines += [
            f"{' '.join(holders)}: {estimate.sentence()}" if any(holders) else estimate.sentence()
            for holders, estimate in estimates
        ]
        label = f"statistics-{name.replace('_', '-')}"  # figures have tables of the same names beside them
        table = estimates_table(name, title, estimates, key="Of", context=context, label=label)
        files += save_all([replace(table, folder="statistics")], folder.parent, context.study)
        told = json.dumps(plain(result), ensure_ascii=False, indent=1, default=str)
        files.append(write_atomically(folder / f"{name}.json", f"{told}\n".encode()))
    text = "\n".join(lines).strip() + "\n"
    files.append(write_atomically(folder / "sentences.txt", text.encode()))
    return files

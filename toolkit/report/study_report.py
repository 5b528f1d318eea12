"""All figures and tables of a study in one call, as files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from toolkit.report.about import About
from toolkit.report.judge_card import judge_card_name
from toolkit.report.judge_card_table import judge_card_table
from toolkit.report.one_shot_figure import one_shot_comparison_table, one_shot_figures, one_shot_table
from toolkit.report.results_figure import results_figure
from toolkit.report.saving import save_figure, take_away_others
from toolkit.report.study_figures import StudyResults, draw_study, save_drawn, take_away_cards
from toolkit.report.tables import forms_table, length_table, reliability_table, save_table
from toolkit.stats.one_shot.compare import compare_one_shot
from toolkit.stats.one_shot.methods import MethodScore, methods_frame, score_groups
from toolkit.stats.result import Estimate


def write_figures(
    found: StudyResults, about: About, folder: Path | str, only: Collection[str] = ()
) -> list[Path]:
    """Write every figure and table that a judged study can give; the same study gives the same bytes."""
    place = Path(folder)
    files = save_drawn(draw_study(found, about, only), place / "figures", about, part=bool(only))
    if only:
        return files
    source, note = about.source, about.note
    tables = []
    if found.reliability is not None:
        tables.append(reliability_table(found.reliability, note=note, source=source))
        tables.append(forms_table(found.reliability, note=note, source=source))
    if found.comparison is not None:
        tables.append(length_table(found.comparison, note=note, source=source))
    tables += [
        judge_card_table(card, judge_card_name(card), note=note, source=source) for card in found.cards
    ]
    files += [path for table in tables for path in save_table(table, place / "tables", about.study)]
    names = [table.name for table in tables]
    for name in ("reliability", "icc_forms", "length"):
        take_away_others(place / "tables", name, names)
    take_away_cards(place / "tables", names)
    return files


def write_one_shot_figures(
    methods: Sequence[MethodScore], *, folder: Path, note: str = "", source: str = "", study: str = ""
) -> list[Path]:
    """Write the figures and the tables of a one-shot test; the same experiments give the same bytes."""
    groups = score_groups(methods)
    drawn = one_shot_figures(methods, groups, note=note, source=source)
    files = [path for figure in drawn for path in save_figure(figure, folder / "figures")]
    comparison = compare_one_shot(methods_frame(methods), "variant")
    tables = [one_shot_table(groups, note=note, source=source)]
    tables += (
        [one_shot_comparison_table(comparison, note=note, source=source)] if comparison.contrasts else []
    )
    files += [path for table in tables for path in save_table(table, folder / "tables", study)]
    take_away_others(folder / "figures", "one_shot_methods_*", (figure.name for figure in drawn))
    take_away_others(folder / "tables", "one_shot_variants", (table.name for table in tables))
    return files


def write_test_figures(
    results: Sequence[tuple[str, Estimate]], *, test: str, folder: Path, note: str = "", source: str = ""
) -> list[Path]:
    """Write the figure of a test's results; the same results give the same bytes."""
    return save_figure(results_figure(results, test=test, note=note, source=source), folder / "figures")

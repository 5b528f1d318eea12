"""All figures and tables of a study in one call, as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from toolkit.report import captions
from toolkit.report.agreement_figure import judge_agreement
from toolkit.report.cost_figure import cost_quality
from toolkit.report.one_shot_figure import one_shot_comparison_table, one_shot_figures, one_shot_table
from toolkit.report.quality_figure import quality_by_length
from toolkit.report.results_figure import results_figure
from toolkit.report.saving import save_figure
from toolkit.report.tables import forms_table, length_table, reliability_table, save_table
from toolkit.stats.one_shot_compare import compare_one_shot
from toolkit.stats.one_shot_methods import MethodScore, methods_frame, score_groups
from toolkit.stats.result import Estimate

if TYPE_CHECKING:
    from toolkit.stats.length import LengthComparison
    from toolkit.stats.reliability import Reliability


def write_figures(
    runs: pd.DataFrame,
    judgements: pd.DataFrame,
    *,
    reliability: Reliability | None,
    comparison: LengthComparison | None,
    by_model: Mapping[str, LengthComparison] | None = None,
    folder: Path | str,
    note: str = "",
    study_name: str = "",
    dataset_version: str = "",
    repeats: int | None = None,
) -> list[Path]:
    """Write three figures and three tables; the same study gives the same bytes.

    Parameters
    ----------
    runs, judgements
        The frames of the study.
    reliability, comparison
        What ``toolkit.stats`` made of them; ``None`` where it could not, and its tables are then left out.
    by_model
        ``compare_lengths(runs, by="model")``, for intervals of each model.
    folder
        Gets ``figures/`` and ``tables/``.
    note
        Appended to every caption.
    study_name, dataset_version
        For the captions.
    repeats
        Repeats the study asked for.

    Returns
    -------
    list of Path
        PDF, PNG, CSV and TXT of each figure, then TEX and CSV of each table.
    """
    about: dict[str, Any] = {
        "note": note,
        "study_name": study_name,
        "dataset_version": dataset_version,
        "repeats": repeats,
    }
    figures = (
        quality_by_length(runs, comparison, by_model=by_model, **about),
        cost_quality(runs, **about),
        judge_agreement(judgements, reliability, **about),
    )
    source = captions.source_words(runs, study_name, dataset_version)
    tables = []
    if reliability is not None:
        tables.append(reliability_table(reliability, note=note, source=source))
        tables.append(forms_table(reliability, note=note, source=source))
    if comparison is not None:
        tables.append(length_table(comparison, note=note, source=source))
    place = Path(folder)
    files = [path for figure in figures for path in save_figure(figure, place / "figures")]
    return files + [path for table in tables for path in save_table(table, place / "tables")]


def write_one_shot_figures(
    methods: Sequence[MethodScore], *, folder: Path, note: str = "", source: str = ""
) -> list[Path]:
    """Write the figures and the tables of a one-shot test; the same experiments give the same bytes.

    Parameters
    ----------
    methods
        From ``toolkit.stats.one_shot_methods.score_methods``.
    folder
        Gets ``figures/`` and ``tables/``.
    note, source
        For the captions: what else must be said, and which study and dataset version it is.
    """
    groups = score_groups(methods)
    drawn = one_shot_figures(methods, groups, note=note, source=source)
    files = [path for figure in drawn for path in save_figure(figure, folder / "figures")]
    comparison = compare_one_shot(methods_frame(methods), "variant")
    tables = [one_shot_table(groups, note=note, source=source)]
    tables += (
        [one_shot_comparison_table(comparison, note=note, source=source)] if comparison.contrasts else []
    )
    return files + [path for table in tables for path in save_table(table, folder / "tables")]


def write_test_figures(
    results: Sequence[tuple[str, Estimate]], *, test: str, folder: Path, note: str = "", source: str = ""
) -> list[Path]:
    """Write the figure of a test's results; the same results give the same bytes.

    Parameters
    ----------
    results
        Pairs of model and result.
    test
        Name of the test.
    folder
        Gets ``figures/``.
    note, source
        For the caption: what else must be said, and which study and dataset version it is.
    """
    return save_figure(results_figure(results, test=test, note=note, source=source), folder / "figures")

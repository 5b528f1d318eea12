"""The figures of the thesis by name; each stands in a file of its own."""

from __future__ import annotations

from toolkit.report.about import About, about_study
from toolkit.report.agreement_figure import judge_agreement
from toolkit.report.bland_altman_figure import bland_altman_figure
from toolkit.report.components_figure import variance_components_figure
from toolkit.report.cost_figure import cost_quality
from toolkit.report.decision_figure import decision_study_figure
from toolkit.report.equivalence_figure import equivalence_figure
from toolkit.report.icc_figure import icc_forest
from toolkit.report.missing_figure import missing_data_figure
from toolkit.report.profile_figure import dimension_profile_figure
from toolkit.report.quality_figure import quality_by_length
from toolkit.report.saving import FigureWithCaption, save_figure
from toolkit.report.slope_figure import length_slope_figure

__all__ = [
    "About",
    "FigureWithCaption",
    "about_study",
    "bland_altman_figure",
    "cost_quality",
    "decision_study_figure",
    "dimension_profile_figure",
    "equivalence_figure",
    "icc_forest",
    "judge_agreement",
    "length_slope_figure",
    "missing_data_figure",
    "quality_by_length",
    "save_figure",
    "variance_components_figure",
]

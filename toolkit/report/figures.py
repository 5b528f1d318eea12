"""The figures of the thesis by name; each stands in a file of its own."""

from __future__ import annotations

from toolkit.report.agreement_figure import judge_agreement
from toolkit.report.cost_figure import cost_quality
from toolkit.report.quality_figure import quality_by_length
from toolkit.report.saving import FigureWithCaption, save_figure

__all__ = ["FigureWithCaption", "cost_quality", "judge_agreement", "quality_by_length", "save_figure"]

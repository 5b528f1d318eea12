"""Every figure of a judged study from its results, and which of them the study cannot give."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd

from toolkit.errors import InputError
from toolkit.report.about import About
from toolkit.report.agreement_figure import judge_agreement
from toolkit.report.bland_altman_figure import bland_altman_figure
from toolkit.report.components_figure import variance_components_figure
from toolkit.report.cost_figure import cost_quality
from toolkit.report.decision_figure import decision_study_figure
from toolkit.report.equivalence_figure import equivalence_figure
from toolkit.report.icc_figure import icc_forest
from toolkit.report.judge_card import CARD, PROBED, judge_card
from toolkit.report.missing_figure import missing_data_figure
from toolkit.report.profile_figure import dimension_profile_figure
from toolkit.report.quality_figure import quality_by_length
from toolkit.report.saving import FigureWithCaption, save_figure, take_away_others, write_atomically
from toolkit.report.slope_figure import length_slope_figure

if TYPE_CHECKING:
    from toolkit.stats.agreement.bland_altman import BlandAltman
    from toolkit.stats.agreement.judge_card import JudgeCard
    from toolkit.stats.agreement.reliability import Reliability
    from toolkit.stats.comparisons.cost_quality import Pareto
    from toolkit.stats.comparisons.missing_data import MissingData
    from toolkit.stats.generalizability.study_scores import StudyGeneralizability
    from toolkit.stats.prompt_length.contrasts import LengthComparison
    from toolkit.stats.prompt_length.dimension_profile import DimensionProfile
    from toolkit.stats.prompt_length.reply_length import LengthBias

LEFT_OUT: Final = "left_out.txt"
"""File that names the figures a study cannot give, and why."""


@dataclass(frozen=True)
class StudyResults:
    """What the figures and tables of a judged study are drawn from; None where no run is judged."""

    runs: pd.DataFrame
    judgements: pd.DataFrame
    reliability: Reliability | None = None
    comparison: LengthComparison | None = None
    by_model: Mapping[str, LengthComparison] | None = None
    margin: float | None = None
    profile: DimensionProfile | None = None
    pareto: Pareto | None = None
    length_bias: LengthBias | None = None
    missing: MissingData | None = None
    bland_altman: Mapping[tuple[str, str], BlandAltman] | None = None
    generalizability: Sequence[StudyGeneralizability] = ()
    cards: Sequence[JudgeCard] = ()


def _cards(found: StudyResults, about: About) -> list[FigureWithCaption]:
    cards = [judge_card(card, note=about.note, source=about.source) for card in found.cards]
    return cards or [about.nothing(CARD, "Cards of the judges", "no judged runs")]


_Draw = Callable[[StudyResults, About], Sequence[FigureWithCaption]]
_FIGURES: Final[Mapping[str, tuple[tuple[str, ...], _Draw]]] = {
    "quality_by_length": (
        ("comparison", "by_model"),
        lambda found, about: [
            quality_by_length(found.runs, found.comparison, by_model=found.by_model, about=about)
        ],
    ),
    "equivalence": (
        ("comparison", "by_model", "margin"),
        lambda found, about: [equivalence_figure(found.comparison, found.by_model, found.margin, about)],
    ),
    "dimension_profile": (
        ("profile",),
        lambda found, about: [dimension_profile_figure(found.profile, about)],
    ),
    "cost_quality": (
        ("pareto",),
        lambda found, about: [cost_quality(found.runs, found.pareto, about=about)],
    ),
    "length_slope": (
        ("length_bias",),
        lambda found, about: [length_slope_figure(found.runs, found.length_bias, about)],
    ),
    "judge_agreement": (
        ("reliability",),
        lambda found, about: [judge_agreement(found.judgements, found.reliability, about=about)],
    ),
    "bland_altman": (
        ("bland_altman",),
        lambda found, about: [bland_altman_figure(found.bland_altman, about)],
    ),
    "icc_forest": (("reliability",), lambda found, about: [icc_forest(found.reliability, about)]),
    "variance_components": (
        ("generalizability",),
        lambda found, about: [variance_components_figure(next(iter(found.generalizability), None), about)],
    ),
    "decision_study": (
        ("generalizability",),
        lambda found, about: [decision_study_figure(found.generalizability, about)],
    ),
    "missing_data": (("missing",), lambda found, about: [missing_data_figure(found.missing, about)]),
    CARD: (("cards",), _cards),
}
"""Name of each figure, in the order in which a thesis would show them: the results it needs, and how it is drawn."""


def needed_results(only: Collection[str] = ()) -> frozenset[str]:
    """Return the fields of `StudyResults` that figures need."""
    if unknown := sorted(set(only) - set(_FIGURES)):
        raise InputError(
            f"figure {unknown[0]!r}: there is none of that name; use one of {', '.join(_FIGURES)}"
        )
    return frozenset(field for name in only or _FIGURES for field in _FIGURES[name][0])


def draw_study(
    found: StudyResults, about: About, only: Collection[str] = ()
) -> tuple[FigureWithCaption, ...]:
    """Draw the figures of a study; one that it cannot give has its reason in ``left_out``."""
    names = [name for name in _FIGURES if name in only or not only]
    return tuple(figure for name in names for figure in _FIGURES[name][1](found, about))


def save_drawn(
    figures: Sequence[FigureWithCaption], folder: Path, about: About, *, part: bool = False
) -> list[Path]:
    """Write the figures that hold something, and name those that do not with the reason.

    The files that an earlier call wrote of a figure which is now left out are taken away: they show what no longer
    holds.
    """
    path = folder / LEFT_OUT
    files = [path for figure in figures if not figure.left_out for path in save_figure(figure, folder)]
    reasons = _reasons(path) if part else {}
    for figure in figures:
        reasons.pop(figure.name, None)
        if figure.left_out:
            reasons[figure.name] = figure.left_out
            take_away_others(folder, figure.name, ())
    if any(figure.name.startswith(CARD) for figure in figures):
        take_away_cards(folder, (figure.name for figure in figures if not figure.left_out))
    if not reasons:
        path.unlink(missing_ok=True)
        return files
    lines = ["Figures that this study cannot give:"]
    lines += [f"{name}: {reasons[name]}" for name in _FIGURES if name in reasons]
    lines += [line for line in (about.source, about.note) if line]
    return [*files, write_atomically(path, ("\n".join(lines) + "\n").encode())]


def take_away_cards(folder: Path, kept: Iterable[str]) -> None:
    """Remove the cards of judges that the study no longer has; a card with probes was paid for and stays."""
    probed = (path.stem for path in folder.glob(f"{CARD}_*{PROBED}.*"))
    take_away_others(folder, f"{CARD}_*", [*kept, *probed])


def _reasons(path: Path) -> dict[str, str]:
    """Read which figures were left out and why; nothing where none was."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    told = (line.partition(": ") for line in lines)
    return {name: why for name, _, why in told if name in _FIGURES}


def why_left_out(files: Sequence[Path], name: str) -> str:
    """Return why a figure was left out of the files of a study, or an empty text."""
    return next((_reasons(path).get(name, "") for path in files if path.name == LEFT_OUT), "")

"""What every figure of one study says and shares: n, source, what is missing, the note, and one look per model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from toolkit.report import captions
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import COLUMN_MM, ModelStyle, message_figure, model_styles, thesis_style


@dataclass(frozen=True)
class About:
    """What the figures of one study have in common."""

    n: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    missing: str = ""
    note: str = ""
    repeats: int | None = None
    models: tuple[str, ...] = ()
    study: str = ""

    def styles(self, names: Iterable[str]) -> dict[str, ModelStyle]:
        """Return the look of some of the study's models, the one they have in its every figure."""
        return model_styles(names, among=self.models)

    def nothing(self, name: str, title: str, why: str) -> FigureWithCaption:
        """Return the figure that says why there is nothing to draw; a study leaves it out and says the same."""
        caption = captions.join(f"{title}: {why}.", self.missing, self.source, self.note)
        with thesis_style():
            figure = message_figure(COLUMN_MM, 40, why)
        alt_text = f"{why[:1].upper()}{why[1:]}, so nothing is drawn."
        return FigureWithCaption(name, figure, caption, alt_text, pd.DataFrame(), dict(self.n), left_out=why)


def about_study(
    runs: pd.DataFrame,
    *,
    study_name: str = "",
    dataset_version: str = "",
    repeats: int | None = None,
    note: str = "",
) -> About:
    """Read from the runs of a study what its figures have in common."""
    judged = captions.judged_runs(runs)
    return About(
        n=captions.counts(judged, repeats),
        source=captions.source_words(runs, study_name, dataset_version),
        missing=captions.missing_words(runs, judged),
        note=note,
        repeats=repeats,
        models=tuple(sorted(str(name) for name in runs["model"].dropna().unique()))
        if "model" in runs
        else (),
        study=study_name,
    )

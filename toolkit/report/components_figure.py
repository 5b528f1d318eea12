"""Variance components: how much each source of variation adds to a single score, with intervals and shares."""

from __future__ import annotations

from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from toolkit.report import captions
from toolkit.report.about import About
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import GREY, INK, PAGE_MM, new_figure, settle, thesis_style
from toolkit.stats.generalizability.study_scores import StudyGeneralizability

NAME: Final = "variance_components"
TITLE: Final = "Variance components"
_ROW_MM: Final = 6.5
_WIDEST: Final = 2.0
"""The axis ends where it is this many times as long as all components together."""
_COLUMNS: Final = ("name", "estimate", "low", "high", "raw", "share")
_FACTORS: Final = {
    "base": "base: how much the situations differ",
    "answer": "answer: how much the replies to one situation differ",
    "judge": "judge: how much milder one judge is than another",
    "model": "model: how much the models differ",
    "repeat": "repeat: how much the same is scored differently when it is asked again",
}


def variance_components_figure(found: StudyGeneralizability | None, about: About) -> FigureWithCaption:
    """Draw the variance component of every effect of the study's design with its interval and its share."""
    if found is None:
        return about.nothing(NAME, TITLE, "no judged runs")
    components = found.result.components
    if components.problem:
        return about.nothing(NAME, TITLE, components.problem)
    frame = found.figure_frame()
    data = frame.loc[frame["part"] == "component", list(_COLUMNS)].reset_index(drop=True)
    with thesis_style():
        figure, cut = _draw(data)
    names = sorted({factor for name in data["name"] for factor in str(name).replace(":", " x ").split(" x ")})
    below = [effect_words(str(name)) for name in data.loc[data["raw"] < 0, "name"]]
    caption = captions.join(
        f"{TITLE} of a single {found.score} score ({captions.n_words(about.n)}; {components.method}).",
        f"Factors: {'; '.join(_FACTORS[name] for name in names if name in _FACTORS)}.",
        "Read a in b as a within b, and a × b as what only the combination brings; the last one is confounded with "
        "the error. Printed: share of the sum of the components.",
        captions.interval_words(components.components),
        captions.UNCORRECTED if any(one.low is not None for one in components.components) else "",
        f"Beyond the axis (arrow): {'; '.join(cut)}." if cut else "",
        f"Negative before it was set to 0: {', '.join(below)}." if below else "",
        " ".join(_caution(note, found) for note in components.cautions),
        captions.not_estimable_words(one for one in components.components if not one.estimable),
        about.missing,
        about.source,
        about.note,
    )
    said = "; ".join(
        f"{effect_words(str(name))} {value:.3f} ({share:.0%})"
        for name, value, share in data[["name", "estimate", "share"]].itertuples(index=False)
    )
    alt_text = f"Horizontal bars of the variance components in squared score points, with intervals: {said}."
    return FigureWithCaption(NAME, figure, caption, alt_text, data, dict(about.n))


def effect_words(name: str) -> str:
    """Return the name of an effect as a reader says it."""
    return name.replace(" x ", " × ").replace(":", " in ")


def _caution(note: str, found: StudyGeneralizability) -> str:
    """Return a caution as a sentence; what repeats within a judge there are judgements, not runs."""
    if note.startswith("one repeat only") and "answer" in found.result.of:
        note = "each judge judged an answer once, so what judging it again would change cannot be told"
    return f"{note[:1].upper()}{note[1:]}."


def _draw(data: pd.DataFrame) -> tuple[Figure, list[str]]:
    figure = new_figure(PAGE_MM, _ROW_MM * len(data) + 16)
    axes = figure.subplots()
    total = float(data["estimate"].sum())
    highest = float(data[["estimate", "high"]].max().max())
    end = 1.04 * min(highest, _WIDEST * total) if total > 0 else 1.0
    cut = []
    for place, row in data.iterrows():
        up = len(data) - 1 - int(str(place))
        axes.barh(up, row["estimate"], height=0.55, color=GREY, edgecolor=INK, linewidth=0.6, zorder=1)
        if pd.notna(row["low"]) and pd.notna(row["high"]):
            axes.plot([row["low"], min(row["high"], end)], [up, up], color=INK, linewidth=1.2, zorder=2)
            if row["high"] > end:
                axes.plot([end], [up], color=INK, marker=">", markersize=4, clip_on=False, zorder=3)
                cut.append(f"{effect_words(str(row['name']))} to {row['high']:.3g}")
        share = f"{row['share']:.0%}" if pd.notna(row["share"]) else "not estimable"
        axes.text(1.02, up, share, va="center", color=INK, transform=axes.get_yaxis_transform())
    axes.set_yticks(range(len(data)), [effect_words(str(name)) for name in data["name"]][::-1])
    axes.set_ylim(-0.6, len(data) - 0.4)
    axes.set_xlim(0, end)
    axes.set_xlabel("Variance component (squared score points)")
    axes.tick_params(axis="y", length=0)
    return settle(figure), cut

"""How the composite scores spread, by prompt length and by judge."""

from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.inference.run_table import in_order
from toolkit.words import scale_words

_FEW = 20
"""Scores below which the shape of a distribution is a guess, and each is a mark."""


def score_distribution(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw how the composite scores spread at each prompt length, and how those that each judge gave."""
    judged, text = captions.judged_runs(analyses.runs), captions.TEXTS["score_distribution"]
    means = analyses.judge_means
    judgements = means[~means["failed"].astype(bool) & means[analyses.score].notna()]
    parts = [("Prompt length", judged, "length_bin"), ("Judge", judgements, "judge")]
    rows = [
        pd.DataFrame({"part": part, "name": frame[by].astype("string"), "score": frame[analyses.score].astype(float)})
        for part, frame, by in parts
        if frame[by].nunique() > 1
    ]  # fmt: skip
    if not rows:
        raise NothingToDraw("there is one prompt length and one judge")
    data = pd.concat(rows, ignore_index=True)
    ends = data.groupby(["part", "name"], sort=False)["score"].describe().reset_index()
    quartiles = "; ".join(
        f"{context.judge(row['name'])} {row['50%']:.2f} ({row['25%']:.2f} to {row['75%']:.2f})"
        for row in ends.to_dict("records")
    )
    parts_words = " and by ".join(part.lower() for part in data["part"].unique())
    figure, few = _draw_distribution(data, context)
    return context.figure(
        "score_distribution", figure, data,
        text["alt"].format(scale=scale_words(context.scale), quartiles=quartiles),
        text["seen"].format(parts=parts_words, marks=text["few" if few else "shape"]),
        [text["note"]],
        [text["medians"].format(quartiles=quartiles)],
    )  # fmt: skip


def _draw_distribution(data: pd.DataFrame, context: About) -> tuple[Figure, bool]:
    parts = dict(list(data.groupby("part", sort=False)))
    figure = style.new_figure(style.PAGE_MM if len(parts) > 1 else style.COLUMN_MM, 66)
    panels = figure.subplots(1, len(parts), sharey=True, squeeze=False)[0]
    few = int(data.groupby(["part", "name"]).size().min()) < _FEW
    for axes, (part, rows) in zip(panels, parts.items(), strict=True):
        names = in_order(rows["name"]) if part != "Judge" else list(dict.fromkeys(rows["name"]))
        look: dict[str, Any] = {"data": rows, "x": "name", "y": "score", "order": names, "ax": axes}
        if few:
            # Not by seaborn, whose shifts are others in every figure.
            x = rows["name"].map(names.index) + np.random.default_rng(0).uniform(-0.15, 0.15, len(rows))
            axes.plot(
                x, rows["score"], "o", color=style.PALETTE[0], markersize=4, alpha=0.7, markeredgewidth=0
            )
            axes.set_xlim(-0.5, len(names) - 0.5)
        else:
            sns.violinplot(
                **look, color="#C9DFEC", inner=None, cut=0, linewidth=0.6, linecolor=style.INK, width=0.85
            )
            style.boxes(axes, [rows.loc[rows["name"] == name, "score"] for name in names], 0.14)
        counts = rows["name"].value_counts()
        style.column_axis(axes, list(map(context.judge, names)), [f"n = {counts[name]:,}" for name in names])
        axes.set_xlabel(part)
        style.score_axis(axes, context.scale, "Composite score" if axes is panels[0] else "")
    return style.settle(figure), few

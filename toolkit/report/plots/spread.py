"""Scores themselves: their spread by prompt length and judge, and means by judge, base, model and scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from toolkit import stats
from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.escape import readable
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.inference.run_table import in_order
from toolkit.stats.result import Estimate
from toolkit.words import LENGTH_BINS, scale_words, scenario_rank

_FEW: Final = 20
"""Scores below which the shape of a distribution is a guess, and each is a mark."""
_CELLS: Final = 42
"""Bases that a page has rows for."""
_MOST: Final = 1_000
_PANELS: Final = 12
_NARROW: Final = 22
"""Letters of the name of a row beside which a column of the thesis has room for cells."""
_HEAD: Final = 12  # letters of the name of a column that a thesis column has room for
_HEADS: Final = 8  # columns that have their names side by side
_ROW_MM: Final = 3.9


def score_distribution(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw how the composite scores spread at each prompt length, and how those that each judge gave."""
    judged, text = captions.judged_runs(analyses.runs), captions.TEXTS["score_distribution"]
    parts = [("Prompt length", judged, "length_bin"), ("Judge", _readable(analyses), "judge")]
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
    figure, few = _draw_distribution(data, context)
    return context.figure(
        "score_distribution", figure, data,
        text["alt"].format(scale=scale_words(context.scale), quartiles=quartiles),
        text["seen"].format(marks=text["few" if few else "shape"]),
        [text["note"]],
        [text["medians"].format(quartiles=quartiles)],
    )  # fmt: skip


def _readable(analyses: Analyses) -> pd.DataFrame:
    """Return the judgements that have a score, a row a run and judge."""
    means = analyses.judge_means
    return means[~means["failed"].astype(bool) & means[analyses.score].notna()]


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
        style.column_axis(
            axes, list(map(context.judge, names)), 42, [f"n = {counts[name]:,}" for name in names]
        )
        axes.set_xlabel(part)
        style.score_axis(axes, context.scale, "Composite score" if axes is panels[0] else "")
    return style.settle(figure), few


def judge_dimensions(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean that each judge gave in each dimension and in all, of the answers that every judge scored."""
    scores, names = _readable(analyses), [*analyses.dimensions, analyses.score]
    judges = scores["judge"].nunique()
    common = scores[scores.groupby("run_id")["judge"].transform("nunique") == judges]
    if judges < 2 or common.empty:
        raise NothingToDraw("no answer was scored by every judge")
    cells = common.groupby("judge", observed=True)[names].mean().astype(float).T
    cells.columns = [str(judge) for judge in cells.columns]
    counts = {**context.n, "bases": common["base"].nunique(), "answers": common["run_id"].nunique()}
    return _heat(
        "judge_dimensions", cells, context, counts,
        {str(name): readable(str(name)) for name in cells.index}, {str(name): context.judge(name) for name in cells},
    )  # fmt: skip


def base_models(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean score of each model on each base, the easiest base first."""
    judged = captions.judged_runs(analyses.runs)
    if judged["model"].nunique() < 2 or judged["base"].nunique() < 2:
        raise NothingToDraw("a model or a base alone has nothing to be held against")
    if (count := judged["base"].nunique()) > _MOST:
        raise NothingToDraw(f"{count:,} bases are more than a page can show")
    scores = judged.assign(
        score=judged[analyses.score].astype(float), length_bin=judged["length_bin"].astype(str)
    )
    lengths = scores.groupby(["base", "model", "length_bin"])["score"].mean()
    cells = lengths.groupby(level=["base", "model"]).mean().unstack("model")
    cells = cells.loc[cells.mean(axis=1).sort_values(ascending=False, kind="stable").index]
    cells = cells.rename(index=str, columns=str)
    bases, models = ({name: name for name in names} for names in (cells.index, cells.columns))
    return _heat("base_models", cells, context, context.n, bases, models)


def _heat(
    name: str,
    cells: pd.DataFrame,
    context: About,
    n: Any,
    rows: dict[str, str],
    columns: dict[str, str],
) -> FigureWithCaption:
    """Draw means as shades with their numbers; where rows are more than a page has, as shades alone and turned."""
    text, many = captions.TEXTS[name], len(cells) > _CELLS
    table, titles = cells.T if many else cells, columns if many else rows
    heads, labels = [columns[str(item)] for item in cells], [titles[str(item)] for item in table.index]
    wide = many or len(heads) > 3 or max(map(len, heads)) > _HEAD or max(map(len, labels)) > _NARROW
    height = 5.5 * len(table) + 24 if many else _ROW_MM * len(table) + (44 if len(heads) > _HEADS else 20)
    figure = style.new_figure(style.PAGE_MM if wide else style.COLUMN_MM, height)
    axes = figure.subplots()
    # Labels before seaborn measures them: a sign that the font lacks would be warned of.
    names = style.shortened(labels, 34 if wide else _NARROW)
    table = table.set_axis([names[label] for label in labels], axis=0)
    sns.heatmap(
        table, ax=axes, cmap=style.SHADES, annot=not many, fmt=".2f",
        rasterized=many, cbar=many, linewidths=0 if many else 0.4, xticklabels=False, yticklabels=True,
        annot_kws={"fontsize": "small", "color": style.INK},
        cbar_kws={"label": f"Mean ({scale_words(context.scale, '–')})", "aspect": 10},
    )  # fmt: skip
    axes.set(xlabel="Bases, the easiest first" if many else "", ylabel="")
    if not many:
        style.column_axis(axes, heads, 66 if wide else 33, at=0.5)
    axes.tick_params(length=0, labelbottom=False, labeltop=not many)
    axes.tick_params(axis="y", labelrotation=0)
    values = cells.to_numpy(dtype=float)
    ends = f"{np.nanmin(values):.2f} to {np.nanmax(values):.2f}"
    means = "; ".join(f"{columns[str(item)]} {cells[item].mean():.2f}" for item in cells)
    return context.figure(
        name, style.settle(figure), cells.rename_axis("name").reset_index(),
        text["alt"].format(ends=ends, means=means),
        text["seen"],
        [text["note"]],
        [f"The shades run from {ends} of the scale from {scale_words(context.scale)}."],
        n=n, also=[bool(np.isnan(values).any()) and "a white cell has no score"],
    )  # fmt: skip


def length_scenario(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean of each prompt length with its interval, a panel for each scenario."""
    judged, text = captions.judged_runs(analyses.runs), captions.TEXTS["length_scenario"]
    sizes = judged.groupby("scenario")["base"].nunique() if "scenario" in judged else pd.Series(dtype=int)
    if len(sizes) < 2:
        raise NothingToDraw("there is one scenario")
    largest = sizes.sort_values(ascending=False, kind="stable").index[:_PANELS]
    scenarios = sorted(map(str, largest), key=scenario_rank)
    means = {
        name: stats.compare_lengths(judged[judged["scenario"] == name], analyses.score).per_bin
        for name in scenarios
    }
    rows = [
        (name, e.name, e.estimate, e.low, e.high, captions.units(e))
        for name, bins in means.items()
        for e in bins
        if e.estimable
    ]
    data = pd.DataFrame(rows, columns=["scenario", "length_bin", "score", "low", "high", "bases"])
    if data.empty:
        raise NothingToDraw("no scenario has scores of two bases")
    data = data.astype(dict.fromkeys(("score", "low", "high"), "float64"))
    figure, cut = _draw_scenarios(data, context)
    values = "; ".join(
        f"{readable(row.scenario)} {row.length_bin} {row.score:.2f}" for row in style.rows_of(data)
    )
    estimates: list[Estimate] = [
        replace(e, name=f"{e.name} in {readable(name)}") for name, bins in means.items() for e in bins
    ]
    largest_words = text["largest"].format(most=_PANELS, count=len(sizes))
    return context.figure(
        "length_scenario", figure, data, text["alt"].format(values=values),
        text["seen"].format(largest=largest_words if len(sizes) > _PANELS else ""),
        [text["note"], cut],
        estimates=estimates,
    )  # fmt: skip


def _draw_scenarios(data: pd.DataFrame, context: About) -> tuple[Figure, str]:
    scenarios = list(dict.fromkeys(data["scenario"]))
    figure, panels, across = style.grid(len(scenarios), head=4, tall=42, sharey=True, sharex=True)
    order, cut = list(LENGTH_BINS), ""
    values = data[["score", "low", "high"]].to_numpy(dtype=float).ravel()
    for number, (axes, name) in enumerate(zip(panels, scenarios, strict=True)):
        rows = data[data["scenario"] == name]
        style.means(axes, rows["score"], rows, [order.index(name) for name in rows["length_bin"]])
        axes.set_title(f"{style.shorten(readable(name), 26)} (n = {rows['bases'].max()})")
        axes.set_xticks(range(len(order)), order)
        axes.set_xlim(-0.5, len(order) - 0.5)
        cut = style.cut_axis(axes, context.scale, values, (context.scale[1] - context.scale[0]) / 40)
        if number % across == 0:
            axes.set_ylabel("Composite score")
    figure.supxlabel("Prompt length")
    return style.settle(figure), cut

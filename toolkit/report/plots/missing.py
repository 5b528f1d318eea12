"""Scores there are and scores there are not: how they spread, by length and judge, and what is missing and why."""

import math
import textwrap
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from toolkit.analyses.answers import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption
from toolkit.report.style import NothingToDraw
from toolkit.stats.inference.run_table import in_order, levels_of
from toolkit.stats.result import Result

_ROW_MM = 4.8
_LEAST = 0.1
_MOST_REASONS = 8  # most reasons that get a bar of their own
_OTHERS = "other reasons"
_NUMBERS = {"missing": "Int64", "of": "Int64", "share": "float64", "low": "float64", "high": "float64"}


def missing_data(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the share of runs and judgements without a score, in all and by group, and the count of each reason."""
    if analyses.runs.empty:
        raise NothingToDraw("there are no runs")
    result, text = analyses.missing(), captions.text_of("missing_data")
    shares, reasons = _shares(result), _reasons(result)
    if not shares["missing"].any():
        raise NothingToDraw("no score is missing")
    if (most := float(shares["share"].max())) < _LEAST / 2:
        raise NothingToDraw(f"at most {most:.1%} of any group has no score; the statistics count them")
    heights = [len(shares), *([1.5 * len(reasons)] if len(reasons) else [])]  # a reason may take two lines
    figure, panels = style.stacked(heights, _ROW_MM, 18 * len(heights))
    drawn = shares.assign(label=[_label(row, context) for row in style.rows_of(shares)])
    reasons["label"] = reasons["name"].map(_reason)
    end = _draw_shares(panels[0], drawn, context)
    if len(reasons):
        _draw_reasons(panels[1], reasons, "runs and judgements" if "judge" in result.shares else "runs")
    others = reasons.loc[reasons["name"] == _OTHERS, "missing"]
    words = {
        "rows": style.values_of(drawn, text["row"]),
        "counts": style.values_of(reasons, text["reason"]),
        "groups": ", by ".join(context.factor if name == "level" else name for name in result.shares),
        "reasons": len(reasons),
        "others": int(others.sum()),
        "axis": end < 1 and end,
    }
    data = pd.concat([shares, reasons.drop(columns="label")], ignore_index=True)
    estimates = [*result.overall, *(share for group in result.shares.values() for share in group)]
    return context.worded(
        "missing_data", style.settle(figure), data.astype(_NUMBERS), words, ["axis"],
        ["others", result.bounds.missing and result.bounds.sentence()],
        estimates=estimates, counts=f"{captions.n_words(context.n)}, all with a score", missing="",
    )  # fmt: skip


def _shares(result: Result) -> pd.DataFrame:
    estimates = [("all", share.facets["of"], share) for share in result.overall]
    estimates += [
        (group, share.facets[group], share) for group, many in result.shares.items() for share in many
    ]
    rows = []
    for group, name, share in estimates:
        if share.estimate is not None:
            cases = next(count for unit, count in share.n.items() if unit != "bases")
            missing = round(share.estimate * cases)
            rows.append(("share", group, name, missing, cases, share.estimate, share.low, share.high))
    return pd.DataFrame(rows, columns=["part", "group", "name", *_NUMBERS]).astype(_NUMBERS)


def _reasons(result: Result) -> pd.DataFrame:
    counts = pd.Series(result.reasons, dtype="Int64").rename_axis("name").reset_index(name="missing")
    if len(counts) > _MOST_REASONS:
        others = counts["missing"].iloc[_MOST_REASONS - 1 :].sum()
        last = pd.DataFrame({"name": [_OTHERS], "missing": [others]})
        counts = pd.concat([counts.iloc[: _MOST_REASONS - 1], last])
    return counts.assign(part="reason", group="")


def _draw_shares(axes: Axes, shares: pd.DataFrame, context: About) -> float:
    styles = context.styles(shares.loc[shares["group"] == "model", "name"])
    end = min(1.0, math.ceil(max(_LEAST, float(shares[["share", "high"]].max().max())) * 20) / 20)
    groups, names = shares["group"].tolist(), style.shortened(shares["label"], 48)
    rows = shares.rename(columns={"share": "estimate"}).assign(
        label=shares["label"].map(names),
        text=[f"{row.missing:,} of {row.of:,}" for row in style.rows_of(shares)],
    )
    pairs = zip(groups, shares["name"], strict=True)
    looks = [styles[name] if group == "model" else style.PLAIN for group, name in pairs]
    style.forest_panel(axes, rows, "Share without a score", looks=looks, at=None)
    for down in range(1, len(groups)):
        if groups[down] != groups[down - 1]:
            axes.axhline(len(groups) - down - 0.5, color=style.GREY, linewidth=0.4)
    axes.set_xlim(-end / 50, end)  # a mark at 0 is drawn whole
    # Steps of 2.5 % would be labelled as 2 %, 5 %, 8 %.
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return end


def _label(row: Any, context: About) -> str:
    if row.group == "all":
        return f"all {row.name}"
    name = context.judge(row.name) if row.group == "judge" else row.name
    return f"{context.factor if row.group == 'level' else row.group}: {name}"


def _reason(name: str) -> str:
    kind, colon, message = name.partition(":")  # text of others: a provider's message stands in it
    line = style.shorten(f"{kind.replace('_', ' ')}{colon}{message}", 78)
    return textwrap.fill(line, 42, break_on_hyphens=False)


def _draw_reasons(axes: Axes, reasons: pd.DataFrame, kinds: str) -> None:
    bottom_up = reasons.iloc[::-1]
    style.bars(axes, bottom_up["missing"].astype(int), 0.6)
    for up, count in enumerate(bottom_up["missing"]):
        style.beside(axes, up, str(count), 1.03)
    style.row_axis(axes, list(bottom_up["label"]))
    axes.set_xlim(0, reasons["missing"].max() * 1.04)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel(f"Scores missing for this reason ({kinds})")


_FEW = 20
"""Scores below which the shape of a distribution is a guess, and each is a mark."""


def score_distribution(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw how the composite scores spread at each prompt length, and how those that each judge gave."""
    means = analyses.judge_means
    judgements = means[~means["failed"].astype(bool) & means[analyses.score].notna()]
    frames = {"level": captions.judged_runs(analyses.runs), "judge": judgements}
    rows = [
        pd.DataFrame(
            {
                "part": captions.capital(context.factor if by == "level" else by),
                "name": frame[by].astype("string"),
                "score": frame[analyses.score],
            }
        )
        for by, frame in frames.items()
        if frame[by].nunique() > 1
    ]
    if not rows:
        raise NothingToDraw(f"there is one {context.factor} and one judge")
    data = pd.concat(rows, ignore_index=True).astype({"score": float})
    data = data.sort_values(
        "name", key=lambda names: names.map(in_order(names, levels_of(analyses.runs)).index), kind="stable"
    )
    groups = data.groupby(["part", "name"], sort=False)["score"]
    ends = (
        groups.quantile(np.array([0.25, 0.5, 0.75]))
        .unstack()
        .set_axis(["low", "median", "high"], axis=1)
        .reset_index()
    )
    few = int(groups.size().min()) < _FEW
    ends["name"] = ends["name"].map(context.judge)
    words = {
        "quartiles": style.values_of(ends, captions.text_of("score_distribution")["quartile"]),
        "parts": " and by ".join(data["part"].unique()).lower(),
        "few": few,
        "shape": not few,
        "medians": True,
    }
    figure = _draw_distribution(data, context, few=few)
    return context.worded("score_distribution", figure, data, words, notes=["medians"])


def _draw_distribution(data: pd.DataFrame, context: About, *, few: bool) -> Figure:
    parts = dict(list(data.groupby("part", sort=False)))
    figure = style.new_figure(style.PAGE_MM if len(parts) > 1 else style.COLUMN_MM, 66)
    panels = figure.subplots(1, len(parts), sharey=True, squeeze=False)[0]
    for axes, (part, rows) in zip(panels, parts.items(), strict=True):
        names = list(rows["name"].unique())
        if few:
            # Not by seaborn, whose shifts are others in every figure.
            x = rows["name"].map(names.index) + np.random.default_rng(0).uniform(-0.15, 0.15, len(rows))
            look = {"color": style.PALETTE[0], "markersize": 4, "alpha": 0.7, "markeredgewidth": 0}
            axes.plot(x, rows["score"], "o", **look)
            axes.set_xlim(-0.5, len(names) - 0.5)
        else:
            shape: dict[str, Any] = {
                "color": "#C9DFEC",
                "linewidth": 0.6,
                "linecolor": style.INK,
                "width": 0.85,
            }
            sns.violinplot(rows, x="name", y="score", order=names, ax=axes, inner=None, cut=0, **shape)
            style.boxes(axes, [rows.loc[rows["name"] == name, "score"] for name in names], 0.14)
        counts = rows["name"].value_counts()
        style.column_axis(axes, list(map(context.judge, names)), [f"n = {counts[name]:,}" for name in names])
        axes.set_xlabel(part)
        style.score_axis(axes, context.scale, "Composite score" if axes is panels[0] else "")
    return style.settle(figure)

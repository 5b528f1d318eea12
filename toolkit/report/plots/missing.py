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
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.inference.run_table import in_order
from toolkit.stats.result import Result
from toolkit.words import scale_words

_ROW_MM = 4.8
_LEAST = 0.1
_GROUPS = {"length_bin": "prompt length", "model": "model", "judge": "judge"}
_COLUMNS = ("part", "group", "name", "missing", "of", "share", "low", "high")
_MOST_REASONS = 8  # most reasons that get a bar of their own


def missing_data(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the share of runs and judgements without a score, in all and by group, and the count of each reason."""
    if analyses.runs.empty:
        raise NothingToDraw("there are no runs")
    result, text = analyses.missing(), captions.TEXTS["missing_data"]
    data = _rows(result)
    estimates = [*result.overall, *(share for shares in result.shares.values() for share in shares)]
    if not data["missing"].any():
        raise NothingToDraw("no score is missing")
    if (most := float(data["share"].max())) < _LEAST / 2:
        raise NothingToDraw(f"at most {most:.1%} of any group has no score; the statistics count them")
    drawn, reasons = data[data["part"] == "share"], data[data["part"] == "reason"]
    heights = [len(drawn), *([1.5 * len(reasons)] if len(reasons) else [])]  # a reason may take two lines
    figure, panels = style.stacked(heights, _ROW_MM, 18 * len(heights))
    end = _draw_shares(panels[0], drawn, context)
    if len(reasons):
        _draw_reasons(panels[1], reasons, "runs and judgements" if "judge" in result.shares else "runs")
    groups = ", by ".join(_GROUPS.get(name, name) for name in result.shares)
    remaining = [row.missing for row in style.rows_of(reasons) if row.name == "other reasons"]
    shares = drawn.to_dict("records")
    rows = "; ".join(f"{_label(row, context)} {row['missing']} of {row['of']}" for row in shares)
    counts = "; ".join(f"{_reason(row['name'])} {row['missing']}" for row in reasons.to_dict("records"))
    words = {"rows": rows, "counts": counts and f" Reasons: {counts}.", "groups": groups}
    return context.worded(
        "missing_data", style.settle(figure), data, words | {"reasons": text["reasons"] if counts else ""},
        [end < 1 and text["axis"].format(end=end)],
        [
            remaining and text["others"].format(count=remaining[0]),
            result.bounds.missing and result.bounds.sentence(),
        ],
        estimates=estimates, counts=f"{captions.n_words(context.n)}, all with a score", missing="",
    )  # fmt: skip


def _rows(result: Result) -> pd.DataFrame:
    shares = [("all", share.facets["of"], share) for share in result.overall]
    shares += [(group, share.facets[group], share) for group, many in result.shares.items() for share in many]
    rows: list[tuple[Any, ...]] = []
    for group, name, share in shares:
        if share.estimable:
            cases = next(count for unit, count in share.n.items() if unit != "bases")
            missing = round((share.estimate or 0.0) * cases)
            rows.append(("share", group, name, missing, cases, share.estimate, share.low, share.high))
    reasons = list(result.reasons.items())
    if len(reasons) > _MOST_REASONS:
        remaining = sum(count for _, count in reasons[_MOST_REASONS - 1 :])
        reasons = [*reasons[: _MOST_REASONS - 1], ("other reasons", remaining)]
    rows += [("reason", "", reason, count, None, None, None, None) for reason, count in reasons]
    numbers = dict.fromkeys(("share", "low", "high"), "float64") | dict.fromkeys(("missing", "of"), "Int64")
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(numbers)


def _draw_shares(axes: Axes, shares: pd.DataFrame, context: About) -> float:
    styles = context.styles(shares.loc[shares["group"] == "model", "name"])
    end = min(1.0, math.ceil(max(_LEAST, float(shares[["share", "high"]].max().max())) * 20) / 20)
    labels = [_label(row, context) for row in shares.to_dict("records")]
    names, groups = style.shortened(labels, 48), shares["group"].tolist()
    style.forest_panel(
        axes,
        shares.rename(columns={"share": "estimate"}),
        [names[label] for label in labels],
        "Share without a score",
        looks=[
            styles[name] if group == "model" else style.PLAIN
            for group, name in zip(groups, shares["name"], strict=True)
        ],
        at=None,
        texts=[f"{row.missing:,} of {row.of:,}" for row in style.rows_of(shares)],
    )
    for down in range(1, len(groups)):
        if groups[down] != groups[down - 1]:
            axes.axhline(len(groups) - down - 0.5, color=style.GREY, linewidth=0.4)
    axes.set_xlim(-end / 50, end)  # a mark at 0 is drawn whole
    # Steps of 2.5 % would be labelled as 2 %, 5 %, 8 %.
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return end


def _label(row: dict[Any, Any], context: About) -> str:
    if row["group"] == "all":
        return f"all {row['name']}"
    name = context.judge(row["name"]) if row["group"] == "judge" else row["name"]
    return f"{_GROUPS.get(row['group'], row['group'])}: {name}"


def _reason(name: str) -> str:
    kind, colon, message = name.partition(":")  # text of others: a provider's message stands in it
    line = style.shorten(f"{kind.replace('_', ' ')}{colon}{message}", 78)
    return textwrap.fill(line, 42, break_on_hyphens=False)


def _draw_reasons(axes: Axes, reasons: pd.DataFrame, kinds: str) -> None:
    counts = reasons["missing"].astype(int).tolist()[::-1]
    axes.barh(range(len(counts)), counts, height=0.6, color=style.GREY, edgecolor=style.INK, linewidth=0.6)
    for up, count in enumerate(counts):
        style.beside(axes, up, str(count), 1.03)
    style.row_axis(axes, [_reason(name) for name in reasons["name"]][::-1])
    axes.set_xlim(0, max(counts) * 1.04)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel(f"Scores missing for this reason ({kinds})")


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
    words = {"scale": scale_words(context.scale), "quartiles": quartiles, "parts": parts_words}
    words["marks"] = text["few" if few else "shape"]
    notes = [text["medians"].format(quartiles=quartiles)]
    return context.worded("score_distribution", figure, data, words, notes=notes)


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

"""What conditions do to scores, prompt length above all: contrasts, quality, dimensions; and length of the reply."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from toolkit import stats
from toolkit.analyses.answers import Analyses
from toolkit.report import captions, style
from toolkit.report.escape import readable
from toolkit.report.figure import About, FigureWithCaption
from toolkit.report.style import NothingToDraw
from toolkit.stats.inference.run_table import WHOLE, at_length, in_order, levels_of
from toolkit.stats.result import Estimate
from toolkit.words import LENGTH_BINS, counted, joined, scale_words

_BINS = tuple(LENGTH_BINS)
_ALL = "all models"
_MODEL_MM = 2.6  # height that the mark of one model takes in a row of the profile
_LEAST_MODEL_MM = 1.5
_BETWEEN_MM = 2.2
MOST_ROWS = 12  # differences of single models that are drawn; of more the table has the numbers


def conditions(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the differences between the levels of each factor with their intervals, and below them the means."""
    lengths = ["length"] * analyses.answers("length")
    compared = {name: analyses.conditions(name) for name in [*lengths, *analyses.factors]}
    results = compared.values()
    parts = []
    for r in results:
        labels = {e.name: " − ".join(map(str, pair)) for pair, e in zip(r.pairs, r.contrasts, strict=True)}
        parts += [(r.title, "difference", labels[e.name], e) for e in r.contrasts]
        if len(r.of_models) <= MOST_ROWS:
            models = style.shortened([e.facets["model"] for e in r.of_models], 24)
            parts += [
                (
                    r.title,
                    "model",
                    f"{labels[e.statistic]}, " * (len(labels) > 1) + models[e.facets["model"]],
                    e,
                )
                for e in r.of_models
            ]
    parts += [(r.title, "mean", e.name, e) for r in results for e in r.per_level]
    data = style.data_of(parts, ("factor", "part", "label", "name"), ("p_value", "role", "bases"))
    if not (data["part"] == "difference").any():
        raise NothingToDraw("no two levels have scores of two bases")
    verdicts = {test.name: test.facets.get("verdict", "") for r in results for test in r.equivalence}
    data["verdict"] = [verdicts.get(name, "") for name in data["name"]]
    figure, cut = _draw_conditions(data, analyses.margin, context.scale)
    is_named = "confirmatory" in set(data["role"])
    words = {
        "factors": joined([r.title for r in results]),
        "named": is_named,
        "exploratory": not is_named,
        "margin": analyses.margin,
        "models": "model" in set(data["part"]),
    }
    # Where judgements are paired, those are missing and no bases.
    contrasts = [e for r in results for e in r.contrasts if "runs" not in e.n]
    return context.worded(
        "conditions", figure, data.drop(columns="label"), words, [cut],
        (captions.notes_words(compared[name].notes) for name in analyses.factors),
        variant="" if analyses.methods.empty else "conditions_of_methods",
        estimates=[estimate for *_, estimate in parts], also=[captions.unpaired_words(contrasts)],
    )  # fmt: skip


def _draw_conditions(
    data: pd.DataFrame, margin: float | None, scale: tuple[float, float]
) -> tuple[Figure, str]:
    groups = list(data.groupby(["factor", "part"], sort=False))
    figure, panels = style.stacked([len(rows) for _, rows in groups], 7, 17 * len(groups))
    cuts = {}
    for ((factor, part), rows), axes in zip(groups, panels, strict=True):
        if part == "difference":
            texts = [f"{style.interval(row)} {row.verdict}" for row in style.rows_of(rows)]
            rows = rows.assign(text=texts, hollow=rows["role"] != "confirmatory")
            style.forest_panel(axes, rows, f"Difference by {factor} (points)")
            if margin:
                axes.axvspan(-margin, margin, **style.SHADE)
                style.threshold(axes, 0, f"counts as equal: ±{margin:g}")
        elif part == "model":
            style.forest_panel(
                axes, rows.assign(hollow=True), f"Difference by {factor}, of each model (points)"
            )
        else:
            style.forest_panel(axes, rows, f"Mean score by {factor}", at=None)
            # The axis does not begin at 0: that an effect can be seen is what the panel is for.
            values = rows[["estimate", "low", "high"]].to_numpy()
            pad = max(0.25 * (np.nanmax(values) - np.nanmin(values)), 0.05)
            cuts[style.cut_axis(axes, scale, values, pad, which="x")] = factor
    return style.settle(figure), "; ".join(filter(None, cuts))


def quality_by_length(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean quality of each length bin with its interval; a thin line joins each base, for bins are paired."""
    judged, means = captions.judged_runs(analyses.runs), analyses.length().per_level
    n = captions.counts(judged, context.repeats)
    profile = analyses.once(stats.dimension_profile, analyses.runs, dimensions=(analyses.score,)).means
    of_models = [(e.facets["model"], replace(e, name=e.facets["level"])) for e in profile]
    bases = _base_means(judged.rename(columns={analyses.score: "score"}))
    parts = [*bases, *(("model", model, e.name, e) for model, e in of_models)]
    parts += [("mean", "all", e.name, e) for e in means]
    data = style.data_of(parts, ("kind", "name", "level"), ("answers",), nothing="no judged runs")
    crowded, several = n["bases"] > style.MANY_BASES, n["models"] > 1
    data = data.rename(columns={"estimate": "score"})
    figure, cut = _draw_quality(data, context, crowded=crowded)
    absent = [name for name in _BINS if name in set(analyses.runs["level"]) - set(data["level"])]
    # Lines that do not rest on the same models at all their points: their slope is not that of length.
    base_lengths = judged.groupby("base", observed=True)["level"].nunique()
    model_lengths = judged.groupby(["base", "model"], observed=True)["level"].nunique()
    mixed = int((model_lengths.groupby(level="base").min() < base_lengths).sum())
    has_mean = any(e.estimable for e in means)
    words = {
        "of": counted(n["bases"], "bases"),
        "scores": "; ".join(f"{e.name} {e.estimate:.2f}" for e in means if e.estimable) or "not estimated",
        "bands": crowded,
        "lines": not crowded,
        "all_models": has_mean and several,
        "one_model": has_mean and not several,
        "coloured": several,
        "averaged": several and n["repeats"] > 1,
        "base": True,
        "intervals": data["low"].notna().any(),
        "mixed": not crowded and mixed,
    }
    return context.worded(
        "quality_by_length", figure, data, words, ["intervals", cut],
        ["base", "mixed", captions.cut_words(data, context.scale)],
        n=n, estimates=[*means, *(replace(e, name=f"{e.name} of {model}") for model, e in of_models)],
        also=[absent and f"no judged run of length {', '.join(absent)}"],
    )  # fmt: skip


def _base_means(judged: pd.DataFrame) -> list[tuple[str, str, str, Estimate]]:
    """Return the mean of each base and bin, averaged as the means over them are: repeats first, then models."""
    keys = ["base", "level"]
    cells = judged.groupby([*keys, "model"], observed=True)["score"].agg(["mean", "size"])
    means = cells.groupby(level=keys, observed=True).agg({"mean": "mean", "size": "sum"}).reset_index()
    return [
        ("base", str(base), str(name), Estimate(str(name), mean, n={"answers": size}))
        for base, name, mean, size in means.itertuples(index=False)
    ]


def _draw_quality(data: pd.DataFrame, context: About, *, crowded: bool) -> tuple[Figure, str]:
    marks = data.assign(x=data["level"].map(_BINS.index).astype(float))
    means, models, bases = (marks[marks["kind"] == kind] for kind in ("mean", "model", "base"))
    styles = context.styles(models["name"])
    several = len(styles) > 1
    columns = 1 if 1 < len(styles) <= style.CROWD else 2
    lines = -(-len(styles) // columns) if several else 0
    width = style.COLUMN_MM if len(styles) <= style.CROWD else style.PAGE_MM
    figure = style.new_figure(width, 70 + 4 * lines)
    axes = figure.subplots()
    handles: list[Artist] = []
    drawn = marks
    if crowded:
        shares = bases.groupby("x")["score"].quantile(np.array([0.05, 0.25, 0.75, 0.95])).unstack()
        shade: dict[str, Any] = {"color": style.GREY, "alpha": 0.18, "linewidth": 0}
        for low, high in ((0.05, 0.95), (0.25, 0.75)):
            axes.fill_between(shares.index, shares[low], shares[high], zorder=1, **shade)
        handles.append(Patch(label="bases: 90%; darker: half", **shade))
        drawn = pd.concat([means, models, shares.melt(value_name="score")])
    elif not bases.empty:
        thin: dict[str, Any] = {"color": style.GREY, "linewidth": 0.6, "marker": ".", "markersize": 3}
        for _, line in bases.groupby("name"):
            axes.plot(line["x"], line["score"], markeredgewidth=0, zorder=1, alpha=0.55, **thin)
        handles.append(style.handle("one base", **thin))
    if not means.empty:  # several models share black
        name, look = next(iter(styles.items())) if len(styles) == 1 else (_ALL, style.PLAIN)
        label = f"{style.shorten(name, 24)}, mean and interval"
        size: dict[str, Any] = {"linewidth": 1.4, "elinewidth": 1.2, "markersize": 5.5, "capsize": 3}
        handles.append(_errorbars(axes, means, 0.0, look, label, zorder=4, **size))
    labels = style.shortened(styles)
    step = min(0.11, 0.66 / (len(styles) + 1))  # of 1 between two bins: marks stay with their bin
    for name, look, shift in style.side_by_side(styles if several else {}, step):
        # Beside the mean of the bin, so that no model hides another one or the interval.
        aside = shift + math.copysign(step, shift)
        size = {"linewidth": 0.8, "elinewidth": 0.8, "markersize": 4, "linestyle": look.line}
        line = models[models["name"] == name]
        handles.append(_errorbars(axes, line, aside, look, labels[name], zorder=3, **size))
    ticks = [f"{name}\n{low}–{high}" for name, (low, high) in LENGTH_BINS.items()]
    axes.set(xticks=range(len(_BINS)), xticklabels=ticks, xlim=(-0.5, len(_BINS) - 0.5))
    axes.set_xlabel("Length of the prompt (tokens)")
    axes.set_ylabel(f"Composite score ({scale_words(context.scale, '–')})")
    cut = style.cut_axis(axes, context.scale, drawn[["score", "low", "high"]], 0.1)
    style.legend(figure, handles, columns=columns)
    return style.settle(figure), cut


def _errorbars(
    axes: Axes, marks: pd.DataFrame, shift: float, look: style.ModelStyle, label: str, **size: Any
) -> Artist:
    """Draw means with their intervals, and return their entry in the legend; without an interval there is no bar."""
    below = (marks["score"] - marks["low"]).fillna(0.0)
    above = (marks["high"] - marks["score"]).fillna(0.0)
    size |= {"color": look.color, "marker": look.marker}
    bars = axes.errorbar(marks["x"] + shift, marks["score"], yerr=[below, above], **size)
    bars.lines[0].set(
        clip_on=False, label=label
    )  # a mark at 0 or 5 is drawn whole; intervals end with the scale
    return bars.lines[0]


def dimension_profile(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean of each dimension with its interval: a panel for each prompt length, a mark for each model."""
    means = analyses.dimension_profile().means
    parts = [(*mean.facets.values(), mean) for mean in means]
    keys, counts = ("model", "level", "dimension"), ("bases", "answers")
    data = style.data_of(parts, keys, counts, nothing="no judged runs")
    figure, cut = _draw_profile(data, levels_of(analyses.runs), context)
    data = data.rename(columns={"estimate": "mean"})
    places = data.assign(place=[at_length(row.model, row.level) for row in style.rows_of(data)])
    words = {
        "lengths": context.lengths,
        "marks": style.values_of(places, captions.TEXTS["dimension_profile"]["mark"]),
    }
    return context.worded("dimension_profile", figure, data, words, [cut], estimates=means)


def _draw_profile(data: pd.DataFrame, levels: Sequence[str], context: About) -> tuple[Figure, str]:
    styles, bins = context.styles(data["model"]), in_order(data["level"], levels)
    dimensions = list(dict.fromkeys(data["dimension"]))[::-1]
    columns = 1 if len(styles) <= style.CROWD else 2
    head = 18 + 4.2 * -(-len(styles) // columns) * (len(styles) > 1)
    around = head + _BETWEEN_MM * len(dimensions)
    height = style.row_height(len(styles) * len(dimensions), around, _MODEL_MM, _LEAST_MODEL_MM)
    row_height = height * len(styles) + _BETWEEN_MM
    figure = style.new_figure(style.PAGE_MM, row_height * len(dimensions) + head)
    panels, cut = figure.subplots(1, len(bins), squeeze=False, sharey=True)[0], ""
    for axes, name in zip(panels, bins, strict=True):
        for model, look, shift in style.side_by_side(styles, -height / row_height):
            marks = data[(data["level"] == name) & (data["model"] == model)]
            up = marks["dimension"].map(dimensions.index) + shift
            style.forest(axes, marks, up, look, size=4.2, clip=False)
        for row in range(1, len(dimensions)):
            axes.axhline(row - 0.5, color=style.GREY, linewidth=0.3, zorder=0)
        axes.grid(visible=True, axis="x", linewidth=0.4, color=style.GREY, alpha=0.4)
        axes.tick_params(axis="y", length=0)
        if name in LENGTH_BINS:
            axes.set_title("{}: {}–{} tokens".format(name, *LENGTH_BINS[name]))
        elif name != WHOLE:
            axes.set_title(style.shorten(name, 24))
        cut = style.cut_axis(axes, context.scale, data[["estimate", "low", "high"]], which="x")
        axes.xaxis.set_major_locator(MaxNLocator(4))
    panels[len(bins) // 2].set_xlabel(f"Mean score ({scale_words(context.scale, '–')})")
    style.row_axis(panels[0], list(map(readable, dimensions)), (-0.5, len(dimensions) - 0.5))
    if len(styles) > 1:
        style.legend(figure, style.model_handles(styles, 60 // columns + 10), columns=columns)
    return style.settle(figure), cut

"""What lengths do: of the prompt to quality, equivalence and profile of the dimensions, of the reply to its score."""

import math
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from toolkit.analyses.answers import Analyses
from toolkit.report import captions, style
from toolkit.report.escape import readable
from toolkit.report.figure import About, FigureWithCaption
from toolkit.report.style import NothingToDraw
from toolkit.stats.inference.run_table import at_length, in_order
from toolkit.stats.prompt_length.information import TOKENS
from toolkit.stats.result import Estimate
from toolkit.words import LENGTH_BINS, counted, scale_words

_BINS = tuple(LENGTH_BINS)
_ALL = "all models"
_ROW_MM = 5.2
_LEAST_ROW_MM = 3.4
_HEAD_MM = 5.5
_MODEL_MM = 2.6  # height that the mark of one model takes in a row of the profile
_LEAST_MODEL_MM = 1.5
_BETWEEN_MM = 2.2
_LOOKS = {
    "information": style.ModelStyle(style.PALETTE[0], "s", "-"),
    "length": style.ModelStyle(style.PALETTE[3], "^", "-"),
    "both": style.PLAIN,
}
_DIFFERENCE = "Difference of the mean composite score (points)"
_TITLES = ("From S to M", "From S to L", "From S as long as M to L, by way of L as short as M")


def length_effects(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the differences of the prompt lengths with their intervals, and beside them the means that they are of."""
    comparison = analyses.length()
    parts = [("difference", e) for e in comparison.contrasts] + [("mean", e) for e in comparison.per_bin]
    data = style.data_of(parts, ("part", "name"), ("p_value", "role", "bases"))
    if not (data["part"] == "difference").any():
        raise NothingToDraw("no two prompt lengths have scores of two bases")
    figure, cut = _draw_effects(data, analyses.margin, context.scale)
    is_named = "confirmatory" in set(data["role"])
    second = captions.composites_words(analyses)  # where scores of 0 make it another one
    others = analyses.length(analyses.other_score).contrasts if second else ()
    words = {
        "named": is_named,
        "exploratory": not is_named,
        "margin": analyses.margin,
        "others": ", ".join(f"{e.name} {e.estimate:z,.2f}" for e in others if e.estimable),
    }
    return context.worded(
        "length_effects", figure, data, words, [cut], [second, "others"],
        estimates=[estimate for _, estimate in parts], also=[captions.unpaired_words(comparison.contrasts)],
    )  # fmt: skip


def _draw_effects(data: pd.DataFrame, margin: float | None, scale: tuple[float, float]) -> tuple[Figure, str]:
    effects, means = (data[data["part"] == part] for part in ("difference", "mean"))
    figure, (above, below) = style.stacked((8 * len(effects), 38), 1, 16)
    effects = effects.assign(
        label=effects["name"].str.replace("-", "−"),
        text=[f"{style.interval(row)} {row.role}" for row in style.rows_of(effects)],
        hollow=effects["role"] != "confirmatory",
    )
    style.forest_panel(above, effects, _DIFFERENCE)
    if margin:
        above.axvspan(-margin, margin, **style.SHADE)
        style.threshold(above, 0, f"counts as equal: ±{margin:g}")
    x = means["name"].map(_BINS.index)
    below.vlines(x, means["low"], means["high"], color=style.INK, linewidth=1.6)
    below.plot(x, means["estimate"], "o-", color=style.INK, linewidth=0.8, markersize=5)
    below.set_xticks(x, list(means["name"]))
    below.set(xlim=(-0.5, len(_BINS) - 0.5), xlabel="Prompt length", ylabel="Composite score")
    # The axis does not begin at 0: that an effect can be seen is what the panel is for.
    values = means[["estimate", "low", "high"]].to_numpy()
    cut = style.cut_axis(below, scale, values, max(0.25 * float(np.nanmax(values) - np.nanmin(values)), 0.05))
    return style.settle(figure), cut


def quality_by_length(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean quality of each length bin with its interval; a thin line joins each base, for bins are paired."""
    judged, means = captions.judged_runs(analyses.runs), analyses.length().per_bin
    by_model = {model: comparison.per_bin for model, comparison in analyses.length_by_model().items()}
    n = captions.counts(judged, context.repeats)
    of_models = [(model, e) for model, bins in by_model.items() for e in bins]
    bases = _base_means(judged.rename(columns={analyses.score: "score"}))
    parts = [*bases, *(("model", model, e.name, e) for model, e in of_models)]
    parts += [("mean", "all", e.name, e) for e in means]
    data = style.data_of(parts, ("kind", "name", "length_bin"), ("answers",), nothing="no judged runs")
    crowded, several = n["bases"] > style.MANY_BASES, n["models"] > 1
    data = data.rename(columns={"estimate": "score"})
    figure, cut = _draw_quality(data, context, crowded=crowded)
    absent = [name for name in _BINS if name in set(analyses.runs["length_bin"]) - set(data["length_bin"])]
    # Lines that do not rest on the same models at all their points: their slope is not that of length.
    base_lengths = judged.groupby("base", observed=True)["length_bin"].nunique()
    model_lengths = judged.groupby(["base", "model"], observed=True)["length_bin"].nunique()
    mixed = int((model_lengths.groupby(level="base").min() < base_lengths).sum())
    has_mean = any(e.estimable for e in means)
    words = {
        "of": counted(n["bases"], "bases"),
        "scores": "; ".join(f"{e.name} {e.estimate:.2f}" for e in means if e.estimable) or "not estimated",
        "bands": crowded,
        "lines": not crowded,
        "all_models": has_mean and several,
        "one_model": has_mean and not several,
        "alone": not by_model,
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
    keys = ["base", "length_bin"]
    cells = judged.groupby([*keys, "model"], observed=True)["score"].agg(["mean", "size"])
    means = cells.groupby(level=keys, observed=True).agg({"mean": "mean", "size": "sum"}).reset_index()
    return [
        ("base", str(base), str(name), Estimate(str(name), mean, n={"answers": size}))
        for base, name, mean, size in means.itertuples(index=False)
    ]


def _draw_quality(data: pd.DataFrame, context: About, *, crowded: bool) -> tuple[Figure, str]:
    marks = data.assign(x=data["length_bin"].map(_BINS.index).astype(float))
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


def equivalence(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the two one-sided tests of each pair of prompt lengths, of all models and of each."""
    margin = analyses.margin
    if margin is None:
        raise NothingToDraw("the study file sets no analysis.equivalence_margin")
    by_model = analyses.length_by_model()
    alone = by_model.keys() if len(by_model) == 1 else ()
    groups = {_ALL: analyses.length(), **by_model} if not alone else dict.fromkeys(alone, analyses.length())
    tests = [(model, test) for model, result in groups.items() for test in result.equivalence]
    verdicts = [e.facets.get("verdict", "not tested") for _, e in tests if e.estimable]
    nothing = "no two prompt lengths have scores of two bases"
    more = ("p_value", "margin", "verdict", "bases")
    data = style.data_of(tests, ("of", "name"), more, nothing=nothing)
    data = data.assign(margin=margin, verdict=verdicts)
    data = data.rename(columns={"name": "contrast", "estimate": "difference"})
    estimates = [replace(test, name=f"{test.name} of {model}") for model, test in tests]
    pairs = captions.ranges_words(test for test in estimates if test.estimable)
    corrections = sorted({test.correction for test in estimates} - {"none"})
    words = {"margin": margin, "corrected": "; ".join(corrections), "apart": data["of"].nunique() > 1}
    return context.worded(
        "equivalence", _draw_equivalence(data, margin, context), data, words, notes=["apart"],
        estimates=estimates, also=[f"each pair of lengths: {pairs}", captions.unpaired_words(estimates)],
    )  # fmt: skip


def _draw_equivalence(data: pd.DataFrame, margin: float, context: About) -> Figure:
    groups = list(dict.fromkeys(data["of"]))
    styles = context.styles(name for name in groups if name in context.models)
    height = style.row_height(len(data), 12 + _HEAD_MM * len(groups), _ROW_MM, _LEAST_ROW_MM)
    head = 8 if height == _ROW_MM else _HEAD_MM
    figure, panels = style.panels_of(data, "of", height, head, 12, sharex=True)
    reach = 1.12 * max(1.3 * margin, float(data[["difference", "low", "high"]].abs().max().max()))
    heads = style.shortened(groups, 60)
    for name, tests, axes in panels:
        axes.axvspan(-margin, margin, **style.SHADE)
        for edge in (-margin, margin):
            axes.axvline(edge, color=style.GREY, linewidth=0.8, linestyle="--", zorder=1)
        rows = tests.rename(columns={"difference": "estimate"})
        rows["label"] = rows["contrast"].str.replace("-", "−")
        rows["text"] = [f"{row.verdict}: {style.interval(row)}" for row in style.rows_of(rows)]
        style.forest_panel(axes, rows, looks=[styles.get(name, style.PLAIN)] * len(rows))
        axes.set_title(heads[name], loc="left", fontweight="bold")
        axes.set_xlim(-reach, reach)
    axes.set_xlabel(f"Difference (points; grey: the margin, ±{margin:g})")
    return style.settle(figure)


def dimension_profile(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean of each dimension with its interval: a panel for each prompt length, a mark for each model."""
    means = analyses.dimension_profile().means
    parts = [(*mean.facets.values(), mean) for mean in means]
    keys, counts = ("model", "length_bin", "dimension"), ("bases", "answers")
    data = style.data_of(parts, keys, counts, nothing="no judged runs")
    figure, cut = _draw_profile(data, context)
    data = data.rename(columns={"estimate": "mean"})
    places = data.assign(place=[at_length(row.model, row.length_bin) for row in style.rows_of(data)])
    words = {
        "lengths": context.lengths,
        "marks": style.values_of(places, captions.TEXTS["dimension_profile"]["mark"]),
    }
    return context.worded("dimension_profile", figure, data, words, [cut], estimates=means)


def _draw_profile(data: pd.DataFrame, context: About) -> tuple[Figure, str]:
    styles, bins = context.styles(data["model"]), in_order(data["length_bin"])
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
            marks = data[(data["length_bin"] == name) & (data["model"] == model)]
            up = marks["dimension"].map(dimensions.index) + shift
            style.forest(axes, marks, up, look, size=4.2, clip=False)
        for row in range(1, len(dimensions)):
            axes.axhline(row - 0.5, color=style.GREY, linewidth=0.3, zorder=0)
        axes.grid(visible=True, axis="x", linewidth=0.4, color=style.GREY, alpha=0.4)
        axes.tick_params(axis="y", length=0)
        if name in LENGTH_BINS:
            axes.set_title("{}: {}–{} tokens".format(name, *LENGTH_BINS[name]))
        cut = style.cut_axis(axes, context.scale, data[["estimate", "low", "high"]], which="x")
        axes.xaxis.set_major_locator(MaxNLocator(4))
    panels[len(bins) // 2].set_xlabel(f"Mean score ({scale_words(context.scale, '–')})")
    style.row_axis(panels[0], list(map(readable, dimensions)), (-0.5, len(dimensions) - 0.5))
    if len(styles) > 1:
        style.legend(figure, style.model_handles(styles, 60 // columns + 10), columns=columns)
    return style.settle(figure), cut


def length_slope(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the score of every answer against its length, and the adjusted slope with its interval."""
    judged = captions.judged_runs(analyses.runs)
    answers = judged[judged["output_tokens"].notna()]
    if answers.empty:
        raise NothingToDraw("no judged run has a known length")
    slope, dense = analyses.length_bias().slope, len(answers) > style.MANY
    if slope.estimate is None:
        raise NothingToDraw(f"the slope is not estimable: {slope.reason or 'there is no reason given'}")
    data = _slope_marks(answers.rename(columns={analyses.score: "score"}), slope)
    words = {"density": dense, "marks": not dense, "answers": counted(len(answers), "answers")}
    return context.worded(
        "length_slope", _draw_slope(data, slope, context, dense=dense), data, words | {"slope": slope.sentence()},
        notes=[captions.capital(slope.sentence()), captions.cut_words(data, context.scale)],
        n=captions.counts(answers, context.repeats), estimates=(slope,),
        missing=captions.missing_words(analyses.runs, answers),
    )  # fmt: skip


def _slope_marks(answers: pd.DataFrame, slope: Estimate) -> pd.DataFrame:
    columns = ["model", "base", "run_id", "length_bin", "output_tokens", "score"]
    points = answers[columns].assign(kind="answer").astype({"length_bin": "string"})
    points = points.sort_values(["model", "base", "output_tokens", "run_id"], kind="stable")
    rise, *ends = (np.nan if value is None else value for value in (slope.estimate, slope.low, slope.high))
    lines = []
    for model, replies in points.groupby("model"):
        tokens, score = replies["output_tokens"].astype(float), float(replies["score"].astype(float).mean())
        # Through the mean, where the band has no width; without that point its edges would be drawn apart.
        for x in (tokens.min(), tokens.mean(), tokens.max()):
            distance = (x - tokens.mean()) / TOKENS
            low, high = sorted(score + distance * end for end in ends)
            lines.append(("slope", model, x, score + distance * rise, low, high))
    columns = ["kind", "model", "output_tokens", "score", "low", "high"]
    rows = pd.concat([points.astype(object), pd.DataFrame(lines, columns=columns, dtype=object)])
    order = ["kind", "model", "base", "run_id", "length_bin", *columns[2:]]
    return rows[order].reset_index(drop=True).astype(dict.fromkeys(columns[2:], "float64"))


def _draw_slope(data: pd.DataFrame, slope: Estimate, context: About, *, dense: bool) -> Figure:
    styles = context.styles(data["model"])
    figure, panels, across = style.grid(len(styles), head=16, tall=52, lone=58, sharex=True, sharey=True)
    names = style.shortened(styles, 44 if across == 1 else 76 // across)
    longest = float(data["output_tokens"].max()) * 1.05 or 1.0
    cells = []
    for number, (axes, (name, look)) in enumerate(zip(panels, styles.items(), strict=True)):
        rows = data[data["model"] == name]
        answers, line = rows[rows["kind"] == "answer"], rows[rows["kind"] == "slope"]
        if dense:
            extent = (0, longest, *context.scale)
            cells.append(style.density(axes, answers["output_tokens"], answers["score"], extent))
        else:
            for _, replies in answers.groupby("base"):
                x, y = replies["output_tokens"], replies["score"]
                axes.plot(x, y, color=style.GREY, linewidth=0.5, alpha=0.6, zorder=1)
            style.scatter(axes, answers["output_tokens"], answers["score"], look, 3.4, 0.75)
        if line["low"].notna().all():
            band = (line["output_tokens"], line["low"], line["high"])
            axes.fill_between(*band, color=style.INK, alpha=0.15, linewidth=0, zorder=3)
        axes.plot(line["output_tokens"], line["score"], color=style.INK, linewidth=1.6, zorder=4)
        axes.set_title(names[name])
        style.score_axis(axes, context.scale, "Composite score" if number % across == 0 else "")
    panels[0].set_xlim(0, longest)
    # The last tick would run into the 0 of the next panel.
    panels[0].xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], prune="upper"))
    if dense:  # one scale for all panels
        most = max(float(np.asarray(cell.get_array()).max()) for cell in cells)
        for cell in cells:
            cell.set_clim(1, max(most, 2.0))
        figure.colorbar(cells[0], ax=panels, label="Answers", aspect=25, ticks=MaxNLocator(4, integer=True))
    figure.supxlabel("Length of the reply (tokens)")
    signed = partial(style.decimals, digits=3, sign=True)
    rise, *ends = map(signed, (e for e in (slope.estimate, slope.low, slope.high) if e is not None))
    label = f"slope {rise} points per {TOKENS:g} tokens"
    label += f" [{', '.join(ends)}]" if ends else ", no interval"
    handles = [] if dense else [style.handle("one base", color=style.GREY, linewidth=0.6)]
    handles.append(style.handle(label, color=style.INK, linewidth=1.6))
    style.legend(figure, handles, columns=1 if across == 1 else 2)
    return style.settle(figure)


def length_information(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw what each step from a shorter prompt to a longer one does, in all and in its two parts."""
    if analyses.runs_with_arms.empty:
        raise NothingToDraw("no prompt of a length arm was asked")
    result = analyses.length_and_information()
    # The sum of a step stands after its parts.
    steps = zip(_TITLES, zip_longest(result.information, result.length, result.total), strict=False)
    parts = [(step, *pair) for step, group in steps for pair in zip(_LOOKS, group, strict=True) if pair[1]]
    estimates = [e for *_, e in parts]
    nothing = "no two bases have the scores of a step"
    data = style.data_of(parts, ("step", "part", "name"), ("p_value", "bases"), nothing=nothing)
    figure, panels = style.panels_of(data.assign(label=data["part"]), "step", 6.0, 8, 16, sharex=True)
    for step, rows, axes in panels:
        style.forest_panel(axes, rows, looks=[_LOOKS[part] for part in rows["part"]])
        axes.set_title(step)
    axes.set_xlabel(_DIFFERENCE)
    return context.worded(
        "length_information", style.settle(figure), data, {},
        [captions.differences_words(estimates)],
        [result.sentence(), captions.notes_words(result.notes)],
        estimates=estimates, missing=captions.unpaired_words(estimates, "of a prompt of a step"),
        counts=captions.estimates_n_words(e for e in estimates if e.estimable),
    )  # fmt: skip

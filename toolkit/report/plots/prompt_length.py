"""What the length of the prompt does: quality of each bin, their equivalence, and the profile of the dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.escape import readable
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.inference.run_table import at_length, in_order
from toolkit.stats.result import Estimate
from toolkit.words import LENGTH_BINS, counted, scale_words

_BINS: Final = tuple(LENGTH_BINS)
_ALL: Final = "all models"
_ROW_MM: Final = 5.2
_LEAST_ROW_MM: Final = 3.4
_HEAD_MM: Final = 5.5
_MODEL_MM: Final = 2.6  # height that the mark of one model takes in a row of the profile
_LEAST_MODEL_MM: Final = 1.5
_BETWEEN_MM: Final = 2.2
_EFFECTS: Final = ("part", "name", "estimate", "low", "high", "p_value", "role", "bases")
_TESTS: Final = ("of", "contrast", "difference", "low", "high", "p_value", "margin", "verdict", "bases")
_PROFILE: Final = ("model", "length_bin", "dimension", "mean", "low", "high", "bases", "answers")


def length_effects(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the differences of the prompt lengths with their intervals, and beside them the means that they are of."""
    comparison = analyses.length()
    parts = [("difference", e) for e in comparison.contrasts] + [("mean", e) for e in comparison.per_bin]
    rows = [(part, e.name, *_numbers(e), e.role, e.n.get("bases")) for part, e in parts if e.estimable]
    numbers = dict.fromkeys(("estimate", "low", "high", "p_value"), "float64")
    data = pd.DataFrame(rows, columns=list(_EFFECTS)).astype(numbers)
    if not (data["part"] == "difference").any():
        raise NothingToDraw("no two prompt lengths have scores of two bases")
    margin = analyses.margin
    figure, cut = _draw_effects(data, margin, context.scale)
    caption = captions.join(
        f"What prompt length does to the composite score ({captions.n_words(context.n)}).",
        "Above: differences within bases; the filled mark is the one confirmatory contrast that the study file names."
        if "confirmatory" in set(data["role"])
        else "Above: differences within bases, all of them exploratory.",
        f"Grey band: the margin of ±{margin:g} score points that counts as equal." if margin else "",
        captions.interval_words(comparison.contrasts),
        f"Below: the mean of each length; these intervals test no difference. {cut}",
        captions.unpaired_words(comparison.contrasts),
        captions.not_estimable_words(estimate for _, estimate in parts if not estimate.estimable),
        _second_composite_words(analyses),
        context.end,
    )
    alt_text = "; ".join(f"{row.name}: {style.decimals(row.estimate)}" for row in style.rows_of(data))
    alt_text = f"Differences and means: {alt_text}."
    return FigureWithCaption(
        "length_effects", figure, caption, alt_text, data, context.n, estimates=comparison.contrasts
    )


def _numbers(estimate: Estimate) -> tuple[float | None, ...]:
    return (estimate.estimate, estimate.low, estimate.high, estimate.p_value)


def _second_composite_words(analyses: Analyses) -> str:
    """Say what the differences of the other composite are, where scores of 0 make it another one."""
    if not (composites := captions.composites_words(analyses)):
        return ""
    differences = (
        f"{contrast.name} {style.decimals(contrast.estimate)}"
        for contrast in analyses.length(analyses.other_score).contrasts
        if contrast.estimate is not None
    )
    return f"{composites} Differences of that one: {', '.join(differences)}."


def _draw_effects(data: pd.DataFrame, margin: float | None, scale: tuple[float, float]) -> tuple[Figure, str]:
    effects, means = (data[data["part"] == part] for part in ("difference", "mean"))
    figure = style.new_figure(style.PAGE_MM, 12 + 8 * len(effects) + 42)
    above, below = figure.subplots(2, 1, height_ratios=(8 * len(effects), 38))
    rows = effects.iloc[::-1]
    if margin:
        above.axvspan(-margin, margin, color=style.GREY, alpha=0.22, linewidth=0, zorder=0)
        style.threshold(above, 0, f"counts as equal: ±{margin:g}")
    above.axvline(0, color=style.GREY, linewidth=0.8, zorder=1)
    style.forest(above, rows, range(len(rows)), style.PLAIN, width=1.6)
    for up, row in enumerate(style.rows_of(rows)):
        if row.role != "confirmatory":
            above.plot(
                [row.estimate], [up], "o", color="white", markeredgecolor=style.INK, markersize=5, zorder=4
            )
        style.beside(above, up, f"{style.interval(row.estimate, row.low, row.high)} {row.role}", 1.015)
    style.row_axis(above, [str(name).replace("-", "−") for name in rows["name"]])
    above.spines["left"].set_visible(False)
    above.set_xlabel("Difference of the mean composite score (points)")
    x = [_BINS.index(name) for name in means["name"]]
    for at, row in zip(x, style.rows_of(means), strict=True):
        if pd.notna(row.low):
            below.plot([at, at], [row.low, row.high], color=style.INK, linewidth=1.6)
    below.plot(x, means["estimate"], "o-", color=style.INK, linewidth=0.8, markersize=5)
    below.set_xticks(x, list(means["name"]))
    below.set_xlim(-0.5, len(_BINS) - 0.5)
    below.set_xlabel("Prompt length")
    below.set_ylabel("Composite score")
    # The axis does not begin at 0: that an effect can be seen is what the panel is for.
    values = means[["estimate", "low", "high"]].to_numpy(dtype=float).ravel()
    cut = style.cut_axis(below, scale, values, max(0.25 * float(np.nanmax(values) - np.nanmin(values)), 0.05))
    return style.settle(figure), cut


def quality_by_length(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean quality of each length bin with its interval, and one thin line for each base.

    The design is paired: S, M and L of one base ask for the same work, so the slope of the thin lines is the
    finding and their height is the difficulty of the base.
    """
    judged = captions.judged_runs(analyses.runs)
    estimates = analyses.length().per_bin
    by_model = {model: comparison.per_bin for model, comparison in analyses.length_by_model().items()}
    n = captions.counts(judged, context.repeats)
    data = _marks(judged.rename(columns={analyses.score: "score"}), estimates, by_model)
    if data.empty:
        raise NothingToDraw("no judged runs")
    figure, cut = _draw_quality(data, context)
    absent = [name for name in _BINS if name not in set(data["length_bin"])]
    several = n["models"] > 1
    model_means = [(f"{e.name} of {model}", e) for model, bins in by_model.items() for e in bins]
    intervals = [*estimates, *(e for _, e in model_means)]
    means = data[data["kind"] == "mean"]
    caption = captions.join(
        f"Quality by prompt length ({captions.n_words(n)}).",
        "Thin grey lines: one base each, the mean of its answers (repeats first, then models).",
        _mixed_words(judged),
        f"{'Black points: mean over bases, of all models' if several else 'Points: mean over bases'}."
        if len(means)
        else "",
        f"Coloured points: mean of each model, with{'' if by_model else 'out'} interval." if several else "",
        captions.interval_words(intervals),
        "They describe single means: they are not corrected for their number and test no difference, because "
        "lengths are compared within bases."
        if data["low"].notna().any()
        else "",
        cut,
        captions.cut_words(data["low"], data["high"], context.scale),
        captions.no_interval_words([*((e.name, e) for e in estimates), *model_means]),
        f"No judged run in bin {', '.join(absent)}." if absent else "",
        captions.not_estimable_words(replace(e, missing=0) for e in estimates if not e.estimable),
        captions.missing_words(analyses.runs, judged),
        f"{captions.zeros_words(judged)}.",
        context.source,
        context.note,
    )
    scores = "; ".join(f"{row.length_bin} {row.score:.2f}" for row in style.rows_of(means)) or "not estimated"
    alt_text = (
        f"Line chart of the composite score from {scale_words(context.scale)} against prompt length S, M and L, one "
        f"line for each of {counted(n['bases'], 'bases')}. Means: {scores}."
    )
    return FigureWithCaption("quality_by_length", figure, caption, alt_text, data, n, estimates=intervals)


def _marks(
    judged: pd.DataFrame, estimates: Iterable[Estimate], by_model: Mapping[str, Iterable[Estimate]]
) -> pd.DataFrame:
    """Return one row for each mark: lines of bases, means of models, means of bins with their interval."""
    keys = ["base", "length_bin"]
    cells = judged.groupby([*keys, "model"], observed=True)["score"].agg(["mean", "size"])
    # Averaged as the means over them are: repeats first, then models.
    means = cells.groupby(level=keys, observed=True).agg({"mean": "mean", "size": "sum"}).reset_index()
    rows: list[dict[str, Any]] = [
        {"kind": "base", "name": str(n), "length_bin": str(b), "score": float(mean), "answers": int(size)}
        for n, b, mean, size in means.itertuples(index=False)
    ]
    named = [("model", name, e) for name, bins in by_model.items() for e in bins]
    rows += [
        {"kind": kind, "name": name, "length_bin": e.name, "score": e.estimate, "low": e.low, "high": e.high,
         "answers": e.n.get("answers")}
        for kind, name, e in [*named, *(("mean", "all", e) for e in estimates)]
        if e.estimable
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["kind", "name", "length_bin", "score", "low", "high", "answers"])


def _mixed_words(judged: pd.DataFrame) -> str:
    """Say how many lines do not rest on the same models at all their points: their slope is not that of length."""
    base_lengths = judged.groupby("base", observed=True)["length_bin"].nunique()
    model_lengths = judged.groupby(["base", "model"], observed=True)["length_bin"].nunique()
    mixed = int((model_lengths.groupby(level="base").min() < base_lengths).sum())
    words = "Lines that do not rest on the same models at every length, because scores are missing"
    return f"{words}: {mixed}." if mixed else ""


def _draw_quality(data: pd.DataFrame, context: About) -> tuple[Figure, str]:
    marks = data.assign(x=data["length_bin"].map({name: float(i) for i, name in enumerate(_BINS)}))
    models, bases = marks[marks["kind"] == "model"], marks[marks["kind"] == "base"]
    styles = context.styles(models["name"])
    several = len(styles) > 1
    # A long name takes a line of the legend for itself.
    stacked = several or any(len(name) > 14 for name in styles)
    columns = 2 if not stacked or len(styles) > style.CROWD else 1
    lines = -(-len(styles) // columns) if stacked else 0
    figure = style.new_figure(
        style.COLUMN_MM if len(styles) <= style.CROWD else style.PAGE_MM, 70 + 4 * lines
    )
    axes = figure.subplots()
    handles, labels = [], style.shortened(styles)
    if not bases.empty:
        thin: dict[str, Any] = {"color": style.GREY, "linewidth": 0.6, "marker": ".", "markersize": 3}
        sns.lineplot(
            data=bases, x="x", y="score", units="name", estimator=None, legend=False, ax=axes,
            markeredgewidth=0, zorder=1, alpha=0.55, **thin,
        )  # fmt: skip
        handles.append(Line2D([], [], **thin, label="one base"))
    means = marks[marks["kind"] == "mean"].sort_values("x")
    if not means.empty:  # several models share black
        model, model_style = next(iter(styles.items())) if len(styles) == 1 else (_ALL, style.PLAIN)
        look: dict[str, Any] = {"color": model_style.color, "marker": model_style.marker, "markersize": 5.5}
        look["linewidth"] = 1.4
        _errorbars(axes, means, 0.0, elinewidth=1.2, capsize=3, zorder=4, **look)
        handles.append(Line2D([], [], **look, label=f"{style.shorten(model, 24)}, mean and interval"))
    for number, (name, model_style) in enumerate(styles.items() if several else ()):
        # Beside the mean of the bin, so that no model hides another one or the interval.
        step = min(0.09, 0.66 / (len(styles) + 1))  # of 1 between two bins: marks stay with their bin
        shift = step * (number - (len(styles) - 1) / 2)
        shift += step if shift >= 0 else -step
        look = {"color": model_style.color, "marker": model_style.marker, "linewidth": 0.8}
        look["linestyle"] = model_style.line
        _errorbars(
            axes, models[models["name"] == name], shift, elinewidth=0.8, markersize=4, zorder=3, **look
        )
        handles.append(Line2D([], [], **look, label=labels[name]))
    ticks = [f"{name}\n{low}–{high}" for name, (low, high) in LENGTH_BINS.items()]
    axes.set_xticks(range(len(_BINS)), ticks)
    axes.set_xlim(-0.5, len(_BINS) - 0.5)
    axes.set_xlabel("Length of the prompt (tokens)")
    axes.set_ylabel(f"Composite score ({scale_words(context.scale, '–')})")
    cut = style.cut_axis(
        axes, context.scale, marks[["score", "low", "high"]].astype(float).to_numpy().ravel(), 0.1
    )
    style.legend(figure, handles, columns=columns)
    return style.settle(figure), cut


def _errorbars(axes: Axes, marks: pd.DataFrame, shift: float, **look: Any) -> None:
    """Draw means with their intervals; without an interval there is no bar."""
    below = (marks["score"] - marks["low"].astype(float)).fillna(0.0)
    above = (marks["high"].astype(float) - marks["score"]).fillna(0.0)
    bars = axes.errorbar(marks["x"] + shift, marks["score"], yerr=[below, above], **look)
    bars.lines[0].set_clip_on(False)  # a mark at 0 or 5 is drawn whole; intervals end with the scale


def equivalence(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the two one-sided tests of each pair of prompt lengths, of all models and of each."""
    margin = analyses.margin
    if margin is None:
        raise NothingToDraw("the study file sets no analysis.equivalence_margin")
    by_model = analyses.length_by_model()
    several = len(by_model) > 1
    first = _ALL if several or not by_model else next(iter(by_model))
    tests = [(first, test) for test in analyses.length().equivalence]
    if several:
        tests += [(model, test) for model, result in by_model.items() for test in result.equivalence]
    rows = [
        (
            model,
            test.name,
            *_numbers(test),
            margin,
            test.facets.get("verdict", "not tested"),
            captions.units(test),
        )
        for model, test in tests
        if test.estimable
    ]
    numbers = dict.fromkeys(("difference", "low", "high", "p_value"), "float64")
    data = pd.DataFrame(rows, columns=list(_TESTS)).astype(numbers)
    if data.empty:
        raise NothingToDraw("no two prompt lengths have scores of two bases")
    figure, reach = _draw_equivalence(data, margin, context)
    estimates = [test for _, test in tests]
    corrections = sorted({test.correction for test in estimates if test.correction != "none"})
    caption = captions.join(
        f"Equivalence of prompt lengths ({captions.n_words(context.n)}; each pair of lengths: "
        f"{captions.ranges_words(test for test in estimates if test.estimable)}): differences of "
        f"the composite score within bases, and the margin of ±{margin:g} score points that the study file fixed "
        "before there was a score (grey band).",
        captions.interval_words(estimates),
        "Two lengths are equivalent where both one-sided tests reject at .05"
        + (f", P values corrected by {'; '.join(corrections)}" if corrections else "")
        + "; without the correction that is where the interval lies within the band. Equivalence that is not shown is "
        "no proof of a difference.",
        f"Tests of {_ALL} and of each model are corrected apart." if data["of"].nunique() > 1 else "",
        f"The axis shows ±{reach:.2g} of the ±{context.scale[1] - context.scale[0]:g} points that are possible.",
        captions.unpaired_words(estimates),
        captions.not_estimable_words(
            replace(test, name=f"{test.name} of {model}", missing=0)
            for model, test in tests
            if not test.estimable
        ),
        captions.no_interval_words((f"{test.name} of {model}", test) for model, test in tests),
        context.end,
    )
    verdicts = "; ".join(
        f"{row.of}, {row.contrast}: {style.decimals(row.difference)}, {row.verdict}"
        for row in style.rows_of(data)
    )
    alt_text = f"Differences with intervals against a band of ±{margin:g} score points: {verdicts}."
    return FigureWithCaption("equivalence", figure, caption, alt_text, data, context.n, estimates=estimates)


def _draw_equivalence(data: pd.DataFrame, margin: float, context: About) -> tuple[Figure, float]:
    groups = list(dict.fromkeys(data["of"]))
    styles = context.styles(name for name in groups if name in context.models)
    counts = [int((data["of"] == name).sum()) for name in groups]
    # Many models stand closer, so that the figure keeps its 8 pt on one page.
    height = (style.PAGE_HIGH_MM - 12 - _HEAD_MM * len(groups)) / sum(counts)
    height = min(_ROW_MM, max(height, _LEAST_ROW_MM))
    head = 8 if height == _ROW_MM else _HEAD_MM
    figure = style.new_figure(style.PAGE_MM, height * sum(counts) + head * len(groups) + 12)
    panels = figure.subplots(len(groups), 1, squeeze=False, sharex=True, height_ratios=counts)[:, 0]
    reach = 1.12 * max(1.3 * margin, float(data[["difference", "low", "high"]].abs().max().max()))
    heads = style.shortened(groups, 60)
    for axes, name in zip(panels, groups, strict=True):
        tests = data[data["of"] == name].iloc[::-1]
        axes.axvspan(-margin, margin, color=style.GREY, alpha=0.22, linewidth=0, zorder=0)
        for edge in (-margin, margin):
            axes.axvline(edge, color=style.GREY, linewidth=0.8, linestyle="--", zorder=1)
            style.threshold(axes, edge, f"{'+' * (edge > 0)}{style.decimals(edge)}")
        axes.axvline(0, color=style.GREY, linewidth=0.6, zorder=1)
        look = styles.get(name, style.PLAIN)
        style.forest(
            axes, tests.rename(columns={"difference": "estimate"}), range(len(tests)), look, width=1.6
        )
        for up, row in enumerate(style.rows_of(tests)):
            style.beside(
                axes, up, f"{row.verdict}: {style.interval(row.difference, row.low, row.high)}", 1.015
            )
        style.row_axis(axes, [str(contrast).replace("-", "−") for contrast in tests["contrast"]])
        axes.spines["left"].set_visible(False)
        axes.set_title(heads[name], loc="left", fontweight="bold")
        axes.set_xlim(-reach, reach)
    panels[-1].set_xlabel("Difference of the mean composite score (points)")
    return style.settle(figure), reach


def dimension_profile(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean of each dimension with its interval: a panel for each prompt length, a mark for each model."""
    cells = analyses.dimension_profile().means
    rows = [
        (cell.model, cell.length_bin, cell.dimension, cell.mean.estimate, cell.mean.low, cell.mean.high,
         captions.units(cell.mean), cell.mean.n["answers"])
        for cell in cells
        if cell.mean.estimable
    ]  # fmt: skip
    data = pd.DataFrame(rows, columns=list(_PROFILE)).astype({"low": "float64", "high": "float64"})
    if data.empty:
        raise NothingToDraw("no judged runs")
    means = [cell.mean for cell in cells]
    lengths = " at one prompt length (S, M, L)" if analyses.answers("length") else ""
    caption = captions.join(
        f"Profile of the dimensions ({captions.n_words(context.n)}).",
        f"Each mark is the mean of one model{lengths} over bases, repeats averaged first; bars are intervals.",
        captions.interval_words(means),
        "The intervals describe single means: they are not corrected for their number and test no difference.",
        captions.cut_words(data["low"], data["high"], context.scale),
        captions.no_interval_words((mean.name, mean) for mean in means),
        captions.not_estimable_words(means),
        captions.join(context.missing, context.source, context.note),  # of no composite
    )
    marks = "; ".join(
        f"{at_length(row.model, row.length_bin)} {row.dimension} {row.mean:.2f}"
        for row in style.rows_of(data)
    )
    scale = scale_words(context.scale)
    alt_text = f"Marks with intervals on a scale from {scale}, one row for each dimension: {marks}."
    figure = _draw_profile(data, context)
    return FigureWithCaption("dimension_profile", figure, caption, alt_text, data, context.n, estimates=means)


def _draw_profile(data: pd.DataFrame, context: About) -> Figure:
    styles = context.styles(data["model"])
    bins = in_order(data["length_bin"])
    dimensions = list(dict.fromkeys(data["dimension"]))[::-1]
    columns = 1 if len(styles) <= style.CROWD else 2
    head = 18 + 4.2 * -(-len(styles) // columns) * (len(styles) > 1)
    # Many models stand closer, so that the figure keeps its 8 pt on one page.
    height = ((style.PAGE_HIGH_MM - head) / len(dimensions) - _BETWEEN_MM) / len(styles)
    height = min(_MODEL_MM, max(height, _LEAST_MODEL_MM))
    row_height = height * len(styles) + _BETWEEN_MM
    figure = style.new_figure(style.PAGE_MM, row_height * len(dimensions) + head)
    panels = figure.subplots(1, len(bins), squeeze=False, sharey=True)[0]
    step = height / row_height
    for axes, name in zip(panels, bins, strict=True):
        for number, (model, look) in enumerate(styles.items()):
            marks = data[(data["length_bin"] == name) & (data["model"] == model)]
            marks = marks.rename(columns={"mean": "estimate"})
            shift = ((len(styles) - 1) / 2 - number) * step
            up = [dimensions.index(dimension) + shift for dimension in marks["dimension"]]
            style.forest(axes, marks, up, look, size=4.2, clip=False)
        for row in range(1, len(dimensions)):
            axes.axhline(row - 0.5, color=style.GREY, linewidth=0.3, zorder=0)
        axes.grid(visible=True, axis="x", linewidth=0.4, color=style.GREY, alpha=0.4)
        axes.tick_params(axis="y", length=0)
        if name in LENGTH_BINS:
            axes.set_title("{}: {}–{} tokens".format(name, *LENGTH_BINS[name]))
        style.score_axis(axes, context.scale, "Mean score" if name == bins[len(bins) // 2] else "", which="x")
    style.row_axis(panels[0], list(map(readable, dimensions)), (-0.5, len(dimensions) - 0.5))
    if len(styles) > 1:
        style.legend(figure, style.model_handles(styles, 60 // columns + 10), columns=columns)
    return style.settle(figure)

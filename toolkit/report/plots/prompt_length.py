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
from toolkit.words import LENGTH_BINS, counted, scale, scale_words

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


def length_effects(of: Analyses, about: About) -> FigureWithCaption:
    """Draw the differences of the prompt lengths with their intervals, and beside them the means that they are of."""
    found = of.length()
    parts = [("difference", one) for one in found.contrasts] + [("mean", one) for one in found.per_bin]
    rows = [
        (part, one.name, *_numbers(one), captions.role_words(one), one.n.get("bases"))
        for part, one in parts
        if one.estimable
    ]
    numbers = dict.fromkeys(("estimate", "low", "high", "p_value"), "float64")
    data = pd.DataFrame(rows, columns=list(_EFFECTS)).astype(numbers)
    if not (data["part"] == "difference").any():
        raise NothingToDraw("no two prompt lengths have scores of two bases")
    figure, cut = _draw_effects(data, of.margin)
    caption = captions.join(
        f"What prompt length does to the composite score ({captions.n_words(about.n)}).",
        "Above: differences within bases; the filled mark is the one confirmatory contrast that the study file names."
        if "confirmatory" in set(data["role"])
        else "Above: differences within bases, all of them exploratory.",
        f"Grey band: the margin of ±{of.margin:g} score points that counts as equal." if of.margin else "",
        captions.interval_words(found.contrasts),
        f"Below: the mean of each length; these intervals test no difference. {cut}",
        captions.unpaired_words(found.contrasts),
        captions.not_estimable_words(one for _, one in parts if not one.estimable),
        _other_words(of),
        about.end,
    )
    said = "; ".join(f"{row.name}: {style.decimals(row.estimate)}" for row in style.rows_of(data))
    return FigureWithCaption(
        "length_effects", figure, caption, f"Differences and means: {said}.", data, about.n
    )


def _numbers(one: Estimate) -> tuple[float | None, ...]:
    return (one.estimate, one.low, one.high, one.p_value)


def _verdict(one: Estimate) -> str:
    return "not tested" if one.p_value is None else one.remarks.partition(":")[0]


def _other_words(of: Analyses) -> str:
    """Say what the differences of the other composite are, where scores of 0 make it another one."""
    if not (which := captions.composites_words(of)):
        return ""
    differences = (
        f"{one.name} {style.decimals(one.estimate)}"
        for one in of.length(of.other_score).contrasts
        if one.estimate is not None
    )
    return f"{which} Differences of that one: {', '.join(differences)}."


def _draw_effects(data: pd.DataFrame, margin: float | None) -> tuple[Figure, str]:
    effects, means = (data[data["part"] == part] for part in ("difference", "mean"))
    figure = style.new_figure(style.PAGE_MM, 12 + 8 * len(effects) + 42)
    above, below = figure.subplots(2, 1, height_ratios=(8 * len(effects), 38))
    shown = effects.iloc[::-1]
    if margin:
        above.axvspan(-margin, margin, color=style.GREY, alpha=0.22, linewidth=0, zorder=0)
        style.threshold(above, 0, f"counts as equal: ±{margin:g}")
    above.axvline(0, color=style.GREY, linewidth=0.8, zorder=1)
    style.forest(above, shown, range(len(shown)), style.ModelStyle(style.INK, "o", "-"), width=1.6)
    for up, one in enumerate(style.rows_of(shown)):
        if one.role != "confirmatory":
            above.plot(
                [one.estimate], [up], "o", color="white", markeredgecolor=style.INK, markersize=5, zorder=4
            )
        style.beside(above, up, f"{style.interval(one.estimate, one.low, one.high)} {one.role}", 1.015)
    style.row_axis(above, [str(name).replace("-", "−") for name in shown["name"]])
    above.spines["left"].set_visible(False)
    above.set_xlabel("Difference of the mean composite score (points)")
    spots = [_BINS.index(name) for name in means["name"]]
    for at, one in zip(spots, style.rows_of(means), strict=True):
        if pd.notna(one.low):
            below.plot([at, at], [one.low, one.high], color=style.INK, linewidth=1.6)
    below.plot(spots, means["estimate"], "o-", color=style.INK, linewidth=0.8, markersize=5)
    below.set_xticks(spots, list(means["name"]))
    below.set_xlim(-0.5, len(_BINS) - 0.5)
    below.set_xlabel("Prompt length")
    below.set_ylabel("Composite score")
    # The axis does not begin at 0: that an effect can be seen is what the panel is for.
    values = means[["estimate", "low", "high"]].to_numpy(dtype=float).ravel()
    cut = style.cut_axis(below, values, max(0.25 * float(np.nanmax(values) - np.nanmin(values)), 0.05))
    return style.settle(figure), cut


def quality_by_length(of: Analyses, about: About) -> FigureWithCaption:
    """Draw the mean quality of each length bin with its interval, and one thin line for each base.

    The design is paired: S, M and L of one base ask for the same work, so the slope of the thin lines is the
    finding and their height is the difficulty of the base.
    """
    judged = captions.judged_runs(of.runs)
    estimates = of.length().per_bin
    own = {name: one.per_bin for name, one in of.length_by_model().items()}
    n = captions.counts(judged, about.repeats)
    data = _marks(judged.rename(columns={of.score: "score"}), estimates, own)
    if data.empty:
        raise NothingToDraw("no judged runs")
    figure, cut = _draw_quality(data, about)
    absent = [name for name in _BINS if name not in set(data["length_bin"])]
    several = n["models"] > 1
    kinds = set(data["kind"])
    of_models = [(f"{e.name} of {model}", e) for model, bins in own.items() for e in bins]
    caption = captions.join(
        f"Quality by prompt length ({captions.n_words(n)}).",
        "Thin grey lines: one base each, the mean of its answers (repeats first, then models).",
        _mixed_words(judged),
        f"{'Black points: mean over bases, of all models' if several else 'Points: mean over bases'}."
        if "mean" in kinds
        else "",
        f"Coloured points: mean of each model, with{'' if own else 'out'} interval." if several else "",
        captions.interval_words([*estimates, *(e for _, e in of_models)]),
        "They describe single means: they are not corrected for their number and test no difference, because "
        "lengths are compared within bases."
        if data["low"].notna().any()
        else "",
        cut,
        captions.cut_words(data["low"], data["high"]),
        captions.no_interval_words([*((e.name, e) for e in estimates), *of_models]),
        f"No judged run in bin {', '.join(absent)}." if absent else "",
        captions.not_estimable_words(replace(e, missing=0) for e in estimates if not e.estimable),
        captions.missing_words(of.runs, judged),
        f"{captions.zeros_words(judged)}.",
        about.source,
        about.note,
    )
    means = data[data["kind"] == "mean"]
    said = "; ".join(f"{row.length_bin} {row.score:.2f}" for row in style.rows_of(means)) or "not estimated"
    alt_text = (
        f"Line chart of the composite score from {scale_words()} against prompt length S, M and L, one line for each "
        f"of {counted(n['bases'], 'bases')}. Means: {said}."
    )
    return FigureWithCaption("quality_by_length", figure, caption, alt_text, data, n)


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
    of_base = judged.groupby("base", observed=True)["length_bin"].nunique()
    of_model = judged.groupby(["base", "model"], observed=True)["length_bin"].nunique()
    mixed = int((of_model.groupby(level="base").min() < of_base).sum())
    words = "Lines that do not rest on the same models at every length, because scores are missing"
    return f"{words}: {mixed}." if mixed else ""


def _draw_quality(data: pd.DataFrame, about: About) -> tuple[Figure, str]:
    placed = data.assign(x=data["length_bin"].map({name: float(i) for i, name in enumerate(_BINS)}))
    models, bases = placed[placed["kind"] == "model"], placed[placed["kind"] == "base"]
    styles = about.styles(models["name"])
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
    means = placed[placed["kind"] == "mean"].sort_values("x")
    if not means.empty:  # several models share black
        only = next(iter(styles.values())) if len(styles) == 1 else style.ModelStyle(style.INK, "o", "-")
        whose = style.shorten(next(iter(styles)), 24) if len(styles) == 1 else _ALL
        look: dict[str, Any] = {"color": only.color, "marker": only.marker, "markersize": 5.5}
        look["linewidth"] = 1.4
        _errorbars(axes, means, 0.0, elinewidth=1.2, capsize=3, zorder=4, **look)
        handles.append(Line2D([], [], **look, label=f"{whose}, mean and interval"))
    for place, (name, own) in enumerate(styles.items() if several else ()):
        # Beside the mean of the bin, so that no model hides another one or the interval.
        apart = min(0.09, 0.66 / (len(styles) + 1))  # of 1 between two bins: marks stay with their bin
        shift = apart * (place - (len(styles) - 1) / 2)
        shift += apart if shift >= 0 else -apart
        look = {"color": own.color, "marker": own.marker, "linestyle": own.line, "linewidth": 0.8}
        _errorbars(
            axes, models[models["name"] == name], shift, elinewidth=0.8, markersize=4, zorder=3, **look
        )
        handles.append(Line2D([], [], **look, label=labels[name]))
    ticks = [f"{name}\n{low}–{high}" for name, (low, high) in LENGTH_BINS.items()]
    axes.set_xticks(range(len(_BINS)), ticks)
    axes.set_xlim(-0.5, len(_BINS) - 0.5)
    axes.set_xlabel("Length of the prompt (tokens)")
    axes.set_ylabel(f"Composite score ({scale_words('–')})")
    cut = style.cut_axis(axes, placed[["score", "low", "high"]].astype(float).to_numpy().ravel(), 0.1)
    style.legend(figure, handles, columns=columns)
    return style.settle(figure), cut


def _errorbars(axes: Axes, marks: pd.DataFrame, shift: float, **look: Any) -> None:
    """Draw means with their intervals; without an interval there is no bar."""
    below = (marks["score"] - marks["low"].astype(float)).fillna(0.0)
    above = (marks["high"].astype(float) - marks["score"]).fillna(0.0)
    bars = axes.errorbar(marks["x"] + shift, marks["score"], yerr=[below, above], **look)
    bars.lines[0].set_clip_on(False)  # a mark at 0 or 5 is drawn whole; intervals end with the scale


def equivalence(of: Analyses, about: About) -> FigureWithCaption:
    """Draw the two one-sided tests of each pair of prompt lengths, of all models and of each."""
    margin = of.margin
    if margin is None:
        raise NothingToDraw("the study file sets no analysis.equivalence_margin")
    by_model = of.length_by_model()
    several = len(by_model) > 1
    only = _ALL if several or not by_model else next(iter(by_model))
    tests = [(only, one) for one in of.length().equivalence]
    tests += [(m, one) for m, found in by_model.items() for one in found.equivalence] if several else []
    rows = [
        (of, one.name, *_numbers(one), margin, _verdict(one), captions.units(one))
        for of, one in tests
        if one.estimable
    ]
    numbers = dict.fromkeys(("difference", "low", "high", "p_value"), "float64")
    data = pd.DataFrame(rows, columns=list(_TESTS)).astype(numbers)
    if data.empty:
        raise NothingToDraw("no two prompt lengths have scores of two bases")
    figure, reach = _draw_equivalence(data, margin, about)
    found = [one for _, one in tests]
    corrections = sorted({one.correction for one in found if one.correction != "none"})
    paired = captions.estimates_n_words(one for one in found if one.estimable).removeprefix("n = ")
    caption = captions.join(
        f"Equivalence of prompt lengths ({captions.n_words(about.n)}; each pair of lengths: {paired}): differences of "
        f"the composite score within bases, and the margin of ±{margin:g} score points that the study file fixed "
        "before there was a score (grey band).",
        captions.interval_words(found),
        "Two lengths are equivalent where both one-sided tests reject at .05"
        + (f", P values corrected by {'; '.join(corrections)}" if corrections else "")
        + "; without the correction that is where the interval lies within the band. Equivalence that is not shown is "
        "no proof of a difference.",
        f"Tests of {_ALL} and of each model are corrected apart." if data["of"].nunique() > 1 else "",
        f"The axis shows ±{reach:.2g} of the ±{scale()[1] - scale()[0]:g} points that are possible.",
        captions.unpaired_words(found),
        captions.not_estimable_words(
            replace(one, name=f"{one.name} of {of}", missing=0) for of, one in tests if not one.estimable
        ),
        captions.no_interval_words((f"{one.name} of {of}", one) for of, one in tests),
        about.end,
    )
    said = "; ".join(
        f"{row.of}, {row.contrast}: {style.decimals(row.difference)}, {row.verdict}"
        for row in style.rows_of(data)
    )
    alt_text = f"Differences with intervals against a band of ±{margin:g} score points: {said}."
    return FigureWithCaption("equivalence", figure, caption, alt_text, data, about.n)


def _draw_equivalence(data: pd.DataFrame, margin: float, about: About) -> tuple[Figure, float]:
    groups = list(dict.fromkeys(data["of"]))
    styles = about.styles(name for name in groups if name in about.models)
    counts = [int((data["of"] == name).sum()) for name in groups]
    # Many models stand closer, so that the figure keeps its 8 pt on one page.
    room = (style.PAGE_HIGH_MM - 12 - _HEAD_MM * len(groups)) / sum(counts)
    row = min(_ROW_MM, max(room, _LEAST_ROW_MM))
    figure = style.new_figure(
        style.PAGE_MM, row * sum(counts) + (8 if row == _ROW_MM else _HEAD_MM) * len(groups) + 12
    )
    panels = figure.subplots(len(groups), 1, squeeze=False, sharex=True, height_ratios=counts)[:, 0]
    reach = 1.12 * max(1.3 * margin, float(data[["difference", "low", "high"]].abs().max().max()))
    heads = style.shortened(groups, 60)
    for axes, name in zip(panels, groups, strict=True):
        own = data[data["of"] == name].iloc[::-1]
        axes.axvspan(-margin, margin, color=style.GREY, alpha=0.22, linewidth=0, zorder=0)
        for edge in (-margin, margin):
            axes.axvline(edge, color=style.GREY, linewidth=0.8, linestyle="--", zorder=1)
            style.threshold(axes, edge, f"{'+' * (edge > 0)}{style.decimals(edge)}")
        axes.axvline(0, color=style.GREY, linewidth=0.6, zorder=1)
        look = styles.get(name, style.ModelStyle(style.INK, "o", "-"))
        style.forest(axes, own.rename(columns={"difference": "estimate"}), range(len(own)), look, width=1.6)
        for up, one in enumerate(style.rows_of(own)):
            told = style.interval(one.difference, one.low, one.high)
            style.beside(axes, up, f"{one.verdict}: {told}", 1.015)
        style.row_axis(axes, [str(contrast).replace("-", "−") for contrast in own["contrast"]])
        axes.spines["left"].set_visible(False)
        axes.set_title(heads[name], loc="left", fontweight="bold")
        axes.set_xlim(-reach, reach)
    panels[-1].set_xlabel("Difference of the mean composite score (points)")
    return style.settle(figure), reach


def dimension_profile(of: Analyses, about: About) -> FigureWithCaption:
    """Draw the mean of each dimension with its interval: a panel for each prompt length, a mark for each model."""
    found = of.dimension_profile().means
    rows = [
        (one.model, one.length_bin, one.dimension, one.mean.estimate, one.mean.low, one.mean.high,
         captions.units(one.mean), one.mean.n["answers"])
        for one in found
        if one.mean.estimable
    ]  # fmt: skip
    data = pd.DataFrame(rows, columns=list(_PROFILE)).astype({"low": "float64", "high": "float64"})
    if data.empty:
        raise NothingToDraw("no judged runs")
    means = [one.mean for one in found]
    at = " at one prompt length (S, M, L)" if of.answers("length") else ""
    caption = captions.join(
        f"Profile of the dimensions ({captions.n_words(about.n)}).",
        f"Each mark is the mean of one model{at} over bases, repeats averaged first; bars are intervals.",
        captions.interval_words(means),
        "The intervals describe single means: they are not corrected for their number and test no difference.",
        captions.cut_words(data["low"], data["high"]),
        captions.no_interval_words((one.name, one) for one in means),
        captions.not_estimable_words(means),
        captions.join(about.missing, about.source, about.note),  # of no composite
    )
    said = "; ".join(
        f"{at_length(row.model, row.length_bin)} {row.dimension} {row.mean:.2f}"
        for row in style.rows_of(data)
    )
    alt_text = f"Marks with intervals on a scale from {scale_words()}, one row for each dimension: {said}."
    figure = _draw_profile(data, about)
    return FigureWithCaption("dimension_profile", figure, caption, alt_text, data, about.n)


def _draw_profile(data: pd.DataFrame, about: About) -> Figure:
    styles = about.styles(data["model"])
    bins = in_order(data["length_bin"])
    dimensions = list(dict.fromkeys(data["dimension"]))[::-1]
    columns = 1 if len(styles) <= style.CROWD else 2
    head = 18 + 4.2 * -(-len(styles) // columns) * (len(styles) > 1)
    # Many models stand closer, so that the figure keeps its 8 pt on one page.
    room = ((style.PAGE_HIGH_MM - head) / len(dimensions) - _BETWEEN_MM) / len(styles)
    each = min(_MODEL_MM, max(room, _LEAST_MODEL_MM))
    figure = style.new_figure(style.PAGE_MM, (each * len(styles) + _BETWEEN_MM) * len(dimensions) + head)
    panels = figure.subplots(1, len(bins), squeeze=False, sharey=True)[0]
    apart = each / (each * len(styles) + _BETWEEN_MM)
    for axes, name in zip(panels, bins, strict=True):
        for number, (model, look) in enumerate(styles.items()):
            own = data[(data["length_bin"] == name) & (data["model"] == model)]
            own = own.rename(columns={"mean": "estimate"})
            shift = ((len(styles) - 1) / 2 - number) * apart
            up = [dimensions.index(one) + shift for one in own["dimension"]]
            style.forest(axes, own, up, look, size=4.2, clip=False)
        for between in range(1, len(dimensions)):
            axes.axhline(between - 0.5, color=style.GREY, linewidth=0.3, zorder=0)
        axes.grid(visible=True, axis="x", linewidth=0.4, color=style.GREY, alpha=0.4)
        axes.tick_params(axis="y", length=0)
        if name in LENGTH_BINS:
            axes.set_title("{}: {}–{} tokens".format(name, *LENGTH_BINS[name]))
        style.score_axis(axes, "Mean score" if name == bins[len(bins) // 2] else "", which="x")
    style.row_axis(panels[0], list(map(readable, dimensions)), (-0.5, len(dimensions) - 0.5))
    if len(styles) > 1:
        style.legend(figure, style.model_handles(styles, 60 // columns + 10), columns=columns)
    return style.settle(figure)

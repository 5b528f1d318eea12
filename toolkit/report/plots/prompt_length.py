"""What lengths do: of the prompt to quality, equivalence and profile of the dimensions, of the reply to its score."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from toolkit.analyses.answers import Analyses
from toolkit.report import captions, style
from toolkit.report.escape import readable
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.inference.run_table import at_length, in_order
from toolkit.stats.prompt_length.information import TOKENS
from toolkit.stats.result import Estimate, Result
from toolkit.words import LENGTH_BINS, counted, scale_words

_BINS = tuple(LENGTH_BINS)
_ALL = "all models"
_ROW_MM = 5.2
_LEAST_ROW_MM = 3.4
_HEAD_MM = 5.5
_MODEL_MM = 2.6  # height that the mark of one model takes in a row of the profile
_LEAST_MODEL_MM = 1.5
_BETWEEN_MM = 2.2
_MARKS = ("kind", "of", "name", "estimate", "low", "high", "answers")
_EFFECTS = ("part", "name", "estimate", "low", "high", "p_value", "role", "bases")
_TESTS = ("of", "name", "estimate", "low", "high", "p_value", "margin", "verdict", "bases")
_SLOPE = ("kind", "model", "base", "run_id", "length_bin", "output_tokens", "score", "low", "high")
_PROFILE = ("model", "length_bin", "dimension", "estimate", "low", "high", "bases", "answers")
_STEPS = ("step", "part", "name", "estimate", "low", "high", "p_value", "bases")
_LOOKS = {
    "information": style.ModelStyle(style.PALETTE[0], "s", "-"),
    "length": style.ModelStyle(style.PALETTE[3], "^", "-"),
    "both": style.PLAIN,
}
_TITLES = ("From S to M", "From S to L", "From S as long as M to L, by way of L as short as M")


def length_effects(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the differences of the prompt lengths with their intervals, and beside them the means that they are of."""
    comparison, text = analyses.length(), captions.TEXTS["length_effects"]
    parts = [("difference", e) for e in comparison.contrasts] + [("mean", e) for e in comparison.per_bin]
    data = style.data_of(parts, _EFFECTS)
    if not (data["part"] == "difference").any():
        raise NothingToDraw("no two prompt lengths have scores of two bases")
    margin = analyses.margin
    figure, cut = _draw_effects(data, margin, context.scale)
    values = style.values_of(data)
    role = "named" if "confirmatory" in set(data["role"]) else "exploratory"
    second = captions.composites_words(analyses)  # where scores of 0 make it another one
    if second:
        others = analyses.length(analyses.other_score).contrasts
        amounts = (f"{e.name} {style.decimals(e.estimate)}" for e in others if e.estimate is not None)
        second += f" Differences of that one: {', '.join(amounts)}."
    words = {"values": values, "lengths": context.lengths, "role": text[role], "margin": ""}
    words |= {"margin": text["margin"].format(margin=margin)} if margin else {}
    return context.worded(
        "length_effects", figure, data, words, [cut], [second],
        estimates=[estimate for _, estimate in parts], also=[captions.unpaired_words(comparison.contrasts)],
    )  # fmt: skip


def _draw_effects(data: pd.DataFrame, margin: float | None, scale: tuple[float, float]) -> tuple[Figure, str]:
    effects, means = (data[data["part"] == part] for part in ("difference", "mean"))
    heights = (8 * len(effects), 38)
    figure, (above, below) = style.stacked(heights, 1, 16)
    texts = [f"{style.interval(row)} {row.role}" for row in style.rows_of(effects)]
    names = effects["name"].str.replace("-", "−")
    hollow = list(effects["role"] != "confirmatory")
    label = "Difference of the mean composite score (points)"
    style.forest_panel(above, effects, names, label, texts=texts, hollow=hollow)
    if margin:
        above.axvspan(-margin, margin, color=style.GREY, alpha=0.22, linewidth=0, zorder=0)
        style.threshold(above, 0, f"counts as equal: ±{margin:g}")
    x = means["name"].map(_BINS.index)
    below.vlines(x, means["low"], means["high"], color=style.INK, linewidth=1.6)
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
    """Draw the mean quality of each length bin with its interval; a thin line joins each base, for bins are paired."""
    judged, text = captions.judged_runs(analyses.runs), captions.TEXTS["quality_by_length"]
    estimates = analyses.length().per_bin
    by_model = {model: comparison.per_bin for model, comparison in analyses.length_by_model().items()}
    n = captions.counts(judged, context.repeats)
    data = _marks(judged.rename(columns={analyses.score: "score"}), estimates, by_model)
    if data.empty:
        raise NothingToDraw("no judged runs")
    crowded = n["bases"] > style.MANY_BASES
    figure, cut = _draw_quality(data, context, crowded=crowded)
    absent = [name for name in _BINS if name in set(analyses.runs["length_bin"]) - set(data["length_bin"])]
    several, means = n["models"] > 1, data[data["kind"] == "mean"]
    # Lines that do not rest on the same models at all their points: their slope is not that of length.
    base_lengths = judged.groupby("base", observed=True)["length_bin"].nunique()
    model_lengths = judged.groupby(["base", "model"], observed=True)["length_bin"].nunique()
    mixed = int((model_lengths.groupby(level="base").min() < base_lengths).sum())
    model_means = [(f"{e.name} of {model}", e) for model, bins in by_model.items() for e in bins]
    intervals = [*estimates, *(replace(e, name=name) for name, e in model_means)]
    scores = "; ".join(f"{row.length_bin} {row.score:.2f}" for row in style.rows_of(means)) or "not estimated"
    bases, scale = counted(n["bases"], "bases"), scale_words(context.scale)
    black = "black points the mean of all models" if several else "points the mean"
    coloured = text["coloured"].format(without="" if by_model else ", without interval") if several else ""
    marked = text["means"].format(black=black, coloured=coloured) if len(means) else coloured
    words = {"scale": scale, "of": bases, "scores": scores, "bases": text["bands" if crowded else "lines"]}
    return context.worded(
        "quality_by_length", figure, data, words | {"means": marked},
        [data["low"].notna().any() and text["intervals"], cut],
        [
            text["base"].format(averaged=text["averaged"] if several and n["repeats"] > 1 else ""),
            mixed and not crowded and text["mixed"].format(count=mixed),
            captions.cut_words(data, context.scale),
        ],
        n=n, estimates=intervals, also=[absent and f"no judged run of length {', '.join(absent)}"],
    )  # fmt: skip


def _marks(
    judged: pd.DataFrame, estimates: Iterable[Estimate], by_model: Mapping[str, Iterable[Estimate]]
) -> pd.DataFrame:
    """Return one row for each mark: lines of bases, means of models, means of bins with their interval."""
    keys = ["base", "length_bin"]
    cells = judged.groupby([*keys, "model"], observed=True)["score"].agg(["mean", "size"])
    # Averaged as the means over them are: repeats first, then models.
    means = cells.groupby(level=keys, observed=True).agg({"mean": "mean", "size": "sum"}).reset_index()
    bases = [
        ("base", str(n), Estimate(str(b), mean, n={"answers": size}))
        for n, b, mean, size in means.itertuples(index=False)
    ]
    named = [("model", name, e) for name, bins in by_model.items() for e in bins]
    marks = style.data_of([*bases, *named, *(("mean", "all", e) for e in estimates)], _MARKS)
    return marks.set_axis(["kind", "name", "length_bin", "score", *_MARKS[4:]], axis=1)


def _draw_quality(data: pd.DataFrame, context: About, *, crowded: bool) -> tuple[Figure, str]:
    marks = data.assign(x=data["length_bin"].map({name: float(i) for i, name in enumerate(_BINS)}))
    models, bases = marks[marks["kind"] == "model"], marks[marks["kind"] == "base"]
    styles = context.styles(models["name"])
    several = len(styles) > 1
    # A long name takes a line of the legend for itself.
    stacked = several or any(len(name) > 14 for name in styles)
    columns = 2 if not stacked or len(styles) > style.CROWD else 1
    lines = -(-len(styles) // columns) if stacked else 0
    width = style.COLUMN_MM if len(styles) <= style.CROWD else style.PAGE_MM
    figure = style.new_figure(width, 70 + 4 * lines)
    axes = figure.subplots()
    handles: list[Artist] = []
    labels = style.shortened(styles)
    drawn = marks
    if crowded:
        shares = bases.groupby("x")["score"].quantile(np.array([0.05, 0.25, 0.75, 0.95])).unstack()
        shade: dict[str, Any] = {"color": style.GREY, "alpha": 0.18, "linewidth": 0}
        for low, high in ((0.05, 0.95), (0.25, 0.75)):
            axes.fill_between(shares.index, shares[low], shares[high], zorder=1, **shade)
        handles.append(Patch(label="bases: 90%; darker: half", **shade))
        drawn = pd.concat([marks[marks["kind"] != "base"], shares.melt(value_name="score")])
    elif not bases.empty:
        thin: dict[str, Any] = {"color": style.GREY, "linewidth": 0.6, "marker": ".", "markersize": 3}
        sns.lineplot(
            data=bases, x="x", y="score", units="name", estimator=None, legend=False, ax=axes,
            markeredgewidth=0, zorder=1, alpha=0.55, **thin,
        )  # fmt: skip
        handles.append(style.handle("one base", **thin))
    means = marks[marks["kind"] == "mean"].sort_values("x")
    if not means.empty:  # several models share black
        model, model_style = next(iter(styles.items())) if len(styles) == 1 else (_ALL, style.PLAIN)
        look: dict[str, Any] = {"color": model_style.color, "marker": model_style.marker, "markersize": 5.5}
        look["linewidth"] = 1.4
        _errorbars(axes, means, 0.0, elinewidth=1.2, capsize=3, zorder=4, **look)
        handles.append(style.handle(f"{style.shorten(model, 24)}, mean and interval", **look))
    for number, (name, model_style) in enumerate(styles.items() if several else ()):
        # Beside the mean of the bin, so that no model hides another one or the interval.
        step = min(0.11, 0.66 / (len(styles) + 1))  # of 1 between two bins: marks stay with their bin
        shift = step * (number - (len(styles) - 1) / 2)
        shift += step if shift >= 0 else -step
        look = {"color": model_style.color, "marker": model_style.marker, "linewidth": 0.8}
        look["linestyle"] = model_style.line
        own = models[models["name"] == name]
        _errorbars(axes, own, shift, elinewidth=0.8, markersize=4, zorder=3, **look)
        handles.append(style.handle(labels[name], **look))
    ticks = [f"{name}\n{low}–{high}" for name, (low, high) in LENGTH_BINS.items()]
    axes.set_xticks(range(len(_BINS)), ticks)
    axes.set_xlim(-0.5, len(_BINS) - 0.5)
    axes.set_xlabel("Length of the prompt (tokens)")
    axes.set_ylabel(f"Composite score ({scale_words(context.scale, '–')})")
    values = drawn[["score", "low", "high"]].astype(float).to_numpy().ravel()
    cut = style.cut_axis(axes, context.scale, values, 0.1)
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
    verdicts = [e.facets.get("verdict", "not tested") for _, e in tests if e.estimable]
    data = style.data_of(tests, _TESTS).assign(margin=margin, verdict=verdicts)
    data = data.rename(columns={"name": "contrast", "estimate": "difference"})
    if data.empty:
        raise NothingToDraw("no two prompt lengths have scores of two bases")
    estimates = [replace(test, name=f"{test.name} of {model}") for model, test in tests]
    corrections = sorted({test.correction for test in estimates if test.correction != "none"})
    tested = style.values_of(
        data, lambda row: f"{row.of}, {row.contrast}: {style.decimals(row.difference)}, {row.verdict}"
    )
    pairs = captions.ranges_words(test for test in estimates if test.estimable)
    words = {"margin": margin, "verdicts": tested, "lengths": context.lengths}
    words["corrected"] = f", P values corrected by {'; '.join(corrections)}" if corrections else ""
    return context.worded(
        "equivalence", _draw_equivalence(data, margin, context), data, words,
        notes=[data["of"].nunique() > 1 and f"Tests of {_ALL} and of each model are corrected apart."],
        estimates=estimates, also=[f"each pair of lengths: {pairs}", captions.unpaired_words(estimates)],
    )  # fmt: skip


def _draw_equivalence(data: pd.DataFrame, margin: float, context: About) -> Figure:
    groups = list(dict.fromkeys(data["of"]))
    styles = context.styles(name for name in groups if name in context.models)
    # Many models stand closer, so that the figure keeps its 8 pt on one page.
    height = (style.PAGE_HIGH_MM - 12 - _HEAD_MM * len(groups)) / len(data)
    height = min(_ROW_MM, max(height, _LEAST_ROW_MM))
    head = 8 if height == _ROW_MM else _HEAD_MM
    figure, panels = style.panels_of(data, "of", height, head, 12, sharex=True)
    reach = 1.12 * max(1.3 * margin, float(data[["difference", "low", "high"]].abs().max().max()))
    heads = style.shortened(groups, 60)
    for name, tests, axes in panels:
        axes.axvspan(-margin, margin, color=style.GREY, alpha=0.22, linewidth=0, zorder=0)
        for edge in (-margin, margin):
            axes.axvline(edge, color=style.GREY, linewidth=0.8, linestyle="--", zorder=1)
        rows = tests.rename(columns={"difference": "estimate"})
        texts = [f"{row.verdict}: {style.interval(row)}" for row in style.rows_of(rows)]
        looks = [styles.get(name, style.PLAIN)] * len(tests)
        names = tests["contrast"].str.replace("-", "−")
        style.forest_panel(axes, rows, names, "", looks=looks, texts=texts)
        axes.set_title(heads[name], loc="left", fontweight="bold")
        axes.set_xlim(-reach, reach)
    axes.set_xlabel(f"Difference (points; grey: the margin, ±{margin:g})")
    return style.settle(figure)


def dimension_profile(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean of each dimension with its interval: a panel for each prompt length, a mark for each model."""
    means, text = analyses.dimension_profile().means, captions.TEXTS["dimension_profile"]
    data = style.data_of(((*mean.facets.values(), mean) for mean in means), _PROFILE)
    data = data.rename(columns={"estimate": "mean"})
    if data.empty:
        raise NothingToDraw("no judged runs")
    marks = style.values_of(
        data, lambda row: f"{at_length(row.model, row.length_bin)} {row.dimension} {row.mean:.2f}"
    )
    figure, cut = _draw_profile(data, context)
    words = {"scale": scale_words(context.scale), "marks": marks}
    words["lengths"] = text["lengths"].format(lengths=context.lengths) if context.lengths else ""
    return context.worded("dimension_profile", figure, data, words, [cut], estimates=means)


def _draw_profile(data: pd.DataFrame, context: About) -> tuple[Figure, str]:
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
    step, cut = height / row_height, ""
    ends = data[["mean", "low", "high"]].to_numpy(dtype=float).ravel()
    for axes, name in zip(panels, bins, strict=True):
        for number, (model, look) in enumerate(styles.items()):
            marks = data[(data["length_bin"] == name) & (data["model"] == model)]
            marks = marks.rename(columns={"mean": "estimate"})
            shift = ((len(styles) - 1) / 2 - number) * step
            up = marks["dimension"].map(dimensions.index) + shift
            style.forest(axes, marks, up, look, size=4.2, clip=False)
        for row in range(1, len(dimensions)):
            axes.axhline(row - 0.5, color=style.GREY, linewidth=0.3, zorder=0)
        axes.grid(visible=True, axis="x", linewidth=0.4, color=style.GREY, alpha=0.4)
        axes.tick_params(axis="y", length=0)
        if name in LENGTH_BINS:
            axes.set_title("{}: {}–{} tokens".format(name, *LENGTH_BINS[name]))
        cut = style.cut_axis(axes, context.scale, ends, which="x")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        if name == bins[len(bins) // 2]:
            axes.set_xlabel(f"Mean score ({scale_words(context.scale, '–')})")
    style.row_axis(panels[0], list(map(readable, dimensions)), (-0.5, len(dimensions) - 0.5))
    if len(styles) > 1:
        style.legend(figure, style.model_handles(styles, 60 // columns + 10), columns=columns)
    return style.settle(figure), cut


def length_slope(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the score of every answer against its length, and the adjusted slope with its interval."""
    judged, text = captions.judged_runs(analyses.runs), captions.TEXTS["length_slope"]
    answers = judged[judged["output_tokens"].notna()]
    if answers.empty:
        raise NothingToDraw("no judged run has a known length")
    slope = analyses.length_bias().slope
    if slope.estimate is None:
        raise NothingToDraw(f"the slope is not estimable: {slope.reason or 'there is no reason given'}")
    data = _slope_marks(answers.rename(columns={analyses.score: "score"}), slope)
    marks = text["density" if len(answers) > style.MANY else "marks"]
    words = {"scale": scale_words(context.scale), "slope": slope.sentence(), "marks": marks}
    words["answers"] = counted(len(answers), "answers")
    return context.worded(
        "length_slope",
        _draw_slope(data, slope, context),
        data,
        words,
        notes=[captions.capital(slope.sentence()), captions.cut_words(data, context.scale)],
        n=captions.counts(answers, context.repeats),
        estimates=(slope,),
        missing=captions.missing_words(analyses.runs, answers),
    )


def _slope_marks(answers: pd.DataFrame, slope: Estimate) -> pd.DataFrame:
    columns = ["model", "base", "run_id", "length_bin", "output_tokens", "score"]
    points = answers[columns].assign(kind="answer").astype({"length_bin": "string"})
    points = points.sort_values(["model", "base", "output_tokens", "run_id"], kind="stable")
    rise, *ends = (np.nan if value is None else value for value in (slope.estimate, slope.low, slope.high))
    lines = []
    for model, replies in points.groupby("model"):
        tokens, score = replies["output_tokens"].astype(float), float(replies["score"].astype(float).mean())
        # Through the mean, where the band has no width; without that point its edges would be drawn apart.
        for x in (float(tokens.min()), float(tokens.mean()), float(tokens.max())):
            distance = (x - float(tokens.mean())) / TOKENS
            low, high = sorted(score + distance * end for end in ends)
            line = {"kind": "slope", "model": model, "output_tokens": x, "score": score + distance * rise}
            lines.append({**line, "low": low, "high": high})
    rows = pd.concat([points.astype(object), pd.DataFrame(lines, dtype=object)], ignore_index=True)
    numbers = dict.fromkeys(("output_tokens", "score", "low", "high"), "float64")
    return rows.reindex(columns=list(_SLOPE)).astype(numbers)


def _draw_slope(data: pd.DataFrame, slope: Estimate, context: About) -> Figure:
    styles = context.styles(data["model"])
    figure, panels, across = style.grid(len(styles), head=16, tall=52, lone=58, sharex=True, sharey=True)
    names = style.shortened(styles, 44 if across == 1 else 76 // across)
    dense = int((data["kind"] == "answer").sum()) > style.MANY
    longest = float(data["output_tokens"].max()) * 1.05 or 1.0
    for number, (axes, (name, look)) in enumerate(zip(panels, styles.items(), strict=True)):
        _slope_panel(axes, data[data["model"] == name], look, (0, longest, *context.scale), dense=dense)
        axes.set_title(names[name])
        style.score_axis(axes, context.scale, "Composite score" if number % across == 0 else "")
    panels[0].set_xlim(0, longest)
    # The last tick would run into the 0 of the next panel.
    panels[0].xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], prune="upper"))
    if dense:  # one scale for all panels
        cells = [axes.collections[0] for axes in panels]
        most = max(float(np.asarray(cell.get_array()).max()) for cell in cells)
        for cell in cells:
            cell.set_clim(1, max(most, 2.0))
        figure.colorbar(cells[0], ax=panels, label="Answers", aspect=25, ticks=MaxNLocator(4, integer=True))
    figure.supxlabel("Length of the reply (tokens)")
    label = f"slope {_signed(slope.estimate)} points per {TOKENS:g} tokens"
    label += f" [{_signed(slope.low)}, {_signed(slope.high)}]" if slope.low is not None else ", no interval"
    handles = [] if dense else [style.handle("one base", color=style.GREY, linewidth=0.6)]
    handles.append(style.handle(label, color=style.INK, linewidth=1.6))
    style.legend(figure, handles, columns=1 if across == 1 else 2)
    return style.settle(figure)


def _slope_panel(
    axes: Axes,
    data: pd.DataFrame,
    look: style.ModelStyle,
    extent: tuple[float, float, float, float],
    *,
    dense: bool,
) -> None:
    answers, line = data[data["kind"] == "answer"], data[data["kind"] == "slope"]
    if dense:
        style.density(axes, answers["output_tokens"], answers["score"], extent)
    else:
        for _, replies in answers.groupby("base"):
            axes.plot(
                replies["output_tokens"],
                replies["score"],
                color=style.GREY,
                linewidth=0.5,
                alpha=0.6,
                zorder=1,
            )
        axes.plot(
            answers["output_tokens"], answers["score"], linestyle="none", color=look.color, marker=look.marker,
            markersize=3.4, markeredgewidth=0, alpha=0.75, zorder=2, clip_on=False,
        )  # fmt: skip
    if line["low"].notna().all():
        axes.fill_between(
            line["output_tokens"],
            line["low"],
            line["high"],
            color=style.INK,
            alpha=0.15,
            linewidth=0,
            zorder=3,
        )
    axes.plot(line["output_tokens"], line["score"], color=style.INK, linewidth=1.6, zorder=4)


def _signed(value: float | None) -> str:
    return "" if value is None else style.decimals(value, 3, sign=True)


def length_information(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw what each step from a shorter prompt to a longer one does, in all and in its two parts."""
    if analyses.runs_with_arms.empty:
        raise NothingToDraw("no prompt of a length arm was asked")
    result = analyses.length_and_information()
    parts = _steps(result)
    estimates = [e for *_, e in parts]
    data = style.data_of(parts, _STEPS)
    if data.empty:
        raise NothingToDraw("no two bases have the scores of a step")
    values = style.values_of(data, lambda row: f"{row.name}, {row.part}: {style.decimals(row.estimate)}")
    return context.worded(
        "length_information", _draw_steps(data), data, {"values": values},
        [captions.differences_words(estimates)],
        [result.sentence(), captions.notes_words(result.notes)],
        estimates=estimates, missing=captions.unpaired_words(estimates, "of a prompt of a step"),
        counts=captions.estimates_n_words(e for e in estimates if e.estimable),
    )  # fmt: skip


def _steps(result: Result) -> list[tuple[str, str, Estimate]]:
    """Return step, part and estimate of every row, the sum of a step after its parts."""
    parts = {"information": result.information, "length": result.length, "both": result.total}
    return [
        (title, part, estimates[number])
        for number, title in enumerate(_TITLES)
        for part, estimates in parts.items()
        if number < len(estimates)
    ]


def _draw_steps(data: pd.DataFrame) -> Figure:
    figure, panels = style.panels_of(data, "step", 6.0, 8, 16, sharex=True)
    for step, rows, axes in panels:
        style.forest_panel(axes, rows, rows["part"], "", looks=[_LOOKS[part] for part in rows["part"]])
        axes.set_title(step)
    axes.set_xlabel("Difference of the mean composite score (points)")
    return style.settle(figure)

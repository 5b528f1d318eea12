"""Results with their intervals, a row each: of any test, of models, of votes, and of analyses of one's own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.analyses.answers import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import ALONE, About, FigureWithCaption
from toolkit.report.style import NothingToDraw
from toolkit.stats import WORDS
from toolkit.stats.inference.p_values import LEVEL
from toolkit.stats.result import Estimate, rounded
from toolkit.words import scale_words

NAME = "results"
_ROW_MM = 5.0
_MEAN_ROW_MM = 6.0
_LEAST_ROW_MM = 3.4
_MOST = 30
"""Differences that a page has room for; the table has all."""


def results_figure(
    results: Sequence[tuple[str, Estimate]], *, test: str, context: About = ALONE
) -> FigureWithCaption:
    """Draw every result of a test with its interval, a panel for each unit."""
    estimates = [replace(result, name=f"{result.name} of {model}") for model, result in results]
    parts = ((model, r.name, r.unit, r) for model, r in results)
    data = style.data_of(parts, ("model", "result", "unit"), every=True)
    estimated = data[data["estimate"].notna()]
    context = replace(context, n={"results": len(estimated), "models": int(data["model"].nunique())})
    if estimated.empty:
        nothing = context.nothing_drawn(NAME, "no result could be estimated", f"Results of {test}")
        return replace(nothing, data=data, notes=captions.not_estimable_words(estimates))
    with style.thesis_style():
        figure, broken = _draw(estimated, data["model"])
    return context.worded(
        NAME, figure, data, {"test": test, "broken": ", ".join(broken)},
        [estimated["low"].notna().sum() > 1 and captions.UNCORRECTED, "broken"],
        estimates=estimates, counts=captions.estimates_n_words(estimates), missing=captions.missing_before(estimates),
    )  # fmt: skip


def _draw(estimated: pd.DataFrame, models: pd.Series) -> tuple[Figure, list[str]]:
    """Draw a panel for each unit; return the results whose axis lacks 0, which the caption has to declare."""
    # A model without a result keeps its colour to itself.
    styles = style.model_styles(estimated["model"], among=models)
    groups = dict(list(estimated.groupby("unit", sort=False)))
    heights = [rows["result"].nunique() for rows in groups.values()]
    rows = sum(heights) * max(1.0, 0.6 * len(styles))
    more = 16 + 12 * len(groups) + _ROW_MM * (rows - sum(heights)) + 4 * len(styles)
    figure, panels = style.stacked(heights, _ROW_MM, more)
    for axes, (unit, marks) in zip(panels, groups.items(), strict=True):
        _panel(axes, marks, styles)
        axes.set_xlabel("" if unit == "none" else captions.capital(str(unit)))
    if len(styles) > 1:
        style.legend(figure, style.model_handles(styles), columns=2)
    style.settle(figure)
    ends = [(marks, axes.get_xlim()) for axes, marks in zip(panels, groups.values(), strict=True)]
    broken = [name for marks, (low, high) in ends if not low <= 0 <= high for name in marks["result"]]
    return figure, list(dict.fromkeys(broken))


def _panel(axes: Axes, estimated: pd.DataFrame, styles: dict[str, style.ModelStyle]) -> None:
    names = list(dict.fromkeys(estimated["result"]))[::-1]
    for model, look, shift in style.side_by_side(styles, -0.6 / len(styles)):
        marks = estimated[estimated["model"] == model]
        style.forest(axes, marks, [names.index(name) + shift for name in marks["result"]], look)
    axes.set_yticks(range(len(names)), list(style.shortened(names, 48).values()))
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(visible=True, axis="x", linewidth=0.4)
    ends = estimated[["estimate", "low", "high"]].agg(["min", "max"])
    if estimated["unit"].str.startswith("share").all() and ends.min().min() >= 0 and ends.max().max() <= 1:
        axes.set_xlim(-0.02, 1.02)  # a share is seen against the whole it is a share of


def model_means(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean or accuracy of each model, below the differences of two within items, and AUD per right answer."""
    result = analyses.compare_models()
    keyed = analyses.is_keyed and analyses.answers("accuracy")
    costs = [e for e in analyses.accuracy().cost_per_right if e.estimate] if keyed else []
    is_read = not keyed or all(e.estimate == 1 for e in analyses.accuracy().readable)
    of_all = [] if is_read else [replace(e, name=e.facets["model"]) for e in analyses.accuracy().of_all]
    parts = [*(("mean", e) for _, e in result.models), *(("all", e) for e in of_all)]
    parts += [("difference", e) for e in result.differences]
    for e in costs:  # of a thousand: fractions of a cent are not read well
        ends = (end and end * 1000 for end in (e.low, e.high))
        parts.append(("cost", e.with_value(e.estimate * 1000, *ends, name=e.facets["model"])))
    data = style.data_of(parts, ("part", "name"), ("p_value", "bases"))
    if not (data["part"] == "mean").any():
        raise NothingToDraw("no item has a score")
    is_difference = data["part"] == "difference"
    # One without a p value is not told apart either: a tie is what was not shown, and no finding of equality.
    data["tie"] = is_difference & ~(data["p_value"] < LEVEL)
    sizes = data.loc[is_difference, "estimate"].abs().sort_values(ascending=False)
    pairs = combinations((model for model, _ in result.models), 2)
    names: dict[str, Sequence[str]] = {model: (model,) for model, _ in result.models}
    names |= {e.name: pair for e, pair in zip(result.differences, pairs, strict=True)}
    lines = _lines(analyses.keyed_answers) if keyed else {}
    variant = "accuracy" if keyed else ""
    text = captions.text_of("model_means", variant)
    visible = data.drop(index=sizes.index[_MOST:])
    visible["label"] = visible["name"].map(style.paired(names))
    figure, cut = _draw_means(visible, context, text, lines)
    compared, has_ties = len(sizes) > 0, data["tie"].any()
    words = {name: f"{value:.2f}" for name, value in lines.items()} | {
        "most": _MOST,
        "count": len(sizes),
        "largest": len(sizes) > _MOST,
        "differences": compared,
        "all": of_all,
        "cost": costs,
        "corrected": any(e.correction != "none" for e in result.differences),
        "ties": has_ties,
    }
    return context.worded(
        "model_means", figure, data, words,
        ["ties", compared and not has_ties and captions.differences_words(result.differences), cut],
        [captions.notes_words(result.notes)],
        variant=variant, estimates=[estimate for _, estimate in parts],
    )  # fmt: skip


def _lines(answers: pd.DataFrame) -> dict[str, float]:
    """Return what a guess and the commonest answer score on the questions that were answered."""
    scored = answers[answers[answers.attrs["score"]].notna()].groupby("base")[["chance", "majority"]].mean()
    return {str(name): float(value) for name, value in scored.mean().dropna().items()}


def _draw_means(
    visible: pd.DataFrame, context: About, text: Mapping[str, str], lines: Mapping[str, float]
) -> tuple[Figure, str]:
    around = 16 * visible["part"].nunique()
    height = style.row_height(len(visible), around, _MEAN_ROW_MM, _LEAST_ROW_MM)
    means = visible[visible["part"] == "mean"]
    styles = context.styles(means["name"])
    texts = [
        style.interval(row, rounded if row.part == "cost" else style.decimals)
        for row in style.rows_of(visible)
    ]
    drawn = visible.assign(text=texts, hollow=visible["tie"])
    figure, panels = style.panels_of(drawn, "part", height, 16)
    for part, rows, axes in panels:
        looks = [styles.get(str(name), style.PLAIN) for name in rows["name"]]
        label = text[f"{part}_axis"].format(scale=scale_words(context.scale, "–"))
        style.forest_panel(axes, rows, label, looks=looks, at=0.0 if part == "difference" else None)
        if part == "cost":
            style.log_axis(axes, rows["estimate"].min(), rows[["estimate", "high"]].max().max())
    above = panels[0][-1]
    # The whole scale would press the intervals of a large study into their marks.
    values = [*means[["estimate", "low", "high"]].to_numpy().ravel(), *lines.values()]
    cut = style.cut_axis(above, context.scale, values, which="x")
    for name, value in lines.items():
        dashes = "--" if name == "chance" else ":"
        above.axvline(value, color=style.GREY, linewidth=1.0, linestyle=dashes, zorder=0)
    return style.settle(figure), cut


_PART_ROW_MM = 6.0


def pair_strengths(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the strength of each model with its interval, and below the differences of each two."""
    result = analyses.compare_pairs()
    models = sorted(result.models, key=lambda e: result.ranks.get(e.facets["model"], 0))
    parts = [*(("strength", e) for e in models), *(("difference", e) for e in result.differences)]
    names = style.paired({_name(e): tuple(e.facets.values()) for _, e in parts})
    return _figure("pair_strengths", result.notes, parts, names, 0.0, context)


def position_bias(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw how often each judge prefers the reply that it is shown first, beside one half."""
    return _shares("position_bias", "judge", analyses.compare_pairs().judges, 0.5, context)


def hallucination_shares(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw how many replies each judge calls hallucinations, of all, of each model, and at each prompt length."""
    return _shares("hallucination_shares", "yes", analyses.hallucination().shares, 0.0, context)


def own_analysis(analyses: Analyses, context: About, name: str) -> FigureWithCaption:
    """Draw the estimates of an analysis of one's own, a panel for each part."""
    result = analyses.answer(name)
    parts = list(result.rows())
    names = {_name(e): e.label or e.name for _, e in parts}
    return _figure(name, getattr(result, "notes", ()), parts, names, 0.0, context)


def _shares(name: str, part: str, shares: Sequence[Estimate], at: float, context: About) -> FigureWithCaption:
    titles = [", ".join(map(context.judge, share.facets.values())) for share in shares]
    names = dict(zip(map(_name, shares), style.shortened(titles, 44).values(), strict=True))
    return _figure(name, (), [(part, share) for share in shares], names, at, context)


def _name(estimate: Estimate) -> str:
    return " − ".join(estimate.facets.values()) or estimate.name


def _figure(
    name: str,
    notes: Iterable[str],
    parts: Sequence[tuple[str, Estimate]],
    names: Mapping[str, str],
    at: float,
    context: About,
) -> FigureWithCaption:
    nothing = parts[-1][1].why_no_number if parts else "there are no votes"
    named = ((part, _name(e), e) for part, e in parts)
    data = style.data_of(named, ("part", "name"), ("p_value",), nothing=nothing)
    styles, text = context.styles(context.models), captions.TEXTS.get(name, WORDS.get(name, {}))
    drawn = data.assign(label=data["name"].map(names))
    figure, panels = style.panels_of(drawn, "part", _PART_ROW_MM, 16)
    for part, rows, axes in panels:
        looks = [styles.get(model, style.PLAIN) for model in rows["name"]]
        style.forest_panel(axes, rows, text.get(f"{part}_axis") or text["axis"], looks=looks, at=at)
    estimates = [estimate for _, estimate in parts]
    return context.worded(
        name, style.settle(figure), data, {},
        [(data["part"] == "difference").any() and captions.differences_words(estimates)],
        [captions.notes_words(notes)],
        estimates=estimates, counts=captions.estimates_n_words(estimates),
        missing=captions.missing_before(estimates),
    )  # fmt: skip

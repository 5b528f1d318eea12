"""Results with their intervals, a row each: of any test, of models, of votes, and of analyses of one's own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.analyses.answers import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import ALONE, About, FigureWithCaption, NothingToDraw
from toolkit.stats import WORDS
from toolkit.stats.inference.p_values import LEVEL
from toolkit.stats.result import Estimate, rounded
from toolkit.words import scale_words

NAME = "results"
_ROW_MM = 5.0
_COLUMNS = ("model", "result", "unit", "estimate", "low", "high")
_MEANS = ("part", "name", "estimate", "low", "high", "p_value", "bases")
_MEAN_ROW_MM = 6.0
_LEAST_ROW_MM = 3.4
_MOST = 30
"""Differences that a page has room for; the table has all."""


def results_figure(
    results: Sequence[tuple[str, Estimate]], *, test: str, context: About = ALONE
) -> FigureWithCaption:
    """Draw every result of a test with its interval, a panel for each unit."""
    estimates = [replace(result, name=f"{result.name} of {model}") for model, result in results]
    data = style.data_of(((model, r.name, r) for model, r in results), _COLUMNS, every=True)
    estimated = data[data["estimate"].notna()]
    context = replace(context, n={"results": len(estimated), "models": int(data["model"].nunique())})
    if estimated.empty:
        nothing = context.nothing_drawn(NAME, "no result could be estimated", f"Results of {test}")
        return replace(nothing, data=data, notes=captions.not_estimable_words(estimates))
    with style.thesis_style():
        figure, broken = _draw(estimated, data["model"])
    values = style.values_of(estimated, lambda row: f"{row.model}, {row.result}: {row.estimate:.3g}")
    return context.figure(
        NAME, figure, data, f"Marks with intervals: {values}.",
        f"Results of {test}: each mark is one result of one model.",
        [
            estimated["low"].notna().sum() > 1 and captions.UNCORRECTED,
            broken and f"without 0 on the axis: {', '.join(broken)}",
        ],
        estimates=estimates, counts=captions.estimates_n_words(estimates), missing=captions.missing_before(estimates),
    )  # fmt: skip


def _draw(estimated: pd.DataFrame, models: pd.Series) -> tuple[Figure, list[str]]:
    """Draw a panel for each unit; return the results whose axis lacks 0, which the caption has to declare."""
    # A model without a result keeps its colour to itself.
    styles = style.model_styles(estimated["model"], among=models)
    units = list(dict.fromkeys(estimated["unit"]))
    heights = [estimated.loc[estimated["unit"] == unit, "result"].nunique() for unit in units]
    rows = sum(heights) * max(1.0, 0.6 * len(styles))
    more = 16 + 12 * len(units) + _ROW_MM * (rows - sum(heights)) + 4 * len(styles)
    figure, panels = style.stacked(heights, _ROW_MM, more)
    for axes, unit in zip(panels, units, strict=True):
        _panel(axes, estimated[estimated["unit"] == unit], styles)
        axes.set_xlabel("" if unit == "none" else unit[:1].upper() + unit[1:])
    if len(styles) > 1:
        style.legend(figure, style.model_handles(styles), columns=2)
    style.settle(figure)
    ends = {unit: axes.get_xlim() for axes, unit in zip(panels, units, strict=True)}
    broken = [unit for unit, (low, high) in ends.items() if not low <= 0 <= high]
    return figure, list(dict.fromkeys(estimated.loc[estimated["unit"].isin(broken), "result"]))


def _panel(axes: Axes, estimated: pd.DataFrame, styles: dict[str, style.ModelStyle]) -> None:
    names = list(dict.fromkeys(estimated["result"]))
    heights = {name: len(names) - 1 - number for number, name in enumerate(names)}
    step = 0.6 / max(1, len(styles))
    for number, (model, look) in enumerate(styles.items()):
        marks = estimated[estimated["model"] == model]
        up = [heights[name] - (number - (len(styles) - 1) / 2) * step for name in marks["result"]]
        style.forest(axes, marks, up, look)
    axes.set_yticks(list(heights.values()), list(style.shortened(heights, 48).values()))
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(visible=True, axis="x", linewidth=0.4)
    ends = [end for column in ("estimate", "low", "high") for end in estimated[column].dropna()]
    if estimated["unit"].str.startswith("share").all() and all(0 <= end <= 1 for end in ends):
        axes.set_xlim(-0.02, 1.02)  # a share is seen against the whole it is a share of


def model_means(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the mean or accuracy of each model, below the differences of two within items, and AUD per right answer."""
    result = analyses.compare_models()
    means = [mean for _, mean in result.models]
    keyed = analyses.is_keyed and analyses.answers("accuracy")
    costs = analyses.accuracy().cost_per_right if keyed else ()
    # Of a thousand: fractions of a cent are not read well.
    paid = [
        e.with_value(e.estimate * 1000, *(n and n * 1000 for n in (e.low, e.high)), name=e.facets["model"])
        for e in costs
        if e.estimate
    ]
    parts = [*(("mean", e) for e in means), *(("difference", e) for e in result.differences)]
    parts += [("cost", e) for e in paid]
    data = style.data_of(parts, _MEANS)
    if not (data["part"] == "mean").any():
        raise NothingToDraw("no item has a score")
    # One without a p value is not told apart either: a tie is what was not shown, and no finding of equality.
    data["tie"] = (data["part"] == "difference") & ~(data["p_value"] < LEVEL)
    differences = data[data["part"] == "difference"]
    widest = differences.reindex(differences["estimate"].abs().sort_values(ascending=False).index)
    visible = data[(data["part"] != "difference") | data.index.isin(widest.index[:_MOST])]
    text = dict(captions.TEXTS["model_means"]) | dict(captions.TEXTS["accuracy"] if keyed else {})
    lines = _lines(analyses.keyed_answers) if keyed else {}
    values = style.values_of(data)
    compared, many = len(differences) > 0, len(differences) > _MOST
    largest = text["largest"].format(most=_MOST, count=len(differences)) if many else ""
    pairs = combinations((model for model, _ in result.models), 2)
    names: dict[str, Sequence[str]] = {model: (model,) for model, _ in result.models}
    names |= {e.name: pair for e, pair in zip(result.differences, pairs, strict=True)}
    words = captions.differences_words
    corrected = text["corrected"] if any(e.correction != "none" for e in result.differences) else ""
    seen = text["seen"].format(
        lines="".join(text[name].format(value=f"{value:.2f}") for name, value in lines.items()),
        differences=text["differences"].format(largest=largest) if compared else "",
        cost=text["cost"] if paid else "",
    )
    figure, cut = _draw_means(visible, style.paired(names), context, text, lines)
    return context.figure(
        "model_means", figure, data, f"Means and differences: {values}.", seen,
        [
            compared and (text["ties"].format(corrected=corrected) if data["tie"].any() else words(result.differences)),
            cut,
        ],
        [captions.notes_words(result.notes)],
        estimates=[estimate for _, estimate in parts],
    )  # fmt: skip


def _lines(answers: pd.DataFrame) -> dict[str, float]:
    """Return what a guess and the commonest answer score on the questions that were answered."""
    scored = answers[answers[answers.attrs["score"]].notna()].groupby("base")[["chance", "majority"]].mean()
    return {str(name): float(value) for name, value in scored.mean().dropna().items()}


def _draw_means(
    visible: pd.DataFrame,
    labels: Mapping[str, str],
    context: About,
    text: Mapping[str, str],
    lines: Mapping[str, float],
) -> tuple[Figure, str]:
    height = (style.PAGE_HIGH_MM - 16 * visible["part"].nunique()) / len(visible)
    height = max(_LEAST_ROW_MM, min(_MEAN_ROW_MM, height))
    figure, panels = style.panels_of(visible, "part", height, 16)
    means = visible.loc[visible["part"] == "mean", ["name", "estimate", "low", "high"]]
    styles = context.styles(means["name"])
    titles = {
        "mean": f"{text['axis']} ({scale_words(context.scale, '–')})",
        "difference": text["difference"],
        "cost": text.get("paid", ""),
    }
    for part, rows, axes in panels:
        printed = rounded if part == "cost" else style.decimals
        style.forest_panel(
            axes,
            rows,
            rows["name"].map(labels),
            titles[part],
            looks=[styles.get(str(name), style.PLAIN) for name in rows["name"]],
            at=0.0 if part == "difference" else None,
            texts=[style.interval(row, printed) for row in style.rows_of(rows)],
            hollow=list(rows["tie"]),
        )
        if part == "cost":
            style.log_axis(axes, rows["estimate"].min(), rows[["estimate", "high"]].max().max())
    above = panels[0][-1]
    # The whole scale would press the intervals of a large study into their marks.
    cut = style.cut_axis(
        above, context.scale, [*means.drop(columns="name").to_numpy().ravel(), *lines.values()], which="x"
    )
    for name, value in lines.items():
        dashes = "--" if name == "chance" else ":"
        above.axvline(value, color=style.GREY, linewidth=1.0, linestyle=dashes, zorder=0)
    return style.settle(figure), cut


_PARTS = ("part", "name", "estimate", "low", "high", "p_value")
_PART_ROW_MM = 6.0
_STRENGTHS = {"strength": "Strength (logits, mean 0)", "difference": "Difference of strengths (logits)"}
_SHARES = {
    "judge": "Share of decided votes for the reply shown first",
    "yes": "Share of answers that are called hallucinations",
}


def pair_strengths(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the strength of each model with its interval, and below the differences of each two."""
    result = analyses.compare_pairs()
    models = sorted(result.models, key=lambda e: result.ranks.get(e.facets["model"], 0))
    parts = [*(("strength", e) for e in models), *(("difference", e) for e in result.differences)]
    names = style.paired({_name(e): tuple(e.facets.values()) for _, e in parts})
    return _figure("pair_strengths", result.notes, parts, _STRENGTHS, names, 0.0, context)


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
    labels = dict.fromkeys(dict(parts), WORDS[name]["axis"])
    names = {_name(e): e.label or e.name for _, e in parts}
    return _figure(name, getattr(result, "notes", ()), parts, labels, names, 0.0, context)


def _shares(name: str, part: str, shares: Sequence[Estimate], at: float, context: About) -> FigureWithCaption:
    titles = [", ".join(map(context.judge, share.facets.values())) for share in shares]
    names = dict(zip(map(_name, shares), style.shortened(titles, 44).values(), strict=True))
    return _figure(name, (), [(part, share) for share in shares], _SHARES, names, at, context)


def _name(estimate: Estimate) -> str:
    return " − ".join(estimate.facets.values()) or estimate.name


def _figure(
    name: str,
    notes: Iterable[str],
    parts: Sequence[tuple[str, Estimate]],
    labels: Mapping[str, str],
    names: Mapping[str, str],
    at: float,
    context: About,
) -> FigureWithCaption:
    data = style.data_of(((part, _name(e), e) for part, e in parts), _PARTS)
    if data.empty:
        raise NothingToDraw(parts[-1][1].why_no_number if parts else "there are no votes")
    styles = context.styles(context.models)
    figure, panels = style.panels_of(data, "part", _PART_ROW_MM, 16)
    for part, drawn, axes in panels:
        looks = [styles.get(model, style.PLAIN) for model in drawn["name"]]
        style.forest_panel(axes, drawn, drawn["name"].map(names), labels[part], looks=looks, at=at)
    estimates = [estimate for _, estimate in parts]
    return context.worded(
        name, style.settle(figure), data, {"values": style.values_of(data)},
        [(data["part"] == "difference").any() and captions.differences_words(estimates)],
        [captions.notes_words(notes)],
        estimates=estimates, counts=captions.estimates_n_words(estimates),
        missing=captions.missing_before(estimates),
    )  # fmt: skip

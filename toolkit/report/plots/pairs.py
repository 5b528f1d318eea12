"""Votes: on pairs of replies, strengths of models and how judges prefer a position; shares of yes on hallucination."""

from collections.abc import Iterable, Mapping, Sequence

from toolkit.analyses import Analyses
from toolkit.report import captions, style
from toolkit.report.figure import About, FigureWithCaption, NothingToDraw
from toolkit.stats.result import Estimate

_COLUMNS = ("part", "name", "estimate", "low", "high", "p_value")
_ROW_MM = 6.0
_STRENGTHS = {
    "strength": "Strength (logits, mean 0)",
    "difference": "Difference of strengths (logits)",
}
_SHARES = {
    "judge": "Share of decided votes for the reply shown first",
    "yes": "Share of answers that are called hallucinations",
}


def pair_strengths(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw the strength of each model with its interval, and below the differences of each two."""
    result = analyses.compare_pairs()
    parts = [
        ("strength", e) for e in sorted(result.models, key=lambda e: result.ranks.get(e.facets["model"], 0))
    ]
    parts += [("difference", e) for e in result.differences]
    names = style.paired({_name(e): tuple(e.facets.values()) for _, e in parts})
    return _figure("pair_strengths", result.notes, parts, _STRENGTHS, names, 0.0, context)


def position_bias(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw how often each judge prefers the reply that it is shown first, beside one half."""
    return _shares("position_bias", "judge", analyses.compare_pairs().judges, 0.5, context)


def hallucination_shares(analyses: Analyses, context: About) -> FigureWithCaption:
    """Draw how many replies each judge calls hallucinations, of all, of each model, and at each prompt length."""
    return _shares("hallucination_shares", "yes", analyses.hallucination().shares, 0.0, context)


def _shares(name: str, part: str, shares: Sequence[Estimate], at: float, context: About) -> FigureWithCaption:
    titles = [", ".join(map(context.judge, share.facets.values())) for share in shares]
    names = dict(zip(map(_name, shares), style.shortened(titles, 44).values(), strict=True))
    return _figure(name, (), [(part, share) for share in shares], _SHARES, names, at, context)


def _name(estimate: Estimate) -> str:
    return " − ".join(estimate.facets.values())


def _figure(
    name: str,
    notes: Iterable[str],
    parts: Sequence[tuple[str, Estimate]],
    labels: Mapping[str, str],
    names: Mapping[str, str],
    at: float,
    context: About,
) -> FigureWithCaption:
    data = style.data_of(((part, _name(e), e) for part, e in parts), _COLUMNS)
    if data.empty:
        raise NothingToDraw(parts[-1][1].why_no_number if parts else "there are no votes")
    styles = context.styles(context.models)
    figure, panels = style.panels_of(data, "part", _ROW_MM, 16)
    for part, drawn, axes in panels:
        looks = [styles.get(model, style.PLAIN) for model in drawn["name"]]
        style.forest_panel(axes, drawn, drawn["name"].map(names), labels[part], looks=looks, at=at)
    estimates, text = [estimate for _, estimate in parts], captions.TEXTS[name]
    values = style.values_of(data)
    return context.figure(
        name, style.settle(figure), data, f"{text['alt']}: {values}.",
        text["seen"],
        [text["note"], (data["part"] == "difference").any() and captions.differences_words(estimates)],
        [captions.notes_words(notes)],
        estimates=estimates, counts=captions.estimates_n_words(estimates),
        missing=captions.missing_before(estimates),
    )  # fmt: skip

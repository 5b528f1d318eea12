"""Agreement between judges: the composites of each pair against each other, with Pearson and ICC."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toolkit.report import captions
from toolkit.report.about import About
from toolkit.report.labels import decimals, shorten, shortened
from toolkit.report.saving import FigureWithCaption
from toolkit.report.style import (
    COLUMN_MM,
    GREY,
    PAGE_MM,
    ModelStyle,
    new_figure,
    score_axis,
    settle,
    thesis_style,
)
from toolkit.stats.result import Estimate
from toolkit.words import JUDGE_ROLES, agreeing, counted

if TYPE_CHECKING:
    from toolkit.stats.agreement.reliability import Reliability

NAME: Final = "judge_agreement"
TITLE: Final = "Agreement between judges"
_ACROSS: Final = 3
_JITTER: Final = 0.06
_NARROW: Final = 22
"""Letters of a name of which three stand side by side in a legend."""
_FORMS: Final = ("ICC(A,1)", "ICC(A,k)")
"""Judges' leniency is error, so the absolute-agreement forms come first (DESIGN, section 7)."""


def judge_agreement(
    judgements: pd.DataFrame,
    reliability: Reliability | None,
    *,
    key: str = "composite",
    seed: int = 0,
    about: About | None = None,
) -> FigureWithCaption:
    """Draw what each pair of judges gave the same answers, against the line of equal scores."""
    valid = _valid(judgements)
    judges = sorted(
        valid["judge"].unique(), key=lambda j: (JUDGE_ROLES.index(j) if j in JUDGE_ROLES else 99, str(j))
    )
    pairs = list(combinations(judges, 2))
    data = _pairs(valid, pairs)
    about = about or About(source=captions.source_words(judgements, "", ""))
    n = _counts(valid, data, len(judges), about.repeats)
    if data.empty:
        text = "no judged runs" if valid.empty else "no run was scored by two judges"
        return about.nothing(NAME, TITLE, text)
    pearson = _by_pair(reliability, key, pairs)
    forms = [e for e in (reliability.icc.get(key, ()) if reliability else ()) if e.name in _FORMS]
    these = reliability.icc_these_judges.get(key, ()) if reliability else ()
    with thesis_style():
        figure = _draw(data, pairs, pearson, forms, seed, about)
    known = [e for e in pearson.values() if e is not None]
    caption = captions.join(
        f"{TITLE} ({captions.n_words(n)}).",
        "Each point is one answer, scored by the two judges of the panel; points are shifted by up to "
        f"{_JITTER:g} so that equal ones show. Dashed line: equal scores.",
        # What is missing is said once, of the judgements.
        " ".join(replace(e, missing=0).sentence() for e in (*forms, *these) if e.estimable),
        f"Above each panel r: Pearson correlation, {captions.interval_words(known)}" if known else "",
        "Nothing is corrected for the number of pairs." if len(known) > 1 else "",
        captions.not_estimable_words(replace(e, missing=0) for e in (*forms, *known)),
        "" if reliability is not None else "No reliability was estimated.",
        _missing_words(judgements, valid),
        about.source,
        about.note,
    )
    return FigureWithCaption(NAME, figure, caption, _alt_text(data, pairs, pearson), data, n)


def _valid(judgements: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements that count: not failed and with a composite, one for each judge and run."""
    if judgements.empty:
        return pd.DataFrame(columns=["run_id", "judge", "base", "model", "repeat", "composite"])
    good = ~judgements["failed"].astype(bool) & judgements["composite"].notna()
    return judgements[good].drop_duplicates(["run_id", "judge"]).sort_values("run_id", kind="stable")


def _pairs(valid: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """Return one row for each pair of judges and each run that both scored."""
    columns = ["first", "second", "run_id", "model", "first_composite", "second_composite"]
    kept = []
    for first, second in pairs:
        one = valid.loc[valid["judge"] == first, ["run_id", "model", "composite"]]
        other = valid.loc[valid["judge"] == second, ["run_id", "composite"]]
        both = one.merge(other, on="run_id", suffixes=("_one", "_other")).assign(first=first, second=second)
        scores = {"composite_one": "first_composite", "composite_other": "second_composite"}
        kept.append(both.rename(columns=scores)[columns])
    return pd.concat(kept, ignore_index=True) if kept else pd.DataFrame(columns=columns)


def _counts(valid: pd.DataFrame, data: pd.DataFrame, judges: int, repeats: int | None) -> dict[str, int]:
    drawn = valid[valid["run_id"].isin(data["run_id"])]
    return {
        "bases": int(drawn["base"].nunique()),
        "answers": int(drawn["run_id"].nunique()),
        "models": int(drawn["model"].nunique()),
        "judges": judges,
        "repeats": repeats if repeats is not None else int(drawn["repeat"].nunique()),
    }


def _missing_words(judgements: pd.DataFrame, valid: pd.DataFrame) -> str:
    lost = len(judgements) - len(valid)
    asked = counted(len(judgements), "judgements")
    return f"{lost} of {asked} {agreeing(lost, 'are')} missing, not zero." if lost else ""


def _by_pair(
    reliability: Reliability | None, key: str, pairs: list[tuple[str, str]]
) -> dict[tuple[str, str], Estimate | None]:
    """Find the correlation of each pair by the two judges its name holds, in either order."""
    estimates = reliability.pearson.get(key, ()) if reliability is not None else ()
    return {
        (a, b): next((e for e in estimates if _names(e, a, b) or _names(e, b, a)), None) for a, b in pairs
    }


def _names(estimate: Estimate, first: str, second: str) -> bool:
    return f"({first}, {second})" in estimate.name


def _draw(
    data: pd.DataFrame,
    pairs: list[tuple[str, str]],
    pearson: dict[tuple[str, str], Estimate | None],
    forms: list[Estimate],
    seed: int,
    about: About,
) -> Figure:
    across = min(_ACROSS, len(pairs))
    down = -(-len(pairs) // across)
    styles = about.styles(data["model"])
    columns = across if max(map(len, styles)) <= _NARROW else min(across, 2)
    width = COLUMN_MM if across == 1 else PAGE_MM
    panel = 75.0 if across == 1 else width / _ACROSS
    lines = len(forms) if across == 1 else bool(forms)
    figure = new_figure(width, down * (panel + 10) + 5 * lines + 4 + 5 * (-(-len(styles) // columns)))
    grid = figure.subplots(down, across, squeeze=False)
    shift = np.random.default_rng(seed)
    for place, axes in enumerate(grid.flat):
        if place >= len(pairs):
            axes.set_axis_off()
            continue
        _draw_panel(axes, data, pairs[place], pearson[pairs[place]], styles, shift)
    if forms:
        told = ("\n" if across == 1 else "; ").join(_short(e) for e in forms)
        figure.suptitle(f"All judges: {told}" if across > 1 else told, fontsize=8)
    labels = shortened(styles)
    handles = [
        Line2D([], [], color=s.color, marker=s.marker, linestyle="none", label=labels[name])
        for name, s in styles.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, borderaxespad=0.2)
    return settle(figure)


def _draw_panel(
    axes: Axes,
    data: pd.DataFrame,
    pair: tuple[str, str],
    pearson: Estimate | None,
    styles: dict[str, ModelStyle],
    shift: np.random.Generator,
) -> None:
    rows = data[(data["first"] == pair[0]) & (data["second"] == pair[1])]
    axes.plot([0, 5], [0, 5], color=GREY, linestyle="--", linewidth=0.8, zorder=1)
    moved = rows[["first_composite", "second_composite"]].astype(float)
    moved = moved + shift.uniform(-_JITTER, _JITTER, size=(len(rows), 2))
    size = 3.5 if len(rows) <= 150 else 2.2  # hundreds of answers would be one blot
    for name, style in styles.items():
        own = moved[rows["model"] == name]
        axes.plot(
            own["first_composite"], own["second_composite"], linestyle="none", color=style.color,
            marker=style.marker, markersize=size, alpha=0.6, markeredgewidth=0, zorder=2, clip_on=False,
        )  # fmt: skip
    score_axis(axes, f"{shorten(pair[0], 20)} judge (0–5)", which="x")
    score_axis(axes, f"{shorten(pair[1], 20)} judge (0–5)", which="y")
    axes.set_aspect("equal")
    told = _short(pearson, "r") if pearson is not None else "r not estimated"
    axes.set_title(f"{told}\nn = {counted(len(rows), 'answers')}")


def _short(estimate: Estimate, name: str = "") -> str:
    label = name or estimate.name
    if estimate.estimate is None:
        return f"{label} not estimable"
    text = f"{label} = {decimals(estimate.estimate)}"
    if estimate.low is not None and estimate.high is not None:
        text += f" [{decimals(estimate.low)}, {decimals(estimate.high)}]"
    return text


def _alt_text(
    data: pd.DataFrame,
    pairs: list[tuple[str, str]],
    pearson: dict[tuple[str, str], Estimate | None],
) -> str:
    said = "; ".join(
        f"{a} and {b}: {counted(int(((data['first'] == a) & (data['second'] == b)).sum()), 'answers')}"
        + (
            f", r = {decimals(e.estimate)}"
            if (e := pearson[(a, b)]) is not None and e.estimate is not None
            else ""
        )
        for a, b in pairs
    )
    return f"Scatter of the composite scores of pairs of judges, 0 to 5 on both axes: {said}."

"""Draw a dataset: python scripts/dataset_figures.py DATASET FOLDER writes figures, their data and their captions.

Lengths, similarity, readability, kinds of facts, balance, and what each base adds, for those who write a dataset.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator, NullFormatter

from toolkit.prompts.check import GRADES
from toolkit.prompts.content import readability
from toolkit.prompts.dataset import CSF, FACT_KINDS, Dataset, Prompt, by_bin, load_dataset
from toolkit.prompts.similarity import NEAR, jaccard
from toolkit.report import captions, style
from toolkit.report.escape import readable
from toolkit.report.figure import About, FigureWithCaption, save_figure
from toolkit.words import LENGTH_BINS, agreeing, counted, scenario_rank

_TEXT = {
    "seen": "Dataset {name} in figures: {panels}.",
    "lengths": "prompts by their number of tokens (o200k_base), grey the range that a length may have",
    "lengths_notes": "{bar} tokens to a bar, the highest bar of each length equally high: {counts}.{absent}",
    "similarity": "pairs of bases by the share of word 5-grams that the two have in common, near-copies right of the "
    "dashed line",
    "similarity_notes": "Median and highest share (Jaccard), on a logarithmic axis: {shares}.",
    "readability": "Flesch-Kincaid grade (years of school in the United States), black the mean, {marks}",
    "readability_notes": "Mean grades: {means}. A base whose lengths lie more than {grades:g} grades apart is a flaw.",
    "lines": "grey one base each",
    "boxes": "with boxes around the middle half of the bases and whiskers around the middle 90%",
    "balance": "bases of each scenario (bold) and category{functions}",
    "balance_notes": "{categories} of {sizes}.{unknown}{many}",
    "functions": " by function of the Cybersecurity Framework (CSF) of NIST: {names}",
    "many": " There are too many categories to show them one by one.",
    "facts": "facts of each kind in a prompt, mean over bases; a decoy is true and leads astray",
    "facts_notes": "Means over {bases} of {all} bases, which tell the kinds of their facts.",
    "novelty": "1 − the highest share of word 5-grams in common with any base before it at the same length, "
    "near-copies below the dashed line",
    "novelty_notes": "The lowest is {lowest}.{cut}",
}

CLASSES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, NEAR, 1.0)
"""Upper ends of the classes of similarity; texts of the first class share no gram."""
UNTOLD = "not told"


def prompts_profile(dataset: Dataset) -> pd.DataFrame:
    """Return a row for each prompt: labels, tokens, readability and novelty."""
    bases = dict.fromkeys(prompt.base for prompt in dataset.prompts)
    positions = {base: position for position, base in enumerate(bases, 1)}
    rows: list[dict[str, Any]] = []
    for level, prompts in by_bin(dataset.prompts).items():
        new = novelty([prompt.text for prompt in prompts], [prompt.base for prompt in prompts])
        rows += [
            {
                "prompt_id": prompt.prompt_id, "base": prompt.base, "place": positions[prompt.base],
                "scenario": prompt.scenario, "category": prompt.category,
                "csf": prompt.metadata.get("csf") or UNTOLD, "level": level, "tokens": prompt.token_count,
                "grade": readability(prompt.text), "novelty": float(added),
            }
            for prompt, added in zip(prompts, new, strict=True)
        ]  # fmt: skip
    return pd.DataFrame(rows).sort_values("place", kind="stable", ignore_index=True)


def similarity_profile(dataset: Dataset) -> pd.DataFrame:
    """Return the number of pairs of bases in each class of similarity, at each length."""
    rows = []
    for level, prompts in by_bin(dataset.prompts).items():
        bases = np.array([prompt.base for prompt in prompts])
        distinct = np.triu(bases[:, None] != bases[None, :], 1)
        classes = np.searchsorted(CLASSES, jaccard([prompt.text for prompt in prompts])[distinct] - 1e-9)
        counts = np.bincount(classes, minlength=len(CLASSES))
        rows += [(level, end, int(count)) for end, count in zip(CLASSES, counts, strict=True)]
    return pd.DataFrame(rows, columns=["level", "up_to", "pairs"])


def facts_profile(dataset: Dataset) -> pd.DataFrame:
    """Return the mean number of facts of each kind per prompt, at each length, over bases with kinds."""
    rows = []
    for level, prompts in by_bin(dataset.prompts).items():
        bases = [kinds for prompt in prompts if (kinds := prompt.metadata.get("fact_kinds"))]
        for kind in FACT_KINDS if bases else ():
            rows.append((level, kind, float(np.mean([kinds.count(kind) for kinds in bases])), len(bases)))
    return pd.DataFrame(rows, columns=["level", "kind", "facts", "bases"])


def balance_profile(dataset: Dataset) -> pd.DataFrame:
    """Return the number of bases of each scenario, category and CSF function."""
    keys = ["scenario", "category", "csf"]
    first = prompts_profile(dataset).drop_duplicates("base")
    order = {name: n for n, name in enumerate(sorted({*first["scenario"]}, key=scenario_rank))}
    counts = first.groupby(keys, sort=True).size().rename("bases").reset_index()
    return counts.sort_values(
        "scenario", key=lambda names: names.map(order), kind="stable", ignore_index=True
    )


def novelty(texts: Sequence[str], bases: Sequence[str]) -> np.ndarray:
    """Return 1 - the highest similarity of each text to an earlier one of another base; nan where there is none."""
    labels = np.array(bases)
    before = np.tril(labels[:, None] != labels[None, :], -1)
    nearest = np.where(before, jaccard(texts), -np.inf).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(nearest), 1 - nearest, np.nan)


def texts_by_bin(prompts: Sequence[Prompt]) -> dict[str, dict[str, Any]]:
    """Return tokens (least, median, most), mean grade and similarity of two bases (median, most) of each length bin."""
    texts = {}
    for level, members in by_bin(prompts).items():
        tokens = [prompt.token_count for prompt in members]
        alike = jaccard([prompt.text for prompt in members])[np.triu_indices(len(members), 1)]
        grades = [grade for prompt in members if not isnan(grade := readability(prompt.text))]
        texts[level] = {
            "tokens": [min(tokens), float(np.median(tokens)), max(tokens)],
            "grade": float(np.mean(grades)) if grades else None,
            "similarity": [float(np.median(alike)), float(alike.max())] if len(alike) else [0.0, 0.0],
        }
    return texts


# --- figures ---

NAME = "dataset"
_COLOURS = dict(zip(LENGTH_BINS, style.PALETTE, strict=False))
_MARKERS = dict(zip(LENGTH_BINS, style.MARKERS, strict=False))
_CSF = dict(zip((*CSF, UNTOLD), ("GV", "ID", "PR", "DE", "RS", "RC", "?"), strict=True))
"""The identifiers that the framework itself gives to its functions."""
_ROW_MM = 3.8
_PANEL_MM = 42.0
_ROWS = 28  # most categories that are shown one by one
_TOKENS = 10  # width of a bar of the token counts


@dataclass(frozen=True)
class _Panel:
    """One panel: name, title, what is seen and its notes, its data and how they are drawn, and why there is nothing."""

    name: str
    title: str
    lead: str
    notes: str
    data: pd.DataFrame
    draw: Callable[[Axes, pd.DataFrame], None]
    reason: str = ""
    height: float = _PANEL_MM
    on_page: bool = True

    @property
    def words(self) -> str:
        """Title and what is seen, or why nothing is."""
        return f"{self.title}: {self.reason or self.lead}"

    def fill(self, figure: FigureBase, letter: str = "") -> None:
        figure.suptitle(f"{letter} {self.title}".strip(), x=0.02, ha="left", fontweight="bold")
        self.draw(figure.subplots(), self.data)


def dataset_figures(dataset: Dataset) -> tuple[FigureWithCaption, ...]:
    """Draw a dataset: what tells most on one page first, then each panel as a figure as wide as a column."""
    panels = _panels(dataset)
    date = dataset.date.isoformat() if dataset.date else ""
    facts = [f"version {dataset.version}", date, dataset.focus, f"SHA-256 {dataset.digest[:12]}"]
    n = {"bases": len({prompt.base for prompt in dataset.prompts}), "prompts": len(dataset.prompts)}
    source = f"Dataset {dataset.name} ({'; '.join(filter(None, facts))})"
    context = About(source=source, n=n)
    return (_page(panels, dataset.name, context), *(_alone(panel, context) for panel in panels))


def _alone(panel: _Panel, context: About) -> FigureWithCaption:
    name = f"{NAME}_{panel.name}"
    if panel.reason:
        return context.nothing_drawn(name, panel.reason, panel.title)
    with style.thesis_style():
        figure = style.new_figure(style.COLUMN_MM, panel.height)
        panel.fill(figure)
        style.settle(figure)
    text = captions.join(f"{panel.words}.", panel.notes)
    return _captioned(name, figure, panel.data, text, f"{panel.words}.", context, [panel.notes])


def _captioned(
    name: str,
    figure: Figure,
    data: pd.DataFrame,
    alt_text: str,
    lead: str,
    context: About,
    notes: Sequence[str],
    also: Sequence[str] = (),
) -> FigureWithCaption:
    """Return a figure of a dataset with its caption and notes."""
    basis = [captions.n_words(context.n), captions.NO_INTERVALS, context.missing, *also]
    caption, remarks = context.compose(lead, basis, (), notes, ())
    return FigureWithCaption(name, figure, caption, alt_text, data, context.n, notes=remarks)


def _page(panels: Sequence[_Panel], name: str, context: About) -> FigureWithCaption:
    filled = [panel for panel in panels if panel.on_page and not panel.reason]
    columns: tuple[list[_Panel], list[_Panel]] = ([], [])
    for panel in sorted(filled, key=lambda panel: -panel.height):
        min(columns, key=_height).append(panel)
    ordered = [sorted(column, key=panels.index) for column in columns]
    ordered.sort(key=lambda column: panels.index(column[0]))
    letters = (f"({letter})" for letter in "abcdefgh")
    texts: list[str] = []
    notes: list[str] = []
    with style.thesis_style():
        figure = style.new_figure(style.PAGE_MM, max(map(_height, columns)))
        for half, column in zip(_parts(figure, 1, 2), ordered, strict=True):
            parts = _parts(half, len(column), 1, height_ratios=[panel.height for panel in column])
            for part, panel, letter in zip(parts, column, letters, strict=False):
                panel.fill(part, letter)
                texts.append(f"{letter} {panel.words}")
                notes.append(f"{letter} {panel.notes}")
        style.settle(figure)
    empty = [panel.words for panel in panels if panel.reason and panel.on_page]
    data = pd.concat([panel.data.assign(panel=panel.name) for panel in filled], ignore_index=True)
    lead = _TEXT["seen"].format(name=name, panels="; ".join(texts))
    alt_text = captions.join(captions.sentence(*texts), *notes)
    return _captioned(NAME, figure, data, alt_text, lead, context, notes, empty)


def _parts(figure: FigureBase, down: int, across: int, **more: Any) -> list[FigureBase]:
    """Return parts of a figure that are laid out each for itself: long labels of one do not narrow the others."""
    return list(np.ravel(np.asarray(figure.subfigures(down, across, squeeze=False, **more), dtype=object)))


def _height(column: Sequence[_Panel]) -> float:
    return sum(panel.height for panel in column)


def _panels(dataset: Dataset) -> tuple[_Panel, ...]:
    prompts, facts = prompts_profile(dataset), facts_profile(dataset)
    pairs, balance = similarity_profile(dataset), balance_profile(dataset)
    texts = texts_by_bin(dataset.prompts)
    lone = "one base has no other to be compared with" if not pairs["pairs"].sum() else ""
    absent = [name for name in LENGTH_BINS if name not in texts]
    rows = _balance_rows(balance)

    def by_length(key: str, text: Callable[[Any], str]) -> str:
        return ", ".join(f"{name} {text(values[key])}" for name, values in texts.items())

    text, floor = _TEXT, _floor(prompts["novelty"])
    values = _balance_values(balance) | {
        "bar": _TOKENS,
        "counts": by_length("tokens", lambda ends: f"{ends[0]}–{ends[2]} (median {ends[1]:g})"),
        "absent": f" No prompt in bin {', '.join(absent)}." if absent else "",
        "shares": by_length("similarity", lambda pair: " and ".join(style.decimals(e, 3) for e in pair)),
        "marks": text["boxes" if prompts["base"].nunique() > style.MANY_BASES else "lines"],
        "means": by_length("grade", _grade),
        "grades": GRADES,
        "bases": facts["bases"].max(),
        "all": prompts["place"].max(),
        "lowest": style.decimals(float(prompts["novelty"].min()), 3),
        "cut": " The axis does not begin at 0." if floor else "",
    }

    def panel(name: str, title: str, data: pd.DataFrame, draw: Any, reason: str = "", **more: Any) -> _Panel:
        lead, notes = (text[key].format(**values) for key in (name, f"{name}_notes"))
        return _Panel(name, title, lead, notes, data, draw, reason, **more)

    lines = max(_row_label(label).count("\n") + 1 for label, _ in rows)
    tall = _ROW_MM * (1.15 * lines if lines > 1 else 1) * len(rows) + 14
    grade = partial(_draw_readability, {name: measures["grade"] for name, measures in texts.items()})
    novel = prompts[["prompt_id", "base", "place", "level", "novelty"]].dropna()
    untold = "" if len(facts) else "no base tells the kinds of its facts"
    return (
        panel("lengths", "Token lengths", prompts[["prompt_id", "level", "tokens"]], _draw_lengths),
        panel("similarity", "Similarity of bases", pairs, _draw_similarity, lone),
        panel("readability", "Readability", prompts[["prompt_id", "base", "level", "grade"]], grade),
        panel("balance", "Balance", balance, partial(_draw_balance, rows), height=tall),
        panel("facts", "Kinds of facts", facts, _draw_facts, untold),
        panel("novelty", "What each base adds", novel, _draw_novelty, lone, on_page=False),
    )


def _by_bin(data: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(name, data[data["level"] == name]) for name in LENGTH_BINS if name in set(data["level"])]


def _grade(mean: float | None) -> str:
    return "without a word" if mean is None else style.decimals(mean, 1)


def _name_bins(axes: Axes) -> None:
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0, columnspacing=1.2)


def _draw_lengths(axes: Axes, data: pd.DataFrame) -> None:
    rows = _by_bin(data)[::-1]
    for up, (name, prompts) in enumerate(rows):
        low, high = LENGTH_BINS[name]
        axes.bar(low, 0.9, width=high - low, align="edge", bottom=up, color=style.GREY, alpha=0.35)
        tokens = prompts["tokens"] - (prompts["tokens"] == high)  # the end is of the range, and so is its bar
        bars = (tokens // _TOKENS * _TOKENS).value_counts()
        heights = bars / bars.max() * 0.8
        axes.bar(bars.index, heights, _TOKENS, align="edge", bottom=up, color=_COLOURS[name])
    axes.set_yticks([up + 0.4 for up in range(len(rows))], [name for name, _ in rows])
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, max(1050, data["tokens"].max() + _TOKENS)), ylim=(0, len(rows)), xlabel="Tokens")


def _draw_similarity(axes: Axes, data: pd.DataFrame) -> None:
    several = _by_bin(data)
    for number, (name, rows) in enumerate(several):
        right = np.arange(len(rows)) + (number - len(several) / 2) * 0.26
        axes.bar(right, rows["pairs"], 0.26, align="edge", color=_COLOURS[name], label=name)
    ends = [f"{end:g}".lstrip("0") for end in CLASSES[1:]]
    axes.set_xticks([0, *(number + 1.5 for number in range(len(ends)))], ["none", *ends])
    limit = CLASSES.index(NEAR) + 0.5
    axes.axvline(limit, color=style.INK, linestyle="--", linewidth=0.8)
    axes.text(limit - 0.1, 0.97, "limit", ha="right", va="top", transform=axes.get_xaxis_transform())
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")  # no powers, which are set as a formula
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set(xlim=(-0.5, len(ends) + 0.5), ylim=(0.6, None))
    axes.set(xlabel="Share of word 5-grams in common, up to", ylabel="Pairs of bases (log.)")
    _name_bins(axes)


def _draw_readability(means: Mapping[str, float | None], axes: Axes, data: pd.DataFrame) -> None:
    names = list(means)
    if data["base"].nunique() > style.MANY_BASES:
        style.boxes(axes, [data.loc[data["level"] == name, "grade"] for name in names], 0.4)
        data = data.iloc[:0]
    thin: dict[str, Any] = {"color": style.GREY, "linewidth": 0.5, "marker": ".", "markersize": 2.5}
    for _, base in data.groupby("base", sort=False):
        axes.plot([names.index(name) for name in base["level"]], base["grade"], alpha=0.6, **thin)
    axes.plot(range(len(names)), pd.Series(means, dtype=float), color=style.INK, marker="o", linewidth=1.6)
    axes.set_xticks(range(len(names)), names)
    axes.set(xlim=(-0.4, len(names) - 0.6), xlabel="Length of the prompt", ylabel="Grade")


def _draw_facts(axes: Axes, data: pd.DataFrame) -> None:
    kinds = list(FACT_KINDS)[::-1]
    most = data.groupby("kind")["facts"].max().reindex(kinds)
    axes.barh(range(len(kinds)), most, height=0.06, color=style.GREY)
    for name, rows in _by_bin(data):
        up = [kinds.index(kind) for kind in rows["kind"]]
        axes.plot(rows["facts"], up, _MARKERS[name], color=_COLOURS[name], label=name, clip_on=False)
    style.row_axis(axes, kinds)
    axes.tick_params(axis="y", pad=6)
    axes.set(xlim=(0, most.max() * 1.03), xlabel="Facts in a prompt, mean")
    _name_bins(axes)


def _floor(novelty: pd.Series) -> float:
    """Return where the axis of novelty begins: the limit is seen, and all that lies below it."""
    return max(0.0, min(0.6, float(novelty.min()) - 0.05))


def _draw_novelty(axes: Axes, data: pd.DataFrame) -> None:
    for name, rows in _by_bin(data):
        look: dict[str, Any] = {"color": _COLOURS[name], "markersize": 3, "clip_on": False}
        axes.plot(rows["place"], rows["novelty"], _MARKERS[name], label=name, **look)
    axes.axhline(1 - NEAR, color=style.INK, linestyle="--", linewidth=0.8)
    axes.set(ylim=(_floor(data["novelty"]), 1), xlim=(1, data["place"].max() + 1))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set(xlabel="Base, in the order of the dataset", ylabel="Novelty")
    _name_bins(axes)


def _balance_rows(balance: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of the table: each scenario, under it its categories unless they are too many, and all."""
    rows = []
    few = len(balance[["scenario", "category"]].drop_duplicates()) <= _ROWS
    for scenario, bases in balance.groupby("scenario", sort=False):
        rows.append((str(scenario), bases))
        rows += [(f" {category}", group) for category, group in bases.groupby("category") if few]
    return [*rows, ("All", balance)]


def _row_label(name: str) -> str:
    return textwrap.fill(readable(name), 34)


def _balance_values(balance: pd.DataFrame) -> dict[str, Any]:
    """Return what the texts of the balance say: its columns, and how many bases there are of what."""
    names = ", ".join(f"{_CSF[name]} {name.capitalize()}" for name in CSF if name in set(balance["csf"]))
    unknown = int(balance.loc[balance["csf"] == UNTOLD, "bases"].sum())
    sizes = balance.groupby(["scenario", "category"])["bases"].sum()
    least = f"{sizes.min()} to " if sizes.min() < sizes.max() else ""
    text, mark = _TEXT, " (?)" if names else ""
    missing = f" {counted(unknown, 'bases')} {agreeing(unknown, 'have')} no CSF function{mark}."
    return {
        "functions": text["functions"].format(names=names) if names else "",
        "categories": counted(len(sizes), "categories"),
        "sizes": f"{least}{counted(sizes.max(), 'bases')}",
        "unknown": missing if unknown else "",
        "many": text["many"] if len(sizes) > _ROWS else "",
    }


def _draw_balance(rows: Sequence[tuple[str, pd.DataFrame]], axes: Axes, data: pd.DataFrame) -> None:
    present = [name for name in _CSF if name in set(data["csf"])]
    columns = present if present != [UNTOLD] else []
    head = [not label.startswith(" ") for label, _ in rows]
    counts = [[int(bases.loc[bases["csf"] == name, "bases"].sum()) for name in columns] for _, bases in rows]
    shades = np.array([[*row, 0] for row in counts]) * ~np.array(head)[:, None]
    dark = 2 * max(1, shades.max())  # black numbers stay readable
    axes.imshow(np.ma.masked_equal(shades, 0), cmap="Blues", vmin=0, vmax=dark, aspect="auto")
    for down, ((_, bases), row, bold) in enumerate(zip(rows, counts, head, strict=True)):
        look: dict[str, Any] = {
            "ha": "center",
            "va": "center_baseline",
            "fontweight": "bold" if bold else "normal",
        }
        for column, count in enumerate([*row, bases["bases"].sum()]):
            axes.text(column, down, str(count or ""), **look)
        axes.axhline(down - 0.5, color=style.GREY, linewidth=0.5 * (bold and down > 0))
    axes.set_xticks(range(len(columns) + 1), [*(_CSF[name] for name in columns), "all"])
    axes.tick_params(axis="x", length=0, labeltop=True, labelbottom=False)
    style.row_axis(axes, [_row_label(label) for label, _ in rows], (len(rows) - 0.5, -0.5))
    for label, bold in zip(axes.get_yticklabels(), head, strict=True):
        label.set_fontweight("bold" if bold else "normal")
    axes.spines[:].set_visible(False)


if __name__ == "__main__":
    for figure in dataset_figures(load_dataset(sys.argv[1], check_ranges=False)):
        print("\n".join(str(path) for path in save_figure(figure, Path(sys.argv[2]))))

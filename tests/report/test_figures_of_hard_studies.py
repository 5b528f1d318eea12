"""Figures of studies that are not the demo: many models, long names, ceilings, gaps; and every number once more."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.text import Text
from scipy import stats as scipy_stats
from whole_study import make_study

from toolkit.analyses import Analyses
from toolkit.report.judge_card_table import judge_card_table
from toolkit.report.labels import label_offsets, shortened
from toolkit.report.results_figure import results_figure
from toolkit.report.saving import save_figure
from toolkit.report.study_figures import draw_study
from toolkit.report.study_report import write_figures
from toolkit.report.style import PAGE_HIGH_MM
from toolkit.stats.result import Estimate
from toolkit.words import DIMENSIONS
from toolkit.workbench.drawing import about_judged, study_results

NINE = tuple(f"vendor_{'x' * 26}_100%_R&D_{letter}" for letter in "abcdefghi")
BINS = {"S": 0.0, "M": 1.0, "L": 2.0}


def drawn(held, plan, *names: str) -> dict:
    """Return figures of a study by name."""
    found = study_results(held, plan, names)
    return {figure.name: figure for figure in draw_study(found, about_judged(held, plan), names)}


@pytest.fixture(scope="module")
def large():
    """Three models, two repeats, some scores missing: the runs, the judgements, and what is drawn of them."""
    held, plan = make_study(("m-a", "m-b", "m-c"), bases=9, repeats=2, missing=0.06)
    names = (
        "quality_by_length",
        "equivalence",
        "cost_quality",
        "length_slope",
        "judge_agreement",
        "bland_altman",
    )
    figures = drawn(held, plan, *names, "icc_forest", "missing_data", "variance_components")
    runs = held.runs.astype({"length_bin": "string"})
    return runs[runs["judged"]], held.judgements, figures


@pytest.fixture(scope="module")
def nine():
    """Nine models whose names differ in the last letter only."""
    names = (
        "quality_by_length",
        "equivalence",
        "dimension_profile",
        "cost_quality",
        "judge_agreement",
        "missing_data",
    )
    return drawn(*make_study(NINE, bases=4, missing=0.0), *names)


def interval(values, level: float = 0.95) -> list[float]:
    """Return mean and Student's interval of some values."""
    values = np.asarray(values, dtype=float)
    reach = scipy_stats.t.ppf((1 + level) / 2, len(values) - 1) * scipy_stats.sem(values)
    return [values.mean(), values.mean() - reach, values.mean() + reach]


def test_the_quality_figure_draws_what_scipy_finds(large) -> None:
    """Means and intervals of all models and of each, repeats averaged first; grey points average to the black ones."""
    runs, _, figures = large
    data = figures["quality_by_length"].data
    cells = runs.groupby(["base", "model", "length_bin"])["composite"].mean()
    for length_bin in BINS:
        own = data[data["length_bin"] == length_bin]
        of_bin = cells.xs(length_bin, level="length_bin")
        mean = own.loc[own["kind"] == "mean", ["composite", "low", "high"]].iloc[0].tolist()
        assert mean == pytest.approx(interval(of_bin.groupby("base").mean()))
        assert own.loc[own["kind"] == "base", "composite"].mean() == pytest.approx(mean[0])
        for model in ("m-a", "m-b", "m-c"):
            row = own[(own["kind"] == "model") & (own["name"] == model)]
            expected = interval(of_bin.xs(model, level="model"))
            assert row[["composite", "low", "high"]].iloc[0].tolist() == pytest.approx(expected)


def test_the_equivalence_figure_draws_what_scipy_finds(large) -> None:
    """Differences within base and model, 90 % intervals, both one-sided tests, and Holm within each family."""
    runs, _, figures = large
    cells = runs.groupby(["base", "model", "length_bin"])["composite"].mean().unstack()
    for of, rows in figures["equivalence"].data.groupby("of"):
        own = cells if of == "all models" else cells.xs(of, level="model")
        raw = []
        for row in rows.itertuples():
            later, earlier = row.contrast.split("-")
            values = (own[later] - own[earlier]).dropna().groupby("base").mean()
            assert [row.difference, row.low, row.high] == pytest.approx(interval(values, 0.90))
            assert row.bases == len(values)
            above = scipy_stats.ttest_1samp(values, -0.5, alternative="greater").pvalue
            below = scipy_stats.ttest_1samp(values, 0.5, alternative="less").pvalue
            raw.append(max(above, below))
        order = np.argsort(raw)
        steps = np.maximum.accumulate([min(1.0, (len(raw) - i) * raw[j]) for i, j in enumerate(order)])
        assert rows["p_value"].to_numpy()[order] == pytest.approx(steps)
        shown = ["equivalent" if p < 0.05 else "equivalence not shown" for p in rows["p_value"]]
        assert rows["verdict"].tolist() == shown


def test_the_slope_is_that_of_the_model_which_its_caption_names(large) -> None:
    """Least squares with a constant for each base and each model at each length, by numpy."""
    runs, _, figures = large
    cell = runs["model"].astype(str) + runs["length_bin"].astype(str)
    dummies = pd.get_dummies(pd.DataFrame({"base": runs["base"].astype(str), "cell": cell}), dtype=float)
    design = np.column_stack([runs["output_tokens"].astype(float) / 100, dummies])
    slope = np.linalg.lstsq(design, runs["composite"].to_numpy(dtype=float), rcond=None)[0][0]
    line = (
        figures["length_slope"].data.query("kind == 'slope' and model == 'm-a'").sort_values("output_tokens")
    )
    ends = line.iloc[[0, -1]]
    rise = np.diff(ends["composite"])[0] / np.diff(ends["output_tokens"])[0]
    assert 100 * rise == pytest.approx(slope)
    assert "each combination of model and prompt length (fixed effects)" in figures["length_slope"].caption


def test_the_front_and_its_points_are_what_pandas_finds(large) -> None:
    """Means over bases of score and cost, and no point on the front is beaten by another."""
    runs, _, figures = large
    data = figures["cost_quality"].data
    for row in data.itertuples():
        own = runs[(runs["model"] == row.model) & (runs["length_bin"] == row.length_bin)]
        means = own.groupby("base")[["composite", "aud_cost"]].mean()
        assert [row.quality, row.quality_low, row.quality_high] == pytest.approx(interval(means["composite"]))
        assert [row.cost, row.cost_low, row.cost_high] == pytest.approx(interval(means["aud_cost"]))
        beaten = (data["quality"] >= row.quality) & (data["cost"] <= row.cost)
        beaten &= (data["quality"] > row.quality) | (data["cost"] < row.cost)
        assert row.on_front != beaten.any()


def test_agreement_is_drawn_as_the_textbook_has_it(large) -> None:
    """Bias of each pair and its answers, and ICC(A,1) and ICC(C,k) from the mean squares (McGraw & Wong 1996)."""
    _, judgements, figures = large
    scores = judgements[~judgements["failed"]].pivot(index="run_id", columns="judge", values="composite")
    lines = figures["bland_altman"].data.query("kind == 'bias'")
    sizes = []
    for row in lines.itertuples():
        both = scores[[row.first, row.second]].dropna()
        sizes.append(len(both))
        assert row.difference == pytest.approx((both[row.first] - both[row.second]).mean())
    assert f"each pair: 9 bases, {min(sizes)} to {max(sizes)} answers)" in figures["bland_altman"].caption
    whole = scores.dropna().to_numpy()
    n, k = whole.shape
    rows, columns = whole.mean(axis=1), whole.mean(axis=0)
    between = k * ((rows - whole.mean()) ** 2).sum() / (n - 1)
    judges = n * ((columns - whole.mean()) ** 2).sum() / (k - 1)
    rest = ((whole - rows[:, None] - columns + whole.mean()) ** 2).sum() / ((n - 1) * (k - 1))
    forest = figures["icc_forest"].data.query("dimension == 'composite'").set_index("form")
    single = (between - rest) / (between + (k - 1) * rest + k * (judges - rest) / n)
    assert forest.loc["ICC(A,1)", "estimate"] == pytest.approx(single)
    assert forest.loc["ICC(C,k)", "estimate"] == pytest.approx((between - rest) / between)
    assert forest.loc["ICC(A,1)", "answers"] == n


def test_captions_say_what_is_true_of_this_study(large) -> None:
    """Correction, what a mean rests on, levels by name, and no word of one repeat in a study of two."""
    _, _, figures = large
    quality, agreement = figures["quality_by_length"].caption, figures["judge_agreement"].caption
    assert "not corrected for their number and test no difference" in quality
    assert "Nothing is corrected for the number of pairs." in agreement
    assert re.search(
        r"prompt length p = [\d.e-]+, model p = [\d.e-]+, judge p = ", figures["missing_data"].caption
    )
    assert "2 repeats" in figures["variance_components"].caption
    assert "One repeat only" not in figures["variance_components"].caption
    assert "Each judge judged an answer once" in figures["variance_components"].caption


def test_lines_of_bases_that_mix_models_are_counted() -> None:
    """A base whose models do not have every length has a line that is not of length alone."""
    held, plan = make_study(bases=4, missing=0.0)
    runs = held.runs
    assert "same models" not in drawn(held, plan, "quality_by_length")["quality_by_length"].caption
    gone = (runs["base"] == "base_01") & (runs["model"] == "gpt-4o") & (runs["length_bin"] == "S")
    runs.loc[gone, ["composite", *DIMENSIONS]] = np.nan
    runs.loc[gone, "judged"] = False
    assert (
        "because scores are missing: 1."
        in drawn(held, plan, "quality_by_length")["quality_by_length"].caption
    )


def test_nine_models_stay_with_their_bin_inside_the_axes(nine) -> None:
    """No mark of the quality figure is off the axis, or nearer to the neighbouring bin than to its own."""
    (axes,) = nine["quality_by_length"].figure.axes
    low, high = axes.get_xlim()
    of_models = [bars.lines[0] for bars in axes.containers if len(bars.lines[0].get_xdata()) == 3]
    assert len(of_models) == 10
    for line in of_models:
        for place, x in zip(BINS.values(), line.get_xdata(), strict=True):
            assert low < x < high
            assert abs(x - place) < 0.4


def test_nine_models_fit_a_page_at_the_size_they_are_drawn(nine) -> None:
    """A figure that is made smaller to fit a page no longer has 8 pt."""
    for figure in nine.values():
        assert figure.figure.get_size_inches()[1] * 25.4 <= PAGE_HIGH_MM + 0.5, figure.name


def test_names_that_differ_at_their_end_stay_apart_in_every_legend(nine) -> None:
    """Cut at the end all nine would be one name."""
    for name in ("quality_by_length", "cost_quality", "judge_agreement", "dimension_profile"):
        (legend,) = nine[name].figure.legends
        told = [text.get_text() for text in legend.get_texts() if text.get_text().startswith("vendor")]
        assert len(set(told)) == len(told) == 9, name
    ticks = {text.get_text() for text in nine["missing_data"].figure.axes[0].get_yticklabels()}
    assert len(ticks) == 2 + 3 + 9 + 3


@pytest.mark.parametrize(
    "names", [[], ["a"], ["a" * 50], ["a" * 20 + "x" + "a" * 20, "a" * 20 + "y" + "a" * 20]]
)
def test_shortened_names_fit_and_differ(names: list[str]) -> None:
    """Also where two differ in their middle only, which no cut shows: then they are counted."""
    short = shortened(names, 12)
    assert list(short) == names
    assert len(set(short.values())) == len(names)
    assert all(len(one) <= 16 for one in short.values())


def test_labels_of_close_marks_hide_neither_marks_nor_each_other() -> None:
    """Eight marks in a heap: every letter is apart from all others and from all marks, and inside."""
    dice = np.random.default_rng(5)
    marks = [(float(x), float(y)) for x, y in dice.uniform(60, 105, (8, 2))]
    offsets = label_offsets(marks, [], (200, 200))
    places = [(x + a, y + b) for (x, y), (a, b) in zip(marks, offsets, strict=True)]
    for i, (x, y) in enumerate(places):
        assert min(x, y) > 3
        assert max(x, y) < 197
        assert all(max(abs(x - u), abs(y - v)) >= 6.9 for j, (u, v) in enumerate(places) if j != i)
        assert all(math.hypot(x - u, y - v) >= 6.9 for u, v in marks)
    assert label_offsets([], [], (200, 200)) == []
    (at_corner,) = label_offsets([(0.0, 200.0)], [], (200, 200))
    assert at_corner[0] > 0 > at_corner[1]


def ceiling(bases: int = 4):
    """Return a study in which every judge gave every reply a 5."""
    held, plan = make_study(bases=bases, missing=0.0)
    runs, judgements = held.runs, held.judgements
    for frame in (runs, judgements):
        frame.loc[:, [name for name in (*DIMENSIONS, "composite", "composite_strict") if name in frame]] = 5.0
    return Analyses(runs, judgements, margin=held.margin), plan


def test_a_ceiling_is_drawn_whole_and_said_shortly() -> None:
    """Marks at 5 are not cut, a heap of answers is no blot over its neighbours, and a reason is said once."""
    figures = drawn(*ceiling(), "quality_by_length", "cost_quality", "bland_altman", "equivalence")
    (axes,) = figures["quality_by_length"].figure.axes
    assert not any(bars.lines[0].get_clip_on() for bars in axes.containers)
    for axes in figures["bland_altman"].figure.axes:
        (heap,) = (one for one in axes.collections if isinstance(one, PathCollection))
        assert 0 < heap.get_sizes().max() <= 70
    for name in ("bland_altman", "equivalence"):
        assert figures[name].caption.count("are equal)") == 1, name
    labels = [text for text in figures["cost_quality"].figure.findobj(Text) if text.get_text() in BINS]
    assert len([text for text in labels if text.axes is not None]) == 6


def test_an_interval_wider_than_the_scale_is_cut_and_said_so() -> None:
    """Differences of two scores of 0-5 cannot leave ±5, and the axis shows no more than that."""
    held, plan = make_study(bases=3, missing=0.0, judges=("primary", "secondary"))
    judgements = held.judgements
    odd = (judgements["judge"] == "primary") & (judgements["base"] == "base_00")
    judgements.loc[odd, "composite"] = 0.5
    figure = drawn(held, plan, "bland_altman")["bland_altman"]
    assert figure.data[["low", "high"]].abs().max().max() > 5
    (axes,) = figure.figure.axes
    assert axes.get_ylim() == (-5, 5)
    assert (
        "shows ±5 of the ±5 points that are possible. An interval that goes on beyond the axis"
        in figure.caption
    )


def test_bases_that_cannot_be_paired_are_called_bases() -> None:
    """The difference of a model without a pair is named with the model; what is missing there is no answer."""
    held, plan = make_study(bases=5, missing=0.0)
    runs = held.runs
    gone = (runs["model"] == "llama-3") & (runs["length_bin"] == "L") & (runs["base"] != "base_00")
    runs.loc[gone, "composite"] = np.nan
    runs.loc[gone, "judged"] = False
    caption = drawn(held, plan, "equivalence")["equivalence"].caption
    assert "each pair of lengths: 5 bases)" in caption
    assert "Up to 4 bases have no score at one of the two lengths and cannot be paired." in caption
    assert "Not estimable: L-M of llama-3, L-S of llama-3 (1 base " in caption
    assert "ratings or answers were missing" not in caption


def test_cards_and_tables_of_what_is_gone_are_taken_away(tmp_path: Path) -> None:
    """A judge leaves the study: the card goes with its table; a card with probes and a file of the user stay."""
    tables, pictures = tmp_path / "tables", tmp_path / "figures"
    for folder, name in ((tables, "judge_card_tertiary.tex"), (pictures, "judge_card_tertiary.pdf")):
        folder.mkdir()
        (folder / name).write_text("old")
    stay = [
        tables / "reliability_of_mine.tex",
        pictures / "judge_card_primary_probed.pdf",
        pictures / "notes.docx",
    ]
    for path in (*stay, tables / "reliability.tex", tables / "icc_forms.csv"):
        path.write_text("old")
    held, plan = make_study(("m",), bases=2, judges=("primary",), missing=0.0)
    found = study_results(held, plan, ["judge_card"])
    files = write_figures(found, about_judged(held, plan), tmp_path)
    here = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert here == {*files, *stay}
    assert "judge_card_primary.pdf" in {path.name for path in files}


def test_a_card_without_probes_has_no_empty_column() -> None:
    """Only shifts under probes have P values."""
    held, plan = make_study(("m",), bases=2, missing=0.0)
    (card, *_) = study_results(held, plan, ["judge_card"]).cards
    assert r"n (bases) \\" in judge_card_table(card, "card").latex.replace("{(}", "(")


def test_an_axis_without_zero_is_declared() -> None:
    """Words and counts are drawn where they lie; a share is seen against the whole."""
    results = [
        ("m", Estimate(name, value, 0.9 * value, 1.1 * value, "t", unit, {"items": 9}))
        for name, unit, value in (
            ("refused", "share of items", 0.5),
            ("length", "words", 120.0),
            ("drift", "none", 2.0),
        )
    ]
    caption = results_figure(results, test="t").caption
    assert "Without 0 on the axis: length, drift." in caption
    assert "not corrected for their number" in caption
    assert "Without 0" not in results_figure(results[:1], test="t").caption


def test_text_of_servers_and_models_is_drawn_named_or_dropped(tmp_path: Path) -> None:
    """Signs that the font lacks are named, control characters are in no picture and no caption; an SVG stays one."""
    hostile = "\u65e0\u6548 \U0001f600\x1b[31m\u202e\x00 <b>$x^2$ --> \\alpha"
    held, plan = make_study((hostile, "gpt"), bases=2, missing=0.4)
    judgements = held.judgements
    judgements["reason"] = judgements["reason"].where(~judgements["failed"], hostile)
    figure = drawn(held, plan, "missing_data")["missing_data"]
    ticks = [text.get_text() for axes in figure.figure.axes for text in axes.get_yticklabels()]
    assert "model [U+65E0][U+6548] \U0001f600 <b>$x^2$ --> \\alpha" in ticks
    pdf, svg, png, csv, caption = save_figure(figure, tmp_path)
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    told = caption.read_text(encoding="utf-8") + svg.read_text(encoding="utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", told)
    assert all(path.stat().st_size for path in (pdf, png, csv))

"""Figures of judged studies draw what pandas, scipy and the textbook find, and captions say what is true."""

import io
import re

import numpy as np
import pytest
from PIL import Image
from whole_study import NOTE, drawn, make_study, texts
from wording_rules import badly_worded, too_many_sentences

from toolkit.analyses.answers import Analyses
from toolkit.report.figure import About, render
from toolkit.report.style import (
    PAGE_HIGH_MM,
    PALETTE,
    model_styles,
)
from toolkit.stats import compare_conditions
from toolkit.stats.result import Estimate
from toolkit.words import DIMENSIONS

NAMES = (
    "conditions", "quality_by_length", "dimension_profile", "cost_quality",
    "judge_agreement", "icc_forest", "variance_components", "decision_study", "judges",
)  # fmt: skip
NINE = tuple(f"vendor_{'x' * 26}_100%_R&D_{letter}" for letter in "abcdefghi")
BINS = {"S": 0.0, "M": 1.0, "L": 2.0}


def drawn_of(name, change=None, **options):
    """Return one figure of a study whose runs were changed first."""
    held, plan = make_study(**options)
    if change is not None:
        change(held.runs)
    return drawn(held, plan, name)[name]


@pytest.fixture(scope="module")
def whole():
    """The analyses of a study of two models with missing scores, and its figures by name."""
    held, plan = make_study()
    return held, drawn(held, plan)


@pytest.fixture(scope="module")
def nine():
    """Nine models whose names differ in the last letter only."""
    return drawn(*make_study(NINE, bases=3, missing=0.0), *NAMES[:5], "judge_agreement")


def border(figure):
    """Return the darkest of the outermost pixels of a figure."""
    picture = np.asarray(Image.open(io.BytesIO(render(figure, "png", dpi=100))).convert("L"))
    return int(np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]]).min())


def test_a_study_with_everything_gets_every_figure(whole):
    """Each has data, an alt text, a caption with n, source, intervals and note; nothing is cut at its border."""
    _, figures = whole
    assert tuple(figures) == NAMES
    for name, figure in figures.items():
        assert not figure.left_out
        assert len(figure.data)
        assert figure.alt_text.endswith(".")
        assert " Study whole, dataset version 2025.1: n = " in figure.caption
        assert figure.caption.endswith(f" {NOTE}")
        assert "6 bases" in figure.caption
        assert "interval" in figure.caption
        assert badly_worded(figure.caption, figure.notes, figure.alt_text) == []
        assert border(figure) == 255, name
    assert too_many_sentences(figures.values(), NOTE) == {}


def ends(rows, *columns):
    """Return some numbers of each row."""
    return rows[list(columns)].astype(float).to_numpy().tolist()


def told(estimates):
    """Return what these results estimate, with their intervals."""
    return [[one.estimate, one.low, one.high] for one in estimates]


def test_quality_costs_and_slopes_are_drawn_as_their_results_have_them(whole):
    """A mark for each result (held against scipy in tests/stats), a thin line for each base, whose mean is drawn."""
    held, figures = whole
    data = figures["quality_by_length"].data
    drawn_ends = ("score", "low", "high")
    assert ends(data[data["kind"] == "mean"], *drawn_ends) == told(held.length().per_level)
    for model, runs in held.runs.groupby("model"):
        own = data[(data["kind"] == "model") & (data["name"] == model)]
        assert ends(own, *drawn_ends) == told(compare_conditions(runs).per_level)
    bases = data[data["kind"] == "base"].groupby("level")["score"].mean()
    assert [bases[one.name] for one in held.length().per_level] == pytest.approx(
        [one.estimate for one in held.length().per_level]
    )
    thin = [line for line in figures["quality_by_length"].figure.axes[0].lines if line.get_linewidth() == 0.6]
    assert len(thin) == 6
    rows = figures["conditions"].data.query("part == 'difference'")
    assert ends(rows, "estimate", "low", "high") == told(held.length().contrasts)
    assert rows["verdict"].tolist() == [test.facets["verdict"] for test in held.length().equivalence]
    points, figure = held.pareto().points, figures["cost_quality"]
    assert ends(figure.data, "quality", "quality_low", "quality_high") == told(one.quality for one in points)
    assert ends(figure.data, "cost", "cost_low", "cost_high") == told(one.cost for one in points)
    for one in points:
        assert (f"{one.model} at {one.level} (" in figure.notes) == one.on_front


def test_judges_dimensions_and_components_are_drawn_as_their_results_have_them(whole):
    """Scores as given, six forms and alpha of each score, alpha over dimensions, each judge, shares."""
    held, figures = whole
    judgements = held.judgements
    scores = judgements[~judgements["failed"]].pivot(
        index="run_id", columns="judge", values="composite_strict"
    )
    plain = figures["judge_agreement"].data.query("first == 'primary'")  # points are shifted on paper alone
    assert all(scores["primary"][row.run_id] == row.first_score for row in plain.itertuples())
    profile, forest = figures["dimension_profile"].data, figures["icc_forest"]
    assert ends(profile, "mean", "low", "high") == told(held.dimension_profile().means)
    assert set(profile["dimension"]) == set(DIMENSIONS)
    assert len(forest.data) == 7 * 8 + 1
    over = held.reliability().alpha_over_dimensions
    alphas = [("all dimensions", over), *held.reliability().alpha_over_judges.items()]
    rows = forest.data.set_index(["dimension", "form"])
    for score, one in alphas:
        drawn = rows.loc[(score, one.name), ["estimate", "low", "high"]].tolist()
        assert drawn == [one.estimate, one.low, one.high]
        assert any(text.startswith(f"{one.estimate:.2f}\n[") for text in texts(forest))
    for score, forms in held.reliability().icc.items():
        own = forest.data[forest.data["dimension"] == score].set_index("form")
        for one in forms:
            assert own.loc[one.name, ["estimate", "low", "high"]].tolist() == told([one])[0]
            if one.name.startswith("ICC(A"):
                assert any(text.startswith(f"{one.estimate:.2f}\n[") for text in texts(forest))
    assert figures["variance_components"].data["share"].sum() == pytest.approx(1.0)
    beside = held.compare_judges()
    for statistic in ("leniency", "correlation", "slope"):
        rows = figures["judges"].data.query("part == @statistic")
        assert ends(rows, "estimate", "low", "high") == told(beside.select(statistic))
        assert rows["judge"].tolist() == [f"model of {judge}" for judge in scores.columns]
    curves = figures["decision_study"].data
    here = curves[curves["present"] & (curves["coefficient"] == "Phi")]["estimate"]
    assert here.tolist() == pytest.approx([held.generalizability().result.phi.estimate])


def unscore(runs, where):
    """Take the scores of some runs away."""
    runs.loc[where, ["composite", "composite_strict", *DIMENSIONS]] = np.nan
    runs.loc[where, "judged"] = False


def set_failed(runs):
    """Let two runs fail and leave one without a score."""
    unscore(runs, runs.index[:3])
    runs.loc[runs.index[:2], "status"] = "failed"


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("quality_by_length", set_failed, "of 18 runs 2 failed and 1 is unjudged or without a number: missing here"),
        ("quality_by_length", lambda runs: runs.__setitem__("zeros", 2), "36 dimension scores are 0"),
        ("cost_quality", lambda runs: runs.__setitem__("tokens_estimated", True), "Some token counts are estimates."),
        ("cost_quality", lambda runs: runs.__setitem__("aud_cost", 0.0), "shows tokens and not money"),
    ],
)  # fmt: skip
def test_a_caption_says_what_was_left_out_and_what_is_shown(name, change, words):
    """Failed runs, zeros that the composite leaves out, estimates of tokens, and money that is none."""
    free = "token counts" in words
    figure = drawn_of(name, change, models=("m",), missing=0.0, free=free)
    assert words in (figure.notes if "are" in words else figure.caption)


def test_costs_get_the_axis_that_suits_them():
    """Tokens where nothing costs, thousands where a run costs next to nothing, logarithms where costs lie far apart."""

    def axis(change, models=("a",), **options):
        figure = drawn_of("cost_quality", change, models=models, bases=4, missing=0.0, **options)
        return figure.figure.axes[0], figure.caption

    def cost(factor, model="a"):
        def change(runs):
            runs.loc[runs["model"] == model, "aud_cost"] *= factor

        return change

    assert axis(None, free=True)[0].get_xlabel() == "Tokens per run"
    assert axis(cost(0.01))[0].get_xlabel() == "AUD per 1,000 runs"
    assert axis(cost(100.0))[0].get_xlabel() == "AUD per run"
    far, told = axis(cost(100.0), ("a", "b"))
    assert (far.get_xscale(), "the cost axis is logarithmic" in told) == ("log", True)
    mixed, told = axis(cost(0.0), ("a", "b"))
    free = [letter for letter in mixed.texts if letter.get_text() in BINS and letter.xy[0] < 0]
    assert free
    assert all(letter.get_position()[0] > 0 for letter in free)  # beside the marks, not on them
    assert mixed.get_xscale() == "linear"
    assert (
        "these models cost AUD 0, because their tokens have no price, and stand apart at the left: a" in told
    )
    assert mixed.get_xticks().min() == 0

    def only_c(runs):
        runs.loc[runs["model"] != "c", "aud_cost"] = 0.0

    several, _ = axis(only_c, ("a", "b", "c"))
    columns = {x for line in several.lines for x in line.get_xdata() if len(line.get_xdata()) == 3 and x < 0}
    assert len(columns) == 2  # no free model's marks cover another's


def test_what_cannot_be_estimated_is_said_with_its_reason_and_not_drawn():
    """A bin without a run, a mean and an ICC that nobody can estimate."""
    held, plan = make_study(("m",), bins="SM", missing=0.0)
    quality, reliability = held.length(), held.reliability()
    per_level = (quality.per_level[0], Estimate("M", None, reason="one base"))
    held.length = lambda: quality.replace(per_level=per_level)
    icc = {
        **reliability.icc,
        "composite_strict": (Estimate("ICC(A,1)", None, reason="constant scores"),),
    }
    held.reliability = lambda: reliability.replace(icc=icc)
    figures = drawn(held, plan, "quality_by_length", "judge_agreement")
    assert "length L" not in figures["quality_by_length"].caption  # nobody asked for it
    assert "; not estimable: M." in figures["quality_by_length"].caption
    assert "Not estimable: M (one base)." in figures["quality_by_length"].notes
    assert len(figures["quality_by_length"].data.query("kind == 'mean'")) == 1
    assert "not estimable: ICC(A,1)." in figures["judge_agreement"].caption
    assert "Not estimable: ICC(A,1) (constant scores)." in figures["judge_agreement"].notes


def test_nine_models_stay_apart_and_fit_a_page(nine):
    """No mark off the axis or nearer to another bin, no figure that would be made smaller, no two names alike."""
    (axes,) = nine["quality_by_length"].figure.axes
    low, high = axes.get_xlim()
    of_models = [bars.lines[0] for bars in axes.containers if len(bars.lines[0].get_xdata()) == 3]
    assert len(of_models) == 10
    for line in of_models:
        for place, x in zip(BINS.values(), line.get_xdata(), strict=True):
            assert low < x < high
            assert abs(x - place) < 0.4
    for figure in nine.values():
        assert figure.figure.get_size_inches()[1] * 25.4 <= PAGE_HIGH_MM + 0.5, figure.name
    for name in ("quality_by_length", "cost_quality", "judge_agreement", "dimension_profile"):
        (legend,) = nine[name].figure.legends
        told = [text.get_text() for text in legend.get_texts() if text.get_text().startswith("vendor")]
        assert len(set(told)) == len(told) == 9, name


def test_what_goes_on_beyond_the_axis_has_an_arrow_and_its_number():
    """A component of variance with two judges can reach any distance."""
    (figure,) = drawn(*make_study(bases=6, judges=("primary", "secondary")), "variance_components").values()
    beyond = re.search(r"Beyond the axis \(arrow\): .*?( to [\d.]*\d)", figure.notes)
    assert beyond is not None
    assert beyond[1].strip() in texts(figure)


OF_THE_COMPOSITE = ("conditions", "quality_by_length", "cost_quality")
OF_THE_COMPOSITE += ("judge_agreement", "icc_forest", "variance_components", "decision_study")


def test_the_composite_that_leaves_zeros_out_never_stands_alone():
    """Notes name the strict one with its value; nothing is said where no zero was left out."""
    held, plan = make_study(bases=6, missing=0.0)
    whole = drawn(held, plan, "conditions")["conditions"]
    assert "strict" not in whole.caption + whole.notes
    held.runs["zeros"] = 1
    held.runs["composite_strict"] -= 0.25
    mean = held.runs["composite_strict"].mean()
    for name, figure in drawn(
        Analyses(held.runs, held.judgements, margin=0.25), plan, *OF_THE_COMPOSITE
    ).items():
        assert all(f"{value:.2f} by the" in figure.notes for value in (mean, mean + 0.25)), name
        assert "composite_strict" not in figure.caption


def test_a_study_without_any_score_draws_nothing():
    """Every judgement failed: each figure says why it is not there."""
    figures = drawn(*make_study(("gpt-4o",), bases=2, missing=1.0))
    assert all(one.left_out for one in figures.values())
    assert texts(figures["quality_by_length"]) == ["no judged runs"]


@pytest.mark.parametrize(
    "about",
    [
        {"models": ("only",), "bases": 1},
        {"models": ("$\\alpha$", "_hidden", "a\nvery " + "long " * 20 + "name"), "bases": 2, "free": True},
    ],
    ids=["one base", "three models, free, hostile names"],
)  # fmt: skip
def test_little_and_strange_studies_are_drawn_without_a_warning(about):
    """One base, or three models with names like markup: every figure is drawn whole or left out with a reason."""
    for figure in drawn(*make_study(**about)).values():
        assert figure.left_out or len(figure.data)
        assert not too_many_sentences([figure], NOTE)
        assert border(figure) == 255, figure.name
        if about["bases"] == 1:
            on_paper = [text.replace("\n", " ") for text in texts(figure)]
            assert (
                badly_worded(figure.caption, figure.notes, figure.alt_text, figure.left_out, *on_paper) == []
            )
        elif figure.name == "cost_quality":
            assert {"$\\alpha$", "_hidden"} <= set(texts(figure))
            assert max(len(text) for text in texts(figure) if "very" in text) <= 34


def test_a_model_has_one_colour_in_every_figure_of_the_study():
    """Also in a figure that lacks the model which moved it on to another colour."""
    names = [f"model-{i}" for i in range(6)]
    everyone = model_styles(names)
    assert len({style.color for style in everyone.values()}) == len(PALETTE) == 6
    assert any(model_styles([name])[name] != style for name, style in everyone.items())
    about = About(models=tuple(names))
    for name, style in everyone.items():
        assert about.styles([name]) == {name: style}


def test_the_first_figure_marks_what_is_confirmatory_and_says_where_its_axis_begins():
    held, plan = make_study(["one", "two"], bases=8, missing=0.0)
    held.primary = "M-S"
    (figure,) = drawn(held, plan, "conditions").values()
    data = figure.data.set_index("name")
    roles = {"M-S": "confirmatory", "L-M": "exploratory", "L-S": "exploratory"}
    assert data[data["part"] != "model"]["role"].to_dict() == roles | dict.fromkeys("SML", "")
    of_models = {number.name: number.estimate for number in held.length().of_models}
    assert data[data["part"] == "model"]["estimate"].to_dict() == of_models
    assert data.loc["M-S", "estimate"] == held.length().contrasts[0].estimate
    above, by_model, below = figure.figure.axes
    low, high = below.get_xlim()
    assert 0 < low < high < 5
    assert f"it shows {low:.2g} to {high:.2g} of the scale" in figure.caption
    assert "the one confirmatory contrast" in figure.caption
    assert [line.get_text() for line in above.get_yticklabels()] == ["L − S", "L − M", "M − S"]
    assert [line.get_text() for line in by_model.get_yticklabels()][-2:] == ["M − S, two", "M − S, one"]

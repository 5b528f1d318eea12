"""The three figures: what they draw, what the captions say, and what happens when there is little to draw."""

import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from synthetic import fake_comparison, fake_reliability, make_judgements, make_runs

from toolkit.report.about import about_study
from toolkit.report.agreement_figure import judge_agreement
from toolkit.report.cost_figure import cost_quality
from toolkit.report.quality_figure import quality_by_length
from toolkit.report.saving import render
from toolkit.stats.comparisons.cost_quality import cost_column, pareto
from toolkit.stats.result import Estimate

NOTE = "One 135M-parameter model answers and judges here: the numbers show plumbing, not quality."


def draw(figure):
    """Render, because matplotlib finds most of its troubles only then."""
    assert render(figure, "png", dpi=50)
    return figure


def cost_of(runs, about=None):
    """Draw the front of the runs, as a study does."""
    judged = len(runs) and runs["judged"].any()
    return cost_quality(runs, pareto(runs, cost=cost_column(runs)) if judged else None, about=about)


def every_figure(runs, judgements, **words):
    comparison = fake_comparison(runs) if len(runs) else None
    about = about_study(runs, **words)
    return [
        draw(quality_by_length(runs, comparison, about=about)),
        draw(cost_of(runs, about=about)),
        draw(judge_agreement(judgements, fake_reliability(), about=about)),
    ]


def texts(figure) -> list[str]:
    """Return every text on a figure, legends and titles included."""
    from matplotlib.text import Text

    return [found.get_text() for found in figure.figure.findobj(Text) if found.get_text()]


def test_every_caption_says_n_study_dataset_and_the_note():
    runs = make_runs()
    about = {"note": NOTE, "study_name": "pilot", "dataset_version": "2025.1", "repeats": 2}
    for figure in every_figure(runs, make_judgements(runs), **about):
        assert "n = 12 bases, 36 answers, 1 model, 3 judges, 2 repeats" in figure.caption
        assert "Study pilot, dataset version 2025.1." in figure.caption
        assert figure.caption.endswith(NOTE)
        assert figure.n == {"bases": 12, "answers": 36, "models": 1, "judges": 3, "repeats": 2}
        assert figure.alt_text


def test_name_and_repeats_come_from_the_frame_when_not_given():
    runs = make_runs(repeats=3)
    for figure in every_figure(runs, make_judgements(runs)):
        assert "3 repeats" in figure.caption
        assert "Study synthetic." in figure.caption


def test_the_caption_says_what_the_interval_is_and_how_it_was_made():
    runs = make_runs()
    assert "95% intervals: t over bases." in quality_by_length(runs, fake_comparison(runs)).caption
    agreement = judge_agreement(make_judgements(runs), fake_reliability()).caption
    assert "ICC(A,1) = 0.400, 95% interval [-0.050, 0.900] (F distribution)" in agreement
    assert "ICC(A,k) = 0.700" in agreement
    assert "r: Pearson correlation, 95% intervals: Fisher z." in agreement
    assert "95% intervals: Student t over bases." in cost_of(runs).caption


def test_quality_draws_the_result_and_not_a_mean_of_its_own():
    runs = make_runs()
    comparison = fake_comparison(runs)
    figure = quality_by_length(runs, comparison)
    means = figure.data[figure.data["kind"] == "mean"]
    assert means["composite"].tolist() == [e.estimate for e in comparison.per_bin]
    assert means["low"].tolist() == [e.low for e in comparison.per_bin]


def test_quality_has_one_line_for_each_base():
    runs = make_runs(bases=5)
    figure = draw(quality_by_length(runs, fake_comparison(runs)))
    assert figure.data.query("kind == 'base'")["name"].nunique() == 5
    thin = [line for line in figure.figure.axes[0].lines if line.get_linewidth() == 0.6]
    assert len(thin) == 5


def test_several_models_are_named_and_get_their_own_interval_when_there_is_one():
    runs = make_runs(("gpt-4o", "llama"))
    own = {name: fake_comparison(rows) for name, rows in runs.groupby("model")}
    without = draw(quality_by_length(runs, fake_comparison(runs)))
    given = draw(quality_by_length(runs, fake_comparison(runs), by_model=own))
    assert "mean of each model, without interval" in without.caption
    assert "mean of each model, with interval" in given.caption
    assert {"gpt-4o", "llama"} <= set(texts(given))
    assert given.data.query("kind == 'model'")["low"].notna().all()


def test_a_free_model_is_drawn_against_tokens_and_the_caption_says_so():
    figure = draw(cost_of(make_runs()))
    assert "Every run cost AUD 0" in figure.caption
    assert "tokens and not money" in figure.caption
    assert figure.figure.axes[0].get_xlabel() == "Tokens per run"


def test_estimated_tokens_are_called_estimates():
    assert "Some token counts are estimates." in cost_of(make_runs().assign(tokens_estimated=True)).caption


def test_a_free_model_among_paid_ones_is_named_in_the_caption():
    runs = make_runs(("local", "paid"), free=False)
    runs.loc[runs["model"] == "local", "aud_cost"] = 0.0
    figure = draw(cost_of(runs))
    assert "AUD 0 because it has no price per token: local." in figure.caption
    assert figure.figure.axes[0].get_xscale() == "linear"


@pytest.mark.parametrize(("factor", "label"), [(1.0, "AUD per 1,000 runs"), (1000.0, "AUD per run")])
def test_small_costs_are_shown_per_thousand_runs(factor, label):
    runs = make_runs(free=False)
    runs["aud_cost"] *= factor
    assert draw(cost_of(runs)).figure.axes[0].get_xlabel() == label


def test_costs_far_apart_get_a_logarithmic_axis_that_is_declared():
    figure = draw(cost_of(make_runs(("a", "b", "c"), free=False)))
    assert "logarithmic" in figure.caption
    assert figure.figure.axes[0].get_xscale() == "log"


def test_a_run_without_a_known_cost_is_missing_and_not_free():
    runs = make_runs(free=False)
    runs.loc[runs.index[:5], "aud_cost"] = np.nan
    figure = draw(cost_of(runs))
    assert figure.n["answers"] == 31
    assert "Of 36 runs 5 are unjudged or without a number: missing here, not zero." in figure.caption
    assert "no run with a known cost" in draw(cost_of(runs.assign(aud_cost=np.nan))).caption


def test_failed_and_unjudged_runs_are_counted_and_not_drawn():
    runs = make_runs()
    runs.loc[runs.index[:2], ["status", "judged", "composite"]] = ["failed", False, np.nan]
    runs.loc[runs.index[2], ["judged", "composite"]] = [False, np.nan]
    figure = draw(quality_by_length(runs, fake_comparison(runs)))
    assert (
        "Of 36 runs 2 failed and 1 is unjudged or without a number: missing here, not zero." in figure.caption
    )
    assert figure.n["answers"] == 33


def test_zeros_that_the_composite_left_out_are_counted():
    runs = make_runs().assign(zeros=2)
    assert "leaves out 72 dimension scores of 0" in quality_by_length(runs, fake_comparison(runs)).caption
    assert "No dimension score of 0" in cost_of(make_runs()).caption


def test_the_caption_names_a_length_bin_without_a_judged_run():
    runs = make_runs()
    only_short = runs[runs["length_bin"] == "S"]
    figure = draw(quality_by_length(only_short, fake_comparison(only_short)))
    assert "No judged run in bin M, L." in figure.caption


def test_an_estimate_that_is_not_there_is_explained_and_not_drawn():
    runs = make_runs()
    comparison = fake_comparison(runs)
    comparison.per_bin = (*comparison.per_bin[:2], Estimate("L", None, note="one base"))
    figure = draw(quality_by_length(runs, comparison))
    assert "Not estimable: L (one base)." in figure.caption
    assert len(figure.data.query("kind == 'mean'")) == 2


def test_without_a_comparison_the_lines_are_drawn_alone():
    figure = draw(quality_by_length(make_runs(), None))
    assert "No interval could be estimated." in figure.caption
    assert not (figure.data["kind"] == "mean").any()


def unjudged(runs: pd.DataFrame) -> pd.DataFrame:
    return runs.assign(judged=False, composite=np.nan)


@pytest.mark.parametrize("nothing", [lambda r: r.iloc[:0], unjudged, lambda r: pd.DataFrame()])
def test_nothing_at_all_is_a_figure_that_says_so(nothing):
    runs = nothing(make_runs())
    for figure in (quality_by_length(runs, None), cost_of(runs)):
        assert texts(draw(figure)) == ["no judged runs"]
        assert "no judged runs" in figure.caption
        assert figure.data.empty


def test_agreement_of_nobody_is_a_figure_that_says_so():
    judgements = make_judgements(make_runs())
    for nothing in (judgements.iloc[:0], judgements.assign(failed=True, composite=np.nan), pd.DataFrame()):
        figure = draw(judge_agreement(nothing, None))
        assert texts(figure) == ["no judged runs"]


def test_one_judge_alone_agrees_with_nobody():
    runs = make_runs()
    figure = draw(judge_agreement(make_judgements(runs, judges=("primary",)), None))
    assert texts(figure) == ["no run was scored by two judges"]


@pytest.mark.parametrize(("judges", "panels"), [(2, 1), (3, 3), (4, 6)])
def test_every_pair_of_judges_gets_a_panel_with_its_own_correlation(judges, panels):
    names = tuple(f"judge {i}" for i in range(judges))
    figure = draw(judge_agreement(make_judgements(make_runs(bases=3), names), fake_reliability(names)))
    titled = [axes for axes in figure.figure.axes if axes.axison]
    assert len(titled) == panels
    assert all(axes.get_title() == "r = 0.61 [−0.12, 0.80]\nn = 9 answers" for axes in titled)


def test_the_correlation_of_a_pair_is_not_taken_from_judges_with_similar_names():
    names = ("a", "aa", "b")
    reliability = fake_reliability(names)
    reliability.pearson["composite"] = (
        Estimate("r(aa, b)", 0.9, n={"answers": 9}),
        Estimate("r(b, a)", 0.1, n={"answers": 9}),
    )
    figure = judge_agreement(make_judgements(make_runs(bases=3), names), reliability)
    assert [axes.get_title().split("\n")[0] for axes in figure.figure.axes] == [
        "r not estimated",
        "r = 0.10",
        "r = 0.90",
    ]


def test_failed_judgements_are_missing_and_the_others_are_drawn():
    judgements = make_judgements(make_runs())
    judgements.loc[judgements.index[::3], ["failed", "composite"]] = [True, np.nan]
    figure = draw(judge_agreement(judgements, None))
    assert "36 of 108 judgements are missing, not zero." in figure.caption
    assert "No reliability was estimated." in figure.caption


def test_reliability_that_cannot_be_estimated_is_said_with_its_reason():
    reliability = fake_reliability()
    reliability.icc["composite"] = (Estimate("ICC(A,1)", None, note="not estimable: constant scores"),)
    figure = draw(judge_agreement(make_judgements(make_runs()), reliability))
    assert "Not estimable: ICC(A,1) (constant scores)." in figure.caption


def test_points_are_shifted_on_paper_and_not_in_the_data():
    judgements = make_judgements(make_runs())
    figure = judge_agreement(judgements, None)
    given = judgements[judgements["judge"] == "primary"].set_index("run_id")["composite"]
    drawn = figure.data.query("first == 'primary' and second == 'secondary'").set_index("run_id")[
        "first_composite"
    ]
    assert drawn.sort_index().tolist() == given.sort_index().tolist()
    other = judge_agreement(judgements, None, seed=1)
    assert render(figure, "png", dpi=80) != render(other, "png", dpi=80)


def test_names_that_look_like_markup_are_drawn_as_they_are():
    runs = make_runs(("$\\alpha$", "_hidden", "a\nvery " + "long " * 20 + "name"))
    for figure in every_figure(runs, make_judgements(runs)):
        shown = texts(figure)
        assert {"$\\alpha$", "_hidden"} <= set(shown)
        assert max(len(text) for text in shown if "very" in text) <= 34


def test_nothing_of_a_figure_is_cut_at_its_border():
    runs = make_runs(("gpt-4o", "claude-3-5-sonnet-20241022"), free=False)
    for figure in every_figure(runs, make_judgements(runs)):
        picture = np.asarray(Image.open(io.BytesIO(render(figure, "png"))).convert("L"))
        border = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
        assert (border == 255).all(), figure.name

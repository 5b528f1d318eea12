"""Texts of studies of one: one model, one base, one repeat, one judge, one answer, one missing, one test."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.text import Text
from whole_study import make_study
from wording_rules import badly_worded

from toolkit.report import captions
from toolkit.report.decision_figure import _draw as draw_curves
from toolkit.report.missing_figure import missing_data_figure
from toolkit.report.study_figures import draw_study
from toolkit.report.tables import forms_table, length_table, reliability_table
from toolkit.stats.agreement.bland_altman import bland_altman
from toolkit.stats.comparisons.missing_data import missing_data
from toolkit.stats.generalizability.d_study import DecisionPlan
from toolkit.stats.prompt_length.equivalence import equivalence, judged_equivalent
from toolkit.stats.result import Estimate, rounded
from toolkit.workbench.drawing import about_judged, study_results

COUNTED = ("quality_by_length", "judge_agreement", "missing_data")


def test_a_study_that_misses_one_run_and_one_judgement_reads_well() -> None:
    """What figures and tables count is one of many; studies of one base, judge and length: test_study_figures."""
    held, plan = make_study(("m",), bases=6, missing=0.08)
    found, about = study_results(held, plan, COUNTED), about_judged(held, plan)
    figures = draw_study(found, about, COUNTED)
    told = [text for figure in figures for text in (figure.caption, figure.alt_text)]
    tables = (
        reliability_table(found.reliability),
        forms_table(found.reliability),
        length_table(found.comparison),
    )
    told += [table.caption for table in tables]
    assert any("1 of 18 runs has no composite and is left out" in text for text in told)
    assert badly_worded(*told) == []


@pytest.mark.parametrize(
    "text",
    ["P values corrected by Holm over 1 tests.", "n = 1 base; 66 missing. moderate to good (Koo).", "12 base",
     "1 bases", "1 answer(s)", "1 of 24 runs have no score.", "All  of it", "0.12 [−0.00, 0.30]", "difference -7.4e-17",
     "mean nan", "of 1 models of 1 answers"],
)  # fmt: skip
def test_the_rules_find_what_was_printed_once(text: str) -> None:
    """A rule that finds nothing would let everything pass; each of these stood in a caption or table, or could."""
    assert badly_worded(text)


def test_the_sentence_of_a_result_counts_one_in_the_singular_and_starts_its_note_with_a_capital() -> None:
    """What was missing and what it means are two sentences."""
    one = Estimate(
        "ICC(A,1)", 0.6, n={"bases": 1, "people": 1, "replies": 1}, missing=66, note="moderate to good"
    )
    assert one.sentence() == "ICC(A,1) = 0.600; n = 1 base, 1 person, 1 reply; 66 missing. Moderate to good."
    assert [rounded(value) for value in (-0.0, 9e-17, -0.0000123)] == ["0.000", "0.000", "-0.0000123"]


def test_one_test_is_corrected_for_nothing() -> None:
    """Holm over one test is no correction, and a thesis that cites it would cite what was not done."""
    small = equivalence("L-S", [0.1, -0.1, 0.05, 0.0, -0.02, 0.08], margin=0.25)
    alone = judged_equivalent([small])[0]
    assert alone.correction == "none"
    assert alone.p_value == small.p_value
    assert [one.correction for one in judged_equivalent([small, small])] == [
        "Holm over 2 tests of equivalence"
    ] * 2


def test_a_small_cost_of_a_plan_is_not_nothing() -> None:
    """A design of four judgements by a cheap model costs a part of a cent."""
    plan = DecisionPlan("Phi", 0.9, {"judge": 1}, reached=0.95, runs=1, judgements=1, aud=0.00123)
    assert (
        plan.sentence() == "Phi of 0.90 needs 1 judge: 1 run and 1 judgement, 0.00123 AUD; it is then 0.950."
    )


def test_missing_runs_are_told_with_a_verb() -> None:
    """One of them is unjudged, several are."""
    runs = pd.DataFrame({"status": ["failed", "succeeded", "succeeded"]})
    assert captions.missing_words(runs, runs[2:]) == (
        "Of 3 runs 1 failed and 1 is unjudged or without a number: missing here, not zero."
    )
    assert "2 are unjudged" in captions.missing_words(runs[1:], runs[:0])


@pytest.mark.parametrize("missing", [0.0, 0.08])
def test_the_axis_of_missing_scores_is_labelled_with_what_its_ticks_are(missing: float) -> None:
    """Steps of 2.5 % stood as 2 %, 5 %, 8 %, 10 %."""
    held, plan = make_study(("gpt-4o",), bases=12, missing=missing)
    found = missing_data(held.runs, held.judgements, permutations=20)
    figure = missing_data_figure(found, about_judged(held, plan)).figure
    axes = figure.axes[0]
    figure.canvas.draw()
    labels = [(tick.get_loc(), tick.label1.get_text()) for tick in axes.xaxis.get_major_ticks()]
    assert len(labels) >= 4
    assert all(float(text.removesuffix("%")) == pytest.approx(100 * place) for place, text in labels)


def test_a_bias_that_rounds_to_nothing_has_no_minus() -> None:
    """In the figure and in its alternative text; the data keep the sign."""
    held, plan = make_study(("gpt-4o",), bases=6, missing=0.0)
    found = study_results(held, plan, ["bland_altman"])
    pair, one = next(iter(found.bland_altman.items()))
    tiny = replace(one, bias=replace(one.bias, estimate=-0.001, low=-0.004, high=0.003))
    figure = draw_study(
        replace(found, bland_altman={pair: tiny}), about_judged(held, plan), ["bland_altman"]
    )[0]
    assert "bias 0.00," in figure.alt_text
    assert any("bias 0.00 [0.00, 0.00]" in text.get_text() for text in figure.figure.findobj(Text))


def test_too_few_bases_for_limits_are_told_in_their_number() -> None:
    """One base is too few, two are."""
    assert "1 base is too few" in bland_altman([1, 2, 3, 4], [2, 2, 4, 3], bases=list("aaaa")).lower.note


def test_four_panels_of_a_decision_study_stand_two_by_two() -> None:
    """Three and one left two thirds of the second row empty."""
    rows = [
        {"of": of, "coefficient": "Phi", "facet": facet, "count": count, "estimate": 0.5, "low": 0.2, "high": 0.8,
         "present": count == 2}
        for of, facet in (("an answer", "judge"), ("a model", "base"), ("a model", "judge"), ("a model", "repeat"))
        for count in (1, 2, 3)
    ]  # fmt: skip
    places = [axes.get_position() for axes in draw_curves(pd.DataFrame(rows), [0.9]).axes]
    assert len({round(place.x0, 3) for place in places}) == len({round(place.y0, 3) for place in places}) == 2

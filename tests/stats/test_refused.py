"""What cannot be compared, scored or planned is refused in one line that names it."""

import math

import pandas as pd
import pytest

from toolkit.errors import InputError
from toolkit.scoring import (
    aggregate_ensemble_scores,
    analyze_length_bias,
    calculate_ci,
    calculate_composite_score,
    calculate_efficiency,
    one_shot_score,
)
from toolkit.stats import (
    Confusion,
    Estimate,
    alternative_annotator_test,
    answers_for_icc_width,
    auc,
    bases_needed,
    calibrate,
    ceiling,
    classify,
    compare_lengths,
    compare_models,
    compare_one_shot,
    compare_two_methods,
    corrected_prevalence,
    detectable_effect,
    dimension_profile,
    equivalence,
    equivalence_bases,
    experiments_needed,
    focus_contrast,
    friedman,
    mcnemar,
    missing_data,
    mixed_model,
    paired_sample_size,
    pareto,
    pilot_power,
    prediction_powered_mean,
    rate_difference,
    ratings_for_agreement,
    ratings_for_mean,
    repeated_measures,
    sign_flip,
)
from toolkit.stats.comparisons.models import mean_error_bar, paired_difference
from toolkit.stats.detection.deciders import length_decisions
from toolkit.stats.detection.rates import confusion
from toolkit.stats.one_shot.methods import KEYS, score_methods
from toolkit.stats.power.experiments import one_shot_power

NAN, INF = math.nan, math.inf
ALWAYS, HALF = (1, 0, 0), (0.5, 0.5, 0)
ROWS = [(f"r{b}{m}{s}", f"b{b}", "XY"[b % 2], m, s) for b in range(4) for m in "uv" for s in "SML"]
RUNS = pd.DataFrame(ROWS, columns=["run_id", "base", "scenario", "model", "length_bin"])
RUNS = RUNS.assign(composite=3.0, aud_cost=0.1, judge="primary")
TWICE = pd.concat([RUNS, RUNS])
HUMAN = RUNS.iloc[:6].assign(rater="anna")
VERDICTS = pd.DataFrame([["x"] * len(KEYS)], columns=list(KEYS)).assign(verdict="expected")
METHODS = pd.DataFrame([("q0", "a", "m", 1.0)], columns=["question", "variant", "model", "raw"])
MEAN = prediction_powered_mean("m", [4.0, 3, 5, 2], [4.5, 3, 5, 3], [4.0, 3.5])


def ppi(*given, **options):
    return prediction_powered_mean("m", *given, **options)


def kappa(width):
    return ratings_for_agreement(Estimate("k", 0.5, 0.3, 0.7, n={"answers": 9}), width)


REFUSED = [
    ("length bin 'XL'", lambda: compare_lengths(RUNS.assign(length_bin="XL"))),
    ("'good' is not a finite number", lambda: compare_lengths(RUNS.assign(composite="good"))),
    ("inf is not a finite number", lambda: compare_lengths(RUNS.assign(composite=INF))),
    ("the base is empty", lambda: compare_lengths(RUNS.assign(base=None))),
    ("lack the column composite", lambda: compare_lengths(RUNS.drop(columns="composite"))),
    ("run 'r0uS' is there 2 times", lambda: compare_lengths(TWICE)),
    ("lack the column actionability", lambda: dimension_profile(RUNS, ("actionability",))),
    ("base 'b0' has two scenarios", lambda: mixed_model(RUNS.assign(scenario=list("XYZ") * 8))),
    ("lack the column scenario", lambda: mixed_model(RUNS.drop(columns="scenario"))),
    ("lack the column model", lambda: missing_data(RUNS.drop(columns="model"))),
    ("runs, row 1: the base is empty", lambda: missing_data(RUNS.assign(base=None))),
    ("there 2 times", lambda: missing_data(TWICE)),
    ("5.5 is no score from 0 to 5", lambda: ceiling(RUNS.assign(composite=5.5))),
    ("inf is no score from 0 to 5", lambda: ceiling(RUNS.assign(composite=INF))),
    ("'good' is not a number", lambda: ceiling(RUNS.assign(composite="good"))),
    ("the base is empty", lambda: ceiling(RUNS.assign(base=None))),
    ("lack the column clarity", lambda: ceiling(RUNS, "clarity")),
    ("limit 0 cannot be", lambda: ceiling(RUNS, limit=0)),
    ("below 0", lambda: pareto(RUNS.assign(aud_cost=-1.0))),
    ("0 resamples", lambda: pareto(RUNS, resamples=0)),
    ("no run is in both", lambda: focus_contrast(RUNS.assign(run_id="z" + RUNS["run_id"]), RUNS)),
    ("two bases", lambda: focus_contrast(RUNS.assign(base="other"), RUNS)),
    ("lack the column run_id", lambda: focus_contrast(RUNS.drop(columns="run_id"), RUNS)),
    ("on has run 'r0uS' by judge 'primary' twice", lambda: focus_contrast(TWICE, RUNS)),
    ("lack the column model", lambda: compare_models(RUNS.drop(columns="model"))),
    ("there 2 times", lambda: compare_models(TWICE)),
    ("inf is not a finite number", lambda: compare_models(RUNS.assign(composite=INF))),
    ("rate=False", lambda: compare_models(RUNS, rate=True)),
    ("give as many", lambda: mean_error_bar("x", [1.0], ["a", "b"])),
    ("infinite", lambda: mean_error_bar("x", [1.0, INF], ["a", "b"])),
    ("give as many", lambda: paired_difference("x", [1.0], [1.0, 2.0], ["a"])),
    ("not between 0 and 1", lambda: rate_difference("x", [1.5, 0.0], [0.0, 0.0], ["a", "b"])),
    ("give as many", lambda: rate_difference("x", [1.0], [0.0, 0.0], ["a", "b"])),
    *(
        ("ANOVA", lambda function=function, scores=scores: function(scores))
        for function in (repeated_measures, friedman)
        for scores in ([[1.0], [2.0], [3.0]], [1.0, 2.0], [[1.0, NAN]] * 3, [[1.0, INF]] * 3)
    ),
    *(("margin", lambda margin=m: equivalence("M-S", [0.1, 0.2], margin)) for m in (0, -0.1, NAN, INF)),
    *(("paired test", lambda given=given: sign_flip(given)) for given in ([], [1, NAN], [INF])),
    ("is there twice", lambda: calibrate(TWICE, RUNS, HUMAN)),
    ("rating of r0uS is there twice", lambda: calibrate(RUNS, RUNS, pd.concat([HUMAN, HUMAN]))),
    ("lack the column base", lambda: calibrate(RUNS.drop(columns="base"), RUNS, HUMAN)),
    ("rated run r0uS is not among the runs", lambda: calibrate(RUNS.iloc[6:], RUNS, HUMAN)),
    ("lack the column rater", lambda: alternative_annotator_test(RUNS, RUNS)),
    ("judge scored answer r0uS twice", lambda: alternative_annotator_test(TWICE, HUMAN)),
    ("person scored answer r0uS twice", lambda: alternative_annotator_test(RUNS, pd.concat([HUMAN, HUMAN]))),
    ("epsilon 1.5", lambda: alternative_annotator_test(RUNS, HUMAN, epsilon=1.5)),
    ("1 ratings by people and 2 by judges", lambda: ppi([1.0], [1.0, 2.0], [3.0])),
    ("only one side has bases", lambda: ppi([1.0], [1.0], [3.0], ["a"], None)),
    ("1 and 2 bases", lambda: ppi([1.0], [1.0], [3.0], ["a"], ["b", "c"])),
    ("lambda nan", lambda: ppi([1.0], [1.0], [3.0], tuning=NAN)),
    *(("width", lambda width=width: kappa(width)) for width in (0.0, -1.0, NAN, INF)),
    ("width", lambda: ratings_for_mean(MEAN, 0.0)),
    ("2 decisions and 1 bases", lambda: corrected_prevalence([True, False], Confusion(9, 1, 7, 3), [1])),
    ("2 labels and 1 decisions", lambda: confusion([True, False], [True])),
    ("has no label", lambda: confusion([True, None], [True, False])),
    ("use one of accuracy", lambda: classify([True], [True]).rate("luck")),
    ("2 labels and 1 clusters", lambda: classify([True, False], [True, False], ["q"])),
    ("1 labels and 2 scores", lambda: auc([True], [0.1, 0.2])),
    ("1 labels and 2 decisions", lambda: mcnemar([True], [True], [True, True])),
    ("1 labels and 2 lengths", lambda: length_decisions([True], [1, 2])),
    ("must be three", lambda: compare_two_methods((1, 2), (1, 2, 3))),
    ("N is 0", lambda: compare_two_methods((0, 0, 0), (1, 0, 0))),
    ("expected is -1", lambda: compare_two_methods((-1, 1, 1), (1, 0, 0))),
    *((name, lambda name=name: score_methods(VERDICTS.drop(columns=name))) for name in VERDICTS),
    ("'right' is not one of", lambda: score_methods(VERDICTS.assign(verdict="right"))),
    ("q0 of a and m is there twice", lambda: compare_one_shot(pd.concat([METHODS, METHODS]))),
    ("lack the column model", lambda: compare_one_shot(METHODS.drop(columns="model"))),
    ("'sample' is not known", lambda: compare_one_shot(METHODS, by="sample")),
    *(("standard deviation", lambda sd=sd: bases_needed(0.5, sd)) for sd in (0.0, -1.0, INF, NAN)),
    ("the effect is nan", lambda: bases_needed(NAN, 1.0)),
    ("power is 1.0", lambda: bases_needed(0.5, 1.0, power=1.0)),
    ("alpha is 0.0", lambda: bases_needed(0.5, 1.0, alpha=0.0)),
    ("n is 1", lambda: detectable_effect(1, 1.0)),
    ("between is -0.1", lambda: paired_sample_size(0.1, -0.1)),
    ("repeats is 0", lambda: paired_sample_size(0.1, 0.1, repeats=(0, 1))),
    ("the margin is 0.0", lambda: equivalence_bases(0.0, 1.0)),
    ("alpha is 0.6", lambda: equivalence_bases(0.2, 1.0, alpha=0.6)),
    ("reliability is 1.0", lambda: answers_for_icc_width(1.0, 3, 0.2)),
    ("number of judges is 1", lambda: answers_for_icc_width(0.8, 1, 0.2)),
    ("the width is 0.0", lambda: answers_for_icc_width(0.8, 3, 0.0)),
    ("assurance is 0.3", lambda: answers_for_icc_width(0.8, 3, 0.2, assurance=0.3)),
    *(
        ("must be three shares", lambda shares=shares: one_shot_power(shares, HALF))
        for shares in ((1, 0), (0, 0, 0), (-1, 1, 1), ("a", 1, 1), (NAN, 1, 1))
    ),
    ("n is 10.5", lambda: one_shot_power(ALWAYS, HALF, 10.5)),
    ("alpha is 1.5", lambda: one_shot_power(ALWAYS, HALF, alpha=1.5)),
    ("three finite numbers", lambda: one_shot_power(ALWAYS, HALF, weights=(1, 0))),
    ("power is 1", lambda: experiments_needed(ALWAYS, HALF, power=1)),
    ("start is 0", lambda: experiments_needed(ALWAYS, HALF, start=0)),
    ("the effect is 0.0", lambda: pilot_power(RUNS, 0.0)),
    ("repeats is 0", lambda: pilot_power(RUNS, 0.3, repeats=0)),
    ("lack the column base", lambda: pilot_power(RUNS.drop(columns="base"))),
    *(
        ("clarity", lambda wrong=wrong: calculate_composite_score({"clarity": wrong}))
        for wrong in ("4", True, INF, 5.1, -0.1, [4])
    ),
    ("'4.5' is not a number", lambda: aggregate_ensemble_scores([{"composite": "4.5"}, {"composite": 4.0}])),
    ("confidence", lambda: calculate_ci([1.0, 2.0], confidence=95)),
    *(("cost", lambda cost=cost: calculate_efficiency(4.0, cost)) for cost in (-0.01, NAN, INF, "free")),
    *(
        ("length bin S|has neither", lambda run=run: analyze_length_bias({"S": [run]}))
        for run in ("3.0", {"grade": 3.0}, object())
    ),
    *(
        ("one-shot score", lambda counts=counts: one_shot_score(*counts))
        for counts in ((0, 0, 0), (-1, 5, 6), (1.5, 1, 1), (NAN, 1, 1), ("6", 1, 3), (True, 1, 1))
    ),
    *(
        ("weights", lambda weights=weights: one_shot_score(1, 1, 1, weights=weights))
        for weights in ((1, 0), (1, 0, NAN), ("a", 0, 1), 3)
    ),
    ("confidence", lambda: one_shot_score(1, 1, 1, confidence=1.0)),
]


@pytest.mark.parametrize(("says", "call"), REFUSED, ids=[says for says, _ in REFUSED])
def test_what_cannot_be_used_is_refused_in_one_line(says, call):
    with pytest.raises(InputError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)

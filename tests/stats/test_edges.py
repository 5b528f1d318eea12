"""Comparisons that the data do not support say why; what cannot be used is refused in one line that names it."""

import json
import math
import re
from dataclasses import replace

import numpy as np
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
    Estimate,
    auc,
    bases_needed,
    calibrate,
    ceiling,
    classify,
    compare_lengths,
    compare_models,
    compare_one_shot,
    compare_two_methods,
    detectable_effect,
    dimension_profile,
    equivalence,
    equivalence_bases,
    focus_contrast,
    mcnemar,
    missing_data,
    pareto,
    pilot_power,
    prediction_powered_mean,
    rate_difference,
    repeated_measures,
    sign_flip,
)
from toolkit.stats.comparisons.models import paired_difference
from toolkit.stats.detection.deciders import length_decisions
from toolkit.stats.detection.rates import confusion
from toolkit.stats.inference.jackknife import ONE_SIDED, with_jackknife
from toolkit.stats.one_shot.methods import KEYS, score_methods

NAN, INF = math.nan, math.inf
ROWS = [(f"r{b}{m}{s}", f"b{b}", "XY"[b % 2], m, s) for b in range(4) for m in "uv" for s in "SML"]
RUNS = pd.DataFrame(ROWS, columns=["run_id", "base", "scenario", "model", "length_bin"])
RUNS = RUNS.assign(composite_strict=3.0, aud_cost=0.1, judge="primary")
TWICE = pd.concat([RUNS, RUNS])
HUMAN = RUNS.iloc[:6].assign(rater="anna")
VERDICTS = pd.DataFrame([["x"] * len(KEYS)], columns=list(KEYS)).assign(verdict="expected")
METHODS = pd.DataFrame([("q0", "a", "m", 1.0)], columns=["question", "variant", "model", "raw"])


def ppi(*given):
    return prediction_powered_mean("m", *given)


TABLE = np.random.default_rng(5).normal(3, 1, (9, 3))


def anova(scores):
    found = repeated_measures(scores, missing=4)
    assert found.missing == 4
    return found


def tost(differences):
    return equivalence("M-S", differences, 0.25, scale=4.0)


def error_bar(values, bases):
    return paired_difference("d", values, [0.0] * len(values), bases)


def calibrated(human, judged, unrated):
    return ppi(human, judged, unrated).calibrated


REASONS = [
    (anova, np.empty((0, 3)), "0 bases"),
    (anova, TABLE[:2], "2 bases"),
    (anova, np.full((6, 3), 5.0), "do not vary"),
    (anova, np.arange(6)[:, None] + np.array([0.1, 0.2, 0.3]), "do not vary"),
    (anova, 3 + 1e-13 * TABLE, "do not vary"),
    (tost, [], "0 base"),
    (tost, [0.1], "1 base"),
    (error_bar, [], [], "there are no"),
    (error_bar, [None, None], ["a", "b"], "there are no"),
    (error_bar, [1.0, 2.0], ["a", "a"], "two are needed"),
    (calibrated, [], [], [3.0, 4.0], "no answer was rated"),
    (calibrated, [NAN], [3.0], [3.0], "no answer was rated"),
    (calibrated, [4.0, INF, 3.0], [4.0, 3.0, 3.0], [3.0], "infinite"),
    (calibrated, [4.0, 3.0], [4.0, 3.0], [3.0], "2 rated bases, and 4"),
    (calibrated, [4.0] * 5, [4.0] * 5, [4.0] * 9, "do not vary"),
    (calibrated, [4.0 + 1e-14, 4.0, 4.0, 4.0], [4.0] * 4, [4.0] * 9, "do not vary"),
]


@pytest.mark.parametrize("case", REASONS, ids=lambda case: f"{case[0].__name__}: {case[-1]}")
def test_what_the_data_do_not_support_says_why(case):
    function, *arguments, says = case
    found = function(*arguments)
    assert found.low is found.high is found.p_value is None
    assert re.search(says, found.remarks), found.remarks
    assert (found.estimate is None) is found.remarks.startswith("not estimable: ")
    assert re.search(says, found.sentence(), re.IGNORECASE)
    json.dumps(found.to_dict(), allow_nan=False)


REFUSED = [
    ("length bin 'XL'", lambda: compare_lengths(RUNS.assign(length_bin="XL"))),
    ("'good' is not a finite number", lambda: compare_lengths(RUNS.assign(composite_strict="good"))),
    ("inf is not a finite number", lambda: compare_lengths(RUNS.assign(composite_strict=INF))),
    ("the base is empty", lambda: compare_lengths(RUNS.assign(base=None))),
    ("lack the column composite", lambda: compare_lengths(RUNS.drop(columns="composite_strict"))),
    ("run 'r0uS' is there 2 times", lambda: compare_lengths(TWICE)),
    ("lack the column actionability", lambda: dimension_profile(RUNS, ("actionability",))),
    ("lack the column model", lambda: missing_data(RUNS.drop(columns="model"))),
    ("runs, row 1: the base is empty", lambda: missing_data(RUNS.assign(base=None))),
    ("there 2 times", lambda: missing_data(TWICE)),
    ("5.5 is no score from 0 to 5", lambda: ceiling(RUNS.assign(composite_strict=5.5))),
    ("inf is no score from 0 to 5", lambda: ceiling(RUNS.assign(composite_strict=INF))),
    ("'good' is not a number", lambda: ceiling(RUNS.assign(composite_strict="good"))),
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
    ("inf is not a finite number", lambda: compare_models(RUNS.assign(composite_strict=INF))),
    ("rate=False", lambda: compare_models(RUNS, rate=True)),
    ("give as many", lambda: paired_difference("x", [1.0], [0.0], ["a", "b"])),
    ("infinite", lambda: paired_difference("x", [1.0, INF], [0.0, 0.0], ["a", "b"])),
    ("give as many", lambda: paired_difference("x", [1.0], [1.0, 2.0], ["a"])),
    ("not between 0 and 1", lambda: rate_difference("x", [1.5, 0.0], [0.0, 0.0], ["a", "b"])),
    ("give as many", lambda: rate_difference("x", [1.0], [0.0, 0.0], ["a", "b"])),
    *(
        ("ANOVA", lambda scores=scores: repeated_measures(scores))
        for scores in ([[1.0], [2.0], [3.0]], [1.0, 2.0], [[1.0, INF]] * 3)
    ),
    *(("margin", lambda margin=m: equivalence("M-S", [0.1, 0.2], margin)) for m in (0, -0.1, NAN, INF)),
    *(("paired test", lambda given=given: sign_flip(given)) for given in ([], [1, NAN], [INF])),
    ("is there twice", lambda: calibrate(TWICE, RUNS, HUMAN)),
    ("rating of r0uS is there twice", lambda: calibrate(RUNS, RUNS, pd.concat([HUMAN, HUMAN]))),
    ("lack the column base", lambda: calibrate(RUNS.drop(columns="base"), RUNS, HUMAN)),
    ("rated run r0uS is not among the runs", lambda: calibrate(RUNS.iloc[6:], RUNS, HUMAN)),
    ("1 ratings by people and 2 by judges", lambda: ppi([1.0], [1.0, 2.0], [3.0])),
    ("only one side has bases", lambda: ppi([1.0], [1.0], [3.0], ["a"], None)),
    ("1 and 2 bases", lambda: ppi([1.0], [1.0], [3.0], ["a"], ["b", "c"])),
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
    ("the margin is 0.0", lambda: equivalence_bases(0.0, 1.0)),
    ("alpha is 0.6", lambda: equivalence_bases(0.2, 1.0, alpha=0.6)),
    ("the effect is 0.0", lambda: pilot_power(RUNS, 0.0)),
    ("repeats is 0", lambda: pilot_power(RUNS, 0.3, repeats=0)),
    ("lack the column base", lambda: pilot_power(RUNS.drop(columns="base"))),
    *(
        ("clarity", lambda wrong=wrong: calculate_composite_score({"clarity": wrong}))
        for wrong in ("4", True, INF, 5.1, -0.1, [4])
    ),
    (
        "'4.5' is not a number",
        lambda: aggregate_ensemble_scores([{"composite": "4.5"}, {"composite": 4.0}]),
    ),
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


def test_bases_and_rows_that_lack_a_score_are_left_out_and_counted() -> None:
    """As many numbers from the complete ones alone: the omnibus test."""
    gaps = np.insert(TABLE, 4, [[3.0, NAN, 2.0]], axis=0)
    assert repeated_measures(gaps) == replace(repeated_measures(TABLE), missing=1)
    assert repeated_measures(gaps, missing=2).missing == 3


def test_an_interval_that_the_correction_for_bias_moves_off_the_estimate_says_why_it_ends_there() -> None:
    """Three bases alike and a fourth far away: the bias is larger than the error."""
    found, scale = Estimate("x", 1.0), (lambda values: values, lambda values: values)
    moved = with_jackknife(found, np.array([0.70, 0.71, 0.72, 0.70]), *scale)
    assert (moved.low, moved.remarks) == (1.0, ONE_SIDED)
    assert moved.high > 1
    assert not with_jackknife(found, np.array([0.8, 1.3, 0.9, 1.0]), *scale).remarks


def test_runs_that_have_no_length_bin_at_all_are_of_one_bin() -> None:
    """Models are compared; a bin that is missing in some rows only is named."""
    runs = RUNS.assign(composite_strict=TABLE[:8].ravel(), length_bin=None).drop(columns="run_id")
    runs["prompt_id"] = [f"{base}{place % 3}" for place, base in enumerate(runs["base"])]
    found = compare_models(runs).differences[0]
    assert found == compare_models(runs.assign(length_bin="S")).differences[0]
    with pytest.raises(InputError, match="row 1: the length_bin is empty"):
        compare_models(runs.assign(length_bin=[None] + ["S"] * 23))

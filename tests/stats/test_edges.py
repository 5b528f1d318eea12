"""Comparisons that the data do not support say why; what cannot be used is refused in one line that names it."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from score_tables import check_shown, crossed, long, named

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
    Design,
    Estimate,
    accuracy,
    auc,
    bases_needed,
    calibrate,
    ceiling,
    classify,
    clopper_pearson,
    cluster_robust,
    clustered_mean,
    clustered_pearson,
    clustered_slope,
    cohen_kappa,
    compare_judges,
    compare_lengths,
    compare_models,
    compare_one_shot,
    compare_two_methods,
    detectable_effect,
    dimension_profile,
    equivalence,
    equivalence_bases,
    fleiss_kappa,
    focus_contrast,
    generalizability_study,
    holm,
    judge_drift,
    krippendorff_alpha,
    length_and_information,
    mcnemar,
    mean_interval,
    missing_data,
    paired_effect_size,
    pareto,
    pilot_power,
    prediction_powered_mean,
    probe_shifts,
    rate_difference,
    reference_effect,
    reliability,
    repeated_measures,
    retest,
    share,
    sign_flip,
    standard_deviation,
    study_generalizability,
    variance_components,
    weighted_kappa,
    wilson,
)
from toolkit.stats.comparisons.models import paired_difference
from toolkit.stats.detection.rates import confusion, length_decisions
from toolkit.stats.inference.jackknife import ONE_SIDED, with_jackknife
from toolkit.stats.one_shot.methods import KEYS, score_methods

NAN, INF = math.nan, math.inf
RUNS = crossed(base=named("b", 4), model="uv", length_bin="SML")
RUNS["run_id"] = RUNS["base"] + RUNS["model"] + RUNS["length_bin"]
RUNS = RUNS.assign(composite_strict=3.0, aud_cost=0.1, judge="primary", scenario=["X"] * 6 + ["Y"] * 18)
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


ONE_FACET = Design(("answer", "judge"))


def mean(values):
    return mean_interval(values).of(Estimate("mean", None))


def means_of_one_base(values):
    return clustered_mean(values, ["b"] * len(values)).of(Estimate("mean", None))


def slope(x, y, bases):
    return clustered_slope("s", x, y, bases)


def pearson(x, y, bases):
    return clustered_pearson("r", x, y, bases)


def alpha(scores):
    return krippendorff_alpha(np.array(scores, dtype=float))


def repeats(scores):
    frame = long(scores, 3).rename(columns={"judge": "repeat"}).assign(judge="primary")
    icc, sd, detectable = retest(frame)["score", "primary"]
    assert detectable.low is None
    return icc, sd


OVER = pd.concat([long([[1.0, 2], [2, 3], [4, 3]], 1, dimension=name) for name in ("clarity", "relevance")])


def over_dimensions(ratings):
    return reliability(ratings).alpha_over_dimensions


def components(values):
    found = variance_components(long(values).rename(columns={"target": "answer"}), ONE_FACET)
    assert not found.problem or "not estimable" in found.sentence()
    check_shown(found)
    return found.components


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
    (mean, [2.0], "two are needed"),
    (mean, [0.1 + 0.2, 0.3], "are equal"),
    (means_of_one_base, [1.0, 2.0], "1 cluster, and two are needed"),
    (slope, [], [], "", "not estimable: 0 answers"),
    (slope, [1.0, 2.0], [1.0, 2.0], "ab", "not estimable: 2 answers"),
    (slope, [0.1 + 0.2, 0.3, 0.3], [1.0, 2.0, 3.0], "abc", "does not vary"),
    (slope, [1.0, 2.0, 4.0], [1.0, 3.0, 2.0], "aaa", "no interval: 1 base"),
    (slope, [1.0, 2.0, 3.0], [2.0, 4.0, 6.0], "abc", "fitted line"),
    (pearson, [], [], "", "not estimable: 0 answers"),
    (pearson, [1.0, 2.0, 3.0], [4.0, 4.0, 4.0], "abc", "does not vary"),
    (pearson, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], "abcd", "straight line"),
    (pearson, [1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0], "aabb", "2 bases"),
    (pearson, [1.0, 1.0, 1.0, 1.0, 9.0], [1.0, 2.0, 1.0, 2.0, 9.0], "abcde", "one base alone"),
    (weighted_kappa, [1, 1, 1], [1, 2, 3], "the first gave one score"),
    (weighted_kappa, [1, 2, 3], [2, 2, 2 + 1e-15], "the second gave one score"),
    (weighted_kappa, [NAN, 2], [1, NAN], "0 answers"),
    (weighted_kappa, [1, 2, 3], [1, 2, 3], "agree on all"),
    (weighted_kappa, [1, 2, 3], [1, 3, 3], "abc", "no interval: 3 bases"),
    (cohen_kappa, [], [], "not estimable: the first gave one category at most"),
    (cohen_kappa, [1, 0, 1], [0, 0, 0], "not estimable: the second gave one category at most"),
    (cohen_kappa, [None, None], [1, 0], "not estimable: the first gave one category at most"),
    (cohen_kappa, [1, 0, 1], [1, 0, 1], "no interval: they agree on all items"),
    (cohen_kappa, [1, 0], [0, 1], "no interval"),
    (fleiss_kappa, [], "not estimable: no item has two votes"),
    (fleiss_kappa, [[None, None], [1, None]], "not estimable: no item has two votes"),
    (fleiss_kappa, [[1, 1], [1, 1]], "not estimable: every vote is the same"),
    (fleiss_kappa, [[1, 1], [0, 0]], "no interval: they agree on all items"),
    (fleiss_kappa, [[1, 0, 1]], "no interval"),
    (alpha, [[1, 1 + 1e-14], [1, 1], [1, 1]], "every score is the same"),
    (alpha, [[1, None], [None, 2]], "no answer has two"),
    (alpha, np.empty((0, 3)), "no answer has two"),
    (alpha, [[1, 1], [2, 2], [3, 3], [5, 5]], "judges agree on all"),
    (alpha, [[1, 2], [2, 2], [3, 2]], "no interval: 3 bases"),
    (over_dimensions, pd.concat([OVER, OVER.iloc[[0]]]), "duplicate"),
    (over_dimensions, OVER.assign(score=2.0), "not estimable: every score is the same"),
    (over_dimensions, OVER.assign(score=[INF, *OVER["score"][1:]]), "infinite"),
    (over_dimensions, OVER.query("target == 't0' and judge == 'j0'"), "two are needed"),
    (repeats, [[1.0, 1], [2, 2], [3, 3], [4, 4]], "repeated itself exactly"),
    (repeats, np.full((6, 2), 3.0), "every score is the same|repeated itself exactly"),
    (repeats, [[1.0, NAN], [2, NAN]], "two are needed"),
    (repeats, [[1.0, 2], [2, 3], [4, 4]], "no interval: 1 base,"),
    (components, np.full((4, 3), 3.0), "not estimable: every score is 3"),
    (components, np.full((4, 3), NAN), "not estimable: there is no score"),
    (components, [[1.0, 2, 3]], "not estimable: .*two of them"),
    (components, [[1.0], [2], [3]], "not estimable: .*one score per answer"),
    (components, [[1.0, INF], [2, 3]], "not estimable: .*infinite"),
    (components, np.array([[1.0, 2], [2, 3], [1, 4]]) * 1e-200, "not estimable: .*another unit"),
    (components, [[1.0, NAN], [2, NAN], [NAN, 3], [NAN, 5]], "not estimable: no reply was scored by all"),
    (components, [[1.0, 2], [2, 3], [4, 5]], "no interval: the residual mean square is 0"),
    (share, "s", [], [], "not estimable: there is no case"),
    (auc, [], [], "not estimable"),
    (auc, [True, False], [NAN, 0.3], "not estimable"),
    (auc, [True, True, False, False], [1, 1, 0, 0], "no interval"),
    (mcnemar, [True], [None], [True], "not estimable: no item is decided by both"),
]


@pytest.mark.parametrize("case", REASONS, ids=lambda case: f"{case[0].__name__}: {case[-1]}")
def test_what_the_data_do_not_support_says_why(case):
    function, *arguments, says = case
    found = function(*arguments)
    for one in (found,) if isinstance(found, Estimate) else found:
        assert one.low is one.high is one.p_value is None
        assert re.search(says, one.remarks), one.remarks
        assert (one.estimate is None) is one.remarks.startswith("not estimable: ")
        assert one.estimate is None or math.isfinite(one.estimate)
        assert re.search(says.removeprefix("not estimable: "), one.sentence(), re.IGNORECASE)
        check_shown(one)


RATINGS = long([[1.0, 2], [2, 3], [3, 3]])
REPEATED = long(np.ones((3, 2)), 1).rename(columns={"judge": "repeat"}).assign(judge="primary")
SCORES = long(np.random.default_rng(17).normal(size=(4, 3))).rename(columns={"target": "answer"})
PLAIN = variance_components(SCORES, ONE_FACET)
PAIRS = pd.DataFrame(
    {"judge": "j", "kind": "louder", "base": ["b"], "original": 3.0, "altered": 4.0, "made": True}
)
COMPARED = compare_lengths, compare_models, missing_data, pilot_power
JUDGED = RUNS.assign(repeat=0)
REFUSED = [
    (compare_lengths, RUNS.assign(length_bin="XL"), "length bin 'XL'"),
    (compare_lengths, RUNS.assign(composite_strict="good"), "'good' is not a finite number"),
    (compare_lengths, RUNS.drop(columns="composite_strict"), "lack the column composite"),
    (dimension_profile, RUNS, ("actionability",), "lack the column actionability"),
    *((compare, RUNS.assign(composite_strict=INF), "inf is not a finite") for compare in COMPARED[:2]),
    *((compare, RUNS.drop(columns="base"), "lack the column base") for compare in COMPARED),
    *((compare, RUNS.assign(base=None), "row 1: the base is empty") for compare in COMPARED),
    *((compare, TWICE, "run 'b0uS' is there 2 times") for compare in COMPARED),
    (ceiling, RUNS.assign(composite_strict=5.5), "5.5 is no score from 0 to 5"),
    (ceiling, RUNS.assign(composite_strict=INF), "inf is no score from 0 to 5"),
    (ceiling, RUNS.assign(composite_strict="good"), "'good' is not a number"),
    (ceiling, RUNS.assign(base=None), "the base is empty"),
    (ceiling, RUNS, "clarity", "lack the column clarity"),
    (lambda: ceiling(RUNS, limit=0), "limit 0 cannot be"),
    (pareto, RUNS.assign(aud_cost=-1.0), "below 0"),
    (lambda: pareto(RUNS, resamples=0), "0 resamples"),
    (focus_contrast, RUNS.assign(run_id="z" + RUNS["run_id"]), RUNS, "no run is in both"),
    (focus_contrast, RUNS.assign(base="other"), RUNS, "two bases"),
    (focus_contrast, RUNS.drop(columns="run_id"), RUNS, "lack the column run_id"),
    (focus_contrast, TWICE, RUNS, "on has run 'b0uS' by judge 'primary' twice"),
    *((compare, RUNS.drop(columns="model"), "lack the column model") for compare in COMPARED[1:3]),
    (lambda: compare_models(RUNS, rate=True), "rate=False"),
    (paired_difference, "x", [1.0], [0.0], ["a", "b"], "give as many"),
    (paired_difference, "x", [1.0, INF], [0.0, 0.0], ["a", "b"], "infinite"),
    (paired_difference, "x", [1.0], [1.0, 2.0], ["a"], "give as many"),
    (rate_difference, "x", [1.5, 0.0], [0.0, 0.0], ["a", "b"], "not between 0 and 1"),
    (rate_difference, "x", [1.0], [0.0, 0.0], ["a", "b"], "give as many"),
    *(
        (repeated_measures, scores, "ANOVA")
        for scores in ([[1.0], [2.0], [3.0]], [1.0, 2.0], [[1.0, INF]] * 3)
    ),
    *((equivalence, "M-S", [0.1, 0.2], m, "margin") for m in (0, -0.1, NAN, INF)),
    *((sign_flip, given, "paired test") for given in ([], [1, NAN], [INF])),
    (calibrate, TWICE, RUNS, HUMAN, "is there twice"),
    (calibrate, RUNS, RUNS, pd.concat([HUMAN, HUMAN]), "rating of b0uS is there twice"),
    (calibrate, RUNS.drop(columns="base"), RUNS, HUMAN, "lack the column base"),
    (calibrate, RUNS.iloc[6:], RUNS, HUMAN, "rated run b0uS is not among the runs"),
    (ppi, [1.0], [1.0, 2.0], [3.0], "1 ratings by people and 2 by judges"),
    (ppi, [1.0], [1.0], [3.0], ["a"], None, "only one side has bases"),
    (ppi, [1.0], [1.0], [3.0], ["a"], ["b", "c"], "1 and 2 bases"),
    (confusion, [True, False], [True], "2 labels and 1 decisions"),
    (confusion, [True, None], [True, False], "has no label"),
    (classify([True], [True]).rate, "luck", "use one of accuracy"),
    (classify, [True, False], [True, False], ["q"], "2 labels and 1 clusters"),
    (auc, [True], [0.1, 0.2], "1 labels and 2 scores"),
    (mcnemar, [True], [True], [True, True], "1 labels and 2 decisions"),
    (length_decisions, [True], [1, 2], "1 labels and 2 lengths"),
    (compare_two_methods, (1, 2), (1, 2, 3), "must be three"),
    (compare_two_methods, (0, 0, 0), (1, 0, 0), "N is 0"),
    (compare_two_methods, (-1, 1, 1), (1, 0, 0), "expected is -1"),
    *((score_methods, VERDICTS.drop(columns=name), name) for name in VERDICTS),
    (score_methods, VERDICTS.assign(verdict="right"), "'right' is not one of"),
    (compare_one_shot, pd.concat([METHODS, METHODS]), "q0 of a and m is there twice"),
    (compare_one_shot, METHODS.drop(columns="model"), "lack the column model"),
    (lambda: compare_one_shot(METHODS, by="sample"), "'sample' is not known"),
    *((bases_needed, 0.5, sd, "standard deviation") for sd in (0.0, -1.0, INF, NAN)),
    (bases_needed, NAN, 1.0, "the effect is nan"),
    (lambda: bases_needed(0.5, 1.0, power=1.0), "power is 1.0"),
    (lambda: bases_needed(0.5, 1.0, alpha=0.0), "alpha is 0.0"),
    (detectable_effect, 1, 1.0, "n is 1"),
    (equivalence_bases, 0.0, 1.0, "the margin is 0.0"),
    (lambda: equivalence_bases(0.2, 1.0, alpha=0.6), "alpha is 0.6"),
    (pilot_power, RUNS, 0.0, "the effect is 0.0"),
    (lambda: pilot_power(RUNS, 0.3, repeats=0), "repeats is 0"),
    *(
        (calculate_composite_score, {"clarity": wrong}, "clarity")
        for wrong in ("4", True, INF, 5.1, -0.1, [4])
    ),
    (aggregate_ensemble_scores, [{"composite": "4.5"}, {"composite": 4.0}], "'4.5' is not a number"),
    (lambda: calculate_ci([1.0, 2.0], confidence=95), "confidence"),
    *((calculate_efficiency, 4.0, cost, "cost") for cost in (-0.01, NAN, INF, "free")),
    *(
        (analyze_length_bias, {"S": [run]}, "length bin S|has neither")
        for run in ("3.0", {"grade": 3.0}, object())
    ),
    *(
        (one_shot_score, *counts, "one-shot score")
        for counts in ((0, 0, 0), (-1, 5, 6), (1.5, 1, 1), (NAN, 1, 1), ("6", 1, 3), (True, 1, 1))
    ),
    *(
        (lambda weights=weights: one_shot_score(1, 1, 1, weights=weights), "weights")
        for weights in ((1, 0), (1, 0, NAN), ("a", 0, 1), 3)
    ),
    (lambda: one_shot_score(1, 1, 1, confidence=1.0), "confidence"),
    (probe_shifts, PAIRS, "lack the column reason"),
    (lambda: compare_judges(PAIRS, PAIRS, leniency={}), "judgements: lack the column"),
    (clustered_mean, [1.0, 2.0], ["a"], "cluster for each value"),
    (mean_interval, [], "mean"),
    (mean_interval, [INF, 1.0], "mean"),
    (slope, [1.0, 2.0], [1.0], "ab", "give as many"),
    (slope, [1.0, 2.0, NAN], [1.0, 2.0, 3.0], "abc", "missing or infinite"),
    (pearson, [1.0, 2.0], [1.0], "ab", "give as many"),
    (pearson, [1.0, NAN], [1.0, 2.0], "ab", "missing or infinite"),
    (cluster_robust, np.ones((3, 1)), [1.0, 2.0], "abc", {"b": [1]}, "give as many"),
    (weighted_kappa, [1, 2], [1], "two scores for each"),
    (weighted_kappa, [1, INF], [1, 2], "infinite"),
    (cohen_kappa, [1, 0, 1], [1, 0], "3 and 2 categories"),
    (krippendorff_alpha, np.array([[1, INF]]), "Krippendorff's alpha"),
    (krippendorff_alpha, np.array([[1, 2]]), [1, 2], "Krippendorff's alpha"),
    (wilson, 6, 5, "is no share"),
    (wilson, 1, 0, "is no share"),
    (clopper_pearson, 1.5, 4, "whole numbers"),
    (share, "s", [True, False], ["a"], "2 cases and 1 clusters"),
    (standard_deviation, "sd", [1.0, INF], "infinite"),
    (paired_effect_size, [1.0], "effect size"),
    (paired_effect_size, [0.5, 0.5], "effect size"),
    (paired_effect_size, [1.0, NAN], "effect size"),
    (holm, [0.5, 1.1], "p value"),
    (holm, [0.5, -0.1], "p value"),
    (reliability, RATINGS.drop(columns="judge"), "lack the column judge"),
    (reliability, RATINGS.iloc[:0], "there are none"),
    (reliability, RATINGS.assign(judge=None), "row 1: the judge is empty"),
    (reliability, RATINGS.assign(score="high"), "row 1: score 'high'"),
    (retest, pd.concat([REPEATED, REPEATED]), "6 duplicate rating"),
    (retest, REPEATED.drop(columns="repeat"), "lack the column repeat"),
    (retest, REPEATED.assign(score=INF), "inf is not a finite number"),
    (variance_components, pd.concat([SCORES, SCORES]), ONE_FACET, "12 rows of a cell that has one"),
    (variance_components, SCORES.iloc[:0], ONE_FACET, "there are none"),
    (Design, ("a", "a"), "design"),
    (Design, ("a", "b"), {"b": ("c",)}, "design"),
    (Design, ("a", "b"), {"a": ("b",)}, "design"),
    (Design, (), "design"),
    (generalizability_study, PLAIN, "model", "not in the design"),
    (lambda: generalizability_study(PLAIN, "answer", fixed=("answer",)), "fixed as well"),
    (lambda: study_generalizability(SCORES, of="prompt"), "not known"),
    (lambda: study_generalizability(JUDGED, target=1.0), "between 0 and 1"),
    (study_generalizability, JUDGED.drop(columns="composite_strict"), "lack the column composite_strict"),
    (study_generalizability, pd.concat([JUDGED, JUDGED]), "of a cell that has one"),
    (lambda: study_generalizability(pd.concat([JUDGED, JUDGED]), of="model"), "are there twice"),
    *(
        (lambda of=of: study_generalizability(JUDGED[:1].assign(base=None), of=of), "the base is empty")
        for of in ("answer", "model")
    ),
    (judge_drift, pd.concat([OVER, OVER]), OVER, "target t0 has two scores by judge j0 on clarity"),
    (judge_drift, OVER.drop(columns="base"), OVER, "then: lack the column base"),
    (judge_drift, OVER.assign(score="good"), OVER, "good"),
    (judge_drift, OVER.assign(judge=None), OVER, "the judge is empty"),
    (length_and_information, RUNS, "lack the column length_arm"),
    (length_and_information, RUNS.assign(length_arm=None, composite_strict=INF), "is not a finite number"),
    *((accuracy, RUNS[:2].assign(correct=[1.0, share]), "row 2") for share in (-0.1, 1.5)),
    (
        reference_effect,
        RUNS,
        RUNS.assign(run_id="z" + RUNS["run_id"]),
        "reference effect: no run is in both frames",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[-1])
def test_what_cannot_be_used_is_refused_in_one_line(case):
    function, *arguments, says = case
    with pytest.raises(InputError, match=says) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)


def test_bases_and_rows_that_lack_a_score_are_left_out_and_counted():
    """As many numbers from the complete ones alone: the omnibus test."""
    gaps = np.insert(TABLE, 4, [[3.0, NAN, 2.0]], axis=0)
    assert repeated_measures(gaps) == replace(repeated_measures(TABLE), missing=1)
    assert repeated_measures(gaps, missing=2).missing == 3


def test_an_interval_that_the_correction_for_bias_moves_off_the_estimate_says_why_it_ends_there():
    """Three bases alike and a fourth far away: the bias is larger than the error."""
    found, scale = Estimate("x", 1.0), (lambda values: values, lambda values: values)
    moved = with_jackknife(found, np.array([0.70, 0.71, 0.72, 0.70]), *scale)
    assert (moved.low, moved.remarks) == (1.0, ONE_SIDED)
    assert moved.high > 1
    assert not with_jackknife(found, np.array([0.8, 1.3, 0.9, 1.0]), *scale).remarks


def test_runs_that_have_no_length_bin_at_all_are_of_one_bin():
    """Models are compared; a bin that is missing in some rows only is named."""
    runs = RUNS.assign(composite_strict=TABLE[:8].ravel(), length_bin=None).drop(columns="run_id")
    runs["prompt_id"] = [f"{base}{place % 3}" for place, base in enumerate(runs["base"])]
    found = compare_models(runs).differences[0]
    assert found == compare_models(runs.assign(length_bin="S")).differences[0]
    with pytest.raises(InputError, match="row 1: the length_bin is empty"):
        compare_models(runs.assign(length_bin=[None] + ["S"] * 23))

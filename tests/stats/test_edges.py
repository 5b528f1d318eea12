"""Comparisons that the data do not support say why; what cannot be used is refused in one line that names it."""

import math
import re
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from cases import cases
from score_tables import check_shown, crossed, long, named

from toolkit import scoring, stats
from toolkit.errors import InputError
from toolkit.scoring import analyze_length_bias
from toolkit.stats import (
    Design,
    Estimate,
    accuracy,
    calibrate,
    ceiling,
    classify,
    clustered_mean,
    clustered_pearson,
    clustered_slope,
    compare_judges,
    compare_models,
    dimension_profile,
    equivalence,
    generalizability_study,
    judge_drift,
    krippendorff_alpha,
    mean_interval,
    pareto,
    pilot_power,
    prediction_powered_mean,
    probe_shifts,
    reliability,
    repeated_measures,
    retest,
    study_generalizability,
    variance_components,
)
from toolkit.stats.comparisons import models
from toolkit.stats.detection import rates
from toolkit.stats.inference.jackknife import ONE_SIDED, with_jackknife
from toolkit.stats.one_shot.methods import KEYS, score_methods

NAN, INF = math.nan, math.inf
RUNS = crossed(base=named("b", 4), model="uv", level="SML")
RUNS["run_id"] = RUNS["base"] + RUNS["model"] + RUNS["level"]
RUNS = RUNS.assign(composite_strict=3.0, aud_cost=0.1, judge="primary", scenario=["X"] * 6 + ["Y"] * 18)
TWICE = pd.concat([RUNS, RUNS])
HUMAN = RUNS.iloc[:6].assign(rater="anna")
VERDICTS = pd.DataFrame([["x"] * len(KEYS)], columns=list(KEYS)).assign(verdict="expected")


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
    return models.paired_difference("d", values, [0.0] * len(values), bases)


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


def by_name(name):
    """Return a function of this module or of the toolkit."""
    places = sys.modules[__name__], scoring, stats, rates, models
    return next(getattr(place, name) for place in places if hasattr(place, name))


CASES = cases(__file__)
REASONS = [
    (anova, np.empty((0, 3)), "0 bases"),
    (anova, TABLE[:2], "2 bases"),
    (anova, np.full((6, 3), 5.0), "do not vary"),
    (anova, np.arange(6)[:, None] + np.array([0.1, 0.2, 0.3]), "do not vary"),
    (anova, 3 + 1e-13 * TABLE, "do not vary"),
    (krippendorff_alpha, np.empty((0, 3)), "no answer has two"),
    (over_dimensions, pd.concat([OVER, OVER.iloc[[0]]]), "duplicate"),
    (over_dimensions, OVER.assign(score=2.0), "not estimable: every score is the same"),
    (over_dimensions, OVER.assign(score=[INF, *OVER["score"][1:]]), "infinite"),
    (over_dimensions, OVER.query("target == 't0' and judge == 'j0'"), "two are needed"),
    *((by_name(name), *given) for name, *given in CASES["reasons"]),
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
JUDGED = RUNS.assign(repeat=0)
REFUSED = [
    *((by_name(name), *given) for name, *given in CASES["refused"]),
    *((partial(by_name(name), *given, **more), says) for name, given, more, says in CASES["options"]),
    *((by_name(name), RUNS.assign(**changed), says) for name, changed, says in CASES["runs"]),
    *((by_name(name), RUNS.drop(columns=lost), f"lack the column {lost}") for name, lost in CASES["lacks"]),
    *(
        (by_name(name), TWICE, "run 'b0uS' is there 2 times")
        for name, lost in CASES["lacks"]
        if lost == "base"
    ),
    (dimension_profile, RUNS, ("actionability",), "lack the column actionability"),
    (ceiling, RUNS, "clarity", "lack the column clarity"),
    (lambda: ceiling(RUNS, limit=0), "limit 0 cannot be"),
    (lambda: pareto(RUNS, resamples=0), "0 resamples"),
    (lambda: compare_models(RUNS, rate=True), "rate=False"),
    (calibrate, TWICE, RUNS, HUMAN, "is there twice"),
    (calibrate, RUNS, RUNS, pd.concat([HUMAN, HUMAN]), "rating of b0uS is there twice"),
    (calibrate, RUNS.drop(columns="base"), RUNS, HUMAN, "lack the column base"),
    (calibrate, RUNS.iloc[6:], RUNS, HUMAN, "rated run b0uS is not among the runs"),
    (classify([True], [True]).rate, "luck", "use one of accuracy"),
    *((score_methods, VERDICTS.drop(columns=name), name) for name in VERDICTS),
    (score_methods, VERDICTS.assign(verdict="right"), "'right' is not one of"),
    (pilot_power, RUNS, 0.0, "the effect is 0.0"),
    (lambda: pilot_power(RUNS, 0.3, repeats=0), "repeats is 0"),
    (analyze_length_bias, {"S": [object()]}, "length bin S|has neither"),
    (probe_shifts, PAIRS, "lack the column reason"),
    (lambda: compare_judges(PAIRS, PAIRS, leniency={}), "judgements: lack the column"),
    (reliability, RATINGS.drop(columns="judge"), "lack the column judge"),
    (reliability, RATINGS.iloc[:0], "there are none"),
    (reliability, RATINGS.assign(judge=None), "row 1: the judge is empty"),
    (reliability, RATINGS.assign(score="high"), "row 1: score 'high'"),
    (retest, pd.concat([REPEATED, REPEATED]), "6 duplicate rating"),
    (retest, REPEATED.drop(columns="repeat"), "lack the column repeat"),
    (retest, REPEATED.assign(score=INF), "inf is not a finite number"),
    (variance_components, pd.concat([SCORES, SCORES]), ONE_FACET, "12 rows of a cell that has one"),
    (variance_components, SCORES.iloc[:0], ONE_FACET, "there are none"),
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
    *((accuracy, RUNS[:2].assign(correct=[1.0, share]), "row 2") for share in (-0.1, 1.5)),
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
    runs = RUNS.assign(composite_strict=TABLE[:8].ravel(), level=None).drop(columns="run_id")
    runs["prompt_id"] = [f"{base}{place % 3}" for place, base in enumerate(runs["base"])]
    found = compare_models(runs).differences[0]
    assert found == compare_models(runs.assign(level="S")).differences[0]
    with pytest.raises(InputError, match="row 1: the level is empty"):
        compare_models(runs.assign(level=[None] + ["S"] * 23))

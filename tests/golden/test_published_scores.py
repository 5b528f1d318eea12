"""Scores of the seeds: worked numbers, and the exact and Student t intervals of other programs."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from places import TEMPLATES
from scipy import stats
from score_tables import ends, golden, numbers, three_outcomes

from toolkit import Scores
from toolkit.scoring import aggregate_ensemble_scores, one_shot_score
from toolkit.stats import clopper_pearson, compare_conditions

FILES = "ensemble_interval", "one_shot_score", "exact_binomial", "fisher_1935_maize", "hanna"
ENSEMBLE, ONE_SHOT, BINOMIAL, MAIZE, HANNA = map(golden, FILES)


def test_three_judges_give_the_golden_mean_spread_and_interval():
    aggregated = aggregate_ensemble_scores([SimpleNamespace(composite=score) for score in ENSEMBLE["scores"]])
    assert aggregated["mean"] == pytest.approx(ENSEMBLE["mean"])
    assert aggregated["std"] == pytest.approx(ENSEMBLE["std"])
    assert aggregated["confidence_interval"] == pytest.approx(ENSEMBLE["ci95"], abs=5e-4)
    assert aggregated["judge_count"] == 3


@pytest.mark.parametrize("case", ONE_SHOT["cases"])
def test_the_protocol_gives_raw_and_score(case):
    result = one_shot_score(case["i1"], case["i0"], case["h"])
    assert (result.raw, result.score) == (pytest.approx(case["raw"]), pytest.approx(case["score"]))
    assert result.n == 10
    assert result.low <= result.raw <= result.high


@pytest.mark.parametrize("case", ONE_SHOT["clopper_pearson"])
def test_with_two_outcomes_the_interval_is_clopper_pearson(case):
    result = one_shot_score(case["k"], case["n"] - case["k"], 0, weights=(1, 0, 0))
    assert ends(result) == pytest.approx(case["ci"], abs=1e-4)
    exact = stats.binomtest(case["k"], case["n"]).proportion_ci(method="exact")
    assert ends(result) == pytest.approx(ends(exact))


@pytest.mark.parametrize("case", BINOMIAL["cases"])
def test_the_exact_interval_is_the_golden_one(case):
    found = clopper_pearson(case["k"], case["n"])
    assert found == pytest.approx(case["ci"], abs=5e-5)


@pytest.mark.parametrize(("n", "weights"), [(1, (1, 0, -0.5)), (4, (1, 0.5, -1)), (10, (1, 0, -0.5))])
def test_the_interval_covers_every_share_on_a_grid_at_least_as_often_as_it_says(n, weights):
    """Coverage is enumerated exactly: every outcome with its multinomial probability, for 231 shares."""
    outcomes, shares, chance = three_outcomes(n, 20)
    low, high = np.transpose([ends(one_shot_score(*row, weights=weights)) for row in outcomes.tolist()])
    truth = (shares @ np.array(weights))[:, None]
    for missed in (truth < low - 1e-5, truth > high + 1e-5):
        assert (chance * missed).sum(axis=1).max() <= 0.025


def test_the_bounds_are_the_quantiles_of_a_simulated_dirichlet():
    draws = np.random.default_rng(20250107).dirichlet([6, 1, 4], 400_000) @ np.array([1, 0, -0.5])
    assert one_shot_score(6, 1, 3).low == pytest.approx(np.quantile(draws, 0.025), abs=3e-3)


def test_a_contrast_of_two_conditions_is_fishers_t_test_of_darwins_maize():
    """The ends of the interval are so far from the mean as t says, and P is that of scipy's paired test."""
    crossed, selfed = np.array(MAIZE["differences"]), np.zeros(15)
    plants = pd.DataFrame({"base": [*range(15)] * 2, "kind": ["crossed"] * 15 + ["self"] * 15})
    plants["height"] = np.concatenate([crossed, selfed])
    (contrast,) = compare_conditions(plants, "height", factor="kind", levels=["self", "crossed"]).contrasts
    assert contrast.estimate == pytest.approx(MAIZE["sum"] / 15)
    half = (contrast.high - contrast.low) / 2
    assert contrast.estimate / half * stats.t.ppf(0.975, 14) == pytest.approx(MAIZE["t"], abs=5e-4)
    assert contrast.p_value == pytest.approx(stats.ttest_rel(crossed, selfed).pvalue)


def test_the_scores_of_hanna_give_what_another_program_gives():
    """Means, paired differences and correlations with people; docs/explain/beside_others.md shows both columns."""
    table = pd.read_csv(TEMPLATES / "hanna" / "ratings.csv")
    ratings = table.melt(["item", "model", "dimension"], var_name="judge", value_name="score")
    ratings["human"] = ratings["judge"].str.startswith("human_")
    ratings["score"] = ratings["score"].where(ratings["score"].between(1, 5))
    assert (len(ratings), int(ratings["score"].isna().sum())) == (50_688, 346)
    people = Scores(ratings[ratings["human"]].drop(columns="human"), name="people", scale=(1, 5))
    named = {estimate.name: estimate for _, estimate in people.compare_models().rows()}
    for name, (mean, *theirs) in HANNA["means"].items():
        assert named[name].estimate == pytest.approx(mean, abs=1e-6)
        # Theirs is a delta method on the logit, ours a jackknife: two ways to the same interval.
        assert ends(named[name]) == pytest.approx(tuple(theirs), abs=2e-3)
    for name, theirs in HANNA["differences"].items():
        assert numbers(named[name]) == pytest.approx(tuple(theirs), abs=2e-6)
    agreement = {
        estimate.name: estimate
        for estimate in Scores(ratings, name="hanna", scale=(1, 5)).calibration().agreement
    }
    for judge, (answers, r, *theirs) in HANNA["pearson"].items():
        estimate = agreement[f"r of {judge} and people"]
        assert (estimate.n["answers"], round(estimate.estimate, 6)) == (answers, r)
        # Theirs takes the eleven stories of one prompt for independent, ours does not.
        assert ends(estimate) == pytest.approx(tuple(theirs), abs=0.012)

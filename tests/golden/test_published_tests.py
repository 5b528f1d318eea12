"""Omnibus tests, equivalence and calibrated means: published numbers, and other programs."""

import numpy as np
import pandas as pd
import pytest
from score_tables import golden

from toolkit.stats import (
    equivalence,
    prediction_powered_mean,
    repeated_measures,
)

SPSS, TOST, PPI = map(golden, ("repeated_measures_spss", "tost_paired", "ppi_angelopoulos_2024"))


def test_the_anova_gives_what_spss_printed():
    """F, the P value and epsilon of Greenhouse and Geisser, the sums of squares, and what is left out."""
    found = repeated_measures(SPSS["scores"], missing=2)
    assert found.estimate == pytest.approx(SPSS["f"], abs=5e-4)
    assert found.p_value == pytest.approx(SPSS["greenhouse_geisser"]["p"], abs=5e-4)
    share = SPSS["ss_effect"] / (SPSS["ss_effect"] + SPSS["ss_error"])
    epsilon = SPSS["greenhouse_geisser"]["df1"] / 2
    assert found.note == f"df 2 and 8, epsilon {epsilon:.2f}, partial eta squared {share:.2f}"
    assert (found.n, found.missing) == ({"bases": 5, "levels": 3}, 2)


@pytest.mark.parametrize("bins", [2, 3, 4])
def test_the_anova_is_that_of_statsmodels(bins):
    """F to 1e-9, and of two bins the P value too, which nothing corrects."""
    from statsmodels.stats.anova import AnovaRM

    rng = np.random.default_rng(5)
    scores = 3 + rng.normal(0, 1, (9, 1)) + rng.normal(0, 1, (9, bins)) * np.linspace(0.2, 1.5, bins)
    long = pd.DataFrame(scores).reset_index().melt("index")
    oracle = AnovaRM(long, "value", "index", within=["variable"]).fit().anova_table.iloc[0]
    found = repeated_measures(scores)
    assert found.estimate == pytest.approx(oracle["F Value"], rel=1e-9)
    if bins == 2:
        assert found.p_value == pytest.approx(oracle["Pr > F"], rel=1e-9)


def test_the_p_value_of_two_one_sided_tests():
    """Six pairs, margin 2: p = .82861 on 5 degrees of freedom."""
    differences = np.subtract(TOST["x"], TOST["y"])
    assert len(differences) - 1 == TOST["dof"]
    found = equivalence("x - y", differences, TOST["margin"])
    assert found.p_value == pytest.approx(TOST["p"], abs=5e-6)
    assert found.confidence == pytest.approx(0.90)


def test_a_prediction_powered_mean_lies_by_its_weight_between_the_published_ones():
    """At a weight of 0 it is people's mean, at 1 the published one with all of the judges' correction."""
    found = prediction_powered_mean("m", PPI["human"], PPI["judge_on_same"], PPI["judge_unlabelled"])
    people, corrected = PPI["lambda0"]["mean"], PPI["lambda1"]["mean"]
    expected = people + found.tuning * (corrected - people)
    assert found.calibrated.estimate == pytest.approx(expected, abs=1e-6)

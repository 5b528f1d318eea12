"""Omnibus tests, equivalence and calibrated means: published numbers, and other programs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from toolkit.stats import (
    equivalence,
    friedman,
    prediction_powered_mean,
    repeated_measures,
)

SPSS, ROUNDING_TIMES, TOST, PPI = (
    json.loads(Path(__file__).with_name(f"{name}.json").read_text("utf-8"))
    for name in (
        "repeated_measures_spss",
        "friedman_rounding_times",
        "tost_paired",
        "ppi_angelopoulos_2024",
    )
)


def test_the_sentence_gives_both_corrections() -> None:
    """Degrees of freedom after Huynh & Feldt, both epsilons, effect size, n and what is left out."""
    words = repeated_measures(SPSS["scores"], missing=2).sentence()
    for part in ("F(1.59, 6.36) = 4.72", "epsilon = 0.795", "epsilon = 0.634", "squared = 0.542"):
        assert part in words
    assert "5 bases, 3 bins; 2 bases lack a bin" in words


def test_friedman_gives_what_r_printed() -> None:
    """Chi-square and its p value of Hollander & Wolfe's baseball players, ties included."""
    found = friedman(ROUNDING_TIMES["times"])
    chi = found.estimate * 22 * 2
    assert chi == pytest.approx(ROUNDING_TIMES["chi_square"], abs=5e-4)
    assert stats.chi2.sf(chi, 2) == pytest.approx(ROUNDING_TIMES["p"], abs=5e-7)
    assert "11.1429" in found.remarks
    assert "0.00380" in found.remarks


def test_the_anova_gives_what_spss_printed() -> None:
    """F, both epsilons through their degrees of freedom, all p values and the sums of squares."""
    found = repeated_measures(SPSS["scores"])
    assert found.f == pytest.approx(SPSS["f"], abs=5e-4)
    assert found.p_uncorrected == pytest.approx(SPSS["p_uncorrected"], abs=5e-4)
    for name, epsilon, p in (
        ("greenhouse_geisser", found.epsilon_gg, found.p_gg),
        ("huynh_feldt", found.epsilon_hf, found.p_hf),
    ):
        assert epsilon * found.df1 == pytest.approx(SPSS[name]["df1"], abs=5e-4)
        assert epsilon * found.df2 == pytest.approx(SPSS[name]["df2"], abs=1.5e-3)
        assert p == pytest.approx(SPSS[name]["p"], abs=5e-4)
    share = SPSS["ss_effect"] / (SPSS["ss_effect"] + SPSS["ss_error"])
    assert found.eta == pytest.approx(share, abs=1e-6)
    assert found.p_value == found.p_hf == found.as_estimate().p_value


def test_the_p_value_of_two_one_sided_tests() -> None:
    """Six pairs, margin 2: p = .82861 on 5 degrees of freedom."""
    differences = np.subtract(TOST["x"], TOST["y"])
    assert len(differences) - 1 == TOST["dof"]
    found = equivalence("x - y", differences, TOST["margin"])
    assert found.p_value == pytest.approx(TOST["p"], abs=5e-6)
    assert found.confidence == pytest.approx(0.90)


def test_a_prediction_powered_mean_lies_by_its_weight_between_the_published_ones() -> None:
    """At a weight of 0 it is people's mean, at 1 the published one with all of the judges' correction."""
    found = prediction_powered_mean("m", PPI["human"], PPI["judge_on_same"], PPI["judge_unlabelled"])
    people, corrected = PPI["lambda0"]["mean"], PPI["lambda1"]["mean"]
    expected = people + found.tuning * (corrected - people)
    assert found.calibrated.estimate == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # pingouin 0.7 under pandas 3.1
@pytest.mark.parametrize("bins", [2, 3, 4])
def test_the_anova_is_that_of_pingouin_and_statsmodels(bins: int) -> None:
    """F, p, Greenhouse-Geisser p and both epsilons to 1e-10."""
    import pingouin
    from statsmodels.stats.anova import AnovaRM

    rng = np.random.default_rng(5)
    scores = 3 + rng.normal(0, 1, (9, 1)) + rng.normal(0, 1, (9, bins)) * np.linspace(0.2, 1.5, bins)
    frame = pd.DataFrame(scores, columns=list("SMLX")[:bins])
    found = repeated_measures(scores)
    theirs = pingouin.rm_anova(frame, correction=True, effsize="np2").iloc[0]
    assert found.f == pytest.approx(theirs["F"], rel=1e-10)
    assert found.p_uncorrected == pytest.approx(theirs["p_unc"], rel=1e-9)
    assert found.eta == pytest.approx(theirs["np2"], rel=1e-10)
    assert found.epsilon_gg == pytest.approx(pingouin.epsilon(frame, correction="gg"), rel=1e-10)
    assert found.epsilon_hf == pytest.approx(pingouin.epsilon(frame, correction="hf"), rel=1e-10)
    if bins > 2:
        assert found.p_gg == pytest.approx(theirs["p_GG_corr"], rel=1e-9)
    long = frame.reset_index().melt("index")
    oracle = AnovaRM(long, "value", "index", within=["variable"]).fit().anova_table
    assert found.f == pytest.approx(oracle["F Value"].iloc[0], rel=1e-9)

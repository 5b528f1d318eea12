"""Omnibus tests, equivalence, calibrated means and prevalence: published numbers, and other programs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toolkit.stats import (
    Confusion,
    corrected_prevalence,
    equivalence,
    prediction_powered_mean,
    repeated_measures,
)

SPSS, TOST, PPI, JUDGE = (
    json.loads(Path(__file__).with_name(f"{name}.json").read_text("utf-8"))
    for name in (
        "repeated_measures_spss",
        "tost_paired",
        "ppi_angelopoulos_2024",
        "imperfect_binary_judge",
    )
)


def test_the_anova_gives_what_spss_printed() -> None:
    """F, the P value and epsilon of Greenhouse and Geisser, the sums of squares, and what is left out."""
    found = repeated_measures(SPSS["scores"], missing=2)
    assert found.estimate == pytest.approx(SPSS["f"], abs=5e-4)
    assert found.p_value == pytest.approx(SPSS["greenhouse_geisser"]["p"], abs=5e-4)
    share = SPSS["ss_effect"] / (SPSS["ss_effect"] + SPSS["ss_error"])
    epsilon = SPSS["greenhouse_geisser"]["df1"] / 2
    assert found.note == f"df 2 and 8, epsilon {epsilon:.2f}, partial eta squared {share:.2f}"
    assert (found.n, found.missing) == ({"bases": 5, "bins": 3}, 2)


@pytest.mark.parametrize("bins", [2, 3, 4])
def test_the_anova_is_that_of_statsmodels(bins: int) -> None:
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


def test_the_p_value_of_two_one_sided_tests() -> None:
    """Six pairs, margin 2: p = .82861 on 5 degrees of freedom."""
    differences = np.subtract(TOST["x"], TOST["y"])
    assert len(differences) - 1 == TOST["dof"]
    found = equivalence("x - y", differences, TOST["margin"])
    assert found.p_value == pytest.approx(TOST["p"], abs=5e-6)
    assert found.confidence == pytest.approx(0.90)


@pytest.mark.parametrize(("case", "tuning"), [("lambda0", 0.0), ("lambda1", 1.0), ("tuned", None)])
def test_prediction_powered_means_are_the_published_ones(case: str, tuning: float | None) -> None:
    found = prediction_powered_mean(
        "m", PPI["human"], PPI["judge_on_same"], PPI["judge_unlabelled"], tuning=tuning, interval="normal"
    ).calibrated
    assert found.estimate == pytest.approx(PPI[case]["mean"], abs=5e-7)
    assert [found.low, found.high] == pytest.approx(PPI[case]["ci95"], abs=1.5e-6)


def test_corrected_prevalence_is_that_of_the_published_judge() -> None:
    """Estimate and interval of the example for judges of language models."""
    n, m1, m0 = JUDGE["n"], JUDGE["m1"], JUDGE["m0"]
    tp, tn, yes = (round(share * of) for share, of in ((JUDGE["q1"], m1), (JUDGE["q0"], m0), (JUDGE["p"], n)))
    found = corrected_prevalence([True] * yes + [False] * (n - yes), Confusion(tp, m1 - tp, tn, m0 - tn))
    assert found.raw == found.corrected.estimate == pytest.approx(JUDGE["theta"], abs=5e-7)
    assert [found.corrected.low, found.corrected.high] == pytest.approx(JUDGE["ci95"], abs=5e-6)
    assert found.corrected.n == {"items": 1000, "labelled yes": 200, "labelled no": 200}
    assert found.apparent.estimate == 0.4

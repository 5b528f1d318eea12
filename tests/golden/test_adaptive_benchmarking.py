"""Adaptive benchmarking: published numbers, and other people's code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from toolkit import stats as ours

GOLDEN = json.loads(Path(__file__).with_name("adaptive_benchmarking.json").read_text("utf-8"))


def test_the_divergence_of_a_sample_is_the_golden_one():
    """100 bases of three scenarios out of a bank of 300."""
    golden = GOLDEN["divergence"]
    bank = [
        (kind, n) for kind, share in zip("abc", golden["q"], strict=True) for n in range(round(300 * share))
    ]
    prompts = pd.DataFrame(
        {
            "base": [f"{kind}{n}" for kind, n in bank],
            "scenario": [kind for kind, _ in bank],
            "length_bin": "S",
        }
    )
    sample = [
        f"{kind}{n}"
        for kind, share in zip("abc", golden["p"], strict=True)
        for n in range(round(100 * share))
    ]
    found = ours.sample_taxonomy(prompts, sample, by=("scenario",)).divergence
    assert found.estimate == pytest.approx(golden["jsd"], abs=1e-6)
    assert found.p_value == 0.001


@pytest.mark.parametrize(("looks", "bound"), GOLDEN["obrien_fleming"]["bounds"].items())
def test_bounds_are_those_of_obrien_and_fleming(looks, bound):
    assert ours.boundary(int(looks)) == pytest.approx(bound, abs=0.0006)


def test_one_planned_look_at_random_bases_is_the_ordinary_interval_with_the_correction_of_a_finite_bank():
    dice = np.random.default_rng(3)
    difference = dice.normal(0.2, 0.5, 30)
    bank = pd.DataFrame({"base": range(80)})
    rows = [(m, i, "S", 3 + d * (m == "x")) for i, d in enumerate(difference) for m in "xy"]
    found = ours.sequential_comparison(
        pd.DataFrame(rows, columns=["model", "base", "length_bin", "score"]), bank
    ).differences[0]
    low, high = DescrStatsW(difference).tconfint_mean()
    half = (high - low) / 2 * np.sqrt(1 - 30 / 80)
    assert (found.low, found.high) == pytest.approx((difference.mean() - half, difference.mean() + half))
    assert found.degrees == pytest.approx(29)


def test_strata_without_covariates_are_cochrans():
    """Stratified mean, its variance with finite population correction, and Satterthwaite's degrees of freedom."""
    dice = np.random.default_rng(4)
    bank = pd.DataFrame({"base": range(60), "scenario": ["a"] * 40 + ["b"] * 20})
    asked = {"a": (list(range(10)), 40), "b": (list(range(40, 48)), 20)}
    values = {i: dice.normal(0.3, 0.2 if i < 40 else 0.9) for places, _ in asked.values() for i in places}
    rows = [(m, i, "S", 3 + d * (m == "x")) for i, d in values.items() for m in "xy"]
    found = ours.sequential_comparison(
        pd.DataFrame(rows, columns=["model", "base", "length_bin", "score"]), bank
    ).differences[0]
    mean, parts = 0.0, []
    for places, size in asked.values():
        x = np.array([values[i] for i in places])
        mean += size / 60 * x.mean()
        parts.append(((size / 60) ** 2 * (1 - len(x) / size) * x.var(ddof=1) / len(x), len(x) - 1))
    error, degrees = (
        np.sqrt(sum(v for v, _ in parts)),
        sum(v for v, _ in parts) ** 2 / sum(v**2 / d for v, d in parts),
    )
    assert found.estimate == pytest.approx(mean)
    assert found.degrees == pytest.approx(degrees)
    assert found.high - mean == pytest.approx(stats.t.ppf(0.975, degrees) * error)

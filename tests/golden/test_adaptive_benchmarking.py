"""Adaptive benchmarking: published numbers, and other people's code."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from score_tables import ends, golden
from statsmodels.stats.weightstats import DescrStatsW

from toolkit import stats as ours

GOLDEN = golden("adaptive_benchmarking")


def test_the_divergence_of_a_sample_is_the_golden_one():
    """100 bases of three scenarios out of a bank of 300."""
    case = GOLDEN["divergence"]

    def bases(size, shares):
        kinds = zip("abc", shares, strict=True)
        return [f"{kind}{n}" for kind, share in kinds for n in range(round(size * share))]

    prompts = pd.DataFrame({"base": bases(300, case["q"]), "level": "S"})
    prompts["scenario"] = prompts["base"].str[0]
    found = ours.sample_taxonomy(prompts, bases(100, case["p"]), by=("scenario",)).divergence
    assert found.estimate == pytest.approx(case["jsd"], abs=1e-6)
    assert found.p_value == 0.001


@pytest.mark.parametrize(("looks", "bound"), GOLDEN["obrien_fleming"]["bounds"].items())
def test_bounds_are_those_of_obrien_and_fleming(looks, bound):
    assert ours.boundary(int(looks)) == pytest.approx(bound, abs=0.0006)


def difference_of(values, bank):
    """Return the difference of two models, of which the first scores so much higher on these bases."""
    rows = [(m, i, "S", 3 + d * (m == "x")) for i, d in values.items() for m in "xy"]
    scores = pd.DataFrame(rows, columns=["model", "base", "level", "score"])
    return ours.sequential_comparison(scores, bank).differences[0]


def test_one_planned_look_at_random_bases_is_the_ordinary_interval_with_the_correction_of_a_finite_bank():
    dice = np.random.default_rng(3)
    difference = dice.normal(0.2, 0.5, 30)
    found = difference_of(dict(enumerate(difference)), pd.DataFrame({"base": range(80)}))
    low, high = DescrStatsW(difference).tconfint_mean()
    half = (high - low) / 2 * np.sqrt(1 - 30 / 80)
    assert ends(found) == pytest.approx((difference.mean() - half, difference.mean() + half))
    assert found.degrees == pytest.approx(29)


def test_strata_without_covariates_are_cochrans():
    """Stratified mean, its variance with finite population correction, and Satterthwaite's degrees of freedom."""
    dice = np.random.default_rng(4)
    bank = pd.DataFrame({"base": range(60), "scenario": ["a"] * 40 + ["b"] * 20})
    asked = {"a": (list(range(10)), 40), "b": (list(range(40, 48)), 20)}
    values = {i: dice.normal(0.3, 0.2 if i < 40 else 0.9) for places, _ in asked.values() for i in places}
    found = difference_of(values, bank)
    mean, parts = 0.0, []
    for places, size in asked.values():
        x = np.array([values[i] for i in places])
        mean += size / 60 * x.mean()
        parts.append(((size / 60) ** 2 * (1 - len(x) / size) * x.var(ddof=1) / len(x), len(x) - 1))
    variance = sum(v for v, _ in parts)
    degrees = variance**2 / sum(v**2 / d for v, d in parts)
    half = stats.t.ppf(0.975, degrees) * np.sqrt(variance)
    assert (found.estimate, found.degrees) == pytest.approx((mean, degrees))
    assert found.high - mean == pytest.approx(half)

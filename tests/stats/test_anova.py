"""Repeated-measures ANOVA and Friedman against SPSS, R, pingouin, statsmodels and scipy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from toolkit.errors import InputError
from toolkit.stats.prompt_length.omnibus import friedman, repeated_measures

GOLDEN = Path(__file__).parents[1] / "golden"
SPSS = json.loads((GOLDEN / "repeated_measures_spss.json").read_text("utf-8"))
ROUNDING_TIMES = json.loads((GOLDEN / "friedman_rounding_times.json").read_text("utf-8"))


def table(bases: int = 9, bins: int = 3, seed: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 3 + rng.normal(0, 1, (bases, 1)) + rng.normal(0, 1, (bases, bins)) * np.linspace(0.2, 1.5, bins)


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


def test_friedman_gives_what_r_printed() -> None:
    """Chi-square and its p value of Hollander & Wolfe's baseball players, ties included."""
    found = friedman(ROUNDING_TIMES["times"])
    chi = found.estimate * 22 * 2
    assert chi == pytest.approx(ROUNDING_TIMES["chi_square"], abs=5e-4)
    assert stats.chi2.sf(chi, 2) == pytest.approx(ROUNDING_TIMES["p"], abs=5e-7)
    assert "11.1429" in found.note
    assert "0.00380" in found.note


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # pingouin 0.7 under pandas 3.1
@pytest.mark.parametrize("bins", [2, 3, 4])
def test_the_anova_is_that_of_pingouin_and_statsmodels(bins: int) -> None:
    """F, p, Greenhouse-Geisser p and both epsilons to 1e-10."""
    import pingouin
    from statsmodels.stats.anova import AnovaRM

    scores = table(bins=bins)
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


def test_two_bins_are_the_paired_t_test() -> None:
    """F is t squared, epsilon is 1."""
    scores = table(bins=2)
    found = repeated_measures(scores)
    test = stats.ttest_rel(scores[:, 0], scores[:, 1])
    assert found.f == pytest.approx(test.statistic**2)
    assert (found.p_hf, found.p_gg) == pytest.approx((test.pvalue, test.pvalue))
    assert found.epsilon_gg == pytest.approx(1.0)


@given(st.integers(0, 50))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_friedman_is_that_of_scipy_and_ignores_what_keeps_the_order(seed: int) -> None:
    """Chi-square of scipy with ties; any rising function leaves it; so does the order of bases."""
    scores = np.round(table(bases=8, seed=seed) * 2) / 2
    found = friedman(scores)
    theirs = stats.friedmanchisquare(*scores.T)
    assert found.estimate * 16 == pytest.approx(theirs.statistic)
    assert friedman(np.exp(scores)) == found
    assert friedman(scores[::-1]) == found


@given(st.floats(0.1, 50), st.floats(-20, 20), st.permutations(range(3)))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_scale_shift_and_order_leave_the_anova(scale: float, shift: float, order: list[int]) -> None:
    """F and p have no unit; the order of bases and bins and a level of one's own per base change nothing."""
    scores = table()
    first = repeated_measures(scores)
    changed = scale * scores[::-1][:, order] + shift + np.arange(len(scores))[:, None]
    second = repeated_measures(changed)
    assert (second.f, second.p_gg, second.p_hf) == pytest.approx((first.f, first.p_gg, first.p_hf), rel=1e-6)


@pytest.mark.parametrize(
    ("scores", "note"),
    [
        (np.empty((0, 3)), "0 bases"),
        (table(bases=2), "2 bases"),
        (np.full((6, 3), 5.0), "do not vary"),
        (np.arange(6)[:, None] + np.array([0.1, 0.2, 0.3]), "do not vary"),
        (3 + 1e-13 * table(), "do not vary"),
    ],
)
def test_an_anova_that_cannot_be_made_says_why(scores: np.ndarray, note: str) -> None:
    """No bases, two bases, constant scores, equal differences, rounding."""
    found = repeated_measures(scores, missing=4)
    assert found.f is None
    assert found.p_value is None
    assert found.note.startswith("not estimable: ")
    assert note in found.note
    assert found.note in found.sentence()
    assert found.missing == 4
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_friedman_without_an_order_says_why_and_with_the_same_order_has_no_zero() -> None:
    """Constant scores have no ranks; the same order everywhere has W = 1 and a p value above 0."""
    assert "all bins are equal" in friedman(np.full((6, 3), 5.0)).note
    assert "all bins are equal" in friedman([[0.3, 0.1 + 0.2]] * 4).note
    assert "2 bases" in friedman(table(bases=2)).note
    same = friedman(np.arange(3) + np.arange(5)[:, None] * 10.0)
    assert same.estimate == pytest.approx(1.0)
    assert same.p_value == pytest.approx(stats.chi2.sf(10, 2))


@pytest.mark.parametrize("function", [repeated_measures, friedman])
def test_what_is_no_table_is_refused(function) -> None:
    """One column, a list, a missing and an infinite score."""
    for wrong in ([[1.0], [2.0], [3.0]], [1.0, 2.0], [[1.0, np.nan]] * 3, [[1.0, np.inf]] * 3):
        with pytest.raises(InputError, match="ANOVA"):
            function(wrong)


def test_the_sentence_gives_both_corrections() -> None:
    """Degrees of freedom after Huynh & Feldt, both epsilons, effect size, n and what is left out."""
    words = repeated_measures(SPSS["scores"], missing=2).sentence()
    for part in ("F(1.59, 6.36) = 4.72", "epsilon = 0.795", "epsilon = 0.634", "squared = 0.542"):
        assert part in words
    assert "5 bases, 3 bins; 2 bases lack a bin" in words


def test_a_true_null_is_rejected_in_about_five_of_a_hundred() -> None:
    """600 studies of 12 bases with very unequal variances; no correction rejects more often."""
    rng = np.random.default_rng(8)
    spread = np.sqrt([0.02, 0.1, 1.5])
    rejected = np.zeros(3)
    for _ in range(600):
        scores = rng.normal(0, 0.3, (12, 1)) + rng.normal(0, spread, (12, 3))
        found = repeated_measures(scores)
        rejected += [found.p_hf < 0.05, friedman(scores).p_value < 0.05, found.p_uncorrected < 0.05]
    assert 0.03 <= rejected[0] / 600 <= 0.08
    assert 0.03 <= rejected[1] / 600 <= 0.085
    assert rejected[2] > rejected[0]

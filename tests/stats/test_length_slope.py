"""Length bias and the profile of the dimensions: what they estimate, what is missing, and what has no interval."""

import numpy as np
import pandas as pd
import pytest
from score_tables import check_shown, crossed, named, numbers

from toolkit.stats.conditions.contrasts import compare_conditions, dimension_profile
from toolkit.stats.conditions.reply_length import length_bias


def study(bases=12, models="xy", seed=1, slope=0.1, noise=0.3):
    """Score 3 + base + 0.2 at M and 0.3 at L + slope x tokens / 100; replies are 80 and 160 tokens longer at M, L."""
    rng = np.random.default_rng(seed)
    runs = crossed(base=named("b", bases), model=models, level="SML")
    place = runs["level"].map({"S": 0, "M": 1, "L": 2}).to_numpy()
    level = rng.normal(0, 0.6, bases)[pd.factorize(runs["base"])[0]]
    runs["output_tokens"] = 300 + 80 * place + rng.normal(0, 80, len(runs)).round()
    gain = np.array([0, 0.2, 0.3])[place]
    runs["composite_strict"] = 3 + level + gain + slope * runs["output_tokens"] / 100
    runs["composite_strict"] += rng.normal(0, noise, len(runs))
    return runs


def test_the_slope_is_that_of_least_squares_with_all_intercepts():
    """Statsmodels with an intercept per base and per model and bin; the direct effects too."""
    import statsmodels.formula.api as smf

    runs = study()
    found = length_bias(runs)
    fit = smf.ols("composite_strict ~ C(base) + C(model):C(level) + I(output_tokens / 100) - 1", runs).fit()
    assert found.slope.estimate == pytest.approx(fit.params["I(output_tokens / 100)"])
    # Treatment coding: L of x is the reference, and y has an intercept of its own at every length.
    at = fit.params
    of_y = {b: at[f"C(model)[T.y]:C(level)[{b}]"] for b in "SML"}
    m_less_s = at["C(level)[T.M]"] - at["C(level)[T.S]"] + (of_y["M"] - of_y["S"]) / 2
    assert found.direct[0].estimate == pytest.approx(m_less_s)
    assert found.slope.unit == "score points (0-5) per 100 tokens"
    assert found.slope.n == {"bases": 12, "answers": 72}


def test_the_total_effect_is_the_paired_difference():
    """With complete data, estimate and interval are those of compare_conditions, and p values are Holm's."""
    runs = study()
    total, paired = length_bias(runs).total, compare_conditions(runs).contrasts
    for one, other in zip(total, paired, strict=True):
        assert one.name == other.name
        assert numbers(one) == pytest.approx(numbers(other), rel=1e-6)
        assert one.p_value == pytest.approx(other.p_value, rel=1e-6)
        assert one.correction == "Holm over 3 contrasts by regression"


def test_total_less_direct_is_the_slope_times_the_longer_replies():
    """The identity of least squares, in balanced data with equal weights."""
    found = length_bias(study())
    apart = [
        total.estimate - direct.estimate for total, direct in zip(found.total, found.direct, strict=True)
    ]
    assert apart[0] + apart[1] == pytest.approx(apart[2])
    longer = study().groupby("level")["output_tokens"].mean()
    assert apart[2] == pytest.approx(found.slope.estimate * (longer["L"] - longer["S"]) / 100)


def test_a_run_without_score_or_length_is_left_out_and_counted():
    """Missing is not zero: the result is that of the runs that have both."""
    runs = study()
    runs["output_tokens"] = runs["output_tokens"].astype("Int64")
    runs.loc[3, "composite_strict"] = np.nan
    runs.loc[10, "output_tokens"] = pd.NA
    found = length_bias(runs)
    assert found.slope.missing == 2
    assert found.slope.n["answers"] == 70
    assert "2 of 72 runs" in found.notes[1]
    assert found.slope.estimate == length_bias(runs.drop(index=[3, 10])).slope.estimate


def test_what_cannot_be_estimated_says_why():
    """Lengths that follow from base and cell, constant scores, one base, nothing at all, two bins."""
    runs = study()
    constant = length_bias(runs.assign(output_tokens=500))
    assert "do not determine" in constant.slope.remarks
    assert constant.direct[2].estimate == pytest.approx(constant.total[2].estimate)
    flat = length_bias(runs.assign(composite_strict=5.0))
    assert flat.slope.estimate == pytest.approx(0)
    assert "no interval" in flat.slope.remarks
    alone = length_bias(study(bases=1))
    assert alone.slope.estimate is None
    assert "do not determine" in alone.slope.remarks
    assert "1 base" in alone.total[0].remarks
    nothing = length_bias(runs.assign(composite_strict=np.nan))
    assert nothing.slope.estimate is None
    assert nothing.slope.missing == 72
    two = length_bias(runs[runs["level"] != "M"])
    assert [one.estimable for one in two.total] == [False, False, True]
    assert two.total[2].correction == "none"  # one contrast is no family
    check_shown(constant, flat, alone, nothing, two)


def test_a_model_that_lacks_a_bin_does_not_pass_for_an_effect():
    """A better model without L prompts leaves L-S to the other."""
    runs = study(noise=0.1)
    runs.loc[runs["model"] == "y", "composite_strict"] += 2
    runs = runs[(runs["model"] != "y") | (runs["level"] != "L")]
    found = length_bias(runs)
    assert found.total[2].estimate == pytest.approx(0.46, abs=0.15)
    assert "lacks a length bin" in str(found.notes)


def runs(*rows):
    """Return runs of base, model and bin with a score for clarity."""
    return pd.DataFrame(rows, columns=["base", "model", "level", "clarity"])


def test_repeats_are_averaged_within_a_base_and_the_interval_is_that_of_three_bases():
    """Bases of 3 and 4 and 5 give 4 ± t(2) / sqrt(3), carried to the logit, however many repeats one of them has."""
    found = dimension_profile(
        runs(
            ("b1", "m", "S", 2.0), ("b1", "m", "S", 4.0), ("b2", "m", "S", 4.0), ("b3", "m", "S", 5.0)
        ),
        ("clarity",),
    )  # fmt: skip
    (one,) = found.means
    assert one.estimate == 4.0
    half = 4.302652729911275 / np.sqrt(3) / (5 * 0.8 * 0.2)
    assert one.high == pytest.approx(5 / (1 + np.exp(-(np.log(4) + half))))
    assert one.n == {"bases": 3, "answers": 4}
    assert found.frame()["dimension"].tolist() == ["clarity"]


def test_a_missing_score_is_counted_and_is_no_zero():
    """The mean is that of the scores there are; a cell without any has a reason and no number."""
    found = dimension_profile(
        runs(("b1", "m", "S", 3.0), ("b2", "m", "S", None), ("b1", "m", "L", None)), ("clarity",)
    )
    short, long = found.means
    assert (short.estimate, short.missing, short.low) == (3.0, 1, None)
    assert "two are needed" in short.remarks
    assert (long.estimate, long.remarks) == (None, "not estimable: no answer has a score")


def test_models_and_bins_come_in_order_and_every_cell_once():
    """By model, then from short to long, whatever the order of the rows."""
    table = runs(*((b, m, s, 3.0) for b in ("b2", "b1") for m in ("y", "x") for s in ("L", "S", "M")))
    found = dimension_profile(table, ("clarity",))
    assert [(one.facets["model"], one.facets["level"]) for one in found.means] == [
        (model, level) for model in "xy" for level in "SML"
    ]
    assert "no interval" in found.means[0].remarks

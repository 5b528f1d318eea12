"""Two one-sided tests within a margin, and repeated-measures ANOVA, against other programs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.weightstats import ttost_paired

from toolkit.stats.conditions.contrasts import equivalence, judged_equivalent, repeated_measures


def table(bases=9, bins=3, seed=5):
    rng = np.random.default_rng(seed)
    return 3 + rng.normal(0, 1, (bases, 1)) + rng.normal(0, 1, (bases, bins)) * np.linspace(0.2, 1.5, bins)


@given(st.floats(0.1, 50), st.floats(-20, 20), st.permutations(range(3)))
@settings(max_examples=20)
def test_scale_shift_and_order_leave_the_anova(scale, shift, order):
    """F and p have no unit; the order of bases and bins and a level of one's own per base change nothing."""
    scores = table()
    first = repeated_measures(scores)
    changed = scale * scores[::-1][:, order] + shift + np.arange(len(scores))[:, None]
    second = repeated_measures(changed)
    assert (second.estimate, second.p_value) == pytest.approx((first.estimate, first.p_value), rel=1e-6)


@given(st.integers(0, 100), st.floats(0.05, 3), st.floats(-1, 1))
@settings(max_examples=30)
def test_the_p_value_is_that_of_statsmodels_and_agrees_with_its_interval(seed, margin, shift):
    """Equal to statsmodels; below .05 exactly where the 90 % interval is within the margin; sign does not matter."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(shift, 1, 10), rng.normal(0, 1, 10)
    found = equivalence("x - y", x - y, margin)
    assert found.p_value == pytest.approx(ttost_paired(x, y, -margin, margin)[0])
    assert (found.p_value < 0.05) == (-margin < found.low and found.high < margin)
    turned = equivalence("y - x", y - x, margin)
    assert (turned.low, turned.high, turned.p_value) == pytest.approx(
        (-found.high, -found.low, found.p_value)
    )


def test_verdicts_are_after_holm_and_say_the_margin():
    """Two tests: the smaller p value doubles; what is not shown is not called different."""
    rng = np.random.default_rng(2)
    close, far = rng.normal(0, 0.1, 12), rng.normal(0.25, 0.1, 12)
    tests = [equivalence("M-S", close, 0.25), equivalence("L-S", far, 0.25)]
    first, second = judged_equivalent(tests, 0.25)
    assert first.p_value == pytest.approx(2 * tests[0].p_value)
    assert second.p_value == pytest.approx(tests[1].p_value)
    assert first.note == "equivalent: margin of equivalence ±0.25"
    assert second.note == "equivalence not shown: margin of equivalence ±0.25"
    assert first.correction == "Holm over 2 tests of equivalence"
    assert "90% interval" in first.sentence()
    (wide,) = judged_equivalent([equivalence("L-M", far + 1, 0.25)], 0.25)
    assert wide.facets["verdict"] == "larger than the margin"

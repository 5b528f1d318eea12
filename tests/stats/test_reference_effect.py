"""The same runs judged with the reference answer and without."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from score_tables import check_shown, numbers
from statsmodels.stats.multitest import multipletests
from test_focus_contrast import judgements

from toolkit.stats import jackknife_interval, krippendorff_alpha, reference_effect
from toolkit.stats.agreement.coefficients import krippendorff_difference


def sides():
    """Return judgements on and off, with two dimensions, of which one gains and one does not."""
    on, off = judgements(seed=2, gain=-0.3), judgements(seed=3)
    dice = np.random.default_rng(5)
    for frame, gain in ((on, 0.5), (off, 0.0)):
        frame["technical_accuracy"] = frame["composite_strict"].round(1) + gain
        frame["clarity"] = frame["composite_strict"].mean() + dice.normal(0, 0.2, len(frame))
    return on, off


def t_test(on, off, score):
    """Return mean, ends and p value of scipy's paired test on base means."""
    means = [frame.groupby("base")[score].mean() for frame in (on, off)]
    test = stats.ttest_rel(*means)
    interval = test.confidence_interval()
    return (means[0] - means[1]).mean(), interval.low, interval.high, test.pvalue


def test_composite_dimensions_and_judges_are_paired_t_tests_over_bases():
    """By scipy; p values of dimensions and of judges by Holm, each family by itself."""
    on, off = sides()
    found = reference_effect(on, off)
    expected = t_test(on, off, "composite_strict")
    one = found.difference
    assert (one.estimate, one.low, one.high, one.p_value) == pytest.approx(expected)
    assert [one.name.rpartition(", ")[2] for one in found.by_dimension] == ["technical_accuracy", "clarity"]
    by_judge = [
        [frame[frame["judge"] == judge] for frame in (on, off)] for judge in sorted(on["judge"].unique())
    ]
    of_judges = [t_test(*pair, "composite_strict") for pair in by_judge]
    of_dimensions = [t_test(on, off, name) for name in ("technical_accuracy", "clarity")]
    for results, tests in ((found.by_dimension, of_dimensions), (found.by_judge, of_judges)):
        holm = multipletests([p for *_, p in tests], method="holm")[1]
        for result, test, p in zip(results, tests, holm, strict=True):
            assert numbers(result) == pytest.approx(test[:3])
            assert result.p_value == pytest.approx(p)
            assert result.role == "exploratory"


def test_agreement_is_krippendorffs_alpha_of_what_both_sides_have_and_its_difference_is_jackknifed():
    """The jackknife of the difference is that of two alphas without each base, one at a time."""
    on, off = sides()
    on.loc[on["judge"] == "tertiary", "composite_strict"] += 0.4
    on.loc[3, "composite_strict"] = np.nan
    found = reference_effect(on, off)
    assert found.difference.missing == 1
    wide = [frame.pivot(index="run_id", columns="judge", values="composite_strict") for frame in (on, off)]
    bases = on.groupby("run_id")["base"].first()
    kept = [table.where(wide[0].notna() & wide[1].notna()) for table in wide]
    alphas = [krippendorff_alpha(table, bases.tolist()) for table in kept]
    assert [one.estimate for one in found.agreement[:2]] == pytest.approx([one.estimate for one in alphas])
    assert [one.low for one in found.agreement[:2]] == pytest.approx([one.low for one in alphas])

    def difference(chosen):
        return np.subtract(*(krippendorff_alpha(table[chosen]).estimate for table in kept))

    whole, without = (
        difference(bases == bases),
        np.array([difference(bases != base) for base in bases.unique()]),
    )
    low, high, _ = jackknife_interval(whole, without)
    one = found.agreement[2]
    assert numbers(one) == pytest.approx((whole, float(low), float(high)))


def test_bases_that_share_texts_are_one_and_repeats_of_a_judge_too():
    on, off = sides()
    clustered = reference_effect(
        *(frame.assign(cluster=frame["base"].str.replace("b7", "b6")) for frame in (on, off))
    )
    assert clustered.difference.n["independent groups"] == 7
    assert clustered.agreement[2].n["independent groups"] == 7
    more = pd.concat([on.assign(judge_repeat=0), on.assign(judge_repeat=1)])
    assert reference_effect(more, off.assign(judge_repeat=0)).to_dict() == reference_effect(on, off).to_dict()


def test_what_cannot_be_estimated_says_why():
    """No score on one side, one judge, one base, judges without spread."""
    on, off = sides()
    nothing = reference_effect(on.assign(composite_strict=np.nan), off)
    assert nothing.difference.estimate is None
    assert nothing.difference.missing == 144
    assert {one.estimate for one in (*nothing.by_judge, *nothing.agreement)} == {None}
    alone = reference_effect(*(frame[frame["judge"] == "primary"] for frame in (on, off)))
    assert alone.difference.estimable
    assert "no answer has two ratings on both sides" in alone.agreement[2].remarks
    base = reference_effect(*(frame[frame["base"] == "b1"] for frame in (on, off)))
    assert "1 base " in base.difference.remarks
    assert "4 are needed" in base.agreement[2].remarks
    flat = krippendorff_difference(np.full((6, 2), 3.0), np.arange(12.0).reshape(6, 2), list("aabbcc"))
    assert "every score is the same" in flat.remarks
    check_shown(nothing, alone, base)

"""The alternative annotator test against a plain loop with scipy and statsmodels, and where it has no verdict."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from toolkit.stats.human.alt_test import _against, alternative_annotator_test


def rated(answers=60, raters=4, noise=0.6, judge_noise=0.5, seed=1, bases=None):
    """Return the judge's scores and the people's, in half steps."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(3.2, 0.8, answers)
    base = np.arange(answers) % (bases or answers)

    def half_steps(sigma: float) -> np.ndarray:
        return np.clip(np.round((quality + sigma * rng.normal(size=answers)) * 2) / 2, 0, 5)

    runs = pd.DataFrame({"run_id": range(answers), "base": base, "composite_strict": half_steps(judge_noise)})
    people = [runs.assign(rater=f"r{i}", composite_strict=half_steps(noise)) for i in range(raters)]
    return runs, pd.concat(people, ignore_index=True)


def by_hand(runs, human, epsilon):
    """Return winning rate, advantage probability and corrected p values by loops over answers."""
    judge = runs.set_index("run_id")["composite_strict"].dropna().to_dict()
    people = {
        r: rows.dropna().set_index("run_id")["composite_strict"].to_dict()
        for r, rows in human.groupby("rater")
    }

    def agreement(value, others):
        return -np.sqrt(np.mean([(value - other) ** 2 for other in others]))

    p_values, advantages = [], []
    for rater, given_scores in people.items():
        own, its = [], []
        for run, score in given_scores.items():
            others = [theirs[run] for other, theirs in people.items() if other != rater and run in theirs]
            if not others or run not in judge:
                continue
            a, b = agreement(judge[run], others), agreement(score, others)
            its.append(float(a >= b - 1e-12))
            own.append(float(b >= a - 1e-12))
        p_values.append(stats.ttest_1samp(np.subtract(own, its), epsilon, alternative="less").pvalue)
        advantages.append(np.mean(its))
    corrected = multipletests(p_values, method="fdr_by")[1]
    return np.mean(corrected <= 0.05), np.mean(advantages), corrected


@pytest.mark.parametrize(("judge_noise", "epsilon"), [(0.3, 0.2), (0.6, 0.1), (1.2, 0.15)])
def test_as_defined_by_its_authors(judge_noise, epsilon):
    """Every answer its own base: then the test is the t test of the paper; some scores are missing."""
    runs, human = rated(judge_noise=judge_noise)
    runs.loc[[3, 17], "composite_strict"] = np.nan
    human.loc[[5, 70, 130], "composite_strict"] = np.nan
    found = alternative_annotator_test(runs, human, epsilon=epsilon)
    omega, rho, corrected = by_hand(runs, human, epsilon)
    assert found.winning_rate.estimate == omega
    assert found.advantage.estimate == pytest.approx(rho)
    assert [one.p_value for one in found.raters] == pytest.approx(list(corrected))
    assert found.passed is bool(omega >= 0.5)
    assert found.advantage.missing == 5
    assert found.advantage.low < rho < found.advantage.high


def test_a_good_judge_passes_and_a_bad_one_does_not():
    good = alternative_annotator_test(*rated(judge_noise=0.1))
    bad = alternative_annotator_test(*rated(judge_noise=2.5))
    assert (good.winning_rate.estimate, good.passed) == (1.0, True)
    assert (bad.winning_rate.estimate, bad.passed) == (0.0, False)
    assert good.advantage.low > bad.advantage.high
    assert "may stand in for" in good.sentence()
    assert "may not stand in for" in bad.sentence()


@settings(max_examples=5, deadline=None, derandomize=True)
@given(st.integers(0, 1000), st.floats(-2, 2), st.floats(0.2, 5))
def test_order_names_shift_and_scale_change_nothing(seed, shift, scale):
    runs, human = rated(seed=seed, answers=36, raters=3, bases=12)
    found = alternative_annotator_test(runs, human)
    mixed = alternative_annotator_test(
        runs.sample(frac=1, random_state=1).assign(
            composite_strict=lambda t: t["composite_strict"] * scale + shift
        ),
        human.sample(frac=1, random_state=2).assign(
            composite_strict=lambda t: t["composite_strict"] * scale + shift
        ),
    )
    assert mixed.winning_rate.estimate == found.winning_rate.estimate
    assert mixed.advantage.estimate == pytest.approx(found.advantage.estimate)
    assert mixed.advantage.low == pytest.approx(found.advantage.low)
    assert [one.p_value for one in mixed.raters] == pytest.approx([one.p_value for one in found.raters])


def test_answers_of_one_base_are_worth_less():
    """The same indicators, three a base: when a base is repeated, its copies add nothing."""
    runs, human = rated(answers=30)
    copies = [
        (table.assign(run_id=table["run_id"] + 1000 * k), people.assign(run_id=people["run_id"] + 1000 * k))
        for k, (table, people) in enumerate([(runs, human)] * 3)
    ]
    once = alternative_annotator_test(runs, human)
    thrice = alternative_annotator_test(
        pd.concat([table for table, _ in copies]), pd.concat([people for _, people in copies])
    )
    assert [one.p_value for one in thrice.raters] == pytest.approx([one.p_value for one in once.raters])
    assert thrice.advantage.n["bases"] == 30


def test_the_test_keeps_its_size_at_the_boundary():
    """A difference of exactly epsilon, ties included: 5 % of 300 studies of 12 bases of three reject."""
    rng = np.random.default_rng(6)
    p_values = []
    for _ in range(300):
        # The person is better in .3 of the answers, the judge in .1, and they are equal in .6.
        drawn = rng.choice([1.0, 0.0, -1.0], size=36, p=[0.3, 0.6, 0.1])
        table = pd.DataFrame({"person": drawn >= 0, "judge": drawn <= 0}).astype(float)
        table["base"] = [str(i % 12) for i in range(36)]
        p_values.append(_against("a", table, 0.2, 0).p_value)
    assert 0.02 <= np.mean(np.array(p_values) <= 0.05) <= 0.085


def test_a_judge_that_always_ties_has_an_exact_p_value():
    """No spread, no t: .8 to the power of the bases, by Benjamini and Yekutieli over two people."""
    runs, human = rated(answers=40, raters=1)
    human = human.assign(composite_strict=runs["composite_strict"].to_numpy())
    both = pd.concat([human, human.assign(rater="x")])
    found = alternative_annotator_test(runs, both, epsilon=0.2)
    assert [one.p_value for one in found.raters] == pytest.approx([0.8**40 * 1.5] * 2)
    assert found.winning_rate.estimate == 1.0
    assert alternative_annotator_test(runs, both, epsilon=0.0).winning_rate.estimate == 0.0


@pytest.mark.parametrize(
    "change",
    [
        lambda r, h: (r, h[h["rater"] == "r0"]),
        lambda r, h: (r, h.assign(composite_strict=np.nan)),
        lambda r, h: (r.assign(composite_strict=np.inf), h),
        lambda r, h: (r, h[h["run_id"] < 20]),
        lambda r, h: (r, h.assign(base=h["run_id"] % 4)),
        lambda r, h: (r, h.iloc[:0]),
    ],
)
def test_too_little_gives_no_verdict_and_the_reason(change):
    found = alternative_annotator_test(*change(*rated()))
    assert found.passed is None
    assert found.winning_rate.estimate is None
    assert "nobody rated enough" in found.sentence()
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_two_people_are_named_as_too_few_and_infinite_scores_are_left_out():
    runs, human = rated(raters=2)
    runs.loc[0, "composite_strict"] = np.inf
    found = alternative_annotator_test(runs, human)
    assert any("2 people" in note for note in found.notes)
    assert any("1 infinite" in note for note in found.notes)
    assert len(found.frame()) == 4

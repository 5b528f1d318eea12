"""Ordinal comparisons of length: proportional odds against statsmodels, and superiority against plain counting."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.miscmodels.ordinal_model import OrderedModel

from toolkit.errors import InputError
from toolkit.stats.cumulative_logit import fit_cumulative_logit
from toolkit.stats.ordinal import proportional_odds
from toolkit.stats.superiority import superiority


def study(bases=12, models=("m1",), effect=0.4, seed=1, top=3.5, rounded=True) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for base in range(bases):
        level = rng.normal(0, 0.5)
        for model in models:
            for place, name in enumerate("SML"):
                score = top + level + effect * place + rng.normal(0, 0.6)
                rows.append(
                    (f"b{base}", model, name, np.clip(np.round(score * 2) / 2 if rounded else score, 0, 5))
                )
    return pd.DataFrame(rows, columns=["base", "model", "length_bin", "composite"])


def coded(runs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    category = np.unique(runs["composite"], return_inverse=True)[1]
    factors = [runs["length_bin"] == "M", runs["length_bin"] == "L"]
    factors += [runs["model"] == name for name in sorted(runs["model"].unique())[1:]]
    return category, np.column_stack(factors).astype(float)


@pytest.mark.parametrize("models", [("m1",), ("m1", "m2", "m3")])
def test_the_fit_is_that_of_statsmodels(models):
    runs = study(bases=25, models=models)
    category, design = coded(runs)
    model = OrderedModel(category, design, distr="logit").fit(method="bfgs", disp=0, gtol=1e-8)
    thresholds, slopes = fit_cumulative_logit(category, design, np.ones(len(category)))
    assert slopes == pytest.approx(model.params[: design.shape[1]], abs=1e-5)
    assert thresholds == pytest.approx(model.model.transform_threshold_params(model.params)[1:-1], abs=1e-5)
    found = proportional_odds(runs)
    odds = [math.exp(slopes[0]), math.exp(slopes[1] - slopes[0]), math.exp(slopes[1])]
    assert [one.estimate for one in found.odds_ratios] == pytest.approx(odds, rel=1e-6)


def test_two_scores_and_two_bins_give_the_odds_ratio_of_a_table():
    """12 of 20 against 5 of 20: (12/8) / (5/15) = 4.5."""
    rows = [
        (f"b{i}", name, 4.0 if i < hits else 2.0) for name, hits in (("S", 5), ("M", 12)) for i in range(20)
    ]
    found = proportional_odds(pd.DataFrame(rows, columns=["base", "length_bin", "composite"]))
    assert found.odds_ratios[0].estimate == pytest.approx(4.5)
    assert found.odds_ratios[2].note == "not estimable: one of the two bins has no score"


def test_the_interval_is_that_of_leaving_out_each_base():
    runs = study(bases=8, models=("m1", "m2"))
    found = proportional_odds(runs).odds_ratios[2]
    parts = [
        math.log(proportional_odds(runs[runs["base"] != base]).odds_ratios[2].estimate)
        for base in runs["base"].unique()
    ]
    error = math.sqrt(7 / 8 * ((np.array(parts) - np.mean(parts)) ** 2).sum())
    assert math.log(found.high / found.estimate) == pytest.approx(stats.t.ppf(0.975, 7) * error)
    assert found.correction == "Holm over 3 contrasts"
    assert found.n == {"bases": 8, "answers": 48}


@settings(max_examples=4, deadline=None, derandomize=True)
@given(st.integers(0, 500))
def test_only_the_order_of_scores_counts(seed):
    """Rows in another order and scores on a scale of the same order give the same, with 20 groups of scores too."""
    runs = study(seed=seed, rounded=seed % 2 == 0, models=("m1", "m2"))
    bent = runs.assign(composite=np.exp(runs["composite"])).sample(frac=1, random_state=seed)
    for compare in (proportional_odds, superiority):
        one, other = compare(runs).frame(), compare(bent).frame()
        numbers = ["estimate", "low", "high", "p_value"]
        assert other[numbers].to_numpy() == pytest.approx(one[numbers].to_numpy(), rel=1e-6, nan_ok=True)


def test_turning_the_scale_turns_the_odds():
    runs = study()
    found = proportional_odds(runs).odds_ratios
    turned = proportional_odds(runs.assign(composite=5 - runs["composite"])).odds_ratios
    assert [one.estimate for one in turned] == pytest.approx([1 / one.estimate for one in found])
    assert [one.low for one in turned] == pytest.approx([1 / one.high for one in found])
    assert [one.p_value for one in turned] == pytest.approx([one.p_value for one in found])
    shares = superiority(runs).probability
    back = superiority(runs.assign(composite=5 - runs["composite"])).probability
    assert [one.estimate for one in back] == pytest.approx([1 - one.estimate for one in shares])


def test_many_scores_are_put_into_twenty_groups_with_nearly_the_same_odds():
    runs = study(bases=40, rounded=False)
    found = proportional_odds(runs)
    assert (found.categories, found.notes[0]) == (
        20,
        f"{runs['composite'].nunique()} different scores in 20 ordered categories",
    )
    category, design = coded(runs)
    slopes = fit_cumulative_logit(category, design, np.ones(len(category)))[1]
    assert found.odds_ratios[2].estimate == pytest.approx(math.exp(slopes[1]), rel=0.1)


def test_the_odds_ratio_is_covered_and_a_true_null_is_kept():
    """60 studies of 12 bases at a ceiling, no effect; the docstring has more."""
    rng = np.random.default_rng(3)
    found = [
        proportional_odds(study(effect=0.0, seed=int(seed), top=4.4)) for seed in rng.integers(0, 2**31, 60)
    ]
    held = [one.odds_ratios[2].low <= 1 <= one.odds_ratios[2].high for one in found]
    assert 0.87 <= np.mean(held) <= 1.0


def test_superiority_is_counted_pair_by_pair_within_base_and_model():
    runs = pd.concat([study(models=("m1", "m2"), seed=seed) for seed in (1, 2)])  # two repeats
    found = superiority(runs)
    by_base = []
    for _, rows in runs.groupby("base"):
        by_model = []
        for _, own in rows.groupby("model"):
            long, short = (own.loc[own["length_bin"] == name, "composite"] for name in "LS")
            wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in long for b in short]
            by_model.append(np.mean(wins))
        by_base.append(np.mean(by_model))
    one = found.probability[2]
    assert one.name == "P(L > S)"
    assert one.estimate == pytest.approx(np.mean(by_base))
    assert one.low < one.estimate < one.high
    assert found.delta[2].estimate == pytest.approx(2 * one.estimate - 1)
    assert found.delta[2].high == pytest.approx(2 * one.high - 1)


def test_superiority_has_an_answer_where_odds_have_none():
    """Every M above every S: no odds ratio has a limit, but the probability is 1 with an interval."""
    rows = [(f"b{i}", name, score) for i in range(10) for name, score in (("S", 2.0), ("M", 4.0), ("L", 4.0))]
    runs = pd.DataFrame(rows, columns=["base", "length_bin", "composite"])
    odds = proportional_odds(runs).odds_ratios
    assert all(one.estimate is None for one in odds)
    assert "lies above another altogether" in odds[0].note
    one = superiority(runs).probability[0]
    assert (one.estimate, one.high) == (1.0, 1.0)
    assert 0.6 < one.low < 0.8
    assert one.p_value == pytest.approx(3 * 2 / 2**10)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.assign(composite=4.0), "every score is the same"),
        (lambda t: t.assign(composite=np.nan), "0 length bins with a score"),
        (lambda t: t[t["length_bin"] == "S"], "1 length bin with a score"),
    ],
)
def test_what_cannot_be_estimated_says_why(change, says):
    found = proportional_odds(change(study()))
    assert all(says in one.note and one.estimate is None for one in found.odds_ratios)
    assert json.dumps(found.to_dict(), allow_nan=False)
    other = superiority(change(study()))
    assert json.dumps(other.to_dict(), allow_nan=False)
    assert len(found.sentence()) * len(other.sentence()) > 0


def test_few_bases_and_one_base_that_decides_have_no_interval():
    two = proportional_odds(study(bases=2)).odds_ratios[2]
    assert two.low is None
    rows = [(f"b{i}", n, s) for i in range(6) for n, s in (("S", 2.0), ("M", 4.0))]
    rows += [("b9", "S", 4.0), ("b9", "M", 2.0)]
    one = proportional_odds(pd.DataFrame(rows, columns=["base", "length_bin", "composite"])).odds_ratios[0]
    assert one.estimate == pytest.approx(36.0)
    assert "one base alone keeps" in one.note


def test_a_missing_score_is_left_out_and_counted():
    runs = study()
    runs.loc[0, "composite"] = np.nan
    assert proportional_odds(runs).odds_ratios[0].missing == 1
    assert superiority(runs).probability[0].missing == 1
    low = proportional_odds(runs.fillna({"composite": 0.0})).odds_ratios[0]
    assert low.estimate != pytest.approx(proportional_odds(runs).odds_ratios[0].estimate)


def test_what_cannot_be_used_is_refused():
    for compare in (proportional_odds, superiority):
        with pytest.raises(InputError, match="lack the column"):
            compare(study().drop(columns="length_bin"))
        with pytest.raises(InputError, match="not a finite number"):
            compare(study().assign(composite=np.inf))

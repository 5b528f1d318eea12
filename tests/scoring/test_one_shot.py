import json
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

from toolkit.errors import InputError
from toolkit.scoring.one_shot import one_shot_score

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "one_shot_score.json").read_text("utf-8"))


@pytest.mark.parametrize("case", GOLDEN["cases"])
def test_the_protocol_gives_raw_and_score(case):
    result = one_shot_score(case["i1"], case["i0"], case["h"])
    assert result.raw == pytest.approx(case["raw"])
    assert result.score == pytest.approx(case["score"])
    assert result.n == 10
    assert result.low <= result.raw <= result.high


@pytest.mark.parametrize("case", GOLDEN["clopper_pearson"])
def test_with_two_outcomes_the_interval_is_clopper_pearson(case):
    result = one_shot_score(case["k"], case["n"] - case["k"], 0, weights=(1, 0, 0))
    assert (result.low, result.high) == pytest.approx(case["ci"], abs=1e-4)
    exact = stats.binomtest(case["k"], case["n"]).proportion_ci(method="exact")
    assert (result.low, result.high) == pytest.approx((exact.low, exact.high))


def test_ten_out_of_ten_does_not_pretend_certainty():
    result = one_shot_score(10, 0, 0)
    assert result.high == 1.0
    # 0.6915 is the Clopper-Pearson bound of the expected share; the rest may all be hallucinations.
    assert result.low == pytest.approx(0.69150 - 0.5 * (1 - 0.69150), abs=1e-4)


@pytest.mark.parametrize("weights", [(1, 0, -0.5), (1, 0.5, -1)])
@pytest.mark.parametrize("n", [1, 4, 10])
def test_the_interval_covers_every_share_on_a_grid_at_least_as_often_as_it_says(n, weights):
    """Coverage is enumerated exactly: every outcome with its multinomial probability, for 231 shares."""
    outcomes = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)])
    results = [one_shot_score(*(int(count) for count in outcome), weights=weights) for outcome in outcomes]
    low = np.array([result.low for result in results]) - 1e-5
    high = np.array([result.high for result in results]) + 1e-5
    shares = np.array([(i, j, 20 - i - j) for i in range(21) for j in range(21 - i)]) / 20
    ways = special.gammaln(n + 1) - special.gammaln(outcomes + 1).sum(axis=1)
    chance = np.exp(ways + special.xlogy(outcomes[None], shares[:, None]).sum(axis=2))
    truth = (shares @ np.array(weights))[:, None]
    assert (chance * (truth < low)).sum(axis=1).max() <= 0.025
    assert (chance * (truth > high)).sum(axis=1).max() <= 0.025


def test_the_bounds_are_the_quantiles_of_a_simulated_dirichlet():
    draws = np.random.default_rng(20250107).dirichlet([6, 1, 4], 400_000) @ np.array([1, 0, -0.5])
    assert one_shot_score(6, 1, 3).low == pytest.approx(np.quantile(draws, 0.025), abs=3e-3)


def test_more_experiments_narrow_the_interval():
    widths = [one.high - one.low for one in (one_shot_score(6 * m, m, 3 * m) for m in (1, 10, 100))]
    assert widths == sorted(widths, reverse=True)


def test_equal_weights_leave_nothing_to_estimate():
    result = one_shot_score(1, 2, 3, weights=(2, 2, 2))
    assert (result.low, result.raw, result.high) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    "counts", [(0, 0, 0), (-1, 5, 6), (1.5, 1, 1), (float("nan"), 1, 1), ("6", 1, 3), (True, 1, 1)]
)
def test_counts_that_cannot_be_are_refused_in_one_line(counts):
    with pytest.raises(InputError, match="one-shot score") as caught:
        one_shot_score(*counts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("weights", [(1, 0), (1, 0, float("nan")), ("a", 0, 1), 3])
def test_weights_must_be_three_finite_numbers(weights):
    with pytest.raises(InputError, match="weights"):
        one_shot_score(1, 1, 1, weights=weights)


def test_a_confidence_beyond_one_is_refused():
    with pytest.raises(InputError, match="confidence"):
        one_shot_score(1, 1, 1, confidence=1.0)


def test_the_result_is_plain_json():
    kept = json.loads(json.dumps(one_shot_score(np.int64(6), 1.0, 3).to_dict(), allow_nan=False))
    assert kept["i1"] == 6
    assert kept["weights"] == [1.0, 0.0, -0.5]


def test_the_sentence_gives_score_raw_interval_and_counts():
    sentence = one_shot_score(6, 1, 3).sentence()
    assert sentence.startswith("score 0.450, raw 0.450 with 95% interval [-0.046, 0.835]")
    assert sentence.endswith("n = 10 experiments: 6 expected, 1 unexpected, 3 hallucinated.")

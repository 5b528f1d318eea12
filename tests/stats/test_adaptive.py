"""Sequential comparison, the benchmark of designs, abilities and the taxonomy of a sample: what they promise."""

import numpy as np
import pandas as pd
import pytest
from score_tables import width
from simulated_banks import simulate_designs, simulated_bank

from toolkit import stats as ours
from toolkit.adaptive.rounds import DESIGNS, by_variance
from toolkit.errors import InputError

COLUMNS = ["model", "base", "level", "score"]


@pytest.fixture(scope="module")
def simulated():
    return simulated_bank(7)


def some(scores, bank, step=2):
    """Return the scores of every second base of a bank, or of fewer."""
    return scores[scores["base"].isin(bank["base"][::step])]


def test_the_whole_bank_is_known_exactly(simulated):
    bank, scores = simulated
    found = ours.sequential_comparison(scores, bank, target_width=0.1)
    truth = scores.groupby("model")["score"].mean()
    assert [one.estimate for one in found.models] == pytest.approx(truth.to_list())
    assert found.stop
    assert found.width == pytest.approx(0, abs=1e-6)
    assert len(found.differences) == 6
    assert found.cost == pytest.approx(bank["cost"].sum())


def test_a_part_of_the_bank_with_the_same_shift_everywhere_gives_the_shift(simulated):
    """Weights add up to 1 whatever is known in advance, and differences of means are means of differences."""
    bank, scores = simulated
    half = some(scores, bank)
    more = pd.concat(
        [half, half[half["model"] == "model 1"].assign(model="better").eval("score = score + 0.5")]
    )
    found = ours.sequential_comparison(more, bank, target_width=0.3)
    means = {one.name: one.estimate for one in found.models}
    assert means["better"] - means["model 1"] == pytest.approx(0.5)
    for one in found.differences:
        first, second = one.name.split(" - ")
        assert one.estimate == pytest.approx(means[first] - means[second])


def test_asking_stops_when_the_widest_difference_is_as_narrow_as_wanted(simulated):
    bank, scores = simulated
    half = some(scores, bank)
    reached = ours.sequential_comparison(half, bank, target_width=1.0).width
    for target, stop in ((reached * 1.001, True), (reached * 0.999, False)):
        found = ours.sequential_comparison(half, bank, target_width=target)
        assert found.stop is stop
        assert max(width(one) for one in found.differences) == pytest.approx(reached, rel=0.002)
    early = ours.sequential_comparison(half, bank, target_width=reached / 2)
    assert early.information == pytest.approx(0.25)
    assert max(width(one) for one in early.differences) > 2 * reached  # O'Brien-Fleming looks hard at first


def test_a_base_that_some_model_has_not_answered_is_missing(simulated):
    bank, scores = simulated
    half = some(scores, bank)
    lost = half.query("base == 'base_004' and model == 'model 2' and level == 'L'").index
    holed, without = half.assign(score=half["score"].drop(lost)), half[half["base"] != "base_004"]
    found, whole = (ours.sequential_comparison(rows, bank, target_width=1.0) for rows in (holed, without))
    assert {one.missing for one in found.differences} == {1}
    assert [one.estimate for one in found.models] == pytest.approx([one.estimate for one in whole.models])
    assert "1 base without a score" in found.notes[0]


@pytest.mark.parametrize("bases", [0, 1, 11])
def test_too_few_bases_give_no_number_and_do_not_stop(simulated, bases):
    bank, scores = simulated
    few = scores[scores["base"].isin(bank["base"][::9][:bases])]
    found = ours.sequential_comparison(few, bank, target_width=5.0)
    assert not found.stop
    frame = found.frame()
    assert frame["estimate"].isna().all()
    assert frame["note"].str.contains("fewer than 12").all()


def test_one_model_has_a_mean_and_no_difference(simulated):
    bank, scores = simulated
    found = ours.sequential_comparison(scores[scores["model"] == "model 1"], bank, target_width=0.2)
    assert found.differences == ()
    assert found.frame()["name"].tolist() == ["model 1"]


def test_models_that_score_alike_so_far_are_asked_on(simulated):
    """All at the ceiling: the width is 0, and says nothing of the bases to come."""
    bank, scores = simulated
    alike = scores.assign(score=5.0)
    part = ours.sequential_comparison(some(alike, bank), bank, target_width=0.3)
    assert not part.stop
    assert "ask more" in str(part.notes)
    assert ours.sequential_comparison(alike, bank, target_width=0.3).stop
    twice = pd.concat([scores, scores[scores["model"] == "model 1"].assign(model="model 1 again")])
    found = ours.sequential_comparison(some(twice, bank, 3), bank, target_width=2)
    assert next(one for one in found.differences if one.name.endswith("1 again")).high == pytest.approx(
        0, abs=1e-6
    )


def test_what_cannot_be_used_is_said_in_one_line(simulated):
    bank, scores = simulated
    for table, message in (
        (bank.drop(columns="base"), "lack the column base"),
        (pd.concat([bank, bank]), "a base twice"),
        (bank.assign(cost=0.0), "not above 0"),
        (bank.iloc[:50], "is not in the bank"),
    ):
        with pytest.raises(InputError, match=message):
            ours.sequential_comparison(scores, table, target_width=0.3)
    with pytest.raises(InputError, match="sequential"):
        ours.sequential_comparison(scores, bank, target_width=0)
    few = scores["score"].where(scores["base"] < "base_011")
    with pytest.raises(
        InputError, match="11 of 100 bases have a score of every model at every level, and 12 are"
    ):
        ours.benchmark_designs(scores.assign(score=few), bank, DESIGNS, target_width=0.3)


def test_the_choice_does_not_bias_what_is_chosen():
    """Costs and scores go together and spreads are skewed; over seeds the mean is that of the bank to 4 errors."""
    dice = np.random.default_rng(5)
    size = np.exp(dice.normal(0, 0.6, 100))
    strata = np.repeat(["u", "v"], 50)
    bank = pd.DataFrame({"base": range(100), "scenario": strata, "cost": size})
    values = np.column_stack([size * np.where(strata == "u", 1.0, 1.5) / 4, np.zeros(100)])
    names, read = ["x", "y"], ours.read_bank(bank)
    errors = []
    for seed in range(150):
        asked = np.empty(0, dtype=int)
        while len(asked) < 40:
            asked = np.append(asked, by_variance(read, asked, asked, values[asked], seed, 4))
        rows = [(m, int(i), "S", values[i, k]) for i in asked for k, m in enumerate(names)]
        found = ours.sequential_comparison(pd.DataFrame(rows, columns=COLUMNS), bank)
        errors.append(found.differences[0].estimate - values[:, 0].mean())
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(len(errors))


def test_the_benchmark_of_a_table_is_held_against_its_own_means(simulated):
    bank, scores = simulated
    found = ours.benchmark_designs(scores, bank, DESIGNS, target_width=0.35, seeds=3)
    frame = found.frame()
    assert set(frame["design"]) == {"random", "random, calibrated", "adaptive"}
    assert frame["estimate"].notna().all()
    assert found.trials["tau"].between(-1, 1).all()
    assert set(found.to_dict()) == {"target_width", "results", "notes"}
    everything = ours.benchmark_designs(scores, bank, DESIGNS[2:], target_width=1e-9, seeds=1)
    assert everything.trials.loc[0, ["bases", "tau"]].tolist() == [100, 1.0]
    assert everything.trials["score_error"][0] == pytest.approx(0, abs=1e-12)


def test_bases_that_lack_a_score_are_left_out_and_named(simulated):
    """One score of one model, a base nobody answered, and a scenario of which one base is left."""
    bank, scores = simulated
    rare = bank["base"].isin(["base_097", "base_098", "base_099"])
    bank = bank.assign(scenario=bank["scenario"].where(~rare, "RARE"))
    lacking = scores["base"].isin(["base_097", "base_098"]) & (scores["model"] == "model 2")
    damaged = scores.assign(score=scores["score"].where(~lacking))[scores["base"] != "base_003"]
    names = ["base_003", "base_097", "base_098"]
    found = ours.benchmark_designs(damaged, bank, DESIGNS, target_width=0.35, seeds=2)
    whole = (table[~table["base"].isin(names)] for table in (scores, bank))
    complete = ours.benchmark_designs(*whole, DESIGNS, target_width=0.35, seeds=2)
    pd.testing.assert_frame_equal(found.trials, complete.trials)
    words = "bases without a score of every model at every length left out:"
    assert found.notes[2:] == (f"3 {words} {', '.join(names)}",)
    assert complete.notes[2:] == ()
    sequential = ours.sequential_comparison(damaged, bank, target_width=0.35)
    assert sequential.notes[0] == f"2 {words} base_097, base_098"
    assert (
        sequential.notes[1]
        == "a scenario of which fewer than two bases are complete counts as part of the largest"
    )
    assert sequential.differences[0].missing == 2
    assert sequential.differences[0].low < sequential.differences[0].high


@pytest.mark.parametrize(
    ("bank", "most", "least"),
    [
        ({"structure": False}, 1.02, 0.93),
        ({}, 0.92, 0.80),
    ],
)
def test_two_hundred_simulated_studies(bank, most, least):
    """Measured: the share of the cost of random common items, and the coverage that was promised."""
    found = simulate_designs(DESIGNS, target_width=0.3, seeds=200, **bank).results["adaptive"]
    assert least < found[2].estimate < most
    assert 0.94 <= found[3].estimate <= 0.97


def test_taxonomy_of_the_whole_bank_and_of_one_scenario(simulated):
    bank, scores = simulated
    prompts = scores[["base", "level"]].drop_duplicates().merge(bank.assign(csf=None), on="base")
    whole = ours.sample_taxonomy(prompts, bank["base"].tolist())
    assert {one.estimate for one in whole.coverage} == {1.0}
    assert whole.divergence.estimate == pytest.approx(0, abs=1e-12)
    assert whole.divergence.p_value == 1
    one = ours.sample_taxonomy(prompts, bank["base"][:20].tolist())
    assert [found.estimate for found in one.coverage] == pytest.approx([1 / 3, 9 / 22, 1, 1, 9 / 22])
    assert one.divergence.p_value < 0.05
    for wrong in ([], ["q"], ["base_001", "base_001"]):
        with pytest.raises(InputError, match="taxonomy"):
            ours.sample_taxonomy(prompts, wrong, by=("scenario",))

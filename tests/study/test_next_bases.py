"""Which base is asked next: a pure function of bank, scores and seed, that asks where most is learnt per AUD."""

import numpy as np
import pandas as pd
import pytest
from simulated_banks import simulated_bank

from toolkit.adaptive.rounds import next_bases
from toolkit.errors import InputError

NONE = pd.DataFrame(columns=["model", "base", "level", "score"])


def asked(bank, scores, bases):
    return scores[scores["base"].isin(bases)] if bases else NONE


def run(bank, scores, seed, rounds, size=4):
    done = []
    for _ in range(rounds):
        done += next_bases(bank, asked(bank, scores, done), seed=seed, count=size)
    return done


def test_a_killed_study_goes_on_with_the_same_choice():
    """Whatever the order of rows, and whoever asks."""
    bank, scores = simulated_bank(2)
    done = run(bank, scores, 11, 8)
    known = asked(bank, scores, done)
    following = next_bases(bank, known, seed=11, count=4)
    for seed in range(3):
        assert next_bases(bank, known.sample(frac=1, random_state=seed), seed=11, count=4) == following
    assert run(bank, scores, 11, 9) == done + following
    twins = pd.DataFrame({"base": range(200), "scenario": ["a"] * 100 + ["b"] * 100})
    values = np.random.default_rng(0).normal(3, 1, 100)
    rows = [(m, i + 100 * h, "S", values[i] * (m == "x")) for i in range(40) for h in (0, 1) for m in "xy"]
    known = pd.DataFrame(rows, columns=NONE.columns)  # two strata alike: the last digit of a sum decides
    choices = {tuple(next_bases(twins, known.sample(frac=1, random_state=s), seed=1)) for s in range(30)}
    assert len(choices) == 1
    assert run(bank, scores, 12, 8) != done


def test_the_noisier_and_the_cheaper_stratum_is_asked_more():
    dice = np.random.default_rng(1)
    bank = pd.DataFrame({"base": [f"b{i:02}" for i in range(80)], "scenario": ["a"] * 40 + ["b"] * 40})
    quiet = pd.DataFrame({b: dice.normal(3, 0.1 if i < 40 else 0.8, 2) for i, b in enumerate(bank["base"])}).T
    even = pd.DataFrame({b: dice.normal(3, 0.4, 2) for b in bank["base"]}).T
    for values, cost, wanted in ((quiet, 1.0, 30), (even, np.repeat([9.0, 1.0], 40), 30)):
        scores = values.rename_axis("base").reset_index().melt("base", var_name="model", value_name="score")
        done = run(bank.assign(cost=cost), scores.assign(level="S"), 1, 12)
        assert sum(base >= "b40" for base in done) >= wanted


def test_what_cannot_be_used_is_said():
    bank = pd.DataFrame({"base": list("ab")})
    stranger = pd.DataFrame([("m", "q", "S", 5.0)], columns=NONE.columns)
    for scores, message in ((stranger, "'q' is not in the bank"), (NONE[["base"]], "lack the column")):
        with pytest.raises(InputError, match=message):
            next_bases(bank, scores, seed=0, count=1)

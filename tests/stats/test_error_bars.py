"""Clustered means and rates of models and their paired differences."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import InputError
from toolkit.stats.comparisons.models import (
    compare_models,
    mean_error_bar,
    paired_difference,
    rate_difference,
)
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.proportions import share

QUICK = settings(derandomize=True, deadline=None, max_examples=40)


@QUICK
@given(
    st.lists(st.tuples(st.integers(0, 10), st.sampled_from("abcde")), min_size=3, max_size=20),
    st.floats(-5, 5),
    st.floats(0.1, 10),
    st.randoms(use_true_random=False),
)
def test_order_does_not_matter_and_shift_and_scale_do_what_they_should(rows, shift, scale, random):
    """Permuted, shifted and stretched values give the same interval, moved and stretched."""
    values, bases = np.array([value for value, _ in rows], dtype=float), [base for _, base in rows]
    found = clustered_mean(values, bases)
    turned = list(range(len(rows)))
    random.shuffle(turned)
    other = clustered_mean(values[turned] * scale + shift, [bases[place] for place in turned])
    assert other.mean == pytest.approx(found.mean * scale + shift, abs=1e-9)
    if found.error is not None and found.error > 1e-6:
        assert other.error == pytest.approx(found.error * scale, rel=1e-6)
        assert other.degrees == pytest.approx(found.degrees)


def runs() -> pd.DataFrame:
    dice = np.random.default_rng(1)
    rows = [
        (f"b{b}", length, model, float(3 + hard + gain + dice.normal(0, 0.3)))
        for b, hard in enumerate(dice.normal(0, 0.8, 12))
        for length in "SML"
        for model, gain in (("m1", 0.0), ("m2", 0.2), ("m3", 0.2))
    ]
    return pd.DataFrame(rows, columns=["base", "length_bin", "model", "composite"])


def test_models_are_compared_prompt_by_prompt_and_clustered_by_base():
    """The differences are those of a frame made by hand; what makes prompts hard cancels."""
    frame = runs()
    found = compare_models(frame)
    wide = frame.pivot(index=["base", "length_bin"], columns="model", values="composite")
    by_hand = clustered_mean(wide["m1"] - wide["m2"], list(wide.index.get_level_values(0)))
    first = found.differences[0]
    assert [one.name for one in found.differences] == ["m1 - m2", "m1 - m3", "m2 - m3"]
    assert (first.estimate, first.low, first.high) == pytest.approx((by_hand.mean, by_hand.low, by_hand.high))
    assert dict(first.n) == {"prompts": 36, "bases": 12}
    assert first.correction == "Holm over 3 pairs of models"
    assert first.p_value >= by_hand.p_value
    width = found.models[0][1].high - found.models[0][1].low
    assert first.high - first.low < 0.6 * width
    assert "m1 - m2 = " in found.sentence()
    assert list(found.frame()["comparison"].unique()) == ["model", "difference"]
    json.dumps(found.to_dict())


def test_a_missing_score_is_no_zero_and_is_counted():
    """The prompt leaves the pair, and the model counts its missing answer."""
    frame = runs()
    at = frame.index[(frame["model"] == "m1") & (frame["base"] == "b0") & (frame["length_bin"] == "S")]
    gone = frame.assign(composite=frame["composite"].mask(frame.index.isin(at)))
    found, dropped = compare_models(gone), compare_models(frame.drop(index=at))
    assert dict(found.models)["m1"].missing == 1
    assert [one.missing for one in found.differences] == [1, 1, 0]
    assert found.differences[0].estimate == pytest.approx(dropped.differences[0].estimate)
    assert any("1 of 108 runs" in note for note in found.notes)


def test_rates_have_intervals_of_their_own():
    """Inside the scale, and never without width where models do not differ on any prompt."""
    frame = runs()
    frame["right"] = (frame["composite"] > 3.0).astype(float)
    found = compare_models(frame, "right", rate=True)
    model = dict(found.models)["m1"]
    rows = frame[frame["model"] == "m1"]
    assert model.low == share("m1", list(rows["right"] == 1), list(rows["base"])).low
    perfect = rate_difference("a - b", [1.0] * 12, [1.0] * 12, list(range(12)))
    assert (perfect.estimate, perfect.p_value) == (0.0, 1.0)
    assert -0.35 < perfect.low < -0.2
    assert perfect.high == pytest.approx(-perfect.low)
    with pytest.raises(InputError, match="rate=False"):
        compare_models(frame, rate=True)


@QUICK
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from("abcdef")
        ),
        min_size=2,
        max_size=25,
    )
)
def test_a_difference_of_rates_lies_in_its_interval_and_turns_with_the_models(rows):
    """Exchanging the models turns the sign of everything."""
    first, second, bases = (list(column) for column in zip(*rows, strict=True))
    found, turned = rate_difference("d", first, second, bases), rate_difference("d", second, first, bases)
    assert turned.estimate == pytest.approx(-found.estimate)
    if found.low is None:
        assert "two are needed" in found.note
        return
    assert -1 <= found.low <= found.estimate <= found.high <= 1
    assert found.high - found.low > 0
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low), abs=1e-12)
    assert turned.p_value == pytest.approx(found.p_value)


@pytest.mark.parametrize(
    ("values", "bases", "said"),
    [
        ([], [], "there are no"),
        ([None, None], ["a", "b"], "there are no"),
        ([1.0, 2.0], ["a", "a"], "two are needed"),
        ([3.0, 3.0, 3.0], ["a", "b", "c"], "are equal"),
        ([3.0, 3.0 + 1e-13], ["a", "b"], "are equal"),
    ],
)
def test_what_has_no_error_bar_says_why(values, bases, said):
    """No NaN, no warning, and the mean where there is one."""
    found = mean_error_bar("mean", values, bases)
    assert found.low is None
    assert said in found.note
    assert paired_difference("d", values, [0.0] * len(values), bases).low is None


def test_bad_input_is_refused_in_one_line():
    """A missing column, a run that is there twice, lengths that differ, infinite values."""
    frame = runs().assign(run_id=[f"r{n}" for n in range(108)])
    for bad, said in (
        (frame.drop(columns="model"), "model"),
        (pd.concat([frame, frame]), "2 times"),
        (frame.assign(composite=math.inf), "finite"),
    ):
        with pytest.raises(InputError, match=said):
            compare_models(bad)
    for call in (
        lambda: mean_error_bar("x", [1.0], ["a", "b"]),
        lambda: mean_error_bar("x", [1.0, math.inf], ["a", "b"]),
        lambda: paired_difference("x", [1.0], [1.0, 2.0], ["a"]),
        lambda: rate_difference("x", [1.5, 0.0], [0.0, 0.0], ["a", "b"]),
        lambda: rate_difference("x", [1.0], [0.0, 0.0], ["a", "b"]),
    ):
        with pytest.raises(InputError):
            call()

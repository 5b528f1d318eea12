"""Length apart from information: what the parts are on known scores, and what becomes of missing and odd ones."""

import numpy as np
import pandas as pd
import pytest

from toolkit.stats import compare_lengths, length_and_information
from toolkit.stats.prompt_length.information import TEXTS
from toolkit.words import LENGTH_ARMS

GAIN = {"S": 0.0, "M": 0.4, "L": 0.9, "neutral_m": 0.1, "neutral_l": 0.3, "short_l": 0.5}
TRUTH = {
    "neutral_m-S": 0.1, "neutral_l-S": 0.3, "L-short_l": 0.4, "M-neutral_m": 0.3, "L-neutral_l": 0.6,
    "short_l-neutral_m": 0.4, "M-S": 0.4, "L-S": 0.9,
}  # fmt: skip


def runs_of(bases=8, models="a", noise=0.2):
    """Return a run of each base, model and prompt, with the gains above and noise that they do not share."""
    rng = np.random.default_rng(4)
    rows = [
        (
            f"b{base}",
            model,
            LENGTH_ARMS.get(text, text),
            text if text in LENGTH_ARMS else None,
            2 + base / 10 + gain + rng.normal(0, noise),
        )
        for base in range(bases)
        for model in models
        for text, gain in GAIN.items()
    ]
    return pd.DataFrame(rows, columns=["base", "model", "length_bin", "length_arm", "composite_strict"])


def differences(result):
    """Return the estimates of the parts and sums by name."""
    return {row.name: row for row in (*result.length, *result.information, *result.total)}


def test_the_parts_are_those_of_the_scores():
    rows = differences(length_and_information(runs_of(noise=0.0)))
    assert {name: row.estimate for name, row in rows.items()} == {
        k: pytest.approx(v) for k, v in TRUTH.items()
    }
    result = length_and_information(runs_of(bases=30))
    assert all(row.low < TRUTH[name] < row.high for name, row in differences(result).items())
    assert {row.correction for row in (*result.length, *result.information)} == {"Holm over 6 parts"}
    assert {row.correction for row in result.total} == {"Holm over 2 sums"}
    assert [mean.name for mean in result.means] == list(TEXTS)
    assert result.equivalence == ()


def test_the_sums_are_the_contrasts_of_the_lengths():
    runs = runs_of(models="ab")
    lengths = {row.name: row for row in compare_lengths(runs[runs["length_arm"].isna()]).contrasts}
    for total in length_and_information(runs).total:
        assert (total.estimate, total.low) == pytest.approx(
            (lengths[total.name].estimate, lengths[total.name].low)
        )


def test_what_lacks_a_score_is_left_out_of_its_steps_and_the_parts_still_add_up():
    runs = runs_of(models="ab")
    text = runs["length_arm"].fillna(runs["length_bin"])
    runs.loc[(runs["base"] == "b1") & (text == "neutral_l"), "composite_strict"] = np.nan
    runs.loc[(runs["base"] == "b2") & (runs["model"] == "a") & (text == "S"), "composite_strict"] = np.nan
    runs = runs[~((runs["base"] == "b3") & (text == "short_l"))]
    result = length_and_information(runs)
    for total, information, length in zip(result.total, result.information, result.length, strict=False):
        assert total.estimate == pytest.approx(information.estimate + length.estimate, abs=1e-12)
        assert total.n == information.n == length.n
    rows = differences(result)
    assert {name: (row.n["bases"], row.missing) for name, row in rows.items()} == {
        **dict.fromkeys(("neutral_m-S", "M-neutral_m", "M-S"), (8, 0)),
        **dict.fromkeys(("neutral_l-S", "L-neutral_l", "L-S", "L-short_l", "short_l-neutral_m"), (7, 1)),
    }
    named = "left out of the steps that need them, for want of scores: b1 (neutral_l), b3 (short_l)"
    assert named in result.notes
    assert "3 of 94 runs have no composite_strict and are left out" in result.notes


def test_a_base_without_arms_counts_nowhere_and_is_named():
    runs = runs_of(bases=9)
    runs = runs[runs["length_arm"].isna() | (runs["base"].isin(["b0", "b1", "b2"]))]
    result = length_and_information(runs)
    assert {row.n["bases"] for row in differences(result).values()} == {3}
    assert result.means[0].n == {"bases": 3, "answers": 3}
    assert "6 of 9 bases have no length arms and are left out: b3, b4, b5, b6, b7 and 1 more" in result.notes


@pytest.mark.parametrize("bases", [0, 1])
def test_fewer_than_two_bases_give_no_number_and_a_reason(bases):
    result = length_and_information(runs_of(bases=max(bases, 1)).iloc[: 6 * bases], margin=0.2)
    assert not any(
        row.estimable for row in (*differences(result).values(), *result.equivalence, *result.means)
    )
    assert "two are needed" in result.total[0].reason
    assert result.sentence().startswith("What M gains over S is not parted: ")
    assert len(result.frame()) == 8 + 8 + 3 + 6


def test_groups_count_where_bases_share_texts():
    runs = runs_of().assign(cluster=lambda frame: frame["base"].replace({"b1": "b0", "b3": "b2"}))
    result = length_and_information(runs)
    assert {row.n["independent groups"] for row in differences(result).values()} == {6}


def test_another_score_has_no_margin_in_points():
    runs = runs_of().rename(columns={"composite_strict": "seconds"})
    assert length_and_information(runs, "seconds", margin=0.2).equivalence == ()
    equal = length_and_information(runs_of(bases=40, noise=0.05), margin=0.2).equivalence
    verdicts = [test.facets["verdict"] for test in equal]
    assert verdicts == ["equivalent", *["equivalence not shown"] * 2]

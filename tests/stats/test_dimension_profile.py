"""The profile of the dimensions: means over bases, what is missing, and what has no interval."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toolkit.stats.prompt_length.dimension_profile import dimension_profile


def runs(*rows: tuple[str, str, str, float | None]) -> pd.DataFrame:
    """Return runs of base, model and bin with a score for clarity."""
    return pd.DataFrame(rows, columns=["base", "model", "length_bin", "clarity"])


def test_repeats_are_averaged_within_a_base_and_the_interval_is_that_of_three_bases() -> None:
    """Bases of 3 and 4 and 5 give 4 ± t(2) / sqrt(3), carried to the logit, however many repeats one of them has."""
    found = dimension_profile(
        runs(
            ("b1", "m", "S", 2.0), ("b1", "m", "S", 4.0), ("b2", "m", "S", 4.0), ("b3", "m", "S", 5.0)
        ),
        ("clarity",),
    )  # fmt: skip
    (one,) = found.means
    assert one.mean.estimate == 4.0
    half = 4.302652729911275 / np.sqrt(3) / (5 * 0.8 * 0.2)
    assert one.mean.high == pytest.approx(5 / (1 + np.exp(-(np.log(4) + half))))
    assert one.mean.n == {"bases": 3, "answers": 4}
    assert found.frame()["dimension"].tolist() == ["clarity"]


def test_a_missing_score_is_counted_and_is_no_zero() -> None:
    """The mean is that of the scores there are; a cell without any has a reason and no number."""
    found = dimension_profile(
        runs(("b1", "m", "S", 3.0), ("b2", "m", "S", None), ("b1", "m", "L", None)), ("clarity",)
    )
    short, long = found.means
    assert (short.mean.estimate, short.mean.missing, short.mean.low) == (3.0, 1, None)
    assert "two are needed" in short.mean.remarks
    assert (long.mean.estimate, long.mean.remarks) == (None, "not estimable: no answer has a score")


def test_models_and_bins_come_in_order_and_every_cell_once() -> None:
    """By model, then from short to long, whatever the order of the rows."""
    table = runs(*((b, m, s, 3.0) for b in ("b2", "b1") for m in ("y", "x") for s in ("L", "S", "M")))
    found = dimension_profile(table, ("clarity",))
    assert [(one.model, one.length_bin) for one in found.means] == [
        (model, length_bin) for model in "xy" for length_bin in "SML"
    ]
    assert "no interval" in found.means[0].mean.remarks


def test_a_profile_of_nothing_is_empty() -> None:
    assert dimension_profile(runs(), ("clarity",)).means == ()

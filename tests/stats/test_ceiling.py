"""Scores at the ends of the scale: counted by group, with intervals by base, and with a warning."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from toolkit.stats.comparisons.ceiling import ceiling
from toolkit.stats.inference.proportions import share


def scores(seed=1, top=0.4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        [
            (f"b{i}", b, m, j)
            for i in range(12)
            for b in "SML"
            for m in ("m1", "m2")
            for j in ("primary", "secondary")
        ],
        columns=["base", "length_bin", "model", "judge"],
    )
    return frame.assign(composite_strict=np.where(rng.random(len(frame)) < top, 5.0, 3.5))


def test_shares_are_those_of_the_group_with_intervals_by_base():
    frame = scores()
    found = ceiling(frame)
    assert set(found.shares) == {
        "all",
        *(f"length_bin {name}" for name in "SML"),
        "model m1",
        "model m2",
        "judge primary",
        "judge secondary",
    }
    rows = frame[frame["length_bin"] == "L"]
    oracle = share("x", list(rows["composite_strict"] == 5), list(rows["base"]))
    top, bottom = found.shares["length_bin L"]
    assert (top.estimate, top.low, top.high) == (oracle.estimate, oracle.low, oracle.high)
    assert (bottom.estimate, bottom.low) == (0.0, 0.0)
    assert top.n == {"scores": 48, "bases": 12}


def test_it_warns_above_the_limit_only():
    assert any(
        "composite_strict are at the ceiling (5), all" in text for text in ceiling(scores(top=0.5)).warnings
    )
    assert ceiling(scores(top=0.5), limit=0.9).warnings == ()
    assert ceiling(scores(top=0.1)).warnings == ()
    floor = scores(top=0.6)
    floor["composite_strict"] = 5 - floor["composite_strict"]
    assert any("at the floor (0)" in text for text in ceiling(floor).warnings)
    assert "means hide differences there" in ceiling(scores(top=0.5)).sentence()


def test_a_missing_score_is_no_floor():
    frame = scores()
    gone = frame.assign(composite_strict=frame["composite_strict"].where(frame.index % 7 != 0))
    top, bottom = ceiling(gone).shares["all"]
    assert (top.missing, bottom.estimate) == (int(gone["composite_strict"].isna().sum()), 0.0)
    assert top.estimate == (gone["composite_strict"].dropna() == 5).mean()


def test_an_empty_group_and_a_frame_without_groups():
    frame = scores().assign(composite_strict=np.nan)
    found = ceiling(frame)
    assert found.shares["all"][0].estimate is None
    assert "not estimable" in found.sentence()
    assert json.dumps(found.to_dict(), allow_nan=False)
    bare = ceiling(pd.DataFrame({"base": ["a"], "composite_strict": [5.0]}))
    assert list(bare.shares) == ["all"]
    assert bare.shares["all"][0].low < 0.5
    assert len(bare.frame()) == 2

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from toolkit.errors import InputError
from toolkit.scoring.length_bias import analyze_length_bias


def test_runs_may_be_objects_mappings_or_numbers():
    runs = [
        SimpleNamespace(scores=SimpleNamespace(composite=3.0)),
        SimpleNamespace(scores={"composite": 4.0}),
        SimpleNamespace(composite=4.0),
        {"scores": {"composite": 5.0}},
        {"composite": 2.0},
        np.float64(3.0),
        3,
    ]
    described = analyze_length_bias({"S": runs})["S"]
    scores = [3, 4, 4, 5, 2, 3, 3]
    assert described["mean_score"] == pytest.approx(np.mean(scores))
    assert described["std_score"] == pytest.approx(np.std(scores))
    assert described["std_score_sample"] == pytest.approx(np.std(scores, ddof=1))
    assert described["count"] == 7
    assert described["missing"] == 0


def test_missing_scores_are_counted_and_enter_no_mean():
    described = analyze_length_bias(
        {"M": [2.0, None, float("nan"), pd.NA, {"scores": None}, {"composite": None}]}
    )
    assert described["M"] == {
        "mean_score": 2.0,
        "std_score": 0.0,
        "std_score_sample": None,
        "count": 1,
        "missing": 5,
    }


def test_an_empty_bin_has_no_mean():
    described = analyze_length_bias({"S": [1.0], "L": []})
    assert list(described) == ["S", "L"]
    assert described["L"]["mean_score"] is None
    assert described["L"]["std_score"] is None
    assert described["L"]["count"] == 0


@pytest.mark.parametrize("wrong", ["3.0", {"grade": 3.0}, object()])
def test_a_run_without_scores_is_refused(wrong):
    with pytest.raises(InputError):
        analyze_length_bias({"S": [wrong]})

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import InputError
from toolkit.scoring.composite import calculate_composite_score, composite_strict, count_zeros
from toolkit.words import DIMENSIONS

RUN_DOCUMENT = dict(zip(DIMENSIONS, (4.2, 4.5, 4.1, 4.3, 4.0, 4.4, 4.6), strict=True))


def test_the_composite_is_the_mean_of_the_seven_dimensions():
    assert calculate_composite_score(RUN_DOCUMENT) == pytest.approx(4.3)


def test_the_composite_leaves_zeros_out_and_the_strict_one_counts_them():
    scores = {"clarity": 0.0, "relevance": 3.0, "completeness": 5.0}
    assert calculate_composite_score(scores) == 4.0
    assert composite_strict(scores) == pytest.approx(8 / 3)
    assert count_zeros(scores) == 1


def test_true_zeros_only_give_zero_as_the_seed_says():
    assert calculate_composite_score(dict.fromkeys(DIMENSIONS, 0.0)) == 0.0
    assert composite_strict(dict.fromkeys(DIMENSIONS, 0.0)) == 0.0


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_score_is_ignored_and_is_no_zero(missing):
    scores = {"clarity": missing, "relevance": 4.0}
    assert calculate_composite_score(scores) == composite_strict(scores) == 4.0
    assert count_zeros(scores) == 0


@pytest.mark.parametrize("scores", [{}, {"clarity": None}, dict.fromkeys(DIMENSIONS, math.nan)])
def test_nothing_but_missing_scores_is_missing(scores):
    assert calculate_composite_score(scores) is None
    assert composite_strict(scores) is None


def test_a_missing_score_beside_a_true_zero_leaves_the_zero():
    assert calculate_composite_score({"clarity": 0.0, "relevance": None}) == 0.0


@pytest.mark.parametrize("wrong", ["4", True, float("inf"), 5.1, -0.1, [4]])
def test_what_is_no_score_is_refused_with_its_dimension(wrong):
    with pytest.raises(InputError, match="clarity"):
        calculate_composite_score({"clarity": wrong})


@given(st.lists(st.floats(0.001, 5), min_size=1, max_size=7))
def test_without_zeros_both_composites_are_the_mean(scores):
    named = dict(zip(DIMENSIONS, scores, strict=False))
    assert calculate_composite_score(named) == composite_strict(named)
    assert min(scores) - 1e-9 <= composite_strict(named) <= max(scores) + 1e-9

"""Strengths of the Bradley-Terry model against another program on the same votes."""

from itertools import permutations

import numpy as np
import pytest

from toolkit.stats.comparisons.pairs import bradley_terry

WINS = np.array([[0, 8, 8, 5], [8, 0, 8, 1], [4, 5, 0, 4], [6, 7, 5, 0]])
"""Wins of the row over the column."""
CHOIX = [0.09772513, -0.16336085, -0.39355232, 0.45918804]
"""Of choix 0.4.1, opt_pairwise(4, data, tol=1e-12)."""


def test_strengths_of_many_votes_are_those_of_choix():
    """Each vote in both orders, so that no order has an effect; a million times, so that Firth's penalty has none."""
    cells = np.array([(i, j, 0) for i, j in permutations(range(4), 2)])
    i, j, _ = cells.T
    votes = np.stack([WINS[i, j], WINS[i, j] + WINS[j, i]], axis=-1).astype(float)
    assert bradley_terry(cells, 1e6 * votes[None], 4)[0] == pytest.approx(CHOIX, abs=1e-6)


def test_a_set_of_votes_that_does_not_connect_the_models_has_no_strengths():
    cells = np.array([(0, 1, 0), (1, 0, 0), (2, 3, 0), (3, 2, 0), (1, 2, 0)])
    votes = np.array([[2, 5], [3, 5], [1, 4], [3, 4], [1, 2]], dtype=float)
    parted = votes * np.array([1, 1, 1, 1, 0])[:, None]
    strengths = bradley_terry(cells, np.stack([votes, parted]), 4)
    assert np.isfinite(strengths[0]).all()
    assert np.isnan(strengths[1]).all()

"""Strengths of the Bradley-Terry model against another program on the same votes."""

from itertools import permutations

import numpy as np
import pytest
from score_tables import golden

from toolkit.stats.comparisons.pairs import bradley_terry

GOLDEN = golden("bradley_terry")

WINS = np.array(GOLDEN["wins"])
"""Wins of the row over the column."""
CHOIX = GOLDEN["choix"]
"""Of choix 0.4.1, opt_pairwise(4, data, tol=1e-12)."""


def test_strengths_of_many_votes_are_those_of_choix():
    """Each vote in both orders, so that no order has an effect; a million times, so that Firth's penalty has none."""
    cells = np.array([(i, j, 0) for i, j in permutations(range(4), 2)])
    i, j, _ = cells.T
    votes = np.stack([WINS[i, j], WINS[i, j] + WINS[j, i]], axis=-1).astype(float)
    assert bradley_terry(cells, 1e6 * votes[None], 4)[0] == pytest.approx(CHOIX, abs=1e-6)


def test_a_set_of_votes_that_does_not_connect_the_models_has_no_strengths():
    cells = np.array(GOLDEN["unconnected"])
    votes = np.array(GOLDEN["votes"], dtype=float)
    parted = votes * np.array([1, 1, 1, 1, 0])[:, None]
    strengths = bradley_terry(cells, np.stack([votes, parted]), 4)
    assert np.isfinite(strengths[0]).all()
    assert np.isnan(strengths[1]).all()

"""Cohen's and Fleiss' kappa: published numbers, another program, and what happens when nothing can be said."""

import math

import numpy as np
import pytest
from scipy import special
from score_tables import golden
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.inter_rater import fleiss_kappa as fleiss_of_statsmodels

from toolkit.stats.agreement.coefficients import cohen_kappa, fleiss_kappa

GOLDEN = golden("kappa")
FOUR = golden("weighted_kappa")


def spread(table):
    """Return the two columns of ratings behind a table of counts."""
    pairs = [(i, j) for i, row in enumerate(table) for j, count in enumerate(row) for _ in range(count)]
    return [i for i, _ in pairs], [j for _, j in pairs]


def error_of(found, quantile):
    """Return the standard error behind an interval on Fisher's z scale."""
    half = (math.atanh(found.high) - math.atanh(found.low)) / 2
    return half / quantile * (1 - found.estimate**2)


@pytest.mark.parametrize(
    ("table", "printed", "close"),
    [(GOLDEN["cohen"]["table"], GOLDEN["cohen"], 5e-8), (FOUR["table"], FOUR["unweighted"], 5e-5)],
)
def test_cohen_as_published(table, printed, close):
    """Kappa and standard error of the abstractors' table, and of one of four categories."""
    found = cohen_kappa(*spread(table))
    assert found.estimate == pytest.approx(printed["kappa"], abs=close)
    error = error_of(found, float(special.ndtri(0.975)))
    assert error == pytest.approx(printed["standard_error"], abs=close / 10)


def test_fleiss_of_two_raters_is_scott_as_published():
    """With two raters Fleiss' kappa is Scott's pi."""
    votes = list(zip(*spread(GOLDEN["cohen"]["table"]), strict=True))
    assert fleiss_kappa(votes).estimate == pytest.approx(GOLDEN["scott"]["kappa"], abs=5e-8)


def test_fleiss_with_missing_votes_as_published():
    """Kappa and standard error where some votes are missing, among them all but one of an item."""
    case = GOLDEN["fleiss_with_missing_votes"]
    votes = list(zip(*case["ratings"], strict=True))
    found = fleiss_kappa(votes)
    assert found.estimate == pytest.approx(case["kappa"], abs=5e-6)
    assert error_of(found, float(special.stdtrit(11, 0.975))) == pytest.approx(
        case["standard_error"], abs=5e-6
    )
    assert (found.n, found.missing) == ({"items": 12, "votes": 41}, 7)


def test_other_programs_agree():
    """Random tables: scikit-learn's and statsmodels' Cohen with its standard error, statsmodels' Fleiss."""
    chance = np.random.default_rng(3)
    for categories in (2, 3, 5):
        first = chance.integers(0, categories, 60)
        second = np.where(chance.random(60) < 0.6, first, chance.integers(0, categories, 60))
        found = cohen_kappa(first.tolist(), second.tolist())
        assert found.estimate == pytest.approx(cohen_kappa_score(first, second))
        table = np.zeros((categories, categories))
        np.add.at(table, (first, second), 1)
        other = cohens_kappa(table)
        assert error_of(found, float(special.ndtri(0.975))) == pytest.approx(other.std_kappa)
        votes = chance.integers(0, categories, (40, 5))
        votes[:, 1] = votes[:, 0]
        counts = np.stack([(votes == one).sum(axis=1) for one in range(categories)], axis=1)
        assert fleiss_kappa(votes.tolist()).estimate == pytest.approx(fleiss_of_statsmodels(counts))


def test_missing_items_are_left_out_and_counted():
    """An item that either lacks says nothing; whoever is exchanged with whom, kappa stays."""
    first, second = [1, 1, 0, 0, 1, None, 0], [1, 0, 0, 0, 1, 1, None]
    found = cohen_kappa(first, second)
    assert (found.n["items"], found.missing) == (5, 2)
    assert found.estimate == cohen_kappa(first[:5], second[:5]).estimate
    assert found.estimate == pytest.approx(cohen_kappa(second, first).estimate)

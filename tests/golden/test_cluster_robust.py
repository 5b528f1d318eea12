"""CR2 and its degrees of freedom against what they must equal: paired t, HC2, and the formula written out."""

import numpy as np
import pytest
from scipy import linalg, stats

from toolkit.stats import cluster_robust


def written_out(x, y, clusters, c):
    """Return estimate, error and degrees of freedom from the n x n matrices of Bell & McCaffrey."""
    bread = np.linalg.inv(x.T @ x)
    hat = x @ bread @ x.T
    rest = np.eye(len(y)) - hat
    residuals = rest @ y
    vectors, total = [], 0.0
    for name in np.unique(clusters):
        rows = np.flatnonzero(clusters == name)
        root = linalg.fractional_matrix_power(rest[np.ix_(rows, rows)], -0.5).real
        weights = root @ x[rows] @ bread @ c
        total += float(weights @ residuals[rows]) ** 2
        vectors.append(rest[:, rows] @ weights)
    p = np.column_stack(vectors)
    b = p.T @ p
    return float(c @ bread @ x.T @ y), np.sqrt(total), np.trace(b) ** 2 / np.trace(b @ b)


def sample(seed=1):
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(7), [2, 3, 4, 5, 3, 6, 2])
    x = np.column_stack([np.ones(25), rng.normal(0, 1, 25), rng.normal(0, 1, 7)[clusters]])
    return x, x @ [1, 0.5, 0] + rng.normal(0, 1, 7)[clusters] + rng.normal(0, 1, 25), clusters


def test_it_is_the_formula_written_out():
    """Unequal clusters, a covariate within and one between."""
    x, y, clusters = sample()
    for place in range(3):
        c = np.eye(3)[place]
        found = cluster_robust(x, y, clusters, {"c": c})["c"]
        estimate, error, degrees = written_out(x, y, clusters, c)
        assert (found.estimate, found.error, found.degrees) == pytest.approx((estimate, error, degrees))
        assert found.p_value == pytest.approx(2 * stats.t.sf(abs(estimate / error), degrees))
        assert found.high == pytest.approx(estimate + stats.t.ppf(0.975, degrees) * error)


def test_clusters_of_one_are_hc2():
    """Standard errors of statsmodels."""
    import statsmodels.api as sm

    x, y, _ = sample()
    found = cluster_robust(x, y, np.arange(25), {name: np.eye(3)[name] for name in range(3)})
    theirs = sm.OLS(y, x).fit(cov_type="HC2")
    assert [found[name].error for name in range(3)] == pytest.approx(list(theirs.bse))


def test_what_the_design_does_not_hold_says_why():
    """A redundant column, a column of nothing, no residual, no rows; one base: tests/stats/test_edges.py."""
    x, y, clusters = sample()
    twice = np.column_stack([x, x[:, 1], np.zeros(25)])
    found = cluster_robust(
        twice, y, clusters, {"half": np.eye(5)[1], "sum": [0, 1, 0, 1, 0], "none": np.eye(5)[4]}
    )
    assert found["half"].estimate is None
    assert found["none"].estimate is None
    assert "do not determine" in found["half"].reason
    assert 2 * found["sum"].estimate == pytest.approx(
        2 * cluster_robust(x, y, clusters, {"b": [0, 1, 0]})["b"].estimate
    )
    exact = cluster_robust(x, x @ [1, 2, 3], clusters, {"b": [0, 1, 0]})["b"]
    assert exact.estimate == pytest.approx(2)
    assert "fitted line" in exact.reason
    assert "no answers" in cluster_robust(np.empty((0, 2)), [], [], {"b": [0, 1]})["b"].reason

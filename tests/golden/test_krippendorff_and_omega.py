import json
from pathlib import Path

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.multivariate.factor import Factor

from toolkit.stats.agreement.alpha import krippendorff_alpha, omega_over_dimensions, omega_total

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "krippendorff_2011.json").read_text("utf-8"))


def gappy(seed: int, answers=14, judges=4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = np.clip(
        np.round(2 * (3 + rng.normal(0, 1, (answers, 1)) + rng.normal(0, 0.5, (answers, judges)))) / 2, 0, 5
    )
    scores[rng.random(scores.shape) < 0.3] = np.nan
    return scores


def one_factor(seed: int, rows=80, items=5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 1)) * rng.uniform(0.5, 1.2, items) + rng.normal(size=(rows, items)) * 0.7


def test_krippendorffs_own_example():
    found = krippendorff_alpha(np.array(GOLDEN["ratings"], dtype=float).T)
    assert found.estimate == pytest.approx(GOLDEN["alpha"]["interval"], abs=1e-6)
    assert found.n == {"answers": 11, "judges": 4, "ratings": 40}
    assert found.missing == 7
    assert "1 answer with a single rating left out" in found.remarks
    assert found.low < found.estimate < found.high


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_alpha_with_gaps_is_that_of_the_krippendorff_package(seed):
    scores = gappy(seed)
    oracle = krippendorff.alpha(reliability_data=scores.T, level_of_measurement="interval")
    assert krippendorff_alpha(scores).estimate == pytest.approx(oracle, abs=1e-10)
    rng = np.random.default_rng(seed)
    mixed = 7 + 3 * scores[rng.permutation(len(scores))][:, rng.permutation(4)]
    assert krippendorff_alpha(mixed).estimate == pytest.approx(oracle, abs=1e-9)


def test_the_interval_is_the_jackknife_of_the_package_over_bases():
    from toolkit.stats.agreement.icc import log_f
    from toolkit.stats.inference.jackknife import jackknife_interval

    scores, bases = gappy(3, answers=24), np.repeat(np.arange(8), 3)
    found = krippendorff_alpha(scores, list(bases))
    several = np.isfinite(scores).sum(axis=1) > 1
    k = np.isfinite(scores[several]).sum() / several.sum()
    without = [
        krippendorff.alpha(reliability_data=scores[bases != base].T, level_of_measurement="interval")
        for base in range(8)
    ]
    low, high, _ = jackknife_interval(log_f(np.array(found.estimate), k), log_f(np.array(without), k))
    assert (float(log_f(np.array(found.low), k)), float(log_f(np.array(found.high), k))) == pytest.approx(
        (float(low), float(high))
    )
    assert found.n["bases"] == 8


@pytest.mark.parametrize("items", [3, 4, 7])
def test_omega_is_that_of_the_principal_axis_factor_of_statsmodels(items):
    scores = one_factor(items, items=items)
    model = Factor(corr=np.corrcoef(scores.T), n_factor=1, method="pa").fit(maxiter=20_000, tol=1e-13)
    loadings, spreads = model.loadings[:, 0], scores.std(axis=0)
    common = (loadings * spreads).sum() ** 2
    oracle = common / (common + (spreads**2 * (1 - loadings**2)).sum())
    assert omega_total(scores, range(80)).estimate == pytest.approx(oracle, abs=1e-6)


@given(st.integers(0, 1000), st.floats(0.01, 1000), st.floats(-50, 50))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_omega_ignores_the_order_of_items_the_unit_and_how_mild_an_item_is(seed, factor, gift):
    scores = one_factor(seed, rows=40, items=4)
    changed = factor * scores[:, [2, 0, 3, 1]]
    changed[:, 0] += gift * factor
    assert omega_total(changed, range(40)).estimate == pytest.approx(
        omega_total(scores, range(40)).estimate, abs=1e-6
    )


def test_a_heywood_case_is_said_and_has_no_interval():
    rng = np.random.default_rng(1)
    base = rng.normal(size=(30, 1))
    scores = np.hstack([base, base + rng.normal(0, 0.01, (30, 1)), base * 0.1 + rng.normal(size=(30, 1))])
    found = omega_total(scores, range(30))
    assert "bound" in found.remarks
    assert found.low is None


def test_omega_over_dimensions_counts_bases_and_leaves_composites_out():
    scores = np.round(one_factor(3, rows=36, items=4), 1)
    rows = [
        (f"t{i // 3}", f"j{i % 3}", name, x, f"b{i // 9}")
        for i, row in enumerate(scores)
        for name, x in zip(("clarity", "relevance", "completeness", "composite_strict"), row, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["target", "judge", "dimension", "score", "base"])
    found = omega_over_dimensions(frame)
    assert found.n == {"bases": 4, "judgements": 36, "dimensions": 3}
    assert found.estimate == pytest.approx(omega_total(scores[:, :3], range(36)).estimate)
    twice = omega_over_dimensions(pd.concat([frame, frame]))
    assert "duplicate" in twice.remarks
    assert omega_over_dimensions(frame[frame["dimension"] == "clarity"]) is None

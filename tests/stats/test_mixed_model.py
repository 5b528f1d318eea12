"""Length x scenario x model with random bases: exact split-plot F, statsmodels, and what cannot be fitted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from toolkit.stats.prompt_length.contrasts import repeated_measures
from toolkit.stats.prompt_length.mixed_model import fit_blocks, mixed_model


def study(
    bases: int = 9, models: int = 3, seed: int = 1, gain: float = 0.0, alike: float = 0.4
) -> pd.DataFrame:
    """Scores with bases, base x length and base x model (``alike``) and a residual; ``gain`` at L."""
    rng = np.random.default_rng(seed)
    levels = [range(bases), range(models), range(3)]
    runs = pd.MultiIndex.from_product(levels, names=["b", "m", "l"]).to_frame(index=False)
    b, m, place = (runs[name].to_numpy() for name in "bml")
    runs["composite_strict"] = 3 + gain * (place == 2) + rng.normal(0, 0.6, bases)[b]
    runs["composite_strict"] += alike * rng.normal(0, 1, (bases, 3))[b, place]
    runs["composite_strict"] += alike * rng.normal(0, 1, (bases, models))[b, m] + rng.normal(
        0, 0.2, len(runs)
    )
    runs["base"], runs["model"] = [f"b{i}" for i in b], [f"m{i}" for i in m]
    runs["length_bin"], runs["scenario"] = (
        np.array(list("SML"))[place],
        np.array(["SOC", "GRC", "CTI"])[b % 3],
    )
    return runs.drop(columns=["b", "m", "l"])


def split_plot(runs: pd.DataFrame, names: list[str]) -> tuple[float, int, int]:
    """Return F, df1, df2 of a within factor from the sums of squares of base means, scenarios balanced."""
    cells = runs.groupby(["scenario", "base", *names])["composite_strict"].mean().unstack(names)
    within = cells.sub(cells.mean(axis=1), axis=0)
    means = within.groupby(level="scenario").mean()
    error = float(((within - means.reindex(within.index, level="scenario")) ** 2).to_numpy().sum())
    effect = float((means.mean() ** 2).sum()) * len(cells)
    df1 = cells.shape[1] - 1
    df2 = (len(cells) - len(means)) * df1
    return effect / df1 / (error / df2), df1, df2


def test_balanced_data_give_the_exact_split_plot_f() -> None:
    """Length against base x length, model against base x model, scenario against bases: sums of squares by hand."""
    runs = study()
    found = mixed_model(runs)
    assert found.singular == ()
    of = {term.term: term for term in found.terms}
    for name, column in (("length", "length_bin"), ("model", "model")):
        f, df1, df2 = split_plot(runs, [column])
        assert (of[name].df1, of[name].df2) == (df1, df2)
        assert of[name].f == pytest.approx(f, rel=1e-4)
        assert of[name].p_value == pytest.approx(stats.f.sf(f, df1, df2), rel=1e-3)
    means = runs.groupby(["scenario", "base"])["composite_strict"].mean()
    groups = [group.to_numpy() for _, group in means.groupby(level="scenario")]
    assert of["scenario"].f == pytest.approx(stats.f_oneway(*groups).statistic, rel=1e-4)
    assert (of["length:model"].df2, of["length:scenario:model"].df1) == (24, 8)


def test_one_model_and_scenario_are_the_repeated_measures_anova() -> None:
    """Without further factors the model is the ANOVA without correction."""
    runs = study(bases=8, models=1).assign(scenario="SOC").drop(columns="model")
    found = mixed_model(runs)
    table = runs.pivot(index="base", columns="length_bin", values="composite_strict").to_numpy()
    expected = repeated_measures(table)
    assert [term.term for term in found.terms] == ["length"]
    assert found.terms[0].f == pytest.approx(expected.f, rel=1e-4)
    assert found.terms[0].p_value == pytest.approx(expected.p_uncorrected, rel=1e-3)


def test_a_fit_with_gaps_is_that_of_statsmodels() -> None:
    """Effects, their covariance and all variances by MixedLM, with a tenth of the cells missing."""
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    rng = np.random.default_rng(2)
    y = 3 + rng.normal(0, 0.6, (14, 1)) + np.repeat(rng.normal(0, 0.5, (14, 3)), 2, axis=1)
    y += rng.normal(0, 0.4, y.shape)
    here = rng.random(y.shape) > 0.1
    x = np.tile(np.column_stack([np.ones(6), np.tile([0.0, 1.0], 3)]), (14, 1, 1))
    kernels = np.array([np.ones((6, 6)), np.kron(np.eye(3), np.ones((2, 2)))])
    found = fit_blocks(y, here, x, kernels)
    levels = np.kron(np.eye(3), np.ones((2, 1)))
    names = [[["s", "m", "l"]] * 14]
    spec = VCSpec(["length"], names, [[levels[row] for row in here]])
    groups = np.repeat(np.arange(14), 6).reshape(14, 6)[here]
    theirs = MixedLM(y[here], x[here], groups, exog_re=np.ones((here.sum(), 1)), exog_vc=spec).fit(reml=True)
    assert found.effects == pytest.approx(theirs.fe_params, rel=1e-4)
    variances = [theirs.cov_re[0, 0], theirs.vcomp[0], theirs.scale]
    assert found.variances == pytest.approx(variances, rel=2e-3)
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx(theirs.bse_fe, rel=2e-3)


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, -100), (1e3, 100)])
def test_shift_and_scale_leave_the_tests(scale: float, shift: float) -> None:
    """F has no unit; variances are in squared units."""
    runs = study(bases=6)
    first, second = (
        mixed_model(runs),
        mixed_model(runs.assign(composite_strict=scale * runs["composite_strict"] + shift)),
    )
    assert [one.f for one in second.terms] == pytest.approx([one.f for one in first.terms], rel=1e-3)
    assert second.variances["base"] / scale**2 == pytest.approx(first.variances["base"], rel=1e-3)


def test_a_singular_fit_is_a_result_and_says_so() -> None:
    """No variance of base x length beyond the residual: estimated as 0, named, in the sentence."""
    for seed in range(20):
        found = mixed_model(study(seed=seed, alike=0.0))
        if found.singular:
            break
    assert found.variances[found.singular[0]] == pytest.approx(0, abs=1e-6)
    assert f"Singular fit: variance of {found.singular[0]}" in found.sentence()
    assert all(term.f is not None for term in found.terms)


def test_an_effect_is_found_and_its_p_value_corrected() -> None:
    """A gain of one point at L: only length is below .05 after Holm; missing runs are counted, not zero."""
    runs = study(gain=1.0, seed=3)
    runs.loc[[0, 7], "composite_strict"] = np.nan
    found = mixed_model(runs)
    assert found.missing == 2
    assert found.n == {"bases": 9, "cells": 79, "answers": 79}
    assert [term.term for term in found.terms if term.p_holm < 0.05] == ["length"]
    assert all(term.p_holm >= term.p_value for term in found.terms)
    assert list(found.frame()["term"])[:3] == ["length", "scenario", "model"]

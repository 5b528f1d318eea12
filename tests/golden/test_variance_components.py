import json
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.stats.generalizability.components import (
    EMS,
    REML,
    VarianceComponents,
    ems_fit,
    fit_components,
    reml_fit,
    variance_components,
)
from toolkit.stats.generalizability.design import ComponentsTable, Design, components_table
from toolkit.stats.generalizability.g_study import generalizability_study
from toolkit.stats.generalizability.study_scores import ANSWERS

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "brennan_2001.json").read_text("utf-8"))
CROSSED = Design(("answer", "judge", "repeat"))
NESTED = Design(("base", "model", "judge", "repeat"), {"repeat": ("base", "model")})
NAMES = ("base", "model", "judge", "repeat")


def tidy(values: np.ndarray, names=NAMES) -> pd.DataFrame:
    """One row per cell; NaN stays as a missing score."""
    index = np.indices(values.shape).reshape(values.ndim, -1)
    codes = {name: [f"{name[0]}{one:03d}" for one in row] for name, row in zip(names, index, strict=False)}
    return pd.DataFrame({**codes, "score": values.ravel()})


def drawn(design: Design, levels, variances, rng) -> np.ndarray:
    """Scores of a random design with known components, in the order of its effects."""
    values = np.full(levels, 3.0)
    for effect, variance in zip(design.effects, variances, strict=True):
        shape = [n if name in effect else 1 for name, n in zip(design.factors, levels, strict=True)]
        values = values + math.sqrt(variance) * rng.normal(size=shape)
    return values


def table_of(values: np.ndarray, design: Design) -> ComponentsTable:
    return components_table(tidy(values, design.factors), design)


def raw(found: VarianceComponents) -> np.ndarray:
    return np.array(list(found.raw.values()), dtype=float)


def long_of(nested: dict, outer: str, inner: str) -> pd.DataFrame:
    rows = [
        (f"p{person}", one, other, score)
        for one, columns in nested.items()
        for other, scores in columns.items()
        for person, score in enumerate(scores)
    ]
    return pd.DataFrame(rows, columns=["p", outer, inner, "score"])


GOLDEN_CASES = {
    "persons_by_items": (
        tidy(np.array(GOLDEN["persons_by_items"]["ratings"]), ("p", "i")),
        Design(("p", "i")),
    ),
    "persons_by_items_by_occasions": (
        long_of(GOLDEN["persons_by_items_by_occasions"]["ratings_by_occasion_and_item"], "o", "i"),
        Design(("p", "i", "o")),
    ),
    "persons_by_raters_in_tasks": (
        long_of(GOLDEN["persons_by_raters_in_tasks"]["ratings_by_task_and_rater"], "t", "r"),
        Design(("p", "t", "r"), {"r": ("t",)}),
    ),
}


@pytest.mark.parametrize("name", GOLDEN_CASES)
def test_the_tables_of_brennan_give_the_printed_anova_and_components(name):
    frame, design = GOLDEN_CASES[name]
    printed, table = GOLDEN[name], components_table(frame, design)
    fit = ems_fit(table)
    names = [design.name(effect) for effect in design.effects]
    assert sorted(names) == sorted(printed["components"])
    for index, effect in enumerate(names):
        assert fit.raw[index] * table.scale**2 == pytest.approx(printed["components"][effect], abs=5.1e-5)
        if "degrees" in printed:
            assert fit.degrees[index] == printed["degrees"][effect]
        if "sums_of_squares" in printed:
            squares = fit.mean_squares[index] * fit.degrees[index] * table.scale**2
            assert squares == pytest.approx(printed["sums_of_squares"][effect], abs=5.1e-5)
        if "mean_squares" in printed:
            squares = fit.mean_squares[index] * table.scale**2
            assert squares == pytest.approx(printed["mean_squares"][effect], abs=5.1e-5)


@pytest.mark.parametrize("name", GOLDEN_CASES)
def test_the_tables_of_brennan_give_the_printed_coefficients(name):
    frame, design = GOLDEN_CASES[name]
    found = generalizability_study(variance_components(frame, design), "p")
    for estimate, printed in ((found.e_rho2, GOLDEN[name]["E_rho2"]), (found.phi, GOLDEN[name]["Phi"])):
        half_a_digit = 0.51 * 10.0 ** -len(str(printed).partition(".")[2])
        assert estimate.estimate == pytest.approx(printed, abs=half_a_digit)


@pytest.mark.parametrize("name", GOLDEN_CASES)
def test_reml_of_a_balanced_table_is_the_anova_with_its_degrees(name):
    frame, design = GOLDEN_CASES[name]
    table = components_table(frame, design)
    by_squares, by_likelihood = ems_fit(table), reml_fit(table)
    assert by_likelihood.raw == pytest.approx(by_squares.raw, abs=1e-9)
    assert by_likelihood.degrees == pytest.approx(by_squares.degrees, rel=1e-5)
    # The forms of REML are the mean squares, each divided by the cells of its effect.
    own = by_squares.mean_squares / np.diag(by_squares.coefficients)
    assert by_likelihood.mean_squares == pytest.approx(own, rel=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_reml_with_gaps_is_that_of_statsmodels():
    import statsmodels.formula.api as smf

    rng = np.random.default_rng(11)
    design = Design(("answer", "judge"))
    values = drawn(design, (14, 3), [0.6, 0.3, 0.3], rng)
    values[rng.random(values.shape) < 0.2] = np.nan
    frame = tidy(values, design.factors)
    found = variance_components(frame, design)
    assert found.method == REML
    kept = frame.dropna().assign(one=1)
    formulas = {"answer": "0 + C(answer)", "judge": "0 + C(judge)"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = smf.mixedlm("score ~ 1", kept, groups="one", vc_formula=formulas).fit(reml=True)
    parts = dict(zip(oracle.model.exog_vc.names, oracle.vcomp, strict=True))
    expected = [parts["answer"], parts["judge"], oracle.scale]
    assert raw(found) == pytest.approx(expected, rel=2e-3)


def brute_likelihood(values: np.ndarray, design: Design, components: np.ndarray) -> float:
    """The restricted log-likelihood from one dense covariance matrix."""
    there = ~np.isnan(values).ravel()
    cells = np.indices(values.shape).reshape(values.ndim, -1)[:, there]
    y, v = values.ravel()[there], np.zeros((there.sum(),) * 2)
    for effect, component in zip(design.effects, components, strict=True):
        own = cells[[i for i, name in enumerate(design.factors) if name in effect]]
        v += component * (own[:, :, None] == own[:, None, :]).all(axis=0)
    inverse, ones = np.linalg.inv(v), np.ones(len(y))
    a = ones @ inverse @ ones
    p = inverse - np.outer(inverse @ ones, ones @ inverse) / a
    return -0.5 * (np.linalg.slogdet(v)[1] + math.log(a) + y @ p @ y)


def test_reml_is_a_maximum_of_the_likelihood_written_out_in_full():
    rng = np.random.default_rng(7)
    values = drawn(NESTED, (9, 2, 3, 2), [0.4, 0.2, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2, 0.3], rng)
    values[rng.random(values.shape) < 0.12] = np.nan
    table = table_of(values, NESTED)
    fit = fit_components(table)
    assert fit.method == REML
    top = brute_likelihood(table.values, NESTED, fit.raw)
    for index in range(len(fit.raw)):
        for step in (-1e-3, 1e-3):
            moved = fit.raw.copy()
            moved[index] += step
            assert brute_likelihood(table.values, NESTED, moved) < top


def test_a_negative_component_is_shown_before_it_is_cut_off():
    rng = np.random.default_rng(3)
    values = drawn(CROSSED, (8, 3, 2), [0.5, 0.1, 0, 0, 0, 0, 0.5], rng)
    found = variance_components(tidy(values, CROSSED.factors), CROSSED)
    below = [name for name, value in found.raw.items() if value < 0]
    assert below
    for one in found.components:
        assert one.estimate == max(found.raw[one.name], 0.0)
        assert ("before truncation" in one.remarks) == (one.name in below)
        assert 0 <= one.low <= one.high
    assert any(note.startswith("negative before truncation") for note in found.notes)
    assert sum(found.shares.values()) == pytest.approx(1)
    assert "Negative before truncation" in found.sentence()
    frame = found.frame()
    assert (frame["raw"] < 0).sum() == len(below)
    json.dumps(found.to_dict(), allow_nan=False)


scores = st.integers(3, 6).flatmap(
    lambda n: st.lists(st.integers(0, 10), min_size=n * 6, max_size=n * 6).map(
        lambda flat: np.array(flat, dtype=float).reshape(n, 3, 2) / 2
    )
)


@given(scores, st.integers(-3, 3), st.sampled_from([1e-6, 0.5, 10.0, 1e5]))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_a_shift_changes_nothing_and_a_scale_counts_squared(values, shift, factor):
    before = variance_components(tidy(values, CROSSED.factors), CROSSED)
    after = variance_components(tidy((values + shift) * factor, CROSSED.factors), CROSSED)
    assert bool(before.problem) == bool(after.problem)
    if not before.problem:
        size = factor**2
        assert raw(after) / size == pytest.approx(raw(before), abs=1e-9)


def test_a_milder_judge_moves_the_component_of_judges_alone():
    rng = np.random.default_rng(4)
    design = Design(("answer", "judge"))
    values = drawn(design, (20, 3), [0.5, 0.05, 0.3], rng)
    milder = values + np.array([0, 0, 2.0])
    before, after = (variance_components(tidy(one, design.factors), design).raw for one in (values, milder))
    assert after["answer"] == pytest.approx(before["answer"])
    assert after["answer x judge, residual"] == pytest.approx(before["answer x judge, residual"])
    assert after["judge"] > before["judge"] + 0.5


def test_a_missing_score_is_counted_and_never_a_zero():
    rng = np.random.default_rng(6)
    design = Design(("answer", "judge"))
    values = 4 + drawn(design, (30, 3), [0.1, 0.02, 0.1], rng) / 10
    gaps = values.copy()
    gaps[[2, 5, 9], [0, 1, 2]] = np.nan
    frame = tidy(gaps, design.factors)
    absent = frame.dropna()
    zeros = frame.fillna(0.0)
    with_nan, without_row, as_zero = (variance_components(one, design) for one in (frame, absent, zeros))
    assert with_nan.components[0].missing == without_row.components[0].missing == 3
    assert raw(with_nan) == pytest.approx(raw(without_row))
    assert raw(as_zero)[-1] > 10 * raw(with_nan)[-1]
    assert any("REML" in note for note in with_nan.notes)


def test_repeats_of_unequal_number_are_not_missing():
    rng = np.random.default_rng(10)
    values = drawn(NESTED, (8, 2, 3, 3), [0.4, 0.2, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2, 0.3], rng)
    frame = tidy(values, NESTED.factors)
    fewer = frame[~((frame["base"] == "b000") & (frame["repeat"] == "r002"))]
    found = variance_components(fewer, NESTED)
    assert (found.method, found.components[0].missing) == (REML, 0)
    one_judgement_less = fewer.drop(fewer.index[7])
    assert variance_components(one_judgement_less, NESTED).components[0].missing == 1


def test_names_of_a_nested_factor_count_within_their_parents_only():
    rng = np.random.default_rng(12)
    values = rng.normal(3, 1, (5, 2, 3, 2))
    frame = tidy(values, NESTED.factors)
    own = frame.assign(repeat=frame["base"] + frame["model"] + frame["repeat"])
    assert variance_components(own, NESTED).raw == variance_components(frame, NESTED).raw


def test_a_factor_of_one_level_is_left_out_and_said():
    rng = np.random.default_rng(14)
    frame = tidy(rng.normal(3, 1, (6, 2, 3, 1)), NESTED.factors)
    found = variance_components(frame, NESTED)
    assert "one repeat only, so what it adds cannot be told" in found.notes
    assert not any("repeat" in name for name in found.raw)
    # What repeats within a judge are its judgements, whatever number of runs the study has.
    answers = frame.assign(answer=frame["base"] + frame["model"]).drop(columns="model")
    notes = variance_components(answers, ANSWERS).notes
    assert "each judge judged an answer once, so what judging it again would change cannot be told" in notes
    assert not any("one repeat" in note for note in notes)


def test_a_judge_without_any_score_is_left_out_by_its_name():
    rng = np.random.default_rng(15)
    design = Design(("answer", "judge"))
    values = rng.normal(3, 1, (6, 4))
    values[:, 2] = np.nan
    found = variance_components(tidy(values, design.factors), design)
    assert (found.method, found.components[0].missing) == (EMS, 6)
    assert "1 judge without any score left out: j002" in found.notes


def test_many_scores_at_the_end_of_the_scale_are_said():
    values = np.minimum(np.random.default_rng(16).normal(4.8, 0.6, (20, 3)).round(1), 5)
    design = Design(("answer", "judge"))
    found = variance_components(tidy(values, design.factors), design)
    assert any("highest" in note for note in found.notes)


@pytest.mark.parametrize("gaps", [False, True])
def test_intervals_are_the_same_for_the_same_seed(gaps):
    rng = np.random.default_rng(18)
    design = Design(("answer", "judge"))
    values = drawn(design, (15, 3), [0.5, 0.1, 0.3], rng)
    if gaps:
        values[3, 1] = np.nan
    frame = tidy(values, design.factors)
    first, second, other = (
        [(one.low, one.high) for one in variance_components(frame, design, seed=seed).components]
        for seed in (1, 1, 2)
    )
    assert first == second != other


def test_generalized_intervals_of_the_residual_are_those_of_the_chi_square():
    from scipy import stats

    rng = np.random.default_rng(21)
    design = Design(("answer", "judge"))
    values = drawn(design, (12, 3), [0.5, 0.1, 0.3], rng)
    last = variance_components(tidy(values, design.factors), design).components[-1]
    exact = last.estimate * 22 / stats.chi2.ppf([0.975, 0.025], 22)
    assert (last.low, last.high) == pytest.approx(tuple(exact), rel=0.03)

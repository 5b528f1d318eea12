import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_tables import check_shown, golden

from toolkit.stats.generalizability.components import (
    EMS,
    UNEQUAL,
    Design,
    components_table,
    fit_components,
    variance_components,
)
from toolkit.stats.generalizability.g_study import ANSWER_DESIGN, generalizability_study

GOLDEN = golden("brennan_2001")
CROSSED = Design(("answer", "judge", "repeat"))
NESTED = Design(("base", "model", "judge", "repeat"), {"repeat": ("base", "model")})
ONE_FACET = Design(("answer", "judge"))


def tidy(values, names):
    """One row per cell; NaN stays as a missing score."""
    index = np.indices(values.shape).reshape(values.ndim, -1)
    codes = {name: [f"{name[0]}{one:03d}" for one in row] for name, row in zip(names, index, strict=False)}
    return pd.DataFrame({**codes, "score": values.ravel()})


def drawn(design, levels, variances, rng):
    """Scores of a random design with known components, in the order of its effects."""
    values = np.full(levels, 3.0)
    for effect, variance in zip(design.effects, variances, strict=True):
        shape = [n if name in effect else 1 for name, n in zip(design.factors, levels, strict=True)]
        values = values + math.sqrt(variance) * rng.normal(size=shape)
    return values


def components_of(values, design):
    return variance_components(tidy(values, design.factors), design)


def raw(found):
    return np.array(list(found.raw.values()), dtype=float)


def long_of(nested, outer, inner):
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
    fit = fit_components(table)
    names = [design.name(effect) for effect in design.effects]
    assert sorted(names) == sorted(printed["components"])
    for index, effect in enumerate(names):
        assert fit.raw[index] * table.scale**2 == pytest.approx(printed["components"][effect], abs=5.1e-5)
        if "degrees" in printed:
            assert fit.degrees[index] == printed["degrees"][effect]
        squares = fit.mean_squares[index] * table.scale**2
        for key, value in (("mean_squares", squares), ("sums_of_squares", squares * fit.degrees[index])):
            if key in printed:
                assert value == pytest.approx(printed[key][effect], abs=5.1e-5)


@pytest.mark.parametrize("name", GOLDEN_CASES)
def test_the_tables_of_brennan_give_the_printed_coefficients(name):
    frame, design = GOLDEN_CASES[name]
    found = generalizability_study(variance_components(frame, design), "p")
    for estimate, printed in ((found.e_rho2, GOLDEN[name]["E_rho2"]), (found.phi, GOLDEN[name]["Phi"])):
        half_a_digit = 0.51 * 10.0 ** -len(str(printed).partition(".")[2])
        assert estimate.estimate == pytest.approx(printed, abs=half_a_digit)


def test_unequal_numbers_of_items_give_the_printed_components():
    """Analogous mean squares by hand in the book: T terms, their expectations, and the equations."""
    printed = GOLDEN["unbalanced_items_in_categories"]
    frame = long_of(printed["ratings_by_category_and_item"], "h", "i")
    design = Design(("p", "h", "i"), {"i": ("h",)})
    table = components_table(frame, design)
    fit, terms = fit_components(table), printed["t_terms"]
    squares = dict(zip(map(design.name, design.effects), fit.mean_squares * fit.degrees, strict=True))
    assert squares["i:h"] * table.scale**2 == pytest.approx(terms["i:h"] - terms["h"])
    assert squares["p x h"] * table.scale**2 == pytest.approx(
        terms["p x h"] - terms["p"] - terms["h"] + terms["mean"]
    )
    found = variance_components(frame, design)
    assert found.method == UNEQUAL
    for (name, value), effect in zip(found.raw.items(), design.effects, strict=True):
        assert name.startswith(design.name(effect))
        # The book's come from rounded mean squares.
        assert value == pytest.approx(printed["components"][design.name(effect)], abs=1.5e-4)


@pytest.mark.parametrize("design", [NESTED, ANSWER_DESIGN.without(["repeat"]), Design(("answer", "repeat"))])
def test_the_expected_squares_are_those_of_the_full_covariance(design):
    """E(y'Ay) is the trace of A times the covariance: every T as a projection, written out in full; gaps at random."""
    rng = np.random.default_rng(7)
    values = rng.normal(3, 1, (7, 3, 3, 2)[: len(design.factors)])
    values[rng.random(values.shape) < 0.15] = np.nan
    table = components_table(tidy(values, design.factors), design)
    fit, scored = fit_components(table), np.isfinite(table.values).ravel()
    cells = np.indices(table.values.shape).reshape(values.ndim, -1)[:, scored]
    alike = [
        (cells[axes][:, :, None] == cells[axes][:, None, :]).all(axis=0).astype(float)
        for effect in (frozenset(), *design.effects)
        for axes in [[i for i, name in enumerate(design.factors) if name in effect]]
    ]
    forms = []
    for place, same in enumerate(alike):
        subset = (frozenset(), *design.effects)[place]
        within = [forms[i] for i in range(place) if (frozenset(), *design.effects)[i] < subset]
        forms.append(same / same.sum(axis=0) - sum(within, start=np.zeros_like(same)))
    y = table.values.ravel()[scored]
    assert fit.mean_squares * fit.degrees == pytest.approx([y @ form @ y for form in forms[1:]])
    expected = [[np.trace(form @ covariance) for covariance in alike[1:]] for form in forms[1:]]
    assert fit.coefficients * fit.degrees[:, None] == pytest.approx(np.array(expected), abs=1e-9)


def test_a_negative_component_is_shown_before_it_is_cut_off():
    rng = np.random.default_rng(3)
    values = drawn(CROSSED, (8, 3, 2), [0.5, 0.1, 0, 0, 0, 0, 0.5], rng)
    found = components_of(values, CROSSED)
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
    check_shown(found)


scores = st.integers(3, 6).flatmap(
    lambda n: st.lists(st.integers(0, 10), min_size=n * 6, max_size=n * 6).map(
        lambda flat: np.array(flat, dtype=float).reshape(n, 3, 2) / 2
    )
)


@given(scores, st.integers(-3, 3), st.sampled_from([1e-6, 0.5, 10.0, 1e5]))
@settings(max_examples=10)
def test_a_shift_changes_nothing_and_a_scale_counts_squared(values, shift, factor):
    before, after = (components_of(given, CROSSED) for given in (values, (values + shift) * factor))
    assert bool(before.problem) == bool(after.problem)
    if not before.problem:
        size = factor**2
        assert raw(after) / size == pytest.approx(raw(before), abs=1e-9)


def test_a_missing_score_is_counted_and_never_a_zero():
    gaps = 4 + drawn(ONE_FACET, (30, 3), [0.1, 0.02, 0.1], np.random.default_rng(6)) / 10
    gaps[[2, 5, 9], [0, 1, 2]] = np.nan
    frame = tidy(gaps, ONE_FACET.factors)
    complete = frame[~frame["answer"].isin(frame["answer"][frame["score"].isna()])]
    with_nan, without_row, as_zero, rest = (
        variance_components(table, ONE_FACET)
        for table in (frame, frame.dropna(), frame.fillna(0.0), complete)
    )
    assert with_nan.components[0].missing == without_row.components[0].missing == 9
    assert with_nan.notes[0] == "3 of 30 replies lack a judge and are left out"
    assert raw(with_nan) == pytest.approx(raw(without_row))
    assert raw(as_zero)[-1] > 10 * raw(with_nan)[-1]
    assert raw(with_nan) == pytest.approx(raw(rest))
    assert (with_nan.method, with_nan.cautions) == (EMS, ())
    assert components_of(gaps[[2, 5, 9]], ONE_FACET).problem == "no reply was scored by all judges"
    gaps[10, 0] = np.nan
    (caution,) = components_of(gaps, ONE_FACET).cautions
    assert caution == "13% of the replies are left out: the rest may not stand for them"


def test_repeats_of_unequal_number_are_not_missing():
    rng = np.random.default_rng(10)
    values = drawn(NESTED, (8, 2, 3, 3), [0.4, 0.2, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2, 0.3], rng)
    frame = tidy(values, NESTED.factors)
    fewer = frame[~((frame["base"] == "b000") & (frame["repeat"] == "r002"))]
    found = variance_components(fewer, NESTED)
    assert (found.method, found.components[0].missing) == (UNEQUAL, 0)
    one_judgement_less = fewer.drop(fewer.index[7])
    assert variance_components(one_judgement_less, NESTED).components[0].missing == 3


def test_names_of_a_nested_factor_count_within_their_parents_only():
    frame = tidy(np.random.default_rng(12).normal(3, 1, (5, 2, 3, 2)), NESTED.factors)
    own = frame.assign(repeat=frame["base"] + frame["model"] + frame["repeat"])
    assert variance_components(own, NESTED).raw == variance_components(frame, NESTED).raw


def test_a_factor_of_one_level_is_left_out_and_said():
    frame = tidy(np.random.default_rng(14).normal(3, 1, (6, 2, 3, 1)), NESTED.factors)
    found = variance_components(frame, NESTED)
    assert "one repeat only, so what it adds cannot be told" in found.notes
    assert not any("repeat" in name for name in found.raw)
    # What repeats within a judge are its judgements, whatever number of runs the study has.
    answers = frame.assign(answer=frame["base"] + frame["model"]).drop(columns="model")
    notes = variance_components(answers, ANSWER_DESIGN).notes
    assert "each judge judged an answer once, so what judging it again would change cannot be told" in notes
    assert "one repeat" not in str(notes)


def test_a_judge_without_any_score_is_left_out_by_its_name():
    values = np.random.default_rng(15).normal(3, 1, (6, 4))
    values[:, 2] = np.nan
    found = components_of(values, ONE_FACET)
    assert (found.method, found.components[0].missing) == (EMS, 6)
    assert "1 judge without any score left out: j002" in found.notes


def test_many_scores_at_the_end_of_the_scale_are_said():
    values = np.minimum(np.random.default_rng(16).normal(4.8, 0.6, (20, 3)).round(1), 5)
    assert any("highest" in note for note in components_of(values, ONE_FACET).notes)


def test_generalized_intervals_of_the_residual_are_those_of_the_chi_square():
    from scipy import stats

    values = drawn(ONE_FACET, (12, 3), [0.5, 0.1, 0.3], np.random.default_rng(21))
    last = components_of(values, ONE_FACET).components[-1]
    exact = last.estimate * 22 / stats.chi2.ppf([0.975, 0.025], 22)
    assert (last.low, last.high) == pytest.approx(tuple(exact), rel=0.03)

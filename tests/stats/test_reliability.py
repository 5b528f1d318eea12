import math
import tracemalloc
import warnings
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pingouin as pg
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from logit_jackknife import jackknife
from scipy import stats
from score_tables import check_shown, ends, golden, long

from toolkit.stats.agreement.icc import (
    CLUSTERED_METHOD,
    F_METHOD,
    FORMS,
    NEW_JUDGES,
    THESE_JUDGES,
)
from toolkit.stats.agreement.reliability import ROW_ORDER, reliability
from toolkit.words import DIMENSIONS

CASES = cases(__file__)

GOLDEN = golden("shrout_fleiss_1979")
tables = st.integers(2, 6).flatmap(
    lambda n: st.integers(2, 4).flatmap(
        lambda k: st.lists(st.lists(st.integers(0, 10), min_size=k, max_size=k), min_size=n, max_size=n).map(
            lambda rows: np.array(rows) / 2
        )
    )
)


def clustered_table(bases=12, answers=3, seed=7):
    """Ratings of answers that share a base, by three judges of unequal leniency."""
    rng = np.random.default_rng(seed)
    shared = np.repeat(rng.normal(0, 0.8, bases), answers)[:, None]
    own = rng.normal(0, 0.4, (bases * answers, 1))
    scores = 3 + shared + own + np.array([0, 0.5, -0.3]) + rng.normal(0, 0.5, (bases * answers, 3))
    return long(scores, answers)


def values(result):
    return {name: one.estimate for name, one in by_name(result.icc).items()}


def by_name(families):
    return {one.name: one for one in families["score"]}


def every(result):
    families = [*result.icc.values(), *result.icc_these_judges.values(), *result.pearson.values()]
    over = [result.alpha_over_dimensions] if result.alpha_over_dimensions else []
    return [*chain(*families), *result.alpha_over_judges.values(), *over]


def assert_never_made_up(result):
    """No number is NaN or infinite, and whatever is absent says why."""
    leniency = chain(*(judges.values() for judges in result.leniency.values()))
    for one in (*every(result), *result.krippendorff.values(), *leniency):
        if one.estimate is None:
            assert one.low is one.high is None, one
            assert one.remarks.startswith("not estimable: "), one
        elif one.low is None:
            assert math.isfinite(one.estimate), one
            assert one.high is None, one
            assert "no interval: " in one.remarks, one
        else:
            assert -math.inf < one.low <= one.estimate <= one.high < math.inf, one
    check_shown(*every(result))


def test_the_shrout_and_fleiss_table_gives_the_published_coefficients():
    result = reliability(long(GOLDEN["ratings"]))
    assert [one.name for one in result.icc["score"]] == list(FORMS)
    for one in result.icc["score"]:
        assert one.estimate == pytest.approx(GOLDEN["icc"][one.name], abs=1e-6)
        assert ends(one) == pytest.approx(GOLDEN["ci95"][one.name], abs=1e-3)
        assert one.n == {"answers": 6, "judges": 4}
    alpha = result.alpha_over_judges["score"]
    assert alpha.estimate == pytest.approx(GOLDEN["cronbach_alpha_over_judges"], abs=1e-6)
    assert ends(alpha) == pytest.approx(GOLDEN["ci95"]["ICC(C,k)"], abs=1e-3)
    assert "no base is known: all intervals take the answers as independent" in result.notes
    assert pg.options["round.column.CI95"] is not None, "the option of pingouin is put back"
    assert_never_made_up(result)


def two_way(table):
    """Return the mean squares of a two-way table by their textbook formulas, an oracle of our sums over answers."""
    n, k = table.shape
    rows, columns = table.mean(axis=1, keepdims=True), table.mean(axis=0)
    rest = table - rows - columns + table.mean()
    return SimpleNamespace(
        between=k * rows.var(ddof=1),
        within=((table - rows) ** 2).sum() / (n * (k - 1)),
        judges=n * columns.var(ddof=1),
        error=(rest**2).sum() / ((n - 1) * (k - 1)),
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(tables)
@settings(max_examples=20)
def test_estimates_are_those_of_pingouin_and_are_never_made_up(table):
    result = reliability(long(table))
    assert_never_made_up(result)
    squares = two_way(table)
    if table.size < 5 or np.ptp(table, axis=0).max() == 0 or min(squares.between, squares.error) < 1e-12:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the oracle's own, where it divides by zero
        oracle = pg.intraclass_corr(long(table), targets="target", raters="judge", ratings="score")
    oracle = oracle.set_index("Type")
    for one in result.icc["score"]:
        if one.estimate is not None:
            assert one.estimate == pytest.approx(oracle.at[one.name, "ICC"], abs=1e-8)
        if one.low is not None:
            assert ends(one) == pytest.approx(tuple(oracle.at[one.name, "CI95"]), abs=0.0051, rel=1e-3)
    alpha = result.alpha_over_judges["score"]
    assert alpha.estimate == pytest.approx(pg.cronbach_alpha(pd.DataFrame(table))[0], abs=1e-8)


@given(tables, st.randoms(use_true_random=False))
@settings(max_examples=10)
def test_the_order_of_rows_and_the_names_of_judges_change_nothing(table, random):
    ratings = long(table)
    order = random.sample(range(len(ratings)), len(ratings))
    names = {f"j{j}": f"judge {9 - j}" for j in range(4)}
    renamed = ratings.assign(judge=ratings["judge"].map(names)).iloc[order]
    first, second = values(reliability(ratings)), values(reliability(renamed))
    for name, value in first.items():
        assert second[name] == (None if value is None else pytest.approx(value, abs=1e-9))


@pytest.mark.parametrize("factor", [1e-300, 1e-3, 1e6, 1e300])
def test_the_unit_of_the_scores_changes_nothing(factor):
    scaled = np.array(GOLDEN["ratings"]) * factor
    assert values(reliability(long(scaled))) == pytest.approx(GOLDEN["icc"], abs=1e-6)


NOTHING = {
    "constant": (long([[3, 3, 3]] * 5), "every score is 3"),
    "rounding": (long([[0.1 + 0.2, 0.3], [0.3, 0.3], [0.3, 0.3]]), "every score is 0.3"),
    "constant judges": (long([[1, 2, 3]] * 4), "each judge gave the same score"),
    "one judge": (long([[3], [4], [5]]), "two judges"),
    "one answer": (long([[3, 4, 5]]), "two answers"),
    "two by two": (long([[3, 4], [5, 5]]), "too few"),
    "nothing": (long([[math.nan] * 2] * 3), "two judges"),
    "infinite": (long([[1, 2, math.inf], [2, 2, 3]]), "infinite score of target t0 by judge j2"),
    "duplicates": (
        pd.concat([long([[1, 2], [2, 3], [4, 3]])] * 2),
        "6 duplicate rating(s), the first of target t0",
    ),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_supports_no_number_has_its_reason(name):
    ratings, says = NOTHING[name]
    result = reliability(ratings)
    assert all(one.estimate is None for one in every(result))
    assert says in result.icc["score"][0].remarks
    assert any(says in note for note in result.notes)
    assert_never_made_up(result)


@pytest.mark.parametrize("bases", [1, 3])
def test_what_cannot_be_said_has_its_reason_and_never_nan(bases):
    assert_never_made_up(reliability(clustered_table(bases)))


def test_agreement_consistency_and_their_opposite_at_the_ends_of_the_scale():
    """All agree; they differ by a constant; answers of one mean; a correlation below zero; a much milder judge."""
    exact, shifted = (
        reliability(long(np.add.outer([1.0, 2.0, 4.0], plus))) for plus in ([0, 0, 0], [0, 1, 0.5])
    )
    assert {*values(exact).values()} == {1.0}
    assert all("agree exactly" in one.remarks for one in exact.icc["score"])
    assert values(shifted)["ICC(A,1)"] < values(shifted)["ICC(C,1)"] == 1.0
    flat = values(reliability(long(CASES["flat"])))
    assert flat["ICC(1,1)"] == flat["ICC(C,1)"] == -1.0
    assert flat["ICC(1,k)"] is flat["ICC(C,k)"] is None
    below = reliability(long(CASES["below"]))
    assert values(below)["ICC(1,1)"] < 0
    milder = np.array(GOLDEN["ratings"]) + np.array([20, 0, 0, 0])
    before, after = (values(reliability(long(table))) for table in (GOLDEN["ratings"], milder))
    assert after["ICC(A,1)"] < before["ICC(A,1)"]
    assert after["ICC(C,k)"] == pytest.approx(before["ICC(C,k)"], abs=1e-7)
    for result in (exact, shifted, below):
        assert_never_made_up(result)


def test_one_constant_judge_is_said_and_has_no_correlation():
    result = reliability(long(CASES["constant"]))
    assert_never_made_up(result)
    assert "judge j1 gave the same score to every answer" in result.notes
    by_pair = by_name(result.pearson)
    assert "judge j1" in by_pair["r(j0, j1)"].remarks
    assert by_pair["r(j0, j2)"].estimable


@pytest.mark.parametrize("gap", [None, float("nan"), "absent row"])
def test_a_missing_rating_leaves_its_answer_out_and_says_whose_it_is(gap):
    ratings = long(GOLDEN["ratings"]).astype({"score": object})
    hole = (ratings["target"] == "t2") & (ratings["judge"] == "j1")
    if gap == "absent row":
        ratings = ratings[~hole]
    else:
        ratings.loc[hole, "score"] = gap
    result = reliability(ratings)
    complete = [row for i, row in enumerate(GOLDEN["ratings"]) if i != 2]
    assert values(result) == values(reliability(long(complete)))
    assert result.icc["score"][0].missing == 1
    assert result.icc["score"][0].n == {"answers": 5, "judges": 4}
    assert "1 of 6 answers left out for a missing score (j1 1 missing)" in result.notes
    pairs = by_name(result.pearson)
    assert (pairs["r(j0, j1)"].n["answers"], pairs["r(j0, j1)"].missing) == (5, 1)
    assert (pairs["r(j0, j2)"].n["answers"], pairs["r(j0, j2)"].missing) == (6, 0)


def test_a_judge_without_any_score_is_left_out_by_name():
    table = np.array(GOLDEN["ratings"], dtype=float)
    table[:, 3] = np.nan
    result = reliability(long(table))
    assert "judge j3 gave no score and was left out" in result.notes
    assert result.icc["score"][0].n["judges"] == 3
    assert values(result) == values(reliability(long(table[:, :3])))


def test_pearson_is_that_of_scipy_with_the_interval_of_fisher():
    table = np.array(GOLDEN["ratings"], dtype=float)
    found = by_name(reliability(long(table)).pearson)["r(j0, j3)"]
    oracle = stats.pearsonr(table[:, 0], table[:, 3])
    assert found.estimate == pytest.approx(oracle.statistic)
    assert ends(found) == pytest.approx(tuple(oracle.confidence_interval(0.95)))


def test_each_dimension_is_analysed_apart_in_the_order_of_the_rubric():
    rng = np.random.default_rng(1)
    names = ("wit", "composite_strict", *reversed(DIMENSIONS[:3]))
    parts = {name: long(rng.integers(0, 6, (8, 3)).astype(float), dimension=name) for name in names}
    result = reliability(pd.concat(parts.values()))
    assert list(result.icc) == [*DIMENSIONS[:3], "composite_strict", "wit"]
    over = result.alpha_over_dimensions
    assert over.n == {"answers": 8, "judgements": 24, "dimensions": 4}
    items = pd.DataFrame({name: part["score"] for name, part in parts.items() if name != "composite_strict"})
    assert over.estimate == pytest.approx(pg.cronbach_alpha(items)[0])
    assert over.low < over.estimate < over.high
    assert_never_made_up(result)
    parts["wit"].loc[4, "score"] = np.nan
    gap = reliability(pd.concat(parts.values())).alpha_over_dimensions
    assert gap.n["judgements"] == 23
    assert "1 of 24 judgements lack some dimension" in gap.remarks
    assert reliability(parts["wit"]).alpha_over_dimensions is None


def test_answers_that_share_a_base_get_intervals_clustered_by_base():
    result = reliability(clustered_table())
    methods = {name: one.method for name, one in by_name(result.icc).items()}
    assert methods == {name: NEW_JUDGES if "A" in name else CLUSTERED_METHOD for name in FORMS}
    assert {one.method for one in result.icc_these_judges["score"]} == {CLUSTERED_METHOD}
    assert result.icc["score"][0].n == {"bases": 12, "answers": 36, "judges": 3}
    assert "share a base" in str(result.notes)
    clustered, independent = (
        by_name(f.icc) for f in (result, reliability(clustered_table().drop(columns="base")))
    )
    assert {one.method for one in independent.values()} == {F_METHOD}
    estimates = [[f[name].estimate for name in FORMS] for f in (clustered, independent)]
    assert estimates[0] == pytest.approx(estimates[1], abs=1e-12)
    assert clustered["ICC(C,1)"].low < independent["ICC(C,1)"].low
    assert_never_made_up(result)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_clustered_interval_is_the_jackknife_that_leaves_out_one_base_at_a_time():
    """The oracle asks pingouin for ICC(A,1) without each base."""
    ratings = clustered_table(bases=6)

    def log_f(rows):
        table = pg.intraclass_corr(rows, targets="target", raters="judge", ratings="score").set_index("Type")
        icc = table.at["ICC(A,1)", "ICC"]
        return np.log((1 + 2 * icc) / (1 - icc))

    z = np.array([log_f(ratings[ratings["base"] != base]) for base in ratings["base"].unique()])
    error, degrees = jackknife(z)
    half = stats.t.ppf(0.975, degrees) * error
    f = np.exp(6 * log_f(ratings) - 5 * z.mean() + np.array([-half, half]))
    single, mean = reliability(ratings).icc_these_judges["score"]
    assert ends(single) == pytest.approx(tuple((f - 1) / (f + 2)))
    assert ends(mean) == pytest.approx(tuple(1 - 1 / f))


@pytest.mark.parametrize(
    ("bases", "answers", "methods"),
    [
        (2, 3, {CLUSTERED_METHOD, NEW_JUDGES}),
        (12, 1, {CLUSTERED_METHOD, NEW_JUDGES}),
        (3, 1, {F_METHOD}),
    ],
)
def test_one_answer_a_base_has_the_jackknife_too_and_few_bases_no_interval(bases, answers, methods):
    result = reliability(clustered_table(bases=bases, answers=answers))
    assert {one.method for one in result.icc["score"]} == methods
    assert (result.icc["score"][0].low is None) is (bases == 2)
    assert ("each base has one answer" in str(result.notes)) is (bases == 12)
    assert_never_made_up(result)


def test_the_interval_for_other_judges_is_the_mixture_that_its_formula_says():
    """The oracle draws chi squared and t at random and takes mean squares without each base, one table at a time."""
    sizes, k = [2, 4, 1, 3, 3, 2, 5, 4], 3
    owner, n, g = np.repeat(range(8), sizes), sum(sizes), len(sizes)
    rng = np.random.default_rng(5)
    level = rng.normal(0, 0.5, g)[owner] + rng.normal(0, 0.35, n)
    x = np.rint(2 * (3 + level[:, None] + rng.normal(0, 0.4, k) + rng.normal(0, 0.4, (n, k)))) / 2
    ratings = long(x, base=np.repeat(owner, k))
    rng = np.random.default_rng(1)
    effects = x.mean(axis=0)
    residuals = x - x.mean(axis=1, keepdims=True) - effects + x.mean()
    noise = (
        g / (g - 1) * sum((residuals[owner == b].sum(axis=0) ** 2).sum() for b in range(g)) / n**2 / (k - 1)
    )
    possible = np.maximum(effects.var(ddof=1) * (k - 1) / rng.chisquare(k - 1, 200_000) - noise, 0)

    def log_f(rows):
        ms = two_way(rows)
        answers = (ms.between - ms.error) / k
        return np.log((k * answers + ms.error + possible) / (ms.error + possible))

    z = np.array([log_f(x[owner != b]) for b in range(g)])
    error, degrees = jackknife(z)
    drawn = g * log_f(x) - (g - 1) * z.mean(axis=0) + error * rng.standard_t(degrees)
    f = np.exp(np.quantile(drawn, [0.025, 0.975]))
    single, mean = (one for one in reliability(ratings).icc["score"] if "A" in one.name)
    assert ends(single) == pytest.approx(tuple((f - 1) / (f + k - 1)), abs=0.005)
    assert ends(mean) == pytest.approx(tuple(1 - 1 / f), abs=0.005)


def test_these_judges_stand_second_and_are_called_so():
    """In frame, sentence and notes."""
    ratings = clustered_table()
    result = reliability(ratings)
    frame = result.frame()
    assert frame["n"][0] == "12 bases, 36 answers, 3 judges"
    assert frame["name"][:8].tolist() == [*ROW_ORDER, *(f"{form}{THESE_JUDGES}" for form in ROW_ORDER[:2])]
    first, second = (frame[frame["name"] == f"ICC(A,1){end}"].iloc[0] for end in ("", THESE_JUDGES))
    assert first["estimate"] == second["estimate"]
    assert first["high"] - first["low"] > second["high"] - second["low"]
    assert result.icc_these_judges["score"][0].sentence().startswith("ICC(A,1), these judges = ")
    assert "that of ICC(A,.) holds for judges drawn anew" in " ".join(result.notes)


def test_a_target_with_two_bases_leaves_bases_out_of_account():
    ratings = clustered_table()
    ratings.loc[0, "base"] = "elsewhere"
    result = reliability(ratings)
    assert "more than one" in str(result.notes)
    assert {one.method for one in result.icc["score"]} == {F_METHOD}


def test_memory_grows_with_the_answers_and_not_with_their_square():
    """25,000 answers by 4 judges once took more than 23 GB: a table of answers x answers is 32 MB at 2,000."""
    rng = np.random.default_rng(2)
    answers = 2000
    scores = np.clip(np.rint(rng.normal(3, 1, (answers, 1)) * 2 + rng.normal(0, 1, (answers, 4))) / 2, 0, 5)
    targets, judges = np.indices(scores.shape)
    ratings = pd.DataFrame({"target": targets.ravel(), "judge": judges.ravel(), "score": scores.ravel()})
    tracemalloc.start()
    try:
        found = reliability(ratings)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16e6
    assert found.krippendorff["score"].low is not None

"""The simulations find what is wrong, their truths are true, and the page in docs is made from the stored counts."""

import math
import warnings
from collections import Counter
from dataclasses import replace

import draw
import means
import numpy as np
import pytest
import run
from draw import Check, at

from toolkit.stats.comparisons.models import compare_models


def normal_for_five(rng, made):
    """The mean of five with the normal quantile in place of Student's: covers 87.8 %, not 95 %."""
    x = rng.normal(size=int(made["values"]))
    return {"mean": bool(abs(x.mean()) <= 1.96 * x.std(ddof=1) / math.sqrt(len(x)))}


def failing(rng, _):
    """An error in one study of ten, no interval in half, and a warning in some."""
    if rng.random() < 0.1:
        raise ZeroDivisionError("no variance")
    if rng.random() < 0.1:
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
    return {"half": None if rng.random() < 0.5 else True}


def check(simulate, name="one"):
    return Check(name, "interval", "none", at(values=5), "None.", simulate)


def test_a_known_wrong_interval_is_found_to_miss_by_as_much_as_theory_says():
    """Normal quantile for five values: coverage P(|t_4| <= 1.96) = .8784."""
    (row,) = run.verify([check(normal_for_five)], studies=4000)
    assert row.verdict == "misses"
    assert row.share == pytest.approx(0.8784, abs=4 * math.sqrt(0.8784 * 0.1216 / 4000))


def test_errors_and_warnings_fail_the_row_and_studies_without_an_interval_leave_the_share():
    """Each is counted for what it is, and the page says the first error."""
    (row,) = run.verify([check(failing)], studies=300)
    assert row.verdict == "fails"
    assert {error.split(":")[0] for error in row.errors} == {"ZeroDivisionError", "RuntimeWarning"}
    assert row.share == 1.0
    assert 80 < row.studies - row.counted - len(row.errors) < 160
    assert "**fails**: " in run.page([row], 300, 1)


@pytest.mark.parametrize(
    ("kind", "hits", "verdict"),
    [
        *(("interval", 935, "holds"), ("interval", 934, "misses"), ("interval", 966, "conservative")),
        *(("test", 35, "holds"), ("test", 66, "misses"), ("test", 34, "conservative")),
        *(("power", 770, "holds"), ("power", 769, "misses"), ("power", 831, "conservative")),
    ],
)
def test_verdicts_have_the_bounds_that_are_printed(kind, hits, verdict):
    """93.5-96.5 %, 3.5-6.5 % and 77-83 %, ends included."""
    one = Check("c", kind, "f", at(n=1), "", failing)
    assert run.Tally(one, one.settings[0], "q", 1000, 1000, hits).verdict == verdict


@pytest.mark.parametrize("processes", [1, 2])
def test_numbers_depend_on_the_seed_and_on_nothing_else(processes):
    """Two processes or other checks beside it change nothing; another seed does."""
    one, two = check(normal_for_five), check(failing, "two")
    alone = run.verify([one], studies=130, seed=3)[0].hits
    assert run.verify([two, one], studies=130, seed=3, processes=processes)[-1].hits == alone
    assert run.verify([one], studies=130, seed=4)[0].hits != alone


@pytest.mark.parametrize("mean", [3.0, 4.5])
def test_the_truths_of_these_judges_are_what_a_huge_study_gives(mean):
    """Mean, variance and every coefficient over 60,000 answers by their definitions, against quadrature."""
    model, leniency = draw.Model(mean=mean), draw.LENIENCY[:3]
    drawn = draw.draw_ratings(np.random.default_rng(5), model, bases=60_000, leniency=np.array(leniency))
    x = drawn["score"].to_numpy().reshape(-1, 3)
    c, means = np.cov(x.T), x.mean(axis=0)
    own, shared, between = np.trace(c) / 3, (c.sum() - np.trace(c)) / 6, means.var(ddof=1)
    apart = [((x[:, i] - x[:, j]) ** 2).mean() for i, j in ((0, 1), (0, 2), (1, 2))]
    by_chance = x[:, 0].var() + x[:, 1].var() + (means[0] - means[1]) ** 2
    found = {
        "ICC(C,1)": shared / own,
        "ICC(C,k)": 3 * shared / (own + 2 * shared),
        "ICC(A,1)": shared / (own + between),
        "ICC(A,k)": 3 * shared / (own + 2 * shared + between),
        "Krippendorff's alpha": 1 - np.mean(apart) / (2 * x.var()),
        "weighted kappa": 1 - apart[0] / by_chance,
    }
    truth = draw.icc_of_these_judges(model, leniency) | draw.coefficients_of_these_judges(model, leniency)
    assert found == {name: pytest.approx(truth[name], abs=0.012) for name in found}
    assert np.corrcoef(x.T)[0, 1] == pytest.approx(draw.correlation_of(model, *leniency[:2]), abs=0.012)
    whole = math.hypot(model.base, model.answer, model.residual)
    assert float(draw.mean_of(mean + leniency[0], whole)) == pytest.approx(means[0], abs=0.012)
    assert draw.variance_of(mean + leniency[0], whole) == pytest.approx(c[0, 0], abs=0.012)


def test_the_truth_of_drawn_judges_is_what_a_huge_study_gives():
    """2,000 answers by 300 judges, with a ceiling: components by mean squares, against quadrature."""
    model = draw.Model(mean=4.5)
    rng = np.random.default_rng(6)
    drawn = draw.draw_ratings(rng, model, bases=2000, leniency=rng.normal(0, model.judge, 300))
    x = drawn["score"].to_numpy().reshape(-1, 300)
    rest = (x - x.mean(axis=1)[:, None] - x.mean(axis=0) + x.mean()).var(ddof=1)
    answers, judges = x.mean(axis=1).var(ddof=1), x.mean(axis=0).var(ddof=1)
    truth = draw.icc_of_drawn_judges(model, 3)
    assert answers / (answers + judges + rest) == pytest.approx(truth["ICC(A,1)"], abs=0.025)
    assert answers / (answers + rest) == pytest.approx(truth["ICC(C,1)"], abs=0.025)


def test_the_stored_counts_have_every_check_and_the_page_in_docs_is_made_from_them():
    """A check without counts, or a page that says something else, would hide a result."""
    rows = run.stored()
    assert {(row.check.name, row.setting.label) for row in rows} == {
        (check.name, setting.label) for check in run.CHECKS for setting in check.settings
    }
    assert "fails" not in {row.verdict for row in rows}
    assert run.PAGE.read_text(encoding="utf-8") == run.summary(rows, run.STUDIES, run.SEED)
    full = run.page(rows, run.STUDIES, run.SEED)
    assert all(check.functions in full and check.note in full for check in run.CHECKS)


@pytest.mark.parametrize(
    ("one", "studies"),
    [
        *(pytest.param(one, 4, id=f"{one.name}-some") for one in run.CHECKS[::3]),
        *(pytest.param(one, 20, id=f"{one.name}-all", marks=pytest.mark.full) for one in run.CHECKS),
    ],
)
def test_the_stored_counts_are_true_to_a_fresh_run(one, studies):
    """The first setting of each check: the same quantities, and shares within five standard errors."""
    fresh = run.verify([replace(one, settings=one.settings[:1])], studies)
    first = (one.name, one.settings[0].label)
    stored = {row.quantity: row.share for row in run.stored() if (row.check.name, row.setting.label) == first}
    assert {row.quantity for row in fresh} == set(stored)
    for row in fresh:
        share = stored[row.quantity]
        assert not row.errors
        assert abs(row.share - share) <= 5 * math.sqrt(max(share * (1 - share), 0.01) / row.counted), (
            row.row()
        )


def test_without_clusters_the_studies_with_shared_texts_find_what_is_not_there():
    """What the clusters are for: taken as 100 bases, intervals miss the truth in a quarter of the studies."""
    rng, held = np.random.default_rng(5), Counter[bool]()
    for _ in range(16):
        runs = means.draw_copies(rng, draw.Model(), (0.0, 0.0, 0.0)).query("level == 'S'")
        for clustered in (True, False):
            found = compare_models(runs if clustered else runs.drop(columns="cluster")).models[0][1]
            held[clustered] += found.low <= 3.0 <= found.high
    assert held[True] >= 15
    assert held[False] <= 12

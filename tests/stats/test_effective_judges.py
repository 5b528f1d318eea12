"""How many independent judges some judges are worth, beside a second calculation from the matrix of covariances."""

import numpy as np
import pandas as pd
import pytest
from logit_jackknife import jackknife
from scipy import stats
from score_tables import check_shown, long, numbers

from toolkit.stats.agreement.reliability import effective_judges, reliability
from toolkit.stats.human.calibration import calibrate, judges_and_people

_DRAWN = np.random.default_rng(11).normal(size=(400, 5))
NOISE = 20 * np.linalg.qr(_DRAWN - _DRAWN.mean(axis=0))[0]
"""Five errors of variance 1 that are uncorrelated to the last digit."""
BASES = np.repeat(range(100), 4)


def oracle(errors, *, from_people):
    """Return the number by its definition: Kish's of the covariances, or one more than that of their eigenvalues."""
    covariance = np.cov(errors, rowvar=False, ddof=0)
    judges = len(covariance)
    if from_people:
        return covariance.diagonal().mean() / np.full(judges, 1 / judges).dot(covariance).mean()
    eigenvalues = np.linalg.eigvalsh(covariance)
    return 1 + eigenvalues.sum() ** 2 / (eigenvalues**2).sum()


def around(scores):
    """Return the differences of judges from their mean."""
    return scores - scores.mean(axis=1, keepdims=True)


def from_people(errors, bases=BASES):
    return effective_judges(np.asarray(errors), bases[: len(errors)], from_people=True)


def from_each_other(scores, bases=BASES):
    return effective_judges(around(np.asarray(scores)), bases[: len(scores)], from_people=False)


SHARED = NOISE[:, :1] + 0.7 * NOISE[:, 1:4]


@pytest.mark.parametrize(("errors", "value"), [
    (NOISE[:, :3], 3), (NOISE, 5), (NOISE[:, [0, 0, 0]], 1), (NOISE[:, [0, 0]], 1), (NOISE[:, [0, 0, 1]], 9 / 5),
    (SHARED, 1 / (1 / 3 + 2 / 3 / 1.49)), (NOISE[:, [0, 0]] * [1, 3], 1.25),
    (np.c_[NOISE[:, 0], NOISE[:, 1] - 0.5 * NOISE[:, 0]], 2 * 2.25 / 1.25),
])  # fmt: skip
def test_against_people_it_is_that_of_the_covariances(errors, value):
    """Independent, identical, a pair of twins, a part in common, one louder, and errors that offset each other."""
    found = from_people(errors)
    assert found.estimate == pytest.approx(oracle(errors, from_people=True))
    assert found.estimate == pytest.approx(value)
    assert found.name == "effective number of judges, against people"
    assert (found.unit, found.n) == ("judges", {"bases": 100, "answers": 400, "judges": errors.shape[1]})
    check_shown(found)


@pytest.mark.parametrize(("scores", "value"), [
    (NOISE[:, :3], 3), (NOISE, 5), (NOISE[:, [0, 0, 1]], 2), (NOISE[:, [0, 0, 1, 1]], 2), (3 * SHARED + [0, 1, 9], 3),
])  # fmt: skip
def test_against_each_other_it_is_that_of_the_eigenvalues(scores, value):
    """Of three of whom two say the same there are two; what all have in common, or a severity, is not seen."""
    found = from_each_other(scores)
    assert found.estimate == pytest.approx(oracle(around(scores), from_people=False))
    assert found.estimate == pytest.approx(value)
    assert found.name == "effective number of judges, against each other"
    assert 1 <= found.estimate <= scores.shape[1] + 1e-9


@pytest.mark.parametrize("from_people", [True, False])
def test_its_interval_is_the_jackknife_that_leaves_out_one_base_at_a_time(from_people):
    """The oracle calculates the matrix without each base anew."""
    scores, bases = SHARED[:60] + NOISE[:60, 4:], BASES[:60]
    errors = scores if from_people else around(scores)
    without = [np.log(oracle(errors[bases != base], from_people=from_people)) for base in range(15)]
    error, degrees = jackknife(np.array(without))
    whole = np.log(oracle(errors, from_people=from_people))
    ends = 15 * whole - 14 * np.mean(without) + np.array([-1, 1]) * stats.t.ppf(0.975, degrees) * error
    ends = min(ends[0], whole), max(ends[1], whole)  # the interval holds the number
    if not from_people:
        assert ends[1] > np.log(3)  # and none that three judges cannot have
        ends = ends[0], np.log(3)
    found = effective_judges(errors, bases, from_people=from_people)
    assert (found.low, found.high, found.degrees) == pytest.approx((*np.exp(ends), degrees))


EQUAL = np.repeat(np.random.default_rng(3).integers(0, 36, (30, 1)) / 7, 3, axis=1)


@pytest.mark.parametrize(("found", "reason"), [
    (from_people(NOISE[:, :1]), "one judge is one"),
    (from_each_other(NOISE[:, :2]), "two judges differ from each other only"),
    (from_people(NOISE[:1, :3]), "1 answer, and two are needed"),
    (from_people(np.c_[NOISE[:, 0], -NOISE[:, 0]]), "cancel each other"),
    (from_each_other(EQUAL + np.array([0, 0.5, -0.3])), "the errors do not vary"),
])  # fmt: skip
def test_what_supports_no_number_has_its_reason(found, reason):
    """What rounding leaves of equal scores is no error."""
    assert found.estimate is None
    assert reason in found.remarks
    check_shown(found)


def test_reliability_has_it_against_each_other_over_complete_answers():
    """One answer that a judge did not score is left out and counted."""
    scores = SHARED[:36].copy()
    scores[5, 1] = np.nan
    result = reliability(long(scores, answers=3))
    (found,), rest = result.effective["score"], np.delete(scores, 5, axis=0)
    assert found.estimate == pytest.approx(oracle(around(rest), from_people=False))
    assert (found.missing, found.n) == (1, {"bases": 12, "answers": 35, "judges": 3})
    assert [row for _, row in result.rows()].count(found) == 1
    # Two judges who differ only from each other are no news, and no line of a dry run.
    assert reliability(long(scores[:, :2], answers=3)).effective["score"] == ()


def rated(errors, truth, judges="abc"):
    """Return runs, judgements and ratings of people; four replies of each base."""
    runs = pd.DataFrame({"base": BASES[: len(truth)].astype(str), "level": "S", "model": "m"})
    runs["run_id"] = [f"r{number}" for number in range(len(runs))]
    scores = {judge: truth + errors[:, place] for place, judge in enumerate(judges)}
    judgements = pd.concat(
        [runs.assign(judge=judge, composite_strict=score) for judge, score in scores.items()]
    )
    human = runs.assign(rater="anna", composite_strict=truth)
    return runs.assign(composite_strict=np.mean([*scores.values()], axis=0)), judgements, human


def test_calibration_has_it_against_people_over_the_rated_replies():
    """Several people count with their mean; the ensemble is no further judge; a reply that one did not score is out."""
    truth, errors = 2.5 + 0.5 * NOISE[:40, 4], 0.2 * SHARED[:40]
    runs, judgements, human = rated(errors, truth)
    shift = np.where(np.arange(24) % 2, 0.5, -0.5)
    human = pd.concat([human.iloc[:24].assign(rater=r, composite_strict=truth[:24] + s * shift)
                       for r, s in (("anna", 1), ("ben", -1))])  # fmt: skip
    judgements = judgements[~((judgements["run_id"] == "r3") & (judgements["judge"] == "b"))]
    found = calibrate(runs, judgements, human).agreement[-1]
    rest = np.delete(errors[:24], 3, axis=0)
    assert found.estimate == pytest.approx(oracle(rest, from_people=True))
    assert (found.statistic, found.facets) == (found.name, {"pair": "all judges and people"})
    assert (found.missing, found.n) == (1, {"bases": 6, "answers": 23, "judges": 3})


def icc_agreement(first, second):
    """Return ICC(A,1) of two raters by the mean squares of McGraw and Wong."""
    table = np.c_[first, second]
    answers, judges, all_ = table.mean(axis=1), table.mean(axis=0), table.mean()
    n = len(table)
    between = 2 * ((answers - all_) ** 2).sum() / (n - 1)
    severity = n * ((judges - all_) ** 2).sum()
    rest = ((table - answers[:, None] - judges + all_) ** 2).sum() / (n - 1)
    return (between - rest) / (between + rest + 2 * (severity - rest) / n)


def test_judges_and_people_is_icc_a1_of_each_judge_and_score():
    """Over rated replies; what nobody gave is left out, and so is a reply that one side did not score, never as 0."""
    truth, errors = 2.5 + 0.7 * NOISE[:40, 4], 0.3 * SHARED[:40] + [0, 0.5, 0]
    _, judgements, human = (
        table.assign(relevance=5 - table["composite_strict"], nobody=1.0) for table in rated(errors, truth)
    )
    human = human.iloc[:28].assign(nobody=np.nan)
    judgements.loc[judgements["run_id"] == "r0", "relevance"] = np.nan
    human.loc[human["run_id"] == "r7", "relevance"] = np.nan
    scores = ["composite_strict", "relevance", "nobody"]
    estimates = judges_and_people(judgements, human, scores)
    assert [tuple(one.facets.values()) for one in estimates] == [
        (judge, score) for judge in "abc" for score in scores[:2]
    ]
    for one in estimates:
        rest = np.delete(np.arange(28), [0, 7] if one.facets["dimension"] == "relevance" else [])
        error = errors[rest, "abc".index(one.facets["judge"])]
        assert one.estimate == pytest.approx(icc_agreement(truth[rest], truth[rest] + error))
        assert one.low < one.estimate < one.high
        assert one.name == "ICC(A,1) of people and {judge}, {dimension}".format(**one.facets)
        assert (one.missing, one.n["answers"]) == (28 - len(rest), len(rest))
    # For judges drawn anew the interval would be wider: here each is the one that will judge.
    table = pd.concat([judgements[judgements["judge"] == "b"].iloc[:28], human.assign(judge="people")])
    again = reliability(table.rename(columns={"run_id": "target", "composite_strict": "score"}))
    assert numbers(estimates[2]) == pytest.approx(numbers(again.icc_these_judges["score"][0]))
    assert estimates[2].low > again.icc["score"][1].low

"""The judges held against people: every part is that of its own function, on frames as a study gives them."""

import numpy as np
import pandas as pd
import pytest
from score_tables import check_shown, crossed, named, numbers

from toolkit.stats.agreement.coefficients import clustered_pearson, weighted_kappa
from toolkit.stats.human.calibration import calibrate, prediction_powered_mean

JUDGES = ("primary", "secondary", "tertiary")


def study(bases=40, raters=3, rated=90, seed=2):
    """Return runs, judgements and human ratings; the judges are half a point too mild."""
    rng = np.random.default_rng(seed)
    runs = crossed(base=named("b", bases), level="SML", model=["m1", "m2"])
    runs["run_id"] = runs["base"] + runs["level"] + runs["model"]
    quality = rng.normal(3, 0.7, len(runs))
    said = [np.clip(quality + 0.5 + 0.3 * rng.normal(size=len(runs)), 0, 5) for _ in JUDGES]
    shown = rng.choice(len(runs), rated, replace=False)
    given = [quality[shown] + 0.4 * rng.normal(size=rated) for _ in range(raters)]
    judgements = [runs.assign(judge=j, composite_strict=x) for j, x in zip(JUDGES, said, strict=True)]
    human = [
        runs.iloc[shown].assign(rater=f"r{i}", composite_strict=np.clip(np.round(x * 2) / 2, 0, 5))
        for i, x in enumerate(given)
    ]
    tables = (pd.concat(parts, ignore_index=True) for parts in (judgements, human))
    return runs.assign(composite_strict=np.mean(said, axis=0)), *tables


def test_each_part_is_that_of_its_function():
    runs, judgements, human = study()
    found = calibrate(runs, judgements, human)
    people = human.groupby("run_id")["composite_strict"].mean()
    table = runs.assign(rating=runs["run_id"].map(people))
    rated, other = table[table["rating"].notna()], table[table["rating"].isna()]
    scores, bases = ([list(side[name]) for side in (rated, other)] for name in ("composite_strict", "base"))
    oracle = prediction_powered_mean("m", rated["rating"], *scores, *bases).calibrated
    one = found.means["all"].calibrated
    assert numbers(one) == pytest.approx(numbers(oracle))
    assert one.high < found.means["all"].judges.estimate  # the mildness of the judges is put right
    assert list(found.means) == ["all", *(f"level {b}" for b in "SML"), "model m1", "model m2"]
    title = "calibrated difference of composite_strict, "
    pairs = ["level M - S", "level L - M", "level L - S", "model m1 - m2"]
    assert [one.calibrated.name for one in found.differences] == [title + pair for pair in pairs]
    for place, (first, second) in {0: "MS", 2: "LS"}.items():
        means = (found.means[f"level {side}"].calibrated.estimate for side in (first, second))
        assert found.differences[place].calibrated.estimate == pytest.approx(np.subtract(*means))
    kappa = weighted_kappa(rated["composite_strict"], rated["rating"], bases=list(rated["base"]))
    r = clustered_pearson("r", rated["composite_strict"], rated["rating"], list(rated["base"]))
    assert [x.estimate for x in found.agreement[:2]] == pytest.approx([kappa.estimate, r.estimate])
    assert [x.low for x in found.agreement[:2]] == pytest.approx([kappa.low, r.low])
    kappas = [f"weighted kappa (quadratic) of {who} and people" for who in ("ensemble", *JUDGES)]
    assert [x.name for x in found.agreement[::2]] == [*kappas, "effective number of judges, against people"]
    assert "calibrated mean of composite_strict, all" in found.sentence()
    check_shown(found)


def test_the_order_of_rows_changes_nothing():
    runs, judgements, human = study()
    one = calibrate(runs, judgements, human).frame()
    other = calibrate(*(table.sample(frac=1, random_state=5) for table in (runs, judgements, human))).frame()
    pd.testing.assert_frame_equal(one, other)


def test_unfinished_ratings_and_unjudged_runs_are_missing():
    runs, judgements, human = study(raters=1)
    rated = human["run_id"].iloc[0]
    human.loc[0, "composite_strict"] = np.nan
    unseen = ~runs["run_id"].isin(human["run_id"])
    runs.loc[unseen.to_numpy().argmax(), "composite_strict"] = np.nan
    found = calibrate(runs, judgements, human)
    one = found.means["all"].calibrated
    assert (one.missing, one.n["rated answers"], one.n["unrated answers"]) == (2, 89, len(runs) - 91)
    assert "1 ratings are unfinished and left out" in found.notes
    # The same as if that reply had not been shown and the run did not exist.
    less = calibrate(runs[runs["run_id"] != rated], judgements, human.iloc[1:])
    assert less.means["all"].calibrated.estimate == pytest.approx(one.estimate)


def test_nobody_rated_and_one_person_rated():
    runs, judgements, human = study()
    nobody = calibrate(runs, judgements, human.iloc[:0])
    assert nobody.means["all"].calibrated.estimate is None
    assert "not estimable" in nobody.sentence()
    check_shown(nobody)
    one = calibrate(runs, judgements, human[human["rater"] == "r0"])
    assert one.means["all"].calibrated.low is not None


def test_every_pair_of_models_has_a_difference_whatever_they_are_called():
    """Two pairs that read alike, "a - b - c", are two."""
    runs, judgements, human = study()
    names = {"Sm1": "a", "Sm2": "b - c", "Mm1": "a - b", "Mm2": "c"}
    tables = [table[table["level"] != "L"].copy() for table in (runs, judgements, human)]
    for table in tables:
        table["model"] = (table["level"] + table["model"]).map(names)
        table["level"] = "S"
    assert len(calibrate(*tables).differences) == 6

"""What the data do not support has its reason and no interval; what cannot be used is refused in one line."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from toolkit.errors import InputError
from toolkit.stats import (
    Design,
    Estimate,
    clopper_pearson,
    cluster_robust,
    clustered_mean,
    clustered_pearson,
    clustered_slope,
    cohen_kappa,
    compare_judges,
    fleiss_kappa,
    generalizability_study,
    holm,
    krippendorff_alpha,
    mean_interval,
    paired_effect_size,
    probe_shifts,
    rating_matrix,
    reliability,
    retest,
    share,
    study_generalizability,
    variance_components,
    weighted_kappa,
    wilson,
)

NAN, INF = math.nan, math.inf
ONE_FACET = Design(("answer", "judge"))


def long(scores, answers=1) -> pd.DataFrame:
    rows = [
        (f"t{i}", f"b{i // answers}", f"j{j}", x) for i, row in enumerate(scores) for j, x in enumerate(row)
    ]
    return pd.DataFrame(rows, columns=["target", "base", "judge", "score"])


def matrix(scores, bases=True):
    frame = long(scores) if bases else long(scores).drop(columns="base")
    return rating_matrix(frame, list(dict.fromkeys(frame["target"])), sorted(frame["judge"].unique()))


def mean(values):
    return mean_interval(values).of(Estimate("mean", None))


def means_of_one_base(values):
    return clustered_mean(values, ["b"] * len(values)).of(Estimate("mean", None))


def slope(x, y, bases):
    return clustered_slope("s", x, y, bases)


def pearson(x, y, bases):
    return clustered_pearson("r", x, y, bases)


def alpha(scores):
    return krippendorff_alpha(np.array(scores, dtype=float))


def repeats(scores):
    frame = long(scores, 3).rename(columns={"judge": "repeat"}).assign(judge="primary")
    icc, sd, detectable = retest(frame)["score", "primary"]
    assert detectable.low is None
    return icc, sd


OVER = pd.concat(
    [long([[1.0, 2], [2, 3], [4, 3]]).assign(dimension=name) for name in ("clarity", "relevance")]
)


def over_dimensions(ratings):
    return reliability(ratings).alpha_over_dimensions


def components(values):
    found = variance_components(long(values).rename(columns={"target": "answer"}), ONE_FACET)
    assert not found.problem or "not estimable" in found.sentence()
    json.dumps(found.to_dict(), allow_nan=False)
    return found.components


REASONS = [
    (mean, [2.0], "two are needed"),
    (mean, [0.1 + 0.2, 0.3], "are equal"),
    (means_of_one_base, [1.0, 2.0], "1 cluster, and two are needed"),
    (slope, [], [], "", "not estimable: 0 answers"),
    (slope, [1.0, 2.0], [1.0, 2.0], "ab", "not estimable: 2 answers"),
    (slope, [0.1 + 0.2, 0.3, 0.3], [1.0, 2.0, 3.0], "abc", "does not vary"),
    (slope, [1.0, 2.0, 4.0], [1.0, 3.0, 2.0], "aaa", "no interval: 1 base"),
    (slope, [1.0, 2.0, 3.0], [2.0, 4.0, 6.0], "abc", "fitted line"),
    (pearson, [], [], "", "not estimable: 0 answers"),
    (pearson, [1.0, 2.0, 3.0], [4.0, 4.0, 4.0], "abc", "does not vary"),
    (pearson, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], "abcd", "straight line"),
    (pearson, [1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0], "aabb", "2 bases"),
    (pearson, [1.0, 1.0, 1.0, 1.0, 9.0], [1.0, 2.0, 1.0, 2.0, 9.0], "abcde", "one base alone"),
    (weighted_kappa, [1, 1, 1], [1, 2, 3], "the first gave one score"),
    (weighted_kappa, [1, 2, 3], [2, 2, 2 + 1e-15], "the second gave one score"),
    (weighted_kappa, [NAN, 2], [1, NAN], "0 answers"),
    (weighted_kappa, [1, 2, 3], [1, 2, 3], "agree on all"),
    (weighted_kappa, [1, 2, 3], [1, 3, 3], "abc", "no interval: 3 bases"),
    (cohen_kappa, [], [], "not estimable: the first gave one category at most"),
    (cohen_kappa, [1, 0, 1], [0, 0, 0], "not estimable: the second gave one category at most"),
    (cohen_kappa, [None, None], [1, 0], "not estimable: the first gave one category at most"),
    (cohen_kappa, [1, 0, 1], [1, 0, 1], "no interval: they agree on all items"),
    (cohen_kappa, [1, 0], [0, 1], "no interval"),
    (fleiss_kappa, [], "not estimable: no item has two votes"),
    (fleiss_kappa, [[None, None], [1, None]], "not estimable: no item has two votes"),
    (fleiss_kappa, [[1, 1], [1, 1]], "not estimable: every vote is the same"),
    (fleiss_kappa, [[1, 1], [0, 0]], "no interval: they agree on all items"),
    (fleiss_kappa, [[1, 0, 1]], "no interval"),
    (alpha, [[1, 1 + 1e-14], [1, 1], [1, 1]], "every score is the same"),
    (alpha, [[1, None], [None, 2]], "no answer has two"),
    (alpha, np.empty((0, 3)), "no answer has two"),
    (alpha, [[1, 1], [2, 2], [3, 3], [5, 5]], "judges agree on all"),
    (alpha, [[1, 2], [2, 2], [3, 2]], "no interval: 3 bases"),
    (over_dimensions, pd.concat([OVER, OVER.iloc[[0]]]), "duplicate"),
    (over_dimensions, OVER.assign(score=2.0), "not estimable: every score is the same"),
    (over_dimensions, OVER.assign(score=[INF, *OVER["score"][1:]]), "infinite"),
    (over_dimensions, OVER.query("target == 't0' and judge == 'j0'"), "two are needed"),
    (repeats, [[1.0, 1], [2, 2], [3, 3], [4, 4]], "repeated itself exactly"),
    (repeats, np.full((6, 2), 3.0), "every score is the same|repeated itself exactly"),
    (repeats, [[1.0, NAN], [2, NAN]], "two are needed"),
    (repeats, [[1.0, 2], [2, 3], [4, 4]], "no interval: 1 base,"),
    (components, np.full((4, 3), 3.0), "not estimable: every score is 3"),
    (components, np.full((4, 3), NAN), "not estimable: there is no score"),
    (components, [[1.0, 2, 3]], "not estimable: .*two of them"),
    (components, [[1.0], [2], [3]], "not estimable: .*one score per answer"),
    (components, [[1.0, INF], [2, 3]], "not estimable: .*infinite"),
    (components, np.array([[1.0, 2], [2, 3], [1, 4]]) * 1e-200, "not estimable: .*another unit"),
    (components, [[1.0, NAN], [2, NAN], [NAN, 3], [NAN, 5]], "not estimable: no reply was scored by all"),
    (components, [[1.0, 2], [2, 3], [4, 5]], "no interval: the residual mean square is 0"),
    (share, "s", [], [], "not estimable: there is no case"),
]


@pytest.mark.parametrize("case", REASONS, ids=lambda case: f"{case[0].__name__}: {case[-1]}")
def test_what_the_data_do_not_support_says_why(case):
    function, *arguments, says = case
    found = function(*arguments)
    for one in (found,) if isinstance(found, Estimate) else found:
        assert one.low is one.high is one.p_value is None
        assert re.search(says, one.remarks), one.remarks
        assert (one.estimate is None) is one.remarks.startswith("not estimable: ")
        assert one.estimate is None or math.isfinite(one.estimate)


RATINGS = long([[1.0, 2], [2, 3], [3, 3]])
TWICE = long(np.ones((3, 2))).rename(columns={"judge": "repeat"}).assign(judge="primary")
SCORES = long(np.random.default_rng(17).normal(size=(4, 3))).rename(columns={"target": "answer"})
PLAIN = variance_components(SCORES, ONE_FACET)
PAIRS = pd.DataFrame(
    {"judge": "j", "kind": "louder", "base": ["b"], "original": 3.0, "altered": 4.0, "made": True}
)
REFUSED = {
    "no reason of a probe": ("lack the column reason", lambda: probe_shifts(PAIRS)),
    "no cost of a judgement": (
        "judgements: lack the column",
        lambda: compare_judges(PAIRS, PAIRS, leniency={}),
    ),
    "clusters": ("cluster for each value", lambda: clustered_mean([1.0, 2.0], ["a"])),
    "no values": ("mean", lambda: mean_interval([])),
    "infinite values": ("mean", lambda: mean_interval([INF, 1.0])),
    "slope of two lengths": ("give as many", lambda: slope([1.0, 2.0], [1.0], "ab")),
    "slope with a gap": ("missing or infinite", lambda: slope([1.0, 2.0, NAN], [1.0, 2.0, 3.0], "abc")),
    "pearson of two lengths": ("give as many", lambda: pearson([1.0, 2.0], [1.0], "ab")),
    "pearson with a gap": ("missing or infinite", lambda: pearson([1.0, NAN], [1.0, 2.0], "ab")),
    "regression": ("give as many", lambda: cluster_robust(np.ones((3, 1)), [1.0, 2.0], "abc", {"b": [1]})),
    "kappa of two lengths": ("two scores for each", lambda: weighted_kappa([1, 2], [1])),
    "infinite kappa": ("infinite", lambda: weighted_kappa([1, INF], [1, 2])),
    "categories": ("3 and 2 categories", lambda: cohen_kappa([1, 0, 1], [1, 0])),
    "infinite alpha": ("Krippendorff's alpha", lambda: krippendorff_alpha(np.array([[1, INF]]))),
    "alpha without bases": ("Krippendorff's alpha", lambda: krippendorff_alpha(np.array([[1, 2]]), [1, 2])),
    "more hits than cases": ("is no share", lambda: wilson(6, 5)),
    "no case": ("is no share", lambda: wilson(1, 0)),
    "half a hit": ("whole numbers", lambda: clopper_pearson(1.5, 4)),
    "clusters of a share": ("2 cases and 1 clusters", lambda: share("s", [True, False], ["a"])),
    "one difference": ("effect size", lambda: paired_effect_size([1.0])),
    "equal differences": ("effect size", lambda: paired_effect_size([0.5, 0.5])),
    "a difference that is missing": ("effect size", lambda: paired_effect_size([1.0, NAN])),
    "p above 1": ("p value", lambda: holm([0.5, 1.1])),
    "p below 0": ("p value", lambda: holm([0.5, -0.1])),
    "no judge": ("lack the column judge", lambda: reliability(RATINGS.drop(columns="judge"))),
    "no ratings": ("there are none", lambda: reliability(RATINGS.iloc[:0])),
    "empty judge": ("row 1: the judge is empty", lambda: reliability(RATINGS.assign(judge=None))),
    "a word for a score": ("row 1: score 'high'", lambda: reliability(RATINGS.assign(score="high"))),
    "repeats twice": ("6 duplicate rating", lambda: retest(pd.concat([TWICE, TWICE]))),
    "no repeat": ("lack the column repeat", lambda: retest(TWICE.drop(columns="repeat"))),
    "infinite repeat": ("inf is not a finite number", lambda: retest(TWICE.assign(score=INF))),
    "doubled cells": (
        "12 rows of a cell that has one",
        lambda: variance_components(pd.concat([SCORES, SCORES]), ONE_FACET),
    ),
    "no scores": ("there are none", lambda: variance_components(SCORES.iloc[:0], ONE_FACET)),
    "factor twice": ("design", lambda: Design(("a", "a"))),
    "nested in nothing": ("design", lambda: Design(("a", "b"), {"b": ("c",)})),
    "the first one nested": ("design", lambda: Design(("a", "b"), {"a": ("b",)})),
    "no factor": ("design", lambda: Design(())),
    "unknown object": ("not in the design", lambda: generalizability_study(PLAIN, "model")),
    "fixed object": ("fixed as well", lambda: generalizability_study(PLAIN, "answer", fixed=("answer",))),
    "generalizability of a prompt": ("not known", lambda: study_generalizability(SCORES, of="prompt")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_used_is_refused_in_one_line(what):
    words, call = REFUSED[what]
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)

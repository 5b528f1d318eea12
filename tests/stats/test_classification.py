"""Rates of yes/no decisions, AUC, McNemar and baselines: against other programs and at the edges."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_tables import ends
from sklearn import metrics
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of_statsmodels
from statsmodels.stats.proportion import proportion_confint

from toolkit.stats.detection.rates import (
    RATES,
    STRICT,
    Confusion,
    auc,
    baselines,
    classify,
    compare_deciders,
    decider,
    deciders_frame,
    length_decisions,
    mcnemar,
)

LABELS = [True] * 8 + [False] * 8
DECISIONS = [True] * 6 + [False, None] + [False] * 5 + [True, True, None]


def test_rates_agree_with_other_programs():
    """Random decisions: scikit-learn's rates, statsmodels' Wilson intervals."""
    chance = np.random.default_rng(1)
    labels = chance.random(80) < 0.4
    made = np.where(chance.random(80) < 0.75, labels, ~labels)
    found = classify(labels.tolist(), made.tolist())
    other = {
        "accuracy": metrics.accuracy_score(labels, made),
        "sensitivity": metrics.recall_score(labels, made),
        "specificity": metrics.recall_score(~labels, ~made),
        "precision": metrics.precision_score(labels, made),
        "F1": metrics.f1_score(labels, made),
        "balanced accuracy": metrics.balanced_accuracy_score(labels, made),
    }
    assert {name: found.rate(name).estimate for name in RATES} == pytest.approx(other)
    hits = int((labels & made).sum())
    low, high = proportion_confint(hits, int(labels.sum()), method="wilson")
    assert ends(found.rate("sensitivity")) == pytest.approx((low, high))


def test_undecided_items_are_neither_right_nor_wrong():
    """They are left out and counted; the second reading, whose names say so, counts each as wrong."""
    found = classify(LABELS, DECISIONS)
    assert found.counts == Confusion(tp=6, fn=1, tn=5, fp=2, undecided_yes=1, undecided_no=1)
    counts = found.counts
    assert (counts.items, counts.decided, counts.undecided, counts.right) == (16, 14, 2, 11)
    assert found.rate("accuracy").estimate == 11 / 14
    assert (found.rate("accuracy").n["items"], found.rate("accuracy").missing) == (14, 2)
    assert found.rate("accuracy", strict=True).estimate == 11 / 16
    assert found.rate("sensitivity", strict=True).estimate == 6 / 8
    assert found.rate("specificity", strict=True).estimate == 5 / 8
    assert found.rate("F1", strict=True).estimate == pytest.approx(12 / 17)
    assert all(one.name.endswith(STRICT) and one.missing == 0 for one in found.strict)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([True, False, None])), max_size=30))
def test_every_interval_holds_its_rate(pairs):
    """Whatever was decided: within 0-1, around the rate, and the counts add up; or a reason instead."""
    found = classify([label for label, _ in pairs], [decision for _, decision in pairs])
    assert found.counts.items == len(pairs)
    for one in (*found.rates, *found.strict):
        if one.estimate is None:
            assert one.remarks.startswith("not estimable")
            assert one.low is None
        else:
            assert 0 <= one.low <= one.estimate <= one.high <= 1


def test_items_of_one_question_are_one_base():
    """A right and a wrong answer to one question, both decided alike: as wide as if half the items were there."""
    labels, questions = [True, False] * 20, [number // 2 for number in range(40)]
    made = [label if question % 4 else not label for label, question in zip(labels, questions, strict=True)]
    alone, clustered = classify(labels, made), classify(labels, made, questions)
    assert clustered.rate("accuracy").estimate == alone.rate("accuracy").estimate == 0.75
    half = classify(labels[::2], made[::2]).rate("accuracy")
    assert clustered.rate("accuracy").low == pytest.approx(half.low, abs=0.02)
    assert clustered.rate("accuracy").low < alone.rate("accuracy").low
    assert clustered.rate("sensitivity").low == alone.rate("sensitivity").low


@pytest.mark.parametrize(
    ("labels", "decisions", "silent"),
    [
        ([], [], set(RATES)),
        ([True], [None], set(RATES)),
        ([True], [True], {"specificity", "balanced accuracy"}),
        ([False], [False], {"sensitivity", "precision", "F1", "balanced accuracy"}),
    ],
)
def test_what_cannot_be_estimated_is_said(labels, decisions, silent):
    """No item, no decision, one label: no number where there is none, and no zero either."""
    assert {one.name for one in classify(labels, decisions).rates if not one.estimable} == silent


def delong_by_hand(labels, scores):
    """Return area and standard error by comparing every case with every non-case."""
    pairs = np.array([[np.sign(a - b) / 2 + 0.5 for b in scores[~labels]] for a in scores[labels]])
    variance = pairs.mean(axis=1).var(ddof=1) / len(pairs) + pairs.mean(axis=0).var(ddof=1) / pairs.shape[1]
    return float(pairs.mean()), math.sqrt(variance)


def test_auc_agrees_with_other_programs():
    """Scores with ties: scikit-learn's area, and DeLong's standard error from all pairs."""
    chance = np.random.default_rng(4)
    labels = chance.random(90) < 0.5
    scores = np.round(chance.normal(labels * 1.0, 1) * 2) / 2
    found = auc(labels.tolist(), scores.tolist())
    area, error = delong_by_hand(labels, scores)
    assert found.estimate == pytest.approx(metrics.roc_auc_score(labels, scores)) == pytest.approx(area)
    logit = math.log(found.high / (1 - found.high)) - math.log(found.low / (1 - found.low))
    assert logit / 2 / 1.959964 * area * (1 - area) == pytest.approx(error, rel=1e-6)


def test_auc_at_the_edges():
    """Missing scores are left out; a tie is half."""
    found = auc([True, True, False, False, True], [0.9, 0.4, 0.5, 0.1, None])
    assert (found.estimate, found.n["items"], found.missing) == (0.75, 4, 1)
    assert auc([True, True, False, False], [1, 1, 0, 0]).estimate == 1.0
    assert auc([True, False], [0.5, 0.5]).estimate == 0.5


def test_mcnemar_agrees_with_another_program():
    """Exact two-sided p values of statsmodels over all numbers of discordant items up to 12."""
    for b, c in itertools.product(range(0, 13, 3), range(0, 13, 4)):
        first = [True] * 5 + [True] * b + [False] * c + [False] * 3
        second = [True] * 5 + [False] * b + [True] * c + [False] * 3
        found = mcnemar([True] * len(first), first, second)
        other = mcnemar_of_statsmodels([[5, b], [c, 3]], exact=True)
        assert found.p_value == pytest.approx(min(1.0, other.pvalue))
        assert found.estimate == pytest.approx((b - c) / len(first))
        assert -1 <= found.low <= found.estimate <= found.high <= 1
        back = mcnemar([True] * len(first), second, first)
        assert ends(back) == pytest.approx((-found.high, -found.low))


def test_mcnemar_leaves_out_what_one_did_not_decide():
    """Only items decided by both count."""
    found = mcnemar([True, True, False], [True, None, False], [False, True, False])
    assert (found.n["items"], found.missing, found.p_value) == (2, 1, 1.0)


def slow_length_decisions(labels, lengths):
    """Try every threshold on all other items, one item after the other."""
    decided = []
    for out in range(len(labels)):
        others = [
            (label, size) for n, (label, size) in enumerate(zip(labels, lengths, strict=True)) if n != out
        ]
        sizes = sorted({size for _, size in others})
        if len({label for label, _ in others}) < 2:
            decided.append(None)
            continue
        best = (-1.0, 0.0, True)
        for longer in (True, False):
            for threshold in [-math.inf, *((a + b) / 2 for a, b in itertools.pairwise(sizes))]:
                right = [
                    np.mean(
                        [((size > threshold) == longer) == want for label, size in others if label == want]
                    )
                    for want in (True, False)
                ]
                if np.mean(right) > best[0] + 1e-12:
                    best = (float(np.mean(right)), threshold, longer)
        decided.append((lengths[out] > best[1]) == best[2])
    return tuple(decided)


def test_length_alone_is_the_threshold_of_all_other_items():
    """The same decisions as trying every threshold for every item left out; ties in length included."""
    chance = np.random.default_rng(7)
    for size in (2, 3, 12, 25):
        labels = (chance.random(size) < 0.5).tolist()
        lengths = np.round(chance.normal(100, 8, size)).tolist()
        assert length_decisions(labels, lengths) == slow_length_decisions(labels, lengths)
    assert length_decisions([True, True, False], [1, 2, 3])[2] is None


def make(mode, decisions, **more):
    return decider("primary", "m", mode, labels=LABELS, decisions=decisions, **more)  # type: ignore[arg-type]


def test_a_decider_counts_what_it_was_asked():
    """Items it was not asked about are no undecided ones; cost per right verdict and unreadable share are plain."""
    votes = [(1.0, 1.0, None)] * 8 + [(0.0, 0.5, 0.0)] * 8
    one = make("cot", DECISIONS, asked=[True] * 12 + [False] * 4, votes=votes, aud=1.0, unreadable=8)
    assert (one.unasked, one.found.counts.items, one.found.counts.undecided) == (4, 12, 1)
    assert one.aud_per_correct == pytest.approx(1.0 / 10)
    assert (one.replies, one.unreadable_share) == (36, 8 / 36)
    assert one.agreement.estimate == 1.0
    assert one.agreement.missing == 12
    assert one.auc is None
    none_right = make("cot", [None] * 16, aud=2.0)
    assert none_right.aud_per_correct is None


def test_the_frame_has_a_row_each_and_no_zero_for_what_is_missing():
    """Judges first, then baselines; NaN where there is no number."""
    judge = make("cot", DECISIONS, scores=[None if d is None else float(d) for d in DECISIONS], aud=0.5)
    simple = baselines(LABELS, list(range(16)))
    frame = deciders_frame([judge, *simple]).set_index("judge")
    assert list(frame.index) == ["primary", "always the majority", "length alone"]
    assert frame.loc["primary", "accuracy"] == 11 / 14
    assert frame.loc["primary", "accuracy_undecided_wrong"] == 11 / 16
    assert frame.loc["length alone", "accuracy"] == 15 / 16
    assert frame.loc["always the majority", "accuracy"] == 0.5  # as many of each label: no for all
    assert frame.loc["always the majority", ["aud", "precision", "kappa"]].isna().all()
    assert deciders_frame([]).empty


def test_comparisons_are_corrected_for_their_number():
    """Three pairs of judges are one family of tests, judges against baselines another."""
    three = [
        make(mode, made)
        for mode, made in (("a", DECISIONS), ("b", list(LABELS)), ("c", [not x for x in LABELS]))
    ]
    among = compare_deciders(LABELS, three)
    assert [one.correction for one in among] == ["Holm over 3 tests"] * 3
    alone = [mcnemar(LABELS, x.decisions, y.decisions).p_value for x, y in itertools.combinations(three, 2)]
    assert among[2].p_value == pytest.approx(3 * min(alone))
    against = compare_deciders(LABELS, three[:1], baselines(LABELS, list(range(16))))
    assert [one.name for one in against] == [
        "accuracy: primary (m), a - always the majority",
        "accuracy: primary (m), a - length alone",
    ]
    assert compare_deciders(LABELS, three[:1]) == ()

"""Corrected prevalence: a published number, its coverage by simulation, and where nothing can be corrected."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit.stats.detection.rates import Confusion, corrected_prevalence, lang_reiczigel

GOOD = Confusion(tp=90, fn=10, tn=70, fp=30)
STUDIES = 1000


def decisions(yes: int, no: int, undecided: int = 0) -> list[bool | None]:
    return [True] * yes + [False] * no + [None] * undecided


def test_outside_of_0_and_1_is_clipped_and_kept() -> None:
    """Fewer yes than a judge's false alarms alone: the estimate is 0, and what it was is kept and said."""
    low = corrected_prevalence(decisions(10, 90), GOOD)
    assert (low.corrected.estimate, low.corrected.low) == (0.0, 0.0)
    assert low.raw == pytest.approx((0.1 - 0.3) / 0.6)
    assert low.corrected.remarks == "clipped from -0.333"
    high = corrected_prevalence(decisions(100, 0), GOOD)
    assert (high.corrected.estimate, high.corrected.high) == (1.0, 1.0)
    assert high.raw > 1


def test_undecided_items_are_missing() -> None:
    """An item without a decision is left out and counted, never a no."""
    assert corrected_prevalence(decisions(40, 60, 20), GOOD).corrected.missing == 20
    assert (
        corrected_prevalence(decisions(40, 60, 20), GOOD).raw
        == corrected_prevalence(decisions(40, 60), GOOD).raw
    )


def test_every_interval_holds_its_estimate_and_stays_within_0_and_1() -> None:
    """20,000 drawn studies, tiny and lopsided ones too."""
    chance = np.random.default_rng(2)
    for _ in range(20_000):
        n, yes_items, no_items = chance.integers(1, 60, 3).tolist()
        tp, tn = chance.integers(0, yes_items + 1), chance.integers(0, no_items + 1)
        judge = Confusion(int(tp), int(yes_items - tp), int(tn), int(no_items - tn))
        if judge.tp * judge.tn <= judge.fn * judge.fp:
            continue
        yes = int(chance.integers(0, n + 1))
        low, high = lang_reiczigel(yes, n, judge)
        assert 0 <= low <= high <= 1
    found = corrected_prevalence([True], Confusion(tp=1, fn=0, tn=1, fp=0)).corrected
    assert found.low <= found.estimate <= found.high


def test_bases_widen_the_interval_and_leave_the_estimate() -> None:
    """Ten items that always agree are worth little more than one."""
    said = [base % 2 == 0 for base in range(30) for _ in range(10)]
    bases = [base for base in range(30) for _ in range(10)]
    alone, together = corrected_prevalence(said, GOOD), corrected_prevalence(said, GOOD, clusters=bases)
    assert together.corrected.estimate == alone.corrected.estimate
    assert together.corrected.high - together.corrected.low > 1.5 * (
        alone.corrected.high - alone.corrected.low
    )
    assert together.corrected.n["bases"] == 30
    own = corrected_prevalence(said, GOOD, clusters=list(range(300)))
    assert (own.corrected.low, own.corrected.high) == (alone.corrected.low, alone.corrected.high)


def test_the_clustered_interval_holds_the_truth() -> None:
    """30 bases of ten items that are alike, sensitivity .9 and specificity .7 from 100 labels each, 400 studies."""
    chance = np.random.default_rng(8)
    held = []
    for _ in range(400):
        tp, tn = int(chance.binomial(100, 0.9)), int(chance.binomial(100, 0.7))
        rates = chance.beta(1.2, 2.8, 30)  # mean .3
        cases = chance.binomial(10, rates)
        yes = chance.binomial(cases, 0.9) + chance.binomial(10 - cases, 0.3)
        said = [place < count for count in yes for place in range(10)]
        judge = Confusion(tp, 100 - tp, tn, 100 - tn)
        found = corrected_prevalence(
            said, judge, clusters=[base for base in range(30) for _ in range(10)]
        ).corrected
        held.append(found.low <= 0.3 <= found.high)
    assert 0.925 <= np.mean(held) <= 0.975

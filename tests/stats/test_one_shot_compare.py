"""Comparing methods: Fisher's own example, scipy as oracle, coverage by enumeration, and the edges."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from score_tables import check_shown, ends, three_outcomes

from toolkit.scoring import one_shot_score
from toolkit.stats.inference.p_values import EXACT_UP_TO, holm, sign_flip
from toolkit.stats.one_shot.methods import (
    KEYS,
    compare_one_shot,
    compare_two_methods,
    method_estimates,
    methods_frame,
    overall,
    score_groups,
    score_methods,
)

W = (1.0, 0.0, -0.5)


@given(st.lists(st.integers(-15, 15), min_size=2, max_size=9))
@settings(max_examples=25)
def test_the_paired_test_is_that_of_scipy(differences):
    """Scipy enumerates the same patterns."""
    oracle = stats.permutation_test(
        (np.array(differences, dtype=float),), np.sum, permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip(differences).p_value == pytest.approx(oracle.pvalue)


@given(st.lists(st.integers(-30, 30), min_size=6, max_size=12), st.integers(-20, 20))
@settings(max_examples=25)
def test_the_interval_holds_exactly_what_the_test_does_not_reject(differences, shift):
    """Inside the interval the shifted differences are not rejected; outside they are."""
    found = sign_flip(differences)
    p_value = sign_flip(np.array(differences) - shift / 3).p_value
    if found.low + 1e-6 < shift / 3 < found.high - 1e-6:
        assert p_value > 0.05 - 1e-9
    if not found.low - 1e-6 <= shift / 3 <= found.high + 1e-6:
        assert p_value <= 0.05 + 1e-9


def test_beyond_sixteen_pairs_a_seeded_sample_is_drawn_and_p_is_never_zero():
    """The same seed gives the same numbers, the sample is near the whole, and b + 1 of m + 1 is at least 1 of m + 1."""
    differences = np.random.default_rng(3).normal(0.3, 1, EXACT_UP_TO + 1)
    found = sign_flip(differences, seed=1)
    assert found == sign_flip(differences, seed=1)
    subsets = (np.arange(2**17)[:, None] >> np.arange(17)) & 1
    sums = 2 * (subsets @ differences) - differences.sum()
    assert found.p_value == pytest.approx((np.abs(sums) >= abs(differences.sum()) - 1e-9).mean(), abs=0.01)
    for end, beyond in ((found.low, -1e-6), (found.high, 1e-6)):  # the same patterns give the interval
        outside, inside = (sign_flip(differences - end - shift, seed=1) for shift in (beyond, -beyond))
        assert outside.p_value <= 0.05 < inside.p_value
    sure = sign_flip(np.ones(60))
    assert sure.p_value == 1 / 2**16
    assert "seed 0" in sure.method
    assert ends(sure) == (1, 1)


def test_too_few_pairs_have_a_p_value_and_no_interval():
    """Five pairs cannot reach 5 %, and no interval is made up."""
    found = sign_flip(np.ones(5))
    assert (found.p_value, found.low, found.high) == (2 / 2**5, None, None)
    assert "too few" in found.reason


def test_the_interval_of_two_methods_covers_so_that_the_test_keeps_its_level():
    """Every pair of outcomes of N = 10 with its probability, for 21 x 21 pairs of shares."""
    outcomes, shares, chance = three_outcomes(10, 5)
    scores = [one_shot_score(*row) for row in outcomes.tolist()]
    raw, low, high = np.transpose([(one.raw, *ends(one)) for one in scores])
    difference = raw[None, :] - raw[:, None]
    below = difference - np.hypot((raw - low)[None, :], (high - raw)[:, None])
    above = difference + np.hypot((high - raw)[None, :], (raw - low)[:, None])
    for p, q in product(range(len(shares)), repeat=2):
        truth = float((shares[q] - shares[p]) @ W)
        missed = (truth < below - 1e-9) | (truth > above + 1e-9)
        assert chance[p] @ missed @ chance[q] <= 0.05
    one = compare_two_methods(outcomes[5].tolist(), outcomes[40].tolist())
    assert ends(one) == pytest.approx((below[5, 40], above[5, 40]))


def experiments(**shares):
    """Return experiments of methods named ``variant_question``, with counts of the three verdicts and of none."""
    rows = []
    for name, counts in shares.items():
        variant, question = name.split("_")
        verdicts = ["expected", "unexpected", "hallucinated", None]
        for verdict, count in zip(verdicts, counts, strict=False):
            row = {"method": name, "variant": variant, "question": question, "sample": "s", "model": "m"}
            row["document"] = "none"
            rows += [row | {"verdict": verdict}] * count
    return pd.DataFrame(rows, columns=[*KEYS, "verdict"])


def test_methods_are_counted_and_an_incomplete_one_is_not_scored():
    """8 of 10 verdicts are no test of 10."""
    scores = score_methods(experiments(plain_a=(6, 1, 3), plain_b=(4, 4, 0, 2)))
    frame = methods_frame(scores)
    assert frame["note"].tolist() == ["I1 = 6, I0 = 1, H = 3", "incomplete: I1+I0+H = 8 of 10"]
    assert frame["raw"].isna().tolist() == [False, True]
    assert frame.loc[0, ["expected", "unexpected", "hallucinated", "missing"]].tolist() == [6, 1, 3, 0]
    score, raw = method_estimates(scores[0])
    assert (score.low, raw.low) == (0.0, scores[0].score.low)
    mean = overall("mean raw", scores)
    assert (mean.missing, mean.n["methods"]) == (1, 1)
    assert mean.low is None
    assert "plain_b" in mean.remarks
    assert methods_frame([]).empty
    assert score_methods(experiments()) == ()
    assert overall("mean raw", []).reason == "there are no methods"


def test_groups_pool_the_counts_and_average_the_methods():
    """One group a variant and sample; the mean counts each method once, and an incomplete one is left out of it."""
    scores = score_methods(experiments(plain_a=(10, 0, 0), plain_b=(0, 0, 10), careful_a=(5, 3, 1, 1)))
    plain, careful = score_groups(scores)
    assert (plain.label, plain.i1, plain.i0, plain.h, plain.experiments) == ("plain", 10, 0, 10, 20)
    assert (plain.raw.estimate, plain.score.estimate) == (0.25, 0.5)
    assert (careful.missing, careful.raw.estimate) == (1, None)
    assert [one.label for one in score_groups(scores[:1])] == ["plain, m, s"]
    assert score_groups([]) == ()


def test_the_mean_over_methods_stays_between_the_weights():
    """A t interval knows nothing of the scale, so it is cut off at its ends."""
    scores = score_methods(experiments(p_a=(10, 0, 0), p_b=(0, 0, 10), p_c=(10, 0, 0)))
    raw, clamped = overall("r", scores), overall("s", scores, "score")
    assert ends(raw) == (-0.5, 1.0)
    assert ends(clamped) == (0.0, 1.0)


def frame(scores):
    return pd.DataFrame(
        [(*key, value) for key, value in scores.items()], columns=["question", "variant", "model", "raw"]
    )


def test_variants_are_compared_within_questions_and_corrected_by_holm():
    """Three variants make three comparisons; an incomplete method takes its question out of its own two."""
    dice = np.random.default_rng(9)
    values = {(f"q{q}", v, "m"): float(dice.normal(k, 0.3)) for q in range(8) for k, v in enumerate("abc")}
    values["q0", "c", "m"] = None
    found = compare_one_shot(frame(values))
    assert [one.name for one in found.contrasts] == ["b - a", "c - a", "c - b"]
    assert [one.n["questions"] for one in found.contrasts] == [8, 7, 7]
    assert [one.missing for one in found.contrasts] == [0, 1, 1]
    alone = [
        sign_flip([values[f"q{q}", late, "m"] - values[f"q{q}", early, "m"] for q in range(first, 8)])
        for early, late, first in (("a", "b", 0), ("a", "c", 1), ("b", "c", 1))
    ]
    assert [one.p_value for one in found.contrasts] == list(holm([one.p_value for one in alone]))
    assert [one.low for one in found.contrasts] == [one.low for one in alone]
    assert {one.correction for one in found.contrasts} == {"Holm over 3 comparisons"}
    assert "1 of 24 methods" in found.notes[1]
    assert len(found.frame()) == 3
    check_shown(found)
    assert found.to_dict()["by"] == "variant"


def test_two_models_are_compared_over_questions_and_variants_are_averaged_first():
    """Each question counts once, however many variants asked it."""
    values = {
        (f"q{q}", v, m): q / 10 + (m == "y") * (0.2 + q / 100) for q in range(7) for v in "ab" for m in "xy"
    }
    (contrast,) = compare_one_shot(frame(values), by="model").contrasts
    assert contrast.name == "y - x"
    assert contrast.n == {"questions": 7}
    assert contrast.estimate == pytest.approx(0.23)
    assert contrast.p_value == 2 / 2**7
    assert contrast.correction == "none"


def test_documents_and_variants_are_compared_within_each_other():
    """A document is compared within prompts and models, a prompt within documents; one that is asked without is too."""
    values = {
        (q, v, d, m): q / 10 + (v == "b") * 0.3 + (d == "rfc") * (0.1 + q / 50) + (m == "y") / 2
        for q, (v, d), m in product(range(7), (("a", "none"), ("b", "none"), ("b", "rfc")), "xy")
    }
    rows = pd.DataFrame([(*key, value) for key, value in values.items()])
    rows.columns = ["question", "variant", "document", "model", "raw"]
    by_document, by_variant = (compare_one_shot(rows, by) for by in ("document", "variant"))
    assert by_document.contrasts[0].name == "rfc - none"
    test = sign_flip([0.1 + q / 50 for q in range(7)])
    found = by_document.contrasts[0]
    assert (found.estimate, found.low, found.high, found.p_value) == pytest.approx(
        (test.mean, test.low, test.high, test.p_value)
    )
    assert found.n == {"questions": 7}
    assert by_variant.contrasts[0].estimate == pytest.approx(
        0.3
    )  # and not 0.3 with half of what the document adds


def test_nothing_in_common_is_not_estimable_and_says_why():
    """Two variants that were never asked the same thing cannot be compared."""
    (contrast,) = compare_one_shot(frame({("q0", "a", "m"): 1.0, ("q1", "b", "m"): 0.5})).contrasts
    assert contrast.estimate is None
    assert contrast.reason == "no question has a score for both"
    assert compare_one_shot(frame({("q0", "a", "m"): 1.0})).contrasts == ()
    assert compare_one_shot(frame({})).contrasts == ()

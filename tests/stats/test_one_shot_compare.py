"""Comparing methods: scipy as oracle, coverage by enumeration, and the edges."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from score_tables import check_shown, ends, of_methods

from toolkit.stats import compare_conditions
from toolkit.stats.inference.p_values import holm
from toolkit.stats.inference.run_table import Points
from toolkit.stats.one_shot.methods import (
    KEYS,
    UNIT,
    method_estimates,
    methods_frame,
    overall,
    score_groups,
    score_methods,
)

W = (1.0, 0.0, -0.5)


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


NAMES = ["base", "model", "document", "variant", "sample"]


def compared(scores, factor="variant", **more):
    """Compare methods, whose scores stand under their names."""
    rows = pd.Series(scores, dtype=float).rename_axis(NAMES).rename("raw").reset_index()
    rows.attrs |= {"units": {"raw": Points((-0.5, 1.0), UNIT)}, "rows": "methods"}
    within = [name for name in NAMES[1:] if name not in (factor, "model")]
    return compare_conditions(rows, "raw", factor=factor, within=["model", *within], **more)


def p_value(contrast, scores, factor):
    """Return the P value of scipy's test of the differences of questions, of which the contrast is the mean."""
    later, earlier = contrast.name.split(" - ")
    wide = pd.Series(scores, dtype=float).rename_axis(NAMES).unstack(factor)
    values, order = (wide[later] - wide[earlier]).dropna(), [name for name in NAMES if name != factor]
    for size in (3, 2, 1):  # what is averaged inside a question goes from the last name on
        values = values.groupby(level=order[:size]).mean()
    test = stats.ttest_1samp(values, 0)
    assert (contrast.n, contrast.unit) == ({"bases": len(values)}, UNIT)
    assert (contrast.estimate, *ends(contrast)) == pytest.approx((values.mean(), *test.confidence_interval()))
    return test.pvalue


def test_variants_are_compared_within_questions_and_corrected_by_holm():
    """Three variants make three contrasts; an incomplete method takes its question out of its own two."""
    dice = np.random.default_rng(9)
    scores = {
        (f"q{q}", "m", "none", v, "s"): dice.normal(k, 0.3) for q in range(8) for k, v in enumerate("abc")
    }
    scores["q0", "m", "none", "c", "s"] = None
    found = compared(scores)
    assert [one.name for one in found.contrasts] == ["b - a", "c - b", "c - a"]
    alone = [p_value(one, scores, "variant") for one in found.contrasts]
    assert [one.p_value for one in found.contrasts] == pytest.approx(holm(alone))
    assert [one.missing for one in found.contrasts] == [0, 1, 1]
    assert found.notes[0] == "1 of 24 methods has no score and is left out"
    check_shown(found)


@pytest.mark.parametrize(
    ("factor", "levels"), [("variant", "ab"), ("document", ["no", "rfc"]), ("sample", "st"), ("model", "xy")]
)
def test_whatever_methods_differ_in_is_compared_within_the_rest(factor, levels):
    """A question counts once, however often it was asked; a document is compared where the prompt takes it."""
    dice, texts = np.random.default_rng(4), (("no", "a"), ("no", "b"), ("rfc", "b"))
    methods = product(range(7), "xy", texts, "st")
    scores = {(f"q{q}", model, *text, sample): dice.normal() for q, model, text, sample in methods}
    found = compared(scores, factor, levels=[*levels])
    (contrast,) = found.contrasts
    assert contrast.p_value == pytest.approx(p_value(contrast, scores, factor))
    assert [one.facets["model"] for one in found.of_models] == ["x", "y"][: 2 * (factor != "model")]
    first, *others = [f"{name}s" for name in NAMES[:0:-1] if name != factor]
    assert found.notes[0].startswith(f"{first} are averaged first, then {', then '.join(others)}, so each")


def test_nothing_in_common_is_not_estimable_and_says_why():
    """Two variants that were never asked the same thing cannot be compared."""
    (contrast,) = compared({("q", "m", "no", "a", "s"): 1.0, ("r", "m", "no", "b", "s"): 0.5}).contrasts
    assert (contrast.estimate, contrast.reason) == (None, "0 bases with a score, and two are needed")
    assert of_methods(score_methods(experiments(plain_a=(6, 1, 3)))).factors == ()

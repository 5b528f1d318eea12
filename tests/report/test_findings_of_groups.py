"""What findings say of unbeaten models, of leniencies that add up to zero, and of scores at an end of the scale."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from whole_study import make_study

from toolkit.analyses.answers import Analyses
from toolkit.thesis.findings import DIFFERENT, TEXTS, UNDECIDED, scored_findings


def sentences_of(analyses, question):
    return list(scored_findings(analyses, {"calibration": "nobody rated"}, only=(question,)))


def test_an_unbeaten_model_is_told_apart_without_a_number():
    """It is the best, its distance has one end, and the others are compared as ever."""
    rows = []
    for base in range(12):
        for first, second in permutations("xyz", 2):
            winner = "x" if "x" in (first, second) else "yz"[base % 2]
            rows.append((f"b{base}", first, second, "first" if first == winner else "second"))
    votes = pd.DataFrame(rows, columns=["base", "first", "second", "vote"])
    votes = votes.assign(prompt_id=votes["base"], judge="primary", judge_model="j", level="S")
    whole, _ = make_study(bases=4)
    ranked, apart, told, _ = sentences_of(
        Analyses(whole.runs, whole.judgements, pairs=votes), "compare_pairs"
    )
    assert "x has the highest strength, not estimable (unbounded: it won every vote" in ranked.text
    assert "x scored at least 1.14 logits higher than" in apart.text
    assert apart.estimate is not None
    assert (apart.verdict, apart.estimate.estimate, told.verdict) == (DIFFERENT, None, UNDECIDED)
    assert told.text.startswith("2 of 3 pairs are told apart")


@pytest.mark.parametrize("severe", [0.0, 1.5])
def test_one_severe_judge_makes_the_others_look_lenient_and_the_findings_say_so(severe):
    whole, _ = make_study(bases=8)
    judgements = whole.judgements
    odd = judgements["judge"] == judgements["judge"].iloc[0]
    scores = np.random.default_rng(1).normal(3.0, 0.2, len(judgements)) - severe * odd
    analyses = Analyses(whole.runs, judgements.assign(composite_strict=scores))
    texts = [statement.text for statement in sentences_of(analyses, "reliability")]
    assert (TEXTS["reliability"]["dependent"] in texts) == bool(severe)


def test_a_difference_near_an_end_of_the_scale_says_so():
    """Of the length and of the model that has most scores there, and nothing where few are."""
    whole, _ = make_study(bases=8)
    judgements = whole.judgements
    tops = judgements["composite_strict"].mask(judgements["level"] == "L", 5.0)
    for scores, expected in ((judgements["composite_strict"], [0, False]), (tops, [2, True])):
        analyses = Analyses(whole.runs, judgements.assign(composite_strict=scores))
        of_length = [statement.text for statement in sentences_of(analyses, "length")[:3]]
        at_top = sum("100% of the scores of L are at the top of the scale" in text for text in of_length)
        of_models = sentences_of(analyses, "compare_models")[1].text
        assert [at_top, "at the top of the scale" in of_models] == expected

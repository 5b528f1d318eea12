"""Each judge beside the others: numbers by hand where they can be made by hand, missing where they are missing."""

import numpy as np
import pandas as pd
import pytest

from toolkit.stats.agreement.reliability import compare_judges
from toolkit.stats.result import Estimate

JUDGES = ("primary", "secondary", "tertiary")


def study(bases=8, seed=1):
    """Return judgements and replies: primary is .5 milder and adds .3 points per 100 tokens."""
    chance = np.random.default_rng(seed)
    rows, replies = [], []
    for base in range(bases):
        for model in ("gpt-small", "other"):
            run, tokens = f"{base}-{model}", int(chance.integers(100, 600))
            replies.append({"run_id": run, "output_tokens": tokens})
            quality = 2.5 + chance.normal(0, 0.3)
            for judge in JUDGES:
                extra = 0.5 + 0.3 * tokens / 100 if judge == "primary" else 0.0
                score = quality + extra + chance.normal(0, 0.05)
                rows.append((run, f"b{base}", judge, False, score, 0.01))
    columns = ["run_id", "base", "judge", "failed", "composite_strict", "aud_cost"]
    return pd.DataFrame(rows, columns=columns), pd.DataFrame(replies)


def compared(judgements, replies):
    return compare_judges(judgements, replies, leniency={})


def of_primary(result):
    return {one.statistic: one for one in result.estimates if one.facets["judge"] == "primary"}


def test_slope_and_correlation_are_found():
    """.3 points per 100 tokens against the others, inside the interval; r with their mean is numpy's."""
    judgements, replies = study(bases=30)
    found = of_primary(compared(judgements, replies))
    assert found["slope"].estimate == pytest.approx(0.3, abs=0.02)
    assert found["slope"].low < 0.3 < found["slope"].high
    wide = judgements.pivot(index="run_id", columns="judge", values="composite_strict")
    others = wide[["secondary", "tertiary"]].mean(axis=1)
    assert found["correlation"].estimate == pytest.approx(np.corrcoef(wide["primary"], others)[0, 1])
    assert found["correlation"].n == {"answers": 60, "bases": 30}
    leniency = {judge: Estimate("leniency", 0.1 * rank) for rank, judge in enumerate(JUDGES)}
    selected = compare_judges(judgements, replies, leniency=leniency).select("leniency")
    assert {one.facets["judge"]: one.estimate for one in selected} == {
        judge: one.estimate for judge, one in leniency.items()
    }


def test_a_failed_judgement_is_missing_and_no_zero():
    """One unreadable reply and one that never came: counts have them, and no interval; coefficients leave them out."""
    judgements, replies = study()
    own = judgements.index[judgements["judge"] == "primary"]
    judgements.loc[own[:2], ["failed", "composite_strict"]] = [True, np.nan]
    judgements.loc[own[1], "aud_cost"] = np.nan
    found = of_primary(compared(judgements, replies))
    assert (found["correlation"].missing, found["correlation"].n["answers"]) == (2, 14)
    assert (found["failed"].estimate, found["failed"].low, found["failed"].n) == (2, None, {"judgements": 16})
    assert found["cost"].estimate == pytest.approx(0.15)
    # The others are compared with who is left on those runs.
    assert compared(judgements, replies).select("correlation")[1].n["answers"] == 16


def test_a_judge_alone_has_no_agreement_and_one_without_scores_no_number():
    """One judge; a judge that failed everywhere; each result says why it is missing."""
    judgements, replies = study()
    alone = of_primary(compared(judgements[judgements["judge"] == "primary"], replies))
    assert alone["correlation"].estimate is None
    assert alone["slope"].remarks == "not estimable: 0 answers, and three are needed"
    nothing = ["failed", "composite_strict", "aud_cost"]
    judgements.loc[judgements["judge"] == "primary", nothing] = [True, np.nan, np.nan]
    silent = of_primary(compared(judgements, replies))
    assert silent["failed"].estimate == 16
    assert silent["cost"].remarks == "not estimable: no call has a known cost"


def test_times_that_a_judge_judged_a_run_are_averaged_and_paid_for_each():
    """Two judgements of a run are one score and two costs; equal requests are one call."""
    judgements, replies = study()
    once = of_primary(compared(judgements, replies))
    again = judgements[judgements["judge"] == "primary"].assign(
        composite_strict=lambda rows: rows["composite_strict"] + 1, judge_repeat=1
    )
    both = pd.concat([judgements.assign(judge_repeat=0), again], ignore_index=True)
    twice = of_primary(compared(both, replies))
    for name in ("correlation", "slope"):
        assert twice[name].estimate == pytest.approx(once[name].estimate)
        assert twice[name].n == once[name].n
    assert twice["cost"].estimate == pytest.approx(2 * once["cost"].estimate)
    assert of_primary(compared(both.assign(call_id="same"), replies))["cost"].estimate == pytest.approx(0.01)


def test_judges_may_be_a_category_and_an_empty_table_has_no_row():
    """The frame of a study holds roles as a category, and more of them than judged; the frame holds every result."""
    judgements, replies = study()
    roles = pd.Categorical(judgements["judge"], [*JUDGES, "fourth"], ordered=True)
    result = compared(judgements, replies)
    assert compared(judgements.assign(judge=roles), replies) == result
    assert compared(judgements.iloc[:0], replies).estimates == ()
    assert result.frame()["judge"].value_counts().to_dict() == dict.fromkeys(JUDGES, 4)

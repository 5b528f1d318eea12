"""The numbers of a judge's card: by hand where they can be made by hand, missing where they are missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toolkit.stats.agreement.judge_card import judge_cards
from toolkit.stats.inference.proportions import share

MODELS = {"primary": "gpt", "secondary": "claude", "tertiary": "llama"}


def study(bases: int = 8, seed: int = 1, bonus: float = 0.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return judgements and replies: primary is .5 milder, adds .3 points per 100 tokens and a bonus for its own."""
    chance = np.random.default_rng(seed)
    rows, replies = [], []
    for base in range(bases):
        for model in ("gpt-small", "other"):
            run, tokens = f"{base}-{model}", int(chance.integers(100, 600))
            replies.append({"run_id": run, "output_tokens": tokens})
            quality = 2.5 + chance.normal(0, 0.3)
            for judge, name in MODELS.items():
                extra = (
                    0.5 + 0.3 * tokens / 100 + bonus * (model == "gpt-small") if judge == "primary" else 0.0
                )
                rows.append(
                    {
                        "run_id": run,
                        "base": f"b{base}",
                        "model": model,
                        "judge": judge,
                        "judge_model": name,
                        "failed": False,
                        "composite_strict": quality + extra + chance.normal(0, 0.05),
                        "aud_cost": 0.01,
                        "latency_ms": 100.0 + base,
                        "input_tokens": 500,
                        "output_tokens": 50,
                    }
                )
    return pd.DataFrame(rows), pd.DataFrame(replies)


def results(card) -> dict:
    return {one.name: one for one in (*card.agreement, *card.bias, *card.cost, *card.readable)}


def test_difference_slope_and_family_are_found() -> None:
    """.3 points per 100 tokens against the others, a bonus of .8 for its own family, and both inside the intervals."""
    judgements, replies = study(bases=30, bonus=0.8)
    cards = {
        card.judge: card for card in judge_cards(judgements, replies, related={"primary": ["gpt-small"]})
    }
    assert {judge: card.model for judge, card in cards.items()} == MODELS
    primary = results(cards["primary"])
    plain = results(judge_cards(*study(bases=30))[0])["slope on reply length, against the other judges"]
    assert plain.estimate == pytest.approx(0.3, abs=0.02)
    assert plain.low < 0.3 < plain.high
    family = primary["milder with its own family, against the other judges"]
    assert family.low < 0.8 < family.high
    others = judgements.pivot(index="run_id", columns="judge", values="composite_strict")
    expected = (others["primary"] - others[["secondary", "tertiary"]].mean(axis=1)).mean()
    difference = primary["difference to the other judges"]
    assert difference.estimate == pytest.approx(expected)
    assert difference.n == {"answers": 60, "bases": 30}
    r = primary["correlation with the other judges"].estimate
    assert r == pytest.approx(
        np.corrcoef(others["primary"], others[["secondary", "tertiary"]].mean(axis=1))[0, 1]
    )
    assert len(cards["secondary"].bias) == 2


def test_a_failed_judgement_is_missing_and_no_zero() -> None:
    """One unreadable reply and one that never came: shares count them, means leave them out."""
    judgements, replies = study()
    own = judgements.index[judgements["judge"] == "primary"]
    judgements.loc[own[:2], ["failed", "composite_strict"]] = [True, np.nan]
    judgements.loc[own[1], ["aud_cost", "latency_ms", "input_tokens", "output_tokens"]] = np.nan
    card = judge_cards(judgements, replies)[0]
    found = results(card)
    assert found["difference to the other judges"].missing == 2
    assert found["difference to the other judges"].n["answers"] == 14
    assert found["cost of a judgement"].n == {"judgements": 15, "bases": 8}
    assert found["cost of a judgement"].missing == 1
    failed, came = [True] * 2 + [False] * 14, [True] + [False] * 14
    bases = [f"b{n // 2}" for n in range(16)]
    expected = share("failed judgements", failed, bases, what="judgements")
    assert found["failed judgements"] == expected
    assert found["readable replies"].estimate == pytest.approx(1 - sum(came) / 15)
    assert card.total_aud == pytest.approx(0.15)
    # The others are compared with who is left on those runs.
    assert results(judge_cards(judgements, replies)[1])["difference to the other judges"].n["answers"] == 16


def test_a_judge_alone_has_no_agreement_and_one_without_scores_no_number() -> None:
    """One judge; a judge that failed everywhere; each result says why it is missing."""
    judgements, replies = study()
    alone = results(judge_cards(judgements[judgements["judge"] == "primary"], replies)[0])
    assert alone["difference to the other judges"].remarks == "not estimable: there are no answers"
    assert alone["correlation with the other judges"].estimate is None
    assert alone["slope on reply length"].estimate is not None
    judgements.loc[judgements["judge"] == "primary", ["failed", "composite_strict", "aud_cost"]] = [
        True,
        np.nan,
        np.nan,
    ]
    card = judge_cards(judgements, replies, related={"primary": ["gpt-small"]})[0]
    silent = results(card)
    assert silent["failed judgements"].estimate == 1.0
    assert silent["readable replies"].estimate is None
    assert silent["milder with its own family, against the other judges"].estimate is None
    assert card.total_aud is None


def test_a_family_without_others_to_compare_with_is_not_estimable() -> None:
    """A study that tests models of the judge's family only."""
    judgements, replies = study()
    judgements["model"] = "gpt-small"
    found = results(judge_cards(judgements, replies, related={"primary": ["gpt-small"]})[0])
    assert "its own family only" in found["milder with its own family, against the other judges"].remarks


def test_times_that_a_judge_judged_a_run_are_averaged_and_paid_for_each() -> None:
    """Two judgements of a run are one score and two costs."""
    judgements, replies = study()
    again = judgements[judgements["judge"] == "primary"].assign(
        composite_strict=lambda rows: rows["composite_strict"] + 1, judge_repeat=1
    )
    card = judge_cards(pd.concat([judgements.assign(judge_repeat=0), again], ignore_index=True), replies)[0]
    once = judge_cards(judgements, replies)[0]
    assert card.agreement[0].estimate == pytest.approx(once.agreement[0].estimate + 0.5)
    assert card.agreement[0].n == once.agreement[0].n
    assert card.total_aud == pytest.approx(2 * once.total_aud)


def test_judges_may_be_a_category_and_an_empty_table_has_no_card() -> None:
    """The frame of a study holds roles as a category, and more of them than judged."""
    judgements, replies = study()
    roles = pd.Categorical(judgements["judge"], ["primary", "secondary", "tertiary", "fourth"], ordered=True)
    assert judge_cards(judgements.assign(judge=roles), replies) == judge_cards(judgements, replies)
    assert judge_cards(judgements.iloc[:0], replies) == ()


def test_the_frame_and_the_dictionary_hold_every_result() -> None:
    """Nothing rounded, every part named."""
    card = judge_cards(*study())[0]
    frame = card.frame()
    assert len(frame) == len(results(card)) == len(card.to_dict()["results"])
    assert set(frame["part"]) == {"agreement", "bias", "cost", "readable"}
    assert frame["estimate"].iloc[0] == card.agreement[0].estimate

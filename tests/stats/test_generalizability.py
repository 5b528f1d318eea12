import math
from itertools import product

import numpy as np
import pytest
from cases import cases
from score_tables import check_shown, crossed, golden, long, named, numbers

from toolkit.stats.generalizability.components import Design, variance_components
from toolkit.stats.generalizability.g_study import (
    decision_study,
    generalizability_study,
    study_generalizability,
)
from toolkit.words import JUDGE_ROLES

CASES = cases(__file__)

SHROUT = golden("shrout_fleiss_1979")
ONE_FACET = Design(("answer", "judge"))


def one_facet(values):
    return long(values).rename(columns={"target": "answer"})


def judgements(bases=6, models=3, bins=("S", "M"), repeats=2, judges=3, times=1, seed=1):
    """A study with every source of variance, in the columns of ``Study.judgements()``."""
    rng = np.random.default_rng(seed)
    shape = (bases, models, len(bins), repeats, judges, times)
    values = np.full(shape, 3.0)
    for axes in CASES["parts"]:
        values = values + 0.4 * rng.normal(size=[n if axis in axes else 1 for axis, n in enumerate(shape)])
    values = values + 0.5 * np.arange(len(bins))[None, None, :, None, None, None]
    frame = crossed(
        base=named("b", bases),
        model=named("m", models),
        level=bins,
        repeat=range(repeats),
        judge=JUDGE_ROLES[:judges],
        judge_repeat=range(times),
    )
    run = frame["base"] + frame["model"] + frame["level"] + frame["repeat"].astype(str)
    return frame.assign(run_id=run, composite_strict=values.ravel())


def test_one_facet_gives_the_published_intraclass_correlations():
    components = variance_components(one_facet(SHROUT["ratings"]), ONE_FACET)
    curves = decision_study(generalizability_study(components, "answer")).curves
    curves = curves.set_index(["coefficient", "count"])
    for count, form in ((4, "k"), (1, "1")):
        e_rho2, phi = curves.loc[("E-rho2", count)], curves.loc[("Phi", count)]
        assert e_rho2["estimate"] == pytest.approx(SHROUT["icc"][f"ICC(C,{form})"], abs=1e-6)
        assert phi["estimate"] == pytest.approx(SHROUT["icc"][f"ICC(A,{form})"], abs=1e-6)
        # The F interval of ICC(C,.) is exact, and the generalized one the same up to 10,000 draws.
        assert (e_rho2["low"], e_rho2["high"]) == pytest.approx(SHROUT["ci95"][f"ICC(C,{form})"], abs=0.015)


def test_a_fixed_factor_moves_its_interaction_to_what_is_measured():
    components = study_generalizability(judgements(), of="base").result.components
    random, fixed = (generalizability_study(components, "base", fixed=one) for one in ((), ("model",)))
    raw = {name: max(value, 0.0) for name, value in components.raw.items()}
    first, second = ({one.name: one.estimate for one in found.results} for found in (random, fixed))
    assert first["universe score variance"] == pytest.approx(raw["base"])
    assert second["universe score variance"] == pytest.approx(raw["base"] + raw["base x model"] / 3)
    assert second["relative error variance"] == pytest.approx(
        first["relative error variance"] - raw["base x model"] / 3
    )
    # The models themselves are no error once they are fixed.
    dropped = raw["model"] / 3 + raw["base x model"] / 3
    assert second["absolute error variance"] == pytest.approx(first["absolute error variance"] - dropped)


def test_an_answer_is_measured_with_its_base():
    found = study_generalizability(judgements(times=2), of="answer").result
    raw = {name: max(value, 0.0) for name, value in found.components.raw.items()}
    by_name = {one.name: one.estimate for one in found.results}
    assert found.of == ("base", "answer")
    assert by_name["universe score variance"] == pytest.approx(raw["base"] + raw["answer:base"])
    judging = (raw["base x judge"] + raw["answer x judge:base"]) / 3
    repeats = raw["repeat:(base x answer x judge), residual"]
    assert by_name["relative error variance"] == pytest.approx(judging + repeats / 6)
    assert by_name["absolute error variance"] == pytest.approx(judging + repeats / 6 + raw["judge"] / 3)


def test_scores_of_models_are_means_over_bins_and_a_mean_lacks_no_bin():
    whole = judgements()
    by_hand = whole.groupby(["base", "model", "repeat", "judge"])["composite_strict"].mean().reset_index()
    first, second = study_generalizability(whole, of="model"), study_generalizability(by_hand, of="model")
    assert first.result.components.raw == pytest.approx(second.result.components.raw)
    assert "length bins" in str(first.notes)
    gap = whole.copy()
    gap.loc[3, "composite_strict"] = np.nan
    found = study_generalizability(gap, of="model")
    # A reply that is left out of the analysis is not left out of what a study costs.
    plans = [study_generalizability(frame, target=0.1).decision.plans[0] for frame in (whole, gap)]
    assert plans[0].runs == plans[1].runs == whole["run_id"].nunique()
    assert found.result.phi.missing == 3  # the mean lacks a judge and is left out with all its scores
    assert "1 of 36 replies lacks a judge and is left out" in str(found.notes)


def test_the_cheapest_plan_is_the_cheapest_of_all_designs():
    found = study_generalizability(judgements(), of="model", target=0.7, run_aud=0.05, judgement_aud=0.01)
    plan = found.decision.plans[0]
    assert plan.low <= plan.reached <= plan.high
    base, judge, repeat = (plan.counts[name] for name in ("base", "judge", "repeat"))
    assert (plan.runs, plan.judgements) == (3 * 2 * base * repeat, 3 * 2 * base * repeat * judge)
    assert plan.aud == pytest.approx(plan.runs * 0.05 + plan.judgements * 0.01)
    assert plan.reached >= 0.7
    raw = {name: max(value, 0.0) for name, value in found.result.components.raw.items()}

    def phi(levels):
        error = sum(
            value / math.prod(count for name, count in levels.items() if name in effect)
            for effect, value in raw.items()
            if effect != "model"
        )
        return raw["model"] / (raw["model"] + error)

    assert plan.reached == pytest.approx(phi(plan.counts))
    frame = found.figure_frame()
    assert frame["share"].sum() == pytest.approx(1)
    present = frame.query("name == 'Phi' and present")[["estimate", "low", "high"]]
    assert tuple(present.mean()) == pytest.approx(numbers(found.result.phi))
    cheaper = [
        phi({"base": base, "judge": judge, "repeat": repeat})
        for base, judge, repeat in product(range(1, 61), range(1, 11), range(1, 11))
        if 6 * base * repeat * (0.05 + judge * 0.01) < plan.aud - 1e-9
    ]
    assert len(cheaper) > 10
    assert max(cheaper) < 0.7


def test_more_judges_take_no_more_runs():
    found = study_generalizability(judgements(times=2), run_aud=1.0, judgement_aud=0.1)
    curve = found.decision.curves.query("coefficient == 'Phi'")
    judges = curve[curve["facet"] == "judge"].set_index("count")
    repeats = curve[curve["facet"] == "repeat"].set_index("count")
    answers = judgements()["run_id"].nunique()
    assert set(judges["runs"]) == set(repeats["runs"]) == {answers}
    assert judges.at[5, "judgements"] == answers * 5 * 2
    assert repeats.at[5, "judgements"] == answers * 3 * 5
    assert judges.at[5, "aud"] == pytest.approx(answers + 0.1 * answers * 10)
    assert judges["estimate"].is_monotonic_increasing


def test_a_target_out_of_reach_says_what_is_reached_and_without_a_price_there_is_no_cost():
    found = study_generalizability(judgements(), of="model", target=0.9999)
    plan = found.decision.plans[0]
    assert plan.reached is None
    assert "not reached with up to" in plan.note
    assert plan.sentence().startswith("Phi of 1.00: not reached")
    unpriced = study_generalizability(judgements(), target=0.5).decision.plans[0]
    assert unpriced.aud is None
    assert "price" in unpriced.note
    assert "AUD" not in unpriced.sentence()


@pytest.mark.parametrize(("change", "words"), CASES["reasons"])
def test_what_cannot_be_told_says_why(change, words):
    found = study_generalizability(judgements(**change), of="model")
    assert found.result.phi.estimate is None
    assert words in found.result.phi.remarks
    assert words in found.decision.plans[0].note
    assert found.decision.curves.empty
    assert words in found.sentence()
    found.figure_frame()
    check_shown(found)


def test_answers_that_judges_cannot_tell_apart_have_a_coefficient_of_zero():
    found = generalizability_study(
        variance_components(one_facet([[1, 2], [2, 1], [1, 2], [2, 1]]), ONE_FACET), "answer"
    )
    assert found.components.raw["answer"] < 0
    assert found.e_rho2.estimate == found.phi.estimate == 0.0

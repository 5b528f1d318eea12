"""What a study file promises beforehand, and one number in one place, as a reader of the results meets them."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from methods_told import methods_of
from small_study import finished_study

from toolkit.errors import InputError
from toolkit.people.rating import next_reply, open_round, rate
from toolkit.stats.agreement.coefficients import clustered_pearson
from toolkit.study import Study
from toolkit.words import DIMENSIONS

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture
def study(demo_like_study):
    """Twelve bases by scripted models, of which nothing is changed here."""
    with Study.load(demo_like_study) as loaded:
        yield loaded


def under(study, **analysis):
    """Return the same runs under a file whose [analysis] says otherwise."""
    held = study.file.analysis.model_copy(update=analysis)
    return Study(study.file.model_copy(update={"analysis": held}), study.path)


def test_a_finished_study_answers_every_question_about_length(study):
    """Tests of any difference, length bias and front; equivalence against a written margin."""
    comparison = study.length()
    assert comparison.anova is not None
    assert comparison.anova.n == {"bases": 12, "levels": 3}
    assert comparison.equivalence == ()
    bias = study.length_bias()
    assert bias.slope.n == {"bases": 12, "answers": 36}
    assert len(bias.frame()) == 7
    front = study.pareto()
    assert {point.level for point in front.points} == {"S", "M", "L"}
    assert all(point.per_aud.sentence() for point in front.points)
    with under(study, equivalence_margin=0.25) as other:
        found = other.length().equivalence
    assert ["±0.25" in one.remarks for one in found] == [True] * 3


def test_what_is_missing_at_the_ceiling_and_held_against_people(tmp_path):
    """Nothing is calibrated by nobody; four ratings by a person calibrate the rest."""
    with finished_study(tmp_path) as finished:
        missing, ceiling = finished.missing(), finished.ceiling()
        assert missing.overall[0].n == {"runs": 6, "bases": 2}
        assert missing.overall[0].estimate == 0.0
        assert set(missing.shares) == {"level", "model", "judge"}
        assert ceiling.limit == finished.file.analysis.ceiling_share
        assert {"all", "level S", "judge primary"} <= set(ceiling.shares)
        assert ceiling.shares["all"][0].n["scores"] == 18
        assert finished.calibration().means["all"].calibrated.estimate is None
        round_ = open_round(finished.plan, finished.store, "anna")
        for score in (3.0, 4.0, 2.5, 4.5):
            reply = next_reply(round_)
            assert reply is not None
            scores = dict.fromkeys(DIMENSIONS, score)
            round_ = rate(finished.plan, finished.store, round_, reply, scores)
        found = finished.calibration()
        assert found.means["all"].people.estimate == pytest.approx(3.5)
        n = found.means["all"].calibrated.n
        assert (n["rated answers"], n["unrated answers"]) == (4, 2)
        assert "people" in found.sentence()
    for result in (missing, ceiling, found):
        assert json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("primary", [None, "M-S", "L-S"])
def test_only_the_primary_contrast_is_confirmatory_and_unadjusted(study, primary):
    """The other p values are Holm's among themselves, and their row says that the interval is not."""
    raw = {one.name: one.p_value for one in under(study, primary="M-S").length().contrasts[:1]}
    study = under(study, primary=primary)
    found = study.length()
    bias = study.length_bias()
    study.close()
    for one in found.contrasts:
        if one.name == primary:
            assert (one.correction, one.remarks) == ("none", "confirmatory")
            assert one.name != "M-S" or one.p_value == raw["M-S"]
            assert "Holm" not in one.sentence()
        else:
            assert one.remarks == "exploratory"
            assert f"(Holm over {2 if primary else 3} contrasts; interval unadjusted)" in one.sentence()
    rows = found.frame().set_index("name").loc[["M-S", "L-M", "L-S"], "correction"]
    assert rows.str.contains("interval unadjusted").sum() == (2 if primary else 3)
    assert any((primary or "no primary contrast") in note for note in found.notes)
    assert all("exploratory" in one.remarks for one in (bias.slope, *bias.total, *bias.direct))
    assert found.contrasts[1].to_dict()["correction"].endswith("interval unadjusted") is (primary != "L-M")
    assert [one.name for one in found.corrected_effect_sizes] == ["g_z(M-S)", "g_z(L-M)", "g_z(L-S)"]
    for d, g in zip(found.effect_sizes, found.corrected_effect_sizes, strict=True):
        assert g.estimate == pytest.approx(d.estimate * 0.929975, rel=1e-4)  # J(11)
        assert (g.low, g.high) == (d.low, d.high)


def test_repeats_of_judges_models_in_pairs_and_focus_are_on_the_study(
    study_file,
):
    """Test-retest stands in `reliability`; focus needs both versions, and the tables of the study hold all three."""
    path = study_file("repeats = 1", "repeats = 2")
    two = '{ name = "scripted" }, { name = "other", provider = "scripted" }'
    path.write_text(path.read_text().replace('{ name = "scripted" }', two))
    study = Study.load(path)
    study.run(progress=False)
    with pytest.raises(InputError, match="fsp_enabled"):
        study.conditions("focus")
    names = study.reliability().frame()["name"]
    assert {"ICC(1,1) of repeats, primary", "SD within answers, tertiary"} <= set(names)
    assert [one.name for one in study.compare_models().differences] == ["other - scripted"]
    assert "exploratory" in study.compare_models().sentence()
    assert study.missing().overall[1].n["judgements"] == study.status()["judgements"]["planned"] == 36
    study.store.close()

    path.write_text(path.read_text() + "[bias_controls]\nfsp_enabled = true\n")
    study = Study.load(path)
    study.run(progress=False)
    (found,) = study.conditions("focus").contrasts
    on, off = study.judgements(), study.judged_otherwise()
    assert set(on["focus"]) == {"listed"}
    assert set(off["focus"]) == {"off"}
    assert found.remarks == "exploratory"
    assert found.n == {"bases": 2, "runs": 12, "judgements": 36}
    means = [frame.groupby("base")["composite_strict"].mean().mean() for frame in (on, off)]
    assert found.estimate == pytest.approx(means[0] - means[1])
    assert {"models", "focus"} <= set(study.frames().analyses())


def test_the_same_scores_have_one_interval_wherever_their_correlation_stands():
    """Between judges, and of a judge with the others."""
    from toolkit.stats.agreement.reliability import reliability

    chance = np.random.default_rng(1)
    x = chance.normal(3, 1, 24)
    y = x + chance.normal(0, 0.5, 24)
    bases = [f"b{place // 3}" for place in range(24)]
    long = [
        (f"t{place:02d}", bases[place], judge, scores[place])
        for place in range(24)
        for judge, scores in (("a", x), ("b", y))
    ]
    ratings = pd.DataFrame(long, columns=["target", "base", "judge", "score"])
    between, other = reliability(ratings).pearson["score"][0], clustered_pearson("r", x, y, bases)
    for number in ("estimate", "low", "high"):
        assert getattr(other, number) == pytest.approx(getattr(between, number))
    assert other.method == between.method


@pytest.mark.parametrize("settings", ["", '[bias_controls]\nfsp_enabled = true\nfsp_mode = "per_sentence"\n'])
def test_one_cost_wherever_it_stands(tmp_path, store_folder, settings):
    """Equal replies share the calls of their judges: judges, calls, status and methods add up to the same AUD."""
    price = 'provider = "scripted", usd_per_million_input = 2.0, usd_per_million_output = 8.0'
    judges = "\n".join(f'{role} = {{ name = "j-{role}", {price} }}' for role in ("primary", "secondary"))
    path = tmp_path / "cost.toml"
    path.write_text(
        'name = "cost"\nscenarios = ["CTI_ANALYSIS"]\n'
        f'models = [{{ name = "m", {price}, replies = ["Block it. Keep the logs.", "Ask the owner."] }}]\n'
        f'{settings}[judges]\nrepeats = 2\nrubric = "seed-v1"\ntertiary = false\n{judges}\n'
    )
    with Study.load(path) as study:
        status = study.run(progress=False)
        calls, judgements = study.calls(), study.judgements()
        costs = study.compare_judges().select("cost")
        of_judges = calls.loc[calls["purpose"] == "judge", "aud_cost"].sum()
        assert judgements["aud_cost"].sum() > 1.4 * of_judges > 0
        assert sum(one.estimate for one in costs) == pytest.approx(of_judges)
        assert study.status()["spent_aud"] == pytest.approx(calls["aud_cost"].sum())
        assert status["spent_aud"] == pytest.approx(calls["aud_cost"].sum())
        methods = methods_of(study)
        said = re.findall(r"AUD ([0-9.]+)", methods)
        assert f"{calls['aud_cost'].sum():.4f}" in said or f"{calls['aud_cost'].sum():.2f}" in said

"""A study varies any factor: few-shot, system messages, documents; nothing on the way speaks of prompt length."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from cases import cases
from scipy import stats
from small_study import executed, without_pictures

from toolkit.audit.registration import register
from toolkit.audit.verify import verify_study
from toolkit.errors import InputError, NotAnswerable, StudyError
from toolkit.stats import compare_conditions
from toolkit.study import Study
from toolkit.viewer.model import open_runs

BASES = 12
REFUSED, TABLES, STUDY = cases(__file__).values()
SPEAKS = re.compile(
    r"prompt.lengths?\b|\blengths\b|length.bin|by.length|RQ1|\b[SML] ?[-\u2212] ?[SML]\b", re.IGNORECASE
)


def written(folder, factor=STUDY["factor"], rows=None, more=""):
    """Write a study of plain prompts, its examples and its dataset; return the path of the study file."""
    rows = rows or ["id,text", *(f"q{n},What is the first step after report {n}?" for n in range(BASES))]
    (folder / "prompts.csv").write_text("\n".join(rows))
    (folder / "examples.txt").write_text("Example: after a stolen badge the badge is locked.\n")
    path = folder / "study.toml"
    marks = ['"Example:" = 0.8, "policy" = 0.4', '"policy" = 0.4'] if "Follow" in factor else []
    added = [f", added = {{ {mark} }}" for mark in marks] or ["", ""]
    path.write_text(STUDY["study"].format(factor=factor, more=more, added=added))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    with executed(written(tmp_path_factory.mktemp("factor"))) as study:
        yield study


def test_planted_effects_and_their_interaction_are_found(finished):
    found = finished.conditions()
    assert [mean.name for mean in found.per_level] == ["zero_shot", "few_shot", "policy"]
    planted = {"few_shot - zero_shot": 0.4, "policy - few_shot": 0.0, "policy - zero_shot": 0.4}
    for contrast in found.contrasts:
        assert contrast.low <= planted[contrast.name] <= contrast.high
        assert (contrast.role == "confirmatory") == (contrast.name == "few_shot - zero_shot")
    own = {(e.statistic, e.facets["model"]): e for e in found.of_models}
    for model, added in (("plain", 0.8), ("tuned", 0.0)):  # the second is planted no word of examples
        few = own["few_shot - zero_shot", model]
        assert few.low <= added <= few.high
    differs = next(e for e in found.by_model if e.facets["contrast"] == "few_shot - zero_shot")
    assert abs(differs.estimate) > 0.4
    assert differs.p_value < 0.05
    assert "examples in the prompt is shown to differ by model" in str(finished.findings())


def test_two_factors_are_crossed_and_each_is_compared_within_the_other(tmp_path):
    """Planted: examples help one model only, the role helps everywhere, and neither works through the other."""
    factor = STUDY["factor"].replace("[analysis]", STUDY["crossed"] + "[analysis]")
    path = written(tmp_path, factor)
    path.write_text(path.read_text().replace('"policy" = 0.4', '"policy" = 0.4, "analyst" = 0.5'))
    with executed(path) as study:
        runs, sent = study.runs(), {run.prompt.prompt_id: run.request for run in study.plan.runs}
        assert runs.groupby(["level", "crossed"], observed=True).size().tolist() == [2 * BASES] * 6
        both = sent["q0_policy_analyst"]
        assert both.messages[0].content == "Follow the policy.\n\nYou are an analyst."
        assert (both.temperature, sent["q0_few_shot_analyst"].temperature) == (0.7, 0.2)
        shots, role = study.conditions(), study.conditions("role")
        assert [(contrast.name, contrast.role) for contrast in role.contrasts] == [
            ("analyst - no_role", "exploratory")
        ]
        assert role.contrasts[0].low <= 0.5 <= role.contrasts[0].high
        few = next(e for e in shots.contrasts if e.name == "few_shot - zero_shot")
        assert few.low <= 0.4 <= few.high
        for found, count in ((shots, 3), (role, 3)):
            assert len(found.by_crossed) == count
            assert all(e.low <= 0.0 <= e.high for e in found.by_crossed)
        cells = (
            runs.groupby(["base", "level", "crossed"], observed=True)["composite_strict"]
            .mean()
            .unstack([1, 2])
        )
        gains = [cells["few_shot"][side] - cells["zero_shot"][side] for side in ("analyst", "no_role")]
        test = stats.ttest_rel(*gains)
        interaction = next(e for e in shots.by_crossed if e.facets["contrast"] == "few_shot - zero_shot")
        assert interaction.estimate == pytest.approx((gains[0] - gains[1]).mean())
        assert interaction.low == pytest.approx(test.confidence_interval().low)
        text = str(study.findings())
        assert (
            "The effect of examples in the prompt is not shown to differ by role of the model (3 tests)"
            in text
        )
        assert not SPEAKS.search(text)
        with without_pictures():
            study.bundle(tmp_path / "bundle", supplement=True)
        assert "role of the model" in (tmp_path / "bundle" / "methods.txt").read_text("utf-8")
        assert verify_study(study).exit_code == 0


def test_prompt_length_may_be_the_second_factor(tmp_path):
    """Of a dataset in several lengths each is asked at each level."""
    factor = '[factor]\nname = "shots"\n[factor.levels]\nzero = "{prompt}"\nfew = "Example: x.\\n\\n{prompt}"'
    path = written(tmp_path, factor)
    path.write_text(path.read_text().replace("prompts.csv", "demo"))
    with executed(path) as study:
        cells = study.runs().groupby(["level", "crossed"], observed=True).size()
        assert cells.index.tolist() == [(level, size) for level in ("zero", "few") for size in "SML"]
        assert [contrast.name for contrast in study.conditions("length").contrasts] == ["M-S", "L-M", "L-S"]
        assert study.conditions().contrasts[0].name == "few - zero"
        assert "prompt length" in str(study.findings())
    path.write_text(path.read_text() + STUDY["crossed"])
    with pytest.raises(InputError, match="differ in length, which is a factor too; choose a length"):
        _ = Study.load(path).plan


def test_what_is_sent_has_the_text_the_system_message_and_the_settings_of_its_level(finished):
    runs = {run.prompt.prompt_id: run.request for run in finished.plan.runs}
    few, policy = runs["q0_few_shot"], runs["q0_policy"]
    assert few.messages[0].content.startswith(
        "Example: after a stolen badge the badge is locked.\n\nQuestion"
    )
    assert [message.role for message in policy.messages] == ["system", "user"]
    assert (few.temperature, policy.temperature, policy.max_tokens) == (0.2, 0.7, 300)
    assert runs["q0_zero_shot"].messages[0].content == "What is the first step after report 0?"
    rows = finished.runs(base="q0", model="plain").sort_values("level")
    opened = open_runs(finished.plan, finished.store, rows, list(rows["run_id"]))
    assert opened[0].prompt == "What is the first step after report 0?"
    assert opened[2].prompt == f"System message: Follow the policy.\n\n{opened[0].prompt}"
    assert list(finished.runs()["level"].cat.categories) == ["zero_shot", "few_shot", "policy"]
    assert verify_study(finished).exit_code == 0


def test_nothing_on_the_way_speaks_of_length(finished, tmp_path):
    with without_pictures():
        finished.bundle(tmp_path / "bundle")
    texts = {path.name: path.read_text("utf-8") for path in tmp_path.rglob("*.t[ex]*[xt]")}
    texts["plan"] = register(finished, None, tmp_path / "plan.md") and (tmp_path / "plan.md").read_text(
        "utf-8"
    )
    texts["findings"] = str(finished.findings())
    texts["end"] = finished.ending(finished.execute(progress=False)).text
    speaking = {name: match[0] for name, text in texts.items() if (match := SPEAKS.search(text))}
    assert not speaking
    assert "examples in the prompt" in texts["methods.txt"] + texts["conditions.txt"]
    with pytest.raises(NotAnswerable, match="what is varied is shots"):
        finished.length()


@pytest.mark.parametrize(("factor", "more", "fault"), REFUSED)
def test_a_factor_that_cannot_be_is_one_clear_line(tmp_path, factor, more, fault):
    with pytest.raises((InputError, StudyError), match=re.escape(fault)) as refused:
        _ = Study.load(written(tmp_path, factor, more=more)).plan
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("rows", "factor", "fault"), TABLES)
def test_a_column_names_the_level_of_each_prompt(tmp_path, rows, factor, fault):
    path = written(tmp_path, factor, rows=rows)
    if fault:
        with pytest.raises((InputError, StudyError), match=re.escape(fault)):
            _ = Study.load(path).plan
        return
    prompts = {prompt.prompt_id: prompt for prompt in Study.load(path).plan.dataset.prompts}
    assert {(p.base, p.level) for p in prompts.values()} == {(b, v) for b in "ab" for v in ("old", "new")}


def test_a_text_of_a_level_that_changes_is_another_version_and_another_call(tmp_path):
    before = Study.load(written(tmp_path)).plan
    after = Study.load(written(tmp_path, STUDY["factor"].replace("{examples}", "{examples} Now:"))).plan
    assert before.dataset.version != after.dataset.version
    shared = {*before.call_ids} & {*after.call_ids}
    assert len(shared) == 2 * 2 * BASES  # two models, the two other levels


def test_a_plain_list_without_a_factor_is_a_study(tmp_path):
    """It counts prompts, speaks of no length, and its note stands above its findings."""
    with executed(written(tmp_path, "", more='note = "Asked in spring."')) as study:
        assert len(study.runs()) == 2 * BASES
        assert study.runs()["judged"].all()
        findings = study.findings()
        assert findings.sentences()[1] == "Asked in spring."
        ending = study.ending(study.execute(progress=False)).text
        assert ending.count("result ") == 3
        assert "Asked in spring" not in ending
        register(study, None, tmp_path / "plan.md")
        texts = [
            str(findings),
            ending,
            json.dumps(study.manifest()),
            (tmp_path / "plan.md").read_text("utf-8"),
        ]
        with pytest.raises(NotAnswerable, match="nothing is varied"):
            study.length()
        with without_pictures():
            study.bundle(tmp_path / "bundle", supplement=True)
        written_files = (tmp_path / "bundle").rglob("*.t[ex]*[xt]")
        texts += [path.read_text("utf-8") for path in written_files]
        assert not [
            match
            for text in texts
            if (match := SPEAKS.search(text) or re.search(r"\d bases|over bases", text))
        ]
        assert all(difference.n == {"prompts": BASES} for difference in study.compare_models().differences)


def test_an_effect_that_differs_by_scenario_has_the_error_of_welch():
    """Bell and McCaffrey's degrees of two groups are those of equal variances (Imbens & Kolesar 2016, section 3)."""
    rng, sizes = np.random.default_rng(3), {"p": 7, "q": 12}
    names = [(f"{name}{n}", name) for name, size in sizes.items() for n in range(size)]
    rows = [(*name, "x", level, rng.normal(level == "b", 0.5)) for name in names for level in "ab"]
    runs = pd.DataFrame(rows, columns=["base", "scenario", "model", "level", "composite_strict"])
    runs.attrs["levels"] = [*"ab"]
    found = compare_conditions(runs, contrasts=[("b", "a")]).by_scenario[0]
    cells = runs.pivot(index=["scenario", "base"], columns="level", values="composite_strict")
    gains = cells["b"] - cells["a"]
    welch = stats.ttest_ind(gains["p"], gains["q"], equal_var=False)
    degrees = sum(1 / n for n in sizes.values()) ** 2 / sum(1 / (n * n * (n - 1)) for n in sizes.values())
    assert abs(found.estimate) == pytest.approx(abs(gains["p"].mean() - gains["q"].mean()))
    assert found.degrees == pytest.approx(degrees)
    half = stats.t.ppf(0.975, degrees) * found.estimate / (welch.statistic or 1)
    assert found.high - found.estimate == pytest.approx(abs(half))


@pytest.mark.full
def test_intervals_of_a_factor_and_of_its_interaction_hold_their_level():
    """500 drawn studies of three levels: 93.5 to 96.5 % of the intervals have the planted value.

    An effect within one model only, one within a level of a second factor, and one within a scenario. The 1,000 studies
    from seed 0 hold it too, in twice the time.
    """
    effects, extra = {"a": 0.0, "b": 0.3, "c": 0.5}, 0.4
    inside = dict.fromkeys(("c - b", "model", "crossed", "scenario"), 0)
    for seed in range(500, 1000):
        rng = np.random.default_rng(seed)
        rows = [
            (f"b{base}", scenario, model, side, level, 3 + shared + effects[level])
            for base, (shared, scenario) in enumerate(
                zip(rng.normal(0, 0.5, 20), rng.choice([*"pq"], 20), strict=True)
            )
            for model in "xy"
            for side in "uv"
            for level in effects
        ]
        names = ["base", "scenario", "model", "crossed", "level", "composite_strict"]
        runs = pd.DataFrame(rows, columns=names)
        helped = {
            "model": runs["model"] == "y",
            "crossed": runs["crossed"] == "v",
            "scenario": runs["scenario"] == "p",
        }
        runs["composite_strict"] += extra * (runs["level"] == "c") * sum(helped.values())
        # How much a base gains is its own.
        gains = dict(zip(runs["base"].unique(), rng.normal(0, 0.3, 20), strict=True))
        runs["composite_strict"] += runs["base"].map(gains) * (runs["level"] == "c")
        runs["composite_strict"] += rng.normal(0, 0.3, len(runs))
        runs.attrs["levels"] = list(effects)
        found = compare_conditions(runs, crossed="crossed", contrasts=[("c", "b")])
        (contrast,) = found.contrasts
        inside["c - b"] += contrast.low <= 0.2 + 1.5 * extra <= contrast.high
        for by, group in (("model", "y"), ("crossed", "v"), ("scenario", "p")):
            differs = found.values[f"by_{by}"][0]
            sign = 1 if differs.facets[by] == group else -1
            inside[by] += differs.low <= sign * extra <= differs.high
    assert all(0.935 <= count / 500 <= 0.965 for count in inside.values())

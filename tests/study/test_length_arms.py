"""Length arms: composed and asked on request, out of every other analysis, checked, and parted by one analysis."""

import hashlib
import json
import random
import re
from itertools import pairwise

import pandas as pd
import pytest
from length_arms import base_of, facts_of, write_bases
from small_study import executed, without_pictures

from toolkit import Scores
from toolkit.adaptive.rounds import bank_of
from toolkit.audit.registration import register
from toolkit.audit.verify import verify_study
from toolkit.errors import InputError, NotAnswerable, StudyError
from toolkit.models import scripted
from toolkit.models.tokens import count_tokens
from toolkit.people.rating import rateable_replies
from toolkit.probes.job import balanced_sample, usable_replies
from toolkit.prompts.check import KINDS, check_dataset, check_summary
from toolkit.prompts.dataset import load_dataset
from toolkit.prompts.diff import diff_summary
from toolkit.runs.decisions import decided
from toolkit.stats import compare_conditions
from toolkit.study import Study
from toolkit.thesis.methods import sentences, what_was_done
from toolkit.words import LENGTH_ARMS

BASES, WITHOUT = 6, 1
PRICE = "usd_per_million_input = 1.0, usd_per_million_output = 2.0"
STUDY = """
name = "arms"
dataset = "{dataset}"
length_arms = {arms}
{more}
models = [{{ name = "facts", provider = "scripted", {price}, planted = {{ level = 2.0 }} }},
          {{ name = "words", provider = "scripted", {price}, planted = {{ level = 2.1 }} }}]
output = "results/arms"
[judges]
rubric = "seed-v1"
primary = {{ name = "judge-a", provider = "scripted", planted = {{}} }}
secondary = {{ name = "judge-b", provider = "scripted", planted = {{ severity = 0.1 }} }}
tertiary = {{ name = "judge-c", provider = "scripted", planted = {{}} }}
[analysis]
equivalence_margin = 0.3
"""
answer = scripted.planted_answer


def by_facts_or_words(truth, request, example, question=None):
    """Answer as a model that gains 1.5 points by all facts, or by 800 tokens, and by nothing else."""
    if example is not None:
        return answer(truth, request, example)
    text = request.messages[-1].content
    gain = text.count(" H") / 33 if truth["level"] == 2.0 else count_tokens(text) / 800
    case = hashlib.sha256(json.dumps([text, truth["level"]]).encode()).hexdigest()[:12]
    level = 2 + 1.5 * gain + random.Random(case).gauss(0, 0.1)
    return f"No language model wrote this reply (case {case}, planted quality {level:.2f})."


def study_in(folder, arms="true", more="", dataset=""):
    """Write bases and a study of them."""
    source = dataset or write_bases(folder / "bases", BASES, WITHOUT)
    path = folder / "arms.toml"
    path.write_text(STUDY.format(price=PRICE, arms=arms, dataset=source, more=more))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished study of two models, one that gains by facts and one by words."""
    path = study_in(tmp_path_factory.mktemp("arms"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripted, "planted_answer", by_facts_or_words)
        with executed(path) as study:
            yield study


def test_arms_are_composed_on_request_alone(tmp_path):
    folder = write_bases(tmp_path / "bases", 2, 1)
    plain, with_arms = load_dataset(folder), load_dataset(folder, length_arms=True)
    for path in folder.glob("base_0[01].toml"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if not line.startswith("arm_")))
    assert load_dataset(folder).digest == plain.digest != with_arms.digest
    assert len(plain.prompts) == 9
    first = {prompt.prompt_id: prompt for prompt in with_arms.prompts if prompt.base == "base_00"}
    assert [*first] == [f"base_00_{end}" for end in ("s", "m", "l", "nm", "nl", "lm")]
    arms = {p.metadata["length_arm"]: p.level for p in first.values() if "length_arm" in p.metadata}
    assert arms == LENGTH_ARMS
    s, nm, nl = (first[f"base_00_{end}"].text.partition("\n\nTask")[0] for end in ("s", "nm", "nl"))
    assert nm.startswith(s)
    assert nl.startswith(nm)
    assert {prompt.base for prompt in with_arms.prompts} == {"base_00", "base_01", "base_02"}


def test_a_table_has_arms_in_a_column_of_their_own(tmp_path):
    rows = [
        {"prompt_id": f"b_{end}", "text": f"text {end}", "scenario": "s", "category": "c", "length_bin": name}
        | ({"length_arm": arm} if arm else {})
        for end, name, arm in (("s", "S", ""), ("nm", "M", "neutral_m"))
    ]
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert len(load_dataset(path, check_ranges=False).prompts) == 1
    arm = load_dataset(path, check_ranges=False, length_arms=True).prompts[1]
    assert (arm.base, arm.metadata["length_arm"]) == ("b", "neutral_m")
    for value, words in (("neutral_l", "stands in length bin L, not in M"), ("neutral", "unknown value")):
        path.write_text(json.dumps(rows[1] | {"length_arm": value}))
        with pytest.raises(InputError, match=words):
            load_dataset(path, check_ranges=False, length_arms=True)


def test_background_goes_on_from_background(tmp_path):
    (tmp_path / "b.toml").write_text(base_of(1, arm_neutral_m=None))
    with pytest.raises(InputError, match="'arm_neutral_l' goes on from 'arm_neutral_m'"):
        load_dataset(tmp_path, length_arms=True)


def test_a_study_asks_arms_where_there_are_some(tmp_path):
    path = study_in(tmp_path, "false")
    plan = Study.load(path).plan
    assert len(plan.dataset.prompts) == 3 * (BASES + WITHOUT)
    assert decided(plan)["length_arms"] == "false"
    assert decided(Study.load(study_in(tmp_path)).plan)["length_arms"] == "true"
    with pytest.raises(StudyError, match="length_arms: dataset demo has none"):
        _ = Study.load(study_in(tmp_path, "true", dataset="demo")).plan
    with pytest.raises(StudyError, match="chooses bases by S, M and L alone"):
        Study.load(study_in(tmp_path, "true", 'selection = "adaptive"\ntarget_width = 1.0'))
    path = study_in(tmp_path)
    path.write_text(path.read_text().replace("[judges]", '[judges]\nmode = "pairs"'))
    with pytest.raises(StudyError, match="length_arms is about scores"):
        Study.load(path)
    path.write_text(path.read_text().replace('"pairs"', '"both"'))
    assert {pair.prompt_id[-2:] for pair in Study.load(path).plan.pairs} == {"_s", "_m", "_l"}


def test_no_other_analysis_sees_an_arm(finished):
    assert finished.runs()["length_arm"].value_counts().to_dict() == dict.fromkeys(LENGTH_ARMS, 2 * BASES)
    assert finished.judgements()["length_arm"].notna().sum() == 3 * 2 * 3 * BASES
    assert finished.prompts()["length_arm"].notna().sum() == 3 * BASES
    frames, plain = finished.frames(), finished.runs(level="M")
    for frame in (frames.runs, frames.judgements, frames.judge_means):
        assert len(frame)
        assert frame["length_arm"].isna().all()
    assert len(rateable_replies(finished.plan, finished.store)) == 2 * 3 * (BASES + WITHOUT)
    stored = usable_replies(finished.plan, finished.store)
    assert not any(reply.run.of_arm for reply in balanced_sample(stored, 99, 1))
    costs = bank_of(finished.plan)["cost"]  # of S, M and L, as large for a base with arms as for another one
    assert 0 < costs.max() < 1.01 * costs.min()
    mean = plain[plain["length_arm"].isna()].groupby("model")["composite"].mean()
    results = finished.results().set_index(["model", "name"])["estimate"]
    for model, value in mean.items():
        assert results[model, "mean composite, M"] == pytest.approx(value)
    assert finished.length().per_level[1].n["answers"] == 2 * (BASES + WITHOUT)


def test_the_analysis_finds_which_model_gains_by_what(finished):
    found = finished.conditions("length_arms")
    own = {(mean.facets["model"], mean.statistic): mean for mean in found.of_models}
    names = [contrast.name for contrast in found.contrasts]
    for model, gaining, idle in (("facts", names[3:], names[:3]), ("words", names[:3], names[3:])):
        assert all(own[model, name].low > 0.2 for name in gaining)
        assert all(own[model, name].low < 0 < own[model, name].high < 0.4 for name in idle[:2])
    assert {test.p_value < 0.05 for test in found.by_model} == {True}


def test_findings_say_in_words_which_prompts_are_compared(finished):
    """No name of an arm stands in a sentence for the thesis, but where models differ, which is said at once."""
    frame = finished.findings().frame()
    texts = frame[frame["question"] == "Conditions"]["statement"].tolist()
    assert texts[0].startswith(
        "Exploratory: within bases and on a scale of 0 to 5, the facts of S in the length of M "
    )
    assert texts.pop(1).startswith(
        "The effect of length and information is shown to differ by model in 6 of 6 tests"
    )
    assert texts[3].startswith("Exploratory: M prompts ")
    assert not any("neutral" in text or "short_l" in text for text in texts)


def test_contrasts_of_arms_are_within_bases_that_have_them(finished):
    found, lengths = finished.conditions("length_arms"), finished.frames().runs
    with_arms = lengths[lengths["base"] != "base_06"]
    totals = {total.name: total.estimate for total in compare_conditions(with_arms).contrasts}
    by_name = {contrast.name: contrast for contrast in found.contrasts}
    parts = [by_name["neutral_m - S"], by_name["M - neutral_m"]]
    assert sum(part.estimate for part in parts) == pytest.approx(totals["M-S"], abs=1e-12)
    assert {(str(part.n), part.missing) for part in found.contrasts} == {(str({"bases": BASES}), 0)}
    assert {part.correction for part in found.contrasts} == {"Holm over 6 contrasts"}
    assert [mean.name for mean in found.per_level] == ["S", "M", "L", "neutral_m", "neutral_l", "short_l"]
    assert len(found.equivalence) == 6


def test_status_figure_methods_registration_and_verify_work_with_arms(finished, tmp_path):
    planned = 2 * (3 * (BASES + WITHOUT) + 3 * BASES)
    assert finished.status()["runs"]["succeeded"] == planned
    with without_pictures():
        finished.figures(tmp_path, only=["conditions"])
    data = pd.read_csv(tmp_path / "figures" / "conditions.csv")
    rows = data.groupby("factor", sort=False).size()
    assert rows.to_dict() == {"prompt length": 12, "length and information": 24}  # half of them by model
    assert verify_study(finished).exit_code == 0
    register(finished, None, tmp_path / "registration.md")
    assert "- Length arms, which tell length from" in (tmp_path / "registration.md").read_text()
    done = what_was_done(finished.plan, finished.store, finished.frames(), finished.status(), {})
    design = " ".join(sentence.text for sentence in sentences("design", done))
    assert f"{3 * BASES} of these prompts, of {BASES} bases, are length arms" in design
    assert (
        sum(answer.calls for answer in done.answers) == 4 * planned
    )  # no judgement of an arm passes for one asked again


def test_a_study_says_which_factors_it_has_and_what_another_one_takes(study, finished):
    with pytest.raises(NotAnswerable, match=r"set length_arms = true.* Factors here: length$"):
        study.conditions("length_arms")
    with pytest.raises(NotAnswerable, match=r"no factor 'shots'\. Factors here: length and length_arms$"):
        finished.conditions("shots")
    assert study.frames().runs_with_arms.empty


def test_scores_of_arms_are_left_out_where_frames_are_read_again(tmp_path):
    path = tmp_path / "runs.csv"
    rows = ["base,level,length_arm,model,judge,score"]
    rows += [
        f"b{b},{name},{arm},m,j,{3 + b % 2}"
        for b in range(4)
        for name, arm in (("S", ""), ("M", "neutral_m"))
    ]
    path.write_text("\n".join(rows))
    scores = Scores.load(path)
    assert len(scores.frames().runs) == 4
    assert any("4 rows of prompts of length arms are left out" in note for note in scores.notes)


def problems_of(folder, **changes):
    """Return kind and sentence of each problem of one base with arms."""
    folder.mkdir(exist_ok=True)
    (folder / "base.toml").write_text(base_of(1, **changes))
    dataset = load_dataset(folder, check_ranges=False, length_arms=True)
    return [f"{problem.kind} {problem.prompt_id}: {problem.what}" for problem in check_dataset(dataset)]


def test_the_check_finds_what_is_wrong_with_an_arm(tmp_path):
    short = [fact for _, fact in facts_of(1)]
    assert problems_of(tmp_path) == []
    assert problems_of(tmp_path, arm_short=None) == [
        "arms base_01_nm: base base_01 has length arms and lacks short_l"
    ]
    (lost,) = problems_of(tmp_path, arm_short=short[:-1])
    assert lost == "arm_facts base_01_lm: has 32 facts, L has 33"
    (line,) = problems_of(tmp_path, arm_short=[short[0].replace("00:11", "00:12"), *short[1:]])
    assert line.startswith("arm_facts base_01_lm: fact 1 lacks 00:11 and adds 00:12")
    background = [
        f"The room {number} of the old house has 21 chairs and a table, and serves for tea at noon."
        for number in range(300, 312)
    ]
    facts = [fact for fact, _ in facts_of(1)]
    (absent,) = problems_of(tmp_path, arm_neutral_m=[facts[6], *background[1:]], arm_neutral_l=[])[:1]
    assert "lacks neutral_l" in absent
    problems = problems_of(tmp_path, arm_neutral_m=[facts[6], *background[1:]])
    assert [line.partition(", the first")[0] for line in problems] == [
        "arm_facts base_01_nm: has 1 fact of M or L", "arm_facts base_01_nl: has 1 fact of M or L"
    ]  # fmt: skip
    problems = problems_of(tmp_path, arm_neutral_m=background[:-2])
    assert [line.partition(" of the ")[0] for line in problems if line.startswith("arm")] == [
        "arm_length base_01_nm: has 424 tokens (o200k_base), -10.2%",
        "arm_length base_01_nl: has 784 tokens (o200k_base), -5.8%",
        "arm_length base_01_lm: has 469 tokens (o200k_base), +10.6%",
    ]
    assert {"arms", "arm_facts", "arm_length"} <= KINDS.keys()


def folder_problems(folder, bases, **changes):
    """Return kind and sentence of each problem of arms of several bases, all changed alike."""
    write_bases(folder, bases)
    for base in range(bases):
        (folder / f"base_{base:02d}.toml").write_text(base_of(base, **changes))
    problems = check_dataset(load_dataset(folder, check_ranges=False, length_arms=True))
    return [f"{problem.kind}: {problem.what}" for problem in problems if problem.kind.startswith("arm")]


def test_small_differences_in_one_direction_are_told_over_all_bases(tmp_path):
    """Of each base within a twentieth; of one base alone there is no mean."""
    background = [
        f"The room {number} has 21 chairs and a table, and serves for tea." for number in range(300, 315)
    ]
    assert folder_problems(tmp_path / "alike", 3) == []
    longer = {"arm_neutral_m": background}
    assert [line.partition(", or")[0] for line in folder_problems(tmp_path / "longer", 3, **longer)] == [
        "arm_length: arm neutral_m is -3.8% of M on average over bases",
        "arm_length: arm neutral_l is -2.2% of L on average over bases",
        "arm_length: arm short_l is +3.3% of neutral_m on average over bases",
    ]
    assert folder_problems(tmp_path / "two", 2, **longer) == []


def test_facts_of_longer_prompts_stand_anywhere_by_the_seed_of_the_dataset(tmp_path):
    """Each list keeps its order, S stands in M and M in L, short facts stand where long ones do; no seed, no mixing."""
    folder = write_bases(tmp_path / "bases", 3)

    def orders(seed):
        (folder / "dataset.toml").write_text("" if seed is None else f"seed = {seed}\n")
        prompts = load_dataset(folder, check_ranges=False, length_arms=True).prompts
        return {prompt.prompt_id: re.findall(r"\n- (.*)", prompt.text) for prompt in prompts}

    plain, mixed = orders(None), orders(7)
    assert plain["base_00_m"][:6] == plain["base_00_s"]
    assert orders(7) == mixed != orders(8)
    for base in range(3):
        long, short = zip(*facts_of(base), strict=True)
        s, m, texts = mixed[f"base_0{base}_s"], mixed[f"base_0{base}_m"], mixed[f"base_0{base}_l"]
        assert sorted(texts) == sorted(long) != list(texts)
        assert [fact for fact in m if fact in s] == s == plain[f"base_0{base}_s"]
        assert [fact for fact in texts if fact in m] == m
        assert mixed[f"base_0{base}_lm"] == [short[long.index(fact)] for fact in texts]
        assert [fact for fact in mixed[f"base_0{base}_nl"] if fact in s] == s
    slots = {tuple(map(mixed[f"base_0{base}_m"].index, mixed[f"base_0{base}_s"])) for base in range(3)}
    assert len(slots) > 1


def test_the_summary_counts_arms_apart(tmp_path):
    folder = write_bases(tmp_path / "bases", 2, 1)
    summary = check_summary(folder)
    assert summary.fields["length_arms"] == dict.fromkeys(LENGTH_ARMS, 2)
    assert summary.fields["prompts"] == 9
    assert summary.fields["digest"] == load_dataset(folder).digest
    assert "of length arms 6 (neutral_m 2, neutral_l 2, short_l 2), problems 0" in summary.text
    bins = summary.fields["length_bins"].values()
    assert all(a == b for a, b in pairwise(bins))


def test_a_changed_arm_is_a_difference_and_leaves_the_digest_alone(tmp_path):
    before, after = (write_bases(tmp_path / name, 1) for name in ("before", "after"))
    path = after / "base_00.toml"
    path.write_text(path.read_text().replace("The room 300 ", "The room 299 "))
    problems = diff_summary(before, after)
    assert {change["prompt_id"] for change in problems.fields["changes"]} == {"base_00_nm", "base_00_nl"}
    assert problems.fields["after"]["digest"] == load_dataset(after).digest

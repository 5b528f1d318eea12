"""A study whose truth is in its file: what is found has it, and a truth that is not planted is found out."""

import json
import random
import re

import pytest
from places import PLANTED
from small_study import executed

from toolkit.audit.verify import verify_study
from toolkit.errors import StudyError
from toolkit.getting_started.demo import planted_and_found
from toolkit.judges.parse import parse_judgement
from toolkit.judges.request import JudgeSpec, judge_request
from toolkit.judges.rubric import load_rubric
from toolkit.models.entries import ModelEntry
from toolkit.models.scripted import example_of, planted_answer
from toolkit.study import Study
from toolkit.words import DIMENSIONS

RUBRIC = load_rubric("default")


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The planted study of the demo, finished."""
    path = tmp_path_factory.mktemp("planted") / "planted.toml"
    path.write_text(PLANTED.read_text(encoding="utf-8").replace("../results", "results"))
    with executed(path) as study:
        yield study


def test_every_planted_value_is_in_its_interval(planted):
    found = planted_and_found(planted).set_index("what")
    assert found["inside"].all(), found
    assert found.loc[["M-S", "L-M", "leniency of tertiary"], "planted"].tolist() == pytest.approx(
        [0.3, 0, -0.4]
    )
    assert planted.length().contrasts[0].remarks.startswith("confirmatory")
    assert planted.run(progress=False)["new_calls"] == 0


def test_the_bundle_is_short_and_its_supplement_holds_all_the_rest(planted, tmp_path, no_pictures):
    """Five figures and three tables at most, referred to once and in order; what nobody asked for is not mentioned."""
    short, whole = (
        planted.bundle(tmp_path / name, supplement=name == "whole") for name in ("short", "whole")
    )
    figures = [part.name for part in short.shown if part.folder == "figures"]
    names = ["quality_by_length", "conditions", "judge_agreement", "model_means", "cost_quality"]
    assert (figures, [part.place for part in short.shown][5:]) == (
        names,
        ["tables/length", "tables/reliability"],
    )
    findings = (tmp_path / "short" / "findings.txt").read_text()
    for kind, count in (("Figure", 5), ("Table", 2)):
        assert re.findall(rf"{kind} (\d+)", findings) == [str(number + 1) for number in range(count)]
    labels = re.findall(r"ref\{(\w+:planted:[\w-]+)\}", (tmp_path / "short" / "findings.tex").read_text())
    inputs = re.findall(r"(\w+)s/([\w]+)\.tex", (tmp_path / "short" / "figures.tex").read_text())
    pages = [f"{kind[:3]}:planted:{name.replace('_', '-')}" for kind, name in inputs]
    assert sorted(labels) == sorted(pages)
    for kind in ("fig", "tab"):
        assert [label for label in labels if label[:3] == kind] == [
            label for label in pages if label[:3] == kind
        ]
    texts = "".join(
        path.read_text() for path in short if path.suffix in (".tex", ".txt") and "all" not in path.name
    )
    for unasked in (
        "not answered",
        "Judges and people",
        "cannot give",
        "ICC(1,1)",
        "generalizability",
        "hallucinat",
    ):
        assert unasked not in texts, unasked
    assert {path.name for path in planted.figures(tmp_path / "all")} - {"left_out.txt"} <= {
        path.name for path in whole
    }
    assert {path.name for path in planted.statistics(tmp_path / "all")} <= {path.name for path in whole}
    supplement = (tmp_path / "whole" / "supplement.tex").read_text()
    for part in whole.shown:
        assert (f"{part.place}.tex" in supplement) == (part.place not in [main.place for main in short.shown])
    assert "generalizability theory" in supplement
    assert "ICC(C,k)" in (tmp_path / "whole" / "statistics" / "reliability.tex").read_text()


def test_a_truth_that_is_not_planted_is_found_out(planted):
    """The same replies held against another study file."""
    other = planted.file.models[0].planted.model_copy(update={"m_minus_s": 0.0, "level": 3.3})
    entries = tuple(entry.model_copy(update={"planted": other}) for entry in planted.file.models[:1])
    wrong = Study.load(planted.path)
    wrong.file = planted.file.model_copy(update={"models": entries + planted.file.models[1:]})
    wrong.plan = planted.plan
    found = planted_and_found(wrong).set_index("what")["inside"]
    wrong.close()
    for what, inside in found.items():
        assert inside == (what not in ("M-S", "planted-a - planted-b", "planted-a - planted-c")), what


def test_where_nothing_is_planted_there_is_no_table(study):
    assert planted_and_found(study).empty


def test_bases_are_drawn_by_the_seed_and_too_many_are_refused(planted, tmp_path):
    bases = {run.prompt.prompt_id.rpartition("_")[0] for run in planted.plan.runs}
    assert len(bases) == 36
    for line, words in (("bases = 101", "have 100"), ("bases = 0", "bases")):
        path = tmp_path / "study.toml"
        path.write_text(PLANTED.read_text(encoding="utf-8").replace("bases = 36", line))
        with pytest.raises(StudyError, match=words):
            _ = Study.load(path).plan


def test_a_real_model_cannot_be_given_a_truth(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text('name = "s"\nmodels = [{ name = "gpt-4o", planted = { level = 5 } }]\n')
    with pytest.raises(StudyError, match="planted is for provider"):
        Study.load(path)


def test_another_truth_is_another_model():
    """Calls of a truth that was changed are not taken from the ledger."""
    truths = [{"level": 3.0}, {"level": 3.0}, {"level": 2.6}]
    ends = [ModelEntry(name="m", provider="scripted", planted=truth).spec.endpoint for truth in truths]
    assert ends[0] == ends[1] != ends[2]


OPTIONAL = {
    "tone": RUBRIC.dimensions[0].model_copy(update={"name": "tone", "optional": True}),
    "proof": RUBRIC.dimensions[0].model_copy(update={"name": "proof"}),
}


@pytest.mark.parametrize("names", [("tone", "proof"), ("proof", "tone"), ("tone",)])
def test_a_planted_judge_scores_a_dimension_that_may_be_null(names):
    """It takes the rubric's steps for its scale, and null for none of them."""
    rubric = RUBRIC.model_copy(update={"dimensions": tuple(map(OPTIONAL.get, names))})
    judge = JudgeSpec("primary", "a", "scripted", "a", structured=True, seed=7)
    reply = "No language model wrote this reply (case 0123456789ab, planted quality 3.90)."
    request = judge_request(judge, rubric, task="T", response=reply)
    truth, schema = {"severity": 0.0, "failures": 0.0}, json.loads(request.response_schema)
    for seed in range(20):  # of the example, which may have a null
        answer = planted_answer(truth, request, example_of(schema, random.Random(seed)))
        read = parse_judgement(answer, rubric)
        assert {*read.scores} == {*names}
        assert all(score in (3, 4, 5) for score in read.scores.values())
        assert read.reasons.count("weakest in") == len(names)
    request = judge_request(judge, RUBRIC, task="T", response=reply)
    nothing = dict.fromkeys(json.loads(request.response_schema)["properties"])
    assert {*parse_judgement(planted_answer(truth, request, nothing), RUBRIC).scores} == {*DIMENSIONS}


def test_what_a_scripted_judge_leaves_null_is_missing_in_every_frame(study):
    """Its six other scores count; the composite of the reply is the mean of the judges' own."""
    judgements, runs = study.judgements(), study.runs().set_index("run_id")
    null = judgements["compliance_alignment"].isna()
    assert 0 < null.sum() < len(judgements)
    assert not judgements["failed"].any()
    scores = judgements[[*DIMENSIONS]]
    assert judgements["composite_strict"].tolist() == pytest.approx(scores.mean(axis=1).tolist())
    of_runs = judgements.groupby("run_id")["composite_strict"].mean()
    assert runs["composite_strict"].to_dict() == pytest.approx(of_runs.to_dict())
    enough = judgements.groupby("run_id")["compliance_alignment"].count() >= 2
    assert (runs["compliance_alignment"].notna() == enough.reindex(runs.index)).all()
    assert (judgements["reasons"].str.count("\n") == 6).all()
    assert verify_study(study).exit_code == 0

"""A rubric of one's own, four dimensions on 1-10 with weights, goes through a whole study: nothing of 0-5 is left."""

import json
import re
import shutil

import pandas as pd
import pytest
from cases import cases
from places import TEMPLATES
from small_study import executed

from toolkit.audit.export import export_study
from toolkit.audit.verify import verify_study
from toolkit.audit.verify_export import verify_export
from toolkit.errors import InputError, StudyError
from toolkit.judges.judgement import Judgement, with_scores
from toolkit.judges.parse import Unreadable, parse_judgement
from toolkit.judges.request import JudgeSpec, Manner, answer_schema, judge_request
from toolkit.judges.rubric import Rubric, load_rubric, scheme_in
from toolkit.people.desk import typed_score
from toolkit.people.ratings_file import import_ratings
from toolkit.probes.job import probe_judges
from toolkit.scoring import SEED_SCHEME, Scheme
from toolkit.study import Study
from toolkit.words import DIMENSIONS

pytestmark = pytest.mark.usefixtures("no_pictures")

EXAMPLE = TEMPLATES / "rubrics" / "example.toml"
RUBRIC = load_rubric(EXAMPLE)
NAMES = RUBRIC.names
HEAD = ",".join(NAMES)
GOOD = {"reasons": "ok", **dict.fromkeys(NAMES, 8), "priority": 6}
REPLIES = [json.dumps(GOOD), json.dumps({**GOOD, "priority": 11}), json.dumps({**GOOD, "containment": 0})]
STUDY = f"""
name = "own"
dataset = "mine.csv"
accept_flaws = ["range", "length_bins", "containment", "copied_base", "same_text", "balance", "readability"]
output = "results/own"
models = [
    {{ name = "m1", provider = "scripted", planted = {{ level = 4.8 }} }},
    {{ name = "m2", provider = "scripted", planted = {{ level = 3.0 }} }},
]
[judges]
rubric = "example.toml"
primary = {{ name = "judge-a", provider = "scripted", planted = {{}} }}
secondary = {{ name = "judge-b", provider = "scripted", planted = {{ severity = 1.0 }} }}
tertiary = {{ name = "judge-c", provider = "scripted", replies = {json.dumps(REPLIES)} }}
[analysis]
equivalence_margin = 6.0
"""


def written(folder, text=STUDY):
    rows = ["prompt_id,text,scenario,category,length_bin,base"]
    for number in range(5):
        for name in "SML":
            text_of = (
                f"Case {number} of the night shift. "
                + "What is to be done? " * {"S": 1, "M": 2, "L": 3}[name]
            )
            rows.append(
                f"b{number}_{name.lower()},{text_of},{('CLOUD', 'OT')[number % 2]},leak,{name},b{number}"
            )
    (folder / "mine.csv").write_text("\n".join(rows) + "\n")
    shutil.copy(EXAMPLE, folder / "example.toml")
    path = folder / "own.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    with executed(written(tmp_path_factory.mktemp("own"))) as study:
        yield study


def test_judges_score_on_the_rubrics_scale_and_the_composite_is_its_weighted_mean(study):
    """A reply off the scale is shown to its judge once, and has no score where it stays so."""
    runs, judgements = study.runs(), study.judgements()
    assert not {*DIMENSIONS} & {*runs.columns, *judgements.columns}
    read = judgements[~judgements["failed"]]
    assert read[list(NAMES)].stack().between(1, 10).all()
    assert read[list(NAMES)].stack().max() > 5
    expected = (
        3 * read["correctness"] + 2 * read["containment"] + read["priority"] + read["plain_words"]
    ) / 7
    assert read["composite_strict"].to_numpy() == pytest.approx(expected.to_numpy())
    assert read["composite"].to_numpy() == pytest.approx(expected.to_numpy())
    failed = judgements.loc[judgements["failed"], "failure"]
    assert len(failed)
    assert failed.str.match(r"out of scale: (priority is 11|containment is 0), the scale is 1 to 10").all()
    assert judgements["repaired"].any()
    assert runs["judged"].all()
    means = runs.groupby("model")["composite_strict"].mean()
    assert (means["m1"], means["m2"]) == pytest.approx((5.2, 3.9), abs=0.8)
    assert study.compare_models().frame()["estimate"].notna().all()
    assert {*study.dimensions()["dimension"]} == {*NAMES}
    assert study.dictionary("runs").set_index("column").loc["plain_words", "unit"] == "points, 1-10"


def test_a_finished_study_asks_nothing_and_another_rubric_keeps_both(study):
    assert study.execute(progress=False).new_calls == 0
    assert verify_study(study).exit_code == 0
    before = study.judgements()
    other = study.path.with_name("other.toml")
    other.write_text(STUDY.replace('rubric = "example.toml"', 'rubric = "default"').replace("6.0", "0.5")
                     .replace(f"replies = {json.dumps(REPLIES)}", "planted = {}").replace("8.0", "4.5"))  # fmt: skip
    rejudged = Study.load(other)
    assert not rejudged.runs()["judged"].any()  # scores on another scale are no scores of this rubric
    rejudged.execute(progress=False, limit=4)
    assert rejudged.runs()["judged"].sum() == 4
    assert rejudged.runs()["composite_strict"].max() <= 5
    assert {*DIMENSIONS} <= {*rejudged.judgements().columns}
    assert study.runs()["judged"].sum() == 26
    again = Study.load(study.path)
    assert again.execute(progress=False).new_calls == 0
    pd.testing.assert_frame_equal(again.judgements(), before)
    for opened in (rejudged, again):
        opened.close()


def test_ratings_of_people_are_of_the_rubric(study, tmp_path):
    """Off its scale, or by a dimension of the default rubric, a line is refused with its number."""
    runs = study.runs()["run_id"].tolist()
    path = tmp_path / "ratings.csv"

    def rated(scores, head=HEAD):
        path.write_text(f"run_id,{head}\n" + "".join(f"{run},{scores}\n" for run in runs[:6]))
        import_ratings(study.plan, study.store, path, "anna")

    for scores, head, reason in (
        ("0,1,1,1", ",".join(NAMES), "line 2, column correctness: 0 is outside the scale 1-10"),
        ("1", "clarity", "the column 'clarity' is unknown"),
    ):
        with pytest.raises(InputError, match=reason):
            rated(scores, head)
    rated("10,7,7,7")
    human = study.human()
    assert human["composite"].tolist() == pytest.approx([(30 + 14 + 7 + 7) / 7] * 6)
    assert study.calibration().means["all"].calibrated.unit == "score points (1-10)"
    assert verify_study(study).exit_code == 0
    assert [typed_score(text, study.plan.rubric) for text in ("10", "1")] == [10, 1]
    with pytest.raises(InputError, match="write 1 to 10 in steps of 1 like 9"):
        typed_score("0", study.plan.rubric)


def test_figures_tables_and_the_bundle_say_1_to_10_with_the_titles(study, tmp_path):
    files = study.bundle(tmp_path / "bundle")
    texts = {
        path.name: path.read_text("utf-8")
        for path in files
        if path.suffix in (".tex", ".md", ".csv", ".json")
    }
    everything = "\n".join(texts.values())
    for stale in ("0-5", "0--5", "0 to 5", "zeros out", "technical accuracy"):
        whole = re.compile(rf"(?<!\d){stale}(?!\d)")
        assert not whole.search(everything), [name for name, text in texts.items() if whole.search(text)]
    methods = next(text for name, text in texts.items() if name.startswith("methods"))
    assert "scores of 1 to 10 on correctness, containment, priority and plain words" in " ".join(
        methods.split()
    )
    assert (
        "weighted mean of its scores, in which every score counts; the weights are 3 for correctness"
        in " ".join(methods.split())
    )
    others = "\n".join(text for name, text in texts.items() if not name.startswith("methods"))
    assert "plain words" in others
    assert "plain_words" not in "\n".join(text for name, text in texts.items() if name.endswith(".tex"))
    assert {estimate.unit for _, estimate in study.length().rows() if "point" in estimate.unit} == {
        "score points (1-10)"
    }
    ceiling = study.ceiling()
    assert ceiling.frame()["estimate"].dropna().between(0, 1).all()


def test_probes_go_by_the_scale(study):
    """A move of a tenth of the scale is one that a reader sees."""
    result = probe_judges(study.plan, study.store, replies=2, attacks=1, progress=False)
    shifts = result.shifts().shifts
    assert {shift.shift.unit for shift in shifts} == {"score points (1-10)"}
    assert all("0.9 or more" in shift.harmed.name for shift in shifts)
    assert result.frame()["original"].dropna().between(1, 10).all()


def test_what_is_exported_is_read_again_with_its_dimensions_and_scale(study, tmp_path):
    export_study(study, tmp_path / "out")
    back = pd.read_parquet(tmp_path / "out/judgements.parquet")
    pd.testing.assert_frame_equal(back, study.judgements(), check_flags=False)
    assert "points, 1-10" in (tmp_path / "out/data_dictionary.md").read_text()
    assert verify_export(tmp_path / "out").exit_code == 0


def of(names, scale, step=None, **weights):
    dimensions = [{"name": n, "title": n, "question": "?", "weight": weights.get(n, 1.0)} for n in names]
    text = {"name": "r", "version": "1", "template": "{response_content} {criteria} {scale} {step}"}
    return Rubric.model_validate({**text, "dimensions": dimensions, "scale": list(scale), "step": step})


@pytest.mark.parametrize(
    ("names", "scale", "step", "steps", "off"),
    cases(__file__)["scales"],
)
def test_any_dimensions_on_any_scale(names, scale, step, steps, off):
    """Schema, reading, composite: a score of 0 counts, also on a scale that begins there or below."""
    rubric = of(names, scale, step or None)
    schema = json.loads(answer_schema(rubric))["properties"]
    assert [*schema] == names
    assert (len(schema[names[0]]["enum"]), schema[names[0]]["enum"][0], schema[names[0]]["enum"][-1]) == (
        steps,
        *scale,
    )
    low = parse_judgement(json.dumps(dict.fromkeys(names, scale[0])), rubric).scores
    judgement = with_scores(Judgement("j", "m", "r", "d"), low, rubric.scheme)
    assert (judgement.composite, judgement.composite_strict, judgement.zeros) == (scale[0], scale[0], 0)
    mixed = {name: scale[number % 2] for number, name in enumerate(names)}
    assert rubric.scheme.composite(mixed) == pytest.approx(sum(mixed.values()) / len(names))
    with pytest.raises(Unreadable, match="out of scale"):
        parse_judgement(json.dumps({**dict.fromkeys(names, scale[1]), names[-1]: off}), rubric)
    request = judge_request(
        JudgeSpec("primary", "a", "scripted", "a"), rubric, task="", response="R", manner=Manner()
    )
    assert f"{scale[0]:g} to {scale[1]:g} {rubric.distance:g}" in request.messages[-1].content
    assert scheme_in(rubric.content) == rubric.scheme


def test_weights_and_steps_are_in_the_content_only_where_they_are_set():
    """So the seed's rubric has the digest of before; the seed's composite is defined for the shipped ones alone."""
    default, seed = load_rubric("default"), load_rubric("seed-v1")
    assert '"weight"' not in default.content
    assert default.content.count('"optional"') == default.content.count('"step"') == 1
    assert not [key for key in ("weight", "optional", "step") if f'"{key}"' in seed.content]
    assert default.scheme == scheme_in(default.content) == SEED_SCHEME
    assert of(["a", "b"], (0, 5)).digest != of(["a", "b"], (0, 5), a=2.0).digest
    weighted = Scheme(DIMENSIONS, (2.0, *(1.0,) * 6), (0.0, 5.0))
    scores = {**dict.fromkeys(DIMENSIONS, 4.0), DIMENSIONS[0]: 0.0}
    assert (SEED_SCHEME.composite(scores), SEED_SCHEME.zeros(scores)) == (4.0, 1)
    assert (weighted.composite(scores), weighted.strict(scores), weighted.zeros(scores)) == (3.0, 3.0, 0)
    assert weighted.strict({DIMENSIONS[1]: 3.0, DIMENSIONS[2]: None}) == 3.0
    assert weighted.strict({}) is None


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    cases(__file__)["refused"],
)
def test_what_does_not_fit_the_rubric_is_one_line(tmp_path, old, new, reason):
    path = written(tmp_path, STUDY.replace(old, new, 1))
    mine = tmp_path / "example.toml"
    mine.write_text(mine.read_text().replace('scope = "whole"', ""))
    with pytest.raises(StudyError, match=reason) as error:
        Study.load(path)
    assert "\n" not in str(error.value)

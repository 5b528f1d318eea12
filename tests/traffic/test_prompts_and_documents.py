"""Prompts and documents of a study's own: crossed, read beside the study, decided and exported with it, or refused."""

import shutil

import pytest
from cases import cases

from toolkit import Study
from toolkit.audit.export import export_study
from toolkit.audit.verify_export import verify_export
from toolkit.errors import InputError, NotAnswerable
from toolkit.traffic.one_shot import OneShotTest

QUESTION = "plain_gets_requests"
PLACED = {"id": "v2", "text": "Read {document}|{csv}|{question}"}
BARE = {"id": "v1", "text": "{question} {csv}"}
NONE = {"id": "none", "text": ""}
RFC = {"id": "rfc", "text": "{csv} 404 is not found"}
STUDY = """
name = "shots"
test = "one_shot"
repeats = 2
output = "results/shots"
judges = { primary = false, secondary = false, tertiary = false }
models = [{ name = "reader", provider = "scripted", replies = [
  '{"claims": [{"value": 5, "of": {"measure": "count", "filter": {"method": "GET"}}, "rows": "all"}]}',
  '{"claims": [{"value": 4, "of": {"measure": "count", "filter": {"method": "GET"}}, "rows": "all"}]}'] }]
[options]
samples = ["plain_gets"]
only = ["plain_gets_requests", "plain_gets_host"]
[[options.prompts]]
id = "v1"
text = "{question} {csv}"
[[options.prompts]]
id = "v2"
file = "prompts/v2.prompt"
[[options.documents]]
id = "none"
text = ""
[[options.documents]]
id = "rfc"
file = "rfc.html"
"""


@pytest.fixture
def path(tmp_path, store_folder):
    """A study of two prompts and a document, in files beside it."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "v2.prompt").write_text("Read this: {document}\n{csv}\n{question}")
    (tmp_path / "rfc.html").write_text("<p>A request has a method.</p>")
    (tmp_path / "shots.toml").write_text(STUDY)
    return tmp_path / "shots.toml"


def texts(**options):
    return {
        item.item_id: item.prompts[0].text
        for item in OneShotTest(only=[QUESTION], **options).make_test_items()
    }


def test_every_prompt_meets_every_document_and_what_is_inserted_is_no_placeholder():
    """A prompt without a place is asked once; one document alone needs no level without."""
    crossed = texts(prompts=["plain", BARE, PLACED], documents=[NONE, RFC])
    assert [*crossed] == [f"{name}/{QUESTION}" for name in ("plain", "v1", "v2/none", "v2/rfc")]
    assert crossed[f"v2/none/{QUESTION}"].startswith("Read |")
    assert crossed[f"v2/rfc/{QUESTION}"].startswith("Read {csv} 404 is not found|")
    assert crossed[f"plain/{QUESTION}"] == texts()[f"plain/{QUESTION}"]
    assert [*texts(prompts=[PLACED], documents=[RFC])] == [f"v2/rfc/{QUESTION}"]


@pytest.mark.parametrize(("options", "lines"), cases(__file__))
def test_what_cannot_be_asked_is_refused_with_all_its_faults_a_line_each(options, lines, tmp_path):
    (tmp_path / "v2.txt").touch()
    with pytest.raises(InputError) as caught:
        texts(folder=tmp_path, **options)
    faults = str(caught.value).splitlines()
    assert len(faults) == len(lines), faults
    for fault, line in zip(faults, lines, strict=True):
        assert fault.startswith("options")
        assert line in fault


def test_frames_results_and_findings_have_the_document_and_its_difference(path):
    with Study.load(path) as study:
        study.execute(progress=False)
        for frame in (study.experiments(), study.methods()):
            levels = frame[["variant", "document"]].drop_duplicates().to_numpy().tolist()
            assert levels == [["v1", "none"], ["v2", "none"], ["v2", "rfc"]]
        names = study.results()["name"].tolist()
        assert names == [kind.name for kind in study.plan.test.result_types()]
        assert study.frames().factors == ("variant", "document")
        by_prompt, by_document = study.conditions(), study.conditions("document")
        assert (by_prompt.title, by_document.contrasts[0].name) == ("prompt", "rfc - none")
        with pytest.raises(
            NotAnswerable, match=r"one-shot test with two models; .* Factors here: variant and d"
        ):
            study.conditions("model")
        findings = str(study.findings())
        assert "with the prompt v2 and the document rfc" in findings
        assert "on a scale of -0.5 to 1, the document rfc" in findings


def test_what_several_samples_are_asked_in_the_same_words_is_one_base(path):
    """Samples are compared by these questions alone; one of its own sample is left out and is not missing."""
    names = "login_post_statuses", "redirects_and_404s_statuses", "plain_gets_host"
    asked = ", ".join(f'"{name}"' for name in names)
    text = path.read_text().replace('samples = ["plain_gets"]', "").replace('"plain_gets_requests", ', "")
    path.write_text(text.replace('"plain_gets_host"', asked))
    with Study.load(path) as study:
        study.execute(progress=False)
        compared = study.conditions("sample")
        (contrast,) = compared.contrasts
        assert contrast.name == "redirects_and_404s - login_post"
        assert (contrast.estimate, contrast.n, contrast.missing) == (None, {"bases": 1}, 0)
        assert [mean.n for mean in compared.per_level] == [{"bases": 1, "methods": 3}] * 2
        assert study.conditions("variant").contrasts[0].n == {"bases": 2}


def test_an_export_is_enough_to_plan_the_study_anew(path, tmp_path):
    """Its texts are there, whatever their names end in; a document that changes is a change of what was decided."""
    with Study.load(path) as study:
        study.execute(progress=False)
        requests = study.plan.runs.call_ids
        export_study(study, tmp_path / "out")
    copy = tmp_path / "elsewhere"
    shutil.move(tmp_path / "out" / "study", copy)
    assert Study.load(copy / "shots.toml").plan.runs.call_ids == requests
    shutil.move(copy, tmp_path / "out" / "study")
    summary = verify_export(tmp_path / "out")
    assert (summary.fields["agrees"], summary.fields["note"]) == (True, None)
    (tmp_path / "rfc.html").write_text("<p>Another text.</p>")
    with Study.load(path) as study:
        assert "content of the dataset" in study.deviations()["what"].tolist()

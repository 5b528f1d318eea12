"""A study file means what it says, and a fault in it is one line with the file, the key and what is allowed."""

import json
import re
from datetime import date
from importlib import resources

import pytest
from cases import cases
from places import TEMPLATES
from refusals import refusal

from toolkit.errors import StudyError, ToolkitError
from toolkit.hallucination.labelled import LabelledItem
from toolkit.hallucination.votes import hallucination_requests
from toolkit.models.catalogue import model_spec
from toolkit.models.entries import Judge, ModelEntry, Sampling
from toolkit.plan import make_plan
from toolkit.study_file import (
    Analysis,
    BiasControls,
    Budget,
    Judges,
    Limit,
    Replies,
    StudyFile,
    load_study_file,
)

CASES = cases(__file__)

BEGIN = 'name = "p"\nmodels = ["gpt-4o"]\n'


def load(folder, text):
    (folder / "s.toml").write_text(text)
    return load_study_file(folder / "s.toml")[0]


def test_defaults_are_the_seeds(tmp_path):
    """Temperature, lengths and judges of seed 002 hold when the file does not say otherwise."""
    study = load(tmp_path, BEGIN)
    assert (study.sampling.temperature, study.sampling.max_tokens) == (0.2, 2000)
    assert (study.judges.temperature, study.judges.max_tokens) == (0.1, 1000)
    judges = {role: judge.name for role, judge in study.judges.by_role().items()}
    assert judges == {"primary": "gpt-4-turbo", "secondary": "claude-3-5-haiku", "tertiary": "llama-3.3-70b"}
    assert study.concurrency == 10
    assert study.output == tmp_path.resolve() / "results" / "p"
    assert (study.analysis.equivalence_margin, study.analysis.ceiling_share) == (None, 0.3)


def test_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    """A study means the same wherever it is started from; a folder without a slash is a path, only demo a name."""
    (tmp_path / "a" / "mine").mkdir(parents=True)
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "mine.csv").touch()
    for file in (resources.files("toolkit") / "prompts" / "data" / "demo").iterdir():
        (tmp_path / "a" / "mine" / file.name).write_bytes(file.read_bytes())
    for dataset, place in (("../prompts/mine.csv", "prompts/mine.csv"), ("mine", "a/mine")):
        first = load(tmp_path / "a", f'{BEGIN}output = "../out"\ndataset = "{dataset}"')
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path / "a")
            assert load_study_file("s.toml")[0] == first
        assert (first.output, first.dataset) == (tmp_path.resolve() / "out", str(tmp_path.resolve() / place))
    assert len(make_plan(first, tmp_path / "a").dataset.prompts) == 36


@pytest.mark.parametrize(("text", "says"), CASES["faults"])
def test_a_fault_is_one_line_that_helps(tmp_path, text, says):
    """The line names the file, the key, and the allowed values."""
    with pytest.raises(StudyError) as caught:
        load(tmp_path, text)
    told = str(caught.value)
    assert all(line.startswith(str(tmp_path / "s.toml")) for line in told.split("\n"))
    assert [part for part in says if part not in told] == []


def test_all_faults_of_a_study_file_are_told_at_once(tmp_path, toolkit):
    """Each a line with the file and the key, and none that follows from another."""
    faults = CASES["all_faults"]
    with pytest.raises(StudyError) as caught:
        load(tmp_path, 'name = "a/b"\n' + "\n".join(line for line, _ in faults))
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{tmp_path / 's.toml'}: ") for line in lines)
    missing = [fault for _, fault in faults if not any(f"s.toml: {fault}" in line for line in lines)]
    assert (missing, len(lines)) == ([], len(faults) + 1), lines
    code, _, err = toolkit("estimate", tmp_path / "s.toml")
    assert (code, err.count("\n")) == (2, len(lines))


TABLES = (
    ("", StudyFile), ("[judges]", Judges), ("[judges.primary]\nname = 'gpt-4o'", Judge), ("[replies]", Replies),
    ("[sampling]", Sampling), ("[budget]", Budget), ("[analysis]", Analysis), ("[limits.openai]", Limit),
    ("[bias_controls]", BiasControls), ("[[models]]\nname = 'x'", ModelEntry),
)  # fmt: skip


@pytest.mark.parametrize(
    ("table", "key"), [(table, key) for table, model in TABLES for key in model.model_fields]
)
def test_a_misspelled_key_names_the_one_that_was_meant(tmp_path, table, key):
    """In every table of the study file."""
    begin = 'name = "p"' if "models" in table else BEGIN
    with pytest.raises(StudyError, match=rf"did you mean {key}\? allowed are ") as caught:
        load(tmp_path, f"{begin}\n{table}\n{key[:-1]}{key[-1] * 2} = 1\n")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "meant"), CASES["misspelled"])
def test_a_misspelled_value_names_the_one_that_was_meant(tmp_path, text, meant):
    """Of values that are listed, of names that ship, and of files; nothing is said where nothing is near."""
    for name in ("bases.csv", "mine.toml"):
        (tmp_path / name).write_text("", encoding="utf-8")
    with pytest.raises(ToolkitError) as caught:
        make_plan(load(tmp_path, BEGIN + text), tmp_path)
    assert re.findall(r"did you mean (.+?)\?", str(caught.value)) == ([meant] if meant else [])


KEY = "Zx8SECRETq"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("base_url", url) for url in (*CASES["with_a_key"], "https://h/proxy/OF-THE-ENVIRONMENT-1/v1")),
        *(("api_key_env", name) for name in (f"sk-{KEY}", f"gsk_{KEY}", f"hf_{KEY}", "a b")),
    ],
)
def test_a_key_in_an_address_or_a_name_is_refused_and_not_printed(tmp_path, monkeypatch, field, value):
    """By the study file and by the catalogue, of models and of judges."""
    monkeypatch.setenv("PROXY_KEY", "OF-THE-ENVIRONMENT-1")
    given = {"provider": "compatible", "base_url": "https://h/v1"} | {field: value}
    entry = f'{{ name = "m", {", ".join(f"{key} = {json.dumps(text)}" for key, text in given.items())} }}'
    for read in (
        lambda: load(tmp_path, f'name = "p"\nmodels = [{entry}]'),
        lambda: load(tmp_path, f"{BEGIN}[judges]\nprimary = {entry}"),
        lambda: model_spec("m", **given),
    ):
        with pytest.raises(StudyError, match=field) as caught:
            read()
        assert KEY not in str(caught.value)
        assert "OF-THE" not in str(caught.value)


@pytest.mark.parametrize("url", [
    "http://127.0.0.1:8000/v1", "https://api.groq.com/openai/v1", "http://[::1]:8080/v1", "https://h.example",
    "https://gateway.ai.cloudflare.com/v1/0123456789abcdef0123456789abcdef/g/openai", "https://h/auth/v1",
    "https://h/monkey/v1", "https://h/api-gateway-1/v1", "https://r.openai.azure.com/openai/deployments/gpt-4o",
])  # fmt: skip
def test_an_address_without_a_key_is_taken(url):
    """Also with numbers of accounts, and names that look a little like a key."""
    assert model_spec("m", provider="compatible", base_url=url).base_url == url


def test_an_address_of_the_environment_is_another_call_and_the_studys_own_goes_first(tmp_path, monkeypatch):
    """Its key goes there, as with OpenAI's own client; an address with a password is one line that does not show it."""

    def planned(entry):
        run = make_plan(load(tmp_path, f'name = "p"\nbases = 1\nmodels = [{entry}]\n'), tmp_path).runs[0]
        return run.call_id, run.request.endpoint

    before, own = planned('"gpt-4o"'), '{ name = "gpt-4o", base_url = "http://127.0.0.1:1/v1" }'
    beside = planned(own)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")
    after = planned('"openai/gpt-4o"')
    assert (before[1], after[1], before[0] == after[0]) == (None, "http://127.0.0.1:9/v1", False)
    assert (planned(own), planned('"claude-haiku-5-5"')[1]) == (beside, None)
    entry = load(tmp_path, 'name = "p"\nmodels = ["gpt-4o"]').models[0]
    assert (entry.base_url, entry.spec.api_key_env) == (after[1], "OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://me:{KEY}@h/v1")
    assert KEY not in refusal(
        "OPENAI_BASE_URL has a user name", load, tmp_path, 'name = "p"\nmodels = ["gpt-4o"]'
    )


def test_what_is_no_text_is_one_line(tmp_path):
    """A missing file, a picture, a folder; a byte order mark does no harm, a code page of Windows is told."""
    path = tmp_path / "s.toml"
    text = f'{BEGIN}note = "caf\u00e9"\n'
    for where, content, says in (
        (path, None, "no such study file"),
        (tmp_path, None, "cannot be read"),
        (path, b"\x89PNG\xff\xfe", r"s\.toml, line 1: is not UTF-8"),
        (path, text.encode("cp1252"), r"s\.toml, line 3: is not UTF-8; save it as UTF-8$"),
    ):
        if content:
            path.write_bytes(content)
        with pytest.raises(StudyError, match=says):
            load_study_file(where)
    path.write_text(text, encoding="utf-8-sig")
    assert load_study_file(path)[0].note == "caf\u00e9"


def test_shipped_study_files_name_no_model_that_was_retired_when_they_were_written():
    """Neither to be tested nor to judge; the day is fixed, for a test must not fail by the calendar."""
    plans = [make_plan(load_study_file(path)[0], path.parent) for path in TEMPLATES.glob("*.toml")]
    names = {"adaptive-benchmark", "demo", "ollama", "one_shot", "planted", "planted-keyed"}
    names |= {"rq1-prompt-length", "vllm"}
    assert {plan.study.name for plan in plans} == names
    for plan in plans:
        specs = {**plan.models, **plan.judge_models}
        assert not [name for name, spec in specs.items() if spec.is_retired(date(2026, 11, 22))]


def test_models_that_take_no_temperature_are_asked_without_one(tmp_path):
    """As runs, as judges and as judges of hallucination; the others are asked as the study says."""
    study = load(
        tmp_path,
        'name = "s"\nmodels = ["gpt-4o", "gpt-6-luna"]\nsampling = { temperature = 0.3, top_p = 0.9 }\n'
        '[judges]\nprimary = "gpt-4o"\nsecondary = "claude-haiku-5-5"\ntertiary = false\n',
    )
    plan = make_plan(study, tmp_path)
    asked = {run.model: (run.request.temperature, run.request.top_p) for run in plan.runs}
    assert asked == {"gpt-4o": (0.3, 0.9), "gpt-6-luna": (None, None)}
    assert [judge.temperature for judge in plan.judges.values()] == [0.1, None]
    item = LabelledItem("a", "Why?", "So.")
    for judge, wanted in zip(plan.judges.values(), ((0.5, 1.0), (None, None)), strict=True):
        request = next(hallucination_requests(item, judge, "cot", 1))
        assert (request.temperature, request.top_p) == wanted

"""A study file means what it says, and a fault in it is one line with the file, the key and what is allowed."""

from __future__ import annotations

from datetime import date
from importlib import resources
from pathlib import Path

import pytest

from toolkit.errors import StudyError
from toolkit.judges.hallucination import hallucination_requests
from toolkit.judges.labelled import LabelledItem
from toolkit.plan import make_plan
from toolkit.study_file import load_study_file


def write(folder: Path, text: str) -> Path:
    path = folder / "s.toml"
    path.write_text(text)
    return path


def test_defaults_are_the_seeds(tmp_path: Path) -> None:
    """Temperature, lengths and judges of seed 002 hold when the file does not say otherwise."""
    study, _ = load_study_file(write(tmp_path, 'name = "pilot"\nmodels = ["gpt-4o"]'))
    assert (study.sampling.temperature, study.sampling.max_tokens) == (0.2, 2000)
    assert (study.judges.temperature, study.judges.max_tokens) == (0.1, 1000)
    judges = {role: judge.name for role, judge in study.judges.by_role().items()}
    assert judges == {"primary": "gpt-4-turbo", "secondary": "claude-3-5-haiku", "tertiary": "llama-3.3-70b"}
    assert study.concurrency == 10
    assert study.output == tmp_path.resolve() / "results" / "pilot"


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study means the same wherever it is started from."""
    text = 'name = "p"\nmodels = ["gpt-4o"]\noutput = "../out"\ndataset = "../prompts/mine.csv"'
    (tmp_path / "a").mkdir()
    path = write(tmp_path / "a", text)
    first, _ = load_study_file(path)
    monkeypatch.chdir(tmp_path / "a")
    second, _ = load_study_file("s.toml")
    assert first == second
    assert first.output == tmp_path.resolve() / "out"
    assert first.dataset == str(tmp_path.resolve() / "prompts" / "mine.csv")


def test_a_dataset_folder_beside_the_file_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder whose name has no slash and no dot is a path like any other; only demo is a name."""
    (tmp_path / "a" / "mine").mkdir(parents=True)
    for file in (resources.files("toolkit") / "prompts" / "data" / "demo").iterdir():
        (tmp_path / "a" / "mine" / file.name).write_bytes(file.read_bytes())
    judges = "".join(
        f'{role} = {{ name = "j", provider = "scripted" }}\n' for role in ("primary", "secondary", "tertiary")
    )
    text = f'name = "p"\nmodels = ["scripted"]\ndataset = "mine"\n[judges]\n{judges}'
    study, file = load_study_file(write(tmp_path / "a", text))
    monkeypatch.chdir(tmp_path)
    assert study.dataset == str(tmp_path.resolve() / "a" / "mine")
    assert len(make_plan(study, file.parent).dataset.prompts) == 36


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name = "p"\nmodels = ["gpt-4o"]\nrepeat = 3', ["unknown key repeat", "repeats"]),
        (
            'name = "p"\nmodels = ["gpt-4o"]\n[sampling]\ntemprature = 1',
            ["sampling.temprature", "temperature"],
        ),
        (
            'name = "p"\nmodels = ["gpt-4o"]\n[judges]\nprimary = { name = "gpt-4o", temp = 1 }',
            ["judges.primary.temp"],
        ),
        ('name = "p"\nmodels = [{ name = "gpt-4o", key = "x" }]', ["models[0].key", "api_key_env"]),
        (
            'name = "p"\nmodels = [{ name = "m", provider = "compatible", base_url = "http://me:s3cret@h/v1" }]',
            ["models[0].base_url", "user name or password", "api_key_env", "'http://***@h/v1'"],
        ),
        ('name = "p"\nmodels = ["gpt-5o"]', ["models[0]", "gpt-5o", "gpt-4o", "claude-3-5-haiku"]),
        (
            'name = "p"\nmodels = ["gpt-4o"]\n[judges]\ntertiary = "nobody"',
            ["judges.tertiary", "nobody", "gpt-4o"],
        ),
        ('name = "p"\nmodels = ["gpt-4o"]\n[judges]\nrubric = "best"', ["judges.rubric", "best", "seed-v1"]),
        (
            'name = "p"\nmodels = ["gpt-4o"]\nlength_bins = ["S", "XL"]',
            ["length_bins[1]", "XL", "'S', 'M' or 'L'"],
        ),
        ('name = "p"\nmodels = ["gpt-4o"]\nscenarios = ["SOC"]', ["scenarios[0]", "SOC_INCIDENT"]),
        ('name = "p"\nmodels = ["gpt-4o"]\nrepeats = 0', ["repeats", "greater than or equal to 1", "0"]),
        ('name = "p"\nmodels = ["gpt-4o"]\n[sampling]\ntemperature = nan', ["sampling.temperature"]),
        ('name = "p"\nmodels = ["gpt-4o"]\n[budget]\naud = -1.0', ["budget.aud", "greater than 0"]),
        ('name = "p"\nmodels = []', ["models", "at least 1"]),
        ('name = "p"\nmodels = ["gpt-4o", "gpt-4o"]', ["named twice"]),
        ('name = "p"\nmodels = ["llama-3.3-70b", "llama-3-3-70b"]', ["models[1]", "same model"]),
        ('name = "a/b"\nmodels = ["gpt-4o"]', ["name"]),
        ('models = ["gpt-4o"]', ["key name is missing"]),
        ("name = ", ["not valid TOML"]),
        ("", ["key name is missing"]),
    ],
)
def test_a_fault_is_one_line_that_helps(tmp_path: Path, text: str, says: list[str]) -> None:
    """The line names the file, the key, and the allowed values."""
    path = write(tmp_path, text)
    with pytest.raises(StudyError) as caught:
        load_study_file(path)
    line = str(caught.value)
    assert "\n" not in line
    for part in (str(path), *says):
        assert part in line


def test_a_missing_or_binary_file_is_one_line(tmp_path: Path) -> None:
    """Neither a missing file nor a picture ends in a traceback of the library."""
    with pytest.raises(StudyError, match="no such study file"):
        load_study_file(tmp_path / "no.toml")
    (tmp_path / "picture.toml").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(StudyError, match="cannot be read as text"):
        load_study_file(tmp_path / "picture.toml")
    with pytest.raises(StudyError, match="cannot be read"):
        load_study_file(tmp_path)


def test_a_file_of_a_windows_editor_is_read_or_says_how_to_save_it(tmp_path: Path) -> None:
    """A byte order mark does no harm; Windows-1252 is one line with the line it is on and what to do."""
    path = tmp_path / "s.toml"
    text = 'name = "s"\nmodels = ["gpt-4o"]\nnote = "caf\u00e9"\n'
    path.write_text(text, encoding="utf-8-sig")
    assert load_study_file(path)[0].note == "caf\u00e9"
    path.write_text(text, encoding="cp1252")
    with pytest.raises(StudyError, match=r"s\.toml: .*line 3 is not UTF-8; save it as UTF-8") as caught:
        load_study_file(path)
    assert "\n" not in str(caught.value)


def test_shipped_study_files_are_valid() -> None:
    """Every study file in templates/ loads."""
    templates = Path(__file__).resolve().parent.parent / "templates"
    names = {load_study_file(path)[0].name for path in templates.glob("*.toml")}
    assert names == {"demo", "rq1-prompt-length", "one_shot"}


def test_shipped_study_files_name_no_model_that_was_retired_when_they_were_written() -> None:
    """Neither to be tested nor to judge; the day is fixed, for a test must not fail by the calendar."""
    templates = Path(__file__).resolve().parent.parent / "templates"
    for path in templates.glob("*.toml"):
        plan = make_plan(load_study_file(path)[0], path.parent)
        specs = {**plan.models, **plan.judge_models}
        assert not [name for name, spec in specs.items() if spec.is_retired(date(2026, 11, 22))]


def test_models_that_take_no_temperature_are_asked_without_one(tmp_path: Path) -> None:
    """As runs, as judges and as judges of hallucination; the others are asked as the study says."""
    path = tmp_path / "s.toml"
    path.write_text(
        'name = "s"\nmodels = ["gpt-4o", "gpt-6-luna"]\nsampling = { temperature = 0.3, top_p = 0.9 }\n'
        '[judges]\nprimary = "gpt-4o"\nsecondary = "claude-haiku-5-5"\ntertiary = false\n'
    )
    plan = make_plan(load_study_file(path)[0], tmp_path)
    asked = {run.model: (run.request.temperature, run.request.top_p) for run in plan.runs}
    assert asked == {"gpt-4o": (0.3, 0.9), "gpt-6-luna": (None, None)}
    assert [judge.temperature for judge in plan.judges.values()] == [0.1, None]
    item = LabelledItem("a", "Why?", "So.")
    for judge, wanted in zip(plan.judges.values(), ((0.5, 1.0), (None, None)), strict=True):
        (request, *_) = hallucination_requests(item, judge)
        assert (request.temperature, request.top_p) == wanted

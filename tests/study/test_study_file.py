"""A study file means what it says, and a fault in it is one line with the file, the key and what is allowed."""

import json
import re
from datetime import date
from importlib import resources

import pytest
from places import TEMPLATES

from toolkit.errors import StudyError, ToolkitError
from toolkit.hallucination.labelled import LabelledItem
from toolkit.hallucination.votes import hallucination_requests
from toolkit.models.catalogue import model_spec
from toolkit.models.entries import Judge, ModelEntry, Sampling  # fmt: skip
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

BEGIN = 'name = "p"\nmodels = ["gpt-4o"]\n'
SERVER = 'name = "p"\nmodels = [{ name = "m", provider = "compatible", base_url = "http://me:s3cret@h/v1" }]'


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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ["key name is missing"]),
        ("name = ", ["not valid TOML"]),
        ('name = "p"\nmodels = []', ["models", "at least 1"]),
        ('name = "p"\nmodels = ["llama-3.3-70b", "llama-3-3-70b"]', ["models[1]", "same model"]),
        ('name = "p"\nmodels = [{ name = "gpt-4o", key = "x" }]', ["models[0].key", "api_key_env"]),
        (SERVER, ["models[0].base_url", "user name, a password", "api_key_env"]),
        *((BEGIN + f"{table} = {odd}", [key, "finite"]) for odd in ("inf", "nan") for table, key in (
            ("[budget]\naud", "budget.aud"), ("batch_poll_seconds", "batch_poll_seconds"),
            ("timeout_seconds", "timeout_seconds"), ("[budget]\nconfirm_above_aud", "confirm_above_aud"),
            ("limits.openai.tokens_per_minute", "limits.openai.tokens_per_minute"))),
        *((BEGIN + f'{key} = "a\\u{code}b"', [key.rpartition("]\n")[2], "control character"])
          for code in ("0000", "0007", "001b", "0085", "2028") for key in ("output", "dataset", "test")),
        (BEGIN + '[judges]\nrubric = "a\\u0000.toml"', ["judges.rubric", "control character"]),
        ('name = "p"\nmodels = [{ name = "x\\u001b[2J", provider = "scripted" }]', ["models[0].name", "control"]),
        (BEGIN + '[judges]\ntertiary = "nobody"', ["judges.tertiary", "nobody", "gpt-4o", "claude-3-5-haiku"]),
        (BEGIN + '[judges]\nrubric = "best"', ["judges.rubric", "best", "seed-v1"]),
        (BEGIN + '[judges]\nrubric = "seed-v1"\nshuffle_dimensions = true', ["fixed order"]),
        (BEGIN + '[replies]\nrefused = "retry"', ["replies.refused"]),  # more tokens make no answer of a refusal
        *((BEGIN + f"[analysis]\nequivalence_margin = {odd}", ["analysis.equivalence_margin"])
          for odd in ("0", "-0.1", "inf", "nan", "5", "9")),
        *((BEGIN + f'selection = "adaptive"\ntarget_width = {odd}', ["target_width"]) for odd in ("0", "10", "inf")),
        *((f'name = "{name}"\nmodels = ["gpt-4o"]', ["name: a name has the letters a to z", "no blanks", better])
          for name, better in (("my study", "example my-study"), (" a", "example a"), ("", "example my-study"),
                               ("Prüfung 1", "example Pr-fung-1"), ("../x", "example x"), (".a", "example a"))),
        *((BEGIN + f'license = "{odd}"', ["license: a licence is an identifier such as CC-BY-4.0"])
          for odd in ("my own", "http://", "")),
        (BEGIN + 'length_bins = ["S", "M"]\n[analysis]\nprimary = "L-S"', ["L-S compares L, which is not in length"]),
    ],
)  # fmt: skip
def test_a_fault_is_one_line_that_helps(tmp_path, text, says):
    """The line names the file, the key, and the allowed values."""
    with pytest.raises(StudyError) as caught:
        load(tmp_path, text)
    told = str(caught.value)
    assert all(line.startswith(str(tmp_path / "s.toml")) for line in told.split("\n"))
    assert [part for part in says if part not in told] == []


FAULTS = (
    ('lisence = "MIT"', "unknown key lisence"),
    ("repeats = 0", "repeats: Input should be greater than or equal to 1, got 0"),
    ('length_bins = ["S", "XL"]', "length_bins[1]: Input should be 'S', 'M' or 'L'"),
    (
        'models = ["gpt-5o", "gpt-6-luna", { name = "x", provider = "opnai" }, "gpt-6-luna"]',
        "models[0]: unknown model",
    ),
    ("", "models[2].provider: Input should be"),
    ("", "models[3]: 'gpt-6-luna' is named twice"),
    ('dataset = "prompts.csv"', "dataset: "),
    ('test = "one_shoot"', "test: 'one_shoot' is not known; did you mean one_shot?"),
    ('[judges]\nrubric = "mine.toml"', "judges.rubric: rubric "),
    ('primary = { name = "gpt-4o", temp = 1 }', "unknown key judges.primary.temp"),
    ('secondary = "nobody"', "judges.secondary: unknown model 'nobody'"),
    ("[budget]\naud = -1.0\naud_per_usd = { rate = 9.0 }", "budget.aud: Input should be greater than 0"),
    ("", "budget.aud_per_usd.rate: a US dollar was"),
    ("", "key budget.aud_per_usd.on is missing"),
    ('[analysis]\nprimary = "L-M"\nmargin = 1', "unknown key analysis.margin"),
    ('[sampling]\ntemperature = "hot"', "sampling.temperature: Input should be a valid number"),
)
"""Lines of a study file, and a fault of each."""


def test_all_faults_of_a_study_file_are_told_at_once(tmp_path, toolkit):
    """Each a line with the file and the key, and none that follows from another."""
    with pytest.raises(StudyError) as caught:
        load(tmp_path, 'name = "a/b"\n' + "\n".join(line for line, _ in FAULTS))
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{tmp_path / 's.toml'}: ") for line in lines)
    missing = [fault for _, fault in FAULTS if not any(f"s.toml: {fault}" in line for line in lines)]
    assert (missing, len(lines)) == ([], len(FAULTS) + 1), lines
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


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('scenarios = ["SOC_INCIDNT"]', "SOC_INCIDENT"), ('mode = "btach"', "batch"),
        ('selection = "adaptve"', "adaptive"), ('accept_flaws = ["near-copy"]', "near_copy"),
        ('test = "one_shoot"', "one_shot"), ('dataset = "dmo"', "demo"),
        ('dataset = "bases_csv"', "bases.csv"), ('[replies]\ntruncated = "rety"', "retry"),
        ('[analysis]\nscore = "composite_strikt"', "composite_strict"),
        ("[limits.opnai]\nconcurrency = 1", "openai"), ('[judges]\nrubric = "defualt"', "default"),
        ('[judges]\nrubric = "mine.tml.toml"', "mine.toml"),
        ('[judges]\nprimary = "gpt-4-tubo"', "gpt-4-turbo"),
        ("[judges]\nprimary = { name = 'x', provider = 'antropic' }", "anthropic"),
        ("[options]\nlenght = 1", None),
    ],
)  # fmt: skip
def test_a_misspelled_value_names_the_one_that_was_meant(tmp_path, text, meant):
    """Of values that are listed, of names that ship, and of files; nothing is said where nothing is near."""
    for name in ("bases.csv", "mine.toml"):
        (tmp_path / name).write_text("", encoding="utf-8")
    with pytest.raises(ToolkitError) as caught:
        make_plan(load(tmp_path, BEGIN + text), tmp_path)
    assert re.findall(r"did you mean (.+?)\?", str(caught.value)) == ([meant] if meant else [])


KEY = "Zx8SECRETq"
KEYED = (
    *(f"https://h/v1?{name}={KEY}" for name in ("key", "api_key", "token", "x", "api-version")),
    f"https://h/v1#{KEY}", f"https://h/v1?{KEY}", f"https://{KEY}@h/v1", f"https://me:{KEY}@h/v1",
    f"https://h/sk-{KEY}/v1", f"https://h/v1/sk_{KEY}", f"https://h/key/{KEY}/v1", f"https://h/token={KEY}/v1",
    f"https://h/v1%3Fkey={KEY}", f"https://h/v1;{KEY}", f"https://h/%73k-{KEY}", f"https://h/Bearer%20{KEY}/v1",
    f"https://h/AIza{KEY}012345/v1", f"ftp://me:{KEY}@h", f"https://h/v1 {KEY}", f"https://h/gsk_{KEY}", f"h?{KEY}",
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("base_url", url) for url in (*KEYED, "https://h/proxy/OF-THE-ENVIRONMENT-1/v1")),
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

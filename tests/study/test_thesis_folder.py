"""A thesis folder stands alone, and the wheel carries all that it is made of."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from places import ROOT

from toolkit import Study
from toolkit.errors import InputError
from toolkit.files.shipped import shipped, workspace
from toolkit.getting_started.folder import init_folder
from toolkit.prompts.check import check_dataset
from toolkit.prompts.dataset import _Base, load_dataset


@pytest.fixture(scope="module")
def thesis(tmp_path_factory):
    """A fresh thesis folder."""
    folder = tmp_path_factory.mktemp("init") / "thesis"
    init_folder(folder)
    return folder


def test_it_holds_all_that_its_readme_names(thesis):
    """Study files, notebooks, templates, Makefile, .gitignore and references."""
    for name in re.findall(r"^\| `([\w./]+)` \|", (thesis / "README.md").read_text(), re.MULTILINE):
        assert name == "results/" or (thesis / name).exists(), name
    for name in ("Makefile", ".gitignore", "templates/rubrics/demo.toml"):
        assert (thesis / name).is_file()
    for folder in ("notebooks", "templates"):
        assert {path.name for path in (thesis / folder).glob("*.ipynb")} == {
            path.name for path in (ROOT / folder).glob("*.ipynb")
        }
    assert "@article{shrout1979," in (thesis / "references.bib").read_text()
    assert not (thesis / "templates" / "thesis").exists()


def test_the_schema_of_an_editor_takes_the_studies_that_ship_and_no_misspelled_key(thesis):
    """The first line of each names it, from where the file is."""
    studies = [path for path in thesis.rglob("*.toml") if path.parent in (thesis, thesis / "templates")]
    assert len(studies) == 11
    for path in studies:
        text = path.read_text(encoding="utf-8")
        (name,) = re.findall(r"\A#:schema (.+)\n", text)
        check = Draft202012Validator(json.loads((path.parent / name).read_text())).is_valid
        content = tomllib.loads(text)
        assert (check(content), check(content | {"modles": []})) == (True, False), path
        assert check(
            content | {"models": ["ollama/llama3.3"], "judges": {"primary": "gpt-4o", "tertiary": False}}
        )


@pytest.mark.parametrize("name", ["local", "cloud"])
def test_its_studies_load_and_write_into_its_results(thesis, name):
    """Below the folder, wherever that is."""
    study = Study.load(thesis / f"{name}.toml")
    assert study.name == name
    assert study.output == thesis / "results" / name
    assert len(study.plan.runs) == {"local": 3, "cloud": 3600}[name]


def test_it_ships_a_base_to_write_ones_own_by(thesis):
    """A comment above every key of a base, no flaw, and a CSV of the same texts."""
    path = thesis / "my_prompts" / "my_base_001.toml"
    lines = path.read_text(encoding="utf-8").splitlines()
    keys = [number for number, line in enumerate(lines) if re.match(r"\w+ = ", line)]
    arms = {name for name in _Base.model_fields if name.startswith("arm_")}
    assert {lines[number].split()[0] for number in keys} == {*_Base.model_fields} - arms
    assert all(any(line.startswith("#") and name in line for line in lines) for name in arms)
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    assert all(block.startswith("#") for block in blocks)
    folder, table = (load_dataset(thesis / "my_prompts" / name) for name in ("", "my_prompts.csv"))
    assert check_dataset(folder) == check_dataset(table) == ()
    texts = [
        [(p.prompt_id, p.text, p.scenario, p.category, p.base) for p in d.prompts] for d in (folder, table)
    ]
    assert texts[0] == texts[1]
    assert [p.level for p in table.prompts] == ["S", "M", "L"]


def test_what_is_there_is_not_touched(thesis, tmp_path):
    """Twice is refused, and so is a file; an empty folder is taken."""
    before = (thesis / "local.toml").read_bytes()
    with pytest.raises(InputError, match="is there and not empty; name a new folder"):
        init_folder(thesis)
    assert (thesis / "local.toml").read_bytes() == before
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is there and not empty"):
        init_folder(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert "files; read README.md there" in init_folder(tmp_path / "empty").text


def test_shipped_studies_are_worked_on_where_their_templates_are(thesis, monkeypatch, tmp_path):
    """In a thesis folder there, elsewhere in the source tree."""
    assert shipped("templates") == ROOT / "templates"
    monkeypatch.chdir(tmp_path)
    assert workspace() == ROOT
    monkeypatch.chdir(thesis)
    assert workspace() == thesis


def test_an_installed_wheel_finds_what_it_carries(tmp_path):
    """Every template and notebook; without the source tree they are copied to where one works."""
    source = tmp_path / "source"
    ignore = shutil.ignore_patterns(
        ".git", ".venv", "results", "tests", "*.egg-info", ".*_cache", "__pycache__", "build"
    )
    shutil.copytree(ROOT, source, ignore=ignore)
    for name in ("index.html", "_static/scripts/furo.js"):  # as after `make docs`
        (source / "build/docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (source / "build/docs" / name).write_text("site")
    build = [
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path),
    ]  # fmt: skip
    done = subprocess.run([*build, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    place = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--ignore-installed", "--prefix"]
    subprocess.run([*place, str(tmp_path / "prefix"), str(wheel)], check=True)
    (target,) = (tmp_path / "prefix").glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as file:
        carried = {Path(name).name for name in file.namelist()}
        (metadata,) = (file.read(name).decode() for name in file.namelist() if name.endswith("METADATA"))
    assert "py.typed" in carried
    assert 'Requires-Dist: xllamacpp; extra == "local"' in metadata
    assert 'Requires-Dist: datasets>=4; extra == "hub"' in metadata
    for pattern in (
        "templates/*.toml",
        "templates/*.ipynb",
        "notebooks/*.ipynb",
        "templates/thesis/*",
        "templates/my_prompts/*",
    ):
        assert {path.name for path in ROOT.glob(pattern)} <= carried
    work = tmp_path / "work"
    work.mkdir()
    code = (
        "import toolkit.files.shipped as f, toolkit.getting_started.folder as t, pathlib\n"
        f"assert str(f.__file__).startswith({str(target)!r})\n"
        "print(t.init_folder(pathlib.Path('thesis')).fields['folder'])\n"
        "print(f.workspace())\n"
        "import webbrowser, toolkit.getting_started.doctor as d\n"
        "webbrowser.open = lambda address: print(address)\n"
        "d.open_docs()"
    )
    env, command = {"PYTHONPATH": str(target), "PATH": ""}, [sys.executable, "-c", code]
    told = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True)
    site = tmp_path / "prefix" / "share" / "llm-security-toolkit" / "docs"
    assert told.stdout.splitlines() == ["thesis", str(work), (site / "index.html").as_uri()], told.stderr
    assert (site / "_static" / "scripts" / "furo.js").read_text() == "site"
    assert (work / "thesis" / "cloud.toml").is_file()
    assert (work / "notebooks" / "00_start_here.ipynb").is_file()

"""The documentation site: its reference is complete, its examples are read, and the built pages need no network."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import webbrowser
from pathlib import Path

import click
import pytest
from cases import cases
from places import ROOT
from pydantic import BaseModel

import toolkit
from toolkit import stats
from toolkit.cli import cli
from toolkit.errors import InputError
from toolkit.getting_started import doctor
from toolkit.study_file import StudyFile

FOREIGN = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*"""
    r"""|<link\b[^>]*\bhref=["']?(?:https?:)?//[^>]*|url\(["']?(?:https?:)?//[^)]*|@import ["']https?:[^"']*"""
    r"""|\bimport\(?["']https?:[^"']*|require\.config"""
)
"""What makes a browser load something from another host; a link that a reader follows does not."""


@pytest.fixture(scope="module")
def reference():  # a module of scripts/, which is no package
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        import reference_pages

        yield reference_pages


def test_every_key_of_the_model_has_a_sentence_and_an_example(reference):
    assert reference.key_faults() == []
    sections = {model.__name__: model for _, _, model, _ in reference.SECTIONS.values()}
    schema = StudyFile.model_json_schema()
    tables = {*schema["$defs"], "StudyFile"}  # pydantic's own walk over the model
    parents = {parent.__name__ for model in sections.values() for parent in model.__mro__[1:]}
    assert set(sections) <= tables <= set(sections) | parents
    page = reference.study_page()
    for name, (title, _, model, _) in reference.SECTIONS.items():
        part = page.split(f"## {title}\n", 1)[1].split(f"\n({name}-table)=")[0].split("\n## ")[0]
        properties = (schema if name == "study" else schema["$defs"][model.__name__])["properties"]
        inherited = schema["$defs"]["ModelEntry"]["properties"] if name == "judge" else {}
        assert re.findall(r"^### `(\w+)`$", part, re.MULTILINE) == [
            key for key in properties if key not in inherited
        ]


def test_the_page_begins_with_ten_keys_that_are_a_study(reference):
    first = reference.study_page().split("## Ten keys to begin with\n")[1].split("```toml\n")
    assert len(re.findall(r"^- \[`[\w.]+`\]\(#[\w-]+\): ", first[0], re.MULTILINE)) == 10
    assert StudyFile.model_validate(tomllib.loads(first[1].split("```")[0])).budget.aud


def test_a_key_without_a_sentence_or_an_example_is_named(reference, monkeypatch):
    class Bare(BaseModel):
        width: int = 1

    monkeypatch.setitem(reference.SECTIONS, "cache", ("", "", Bare, ""))
    assert sorted(reference.key_faults()) == [
        "CacheShares has no section",
        "cache.read: no such key",
        "cache.width has no example",
        "cache.width has no sentence that ends in a full stop",
        "cache.write: no such key",
    ]


def test_every_example_is_read(reference):
    """As a study file, completed by a name and a model; the key is in it, at another value than its default."""
    for name, keys in reference.examples().items():
        for key, (text, _) in keys.items():
            content = {"name": "x", "models": ["gpt-6-luna", "gpt-oss-120b"], **tomllib.loads(text)}
            study = StudyFile.model_validate(content)
            assert re.search(rf"(?<!\w){key}(?!\w)", text), (name, key)
            assert study != StudyFile(name="x", models=("gpt-6-luna", "gpt-oss-120b")), (name, key)
            if name in ("models", "prices", "over", "cache", "planted"):
                assert all(entry.spec.name for entry in study.under_test), (name, key)


@pytest.mark.parametrize(
    ("section", "key", "lines"),
    cases(__file__)["keys"],
)
def test_the_page_says_type_default_and_unit(reference, section, key, lines):
    part = reference.study_page().split(f"({section}-{key.replace('_', '-')})=", 1)[1].split("```toml")[0]
    found = dict(re.findall(r"^- (\w+): (.*)$", part, re.MULTILINE))
    assert [found["Value"], found["Default"], found.get("Unit", "")] == lines


def test_every_command_and_option_is_on_its_page(reference):
    page = reference.commands_page()
    for name, command in reference.commands(cli):
        part = page.split(f"## `{name}`\n", 1)[1].split("\n## ")[0]
        for option in command.params:
            if isinstance(option, click.Option):
                assert all(f"{word}" in part for word in option.opts), (name, option.opts)
            else:
                assert option.make_metavar(click.Context(command)) in part.split("```")[1], name
    assert "toolkit judges drift" in page


def test_every_public_name_has_its_entry(reference):
    text = "\n".join(reference.api_pages().values())
    entries = re.findall(r"^\.\. auto\w+:: (\S+)$", text, re.MULTILINE)
    public = {f"toolkit.{name}" for name in toolkit.__all__ if name != "__version__"}
    assert sorted(entries) == sorted(public | {f"toolkit.stats.{name}" for name in stats.__all__})


def test_docs_opens_the_site_or_says_that_there_is_none(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(doctor, "shipped", lambda name: tmp_path / name)
    with pytest.raises(InputError, match=r"^the documentation is not built here; make docs builds it$"):
        doctor.open_docs()
    page = tmp_path / "build" / "docs" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("site")
    assert doctor.open_docs().fields == {"page": str(page)}
    assert opened == [page.as_uri()]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site of a copy of the tree, so that nothing is written where other tests read; the study is a sixth of it."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("docs", "scripts", "notebooks", "templates"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("generated", "__pycache__"))
    planted = tree / "templates" / "planted.toml"
    text = planted.read_text(encoding="utf-8")
    planted.write_text(text.replace("bases = 36 ", "bases = 12 ").replace("repeats = 2", "repeats = 1"))
    done = subprocess.run(
        [sys.executable, str(tree / "scripts" / "build_docs.py")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return tree / "build" / "docs"


@pytest.mark.timeout(1800)
def test_the_site_builds_without_a_warning_and_needs_no_network(site):
    """No warning, no dead link, nothing of another host; a wheel takes every file; no folder of this machine."""
    files = [path for path in site.rglob("*") if path.is_file() and not path.name.startswith(".")]
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.suffix in (".html", ".css")}
    assert {str(path): found for path, text in texts.items() if (found := FOREIGN.findall(text))} == {}
    assert not [path for path, text in texts.items() if str(site.parents[1]) in text or str(ROOT) in text]
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    patterns = [pattern for rows in setup.values() for pattern in rows if pattern.startswith("build/docs")]
    names = [path.relative_to(site.parents[1]) for path in files]
    carried = [
        name
        for name in names
        for p in patterns
        if fnmatch.fnmatch(name.name, "*.*") and name.parent == Path(p).parent
    ]
    assert sorted(carried) == sorted(names)
    start = texts[site / "generated" / "notebooks" / "00_start_here.html"]
    assert "planted values are in their intervals" in start
    assert "<img" in start
    assert "<math" in texts[site / "generated" / "api_stats.html"]


@pytest.mark.browser
@pytest.mark.timeout(1800)
def test_search_works_without_a_network(site):
    chromium = next(filter(None, map(shutil.which, ("google-chrome", "chromium-browser", "chromium"))))
    with tempfile.TemporaryDirectory() as profile:
        flags = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}")
        offline = ("--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=8000", "--dump-dom")
        address = f"{(site / 'search.html').as_uri()}?q=equivalence_margin"
        page = subprocess.run(
            [chromium, *flags, *offline, address], capture_output=True, text=True, timeout=120
        )
    assert "generated/study_file.html#analysis-equivalence-margin" in page.stdout

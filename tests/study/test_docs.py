"""What README and the guide pages tell a reader to type runs as it stands: every line of Python, every command."""

import ast
import functools
import inspect
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import nbformat
import pandas as pd
import pytest
from cases import cases
from page_reader import ELSEWHERE, TUTORIALS, Reader
from papermill.cli import papermill
from places import ROOT, TEMPLATES
from small_study import without_pictures

import toolkit
from toolkit import Study
from toolkit.cli import cli
from toolkit.store import embedded
from toolkit.study_file import StudyFile

PAGES = {
    str(path.relative_to(ROOT)): path
    for path in (ROOT / "README.md", *ROOT.glob("docs/*/*.md"), ROOT / "docs" / "index.md")
    if path.parent.name != "generated"
}
GUIDES = sorted(name.removeprefix("docs/").removesuffix(".md") for name in PAGES if "/how_to/" in name)
QUICK = ("how_to/frames", "how_to/own_scorer")
"""What people do most, on a finished study; `make test-all` reads the other guides too."""


@pytest.mark.usefixtures("no_pictures")
def test_every_line_of_python_of_the_readme_runs(demo_like_study):
    """On a finished study; what the eleven lines promise to write is there."""
    names = {}
    (code,) = re.findall(r"```python\n(.*?)```", PAGES["README.md"].read_text(encoding="utf-8"), re.DOTALL)
    for line in code.replace("templates/demo.toml", str(demo_like_study)).splitlines():
        exec(compile(line, "README.md", "exec"), names)
    study = names["study"]
    assert isinstance(study.reliability().frame(), pd.DataFrame)
    assert (study.output / "figures" / "quality_by_length.svg").exists()
    assert (study.output / "report.html").exists()
    study.close()


def test_every_method_that_a_page_names_is_there():
    """With the arguments that the page gives it."""
    named = {
        found
        for path in PAGES.values()
        for found in re.findall(r"\bstudy\.(\w+)\(([^()]*)\)", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    for name, arguments in sorted(named):
        keywords = dict.fromkeys(re.findall(r"(\w+)=", arguments))
        places = [None] * (bool(arguments) - bool(keywords) if "," not in arguments else 0)
        inspect.signature(getattr(Study, name)).bind(None, *places, **keywords)


@pytest.fixture(scope="module")
def finished_desk(demo_like_study, tmp_path_factory):
    """A folder with what the commands of the pages name: a finished study, its ratings, a capture, templates."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copytree(TEMPLATES, folder / "templates")
    text = demo_like_study.read_text(encoding="utf-8")
    text = text.replace('"small"', '"small"\ndataset = "rq1_controlled"\nbases = 12')
    for name in ("my_study", "gpt4o", "claude"):  # each with a folder of its own
        (folder / f"{name}.toml").write_text(text.replace("small", name), encoding="utf-8")
    shutil.copy(
        Path(toolkit.__file__).parent / "traffic" / "data" / "plain_gets.pcapng", folder / "flow.pcapng"
    )
    foreign = ROOT / "tests" / "golden" / "foreign"
    (folder / "logs").mkdir()
    shutil.copy(foreign / "inspect_sums.eval", folder / "logs")
    shutil.copy(foreign / "inspect_graded_1.eval", folder / "grades.eval")
    rows = [
        (f"q{item}", model, judge, judge == "anna", (item + len(model) + len(judge)) % 5 + 1)
        for item in range(12)
        for model in ("alpha", "gamma-2")
        for judge in ("gpt-4o", "claude", "anna")
    ]
    scores = pd.DataFrame(rows, columns=["item", "model", "judge", "human", "score"])
    scores.to_csv(folder / "scores.csv", index=False)
    scores.rename(columns={"item": "doc_id"}).to_csv(folder / "table.csv", index=False)
    wide = scores.pivot(index=["item", "model"], columns="judge", values="score")
    wide[["gpt-4o", "claude"]].to_csv(folder / "t.csv")
    with without_pictures(), Study.load(folder / "my_study.toml") as study:
        study.run(progress=False)
        runs = study.runs()["run_id"].head(2)
        dimensions = ",".join(pd.Index(study.dimensions()["dimension"].unique()))
    rows = "\n".join(f"{run},ann,{','.join(['3'] * 7)}" for run in runs)
    (folder / "ratings.csv").write_text(f"run_id,rater,{dimensions}\n{rows}\n", encoding="utf-8")
    embedded.stop(folder / "results" / ".store")
    return folder


@pytest.fixture
def desk(finished_desk, tmp_path, monkeypatch, no_pictures):
    """A copy of the finished desk, for one reader."""
    shutil.copytree(finished_desk, tmp_path, ignore=shutil.ignore_patterns("*.sock"), dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for place in (tmp_path / "results", tmp_path / "templates" / "results"):
        embedded.stop(place / ".store")


def test_every_command_of_the_readme_runs(desk):
    """With exit code 0."""
    for code in re.findall(r"```sh\n(.*?)```", PAGES["README.md"].read_text(encoding="utf-8"), re.DOTALL):
        if "toolkit" in code:
            Reader("")._sh(code, "")


@pytest.mark.parametrize(
    "page", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.full]) for name in GUIDES]
)
def test_a_guide_can_be_followed(page, desk):
    """Block after block, on a finished study; what needs another program is run by the tests of `ELSEWHERE`."""
    reader = Reader(page, study=Study.load("my_study.toml"))
    reader.read()
    for value in reader.names.values():
        if isinstance(value, Study):
            value.close()


def test_every_block_of_every_page_is_run_by_a_test():
    """By a reader of pages or by a test of that page; a block in another language, or on another page, has none."""
    followed = {
        f"docs/{page}.md"
        for page in (*GUIDES, *(f"tutorials/{name}" for name in TUTORIALS), "explain/statistics")
    }
    languages, readers = {name.removeprefix("_") for name in vars(Reader)}, cases(__file__)["readers"]
    for name, text in written_texts().items():
        if name.endswith((".md", ".ipynb")):
            # What begins with a brace is a directive of the site: a list of pages, or a file that ships.
            fences = re.findall(r"^ *```(.*)\n(?:(?! *```).*\n)*? *```", text, re.MULTILINE)
            fences = {fence for fence in fences if not fence.startswith("{")}
            assert fences <= (languages if name in followed else {*readers.get(name, ())}), (name, fences)
    for file, test in ELSEWHERE.values():
        assert test in (ROOT / "tests" / file).read_text(encoding="utf-8"), (file, test)


@functools.cache
def written_texts():
    """Return what a reader sees: pages, cells of notebooks that are no code, and what the code of the toolkit says."""
    pages = [*PAGES.values(), ROOT / "templates/thesis/README.md"]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages}
    for path in (*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("templates/*.ipynb")):
        cells = nbformat.read(path, 4).cells
        texts[path.name] = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for path in (ROOT / "toolkit").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        strings = [node.value for node in nodes if isinstance(node, ast.Constant)]
        texts[str(path.relative_to(ROOT))] = "\n\n".join(text for text in strings if isinstance(text, str))
    for path in (*ROOT.glob("toolkit/**/*.jinja"), *ROOT.glob("t*/**/*.toml"), *ROOT.glob("toolkit/**/*.js")):
        texts[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
    for path in (ROOT / "Makefile", ROOT / "templates/thesis/Makefile"):
        calls = re.findall(r"\t@?\$\((?:BIN\)/toolkit|TOOLKIT\)) (.*)", path.read_text(encoding="utf-8"))
        texts[str(path.relative_to(ROOT))] = "\n".join(f"`toolkit {call}`" for call in calls)
    return texts


def spans(text):
    """Return what stands between backticks in a text, and every line of its blocks of shell."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [re.sub(r" +#.*", "", line) for block in blocks for line in block.splitlines()]
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [part for line in (*lines, *inline) for part in re.split(r" (?:&&|&) ", line)]


def fit(command, text):
    """Parse the words of a command as click would; ``[optional]`` and ``a|b`` as in a table of commands."""
    words = shlex.split(re.sub(r"(?<!\w)[\[\]]|\]+(?= |$)|\.\.\.|\\?\|\S+", "", text))
    context = click.Context(command)
    while words and isinstance(command, click.Group):
        if words[0] in ("COMMAND", "--help"):
            return
        if words[0].startswith("-"):
            assert words.pop(0) in [name for option in command.params for name in option.opts]
            continue
        command = command.commands[words.pop(0)]
        context = click.Context(command)
    if not words:  # a command that is named and not called
        return
    values, excess, _ = command.make_parser(context).parse_args(words)
    assert not excess
    for parameter in command.params:
        value = values.get(parameter.name)
        assert (
            not parameter.required or (isinstance(value, str | tuple) and value) or isinstance(value, bool)
        ), parameter.name
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)


def test_every_command_that_is_named_can_be_called_so():
    """Command, options and number of arguments; what `make` is asked for is in the Makefile of the place."""
    thesis, ours = (ROOT / "templates/thesis/Makefile", ROOT / "Makefile")
    faults = []
    for name, text in written_texts().items():
        of_thesis = name == "templates/thesis/README.md"
        makefiles = [thesis] if of_thesis else [thesis, ours] if name.endswith(".ipynb") else [ours]
        for span in spans(text):
            tool, _, words = span.removeprefix(".venv/bin/").partition(" ")
            if words and (tool == "toolkit" or (tool == "papermill" and ".ipynb" in words)):
                try:
                    fit(cli if tool == "toolkit" else papermill, words)
                except (click.ClickException, KeyError, AssertionError) as error:
                    faults.append(f"{name}: `{span}`: {error!r}")
            for makefile in makefiles if tool == "make" and words else ():
                targets = re.findall(r"^\.PHONY:(.*)$", makefile.read_text(), re.MULTILINE)[0].split()
                if words.split()[0] not in targets:
                    faults.append(f"{name}: `{span}`: {makefile.parent.name} has no such target")
    assert faults == []


def test_every_line_of_configuration_is_toml_that_a_study_takes(tmp_path):
    """Blocks of pages, and the lines of templates that wait behind a `#`."""
    shutil.copy(TEMPLATES / "rubrics" / "example.toml", tmp_path / "incident.toml")
    shutil.copytree(TEMPLATES / "my_prompts", tmp_path / "my_prompts")
    for name, text in written_texts().items():
        for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
            table = tomllib.loads(block)
            if "models" in table:
                named = block if "name" in table else f'name = "page"\n{block}'
                (tmp_path / "page.toml").write_text(named, encoding="utf-8")
                assert Study.load(tmp_path / "page.toml").file.models, name
            elif not {"product", "base", "question", "dimensions"} & set(table):  # other files than studies
                StudyFile.model_validate({"name": "page", "models": ["gpt-6-luna", "gpt-oss-120b"], **table})
        for span in spans(text) if name.endswith((".md", ".ipynb")) else ():
            if re.match(r"\w+ = |\[\[?\w+\]", span) and span != "STUDY = ...":
                tomllib.loads(re.sub(r"^(\[\w+\]) ", r"\1\n", span))
    shutil.copytree(TEMPLATES, tmp_path / "templates")
    for path in tmp_path.glob("templates/*.toml"):
        path.write_text(re.sub(r"^# (?=\w+ = )", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
        assert Study.load(path).name


def test_the_shell_of_the_notebook_on_traffic_runs(tmp_path):
    """It records from a server of its own, and shares a table whose loopback addresses are named in a note."""
    text = written_texts()["05_samples_from_traffic.ipynb"]
    script = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        script = script.replace("8080", str(probe.getsockname()[1])).replace("sleep 2", "sleep 5")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = ["bash", "-e", "-c", script]
    done = subprocess.run(
        shell, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "note: no pseudonym for addresses that name no machine: 127.0.0.1" in done.stdout
    assert "GET" in (tmp_path / "shared.csv").read_text()

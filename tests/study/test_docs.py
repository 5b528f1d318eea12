"""What README and the guide pages tell a reader to type runs as it stands: every line of Python, every command."""

from __future__ import annotations

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
from collections.abc import Iterator
from pathlib import Path

import click
import nbformat
import pandas as pd
import pytest
from papermill.cli import papermill

import toolkit
from toolkit import Study
from toolkit.cli import cli, main
from toolkit.store import embedded

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ("running", "judges", "statistics", "traffic", "own_test", "batch", "thesis", "storage")
PAGES = {"README": ROOT / "README.md", **{name: ROOT / "docs" / f"{name}.md" for name in GUIDES}}
FULL = ("batch", "judges", "running", "thesis")
"""Kernels, 504 altered replies, and what README or another page has already; `make test-all` runs them."""


def blocks(page: str, language: str) -> str:
    return "".join(
        re.findall(rf"```{language}\n(.*?)```", PAGES[page].read_text(encoding="utf-8"), re.DOTALL)
    )


def test_the_test_in_the_guide_is_the_one_that_ships() -> None:
    """The example that a reader copies is the file that the tests run, without its docstrings."""
    shipped = (ROOT / "toolkit/hallucination/stereotypes.py").read_text(encoding="utf-8")
    bare = re.sub(r'^ +""".*?"""\n\n?', "", shipped, flags=re.MULTILINE | re.DOTALL)
    assert blocks("own_test", "python") == bare
    assert len([line for line in bare.splitlines() if line.strip()]) <= 32


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("page", ["README", "storage"])
def test_every_line_of_python_runs(page: str, demo_like_study: Path) -> None:
    """On a finished study; what the ten lines promise to write is there."""
    study = Study.load(demo_like_study)
    names: dict = {"study": study}
    code = blocks(page, "python").replace("templates/demo.toml", str(demo_like_study))
    assert code.count("study.") >= 2
    for line in code.splitlines():
        exec(compile(line, page, "exec"), names)
    if page == "README":
        assert isinstance(names["study"].reliability().frame(), pd.DataFrame)
        assert (study.output / "figures" / "quality_by_length.svg").exists()
        assert (study.output / "bundle" / "bundle.tex").exists()
    names["study"].close()
    study.close()


def test_every_method_that_a_page_names_is_there() -> None:
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


@pytest.fixture
def desk(
    demo_like_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_pictures: None
) -> Iterator[Path]:
    """A folder with what the commands of the pages name: a finished study, its ratings, a capture, templates."""
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    text = demo_like_study.read_text(encoding="utf-8").replace("results/small", "results/my_study")
    for name in ("my_study", "gpt4o", "claude"):
        (tmp_path / f"{name}.toml").write_text(text.replace('"small"', f'"{name}"'), encoding="utf-8")
    one_shot = (tmp_path / "templates" / "one_shot.toml").read_text(encoding="utf-8")
    (tmp_path / "templates" / "one_shot.toml").write_text(
        one_shot.replace('"smollm2-135m"', '{ name = "scripted" }'), encoding="utf-8"
    )
    shutil.copy(
        Path(toolkit.__file__).parent / "traffic" / "data" / "plain_gets.pcapng", tmp_path / "flow.pcapng"
    )
    (tmp_path / "grid.toml").write_text(blocks("batch", "toml"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with Study.load("my_study.toml") as study:
        study.run(progress=False)
        runs = study.runs()["run_id"].head(2)
    rows = "\n".join(f"{run},ann,{','.join(['3'] * 7)}" for run in runs)
    dimensions = ",".join(pd.Index(study.dimensions()["dimension"].unique()))
    (tmp_path / "ratings.csv").write_text(f"run_id,rater,{dimensions}\n{rows}\n", encoding="utf-8")
    yield tmp_path
    for place in (tmp_path / "results", tmp_path / "templates" / "results"):
        embedded.stop(place / ".store")


@pytest.mark.parametrize(
    "page", [pytest.param(name, marks=[pytest.mark.full] if name in FULL else []) for name in PAGES]
)
def test_every_command_runs(page: str, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of the page, with exit code 0; LaTeX itself is run by the tests of the bundle."""
    lines = re.findall(r"^(?:\.venv/bin/)?toolkit ([^#\n]+)", blocks(page, "sh"), flags=re.MULTILINE)
    for line in lines:
        if page == "batch":
            for name in ("gpt4o", "claude"):
                main_code(["run", f"{name}.toml"])
        assert main_code(shlex.split(line)) == 0, (line, capsys.readouterr().err)
    assert lines or page in ("statistics", "own_test", "storage")


def main_code(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


@functools.cache
def written_texts() -> dict[str, str]:
    """Return what a reader sees: pages, cells of notebooks that are no code, and what the code of the toolkit says."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "templates/thesis/README.md"]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages}
    for path in (*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("templates/*.ipynb")):
        cells = nbformat.read(path, 4).cells
        texts[path.name] = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for path in (ROOT / "toolkit").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        strings = [node.value for node in nodes if isinstance(node, ast.Constant)]
        texts[str(path.relative_to(ROOT))] = "\n\n".join(text for text in strings if isinstance(text, str))
    return texts


def spans(text: str) -> list[str]:
    """Return what stands between backticks in a text, and every line of its blocks of shell."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [re.sub(r" +#.*", "", line) for block in blocks for line in block.splitlines()]
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [part for line in (*lines, *inline) for part in re.split(r" (?:&&|&) ", line)]


def fit(command: click.Command, text: str) -> None:
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
        assert not parameter.required or (isinstance(value, str | tuple | bool) and value), parameter.name
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)


@pytest.mark.parametrize("name", sorted(name for name, text in written_texts().items() if "toolkit " in text))
def test_every_command_that_is_named_can_be_called_so(name: str) -> None:
    """Command, options and number of arguments; what `make` is asked for is in the Makefile of the place."""
    for span in spans(written_texts()[name]):
        tool, _, words = span.removeprefix(".venv/bin/").partition(" ")
        if words and (tool == "toolkit" or (tool == "papermill" and ".ipynb" in words)):
            try:
                fit(cli if tool == "toolkit" else papermill, words)
            except (click.ClickException, KeyError, AssertionError) as error:
                pytest.fail(f"{name}: `{span}`: {error!r}")
    thesis = "templates/thesis/README.md"
    makefiles = [ROOT / "templates/thesis/Makefile"] if name == thesis or name.endswith(".ipynb") else []
    makefiles += [ROOT / "Makefile"] if name != thesis else []
    for span in spans(written_texts()[name]):
        tool, _, target = span.partition(" ")
        for makefile in makefiles if tool == "make" else ():
            targets = re.findall(r"^\.PHONY:(.*)$", makefile.read_text(), re.MULTILINE)[0].split()
            assert target.split()[0] in targets, (span, makefile)


def test_every_line_of_configuration_is_toml_that_a_study_takes(tmp_path: Path) -> None:
    """Blocks of pages, and the lines of templates that wait behind a `#`."""
    shutil.copy(ROOT / "templates" / "rubrics" / "example.toml", tmp_path / "incident.toml")
    for name, text in written_texts().items():
        for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
            table = tomllib.loads(block)
            if "models" in table:
                named = block if "name" in table else f'name = "page"\n{block}'
                (tmp_path / "page.toml").write_text(named, encoding="utf-8")
                assert Study.load(tmp_path / "page.toml").file.models, name
        for span in spans(text) if name.endswith((".md", ".ipynb")) else ():
            if re.match(r"\w+ = |\[\[?\w+\]", span) and span != "STUDY = ...":
                tomllib.loads(re.sub(r"^(\[\w+\]) ", r"\1\n", span))
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    for path in tmp_path.glob("templates/*.toml"):
        path.write_text(re.sub(r"^# (?=\w+ = )", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
        assert Study.load(path).name


def test_the_shell_of_the_notebook_on_traffic_runs(tmp_path: Path) -> None:
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

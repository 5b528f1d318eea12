"""What README and the guide pages tell a reader to type runs as it stands: every line of Python, every command."""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import toolkit
from toolkit import Study
from toolkit.cli import main
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
    shipped = (ROOT / "toolkit/protocols/stereotypes.py").read_text(encoding="utf-8")
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
        Path(toolkit.__file__).parent / "samples" / "data" / "plain_gets.pcapng", tmp_path / "flow.pcapng"
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

"""Tutorials run as they are printed: in an empty folder, block after block, and print the numbers that they show."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
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

import pandas as pd
import pytest

from toolkit.cli import main
from toolkit.store import embedded

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LOCAL = 'name = "smollm2-135m"'


class Reader:
    """Who does what a page says, and remembers what was printed since the last block that shows output."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.names: dict = {}
        self.printed = ""

    def read(self) -> int:
        """Do all blocks of the page, and return how many there are."""
        text = (DOCS / f"{self.page}.md").read_text(encoding="utf-8")
        blocks = list(_BLOCK.finditer(text))
        for block in blocks:
            getattr(self, f"_{block[1]}")(block[2], text[: block.start()])
        return len(blocks)

    def _sh(self, code: str, before: str) -> None:
        self.printed = ""
        if "& sleep" in code:  # a server in the background, and what is asked of it: one script
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            self._shell(code.replace("8080", str(port)))
            return
        for line in code.splitlines():
            words = shlex.split(line, comments=True)
            match words[:2]:
                case []:
                    continue
                case ["python3", "-m"] | [".", _] | ["pip", "install"]:
                    # The environment is there already; that it is the project's is in the file of the project.
                    assert (
                        words[0] != "pip" or f'name = "{words[2]}"' in (ROOT / "pyproject.toml").read_text()
                    )
                case ["cd", folder]:
                    os.chdir(folder)
                case ["toolkit", *_]:
                    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as end:
                        main(words[1:])
                    self.printed += out.getvalue()
                    fine = (
                        (None, 0, 1) if "planted" in line else (None, 0)
                    )  # 1: some runs fail, as is planted
                    assert end.value.code in fine, (line, self.printed)
                case _:
                    self._shell(line)
        # A script takes the place of the model that would have to be fetched.
        for file in Path.cwd().glob("local.toml"):
            there = file.read_text(encoding="utf-8")
            scripted = there.replace('["smollm2-135m"]', '["scripted"]').replace(_LOCAL, 'name = "scripted"')
            file.write_text(scripted, encoding="utf-8")

    def _shell(self, script: str) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path}
        done = subprocess.run(["bash", "-e", "-c", script], env=env, capture_output=True, text=True)
        self.printed += done.stdout
        assert done.returncode == 0, (script, done.stderr)

    def _python(self, code: str, before: str) -> None:
        self.printed = ""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            for statement in ast.parse(code).body:
                single = ast.Interactive([statement])  # the prompt of Python shows what an expression gives
                exec(compile(single, self.page, "single"), self.names)
        self.printed = out.getvalue()

    def _file(self, code: str, before: str) -> None:
        """Save a block under the name that stands last before it."""
        name = re.findall(r"`([^`\n]+)`:\s*$", before)[-1]
        Path(name).write_text(code, encoding="utf-8")

    _toml = _file

    def _text(self, code: str, before: str) -> None:
        """Look for every line that is shown in what was printed: its numbers, in their order, on one line."""
        if before.rstrip().endswith("`:"):
            self._file(code, before)
            return
        for line in code.splitlines():
            numbers = _NUMBER.findall(line)
            found = [printed for printed in self.printed.splitlines() if _in_order(numbers, printed)]
            word = line.split()[0]
            assert any(word in printed for printed in found) or (found and numbers), (line, self.printed)

    def _latex(self, code: str, before: str) -> None:
        for name in re.findall(r"\\input\{([^}]+)\}", code):
            assert Path(name).is_file(), name


def _in_order(numbers: list[str], line: str) -> bool:
    there = iter(_NUMBER.findall(line))
    return all(number in there for number in numbers)


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which a newcomer starts; what pages start there is stopped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "displayhook", lambda value: None if value is None else print(repr(value)))
    yield tmp_path
    os.chdir(tmp_path)
    for store in tmp_path.rglob(".store"):
        embedded.stop(store)
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.full
@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("page", ["tutorial_first_study", "tutorial_scores", "tutorial_traffic"])
def test_a_newcomer_can_follow_the_page(page: str, empty_folder: Path) -> None:
    reader = Reader(page)
    assert reader.read() >= 5
    if study := reader.names.get("study"):
        study.close()


@pytest.mark.full
def test_the_explanations_are_of_the_planted_study(empty_folder: Path) -> None:
    """Sentences and pictures; where they differ, draw again and read the page: its prose names the same numbers."""
    shutil.copytree(ROOT / "templates", empty_folder / "templates")
    reader = Reader("explain_statistics")
    assert reader.read() == 3
    loaded = importlib.util.spec_from_file_location("drawing", ROOT / "scripts" / "draw_explanations.py")
    drawing = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(drawing)
    drawn = drawing.draw_all(reader.names["study"], empty_folder / "pictures")
    page = (DOCS / "explain_statistics.md").read_text(encoding="utf-8")
    for picture in drawn:
        assert f"(pictures/{picture.name})" in page
        assert picture.read_bytes() == (DOCS / "pictures" / picture.name).read_bytes(), picture.name
    reader.names["study"].close()


def test_the_glossary_has_the_words_of_results_and_frames() -> None:
    """Each once, in the order of the alphabet, in one sentence."""
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- \*\*(.+?)\*\*: (.+)$", page, re.MULTILINE)
    defined = {term for term, _ in entries}
    assert len(defined) == len(entries) > 100
    assert all(sentence.count(". ") == 0 and sentence.endswith(".") for _, sentence in entries)
    terms = tomllib.loads((ROOT / "toolkit/report/terms.toml").read_text(encoding="utf-8"))
    shown = {*terms["words"].values(), *terms["columns"].values(), *terms["tests"].values()}
    shown |= {*terms["factors"], *terms["probes"]} | {words.strip(", ") for words in terms["parts"].values()}
    assert not (missing := shown - defined), missing
    columns = pd.read_csv(ROOT / "toolkit/store/columns.csv").dropna(subset="column")
    met = set(columns.loc[columns["frame"].isin(["runs", "judgements"]), "column"])
    assert not (unexplained := met - set(re.findall(r"`(\w+)`", page))), unexplained
    pointed = {word for _, sentence in entries for word in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", sentence)}
    assert not (dangling := pointed - defined), dangling

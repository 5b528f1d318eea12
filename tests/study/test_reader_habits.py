"""Scenarios as people write them, keys in the wrong table, and the completion of the shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.errors import StudyError
from toolkit.study_loading import load_study_file

START = 'name = "x"\nmodels = [{ name = "m", provider = "scripted" }]\n'


def loaded(folder: Path, text: str) -> object:
    (folder / "x.toml").write_text(START + text, encoding="utf-8")
    return load_study_file(folder / "x.toml")[0]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('aud = "USD 10"', "budget.aud"),
        ('aud = "17"', "budget.aud"),
        ('aud_per_usd = { rate = 1.5, on = "3/4/2025" }', "budget.aud_per_usd.on"),
        ('aud_per_usd = { rate = 1.5, on = "2025-11-20" }', "budget.aud_per_usd.on"),
    ],
)
def test_money_and_days_are_numbers_and_dates_of_toml(tmp_path: Path, text: str, key: str) -> None:
    """A text that could be two amounts or two days is none."""
    with pytest.raises(StudyError, match=re.escape(f"{key}: ")):
        loaded(tmp_path, f"[budget]\n{text}\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_tokens = 3\n", "unknown key max_tokens; write sampling.max_tokens instead"),
        (
            "[judges]\nceiling_share = 0.3\n",
            "unknown key judges.ceiling_share; write analysis.ceiling_share instead",
        ),
        (
            "equivalence_margin = 3\n",
            "unknown key equivalence_margin; write analysis.equivalence_margin inst",
        ),
        ("repeat = 3\n", "unknown key repeat; did you mean repeats"),
    ],
)
def test_a_key_in_the_wrong_table_says_where_it_belongs(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(StudyError) as error:
        loaded(tmp_path, text)
    assert says in str(error.value)


TOOLKIT = Path(sys.executable).with_name("toolkit")
LINES = re.findall(
    r"^(.*_TOOLKIT_COMPLETE=(\w+)_source toolkit.*?) +# \w+$",
    (Path(__file__).parents[2] / "docs" / "how_to" / "completion.md").read_text(encoding="utf-8"),
    flags=re.MULTILINE,
)


def test_the_line_of_the_page_makes_bash_complete_commands_options_and_files(tmp_path: Path) -> None:
    """In the bash of this machine, as the Tab key asks it."""
    line = {shell: line for line, shell in LINES}["bash"]
    (tmp_path / "mine.toml").touch()
    for words, expected in (("vi", "view"), ("run --li", "--limit"), ("judges dr", "drift")):
        assert in_bash(f"{line}; {press(words)}", tmp_path).split() == [expected]
    # Of a path bash completes the end itself; that it is to do so is what click says.
    assert "file" in in_bash(
        "COMP_WORDS='toolkit view mi' COMP_CWORD=2 _TOOLKIT_COMPLETE=bash_complete toolkit", tmp_path
    )


def press(words: str) -> str:
    """Return what bash does when the Tab key is pressed behind words."""
    count = len(words.split())
    return f'COMP_WORDS=(toolkit {words}); COMP_CWORD={count}; _toolkit_completion toolkit; echo "${{COMPREPLY[@]}}"'


def in_bash(script: str, folder: Path) -> str:
    path = f"{TOOLKIT.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True, text=True, cwd=folder, timeout=60, check=True, env={**os.environ, "PATH": path},
    )  # fmt: skip
    return done.stdout

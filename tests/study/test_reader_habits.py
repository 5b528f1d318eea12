"""Scenarios, days and money as people write them, keys in the wrong table, and the completion of the shell."""

import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from places import DOCS

from toolkit.errors import StudyError
from toolkit.plan import make_plan
from toolkit.study_file import load_study_file

START = 'name = "x"\nmodels = [{ name = "m", provider = "scripted" }]\n'


def loaded(folder, text):
    (folder / "x.toml").write_text(START + text, encoding="utf-8")
    return load_study_file(folder / "x.toml")[0]


@pytest.mark.parametrize(
    ("text", "aud"),
    [("17.2", 17.2), ('"AUD 17.20"', 17.2), ('"1,250 aud"', 1250.0), ('"17"', 17.0), ('"10usd"', 15.0)],
)
def test_money_is_read_as_people_write_it(tmp_path, text, aud):
    """Dollars of the US at the study's own rate; an amount without a name is in AUD, as the key says."""
    rate = 'aud_per_usd = { rate = 1.5, on = "20 November 2025" }'
    budget = loaded(tmp_path, f"[budget]\naud = {text}\nconfirm_above_aud = {text}\n{rate}\n").budget
    assert (budget.aud, budget.confirm_above_aud) == (aud, aud)
    assert budget.aud_per_usd.on == date(2025, 11, 20)


@pytest.mark.parametrize(
    "text", ["17,20", "$17.20", "AUD 5 USD", "", "EUR 5", "1e3", "-5", "12,50,000", "AUD"]
)
def test_money_that_could_be_two_amounts_is_refused(tmp_path, text):
    with pytest.raises(
        StudyError, match=r"budget: aud: .* is no amount; write 17\.20, AUD 17\.20 or USD 11\.00"
    ):
        loaded(tmp_path, f'[budget]\naud = "{text}"\n')


def test_a_day_that_is_two_days_is_refused(tmp_path):
    with pytest.raises(StudyError, match=r"budget\.aud_per_usd\.on"):
        loaded(tmp_path, '[budget]\naud_per_usd = { rate = 1.5, on = "3/4/2025" }\n')


@pytest.mark.parametrize("spelled", ["SOC incident", " soc_INCIDENT ", "SOC_INCIDENT"])
def test_scenarios_are_found_however_they_are_spelled(tmp_path, spelled):
    """Twice the same one is one; the plan has the dataset's own spelling."""
    plan = make_plan(loaded(tmp_path, f'scenarios = ["{spelled}", "SOC_INCIDENT"]\n'), tmp_path)
    assert plan.study.scenarios == ("SOC_INCIDENT",)


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
def test_a_key_in_the_wrong_table_says_where_it_belongs(tmp_path, text, says):
    with pytest.raises(StudyError) as error:
        loaded(tmp_path, text)
    assert says in str(error.value)


TOOLKIT = Path(sys.executable).with_name("toolkit")
LINES = re.findall(
    r"^(.*_TOOLKIT_COMPLETE=(\w+)_source toolkit.*?) +# \w+$",
    (DOCS / "how_to" / "completion.md").read_text(encoding="utf-8"),
    flags=re.MULTILINE,
)


def test_the_line_of_the_page_makes_bash_complete_commands_options_and_files(tmp_path):
    """In the bash of this machine, as the Tab key asks it."""
    line = {shell: line for line, shell in LINES}["bash"]
    (tmp_path / "mine.toml").touch()
    for words, expected in (("vi", "view"), ("run --li", "--limit"), ("judges dr", "drift")):
        assert in_bash(f"{line}; {press(words)}", tmp_path).split() == [expected]
    # Of a path bash completes the end itself; that it is to do so is what click says.
    assert "file" in in_bash(
        "COMP_WORDS='toolkit view mi' COMP_CWORD=2 _TOOLKIT_COMPLETE=bash_complete toolkit", tmp_path
    )


def press(words):
    """Return what bash does when the Tab key is pressed behind words."""
    count = len(words.split())
    return f'COMP_WORDS=(toolkit {words}); COMP_CWORD={count}; _toolkit_completion toolkit; echo "${{COMPREPLY[@]}}"'


def in_bash(script, folder):
    path = f"{TOOLKIT.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True, text=True, cwd=folder, timeout=60, check=True, env={**os.environ, "PATH": path},
    )  # fmt: skip
    return done.stdout

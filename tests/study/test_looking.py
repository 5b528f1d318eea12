"""Looking at a study runs no code of its own: the Tab key, status, view and --settle read it as data."""

import json
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from toolkit.cli import cli
from toolkit.errors import StudyError
from toolkit.study import Study
from toolkit.viewer.page import page_of
from toolkit.viewer.serve import page_server

SCORER = "def score(text, item):\n    return 1.0\n"
TEST = """
from toolkit.prompt_test import Measurement, Prompt, PromptResponseTest, PromptWithContext, ResultType
from toolkit.prompt_test import TestItem, mean_result

class Ports(PromptResponseTest):
    name = "ports"
    default_repeats = 2

    def make_test_items(self):
        prompts = [PromptWithContext(Prompt(f"Port of {n}?", n), context={1, 2}) for n in ("ssh", "dns")]
        return tuple(TestItem(prompt.prompt_id, [prompt]) for prompt in prompts)

    def measure_quality(self, item_annotations):
        return [Measurement("right", 1.0, "share")]

    def result_types(self):
        return (ResultType("right", "share"),)

    def aggregate_measurements(self, measured_items):
        return [mean_result("right", measured_items, "right", "share")]
"""
KEYED = 'test = "keyed"\ndataset = "q.csv"\n[options]\n'
STUDIES = {
    "a test in a file": ("own.py", TEST, 'test = "own.py:Ports"\n', 4),
    "a test in a module": ("own_module_beside.py", TEST, 'test = "own_module_beside:Ports"\n', 4),
    "a scorer": ("own.py", SCORER, f'{KEYED}scorer = "own.py:score"\n', 2),
    # A module beside the study that has the name of what the toolkit itself imports later.
    "no code of its own": ("regex.py", "", f'{KEYED}scorer = "label"\n', 2),
}


def invoked(*words):
    """Run a command in this process, where what was imported is found out as well."""
    return CliRunner().invoke(cli, [*map(str, words)])


@pytest.mark.parametrize("kind", STUDIES)
def test_looking_runs_no_code_of_the_study(tmp_path, store_folder, kind):
    """The code writes a file when it is imported; after each command that looks it is not there, after a run it is."""
    name, code, settings, runs = STUDIES[kind]
    (tmp_path / "q.csv").write_text("prompt,answer\nOne?,a\nTwo?,b\n")
    model = 'models = [{ name = "m", provider = "scripted", replies = ["yes"] }]\n'
    study, trace = tmp_path / "s.toml", tmp_path / "trace"
    study.write_text(f'name = "looked"\noutput = "results/looked"\n{model}{settings}')
    traced = f"open({str(trace)!r}, 'w').close()\n{code}"

    def look(edit):
        (tmp_path / name).write_text(traced + edit)
        sys.modules.pop("own_module_beside", None)
        completed = ShellComplete(cli, {}, "toolkit", "").get_completions(["run", str(study)], "--")
        assert "--yes" in [item.value for item in completed]
        done = invoked("status", study, "--json")
        invoked("status", study, "--settle", "billed", "x")
        assert invoked("status", "--help").exit_code == 0
        assert not trace.exists()
        return done

    status_before = look("# before")
    if name == "regex.py":
        words = [sys.executable, "-m", "toolkit.cli", "status", str(study)]
        assert subprocess.run(words, check=False, cwd="/").returncode == 0
    else:
        assert "which looking does not run, and no run has recorded its plan" in str(status_before.exception)
    assert invoked("run", study, "--yes").exit_code == 0
    assert trace.exists() == (name != "regex.py")
    trace.unlink(missing_ok=True)
    status = json.loads(look("# after").output)
    assert status["runs"] == {"planned": runs, "succeeded": runs, "failed": 0, "missing": 0}
    with Study.load(study, looks=True) as looked:
        server, _ = page_server(looked.plan, looked.store)
        server.server_close()
        assert page_of(looked.plan, looked.store, looked.runs())[1]
    assert not trace.exists()


def test_a_record_of_a_plan_that_was_damaged_is_one_line(tmp_path):
    """It may come from anywhere, as the study may."""
    (tmp_path / "s.toml").write_text('name = "s"\ntest = "own.py:Ports"\nmodels = ["gpt-4o"]\n')
    (tmp_path / "own.py").write_text(TEST)
    (tmp_path / "results" / "s").mkdir(parents=True)
    for content in ("", "{}", "[" * 9999, '{"name": 1}', "\0"):
        (tmp_path / "results" / "s" / "plan.json").write_text(content)
        with pytest.raises(StudyError, match="no run has recorded its plan"):
            Study.load(tmp_path / "s.toml", looks=True)

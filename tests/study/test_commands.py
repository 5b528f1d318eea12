"""Every command: one call of a function, one line for an error, JSON on request, the exit codes of the design."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pandas as pd
import pytest
from cases import cases

from toolkit.cli import cli, main
from toolkit.getting_started import doctor
from toolkit.getting_started.doctor import copied_notebooks
from toolkit.store import embedded
from toolkit.words import VERSION, Summary

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "shrout_fleiss_1979.json").read_text())


@pytest.mark.usefixtures("no_pictures")
def test_analyse_gives_the_shrout_and_fleiss_table(toolkit, tmp_path):
    """The six coefficients of Shrout & Fleiss (1979), Table 2, from a file of ratings with a column ``target``."""
    ratings = (
        pd.DataFrame(GOLDEN["ratings"]).rename_axis(index="target", columns="judge").stack().rename("score")
    )
    ratings.to_csv(tmp_path / "ratings.csv")
    code, out, _ = toolkit("analyse", tmp_path / "ratings.csv", "--out", tmp_path / "out")
    assert (code, "Agreement of the judges" in out) == (0, True)
    rows = pd.read_csv(tmp_path / "out" / "figures" / "icc_forest.csv").query("dimension == 'composite'")
    values = rows.set_index("form")["estimate"].to_dict()
    golden = GOLDEN["icc"] | {"alpha over judges": GOLDEN["cronbach_alpha_over_judges"]}
    assert values == {name: pytest.approx(value, abs=1e-6) for name, value in golden.items()}


@pytest.mark.parametrize(
    ("arguments", "says"),
    cases(__file__)["bad_input"],
)
def test_bad_input_is_one_line_and_exit_code_2(toolkit, arguments, says):
    """On standard error, without a traceback; with --json a script reads the same line on standard output."""
    code, out, err = toolkit(*arguments.split(" "))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    code, out, err = toolkit(*arguments.split(" "), "--json")
    said = json.loads(out)
    assert (code, said["exit_code"]) == (2, 2)
    assert err == f"toolkit: {said['error']}\n"


def test_what_a_command_prints_does_not_act_on_the_terminal(toolkit, monkeypatch):
    """Nor does a name that is no UTF-8, such as that of a folder, stop it on a strict terminal."""
    said = Summary({}, "a\x1b[31m caf\udce9\n\tb")
    monkeypatch.setattr("toolkit.prompts.check.check_summary", lambda *_, **__: said)
    assert toolkit("prompts", "check", "demo") == (0, "a[U+001B][31m caf[U+DCE9]\n\tb\n", "")


def test_json_is_ascii_whatever_a_path_holds(study_file, tmp_path):
    """A folder whose name is no UTF-8, and an output that takes ASCII only."""
    folder = tmp_path / os.fsdecode(b"caf\xe9-\xf0\x9f\x94\x92")
    folder.mkdir()
    study = study_file().rename(folder / "small.toml")
    command = [sys.executable, "-m", "toolkit.cli", "status", str(study), "--json"]
    surroundings = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=False, env=surroundings)
    assert json.loads(done.stdout.decode("ascii"))["output"] == str(folder / "results" / "small")
    embedded.stop(folder / "results" / ".store")


def test_debug_shows_the_traceback(toolkit):
    """With --debug before the command the error itself is raised; what is typed wrong stays one line."""
    with pytest.raises(Exception, match="no such study file"):
        main(["--debug", "run", "nowhere.toml"])
    for arguments in (("--debug", "samples", "score", "1"), ("run", "nowhere.toml", "--debug")):
        code, _, err = toolkit(*arguments)
        assert (code, err.startswith("toolkit: "), "--help shows how" in err) == (2, True, True)


@pytest.mark.usefixtures("no_pictures")
def test_a_study_from_estimate_to_figures(toolkit, study_file, tmp_path):
    """estimate, run, status and figures on a scripted study, each as JSON with progress elsewhere."""
    path = study_file()
    estimate = json.loads(toolkit("estimate", path, "--json")[1])
    assert (estimate["calls"], estimate["worst_aud"]) == (24, 0.0)
    for figures in (("report", path, "--figures"), ("report", path, "--bundle")):
        code, _, err = toolkit(*figures)
        assert (code, err.count("\n"), "no run has succeeded yet" in err) == (2, 1, True)
    assert json.loads(toolkit("run", path, "--limit", 3, "--json")[1])["new_calls"] == 12
    assert (
        f"next  `toolkit run {path}` without --limit asks the other 3 runs"
        in toolkit("run", path, "--limit", 3)[1]
    )
    assert json.loads(toolkit("status", path, "--json")[1])["runs"]["missing"] == 3
    code, out, err = toolkit("run", path, "--json")
    assert (code, json.loads(out)["judged"], json.loads(out)["new_calls"]) == (0, 6, 12)
    assert "runs" in err
    # Nobody works on it, so watching ends after the first look, and JSON stays one object.
    status = json.loads(toolkit("status", path, "--watch", "60", "--json")[1])
    assert status["runs"] == {"planned": 6, "succeeded": 6, "failed": 0, "missing": 0}
    assert (status["judgements"]["scored"], status["at_work"]) == (18, False)
    assert json.loads(toolkit("estimate", path, "--json")[1])["calls"] == 0
    assert json.loads(toolkit("run", path, "--only-judge", "--json")[1])["new_calls"] == 0
    files = [Path(file) for file in json.loads(toolkit("report", path, "--figures", "--json")[1])["files"]]
    assert all(file.stat().st_size > 0 for file in files)
    assert {file.suffix for file in files} >= {".pdf", ".png", ".tex", ".csv"}
    code, out, err = toolkit("report", path, "--bundle")
    assert (code, len(out.splitlines()), out.strip().endswith("/bundle")) == (0, 1, True), out
    assert "figures: 4/4" in err, err
    assert toolkit("run", path)[1].splitlines()[-1] == (
        f"next  `toolkit report {path} --bundle` writes findings, figures, tables and methods for a thesis"
    )
    assert [toolkit(command, path)[0] for command in ("estimate", "status")] == [0, 0]
    # What the system says of a place is for the user to mend, and no error of ours.
    (tmp_path / "file").write_text("")
    code, _, err = toolkit("export", path, tmp_path / "file" / "out")
    assert (code, err) == (2, err.splitlines()[0] + "\n")
    assert f"{tmp_path}/file/out: Not a directory" in err
    assert "unexpected" not in err


def test_a_run_says_that_judges_gave_no_scores(toolkit, study_file):
    """Two judges who write prose leave every run unjudged; the end of the run names that and where the reason is."""
    path = study_file()
    text = path.read_text()
    for judge in ("judge-b", "judge-c"):
        text = text.replace(f'"{judge}", provider', f'"{judge}", replies = ["Good."], provider')
    path.write_text(text)
    code, out, _ = toolkit("run", path)
    assert (code, "judged  0 with a score" in out) == (0, True)
    assert "unjudged  6 replies: `toolkit status` says why" in out
    assert "asks the judges again" not in out  # it would ask nothing: prose is an answer
    assert "final   12 x prose, not asked again: another judge helps\n" in out
    assert ("results none, because no reply has a score" in out, "not estimable" in out) == (True, False)
    assert out.splitlines()[-1].startswith(
        "next  change the study file as the lines `final` say; `toolkit run "
    )
    assert "12 x prose" in toolkit("status", path)[1]
    # Without the repair that was paid for already, that is what is offered, and it costs nothing.
    path.write_text(path.read_text().replace("[judges]", "[judges]\nrepair = false"))
    assert (
        "12 x prose, not asked again: repair = true under [judges] has the judge mend it"
        in toolkit("run", path, "--only-judge")[1]
    )


def test_what_costs_asks_first_and_a_missing_key_is_one_line(toolkit, study_file):
    """Above budget.confirm_above_aud nothing starts without --yes; of many runs without a key one variable is named."""
    path = study_file("repeats = 5")
    text = (
        path.read_text()
        .replace('{ name = "scripted" }', '"gpt-4o"')
        .replace('"scripted" }', '"scripted", planted = {} }')
    )
    path.write_text(text + "[budget]\nconfirm_above_aud = 0.01\n")
    code, _, err = toolkit("run", path)
    assert (code, "confirm_above_aud" in err, "--yes" in err) == (2, True, True)
    code, out, err = toolkit("run", path, "--yes")
    assert (code, out) == (2, "")
    assert "OPENAI_API_KEY" in err.strip().splitlines()[-1]
    assert "unexpected" not in err
    said = json.loads(toolkit("status", path, "--json")[1])
    assert (said["abandoned"], said["unsure_aud"]) == (0, 0.0)  # nothing was sent, so nothing is owed


def test_at_most_fourteen_commands_stand_at_the_top_and_groups_apart(toolkit):
    groups = {name for name, command in cli.commands.items() if isinstance(command, click.Group)}
    commands, apart = toolkit("--help")[1].split("\nGroups:\n")
    assert (len(cli.commands.keys() - groups) <= 14, groups) == (
        True,
        {"judges", "prompts", "ratings", "samples"},
    )
    for name in cli.commands:
        assert f"\n  {name} " in f"\n{apart if name in groups else commands}", name


def test_help_and_import_load_nothing_heavy():
    """Help and `import toolkit` stay instant because heavy packages are loaded when they are needed."""
    heavy = "pandas numpy scipy matplotlib pingouin openai anthropic mongoengine pymongo tiktoken pydantic papermill"
    for code in ("import toolkit", "import toolkit.cli as c; c.cli.main(['--help'], standalone_mode=False)"):
        script = (
            f"import sys; {code}; print([m for m in {heavy.split()} if m in sys.modules], file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stderr.strip() == "[]"
    assert version("llm-security-toolkit") == VERSION


def test_the_lab_opens_copies_so_that_the_tree_stays_as_it_is(tmp_path):
    notebook = tmp_path / "notebooks" / "00_a.ipynb"
    notebook.parent.mkdir()
    notebook.write_text('{"source": ["STUDY = \\"../templates/a.toml\\"", "F = \\"../results/own\\""]}')
    (copy,) = copied_notebooks(tmp_path)
    assert json.loads(copy.read_text())["source"] == ['STUDY = "../../templates/a.toml"', 'F = "../own"']
    copy.write_text("worked on")
    assert copied_notebooks(tmp_path) == [copy]
    assert copy.read_text() == "worked on"
    assert copied_notebooks(tmp_path / "empty") == []


def test_the_lab_is_the_process_that_is_ended(monkeypatch):
    given = []
    notebook = Path("results", "notebooks", "00.ipynb")
    monkeypatch.setattr(doctor, "copied_notebooks", lambda folder: [folder / notebook])
    monkeypatch.setattr(doctor.os, "execve", lambda *call: given.extend(call))
    doctor.open_lab()
    _, command, own = given
    settings = Path(own["JUPYTER_CONFIG_PATH"]) / "labconfig" / "default_setting_overrides.json"
    assert "commsOverSubshells" in settings.read_text()
    assert command[1:3] == ["-m", "jupyterlab"]
    assert command[-1].endswith("/lab/tree/results/notebooks/00.ipynb")

"""The core runs a study, its judges and its figures without the rooms that stand on top of it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_study import STUDY

import toolkit

ON_TOP = (
    "traffic", "viewer", "adaptive", "audit", "batch", "getting_started", "hallucination", "keyed",
    "people", "probes", "scores", "thesis",
)  # fmt: skip
COMMANDS = {
    "audit": {"export", "verify"}, "batch": {"batch", "demo"}, "people": {"ratings"}, "scores": {"analyse"},
    "thesis": {"init"}, "traffic": {"capture", "convert"}, "viewer": {"view"},
}  # fmt: skip
"""Commands and groups that go with a room."""
PROGRAM = """
import sys
from pathlib import Path

# An editable installation finds every folder of the toolkit, wherever the package was imported from.
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]

import toolkit
from toolkit.errors import InputError
from toolkit.report import figure
from toolkit.store import embedded
from toolkit.study import Study

assert Path(toolkit.__file__).is_relative_to(sys.argv[2]), toolkit.__file__
study = Study.load(sys.argv[1])
try:
    study.run(progress=False)
    status = study.status()
    assert status["runs"]["succeeded"] == 6 and study.runs()["judged"].all(), status
    calls = len(study.calls())
    study.run(progress=False)
    assert len(study.calls()) == calls
    assert len(study.judgements()) == 18
    assert study.length().frame() is not None and study.reliability().frame() is not None
    render = figure.render
    figure.render = lambda shown, kind, **_: render(shown, kind) if shown.name == "icc_forest" else b""
    drawn = {path.name for path in study.figures() if path.stat().st_size}
    assert {"icc_forest.pdf", "icc_forest.png", "conditions.csv"} <= drawn, drawn
    for method in (study.bundle, study.view):
        try:
            method()
        except InputError as error:
            print(error)
    study.close()
finally:
    embedded.stop(study.plan.store_folder)
"""


ONE_ROOM = """
import sys

sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]

import toolkit
from toolkit.cli import cli
from toolkit.store import embedded
from toolkit.study import Study

study = Study.load(sys.argv[1])
try:
    study.run(progress=False)
    assert study.runs()["judged"].all()
    study.close()
finally:
    embedded.stop(study.plan.store_folder)
print(*cli.commands, *(name for group in cli.commands.values() for name in getattr(group, "commands", ())))
"""


def without(rooms, folder, program):
    """Run a program on a study and a copy of the package without some rooms; return what it printed."""
    (folder / "study.toml").write_text(STUDY.format(settings="", judges=""))
    core = folder / "core"
    shutil.copytree(
        Path(toolkit.__file__).parent, core / "toolkit", ignore=shutil.ignore_patterns("__pycache__")
    )
    for room in rooms:
        shutil.rmtree(core / "toolkit" / room)
    process = subprocess.run(
        [sys.executable, "-c", program, str(folder / "study.toml"), str(core)],
        env={**os.environ, "PYTHONPATH": str(core)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


def test_a_study_runs_without_the_rooms_on_top(tmp_path):
    """Run, judged, analysed and drawn; a method that needs a room on top names it in one line."""
    assert without(ON_TOP, tmp_path, PROGRAM).splitlines() == [
        f"toolkit/{room} is not installed, and this needs it; install the whole toolkit"
        for room in ("thesis", "viewer")
    ]


def test_no_room_on_top_needs_another_to_be_imported():
    """Nor does the core: what a module imports at its top stays when a room is gone."""
    top = re.compile(rf"(?m)^(?:from|import) toolkit\.(?:{'|'.join(ON_TOP)})\b")
    for path in Path(toolkit.__file__).parent.rglob("*.py"):
        assert {*top.findall(path.read_text("utf-8"))} <= {f"from toolkit.{path.parent.name}"}, path


@pytest.mark.parametrize("room", ON_TOP)
def test_any_one_room_on_top_can_be_taken_away(tmp_path, room):
    """What is left imports, runs a study, and lists its commands."""
    commands = {*without([room], tmp_path, ONE_ROOM).split()}
    assert {"run", "status", "estimate", "report"} <= commands
    assert commands.isdisjoint(COMMANDS.get(room, set()))
    assert {name for others in COMMANDS.values() for name in others} - COMMANDS.get(room, set()) <= commands

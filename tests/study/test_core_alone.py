"""The core runs a study, its judges and its figures without the rooms that stand on top of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_study import STUDY

import toolkit

ON_TOP = (
    "adaptive", "audit", "authoring", "batch", "getting_started", "hallucination", "people", "probes", "scores",
    "thesis", "traffic", "viewer",
)  # fmt: skip
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
    assert {"icc_forest.pdf", "icc_forest.png", "length_effects.csv"} <= drawn, drawn
    for method in (study.bundle, study.view):
        try:
            method()
        except InputError as error:
            print(error)
    study.close()
finally:
    embedded.stop(study.plan.store_folder)
"""


@pytest.mark.full
def test_a_study_runs_without_the_rooms_on_top(tmp_path):
    """Run, judged, analysed and drawn; a method that needs a room on top names it in one line."""
    core = tmp_path / "core"
    shutil.copytree(Path(toolkit.__file__).parent, core / "toolkit")
    for room in ON_TOP:
        shutil.rmtree(core / "toolkit" / room)
    (tmp_path / "study.toml").write_text(STUDY.format(settings="", judges=""))
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "study.toml"), str(core)],
        env={**os.environ, "PYTHONPATH": str(core)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.splitlines() == [
        f"toolkit/{room} is not installed, and this needs it; install the whole toolkit"
        for room in ("thesis", "viewer")
    ]

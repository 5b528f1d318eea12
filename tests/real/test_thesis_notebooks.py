"""Every notebook of a fresh thesis folder runs as `toolkit lab` opens it, after the folder's `make demo` alone."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from places import ROOT

import toolkit
from toolkit import Study, batch, equivalence_bases
from toolkit.batch.engine import new_manager
from toolkit.cli import main
from toolkit.getting_started.doctor import copied_notebooks
from toolkit.getting_started.folder import init_folder
from toolkit.store import embedded

NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def call(line):
    with pytest.raises(SystemExit) as end:
        main(shlex.split(line)[1:])
    assert not end.value.code, line


@pytest.fixture(scope="module")
def thesis(tmp_path_factory):
    """A fresh folder after its `make demo`, in which scripts answer for the local model and nothing is drawn."""
    folder = tmp_path_factory.mktemp("fresh") / "thesis"
    init_folder(folder)
    for path in (*folder.glob("*.toml"), *folder.glob("templates/*.toml"), *folder.glob("notebooks/*.ipynb")):
        text = path.read_text(encoding="utf-8").replace('name = "smollm2-135m"', 'name = "scripted"')
        text = re.sub(r'(\\?")smollm2-135m\\?"', r"\1scripted\1", text).replace("bases = 36", "bases = 6")
        path.write_text(text, encoding="utf-8")
    lines = subprocess.run(
        ["make", "--no-print-directory", "-n", "demo"], cwd=folder, capture_output=True, text=True, check=True
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(Study, "figures", lambda study: [])
        patch.setattr(batch, "run_templates", lambda executions: [target for _, target, _ in executions])
        for line in lines.stdout.splitlines():
            call(line)
    copied_notebooks(folder)
    yield folder
    for store in folder.rglob(".store"):
        embedded.stop(store)


def printed(path):
    """Run a notebook by a kernel of its own in the folder it lies in; returns what it shows as text."""
    book = nbformat.read(path, 4)
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(book, km=new_manager("python3"), timeout=600, resources=where).execute(cleanup_kc=True)
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(output.get("text", output.get("data", {}).get("text/plain", "")) for output in outputs)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_of_a_fresh_folder_runs(thesis, name):
    """Without a warning; what it writes is below the folder's results, once."""
    text = printed(thesis / "results" / "notebooks" / f"{name}.ipynb")
    assert "Warning" not in text
    assert not (thesis / "results" / "notebooks" / "results").exists()
    if name.startswith("07"):
        assert list((thesis / "results" / "my_scores" / "figures").glob("*.pdf"))
    if name.startswith("06"):
        written = (thesis / "results" / "plan" / "my_study.toml").read_text(encoding="utf-8")
        assert written.strip() in text
        _is_a_study_file(thesis, written)


def _is_a_study_file(thesis, text):
    """It loads, has as many bases as its margin takes, or all that there are, and runs once models answer."""
    (thesis / "printed.toml").write_text(text, encoding="utf-8")
    scripted = re.sub(r'"(gpt|claude)-[^"]+"', r'{ name = "\g<0>", provider = "scripted" }', text)
    scripted = scripted.replace('""', '"').replace('"my-study"', '"ran"')
    (thesis / "ran.toml").write_text(scripted, encoding="utf-8")
    with Study.load(thesis / "ran.toml") as ran:
        assert ran.execute(limit=3, progress=False).succeeded == 3
    with Study.load(thesis / "printed.toml") as study, Study.load(thesis / "templates/demo.toml") as pilot:
        sd = max(contrast.sd or 0.0 for contrast in pilot.power(0.5).contrasts)
        needed = equivalence_bases(study.file.analysis.equivalence_margin, sd).whole
        assert study.file.bases >= min(needed, 100), text
        assert len(study.plan.runs) == study.file.bases * 3 * 2
        assert study.file.budget.aud


@pytest.mark.usefixtures("no_pictures")
def test_own_prompts_are_asked_and_analysed(thesis, monkeypatch, capsys):
    """The base that ships and two more, by the commands of the Makefile; verified twice."""
    monkeypatch.chdir(thesis)
    bases = Path(toolkit.__file__).parent / "prompts/data/rq1_controlled"
    for name in ("academic_cti_001.toml", "academic_grc_001.toml"):
        shutil.copy(bases / name, thesis / "my_prompts" / name)
    make = ["make", "--no-print-directory", "-n", "check", "run", "figures", "STUDY=local.toml"]
    lines = subprocess.run(make, cwd=thesis, capture_output=True, text=True, check=True).stdout.splitlines()
    for line in (*lines, *["toolkit verify local.toml"] * 2):
        call(line)
    assert "bases 3, prompts 9 (S 3, M 3, L 3), problems 0" in capsys.readouterr().out
    assert (thesis / "results/local/bundle/bundle.tex").is_file()

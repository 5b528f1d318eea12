"""Every notebook and template on each kind of study: own situations in three lengths, a factor, a plain list, a key."""

import re
from collections import defaultdict

import nbformat
import pytest
from cases import cases
from nbclient import NotebookClient
from notebook_files import KERNEL
from places import ROOT, TEMPLATES
from small_study import executed

from toolkit.batch.engine import new_manager
from toolkit.getting_started.folder import init_folder

STUDIES, ENDS = cases(__file__).values()
BOOKS = [
    *sorted(ROOT.glob("notebooks/0[0-3]*.ipynb")),
    *(path for path in sorted(TEMPLATES.glob("*.ipynb")) if path.stem != "analyse_scores"),
]
SPEAKS = r"(?i:prompt.lengths?\b|\bby length\b|RQ1|\b[SML] ?[-\u2212] ?[SML]\b)"


def _run(study):
    """Run all of them on a study in one kernel; return what each printed, and the error that ended it."""
    whole = nbformat.v4.new_notebook(metadata=KERNEL)
    for path in BOOKS:
        fresh = "%reset -f\nimport matplotlib.pyplot as plt\nplt.close('all')"
        for cell in [nbformat.v4.new_code_cell(fresh), *nbformat.read(path, 4).cells]:
            if cell.cell_type == "code":
                cell.source = re.sub(
                    r'(?m)^(STUDY|study) = ".*?"', lambda m: f'{m[1]} = "{study}"', cell.source
                )
                cell.metadata = {"book": path.stem}
                whole.cells.append(cell)
    NotebookClient(whole, km=new_manager("python3"), timeout=600, allow_errors=True).execute(cleanup_kc=True)
    printed, ended = defaultdict(str), {}
    for cell in whole.cells:
        name = cell.metadata["book"]
        for output in () if name in ended else cell.outputs:
            if output.output_type == "error":
                ended[name] = f"{output.ename}: {output.evalue}"
            printed[name] += output.get("text", "") or output.get("data", {}).get("text/plain", "")
    return {name: " ".join(text.split()) for name, text in printed.items()}, ended


@pytest.mark.full
@pytest.mark.parametrize("kind", STUDIES)
def test_every_notebook_and_template_runs_on_every_kind_of_study(tmp_path, kind):
    """What a kind of study cannot answer ends in one line that says so, and only there."""
    init_folder(tmp_path / "thesis")
    folder = tmp_path / "thesis"
    for path in (TEMPLATES / "first_study").glob("*.toml"):
        (folder / "my_prompts" / path.name).write_bytes(path.read_bytes())
    (folder / "study.toml").write_text(STUDIES[kind])
    with executed(folder / "study.toml"):
        printed, ended = _run(folder / "study.toml")
    wrong = re.compile("Warning" if kind == "situations" else f"Warning|{SPEAKS}")
    assert [wrong.search(text) for text in printed.values()] == [None] * len(BOOKS)
    assert ended.keys() == ENDS[kind].keys()
    assert all(re.search(ENDS[kind][name], error) for name, error in ended.items()), ended

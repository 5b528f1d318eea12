"""Committed notebooks hold no output, and templates hold parameters and no logic."""

import ast
import json
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "templates").glob("*.ipynb"))
NOTEBOOKS = [*TEMPLATES, *sorted((ROOT / "notebooks").glob("*.ipynb"))]
LOGIC = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.For, ast.AsyncFor, ast.While, ast.If,
    ast.Try, ast.With,
)  # fmt: skip


def name_of(path: Path) -> str:
    return path.name


def code_of(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]


def test_the_notebooks_are_where_the_readme_says():
    assert [path.stem for path in TEMPLATES] == [
        "cost_quality",
        "hallucination",
        "judge_reliability",
        "one_shot_test",
        "prompt_length",
        "run_study",
        "thesis_figures",
    ]
    assert [path.stem[:2] for path in NOTEBOOKS if path not in TEMPLATES] == [f"0{n}" for n in range(7)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_a_notebook_is_valid_stripped_and_names_the_kernel_python3(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert set(notebook.metadata) - {"toolkit"} == {"kernelspec", "language_info"}
    for cell in code_of(path):
        assert cell.outputs == []
        assert cell.execution_count is None
        assert set(cell.metadata) <= {"tags"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_cell_ids_are_stable_words_and_not_random(path):
    ids = [cell.id for cell in nbformat.read(path, 4).cells]
    assert len(set(ids)) == len(ids)
    assert all(part.isalpha() for each in ids for part in each.split("-"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_a_notebook_starts_with_its_question_and_has_10_to_25_cells(path):
    cells = nbformat.read(path, 4).cells
    assert 10 <= len(cells) <= 25
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_code_is_calls_and_no_logic(path):
    for cell in code_of(path):
        found = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, LOGIC)]
        assert not found, f"cell {cell.id} holds {type(found[0]).__name__}"


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_a_template_has_one_parameters_cell_of_json_values(path):
    (cell,) = [cell for cell in code_of(path) if "parameters" in cell.metadata.get("tags", [])]
    values = {}
    for statement in ast.parse(cell.source).body:
        assert isinstance(statement, ast.Assign)
        values[statement.targets[0].id] = ast.literal_eval(statement.value)
    assert json.loads(json.dumps(values)) == values
    assert {"study", "figures"} <= set(values)


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_a_template_asks_a_question_first_and_ends_with_finding_and_manifest(path):
    cells = nbformat.read(path, 4).cells
    assert "**Question:" in cells[0].source
    assert [cell.id for cell in cells[-4:]] == ["finding-why", "finding", "manifest-why", "manifest"]
    assert "s.manifest(" in cells[-1].source


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_the_manifest_of_a_template_records_every_parameter(path):
    cells = {cell.id: cell for cell in code_of(path)}
    names = [statement.targets[0].id for statement in ast.parse(cells["parameters"].source).body]
    (call,) = [
        node
        for node in ast.walk(ast.parse(cells["manifest"].source))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "manifest"
    ]
    assert [keyword.arg for keyword in call.keywords] == names


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_a_template_that_asks_no_model_says_that_it_reads_the_store(path):
    """Else a batch would call it done after more runs, and show old figures."""
    code = "\n".join(cell.source for cell in code_of(path))
    asks = any(call in code for call in ("s.run(", ".execute(", "compare_hallucination("))
    said = nbformat.read(path, 4).metadata.get("toolkit", {})
    assert said == ({} if asks else {"reads": "store"})


def test_the_first_notebook_is_changed_in_one_line_and_asks_no_model():
    cells = {cell.id: cell.source for cell in code_of(ROOT / "notebooks" / "00_start_here.ipynb")}
    assert cells["study"] == 'STUDY = "../templates/demo.toml"'
    assert not any(".run(" in source or ".execute(" in source for source in cells.values())

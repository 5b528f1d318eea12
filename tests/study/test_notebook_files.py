"""Committed notebooks hold no output, and templates hold parameters and no logic."""

import ast
import json

import nbformat
import pytest
from places import ROOT

TEMPLATES = sorted((ROOT / "templates").glob("*.ipynb"))
NOTEBOOKS = [*TEMPLATES, *sorted((ROOT / "notebooks").glob("*.ipynb"))]
LOGIC = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.For, ast.AsyncFor, ast.While, ast.If,
    ast.Try, ast.With,
)  # fmt: skip


def code_of(path):
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_stripped_asks_first_and_holds_calls_and_no_logic(path):
    """Valid, of the kernel python3, 10 to 25 cells with words for ids, and a question in the title."""
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert set(notebook.metadata) - {"toolkit"} == {"kernelspec", "language_info"}
    cells = notebook.cells
    assert 10 <= len(cells) <= 25
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    assert "**Question:" in cells[0].source
    assert path in TEMPLATES or any(cell.source.startswith("## Finding") for cell in cells)
    ids = [cell.id for cell in cells]
    assert len(set(ids)) == len(ids)
    assert all(part.isalpha() for each in ids for part in each.split("-"))
    for cell in code_of(path):
        assert cell.outputs == []
        assert cell.execution_count is None
        assert set(cell.metadata) <= {"tags"}
        found = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, LOGIC)]
        assert not found, f"cell {cell.id} holds {type(found[0]).__name__}"
        for line in (node for node in ast.parse(cell.source).body if isinstance(node, ast.ImportFrom)):
            if line.module.startswith("toolkit"):  # what it takes from the package is there
                exec(compile(ast.Module([line], []), path.name, "exec"), {})


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_parameters_of_json_values_and_ends_with_finding_and_manifest(path):
    """The manifest records every parameter; one of a study that asks no model says that it reads the store.

    Else a batch would call it done after more runs, and show old figures.
    """
    cells = code_of(path)
    (parameters,) = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    values = {}
    for statement in ast.parse(parameters.source).body:
        (name,) = statement.targets
        values[name.id] = ast.literal_eval(statement.value)
    assert json.loads(json.dumps(values)) == values
    assert "figures" in values
    assert len({"study", "scores"} & values.keys()) == 1
    notebook = nbformat.read(path, 4)
    assert [cell.id for cell in notebook.cells[-4:]] == ["finding-why", "finding", "manifest-why", "manifest"]
    calls = [node for node in ast.walk(ast.parse(cells[-1].source)) if isinstance(node, ast.Call)]
    (call,) = [node for node in calls if getattr(node.func, "attr", "") == "manifest"]
    assert [keyword.arg for keyword in call.keywords] == list(values)
    code = "\n".join(cell.source for cell in cells)
    asks = any(call in code for call in ("s.run(", ".execute(", "compare_hallucination("))
    assert notebook.metadata.get("toolkit", {}) == (
        {} if asks or "study" not in values else {"reads": "store"}
    )

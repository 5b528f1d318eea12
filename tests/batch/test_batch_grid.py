"""Grids: what they expand to, and one line for everything that is wrong with one."""

import tomllib

import numpy as np
import pandas as pd
import pytest
from cases import cases

from toolkit.batch.grid import grid_cells
from toolkit.errors import InputError

CASES = cases(__file__)


def test_a_grid_file_is_product_times_zip_less_exclusions_plus_list(tmp_path):
    """Two by two by a zip of two is eight; one exclusion takes two; one more stands alone."""
    path = tmp_path / "grid.toml"
    path.write_text(
        'product = {a = [1, 2], b = ["x", "y"]}\nzip = {m = ["p", "q"], n = [0.1, 0.2]}\n'
        'list = [{a = 9}]\nexclude = [{a = 2, b = "x"}]\n'
    )
    cells = grid_cells(path)
    assert len(cells) == 8 - 2 + 1
    assert [*cells[:2]] == CASES["first_two"]
    assert cells[-1] == {"a": 9}
    assert not any(cell["a"] == 2 and cell["b"] == "x" for cell in cells[:-1])


def test_values_are_kept_as_they_are_and_an_exclusion_tells_true_from_one():
    """An explicit cell needs no product, an empty one is all defaults; lists, arrays and columns are values."""
    assert grid_cells({"list": [{"modes": ["cot"]}, {}]}) == ({"modes": ["cot"]}, {})
    assert grid_cells({"product": {"modes": [["cot"], []]}}) == ({"modes": ["cot"]}, {"modes": []})
    grid = {"product": {"x": np.arange(2), "y": pd.Series(["a"])}}
    assert grid_cells(grid) == ({"x": 0, "y": "a"}, {"x": 1, "y": "a"})
    cells = grid_cells({"product": {"a": [1, True]}, "exclude": [{"a": True}]})
    assert cells == ({"a": 1},)
    assert cells[0]["a"] is not True


@pytest.mark.parametrize(("grid", "says"), CASES["faults"])
def test_what_is_wrong_with_a_grid_is_one_line(grid, says):
    with pytest.raises(InputError, match=says) as error:
        grid_cells(tomllib.loads(grid), "g.toml")
    assert str(error.value).startswith("g.toml")
    assert "\n" not in str(error.value)


def test_a_grid_that_is_too_large_or_too_deep_is_refused_before_it_is_written_out(tmp_path):
    """Ten lists of ten values each are ten thousand million cells; each fault is one short line."""
    with pytest.raises(InputError, match=r"the product has 10,000,000,000 cells, more than the 100,000"):
        grid_cells({"product": {f"x{n}": list(range(10)) for n in range(10)}})
    path = tmp_path / "grid.toml"
    with pytest.raises(InputError, match="no such grid file"):
        grid_cells(path)
    for text in (
        "[product\n",
        "[product]\nx = [" + "[" * 5000 + "]" * 5000 + "]",
        "[product]\nx = [" + "9" * 5000 + "]",
    ):
        path.write_text(text)
        with pytest.raises(InputError, match="not valid TOML") as error:
            grid_cells(path)
        assert len(str(error.value)) < 400
    path.write_text("\ufeff[product]\nx = [1]\n")  # as an editor of Windows writes it
    assert grid_cells(path) == ({"x": 1},)

"""Parameters of templates: found as Python finds them, and refused in one line when they do not fit."""

import datetime
import tomllib
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cases import cases
from notebook_files import write_notebook

from toolkit.batch.template import check_parameters, plain
from toolkit.errors import InputError

CELL = """
study = "a=b.toml"  # papermill's own inspection misses a value with an equal sign
k: int
most = 5
limit = None
share = 0.5
note = "none"
modes = ["cot"]
table = {}
flag = False
place = Path("x")
"""


@pytest.fixture
def template(tmp_path):
    return write_notebook(tmp_path / "t.ipynb", CELL)


@pytest.mark.parametrize(("given", "says"), [
    *cases(__file__),
    ({"k": 1, "limit": "\ud800"}, "text of whole characters"),
    ({"k": 1, "limit": {1, 2}}, r"limit: \{1, 2\} cannot stand in a notebook"),
    ({"k": 1, "limit": np.zeros(2)}, r"limit: array.* cannot stand in a notebook"),
    ({"k": 1, "table": {1: 2}}, r"table: \{1: 2\} cannot stand in a notebook; .* with keys of text"),
])  # fmt: skip
def test_what_does_not_fit_is_one_line(template, given, says):
    with pytest.raises(InputError, match=says):
        check_parameters(template, tomllib.loads(given) if isinstance(given, str) else given)


def test_values_become_what_papermill_can_write(template):
    """Paths, dates and numpy's numbers are what papermill raises on, or writes as broken code."""
    given = {"k": np.int64(3), "share": 1, "limit": Path("a/b"), "note": datetime.date(2026, 11, 22)}
    assert check_parameters(template, given) == {"k": 3, "share": 1, "limit": "a/b", "note": "2026-11-22"}
    fits = {"k": 1, "study": "b=c", "limit": [1], "place": 3, "table": {"a": 1}, "flag": True}
    assert (
        check_parameters(template, fits) == fits
    )  # a default of None, or one that is calculated, says no type
    moment = np.datetime64("2026-11-22T00:00", "ns")
    values = plain([np.float32(0.5), np.bool_(True), np.str_("s"), moment, Decimal("1.5")], "x")
    assert repr(values) == "[0.5, True, 's', '2026-11-22T00:00:00.000000000', 1.5]"
    dates = tomllib.loads(
        "x = [2026-11-22, 07:32:00, [2026-11-22T07:32:00Z], { a = 1979-05-27T00:32:00.999999 }]"
    )
    texts = ["2026-11-22", "07:32:00", ["2026-11-22T07:32:00+00:00"], {"a": "1979-05-27T00:32:00.999999"}]
    assert plain(dates["x"], "x") == texts
    for nothing in (pd.NaT, Decimal("NaN")):
        with pytest.raises(InputError, match=r"x: .* cannot stand in a notebook"):
            plain(nothing, "x")


@pytest.mark.parametrize(("source", "tag", "says"), [
    ("1 + 1", None, "no cell is tagged `parameters`"), ("print(1)", "parameters", "sets nothing"),
    ("%matplotlib inline\nx = 1", "parameters", "is not plain Python: .*line 1"),
    (f"x = {'-' * 20_000}1", "parameters", "is not plain Python: nested deeper than 100 levels"),
])  # fmt: skip
def test_a_template_without_usable_parameters_is_refused(tmp_path, source, tag, says):
    path = write_notebook(tmp_path / "t.ipynb", source, tag=tag)
    with pytest.raises(InputError, match=says):
        check_parameters(path, {})


def test_a_template_that_is_none_or_in_another_language_is_refused(tmp_path):
    julia = write_notebook(tmp_path / "t.ipynb", "x = ''")
    julia.write_text(julia.read_text().replace('"language": "python"', '"language": "julia"'))
    (tmp_path / "text.ipynb").write_text("hello")
    refused = {"no": "no such template", "text": "is no notebook", "t": "is a notebook in julia"}
    for name, says in refused.items():
        with pytest.raises(InputError, match=says):
            check_parameters(tmp_path / f"{name}.ipynb", {})

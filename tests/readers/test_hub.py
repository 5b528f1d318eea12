"""Datasets of the hub, by a stand-in for the package `datasets` that has the signatures of its version 5.2."""

import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest
from cases import cases
from refusals import refusal

from toolkit.keyed.table import load_keyed
from toolkit.prompts.dataset import load_dataset

CASES = cases(__file__)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SPLITS = {"test": CASES["questions"], "validation": CASES["questions"][:1]}


LABELS = SimpleNamespace(names=["A", "B", "C", "D"])


class Builder:
    """A builder of one dataset and its only split's table; what is not `owner/name` is a folder here."""

    def __init__(self, path, name=None, data_dir=None, data_files=None, cache_dir=None, revision=None):
        self.hash = COMMIT if path == "owner/name" else "1f2e"
        self.splits = SPLITS if name else {"train": CASES["prompts"]}

    def download_and_prepare(self):
        self.is_ready = True

    def as_dataset(self, split=None, in_memory=False):
        assert self.is_ready
        if split and split not in self.splits:
            raise ValueError(f"no split {split}")
        tables = {name: pa.Table.from_pylist(rows) for name, rows in self.splits.items()}
        splits = {name: Split(table) for name, table in tables.items()}
        return splits[split] if split else splits


class Split:
    """A split, whose answers are numbers of labels."""

    def __init__(self, table):
        self.table, self.features = table, {"answer": LABELS} if "answer" in table.column_names else {}

    def with_format(self, form):
        return self

    def __getitem__(self, part):
        return self.table[part]


@pytest.fixture(autouse=True)
def package(monkeypatch):
    fake = SimpleNamespace(__version__="5.2.0", load_dataset_builder=Builder)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return fake


def test_a_table_with_a_key_is_read_as_from_a_file(tmp_path):
    """By usual names of columns, labels by their names, the commit in the name of the table."""
    table = load_keyed(f"hf://owner/name@{COMMIT}/mc:test")
    assert table.name == f"owner/name@{COMMIT}"
    assert [item.answer for item in table.items] == ["B", "A", None]
    assert table.items[0].options == ("22", "443", "80", "25")
    assert table.sha256 != load_keyed("hf://owner/name/mc:validation").sha256


def test_prompts_have_the_commit_as_their_version():
    """Whatever a column says."""
    dataset = load_dataset("hf://owner/name", check_ranges=False)
    assert (dataset.version, dataset.prompts[0].base) == (f"owner/name@{COMMIT}", "a")


@pytest.mark.parametrize(("address", "says"), CASES["faults"])
def test_what_cannot_be_read_is_one_line(address, says):
    assert refusal(says, load_keyed, address).startswith(f"{address}: ")


def test_no_package_and_one_that_may_run_code_are_one_line(monkeypatch, package):
    package.__version__ = "3.6.0"
    for module in (package, None):
        monkeypatch.setitem(sys.modules, "datasets", module)
        refusal(r"4 or later.*pip install 'llm-security-toolkit\[hub\]'", load_dataset, "hf://owner/name")

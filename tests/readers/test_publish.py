"""A dataset as it is published: tables, licence, datasheet, and metadata that Croissant's own reader takes."""

from __future__ import annotations

import csv
import json
import shutil
import warnings
from pathlib import Path

import pytest

from toolkit.prompts.dataset import load_dataset

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what mlcroissant imports
    import mlcroissant


@pytest.mark.filterwarnings("ignore:.*ConjunctiveGraph:DeprecationWarning")  # mlcroissant's use of rdflib
def test_the_shipped_dataset_is_published_and_read_by_croissant(tmp_path: Path, toolkit) -> None:
    """Its reader finds no fault, checks the sums, and gives back every prompt and element."""
    code, out, _ = toolkit("prompts", "publish", "rq1_controlled", tmp_path)
    assert code == 0
    assert "prompts published" in out
    read = mlcroissant.Dataset(tmp_path / "croissant.json")
    issues = read.metadata.ctx.issues
    assert (issues.errors, issues.warnings) == (set(), set())
    prompts = {
        row["prompts/prompt_id"].decode(): row["prompts/text"].decode() for row in read.records("prompts")
    }
    dataset = load_dataset("rq1_controlled", length_arms=True)
    assert prompts == {prompt.prompt_id: prompt.text for prompt in dataset.prompts}
    elements = {prompt.base: len(prompt.metadata["elements"]) for prompt in dataset.prompts}
    assert len(list(read.records("elements"))) == sum(elements.values())
    described = json.loads((tmp_path / "croissant.json").read_text())
    assert described["license"] == "https://creativecommons.org/licenses/by/4.0/"
    assert dataset.digest in described["citeAs"]
    assert (tmp_path / "LICENSE").read_text().startswith("Attribution 4.0 International")


def test_an_own_dataset_needs_its_datasheet_and_terms(tmp_path: Path, toolkit) -> None:
    """Nobody else can say who wrote it and who may use it; with both it is published under its own terms."""
    own = tmp_path / "mine"
    shutil.copytree(Path(load_dataset.__code__.co_filename).parent / "data" / "demo", own)
    for name, content in (("DATASHEET.md", "# Datasheet\n"), ("LICENSE", "CC0-1.0\n")):
        code, _, err = toolkit("prompts", "publish", own, tmp_path / "out")
        assert (code, err.count("\n")) == (2, 1)
        assert f"no {name} in it" in err
        (own / name).write_text(content)
    assert toolkit("prompts", "publish", own, tmp_path / "out")[0] == 0
    assert json.loads((tmp_path / "out" / "croissant.json").read_text())["license"] == "CC0-1.0"
    with (tmp_path / "out" / "prompts.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 36

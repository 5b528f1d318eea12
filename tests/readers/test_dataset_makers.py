"""The figures of a dataset: what is drawn is what was counted, and what cannot be drawn says why."""

import csv
import json
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from places import ROOT
from refusals import refusal
from wording_rules import too_many_sentences

from toolkit.prompts.dataset import load_dataset
from toolkit.report.style import COLUMN_MM, PAGE_HIGH_MM, PAGE_MM

sys.path.append(str(ROOT / "scripts"))
from dataset_figures import dataset_figures, facts_profile, prompts_profile, similarity_profile
from dataset_fingerprints import fingerprints_in
from publish_dataset import publish_dataset

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what mlcroissant imports
    import mlcroissant


@pytest.fixture(scope="module")
def demo():
    return load_dataset("demo")


def told(prompts):
    """Return prompts whose bases have a CSF function, and kinds of facts that grow with the length."""
    kinds = {"S": ["asset"], "M": ["asset", "decoy"], "L": ["asset", "decoy", "decoy"]}
    return tuple(
        replace(p, metadata={**p.metadata, "csf": "RESPOND", "fact_kinds": kinds[p.level]}) for p in prompts
    )


def drawn(dataset):
    return {one.name: one for one in dataset_figures(dataset)}


def test_what_is_drawn_is_what_was_counted(demo):
    """Every prompt, pair, base and kind is in its panel; the page fits a thesis, a panel its column."""
    dataset = replace(demo, prompts=told(demo.prompts[:18]) + demo.prompts[18:])
    found = drawn(dataset)
    assert [one.removeprefix("dataset_") for one in found] == [
        "dataset", "lengths", "similarity", "readability", "balance", "facts", "novelty",
    ]  # fmt: skip
    sizes = {
        name: [round(float(side) * 25.4) for side in one.figure.get_size_inches()]
        for name, one in found.items()
    }
    assert sizes.pop("dataset") <= [PAGE_MM, PAGE_HIGH_MM]
    assert {width for width, _ in sizes.values()} == {COLUMN_MM}
    assert found["dataset_lengths"].data["tokens"].sum() == sum(one.token_count for one in demo.prompts)
    axes = found["dataset_similarity"].figure.axes[0]
    assert [sum(bar.get_height() for bar in bars) for bars in axes.containers] == [66, 66, 66]
    lines = found["dataset_readability"].figure.axes[0].lines
    assert len(lines) == 12 + 1
    grey = np.array([line.get_ydata() for line in lines[:-1]], dtype=float)
    assert lines[-1].get_ydata() == pytest.approx(grey.mean(axis=0))
    cells = [text.get_text() for text in found["dataset_balance"].figure.axes[0].texts]
    assert cells[:3] == ["6", "", "6"]  # SOC_INCIDENT: all six tell that they are to respond
    assert cells[-3:] == ["6", "6", "12"]
    assert "6 bases have no CSF function (?)." in found["dataset_balance"].notes
    facts = facts_profile(dataset).set_index(["kind", "level"])["facts"]
    assert facts["decoy"].to_dict() == {"S": 0, "M": 1, "L": 2}
    assert "Means over 6 of 12 bases" in found["dataset_facts"].notes
    assert "n = 12 bases, 36 prompts" in found["dataset"].caption
    assert too_many_sentences(found.values()) == {}
    assert set(found["dataset"].data["panel"]) == {"lengths", "similarity", "readability", "balance", "facts"}


def test_a_copy_adds_nothing_and_stands_beyond_the_limit(demo):
    """Similarity is of different bases only; the first base has nothing before it."""
    again = tuple(replace(one, prompt_id=f"{one.prompt_id}2", base="again") for one in demo.prompts[:3])
    dataset = replace(demo, prompts=demo.prompts[:6] + again)
    novelty = prompts_profile(dataset).set_index(["base", "level"])["novelty"]
    assert novelty["again"].tolist() == [0, 0, 0]
    assert novelty["academic_soc_001"].isna().all()
    assert (novelty["academic_soc_002"] > 0.95).all()
    pairs = similarity_profile(dataset)
    assert pairs.loc[pairs["up_to"] == 1, "pairs"].tolist() == [1, 1, 1]
    assert "S 0.000 and 1.000" in drawn(dataset)["dataset_similarity"].notes


@pytest.mark.filterwarnings("ignore:.*ConjunctiveGraph:DeprecationWarning")  # mlcroissant's use of rdflib
def test_the_shipped_dataset_is_published_and_read_by_croissant(tmp_path):
    """Its reader finds no fault, checks the sums, and gives back every prompt and element."""
    publish_dataset("rq1_controlled", tmp_path)
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


def test_an_own_dataset_needs_its_datasheet_and_terms(tmp_path):
    """Nobody else can say who wrote it and who may use it; with both it is published under its own terms."""
    own = tmp_path / "mine"
    shutil.copytree(Path(load_dataset.__code__.co_filename).parent / "data" / "demo", own)
    for name, content in (("DATASHEET.md", "# Datasheet\n"), ("LICENSE", "CC0-1.0\n")):
        refusal(f"no {name} in it", publish_dataset, own, tmp_path / "out")
        (own / name).write_text(content)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "LICENSE").write_text("mine")
    refusal("has files that are not of dataset demo, such as LICENSE", publish_dataset, own, tmp_path / "out")
    assert (tmp_path / "out" / "LICENSE").read_text() == "mine"
    (tmp_path / "out" / "LICENSE").unlink()
    publish_dataset(own, tmp_path / "out")
    publish_dataset(own, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "croissant.json").read_text())["license"] == "CC0-1.0"
    with (tmp_path / "out" / "prompts.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 36


def test_fingerprints_are_forms_of_too_many_bases(demo):
    """A number in a dozen bases and none beside it, parts of tasks, decoys."""
    text = "Isolate host 61.\n\nTask:\nSay (1) what and (2) why."
    alike = [[replace(p, text=text)] for p in told(demo.prompts) if p.level == "L"]
    patterns = list(fingerprints_in(alike))
    assert "the number 61 stands in 12 bases, its neighbours in 0.0 on average" in patterns
    assert "12 of 12 bases ask for 2 numbered parts" in patterns
    assert "12 of 12 bases have 2 decoys" in patterns

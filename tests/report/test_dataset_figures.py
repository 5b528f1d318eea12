"""The figures of a dataset: what is drawn is what was counted, and what cannot be drawn says why."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import nbformat
import numpy as np
import pytest
from matplotlib.axes import Axes
from wording_rules import too_many_sentences

from toolkit.prompts.dataset import Dataset, Prompt, load_dataset
from toolkit.prompts.profile import UNTOLD, facts_profile, similarity_profile
from toolkit.report.figure import FigureWithCaption
from toolkit.report.plots.dataset import dataset_figure
from toolkit.report.style import PAGE_HIGH_MM, PAGE_MM

TEMPLATE = Path(__file__).resolve().parents[2] / "templates" / "dataset_report.ipynb"
COLUMNS = ("prompt_id", "text", "scenario", "category", "length_bin", "base")


@pytest.fixture(scope="module")
def demo() -> Dataset:
    return load_dataset("demo")


def told(prompts: Iterable[Prompt]) -> tuple[Prompt, ...]:
    """Return prompts whose bases have a CSF function, and kinds of facts that grow with the length."""
    kinds = {"S": ["asset"], "M": ["asset", "decoy"], "L": ["asset", "decoy", "decoy"]}
    return tuple(
        replace(p, metadata={**p.metadata, "csf": "RESPOND", "fact_kinds": kinds[p.length_bin]})
        for p in prompts
    )


def panel(page: FigureWithCaption, title: str) -> Axes:
    """Return the panel of a page by its title."""
    parts = [part for half in page.figure.subfigs for part in half.subfigs]
    (found,) = (part.axes[0] for part in parts if part.get_suptitle().endswith(f") {title}"))
    return found


def write_csv(path: Path, prompts: Iterable[Prompt]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as sink:
        writer = csv.writer(sink)
        writer.writerows([COLUMNS, *([getattr(one, column) for column in COLUMNS] for one in prompts)])
    return path


def test_what_is_drawn_is_what_was_counted(demo: Dataset) -> None:
    """Every prompt, pair, base and kind is in its panel; the page fits a thesis."""
    dataset = replace(demo, prompts=told(demo.prompts[:18]) + demo.prompts[18:])
    page = dataset_figure(dataset)
    assert [round(float(side) * 25.4) for side in page.figure.get_size_inches()] <= [PAGE_MM, PAGE_HIGH_MM]
    assert set(page.data["panel"]) == {"lengths", "similarity", "readability", "balance", "facts"}
    assert page.data["tokens"].sum() == sum(one.token_count for one in demo.prompts)
    bars = panel(page, "Similarity of bases").containers
    assert [sum(bar.get_height() for bar in group) for group in bars] == [66, 66, 66]
    lines = panel(page, "Readability").lines
    assert len(lines) == 12 + 1
    grey = np.array([line.get_ydata() for line in lines[:-1]], dtype=float)
    assert lines[-1].get_ydata() == pytest.approx(grey.mean(axis=0))
    cells = [text.get_text() for text in panel(page, "Balance").texts]
    assert cells[:3] == ["6", "", "6"]  # SOC_INCIDENT: all six tell that they are to respond
    assert cells[-3:] == ["6", "6", "12"]
    facts = facts_profile(dataset).set_index(["kind", "length_bin"])["facts"]
    assert facts["decoy"].to_dict() == {"S": 0, "M": 1, "L": 2}
    for words in ("6 bases have no CSF function (?).", "Means over 6 of 12 bases"):
        assert words in page.notes
    assert "n = 12 bases, 36 prompts" in page.caption
    assert too_many_sentences([page]) == {}


def test_a_copy_stands_beyond_the_limit(demo: Dataset) -> None:
    """Similarity is of different bases only."""
    again = tuple(replace(one, prompt_id=f"{one.prompt_id}2", base="again") for one in demo.prompts[:3])
    dataset = replace(demo, prompts=demo.prompts[:6] + again)
    pairs = similarity_profile(dataset)
    assert pairs.loc[pairs["up_to"] == 1, "pairs"].tolist() == [1, 1, 1]
    assert "S 0.000 and 1.000" in dataset_figure(dataset).notes


def test_one_base_two_lengths_and_a_table_without_base_facts(demo: Dataset, tmp_path: Path) -> None:
    """What cannot be compared is told and not drawn; a text without a word has no grade."""
    one = [replace(demo.prompts[0], text="1 2 3"), demo.prompts[2]]
    page = dataset_figure(load_dataset(write_csv(tmp_path / "one.csv", one), check_ranges=False))
    for words in (
        "Similarity of bases: one base has no other to be compared with",
        "No prompt in bin M.",
        "S without a word, L ",
        "1 base has no CSF function.",
        "n = 1 base, 2 prompts",
        "Kinds of facts: no base tells the kinds of its facts.",
    ):
        assert words in page.caption + page.notes
    assert set(page.data["csf"].dropna()) == {UNTOLD}
    assert "nan" not in page.caption + page.notes


def test_check_writes_one_figure_and_names_its_files(
    toolkit: Callable, tmp_path: Path, demo: Dataset
) -> None:
    """Six files of one stem, the same bytes twice; exit code and lines are those of the check."""
    path = write_csv(tmp_path / "one.csv", [replace(demo.prompts[0], text="1 2 3")])
    code, out, _ = toolkit("prompts", "check", path, "--figures", tmp_path / "out", "--json")
    files = [Path(name) for name in json.loads(out)["files"]]
    assert (code, sorted(file.name for file in files)) == (
        1,
        [f"dataset.{kind}" for kind in ("csv", "notes.txt", "pdf", "png", "svg", "txt")],
    )
    before = [file.read_bytes() for file in files]
    assert toolkit("prompts", "check", path, "--figures", tmp_path / "out")[1].endswith(f"{files[-1]}\n")
    assert [file.read_bytes() for file in files] == before


@pytest.mark.usefixtures("no_pictures")
def test_the_template_says_what_the_check_says(
    tmp_path: Path, demo: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cells run as they stand, on a table of one's own; the manifest holds no path of the machine."""
    monkeypatch.chdir(tmp_path)
    path = write_csv(tmp_path / "mine.csv", demo.prompts[:6])
    monkeypatch.setattr("toolkit.report.show.show_figure", lambda files, name: print(f"shown {name}"))
    known: dict[str, object] = {}
    for cell in nbformat.read(TEMPLATE, 4).cells:
        if cell.cell_type == "code":
            exec(cell.source.replace('"rq1_controlled"', repr(str(path))), known)
    said = capsys.readouterr().out
    assert "shown dataset\n" in said
    assert "dataset mine, version mine: bases 2, prompts 6 (S 2, M 2, L 2), problems 0" in said
    made_from = json.loads(said[said.index("{\n") :])
    assert made_from["inputs"]["dataset"]["sha256"] == load_dataset(path).digest
    assert made_from["parameters"] == {"dataset": "mine.csv", "figures": ""}
    assert len(list((tmp_path / "results" / "datasets" / "mine").glob("*.pdf"))) == 1

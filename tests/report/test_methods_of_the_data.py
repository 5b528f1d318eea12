"""What is wrong with the data or unsure of the money stands in the methods of the bundle."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from toolkit import Study
from toolkit.cli import main
from toolkit.prompts.dataset import load_dataset

COLUMNS = ("prompt_id", "text", "scenario", "category", "length_bin", "base")


def methods_of(path: Path) -> str:
    """Return the methods of the bundle in one line."""
    with Study.load(path) as study:
        study.bundle()
        return " ".join((study.output / "bundle" / "methods.tex").read_text().split())


def test_flaws_equal_texts_and_unsure_money_stand_in_the_methods(
    study_file: Callable[..., Path], tmp_path: Path
) -> None:
    """Accepted and found flaws, independent groups, what may have been billed, and how that was settled."""
    prompts = [one for one in load_dataset("demo").prompts if one.scenario == "CTI_ANALYSIS"]
    same = [
        replace(one, text="Name the first step and why." if one.length_bin == "S" else one.text)
        for one in prompts
    ]
    with (tmp_path / "mine.csv").open("w", newline="") as sink:
        writer = csv.writer(sink)
        writer.writerow(COLUMNS)
        writer.writerows([getattr(one, column) for column in COLUMNS] for one in same)
    path = study_file(settings='dataset = "mine.csv"\naccept_flaws = ["range"]\n')
    with Study.load(path) as study:
        study.run(progress=False)
        call = study.plan.call_ids[0]
        study.store.database["calls"].update_one({"_id": call}, {"$set": {"unsure_aud": 0.25}})
    told = methods_of(path)
    for words in (
        "The study file accepts these flaws of the dataset (",
        "finds these flaws of the dataset besides (",
        "only 5 differ in their text",
        "independent group",
        "At most AUD 0.25 more may have been billed",
    ):
        assert words in told, words
    with pytest.raises(SystemExit):
        main(["settle", str(path), "--billed", "--note", "the bill of May"])
    told = methods_of(path)
    assert "more may have been billed" not in told
    assert "AUD 0.25 of 1 call without a reply was accepted as billed besides" in told

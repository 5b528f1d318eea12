"""What the methods of each kind of study say is what the numbers of its bundle were made by, and nothing else."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import without_pictures

from toolkit import Scores
from toolkit.store import embedded
from toolkit.study import Study
from toolkit.thesis.references import data_file

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
OTHERS = ('{ name = "planted-b"', '{ name = "planted-c"')
MARGIN = '[analysis]\nprimary = "M-S"\nequivalence_margin = 0.15\n'
OWN = """
from toolkit.prompt_test import Measurement, PromptResponseTest, PromptWithContext, ResultType, TestItem, mean_result

class Ports(PromptResponseTest):
    name = "ports"

    def make_test_items(self):
        ports = (("ssh", 22), ("dns", 53))
        return tuple(TestItem(n, (PromptWithContext(n, f"Port of {n}?"),), context=p) for n, p in ports)

    def measure_quality(self, annotations):
        text = annotations.replies[0].text
        return [Measurement("right", float(str(annotations.item.context) in text), "share of items")]

    def result_types(self):
        return (ResultType("share right", "share of items"),)

    def aggregate_measurements(self, items):
        return [mean_result("share right", items, "right", "share of items")]
"""


def without(text: str, *starts: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith(starts))


def template(name: str, *changes: tuple[str, str]) -> str:
    text = (TEMPLATES / f"{name}.toml").read_text(encoding="utf-8").replace("../results", "results")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


SMALL = (("bases = 36", "bases = 8"), ("repeats = 2", "repeats = 1"))
ONE_LENGTH = (MARGIN, ""), ("seed = 20250107", 'seed = 20250107\nlength_bins = ["M"]')
SAMPLES = 'samples = ["plain_gets"]'
QUESTIONS = (('only = ["plain_gets_host"]', ""), ("repeats = 10", "repeats = 2"))
ONE_JUDGE = (
    ("[analysis]\n", ""),
    (MARGIN.removeprefix("[analysis]\n"), "secondary = false\ntertiary = false\n"),
)
STUDIES = {
    "rubric": template("planted", SMALL[0]),
    "one model": without(template("planted", *SMALL), *OTHERS),
    "one length": template("planted", *SMALL, *ONE_LENGTH),
    "two lengths": template("planted", *SMALL, ONE_LENGTH[0], (ONE_LENGTH[1][0], 'length_bins = ["S", "L"]')),
    "one judge": without(template("planted", *SMALL, *ONE_JUDGE), "secondary = {", "tertiary = {"),
    "votes": template("planted", *SMALL, *ONE_LENGTH, ("[judges]\n", '[judges]\nmode = "both"\n')),
    "keyed": template("planted_keyed", SMALL[1]),
    "few groups": without(template("planted_keyed", SMALL[1]), OTHERS[1]),
    "one-shot": template("one_shot", (SAMPLES, ""), *QUESTIONS),
    "few questions": template("one_shot", *QUESTIONS),
    "own test": 'name = "o"\ntest = "own.py:Ports"\nmodels = [{ name = "m", provider = "scripted", replies = ["22"] }]',
}
QUICK = ("one length", "few groups", "few questions", "two of scores")
LONG = {*STUDIES, "scores"} - {*QUICK}
PARAMS = (*QUICK, *(pytest.param(kind, marks=pytest.mark.full) for kind in sorted(LONG)))
SAID = {
    "rubric": (
        "averaged over models",
        "Repeats of a prompt by a model were averaged",
        "Fieller",
        "Greenhouse",
        "is bounded",
    ),
    "one model": ("Prompt lengths were compared within bases", "is bounded"),
    "one length": ("Models were compared", "(families: Holm over 3"),
    "two lengths": ("by a repeated-measures analysis of variance. ",),
    "votes": ("Bradley-Terry", "ranked by votes"),
    "keyed": (
        "count independent groups and not answers",
        "Detectable effects are those of the paired t test",
    ),
    "few groups": ("Accuracy is the share",),
    "one-shot": ("are not exact: 65,535 patterns of signs were drawn with seed 0",),
    "few questions": ("count all patterns of up to 16 units, and are exact",),
    "own test": ("Student's t intervals over items",),
    "scores": ("Every comparison is exploratory", "a standard error clustered over bases"),
}
SILENT = {
    "one model": ("averaged over models", "Models were compared", "Repeats", "pairs of models"),
    "one length": (
        "Prompt lengths",
        "bound",
        "Repeats",
        "analysis of variance",
        "quivalen",
        "Fieller",
        "effects",
        "d_z",
    ),
    "two lengths": ("Greenhouse", "Repeats", "quivalen"),
    "one judge": ("ntraclass", "alpha", "leniency", "Variance components", "generalizability"),
    "votes": ("Prompt lengths", "bound", "analysis of variance"),
    "keyed": (
        "over bases",
        "udges",
        "Prompt lengths",
        "bound",
        "exact",
        "Repeats",
        "analysis of variance",
        "ackknife over bases",
    ),
    "few groups": ("over bases", "udges", "Holm over 3 pairs", "65,535", "Repeats"),
    "one-shot": ("bases", "are exact", "P values of several", "rompt lengths", "Repeats"),
    "few questions": ("65,535", "bases", "P values of several"),
    "own test": ("bases", "P value", "tests over", "omparison", "Holm", "Repeats", "effects"),
    "scores": (
        "rompt lengths",
        "Repeats",
        "bound",
        "analysis of variance",
        "quivalen",
        "bootstrap",
        "effects",
    ),
    "two of scores": ("rompt lengths", "Holm", "ntraclass", "alpha", "Fisher", "Variance components"),
}


def scores_in(folder: Path, models: int, judges: int) -> None:
    drawn = np.random.default_rng(1)
    rows = [
        (f"i{item}", f"m{model}", f"j{judge}", int(drawn.integers(1, 6)))
        for item in range(12)
        for model in range(models)
        for judge in range(judges)
    ]
    frame = pd.DataFrame(rows, columns=["item", "model", "judge", "score"])
    Scores(frame if judges > 1 else frame.drop(columns="judge"), name="s").bundle(folder / "bundle")


@pytest.fixture(scope="module", params=PARAMS)
def bundle(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """The bundle of a kind of study by scripted models, or of scores, without pictures."""
    folder, kind = tmp_path_factory.mktemp("kind"), request.param
    with without_pictures():
        if kind in STUDIES:
            (folder / "own.py").write_text(OWN)
            table = pd.read_csv(TEMPLATES / "planted_keyed.csv")
            table.head(40 if kind == "few groups" else len(table)).to_csv(
                folder / "planted_keyed.csv", index=False
            )
            (folder / "s.toml").write_text(STUDIES[kind])
            with closing(Study.load(folder / "s.toml")) as study:
                study.execute(progress=False)
                study.bundle(folder / "bundle")
            embedded.stop(folder / "results" / ".store")
        else:
            scores_in(folder, *((3, 3) if kind == "scores" else (2, 1)))
    yield kind, folder / "bundle"
    shutil.rmtree(folder)


def paragraphs_of(folder: Path) -> dict[str, str]:
    """Return the paragraphs of the methods by their headings."""
    lines = (folder / "methods.txt").read_text(encoding="utf-8").replace("\u2212", "-").split("\n\n")
    return dict(line.strip().split(". ", 1) for line in lines)


def numbers_of(folder: Path) -> list[dict[str, str]]:
    """Return every number of the tables that has an interval or a P value."""
    texts = [path.read_text(encoding="utf-8") for path in folder.glob("*/*.csv")]
    rows = [row for text in texts for row in csv.DictReader(io.StringIO(text))]
    return [row for row in rows if row.get("method") and (row.get("low") or row.get("p_value"))]


def test_a_sentence_stands_where_a_number_was_made_so_and_nowhere_else(bundle: tuple[str, Path]) -> None:
    """Recounted from the files of the bundle: methods, families and units; every method has a sentence."""
    kind, folder = bundle
    parts, numbers = paragraphs_of(folder), numbers_of(folder)
    told = " ".join(parts.get(name, "") for name in ("Statistics", "Intervals and tests", "Assumptions"))
    assert "Results also name these methods" not in told
    methods = {row["method"] for row in numbers}
    captions = " ".join(path.read_text(encoding="utf-8") for path in folder.glob("figures/*.txt"))
    for entry in data_file("methods.toml")["method"]:
        signs = [
            sign for sign in entry.get("method", ()) if sign != "Fieller*"
        ]  # of findings, which are no table
        is_told = bool(signs) and all(text in told for text in re.split(r"\{\w+\}", entry["text"]))
        if any(fnmatchcase(method, sign) for method in methods for sign in signs):
            assert is_told, (kind, entry["text"])
        elif is_told:  # of a figure whose data name no method
            assert any(fnmatchcase(captions, f"*intervals*: {sign}*") for sign in signs), (
                kind,
                entry["text"],
            )
    families = {
        row["correction"].removesuffix("; interval unadjusted") for row in numbers if row["p_value"]
    } - {"none"}
    assert set(re.findall(r"Holm over \d+ [a-z ]+?(?=,| and Holm|\);)", told)) == families
    for word in ("bases", "independent groups", "items", "methods"):
        if re.search(rf"(?:over|count|clustered over) {word}\b", told):
            assert re.search(rf"\d {word}\b", " ".join([captions, *(row["n"] for row in numbers)])), (
                kind,
                word,
            )


def test_each_kind_of_study_claims_what_it_did_and_no_more(bundle: tuple[str, Path]) -> None:
    """One model is no average over models, one length no comparison of lengths, a drawn pattern no exact test."""
    kind, folder = bundle
    parts = paragraphs_of(folder)
    told = " ".join(
        parts.get(name, "")
        for name in ("Data", "Statistics", "Intervals and tests", "Assumptions", "Multiplicity")
    )
    for words in SAID.get(kind, ()):
        assert words in told, words
    for words in SILENT.get(kind, ()):
        assert words not in told, words


def test_captions_and_results_speak_of_what_is_there(bundle: tuple[str, Path]) -> None:
    """No length that was not asked, no correction of one test, no panel that is not drawn, no absent figure."""
    kind, folder = bundle
    captions = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("figures/*.txt")}
    text = " ".join([*captions.values(), (folder / "findings.txt").read_text(encoding="utf-8")])
    if kind in ("one length", "votes"):
        assert not {"quality_by_length", "length_effects", "equivalence"} & set(captions)
        assert "(S)" not in text
        assert "arrows" not in captions["cost_quality"]
        assert "by judge" in captions["score_distribution"]
        assert "prompt length and" not in captions["score_distribution"]
    if kind == "two lengths":
        assert "medium (M)" not in text
    if kind == "two of scores":
        assert "after Holm's correction" not in text
        assert "corrected by Holm" not in text
    if kind == "scores":
        assert "longer replies" not in captions["judges"]
    latex = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*/*.tex"))
    latex += (folder / "findings.tex").read_text(encoding="utf-8")
    labels = re.findall(r"\\label\{(.*?)\}", latex)
    assert set(re.findall(r"\\ref\{(.*?)\}", latex)) <= set(labels)
    assert len(labels) == len(set(labels))
    for path in re.findall(r"\\(?:input\{\\bundlehome |bundletable\{|bundlelong\{)(.*?)\}", latex):
        assert (folder / path).is_file()
    for name in re.findall(r"\\bundlefigure\{(.*?)\}", latex):
        assert (folder / "figures" / name).is_file()
    if (left := folder / "figures" / "left_out.txt").is_file():
        names = {
            line.partition(":")[0]
            for line in left.read_text(encoding="utf-8").splitlines()[1:]
            if ":" in line
        }
        assert not names & {path.stem for path in folder.glob("figures/*.png")}

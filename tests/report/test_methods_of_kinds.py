"""What the methods of each kind of study say is what the numbers of its bundle were made by, and nothing else."""

import csv
import io
import re
import shutil
import tomllib
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from places import TEMPLATES
from score_tables import crossed, named
from small_study import without_pictures

from toolkit import Scores
from toolkit.store import embedded
from toolkit.study import Study
from toolkit.thesis.methods import data_file

OWN_STUDY = (
    'name = "o"\ntest = "own.py:Ports"\nmodels = [{ name = "m", provider = "scripted", replies = ["22"] }]'
)
OWN = """
from toolkit.prompt_test import Measurement, Prompt, PromptResponseTest, PromptWithContext, ResultType
from toolkit.prompt_test import TestItem, mean_result

class Ports(PromptResponseTest):
    name = "ports"

    def make_test_items(self):
        ports = (("ssh", 22), ("dns", 53))
        return tuple(TestItem(n, (PromptWithContext(Prompt(f"Port of {n}?", n)),), context=p) for n, p in ports)

    def measure_quality(self, annotations):
        text = annotations.replies[0].text
        return [Measurement("right", float(str(annotations.item.context) in text), "share of items")]

    def result_types(self):
        return (ResultType("share right", "share of items"),)

    def aggregate_measurements(self, items):
        return [mean_result("share right", items, "right", "share of items")]
"""


KINDS = tomllib.loads(Path(__file__).with_name("kinds_of_study.toml").read_text("utf-8"))
QUICK = ("two of scores",)
PARAMS = [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.full) for kind in KINDS]


def study_of(kind):
    """Return the study file of a kind: a template, changed."""
    text = (TEMPLATES / f"{KINDS[kind]['template']}.toml").read_text("utf-8").replace("../results", "results")
    for old, new in KINDS[kind]["changes"]:
        assert old in text
        text = text.replace(old, new)
    left_out = tuple(KINDS[kind].get("without", ()))
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith(left_out))


def scores_in(folder, models, judges):
    frame = crossed(item=named("i", 12), model=named("m", models), judge=named("j", judges))
    frame["score"] = np.random.default_rng(1).integers(1, 6, len(frame))
    Scores(frame if judges > 1 else frame.drop(columns="judge"), name="s").bundle(
        folder / "bundle", supplement=True
    )


@pytest.fixture(scope="module", params=PARAMS)
def bundle(request, tmp_path_factory):
    """The bundle of a kind of study by scripted models, or of scores, without pictures."""
    folder, kind = tmp_path_factory.mktemp("kind"), request.param
    with without_pictures():
        if "scores" not in kind:
            (folder / "own.py").write_text(OWN)
            table = pd.read_csv(TEMPLATES / "planted_keyed.csv")
            table.head(40 if kind == "few groups" else len(table)).to_csv(
                folder / "planted_keyed.csv", index=False
            )
            (folder / "s.toml").write_text(OWN_STUDY if kind == "own test" else study_of(kind))
            with closing(Study.load(folder / "s.toml")) as study:
                study.execute(progress=False)
                study.bundle(folder / "bundle", supplement=True)
            embedded.stop(folder / "results" / ".store")
        else:
            scores_in(folder, *((3, 3) if kind == "scores" else (2, 1)))
    yield kind, folder / "bundle"
    shutil.rmtree(folder)


def paragraphs_of(folder):
    """Return the paragraphs of the methods by their headings."""
    lines = (folder / "supplement.txt").read_text("utf-8").replace("\u2212", "-").split("\n\n")
    return dict(line.strip().split(". ", 1) for line in lines)


def numbers_of(folder):
    """Return every number of the tables that has an interval or a P value."""
    texts = [path.read_text("utf-8") for path in folder.glob("*/*.csv")]
    rows = [row for text in texts for row in csv.DictReader(io.StringIO(text))]
    return [row for row in rows if row.get("method") and (row.get("low") or row.get("p_value"))]


def test_a_sentence_stands_where_a_number_was_made_so_and_nowhere_else(bundle):
    """Recounted from the files of the bundle: methods, families and units; every method has a sentence."""
    kind, folder = bundle
    parts, numbers = paragraphs_of(folder), numbers_of(folder)
    told = " ".join(parts.get(name, "") for name in ("Statistics", "Intervals and tests", "Assumptions"))
    assert "Results also name these methods" not in told
    methods = {row["method"] for row in numbers}
    captions = " ".join(path.read_text("utf-8") for path in folder.glob("figures/*.txt"))
    for entry in data_file("methods.toml")["method"]:
        signs = entry.get("method", ())
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


@pytest.mark.parametrize("place", ["", "results_"], ids=["methods", "results"])
def test_each_kind_of_study_claims_what_it_did_and_no_more(bundle, place):
    """One model is no average over models, one length no comparison of lengths, a drawn pattern no exact test.

    Captions and results: no length that was not asked, no correction of one test, no panel that is not drawn.
    """
    kind, folder = bundle
    captions = [
        f"figure {path.stem}: {path.read_text(encoding='utf-8')}" for path in folder.glob("figures/*.txt")
    ]
    told = " ".join([*captions, (folder / "findings.txt").read_text("utf-8")])
    if not place:
        names = ("Data", "Statistics", "Intervals and tests", "Assumptions", "Multiplicity")
        told = " ".join(paragraphs_of(folder).get(name, "") for name in names)
    for words in KINDS[kind].get(f"{place}said", ()):
        assert words in told, words
    for words in KINDS[kind].get(f"{place}silent", ()):
        assert words not in told, words


def test_what_is_referred_to_is_there(bundle):
    """Every label once, every reference with its label, and no figure that is said to be left out."""
    _, folder = bundle
    paths = [*folder.glob("*/*.tex"), folder / "findings.tex"]
    latex = "".join(path.read_text("utf-8") for path in paths)
    labels = re.findall(r"\\label\{(.*?)\}", latex)
    assert set(re.findall(r"\\ref\{(.*?)\}", latex)) <= set(labels)
    assert len(labels) == len(set(labels))
    if (left := folder / "figures" / "left_out.txt").is_file():
        names = set(re.findall(r"^(\w+):", left.read_text("utf-8"), re.MULTILINE))
        assert not names & {path.stem for path in folder.glob("figures/*.png")}

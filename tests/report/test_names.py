"""A name is a name, whatever stands in it: a report of other names is the same report with the names put in."""

import csv
import html
import io
import json
import re
from difflib import unified_diff

import matplotlib.text
import numpy as np
import pandas as pd
import pytest
from cases import cases
from whole_study import make_study

from toolkit import Scores
from toolkit.analyses.answers import Analyses
from toolkit.report import figure as figures
from toolkit.report import style
from toolkit.report.escape import escape, names_kept
from toolkit.report.figure import about_study
from toolkit.report.registry import write_figures, write_statistics

pytestmark = pytest.mark.usefixtures("no_pictures")

NAMES = cases(__file__)["names"]
PLAIN = re.compile(r"Q[a-z]z+")
ROLES = {"model": 5, "judge": 3, "person": 3, "scenario": 2, "dimension": 2}


def names_of(start):
    """Return names for each role, and plain ones of the same order and length."""
    awkward, plain = {}, {}
    letters = iter("abcdefghijklmnopqrstuvwxy")
    for role, count in ROLES.items():
        start += count
        awkward[role] = sorted(NAMES[at % len(NAMES)] for at in range(start - count, start))
        plain[role] = [f"Q{next(letters)}".ljust(max(len(name), 3), "z") for name in awkward[role]]
    return awkward, plain


def rows(names):
    """Return scores of items in clusters by judges and people, some missing, on two dimensions."""
    rng = np.random.default_rng(5)
    table = []
    for item in range(12):
        level = rng.normal(4, 1)
        for at, model in enumerate(names["model"]):
            for rater in (*names["judge"], *names["person"]):
                for dimension in names["dimension"]:
                    score = int(np.clip(round(level - at / 4 + rng.normal(0, 0.7)), 1, 7))
                    missing = rng.random() < 0.04 or (item < 2 and rater == names["judge"][0])
                    table.append(
                        (f"i{item}", f"c{max(item, 3)}", model, rater, dimension, None if missing else score,
                         "human" if rater in names["person"] else "llm", names["scenario"][item % 2])
                    )  # fmt: skip
    columns = ["item", "cluster", "model", "judge", "dimension", "score", "human", "scenario"]
    return pd.DataFrame(table, columns=columns)


@pytest.fixture
def pictures(monkeypatch):
    """Draw no pixels: a picture is its alt text, and what is written in it."""
    written = {}

    def render(figure, kind, **_):
        texts = figure.figure.findobj(matplotlib.text.Text)
        lines = [text.get_text().replace("\\$", "$") for text in texts]
        # A label ends its lines at blanks, and within the plain names, which have none.
        whole = [re.sub(r"(?<=z)\n(?=z)", "", line).replace("\n", " ") for line in lines]
        written[f"picture {figure.name}"] = whole
        alt = html.escape(figures.plain_text(figures.readable(figure.alt_text)), quote=False)
        return f'<svg width="300pt"><desc>{alt}</desc></svg>'.encode()

    monkeypatch.setattr(figures, "render", render)
    return written


def bare(latex):
    """Return LaTeX without the places where a line may end."""
    return latex.replace(r"\allowbreak", "").replace("{}", "")


def contents(folder):
    """Return the lines of every text of a report."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".csv", ".txt", ".tex", ".svg", ".md"):
            text = path.read_text("utf-8")
            lines = (bare(text) if path.suffix == ".tex" else text).split("\n")
            if path.suffix == ".csv":
                lines = ["\t".join(cells) for cells in csv.reader(io.StringIO(text))]
            if path.stem != "statistics":  # takes up the tables in the order of their files
                found[f"{path.parent.name}/{path.name}"] = lines
    return found


def differences(plain, other, names):
    """Return the lines of a report that differ from the plain one with the names put in."""
    assert plain.keys() == other.keys()
    wrong = []
    for file, lines in plain.items():
        write = {
            "tex": lambda name: bare(escape(name)),
            "svg": lambda name: html.escape(name, quote=False),
        }.get(file.rpartition(".")[2], pictured if file.startswith("picture ") else str)
        expected = [
            PLAIN.sub(lambda name, write=write: write(names.get(name[0], "…")), line) for line in lines
        ]
        wrong += [
            f"{file}: {line}"
            for line in unified_diff(expected, other[file], n=0, lineterm="")
            if line[:3] not in ("---", "+++", "@@ ")
            and "…" not in line
            and re.search("[A-Za-z]", line)
            and not (file.startswith("picture ") and "[U+" in line)
        ]
    return wrong


def pictured(name):
    """Return a name as a picture shows it."""
    return style._line(name)


def pairs(awkward, plain):
    """Return the awkward name for each plain one."""
    return {p: a for role in plain for p, a in zip(plain[role], awkward[role], strict=True)}


@pytest.mark.parametrize("start", [0, 21])
def test_names_in_scores_of_others(tmp_path, pictures, start):
    """Every table, figure, sentence and the methods of a bundle, and what is printed."""
    awkward, plain = names_of(start)
    names, reports = pairs(awkward, plain), []
    for place, given in ((tmp_path / "plain", plain), (tmp_path / "awkward", awkward)):
        scores = Scores(rows(given), name="scores", scale=(1, 7), output=place)
        pictures.clear()
        scores.bundle()
        results = [result for _, result in scores.analyses().values()]
        printed = {
            "json": [json.dumps([one.to_dict() for one in results], ensure_ascii=False, indent=1)],
            "sentences": [one.sentence() for one in results],
            "summary": [scores.summary().text],
        }
        reports.append({**contents(place), **printed, **pictures})
    with names_kept(names.values()):
        assert not differences(*reports, names)


def test_names_of_models_in_a_study(tmp_path, pictures):
    """What scores of others do not have: prompt lengths, money and tokens."""
    awkward, plain = names_of(14)
    names, reports = pairs(awkward, plain), []
    for place, given in ((tmp_path / "plain", plain), (tmp_path / "awkward", awkward)):
        study, plan = make_study(tuple(given["model"]), bases=8)
        shared = {"base_01": "base_00"}
        frames = [
            frame.assign(cluster=frame["cluster"].replace(shared), scenario="CTI_ANALYSIS")
            for frame in (study.runs, study.judgements)
        ]
        study = Analyses(*frames, name="whole", margin=0.5)
        pictures.clear()
        with names_kept(study.names):
            write_figures(study, about_study(study, plan), place)
            write_statistics(study.analyses(), about_study(study, plan), place)
        reports.append({**contents(place), **pictures})
    with names_kept(names.values()):
        assert not differences(*reports, names)

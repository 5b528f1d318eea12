"""An analysis of one's own: a function and a table of words, and every form of its result in the bundle."""

import json
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from places import DOCS

from tests.study.test_scores import ratings
from toolkit import Scores, analyses, stats
from toolkit.errors import InputError

pytestmark = pytest.mark.usefixtures("no_pictures")

# --- the analysis begins
OWN_WORDS = tomllib.loads("""
title = "High scores"
parts = { shares = "model" }
seen = "How often each model has a high score."
axis = "Share of answers with 6 or more"
note = "What is high is a matter of the scale"
finding = "The share of high scores of {model} is"
reference = 0.5
method = "A score is high from 6 on"
cite = ["miller2024"]
""")


def high_scores(runs, score):
    """Return how often each model has 6 points or more."""
    rows = runs.assign(high=(runs[score] >= 6).where(runs[score].notna()))
    shares = stats.by_group("share of high scores", rows, "high", ["model"], stats.rate_mean)
    return stats.Result("high_scores", shares=shares, notes=())


# --- the analysis ends, but for the call that adds it


@pytest.fixture(autouse=True)
def _added():
    """Add the analysis, and leave those of other tests as they are."""
    analyses.add_analysis(high_scores, OWN_WORDS)
    yield
    for table in (stats.WORDS, analyses.QUESTIONS, analyses.TABLE):
        table.pop("high_scores", None)
    analyses.OWN.clear()


def test_it_takes_at_most_25_lines():
    """The lines between the two marks, without blank ones, and the call that adds it."""
    lines = Path(__file__).read_text(encoding="utf-8").split("# --- the analysis ")[1].splitlines()[1:]
    assert len([line for line in lines if line.strip()]) <= 24


def test_every_form_of_it_is_in_the_bundle(tmp_path):
    """Frame, sentence, figure with caption, table, JSON, finding and method with its reference, all of one estimate."""
    scores = Scores(ratings(), name="mine")
    result = scores.answer("high_scores")
    alpha = result.select(model="alpha")[0]
    truth = ratings()
    by_run = truth.groupby(["item", "model"])["score"].mean().reset_index()
    expected = (by_run.loc[by_run["model"] == "alpha", "score"] >= 6).mean()
    assert alpha.estimate == pytest.approx(expected)
    assert alpha.n == {"answers": 30, "items": 30}
    assert scores.questions().set_index("analysis").loc["high_scores", "answerable"]
    scores.bundle(tmp_path, supplement=True)
    table = pd.read_csv(tmp_path / "statistics" / "high_scores.csv")
    assert table["estimate"].tolist() == pytest.approx([one.estimate for one in result.shares])
    told = json.loads((tmp_path / "statistics" / "high_scores.json").read_text())
    assert told["shares"][0]["estimate"] == pytest.approx(alpha.estimate)
    assert alpha.sentence() in (tmp_path / "statistics" / "sentences.txt").read_text()
    assert "share of high scores" in (tmp_path / "statistics" / "high_scores.tex").read_text()
    caption = (tmp_path / "figures" / "high_scores.txt").read_text()
    assert caption.startswith(OWN_WORDS["seen"])
    assert OWN_WORDS["note"][1:] in caption
    drawn = pd.read_csv(tmp_path / "figures" / "high_scores.csv")
    assert drawn["estimate"].tolist() == table["estimate"].tolist()
    findings = (tmp_path / "findings.tex").read_text()
    assert "The share of high scores of alpha is" in findings
    assert r"\ref{fig:mine:high-scores}" in findings
    methods = (tmp_path / "methods.tex").read_text()
    assert r"A score is high from 6 on~\cite{miller2024}" in methods
    assert "miller2024" in (tmp_path / "references.bib").read_text()


def test_what_it_takes_for_independent_are_groups_of_bases():
    """Bases that share a text count as one, and the note says so."""
    runs = Scores(ratings(), name="mine").frames().runs
    shared = runs.assign(cluster=runs["base"].str[:2])
    result = stats.over_clusters(high_scores)(shared, "composite")
    assert result.shares[0].n["independent groups"] == shared["cluster"].nunique()
    assert "independent groups" in result.notes[-1]
    assert "unit" not in shared
    named = stats.over_clusters(high_scores)(shared.assign(unit="points"), "composite")
    assert named == result  # a column of the user's by that name is not taken for it


def test_the_page_on_analyses_adds_one():
    """Its block is run as it stands."""
    page = (DOCS / "reference" / "analyses.md").read_text(encoding="utf-8")
    exec(page.split("```python\n")[1].split("```")[0], {})
    (share, _) = Scores(ratings(), name="mine").answer("high_scores").shares
    assert share.estimate > 0.5  # of scores of 4.5 and more


def test_names_and_words_are_checked():
    """A name of the toolkit's is refused, and so are words that lack."""

    def length(runs, score):
        return None

    with pytest.raises(InputError, match="is one of the toolkit's"):
        analyses.add_analysis(length, OWN_WORDS)
    with pytest.raises(InputError, match="its words lack finding"):
        analyses.add_analysis(high_scores, {k: v for k, v in OWN_WORDS.items() if k != "finding"})
    with pytest.raises(InputError, match="there is none"):
        Scores(ratings(), name="mine").answer("nothing")

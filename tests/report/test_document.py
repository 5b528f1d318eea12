"""The bundle as a document for Word: all of its methods, tables, captions and references."""

import csv
import functools
import re
import sys
import xml.etree.ElementTree as ET
import zipfile

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from score_tables import crossed, named

from toolkit import Scores
from toolkit.cli import cli
from toolkit.errors import InputError
from toolkit.report import figure

HOSTILE = r"m_1 $x$ % \input{a} {b} <b>& *c* [d](e) ~#^"
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


@pytest.fixture(scope="module")
def scores():
    """Scores of two models, one with a hostile name."""
    table = crossed(item=named("i", 12), model=[HOSTILE, "plain"], judge=named("j", 3))
    return Scores(table.assign(score=np.random.default_rng(1).integers(1, 6, len(table))), name="under_score")


@pytest.fixture(scope="module")
def bundle(scores, tmp_path_factory):
    """Their bundle with the document, and from here on few pictures drawn."""
    folder = tmp_path_factory.mktemp("document")
    render = figure.render
    once = functools.cache(lambda name, kind: render(drawn_now[name], kind))
    drawn_now = {}

    def seldom(shown, kind, **more):
        """Draw one picture each time and the others once: that they stay the same is seen by `test_figure_files`."""
        drawn_now[shown.name] = shown
        return render(shown, kind, **more) if more or shown.name == "model_means" else once(shown.name, kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure, "render", seldom)
        scores.bundle(folder, format="docx", supplement=True)
        yield folder


def document_of(folder):
    """Return the document with its marks."""
    with zipfile.ZipFile(folder / "bundle.docx") as file:
        return file.read("word/document.xml").decode()


def text_of(folder):
    """Return what the document says, without its marks."""
    root = ET.fromstring(document_of(folder))
    return "\n".join(
        "".join(one.text or "" for one in paragraph.iter(f"{WORD}t")) for paragraph in root.iter(f"{WORD}p")
    )


def plain(text):
    """Return letters and digits alone: quotes, dashes and blanks are typeset."""
    return re.sub(r"[\W_]+", "", text)


def test_every_caption_cell_and_reference_is_there(bundle):
    """In the order of the bundle, figures and tables numbered."""
    said, folder = plain(text_of(bundle)), bundle
    captions = [
        (folder / "figures" / f"{path.stem}.txt").read_text() for path in folder.glob("figures/*.tex")
    ]
    assert len(captions) > 5
    for caption in captions:
        assert plain(caption)[:300] in said
    with (folder / "tables" / "reliability.csv").open() as lines:
        for row in csv.DictReader(lines):
            if row["name"] in ("ICC(A,1)", "ICC(A,k)") and "these" not in row["name"]:
                assert (
                    plain(f"{float(row['estimate']):.2f} [{float(row['low']):.2f}".replace("-", "")) in said
                )
    for author in re.findall(r"author = \{(\w+),", (folder / "references.bib").read_text()):
        assert author in said
    assert "Figure1" in said
    assert "Table2" in said


def test_results_name_the_figures_and_tables_that_show_them(bundle):
    """By the number that the caption has, in the text of LaTeX by its label, and none that is not there."""
    said, folder = text_of(bundle), bundle
    lines = [line for line in said.splitlines() if "See Figure" in line or "See Table" in line]
    results, latex = ((folder / f"findings.{kind}").read_text() for kind in ("txt", "tex"))
    assert len(lines) == len(re.findall(r"^  See .*\.$", results, re.M)) == latex.count("\nSee ") == 2
    captions = {
        plain(match[2])[:20]: match[1] for match in re.finditer(r"((?:Figure|Table) \d+)\. (.*)", said)
    }
    for paragraph, shown in (
        ("Models", ["model_means"]),
        ("Judges", ["judge_agreement"]),
    ):
        see = re.search(rf"^{paragraph}\n(?:  .*\n)*  See (.*)\.$", results, re.M)
        numbers = [captions[plain((folder / "figures" / f"{n}.txt").read_text())[:20]] for n in shown]
        assert re.findall(r"Figure \d+", see[1]) == numbers
        assert re.search(r"Table \d+$", see[1])
    assert re.findall(r"\\ref\{(.*?)\}", latex)
    for label in re.findall(r"\\ref\{(.*?)\}", latex):
        files = [path for path in folder.glob("*/*.tex") if f"\\label{{{label}}}" in path.read_text()]
        assert len(files) == 1, label


def test_no_citation_is_left_open_and_no_command_is_printed(bundle):
    """Nothing of LaTeX, no path of the machine; of a hostile name no mark comes alive."""
    said = text_of(bundle)
    assert plain(HOSTILE) in plain(said)
    for sign in ("[@", "???", "\\cite", "\\phantom", "bundlehome", "textless", str(bundle), "references.bib"):
        assert sign not in said


def test_the_same_scores_are_the_same_bytes(scores, bundle, tmp_path):
    """Pictures and dates too."""
    scores.bundle(tmp_path, format="docx", supplement=True)
    assert (bundle / "bundle.docx").read_bytes() == (tmp_path / "bundle.docx").read_bytes()


def test_pictures_have_their_alt_text_and_width_and_panels_their_heads(bundle):
    """A screen reader finds words; a picture has its share of the text; a head within a table is bold."""
    document = document_of(bundle)
    assert re.findall(r'descr="Means and differences: [^"]+"', document)
    widths = {int(width) for width in re.findall(r'<wp:extent cx="(\d+)"', document)}
    assert min(widths) / max(widths) == pytest.approx(85 / 160, abs=0.01)
    assert re.search(r"<w:b[ /]>?.{0,80}difference", document, re.S)


def test_what_is_not_known_or_lacking_is_one_line(tmp_path, monkeypatch):
    """Before anything is calculated."""
    scores = Scores(pd.DataFrame({"item": list("abc"), "score": [1, 2, 3]}), output=tmp_path)
    with pytest.raises(InputError, match="format 'pdf': use one of latex, docx"):
        scores.bundle(format="pdf")
    monkeypatch.setitem(sys.modules, "pypandoc", None)
    with pytest.raises(InputError, match=r"pip install 'llm-security-toolkit\[word\]'"):
        scores.bundle(format="docx")
    assert not list(tmp_path.iterdir())
    (tmp_path / "s.csv").write_text("item,score\na,1\n")
    told = CliRunner().invoke(
        cli, ["analyse", str(tmp_path / "s.csv"), "--format", "docx"], standalone_mode=False
    )
    assert "add --bundle" in str(told.exception)

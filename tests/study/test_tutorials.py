"""Tutorials run as they are printed: in an empty folder, block after block, and print the numbers that they show."""

import importlib.util
import os
import re
import shutil
import sys
import tomllib

import pytest
from page_reader import TUTORIALS, Reader
from places import DOCS, ROOT

from toolkit.store import embedded


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """The folder in which a newcomer starts; what pages start there is stopped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "displayhook", lambda value: None if value is None else print(repr(value)))
    yield tmp_path
    os.chdir(tmp_path)
    for store in tmp_path.rglob(".store"):
        embedded.stop(store)
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("page", TUTORIALS)
def test_a_newcomer_can_follow_the_page(page, empty_folder):
    reader = Reader(f"tutorials/{page}")
    assert reader.read() >= 5
    if study := reader.names.get("study"):
        study.close()


NUMBER = re.compile(r"\d+\.\d+")
CLIP = re.compile(r"\bp[0-9a-f]{10}\b")  # a hash over coordinates


@pytest.mark.filterwarnings("ignore:The MLE may be on the boundary")  # a component of the planted study is 0
def test_the_explanations_are_of_the_planted_study(empty_folder):
    """Sentences and pictures; where they differ, draw again and read the page: its prose names the same numbers."""
    shutil.copytree(ROOT / "templates", empty_folder / "templates")
    reader = Reader("explain/statistics")
    assert reader.read() == 6
    loaded = importlib.util.spec_from_file_location("drawing", ROOT / "scripts" / "draw_explanations.py")
    drawing = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(drawing)
    drawn = drawing.draw_all(reader.names["study"], empty_folder / "pictures")
    page = (DOCS / "explain" / "statistics.md").read_text(encoding="utf-8")
    for picture in drawn:
        assert f"(pictures/{picture.name})" in page
        (text, numbers), (old, before) = (
            (CLIP.sub("clip", NUMBER.sub("#", svg)), [float(number) for number in NUMBER.findall(svg)])
            for svg in (path.read_text() for path in (picture, DOCS / "explain" / "pictures" / picture.name))
        )
        assert text == old, picture.name
        # Which runs end first decides the last bit of a sum, and so the sixth decimal of a coordinate.
        assert numbers == pytest.approx(before, abs=0.001), picture.name
    reader.names["study"].close()


def test_the_glossary_has_the_words_of_results():
    """Each once, in one sentence; the data dictionary has the columns of frames."""
    page = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- \*\*(.+?)\*\*: (.+)$", page, re.MULTILINE)
    defined = {term for term, _ in entries}
    assert len(defined) == len(entries) > 100
    assert all(sentence.count(". ") == 0 and sentence.endswith(".") for _, sentence in entries)
    terms = tomllib.loads((ROOT / "toolkit/report/terms.toml").read_text(encoding="utf-8"))
    shown = {*terms["words"].values(), *terms["columns"].values()}
    shown |= {*terms["factors"]} | {words.strip(", ") for words in terms["parts"].values()}
    assert not (missing := shown - defined), missing
    pointed = {word for _, sentence in entries for word in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", sentence)}
    assert not (dangling := pointed - defined), dangling

"""The report is one file that loads nothing and runs nothing, says findings first, and is there without a score."""

from html.parser import HTMLParser

import pytest
from hostile_study import REPLY, hostile_study

from toolkit.errors import InputError
from toolkit.report.show import NothingToShow
from toolkit.report.visible import visible
from toolkit.study import Study


class Page(HTMLParser):
    """What a browser would make of a page: its elements with attributes, and the text under each heading."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.sections, self.pieces, self.last = [], {}, [], ""
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.last = tag

    def handle_data(self, data):
        if self.last == "h2" and data.strip():
            self.sections[data.strip()] = len(self.pieces)
        if self.last != "style":
            self.pieces.append(data)
            self.last = "" if self.last == "h2" else self.last

    def text(self, *headings):
        """Return the text from one heading to another, or all."""
        first, last = ([self.sections[name] for name in headings] + [None])[:2] if headings else (0, None)
        return " ".join("".join(self.pieces[first:last]).split())


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report of a study in which every text attacks the reader."""
    with hostile_study(tmp_path_factory.mktemp("report")) as study:
        yield Page(study.report(supplement=True))


def test_nothing_is_loaded_and_nothing_runs(page):
    """No address of the network, no element that acts, and a policy that forbids all but the style of the page."""
    acting = {
        "script",
        "img",
        "iframe",
        "form",
        "input",
        "object",
        "embed",
        "link",
        "base",
        "image",
        "foreignobject",
    }
    assert not acting & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), name
            if name in ("href", "src", "action"):
                assert value.startswith(("#", "data:text/csv;base64,")), value
            assert "//" not in value or name == "content", value
    (policy,) = [found["content"] for _, found in page.tags if "http-equiv" in found]
    assert policy.startswith("default-src 'none'; ")
    assert "script" not in policy


def test_a_hostile_reply_and_prompt_stand_as_text(page):
    """As they were received, hidden characters shown as codes."""
    shown = page.text("Appendix", "Supplement")
    assert " ".join(visible(REPLY).split()) in shown
    assert "[U+202E]" in shown
    assert "OWNED" not in page.text("Results", "Methods")


def test_findings_come_first_and_the_figures_have_their_data(page):
    """A scripted study says so before all; each figure is drawn, and has its table and file."""
    order = ["In short", "Results", "Methods", "Appendix", "Supplement", "References"]
    assert list(page.sections) == order
    assert page.text().index("Scripted models answer and judge.") < page.text().index("In short")
    pictures = sum(attributes.get("class", "").startswith("picture") for _, attributes in page.tags)
    files = [
        attributes["download"] for tag, attributes in page.tags if tag == "a" and "download" in attributes
    ]
    shown = sum(tag == "figure" for tag, _ in page.tags)
    assert sum(tag == "svg" for tag, _ in page.tags) == pictures >= 5
    assert len(files) == shown > pictures
    assert "ICC(C,k)" in page.text("Supplement", "References")
    assert "ICC(C,k)" not in page.text("Results", "Methods")


@pytest.mark.usefixtures("no_pictures")
def test_without_a_score_it_says_so_and_without_a_reply_there_is_none(study_file, toolkit, monkeypatch):
    """Judges who write prose leave nothing to compare; a report that fails is a line of the run and no failure."""
    path = study_file()
    with Study.load(path) as study, pytest.raises(NothingToShow, match="no run has succeeded yet"):
        study.report()
    text = path.read_text()
    for judge in ("judge-a", "judge-b", "judge-c"):
        text = text.replace(f'"{judge}", provider', f'"{judge}", replies = ["Good."], provider')
    path.write_text(text)
    out = toolkit("run", path)[1]
    assert "\nreport  " not in out
    with Study.load(path) as study:
        page = study.report()
    assert "No reply has a score yet" in Page(page).text()
    assert 'href="' in page._repr_html_()
    assert toolkit("report", path)[1] == f"{page}\n"
    page.write_text("mine")
    with Study.load(path) as study, pytest.raises(InputError, match="name another file"):
        study.report()
    page.unlink()
    path.write_text(path.read_text().replace('replies = ["Good."], ', ""))
    out = toolkit("run", path)[1]
    assert f"\nreport  {page}\n" in out
    monkeypatch.setattr(Study, "report", lambda study: 1 / 0)
    code, out, _ = toolkit("run", path)
    assert (code, "\nreport  not written: division by zero\n" in out) == (0, True)

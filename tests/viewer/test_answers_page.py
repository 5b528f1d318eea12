"""The page for the supervisor: self-contained, the same bytes every time, and nothing of others in it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hostile_study import hostile_study

from toolkit.errors import InputError
from toolkit.study import Study
from toolkit.viewer import page as page_module
from toolkit.viewer.model import OpenRun, open_runs
from toolkit.viewer.page import POLICY, page_html, write_page
from toolkit.viewer.people import with_people

OURS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "script",
        "nav",
        "section",
        "article",
        "div",
        "span",
    ),
    *(
        "h1",
        "h2",
        "h3",
        "h4",
        "p",
        "a",
        "b",
        "em",
        "strong",
        "code",
        "pre",
        "mark",
        "del",
        "ins",
        "ul",
        "li",
        "hr",
    ),
    *("table", "thead", "tbody", "tr", "th", "td", "br", "details", "summary", "label", "input"),
}


class Tags(HTMLParser):
    """Collects every tag with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A finished study whose texts try to act."""
    with hostile_study(tmp_path_factory.mktemp("page")) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def text(study: Study) -> str:
    """The page of all runs, with two side by side."""
    runs = study.runs()
    return write_page(
        study.plan, study.store, runs, pair=tuple(runs["run_id"][[0, 3]]), chosen="<i>all</i>"
    ).read_text()


def test_every_tag_is_ours_and_none_loads_anything(text):
    """One script, one style, links within the page only, no handler."""
    tags = Tags(text).found
    assert {tag for tag, _ in tags} <= OURS
    assert [tag for tag, _ in tags].count("script") == [tag for tag, _ in tags].count("style") == 1
    attributes = {name for _, attrs in tags for name in attrs}
    assert attributes <= {
        "lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "tabindex", "hidden", "open",
        "type", "size", "aria-live", "aria-label", "role", "data-lm-suppress-shortcuts",
        "start", "scope", "dir",
    }  # fmt: skip
    assert all(attrs["href"].startswith("#run-") for tag, attrs in tags if tag == "a")


def test_the_policy_lets_our_script_run_and_nothing_else(text):
    """The hash is that of the script on the page."""
    (script,) = re.findall("<script>(.*?)</script>", text, flags=re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    ) == POLICY
    assert text.index(POLICY) < text.index("<style>")


def test_each_run_has_an_address_and_a_row(text, study):
    """A link to a run is FILE.html#run-ID."""
    for run_id in study.runs()["run_id"]:
        assert text.count(f"id='run-{run_id}'") == 1
        assert text.count(f"href='#run-{run_id}'") == 1
    assert "4 runs (&lt;i&gt;all&lt;/i&gt;) of study hostile" in text
    assert "Scripted models answer and judge." in text
    assert text.count("<b>human:anna, version 1, from a file") == 4


def test_the_same_runs_give_the_same_bytes_and_another_choice_another_file(study):
    """Written twice it is one file; nothing of the moment or the machine is in it."""
    runs = study.runs()
    one = write_page(study.plan, study.store, runs.iloc[:2])
    first = one.read_bytes()
    assert write_page(study.plan, study.store, runs.iloc[:2]) == one
    assert one.read_bytes() == first
    assert str(study.path.parent).encode() not in first
    assert (
        len(
            {
                one,
                write_page(study.plan, study.store, runs.iloc[:1]),
                write_page(study.plan, study.store, runs.iloc[:2], pair=tuple(runs["run_id"][:2])),
            }
        )
        == 3
    )


def test_a_pair_may_be_of_runs_that_are_not_listed(study, tmp_path):
    """The two at the top need not be on the page below."""
    runs = study.runs()
    path = write_page(
        study.plan, study.store, runs.iloc[:1], path=tmp_path / "p.html", pair=tuple(runs["run_id"][2:4])
    )
    text = path.read_text()
    assert text.count("<article") == 1
    assert all(run_id in text for run_id in runs["run_id"][2:4])


def test_none_and_too_many_runs_are_refused(study, monkeypatch):
    """One line says how many a page takes."""
    runs = study.runs()
    monkeypatch.setattr(page_module, "LARGEST_PAGE", 3)
    with pytest.raises(InputError, match="page of 4 runs: a page takes 1 to 3; filter"):
        write_page(study.plan, study.store, runs)
    with pytest.raises(InputError, match="page of 0 runs"):
        write_page(study.plan, study.store, runs.iloc[:0])


ATTACK = "'\"></td></article><img src=x onerror=1><script>1</script>\u202e"


def spoilt(value: Any) -> Any:
    """Return an object with the attack for every text in it, however deep."""
    if isinstance(value, str):
        return ATTACK
    if isinstance(value, dict):
        return {name: spoilt(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(spoilt(one) for one in value)
    if is_dataclass(value):
        kept = {"run_id", "scores", "version"}
        texts = {
            one.name: spoilt(getattr(value, one.name))
            for one in fields(value)
            if one.name not in kept and one.init
        }
        return replace(value, **texts)
    return value


def test_no_field_of_a_run_can_act_whatever_stands_in_it(study):
    """Names of models, prompts, judges and raters, reasons, failures, statuses, notes: an attack in each is text."""
    frame = with_people(study.plan, study.store, study.runs())
    runs: list[OpenRun] = [
        spoilt(run) for run in open_runs(study.plan, study.store, frame, frame["run_id"].tolist())
    ]
    failed = [replace(run, facts={**run.facts, "status": "failed", "failure": ATTACK}) for run in runs[:1]]
    hidden = [replace(run, hidden_for=ATTACK, judges=(), people=()) for run in runs[1:2]]
    shown = [*failed, *hidden, *runs[2:]]
    text = page_html(shown, name=ATTACK, note=ATTACK, dataset=ATTACK, pair=(runs[2], runs[3]), chosen=ATTACK)
    tags = Tags(text).found
    assert {tag for tag, _ in tags} <= OURS
    assert [tag for tag, _ in tags].count("script") == 1
    assert not any(name.startswith("on") for _, attrs in tags for name in attrs)
    assert "\u202e" not in text
    assert text.count("&lt;img src=x onerror=1&gt;") > 50

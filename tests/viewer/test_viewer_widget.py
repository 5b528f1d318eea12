"""The viewer without a browser: what its controls show and refuse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small_study import finished_study

from toolkit.errors import InputError
from toolkit.study import Study
from toolkit.viewer import widget
from toolkit.viewer.widget import Viewer


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A finished study of six runs."""
    with finished_study(tmp_path_factory.mktemp("viewer")) as loaded:
        yield loaded


@pytest.fixture
def viewer(study: Study) -> Viewer:
    """A viewer with no run open."""
    return Viewer(study.plan, study.store)


def ids(viewer: Viewer) -> list[str]:
    """Return the runs that the filter takes."""
    return viewer.found["run_id"].tolist()


def test_it_starts_with_all_runs_and_none_open(viewer):
    """The table has a row and a button for each."""
    assert "6 of 6 runs</b>, page 1 of 1" in viewer.count.value
    assert viewer.table.value.count("<tr") == 7
    assert [button.description for button in viewer.rows[:7]] == ["1", "2", "3", "4", "5", "6", ""]
    assert viewer.rows[6].disabled
    assert viewer.shown.value == ""


def test_filters_narrow_the_table_and_an_empty_one_says_so(viewer):
    """Values of the study are the options; the text is looked for in replies too."""
    assert [label for label, _ in viewer.filters.length_bin.options] == ["all", "S", "M", "L"]
    viewer.filters.length_bin.value = "S"
    assert "2 of 6 runs</b>, page 1 of 1 · length bin S" in viewer.count.value
    viewer.filters.text.value = "SCRIPTED REPLY"
    assert "2 of 6 runs" in viewer.count.value
    viewer.filters.text.value = "not there"
    assert "0 of 6 runs" in viewer.count.value
    viewer.next.click()
    assert "No run is left by this filter" in viewer.said.value
    viewer.export.click()
    assert "page of 0 runs: a page takes 1 to 500" in viewer.said.value
    viewer.filters.text.value, viewer.filters.length_bin.label, viewer.filters.judged.label = "", "all", "no"
    assert "0 of 6 runs" in viewer.count.value
    assert viewer.filters.length_bin.index == 0  # an option, and not an empty box
    viewer.filters.judged.label, viewer.filters.high.value = "yes", 0.1
    assert "composite 0 to 0.1" in viewer.count.value


def test_sorting_is_what_the_buttons_open(viewer):
    """The first button opens the first of the sorted table."""
    viewer.filters.sort.value, viewer.filters.descending.value = "composite", True
    best = viewer.runs.sort_values("composite", ascending=False)["run_id"].iloc[0]
    viewer.rows[0].click()
    assert viewer.opened.run_id == best
    assert f"study.view(&#x27;{best}&#x27;)" in viewer.shown.value
    assert viewer.table.value.count("tv-open") == 1


def test_what_is_done_is_said_and_what_a_button_opens(viewer):
    """Where the open run stands, also when the filter leaves it out; both ends of the composite bound it."""
    first = viewer.runs.iloc[0]
    name = f"{first['prompt_id']} · {first['model']} · repeat {first['repeat']}"
    assert viewer.rows[0].tooltip == f"Open {name}"
    viewer.next.click()
    assert f"<b>Run 1 of 6: {name}</b>" in viewer.said.value
    viewer.filters.low.value, viewer.filters.high.value = 4.9, 5.0
    assert viewer.filter.words() == "composite 4.9 to 5"
    assert first["run_id"] not in ids(viewer)
    viewer._open(first["run_id"])
    assert f"<b>Run outside the filter: {name}</b>" in viewer.said.value
    assert viewer.filters.sort.options[0] == ("model and prompt", "")
    ordered = viewer.runs.sort_values(["model", "prompt_id", "repeat"])
    assert viewer.runs["run_id"].tolist() == ordered["run_id"].tolist()


def test_next_and_previous_step_through_what_was_found(viewer):
    """At either end it says so and stays."""
    viewer.next.click()
    assert viewer.opened.run_id == ids(viewer)[0]
    viewer.previous.click()
    assert "This is the first run" in viewer.said.value
    for place in range(1, 6):
        viewer.next.click()
        assert viewer.opened.run_id == ids(viewer)[place]
    viewer.next.click()
    assert "This is the last run" in viewer.said.value
    assert viewer.opened.run_id == ids(viewer)[5]


def test_pages_turn_and_stop_at_the_ends_and_stepping_turns_them(study, monkeypatch):
    """With four rows a page, six runs are two pages."""
    monkeypatch.setattr(widget, "PAGE", 4)
    monkeypatch.setattr("toolkit.viewer.table.PAGE", 4)
    viewer = Viewer(study.plan, study.store, study.runs()["run_id"].iloc[4])
    assert "page 2 of 2" in viewer.count.value
    assert [button.description for button in viewer.rows] == ["5", "6", "", ""]
    viewer.forward.click()
    assert "page 2 of 2" in viewer.count.value
    viewer.first.click()
    viewer.back.click()
    assert "page 1 of 2" in viewer.count.value
    viewer.last.click()
    assert "page 2 of 2" in viewer.count.value
    viewer.rows[0].click()
    viewer.previous.click()
    assert "page 1 of 2" in viewer.count.value


def test_two_runs_stand_side_by_side_until_it_is_pressed_again(viewer):
    """Nothing to hold is said."""
    viewer.hold.click()
    assert "Open a run first" in viewer.said.value
    viewer.next.click()
    viewer.hold.click()
    assert "stays at the side" in viewer.said.value
    viewer.next.click()
    assert "of the words are shared" in viewer.shown.value
    assert viewer.hold.description == "Stop comparing"
    viewer.hold.click()
    assert "of the words are shared" not in viewer.shown.value
    assert viewer.opened.run_id == ids(viewer)[1]


def test_keys_do_what_the_buttons_do_each_once(viewer):
    """Several that arrive together count each; one that is taken back, and others, do nothing."""
    for typed in ("n", "nn", "nnxn", "nnx", "nnxp"):
        viewer.keys.value = typed
    assert viewer.opened.run_id == ids(viewer)[1]
    viewer.keys.value = "N"
    assert viewer.opened.run_id == ids(viewer)[2]
    viewer.keys.value = ""
    assert viewer.opened.run_id == ids(viewer)[2]


def test_an_exported_page_has_the_runs_of_the_filter_and_the_pair(viewer, study):
    """The path is said, and another choice is another file."""
    viewer.filters.length_bin.value = "M"
    viewer.keys.value = "nce"
    one = viewer.said.value
    viewer.keys.value = "ncene"
    assert "2 runs on one page: " in viewer.said.value
    assert viewer.said.value != one
    page = next(path for path in study.output.glob("answers-*.html") if path.name in viewer.said.value)
    text = page.read_text()
    assert text.count("<article") == 2
    assert "(length bin M)" in text
    assert "Two runs side by side" in text


def test_a_run_id_opens_at_once_and_an_unknown_one_is_refused(study):
    """The way of a notebook is `study.view`."""
    run_id = study.runs()["run_id"].iloc[3]
    assert run_id in study.view(run_id).children[-1].value
    with pytest.raises(InputError, match="'nobody': not in study small"):
        study.view("nobody")


def test_a_store_that_fails_is_said_and_the_viewer_stays(viewer, monkeypatch):
    """The error stands where the person looks."""

    def broken(*_: object) -> None:
        raise OSError("the <b>server</b> is gone")

    monkeypatch.setattr(widget, "open_runs", broken)
    viewer.next.click()
    assert "Not shown (OSError: the &lt;b&gt;server&lt;/b&gt; is gone)." in viewer.said.value


def test_a_study_without_runs_says_what_to_do(study, monkeypatch):
    """Not an empty table."""
    none = study.runs().iloc[:0]
    monkeypatch.setattr("toolkit.viewer.widget.planned_runs", lambda plan, store: none)
    with pytest.raises(InputError, match="small: has no run to read yet; run it first"):
        study.view()

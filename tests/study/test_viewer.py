"""The viewer without a browser: the table of runs, what its controls show and refuse, and what people said of runs."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pandas as pd
import pytest

from toolkit.errors import InputError
from toolkit.people.rating import open_round, rate, running_rounds
from toolkit.people.ratings_file import import_ratings
from toolkit.store.dictionary import typed
from toolkit.store.frames import RUN_TYPES
from toolkit.study import Study
from toolkit.viewer import widget
from toolkit.viewer.beside import beside_html
from toolkit.viewer.model import OpenRun, open_runs
from toolkit.viewer.page import write_page
from toolkit.viewer.parts import cells, run_html
from toolkit.viewer.people import with_people
from toolkit.viewer.table import PAGE, SORTS, Filter, disagreement, matching, pages, plain_row
from toolkit.viewer.widget import Viewer
from toolkit.words import DIMENSIONS

REMARK = "Too mild: <script>document.title='OWNED'</script> \x1b[31m$5"


@pytest.fixture
def viewer(study: Study) -> Viewer:
    """A viewer with no run open."""
    return Viewer(study.plan, study.store)


def frame(*rows: dict[str, object]) -> pd.DataFrame:
    """Return a runs frame with these values; all else is missing."""
    base = {"status": "succeeded", "excluded": False, "judged": False}
    return typed([{**dict.fromkeys(RUN_TYPES), **base, **row} for row in rows], RUN_TYPES)


RUNS = frame(
    {"run_id": "a", "model": "m", "length_bin": "S", "scenario": "SOC_INCIDENT", "judged": True, "composite": 2.0,
     "composite_std": 0.5},
    {"run_id": "b", "model": "n", "length_bin": "L", "scenario": "SOC_INCIDENT", "judged": True, "composite": 4.0,
     "composite_std": None},
    {"run_id": "c", "model": "m", "length_bin": "L", "judged": False},
    {"run_id": "d", "model": "m", "length_bin": None, "status": "failed"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (Filter(), "abcd"),
        (Filter(model="m"), "acd"),
        (Filter(judged=True), "ab"),
        (Filter(judged=False), "cd"),
        (Filter(low=2, high=2), "a"),
        (Filter(spread=0.5), "a"),
        (Filter(model="m", length_bin="L"), "c"),
        (Filter(text=" SECRET "), "b"),
        (Filter(text="a.b"), ""),
        (Filter(sort="composite", descending=True), "bacd"),
        (Filter(sort="model"), "acdb"),
    ],
)
def test_a_filter_takes_what_it_says(wanted, ids):
    """Missing is never zero: a run without a score is in no range but the whole, and comes last."""
    texts = {"a": "axb", "b": "the secret", "c": ""}
    assert "".join(matching(RUNS, wanted, texts)["run_id"]) == ids


def test_every_sort_is_by_a_column_that_is_there_and_others_are_refused():
    """On runs and on none; a search needs the texts."""
    for word in SORTS:
        assert len(matching(RUNS, Filter(sort=word))) == 4
        assert len(matching(frame(), Filter(sort=word, low=1, spread=1, judged=True))) == 0
    with pytest.raises(InputError, match="sort 'colour': use one of model, prompt"):
        matching(RUNS, Filter(sort="colour"))
    with pytest.raises(InputError, match="needs the texts"):
        matching(RUNS, Filter(text="x"))


def test_filters_pages_rows_and_disagreement_are_said():
    """An empty filter says nothing, the last page may be short, a missing value is None and no spread is no zero."""
    assert Filter().words() == Filter(text=" ", sort="model").words() == ""
    assert Filter(status="failed", judged=False, low=1.5, spread=0.2).words() == (
        "status failed; not judged; composite 1.5 to 5; judges' SD at least 0.2"
    )
    assert [pages(count) for count in (0, 1, PAGE, PAGE + 1)] == [1, 1, 1, 2]
    row = plain_row(RUNS.to_dict("records")[3])
    assert row["status"] == "failed"
    assert row["composite"] is row["length_bin"] is row["attempts"] is None
    assert disagreement(RUNS, 0.5) == (
        "4 runs, 2 judged; judges' SD of 1 runs: median 0.50, largest 0.50 points; 1 runs at 0.5 or more"
    )
    assert disagreement(RUNS.iloc[2:]).startswith("2 runs, 0 judged; no run has the scores of two judges")
    assert disagreement(frame()).startswith("0 runs, 0 judged; no run")


def test_ten_thousand_runs_are_filtered_sorted_and_searched_without_lag():
    """Each step takes less than 100 ms of this process, with 4 kB of text a run; the best of three counts."""
    runs = pd.concat([RUNS] * 2500, ignore_index=True)
    runs["run_id"] = pd.array([f"run-{n}" for n in range(len(runs))], dtype="string")
    texts = {f"run-{n}": f"{'isolate the host ' * 240}{n}" for n in range(len(runs))}
    for wanted in (Filter(judged=True, low=1, high=4.5), Filter(sort="composite"), Filter(text=" 99")):
        taken = []
        for _ in range(3):
            started = time.process_time()
            found = matching(runs, wanted, texts)
            taken.append(time.process_time() - started)
        assert min(taken) < 0.1
        assert len(found) > 0


def found(viewer: Viewer) -> list[str]:
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


def test_what_is_done_is_said_and_what_a_button_opens(viewer):
    """Where the open run stands, also when the filter leaves it out; the first button opens the first of the sorted."""
    first = viewer.runs.iloc[0]
    name = f"{first['prompt_id']} · {first['model']} · repeat {first['repeat']}"
    assert viewer.rows[0].tooltip == f"Open {name}"
    viewer.next.click()
    assert f"<b>Run 1 of 6: {name}</b>" in viewer.said.value
    viewer.filters.low.value, viewer.filters.high.value = 4.9, 5.0
    assert viewer.filter.words() == "composite 4.9 to 5"
    viewer._open(first["run_id"])
    assert f"<b>Run outside the filter: {name}</b>" in viewer.said.value
    viewer.filters.low.value, viewer.filters.high.value = 0.0, 5.0
    viewer.filters.sort.value, viewer.filters.descending.value = "composite", True
    best = viewer.runs.sort_values("composite", ascending=False)["run_id"].iloc[0]
    viewer.rows[0].click()
    assert viewer.opened.run_id == best
    assert f"study.view(&#x27;{best}&#x27;)" in viewer.shown.value
    assert viewer.table.value.count("tv-open") == 1


def test_buttons_and_keys_step_through_what_was_found_and_hold_a_run_at_the_side(viewer):
    """At either end it says so; several keys that arrive together count each, and others do nothing."""
    viewer.hold.click()
    assert "Open a run first" in viewer.said.value
    viewer.next.click()
    viewer.previous.click()
    assert "This is the first run" in viewer.said.value
    viewer.hold.click()
    assert "stays at the side" in viewer.said.value
    viewer.next.click()
    assert "of the words are shared" in viewer.shown.value
    assert viewer.hold.description == "Stop comparing"
    viewer.hold.click()
    assert "of the words are shared" not in viewer.shown.value
    assert viewer.opened.run_id == found(viewer)[1]
    for keys in ("n", "nn", "nnxn", "nnx", "nnxp"):
        viewer.keys.value = keys
    assert viewer.opened.run_id == found(viewer)[3]
    viewer.keys.value = "NN"
    viewer.keys.value = "NNN"
    assert "This is the last run" in viewer.said.value
    viewer.keys.value = ""
    assert viewer.opened.run_id == found(viewer)[5]


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


def ids(study: Study) -> list[str]:
    """Return the runs in the order of the runs frame."""
    return study.runs()["run_id"].tolist()


def rated_by_file(study: Study, folder: Path, lines: list[str]) -> None:
    """Keep ratings that have no round: run, rater, reasons and seven scores a line."""
    path = folder / "ratings.csv"
    path.write_text("\n".join((f"run_id,rater,reasons,{','.join(DIMENSIONS)}", *lines)) + "\n")
    import_ratings(study.plan, study.store, path)


def opened(study: Study, run_id: str, **options: bool) -> OpenRun:
    """Return a run as the viewer shows it."""
    (run,) = open_runs(
        study.plan, study.store, with_people(study.plan, study.store, study.runs(), **options), [run_id]
    )
    return run


def running(study: Study, rater: str = "ben", size: int | None = 2, finish: int = 0) -> list[str]:
    """Begin a round by a score, rate so many of its replies, and return the runs of the round."""
    round_ = open_round(study.plan, study.store, rater, size=size)
    if round_.unkept:
        round_ = rate(study.plan, study.store, round_, round_.replies[-1], {"clarity": 4.0})
    for reply in round_.replies[:finish]:
        round_ = rate(study.plan, study.store, round_, reply, dict.fromkeys(DIMENSIONS, 4.0), "mine")
    return [reply.run_id for reply in round_.replies]


def test_scores_and_remarks_of_people_stand_beside_the_judges(study, tmp_path):
    """Each by the name as stored; an unfinished rating is shown and does not count; the judges' mean is theirs."""
    first, second, *_ = ids(study)
    rated_by_file(
        study, tmp_path,
        [f'{first},P-01,"{REMARK}",0,1,2,3,4,5,4.5', f"{first},anna,,2,2,2,2,2,2,2", f"{second},anna,,1,,1,1,1,1,1"],
    )  # fmt: skip
    run = opened(study, first)
    shown = run_html(run)
    assert [(one.rater, one.finished) for one in run.people] == [("P-01", True), ("anna", True)]
    assert "human:P-01, version 1, from a file" in shown
    assert "&lt;script&gt;document.title=&#x27;OWNED&#x27;&lt;/script&gt; [U+001B][31m$5" in shown
    clarity = re.search("<th scope='row'>clarity</th>(.*?)</tr>", shown)[1]
    numbers = re.findall(">([0-9.–]+)<", clarity)
    assert numbers[-2:] == ["4.50", "2.00"]
    assert numbers[3] == f"{run.facts['clarity']:.2f}"
    mean = (19.5 / 6 + 2) / 2
    assert cells(run.facts)[7] == f"{mean:.2f} (2)"
    assert f"<b>People</b> {mean:.2f} (2)" in shown
    unfinished = opened(study, second)
    assert cells(unfinished.facts)[7] == "–"
    assert "unfinished, does not count" in run_html(unfinished)
    assert "unfinished: 6 of 7 dimensions scored" in run_html(unfinished)
    assert f"<td>composite of people</td><td>{mean:.2f}</td><td>–</td>" in beside_html(run, unfinished)


def test_all_zeros_of_a_person_are_a_zero_and_nobody_is_a_dash(study, tmp_path):
    """A true zero is a score; the frame has as many rows, in the same order."""
    first, second, *_ = ids(study)
    rated_by_file(study, tmp_path, [f"{second},anna,,0,0,0,0,0,0,0"])
    frame = with_people(study.plan, study.store, study.runs())
    assert frame["run_id"].tolist() == ids(study)
    assert frame["people_composite"].tolist() == [pd.NA, 0.0, pd.NA, pd.NA, pd.NA, pd.NA]
    assert frame["people_count"].tolist() == [0, 1, 0, 0, 0, 0]
    assert frame["hidden_for"].isna().all()
    assert matching(frame, Filter(rated=True))["run_id"].tolist() == [second]
    assert first in set(matching(frame, Filter(rated=False))["run_id"])
    assert len(with_people(study.plan, study.store, study.runs().iloc[:0])) == 0
    with pytest.raises(InputError, match="frame of with_people only"):
        matching(study.runs(), Filter(rated=True))


def test_an_unjudged_run_still_shows_what_people_said(study, tmp_path, monkeypatch):
    """Their scores do not wait for judges."""
    first = ids(study)[0]
    rated_by_file(study, tmp_path, [f"{first},anna,fine,3,3,3,3,3,3,3"])
    monkeypatch.setattr("toolkit.viewer.model.stored_judgements", lambda *_: {})
    shown = run_html(opened(study, first))
    assert "No judgement of this reply counts" in shown
    assert "human:anna" in shown
    assert "of the judges" not in shown


def test_no_score_of_a_running_round_is_shown_until_it_is_finished(study, tmp_path):
    """Neither of judges nor of people, nor in the table, nor for a reply of it that is rated already."""
    held = running(study, finish=1)
    other = next(run_id for run_id in ids(study) if run_id not in held)
    rated_by_file(study, tmp_path, [f"{held[0]},anna,secret remark,3,3,3,3,3,3,3"])
    assert running_rounds(study.plan, study.store) == dict.fromkeys(held, ("ben",))
    for run_id in held:
        run = opened(study, run_id)
        shown = run_html(run)
        assert (run.judges, run.people, run.hidden_for) == ((), (), "ben")
        assert "Being rated blind by ben: no score of it is shown until that round is finished." in shown
        assert "<table" not in shown
        assert "secret remark" not in shown
        assert "<b>Composite</b> –" in shown
        assert cells(run.facts)[4:8] == ("hidden, judged", "–", "–", "–")
        assert opened(study, run_id, blind=False).judges
    assert opened(study, other).judges
    frame = with_people(study.plan, study.store, study.runs())
    hidden = frame[frame["run_id"].isin(held)]
    assert hidden[[*DIMENSIONS, "composite", "composite_strict", "composite_std"]].isna().all().all()
    assert set(matching(frame, Filter(low=0.0, high=4.9))["run_id"]).isdisjoint(held)
    running(study, finish=2)
    assert running_rounds(study.plan, study.store) == {}
    assert opened(study, held[0]).judges


def test_a_reply_in_two_running_rounds_waits_for_both(study):
    """Their names are sorted; one who has finished is not waited for."""
    running(study, "zoe", size=None)
    running(study, "ben", size=None, finish=1)
    assert set(running_rounds(study.plan, study.store).values()) == {("ben", "zoe")}
    running(study, "zoe", size=None, finish=6)
    assert set(running_rounds(study.plan, study.store).values()) == {("ben",)}


def test_the_page_is_blind_even_when_it_is_made_of_a_frame_with_scores(study):
    """Also the pair at its top, and also where the rest of the round is not on the page; it can be asked for."""
    held = running(study, size=3, finish=2)
    runs = study.runs()
    done = runs[runs["run_id"] == held[0]]
    score = f"{float(done['composite'].iloc[0]):.2f}"
    page = write_page(study.plan, study.store, done, pair=(held[0], held[1])).read_text()
    assert "Being rated blind by ben" in page
    assert f">{score}<" not in page
    assert "judge-a" not in page
    told_at = write_page(study.plan, study.store, done, blind=False)
    # The one with scores never takes the place of the blind one.
    assert told_at != write_page(study.plan, study.store, done)
    told = told_at.read_text()
    assert f">{score}<" in told
    assert "human:ben" in told


def test_the_box_of_the_viewer_shows_scores_and_hides_them_again(study):
    """It is there only while a round runs; export follows it."""
    assert Viewer(study.plan, study.store).blind.layout.display == "none"
    held = running(study)
    viewer = Viewer(study.plan, study.store, held[0])
    assert viewer.blind.layout.display is None
    assert viewer.blind.description == "Hide the scores of 2 runs that are being rated blind, by ben"
    assert "Being rated blind by ben" in viewer.shown.value
    viewer.export.click()
    viewer.blind.value = False
    assert "Being rated blind by ben" not in viewer.shown.value
    assert "Raw reply of primary" in viewer.shown.value
    assert "hidden, " not in viewer.table.value
    viewer.blind.value = True
    assert "Being rated blind by ben" in viewer.shown.value
    assert viewer.table.value.count("hidden, judged") == 4  # in the cell, and in its title


def test_people_of_another_text_or_study_hide_nothing(study, tmp_path):
    """A round of replies that were asked again does not wait for ever."""
    held = running(study, size=1)
    study.store.database["rating_rounds"].update_one({}, {"$push": {"run_ids": "a run that is no more"}})
    rate_all = open_round(study.plan, study.store, "ben")
    rate(study.plan, study.store, rate_all, rate_all.replies[0], dict.fromkeys(DIMENSIONS, 1.0))
    assert [reply.run_id for reply in rate_all.replies] == held
    assert running_rounds(study.plan, study.store) == {}

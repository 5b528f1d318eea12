"""What people said stands beside the judges, and no score is seen of a reply that somebody still rates blind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from small_study import clear_of_people, finished_study

from toolkit.errors import InputError
from toolkit.people.rating import open_round, rate, running_rounds
from toolkit.people.ratings_file import import_ratings
from toolkit.study import Study
from toolkit.viewer.beside import beside_html
from toolkit.viewer.model import OpenRun, open_runs
from toolkit.viewer.page import write_page
from toolkit.viewer.parts import cells, run_html
from toolkit.viewer.people import with_people
from toolkit.viewer.table import Filter, matching
from toolkit.viewer.widget import Viewer
from toolkit.words import DIMENSIONS

REMARK = "Too mild: <script>document.title='OWNED'</script> \x1b[31m$5"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A finished study of six runs."""
    with finished_study(tmp_path_factory.mktemp("people")) as loaded:
        yield loaded


@pytest.fixture
def study(finished: Study) -> Iterator[Study]:
    """The finished study, with nothing that people said in it."""
    yield finished
    clear_of_people(finished)


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
    """Open a round, rate so many of its replies, and return the runs of the round."""
    round_ = open_round(study.plan, study.store, rater, size=size)
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

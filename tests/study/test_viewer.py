"""The viewer without a browser: the table of runs, what its controls show and refuse, and what people said of runs."""

import json
import re

import pandas as pd
from pages import page_of, unpacked
from refusals import refusal

from toolkit.people.rating import open_round, rate
from toolkit.people.ratings_file import import_ratings
from toolkit.store.frame_files import typed, types_of
from toolkit.store.ratings import running_rounds
from toolkit.viewer.model import open_runs, with_people
from toolkit.viewer.page import rows, run_html, state
from toolkit.words import DIMENSIONS

REMARK = "Too mild: <script>document.title='OWNED'</script> \x1b[31m$5"


class Asked:
    """A viewer, asked as its app asks it: by messages, which have an answer or an error."""

    def __init__(self, study, which=None):
        self.viewer = study.view(which)
        self.sent = []
        self.asked = 0
        self.viewer.send = self.sent.append

    def __call__(self, what, **more):
        """Return the answer, as it comes through JSON."""
        self.asked += 1
        self.viewer._on_message(None, {"ask": str(self.asked), "what": what, "with": more}, [])
        answer = json.loads(json.dumps(self.sent.pop()))
        assert answer.pop("to") == str(self.asked)
        return answer.get("value", answer)


def frame(*rows):
    """Return a runs frame with these values; all else is missing."""
    base = {"status": "succeeded", "excluded": False, "judged": False}
    types = types_of("runs")
    return typed([{**dict.fromkeys(types), **base, **row} for row in rows], types)


RUNS = frame(
    {"run_id": "a", "model": "m", "judged": True, "composite": 2.0, "composite_std": 0.5},
    {"run_id": "b", "model": "n\u202e", "judged": True, "composite": 4.0},
    {"run_id": "c", "model": "m", "judged": False},
    {"run_id": "d", "model": "m", "status": "failed"},
)


def test_rows_have_every_column_and_missing_is_none():
    """What is missing stays so on its way to the browser, and a sign that hides is shown; also without any run."""
    table = rows(RUNS.assign(people_composite=pd.NA, people_count=0, hidden_for=[None, "ben", None, None]))
    assert table["run"] == list("abcd")
    assert table["composite"] == [2.0, 4.0, None, None]
    assert table["model"] == ["m", "n[U+202E]", "m", "m"]
    assert table["state"] == ["judged", "hidden, judged", "not judged", "failed"]
    assert {len(column) for column in table.values()} == {4}
    none = rows(frame().assign(people_composite=[], people_count=[], hidden_for=[]))
    assert all(column == [] for column in none.values())


def test_the_app_is_told_of_all_runs_opens_them_and_searches_them(study):
    """Nothing of it is state of the widget, which would be saved into the notebook."""
    ask = Asked(study)
    told = ask("rows", blind=True)
    assert told["rows"]["run"] == ids(study)
    assert (told["name"], told["planned"], told["first"]) == ("small", 6, None)
    assert told["hidden"] == {"runs": 0, "raters": []}
    assert told["dimensions"] == list(DIMENSIONS)
    assert (told["factor"], told["levels"]) == ("prompt length", [*"SML"])
    assert (told["score"], {*told["rows"]["level"]}) == ("composite_strict", {*"SML"})
    (html,) = ask("open", ids=ids(study)[:1])
    assert html.startswith("<h2>")
    assert ask("search", text=" SCRIPTED REPLY ") == ids(study)
    assert ask("search", text="not there") == []
    assert not {"rows", "runs"} & set(ask.viewer.get_state())


def test_what_the_store_has_more_is_seen_without_reading_it(study):
    """The stamp changes when a person rates, and only then."""
    ask = Asked(study)
    stamp = ask("rows", blind=True)["stamp"]
    assert ask("stamp") == stamp
    running(study)
    assert ask("stamp") != stamp


def test_an_exported_page_has_the_runs_of_the_filter_and_the_pair(study):
    """The path is said, and another choice is another file."""
    ask, some = Asked(study), ids(study)[:2]
    said = [ask("export", ids=some, pair=pair, chosen="bin M") for pair in (some, None)]
    assert said[0] != said[1]
    data, parts = unpacked(next(p for p in study.output.glob("answers-*.html") if p.name in said[0]))
    assert (data["rows"]["run"], data["pair"], data["chosen"]) == (some, some, "bin M")
    assert len(parts) == 2


def test_a_run_id_opens_at_once_and_an_unknown_one_is_refused(study):
    """The way of a notebook is `study.view`; a selection has its own order, and stands there without a kernel."""
    run_id = ids(study)[3]
    assert Asked(study, run_id)("rows", blind=True)["first"] == run_id
    some = [ids(study)[4], ids(study)[1]]
    told = Asked(study, some)("rows", blind=True)
    assert (told["rows"]["run"], told["first"], told["planned"]) == (some, some[0], 2)
    for nobody in ("nobody", ["nobody"]):
        refusal("'nobody': not in study small", study.view, nobody)


def test_a_store_that_fails_is_said_and_the_viewer_stays(study, monkeypatch):
    """The error goes to where the person looks."""

    def broken(*_):
        raise OSError("the <b>server</b> is gone")

    ask = Asked(study)
    monkeypatch.setattr("toolkit.viewer.app.open_runs", broken)
    assert ask("open", ids=["x"]) == {"error": "Not done (OSError: the <b>server</b> is gone)."}
    monkeypatch.undo()
    assert ask("open", ids=["x"]) == {"error": "run 'x': not in study small; study.runs() lists the run ids"}


def test_a_study_without_runs_says_what_to_do(study, monkeypatch):
    """Not an empty table."""
    none = study.runs().iloc[:0]
    monkeypatch.setattr("toolkit.viewer.app.planned_runs", lambda plan, store: none)
    refusal("small: has no run to read yet; run it first", study.view)


def ids(study):
    """Return the runs in the order of the runs frame."""
    return study.runs()["run_id"].tolist()


def rated_by_file(study, folder, lines):
    """Keep ratings that have no round: run, rater, reasons and seven scores a line."""
    path = folder / "ratings.csv"
    path.write_text("\n".join((f"run_id,rater,reasons,{','.join(DIMENSIONS)}", *lines)) + "\n")
    import_ratings(study.plan, study.store, path)


def opened(study, run_id, **options):
    """Return a run as the viewer shows it."""
    (run,) = open_runs(study.plan, study.store, seen(study, **options), [run_id])
    return run


def seen(study, **options):
    return with_people(study.plan, study.store, study.runs(), **options)


def running(study, rater="ben", size=2, finish=0):
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
    assert f"<b>People</b> {mean:.2f} (2)" in shown
    unfinished = run_html(opened(study, second))
    for part in ("<b>People</b> –", "unfinished, does not count", "unfinished: 6 of 7 dimensions scored"):
        assert part in unfinished


def test_all_zeros_of_a_person_are_a_zero_and_nobody_is_a_dash(study, tmp_path):
    """A true zero is a score; the frame has as many rows, in the same order."""
    second = ids(study)[1]
    rated_by_file(study, tmp_path, [f"{second},anna,,0,0,0,0,0,0,0"])
    frame = seen(study)
    assert frame["run_id"].tolist() == ids(study)
    assert frame["people_composite"].tolist() == [pd.NA, 0.0, pd.NA, pd.NA, pd.NA, pd.NA]
    assert frame["people_count"].tolist() == [0, 1, 0, 0, 0, 0]
    assert frame["hidden_for"].isna().all()
    assert rows(frame)["people"][:2] == [None, 0.0]
    assert len(with_people(study.plan, study.store, study.runs().iloc[:0])) == 0


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
        assert state(run.facts) == "hidden, judged"
        assert opened(study, run_id, blind=False).judges
    assert opened(study, other).judges
    frame = seen(study)
    hidden = frame[frame["run_id"].isin(held)]
    assert hidden[[*DIMENSIONS, "composite", "composite_strict", "composite_std"]].isna().all().all()
    running(study, finish=2)
    assert running_rounds(study.plan, study.store) == {}
    assert opened(study, held[0]).judges


def test_the_page_is_blind_even_when_it_is_made_of_a_frame_with_scores(study):
    """Also the pair at its top, and also where the rest of the round is not on the page; it can be asked for."""
    held = running(study, size=3, finish=2)
    runs = study.runs()
    done = runs[runs["run_id"] == held[0]]
    score = f"{float(done['composite'].iloc[0]):.2f}"
    data, parts = unpacked(page_of(study, done, pair=(held[0], held[1])))
    page = json.dumps([data, parts])
    assert len(parts) == 2
    assert page.count("Being rated blind by ben") == 2
    assert data["rows"]["composite"] == [None, None]
    assert f">{score}<" not in page
    assert "judge-a" not in page
    told_at = page_of(study, done, blind=False)
    # The one with scores never takes the place of the blind one.
    assert told_at != page_of(study, done)
    told = json.dumps(unpacked(told_at))
    assert f">{score}<" in told
    assert "human:ben" in told


def test_the_box_of_the_viewer_shows_scores_and_hides_them_again(study):
    """It is there only while a round runs; search and export follow it."""
    held = running(study)
    ask = Asked(study, held[0])
    told = ask("rows", blind=True)
    assert told["hidden"] == {"runs": 2, "raters": ["ben"]}
    assert told["rows"]["state"].count("hidden, judged") == 2
    assert "Being rated blind by ben" in ask("open", ids=held[:1])[0]
    blind = ask("export", ids=held, pair=None, chosen="")
    told = ask("rows", blind=False)
    assert told["rows"]["state"].count("hidden, judged") == 0
    assert "Raw reply of primary" in ask("open", ids=held[:1])[0]
    assert ask("export", ids=held, pair=None, chosen="") != blind
    assert ask("rows", blind=True)["hidden"]["runs"] == 2
    assert "Being rated blind by ben" in ask("open", ids=held[:1])[0]

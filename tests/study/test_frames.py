"""The frames of a study: filtered by the store, described by the dictionary, all calls accounted for, exported."""

import numpy as np
import pandas as pd
import pytest
from cases import cases
from pandas.testing import assert_frame_equal
from places import DOCS

from toolkit.errors import InputError
from toolkit.store import embedded
from toolkit.store.documents import Annotation, Run
from toolkit.store.frame_files import KINDS, describe, dictionary_text, dtype_of, dtype_words
from toolkit.store.frames import runs_frame, with_replies
from toolkit.study import Study

ONE_SHOT = """
name = "shots"
test = "one_shot"
models = [{ name = "scripted" }]
repeats = 1
output = "results/shots"
[options]
answer_format = "text"
[judges]
primary = { name = "judge-a", provider = "scripted", usd_per_million_input = 2.0, usd_per_million_output = 8.0 }
secondary = { name = "judge-b", provider = "scripted" }
tertiary = { name = "judge-c", provider = "scripted" }
"""


@pytest.fixture(scope="module")
def study(demo_like_study):
    """36 runs and 108 judgements, of which nothing is changed here."""
    loaded = Study.load(demo_like_study)
    yield loaded
    loaded.store.close()


@pytest.fixture(scope="module")
def one_shot(tmp_path_factory):
    """A one-shot test on free text, of which two experiments were asked; no judge says yes or no."""
    folder = tmp_path_factory.mktemp("shots")
    (folder / "shots.toml").write_text(ONE_SHOT)
    loaded = Study.load(folder / "shots.toml")
    loaded.execute(progress=False, limit=2)
    yield loaded
    loaded.store.close()
    embedded.stop(folder / "results" / ".store")


def same_rows(frame, whole):
    """Whether a frame is these rows of the whole."""
    assert_frame_equal(frame, whole.reset_index(drop=True), check_exact=True)
    return len(frame) > 0


def test_a_filter_of_runs_gives_the_rows_that_a_filter_of_the_frame_gives(study):
    """One value, several, and filters together; all filters of one name or the other."""
    whole = study.runs()
    assert same_rows(study.runs(level="S"), whole[whole["level"] == "S"])
    assert same_rows(study.runs(level=["S", "L"]), whole[whole["level"] != "M"])
    base = whole["base"][0]
    assert same_rows(study.runs(base=base, level="M"), whole.query("base == @base and level == 'M'"))
    for name in ("model", "scenario", "category", "prompt_id", "repeat", "status"):
        value = whole[name].iloc[-1]
        assert same_rows(study.runs(**{name: value}), whole[whole[name] == value])
    assert same_rows(study.runs(judged=True), whole)
    assert study.runs(judged=False).empty
    assert study.runs(status="failed").dtypes.equals(whole.dtypes)


def test_the_values_of_a_filter_may_be_a_column_an_array_or_a_range(study):
    """What a notebook has in hand is a list of values; numbers of numpy are numbers."""
    whole = study.runs()
    some = whole[whole["scenario"] == "SOC_INCIDENT"]
    ids = some["prompt_id"]
    for values in (ids, ids.unique(), {*ids}, iter(ids)):
        assert same_rows(study.runs(prompt_id=values), some)
    assert same_rows(study.runs(level=some["level"], repeat=range(1), judged=np.True_), whole)
    assert same_rows(study.runs(repeat=np.int64(0)), whole)


def test_filters_of_judgements_are_those_of_runs_and_of_judges(study):
    """A judge, its model, a failed judgement, and a filter of the run."""
    whole = study.judgements()
    assert same_rows(study.judgements(judge="secondary"), whole[whole["judge"] == "secondary"])
    assert same_rows(study.judgements(judge_model="judge-c"), whole[whole["judge_model"] == "judge-c"])
    chosen = whole.query("judge == 'primary' and level == 'L'")
    assert same_rows(study.judgements(judge="primary", level="L"), chosen)
    assert study.judgements(failed=True).empty
    assert same_rows(study.judgements(failed=False), whole)
    scores = study.dimensions(judge="primary", level="L")
    assert len(scores) == 7 * len(chosen)
    assert scores["score"].sum() == pytest.approx(chosen[list(dtype_of("dimension").categories)].sum().sum())


def test_what_is_not_asked_for_is_not_read(study, monkeypatch):
    """The store sends the runs that the filters name, and no other."""
    read = []
    find = type(study.store).find_by

    def counting(store, document, *arguments, **options):
        found = find(store, document, *arguments, **options)
        if document is Run:
            read.append(len(found))
        return found

    monkeypatch.setattr(type(study.store), "find_by", counting)
    study.runs(level="S", status="succeeded")
    study.runs(status="failed")
    assert read == [12, 0]


@pytest.mark.parametrize(
    ("frame", "filters", "line"),
    [
        *cases(__file__)["refused"],
        ("runs", {"repeat": pd.NA}, "repeat: this study has no <NA>; use 0"),
        ("runs", {"base": pd.Series([None])}, "base: this study has no None"),
    ],
)
def test_an_unknown_filter_or_value_is_one_clear_line(study, frame, filters, line):
    """The line names what is allowed."""
    with pytest.raises(InputError, match=line) as caught:
        getattr(study, frame)(**filters)
    assert "\n" not in str(caught.value)


def test_the_calls_are_every_cent_of_the_study(study):
    """One row a request; the rows of runs and judges lead to them, and the costs are what the study spent."""
    calls, runs, judgements = study.calls(), study.runs(), study.judgements()
    assert len(calls) == 36 + 108
    assert calls["aud_cost"].sum() == pytest.approx(study.status()["spent_aud"])
    assert calls["leads"].all()
    merged = judgements.merge(calls, on="call_id", validate="m:1", suffixes=("", "_call"))
    assert len(merged) == len(judgements)
    assert (merged["judge"].astype("str") == merged["role"].astype("str")).all()
    assert (merged["judge_model"] == merged["model_call"]).all()
    of_runs = study.calls(purpose="run")
    assert set(of_runs["run_id"]) == set(runs["run_id"])
    assert of_runs["role"].isna().all()
    assert (of_runs["attempts"] == 1).all()
    primary = study.calls(role="primary", state="done", purpose=["run", "judge"])
    assert same_rows(primary, calls[(calls["role"] == "primary").fillna(False)])
    assert same_rows(study.calls(model="judge-b"), calls[calls["model"] == "judge-b"])
    assert study.calls(state="failed").dtypes.equals(calls.dtypes)


def test_calls_that_lead_nowhere_or_were_paid_by_another_study_are_there(study_file, monkeypatch):
    """A failed, a claimed, a further and a shared call each say what they are; nothing of them is 0 that is missing."""
    first = Study.load(study_file())
    first.execute(progress=False)
    calls = first.store.database["calls"]
    some = first.calls(purpose="run")["call_id"].tolist()
    whole = calls.find_one({"_id": some[0]})
    bare = {name: whole[name] for name in ("owner", "study", "purpose", "provider", "model", "worst_aud")}
    bare |= {"created_at": whole["created_at"], "updated_at": whole["updated_at"]}
    calls.insert_one({**whole, "_id": "a" * 64, "purpose": "judge", "model": "judge-b"})  # a repair, say
    failure = {"reason": "timeout", "message": "no reply"}
    calls.insert_one({**bare, "_id": "b" * 64, "state": "failed", "failure": failure, "unsure_aud": 0.5})
    calls.insert_one({**bare, "_id": "c" * 64, "state": "claimed", "model": "gone"})
    calls.replace_one({"_id": some[1]}, {**calls.find_one({"_id": some[1]}), "study": "elsewhere"})
    frame = first.calls().set_index("call_id")
    assert len(frame) == 6 + 18 + 3
    repair, failed, claimed, shared = (frame.loc[one] for one in ("a" * 64, "b" * 64, "c" * 64, some[1]))
    assert (repair["leads"], repair["role"], repair["model"]) == (False, "secondary", "judge-b")
    assert (failed["failure"], failed["unsure_aud"], failed["attempts"]) == ("timeout: no reply", 0.5, 0)
    assert failed[["aud_cost", "latency_ms", "input_tokens", "finish_reason"]].isna().all()
    assert claimed[["aud_cost", "model", "run_id", "failure"]].isna().all()
    assert (shared["paid_by"], shared["leads"]) == ("elsewhere", True)
    assert frame.query("paid_by == 'small'")["aud_cost"].sum() == pytest.approx(first.status()["spent_aud"])
    assert first.calls(state="failed")["call_id"].tolist() == ["b" * 64]


def test_the_frames_of_large_and_small_studies_are_the_same(study, monkeypatch):
    """Read in one window or in many, a frame has the same rows and bits."""
    runs, judgements, calls = study.runs(), study.judgements(), study.calls()
    monkeypatch.setattr("toolkit.store.connection.WINDOW", 7)
    assert_frame_equal(study.runs(), runs, check_exact=True)
    assert_frame_equal(study.judgements(), judgements, check_exact=True)
    assert_frame_equal(study.calls(), calls, check_exact=True)
    few = runs_frame(study.store, study.plan.call_ids[:9], study=study.name)
    assert len(few) == 9
    assert runs_frame(study.store, study.plan.call_ids, study="another").empty


def test_the_dictionary_is_true_of_every_frame(study, one_shot):
    """Every column of every frame is in it with its dtype, in its order, and it has no other."""
    for kind in KINDS:
        frame = getattr(one_shot if kind in ("experiments", "methods") else study, kind)()
        if kind not in ("human", "elements", "pairs", "hallucination_verdicts"):  # nobody was asked
            assert len(frame)
        table = describe(kind)
        assert table["column"].tolist() == list(frame.columns)
        for name, column in KINDS[kind].items():
            assert frame[name].dtype == dtype_of(column.dtype), (kind, name)
            assert not frame[name].isna().any() or column.missing, (kind, name)
    assert describe()["frame"].drop_duplicates().tolist() == list(KINDS)
    assert_frame_equal(study.dictionary("calls"), describe("calls"))
    with pytest.raises(InputError, match=r"there is no frame 'run'; did you mean runs\? use one of runs"):
        study.dictionary("run")


def test_the_page_of_the_dictionary_is_the_one_in_the_docs():
    """The page says what the tables say, each column on a line of its own."""
    page = (DOCS / "reference" / "data_dictionary.md").read_text(encoding="utf-8")
    assert page == dictionary_text()
    for kind, columns in KINDS.items():
        part = page.split(f"## `study.{kind}()`")[1].split("\n## ")[0]
        for name, column in columns.items():
            assert f"| `{name}` | {dtype_words(column.dtype)} |" in part


def test_runs_and_judgements_join_without_a_name_that_means_two_things(study):
    joined, judgements, runs = study.joined(), study.judgements(), study.runs()
    assert len(joined) == len(judgements) == 108
    assert not [name for name in joined if name.endswith(("_x", "_y"))]
    assert joined["level"].dtype == runs["level"].dtype
    assert {"composite", "run_composite", "failure", "run_failure", "reasons"} <= set(joined)
    means = joined.groupby("run_id")["composite"].mean().to_numpy()
    assert means == pytest.approx(runs.set_index("run_id").sort_index()["composite"].to_numpy(), nan_ok=True)
    with pytest.raises(InputError, match="model"):
        study.joined(model="no-such")


def test_replies_stand_beside_their_runs(study):
    runs = study.runs(replies=True, level="S")
    assert runs["reply"].tolist() == [study.reply(run_id) for run_id in runs["run_id"]]
    assert "reply" not in study.runs()
    without = runs.assign(output_blob_id=None).astype({"output_blob_id": "string"})
    assert with_replies(study.store, without)["reply"].isna().all()


def test_a_selection_is_opened_in_its_order_and_a_stranger_is_refused(study):
    worst = study.runs().nsmallest(3, "composite")
    viewer = study.view(worst)
    assert viewer.runs["run_id"].tolist() == worst["run_id"].tolist()
    assert [run.run_id for run in viewer.opened] == [worst["run_id"].iat[0]]
    for wrong, words in (
        (["no-run"], "not in study"),
        (worst[["model"]], "no column run_id"),
        (3, "3 is no run"),
    ):
        with pytest.raises(InputError, match=words):
            study.view(wrong)


def test_scores_and_costs_are_those_that_were_stored_to_the_last_bit(study):
    """What the store leaves out of a document changes nothing in what it sends."""
    runs = study.runs().set_index("run_id")
    for document in study.store.objects(Run):
        row, found = runs.loc[document.run_id], document.ensemble_evaluation["aggregated"]
        assert row["composite"] == found["mean_scores"]["composite"]
        assert row["clarity"] == found["mean_scores"]["clarity"]
        assert row["composite_std"] == found["std_scores"]["composite"]
        assert [row["composite_low"], row["composite_high"]] == found["confidence_intervals"]["composite"]
        assert row["aud_cost"] == document.economics.aud_cost
        assert row["judge_count"] == found["judge_count"] == 3
        assert row["created_at"] == document.created_at
        of_run = study.store.objects(Annotation).filter(run_id=document.run_id)
        assert row["judge_aud_cost"] == pytest.approx(sum(one.aud_cost for one in of_run), rel=1e-14)

"""One run with everything that the store and the ledger know of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hostile_study import REPLY, hostile_study

from toolkit.errors import InputError
from toolkit.store import embedded
from toolkit.study import Study
from toolkit.viewer.beside import beside_html
from toolkit.viewer.model import OpenRun, open_runs, search_texts
from toolkit.viewer.parts import cells, run_html


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A finished study of four runs with two judges that answer and one that cannot be read."""
    with hostile_study(tmp_path_factory.mktemp("open")) as loaded:
        yield loaded


def opened(study: Study, place: int = 0) -> OpenRun:
    """Return one run of the study."""
    runs = study.runs()
    (run,) = open_runs(study.plan, study.store, runs, [runs["run_id"].iloc[place]])
    return run


def changed(study: Study, run_id: str, **fields: object) -> dict[str, object]:
    """Change a run in the store and return what it held before."""
    collection = study.store.database["runs"]
    before = collection.find_one({"run_id": run_id})
    collection.update_one({"_id": before["_id"]}, {"$set": fields})
    return before


def test_a_run_has_its_prompt_its_reply_its_judges_and_their_calls(study):
    """The texts are those of the store, and every call of every judge is there, repairs too."""
    run = next(run for run in (opened(study, place) for place in range(4)) if run.reply == REPLY)
    assert run.prompt == study.prompt(run.facts["prompt_id"])
    assert run.reply == study.reply(run.run_id)
    assert [one.judgement.label for one in run.judges] == ["primary", "secondary", "tertiary"]
    assert all(one.complete for one in run.judges)
    assert [len(one.calls) for one in run.judges] == [1, 1, 2]
    assert json.loads(run.judges[0].calls[0].text)["clarity"] == 3.5
    assert run.judges[2].judgement.reason.startswith("prose")
    assert run.call.attempts[0][0] == "answered"
    assert run.call.call_id == run.facts["call_id"]
    assert len(run.marked) == 5
    assert run.marked_as == "focus sentences (the judges were not told of them)"


def test_texts_run_in_the_direction_of_their_script_and_an_empty_reply_says_so(study):
    """Arabic begins at the right; a box with nothing in it would look like a fault of the viewer."""
    run = opened(study)
    assert (
        run_html(run).count("dir='auto' class='tv-text") == 7
    )  # prompt, reply twice, and four calls of judges
    assert "nothing but white space" in run_html(replace(run, reply=" \n", marked=()))
    assert beside_html(run, replace(run, prompt="other")).count("<pre dir='auto'") == 4


def test_runs_come_in_the_order_of_the_ids(study):
    """Also the same twice; none for none."""
    runs = study.runs()
    ids = runs["run_id"].tolist()[::-1]
    assert [run.run_id for run in open_runs(study.plan, study.store, runs, ids)] == ids
    assert open_runs(study.plan, study.store, runs, []) == []


def test_a_run_that_is_not_there_is_named(study):
    """One line with what to do."""
    with pytest.raises(InputError, match=r"run '01X': not in study hostile; study.runs\(\) lists"):
        open_runs(study.plan, study.store, study.runs(), ["01X"])


def test_a_search_looks_in_ids_prompts_and_replies(study):
    """Capital letters do not matter."""
    runs = study.runs()
    texts = search_texts(study.plan, study.store, runs)
    assert set(texts) == set(runs["run_id"])
    first = runs.iloc[0]
    text = texts[first["run_id"]]
    assert first["run_id"].casefold() in text
    assert first["prompt_id"] in text
    assert "nobody knows" in text
    assert study.reply(first["run_id"]).casefold() in text


def test_differences_are_right_less_left_and_never_minus_nothing(study):
    """A dash where a side is missing, and +0 where they are alike."""
    one, other = opened(study, 0), opened(study, 1)
    less = {"composite": 1.25, "judge_count": None, "latency_ms": other.facts["latency_ms"]}
    shown = beside_html(replace(one, facts={**one.facts, "composite": 2.0, "latency_ms": less["latency_ms"] + 0.1}),
                        replace(other, facts={**other.facts, **less}))  # fmt: skip
    assert "<td>composite</td><td>2.00</td><td>1.25</td><td class='tv-number'>-0.75</td>" in shown
    assert "<td>judges</td><td>2</td><td>–</td><td class='tv-number'>–</td>" in shown
    assert "<td class='tv-number'>+0</td></tr></tbody>" in shown


def test_a_failed_run_says_why_and_has_no_number(study):
    """A failure is missing, never zero."""
    run_id = study.runs()["run_id"].iloc[0]
    before = changed(
        study, run_id, status="failed", failure="timeout: <b>60 s</b>", output_blob_id=None, tokens=None
    )
    try:
        run = opened(study)
        assert (run.reply, run.judges, run.marked) == (None, (), ())
        shown = run_html(run)
        assert "No reply: timeout: &lt;b&gt;60 s&lt;/b&gt;" in shown
        assert "<b>Composite</b> –" in shown
        assert cells(run.facts)[4:7] == ("failed", "–", "–")
        assert "No reply on the left: there is nothing to compare." in beside_html(run, opened(study, 1))
    finally:
        study.store.database["runs"].replace_one({"_id": before["_id"]}, before)


def test_of_a_run_that_is_left_out_no_judgement_is_shown(study):
    """What judges said of a reply that counts for nothing would be taken for a score."""
    run_id = study.runs()["run_id"].iloc[0]
    before = changed(study, run_id, defect="truncated", reply_policy="exclude")
    try:
        run = opened(study)
        assert run.reply is not None
        assert run.judges == ()
        assert "is not whole (truncated) and is left out" in run_html(run)
        assert cells(run.facts)[4] == "truncated"
        assert "<td>status</td><td>truncated</td><td>judged</td>" in beside_html(run, opened(study, 1))
        changed(study, run_id, defect="truncated", reply_policy="keep")
        assert len(opened(study).judges) == 3
        assert "the study counts it all the same" in run_html(opened(study))
    finally:
        study.store.database["runs"].replace_one({"_id": before["_id"]}, before)


def test_the_calls_of_a_judgement_do_not_depend_on_how_judges_are_asked_now(study):
    """A judgement names its calls, repairs too: nothing is judged again to find them."""
    other = study.path.with_name("other.toml")
    other.write_text(study.path.read_text().replace("[judges]", "[judges]\nmax_tokens = 77\n"))
    again = Study.load(other)
    try:
        assert opened(again).judges == opened(study).judges
    finally:
        again.store.close()


def test_of_a_judgement_from_before_the_call_that_it_names_is_shown(study):
    """Stores of earlier versions kept one call of each judgement; that it may not be the only one is said."""
    collection = study.store.database["judgements"]
    kept = {one["_id"]: one["call_ids"] for one in collection.find({})}
    collection.update_many({}, {"$unset": {"call_ids": ""}})
    try:
        run = opened(study)
        assert [one.complete for one in run.judges] == [False] * 3
        assert [[call.call_id for call in one.calls] for one in run.judges] == [
            [one.judgement.call_id] for one in run.judges
        ]
        assert "and perhaps not its only one" in run_html(run)
    finally:
        for name, call_ids in kept.items():
            collection.update_one({"_id": name}, {"$set": {"call_ids": call_ids}})


@pytest.mark.parametrize(
    ("mode", "marked_as"),
    [
        ("listed", "focus sentences (named to the judges)"),
        ("per_sentence", "segments in which a judge found a fault"),
    ],
)
def test_what_is_marked_is_what_the_judges_were_asked_about(tmp_path, mode, marked_as):
    """Named sentences, or segments with a fault; every call of a judge per sentence is found."""
    path = tmp_path / "small.toml"
    path.write_text(
        f'name = "small"\noutput = "results/small"\nscenarios = ["CTI_ANALYSIS"]\nlength_bins = ["S"]\n'
        f'[bias_controls]\nfsp_enabled = true\nfsp_mode = "{mode}"\n'
        '[[models]]\nname = "scripted"\nreplies = ["Block the port. Then tell the owner.\\n\\n- Keep the log."]\n'
        + "".join(
            f'[judges.{role}]\nname = "judge-{role}"\nprovider = "scripted"\nstructured = true\n'
            for role in ("primary", "secondary", "tertiary")
        )
    )
    study = Study.load(path)
    try:
        study.execute(progress=False)
        run = opened(study)
        assert run.marked_as == marked_as
        found = [f for one in run.judges for f in (one.judgement.detail or {}).get("findings", ())]
        if mode == "per_sentence":
            assert all(len(one.calls) == 4 for one in run.judges)
            assert set(run.marked) == {(f["start"], f["end"]) for f in found}
            assert found[0]["what"] in run_html(run)
        else:
            assert [run.reply[start:end] for start, end in run.marked] == [
                "Block the port.", "Then tell the owner.", "- Keep the log.",
            ]  # fmt: skip
        study.store.close()
    finally:
        embedded.stop(study.plan.store_folder)

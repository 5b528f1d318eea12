"""Logs that stopped, were reduced or differ in arguments; other tools' tables; names that only look alike; advice."""

import json
import re
import unicodedata

import pandas as pd
import pytest
from cases import FULL, cases
from refusals import refusal
from test_score_files import (
    EVERY,
    FOREIGN,
    analyse,
    composite,
    lm_eval_of,
    names_in,
    promptfoo_of,
    result_of,
    saved,
    scored,
)

from toolkit import Scores
from toolkit.words import is_unseen, visible_name

CASES = cases(__file__)


def test_a_stopped_log_says_its_status_and_what_was_never_run():
    """Five of ten samples were never run, and two stopped with an error: seven answers are missing."""
    scores = Scores.load(FOREIGN / "inspect_stopped.json")
    for told in ("the log has the status error", "5 of 10 samples are missing: never run"):
        assert told in scores.summary().text
    reasons = scores.runs()["failure"].value_counts().to_dict()
    assert reasons == {"never run: status error": 5, "error in the sample": 2}
    assert composite(scores).mean() == 1.0
    assert scores.missing().overall[0].estimate == 0.7


@pytest.mark.parametrize("status", ["started", *map(FULL, ("cancelled", "error", "success"))])
def test_samples_that_were_never_run_are_missing_in_each_epoch(tmp_path, status):
    """By the identifiers of the dataset; how many a limit left out of it does not count."""
    head = CASES["epochs"]
    path = saved(tmp_path / "log.json", scored(1, 1, s=1), scored("b", 2, s=0), **head)
    log = json.loads(path.read_text())
    path.write_text(json.dumps(log | {"status": status}))
    runs = Scores.load(path).runs()
    assert (len(runs), runs["composite"].count()) == (6, 2)
    assert runs["failure"].dropna().str.startswith("never run").sum() == 4
    assert ("has the status" in Scores.load(path).summary().text) is (status != "success")
    path.write_text(json.dumps(log | {"status": status, "samples": []}))
    refusal("no sample of this log has a score", Scores.load, path)


def test_a_head_that_plans_more_samples_than_there_can_be_is_refused(tmp_path):
    head = {"dataset": {"sample_ids": [*range(1000)]}, "config": {"epochs": 2**31 - 1}}
    refusal(
        r"cannot be read as scores .*are more than 1,000,000",
        Scores.load,
        saved(tmp_path / "log.json", scored(1, s=1), **head),
    )


@pytest.mark.parametrize("name", ["mode", "pass_at_2", "at_least_2", "mode_median", "max_mean"])
def test_epochs_are_reduced_as_inspect_printed(name):
    """By its own reductions; of several the mean, which is that of the repeats within an item."""
    path = FOREIGN / f"inspect_{name}.json"
    log = json.loads(path.read_text())
    reducers = log["eval"]["config"]["epochs_reducer"]
    reducer = "mean" if "mean" in reducers else reducers[0]
    for score in log["results"]["scores"]:
        if score["reducer"] == reducer:
            printed = next(value["value"] for metric, value in score["metrics"].items() if metric != "stderr")
            scores = Scores.load(path, metric=score["name"])
            assert scores.runs().groupby("base")["composite"].mean().mean() == pytest.approx(printed)
            assert (f"epochs are reduced by {reducer}" in scores.summary().text) is (reducer != "mean")
            assert ("numbers of" in scores.summary().text) is (len(reducers) > 1)


def test_reductions_that_are_not_there_or_not_true_any_more_are_asked_for(tmp_path):
    """Of a log that was stopped, or of which a sample was made invalid since; an item without one is missing."""
    log = json.loads((FOREIGN / "inspect_mode.json").read_text())
    path = tmp_path / "log.json"
    for fault in ({"reductions": None}, {"invalidated": True}):
        path.write_text(json.dumps(log | fault))
        refusal(r"epochs are reduced by mode, .*: inspect score", Scores.load, path)
    for part in log["reductions"]:
        del part["samples"][2]
    path.write_text(json.dumps(log))
    runs = Scores.load(path, metric="grade").runs().set_index("base")
    assert runs["failure"].dropna().to_dict() == {"t/q2": "no value of its epochs"}


CONDITIONS = cases(__file__, "conditions.json")


@pytest.mark.parametrize("case", CONDITIONS, ids=[case["name"] for case in CONDITIONS])
def test_logs_that_differ_in_how_they_were_run_are_conditions(tmp_path, case):
    """Named by what differs, also where two long texts begin alike; neither pooled nor called doubled."""
    logs = [
        saved(tmp_path / f"{at}.json", scored(1, s=at), scored(2, s=1), **head)
        for at, head in enumerate(case["heads"])
    ]
    scores = Scores.load(*logs)
    found = sorted(scores.runs()["model"].unique())
    assert found == (case["models"] or found[:2])
    assert len(found) == 2
    assert "each is a method" in scores.summary().text
    assert scores.compare_models().differences[0].n == {"items": 2}


def test_what_another_task_was_told_makes_no_method(tmp_path):
    """Settings are compared among logs of one task; solvers of a plan are told by their names."""
    of_other = saved(tmp_path / "a.json", scored(1, s=1), task="other")
    of_this = saved(tmp_path / "b.json", scored(1, s=1), task_args={"system": "x"})
    assert set(Scores.load(of_other, of_this).runs()["model"]) == {"m"}
    for at, solver in enumerate(("react", "generate")):
        path = saved(tmp_path / f"{at}.json", scored(1, s=at))
        path.write_text(json.dumps(json.loads(path.read_text()) | {"plan": {"steps": [{"solver": solver}]}}))
    logs = tmp_path / "0.json", tmp_path / "1.json"
    assert set(Scores.load(*logs).runs()["model"]) == {'m, solver ["react"]', 'm, solver ["generate"]'}


def test_a_sample_that_lacks_a_key_lacks_that_key_alone(tmp_path):
    """Its other keys count; its composite is missing, because it would be the mean of other things."""
    samples = [scored(n, s={"a": n / 9, "b": 1 - n / 9} if n != 4 else {"a": 1.0}) for n in range(9)]
    scores = Scores.load(saved(tmp_path / "log.json", *samples))
    runs = scores.runs().set_index("base")
    assert (runs["a"].count(), runs["b"].count(), runs["composite"].count()) == (9, 8, 8)
    assert runs["failure"]["t/4"] == "no score of some dimension"
    (mean,) = scores.dimension_profile().select(dimension="a")
    assert mean.estimate == pytest.approx((sum(range(9)) - 4 + 9) / 81)


MIXED = {
    "keys": [scored(n, s={"exact": n % 2, "length": 40 + n}) for n in range(6)],
    "scorers": [scored(n, exact=n % 2, length=40 + n) for n in range(6)],
}


@pytest.mark.parametrize("name", MIXED)
def test_scores_of_different_ranges_are_not_averaged(tmp_path, name):
    """One is asked for by name, of a log and of a table; a scale that all of them have is taken at its word."""
    log = saved(tmp_path / "log.json", *MIXED[name])
    refusal(r"exact 0 to 1, length 40 to 45.*--metric NAME.*--scale LOW HIGH", Scores.load, log)
    assert composite(Scores.load(log, metric="length")).mean() == 42.5
    assert Scores.load(log, metric="exact").scale == (0, 1)
    assert Scores.load(log, scale=(0, 50)).scale == (0, 50)
    column = "dimension" if name == "keys" else "judge"
    rows = [(n, part, value) for n in range(6) for part, value in (("exact", n % 2), ("length", 40 + n))]
    table = pd.DataFrame(rows, columns=["item", column, "score"])
    refusal("scores of different ranges", Scores, table)
    assert composite(Scores(table, metric="exact")).mean() == 0.5
    refusal("has no dimension and no judge exakt; did you mean exact", Scores, table, metric="exakt")


@pytest.mark.parametrize("values", [(1, 1, 5), (0, 0, 5), *map(FULL, ((3, 4, 10), (20, 30, 100)))])
def test_a_range_that_may_be_of_the_same_scale_is_averaged(values):
    """Scores that are all equal, and high ones beside low ones, say nothing against one scale."""
    low, middle, high = values
    rows = [(n, d, (low, middle)[n % 2] if d == "a" else (low, high)[n % 2]) for n in range(6) for d in "ab"]
    assert composite(Scores(pd.DataFrame(rows, columns=["item", "dimension", "score"]))).count() == 6


def test_the_means_of_models_are_those_that_inspect_printed():
    """Repeats are missing unevenly: .7130 by item, .6739 by answer."""
    logs = [FOREIGN / f"inspect_uneven_{at}.json" for at in (1, 2)]
    printed = json.loads(logs[0].read_text())["results"]["scores"][1]["metrics"]["accuracy"]["value"]
    compared = Scores.load(*logs, metric="model_graded_qa").compare_models()
    assert printed == pytest.approx(0.7130, abs=5e-5)
    assert dict(compared.models)["openai/stub-a"].estimate == pytest.approx(printed)


def test_models_that_are_equal_in_every_item_have_one_mean(tmp_path):
    """However unevenly their repeats are missing (4.00 and 2.00 by answer), and so does the figure."""
    rows = [
        (item, model, repeat, score if repeat < (3 if (score > 3) == (model == "a") else 1) else "")
        for item, score in enumerate((5, 5, 5, 5, 1, 1, 1, 1))
        for model in "ab"
        for repeat in range(3)
    ]
    pd.DataFrame(rows, columns=["item", "model", "repeat", "score"]).to_csv(tmp_path / "t.csv", index=False)
    scores = Scores.load(tmp_path / "t.csv", output=tmp_path)
    compared = scores.compare_models()
    assert [mean.estimate for _, mean in compared.models] == [3.0, 3.0]
    assert compared.models[0][1].n == {"answers": 16, "items": 8}
    assert compared.differences[0].estimate == 0.0


@pytest.mark.parametrize("name", ["scores.csv", "scores.json", "blob_scores.jsonl"])
def test_scores_of_langfuse_are_read(name):
    """A trace is an item, the name of a score a dimension, its source or author the judge; texts are left out."""
    scores = Scores.load(FOREIGN / f"langfuse_{name}", name="a")
    assert repr(scores) == "Scores 'a': 6 items, 1 judge, 2 people, scale 1-5"
    assert scores.dimensions_scored == ("helpfulness", "tone")
    assert set(scores.human()["rater"]) == {"Ada", "Bob"}
    assert scores.judgements()["judge_repeat"].max() == 1
    assert "texts and corrections are no scores" in scores.summary().text
    assert Scores.load(FOREIGN / f"langfuse_{name}", metric="tone").dimensions_scored == ("tone",)


@pytest.mark.parametrize("name", ["promptfoo_one.csv", "promptfoo_several.csv", "promptfoo.yaml"])
def test_tables_of_promptfoo_are_known_and_its_json_asked_for(name):
    """As promptfoo 0.123 writes them: a column of replies for each provider and prompt, doubled names after it."""
    refusal(r"promptfoo export eval ID -o FILE\.json", Scores.load, FOREIGN / name)


def test_a_metric_of_promptfoo_is_taken_by_name(tmp_path):
    """It was passed over without a word."""
    rows = [result_of(test, score=0.5, namedScores={"exact": test % 2}) for test in range(4)]
    promptfoo_of(tmp_path / "out.json", rows)
    assert composite(Scores.load(tmp_path / "out.json", metric="exact")).tolist() == [0, 1, 0, 1]
    refusal("has no metric f1; it has exact", Scores.load, tmp_path / "out.json", metric="f1")


@pytest.mark.parametrize("listed", [{}, {"metrics": ["word_perplexity", "f1", "acc"]}])
def test_metrics_of_lm_eval_that_are_lists_are_told_and_not_taken(tmp_path, listed):
    """Perplexities are pairs of a sum and a count; earlier versions list no metrics in a sample."""
    rows = [
        (at, {**CASES["lists"], **listed, "acc": at % 2, "word_perplexity": [-9.5, 3]}) for at in range(4)
    ]
    path = lm_eval_of(tmp_path / "samples_t_1.jsonl", *rows)
    assert composite(Scores.load(path)).mean() == 0.5
    lists = "word_perplexity, f1" if listed else "word_perplexity"
    assert f"{lists}: no number a document, not taken" in Scores.load(path).summary().text
    refusal(f"it has acc; no number a document: {lists}", Scores.load, path, metric="word_perplexity")
    rows = [(at, {name: row[name] for name in row if name != "acc"}) for at, row in rows]
    refusal("it has none; no number a document: word_perplexity", Scores.load, lm_eval_of(path, *rows))


ZERO_WIDTH = "\u200b\u200c\u200d\ufeff\u00ad\u200e\u202e\u2066\u2060\ufe0f\u3164"
UNSEEN = [f"gpt{sign}-4" for sign in ZERO_WIDTH] + [
    "gpt-4\u00a0",
    "\u3000gpt-4",
    "gpt-4 ",
    "\tgpt-4",
    "\u200bgpt-4",
]


@pytest.mark.parametrize("name", [UNSEEN[0], "Mu\u0308ller", *map(FULL, UNSEEN[1:])])
@pytest.mark.parametrize("column", ["item", *map(FULL, ("model", "judge", "dimension"))])
def test_names_that_look_alike_are_one_and_that_is_said(tmp_path, column, name):
    """Joined where rows tell them apart otherwise, refused where they are doubled then; both name the row."""
    plain = unicodedata.normalize("NFC", name) if "M" in name else "gpt-4"
    frame = EVERY.copy()
    first = frame[column] == frame[column].iloc[0]
    frame[column] = frame[column].mask(first, (first.cumsum() % 2).map({0: name, 1: plain}))
    line = int((frame[column] == name).argmax()) + 2
    frame.to_csv(tmp_path / "t.csv", index=False)
    scores = Scores.load(tmp_path / "t.csv")
    labels = names_in(scores, column)
    assert plain in labels
    assert name not in labels
    told = rf"1 name with characters that are not seen, .*t\.csv, line {line}\), read as '{plain}'"
    assert re.search(told, scores.summary().text)
    doubled = pd.concat([frame[first].assign(**{column: plain}), frame[first].assign(**{column: name})])
    doubled.to_csv(tmp_path / "t.csv", index=False)
    refusal(r"has a score already; .*read as", Scores.load, tmp_path / "t.csv")


@pytest.mark.parametrize("sign", [*ZERO_WIDTH[:2], *map(FULL, ZERO_WIDTH[2:])])
def test_names_of_columns_and_options_are_read_as_they_are_seen(tmp_path, sign):
    """Those of a file, of a frame, and what an option names; two that look alike are one too many."""
    path = tmp_path / "t.csv"
    path.write_text(f"it{sign}em,doc,sco{sign}re\n1,a,2\n2,b,3\n", encoding="utf-8")
    assert Scores.load(path).taken == {"base": "item", "score": "score"}
    assert Scores.load(path, columns={"item": f"d{sign}oc"}).taken["base"] == "doc"
    frame = pd.DataFrame({f"it{sign}em": [1, 2], "judge_1": [1, 2], f"judge_2{sign}": [2, 3]})
    assert set(Scores(frame).judgements()["judge"]) == {"judge_1", "judge_2"}
    path.write_text(f"item,score,sco{sign}re\n1,2,3\n", encoding="utf-8")
    refusal("'score': is there twice", Scores.load, path)


def test_what_is_seen_of_a_name():
    """Nothing unseen is left, what is seen stays, and once is enough."""
    assert visible_name("a\u00a0b\tc") == "a b c"
    assert visible_name("naïve 模型 👍") == unicodedata.normalize("NFC", "naïve 模型 👍")
    for code in range(0x20, 0x3100):
        name = visible_name(f"x{chr(code)}y")
        assert visible_name(name) == name
        assert not any(is_unseen(sign) for sign in name)


ADVICE = cases(__file__, "advice.toml")


@pytest.mark.parametrize("name", ADVICE)
def test_advice_of_a_message_works(tmp_path, name):
    """Each option that a line or a note gives, in the line's own words, reads the same file."""
    option, path = ADVICE[name]["option"], tmp_path / "t.csv"
    path.write_text(ADVICE[name]["text"])
    start = [path, "--json", "--out", tmp_path]
    before = analyse(*start, *(["--scale", 1, 5] if name == "outside" else []))
    assert option in str(before.exception or before.stdout)
    after = analyse(*start, *ADVICE[name]["arguments"])
    assert after.exception is None, str(after.exception)
    assert option not in json.loads(after.stdout)["notes"]


def test_columns_that_count_judges_by_letters_are_judges(tmp_path):
    """They got advice on a column of scores, which there is none."""
    (tmp_path / "t.csv").write_text(ADVICE["judges"]["text"].replace("gpt", "judge"))
    assert set(Scores.load(tmp_path / "t.csv").judgements()["judge"]) == {"judge_a", "judge_b", "judge_c"}

"""Scores of other tools: what their own logs give is what they print, and what cannot be read is one line."""

import io
import json
import time
import tracemalloc
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from cases import FULL, cases
from click.testing import CliRunner
from openpyxl import Workbook
from refusals import refusal

from toolkit import Scores
from toolkit.cli import cli
from toolkit.files.tables import read_records

CASES = cases(__file__)

FOREIGN = Path(__file__).parents[1] / "golden" / "foreign"
"""Written by inspect_ai 0.3.285, lm-eval 0.4.13 and promptfoo; what they printed stands in its README."""
SAMPLES = "samples_sums_choice_2026-11-23T22-03-19.145119.jsonl"
PRINTED = {"inspect_sums.eval": 0.75, "inspect_sums.json": 2 / 3}


FRAME = pd.DataFrame(
    [(f"i{i}", j, 1 + (i + k) % 5) for i in range(6) for k, j in enumerate("ab")],
    columns=["item", "judge", "score"],
)
TABLE = [tuple(FRAME), *FRAME.itertuples(index=False, name=None)]
EVERY = pd.DataFrame(
    [(f"i{i}", m, j, d, i % 5) for i in range(4) for m in "pq" for j in "ab" for d in "xy"],
    columns=["item", "model", "judge", "dimension", "score"],
)
"""A score of each model, judge and dimension."""


def write_frame(frame, path):
    """Write a frame in the format that the name of its file says."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=path.suffix == ".jsonl")
    return path


def composite(scores):
    """Return the composite of each run."""
    return scores.runs()["composite"]


def names_in(scores, column):
    """Return the names that scores have for what a column holds."""
    if column == "dimension":
        return scores.dimensions_scored
    return set(scores.judgements()["base" if column == "item" else column])


def analyse(*words):
    """Run ``toolkit analyse``, and return what it came to."""
    return CliRunner().invoke(cli, ["analyse", *map(str, words)], standalone_mode=False)


@pytest.mark.parametrize("name", PRINTED)
def test_accuracy_is_what_inspect_printed(name):
    """Scorers are judges, epochs repeats, C and I are 1 and 0."""
    scores = Scores.load(FOREIGN / name)
    means = scores.judgements().groupby("judge")["composite"].mean()
    assert means.to_dict() == pytest.approx({"includes": PRINTED[name], "match": PRINTED[name]})
    assert scores.scale == (0.0, 1.0)
    assert scores.runs()["repeat"].nunique() == 2
    assert "C is 1, P .5, I and N 0" in scores.summary().text


def test_values_of_a_scorer_with_keys_are_dimensions():
    """Two logs are two models of the same items."""
    scores = Scores.load(FOREIGN / "inspect_graded_1.eval", FOREIGN / "inspect_graded_2.eval", name="graded")
    means = scores.runs().groupby("model")[["coherence", "fluency"]].mean()
    assert means.loc["mockllm/one"].tolist() == [2.125, 3.5]
    assert means.loc["mockllm/three"].tolist() == [1.875, 3.25]
    compared = scores.compare_models()
    assert compared.differences[0].estimate == pytest.approx((2.125 + 3.5) / 2 - (1.875 + 3.25) / 2)
    assert compared.differences[0].n == {"items": 8}


@pytest.mark.parametrize(("metric", "printed"), [(None, 0.25), ("acc_norm", 0.4166666666666667)])
def test_means_are_what_lm_eval_printed(metric, printed):
    """The first metric by default, the other by name; the model's name is that of the results beside."""
    scores = Scores.load(FOREIGN / SAMPLES, metric=metric)
    assert composite(scores).mean() == pytest.approx(printed)
    assert scores.runs()["model"].unique().tolist() == ["dummy"]
    assert scores.unanswerable["reliability"] == "no column judge: agreement is not estimable"


def test_a_metric_that_is_not_there_is_named():
    """With those that are."""
    refusal("has no metric f1; it has acc, acc_norm", Scores.load, FOREIGN / SAMPLES, metric="f1")
    refusal(
        "has no scorer f1; it has includes, match", Scores.load, FOREIGN / "inspect_sums.eval", metric="f1"
    )
    assert Scores.load(FOREIGN / "inspect_sums.eval", metric="match").judgements()["judge"].nunique() == 1


def test_a_sample_without_scores_is_missing_and_not_zero(tmp_path):
    """Also where one scorer of several gave none."""
    log = json.loads((FOREIGN / "inspect_sums.json").read_text())
    log["samples"][0]["scores"] = {}
    del log["samples"][1]["scores"]["match"]
    (tmp_path / "log.json").write_text(json.dumps(log))
    scores = Scores.load(tmp_path / "log.json")
    assert scores.judgements()["failed"].sum() == 3
    assert (~scores.runs()["judged"]).sum() == 2  # fewer than two judges leave an answer without a score


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".json"])
def test_a_table_says_the_same_in_every_format(tmp_path, suffix):
    """Rows, columns and values."""
    scores = Scores.load(write_frame(FRAME, tmp_path / f"t{suffix}"))
    assert repr(scores) == "Scores 't': 6 items, 2 judges, scale 1-5"
    assert scores.judgements()["composite"].sum() == FRAME["score"].sum()


@pytest.mark.parametrize("member", ["header.json", "samples/1_epoch_1.json"])
@pytest.mark.parametrize("suffix", [".eval", ".xlsx"])
def test_a_small_zip_that_unpacks_to_much_is_refused_at_once(tmp_path, member, suffix):
    """Whichever of its members it is, and before it is unpacked."""
    with zipfile.ZipFile(FOREIGN / "inspect_sums.eval") as file:
        contents = dict.fromkeys(file.namelist(), b"{}")
    path = tmp_path / f"log{suffix}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name in contents | {member: b""}:
            content = b'{"eval": {}}' if name == "header.json" else b'{"id": 1}'
            file.writestr(name, content + b" " * 120_000_000 if name == member else content)
    assert path.stat().st_size < 500_000
    tracemalloc.start()
    refusal("would unpack to 120,000,0", Scores.load, path)
    assert tracemalloc.get_traced_memory()[1] < 30_000_000
    tracemalloc.stop()


def text_of(separator=",", rows=TABLE, end="\n"):
    """Return the table as text."""
    return end.join(separator.join(map(str, row)) for row in rows) + end


def workbook(rows=TABLE, *sheets):
    """Return the table as a workbook."""
    book, sink = Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    for name in sheets:
        book.create_sheet(name)["A1"] = "x"
    book.save(sink)
    return sink.getvalue()


HALVES = [row if at == 0 else (*row[:2], str(row[2] - 0.5).replace(".", ",")) for at, row in enumerate(TABLE)]
WIDE = [
    ("item", "note", "judge_1", "judge_2"),
    *((f"i{i}", "x", 1 + i % 5, 1 + (i + 1) % 5) for i in range(6)),
]
AS_PEOPLE_HAVE_THEM = {
    "sep.csv": text_of(rows=[("sep=,",), *TABLE]).encode(),
    "t.tsv": text_of("\t").encode(),
    "trailing.csv": (text_of() + ",,\n,,\n\n").encode(),
    "columns.csv": text_of(rows=[(*row, "", "") for row in TABLE]).encode(),
    "utf16.csv": text_of("\t").encode("utf-16"),
    "quoted.csv": text_of(";", [[f'"{cell}"' for cell in row] for row in TABLE]).encode(),
    "long.csv": text_of(
        rows=[(*row, "x" * 200_000 if at == 3 else "note") for at, row in enumerate(TABLE)]
    ).encode(),
    "t.xlsx": workbook(),
    "blank.xlsx": workbook([(None, None, None), *TABLE, (None, None, None, None)]),
    "wide.csv": text_of(rows=WIDE).encode(),
}


@pytest.mark.parametrize("name", AS_PEOPLE_HAVE_THEM)
def test_a_table_as_people_have_it_is_read(tmp_path, name):
    """Whatever program wrote it: the same scores."""
    (tmp_path / name).write_bytes(AS_PEOPLE_HAVE_THEM[name])
    scores = Scores.load(tmp_path / name)
    assert scores.judgements()["judge"].nunique() == 2
    expected = FRAME.groupby("item")["score"].sum()
    assert scores.judgements().groupby("base")["composite"].sum().to_dict() == expected.to_dict()


def test_numbers_as_people_write_them(tmp_path):
    """Where a whole column agrees: decimal commas, percentages, True and False; said, and alike in every format."""
    path = tmp_path / "t.csv"
    for separator in (";", "\t"):
        path.write_text(text_of(separator, HALVES))
        scores = Scores.load(path)
        assert scores.judgements()["composite"].sum() == sum(row[2] - 0.5 for row in TABLE[1:])
        assert "score: decimal commas" in scores.summary().text
    path.write_text(
        text_of(";", [row if at == 0 else (*row[:2], f"{row[2] * 17},5 %") for at, row in enumerate(TABLE)])
    )
    scores = Scores.load(path)
    assert scores.scale == (0.0, 100.0)
    assert scores.judgements()["composite"].max() == 85.5
    assert "score: percentages, 85% is 85; decimal commas" in scores.summary().text
    truths = FRAME.assign(score=FRAME["score"] > 2)
    for suffix in (".csv", ".parquet", ".jsonl"):
        scores = Scores.load(write_frame(truths, tmp_path / f"t{suffix}"))
        assert scores.judgements()["composite"].sum() == truths["score"].sum()


def test_a_table_of_very_many_columns_is_read_or_refused_at_once(tmp_path):
    """In a time that grows as its columns do: the header alone took ten seconds, for each name was counted anew."""
    names = [f"c{number}" for number in range(20_000)]
    path = tmp_path / "wide.csv"
    path.write_text(f"item,{','.join(names)},,score\na,{'1,' * 20_000},2\n")
    begun = time.process_time()
    header, row = (cells for _, cells in read_records(path))
    assert (header, row) == (["item", *names, "score"], ["a", *["1"] * 20_000, "2"])
    assert time.process_time() - begun < 3
    path.write_text(f"item,{','.join(f'judge_{number}' for number in range(1001))}\na,{'1,' * 1000}2\n")
    refusal("1,001 columns would be a judge each, more than the 1,000 that are read", Scores.load, path)
    path.write_text(f"item,{','.join(names)},c7\n")
    refusal("column 'c7': is there twice", Scores.load, path)


def test_judges_of_a_wide_table_are_named(tmp_path):
    """As columns of one file and of several; in Python and by the command."""
    rows = [
        ("item", "model", "gpt-4o", "claude"),
        *((f"i{i}", m, i % 5, (i + 1) % 5) for i in range(6) for m in "xy"),
    ]
    path = tmp_path / "t.csv"
    path.write_text(text_of(rows=rows))
    scores = Scores.load(path, judges=["gpt-4o", "claude"])
    assert set(scores.judgements()["judge"]) == {"gpt-4o", "claude"}
    assert "each column is a judge: gpt-4o, claude" in scores.summary().text
    refusal(
        "has no column 'gpt' of its own for a judge; it has item, model, gpt-4o",
        Scores.load,
        path,
        judges=["gpt"],
    )
    path.write_text(text_of(rows=[*rows, ("i9", "x", "high", 3)]))
    done = analyse(path, "--judges", "gpt-4o", "claude", "--name", "wide")
    assert "line 14: score 'high' is no number" in str(done.exception)


SUMS = (FOREIGN / "inspect_sums.eval").read_bytes()


def with_a_byte_changed():
    """Return a log in which a sample is not what the checksum of its zip says."""
    content = bytearray(SUMS)
    with zipfile.ZipFile(io.BytesIO(SUMS)) as file:
        content[file.getinfo("samples/1_epoch_1.json").header_offset + 400] ^= 0xFF
    return content


def encrypted():
    """Return a log whose members are encrypted, as their flags say."""
    parts = SUMS.split(b"PK\x01\x02")
    return b"PK\x01\x02".join([parts[0], *(part[:4] + bytes([part[4] | 1]) + part[5:] for part in parts[1:])])


LINES = cases(__file__, "refused.json")
REFUSED = {
    "cut.eval": (SUMS[:9000], "cannot be read as scores"),
    "changed.eval": (with_a_byte_changed(), "cannot be read as scores"),
    "locked.eval": (encrypted(), "encrypted"),
    "x.xlsx": (b"PK", "cannot be read as Excel"),
    "latin.csv": ("item,score\na,3\ncaf\u00e9,4\n".encode("latin-1"), "line 3: is not UTF-8"),
    "sheets.xlsx": (workbook(TABLE, "more"), "has several sheets (Sheet, more)"),
    "formula.xlsx": (workbook([("item", "score"), ("a", "=1+1")]), "line 2: =1+1 was not calculated"),
    "huge.json": (b'[{"item": "a", "score": 1' + b"0" * 400 + b"}]", "row 1: score 1000"),
    **{name: (text.encode(), message) for name, (text, message) in LINES.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_one_line_with_file_and_place(tmp_path, name):
    """By line, row, sample or result; nothing is guessed where a file may mean two things."""
    content, message = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    line = refusal(None, Scores.load, tmp_path / name)
    assert message in line
    assert line.startswith(str(tmp_path / name))


def test_a_missing_file_and_no_file_are_named(tmp_path):
    """Both in one line."""
    refusal("no such file", Scores.load, tmp_path / "nowhere.csv")
    refusal("no file is named", Scores.load)


@pytest.mark.parametrize("version", [2, 3])
def test_repeats_of_promptfoo_are_repeats(version):
    """Whatever index they have, or none: of both versions of its files the same items, pairs and numbers."""
    scores = Scores.load(FOREIGN / f"promptfoo_repeats_v{version}.json", name="sums")
    assert repr(scores) == "Scores 'sums': 4 items, 2 models, scale 0-1"
    assert scores.runs()["repeat"].nunique() == 3
    found = scores.compare_models().differences[0]
    assert found.estimate == pytest.approx(0.300 - 0.375)
    assert (found.low, found.high) == pytest.approx((-0.12093466, -0.02906534))  # t of four differences
    assert found.n == {"items": 4}


def result_of(test, provider="m-a", score=1.0, **fields):
    """Return a result of promptfoo."""
    return {"provider": {"id": provider}, "vars": {"q": f"t{test}"}, "score": score, **fields}


def promptfoo_of(path, results):
    """Return the scores of a file of promptfoo, and of the same results as JSON lines, which are one."""
    path.write_text(json.dumps({"results": {"version": 3, "results": results}}))
    lines = path.with_suffix(".jsonl")
    lines.write_text("\n".join(json.dumps({"gradingResult": None, **result}) for result in results))
    pd.testing.assert_frame_equal(Scores.load(path, name="a").runs(), Scores.load(lines, name="a").runs())
    return Scores.load(path)


def test_what_tells_tests_and_prompts_of_promptfoo_apart(tmp_path):
    """Variables and assertions tell tests, labels prompts; indexes count what they like, and rows come in any order."""
    rows = [
        result_of(test, name, (test + repeat) % 3 / 2, testIdx=test + 4 * repeat, promptIdx=at)
        for test in range(4)
        for repeat in range(5)
        for at, name in enumerate(("m-a", "m-b"))
    ]
    scores = promptfoo_of(tmp_path / "one.json", rows)
    assert set(scores.runs()["model"]) == {"m-a", "m-b"}
    assert (scores.runs()["base"].nunique(), scores.runs()["repeat"].nunique()) == (4, 5)
    other = promptfoo_of(tmp_path / "two.json", rows[::-1])
    assert other.compare_models().to_dict() == scores.compare_models().to_dict()
    rows = [
        result_of(test, score=at / 2, promptIdx=at, prompt={"raw": f"{label} t{test}", "label": label})
        for test in range(3)
        for at, label in enumerate(("short", "long"))
    ]
    assert set(promptfoo_of(tmp_path / "three.json", rows).runs()["model"]) == {"m-a, short", "m-a, long"}
    rows = [result_of(test, promptIdx=at, prompt={"label": "p"}) for test in range(3) for at in range(2)]
    assert set(promptfoo_of(tmp_path / "four.json", rows).runs()["model"]) == {
        "m-a, prompt 1",
        "m-a, prompt 2",
    }
    rows = [result_of(1, testCase={"assert": [{"type": "contains", "value": word}]}) for word in "xyx"]
    assert sorted(promptfoo_of(tmp_path / "five.json", rows).runs()["repeat"]) == [0, 0, 1]
    rows = [result_of(0, vars={"q": "x" * 200 + end, "sessionId": at}) for at, end in enumerate("aab")]
    assert sorted(promptfoo_of(tmp_path / "six.json", rows).runs()["repeat"]) == [0, 0, 1]


FAILED = CASES["failed"]  # fmt: skip


@pytest.mark.parametrize("name", FAILED)
def test_a_grader_that_failed_is_missing_and_not_zero(tmp_path, name):
    """An answer that failed is 0, and stays so, whatever its error says."""
    right = {
        "failureReason": 1,
        "error": "Expected output",
        "gradingResult": {"pass": False, "reason": "Expected"},
    }
    rows = [result_of(test, score=0.9) for test in range(5)]
    rows += [result_of(test, score=0, failureReason=1) | FAILED[name] for test in (5, 6)]
    runs = promptfoo_of(tmp_path / "out.json", rows).runs()
    assert runs["composite"].mean() == pytest.approx(0.9)
    assert runs["failure"].notna().sum() == 2
    runs = promptfoo_of(tmp_path / "out.json", [*rows, result_of(7, score=0, **right)]).runs()
    assert runs["composite"].mean() == pytest.approx(0.75)


def test_graders_of_promptfoo_itself():
    """One answered in prose, one with an error; a reply that its rubric failed is 0."""
    scores = Scores.load(FOREIGN / "promptfoo_graders.json")
    assert composite(scores).mean() == pytest.approx(0.6)
    assert "2 of 8 scores are missing because their grader failed" in scores.summary().text


def saved(path, *samples, **head):
    """Write a log of inspect_ai."""
    log = {"status": "success", "eval": {"task": "t", "model": "m", **head}, "samples": samples}
    path.write_text(json.dumps(log))
    return path


def scored(number, epoch=1, /, error=None, **values):
    """Return a sample with a value of each scorer."""
    given = {name: {"value": value} for name, value in values.items()}
    return {"id": number, "epoch": epoch, "scores": given, **({"error": {"message": error}} if error else {})}


def test_a_sample_with_an_error_is_missing_whatever_its_scores(tmp_path):
    """And so is one that was made invalid; both are said."""
    samples = [scored(1, s="C"), scored(2, s="C"), scored(3, s="I"), scored(4, s="I", error="no sandbox")]
    for field in ({}, {"invalidation": {"reason": "x"}, "error": None}):
        scores = Scores.load(saved(tmp_path / "log.json", *samples[:3], {**samples[3], **field}))
        assert composite(scores).mean() == pytest.approx(2 / 3)
        fault = "were made invalid" if field else "have an error besides scores"
        assert f"1 of 4 samples {fault}" in scores.summary().text
        assert "missing, not scored (t/4)" in scores.summary().text
        assert (
            "C is 1, P .5" in scores.summary().text
        )  # a score is missing, and they are counted so nevertheless


GRADES = [scored(number, s=grade) for number, grade in enumerate("ABCDE", 1)]
TEXTS = CASES["texts"]  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_value_that_is_no_number_is_named_with_its_sample(tmp_path, name):
    """None is dropped."""
    samples, message = TEXTS[name]
    assert message in refusal(None, Scores.load, saved(tmp_path / "log.json", *samples))


def test_texts_are_worth_what_is_said(tmp_path):
    """C among grades is no "correct"; a text beside numbers is named; an empty worth is a missing score."""
    path = saved(tmp_path / "log.json", *GRADES)
    worths = {"A": 4, "B": 3, "C": 2, "D": 1, "E": 0}
    scores = Scores.load(path, values=worths)
    assert composite(scores).tolist() == [4, 3, 2, 1, 0]
    assert "C is 1" not in scores.summary().text
    assert composite(Scores.load(path, values=worths | {"E": None})).isna().sum() == 1
    del worths["C"]
    refusal("the value of s, 'C', is no number", Scores.load, path, values=worths)
    refusal("values A=high: give a number", Scores.load, path, values={"A": "high"})
    scores = Scores.load(
        saved(path, scored(1, s={"x": 2, "why": "good"}), scored(2, s={"x": 3, "why": "no"}))
    )
    assert composite(scores).tolist() == [2, 3]
    assert "s, why is text ('good' in sample 1) and was not taken" in scores.summary().text
    table = tmp_path / "t.csv"
    table.write_text("item,score\na,A\nb,B\nc,-1\n")
    done = analyse(table, "--values", "A=4", "B=3.5", "-1=", "--json", "--out", tmp_path)
    assert done.exception is None
    assert json.loads(done.stdout)["missing"] == 1
    wrong = analyse(table, "--values", "A")
    assert "write it as TEXT=NUMBER, e.g. A=4" in str(wrong.exception)


def test_judges_that_share_no_answer_are_refused_and_may_be_taken_for_one(tmp_path):
    """People who each rated a part, or scorers of different samples; through a third judge they share some."""
    rows = [(f"i{i}", judge, i % 5) for i in range(9) for judge in ("ab", "bc", "a")[i % 3]]
    frame = pd.DataFrame(rows, columns=["item", "judge", "score"])
    assert Scores(frame).runs()["judged"].sum() == 6
    alone = frame.drop_duplicates("item").assign(judge=[f"p{i}" for i in range(9)])
    log = saved(
        tmp_path / "log.json", *(scored(n, **{"exact" if n < 4 else "graded": n / 9}) for n in range(9))
    )
    for load in (lambda **given: Scores(alone, **given), lambda **given: Scores.load(log, **given)):
        refusal(r"no answer has scores of two of its judges.*--column judge=", load)
    assert Scores(alone, columns={"judge": ""}).runs()["judged"].all()
    assert Scores.load(log, metric="exact").runs()["judged"].sum() == 4


def test_logs_with_other_settings_of_generation_are_other_methods(tmp_path):
    """Named by what differs; how often a call is tried again is no setting of a method."""
    efforts = ({"reasoning_effort": "low", "max_connections": 3}, {"reasoning_effort": "high"}, {})
    logs = [
        saved(tmp_path / f"{at}.json", scored(1, s=at), scored(2, s=1), model_generate_config=settings)
        for at, settings in enumerate(efforts)
    ]
    assert set(Scores.load(*logs).runs()["model"]) == {
        "m, reasoning_effort low", "m, reasoning_effort high", "m, no reasoning_effort",
    }  # fmt: skip
    same = saved(tmp_path / "same.json", scored(3, s=1), model_generate_config={"reasoning_effort": "low"})
    assert set(Scores.load(logs[0], same).runs()["model"]) == {"m"}


def lm_eval_of(path, *rows):
    """Write samples of lm-eval."""
    path.write_text("\n".join(json.dumps({"doc": {}, "doc_id": number, **row}) for number, row in rows))
    return path


def test_a_document_of_lm_eval_is_there_once(tmp_path):
    """Under one filter, named or not."""
    rows = [(i, {"acc": float(take)}) for take in (1, 0) for i in range(3)]
    refusal(
        "line 4: item t/0, model .* has a score already; keep one",
        Scores.load,
        lm_eval_of(tmp_path / "samples_t_1.jsonl", *rows),
    )


def test_the_model_of_lm_eval_is_that_of_the_same_time(tmp_path):
    """Results of another time are another model's."""
    (tmp_path / "results_1.json").write_text(json.dumps({"model_name": "other"}))
    rows = [(i, {"acc": 1.0}) for i in range(3)]
    scores = Scores.load(lm_eval_of(tmp_path / "samples_t_2.jsonl", *rows))
    assert scores.runs()["model"].unique().tolist() == [tmp_path.name]
    assert "no results_2.json beside it: the model is named after the folder" in scores.summary().text
    scores = Scores.load(lm_eval_of(tmp_path / "samples_t_1.jsonl", *rows))
    assert scores.runs()["model"].unique().tolist() == ["other"]
    assert "named after the folder" not in scores.summary().text


@pytest.mark.parametrize("name", ["NA", "nan", "None", "007", *map(FULL, ("none", "null", "N/A", "1e5"))])
@pytest.mark.parametrize("column", ["item", "model", *map(FULL, ("judge", "dimension"))])
def test_names_are_no_blanks_and_no_numbers(tmp_path, column, name):
    """In CSV and in a frame; nothing at all is none."""
    frame = EVERY.assign(**{column: EVERY[column].where(EVERY[column] != EVERY[column][0], name)})
    for scores in (Scores(frame), Scores.load(write_frame(frame, tmp_path / "t.csv"))):
        assert name in names_in(scores, column)
    frame[column] = frame[column].where(frame[column] != name, None)
    refusal("is empty; every row needs one", Scores, frame)


def test_one_and_one_point_zero_are_one_item(tmp_path):
    """In two files, in one, and of two kinds; a name that is there in one spelling stays as it is."""
    (tmp_path / "a.csv").write_text("item,model,score\n1.0,a,1\n2.0,a,2\n")
    (tmp_path / "b.csv").write_text("item,model,score\n1,b,3\n2,b,4\n")
    pd.DataFrame({"item": [1, 2], "model": "c", "score": [5, 1]}).to_parquet(tmp_path / "c.parquet")
    scores = Scores.load(*sorted(tmp_path.iterdir()))
    assert sorted(scores.runs()["base"].unique()) == ["1", "2"]
    assert scores.compare_models().differences[0].n == {"items": 2}
    assert sorted(Scores.load(tmp_path / "a.csv").runs()["base"]) == ["1.0", "2.0"]
    versions = pd.DataFrame([("x", "2", 1), ("x", "2.0", 2)], columns=["item", "model", "score"])
    assert set(Scores(versions).runs()["model"]) == {"2", "2.0"}


CODES = CASES["codes"]


@pytest.mark.parametrize("name", CODES)
def test_codes_for_missing_are_missing_and_said(tmp_path, name):
    """With their rows; a number that may be a score is one, unless a worth says otherwise."""
    values, (low, high), missing = CODES[name]
    scale = (low, high)
    (tmp_path / "t.csv").write_text(
        "item,score\n" + "".join(f"i{at},{value}\n" for at, value in enumerate(values))
    )
    scores = Scores.load(tmp_path / "t.csv")
    assert scores.scale == scale
    assert composite(scores).isna().sum() == missing
    assert ("is taken for a missing score" in scores.summary().text) is (missing > 0)
    if missing:
        line = next(at for at, value in enumerate(values, 2) if value in (-1, 99, 999))
        assert f"t.csv, line {line}" in scores.summary().text
        refusal(
            rf"is outside of the scale .*t\.csv, line {line}.*--values",
            Scores.load,
            tmp_path / "t.csv",
            scale=scale,
        )
        worths = dict.fromkeys((-1, "99", 999.0, -9))
        assert composite(Scores.load(tmp_path / "t.csv", scale=scale, values=worths)).isna().sum() == missing
        assert composite(Scores.load(tmp_path / "t.csv", scale=(-9, 999))).notna().all()


@pytest.mark.parametrize(
    "column",
    ["length", *map(FULL, ("group", "topic", "category"))],
)
def test_a_column_with_an_ordinary_name_can_be_declined(tmp_path, column):
    """And where it does not fit, the line says how."""
    ours = {"length": "level", "category": "scenario"}.get(column, "cluster")
    frame = pd.DataFrame([(f"i{i}", m, i % 4, 17 + at) for i in range(5) for at, m in enumerate("ab")])
    frame.columns = ["item", "model", "score", column]
    frame.to_csv(tmp_path / "t.csv", index=False)
    refusal(rf"leave the column out \(--column {ours}=\)", Scores.load, tmp_path / "t.csv")
    for files in ([tmp_path / "t.csv"], [tmp_path / "t.csv", FOREIGN / "promptfoo_repeats_v3.json"]):
        scores = Scores.load(*files, columns={ours: ""})
        assert ours not in scores.taken
    assert Scores(frame, columns={ours: ""}).left == [column]
    done = analyse(tmp_path / "t.csv", "--column", f"{ours}=", "--json", "--out", tmp_path)
    assert json.loads(done.stdout)["not_used"] == [column]
    refusal("no column is known as the item", Scores, frame, columns={"item": ""})

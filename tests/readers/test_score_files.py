"""Scores of other tools: what their own logs give is what they print, and what cannot be read is one line."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from openpyxl import Workbook

from toolkit import Scores
from toolkit.cli import cli
from toolkit.errors import InputError

FOREIGN = Path(__file__).parents[1] / "golden" / "foreign"
"""Written by inspect_ai 0.3.285 and lm-eval 0.4.13; what they printed stands in its README."""
SAMPLES = "samples_sums_choice_2026-11-23T22-03-19.145119.jsonl"
PRINTED = {"inspect_sums.eval": 0.75, "inspect_sums.json": 2 / 3}


@pytest.mark.parametrize("name", PRINTED)
def test_accuracy_is_what_inspect_printed(name) -> None:
    """Scorers are judges, epochs repeats, C and I are 1 and 0."""
    scores = Scores.load(FOREIGN / name)
    means = scores.judgements().groupby("judge")["composite"].mean()
    assert means.to_dict() == pytest.approx({"includes": PRINTED[name], "match": PRINTED[name]})
    assert scores.scale == (0.0, 1.0)
    assert scores.runs()["repeat"].nunique() == 2
    assert "C is 1, P .5, I and N 0" in scores.summary().text


def test_values_of_a_scorer_with_keys_are_dimensions() -> None:
    """Two logs are two models of the same items."""
    scores = Scores.load(FOREIGN / "inspect_graded_1.eval", FOREIGN / "inspect_graded_2.eval", name="graded")
    means = scores.runs().groupby("model")[["coherence", "fluency"]].mean()
    assert means.loc["mockllm/one"].tolist() == [2.125, 3.5]
    assert means.loc["mockllm/three"].tolist() == [1.875, 3.25]
    compared = scores.compare_models()
    assert compared.differences[0].estimate == pytest.approx((2.125 + 3.5) / 2 - (1.875 + 3.25) / 2)
    assert compared.differences[0].n == {"prompts": 8, "bases": 8}


@pytest.mark.parametrize(("metric", "printed"), [(None, 0.25), ("acc_norm", 0.4166666666666667)])
def test_means_are_what_lm_eval_printed(metric, printed) -> None:
    """The first metric by default, the other by name; the model's name is that of the results beside."""
    scores = Scores.load(FOREIGN / SAMPLES, metric=metric)
    assert scores.runs()["composite"].mean() == pytest.approx(printed)
    assert scores.runs()["model"].unique().tolist() == ["dummy"]
    assert scores.unanswerable["reliability"] == "no column judge: agreement is not estimable"


def test_a_metric_that_is_not_there_is_named() -> None:
    """With those that are."""
    with pytest.raises(InputError, match="has no metric f1; it has acc, acc_norm"):
        Scores.load(FOREIGN / SAMPLES, metric="f1")
    with pytest.raises(InputError, match="has no scorer f1; it has includes, match"):
        Scores.load(FOREIGN / "inspect_sums.eval", metric="f1")
    assert Scores.load(FOREIGN / "inspect_sums.eval", metric="match").judgements()["judge"].nunique() == 1


def test_a_sample_without_scores_is_missing_and_not_zero(tmp_path) -> None:
    """Also where one scorer of several gave none."""
    log = json.loads((FOREIGN / "inspect_sums.json").read_text())
    log["samples"][0]["scores"] = {}
    del log["samples"][1]["scores"]["match"]
    (tmp_path / "log.json").write_text(json.dumps(log))
    scores = Scores.load(tmp_path / "log.json")
    assert scores.judgements()["failed"].sum() == 3
    assert (~scores.runs()["judged"]).sum() == 2  # fewer than two judges leave an answer without a score


def test_promptfoo_compares_providers_and_prompts(tmp_path) -> None:
    """An error of the provider is missing; costs in USD are not taken for AUD."""
    rows = [
        {"testIdx": test, "promptIdx": prompt, "provider": {"id": provider}, "score": (test + prompt) % 2, "cost": 1}
        for test in range(4)
        for prompt in range(2)
        for provider in ("openai:a", "openai:b")
    ]  # fmt: skip
    rows[0] |= {"error": "timeout", "score": 0}
    (tmp_path / "out.json").write_text(json.dumps({"results": {"version": 3, "results": rows}}))
    scores = Scores.load(tmp_path / "out.json")
    assert sorted(scores.runs()["model"].unique()) == [
        f"openai:{one}, prompt {two}" for one in "ab" for two in (1, 2)
    ]
    assert scores.runs()["composite"].isna().sum() == 1
    assert "pareto" in scores.unanswerable


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".json"])
def test_a_table_says_the_same_in_every_format(tmp_path, suffix) -> None:
    """Rows, columns and values."""
    frame = pd.DataFrame(
        [(f"i{i}", j, 1 + (i + k) % 5) for i in range(6) for k, j in enumerate("ab")],
        columns=["item", "judge", "score"],
    )
    path = tmp_path / f"t{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    elif suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=suffix == ".jsonl")
    scores = Scores.load(path)
    assert repr(scores) == "Scores 't': 6 items, 2 judges, scale 1-5"
    assert scores.judgements()["composite"].sum() == frame["score"].sum()


BROKEN = {
    "cut.eval": (
        lambda: (FOREIGN / "inspect_sums.eval").read_bytes()[:9000],
        "cannot be read as a whole log of inspect_ai",
    ),
    "no.eval": (lambda: b"nothing", "cannot be read as a whole log of inspect_ai"),
    "x.xlsx": (lambda: b"PK", "cannot be read as Excel"),
    "x.docx": (lambda: b"PK", "is no table of scores"),
    "x.json": (lambda: b'{"a": 1}', "is no table of scores"),
    "y.json": (lambda: b"{", "not valid JSON"),
    "empty.csv": (lambda: b"item,score\n", "holds no rows"),
    "words.csv": (lambda: b"item,score\na,high\n", "line 2: score 'high' is no number"),
    "none.csv": (lambda: b"item,score\na,\nb,NA\n", "no row has a score"),
    "noitem.csv": (lambda: b"what,score\na,1\n", "no column is known as the item"),
    "twice.csv": (lambda: b"item,judge,score\na,x,1\na,x,2\n", "line 3: item a, judge x has a score already"),
    "gap.csv": (lambda: b"item,judge,score\na,,1\n", "line 2: the judge is empty"),
    "bin.csv": (lambda: b"item,length_bin,score\na,XL,1\n", "line 2: length 'XL' is none of S, M, L"),
    "who.csv": (lambda: b"item,judge,human,score\na,x,maybe,1\n", "does not say whether a person rated"),
    "promptfoo.json": (lambda: b'{"results": {"results": []}}', "holds no results of promptfoo"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_is_one_line(tmp_path, name) -> None:
    """Where, what, and what to do."""
    content, said = BROKEN[name]
    (tmp_path / name).write_bytes(content())
    with pytest.raises(InputError) as error:
        Scores.load(tmp_path / name)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_log_with_a_changed_byte_is_refused(tmp_path) -> None:
    """The checksum of its zip says so."""
    path = tmp_path / "log.eval"
    content = bytearray((FOREIGN / "inspect_sums.eval").read_bytes())
    with zipfile.ZipFile(FOREIGN / "inspect_sums.eval") as file:
        at = file.getinfo("samples/1_epoch_1.json").header_offset + 400
    content[at] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as a whole log of inspect_ai"):
        Scores.load(path)


@pytest.mark.parametrize("member", ["header.json", "samples/1_epoch_1.json"])
@pytest.mark.parametrize("suffix", [".eval", ".xlsx"])
def test_a_small_zip_that_unpacks_to_much_is_refused_at_once(tmp_path, member, suffix) -> None:
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
    with pytest.raises(InputError, match="would unpack to 120,000,0") as error:
        Scores.load(path)
    assert tracemalloc.get_traced_memory()[1] < 30_000_000
    tracemalloc.stop()
    assert "\n" not in str(error.value)


TABLE = [
    ("item", "judge", "score"),
    *((f"i{i}", j, 1 + (i + k) % 5) for i in range(6) for k, j in enumerate("ab")),
]


def text_of(separator=",", rows=TABLE, end="\n") -> str:
    """Return the table as text."""
    return end.join(separator.join(map(str, row)) for row in rows) + end


def workbook(rows=TABLE, *sheets) -> bytes:
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
    "sep_semicolon.csv": ("sep=;\r\n" + text_of(";", end="\r\n")).encode(),
    "tab.csv": text_of("\t").encode(),
    "t.tsv": text_of("\t").encode(),
    "trailing.csv": (text_of() + ",,\n,,\n\n").encode(),
    "columns.csv": text_of(rows=[(*row, "", "") for row in TABLE]).encode(),
    "utf16.csv": text_of("\t").encode("utf-16"),
    "bom.csv": text_of(";").encode("utf-8-sig"),
    "quoted.csv": text_of(";", [[f'"{cell}"' for cell in row] for row in TABLE]).encode(),
    "old_mac.csv": text_of(end="\r").encode(),
    "long.csv": text_of(
        rows=[(*row, "x" * 200_000 if at == 3 else "note") for at, row in enumerate(TABLE)]
    ).encode(),
    "t.xlsx": workbook(),
    "blank.xlsx": workbook([(None, None, None), *TABLE, (None, None, None, None)]),
    "wide.csv": text_of(rows=WIDE).encode(),
    "wide.xlsx": workbook(WIDE),
}


@pytest.mark.parametrize("name", AS_PEOPLE_HAVE_THEM)
def test_a_table_as_people_have_it_is_read(tmp_path, name) -> None:
    """Whatever program wrote it: the same scores."""
    (tmp_path / name).write_bytes(AS_PEOPLE_HAVE_THEM[name])
    scores = Scores.load(tmp_path / name)
    assert scores.judgements()["judge"].nunique() == 2
    expected = pd.DataFrame(TABLE[1:], columns=TABLE[0]).groupby("item")["score"].sum()
    assert scores.judgements().groupby("base")["composite"].sum().to_dict() == expected.to_dict()


def test_numbers_as_people_write_them(tmp_path) -> None:
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
    frame = pd.DataFrame(TABLE[1:], columns=TABLE[0]).assign(score=lambda rows: rows["score"] > 2)
    for file in (path, tmp_path / "t.parquet", tmp_path / "t.jsonl"):
        if file.suffix == ".csv":
            frame.to_csv(file, index=False)
        elif file.suffix == ".parquet":
            frame.to_parquet(file)
        else:
            frame.to_json(file, orient="records", lines=True)
        assert Scores.load(file).judgements()["composite"].sum() == frame["score"].sum()


MIXED = {
    "percent.csv": (b"item,score\na,85%\nb,3\n", "line 2: score '85%' is no number"),
    "comma.csv": (b'item,score\na,"4,5"\nb,3.5\n', "line 2: score '4,5' is no number"),
    "thousand.csv": (b'item,score\na,"1,234"\nb,3\n', "line 2: score '1,234' is no number"),
    "truth.csv": (b"item,score\na,True\nb,3\n", "line 2: score 'True' is no number"),
    "short.csv": (b"item,judge,score\na,3\n", "line 2: has 2 cells where the header has 3"),
    "long.csv": (b"item,score\na,3,5\n", "line 2: has 3 cells where the header has 2"),
    "nameless.csv": (b"item,score,\na,3,\nb,4,x\n", "line 3: 'x' stands in a column without a name"),
    "utf16le.csv": ("item,score\na,3\n".encode("utf-16-le"), "first line is not UTF-8"),
    "latin.csv": ("item,score\na,3\ncaf\u00e9,4\n".encode("latin-1"), "line 3: is not UTF-8"),
    "sheets.xlsx": (workbook(TABLE, "more"), "has several sheets (Sheet, more)"),
    "formula.xlsx": (workbook([("item", "score"), ("a", "=1+1")]), "line 2: =1+1 was not calculated"),
    "both.csv": (b"item,judge_1,judge_2,score\na,1,2,3\na,1,2,3\n", "has a score already"),
}


@pytest.mark.parametrize("name", MIXED)
def test_a_column_that_does_not_agree_is_refused_by_its_line(tmp_path, name) -> None:
    """Nothing is guessed where a file may mean two things."""
    content, message = MIXED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        Scores.load(tmp_path / name)
    assert message in str(error.value)
    assert str(error.value).startswith(str(tmp_path / name))


def test_judges_of_a_wide_table_are_named(tmp_path) -> None:
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
    with pytest.raises(
        InputError, match="has no column 'gpt' of its own for a judge; it has item, model, gpt-4o"
    ):
        Scores.load(path, judges=["gpt"])
    path.write_text(text_of(rows=[*rows, ("i9", "x", "high", 3)]))
    call = ["analyse", str(path), "--judges", "gpt-4o", "claude", "--name", "wide"]
    done = CliRunner().invoke(cli, call, standalone_mode=False)
    assert "line 14: score 'high' is no number" in str(done.exception)


def log_of(*samples) -> bytes:
    """Return a log of inspect_ai with these samples."""
    return json.dumps({"status": "success", "eval": {"task": "t", "model": "m"}, "samples": samples}).encode()


def sample(value, **fields) -> dict:
    """Return a sample with one score."""
    return {"id": 1, "scores": {"s": {"value": value}}, **fields}


TWICE = b'{"item": "a", "score": 1}\n{"item": "b", "score": 1, "score": 2}\n'
OF_PROMPTFOO = b'{"results": {"results": [{"score": 1, "provider": "a"}, {"score": 1, "promptIdx": "x"}]}}'
OF_LM_EVAL = b'{"doc_id": 1, "doc": {}, "acc": 1}\n{"doc_id": 2, "doc": {}, "acc": "x"}\n'
ODD_CELLS = {
    "doubled.csv": (b"item,score,Score\na,1,2\n", "may each be the score"),
    "huge.json": (b'[{"item": "a", "score": 1' + b"0" * 400 + b"}]", "row 1: score 1000"),
    "under.csv": (b"item,score\na,1_0\n", "line 2: score '1_0' is no number"),
    "wide.csv": ("item,score\na,1\nb,４\n".encode(), "line 3: score '４' is no number"),
    "arabic.csv": ("item,score\na,1\nb,٣\n".encode(), "line 3: score '٣' is no number"),
    "twice.jsonl": (TWICE, "line 2: is not valid JSON (the key 'score' is there twice)"),
    "twice.json": (b'[{"item": "b", "score": 1, "score": 2}]', "the key 'score' is there twice"),
    "deep.jsonl": (b'{"item": "a", "score": ' + b"[" * 100_000, "line 1: is not valid JSON"),
    "list.jsonl": (b'{"item": "a", "judge": ["x"], "score": 1}', "line 1: the judge ['x'] is no name"),
    "object.jsonl": (b'{"item": "a", "score": {"a": 1}}', "line 1: score {'a': 1} is no number"),
    "epoch.json": (
        log_of(sample(1, epoch="x")),
        "sample 1: cannot be read as inspect_ai writes it (TypeError: epoch",
    ),
    "sample.json": (
        log_of(sample(1), [1]),
        "sample 2: cannot be read as inspect_ai writes it (TypeError: the sample",
    ),
    "value.json": (
        log_of(sample([1])),
        "sample 1: cannot be read as inspect_ai writes it (ValueError: the value of s",
    ),
    "result.json": (
        OF_PROMPTFOO,
        "result 2: cannot be read as promptfoo writes it (TypeError: promptIdx is 'x'",
    ),
    "samples_t_1.jsonl": (
        OF_LM_EVAL,
        "line 2: cannot be read as a sample of lm-eval (ValueError: the value of acc",
    ),
    "criterion.csv": (
        b"item,dimension,score\na,cluster,1\n",
        "the dimension 'cluster' has the name of a column",
    ),
}


@pytest.mark.parametrize("name", ODD_CELLS)
def test_an_odd_cell_is_named_with_its_file_and_place(tmp_path, name) -> None:
    """By line, row, sample or result."""
    content, message = ODD_CELLS[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        Scores.load(tmp_path / name)
    assert str(error.value).startswith(str(tmp_path / name))
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_an_encrypted_log_is_one_line(tmp_path) -> None:
    """As its flags say."""
    content = bytearray((FOREIGN / "inspect_sums.eval").read_bytes())
    at = -1
    while (at := content.find(b"PK\x01\x02", at + 1)) >= 0:
        content[at + 8] |= 1
    (tmp_path / "log.eval").write_bytes(content)
    with pytest.raises(InputError, match=r"log\.eval.*encrypted"):
        Scores.load(tmp_path / "log.eval")


def test_a_missing_file_and_no_file_are_named(tmp_path) -> None:
    """Both in one line."""
    with pytest.raises(InputError, match="no such file"):
        Scores.load(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="no file is named"):
        Scores.load()

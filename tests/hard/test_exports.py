"""An export is verified with nothing else: every edited cell, record and file is named, and no damage is an error."""

import contextlib
import csv
import io
import json
import random
import shutil
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from small_study import STUDY, finished_study, without_pictures

from toolkit.audit import verify_export as verify_module
from toolkit.audit.export import export_study
from toolkit.audit.verify_export import verify_export
from toolkit.cli import cli
from toolkit.errors import InputError
from toolkit.people.rating import next_reply, open_round, rate
from toolkit.report.manifest import MANIFEST, claim_folder, write_manifest
from toolkit.store.record_files import KEYS, RECORD_SUMS, _sums, record_file
from toolkit.store.writer import sealed
from toolkit.study import Study
from toolkit.words import DIMENSIONS

KEY = "canary-key-of-a-provider"
WRONG = json.loads(r"""[
    null, true, -1, 2.5, "", "x", [], {}, {"a": 1}, "\u0000", "\u202e", {"$date": "x"}, {"$oid": "1"}, {"$where": "1"},
    {"a.b": 1}, {"": 1}, {"$regularExpression": {"pattern": "(", "options": ""}}, {"$numberDecimal": "many"},
    {"$numberLong": "9999999999999999999999999"}, {"$date": {"$numberLong": "999999999999999999999999999999"}},
    {"$numberDouble": "NaN"}
]""")


def contents(folder):
    """Return the files of a folder."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The export of a finished study of six runs and eighteen judgements, one of which a person has rated too."""
    folder = tmp_path_factory.mktemp("exported")
    with finished_study(folder) as study:
        round_ = open_round(study.plan, study.store, "anna")
        reply = next_reply(round_)
        rate(study.plan, study.store, round_, reply, dict.fromkeys(DIMENSIONS, 4.0), "Well said.")
        export_study(study, folder / "whole")
        export_study(study, folder / "again")
    whole, again = folder / "whole", folder / "again"
    assert contents(whole) == contents(again)
    return whole


@pytest.fixture
def out(exported, tmp_path):
    """A copy that may be edited."""
    return Path(shutil.copytree(exported, tmp_path / "out"))


def named(expected, told):
    """Return whether for each line that is expected one begins so."""
    return all(any(line.startswith(begin) for line in told) for begin in expected)


def differences(folder):
    """Return what is said of a folder, without its name."""
    return [line.removeprefix("out/") for line in verify_export(folder).fields["differences"]]


def summed_again(folder):
    """Write every sum again, as whoever knows how it is made would."""
    with (folder / RECORD_SUMS).open("w") as sums:
        for kind, key in KEYS.items():
            for line in record_file(folder, kind).read_text().splitlines():
                record = json.loads(line)
                name = kind._meta["collection"]
                sums.write(json.dumps([name, [record[part] for part in key], _sums(record)]) + "\n")
    facts = json.loads((folder / MANIFEST).read_text())
    files = [folder / name for name in facts.pop("files")]
    write_manifest(folder, {name: value for name, value in facts.items() if name != "seal"}, files)


def edit_cell(path, row, column):
    """Change one cell of a CSV file and return the line that names it."""
    rows = list(csv.reader(io.StringIO(path.read_text(), newline="")))
    at = rows[0].index(column)
    rows[row][at] = rows[row][at][:-1] + ("1" if rows[row][at][-1:] != "1" else "2")
    with path.open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)
    return f"{path.name}: row {row}, column {column}: "


def edit_record(path, number, change):
    """Change the record of one line."""
    lines = path.read_text().splitlines(keepends=True)
    record = json.loads(lines[number - 1])
    change(record)
    lines[number - 1] = json.dumps(record) + "\n"
    path.write_text("".join(lines))


def test_a_folder_is_all_that_a_colleague_needs(out, monkeypatch):
    """No store, no server that answers, no key; the study file, the records and every frame are in it."""
    monkeypatch.setenv("MONGODB_URI", "mongodb://127.0.0.1:9/")
    done = CliRunner().invoke(cli, ["verify", str(out), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["differences"] == []
    assert {"study/small.toml", "data_dictionary.md"} <= {*map(str, contents(out))}
    assert {path.stem for path in out.glob("*.csv")} == {path.stem for path in out.glob("*.parquet")}
    assert {"calls", "runs", "annotations", "human_ratings"} <= {path.stem for path in out.glob("*.jsonl")}


def test_an_edited_cell_of_any_frame_is_named(out):
    """By file, row and column: a cell of each CSV file, and a number of a Parquet file."""
    dice, expected = random.Random(5), []
    for path in sorted(out.glob("*.csv")):
        rows = list(csv.reader(io.StringIO(path.read_text(), newline="")))
        if len(rows) > 1:
            expected.append(edit_cell(path, dice.randrange(1, len(rows)), dice.choice(rows[0])))
    (out / "human.parquet").unlink()
    frame = pd.read_parquet(out / "prompts.parquet")
    frame.loc[3, "tokens"] += 1
    frame.to_parquet(out / "prompts.parquet")
    told = differences(out)
    assert len(expected) == 8
    expected += ["prompts.parquet: row 4, column tokens: ", "human.parquet: is missing"]
    assert named(expected, told), told


def test_an_edited_record_of_any_file_is_named(out):
    """By file, line and field; also a record that is gone, new or there twice, and a file that is new or gone."""
    edit_record(out / "calls.jsonl", 3, lambda record: record.update(raw="{}"))
    edit_record(out / "runs.jsonl", 2, lambda record: record["scores"].update(clarity=4.9))
    edit_record(out / "human_ratings.jsonl", 1, lambda record: record.pop("reasons"))
    edit_record(out / "prompts.jsonl", 1, lambda record: record.update(note="mine"))
    lines = (out / "annotations.jsonl").read_text().splitlines(keepends=True)
    gone = json.loads(lines.pop(4))
    (out / "annotations.jsonl").write_text("".join([*lines, lines[0]]))
    (out / "rubrics.jsonl").unlink()
    (out / "mine.csv").write_text("1")
    (out / MANIFEST).write_text((out / MANIFEST).read_text().replace('"seed": 2', '"seed": 3'))
    expected = {
        "calls.jsonl: line 3, field raw: was changed",
        "runs.jsonl: line 2, field scores: was changed",
        "human_ratings.jsonl: line 1, field reasons: was removed",
        "prompts.jsonl: line 1, field note: was added",
        f"annotations.jsonl: the record {gone['run_id']} {gone['judge']} {gone['call_id']} is missing",
        f"annotations.jsonl: line {len(lines) + 1} is no record of the export, or is there twice",
        "rubrics.jsonl: is missing",
        "mine.csv: is no file of the export",
        "manifest.json: was changed after it was written",
    }
    told = differences(out)
    assert named(expected, told), told
    assert {line.partition(": ")[0] for line in told} == {line.partition(": ")[0] for line in expected}


FORGED = {
    "a cell": (lambda out: edit_cell(out / "runs.csv", 2, "aud_cost"), "runs.csv: row 2, column aud_cost: "),
    "a result": (
        lambda out: edit_cell(out / "results.csv", 1, "estimate"),
        "results.csv: row 1, column estimate: ",
    ),
    "a score": (
        lambda out: edit_record(out / "annotations.jsonl", 1, lambda one: one["scores"].update(clarity=4.9)),
        "judgement by ",
    ),
    "a sealed call": (
        lambda out: edit_record(
            out / "calls.jsonl", 1, lambda record: record.update(sealed({**record, "aud_cost": 9.0}))
        ),
        "call ",
    ),
    "a record gone": (
        lambda out: (out / "runs.jsonl").write_text(
            "".join((out / "runs.jsonl").read_text().splitlines(True)[1:])
        ),
        "run of ",
    ),
}


@pytest.mark.parametrize("fault", FORGED)
def test_an_edit_whose_sums_were_written_again_is_named(out, fault):
    """The study is made again from its ledger, and each frame from the records."""
    change, line = FORGED[fault]
    change(out)
    summed_again(out)
    told = differences(out)
    assert named([line], told), told


def test_what_a_study_file_names_is_in_the_export_and_no_code_of_it_is_run(out):
    """A dataset beside it is verified with it; a test of one's own, or a path that leads out, is not touched."""
    path = out / "study" / "small.toml"
    text = path.read_text()
    (out / "study" / "own.py").write_text("raise SystemExit('it was run')\n")
    for more in (
        'test = "own.py:Test"\n',
        'dataset = "../../elsewhere"\n',
        'options = { scorer = "own.py:f" }\n',
        'options = { documents = [{ id = "a", file = "../../elsewhere.md" }] }\n',
    ):
        path.write_text(more + text)
        summed_again(out)
        summary = verify_export(out)
        assert "CSV and Parquet are compared with each other alone" in str(summary.fields["note"])


def test_no_key_is_exported(tmp_path, monkeypatch):
    """Not even one that somebody has put into a comment of the study file."""
    monkeypatch.setenv("SOME_API_KEY", KEY)
    with finished_study(tmp_path) as study:
        export_study(study, tmp_path / "out")
        assert not [path for path, content in contents(tmp_path / "out").items() if KEY.encode() in content]
        study.path.write_text(study.path.read_text() + f"# {KEY}\n")
        with pytest.raises(InputError, match="holds the key of a provider") as caught:
            export_study(study, tmp_path / "other")
        assert KEY not in str(caught.value)


WRITERS = {
    "an export": (export_study, ""),
    "a bundle": (lambda study, folder: study.bundle(folder), ""),
    "figures": (lambda study, folder: study.figures(folder, only=["model_means"]), "figures"),
    "tables": (lambda study, folder: study.figures(folder, only=["model_means"]), "tables"),
    "statistics": (lambda study, folder: study.statistics(folder), "statistics"),
}


@pytest.mark.parametrize(
    "names",
    [[name for name in WRITERS if name != "a bundle"], ["a bundle"]],
    ids=["parts", "a bundle"],
)
def test_what_is_written_takes_the_place_of_nothing_that_is_not_of_the_study(tmp_path, names):
    """A folder of others, of another study, a file or a link is refused and stays; what was begun is written again."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with without_pictures(), finished_study(tmp_path) as study:
        for name in names:
            write, part = WRITERS[name]
            foreign = tmp_path / f"{name} of others" / part / "runs.csv"
            foreign.parent.mkdir(parents=True)
            foreign.write_text("mine")
            with pytest.raises(
                InputError, match=r"not of small, such as runs.csv; name an empty or a new folder"
            ):
                write(study, tmp_path / f"{name} of others")
            assert [path.read_text() for path in foreign.parent.rglob("*") if path.is_file()] == ["mine"]
            with pytest.raises((InputError, NotADirectoryError)):
                write(study, foreign)
            assert foreign.read_text() == "mine"
            folder, owned = tmp_path / name, tmp_path / name / part
            (owned / f".{MANIFEST}.0123abcd-abcdefgh").parent.mkdir(parents=True)
            (owned / f".{MANIFEST}.0123abcd-abcdefgh").write_text("left by one that was killed")
            claim_folder("small", owned)  # as one does that is killed then
            (owned / "runs.csv").write_text("half")
            write(study, folder)
            before = contents(owned)
            write(study, folder)
            assert contents(owned) == before
            (owned / "link").symlink_to(elsewhere)
            with pytest.raises(InputError, match="link: is a link"):
                write(study, folder)
            (owned / "link").unlink()
            (owned / MANIFEST).write_text('{"study": "other", "files": {}}')
            with pytest.raises(
                InputError, match="holds files of other; choose another folder for those of small"
            ):
                write(study, folder)
    assert not [*elsewhere.iterdir()]


def test_a_dataset_beside_the_study_file_goes_with_it(study_file, tmp_path):
    """The folder is enough to plan the study anew."""
    path = study_file()
    rows = [{"prompt_id": f"p_{n}_s", "text": "Say what to do. " * 50, "scenario": "CTI_ANALYSIS", "category": "c",
             "length_bin": "S", "base": f"b{n}"} for n in range(2)]  # fmt: skip
    (path.parent / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    head = 'dataset = "mine.jsonl"\naccept_flaws = ["range"]\nlength_bins = ["S"]\n'
    path.write_text(head + path.read_text())
    with Study.load(path) as study:
        study.execute(progress=False)
        export_study(study, tmp_path / "out")
    assert (tmp_path / "out" / "study" / "mine.jsonl").is_file()
    summary = verify_export(tmp_path / "out")
    assert (summary.fields["differences"], summary.fields["note"]) == ([], None)


def test_calls_that_another_study_paid_for_are_in_it_all(tmp_path, store_folder):
    """The sentences of a judgement and longer replies, too: without them the ledger does not give its records."""
    segments = '[bias_controls]\nfsp_enabled = true\nfsp_mode = "per_sentence"\n'
    studies = []
    for name in ("payer", "small"):
        text = STUDY.format(settings="", judges=segments).replace('"small"', f'"{name}"')
        (tmp_path / f"{name}.toml").write_text(text.replace("results/small", f"results/{name}"))
        studies.append(Study.load(tmp_path / f"{name}.toml"))
    payer, study = studies
    paid = payer.execute(progress=False).new_calls
    assert study.execute(progress=False).new_calls == 0
    assert len(study.calls()) == paid > 24
    export_study(study, tmp_path / "out")
    for each in studies:
        each.close()
    assert differences(tmp_path / "out") == []


def damaged(folder, dice):
    """Flip, cut, swap, rename or remove a file, or change a value of a record; return whether anything changed."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    path, other = dice.sample(files, 2)
    content = bytearray(path.read_bytes())
    at = dice.randrange(len(content) or 1)
    match dice.randrange(9):
        case 0:
            content[at : at + 1] = bytes([content[at] ^ 1 << dice.randrange(8)]) if content else b"x"
        case 1:
            del content[at:]
        case 2:
            content[at : at + dice.randint(1, 60)] = dice.randbytes(dice.randint(0, 60))
        case 3:
            content += dice.randbytes(dice.randint(1, 2000))
        case 4:
            content = bytearray(other.read_bytes())
        case 5:
            path.rename(path.with_name(dice.choice(("a" * 200, "x\x1b[2J", "é.csv", ".hidden"))))
            return True
        case 6:
            path.unlink()
            return True
        case _:
            path = dice.choice([path for path in files if path.suffix == ".jsonl" and path.stat().st_size])
            lines = path.read_text().splitlines(keepends=True)
            number = dice.randrange(len(lines))
            record = json.loads(lines[number])
            place = record if isinstance(record, dict) else record[-1]
            place[dice.choice([*place])] = dice.choice(WRONG)
            line = json.dumps(record)
            lines[number] = dice.choice((line, line, line, "[" * 9999, "\xff", "[]")) + "\n"
            content = bytearray("".join(lines).encode())
    is_changed = bytes(content) != path.read_bytes()
    path.write_bytes(bytes(content))
    return is_changed


@pytest.mark.parametrize("seeds", [range(10), range(10, 150)], ids=("some", "rest"))
def test_no_damaged_export_is_whole_and_none_is_an_error(exported, tmp_path, seeds, monkeypatch):
    """Each is clear lines, with and without sums that were written again; a tenth is made again from its records."""
    again, wrong = verify_module._made_again, []
    for seed in seeds:
        dice, folder = random.Random(seed), tmp_path / "out"
        monkeypatch.setattr(verify_module, "_made_again", again if seed % 10 == 0 else lambda *_: [])
        shutil.copytree(exported, folder)
        is_changed = damaged(folder, dice)
        if seed % 10 == 0:
            with contextlib.suppress(Exception):  # what is no record any more has no sum
                summed_again(folder)
        try:
            told = verify_export(folder).fields["differences"]
        except InputError as refused:
            told = [str(refused)]
        if (is_changed and seed % 10 and not told) or any("\n" in line for line in told):
            wrong.append(f"{seed}: {told}")
        shutil.rmtree(folder)
    assert not wrong, "\n".join(wrong)

"""A study goes into one file and comes out of it elsewhere as it was, once; what contradicts it is refused."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pandas.testing import assert_frame_equal
from small_study import STUDY
from stub_server import Fault, StubServer

from toolkit.audit.verify import verify_study
from toolkit.cli import cli
from toolkit.errors import InputError
from toolkit.store import archive as archive_file
from toolkit.store import embedded
from toolkit.store.archive import (
    CONTENTS,
    KEYS,
    Imported,
    add_archive,
    check_archive,
    pack_archive,
    write_archive,
)
from toolkit.study import Study

ASKED = (
    'provider = "compatible", base_url = "{url}", model = "m", '
    "usd_per_million_input = 1, usd_per_million_output = 1"
)
SEGMENTS = '[bias_controls]\nfsp_enabled = true\nfsp_mode = "per_sentence"\n'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A finished study of six runs and eighteen judgements, of which nothing is changed here."""
    folder = tmp_path_factory.mktemp("home")
    study = place(folder)
    study.execute(progress=False)
    write_archive(study.store, study.name, folder / "small.zip")
    yield study
    study.store.close()
    embedded.stop(folder / "results" / ".store")


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Study]:
    """The same study file on another machine."""
    study = place(tmp_path / "away")
    yield study
    study.store.close()
    embedded.stop(tmp_path / "away" / "results" / ".store")


def place(folder: Path, name: str = "small", model: str = "", settings: str = "") -> Study:
    """Write a study of the six CTI prompts and three scripted judges into a folder, and load it."""
    folder.mkdir(exist_ok=True)
    text = STUDY.format(settings="", judges=settings).replace('"small"', f'"{name}"')
    if model:
        text = text.replace('{ name = "scripted" }', f'{{ name = "m", {model} }}')
    path = folder / f"{name}.toml"
    path.write_text(text.replace("results/small", f"results/{name}"))
    return Study.load(path)


def archive_of(study: Study) -> Path:
    """Return the archive of the study of ``home``."""
    return study.path.parent / "small.zip"


def same_frames(one: Study, other: Study) -> None:
    """Hold the frames of two studies against each other, to the last bit."""
    for kind in ("runs", "judgements", "dimensions", "calls"):
        assert_frame_equal(getattr(one, kind)(), getattr(other, kind)(), check_exact=True)


def bring(source: Path, target: Study) -> Imported:
    """Check an archive and add it to the store of a study."""
    return add_archive(target.store, check_archive(source))


def parts_of(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return every document of an archive that is checked first."""
    archive = check_archive(path)
    return {name: [one for block in archive.blocks(name) for one in block] for name in KEYS}


def repacked(source: Path, target: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Write an archive again with changed members, as someone with a zip program would."""
    with zipfile.ZipFile(source) as old:
        members = {name: old.read(name) for name in old.namelist()}
    change(members)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in members.items():
            new.writestr(name, content)
    return target


def contents(study: Study) -> dict[str, list[dict[str, Any]]]:
    """Return everything a store holds."""
    return {name: list(study.store.database[name].find({})) for name in KEYS}


def test_a_later_export_brings_what_came_since(away: Study, tmp_path: Path) -> None:
    """Replies where calls had failed, and the judgements of their runs: nothing is left to ask or to pay again."""
    failing = [True]
    with StubServer(faults=lambda n, _: Fault(status=400) if failing[0] and n % 2 else None) as server:
        first = place(tmp_path / "first", model=ASKED.format(url=server.openai_url))
        other = place(tmp_path / "away", model=ASKED.format(url=server.openai_url))
        assert first.execute(progress=False).failed == 3
        write_archive(first.store, first.name, tmp_path / "monday.zip")
        bring(tmp_path / "monday.zip", other)
        assert (other.runs()["status"] == "failed").sum() == 3
        failing[0] = False
        assert first.execute(progress=False).judged == 6
        write_archive(first.store, first.name, tmp_path / "tuesday.zip")
        done = bring(tmp_path / "tuesday.zip", other)
        assert (done.added["judgements"], done.updated["calls"], done.updated["runs"]) == (9, 3, 3)
        assert "6 brought up to date" in done.sentence()
        same_frames(other, first)
        sent = server.count
        assert other.execute(progress=False).new_calls == 0
        assert server.count == sent
    # An older archive takes nothing back.
    assert sum(bring(tmp_path / "monday.zip", other).updated.values()) == 0
    assert (other.runs()["status"] == "succeeded").all()
    assert_frame_equal(other.calls(), first.calls(), check_exact=True)
    for study in (first, other):
        study.store.close()
    embedded.stop(tmp_path / "first" / "results" / ".store")


def test_attempts_that_failed_here_are_not_forgotten(home: Study, away: Study) -> None:
    """A call that failed on both machines and was answered on one knows of both, and of what they may have cost."""
    call = home.store.database["calls"].find_one({"purpose": "run"})
    failed = {name: value for name, value in call.items() if name not in ("text", "raw", "aud_cost")}
    failed |= {"state": "failed", "attempts": [{"outcome": "timeout", "seconds": 3.0}], "unsure_aud": 0.25}
    away.store.database["calls"].insert_one(failed)
    assert bring(archive_of(home), away).updated["calls"] == 1
    kept = away.store.database["calls"].find_one({"_id": call["_id"]})
    assert (kept["state"], kept["text"]) == ("done", call["text"])
    assert kept["attempts"] == [*failed["attempts"], *call["attempts"]]
    assert kept["unsure_aud"] == 0.25


CONTRADICTIONS: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "another reply": ("calls", {"text": "another"}, "has another reply in this store: both machines"),
    "another price": ("calls", {"aud_cost": 9.0}, "has another reply in this store"),
    "a call under way": ("calls", {"state": "claimed"}, "is under way in this store"),
    "another text": ("prompts", {"text": "another"}, "has another text in this store"),
    "a run of both machines": ("runs", {"run_id": "0" * 26}, "is in this store as 0+: both machines"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_store_that_contradicts_the_archive_is_left_alone(home, away, case, monkeypatch) -> None:
    """What was paid for here stays, nothing is written, and the line says where to: also when it comes last of many."""
    monkeypatch.setattr(archive_file, "BLOCK", 1)  # every document is read alone
    name, change, line = CONTRADICTIONS[case]
    found = parts_of(archive_of(home))[name][-1]
    away.store.database[name].insert_one({**found, **change})
    before = contents(away)
    with pytest.raises(InputError, match=line) as caught:
        bring(archive_of(home), away)
    assert "empty results folder" in str(caught.value)
    assert contents(away) == before


def test_people_are_never_overruled(home: Study, away: Study, tmp_path: Path) -> None:
    """A rating that says something else under the same version is refused; a longer round goes on at its end."""
    run = home.store.database["runs"].find_one({})
    of_rubric = hashlib.sha256(b"{}").hexdigest()
    about = {"study": "small", "rater": "anna", "rubric_hash": of_rubric, "created_at": run["created_at"]}
    rating = {
        "_id": "a" * 64, "run_id": run["run_id"], "blob_id": run["output_blob_id"], "rubric": "default", "version": 1,
        "scores": {"clarity": 4.0}, "reasons": None, "source": "desk", **about,
    }  # fmt: skip
    round_ = {"_id": "b" * 64, "seed": 1, "size": 3, "run_ids": ["one", "two", "three"], **about}
    stamp = {"updated_at": run["updated_at"]}
    named = {"_id": of_rubric, "name": "r", "version": "1", "content": "{}"}
    rubric = {**named, **stamp, "created_at": run["created_at"]}
    source = place(tmp_path / "source")
    bring(archive_of(home), source)
    for name, document in (("human_ratings", rating), ("rating_rounds", round_), ("rubrics", rubric)):
        source.store.database[name].insert_one(document)
    write_archive(source.store, "small", tmp_path / "rated.zip")
    source.store.close()
    embedded.stop(tmp_path / "source" / "results" / ".store")
    rounds, ratings = away.store.database["rating_rounds"], away.store.database["human_ratings"]
    rounds.insert_one({**round_, "run_ids": ["two", "own"], "size": 2})
    done = bring(tmp_path / "rated.zip", away)
    assert (done.added["human_ratings"], done.updated["rating_rounds"]) == (1, 1)
    assert rounds.find_one({})["run_ids"] == ["two", "own", "one", "three"]
    assert sum(bring(tmp_path / "rated.zip", away).added.values()) == 0
    ratings.replace_one({"_id": "a" * 64}, {**rating, "scores": {"clarity": 1.0}})
    with pytest.raises(InputError, match=r"anna has rated run .* here and elsewhere, as version 1 both"):
        bring(tmp_path / "rated.zip", away)
    assert ratings.find_one({})["scores"] == {"clarity": 1.0}


def test_calls_that_another_study_paid_for_are_in_it_all(tmp_path: Path) -> None:
    """The segments of a judgement are named by no record, and without them the ledger does not give it."""
    payer = place(tmp_path / "here", name="payer", settings=SEGMENTS)
    study = place(tmp_path / "here", settings=SEGMENTS)
    paid = payer.execute(progress=False).new_calls
    assert study.execute(progress=False).new_calls == 0
    assert len(study.calls()) == paid > 24
    write_archive(study.store, study.name, tmp_path / "small.zip")
    other = place(tmp_path / "there", settings=SEGMENTS)
    assert bring(tmp_path / "small.zip", other).added["calls"] == paid
    assert verify_study(other).fields["differences"] == []
    for one in (payer, study, other):
        one.store.close()
    for name in ("here", "there"):
        embedded.stop(tmp_path / name / "results" / ".store")


def test_what_is_no_archive_of_ours_is_refused(home: Study, tmp_path: Path) -> None:
    """A bomb, an unknown part, another format, records without names; members of no archive are not touched."""

    def about(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, bytes]], None]:
        def changed(members: dict[str, bytes]) -> None:
            said = json.loads(members[CONTENTS])
            change(said)
            members[CONTENTS] = json.dumps(said).encode()

        return changed

    def bomb(members: dict[str, bytes]) -> None:
        members["calls.jsonl"] = bytes(150_000_000)

    def later(members: dict[str, bytes]) -> None:
        members["judgements.jsonl"] = members["judgements.jsonl"].replace(b'": false', b'": true', 1)

    cases: list[tuple[Callable[[dict[str, bytes]], None], str]] = [
        (later, r"judgements\.jsonl was changed after it was written"),
        (bomb, "that would unpack to 150,"),
        (about(lambda said: said.update(format="archive 2")), "format 'archive 2'; this toolkit reads"),
        (about(lambda said: said["parts"].update(dreams={})), "has dreams, which toolkit .* does not know"),
        (about(lambda said: said.pop("parts")), "no whole archive"),
        (about(lambda said: said["parts"].pop("runs")), "no whole archive"),
        (lambda members: members.update({CONTENTS: b"[1]"}), "no whole archive"),
        (lambda members: members.pop("runs.jsonl"), "no whole archive"),
    ]
    for change, line in cases:
        with pytest.raises(InputError, match=line):
            check_archive(repacked(archive_of(home), tmp_path / "other.zip", change))
    for name, content in {"empty.zip": b"", "text.zip": b"run,score\n"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}: no whole archive"):
            check_archive(tmp_path / name)
    slip = {"../../slip.jsonl": b"x", "/etc/slip": b"x", "notes.txt": b"x"}
    odd = repacked(archive_of(home), tmp_path / "odd.zip", lambda members: members.update(slip))
    assert parts_of(odd) == parts_of(archive_of(home))
    assert not list(tmp_path.parent.glob("**/slip*"))


def test_a_record_that_cannot_be_read_is_one_line(home, tmp_path, monkeypatch) -> None:
    """Of someone who knows how to write the sums: an impossible date, no number, a list, half and endless lines."""

    def runs(content: bytes) -> Callable[[dict[str, bytes]], None]:
        def changed(members: dict[str, bytes]) -> None:
            said = json.loads(members[CONTENTS])
            said["parts"]["runs"]["sha256"] = hashlib.sha256(content).hexdigest()
            members |= {CONTENTS: json.dumps(said).encode(), "runs.jsonl": content}

        return changed

    late = b'{"run_id": "a", "updated_at": {"$date": {"$numberLong": "%s"}}}\n' % (b"9" * 30)
    number = b'{"run_id": "a", "repeat": {"$numberDecimal": "many"}}\n'
    for content in (late, number, b'["run_id"]\n', b'{"run_id": "a"}\n\n', b'{"run_id": "a"}\n{"run_id"'):
        with pytest.raises(InputError, match=r"no whole archive .*; copy it again") as caught:
            check_archive(repacked(archive_of(home), tmp_path / "other.zip", runs(content)))
        assert "\n" not in str(caught.value)
    monkeypatch.setattr(archive_file, "LONGEST", 100)
    with pytest.raises(InputError, match="no whole archive"):
        check_archive(archive_of(home))


def test_an_archive_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    """Thirty megabytes of replies are written and read a few at a time."""
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    named = sorted((hashlib.sha256((f"{n} " * 1500).encode()).hexdigest(), n) for n in range(4000))
    replies = ({"blob_id": name, "content": f"{n} " * 1500, "created_at": moment} for name, n in named)
    parts: dict[str, Any] = dict.fromkeys(KEYS, ()) | {"output_blobs": replies}
    tracemalloc.start()
    pack_archive("large", parts, tmp_path / "large.zip")
    archive = check_archive(tmp_path / "large.zip")
    found = sum(len(block) for block in archive.blocks("output_blobs"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == archive.counts["output_blobs"] == 4000
    with zipfile.ZipFile(tmp_path / "large.zip") as file:
        assert file.getinfo("output_blobs.jsonl").file_size > 5 * archive_file.BLOCK
    assert peak < 4 * archive_file.BLOCK


def test_an_imported_study_is_the_study_and_twice_is_once(home, away, tmp_path, monkeypatch) -> None:
    """However few documents are read at a time: frames are equal, nothing is left to ask, half is finished."""
    monkeypatch.setattr(archive_file, "BLOCK", 3000)
    with pytest.raises(InputError, match="run it first"):
        write_archive(away.store, away.name, tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()
    assert len(list(check_archive(archive_of(home)).blocks("judgements"))) > 5
    done = bring(archive_of(home), away)
    assert (done.added["judgements"], done.added["calls"], sum(done.added.values())) == (18, 24, 62)
    same_frames(away, home)
    assert away.estimate()["calls"].sum() == 0
    away.run(progress=False, replay=True)
    same_frames(away, home)
    again = bring(archive_of(home), away)
    assert (sum(again.added.values()), sum(again.updated.values()), sum(again.known.values())) == (0, 0, 62)
    assert "were there already" in again.sentence()
    away.store.database["judgements"].delete_many({"judge": "primary"})
    third = bring(archive_of(home), away)
    assert {name: count for name, count in third.added.items() if count} == {"judgements": 6}


def test_an_archive_that_changes_while_it_is_imported_is_one_line(home, away, tmp_path) -> None:
    """What was found whole and is another file by now is not taken for it."""
    path = tmp_path / "small.zip"
    path.write_bytes(archive_of(home).read_bytes())
    checked = check_archive(path)

    def other(members: dict[str, bytes]) -> None:
        members["prompts.jsonl"] = members["prompts.jsonl"].replace(b'"text": "', b'"text": "!')

    repacked(archive_of(home), path, other)
    with pytest.raises(InputError, match=r"prompts\.jsonl was changed after it was written"):
        add_archive(away.store, checked)
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        add_archive(away.store, checked)
    assert all(not found for found in contents(away).values())


def test_a_bad_file_leaves_no_store_behind(tmp_path: Path) -> None:
    """Of a mistyped name nothing is left, and a file in place of the results folder is named."""
    (tmp_path / "no.zip").write_text("no")
    for name in ("no.zip", "missing.zip"):
        done = CliRunner().invoke(cli, ["import", str(tmp_path / name), "--into", str(tmp_path / "typo")])
        assert isinstance(done.exception, InputError)
    assert not (tmp_path / "typo").exists()


KILLED = """
import os, signal, sys
from toolkit.store.writer import BulkWriter
from toolkit.audit.export import import_archive
left, write = [40], BulkWriter._write
def some(self, name, flush, operations):
    left[0] -= len(operations)
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(self, name, flush, operations)
BulkWriter._write = some
import_archive(sys.argv[1], sys.argv[2])
"""


def test_an_import_killed_half_way_is_finished_by_the_next(home: Study, tmp_path: Path) -> None:
    """The ledger is there first, and the second import adds what the first did not."""
    results = tmp_path / "away" / "results"
    command = [sys.executable, "-c", KILLED, str(archive_of(home)), str(results)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    study = place(tmp_path / "away")
    assert 0 < sum(len(documents) for documents in contents(study).values()) < 62
    assert study.store.database["judgements"].count_documents({}) == 0
    done = bring(archive_of(home), study)
    assert sum(done.known.values()) > 0
    same_frames(study, home)
    write_archive(study.store, study.name, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == archive_of(home).read_bytes()
    study.store.close()
    embedded.stop(results / ".store")


def before_the_first_write(study: Study, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Have something else done, once, after an import has compared everything."""
    submit = type(study.store.writer).submit

    def meanwhile(self, collection, operation):
        monkeypatch.setattr(type(study.store.writer), "submit", submit)
        work()
        return submit(self, collection, operation)

    monkeypatch.setattr(type(study.store.writer), "submit", meanwhile)


def test_two_imports_at_once_are_one(home: Study, away: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second finds the record there, however late it looked; each is counted once."""
    found: list[Imported] = []

    def first() -> None:
        with Study.load(away.path) as other:
            found.append(bring(archive_of(home), other))

    before_the_first_write(away, monkeypatch, first)
    second = bring(archive_of(home), away)
    assert sum(found[0].added.values()) == 62
    assert (sum(second.added.values()), sum(second.known.values())) == (0, 62)
    assert sum(len(documents) for documents in contents(away).values()) == 62


def test_a_run_that_is_made_while_an_archive_is_imported_is_refused(home, away, monkeypatch) -> None:
    """Its id is another, and the judgements of the archive would hang in the air."""
    run = {**parts_of(archive_of(home))["runs"][0], "run_id": "0" * 26}
    before_the_first_write(away, monkeypatch, lambda: away.store.database["runs"].insert_one(run))
    with pytest.raises(InputError, match=r"is in this store as 0+: both machines have asked"):
        bring(archive_of(home), away)
    assert away.store.database["judgements"].count_documents({}) == 0

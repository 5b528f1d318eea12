"""A study goes into one file and comes out of it in another store as it was, once."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit.errors import InputError
from toolkit.store import embedded
from toolkit.store.archive import KEYS, Imported, add_archive, check_archive, write_archive
from toolkit.store.connection import Store
from toolkit.study import Study


def read_archive(store: Store, path: Path) -> Imported:
    """Check an archive and add it."""
    return add_archive(store, check_archive(path))


@pytest.fixture(scope="module")
def archive(demo_like_study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a finished study of 36 runs and 108 judgements."""
    path = tmp_path_factory.mktemp("archive") / "small.zip"
    study = Study.load(demo_like_study)
    assert write_archive(study.store, study.name, path)["runs"] == 36
    study.store.close()
    return path


@pytest.fixture
def elsewhere(demo_like_study: Path, tmp_path: Path) -> Iterator[Study]:
    """The same study file in a folder without any result."""
    path = tmp_path / demo_like_study.name
    shutil.copy(demo_like_study, path)
    study = Study.load(path)
    yield study
    study.store.close()
    embedded.stop(tmp_path / "results" / ".store")


def test_an_imported_study_is_the_study(archive: Path, elsewhere: Study, demo_like_study: Path) -> None:
    """Frames are equal, nothing is left to ask, and a replay from the ledger changes nothing."""
    done = read_archive(elsewhere.store, archive)
    assert (done.added["runs"], done.added["judgements"], sum(done.known.values())) == (36, 108, 0)
    other = Study.load(demo_like_study)
    for name in ("runs", "judgements", "dimensions"):
        assert getattr(elsewhere, name)().equals(getattr(other, name)())
    other.store.close()
    assert elsewhere.estimate()["calls"].sum() == 0
    before = elsewhere.runs()
    elsewhere.run(progress=False, replay=True)
    assert elsewhere.runs().equals(before)


def test_twice_is_once_and_half_is_finished(archive: Path, elsewhere: Study) -> None:
    """A second import adds nothing; after half of it was lost it adds that half."""
    read_archive(elsewhere.store, archive)
    again = read_archive(elsewhere.store, archive)
    assert sum(again.added.values()) == 0
    assert "were there already" in again.sentence()
    elsewhere.store.database["judgements"].delete_many({"judge": "primary"})
    third = read_archive(elsewhere.store, archive)
    assert {name: count for name, count in third.added.items() if count} == {"judgements": 36}


def test_the_same_records_are_the_same_bytes(archive: Path, demo_like_study: Path, tmp_path: Path) -> None:
    """Two exports are one file; one of an imported study too."""
    study = Study.load(demo_like_study)
    write_archive(study.store, study.name, tmp_path / "again.zip")
    study.store.close()
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()


def test_a_damaged_or_foreign_file_adds_nothing(archive: Path, elsewhere: Study, tmp_path: Path) -> None:
    """A missing file, half a file, another zip and a changed reply are one line each."""
    whole = archive.read_bytes()
    cases = {"half.zip": whole[: len(whole) // 2], "empty.zip": b"", "text.zip": b"run,score\n"}
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}: no whole archive"):
            read_archive(elsewhere.store, tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        read_archive(elsewhere.store, tmp_path / "none.zip")
    changed = tmp_path / "changed.zip"
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b'"failed": false', b'"failed": true', 1))
    with pytest.raises(InputError, match=r"judgements\.jsonl was changed"):
        read_archive(elsewhere.store, changed)
    assert all(elsewhere.store.database[name].count_documents({}) == 0 for name in KEYS)


def test_a_run_that_both_machines_made_is_refused(archive: Path, elsewhere: Study) -> None:
    """Its two ids would leave judgements in the air: nothing is written, and the line says what to do."""
    elsewhere.run(progress=False, limit=1)
    before = elsewhere.store.database["calls"].count_documents({})
    with pytest.raises(InputError, match="import into an empty results folder"):
        read_archive(elsewhere.store, archive)
    assert elsewhere.store.database["calls"].count_documents({}) == before


def test_a_study_that_never_ran_has_no_archive(elsewhere: Study, tmp_path: Path) -> None:
    """There is one line in place of an empty file."""
    with pytest.raises(InputError, match="run it first"):
        write_archive(elsewhere.store, elsewhere.name, tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()

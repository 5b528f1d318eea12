"""A store of an older layout is brought forward, one of a newer layout is left as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_study import finished_study

from toolkit.errors import StoreError
from toolkit.store import embedded
from toolkit.store.connection import LAYOUT, bring_forward, open_store


@pytest.fixture
def store(tmp_path: Path):
    """An open store with one document of today's layout."""
    opened = open_store(tmp_path / ".store")
    opened.database["things"].insert_one({"_id": "a", "old": 1})
    yield opened
    opened.close()
    embedded.stop(tmp_path / ".store")


def renamed(database) -> None:
    """Rename a field, as a step may."""
    for one in database["things"].find({"old": {"$exists": True}}):
        database["things"].replace_one({"_id": one["_id"]}, {"_id": one["_id"], "new": one["old"]})


def test_a_store_of_before_is_that_of_today(tmp_path: Path) -> None:
    """It says no version, and has every run; opened again it says one."""
    with finished_study(tmp_path) as study:
        runs = study.runs()
        study.store.database[LAYOUT].delete_many({})
        study.close()
        assert study.runs().equals(runs)
        assert study.store.database[LAYOUT].find_one({"_id": "schema"})["version"] == 1


def test_steps_are_done_in_order_and_once(store) -> None:
    """Of two steps, also after one that was killed before its number was written."""
    done = []
    steps = {1: lambda database: (renamed(database), done.append(1)), 2: lambda database: done.append(2)}
    renamed(store.database)  # a process that was killed here had not written the number
    assert bring_forward(store.database, steps) == 3
    assert store.database["things"].find_one({"_id": "a"}) == {"_id": "a", "new": 1}
    assert bring_forward(store.database, steps) == 3
    assert done == [1, 2]


def test_a_newer_store_is_refused_in_one_line_and_left_as_it_is(store, tmp_path: Path) -> None:
    """Nothing of it is read."""
    store.database[LAYOUT].update_one({"_id": "schema"}, {"$set": {"version": 9}})
    with pytest.raises(
        StoreError, match=r"\.store: the store has version 9 of its layout and this toolkit knows 1"
    ):
        open_store(tmp_path / ".store")
    assert store.database[LAYOUT].find_one({"_id": "schema"})["version"] == 9

"""What the embedded server sends is what was stored, encoded once: ids, moments, floats, more than one reply holds."""

from __future__ import annotations

from datetime import UTC, datetime

from bson import ObjectId

from toolkit.store.connection import Store


def test_documents_come_back_as_they_were(store: Store) -> None:
    """Ids of the store's own, at the top and inside, moments, floats, nothing and lists are the same after a read."""
    inside = ObjectId()
    given = {
        "_id": ObjectId(),
        "at": datetime(2026, 11, 22, 8, 3, 39, 651000, tzinfo=UTC),
        "parts": [{"id": 0, "ref": inside, "share": 0.1 + 0.2}, None, []],
        "none": None,
        "name": "first",
        "text": "\x00\x1b[2J ü",
    }
    things = store.database["things"]
    things.insert_one(given)
    things.insert_one({"_id": "named", "value": 2.380952380952381})
    assert things.find_one({"_id": given["_id"]}) == given
    (slim,) = things.aggregate([{"$match": {"name": "first"}}, {"$project": {"parts": 0}}])
    assert slim == {name: value for name, value in given.items() if name != "parts"}
    assert [one["value"] for one in things.find({"_id": "named"})] == [2.380952380952381]


def test_more_than_one_reply_holds_comes_in_several(store: Store) -> None:
    """Twenty-four megabytes of documents arrive whole and in order, in replies that every driver takes."""
    things = store.database["things"]
    for number in range(8):
        things.insert_one({"_id": number, "text": str(number) * 3_000_000})
    cursor = things.find({}, batch_size=100).sort("_id", 1)
    first = next(cursor)
    assert first["_id"] == 0
    assert cursor.alive  # not all in one
    assert [(one["_id"], len(one["text"])) for one in cursor] == [(n, 3_000_000) for n in range(1, 8)]

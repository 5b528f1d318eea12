"""What the store acknowledged is there: one server a folder, bulks that tell each writer its fate, nothing altered."""

import asyncio
import gc
import json
import math
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue
from urllib.parse import unquote_plus

import mongoengine as me
import psutil
import pytest
from bson import ObjectId
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import InsertOne, ReadPreference, ReplaceOne, UpdateOne
from refusals import refusal
from waiting import is_alive, wait_for
from wire import Wire

from toolkit.errors import StoreError
from toolkit.judges.ensemble import ensemble_evaluation
from toolkit.judges.judgement import Judgement
from toolkit.models.base import Answer, ModelReply, Usage
from toolkit.prompts.dataset import load_dataset
from toolkit.runs.budget import Account, spent_and_held
from toolkit.runs.ledger import Ledger, calls_by_state
from toolkit.scoring import SEED_SCHEME
from toolkit.store import connection, documents, embedded, frames, writer
from toolkit.store.connection import LAYOUT, Store, open_store
from toolkit.store.documents import Call, OutputBlob, Prompt, Run
from toolkit.store.records import annotation_record, evaluation_fields, failed_run_record, run_records
from toolkit.store.writer import LARGEST_BULK, Duplicate, Record, Unmatched, utc_now

CASES = cases(__file__)

ABOUT = {"test_item": "p", "dataset_version": "v", "bias_controls": {}, "prompt_length_bin": "S"}
KEY = {"study": "s", "test": "t", "prompt_id": "p", "model": "m", "repeat": 0, "call_id": "c"}
ANSWER = Answer("c", ModelReply("Block it.", "length", Usage(3, 2), "m"), 0.1, 5.0, 1, from_ledger=False)
UNREAD = Judgement("primary", "m", "default", "h", reason="prose: no numbers", zeros=0, call_id="c")


@pytest.fixture(autouse=True)
def _started_as_users_start_it(monkeypatch):
    """By a command of its own, and not forked from a warm one."""
    monkeypatch.setattr(embedded, "subprocess", subprocess)
    monkeypatch.setattr(embedded, "time", time)


def inserted(store, name):
    """Hand a call over to the writer of a store, and return the future of it."""
    return store.writer.submit("calls", InsertOne({"_id": name}))


def keep(store, *records):
    """Hand records over that nobody waits for, and wait until they are written."""
    for record in records:
        store.writer.post(record)
    asyncio.run(store.writer.settled())


def change_run(store, name, fields):
    """Hand a change of a stored run over."""
    store.writer.post(Record("runs", {}, {}, {"$set": fields}), {"_id": name})


def server_pid(folder):
    """Return the process that serves the store of a folder."""
    return json.loads((folder / "server.json").read_text())["pid"]


def test_an_abandoned_store_is_closed_beside_who_collects_it(tmp_path, monkeypatch):
    """Its server is gone, and closing waits for it: not in the loop where paid replies come, which would time out."""
    closed = Queue()
    disconnect = me.disconnect
    noting = lambda alias: (closed.put(threading.current_thread()), disconnect(alias))  # noqa: E731
    monkeypatch.setattr(me, "disconnect", noting)
    folder = tmp_path / ".store"
    held = open_store(folder)
    inserted(held, "queued").result()
    embedded.stop(folder)

    async def collect():
        gc.collect()

    cycle = [held]
    cycle.append(cycle)
    del held, cycle
    asyncio.run(collect())
    thread = closed.get(timeout=60)
    assert thread is not threading.main_thread()
    thread.join(60)
    again = open_store(folder)
    assert again.objects(Call).filter(__raw__={"_id": "queued"}).count() == 1
    again.close()
    again.close()  # twice is once
    embedded.stop(folder)


def test_processes_that_start_at_once_share_one_server(store_folder):
    """Four find one and the same, and a second server on its data refuses."""
    code = "import sys, pathlib; from toolkit.store import embedded; print(embedded.address(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", code, str(store_folder)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    (address,) = {child.communicate()[0].strip() for child in children}
    assert unquote_plus(address) == f"mongodb://{store_folder.resolve() / 'server.sock'}"
    serve = [sys.executable, "-m", "toolkit.store.embedded_server", str(store_folder)]
    second = subprocess.run(serve, capture_output=True, text=True, check=False)
    assert second.returncode != 0
    assert "another embedded server" in second.stderr


def test_acknowledged_writes_survive_a_killed_server(store_folder):
    """After SIGKILL of the server every acknowledged document is there, under a new server."""
    store = open_store(store_folder)
    for number in range(50):
        inserted(store, f"call-{number}").result()
    pid = server_pid(store_folder)
    os.kill(pid, signal.SIGKILL)
    store.close()
    wait_for(lambda: not is_alive(pid))
    again = open_store(store_folder)
    assert again.database["calls"].count_documents({}) == 50
    again.close()


def test_a_server_of_a_removed_folder_takes_nothing_from_the_next(store_folder):
    """It ends later, and the record that stands there then is not its own."""
    embedded.address(store_folder, idle_seconds=2)
    first = server_pid(store_folder)
    shutil.rmtree(store_folder)
    address = embedded.address(store_folder)
    wait_for(lambda: not is_alive(first))
    assert embedded.address(store_folder) == address
    store = open_store(store_folder)
    assert store.database["calls"].count_documents({}) == 0
    store.close()


def test_the_socket_and_the_data_are_its_users_alone(store_folder, tmp_path):
    """No port is open, and no other account of the machine may connect or read; a path of any length will do."""
    deep = tmp_path / ("long" * 20) / ("folder" * 10) / ".store"
    for folder in (store_folder, deep):
        uri = embedded.address(folder)
        place = Path(unquote_plus(uri.removeprefix("mongodb://")))
        store = Store(uri, folder)
        inserted(store, "one").result()
        server = psutil.Process(server_pid(folder))
        listening = (c for c in server.net_connections() if c.status == psutil.CONN_LISTEN)
        assert all(connection.family == socket.AF_UNIX for connection in listening)
        assert stat.S_ISSOCK(place.stat().st_mode)
        for path in (place, *(folder / "data").glob("*.db")):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        store.close()
        embedded.stop(folder)
    assert place.parent != deep
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


def test_a_server_comes_and_goes_by_itself(store_folder):
    """A record left by a dead server, or torn, leads to a new one; one that nobody uses ends."""
    store_folder.mkdir(parents=True)
    for text in ('{"pid": 1, "port": 9}', '{"pid": 1, "socket": "nowhere"}', '{"pid":', "[]"):
        (store_folder / "server.json").write_text(text)
        assert "server.sock" in embedded.address(store_folder)
        embedded.stop(store_folder)
    embedded.address(store_folder, idle_seconds=0.3)
    wait_for(lambda: not (store_folder / "server.json").exists())


def test_a_store_that_cannot_be_opened_is_one_line(tmp_path, monkeypatch):
    """It names the folder and what to change, or MONGODB_URI without its password."""
    (tmp_path / "file").write_text("")
    refusal("choose another `output`", embedded.address, tmp_path / "file" / "store", error=StoreError)
    monkeypatch.setattr(connection, "ANSWER_MS", 200)
    uri = "mongodb://me:canary-secret@127.0.0.1:9/"
    monkeypatch.setenv("MONGODB_URI", uri)
    assert "canary-secret" not in refusal("MONGODB_URI", open_store, Path("unused"), error=StoreError)


def test_mongodb_uri_is_used_when_set(store_folder, monkeypatch):
    """With MONGODB_URI no embedded server is started for the folder."""
    monkeypatch.setenv("MONGODB_URI", embedded.address(store_folder))
    opened = open_store(store_folder.parent / "never-made")
    assert opened.folder is None
    assert not (store_folder.parent / "never-made").exists()
    opened.close()


# What one of the ways of storing numbers or moments has changed once, in a document or in a part of one.
FLOATS = st.sampled_from(
    [422.5744880000093, 0.1 + 0.2, -0.0, 5e-324, 2.2250738585072009e-308, 1.7976931348623157e308, 1e22, 4.0]
) | st.floats(allow_nan=False, allow_infinity=False)
INTEGERS = st.sampled_from([0, 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text("abcz_é0", min_size=1, max_size=3)
IDS = st.binary(min_size=12, max_size=12).map(ObjectId)
VALUES = st.none() | st.booleans() | INTEGERS | FLOATS | MOMENTS | TEXTS | IDS
PARTS = st.dictionaries(
    NAMES, VALUES | st.lists(VALUES, max_size=3) | st.dictionaries(NAMES, VALUES, max_size=2), max_size=4
)
OF_FIELD = {
    me.FloatField: FLOATS,
    me.IntField: INTEGERS,
    me.BooleanField: st.booleans(),
    me.DateTimeField: MOMENTS,
    me.StringField: TEXTS,
    me.DictField: PARTS,
    me.ListField: st.lists(VALUES | PARTS, max_size=3),
    me.EmbeddedDocumentField: PARTS,
}


def fields_of(kind):
    """Draw a value for every field of a document class but its identity."""
    fields = {field.db_field: type(field) for field in kind._fields.values() if field.db_field != "_id"}
    return st.fixed_dictionaries({name: OF_FIELD[field] for name, field in fields.items()})


def bits(value):
    """Return what tells two values apart that compare equal: kinds of numbers, signs of zero, moments to the ms."""
    if isinstance(value, dict):
        return {name: bits(part) for name, part in value.items()}
    if isinstance(value, list):
        return [bits(part) for part in value]
    if isinstance(value, datetime):
        return "date", (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    kind = "integer" if isinstance(value, int) and not isinstance(value, bool) else type(value).__name__
    return kind, repr(value)


def save(store, kind, versions):
    """Save an object of mongoengine with these values, one version after the other, and return what is there then."""
    with pytest.MonkeyPatch.context() as patch:  # its classes know no store, see `Store.objects`
        patch.setattr(kind, "_collection", collection := store.database["saved"], raising=False)
        thing = kind()
        if kind._meta["id_field"] != "id":
            thing.pk = "saved"
        for values in versions:
            for field in kind._fields.values():
                if field.db_field != "_id" and not isinstance(field, me.EmbeddedDocumentField):
                    setattr(thing, field.name, values[field.db_field])
                    thing._mark_as_changed(field.db_field)  # it takes 0 for False, and would leave that
            thing.save(validate=False)
        row = collection.find_one({"_id": thing.pk}, {"_id": 0})
        collection.delete_many({})
    return dict(row or {})


def test_whatever_is_written_comes_back_bit_for_bit(store):
    """Every class of documents, every way of writing and of reading: floats, integers, truths, moments, texts."""
    things = store.database["things"]

    def write_and_read(kind, old, new, part):
        things.delete_many({})
        others = ("replaced", "set", "found", "bulk", "bulk replaced", "parts")
        things.insert_many([{"_id": name, **old} for name in ("many", *others)])
        things.insert_one({"_id": "inserted", **new})
        things.replace_one({"_id": "replaced"}, new)
        things.replace_one({"_id": "put"}, new, upsert=True)
        things.update_one({"_id": "set"}, {"$set": new})
        things.update_one({"_id": "added"}, {"$set": new}, upsert=True)
        things.update_one({"_id": "first"}, {"$setOnInsert": new}, upsert=True)
        things.update_many({"_id": "first"}, {"$setOnInsert": old})
        things.find_one_and_update({"_id": "found"}, {"$set": new})
        things.bulk_write(
            [
                InsertOne({"_id": "bulk inserted", **new}),
                UpdateOne({"_id": "bulk"}, {"$set": new, "$currentDate": {"touched": True}}),
                ReplaceOne({"_id": "bulk replaced"}, new),
                ReplaceOne({"_id": "bulk put"}, new, upsert=True),
                UpdateOne({"_id": "parts"}, {"$set": {"new.part": part, "new.list": [part]}}),
                UpdateOne({"_id": "twice"}, {"$set": old, "$setOnInsert": {"first": part}}, upsert=True),
                UpdateOne({"_id": "twice"}, {"$set": new, "$setOnInsert": {"first": 1}}, upsert=True),
            ],
            ordered=False,
        )
        gone = {"$set": {"new.list.0": part, "new.gone": 1}, "$unset": {"no.such": ""}}
        things.update_one({"_id": "parts"}, gone)
        things.update_one({"_id": "parts"}, {"$unset": {"new.gone": ""}})
        expected = dict.fromkeys(
            (*others, "inserted", "put", "added", "first", "bulk inserted", "bulk put"), new
        )
        expected |= {
            "many": old,
            "twice": {**new, "first": part},
            "parts": {**old, "new": {"part": part, "list": [part]}},
        }
        ways = {
            "found": things.find(),
            "without": things.aggregate([{"$project": {"none such": 0}}]),
            "only": things.find({}, dict.fromkeys({*new, "new", "first"}, 1)),
            "by id": things.find({"_id": {"$in": list(expected)}}),
        }
        for way, reading in ways.items():
            rows = {row.pop("_id"): row for row in reading}
            assert rows.keys() == expected.keys(), way
            for name, row in rows.items():
                if name == "bulk" and way != "only":
                    assert abs(row.pop("touched") - utc_now()) < timedelta(minutes=5)
                assert bits(row) == bits(expected[name]), (way, name)
        # mongoengine keeps no empty lists and tables, and parts that are documents have classes of their own.
        saved = save(store, kind, [old, new])
        assert bits(saved) == bits({name: new[name] for name in new if name in saved})
        assert all(name in saved or new[name] in ([], {}) or name in ("tokens", "economics") for name in new)

    for kind in documents.DOCUMENTS:
        drawn = given(st.just(kind), fields_of(kind), fields_of(kind), VALUES)
        settings(max_examples=10)(drawn(write_and_read))()


def test_sums_of_money_are_those_of_the_values_to_the_last_bit(store):
    """Sums of the embedded server have 15 digits, and those of another depend on the order of its documents."""
    drawn = random.Random(16)
    costs = [drawn.random() / 100 for _ in range(600)]
    states = ("done", "failed", "claimed")
    for number, aud in enumerate(costs):
        about = {"study": "s", "state": states[number % 3], "attempts": [{}] * (number % 4)}
        call = {"_id": f"{number:064d}", **about, "aud_cost": aud, "unsure_aud": aud / 3, "worst_aud": 1.0}
        store.database["calls"].insert_one(call)
        about = {"kind": "judgement", "study": "s", "run_id": f"run {number % 200}"}
        said = {**about, "call_id": str(number), "aud_cost": aud}
        store.database["annotations"].insert_one(said)
    store.database["annotations"].insert_one({**about, "run_id": "run 0", "aud_cost": None})
    by_state = calls_by_state(store, "s")
    for first, state in enumerate(states):
        own, calls = costs[first::3], by_state[state]
        assert calls.count == 200
        assert (calls.aud, calls.unsure_aud) == (math.fsum(own), math.fsum(aud / 3 for aud in own))
    every = math.fsum([*costs, *(aud / 3 for aud in costs)])
    assert spent_and_held(store, "s")[0] == pytest.approx(every, rel=1e-15)
    of_judges = {f"run {number}": math.fsum(costs[number::200]) for number in range(200)}
    assert frames._judge_costs(store, {"study": "s"}) == of_judges


def test_more_than_one_reply_holds_comes_in_several(store):
    """Twenty-four megabytes of documents arrive whole and in order, in replies that every driver takes."""
    things = store.database["things"]
    for number in range(8):
        things.insert_one({"_id": number, "text": str(number) * 3_000_000})
    cursor = things.find({}, batch_size=100).sort("_id", 1)
    assert next(cursor)["_id"] == 0
    assert cursor.alive  # not all in one
    assert [(one["_id"], len(one["text"])) for one in cursor] == [(n, 3_000_000) for n in range(1, 8)]


@pytest.mark.parametrize(("projection", "expected"), CASES["projections"])
def test_a_projection_gives_fields_as_they_were_written(store, projection, expected):
    """Fields of tables keep their place, floats all digits, and null is not the same as absent."""
    store.database["things"].insert_one(CASES["projected"])
    assert store.database["things"].find_one({}, projection) == expected


def test_a_cursor_goes_on_while_documents_are_deleted_and_changed(store):
    """What was deleted after the first batch is not sent, and no other document is missing or sent twice."""
    things = store.database["things"]
    names = [f"{number:03}" for number in range(700)]
    things.insert_many([{"_id": name, "kind": "a", "old": True} for name in names])
    cursor = things.find({"kind": "a"}, batch_size=100).sort("_id", 1)
    first = [next(cursor)["_id"] for _ in range(100)]
    things.delete_many({"_id": {"$in": names[150:250]}})
    things.update_many({}, {"$set": {"old": False}})
    others = list(cursor)
    assert [*first, *(document["_id"] for document in others)] == [*names[:150], *names[250:]]
    assert not any(document["old"] for document in others)


def test_in_and_equality_use_the_index_of_a_field(store_folder):
    """Also the first field of an index of several; without it a read in parts reads the collection each time."""
    store = open_store(store_folder)
    store.close()
    embedded.stop(store_folder)
    program = """
import sys
from neosqlite.collection.query_helper import QueryHelper
from toolkit.store import embedded_server
embedded_server.use_indexes()
database = embedded_server.Handler(data_dir=sys.argv[1]).get_database("toolkit")
for name, field in (("runs", "call_id"), ("annotations", "run_id"), ("annotations", "study"), ("calls", "study")):
    for condition in ({"$in": ["a", "b"]}, "a"):
        collection = database[name]
        where, values, _ = collection.query_engine.helpers._build_simple_where_clause({field: condition})
        plan = database.db.execute(f"EXPLAIN QUERY PLAN SELECT id FROM {name} {where}", values).fetchall()
        print(plan[0][-1])
"""
    command = [sys.executable, "-c", program, str(store_folder / "data")]
    plans = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(plans) == 8
    assert all(plan.startswith("SEARCH") and "INDEX" in plan for plan in plans), plans


def test_a_bulk_tells_each_writer_of_its_own_fate(store):
    """Only duplicates are refused, an update waits for the insert before it, and closing writes what is queued."""
    first = [inserted(store, str(n)) for n in range(100)]
    second = [inserted(store, str(n)) for n in range(90, 110)]
    assert [future.exception() for future in first] == [None] * 100
    assert [type(future.exception()) for future in second] == [Duplicate] * 10 + [type(None)] * 10
    assert store.database["calls"].count_documents({}) == 110
    for number in range(200, 400):
        store.writer.submit("calls", InsertOne({"_id": str(number), "state": "claimed"}))
        last = store.writer.submit("calls", UpdateOne({"_id": str(number)}, {"$set": {"state": "done"}}))
    last.result()
    assert store.database["calls"].count_documents({"state": "done"}) == 200
    futures = [inserted(store, f"last {n}") for n in range(1200)]
    store.writer.close()
    assert all(future.done() and future.exception() is None for future in futures)


def text_record(number):
    """Return the record of a text that nobody waits for."""
    blob = {"blob_id": str(number), "content": "", "created_at": utc_now()}
    return Record("output_blobs", blob, {"blob_id": str(number)}, None)


def test_what_nobody_waits_for_gathers_beside_what_is_flushed(store, monkeypatch):
    """Thirty replies one after the other are thirty flushed writes, and their texts a bulk every second here.

    Every tenth of a second otherwise, which one flush takes on a slow disk: then each text would be a bulk of its own.
    What is flushed at once is not split: the embedded server flushes a command once, at its end. Another server is
    asked to flush them all, because it does so for all of its clients together.
    """
    noted = []  # of each bulk: collection, flushed, operations
    bulk = writer._bulk

    def noting(collection, operations, again=False):
        noted.append((collection.name, collection.write_concern.document["j"], len(operations)))
        return bulk(collection, operations, again)

    monkeypatch.setattr(writer, "_bulk", noting)
    monkeypatch.setattr(writer, "POSTED_SECONDS", 1.0)

    async def ask():
        began = time.monotonic()
        for number in range(30):
            await store.writer.write("calls", InsertOne({"_id": str(number)}), flush=True)
            store.writer.post(text_record(number))
        await store.writer.settled()
        took = time.monotonic() - began
        paid = [one for one in noted if one[0] == "calls"]
        assert paid == [("calls", True, 1)] * 30
        assert [one for one in noted if one[1] and one[0] != "calls"] == [] or store.folder is None
        many = (InsertOne({"_id": f"at once {number}"}) for number in range(LARGEST_BULK))
        await asyncio.gather(*(store.writer.write("calls", insert, flush=True) for insert in many))
        return took

    most = 1 + asyncio.run(ask()) / writer.POSTED_SECONDS
    texts = [count for name, _, count in noted if name == "output_blobs"]
    assert sum(texts) == store.objects(OutputBlob).count() == 30
    assert len(texts) <= min(most, 20)
    flushed = [count for name, _, count in noted if name == "calls"]
    assert sum(flushed) == 30 + LARGEST_BULK
    assert len(flushed) <= 35


def test_a_posted_record_is_written_though_nobody_asks(store, monkeypatch):
    """One that comes alone waits for no other; however long they may gather, settling and closing keep them at once."""
    store.writer.post(text_record(1))
    wait_for(store.objects(OutputBlob).count)
    monkeypatch.setattr(writer, "POSTED_SECONDS", 600.0)
    for number in (2, 3):
        store.writer.post(text_record(number))
    asyncio.run(asyncio.wait_for(store.writer.settled(), 120))
    assert store.objects(OutputBlob).count() == 3
    store.writer.post(text_record(4))
    store.writer.close()
    assert store.objects(OutputBlob).count() == 4


def test_what_others_name_is_written_before_them(store, monkeypatch):
    """However they arrive together: a text before its run, a run before what is said of it, and that it counts last."""
    noted, bulk = [], writer._bulk

    def noting(collection, operations, again=False):
        noted.extend((collection.name, type(operation)) for operation in operations)
        return bulk(collection, operations, again)

    monkeypatch.setattr(writer, "_bulk", noting)
    monkeypatch.setattr(writer, "POSTED_SECONDS", 600.0)
    text, run = run_records(KEY, ABOUT, [ANSWER])
    change_run(store, run.document["_id"], {"judged": True})
    keep(store, annotation_record(run.document["run_id"], "s", UNREAD), run, text)
    assert noted == [
        ("output_blobs", InsertOne),
        ("runs", InsertOne),
        ("annotations", InsertOne),
        ("runs", UpdateOne),
    ]
    assert store.objects(Run).get().judged


def test_nothing_is_written_after_a_record_that_could_not_be_kept(store):
    """A refused record is told to whoever settles, and what stands behind it in the queue is not written."""
    bad = {"blob_id": "a", "$bad": {"$x": 1}, "b": {1: 2}}
    for record in (Record("output_blobs", bad, {"blob_id": "a"}, None), text_record(1)):
        refusal(None, keep, store, record, error=StoreError)
    assert store.objects(OutputBlob).count() == 0
    inserted(store, "paid").result()  # what was paid for is still taken


def test_a_change_that_matches_nothing_is_no_success(store):
    """Who changes what was removed hears of it."""
    things = store.database["things"]
    things.insert_many([{"_id": "a", "owner": "x"}, {"_id": "b", "owner": "x"}])
    changes = [UpdateOne({"_id": name, "owner": "x"}, {"$set": {"n": 1}}) for name in ("a", "gone", "b")]
    futures = [store.writer.submit("things", change) for change in changes]
    assert [type(future.exception()) for future in futures] == [type(None), Unmatched, type(None)]
    assert type(store.writer.submit("things", ReplaceOne({"_id": "c"}, {"n": 1})).exception()) is Unmatched
    change_run(store, "gone", {"judged": True})
    with pytest.raises(Unmatched):
        keep(store)


@pytest.mark.parametrize(("options", "concern"), CASES["concerns"])
def test_the_concern_of_the_address_holds_and_reads_go_to_the_primary(store_folder, options, concern):
    """Every write is acknowledged as the address says and journaled; no read of ledger or budget asks a secondary."""
    seen = []

    def note(command, reply):
        if any(name in command for name in ("insert", "update", "delete", "findAndModify")):
            seen.append(command.get("writeConcern"))

    with Wire(embedded.address(store_folder), note=note) as wire:
        store = Store(f"{wire.uri}/?{options}{'&' * bool(options)}readPreference=secondaryPreferred", None)
        ledger = Ledger(store, "s")
        ledger.owner.start()
        asyncio.run(Account(ledger.owner, 1.0).reserve(0.1))
        inserted(store, "a").result()
        store.writer.submit("calls", ReplaceOne({"_id": "a"}, {"state": "done"}), flush=True).result()
        ledger.owner.close()
        assert len(seen) > 5
        assert all(one == concern for one in seen), seen
        level = {"w=2": "local"}.get(options[:3], "majority" if concern["w"] == "majority" else None)
        for collection in (store.database["calls"], store.objects(Call)._collection):
            assert collection.read_preference == ReadPreference.PRIMARY
            assert collection.read_concern.level == level
        assert store.writer._database.read_preference == ReadPreference.PRIMARY
        store.close()


def test_the_database_of_the_address_is_used(store_folder):
    """Two people of one server are apart."""
    with Wire(embedded.address(store_folder)) as wire:
        stores = {name: Store(f"{wire.uri}/{name}", None) for name in ("alice", "bob", "")}
        assert [store.database.name for store in stores.values()] == ["alice", "bob", "toolkit"]
        for name, store in stores.items():
            inserted(store, name).result()
        assert [store.database["calls"].count_documents({}) for store in stores.values()] == [1, 1, 1]
        for store in stores.values():
            store.close()
    for uri in ("mongodb://", "mongodb://127.0.0.1/?w=0&journal=true", "mongodb://127.0.0.1/?w=1&=2"):
        refusal("check MONGODB_URI", Store, uri, None, error=StoreError)


def test_prompts_are_stored_once_and_never_change_under_a_version(store):
    """The same prompt twice is one; another text under the same version is refused."""
    prompts = load_dataset("demo").prompts[:3]
    store.add_prompts(prompts)
    store.add_prompts(prompts)
    assert store.objects(Prompt).count() == 3
    store.database["prompts"].update_one({"prompt_id": prompts[0].prompt_id}, {"$set": {"text": "other"}})
    refusal("new dataset_version", store.add_prompts, prompts, error=StoreError)


def test_seed_fields_are_there_to_the_letter_and_checked():
    """Prompt, Run and OutputBlob have every field of seed 002, section 3.1; an unknown length is refused."""
    prompt = "prompt_id text scenario category length_bin token_count dataset_version metadata created_at updated_at"
    run = (
        "run_id prompt_id model status prompt_length_bin tokens economics scores ensemble_evaluation output_blob_id "
        "bias_controls created_at updated_at"
    )
    blob = "blob_id content metadata created_at"
    for document, names in ((Prompt, prompt), (Run, run), (OutputBlob, blob)):
        assert set(names.split()) <= set(document._fields)
    with pytest.raises(me.ValidationError):
        Prompt(prompt_id="p", text="t", length_bin="X", token_count=1, dataset_version="v").validate()


def test_a_run_written_again_keeps_what_its_judges_found(store):
    """A second process that writes the same run late takes nothing away from it, and a success keeps no failure."""
    keep(store, failed_run_record(KEY, ABOUT, "timeout: no reply"))
    keep(store, *run_records(KEY, ABOUT, [ANSWER]))
    (before,) = store.objects(Run)
    assert (before.status, before.failure) == ("succeeded", None)
    evaluation = ensemble_evaluation([], judges=[])
    fields = evaluation_fields([], "k", before.output_blob_id, {}, SEED_SCHEME, [])
    change_run(store, before.id, fields)
    keep(store, *run_records(KEY, ABOUT, [ANSWER]))
    (after,) = store.objects(Run)
    assert (after.run_id, after.ensemble_evaluation) == (before.run_id, evaluation)
    assert store.objects(OutputBlob).count() == 1


def test_records_built_by_hand_are_what_the_document_classes_say():
    """Runs, texts and judgements pass their own class's checks, and hold no field that it does not know."""
    blob, run = run_records(KEY, ABOUT, [ANSWER], defect="truncated", policy="keep")
    failed = failed_run_record(KEY, {**ABOUT, "prompt_length_bin": None}, "timeout: no reply")
    good = replace(UNREAD, reason=None, scores={"clarity": 4.0}, composite=4.0, composite_strict=4.0)
    said = [(annotation_record("r", "s", one), documents.Annotation) for one in (good, UNREAD)]
    for record, document in [(blob, OutputBlob), (run, Run), (failed, Run), *said]:
        assert record.collection == document._meta["collection"]
        assert set(record.document) - {"_id"} <= set(document._fields)
        document(**{name: value for name, value in record.document.items() if name != "_id"}).validate()
    assert "failure" not in run.document
    assert "tokens" not in failed.document
    assert "failure" in run.change["$unset"]


def test_a_store_of_another_version_is_refused_in_one_line_and_left_as_it_is(store_folder):
    """Nothing of it is read, whichever toolkit wrote it."""
    store = open_store(store_folder)
    assert store.database[LAYOUT].find_one({"_id": "schema"})["version"] == 1
    store.database[LAYOUT].update_one({"_id": "schema"}, {"$set": {"version": 9}})
    message = r"\.store: the store has version 9 and this toolkit reads version 1"
    refusal(message, open_store, store_folder, error=StoreError)
    assert store.database[LAYOUT].find_one({"_id": "schema"})["version"] == 9
    store.close()

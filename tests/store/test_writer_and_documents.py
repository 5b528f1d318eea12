"""Writes are durable before they are acknowledged, duplicates are told apart, documents are checked."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import mongoengine as me
import pytest
from pymongo import InsertOne, UpdateOne
from waiting import wait_for

from toolkit.errors import StoreError
from toolkit.judges.ensemble import ensemble_evaluation
from toolkit.judges.judgement import Judgement
from toolkit.models.base import Answer, ModelReply, Usage
from toolkit.prompts.dataset import load_dataset
from toolkit.store import writer
from toolkit.store.connection import Store
from toolkit.store.documents import Call, OutputBlob, Prompt, Run, utc_now
from toolkit.store.documents import Judgement as JudgementDocument
from toolkit.store.records import evaluation_fields, failed_run_record, judgement_record, run_records
from toolkit.store.writer import LARGEST_BULK, TOUCH, Duplicate, Record


def test_a_bulk_tells_each_writer_of_its_own_fate(store: Store) -> None:
    """In one bulk the new documents are written and only the duplicates are refused."""
    first = [store.writer.submit("calls", InsertOne({"_id": str(n)})) for n in range(100)]
    second = [store.writer.submit("calls", InsertOne({"_id": str(n)})) for n in range(90, 110)]
    assert [future.exception() for future in first] == [None] * 100
    assert [type(future.exception()) for future in second] == [Duplicate] * 10 + [type(None)] * 10
    assert store.database["calls"].count_documents({}) == 110


def test_an_update_waits_for_the_insert_before_it(store: Store) -> None:
    """Operations on one document take effect in the order in which they were handed in."""
    for number in range(200):
        store.writer.submit("calls", InsertOne({"_id": str(number), "state": "claimed"}))
        last = store.writer.submit("calls", UpdateOne({"_id": str(number)}, {"$set": {"state": "done"}}))
    last.result()
    assert store.database["calls"].count_documents({"state": "done"}) == 200


def test_closing_writes_what_is_queued(store: Store) -> None:
    """Nothing that was handed in is lost at the end."""
    futures = [store.writer.submit("calls", InsertOne({"_id": str(n)})) for n in range(1200)]
    store.writer.close()
    assert all(future.done() and future.exception() is None for future in futures)


def text_record(number: int) -> Record:
    """Return the record of a text that nobody waits for."""
    blob = {"blob_id": str(number), "content": "", "created_at": utc_now()}
    return Record("output_blobs", blob, {"blob_id": str(number)}, None)


def bulks_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool, int]]:
    """Return a list that every bulk written from now on is noted in: collection, flushed, operations."""
    noted: list[tuple[str, bool, int]] = []
    bulk = writer._bulk

    def noting(collection: Any, operations: list[Any]) -> dict[int, Exception]:
        noted.append((collection.name, collection.write_concern.document["j"], len(operations)))
        return bulk(collection, operations)

    monkeypatch.setattr(writer, "_bulk", noting)
    return noted


def test_what_nobody_waits_for_gathers_beside_what_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty replies one after the other are thirty flushed writes, and their texts a bulk every second here.

    Every tenth of a second otherwise, which one flush takes on a slow disk: then each text would be a bulk of its own.
    """
    noted = bulks_of(monkeypatch)
    monkeypatch.setattr(writer, "POSTED_SECONDS", 1.0)

    async def ask() -> None:
        for number in range(30):
            await store.writer.write("calls", InsertOne({"_id": str(number)}), flush=True)
            store.writer.post(text_record(number))
        await store.writer.settled()

    began = time.monotonic()
    asyncio.run(ask())
    most = 1 + (time.monotonic() - began) / writer.POSTED_SECONDS
    assert [one for one in noted if one[1]] == [("calls", True, 1)] * 30
    texts = [count for name, _, count in noted if name == "output_blobs"]
    assert sum(texts) == 30
    assert len(texts) <= min(most, 20)
    assert store.objects(OutputBlob).count() == 30


def test_a_posted_record_is_written_though_nobody_asks(store: Store) -> None:
    """A record that comes alone does not wait for another."""
    store.writer.post(text_record(1))
    wait_for(store.objects(OutputBlob).count)
    assert store.objects(OutputBlob).count() == 1


def test_settling_and_closing_do_not_wait_for_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long records may gather, who settles or closes has them kept at once."""
    monkeypatch.setattr(writer, "POSTED_SECONDS", 600.0)
    for number in range(3):
        store.writer.post(text_record(number))
    asyncio.run(asyncio.wait_for(store.writer.settled(), 120))
    assert store.objects(OutputBlob).count() == 3
    store.writer.post(text_record(3))
    store.writer.close()
    assert store.objects(OutputBlob).count() == 4


def test_many_flushed_writes_are_one_command(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is flushed is not split: the embedded server flushes a command once, at its end."""
    noted = bulks_of(monkeypatch)

    async def reply() -> None:
        writes = [
            store.writer.write("calls", InsertOne({"_id": str(n)}), flush=True) for n in range(LARGEST_BULK)
        ]
        await asyncio.gather(*writes)

    asyncio.run(reply())
    assert {(name, flushed) for name, flushed, _ in noted} == {("calls", True)}
    assert sum(count for _, _, count in noted) == LARGEST_BULK
    assert len(noted) <= 5
    assert store.database["calls"].count_documents({}) == LARGEST_BULK


def test_prompts_are_stored_once_and_never_change_under_a_version(store: Store) -> None:
    """The same prompt twice is one; another text under the same version is refused."""
    prompts = load_dataset("demo").prompts[:3]
    store.add_prompts(prompts)
    store.add_prompts(prompts)
    assert store.objects(Prompt).count() == 3
    store.database["prompts"].update_one({"prompt_id": prompts[0].prompt_id}, {"$set": {"text": "other"}})
    with pytest.raises(StoreError, match="new dataset_version"):
        store.add_prompts(prompts)


def test_seed_fields_are_there_to_the_letter() -> None:
    """Prompt, Run and OutputBlob have every field of seed 002, section 3.1."""
    prompt = "prompt_id text scenario category length_bin token_count dataset_version metadata created_at updated_at"
    run = (
        "run_id prompt_id model status prompt_length_bin tokens economics scores ensemble_evaluation output_blob_id "
        "bias_controls created_at updated_at"
    )
    blob = "blob_id content metadata created_at"
    for document, names in ((Prompt, prompt), (Run, run), (OutputBlob, blob)):
        assert set(names.split()) <= set(document._fields)


def test_a_wrong_document_is_refused_before_it_is_written() -> None:
    """An unknown scenario, a short run id and a negative cost do not reach the store."""
    with pytest.raises(me.ValidationError):
        Prompt(
            prompt_id="p",
            text="t",
            scenario="X",
            category="c",
            length_bin="S",
            token_count=1,
            dataset_version="v",
        ).validate()
    with pytest.raises(me.ValidationError):
        Call(call_id="short", state="done", owner="o").validate()


def test_moments_come_back_in_utc(store: Store) -> None:
    """A stored moment has a time zone and is the one that was written."""
    now = utc_now()
    store.writer.submit("calls", InsertOne({"_id": "x", "created_at": now, "updated_at": now})).result()
    store.writer.submit("calls", UpdateOne({"_id": "x"}, {"$set": {"state": "done"}, **TOUCH})).result()
    found = store.objects(Call).only("created_at", "updated_at").get(call_id="x")
    assert found.created_at == now
    assert now <= found.updated_at <= utc_now() + timedelta(seconds=1)


def test_a_run_written_again_keeps_what_its_judges_found(store: Store) -> None:
    """A second process that writes the same run late takes nothing away from it, and a success keeps no failure."""
    key = {"study": "s", "test": "t", "prompt_id": "p", "model": "m", "repeat": 0, "call_id": "c"}
    fields = {"test_item": "p", "dataset_version": "v", "bias_controls": {}}
    answer = Answer("c", ModelReply("Block it.", "stop", Usage(3, 2), "m"), 0.1, 5.0, 1, from_ledger=False)

    def keep(*records: Record) -> None:
        for record in records:
            store.writer.post(record)
        asyncio.run(store.writer.settled())

    keep(failed_run_record(key, fields, "timeout: no reply"))
    keep(*run_records(key, fields, answer))
    (before,) = store.objects(Run)
    assert (before.status, before.failure) == ("succeeded", None)
    evaluation = ensemble_evaluation([])
    store.writer.post_change("runs", before.id, evaluation_fields([], "k", before.output_blob_id, {}))
    keep(*run_records(key, fields, answer))
    (after,) = store.objects(Run)
    assert after.run_id == before.run_id
    assert after.ensemble_evaluation == evaluation
    assert store.objects(OutputBlob).count() == 1


def test_records_built_by_hand_are_what_the_document_classes_say() -> None:
    """Runs, texts and judgements pass their own class's checks, and hold no field that it does not know."""
    key = {"study": "s", "test": "t", "prompt_id": "p", "model": "m", "repeat": 0, "call_id": "c"}
    fields = {"test_item": "p", "dataset_version": "v", "bias_controls": {}, "prompt_length_bin": "S"}
    answer = Answer("c", ModelReply("Block", "length", Usage(3, 2), "m"), 0.1, 5.0, 1, from_ledger=False)
    blob, run = run_records(key, fields, answer, defect="truncated", policy="keep")
    failed = failed_run_record(key, {**fields, "prompt_length_bin": None}, "timeout: no reply")
    good = Judgement(
        "primary", "m", "default", "h", scores={"clarity": 4.0}, composite=4.0, composite_strict=4.0
    )
    bad = Judgement("primary", "m", "default", "h", reason="prose: no numbers")
    said = [judgement_record("r", "s", replace(judgement, zeros=0, call_id="c")) for judgement in (good, bad)]
    for record, document in [
        (blob, OutputBlob),
        (run, Run),
        (failed, Run),
        *((r, JudgementDocument) for r in said),
    ]:
        assert record.collection == document._meta["collection"]
        assert set(record.document) <= set(document._fields)
        document(**record.document).validate()
    assert "failure" not in run.document
    assert "tokens" not in failed.document
    assert "failure" in run.change["$unset"]


def test_nothing_is_written_after_a_record_that_could_not_be_kept(store: Store) -> None:
    """A refused record is told to whoever settles, and what stands behind it in the queue is not written."""
    store.writer.post(
        Record("output_blobs", {"blob_id": "a", "$bad": {"$x": 1}, "b": {1: 2}}, {"blob_id": "a"}, None)
    )
    with pytest.raises(StoreError):
        asyncio.run(store.writer.settled())
    store.writer.post(Record("output_blobs", {"blob_id": "b", "content": ""}, {"blob_id": "b"}, None))
    with pytest.raises(StoreError):
        asyncio.run(store.writer.settled())
    assert store.objects(OutputBlob).count() == 0
    store.writer.submit("calls", InsertOne({"_id": "paid"})).result()  # what was paid for is still taken

"""Compare what the store of a study says with itself: a replay takes the ledger for the truth and cannot see it.

A call is named by the hash of its request, sealed when it is written, and costs its tokens at the price of its model.
Ratings by people, and judgements under other settings, are in no replay either.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from ulid import ULID

from toolkit.models.base import Message, ModelRequest, Usage
from toolkit.models.prices import Price, aud_cost, batch_price
from toolkit.plan import Plan
from toolkit.runs.gateway import endpoints_of
from toolkit.store.connection import Store, windows
from toolkit.store.documents import Anchor, Call, Drift, HumanRating, Judgement, PairVote, Run
from toolkit.store.drifts import anchor_document
from toolkit.store.ratings import HUMAN, Rating, all_ratings
from toolkit.store.writer import is_as_sealed

_CLOCKS: Final = timedelta(days=1)  # by which the clocks of two machines may differ, and nobody has noticed
_REPLY: Final = ("text", "finish_reason", "input_tokens", "output_tokens", "aud_cost")
_PAID: Final = ("aud_cost", "input_tokens", "output_tokens", "latency_ms")
_RUN: Final = ("run_id", "prompt_id", "model", "repeat", "call_id", "created_at")
_JUDGEMENT: Final = ("judge", "run_id", "call_ids", "created_at", *_PAID)
_Document = Mapping[str, Any]


def contradictions(plan: Plan, store: Store) -> Iterator[str]:
    """Yield a line for everything of a study that contradicts itself in the store; a thousand documents at a time."""
    study = {"study": plan.study.name}
    yield from _calls(plan, store.each_where(Call, study))
    # Studies of one results folder share calls: another one may have paid for an answer that this one rests on.
    shared: set[str] = set()
    run_lines = [*_runs(plan, store, study, shared)]
    judgement_lines = [*_judgements(store, study, shared), *_judgements(store, study, shared, Drift)]
    judgement_lines += _anchors(store, study)
    vote_lines = [*_votes(store, study, shared)]
    of_others = (call for ids in windows(sorted(shared)) for call in store.find_by(Call, "_id", ids))
    yield from _calls(plan, (call for call in of_others if call["study"] != plan.study.name))
    yield from run_lines
    yield from judgement_lines
    yield from vote_lines
    yield from _people(store, study)


def _answered(
    store: Store, study: _Document, call_ids: Iterable[str], shared: set[str]
) -> dict[str, _Document]:
    """Return cost and tokens of those calls that have a whole reply, by id; note which other studies paid for."""
    whole = {"state": "done", **{name: {"$ne": None} for name in _REPLY}}
    ids = sorted(set(call_ids))
    calls = store.find_by(Call, "_id", ids, only=("study", *_PAID), query=whole)
    own = {call["_id"] for call in calls if call["study"] == study["study"]}
    shared.update(call_id for call_id in ids if call_id not in own)
    return {call["_id"]: call for call in calls}


def _calls(plan: Plan, calls: Iterable[_Document]) -> Iterator[str]:
    prices = {endpoint.key: endpoint.price for endpoint in endpoints_of(plan)}
    misfits: dict[str, list[str]] = defaultdict(list)
    priced = Counter[str]()
    for call in calls:
        name, model = f"call {call['_id'][:12]}... of {call['model']}", call["model"]
        yield from (f"{name}: {fault}" for fault in _faults(call))
        if call["state"] == "done" and all(call.get(part) is not None for part in _REPLY):
            price = prices.get((call["provider"], model, (call.get("request") or {}).get("endpoint")))
            priced[model] += price is not None
            if price is not None and not _costs(call, price):
                misfits[model].append(f"{name}: what it cost is not its tokens at the price of its model")
    for model, lines in misfits.items():
        if len(lines) == priced[model] > 1:  # the price is another one since they were asked
            yield f"calls of {model}: none of {len(lines)} cost its tokens at the price that the model has now"
        else:
            yield from lines


def _faults(call: _Document) -> Iterator[str]:
    state, reply = call["state"], [part for part in _REPLY if call.get(part) is not None]
    if not is_as_sealed(call):
        yield "was changed after it was written: it does not have its seal"
    if state == "done" and (len(reply) < len(_REPLY) or not call.get("attempts")):
        yield "is answered, and lacks its reply, its cost or its attempts"
    if state != "done" and reply:
        yield f"is {state}, and has {reply[0]}"
    if request := call.get("request"):
        identity = None  # where it is no request
        with contextlib.suppress(KeyError, TypeError):
            messages = tuple(Message(part["role"], part["content"]) for part in request["messages"])
            identity = ModelRequest(**{**request, "messages": messages}).identity()
        if identity != call["_id"]:
            yield "its request is not the one it is named by"
        if (call["provider"], call["model"]) != (request.get("provider"), request.get("model")):
            yield "its model is not that of its request"
    cached = (call.get("cache_read_tokens") or 0) + (call.get("cache_written_tokens") or 0)
    if cached > (call.get("input_tokens") or 0):
        yield "has more cached tokens than input tokens"


def _costs(call: _Document, price: Price) -> bool:
    """Return whether a call cost its tokens on the day it was sent, singly or in a batch."""
    sent_at = (call.get("attempts") or [{}])[-1].get("at")
    day = sent_at.date() if isinstance(sent_at, datetime) else None
    read, written = (call.get(name) or 0 for name in ("cache_read_tokens", "cache_written_tokens"))
    usage = Usage(call["input_tokens"], call["output_tokens"], False, read, written)
    # What was paid keeps the exchange rate that it was booked with.
    if call.get("aud_per_usd"):
        price = price.at(call["aud_per_usd"])
    rates = (price, batch_price(price, call["provider"]))
    return any(_is_close(call["aud_cost"], aud_cost(usage, rate, day)) for rate in rates)


def _runs(plan: Plan, store: Store, study: _Document, shared: set[str]) -> Iterator[str]:
    planned, seen = frozenset(plan.call_ids), set[bytes]()
    for runs in windows(store.each_where(Run, study, only=(*_RUN, "status"))):
        answered = _answered(store, study, (run["call_id"] for run in runs), shared)
        for run in runs:
            run_id, *key, moment = (run[part] for part in _RUN)
            name = f"run of {run['prompt_id']} by {run['model']}, repeat {run['repeat']}"
            digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
            if digest in seen:
                yield f"{name}: is there twice"
            seen.add(digest)
            # Of those that are planned a replay knows whether the ledger gives them.
            call_id = run["call_id"]
            if run["status"] == "succeeded" and call_id not in planned and call_id not in answered:
                yield f"{name}: its call is not in the ledger"
            made_at = None
            with contextlib.suppress(ValueError):
                made_at = ULID.from_str(run_id).datetime
            if made_at is None or abs(made_at - moment) >= timedelta(minutes=1):
                yield f"{name}: created_at is not the moment that its run id has"


def _judgements(
    store: Store, study: _Document, shared: set[str], kind: type[Judgement | Drift] = Judgement
) -> Iterator[str]:
    for judgements in windows(store.each_where(kind, study, only=_JUDGEMENT)):
        rests = (call_id for judgement in judgements for call_id in judgement.get("call_ids") or ())
        answered = _answered(store, study, rests, shared)
        ids = (judgement["run_id"] for judgement in judgements)
        runs = store.find_by(Run, "run_id", ids, only=("run_id", "study", "created_at"))
        moments = {run["run_id"]: run["created_at"] for run in runs if run["study"] == study["study"]}
        for judgement in judgements:
            name = f"judgement by {judgement['judge']} of run {judgement['run_id']}"
            if (moment := moments.get(judgement["run_id"])) is None:
                yield f"{name}: its run is not in the store"
            elif judgement["created_at"] < moment - _CLOCKS:
                yield f"{name}: created_at is before that of its run"
            yield from (f"{name}: {fault}" for fault in _unpaid(judgement, answered))


def _votes(store: Store, study: _Document, shared: set[str]) -> Iterator[str]:
    for votes in windows(store.each_where(PairVote, study)):
        rests = (call_id for vote in votes for call_id in vote["call_ids"])
        answered = _answered(store, study, rests, shared)
        shown = [vote[name] for vote in votes for name in ("first_run_id", "second_run_id")]
        stored = store.find_by(Run, "run_id", shown, only=("run_id", "repeat", "prompt_id"))
        runs = {run["run_id"]: run for run in stored}
        for vote in votes:
            name = f"vote of {vote['judge']} on runs {vote['first_run_id']} and {vote['second_run_id']}"
            pair = [runs.get(vote[part]) for part in ("first_run_id", "second_run_id")]
            if any(
                run is None or (run["prompt_id"], run["repeat"]) != (vote["prompt_id"], vote["repeat"])
                for run in pair
            ):
                yield f"{name}: they are not two runs of its prompt in the store"
            yield from (f"{name}: {fault}" for fault in _unpaid(vote, answered))


def _unpaid(document: _Document, answered: Mapping[str, _Document]) -> Iterator[str]:
    """Yield what is wrong with the calls that a judgement or a vote rests on."""
    call_ids = document.get("call_ids") or ()
    if any(call_id not in answered for call_id in call_ids):
        yield "rests on a call that the ledger does not have"
    elif call_ids and not all(
        _is_close(document.get(part), sum(answered[call_id].get(part) or 0 for call_id in call_ids))
        for part in _PAID
    ):
        yield "its cost, tokens or latency are not those of its calls"


def _anchors(store: Store, study: _Document) -> Iterator[str]:
    """Yield which sets of judgements that are asked anew were changed, and what is of a set that is not there."""
    names = set()
    for anchor in store.find_where(Anchor, study):
        names.add(anchor["_id"])
        parts = (anchor[name] for name in ("study", "size", "rubric_hash", "replies"))
        expected = anchor_document(*parts)
        if (expected["_id"], expected["fingerprint"]) != (anchor["_id"], anchor["fingerprint"]):
            yield f"anchor set {anchor['_id'][:8]}: was changed after it was drawn"
    for name in {drift["anchor"] for drift in store.find_where(Drift, study, only=("anchor",))} - names:
        yield f"anchor set {name[:8]}: is missing, and judgements of later days are of it"


def _people(store: Store, study: _Document) -> Iterator[str]:
    """Yield which ratings were changed, and which judgements of people are not what they rated."""
    ratings = store.find_where(HumanRating, study)
    for rating in ratings:
        if not is_as_sealed(rating):
            name = f"rating {rating['version']} by {rating['rater']} of run {rating['run_id']}"
            yield f"{name}: was changed after it was given"
    newest: dict[tuple[str, str], Rating] = {}
    for digest in {rating["rubric_hash"] for rating in ratings}:
        versions = all_ratings(store, (rating["run_id"] for rating in ratings), digest)
        newest |= {(version.run_id, str(version.judgement().call_id)): version for version in versions}
    for judgement in store.each_where(Judgement, {**study, "model": HUMAN}):
        expected = newest.pop((judgement["run_id"], judgement["call_id"]), None)
        if expected is None or (judgement["scores"] or {}) != (expected.judgement().scores or {}):
            yield f"judgement by {judgement['judge']} of run {judgement['run_id']}: is not what the person rated"
    for expected in newest.values():
        yield f"judgement by {expected.judge} of run {expected.run_id}: is missing, and a rating gives it"


def _is_close(value: Any, expected: float) -> bool:
    return value is not None and math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-15)

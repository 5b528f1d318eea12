"""Find contradictions within the store of a study, which a replay cannot find because it trusts the ledger.

A call is named by the hash of its request, sealed when it is written, and costs its tokens at the price of its model.
Ratings by people, and judgements under other settings, are in no replay either.
"""

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain
from operator import itemgetter
from typing import Any

from ulid import ULID

from toolkit.models.base import Message, ModelRequest, Usage
from toolkit.models.prices import Price, aud_cost, batch_price
from toolkit.plan import Plan
from toolkit.runs.gateway import endpoints_of
from toolkit.store.connection import Store, windows
from toolkit.store.documents import JUDGEMENT, Anchor, Annotation, Call, HumanRating, Run
from toolkit.store.drifts import anchor_document
from toolkit.store.ratings import HUMAN, Rating, all_ratings
from toolkit.store.writer import is_as_sealed

_CLOCK_TOLERANCE = timedelta(days=1)  # unnoticed difference between the clocks of two machines
_USAGE = ("aud_cost", "input_tokens", "output_tokens", "latency_ms")
_KEY = ("prompt_id", "model", "repeat", "call_id")  # of a run
_Document = Mapping[str, Any]


def contradictions(plan: Plan, store: Store) -> Iterator[str]:
    """Yield a line for everything of a study that contradicts itself in the store; a thousand documents at a time."""
    study = {"study": plan.study.name}
    yield from _calls(plan, store.each_where(Call, study))
    # Making the list fills `foreign`: calls that another study of this results folder may have paid for.
    foreign: set[str] = set()
    lines = [*_runs(store, study, foreign), *_annotations(store, study, foreign)]
    yield from _calls(
        plan, store.find_by(Call, "_id", sorted(foreign), query={"study": {"$ne": plan.study.name}})
    )
    yield from lines
    yield from _anchors(store, study)
    yield from _human_ratings(store, study)


def _answered(store: Store, study: _Document, ids: Iterable[str], foreign: set[str]) -> dict[str, _Document]:
    """Return cost and tokens of those calls that are answered, by id; note which other studies may have paid for."""
    ids = set(ids)
    calls = store.find_by(Call, "_id", sorted(ids), only=("study", *_USAGE), query={"state": "done"})
    foreign |= ids - {call["_id"] for call in calls if call["study"] == study["study"]}
    return {call["_id"]: call for call in calls}


def _calls(plan: Plan, calls: Iterable[_Document]) -> Iterator[str]:
    prices = {endpoint.key: endpoint.price for endpoint in endpoints_of(plan)}
    wrong_costs: dict[str, list[str]] = defaultdict(list)
    priced = Counter[str]()
    for call in calls:
        name, model = f"call {call['_id'][:12]}... of {call['model']}", call["model"]
        yield from (f"{name}: {fault}" for fault in _faults(call))
        price = prices.get((call["provider"], model, (call.get("request") or {}).get("endpoint")))
        if (
            price is not None
            and call["state"] == "done"
            and all(call.get(part) is not None for part in _USAGE)
        ):
            priced[model] += 1
            if not _has_right_cost(call, price):
                wrong_costs[model].append(f"{name}: what it cost is not its tokens at the price of its model")
    for model, lines in wrong_costs.items():
        if len(lines) == priced[model] > 1:  # the price was changed after they were asked
            yield f"calls of {model}: none of {len(lines)} cost its tokens at the price that the model has now"
        else:
            yield from lines


def _faults(call: _Document) -> Iterator[str]:
    if not is_as_sealed(call):
        yield "was changed after it was written: it does not have its seal"
    if request := call.get("request"):
        identity = None  # stays None if the request cannot be rebuilt
        with contextlib.suppress(KeyError, TypeError):
            messages = tuple(Message(part["role"], part["content"]) for part in request["messages"])
            identity = ModelRequest(**request | {"messages": messages}).identity()
        if identity != call["_id"]:
            yield "its request is not the one it is named by"
        if (call["provider"], call["model"]) != (request.get("provider"), request.get("model")):
            yield "its model is not that of its request"
    cached = (call.get("cache_read_tokens") or 0) + (call.get("cache_written_tokens") or 0)
    if cached > (call.get("input_tokens") or 0):
        yield "has more cached tokens than input tokens"


def _has_right_cost(call: _Document, price: Price) -> bool:
    """Return whether a call cost its tokens on the day it was sent, singly or in a batch."""
    sent_at = (call.get("attempts") or [{}])[-1].get("at")
    day = sent_at.date() if isinstance(sent_at, datetime) else None
    read, written = (call.get(name) or 0 for name in ("cache_read_tokens", "cache_written_tokens"))
    usage = Usage(call["input_tokens"], call["output_tokens"], False, read, written)
    if call.get("aud_per_usd"):  # what was paid keeps the exchange rate that it was booked with
        price = price.at(call["aud_per_usd"])
    rates = (price, batch_price(price, call["provider"]))
    return any(_is_close(call["aud_cost"], aud_cost(usage, rate, day)) for rate in rates)


def _runs(store: Store, study: _Document, foreign: set[str]) -> Iterator[str]:
    keys = set[tuple[Any, ...]]()
    for runs in windows(store.each_where(Run, study, only=(*_KEY, "run_id", "created_at", "status"))):
        answered = _answered(store, study, (run["call_id"] for run in runs), foreign)
        for run in runs:
            key = itemgetter(*_KEY)(run)
            name = f"run of {run['prompt_id']} by {run['model']}, repeat {run['repeat']}"
            if key in keys:
                yield f"{name}: is there twice"
            keys.add(key)
            if run["status"] == "succeeded" and run["call_id"] not in answered:
                yield f"{name}: its call is not in the ledger"
            moment = None
            with contextlib.suppress(ValueError):
                moment = ULID.from_str(run["run_id"]).datetime
            if moment is None or abs(moment - run["created_at"]) >= timedelta(minutes=1):
                yield f"{name}: created_at is not the moment that its run id has"


def _annotations(store: Store, study: _Document, foreign: set[str]) -> Iterator[str]:
    """Yield which annotations are of runs that are not there, or rest on calls that do not give them."""
    for documents in windows(store.each_where(Annotation, study, ("reasons", "detail"))):
        call_ids = (call_id for document in documents for call_id in document["call_ids"])
        answered = _answered(store, study, call_ids, foreign)
        ids = [
            [reply["run_id"] for reply in document.get("shown") or ()] or [document["run_id"]]
            for document in documents
        ]
        stored = store.find_by(Run, "run_id", chain(*ids), query=study, only=("run_id", *_KEY, "created_at"))
        runs = {run["run_id"]: run for run in stored}
        for document, run_ids in zip(documents, ids, strict=True):
            name = f"{document['kind']} by {document['judge']} of run {' and '.join(run_ids)}"
            judged = [runs[run_id] for run_id in run_ids if run_id in runs]
            if len(judged) < len(run_ids):
                yield f"{name}: its run is not in the store"
            elif len({(run["prompt_id"], run["repeat"]) for run in judged}) > 1:
                yield f"{name}: its runs are not of one prompt"
            elif document["created_at"] < max(run["created_at"] for run in judged) - _CLOCK_TOLERANCE:
                yield f"{name}: created_at is before that of its run"
            paid_calls = [answered.get(call_id, {}) for call_id in document["call_ids"]]
            if not all(paid_calls):
                yield f"{name}: rests on a call that the ledger does not have"
            elif paid_calls and not all(
                _is_close(document.get(part), sum(call[part] or 0 for call in paid_calls)) for part in _USAGE
            ):
                yield f"{name}: its cost, tokens or latency are not those of its calls"


def _anchors(store: Store, study: _Document) -> Iterator[str]:
    """Yield which anchor sets were changed, and which are missing although drift judgements refer to them."""
    anchors = {anchor["_id"]: anchor for anchor in store.find_where(Anchor, study)}
    for name, anchor in anchors.items():
        parts = (anchor[part] for part in ("study", "size", "rubric_hash", "replies"))
        if not anchor_document(*parts).items() <= anchor.items():
            yield f"anchor set {name[:8]}: was changed after it was drawn"
    later = store.each_where(Annotation, {**study, "kind": "drift"}, only=("context",))
    for name in {annotation["context"] for annotation in later} - anchors.keys():
        yield f"anchor set {name[:8]}: is missing, and judgements of later days are of it"


def _human_ratings(store: Store, study: _Document) -> Iterator[str]:
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
    for judgement in store.each_where(Annotation, {**study, "kind": JUDGEMENT, "model": HUMAN}):
        expected = newest.pop((judgement["run_id"], judgement["call_id"]), None)
        if expected is None or (judgement["scores"] or {}) != (expected.judgement().scores or {}):
            yield f"judgement by {judgement['judge']} of run {judgement['run_id']}: is not what the person rated"
    for expected in newest.values():
        yield f"judgement by {expected.judge} of run {expected.run_id}: is missing, and a rating gives it"


def _is_close(value: Any, expected: float) -> bool:
    return value is not None and math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-15)

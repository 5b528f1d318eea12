"""The store held against itself: what a replay cannot see, because it takes the ledger for the truth.

A call is named by the hash of its request, sealed as it was written, and costs its tokens at its model's price; what
people said, and what was judged under other settings, is in no replay either.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final

from ulid import ULID

from toolkit.models.base import Message, ModelRequest, Usage
from toolkit.models.prices import Price, aud_cost, batch_price
from toolkit.plan import Plan
from toolkit.runs.gateway import endpoints_of
from toolkit.store.connection import Store
from toolkit.store.documents import Call, HumanRating, Judgement, Run
from toolkit.store.ratings import HUMAN, Rating, all_ratings
from toolkit.store.writer import is_as_sealed

_CLOCKS: Final = timedelta(days=1)  # by which the clocks of two machines may differ, and nobody has noticed
_REPLY: Final = ("text", "finish_reason", "input_tokens", "output_tokens", "aud_cost")
_PAID: Final = ("aud_cost", "input_tokens", "output_tokens", "latency_ms")
_RUN: Final = ("run_id", "prompt_id", "model", "repeat", "call_id", "created_at")
_PART: Final = 500  # calls that are read at once: each has its whole request and reply
_Document = Mapping[str, Any]


def contradictions(plan: Plan, store: Store) -> Iterator[str]:
    """Yield a line for everything of a study that contradicts itself in the store."""
    of_study = {"study": plan.study.name}
    runs = store.find_where(Run, of_study, only=(*_RUN, "status"))
    said = store.find_where(Judgement, of_study, ("scores", "reasons", "detail"))
    paid: dict[str, tuple[Any, ...]] = {}
    yield from _calls(plan, store.joined(store.database["calls"].find(of_study, batch_size=_PART)), paid)
    # Studies of one results folder share calls: another one may have paid for an answer that this one rests on.
    named = chain((run["call_id"] for run in runs), *(one.get("call_ids") or () for one in said))
    shared = sorted({call_id for call_id in named if call_id not in paid})
    parts = (shared[start : start + _PART] for start in range(0, len(shared), _PART))
    yield from _calls(plan, (call for part in parts for call in store.find_by(Call, "_id", part)), paid)
    yield from _runs(set(plan.call_ids), runs, paid)
    yield from _judgements({run["run_id"]: run["created_at"] for run in runs}, said, paid)
    yield from _people(store, of_study)


def _calls(plan: Plan, calls: Iterable[_Document], paid: dict[str, tuple[Any, ...]]) -> Iterator[str]:
    """Yield what is wrong with calls, and note in ``paid`` what those that are answered cost."""
    prices = {endpoint.key: endpoint.price for endpoint in endpoints_of(plan)}
    misfits: dict[str, list[str]] = defaultdict(list)
    priced = Counter[str]()
    for call in calls:
        name, model = f"call {call['_id'][:12]}... of {call['model']}", call["model"]
        yield from (f"{name}: {fault}" for fault in _faults(call))
        if call["state"] == "done" and all(call.get(part) is not None for part in _REPLY):
            paid[call["_id"]] = tuple(call.get(part) for part in _PAID)
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
    state, there = call["state"], [part for part in _REPLY if call.get(part) is not None]
    if not is_as_sealed(call):
        yield "was changed after it was written: it does not have its seal"
    if state == "done" and (len(there) < len(_REPLY) or not call.get("attempts")):
        yield "is answered, and lacks its reply, its cost or its attempts"
    if state != "done" and there:
        yield f"is {state}, and has {there[0]}"
    if request := call.get("request"):
        if _identity(request) != call["_id"]:
            yield "its request is not the one it is named by"
        if (call["provider"], call["model"]) != (request.get("provider"), request.get("model")):
            yield "its model is not that of its request"
    cached = (call.get("cache_read_tokens") or 0) + (call.get("cache_written_tokens") or 0)
    if cached > (call.get("input_tokens") or 0):
        yield "has more cached tokens than input tokens"


def _identity(request: _Document) -> str | None:
    """Return the identity of a request as the ledger keeps it; ``None`` where it is no request."""
    try:
        messages = tuple(Message(one["role"], one["content"]) for one in request["messages"])
        return ModelRequest(**{**request, "messages": messages}).identity()
    except (KeyError, TypeError):
        return None


def _costs(call: _Document, price: Price) -> bool:
    """Return whether a call cost its tokens on the day it was sent, singly or in a batch."""
    sent_at = (call.get("attempts") or [{}])[-1].get("at")
    day = sent_at.date() if isinstance(sent_at, datetime) else None
    read, written = (call.get(name) or 0 for name in ("cache_read_tokens", "cache_written_tokens"))
    usage = Usage(call["input_tokens"], call["output_tokens"], False, read, written)
    prices = (price, batch_price(price, call["provider"]))
    return any(_is_close(call["aud_cost"], aud_cost(usage, one, day)) for one in prices)


def _runs(planned: set[str], runs: Sequence[_Document], paid: Mapping[str, Any]) -> Iterator[str]:
    seen: set[tuple[Any, ...]] = set()
    for run in runs:
        run_id, *key, moment = (run[part] for part in _RUN)
        name = f"run of {run['prompt_id']} by {run['model']}, repeat {run['repeat']}"
        if tuple(key) in seen:
            yield f"{name}: is there twice"
        seen.add(tuple(key))
        # Of those that are planned a replay knows whether the ledger gives them.
        call_id = run["call_id"]
        if run["status"] == "succeeded" and call_id not in planned and call_id not in paid:
            yield f"{name}: its call is not in the ledger"
        if not _is_made_at(run_id, moment):
            yield f"{name}: created_at is not the moment that its run id has"


def _is_made_at(run_id: str, moment: datetime) -> bool:
    """Return whether a run was written when its id was made, which holds the moment."""
    try:
        return abs(ULID.from_str(run_id).datetime - moment) < timedelta(minutes=1)
    except ValueError:
        return False


def _judgements(
    runs: Mapping[str, datetime], said: Sequence[_Document], paid: Mapping[str, tuple[Any, ...]]
) -> Iterator[str]:
    for one in said:
        name, asked = f"judgement by {one['judge']} of run {one['run_id']}", one.get("call_ids") or ()
        if one["run_id"] not in runs:
            yield f"{name}: its run is not in the store"
        elif one["created_at"] < runs[one["run_id"]] - _CLOCKS:
            yield f"{name}: created_at is before that of its run"
        if any(call_id not in paid for call_id in asked):
            yield f"{name}: rests on a call that the ledger does not have"
        elif asked:
            sums = [sum(values) for values in zip(*(paid[call_id] for call_id in asked), strict=True)]
            if not all(_is_close(one.get(part), value) for part, value in zip(_PAID, sums, strict=True)):
                yield f"{name}: its cost, tokens or latency are not those of its calls"


def _people(store: Store, of_study: Mapping[str, Any]) -> Iterator[str]:
    """Yield which ratings were changed, and which judgements of people are not what they rated."""
    ratings = store.find_where(HumanRating, of_study)
    for one in ratings:
        if not is_as_sealed(one):
            name = f"rating {one['version']} by {one['rater']} of run {one['run_id']}"
            yield f"{name}: was changed after it was given"
    newest: dict[tuple[str, str], Rating] = {}
    for digest in {one["rubric_hash"] for one in ratings}:
        given = all_ratings(store, (one["run_id"] for one in ratings), digest)
        newest |= {(rating.run_id, str(rating.judgement().call_id)): rating for rating in given}
    for said in store.find_where(Judgement, {**of_study, "model": HUMAN}):
        rating = newest.pop((said["run_id"], said["call_id"]), None)
        if rating is None or (said["scores"] or {}) != (rating.judgement().scores or {}):
            yield f"judgement by {said['judge']} of run {said['run_id']}: is not what the person rated"
    for rating in newest.values():
        yield f"judgement by {rating.judge} of run {rating.run_id}: is missing, and a rating gives it"


def _is_close(value: Any, expected: float) -> bool:
    return value is not None and math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-15)

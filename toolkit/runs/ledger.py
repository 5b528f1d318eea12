"""The ledger: a call is claimed before it is sent, its reply is durable before anyone hears of it, and it stays.

A claim is an insert under the call's identity, which is a unique key, so of two studies that share a store one wins. It
belongs to the owner of its study; a claim of a dead owner is taken over, and what it may have cost is not forgotten.

======== ================================ ======== ====================================================================
state    event                            next     on disk then
======== ================================ ======== ====================================================================
(none)   `claim`                          claimed  owner, worst cost, and whether a request is being sent
claimed  an attempt broke (`note`)        claimed  every attempt, what they may have cost, whether the next one is sent
claimed  a reply came (`complete`)        done     text, raw reply, tokens, cost, seal; flushed before it is used
claimed  no reply will come (`fail`)      failed   reason, attempts, what they may have cost, seal
claimed  nothing was sent (`withdraw`)    (none)   nothing; failed, where an earlier owner had sent something
claimed  its owner died, claimed anew     claimed  the attempt that was lost, at its worst cost; the new owner
failed   claimed anew                     claimed  the attempts of before stay
done     claimed again                    done     as it was: the answer is handed out, and nothing is sent
======== ================================ ======== ====================================================================
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pymongo import DeleteMany, InsertOne, UpdateOne

from toolkit.errors import redacted, redacted_json, redacted_words
from toolkit.models.base import Answer, ModelReply, ModelRequest, Usage
from toolkit.models.catalogue import Key, Room
from toolkit.runs.limits import UNREACHABLE
from toolkit.runs.owner import Owner, is_alive
from toolkit.runs.unsaved import UNSAVED, add_call, write_of
from toolkit.store.connection import Store
from toolkit.store.documents import Batch, Call
from toolkit.store.documents import Owner as Lock
from toolkit.store.writer import TOUCH, Document, Duplicate, Fields, Unmatched, sealed, utc_now
from toolkit.words import total_aud


@dataclass(frozen=True)
class Claim:
    """The right to send one call, held by this process."""

    request: ModelRequest
    purpose: str
    worst_aud: float = 0.0
    at: datetime = field(default_factory=utc_now)
    earlier: tuple[Fields, ...] = ()
    inherited_aud: float = 0.0

    @property
    def call_id(self) -> str:
        """Identity of the call."""
        return self.request.identity()


@dataclass(frozen=True)
class Busy:
    """Somebody is asking this call right now: another study, or this one for an equal request."""

    is_own: bool = False


class ClaimLost(Exception):
    """The claim of this process is another's now, which took it over: nothing may be sent under it."""


class Ledger:
    """Claims, completes and reads calls in one store; ``folder`` takes up the replies that the store does not."""

    def __init__(self, store: Store, study: str, folder: Path | None = None) -> None:
        self.store = store
        self.study = study
        self._unsaved = folder / UNSAVED if folder else None
        self._claiming: set[str] = set()
        self.owner = Owner(store, study)

    def prefetch(self, call_ids: Iterable[str]) -> dict[str, Answer]:
        """Return the answers that are already paid for, by call id."""
        documents = self.store.find_by(Call, "_id", call_ids, leave_out=("request", "raw"))
        return {d["_id"]: answer_of(d) for d in documents if d["state"] == "done"}

    def whole(self, call_id: str) -> Answer:
        """Return an answer that is paid for with its raw reply, which the others leave out because it is large."""
        (document,) = self.store.find_by(Call, "_id", [call_id], leave_out=("request",))
        return answer_of(document)

    def unpaid(self, call_ids: frozenset[str]) -> frozenset[str]:
        """Return which of these calls this study has no answer to that it paid for itself."""
        # What another study paid for, a batch of this one may bill all the same.
        paid = {"study": self.study, "state": "done"}
        calls = self.store.find_by(Call, "_id", call_ids, only=("state",), query=paid)
        return call_ids - {call["_id"] for call in calls}

    def kept(self) -> dict[str, Answer]:
        """Return every answer this study has paid for, by call id."""
        query = {"study": self.study, "state": "done"}
        calls = self.store.each_where(Call, query, leave_out=("request", "raw"))
        return {call["_id"]: answer_of(call) for call in calls}

    def failures(self) -> dict[str, tuple[str, str]]:
        """Return reason and message of every call of this study that failed, by call id."""
        return {
            call["_id"]: (failure["reason"], failure["message"])
            for call, failure in _failures(self.store, self.study)
            if len(failure) == 2
        }

    async def claim(
        self, request: ModelRequest, *, purpose: str, worst_aud: float, sent: bool = True
    ) -> Claim | Answer | Busy:
        """Claim a call that is sent next, or return the answer that is there, or say that it is asked already.

        Without ``sent`` nothing is: a batch has brought its reply.
        """
        claim = Claim(request, purpose, worst_aud)
        try:
            await self.store.writer.write("calls", InsertOne(self._document(claim, "claimed", sent=sent)))
        except Duplicate:
            if claim.call_id in self._claiming:
                return Busy(is_own=True)
            self._claiming.add(claim.call_id)
            try:
                return await asyncio.to_thread(self._claim_again, claim, sent)
            finally:
                self._claiming.discard(claim.call_id)
        return claim

    def _claim_again(self, claim: Claim, sent: bool) -> Claim | Answer | Busy:
        retried = self.store.writer.retried
        stored = retried(lambda _: self.store.get(Call, {"_id": claim.call_id}))
        if stored is None:
            return Busy()  # withdrawn between our insert and our look; the caller asks again
        if stored["state"] == "done":
            return answer_of(stored)
        if stored["state"] == "claimed" and self._is_living(stored["owner"]):
            return Busy(is_own=stored["owner"] == self.owner.name)
        # A call that failed before keeps its attempts: the ledger knows of every request that was ever sent.
        earlier, inherited = tuple(stored.get("attempts", ())), stored.get("unsure_aud") or 0.0
        if was_sent(stored):
            earlier += ({"at": stored["updated_at"], "outcome": "lost"},)
            inherited += max(stored.get("worst_aud") or 0.0, claim.worst_aud)
        claim = replace(claim, at=stored["created_at"], earlier=earlier, inherited_aud=inherited)
        # As it is if we die too: the lost attempt counts.
        changes = self._document(claim, "claimed", sent=sent, inherited_aud=claim.inherited_aud)
        for fixed in ("_id", "created_at", "updated_at"):
            changes.pop(fixed)
        # The owner is part of the condition, so of two that find the same dead owner one wins.
        key = {"_id": claim.call_id, "state": stored["state"], "owner": stored["owner"]}
        ours = {"_id": claim.call_id, "state": "claimed", "owner": self.owner.name}
        won = retried(
            lambda again: (
                self.store.update(Call, key, {"$set": changes, **TOUCH})
                or (again and self.store.has(Call, ours))  # it was done, and the answer got lost
            )
        )
        return claim if won else Busy()

    def _is_living(self, owner: str) -> bool:
        lock = self.store.writer.retried(lambda _: self.store.get(Lock, {"name": owner}))
        return lock is not None and is_alive(self.store, lock)

    async def complete(
        self,
        claim: Claim,
        reply: ModelReply,
        *,
        aud_cost: float,
        latency_ms: float,
        attempts: list[Document],
        unsure_aud: float = 0.0,
        aud_per_usd: float | None = None,
    ) -> Answer:
        """Write a reply as received and return its answer once it is durable."""
        # The text as it can be kept, and from now on the only one: what is asked about it must be the same later.
        prompt = "\n".join(message.content for message in claim.request.messages)
        reply = replace(
            reply,
            text=redacted(_storable(reply.text), prompt),
            model=redacted_words(_storable(reply.model)),
        )
        document = self._document(
            claim,
            "done",
            attempts,
            unsure_aud,
            text=reply.text,
            finish_reason=reply.finish_reason,
            answered_by=reply.model,
            raw=redacted_json(json.dumps(reply.raw, default=str), prompt),
            input_tokens=reply.usage.input,
            output_tokens=reply.usage.output,
            tokens_estimated=reply.usage.estimated,
            cache_read_tokens=reply.usage.cache_read,
            cache_written_tokens=reply.usage.cache_written,
            aud_cost=aud_cost,
            latency_ms=latency_ms,
            **({"reasoning_tokens": count} if (count := reply.usage.reasoning) else {}),
            **({"aud_per_usd": aud_per_usd} if aud_per_usd else {}),
        )
        # A paid reply is kept even if our claim is gone or was taken over meanwhile.
        operation = write_of(document)
        try:
            await self.store.writer.write("calls", operation, flush=True, unsaved=self._unsaved)
        except Duplicate:
            stored = await asyncio.to_thread(add_call, self.store, document)
            return replace(answer_of(stored), from_ledger=False)
        return Answer(
            claim.call_id, reply, aud_cost, latency_ms, len(document["attempts"]), from_ledger=False
        )

    async def note(
        self,
        claim: Claim,
        attempts: list[Document],
        unsure_aud: float,
        *,
        worst_aud: float,
        sent: bool,
    ) -> None:
        """Note attempts under a claim that stays, with what they and the next may cost, and whether that is sent."""
        changes = {
            "sent": sent,
            "worst_aud": worst_aud,
            "attempts": [*claim.earlier, *attempts],
            "unsure_aud": claim.inherited_aud + unsure_aud,
        }
        key = {"_id": claim.call_id, "owner": self.owner.name}
        try:
            await self.store.writer.write("calls", UpdateOne(key, {"$set": changes, **TOUCH}))
        except Unmatched:
            raise ClaimLost from None

    async def fail(
        self, claim: Claim, *, reason: str, message: str, attempts: list[Document], unsure_aud: float
    ) -> None:
        """Record that a call got no reply, with every attempt; a later run of the study may claim it again."""
        failure = {"reason": reason, "message": message}
        document = self._document(claim, "failed", attempts, unsure_aud, failure=failure)
        try:
            await self.store.writer.write("calls", write_of(document), unsaved=self._unsaved)
        except Duplicate:
            await asyncio.to_thread(add_call, self.store, document)

    async def withdraw(self, claim: Claim) -> None:
        """Take back a claim under which nothing was sent; attempts of owners before stay known."""
        if claim.earlier:
            await self.fail(claim, reason="stopped", message="not sent again", attempts=[], unsure_aud=0.0)
            return
        operation = DeleteMany({"_id": claim.call_id, "owner": self.owner.name})
        await self.store.writer.write("calls", operation)

    def _document(
        self,
        claim: Claim,
        state: str,
        attempts: Iterable[Fields] = (),
        unsure_aud: float = 0.0,
        **fields: Any,
    ) -> Document:
        """Return a call as `toolkit.store.documents.Call` describes it; built by hand because there are so many."""
        request = claim.request
        document: Document = {
            "_id": claim.call_id,
            "state": state,
            "owner": self.owner.name,
            "study": self.study,
            "purpose": claim.purpose,
            "provider": request.provider,
            "model": request.model,
            "worst_aud": claim.worst_aud,
            "attempts": [*claim.earlier, *attempts],
            "unsure_aud": claim.inherited_aud + unsure_aud,
            "created_at": claim.at,
            "updated_at": utc_now() if state != "claimed" else claim.at,
            **fields,
        }
        if state != "claimed":
            document["request"] = request.canonical()
        if claim.inherited_aud:
            document["inherited_aud"] = claim.inherited_aud
        return document if state == "claimed" else sealed(document)


@dataclass(frozen=True)
class Calls:
    """The calls of one state of a study: how many, what they cost, and what may have been billed besides, in AUD."""

    count: int
    aud: float
    unsure_aud: float


def calls_by_state(
    store: Store,
    study: str,
    fields: Iterable[str] = (),
    count: Callable[[Fields], None] | None = None,
) -> dict[str, Calls]:
    """Return the calls of a study by their state; ``count`` is handed each of them, with these ``fields`` more."""
    spent: dict[str, list[float | None]] = defaultdict(list)
    unsure: dict[str, list[float]] = defaultdict(list)
    # Added up here: a server adds in another order, or with 15 digits.
    fields = ("state", "aud_cost", "unsure_aud", "attempts", *fields)
    for call in store.each_where(Call, {"study": study}, only=fields):
        if count is not None:
            count(call)
        state, may_be = call["state"], call.get("unsure_aud")
        spent[state].append(call.get("aud_cost"))
        unsure[state] += [may_be] if may_be else []
    return {
        state: Calls(len(costs), total_aud(costs), total_aud(unsure[state])) for state, costs in spent.items()
    }


def unreachable(store: Store, study: str) -> dict[Room, str]:
    """Return why calls of a study still wait for providers at whose address nothing answered, by both."""
    return {
        (call["provider"], call["request"].get("endpoint")): failure["message"]
        for call, failure in _failures(store, study)
        if failure.get("reason") == UNREACHABLE
    }


def _failures(store: Store, study: str) -> Iterator[tuple[Fields, Fields]]:
    """Yield the calls of a study that failed, each with its reason and message."""
    fields = ("provider", "request.endpoint", "failure")
    for call in store.each_where(Call, {"study": study, "state": "failed"}, only=fields):
        yield call, call.get("failure") or {}


def claimed_calls(store: Store, study: str) -> list[Document]:
    """Return owner, purpose and worst cost of the calls that are under way, or that a dead process left."""
    fields = ("state", "owner", "purpose", "worst_aud", "sent")
    return store.find_where(Call, {"study": study, "state": "claimed"}, only=fields)


@dataclass(frozen=True)
class OpenBatch:
    """A batch in the store some of whose calls are not in the ledger yet."""

    name: str
    key: Key
    call_ids: frozenset[str]
    worst_aud: float
    batch_id: str | None = None


def open_batches(store: Store, study: str) -> list[OpenBatch]:
    """Return the open batches of a study."""
    return [
        OpenBatch(
            name=batch["_id"],
            key=(batch["provider"], batch["model"], batch.get("endpoint")),
            call_ids=frozenset(batch["call_ids"]),
            worst_aud=batch.get("worst_aud") or 0.0,
            batch_id=batch.get("batch_id"),
        )
        for batch in store.find_where(Batch, {"study": study, "state": {"$in": ["submitting", "submitted"]}})
    ]


def was_sent(call: Fields) -> bool:
    """Return whether a call is claimed and was being sent: if its owner is dead, it may have been billed."""
    # Before this mark, claims did not say; and a truth value may be stored as a number.
    return call["state"] == "claimed" and bool(call.get("sent", True))


def answer_of(document: Fields) -> Answer:
    """Return the answer a finished call holds."""
    raw: Any = {}
    with suppress(ValueError):  # of a reply whose JSON lost a secret that was JSON itself
        raw = json.loads(document.get("raw") or "{}")
    reply = ModelReply(
        text=document["text"],
        finish_reason=document["finish_reason"],
        usage=Usage(
            document["input_tokens"],
            document["output_tokens"],
            document["tokens_estimated"],
            document.get("cache_read_tokens") or 0,
            document.get("cache_written_tokens") or 0,
            document.get("reasoning_tokens") or 0,
        ),
        model=document["answered_by"],
        raw=raw,
    )
    return Answer(
        document["_id"],
        reply,
        document["aud_cost"],
        document["latency_ms"],
        len(document["attempts"]),
        from_ledger=True,
    )


def _storable(text: str) -> str:
    """Return text with what no UTF-8 holds, a half of a surrogate pair, as a question mark."""
    return text.encode("utf-8", "replace").decode()

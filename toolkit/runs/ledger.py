"""The ledger: a call is claimed before it is sent, its reply is durable before anyone hears of it, and it stays.

A claim is an insert under the call's identity, which is a unique key, so of two processes one wins. It carries a
lease that its owner renews; a lease left by a dead process is taken over.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pymongo import InsertOne, UpdateOne

from toolkit.models.base import Answer, ModelReply, ModelRequest, Usage
from toolkit.store.connection import Store
from toolkit.store.documents import Call
from toolkit.store.writer import TOUCH, Duplicate

LEASE_SECONDS = 120.0
HEARTBEAT_SECONDS = 30.0


@dataclass(frozen=True)
class Claim:
    """The right to send one call, held by this process until its lease ends; ``earlier`` are attempts before it."""

    call_id: str
    earlier: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Busy:
    """Another living process is asking this call right now."""

    call_id: str


class Ledger:
    """Claims, completes and reads calls in one store.

    Parameters
    ----------
    store
        Where the calls live.
    study
        Name of the study that pays.
    """

    def __init__(self, store: Store, study: str) -> None:
        self._store = store
        self._study = study
        self._calls = store.database["calls"]
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{_birth(os.getpid())}:{uuid.uuid4().hex[:8]}"
        self._stop = threading.Event()
        self._beat: threading.Thread | None = None

    def prefetch(self, call_ids: Iterable[str]) -> dict[str, Answer]:
        """Return the answers that are already paid for, by call id."""
        documents = self._store.find_by(Call, "_id", call_ids, leave_out=("request", "raw"))
        return {d["_id"]: answer_of(d) for d in documents if d["state"] == "done"}

    def kept(self) -> dict[str, Answer]:
        """Return every answer this study has paid for, by call id."""
        found = self._calls.find({"study": self._study, "state": "done"}, {"request": 0, "raw": 0})
        return {document["_id"]: answer_of(document) for document in found}

    def spent(self) -> float:
        """Return the AUD this study has paid for calls so far."""
        found = self._calls.find({"study": self._study}, {"aud_cost": 1, "_id": 0})
        return sum(document.get("aud_cost") or 0.0 for document in found)

    async def claim(self, request: ModelRequest, *, purpose: str, worst_aud: float) -> Claim | Answer | Busy:
        """Claim a call, or return the answer that is there, or say that someone else is asking it now."""
        self._start_heartbeat()
        call_id = request.identity()
        document = Call(
            call_id=call_id,
            state="claimed",
            owner=self.owner,
            lease_until=time.time() + LEASE_SECONDS,
            study=self._study,
            purpose=purpose,
            provider=request.provider,
            model=request.model,
            request=request.canonical(),
            worst_aud=worst_aud,
        )
        document.validate()
        try:
            await self._store.writer.write("calls", InsertOne(document.to_mongo().to_dict()))
        except Duplicate:
            return await asyncio.to_thread(self._claim_again, call_id, worst_aud)
        return Claim(call_id)

    def _claim_again(self, call_id: str, worst_aud: float) -> Claim | Answer | Busy:
        """Claim a call that has a document already: done, failed before, or left by a dead process."""
        found = self._calls.find_one({"_id": call_id})
        if found is None:
            return Busy(call_id)  # withdrawn between our insert and our look; the caller asks again
        if found["state"] == "done":
            return answer_of(found)
        if found["state"] == "claimed" and not self._abandoned(found):
            return Busy(call_id)
        taken = self._calls.find_one_and_update(
            # The owner is part of the condition, so of two that find the same dead lease one wins.
            {"_id": call_id, "state": found["state"], "owner": found["owner"]},
            {
                "$set": {
                    "state": "claimed",
                    "owner": self.owner,
                    "lease_until": time.time() + LEASE_SECONDS,
                    "study": self._study,
                    "worst_aud": worst_aud,
                },
                **TOUCH,
            },
        )
        # A call that failed before keeps its attempts: the ledger knows of every request that was ever sent.
        return Claim(call_id, tuple(found.get("attempts", ()))) if taken else Busy(call_id)

    @staticmethod
    def _abandoned(document: Mapping[str, Any]) -> bool:
        """Whether the owner of a lease is dead, which on this machine can be seen before the lease ends."""
        if document["lease_until"] < time.time():
            return True
        host, pid, birth, _ = document["owner"].rsplit(":", 3)
        return host == socket.gethostname() and _birth(int(pid)) != birth

    async def complete(
        self,
        claim: Claim,
        reply: ModelReply,
        *,
        aud_cost: float,
        latency_ms: float,
        attempts: list[dict[str, Any]],
    ) -> Answer:
        """Write a reply as received and return its answer once it is durable."""
        # The text as it can be kept, and from now on the only one: what is asked about it must be the same later.
        reply = replace(reply, text=reply.text.encode("utf-8", "replace").decode())
        aud_cost, latency_ms = _kept(aud_cost), _kept(latency_ms)
        fields = {
            "state": "done",
            "text": reply.text,
            "finish_reason": reply.finish_reason,
            "answered_by": reply.model,
            "raw": json.dumps(reply.raw, default=str),
            "input_tokens": reply.usage.input,
            "output_tokens": reply.usage.output,
            "tokens_estimated": reply.usage.estimated,
            "aud_cost": aud_cost,
            "latency_ms": latency_ms,
            "attempts": attempts,
        }
        # By identity alone: a paid reply is kept even if our lease was taken over meanwhile.
        await self._store.writer.write(
            "calls",
            UpdateOne({"_id": claim.call_id}, {"$set": fields, "$unset": {"failure": ""}, **TOUCH}),
            flush=True,
        )
        return Answer(claim.call_id, reply, aud_cost, latency_ms, len(attempts), from_ledger=False)

    async def fail(self, claim: Claim, *, reason: str, message: str, attempts: list[dict[str, Any]]) -> None:
        """Record that a call got no reply, with every attempt; a later run of the study may claim it again."""
        fields = {
            "state": "failed",
            "failure": {"reason": reason, "message": message},
            "attempts": attempts,
        }
        await self._store.writer.write(
            "calls", UpdateOne({"_id": claim.call_id, "owner": self.owner}, {"$set": fields, **TOUCH})
        )

    def close(self) -> None:
        """End the heartbeat; claims that are still open become free at once because nobody renews them."""
        self._stop.set()
        if self._beat is not None:
            self._beat.join()
        self._calls.update_many({"owner": self.owner, "state": "claimed"}, {"$set": {"lease_until": 0.0}})

    def _start_heartbeat(self) -> None:
        if self._beat is None:
            self._beat = threading.Thread(target=self._renew, name="ledger-heartbeat", daemon=True)
            self._beat.start()

    def _renew(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            self._calls.update_many(
                {"owner": self.owner, "state": "claimed"},
                {"$set": {"lease_until": time.time() + LEASE_SECONDS}},
            )


def answer_of(document: Mapping[str, Any]) -> Answer:
    """Return the answer a finished call holds."""
    reply = ModelReply(
        text=document["text"],
        finish_reason=document["finish_reason"],
        usage=Usage(document["input_tokens"], document["output_tokens"], document["tokens_estimated"]),
        model=document["answered_by"],
        raw=json.loads(document["raw"]) if document.get("raw") else {},
    )
    return Answer(
        document["_id"],
        reply,
        document["aud_cost"],
        document["latency_ms"],
        len(document["attempts"]),
        from_ledger=True,
    )


def _kept(number: float) -> float:
    """Return a number as every server keeps it: the embedded one keeps 15 significant digits."""
    return float(f"{number:.15g}")


def _birth(pid: int) -> str:
    """Return when a process of this machine started, in clock ticks, or a word when it is gone.

    A pid alone is not enough: pids are used again.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        pass
    try:  # no /proc on this system: a living pid is all that can be seen
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "alive"
    return "alive"

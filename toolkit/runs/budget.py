"""One budget for all processes of a study, and how money that may have been billed is settled.

Each process holds a grant, a part of the budget it may use without asking again. The study's account in the store
knows all grants and what is settled: calls of processes that have ended. So however the processes end, settled money
and living grants together never pass the budget.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections import defaultdict
from collections.abc import Collection
from typing import Any, Final

from toolkit.errors import BudgetReached, InputError, StoreError
from toolkit.plan import Plan
from toolkit.runs.ledger import Owner, calls_by_state, claimed_calls, living, was_sent
from toolkit.runs.provider_batch import open_batches
from toolkit.store.connection import Store
from toolkit.store.documents import Account as StoredAccount
from toolkit.store.documents import Call, Settlement
from toolkit.store.writer import Duplicate, utc_now
from toolkit.words import Summary, counted, money, total_aud

SHARE: Final = 0.02
"""Part of the budget that a grant grows by, where it is enough for a call: small, so that processes share fairly."""


class Account:
    """A study's budget as one process uses it."""

    def __init__(self, store: Store, study: str, owner: Owner, budget_aud: float) -> None:
        self._store = store
        self._study = study
        self._owner = owner
        self._budget = budget_aud
        self._granted = 0.0
        self._spent = 0.0
        self._reserved = 0.0
        self._remainder = budget_aud
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self._opened = False
        self._looks = 0
        self.overrun: dict[tuple[str, str], float] = {}
        """What models billed above the worst case of a call before, as a factor of it, by provider and model."""

    async def reserve(self, aud: float) -> None:
        """Set aside what a call costs at worst; waits for calls under way, which may cost less than their worst."""
        while not await self._is_granted(aud):
            if not self._reserved:
                raise BudgetReached(
                    f"budget.aud: {money(self._budget)} could be passed by the next call, at worst {money(aud)} "
                    f"({money(self._budget - self._remainder)} are spent, or kept for calls under way); "
                    "raise it in the study file and run again"
                )
            self._changed.clear()
            await self._changed.wait()
        self._reserved += aud

    def adopt(self, aud: float) -> None:
        """Reserve what a batch of a process that has ended costs at worst; what is settled is then counted anew."""
        self._reserved += aud
        self._opened = False

    async def fits_still(self, more: float) -> bool:
        """Return whether what is set aside, and as much more, is in the budget after all that any process has spent."""
        # It is asked just before a call is sent: replies that cost more than their worst may have come meanwhile.
        looks = self._looks
        async with self._lock:
            if self._looks == looks:  # of those who wait here, each look that begins later serves all
                self._looks += 1
                await asyncio.to_thread(self._look)
        if fits := await self._is_granted(more):
            self._reserved += more
        return fits

    async def publish(self) -> None:
        """Let other processes know that this one has used more than it was granted."""
        await self._is_granted(0.0)

    def settle(self, reserved: float, spent: float) -> None:
        """Give back a reservation and note what was used of it."""
        self._reserved -= reserved
        self._spent += spent
        if self._reserved < 1e-12:
            self._reserved = 0.0  # sums of floats: nothing is under way
        self._changed.set()

    def close(self) -> None:
        """Settle what this process has used and give back the rest of its grant; after its owner has ended.

        In that order: whoever opens the account in between finds the owner dead, counts its calls and drops its grant.
        """
        if not self._opened:
            return

        def change(account: dict[str, Any]) -> None:
            remaining = [grant for grant in account["grants"] if grant["owner"] != self._owner.name]
            if len(remaining) < len(account["grants"]):
                account["settled_aud"] += self._spent
            account["grants"] = remaining

        with contextlib.suppress(StoreError):  # it is away: whoever opens it next finds our owner dead
            self._change(change)

    def _fits(self, aud: float) -> bool:
        return self._spent + self._reserved + aud <= self._granted

    async def _is_granted(self, aud: float) -> bool:
        if not self._fits(aud):
            async with self._lock:
                if not self._fits(aud):
                    await asyncio.to_thread(self._ask_for, aud)
        return self._fits(aud)

    def _look(self) -> None:
        """Give up what others have used of this process's grant: they used more than was granted to them."""
        account = self._store.get(StoredAccount, {"_id": self._study}) if self._opened else None
        if account is not None and (most := self._most(account)) < self._granted - 1e-9 * self._budget:
            self._granted = most

    def _most(self, account: dict[str, Any]) -> float:
        """Return what this process may use of the budget at most, beside the grants of others."""
        granted = total_aud(grant["aud"] for grant in account["grants"] if grant["owner"] != self._owner.name)
        return float(self._budget - account["settled_aud"] - granted)

    def _ask_for(self, aud: float) -> None:
        self._owner.start()
        granted = [0.0]

        def change(account: dict[str, Any]) -> None:
            alive = living(self._store, self._study)
            # Without a version it is new, or was removed while we work.
            if not (self._opened and account["version"]) or any(
                grant["owner"] not in alive for grant in account["grants"]
            ):
                account["grants"] = [grant for grant in account["grants"] if grant["owner"] in alive]
                account["settled_aud"] = self._settled(alive)
            most, needed = self._most(account), self._spent + self._reserved + aud
            grown = max(needed, self._granted + self._budget * SHARE) if needed <= most else self._granted
            granted[0] = min(grown, most)
            # What was used is used, granted or not: others must know.
            claimed = max(granted[0], self._spent + self._reserved)
            self._remainder = most - claimed
            remaining = [grant for grant in account["grants"] if grant["owner"] != self._owner.name]
            account["grants"] = [*remaining, {"owner": self._owner.name, "aud": claimed}]

        self._change(change)
        self._opened = True
        self._granted = granted[0]

    def _settled(self, alive: set[str]) -> float:
        """Return what processes that have ended spent, may have spent, or left in flight."""
        # What a living process does is in its grant, except what it took over from others: that was before.
        money = ("aud_cost", "unsure_aud", "inherited_aud", "worst_aud")
        fields = ("owner", "state", "sent", "provider", "model", *money)
        spent: list[float | None] = []
        overrun: dict[tuple[str, str], float] = {}
        for call in self._store.each_where(Call, {"study": self._study}, only=fields):
            if (worst := call.get("worst_aud")) and (cost := call.get("aud_cost") or 0.0) > worst:
                model = (call["provider"], call["model"])
                overrun[model] = max(overrun.get(model, 1.0), cost / worst)
            if call["owner"] in alive:
                spent.append(call.get("inherited_aud"))
            else:
                spent += [call.get("aud_cost"), call.get("unsure_aud")]
                spent.append(call.get("worst_aud") if was_sent(call) else None)
        self.overrun = overrun
        spent += [b.worst_aud for b in open_batches(self._store, self._study) if b.owner not in alive]
        return total_aud(spent) - settled_aud(settlements(self._store, self._study), billed=False)

    def _change(self, change: Any) -> None:
        """Change the account as nobody else changes it meanwhile: by its version, again until it holds."""
        while not self._store.writer.patiently(lambda _: self._is_changed(change)):
            pass

    def _is_changed(self, change: Any) -> bool:
        stored = self._store.get(StoredAccount, {"_id": self._study})
        account = stored or {"version": 0, "settled_aud": 0.0, "grants": []}
        version = account["version"]
        change(account)
        content = {"settled_aud": account["settled_aud"], "grants": account["grants"], "version": version + 1}
        if stored is None:
            try:
                self._store.insert(StoredAccount, {"_id": self._study, **content})
            except Duplicate:
                return False
            return True
        key = {"_id": self._study, "version": version}
        return self._store.update(StoredAccount, key, {"$set": content})


def settlements(store: Store, study: str) -> list[dict[str, Any]]:
    """Return every settlement of a study, oldest first: at, billed, note, aud and the calls with what each may cost."""
    stored = store.each_where(Settlement, {"study": study})
    return sorted(stored, key=lambda settlement: settlement["at"])


def settled_aud(records: list[dict[str, Any]], *, billed: bool) -> float:
    """Return the AUD of those settlements that were accepted as billed, or that were cleared."""
    return total_aud(settlement["aud"] for settlement in records if settlement["billed"] is billed)


def unsure_calls(store: Store, study: str, alive: Collection[str]) -> dict[str, float]:
    """Return the calls that may have been billed though they brought nothing, with AUD at worst, by call id.

    Those are attempts that broke after they were sent, and calls that were being sent when their process died;
    without what is settled.
    """
    unsure: defaultdict[str, float] = defaultdict(float)
    broken = {"study": study, "unsure_aud": {"$gt": 0}}
    for call in store.each_where(Call, broken, only=("unsure_aud",)):
        unsure[call["_id"]] += call["unsure_aud"]
    for call in claimed_calls(store, study):
        if was_sent(call) and call["owner"] not in alive:
            unsure[call["_id"]] += call["worst_aud"] or 0.0
    for settlement in settlements(store, study):
        for settled in settlement["calls"]:
            if settled["call_id"] in unsure:
                unsure[settled["call_id"]] -= settled["aud"]
                if unsure[settled["call_id"]] < 1e-12:
                    del unsure[settled["call_id"]]
    return dict(unsure)


def settle(store: Store, study: str, *, billed: bool, note: str) -> Summary:
    """Accept all that may have been billed as billed, or clear it, and record that; a second time changes nothing."""
    if not note.strip():
        raise InputError("--note: say how it is known, as in --note 'invoice of May shows 12 requests'")
    if living(store, study):
        message = f"{study}: a process works on this study; stop it, or wait for its end, and settle then"
        raise InputError(message)
    calls = unsure_calls(store, study, ())
    if not calls:
        fields = {"study": study, "settled_calls": 0, "settled_aud": 0.0}
        return Summary(fields, f"{study}: no call is unsure, nothing to settle")
    named = [{"call_id": call_id, "aud": aud} for call_id, aud in sorted(calls.items())]
    earlier = sorted(settlement["_id"] for settlement in settlements(store, study))
    record = {
        # Named by what it settles: of two that settle the same at once one wins.
        "_id": hashlib.sha256(json.dumps([study, named, earlier]).encode()).hexdigest(),
        "study": study,
        "at": utc_now(),
        "billed": billed,
        "note": note.strip(),
        "aud": total_aud(calls.values()),
        "calls": named,
    }
    try:
        store.insert(Settlement, record)
    except Duplicate:
        raise InputError(f"{study}: settled a moment ago by another process; see `toolkit status`") from None
    verdict = "accepted as billed and counted as spent" if billed else "cleared as not billed, off the budget"
    return Summary(
        {"study": study, "settled_calls": len(named), "settled_aud": record["aud"], "billed": billed},
        f"{study}: {money(total_aud(calls.values()))} of {counted(len(named), 'calls')} {verdict}",
    )


def spent_and_held(store: Store, study: str) -> tuple[float, float]:
    """Return the AUD that a study spent or may have spent, and those held for calls that are being sent.

    What open batches hold is not among these: those calls are still to be asked for, and count with what is.
    """
    calls = calls_by_state(store, study).values()
    spent = total_aud(amount for state in calls for amount in (state.aud, state.unsure_aud))
    reserved = total_aud(call["worst_aud"] for call in claimed_calls(store, study) if was_sent(call))
    return spent - settled_aud(settlements(store, study), billed=False), reserved


def budget_left(plan: Plan, store: Store) -> float:
    """Return how much of a study's budget is neither spent nor held for calls under way; infinity without a budget."""
    if plan.study.budget.aud is None:
        return float("inf")
    return max(0.0, plan.study.budget.aud - sum(spent_and_held(store, plan.study.name)))

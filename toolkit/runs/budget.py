"""One budget for all processes of a study: what may be spent is granted before it is, and counted at its worst.

Each process holds a grant, a part of the budget it may use without asking again. The study's account in the store
knows all grants and what is settled: calls of processes that have ended. So however the processes end, settled money
and living grants together never pass the budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from pymongo.errors import DuplicateKeyError

from toolkit.errors import BudgetReached
from toolkit.runs.ledger import was_sent
from toolkit.runs.owners import Owner, living
from toolkit.runs.settling import settled_aud, settlements
from toolkit.store.connection import Store
from toolkit.store.documents import Call

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
        self._used = 0.0
        self._reserved = 0.0
        self._left = budget_aud
        self._asking = asyncio.Lock()
        self._changed = asyncio.Event()
        self._opened = False

    async def reserve(self, aud: float) -> None:
        """Set aside what a call costs at worst; waits for calls under way, which may cost less than their worst."""
        while not self._fits(aud):
            async with self._asking:
                if not self._fits(aud):
                    await asyncio.to_thread(self._ask_for, aud)
            if self._fits(aud):
                break
            if not self._reserved:
                raise BudgetReached(
                    f"budget.aud: {self._budget:.4f} AUD could be passed by the next call, at worst {aud:.4f} AUD "
                    f"({self._budget - self._left:.4f} AUD are spent, or kept for calls under way); "
                    "raise it in the study file and run again"
                )
            self._changed.clear()
            await self._changed.wait()
        self._reserved += aud

    def settle(self, reserved: float, used: float) -> None:
        """Give back a reservation and note what was used of it."""
        self._reserved -= reserved
        self._used += used
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
            others = [grant for grant in account["grants"] if grant["owner"] != self._owner.name]
            if len(others) < len(account["grants"]):
                account["settled_aud"] += self._used
            account["grants"] = others

        self._change(change)

    def _fits(self, aud: float) -> bool:
        return self._used + self._reserved + aud <= self._granted

    def _ask_for(self, aud: float) -> None:
        """Have the grant grow by what is needed, or by a share of the budget where there is as much left."""
        self._owner.start()
        needed = self._used + self._reserved + aud - self._granted
        grown = [0.0]

        def change(account: dict[str, Any]) -> None:
            alive = living(self._store, self._study)
            if not self._opened or any(grant["owner"] not in alive for grant in account["grants"]):
                account["grants"] = [grant for grant in account["grants"] if grant["owner"] in alive]
                account["settled_aud"] = self._settled(alive)
            held = sum(grant["aud"] for grant in account["grants"])
            self._left = self._budget - account["settled_aud"] - held
            grown[0] = min(max(needed, self._budget * SHARE), self._left) if needed <= self._left else 0.0
            others = [grant for grant in account["grants"] if grant["owner"] != self._owner.name]
            mine = {"owner": self._owner.name, "aud": self._granted + grown[0]}
            account["grants"] = [*others, mine]

        self._change(change)
        self._opened = True
        self._granted += grown[0]
        self._left -= grown[0]

    def _settled(self, alive: set[str]) -> float:
        """Return what processes that have ended spent, may have spent, or left in flight.

        What a living process does is in its grant, except what it took over from others: that was before.
        """
        fields = ("owner", "state", "aud_cost", "unsure_aud", "inherited_aud", "worst_aud", "sent")
        found = self._store.find_where(Call, {"study": self._study}, only=fields)
        spent = sum(_inherited(call) if call["owner"] in alive else _cost(call) for call in found)
        return spent - settled_aud(settlements(self._store, self._study), billed=False)

    def _change(self, change: Any) -> None:
        """Change the account as nobody else changes it meanwhile: by its version, again until it holds."""
        accounts = self._store.database["accounts"]
        while True:
            found = accounts.find_one({"_id": self._study})
            account = found or {"version": 0, "settled_aud": 0.0, "grants": []}
            version = account["version"]
            change(account)
            content = {"settled_aud": account["settled_aud"], "grants": account["grants"]}
            if found is None:
                try:
                    accounts.insert_one({"_id": self._study, "version": 1, **content})
                except DuplicateKeyError:
                    continue
                return
            key = {"_id": self._study, "version": version}
            if accounts.find_one_and_update(key, {"$set": {"version": version + 1, **content}}) is not None:
                return


def _inherited(call: Mapping[str, Any]) -> float:
    return float(call.get("inherited_aud") or 0.0)


def _cost(call: Mapping[str, Any]) -> float:
    flight = (call.get("worst_aud") or 0.0) if was_sent(call) else 0.0
    return float((call.get("aud_cost") or 0.0) + (call.get("unsure_aud") or 0.0) + flight)

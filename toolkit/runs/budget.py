"""The budget of a study, one sum in the store, and how money that may have been billed is settled."""

import asyncio
import math
from collections import defaultdict

from toolkit.errors import BudgetReached, InputError
from toolkit.files.digests import digest
from toolkit.plan import Plan
from toolkit.runs.ledger import calls_by_state, claimed_calls, open_batches, was_sent
from toolkit.runs.owner import Owner, living_owner
from toolkit.store.connection import Store
from toolkit.store.documents import Call, Settlement
from toolkit.store.documents import Owner as Lock
from toolkit.store.writer import Document, Duplicate, utc_now
from toolkit.words import Summary, counted, money, total_aud

_UNIT = 1e-9
"""AUD of one unit of the sum: whole numbers, whose sums are exact on every server."""


class Account:
    """A study's budget: one sum in the store, added to before a call is sent, at its worst, and corrected afterwards.

    The server adds where the sum stays within the budget and this process still is the owner of the study; so what is
    sent never passes it, however a process ends. The sum is made anew from the ledger when an owner starts.
    """

    def __init__(self, owner: Owner, budget_aud: float) -> None:
        self._owner, self._budget = owner, budget_aud
        self._reserved = 0.0  # set aside for calls under way
        self._unused = 0.0  # of what was set aside, what the sum still has too much
        self._given_back = 0  # how often something was
        self._changed, self._adding, self._queue = asyncio.Event(), asyncio.Lock(), asyncio.Lock()
        self.overrun: dict[tuple[str, str], float] = {}
        """What models billed above the worst case of a call before, as a factor of it, by provider and model."""
        spent = [batch.worst_aud for batch in open_batches(owner.store, owner.study)]
        fields = ("state", "sent", "provider", "model", "aud_cost", "unsure_aud", "worst_aud")
        for call in owner.store.each_where(Call, {"study": owner.study}, only=fields):
            worst, cost = call.get("worst_aud") or 0.0, call.get("aud_cost") or 0.0
            spent += [cost, call.get("unsure_aud") or 0.0, worst if was_sent(call) else 0.0]
            if 0 < worst < cost:
                model = (call["provider"], call["model"])
                self.overrun[model] = max(self.overrun.get(model, 1.0), cost / worst)
        cleared = settled_aud(settlements(owner.store, owner.study), billed=False)
        self._change({"$set": {"units": math.ceil((total_aud(spent) - cleared) / _UNIT)}})

    async def reserve(self, aud: float) -> None:
        """Set aside what a call costs at worst; waits for calls under way, which may cost less than their worst."""
        async with self._queue:  # so that calls are sent in the order in which they come
            given_back = self._given_back
            while not await self.fits_still(aud):
                # What was given back while the server answered may be enough.
                if given_back == self._given_back:
                    if not self._reserved:
                        lock = self._owner.store.get(Lock, {"_id": self._owner.study}) or {"units": 0}
                        raise BudgetReached(
                            f"budget.aud: {money(self._budget)} could be passed by the next call, at worst "
                            f"{money(aud)} ({money(lock['units'] * _UNIT)} are spent, or kept for calls under way); "
                            "raise it in the study file and run again"
                        )
                    self._changed.clear()
                    await self._changed.wait()
                given_back = self._given_back

    async def fits_still(self, more: float) -> bool:
        """Set aside as much more where it is in the budget after all that was spent; return whether."""
        async with (
            self._adding
        ):  # else a call that does not fit may come before the one that took the rest is noted
            unused = self._unused
            adding = asyncio.ensure_future(asyncio.to_thread(self._add, more - unused))
            try:
                fits = await asyncio.shield(adding)
            except asyncio.CancelledError:
                if await adding:  # set aside for nobody
                    self._give_back(more - unused)
                raise
            if fits:
                self._unused -= unused
                self._reserved += more
        return fits

    def adopt(self, aud: float) -> None:
        """Take over what was set aside for a batch of an owner before."""
        self._reserved += aud

    def settle(self, reserved: float, spent: float) -> None:
        """Give back a reservation and note what was used of it."""
        self._reserved -= reserved
        if self._reserved < 1e-12:
            self._reserved = 0.0  # sums of floats: nothing is under way
        self._give_back(reserved - spent)

    def _give_back(self, aud: float) -> None:
        self._unused += aud
        self._given_back += 1
        self._changed.set()

    def _add(self, aud: float) -> bool:
        most = {"units": {"$lte": round((self._budget - aud) / _UNIT)}}
        return self._change({"$inc": {"units": math.ceil(aud / _UNIT)}}, most)

    def _change(self, change: Document, condition: Document | None = None) -> bool:
        store, key = self._owner.store, {"_id": self._owner.study, "name": self._owner.name}
        return store.writer.retried(lambda _: store.update(Lock, {**key, **(condition or {})}, change))


def settlements(store: Store, study: str) -> list[Document]:
    """Return every settlement of a study, oldest first: at, billed, note, aud and the calls with what each may cost."""
    stored = store.each_where(Settlement, {"study": study})
    return sorted(stored, key=lambda settlement: settlement["at"])


def settled_aud(records: list[Document], *, billed: bool) -> float:
    """Return the AUD of those settlements that were accepted as billed, or that were cleared."""
    return total_aud(settlement["aud"] for settlement in records if settlement["billed"] is billed)


def unsure_calls(store: Store, study: str, owner: str | None) -> dict[str, float]:
    """Return the calls that may have been billed though they brought nothing, with unsettled AUD at worst, by id."""
    unsure: defaultdict[str, float] = defaultdict(float)
    broken = {"study": study, "unsure_aud": {"$gt": 0}}
    for call in store.each_where(Call, broken, only=("unsure_aud",)):
        unsure[call["_id"]] += call["unsure_aud"]
    for call in claimed_calls(store, study):
        if was_sent(call) and call["owner"] != owner:
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
        raise InputError(
            "--settle: say how it is known, as in --settle billed 'invoice of May shows 12 requests'"
        )
    if living_owner(store, study):
        raise InputError(
            f"{study}: a process works on this study; stop it, or wait for its end, and settle then"
        )
    calls = unsure_calls(store, study, None)
    if not calls:
        return Summary(
            {"study": study, "settled_calls": 0, "settled_aud": 0.0},
            f"{study}: no call is unsure, nothing to settle",
        )
    named = [{"call_id": call_id, "aud": aud} for call_id, aud in sorted(calls.items())]
    earlier = sorted(settlement["_id"] for settlement in settlements(store, study))
    record = {
        # Named by what it settles: of two that settle the same at once one wins.
        "_id": digest(study, named, earlier),
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

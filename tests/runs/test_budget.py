"""One budget for all processes: grants and settled money never pass it, however the processes end."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from toolkit.errors import BudgetReached
from toolkit.runs.budget import Account
from toolkit.runs.ledger import Owner
from toolkit.store.connection import Store


def opened(store: Store, budget: float, study: str = "s") -> tuple[Account, Owner]:
    owner = Owner(store, study)
    return Account(store, study, owner, budget), owner


def account(store: Store) -> dict[str, Any]:
    found = store.database["accounts"].find_one({"_id": "s"})
    assert found is not None
    return found


def call(store: Store, number: int, owner: str, state: str, **money: float) -> None:
    store.database["calls"].insert_one(
        {"_id": f"{number}", "study": "s", "owner": owner, "state": state, **money}
    )


def test_threads_of_a_process_share_one_heartbeat(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads make the owner known while the store takes its time; a second heartbeat would outlive its end."""
    owner, lease = Owner(store, "s"), Owner._lease

    def slowly(self: Owner) -> None:
        time.sleep(0.05)
        lease(self)

    monkeypatch.setattr(Owner, "_lease", slowly)
    with ThreadPoolExecutor(8) as pool:
        for start in [pool.submit(owner.start) for _ in range(8)]:
            start.result()
    names = [thread.name for thread in threading.enumerate()]
    owner.close()
    assert names.count("owner-heartbeat") == 1


def test_an_account_that_was_removed_forgets_nothing(store: Store) -> None:
    """What was spent before is counted again from the ledger, and the cap holds."""
    money, owner = opened(store, 1.0)
    call(store, 1, "another:1:1:x", "done", aud_cost=0.9)
    asyncio.run(money.reserve(0.05))
    money.settle(0.05, 0.05)
    store.database["accounts"].delete_many({})
    store.database["owners"].delete_many({})
    with pytest.raises(BudgetReached):
        asyncio.run(money.reserve(0.2))
    owner.close()


def spend(money: Account, worst: float, cost: float, calls: int, at_once: int) -> float:
    """Spend on calls that cost less than their worst, at most ``at_once`` under way, until the budget is reached."""

    async def work() -> float:
        total = 0.0
        room = asyncio.Semaphore(at_once)

        async def one() -> float:
            async with room:
                await money.reserve(worst)
                await asyncio.sleep(0.001)
                money.settle(worst, cost)
                return cost

        for end in await asyncio.gather(*(one() for _ in range(calls)), return_exceptions=True):
            if isinstance(end, float):
                total += end
            else:
                assert isinstance(end, BudgetReached)
        return total

    return asyncio.run(work())


def test_calls_that_cost_less_than_their_worst_use_the_budget_up(store: Store) -> None:
    """Waiting for what is under way leaves at most one worst case unspent, and never spends more than there is."""
    money, owner = opened(store, 1.0)
    spent = spend(money, worst=0.2, cost=0.03, calls=100, at_once=8)
    assert 0.8 < spent <= 1.0
    money.close()
    owner.close()
    assert account(store)["units"] / 1e9 == pytest.approx(spent)


def test_what_was_spent_before_counts_with_what_may_have_been(store: Store) -> None:
    """Calls of earlier processes, broken attempts and claims left in flight are settled at their worst."""
    call(store, 1, "gone:1:1:a", "done", aud_cost=0.3, unsure_aud=0.1)
    call(store, 2, "gone:1:1:a", "failed", unsure_aud=0.2)
    call(store, 3, "gone:1:1:a", "claimed", worst_aud=0.2)
    money, owner = opened(store, 1.0)
    asyncio.run(money.reserve(0.15))
    with pytest.raises(BudgetReached):
        asyncio.run(opened(store, 1.0)[0].reserve(0.1))
    assert account(store)["units"] / 1e9 == pytest.approx(0.8 + 0.15)
    owner.close()


def test_a_call_taken_over_is_counted_once(store: Store) -> None:
    """What a dead owner's call may have cost counts once, before and after a living one has it."""
    call(store, 1, "gone:1:1:a", "claimed", worst_aud=0.4)
    first, owner = opened(store, 1.0)
    asyncio.run(first.reserve(0.1))
    changes = {
        "owner": owner.name,
        "inherited_aud": 0.4,
        "unsure_aud": 0.4,
        "state": "done",
        "aud_cost": 0.05,
    }
    store.database["calls"].update_one({"_id": "1"}, {"$set": changes})
    first.settle(0.1, 0.05)
    second, other = opened(store, 1.0)
    asyncio.run(second.reserve(0.1))
    assert account(store)["units"] / 1e9 == pytest.approx(0.4 + 0.1 + 0.1)
    first.close()
    owner.close()
    assert account(store)["units"] / 1e9 == pytest.approx(0.45 + 0.1)
    other.close()
    second.close()


def test_a_process_that_dies_gives_its_grant_back_and_its_spending_stays(store: Store) -> None:
    """A grant of a dead owner is replaced by what its calls cost."""
    dying, owner = opened(store, 1.0)
    asyncio.run(dying.reserve(0.5))
    call(store, 1, owner.name, "done", aud_cost=0.2)
    owner.close()  # as a lease that ran out: nobody is at work under this name any more
    money, other = opened(store, 1.0)
    asyncio.run(money.reserve(0.75))
    assert account(store)["units"] / 1e9 == pytest.approx(0.2 + 0.75)
    dying.close()  # too late: it is counted already
    assert account(store)["units"] / 1e9 == pytest.approx(0.2 + 0.75)
    other.close()
    money.close()


def test_processes_at_the_same_time_never_pass_the_budget_together(store: Store) -> None:
    """Three accounts draw at once, interleaved; the sum of what they spend is within the budget and near it."""
    dice = random.Random(4)

    async def work() -> float:
        total = 0.0

        async def one(money: Account) -> None:
            nonlocal total
            while True:
                cost = dice.uniform(0.001, 0.01)
                try:
                    await money.reserve(0.01)
                except BudgetReached:
                    return
                await asyncio.sleep(0)
                money.settle(0.01, cost)
                total += cost

        await asyncio.gather(*(one(money) for money, _ in accounts for _ in range(4)))
        return total

    accounts = [opened(store, 1.0) for _ in range(3)]
    spent = asyncio.run(work())
    assert 0.9 < spent <= 1.0
    for money, owner in accounts:
        money.close()
        owner.close()
    assert account(store)["units"] / 1e9 == pytest.approx(spent)

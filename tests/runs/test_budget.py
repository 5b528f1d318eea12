"""The budget of a study: what is set aside and what was spent never pass it together."""

import asyncio
import contextlib
import random

import pytest

from toolkit.errors import BudgetReached
from toolkit.runs.budget import Account
from toolkit.runs.owner import Owner


@pytest.fixture
def owner(store):
    owner = Owner(store, "s")
    owner.start()
    yield owner
    owner.close()


def booked(store):
    lock = store.database["owners"].find_one({"_id": "s"})
    assert lock is not None
    return float(lock["units"] / 1e9)


def call(store, number, owner, state, **money):
    store.database["calls"].insert_one(
        {
            "_id": f"{number}",
            "study": "s",
            "owner": owner,
            "state": state,
            "provider": "p",
            "model": "m",
            **money,
        }
    )


@pytest.mark.parametrize("seed", [0, 4])
def test_calls_that_cost_less_than_their_worst_use_the_budget_up(store, owner, seed):
    """Waiting for what is under way leaves at most one worst case unspent, and never spends more than there is."""
    account, rng = Account(owner, 1.0), random.Random(seed)

    async def work():
        total, endpoint = 0.0, asyncio.Semaphore(8)

        async def spend():
            nonlocal total
            async with endpoint:
                cost = rng.uniform(0.01, 0.05)
                await account.reserve(0.2)
                await asyncio.sleep(0.001)
                account.settle(0.2, cost)
                total += cost

        ends = await asyncio.gather(*(spend() for _ in range(100)), return_exceptions=True)
        assert {type(end) for end in ends} == {BudgetReached, type(None)}
        return total

    spent = asyncio.run(work())
    assert 0.8 < spent <= 1.0
    assert booked(store) == pytest.approx(spent, abs=0.2)


@pytest.mark.parametrize("pause", [0.0, 0.002])
def test_calls_that_fit_one_after_the_other_all_have_their_turn(store, owner, pause):
    """Many that ask at once while one worst case fits: nobody is told that the budget is reached."""
    account = Account(owner, 1.0)

    async def spend():
        await account.reserve(0.9)
        await asyncio.sleep(pause)
        account.settle(0.9, 0.001)

    async def work():
        await asyncio.wait_for(asyncio.gather(*(spend() for _ in range(60))), 60)

    asyncio.run(work())
    assert asyncio.run(account.fits_still(0.001))  # writes what was given back at last
    assert booked(store) == pytest.approx(60 * 0.001 + 0.001)


def test_a_call_that_is_cancelled_while_the_server_answers_takes_nothing(store, owner):
    """What was added for it is given back, once."""
    account = Account(owner, 1.0)

    async def work():
        for _ in range(20):
            waiting = asyncio.ensure_future(account.reserve(0.9))
            await asyncio.sleep(0)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
                account.settle(0.9, 0.0)
        await account.reserve(1.0)

    asyncio.run(work())
    assert booked(store) == pytest.approx(1.0)


def test_what_was_spent_before_counts_with_what_may_have_been(store, owner):
    """Calls of earlier processes, broken attempts and claims left in flight are settled at their worst."""
    call(store, 1, "gone", "done", aud_cost=0.3, unsure_aud=0.1)
    call(store, 2, "gone", "failed", unsure_aud=0.2)
    call(store, 3, "gone", "claimed", worst_aud=0.2, sent=True)
    call(store, 4, "gone", "claimed", worst_aud=0.2, sent=False)
    account = Account(owner, 1.0)
    assert booked(store) == pytest.approx(0.8)
    asyncio.run(account.reserve(0.15))
    assert booked(store) == pytest.approx(0.8 + 0.15)
    assert not asyncio.run(account.fits_still(0.1))
    # A call that is taken over counts once.
    changes = {
        "inherited_aud": 0.2,
        "unsure_aud": 0.2,
        "state": "done",
        "aud_cost": 0.15,
        "owner": owner.name,
    }
    store.database["calls"].update_one({"_id": "3"}, {"$set": changes})
    Account(owner, 1.0)
    assert booked(store) == pytest.approx(0.8 + 0.15)


def test_who_is_not_the_owner_any_more_can_set_nothing_aside(store, owner):
    account = Account(owner, 1.0)
    assert asyncio.run(account.fits_still(0.1))
    store.database["owners"].update_one({"_id": "s"}, {"$set": {"name": "another"}})
    assert not asyncio.run(account.fits_still(0.1))

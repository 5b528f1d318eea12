"""A call is asked once, kept before anyone hears of it, retried within bounds, and never over the budget."""

import asyncio
import threading
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest
from cases import cases

from toolkit.errors import BudgetReached, InputError, ModelError
from toolkit.models.base import Message, ModelReply, ModelRequest, Usage
from toolkit.models.catalogue import model_spec
from toolkit.models.prices import Price
from toolkit.runs.execution import each, run_anywhere
from toolkit.runs.gateway import Endpoint, Gateway
from toolkit.runs.ledger import Busy, Claim, ClaimLost, Ledger
from toolkit.runs.limits import RetryPolicy
from toolkit.store.documents import Call
from toolkit.store.writer import is_as_sealed, utc_now

CASES = cases(__file__)

REQUEST = ModelRequest("scripted", "scripted", (Message("user", "Which port?"),), max_tokens=10)
PRICE = Price(1.0, 2.0, 1.5, "test", "test")
QUICK = RetryPolicy(attempts=3, first_wait=0.0, longest_wait=0.0)


class Counted:
    """A model that counts how often it is asked and answers what it is told."""

    def __init__(self, *outcomes):
        self.asked = 0
        self._outcomes = outcomes

    async def ask(self, request):
        outcome = self._outcomes[min(self.asked, len(self._outcomes) - 1)]
        self.asked += 1
        await asyncio.sleep(0.01)
        if isinstance(outcome, Exception):
            raise outcome
        return ModelReply(outcome, "stop", Usage(15, 10), "scripted-1", {"text": outcome})

    async def close(self):
        pass


def ask(gateway, repeat=0):
    """Ask for a reply of a run."""
    return gateway.ask(replace(REQUEST, repeat=repeat), purpose="run")


def claimed(ledger):
    """Claim the call of a request that may cost half a dollar."""
    return ledger.claim(REQUEST, purpose="run", worst_aud=0.5)


def in_gateway(store, model, work=ask, *, study="s", price=PRICE, **settings):
    """Open a gateway to one model, do the work, and close it."""

    async def main():
        ledger = Ledger(store, study)
        endpoint = Endpoint(model_spec("scripted"), price, lambda: model, concurrency=4)
        gateway = Gateway(ledger, [endpoint], concurrency=4, retry=QUICK, **settings)
        try:
            gateway.open()
            return await work(gateway)
        finally:
            await gateway.close()

    return run_anywhere(main, threading.Event())


def test_the_same_repeat_is_asked_once_and_another_repeat_again(store):
    """Identity includes the repeat index: ten repeats are ten calls, the same repeat twice is one."""
    model = Counted("Port 22.")

    async def work(gateway):
        return [await ask(gateway, n) for n in [*range(10)] * 2]

    answers = in_gateway(store, model, work)
    assert model.asked == 10
    assert [answer.from_ledger for answer in answers] == [False] * 10 + [True] * 10


def test_an_answer_comes_back_whole_from_the_ledger(store):
    """Text, raw reply, tokens, cost and latency are the same in a later process."""
    first = in_gateway(store, Counted("Port 22."))
    model = Counted("another reply")
    second = in_gateway(store, model, study="other study")
    assert model.asked == 0
    assert second == replace(first, from_ledger=True)
    assert second.aud_cost == pytest.approx((15 * 1.0 + 10 * 2.0) / 1e6 * 1.5, rel=1e-14)


def test_a_call_costs_what_holds_on_its_day_and_a_count_that_is_not_believed_is_noted(store, monkeypatch):
    """The price doubles while a study is at work, and is known to be reserved before."""
    days = [datetime(2026, 11, day, 23, 59, tzinfo=UTC) for day in (28, 30)] + [
        datetime(2026, 12, 1, tzinfo=UTC)
    ]
    later = replace(PRICE, usd_per_million_input=2.0, usd_per_million_output=4.0, since=days[-1].date())
    price = replace(PRICE, dated=(PRICE, later))

    class Doubted(Counted):
        async def ask(self, request):
            reply = await super().ask(request)
            return replace(reply, usage=replace(reply.usage, estimated=True, doubt="2^39 tokens"))

    async def work(gateway):
        answers = []
        for number, moment in enumerate(days):
            monkeypatch.setattr("toolkit.runs.gateway.utc_now", lambda now=moment: now)
            answers.append(await ask(gateway, number))
        assert gateway.counters.doubted == 3
        return answers

    answers = in_gateway(store, Doubted("Port 22."), work, price=price)
    once = (15 * 1.0 + 10 * 2.0) / 1e6 * 1.5
    assert [one.aud_cost for one in answers] == pytest.approx([once, once, 2 * once])
    calls = list(store.objects(Call))
    assert all(call.worst_aud >= 2 * 10 * 2.0 / 1e6 * 1.5 for call in calls)
    assert [call.attempts[-1]["doubt"] for call in calls] == ["2^39 tokens"] * 3


def test_texts_that_a_store_cannot_hold_are_kept(store):
    """NUL characters and lone surrogates, in the name of the model too, neither fail nor change until later."""
    text = "a\x00b \ud800 \U0001f600 \u202e end"

    class Odd(Counted):
        async def ask(self, request):
            return replace(await super().ask(request), model="m\ud800")

    first = in_gateway(store, Odd(text))
    later = in_gateway(store, Counted("x"))
    assert (later.reply.text, later.reply.model) == (first.reply.text, first.reply.model)
    assert (later.reply.model, first.from_ledger, later.from_ledger) == ("m?", False, True)
    assert first.reply.raw == {"text": text}
    assert "\U0001f600" in first.reply.text


@pytest.mark.parametrize("lost", [False, True], ids=["fresh", "of a dead process"])
def test_a_call_that_is_cancelled_while_it_is_claimed_leaves_no_claim(store, monkeypatch, lost):
    """Nothing was sent, so nothing may be counted against the budget; what a dead owner may have paid stays known."""
    model, claim = Counted("Port 22."), Ledger.claim

    async def work(gateway):
        there, told = asyncio.Event(), asyncio.Event()

        async def slow(ledger, *request, **settings):
            claimed = await claim(ledger, *request, **settings)
            there.set()
            await told.wait()
            return claimed

        monkeypatch.setattr(Ledger, "claim", slow)
        asking = asyncio.create_task(ask(gateway))
        await there.wait()
        asking.cancel()
        told.set()
        with pytest.raises(asyncio.CancelledError):
            await asking

    if lost:
        dead = Ledger(store, "s")
        in_ledgers(partial(claimed, dead), dead)
    in_gateway(store, model, work, budget_aud=9.0)
    assert model.asked == 0
    kept = [(c.state, [a["outcome"] for a in c.attempts], c.unsure_aud) for c in store.objects(Call)]
    if not lost:
        assert kept == []
    else:
        [(state, outcomes, unsure)] = kept
        assert (state, outcomes) == ("failed", ["lost"])
        assert unsure > 0


def test_a_slow_disk_lets_no_more_paid_replies_wait_than_a_kill_may_lose(store, monkeypatch):
    """Four requests at once: eight are under way or waiting for the disk at most, however many are to be asked."""
    disk = asyncio.Event()
    complete = Ledger.complete

    async def slow(ledger, *said, **more):
        await disk.wait()
        return await complete(ledger, *said, **more)

    monkeypatch.setattr(Ledger, "complete", slow)
    model = Counted("A reply.")

    async def work(gateway):
        answers = asyncio.gather(*[ask(gateway, n) for n in range(30)])
        while model.asked < 8:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # long enough for many more
        most = model.asked
        disk.set()
        return most, len(await answers), model.asked

    assert in_gateway(store, model, work) == (8, 30, 30)


def test_a_key_that_is_missing_leaves_no_claim(store):
    """Nothing was sent: the next run finds nothing that a dead process may have paid for."""

    async def main():
        def open_model():
            raise InputError("set OPENAI_API_KEY")

        gateway = Gateway(
            Ledger(store, "s"),
            [Endpoint(model_spec("scripted"), PRICE, open_model, concurrency=4)],
            concurrency=4,
        )
        try:
            with pytest.raises(InputError, match="OPENAI_API_KEY"):
                await ask(gateway)
        finally:
            await gateway.close()

    run_anywhere(main, threading.Event())
    assert store.database["calls"].count_documents({}) == 0


def test_what_cannot_succeed_is_not_repeated_and_is_asked_again_in_a_later_run(store):
    """A bad request fails at once with its reason; running the study again gives it another chance."""
    model = Counted(ModelError("no such model", reason="not_found"), "Port 22.")

    async def work(gateway):
        with pytest.raises(ModelError, match="no such model"):
            await ask(gateway)
        return await ask(gateway)

    answer = in_gateway(store, model, work)
    assert (answer.reply.text, answer.attempts, model.asked) == ("Port 22.", 2, 2)
    stored = store.objects(Call).get()
    assert [attempt["outcome"] for attempt in stored.attempts] == ["not_found", "answered"]
    assert not stored.failure


def test_a_failure_beside_tokens_is_booked_as_perhaps_billed(store):
    """The provider counted tokens for an error: asked again, and the first attempt counts at its worst."""
    model = Counted(ModelError("no", reason="server_error", retryable=True, billed=True), "Port 22.")
    in_gateway(store, model, budget_aud=1.0)
    call = store.objects(Call).get()
    assert [attempt["outcome"] for attempt in call.attempts] == ["server_error", "answered"]
    assert call.unsure_aud == call.worst_aud > 0


def test_a_wrong_key_stops_its_provider_after_the_first_reply(store):
    """Nine hundred runs are not sent to a provider that refuses the key."""
    model = Counted(ModelError("wrong key", reason="wrong_key", fatal_for_provider=True))

    async def work(gateway):
        calls = (ask(gateway, n) for n in range(30))
        return await asyncio.gather(*calls, return_exceptions=True)

    ends = in_gateway(store, model, work)
    assert model.asked <= 4  # what was in flight when the first refusal came
    assert all(isinstance(end, ModelError) and end.reason == "wrong_key" for end in ends)


def test_the_budget_is_a_cap_over_everything_ever_spent(store):
    """No call starts that could pass the budget, in this execution or the next."""
    model = Counted("Port 22.")
    budget = 0.0004  # each call costs 0.0000525 AUD

    async def work(gateway):
        calls = [ask(gateway, number) for number in range(20)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        return sum(isinstance(end, BudgetReached) and end.exit_code == 3 for end in ends)

    assert in_gateway(store, model, work, budget_aud=budget) > 0
    spent = sum(call.aud_cost or 0.0 for call in store.objects(Call))
    assert 0 < spent <= budget
    asked = model.asked
    in_gateway(store, model, work, budget_aud=spent)
    assert model.asked == asked


def in_ledgers(work, *ledgers):
    for ledger in ledgers:
        ledger.owner.start()
    run_anywhere(work, threading.Event())
    for ledger in ledgers:
        ledger.owner.close()


def end_owner(store, study):
    """Have the process that owns a study be another than the one that has its number now."""
    store.database["owners"].update_one({"_id": study}, {"$set": {"birth": "1"}})


def test_a_claim_of_a_dead_process_is_taken_over_and_a_living_one_is_not(store):
    """Also by another study; what was in flight when the owner died stays in the ledger as a lost attempt."""
    ledger, other = Ledger(store, "s"), Ledger(store, "t")

    async def work():
        first = await claimed(ledger)
        assert isinstance(first, Claim)
        assert (first.earlier, first.inherited_aud) == ((), 0.0)
        assert await claimed(ledger) == Busy(is_own=True)
        assert await claimed(other) == Busy()
        end_owner(store, "s")
        taken = await claimed(other)
        assert isinstance(taken, Claim)
        assert ([one["outcome"] for one in taken.earlier], taken.inherited_aud) == (["lost"], 0.5)
        call = store.objects(Call).get()
        assert ([attempt["outcome"] for attempt in call.attempts], call.unsure_aud) == (["lost"], 0.5)
        end_owner(store, "t")
        again = await claimed(ledger)
        assert isinstance(again, Claim)
        assert (len(again.earlier), again.inherited_aud) == (2, 1.0)

    in_ledgers(work, ledger, other)


@pytest.mark.parametrize("end", ["complete", "fail"])
def test_what_was_sent_under_a_claim_that_is_gone_is_kept(store, end):
    """A reply is stored though its claim was removed, attempts and what they may have cost too."""
    ledger, attempts = Ledger(store, "s"), [{"at": utc_now(), "outcome": "timeout", "ms": 1.0}]
    reply = ModelReply("Port 22.", "stop", Usage(3, 2), "m")

    async def work():
        claim = await claimed(ledger)
        assert isinstance(claim, Claim)
        store.database["calls"].delete_many({})
        with pytest.raises(ClaimLost):
            await ledger.note(claim, [], 0.0, worst_aud=0.5, sent=True)
        if end == "complete":
            await ledger.complete(claim, reply, aud_cost=0.1, latency_ms=1.0, attempts=attempts)
        else:
            await ledger.fail(claim, reason="timeout", message="", attempts=attempts, unsure_aud=0.5)

    in_ledgers(work, ledger)
    (call,) = store.objects(Call)
    state = {"complete": "done", "fail": "failed"}[end]
    assert (call.state, call.unsure_aud, len(call.attempts)) == (state, 0.0 if end == "complete" else 0.5, 1)
    assert call.text == ("Port 22." if end == "complete" else None)


def test_of_two_replies_to_a_call_the_first_stays_and_both_are_booked(store):
    """A claim that was taken over though its owner lived: nothing is sent under it, and no reply replaces another."""
    slow, fast = Ledger(store, "s"), Ledger(store, "t")
    answers = []

    def came(by):
        return [{"at": utc_now(), "outcome": "answered", "ms": 1.0, "by": by}]

    async def work():
        mine = await claimed(slow)
        end_owner(store, "s")
        taken = await claimed(fast)
        assert isinstance(mine, Claim)
        assert isinstance(taken, Claim)
        with pytest.raises(ClaimLost):
            await slow.note(mine, [], 0.0, worst_aud=0.5, sent=True)
        for ledger, claim in ((fast, taken), (slow, mine)):
            reply, by = ModelReply(f"{ledger is fast}", "stop", Usage(3, 2), "m"), f"{ledger is fast}"
            answers.append(
                await ledger.complete(claim, reply, aud_cost=0.1, latency_ms=1.0, attempts=came(by))
            )

    in_ledgers(work, slow, fast)
    assert [answer.reply.text for answer in answers] == ["True", "True"]
    document = store.database["calls"].find_one({})
    assert document is not None
    assert (document["text"], document["aud_cost"]) == ("True", 0.1)
    # What was lost, as far as the second knew, and the second reply.
    assert document["unsure_aud"] == pytest.approx(0.5 + 0.1)
    assert [one["outcome"] for one in document["attempts"]] == ["lost", "answered", "answered"]
    assert is_as_sealed(document)


def test_run_anywhere_works_where_a_loop_is_running():
    """In a notebook cell a loop is running already; the coroutine runs all the same and its error comes through."""

    async def inner():
        await asyncio.sleep(0)
        return "done"

    async def broken():
        raise ModelError("said no", reason="bad_request")

    async def cell():
        with pytest.raises(ModelError, match="said no"):
            run_anywhere(broken, threading.Event())
        return run_anywhere(inner, threading.Event())

    assert asyncio.run(cell()) == "done"


def test_each_begins_in_order_and_stops_when_told():
    """Items are begun in order, never more at once than allowed, none after a stop, all when a budget is reached."""
    begun = []
    running = 0
    most = 0
    stop = threading.Event()

    async def work(number):
        nonlocal running, most
        begun.append(number)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        if number == 20:
            stop.set()
        if number in (50, 60):
            raise BudgetReached(f"enough for {number}")

    assert asyncio.run(each([range(100)], work, at_once=5, stop=stop)) is None
    assert begun == list(range(len(begun)))
    assert 20 < len(begun) <= 25
    assert most == 5
    reached = asyncio.run(each([range(40, 100)], work, at_once=5, stop=threading.Event()))
    assert str(reached) == "enough for 50"
    assert begun[-1] == 99


@pytest.mark.parametrize(("finish", "text", "defect"), CASES["defects"])
def test_what_keeps_a_reply_from_being_whole(finish, text, defect):
    """The reason is the provider's own where it gives one; no text at all is empty."""
    assert ModelReply(text, finish, Usage(1, 1), "m").defect == defect

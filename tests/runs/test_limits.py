"""Requests go in order, never more than allowed, slower after a refusal and faster while it goes well."""

import asyncio
from functools import wraps

import pytest
from cases import cases

from toolkit.runs.limits import LONGEST_WAIT, Limiter, Places

CASES = cases(__file__)


class Jumping(asyncio.SelectorEventLoop):
    """A loop in which nothing takes time but waiting: its clock jumps to the next moment at which something is due."""

    def __init__(self):
        super().__init__()
        self._now = 0.0
        select = self._selector.select

        def jump(timeout=None):
            assert timeout is not None, "everybody waits and nothing will ever happen"
            self._now += max(timeout, 1e-6)
            return select(0)

        self._selector.select = jump

    def time(self):
        """Return the seconds since the loop began."""
        return self._now


def in_no_time(work):
    """Have a coroutine run in such a loop: how busy the machine is changes nothing."""

    @wraps(work)
    def run(*given, **named):
        with asyncio.Runner(loop_factory=Jumping) as runner:
            return runner.run(work(*given, **named))

    return run


def limited(most, **settings):
    """Return a limiter by the clock of the loop that runs."""
    return Limiter(most, clock=asyncio.get_running_loop().time, **settings)


def now():
    """Return the time of the loop that runs."""
    return asyncio.get_running_loop().time()


async def answered(limiter, times=1):
    """Have so many requests go and be answered, one after the other."""
    for _ in range(times):
        limiter.leave(await limiter.enter(), answered=True)


@pytest.mark.parametrize(("most", "start"), CASES["starts"])
@in_no_time
async def test_it_starts_with_ten_or_half_the_maximum(most, start):
    """Never more than the maximum, and not all at once where the maximum is large."""
    limiter = limited(most)
    for _ in range(start):
        await asyncio.wait_for(limiter.enter(), 0.001)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(limiter.enter(), 0.001)


@in_no_time
async def test_it_grows_with_answers_up_to_the_maximum_and_never_above():
    """Thirty answers open thirty places more; a thousand do not pass the maximum."""
    limiter = limited(100)
    await answered(limiter, 30)
    grown = limiter.at_once
    await answered(limiter, 1000)
    assert (grown, limiter.at_once) == (80, 100)


@in_no_time
async def test_refusals_of_one_round_halve_it_once_and_the_next_round_again():
    """Ten requests refused together are one sign, not ten; it never falls below one."""
    limiter = limited(16)
    seen = []
    for _ in range(6):
        slots = [await limiter.enter() for _ in range(limiter.at_once)]
        await asyncio.sleep(1)
        for slot in slots:
            limiter.leave(slot, refused=True)
        await asyncio.sleep(1)
        seen.append(limiter.at_once)
    assert seen == [5, 2, 1, 1, 1, 1]


@in_no_time
async def test_after_a_refusal_it_grows_by_one_a_round():
    """Additive increase: as many answers as there are places open one place."""
    limiter = limited(20)
    limiter.leave(await limiter.enter(), refused=True)
    shrunk = limiter.at_once
    await answered(limiter, shrunk + 1)
    assert (shrunk, limiter.at_once) == (5, 6)


@in_no_time
async def test_retry_after_holds_back_everything():
    """A provider that asks for 0.2 s is sent nothing before, by nobody."""
    limiter = limited(10)
    limiter.leave(await limiter.enter(), refused=True, retry_after=0.2)
    started = now()
    await asyncio.gather(*(limiter.enter() for _ in range(5)))
    assert now() - started == pytest.approx(0.2, abs=0.001)


@in_no_time
async def test_pauses_without_an_answer_end_after_ten_minutes():
    """Refusals of one round ask for one pause; an answer begins anew; a single wish of more is none to wait for."""
    limiter, times = limited(10), []
    assert not limiter.waits_for(LONGEST_WAIT + 1)
    for begins_anew in (True, False):
        started = now()
        while limiter.waits_for(70):
            slots = [await limiter.enter() for _ in range(limiter.at_once)]
            for slot in slots:
                limiter.leave(slot, refused=True, retry_after=70)
        times.append(now() - started)
        if begins_anew:
            await answered(limiter)
    assert times == pytest.approx([560, 560], abs=1)


@in_no_time
async def test_they_go_in_the_order_in_which_they_came_and_one_that_gives_up_holds_up_nobody():
    """Four wait for one place; the second is cancelled; the others go first to last."""
    limiter = limited(1)
    order = []

    async def ask(number):
        slot = await limiter.enter()
        order.append(number)
        await asyncio.sleep(0)
        limiter.leave(slot, answered=True)

    held = await limiter.enter()
    tasks = [asyncio.create_task(ask(number)) for number in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    limiter.leave(held)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 2, 3]


@in_no_time
async def moments(sizes, **settings):
    """Return when each of these requests went, in seconds, in order; all are asked at once."""
    limiter = limited(10, **settings)

    async def ask(size):
        slot = await limiter.enter(size)
        went = now()
        await asyncio.sleep(0.001)
        limiter.leave(slot, answered=True)
        return went

    return sorted(await asyncio.gather(*map(ask, sizes)))


@pytest.mark.parametrize(
    ("sizes", "limit", "most"),
    CASES["windows"],
    ids=["requests", "tokens"],
)
def test_no_window_of_a_minute_holds_more_than_allowed(sizes, limit, most):
    """Ten at four a minute (0.2 s here), six of 40 tokens at 100 a minute: no more than four or two of them in one."""
    went = moments(sizes, minute=0.2, **limit)
    assert all(later - sooner >= 0.1999 for sooner, later in zip(went, went[most:], strict=False))
    assert went[-1] - went[0] == pytest.approx(0.4, abs=0.01)


def test_a_request_of_more_tokens_than_a_minute_has_goes_alone():
    """One of 500 at 100 a minute does not wait for ever."""
    assert len(moments([500.0, 10.0], tokens_per_minute=100, minute=0.1)) == 2


@in_no_time
async def test_what_a_request_really_used_counts():
    """A request that was counted as 90 of 100 tokens and used 10 leaves room for the next at once."""
    limiter = limited(10, tokens_per_minute=100, minute=30.0)
    limiter.leave(await limiter.enter(90.0), answered=True, tokens=10.0)
    started = now()
    await limiter.enter(90.0)
    assert now() - started < 1.0


@in_no_time
async def test_a_place_in_which_nothing_was_sent_counts_for_no_minute():
    """Another study has the call: its place is given back at once, and the next request need not wait a minute."""
    limiter = limited(10, requests_per_minute=2.0)
    for _ in range(20):
        limiter.leave(await limiter.enter(), unsent=True)
    await answered(limiter, 2)
    assert now() < 1.0


@in_no_time
async def test_a_provider_that_hangs_stops_no_other():
    """It has all places but one of each of the others, which go on, and when its calls end all have equal shares."""
    places, ends, counts = Places(11), {}, []
    limiters = {name: limited(11, places=places) for name in ("hanging", "quick", "slow")}

    async def call(name, seconds):
        slot = await limiters[name].enter()
        counts.append((limiters["hanging"].active, sum(each.active for each in limiters.values())))
        await asyncio.sleep(seconds)
        limiters[name].leave(slot, answered=True)
        ends.setdefault(name, []).append(now())
        limiters[name].open_calls -= 1
        places.hand_out()

    for limiter, calls in zip(limiters.values(), (40, 60, 60), strict=True):
        limiter.open_calls = calls
    hanging = [asyncio.create_task(call("hanging", 180)) for _ in range(40)]
    await asyncio.sleep(1)  # its calls are all that wait
    others = [call(name, seconds) for name, seconds in (("quick", 1), ("slow", 2)) for _ in range(60)]
    await asyncio.gather(*hanging, *others)
    assert max(total for _, total in counts) == 11
    assert max(active for active, _ in counts[:60]) == 9
    assert ends["quick"][10] < 30
    assert ends["slow"][10] < 30
    assert len(ends["quick"]) == len(ends["slow"]) == 60


@in_no_time
async def test_a_place_is_kept_for_nobody_who_may_not_take_it_yet():
    """A provider that asks for a pause waits without a place, and has its turn when its time has come."""
    places = Places(1)
    paused, other = (limited(5, places=places) for _ in range(2))
    paused.leave(await paused.enter(), refused=True, retry_after=30)
    waiting = asyncio.create_task(paused.enter())
    for _ in range(20):
        slot = await other.enter()
        await asyncio.sleep(1)
        other.leave(slot, answered=True)
    early = now()
    await waiting
    assert early == pytest.approx(20, abs=0.1)
    assert now() == pytest.approx(30, abs=0.1)

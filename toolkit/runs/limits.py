"""What one provider is sent: requests at once, adapted to how it goes, and requests and tokens a minute.

Nothing of it is on disk: a process that starts anew begins as growing.

=========== ============================== =========== ================================================================
state       event                          next        requests at once
=========== ============================== =========== ================================================================
growing     an answer                      growing     one more, up to the maximum
growing     a refusal for its rate         shrunk      half, at least one
shrunk      an answer                      shrunk      one more a round of answers
shrunk      a refusal for its rate         shrunk      half, once for all that were sent before the last refusal
any         a refusal that names a time    paused      none until then
paused      the time has come              as before   as before
any         a minute's limit is full       waiting     none until the oldest request of the minute is a minute old
any         the study is stopped           closed      none; who waits for a place is told that nothing was sent
=========== ============================== =========== ================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from toolkit.errors import ModelError

MINUTE = 60.0
POLL_SECONDS = 0.5  # between two looks at what another thread or process may have changed
START = 10
"""Requests at once in the beginning, or half the maximum where that is more; from there it grows by itself."""


LONGEST_WAIT = 600.0
"""Seconds that a run waits for a call, or at a provider's wish (``Retry-After``) without an answer in between."""
UNREACHABLE = "unreachable"  # the reason of an attempt that was never sent: no connection came to be
UNSURE = ("timeout", "connection", "malformed_body", "cancelled", "batch_lost")
"""Reasons of attempts that were sent and brought nothing readable: the provider may have answered, and billed."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long a call is tried: exponential backoff with full jitter under one deadline."""

    attempts: int = 6
    first_wait: float = 0.5
    longest_wait: float = 30.0
    deadline: float = LONGEST_WAIT

    def wait(self, attempt: int, retry_after: float | None, jitter: random.Random) -> float:
        """Return the seconds to wait after attempt number ``attempt`` (1 is the first)."""
        backoff = jitter.uniform(0, min(self.longest_wait, self.first_wait * 2 ** (attempt - 1)))
        return max(backoff, min(retry_after or 0.0, self.deadline))


@dataclass(eq=False)
class Slot:
    """The place of one request; ``tokens`` is what it is counted as in the minute that began at ``at``."""

    at: float
    tokens: float


class Places:
    """The calls of a study that may be in flight at once, over all its providers.

    A place that becomes free goes to the waiting provider with the fewest calls in flight, so that all that wait have
    equal shares. No provider takes the last place of another that has calls to make: one that hangs slows the others
    down until its calls time out, and stops none that had begun. A place is taken together with the provider's own, so
    that nobody has one and waits for the other. A place is free again when its reply has come; where the disk is slow,
    as many replies at most wait to be saved as calls go at once, so that a kill loses no more.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.unsaved = 0  # replies
        self.limiters: list[Limiter] = []

    def are_free_for(self, limiter: Limiter) -> bool:
        """Return whether a provider may take a place."""
        free = self._most - sum(each.active for each in self.limiters) - max(0, self.unsaved - self._most)
        reserved = [each for each in self.limiters if each.open_calls and not each.active]
        return free > (len(reserved) if limiter.active else 0)

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Count a reply that is being saved."""
        self.unsaved += 1
        try:
            yield
        finally:
            self.unsaved -= 1
            self.hand_out()

    def hand_out(self) -> None:
        """Let requests go as long as there are places, and requests that may take them."""
        fewest = attrgetter("active")
        while any(limiter.let_next_go() for limiter in sorted(self.limiters, key=fewest)):
            pass


class Limiter:
    """Lets requests to one provider go, in the order in which they came.

    Requests at once grow by one with every answer until the provider refuses one for its rate; then they are halved
    and grow by one a round of answers (additive increase, multiplicative decrease: Chiu & Jain 1989, Jacobson 1988),
    never above the maximum. A refusal that names a time holds back everything until then. Rates are kept for every
    window of a minute, not on average.
    """

    def __init__(
        self,
        most: int,
        *,
        places: Places | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        minute: float = MINUTE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._window = float(min(most, max(START, most // 2)))
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._minute = minute
        self._clock = clock
        self.active = 0
        self.open_calls = 0  # in flight or on their way there
        self.places = places or Places(most)
        self.places.limiters.append(self)
        self._refused = False
        self._shrunk_at = -1.0
        self._paused_until = 0.0
        self._paused_seconds = 0.0  # that the provider asked for since its last answer
        self._waiting: deque[tuple[float, asyncio.Future[Slot]]] = deque()
        self.counts_tokens = tokens_per_minute is not None  # then requests must say how many they are
        self._sent: deque[Slot] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def at_once(self) -> int:
        """Requests that may be under way at the same time now."""
        return int(self._window)

    async def enter(self, tokens: float = 0.0) -> Slot:
        """Wait for the place of a request; ``tokens`` is what it may use at worst."""
        if not self._waiting and self._wait(tokens) == 0.0:
            return self._take(tokens)
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.append((tokens, future))
        self.places.hand_out()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.leave(future.result(), unsent=True)
            raise

    def leave(
        self,
        slot: Slot,
        *,
        answered: bool = False,
        refused: bool = False,
        retry_after: float | None = None,
        tokens: float | None = None,
        unsent: bool = False,
    ) -> None:
        """Give a place back; one in which nothing was sent counts for no minute."""
        self.active -= 1
        if unsent and slot in self._sent:
            self._sent.remove(slot)
        if tokens is not None:
            slot.tokens = tokens
        now = self._clock()
        if refused:
            # One refusal a round: those that were sent before the last one say nothing new.
            if slot.at >= self._shrunk_at:
                self._window = max(1.0, self._window / 2)
                self._shrunk_at = now
            self._refused = True
            self._paused_seconds += self._longer(retry_after)
            self._paused_until = max(self._paused_until, now + (retry_after or 0.0))
        elif answered:
            self._paused_seconds = 0.0
            grown = self._window + (1 / self._window if self._refused else 1.0)
            self._window = min(float(self._most), grown)
        self.places.hand_out()

    def waits_for(self, retry_after: float | None) -> bool:
        """Return whether a provider's wish is waited for: not where that takes too long without an answer."""
        return self._paused_seconds + self._longer(retry_after) <= LONGEST_WAIT

    def _longer(self, retry_after: float | None) -> float:
        """Return the seconds by which a wish makes the pause longer: several refusals may ask for the same."""
        now = self._clock()
        return max(0.0, now + (retry_after or 0.0) - max(self._paused_until, now))

    def turn_away(self) -> None:
        """Refuse all who wait for a place, with a `ModelError` whose reason is ``stopped``."""
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(ModelError("stopped before it was sent", reason="stopped"))
        self._waiting.clear()

    def held_up(self, provider: str) -> str:
        """Return in words how long nothing goes to a provider by its wish or the study's limits, if anything waits."""
        if (pause := self._paused_until - self._clock()) > 0:
            return f"{provider} asks for {pause:.0f} s"
        wait = self._wait(self._waiting[0][0]) if self._waiting else 0.0
        return f"limits.{provider} for {wait:.0f} s" if 0.0 < wait < float("inf") else ""

    def _wait(self, tokens: float) -> float:
        """Return the seconds until a request may go; infinity when another has to come back first."""
        if self.active >= int(self._window) or not self.places.are_free_for(self):
            return float("inf")
        now = self._clock()
        while self._sent and self._sent[0].at <= now - self._minute:
            self._sent.popleft()
        wait = max(0.0, self._paused_until - now)
        full = self._requests is not None and len(self._sent) + 1 > max(1.0, self._requests)
        if self._tokens is not None and self._sent:
            full = full or tokens + sum(slot.tokens for slot in self._sent) > self._tokens
        return max(wait, self._sent[0].at + self._minute - now) if full and self._sent else wait

    def _take(self, tokens: float) -> Slot:
        slot = Slot(self._clock(), tokens)
        self.active += 1
        if self._requests is not None or self._tokens is not None:
            self._sent.append(slot)
        return slot

    def let_next_go(self) -> bool:
        """Let the first request that waits go, now or when its time has come; return whether it went now."""
        while self._waiting:
            tokens, future = self._waiting[0]
            if future.done():  # it was cancelled while it waited
                self._waiting.popleft()
                continue
            if wait := self._wait(tokens):
                if wait != float("inf"):
                    if self._timer is not None:
                        self._timer.cancel()
                    self._timer = asyncio.get_running_loop().call_later(wait, self.places.hand_out)
                return False
            self._waiting.popleft()
            future.set_result(self._take(tokens))
            return True
        return False


async def pause(seconds: float, stop: threading.Event) -> None:
    """Wait so long, or until a stop."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not stop.is_set():
        await asyncio.sleep(min(left, POLL_SECONDS))


async def turn_away_when(stop: threading.Event, limiters: Iterable[Limiter]) -> None:
    """Wait for a stop and turn away who waits then: a provider may have asked for a pause of minutes."""
    while not stop.is_set():
        await asyncio.sleep(POLL_SECONDS)
    for limiter in limiters:
        limiter.turn_away()

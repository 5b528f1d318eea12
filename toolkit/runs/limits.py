"""What one provider is sent: requests at once, adapted to how it goes, and requests and tokens a minute.

A call is claimed before it is sent, which takes a moment, and a claim of a process that is killed may have been
billed. So `prepare` lets calls be claimed just in time: only as many more than may be under way as hide that moment.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from toolkit.errors import ModelError

MINUTE: Final = 60.0
POLL_SECONDS: Final = 0.5  # between two looks at what another thread or process may have changed
START: Final = 10
"""Requests at once in the beginning, or half the maximum where that is more; from there it grows by itself."""


LONGEST_WAIT: Final = 600.0
"""Seconds that a run waits for a call, or at a provider's wish (``Retry-After``) without an answer in between."""
UNSURE: Final = ("timeout", "connection", "malformed_body", "cancelled", "batch_lost")
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


@dataclass
class Slot:
    """The place of one request; ``tokens`` is what it is counted as in the minute that began at ``at``."""

    at: float
    tokens: float


_Line = deque[tuple[float, asyncio.Future[Slot]]]
"""Those who wait for a place, or to be prepared for one, with the tokens of each."""


class _Paused(Exception):
    """The provider has asked for a pause."""


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
        self._active = 0
        self._unkept = 0
        self._refused = False
        self._shrunk_at = -1.0
        self._paused_until = 0.0
        self._paused_seconds = 0.0  # that the provider asked for since its last answer
        self._waiting: _Line = deque()
        self._preparing: _Line = deque()
        self._prepared = 0
        self._prepared_tokens = 0.0
        # Means that forget: each new value counts for a tenth.
        self._claiming_seconds = self._request_seconds = 0.0
        self.counts_tokens = tokens_per_minute is not None  # then requests must say how many they are
        self._sent: deque[Slot] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def at_once(self) -> int:
        """Requests that may be under way at the same time now."""
        return int(self._window)

    async def prepare(self, tokens: float = 0.0) -> Slot:
        """Wait until a request is soon to go, and may be claimed; ``tokens`` is what it may use at worst."""
        return await self._line_up(tokens, self._preparing, self.unprepare)

    def unprepare(self, prepared: Slot) -> None:
        """Say that a request that was prepared does not go: somebody else asks it, or nobody any more."""
        self._prepared -= 1
        self._prepared_tokens -= prepared.tokens
        self._let_go()

    async def enter(self, prepared: Slot) -> Slot | None:
        """Wait for the place of a request that was prepared; ``None`` when the provider asks for a pause meanwhile."""
        now, mean = self._clock(), self._claiming_seconds
        self._claiming_seconds += (now - prepared.at - mean) / (10 if mean else 1)
        if now < self._paused_until:
            self.unprepare(prepared)
            return None
        try:
            return await self._line_up(prepared.tokens, self._waiting, self.leave)
        except _Paused:
            return None
        finally:
            self.unprepare(prepared)

    async def _line_up(self, tokens: float, line: _Line, give_back: Callable[[Slot], None]) -> Slot:
        ahead = line is self._preparing
        if not line and self._wait(tokens, ahead=ahead) == 0.0:
            return self._take(tokens, ahead=ahead)
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        line.append((tokens, future))
        self._let_go()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                give_back(future.result())
            raise

    def leave(
        self,
        slot: Slot,
        *,
        answered: bool = False,
        refused: bool = False,
        retry_after: float | None = None,
        tokens: float | None = None,
        unkept: bool = False,
    ) -> None:
        """Give a place back."""
        self._active -= 1
        self._unkept += unkept
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
            if self._paused_until > now:
                # A claim that is not sent must not look as if it were.
                _turn_back(self._waiting, _Paused)
        elif answered:
            self._paused_seconds = 0.0
            mean = self._request_seconds
            self._request_seconds += (now - slot.at - mean) / (10 if mean else 1)
            grown = self._window + (1 / self._window if self._refused else 1.0)
            self._window = min(float(self._most), grown)
        self._let_go()

    def waits_for(self, retry_after: float | None) -> bool:
        """Return whether a provider's wish is waited for: not where that takes too long without an answer."""
        return self._paused_seconds + self._longer(retry_after) <= LONGEST_WAIT

    def _longer(self, retry_after: float | None) -> float:
        """Return the seconds by which a wish makes the pause longer: several refusals may ask for the same."""
        now = self._clock()
        return max(0.0, now + (retry_after or 0.0) - max(self._paused_until, now))

    def kept(self) -> None:
        """Say that what one request brought is on the disk, or never will be."""
        self._unkept -= 1
        self._let_go()

    def turn_away(self) -> None:
        """Refuse all who wait for a place, with a `ModelError` whose reason is ``stopped``."""
        for line in (self._waiting, self._preparing):
            _turn_back(line, partial(ModelError, "stopped before it was sent", reason="stopped"))

    def held_up(self, provider: str) -> str:
        """Return in words how long nothing goes to a provider by its wish or the study's limits, if anything waits."""
        if (pause := self._paused_until - self._clock()) > 0:
            return f"{provider} asks for {pause:.0f} s"
        waits = [
            self._wait(line[0][0], ahead=line is self._preparing)
            for line in (self._waiting, self._preparing)
            if line
        ]
        until_next = max((wait for wait in waits if wait != float("inf")), default=0.0)
        return f"limits.{provider} for {until_next:.0f} s" if until_next else ""

    def _wait(self, tokens: float, *, ahead: bool) -> float:
        """Return the seconds until a request may go, or be prepared; infinity when another has to come back first."""
        room, prepared, prepared_tokens = int(self._window), 0, 0.0
        if ahead:
            prepared, prepared_tokens = self._prepared, self._prepared_tokens
            claiming, request_seconds = self._claiming_seconds, self._request_seconds
            if claiming and request_seconds:  # room for what is answered while one is claimed, twice
                room += round(self._window * min(2.0, 2 * claiming / request_seconds))
        if self._active + prepared >= room or self._active + self._unkept >= 2 * self._most:
            return float("inf")
        now = self._clock()
        while self._sent and self._sent[0].at <= now - self._minute:
            self._sent.popleft()
        wait = max(0.0, self._paused_until - now)
        full = self._requests is not None and len(self._sent) + prepared + 1 > max(1.0, self._requests)
        if self._tokens is not None and (self._sent or prepared):
            counted = prepared_tokens + sum(slot.tokens for slot in self._sent)
            full = full or counted + tokens > self._tokens
        if full:
            wait = max(wait, self._sent[0].at + self._minute - now) if self._sent else float("inf")
        return wait

    def _take(self, tokens: float, *, ahead: bool) -> Slot:
        slot = Slot(self._clock(), tokens)
        if ahead:
            self._prepared += 1
            self._prepared_tokens += tokens
            return slot
        self._active += 1
        if self._requests is not None or self._tokens is not None:
            self._sent.append(slot)
        return slot

    def _let_go(self) -> None:
        wait = min(self._let_go_of(self._waiting), self._let_go_of(self._preparing))
        if wait != float("inf"):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(wait, self._let_go)

    def _let_go_of(self, line: _Line) -> float:
        ahead = line is self._preparing
        while line:
            tokens, future = line[0]
            if not future.done():  # otherwise it was cancelled while it waited
                if (wait := self._wait(tokens, ahead=ahead)) > 0.0:
                    return wait
                future.set_result(self._take(tokens, ahead=ahead))
            line.popleft()
        return float("inf")


def _turn_back(line: _Line, error: Callable[[], Exception]) -> None:
    for _, future in line:
        if not future.done():
            future.set_exception(error())
    line.clear()


async def turn_away_when(stop: threading.Event, limiters: Iterable[Limiter]) -> None:
    """Wait for a stop and turn away who waits then: a provider may have asked for a pause of minutes."""
    while not stop.is_set():
        await asyncio.sleep(POLL_SECONDS)
    for limiter in limiters:
        limiter.turn_away()

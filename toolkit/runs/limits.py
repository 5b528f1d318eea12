"""What one provider is sent: requests at once, adapted to how it goes, and requests and tokens a minute."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from toolkit.errors import ModelError

MINUTE: Final = 60.0
POLL_SECONDS: Final = 0.5
"""Between two looks at what another thread or process may have changed."""
START: Final = 10
"""Requests at once in the beginning, or half the maximum where that is more; from there it grows by itself."""


@dataclass
class Slot:
    """The place of one request; ``tokens`` is what it is counted as in the minute that began at ``at``."""

    at: float
    tokens: float


class Limiter:
    """Lets requests to one provider go, in the order in which they came.

    Requests at once grow by one with every answer until the provider refuses one for its rate; then they are halved
    and grow by one a round of answers (additive increase, multiplicative decrease: Chiu & Jain 1989, Jacobson 1988),
    never above the maximum. A refusal that names a time holds back everything until then. Rates are kept for every
    window of a minute, not on average.

    Parameters
    ----------
    most
        Requests at once at most.
    requests_per_minute, tokens_per_minute
        Rates; ``None`` for no limit. A request of more tokens than a minute allows goes alone.
    minute
        Seconds of a minute; shorter in tests.
    clock
        Where the time is from, in seconds.

    Examples
    --------
    >>> limiter = Limiter(40)
    >>> limiter.at_once
    20
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
        self._waiting: deque[tuple[float, asyncio.Future[Slot]]] = deque()
        self._sent: deque[Slot] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def at_once(self) -> int:
        """Requests that may be under way at the same time now."""
        return int(self._window)

    @property
    def counts_tokens(self) -> bool:
        """Whether requests must say how many tokens they are."""
        return self._tokens is not None

    async def enter(self, tokens: float = 0.0) -> Slot:
        """Wait for a place; ``tokens`` is what the request may use at worst."""
        if not self._waiting and self._wait(tokens) == 0.0:
            return self._take(tokens)
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.append((tokens, future))
        self._let_go()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.leave(future.result())
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
        """Give a place back.

        Parameters
        ----------
        slot
            The place.
        answered
            Whether an answer came.
        refused
            Whether the provider refused it for its rate (429, 529).
        retry_after
            Seconds the provider asked to wait.
        tokens
            What the request really used, once that is known.
        unkept
            Whether it brought what is not on the disk yet: then `kept` has to be called. Requests under way and what
            they brought are twice the maximum at most, for a kill loses them all, however slow the disk is.
        """
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
            self._paused_until = max(self._paused_until, now + (retry_after or 0.0))
        elif answered:
            grown = self._window + (1 / self._window if self._refused else 1.0)
            self._window = min(float(self._most), grown)
        self._let_go()

    def kept(self) -> None:
        """Say that what one request brought is on the disk, or never will be."""
        self._unkept -= 1
        self._let_go()

    def turn_away(self) -> None:
        """Refuse all who wait for a place, with a `ModelError` whose reason is ``stopped``."""
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(ModelError("stopped before it was sent", reason="stopped"))
        self._waiting.clear()

    def _wait(self, tokens: float) -> float:
        """Return the seconds until a request may go; 0 is now, infinity when another has to come back first."""
        if self._active >= int(self._window) or self._active + self._unkept >= 2 * self._most:
            return float("inf")
        now = self._clock()
        while self._sent and self._sent[0].at <= now - self._minute:
            self._sent.popleft()
        wait = max(0.0, self._paused_until - now)
        if self._requests is not None and len(self._sent) + 1 > max(1.0, self._requests):
            wait = max(wait, self._sent[0].at + self._minute - now)
        if self._tokens is not None and self._sent:
            used = sum(slot.tokens for slot in self._sent)
            if used + tokens > self._tokens:
                wait = max(wait, self._sent[0].at + self._minute - now)
        return wait

    def _take(self, tokens: float) -> Slot:
        self._active += 1
        slot = Slot(self._clock(), tokens)
        if self._requests is not None or self._tokens is not None:
            self._sent.append(slot)
        return slot

    def _let_go(self) -> None:
        """Let everyone go who may, and come back when the next one may."""
        while self._waiting:
            tokens, future = self._waiting[0]
            if future.done():  # cancelled while it waited
                self._waiting.popleft()
                continue
            wait = self._wait(tokens)
            if wait > 0.0:
                if wait != float("inf") and self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait, self._wake)
                return
            self._waiting.popleft()
            future.set_result(self._take(tokens))

    def _wake(self) -> None:
        self._timer = None
        self._let_go()


async def turn_away_when(stop: threading.Event, limiters: Iterable[Limiter]) -> None:
    """Wait for a stop and turn away who waits then: a provider may have asked for a pause of minutes."""
    while not stop.is_set():
        await asyncio.sleep(POLL_SECONDS)
    for limiter in limiters:
        limiter.turn_away()

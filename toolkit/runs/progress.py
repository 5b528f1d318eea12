"""One line of progress, the same words everywhere: a bar in a terminal or notebook, now and then a line in a log."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

SECONDS_BETWEEN: Final = {"terminal": 0.1, "notebook": 0.5, "log": 30.0}
"""How often the line is made anew: a terminal redraws it, a notebook sends it to a browser, a log keeps every one."""
RATE_SECONDS: Final = 60.0
"""The rate is that of the last minute: a mean over hours would hide that a provider became slow."""
IDLE_SECONDS: Final = 1.0
"""After so long without a step the line says what is waited for."""


class Counted(Protocol):
    """What a gateway counts while it works; see ``toolkit.runs.gateway.Counters``."""

    asked: int
    from_ledger: int
    failed: int
    retried: int
    spent_aud: float


class Progress:
    """Counts what is done; shows nothing when ``shown`` is false.

    A step costs a microsecond: the line is made only when it is time to show it. The last line is always the final
    state, also when the work was stopped before its end.
    """

    def __init__(
        self,
        label: str,
        total: int,
        *,
        shown: bool,
        since: Counted | None = None,
        money: bool = True,
        waiting: Callable[[], str] | None = None,
    ) -> None:
        self._label = label
        self._total = total
        self._money = money
        self._done = 0
        self._counted: Counted | None = None
        # Numbers and not the object: a gateway goes on counting in it.
        self._before = (since.failed, since.retried, since.spent_aud) if since is not None else (0, 0, 0.0)
        self._began = time.monotonic()
        self._marks = deque([(self._began, 0)])
        self._display: _Bar | _Log | None = None
        self._due = float("inf")
        self._stepped = self._began
        self._waiting = waiting
        self._timer: asyncio.TimerHandle | None = None
        if shown and total:
            kind = _surroundings()
            self._between = SECONDS_BETWEEN[kind]
            self._display = _Log() if kind == "log" else _Bar(kind, self._line(), total)
            self._due = self._began + self._between
            if waiting is not None:
                self._look_again()

    def step(self, counted: Counted) -> None:
        """Count one more done."""
        self._done += 1
        self._counted = counted
        self._stepped = now = time.monotonic()
        if now >= self._due and self._display is not None:
            self._due = now + self._between
            self._display.show(self._line(), self._done)

    def _look_again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._say_what_for)

    def _say_what_for(self) -> None:
        """Show what is waited for, when it is time for a line and no step has happened for a while."""
        now = time.monotonic()
        idle = now >= max(self._due, self._stepped + IDLE_SECONDS)
        if idle and self._display is not None and self._waiting is not None and (said := self._waiting()):
            self._due = now + self._between
            self._display.show(f"{self._line()}, waiting: {said}", self._done)
        self._look_again()

    def close(self) -> None:
        """Leave the final state on the screen; a second call does nothing."""
        if self._timer is not None:
            self._timer.cancel()
        if self._display is not None:
            self._display.end(self._line(ended=True), self._done)
            self._display, self._due = None, float("inf")

    def _line(self, *, ended: bool = False) -> str:
        now = time.monotonic()
        failed, retried, spent = self._since_before()
        parts = [f"{self._label} {self._done}/{self._total}"]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{retried} retried"] if retried else []
        if ended:
            rate = _per_minute(self._done, now - self._began)
            end = "done in" if self._done == self._total else "stopped after"
            paid = [f"{spent:.4f} AUD"] if self._money else []
            return ", ".join([*parts, *paid, *rate, f"{end} {duration(now - self._began)}"])
        if not self._done:
            return parts[0]
        about = f"{spent:.4f} of about {spent / self._done * self._total:.4f} AUD"
        money = [about] if self._money else []
        since, done = self._mark(now)
        gone = self._done - done
        left = [f"{duration((self._total - self._done) * (now - since) / gone)} left"] if gone else []
        return ", ".join([*parts, *money, *_per_minute(gone, now - since), *left])

    def _since_before(self) -> tuple[int, int, float]:
        if self._counted is None:
            return 0, 0, 0.0
        failed, retried, spent = self._before
        found = self._counted
        return found.failed - failed, found.retried - retried, found.spent_aud - spent

    def _mark(self, now: float) -> tuple[float, int]:
        """Return where the last minute began, and what was done then."""
        while len(self._marks) > 1 and self._marks[1][0] <= now - RATE_SECONDS:
            self._marks.popleft()
        self._marks.append((now, self._done))
        return self._marks[0]


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    for unit, length, until, places in (("s", 1, 90, 0), ("min", 60, 5400, 0), ("h", 3600, 172_800, 1)):
        if seconds < until:
            return f"{seconds / length:.{places}f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def _per_minute(done: int, seconds: float) -> list[str]:
    """Return the rate in words, none where nothing was done."""
    if not done or seconds <= 0:
        return []
    rate = 60 * done / seconds
    return [f"{rate:.0f}/min" if rate >= 10 else f"{rate:.1f}/min"]


class _Bar:
    """A bar of tqdm, in a terminal or a notebook, with our line beside it."""

    def __init__(self, kind: str, line: str, total: int) -> None:
        if kind == "notebook":
            from tqdm.notebook import tqdm
        else:
            from tqdm import tqdm  # type: ignore[assignment]
        # Our line holds the words: tqdm's own rate is a mean since the beginning. miniters=1 leaves the clock to us.
        look = "{percentage:3.0f}%|{bar}| {desc}"
        self._bar: Any = tqdm(total=total, desc=line, bar_format=look, miniters=1, file=sys.stderr)

    def show(self, line: str, done: int) -> None:
        self._bar.n = done
        self._bar.set_description_str(line, refresh=True)

    def end(self, line: str, done: int) -> None:
        self.show(line, done)
        self._bar.close()


class _Log:
    """Lines of a log, which is no terminal: without a carriage return every state is a line of its own."""

    def show(self, line: str, done: int) -> None:
        print(line, file=sys.stderr, flush=True)

    end = show


def _surroundings() -> str:
    """Return ``notebook`` where a person looks at one, ``terminal``, or ``log``: a file, a pipe, or papermill.

    Templates run by papermill have TOOLKIT_BATCH in their environment; see ``toolkit.batch.pool``.
    """
    if "ipykernel" in sys.modules and not os.environ.get("TOOLKIT_BATCH"):
        from IPython import get_ipython

        shell = get_ipython()
        if shell is not None and "IPKernelApp" in shell.config:
            return "notebook"
    return "terminal" if sys.stderr.isatty() else "log"

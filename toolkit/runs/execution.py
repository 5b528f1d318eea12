"""Run many askings at once, in any surroundings: a script, a notebook cell with a running loop, papermill."""

import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from toolkit.errors import BudgetReached, Stopped

T = TypeVar("T")
R = TypeVar("R")

IN_ORDER_UP_TO = 10  # up to this many runs are asked one after the other (seed 002, section 1.2)
ECHO_SECONDS = 1.0
"""Within this time a second Ctrl-C is the first one over again: `timeout` and some launchers pass it on twice."""
STOPPING = "stopping when what is in flight has come home; a second Ctrl-C gives it up, billed or not"


async def each(
    groups: Iterable[Iterable[T]],
    work: Callable[[T], Awaitable[None]],
    *,
    at_once: int,
    stop: threading.Event,
) -> BudgetReached | None:
    """Work on every item in order, at most ``at_once`` of a group at once, until ``stop``.

    The first error of the budget is returned when all items had their turn: what is in the ledger already costs
    nothing. Any other error sets ``stop``, and is raised when what was under way has come home.
    """
    reached: list[BudgetReached] = []
    broken: list[Exception] = []

    async def worker(waiting: Iterator[T]) -> None:
        for item in waiting:  # one iterator shared by all workers of a group hands out each item once
            if stop.is_set():
                return
            try:
                await work(item)
            except BudgetReached as error:
                if not reached:  # thousands may follow, each with its frames
                    reached.append(error)
            except Exception as error:
                broken.append(error)
                stop.set()

    await asyncio.gather(*(worker(items) for items in map(iter, groups) for _ in range(at_once)))
    if broken:
        raise broken[0]
    return reached[0] if reached else None


def run_anywhere(main: Callable[[], Coroutine[Any, Any, R]], stop: threading.Event) -> R:
    """Return what a coroutine returns, run in a thread with a loop of its own: a notebook has one running already.

    The first Ctrl-C sets ``stop``, so that what is in flight, and perhaps paid for, comes home; the second cancels.
    """
    loop = asyncio.new_event_loop()
    outcome: list[R] = []
    failure: list[BaseException] = []
    tasks: list[asyncio.Task[Any]] = []
    ended = threading.Event()

    async def supervised() -> R:
        task = asyncio.current_task()
        if task is not None:
            tasks.append(task)
        return await main()

    def in_thread() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                outcome.append(runner.run(supervised()))
        except BaseException as error:  # carried over to the caller's thread, whatever it is
            failure.append(error)
        finally:
            ended.set()

    def cancel() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has just come to its end
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])

    thread = threading.Thread(target=in_thread, name="toolkit-loop", daemon=True)
    with _interrupts(stop, cancel) as pressed:
        thread.start()
        # Not thread.join: interrupted in it, Python 3.11 takes the thread for ended, and all in flight would be lost.
        while not ended.wait(0.2):  # with a time, so that Ctrl-C is heard on every platform
            if len(pressed) == 1 and time.monotonic() > pressed[0] + ECHO_SECONDS:
                pressed.append(pressed[0])
                print(f"\n{STOPPING}", file=sys.stderr, flush=True)
    thread.join()
    error = _first(failure[0]) if failure else None
    # A failure is not hidden by Ctrl-C: who stops a study must hear that its store took nothing more.
    if error and not (pressed and isinstance(error, asyncio.CancelledError)):
        raise error
    if pressed:
        raise Stopped
    return outcome[0]


@contextlib.contextmanager
def _interrupts(stop: threading.Event, cancel: Callable[[], None]) -> Iterator[list[float]]:
    """Hear Ctrl-C without an exception, which could come anywhere; gives when it was pressed (`time.monotonic`)."""
    pressed: list[float] = []

    def hear(*_: object) -> None:
        now = time.monotonic()
        if pressed and now > pressed[0] + ECHO_SECONDS:
            cancel()
        pressed.append(now)
        stop.set()

    before = signal.getsignal(signal.SIGINT)
    # Signals reach the main thread only; who ignores Ctrl-C, as under nohup, goes on ignoring it.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield pressed
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group: workers that meet the same wall at once are one error to a user."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

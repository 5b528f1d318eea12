"""Who waits for which call of a batch, and how each is told what became of it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable

from toolkit.models.batches import Result

Outcome = Result | Exception | None
"""A raw reply, why there is none, or ``None`` when the call is to be asked anew."""


class Waiters:
    """Those who wait for calls, in one event loop."""

    def __init__(self) -> None:
        self._futures: defaultdict[str, list[asyncio.Future[Outcome]]] = defaultdict(list)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._futures

    async def wait(self, call_id: str, begin: Callable[[], None]) -> Outcome:
        """Begin something and wait until it is told what became of a call."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._futures[call_id].append(future)
        try:
            begin()
            return await future
        finally:
            self._futures[call_id].remove(future)
            if not self._futures[call_id]:
                del self._futures[call_id]

    def tell(self, call_ids: Iterable[str], outcome: Callable[[str], Outcome]) -> None:
        """Tell everybody who waits for one of these calls what became of it."""
        for call_id in call_ids:
            for future in self._futures.get(call_id, ()):
                if not future.done():
                    future.set_result(outcome(call_id))

    def fail(self, call_ids: Iterable[str], error: Exception) -> None:
        """Tell everybody who waits for one of these calls of an error that befell all of them."""
        self.tell(call_ids, lambda _: _same(error))

    def fail_all(self, error: Exception) -> None:
        """Tell everybody who waits."""
        self.fail(list(self._futures), error)


def _same(error: Exception) -> Exception:
    """Return an error like this one: one object raised in a thousand tasks would gather all their tracebacks."""
    another = type(error).__new__(type(error), *error.args)
    another.__dict__.update(error.__dict__)
    return another

"""What is done so far, with tqdm: a bar in a terminal or notebook, now and then a line in a log."""

import asyncio
import operator
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from toolkit.words import counted, money

SECONDS_BETWEEN = {"terminal": 0.1, "notebook": 0.5, "log": 30.0}
"""How often it is shown anew: a terminal redraws it, a notebook sends it to a browser, a log keeps every line."""
BAR_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
LOG_FORMAT = "{desc}: {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
LOOK_SECONDS = 1.0  # between two looks at what is waited for
Counted = Any
"""What counts while it works and knows the worst_aud of all, as `toolkit.runs.gateway.Counters` does."""


class Progress:
    """Counts what is done; shows nothing when ``shown`` is false. The last line is the final state, also of a stop."""

    def __init__(
        self,
        label: str,
        total: int,
        *,
        shown: bool,
        since: Counted = None,
        money: bool = True,
        waiting: Callable[[], str] | None = None,
    ) -> None:
        self._counted, self._money, self._waiting = since, money, waiting
        # Numbers and not the object: a gateway goes on counting in it.
        self._before = _counts(since) if since is not None else (0, 0.0, 0)
        self._failed = Counter[str]()
        kind = _surroundings()
        self._bar: Any = _drawn_by(kind)(
            total=total,
            desc=label,
            unit=label.split()[-1].removesuffix("s"),
            disable=not (shown and total),
            mininterval=SECONDS_BETWEEN[kind],
            miniters=0,  # the clock alone says when it is shown
            bar_format=LOG_FORMAT if kind == "log" else BAR_FORMAT,
            file=sys.stderr,
        )
        self._timer: asyncio.TimerHandle | None = None
        if waiting is not None and not self._bar.disable:
            self._look_again()

    def fail(self, noun: str, number: int = 1) -> None:
        """Count more that failed, by what the status and the summary call it."""
        self._failed[noun] += number

    def step(self, counters: Counted = None) -> None:
        """Count one more done."""
        self._counted = counters
        if not self._bar.disable:
            self._bar.set_postfix_str(self._words(self._bar.n + 1), refresh=False)
            self._bar.update()

    def close(self) -> None:
        """Leave the final state on the screen; a second call does nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._bar.set_postfix_str(self._words(), refresh=False)
        self._bar.close()

    def _look_again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._say_what_for)

    def _say_what_for(self) -> None:
        if self._waiting is not None and (reason := self._waiting()):
            words = filter(None, (self._words(self._bar.n), f"waiting: {reason}"))
            self._bar.set_postfix_str(", ".join(words), refresh=False)
        self._bar.update(0)
        self._look_again()

    def _words(self, count: int | None = None) -> str:
        before = self._before
        now = before if self._counted is None else _counts(self._counted)
        retried, spent, doubted = map(operator.sub, now, before)
        parts = [f"{counted(number, noun)} failed" for noun, number in self._failed.items() if number]
        parts += [f"{retried} retried"] if retried else []
        parts += [f"{doubted} counts of tokens not believed"] if doubted else []
        if self._money and count is None:
            parts.append(money(spent))
        elif self._money and count:
            # The first items say little, and those under way cost before they count.
            worst = self._counted.worst_aud if self._counted else 0.0
            about = min(spent / count * self._bar.total, max(worst, spent))
            parts.append(f"{money(spent)} of about {money(about)}")
        return ", ".join(parts)


def _counts(counters: Counted) -> tuple[int, float, int]:
    return counters.retried, counters.spent_aud, counters.doubted


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    for unit, length, until, digits in (("s", 1, 90, 0), ("min", 60, 5400, 0), ("h", 3600, 172_800, 1)):
        if seconds < until:
            return f"{seconds / length:.{digits}f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def _drawn_by(kind: str) -> Any:
    if kind == "notebook":
        from tqdm.notebook import tqdm as in_notebook

        return in_notebook
    from tqdm import tqdm

    class Lines(tqdm):
        """Without a carriage return, so that every state that a log keeps is a line of its own."""

        @staticmethod
        def status_printer(file: Any) -> Callable[[str], None]:
            between = [""]

            def show(line: str) -> None:
                file.write(between[0] + line)
                file.flush()
                between[0] = "\n"

            return show

    return Lines if kind == "log" else tqdm


def _surroundings() -> str:
    """Return ``notebook`` where a person looks at one, ``terminal``, or ``log``: a file, a pipe, or papermill."""
    # Templates run by papermill have TOOLKIT_BATCH in their environment; see `toolkit.batch.run`.
    if "ipykernel" in sys.modules and not os.environ.get("TOOLKIT_BATCH"):
        from IPython import get_ipython

        shell = get_ipython()
        if shell is not None and "IPKernelApp" in shell.config:
            return "notebook"
    return "terminal" if sys.stderr.isatty() else "log"

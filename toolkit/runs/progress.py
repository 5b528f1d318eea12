"""One line of progress: a bar in a terminal or notebook, now and then a line in a log."""

from __future__ import annotations

import sys
from typing import Any

SECONDS_BETWEEN_LOG_LINES = 30.0


class Progress:
    """Counts what is done; shows nothing when ``shown`` is false.

    Parameters
    ----------
    label
        What is counted, e.g. ``runs``.
    total
        How many there are.
    shown
        Whether to show anything.
    """

    def __init__(self, label: str, total: int, *, shown: bool) -> None:
        self._bar: Any = None
        if shown and total:
            self._bar = _bar(label, total)

    def step(self, note: str = "") -> None:
        """Count one more; ``note`` stands behind the bar."""
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update()

    def close(self) -> None:
        """Leave the last state on the screen."""
        if self._bar is not None:
            self._bar.close()


def _bar(label: str, total: int) -> Any:
    if _in_live_notebook():
        from tqdm.notebook import tqdm

        return tqdm(total=total, desc=label, unit="")
    from tqdm import tqdm as terminal

    # A log is no terminal: without \r every update is a line, so updates are rare there.
    quiet = not sys.stderr.isatty()
    every = SECONDS_BETWEEN_LOG_LINES if quiet else 0.1
    return terminal(
        total=total, desc=label, unit="", mininterval=every, maxinterval=every, file=sys.stderr, ascii=quiet
    )


def _in_live_notebook() -> bool:
    """Whether a person looks at a notebook; papermill sets PAPERMILL in the kernel's variables through us."""
    import os

    if "ipykernel" not in sys.modules or os.environ.get("TOOLKIT_BATCH"):
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and "IPKernelApp" in shell.config

"""The kernel of the next notebook, which boots while the one before comes to its end.

A kernel takes half a second of work to boot, and then papermill waits: for the kernel's first word, for the last
output, for its end. With one kernel booting meanwhile a worker has always something to do.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager

# As nbclient starts a kernel: what a notebook runs is not added to the history of the user's own sessions.
ARGUMENTS = ["--HistoryManager.hist_file=:memory:"]


class Ahead:
    """At most one booted kernel that has not run anything, for a notebook in the same folder."""

    def __init__(self) -> None:
        self._manager: AsyncKernelManager | None = None
        self._what: tuple[str, Path] | None = None

    async def boot(self, kernel_name: str) -> None:
        """Have a kernel boot in the working folder, and do not wait for it."""
        if self._manager is None:
            manager = AsyncKernelManager(kernel_name=kernel_name)
            await manager.start_kernel(extra_arguments=ARGUMENTS)
            self._manager, self._what = manager, (kernel_name, Path.cwd())

    def take(self, kernel_name: str) -> AsyncKernelManager | None:
        """Return the kernel that boots, where it is of this name and folder and lives; else none."""
        if self._manager is None:
            return None
        if self._what != (kernel_name, Path.cwd()) or _process(self._manager).poll() is not None:
            self.end()
            return None
        manager, self._manager = self._manager, None
        return manager

    def end(self) -> None:
        """End the kernel that boots, when nobody took it."""
        if self._manager is None:
            return
        process = _process(self._manager)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._manager.cleanup_connection_file()
        self._manager = None


def _process(manager: AsyncKernelManager) -> Any:
    provisioner: Any = manager.provisioner
    return provisioner.process

"""The kernels of notebooks, of which the next boots while the one before comes to its end.

A kernel takes half a second of work to boot, and then papermill waits: for the kernel's first word, for the last
output, for its end. With one kernel booting meanwhile a worker has always something to do.

Kernels talk over sockets that are files. Jupyter's usual five ports are chosen, let go, and bound by the kernel a
second later: whoever takes one meanwhile, be it another kernel or one of a hundred connections to models, ends it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import tempfile
import uuid
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager

from toolkit.files import held, left, mark

# As nbclient starts a kernel: what a notebook runs is not added to the history of the user's own sessions.
ARGUMENTS = ["--HistoryManager.hist_file=:memory:"]
LONGEST = 62
"""Bytes of the path of the folder for temporary files: some systems take 103 for a socket, and our names need 41."""


class Ahead:
    """At most one booted kernel that has not run anything, for a notebook in the same folder."""

    def __init__(self) -> None:
        self._manager: AsyncKernelManager | None = None
        self._what: tuple[str, Path] | None = None

    async def boot(self, kernel_name: str) -> None:
        """Have a kernel boot in the working folder, and do not wait for it."""
        if self._manager is None:
            manager = new_manager(kernel_name)
            try:
                await manager.start_kernel(extra_arguments=ARGUMENTS)
            except (
                Exception
            ):  # the notebook under way has no part in it; the next one boots its own, and says why not
                manager.cleanup_connection_file()
            else:
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
        self._manager.cleanup_ipc_files()
        self._manager = None


def new_manager(kernel_name: str) -> AsyncKernelManager:
    """Return the manager of a kernel that is not started yet, with sockets that nobody else can take."""
    name = sockets() / uuid.uuid4().hex[:12]
    return AsyncKernelManager(
        kernel_name=kernel_name, transport="ipc", ip=str(name), connection_file=f"{name}.json"
    )


@functools.cache
def sockets() -> Path:
    """Return this process's folder of sockets, which only its user may open; those of killed processes are removed."""
    usual = tempfile.gettempdir()
    place = Path(usual if len(os.fsencode(usual)) <= LONGEST else "/tmp")
    for folder in left(place, f"kernels-{mark()}-[a-z0-9_]{{8}}"):
        shutil.rmtree(folder, ignore_errors=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"kernels-{mark()}-", dir=place))
        with contextlib.suppress(FileNotFoundError):  # taken for left before it could be opened
            handle = os.open(folder, os.O_RDONLY)
            if held(handle):  # and open for as long as this process lives
                break
            os.close(handle)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _process(manager: AsyncKernelManager) -> Any:
    provisioner: Any = manager.provisioner
    return provisioner.process

"""The process that serves a GGUF: llama.cpp with an OpenAI and an Anthropic endpoint on a loopback port.

Run as ``python -m toolkit.models.local_server GGUF --port-file FILE --parent PID``. A process of its own,
because llama.cpp holds the processor and writes to the terminal. It ends when its parent does, killed or not.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import sys
import time
from pathlib import Path
from typing import Any


def main(arguments: list[str] | None = None) -> int:
    """Serve until the parent process ends."""
    parser = argparse.ArgumentParser(prog="python -m toolkit.models.local_server", description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument(
        "--port-file", type=Path, required=True, help="where the address is written once it listens"
    )
    parser.add_argument("--parent", type=int, required=True, help="process whose end ends this one")
    parser.add_argument("--remove", type=Path, help="folder that is removed once the parent has ended")
    parser.add_argument("--name", default="local", help="name the model answers to")
    parser.add_argument("--context", type=int, default=8192, help="tokens it holds")
    options = parser.parse_args(arguments)

    parent = _watch(options.parent)
    if os.getppid() != options.parent:
        return 0
    server = _serve(options.gguf, options.name, options.context)
    part = options.port_file.with_suffix(".part")
    part.write_text(server.listening_address, encoding="utf-8")
    part.replace(options.port_file)
    if parent is not None:
        select.select([parent], [], [])
    while os.getppid() == options.parent:
        time.sleep(1.0)
    if options.remove is not None:
        shutil.rmtree(options.remove, ignore_errors=True)
    # Not a normal exit: that would wait for requests nobody will read the replies of.
    os._exit(0)


def _serve(gguf: Path, name: str, context: int) -> Any:
    import xllamacpp

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = 1  # more would share the same cores and lose the cached prompt
    params.n_ctx = context
    # Generation waits for memory: on two quiet cores a second thread adds 2 %. Prompts are arithmetic for every core.
    params.cpuparams.n_threads = min(8, max(1, cores // 2))
    params.cpuparams_batch.n_threads = min(8, cores)
    params.ui = False
    params.verbosity = 1
    return xllamacpp.Server(params)


def _watch(pid: int) -> int | None:
    """Return a handle that becomes readable when the process ends, where the system has one."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


if __name__ == "__main__":
    sys.exit(main())

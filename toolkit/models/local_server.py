"""The process that serves a GGUF: llama.cpp with an OpenAI and an Anthropic endpoint on a loopback port.

Run as ``python -m toolkit.models.local_server GGUF NAME CONTEXT FOLDER PARENT``, with the name it answers to, the
tokens it holds, and the folder for its address, which is removed at the end. A process of its own, because llama.cpp
holds the processor and writes to the terminal. It ends when its parent does, killed or not.
"""

import os
import select
import shutil
import sys
import time
from pathlib import Path
from typing import Any


def main(gguf: str, name: str, context: str, folder: str, parent: str) -> int:
    """Serve until the parent process ends."""
    try:  # a handle that becomes readable when the parent ends, where the system has one
        handle = os.pidfd_open(int(parent))
    except (AttributeError, OSError):
        handle = None
    if os.getppid() != int(parent):
        return 0
    server = _serve(gguf, name, int(context))
    part = Path(folder) / "address.part"
    part.write_text(server.listening_address, encoding="utf-8")
    part.replace(part.with_suffix(""))
    if handle is not None:
        select.select([handle], [], [])
    while os.getppid() == int(parent):
        time.sleep(1.0)
    shutil.rmtree(folder, ignore_errors=True)
    # Not a normal exit: that would wait for requests nobody will read the replies of.
    os._exit(0)


def _serve(gguf: str, name: str, context: int) -> Any:
    import xllamacpp

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    params = xllamacpp.CommonParams()
    params.model.path = gguf
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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

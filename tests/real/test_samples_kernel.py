"""Conversion in a real Jupyter kernel, where an event loop is already running."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import handmade
import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager
from mutations import every_kind
from waiting import wait_for

CELL = """
import asyncio, warnings
warnings.simplefilter("error")
asyncio.get_running_loop()  # the loop of the kernel runs while the cell does
from toolkit.traffic.convert import convert
done = convert({source!r}, {target!r}, reader={reader!r})
print(done.packets, done.reader)
"""
CHILDREN = """
import os, subprocess, threading
out = subprocess.run(["ps", "-eo", "ppid=,comm="], capture_output=True, text=True).stdout
names = [line.split()[1] for line in out.splitlines() if line.split()[0] == str(os.getpid())]
print(sorted(name for name in names if name in ("tshark", "dumpcap")))
print([thread.name for thread in threading.enumerate() if thread.name.startswith("toolkit-")])
"""


@pytest.fixture
def kernel() -> Iterator[BlockingKernelClient]:
    """A running kernel, shut down at the end; it talks over files, for a port may be gone when it wants to have it."""
    with TemporaryDirectory(prefix="kernel-") as folder:
        manager = KernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/k")
        manager.start_kernel()
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=120)
        yield client
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def run(kernel: BlockingKernelClient, code: str) -> dict[str, str]:
    """Run a cell and return what it wrote, by stream."""
    written = {"stdout": "", "stderr": "", "error": ""}

    def keep(message: dict) -> None:
        content = message["content"]
        if message["msg_type"] == "stream":
            written[content["name"]] += content["text"]
        elif message["msg_type"] == "error":
            written["error"] += f"{content['ename']}: {content['evalue']}"

    while True:  # for a moment after an error a kernel turns down what comes
        reply = kernel.execute_interactive(code, output_hook=keep, timeout=120, store_history=False)
        if reply["content"]["status"] != "aborted":
            return written


@pytest.mark.full
def test_conversions_in_cells_of_a_kernel(kernel: BlockingKernelClient, tmp_path: Path) -> None:
    """Beside a user's own PyShark, warnings as errors: whole tables, one line for an error, nothing left running."""
    frames, count = every_kind(), len(every_kind())
    source, target = tmp_path / "a.pcapng", tmp_path / "a.csv"
    cell = CELL.format(source=str(source), target=str(target), reader="pyshark")
    for index in range(5):
        source.write_bytes(handmade.pcapng(frames[: count - index]))
        assert run(kernel, cell) == {"stdout": f"{count - index} pyshark\n", "stderr": "", "error": ""}
        assert len(target.read_text().splitlines()) == 1 + count - index
        if not index:  # it replaces asyncio's child watcher; ours does not care
            run(kernel, f"import pyshark; own = pyshark.FileCapture({str(source)!r})")
    assert "no such capture" in run(kernel, cell.replace("a.pcapng", "none.pcapng"))["error"]
    assert run(kernel, CHILDREN) == {"stdout": "[]\n[]\n", "stderr": "", "error": ""}
    source, target = tmp_path / "long.pcap", tmp_path / "out" / "long.csv"
    source.write_bytes(handmade.pcap([handmade.dns(2000 + n % 60_000) for n in range(100_000)]))
    pid = int(run(kernel, "import os; print(os.getpid())")["stdout"])
    asked = kernel.execute(CELL.format(source=str(source), target=str(target), reader="pyshark"))
    wait_for(lambda: any(target.parent.glob(".long.*/long.csv")))
    os.kill(pid, signal.SIGINT)  # the button Stop
    while (reply := kernel.get_shell_msg(timeout=120))["parent_header"]["msg_id"] != asked:
        pass
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert run(kernel, CHILDREN)["stdout"] == "[]\n[]\n"
    assert list(target.parent.iterdir()) == []

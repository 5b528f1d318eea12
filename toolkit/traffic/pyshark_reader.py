"""The PyShark reader; its event loop has its own thread, so that it works in a running kernel.

Three habits of PyShark are replaced. It requests every field, which is slow and lacks the protocol: here only the
fields of a sample. It starts processes through asyncio's child watcher, which fails outside the main thread: here
PyShark reads a pipe. It kills tshark at the end, which hides the exit code of a truncated capture: here tshark ends.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from subprocess import Popen
from typing import Any, Final

from toolkit.traffic.columns import SEVERAL, Record, tshark_fields
from toolkit.traffic.tshark import check_capture, running_tshark, tshark_version

_BATCH: Final = 64  # records handed over at a time: a lock for each would cost more than reading it
_BATCHES: Final = 64  # batches that may wait, so that a slow consumer bounds the memory
# As ``-T fields`` writes them; measured with tshark 4.0 for every byte, and tested.
_ESCAPED: Final = str.maketrans({"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"})


def records(capture: Path, display_filter: str | None = None) -> Generator[Record, None, None]:
    """Yield one record a packet, in the order of the capture: the same as ``toolkit.traffic.tshark.records``."""
    check_capture(capture)
    source = _file_capture(capture.absolute(), display_filter)
    with running_tshark(source.arguments, capture.absolute()) as tshark:
        waiting: queue.Queue[list[Record] | BaseException | None] = queue.Queue(_BATCHES)
        leave = threading.Event()
        worker = threading.Thread(
            target=_read, args=(source, tshark, waiting, leave), name="toolkit-pyshark", daemon=True
        )
        worker.start()
        try:
            while (item := waiting.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield from item
        finally:
            leave.set()
            tshark.kill()  # does nothing once it has ended; a stopped consumer has no use for the rest
            worker.join()


def _read(
    source: Any,
    tshark: Popen[bytes],
    waiting: queue.Queue[list[Record] | BaseException | None],
    leave: threading.Event,
) -> None:
    """Run PyShark's reading in this thread's own loop; the last item in the queue is None or an error."""
    batch: list[Record] = []

    def hand_over(item: list[Record] | BaseException | None) -> None:
        while not leave.is_set():
            try:
                return waiting.put(item, timeout=0.1)
            except queue.Full:
                continue
        return None

    def keep(record: Record) -> None:
        batch.append(record)
        if len(batch) >= _BATCH:
            hand_over(batch.copy())
            batch.clear()

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(source.read(tshark, keep))
        hand_over(batch)
        tshark.wait()  # before the consumer may kill it: the exit code tells a truncated capture
        hand_over(None)
    except BaseException as error:  # whatever it is, the consumer raises it in its own thread
        hand_over(error)
    finally:
        loop.close()


def _file_capture(capture: Path, display_filter: str | None) -> Any:
    """Return PyShark's FileCapture with the process taken out of its hands."""
    from pyshark import FileCapture
    from pyshark.tshark.output_parser.tshark_ek import TsharkEkJsonParser

    fields = tshark_fields(tshark_version())
    keys = [field.replace(".", "_") for field in fields]

    class Parser(TsharkEkJsonParser):
        """PyShark's parser of the EK stream, for packets that hold a few fields in place of all layers."""

        def _parse_single_packet(self, packet: bytes) -> Record:
            import json

            layers = json.loads(packet.decode(errors="replace"))["layers"]
            return tuple(
                SEVERAL.join(value.translate(_ESCAPED) for value in layers[key]) if key in layers else ""
                for key in keys
            )

    class Source(FileCapture):
        """PyShark's capture of a file, read from a tshark that was started elsewhere."""

        @property
        def arguments(self) -> list[str]:
            """The command that PyShark builds, without the program."""
            return ["-n", "-T", "ek", *self.get_parameters()]

        async def read(self, tshark: Popen[bytes], keep: Callable[[Record], None]) -> None:
            """Hand every record of the stream to ``keep``."""
            stream = asyncio.StreamReader()
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(stream), tshark.stdout
            )
            try:
                await self._go_through_packets_from_fd(stream, keep)
            finally:
                transport.close()

        def _setup_tshark_output_parser(self) -> Parser:
            return Parser()

        def _get_tshark_version(self) -> Any:
            from packaging.version import Version

            return Version(".".join(map(str, tshark_version())))

    options = [word for field in fields for word in ("-e", field)]
    # A loop that never runs keeps PyShark from looking for one, and from replacing the child watcher of the user.
    return Source(
        str(capture), use_ek=True, keep_packets=False, display_filter=display_filter, custom_parameters=options,
        eventloop=object(),
    )  # fmt: skip

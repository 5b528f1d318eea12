"""A dumpcap, called as PyShark's LiveCapture calls it, that is known to record and never left behind."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

from toolkit.errors import InputError
from toolkit.samples.process import find_program, one_line, surroundings, tshark_version

_NAME: Final = "toolkit-dumpcap"
_PATIENCE: Final = 15.0  # seconds for dumpcap to begin, and to end


class Dumpcap:
    """A dumpcap that records, and the threads that take its packets and its words."""

    def __init__(self, process: subprocess.Popen[bytes], sink: IO[bytes]) -> None:
        self.process = process
        self._words: list[str] = []
        self._recording = threading.Event()
        self._threads = [
            threading.Thread(target=shutil.copyfileobj, args=(process.stdout, sink), name=_NAME, daemon=True),
            threading.Thread(target=self._listen, name=_NAME, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        for line in cast(IO[bytes], self.process.stderr):
            self._words.append(line.decode(errors="replace"))
            if line.startswith(b"File: "):  # said when the interface is open and the filter is set
                self._recording.set()
        self._recording.set()

    def wait_until_recording(self, interface: str) -> None:
        """Return when packets are recorded; raise what dumpcap complained of when it ends before that."""
        began = self._recording.wait(_PATIENCE)
        if began and any(word.startswith("File: ") for word in self._words):
            return
        said = [word for word in self._words if not word.startswith("Capturing on")]
        advice = "try as root, or: sudo dpkg-reconfigure wireshark-common"
        first = one_line("".join(said[:2]).removeprefix("dumpcap: "))
        raise InputError(
            f"{interface}: {first or 'dumpcap did not begin'}" + (f"; {advice}" * ("ermi" in first))
        )

    def finish(self) -> None:
        """End the recording as Ctrl-C would, so that what is held in memory is written, and wait for the file."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise InputError("dumpcap: does not end; nothing was written, record again") from None
        for thread in self._threads:
            thread.join()
        if code:
            said = one_line("".join(self._words[2:]))
            raise InputError(f"dumpcap: ended with code {code} while recording; {said}")

    def counts(self) -> tuple[int, int]:
        """Return how many packets were recorded and how many were lost."""
        words = "".join(self._words)
        recorded = re.findall(r"Packets captured: (\d+)", words)
        lost = re.findall(r"received/dropped on interface .*: \d+/(\d+) ", words)
        return int(recorded[-1]) if recorded else 0, sum(map(int, lost))


@contextmanager
def recording_into(path: Path, interface: str, bpf: str, packets: int | None) -> Iterator[Dumpcap]:
    """Record into a file while the ``with`` lasts, and leave no dumpcap behind.

    Its packets come through a pipe, not straight into the file: a dumpcap whose toolkit was killed ends at the next
    packet in place of recording for ever.
    """
    dumpcap = find_program("dumpcap")
    limit = ["-c", str(packets)] if packets else []
    words = [dumpcap, *_live_capture(interface, bpf)._get_dumpcap_parameters(), *limit]
    with (
        tempfile.TemporaryDirectory(prefix="toolkit-dumpcap-") as home,
        path.open("wb") as sink,
        subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=surroundings(home),
            start_new_session=True,
        ) as process,
    ):
        try:
            recording = Dumpcap(process, sink)
            recording.wait_until_recording(interface)
            yield recording
        finally:
            process.kill()  # does nothing once it has ended


def _live_capture(interface: str, bpf: str) -> Any:
    """Return PyShark's LiveCapture, which knows how dumpcap is called; its processes and its loop are not used."""
    from pyshark import LiveCapture

    class Live(LiveCapture):
        def _get_tshark_version(self) -> Any:
            from packaging.version import Version

            return Version(".".join(map(str, tshark_version())))

    return Live(interface, bpf or None, tshark_path=find_program("tshark"), eventloop=object())

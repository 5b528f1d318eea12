"""Record one flow with dumpcap while a command or a list of URLs is requested; no dumpcap survives."""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from toolkit.errors import InputError
from toolkit.traffic.convert import staging_for
from toolkit.traffic.tshark import printable_line, running
from toolkit.words import Summary

_NAME = "toolkit-dumpcap"
_PATIENCE = 15.0  # seconds for dumpcap to begin, and to end
_SETTLE = 0.5  # seconds after the command: the last FIN, and what the kernel still holds
_LOOK = 0.02  # seconds between two looks at what is running
# A program of its own, so that a capture can end it like any other command; an HTTP error status is a reply too.
_REQUEST = """
import sys, urllib.error, urllib.request
opener, failed = urllib.request.build_opener(urllib.request.ProxyHandler({})), []
for url in sys.argv[1:]:
    try:
        with opener.open(url, timeout=10) as reply:
            while reply.read(65_536):
                pass
    except urllib.error.HTTPError as error:
        error.read()
    except (OSError, ValueError) as error:
        failed.append(f"{url}: no reply ({getattr(error, 'reason', error)})")
sys.exit("\\n".join(failed) or 0)
"""


@dataclass(frozen=True)
class Captured:
    """What a capture wrote."""

    path: Path
    packets: int
    dropped: int
    seconds: float
    command_code: int | None
    note: str | None

    def summary(self) -> Summary:
        """Return what the command line says; exit code 1 when the command failed."""
        text = f"{self.packets:,} packet{'s' * (self.packets != 1)} in {self.path} ({self.seconds:.1f} s)"
        text += f"\nnote: {self.note}" if self.note else ""
        return Summary({**asdict(self), "path": str(self.path)}, text, 1 if self.command_code else 0)


def capture(
    target: Path | str,
    *,
    interface: str = "lo",
    bpf: str = "tcp port 80",
    command: Sequence[str] | None = None,
    urls: Sequence[str] | None = None,
    packets: int | None = None,
    seconds: float | None = None,
) -> Captured:
    """Record traffic into a pcapng file while a command runs or URLs are requested.

    Recording ends half a second after the command, at the number of packets, or at the time, whichever comes first; a
    command that still runs is ended. The file has its name only when it is complete.
    """
    final = Path(target)
    if command and urls:
        raise InputError("capture: give a command or URLs, not both")
    if isinstance(command, str) or isinstance(urls, str):
        raise InputError("capture: give the command, or the URLs, as a list: no shell splits a text")
    if wrong := [url for url in urls or () if not url.startswith(("http://", "https://"))]:
        raise InputError(f"capture: {wrong[0]!r} is no http or https URL")
    words = [sys.executable, "-I", "-c", _REQUEST, *urls] if urls else list(command or ())
    if final.suffix != ".pcapng":
        raise InputError(f"{final}: name a target that ends in .pcapng")
    if final.exists():
        raise InputError(f"{final}: is there; a capture takes the place of no file, name a new one")
    if not words and packets is None and seconds is None:
        raise InputError("capture: name a command or URLs to request, or packets or seconds to stop at")
    if packets is not None and packets < 1:
        raise InputError(f"capture: {packets} packets is no limit; give 1 or more")
    if seconds is not None and not 0 < seconds < math.inf:
        raise InputError(f"capture: {seconds} seconds is no limit; give more than 0")
    if words and shutil.which(words[0]) is None:
        raise InputError(f"capture: {words[0]}: no such program; give its path, or --url before a URL")
    # Its packets come through a pipe, not straight into the file: a dumpcap whose toolkit was killed ends at the next
    # packet in place of recording for ever.
    options = ["-q", "-i", interface, "-w", "-", *(["-f", bpf] if bpf else [])]
    options += ["-c", str(packets)] if packets else []
    with (
        staging_for(final) as staging,
        (staging / final.name).open("wb") as sink,
        running("dumpcap", options) as (process, log),
    ):
        dumpcap = _Dumpcap(process, sink, log)
        dumpcap.wait_until_recording(interface)
        begun = time.monotonic()
        code, remark = _run(words, process, math.inf if seconds is None else begun + seconds)
        count, dropped = dumpcap.finish()
        duration = time.monotonic() - begun
        if not count:
            detail = f" ({remark})" if remark else ""
            raise InputError(f"{interface}: no packet passed the filter {bpf!r}; nothing was written{detail}")
        sink.close()
        (staging / final.name).replace(final)
    notes = [remark] if remark else []
    if dropped:
        notes.append(f"{dropped:,} packets were dropped: record again with a narrower filter")
    return Captured(final, count, dropped, duration, code, "; ".join(notes) or None)


def _run(words: Sequence[str], dumpcap: subprocess.Popen[bytes], deadline: float) -> tuple[int | None, str]:
    """Run a command, empty for none, until it, dumpcap or the time ends; return its exit code and what to remark."""

    def over() -> bool:
        return dumpcap.poll() is not None or time.monotonic() >= deadline

    if not words:
        while not over():
            time.sleep(_LOOK)
        return None, ""
    with tempfile.TemporaryFile() as complaints:
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(
            words, stdin=nothing, stdout=nothing, stderr=complaints, start_new_session=True
        )
        try:
            while process.poll() is None and not over():
                time.sleep(_LOOK)
            code = process.poll()
            settled = time.monotonic() + _SETTLE
            while time.monotonic() < settled and not over():
                time.sleep(_LOOK)
        finally:  # with everything that it started
            with suppress(ProcessLookupError, PermissionError):  # all have ended; macOS says the second
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code is None:
            return None, "the command was still running at the limit and was ended"
        if code == 0:
            return 0, ""
        complaints.seek(0)
        last = printable_line(complaints.read(65_536).decode(errors="replace").strip().rpartition("\n")[2])
        return code, f"the command ended with code {code}" + (f": {last}" if last else "")


class _Dumpcap:
    """A recording dumpcap, the thread that copies its packets, and its log."""

    def __init__(self, process: subprocess.Popen[bytes], sink: IO[bytes], log: IO[bytes]) -> None:
        self.process = process
        self._log = log
        packets = (process.stdout, sink)
        self._thread = threading.Thread(target=shutil.copyfileobj, args=packets, name=_NAME, daemon=True)
        self._thread.start()

    def _words(self) -> list[str]:
        """Return the lines of the log, by ``pread``, because dumpcap moves the file's position."""
        return os.pread(self._log.fileno(), 65_536, 0).decode(errors="replace").splitlines(keepends=True)

    def wait_until_recording(self, interface: str) -> None:
        """Return when packets are recorded; raise dumpcap's error message if it ends before that."""
        deadline, ended = time.monotonic() + _PATIENCE, False
        while time.monotonic() < deadline and not ended:
            ended = self.process.poll() is not None  # looked at first: what it said last counts too
            if any(word.startswith("File: ") for word in self._words()):  # interface open, filter set
                return
            time.sleep(_LOOK)
        complaints = [word for word in self._words() if not word.startswith("Capturing on")]
        advice = "try as root, or: sudo dpkg-reconfigure wireshark-common"
        first = printable_line("".join(complaints[:2]).removeprefix("dumpcap: "))
        raise InputError(
            f"{interface}: {first or 'dumpcap did not begin'}" + (f"; {advice}" * ("ermi" in first))
        )

    def finish(self) -> tuple[int, int]:
        """End the recording as Ctrl-C would, so that buffered packets are written; return packets recorded and lost."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise InputError("dumpcap: does not end; nothing was written, record again") from None
        self._thread.join()
        words = self._words()
        if code:
            complaints = printable_line("".join(words[2:]))
            raise InputError(f"dumpcap: ended with code {code} while recording; {complaints}")
        recorded = re.findall(r"Packets captured: (\d+)", "".join(words))
        lost = re.findall(r"received/dropped on interface .*: \d+/(\d+) ", "".join(words))
        return int(recorded[-1]) if recorded else 0, sum(map(int, lost))

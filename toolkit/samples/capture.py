"""Record one flow while a command or a list of URLs is requested."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from toolkit.errors import InputError
from toolkit.samples import requesting
from toolkit.samples.process import one_line
from toolkit.samples.recording import Dumpcap, recording_into
from toolkit.samples.tables import staging_for
from toolkit.words import Summary

_SETTLE: Final = 0.5  # seconds after the command: the last FIN, and what the kernel still holds
_LOOK: Final = 0.02  # seconds between two looks at what is running


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
        text = text if self.note is None else f"{text}\nnote: {self.note}"
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

    The command starts when dumpcap records, not before. Recording ends half a second after the command ended, at the
    number of packets, or at the time, whichever comes first; a command that is still running then is ended too. The
    file stands under its name when it is complete. It holds the name of the machine's system and interface: see
    ``toolkit samples convert`` for what may leave the machine.
    """
    final = Path(target)
    asked = _command(command, urls)
    _check(final, asked, packets, seconds)
    with (
        staging_for(final) as staging,
        recording_into(staging / final.name, interface, bpf, packets) as dumpcap,
    ):
        begun = time.monotonic()
        code, said = _run(asked, dumpcap, math.inf if seconds is None else begun + seconds)
        dumpcap.finish()
        taken = time.monotonic() - begun
        count, dropped = dumpcap.counts()
        if not count:
            because = f" ({said})" if said else ""
            raise InputError(
                f"{interface}: no packet passed the filter {bpf!r}; nothing was written{because}"
            )
        (staging / final.name).replace(final)
    notes = [said] if said else []
    if dropped:
        notes.append(f"{dropped:,} packets were dropped: record again with a narrower filter")
    return Captured(final, count, dropped, taken, code, "; ".join(notes) or None)


def _command(command: Sequence[str] | None, urls: Sequence[str] | None) -> list[str]:
    if command and urls:
        raise InputError("capture: give a command or URLs, not both")
    if isinstance(command, str) or isinstance(urls, str):
        raise InputError("capture: give the command, or the URLs, as a list: no shell splits a text")
    for url in urls or ():
        if not url.startswith(("http://", "https://")):
            raise InputError(f"capture: {url!r} is no http or https URL")
    if urls:
        return [sys.executable, "-I", requesting.__file__, *urls]
    return list(command or ())


def _check(final: Path, asked: Sequence[str], packets: int | None, seconds: float | None) -> None:
    if final.suffix != ".pcapng":
        raise InputError(f"{final}: name a target that ends in .pcapng")
    if not asked and packets is None and seconds is None:
        raise InputError(
            "capture: say what to request (a command or URLs) or when to stop (packets or seconds)"
        )
    if packets is not None and packets < 1:
        raise InputError(f"capture: {packets} packets is no limit; give 1 or more")
    if seconds is not None and not 0 < seconds < math.inf:
        raise InputError(f"capture: {seconds} seconds is no limit; give more than 0")
    if asked and shutil.which(asked[0]) is None:
        raise InputError(f"capture: {asked[0]}: no such program; give its path")


def _run(asked: Sequence[str], dumpcap: Dumpcap, deadline: float) -> tuple[int | None, str]:
    """Run the command until it, the recording or the time ends; return its exit code and what went wrong."""

    def over() -> bool:
        return dumpcap.process.poll() is not None or time.monotonic() >= deadline

    if not asked:
        while not over():
            time.sleep(_LOOK)
        return None, ""
    with tempfile.TemporaryFile() as complaints:
        running = subprocess.Popen(
            asked,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            start_new_session=True,
        )
        try:
            while running.poll() is None and not over():
                time.sleep(_LOOK)
            code = running.poll()
            settled = time.monotonic() + _SETTLE
            while time.monotonic() < settled and not over():
                time.sleep(_LOOK)
        finally:
            _end_group(running)
        if code is None:
            return None, "the command was still running at the limit and was ended"
        if code == 0:
            return 0, ""
        complaints.seek(0)
        last = one_line(complaints.read(65_536).decode(errors="replace").strip().rpartition("\n")[2])
        return code, f"the command ended with code {code}" + (f": {last}" if last else "")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a command with everything that it started."""
    with suppress(
        ProcessLookupError, PermissionError
    ):  # all of them have ended; macOS says so with the second
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

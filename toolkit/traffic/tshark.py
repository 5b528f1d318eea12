"""Start tshark and end it in any case; the fast reader, one line of fields a packet."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import IO, Final, cast

from toolkit.errors import InputError
from toolkit.files import similar_file
from toolkit.traffic.columns import SEVERAL, Record, tshark_fields

_CHUNK: Final = 1 << 18  # bytes at most; a pipe gives less
_MOST_WORDS: Final = 65_536  # bytes of complaints that are read; a broken capture can make tshark talkative


class DamagedCapture(InputError):
    """A capture that cannot be read to its end; raised after the last packet that could be read."""


def find_program(name: str) -> str:
    """Return the path of a program of Wireshark."""
    path = shutil.which(name)
    if path is None:
        advice = "install Wireshark's command line (apt-get install tshark)"
        raise InputError(f"{name}: not found on PATH; {advice}")
    return path


def tshark_version() -> tuple[int, ...]:
    """Return the version of the installed tshark, e.g. ``(4, 0, 17)``."""
    return _read_version(find_program("tshark"))


@lru_cache(maxsize=4)
def _read_version(path: str) -> tuple[int, ...]:
    # capinfos comes with tshark and answers in 10 ms; tshark loads every dissector first, which takes 200.
    for program in (Path(path).with_name("capinfos"), Path(path)):
        try:
            result = subprocess.run(
                [program, "--version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
            )
        except OSError:
            continue
        version = re.search(r"\(Wireshark\) (\d+)\.(\d+)\.(\d+)", result.stdout)
        if version is not None:
            return tuple(int(part) for part in version.groups())
    raise InputError(f"{path}: does not say its version; install Wireshark's command line again")


@contextmanager
def running(name: str, arguments: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """Run a program of Wireshark with its messages in a file, and end it in any case."""
    # In the C locale and without the user's preferences. Ctrl-C is ours: a tshark that ends quietly on it would look
    # like a short capture.
    program = find_program(name)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WIRESHARK_")}
    with tempfile.TemporaryDirectory(prefix=f"toolkit-{name}-") as home, tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=words,
            env={**environment, "LC_ALL": "C", "HOME": home, "WIRESHARK_CONFIG_DIR": home},
            start_new_session=True,
        )
        with process:  # closes its pipe and waits for it
            try:
                yield process, words
            finally:
                process.kill()  # does nothing once it has ended


@contextmanager
def running_tshark(arguments: Sequence[str], capture: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run tshark on a capture, and raise its error message after its output has been read."""
    with running("tshark", arguments) as (process, complaints):
        yield process
        code = process.wait()
        complaints.seek(0)
        message = complaint(complaints.read(_MOST_WORDS).decode(errors="replace"), capture)
        if code < 0:
            reason = f"tshark was ended by signal {-code}; {message or 'it did not say reason'}"
            raise InputError(f"{capture}: {reason}")
        if code:
            raise DamagedCapture(f"{capture}: {message or f'tshark ended with code {code}'}")


def check_capture(path: Path) -> None:
    """Raise InputError when there is no readable file, before any program is started on it."""
    if not path.exists():
        raise InputError(f"{path}: no such capture; {similar_file(path)}check the path")
    if not path.is_file():
        raise InputError(f"{path}: not a file; name a pcap or pcapng file")
    try:
        with path.open("rb") as stream:
            if not stream.read(1):
                raise InputError(f"{path}: the capture is empty (0 bytes); record it again")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None


def complaint(words: str, capture: Path) -> str:
    r"""Return what tshark complained of as one line without its own preambles."""
    lines = [line for line in map(str.strip, words.splitlines()) if set(line) - set("^~ ")]
    lines = [line for line in lines if not line.startswith("Running as user")]
    text = " ".join(lines).removeprefix("tshark: ").replace(f'The file "{capture}"', "the file")
    return printable_line(text).removesuffix(".")


def printable_line(text: str) -> str:
    r"""Return a text that cannot break a line or steer a terminal."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def records(capture: Path, display_filter: str | None = None) -> Generator[Record, None, None]:
    """Yield one record a packet, in the order of the capture, in constant memory.

    A tab separates fields and a line feed packets; tshark escapes both, and the carriage return that separates
    several values, inside values.
    """
    check_capture(capture)
    fields = tshark_fields(tshark_version())
    arguments = ["-n", "-r", str(capture.absolute()), *(["-Y", display_filter] if display_filter else [])]
    arguments += ["-T", "fields"]
    for option in ("separator=/t", f"aggregator={SEVERAL}", "occurrence=a"):
        arguments += ["-E", option]
    arguments += [word for field in fields for word in ("-e", field)]
    with running_tshark(arguments, capture.absolute()) as tshark:
        count, remainder = len(fields), b""
        while chunk := cast(BufferedReader, tshark.stdout).read1(_CHUNK):
            complete, _, remainder = (remainder + chunk).rpartition(b"\n")
            # At \n only: splitlines() would break a packet at every other sign that Unicode calls a line end.
            for line in complete.decode(errors="replace").split("\n") if complete else ():
                record = tuple(line.split("\t"))
                if len(record) != count:
                    raise InputError(
                        f"{capture}: tshark wrote {len(record)} fields in place of {count} for a packet; "
                        "this version of tshark cannot be used, report it with the capture"
                    )
                yield record

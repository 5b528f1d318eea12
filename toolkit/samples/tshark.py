"""The fast reader: ``tshark -T fields``, one line a packet, streamed; for large captures."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Final

from toolkit.errors import InputError
from toolkit.samples.fields import SEVERAL, Record, asked_fields
from toolkit.samples.process import check_capture, running_tshark, tshark_version

_CHUNK: Final = 1 << 18  # bytes at most; a pipe gives less


def records(capture: Path, display_filter: str | None = None) -> Generator[Record, None, None]:
    """Yield one record a packet, in the order of the capture, in constant memory.

    A tab separates fields and a line feed packets; tshark escapes both, and the carriage return that separates
    several values, inside values.
    """
    check_capture(capture)
    fields = asked_fields(tshark_version())
    asked = [word for field in fields for word in ("-e", field)]
    chosen = ["-Y", display_filter] if display_filter else []
    form = ["-T", "fields", "-E", "separator=/t", "-E", f"aggregator={SEVERAL}", "-E", "occurrence=a", *asked]
    with running_tshark(["-n", "-r", str(capture.absolute()), *chosen, *form], capture.absolute()) as tshark:
        count, rest = len(fields), b""
        while chunk := tshark.output.read1(_CHUNK):
            whole, _, rest = (rest + chunk).rpartition(b"\n")
            # At \n only: splitlines() would break a packet at every other sign that Unicode calls a line end.
            for line in whole.decode(errors="replace").split("\n") if whole else ():
                record = tuple(line.split("\t"))
                if len(record) != count:
                    raise InputError(
                        f"{capture}: tshark wrote {len(record)} fields in place of {count} for a packet; "
                        "this version of tshark cannot be used, report it with the capture"
                    )
                yield record
        tshark.end()

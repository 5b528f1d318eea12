"""Captures broken at random from a seed, and what must hold for each; shared by the tests and the benchmark."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import handmade

from toolkit.errors import InputError
from toolkit.samples.convert import READERS, convert
from toolkit.samples.sample import load_sample, shipped_samples


@dataclass(frozen=True)
class Found:
    """What became of one broken capture: ``read``, ``partly`` or ``refused``, and what must not be."""

    outcome: str
    wrong: str


def captures_to_break() -> dict[str, bytes]:
    """Return the shipped captures, and one of each kind of packet in both file formats."""
    data = files("toolkit.samples") / "data"
    shipped = {name: (data / f"{name}.pcapng").read_bytes() for name in shipped_samples()}
    mixed = every_kind()
    return {**shipped, "mixed.pcap": handmade.pcap(mixed), "mixed.pcapng": handmade.pcapng(mixed)}


def every_kind() -> list[bytes]:
    frames = handmade.flow(handmade.get(b'/a\tb,"c"'), handmade.answer())
    frames += handmade.flow(handmade.get(), handmade.answer(), version=6, vlan=7, port=40001)
    frames += handmade.flow(handmade.client_hello(), b"\x16\x03\x03\x00\x04abcd", server_port=443, port=40002)
    frames += [handmade.arp(), handmade.dns(), handmade.unreachable(), handmade.four_in_six()]
    return frames + handmade.fragments()


def mutated(content: bytes, numbers: random.Random) -> tuple[bytes, str]:
    ways: list[Callable[[bytearray, random.Random], None]] = [_flip, _cut, _double, _zero]
    way = numbers.choice(ways)
    broken = bytearray(content)
    way(broken, numbers)
    return bytes(broken), way.__name__.removeprefix("_")


def _flip(content: bytearray, numbers: random.Random) -> None:
    for _ in range(numbers.choice((1, 4, 32))):
        content[numbers.randrange(len(content))] ^= 1 << numbers.randrange(8)


def _cut(content: bytearray, numbers: random.Random) -> None:
    del content[numbers.randrange(len(content)) :]


def _double(content: bytearray, numbers: random.Random) -> None:
    start = numbers.randrange(len(content))
    piece = content[start : start + numbers.randrange(1, 400)]
    at = numbers.randrange(len(content))
    content[at:at] = piece


def _zero(content: bytearray, numbers: random.Random) -> None:
    start = numbers.randrange(len(content))
    end = min(len(content), start + numbers.randrange(1, 200))
    content[start:end] = bytes(end - start)


def examine(content: bytes, folder: Path) -> Found:
    """Convert a capture with both readers and say what is not as it must be."""
    capture = folder / "broken.pcap"
    capture.write_bytes(content)
    outcomes = {}
    for reader in READERS:
        place = folder / reader
        target = place / "broken.csv"
        try:
            done = convert(capture, target, reader=reader)
            outcomes[reader] = (target.read_bytes(), done.packets, done.truncated, done.note)
            rows = len(load_sample(target).frame)
            if rows != done.packets or sorted(e.name for e in place.iterdir()) != [
                "broken.csv",
                "broken.json",
            ]:
                return Found("miscounted", f"{reader}: {rows} rows, {done.packets} converted")
        except InputError as error:
            outcomes[reader] = (None, 0, False, str(error))
            if any(place.iterdir()) or len(str(error).splitlines()) != 1:
                return Found("refused", f"{reader}: left {sorted(place.iterdir())}, said {error}")
        except Exception as error:
            return Found("crashed", f"{reader}: {error!r}")
        finally:
            for left in (target, target.with_suffix(".json")):
                left.unlink(missing_ok=True)
    fast, slow = outcomes["fast"], outcomes["pyshark"]
    if fast != slow:
        return Found("differs", f"fast {fast[1:]}, pyshark {slow[1:]}")
    return Found("refused" if fast[0] is None else "partly" if fast[2] else "read", "")

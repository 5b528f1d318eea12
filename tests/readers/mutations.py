"""Captures broken at random from a seed, and what must hold for each."""

from __future__ import annotations

import random
from importlib.resources import files
from pathlib import Path

import handmade

from toolkit.errors import InputError
from toolkit.traffic.convert import READERS, convert
from toolkit.traffic.sample import load_sample, shipped_samples


def captures_to_break() -> dict[str, bytes]:
    """Return the shipped captures, and one of each kind of packet in both file formats."""
    data = files("toolkit.traffic") / "data"
    shipped = {name: (data / f"{name}.pcapng").read_bytes() for name in shipped_samples()}
    mixed = every_kind()
    return {**shipped, "mixed.pcap": handmade.pcap(mixed), "mixed.pcapng": handmade.pcapng(mixed)}


def every_kind() -> list[bytes]:
    frames = handmade.flow(handmade.get(b'/a\tb,"c"'), handmade.answer())
    frames += handmade.flow(handmade.get(), handmade.answer(), version=6, vlan=7, port=40001)
    frames += handmade.flow(handmade.client_hello(), b"\x16\x03\x03\x00\x04abcd", server_port=443, port=40002)
    frames += [handmade.arp(), handmade.dns(), handmade.unreachable(), handmade.tunnels()["ip in ipv6"]]
    return frames + handmade.fragments()


def mutated(content: bytes, numbers: random.Random) -> tuple[bytes, str]:
    """Return a capture with bits turned, its end cut off, a piece doubled or overwritten by zeros, and which it is."""
    broken, way = bytearray(content), numbers.choice(("flip", "cut", "double", "zero"))
    if way == "flip":
        for _ in range(numbers.choice((1, 4, 32))):
            broken[numbers.randrange(len(broken))] ^= 1 << numbers.randrange(8)
        return bytes(broken), way
    start = numbers.randrange(len(broken))
    if way == "cut":
        del broken[start:]
    elif way == "double":
        piece = broken[start : start + numbers.randrange(1, 400)]
        at = numbers.randrange(len(broken))
        broken[at:at] = piece
    else:
        end = min(len(broken), start + numbers.randrange(1, 200))
        broken[start:end] = bytes(end - start)
    return bytes(broken), way


def examine(content: bytes, folder: Path) -> str:
    """Convert a capture with both readers and say what is not as it must be; empty when all is."""
    capture = folder / "broken.pcap"
    capture.write_bytes(content)
    outcomes = []
    for reader in READERS:
        place = folder / reader
        target = place / "broken.csv"
        try:
            done = convert(capture, target, reader=reader)
            outcomes.append((target.read_bytes(), done.packets, done.truncated, done.note))
            rows, names = len(load_sample(target).frame), sorted(entry.name for entry in place.iterdir())
            if rows != done.packets or names != ["broken.csv", "broken.json"]:
                return f"{reader}: {rows} rows, {done.packets} converted, {names}"
        except InputError as error:
            outcomes.append((None, 0, False, str(error)))
            if any(place.iterdir()) or len(str(error).splitlines()) != 1:
                return f"{reader}: left {sorted(place.iterdir())}, said {error}"
        except Exception as error:
            return f"{reader} crashed: {error!r}"
        finally:
            for left in (target, target.with_suffix(".json")):
                left.unlink(missing_ok=True)
    return "" if outcomes[0] == outcomes[1] else f"{list(READERS)} differ: {[one[1:] for one in outcomes]}"

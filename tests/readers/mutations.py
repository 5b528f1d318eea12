"""Captures broken at random from a seed, and what must hold for each."""

import subprocess
from importlib.resources import files

import handmade

from toolkit.errors import InputError
from toolkit.files.tables import csv_text
from toolkit.traffic.convert import convert
from toolkit.traffic.sample import COLUMNS, NAMES, load_sample, shipped_samples
from toolkit.traffic.tshark import SEVERAL, row_cells, tshark_fields, tshark_version

TEXTS = {position for position, kind in enumerate(COLUMNS.values()) if kind == "string"}


def captures_to_break():
    """Return the shipped captures, and one of each kind of packet in both file formats."""
    data = files("toolkit.traffic") / "data"
    shipped = {name: (data / f"{name}.pcapng").read_bytes() for name in shipped_samples()}
    mixed = every_kind()
    return {**shipped, "mixed.pcap": handmade.pcap(mixed), "mixed.pcapng": handmade.pcapng(mixed)}


def every_kind():
    frames = handmade.flow(handmade.get(b'/a\tb,"c"'), handmade.answer())
    frames += handmade.flow(handmade.get(), handmade.answer(), version=6, vlan=7, port=40001)
    frames += handmade.flow(handmade.client_hello(), b"\x16\x03\x03\x00\x04abcd", server_port=443, port=40002)
    frames += [handmade.arp(), handmade.dns(), handmade.unreachable(), handmade.tunnels()["ip in ipv6"]]
    return frames + handmade.fragments()


def mutated(content, numbers):
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


def plain_records(capture):
    """Return the records of a capture as ``tshark -T fields`` writes them, without PyShark."""
    words = [
        "tshark",
        "-n",
        "-r",
        str(capture),
        "-T",
        "fields",
        "-E",
        "separator=/t",
        "-E",
        f"aggregator={SEVERAL}",
    ]
    words += [
        "-E",
        "occurrence=a",
        *(word for field in tshark_fields(tshark_version()) for word in ("-e", field)),
    ]
    out = subprocess.run(words, capture_output=True, check=False).stdout.decode(errors="replace")
    return [tuple(line.split("\t")) for line in out.split("\n")[:-1]]


def examine(content, folder):
    """Convert a capture and say what is not as it must be; empty when all is."""
    capture, place = folder / "broken.pcap", folder / "out"
    target = place / "broken.csv"
    capture.write_bytes(content)
    try:
        done = convert(capture, target)
        rows, names = load_sample(target).csv, sorted(entry.name for entry in place.iterdir())
        expected = csv_text([NAMES, *map(row_cells, plain_records(capture))], TEXTS)
        if rows != expected or rows.count("\n") != done.packets + 1 or names != ["broken.csv", "broken.json"]:
            return f"{done.packets} converted, {names}, or not as tshark gives them"
    except InputError as error:
        if any(place.iterdir()) or len(str(error).splitlines()) != 1 or plain_records(capture):
            return f"left {sorted(place.iterdir())}, said {error}"
    except Exception as error:
        return f"crashed: {error!r}"
    finally:
        for left in (target, target.with_suffix(".json")):
            left.unlink(missing_ok=True)
    return ""

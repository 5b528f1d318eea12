"""What reading captures costs, and what broken captures do to it.

    python tests/benchmarks/samples.py [--packets 100000] [--rounds 5]
    python tests/benchmarks/samples.py --fuzz 2000 [--seed 4]

Speed: the fast reader and the whole conversion against ``tshark -T fields`` with the same fields to nowhere, taking
turns; the median of the ratios counts. Memory: peak of the converting process and of its tshark. PyShark's
default (every layer of every packet, as ``for packet in FileCapture(path)``) is measured on 2,000 packets and scaled.

Fuzz: seeded mutations of captures (bit flips, cuts, duplications, zeroed ranges), converted with both readers: no
crash, nothing above 10 s, the same bytes and notes from both, no partial CSV.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "readers"))

from handmade import answer, dns, flow, get, pcap
from mutations import captures_to_break, examine, mutated

ASKED_RATIO, ASKED_MEGABYTES, ASKED_SECONDS = 1.25, 200.0, 10.0
PYSHARK_PACKETS = 2_000

CONVERT = """
import json, resource, sys, time
from toolkit.samples import columns, tshark
from toolkit.samples.convert import convert
from pathlib import Path
began = time.perf_counter()
if sys.argv[3] == "read":
    packets = sum(1 for record in tshark.records(Path(sys.argv[1])) if columns.cells_of(record))
else:
    packets = convert(sys.argv[1], sys.argv[2], reader=sys.argv[3]).packets
wall = time.perf_counter() - began
own, child = (resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({"wall": wall, "packets": packets, "own": own, "child": child}))
"""
PLAIN_PYSHARK = """
import asyncio, json, sys, time
import pyshark
asyncio.set_event_loop(asyncio.new_event_loop())
began = time.perf_counter()
packets = sum(1 for _ in pyshark.FileCapture(sys.argv[1], keep_packets=False))
print(json.dumps({"wall": time.perf_counter() - began, "packets": packets}))
"""


def write_capture(path: Path, packets: int) -> None:
    """Write a capture of HTTP connections and DNS questions with so many packets."""
    frames: list[bytes] = []
    for index in range(packets // 9 + 1):
        uri, agent = f"/page/{index}?q={index % 97}".encode(), f"probe/{index % 7}".encode()
        frames += flow(get(uri, agent=agent), answer(body=b"x" * 400), port=1024 + index % 60_000)
        frames.append(dns(1024 + index % 60_000))
    path.write_bytes(pcap(frames[:packets], step=0.0005))


def timed(script: str, *arguments: object) -> dict[str, float]:
    """Run a script in a process of its own and return what it measured."""
    words = [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)]
    found: dict[str, float] = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    return found


def bare_tshark(capture: Path) -> float:
    """Return the seconds of ``tshark -T fields`` with the same fields to nowhere."""
    from toolkit.samples.columns import asked_fields
    from toolkit.samples.tshark import tshark_version

    asked = [word for field in asked_fields(tshark_version()) for word in ("-e", field)]
    began = time.perf_counter()
    words = ["tshark", "-n", "-r", str(capture), "-T", "fields", *asked]
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def speed(packets: int, rounds: int) -> bool:
    """Print what reading costs and whether the limits hold."""
    with tempfile.TemporaryDirectory() as folder:
        large, small, out = Path(folder) / "large.pcap", Path(folder) / "small.pcap", Path(folder) / "out.csv"
        write_capture(large, packets)
        write_capture(small, PYSHARK_PACKETS)
        contenders: dict[str, Callable[[], dict[str, float]]] = {
            "tshark": lambda: {"wall": bare_tshark(large), "packets": packets},
            "read": lambda: timed(CONVERT, large, out, "read"),
            "fast": lambda: timed(CONVERT, large, out, "fast"),
        }
        taken = [{name: contend() for name, contend in contenders.items()} for _ in range(rounds)]
        ours = timed(CONVERT, large, out, "pyshark")
        plain = timed(PLAIN_PYSHARK, small)["wall"] * packets / PYSHARK_PACKETS
    wall = {name: median(found[name]["wall"] for found in taken) for name in contenders}
    # Ratios within a round, because the two stood beside each other: a machine is never quiet for all of them.
    ratio = {
        name: median(found[name]["wall"] / found["tshark"]["wall"] for found in taken) for name in contenders
    }
    memory = max(found["fast"]["own"] for found in taken)
    tsharks = max(found["fast"]["child"] for found in taken)
    print(f"{packets:,} packets, medians of {rounds} rounds")
    print(f"tshark -T fields to nowhere     {wall['tshark']:7.2f} s")
    print(f"fast reader                     {wall['read']:7.2f} s  {ratio['read']:6.2f} x tshark")
    print(f"convert, fast                   {wall['fast']:7.2f} s  {ratio['fast']:6.2f} x tshark")
    print(
        f"convert, pyshark                {ours['wall']:7.2f} s  {ours['wall'] / wall['tshark']:6.2f} x tshark"
    )
    print(f"PyShark's default               {plain:7.1f} s  scaled from {PYSHARK_PACKETS:,} packets")
    print(
        f"  convert is {plain / wall['fast']:.0f} (fast) and {plain / ours['wall']:.0f} (pyshark) times as fast"
    )
    print(
        f"memory of convert, fast         {memory:7.0f} MB (the tshark below it: {tsharks:.0f} MB, its own affair)"
    )
    lost = any(found["packets"] != packets for runs in taken for found in (*runs.values(), ours))
    held = max(ratio.values()) <= ASKED_RATIO and memory < ASKED_MEGABYTES and not lost
    asked = f"at most {ASKED_RATIO} x and under {ASKED_MEGABYTES:.0f} MB, no packet lost"
    print(f"asked: {asked}: {'holds' if held else 'MISSED'}")
    return held


def fuzz(count: int, seed: int) -> bool:
    """Break captures, read them, and print what came of it."""
    random_numbers = random.Random(seed)
    captures = captures_to_break()
    outcomes: Counter[str] = Counter()
    slowest, wrong = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        for index in range(count):
            name = sorted(captures)[index % len(captures)]
            content, what = mutated(captures[name], random_numbers)
            began = time.perf_counter()
            found = examine(content, Path(folder))
            slowest = max(slowest, time.perf_counter() - began)
            outcomes[found.outcome] += 1
            if found.wrong:
                wrong.append(f"{index} ({name}, {what}): {found.wrong}")
            if index % 200 == 199:
                print(f"{index + 1:,} of {count:,}: {dict(outcomes)}, {len(wrong)} wrong", flush=True)
    print(f"{count:,} mutations of {len(captures)} captures, seed {seed}: {dict(outcomes)}")
    print(f"slowest, both conversions together: {slowest:.1f} s; wrong: {len(wrong)}")
    print("\n".join(wrong))
    return not wrong and slowest < ASKED_SECONDS


def main() -> int:
    """Run what was asked for; exit code 1 when a limit is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packets", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fuzz", type=int, metavar="MUTATIONS")
    parser.add_argument("--seed", type=int, default=4)
    given = parser.parse_args()
    held = fuzz(given.fuzz, given.seed) if given.fuzz else speed(given.packets, given.rounds)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())

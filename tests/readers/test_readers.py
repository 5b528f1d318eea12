"""The reader of captures: the rows of every kind of packet, and nothing left running."""

import asyncio
import os
import random
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import handmade
import pytest
from cases import FULL, cases
from mutations import captures_to_break, every_kind, examine, mutated, plain_records
from refusals import refusal
from waiting import processes

from toolkit.traffic.sample import NAMES
from toolkit.traffic.tshark import packet_records, row_cells, tshark_fields

CASES = cases(__file__)


def rows(capture, display_filter=None):
    records = packet_records(capture, display_filter)
    return [{name: cell or None for name, cell in zip(NAMES, row_cells(r), strict=True)} for r in records]


def tsharks_of(pid):
    """The running tsharks below a process; one that was ended and is not yet reaped counts too."""
    return [line for line in processes("ppid=,comm=") if line.split() == [str(pid), "tshark"]]


@pytest.mark.parametrize("start", range(1, 256, 64))
def test_every_byte_is_the_text_that_tshark_itself_writes(written, start):
    """Tabs, quotes, separators, escapes, control signs and bytes that are no UTF-8, alone and in a row."""
    wild = bytes(b for b in range(start, min(start + 64, 256)) if b not in b"\r\n")
    agents = [*(b"a%cz" % b for b in wild), wild, "é\u2028\u202e\U0001f600\x85".encode(), b"\\t\\n\\"]
    flows = (
        handmade.flow(handmade.get(b"/" + a, agent=a), handmade.answer(), port=2000 + n)
        for n, a in enumerate(agents)
    )
    frames = [frame for flow in flows for frame in flow]
    path = written(frames)
    assert list(packet_records(path)) == plain_records(path)
    found = rows(path)
    assert len(found) == len(frames)
    assert [row["method"] for row in found].count("GET") >= len(agents) - wild.count(b" ")


def test_what_is_known_of_each_kind_of_packet(written):
    """No packet is left out; addresses and ports are of the packet itself, of the inner one in a tunnel."""
    frames = every_kind()
    found = rows(written(frames))
    assert [row["number"] for row in found] == [str(n + 1) for n in range(len(frames))]
    assert [row["length"] for row in found] == [str(len(frame)) for frame in frames]
    assert all(row["protocol"] for row in found)
    known = CASES["known"]  # fmt: skip
    for place, names, *cells in known:
        assert [found[place][name] for name in names.split()] == cells


def test_tcp_of_a_packet_is_its_own_and_a_filter_keeps_numbers_and_times(written):
    """Bits have names in their order, no flags is none; what an ICMP error quotes is no segment of its stream."""
    values = [1, 2, 4, 8, 16, 32, 64, 128, 0x12, 0]
    segments = [handmade.tcp(b"", 1000 + v, 9, flags=v) for v in values]
    frames = [handmade.packet(segment, 6) for segment in segments]
    names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "SYN,ACK", "none"]
    assert [row["tcp_flags"] for row in rows(written(frames))] == names
    flow = handmade.flow(handmade.get(), handmade.answer())
    quote = b"\x03\x01\0\0\0\0\0\0" + flow[0][14:]
    path = written([*flow, handmade.packet(quote, 1, handmade.SERVER, handmade.CLIENT)])
    last = rows(path)[-1]
    assert last["protocol"] == "ICMP"
    assert {last[name] for name in ("source_port", "tcp_flags", "stream", "payload_length")} == {None}
    found = rows(path, "http")
    assert [(row["number"], row["time"]) for row in found] == [("4", "0.003000000"), ("5", "0.004000000")]


def test_no_tshark_is_one_line(written, monkeypatch, tmp_path):
    path = written([handmade.arp()])
    monkeypatch.setenv("PATH", str(tmp_path))
    refusal("apt-get install tshark", list, packet_records(path))


def test_preferences_of_the_user_change_nothing(written, monkeypatch, tmp_path):
    """Not even a profile that turns HTTP off and resolves names, found in the way tshark finds it."""
    path = written(handmade.flow(handmade.get(), handmade.answer()))
    plain = rows(path)
    for folder in (tmp_path / ".config" / "wireshark", tmp_path / "own"):
        folder.mkdir(parents=True)
        (folder / "preferences").write_text('gui.column.format: \n\t"Protocol", "%m"\n')
        (folder / "disabled_protos").write_text("http\n")
        (folder / "hosts").write_text(f"{handmade.CLIENT} secret.example\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WIRESHARK_CONFIG_DIR", str(tmp_path / "own"))
    words = ["tshark", "-r", str(path), "-T", "fields", "-e", "http.host"]
    spoilt = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "shop.example" not in spoilt.stdout, "the profile of this test does nothing"
    assert rows(path) == plain


def test_leaving_early_ends_tshark(written):
    """A consumer that stops, or breaks, after one packet leaves no process and no thread."""
    path = written([handmade.dns(2000 + n % 60_000) for n in range(30_000)])
    before = threading.active_count()
    for stop in (StopIteration, ValueError):
        records = packet_records(path)
        next(records)
        assert len(tsharks_of(os.getpid())) == 1
        if stop is ValueError:
            with pytest.raises(ValueError, match="consumer"):
                records.throw(ValueError("the consumer broke"))
        else:
            records.close()
        assert tsharks_of(os.getpid()) == []
        assert threading.active_count() == before


def test_a_running_loop_and_the_watcher_of_the_user_are_left_alone(written):
    """Inside a coroutine, as in a cell of a notebook, and in another thread, PyShark just reads."""
    path = written(every_kind())
    expected, watcher = rows(path), asyncio.get_child_watcher()

    async def cell():
        return rows(path)

    assert asyncio.run(cell()) == expected
    assert asyncio.get_child_watcher() is watcher
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(rows, [path] * 3)) == [expected] * 3


@pytest.mark.parametrize(("seed", "count"), [(100, 4), *(FULL(n, 24) for n in range(101, 105))])
def test_mutations_break_nothing(tmp_path, seed, count):
    """A hundred seeded mutations: rows are those of tshark, nothing crashes, no partial CSV, none above 10 s."""
    numbers = random.Random(seed)
    captures = captures_to_break()
    for index in range(count):
        name = sorted(captures)[index % len(captures)]
        content, how = mutated(captures[name], numbers)
        began = time.monotonic()
        assert examine(content, tmp_path) == "", f"{name} by {how}"
        assert time.monotonic() - began < 10


def test_the_protocol_column_has_the_name_of_the_version():
    """Before 4.2 tshark knows the column by its title and leaves another name silently empty."""
    old, new = tshark_fields((4, 0, 17)), tshark_fields((4, 2, 0))
    differ = [pair for pair in zip(old, new, strict=True) if len(set(pair)) > 1]
    assert differ == [("_ws.col.Protocol", "_ws.col.protocol")]

"""Blocks of a pcapng that hold no packet are none, whatever tshark numbers; capinfos is the other counter."""

import re
import struct
import subprocess

import handmade
import pytest
from handmade import block, section
from refusals import refusal

from toolkit.traffic.convert import convert
from toolkit.traffic.sample import load_sample


def packet(order, number):
    """Return a packet of UDP from 192.0.2.NUMBER, so many milliseconds after the first second."""
    data = handmade.udp(b"hello", 1000 + number, 9999)
    return handmade.packet_block(order, handmade.packet(data, 17, f"192.0.2.{number}"), number / 1000)


SECRETS = b"CLIENT_RANDOM 00 11\n"
OTHERS = {
    "custom, copied": lambda order: block(order, 0x0BAD, struct.pack(f"{order}I", 32473) + b"a note"),
    "custom, not copied": lambda order: block(order, 0x40000BAD, struct.pack(f"{order}I", 32473)),
    "custom of a known maker": lambda order: block(order, 0x0BAD, struct.pack(f"{order}I", 1) + b"note"),
    "names": lambda order: block(order, 4, struct.pack(f"{order}HH", 1, 8) + b"\xc0\0\2\1abc\0" + bytes(4)),
    "statistics": lambda order: block(order, 5, bytes(16)),
    "journal": lambda order: block(order, 9, b"__REALTIME_TIMESTAMP=1700000000000500\nMESSAGE=hello\n"),
    "secrets": lambda order: block(order, 10, struct.pack(f"{order}II", 0x544C534B, len(SECRETS)) + SECRETS),
    "unknown": lambda order: block(order, 0x77777777, b"what"),
    "event": lambda order: block(
        order, 0x204, struct.pack(f"{order}HQQIH", 0, 1700000000, 1, 10, 3) + bytes(8)
    ),
}


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", OTHERS)
def test_a_block_without_a_packet_is_no_packet(tmp_path, kind, order):
    """Before, between and after packets, of two sections; the times begin at the first packet, filtered or not."""
    other, path = OTHERS[kind](order), tmp_path / "x.pcapng"
    parts = [
        section(order),
        other,
        packet(order, 1),
        other,
        packet(order, 2),
        other,
        section("<"),
        packet("<", 4),
    ]
    path.write_bytes(b"".join(parts))
    counted = subprocess.run(
        ["capinfos", "-cM", str(path)], capture_output=True, text=True, check=True
    ).stdout
    done = convert(path, tmp_path / "x.csv")
    assert str(done.packets) == re.findall(r"packets:\s*(\d+)", counted)[0] == "3"
    sample = load_sample(tmp_path / "x.csv")
    assert sample.frame["source"].tolist() == ["192.0.2.1", "192.0.2.2", "192.0.2.4"]
    assert sample.frame["time"].tolist() == [0.0, 0.001, 0.003]
    assert convert(path, tmp_path / "y.csv", display_filter="udp.srcport != 1001").packets == 2
    assert load_sample(tmp_path / "y.csv").frame["time"].tolist() == [0.001, 0.003]
    assert b"hello" not in (tmp_path / "x.csv").read_bytes()
    assert b"CLIENT_RANDOM" not in (tmp_path / "x.csv").read_bytes()


def test_blocks_without_packets_alone_hold_no_packet_and_a_cut_one_is_said(tmp_path):
    """A line, and the packets before the damage."""
    path = tmp_path / "x.pcapng"
    path.write_bytes(section("<") + OTHERS["custom of a known maker"]("<") + OTHERS["journal"]("<"))
    refusal("it holds no packet; nothing was written", convert, path, tmp_path / "x.csv")
    path.write_bytes(section(">") + packet(">", 1) + OTHERS["custom, copied"](">")[:-6])
    done = convert(path, tmp_path / "x.csv")
    assert (done.packets, done.truncated) == (1, True)

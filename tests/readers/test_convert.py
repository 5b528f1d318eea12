"""Conversion: complete or not there, with its provenance, safe to open anywhere."""

import csv
import hashlib
import io
import json
import signal
import struct
import subprocess
import sys
from itertools import starmap

import handmade
import pandas as pd
import pytest
from cases import FULL, cases
from mutations import every_kind
from refusals import refusal
from waiting import processes, wait_for

from toolkit.traffic.capture import capture as record
from toolkit.traffic.convert import convert
from toolkit.traffic.sample import COLUMNS, NAMES, load_sample

CASES = cases(__file__)

WILD = (b"=cmd|' /C calc'!A0", b"+1", b"-1", b"@SUM(A1)", b"'quoted", b'"quoted", and more', b"NA", b"null")


@pytest.fixture
def capture(written):
    """One packet of each kind in a pcapng file."""
    return written(handmade.pcapng(every_kind()), "kinds.pcapng")


def test_the_right_types_and_no_row_lost(capture, tmp_path):
    """One row a packet, the columns in order, numbers as numbers and missing as missing."""
    done = convert(capture, tmp_path / "out.csv")
    frame = load_sample(tmp_path / "out.csv").frame
    assert (done.packets, done.truncated) == (len(every_kind()), False)
    assert list(frame.columns) == list(NAMES)
    assert {str(frame[name].dtype) for name, dtype in COLUMNS.items() if dtype == "Int64"} == {"Int64"}
    assert frame["time"].dtype == float
    assert frame["number"].tolist() == list(range(1, len(frame) + 1))
    assert frame["status"].dropna().tolist() == [200, 200]
    assert frame["status"].isna().sum() == len(frame) - 2
    plain = pd.read_csv(tmp_path / "out.csv")
    assert plain["length"].tolist() == frame["length"].tolist()
    assert pd.api.types.is_float_dtype(plain["time"])
    # Any columns in any order; a lone column that is mostly missing keeps its rows.
    convert(capture, tmp_path / "some.csv", columns=["uri", "number"])
    assert list(load_sample(tmp_path / "some.csv").frame.columns) == ["uri", "number"]
    convert(capture, tmp_path / "one.csv", columns=["uri"])
    assert len(load_sample(tmp_path / "one.csv").frame) == len(every_kind())
    # A packet before the first one, in a capture out of order, has a negative time.
    capture.write_bytes(handmade.pcap([handmade.arp(), handmade.arp()], step=-0.5))
    convert(capture, tmp_path / "back.csv")
    assert pd.read_csv(tmp_path / "back.csv")["time"].tolist() == [0.0, -0.5]


def test_no_cell_is_a_formula_and_the_text_comes_back(written, tmp_path):
    """In the file no text begins like a formula; in the sample it is what was sent, NA and null included."""
    flows = (
        handmade.flow(handmade.get(agent=a), handmade.answer(), port=3000 + n) for n, a in enumerate(WILD)
    )
    path = written(frame for flow in flows for frame in flow)
    convert(path, tmp_path / "wild.csv")
    text = (tmp_path / "wild.csv").read_bytes().decode()
    assert "\r" not in text
    texts = [NAMES.index(name) for name, dtype in COLUMNS.items() if dtype == "string"]
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert {len(row) for row in rows} == {len(NAMES)}
    assert not [row[i] for row in rows for i in texts if row[i][:1] and row[i][0] in "=+-@\t\r\n"]
    found = load_sample(tmp_path / "wild.csv").frame["user_agent"].dropna().tolist()
    assert found == [agent.decode() for agent in WILD]


@pytest.mark.parametrize(("given", "says"), CASES["refused"])  # fmt: skip
def test_what_cannot_be_done_is_one_line_and_no_file(capture, tmp_path, given, says):
    source, target = tmp_path / given.pop("source", "kinds.pcapng"), given.pop("target", "out/x.csv")
    refusal(says, convert, source, tmp_path / target, **given)
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("name", ["x.csv", "x.json"])
def test_a_file_that_is_no_earlier_sample_is_not_overwritten(capture, tmp_path, name):
    """Nor is any file by a recording; an earlier sample is, by the same command again."""
    (tmp_path / name).write_text("mine")
    refusal(
        f"{name}: is there, and no earlier sample; name another target", convert, capture, tmp_path / "x.csv"
    )
    (tmp_path / "y.pcapng").write_text("mine")
    refusal(
        r"y\.pcapng: is there; a capture takes the place of no file", record, tmp_path / "y.pcapng", seconds=1
    )
    assert sorted(path.name for path in tmp_path.iterdir() if path.read_bytes() == b"mine") == sorted(
        (name, "y.pcapng")
    )
    (tmp_path / name).unlink()
    assert convert(capture, tmp_path / "x.csv") == convert(capture, tmp_path / "x.csv")


@pytest.mark.parametrize("name", handmade.tunnels())
def test_a_row_of_a_tunnel_is_one_layer_and_is_said(written, tmp_path, name):
    """Addresses, ports and HTTP of a row are all of the innermost packet; result and provenance say so."""
    done = convert(written([handmade.tunnels()[name], handmade.arp()]), tmp_path / "t.csv")
    row = load_sample(tmp_path / "t.csv").frame.iloc[0]
    assert row[["source", "destination"]].tolist() == ["192.0.2.77", "203.0.113.77"]
    assert row[["source_port", "destination_port", "tcp_flags"]].tolist() == [40077, 80, "PSH,ACK"]
    assert str(done.note).startswith(
        "packets inside a tunnel: 1, of which the table shows the innermost packet"
    )
    assert load_sample(tmp_path / "t.csv").about["note"] == done.note


def test_the_provenance_says_where_the_table_comes_from(capture, tmp_path):
    """Hash, size, tools, filter, columns, reader and counts; no folder, and the same bytes every time."""
    convert(capture, tmp_path / "out.csv", display_filter="http", columns=["number"])
    about = load_sample(tmp_path / "out.csv").about
    assert about["capture_sha256"] == hashlib.sha256(capture.read_bytes()).hexdigest()
    assert (about["capture"], about["capture_bytes"]) == ("kinds.pcapng", capture.stat().st_size)
    assert set(about["tools"]) == {"toolkit", "tshark", "pyshark"}
    assert about["tools"]["tshark"] in subprocess.run(["tshark", "-v"], capture_output=True, text=True).stdout
    assert (about["display_filter"], about["columns"], about["packets"]) == ("http", ["number"], 5)
    assert (about["truncated"], about["pseudonymised"]) == (False, False)
    first = (tmp_path / "out.json").read_bytes()
    convert(capture, tmp_path / "out.csv", display_filter="http", columns=["number"])
    assert (tmp_path / "out.json").read_bytes() == first
    assert str(tmp_path).encode() not in first
    # Whoever has the capture finds a shared sample's by hash or size; without both the rest stays.
    convert(capture, tmp_path / "out.csv", display_filter="http", columns=["number"], capture_hash=False)
    short = load_sample(tmp_path / "out.csv").about
    assert about == short | {key: about[key] for key in ("capture_sha256", "capture_bytes")}
    assert len(short) == len(about) - 2


def test_one_file_a_stream_holds_every_packet_once(capture, tmp_path):
    """Streams and the rest together are the whole table, each with its provenance."""
    convert(capture, tmp_path / "whole.csv")
    done = convert(capture, tmp_path / "flow.csv", per_stream=True)
    names = {path.name for path in done.files}
    assert names == {*(f"flow-stream-{n}.csv" for n in range(4)), "flow-other.csv"}
    parts = [load_sample(path) for path in done.files]
    for part in parts:
        stream = part.name.removeprefix("flow-").removeprefix("stream-")
        assert (part.about["stream"], part.about["packets"]) == (stream, len(part.frame))
        assert set(part.frame["stream"].dropna().astype(str)) == ({stream} - {"other"})
    together = pd.concat([part.frame for part in parts]).sort_values("number", ignore_index=True)
    pd.testing.assert_frame_equal(together, load_sample(tmp_path / "whole.csv").frame)
    # Streams of an earlier conversion to the same name do not stay, and no file of the user's is lost.
    (tmp_path / "flow-stream-9.csv").write_text("mine\n")
    (tmp_path / "flow-stream-x.csv").write_text("mine\n")
    convert(capture, tmp_path / "flow.csv", per_stream=True, display_filter="tcp.stream == 1")
    left = {path.name for path in tmp_path.glob("flow*.csv")}
    assert left == {"flow-stream-1.csv", "flow-stream-9.csv", "flow-stream-x.csv"}


def test_thousands_of_streams_need_no_thousands_of_open_files(written, tmp_path):
    segments = [handmade.tcp(b"", 1000 + n, 80, flags=handmade.SYN) for n in range(3000)] * 2
    path = written(handmade.packet(segment, 6) for segment in segments)
    done = convert(path, tmp_path / "many.csv", per_stream=True)
    assert (done.packets, len(done.files)) == (6000, 3000)
    assert all(len(file.read_text().splitlines()) == 3 for file in done.files)


def test_no_address_survives_pseudonymisation(written, tmp_path):
    """Not in addresses, hosts, URIs, agents, nor in the provenance's name and filter; the mapping is consistent."""
    agent = b"Bot/1.0 (+http://192.0.2.10/)"
    flow = handmade.flow(handmade.get(b"/?to=198.51.100.20", b"198.51.100.20:80", agent), handmade.answer())
    path = written([*flow, handmade.arp()], "from-192.0.2.10.pcap")
    given = {"display_filter": "ip.addr == 192.0.2.10 or arp"}
    convert(path, tmp_path / "p.csv", pseudonymise="a key", **given)
    everything = (tmp_path / "p.csv").read_text() + (tmp_path / "p.json").read_text()
    for secret in (handmade.CLIENT, handmade.SERVER, handmade.CLIENT_MAC, handmade.SERVER_MAC, "a key"):
        assert secret not in everything
    sample = load_sample(tmp_path / "p.csv")
    request = sample.frame.iloc[3]
    assert request["host"] == f"{request['destination']}:80"
    assert request["uri"] == f"/?to={request['destination']}"
    assert request["user_agent"] == f"Bot/1.0 (+http://{request['source']}/)"
    assert sample.about["pseudonymised"] is True
    first = (tmp_path / "p.csv").read_bytes()
    convert(path, tmp_path / "p.csv", pseudonymise="a key", **given)
    assert (tmp_path / "p.csv").read_bytes() == first
    convert(path, tmp_path / "p.csv", pseudonymise="another", **given)
    assert (tmp_path / "p.csv").read_bytes() != first


def reading(path):
    """Whether a tshark still reads this capture."""
    return any("tshark" in line and str(path) in line for line in processes("args=") if "python" not in line)


@pytest.mark.parametrize(("content", "says", "read"), [
    (b"", "empty", 0), (b"this is no capture at all, but text", "isn't a capture file", 0),
    (handmade.pcap([]), "holds no packet; nothing was written", 0), (handmade.pcap([])[:10], "cut short", 0),
    (handmade.pcap([handmade.arp()] * 3)[:-5], "cut short", 2),
    (handmade.pcapng([handmade.arp()] * 3)[:-5], "cut short", 2),
    (handmade.pcap([handmade.arp()] * 2) + b"\xff" * 60, "damaged", 2),
], ids=["empty", "text", "no packet", "head", "pcap", "pcapng", "rubbish"])  # fmt: skip
def test_a_broken_capture_gives_what_could_be_read_and_says_so(written, tmp_path, content, says, read):
    """Result, note and provenance say that it is not all; where nothing could be read it is one line and no file."""
    path, target = written(content), tmp_path / "out" / "cut.csv"
    if not read:
        refusal(says, convert, path, target)
        assert not list(tmp_path.glob("out/*"))
        return
    done = convert(path, target)
    assert (done.packets, done.truncated) == (read, True)
    assert says in str(done.note)
    assert f"in the table: {read}" in str(done.note)
    about = load_sample(target).about
    assert (about["truncated"], about["packets"]) == (True, read)
    assert str(tmp_path) not in json.dumps(about)
    assert done.summary().exit_code == 0
    assert "note: " in done.summary().text


def test_several_messages_in_a_packet_are_said(written, tmp_path):
    requests = handmade.get(b"/1") + handmade.get(b"/2")
    target = tmp_path / "p.csv"
    done = convert(written(handmade.flow(requests, handmade.answer())), target)
    assert done.note == "packets with several HTTP messages: 1, of which the table shows the first"
    assert load_sample(target).frame["uri"].dropna().tolist() == ["/1"]


@pytest.mark.parametrize("number", [signal.SIGINT, FULL(signal.SIGKILL)])
def test_ended_in_the_middle_there_is_no_csv_and_again_it_is_whole(written, tmp_path, number):
    """By Ctrl-C or kill -9: nothing stands under the final name, tshark ends, and the next run is complete."""
    packets = 60_000
    path, target = (
        written(handmade.dns(2000 + n % 60_000) for n in range(packets)),
        tmp_path / "out" / "long.csv",
    )
    code = f"from toolkit.traffic.convert import convert; convert({str(path)!r}, {str(target)!r})"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as child:
        wait_for(lambda: any(target.parent.glob(".long.*/long.csv")))
        child.send_signal(number)
        said = child.communicate(timeout=120)[1]
    if number == signal.SIGINT:
        assert b"KeyboardInterrupt" in said
        assert list(target.parent.iterdir()) == []
    assert not target.exists()
    assert not target.with_suffix(".json").exists()
    wait_for(lambda: not reading(path))
    assert convert(path, target).packets == packets
    assert target.read_bytes().count(b"\n") == packets + 1


def messages():
    """Return a request and its reply, whose texts end at bytes that a test can count."""
    request = b"GET /admin/login HTTP/1.1\r\nHost: internal.example\r\nUser-Agent: curl/8.1\r\n\r\n"
    reply = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok"
    sent, came = (handmade.tcp(request, 4000, 80, flags=0x18), handmade.tcp(reply, 80, 4000, flags=0x18))
    return [handmade.packet(sent, 6), handmade.packet(came, 6, handmade.SERVER, handmade.CLIENT, back=True)]


@pytest.mark.parametrize(
    ("snap", "uri", "host", "agent", "kind", "protocols"),
    [*CASES["snap"], *starmap(FULL, CASES["snap_full"])],
)
def test_of_a_packet_held_in_part_row_cell_and_provenance_say_so(
    written, tmp_path, snap, uri, host, agent, kind, protocols
):
    """The cell that may go on is marked, and no other; with a key, half an address in it is not shown."""
    path, target = written(handmade.pcap(messages(), snap=snap)), tmp_path / "snap.csv"
    done = convert(path, target)
    sample = load_sample(target)
    frame = sample.frame.astype(object).where(sample.frame.notna(), None)
    asked = [frame.loc[0, name] for name in ("uri", "host", "user_agent")]
    assert [*asked, frame.loc[1, "content_type"]] == [uri, host, agent, kind]
    assert protocols in (None, list(frame["protocol"]))
    assert frame["protocol"].str.endswith("[cut]").all() == (snap < 1000)
    assert list(frame["length"]) == [len(one) for one in messages()]
    assert (done.truncated, sample.about["truncated"]) == (snap < 1000,) * 2
    assert ("holds in part (a snap length): 2;" in str(sample.about["note"])) == (snap < 1000)
    convert(path, target, pseudonymise="key")
    shown = target.read_text()
    assert "interna[cut]" not in shown
    assert "/log[cut]" not in shown


def test_what_is_not_decoded_is_said(written, tmp_path):
    """HTTP/2 in clear has requests and SCTP has ports, which a table without them must not deny."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
    chunk = struct.pack("!HHIIBBHIHHI", 5000, 80, 1, 0, 0, 3, 20, 1, 0, 0, 0) + b"data"
    frames = [handmade.packet(handmade.tcp(preface, 4000, 80, flags=0x18), 6), handmade.packet(chunk, 132)]
    done = convert(written(frames), tmp_path / "new.csv")
    assert "packets of HTTP/2 in clear: 1; their requests and replies are not decoded" in str(done.note)
    assert "packets of SCTP: 1; their ports are not decoded" in str(done.note)
    assert not done.truncated

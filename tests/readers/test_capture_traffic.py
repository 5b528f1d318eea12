"""Recording real traffic on loopback: what is asked for is in the file, and nothing keeps running."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cases import cases
from refusals import refusal
from waiting import processes, wait_for

from toolkit.traffic.capture import capture
from toolkit.traffic.convert import convert
from toolkit.traffic.sample import load_sample

ENDED = threading.Event()


class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/slow":
            ENDED.wait(30)
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture(scope="module")
def port():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    ENDED.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def free_port():
    """A port where nobody listens, and nobody can as long as the test runs."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield int(found.getsockname()[1])


def below(pid):
    """The names of the processes below a process, all the way down."""
    table = [line.split(maxsplit=2) for line in processes("pid=,ppid=,comm=")]
    found, parents = [], {str(pid)}
    while parents:
        children = [(own, name) for own, parent, name in table if parent in parents and name != "ps"]
        found += [name for _, name in children]
        parents = {own for own, _ in children}
    return found


@pytest.fixture(autouse=True)
def _nothing_left():
    """Every test ends without a process or a thread of ours."""
    yield
    assert not {"dumpcap", "tshark", "sleep", "sh"} & set(below(os.getpid()))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("toolkit-")]


def requests_in(path):
    target = path.with_suffix(".csv")
    convert(path, target)
    frame = load_sample(target).frame.dropna(subset="method")
    return list(zip(frame["method"], frame["uri"], strict=True))


def test_urls_are_requested_while_recording(tmp_path, port):
    """The first packet of the first request is there, an HTTP error is a reply, and the last FIN is there."""
    urls = [f"http://127.0.0.1:{port}{path}" for path in ("/a?b=c", "/missing", "/d")]
    done = capture(tmp_path / "urls.pcapng", bpf=f"tcp port {port}", urls=urls)
    assert (done.command_code, done.note, done.dropped) == (0, None, 0)
    assert requests_in(done.path) == [("GET", "/a?b=c"), ("GET", "/missing"), ("GET", "/d")]
    frame = load_sample(tmp_path / "urls.csv").frame
    assert len(frame) == done.packets
    assert frame["tcp_flags"].iloc[0] == "SYN"
    assert frame["status"].dropna().tolist() == [200, 404, 200]
    assert frame["tcp_flags"].str.contains("FIN").sum() == 6  # in whatever order the last ones came
    assert [path.name for path in tmp_path.glob("*.pcapng")] == ["urls.pcapng"]


def test_a_command_is_run_without_a_shell(tmp_path, port):
    """Its arguments reach it as they are; when it fails, the capture stays and says so."""
    code = "import sys, urllib.request as u; u.urlopen(sys.argv[1]).read(); sys.exit('over; $(touch x)')"
    words = [sys.executable, "-c", code, f"http://127.0.0.1:{port}/from-a-command"]
    done = capture(tmp_path / "command.pcapng", bpf=f"tcp port {port}", command=words)
    assert done.command_code == 1
    assert done.note == "the command ended with code 1: over; $(touch x)"
    assert done.summary().exit_code == 1
    assert requests_in(done.path) == [("GET", "/from-a-command")]


def test_it_stops_at_the_number_of_packets_and_at_the_time(tmp_path, port):
    """Not one packet more; a command that goes on is ended with its children, a reply that never ends is left."""
    bpf = f"tcp port {port}"
    connect = f"socket.create_connection(('127.0.0.1', {port})).close()"
    code = f"import socket, time\nfor _ in range(3): {connect}\ntime.sleep(60)"
    began = time.monotonic()
    done = capture(tmp_path / "few.pcapng", bpf=bpf, command=[sys.executable, "-c", code], packets=5)
    assert (done.packets, done.command_code) == (5, None)
    assert time.monotonic() - began < 20
    assert "was ended" in str(done.note)
    slow = f"http://127.0.0.1:{port}/slow"
    done = capture(tmp_path / "slow.pcapng", bpf=bpf, urls=[slow], seconds=2.5)
    assert done.seconds < 6  # the program that requests needs a second to start on a busy machine
    assert requests_in(done.path) == [("GET", "/slow")]
    words = ["sh", "-c", "sleep 60 & sleep 60"]
    refusal(
        "no packet passed the filter",
        capture,
        tmp_path / "none.pcapng",
        bpf="udp port 9",
        command=words,
        seconds=0.5,
    )
    assert not (tmp_path / "none.pcapng").exists()


def test_an_address_without_an_answer_is_said(tmp_path, port, free_port):
    """The other URLs are still requested; the result names the one that failed."""
    urls = [f"http://127.0.0.1:{free_port}/nobody", f"http://127.0.0.1:{port}/somebody"]
    done = capture(tmp_path / "half.pcapng", bpf=f"tcp port {port}", urls=urls)
    assert f"127.0.0.1:{free_port}/nobody: no reply" in str(done.note)
    assert requests_in(done.path) == [("GET", "/somebody")]


@pytest.mark.parametrize(("given", "says"), cases(__file__))
def test_what_cannot_be_recorded_is_one_line(tmp_path, given, says):
    refusal(says, capture, tmp_path / given.pop("target", "x.pcapng"), **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("script", "says"), [
    ("echo \"Capturing on 'lo'\" >&2; echo 'dumpcap: You do not have permission to capture on device \"lo\".' >&2;"
     " echo '(socket: not permitted)' >&2; exit 1", r"do not have permission .* dpkg-reconfigure wireshark-common"),
    ("echo 'File: -' >&2; printf 'packets';"
     " printf 'Packets captured: 3\\nPackets received/dropped on interface lo: 3/7 (pcap:7)\\n' >&2", None),
])  # fmt: skip
def test_no_permission_is_advice_in_one_line_and_lost_packets_are_said(tmp_path, monkeypatch, script, says):
    """By the words of dumpcap itself, from a program in its place."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tshark").symlink_to(str(shutil.which("tshark")))
    (folder / "dumpcap").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "dumpcap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin")
    if says:
        refusal(says, capture, tmp_path / "x.pcapng", seconds=1)
        return
    done = capture(tmp_path / "x.pcapng", seconds=5)
    assert (done.packets, done.dropped) == (3, 7)
    assert done.note == "7 packets were dropped: record again with a narrower filter"


def test_ctrl_c_leaves_nothing(tmp_path, port):
    """Interrupted while recording: no file, no dumpcap, no command."""
    target = tmp_path / "out" / "x.pcapng"
    code = (
        "from toolkit.traffic.capture import capture; "
        f"capture({str(target)!r}, bpf='tcp port {port}', command=['sleep', '60'], seconds=50)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as child:
        wait_for(lambda: {"dumpcap", "sleep"} <= set(below(child.pid)))
        child.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in child.communicate(timeout=120)[1]
    assert list(target.parent.iterdir()) == []
    assert not any(f"tcp port {port}" in line for line in processes("args="))

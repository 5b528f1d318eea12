"""Make the six captures of toolkit/traffic/data, with their CSVs and provenance: real TCP, made-up people.

``python scripts/make_samples.py [FOLDER [SAMPLE...]]`` plays each exchange of ``TRAFFIC`` in turn between a client
and a server of its own, over the loopback interface of a fresh network namespace, so nothing else can be in the
capture and nobody else on the machine notices. Root is not needed; the programs in ``TOOLS`` are.
"""

from __future__ import annotations

import ctypes
import http.client
import os
import queue
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "toolkit" / "traffic" / "data"
TOOLS = ("unshare", "ip", "dumpcap", "editcap", "tshark")
INSIDE = "--inside"
PLAY = "--play"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
WORKSTATION = "192.0.2.23"
STRANGER = "203.0.113.66"
SERVERS = {
    "intranet.example": "198.51.100.10",
    "portal.example": "198.51.100.20",
    "shop.example": "198.51.100.30",
    "files.example": "198.51.100.40",
    "updates.example": "203.0.113.99",
}
"""Host names of RFC 2606 and the documentation addresses of RFC 5737 that play them."""

CHUNK = 2 * 1460  # two full segments
PAUSE = 0.2  # seconds between two chunks of a slow download
LOSSES = (6_000, 15_000, 24_000)  # bytes received, after which the line is dead for LOSS seconds
LOSS = 0.3  # longer than PAUSE, so one chunk is lost; shorter than PAUSE + 0.2 s, TCP's first timeout


@dataclass(frozen=True)
class Exchange:
    """One request and the reply it gets; those with the same port share a connection.

    ``wait`` is in seconds since the exchange before was due. The page that comes back has ``lines`` lines
    unless ``body`` says otherwise. ``slow`` is a download in chunks over a line that fails now and then.
    """

    wait: float
    port: int
    path: str
    status: int = 200
    lines: int = 10
    body: str | None = None
    kind: str = "text/html"
    host: str = "intranet.example"
    client: str = WORKSTATION
    agent: str = FIREFOX
    method: str = "GET"
    form: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    slow: bool = False

    def content(self) -> bytes:
        """Return the body of the reply."""
        page = f"<!doctype html><title>{self.path}</title>"
        page += "".join(f"<p>Line {n} of {self.path}.</p>" for n in range(self.lines))
        return (page if self.body is None else self.body).encode()


def beacons() -> tuple[Exchange, ...]:
    """Return nine polls, 2 s apart with a jitter of at most 0.15 s, and two pages read between them."""
    jitter = random.Random(4)
    beacon = partial(Exchange, port=50601, host="updates.example", agent="svch0st-agent/1.3")
    pages = {2: ("/lunch", 0.6), 4: ("/phonebook", 0.9)}  # number of the next poll: path, seconds before it
    everything = []
    for n in range(9):
        wait = 2 + jitter.uniform(-0.15, 0.15) if n else 0.0
        if n in pages:
            path, early = pages[n]
            everything.append(Exchange(wait - early, 50602, path, lines=20))
            wait = early
        path, order = f"/api/v1/poll?id=7f3a&n={n}", "c2xlZXAgNjA=" if n == 6 else ""
        kind, status = "application/octet-stream", 200 if order else 204
        everything.append(beacon(wait=wait, path=path, body=order, kind=kind, status=status))
    return tuple(everything)


portal = partial(Exchange, host="portal.example")
login = partial(portal, port=50201, path="/login", method="POST")
shop = partial(Exchange, host="shop.example")
probe = partial(shop, client=STRANGER, agent="python-requests/2.31.0", port=50502)
download = partial(Exchange, host="files.example", agent="Wget/1.21.4", kind="text/csv", slow=True)
LOGGED_IN = (("Location", "/home"), ("Set-Cookie", "session=made-up-0001; HttpOnly"))
AUDIT = "".join(f"{n:05d};login;ok;2026-01-01\n" for n in range(1250))
TRAFFIC: dict[str, tuple[Exchange, ...]] = {
    "plain_gets": (
        Exchange(0.0, 50101, "/", lines=30),
        Exchange(0.12, 50101, "/news", lines=60),
        Exchange(0.31, 50101, "/contacts", lines=12),
        Exchange(0.22, 50101, "/news?page=2", lines=40),
        Exchange(0.4, 50102, "/health", body='{"up": true}', kind="application/json", agent="curl/8.5.0"),
    ),
    "login_post": (
        portal(0.0, 50201, "/login"),
        login(wait=0.9, status=401, form="user=jo.doe&password=not-the-one"),
        login(wait=1.3, status=302, form="user=jo.doe&password=made-up-horse", body="", headers=LOGGED_IN),
        portal(0.03, 50201, "/home", lines=40),
        portal(0.05, 50201, "/static/site.css", body="p { margin: 0 }\n" * 20, kind="text/css"),
    ),
    "redirects_and_404s": (
        shop(0.0, 50301, "/", 301, body="", headers=(("Location", "/start"),)),
        shop(0.03, 50301, "/start", lines=25),
        shop(0.5, 50301, "/old-catalogue", 302, body="", headers=(("Location", "/catalogue"),)),
        shop(0.03, 50301, "/catalogue", lines=60),
        shop(0.3, 50301, "/catalogue/item/42", 404, lines=3),
        shop(0.2, 50302, "/admin", 404, lines=3),
        shop(0.1, 50302, "/backup.zip", 404, lines=3),
        shop(0.1, 50302, "/catalogue/item/41"),
    ),
    "slow_download": (download(0.0, 50401, "/exports/audit.csv", body=AUDIT),),
    "sql_injection": (
        shop(0.0, 50501, "/products?id=1"),
        shop(0.4, 50501, "/products?id=2"),
        probe(wait=0.3, path="/products?id=3%27", status=500, body="SQL error near '''", kind="text/plain"),
        probe(wait=0.6, path="/products?id=3%27%20OR%20%271%27%3D%271", lines=80),
        shop(0.2, 50501, "/basket"),
        probe(wait=0.5, path="/products?id=3%27%20UNION%20SELECT%20name,secret%20FROM%20users--", lines=30),
    ),
    "beaconing": beacons(),
}


def serve(replies: queue.Queue[Exchange]) -> ThreadingHTTPServer:
    """Start a server on port 80 of every address that gives the replies in their order."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # a reply leaves in one piece, as from most servers
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            exchange = replies.get()
            body = exchange.content()
            time.sleep(0.02)
            # No Date and no Server header: they would tell when and by what this was made.
            self.send_response_only(exchange.status)
            for name, value in exchange.headers:
                self.send_header(name, value)
            if body:
                self.send_header("Content-Type", exchange.kind)
            if exchange.status != 204:  # RFC 9110, section 8.6
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for start in range(0, len(body), CHUNK if exchange.slow else len(body) or 1):
                self.wfile.write(body[start : start + CHUNK] if exchange.slow else body)
                if exchange.slow:
                    self.wfile.flush()
                    time.sleep(PAUSE)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("0.0.0.0", 80), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def deaf(line: socket.socket, seconds: float) -> None:
    """Drop whatever arrives for a socket meanwhile: after the capture, before TCP, so the peer must send again."""
    nothing = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # the BPF program "return 0"
    line.setsockopt(
        socket.SOL_SOCKET, 26, struct.pack("HP", 1, ctypes.addressof(nothing))
    )  # SO_ATTACH_FILTER
    time.sleep(seconds)
    line.setsockopt(socket.SOL_SOCKET, 27, 0)  # SO_DETACH_FILTER


def play(name: str) -> None:
    """Send the requests of a sample and read the replies."""
    replies: queue.Queue[Exchange] = queue.Queue()
    server = serve(replies)
    lines: dict[int, http.client.HTTPConnection] = {}
    last = {exchange.port: exchange for exchange in TRAFFIC[name]}
    started = time.monotonic()
    due = 0.0
    for exchange in TRAFFIC[name]:
        due += exchange.wait
        time.sleep(max(0.0, started + due - time.monotonic()))
        address = (SERVERS[exchange.host], 80)
        line = lines.setdefault(
            exchange.port,
            http.client.HTTPConnection(*address, source_address=(exchange.client, exchange.port)),
        )
        replies.put(exchange)
        line.putrequest(exchange.method, exchange.path, skip_host=True, skip_accept_encoding=True)
        line.putheader("Host", exchange.host)
        line.putheader("User-Agent", exchange.agent)
        if exchange.form is not None:
            line.putheader("Content-Type", "application/x-www-form-urlencoded")
            line.putheader("Content-Length", str(len(exchange.form)))
        line.endheaders(None if exchange.form is None else exchange.form.encode())
        wire = line.sock
        reply = line.getresponse()
        received, losses = 0, list(LOSSES if exchange.slow else ())
        while part := reply.read(1460):
            received += len(part)
            if losses and received >= losses[0]:
                losses.pop(0)
                deaf(wire, LOSS)
        if last[exchange.port] is exchange:
            line.close()
    server.shutdown()


def prepare() -> None:
    """Bring up the loopback interface of the fresh namespace as if it were an Ethernet."""
    # Without segmentation offload a captured packet is what an Ethernet would carry.
    subprocess.run(["ip", "link", "set", "lo", "mtu", "1500", "gso_max_segs", "1", "up"], check=True)
    for address in (WORKSTATION, STRANGER, *SERVERS.values()):
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    # TCP timestamps would carry a clock of this machine.
    Path("/proc/sys/net/ipv4/tcp_timestamps").write_text("0")
    Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")


def strip(source: Path, target: Path) -> None:
    """Copy the packets and nothing else: pcap has no room for processor, system, interface and filter names."""
    plain = source.with_suffix(".pcap")
    subprocess.run(["editcap", "-F", "nsecpcap", source, plain], check=True)
    subprocess.run(["editcap", "-F", "pcapng", plain, target], check=True)


def make(folder: Path, names: Sequence[str]) -> None:
    """Capture, strip and convert samples, and put them into a folder once all are there."""
    from toolkit.traffic.capture import capture
    from toolkit.traffic.convert import convert

    prepare()
    with tempfile.TemporaryDirectory() as scratch:
        raw, finished = Path(scratch, "raw"), Path(scratch, "made")
        raw.mkdir()
        finished.mkdir()
        for name in names:
            player = [sys.executable, __file__, PLAY, name]
            recording = capture(raw / f"{name}.pcapng", interface="lo", bpf="tcp port 80", command=player)
            if recording.command_code != 0 or recording.dropped:
                sys.exit(
                    f"make_samples: {name} failed (exit {recording.command_code}, {recording.dropped} packets lost)"
                )
            strip(raw / f"{name}.pcapng", finished / f"{name}.pcapng")
            convert(finished / f"{name}.pcapng", finished / f"{name}.csv")
            print(f"{name}: {(finished / f'{name}.pcapng').stat().st_size} bytes", flush=True)
        shutil.copytree(finished, folder, dirs_exist_ok=True)


def main(arguments: list[str]) -> None:
    """Make the samples, in a network namespace of their own."""
    if arguments[:1] == [PLAY]:
        play(arguments[1])
    elif arguments[:1] == [INSIDE]:
        make(Path(arguments[1]), arguments[2:])
    else:
        folder = Path(arguments[0] if arguments else DATA).resolve()
        names = arguments[1:] or list(TRAFFIC)
        if unknown := set(names) - set(TRAFFIC):
            sys.exit(f"make_samples: no sample {sorted(unknown)[0]!r}; there are {', '.join(TRAFFIC)}")
        if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
            sys.exit(f"make_samples: {', '.join(missing)} not found; install tshark, iproute2 and util-linux")
        fresh = ["unshare", "--map-root-user", "--net"]
        os.execvp(fresh[0], [*fresh, sys.executable, __file__, INSIDE, str(folder), *names])


if __name__ == "__main__":
    main(sys.argv[1:])

"""Serves the answers of a study as one page on this machine alone, for a reader without a notebook; it writes nothing.

Whoever asks must name the token of the address, and this machine as the host: another user of the machine has no
token, and a page of another site that calls its own name 127.0.0.1 is refused.
"""

import contextlib
import secrets
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from toolkit.errors import InputError
from toolkit.plan import Plan
from toolkit.store.connection import Store
from toolkit.store.filters import planned_runs
from toolkit.viewer.page import page_of, script_and_policy

LOOPBACK = "127.0.0.1"


class _Handler(BaseHTTPRequestHandler):
    timeout = 30  # a browser opens connections that it may never need

    def __init__(self, token: str, make: Callable[[], bytes], *arguments: object) -> None:
        self.token, self.make = token, make
        super().__init__(*arguments)  # type: ignore[arg-type]  # what the server gives each of its handlers

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # a browser that goes away is no fault
            super().handle()

    def do_GET(self) -> None:
        port = self.connection.getsockname()[1]
        try:
            path, right = urlsplit(self.path).path.encode(), f"/{self.token}/".encode()
        except ValueError:  # brackets that hold no address
            return self._send(400, b"Bad request.")
        is_local = self.headers.get("Host") in {f"{LOOPBACK}:{port}", f"localhost:{port}"}
        if not is_local or not secrets.compare_digest(path, right):
            return self._send(404, b"Not found.")
        try:
            content = self.make()
        except Exception as error:  # the store may be away for a while; the page can be loaded again
            line = f"The page was not made ({type(error).__name__}). Load it again."
            return self._send(500, line.encode())
        return self._send(200, content, "text/html")

    def _send(self, status: int, content: bytes, kind: str = "text/plain") -> None:
        policy = f"{script_and_policy()[1]}; frame-ancestors 'none'"
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(content)),
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "toolkit"  # not the version of Python

    def log_message(self, *_: object) -> None:
        """Log nothing: a line would have the token."""


def page_server(plan: Plan, store: Store) -> tuple[ThreadingHTTPServer, str]:
    """Return a server of the page, bound to a free port of this machine and not started, and its address."""
    if planned_runs(plan, store).empty:
        raise InputError(f"study {plan.study.name}: has no run to read yet; run it first (toolkit run)")
    token, one_at_a_time = secrets.token_urlsafe(24), threading.Lock()

    def make() -> bytes:
        with one_at_a_time:
            return page_of(plan, store, planned_runs(plan, store))[0]

    server = ThreadingHTTPServer((LOOPBACK, 0), partial(_Handler, token, make))
    server.daemon_threads = True  # an idle connection must not hold up the end
    return server, f"http://{LOOPBACK}:{server.server_address[1]}/{token}/"


def serve(plan: Plan, store: Store, announce: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C; ``announce`` is given its address in a line."""
    server, address = page_server(plan, store)
    with server, contextlib.suppress(KeyboardInterrupt):
        announce(f"The answers of {plan.study.name}, for this machine alone, until Ctrl-C:\n{address}")
        server.serve_forever()

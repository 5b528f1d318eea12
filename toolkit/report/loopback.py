"""Serves one page on this machine alone, and answers what the page asks.

Whoever asks must name the token of the address, and this machine as the host: another user of the machine has no
token, and a page of another site that calls its own name 127.0.0.1 is refused. What may change something must be asked
by the page itself.
"""

import base64
import contextlib
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolkit.errors import InputError, redacted_words

LOOPBACK = "127.0.0.1"
LONGEST = 1_000_000
"""Longest question of a page, in bytes."""


def script_of(path: Path) -> str:
    """Return the script of an app, after what all apps share."""
    return Path(__file__).with_name("shared.js").read_text("utf-8") + path.read_text("utf-8")


def script_policy(script: str) -> str:
    """Return the policy that allows a script alone, by its hash: a nonce would change the bytes of the page."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def answer_of(app: object, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an app answers its page: the value of the method that a question names, or an error in one line."""
    try:
        work = getattr(app, f"_on_{question['what']}")
        return {"value": work(**question.get("with", {}))}
    except InputError as error:
        return {"error": str(error)}
    except Exception as error:
        return {"error": f"Not done ({type(error).__name__}: {redacted_words(str(error))})."}


@dataclass(frozen=True)
class Site:
    """A page, the policy that it is sent with, and the app that answers it, if it asks."""

    page: Callable[[], bytes]
    policy: str
    app: object = None
    token: str = field(default_factory=partial(secrets.token_urlsafe, 24))
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Handler(BaseHTTPRequestHandler):
    timeout = 30  # a browser opens connections that it may never need

    def __init__(self, site: Site, *arguments: object) -> None:
        self.site = site
        super().__init__(*arguments)  # type: ignore[arg-type]  # what the server gives each of its handlers

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # a browser that goes away is no fault
            super().handle()

    def do_GET(self) -> None:
        if self._is_allowed():
            self._reply(self.site.page, "text/html")

    def do_POST(self) -> None:
        if not self._is_allowed():
            return None
        if self.site.app is None:
            return self._send(501, b"This page changes nothing.")
        if self.headers.get("Origin") != f"http://{self.headers['Host']}":
            return self._send(403, b"Forbidden.")
        try:
            size = int(self.headers.get("Content-Length", ""))
            question = json.loads(self.rfile.read(size)) if 0 <= size <= LONGEST else None
        except (ValueError, RecursionError):
            question = None
        if not isinstance(question, dict):
            return self._send(400, b"Bad request.")
        return self._reply(
            lambda: json.dumps(answer_of(self.site.app, question)).encode(), "application/json"
        )

    def _is_allowed(self) -> bool:
        """Return whether a request has the token and the host; refuse it otherwise."""
        port = self.connection.getsockname()[1]
        try:
            path, right = urlsplit(self.path).path.encode(), f"/{self.site.token}/".encode()
        except ValueError:  # brackets that hold no address
            self._send(400, b"Bad request.")
            return False
        is_local = self.headers.get("Host") in {f"{LOOPBACK}:{port}", f"localhost:{port}"}
        if not is_local or not secrets.compare_digest(path, right):
            self._send(403, b"Forbidden.")
            return False
        return True

    def _reply(self, make: Callable[[], bytes], kind: str) -> None:
        try:
            with self.site.lock:
                content = make()
        except Exception as error:  # the store may be away for a while; the page can be loaded again
            line = f"The page was not made ({type(error).__name__}). Load it again."
            return self._send(500, line.encode())
        return self._send(200, content, kind)

    def _send(self, status: int, content: bytes, kind: str = "text/plain") -> None:
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(content)),
            "Content-Security-Policy": f"{self.site.policy}; frame-ancestors 'none'",
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


def server_of(site: Site, port: int = 0) -> tuple[ThreadingHTTPServer, str]:
    """Return a server of a site, bound to a port of this machine and not started, and its address.

    It is a free port, also where the port asked for is taken.
    """
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), partial(_Handler, site))
    except OSError:
        server = ThreadingHTTPServer((LOOPBACK, 0), partial(_Handler, site))
    server.daemon_threads = True  # an idle connection must not hold up the end
    return server, f"http://{LOOPBACK}:{server.server_address[1]}/{site.token}/"


def serve(server: ThreadingHTTPServer, start: Callable[[], object]) -> None:
    """Serve a page until Ctrl-C; ``start`` is called when the server takes requests."""
    with server, contextlib.suppress(KeyboardInterrupt):
        start()
        server.serve_forever()

"""Serves the answers of a study as one page on this machine alone, for a reader without a notebook; it only reads."""

from collections.abc import Callable
from http.server import ThreadingHTTPServer

from toolkit.errors import InputError
from toolkit.files.digests import sha256_hex
from toolkit.plan import Plan
from toolkit.report.loopback import Site, serve, server_of
from toolkit.store.connection import Store
from toolkit.store.filters import planned_runs
from toolkit.viewer.page import page_of, script_and_policy


def page_server(plan: Plan, store: Store) -> tuple[ThreadingHTTPServer, str]:
    """Return a server of the page, bound to a port of this machine and not started, and its address."""
    if planned_runs(plan, store).empty:
        raise InputError(f"study {plan.study.name}: has no run to read yet; run it first (toolkit run)")
    site = Site(lambda: page_of(plan, store, planned_runs(plan, store))[0], script_and_policy()[1])
    # A port of its own, from the first that is no service's: a browser keeps the notes of a page by host and port.
    return server_of(site, 49_152 + int(sha256_hex(str(plan.output))[:3], 16))


def serve_page(plan: Plan, store: Store, announce: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C; ``announce`` is given its address in a line."""
    server, address = page_server(plan, store)
    line = f"The answers of {plan.study.name}, for this machine alone, until Ctrl-C:\n{address}"
    serve(server, lambda: announce(line))

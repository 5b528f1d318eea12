"""Every way a call can fail, through the real clients; and no key in any of it."""

import asyncio
import contextlib
import gzip
import json
import logging
import socket
import threading
import traceback
from dataclasses import replace

import pytest
from cases import cases
from refusals import failed
from stub_server import Fault, StubServer, ask

from toolkit.errors import ModelError
from toolkit.models import transport
from toolkit.models.catalogue import model_spec
from toolkit.models.registry import open_model
from toolkit.models.transport import retry_after

CASES = cases(__file__)

CANARY = "sk-canary0123456789abcdefCANARY"


def spec_at(provider, url):
    return model_spec("m", provider=provider, base_url=url, api_key_env="TEST_KEY")


def failure(provider, request, *faults, url=None, seconds=5.0):
    """Ask once with the canary key and return the failure."""
    with StubServer(faults=faults) as server:
        at = url or server.address(provider)
        error = failed(ask, spec_at(provider, at), request, {"TEST_KEY": CANARY}, seconds=seconds)
        if url is None:
            # The clients' own retries are off: one ask is one request.
            assert server.count == 1
    assert "\n" not in str(error)
    return error


@pytest.mark.parametrize(("fault", "reason", "retryable"), CASES["reasons"])
def test_every_status_and_every_broken_reply_has_its_reason(provider, fault, reason, retryable, make_request):
    """Also a reply that does not come, or a byte at a time; no key and no money end the provider, and nothing else."""
    seconds = 0.3 if reason == "timeout" else 5.0
    given = Fault(status=fault) if isinstance(fault, int) else Fault(fault)
    error = failure(provider, make_request(), given, seconds=seconds)
    assert (error.reason, error.retryable, error.retry_after) == (reason, retryable, None)
    assert error.fatal_for_provider == (fault in (401, 402, 403))


def test_a_name_without_an_address_and_a_connection_that_is_refused_or_that_nobody_takes_were_never_sent(
    provider, make_request, monkeypatch
):
    monkeypatch.setattr(transport, "CONNECT_SECONDS", 0.3)
    with socket.socket() as full, socket.socket() as free, contextlib.ExitStack() as stack:
        for place in (full, free):
            place.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(8):  # until the queue of those that wait to be taken is full
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        for host in ("no-such-host.invalid", *(f"127.0.0.1:{s.getsockname()[1]}" for s in (full, free))):
            error = failure(provider, make_request(), url=f"http://{host}")
            assert (error.reason, error.retryable) == ("unreachable", True), host


@pytest.mark.parametrize("status", [429, 503])
def test_the_servers_wish_to_wait_is_passed_on(provider, status, make_request):
    assert failure(provider, make_request(), Fault(status=status, retry_after="7")).retry_after == 7.0


@pytest.mark.parametrize(("headers", "seconds"), CASES["retry_after"])
def test_retry_after_is_read_as_seconds_or_as_a_date(headers, seconds):
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(("provider", "status", "error"), CASES["empty_account"])
def test_an_empty_account_stops_the_provider(provider, status, error, make_request):
    found = failure(provider, make_request(), Fault(status=status, body={"type": "error", "error": error}))
    assert (found.reason, found.retryable, found.fatal_for_provider) == ("out_of_money", False, True)


REPLY = json.dumps(CASES["reply"]).encode()
CHUNKED = b"Transfer-Encoding: chunked"
ONE_CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(REPLY), REPLY)


def wire(*headers, status=b"HTTP/1.1 200 OK", body=REPLY, length=True):
    """Return a reply as bytes, its headers as they are given."""
    lengths = [b"Content-Length: %d" % len(body)] if length else []
    return b"\r\n".join([status, b"Content-Type: application/json", *headers, *lengths]) + b"\r\n\r\n" + body


def chunked(body):
    return wire(CHUNKED, body=body, length=False)


def long(value):
    return wire(b"Content-Length: " + value, length=False)


WIRE_FAULTS = {
    "a chunk of no size": chunked(b"zz\r\n" + REPLY + b"\r\n0\r\n\r\n"),
    "a chunk of 2**76 bytes": chunked(b"f" * 19 + b"\r\n" + REPLY),
    "a chunk that does not end": chunked(b"%x\r\n%sxx0\r\n\r\n" % (len(REPLY), REPLY)),
    "chunks that break off": chunked(ONE_CHUNK[:-5]),
    "a trailer that is none": chunked(ONE_CHUNK[:-2] + b"no colon\r\n\r\n"),
    "a header over 8,190 bytes": wire(b"X-Long: " + b"a" * 8200),
    "a name over 8,190 bytes": wire(b"a" * 8200 + b": x"),
    "5,000 headers": wire(*(b"X-%d: y" % n for n in range(5000))),
    "bytes after close": wire(b"Connection: close") + b"GARBAGE",
    "a length that is no number": long(b"abc"),
    "two lengths": wire(b"Content-Length: 5"),
    "a length of 30 digits": long(b"9" * 30),
    "no length in it": long(b""),
    "a short length": long(b"10"),
    "a long length": long(b"%d" % (len(REPLY) + 9)),
    "a length and chunks": wire(CHUNKED, body=ONE_CHUNK),
    "NUL in a header": wire(b"X-A: a\x00b"),
    "a bare CR": wire(b"X-A: a\rb"),
    "a header without a colon": wire(b"X-A"),
    "a name with a space": wire(b"X A: b"),
    "a status that is no number": wire(status=b"HTTP/1.1 abc OK"),
    "no version": wire(status=b"200 OK"),
    "no head": REPLY,
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "no HTTP": bytes(range(256)),
    "TLS": b"\x15\x03\x03\x00\x02\x02\x28",
    "100 alone": b"HTTP/1.1 100 Continue\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + REPLY,
    "103 with a body": b"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nhello" + wire(),
    "204 with a body": wire(status=b"HTTP/1.1 204 No Content"),
    "304 with a body": wire(status=b"HTTP/1.1 304 Not Modified"),
    "no gzip": wire(b"Content-Encoding: gzip"),
    "a broken gzip": wire(b"Content-Encoding: gzip", body=gzip.compress(REPLY)[:20] + b"\xff" * 9),
    "an error that breaks off": wire(CHUNKED, status=b"HTTP/1.1 401 No", body=b"zz\r\n", length=False),
    "an error in no charset": wire(
        b"Content-Type: application/json; charset=idna", status=b"HTTP/1.1 500 No", body=b'\xff\xfe"'
    ),
    "a place that is none": wire(b"Location: /a\tb\x7f", status=b"HTTP/1.1 307 No"),
    "a place over 8,190 bytes": wire(b"Location: /" + b"a" * 9000, status=b"HTTP/1.1 307 No"),
}


def answered_with(provider, request, *replies):
    """Ask a server that answers each request with the next of these bytes, with the canary key; return the ends."""
    waiting = list(replies)

    def serve():
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    sent = b""
                    while b"\r\n\r\n" not in sent or b"phishing" not in sent:
                        sent += connection.recv(65536)
                    connection.sendall(waiting[0])
                    connection.shutdown(socket.SHUT_WR)
                    connection.settimeout(5)
                    while connection.recv(65536):
                        pass

    async def each(url):
        model, ends = open_model(spec_at(provider, url), env={"TEST_KEY": CANARY}, seconds=5), []
        while waiting:
            ends += await asyncio.gather(model.ask(request), return_exceptions=True)
            del waiting[0]
        await model.close()
        return ends

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        at = f"http://127.0.0.1:{server.getsockname()[1]}"
        return asyncio.run(each(at if provider == "anthropic" else f"{at}/v1"))


def reachable(error):
    """Return every object that can be reached from an exception but by the frames of its traceback."""
    objects, queue = [], [error]
    while queue:
        value = queue.pop()
        if any(value is earlier for earlier in objects):
            continue
        objects.append(value)
        if isinstance(value, BaseException):
            queue += [value.__cause__, value.__context__, *value.args]
        if isinstance(value, dict):
            queue += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            queue += [*value]
        elif hasattr(value, "__dict__") and not isinstance(value, type):
            queue.append(vars(value))
    return objects


def test_a_malformed_http_reply_is_a_broken_connection_that_holds_nothing_of_the_client(
    provider, make_request
):
    ends = answered_with(provider, make_request(), *WIRE_FAULTS.values())
    for name, error in zip(WIRE_FAULTS, ends, strict=True):
        assert isinstance(error, ModelError), name
        state = (error.reason, error.retryable, error.fatal_for_provider)
        assert state == ("connection", True, False), name
        assert {type(value).__module__ for value in reachable(error)} <= {"builtins", "toolkit.errors"}, name
        assert CANARY not in repr(reachable(error)), name


ODD_REPLIES = {
    REPLY: "Yes.",
    REPLY.replace(b"Yes.", b"Yes\xff."): "Yes\udcff.",  # a byte that is no UTF-8
    REPLY.replace(b"Yes.", b"Ye\n\ts."): "Ye\n\ts.",  # bare line breaks
    b'\xef\xbb\xbf {"created": ' + b"9" * 5000 + b"," + REPLY[1:]: "Yes.",
    REPLY + b"\x00\n: done": "Yes.",
    b"[" + REPLY + b"]": "Yes.",
    b'{"error": {"code": 401, "message": "partly"},' + REPLY[1:]: "Yes.",
}


def test_a_paid_reply_in_odd_json_is_read(provider, make_request):
    bodies = (wire(b"Connection: close", body=body) for body in ODD_REPLIES)
    replies = answered_with(provider, make_request(), *bodies)
    assert [(reply.text, reply.finish_reason) for reply in replies] == [
        (text, "stop") for text in ODD_REPLIES.values()
    ]
    assert all(json.loads(json.dumps(reply.raw)) == reply.raw for reply in replies)


def test_a_key_in_the_name_of_another_host_is_in_no_message(make_request):
    data = wire(b"Location: https://" + CANARY.encode() + b".example/", status=b"HTTP/1.1 307 No")
    [error] = answered_with("openai", make_request(), data)
    assert "'[key].example'" in str(error)
    assert CANARY not in repr(reachable(error))


@pytest.mark.parametrize("body", [{"error": "just text"}, {"error": None}, ["list"], {"message": 5}])
def test_an_error_body_of_any_shape_still_gives_one_line(body, make_request):
    assert failure("openai", make_request(), Fault(status=400, body=body)).reason == "bad_request"


def refusal(spec, status, body):
    """Return the failure behind a status."""
    return open_model(replace(spec, api_key_env=None)).refusal(status, {}, body)


@pytest.mark.parametrize(("provider", "status"), [("openai", 401), ("anthropic", 400), ("openai", 500)])
def test_a_key_is_in_no_message_no_traceback_and_no_log(provider, status, make_request, caplog):
    caplog.set_level(logging.DEBUG)
    said = (
        f"Incorrect API key provided: {CANARY}, sk-cana*****NARY, Bearer {CANARY[:20]}. Look at your account."
    )
    error = failure(provider, make_request(), Fault(status=status, body={"error": {"message": said}}))
    shown = "".join(traceback.format_exception(error))
    for part in (CANARY, CANARY[:20], "cana*", "NARY"):
        assert part not in shown
        assert part not in repr(vars(error))
        assert part not in caplog.text
    # Not even hidden behind `from None`: a debugger or a notebook would find the request's headers there.
    assert error.__context__ is None
    assert error.__cause__ is None

"""Every way a call can fail, through the real clients; and no key in any of it."""

import asyncio
import logging
import socket
import traceback
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from stub_server import Fault, StubServer

from toolkit.errors import ModelError
from toolkit.models.catalogue import model_spec
from toolkit.models.registry import open_model
from toolkit.models.transport import retry_after

CANARY = "sk-canary0123456789abcdefCANARY"
PROVIDERS = ("openai", "anthropic")


def spec_at(provider, url):
    return model_spec("m", provider=provider, base_url=url, api_key_env="TEST_KEY")


def failure(provider, request, *faults, url=None, seconds=5.0):
    """Ask once with the canary key and return the failure."""

    async def once(spec):
        model = open_model(spec, env={"TEST_KEY": CANARY}, seconds=seconds)
        try:
            await model.ask(request)
        finally:
            await model.close()

    with StubServer(faults=faults) as server:
        at = url or (server.url if provider == "anthropic" else server.openai_url)
        with pytest.raises(ModelError) as caught:
            asyncio.run(once(spec_at(provider, at)))
        if url is None:
            # The clients' own retries are off: one ask is one request.
            assert server.count == 1
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "reason", "retryable", "fatal"),
    [
        (400, "bad_request", False, False),
        (401, "wrong_key", False, True),
        (402, "out_of_money", False, True),
        (403, "wrong_key", False, True),
        (404, "not_found", False, False),
        (408, "request_timeout", True, False),
        (409, "conflict", True, False),
        (413, "bad_request", False, False),
        (422, "bad_request", False, False),
        (429, "rate_limited", True, False),
        (500, "server_error", True, False),
        (503, "server_error", True, False),
        (529, "overloaded", True, False),
    ],
)
def test_every_status_has_its_reason(provider, status, reason, retryable, fatal, make_request):
    error = failure(provider, make_request(), Fault(status=status))
    assert (error.reason, error.retryable, error.fatal_for_provider) == (reason, retryable, fatal)
    assert error.retry_after is None


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault("drop"), "connection"),
        (Fault("cut"), "connection"),
        (Fault("half"), "malformed_body"),
        (Fault("html"), "malformed_body"),
    ],
)
def test_a_broken_reply_may_be_asked_again(provider, fault, reason, make_request):
    error = failure(provider, make_request(), fault)
    assert (error.reason, error.retryable, error.fatal_for_provider) == (reason, True, False)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", ["hang", "drip"])
def test_a_server_that_hangs_or_drips_is_timed_out(provider, kind, make_request):
    error = failure(provider, make_request(), Fault(kind), seconds=0.3)
    assert (error.reason, error.retryable) == ("timeout", True)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_server_that_is_not_there_is_a_broken_connection(provider, make_request):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        error = failure(provider, make_request(), url=url)
    assert (error.reason, error.retryable) == ("unreachable", True)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [429, 503])
def test_the_servers_wish_to_wait_is_passed_on(provider, status, make_request):
    assert failure(provider, make_request(), Fault(status=status, retry_after="7")).retry_after == 7.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(headers, seconds):
    assert retry_after(headers) == seconds


def test_a_date_in_retry_after_is_the_time_until_then():
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    seconds = retry_after({"retry-after": date})
    assert seconds is not None
    assert 90 < seconds <= 100


@pytest.mark.parametrize(
    ("provider", "status", "error"),
    [
        ("openai", 429, {"code": "insufficient_quota", "message": "You exceeded your current quota"}),
        ("openai", 429, {"type": "insufficient_quota", "message": "You exceeded your current quota"}),
        (
            "anthropic",
            400,
            {"type": "invalid_request_error", "message": "Your credit balance is too low to ..."},
        ),
    ],
)
def test_an_empty_account_stops_the_provider(provider, status, error, make_request):
    found = failure(provider, make_request(), Fault(status=status, body={"type": "error", "error": error}))
    assert (found.reason, found.retryable, found.fatal_for_provider) == ("out_of_money", False, True)


@pytest.mark.parametrize("body", [{"error": "just text"}, {"error": None}, ["list"], {"message": 5}])
def test_an_error_body_of_any_shape_still_gives_one_line(body, make_request):
    assert failure("openai", make_request(), Fault(status=400, body=body)).reason == "bad_request"


def refusal(spec, status, body):
    """Return the failure behind a status."""
    return open_model(replace(spec, api_key_env=None)).refusal(status, {}, body)


def test_a_model_that_was_retired_says_when():
    found = refusal(model_spec("claude-3-5-sonnet"), 404, {"error": {"message": "not_found"}})
    assert "retired on 2025-10-28" in str(found)
    ahead = replace(model_spec("claude-3-5-sonnet"), retired="9999-01-01")
    assert "retired" not in str(refusal(ahead, 404, {"error": {"message": "not_found"}}))


def test_a_refused_temperature_says_how_to_leave_it_out():
    words = "Unsupported value: 'temperature' does not support 0.2 with this model."
    found = refusal(model_spec("gpt-4o"), 400, {"error": {"message": words}})
    assert words in str(found)
    assert "sampling_supported = false" in str(found)
    other = refusal(model_spec("gpt-4o"), 400, {"error": {"message": "no such field"}})
    assert "sampling_supported" not in str(other)


def test_the_providers_own_words_are_kept_short_and_on_one_line(make_request):
    body = {"error": {"message": "context length\nexceeded " + "x" * 1000}}
    text = str(failure("openai", make_request(), Fault(status=400, body=body)))
    assert "context length exceeded" in text
    assert len(text) < 450


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

"""A key that servers echo in refusals appears nowhere: no file, no output, no exception, no variable in a traceback."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import stub_batches
from stub_server import Fault, StubServer

from toolkit.cli import main
from toolkit.errors import ModelError
from toolkit.models.base import Message, ModelRequest
from toolkit.models.catalogue import ModelSpec, model_spec
from toolkit.models.registry import open_batch_client, open_model
from toolkit.runs import gateway
from toolkit.runs.limits import RetryPolicy
from toolkit.words import JUDGE_ROLES

# Not in the form of any provider's key: nothing but knowing it can black it out.
KEY = "canary0123456789abcdefCANARY"
PROVIDERS = ("openai", "anthropic")
STATUSES = (400, 401, 500)
FULL = pytest.mark.full
QUICK = RetryPolicy(attempts=2, first_wait=0.0)


def echo(status: int) -> Fault:
    """Return a refusal with the key in its body and in its headers, where a message is cut as well."""
    said = f"Incorrect API key provided: {'a ' * 126}{KEY}. Bearer {KEY}"
    headers = {"X-Request-Id": KEY, "WWW-Authenticate": f"Bearer {KEY}", "X-Echo": said}
    return Fault(
        status=status, body={"error": {"type": "invalid", "message": said, "param": KEY}}, headers=headers
    )


def keyed_study(folder: Path, server: StubServer, provider: str, mode: str) -> Path:
    """Write a study of the six CTI prompts that sends the key; its judges ask nobody."""
    address = server.url if provider == "anthropic" else server.openai_url
    judges = "\n".join(f'{role} = {{ name = "{role}", provider = "scripted" }}' for role in JUDGE_ROLES)
    path = folder / "keyed.toml"
    path.write_text(
        f'name = "keyed"\noutput = "results/keyed"\nscenarios = ["CTI_ANALYSIS"]\nmode = "{mode}"\n'
        f'batch_poll_seconds = 0.05\nmodels = [{{ name = "answerer", provider = "{provider}", '
        f'base_url = "{address}", api_key_env = "CANARY_KEY", '
        f"usd_per_million_input = 1.0, usd_per_million_output = 2.0 }}]\n[judges]\n{judges}\n"
    )
    return path


@pytest.fixture(autouse=True)
def _quick_and_keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_KEY", KEY)
    monkeypatch.setattr(gateway, "RetryPolicy", lambda: QUICK)


def run_and_look(path: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """Run a study with ``--debug``; the key must be in no output and no file; return what was said."""
    with pytest.raises(SystemExit) as ended:
        main(["--debug", "run", str(path), "--yes"])
    assert ended.value.code == 1
    out, err = capfd.readouterr()
    part = KEY[:16]
    assert part not in out + err
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    assert any(file.suffix == ".db" for file in files)
    assert not [file for file in files if part.encode() in file.read_bytes()]
    return out


@pytest.mark.parametrize(
    ("provider", "mode", "status"),
    [
        ("openai", "single", 401),
        ("anthropic", "batch", 400),
        *(pytest.param(*each, marks=FULL) for each in product(PROVIDERS, ("single", "batch"), STATUSES)),
    ],
)
def test_a_key_in_a_refusal_is_in_no_file_and_no_output(
    tmp_path: Path,
    store_folder: Path,
    capfd: pytest.CaptureFixture[str],
    provider: str,
    mode: str,
    status: int,
) -> None:
    """Both clients, single calls and batches: the runs fail with a reason, and the key is nowhere."""
    fault = echo(status)
    with StubServer(faults=lambda n, body: fault, batch_http_fault=lambda method, path: fault) as server:
        said = run_and_look(keyed_study(tmp_path, server, provider, mode), capfd)
        assert "6 failed" in said
        assert (server.batch_requests > 0) == (mode == "batch")
        headers = [value for seen in server.seen for value in seen.headers.values()]
        assert any(KEY in value for value in headers) or mode == "batch"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_key_in_what_a_batch_brings_is_in_no_file_and_no_output(
    tmp_path: Path,
    store_folder: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
) -> None:
    """A batch that is refused whole or line by line in words that hold the key: asked singly, the same again."""
    said = {"type": "invalid_request_error", "message": f"unknown key {KEY}"}
    monkeypatch.setattr(stub_batches, "_ERROR", said)
    with StubServer(
        faults=lambda n, body: echo(400),
        batch_fault=lambda custom_id: "error",
        batch_refusal=f"not with {KEY}" if provider == "openai" else None,
    ) as server:
        said = run_and_look(keyed_study(tmp_path, server, provider, "batch"), capfd)
        assert "6 failed" in said
        assert (len(server.batches), server.count) == (1, 6)


REQUEST = ModelRequest("", "m", (Message("user", "Which port?"),), max_tokens=10)
WAYS: dict[str, Callable[[Any, ModelRequest], Awaitable[Any]]] = {
    "asked singly": lambda model, request: model.ask(request),
    "asked in a batch": lambda client, request: client.submit({"a": request}, "name"),
    "polled": lambda client, _: client.state("batch_0"),
    "read": lambda client, _: client.results("batch_0", "", ()),
}


async def ask(way: str, spec: ModelSpec) -> None:
    """Open a client, ask in one of the ways, and close it."""
    client: Any = open_model(spec, seconds=5) if way == "asked singly" else open_batch_client(spec)
    try:
        await WAYS[way](client, replace(REQUEST, provider=spec.provider))
    finally:
        await client.close()


@pytest.mark.parametrize(
    "fault",
    [
        echo(401),
        Fault("html"),
        *(pytest.param(each, marks=FULL) for each in (echo(400), echo(500), Fault("drop"))),
    ],
    ids=lambda fault: f"{fault.kind} {fault.status}",
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_exception_shows_no_key_even_with_its_variables(provider: str, way: str, fault: Fault) -> None:
    """Text, repr and a traceback that prints the variables of every frame, as IPython's verbose one does."""
    with StubServer(faults=lambda n, body: fault, batch_http_fault=lambda method, path: fault) as server:
        url = server.url if provider == "anthropic" else server.openai_url
        spec = model_spec("m", provider=provider, base_url=url, api_key_env="CANARY_KEY")
        with pytest.raises(ModelError) as caught:
            asyncio.run(ask(way, spec))
        error = caught.value
        assert server.count + server.batch_requests > 0
    assert KEY not in str(error) + repr(error) + repr(vars(error))
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in shown.stack if frame.filename != __file__]  # the stub's fault is ours
    assert any("toolkit" in frame.filename for frame in frames)
    assert not [frame for frame in frames if KEY in str(frame) + str(frame.locals)]
    assert KEY not in "".join(traceback.format_exception(error))

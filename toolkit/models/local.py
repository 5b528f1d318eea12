"""A real model without an account: a GGUF served on this machine, started when it is first asked."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from toolkit.errors import InputError, ModelError
from toolkit.models.base import ModelReply, ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.models.openai_client import OpenAIModel
from toolkit.models.transport import LOCAL_SECONDS
from toolkit.models.weights import demo_gguf

START_SECONDS = 120.0
"""Longest the server may take to load: the demo model needs half a second, a large one a minute."""

_lock = threading.Lock()
_shared: dict[tuple[Path, str, int], LocalServer] = {}


class LocalServer:
    """A running server process."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, folder: Path) -> None:
        self.url = url
        self.pid = process.pid
        self.users = 0
        self._process = process
        self._folder = folder

    def is_running(self) -> bool:
        """Return whether the process is still there."""
        return self._process.poll() is None

    def close(self) -> None:
        """Stop the process and remove its log; doing it twice does no harm."""
        _stop(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)


def start_local_server(path: Path, name: str, context: int) -> LocalServer:
    """Start a server process for a GGUF file and return it once it listens on 127.0.0.1."""
    if not path.is_file():
        raise InputError(f"there are no weights at {path}: correct gguf in the study")
    folder = Path(tempfile.mkdtemp(prefix="toolkit-local-"))
    port_file, log = folder / "address", folder / "log"
    command = [sys.executable, "-m", "toolkit.models.local_server", str(path.resolve())]
    command += [name, str(context), str(folder), str(os.getpid())]
    # By default threads wait for each other by spinning: beside other work on two cores 2 tokens/s instead of 20.
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    with log.open("wb") as sink:
        # A session of its own: Ctrl-C in the terminal must not kill the server while replies are awaited.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
    deadline = time.monotonic() + START_SECONDS
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            _stop(process)
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            message = lines[-1][:200] if lines else "its log is empty"
            shutil.rmtree(folder, ignore_errors=True)
            raise ModelError(
                f"the local server for {path.name} did not start ({message}): check that the file is a GGUF",
                reason="local_server",
                fatal_for_provider=True,
            )
        time.sleep(0.02)
    return LocalServer(process, port_file.read_text(encoding="utf-8").strip(), folder)


class LocalModel:
    """A GGUF on this machine; models of one process with the same weights share one server."""

    def __init__(self, spec: ModelSpec, *, seconds: float = LOCAL_SECONDS) -> None:
        if spec.gguf is not None and not spec.gguf.is_file():
            raise InputError(f"model {spec.name!r} has no weights at {spec.gguf}: correct gguf in the study")
        self._spec = spec
        self._seconds = seconds
        self._starting = asyncio.Lock()
        self._key = (Path(), "", 0)
        self._server: LocalServer | None = None
        self._client: OpenAIModel | None = None

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Send one request, starting the server if none is running, or if it was killed."""
        async with self._starting:
            if self._client is None or self._server is None or not self._server.is_running():
                await self._let_go()
                self._client = await self._start()
            client = self._client
        return await client.ask(request)

    async def close(self) -> None:
        """Close the connections, and stop the server if no other model of this process uses it."""
        async with self._starting:
            await self._let_go()

    async def _start(self) -> OpenAIModel:
        try:
            await asyncio.to_thread(self._borrow)
        except InputError as error:
            raise ModelError(str(error), reason="local_server", fatal_for_provider=True) from None
        if self._server is None:
            raise ModelError(
                "the local server was stopped while it started", reason="local_server", retryable=True
            )
        spec = replace(self._spec, base_url=f"{self._server.url}/v1", api_key_env=None)
        return OpenAIModel(spec, seconds=self._seconds)

    async def _let_go(self) -> None:
        client, self._client = self._client, None
        server, self._server = self._server, None
        if client is not None:
            await client.close()
        if server is not None:
            await asyncio.to_thread(self._give_back, server)

    def _borrow(self) -> None:
        """Take a share in a server; kept here at once, so that ``close`` gives back a cancelled start too."""
        path = (self._spec.gguf or demo_gguf()).resolve()
        self._key = key = (path, self._spec.model, self._spec.context_tokens or 8192)
        with _lock:
            server = _shared.get(key)
            if server is None or not server.is_running():
                if server is not None:
                    server.close()
                server = _shared[key] = start_local_server(*key)
            server.users += 1
            self._server = server

    def _give_back(self, server: LocalServer) -> None:
        """Stop the server after its last user; one that was replaced is stopped already."""
        with _lock:
            server.users -= 1
            if server.users <= 0 and _shared.get(self._key) is server:
                del _shared[self._key]
                server.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

"""What the benchmarks share: the loopback server, in a process of its own, and what a process costs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

JUDGE = "bench-judge"
"""A request to a model of this name is answered with scores, every other one with prose."""
_REPLY = "Reply 0000000: isolate the host. " + "Isolate the host. " * 19
"""The number is that of the request: models seldom say the same twice, and equal replies are kept once."""


@dataclass(frozen=True)
class Cost:
    """What a process has taken so far: CPU in seconds, most memory in MB."""

    cpu: float
    peak: float


def fresh(script, *arguments, python=sys.executable, **how):
    """Run a benchmark in a fresh process and return what it printed last, which is JSON."""
    done = subprocess.run([str(python), script, *arguments], stdout=subprocess.PIPE, text=True, **how)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: ended with {done.returncode}; what it said is above")
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def loopback(latency):
    """Serve OpenAI chat under ``/v1`` and Anthropic messages; every reply takes ``latency`` seconds."""
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    process = context.Process(target=_serve, args=(ready, latency), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ready.get(timeout=60)}"
    finally:
        process.terminate()
        process.join()


def seen(url):
    """Return how many requests the server has had; not through a proxy, which a machine may have."""
    with build_opener(ProxyHandler({})).open(f"{url}/count", timeout=10) as reply:
        return int(reply.read())


def own_cost():
    """Return what this process has taken.

    Linux hands the peak of a parent down to the programs it starts, so whoever measures memory in a child keeps
    the parent small: it imports nothing of the toolkit.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 1e6)


def store_cost(folder):
    """Return what the embedded store's server of a folder has taken, or ``None`` where there is no /proc."""
    try:
        pid = json.loads((folder / "server.json").read_text())["pid"]
        ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return None
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return Cost(sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), peak * 1024 / 1e6)


def _serve(ready, latency):
    """Answer every request after ``latency`` seconds; ``/count`` says how many there were."""
    from aiohttp import web

    from toolkit.words import DIMENSIONS

    count = 0
    scores = json.dumps({"reasons": "It can be acted on.", **dict.fromkeys(DIMENSIONS, 4)})
    prose, judgement, message = _chat(_REPLY), _chat(scores), _message(_REPLY)
    judge = json.dumps(JUDGE).encode()

    def answering(reply):
        async def answer(request):
            nonlocal count
            count = number = count + 1
            body = await request.read()
            await asyncio.sleep(latency)
            said = judgement if judge in body else reply.replace(b"0000000", b"%07d" % number)
            return web.Response(body=said, content_type="application/json")

        return answer

    async def counted(_):
        return web.json_response(count)

    async def main():
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answering(prose))
        app.router.add_post("/v1/messages", answering(message))
        app.router.add_get("/count", counted)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(main())


def _chat(text):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 200, "completion_tokens": 80, "total_tokens": 280}
    reply = {"id": "x", "object": "chat.completion", "created": int(time.time()), "model": "bench"}
    return json.dumps({**reply, "choices": [choice], "usage": usage}).encode()


def _message(text):
    usage = {"input_tokens": 200, "output_tokens": 80}
    reply = {"id": "x", "type": "message", "role": "assistant", "model": "bench", "stop_reason": "end_turn"}
    content = [{"type": "text", "text": text}]
    return json.dumps({**reply, "stop_sequence": None, "content": content, "usage": usage}).encode()

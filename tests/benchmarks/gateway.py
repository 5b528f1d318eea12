"""Wall time and CPU of N durable runs against the bare openai client, on the same loopback server, in one process run.

    python tests/benchmarks/gateway.py [--runs 1000] [--latency 0.05] [--connections 10 100]

Prints one line per contender and the ratios; the server runs in a process of its own and counts what it saw.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any


def serve(ready: Any, latency: float) -> None:
    """Answer every chat completion after ``latency`` seconds; ``/count`` says how many there were."""
    from aiohttp import web

    count = 0
    reply = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "bench",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Isolate the host. " * 20},
            }
        ],
        "usage": {"prompt_tokens": 200, "completion_tokens": 80, "total_tokens": 280},
    }
    body = json.dumps(reply).encode()

    async def chat(request: web.Request) -> web.Response:
        nonlocal count
        count += 1
        await request.read()
        await asyncio.sleep(latency)
        return web.Response(body=body, content_type="application/json")

    async def counted(_: web.Request) -> web.Response:
        return web.json_response(count)

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        app.router.add_get("/count", counted)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        ready.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(main())


async def bare(url: str, runs: int, connections: int, *, aiohttp: bool) -> None:
    """Ask with the openai client alone: nothing is kept."""
    import openai

    client = openai.AsyncOpenAI(
        api_key="none",
        base_url=url,
        max_retries=0,
        http_client=openai.DefaultAioHttpClient() if aiohttp else None,
    )
    room = asyncio.Semaphore(connections)

    async def ask(number: int) -> None:
        async with room:
            await client.chat.completions.create(
                model="bench", messages=[{"role": "user", "content": f"{number}: what now?"}], max_tokens=100
            )

    await asyncio.gather(*(ask(number) for number in range(runs)))
    await client.close()


def ours(url: str, runs: int, connections: int, folder: Path) -> None:
    """Ask through plan, gateway, ledger and store: every reply and every run is durable at the end."""
    from toolkit.pipeline import run_plan
    from toolkit.plan import make_plan
    from toolkit.store.connection import open_store
    from toolkit.study import Judges, ModelEntry, StudyFile

    entry = ModelEntry(
        name="bench",
        provider="compatible",
        base_url=url,
        usd_per_million_input=1.0,
        usd_per_million_output=1.0,
    )
    study = StudyFile(
        name="bench",
        models=(entry,),
        length_bins=("S",),
        repeats=-(-runs // 12),
        concurrency=connections,
        judges=Judges(primary=None, secondary=None, tertiary=None),
        output=folder / "results" / "bench",
    )
    plan = make_plan(study, folder)
    store = open_store(plan.store_folder)
    started = time.perf_counter()
    outcome = run_plan(plan, store, progress=False, limit=runs)
    print(f"    (asking and keeping {outcome.succeeded} runs: {time.perf_counter() - started:.2f} s)")
    store.close()


def measured(name: str, work: Callable[[], Any], runs: int) -> tuple[float, float]:
    """Return wall seconds and CPU milliseconds a run of this process, and print them."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    done = work()
    if isinstance(done, Awaitable):
        asyncio.run(done)  # type: ignore[arg-type]
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / runs * 1000
    print(
        f"{name:<32} {wall:6.2f} s  {cpu:5.2f} ms CPU a run  peak {after.ru_maxrss / 1024:.0f} MB", flush=True
    )
    return wall, cpu


def main() -> None:
    """Run every contender at every number of connections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--connections", type=int, nargs="+", default=[10, 100])
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    server = context.Process(target=serve, args=(ready, options.latency), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ready.get()}/v1"
    asyncio.run(bare(url, 20, 10, aiohttp=True))  # imports and warm-up
    with tempfile.TemporaryDirectory() as warm:
        ours(url, 12, 10, Path(warm))
    for connections in options.connections:
        print(f"-- {options.runs} runs, {connections} connections, {options.latency * 1000:.0f} ms")
        n, runs = connections, options.runs
        default, _ = measured(
            "bare openai, default transport", partial(bare, url, runs, n, aiohttp=False), runs
        )
        aio, cpu = measured("bare openai, aiohttp transport", partial(bare, url, runs, n, aiohttp=True), runs)
        with tempfile.TemporaryDirectory() as folder:
            wall, own = measured(
                "toolkit, every reply durable", partial(ours, url, runs, n, Path(folder)), runs
            )
        print(f"ratio {wall / default:.2f} to the default transport, {wall / aio:.2f} to aiohttp")
        print(f"{own - cpu:+.2f} ms CPU a run above the aiohttp-backed client")
    server.terminate()


if __name__ == "__main__":
    main()

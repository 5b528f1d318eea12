"""A bare client and the toolkit in turns, asking the same prompts of a server on loopback: what keeping a reply costs.

python tests/benchmarks/gateway.py [--runs 1000] [--connections 100] [--rounds 3]
"""

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from statistics import median

from aiohttp import web
from openai import AsyncOpenAI

from toolkit.models.entries import ModelEntry
from toolkit.pipeline import run_plan
from toolkit.study import Study
from toolkit.study_file import Judges, StudyFile

LATENCY = 0.05
PROMPTS = 12  # the S prompts of the demo, as often as it takes


def serve(ready):
    """Answer every request after 50 ms; models seldom say the same twice, and equal replies are kept once."""
    usage = {"prompt_tokens": 200, "completion_tokens": 80, "total_tokens": 280}
    count = 0

    async def answer(request):
        nonlocal count
        count = number = count + 1
        await request.read()
        await asyncio.sleep(LATENCY)
        message = {"role": "assistant", "content": f"Reply {number}: isolate the host. " * 20}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "bench", "usage": usage}
        return web.Response(body=json.dumps({**reply, "choices": [choice]}), content_type="application/json")

    async def main():
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(main())


async def bare(url, prompts, connections):
    """Ask with the provider's client alone: nothing is kept."""
    client, room = AsyncOpenAI(base_url=url, api_key="none", max_retries=0), asyncio.Semaphore(connections)

    async def ask(prompt):
        async with room:
            messages = [{"role": "user", "content": prompt}]
            await client.chat.completions.create(model="bench", messages=messages, max_tokens=2000)

    await asyncio.gather(*map(ask, prompts))
    await client.close()


def seconds(url, runs, connections, folder):
    """Return what a bare client took, and what plan, gateway, ledger and store took, all durable at the end."""
    price = {"usd_per_million_input": 1.0, "usd_per_million_output": 1.0}
    file = StudyFile(
        name="bench",
        models=(ModelEntry(name="bench", provider="compatible", base_url=url, **price),),
        length_bins=("S",),
        repeats=-(-runs // PROMPTS),
        concurrency=connections,
        judges=Judges(primary=None, secondary=None, tertiary=None),
        output=folder / "results",
    )
    with Study(file, folder / "bench.toml") as study:
        plan, store = study.plan, study.store
        prompts = [run.request.messages[0].content for run in plan.runs[:runs]]
        times = [time.perf_counter()]
        asyncio.run(bare(url, prompts, connections))
        times.append(time.perf_counter())
        outcome = run_plan(plan, store, progress=False, limit=runs)
        times.append(time.perf_counter())
    assert outcome.succeeded == runs, outcome.failures
    return times[1] - times[0], times[2] - times[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, default in (("--runs", 1000), ("--connections", 100), ("--rounds", 3)):
        parser.add_argument(name, type=int, default=default)
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    server = context.Process(target=serve, args=(port,), daemon=True)
    server.start()
    address = f"http://127.0.0.1:{port.get(timeout=60)}/v1"
    rounds = []
    for _ in range(asked.rounds):
        with tempfile.TemporaryDirectory() as place:
            rounds.append(seconds(address, asked.runs, asked.connections, Path(place)))
    client, toolkit = (median(side) for side in zip(*rounds, strict=True))
    print(f"bare client {client:.2f} s, toolkit {toolkit:.2f} s: {toolkit / client:.2f} times as long")

"""A bare client and the toolkit asking the same prompts of the loopback server, for the table beside inspect_ai."""

import asyncio
import importlib
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

from server import JUDGE

WARM_UP = 24


def bench_study(url, folder, *, runs, connections, client="openai", judge=False):
    """Return a study of at least ``runs`` runs: the 12 S prompts of the demo, as often as it takes."""
    from toolkit.models.entries import Judge, ModelEntry
    from toolkit.study import Study
    from toolkit.study_file import Judges, StudyFile

    price = {"usd_per_million_input": 1.0, "usd_per_million_output": 1.0}
    served = {"provider": "compatible", "base_url": f"{url}/v1", **price}
    asked = served if client == "openai" else {"provider": "anthropic", "base_url": url, **price}
    primary = Judge(name=JUDGE, **served) if judge else None
    prompts = 12
    file = StudyFile(
        name="bench",
        models=(ModelEntry(name="bench", **asked),),
        length_bins=("S",),
        repeats=-(-runs // prompts),
        concurrency=connections,
        judges=Judges(primary=primary, secondary=None, tertiary=None),
        output=folder / "results" / "bench",
    )
    return Study(file, folder / "bench.toml")


def texts(runs):
    """Return the prompts that the study sends, in its order, for whoever is compared with it."""
    study = bench_study("http://127.0.0.1", Path(), runs=runs, connections=1)
    return [run.request.messages[0].content for run in study.plan.runs[:runs]]


async def bare(url, client, prompts, connections, *, aiohttp=False):
    """Ask with a provider's client alone: nothing is kept."""
    module = importlib.import_module(client)
    transport = module.DefaultAioHttpClient() if aiohttp else None
    how = {"api_key": "none", "max_retries": 0, "http_client": transport}
    if client == "openai":
        asking = module.AsyncOpenAI(base_url=f"{url}/v1", **how)
        create = asking.chat.completions.create
    else:
        asking = module.AsyncAnthropic(base_url=url, **how)
        create = asking.messages.create
    room = asyncio.Semaphore(connections)

    async def ask(prompt):
        async with room:
            await create(model="bench", messages=[{"role": "user", "content": prompt}], max_tokens=2000)

    await asyncio.gather(*map(ask, prompts))
    await asking.close()


def ours(study, runs):
    """Ask through plan, gateway, ledger and store, all durable at the end; return the seconds of the asking alone."""
    from toolkit.pipeline import run_plan

    plan, store = study.plan, study.store  # both are made when they are first asked for
    started = time.perf_counter()
    outcome = run_plan(plan, store, progress=False, limit=runs)
    asking = time.perf_counter() - started
    store.close()
    if outcome.succeeded != runs:
        raise SystemExit(
            f"toolkit: {outcome.succeeded} of {runs} runs succeeded; failures {outcome.failures}"
        )
    return asking


def surroundings():
    """Return what the numbers depend on: cores, Python and clients."""
    packages = {name: version(name) for name in ("openai", "anthropic", "aiohttp")}
    return {"cores": os.cpu_count(), "python": platform.python_version(), **packages}

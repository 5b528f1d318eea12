"""Wall time and CPU of N durable runs against the bare clients, on the same loopback server and prompts.

    python tests/benchmarks/gateway.py [--client both] [--runs 1000] [--latency 0.05] [--connections 10 100]

The contenders take turns for ``--rounds`` rounds and the medians count, because a machine is never quiet. The wall
time of the toolkit includes planning, starting the store's server and closing it, "asking" does not; CPU is that of
this process.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from server import JUDGE, loopback, own_cost, seen

if TYPE_CHECKING:
    from toolkit.study import Study

ASKED_OF_DEFAULT = {10: 1.0, 100: 0.9}  # issue 3: wall of ours / bare client, by connections
ASKED_OF_AIOHTTP = 1.25  # the same against the client on aiohttp
ASKED_CPU_MS = 1.0  # CPU a call above the client on aiohttp
DEFAULT, AIOHTTP, OURS = "bare, default transport", "bare, aiohttp transport", "toolkit, all durable"
WARM_UP = 24


@dataclass(frozen=True)
class Taken:
    """What one contender took in one round: seconds in all and of the asking alone, CPU milliseconds a run."""

    wall: float
    asking: float
    cpu_ms: float


@dataclass(frozen=True)
class Limit:
    """A number, and the most it may be; ``None`` where nothing is asked."""

    name: str
    value: float
    asked: float | None
    unit: str = ""

    def __str__(self) -> str:
        """Say the number, the limit and whether it holds."""
        unit = f" {self.unit}" if self.unit else ""
        if self.asked is None:
            return f"{self.name}: {self.value:.2f}{unit} (nothing asked)"
        verdict = "holds" if self.value <= self.asked else "MISSED"
        return f"{self.name}: {self.value:.2f}{unit}, asked at most {self.asked:.2f}{unit}: {verdict}"


def bench_study(
    url: str, folder: Path, *, runs: int, connections: int, client: str = "openai", judge: bool = False
) -> Study:
    """Return a study of at least ``runs`` runs: the 12 S prompts of the demo, as often as it takes."""
    from toolkit.study import Study
    from toolkit.study_file import Judges, StudyFile
    from toolkit.study_models import Judge, ModelEntry

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


def texts(runs: int) -> list[str]:
    """Return the prompts that the study sends, in its order, for whoever is compared with it."""
    study = bench_study("http://127.0.0.1", Path(), runs=runs, connections=1)
    return [run.request.messages[0].content for run in study.plan.runs[:runs]]


async def bare(
    url: str, client: str, prompts: Sequence[str], connections: int, *, aiohttp: bool = False
) -> None:
    """Ask with a provider's client alone: nothing is kept."""
    module = importlib.import_module(client)
    transport = module.DefaultAioHttpClient() if aiohttp else None
    how: dict[str, Any] = {"api_key": "none", "max_retries": 0, "http_client": transport}
    if client == "openai":
        asking = module.AsyncOpenAI(base_url=f"{url}/v1", **how)
        create = asking.chat.completions.create
    else:
        asking = module.AsyncAnthropic(base_url=url, **how)
        create = asking.messages.create
    room = asyncio.Semaphore(connections)

    async def ask(prompt: str) -> None:
        async with room:
            await create(model="bench", messages=[{"role": "user", "content": prompt}], max_tokens=2000)

    await asyncio.gather(*map(ask, prompts))
    await asking.close()


def ours(study: Study, runs: int) -> float:
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


def taken(url: str, contender: str, client: str, prompts: Sequence[str], connections: int) -> Taken:
    """Let one contender ask every prompt, and return what it took; the server must have seen each once."""
    with tempfile.TemporaryDirectory() as name:
        folder, runs, before = Path(name), len(prompts), seen(url)
        cost, started = own_cost(), time.perf_counter()
        if contender == OURS:
            study = bench_study(url, folder, runs=runs, connections=connections, client=client)
            asking = ours(study, runs)
        else:
            asyncio.run(bare(url, client, prompts, connections, aiohttp=contender == AIOHTTP))
            asking = time.perf_counter() - started
        wall, cpu = time.perf_counter() - started, own_cost().cpu - cost.cpu
        if contender == OURS:
            from toolkit.store import embedded

            embedded.stop(study.plan.store_folder)
    if seen(url) - before != runs:
        raise SystemExit(
            f"{client}, {contender}: the server saw {seen(url) - before} requests for {runs} runs"
        )
    return Taken(wall, asking, cpu / runs * 1000)


def limits(name: str, connections: int, rounds: dict[str, list[Taken]]) -> list[Limit]:
    """Return the ratios and differences that issue 3 limits: each made within a round, then the median."""

    def middle(other: str, compare: Callable[[Taken, Taken], float]) -> float:
        return median(compare(own, bare) for own, bare in zip(rounds[OURS], rounds[other], strict=True))

    asked = ASKED_OF_DEFAULT.get(connections)
    wall = partial(middle, compare=lambda own, bare: own.wall / bare.wall)
    asking = partial(middle, compare=lambda own, bare: own.asking / bare.asking)
    cpu = middle(AIOHTTP, lambda own, bare: own.cpu_ms - bare.cpu_ms)
    return [
        Limit(f"{name}: wall, toolkit / default transport", wall(DEFAULT), asked),
        Limit(f"{name}: wall, toolkit / aiohttp transport", wall(AIOHTTP), ASKED_OF_AIOHTTP),
        Limit(f"{name}: asking alone, toolkit / default transport", asking(DEFAULT), None),
        Limit(f"{name}: asking alone, toolkit / aiohttp transport", asking(AIOHTTP), None),
        Limit(f"{name}: CPU a run above aiohttp transport", cpu, ASKED_CPU_MS, "ms"),
    ]


def surroundings() -> dict[str, Any]:
    """Return what the numbers depend on: cores, Python and clients."""
    packages = {name: version(name) for name in ("openai", "anthropic", "aiohttp")}
    return {"cores": os.cpu_count(), "python": platform.python_version(), **packages}


def main() -> None:
    """Run every contender of every client at every number of connections."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--client", choices=("openai", "anthropic", "both"), default="both")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds")
    parser.add_argument("--connections", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    clients = ("openai", "anthropic") if options.client == "both" else (options.client,)
    prompts, table, found = texts(options.runs), [], []
    with loopback(options.latency) as url:
        for client in clients:
            for contender in (DEFAULT, AIOHTTP, OURS):  # imports and warm-up
                taken(url, contender, client, prompts[:WARM_UP], 10)
            for connections in options.connections:
                rounds: dict[str, list[Taken]] = {DEFAULT: [], AIOHTTP: [], OURS: []}
                for number in range(options.rounds):
                    order = list(rounds)
                    for contender in order[number % 3 :] + order[: number % 3]:
                        one = taken(url, contender, client, prompts, connections)
                        rounds[contender].append(one)
                        where = f"{client}, {connections} connections, round {number + 1}"
                        print(f"{where}: {contender} {one.wall:.2f} s", flush=True)
                for contender, results in rounds.items():
                    wall, asking, cpu = (
                        median(getattr(r, name) for r in results) for name in ("wall", "asking", "cpu_ms")
                    )
                    row = f"{client:<10}{connections:>12}  {contender:<24}"
                    table.append(f"{row}{wall:>7.2f}{asking:>8.2f}{cpu:>13.2f}")
                found += limits(f"{client}, {connections} connections", connections, rounds)
    print(
        f"\n{options.runs} runs, {options.latency * 1000:.0f} ms, median of {options.rounds}; {surroundings()}"
    )
    print(
        f"{'client':<10}{'connections':>12}  {'contender':<24}{'wall s':>7}{'asking':>8}{'CPU ms a run':>13}"
    )
    print(*table, "", *found, sep="\n")


if __name__ == "__main__":
    main()

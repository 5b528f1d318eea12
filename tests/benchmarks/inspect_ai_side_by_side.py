"""The same samples on the same loopback server: bare openai client, inspect_ai, and the toolkit.

    python tests/benchmarks/inspect_ai_side_by_side.py [--venv DIR] [--samples 1000] [--connections 10 100]

inspect_ai is no dependency of ours: without ``--venv`` it is installed by pip into a temporary environment. Each
contender asks in a fresh process after a warm-up, they take turns for ``--rounds`` rounds, and medians are printed as
a Markdown table. Seconds are those of the asking and keeping, opening and closing of the log or store included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

from gateway import WARM_UP, bare, bench_study, ours, surroundings, texts
from server import fresh, loopback, own_cost, seen, store_cost

BARE, INSPECT, OURS = "bare openai client", "inspect_ai", "toolkit"
FACTS = """
| | inspect_ai (read in the source of 0.3.285) | toolkit |
| --- | --- | --- |
| durable at once | events go to an SQLite buffer with `synchronous=OFF`; the log file is rewritten after \
`log_buffer` samples (at most 10, from 1,000 samples on a twentieth of them) or 60 s, and flushed to the \
disk at the end | a reply is flushed to the disk before anyone hears of it |
| repeats kept apart | epochs are samples of their own; the reply cache (off by default, kept for a week \
by default) has the epoch in its key unless `per_epoch=False` | the repeat is part of a call's identity; \
replies are kept for ever |
| budget | `cost_limit` of `eval()` is for each sample; none of its options caps a whole run | \
`budget.aud` caps the whole study |"""


@dataclass(frozen=True)
class Job:
    """What one process does."""

    contender: str
    url: str
    folder: str
    prompts: str  # a JSON file
    connections: int


@dataclass(frozen=True)
class Taken:
    """What a contender took: seconds, CPU ms a sample, most memory in MB, and what it has kept.

    What the toolkit's store took in its server's process is beside it, because it is part of the price.
    """

    contender: str
    connections: int
    wall: float
    cpu_ms: float
    peak: float
    kept: str
    store_cpu_ms: float | None = None
    store_peak: float | None = None


def ask_bare(job, prompts, folder):
    """Ask with the client alone."""
    asyncio.run(bare(job.url, "openai", prompts, job.connections))
    return "nothing"


def ask_inspect(job, prompts, folder):
    """Ask with ``eval()``: no scorer, no retries, no display, its defaults for the rest."""
    from inspect_ai import Task, eval  # type: ignore[import-not-found]
    from inspect_ai.dataset import Sample  # type: ignore[import-not-found]
    from inspect_ai.solver import generate  # type: ignore[import-not-found]

    os.environ["BENCH_API_KEY"] = "none"  # where its provider "openai-api/bench" looks
    (log,) = eval(
        Task(dataset=[Sample(input=prompt) for prompt in prompts], solver=generate()),
        model="openai-api/bench/bench",
        model_base_url=f"{job.url}/v1",
        log_dir=str(folder),
        display="none",
        max_connections=job.connections,
        max_retries=0,
        temperature=0.2,
        max_tokens=2000,
    )
    if log.status != "success":
        raise SystemExit(f"inspect_ai: {log.status}, {log.error}")
    return log.location


def ask_ours(job, prompts, folder):
    """Ask through plan, gateway, ledger and store; the prompts are those of the study."""
    study = bench_study(job.url, folder, runs=len(prompts), connections=job.connections)
    ours(study, len(prompts))
    return str(study.plan.store_folder)


def kept_by_inspect(where, folder):
    """Count what stands in the log file."""
    from inspect_ai.log import read_eval_log  # type: ignore[import-not-found]

    samples = read_eval_log(where).samples or []
    answered = sum(bool(sample.output.completion) for sample in samples)
    return f"{answered} samples in one log file, {_megabytes(folder):.1f} MB"


def kept_by_us(where, folder):
    """Count what stands in the store, and end its server."""
    from toolkit.store import embedded
    from toolkit.store.connection import open_store

    store = open_store(Path(where))
    calls = store.database["calls"].count_documents({"state": "done", "raw": {"$exists": True}})
    runs = store.database["runs"].count_documents({"status": "succeeded"})
    store.close()
    embedded.stop(Path(where))
    return f"{calls} raw replies and {runs} runs in the store, {_megabytes(folder):.1f} MB"


CONTENDERS = {
    BARE: (ask_bare, lambda where, folder: where),
    INSPECT: (ask_inspect, kept_by_inspect),
    OURS: (ask_ours, kept_by_us),
}


def _megabytes(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def child(job):
    """Let one contender ask in this process, and return what it took."""
    prompts = json.loads(Path(job.prompts).read_text())
    ask, look = CONTENDERS[job.contender]
    warm, folder = Path(job.folder, "warm"), Path(job.folder, "asked")
    warmed = ask(job, prompts[:WARM_UP], warm)
    look(warmed, warm)
    cost, started = own_cost(), time.perf_counter()
    where = ask(job, prompts, folder)
    wall, after = time.perf_counter() - started, own_cost()
    server = store_cost(Path(where)) if job.contender == OURS else None
    share = 1000 / len(prompts)
    took = {"wall": wall, "cpu_ms": (after.cpu - cost.cpu) * share, "peak": after.peak}
    if server:
        took |= {"store_cpu_ms": server.cpu * share, "store_peak": server.peak}
    return {**took, "kept": look(where, folder)}


def taken(python, job, samples):
    """Let one contender ask in a fresh process; the server must have seen each sample once."""
    before = seen(job.url)
    home = dict.fromkeys(("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"), job.folder)
    said = _python(python, "--child", json.dumps(asdict(job)), folder=job.folder, **home)
    asked = seen(job.url) - before - min(WARM_UP, samples)
    if asked != samples:
        raise SystemExit(f"{job.contender}: the server saw {asked} requests for {samples} samples")
    result = Taken(job.contender, job.connections, **said)
    print(f"{job.connections} connections, {job.contender}: {result.wall:.2f} s", file=sys.stderr, flush=True)
    return result


def _python(python, *arguments, folder, **environment):
    """Run this script with another interpreter, in a folder where no .env of anybody lies."""
    return fresh(__file__, *arguments, python=python, cwd=folder, env={**os.environ, **environment})


def environment(folder):
    """Return the interpreter of an environment that has inspect_ai, which is made when it is not there."""
    python = folder.absolute() / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "inspect_ai", "openai"],
        check=True,
        stdout=sys.stderr,
    )
    return python


def markdown(results):
    """Return the medians of all rounds as a table."""
    lines = [
        "| connections | | wall s | CPU ms a sample | peak MB | kept at the end |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for connections, contender in dict.fromkeys((one.connections, one.contender) for one in results):
        of = [one for one in results if (one.connections, one.contender) == (connections, contender)]
        cells = [f"{median(one.wall for one in of):.1f}"]
        for own, store, digits in (("cpu_ms", "store_cpu_ms", 1), ("peak", "store_peak", 0)):
            cell = f"{median(getattr(one, own) for one in of):.{digits}f}"
            beside = [getattr(one, store) for one in of if getattr(one, store) is not None]
            cells.append(f"{cell} + {median(beside):.{digits}f} store" if beside else cell)
        lines.append(f"| {connections} | {contender} | {' | '.join(cells)} | {of[-1].kept} |")
    return "\n".join(lines)


def main():
    """Measure every contender and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--venv", type=Path, help="environment with inspect_ai; made there when missing")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds")
    parser.add_argument("--connections", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--texts", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--versions", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return print(json.dumps(child(Job(**json.loads(options.child)))))
    if options.texts:
        return print(json.dumps(texts(options.texts)))
    if options.versions:
        return print(json.dumps({name: version(name) for name in ("inspect_ai", "openai")}))
    with tempfile.TemporaryDirectory() as name, loopback(options.latency) as url:
        other = environment(options.venv or Path(name, "venv"))
        here = Path(sys.executable)
        versions = _python(other, "--versions", folder=name)
        prompts = Path(name, "prompts.json")
        # Made in a process of its own: what this one has in memory its children are charged with.
        prompts.write_text(json.dumps(_python(here, "--texts", str(options.samples), folder=name)))
        results = []
        for connections in options.connections:
            for number in range(options.rounds):
                for contender in CONTENDERS:
                    folder = Path(name, f"{connections}-{number}-{contender.split()[0]}")
                    folder.mkdir()
                    job = Job(contender, url, str(folder), str(prompts), connections)
                    results.append(taken(other if contender == INSPECT else here, job, options.samples))
    results.sort(key=lambda one: one.connections)
    latency = f"{options.latency * 1000:.0f} ms"
    print(
        f"{options.samples} samples, {latency}, median of {options.rounds}; here {surroundings()}, ", end=""
    )
    print(f"there {versions}\n\n{markdown(results)}\n{FACTS}")
    return None


if __name__ == "__main__":
    main()

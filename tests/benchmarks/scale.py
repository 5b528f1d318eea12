"""From 1,000 to 10,000 runs: wall time, peak memory, and how long a finished study takes to look at.

    python tests/benchmarks/scale.py [--small 1000] [--large 10000] [--latency 0.01] [--connections 100] [--rounds 3]

Every number comes from a fresh process. Seconds are those of the work alone, without imports, planning and opening the
store; "whole" is the process from start to end. The store's own server is another process and has its own column.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from gateway import Limit, bench_study, surroundings
from server import loopback, own_cost, seen, store_cost

if TYPE_CHECKING:
    from toolkit.study import Study

ASKED_GROWTH = 11.0  # issue 3: within 10 % of ten times 1,000
ASKED_PEAK_MB = 250.0
ASKED_DONE = 3.0  # seconds to find out that all is done
ASKED_REPLAY = 5.0
ASKED_FRAME = 2.0  # issue 7


@dataclass(frozen=True)
class Job:
    """What one process does."""

    what: str
    url: str
    folder: str
    runs: int
    connections: int
    judge: bool = False


@dataclass(frozen=True)
class Taken:
    """What a job took: seconds, and most memory in MB of its process and of the store's server."""

    what: str
    runs: int
    wall: float
    whole: float
    peak: float
    store_peak: float | None


def asked(study: Study, job: Job) -> Mapping[str, Any]:
    """Ask every run, and judge it where there is a judge."""
    return _executed(study, job)


def found_done(study: Study, job: Job) -> Mapping[str, Any]:
    """Run the finished study again: nothing is to be asked."""
    return _executed(study, job)


def replayed(study: Study, job: Job) -> Mapping[str, Any]:
    """Make every run again from the ledger."""
    return _executed(study, job, replay=True)


def framed(study: Study, job: Job) -> Mapping[str, Any]:
    """Make the frame that analysis starts from."""
    frame = study.runs()
    whole = frame["aud_cost"].notna() & (frame["status"] == "succeeded")
    return {"succeeded": int(whole.sum()), "new_calls": 0}


def _executed(study: Study, job: Job, **how: bool) -> Mapping[str, Any]:
    from toolkit.pipeline import run_plan

    return run_plan(study.plan, study.store, progress=False, limit=job.runs, **how).to_dict()


WORK: Mapping[str, Callable[[Study, Job], Mapping[str, Any]]] = {
    "ask": asked,
    "find all done": found_done,
    "replay": replayed,
    "replay, runs and texts emptied": replayed,
    "frame": framed,
}


def child(job: Job) -> None:
    """Do one job in this process and print what it took as JSON."""
    study = bench_study(
        job.url, Path(job.folder), runs=job.runs, connections=job.connections, judge=job.judge
    )
    plan, store = study.plan, study.store  # both are made when they are first asked for
    # Imports weigh the same for a run as for ten thousand; timed, they would hide how the time grows.
    clients = ("toolkit.models.openai_client", "openai.resources.chat.completions")
    for module in (
        "toolkit.pipeline",
        *(clients if job.what == "ask" else ()),
    ):  # no other job opens a client
        importlib.import_module(module)
    if "emptied" in job.what:
        for collection in ("runs", "output_blobs"):
            store.database[collection].delete_many({})
    started = time.perf_counter()
    facts = WORK[job.what](study, job)
    wall = time.perf_counter() - started
    kept = store.database["runs"].count_documents({})
    calls = store.database["calls"].count_documents({"state": "done"})
    texts = store.database["output_blobs"].count_documents({})
    store.close()
    server = store_cost(plan.store_folder)
    result = {
        "wall": wall,
        "peak": own_cost().peak,
        "store_peak": server.peak if server else None,
        "succeeded": facts["succeeded"],
        "new_calls": facts["new_calls"],
        "kept": kept,
        "calls": calls,
        "texts": texts,
    }
    print(json.dumps(result))


def taken(job: Job) -> Taken:
    """Do one job in a fresh process, and refuse numbers of work that was not done."""
    before, started = seen(job.url), time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps(asdict(job))],
        stdout=subprocess.PIPE,
        text=True,
    )
    whole = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{job.what}, {job.runs} runs: ended with {done.returncode}; what it said is above")
    said = json.loads(done.stdout.splitlines()[-1])
    calls = job.runs * (2 if job.judge else 1)
    new = calls if job.what == "ask" else 0
    expected = {"succeeded": job.runs, "new_calls": new, "kept": job.runs, "calls": calls}
    wrong = {name: said[name] for name in expected if said[name] != expected[name]}
    if wrong or seen(job.url) - before != new or not said["texts"]:
        raise SystemExit(
            f"{job.what}, {job.runs} runs: {said} where {expected} is right; "
            f"the server saw {seen(job.url) - before} requests, {new} are right"
        )
    result = Taken(job.what, job.runs, said["wall"], whole, said["peak"], said["store_peak"])
    print(line(result), flush=True)
    return result


def line(one: Taken) -> str:
    """Return one row of the table."""
    server = f"{one.store_peak:.0f}" if one.store_peak is not None else "?"
    return f"{one.what:<32}{one.runs:>7}{one.wall:>9.2f}{one.whole:>9.2f}{one.peak:>9.0f}{server:>11}"


def measure(url: str, options: argparse.Namespace) -> tuple[list[Taken], list[Limit]]:
    """Do every job and return what each took, and what issues 3 and 7 limit."""
    with tempfile.TemporaryDirectory() as name:

        def job(what: str, runs: int, folder: str, *, judge: bool = False) -> Taken:
            return taken(Job(what, url, str(Path(name, folder)), runs, options.connections, judge))

        try:
            pairs = [
                (job("ask", options.small, f"small-{n}"), job("ask", options.large, f"large-{n}"))
                for n in range(options.rounds)
            ]
            finished = f"large-{options.rounds - 1}"
            again = {what: job(what, options.large, finished) for what in WORK if what != "ask"}
            judged = job("ask", options.small, "judged", judge=True)
        finally:
            _stop_stores(Path(name))
    growth = median(large.wall / small.wall for small, large in pairs)
    large = f"{options.large} runs"
    # Ten times the runs in ten times the time; another pair of sizes is held to the same 10 %.
    most = ASKED_GROWTH / 10 * options.large / options.small
    return [one for pair in pairs for one in pair] + [*again.values(), judged], [
        Limit(f"wall of {large} / of {options.small}, median of {options.rounds}", growth, most),
        Limit(f"peak memory, {large}", max(pair[1].peak for pair in pairs), ASKED_PEAK_MB, "MB"),
        Limit("peak memory, replay", again["replay"].peak, ASKED_PEAK_MB, "MB"),
        Limit(f"finding {large} done", again["find all done"].wall, ASKED_DONE, "s"),
        Limit(f"replay of {large}", again["replay"].wall, ASKED_REPLAY, "s"),
        Limit(
            f"replay of {large}, runs and texts emptied",
            again["replay, runs and texts emptied"].wall,
            ASKED_REPLAY,
            "s",
        ),
        Limit(f"frame of {large}", again["frame"].wall, ASKED_FRAME, "s"),
        Limit(
            f"one judge, wall a call, {options.small} runs",
            judged.wall / options.small / 2 * 1000,
            None,
            "ms",
        ),
    ]


def _stop_stores(folder: Path) -> None:
    """End the servers of all stores below a folder: they would wait for users of a folder that is gone."""
    from toolkit.store import embedded

    for record in folder.glob("*/results/.store/server.json"):
        embedded.stop(record.parent)


def main() -> None:
    """Measure, print the table and the limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", type=int, default=1000)
    parser.add_argument("--large", type=int, default=10_000)
    parser.add_argument("--latency", type=float, default=0.01, help="seconds")
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write every number to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(Job(**json.loads(options.child)))
    print(f"{options.latency * 1000:.0f} ms, {options.connections} connections; {surroundings()}")
    print(f"{'what':<32}{'runs':>7}{'s':>9}{'whole s':>9}{'peak MB':>9}{'server MB':>11}", flush=True)
    with loopback(options.latency) as url:
        rows, found = measure(url, options)
    print("", *found, sep="\n")
    if options.json:
        kept = {**surroundings(), "latency": options.latency, "connections": options.connections}
        rest = {"jobs": [asdict(row) for row in rows], "limits": [asdict(limit) for limit in found]}
        options.json.write_text(json.dumps({**kept, **rest}, indent=1))
    return None


if __name__ == "__main__":
    main()

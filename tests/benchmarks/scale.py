"""From 1,000 to 10,000 runs: wall time, peak memory, and how long a finished study takes to look at.

    python tests/benchmarks/scale.py [--small 1000] [--large 10000] [--latency 0.01] [--connections 100] [--rounds 3]

Every number comes from a fresh process. Seconds are those of the work alone, without imports, planning and opening the
store; "whole" is the process from start to end. The store's own server is another process and has its own column.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from gateway import Limit, bench_study, surroundings
from server import fresh, loopback, own_cost, seen, store_cost

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


def executed(study: Study, job: Job) -> Mapping[str, Any]:
    """Ask every run and judge it where there is a judge; of a finished study nothing is asked, or all is replayed."""
    from toolkit.pipeline import run_plan

    replay = job.what.startswith("replay")
    return run_plan(study.plan, study.store, progress=False, limit=job.runs, replay=replay).to_dict()


def framed(study: Study, job: Job) -> Mapping[str, Any]:
    """Make the frame that analysis starts from."""
    frame = study.runs()
    whole = frame["aud_cost"].notna() & (frame["status"] == "succeeded")
    return {"succeeded": int(whole.sum()), "new_calls": 0}


WORK: Mapping[str, Callable[[Study, Job], Mapping[str, Any]]] = {
    **dict.fromkeys(("ask", "find all done", "replay", "replay, runs and texts emptied"), executed),
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
    took = {"wall": wall, "peak": own_cost().peak, "store_peak": server.peak if server else None}
    took |= {name: facts[name] for name in ("succeeded", "new_calls")}
    print(json.dumps({**took, "kept": kept, "calls": calls, "texts": texts}))


def taken(job: Job) -> Taken:
    """Do one job in a fresh process, and refuse numbers of work that was not done."""
    before, started = seen(job.url), time.perf_counter()
    said = fresh(__file__, "--child", json.dumps(asdict(job)))
    whole = time.perf_counter() - started
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
    server = f"{result.store_peak:.0f}" if result.store_peak is not None else "?"
    print(
        f"{job.what:<32}{job.runs:>7}{result.wall:>9.2f}{whole:>9.2f}{result.peak:>9.0f}{server:>11}",
        flush=True,
    )
    return result


def measure(url: str, options: argparse.Namespace) -> list[Limit]:
    """Do every job and return what issues 3 and 7 limit."""
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
            # Not before: what this process has in memory its children are charged with.
            from toolkit.store import embedded

            for record in Path(name).glob("*/results/.store/server.json"):  # they would wait for users
                embedded.stop(record.parent)
    growth = median(large.wall / small.wall for small, large in pairs)
    large = f"{options.large} runs"
    # Ten times the runs in ten times the time; another pair of sizes is held to the same 10 %.
    most = ASKED_GROWTH / 10 * options.large / options.small
    emptied = "replay, runs and texts emptied"
    a_call = judged.wall / options.small / 2 * 1000
    return [
        Limit(f"wall of {large} / of {options.small}, median of {options.rounds}", growth, most),
        Limit(f"peak memory, {large}", max(pair[1].peak for pair in pairs), ASKED_PEAK_MB, "MB"),
        Limit("peak memory, replay", again["replay"].peak, ASKED_PEAK_MB, "MB"),
        Limit(f"finding {large} done", again["find all done"].wall, ASKED_DONE, "s"),
        Limit(f"replay of {large}", again["replay"].wall, ASKED_REPLAY, "s"),
        Limit(f"replay of {large}, runs and texts emptied", again[emptied].wall, ASKED_REPLAY, "s"),
        Limit(f"frame of {large}", again["frame"].wall, ASKED_FRAME, "s"),
        Limit(f"one judge, wall a call, {options.small} runs", a_call, None, "ms"),
    ]


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
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(Job(**json.loads(options.child)))
    print(f"{options.latency * 1000:.0f} ms, {options.connections} connections; {surroundings()}")
    print(f"{'what':<32}{'runs':>7}{'s':>9}{'whole s':>9}{'peak MB':>9}{'server MB':>11}", flush=True)
    with loopback(options.latency) as url:
        print("", *measure(url, options), sep="\n")
    return None


if __name__ == "__main__":
    main()

"""A study of scripted models and judges, end to end: how it grows, and what it takes.

    python tests/benchmarks/planted.py [--runs 1000 10000]          # 100000 takes a quarter of an hour

Each number of runs is asked, judged by three and read as frames in processes of its own. CPU is that of the process and
of the store's server together; most memory is told of each.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

STUDY = """
name = "scaled"
dataset = "demo"
output = "results/scaled"
repeats = {repeats}
models = [{models}]
[judges]
primary = {{ name = "one", provider = "scripted", planted = {{}} }}
secondary = {{ name = "two", provider = "scripted", planted = {{}} }}
tertiary = {{ name = "three", provider = "scripted", planted = {{ severity = 0.4 }} }}
"""
MODELS = ", ".join(
    f'{{ name = "m{n}", provider = "scripted", planted = {{ level = 3.0 }} }}' for n in range(3)
)
EACH = 108
"""Runs a repeat: twelve bases, three lengths, three models."""
WORK = ("execute", "runs", "judgements", "calls", "status")


def child(what, path):
    """Do one thing with the study, and print what it took."""
    from toolkit import Study

    with Study.load(path) as study:
        _ = study.store
        record = json.loads((study.plan.store_folder / "server.json").read_text())
        server = psutil.Process(record["pid"])
        own, others, started = time.process_time(), sum(server.cpu_times()[:2]), time.monotonic()
        found = study.execute(progress=False) if what == "execute" else getattr(study, what)()
        took = {
            "what": what,
            "runs": len(study.plan.runs),
            "seconds": time.monotonic() - started,
            "cpu": time.process_time() - own + sum(server.cpu_times()[:2]) - others,
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "store": server.memory_info().rss / 2**20,
        }
        assert what != "execute" or found.judged == len(study.plan.runs)
    print(json.dumps(took))


def main():
    """Print a row for each number of runs and each thing done."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, nargs="+", default=[1000, 10000])
    options.add_argument("--child", nargs=2)
    given = options.parse_args()
    if given.child:
        return child(given.child[0], Path(given.child[1]))
    print(f"{'runs':>8} {'':<11} {'seconds':>8} {'CPU ms/run':>10} {'MB':>6} {'store MB':>9}")
    from toolkit.store import embedded

    for runs in given.runs:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "scaled.toml"
            path.write_text(STUDY.format(repeats=round(runs / EACH), models=MODELS))
            for what in WORK:
                command = [sys.executable, __file__, "--child", what, str(path)]
                took = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                print(
                    f"{took['runs']:>8,} {what:<11} {took['seconds']:>8.1f} {1000 * took['cpu'] / took['runs']:>10.2f} "
                    f"{took['peak']:>6.0f} {took['store']:>9.0f}",
                    flush=True,
                )
            embedded.stop(Path(folder) / "results" / ".store")
    return None


if __name__ == "__main__":
    main()

"""Forty trivial notebooks: a serial papermill loop beside `run_batch`, one after the other in one run.

``.venv/bin/python tests/benchmarks/batch.py --n 40`` prints both wall times, their ratio (to be at most 0.6 on two
cores), and what a second call starts (nothing). ``--rounds`` repeats both in turn and gives the medians.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import tempfile
import time
from pathlib import Path

import nbformat
import papermill

from toolkit.batch import run_batch

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def write_template(path: Path) -> Path:
    """Write a notebook that adds one to its parameter."""
    cells = [
        nbformat.v4.new_code_cell("x = 0", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("x + 1"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), path)
    return path


def serial(template: Path, folder: Path, n: int) -> float:
    """Return the seconds of a loop over ``papermill.execute_notebook``, as papermill's own documentation has it."""
    folder.mkdir()
    began = time.monotonic()
    for x in range(n):
        papermill.execute_notebook(
            str(template), str(folder / f"{x}.ipynb"), parameters={"x": x}, progress_bar=False
        )
    return time.monotonic() - began


def main() -> None:
    """Run both and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    logging.getLogger("papermill").setLevel(logging.ERROR)
    ratios = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        template = write_template(folder / "trivial.ipynb")
        grid = {"product": {"x": list(range(arguments.n))}}
        for number in range(arguments.rounds):
            loop = serial(template, folder / f"serial-{number}", arguments.n)
            out = folder / f"batch-{number}"
            result = run_batch(template, grid, out=out, workers=arguments.workers, progress=False)
            again = run_batch(template, grid, out=out, workers=arguments.workers, progress=False)
            ratios.append(result.seconds / loop)
            print(
                f"{arguments.n} notebooks: serial papermill {loop:.1f} s, run_batch with {arguments.workers} workers "
                f"{result.seconds:.1f} s {result.counts}, ratio {ratios[-1]:.2f}; a second call started "
                f"{again.started} in {again.seconds:.2f} s; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    print(f"median ratio {statistics.median(ratios):.2f} of {len(ratios)}")


if __name__ == "__main__":
    main()

"""The whole analysis of a study of 300 prompts x 4 models x 3 judges x 7 dimensions: seconds of each part.

Run ``python tests/benchmarks/whole_analysis.py``; ``--bases`` makes it smaller.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from whole_study import make_study

from toolkit.stats.result import estimates_of
from toolkit.words import SCENARIOS

PARTS = ("reliability", "generalizability", "length", "length_bias", "pareto", "missing")


def main() -> None:
    """Print a line for each part and the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bases", type=int, default=100, help="each has three prompts")
    parser.add_argument("--models", type=int, default=4)
    options = parser.parse_args()
    names = [f"model-{number}" for number in range(options.models)]
    study, _ = make_study(names, bases=options.bases, missing=0.0, margin=0.25)
    study.runs["scenario"] = [SCENARIOS[int(base[-1]) % 3] for base in study.runs["base"]]
    total = 0.0
    for name in (*PARTS, "ceiling", "power"):
        began = time.perf_counter()
        found = len(estimates_of(getattr(study, name)()))
        took = time.perf_counter() - began
        total += took
        print(f"{name:18s} {took:6.2f} s, {found} estimates")
    runs, judgements = len(study.runs), len(study.judgements)
    print(f"{'all':18s} {total:6.2f} s for {runs} answers, {judgements} judgements x 7 dimensions")


if __name__ == "__main__":
    main()

"""How often the interval of a corrected prevalence holds the truth, for a judge whose errors are estimated too.

Prints the table in the docstring of `toolkit.stats.detection.prevalence.corrected_prevalence`:

    python tests/benchmarks/prevalence_coverage.py [--studies 20000] [--seed 1]
"""

from __future__ import annotations

import argparse
import math
from functools import cache

import numpy as np

from toolkit.stats.detection.prevalence import lang_reiczigel
from toolkit.stats.detection.rates import Confusion

SENSITIVITY, SPECIFICITY = 0.9, 0.7
PREVALENCES = (0.0, 0.02, 0.1, 0.3, 0.6, 0.9, 1.0)
SIZES = ((100, 100, 300), (100, 100, 100), (36, 36, 300), (30, 30, 300), (30, 30, 100))
Z = 1.959963984540054


@cache
def delta(yes: int, n: int, judge: Confusion) -> tuple[float, float]:
    """Return the plain large-sample interval of Rogan & Gladen (1978), within 0-1."""
    se, sp, apparent = judge.tp / (judge.tp + judge.fn), judge.tn / (judge.tn + judge.fp), yes / n
    youden = se + sp - 1
    found = (apparent + sp - 1) / youden
    variance = apparent * (1 - apparent) / n + found**2 * se * (1 - se) / (judge.tp + judge.fn)
    variance += (1 - found) ** 2 * sp * (1 - sp) / (judge.tn + judge.fp)
    half = Z * math.sqrt(variance) / youden
    return min(1.0, max(0.0, found - half)), min(1.0, max(0.0, found + half))


def coverage(method, sizes: tuple[int, int, int], prevalence: float, studies: int, seed: int) -> float:
    """Return the share of simulated studies whose interval holds the prevalence; without an interval it is none."""
    chance = np.random.default_rng(seed)
    yes_items, no_items, n = sizes
    hits = chance.binomial(yes_items, SENSITIVITY, studies)
    rejections = chance.binomial(no_items, SPECIFICITY, studies)
    cases = chance.binomial(n, prevalence, studies)
    decided = chance.binomial(cases, SENSITIVITY) + chance.binomial(n - cases, 1 - SPECIFICITY)
    held = []
    for tp, tn, yes in zip(hits.tolist(), rejections.tolist(), decided.tolist(), strict=True):
        judge = Confusion(tp, yes_items - tp, tn, no_items - tn)
        if tp / yes_items + tn / no_items <= 1:
            continue
        low, high = method(yes, n, judge)
        held.append(low <= prevalence <= high)
    return sum(held) / len(held)


def main() -> None:
    """Print one line a method and size of the samples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for sizes in SIZES:
        for name, method in (("L & R", cache(lang_reiczigel)), ("delta", delta)):
            found = [coverage(method, sizes, p, given.studies, given.seed) for p in PREVALENCES]
            label = f"{sizes[0]} + {sizes[1]}, {sizes[2]}"
            print(f"    {label:<22}  {name:<6}  " + "  ".join(f"{value:5.3f}" for value in found))


if __name__ == "__main__":
    main()

"""How long variance components take.

    python tests/benchmarks/components.py [--rounds 7]

Asked are mean squares of 3,000 answers x 3 judges x 2 repeats from the tidy frame in 50 ms. Beside them: REML of
300 x 3 x 2 with a tenth missing, and the whole answer for a study of 300 prompts by 4 models and 3 judges, complete
and with gaps.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pandas as pd
from whole_study import make_study

from toolkit.stats.generalizability.components import fit_components
from toolkit.stats.generalizability.design import Design, components_table
from toolkit.stats.generalizability.study_scores import study_generalizability

ASKED_SECONDS = 0.050
DESIGN = Design(("answer", "judge", "repeat"))


def scores(answers: int, missing: float, seed: int = 1) -> pd.DataFrame:
    """Return answers x 3 judges x 2 repeats as a tidy frame."""
    rng = np.random.default_rng(seed)
    values = (
        rng.normal(3, 1, (answers, 1, 1))
        + rng.normal(0, 0.5, (1, 3, 1))
        + rng.normal(0, 0.7, (answers, 3, 2))
    )
    values[rng.random(values.shape) < missing] = np.nan
    index = np.indices(values.shape).reshape(3, -1)
    answer = pd.Series([f"a{one}" for one in index[0]], dtype="string")
    return pd.DataFrame({"answer": answer, "judge": index[1], "repeat": index[2], "score": values.ravel()})


def seconds(call: Callable[[], object], rounds: int) -> float:
    """Return the median time of a call after one to warm up."""
    call()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return median(taken)


def main() -> int:
    """Print the times; 1 if the asked one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    large, gaps = scores(3000, 0.0), scores(300, 0.1)
    asked = seconds(lambda: fit_components(components_table(large, DESIGN)), rounds)
    print(
        f"mean squares, 3,000 x 3 x 2 from the frame: {asked * 1000:.1f} ms (asked {ASKED_SECONDS * 1000:.0f} ms)"
    )
    reml = seconds(lambda: fit_components(components_table(gaps, DESIGN)), rounds)
    print(f"REML, 300 x 3 x 2 with a tenth missing: {reml * 1000:.0f} ms")
    for missing in (0.0, 0.03):
        models = [f"model-{number}" for number in range(4)]
        frame = make_study(models, bases=100, missing=missing)[0].judgements
        for of in ("answer", "model"):
            taken = seconds(lambda of=of, frame=frame: study_generalizability(frame, of=of), 1)
            print(
                f"study of 300 prompts x 4 models x 3 judges, per {of}, {missing:.0%} missing: {taken:.2f} s"
            )
    return 0 if asked <= ASKED_SECONDS else 1


if __name__ == "__main__":
    raise SystemExit(main())

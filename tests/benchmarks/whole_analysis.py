"""The whole analysis of a study of 300 prompts x 4 models x 3 judges x 7 dimensions: seconds of each part.

Run ``python tests/benchmarks/whole_analysis.py``; ``--bases`` makes it smaller.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from toolkit.analyses import Analyses
from toolkit.stats.result import estimates_of
from toolkit.store.dictionary import typed
from toolkit.store.frames import JUDGEMENT_TYPES, RUN_TYPES
from toolkit.words import DIMENSIONS, JUDGE_ROLES, LENGTH_BINS, SCENARIOS


class Simulated(Analyses):
    """Frames of a study with known components; half-step scores."""

    def __init__(self, bases: int, models: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        runs, judgements = [], []
        severity = dict(zip(JUDGE_ROLES, (0.2, 0.0, -0.3), strict=True))
        for base in range(bases):
            of_base = rng.normal(0, 0.5)
            for length in LENGTH_BINS:
                for model in range(models):
                    quality = 3.0 + of_base + 0.1 * model + rng.normal(0, 0.4)
                    run_id = f"run-{base}-{length}-{model}"
                    about = {
                        "run_id": run_id,
                        "study": "whole",
                        "prompt_id": f"b{base}_{length}",
                        "base": f"b{base}",
                        "scenario": SCENARIOS[base % 3],
                        "length_bin": length,
                        "model": f"model-{model}",
                        "repeat": 0,
                    }
                    means: dict[str, list[float]] = {name: [] for name in DIMENSIONS}
                    for judge in JUDGE_ROLES:
                        drawn = quality + severity[judge] + rng.normal(0, 0.5, len(DIMENSIONS))
                        scores = dict(zip(DIMENSIONS, np.clip(np.round(2 * drawn) / 2, 0.5, 5), strict=True))
                        for name, score in scores.items():
                            means[name].append(score)
                        mean = float(np.mean(list(scores.values())))
                        judgements.append(
                            {
                                **dict.fromkeys(JUDGEMENT_TYPES),
                                **about,
                                **scores,
                                "judge": judge,
                                "judge_repeat": 0,
                                "judge_model": judge,
                                "failed": False,
                                "composite": mean,
                                "composite_strict": mean,
                                "zeros": 0,
                                "aud_cost": 0.001,
                            }
                        )
                    by_dimension = {name: float(np.mean(found)) for name, found in means.items()}
                    composite = float(np.mean(list(by_dimension.values())))
                    runs.append(
                        {
                            **dict.fromkeys(RUN_TYPES),
                            **about,
                            **by_dimension,
                            "status": "succeeded",
                            "test": "rubric_study",
                            "excluded": False,
                            "judged": True,
                            "judge_count": 3,
                            "zeros": 0,
                            "composite": composite,
                            "composite_strict": composite,
                            "output_tokens": int(400 + 100 * quality + rng.normal(0, 60)),
                            "aud_cost": 0.002 * (1 + model),
                        }
                    )
        super().__init__(typed(runs, RUN_TYPES), typed(judgements, JUDGEMENT_TYPES), seed=seed, margin=0.25)


def main() -> None:
    """Print a line for each part and the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bases", type=int, default=100, help="each has three prompts")
    parser.add_argument("--models", type=int, default=4)
    options = parser.parse_args()
    study = Simulated(options.bases, options.models)
    names = ("reliability", "generalizability", "length", "length_bias", "mixed_model", "pareto", "missing")
    total = 0.0
    for name in (*names, "ceiling", "power"):
        began = time.perf_counter()
        found = len(estimates_of(getattr(study, name)()))
        took = time.perf_counter() - began
        total += took
        print(f"{name:18s} {took:6.2f} s, {found} estimates")
    runs, judgements = len(study.runs()), len(study.judgements())
    print(f"{'all':18s} {total:6.2f} s for {runs} answers, {judgements} judgements x 7 dimensions")


if __name__ == "__main__":
    main()

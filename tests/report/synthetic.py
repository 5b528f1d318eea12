"""A synthetic study for the figures: frames with the names the pipeline uses, from a seed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd

from toolkit.stats.result import Estimate
from toolkit.words import DIMENSIONS, JUDGE_ROLES, LENGTH_BINS

BINS = tuple(LENGTH_BINS)


def make_runs(models=("alpha",), bases=12, repeats=1, *, free=True, seed=7) -> pd.DataFrame:
    """Return a ``runs`` frame: bases differ, longer prompts score a little better, answers scatter."""
    chance = np.random.default_rng(seed)
    difficulty = chance.normal(0, 0.5, bases)
    rows = []
    for m, model in enumerate(models):
        for base in range(bases):
            for step, length in enumerate(BINS):
                for repeat in range(repeats):
                    score = 2.6 + 0.3 * step + 0.3 * m + difficulty[base] + chance.normal(0, 0.3)
                    tokens = int(400 * (step + 1) + chance.integers(0, 200))
                    rows.append(
                        {
                            "run_id": f"run{len(rows):05d}",
                            "study": "synthetic",
                            "base": f"base_{base:02d}",
                            "length_bin": length,
                            "model": model,
                            "repeat": repeat,
                            "status": "succeeded",
                            "total_tokens": tokens,
                            "tokens_estimated": False,
                            "aud_cost": 0.0 if free else tokens * 2e-6 * 12.0**m,
                            "judge_count": 3,
                            "judged": True,
                            "composite": float(np.clip(score, 0, 5)),
                            "zeros": 0,
                        }
                    )
    frame = pd.DataFrame(rows)
    frame["length_bin"] = pd.Categorical(frame["length_bin"], BINS, ordered=True)
    texts = ("run_id", "study", "base", "model", "status")
    types = dict.fromkeys(texts, "string") | dict.fromkeys(("repeat", "total_tokens", "judge_count"), "Int64")
    return frame.astype(types | {"zeros": "Int64", "tokens_estimated": "boolean"})


def make_judgements(runs: pd.DataFrame, judges=JUDGE_ROLES, seed=11) -> pd.DataFrame:
    """Return a ``judgements`` frame: each judge has a leniency of its own and whole scores per dimension."""
    chance = np.random.default_rng(seed)
    rows = []
    for run in runs.to_dict("records"):
        for place, judge in enumerate(judges):
            scores = np.clip(np.rint(run["composite"] + 0.4 * place + chance.normal(0, 0.6, 7)), 0, 5)
            row = {k: run[k] for k in ("run_id", "study", "base", "length_bin", "model", "repeat")}
            row |= dict(zip(DIMENSIONS, map(float, scores), strict=True))
            row |= {"judge": judge, "failed": False, "composite": float(scores[scores > 0].mean())}
            rows.append(row)
    frame = pd.DataFrame(rows)
    frame["judge"] = pd.Categorical(frame["judge"], list(judges), ordered=True)
    return frame


def make_ratings(judgements: pd.DataFrame) -> pd.DataFrame:
    """Return the ratings that ``reliability`` takes: one row a target, judge and dimension."""
    scores = [*DIMENSIONS, "composite"]
    long = judgements.melt(["run_id", "judge", "base"], scores, var_name="dimension", value_name="score")
    return long.rename(columns={"run_id": "target"})


def fake_comparison(runs: pd.DataFrame) -> SimpleNamespace:
    """Stand in for ``LengthComparison``: means with an interval of a fixed width."""
    n = {"bases": int(runs["base"].nunique()), "answers": len(runs)}
    means = runs.groupby("length_bin", observed=True)["composite"].mean()
    per_bin = tuple(
        Estimate(str(k), float(v), float(v) - 0.3, float(v) + 0.3, "t over bases", "score points (0-5)", n)
        for k, v in means.items()
    )
    contrasts = tuple(
        Estimate(f"{a}-{b}", 0.3, 0.1, 0.5, "paired t", n=n, p_value=p, correction="Holm")
        for a, b, p in (("M", "S", 0.012), ("L", "M", 0.2), ("L", "S", 0.00001))
    )
    effects = tuple(Estimate(c.name, 0.8, -0.1, 1.7, "noncentral t", n=n) for c in contrasts)
    return SimpleNamespace(
        per_bin=per_bin, contrasts=contrasts, effect_sizes=effects, corrected_effect_sizes=(), notes=()
    )


def fake_reliability(judges=JUDGE_ROLES, keys=("composite",)) -> SimpleNamespace:
    """Stand in for ``Reliability``: fixed numbers with intervals."""
    n = {"answers": 36, "judges": len(judges)}
    forms = ("ICC(1,1)", "ICC(A,1)", "ICC(C,1)", "ICC(1,k)", "ICC(A,k)", "ICC(C,k)")
    icc = tuple(Estimate(f, 0.3 + 0.1 * i, -0.05, 0.9, "F distribution", n=n) for i, f in enumerate(forms))
    pairs = [(a, b) for i, a in enumerate(judges) for b in judges[i + 1 :]]
    pearson = tuple(Estimate(f"r({a}, {b})", 0.61, -0.12, 0.8, "Fisher z", n=n) for a, b in pairs)
    alpha = Estimate("alpha over judges", 0.7, 0.5, 0.85, "Feldt", n=n)
    return SimpleNamespace(
        icc=dict.fromkeys(keys, icc),
        icc_these_judges=dict.fromkeys(keys, ()),
        alpha_over_judges=dict.fromkeys(keys, alpha),
        alpha_over_dimensions=Estimate("alpha over dimensions", 0.9, 0.8, 0.95, "Feldt", n=n),
        pearson=dict.fromkeys(keys, pearson),
        notes=("no rating was missing",),
    )

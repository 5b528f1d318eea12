"""A whole study in frames, from a seed: effects that show, scores that are missing, and everything drawn of it."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from matplotlib.text import Text

from toolkit.analyses.answers import Analyses
from toolkit.report.figure import about_study
from toolkit.report.registry import draw_study
from toolkit.study_file import StudyFile
from toolkit.words import DIMENSIONS, JUDGE_ROLES

LENIENCY = {"primary": 0.0, "secondary": 0.35, "tertiary": -0.25}
NOTE = "Only a test."


def make_study(
    models=("gpt-4o", "llama-3"),
    *,
    bases=6,
    repeats=1,
    judges=JUDGE_ROLES,
    bins="SML",
    missing=0.08,
    free=False,
    margin=0.5,
    seed=3,
):
    """Return the frames of a study and what stands in for its plan.

    Longer prompts and longer replies score higher, models and bases differ, the second judge is milder; a share of
    runs fails and a share of judgements cannot be read.
    """
    chance = np.random.default_rng(seed)
    level = chance.normal(0, 0.45, bases)
    profile = chance.normal(0, 0.35, len(DIMENSIONS))
    runs, judgements = [], []
    cells = [
        (m, b, s, r)
        for m in range(len(models))
        for b in range(bases)
        for s in range(len(bins))
        for r in range(repeats)
    ]
    for m, b, s, repeat in cells:
        reply = max(40, int(chance.normal(320 + 130 * s + 60 * m, 60)))
        truth = 3.3 + 0.22 * s - 0.25 * m + level[b] + 0.0006 * (reply - 400) + chance.normal(0, 0.25)
        failed = bool(chance.random() < missing / 2)
        about = {
            "run_id": f"run{len(runs):05d}", "study": "whole", "base": f"base_{b:02d}",
            "cluster": f"base_{b:02d}", "level": bins[s], "model": models[m], "repeat": repeat,
            "scenario": ("SOC_INCIDENT", "GRC_MAPPING")[b % 2],
        }  # fmt: skip
        given = []
        for judge in () if failed else judges:
            unread = bool(chance.random() < missing)
            wished = truth + LENIENCY[judge] + profile + chance.normal(0, 0.3) + chance.normal(0, 0.4, 7)
            scores = np.full(7, np.nan) if unread else np.clip(np.rint(2 * wished) / 2, 0.5, 5)
            if not unread:
                given.append(scores)
            judgements.append(
                about | dict(zip(DIMENSIONS, scores.tolist(), strict=True)) | {
                    "judge": judge, "judge_repeat": 0, "judge_model": f"model of {judge}", "related": False,
                    "failed": unread, "failure": "prose without scores" if unread else None, "zeros": 0,
                    "composite": float(scores.mean()), "composite_strict": float(scores.mean()),
                    "aud_cost": 0.004, "latency_ms": 900.0, "input_tokens": 900, "output_tokens": 90,
                }
            )  # fmt: skip
        judged = len(given) >= min(2, len(judges))
        means = np.mean(given, axis=0) if judged else np.full(7, np.nan)
        runs.append(
            about | dict(zip(DIMENSIONS, means.tolist(), strict=True)) | {
                "status": "failed" if failed else "succeeded", "failure": "timeout" if failed else None,
                "defect": None, "excluded": False, "output_tokens": None if failed else reply,
                "total_tokens": None if failed else 250 + 350 * s + reply, "tokens_estimated": False,
                "aud_cost": 0.0 if free else (250 + 350 * s + 4 * reply) * 4e-6 / (1 + 4 * m),
                "judge_count": len(given), "judged": judged, "zeros": 0, "composite": float(means.mean()),
                "composite_strict": float(means.mean()),
            }
        )  # fmt: skip
    texts = dict.fromkeys(("run_id", "study", "base", "cluster", "model"), "string")
    bin_type = pd.CategoricalDtype(list("SML"), ordered=True)
    counts = dict.fromkeys(("output_tokens", "total_tokens", "judge_count", "zeros", "repeat"), "Int64")
    more = {"failure": "string", "defect": "string", "status": "string", "tokens_estimated": "boolean"}
    runs_frame = pd.DataFrame(runs).astype(texts | counts | more | {"level": bin_type})
    roles = pd.CategoricalDtype(list(JUDGE_ROLES), ordered=True)
    types = texts | {"level": bin_type, "judge": roles, "failure": "string", "related": "boolean"}
    judgements_frame = pd.DataFrame(judgements).astype(types)
    file = StudyFile(
        name="whole",
        models=[name.replace("\n", " ") for name in models],
        repeats=repeats,
        analysis={"equivalence_margin": margin} if margin else {},
        note=NOTE,
    )
    plan = SimpleNamespace(
        study=file,
        note=NOTE,
        warning="",
        dataset=SimpleNamespace(version="2025.1"),
        manner=SimpleNamespace(sentence=lambda: ""),
        models=dict.fromkeys(models),
        judges={judge: SimpleNamespace(related=()) for judge in judges},
    )
    return Analyses(runs_frame, judgements_frame, name="whole", margin=margin), plan


def drawn(held, plan, *names):
    """Return figures of a study by name."""
    return {figure.name: figure for figure in draw_study(held, about_study(held, plan), names)}


def texts(figure):
    """Return every text on a figure, legends and titles included."""
    return [found.get_text() for found in figure.figure.findobj(Text) if found.get_text()]

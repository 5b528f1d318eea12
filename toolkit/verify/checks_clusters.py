"""Checks where bases share texts, in the layout of the predecessor's dataset: one text is one reply and one score."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pandas as pd

from toolkit.stats.error_bars import compare_models
from toolkit.stats.length import compare_lengths
from toolkit.stats.length_slope import length_bias
from toolkit.stats.mixed_model import mixed_model
from toolkit.stats.reliability import reliability
from toolkit.verify.check import NOMINAL, Check, Outcome, Setting, holds, rejects, setting
from toolkit.verify.drawn import (
    LENIENCY,
    Model,
    correlation_of,
    icc_of_these_judges,
    mean_of,
    model_of,
    on_scale,
)

BASES: Final = 100
_TEXTS: Final = {"S": 32, "M": 60, "L": 72}
"""Distinct texts of each length: 164 of 300; bases that share one of S are a cluster, and none share beyond it."""
_MODELS: Final = ("a", "b", "c")
_EFFECT: Final = 0.3
_OF_MODEL: Final = 0.25
"""Standard deviation of what a situation, and what a text, adds for one model alone."""


def layout(seed: int = 8) -> dict[str, np.ndarray]:
    """Return the text that each of 100 bases has at each length, as numbers; those of S are the clusters.

    Examples
    --------
    >>> {name: len(set(texts.tolist())) for name, texts in layout().items()}
    {'S': 32, 'M': 60, 'L': 72}
    """
    rng = np.random.default_rng(seed)
    clusters = rng.permutation(np.concatenate([np.arange(32), rng.integers(0, 32, BASES - 32)]))
    found = {}
    for name, wanted in _TEXTS.items():
        texts = clusters.copy()
        while len(set(texts.tolist())) < wanted:
            base = rng.integers(BASES)
            if (texts == texts[base]).sum() > 1:
                texts[base] = texts.max() + 1
        found[name] = texts
    return found


def draw_copies(rng: np.random.Generator, model: Model, effects: tuple[float, float, float]) -> pd.DataFrame:
    """Draw one run for each base, length bin and model; bases that share a text have one score of each model for it.

    Situations (clusters) and texts add what they add to all models and to one; nothing of it depends on scenario, and
    models differ by nothing else.

    Parameters
    ----------
    rng
        Source of chance.
    model
        How scores come about; ``answer`` and ``judge`` are not used.
    effects
        What S, M and L add, in score points.
    """
    texts = layout()
    clusters = texts["S"]
    level = rng.normal(0, model.base, (32, 1)) + rng.normal(0, _OF_MODEL, (32, 3))
    rows = []
    for effect, (name, of_base) in zip(effects, texts.items(), strict=True):
        own = rng.normal(0, model.residual, (BASES + 32, 1)) + rng.normal(0, _OF_MODEL, (BASES + 32, 3))
        scores = on_scale(model.mean + effect + level[clusters] + own[of_base])
        rows.append(
            pd.DataFrame(
                {
                    "base": np.repeat(np.arange(BASES), 3),
                    "cluster": np.repeat(clusters, 3) + 1000,
                    "scenario": np.repeat(np.array(list("XYZ"))[clusters % 3], 3),
                    "length_bin": name,
                    "model": list(_MODELS) * BASES,
                    "composite": scores.ravel(),
                    "output_tokens": 300 + rng.normal(0, 50, (BASES + 32, 3))[of_base].ravel(),
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


def _deviation(model: Model) -> float:
    return math.hypot(model.base, model.residual, _OF_MODEL, _OF_MODEL)


def _no_effects(rng: np.random.Generator, made: Setting) -> Outcome:
    runs = draw_copies(rng, model_of(made), (0.0, 0.0, 0.0))
    lengths = compare_lengths(runs, omnibus=True)
    terms = {
        f"mixed model, {term.term}": None if term.p_value is None else term.p_value <= NOMINAL["test"]
        for term in mixed_model(runs).terms
    }
    return {
        **terms,
        "repeated-measures ANOVA": None if lengths.anova is None else rejects(lengths.anova.as_estimate()),
        "Friedman": None if lengths.friedman is None else rejects(lengths.friedman),
        "models a - b": rejects(compare_models(runs[runs["model"] != "c"]).differences[0]),
        "slope on reply length": rejects(length_bias(runs).slope),
    }


def _effects(rng: np.random.Generator, made: Setting) -> Outcome:
    model = model_of(made)
    runs = draw_copies(rng, model, (0.0, _EFFECT / 2, _EFFECT))
    short, long = (float(mean_of(model.mean + plus, _deviation(model))) for plus in (0.0, _EFFECT))
    lengths = compare_lengths(runs)
    of_short = compare_models(runs[runs["length_bin"] == "S"])
    return {
        "mean of S": holds(lengths.per_bin[0], short),
        "L-S": holds(lengths.contrasts[2], long - short),
        "mean of a model, S": holds(of_short.models[0][1], short),
    }


def _agreement(rng: np.random.Generator, made: Setting) -> Outcome:
    """Three judges of one model's replies to L; a text that several bases have is judged once."""
    model, texts = model_of(made), layout()
    of_base, clusters = texts["L"], texts["S"]
    level = rng.normal(0, model.base, 32)[clusters] + rng.normal(0, model.answer, BASES + 32)[of_base]
    error = rng.normal(0, model.residual, (BASES + 32, 3))[of_base]
    scores = on_scale(model.mean + level[:, None] + np.array(LENIENCY[:3]) + error)
    ratings = pd.DataFrame(
        {
            "target": np.repeat(np.arange(BASES), 3),
            "base": np.repeat(np.arange(BASES), 3),
            "cluster": np.repeat(clusters, 3) + 1000,
            "judge": ["judge 0", "judge 1", "judge 2"] * BASES,
            "score": scores.ravel(),
        }
    )
    found = reliability(ratings)
    icc = {one.name: one for one in found.icc["score"]}
    truth = icc_of_these_judges(model, LENIENCY[:3])
    return {
        "ICC(C,1)": holds(icc["ICC(C,1)"], truth["ICC(C,1)"]),
        "alpha over judges": holds(found.alpha_over_judges["score"], truth["ICC(C,k)"]),
        "Pearson, two judges": holds(found.pearson["score"][0], correlation_of(model, *LENIENCY[:2])),
    }


_TRUTH: Final = (
    "100 bases with 164 distinct texts of 300 (S 32, M 60, L 72), three models with one score each for a text"
)
_SETTINGS: Final = (setting(bases=BASES),)
CHECKS: Final = (
    Check(
        "shared texts: tests",
        "test",
        "toolkit.stats.clusters.over_clusters",
        f"{_TRUTH}; lengths, scenarios and models are alike",
        _no_effects,
        _SETTINGS,
    ),
    Check(
        "shared texts: means",
        "interval",
        "toolkit.stats.clusters.over_clusters",
        f"{_TRUTH}; M is {_EFFECT / 2:g} and L {_EFFECT:g} above S before scores are rounded",
        _effects,
        _SETTINGS,
    ),
    Check(
        "shared texts: agreement",
        "interval",
        "toolkit.stats.clusters.over_clusters",
        "100 bases with 72 distinct texts of L in 32 clusters, three judges; these judges over ever more answers",
        _agreement,
        _SETTINGS,
    ),
)

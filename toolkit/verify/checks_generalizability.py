"""Checks of variance components and what follows from them, of single judges, and of terms of the mixed model."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pandas as pd

from toolkit.stats.bland_altman import bland_altman
from toolkit.stats.component_estimates import variance_components
from toolkit.stats.components_design import Design
from toolkit.stats.generalizability import generalizability
from toolkit.stats.missing_data import imbalance_test
from toolkit.stats.mixed_model import mixed_model
from toolkit.stats.retest import retest
from toolkit.stats.severity import judge_severity
from toolkit.verify.check import NOMINAL, Check, Outcome, Setting, holds, rejects, setting
from toolkit.verify.drawn import (
    LENIENCY,
    components_of_drawn_judges,
    covariance_of,
    draw_ratings,
    icc_of_drawn_judges,
    matrix_of,
    mean_of,
    model_of,
    variance_of,
)

_DESIGN: Final = Design(("answer", "judge"))


def _new_judges(rng: np.random.Generator, made: Setting) -> Outcome:
    model, k = model_of(made), made.count("judges")
    leniency = rng.normal(0, model.judge, k)
    ratings = draw_ratings(
        rng, model, bases=made.count("answers"), leniency=leniency, missing=made.get("missing")
    )
    scores = ratings.rename(columns={"target": "answer"})
    components = variance_components(scores, _DESIGN, seed=int(rng.integers(2**31)))
    found, truth = generalizability(components, "answer"), icc_of_drawn_judges(model, k)
    outcome = {
        "Phi": holds(found.phi, truth["ICC(A,k)"]),
        "E-rho2": holds(found.e_rho2, truth["ICC(C,k)"]),
    }
    names = ("component of answers", "component of judges", "component of the rest")
    parts = zip(names, components.components, components_of_drawn_judges(model), strict=True)
    return outcome | {name: holds(one, value) for name, one, value in parts}


def _limits(rng: np.random.Generator, made: Setting) -> Outcome:
    model = model_of(made)
    leniency = LENIENCY[:2]
    ratings = draw_ratings(rng, model, bases=made.count("bases"), answers=3, leniency=np.array(leniency))
    answer = math.hypot(model.base, model.answer)
    whole = math.hypot(answer, model.residual)
    one, two = (model.mean + shift for shift in leniency)
    means = [float(mean_of(mean, whole)) for mean in (one, two)]
    shared = covariance_of(one, two, answer, model.residual)
    spread = math.sqrt(variance_of(one, whole) + variance_of(two, whole) - 2 * shared)
    values, bases = ratings["score"].to_numpy().reshape(-1, 2), ratings["base"].tolist()[::2]
    limits, bias = bland_altman(values[:, 0], values[:, 1], bases), means[0] - means[1]
    return {
        "bias of two judges": holds(limits.bias, bias),
        "lower limit of agreement": holds(limits.lower, bias - 1.96 * spread),
        "upper limit of agreement": holds(limits.upper, bias + 1.96 * spread),
    }


def _lenient(rng: np.random.Generator, made: Setting) -> Outcome:
    model, leniency = model_of(made), LENIENCY[:3]
    ratings = draw_ratings(rng, model, bases=made.count("bases"), answers=3, leniency=np.array(leniency))
    whole = math.hypot(model.base, model.answer, model.residual)
    means = [float(mean_of(model.mean + shift, whole)) for shift in leniency]
    found = judge_severity(matrix_of(ratings)).leniency["judge 0"]
    return {"leniency beside the others": holds(found, means[0] - (means[1] + means[2]) / 2)}


def _even_judges(rng: np.random.Generator, made: Setting) -> Outcome:
    ratings = draw_ratings(rng, model_of(made), bases=made.count("bases"), answers=3, leniency=np.zeros(3))
    found = [rejects(one) for one in judge_severity(matrix_of(ratings)).leniency.values()]
    return {"any of three judges": any(found)}


def _twice(rng: np.random.Generator, made: Setting) -> Outcome:
    model = model_of(made)
    ratings = draw_ratings(rng, model, bases=made.count("bases"), answers=3, leniency=np.zeros(2))
    ratings = ratings.rename(columns={"judge": "repeat"}).assign(judge="primary")
    answer = math.hypot(model.base, model.answer)
    total = variance_of(model.mean, math.hypot(answer, model.residual))
    shared = covariance_of(model.mean, model.mean, answer, model.residual)
    found = retest(ratings)["score", "primary"]
    return {
        "ICC(1,1) of repeats": holds(found.icc, shared / total),
        "SD of repeats": holds(found.sd, math.sqrt(total - shared)),
    }


def _terms(rng: np.random.Generator, made: Setting) -> Outcome:
    """Draw scores of two models and three scenarios in which nothing has an effect but bases and chance."""
    bases, shape = made.count("bases"), (made.count("bases"), 2, 3)
    scores = 3 + rng.normal(0, 0.5, (bases, 1, 1)) + rng.normal(0, 0.2, (bases, 2, 1))
    scores = scores + rng.normal(0, 0.2, (bases, 1, 3)) + rng.normal(0, 0.4, shape)
    scores[rng.random(shape) < made.get("missing")] = np.nan
    base, model, length = (place.ravel() for place in np.indices(shape))
    runs = pd.DataFrame(
        {
            "base": base,
            "scenario": np.array(["SOC_INCIDENT", "GRC_MAPPING", "CTI_ANALYSIS"])[base % 3],
            "model": np.array(["a", "b"])[model],
            "length_bin": np.array(list("SML"))[length],
            "composite": scores.ravel(),
        }
    )
    return {
        one.term: None if one.p_value is None else bool(one.p_value <= NOMINAL["test"])
        for one in mixed_model(runs).terms
    }


def _gaps(rng: np.random.Generator, made: Setting) -> Outcome:
    bases = made.count("bases")
    hard = np.repeat(rng.beta(2, 8, bases), 9)
    gone = rng.random(9 * bases) < hard
    levels, labels = np.tile(np.repeat(list("SML"), 3), bases), np.repeat(np.arange(bases), 9)
    found = imbalance_test("bin", gone, levels, labels, permutations=999, seed=int(rng.integers(2**31)))
    return {"missing alike in every bin": rejects(found)}


_BASES: Final = (setting(bases=12), setting(bases=30), setting(bases=100))
_CEILING: Final = (setting(bases=12, mean=4.5), setting(bases=30, mean=4.5))

CHECKS: Final = (
    Check(
        "generalizability, new judges",
        "interval",
        "toolkit.stats.component_estimates.variance_components, generalizability.generalizability",
        "Answers x judges, the judges drawn anew for every study; what the components are after rounding and cutting "
        "off.",
        _new_judges,
        (
            setting(answers=12, judges=3),
            setting(answers=30, judges=3),
            setting(answers=100, judges=3),
            setting(answers=30, judges=3, mean=4.5),
        ),
        "Generalized intervals rest on the normal model: at a ceiling lenient judges have less variance left.",
    ),
    Check(
        "limits of agreement",
        "interval",
        "toolkit.stats.bland_altman.bland_altman",
        "Three answers of each base, the same two judges in every study; limits of the differences on the scale.",
        _limits,
        (*_BASES, *_CEILING),
    ),
    Check(
        "leniency of judges",
        "interval",
        "toolkit.stats.severity.judge_severity",
        "Three answers of each base, the same three judges in every study.",
        _lenient,
        (setting(bases=12), setting(bases=12, mean=4.5)),
    ),
    Check(
        "leniency of judges, none",
        "test",
        "toolkit.stats.severity.judge_severity",
        "Three judges of whom none is milder; Holm bounds the chance of any false finding.",
        _even_judges,
        (setting(bases=12), setting(bases=30)),
        "The three differences add up to zero, so any of them is found too seldom.",
    ),
    Check(
        "the same judge twice",
        "interval",
        "toolkit.stats.retest.retest",
        "Three answers of each base, each scored twice by one judge.",
        _twice,
        (setting(bases=12), setting(bases=30), setting(bases=12, mean=4.5)),
    ),
    Check(
        "terms of the mixed model, none",
        "test",
        "toolkit.stats.mixed_model.mixed_model",
        "Two models, three scenarios and three length bins without any effect; bases differ, and react to models and "
        "lengths.",
        _terms,
        (setting(bases=12), setting(bases=30), setting(bases=30, missing=0.1)),
    ),
    Check(
        "missing scores, alike everywhere",
        "test",
        "toolkit.stats.missing_data.imbalance_test",
        "Three scores of each base and length bin, missing more often in hard bases and alike in every bin.",
        _gaps,
        (setting(bases=12), setting(bases=30)),
        "A permutation test of few missing scores has few arrangements, and rejects too seldom rather than too often.",
    ),
)

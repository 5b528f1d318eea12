"""Checks of how far judges can be trusted beyond the plain ICC: incomplete designs, and people."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from toolkit.stats.incomplete import IncompleteIcc, incomplete_icc
from toolkit.stats.krippendorff_alpha import krippendorff_alpha
from toolkit.stats.omega import omega_total
from toolkit.stats.ppi import prediction_powered_mean
from toolkit.stats.weighted_kappa import weighted_kappa
from toolkit.verify.check import Check, Outcome, Setting, holds, setting
from toolkit.verify.drawn import (
    LENIENCY,
    coefficients_of_these_judges,
    draw_ratings,
    icc_of_drawn_judges,
    icc_of_these_judges,
    matrix_of,
    mean_of,
    model_of,
    on_scale,
)

_ALL: Final = 300
"""Answers that the judges scored."""


def _three_of_five(rng: np.random.Generator, made: Setting) -> Outcome:
    found = _incomplete(rng, made, np.array(LENIENCY))
    truth = icc_of_these_judges(model_of(made), LENIENCY)
    return {
        "ICC(A,1)": holds(found.these_judges[0], truth["ICC(A,1)"]),
        "ICC(C,1)": holds(found.icc[1], truth["ICC(C,1)"]),
    }


def _three_of_new_five(rng: np.random.Generator, made: Setting) -> Outcome:
    model = model_of(made)
    found = _incomplete(rng, made, rng.normal(0, model.judge, len(LENIENCY)))
    return {"ICC(A,1)": holds(found.icc[0], icc_of_drawn_judges(model, len(LENIENCY))["ICC(A,1)"])}


def _incomplete(rng: np.random.Generator, made: Setting, leniency: np.ndarray) -> IncompleteIcc:
    ratings = draw_ratings(rng, model_of(made), bases=made.count("bases"), answers=3, leniency=leniency)
    order = rng.random((ratings["target"].nunique(), len(leniency))).argsort(axis=1).argsort(axis=1)
    return incomplete_icc(matrix_of(ratings[(order < 3).ravel()]))


def _coefficients(rng: np.random.Generator, made: Setting) -> Outcome:
    model, leniency = model_of(made), LENIENCY[:3]
    ratings = draw_ratings(rng, model, bases=made.count("bases"), answers=3, leniency=np.array(leniency))
    values, bases = ratings["score"].to_numpy().reshape(-1, 3), ratings["base"].tolist()[::3]
    truth = coefficients_of_these_judges(model, leniency)
    found = {
        "omega": omega_total(values, bases),
        "Krippendorff's alpha": krippendorff_alpha(values, bases),
        "weighted kappa": weighted_kappa(values[:, 0], values[:, 1], bases=bases),
    }
    return {name: holds(one, truth[name]) for name, one in found.items()}


def _calibrated(rng: np.random.Generator, made: Setting) -> Outcome:
    """People rate some of 300 answers, the judges all; the judges are too mild by half a point."""
    mean, rated, bases = made.get("mean", 3.0), made.count("rated"), made.count("bases", _ALL)
    base = np.arange(_ALL) % bases
    quality = rng.normal(0, 0.5, bases)[base] + rng.normal(0, 0.5, _ALL)
    people = on_scale(mean + quality + rng.normal(0, 0.4, _ALL))
    judged = on_scale(mean + 0.5 + quality + rng.normal(0, 0.4, _ALL))
    order = rng.permutation(_ALL)
    first, rest = order[:rated], order[rated:]
    found = prediction_powered_mean(
        "calibrated mean",
        people[first],
        judged[first],
        judged[rest],
        base[first].tolist(),
        base[rest].tolist(),
    )
    truth = float(mean_of(mean, math.sqrt(0.5**2 + 0.5**2 + 0.4**2)))
    return {"calibrated mean": holds(found.calibrated, truth)}


_BASES: Final = (setting(bases=12), setting(bases=30), setting(bases=100))
_CEILING: Final = (setting(bases=12, mean=4.5), setting(bases=30, mean=4.5))

CHECKS: Final = (
    Check(
        "ICC, three judges of five",
        "interval",
        "toolkit.stats.incomplete.incomplete_icc",
        "Three answers of each base, each scored by three of the same five judges, drawn at random.",
        _three_of_five,
        (*_BASES, *_CEILING),
    ),
    Check(
        "ICC, three judges of five drawn anew",
        "interval",
        "toolkit.stats.incomplete.incomplete_icc",
        "The same, and the five judges are drawn anew for every study.",
        _three_of_new_five,
        (setting(bases=12, judge_SD=0.4), setting(bases=30, judge_SD=0.4), setting(bases=100, judge_SD=0.2)),
    ),
    Check(
        "other coefficients of agreement, clustered by base",
        "interval",
        "toolkit.stats.omega.omega_total, krippendorff_alpha.krippendorff_alpha, weighted_kappa.weighted_kappa",
        "Three answers of each base, the same three judges in every study; weighted kappa (quadratic) of two of them.",
        _coefficients,
        (*_BASES, *_CEILING),
    ),
    Check(
        "mean calibrated against people",
        "interval",
        "toolkit.stats.ppi.prediction_powered_mean",
        "People rate some of 300 answers and the judges all of them, half a point too mildly.",
        _calibrated,
        (
            setting(rated=20),
            setting(rated=50),
            setting(rated=30, bases=30),
            setting(rated=30, bases=12),
            setting(rated=30, mean=4.5),
        ),
    ),
)

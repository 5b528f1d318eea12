"""Checks of the agreement of judges: ICC, alpha, correlations and kappa."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pandas as pd
from scipy import special

from toolkit.stats.alpha import OVER_DIMENSIONS, OVER_JUDGES, alpha_over_dimensions, alpha_over_judges
from toolkit.stats.auc import auc
from toolkit.stats.correlations import clustered_pearson, pearson_between_judges
from toolkit.stats.icc import icc_estimates
from toolkit.stats.icc_clustered import clustered_icc
from toolkit.stats.incomplete import THESE_JUDGES
from toolkit.stats.kappa import cohen_kappa, fleiss_kappa
from toolkit.stats.mean_squares import icc_from_mean_squares, mean_squares
from toolkit.stats.result import Estimate
from toolkit.verify.check import Check, Outcome, Setting, holds, setting
from toolkit.verify.drawn import (
    LENIENCY,
    correlation_of,
    covariance_of,
    draw_ratings,
    icc_of_drawn_judges,
    icc_of_these_judges,
    matrix_of,
    model_of,
    on_scale,
    variance_of,
)

_ITEMS: Final = 5


def _independent(rng: np.random.Generator, made: Setting) -> Outcome:
    model, k = model_of(made), made.count("judges")
    leniency = rng.normal(0, model.judge, k)
    ratings = draw_ratings(
        rng, model, bases=made.count("answers"), leniency=leniency, missing=made.get("missing")
    )
    matrix, truth = matrix_of(ratings.drop(columns="base")), icc_of_drawn_judges(model, k)
    outcome = {one.name: holds(one, truth[one.name]) for one in icc_estimates(matrix) if "1," not in one.name}
    outcome[OVER_JUDGES] = holds(alpha_over_judges(matrix), truth["ICC(C,k)"])
    pair = pearson_between_judges(matrix)[0]
    outcome["Pearson of two judges"] = holds(pair, correlation_of(model, leniency[0], leniency[1]))
    return outcome


def _one_way(rng: np.random.Generator, made: Setting) -> Outcome:
    model, k = model_of(made), made.count("judges")
    ratings = draw_ratings(rng, model, bases=made.count("answers"), leniency=np.zeros(k), crossed=False)
    truth = icc_of_drawn_judges(model, k)
    found = icc_estimates(matrix_of(ratings.drop(columns="base")))
    return {one.name: holds(one, truth[one.name]) for one in found if "1," in one.name}


def _clustered(rng: np.random.Generator, made: Setting) -> Outcome:
    model, leniency = model_of(made), LENIENCY[: made.count("judges")]
    ratings = draw_ratings(
        rng,
        model,
        bases=made.count("bases"),
        answers=3,
        leniency=np.array(leniency),
        missing=made.get("missing"),
    )
    truth, found = icc_of_these_judges(model, leniency), _clustered_forms(ratings)
    fixed = {name: f"{name}{THESE_JUDGES}" if name.startswith("ICC(A") else name for name in truth}
    return {name: holds(found[fixed[name]], truth[name]) for name in truth}


def _drawn_anew(rng: np.random.Generator, made: Setting) -> Outcome:
    model, k = model_of(made), made.count("judges")
    leniency = rng.normal(0, model.judge, k)
    ratings = draw_ratings(
        rng, model, bases=made.count("bases"), answers=made.count("answers", 3), leniency=leniency
    )
    # Those of ICC(A,k) hold the truth where those of ICC(A,1) do (Spearman-Brown).
    found, truth = _clustered_forms(ratings), icc_of_drawn_judges(model, k)["ICC(A,1)"]
    return {name: holds(found[name], truth) for name in ("ICC(A,1)", f"ICC(A,1){THESE_JUDGES}")}


def _clustered_forms(ratings: pd.DataFrame) -> dict[str, Estimate]:
    matrix = matrix_of(ratings)
    # Of the independent results it keeps the estimate alone, so they need no F interval by pingouin (20 ms) here.
    points = icc_from_mean_squares(mean_squares(matrix.values))
    found = clustered_icc(matrix, tuple(Estimate(form, value) for form, value in points.items()))
    return {one.name: one for one in found}


def _clustered_correlation(rng: np.random.Generator, made: Setting) -> Outcome:
    model = model_of(made)
    ratings = draw_ratings(rng, model, bases=made.count("bases"), answers=3, leniency=np.array(LENIENCY[:2]))
    one, other = ratings["score"].to_numpy().reshape(-1, 2).T
    found = clustered_pearson("r", one, other, ratings["base"].tolist()[::2])
    return {"r": holds(found, correlation_of(model, *LENIENCY[:2]))}


def _over_dimensions(rng: np.random.Generator, made: Setting) -> Outcome:
    model, n = model_of(made), made.count("judgements")
    level = rng.normal(0, model.base, (n, 1)) + rng.normal(0, model.residual, (n, _ITEMS))
    ratings = pd.DataFrame(
        {
            "target": np.repeat(np.arange(n), _ITEMS),
            "judge": "primary",
            "dimension": [f"dimension {place}" for place in range(_ITEMS)] * n,
            "score": on_scale(model.mean + level).ravel(),
        }
    )
    own = variance_of(model.mean, math.hypot(model.base, model.residual))
    shared = covariance_of(model.mean, model.mean, model.base, model.residual)
    truth = _ITEMS * shared / (own + (_ITEMS - 1) * shared)
    found = alpha_over_dimensions(ratings)
    return {OVER_DIMENSIONS: None if found is None else holds(found, truth)}


def _votes(rng: np.random.Generator, n: int, raters: int, share: float, right: float) -> np.ndarray:
    """Draw yes/no of raters who are each right with one chance, independently given what is true."""
    truth = rng.random((n, 1)) < share
    return truth ^ (rng.random((n, raters)) >= right)


def _kappa_of(share: float, right: float) -> float:
    """Return kappa of two such raters: both cases of agreement against what the margins alone would give."""
    yes = share * right + (1 - share) * (1 - right)
    agree = right**2 + (1 - right) ** 2
    chance = yes**2 + (1 - yes) ** 2
    return (agree - chance) / (1 - chance)


def _kappas(rng: np.random.Generator, made: Setting) -> Outcome:
    share, right, n = made.get("share"), made.get("right"), made.count("items")
    votes, truth = _votes(rng, n, 5, share, right), _kappa_of(share, right)
    return {
        "Cohen's kappa": holds(cohen_kappa(votes[:, 0].tolist(), votes[:, 1].tolist()), truth),
        "Fleiss' kappa, 5 raters": holds(fleiss_kappa(votes.tolist()), truth),
    }


def _area(rng: np.random.Generator, made: Setting) -> Outcome:
    n, apart = made.count("items"), made.get("apart")
    labels = np.arange(n) < n // 2
    scores = rng.normal(labels * apart, 1.0)
    return {"AUC": holds(auc(labels.tolist(), scores.tolist()), float(special.ndtr(apart / math.sqrt(2))))}


CHECKS: Final = (
    Check(
        "judges, answers independent",
        "interval",
        "toolkit.stats.icc.icc_estimates, alpha.alpha_over_judges, correlations.pearson_between_judges",
        "Judges are drawn anew for every study, each answer has its own base; ICC and alpha of the scores after "
        "rounding and cutting off, Pearson of the two judges drawn.",
        _independent,
        (
            setting(answers=12, judges=3),
            setting(answers=30, judges=3),
            setting(answers=100, judges=3),
            setting(answers=30, judges=5),
            setting(answers=30, judges=3, mean=4.5),
            setting(answers=30, judges=3, missing=0.05),
        ),
    ),
    Check(
        "one-way ICC",
        "interval",
        "toolkit.stats.icc.icc_estimates",
        "Every rating has a judge of its own, as the one-way model says.",
        _one_way,
        (
            setting(answers=12, judges=3),
            setting(answers=30, judges=3),
            setting(answers=30, judges=3, mean=4.5),
        ),
    ),
    Check(
        "ICC, clustered by base",
        "interval",
        "toolkit.stats.icc_clustered.clustered_icc",
        "Three answers of each base, the same judges in every study: what the ICC of these judges comes to with ever "
        "more bases.",
        _clustered,
        (
            setting(bases=12, judges=3),
            setting(bases=30, judges=3),
            setting(bases=100, judges=3),
            setting(bases=12, judges=3, mean=4.5),
            setting(bases=30, judges=3, mean=4.5),
            setting(bases=30, judges=3, missing=0.05),
        ),
    ),
    Check(
        "ICC(A,1), judges drawn anew, clustered by base",
        "interval",
        "toolkit.stats.icc_clustered.clustered_icc, incomplete.interval_for_new_judges",
        "Three answers of each base unless the setting says so; judges are drawn anew for every study; ICC(A,1) of the "
        "scores after rounding and cutting off.",
        _drawn_anew,
        (
            *(
                setting(bases=bases, judges=3, judge_SD=spread)
                for bases in (12, 30, 100)
                for spread in (0.2, 0.4)
            ),
            setting(bases=12, answers=9, judges=3, judge_SD=0.4),
            setting(bases=30, judges=2, judge_SD=0.4),
            setting(bases=30, judges=5, judge_SD=0.4),
            setting(bases=30, judges=3, judge_SD=0.4, mean=4.5),
        ),
        "The interval for these judges misses others: it says how far these agree, and therefore stands second. At a "
        "ceiling lenient judges have less variance left, which three judges cannot show.",
    ),
    Check(
        "correlation of two judges, clustered by base",
        "interval",
        "toolkit.stats.correlations.clustered_pearson",
        "Three answers of each base, two judges.",
        _clustered_correlation,
        (setting(bases=12), setting(bases=30), setting(bases=100), setting(bases=30, mean=4.5)),
    ),
    Check(
        "alpha over dimensions",
        "interval",
        "toolkit.stats.alpha.alpha_over_dimensions",
        "Five dimensions of independent judgements that measure one thing and each something of its own.",
        _over_dimensions,
        (setting(judgements=36), setting(judgements=108), setting(judgements=36, mean=4.5)),
    ),
    Check(
        "kappa",
        "interval",
        "toolkit.stats.kappa.cohen_kappa, fleiss_kappa",
        "Raters who are each right with one chance, independently given what is true of the item.",
        _kappas,
        (
            setting(items=36, share=0.5, right=0.85),
            setting(items=100, share=0.5, right=0.85),
            setting(items=100, share=0.2, right=0.9),
        ),
    ),
    Check(
        "area under the ROC curve",
        "interval",
        "toolkit.stats.auc.auc",
        "Normal scores of cases and non-cases, half of each.",
        _area,
        (setting(items=36, apart=1.0), setting(items=100, apart=1.0), setting(items=100, apart=2.0)),
    ),
)

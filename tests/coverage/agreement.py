"""Agreement of judges, generalizability, single judges and people, on drawn studies."""

import math

import draw
import numpy as np
import pandas as pd
from draw import (
    BASES,
    CEILING,
    LENIENCY,
    at,
    check,
    check_test,
    draw_ratings,
    matrix_of,
    model_of,
    of_bases,
    rejects,
)
from scipy import special

from toolkit.stats.agreement.coefficients import (
    OVER_DIMENSIONS,
    OVER_JUDGES,
    alpha_over_dimensions,
    alpha_over_judges,
    clustered_pearson,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    pearson_between_judges,
    weighted_kappa,
)
from toolkit.stats.agreement.drift import judge_drift
from toolkit.stats.agreement.icc import THESE_JUDGES, icc_estimates
from toolkit.stats.agreement.reliability import judge_leniency, retest
from toolkit.stats.detection.rates import auc
from toolkit.stats.generalizability.components import Design, variance_components
from toolkit.stats.generalizability.g_study import generalizability_study
from toolkit.stats.human.calibration import prediction_powered_contrasts, prediction_powered_mean

_ITEMS = 5


def _of_drawn_judges(rng, made, **shape):
    """Draw judges and then their ratings; return both with the model and the ICC of judges that are drawn."""
    model, k = model_of(made), made["judges"]
    leniency = rng.normal(0, model.judge, k)
    ratings = draw_ratings(rng, model, leniency=leniency, **shape)
    return model, leniency, ratings, draw.icc_of_drawn_judges(model, k)


@check(
    "judges, answers independent",
    "icc_estimates, alpha_over_judges, pearson_between_judges",
    (
        *at(answers=(12, 30, 100), judges=3),
        *at(answers=30, judges=5),
        *at(answers=30, judges=3, mean=4.5),
        *at(answers=30, judges=3, missing=0.05),
    ),
)
def _independent(rng, made):
    """Judges are drawn anew for every study, each answer has its own base; ICC and alpha of the scores after
    rounding and cutting off, Pearson of the two judges drawn.
    """
    model, leniency, ratings, truth = _of_drawn_judges(
        rng, made, bases=made["answers"], missing=made["missing"]
    )
    matrix = matrix_of(ratings.drop(columns="base"))
    outcome = {one.name: (one, truth[one.name]) for one in icc_estimates(matrix) if "1," not in one.name}
    outcome[OVER_JUDGES] = (alpha_over_judges(matrix), truth["ICC(C,k)"])
    pair = pearson_between_judges(matrix)[0]
    outcome["Pearson of two judges"] = (pair, draw.correlation_of(model, leniency[0], leniency[1]))
    return outcome


@check(
    "one-way ICC",
    "icc_estimates",
    at(answers=(12, 30), judges=3) + at(answers=30, judges=3, mean=4.5),
)
def _one_way(rng, made):
    """Every rating has a judge of its own, as the one-way model says."""
    model, k = model_of(made), made["judges"]
    ratings = draw_ratings(rng, model, bases=made["answers"], leniency=np.zeros(k), crossed=False)
    truth = draw.icc_of_drawn_judges(model, k)
    found = icc_estimates(matrix_of(ratings.drop(columns="base")))
    return {one.name: (one, truth[one.name]) for one in found if "1," in one.name}


@check(
    "ICC, clustered by base",
    "icc_estimates",
    (
        *at(bases=(12, 30, 100), judges=3),
        *at(bases=(12, 30), judges=3, mean=4.5),
        *at(bases=30, judges=3, missing=0.05),
    ),
)
def _clustered(rng, made):
    """Three answers of each base, the same judges in every study: what the ICC of these judges comes to with
    ever more bases.
    """
    model, leniency = model_of(made), LENIENCY[: made["judges"]]
    ratings = of_bases(rng, made, leniency)
    truth, found = draw.icc_of_these_judges(model, leniency), _clustered_forms(ratings)
    fixed = {name: f"{name}{THESE_JUDGES}" if name.startswith("ICC(A") else name for name in truth}
    return {name: (found[fixed[name]], truth[name]) for name in truth}


@check(
    "ICC(A,1), judges drawn anew, clustered by base",
    "icc_estimates, interval_for_new_judges",
    (
        *at(bases=(12, 30, 100), judges=3, judge_SD=(0.2, 0.4)),
        *at(bases=12, answers=9, judges=3, judge_SD=0.4),
        *at(bases=30, judges=(2, 5), judge_SD=0.4),
        *at(bases=30, judges=3, judge_SD=0.4, mean=4.5),
    ),
    note="The interval for these judges misses others: it is about the agreement of these judges, and is shown second. "
    "At a ceiling lenient judges have less variance left, which three judges cannot show.",
)
def _drawn_anew(rng, made):
    """Three answers of each base unless the setting says so; judges are drawn anew for every study; ICC(A,1) of
    the scores after rounding and cutting off.
    """
    _, _, ratings, truth = _of_drawn_judges(rng, made, bases=made["bases"], answers=made.get("answers", 3))
    # Those of ICC(A,k) hold the truth where those of ICC(A,1) do (Spearman-Brown).
    found = _clustered_forms(ratings)
    return {name: (found[name], truth["ICC(A,1)"]) for name in ("ICC(A,1)", f"ICC(A,1){THESE_JUDGES}")}


def _clustered_forms(ratings):
    return {one.name: one for one in icc_estimates(matrix_of(ratings))}


@check(
    "correlation of two judges, clustered by base",
    "clustered_pearson",
    BASES + at(bases=30, mean=4.5),
)
def _clustered_correlation(rng, made):
    """Three answers of each base, two judges."""
    model = model_of(made)
    ratings = of_bases(rng, made, LENIENCY[:2])
    one, other = ratings["score"].to_numpy().reshape(-1, 2).T
    found = clustered_pearson("r", one, other, ratings["base"].tolist()[::2])
    return {"r": (found, draw.correlation_of(model, *LENIENCY[:2]))}


@check(
    "alpha over dimensions",
    "alpha_over_dimensions",
    at(judgements=(36, 108)) + at(judgements=36, mean=4.5),
)
def _over_dimensions(rng, made):
    """Five dimensions of independent judgements that measure one thing and each something of its own."""
    model, n = model_of(made), made["judgements"]
    level = rng.normal(0, model.base, (n, 1)) + rng.normal(0, model.residual, (n, _ITEMS))
    ratings = pd.DataFrame(
        {
            "target": np.repeat(np.arange(n), _ITEMS),
            "judge": "primary",
            "dimension": [f"dimension {place}" for place in range(_ITEMS)] * n,
            "score": draw.on_scale(model.mean + level).ravel(),
        }
    )
    own = draw.variance_of(model.mean, math.hypot(model.base, model.residual))
    shared = draw.covariance_of(model.mean, model.mean, model.base, model.residual)
    truth = _ITEMS * shared / (own + (_ITEMS - 1) * shared)
    found = alpha_over_dimensions(ratings)
    return {OVER_DIMENSIONS: None if found is None else (found, truth)}


def _votes(rng, n, raters, share, right):
    """Draw yes/no of raters who are each right with one chance, independently given what is true."""
    truth = rng.random((n, 1)) < share
    return truth ^ (rng.random((n, raters)) >= right)


def _kappa_of(share, right):
    """Return kappa of two such raters: both cases of agreement against what the margins alone would give."""
    yes = share * right + (1 - share) * (1 - right)
    agree = right**2 + (1 - right) ** 2
    chance = yes**2 + (1 - yes) ** 2
    return (agree - chance) / (1 - chance)


@check(
    "kappa",
    "cohen_kappa, fleiss_kappa",
    at(items=(36, 100), share=0.5, right=0.85) + at(items=100, share=0.2, right=0.9),
)
def _kappas(rng, made):
    """Raters who are each right with one chance, independently given what is true of the item."""
    share, right, n = made["share"], made["right"], made["items"]
    votes, truth = _votes(rng, n, 5, share, right), _kappa_of(share, right)
    return {
        "Cohen's kappa": (cohen_kappa(votes[:, 0].tolist(), votes[:, 1].tolist()), truth),
        "Fleiss' kappa, 5 raters": (fleiss_kappa(votes.tolist()), truth),
    }


@check("area under the ROC curve", "auc", at(items=(36, 100), apart=1.0) + at(items=100, apart=2.0))
def _area(rng, made):
    """Normal scores of cases and non-cases, half of each."""
    n, apart = made["items"], made["apart"]
    labels = np.arange(n) < n // 2
    scores = rng.normal(labels * apart, 1.0)
    return {"AUC": (auc(labels.tolist(), scores.tolist()), float(special.ndtr(apart / math.sqrt(2))))}


_ALL = 300


@check(
    "other coefficients of agreement, clustered by base",
    "krippendorff_alpha, weighted_kappa",
    BASES + CEILING,
)
def _coefficients(rng, made):
    """Three answers of each base, the same three judges in every study; weighted kappa (quadratic) of two of
    them.
    """
    model, leniency = model_of(made), LENIENCY[:3]
    ratings = of_bases(rng, made, leniency)
    values, bases = ratings["score"].to_numpy().reshape(-1, 3), ratings["base"].tolist()[::3]
    truth = draw.coefficients_of_these_judges(model, leniency)
    found = {
        "Krippendorff's alpha": krippendorff_alpha(values, bases),
        "weighted kappa": weighted_kappa(values[:, 0], values[:, 1], bases=bases),
    }
    return {name: (one, truth[name]) for name, one in found.items()}


@check(
    "mean calibrated against people",
    "prediction_powered_mean",
    at(rated=(20, 50)) + at(rated=30, bases=(30, 12)) + at(rated=30, mean=4.5),
)
def _calibrated(rng, made):
    """People rate some of 300 answers and the judges all of them, half a point too mildly."""
    mean, rated, bases = made.get("mean", 3.0), made["rated"], made.get("bases", _ALL)
    base = np.arange(_ALL) % bases
    quality = rng.normal(0, 0.5, bases)[base] + rng.normal(0, 0.5, _ALL)
    people = draw.on_scale(mean + quality + rng.normal(0, 0.4, _ALL))
    judged = draw.on_scale(mean + 0.5 + quality + rng.normal(0, 0.4, _ALL))
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
    truth = float(draw.mean_of(mean, math.sqrt(0.5**2 + 0.5**2 + 0.4**2)))
    return {"calibrated mean": (found.calibrated, truth)}


@check(
    "lengths calibrated against people",
    "prediction_powered_contrasts",
    at(rated_bases=(8, 12, 24)) + at(rated_bases=8, mean=4.5),
    note="With fewer than 8 rated bases the result says that its interval is not verified.",
)
def _calibrated_lengths(rng, made):
    """S, M and L of 36 bases, M .15 better; people rate some bases whole, the judges all, .4 points too mildly."""
    mean = made.get("mean", 3.2)
    base, side = np.repeat(np.arange(36), 3), np.array(list("SML") * 36)
    shift = 0.15 * (side == "M")
    quality = mean + shift + rng.normal(0, 0.5, 36)[base] + rng.normal(0, 0.5, 108)
    people = draw.on_scale(quality + rng.normal(0, 0.4, 108))
    judged = draw.on_scale(quality + 0.4 + rng.normal(0, 0.4, 108))
    shown = base < made["rated_bases"]
    found = prediction_powered_contrasts(
        [("calibrated mean of S", "S", None), ("calibrated M - S", "M", "S")],
        people[shown],
        judged[shown],
        judged[~shown],
        side[shown].tolist(),
        side[~shown].tolist(),
        base[shown].tolist(),
        base[~shown].tolist(),
    )
    short, medium = (float(draw.mean_of(mean + more, math.hypot(0.5, 0.5, 0.4))) for more in (0.0, 0.15))
    truths = (short, medium - short)
    return {one.calibrated.name: (one.calibrated, truth) for one, truth in zip(found, truths, strict=True)}


_DESIGN = Design(("answer", "judge"))


@check(
    "generalizability, new judges",
    "variance_components, generalizability",
    at(answers=(12, 30, 100), judges=3) + at(answers=30, judges=3, mean=4.5),
    note="Generalized intervals rest on the normal model: at a ceiling lenient judges have less variance left.",
)
def _new_judges(rng, made):
    """Answers x judges, the judges drawn anew for every study; what the components are after rounding and
    cutting off.
    """
    model, _, ratings, truth = _of_drawn_judges(rng, made, bases=made["answers"], missing=made["missing"])
    scores = ratings.rename(columns={"target": "answer"})
    components = variance_components(scores, _DESIGN, seed=int(rng.integers(2**31)))
    found = generalizability_study(components, "answer")
    outcome = {"Phi": (found.phi, truth["ICC(A,k)"]), "E-rho2": (found.e_rho2, truth["ICC(C,k)"])}
    names = ("component of answers", "component of judges", "component of the rest")
    parts = zip(names, components.components, draw.components_of_drawn_judges(model), strict=True)
    return outcome | {name: (one, value) for name, one, value in parts}


@check("leniency of judges", "judge_leniency", at(bases=12) + at(bases=12, mean=4.5))
def _lenient(rng, made):
    """Three answers of each base, the same three judges in every study."""
    model, leniency = model_of(made), LENIENCY[:3]
    ratings = of_bases(rng, made, leniency)
    means = draw.moments_of(model, leniency)[0]
    found = judge_leniency(matrix_of(ratings))["judge 0"]
    return {"leniency beside the others": (found, means[0] - (means[1] + means[2]) / 2)}


@check_test(
    "leniency of judges, none",
    "judge_leniency",
    at(bases=(12, 30)),
    note="The three differences add up to zero, so any of them is found too seldom.",
)
def _even_judges(rng, made):
    """Three judges of whom none is milder; Holm bounds the chance of any false finding."""
    ratings = of_bases(rng, made, np.zeros(3))
    found = [rejects(one) for one in judge_leniency(matrix_of(ratings)).values()]
    return {"any of three judges": any(found)}


@check("the same judge twice", "retest", at(bases=(12, 30)) + at(bases=12, mean=4.5))
def _twice(rng, made):
    """Three answers of each base, each scored twice by one judge."""
    model = model_of(made)
    ratings = of_bases(rng, made, np.zeros(2))
    ratings = ratings.rename(columns={"judge": "repeat"}).assign(judge="primary")
    _, (total, _), (shared,) = draw.moments_of(model, (0.0, 0.0))
    icc, sd, _ = retest(ratings)["score", "primary"]
    return {
        "ICC(1,1) of repeats": (icc, shared / total),
        "SD of repeats": (sd, math.sqrt(total - shared)),
    }


@check(
    "drift of a judge",
    "judge_drift",
    (
        *at(bases=(10, 30, 100), changed=(0.1, 0.33), upwards=(0.5, 0.75)),
        *at(bases=(10, 30), changed=0.33, moving=(0.05, 0.15, 0.3), upwards=(0.5, 1.0)),
    ),
    note="Few bases with few changes have too few different outcomes for any interval to be exact.",
)
def _drifting(rng, made):
    """Whole scores of seven dimensions, three replies of each base; each score is rewritten by a point with a chance
    that differs between bases, upwards or downwards, in all bases or in a share that is moving.
    """
    bases, changed, upwards = int(made["bases"]), made["changed"], made["upwards"]
    moving = rng.random(bases) < made.get("moving", 1)
    chance = np.repeat(moving * rng.beta(9 * changed, 9 * (1 - changed), bases), 3)[:, None]
    step = np.where(rng.random((3 * bases, 7)) < upwards, 1, -1)
    first = rng.integers(1, 5, (3 * bases, 7)).astype(float)
    second = first + step * (rng.random((3 * bases, 7)) < chance)
    replies, names = np.arange(3 * bases), {"composite_strict": slice(0, 7), "clarity": slice(0, 1)}

    def frame(scores):
        rows = [
            pd.DataFrame(
                {"target": replies, "base": replies // 3, "dimension": name, "score": scores[:, some].mean(1)}
            )
            for name, some in names.items()
        ]
        return pd.concat(rows).assign(judge="primary")

    composite, dimension = judge_drift(frame(first), frame(second)).drifts
    changed *= made.get("moving", 1)
    shift = changed * (2 * upwards - 1)
    return {
        "shift of the composite": (composite.shift, shift),
        "shift of a dimension": (dimension.shift, shift),
        "scores of a dimension that changed": (dimension.changed, changed),
    }

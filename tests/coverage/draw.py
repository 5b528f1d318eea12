"""Studies drawn from a known model: base + length bin + answer + judge + residual, on the scale of a rubric.

Scores are normal first and then rounded to half points and cut off at 0 and 5, as judges' are; a high mean makes a
ceiling. What the truth is *after* that is calculated, not simulated: means by the normal distribution function,
variances and covariances by Gauss-Hermite quadrature over what two scores share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from toolkit.stats.agreement.icc import rating_matrix

NOMINAL = {"interval": 0.95, "test": 0.05, "power": 0.8}
"""How often an interval should hold the truth, a test reject what is true, and a test find what it was promised to."""
BAND = {"interval": 0.015, "test": 0.015, "power": 0.03}
"""How far the share of simulated studies may be from nominal."""


class Setting(dict[str, float]):
    """One kind of study, e.g. 12 bases and 3 judges; what is not set is 0."""

    def __missing__(self, name):
        return 0

    @property
    def label(self):
        """Name of the setting, e.g. ``bases 12, judges 3``."""
        return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in self.items())


def at(**numbers):
    """Return every combination of the numbers, where one name may have several."""
    each = [value if isinstance(value, tuple) else (value,) for value in numbers.values()]
    return tuple(Setting(zip(numbers, values, strict=True)) for values in product(*each))


BASES = at(bases=(12, 30, 100))
CEILING = at(bases=(12, 30), mean=4.5)

Outcome = dict[str, Any]
"""Of one study: quantity to an interval with its truth, to a test, or to what became of it (None without one)."""


@dataclass(frozen=True, eq=False)
class Check:
    """One statistic, how its studies are made, the settings it is tried on, and where it is known not to hold."""

    name: str
    kind: str
    functions: str
    settings: tuple[Setting, ...]
    truth: str
    simulate: Callable[..., Outcome]
    note: str = ""
    effect: tuple[float, ...] = ()

    def outcome(self, rng, made):
        """Draw one study: whether its intervals held the truth, or its tests rejected."""
        return {name: self._of(one) for name, one in self.simulate(rng, made, *self.effect).items()}

    def _of(self, found):
        if found is None or isinstance(found, bool | np.bool_):
            return found
        if self.kind != "interval":
            return rejects(found[0] if isinstance(found, tuple) else found)
        one, truth = found
        return (
            None if one is None or one.low is None or one.high is None else bool(one.low <= truth <= one.high)
        )


CHECKS = []


def check(
    name,
    functions,
    settings,
    kind="interval",
    note="",
    effect=None,
    none=(),
):
    """Register a simulation, whose docstring says how its studies are made and what the truth is.

    With an ``effect`` it is made twice: intervals where that is true, and as the test ``none`` (name, what is true, and
    where it is known not to hold) where nothing is.
    """

    def register(simulate):
        truth = " ".join((simulate.__doc__ or "").split())
        CHECKS.append(
            Check(name, kind, functions, settings, truth, simulate, note, () if effect is None else (effect,))
        )
        if none:
            CHECKS.append(
                Check(none[0], "test", functions, settings, none[1], simulate, "".join(none[2:]), (0.0,))
            )
        return simulate

    return register


check_test = partial(check, kind="test")


def rejects(found):
    """Return whether a test rejects at 5 %; None where it has no p value."""
    return None if found is None or found.p_value is None else bool(found.p_value <= NOMINAL["test"])


STEP = 0.5
TOP = 5.0
_EDGES = np.arange(STEP / 2, TOP, STEP)
"""What a score must exceed to be rounded one step up."""
_LEVELS = np.arange(1, len(_EDGES) + 1)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
LENIENCY = (-0.3, 0.1, 0.2, -0.1, 0.25)
"""What judges that are not drawn give more or less than others, in score points."""


@dataclass(frozen=True)
class Model:
    """How scores come about, in score points before rounding and cutting off."""

    mean: float = 3.0
    base: float = 0.5
    answer: float = 0.5
    judge: float = 0.25
    residual: float = 0.5

    @property
    def answers(self):
        """What answers differ by, in all judges alike."""
        return math.hypot(self.base, self.answer)

    @property
    def whole(self):
        """What the scores of one judge differ by."""
        return math.hypot(self.answers, self.residual)


def model_of(made):
    """Return the model of a setting; ``mean`` and ``judge_SD`` are what a setting may change."""
    return Model(mean=made.get("mean", 3.0), judge=made.get("judge_SD", 0.25))


def on_scale(scores):
    """Return scores in half points within 0-5."""
    return np.clip(np.rint(scores / STEP) * STEP, 0.0, TOP)


def mean_of(mean, deviation):
    """Return the mean of normal scores once they are on the scale."""
    above = special.ndtr((np.asarray(mean)[..., None] - _EDGES) / deviation)
    return STEP * above.sum(axis=-1)


def variance_of(mean, deviation):
    """Return the variance of normal scores once they are on the scale."""
    above = special.ndtr((mean - _EDGES) / deviation)
    return float(STEP**2 * ((2 * _LEVELS - 1) @ above) - mean_of(mean, deviation) ** 2)


def covariance_of(first, second, shared, own):
    """Return the covariance of two scores on the scale that share a normal part and each have one of their own."""
    one, other = (mean_of(mean + shared * _NODES, own) for mean in (first, second))
    return float(_WEIGHTS @ (one * other) - (_WEIGHTS @ one) * (_WEIGHTS @ other))


def draw_ratings(
    rng,
    model,
    *,
    bases,
    answers=1,
    leniency,
    missing=0.0,
    crossed=True,
):
    """Draw ratings: target, base, judge and score, NaN where missing."""
    n, k = bases * answers, len(leniency)
    level = np.repeat(rng.normal(0, model.base, bases), answers) + rng.normal(0, model.answer, n)
    said = np.asarray(leniency)[None, :] if crossed else rng.normal(0, model.judge, (n, k))
    scores = on_scale(model.mean + level[:, None] + said + rng.normal(0, model.residual, (n, k)))
    scores[rng.random((n, k)) < missing] = np.nan
    targets = np.arange(n)
    return pd.DataFrame(
        {
            "target": np.repeat(targets, k),
            "base": np.repeat(targets // answers, k),
            "judge": np.tile([f"judge {j}" for j in range(k)], n),
            "score": scores.ravel(),
        }
    )


def of_bases(rng, made, leniency):
    """Draw ratings of three answers of each base."""
    return draw_ratings(
        rng, model_of(made), bases=made["bases"], answers=3, leniency=leniency, missing=made["missing"]
    )


def matrix_of(ratings):
    """Return drawn ratings as the table of targets by judges that statistics of agreement take."""
    return rating_matrix(ratings, sorted(ratings["target"].unique()), sorted(ratings["judge"].unique()))


def draw_runs(rng, model, *, bases, effects, missing):
    """Draw one run for each base and length bin: base, level and composite, NaN where missing."""
    level = rng.normal(0, model.base, (bases, 1)) + rng.normal(0, model.residual, (bases, 3))
    scores = on_scale(model.mean + np.array(effects)[None, :] + level)
    scores[rng.random((bases, 3)) < missing] = np.nan
    return pd.DataFrame(
        {
            "base": np.repeat(np.arange(bases), 3),
            "level": list("SML") * bases,
            "composite_strict": scores.ravel(),
        }
    )


def crossed_runs(scores):
    """Return scores of bases x models a and b x length bins as runs."""
    base, model, length = (place.ravel() for place in np.indices(scores.shape))
    columns = {
        "base": base,
        "model": np.array(["a", "b"])[model],
        "level": np.array(list("SML"))[length],
    }
    return pd.DataFrame({**columns, "composite_strict": scores.ravel()})


@cache
def components_of_drawn_judges(model):
    """Return the variance components of answers, judges and the rest, where judges are drawn anew for every study."""
    answer, whole = model.answers, math.hypot(model.whole, model.judge)
    answers = covariance_of(model.mean, model.mean, answer, math.hypot(model.judge, model.residual))
    judges = covariance_of(model.mean, model.mean, model.judge, math.hypot(answer, model.residual))
    return answers, judges, variance_of(model.mean, whole) - answers - judges


@cache
def icc_of_drawn_judges(model, k):
    """Return the intraclass correlations where judges are drawn anew for every study, crossed and nested.

    ICC(A,.) and ICC(C,.) are those of a crossed study, ICC(1,.) of one in which every rating has its own judge.
    """
    answers, judges, error = components_of_drawn_judges(model)
    total = answers + judges + error
    return {
        "ICC(1,1)": answers / total,
        "ICC(1,k)": answers / (answers + (total - answers) / k),
        "ICC(A,1)": answers / total,
        "ICC(A,k)": answers / (answers + (judges + error) / k),
        "ICC(C,1)": answers / (answers + error),
        "ICC(C,k)": answers / (answers + error / k),
    }


def moments_of(model, leniency):
    """Return means and variances of the scores of these judges, and the covariances of their pairs."""
    means = [model.mean + shift for shift in leniency]
    return (
        [float(mean_of(mean, model.whole)) for mean in means],
        [variance_of(mean, model.whole) for mean in means],
        [covariance_of(one, two, model.answers, model.residual) for one, two in combinations(means, 2)],
    )


@cache
def icc_of_these_judges(model, leniency):
    """Return what the intraclass correlations of these judges come to with ever more answers (crossed)."""
    k, (means, variances, pairs) = len(leniency), moments_of(model, leniency)
    own, shared, between = float(np.mean(variances)), float(np.mean(pairs)), float(np.var(means, ddof=1))
    return {
        "ICC(1,1)": (k * shared - between) / (k * own + (k - 1) * between),
        "ICC(1,k)": (k * shared - between) / (own + (k - 1) * shared),
        "ICC(A,1)": shared / (own + between),
        "ICC(A,k)": k * shared / (own + (k - 1) * shared + between),
        "ICC(C,1)": shared / own,
        "ICC(C,k)": k * shared / (own + (k - 1) * shared),
    }


@cache
def coefficients_of_these_judges(model, leniency):
    r"""Return Krippendorff's alpha and weighted kappa of these judges, over ever more answers.

    With variances :math:`v_j`, covariances :math:`c_{ij}` and means :math:`m_j` of the scores, alpha (interval) is
    :math:`1 - (\bar v - \bar c + s_m^2) / (\bar v + s_m^2 (k - 1) / k)`; kappa of the first two with quadratic
    weights is :math:`2 c_{12} / (v_1 + v_2 + (m_1 - m_2)^2)`.
    """
    means, own, pairs = moments_of(model, leniency)
    within, shared, between = sum(own) / 3, sum(pairs) / 3, float(np.var(means, ddof=1))
    return {
        "Krippendorff's alpha": 1 - (within - shared + between) / (within + between * 2 / 3),
        "weighted kappa": 2 * pairs[0] / (own[0] + own[1] + (means[0] - means[1]) ** 2),
    }


def correlation_of(model, first, second):
    """Return Pearson's correlation of two judges who add ``first`` and ``second``, over ever more answers."""
    _, variances, (shared,) = moments_of(model, (first, second))
    return shared / math.sqrt(math.prod(variances))

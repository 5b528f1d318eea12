"""Checks of the designs around prompt length: ANOVA, equivalence, length bias, odds, resampling, and promised power."""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np
import pandas as pd
from scipy import special

from toolkit.stats.anova import friedman, repeated_measures
from toolkit.stats.equivalence import equivalence
from toolkit.stats.error_bars import paired_difference
from toolkit.stats.intervals import mean_interval
from toolkit.stats.length_slope import LengthBias, length_bias
from toolkit.stats.power_equivalence import smallest_margin
from toolkit.stats.power_paired import detectable_effect
from toolkit.stats.rate_difference import rate_difference
from toolkit.verify.check import NOMINAL, Check, Outcome, Setting, holds, rejects, setting
from toolkit.verify.drawn import draw_runs, mean_of, model_of, on_scale

_NONE: Final = (0.0, 0.0, 0.0)
_TOKENS: Final = (300.0, 500.0, 800.0)
"""Mean length of the replies to S, M and L, in tokens."""
_DIRECT: Final = (0.0, 0.1, 0.2)
"""What S, M and L add to a score at equal reply length."""
_MARGIN: Final = 0.25


def _no_difference(rng: np.random.Generator, made: Setting) -> Outcome:
    runs = draw_runs(rng, model_of(made), bases=made.count("bases"), effects=_NONE, missing=0.0)
    scores = runs["composite"].to_numpy().reshape(-1, 3)
    return {
        "repeated-measures ANOVA": rejects(repeated_measures(scores).as_estimate()),
        "Friedman": rejects(friedman(scores)),
    }


def _at_the_margin(rng: np.random.Generator, made: Setting) -> Outcome:
    differences = rng.normal(_MARGIN, 0.25, made.count("bases"))
    return {"two one-sided tests": rejects(equivalence("L-S", differences, _MARGIN))}


def _biased(rng: np.random.Generator, made: Setting, slope: float) -> LengthBias:
    """Draw replies of two models whose length depends on the bin and the base, and scores that depend on it."""
    bases = made.count("bases")
    shape = (bases, 2, 3)
    length = np.array(_TOKENS) + rng.normal(0, 100, (bases, 1, 1)) + rng.normal(0, 100, shape)
    scores = 3 + slope * length / 100 + np.array(_DIRECT)
    scores = scores + rng.normal(0, 0.5, (bases, 1, 1)) + rng.normal(0, 0.4, shape)
    base, model, bins = (place.ravel() for place in np.indices(shape))
    return length_bias(
        pd.DataFrame(
            {
                "base": base,
                "model": np.array(["a", "b"])[model],
                "length_bin": np.array(list("SML"))[bins],
                "composite": scores.ravel(),
                "output_tokens": length.ravel(),
            }
        )
    )


def _length_bias(rng: np.random.Generator, made: Setting) -> Outcome:
    found, slope = _biased(rng, made, 0.1), 0.1
    direct = _DIRECT[2] - _DIRECT[0]
    total = direct + slope * (_TOKENS[2] - _TOKENS[0]) / 100
    return {
        "slope": holds(found.slope, slope),
        "total effect L-S": holds(found.total[2], total),
        "direct effect L-S": holds(found.direct[2], direct),
    }


def _no_length_bias(rng: np.random.Generator, made: Setting) -> Outcome:
    return {"slope": rejects(_biased(rng, made, 0.0).slope)}


def _two_models(rng: np.random.Generator, made: Setting) -> Outcome:
    """Two models answer the same three prompts of each base; a hit is a score of four or more."""
    model, bases = model_of(made), made.count("bases")
    level = np.repeat(rng.normal(0, model.base, bases), 3)
    first, second = (
        on_scale(model.mean + plus + level + rng.normal(0, model.residual, 3 * bases)) for plus in (0.3, 0.0)
    )
    whole, labels = math.hypot(model.base, model.residual), np.repeat(np.arange(bases), 3).tolist()
    means = [float(mean_of(model.mean + plus, whole)) for plus in (0.3, 0.0)]
    rates = [float(special.ndtr((model.mean + plus - 3.75) / whole)) for plus in (0.3, 0.0)]
    scores = paired_difference("a - b", first, second, labels)
    hits = rate_difference("a - b", first >= 4, second >= 4, labels)
    return {
        "difference of means": holds(scores, means[0] - means[1]),
        "difference of rates": holds(hits, rates[0] - rates[1]),
    }


@cache
def _promised(bases: int) -> tuple[float, float]:
    """Return the effect that a paired t test finds, and the margin within which TOST finds equivalence, in 4 of 5."""
    found = detectable_effect(bases, 1.0, power=NOMINAL["power"]).estimate
    margin = smallest_margin(bases, 1.0, power=NOMINAL["power"]).estimate
    return float(found or math.nan), float(margin or math.nan)


def _power(rng: np.random.Generator, made: Setting) -> Outcome:
    bases = made.count("bases")
    effect, margin = _promised(bases)
    differences = rng.normal(0.0, 1.0, bases)
    p_value = mean_interval(differences + effect).p_value
    return {
        "paired t test": None if p_value is None else p_value <= NOMINAL["test"],
        "two one-sided tests": rejects(equivalence("L-S", differences, margin)),
    }


_BASES: Final = (setting(bases=12), setting(bases=30), setting(bases=100))
_CEILING: Final = (setting(bases=12, mean=4.5), setting(bases=30, mean=4.5))

CHECKS: Final = (
    Check(
        "any difference between lengths, none",
        "test",
        "toolkit.stats.anova.repeated_measures, friedman",
        "One run of each base and length bin, no difference between the bins.",
        _no_difference,
        (*_BASES, *_CEILING),
    ),
    Check(
        "equivalence, at the margin",
        "test",
        "toolkit.stats.equivalence.equivalence",
        "Differences whose mean is the margin itself, where equivalence is just not true.",
        _at_the_margin,
        _BASES,
    ),
    Check(
        "length bias",
        "interval",
        "toolkit.stats.length_slope.length_bias",
        "Two models; the reply's length depends on bin and base, the score on length and bin.",
        _length_bias,
        _BASES,
    ),
    Check(
        "length bias, none",
        "test",
        "toolkit.stats.length_slope.length_bias",
        "The same where the length does nothing to the score.",
        _no_length_bias,
        _BASES,
    ),
    Check(
        "two models on the same prompts",
        "interval",
        "toolkit.stats.error_bars.paired_difference, rate_difference.rate_difference",
        "Three prompts of each base, the first model 0.3 points better; a rate is the share of scores of 4 or more.",
        _two_models,
        (setting(bases=12), setting(bases=30), setting(bases=12, mean=4.5)),
    ),
    Check(
        "power as computed",
        "power",
        "toolkit.stats.power_paired.detectable_effect, toolkit.stats.power_equivalence.smallest_margin",
        "The effect that the paired t test, and the margin that two one-sided tests, are said to find in 80 % of "
        "studies with as many bases.",
        _power,
        _BASES,
    ),
)

"""Rates of deciders, corrected prevalence, the one-shot test and Holm, on drawn studies."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import pandas as pd
from draw import (
    Check,
    Outcome,
    Setting,
    at,
    holds,
    rejects,
)

from toolkit.scoring.one_shot import one_shot_score
from toolkit.stats.classification import classify, confusion
from toolkit.stats.inference.multiplicity import holm
from toolkit.stats.inference.proportions import share
from toolkit.stats.one_shot_compare import compare_one_shot
from toolkit.stats.one_shot_methods import WEIGHTS, MethodScore, overall
from toolkit.stats.one_shot_pair import compare_two_methods
from toolkit.stats.paired_decisions import mcnemar
from toolkit.stats.prevalence import corrected_prevalence
from toolkit.stats.result import Estimate

_ALIKE: Final = 0.3


def _alone(rng: np.random.Generator, made: Setting) -> Outcome:
    hits = rng.random(made["cases"]) < made["share"]
    return {"share": holds(share("share", hits.tolist()), made["share"])}


def _in_bases(rng: np.random.Generator, made: Setting) -> Outcome:
    bases, p = made["bases"], made["share"]
    strength = 1 / _ALIKE - 1
    chance = np.repeat(rng.beta(p * strength, (1 - p) * strength, bases), 3)
    hits = rng.random(3 * bases) < chance
    return {"share": holds(share("share", hits.tolist(), np.repeat(np.arange(bases), 3).tolist()), p)}


def _decisions(rng: np.random.Generator, labels: np.ndarray, se: float, sp: float) -> np.ndarray:
    return rng.random(len(labels)) < np.where(labels, se, 1 - sp)


def _rates(rng: np.random.Generator, made: Setting) -> Outcome:
    n, se, sp = made["items"], made["sensitivity"], made["specificity"]
    labels = rng.random(n) < 0.5
    found = classify(labels.tolist(), _decisions(rng, labels, se, sp).tolist())
    accuracy, precision = (se + sp) / 2, se / (se + 1 - sp)
    truth = {
        "accuracy": accuracy,
        "sensitivity": se,
        "specificity": sp,
        "precision": precision,
        "F1": 2 * precision * se / (precision + se),
        "balanced accuracy": accuracy,
    }
    return {one.name: holds(one, truth[one.name]) for one in found.rates}


def _two(rng: np.random.Generator, made: Setting, better: float) -> Estimate:
    """Draw two deciders that are often right and wrong together."""
    n = made["items"]
    labels = rng.random(n) < 0.5
    hard = rng.random(n) < 0.4
    ease = np.where(hard, 0.5, 0.95)
    right = [rng.random(n) < np.clip(ease + plus, 0, 1) for plus in (better * hard, 0.0)]
    first, second = (np.where(hit, labels, ~labels) for hit in right)
    return mcnemar(labels.tolist(), first.tolist(), second.tolist())


def _difference(rng: np.random.Generator, made: Setting) -> Outcome:
    return {"difference of accuracies": holds(_two(rng, made, 0.3), 0.4 * 0.3)}


def _no_difference(rng: np.random.Generator, made: Setting) -> Outcome:
    return {"McNemar": rejects(_two(rng, made, 0.0))}


def _prevalence(rng: np.random.Generator, made: Setting) -> Outcome:
    labelled, truth = made["labelled"], made["prevalence"]
    known = np.arange(2 * labelled) < labelled
    judge = confusion(known.tolist(), _decisions(rng, known, 0.9, 0.7).tolist())
    items = rng.random(made["unlabelled"]) < truth
    found = corrected_prevalence(_decisions(rng, items, 0.9, 0.7).tolist(), judge)
    return {"prevalence": holds(found.corrected, truth)}


@lru_cache(maxsize=4096)
def _score(expected: int, unexpected: int, hallucinated: int) -> Any:
    """Return one score; a thousand studies of ten experiments meet 66 outcomes, each of which costs 5 ms."""
    return one_shot_score(expected, unexpected, hallucinated)


def _outcomes(made: Setting) -> np.ndarray:
    return np.array([made["expected"], made["unexpected"], made["hallucinated"]])


def _one_shot(rng: np.random.Generator, made: Setting) -> Outcome:
    shares = _outcomes(made)
    found = _score(*map(int, rng.multinomial(made["experiments"], shares)))
    return {"raw score": bool(found.low <= float(shares @ WEIGHTS) <= found.high)}


@lru_cache(maxsize=4096)
def _pair(first: tuple[int, ...], second: tuple[int, ...]) -> Estimate:
    return compare_two_methods(first, second)


def _two_methods(rng: np.random.Generator, made: Setting, shares: np.ndarray) -> Estimate:
    n = made["experiments"]
    first, second = (tuple(map(int, rng.multinomial(n, each))) for each in (_outcomes(made), shares))
    return _pair(first, second)


_BETTER: Final = np.array([0.8, 0.1, 0.1])


def _pair_interval(rng: np.random.Generator, made: Setting) -> Outcome:
    truth = float((_BETTER - _outcomes(made)) @ WEIGHTS)
    return {"difference": holds(_two_methods(rng, made, _BETTER), truth)}


def _pair_test(rng: np.random.Generator, made: Setting) -> Outcome:
    return {"difference": rejects(_two_methods(rng, made, _outcomes(made)))}


def _answered(rng: np.random.Generator, questions: int, better: float) -> np.ndarray:
    """Draw the counts of ten experiments a question for a method; questions differ in how hard they are."""
    easy = rng.beta(4 + better, 2, questions)
    return np.array([rng.multinomial(10, (p, 0.6 * (1 - p), 0.4 * (1 - p))) for p in easy])


def _overall(rng: np.random.Generator, made: Setting) -> Outcome:
    counts = _answered(rng, made["questions"], 0.0)
    methods = [
        MethodScore(f"m{n}", "v", f"q{n}", "s", "x", i1, i0, h, 10, _score(i1, i0, h))
        for n, (i1, i0, h) in enumerate(counts.tolist())
    ]
    truth = 4 / 6 + (1 - 4 / 6) * 0.4 * WEIGHTS[2]
    return {"mean raw score": holds(overall("mean", methods), truth)}


def _variants(rng: np.random.Generator, made: Setting) -> Outcome:
    """Three variants that answer every question equally well, whatever the question."""
    questions = made["questions"]
    easy = rng.beta(4, 2, questions)
    rows = [
        {"question": f"q{place}", "variant": variant, "model": "m", "raw": float(counts @ WEIGHTS) / 10}
        for variant in ("plain", "careful", "brief")
        for place, p in enumerate(easy)
        for counts in [rng.multinomial(10, (p, 0.6 * (1 - p), 0.4 * (1 - p)))]
    ]
    found = [rejects(one) for one in compare_one_shot(pd.DataFrame(rows)).contrasts]
    return {"any of three, Holm": any(found)}


def _holm(rng: np.random.Generator, made: Setting) -> Outcome:
    corrected = holm(rng.random(made["tests"]).tolist())
    return {"any test": any(p is not None and p <= 0.05 for p in corrected)}


_COARSE: Final = (
    "Counts take few values, so coverage jumps from share to share: an exact method covers at least 95 %, Wilson's "
    "95 % on average over shares."
)

_TEN: Final = (
    *at(experiments=10, expected=0.6, unexpected=0.2, hallucinated=0.2),
    *at(experiments=10, expected=0.95, unexpected=0.03, hallucinated=0.02),
    *at(experiments=30, expected=0.6, unexpected=0.2, hallucinated=0.2),
)

CHECKS: Final = (
    Check(
        "share, cases alone",
        "interval",
        "share",
        "Independent cases.",
        _alone,
        at(cases=(12, 36, 100), share=(0.1, 0.5, 0.9)),
        _COARSE,
    ),
    Check(
        "share, clustered by base",
        "interval",
        "share",
        f"Three cases of each base with a correlation of {_ALIKE:g}.",
        _in_bases,
        at(bases=(12, 30, 100), share=(0.1, 0.5, 0.9)),
        _COARSE,
    ),
    Check(
        "rates of a decider",
        "interval",
        "classify",
        "Items drawn at random, half of them cases.",
        _rates,
        (
            *at(items=72, sensitivity=0.8, specificity=0.7),
            *at(items=200, sensitivity=0.8, specificity=0.7),
            *at(items=72, sensitivity=0.95, specificity=0.9),
        ),
        _COARSE,
    ),
    Check(
        "two deciders",
        "interval",
        "mcnemar",
        "The same items, two of five of them hard for both; the first is better on hard ones.",
        _difference,
        (*at(items=72), *at(items=200)),
    ),
    Check(
        "two deciders, equally good",
        "test",
        "mcnemar",
        "The same, none better.",
        _no_difference,
        (*at(items=72), *at(items=200)),
        "The exact test never rejects too often and, with few discordant items, too seldom.",
    ),
    Check(
        "prevalence corrected for a judge",
        "interval",
        "corrected_prevalence",
        "A judge of sensitivity .9 and specificity .7, known from as many labelled items of each kind.",
        _prevalence,
        (
            *at(labelled=36, unlabelled=300, prevalence=0.1),
            *at(labelled=36, unlabelled=300, prevalence=0.6),
            *at(labelled=100, unlabelled=300, prevalence=0.1),
            *at(labelled=100, unlabelled=300, prevalence=0.6),
        ),
    ),
    Check(
        "one-shot score",
        "interval",
        "one_shot_score",
        "One method; the interval extends an exact one and covers at least 95 % whatever the shares.",
        _one_shot,
        _TEN,
        "Conservative on purpose: ten experiments have few outcomes, and none may be covered too seldom.",
    ),
    Check(
        "two methods of the one-shot test",
        "interval",
        "compare_two_methods",
        "The second method expected .8, unexpected .1, hallucinated .1.",
        _pair_interval,
        _TEN[:1],
        "Made from two exact intervals, and as conservative.",
    ),
    Check(
        "two methods of the one-shot test, equally good",
        "test",
        "compare_two_methods",
        "Both methods alike.",
        _pair_test,
        _TEN[:2],
        "The exact test never rejects too often and, with few outcomes, too seldom.",
    ),
    Check(
        "mean over questions of the one-shot test",
        "interval",
        "overall",
        "Ten experiments of each of the questions, which differ in how hard they are.",
        _overall,
        (*at(questions=12), *at(questions=30)),
    ),
    Check(
        "variants of the one-shot test, equally good",
        "test",
        "compare_one_shot",
        "Three variants that answer every question equally well; Holm bounds the chance of any false finding.",
        _variants,
        (*at(questions=8), *at(questions=12)),
        "Holm's bound holds for any dependence; the contrasts depend on each other, so findings are too rare.",
    ),
    Check(
        "Holm",
        "test",
        "holm",
        "Independent tests of true null hypotheses.",
        _holm,
        (*at(tests=3), *at(tests=10)),
    ),
)

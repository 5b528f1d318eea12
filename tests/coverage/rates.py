"""Rates of deciders, corrected prevalence, the one-shot test and Holm, on drawn studies."""

from functools import lru_cache
from itertools import combinations, product

import numpy as np
import pandas as pd
from draw import at, check, check_test, rejects

from toolkit.scoring import one_shot_score
from toolkit.stats.comparisons.models import accuracy
from toolkit.stats.comparisons.pairs import compare_pairs
from toolkit.stats.conditions.contrasts import compare_conditions
from toolkit.stats.detection.rates import classify, mcnemar
from toolkit.stats.inference.p_values import holm
from toolkit.stats.inference.proportions import rate_mean, share
from toolkit.stats.one_shot.methods import (
    WEIGHTS,
    MethodScore,
    overall,
)
from toolkit.stats.result import Estimate

_COARSE = (
    "Counts take few values, so coverage jumps: exact methods cover at least 95 %, Wilson's 95 % on average."
)

_TEN = (
    *at(experiments=10, expected=0.6, unexpected=0.2, hallucinated=0.2),
    *at(experiments=10, expected=0.95, unexpected=0.03, hallucinated=0.02),
    *at(experiments=30, expected=0.6, unexpected=0.2, hallucinated=0.2),
)

_ALIKE = 0.3


@check("share, cases alone", "share", at(cases=(12, 36, 100), share=(0.1, 0.5, 0.9)), note=_COARSE)
def _alone(rng, made):
    """Independent cases."""
    hits = rng.random(made["cases"]) < made["share"]
    return {"share": (share("share", hits.tolist()), made["share"])}


@check(
    "share, clustered by base",
    "share",
    at(bases=(12, 30, 100), share=(0.1, 0.5, 0.9)),
    note=_COARSE,
)
def _in_bases(rng, made):
    """Three cases of each base with a correlation of 0.3."""
    bases, p = made["bases"], made["share"]
    strength = 1 / _ALIKE - 1
    chance = np.repeat(rng.beta(p * strength, (1 - p) * strength, bases), 3)
    hits = rng.random(3 * bases) < chance
    return {"share": (share("share", hits.tolist(), np.repeat(np.arange(bases), 3).tolist()), p)}


def _decisions(rng, labels, se, sp):
    return rng.random(len(labels)) < np.where(labels, se, 1 - sp)


@check(
    "rates of a decider",
    "classify",
    at(items=(72, 200), sensitivity=0.8, specificity=0.7) + at(items=72, sensitivity=0.95, specificity=0.9),
    note=_COARSE,
)
def _rates(rng, made):
    """Items drawn at random, half of them cases."""
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
    return {one.name: (one, truth[one.name]) for one in found.rates}


@check(
    "two deciders", "mcnemar", at(items=(72, 200)), effect=0.3,
    none=(
        "two deciders, equally good",
        "The same, none better.",
        "The exact test never rejects too often and, with few discordant items, too seldom.",
    ),
)  # fmt: skip
def _two(rng, made, better):
    """The same items, two of five of them hard for both; the first is better on hard ones."""
    n = made["items"]
    labels = rng.random(n) < 0.5
    hard = rng.random(n) < 0.4
    ease = np.where(hard, 0.5, 0.95)
    right = [rng.random(n) < np.clip(ease + plus, 0, 1) for plus in (better * hard, 0.0)]
    first, second = (np.where(hit, labels, ~labels) for hit in right)
    name = "difference of accuracies" if better else "McNemar"
    return {name: (mcnemar(labels.tolist(), first.tolist(), second.tolist()), 0.4 * better)}


@lru_cache(maxsize=4096)
def _score(expected, unexpected, hallucinated):
    """Return one score; a thousand studies of ten experiments meet 66 outcomes, each of which costs 5 ms."""
    return one_shot_score(expected, unexpected, hallucinated)


def _outcomes(made):
    return np.array([made["expected"], made["unexpected"], made["hallucinated"]])


@check(
    "one-shot score",
    "one_shot_score",
    _TEN,
    note="Conservative on purpose: ten experiments have few outcomes, and none may be covered too seldom.",
)
def _one_shot(rng, made):
    """One method; the interval extends an exact one and covers at least 95 % whatever the shares."""
    shares = _outcomes(made)
    found = _score(*map(int, rng.multinomial(made["experiments"], shares)))
    return {"raw score": bool(found.low <= float(shares @ WEIGHTS) <= found.high)}


def _answered(rng, questions, better):
    """Draw the counts of ten experiments a question for a method; questions differ in how hard they are."""
    easy = rng.beta(4 + better, 2, questions)
    return np.array([rng.multinomial(10, (p, 0.6 * (1 - p), 0.4 * (1 - p))) for p in easy])


@check("mean over questions of the one-shot test", "overall", at(questions=(12, 30)))
def _overall(rng, made):
    """Ten experiments of each of the questions, which differ in how hard they are."""
    counts = _answered(rng, made["questions"], 0.0)
    methods = [
        MethodScore(i1, i0, h, 10, f"m{n}", "v", "none", f"q{n}", "s", "x", _score(i1, i0, h))
        for n, (i1, i0, h) in enumerate(counts.tolist())
    ]
    truth = 4 / 6 + (1 - 4 / 6) * 0.4 * WEIGHTS[2]
    return {"mean raw score": (overall("mean", methods), truth)}


@check_test(
    "variants of the one-shot test, equally good",
    "compare_conditions",
    at(questions=(8, 12)),
    note="Holm's bound holds for any dependence, and these contrasts depend on each other.",
)
def _variants(rng, made):
    """Three variants that answer every question equally well; Holm bounds the chance of any false finding."""
    questions = made["questions"]
    easy = rng.beta(4, 2, questions)
    rows = [
        {"base": f"q{place}", "variant": variant, "raw": float(counts @ WEIGHTS) / 10}
        for variant in ("plain", "careful", "brief")
        for place, p in enumerate(easy)
        for counts in [rng.multinomial(10, (p, 0.6 * (1 - p), 0.4 * (1 - p)))]
    ]
    found = [
        rejects(one) for one in compare_conditions(pd.DataFrame(rows), "raw", factor="variant").contrasts
    ]
    return {"any of three, Holm": any(found)}


@check_test("Holm", "holm", at(tests=(3, 10)))
def _holm(rng, made):
    """Independent tests of true null hypotheses."""
    corrected = holm(rng.random(made["tests"]).tolist())
    return {"any test": any(p is not None and p <= 0.05 for p in corrected)}


@check(
    "accuracy on questions with a key",
    "accuracy",
    at(bases=(12, 30, 100), share=(0.1, 0.5, 0.97)),
    note=_COARSE,
)
def _accuracies(rng, made):
    """One to seven questions on each document, with a correlation of 0.2."""
    p, strength = made["share"], 1 / 0.2 - 1
    sizes = rng.integers(1, 8, made["bases"])
    chance = np.repeat(rng.beta(p * strength, (1 - p) * strength, made["bases"]), sizes)
    right = (rng.random(len(chance)) < chance).astype(float)
    documents = np.repeat([f"d{number}" for number in range(made["bases"])], sizes)
    return {
        "accuracy": (
            accuracy(pd.DataFrame({"model": "m", "base": documents, "correct": right})).accuracies[0],
            p,
        )
    }


@check(
    "rate with one large document",
    "rate_mean",
    at(bases=(5, 8, 12), share=(0.05, 0.5, 0.9, 0.97), largest=(0.5, 0.9)),
    note="A large document is worth little more than one question: intervals are .2 to .6 wide where it has half of "
    "all questions, .4 to .8 where it has nine tenths.",
)
def _large(rng, made):
    """Five questions on each document but one, which has half or nine tenths of all; a correlation of 0.2."""
    p, strength, others = made["share"], 1 / 0.2 - 1, 5 * (int(made["bases"]) - 1)
    sizes = [round(others * made["largest"] / (1 - made["largest"])), *[5] * (int(made["bases"]) - 1)]
    documents = np.repeat(np.arange(len(sizes)), sizes)
    right = rng.random(len(documents)) < rng.beta(p * strength, (1 - p) * strength, len(sizes))[documents]
    return {"rate": (rate_mean(Estimate("rate", None), right, documents.tolist()), p)}


@check(
    "Bradley-Terry differences",
    "compare_pairs",
    (*at(bases=(12, 30), models=3), *at(bases=12, models=3, unbeaten=1)),
)
def _strengths(rng, made):
    """Every pair of models on each base in both orders, by a judge that prefers the first reply by 0.4 logits; a
    third of the votes on a base repeat another one on the same pair. An unbeaten model more wins every vote.
    """
    strengths = np.append(np.linspace(-0.8, 0.8, made["models"]), [40.0] * int(made["unbeaten"]))
    rows = []
    for base, (a, b) in product(range(made["bases"]), combinations(range(len(strengths)), 2)):
        common = rng.random()
        for first, second in ((a, b), (b, a)):
            chance = 1 / (1 + np.exp(-(strengths[first] - strengths[second] + 0.4)))
            draw = common if rng.random() < 1 / 3 else rng.random()
            draw = draw if first == a else 1 - draw
            vote = "first" if draw < chance else "second"
            rows.append((f"b{base}", f"p{base}", "j", f"m{first}", f"m{second}", vote))
    votes = pd.DataFrame(rows, columns=["base", "prompt", "judge", "first", "second", "vote"])
    differences = compare_pairs(votes).differences
    truths = (strengths[a] - strengths[b] for a, b in combinations(range(len(strengths)), 2))
    return {d.name: (d, truth) for d, truth in zip(differences, truths, strict=True) if truth > -9}

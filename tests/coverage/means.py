"""Means and their differences, prompt length, slopes, probes, power, and bases that share texts, on drawn studies."""

import math
from functools import cache

import draw
import numpy as np
import pandas as pd
from draw import (
    BASES,
    CEILING,
    at,
    check,
    check_test,
    draw_runs,
    mean_of,
    model_of,
    on_scale,
    rejects,
)
from scipy import special

from toolkit.stats.agreement.drift import probe_shifts
from toolkit.stats.agreement.reliability import reliability
from toolkit.stats.comparisons.models import compare_models, paired_difference, rate_difference
from toolkit.stats.conditions.contrasts import compare_conditions, equivalence, repeated_measures
from toolkit.stats.conditions.reply_length import length_bias
from toolkit.stats.inference.means import bounded_mean, clustered_mean, clustered_slope, mean_interval
from toolkit.stats.power.sample_size import detectable_effect, smallest, tost_power
from toolkit.stats.result import Estimate
from toolkit.words import LENGTH_ARMS, LENGTH_BINS

_EFFECTS = (0.0, 0.2, 0.5)

_NONE = (0.0, 0.0, 0.0)


@cache
def _length_truth(model):
    """Return the means of S, M and L, their differences, and d_z, on the scale."""
    whole = math.hypot(model.base, model.residual)
    before = {name: model.mean + effect for name, effect in zip("SML", _EFFECTS, strict=True)}
    truth = {name: float(mean_of(mean, whole)) for name, mean in before.items()}
    for one, other in (("M", "S"), ("L", "M"), ("L", "S")):
        shared = draw.covariance_of(before[one], before[other], model.base, model.residual)
        spread = draw.variance_of(before[one], whole) + draw.variance_of(before[other], whole) - 2 * shared
        truth[f"{one}-{other}"] = truth[one] - truth[other]
        truth[f"d_z({one}-{other})"] = truth[f"{one}-{other}"] / math.sqrt(spread)
    return truth


@check("prompt lengths", "compare_conditions", BASES + CEILING + at(bases=12, missing=0.1))
def _lengths(rng, made):
    """One run of each base and length bin, M 0.2 and L 0.5 points above S before rounding and cutting off."""
    model = model_of(made)
    runs = draw_runs(rng, model, bases=made["bases"], effects=_EFFECTS, missing=made["missing"])
    found, truth = compare_conditions(runs), _length_truth(model)
    results = (*found.per_level, *found.contrasts, *found.effect_sizes)
    shown = ("S", "L", "M-S", "L-S", "d_z(M-S)", "d_z(L-S)")
    return {one.name: (one, truth[one.name]) for one in results if one.name in shown}


@check_test(
    "prompt lengths, no effect",
    "compare_conditions",
    BASES + CEILING + at(bases=12, missing=0.1),
    note="Holm's bound holds for any dependence, and the three contrasts depend on each other: any of the three is "
    "found too seldom, which costs power and no truth.",
)
def _no_length_effect(rng, made):
    """The same with no difference between the bins; Holm bounds the chance of any false finding."""
    runs = draw_runs(rng, model_of(made), bases=made["bases"], effects=_NONE, missing=made["missing"])
    contrasts = compare_conditions(runs).contrasts
    alone = contrasts[2]
    outside = None if alone.low is None or alone.high is None else not alone.low <= 0 <= alone.high
    by_holm = [rejects(one) for one in contrasts]
    return {
        "L-S alone": outside,
        "any of three, Holm": None if all(one is None for one in by_holm) else any(by_holm),
    }


TEXTS = (*LENGTH_BINS, *LENGTH_ARMS)
_PAIRS = (
    ("neutral_m", "S", "M"), ("neutral_l", "S", "L"), ("L", "short_l", "neutral_m"), ("M", "neutral_m", "S"),
    ("L", "neutral_l", "S"), ("short_l", "neutral_m", "L"), ("M", "S", "neutral_m"), ("L", "S", "neutral_l"),
)  # fmt: skip
_INFORMATION = dict(zip(TEXTS, (0.0, 0.2, 0.5, 0.0, 0.0, 0.5), strict=True))
"""What the facts of each prompt add: S, M, L, S among background in the length of M and of L, and L in that of M."""
_LENGTH = dict(zip(TEXTS, (0.0, 0.2, 0.5, 0.2, 0.5, 0.2), strict=True))


@check(
    "length and information", "compare_conditions",
    at(bases=(12, 30, 100), by_length=(0, 1)) + at(bases=30, by_length=0.5, missing=0.1),
    note="The rows farthest from 95 % (93.0 and 97.1) are chance: in 100,000 studies they have 95.1 and 95.0.",
)  # fmt: skip
def _length_arms(rng, made):
    """One run of each base and of its six prompts; M adds 0.2 and L 0.5 points, by its facts or by its length (by
    length 1), before scores are rounded and cut off
    """
    model, size, by_length = model_of(made), (made["bases"], len(TEXTS)), made["by_length"]
    gains = np.array([by_length * _LENGTH[text] + (1 - by_length) * _INFORMATION[text] for text in TEXTS])
    level = rng.normal(0, model.base, (size[0], 1)) + rng.normal(0, model.residual, size)
    scores = on_scale(model.mean + gains + level)
    scores[rng.random(size) < made["missing"]] = np.nan
    runs = pd.DataFrame(
        {
            "base": np.repeat(np.arange(size[0]), size[1]),
            "text": TEXTS * size[0],
            "composite_strict": scores.ravel(),
        }
    )
    means = mean_of(model.mean + gains, math.hypot(model.base, model.residual))
    truth = dict(zip(TEXTS, means.tolist(), strict=True))
    result = compare_conditions(runs, factor="text", levels=TEXTS, contrasts=_PAIRS)
    return {
        f"{more}-{less}": (contrast, truth[more] - truth[less])
        for (more, less), contrast in zip(result.pairs, result.contrasts, strict=True)
    }


def _clusters(rng, made):
    """Draw scores of bases with 1 to 5 answers each, and what their mean is."""
    model, bases = model_of(made), made["bases"]
    sizes = 1 + np.arange(bases) % 5
    level = np.repeat(rng.normal(0, model.base, bases), sizes) + rng.normal(0, model.residual, sizes.sum())
    truth = float(mean_of(model.mean, math.hypot(model.base, model.residual)))
    return on_scale(model.mean + level), np.repeat(np.arange(bases), sizes).tolist(), truth


@check("means", "clustered_mean, mean_interval", BASES + CEILING)
def _means(rng, made):
    """Bases of one to five answers."""
    scores, bases, truth = _clusters(rng, made)
    first = np.flatnonzero(np.diff([-1, *bases]))
    return {
        "clustered mean": (clustered_mean(scores, bases), truth),
        "mean of one answer a base": (mean_interval(scores[first]), truth),
    }


@check("means on a scale", "bounded_mean", BASES + CEILING + at(bases=(8, 12, 30), mean=4.6))
def _means_on_a_scale(rng, made):
    """Bases of one to five answers whose scores end at 5."""
    scores, bases, truth = _clusters(rng, made)
    return {"mean on the scale": (bounded_mean(Estimate("mean", None), scores, bases, (0.0, 5.0)), truth)}


@check_test("mean, no difference", "clustered_mean", BASES + CEILING)
def _no_mean(rng, made):
    """The same answers less their true mean."""
    scores, bases, truth = _clusters(rng, made)
    return {"clustered mean": clustered_mean(scores - truth, bases)}


@check(
    "slope, clustered by base", "clustered_slope", BASES,
    effect=0.3, none=("slope, none", "The same where length does nothing."),
)  # fmt: skip
def _slope(rng, made, slope):
    """Three answers of each base whose lengths and scores both depend on the base."""
    bases = made["bases"]
    lengths = rng.normal(0, 0.7, (bases, 1)) + rng.normal(0, 0.7, (bases, 3))
    scores = slope * lengths + rng.normal(0, 0.5, (bases, 1)) + rng.normal(0, 0.5, (bases, 3))
    labels = np.repeat(np.arange(bases), 3).tolist()
    return {"slope": (clustered_slope("slope", lengths.ravel(), scores.ravel(), labels), slope)}


@check(
    "probes of a judge", "probe_shifts", BASES,
    effect=0.3, none=("probes of a judge, no shift", "The same with no shift on average."),
)  # fmt: skip
def _probe(rng, made, shift):
    """Three replies of each base that a probe moves by 0.3 points on average."""
    bases = made["bases"]
    original = 3 + np.repeat(rng.normal(0, 0.5, bases), 3)
    moved = shift + np.repeat(rng.normal(0, 0.3, bases), 3) + rng.normal(0, 0.5, 3 * bases)
    pairs = pd.DataFrame({"original": original, "altered": original + moved})
    pairs = pairs.assign(
        base=np.repeat(np.arange(bases), 3), judge="primary", kind="padded", made=True, reason=""
    )
    (found,) = probe_shifts(pairs).shifts
    beyond = float(special.ndtr((0.3 - 0.5) / math.hypot(0.3, 0.5)))
    return {"shift": (found.shift, shift)} | (
        {"moved by half a point": (found.harmed, beyond)} if shift else {}
    )


_TOKENS = (300.0, 500.0, 800.0)

_DIRECT = (0.0, 0.1, 0.2)

_MARGIN = 0.25


@check_test("any difference between lengths, none", "repeated_measures", BASES + CEILING)
def _alike(rng, made):
    """One run of each base and length bin, no difference between the bins."""
    runs = draw_runs(rng, model_of(made), bases=made["bases"], effects=_NONE, missing=0.0)
    scores = runs["composite_strict"].to_numpy().reshape(-1, 3)
    return {"repeated-measures ANOVA": repeated_measures(scores)}


@check_test("equivalence, at the margin", "equivalence", BASES)
def _at_the_margin(rng, made):
    """Differences whose mean is the margin itself, where equivalence is just not true."""
    differences = rng.normal(_MARGIN, 0.25, made["bases"])
    return {"two one-sided tests": equivalence("L-S", differences, _MARGIN)}


@check(
    "length bias", "length_bias", BASES,
    effect=0.1, none=("length bias, none", "The same where the length does nothing to the score."),
)  # fmt: skip
def _length_bias(rng, made, slope):
    """Two models; the reply's length depends on bin and base, the score on length and bin."""
    shape = (made["bases"], 2, 3)
    length = np.array(_TOKENS) + rng.normal(0, 100, (shape[0], 1, 1)) + rng.normal(0, 100, shape)
    scores = 3 + slope * length / 100 + np.array(_DIRECT)
    scores = scores + rng.normal(0, 0.5, (shape[0], 1, 1)) + rng.normal(0, 0.4, shape)
    found = length_bias(draw.crossed_runs(scores).assign(output_tokens=length.ravel()))
    direct = _DIRECT[2] - _DIRECT[0]
    total = direct + slope * (_TOKENS[2] - _TOKENS[0]) / 100
    effects = {"total effect L-S": (found.total[2], total), "direct effect L-S": (found.direct[2], direct)}
    return {"slope": (found.slope, slope)} | (effects if slope else {})


@check(
    "two models on the same prompts",
    "paired_difference, rate_difference",
    at(bases=(12, 30)) + at(bases=12, mean=4.5),
)
def _two_models(rng, made):
    """Three prompts of each base, the first model 0.3 points better; a rate is the share of scores of 4 or
    more.
    """
    model, bases = model_of(made), made["bases"]
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
        "difference of means": (scores, means[0] - means[1]),
        "difference of rates": (hits, rates[0] - rates[1]),
    }


@cache
def _promised(bases):
    """Return the effect that a paired t test finds, and the margin within which TOST finds equivalence, in 4 of 5."""
    found = detectable_effect(bases, 1.0, power=draw.NOMINAL["power"]).estimate
    error = 1.0 / math.sqrt(bases)
    margin = smallest(lambda m: tost_power(m, 0.0, error, bases - 1, 0.05), draw.NOMINAL["power"], 0.0)
    return float(found or math.nan), float(margin or math.nan)


@check("power as computed", "detectable_effect, tost_power", BASES, kind="power")
def _power(rng, made):
    """The effect that the paired t test, and the margin that two one-sided tests, are said to find in 80 % of
    studies with as many bases.
    """
    bases = made["bases"]
    effect, margin = _promised(bases)
    differences = rng.normal(0.0, 1.0, bases)
    return {
        "paired t test": mean_interval(differences + effect),
        "two one-sided tests": equivalence("L-S", differences, margin),
    }


_COPIES = 100

_TEXTS = {"S": 32, "M": 60, "L": 72}

_MODELS = ("a", "b", "c")

_PLUS = 0.3

_OF_MODEL = 0.25


def layout(seed=8):
    """Return the text that each of 100 bases has at each length, as numbers; those of S are the clusters."""
    rng = np.random.default_rng(seed)
    clusters = rng.permutation(np.concatenate([np.arange(32), rng.integers(0, 32, _COPIES - 32)]))
    found = {}
    for name, wanted in _TEXTS.items():
        texts = clusters.copy()
        while len(set(texts.tolist())) < wanted:
            base = rng.integers(_COPIES)
            if (texts == texts[base]).sum() > 1:
                texts[base] = texts.max() + 1
        found[name] = texts
    return found


def draw_copies(rng, model, effects):
    """Draw one run for each base, length bin and model; bases that share a text have one score of each model for it.

    Situations (clusters) and texts add what they add to all models and to one; nothing of it depends on scenario, and
    models differ by nothing else.
    """
    texts = layout()
    clusters = texts["S"]
    level = rng.normal(0, model.base, (32, 1)) + rng.normal(0, _OF_MODEL, (32, 3))
    rows = []
    for effect, (name, of_base) in zip(effects, texts.items(), strict=True):
        own = rng.normal(0, model.residual, (_COPIES + 32, 1)) + rng.normal(0, _OF_MODEL, (_COPIES + 32, 3))
        scores = on_scale(model.mean + effect + level[clusters] + own[of_base])
        rows.append(
            pd.DataFrame(
                {
                    "base": np.repeat(np.arange(_COPIES), 3),
                    "cluster": np.repeat(clusters, 3) + 1000,
                    "scenario": np.repeat(np.array(list("XYZ"))[clusters % 3], 3),
                    "level": name,
                    "model": list(_MODELS) * _COPIES,
                    "composite_strict": scores.ravel(),
                    "output_tokens": 300 + rng.normal(0, 50, (_COPIES + 32, 3))[of_base].ravel(),
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


def _deviation(model):
    return math.hypot(model.base, model.residual, _OF_MODEL, _OF_MODEL)


@check_test("shared texts: tests", "over_clusters", at(bases=100))
def _no_effects(rng, made):
    """100 bases with 164 distinct texts of 300 (S 32, M 60, L 72), three models with one score each for a text;
    lengths, scenarios and models are alike
    """
    runs = draw_copies(rng, model_of(made), (0.0, 0.0, 0.0))
    lengths = compare_conditions(runs, omnibus=True)
    return {
        "repeated-measures ANOVA": None if lengths.anova is None else rejects(lengths.anova),
        "length by model": any(map(rejects, lengths.by_model)),
        "models a - b": compare_models(runs[runs["model"] != "c"]).differences[0],
        "slope on reply length": length_bias(runs).slope,
    }


@check("shared texts: means", "over_clusters", at(bases=100))
def _effects(rng, made):
    """100 bases with 164 distinct texts of 300 (S 32, M 60, L 72), three models with one score each for a text;
    M is 0.15 and L 0.3 above S before scores are rounded
    """
    model = model_of(made)
    runs = draw_copies(rng, model, (0.0, _PLUS / 2, _PLUS))
    short, long = (float(mean_of(model.mean + plus, _deviation(model))) for plus in (0.0, _PLUS))
    lengths = compare_conditions(runs)
    of_short = compare_models(runs[runs["level"] == "S"])
    return {
        "mean of S": (lengths.per_level[0], short),
        "L-S": (lengths.contrasts[2], long - short),
        "mean of a model, S": (of_short.models[0][1], short),
    }


@check("shared texts: agreement", "over_clusters", at(bases=100))
def _agreement(rng, made):
    """100 bases with 72 distinct texts of L in 32 clusters, three judges; these judges over ever more
    answers
    """
    model, texts = model_of(made), layout()
    of_base, clusters = texts["L"], texts["S"]
    level = rng.normal(0, model.base, 32)[clusters] + rng.normal(0, model.answer, _COPIES + 32)[of_base]
    error = rng.normal(0, model.residual, (_COPIES + 32, 3))[of_base]
    scores = on_scale(model.mean + level[:, None] + np.array(draw.LENIENCY[:3]) + error)
    ratings = pd.DataFrame(
        {
            "target": np.repeat(np.arange(_COPIES), 3),
            "base": np.repeat(np.arange(_COPIES), 3),
            "cluster": np.repeat(clusters, 3) + 1000,
            "judge": ["judge 0", "judge 1", "judge 2"] * _COPIES,
            "score": scores.ravel(),
        }
    )
    found = reliability(ratings)
    icc = {one.name: one for one in found.icc["score"]}
    truth = draw.icc_of_these_judges(model, draw.LENIENCY[:3])
    return {
        "ICC(C,1)": (icc["ICC(C,1)"], truth["ICC(C,1)"]),
        "alpha over judges": (found.alpha_over_judges["score"], truth["ICC(C,k)"]),
        "Pearson, two judges": (found.pearson["score"][0], draw.correlation_of(model, *draw.LENIENCY[:2])),
    }

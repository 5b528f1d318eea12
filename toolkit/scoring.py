"""From the numbers of judgements and experiments to scores: the seeds' formulas by their names."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import numpy as np

from toolkit.errors import InputError
from toolkit.words import COMPOSITES, DIMENSIONS, SCALE, counted, level_words

ENOUGH_JUDGES = 2
"""Where several judges were asked, an answer of fewer scores is unjudged; of one judge, one is enough (decision 2)."""

CI_METHOD = "Clopper-Pearson carried to three outcomes by Dirichlet quantiles (Learned-Miller & Thomas 2019)"


def number_or_missing(value: Any, where: str = "score") -> float | None:
    """Return a value as a float, or None where it is missing (None, NaN or pandas NA); never a silent zero."""
    if value is None:
        return None
    try:
        if isinstance(value, (str, bytes, bool)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        import pandas as pd  # here, because a run that only asks and judges does not need pandas

        if value is pd.NA or value is pd.NaT:
            return None
        raise InputError(f"{where}: {value!r} is not a number; give a number or leave it missing") from None
    if math.isinf(number):
        raise InputError(f"{where}: an infinite value is not a score; give a number or leave it missing")
    return None if math.isnan(number) else number


@dataclass(frozen=True)
class Scheme:
    """How a judgement is scored: dimensions with their weights, and the ends of the scale; the seed's by default."""

    names: tuple[str, ...] = DIMENSIONS
    weights: tuple[float, ...] = (1.0,) * len(DIMENSIONS)
    scale: tuple[float, float] = SCALE
    optional: tuple[str, ...] = field(default=(), compare=False)
    """Dimensions that a judgement may lack, where the task gives nothing to judge."""

    @property
    def needed(self) -> set[str]:
        """Dimensions that every judgement has."""
        return {*self.names} - {*self.optional}

    @property
    def is_of_seed(self) -> bool:
        """Whether the composite of the seed, which leaves zeros out, is defined for these scores."""
        return {*self.names} == {*DIMENSIONS} and {*self.weights} == {1.0} and self.scale == SCALE

    @property
    def described_weights(self) -> list[str]:
        """The weights in words, empty where all are equal."""
        pairs = zip(self.names, self.weights, strict=True)
        return [f"{weight:g} for {name}" for name, weight in pairs] if len({*self.weights}) > 1 else []

    @property
    def stored(self) -> dict[str, Any]:
        """What an evaluation keeps of it, so that scores on another scale are never taken for these."""
        parts = {"dimensions": list(self.names), "weights": list(self.weights), "scale": list(self.scale)}
        return {} if self == SEED_SCHEME else {"scheme": parts}

    @property
    def columns(self) -> tuple[str, ...]:
        """The dimensions and both composites."""
        return (*self.names, *COMPOSITES)

    def strict(self, scores: Mapping[str, Any]) -> float | None:
        """Return the weighted mean of the scores, in which every score counts."""
        if {*self.weights} == {1.0}:
            return composite_strict(scores, self.scale)
        weights = dict(zip(self.names, self.weights, strict=True))
        numbers = {name: on_scale(scores[name], name, self.scale) for name in scores}
        present = {name: score for name, score in numbers.items() if score is not None}
        if not present:
            return None
        weighted = math.fsum(weights[name] * score for name, score in present.items())
        return weighted / math.fsum(weights[name] for name in present)

    def composite(self, scores: Mapping[str, Any]) -> float | None:
        """Return the composite of the seed where it is defined, elsewhere the strict one."""
        return calculate_composite_score(scores) if self.is_of_seed else self.strict(scores)

    def zeros(self, scores: Mapping[str, Any]) -> int:
        """Return how many scores the composite leaves out."""
        return count_zeros(scores) if self.is_of_seed else 0


SEED_SCHEME = Scheme()


def on_scale(value: Any, where: str = "score", scale: tuple[float, float] = SCALE) -> float | None:
    """Return a score as a float, or None where it is missing; outside the scale it is refused."""
    number = number_or_missing(value, where)
    low, high = scale
    if number is not None and not low <= number <= high:
        raise InputError(
            f"{where}: {number:g} is outside the scale {low:g}-{high:g}; such a judgement counts as missing"
        )
    return number


def calculate_composite_score(dimension_scores: Mapping[str, Any]) -> float | None:
    """Return the mean of the dimension scores above zero, as seed 002 (section 2.2) defines the composite.

    A missing score is ignored, like a zero. The seed returns 0.0 when nothing is left; this function keeps
    that for true zeros and returns None when every score is missing: no judgement is not a bad one. A composite among
    the keys, as in a stored run, is not counted as a dimension.

    Parameters
    ----------
    dimension_scores
        Scores by dimension, in points from 0 to 5; None and NaN are missing.

    Returns
    -------
    float or None
        In points from 0 to 5.

    Raises
    ------
    InputError
        When a score is no number or outside the scale.

    Examples
    --------
    >>> calculate_composite_score({"clarity": 4.0, "relevance": 5.0, "completeness": 0.0})
    4.5
    """
    scores = _present(dimension_scores)
    if not scores:
        return None
    above_zero = [score for score in scores if score > 0]
    return sum(above_zero) / len(above_zero) if above_zero else 0.0


def composite_strict(dimension_scores: Mapping[str, Any], scale: tuple[float, float] = SCALE) -> float | None:
    """Return the mean of all dimension scores that exist, so that a true zero counts."""
    scores = _present(dimension_scores, scale)
    return sum(scores) / len(scores) if scores else None


def count_zeros(dimension_scores: Mapping[str, Any]) -> int:
    """Return how many true zeros the composite of the seed leaves out; a missing score is not a zero."""
    return sum(score == 0 for score in _present(dimension_scores))


def aggregate_ensemble_scores(
    judge_results: Iterable[Any] | Mapping[str, Any],
    score: str = "composite",
    scale: tuple[float, float] = SCALE,
) -> dict[str, Any]:
    """Aggregate one score of several judges (or a mapping of them) on one answer (seed 002, section 2.2).

    A judge is missing when it failed, gave no such score, or gave one outside the scale; a missing judge never
    counts as zero. Where several judges were asked, an answer with fewer scores than `ENOUGH_JUDGES` is unjudged:
    all but the number of judges is None. Where one was asked, one is enough for a mean, without spread and interval.

    Parameters
    ----------
    judge_results
        One result per judge: an object or a mapping with ``composite``, such as each of a run's ``judge_results``, or a
        plain score.
    score
        ``composite``, as in the seed, or another member of a result or of its ``scores``.
    scale
        Least and greatest score, in points.

    Returns
    -------
    dict
        ``mean``, ``std`` (ddof = 1), ``median`` and ``confidence_interval`` (`calculate_ci`) in points, each None where
        too few judges scored, and ``judge_count``, the number of judges that did.

    Raises
    ------
    InputError
        When a score is no number.

    Examples
    --------
    >>> aggregated = aggregate_ensemble_scores([{"composite": 4.3}, {"composite": 4.1}, {"composite": None}])
    >>> round(aggregated["mean"], 2), aggregated["judge_count"]
    (4.2, 2)
    """
    results = judge_results.values() if isinstance(judge_results, Mapping) else judge_results
    values = [_score_of_judge(result, score, scale) for result in results]
    present = [value for value in values if value is not None]
    enough = len(present) >= max(1, min(ENOUGH_JUDGES, len(values)))
    return {
        "mean": statistics.fmean(present) if enough else None,
        "std": statistics.stdev(present) if len(present) >= ENOUGH_JUDGES else None,
        "median": statistics.median(present) if enough else None,
        "confidence_interval": calculate_ci(present, bounds=scale),
        "judge_count": len(present),
    }


def calculate_ci(
    scores: Sequence[Any], confidence: float = 0.95, bounds: tuple[float, float] = SCALE
) -> tuple[float, float] | None:
    r"""Return the Student t interval of the mean over judges, clamped to the scale; None with fewer than two.

    :math:`\bar x \pm t_{1-\alpha/2,\,k-1}\, s / \sqrt k` for k judges; for three judges the half width is
    2.484 s. The interval is wide because three judges say little about judges at large, and it has no width
    when they agree to the digit, which is a statement about these judges only.

    Parameters
    ----------
    scores
        One score per judge, in points; None and NaN are missing.
    confidence
        Level of the interval, between 0 and 1.
    bounds
        Least and greatest score, to which the interval is clamped.

    Returns
    -------
    tuple of float or None
        Lower and upper end, in points.

    Raises
    ------
    InputError
        When a score is no number, or the level is not between 0 and 1.

    References
    ----------
    Student (1908), The probable error of a mean, Biometrika 6, 1-25.

    Examples
    --------
    >>> low, high = calculate_ci([4.3, 4.1, 4.5])
    >>> round(low, 3), round(high, 3)
    (3.803, 4.797)
    """
    _check_confidence(confidence)
    present = [score for score in map(number_or_missing, scores) if score is not None]
    if len(present) < ENOUGH_JUDGES:
        return None
    mean = statistics.fmean(present)
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(present) - 1, (1 + confidence) / 2))
    half = quantile * statistics.stdev(present) / math.sqrt(len(present))
    low, high = bounds
    return min(max(mean - half, low), high), max(min(mean + half, high), low)


def calculate_efficiency(quality_score: Any, cost: Any) -> float | None:
    """Return quality per Australian dollar, quality / cost (seed 002, section 5.1).

    The seed returns 0.0 for a cost of zero, which would rank a free local model last. This function returns
    None: quality per dollar does not exist where nothing was paid, nor without a quality or a known cost.

    Parameters
    ----------
    quality_score
        The quality, in points; None where it is missing.
    cost
        The cost, in AUD; None where it is not known.

    Returns
    -------
    float or None
        Points per AUD.

    Raises
    ------
    InputError
        When a value is no number, or the cost is negative or NaN.

    Examples
    --------
    >>> round(calculate_efficiency(4.3, 0.0052), 1)
    826.9
    """
    quality = number_or_missing(quality_score, "quality_score")
    if isinstance(cost, float) and math.isnan(cost):
        raise InputError(
            "cost: NaN is not an amount of AUD; give a number, or None where the cost is not known"
        )
    aud = number_or_missing(cost, "cost")
    if aud is None or quality is None:
        return None
    if aud < 0:
        raise InputError(f"cost: {aud:g} AUD is negative; a cost is zero or more")
    return quality / aud if aud > 0 else None


def analyze_length_bias(runs_by_length: Mapping[str, Iterable[Any]]) -> dict[str, dict[str, Any]]:
    """Describe the composites of each length bin (seed 002, section 5.1); `compare_conditions` draws the conclusions.

    Parameters
    ----------
    runs_by_length
        The runs of each length bin. A run is an object with ``scores.composite``, a mapping with ``scores`` or
        ``composite``, or a plain score, in points; None is missing.

    Returns
    -------
    dict of dict
        By length bin: ``mean_score``, ``std_score`` (the seed's ``np.std`` with ddof = 0, the spread of exactly these
        runs) and ``std_score_sample`` (which divides by n - 1) in points, None where there are too few scores;
        ``count``, the number of scores, and ``missing``, that of runs without one, which enter nothing else.

    Raises
    ------
    InputError
        When a run has neither ``scores`` nor ``composite``, or its score is no number.

    Examples
    --------
    >>> analyze_length_bias({"S": [3.0, 4.0, None]})["S"]["mean_score"]
    3.5
    """
    described: dict[str, dict[str, Any]] = {}
    for length_bin, runs in runs_by_length.items():
        composites = [_composite_of_run(run, f"length bin {length_bin}") for run in runs]
        scores = [score for score in composites if score is not None]
        described[length_bin] = {
            "mean_score": statistics.fmean(scores) if scores else None,
            "std_score": statistics.pstdev(scores) if scores else None,
            "std_score_sample": statistics.stdev(scores) if len(scores) > 1 else None,
            "count": len(scores),
            "missing": len(composites) - len(scores),
        }
    return described


@dataclass(frozen=True)
class OneShotScore:
    """A one-shot score: ``i1`` expected, ``i0`` unexpected, ``h`` hallucinated of ``n``; score = max(0, raw)."""

    i1: int
    i0: int
    h: int
    n: int
    raw: float
    score: float
    low: float
    high: float
    confidence: float
    method: str
    weights: tuple[float, float, float]

    def sentence(self) -> str:
        """Return the score in words ready for the thesis, rounded only here."""
        return (
            f"score {self.score:.3f}, raw {self.raw:.3f} with {level_words(self.confidence)} interval "
            f"[{self.low:.3f}, {self.high:.3f}], {self.method}; n = {counted(self.n, 'experiments')}: "
            f"{self.i1} expected, {self.i0} unexpected, {self.h} hallucinated."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the score as plain JSON types."""
        return asdict(self) | {"weights": list(self.weights)}


def one_shot_score(
    expected: int,
    unexpected: int,
    hallucinated: int,
    weights: Sequence[float] = (1.0, 0.0, -0.5),
    confidence: float = 0.95,
) -> OneShotScore:
    r"""Score a one-shot test: :math:`raw = (w_0 I_1 + w_1 I_0 + w_2 H) / N`, :math:`score = \max(0, raw)`.

    Seed 000 writes the third term with :math:`I_1`; this function uses H / N.

    The interval belongs to :math:`\theta = \sum_c w_c p_c`, where p are the unknown shares of the three
    outcomes. Its upper end is the :math:`1 - \alpha/2` quantile of :math:`\sum_c w_c q_c` with q from a
    Dirichlet distribution whose parameters are the counts, plus one for the outcome of the highest weight;
    its lower end is the :math:`\alpha/2` quantile with the one added to the outcome of the lowest weight.
    With two outcomes this is the Clopper-Pearson interval. Unlike a bootstrap of the counts, which resamples
    ten equal answers into ten equal answers, it keeps its width for 10 / 0 / 0. For two outcomes its coverage
    is proven, for three it is conjectured; enumerating every outcome of N = 1, 2, 3, 5, 10 and 20 on a grid
    of 1,891 shares with the weights of the seed, it covers at least 95.8 % and misses at most 2.5 % on either
    side.

    Parameters
    ----------
    expected, unexpected, hallucinated
        Numbers of experiments: I1, I0 and H. Their sum is N.
    weights
        Of the three outcomes, in this order.
    confidence
        Level of the interval, between 0 and 1.

    Returns
    -------
    OneShotScore
        ``raw`` with its interval from ``low`` to ``high``, ``score``, the counts, and ``sentence()`` for a thesis.

    Raises
    ------
    InputError
        When a count is no whole number of 0 or more, N is 0, or weights or level cannot be used.

    References
    ----------
    Learned-Miller & Thomas (2019), A new confidence interval for the mean of a bounded random variable,
    arXiv:1905.06208. Clopper & Pearson (1934), Biometrika 26, 404-413.

    Examples
    --------
    >>> result = one_shot_score(6, 1, 3)
    >>> round(result.raw, 2), round(result.low, 3), round(result.high, 3)
    (0.45, -0.046, 0.835)
    """
    named = {"expected": expected, "unexpected": unexpected, "hallucinated": hallucinated}
    for name, value in named.items():
        number = isinstance(value, (int, float, np.integer)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0 or value != int(value):
            raise InputError(f"one-shot score: {name} is {value!r}; give a whole number, 0 or more")
    i1, i0, h = counts = [int(value) for value in named.values()]
    total = sum(counts)
    if total == 0:
        raise InputError("one-shot score: N is 0; give at least one experiment")
    _check_confidence(confidence)
    w = _weights(weights)
    raw = sum(weight * count for weight, count in zip(w, counts, strict=True)) / total
    tail = (1 - confidence) / 2
    low, high = (
        _sum_quantile(w, [count + (i == w.index(extreme)) for i, count in enumerate(counts)], probability)
        for extreme, probability in ((min(w), tail), (max(w), 1 - tail))
    )
    return OneShotScore(i1, i0, h, total, raw, max(0.0, raw), low, high, confidence, CI_METHOD, w)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InputError(f"confidence: {confidence!r} is not between 0 and 1; 0.95 is usual")


def _present(dimension_scores: Mapping[str, Any], scale: tuple[float, float] = SCALE) -> list[float]:
    named = dimension_scores.items()
    scores = [on_scale(value, name, scale) for name, value in named if name not in COMPOSITES]
    return [score for score in scores if score is not None]


def _score_of_judge(result: Any, name: str, scale: tuple[float, float]) -> float | None:
    """Return a score of a judge, or None where it is missing or off the scale (DESIGN, decision 2)."""
    if _member(result, "evaluation_failed") or _member(result, "failed"):
        return None
    if not isinstance(result, Mapping) and not hasattr(result, "scores") and not hasattr(result, name):
        result = {name: result}
    value = _member(result, name)
    score = number_or_missing(_member(_member(result, "scores"), name) if value is None else value, name)
    return score if score is not None and scale[0] <= score <= scale[1] else None


def _composite_of_run(run: Any, where: str) -> float | None:
    names = run if isinstance(run, Mapping) else [n for n in ("composite", "scores") if hasattr(run, n)]
    if "composite" in names:
        return number_or_missing(_member(run, "composite"), where)
    if "scores" in names:
        return number_or_missing(_member(_member(run, "scores"), "composite"), where)
    if isinstance(run, Mapping):
        raise InputError(f"{where}: run {run!r:.60} has neither 'scores' nor 'composite'; give one of them")
    return number_or_missing(run, where)


def _member(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _weights(weights: Sequence[float]) -> tuple[float, float, float]:
    message = f"one-shot score: weights are {weights!r}; give three finite numbers"
    try:
        w0, w1, w2 = (float(weight) for weight in weights)
    except (TypeError, ValueError):
        raise InputError(message) from None
    if not all(map(math.isfinite, (w0, w1, w2))):
        raise InputError(message)
    return w0, w1, w2


def _sum_quantile(weights: Sequence[float], counts: Sequence[int], probability: float) -> float:
    """Return the quantile of the weighted sum of Dirichlet shares; an outcome with parameter 0 has share 0.

    With the weights in rising order the sum is w_a + (w_b - w_a) Q1 + (w_c - w_b) Q1 R, where Q1 (not the
    lowest outcome) and R (the highest among the rest) are independent beta variables, so its distribution is
    one integral.
    """
    from scipy import optimize, special, stats

    parameters: dict[float, int] = {}
    for weight, count in sorted(zip(weights, counts, strict=True)):
        if count:
            parameters[weight] = parameters.get(weight, 0) + count
    values, a = list(parameters), list(parameters.values())
    if len(values) == 1:
        return values[0]
    if len(values) == 2:
        return values[0] + (values[1] - values[0]) * float(stats.beta.ppf(probability, a[1], a[0]))
    nodes, node_weights = _quadrature()
    q1 = special.betaincinv(a[1] + a[2], a[0], nodes)
    low, middle, high = values

    def excess(threshold: float) -> float:
        rest = np.clip((threshold - low - (middle - low) * q1) / ((high - middle) * q1), 0, 1)
        return float(node_weights @ special.betainc(a[2], a[1], rest)) - probability

    return float(optimize.brentq(excess, low, high, xtol=1e-10))


@cache
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Legendre nodes and weights on (0, 1); 400 of them place a bound within 0.00001."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    return (nodes + 1) / 2, weights / 2

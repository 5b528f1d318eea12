"""Scores of all judges of one run, aggregated in the form that the run document keeps (seed 002, section 3.1)."""

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from toolkit.errors import InputError
from toolkit.judges.judgement import Judgement
from toolkit.judges.request import JudgeSpec
from toolkit.scoring import SEED_SCHEME, Scheme, aggregate_ensemble_scores


def ensemble_evaluation(
    judgements: Sequence[Judgement], scheme: Scheme = SEED_SCHEME, *, judges: Collection[JudgeSpec]
) -> dict[str, Any]:
    """Aggregate the judgements of one run over the readable judges among those that the study names.

    A judge that judged several times counts once, with its means over the times that can be read. Where judges count
    twice on some dimensions, no interval over judges is given: Student's t holds for equal weights.
    """
    labels = [judgement.label for judgement in judgements]
    if len(set(labels)) < len(labels):
        raise InputError(f"judges {', '.join(labels)}: a role may judge a run once; give each judge its own")
    by_role: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        by_role.setdefault(judgement.judge, []).append(judgement)
    results = {role: _result(judgements_of_role) for role, judgements_of_role in by_role.items()}
    absent = (None,) * (len(judges) - len(results))  # not asked yet, or not to judge this model
    scores = {
        name: _statistics((*(_score(result, name) for result in results.values()), *absent), scheme.scale)
        for name in scheme.columns
    }
    intervals = {name: score["confidence_interval"] for name, score in scores.items()}
    counting = {role: result for role, result in results.items() if not result["evaluation_failed"]}
    composites = {role: _score(result, "composite") for role, result in counting.items()}
    # The judge left out stays as None: of two judges one is then left, too few for a mean (`ENOUGH_JUDGES`).
    jackknife = {role: tuple((composites | {role: None}).values()) for role in counting}
    means = {name: score["mean"] for name, score in scores.items()}
    judged = means["composite"] is not None
    double_weighted = {(judge.role, name) for judge in judges for name in judge.doubled}
    if judged and double_weighted:
        intervals = {}
        means = {
            name: _mean(
                _score(result, name)
                for role, result in results.items()
                for _ in range(1 + ((role, name) in double_weighted))  # such a judge enters the mean twice
            )
            for name in scheme.names
        }
        means |= {"composite": scheme.composite(means), "composite_strict": scheme.strict(means)}
    return {
        "judge_results": results,
        "aggregated": {
            "mean_scores": means,
            "std_scores": {name: score["std"] for name, score in scores.items()},
            "confidence_intervals": {name: ends and list(ends) for name, ends in intervals.items()},
            "median_scores": {name: score["median"] for name, score in scores.items()},
            "zeros": sum(result["zeros"] for result in counting.values()) if judged else None,
            "leave_one_out": {
                role: _statistics(rest, scheme.scale)["mean"] for role, rest in jackknife.items()
            },
            "judge_count": scores["composite"]["judge_count"],
            "related_count": sum(result["related"] for result in counting.values()),
            "judged": judged,
            **scheme.stored,
        },
    }


def _score(result: Mapping[str, Any], name: str) -> float | None:
    score = result.get(name)
    return (result["scores"] or {}).get(name) if score is None else score


@lru_cache(maxsize=2**14)
def _statistics(scores: tuple[float | None, ...], scale: tuple[float, float]) -> dict[str, Any]:
    """Return the statistics of one score over judges; cached, because equal scores are frequent and exact sums slow."""
    return aggregate_ensemble_scores([{"composite": score} for score in scores], scale=scale)


def _result(judgements: Sequence[Judgement]) -> dict[str, Any]:
    first, readable = judgements[0], [judgement for judgement in judgements if not judgement.failed]
    reasons = [judgement.reason for judgement in judgements if judgement.failed]
    result: dict[str, Any] = {
        "model": first.model,
        "scores": _means(judgement.scores for judgement in readable),
        "composite": _mean(judgement.composite for judgement in readable),
        "composite_strict": _mean(judgement.composite_strict for judgement in readable),
        "zeros": sum(judgement.zeros or 0 for judgement in readable),
        "evaluation_failed": not readable,
        "reason": reasons[0] if not readable else None,
        "call_id": first.call_id,
        "rubric": first.rubric,
        "rubric_hash": first.rubric_digest,
        "related": first.related,
    }
    if any(judgement.expected for judgement in readable):
        result["expected"] = _means(judgement.expected for judgement in readable)
    if len(judgements) > 1:
        result["repeats"] = {"asked": len(judgements), "readable": len(readable)}
        result["composites"] = [judgement.composite for judgement in judgements]
    return result


def _means(mappings: Iterable[Mapping[str, float] | None]) -> dict[str, float] | None:
    values: dict[str, list[float]] = {}
    for name, value in chain.from_iterable(mapping.items() for mapping in mappings if mapping):
        values.setdefault(name, []).append(value)
    return {name: statistics.fmean(scores) for name, scores in values.items()} or None


def _mean(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return statistics.fmean(present) if present else None

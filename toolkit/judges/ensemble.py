"""What the judges of one run say together, in the form the run document keeps (seed 002, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolkit.errors import InputError
from toolkit.judges.judgement import Judgement
from toolkit.scoring.ensemble import aggregate_dimensions, aggregate_ensemble_scores

ENOUGH_JUDGES = 2
"""Fewer judges than this leave the run unjudged (DESIGN decision 2)."""


def ensemble_evaluation(judgements: Sequence[Judgement]) -> dict[str, Any]:
    """Aggregate the judgements of one run over the judges that count.

    Parameters
    ----------
    judgements
        One per judge; a failed one is kept with its reason and counts nowhere.

    Returns
    -------
    dict
        ``judge_results`` by role, and ``aggregated`` with ``mean_scores``, ``std_scores`` (n - 1) and
        ``confidence_intervals`` (Student t over judges) of the dimensions, ``composite`` and
        ``composite_strict``, ``zeros`` (how many scores of 0 the composites left out), ``judge_count`` and
        ``judged``. With fewer than two judges that count every score is ``None`` and ``judged`` is false.

    Raises
    ------
    InputError
        When two judgements have the same role, so that one would hide the other.

    Examples
    --------
    >>> evaluation = ensemble_evaluation([Judgement("primary", "gpt-4-turbo", "default", "", reason="prose")])
    >>> evaluation["aggregated"]["judged"], evaluation["judge_results"]["primary"]["evaluation_failed"]
    (False, True)
    """
    roles = [judgement.judge for judgement in judgements]
    if len(set(roles)) < len(roles):
        raise InputError(f"judges {', '.join(roles)}: a role may judge a run once; give each judge its own")
    counting = [judgement for judgement in judgements if not judgement.failed]
    judged = len(counting) >= ENOUGH_JUDGES
    aggregated = aggregate_dimensions([{**(j.scores or {}), "composite": j.composite} for j in counting])
    strict = aggregate_ensemble_scores([{"composite": j.composite_strict} for j in counting])
    interval = strict["confidence_interval"]
    aggregated["mean_scores"]["composite_strict"] = strict["mean"]
    aggregated["std_scores"]["composite_strict"] = strict["std"]
    aggregated["confidence_intervals"]["composite_strict"] = None if interval is None else list(interval)
    return {
        "judge_results": {judgement.judge: _result(judgement) for judgement in judgements},
        "aggregated": {
            **aggregated,
            "zeros": sum(judgement.zeros or 0 for judgement in counting) if judged else None,
            "judge_count": len(counting),
            "judged": judged,
        },
    }


def _result(judgement: Judgement) -> dict[str, Any]:
    return {
        "model": judgement.model,
        "scores": None if judgement.scores is None else dict(judgement.scores),
        "composite": judgement.composite,
        "composite_strict": judgement.composite_strict,
        "evaluation_failed": judgement.failed,
        "reason": judgement.reason,
        "call_id": judgement.call_id,
        "rubric": judgement.rubric,
        "rubric_hash": judgement.rubric_digest,
    }

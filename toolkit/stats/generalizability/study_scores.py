"""Generalizability of a study's own scores: its designs, its costs and the whole answer in one object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.generalizability.components import variance_components
from toolkit.stats.generalizability.d_study import Costs, DecisionStudy, decision_study, figure_frame
from toolkit.stats.generalizability.design import Design
from toolkit.stats.generalizability.g_study import Generalizability, generalizability_study
from toolkit.stats.inference.clusters import over_clusters

ANSWERS: Final = Design(
    ("base", "answer", "judge", "repeat"),
    {"answer": ("base",), "repeat": ("base", "answer", "judge")},
)
"""Answers within bases, judged by every judge, perhaps several times: how far a score of one answer holds."""
BASES: Final = Design(("base", "model", "judge", "repeat"), {"repeat": ("base", "model")})
"""Bases by models, each asked several times, by judges: how far the mean of a model or a base holds."""
_OBJECTS: Final = ("answer", "model", "base")


@dataclass(frozen=True)
class StudyGeneralizability:
    """Coefficients and components of a study, and what other designs would give.

    Parameters
    ----------
    score
        What was analysed: composite or a dimension.
    result
        Coefficients, error variances and components.
    decision
        Curves and the cheapest design for the target.
    notes
        How scores were averaged, and what was left out.
    """

    score: str
    result: Generalizability
    decision: DecisionStudy
    notes: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Return one row per result."""
        return self.result.frame()

    def figure_frame(self) -> pd.DataFrame:
        """Return what the figure of variance components and decision-study curves draws."""
        return figure_frame(self.result, self.decision)

    def sentence(self) -> str:
        """Return coefficients, shares and plans in words ready for the thesis."""
        parts = (self.result.sentence(), self.result.components.sentence(), self.decision.sentence())
        return f"{self.score}: {' '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return {
            "score": self.score,
            "result": self.result.to_dict(),
            "decision": self.decision.to_dict(),
            "notes": list(self.notes),
        }


@over_clusters
def study_generalizability(
    judgements: pd.DataFrame,
    *,
    score: str = "composite",
    of: str = "answer",
    target: float = 0.90,
    run_aud: float | None = None,
    judgement_aud: float | None = None,
    seed: int = 0,
) -> StudyGeneralizability:
    """Return how far the scores of a study generalize, and what a wanted coefficient would take.

    Of an answer (one reply): answers within bases x judges x times judged. Of a model: bases x models x judges,
    with runs repeated within base and model; "how many prompts" are its bases. Of a base: the same with the
    models fixed, because they were chosen. For models and bases, scores are means over the length bins, which
    are fixed (Brennan 2001, section 4.3), and over the times a judge judged a reply; a mean that lacks one of
    its bins is missing.

    Parameters
    ----------
    judgements
        One row per judgement with base, model, repeat, judge, the score and, where there are several, run_id,
        length_bin and judge_repeat.
    score
        Column of the scores.
    of
        ``"answer"``, ``"model"`` or ``"base"``.
    target
        Wanted coefficient.
    run_aud, judgement_aud
        What a run and a judgement cost; None where unknown.
    seed
        See ``variance_components``.

    Returns
    -------
    StudyGeneralizability

    Raises
    ------
    InputError
        If a column is missing, a score is not a number, a judgement is there twice, or ``of`` is not known.

    Examples
    --------
    >>> rows = [(f"b{b}", "m", 0, f"j{j}", float((b * 7 + j * 3) % 5)) for b in range(6) for j in range(3)]
    >>> frame = pd.DataFrame(rows, columns=["base", "model", "repeat", "judge", "composite"])
    >>> study_generalizability(frame).result.components.method
    'expected mean squares'
    """
    if of not in _OBJECTS:
        raise InputError(f"generalizability of {of!r} is not known; use {', '.join(_OBJECTS)}")
    needed = ("base", "model", "repeat", "judge", score)
    absent = [name for name in needed if name not in judgements]
    if absent:
        raise InputError(f"judgements: lack the column {', '.join(absent)}; give {', '.join(needed)}")
    notes: tuple[str, ...] = ()
    if of == "answer":
        frame, costs, design = _answers(judgements, score), Costs(run_aud, judgement_aud), ANSWERS
    else:
        frame, costs, notes = _bases(judgements, score, run_aud, judgement_aud)
        design = BASES
    fixed = ("model",) if of == "base" else ()
    components = variance_components(frame, design, seed=seed)
    result = generalizability_study(components, of, fixed=fixed)
    return StudyGeneralizability(
        score, result, decision_study(result, target, costs=costs), (*notes, *result.notes)
    )


def mean_cost(costs: pd.Series) -> float | None:
    """Return the mean of what calls cost in AUD, or None where no cost is known.

    Parameters
    ----------
    costs
        AUD of each run or judgement, missing where unknown.

    Returns
    -------
    float or None

    Examples
    --------
    >>> mean_cost(pd.Series([0.02, None, 0.04]))
    0.03
    """
    known = pd.to_numeric(costs, errors="coerce").dropna()
    return float(known.mean()) if len(known) else None


def _answers(judgements: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return base, answer, judge, repeat and score; an answer is a run."""
    if "run_id" in judgements:
        answer = judgements["run_id"]
    else:
        names = [name for name in ("model", "length_bin", "repeat") if name in judgements]
        answer = _joined(judgements, names)
    again = judgements.get("judge_repeat", 0)
    return pd.DataFrame(
        {
            "base": judgements["base"],
            "answer": answer,
            "judge": judgements["judge"].astype("object"),
            "repeat": again,
            "score": judgements[score],
        }
    )


def _joined(judgements: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    return judgements[list(names)].astype("string").agg(" / ".join, axis=1)


def _bases(
    judgements: pd.DataFrame, score: str, run_aud: float | None, judgement_aud: float | None
) -> tuple[pd.DataFrame, Costs, tuple[str, ...]]:
    """Return scores averaged over times judged and length bins, what a cell costs, and how it was averaged."""
    keys = ["base", "situation", "model", "judge", "repeat"]
    situation = judgements["situation" if "situation" in judgements else "base"]
    frame = judgements.assign(
        situation=situation, score=pd.to_numeric(judgements[score], errors="coerce").astype("float64")
    )
    if (frame["score"].isna() & judgements[score].notna()).any():
        raise InputError(f"judgements: a {score} is not a number; give a number or leave it empty")
    frame = frame.astype({"judge": "object"})
    within = [name for name in ("length_bin", "judge_repeat") if name in frame]
    frame[within] = frame[within].astype("object")
    repeated = frame.duplicated([*keys, *within])
    if repeated.any():
        raise InputError(
            f"judgements: {int(repeated.sum())} are there twice, the first of base "
            f"{frame.loc[repeated, 'base'].iloc[0]}; keep one per run, judge and time judged"
        )
    notes, bins, times = [], 1, 1
    if "judge_repeat" in frame:
        times = int(frame["judge_repeat"].nunique())
        by = [*keys, *(name for name in within if name == "length_bin")]
        frame = frame.groupby(by, sort=False, observed=True, dropna=False)["score"].mean().reset_index()
        if times > 1:
            notes.append(f"scores are means over up to {times} times a judge judged a reply")
    if "length_bin" in frame:
        bins = int(frame["length_bin"].nunique())
        cells = frame.groupby(keys, sort=False, observed=True, dropna=False)["score"]
        frame = cells.mean().where(cells.count() == bins).reset_index()
        if bins > 1:
            notes.append(
                f"scores are means over the {bins} length bins, which are fixed; a mean needs all of them"
            )
    costs = Costs(run_aud, judgement_aud, runs_per_cell=bins, judgements_per_run=max(times, 1))
    keys.remove("situation")  # see `mean_of_units`
    frame = frame.groupby(keys, sort=False, observed=True, dropna=False)["score"].mean().reset_index()
    return frame, costs, tuple(notes)

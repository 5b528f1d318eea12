"""Generalizability of a study's own scores: its designs, its costs and the whole answer in one object."""

from dataclasses import dataclass, replace

import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.generalizability.components import variance_components
from toolkit.stats.generalizability.design import Design
from toolkit.stats.generalizability.g_study import (
    Costs,
    DecisionStudy,
    Generalizability,
    decision_study,
    generalizability_study,
)
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.run_table import need_columns, numbers_of
from toolkit.stats.result import Estimate, Result
from toolkit.words import SCORE, choices

ANSWERS = Design(
    ("base", "answer", "judge", "repeat"),
    {"answer": ("base",), "repeat": ("base", "answer", "judge")},
)
"""Answers within bases, judged by every judge, perhaps several times: how far a score of one answer holds."""
BASES = Design(("base", "model", "judge", "repeat"), {"repeat": ("base", "model")})
"""Bases by models, each asked several times, by judges: how far the mean of a model or a base holds."""
_OBJECTS = ("answer", "model", "base")


@dataclass(frozen=True)
class StudyGeneralizability(Result):
    """Coefficients and components of a study, and what other designs would give."""

    score: str
    result: Generalizability
    decision: DecisionStudy
    notes: tuple[str, ...]
    about = "kind"

    def rows(self) -> list[tuple[str, Estimate]]:
        """Return coefficients, error variances, then components."""
        return self.result.rows()

    def figure_frame(self) -> pd.DataFrame:
        """Return what the figure of variance components and decision-study curves draws."""
        bars = self.result.components.frame()
        bars = bars.assign(part="component", name=bars["effect"], present=True)
        lines = self.decision.curves.assign(part="curve", name=self.decision.curves["coefficient"])
        levels = zip(lines["facet"], lines["count"], strict=True)
        lines["present"] = [self.result.counts.get(facet) == count for facet, count in levels]
        numbers = ["estimate", "low", "high", "raw", "share", "aud"]
        columns = ["part", "name", "facet", "count", *numbers, "present"]
        parts = [part.reindex(columns=columns).astype(object) for part in (bars, lines) if len(part)]
        frame = pd.concat(parts, ignore_index=True)
        return frame.astype({**dict.fromkeys(numbers, "float64"), "count": "Int64", "present": "bool"})

    def sentence(self) -> str:
        """Return coefficients, shares and plans in words ready for the thesis."""
        parts = (self.result.sentence(), self.result.components.sentence(), self.decision.sentence())
        return f"{self.score}: {' '.join(parts)}"


@over_clusters
def study_generalizability(
    judgements: pd.DataFrame,
    *,
    score: str = SCORE,
    of: str = "answer",
    target: float = 0.90,
    run_aud: float | None = None,
    judgement_aud: float | None = None,
) -> StudyGeneralizability:
    """Return how far the scores of a study generalize, and what a wanted coefficient would take.

    Of an answer (one reply): answers within bases x judges x times judged. Of a model: bases x models x judges, with
    runs repeated within base and model. Of a base: the same with the models fixed. For these scores are means over the
    length bins, which are fixed (Brennan 2001, section 4.3), and over the times a judge judged a reply.

    ``judgements`` has one row per judgement with base, model, repeat, judge, the score and, where there are several,
    run_id, length_bin and judge_repeat; ``target`` is the wanted coefficient, and a run and a judgement cost
    ``run_aud`` and ``judgement_aud`` (None where unknown).
    """
    if of not in _OBJECTS:
        raise InputError(f"generalizability of {of!r} is not known; {choices(of, _OBJECTS)}")
    need_columns("judgements", judgements, ("base", "model", "repeat", "judge", score))
    notes: list[str] = []
    frame, costs = _answers(judgements, score), Costs(run_aud, judgement_aud)
    if of != "answer":
        frame, costs, notes = _bases(judgements, score, costs)
    components = variance_components(frame, ANSWERS if of == "answer" else BASES)
    result = generalizability_study(components, of, fixed=("model",) if of == "base" else ())
    return StudyGeneralizability(
        score, result, decision_study(result, target, costs=costs), (*notes, *result.notes)
    )


def mean_cost(costs: pd.Series) -> float | None:
    """Return the mean of what calls cost in AUD, or None where no cost is known."""
    numbers = pd.to_numeric(costs, errors="coerce").dropna()
    return float(numbers.mean()) if len(numbers) else None


def _answers(judgements: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return base, answer, judge, repeat and score; an answer is a run."""
    if "run_id" in judgements:
        answer = judgements["run_id"]
    else:
        names = [name for name in ("model", "length_bin", "repeat") if name in judgements]
        answer = judgements[names].astype("string").agg(" / ".join, axis=1)
    judge, repeat = judgements["judge"].astype("object"), judgements.get("judge_repeat", 0)
    return judgements[["base"]].assign(answer=answer, judge=judge, repeat=repeat, score=judgements[score])


def _bases(judgements: pd.DataFrame, score: str, costs: Costs) -> tuple[pd.DataFrame, Costs, list[str]]:
    """Return scores averaged over times judged and length bins, what a cell costs, and how it was averaged."""
    keys = ["base", "situation", "model", "judge", "repeat"]
    situation = judgements["situation" if "situation" in judgements else "base"]
    frame = judgements.assign(situation=situation, score=numbers_of("judgements", judgements, score))
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
    costs = replace(costs, runs_per_cell=bins, judgements_per_run=max(times, 1))
    keys.remove("situation")  # see `mean_of_units`
    frame = frame.groupby(keys, sort=False, observed=True, dropna=False)["score"].mean().reset_index()
    return frame, costs, notes

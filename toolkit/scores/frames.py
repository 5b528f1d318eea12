"""The frames of somebody's scores: runs, judgements and ratings by people, as those of a study."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.scores.columns import TEXTS
from toolkit.stats.inference.run_table import WHOLE
from toolkit.store.frame_files import KINDS
from toolkit.words import DIMENSIONS, one_line

PARTIAL = "no score of some dimension"
LONE = "score"
"""The judge of scores that name none."""
_RUN = ["base", "level", "model", "repeat"]
_ANSWER_COLUMNS = ("cluster", "scenario", "aud_cost", "output_tokens")
_DEFAULTS = {
    "level": WHOLE, "model": "model", "judge": LONE, "repeat": 0, "judge_repeat": 0, "human": False,
    "failure": None, **dict.fromkeys(_ANSWER_COLUMNS),
}  # fmt: skip

_COLUMNS = ({*KINDS["runs"], *KINDS["judgements"], *_DEFAULTS, "rater", "human"}) - {
    *DIMENSIONS,
    "score",
}
"""Names of columns of the frames: no dimension has one of them, for each is a column of its own."""


def make_frames(
    rows: pd.DataFrame, name: str, source: str
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """Return runs, judgements, ratings by people and the dimensions of checked rows.

    The composite of a judgement is the mean of its dimensions, zeros counted, and missing where one of them is. The
    score of a run is the mean over its judges; where there are several judges it rests on two or more.
    """
    rows = rows.copy()
    for column, default in _DEFAULTS.items():
        if column not in rows:
            rows[column] = default
    rows["cluster"] = rows["cluster"].fillna(rows["base"])
    # Not by a function of pandas over rows, which makes a series of each: 200,000 take minutes.
    rows["run_id"] = list(map(" / ".join, zip(*(rows[name].astype(str) for name in _RUN), strict=True)))
    for column in ("aud_cost", "output_tokens"):
        counts = rows.groupby("run_id")[column].nunique()
        if (counts > 1).any():
            fault = one_line(f"{counts.idxmax()} has more than one value of {column}", 300)
            raise InputError(f"{source}: {fault}; an answer has one")
    if rows["human"].all():
        rows["human"] = False  # people who rated are the judges, where nobody else is
    scored = rows[rows["score"].notna() & ~rows["human"]]
    judges = scored.groupby("run_id")["judge"].nunique()
    several_judges = rows.loc[~rows["human"], "judge"].nunique() > 1
    if several_judges and (judges < 2).all():
        raise InputError(
            f"{source}: no answer has scores of two of its judges; read each judge alone, or leave their column out, "
            "which takes them for one (--column judge=)"
        )
    dimensions = tuple(dict.fromkeys(rows["dimension"])) if "dimension" in rows else ()
    if columns := [part for part in dimensions if part in _COLUMNS]:
        raise InputError(f"{source}: the dimension {columns[0]!r} has the name of a column; give it another")
    judged = _judgements(rows, dimensions, name)
    judgements, human = judged[~judged["human"]], judged[judged["human"]]
    runs = _runs(rows, judgements, dimensions, name, 2 if several_judges else 1)
    if len(human):
        human = human.assign(rater=human["judge"], reasons=None, source="file", version=1)
    return (
        runs,
        judgements.drop(columns="human").reset_index(drop=True),
        human.reset_index(drop=True),
        dimensions,
    )


def _judgements(rows: pd.DataFrame, dimensions: Sequence[str], name: str) -> pd.DataFrame:
    keys = ["run_id", "judge", "judge_repeat", "human"]
    copied = ["cluster", "scenario", *_RUN]
    once = rows.drop_duplicates(keys).set_index(keys)[[*copied, "failure"]]
    if dimensions:
        wide = rows.set_index([*keys, "dimension"])["score"].unstack("dimension")[list(dimensions)]
        wide["composite"] = wide.mean(axis=1, skipna=False)
    else:
        wide = rows.set_index(keys)[["score"]].rename(columns={"score": "composite"})
    judged = once.join(wide.astype("float64")).reset_index()
    failed = judged[[*dimensions, "composite"]].isna().all(axis=1)
    reasons = pd.Series(None, judged.index, "object").mask(judged["composite"].isna(), PARTIAL)
    reasons = reasons.mask(failed, "no score")
    return judged.assign(
        **TEXTS["judgement"], study=name, prompt_id=judged["base"], judge_model=judged["judge"], failed=failed,
        failure=judged["failure"].where(judged["failure"].notna(), reasons).where(reasons.notna(), None),
        composite_strict=judged["composite"], **dict.fromkeys(TEXTS["absent"]["judgement"], np.nan),
        call_id=judged["run_id"] + " / " + judged["judge"] + " / " + judged["judge_repeat"].astype(str),
    )  # fmt: skip


def _runs(
    rows: pd.DataFrame, judgements: pd.DataFrame, dimensions: Sequence[str], name: str, fewest: int
) -> pd.DataFrame:
    scores = [*dimensions, "composite"]
    by_judge = judgements.groupby(["run_id", "judge"])[scores].mean()
    by_run = by_judge.groupby("run_id")
    counts, spread = by_run["composite"].count(), by_run["composite"].std()
    means = by_run.mean().where(by_run.count() >= fewest)
    runs = rows.drop_duplicates("run_id").set_index("run_id")[[*_RUN, *_ANSWER_COLUMNS]]
    counting = counts.reindex(runs.index).fillna(0).astype(int)
    judged = counting >= fewest
    reasons = judgements.groupby("run_id")["failure"].first()
    tokens = pd.to_numeric(runs["output_tokens"], errors="coerce")
    table = runs.join(means).assign(
        **TEXTS["run"], study=name, prompt_id=runs["base"], **dict.fromkeys(TEXTS["absent"]["run"]),
        failure=reasons.reindex(runs.index).where(~judged, None), judge_count=counting, judged=judged,
        composite_std=spread.reindex(runs.index).where(judged), total_tokens=tokens,
        output_tokens=tokens, aud_cost=pd.to_numeric(runs["aud_cost"], errors="coerce"), judge_aud_cost=np.nan,
    )  # fmt: skip
    table["composite_strict"] = table["composite"]
    ordered = table.reset_index().sort_values(["model", "base", "level", "repeat"], ignore_index=True)
    return ordered.astype({"failure": "object", "output_tokens": "float64"})

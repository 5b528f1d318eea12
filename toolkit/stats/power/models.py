"""Which difference of two models a study can find, and how many more items an effect would need."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import pandas as pd

from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.run_table import checked_runs, score_unit
from toolkit.stats.power.pilot import ALPHA
from toolkit.stats.power.sample_size import (
    PowerAnswer,
    bases_needed,
    check_size,
    detectable_effect,
    unanswerable,
)
from toolkit.stats.result import Estimate, Result
from toolkit.words import SCORE

KINDS: Final = ("detectable difference", "bases needed")


@dataclass(frozen=True)
class ModelPower(Result):
    """What is detectable of each pair of models, and the bases that an effect needs where one was asked for."""

    about: ClassVar[str] = "models"
    kinds: ClassVar[Mapping[str, str]] = dict(zip(("detectable", "needed"), KINDS, strict=True))
    detectable: tuple[Estimate, ...]
    needed: tuple[Estimate, ...]
    level: float
    notes: tuple[str, ...] = ()


@over_clusters
def model_power(runs: pd.DataFrame, *, score: str = SCORE, effect: float | None = None) -> ModelPower:
    r"""Return the smallest difference of two models that the runs can find with a power of .8, and what one needs.

    The difference is taken prompt by prompt, as in `compare_models`. Its clustered standard error times
    :math:`\sqrt{n}`, with n bases, is the standard deviation that `detectable_effect` and `bases_needed` take. The
    level is .05 over the number of pairs, that of Holm's first step. The observed difference enters nowhere.

    Parameters
    ----------
    runs : DataFrame
        One row an answer: base, model, length_bin, the score, and perhaps cluster and prompt_id.
    score : str
        Column of scores.
    effect : float, optional
        The difference that matters, in the unit of the score.

    Returns
    -------
    ModelPower
        One estimate a pair of models, in the unit of the score, and one in bases where an effect is given.

    References
    ----------
    Miller (2024), Adding Error Bars to Evals, arXiv:2411.00640, section 5.

    Examples
    --------
    >>> rows = [(f"b{i}", "all", m, v) for i in range(40) for m, v in (("x", i % 2), ("y", i % 3 == 0))]
    >>> runs = pd.DataFrame(rows, columns=["base", "length_bin", "model", "right"])
    >>> result = model_power(runs, score="right", effect=0.1)
    >>> round(result.detectable[0].estimate, 2), result.needed[0].whole
    (0.32, 387)
    """
    if effect is not None:
        check_size("the effect", abs(effect), 0, above=True)
    prompts = ["prompt_id"] if "prompt_id" in runs else []
    checked = checked_runs(runs, score, labels=prompts)
    cells = (
        checked.groupby(["base", "situation", "length_bin", *prompts, "model"])["score"]
        .mean()
        .unstack("model")
    )
    pairs = list(itertools.combinations(cells.columns, 2))
    level, unit = ALPHA / max(len(pairs), 1), score_unit(score, runs)
    detectable: list[Estimate] = []
    needed: list[Estimate] = []
    for first, second in pairs:
        name, difference = f"{first} - {second}", (cells[first] - cells[second]).dropna()
        bases = list(difference.index.get_level_values("base"))
        answers = _answers(difference, bases, effect, level, unit)
        facets = {"models": name}
        for answer, listed, kind in zip(answers, (detectable, needed), KINDS, strict=False):
            label = f"{kind}, {name}"
            listed.append(replace(answer, name=label, statistic=kind, facets=facets, words=""))
    return ModelPower(tuple(detectable), tuple(needed), level)


def _answers(
    difference: pd.Series, bases: list[str], effect: float | None, level: float, unit: str
) -> list[PowerAnswer]:
    n = len(set(bases))
    error = clustered_mean(difference, bases).error if n > 1 else None
    if not error:
        reason = (
            "the answers of both models agree on every item" if n > 1 else "fewer than two bases have both"
        )
        return [unanswerable("", reason)] * (1 if effect is None else 2)
    sd = error * n**0.5
    answers = [detectable_effect(n, sd, alpha=level, unit=unit)]
    return answers if effect is None else [*answers, bases_needed(effect, sd, alpha=level)]

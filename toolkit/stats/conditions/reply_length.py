"""The length of replies and their scores: a slope, and what prompt length does in all and at equal length of reply."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from toolkit.stats.conditions import contrasts
from toolkit.stats.inference import run_table
from toolkit.stats.inference.clusters import complete_rows, over_clusters
from toolkit.stats.inference.means import CR2_METHOD, Coefficient, cluster_robust
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result
from toolkit.words import SCORE

_LENGTH = "output_tokens"
TOKENS = 100.0  # the slope is per so many tokens of the reply


@over_clusters
def length_bias(runs: pd.DataFrame, score: str = SCORE) -> Result:
    r"""Return the slope of score on reply length, and total and direct effect of the prompt's length.

    Total: :math:`y = \alpha_{base} + \gamma_{model \times bin} + e`; direct: the same plus :math:`\beta \cdot` reply
    length. An effect of a bin is the mean over the models of the difference of their :math:`\gamma`; :math:`\beta` is
    the slope. Both use the same runs, those with a score and a length, so that they differ by nothing but
    :math:`\beta`. Standard errors are CR2 clustered by base.

    References
    ----------
    Dubois et al. (2024), Length-controlled AlpacaEval, arXiv:2404.04475, for the bias; Pustejovsky & Tipton (2018), J.
    Bus. Econ. Stat. 36, 672-683, for the intervals; Pearl (2001), Direct and indirect effects, UAI 17, for what
    ``direct`` presumes.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> rows = [(b, m, s, rng.integers(200, 900)) for b in range(8) for m in "xy" for s in "SML"]
    >>> runs = pd.DataFrame(rows, columns=["base", "model", "level", "output_tokens"])
    >>> runs["composite_strict"] = 3 + 0.001 * runs["output_tokens"] + rng.normal(0, 0.1, len(runs))
    >>> found = length_bias(runs)
    >>> round(found.slope.estimate, 2), found.slope.unit
    (0.09, 'score points (0-5) per 100 tokens')
    """
    table = run_table.checked_runs(runs, score, numbers=(_LENGTH,))
    labels = {"method": CR2_METHOD, "unit": run_table.score_unit(score, runs)}
    empty, used = complete_rows("", table, ["score", _LENGTH], ("bases", "answers"), **labels)
    codes, names = pd.factorize(pd.MultiIndex.from_frame(used[["model", "level"]]))
    size = len(names)
    dummies = np.eye(size)[codes].reshape(len(used), size)
    tokens = used[_LENGTH].to_numpy() / TOKENS
    pairs = (
        contrasts.successive(run_table.levels_of(runs)) if (table["level"] != run_table.WHOLE).any() else ()
    )
    by_contrast = {run_table.contrast_name(b, a): _weights(b, a, list(names)) for b, a in pairs}
    bases, within = used["unit"].to_numpy(), used["base"].to_numpy()
    design = _within(np.column_stack([dummies, tokens]), within)
    # Tokens that differ by rounding only after the base's mean is taken out are no length to explain by.
    if np.abs(design[:, -1]).max(initial=0.0) <= ROUNDING * np.abs(tokens).max(initial=0.0):
        design[:, -1] = 0.0
    y = _within(used["score"].to_numpy()[:, None], within)[:, 0]
    possible = {name: weights for name, weights in by_contrast.items() if weights is not None}
    total = cluster_robust(design[:, :size], y, bases, possible)
    adjusted = {name: np.append(weights, 0.0) for name, weights in possible.items()}
    direct = cluster_robust(design, y, bases, adjusted | {"slope": np.append(np.zeros(size), 1.0)})
    slope = replace(empty, name="slope on reply length", unit=f"{empty.unit} per {TOKENS:g} tokens")
    return Result(
        "length_bias",
        slope=direct["slope"].of(slope),
        total=_effects(empty, by_contrast, total),
        direct=_effects(empty, by_contrast, direct),
        notes=_bias_notes(table, used, score, list(names)),
    )


def _within(columns: np.ndarray, bases: np.ndarray) -> np.ndarray:
    """Return columns less the mean of their base, which stands for an intercept of each base."""
    frame = pd.DataFrame(columns)
    return np.array(frame - frame.groupby(bases).transform("mean"))


def _weights(more: str, less: str, cells: list[tuple[str, str]]) -> np.ndarray | None:
    """Return the weights of a difference of two bins, averaged over the models that have both."""
    models_of = [{model for model, level in cells if level == name} for name in (more, less)]
    models = models_of[0] & models_of[1]
    if not models:
        return None
    sign = {more: 1.0, less: -1.0}
    return np.array([sign.get(b, 0.0) / len(models) if model in models else 0.0 for model, b in cells])


def _effects(empty: Estimate, names: Iterable[str], coefficients: dict[str, Coefficient]) -> Estimates:
    absent = Coefficient(None, reason="no model has scores in both length bins")
    return tuple(coefficients.get(name, absent).of(replace(empty, name=name)) for name in names)


def _bias_notes(
    table: pd.DataFrame, used: pd.DataFrame, score: str, cells: list[tuple[str, str]]
) -> tuple[str, ...]:
    notes = [
        "the direct effect is causal only if nothing else that differs between replies drives both their length "
        "and their score",
        *run_table.left_out_note(table, f"{score} or no {_LENGTH}", len(table) - len(used)),
    ]
    models, bins = ({cell[index] for cell in cells} for index in (0, 1))
    if len(cells) < len(models) * len(bins):
        notes.append("some model lacks a length bin and does not count in the contrasts of that bin")
    return tuple(notes)

"""Length bias: whether longer replies score higher, and what the length of the prompt does apart from that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import CR2_METHOD, Coefficient, cluster_robust
from toolkit.stats.inference.multiplicity import holm
from toolkit.stats.inference.run_table import checked_runs, score_unit
from toolkit.stats.prompt_length.contrasts import CONTRASTS, exploratory
from toolkit.stats.result import ROUNDING, Estimate, estimates_frame
from toolkit.words import agreeing, counted

TOKENS: Final = 100.0
"""The slope is per so many tokens of the reply."""


@dataclass(frozen=True)
class LengthBias:
    """The slope of score on reply length, and the effect of the prompt's length with and without it.

    Parameters
    ----------
    slope
        Score points per 100 tokens of the reply, within base, model and length bin.
    total
        Effect of the prompt's length bin on the score, M-S, L-M and L-S, whatever the reply's length.
    direct
        The same between replies of equal length; total less direct went through the length of the reply.
    notes
        What was left out, and on what the reading of ``direct`` rests.
    """

    slope: Estimate
    total: tuple[Estimate, ...]
    direct: tuple[Estimate, ...]
    notes: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per result (columns of ``toolkit.stats.result``) with its kind as ``effect``."""
        return estimates_frame(self._rows(), "effect")

    def to_dict(self) -> dict[str, Any]:
        """Return every result as plain JSON types."""
        return {
            "slope": self.slope.to_dict(),
            "total": [result.to_dict() for result in self.total],
            "direct": [result.to_dict() for result in self.direct],
            "notes": list(self.notes),
        }

    def sentence(self) -> str:
        """Return the results in words ready for the thesis."""
        parts = [self.slope.sentence()]
        parts += [f"Total effect of prompt length: {result.sentence()}" for result in self.total]
        parts += [f"Direct effect at equal reply length: {result.sentence()}" for result in self.direct]
        return " ".join(parts)

    def _rows(self) -> Iterator[tuple[str, Estimate]]:
        yield "slope", self.slope
        yield from (("total", result) for result in self.total)
        yield from (("direct", result) for result in self.direct)


@over_clusters
def length_bias(
    runs: pd.DataFrame, score: str = "composite", length: str = "output_tokens", confidence: float = 0.95
) -> LengthBias:
    r"""Return the slope of score on reply length, and total and direct effect of the prompt's length.

    Total: :math:`y = \alpha_{base} + \gamma_{model \times bin} + e`; direct: the same plus
    :math:`\beta \cdot` reply length. An effect of a bin is the mean over the models of the difference of their
    :math:`\gamma`; :math:`\beta` is the slope. Both use the same runs, those with a score and a length, so that they
    differ by nothing but :math:`\beta`. Standard errors are CR2 clustered by base.
    Simulated 95 % intervals (slopes that differ between bases, 1 to 3 models, half steps near the ceiling, a tenth
    missing) covered, at 12 to 100 bases, slope 94.0-96.7 %, total 93.8-95.4 %, direct 94.2-96.2 %; at 6 bases and two
    models 94.7, 94.8 and 95.7 %.

    Parameters
    ----------
    runs
        One row per run with base, length_bin, the score, the length and, where there are several, model.
    score
        Column to explain.
    length
        Column with the reply's length in tokens.
    confidence
        Coverage of the intervals.

    Returns
    -------
    LengthBias

    Raises
    ------
    InputError
        As `toolkit.stats.inference.run_table.checked_runs`.

    References
    ----------
    Dubois et al. (2024), Length-controlled AlpacaEval, arXiv:2404.04475, for the bias; Pustejovsky & Tipton (2018),
    Journal of Business & Economic Statistics 36, 672-683, for the intervals; Pearl (2001), Direct and indirect
    effects, UAI 17, for what ``direct`` presumes.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> rows = [(b, m, s, rng.integers(200, 900)) for b in range(8) for m in "xy" for s in "SML"]
    >>> runs = pd.DataFrame(rows, columns=["base", "model", "length_bin", "output_tokens"])
    >>> runs["composite"] = 3 + 0.001 * runs["output_tokens"] + rng.normal(0, 0.1, len(runs))
    >>> found = length_bias(runs)
    >>> round(found.slope.estimate, 2), found.slope.unit
    (0.09, 'score points (0-5) per 100 tokens')
    """
    table = checked_runs(runs, score, numbers=(length,))
    used = table.dropna(subset=["score", length])
    missing = len(table) - len(used)
    cells = pd.MultiIndex.from_frame(used[["model", "length_bin"]])
    codes, names = pd.factorize(cells)
    dummies = np.eye(len(names))[codes].reshape(len(used), len(names))
    tokens = used[length].to_numpy() / TOKENS
    contrasts = {f"{b}-{a}": _contrast(b, a, list(names)) for b, a in CONTRASTS}
    bases, within = used["base"].to_numpy(), used["situation"].to_numpy()
    design = _within(np.column_stack([dummies, tokens]), within)
    # Tokens that differ by rounding only after the base's mean is taken out are no length to explain by.
    if np.abs(design[:, -1]).max(initial=0.0) <= ROUNDING * np.abs(tokens).max(initial=0.0):
        design[:, -1] = 0.0
    y = _within(used["score"].to_numpy()[:, None], within)[:, 0]
    size = len(names)
    possible = {name: weights for name, weights in contrasts.items() if weights is not None}
    total = cluster_robust(design[:, :size], y, bases, possible, confidence)
    adjusted = {name: np.append(weights, 0.0) for name, weights in possible.items()}
    adjusted["slope"] = np.append(np.zeros(size), 1.0)
    direct = cluster_robust(design, y, bases, adjusted, confidence)
    unit = score_unit(score)
    empty = Estimate(
        "",
        None,
        method=CR2_METHOD,
        unit=unit,
        n={"bases": len(set(bases)), "answers": len(used)},
        missing=missing,
        confidence=confidence,
    )
    slope = replace(empty, name="slope on reply length", unit=f"{unit} per {TOKENS:g} tokens")
    return LengthBias(
        slope=exploratory(_filled(slope, direct["slope"])),
        total=_corrected(empty, contrasts, total),
        direct=_corrected(empty, contrasts, direct),
        notes=_notes(len(table), missing, score, length, names),
    )


def _within(columns: np.ndarray, bases: np.ndarray) -> np.ndarray:
    """Return columns less the mean of their base, which stands for an intercept of each base."""
    frame = pd.DataFrame(columns)
    return np.array(frame - frame.groupby(bases).transform("mean"))


def _contrast(more: str, less: str, cells: list[tuple[str, str]]) -> np.ndarray | None:
    """Return the weights of a difference of two bins, averaged over the models that have both."""
    of_bin = [{model for model, length_bin in cells if length_bin == name} for name in (more, less)]
    models = of_bin[0] & of_bin[1]
    if not models:
        return None
    sign = {more: 1.0, less: -1.0}
    return np.array([sign.get(b, 0.0) / len(models) if model in models else 0.0 for model, b in cells])


def _filled(empty: Estimate, found: Coefficient) -> Estimate:
    return replace(
        empty,
        estimate=found.estimate,
        low=found.low,
        high=found.high,
        p_value=found.p_value,
        note=found.reason,
        degrees=found.degrees,
    )


def _corrected(
    empty: Estimate, names: dict[str, np.ndarray | None], found: dict[str, Coefficient]
) -> tuple[Estimate, ...]:
    absent = Coefficient(None, reason="not estimable: no model has scores in both length bins")
    results = [_filled(replace(empty, name=name), found.get(name, absent)) for name in names]
    corrected = holm([result.p_value for result in results])
    made = sum(p is not None for p in corrected)
    correction = f"Holm over {made} contrasts" if made > 1 else "none"
    return tuple(
        exploratory(replace(result, p_value=p, correction=correction if p is not None else "none"))
        for result, p in zip(results, corrected, strict=True)
    )


def _notes(runs: int, missing: int, score: str, length: str, cells: Any) -> tuple[str, ...]:
    notes = [
        "the direct effect is causal only if nothing else that differs between replies drives both their length "
        "and their score"
    ]
    if missing:
        notes.append(
            f"{missing} of {counted(runs, 'runs')} "
            f"{agreeing(missing, f'have no {score} or no {length} and are left out')}"
        )
    models = {model for model, _ in cells}
    bins = {length_bin for _, length_bin in cells}
    if len(cells) < len(models) * len(bins):
        notes.append("some model lacks a length bin and does not count in the contrasts of that bin")
    return tuple(notes)

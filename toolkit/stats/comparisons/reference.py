"""What a reference answer does to the scores: the same runs judged with it and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import pandas as pd

from toolkit.stats.agreement.alpha import krippendorff_alpha, krippendorff_difference
from toolkit.stats.comparisons.focus import paired_difference, paired_judgements, pairing_notes
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.p_values import with_holm
from toolkit.stats.prompt_length.contrasts import effect_size, exploratory
from toolkit.stats.result import Estimate, Result
from toolkit.words import DIMENSIONS, SCORE

_SIDES: Final = ("with reference", "without reference")


@dataclass(frozen=True)
class ReferenceEffect(Result):
    """Scores with the reference answer less scores without, of the same runs by the same judges.

    ``agreement`` is Krippendorff's alpha of the judges with the reference, without it, and the difference.
    """

    about: ClassVar[str] = "comparison"
    kinds: ClassVar[Mapping[str, str]] = {
        "difference": "all judges",
        "by_dimension": "dimension",
        "by_judge": "judge",
        "agreement": "agreement of the judges",
        "effect_sizes": "effect size",
    }
    first: ClassVar[tuple[str, ...]] = ("difference", "agreement", "by_judge")
    difference: Estimate
    by_dimension: tuple[Estimate, ...]
    by_judge: tuple[Estimate, ...]
    agreement: tuple[Estimate, ...]
    effect_sizes: tuple[Estimate, ...]
    notes: tuple[str, ...]


@over_clusters
def reference_effect(
    on: pd.DataFrame, off: pd.DataFrame, score: str = SCORE, *, dimensions: Sequence[str] = DIMENSIONS
) -> ReferenceEffect:
    r"""Compare judgements with the reference answer and without, within run and judge.

    Parameters
    ----------
    on, off
        One row a judgement: run_id, base, length_bin, judge, perhaps model and judge_repeat, ``score`` and
        ``dimensions`` (points; NaN where the judgement failed, which is missing and never 0).
    score
        The column that the difference, the judges and their agreement are of.
    dimensions
        Further columns that are compared, those that both frames have.

    Returns
    -------
    ReferenceEffect
        Means of on - off as in `focus_contrast`, by Student t over bases: of all judges, of each dimension and of each
        judge, the last two with Holm's p values; and Krippendorff's :math:`\alpha` (interval) of the judges on the
        answers that they scored on both sides, with :math:`\alpha_{on} - \alpha_{off}` by the jackknife over bases.

    Raises
    ------
    InputError
        If a column is missing, a run is there twice, or no run is in both frames.

    References
    ----------
    Miller (2024), arXiv:2411.00640, for paired differences over clusters. Krippendorff (2011), Computing
    Krippendorff's alpha-reliability.

    Examples
    --------
    >>> rows = [(f"r{b}{s}", f"b{b}", s, j) for b in range(4) for s in "SML" for j in ("primary", "secondary")]
    >>> off = pd.DataFrame(rows, columns=["run_id", "base", "length_bin", "judge"]).assign(composite_strict=3.0)
    >>> on = off.assign(composite_strict=[2.2 + 0.1 * (int(run[1]) % 3) for run in off["run_id"]])
    >>> found = reference_effect(on, off)
    >>> round(found.difference.estimate, 3), [judge.name for judge in found.by_judge]
    (-0.725, ['reference on - off, primary', 'reference on - off, secondary'])
    """
    words = "reference effect", "with and without the reference answer"
    pairs = paired_judgements(on, off, score, *words)
    difference, values, _ = paired_difference(pairs, "reference on - off", score, on)
    by_dimension = [
        paired_difference(paired_judgements(on, off, name, *words), f"reference on - off, {name}", name, on)[
            0
        ]
        for name in dimensions
        if name in on and name in off and name != score
    ]
    of_judge = pairs.index.get_level_values("judge")
    by_judge = [
        paired_difference(pairs[of_judge == judge], f"reference on - off, {judge}", score, on)[0]
        for judge in sorted(of_judge.unique(), key=str)
    ]
    return ReferenceEffect(
        exploratory(difference),
        tuple(map(exploratory, with_holm(by_dimension, "dimensions"))),
        tuple(map(exploratory, with_holm(by_judge, "judges"))),
        _agreement(pairs.dropna(subset=["on", "off"])),
        tuple(effect_size(kind, difference, values["on"] - values["off"]) for kind in ("d_z", "g_z")),
        pairing_notes(pairs, difference.missing),
    )


def _agreement(complete: pd.DataFrame) -> tuple[Estimate, ...]:
    on, off = (complete[side].unstack("judge").to_numpy(float) for side in ("on", "off"))
    bases = complete.groupby(level="run_id")["base"].first().tolist()
    alphas = krippendorff_alpha(on, bases), krippendorff_alpha(off, bases)
    return (
        *(replace(a, name=f"{a.name}, {side}") for a, side in zip(alphas, _SIDES, strict=True)),
        exploratory(krippendorff_difference(on, off, bases)),
    )

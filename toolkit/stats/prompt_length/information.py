"""Length apart from information: S, M and L beside prompts that change only one of the two, paired by base."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from toolkit.stats.inference.clusters import mean_of_units, over_clusters
from toolkit.stats.inference.p_values import exploratory_tests
from toolkit.stats.inference.run_table import (
    Points,
    averaged_note,
    checked_runs,
    left_out_note,
    need_columns,
    score_unit,
)
from toolkit.stats.prompt_length.contrasts import (
    PAIRED_METHOD,
    bin_mean,
    effect_size,
    equivalences,
    largest,
    length_cells,
    mean_over_bases,
    on_models,
)
from toolkit.stats.result import Estimate, Estimates, Result, rounded_apart
from toolkit.words import LENGTH_ARMS, LENGTH_BINS, SCORE, agreeing, counted

TEXTS = (*LENGTH_BINS, *LENGTH_ARMS)
"""The six prompts of a base."""
NAMED = 5  # bases without any arm that a note names
STEPS = (("S", "neutral_m", "M"), ("S", "neutral_l", "L"), ("neutral_m", "short_l", "L"))
"""Texts that a step needs: each base and model counts where it has a score of all three."""
LENGTH_PAIRS = (("neutral_m", "S", 0), ("neutral_l", "S", 1), ("L", "short_l", 2))
INFORMATION_PAIRS = (("M", "neutral_m", 0), ("L", "neutral_l", 1), ("short_l", "neutral_m", 2))
_TOTAL = (("M", "S", 0), ("L", "S", 1))
"""Differences, the second text from the first, each with the number of its step."""


@dataclass(frozen=True)
class LengthInformation(Result):
    """What length does to scores at equal information, what information does at equal length, and their sum.

    ``length`` and ``information`` have three differences each, the first two of which add up to those of ``total``.
    """

    about = "effect"
    kinds: ClassVar[dict[str, str]] = {
        "length": "length at equal information",
        "information": "information at equal length",
        "total": "both together",
        "effect_sizes": "effect size",
        "equivalence": "equivalence of lengths at equal information",
        "means": "mean of prompt",
    }
    first = ("length", "information", "total")
    length: Estimates
    information: Estimates
    total: Estimates
    effect_sizes: Estimates
    equivalence: Estimates
    means: Estimates
    notes: tuple[str, ...]

    def sentence(self) -> str:
        """Return the parts of what M and L gain over S, in words ready for the thesis."""
        parts = zip(_TOTAL, self.total, self.information, self.length, strict=False)
        return " ".join(_sentence(pair[:2], *estimates) for pair, *estimates in parts)


@over_clusters
def length_and_information(
    runs: pd.DataFrame, score: str = SCORE, *, margin: float | None = None
) -> LengthInformation:
    r"""Part what a longer prompt does into what its length does and what its information does, within bases.

    Length at equal information: ``neutral_m - S`` and ``neutral_l - S`` (S among background that bears on nothing) and
    ``L - short_l`` (the facts of L, in full and in short). Information at equal length: ``M - neutral_m``,
    ``L - neutral_l`` and ``short_l - neutral_m``. The first two of each add up to ``M - S`` and ``L - S`` exactly,
    because a base and model counts for a step only with scores of all three prompts that the step compares. All else is
    as in `compare_lengths`: repeats, then models are averaged, and Student's t is over bases.

    Parameters
    ----------
    runs
        One row a run: base, length_bin, length_arm (neutral_m, neutral_l, short_l, or empty for S, M and L), the
        score, and perhaps model and cluster. Bases without any run of an arm are left out.
    score
        The column that is compared. A run without a score is missing and never zero.
    margin
        Of equivalence in score points: whether length at equal information does next to nothing is tested too.

    Returns
    -------
    LengthInformation
        Holm's correction is over the six parts, and over the two sums; all are exploratory.

    Raises
    ------
    InputError
        If a column is missing, or a score is no number.

    Examples
    --------
    >>> gain = {"S": 0.0, "neutral_m": 0.1, "neutral_l": 0.1, "short_l": 0.8, "M": 0.5, "L": 1.0}
    >>> arms = {"neutral_m": "M", "neutral_l": "L", "short_l": "M"}
    >>> rows = [
    ...     (f"b{b}", arms.get(text, text), text if text in arms else None, 2 + g + 0.1 * (b * len(text) % 3))
    ...     for b in range(4)
    ...     for text, g in gain.items()
    ... ]
    >>> runs = pd.DataFrame(rows, columns=["base", "length_bin", "length_arm", "composite_strict"])
    >>> result = length_and_information(runs)
    >>> [(row.name, round(row.estimate, 2)) for row in (*result.total, *result.length[:1], *result.information[:1])]
    [('M-S', 0.5), ('L-S', 1.0), ('neutral_m-S', 0.03), ('M-neutral_m', 0.47)]
    """
    need_columns("runs", runs, ("base", "length_bin", "length_arm"))
    arms = runs["length_arm"].astype("object").where(runs["length_arm"].notna(), None).to_numpy()
    checked = checked_runs(runs, score)
    all_bases = checked["situation"].unique()
    checked["length_bin"] = [arm or name for arm, name in zip(arms, checked["length_bin"], strict=True)]
    of_arms = checked.loc[checked["length_bin"].isin(LENGTH_ARMS), "situation"]
    checked = checked[checked["situation"].isin(of_arms)]
    cells = length_cells(checked, TEXTS)
    unit, bases = score_unit(score, runs), checked["base"].nunique()
    scale = largest(cells)
    complete = [cells[list(texts)].dropna() for texts in STEPS]
    steps = [mean_of_units(rows) for rows in complete]

    pairs = (*LENGTH_PAIRS, *INFORMATION_PAIRS, *_TOTAL)
    values = [steps[step][more] - steps[step][less] for more, less, step in pairs]
    means = []
    for (more, less, _), gain in zip(pairs, values, strict=True):
        counts, missing = {"bases": len(gain)}, bases - len(gain)
        empty = Estimate(f"{more}-{less}", method=PAIRED_METHOD, unit=unit, n=counts, missing=missing)
        means.append(mean_over_bases(empty, gain, scale, "scores of all three prompts"))
    differences = on_models(means, (complete[step] for *_, step in pairs), checked["model"])
    parts, sums = differences[: -len(_TOTAL)], differences[-len(_TOTAL) :]
    results = (*exploratory_tests(parts, "parts"), *exploratory_tests(sums, "sums"))
    gains = list(zip(results, values, strict=True))
    return LengthInformation(
        results[: len(LENGTH_PAIRS)],
        results[len(LENGTH_PAIRS) : len(parts)],
        results[len(parts) :],
        tuple(effect_size("d_z", *gain) for gain in gains),
        equivalences(gains[: len(LENGTH_PAIRS)], margin, unit, scale),
        tuple(bin_mean(text, checked, unit) for text in TEXTS),
        _notes(checked, cells, score, all_bases),
    )


def _notes(checked: pd.DataFrame, cells: pd.DataFrame, score: str, all_bases: np.ndarray) -> tuple[str, ...]:
    """Say what is averaged and left out; bases that lack a prompt are named."""
    notes = [*averaged_note(checked), *left_out_note(checked, score)]
    if without := sorted({*all_bases} - {*checked["situation"]}, key=str):
        lack = agreeing(len(without), "have no length arms and are left out")
        more = f" and {len(without) - NAMED} more" if len(without) > NAMED else ""
        names = ", ".join(map(str, without[:NAMED]))
        notes.append(f"{len(without)} of {counted(len(all_bases), 'bases')} {lack}: {names}{more}")
    scored = cells.notna().groupby(level="situation").any()
    lacking = [f"{base} ({', '.join(row.index[~row])})" for base, row in scored.iterrows() if not row.all()]
    if lacking:
        notes.append(f"left out of the steps that need them, for want of scores: {', '.join(lacking)}")
    if incomplete := int(cells.isna().any(axis=1).sum()):
        lack = agreeing(incomplete, "lack the score of a prompt and are left out of its steps")
        notes.append(f"{incomplete} of {counted(len(cells), 'pairs of base and model')} {lack}")
    return tuple(notes)


def _sentence(pair: tuple[str, str], total: Estimate, information: Estimate, length: Estimate) -> str:
    more, less = pair
    if total.estimate is None or information.estimate is None or length.estimate is None:
        return f"What {more} gains over {less} is not parted: {total.why_no_number}."
    points = "points" if isinstance(total.unit, Points) else total.unit
    verb = "gains over" if total.estimate >= 0 else "loses against"
    gains = [_signed(estimate, total.estimate < 0) for estimate in (total, information, length)]
    return (
        f"Of the {gains[0]} {points} that {more} {verb} {less}, {gains[1]} come with information and {gains[2]} with "
        f"length alone ({total.counts}; {total.method})."
    )


def _signed(estimate: Estimate, is_loss: bool) -> str:
    """Return a number and its interval; of a loss with the opposite sign."""
    numbers: Sequence[float | None] = (estimate.estimate, estimate.low, estimate.high)
    if is_loss:
        numbers = [None if end is None else -end for end in (numbers[0], numbers[2], numbers[1])]
    value, low, high = rounded_apart(numbers)
    return f"{value} [{low}, {high}]" if low and high else value

"""Length apart from what comes with it: information, by prompts that change one of the two, and length of the reply."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from toolkit.stats.inference import run_table
from toolkit.stats.inference.clusters import complete_rows, mean_of_units, over_clusters
from toolkit.stats.inference.means import CR2_METHOD, Coefficient, cluster_robust
from toolkit.stats.prompt_length import contrasts
from toolkit.stats.result import ROUNDING, Estimate, Estimates, Result, rounded_apart
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


@over_clusters
def length_and_information(runs: pd.DataFrame, score: str = SCORE, *, margin: float | None = None) -> Result:
    r"""Part what a longer prompt does into what its length does and what its information does, within bases.

    Length at equal information: ``neutral_m - S`` and ``neutral_l - S`` (S among background that bears on nothing) and
    ``L - short_l`` (the facts of L, in full and in short). Information at equal length: ``M - neutral_m``, ``L -
    neutral_l`` and ``short_l - neutral_m``. The first two of each add up to ``M - S`` and ``L - S`` exactly, because a
    base and model counts for a step only with scores of all three prompts that the step compares. All else is as in
    `compare_lengths`: repeats, then models are averaged, and Student's t is over bases.

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
    Result
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
    run_table.need_columns("runs", runs, ("base", "length_bin", "length_arm"))
    arms = runs["length_arm"].astype("object").where(runs["length_arm"].notna(), None).to_numpy()
    checked = run_table.checked_runs(runs, score)
    all_bases = checked["base"].unique()
    checked["length_bin"] = [arm or name for arm, name in zip(arms, checked["length_bin"], strict=True)]
    of_arms = checked.loc[checked["length_bin"].isin(LENGTH_ARMS), "base"]
    checked = checked[checked["base"].isin(of_arms)]
    cells = contrasts.length_cells(checked, TEXTS)
    unit, bases = run_table.score_unit(score, runs), checked["unit"].nunique()
    scale = contrasts.largest(cells)
    complete = [cells[list(texts)].dropna() for texts in STEPS]
    steps = [mean_of_units(rows) for rows in complete]

    pairs = (*LENGTH_PAIRS, *INFORMATION_PAIRS, *_TOTAL)
    values = [steps[step][more] - steps[step][less] for more, less, step in pairs]
    needed, names = "scores of all three prompts", [f"{more}-{less}" for more, less, _ in pairs]
    means = [
        contrasts.mean_over_bases(name, gain, bases, scale, needed, unit=unit)
        for name, gain in zip(names, values, strict=True)
    ]
    differences = contrasts.on_models(means, (complete[step] for *_, step in pairs), checked["model"])
    gains = list(zip(differences, values, strict=True))
    return Result(
        "length_and_information",
        text=_gains_sentence,
        length=differences[: len(LENGTH_PAIRS)],
        information=differences[len(LENGTH_PAIRS) : -len(_TOTAL)],
        total=differences[-len(_TOTAL) :],
        effect_sizes=[contrasts.effect_size("d_z", *gain) for gain in gains],
        equivalence=contrasts.equivalences(gains[: len(LENGTH_PAIRS)], margin, unit, scale),
        means=[contrasts.bin_mean(text, checked, unit) for text in TEXTS],
        notes=_notes(checked, cells, score, all_bases),
    )


def _gains_sentence(result: Result) -> str:
    """Return the parts of what M and L gain over S in words."""
    parts = zip(_TOTAL, result.total, result.information, result.length, strict=False)
    return " ".join(_sentence(pair[:2], *estimates) for pair, *estimates in parts)


def _notes(checked: pd.DataFrame, cells: pd.DataFrame, score: str, all_bases: np.ndarray) -> tuple[str, ...]:
    """Say what is averaged and left out; bases that lack a prompt are named."""
    notes = [*run_table.averaged_note(checked), *run_table.left_out_note(checked, score)]
    if without := sorted({*all_bases} - {*checked["base"]}, key=str):
        lack = agreeing(len(without), "have no length arms and are left out")
        more = f" and {len(without) - NAMED} more" if len(without) > NAMED else ""
        names = ", ".join(map(str, without[:NAMED]))
        notes.append(f"{len(without)} of {counted(len(all_bases), 'bases')} {lack}: {names}{more}")
    scored = cells.notna().groupby(level="base").any()
    lacking = [f"{base} ({', '.join(row.index[~row])})" for base, row in scored.iterrows() if not row.all()]
    if lacking:
        notes.append(f"left out of the steps that need them, for want of scores: {', '.join(lacking)}")
    lack = "lack the score of a prompt and are left out of its steps"
    incomplete = int(cells.isna().any(axis=1).sum())
    return (*notes, *run_table.share_note(incomplete, len(cells), "pairs of base and model", lack))


def _sentence(pair: tuple[str, str], total: Estimate, information: Estimate, length: Estimate) -> str:
    more, less = pair
    if total.estimate is None or information.estimate is None or length.estimate is None:
        return f"What {more} gains over {less} is not parted: {total.why_no_number}."
    points = "points" if isinstance(total.unit, run_table.Points) else total.unit
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
    >>> runs = pd.DataFrame(rows, columns=["base", "model", "length_bin", "output_tokens"])
    >>> runs["composite_strict"] = 3 + 0.001 * runs["output_tokens"] + rng.normal(0, 0.1, len(runs))
    >>> found = length_bias(runs)
    >>> round(found.slope.estimate, 2), found.slope.unit
    (0.09, 'score points (0-5) per 100 tokens')
    """
    table = run_table.checked_runs(runs, score, numbers=(_LENGTH,))
    labels = {"method": CR2_METHOD, "unit": run_table.score_unit(score, runs)}
    empty, used = complete_rows("", table, ["score", _LENGTH], ("bases", "answers"), **labels)
    codes, names = pd.factorize(pd.MultiIndex.from_frame(used[["model", "length_bin"]]))
    size = len(names)
    dummies = np.eye(size)[codes].reshape(len(used), size)
    tokens = used[_LENGTH].to_numpy() / TOKENS
    by_contrast = {f"{b}-{a}": _weights(b, a, list(names)) for b, a in contrasts.CONTRASTS}
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
    models_of = [{model for model, length_bin in cells if length_bin == name} for name in (more, less)]
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

"""What focus sentences (FSP), reference answers and weights of judges do to scores: the same runs, with and without."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.agreement.coefficients import krippendorff_alpha, krippendorff_difference
from toolkit.stats.inference.clusters import mean_of_units, over_clusters
from toolkit.stats.inference.p_values import exploratory
from toolkit.stats.inference.run_table import checked_runs, need_columns, need_once, score_unit, share_note
from toolkit.stats.prompt_length import contrasts
from toolkit.stats.result import Estimate, Estimates, Result, Row
from toolkit.words import DIMENSIONS, SCORE

_CONTEXT = ["unit", "base", "length_bin", "model"]


@over_clusters
def focus_contrast(on: pd.DataFrame, off: pd.DataFrame, score: str = SCORE) -> Result:
    r"""Compare judgements with focus sentences and without, within run and judge.

    A judge's repeats are averaged; the difference is taken within run and judge, so that a judge who failed on one
    side does not pass for an effect; then judges, runs, models and bins are averaged within each base, and Student t
    over bases gives the interval (`toolkit.stats.inference.means.mean_interval`). Each bin weighs the same in a base.

    A failed judgement has no score and is missing; what cannot be paired is refused.

    Examples
    --------
    >>> rows = [(f"r{b}{s}", f"b{b}", s, j) for b in range(4) for s in "SML" for j in ("primary", "secondary")]
    >>> off = pd.DataFrame(rows, columns=["run_id", "base", "length_bin", "judge"]).assign(composite_strict=3.0)
    >>> on = off.assign(composite_strict=[3.2 + 0.1 * (int(run[1]) % 3) for run in off["run_id"]])
    >>> found = focus_contrast(on, off)
    >>> round(found.difference.estimate, 3), found.difference.n["runs"]
    (0.275, 12)
    """
    pairs = paired_judgements(on, off, score, "focus contrast", "with and without FSP")
    difference, sizes, runs = paired_difference(pairs, "on - off", score, on)
    runs[score] = runs["on"] - runs["off"]
    by_bin = contrasts.compare_lengths(runs, score, primary="")
    notes = pairing_notes(pairs, difference.missing)
    return Result("focus", rows=_rows, difference=difference, effect_sizes=sizes, by_bin=by_bin, notes=notes)


def _rows(result: Result) -> Iterator[Row]:
    """Yield every estimate with its kind."""
    yield "FSP on - off", result.difference
    yield from (("effect size", size) for size in result.effect_sizes)
    for mean in result.by_bin.per_bin:
        yield "FSP on - off", replace(mean, name=f"on - off at {mean.name}")
    for contrast in result.by_bin.contrasts:
        yield "between bins", replace(contrast, name=f"on - off, {contrast.name}")


def pairing_notes(pairs: pd.DataFrame, missing: int) -> tuple[str, ...]:
    """Say what is paired and averaged, and how many pairs lack a score."""
    note = "paired within run and judge; repeats, judges, runs, models and bins are averaged within each base"
    lack = "lack a score on one side and are left out"
    return (note, *share_note(missing, len(pairs), "pairs of run and judge", lack))


def paired_judgements(
    on: pd.DataFrame, off: pd.DataFrame, score: str, analysis: str, sides: str
) -> pd.DataFrame:
    """Return a row a run and judge, repeats averaged: the score on and off, and what the run is; NaN where missing."""
    checked = {name: _judged(frame, score, name, analysis) for name, frame in (("on", on), ("off", off))}
    contexts = pd.concat(checked.values())[["run_id", *_CONTEXT]].drop_duplicates().set_index("run_id")
    if not contexts.index.is_unique:
        run = contexts.index[contexts.index.duplicated()][0]
        raise InputError(f"{analysis}: run {run!r} has two bases, models or length bins; correct the frames")
    scores = [frame.groupby(["run_id", "judge"])["score"].mean() for frame in checked.values()]
    if not set(checked["on"]["run_id"]) & set(checked["off"]["run_id"]):
        raise InputError(f"{analysis}: no run is in both frames; judge the same runs {sides}")
    return pd.concat(scores, axis="columns", keys=list(checked)).join(contexts)


def paired_difference(
    pairs: pd.DataFrame, name: str, score: str, scored: pd.DataFrame
) -> tuple[Estimate, Estimates, pd.DataFrame]:
    """Return the mean of on - off over bases, its effect sizes, and both scores of each run with what it is."""
    complete = pairs.dropna(subset=["on", "off"])
    contexts = complete.groupby(level="run_id")[_CONTEXT].first()
    runs = complete.groupby(level="run_id")[["on", "off"]].mean().join(contexts)
    runs.attrs = dict(scored.attrs)
    # Within each base bins weigh the same, as in the comparison of lengths, however many runs each has left.
    values = runs.groupby(_CONTEXT)[["on", "off"]].mean()
    values = mean_of_units(values.groupby(level=_CONTEXT[:3]).mean())
    counts = {"bases": len(values), "runs": len(runs), "judgements": len(complete)}
    labels = {"unit": score_unit(score, scored), "n": counts, "missing": len(pairs) - len(complete)}
    scale = float(np.abs(values.to_numpy()).max(initial=0.0))
    gain = values["on"] - values["off"]
    mean = contrasts.mean_over_bases(name, gain, len(gain), scale, "both scores", **labels)
    (difference,) = contrasts.on_models([mean], [runs], pairs["model"])
    sizes = tuple(contrasts.effect_size(kind, difference, gain) for kind in contrasts.EFFECTS)
    return difference, sizes, runs


def _judged(frame: pd.DataFrame, score: str, side: str, analysis: str) -> pd.DataFrame:
    key = ["run_id", "judge"]
    need_columns(f"{analysis}: judgements {side}", frame, key)
    checked = checked_runs(frame.drop(columns="run_id"), score, labels=("judge",))
    checked["run_id"] = frame["run_id"].astype("object").to_numpy()
    checked["judge_repeat"] = frame["judge_repeat"].to_numpy() if "judge_repeat" in frame else 0
    twice = f"{analysis}: {side} has run {{run_id!r}} by judge {{judge!r}} twice; keep one"
    need_once(checked, [*key, "judge_repeat"], twice)
    return checked


@over_clusters
def reference_effect(
    on: pd.DataFrame, off: pd.DataFrame, score: str = SCORE, *, dimensions: Sequence[str] = DIMENSIONS
) -> Result:
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
    Result
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
    words, name = ("reference effect", "with and without the reference answer"), "reference on - off"
    pairs = paired_judgements(on, off, score, *words)
    difference, sizes, _ = paired_difference(pairs, name, score, on)
    compared = [column for column in dimensions if column in on and column in off and column != score]
    by_dimension = [
        paired_difference(paired_judgements(on, off, column, *words), f"{name}, {column}", column, on)[0]
        for column in compared
    ]
    by_judge = [
        paired_difference(rows, f"{name}, {judge}", score, on)[0]
        for judge, rows in sorted(pairs.groupby("judge", sort=False), key=lambda group: str(group[0]))
    ]
    return Result(
        "reference_effect",
        difference=difference,
        by_dimension=by_dimension,
        by_judge=by_judge,
        agreement=_agreement(pairs.dropna(subset=["on", "off"])),
        effect_sizes=sizes,
        notes=pairing_notes(pairs, difference.missing),
    )


def _agreement(complete: pd.DataFrame) -> Estimates:
    on, off = (complete[side].unstack("judge").to_numpy(float) for side in ("on", "off"))
    bases = complete.groupby(level="run_id")["unit"].first().tolist()
    shown, hidden = krippendorff_alpha(on, bases), krippendorff_alpha(off, bases)
    shown = replace(shown, name=f"{shown.name}, with reference")
    hidden = replace(hidden, name=f"{hidden.name}, without reference")
    return shown, hidden, exploratory(krippendorff_difference(on, off, bases))


@over_clusters
def judge_weighting(runs: pd.DataFrame, judgements: pd.DataFrame, scores: Sequence[str]) -> Result:
    r"""Compare scores in which judges count twice on their dimensions with those of equal weights, run by run.

    The weighted score of a dimension is :math:`\sum_j w_j x_j / \sum_j w_j` over the judges j that scored it, with
    :math:`w_j = 2` where it is of their specialization and 1 elsewhere; that of equal weights is the mean of the same
    judges. The difference is taken within run; models, runs and bins are averaged within each base.

    Parameters
    ----------
    runs
        One row a run: run_id, base, length_bin, perhaps model and cluster, and the weighted ``scores`` (points).
    judgements
        One row a run and judge: run_id and ``scores`` (points; NaN where the judge failed).
    scores
        Columns to compare.

    Returns
    -------
    Result
        For each score the paired difference, with Student's t interval over bases, or over clusters of bases that
        share texts; P values with Holm's correction over all scores.

    Raises
    ------
    InputError
        If a column is missing, or a run is there twice.

    References
    ----------
    Miller (2024), arXiv:2411.00640, for paired differences over clusters.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": list("abcd"), "base": list("wxyz"), "length_bin": "S"})
    >>> runs["clarity"] = [3.0, 11 / 3, 4.0, 3.0]
    >>> said = pd.DataFrame({"run_id": [*"aabbccdd"], "clarity": [3.0, 3.0, 3.0, 4.0, 4.0, 4.0, 3.0, 3.0]})
    >>> compared = judge_weighting(runs, said, ["clarity"])
    >>> round(compared.differences[0].estimate, 4)
    0.0417
    """
    means, differences = judgements.groupby("run_id")[list(scores)].mean(), []
    for name in scores:
        on = runs.assign(judge="all")
        off = on.copy()
        off[name] = runs["run_id"].map(means[name]).where(runs[name].notna())
        pairs = paired_judgements(on, off, name, "judge weighting", "by both weights")
        difference, *_ = paired_difference(pairs, f"{name}, specialization - equal", name, runs)
        counts = {kind: difference.n[kind] for kind in ("bases", "runs")}
        differences.append(replace(difference, n=counts))
    return Result("judge_weighting", differences=differences)

"""Models compared, clustered by base (Miller 2024): means and rates; answers with a key, their positions and labels."""

import itertools
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from string import ascii_uppercase
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.comparisons.cost_quality import RATIO_METHOD, ratio_interval
from toolkit.stats.inference import proportions, run_table
from toolkit.stats.inference.clusters import complete_rows, of_rows, over_clusters
from toolkit.stats.inference.jackknife import numbered, sums_by, total_and_jackknife, with_jackknife
from toolkit.stats.inference.means import (
    CLUSTERED,
    clustered_mean,
    equally_long,
    mean_estimate,
    mean_on_scale,
)
from toolkit.stats.inference.p_values import with_holm, with_inversion
from toolkit.stats.result import Estimate, Result, sentences
from toolkit.words import SCORE, counted, joined, reason_key

RATE_METHOD = "wider of Wilson ends put together (Zou & Donner 2008) and t, clustered by base"
RATE_UNIT = "share of answers"
CHANCE_METHOD = "ends of accuracy and of chance put together (Zou & Donner 2008)"
REASONS = ["reason", "failure", "defect"]
"""Columns that may say why an answer has no score, the first that is not empty."""


@over_clusters
def compare_models(runs: pd.DataFrame, score: str = SCORE, *, rate: bool = False) -> Result:
    """Compare models on the prompts that both answered, with error bars clustered by base.

    Repeats of a prompt are averaged first, so that it counts once in means and differences. The difference of two
    models is taken prompt by prompt, which takes out what makes prompts hard for both (Miller 2024, section 4), and
    prompts of one base are one cluster.

    A ``rate`` is the mean of a score that is 0 or 1, which has intervals of its own.

    Examples
    --------
    >>> rows = [(f"b{i}", "S", m, s + i / 4) for i in range(5) for m, s in (("a", 3.5 + i % 2 / 2), ("b", 3.0))]
    >>> found = compare_models(pd.DataFrame(rows, columns=["base", "level", "model", "composite_strict"]))
    >>> [(one.name, round(one.estimate, 2), round(one.low, 2)) for one in found.differences]
    [('a - b', 0.7, 0.36)]
    """
    if "model" not in runs:
        raise InputError("runs: lack the column model; give one row per run with its model")
    prompts = ["prompt_id"] if "prompt_id" in runs else []
    checked = run_table.checked_runs(runs, score, labels=prompts)
    if rate and not checked["score"].dropna().isin((0.0, 1.0)).all():
        raise InputError(
            f"runs: {score} holds other values than 0 and 1, so its mean is no rate; use rate=False"
        )
    unit = RATE_UNIT if rate else run_table.score_unit(score, runs)
    scored = checked.dropna(subset=["score"])
    hits = scored["score"] == 1
    intracluster = proportions.intracluster_correlation(hits, list(scored["unit"])) if rate else None
    cells = run_table.item_means(checked, "model")["score"].unstack("model")
    means = tuple(
        (str(model), _model_mean(str(model), rows, cells[model].dropna(), rate, unit, intracluster))
        for model, rows in checked.groupby("model", sort=True)
    )
    bases = list(cells.index.get_level_values("unit"))
    difference = rate_difference if rate else paired_difference
    differences = tuple(
        difference(f"{a} - {b}", cells[a].to_numpy(), cells[b].to_numpy(), bases, unit=unit)
        for a, b in itertools.combinations(cells.columns, 2)
    )
    return Result(
        "compare_models", models=means, differences=differences, notes=_notes(checked, cells, score)
    )


def paired_difference(
    name: str, first: ArrayLike, second: ArrayLike, bases: Sequence[Hashable], *, unit: str = "none"
) -> Estimate:
    """Return the mean difference of two models over the prompts that both answered (Miller 2024), clustered by base."""
    a, b = equally_long(name, first, second, bases)
    difference = pd.Series(a - b, index=list(bases)).dropna()
    counts = {"prompts": len(difference), "bases": difference.index.nunique()}
    empty = Estimate(name, method=CLUSTERED, unit=unit, n=counts, missing=len(a) - len(difference))
    if difference.empty:
        return empty.not_estimable("no prompt has a score of both")
    mean = clustered_mean(difference, list(difference.index), scale=float(np.nanmax(np.abs(a))))
    estimate = mean.of(empty, tested=True)
    if mean.error is None:
        return estimate
    return replace(estimate, note=f"clustered standard error {mean.error:.4g}", degrees=mean.degrees)


def rate_difference(
    name: str, first: ArrayLike, second: ArrayLike, bases: Sequence[Hashable], *, unit: str = "none"
) -> Estimate:
    r"""Return the difference of two rates over the prompts that both models answered, clustered by base.

    For rates near 0 or 1 t is too narrow (12 bases, rates .97 and .9: it covered 73-93 %). The hybrid interval,
    :math:`d - \sqrt{(p_1 - l_1)^2 - 2 r (p_1 - l_1)(u_2 - p_2) + (u_2 - p_2)^2}` below and likewise above, from
    Wilson's ends of each rate with its effective number of answers and the correlation r of the two over bases, is too
    narrow elsewhere (rates .5: 92 %). Each end is the wider of the two. The p value is the inversion of the interval
    (`p_by_inversion`).

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 4. Zou & Donner (2008), Stat. Med. 27, 1693-1702.

    Examples
    --------
    >>> found = rate_difference("a - b", [1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0], list("uvwxyz"))
    >>> round(found.estimate, 2), round(found.low, 2), round(found.high, 2), round(found.p_value, 3)
    (0.5, -0.07, 1.0, 0.076)
    """
    a, b = equally_long(name, first, second, bases)
    answered = ~(np.isnan(a) | np.isnan(b))
    a, b = a[answered], b[answered]
    if not ((a >= 0) & (a <= 1) & (b >= 0) & (b <= 1)).all():
        raise InputError(f"{name}: a rate is not between 0 and 1; give shares of answers")
    labels = [base for base, usable in zip(bases, answered, strict=True) if usable]
    groups = len(set(labels))
    counts, missing = {"prompts": len(labels), "bases": groups}, int((~answered).sum())
    empty = Estimate(name, method=RATE_METHOD, unit=unit, n=counts, missing=missing)
    if not labels:
        return empty.not_estimable("no prompt was answered by both")
    difference = empty.with_value(float((a - b).mean()))
    if groups < 2:
        return difference.no_interval("one base, and two are needed", "interval or p value")
    by_t = clustered_mean(a - b, labels)
    first_ends, second_ends = proportions.wilson_ends(a, labels), proportions.wilson_ends(b, labels)
    r = proportions.between_clusters(a, b, labels)
    if not by_t.error and r > 0:
        r *= 1 - 2 / groups  # r = 1 and rates of .5 leave no width: Newcombe (1998) corrects r for continuity

    def limits(confidence: float) -> tuple[float, float]:
        sides = first_ends(confidence), second_ends(confidence)
        low, high = proportions.mover(float(a.mean()), sides[0], float(b.mean()), sides[1], r)
        by_t_low, by_t_high = by_t.limits(confidence)
        return max(-1.0, min(low, by_t_low)), min(1.0, max(high, by_t_high))

    return with_inversion(difference, limits)


def _model_mean(
    model: str, rows: pd.DataFrame, items: pd.Series, rate: bool, unit: str, intracluster: float | None
) -> Estimate:
    bases, answers = list(items.index.get_level_values("unit")), int(rows["score"].count())
    counts = {"answers": answers, "prompts": len(items), "bases": len(set(bases))}
    empty = Estimate(model, method=CLUSTERED, unit=unit, n=counts, missing=len(rows) - answers)
    if rate:
        return proportions.rate_mean(empty, items, bases, intracluster)
    if items.empty:
        return empty.not_estimable("no answer has a score")
    return mean_on_scale(empty, items, bases)


def _notes(checked: pd.DataFrame, cells: pd.DataFrame, score: str) -> tuple[str, ...]:
    repeated = checked["score"].notna().sum() > cells.notna().to_numpy().sum()
    notes = ["answers of one model to one prompt are averaged before models are compared"] if repeated else []
    notes += run_table.left_out_note(checked, score)
    lengths = cells.index.get_level_values("level")
    for pair in itertools.combinations(cells, 2):
        complete = lengths[cells[list(pair)].notna().all(axis=1)]
        both = run_table.in_order(complete, run_table.levels_of(checked))
        if 0 < len(both) < lengths.nunique():
            notes.append(f"{pair[0]} - {pair[1]} rests on {joined(both)} prompts alone")
    incomplete = int(cells.isna().any(axis=1).sum())
    return (*notes, *run_table.share_note(incomplete, len(cells), "prompts", "lack a score of some model"))


@over_clusters
def accuracy(rows: pd.DataFrame, *, score: str = "correct", chance: float | None = None) -> Result:
    r"""Return how many items each model answers rightly, with intervals clustered by base or cluster.

    Accuracy is the mean over items of the mean score of the answers that have one. It stands beside the accuracy with
    the unreadable counted as wrong, which published tables print, and beside the share of replies that can be read;
    a run without a reply is missing in all three, and counted by its reason. The interval is that of
    `toolkit.stats.inference.proportions.rate_mean`. The distance from chance puts together the ends of accuracy and of
    the mean chance of the items (Zou & Donner 2008), and its P value inverts them; that from the majority's answer is
    the paired difference of two rates (`rate_difference`). P values of both are Holm's over the models. The cost of a
    right answer is :math:`\sum c / \sum s` over all answers with a cost, those without a score too, because they were
    paid; its interval is the jackknife over clusters of its logarithm.

    Parameters
    ----------
    rows : DataFrame
        One row an answer: model, base (the item) and the score. Optional are correct_of_all (0 where a reply cannot be
        read, empty where there is none), cluster (items that share a text or a source), chance and majority (what a
        guess, and the majority's answer, scores on the item), aud_cost, and reason, failure or defect (why there is no
        score).
    score : str
        The column of scores, 0 to 1, empty where an answer has none.
    chance : float, optional
        What a guess scores on every item, in place of the column.

    Returns
    -------
    Result
        Shares of 1, and AUD.

    Raises
    ------
    InputError
        A column lacks, or a score, chance or majority is not between 0 and 1.

    References
    ----------
    Miller (2024), arXiv:2411.00640. Dean & Pagano (2015), J. Surv. Stat. Methodol. 3, 484-503. Zou & Donner (2008),
    Stat. Med. 27, 1693-1702.

    Examples
    --------
    >>> rows = pd.DataFrame({"model": "m", "base": list("abcdef"), "correct": [1, 1, 0, 1, 1, None]})
    >>> result = accuracy(rows, chance=0.25)
    >>> estimate = result.accuracies[0]
    >>> round(estimate.estimate, 2), round(estimate.low, 2), round(estimate.high, 2), estimate.missing
    (0.8, 0.38, 0.96, 1)
    """
    frame = rows.assign(level=rows.get("level", run_table.WHOLE))
    if "correct_of_all" in frame:  # a reply that cannot be read scores 0 here, a run without one is missing
        frame["all"] = frame[score].fillna(frame["correct_of_all"])
        frame["readable"] = frame[score].notna().astype("float64").where(frame["all"].notna())
    frame = frame if chance is None else frame.assign(chance=chance)
    columns = ["chance", "majority", "aud_cost", "all", "readable"]
    numbers = [n for n in columns if n in frame and frame[n].notna().any()]
    table = run_table.checked_runs(frame, score, numbers=numbers)
    for name in ("score", *(name for name in numbers if name != "aud_cost")):
        outside = table[name].notna() & ~table[name].between(0, 1)
        if outside.any():
            row, column = int(outside.to_numpy().argmax()), score if name == "score" else name
            value = table[name].iloc[row]
            raise InputError(
                f"accuracy, row {row + 1}: {column} {value:g} is not between 0 and 1; correct it"
            )
    scored = table.dropna(subset=["score"])
    intracluster = proportions.intracluster_correlation(scored["score"], list(scored["unit"]))
    groups = [(str(model), part) for model, part in table.groupby("model", sort=True)]
    above_chance = [_above_chance(model, part, intracluster) for model, part in groups if "chance" in part]
    above_majority = [_above_majority(model, part) for model, part in groups if "majority" in part]
    return Result(
        "accuracy",
        text=_sentence,
        accuracies=[_share("accuracy", "score", *group, intracluster) for group in groups],
        of_all=[_share("accuracy of all replies", "all", *group) for group in groups if "all" in table],
        readable=[_share("share readable", "readable", *group) for group in groups if "all" in table],
        above_chance=above_chance,
        above_majority=above_majority,
        cost_per_right=[_cost_per_right(model, part) for model, part in groups if "aud_cost" in part],
        missing={model: _reasons(frame.iloc[part.index[part["score"].isna()]]) for model, part in groups},
        notes=(),
    )


def _sentence(result: Result) -> str:
    """Return every estimate in words, and how many answers have no score, and why."""
    lack = "; ".join(
        f"{model}: {', '.join(f'{reason} {count}' for reason, count in reasons.items())}"
        for model, reasons in result.missing.items()
        if reasons
    )
    return sentences(result.rows()) + (f" Answers without a score: {lack}." if lack else "")


def _of_model(
    statistic: str, model: str, rows: pd.DataFrame, columns: Sequence[str], **more: Any
) -> tuple[Estimate, pd.DataFrame]:
    facets = {"model": model}
    return complete_rows(f"{statistic} of {model}", rows, columns, statistic=statistic, facets=facets, **more)


def _share(
    statistic: str, column: str, model: str, rows: pd.DataFrame, intracluster: float | None = None
) -> Estimate:
    empty, scored = _of_model(statistic, model, rows, [column], unit=RATE_UNIT)
    items = run_table.item_means(scored)
    return proportions.rate_mean(
        empty, items[column], list(items.index.get_level_values("unit")), intracluster
    )


def _above_chance(model: str, rows: pd.DataFrame, intracluster: float | None) -> Estimate:
    columns, more = ["score", "chance"], {"unit": RATE_UNIT, "method": CHANCE_METHOD}
    empty, scored = _of_model("accuracy less chance", model, rows, columns, **more)
    if scored.empty:
        return empty.not_estimable("no answer has a score and a chance")
    items = run_table.item_means(scored)[columns]
    clusters, p = list(items.index.get_level_values("unit")), float(items["score"].mean())
    guess = clustered_mean(items["chance"], clusters)
    difference = empty.with_value(p - guess.mean)
    if guess.groups < 2:
        return difference.no_interval(guess.reason, "interval or p value")
    r = proportions.between_clusters(items["score"], items["chance"], clusters)
    hits = proportions.wilson_ends(items["score"], clusters, intracluster)

    def limits(confidence: float) -> tuple[float, float]:
        return proportions.mover(p, hits(confidence), guess.mean, guess.limits(confidence), r)

    return with_inversion(difference, limits)


def _above_majority(model: str, rows: pd.DataFrame) -> Estimate:
    empty, scored = _of_model("accuracy less majority", model, rows, ["score", "majority"])
    items = run_table.item_means(scored)
    bases = list(items.index.get_level_values("unit"))
    pair = rate_difference(empty.name, items["score"], items["majority"], bases, unit=RATE_UNIT)
    return replace(pair, n=empty.n, missing=empty.missing, statistic=empty.statistic, facets=empty.facets)


def _cost_per_right(model: str, rows: pd.DataFrame) -> Estimate:
    more = {"unit": "AUD", "method": RATIO_METHOD}
    empty, paid = _of_model("cost per right answer", model, rows, ["aud_cost"], **more)
    sums = paid[["aud_cost", "score"]].groupby(paid["unit"], sort=False).sum()
    cost, right = sums["aud_cost"].to_numpy(), sums["score"].to_numpy()
    if not right.sum() > 0:
        return empty.not_estimable("no answer with a cost is right")
    if not cost.any():
        return empty.with_value(0.0).no_interval("every answer was free")
    return ratio_interval(empty.with_value(float(cost.sum() / right.sum())), cost, right)


def _reasons(blank: pd.DataFrame) -> dict[str, int]:
    texts = blank.reindex(columns=REASONS).astype("object").bfill(axis=1).iloc[:, 0]
    reasons = ("no reason given" if pd.isna(text) else reason_key(str(text)) for text in texts)
    return dict(Counter(sorted(reasons)).most_common())


F1_METHOD = "jackknife over bases of the logit"


@over_clusters
def position_effect(rows: pd.DataFrame) -> Result:
    r"""Return how right a model is by the position of the right option, and which positions it prefers.

    Options are shuffled, so that a model that looks at their texts alone chooses each of k positions in a share
    :math:`1 / k` of its answers, whatever it knows. The preference for a position is the mean over answers of
    :math:`[chosen = p] - 1 / k`, 0 for a model without one, with Student's t over independent questions (CR2); its P
    values are Holm's over the positions of a model.

    Parameters
    ----------
    rows : DataFrame
        One row an answer: model, base (the question), position and chosen_position (0 for the first option), options
        (their number), and perhaps cluster. An answer that could not be read has no chosen_position and is left out.

    Returns
    -------
    Result
        Two estimates a model and position: a share of answers, and a difference of shares.

    Raises
    ------
    InputError
        When a column lacks.

    References
    ----------
    Pezeshkpour & Hruschka (2024), Large Language Models Sensitivity to The Order of Options in Multiple-Choice
    Questions, arXiv:2308.11483.

    Examples
    --------
    >>> rows = pd.DataFrame({"model": "m", "base": list("abcdef"), "options": 2, "position": [0, 1] * 3})
    >>> result = position_effect(rows.assign(chosen_position=[0, 0, 0, 1, 0, 0]))
    >>> [round(estimate.estimate, 2) for estimate in result.preferences]
    [0.33, -0.33]
    """
    run_table.need_labelled("answers", rows, ("model", "base"), "position", "chosen_position", "options")
    accuracies: list[Estimate] = []
    preferences: list[Estimate] = []
    for model, part in rows.groupby("model", sort=True):
        read = part.dropna(subset=["position", "chosen_position"])
        tests = []
        for position in range(int(part["options"].max())):
            label = f"position {ascii_uppercase[position]} of {model}"
            facets = {"model": str(model), "position": ascii_uppercase[position]}
            at_position = read[read["position"] == position]
            right = at_position.assign(right=at_position["chosen_position"] == position)
            labels: dict[str, Any] = {"unit": RATE_UNIT, "statistic": "accuracy", "facets": facets}
            accuracies.append(of_rows(f"accuracy, {label}", right, "right", proportions.rate_mean, **labels))
            offered = read[read["options"] > position]
            excess = (offered["chosen_position"] == position) - 1 / offered["options"].astype(float)
            chosen, name = offered.assign(excess=excess), "chosen less expected"
            labels |= {"statistic": name, "method": CLUSTERED, "role": "exploratory"}
            labels |= {"missing": len(part) - len(read), "nothing": "no answer could be read"}
            interval = partial(mean_estimate, nothing="", tested=True)
            tests.append(of_rows(f"{name}, {label}", chosen, "excess", interval, **labels))
        preferences += with_holm(tests, "positions")
    return Result("position_effect", accuracies=accuracies, preferences=preferences, notes=())


@over_clusters
def label_scores(rows: pd.DataFrame) -> Result:
    r"""Return F1 of every label of the key, their mean, and the confusion of labels.

    :math:`F_1 = 2\,TP / (2\,TP + FP + FN)` of each label that the key of all answers has, 0 where there is none of it;
    macro F1 is their mean, so that a rare label weighs as much as a common one. Intervals are the jackknife over
    independent questions of the logit. An answer that could not be read is missing and counted, never a label of its
    own; one with a label that no key has is wrong, and a note counts it.

    Parameters
    ----------
    rows : DataFrame
        One row an answer: model, base (the question), key and answer (labels), and perhaps cluster.

    Returns
    -------
    Result
        Shares, and ``confusion`` with one row for each model, key and answer that occur: their count.

    Raises
    ------
    InputError
        When a column lacks.

    References
    ----------
    Sokolova & Lapalme (2009), Inf. Process. Manag. 45, 427-437.

    Examples
    --------
    >>> rows = pd.DataFrame({"model": "m", "base": list("abcd"), "key": list("xxyy"), "answer": list("xyyy")})
    >>> round(label_scores(rows).macro[0].estimate, 3)
    0.733
    """
    run_table.need_labelled("answers", rows, ("model", "base", "key"), "answer")
    macro: list[Estimate] = []
    by_label: list[Estimate] = []
    notes = []
    names = np.array(sorted(rows["key"].astype(str).unique()), dtype=object)
    for model, part in rows.groupby("model", sort=True):
        empty, read = _of_model("macro F1", str(model), part, ["answer"], method=F1_METHOD)
        key, answer = (read[name].astype(str).to_numpy()[:, None] for name in ("key", "answer"))
        is_key, is_answer = key == names, answer == names
        sums = sums_by(
            numbered(list(read["unit"])), np.stack([is_key & is_answer, is_key, is_answer], 1).astype(float)
        )
        if len(outside := answer[~is_answer.any(axis=1)]):
            answers = counted(len(outside), "answers")
            notes.append(f"{model}: {answers} with a label outside the key, wrong and no class of the mean")
        total, jackknife_values = (_f1(label_sums) for label_sums in total_and_jackknife(sums))
        weights = np.full(len(names), 1 / len(names))
        macro.append(_with_ends(empty, total @ weights, jackknife_values @ weights))
        for number, name in enumerate(names):
            facets = {**empty.facets, "label": name}
            label = replace(empty, name=f"F1 of {name}, {model}", statistic="F1", facets=facets)
            by_label.append(_with_ends(label, total[:, number], jackknife_values[:, number]))
    by = ["model", "key", "answer"]
    confusion = rows.dropna(subset=["answer"]).groupby(by, observed=True).size().reset_index(name="answers")
    return Result("label_scores", macro=macro, labels=by_label, confusion=confusion, notes=notes)


def _f1(sums: np.ndarray) -> np.ndarray:
    """Return F1 of each label from true positives, keys and answers; 0 for a label that is never right."""
    right, keys, answers = sums[:, 0], sums[:, 1], sums[:, 2]
    return np.divide(2 * right, keys + answers, out=np.zeros_like(right), where=keys + answers > 0)


def _with_ends(empty: Estimate, total: np.ndarray, jackknife_values: np.ndarray) -> Estimate:
    if not empty.n["answers"]:
        return empty.not_estimable("no answer could be read")
    estimate = empty.with_value(float(total[0]))
    return with_jackknife(estimate, jackknife_values, special.logit, special.expit)

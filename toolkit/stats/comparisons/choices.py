"""Answers that choose: whether the position of an option matters, and F1 and confusion of labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import special

from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.jackknife import all_and_without, numbered, sums_by, with_jackknife
from toolkit.stats.inference.means import CLUSTERED, mean_estimate
from toolkit.stats.inference.p_values import with_holm
from toolkit.stats.inference.proportions import rate_mean
from toolkit.stats.inference.run_table import need_labelled
from toolkit.stats.result import Estimate, Estimates, Result
from toolkit.words import counted

F1_METHOD = "jackknife over bases of the logit"
SHARE = "share of answers"


@dataclass(frozen=True)
class PositionEffect(Result):
    """Accuracy of each model by the position of the right option, and which positions it chooses too often."""

    about = "measure"
    kinds: ClassVar[Mapping[str, str]] = {"accuracies": "accuracy", "preferences": "chosen less expected"}
    first = ("preferences",)
    accuracies: Estimates
    preferences: Estimates
    notes: tuple[str, ...] = ()


@over_clusters
def position_effect(rows: pd.DataFrame) -> PositionEffect:
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
    PositionEffect
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
    need_labelled("answers", rows, ("model", "base"), "position", "chosen_position", "options")
    accuracies: list[Estimate] = []
    preferences: list[Estimate] = []
    for model, part in rows.groupby("model", sort=True):
        read = part.dropna(subset=["position", "chosen_position"])
        tests = []
        for position in range(int(part["options"].max())):
            label = f"position {ascii_uppercase[position]} of {model}"
            facets = {"model": str(model), "position": ascii_uppercase[position]}
            at_position = read[read["position"] == position]
            right = (at_position["chosen_position"] == position).astype(float)
            counts = {"answers": len(right), "bases": at_position["base"].nunique()}
            empty = Estimate(f"accuracy, {label}", unit=SHARE, n=counts, statistic="accuracy", facets=facets)
            accuracies.append(rate_mean(empty, right, list(at_position["base"])))
            offered = read[read["options"] > position]
            excess = (offered["chosen_position"] == position) - 1 / offered["options"].astype(float)
            tests.append(_preference(label, excess, list(offered["base"]), len(part) - len(read), facets))
        preferences += with_holm(tests, "positions")
    return PositionEffect(tuple(accuracies), tuple(preferences))


def _preference(
    label: str, excess: pd.Series, bases: Sequence[str], missing: int, facets: Mapping[str, str]
) -> Estimate:
    counts = {"answers": len(excess), "bases": len(set(bases))}
    empty = Estimate(
        f"chosen less expected, {label}", method=CLUSTERED, unit=SHARE, n=counts, missing=missing,
        statistic="chosen less expected", facets=facets, role="exploratory",
    )  # fmt: skip
    return mean_estimate(empty, excess, bases, "no answer could be read", tested=True)


@dataclass(frozen=True)
class LabelScores(Result):
    """Macro F1 and F1 of each label, of each model, and how often one label was given for another."""

    about = "measure"
    kinds: ClassVar[Mapping[str, str]] = {"macro": "macro F1", "labels": "F1 of a label"}
    first = ("macro",)
    macro: Estimates
    labels: Estimates
    confusion: pd.DataFrame
    notes: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return macro F1 of each model in words ready for the thesis."""
        return " ".join(estimate.sentence() for estimate in self.macro)


@over_clusters
def label_scores(rows: pd.DataFrame) -> LabelScores:
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
    LabelScores
        Shares, and ``confusion`` with one row for each model, key and answer that occur: their count.

    Raises
    ------
    InputError
        When a column lacks.

    References
    ----------
    Sokolova & Lapalme (2009), Information Processing & Management 45, 427-437.

    Examples
    --------
    >>> rows = pd.DataFrame({"model": "m", "base": list("abcd"), "key": list("xxyy"), "answer": list("xyyy")})
    >>> round(label_scores(rows).macro[0].estimate, 3)
    0.733
    """
    need_labelled("answers", rows, ("model", "base", "key"), "answer")
    macro: list[Estimate] = []
    by_label: list[Estimate] = []
    notes = []
    names = np.array(sorted(rows["key"].astype(str).unique()), dtype=object)
    for model, part in rows.groupby("model", sort=True):
        read = part.dropna(subset=["answer"])
        key, answer = (read[name].astype(str).to_numpy()[:, None] for name in ("key", "answer"))
        is_key, is_answer = key == names, answer == names
        sums = sums_by(
            numbered(list(read["base"])), np.stack([is_key & is_answer, is_key, is_answer], 1).astype(float)
        )
        if len(outside := answer[~is_answer.any(axis=1)]):
            answers = counted(len(outside), "answers")
            notes.append(f"{model}: {answers} with a label outside the key, wrong and no class of the mean")
        counts = {"answers": len(read), "bases": read["base"].nunique()}
        facets = {"model": str(model)}
        empty = Estimate(
            f"macro F1 of {model}", method=F1_METHOD, n=counts, missing=len(part) - len(read),
            statistic="macro F1", facets=facets,
        )  # fmt: skip
        total, without = (_f1(label_sums) for label_sums in all_and_without(sums))
        weights = np.full(len(names), 1 / len(names))
        macro.append(_with_ends(empty, total @ weights, without @ weights))
        for number, name in enumerate(names):
            label = replace(
                empty, name=f"F1 of {name}, {model}", statistic="F1", facets={**facets, "label": name}
            )
            by_label.append(_with_ends(label, total[:, number], without[:, number]))
    by = ["model", "key", "answer"]
    confusion = rows.dropna(subset=["answer"]).groupby(by, observed=True).size().reset_index(name="answers")
    return LabelScores(tuple(macro), tuple(by_label), confusion, tuple(notes))


def _f1(sums: np.ndarray) -> np.ndarray:
    """Return F1 of each label from true positives, keys and answers; 0 for a label that is never right."""
    right, keys, answers = sums[:, 0], sums[:, 1], sums[:, 2]
    return np.divide(2 * right, keys + answers, out=np.zeros_like(right), where=keys + answers > 0)


def _with_ends(empty: Estimate, total: np.ndarray, without: np.ndarray) -> Estimate:
    if not empty.n["answers"]:
        return empty.not_estimable("no answer could be read")
    estimate = empty.valued(float(total[0]))
    return with_jackknife(estimate, without, special.logit, special.expit)

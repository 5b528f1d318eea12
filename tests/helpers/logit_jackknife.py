"""A second calculation of the interval of a mean on a scale: the jackknife on the logit, by loops."""

import math
from itertools import chain

import numpy as np
from scipy import stats


def jackknife(values):
    """Return the error of a jackknife and its degrees of freedom from the values without each group in turn."""
    count = len(values)
    spread = ((values - np.mean(values, axis=0)) ** 2).sum(axis=0) * (count - 1) / count
    kurtosis = np.maximum(stats.kurtosis(values, bias=False), 0)
    return np.sqrt(spread), 2 / (2 / (count - 1) + kurtosis / count)


def logit_jackknife(groups, ends=(0.0, 5.0)):
    """Return the interval by loops: jackknife values of the logit, their moments, Student's t, and back."""

    def logit(scores):
        share = (sum(scores) / len(scores) - ends[0]) / (ends[1] - ends[0])
        return math.log(share / (1 - share))

    count, centre = len(groups), logit([*chain(*groups)])
    without = [logit([*chain(*groups[:i], *groups[i + 1 :])]) for i in range(count)]
    mean = sum(without) / count
    error, degrees = jackknife(without)
    corrected, half = centre - (count - 1) * (mean - centre), stats.t.ppf(0.975, degrees) * error
    low, high = min(corrected - half, centre), max(corrected + half, centre)
    return tuple(ends[0] + (ends[1] - ends[0]) / (1 + math.exp(-z)) for z in (low, high))

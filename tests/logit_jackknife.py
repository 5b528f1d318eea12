"""A second calculation of the interval of a mean on a scale: the jackknife on the logit, by loops."""

from __future__ import annotations

import math
from itertools import chain

from scipy import stats


def logit_jackknife(groups, ends=(0.0, 5.0)):
    """Return the interval by loops: jackknife values of the logit, their moments, Student's t, and back."""

    def logit(scores):
        share = (sum(scores) / len(scores) - ends[0]) / (ends[1] - ends[0])
        return math.log(share / (1 - share))

    count, centre = len(groups), logit([*chain(*groups)])
    without = [logit([*chain(*groups[:i], *groups[i + 1 :])]) for i in range(count)]
    mean = sum(without) / count
    error = math.sqrt((count - 1) / count * sum((z - mean) ** 2 for z in without))
    degrees = 2 / (2 / (count - 1) + max(0.0, float(stats.kurtosis(without, bias=False))) / count)
    corrected, half = centre - (count - 1) * (mean - centre), stats.t.ppf(0.975, degrees) * error
    low, high = min(corrected - half, centre), max(corrected + half, centre)
    return tuple(ends[0] + (ends[1] - ends[0]) / (1 + math.exp(-z)) for z in (low, high))

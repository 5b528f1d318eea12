"""Cronbach's alpha, over judges and over dimensions: two different questions with two different names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
import pingouin as pg
from scipy import stats

from toolkit.stats.mean_squares import mean_squares
from toolkit.stats.rating_matrix import NEGLIGIBLE, RatingMatrix
from toolkit.stats.result import Estimate

OVER_JUDGES: Final = "alpha over judges"
OVER_DIMENSIONS: Final = "alpha over dimensions"
FELDT: Final = "F distribution, rows independent (Feldt, Woodruff & Salih 1987)"
_COMPOSITES: Final = ("composite", "composite_strict")


def alpha_over_judges(matrix: RatingMatrix) -> Estimate:
    """Return Cronbach's alpha with the judges as items and the answers as rows.

    It says how consistently the judges rank the answers; it equals ICC(C,k) and ignores that one judge is
    milder than another.

    Parameters
    ----------
    matrix
        Complete ratings of one dimension, targets x judges.

    Returns
    -------
    Estimate
        Without unit, with Feldt's 95 % interval.
    """
    if matrix.problem:
        return _without_estimate(OVER_JUDGES, matrix.n, matrix.missing, matrix.problem)
    return _alpha(matrix.values, OVER_JUDGES, matrix.n, matrix.missing, "")


def alpha_over_dimensions(ratings: pd.DataFrame) -> Estimate | None:
    """Return Cronbach's alpha with the dimensions as items and every judgement (answer x judge) as a row.

    It says how far the dimensions of the rubric measure one thing. Composites are no items. Judgements that
    lack a dimension are left out; several judgements of one answer enter as separate rows, which the interval
    takes as independent.

    Parameters
    ----------
    ratings
        Columns target, judge, dimension, score.

    Returns
    -------
    Estimate or None
        Without unit, with Feldt's 95 % interval; None where there are fewer than two dimensions.
    """
    items = ratings[~ratings["dimension"].isin(_COMPOSITES)]
    if items["dimension"].nunique() < 2:
        return None
    keys = ["target", "judge", "dimension"]
    judgements = {"judgements": len(items.drop_duplicates(["target", "judge"]))}
    counts = {**judgements, "dimensions": items["dimension"].nunique()}
    duplicated = items.duplicated(keys)
    if duplicated.any():
        reason = f"{int(duplicated.sum())} duplicate rating(s); keep one per target, judge and dimension"
        return _without_estimate(OVER_DIMENSIONS, counts, 0, reason)
    wide = items.set_index(keys)["score"].unstack().astype("float64")
    if np.isinf(wide.to_numpy()).any():
        return _without_estimate(OVER_DIMENSIONS, counts, 0, "there is an infinite score")
    complete = wide.dropna()
    missing = int(wide.isna().to_numpy().sum())
    left_out = len(wide) - len(complete)
    note = f"{left_out} of {len(wide)} judgements left out for a missing dimension" if left_out else ""
    counts["judgements"] = len(complete)
    if len(complete) < 2:
        reason = f"{len(complete)} judgement(s) with every dimension, and two are needed"
        return _without_estimate(OVER_DIMENSIONS, counts, missing, reason)
    values = complete.to_numpy() / (np.abs(complete.to_numpy()).max() or 1.0)
    if np.ptp(values) <= NEGLIGIBLE:
        return _without_estimate(OVER_DIMENSIONS, counts, missing, "every score is the same")
    return _alpha(values, OVER_DIMENSIONS, counts, missing, note)


def _alpha(values: np.ndarray, name: str, n: Mapping[str, int], missing: int, note: str) -> Estimate:
    """Return alpha by pingouin with the interval of Feldt, which pingouin itself rounds to three digits."""
    ms = mean_squares(values)
    if ms.between == 0:
        return _without_estimate(
            name, n, missing, "the rows have the same mean, so alpha would be minus infinity"
        )
    if ms.error == 0:
        why = "no interval: the items differ by a constant at most, so F is infinite"
        return Estimate(
            name, 1.0, method=FELDT, n=n, missing=missing, note="; ".join(filter(None, (note, why)))
        )
    alpha = float(pg.cronbach_alpha(pd.DataFrame(values))[0])
    df1, df2 = ms.n - 1, (ms.n - 1) * (ms.k - 1)
    low, high = (1 - (1 - alpha) * float(stats.f.ppf(share, df1, df2)) for share in (0.975, 0.025))
    return Estimate(name, alpha, low, high, method=FELDT, n=n, missing=missing, note=note)


def _without_estimate(name: str, n: Mapping[str, int], missing: int, reason: str) -> Estimate:
    return Estimate(name, None, method=FELDT, n=n, missing=missing, note=f"not estimable: {reason}")

"""Cronbach's alpha, over judges and over dimensions: two different questions with two different names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import pingouin as pg
from scipy import stats

from toolkit.stats.agreement.icc_forms import FORMS, base_sums, forms_of_sums, mean_squares
from toolkit.stats.agreement.ratings import RatingMatrix
from toolkit.stats.inference.jackknife import with_jackknife
from toolkit.stats.result import ROUNDING, Estimate
from toolkit.words import counted

OVER_JUDGES: Final = "alpha over judges"
OVER_DIMENSIONS: Final = "alpha over dimensions"
FELDT: Final = "F distribution, rows independent (Feldt, Woodruff & Salih 1987)"
JACKKNIFE: Final = "jackknife over bases, ln F scale"
_COMPOSITES: Final = ("composite", "composite_strict")


def alpha_over_judges(matrix: RatingMatrix) -> Estimate:
    """Return Cronbach's alpha with the judges as items and the answers as rows.

    It says how consistently the judges rank the answers; it equals ICC(C,k) and ignores that one judge is
    milder than another.
    """
    if matrix.problem:
        return _without_estimate(OVER_JUDGES, matrix.n, matrix.missing, matrix.problem)
    return _alpha(matrix.values, OVER_JUDGES, matrix.n, matrix.missing, "", matrix.bases)


@dataclass(frozen=True)
class DimensionTable:
    """The judgements (answer x judge) that have every dimension."""

    values: np.ndarray
    bases: tuple[Any, ...]
    n: Mapping[str, int]
    missing: int = 0
    note: str = ""
    problem: str = ""


def dimension_table(ratings: pd.DataFrame) -> DimensionTable | None:
    """Return every judgement as a row of its dimensions; None where there are fewer than two dimensions.

    Composites are no items. Judgements that lack a dimension are left out and counted.
    """
    items = ratings[~ratings["dimension"].isin(_COMPOSITES)]
    if items["dimension"].nunique() < 2:
        return None
    keys = ["target", "judge", "dimension"]
    judgements = {"judgements": len(items.drop_duplicates(["target", "judge"]))}
    counts = {**judgements, "dimensions": items["dimension"].nunique()}

    def none(problem: str, missing: int = 0) -> DimensionTable:
        return DimensionTable(np.empty((0, 0)), (), counts, missing, problem=problem)

    duplicated = items.duplicated(keys)
    if duplicated.any():
        return none(
            f"{counted(int(duplicated.sum()), 'duplicate ratings')}; keep one per target, judge and dimension"
        )
    wide = items.set_index(keys)["score"].unstack().astype("float64")
    if np.isinf(wide.to_numpy()).any():
        return none("there is an infinite score")
    complete = wide.dropna()
    missing = int(wide.isna().to_numpy().sum())
    left_out = len(wide) - len(complete)
    note = f"{left_out} of {len(wide)} judgements left out for a missing dimension" if left_out else ""
    counts["judgements"] = len(complete)
    if len(complete) < 2:
        return none(
            f"{counted(len(complete), 'judgements')} with every dimension, and two are needed", missing
        )
    values = complete.to_numpy() / (np.abs(complete.to_numpy()).max() or 1.0)
    if np.ptp(values) <= ROUNDING:
        return none("every score is the same", missing)
    targets = complete.index.get_level_values("target")
    known = ratings.dropna(subset=["base"]).groupby("target")["base"] if "base" in ratings else None
    if known is not None and known.nunique().reindex(targets).eq(1).all():
        bases = tuple(known.first().reindex(targets))
        counts = {"bases": len(set(bases)), **counts}
    else:
        bases = tuple(targets)
        counts = {"answers": len(set(bases)), **counts}
    return DimensionTable(values, bases, counts, missing, note)


def alpha_over_dimensions(ratings: pd.DataFrame) -> Estimate | None:
    """Return Cronbach's alpha with the dimensions as items and every judgement (answer x judge) as a row.

    It says how far the dimensions of the rubric measure one thing. The interval is clustered by base, or by answer
    where no base is known, because several judges score one answer.
    """
    table = dimension_table(ratings)
    if table is None:
        return None
    if table.problem:
        return _without_estimate(OVER_DIMENSIONS, table.n, table.missing, table.problem)
    return _alpha(table.values, OVER_DIMENSIONS, table.n, table.missing, table.note, table.bases)


def _alpha(
    values: np.ndarray,
    name: str,
    n: Mapping[str, int],
    missing: int,
    note: str,
    bases: tuple[Any, ...] | None,
) -> Estimate:
    """Return alpha by pingouin with the jackknife over bases, or Feldt's interval where no base is known.

    Pingouin itself rounds Feldt's interval to three digits.
    """
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
    if bases is not None:
        sums = base_sums(values, bases)
        found = Estimate(name, alpha, method=JACKKNIFE, n=n, missing=missing, note=note)
        return with_jackknife(
            found,
            lambda weights: forms_of_sums(weights @ sums.sums[:, 0])[:, FORMS.index("ICC(C,k)")],
            sums.bases,
            lambda a: -np.log1p(-a),  # ln F, since alpha is 1 - 1/F
            lambda z: -np.expm1(-z),
        )
    df1, df2 = ms.n - 1, (ms.n - 1) * (ms.k - 1)
    low, high = (1 - (1 - alpha) * float(stats.f.ppf(share, df1, df2)) for share in (0.975, 0.025))
    return Estimate(name, alpha, low, high, method=FELDT, n=n, missing=missing, note=note)


def _without_estimate(name: str, n: Mapping[str, int], missing: int, reason: str) -> Estimate:
    return Estimate(name, None, method=FELDT, n=n, missing=missing, note=f"not estimable: {reason}")

"""What each base adds to the mean squares, so that leaving bases out or drawing them again costs one product."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from toolkit.errors import InputError
from toolkit.stats.mean_squares import icc_fractions
from toolkit.stats.rating_matrix import NEGLIGIBLE


@dataclass(frozen=True)
class BaseSums:
    """Sums over the answers of each base, from which every mean square follows."""

    sums: np.ndarray

    @property
    def bases(self) -> int:
        """Number of bases."""
        return len(self.sums)

    @property
    def whole(self) -> np.ndarray:
        """Sums of all bases, shape (scales, judges + 3)."""
        return np.asarray(self.sums.sum(axis=0))

    @property
    def left_out(self) -> np.ndarray:
        """Sums without each base, shape (bases, scales, judges + 3)."""
        return np.asarray(self.whole - self.sums)

    def drawn(self, counts: np.ndarray) -> np.ndarray:
        """Return the sums when base g is taken ``counts[r, g]`` times, shape (resamples, scales, judges + 3)."""
        flat = counts @ self.sums.reshape(self.bases, -1)
        return np.asarray(flat.reshape(-1, *self.sums.shape[1:]))


def base_sums(values: np.ndarray, bases: Sequence[Hashable]) -> BaseSums:
    """Return what each base adds to the mean squares."""
    table = np.asarray(values, dtype=float)
    table = table[:, :, None] if table.ndim == 2 else table
    if table.ndim != 3 or len(table) != len(bases):
        shape = " x ".join(map(str, table.shape))
        raise InputError(
            f"mean squares: a table of {shape} and {len(bases)} bases; give targets x judges (x scales) and a base "
            "for each target"
        )
    if not np.isfinite(table).all():
        raise InputError("mean squares: a score is missing or infinite; leave such targets out first")
    codes, names = pd.factorize(pd.Series(list(bases), dtype="object"), use_na_sentinel=False)
    centred = table - table.mean(axis=(0, 1)) if table.size else table
    answers, judges, scales = centred.shape
    rows = np.concatenate(
        [
            np.ones((answers, 1, scales)),
            centred,
            (centred**2).sum(axis=1, keepdims=True),
            judges * centred.mean(axis=1, keepdims=True) ** 2,
        ],
        axis=1,
    )
    sums = np.zeros((len(names), judges + 3, scales))
    np.add.at(sums, codes, rows)
    return BaseSums(sums.transpose(0, 2, 1))


def forms_of_sums(sums: np.ndarray) -> np.ndarray:
    r"""Return the six intraclass correlations that sums over answers give, in the order of ``FORMS``.

    With n answers, k judges, judge sums :math:`C_j`, squares :math:`Q` and :math:`R = k \sum_i \bar x_i^2`, the sums
    of squares are :math:`R - (\sum C_j)^2 / kn` between answers,
    :math:`\sum C_j^2 / n - (\sum C_j)^2 / kn` between judges and :math:`Q - R` within answers.
    """
    k = sums.shape[-1] - 3
    n, columns, squares, rows = sums[..., 0], sums[..., 1 : k + 1], sums[..., k + 1], sums[..., k + 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        grand = columns.sum(axis=-1) ** 2 / (k * n)
        judges = (columns**2).sum(axis=-1) / n - grand
        between, within = rows - grand, squares - rows
        total = between + within
        between, judges, error = (
            np.where(part > NEGLIGIBLE * total, part, 0.0) for part in (between, judges, within - judges)
        )
        b, j, e = between / (n - 1), judges / (k - 1), error / ((n - 1) * (k - 1))
        w = (judges + error) / (n * (k - 1))
        floor = NEGLIGIBLE * np.maximum.reduce([b, w, j, e])
        forms = [
            np.where(bottom > floor, top / bottom, np.nan) for top, bottom in icc_fractions(b, w, j, e, n, k)
        ]
    return np.where((n > 1)[..., None], np.stack(forms, axis=-1), np.nan)


def log_f(single: np.ndarray, k: float) -> np.ndarray:
    r"""Return :math:`\ln F` with :math:`F = (1 + (k-1)\rho) / (1 - \rho)` of a single form, NaN where F is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log((1 + (k - 1) * single) / (1 - single))
    return np.where(np.isfinite(found), found, np.nan)


def from_log_f(log: np.ndarray, k: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the single and the average form that belong to ln F (Spearman-Brown)."""
    with np.errstate(over="ignore", invalid="ignore"):
        inverse = np.exp(-log)  # 1 / F, which underflows to 0 where F would overflow
    return (1 - inverse) / (1 + (k - 1) * inverse), 1 - inverse

"""The slope of one number on another when the answers of one base belong together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from toolkit.errors import InputError
from toolkit.stats.cluster_robust import METHOD, cluster_robust
from toolkit.stats.intervals import ROUNDING
from toolkit.stats.result import Estimate
from toolkit.words import counted


def clustered_slope(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    unit: str = "none",
    missing: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """Return the slope of y on x by least squares, with a CR2 error clustered by base (`cluster_robust`).

    Where x is 0 or 1 the slope is the difference of two means.

    References
    ----------
    Bell & McCaffrey (2002), Survey Methodology 28, 169-181.

    Examples
    --------
    >>> found = clustered_slope("slope", [1, 2, 3, 4], [1.0, 2.1, 2.9, 4.2], "aabb")
    >>> round(found.estimate, 2), found.n
    (1.04, {'answers': 4, 'bases': 2})
    """
    one, other = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if not len(one) == len(other) == len(clusters):
        raise InputError(
            f"slope {name}: {len(one)}, {len(other)} values and {len(clusters)} bases; give as many"
        )
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise InputError(f"slope {name}: a value is missing or infinite; leave such answers out first")
    bases = len(set(clusters))
    empty = Estimate(
        name, None, None, None, METHOD, unit, {"answers": len(one), "bases": bases}, missing, confidence
    )
    if len(one) < 3:
        return replace(empty, note=f"not estimable: {counted(len(one), 'answers')}, and three are needed")
    z = one - one.mean()
    if float(z @ z) <= (ROUNDING * float(np.abs(one).max())) ** 2 * len(one):
        return replace(empty, note="not estimable: what the slope is on does not vary")
    design = np.column_stack([np.ones(len(z)), z])
    found = cluster_robust(design, other, clusters, {"slope": [0.0, 1.0]}, confidence)["slope"]
    return replace(
        empty,
        estimate=found.estimate,
        low=found.low,
        high=found.high,
        p_value=found.p_value,
        note=found.reason,
        degrees=found.degrees,
    )

"""What variance components count for in the mean of a decision study, and the coefficients that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from toolkit.stats.components_design import Design
from toolkit.stats.rating_matrix import NEGLIGIBLE

E_RHO2: Final = "E-rho2"
PHI: Final = "Phi"


@dataclass(frozen=True)
class Weights:
    """What each component of a design counts for in the mean over a decision study, one number per effect."""

    universe: np.ndarray
    relative: np.ndarray
    absolute: np.ndarray


def weights(design: Design, of: Sequence[str], fixed: Sequence[str], counts: Mapping[str, float]) -> Weights:
    r"""Return what each component counts for when scores are averaged over a decision study.

    An effect is divided by the counts of its factors outside the object. It is universe score variance where
    it has the object and otherwise fixed factors only, relative error where it has the object and a random
    factor, absolute error where it has a random factor, and nothing where all its factors are fixed.

    References
    ----------
    Brennan (2001), Generalizability Theory, section 4.1, rules 4.1.1-4.1.3, and section 4.3 for fixed facets.
    """
    objects, unsampled = set(of), set(of) | set(fixed)
    rows = []
    for effect in design.effects:
        share = 1.0 / float(np.prod([counts[name] for name in effect - objects]))
        random = bool(effect - unsampled)
        mine = bool(effect & objects)
        rows.append((share * (mine and not random), share * (mine and random), share * random))
    universe, relative, absolute = np.array(rows, dtype=float).T
    return Weights(universe, relative, absolute)


def coefficients(components: np.ndarray, by: Weights) -> dict[str, np.ndarray]:
    """Return the variances and coefficients of components, for one set or many.

    Negative components count as 0. A coefficient is NaN where there is no variance at all.
    """
    kept = np.maximum(components, 0.0)
    universe, relative, absolute = (kept @ one for one in (by.universe, by.relative, by.absolute))
    nothing = np.full(np.shape(universe), np.nan)
    floor = NEGLIGIBLE * kept.sum(axis=-1)
    shares = {
        name: np.divide(universe, universe + error, out=nothing.copy(), where=universe + error > floor)
        for name, error in ((E_RHO2, relative), (PHI, absolute))
    }
    errors = {"relative": relative, "absolute": absolute}
    roots = {f"sem {name}": np.sqrt(error) for name, error in errors.items()}
    return {"universe": universe, **errors, **roots, **shares}

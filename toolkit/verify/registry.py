"""Every check there is, and how to find some of them by name."""

from __future__ import annotations

from typing import Final

from toolkit.errors import InputError
from toolkit.verify import (
    checks_agreement,
    checks_clusters,
    checks_designs,
    checks_generalizability,
    checks_instruments,
    checks_means,
    checks_rates,
)
from toolkit.verify.check import Check

CHECKS: Final[tuple[Check, ...]] = (
    *checks_agreement.CHECKS,
    *checks_instruments.CHECKS,
    *checks_generalizability.CHECKS,
    *checks_means.CHECKS,
    *checks_designs.CHECKS,
    *checks_clusters.CHECKS,
    *checks_rates.CHECKS,
)


def checks_named(only: str | None = None) -> tuple[Check, ...]:
    """Return the checks whose name or function contains a text, or all of them.

    Parameters
    ----------
    only
        Any part of a name or of a function, in any case; None for all.

    Raises
    ------
    InputError
        If there is none.

    Examples
    --------
    >>> [check.name for check in checks_named("Holm")]
    ['Holm']
    """
    if only is None:
        return CHECKS
    found = tuple(check for check in CHECKS if only.lower() in f"{check.name} {check.function}".lower())
    if not found:
        names = ", ".join(check.name for check in CHECKS)
        raise InputError(f"verify: no check is named {only!r}; use a part of: {names}")
    return found

"""What a mixed model found: a test per term and the variances, as frozen objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from toolkit.words import counted

METHOD: Final = "REML, Wald F with containment degrees of freedom"


@dataclass(frozen=True)
class TermTest:
    """The F test of one term of the model."""

    term: str
    f: float | None
    df1: int
    df2: int
    p_value: float | None
    p_holm: float | None = None
    note: str = ""

    def sentence(self) -> str:
        """Return the test in words ready for the thesis, rounded only here."""
        if self.f is None:
            return f"{self.term}: {self.note}."
        return (
            f"{self.term}: F({self.df1}, {self.df2}) = {self.f:.2f}, p = {self.p_value:.3g} "
            f"({self.p_holm:.3g} by Holm over all terms)."
        )


@dataclass(frozen=True)
class MixedModel:
    """A mixed model of the scores.

    Parameters
    ----------
    terms
        One test per term.
    variances
        Variance of the bases, of length and model within bases where there are several models, and of the residual, in
        squared units of the score; one of 0 stands for a singular fit.
    singular
        Names of the variances estimated as 0.
    converged
        Whether the likelihood found its maximum.
    n
        Bases, cells (base x length x model) and answers.
    missing
        Runs without a score.
    notes
        How it was fitted and what was left out.
    note
        Why there is no model; empty where there is one.
    """

    terms: tuple[TermTest, ...]
    variances: Mapping[str, float]
    singular: tuple[str, ...]
    converged: bool
    n: Mapping[str, int]
    missing: int
    notes: tuple[str, ...]
    note: str = ""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per term: term, F, df1, df2, p_value, p_holm and note."""
        rows = [vars(term) for term in self.terms]
        frame = pd.DataFrame(rows, columns=["term", "f", "df1", "df2", "p_value", "p_holm", "note"])
        return frame.astype(dict.fromkeys(["f", "p_value", "p_holm"], "float64"))

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain JSON types."""
        return {
            "terms": [dict(vars(term)) for term in self.terms],
            "variances": dict(self.variances),
            "singular": list(self.singular),
            "converged": self.converged,
            "n": dict(self.n),
            "missing": self.missing,
            "notes": list(self.notes),
            "note": self.note,
        }

    def how(self) -> str:
        """Return how it was fitted to how much, or why it was not, for the caption of its table."""
        counts = ", ".join(counted(value, key) for key, value in self.n.items())
        return (
            f"Mixed model: {self.note}; n = {counts}."
            if self.note
            else f"Mixed model ({METHOD}; n = {counts}); its tests are exploratory."
        )

    def sentence(self) -> str:
        """Return the tests in words ready for the thesis."""
        if self.note:
            return self.how()
        singular = f" Singular fit: variance of {', '.join(self.singular)} is 0." if self.singular else ""
        tests = " ".join(term.sentence() for term in self.terms)
        return f"{self.how()} {tests}{singular}"

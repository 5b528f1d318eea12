"""Tables of the thesis: any results, the reliability of the judges, and the comparison of prompt lengths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from toolkit.files import write_atomically
from toolkit.report import captions
from toolkit.report.escape import with_study
from toolkit.report.figure import csv_bytes
from toolkit.report.latex import latex_table
from toolkit.stats.result import Estimate, estimates_frame

if TYPE_CHECKING:
    from toolkit.stats.agreement.reliability import Reliability
    from toolkit.stats.prompt_length.contrasts import LengthComparison

_TERMS: Final = {"term": "Term", "f": "F", "p_value": "p", "p_holm": "p (Holm over all terms)"}


@dataclass(frozen=True)
class Table:
    """A table ready for the thesis."""

    name: str
    latex: str
    data: pd.DataFrame
    caption: str


def make_table(
    name: str,
    rows: Iterable[Mapping[str, Any]],
    heads: Mapping[str, str],
    data: pd.DataFrame,
    caption: str,
    *,
    label: str = "",
    **latex: Any,
) -> Table:
    """Return rows as a LaTeX table with these heads, beside the data with all digits."""
    frame = pd.DataFrame(list(rows), columns=list(heads))
    text = latex_table(frame, caption, f"tab:{label or name.replace('_', '-')}", heads, **latex)
    return Table(name, text, data, caption)


def save_table(table: Table, folder: Path | str, study: str = "") -> list[Path]:
    r"""Write ``NAME.tex`` (to ``\input`` in the thesis) and ``NAME.csv`` (its numbers, unrounded)."""
    place = Path(folder)
    return [
        write_atomically(place / f"{table.name}.tex", with_study(table.latex, study).encode()),
        write_atomically(place / f"{table.name}.csv", csv_bytes(table.data)),
    ]


def interval_of(estimate: Estimate | None) -> tuple[float, float] | None:
    """Return the ends of an interval, None without both."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    return (estimate.low, estimate.high)


def corrections_words(results: Iterable[Estimate], between: str = "; ") -> str:
    """Say how P values were corrected for multiplicity."""
    told = dict.fromkeys(one.correction for one in results if one.correction != "none")
    return f"P values corrected for multiplicity: {between.join(told)}." if told else ""


def estimates_table(
    name: str,
    title: str,
    keyed: Sequence[tuple[str, Estimate]],
    *,
    key: str = "",
    end: str = "",
    decimals: int = 3,
    label: str = "",
) -> Table:
    """Return results as a LaTeX table with their data, the same columns for every statistic."""
    results = [result for _, result in keyed]
    rows = [
        {
            "about": about,
            "what": one.name,
            "estimate": one.estimate,
            "interval": interval_of(one),
            "p": one.p_value,
            "test": captions.role_words(one),
            "n": captions.n_words(one.n).removeprefix("n = ") if one.n else "",
        }
        for about, one in keyed
    ]
    level = captions.level_words(results)
    heads = {
        "about": key,
        "what": "",
        "estimate": "Estimate",
        "interval": level,
        "p": "p",
        "test": "Test",
        "n": "n",
    }
    empty = [c for c in ("about", "p", "test") if all(row[c] in (None, "") for row in rows)]
    heads = {column: head for column, head in heads.items() if column not in empty}
    caption = captions.join(
        title,
        captions.interval_words(results),
        corrections_words(results),
        captions.not_estimable_words(results),
        end,
    )
    data = estimates_frame(keyed, key or "of")
    return make_table(name, rows, heads, data, caption, label=label, decimals=decimals, p_values=("p",))


def terms_table(name: str, title: str, frame: pd.DataFrame, *, end: str, label: str) -> Table:
    """Return tests of terms, which have degrees of freedom in place of intervals."""
    # A column in which nothing stands, such as notes where there are none, tells a reader nothing.
    told = [str(column) for column in frame.columns if not len(frame) or frame[column].astype(str).any()]
    heads = {column: _TERMS.get(column, column.replace("_", " ")) for column in told}
    caption = captions.join(f"{title}.", end)
    p_values = tuple(column for column in told if column.startswith("p_"))
    latex = latex_table(frame, caption, f"tab:{label}", heads, decimals=3, p_values=p_values)
    return Table(name, latex, frame, caption)


def reliability_table(reliability: Reliability, *, end: str = "") -> Table:
    """Return how far the judges agree, one row a dimension: ICC(A,1), ICC(A,k) and alpha over judges.

    Leniency of a judge is error here, so the absolute-agreement forms are printed; the data hold all six.
    """
    rows, keyed = [], []
    iccs: list[Estimate] = []
    alphas: list[Estimate] = []
    for key, forms in reliability.icc.items():
        by_name = {form.name: form for form in forms}
        alpha = reliability.alpha_over_judges.get(key)
        single, mean = by_name.get("ICC(A,1)"), by_name.get("ICC(A,k)")
        iccs += [e for e in (single, mean) if e is not None]
        alphas += [alpha] if alpha is not None else []
        row: dict[str, Any] = {"score": key.replace("_", " ")}
        for column, one in (("one", single), ("all", mean), ("alpha", alpha)):
            row |= {column: one.estimate if one else None, f"{column}_interval": interval_of(one)}
        rows.append(row | {"answers": alpha.n.get("answers") if alpha else None})
        keyed += [(key, e) for e in (*forms, *reliability.icc_these_judges[key], alpha) if e is not None]
    over = reliability.alpha_over_dimensions
    if over is not None:
        keyed.append(("all dimensions", over))
    caption = captions.join(
        f"Reliability of the judges ({captions.estimates_n_words([*iccs, *alphas])}).",
        "ICC(A,1) is the reliability of one judge and ICC(A,k) that of the mean of all, both for absolute "
        "agreement; alpha is Cronbach's alpha over judges.",
        f"ICC: {captions.interval_words(iccs)}",
        f"Alpha: {captions.interval_words(alphas)}",
        captions.capital(over.sentence()) if over is not None else "",
        captions.not_estimable_words([*iccs, *alphas]),
        captions.notes_words(reliability.notes),
        end,
    )
    level = captions.level_words([*iccs, *alphas])
    heads = {
        "score": "Score",
        "one": "ICC(A,1)",
        "one_interval": level,
        "all": "ICC(A,k)",
        "all_interval": level,
    }
    heads |= {"alpha": "alpha", "alpha_interval": level, "answers": "n"}
    return make_table("reliability", rows, heads, estimates_frame(keyed, "score"), caption)


def forms_table(reliability: Reliability, key: str = "composite", *, end: str = "") -> Table:
    """Return all six forms of the ICC of one score, then ICC(A,.) again with the interval for these judges."""
    forms, these = reliability.icc.get(key, ()), reliability.icc_these_judges.get(key, ())
    rows = [{"form": e.name, "estimate": e.estimate, "interval": interval_of(e)} for e in (*forms, *these)]
    caption = captions.join(
        f"Six forms of the intraclass correlation, {key.replace('_', ' ')} score "
        f"({captions.estimates_n_words(forms)}).",
        "1: one random judge, A: absolute agreement, C: consistency; k: mean of all judges.",
        captions.icc_interval_words(forms),
        f"With the interval for these judges only: {captions.interval_words(these)}" if these else "",
        captions.not_estimable_words(forms),
        end,
    )
    heads = {"form": "Form", "estimate": "Estimate", "interval": captions.level_words(forms)}
    data = estimates_frame([(key, e) for e in (*forms, *these)], "score")
    return make_table("icc_forms", rows, heads, data, caption, decimals=3)


def length_table(comparison: LengthComparison, *, end: str = "") -> Table:
    """Return the means of the length bins and their paired differences, with P values and effect sizes."""
    means, contrasts = comparison.per_bin, comparison.contrasts
    blank = dict.fromkeys(("p", "d", "g", "d_interval", "role"), "")  # a mean has no test and no effect size
    rows: list[dict[str, Any]] = [
        {"what": f"Mean {e.name}", "estimate": e.estimate, "interval": interval_of(e)} | blank for e in means
    ]
    none = [None] * len(contrasts)
    effects = [*comparison.effect_sizes, *none]
    corrected = [*comparison.corrected_effect_sizes, *none]
    for contrast, effect, g in zip(contrasts, effects, corrected, strict=False):
        rows.append(
            {
                "what": contrast.name,
                "estimate": contrast.estimate,
                "interval": interval_of(contrast),
                "p": contrast.p_value,
                "role": captions.role_words(contrast),
                "g": g.estimate if g else None,
                "d": effect.estimate if effect else None,
                "d_interval": interval_of(effect),
            }
        )
    told = [*means, *contrasts]
    answers = ", ".join(f"{e.n.get('answers', 0)} {e.name}" for e in means)
    bases = captions.estimates_n_words([Estimate("", None, n={"bases": e.n.get("bases", 0)}) for e in told])
    caption = captions.join(
        f"Quality by prompt length, compared within bases ({bases}; answers: {answers}).",
        f"Means: {captions.interval_words(means)}",
        f"Differences: {captions.interval_words(contrasts)}",
        f"Effect sizes d_z: {captions.interval_words(comparison.effect_sizes)}",
        "g_z is d_z corrected for its bias; the interval is of the population's effect and holds for both.",
        corrections_words(sorted(contrasts, key=lambda one: one.correction), ", "),
        captions.unpaired_words(contrasts),
        captions.not_estimable_words([*means, *(replace(e, missing=0) for e in contrasts)]),
        captions.notes_words(comparison.notes),
        end,
    )
    level = captions.level_words(told)
    heads = {"what": "", "estimate": "Score", "interval": level, "p": "p", "role": "Test"}
    heads |= {"g": "g_z", "d": "d_z", "d_interval": level}
    keyed = [("mean", e) for e in means] + [("difference", e) for e in contrasts]
    keyed += [("effect size", e) for e in (*comparison.effect_sizes, *comparison.corrected_effect_sizes)]
    return make_table("length", rows, heads, estimates_frame(keyed, "what"), caption, p_values=("p",))

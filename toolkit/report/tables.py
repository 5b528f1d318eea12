"""Tables of the thesis: reliability of the judges and the comparison of prompt lengths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from toolkit.report import captions
from toolkit.report.latex import latex_table
from toolkit.report.latex_text import with_study
from toolkit.report.saving import csv_bytes, write_atomically
from toolkit.stats.result import Estimate, estimates_frame

if TYPE_CHECKING:
    from toolkit.stats.agreement.reliability import Reliability
    from toolkit.stats.prompt_length.contrasts import LengthComparison


@dataclass(frozen=True)
class Table:
    """A table ready for the thesis."""

    name: str
    latex: str
    data: pd.DataFrame
    caption: str


def reliability_table(reliability: Reliability, *, note: str = "", source: str = "") -> Table:
    """Return how far the judges agree, one row a dimension: ICC(A,1), ICC(A,k) and alpha over judges.

    Leniency of a judge is error here, so the absolute-agreement forms are printed; the data hold all six.

    Parameters
    ----------
    reliability
        What ``toolkit.stats.agreement.reliability`` returned.
    note
        Appended to the caption.
    source
        Which study and dataset version, as a sentence.

    Returns
    -------
    Table
        ``reliability.tex`` when saved.
    """
    shown, keyed = [], []
    iccs: list[Estimate] = []
    alphas: list[Estimate] = []
    for key, forms in reliability.icc.items():
        by_name = {form.name: form for form in forms}
        alpha = reliability.alpha_over_judges.get(key)
        single, mean = by_name.get("ICC(A,1)"), by_name.get("ICC(A,k)")
        iccs += [e for e in (single, mean) if e is not None]
        alphas += [alpha] if alpha is not None else []
        shown.append(
            {
                "score": key.replace("_", " "),
                "one": _value(single),
                "one_interval": _interval(single),
                "all": _value(mean),
                "all_interval": _interval(mean),
                "alpha": _value(alpha),
                "alpha_interval": _interval(alpha),
                "answers": alpha.n.get("answers") if alpha is not None else None,
            }
        )
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
        # Its name begins in lower case, and a sentence does not.
        f"{over.sentence()[:1].upper()}{over.sentence()[1:]}" if over is not None else "",
        captions.not_estimable_words([*iccs, *alphas]),
        _notes(reliability.notes),
        source,
        note,
    )
    level = captions.level_words([*iccs, *alphas])
    heads = {
        "score": "Score",
        "one": "ICC(A,1)",
        "one_interval": level,
        "all": "ICC(A,k)",
        "all_interval": level,
        "alpha": "alpha",
        "alpha_interval": level,
        "answers": "n",
    }
    text = latex_table(pd.DataFrame(shown, columns=list(heads)), caption, "tab:reliability", heads)
    return Table("reliability", text, estimates_frame(keyed, "score"), caption)


def forms_table(
    reliability: Reliability, key: str = "composite", *, note: str = "", source: str = ""
) -> Table:
    """Return all six forms of the ICC of one score, then ICC(A,.) again with the interval for these judges."""
    forms, these = reliability.icc.get(key, ()), reliability.icc_these_judges.get(key, ())
    shown = pd.DataFrame(
        [{"form": e.name, "estimate": _value(e), "interval": _interval(e)} for e in (*forms, *these)],
        columns=["form", "estimate", "interval"],
    )
    caption = captions.join(
        f"Six forms of the intraclass correlation, {key.replace('_', ' ')} score "
        f"({captions.estimates_n_words(forms)}).",
        "1: one random judge, A: absolute agreement, C: consistency; k: mean of all judges.",
        captions.icc_interval_words(forms),
        f"With the interval for these judges only: {captions.interval_words(these)}" if these else "",
        captions.not_estimable_words(forms),
        source,
        note,
    )
    heads = {"form": "Form", "estimate": "Estimate", "interval": captions.level_words(forms)}
    text = latex_table(shown, caption, "tab:icc-forms", heads, decimals=3)
    return Table("icc_forms", text, estimates_frame([(key, e) for e in (*forms, *these)], "score"), caption)


def length_table(comparison: LengthComparison, *, note: str = "", source: str = "") -> Table:
    """Return the means of the length bins and their paired differences, with P values and effect sizes."""
    blank = dict.fromkeys(("p", "d", "g", "d_interval", "role"), "")  # a mean has no test and no effect size
    shown: list[dict[str, Any]] = [
        {"what": f"Mean {e.name}", "estimate": _value(e), "interval": _interval(e)} | blank
        for e in comparison.per_bin
    ]
    effects = [*comparison.effect_sizes, *[None] * len(comparison.contrasts)]
    corrected = [*comparison.corrected_effect_sizes, *[None] * len(comparison.contrasts)]
    for contrast, effect, g in zip(comparison.contrasts, effects, corrected, strict=False):
        shown.append(
            {
                "what": contrast.name,
                "estimate": _value(contrast),
                "interval": _interval(contrast),
                "p": contrast.p_value,
                "role": captions.role_words(contrast),
                "g": _value(g),
                "d": _value(effect),
                "d_interval": _interval(effect),
            }
        )
    told = [*comparison.per_bin, *comparison.contrasts]
    answers = ", ".join(f"{e.n.get('answers', 0)} {e.name}" for e in comparison.per_bin)
    bases = captions.estimates_n_words([Estimate("", None, n={"bases": e.n.get("bases", 0)}) for e in told])
    corrections = sorted({e.correction for e in comparison.contrasts if e.correction != "none"})
    level = captions.level_words(told)
    heads = {
        "what": "",
        "estimate": "Score",
        "interval": level,
        "p": "p",
        "role": "Test",
        "g": "g_z",
        "d": "d_z",
        "d_interval": level,
    }
    caption = captions.join(
        f"Quality by prompt length, compared within bases ({bases}; answers: {answers}).",
        f"Means: {captions.interval_words(comparison.per_bin)}",
        f"Differences: {captions.interval_words(comparison.contrasts)}",
        f"Effect sizes d_z: {captions.interval_words(comparison.effect_sizes)}",
        "g_z is d_z corrected for its bias; the interval is of the population's effect and holds for both.",
        f"P values corrected for multiplicity: {', '.join(corrections)}." if corrections else "",
        captions.unpaired_words(comparison.contrasts),
        captions.not_estimable_words(
            [*comparison.per_bin, *(replace(e, missing=0) for e in comparison.contrasts)]
        ),
        _notes(comparison.notes),
        source,
        note,
    )
    frame = pd.DataFrame(shown, columns=list(heads))
    text = latex_table(frame, caption, "tab:length", heads, p_values=("p",))
    keyed = [("mean", e) for e in comparison.per_bin]
    keyed += [("difference", e) for e in comparison.contrasts]
    keyed += [("effect size", e) for e in (*comparison.effect_sizes, *comparison.corrected_effect_sizes)]
    return Table("length", text, estimates_frame(keyed, "what"), caption)


def save_table(table: Table, folder: Path | str, study: str = "") -> list[Path]:
    r"""Write ``NAME.tex`` (to ``\input`` in the thesis) and ``NAME.csv`` (its numbers, unrounded)."""
    place = Path(folder)
    latex = with_study(table.latex, study)
    return [
        write_atomically(place / f"{table.name}.tex", latex.encode()),
        write_atomically(place / f"{table.name}.csv", csv_bytes(table.data)),
    ]


def _value(estimate: Estimate | None) -> float | None:
    return estimate.estimate if estimate is not None else None


def _interval(estimate: Estimate | None) -> tuple[float, float] | None:
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    return (estimate.low, estimate.high)


def _notes(notes: Iterable[str]) -> str:
    return captions.join(*(f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in notes if note))

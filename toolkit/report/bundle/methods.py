"""The methods section of a study, written from its plan, its ledger and what was calculated."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.report.bundle.accounts import cost, design, missing, software
from toolkit.report.bundle.asking import judges, models, people
from toolkit.report.bundle.done import Done
from toolkit.report.bundle.references import Sentence, short_reference, statistics_used
from toolkit.report.escape import escape_breaking

Paragraph = tuple[str, tuple[Sentence, ...]]
"""Heading and sentences."""


def methods_section(done: Done) -> tuple[Paragraph, ...]:
    """Return the methods section as paragraphs; what the study did not do has none."""
    paragraphs = (
        ("Design", design(done)),
        ("Models", models(done)),
        ("Judges", judges(done)),
        ("People", people(done)),
        ("Statistics", tuple(statistics_used(done.evidence))),
        ("Missing and excluded", missing(done)),
        ("Cost", cost(done)),
        ("Software", software(done)),
    )
    return tuple((heading, sentences) for heading, sentences in paragraphs if sentences)


def methods_text(paragraphs: Sequence[Paragraph]) -> str:
    """Return the section as plain text with author and year of each reference."""
    told = []
    for heading, sentences in paragraphs:
        said = [
            one.text + (f" ({'; '.join(map(short_reference, one.cite))})" if one.cite else "") + "."
            for one in sentences
        ]
        told.append(" ".join([f"{heading}.", *said]))
    return "\n\n".join(told) + "\n"


def methods_latex(paragraphs: Sequence[Paragraph]) -> str:
    r"""Return the section as LaTeX with ``\cite`` of each reference."""
    told = []
    for heading, sentences in paragraphs:
        said = [
            escape_breaking(one.text) + (rf"~\cite{{{','.join(one.cite)}}}" if one.cite else "") + "."
            for one in sentences
        ]
        told.append("\n".join([rf"\paragraph{{{escape_breaking(heading)}.}}", *said]))
    # Names of files and versions do not break well: lines may be looser here, as narrow as the thesis may be.
    return "\n\n".join([r"\begingroup\emergencystretch=3em", *told, r"\endgroup"]) + "\n"


def cited(paragraphs: Sequence[Paragraph]) -> list[str]:
    """Return the key of every reference that the section cites, once, in the order of the alphabet."""
    return sorted({key for _, sentences in paragraphs for one in sentences for key in one.cite})

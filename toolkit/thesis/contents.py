"""The order of a report, whatever it is written as: what comes first, who refers to it, and what is left over."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

from toolkit.report.blocks import Block, Bullets, Grid, Paragraph, Part
from toolkit.report.escape import label_of
from toolkit.report.registry import REPORT, report_order
from toolkit.stats import WORDS
from toolkit.thesis.findings import Findings

Numbered = tuple[str, str]
"""The number of a figure or table in a document, and what LaTeX refers to it by."""


def main_parts(parts: Iterable[Part]) -> list[Part]:
    """Return the figures and tables that a report shows, of those that there are; all others are the supplement's."""
    by_label = {part.place: part for part in parts if not part.left_out}
    main = []
    most: Mapping[str, Any] = REPORT["most"]
    for kind, number in most.items():
        labels = (f"{kind}/{name}" for name in report_order(kind))
        main += [by_label[label] for label in labels if label in by_label][:number]
    return main


@dataclass(frozen=True)
class Contents:
    """What a report says and shows; ``supplement`` has the methods of all that is left over."""

    study: str
    findings: Findings
    methods: Sequence[Paragraph]
    shown: Sequence[Part] = ()
    appendix: Sequence[Block] = ()
    supplement: Sequence[Paragraph] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def _referred(self) -> list[tuple[Paragraph, list[tuple[Part, Numbered]]]]:
        """Each paragraph of the results with what shows it; what no paragraph names stands with the first one."""
        names = {words.get("heading", words.get("title")): words.get("shown", ()) for words in WORDS.values()}
        unnamed = {part.place: part for part in main_parts(self.shown)}
        pairs = [
            (
                paragraph,
                [unnamed.pop(label) for label in names.get(paragraph.heading, ()) if label in unnamed],
            )
            for paragraph in self.findings.section() or (Paragraph(()),)
        ]
        pairs[0][1].extend(unnamed.values())
        return [(paragraph, [*self._numbered(parts)]) for paragraph, parts in pairs]

    @property
    def parts(self) -> list[tuple[Part, Numbered]]:
        """Figures and tables of the report with their numbers, in the order in which the results refer to them."""
        return [pair for _, pairs in self._referred for pair in pairs]

    @cached_property
    def further(self) -> list[tuple[Part, Numbered]]:
        """Those of the supplement; their numbers go on."""
        labels = {part.place for part, _ in self.parts}
        return [
            *self._numbered(part for part in self.shown if part.place not in labels and not part.left_out)
        ]

    @property
    def results(self) -> list[Paragraph]:
        """The paragraphs of the results, each with the numbers of its figures and tables."""
        return [
            replace(paragraph, shown=tuple(number for _, number in pairs))
            for paragraph, pairs in self._referred
        ]

    @property
    def cited(self) -> list[str]:
        """Keys of the references that the methods cite, in their order."""
        paragraphs = [*self.methods, *self.supplement]
        return sorted({key for part in paragraphs for sentence in part.sentences for key in sentence.cite})

    @property
    def absent(self) -> Bullets | None:
        """Figures that the study cannot give, for the supplement."""
        reasons = tuple(f"{part.name}: {part.left_out}" for part in self.shown if part.left_out)
        return Bullets("Figures that this study cannot give:", reasons) if reasons else None

    @cached_property
    def _last(self) -> dict[str, Iterator[int]]:
        return {"Figure": count(1), "Table": count(1)}

    def _numbered(self, parts: Iterable[Part]) -> Iterator[tuple[Part, Numbered]]:
        for part in parts:
            kind, label, name = "Figure", "fig", part.name
            if isinstance(part.block, Grid):
                kind, label, name = "Table", "tab", part.block.label
            place = f"{label}:{label_of(name, self.study)}"
            yield part, (f"{kind} {next(self._last[kind])}", rf"{kind}~\ref{{{place}}}")

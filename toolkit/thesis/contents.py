"""The order of a report, whatever it is written as: what comes first, who refers to it, and what is left to the supplement."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

from toolkit.report.blocks import Block, Bullets, Grid, Paragraph, Shown
from toolkit.report.escape import label_of
from toolkit.report.registry import REPORT, report_order
from toolkit.stats import WORDS
from toolkit.thesis.findings import NOT_ANSWERED, Findings

Numbered = tuple[str, str]
"""The number of a figure or table in a document, and what LaTeX refers to it by."""
Part = tuple[Shown, Numbered]


def main_parts(shown: Iterable[Shown]) -> list[Shown]:
    """Return the figures and tables that a report shows, of those that there are; all others are the supplement's."""
    places = {kind: [f"{kind}/{name}" for name in report_order(kind)] for kind in REPORT["most"]}
    parts = {part.place: part for part in shown}
    return [
        parts[place]
        for kind, most in REPORT["most"].items()
        for place in [place for place in places[kind] if place in parts][:most]
    ]


@dataclass(frozen=True)
class Contents:
    """Findings, methods, appendix, figures and tables of a report; ``supplement`` has the methods of all that is left."""

    study: str
    findings: Findings
    methods: Sequence[Paragraph]
    shown: Sequence[Shown] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    appendix: Sequence[Block] = ()
    supplement: Sequence[Paragraph] = ()

    @property
    def _referred(self) -> list[tuple[Paragraph, list[Shown]]]:
        """Each paragraph of the results with what shows it; what no paragraph names stands with the first one."""
        names = {words.get("heading", words.get("title")): words.get("shown", ()) for words in WORDS.values()}
        rest = {part.place: part for part in main_parts(self.shown)}
        paragraphs = self.findings.section() or (Paragraph(()),)
        pairs = [
            (paragraph, [rest.pop(place) for place in names.get(paragraph.heading, ()) if place in rest])
            for paragraph in paragraphs
        ]
        pairs[0][1].extend(rest.values())
        return pairs

    @property
    def parts(self) -> list[Part]:
        """Figures and tables of the report with their numbers, in the order in which the results refer to them."""
        return list(self._numbered(chain.from_iterable(parts for _, parts in self._referred)))

    @property
    def further(self) -> list[Part]:
        """Those of the supplement; their numbers go on."""
        main = [part for part, _ in self.parts]
        places = {part.place for part in main}
        rest = [part for part in self.shown if part.place not in places]
        return list(self._numbered([*main, *rest]))[len(main) :]

    @property
    def results(self) -> list[Paragraph]:
        """The paragraphs of the results, each with the numbers of its figures and tables."""
        numbers = {part.place: number for part, number in self.parts}
        return [
            replace(paragraph, shown=tuple(numbers[part.place] for part in parts))
            for paragraph, parts in self._referred
        ]

    @property
    def is_answered(self) -> bool:
        """Whether any question has an answer."""
        return any(statement.verdict != NOT_ANSWERED for statement in self.findings.statements)

    @property
    def absent(self) -> Bullets | None:
        """Figures that the study cannot give, for the supplement."""
        reasons = tuple(f"{name}: {reason}" for name, reason in self.left_out.items())
        return Bullets("Figures that this study cannot give:", reasons) if reasons else None

    def _numbered(self, parts: Iterable[Shown]) -> Iterator[Part]:
        numbers = {"Figure": count(1), "Table": count(1)}
        for part in parts:
            kind, label, name = "Figure", "fig", part.name
            if isinstance(part.block, Grid):
                kind, label, name = "Table", "tab", part.block.label
            place = f"{label}:{label_of(name, self.study)}"
            yield part, (f"{kind} {next(numbers[kind])}", rf"{kind}~\ref{{{place}}}")

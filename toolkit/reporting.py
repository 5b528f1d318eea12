"""What is written from whatever can be analysed: its questions, figures, tables, statistics and thesis bundle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from toolkit.analyses import QUESTIONS
from toolkit.analyses.answers import Analysable, Analyses
from toolkit.errors import InputError
from toolkit.report.escape import names_kept
from toolkit.report.manifest import claim_folder

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.report.blocks import Block, Paragraph, Part
    from toolkit.report.figure import About
    from toolkit.report.show import Files
    from toolkit.stats.result import Result
    from toolkit.thesis.contents import Contents
    from toolkit.thesis.findings import Findings, Statement
    from toolkit.thesis.methods import Evidence

    Text = tuple[Sequence[Paragraph], Iterable[Block], Mapping[str, bytes]]


@contextmanager
def needs_room() -> Iterator[None]:
    """Say in one line where a method needs a folder of the toolkit that is not installed: the core works alone."""
    try:
        yield
    except ModuleNotFoundError as error:
        room = (error.name or "").split(".")  # text of others: the name of a module
        if room[0] != "toolkit":
            raise
        folder = "/".join(room[:2])
        raise InputError(f"{folder} is not installed, and this needs it; install the whole toolkit") from None


class Reported(Analysable):
    """Whatever can be analysed, with a name and an output folder of its own."""

    @property
    def name(self) -> str:
        """Name in captions and file names."""
        raise NotImplementedError

    @property
    def output(self) -> Path:
        """Folder of figures, tables and manifests."""
        raise NotImplementedError

    @property
    def _inapplicable(self) -> Collection[str]:
        """Questions that are never asked of this kind."""
        raise NotImplementedError

    def manifest(self, **parameters: Any) -> dict[str, Any]:
        """Return what was used: inputs and their hashes, settings, parameters, and versions."""
        raise NotImplementedError

    def _figure_context(self, frames: Analyses) -> About:
        """Return what every figure says besides its numbers."""
        raise NotImplementedError

    def questions(self) -> pd.DataFrame:
        """Return one row a question: its analysis, whether it can be answered here, and why not."""
        import pandas as pd

        reasons = self.unanswerable
        applicable = {name: title for name, title in QUESTIONS.items() if name not in self._inapplicable}
        rows = [
            (title, name, name not in reasons, reasons.get(name, "")) for name, title in applicable.items()
        ]
        return pd.DataFrame(rows, columns=["question", "analysis", "answerable", "why_not"])

    def figures(
        self,
        folder: Path | str | None = None,
        only: Collection[str] = (),
        *,
        width: float | None = None,
        font: float | None = None,
        progress: bool = False,
    ) -> list[Path]:
        """Write every figure and table that the scores can give, show the figures, and return the paths.

        Parameters
        ----------
        folder
            Gets ``figures/`` and ``tables/``; the output folder by default, or one in it for another width or font.
        only
            Names of figures, e.g. ``["icc_forest"]``: these alone are calculated and written.
        width, font
            Of the text of a page of the thesis in mm (160), and size of the type in pt (9).
        progress
            Whether to show progress on standard error.
        """
        from toolkit.report.style import FONT_PT, PAGE_MM, sized

        target = Path(self.output if folder is None else folder)
        page, points = width or PAGE_MM, font or FONT_PT
        if folder is None and (page, points) != (PAGE_MM, FONT_PT):
            target /= f"{page:g}mm_{points:g}pt"
        claim_folder(self.name, target / "figures", target / "tables")
        with sized(width, font):
            return self._draw(self.frames(), target, only, progress=progress)

    def _parts(self, frames: Analyses, *, complete: bool, progress: bool) -> list[Part]:
        """Draw the figures of a report, or every one, and make the tables."""
        from toolkit.report.registry import draw_report

        return draw_report(frames.read(), self._figure_context(frames), complete=complete, progress=progress)

    def _draw(
        self, frames: Analyses, folder: Path, only: Collection[str] = (), *, progress: bool = False
    ) -> Files:
        from toolkit.report.registry import write_figures

        with names_kept(frames.names, frames.titles):
            return write_figures(frames.read(), self._figure_context(frames), folder, only, progress=progress)

    def statistics(self, folder: Path | str | None = None) -> list[Path]:
        """Write every statistic as a table and as a sentence, and return the paths."""
        target = Path(self.output if folder is None else folder)
        claim_folder(self.name, target / "statistics")
        return self._write_statistics(self.frames(), target)

    def _write_statistics(self, frames: Analyses, folder: Path) -> Files:
        from toolkit.report.registry import write_statistics

        with names_kept(frames.names, frames.titles):
            return write_statistics(frames.read().analyses(), self._figure_context(frames), folder)

    @needs_room()
    def findings(
        self,
        *questions: str,
        score: str | None = None,
        most: int | None = None,
        benchmark: Result | None = None,
    ) -> Findings:
        """Return the sentences of a results section: what each question was answered with, and what is undecided.

        Parameters
        ----------
        *questions
            Names of analyses, e.g. ``"length"``, or ``"adaptive"``: these questions alone, all by default.
        score
            Column to compare; that of the study by default.
        most
            So many sentences at most, a warning among them: of all questions those that were answered.
        benchmark
            What `adaptive` of a study returned.

        Returns
        -------
        Findings
            ``frame()`` has one row a sentence, ``sentences()`` the texts. A question that cannot be answered is named
            with its reason; an undecided verdict never says that nothing differs.
        """
        from toolkit.thesis.findings import NOT_ANSWERED, Findings

        frames = copy(self.frames())
        frames.score = score or frames.score
        statements = self._statements(frames, questions, benchmark)
        if most and not questions:
            statements = (statement for statement in statements if statement.verdict != NOT_ANSWERED)
        return Findings(self.name, tuple(islice(statements, most)))

    def _statements(
        self, frames: Analyses, only: Collection[str] = (), benchmark: Result | None = None
    ) -> Iterator[Statement]:
        from toolkit.thesis.findings import scored_findings

        return scored_findings(frames, self.unanswerable, only)

    @needs_room()
    def bundle(
        self,
        folder: Path | str | None = None,
        format: str = "latex",
        *,
        supplement: bool = False,
        progress: bool = False,
    ) -> list[Path]:
        """Write the thesis bundle: at most five figures and three tables, findings, methods, appendix and references.

        Parameters
        ----------
        folder
            Where; ``bundle/`` in the output folder by default.
        format
            ``docx`` writes a document for Word besides: needs ``toolkit[word]``.
        supplement
            Whether to add all other figures and tables, every statistic, and their methods.
        progress
            Whether to show progress on standard error.

        Raises
        ------
        InputError
            When there is nothing to bundle, or the folder holds something else.
        """
        from toolkit.report.registry import save_drawn
        from toolkit.thesis.bundle import bundle_place, check_format, write_bundle

        check_format(format)
        frames, manifest = self.frames(), self.manifest()
        succeeded = int((frames.runs["status"] == "succeeded").sum())
        target = bundle_place(
            Path(self.output / "bundle" if folder is None else folder), self.name, succeeded
        )
        with names_kept(frames.names, frames.titles):
            parts = self._report_parts(frames, supplement=supplement, progress=progress)
            files = save_drawn(parts, target, self._figure_context(frames))
            if supplement and frames.has_results:
                statistics = self._write_statistics(frames, target)
                files += statistics
                parts += statistics.shown
            contents = self._contents(frames, manifest, parts, supplement=supplement)
            return write_bundle(target, files, contents, manifest, format=format)

    @needs_room()
    def report(self, *, supplement: bool = False) -> Path:
        """Write the report: one HTML file in the output folder, which needs no network and can be mailed.

        Parameters
        ----------
        supplement
            Whether to add all other figures and tables, every statistic, and their methods.

        Returns
        -------
        Path
            ``report.html``; a notebook shows it as a link. It has findings, at most five figures and three tables with
            their data, methods, and an appendix with the rubric and examples.

        Raises
        ------
        NothingToShow
            When no run has succeeded.

        Examples
        --------
        >>> with Study.load("templates/planted.toml") as study:  # doctest: +SKIP
        ...     study.report()
        """
        from toolkit.thesis.page import write_page

        frames = self.frames()
        with names_kept(frames.names, frames.titles):
            parts = self._report_parts(frames, supplement=supplement)
            if supplement and frames.has_results:
                with TemporaryDirectory() as folder:  # their tables are shown, their files are of the bundle
                    parts += self._write_statistics(frames, Path(folder)).shown
            contents = self._contents(frames, self.manifest(), parts, supplement=supplement)
            note = self._figure_context(frames).note
            return write_page(self.output / "report.html", repr(self), note, contents)

    def _report_parts(self, frames: Analyses, *, supplement: bool, progress: bool = False) -> list[Part]:
        """Return figures and tables of a report, with all others where there is a supplement."""
        from toolkit.thesis.contents import main_parts

        parts = self._parts(frames, complete=supplement, progress=progress)
        return parts if supplement else main_parts(parts)

    def _contents(
        self,
        frames: Analyses,
        manifest: dict[str, Any],
        parts: Sequence[Part],
        *,
        supplement: bool,
    ) -> Contents:
        from toolkit.thesis.contents import Contents, main_parts
        from toolkit.thesis.findings import Findings
        from toolkit.thesis.methods import evidence_of

        findings = Findings(self.name, tuple(self._statements(frames)))
        main, full = (evidence_of(group, findings.estimates, frames) for group in (main_parts(parts), parts))
        methods, appendix, files = self._text(frames, manifest, main)
        further = self._text(frames, manifest, full, full=True)[0] if supplement else ()
        return Contents(self.name, findings, methods, parts, tuple(appendix), further, files)

    def _text(
        self, frames: Analyses, manifest: dict[str, Any], evidence: Evidence, *, full: bool = False
    ) -> Text:
        """Return the methods of what is shown, on a page or in full, the appendix, and further files of a bundle."""
        raise NotImplementedError

"""Figures with captions, what those of one study share, and the files of figures and tables: the same bytes always."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from toolkit.errors import InputError
from toolkit.files.tables import csv_bytes
from toolkit.files.writing import write_atomically
from toolkit.report import captions
from toolkit.report.blocks import Part, Picture
from toolkit.report.escape import readable
from toolkit.report.show import PNG_DPI, Files, picture_html, plain_text
from toolkit.report.style import ModelStyle, is_wide, message_figure, model_styles, thesis_style, values_of
from toolkit.stats import WORDS
from toolkit.stats.inference.run_table import factor_of
from toolkit.stats.result import Estimate
from toolkit.words import SCALE, agreeing, choices, counted, scale_words

if TYPE_CHECKING:
    from toolkit.analyses.answers import Analyses
    from toolkit.plan import Plan

PICTURES = ("pdf", "svg", "png")
NOTES = ".notes.txt"
SUFFIXES = (*(f".{kind}" for kind in PICTURES), ".csv", ".txt", NOTES)
"""Files of a figure: the picture, the data that it draws, its caption, and its notes where there are any."""


@dataclass(frozen=True)
class FigureWithCaption(Part):
    """A figure that explains itself in a notebook; ``notes`` is what is true of it and not in its caption."""

    folder = "figures"
    name: str
    figure: Figure
    caption: str
    alt_text: str
    data: pd.DataFrame
    n: Mapping[str, int]
    left_out: str = ""
    estimates: Sequence[Estimate] = ()
    notes: str = ""

    @property
    def is_wide(self) -> bool:
        """Whether it is wider than a column of the thesis."""
        return is_wide(self.figure)

    @property
    def block(self) -> Picture:
        """What stands in a document for it."""
        return Picture(self.name, self.caption, self.alt_text, self.is_wide)

    def _repr_html_(self) -> str:
        """Return the picture with its alt text for a notebook (150 dpi: the screen, not the thesis)."""
        return picture_html(render(self, "png", dpi=150), plain_text(self.alt_text), self.caption)


@dataclass(frozen=True)
class About(captions.Context):
    """What the figures of one study share: what their captions do, n, rates, a look per model, names of judges."""

    n: Mapping[str, int] = field(default_factory=dict)
    repeats: int | None = None
    models: tuple[str, ...] = ()
    study: str = ""
    scale: tuple[float, float] = SCALE
    money: str = ""
    judges: Mapping[str, str] = field(default_factory=dict)

    def worded(
        self,
        name: str,
        figure: Figure,
        data: pd.DataFrame,
        words: Mapping[str, object],
        note: Iterable[object] = (),
        notes: Iterable[object] = (),
        *,
        variant: str = "",
        estimates: Sequence[Estimate] = (),
        n: Mapping[str, int] | None = None,
        counts: str = "",
        missing: str | None = None,
        also: Iterable[object] = (),
    ) -> FigureWithCaption:
        """Return a figure with caption and notes; n and what is missing are the study's by default.

        ``words`` stand in the braces of the sentences of its table. One with a clause of its name in the table stands
        for that clause, which is empty where the word is. Names of clauses stand for them in ``note`` and ``notes``.
        """
        text = captions.text_of(name, variant)
        known: dict[str, Any] = dict.fromkeys(text, "") | dict(WORDS.get(name, {}))
        known |= {"scale": scale_words(self.scale), "lengths": self.lengths, "varied": self.factor}
        if "value" in text:
            known["values"] = values_of(data, text["value"])
        for key, word in words.items():
            if key in text:
                word = text[key].format(**known | {key: word}) if word else ""
            known[key] = word
        alt_text, lead, first = (text.get(part, "").format(**known) for part in ("alt", "seen", "note"))
        after, more = ([known.get(str(part), part) for part in parts] for parts in (note, notes))
        n = self.n if n is None else n
        intervals = captions.interval_words(estimates) if estimates else captions.NO_INTERVALS
        basis = [
            counts or captions.n_words(n),
            intervals,
            self.missing if missing is None else missing,
            *also,
        ]
        caption, remarks = self.compose(lead, basis, [first, *after], more, estimates)
        self._mark(figure)
        return FigureWithCaption(name, figure, caption, alt_text, data, n, estimates=estimates, notes=remarks)

    def nothing_drawn(self, name: str, reason: str, lead: str, *, left_out: str = "") -> FigureWithCaption:
        """Return the figure that says why there is nothing to draw."""
        with thesis_style():
            figure = message_figure(reason)
        caption, notes = self.compose(f"{lead}: {reason}.", [captions.n_words(self.n), self.missing])
        alt_text = f"{captions.capital(reason)}, so nothing is drawn."
        self._mark(figure)
        return FigureWithCaption(name, figure, caption, alt_text, pd.DataFrame(), self.n, left_out, (), notes)

    def _mark(self, figure: Figure) -> None:
        """Write the warning across a figure, pale and without room of its own: it may be seen without its caption."""
        lines = textwrap.fill(self.warning, int(8 * figure.get_figwidth()))
        figure.text(0.5, 0.5, lines, ha="center", va="center", rotation=25, alpha=0.25, linespacing=2)

    def judge(self, role: object) -> str:
        """Return what figures call a judge."""
        return self.judges.get(str(role), str(role))

    def styles(self, names: Iterable[str]) -> dict[str, ModelStyle]:
        """Return the look of some of the study's models, the one they have in its every figure."""
        return model_styles(names, among=self.models)


ALONE = About()
"""Of a figure that is of no study."""


def about_study(analyses: Analyses, plan: Plan, money: str = "") -> About:
    """Return what every figure of a judged study says besides its numbers; ``money`` ends captions of costs.

    Examples
    --------
    >>> about_study(study.frames(), study.plan).source  # doctest: +SKIP
    'Study planted, dataset version 20261128_rq1_v3'
    """
    runs, study = analyses.runs, plan.study
    judged = captions.judged_runs(runs)
    valid = analyses.judge_means[~analyses.judge_means["failed"].astype(bool)]
    related = int(valid["related"].fillna(False).sum())
    share = f"{related} of {counted(len(valid), 'judgements')} {agreeing(related, 'are')}"
    note = f"{share} by a judge of the judged model's own family." if related else ""
    judges: dict[str, str] = {}
    if not analyses.judgements.empty:
        pairs = analyses.judgements[["judge", "judge_model"]].dropna().astype(str).drop_duplicates()
        several = set(pairs.loc[pairs["judge_model"].duplicated(), "judge_model"])
        for role, name in sorted(pairs.itertuples(index=False, name=None)):
            judges[role] = f"{name} ({role})" if name in several else name
    # Where the study has replies judged that are not whole, no reader may take them for whole ones.
    warnings = (plan.note, captions.defects_note(runs), note)
    zeros = f"{captions.zeros_words(judged)}." if captions.zeros_left_out(judged) else ""
    return About(
        n=captions.counts(judged, study.repeats),
        source=captions.source_words(runs, study.name, plan.dataset.version),
        warning=plan.warning,
        missing=captions.missing_words(runs, judged),
        lengths=captions.lengths_words(judged),
        factor=factor_of(judged),
        notes=captions.join(zeros, plan.manner.sentence()),
        note=captions.join(*warnings),
        repeats=study.repeats,
        # A model that has no run yet keeps its colour: it is of the study file, not of the frame.
        models=tuple(sorted(plan.models)),
        study=study.name,
        scale=analyses.scale,
        money=money,
        judges=judges,
    )


def about_test(runs: pd.DataFrame, plan: Plan) -> About:
    """Return what every figure of a test without judges and key says besides its numbers."""
    source = captions.source_words(runs, plan.study.name, plan.dataset.version)
    return About(
        source,
        plan.warning,
        note=captions.join(plan.note, captions.defects_note(runs)),
        study=plan.study.name,
    )


def about_scores(analyses: Analyses, note: str) -> About:
    """Return what every figure of somebody's scores says besides its numbers."""
    runs = analyses.runs
    judged = captions.judged_runs(runs)
    n = captions.counts(judged)
    if not analyses.answers("reliability"):
        n.pop("judges")
    return About(
        n=n,
        source=f"Scores {analyses.name}",
        missing=captions.missing_words(runs, judged),
        lengths=captions.lengths_words(judged),
        factor=factor_of(judged),
        note=note,
        repeats=n["repeats"],
        models=tuple(sorted(runs["model"].unique())),
        study=analyses.name,
        scale=analyses.scale,
    )


def render(figure: FigureWithCaption, kind: str, *, dpi: int = PNG_DPI, outlines: bool = False) -> bytes:
    """Return the figure as the bytes of a file, the same bytes for the same figure; outlines need no font."""
    alt_text = plain_text(readable(figure.alt_text))  # an SVG that holds a control character is no SVG
    metadata: dict[str, dict[str, str | None]] = {
        "pdf": {"Subject": alt_text, "CreationDate": None, "Creator": None, "Producer": None},
        "png": {"Description": alt_text, "Software": None},
        "svg": {"Description": alt_text, "Date": None, "Creator": None},
    }
    if kind not in metadata:
        raise InputError(f"figure format {kind!r}: {choices(kind, metadata)}")
    buffer = io.BytesIO()
    with thesis_style(), rc_context({"svg.fonttype": "path"} if outlines else {}):
        figure.figure.savefig(buffer, format=kind, dpi=dpi, metadata={"Title": figure.name, **metadata[kind]})
    if kind != "svg":
        return buffer.getvalue()
    # matplotlib writes only the title where a screen reader looks for the alt text, and a font that few have.
    description = f"</title>\n <desc>{escape(alt_text)}</desc>".encode()
    picture = buffer.getvalue().replace(b"</title>", description, 1)
    return picture.replace(b"'STIXGeneral'", b"STIXGeneral, 'STIX Two Text', 'Times New Roman', serif")


def save_figure(figure: FigureWithCaption, folder: Path | str) -> Files:
    """Write pictures of a figure (PDF, SVG, PNG of 300 dpi; the alt text is in them), its data, caption and notes.

    Examples
    --------
    >>> about = about_study(study.frames(), study.plan)  # doctest: +SKIP
    >>> files = save_figure(adaptive_benchmark(study.adaptive(0.4), about), "figures")  # doctest: +SKIP
    >>> sorted(path.suffix for path in files)  # doctest: +SKIP
    ['.csv', '.pdf', '.png', '.svg', '.txt', '.txt']
    """
    contents = {f".{kind}": render(figure, kind) for kind in PICTURES}
    contents |= {".csv": csv_bytes(figure.data), ".txt": _text(figure.caption)}
    return _written(figure, Path(folder), contents)


def save_table(table: Part, folder: Path | str, study: str = "") -> Files:
    r"""Write ``NAME.tex`` (to ``\input`` in the thesis) and ``NAME.csv`` (its numbers, unrounded)."""
    contents = {".tex": table.block.latex(study).encode(), ".csv": csv_bytes(table.data)}
    return _written(table, Path(folder), contents)


def _written(part: Part, folder: Path, contents: Mapping[str, bytes]) -> Files:
    notes = {NOTES: _text(part.notes)} if part.notes else {}
    paths = [
        write_atomically(folder / f"{part.name}{suffix}", content)
        for suffix, content in {**contents, **notes}.items()
    ]
    if not notes:
        (folder / f"{part.name}{NOTES}").unlink(missing_ok=True)
    return Files(paths, [part])


def _text(text: str) -> bytes:
    return f"{plain_text(readable(text))}\n".encode()


def save_all(parts: Iterable[Part], folder: Path | str, study: str = "") -> Files:
    """Write figures into ``figures/`` and tables into ``tables/`` of a folder."""
    files = Files()
    for part in parts:
        place = Path(folder) / part.folder
        files += (
            save_figure(part, place)
            if isinstance(part, FigureWithCaption)
            else save_table(part, place, study)
        )
    return files


def take_away_others(folder: Path, pattern: str, names: Iterable[str]) -> None:
    """Remove what an earlier call wrote under such names and this one did not: it shows what no longer holds."""
    suffixes = (*SUFFIXES, ".tex")
    current = {f"{name}{suffix}" for name in names for suffix in suffixes}
    for path in sorted(folder.glob(f"{pattern}.*")):
        if path.name.endswith(suffixes) and path.name not in current and path.is_file():
            path.unlink()

"""`Scores`: a tidy frame of anybody's scores in hand, with the analyses, figures and bundle of a study."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from toolkit.analyses import QUESTIONS, Analyses
from toolkit.errors import InputError
from toolkit.words import Summary, counted, on_scale

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.report.figure import About

P = ParamSpec("P")
R = TypeVar("R")
_JUDGES: Final = ("reliability", "generalizability", "judge_cards", "bland_altman")
_LENGTHS: Final = ("length", "length_by_model", "length_bias", "mixed_model", "power")
_OWN: Final = ("required_elements", "focus")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_SUFFIXES: Final = frozenset({".csv", ".tsv", ".xlsx", ".parquet", ".jsonl", ".json", ".eval", ".zip"})


def _of_frames(analysis: Callable[Concatenate[Analyses, P], R]) -> Callable[Concatenate[Scores, P], R]:
    """Return the method that makes an analysis of the frames as they are now."""

    @wraps(analysis)
    def of_scores(self: Scores, *args: P.args, **kwargs: P.kwargs) -> R:
        return analysis(self.frames(), *args, **kwargs)

    return of_scores


class Scores:
    """Anybody's scores in hand: look at them, analyse them, draw them, write them up.

    Parameters
    ----------
    frame
        One row a score. Columns are known by usual names (item, model, judge, score, and where there are any dimension,
        repeat, length_bin, cluster, scenario, aud_cost, output_tokens, human, failure); a score that is missing is
        empty.
    name
        Of these scores, in captions and file names.
    scale
        Ends of the scale of the scores; by default the narrowest usual one that holds them all.
    columns
        What columns are, where their names do not say it: ``{"item": "doc", "judge": "who"}``.
    judges
        Columns of a wide table that hold the scores of one judge each; ``judge_1``, ``rater2`` and the like are told.
    output
        Folder of figures, tables and bundle; ``results/NAME`` by default.

    Raises
    ------
    InputError
        When item or score cannot be told, or a cell cannot be used; the line names row and value.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [(f"i{i}", j, 1 + (i + k * (i % 4 == 0)) % 5) for i in range(9) for k, j in enumerate("ab")]
    >>> scores = Scores(pd.DataFrame(rows, columns=["item", "judge", "score"]), name="two")
    >>> scores
    Scores 'two': 9 items, 2 judges, scale 1-5
    >>> round(scores.reliability().icc["composite"][0].estimate, 2)
    0.45
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        *,
        name: str = "scores",
        scale: tuple[float, float] | None = None,
        columns: Mapping[str, str] | None = None,
        judges: Sequence[str] = (),
        output: Path | str | None = None,
    ) -> None:
        from toolkit.scores.columns import checked_rows, long_rows, scale_of, take_columns
        from toolkit.scores.frames import frames_of

        if not _NAME.fullmatch(name):  # it becomes a folder, and a label of LaTeX
            raise InputError(f"scores {name!r}: name them by letters, digits, '.', '-' and '_', 80 at most")
        where = frame.attrs.get("file", name)
        frame, notes = long_rows(frame, judges, where)
        rows, self.taken = take_columns(frame, columns or {}, where)
        checked = checked_rows(rows, where)
        if checked["score"].isna().all():
            raise InputError(f"{where}: no row has a score; there is nothing to analyse")
        self._name = name
        self.scale = scale or checked.attrs.get("scale") or scale_of(checked["score"])
        if self.scale[0] >= self.scale[1]:
            raise InputError(
                f"{name}: scale {self.scale[0]:g} to {self.scale[1]:g} is none; give its low end first"
            )
        self.given_scale = scale is not None
        self.left = [str(name) for name in frame if str(name) not in self.taken.values()]
        self.notes: tuple[str, ...] = (*notes, *checked.attrs.get("notes", ()))
        self.sources: dict[str, str] = {}
        self._output = Path(output) if output is not None else Path("results") / name
        self._runs, self._judgements, self._human, self.dimensions_scored = frames_of(
            checked, name, self.scale, where
        )

    @classmethod
    def load(
        cls,
        *paths: str | Path,
        name: str | None = None,
        scale: tuple[float, float] | None = None,
        columns: Mapping[str, str] | None = None,
        judges: Sequence[str] = (),
        metric: str | None = None,
        output: Path | str | None = None,
    ) -> Scores:
        """Read scores from files: tables, logs of inspect_ai, samples of lm-eval, results of promptfoo, archives.

        Parameters
        ----------
        *paths
            CSV, TSV, Excel, Parquet, JSONL; ``.eval`` and JSON logs of inspect_ai; ``samples_*.jsonl`` of lm-eval; JSON
            of promptfoo; an archive of ``toolkit export``. Several files are put one under the other.
        metric
            Metric of lm-eval or scorer of inspect_ai to take; the first metric and all scorers by default.
        name, scale, columns, judges, output
            As of `Scores`; the name is that of the first file by default.

        Raises
        ------
        InputError
            When a file cannot be read as scores; the line says where and what to do.
        """
        import pandas as pd

        from toolkit.scores.columns import PLACE, long_rows, take_columns
        from toolkit.scores.readers import read_file

        if not paths:
            raise InputError("scores: no file is named; give one or more")
        files = [Path(path) for path in paths]
        named = name or _plain(files[0])
        parts, notes = [], []
        for file in files:
            read = read_file(file, metric)
            scale = scale or read.scale
            rows = read.rows
            if not read.tidy and len(files) > 1:
                rows, wide = long_rows(rows, judges, str(file))
                rows, _ = take_columns(rows, columns or {}, str(file))
                notes += wide
            parts.append((f"{file}, {read.unit}", rows))
            notes += [*([f"{file.name} is {read.kind}"] if read.tidy else []), *read.notes]
        several = len(files) > 1
        together = pd.concat([rows for _, rows in parts], keys=[place for place, _ in parts], names=PLACE)
        together.attrs["file"] = ", ".join(map(str, files))
        renamed = {"item" if ours == "base" else ours: ours for ours in columns or {}} if several else columns
        found = cls(
            together, name=named, scale=scale, columns=renamed, output=output, judges=() if several else judges,
        )  # fmt: skip
        found.notes = tuple(dict.fromkeys([*notes, *found.notes]))
        found.sources = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
        return found

    def __repr__(self) -> str:
        """Say what the scores are of."""
        runs, judgements = self._runs, self._judgements
        told = [counted(runs["base"].nunique(), "items")]
        told += [counted(runs["model"].nunique(), "models")] if "model" in self.taken else []
        told += [counted(judgements["judge"].nunique(), "judges")] if "judge" in self.taken else []
        told += [counted(self._human["rater"].nunique(), "people")] if len(self._human) else []
        return f"Scores {self.name!r}: {', '.join(told)}, scale {self.scale[0]:g}-{self.scale[1]:g}"

    def _repr_html_(self) -> str:
        from toolkit.report.show import lines_html

        return lines_html(self.summary().text.splitlines())

    @property
    def name(self) -> str:
        """Name of the scores."""
        return self._name

    @property
    def output(self) -> Path:
        """Folder of figures and tables."""
        return self._output

    @property
    def note(self) -> str:
        """What every caption says besides its numbers."""
        return ""

    def runs(self, **_: Any) -> pd.DataFrame:
        """Return one row an answer, with the mean of its judges under ``composite``."""
        return self._runs

    def judgements(self, **_: Any) -> pd.DataFrame:
        """Return one row a judgement: an answer and a judge."""
        return self._judgements

    def human(self) -> pd.DataFrame:
        """Return one row a rating by a person, where judges and people are told apart."""
        return self._human

    @cached_property
    def unanswerable(self) -> Mapping[str, str]:
        """Questions that these scores cannot answer, by the name of the analysis, with the reason."""
        runs, taken = self._runs, self.taken
        why: dict[str, str] = {}
        judges = self._judgements["judge"].nunique()
        if judges < 2:
            told = "no column judge" if "judge" not in taken else "one judge"
            why |= dict.fromkeys(_JUDGES, f"{told}: agreement is not estimable")
        if "length_bin" not in taken:
            why |= dict.fromkeys(_LENGTHS, "no column length_bin (S, M, L)")
        if "output_tokens" not in taken:
            why["length_bias"] = "no column output_tokens"
        if "scenario" not in taken:
            why.setdefault("mixed_model", "no column scenario")
        if not self.dimensions_scored:
            why["dimension_profile"] = "no column dimension"
        if "aud_cost" not in taken:
            why["pareto"] = "no column aud_cost (AUD)"
        if runs["model"].nunique() < 2:
            why["compare_models"] = "one model" if "model" in taken else "no column model"
        if not len(self._human):
            why["calibration"] = "no column human that tells people from judges"
        return why | dict.fromkeys(_OWN, "is asked of studies that the toolkit ran")

    def answers(self, *questions: str) -> bool:
        """Return whether these scores can answer questions, by the names of the analyses."""
        return self.frames().answers(*questions)

    def questions(self) -> pd.DataFrame:
        """Return one row a question: its analysis, whether these scores can answer it, and why not."""
        import pandas as pd

        rows = [
            (title, name, name not in self.unanswerable, self.unanswerable.get(name, ""))
            for name, title in QUESTIONS.items()
            if name not in _OWN
        ]
        return pd.DataFrame(rows, columns=["question", "analysis", "answerable", "why_not"])

    def summary(self) -> Summary:
        """Return what each column was taken for, and which questions can be answered and which not, and why."""
        from toolkit.scores.columns import MEANING

        runs = self._runs
        missing = int((~runs["judged"]).sum())
        told_scale = "" if self.given_scale else ", told from the scores"
        told = [repr(self), *(f"  {note}" for note in self.notes)]
        told += ["Columns:", *(f"  {theirs}: {MEANING[ours]}" for ours, theirs in self.taken.items())]
        told += [f"  not used: {', '.join(self.left)}"] if self.left else []
        told += [
            f"  scale {self.scale[0]:g} to {self.scale[1]:g}{told_scale}",
            f"  {missing} of {counted(len(runs), 'answers')} without a score: missing, not zero"
            + (", also where one judge alone scored" if self._judgements["judge"].nunique() > 1 else ""),
        ]
        asked = self.questions()
        told += [
            "Can be answered:",
            *(f"  {row.question}" for row in asked[asked["answerable"]].itertuples()),
        ]
        told += [
            "Cannot be answered:",
            *(f"  {row.question}: {row.why_not}" for row in asked[~asked["answerable"]].itertuples()),
        ]
        fields = {
            "name": self.name, "columns": self.taken, "not_used": self.left, "scale": list(self.scale),
            "answers": len(runs), "missing": missing, "notes": list(self.notes),
            "questions": asked.to_dict("records"),
        }  # fmt: skip
        return Summary(fields, "\n".join(told))

    def frames(self) -> Analyses:
        """Return every analysis of the frames as they are now: each analysis is made once."""
        return Analyses(
            self.runs,
            self.judgements,
            self.human,
            name=self.name,
            score="composite",  # of others' scores there is one composite: zeros count in it
            dimensions=self.dimensions_scored,
            scale=self.scale,
            unanswerable=self.unanswerable,
        )

    reliability = _of_frames(Analyses.reliability)
    required_elements = _of_frames(Analyses.required_elements)
    generalizability = _of_frames(Analyses.generalizability)
    length = _of_frames(Analyses.length)
    length_by_model = _of_frames(Analyses.length_by_model)
    compare_models = _of_frames(Analyses.compare_models)
    focus = _of_frames(Analyses.focus)
    dimension_profile = _of_frames(Analyses.dimension_profile)
    length_bias = _of_frames(Analyses.length_bias)
    mixed_model = _of_frames(Analyses.mixed_model)
    pareto = _of_frames(Analyses.pareto)
    missing = _of_frames(Analyses.missing)
    ceiling = _of_frames(Analyses.ceiling)
    calibration = _of_frames(Analyses.calibration)
    power = _of_frames(Analyses.power)
    analyses = _of_frames(Analyses.analyses)

    def _about(self, of: Analyses) -> About:
        """Return what every figure says besides its numbers."""
        from toolkit.report.figure import about_scores

        return about_scores(of, self.note)

    def figures(
        self, folder: Path | str | None = None, only: Collection[str] = (), *, progress: bool = False
    ) -> list[Path]:
        """Write every figure and table that the scores can give, show the figures, and return the paths.

        Parameters
        ----------
        folder
            Gets ``figures/`` and ``tables/``; the output folder by default.
        only
            Names of figures, e.g. ``["icc_forest"]``: these alone are calculated and written.
        progress
            Whether to show progress on standard error.
        """
        from toolkit.report.show import Files

        place = Path(folder) if folder is not None else self.output
        return Files(self._draw(self.frames(), place, only, progress=progress))

    def _draw(
        self, of: Analyses, folder: Path, only: Collection[str] = (), *, progress: bool = False
    ) -> list[Path]:
        from toolkit.report.registry import write_figures

        return write_figures(of.read(), self._about(of), folder, only, progress=progress)

    def statistics(self, folder: Path | str | None = None) -> list[Path]:
        """Write every statistic as a table and as a sentence, and return the paths."""
        return self._write_statistics(self.frames(), Path(folder) if folder is not None else self.output)

    def _write_statistics(self, of: Analyses, folder: Path) -> list[Path]:
        from toolkit.report.registry import write_statistics

        with on_scale(of.scale):
            return write_statistics(of.read().analyses(), self._about(of), folder)

    def bundle(
        self, folder: Path | str | None = None, format: str = "latex", *, progress: bool = False
    ) -> list[Path]:
        """Write the thesis bundle: figures, tables, methods, references and a document that compiles as it is.

        Parameters
        ----------
        folder
            Where; ``bundle/`` in the output folder by default.
        format
            ``docx`` or ``md`` write a document for Word, or in Markdown, besides: needs ``toolkit[word]``.
        progress
            Whether to show progress on standard error.

        Returns
        -------
        list of Path
            Every file of the bundle, ``manifest.json`` last.

        Raises
        ------
        InputError
            When no answer has a score, or the folder holds the bundle of something else.
        """
        from toolkit.report.thesis.bundle import bundle_place, write_bundle
        from toolkit.report.thesis.document import check_format
        from toolkit.report.thesis.methods import scores_section

        check_format(format)
        of, manifest = self.frames(), self.manifest()
        status = {"study": self.name, "done": int(of.runs["judged"].sum())}
        place = bundle_place(Path(folder) if folder is not None else self.output / "bundle", status)
        drawn = [*self._draw(of, place, progress=progress), *self._write_statistics(of, place)]
        return write_bundle(place, drawn, scores_section(of, manifest, drawn), manifest, format=format)

    def manifest(self, **parameters: Any) -> dict[str, Any]:
        """Return what was used: files and hashes, what columns were taken for, scale, parameters, and versions."""
        from toolkit.report.manifest import scores_manifest

        settings = {"columns": self.taken, "scale": list(self.scale), "notes": list(self.notes)}
        return scores_manifest(self.name, self.sources, settings, parameters)


def column_names(given: Iterable[str]) -> dict[str, str]:
    """Return what ``OURS=THEIRS`` of a command line says."""
    pairs = [one.partition("=") for one in given]
    for (ours, sign, theirs), one in zip(pairs, given, strict=True):
        if not (ours and sign and theirs):
            raise InputError(f"column {one!r}: write it as OURS=THEIRS, e.g. item=doc")
    return {ours: theirs for ours, _, theirs in pairs}


def _plain(path: Path) -> str:
    """Return the name of a file as one of scores, which is a file name and a label of LaTeX too."""
    stem = path.name
    while Path(stem).suffix.lower() in _SUFFIXES:
        stem = Path(stem).stem
    return (
        "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in stem).strip("_")[:80]
        or "scores"
    )

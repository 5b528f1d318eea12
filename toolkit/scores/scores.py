"""`Scores`: anybody's scores as a tidy frame, with the analyses, figures and bundle of a study."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from toolkit.analyses import BY_JUDGES, BY_KEY, BY_LENGTH, PAIRWISE
from toolkit.analyses.answers import Analyses
from toolkit.errors import InputError
from toolkit.files.digests import sha256_of
from toolkit.report.figure import About, about_scores
from toolkit.report.manifest import scores_manifest
from toolkit.report.show import lines_html
from toolkit.reporting import Reported
from toolkit.scores import columns as cells
from toolkit.scores.columns import MEANING, TEXTS, Read, parse_values
from toolkit.scores.frames import make_frames
from toolkit.scores.readers import read_files
from toolkit.words import Summary, counted, one_line, template

_STUDIES_ONLY = (*TEXTS["questions"]["studies_only"], *BY_KEY, *PAIRWISE)
_NEEDED: Mapping[str, Sequence[str]] = {"level": BY_LENGTH, **TEXTS["questions"]["needed"]}
"""Questions that a column answers."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_SUFFIXES = re.compile(r"(\.(csv|tsv|xlsx|parquet|jsonl|json|eval))+$", re.IGNORECASE)


class Scores(Reported):
    """Anybody's scores: look at them, analyse them, draw them, write them up.

    Parameters
    ----------
    frame
        One row a score. Columns are known by usual names (item, model, judge, score, and where there are any dimension,
        repeat, level, cluster, scenario, aud_cost, output_tokens, human, failure); a score that is missing is
        empty. `load` hands over what it read of files.
    name
        Of these scores, in captions and file names.
    scale
        Ends of the scale of the scores; by default the narrowest usual one that holds them all.
    columns
        What columns are, where their names do not say it: ``{"item": "doc", "judge": "who"}``; an empty
        text leaves a column out that its name would take: ``{"level": ""}``.
    judges
        Columns of a wide table that hold the scores of one judge each; ``judge_1``, ``rater2`` and the like are told.
    values
        What texts and codes are worth: ``{"A": 4, "B": 3, -1: None}``; None where a score is missing.
    metric
        Dimension or judge to take alone, by name.
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
        frame: pd.DataFrame | list[Read],
        *,
        name: str = "scores",
        scale: tuple[float, float] | None = None,
        columns: Mapping[str, str] | None = None,
        judges: Sequence[str] = (),
        values: Mapping[Any, Any] | None = None,
        metric: str | None = None,
        output: Path | str | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):  # it becomes a folder, and a label of LaTeX
            raise InputError(f"scores {name!r}: name them by letters, digits, '.', '-' and '_', 80 at most")
        tables = frame
        if not isinstance(tables, list):
            tables = [
                cells.Read(tables.set_axis(range(1, len(tables) + 1)), "a table", tidy=False, source=name)
            ]
        self.sources: dict[str, str] = {}
        source = ", ".join(read.source for read in tables)
        rows, self.taken, self.left, notes = cells.tidy(tables, columns or {}, judges, metric)
        checked = cells.checked_rows(rows, source, cells.parse_values(values or {}))
        notes += checked.attrs["notes"]
        if scale is None:
            checked["score"], codes = cells.without_codes(checked["score"], rows)
            notes += codes
        if checked["score"].isna().all():
            raise InputError(f"{source}: no row has a score; there is nothing to analyse")
        if scale is None:
            cells.check_ranges(checked, source)
        self.name, self.given_scale = name, scale is not None
        self.scale = scale or cells.usual_scale(checked["score"])
        cells.check_scale(checked["score"], self.scale, rows, source)
        self.output = Path("results") / name if output is None else Path(output)
        self.notes = tuple(dict.fromkeys(notes))
        *frames, self.dimensions_scored = make_frames(checked, name, source)
        self._runs, self._judgements, self._human = frames
        for table in frames:
            table.attrs["scale"] = self.scale

    @classmethod
    def load(
        cls,
        *paths: str | Path | Sequence[str | Path],
        name: str | None = None,
        scale: tuple[float, float] | None = None,
        columns: Mapping[str, str] | None = None,
        judges: Sequence[str] = (),
        values: Mapping[Any, Any] | None = None,
        metric: str | None = None,
        output: Path | str | None = None,
    ) -> "Scores":
        """Read scores from files: tables, logs of inspect_ai, lm-eval and promptfoo.

        Parameters
        ----------
        *paths
            CSV, TSV, Excel, Parquet, JSONL; ``.eval`` and JSON logs of inspect_ai; ``samples_*.jsonl`` of lm-eval; JSON
            of promptfoo. Several files, one after another or as a list, are put one under the other.
        metric
            Metric of lm-eval or promptfoo, scorer of inspect_ai or key of its score, dimension or judge of a table to
            take; the first metric and all others by default.
        name, scale, columns, judges, values, output
            As of `Scores`; the name is that of the first file by default.

        Raises
        ------
        InputError
            When a file cannot be read as scores; the line says where and what to do.
        """
        listed = [[item] if isinstance(item, str | Path) else item for item in paths]
        files = [Path(path) for group in listed for path in group]
        if not files:
            raise InputError("scores: no file is named; give one or more")
        tables = read_files(files, metric, parse_values(values or {}))
        scores = cls(
            tables, name=name or _plain(files[0]), scale=scale, columns=columns, judges=judges, values=values,
            metric=metric, output=output,
        )  # fmt: skip
        scores.sources = {file.name: sha256_of(file) for file in files}
        return scores

    def __repr__(self) -> str:
        """Say what the scores are of."""
        runs, judgements = self._runs, self._judgements
        counts = [counted(runs["base"].nunique(), "items")]
        counts += [counted(runs["model"].nunique(), "models")] if "model" in self.taken else []
        counts += [counted(judgements["judge"].nunique(), "judges")] if "judge" in self.taken else []
        counts += [counted(self._human["rater"].nunique(), "people")] if len(self._human) else []
        return f"Scores {self.name!r}: {', '.join(counts)}, scale {self.scale[0]:g}-{self.scale[1]:g}"

    def _repr_html_(self) -> str:
        return lines_html(self.summary().text.splitlines())

    name, output, note = "", Path(), ""
    """In captions and file names; folder of figures and tables; what every caption says besides its numbers."""
    _inapplicable = _STUDIES_ONLY

    def runs(self, **_: Any) -> pd.DataFrame:
        """Return one row an answer, with the mean of its judges under ``composite``."""
        return self._runs.copy()

    def judgements(self, **_: Any) -> pd.DataFrame:
        """Return one row a judgement: an answer and a judge."""
        return self._judgements.copy()

    def human(self) -> pd.DataFrame:
        """Return one row a rating by a person, where judges and people are told apart."""
        return self._human.copy()

    @cached_property
    def unanswerable(self) -> Mapping[str, str]:
        """Questions that these scores cannot answer, by the name of the analysis, with the reason."""
        runs, columns = self._runs, self.taken
        reasons: dict[str, str] = {}
        judges = self._judgements["judge"].nunique()
        if judges < 2:
            lack = "no column judge" if "judge" not in columns else "one judge"
            reasons |= dict.fromkeys(BY_JUDGES, f"{lack}: agreement is not estimable")
        elif (runs["judge_count"] < 2).all():
            reasons |= dict.fromkeys(BY_JUDGES, "no answer has two judges: agreement is not estimable")
        for column, questions in _NEEDED.items():
            if column not in columns:
                reasons |= dict.fromkeys(
                    questions, f"no column {TEXTS['questions']['called'].get(column, column)}"
                )
        if runs["model"].nunique() < 2:
            reasons["compare_models"] = "one model" if "model" in columns else "no column model"
        if not len(self._human):
            reasons["calibration"] = "no column human that tells people from judges"
        return reasons | dict.fromkeys(_STUDIES_ONLY, "is asked of studies that the toolkit ran")

    def summary(self) -> Summary:
        """Return what each column was taken for, and which questions can be answered and which not, and why."""
        runs = self._runs
        fields = {
            "name": self.name, "columns": self.taken, "not_used": self.left, "scale": list(self.scale),
            "answers": len(runs), "missing": int((~runs["judged"]).sum()), "notes": list(self.notes),
            "questions": self.questions().to_dict("records"),
        }  # fmt: skip
        text = template("scores", "taken.jinja").render(
            fields,
            scores=self,
            meaning=MEANING,
            given_scale=self.given_scale,
            several_judges=self._judgements["judge"].nunique() > 1,
        )
        return Summary(fields, text)

    def frames(self) -> Analyses:
        """Return every analysis of the scores; each is made once."""
        return self._analyses

    @cached_property
    def _analyses(self) -> Analyses:
        return Analyses(
            self._runs,
            self._judgements,
            self._human,
            name=self.name,
            score="composite",  # of others' scores there is one composite: zeros count in it
            dimensions=self.dimensions_scored,
            scale=self.scale,
            unanswerable=self.unanswerable,
        )

    def _figure_context(self, frames: Analyses) -> About:
        return about_scores(frames, self.note)

    def _text(
        self, frames: Analyses, manifest: dict[str, Any], evidence: Any, **_: Any
    ) -> tuple[Any, tuple[()], dict[str, bytes]]:
        from toolkit.thesis.methods import scores_section  # a room that may not be there

        return scores_section(frames, manifest, evidence), (), {}

    def manifest(self, **parameters: Any) -> dict[str, Any]:
        """Return what was used: files and hashes, what columns were taken for, scale, parameters, and versions."""
        settings = {"columns": self.taken, "scale": list(self.scale), "notes": list(self.notes)}
        return scores_manifest(self.name, self.sources, settings, parameters)


def parse_pairs(texts: Iterable[str], option: str, example: str) -> dict[str, str]:
    """Return what ``NAME=VALUE`` of a command line says, an empty value too."""
    pairs = [text.rpartition("=") if option == "value" else text.partition("=") for text in texts]
    for name, sign, value in pairs:
        if not (name and sign):
            raise InputError(f"{option} {one_line(name or value, 80)!r}: write it as {example}")
    return {name: value for name, _, value in pairs}


def _plain(path: Path) -> str:
    """Return the name of a file as one of scores, which is a file name and a label of LaTeX too."""
    stem = _SUFFIXES.sub("", path.name)
    return re.sub("[^A-Za-z0-9]", "_", stem).strip("_")[:80] or "scores"

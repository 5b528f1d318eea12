"""`Study`: a study file with its runs. Every method is one call of a function that stands elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, cast

import pandas as pd

from toolkit.analyses import BY_KEY, LATER, NO_SCORES, ON_ANSWERS, ON_VOTES, PAIRWISE, QUESTIONS, UNVARIED
from toolkit.analyses.answers import Analyses
from toolkit.analyses.dry_run import lines_without_result, scripted_plan
from toolkit.analyses.frames import Results, without_arms
from toolkit.errors import InputError, Stopped, ToolkitError
from toolkit.files.tables import csv_bytes
from toolkit.judges.elements import DIGEST
from toolkit.judges.rubric import SEED_RUBRIC
from toolkit.pipeline import run_plan
from toolkit.plan import Plan, make_plan
from toolkit.prompt_test import MeasuredTestItem, names_code, record_test, recorded_test
from toolkit.reporting import Reported, needs_room
from toolkit.runs.decisions import decisions_of
from toolkit.runs.estimate import estimate_frame
from toolkit.runs.execution import run_anywhere
from toolkit.runs.instruments import pairs_frame
from toolkit.runs.judge_gate import with_gate
from toolkit.runs.measure import Annotated, Outcome, annotated_items, measured_items, results_of
from toolkit.runs.status import study_status
from toolkit.stats.comparisons.models import compare_models
from toolkit.stats.inference.run_table import WHOLE
from toolkit.stats.one_shot.methods import MethodScore, methods_frame, score_methods
from toolkit.stats.result import Estimate, Result, estimates_frame
from toolkit.store import frames as store_frames
from toolkit.store.connection import Store, open_store, temporary_store
from toolkit.store.documents import Call
from toolkit.store.drifts import drift_frame
from toolkit.store.filters import judgements_otherwise, planned_calls, planned_judgements, planned_runs
from toolkit.store.frame_files import as_kind, describe, typed, types_of
from toolkit.store.records import reply_text
from toolkit.study_file import StudyFile, load_study_file
from toolkit.words import Summary, choices, counted, joined, one_line

if TYPE_CHECKING:
    from toolkit.keyed.keyed_test import KeyedTest
    from toolkit.report.blocks import Part
    from toolkit.report.figure import About
    from toolkit.report.show import Files
    from toolkit.report.widget import AppWidget
    from toolkit.reporting import Text
    from toolkit.thesis.findings import Statement
    from toolkit.thesis.methods import Evidence
    from toolkit.viewer.app import Viewer


class Study(Reported):
    """A study in hand: estimate it, run it, look at it, analyse it.

    Parameters
    ----------
    file
        The checked study file.
    path
        Where it was read from.

    Examples
    --------
    ``study = Study.load("templates/demo.toml"); study.run(); study.runs()``, or
    ``with Study.load("templates/demo.toml") as study: ...``, which leaves no connection open.
    """

    def __init__(self, file: StudyFile, path: Path) -> None:
        self.file = file
        self.path = path
        self._results = Results()

    @classmethod
    def load(cls, path: str | Path, *, looks: bool = False) -> Study:
        """Read and check a study file; raises ``StudyError`` in one line when something is wrong with it.

        Parameters
        ----------
        path
            The study file.
        looks
            Whether it is only looked at: no test or scorer of its own is run, the plan is that of the last run.
        """
        study = cls(*load_study_file(path, looks=looks))
        if looks and names_code(study.file.test, study.file.options):
            study.plan = make_plan(study.file, study.path.parent, recorded_test(study.file.output or Path()))
        return study

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store if it is open; the next question opens it again, and one that nobody holds closes itself."""
        if store := self.__dict__.pop("store", None):
            store.close()
        self._results.clear()

    def __repr__(self) -> str:
        """Say what the study asks."""
        models = ", ".join(entry.label for entry in self.file.under_test)
        verb = "judged" if self.plan.scored else "compared in pairs"
        judged = f", {verb} by {counted(len(self.plan.judges), 'judges')}" if self.plan.test.judged else ""
        return f"Study {self.name!r}: {len(self.plan.runs)} runs of {models}{judged}"

    def _repr_html_(self) -> str:
        from toolkit.report.show import study_html

        return study_html(repr(self), self.status(), judged=self.plan.scored)

    def __dir__(self) -> list[str]:
        """List what a notebook calls, without what Python adds."""
        return [name for name in super().__dir__() if not name.startswith("_")]

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.file.name

    @property
    def note(self) -> str:
        """What every caption of this study must say besides its numbers."""
        return f"{self._reported.warning} {self._reported.note}".strip()

    @property
    def output(self) -> Path:
        """Folder of figures, tables and manifests."""
        return self.plan.output

    @cached_property
    def plan(self) -> Plan:
        """Every run of the study, before anything is sent."""
        return make_plan(self.file, self.path.parent)

    @cached_property
    def store(self) -> Store:
        """The open store."""
        return open_store(self.plan.store_folder)

    @property
    def _reported(self) -> Plan:
        """The plan, with a note where its judges do not pass their gate."""
        return with_gate(self.plan, self.store) if self.file.judges.gate else self.plan

    def estimate(self) -> pd.DataFrame:
        """Return what is still to be asked and what it will cost, per model and judge, in AUD.

        Before anything is paid a few items are run to the end by scripts, in a store of their own:
        ``attrs["without_result"]`` has a line for each reason why something has no result there.
        """
        frame = estimate_frame(self.plan, self.store)
        is_new = frame["calls"].any() and not frame["paid_calls"].any()
        frame.attrs["without_result"] = [*self._unplanted(), *self._without_result()] if is_new else []
        return frame

    def _without_result(self) -> list[str]:
        try:
            with temporary_store() as store:
                dry = Study(self.file, self.path)
                dry.plan, dry.store = scripted_plan(self.plan, store.folder), store
                results, skipped = (
                    dry.execute(progress=False).results,
                    {*LATER, "conditions", *dry._without_judges},
                )
                if not dry._is_scored:  # what a test makes of replies that it cannot read is its own affair
                    return []
                questions = dry.questions()
                tried = questions[~questions["analysis"].isin(skipped) & (questions["why_not"] != UNVARIED)]
                return lines_without_result(dry.plan, results, dry.frames(), tried.itertuples(index=False))
        except ToolkitError as error:
            return [f"a few items do not run to the end: {error}"]

    def _unplanted(self) -> list[str]:
        planted = any(judge.planted for judge in self.file.judges.by_role().values())
        names = [entry.label for entry in self.file.under_test if not entry.planted]
        sentence = (
            f"planted judges score planted replies alone, and so none of {joined(names)}; ask them in a study "
            "of their own, with judges that read"
        )
        return [sentence] if planted and names else []

    def run(self, *, progress: bool = True, limit: int | None = None, replay: bool = False) -> dict[str, Any]:
        """Ask and judge what is missing, and return the status; a finished study makes no call.

        Parameters
        ----------
        progress
            Whether to show progress.
        limit
            Ask at most this many of the planned runs.
        replay
            Make every run and judgement again from the ledger, with no network.
        """
        return self.execute(progress=progress, limit=limit, replay=replay).to_dict()

    def execute(self, **options: Any) -> Outcome:
        """Do what `run` does, asked in the same way, and return an object; ``only_judge=True`` asks judges alone."""
        run: Callable[..., Outcome] = run_plan
        if names_code(self.file.test, self.file.options):
            record_test(self.plan.test, self.output)
        if self.file.selection == "adaptive":
            with needs_room():
                from toolkit.adaptive.rounds import run_adaptively as run
        self._results.clear()  # frames of many runs are large
        try:
            begun = monotonic()
            outcome = run(self.plan, self.store, **options)
            return replace(outcome, seconds=monotonic() - begun)
        except KeyboardInterrupt:  # also before the first request, and after the last
            raise Stopped from None

    def status(self) -> dict[str, Any]:
        """Return how far the study is: runs and judgements done, failed and missing, and AUD spent."""
        return study_status(self.plan, self.store)

    def runs(self, *, replies: bool = False, **filters: Any) -> pd.DataFrame:
        """Return one row a run, of all or of those that filters name; ``study.dictionary("runs")`` has its columns.

        Parameters
        ----------
        replies
            Whether to add a column ``reply`` with the text, which is a model's: show it as text only.
        **filters
            A value or a list of values for model, scenario, category, base, level, prompt_id, repeat or status;
            True or False for judged. They are part of what the store is asked, so that no other runs are read; only
            with ``judged=False`` the judged ones are read too, and left out here.

        Raises
        ------
        InputError
            When a filter or a value of it is unknown; the line names those that are not.
        """
        runs = planned_runs(self.plan, self.store, **filters)
        return store_frames.with_replies(self.store, runs) if replies else runs

    def judgements(self, **filters: Any) -> pd.DataFrame:
        """Return one row a judgement of the ensemble and rubric of this study.

        Parameters
        ----------
        **filters
            As in `runs`, and a value or a list of values for judge (its role) or judge_model; True or False for failed.
        """
        return planned_judgements(self.plan, self.store, **filters)

    def pairs(self) -> pd.DataFrame:
        """Return one row a vote of a judge on two replies; ``study.dictionary("pairs")`` has its columns.

        Returns
        -------
        pandas.DataFrame
            The votes on the replies of now under the judges and rubric of now, two orders of each pair; a judge that
            gave no vote that can be read has a row with its reason. Empty without `[judges] mode = "pairs"` or "both".
        """
        return pairs_frame(self.plan, self.store)

    def joined(self, **filters: Any) -> pd.DataFrame:
        """Return runs and judgements in one frame: one row a judgement, and one of a run that nobody judged.

        Columns of both that say other things keep their name for the judgement and are ``run_...`` for the run, e.g.
        composite and run_composite. What a run cost stands at each of its judgements. Filters as in `runs`.
        """
        runs = self.runs(**filters)
        judgements = self.judgements()
        return store_frames.joined_frame(runs, judgements[judgements["run_id"].isin(runs["run_id"])])

    def dimensions(self, **filters: Any) -> pd.DataFrame:
        """Return one row per judgement and dimension; filters as in `judgements`."""
        return store_frames.dimensions_frame(self.judgements(**filters), self.plan.rubric.scheme)

    def calls(self, **filters: Any) -> pd.DataFrame:
        """Return one row a call that this study paid for or rests on: runs, judges, retries, repairs, sentences.

        Parameters
        ----------
        **filters
            A value or a list of values for purpose (run, judge, write, drift or hallucination), state, model or role.
        """
        return planned_calls(self.plan, self.store, **filters)

    def dictionary(self, kind: str | None = None) -> pd.DataFrame:
        """Return what every column of a frame is: dtype, unit, meaning, when missing; of all frames by default."""
        return describe(kind, self.plan.rubric.scheme)

    def human(self) -> pd.DataFrame:
        """Return one row a rating by a person: the newest of each rater and run, under the rubric of this study."""
        rubric = self.plan.rubric
        return store_frames.human_frame(self.store, self.runs(), rubric.digest, rubric.scheme)

    def deviations(self) -> pd.DataFrame:
        """Return one row for each thing changed after the first reply: at, what, before, after.

        ``at`` is when the study was first started with the change, missing where it stands in the study file only. A
        change that was taken back has two rows. Runs that do not count, with the rule that leaves them out, and
        replies that another study paid for have "planned" for ``before``. ``attrs["decided"]`` is the time of the
        decision, None where the study was not started.
        """
        decisions = decisions_of(self.plan, self.store)
        decisions.changes.attrs["decided"] = decisions.at
        return decisions.changes

    def elements(self) -> pd.DataFrame:
        """Return one row a run and judge that looked for the required elements (`toolkit judges elements`)."""
        return store_frames.elements_frame(self.store, self.runs(), DIGEST)

    @needs_room()
    def hallucination_verdicts(self) -> pd.DataFrame:
        """Return one row a reply, judge and prompt of `toolkit judges hallucination`, read from the ledger.

        Returns
        -------
        pandas.DataFrame
            Question, truth, inference, metric (share of yes among the votes that can be read), decision, explanation
            and, where there is no decision, the reason; empty where no judge was asked.
        """
        rows: Iterable[Any] = ()
        if self.store.has(Call, {"purpose": "hallucination"}):
            from toolkit.hallucination.comparison import reply_verdicts

            rows = reply_verdicts(self.plan, self.store, self.runs(replies=True))
        return typed(rows, types_of("hallucination_verdicts"))

    def judged_otherwise(self) -> pd.DataFrame:
        """Return one row a judgement of the same runs on the other side of focus sentences, or of reference answers."""
        return judgements_otherwise(self.plan, self.store, self.runs())

    def frames(self) -> Analyses:
        """Return every analysis of the frames as they are now; what was calculated from equal frames is kept."""
        settings, plan, store, rubric = self.file.analysis, self.plan, self.store, self.plan.rubric
        runs = cache(self.runs)

        def replies() -> pd.DataFrame:  # the length of a reply is that of its text
            tokens = runs()["output_tokens"] - runs()["reasoning_tokens"].fillna(0)
            # Of the seed's rubric alone there is a composite that leaves zeros out.
            return runs().assign(output_tokens=tokens, zeros=runs()["zeros"] * (rubric.name == SEED_RUBRIC))

        test: Any = self.plan.test
        scored: dict[str, Any] = {
            "runs": replies, "score": settings.score, "dimensions": rubric.titles, "scale": rubric.scale,
        }  # fmt: skip
        if test.keyed:
            with needs_room():
                from toolkit.keyed.keyed_test import scored_runs

            answers = cache(self.keyed_answers)
            scored = {
                "runs": lambda: scored_runs(replies(), answers()), "keyed_answers": answers,
                "score": test.scorer.measures[0][0], "scale": (0.0, 1.0),
            }  # fmt: skip
        if test.name == "one_shot":
            scored["methods"] = lambda: methods_frame(self._scored()).assign(
                base=lambda rows: rows["question"].map(test.bases)
            )
            scored |= {"score": "raw", "scale": (min(test.weights), max(test.weights))}
        return Analyses(
            **scored,
            judgements=lambda: planned_judgements(plan, store, runs()),
            human=lambda: store_frames.human_frame(store, runs(), rubric.digest, rubric.scheme),
            judged_otherwise=lambda: judgements_otherwise(plan, store, runs()),
            elements=lambda: store_frames.elements_frame(store, runs(), DIGEST),
            hallucination_verdicts=self.hallucination_verdicts,
            pairs=self.pairs,
            drift=lambda: drift_frame(store, self.name, runs(), rubric.names),
            name=self.name,
            factor=self.file.factor.name if self.file.factor else "",
            crossed=plan.crossed.name if plan.crossed else "",
            seed=self.file.seed,
            margin=settings.equivalence_margin,
            primary=settings.primary,
            ceiling_share=settings.ceiling_share,
            length_normalization=self.file.bias_controls.length_normalization,
            weighted=plan.weighted,
            unanswerable=self._without_judges,
            results=self._results,
        )

    @property
    def _is_scored(self) -> bool:
        """Whether runs have a score, from judges or from a key."""
        return self.plan.test.judged or self.plan.test.keyed

    @property
    def _inapplicable(self) -> Collection[str]:
        """Questions of other tests, and those about pairs where no replies are compared."""
        if self.plan.test.keyed:
            return QUESTIONS.keys() - ON_ANSWERS
        length = ["length"] if self.file.factor else []
        return [*BY_KEY, *length, *(() if self.plan.compared else PAIRWISE)]

    @property
    def _without_judges(self) -> dict[str, str]:
        """What the test of the study has no scores for."""
        test: Any = self.plan.test
        if test.judged:
            return {}
        reason = (
            f"test {test.name} has no judges; study.results() and study.compare_models() have its numbers"
        )
        if not test.keyed:
            answered = {"compare_models", "hallucination", *["conditions"] * (test.name == "one_shot")}
            return dict.fromkeys(QUESTIONS.keys() - answered, reason)
        reasons = dict.fromkeys(QUESTIONS.keys() - ON_ANSWERS, reason)
        if not test.has_options:
            reasons["position_effect"] = "questions have no options"
        if test.scorer.name != "label":
            reasons["label_scores"] = "answers are no labels"
        if not test.scorer.needs_key:
            reasons["accuracy"] = "the scorer needs no key: study.results() has its scores"
        return reasons

    @property
    def unanswerable(self) -> dict[str, str]:
        """Questions that this study cannot answer as it stands, by the name of the analysis, with the reason."""
        frames = self.frames()
        reasons = frames.lacking | self._without_judges
        if self._is_scored and not frames.is_judged:
            reason = NO_SCORES if self.plan.compared and not self.plan.scored else "no run has a score"
            reasons |= dict.fromkeys(QUESTIONS.keys() - ON_VOTES, reason)
        return reasons

    def compare_models(self, score: str | None = None) -> Result:
        """Return the models compared in pairs within prompts; in a test without judges, within its test items.

        Parameters
        ----------
        score
            Column to compare, `[analysis] score` by default; in a test without judges one of its measurements, the
            first by default.

        Raises
        ------
        InputError
            When a test without judges has no such measurement.
        """
        if self._is_scored:
            return super().compare_models(score)
        measured = self.measurements()
        names = list(dict.fromkeys(measured["name"]))
        if not names or score not in (None, *names):
            raise InputError(
                f"study {self.name}: there is no measurement {score or ''}; it has {', '.join(names)}"
            )
        rows = measured[measured["name"] == (score or names[0])]
        runs = rows[["model", "value"]].assign(base=rows["test_item"], level=WHOLE)
        runs["cluster"] = runs["base"].map(self.plan.clusters)
        return compare_models(runs, "value", rate=bool(rows["value"].dropna().isin((0, 1)).all()))

    @needs_room()
    def sequential(self, target_width: float | None = None) -> Result:
        """Return what the bases asked say of the models on the whole dataset, with intervals that allow stopping.

        Parameters
        ----------
        target_width
            Of the widest interval of a difference of models, in score points; that of the study file by default.
        """
        from toolkit.adaptive.rounds import bank_of
        from toolkit.stats.adaptive.sequential import sequential_comparison

        return sequential_comparison(
            without_arms(self.runs()),
            bank_of(self.plan),
            target_width=target_width or self.file.target_width,
            score=self.file.analysis.score,
            unit="score points",
        )

    @needs_room()
    def adaptive(self, target_width: float, *, seeds: int = 200) -> Result:
        """Return what adaptive and static benchmarking would have cost and found here: RQ2, on a finished study.

        Parameters
        ----------
        target_width
            Of the widest interval of a difference of two models, in score points.
        seeds
            How often each design is tried.

        Returns
        -------
        Result
            See `toolkit.stats.benchmark_designs`; the baseline is common items drawn at random.

        Raises
        ------
        InputError
            When a base has no score of some model: finish the study first.
        """
        from toolkit.adaptive.rounds import benchmark

        return benchmark(self.plan, without_arms(self.runs()), target_width, seeds)

    @needs_room()
    def taxonomy(self, asked: Sequence[str] | int | None = None) -> Result:
        """Return what the bases asked cover of the dataset, and how far their distribution is from its own.

        Parameters
        ----------
        asked
            Other bases in the order asked, or a number: as many as an adaptive study would have asked first.
        """
        from toolkit.adaptive.rounds import adaptive_order, taxonomy

        runs = without_arms(self.runs())
        bases = adaptive_order(self.plan, runs, asked) if isinstance(asked, int) else asked
        return taxonomy(self.plan, runs, bases)

    def ending(self, outcome: Outcome) -> Summary:
        """Return the end of a run: warning, means by level and model, the first three findings, money and time."""
        means, findings, warning = list[Estimate](), list[str](), self._reported.warning
        with suppress(ToolkitError):
            means += self.frames().conditions().per_level
        with suppress(ToolkitError):
            means += [mean for _, mean in self.frames().compare_models().models if self._is_scored]
        # What a part of the runs would say may change with the next ones.
        with suppress(ToolkitError):
            if (
                outcome.succeeded + outcome.failed == outcome.planned + outcome.not_begun
                and not outcome.budget
            ):
                findings += self.findings(most=3 + len(self._first)).sentences()[len(self._first) :]
        return outcome.summary(means, findings, warning, self._report_line())

    @property
    def _first(self) -> list[str]:
        """What stands above all findings: that no model answered, and the note of the study file."""
        return [*filter(None, (self._reported.warning, self.file.note))]

    def _report_line(self) -> str:
        """Write the report at the end of a run and return its path, or why there is none: no run fails for it."""
        try:
            frames = self.frames()
            return str(self.report()) if frames.has_results or not self._is_scored else ""
        except Exception as error:
            return f"not written: {one_line(str(error), 200)}"

    def _statements(
        self, frames: Analyses, only: Collection[str] = (), benchmark: Result | None = None
    ) -> Iterator[Statement]:
        from toolkit.runs.provenance import asked_models
        from toolkit.thesis.findings import (
            Statement,
            adaptive_findings,
            measured_findings,
            one_shot_findings,
            spent_findings,
        )

        self._need_results(frames)
        for text in self._first:
            yield Statement(text.removesuffix("."), question="Read first")
        if self._is_scored:
            adaptive = self.file.selection == "adaptive" and (not only or "adaptive" in only)
            sequential = self.sequential() if adaptive else None
            names = [name for name in only if name != "adaptive"]
            scored = super()._statements(frames, names) if names or not only else ()
            yield from chain(adaptive_findings(sequential, None), scored, adaptive_findings(None, benchmark))
            return
        if self.plan.test.name == "one_shot":
            statements = one_shot_findings(self._scored(), frames)
        else:
            statements = measured_findings(self.plan.test.name, results_of(self.plan.test, self._measured()))
        judged = [model.aud for model in asked_models(self.plan, self.store) if model.purpose == "judge"]
        spent = {"the answers": frames.runs, "the calls of judges": pd.DataFrame({"aud_cost": judged})}
        yield from chain(statements, spent_findings(spent))

    def prompts(self) -> pd.DataFrame:
        """Return every prompt that will be asked, before the first request: test_item, prompt_id, tokens, text."""
        planned = {prompt.prompt_id for _, prompt in self.plan.runs.prompts}
        return store_frames.prompts_frame(self.plan.dataset.prompts, planned)

    def result_types(self) -> pd.DataFrame:
        """Return what the test of the study will produce, before anything is asked; `results` has the numbers.

        Returns
        -------
        pandas.DataFrame
            One row a result, in the order of `results`: ``name``, such as ``mean composite_strict, S`` of a judged
            study with prompts of length S, and ``unit``.

        Examples
        --------
        >>> with Study.load("templates/demo.toml") as study:  # doctest: +SKIP
        ...     study.result_types()
        """
        return pd.DataFrame(self.plan.test.result_types())

    def measurements(self) -> pd.DataFrame:
        """Return one row a measurement: a number about one test item, with its unit, or why it is missing."""
        return store_frames.measurements_frame(self._measured())

    def results(self) -> pd.DataFrame:
        """Return one row a result of the test and model, each with its interval."""
        return as_kind(estimates_frame(results_of(self.plan.test, self._measured()), "model"), "results")

    @needs_room()
    def keyed_answers(self) -> pd.DataFrame:
        """Return one row an answer of a keyed test: key, what was read or why nothing, scores, chance and position.

        Raises
        ------
        InputError
            When the test of the study has no key.
        """
        from toolkit.keyed.keyed_test import answers_frame

        if not self.plan.test.keyed:
            raise InputError(f"study {self.name}: test {self.plan.test.name} has no key; only keyed has")
        answered = (item.found for item in self.annotations())
        return answers_frame(cast("KeyedTest", self.plan.test), answered, self.runs())

    @needs_room()
    def experiments(self) -> pd.DataFrame:
        """Return one row an experiment of the one-shot test: verdict, reason, and what was found and invented."""
        from toolkit.traffic.one_shot import experiments_frame

        if (name := self.plan.test.name) != "one_shot":
            raise InputError(f"study {self.name}: test {name} has no experiments; only one_shot has")
        return experiments_frame(item.found for item in self.annotations())

    def methods(self) -> pd.DataFrame:
        """Return one row a method of the one-shot test: I1, I0, H, N, the score and its interval."""
        return as_kind(methods_frame(self._scored()), "methods")

    def _scored(self) -> tuple[MethodScore, ...]:
        test: Any = self.plan.test
        return score_methods(self.experiments(), test.weights, test.confidence)

    def annotations(self) -> list[Annotated]:
        """Return every item with its replies and what every annotator said, for each model and repeat."""
        return run_anywhere(lambda: annotated_items(self.plan, self.store), threading.Event())

    def _measured(self) -> list[MeasuredTestItem]:
        return measured_items(self.plan.test, self.annotations())

    @needs_room()
    def view(self, which: str | Iterable[str] | pd.DataFrame | None = None) -> Viewer:
        """Return the answer viewer for a notebook: of all runs, opened at one, or of a selection.

        Parameters
        ----------
        which
            A run id opens the viewer of all runs there; ids, or a frame with the column run_id, such as
            ``study.runs().nsmallest(10, "composite")``, open these runs in this order.

        Raises
        ------
        InputError
            When a run is not in the study, or a frame has no column run_id.
        """
        from toolkit.viewer.app import Viewer

        if isinstance(which, pd.DataFrame):
            if "run_id" not in which:
                raise InputError("view: the frame has no column run_id; give one made of study.runs()")
            which = which["run_id"]
        elif which is not None and not isinstance(which, Iterable):
            raise InputError(
                f"view: {which!r} is no run; give a run id, ids, or a frame with the column run_id"
            )
        return Viewer(self._reported, self.store, which)

    @needs_room()
    def rate(self, rater: str, *, seed: int | None = None, size: int | None = None) -> AppWidget:
        """Return the desk of a rater for a notebook: one reply after another, blind, from where the rater stopped.

        Parameters
        ----------
        rater
            Name of the person, always written the same way.
        seed, size
            Of a new round: its order, by default the study's seed, and how many replies it has, by default all.

        Raises
        ------
        InputError
            When there is nothing to rate, or the name or the size does not serve.
        """
        from toolkit.people.desk import Desk, DeskWidget

        return DeskWidget(Desk(self.plan, self.store, rater, seed=seed, size=size))

    def reply(self, run_id: str) -> str:
        """Return the text of a run's reply; text from a model is never to be rendered as HTML."""
        return reply_text(self.store, run_id)

    def prompt(self, prompt_id: str) -> str:
        """Return the text of a prompt."""
        if prompt := self.plan.sources.get(prompt_id):
            return prompt.text
        raise InputError(f"prompt {prompt_id!r}: not in dataset {self.plan.dataset.version}")

    def _parts(self, frames: Analyses, *, complete: bool, progress: bool) -> list[Part]:
        self._need_results(frames)
        if self._is_scored:
            return super()._parts(frames, complete=complete, progress=progress)
        if self.plan.test.name == "one_shot":
            from toolkit.traffic.figures import draw_one_shot

            return draw_one_shot(self._scored(), frames, self._figure_context(frames))
        from toolkit.report.plots.results import results_figure

        test, context = self.plan.test, self._figure_context(frames)
        return [results_figure(results_of(test, self._measured()), test=test.name, context=context)]

    def _draw(
        self, frames: Analyses, folder: Path, only: Collection[str] = (), *, progress: bool = False
    ) -> Files:
        self._need_results(frames)
        if self._is_scored:
            return super()._draw(frames, folder, only, progress=progress)
        from toolkit.report.registry import save_drawn

        parts = self._parts(frames, complete=True, progress=progress)
        names = [part.name for part in parts]
        if unknown := [name for name in only if name not in names]:
            raise InputError(f"figure {unknown[0]!r}: {choices(unknown[0], names, 'this study has')}")
        parts = [part for part in parts if part.name in (only or names)]
        return save_drawn(parts, folder, self._figure_context(frames), whole=not only)

    def _need_results(self, frames: Analyses) -> None:
        from toolkit.report.show import need_results

        state = {"study": self.name, "done": (frames.runs["status"] == "succeeded").sum()}
        need_results(state, "run it first: `toolkit run STUDY`, or study.run()")

    def _figure_context(self, frames: Analyses) -> About:
        from toolkit.report.figure import about_study, about_test
        from toolkit.runs.provenance import asked_models, rates_sentence

        if not self._is_scored:
            return about_test(self.runs(), self.plan)
        money = ""
        if (frames.runs["aud_cost"] > 0).any():
            models = asked_models(self.plan, self.store, earlier=False)
            exchange = self.plan.exchange
            money = rates_sentence((model.rates for model in models), exchange) or f"Costs are at {exchange}"
            money += "."
        return about_study(frames, self._reported, money)

    def _text(
        self, frames: Analyses, manifest: dict[str, Any], evidence: Evidence, *, full: bool = False
    ) -> Text:
        from toolkit.thesis.appendix import appendix
        from toolkit.thesis.methods import methods_section, what_was_done

        lacking = sum(item.missing for item in self._scored()) if self.plan.test.name == "one_shot" else 0
        record = what_was_done(self.plan, self.store, frames, self.status(), manifest, evidence, lacking)
        section, changes = methods_section(replace(record, full=full)), record.decisions
        files = {"deviations.csv": csv_bytes(changes.changes)} if changes and changes.at else {}
        return section, () if full else appendix(record, self.store, frames), files

    def manifest(self, **parameters: Any) -> dict[str, Any]:
        """Return what was used: inputs and hashes, versions, commit, seed, parameters, model and judge identities."""
        from toolkit.report.manifest import manifest

        return manifest(self.plan, self.path, parameters)

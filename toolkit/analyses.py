"""What can be analysed: every analysis once, and the frames at one time that all of them are calculated from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from toolkit import stats
from toolkit.errors import InputError, NotAnswerable, Stopped
from toolkit.words import DIMENSIONS, SCALE, SCORE

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.stats.agreement.bland_altman import BlandAltman
    from toolkit.stats.agreement.elements import RequiredElements
    from toolkit.stats.agreement.judge_card import JudgeCard
    from toolkit.stats.agreement.reliability import Reliability
    from toolkit.stats.comparisons.ceiling import Ceiling
    from toolkit.stats.comparisons.cost_quality import Pareto
    from toolkit.stats.comparisons.focus import FocusContrast
    from toolkit.stats.comparisons.missing_data import MissingData
    from toolkit.stats.comparisons.models import ModelComparison
    from toolkit.stats.generalizability.study_scores import StudyGeneralizability
    from toolkit.stats.human.calibration import Calibration
    from toolkit.stats.power.pilot import PilotPower
    from toolkit.stats.prompt_length.contrasts import LengthComparison
    from toolkit.stats.prompt_length.dimension_profile import DimensionProfile
    from toolkit.stats.prompt_length.mixed_model import MixedModel
    from toolkit.stats.prompt_length.reply_length import LengthBias

    Frame = pd.DataFrame | Callable[[], pd.DataFrame]

R = TypeVar("R")

QUESTIONS: Final = {
    "reliability": "Agreement of the judges",
    "generalizability": "Variance components and generalizability",
    "length": "Prompt length, compared within bases",
    "length_bias": "Reply length and score",
    "mixed_model": "Length, scenario and model together",
    "pareto": "Quality and cost",
    "missing": "What is missing",
    "ceiling": "Scores at the ends of the scale",
    "power": "What this study can tell apart",
    "compare_models": "Models, compared in pairs within prompts",
    "required_elements": "Required elements, and the rubric held against them",
    "focus": "Focus sentence prompting, on against off",
    "calibration": "Judges held against people",
    "dimension_profile": "Profile of the dimensions",
    "length_by_model": "Prompt length, of each model by itself",
    "judge_cards": "Cards of the judges",
    "bland_altman": "Bland-Altman plots of the judges",
}
"""Title of each analysis, by the name of its method."""
BY_JUDGES: Final = ("reliability", "generalizability", "judge_cards", "bland_altman")
"""Analyses that need two judges."""
BY_LENGTH: Final = ("length", "length_by_model", "length_bias", "mixed_model", "power")
"""Analyses that need two prompt lengths."""
_NOT_BUNDLED: Final = ("dimension_profile", "length_by_model", "judge_cards", "bland_altman")
"""Analyses that the thesis bundle shows in figures only."""
_FILE_NAMES: Final = {"pareto": "cost_quality", "compare_models": "models", "required_elements": "elements"}
"""Names of files of the bundle that are not the name of the analysis."""


class Analysable:
    """Whatever can be analysed: a study, scores of others, or frames in hand. A kind of it says what its frames are."""

    def frames(self) -> Analyses:
        """Return every analysis of the frames as they are now; what was calculated from the same frames is kept."""
        raise NotImplementedError

    @property
    def unanswerable(self) -> Mapping[str, str]:
        """Questions that cannot be answered, by the name of the analysis, with the reason."""
        raise NotImplementedError

    def answers(self, *questions: str) -> bool:
        """Return whether all of some questions can be answered, by the names of the analyses."""
        return self.unanswerable.keys().isdisjoint(questions)

    def _frames_for(self, question: str) -> Analyses:
        frames = self.frames()
        if reason := frames.unanswerable.get(question):
            raise NotAnswerable(QUESTIONS[question], reason)
        return frames

    def reliability(self) -> Reliability:
        """Return ICC, alpha and Pearson between judges, and test-retest of each, per dimension and composite.

        Returns
        -------
        Reliability
            ``frame()`` has one row a coefficient and dimension with its interval, ``details`` the rest.
        """
        frames = self._frames_for("reliability")
        scores = (*frames.dimensions, frames.score)
        return frames.once(_reliability, frames.judgements, scores=scores, scale=frames.scale)

    def required_elements(self) -> RequiredElements:
        """Return the share of required elements found, the judges' agreement on it, and the rubric's with it."""
        frames = self._frames_for("required_elements")
        return frames.once(stats.required_elements, frames.elements, frames.runs)

    def bland_altman(self) -> Mapping[tuple[str, str], BlandAltman]:
        """Return bias and limits of agreement of each pair of judges, of the composite."""
        from toolkit.stats.agreement.bland_altman import bland_altman_between_judges

        frames = self._frames_for("bland_altman")
        matrix = frames.reliability().matrices[frames.score]
        return frames.once(bland_altman_between_judges, matrix, scale=frames.scale)

    def judge_cards(self) -> tuple[JudgeCard, ...]:
        """Return what is known of each judge: agreement, bias, cost and what could not be read."""
        frames = self._frames_for("judge_cards")
        return frames.once(stats.judge_cards, frames.judgements, frames.runs, related=frames.related)

    def generalizability(
        self, score: str | None = None, *, of: str = "answer", target: float = 0.90
    ) -> StudyGeneralizability:
        """Return variance components, E-rho2, Phi, and how many judges, repeats and prompts a target takes, in AUD.

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.
        of
            What the score is to tell apart: answer, model or base.
        target
            Phi that a mean score should have, 0 to 1.

        Returns
        -------
        StudyGeneralizability
            Components with generalized intervals, coefficients, and the cheapest plan that reaches the target.
        """
        frames = self._frames_for("generalizability")
        settings: dict[str, Any] = {"score": score or frames.score, "of": of, "target": target}
        return frames.once(_generalizability, frames.judgements, frames.runs, **settings)

    def length(self, score: str | None = None) -> LengthComparison:
        """Return the comparison of S, M and L within bases (RQ1).

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.

        Returns
        -------
        LengthComparison
            Means, paired differences (Holm but for the primary contrast), effect sizes, equivalence and omnibus tests.
        """
        frames = self._frames_for("length")
        settings = {"score": score or frames.score, "margin": frames.margin, "primary": frames.primary}
        return frames.once(stats.compare_lengths, frames.runs, omnibus=True, **settings)

    def length_by_model(self, score: str | None = None) -> Mapping[str, LengthComparison]:
        """Return the comparison of S, M and L within bases, of each model by itself.

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.

        Returns
        -------
        dict of LengthComparison
            By the name of the model.
        """
        frames = self._frames_for("length_by_model")
        settings = {"score": score or frames.score, "margin": frames.margin, "primary": frames.primary}
        return frames.once(stats.compare_lengths_by_model, frames.runs, **settings)

    def compare_models(self, score: str | None = None) -> ModelComparison:
        """Return the models compared in pairs within prompts, clustered by base, Holm over all pairs (Miller 2024).

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.

        Returns
        -------
        ModelComparison
            The mean of each model, and every difference of two over the prompts that both answered; exploratory.

        Examples
        --------
        ``study.compare_models().frame()``, ``print(study.compare_models().sentence())``
        """
        frames = self._frames_for("compare_models")
        return frames.once(stats.compare_models, frames.runs, score=score or frames.score)

    def focus(self, score: str | None = None) -> FocusContrast:
        """Return what focus sentences (FSP) do to scores: the same runs judged with them and without.

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.

        Returns
        -------
        FocusContrast
            Mean of on - off, paired within run and judge, overall and by length bin; exploratory.

        Raises
        ------
        InputError
            If the runs were judged one way only. Change ``bias_controls.fsp_enabled``, run ``toolkit judge`` and change
            it back: both versions of the judgements are kept.

        Examples
        --------
        ``study.focus().frame()``, ``print(study.focus().sentence())``
        """
        frames = self._frames_for("focus")
        now, otherwise = frames.judgements, frames.judged_otherwise
        if now.empty or otherwise.empty:
            raise InputError(
                f"study {frames.name}: its runs were not judged both with focus sentences and without; change "
                "bias_controls.fsp_enabled and run toolkit judge: both versions are kept"
            )
        on, off = (now, otherwise) if (now["focus"] != "off").any() else (otherwise, now)
        return frames.once(stats.focus_contrast, on, off, score=score or frames.score)

    def dimension_profile(self) -> DimensionProfile:
        """Return the mean of every dimension, of each model at each prompt length."""
        frames = self._frames_for("dimension_profile")
        return frames.once(stats.dimension_profile, frames.runs, dimensions=frames.dimensions)

    def length_bias(self, score: str | None = None) -> LengthBias:
        """Return the slope of score on reply length, and what prompt length does in all and at equal reply length.

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.

        Returns
        -------
        LengthBias
            In score points per 100 tokens of the reply, clustered by base.
        """
        frames = self._frames_for("length_bias")
        return frames.once(stats.length_bias, frames.runs, score=score or frames.score)

    def mixed_model(self, score: str | None = None) -> MixedModel:
        """Return the tests of length x scenario x model with bases as random blocks.

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.

        Returns
        -------
        MixedModel
            One row a term: F, degrees of freedom, p and p by Holm; exploratory.
        """
        frames = self._frames_for("mixed_model")
        return frames.once(stats.mixed_model, frames.runs, score=score or frames.score)

    def pareto(self, score: str | None = None, cost: str = "aud_cost") -> Pareto:
        """Return quality, cost and quality per AUD of each model and length, and which of them no other beats.

        Parameters
        ----------
        score
            Column of quality; that of the study by default.
        cost
            ``aud_cost``, or ``total_tokens`` where no run has a price.
        """
        frames = self._frames_for("pareto")
        settings = {"score": score or frames.score, "cost": cost, "seed": frames.seed}
        return frames.once(stats.pareto, frames.runs, **settings)

    def missing(self, score: str | None = None) -> MissingData:
        """Return what has no score by model, length and judge, whether that is chance, and what it could change.

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.

        Returns
        -------
        MissingData
            Shares with intervals, tests of imbalance, and bounds of the contrasts.
        """
        frames = self._frames_for("missing")
        settings = {"score": score or frames.score, "seed": frames.seed}
        return frames.once(stats.missing_data, frames.runs, frames.judge_means, **settings)

    def ceiling(self, score: str | None = None) -> Ceiling:
        """Return how many scores the judges gave at either end of the scale, with a warning where they are many.

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.

        Returns
        -------
        Ceiling
            Shares of scores at either end, by length and model.
        """
        frames = self._frames_for("ceiling")
        settings = {"score": score or frames.score, "limit": frames.ceiling_share}
        return frames.once(stats.ceiling, frames.judgements, **settings)

    def calibration(self, score: str | None = None, width: float | None = None) -> Calibration:
        """Compare the judges with the people who rated, and say how many ratings the mean still needs.

        Its interval is to be ``width`` score points wide, a tenth of the scale by default.

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.
        """
        frames = self._frames_for("calibration")
        tables = frames.runs, frames.judgements, frames.human
        width = (frames.scale[1] - frames.scale[0]) / 10 if width is None else width
        return frames.once(stats.calibrate, *tables, score=score or frames.score, width=width)

    def power(
        self, effect: float | None = None, *, score: str | None = None, repeats: int | None = None
    ) -> PilotPower:
        """Return what S, M and L can tell apart at this number of bases, and what an effect would need and cost.

        Parameters
        ----------
        effect
            Difference in score points that matters; None for what is detectable only.
        score
            Column to compare; that of the study by default.
        repeats
            Repeats of each prompt in the study to be planned; as in this one by default.
        """
        frames = self._frames_for("power")
        settings = {"effect": effect, "score": score or frames.score, "repeats": repeats}
        return frames.once(stats.pilot_power, frames.runs, **settings)

    def analyses(self) -> dict[str, tuple[str, Any]]:
        """Return all of the above for the composite: title and result, by name.

        Calibration is among them where people have rated, and nothing is where no run is judged.
        """
        frames = self.frames()
        if not frames.is_judged:
            return {}
        present = {
            "compare_models": frames.runs["model"].nunique() > 1,
            "required_elements": len(frames.elements) > 0,
            "focus": len(frames.judged_otherwise) > 0,
            "calibration": len(frames.human) > 0,
        }
        bundled = [name for name in QUESTIONS if name not in _NOT_BUNDLED]
        names = [name for name in bundled if present.get(name, True) and name not in frames.unanswerable]
        return {_FILE_NAMES.get(name, name): (QUESTIONS[name], getattr(frames, name)()) for name in names}


def _reliability(judgements: pd.DataFrame, scores: Sequence[str], scale: tuple[float, float]) -> Reliability:
    from toolkit.store.frames import ratings_frame, repeats_frame

    ratings, repeats = ratings_frame(judgements, scores), repeats_frame(judgements, scores)
    return stats.reliability(ratings, repeats, scale=scale)


def _generalizability(judgements: pd.DataFrame, runs: pd.DataFrame, **settings: Any) -> StudyGeneralizability:
    from toolkit.stats.generalizability.study_scores import mean_cost, study_generalizability

    run_aud, judgement_aud = mean_cost(runs["aud_cost"]), mean_cost(judgements["aud_cost"])
    return study_generalizability(judgements, run_aud=run_aud, judgement_aud=judgement_aud, **settings)


@dataclass
class Results:
    """What was calculated, each result with the very frames and settings that it is of."""

    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    calculated: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]] = field(
        default_factory=list
    )

    def reuse_frame(self, kind: str, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the earlier frame where the new one is equal to it; else forget what was calculated from it."""
        earlier = self.frames.get(kind)
        if earlier is not None:
            if earlier.columns.equals(frame.columns) and earlier.equals(frame):
                return earlier
            outdated: list[Any] = [earlier]
            for entry in list(self.calculated):
                if any(input_frame is old for input_frame in entry[1] for old in outdated):
                    outdated.append(entry[3])
                    self.calculated.remove(entry)
        self.frames[kind] = frame
        return frame

    def clear(self) -> None:
        """Forget everything."""
        self.frames.clear()
        self.calculated.clear()


def _frame(kind: str, meaning: str) -> cached_property[pd.DataFrame]:
    def read(self: Analyses) -> pd.DataFrame:
        import pandas as pd

        source = self._sources[kind]
        frame = source() if callable(source) else source
        return self._results.reuse_frame(kind, pd.DataFrame() if frame is None else frame)

    read.__doc__ = meaning
    return cached_property(read)


class Analyses(Analysable):
    """Frames at one time, with all that can be calculated from them; one that is a function is read when it is needed.

    Parameters
    ----------
    runs, judgements
        One row a run, and one row a judgement.
    human, judged_otherwise, elements
        One row a rating by a person, one a judgement of the other side of focus sentence prompting, and one a judge
        that looked for the required elements in a run; none by default.
    name, seed
        Of the study.
    score, margin, primary, ceiling_share
        As in ``[analysis]`` of the study file.
    related
        Names of the models under test that share a family with the judge of each role.
    dimensions, scale
        Columns of scores besides the composite, perhaps with titles, and the ends of their scale: those of the default
        rubric by default.
    unanswerable
        Analyses that these frames do not allow, by name, with the reason.
    results
        What was calculated before from frames of the same study; it serves again where frames are equal.
    """

    def __init__(
        self,
        runs: Frame,
        judgements: Frame,
        human: Frame | None = None,
        judged_otherwise: Frame | None = None,
        elements: Frame | None = None,
        *,
        name: str = "",
        seed: int = 0,
        score: str = SCORE,
        margin: float | None = None,
        primary: str | None = None,
        ceiling_share: float = 0.3,
        related: Mapping[str, Collection[str]] | None = None,
        dimensions: Sequence[str] | Mapping[str, str] = DIMENSIONS,
        scale: tuple[float, float] = SCALE,
        unanswerable: Mapping[str, str] | None = None,
        results: Results | None = None,
    ) -> None:
        self._sources = {
            "runs": runs, "judgements": judgements, "human": human, "judged_otherwise": judged_otherwise,
            "elements": elements,
        }  # fmt: skip
        self.name = name
        self.seed = seed
        self.score = score
        self.margin = margin
        self.primary = primary
        self.ceiling_share = ceiling_share
        self.related = related
        self.dimensions = tuple(dimensions)
        self.titles = dict(dimensions) if isinstance(dimensions, Mapping) else {}
        self.scale = scale
        self._unanswerable = unanswerable or {}
        self._results = results or Results()

    runs = _frame("runs", "One row a run.")
    judgements = _frame("judgements", "One row a judgement.")
    human = _frame("human", "One row a rating by a person.")
    judged_otherwise = _frame("judged_otherwise", "One row a judgement of the other side of focus sentences.")
    elements = _frame(
        "elements", "One row a run and judge that looked for the required elements of its base."
    )

    def frames(self) -> Analyses:
        """Return these frames."""
        return self

    @property
    def unanswerable(self) -> Mapping[str, str]:
        """Analyses that these frames do not allow, by name, with the reason."""
        return self._unanswerable

    def once(self, calculate: Callable[..., R], *frames: Any, **settings: Any) -> R:
        """Return what a calculation gives of frames under settings; it is done once for the same frames."""
        for function, stored_frames, stored_settings, result in self._results.calculated:
            matches = function is calculate and stored_settings == settings
            if matches and len(stored_frames) == len(frames) and all(map(is_, stored_frames, frames)):
                stored: R = result
                return stored
        try:
            calculated = calculate(*frames, **settings)
        except KeyboardInterrupt:
            raise Stopped("interrupted; an analysis changes nothing, so nothing is lost") from None
        self._results.calculated.append((calculate, frames, settings, calculated))
        return calculated

    @property
    def judge_means(self) -> pd.DataFrame:
        """One row a run and judge, repeats of a judgement averaged first."""
        from toolkit.store.frames import judge_means

        return self.once(judge_means, self.judgements, dimensions=self.dimensions)

    @property
    def other_score(self) -> str:
        """The composite that is not compared, to be shown beside the one that is."""
        return "composite" if self.score == SCORE else SCORE

    @cached_property
    def names(self) -> set[str]:
        """Names of models, judges, people, scenarios, categories and dimensions, which no text may change."""
        columns = ("model", "judge", "judge_model", "rater", "scenario", "category")
        frames = (self.runs, self.judgements, self.human)
        levels = [frame[name].dropna().unique() for frame in frames for name in columns if name in frame]
        return {*self.dimensions, *(str(name) for names in levels for name in names)}

    @cached_property
    def is_judged(self) -> bool:
        """Whether any run has a score."""
        return bool(len(self.runs)) and bool(self.runs["judged"].any())

    def read(self) -> Self:
        """Read every frame now, so that all show the study at one time."""
        _ = self.runs, self.judgements, self.human, self.judged_otherwise, self.elements
        return self

"""Every analysis of a study's frames: each one call of a function in `toolkit.stats`, made once and when asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from toolkit import stats
from toolkit.errors import NotAnswerable
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

P = ParamSpec("P")
R = TypeVar("R")


_SCORE: Final = """

        Parameters
        ----------
        score
            composite_strict, composite, or one of the seven dimensions; that of the study by default."""


def _once(analysis: Callable[P, R]) -> Callable[P, R]:
    doc = analysis.__doc__ or ""
    if "score" in signature(analysis).parameters and "Parameters" not in doc:
        analysis.__doc__ = (
            doc.replace(".\n", f".{_SCORE}\n", 1) if "\n" in doc else f"{doc}{_SCORE}\n        "
        )

    @wraps(analysis)
    def kept(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature(analysis).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.arguments.get("score", "") is None:
            bound.arguments["score"] = bound.arguments["self"].score
        of, *values = bound.arguments.values()
        key = (analysis.__name__, *values)
        if key not in of.made:
            if why := of.unanswerable.get(analysis.__name__):
                raise NotAnswerable(QUESTIONS[analysis.__name__], why)
            of.made[key] = analysis(*bound.args, **bound.kwargs)
        found: R = of.made[key]
        return found

    return kept


def _frame(kind: str, meaning: str) -> cached_property[pd.DataFrame]:
    def read(of: Analyses) -> pd.DataFrame:
        import pandas as pd

        frame = of._frames[kind]
        if frame is None:
            return pd.DataFrame()
        return frame() if callable(frame) else frame

    read.__doc__ = meaning
    return cached_property(read)


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
"""What can be asked of scores: the names of analyses and their titles, in the order of the bundle."""
_TOLD_AS: Final = {
    "pareto": "cost_quality", "compare_models": "models", "required_elements": "elements",
}  # fmt: skip
_IN_BUNDLE: Final = tuple(QUESTIONS)[:13]


class Analyses:
    """What can be calculated from the frames of a study; a frame that is a function is read when it is needed.

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
        Columns of scores besides the composite, and the ends of their scale: those of the rubric by default.
    unanswerable
        Analyses that these frames do not allow, by name, with the reason.
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
        dimensions: Sequence[str] = DIMENSIONS,
        scale: tuple[float, float] = SCALE,
        unanswerable: Mapping[str, str] | None = None,
    ) -> None:
        self._frames = {
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
        self.scale = scale
        self.unanswerable = unanswerable or {}
        self.made: dict[tuple[Any, ...], Any] = {}

    runs = _frame("runs", "One row a run.")
    judgements = _frame("judgements", "One row a judgement.")
    human = _frame("human", "One row a rating by a person.")
    judged_otherwise = _frame("judged_otherwise", "One row a judgement of the other side of focus sentences.")
    elements = _frame(
        "elements", "One row a run and judge that looked for the required elements of its base."
    )

    @cached_property
    def judge_means(self) -> pd.DataFrame:
        """One row a run and judge, repeats of a judgement averaged first."""
        from toolkit.store.frames import judge_means

        return judge_means(self.judgements, self.dimensions)

    @property
    def other_score(self) -> str:
        """The composite that is not compared, to be told beside the one that is."""
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

    def answers(self, *questions: str) -> bool:
        """Return whether these frames can answer all of some questions."""
        return self.unanswerable.keys().isdisjoint(questions)

    def read(self) -> Self:
        """Read every frame now, so that all show the study at one time."""
        _ = self.runs, self.judgements, self.human, self.judged_otherwise, self.elements
        return self

    @_once
    def reliability(self) -> Reliability:
        """Return ICC, alpha and Pearson between judges, and test-retest of each, per dimension and composite.

        Returns
        -------
        Reliability
            ``frame()`` has one row a coefficient and dimension with its interval, ``details`` the rest.
        """
        from toolkit.store.frames import ratings_frame, repeats_frame

        given = (self.judgements, (*self.dimensions, self.score))
        return stats.reliability(ratings_frame(*given), repeats_frame(*given), scale=self.scale)

    @_once
    def required_elements(self) -> RequiredElements:
        """Return the share of required elements found, the judges' agreement on it, and the rubric's with it."""
        return stats.required_elements(self.elements, self.runs)

    @_once
    def bland_altman(self) -> Mapping[tuple[str, str], BlandAltman]:
        """Return bias and limits of agreement of each pair of judges, of the composite."""
        from toolkit.stats.agreement.bland_altman import bland_altman_between_judges

        return bland_altman_between_judges(self.reliability().matrices[self.score], self.scale)

    @_once
    def judge_cards(self) -> tuple[JudgeCard, ...]:
        """Return what is known of each judge: agreement, bias, cost and what could not be read."""
        return tuple(stats.judge_cards(self.judgements, self.runs, related=self.related))

    @_once
    def generalizability(
        self, score: str | None = None, *, of: str = "answer", target: float = 0.90
    ) -> StudyGeneralizability:
        """Return variance components, E-rho2, Phi, and how many judges, repeats and prompts a target takes, in AUD.

        Parameters
        ----------
        score
            composite_strict, composite, or one of the seven dimensions; `score` by default.
        of
            What the score is to tell apart: answer, model or base.
        target
            Phi that a mean score should have, 0 to 1.

        Returns
        -------
        StudyGeneralizability
            Components with generalized intervals, coefficients, and the cheapest plan that reaches the target.
        """
        from toolkit.stats.generalizability.study_scores import mean_cost, study_generalizability

        judgements = self.judgements
        return study_generalizability(
            judgements,
            score=score or self.score,
            of=of,
            target=target,
            run_aud=mean_cost(self.runs["aud_cost"]),
            judgement_aud=mean_cost(judgements["aud_cost"]),
        )

    @_once
    def length(self, score: str | None = None) -> LengthComparison:
        """Return the comparison of S, M and L within bases (RQ1).

        Returns
        -------
        LengthComparison
            Means, paired differences (Holm but for the primary contrast), effect sizes, equivalence and omnibus tests.
        """
        return stats.compare_lengths(
            self.runs, score=score, omnibus=True, margin=self.margin, primary=self.primary
        )

    @_once
    def length_by_model(self, score: str | None = None) -> Mapping[str, LengthComparison]:
        """Return the comparison of S, M and L within bases, of each model by itself.

        Returns
        -------
        dict of LengthComparison
            By the name of the model.
        """
        return stats.compare_lengths_by_model(self.runs, score, margin=self.margin, primary=self.primary)

    @_once
    def compare_models(self, score: str | None = None) -> ModelComparison:
        """Return the models compared in pairs within prompts, clustered by base, Holm over all pairs (Miller 2024).

        Returns
        -------
        ModelComparison
            The mean of each model, and every difference of two over the prompts that both answered; exploratory.

        Examples
        --------
        ``study.compare_models().frame()``, ``print(study.compare_models().sentence())``
        """
        return stats.compare_models(self.runs, score)

    @_once
    def focus(self, score: str | None = None) -> FocusContrast:
        """Return what focus sentences (FSP) do to scores: the same runs judged with them and without.

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
        from toolkit.errors import InputError

        now, other = self.judgements, self.judged_otherwise
        if now.empty or other.empty:
            raise InputError(
                f"study {self.name}: its runs were not judged both with focus sentences and without; change "
                "bias_controls.fsp_enabled and run toolkit judge: both versions are kept"
            )
        on, off = (now, other) if (now["focus"] != "off").any() else (other, now)
        return stats.focus_contrast(on, off, score)

    @_once
    def dimension_profile(self) -> DimensionProfile:
        """Return the mean of every dimension, of each model at each prompt length."""
        return stats.dimension_profile(self.runs, self.dimensions)

    @_once
    def length_bias(self, score: str | None = None) -> LengthBias:
        """Return the slope of score on reply length, and what prompt length does in all and at equal reply length.

        Returns
        -------
        LengthBias
            In score points per 100 tokens of the reply, clustered by base.
        """
        return stats.length_bias(self.runs, score=score)

    @_once
    def mixed_model(self, score: str | None = None) -> MixedModel:
        """Return the tests of length x scenario x model with bases as random blocks.

        Returns
        -------
        MixedModel
            One row a term: F, degrees of freedom, p and p by Holm; exploratory.
        """
        return stats.mixed_model(self.runs, score=score)

    @_once
    def pareto(self, score: str | None = None, cost: str = "aud_cost") -> Pareto:
        """Return quality, cost and quality per AUD of each model and length, and which of them no other beats.

        Parameters
        ----------
        score
            Column of quality; `score` by default.
        cost
            ``aud_cost``, or ``total_tokens`` where no run has a price.
        """
        return stats.pareto(self.runs, score=score, cost=cost, seed=self.seed)

    @_once
    def missing(self, score: str | None = None) -> MissingData:
        """Return what has no score by model, length and judge, whether that is chance, and what it could change.

        Returns
        -------
        MissingData
            Shares with intervals, tests of imbalance, and bounds of the contrasts.
        """
        return stats.missing_data(self.runs, self.judge_means, score=score, seed=self.seed)

    @_once
    def ceiling(self, score: str | None = None) -> Ceiling:
        """Return how many scores the judges gave at either end of the scale, with a warning where they are many.

        Returns
        -------
        Ceiling
            Shares of scores at 5 and at 0, by length and model.
        """
        return stats.ceiling(self.judgements, score=score, limit=self.ceiling_share)

    @_once
    def calibration(self, score: str | None = None, width: float = 0.5) -> Calibration:
        """Return the judges held against the people who rated, and how many ratings a width of the mean still takes."""
        return stats.calibrate(self.runs, self.judgements, self.human, score=score, width=width)

    @_once
    def power(
        self, effect: float | None = None, *, score: str | None = None, repeats: int | None = None
    ) -> PilotPower:
        """Return what S, M and L can tell apart at this number of bases, and what an effect would need and cost.

        Parameters
        ----------
        effect
            Difference in score points that matters; None for what is detectable only.
        score
            Column to compare; `score` by default.
        repeats
            Repeats of each prompt in the study to be planned; as in this one by default.
        """
        return stats.pilot_power(self.runs, effect, score=score, repeats=repeats)

    def analyses(self) -> dict[str, tuple[str, Any]]:
        """Return all of the above for the composite: title and result, by name.

        Calibration is among them where people have rated, and nothing is where no run is judged.
        """
        if not self.is_judged:
            return {}
        there = {
            "compare_models": self.runs["model"].nunique() > 1,
            "required_elements": len(self.elements) > 0,
            "focus": len(self.judged_otherwise) > 0,
            "calibration": len(self.human) > 0,
        }
        names = (name for name in _IN_BUNDLE if there.get(name, True) and name not in self.unanswerable)
        return {_TOLD_AS.get(name, name): (QUESTIONS[name], getattr(self, name)()) for name in names}

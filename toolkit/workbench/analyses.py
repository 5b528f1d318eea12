"""The statistics of a study in hand: every method is one call of a function in `toolkit.stats`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolkit.study_file import StudyFile

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.stats.agreement.reliability import Reliability
    from toolkit.stats.calibration import Calibration
    from toolkit.stats.ceiling import Ceiling
    from toolkit.stats.dimension_profile import DimensionProfile
    from toolkit.stats.error_bars import ModelComparison
    from toolkit.stats.focus_contrast import FocusContrast
    from toolkit.stats.generalizability.study_scores import StudyGeneralizability
    from toolkit.stats.length_result import LengthComparison
    from toolkit.stats.length_slope import LengthBias
    from toolkit.stats.missing_data import MissingData
    from toolkit.stats.mixed_model_result import MixedModel
    from toolkit.stats.pareto import Pareto
    from toolkit.stats.pilot_result import PilotPower


class Analyses(ABC):
    """What can be calculated from the frames of a study; `toolkit.study.Study` has the frames."""

    file: StudyFile

    @abstractmethod
    def runs(self) -> pd.DataFrame:
        """Return one row a run."""

    @abstractmethod
    def judgements(self) -> pd.DataFrame:
        """Return one row a judgement."""

    @abstractmethod
    def human(self) -> pd.DataFrame:
        """Return one row a rating by a person."""

    @abstractmethod
    def judged_otherwise(self) -> pd.DataFrame:
        """Return one row a judgement of the other side of focus sentence prompting, where the runs have one."""

    def reliability(self) -> Reliability:
        """Return ICC, alpha and Pearson between judges, and test-retest of each, per dimension and composite."""
        from toolkit.stats.agreement.reliability import reliability
        from toolkit.store.frames import ratings_frame, repeats_frame

        judgements = self.judgements()
        return reliability(ratings_frame(judgements), repeats_frame(judgements))

    def generalizability(
        self, score: str = "composite", *, of: str = "answer", target: float = 0.90
    ) -> StudyGeneralizability:
        """Return variance components, E-rho2, Phi, and how many judges, repeats and prompts a target takes, in AUD."""
        from toolkit.stats.generalizability.study_scores import mean_cost, study_generalizability

        judgements = self.judgements()
        return study_generalizability(
            judgements,
            score=score,
            of=of,
            target=target,
            run_aud=mean_cost(self.runs()["aud_cost"]),
            judgement_aud=mean_cost(judgements["aud_cost"]),
        )

    def length(self, score: str = "composite") -> LengthComparison:
        """Return the comparison of S, M and L within bases (RQ1)."""
        from toolkit.stats.length import compare_lengths

        held = self.file.analysis
        return compare_lengths(
            self.runs(), score=score, omnibus=True, margin=held.equivalence_margin, primary=held.primary
        )

    def length_by_model(self, score: str = "composite") -> Mapping[str, LengthComparison]:
        """Return the comparison of S, M and L within bases, of each model by itself."""
        from toolkit.stats.length import compare_lengths

        held = self.file.analysis
        return compare_lengths(
            self.runs(), score=score, by="model", margin=held.equivalence_margin, primary=held.primary
        )

    def compare_models(self, score: str = "composite") -> ModelComparison:
        """Return the models compared in pairs within prompts, clustered by base, Holm over all pairs (Miller 2024).

        Parameters
        ----------
        score
            Column to compare.

        Returns
        -------
        ModelComparison
            The mean of each model, and every difference of two over the prompts that both answered; exploratory.

        Examples
        --------
        ``study.compare_models().frame()``, ``print(study.compare_models().sentence())``
        """
        from toolkit.stats.error_bars import compare_models

        return compare_models(self.runs(), score)

    def focus(self, score: str = "composite") -> FocusContrast:
        """Return what focus sentences (FSP) do to scores: the same runs judged with them and without.

        Parameters
        ----------
        score
            Column to compare.

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
        from toolkit.stats.focus_contrast import focus_contrast

        now, other = self.judgements(), self.judged_otherwise()
        if now.empty or other.empty:
            raise InputError(
                f"study {self.file.name}: its runs were not judged both with focus sentences and without; change "
                "bias_controls.fsp_enabled and run toolkit judge: both versions are kept"
            )
        on, off = (now, other) if (now["focus"] != "off").any() else (other, now)
        return focus_contrast(on, off, score)

    def dimension_profile(self) -> DimensionProfile:
        """Return the mean of every dimension, of each model at each prompt length."""
        from toolkit.stats.dimension_profile import dimension_profile

        return dimension_profile(self.runs())

    def length_bias(self, score: str = "composite") -> LengthBias:
        """Return the slope of score on reply length, and what prompt length does in all and at equal reply length."""
        from toolkit.stats.length_slope import length_bias

        return length_bias(self.runs(), score=score)

    def mixed_model(self, score: str = "composite") -> MixedModel:
        """Return the tests of length x scenario x model with bases as random blocks."""
        from toolkit.stats.mixed_model import mixed_model

        return mixed_model(self.runs(), score=score)

    def pareto(self, score: str = "composite", cost: str = "aud_cost") -> Pareto:
        """Return quality, cost and quality per AUD of each model and length, and which of them no other beats.

        Parameters
        ----------
        score
            Column of quality.
        cost
            ``aud_cost``, or ``total_tokens`` where no run has a price.
        """
        from toolkit.stats.pareto import pareto

        return pareto(self.runs(), score=score, cost=cost, seed=self.file.seed)

    def missing(self, score: str = "composite") -> MissingData:
        """Return what has no score by model, length and judge, whether that is chance, and what it could change."""
        from toolkit.stats.missing_data import missing_data
        from toolkit.store.frames import judge_means

        return missing_data(self.runs(), judge_means(self.judgements()), score=score, seed=self.file.seed)

    def ceiling(self, score: str = "composite") -> Ceiling:
        """Return how many scores the judges gave at either end of the scale, with a warning where they are many."""
        from toolkit.stats.ceiling import ceiling

        return ceiling(self.judgements(), score=score, limit=self.file.analysis.ceiling_share)

    def calibration(self, score: str = "composite", width: float = 0.5) -> Calibration:
        """Return the judges held against the people who rated, and how many ratings a width of the mean still takes."""
        from toolkit.stats.calibration import calibrate

        return calibrate(self.runs(), self.judgements(), self.human(), score=score, width=width)

    def power(
        self, effect: float | None = None, *, score: str = "composite", repeats: int | None = None
    ) -> PilotPower:
        """Return what S, M and L can tell apart at this number of bases, and what an effect would need and cost.

        Parameters
        ----------
        effect
            Difference in score points that matters; None for what is detectable only.
        score
            Column to compare.
        repeats
            Repeats of each prompt in the study to be planned; as in this one by default.
        """
        from toolkit.stats.power_pilot import pilot_power

        return pilot_power(self.runs(), effect, score=score, repeats=repeats)

    def analyses(self) -> dict[str, tuple[str, Any]]:
        """Return all of the above for the composite: title and result, by name.

        Calibration is among them where people have rated, and nothing is where no run is judged.
        """
        if not self.runs()["judged"].any():
            return {}
        found: dict[str, tuple[str, Any]] = {
            "reliability": ("Agreement of the judges", self.reliability()),
            "generalizability": ("Variance components and generalizability", self.generalizability()),
            "length": ("Prompt length, compared within bases", self.length()),
            "length_bias": ("Reply length and score", self.length_bias()),
            "mixed_model": ("Length, scenario and model together", self.mixed_model()),
            "cost_quality": ("Quality and cost", self.pareto()),
            "missing": ("What is missing", self.missing()),
            "ceiling": ("Scores at the ends of the scale", self.ceiling()),
            "power": ("What this study can tell apart", self.power()),
        }
        if self.runs()["model"].nunique() > 1:
            found["models"] = ("Models, compared in pairs within prompts", self.compare_models())
        if len(self.judged_otherwise()):
            found["focus"] = ("Focus sentence prompting, on against off", self.focus())
        if len(self.human()):
            found["calibration"] = ("Judges held against people", self.calibration())
        return found


def _nothing() -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame()


@dataclass(frozen=True)
class Snapshot(Analyses):
    """The frames of a study read once: what is calculated from it reads the store no second time.

    Parameters
    ----------
    file
        The study file.
    held_runs, held_judgements, held_human, held_otherwise
        The frames.
    """

    file: StudyFile
    held_runs: pd.DataFrame
    held_judgements: pd.DataFrame
    held_human: pd.DataFrame
    held_otherwise: pd.DataFrame = field(default_factory=_nothing)

    def runs(self) -> pd.DataFrame:
        """Return one row a run."""
        return self.held_runs

    def judgements(self) -> pd.DataFrame:
        """Return one row a judgement."""
        return self.held_judgements

    def human(self) -> pd.DataFrame:
        """Return one row a rating by a person."""
        return self.held_human

    def judged_otherwise(self) -> pd.DataFrame:
        """Return one row a judgement of the other side of focus sentence prompting."""
        return self.held_otherwise

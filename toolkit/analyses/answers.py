"""A typed method for each question, of whatever can be analysed; where there is no answer it says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolkit import stats
from toolkit.analyses import (
    BY_JUDGES,
    BY_KEY,
    BY_LENGTH,
    FACTORS,
    NO_SCORES,
    NO_VOTES,
    ON_VOTES,
    OWN,
    PAIRWISE,
    QUESTIONS,
    TABLE,
    UNVARIED,
)
from toolkit.analyses.frames import Frames
from toolkit.errors import InputError, NotAnswerable
from toolkit.words import CROSSED, LENGTH_BINS, choices, joined

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.stats.agreement.drift import JudgeDrift
    from toolkit.stats.agreement.reliability import Reliability
    from toolkit.stats.comparisons.cost_quality import Pareto
    from toolkit.stats.comparisons.pairs import PairComparison
    from toolkit.stats.generalizability.g_study import StudyGeneralizability
    from toolkit.stats.power.pilot import PilotPower
    from toolkit.stats.result import Result


class Analysable:
    """Whatever can be analysed: a study, scores of others, or frames in hand. A kind of it says what its frames are.

    Where a method takes a ``score``, it is composite_strict, composite, or one of the dimensions; that of the study by
    default.
    """

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
        reason = frames.unanswerable.get(question)
        if not reason and question in PAIRWISE and frames.pairs.empty:
            reason = NO_VOTES
        elif not reason and question not in ON_VOTES and not (frames.pairs.empty or frames.is_judged):
            reason = NO_SCORES
        if reason:
            raise NotAnswerable(QUESTIONS[question], reason)
        return frames

    def _result(self, question: str, calculate: Callable[..., Any] | None = None, **overrides: Any) -> Any:
        """Return what the table's calculation gives of its frames; overrides go before the study's settings."""
        frames, row = self._frames_for(question), TABLE[question]
        listed = row.get("settings", ())
        names = listed if isinstance(listed, Mapping) else dict(zip(listed, listed, strict=True))
        settings = {name: getattr(frames, field) for name, field in names.items()}
        settings |= {name: value for name, value in overrides.items() if value is not None}
        tables = (getattr(frames, name) for name in row["frames"])
        calculate = calculate or row.get("calculate") or getattr(stats, row.get("function", question))
        return frames.once(calculate, *tables, **settings)

    def answer(self, question: str, **settings: Any) -> Any:
        """Return the result of an analysis by its name, such as one of your own (`add_analysis`)."""
        if question not in QUESTIONS:
            raise InputError(f"analysis {question!r}: there is none; {choices(question, QUESTIONS)}")
        return self._result(question, **settings) if question in OWN else getattr(self, question)(**settings)

    def reliability(self) -> Reliability:
        """Return ICC, alpha and Pearson between judges, and test-retest of each, per dimension and composite.

        Returns
        -------
        Reliability
            ``frame()`` has one row a coefficient and dimension with its interval, ``leniency`` one of each judge.
        """
        return self._result("reliability", _reliability)

    def required_elements(self) -> Result:
        """Return the share of required elements found, the judges' agreement on it, and the rubric's with it."""
        return self._result("required_elements")

    def hallucination(self) -> Result:
        """Return how many replies each judge calls hallucinations (`toolkit judges hallucination`), from the ledger.

        Returns
        -------
        Result
            Shares of yes (0 to 1) of each judge and prompt, overall, by model and by prompt length, clustered by base;
            ``verdicts`` has one row a verdict with question, truth, inference, metric and explanation. Both are empty
            where no judge was asked.

        Examples
        --------
        ``study.hallucination().verdicts[["question", "truth", "inference", "metric", "explanation"]]``
        """
        return self._result("hallucination")

    def compare_pairs(self) -> PairComparison:
        """Return the models compared by votes on pairs of their replies, on one scale, and each judge's position bias.

        Returns
        -------
        PairComparison
            ``frame()`` has one row a pair of models, ``strengths()`` one a model, ``position_bias()`` one a judge.

        Raises
        ------
        NotAnswerable
            When no judge compared replies in pairs.
        """
        return self._result("compare_pairs")

    def pair_agreement(self, score: str | None = None) -> Result:
        """Return how far votes on pairs of replies and the rubric's scores of them agree, on replies and on models.

        Parameters
        ----------
        score
            Column of runs to compare with; that of the study by default.

        Raises
        ------
        NotAnswerable
            When no judge compared replies in pairs, or no run has a score: `[judges] mode = "both"` asks for both.
        """
        return self._result("pair_agreement", score=score)

    def compare_judges(self) -> Result:
        """Return each judge beside the others: leniency, agreement, slope on reply length, failures and cost."""
        frames = self._frames_for("compare_judges")
        return self._result("compare_judges", leniency=frames.reliability().leniency[frames.score])

    def generalizability(
        self, score: str | None = None, *, of: str = "answer", target: float = 0.90
    ) -> StudyGeneralizability:
        """Return variance components, E-rho2, Phi, and how many judges, repeats and prompts a target takes, in AUD.

        Parameters
        ----------
        of
            What the score is to tell apart: answer, model or base.
        target
            Phi that a mean score should have, 0 to 1.

        Returns
        -------
        StudyGeneralizability
            Components with generalized intervals, coefficients, and the cheapest plan that reaches the target.
        """
        return self._result("generalizability", _generalizability, score=score, of=of, target=target)

    def length(self, score: str | None = None) -> Result:
        """Return the comparison of S, M and L within bases (RQ1): `conditions` of prompt length.

        Returns
        -------
        Result
            Means, paired differences (Holm but for the primary contrast), what models differ by in them, effect sizes,
            equivalence and the omnibus test.
        """
        frames = self._frames_for("length")
        if frames.absent.get("length") == UNVARIED:
            raise NotAnswerable(QUESTIONS["length"], UNVARIED)
        settings = {"margin": frames.margin, "primary": frames.primary, "omnibus": True}
        return frames.once(stats.compare_conditions, frames.runs, score=score or frames.score, **settings)

    def conditions(self, factor: str | None = None, score: str | None = None) -> Result:
        """Return the levels of a factor compared within the same items.

        Parameters
        ----------
        factor
            That of the study by default, its own, the one crossed with it, or ``length``; or what else was varied:
            ``focus`` (judged with focus sentences, on and off), ``reference`` (judged with the reference answer and
            without), ``weights`` (of the judges, specialization and equal) or ``length_arms`` (length at equal
            information, information at equal length). Of a one-shot test ``variant``, the prompt, which is its default,
            ``document``, ``model`` or ``sample``, compared within questions.
        score
            composite_strict, composite, or one of the dimensions, or ``raw`` and ``score`` of a one-shot test; that of
            the study by default.

        Returns
        -------
        Result
            Means of the levels, their paired differences (points), effect sizes, what models differ by, and equivalence
            where the study has a margin; exploratory but for the primary contrast of length.

        Raises
        ------
        NotAnswerable
            If the study has no such factor; it says which ones it has, and what another one takes.

        Examples
        --------
        ``study.conditions("focus").contrasts[0].sentence()`` says what focus sentences change.
        """
        frames = self.frames()
        factor = factor or frames.factor or ("length" if frames.methods.empty else "variant")
        if factor == "length" not in frames.factors:
            if frames.absent.get("length") == UNVARIED:
                raise NotAnswerable(QUESTIONS["conditions"], frames.unanswerable.get("conditions", UNVARIED))
            return self.length(score)
        frames = self._frames_for("conditions")
        row = FACTORS.get(factor, {})
        if factor not in frames.factors:
            reason = row.get("absent", f"there is no factor {factor!r}")
            names = [*["length"] * frames.answers("length"), *frames.factors]
            others = f"Factors here: {joined(names) or 'none'}"
            raise NotAnswerable(QUESTIONS["conditions"], f"{reason}. {others}")
        rows = frames.rows_of(factor)
        settings: dict[str, Any] = {"score": score or frames.score, "margin": frames.margin, "omnibus": True}
        settings["primary"] = ""  # nothing is confirmatory but the study's own
        if factor == frames.factor:
            settings |= {"primary": frames.primary, "crossed": CROSSED if frames.crossed else None}
        elif factor == frames.crossed:
            levels = [*rows[CROSSED].cat.categories]
            settings |= {"factor": CROSSED, "levels": levels, "crossed": "level"}
        else:
            levels = [*rows[factor].unique()] if "spoken" in row else [*row["levels"]]
            settings |= {"factor": factor, "levels": levels, "omnibus": False} | row["settings"]
        return frames.once(stats.compare_conditions, rows, **settings)

    def compare_models(self, score: str | None = None) -> Result:
        """Return the models compared in pairs within prompts, clustered by base, Holm over all pairs (Miller 2024).

        Returns
        -------
        Result
            The mean of each model, and every difference of two over the prompts that both answered; exploratory.
        """
        frames = self._frames_for("compare_models")
        rate = frames.is_keyed and bool(frames.runs[score or frames.score].dropna().isin((0, 1)).all())
        return self._result("compare_models", score=score, rate=rate)

    def dimension_profile(self) -> Result:
        """Return the mean of every dimension, of each model at each prompt length."""
        return self._result("dimension_profile")

    def length_bias(self, score: str | None = None) -> Result:
        """Return the slope of score on reply length, and what prompt length does in all and at equal reply length.

        Returns
        -------
        Result
            In score points per 100 tokens of the reply, clustered by base.
        """
        return self._result("length_bias", score=score)

    def pareto(self, score: str | None = None, cost: str = "aud_cost") -> Pareto:
        """Return quality, cost and quality per AUD of each model and length, and which of them no other beats.

        Parameters
        ----------
        score
            Column of quality; that of the study by default.
        cost
            ``aud_cost``, or ``total_tokens`` where no run has a price.
        """
        return self._result("pareto", score=score, cost=cost)

    def missing(self, score: str | None = None) -> Result:
        """Return what has no score by model, length and judge, and what it could change.

        Returns
        -------
        Result
            Shares, with intervals where any is missing, and bounds of the contrasts.
        """
        return self._result("missing", score=score)

    def ceiling(self, score: str | None = None) -> Result:
        """Return how many scores the judges gave at either end of the scale, with a warning where they are many.

        Returns
        -------
        Result
            Shares of scores at either end, by length and model.
        """
        return self._result("ceiling", score=score)

    def calibration(self, score: str | None = None) -> Result:
        """Compare the judges with the people who rated.

        Parameters
        ----------
        score
            composite_strict, composite, or one of the dimensions; that of the study by default.
        """
        return self._result("calibration", score=score)

    def judge_drift(self) -> Mapping[tuple[str, str], JudgeDrift]:
        """Return how far the judges have moved on each later day on which they were asked the same anew.

        Returns
        -------
        dict of JudgeDrift
            By the set of replies that was judged anew and the day (UTC), the first day first; empty before the first
            ``toolkit judges drift``. ``frame()`` has shift, agreement and share of changed scores.

        Examples
        --------
        ``for (anchor, day), drift in study.judge_drift().items(): print(day, drift.sentence())``
        """
        return self._result("judge_drift", _judge_drift)

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
        return self._result("power", effect=effect, score=score, repeats=repeats)

    def accuracy(self, score: str | None = None) -> Result:
        """Return the accuracy of each model beside chance and the commonest answer, and what a right answer costs.

        Parameters
        ----------
        score
            A score of the test's scorer, such as ``exact`` or ``jaccard``; its first by default.

        Returns
        -------
        Result
            One row a model: share of right answers with its interval over independent questions, what is missing and
            why, and AUD per right answer.
        """
        answers = self._frames_for("accuracy").keyed_answers
        return self._result("accuracy", score=score or answers.attrs["score"])

    def position_effect(self) -> Result:
        """Return whether the position of the right option carries a model, and which positions it prefers."""
        return self._result("position_effect")

    def label_scores(self) -> Result:
        """Return macro F1 of each model over the labels of the key, with the confusion of labels."""
        return self._result("label_scores")

    def model_power(self, effect: float | None = None) -> Result:
        """Return which difference of two models the questions can find, and how many an effect would need.

        Parameters
        ----------
        effect
            Difference of two shares of right answers, 0 to 1; None for what is detectable only.
        """
        return self._result("model_power", effect=effect)

    def analyses(self) -> dict[str, tuple[str, Any]]:
        """Return all of the above for the composite: title and result, by name.

        Calibration is among them where people have rated, and nothing is where no run is judged.
        """
        frames = self.frames()
        if not frames.has_results:
            return {}
        if not frames.is_judged:
            return {"pairs": (QUESTIONS["compare_pairs"], frames.compare_pairs())}
        skipped = frames.lacking
        names = [name for name, row in TABLE.items() if row.get("bundled", True) and name not in skipped]
        results = {TABLE[name].get("file", name): (QUESTIONS[name], frames.answer(name)) for name in names}
        more = {name: (QUESTIONS["conditions"], frames.conditions(name)) for name in frames.factors}
        return results | more


class Analyses(Frames, Analysable):
    """Every analysis of frames at one time; see `Frames` for what they are."""

    def frames(self) -> Analyses:
        """Return these frames."""
        return self

    @property
    def absent(self) -> dict[str, str]:
        """Analyses of what was not done in these runs, by name, with the reason."""
        judges = self.judgements.drop_duplicates("judge")["judge_model"]
        lacking = {
            "no judge looked for required elements": (self.elements.empty, ("required_elements",)),
            "no judge was asked about hallucination": (
                self.hallucination_verdicts.empty, ("hallucination",)
            ),
            NO_VOTES: (self.pairs.empty, PAIRWISE),
            "nobody rated a reply": (self.human.empty, ("calibration",)),
            "no judge was asked anew on a later day": (self.drift.empty, ("judge_drift",)),
            "one model": (self.runs["model"].nunique() < 2, ("compare_models", "model_power")),
            f"one judge ({''.join(judges)}): not estimable": (len(judges) < 2, BY_JUDGES),
            "one prompt length" if self.runs["level"].isin([*LENGTH_BINS]).any() else UNVARIED: (
                self.runs["level"].nunique() < 2, BY_LENGTH
            ),
        }  # fmt: skip
        return {
            name: reason
            for reason, (lacks, names) in lacking.items()
            for name in names
            if lacks and not (name == "conditions" and self.factors)
        }

    @property
    def lacking(self) -> dict[str, str]:
        """Analyses without a result to show, by name, with the reason."""
        return self.absent | self.unanswerable

    def answers(self, *questions: str) -> bool:
        """Return whether all of some questions have a result to show, by the names of the analyses."""
        return self.lacking.keys().isdisjoint(questions)

    @property
    def unanswerable(self) -> dict[str, str]:
        """Analyses that these frames do not allow, by name, with the reason."""
        by_key = {} if self.is_keyed else dict.fromkeys(BY_KEY, "answers are not compared with a key")
        own = {"length": f"what is varied is {self.factor}"} if self.factor else {}
        return {**by_key, **own, **self._unanswerable}


def _reliability(judgements: pd.DataFrame, scores: Sequence[str]) -> Reliability:
    from toolkit.store.frames import ratings_frame, repeats_frame

    return stats.reliability(ratings_frame(judgements, scores), repeats_frame(judgements, scores))


def _judge_drift(
    drift: pd.DataFrame, scores: Sequence[str], score: str
) -> Mapping[tuple[str, str], JudgeDrift]:
    rows = drift[drift["dimension"].isin(scores)] if len(drift) else drift
    days = rows.groupby(["anchor", "day"], sort=False) if len(rows) else ()
    drifts = {}
    for (anchor, day), part in days:
        then, now = (part.assign(score=part[day_score]) for day_score in ("then", "now"))
        drifts[str(anchor), str(day)] = stats.judge_drift(then, now, composite=score)
    return drifts


def _generalizability(judgements: pd.DataFrame, runs: pd.DataFrame, **settings: Any) -> StudyGeneralizability:
    from toolkit.stats.generalizability.g_study import mean_cost, study_generalizability

    run_aud, judgement_aud = mean_cost(runs["aud_cost"]), mean_cost(judgements["aud_cost"])
    return study_generalizability(judgements, run_aud=run_aud, judgement_aud=judgement_aud, **settings)

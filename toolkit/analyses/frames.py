"""The frames of a study at one time, and what was calculated of them, each thing once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from toolkit.analyses import FACTORS
from toolkit.errors import Stopped
from toolkit.words import COMPOSITES, DIMENSIONS, SCALE, SCORE

if TYPE_CHECKING:
    import pandas as pd

    Frame = pd.DataFrame | Callable[[], pd.DataFrame]

R = TypeVar("R")


def without_arms(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of S, M and L themselves: a prompt of a length arm differs from them in more than its length."""
    if "length_arm" not in frame or not (of_arm := frame["length_arm"].notna()).any():
        return frame
    return frame[~of_arm].reset_index(drop=True)


@dataclass
class Results:
    """What was calculated, each result with the very frames and settings that it is of."""

    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    calculated: list[tuple[Any, ...]] = field(default_factory=list)
    """Calculation with identities of frames and settings; the frames, which live as long; and what came out."""

    def reuse_frame(self, kind: str, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the earlier frame where the new one is equal to it; else forget what was calculated from it."""
        earlier = self.frames.get(kind)
        if earlier is not None:
            if earlier.columns.equals(frame.columns) and earlier.equals(frame):
                return earlier
            outdated = {id(earlier)}
            for entry in list(self.calculated):
                (_, frame_ids, _), _, result = entry
                if not outdated.isdisjoint(frame_ids):
                    outdated.add(id(result))
                    self.calculated.remove(entry)
        self.frames[kind] = frame
        return frame

    def clear(self) -> None:
        """Forget everything."""
        self.frames.clear()
        self.calculated.clear()


def _frame(kind: str, meaning: str) -> cached_property[pd.DataFrame]:
    def read(self: Frames) -> pd.DataFrame:
        return self._results.reuse_frame(kind, without_arms(self._read(kind)))

    read.__doc__ = meaning
    return cached_property(read)


class Frames:
    """Frames at one time, and what was calculated of them; a frame that is a function is read when it is needed.

    Every frame is without the rows of length arms, so that no analysis mixes them with S, M and L; `runs_with_arms`
    alone has both.

    Parameters
    ----------
    runs, judgements
        One row a run, and one row a judgement.
    human, judged_otherwise, elements, drift, keyed_answers, pairs, methods, hallucination_verdicts
        One row a rating by a person, one a judgement on the other side of focus sentence prompting or of reference
        answers, one a judge that looked for the required elements in a run, one a score that was asked anew, one an
        answer that was compared with a key, one a vote on two replies, one a method of the one-shot test, and one a
        reply and judge that was asked whether it is a hallucination; none by default.
    name, seed
        Of the study.
    score, margin, primary, ceiling_share
        As in ``[analysis]`` and ``[judges]`` of the study file.
    length_normalization, weighted
        Whether findings speak of reply length and score, and of weights of the judges.
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
        drift: Frame | None = None,
        keyed_answers: Frame | None = None,
        *,
        pairs: Frame | None = None,
        methods: Frame | None = None,
        hallucination_verdicts: Frame | None = None,
        name: str = "",
        factor: str = "",
        crossed: str = "",
        seed: int = 0,
        score: str = SCORE,
        margin: float | None = None,
        primary: str | None = None,
        ceiling_share: float = 0.3,
        length_normalization: bool = False,
        weighted: bool = False,
        dimensions: Sequence[str] | Mapping[str, str] = DIMENSIONS,
        scale: tuple[float, float] = SCALE,
        unanswerable: Mapping[str, str] | None = None,
        results: Results | None = None,
    ) -> None:
        self._sources = {
            "runs": runs, "judgements": judgements, "human": human, "judged_otherwise": judged_otherwise,
            "elements": elements, "drift": drift, "keyed_answers": keyed_answers, "pairs": pairs,
            "hallucination_verdicts": hallucination_verdicts, "methods": methods,
        }  # fmt: skip
        self.name = name
        self.factor = factor
        self.crossed = crossed
        self.seed = seed
        self.score = score
        self.margin = margin
        self.primary = primary
        self.ceiling_share = ceiling_share
        self.length_normalization = length_normalization
        self.weighted = weighted
        self.dimensions = tuple(dimensions)
        self.titles = dict(dimensions) if isinstance(dimensions, Mapping) else {}
        self.scale = scale
        self._unanswerable = unanswerable or {}
        self._results = results or Results()

    def _read(self, kind: str) -> pd.DataFrame:
        import pandas as pd

        source = self._sources[kind]
        frame = source() if callable(source) else source
        return pd.DataFrame() if frame is None else frame

    @cached_property
    def _parted_runs(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        runs = self._read("runs")  # once for both: it is the largest frame
        plain = without_arms(runs)
        reuse = self._results.reuse_frame
        return reuse("runs", plain), reuse("runs_with_arms", runs.iloc[:0] if plain is runs else runs)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a run."""
        return self._parted_runs[0]

    @cached_property
    def runs_with_arms(self) -> pd.DataFrame:
        """One row a run, those of length arms too; empty where no prompt of an arm was asked."""
        return self._parted_runs[1]

    judgements = _frame("judgements", "One row a judgement.")
    human = _frame("human", "One row a rating by a person.")
    judged_otherwise = _frame(
        "judged_otherwise",
        "One row a judgement on the other side of focus sentences or of reference answers.",
    )
    elements = _frame(
        "elements", "One row a run and judge that looked for the required elements of its base."
    )
    drift = _frame("drift", "One row a day, reply, judge and score that was asked anew.")

    keyed_answers = _frame("keyed_answers", "One row an answer that was compared with a key.")
    pairs = _frame("pairs", "One row a vote of a judge on two replies to one prompt.")
    methods = _frame("methods", "One row a method of the one-shot test, with its question as the base.")
    hallucination_verdicts = _frame(
        "hallucination_verdicts",
        "One row a reply, and judge and prompt that called it a hallucination or not.",
    )

    def with_arms(self, kind: str) -> pd.DataFrame:
        """Return a frame with the rows of length arms too: what was done and paid, and not what is analysed."""
        if self.runs_with_arms.empty:
            frame: pd.DataFrame = getattr(self, kind)
            return frame
        return self.runs_with_arms if kind == "runs" else self._read(kind)

    @property
    def is_keyed(self) -> bool:
        """Whether scores come from a key and not from judges."""
        return self._sources["keyed_answers"] is not None

    def once(self, calculate: Callable[..., R], *frames: Any, **settings: Any) -> R:
        """Return what a calculation gives of frames under settings; it is done once for the same frames."""
        key = (calculate, tuple(map(id, frames)), settings)
        for stored_key, _, result in self._results.calculated:
            if stored_key == key:
                stored: R = result
                return stored
        try:
            calculated = calculate(*frames, **settings)
        except KeyboardInterrupt:
            raise Stopped("interrupted; an analysis changes nothing, so nothing is lost") from None
        self._results.calculated.append((key, frames, calculated))
        return calculated

    def rows_of(self, factor: str) -> pd.DataFrame:
        """Return the rows of a factor besides prompt length, with their levels in a column of its name, or none."""
        if factor in (self.factor, self.crossed):
            return self.runs
        if "spoken" in FACTORS[factor]:
            return self.once(_varied, self.methods, factor=factor)
        if factor == "length_arms":
            return self.once(_texts, self.runs_with_arms)
        if factor == "weights":
            if not self.weighted:
                return self.runs.iloc[:0]
            return self.once(_weighted, self.runs, self.judge_means, scores=(*self.dimensions, *COMPOSITES))
        return self.once(_both_ways, self.judgements, self.judged_otherwise, factor=factor)

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """The factors besides prompt length that these frames have."""
        own = [name for name in (self.factor, self.crossed) if name]
        return (*own, *(name for name in FACTORS if name not in own and not self.rows_of(name).empty))

    @property
    def votes(self) -> pd.DataFrame:
        """The votes with the prompt in the column that comparisons of pairs look for it in."""
        return self.once(_votes, self.pairs)

    @property
    def judge_means(self) -> pd.DataFrame:
        """One row a run and judge, repeats of a judgement averaged first."""
        from toolkit.store.frames import judge_means

        return self.once(judge_means, self.judgements, dimensions=self.dimensions)

    @property
    def scores(self) -> tuple[str, ...]:
        """The dimensions, and the composite that is compared."""
        return (*self.dimensions, self.score)

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

    @property
    def has_results(self) -> bool:
        """Whether any run has a score, or two replies were compared."""
        return self.is_judged or not self.pairs.empty

    def read(self) -> Self:
        """Read every frame now, so that all show the study at one time."""
        for kind in self._sources:
            getattr(self, kind)
        return self


def _both_ways(now: pd.DataFrame, otherwise: pd.DataFrame, *, factor: str) -> pd.DataFrame:
    """Return judgements with focus sentences or reference answers, and those of the same runs without.

    One side is that of the study; the other was asked alike in all else.
    """
    if now.empty or otherwise.empty:
        return otherwise.iloc[:0]

    def is_on(frame: pd.DataFrame, name: str) -> pd.Series[bool]:
        return frame["focus"] != "off" if name == "focus" else frame["reference"].astype(bool)

    alike, shown = "reference" if factor == "focus" else "focus", bool(is_on(now, factor).any())
    matching = is_on(otherwise, alike) == is_on(now, alike).any()
    other = otherwise[matching & (is_on(otherwise, factor) != shown)]
    off, on = FACTORS[factor]["levels"]
    return other if other.empty else _stacked(factor, {(off, on)[shown]: now, (on, off)[shown]: other})


def _weighted(runs: pd.DataFrame, judge_means: pd.DataFrame, *, scores: Sequence[str]) -> pd.DataFrame:
    """Return runs by the weights of the study, and by equal ones of the same judges."""
    means = judge_means.groupby("run_id")[list(scores)].mean()
    equal = {name: runs["run_id"].map(means[name]).where(runs[name].notna()) for name in scores}
    return _stacked("weights", {"equal": runs.assign(**equal), "specialization": runs})


def _stacked(factor: str, sides: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    rows = pd.concat(sides).rename(columns={"run_id": "run"})
    rows[factor] = rows.index.get_level_values(0)
    rows.attrs = dict(next(iter(sides.values())).attrs)
    return rows


def _texts(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of bases that have length arms, with the arm or else the length as the text that was asked."""
    if runs.empty:
        return runs
    arms = runs["length_arm"].astype("object")
    rows = runs.assign(length_arms=arms.where(arms.notna(), runs["level"].astype("object")))
    return rows[rows["base"].isin(rows.loc[arms.notna(), "base"])]


def _varied(methods: pd.DataFrame, *, factor: str) -> pd.DataFrame:
    """Return the methods of questions that were asked at several levels of a factor."""
    return methods if methods.empty else methods[methods.groupby("base")[factor].transform("nunique") > 1]


def _votes(pairs: pd.DataFrame) -> pd.DataFrame:
    return pairs if pairs.empty else pairs.assign(prompt=pairs["prompt_id"])

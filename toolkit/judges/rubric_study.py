"""The rubric study: an ensemble of judges scores every reply, and lengths are compared over bases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd
from scipy import special

from toolkit.errors import InputError
from toolkit.judges.ensemble import ensemble_evaluation
from toolkit.judges.judgement import Judgement, judge, judge_label
from toolkit.judges.request import PLAIN, JudgeSpec, Manner
from toolkit.judges.rubric import Rubric
from toolkit.models.base import Ask
from toolkit.prompt_test import (
    Annotator,
    MeasuredTestItem,
    Measurement,
    PromptReply,
    PromptResponseTest,
    PromptWithContext,
    Result,
    ResultType,
    TestItem,
    TestItemAnnotations,
    one_model,
)
from toolkit.prompts.dataset import clusters_of
from toolkit.stats.conditions.contrasts import compare_conditions
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.run_table import WHOLE, Points, in_order
from toolkit.stats.result import Estimate
from toolkit.words import COMPOSITES, counted

if TYPE_CHECKING:
    from toolkit.prompts.dataset import Prompt

SHARE = "share of runs"
UNJUDGED = "unjudged share"


class RubricStudy(PromptResponseTest):
    """Quality of replies by length bin, scored by an ensemble of judges."""

    name = "rubric_study"
    judged = True
    asks_judges = True

    def __init__(
        self, prompts: Sequence[Prompt], judges: Sequence[JudgeSpec], rubric: Rubric, manner: Manner = PLAIN
    ) -> None:
        roles = [spec.role for spec in judges]
        if len(set(roles)) < len(roles):
            raise InputError(f"judges {', '.join(roles)}: a role is used twice; give each judge its own")
        self.prompts = tuple(prompts)
        self.judges = tuple(judges)
        self.rubric = rubric
        self.manner = manner
        self.unit = Points(rubric.scale)

    def make_test_items(self) -> tuple[TestItem, ...]:
        """Return one item per prompt."""
        return tuple(
            TestItem(
                prompt.prompt_id,
                (PromptWithContext(prompt, prompt.metadata.get("reference")),),
                prompt,
            )
            for prompt in self.prompts
        )

    def annotators(self) -> Mapping[str, Annotator]:
        """Return the judges by label: one for each judge and repeated judgement."""
        return {
            judge_label(spec.role, again): partial(self._annotate, spec, again)
            for spec in self.judges
            for again in range(self.manner.repeats)
        }

    async def _annotate(self, spec: JudgeSpec, again: int, reply: PromptReply, ask: Ask) -> Judgement | None:
        related = reply.model in spec.related
        if related and self.manner.related == "exclude":
            return None
        return await judge(
            reply.text or "",
            reply.prompt.text,
            judge=spec.of_run(reply.repeat, again),
            rubric=self.rubric,
            ask=ask,
            manner=self.manner,
            judge_repeat=again,
            related=related,
            reference=reply.prompt.context or "",
        )

    def measure_quality(self, item_annotations: TestItemAnnotations) -> list[Measurement]:
        """Return composites and dimensions as means over the judges that count, and the number of judges."""
        judgements = [votes[0] for votes in item_annotations.annotations.values() if votes[0] is not None]
        aggregated = ensemble_evaluation(judgements, self.rubric.scheme, judges=self.judges)["aggregated"]
        reply, reason = item_annotations.replies[0], None
        if reply.text is None and not aggregated["judged"]:
            reason = f"run failed: {reply.failure}"
        elif not aggregated["judged"]:
            failed = [judgement for judgement in judgements if judgement.failed]
            counting = len({judgement.judge for judgement in judgements if not judgement.failed})
            reasons = "".join(f"; {judgement.label}: {judgement.reason}" for judgement in failed)
            reason = f"unjudged: {counting} of {len(self.judges)} judges count{reasons}"
        means = aggregated["mean_scores"].items()
        measurements = [Measurement(name, mean, self.unit, reason) for name, mean in means]
        measurements.append(Measurement("zeros", aggregated["zeros"], "scores", reason))
        measurements.append(Measurement("judge_count", aggregated["judge_count"], "judges"))
        return measurements

    def result_types(self) -> tuple[ResultType, ...]:
        """Return the mean of both composites for each length bin of the dataset, and the unjudged share."""
        names = [f"mean {score}, {name}" for score in self._composites() for name in self._levels()]
        means = [ResultType(name, self.unit) for name in names]
        return (*means, ResultType(UNJUDGED, SHARE))

    def aggregate_measurements(self, measured_items: Sequence[MeasuredTestItem]) -> list[Result]:
        """Return the results of one model, with intervals over bases: the prompts of a base are one block."""
        one_model(measured_items)
        # A prompt of a length arm differs from M or L in more than its length: it is no M or L to be averaged with.
        measured_items = [item for item in measured_items if "length_arm" not in item.item.context.metadata]
        clusters = clusters_of(self.prompts)
        bases = pd.Series([measured.item.context.base for measured in measured_items], dtype="object")
        levels = [measured.item.context.level or WHOLE for measured in measured_items]
        runs = pd.DataFrame({"base": bases, "cluster": bases.map(clusters), "level": levels})
        if set(levels) == {WHOLE}:
            runs.attrs["base"] = "prompts"
        for name in (*COMPOSITES, "zeros"):
            runs[name] = pd.Series([measured.value(name) for measured in measured_items], dtype="float64")
        runs.attrs |= {"scale": self.rubric.scale, "levels": self._levels()}
        means = [mean for score in self._composites() for mean in self._means(runs, score)]
        return [*means, _unjudged_share(runs)]

    def _composites(self) -> Sequence[str]:
        """Return the composites that may differ: only that of the seed leaves out zeros."""
        return COMPOSITES if self.rubric.scheme.is_of_seed else COMPOSITES[:1]

    def _means(self, runs: pd.DataFrame, score: str) -> list[Result]:
        means = {mean.name: mean for mean in compare_conditions(runs, score).per_level}
        results = []
        for name in self._levels():
            note = means[name].note
            if score == "composite" and self.rubric.scheme.is_of_seed:  # it leaves out true zeros
                zeros = int(runs.loc[runs["level"] == name, "zeros"].sum())
                note = "; ".join(filter(None, [note, f"{counted(zeros, 'scores')} of 0 left out"]))
            results.append(replace(means[name], name=f"mean {score}, {name}", note=note))
        return results

    def _levels(self) -> list[str]:
        """Return the levels of the prompts: lengths from short to long, others in their order."""
        levels = list(dict.fromkeys(prompt.level or WHOLE for prompt in self.prompts))
        return in_order(levels, levels)


@over_clusters
def _unjudged_share(runs: pd.DataFrame) -> Result:
    """Return the share of runs without a composite, with an interval that also exists for 0 and for 1."""
    # Clopper-Pearson with the number of bases for the number of runs: as wide as if a base had all its runs judged, or
    # none (Korn & Graubard 1998, with the largest design effect).
    missing = runs["composite"].isna()
    bases = runs["unit"].nunique()
    counts = {"runs": len(runs), "bases": bases}
    if not len(runs):
        return Estimate(UNJUDGED, None, unit=SHARE, n=counts, note="there are no runs")
    share = float(missing.mean())
    hits = share * bases
    return Estimate(
        UNJUDGED,
        share,
        low=float(special.betaincinv(hits, bases - hits + 1, 0.025)) if share > 0 else 0.0,
        high=float(special.betaincinv(hits + 1, bases - hits, 0.975)) if share < 1 else 1.0,
        method="Clopper-Pearson over bases",
        unit=SHARE,
        n=counts,
        note="failed runs are unjudged too",
    )

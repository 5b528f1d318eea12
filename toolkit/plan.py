"""A study made concrete: its prompts, models, judges and every run, before anything is sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from toolkit.judges.ask import JudgeSpec
from toolkit.judges.rubric import Rubric, load_rubric
from toolkit.models.catalogue import ModelSpec, model_spec
from toolkit.prompt_test import PromptResponseTest
from toolkit.prompts.dataset import Dataset, load_dataset
from toolkit.protocols.rubric_study import RubricStudy
from toolkit.runs.plan import PlannedRun, plan_runs
from toolkit.study import ModelEntry, StudyFile


@dataclass(frozen=True)
class Plan:
    """Everything a study will do.

    Parameters
    ----------
    study
        The checked study file.
    folder
        The folder it stands in; a ``.env`` is looked for there.
    dataset, models, judge_models, judges, rubric, test
        What the file names, loaded.
    runs
        Every run, in the order in which it is asked.
    """

    study: StudyFile
    folder: Path
    dataset: Dataset
    models: Mapping[str, ModelSpec]
    judge_models: Mapping[str, ModelSpec]
    judges: Mapping[str, JudgeSpec]
    rubric: Rubric
    test: PromptResponseTest
    runs: tuple[PlannedRun, ...]

    @property
    def output(self) -> Path:
        """Folder of figures, tables and notebooks."""
        return self.study.output or self.folder / "results" / self.study.name

    @property
    def store_folder(self) -> Path:
        """Folder of the embedded store, shared by all studies of one results folder."""
        return self.output.parent / ".store"

    @cached_property
    def call_ids(self) -> tuple[str, ...]:
        """Identities of the calls that answer the runs."""
        return tuple(run.call_id for run in self.runs)

    @cached_property
    def ensemble_key(self) -> str:
        """What the judgements of a run depend on; a run judged under another key is judged again."""
        judges = {role: asdict(judge) for role, judge in self.judges.items()}
        return hashlib.sha256(json.dumps([self.rubric.digest, judges], sort_keys=True).encode()).hexdigest()


def make_plan(study: StudyFile, folder: Path) -> Plan:
    """Plan a study: load its dataset, models, judges and rubric, and list every run.

    Parameters
    ----------
    study
        A checked study file.
    folder
        The folder it stands in.

    Raises
    ------
    InputError
        When the dataset, a model or the rubric cannot be used.
    """
    dataset = load_dataset(study.dataset)
    prompts = tuple(
        prompt
        for prompt in dataset.prompts
        if prompt.scenario in study.scenarios and prompt.length_bin in study.length_bins
    )
    models = {entry.name: spec_of(entry) for entry in study.models}
    judge_models = {role: spec_of(judge) for role, judge in study.judges.by_role().items()}
    judges = _judges(study, judge_models)
    rubric = load_rubric(study.judges.rubric)
    test = RubricStudy(prompts, tuple(judges.values()), rubric)
    runs = plan_runs(
        test.make_test_items(),
        models,
        repeats=study.repeats,
        temperature=study.sampling.temperature,
        max_tokens=study.sampling.max_tokens,
        top_p=study.sampling.top_p,
        seed=study.seed,
    )
    return Plan(study, folder, dataset, models, judge_models, judges, rubric, test, runs)


def spec_of(entry: ModelEntry) -> ModelSpec:
    """Return what the catalogue and the study together say of a model."""
    return model_spec(entry.name, **entry.overrides())


def _judges(study: StudyFile, specs: Mapping[str, ModelSpec]) -> dict[str, JudgeSpec]:
    judges: dict[str, JudgeSpec] = {}
    for role, entry in study.judges.by_role().items():
        spec = specs[role]
        # Judges that are the same model are repeats of each other, or their calls would be one call.
        same = sum(
            (other.provider, other.model, other.endpoint) == (spec.provider, spec.model, spec.endpoint)
            for other in judges.values()
        )
        judges[role] = JudgeSpec(
            role=role,
            name=entry.name,
            provider=spec.provider,
            model=spec.model,
            endpoint=spec.endpoint,
            temperature=study.judges.temperature,
            max_tokens=study.judges.max_tokens,
            structured=spec.structured,
            seed=study.seed,
            seed_supported=spec.seed_supported,
            repeat=same,
            specialization=entry.specialization,
        )
    return judges

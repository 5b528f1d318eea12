"""A study made concrete: its prompts, models, judges and every run, before anything is sent."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, overload

from toolkit.errors import StudyError, variables
from toolkit.files.digests import sha256_hex
from toolkit.files.reading import read_text
from toolkit.judges.judgement import judgement_requests
from toolkit.judges.pairs import Pair, Slot, draw_pairs
from toolkit.judges.request import JudgeSpec, Manner
from toolkit.judges.rubric import SEED_RUBRIC, Rubric, load_rubric
from toolkit.models.base import Message, ModelRequest
from toolkit.models.catalogue import SCRIPTED, Exchange, ModelSpec
from toolkit.models.entries import Judge, ModelEntry, model_address
from toolkit.models.prices import table_exchange
from toolkit.prompt_test import (
    PromptResponseTest,
    PromptWithContext,
    TestItem,
    code_of_users,
    find_test,
    make_test,
    study_parameters,
)
from toolkit.prompts.check import check_dataset, flaw_counts
from toolkit.prompts.dataset import Dataset, Prompt, clusters_of, dataset_of, load_dataset, without_arms
from toolkit.prompts.factor import Factor, Level
from toolkit.prompts.levels import with_levels
from toolkit.study_file import StudyFile
from toolkit.words import CROSSED, LENGTH_BINS, SCENARIOS, SCORE, choices, counted, joined, scenario_key

STORE = ".store"  # folder of the embedded store in a results folder


RunKey = tuple[str, str, int]
"""Prompt id, model and repeat, which name a run of a study."""


@dataclass(frozen=True)
class PlannedRun:
    """One run to be: a prompt of a test item, a model, a repeat, and the request."""

    item: TestItem
    prompt: PromptWithContext
    model: str
    repeat: int
    request: ModelRequest
    spec: ModelSpec
    """The model as the level of its prompt has it asked."""
    level: str

    @property
    def key(self) -> RunKey:
        """What names this run within its study: prompt, model and repeat."""
        return self.prompt.prompt_id, self.model, self.repeat

    @property
    def call_id(self) -> str:
        """The identity of the call that answers this run."""
        return self.request.identity()

    @property
    def of_arm(self) -> bool:
        """Whether its prompt is a length arm, which the analyses of S, M and L leave out."""
        return "length_arm" in getattr(self.item.context, "metadata", ())


@dataclass(frozen=True, eq=False)
class PlannedRuns(Sequence[PlannedRun]):
    """The runs of a plan, model by model. Each is made when it is needed, so that a plan of any length is small."""

    study: StudyFile
    models: Mapping[str, ModelSpec]
    prompts: tuple[tuple[TestItem, PromptWithContext], ...]
    together: bool
    part: Sequence[RunKey] | None = None
    """Which of all runs are here; all where it is left out."""

    @cached_property
    def times(self) -> int:
        """How often each prompt is asked: once where it belongs to one repeat."""
        return 1 if any(prompt.repeat is not None for _, prompt in self.prompts) else self.study.repeats

    @property
    def per_model(self) -> int:
        """Runs of each model, were all of them here."""
        return len(self.prompts) * self.times

    @cached_property
    def run_keys(self) -> Sequence[RunKey]:
        """What names each run that is here, in the order in which they are asked."""
        if self.part is not None:
            return self.part
        prompts, repeats = [prompt for _, prompt in self.prompts], range(self.times)
        pairs = list(product(prompts, repeats))
        if not self.together:
            pairs = [(prompt, repeat) for repeat, prompt in product(repeats, prompts)]
        return [
            (prompt.prompt_id, model, prompt.repeat or repeat)
            for model in self.models
            for prompt, repeat in pairs
        ]

    @cached_property
    def _indices(self) -> dict[RunKey, int]:
        return {key: index for index, key in enumerate(self.run_keys)}

    @cached_property
    def _prompt_numbers(self) -> dict[str, int]:
        return {prompt.prompt_id: number for number, (_, prompt) in enumerate(self.prompts)}

    def __len__(self) -> int:
        return len(self.run_keys)

    @overload
    def __getitem__(self, index: int) -> PlannedRun: ...

    @overload
    def __getitem__(self, index: slice) -> PlannedRuns: ...

    def __getitem__(self, index: int | slice) -> PlannedRun | PlannedRuns:
        if isinstance(index, slice):
            return replace(self, part=self.run_keys[index])
        prompt_id, name, repeat = self.run_keys[index]
        spec, (item, prompt) = self.models[name], self.prompts[self._prompt_numbers[prompt_id]]
        asked = item.context if isinstance(item.context, Prompt) else Prompt("")
        level = self.study.level_of(asked.level, asked.metadata.get(CROSSED, ""))
        spec = level.model(spec)
        sampling, steered = level.sampling(self.study.sampling), spec.takes_sampling
        system = (Message("system", level.system),) if level.system else ()
        request = ModelRequest(
            provider=spec.provider,
            model=spec.model,
            messages=(*system, Message("user", prompt.text)),
            temperature=sampling.temperature if steered else None,
            max_tokens=sampling.max_tokens,
            top_p=sampling.top_p if steered else None,
            seed=self.study.seed + repeat if spec.seed_supported else None,
            endpoint=spec.endpoint,
            repeat=repeat,
            options=spec.options,
        )
        return PlannedRun(item, prompt, name, repeat, request, spec, asked.level)

    @cached_property
    def call_ids(self) -> tuple[str, ...]:
        """Identities of the calls that answer the runs."""
        return tuple(run.call_id for run in self)

    def model_of(self, index: int) -> str:
        """Return the model of a run."""
        return self.run_keys[index][1]

    def number_in_model(self, index: int) -> int:
        """Return the number of a run among those of its model."""
        prompt_id, _, repeat = self.run_keys[index]
        number, repeat = self._prompt_numbers[prompt_id], repeat % self.times
        return number * self.times + repeat if self.together else repeat * len(self.prompts) + number

    def find(self, prompt_id: str, model: str, repeat: int, call_id: str) -> int | None:
        """Return the index of a run that this call answers, ``None`` where none is planned."""
        index = self._indices.get((prompt_id, model, repeat))
        return index if index is not None and self.call_ids[index] == call_id else None

    def of_prompts(self, prompt_ids: Container[str]) -> PlannedRuns:
        """Return every run of some prompts."""
        prompts = tuple(pair for pair in self.prompts if pair[1].prompt_id in prompt_ids)
        return replace(self, prompts=prompts, part=None)

    def windows(self, size: int) -> Iterator[tuple[str, Sequence[PlannedRun]]]:
        """Yield a model and some of its runs, about ``size``, with all runs of an item in one repeat together."""
        runs: list[PlannedRun] = []
        for run in self:
            if runs:
                last = runs[-1]
                same_item = run.item is last.item and (self.together or run.repeat == last.repeat)
                if run.model != last.model or (len(runs) >= size and not same_item):
                    yield last.model, runs
                    runs = []
            runs.append(run)
        if runs:
            yield runs[-1].model, runs


@dataclass(frozen=True)
class Plan:
    """Everything a study will do."""

    study: StudyFile
    folder: Path
    dataset: Dataset
    models: Mapping[str, ModelSpec]
    judge_models: Mapping[str, ModelSpec]
    judges: Mapping[str, JudgeSpec]
    manner: Manner
    rubric: Rubric
    test: PromptResponseTest
    runs: PlannedRuns
    uncalibrated: str = ""
    """That the judges did not pass their gate, as a sentence."""

    @cached_property
    def flaws(self) -> dict[str, int]:
        """How many flaws the dataset has, by kind; see `toolkit.prompts.check`. A user's own test has none."""
        binned = {prompt.level for prompt in self.dataset.prompts} <= LENGTH_BINS.keys()
        return flaw_counts(check_dataset(self.dataset)) if binned else {}

    @property
    def warning(self) -> str:
        """What every page says first: what scripts answered or judged, and that judges did not pass their gate."""
        sentences = (
            _scripted("Replies", self.models, "No model answered: replies are scripted."),
            _scripted("Judgements", self.judge_models, "Judgements are scripted."),
            self.uncalibrated,
        )
        return " ".join(filter(None, sentences))

    @property
    def note(self) -> str:
        """What every caption of this study must say after its numbers."""
        accepted = [f"{kind} ({self.flaws[kind]})" for kind in self.study.accept_flaws if kind in self.flaws]
        sentence = f"Flaws of the dataset accepted in the study file: {', '.join(accepted)}."
        weights = "Judges count twice on the dimensions of their specialization."
        notes = [
            self.study.note,
            sentence if accepted else "",
            weights if self.weighted else "",
        ]
        return " ".join(filter(None, notes))

    @property
    def output(self) -> Path:
        """Folder of figures, tables and notebooks."""
        return self.study.output or self.folder / "results" / self.study.name

    @property
    def store_folder(self) -> Path:
        """Folder of the embedded store, shared by all studies of one results folder."""
        return self.output.parent / STORE

    @property
    def call_ids(self) -> tuple[str, ...]:
        """Identities of the calls that answer the runs."""
        return self.runs.call_ids

    @property
    def exchange(self) -> Exchange:
        """The exchange rate that calls are booked with from now on."""
        return self.study.budget.exchange or table_exchange()

    @cached_property
    def clusters(self) -> dict[str, str]:
        """The independent unit of each base of the dataset, whichever of its texts are asked."""
        return clusters_of(self.dataset.prompts)

    @cached_property
    def ensemble_key(self) -> str:
        """What the judgements of a run depend on; a run judged under another key is judged again."""
        judges = {role: asdict(judge) for role, judge in self.judges.items()}
        for fields in judges.values():
            if not fields["doubled"]:  # equal weights have the key that they had without any
                del fields["doubled"]
        references = [
            [prompt.prompt_id, prompt.metadata.get("reference")]
            for prompt in (self.dataset.prompts if self.manner.reference else ())
        ]
        # What is asked of a short reply stands for the words of all requests, those of the toolkit itself too.
        identities = [
            request.identity()
            for judge in self.judges.values()
            for request in judgement_requests(
                judge, self.rubric, task="Task.", response="Reply.", manner=self.manner
            )
        ]
        key = [self.rubric.digest, judges, asdict(self.manner), references, identities]
        return sha256_hex(json.dumps(key, sort_keys=True))

    @property
    def weighted(self) -> bool:
        """Whether judges count twice on the dimensions of their specialization."""
        return self.study.judges.weights == "specialization"

    @property
    def scored(self) -> bool:
        """Whether judges score every reply."""
        return self.test.judged and self.study.judges.mode != "pairs"

    @property
    def compared(self) -> bool:
        """Whether judges compare replies in pairs."""
        return self.test.judged and self.study.judges.mode != "scores"

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs of replies that judges compare."""
        if not self.compared:
            return ()
        prompts = {prompt.prompt_id: prompt for prompt in without_arms(self.dataset.prompts)}
        slots = (
            Slot(prompt.prompt_id, repeat, prompt.base, prompt.scenario, prompt.level)
            for prompt in (prompts[a.prompt_id] for _, a in self.runs.prompts if a.prompt_id in prompts)
            for repeat in range(self.study.repeats)
        )
        return draw_pairs(slots, list(self.models), self.study.judges.pairs, self.study.seed)

    @cached_property
    def prompts(self) -> dict[str, PromptWithContext]:
        """The prompts that are asked, by id."""
        return {prompt.prompt_id: prompt for _, prompt in self.runs.prompts}

    @cached_property
    def sources(self) -> dict[str, Prompt]:
        """The prompts of the dataset, by id."""
        return {prompt.prompt_id: prompt for prompt in self.dataset.prompts}

    @cached_property
    def crossed(self) -> Factor | None:
        """The second factor: that of the study file, or prompt length where the dataset has several."""
        given = self.study.factors[1:]
        levels = {prompt.metadata[CROSSED] for prompt in self.dataset.prompts if CROSSED in prompt.metadata}
        if given or not levels:
            return given[0] if given else None
        bins = {name: Level() for name in LENGTH_BINS if name in levels}
        return Factor.model_construct(name="length", title="prompt length", levels=bins)

    def judges_of(self, model: str) -> dict[str, JudgeSpec]:
        """Return the judges that judge a model, by role: those of its own family do not where they are excluded."""
        excluded = self.manner.related == "exclude"
        return {
            role: judge for role, judge in self.judges.items() if not (excluded and model in judge.related)
        }


def make_plan(study: StudyFile, folder: Path, recorded: Any = None) -> Plan:
    """Plan a study: load its dataset, models, judges and rubric, and list every run; a recorded test runs no code."""
    test_class = recorded or find_test(study.test, folder)
    parameters = recorded.parameters if recorded else study_parameters(test_class)
    dataset = None
    if "prompts" in parameters:
        checks = "range" not in study.accept_flaws
        dataset = load_dataset(
            study.dataset, check_ranges=checks, length_arms=study.length_arms, columns=study.columns
        )
        if study.factor:
            dataset = _at_levels(dataset, study, folder)
    elif study.factor:
        raise StudyError(f"factor: test {study.test} asks no prompts of a dataset; leave it out")
    around = _level_lines(dataset.prompts) if dataset and study.factor else ()

    def spec_of(entry: ModelEntry) -> ModelSpec:
        fresh = study.name if study.fresh else None
        return replace(entry.spec, exchange=study.budget.exchange, fresh=fresh, around=around)

    if dataset:
        _refuse_unplanted(study, [prompt.text for prompt in dataset.prompts])
    models = {entry.label: spec_of(entry) for entry in study.under_test}
    entries = study.judges.by_role() if "judges" in parameters else {}
    judge_models = {role: spec_of(judge) for role, judge in entries.items()}
    rubric = load_rubric(study.judges.rubric)
    if study.analysis.score != SCORE and rubric.name != SEED_RUBRIC:
        raise StudyError(
            f"analysis.score: {study.analysis.score} beside {SCORE} is of the rubric {SEED_RUBRIC} alone; leave it out"
        )
    judges = _judges(study, judge_models, models, rubric)
    manner = _manner(study, rubric)
    study, prompts = _study_prompts(study, dataset)
    if manner.reference:
        _refuse_without_reference(prompts, dataset.name if dataset else "", study.test)
    arguments: dict[str, Any] = {"judges": tuple(judges.values()), "manner": manner, "rubric": rubric}
    if dataset:
        arguments["prompts"] = prompts
    test = recorded or make_test(test_class, study.options, {**arguments, "folder": folder, "study": study})
    if not test.judged and study.judges.mode != "scores":
        raise StudyError(
            f"judges.mode: test {test.name} has no replies that judges compare; leave out "
            f'mode = "{study.judges.mode}"'
        )
    if not test.asks_judges:
        judges, judge_models = {}, {}
    real = [name for name, spec in models.items() if spec.provider != SCRIPTED]
    for role, spec in judge_models.items():
        if real and spec.provider == SCRIPTED and not spec.planted:
            raise StudyError(
                f"judges.{role}: {spec.name} is scripted, and would make up what it says of replies of {joined(real)}; "
                "name a model that reads them"
            )
    items = _items(test)
    dataset = dataset or dataset_of(test.name, items)
    planned = tuple((item, prompt) for item in items for prompt in item.prompts)
    for (_, prompt), (value, name) in product(planned, variables().items()):
        if value in prompt.text:
            raise StudyError(
                f"prompt {prompt.prompt_id}: holds the value of the variable {name}, which no prompt may have; "
                "take it out"
            )
    runs = PlannedRuns(study, models, planned, test.repeats_together)
    return Plan(study, folder, dataset, models, judge_models, judges, manner, rubric, test, runs)


def _scripted(kind: str, specs: Mapping[str, ModelSpec], sentence: str) -> str:
    """Return a sentence on what scripts gave of one kind; nothing where models gave all of it."""
    names = [spec.name for spec in specs.values() if spec.provider == SCRIPTED]
    if not names:
        return ""
    return sentence if len(names) == len(specs) else f"{kind} of {joined(names)} are scripted."


def _at_levels(dataset: Dataset, study: StudyFile, folder: Path) -> Dataset:
    """Return a dataset at the levels of the study's factors, with the texts of their files."""
    prompts = [prompt for prompt in dataset.prompts if prompt.level in ("", *study.length_bins)]
    dataset = replace(dataset, prompts=tuple(prompts))
    for factor in study.factors:
        templates = {name: level.prompt for name, level in factor.levels.items()}
        texts = {
            name: read_text(folder / path, f"factor.files.{name}").strip()
            for name, path in factor.files.items()
        }
        second = factor is not study.factor
        dataset = with_levels(dataset, factor.name, templates, texts, factor.from_, crossed=second)
    return dataset


def _refuse_unplanted(study: StudyFile, texts: list[str]) -> None:
    """Refuse a planted effect of a text that no prompt and no system message has."""
    texts += [level.system for level in study.levels.values() if level.system]
    for number, entry in enumerate(study.models):
        added = (entry.planted and entry.planted.added) or ()
        if absent := [mark for mark in added if not any(mark in text for text in texts)]:
            raise StudyError(
                f"models[{number}].planted.added: no prompt and no system message has {absent[0]!r}; write what one has"
            )


def _level_lines(prompts: Iterable[Prompt]) -> tuple[str, ...]:
    """Return the lines that all prompts of some level share."""
    lines: dict[str, list[set[str]]] = defaultdict(list)
    for prompt in prompts:
        lines[prompt.level].append({line for line in prompt.text.splitlines() if line.strip()})
    return tuple(sorted(set().union(*(set.intersection(*texts) for texts in lines.values()))))


def _manner(study: StudyFile, rubric: Rubric) -> Manner:
    controls, settings = study.bias_controls, study.judges
    return Manner(
        focus=controls.fsp_mode if controls.fsp_enabled else "off",
        focus_sentences=controls.fsp_sentences,
        length_normalization=controls.length_normalization,
        shuffle=settings.shuffle_dimensions,
        repair=settings.repair,
        expected=settings.expected_scores,
        repeats=settings.repeats,
        related=settings.related,
        reference=rubric.shows_reference if settings.reference is None else settings.reference,
    )


def _study_prompts(study: StudyFile, dataset: Dataset | None) -> tuple[StudyFile, tuple[Prompt, ...]]:
    """Return a study with the names of its scenarios as the dataset has them, and the prompts that it asks for."""
    # The default of datasets with none but the seed's is all three of them: it is among what a study decided.
    prompts = dataset.prompts if dataset else ()
    existing = dict.fromkeys(prompt.scenario for prompt in prompts)
    allowed = SCENARIOS if existing.keys() <= {*SCENARIOS} else tuple(existing)
    spelled = {scenario_key(name): name for name in allowed}
    names = (
        name if name in allowed else spelled.get(scenario_key(name), name)
        for name in study.scenarios or allowed
    )
    scenarios = tuple(dict.fromkeys(names))
    study = study.model_copy(update={"scenarios": scenarios})
    if dataset and (unallowed := [name for name in scenarios if name not in allowed]):
        raise StudyError(
            f"scenarios: {choices(unallowed[0], existing, f'dataset {dataset.name} has no {unallowed[0]!r}; it has')}"
        )
    prompts = tuple(
        prompt
        for prompt in prompts
        if prompt.scenario in scenarios and (study.factor or prompt.level in ("", *study.length_bins))
    )
    bases = sorted({prompt.base for prompt in prompts})
    if study.bases is not None and bases:
        if study.bases > len(bases):
            raise StudyError(
                f"bases = {study.bases}: the scenarios named have {len(bases)}; ask for at most as many"
            )
        chosen = set(random.Random(study.seed).sample(bases, study.bases))
        prompts = tuple(prompt for prompt in prompts if prompt.base in chosen)
    if study.length_arms and len(without_arms(prompts)) == len(prompts):
        source = f"dataset {dataset.name}" if dataset else f"test {study.test}"
        raise StudyError(
            f"length_arms: {source} has none in the bases and lengths asked; leave length_arms out"
        )
    return study, prompts


def _refuse_without_reference(prompts: Sequence[Prompt], dataset: str, test: str) -> None:
    """Refuse a study that shows reference answers where bases have none: scores with and without do not mix."""
    lacking = list(dict.fromkeys(prompt.base for prompt in prompts if not prompt.metadata.get("reference")))
    if lacking or not prompts:
        names = ", ".join(lacking[:3]) + f", {len(lacking) - 3} more" * (len(lacking) > 3)
        without = f"{counted(len(lacking), 'bases')} of dataset {dataset} without one ({names})"
        raise StudyError(
            f"judges.reference: the judges are to see reference answers, and there are "
            f"{without if prompts else f'none in test {test}'}; give each base the key reference, or set "
            "judges.reference = false"
        )


def _items(test: PromptResponseTest) -> tuple[TestItem, ...]:
    with code_of_users(f"test {test.name}: make_test_items failed"):
        items = tuple(test.make_test_items())
    prompt_ids = [prompt.prompt_id for item in items for prompt in item.prompts]
    for kind, names in (("item", [item.item_id for item in items]), ("prompt", prompt_ids)):
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise StudyError(f"test {test.name}: {kind} {twice[0]!r} is there twice; give each its own name")
    if not any(item.prompts for item in items):
        raise StudyError(f"test {test.name}: make_test_items returned no prompt")
    return items


def _judges(
    study: StudyFile, specs: Mapping[str, ModelSpec], models: Mapping[str, ModelSpec], rubric: Rubric
) -> dict[str, JudgeSpec]:
    judges: dict[str, JudgeSpec] = {}
    entries = study.judges.by_role()
    is_weighted = study.judges.weights == "specialization"
    for role, spec in specs.items():
        judges[role] = JudgeSpec(
            role=role,
            name=entries[role].label,
            provider=spec.provider,
            model=spec.model,
            endpoint=spec.endpoint,
            temperature=study.judges.temperature if spec.takes_sampling else None,
            max_tokens=study.judges.max_tokens,
            structured=spec.structured,
            seed=study.seed,
            seed_supported=spec.seed_supported,
            # Judges that are the same model are repeats of each other, or their calls would be one call.
            repeat=[model_address(earlier) for earlier in judges.values()].count(model_address(spec)),
            specialization=entries[role].specialization,
            doubled=_special_dimensions(role, entries[role], rubric) if is_weighted else (),
            logprobs=spec.logprobs,
            options=spec.options,
            related=tuple(name for name, model in models.items() if model.family == spec.family),
        )
    return judges


def _special_dimensions(role: str, judge: Judge, rubric: Rubric) -> tuple[str, ...]:
    """Return the dimensions that a judge's specialization names."""
    text = judge.specialization.lower().replace("_", " ")
    names = tuple(name for name in rubric.names if name.replace("_", " ") in text)
    if not names:
        raise StudyError(
            f'judges.{role}: weights = "specialization" counts it twice on the dimensions that its specialization '
            f"{text!r} names, which are none of rubric {rubric.name!r}; write some of "
            f"{', '.join(rubric.names).replace('_', ' ')}, or leave weights out"
        )
    return names

"""The study file: typed, checked, frozen tables, the one place where defaults live, and how a file of them is read.

Paths are relative to the file, and each fault is a line with file, key and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from toolkit.errors import MOST_FAULTS, InputError, StudyError, remember, secret_fault
from toolkit.files.hub import is_hub
from toolkit.files.reading import read_toml, similar_file
from toolkit.files.strict import fault_sentence
from toolkit.models.catalogue import Exchange, options_fault
from toolkit.models.entries import (
    AtOnce,
    Count,
    Judge,
    ModelEntry,
    NamedJudge,
    NamedModel,
    Positive,
    Provider,
    Reasoning,
    Sampling,
    Table,
    model_address,
)
from toolkit.models.prices import table_exchange
from toolkit.models.registry import address_of, read_environment
from toolkit.prompts.factor import AS_EVERYWHERE, Factor, FirstFactor, Level
from toolkit.words import JUDGE_ROLES, LENGTH_BINS, PLACEHOLDER, choices, joined

LengthBin = Literal["S", "M", "L"]
Entry = TypeVar("Entry", bound=ModelEntry)


def _file_name(text: str) -> str:
    """Refuse a name that cannot be a folder's and a label's on every system, and show one that can."""
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "-" for sign in text)
    if plain != text or not text[:1].isalnum():
        better = plain.strip("._-") or "my-study"
        raise ValueError(
            "a name has the letters a to z, digits, '.', '_' and '-', no blanks, and begins with a letter or digit, "
            f"for example {better}"
        )
    return text


Slug = Annotated[str, Field(max_length=80), AfterValidator(_file_name)]


class Gate(Table):
    """What agreement with people every judge must show before the full spend."""

    least: float = Field(gt=-1, lt=1)
    """Least lower end of the 95 % interval of ICC(A,1) between a judge and the people, in every dimension."""
    below: Literal["stop", "report"] = "stop"
    """Whether a study whose judges agree less stops, or goes on and says so on every page."""


class Judges(Table):
    """The ensemble and how it is asked (seed 002, section 4.2)."""

    mode: Literal["scores", "pairs", "both"] = "scores"
    """Whether judges score every reply, compare replies in pairs, or do both."""
    pairs: Count | None = None
    """Pairs of replies that are compared for each two models, drawn by the seed; all where it is left out."""
    rubric: str = "default"
    """Rubric of the judges: `default`, `seed-v1`, or a TOML file of your own."""
    temperature: float = Field(0.1, ge=0, le=2)
    """Temperature of the judges."""
    max_tokens: Count = 1000
    """Most tokens of a judge's answer, reasoning included."""
    repeats: int = Field(1, ge=1, le=50)
    """How often each judge judges the same reply; the mean counts once."""
    repair: bool = True
    """Whether a judge whose answer cannot be read sees the error and is asked once more."""
    expected_scores: bool = False
    """Whether judges with log-probabilities also give a probability-weighted mean score."""
    shuffle_dimensions: bool = False
    """Whether the order of the dimensions varies from task to task, by the seed."""
    weights: Literal["equal", "specialization"] = "equal"
    """Whether judges count alike, or each twice on the dimensions that its `specialization` names."""
    related: Literal["mark", "exclude"] = "mark"
    """Whether judges of the judged model's own family are marked and counted, or not asked."""
    reference: bool | None = None
    """Whether judges see the reference answer of the base; as the rubric's template has it where it is left out."""
    drift_tolerance: Positive | None = None
    """Shift of a judge on another day that `toolkit judges drift` still accepts."""
    gate: Gate | None = None
    """Agreement with people that every judge must show on rated replies before the full spend."""
    primary: NamedJudge = Judge(
        name="gpt-4-turbo", specialization="technical accuracy and compliance alignment"
    )
    """First judge: a name or a table; `false` takes it out."""
    secondary: NamedJudge = Judge(name="claude-3-5-haiku", specialization="actionability and clarity")
    """Second judge, in the same way."""
    tertiary: NamedJudge = Judge(name="llama-3.3-70b", specialization="risk awareness and relevance")
    """Third judge, in the same way."""

    def by_role(self) -> dict[str, Judge]:
        """Return the judges that are set, in the order of their roles."""
        return {role: judge for role in JUDGE_ROLES if (judge := getattr(self, role))}


class BiasControls(Table):
    """Controls that apply to S, M and L alike, or the instrument changes with the treatment (DESIGN decision 8)."""

    fsp_enabled: bool = False
    """Whether judges are made to look at single sentences of a reply (focus sentence prompting)."""
    fsp_mode: Literal["listed", "per_sentence"] = "listed"
    """Whether sentences are listed beside the whole reply, or each segment is a request of its own."""
    fsp_sentences: int = Field(5, ge=1, le=20)
    """Sentences that `listed` names."""
    length_normalization: bool = False
    """Whether findings speak of reply length and score, and `per_sentence` counts per 100 tokens and not in all."""


def _day(value: Any) -> Any:
    """Return a day that stands in words, such as 20 November 2026; 3/4/2026 is two days, and stays what it is."""
    for form in ("%d %B %Y", "%d %b %Y", "%B %d, %Y"):
        with suppress(ValueError, TypeError):
            return datetime.strptime(value, form).replace(tzinfo=UTC).date()
    return value


_AMOUNTS = ("aud", "confirm_above_aud")
_MONEY = re.compile(
    r"(?:(AUD|USD)\s*)?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?(1)|(?:\s*(?:AUD|USD))?)", re.IGNORECASE
)


def _in_aud(key: str, text: str, rate: Any) -> float:
    """Return an amount that stands in words, such as AUD 17.20; dollars of the US at the rate of the study's calls."""
    match = _MONEY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{key}: {text!r} is no amount; write 17.20, AUD 17.20 or USD 11.00")
    amount = float(match[2].replace(",", ""))
    if "USD" not in text.upper():
        return amount
    return round(amount * (rate if isinstance(rate, int | float) else table_exchange().aud_per_usd), 2)


class ExchangeRate(Table):
    """What a US dollar costs in AUD, and of which day that is: calls are booked with it from now on."""

    rate: float = Field(strict=True)
    """What one US dollar costs."""
    on: date
    """Day of the rate, which is not still to come."""
    source: str = Field("", max_length=200)
    """Who published the rate; it stands in the methods."""

    @field_validator("rate")
    @classmethod
    def _check_rate(cls, value: float) -> float:
        # Since it floats, 0.90 (2011) to 2.09 (2001): Reserve Bank of Australia, historical exchange rates.
        if not 0.8 <= value <= 4:
            raise ValueError(
                "a US dollar was 0.9 to 2.1 AUD since 1983; write the AUD for 1 USD, such as 1.52"
            )
        return value

    @field_validator("on", mode="before")
    @classmethod
    def _read_day(cls, value: Any) -> Any:
        if not isinstance(value, date | str):
            raise ValueError("write the day of the rate as 2026-11-20")
        return _day(value)

    @field_validator("on")
    @classmethod
    def _refuse_future_day(cls, value: date) -> date:
        if value > datetime.now(UTC).date() + timedelta(days=1):  # it begins in Australia
            raise ValueError("this day is still to come; give a rate that was published, with its day")
        return value


class Budget(Table):
    """What the study may spend, all calls together, and the exchange rate that its calls are booked with."""

    aud: Positive | None = None
    """Cap for all calls of the study together, judges included; there is none where it is left out."""
    confirm_above_aud: float = Field(10.0, ge=0)
    """Expected cost above which a run needs a yes."""
    aud_per_usd: ExchangeRate | None = None
    """Exchange rate that calls are booked with; the toolkit has one of its own, with its day."""

    @model_validator(mode="before")
    @classmethod
    def _read_money(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        exchange = value.get("aud_per_usd")
        rate = exchange.get("rate") if isinstance(exchange, Mapping) else None
        texts = {key: text for key, text in value.items() if key in _AMOUNTS and isinstance(text, str)}
        return dict(value) | {key: _in_aud(key, text, rate) for key, text in texts.items()}

    @field_validator("aud_per_usd", mode="before")
    @classmethod
    def _require_day(cls, value: Any) -> Any:
        if isinstance(value, int | float):
            raise ValueError(f"write {{ rate = {value}, on = DAY }}, with the day of the rate")
        return value

    @property
    def exchange(self) -> Exchange | None:
        """The study's own rate, if it gives one."""
        rate = self.aud_per_usd
        return Exchange(rate.rate, rate.on, f"{rate.source or 'given'} by the study") if rate else None


class Replies(Table):
    """What becomes of a reply that is not whole: it is marked, and never scored as if it were."""

    truncated: Literal["keep", "retry", "exclude"] = "exclude"
    """A reply that was cut off: judged as it is, asked again with twice the tokens, or not judged."""
    empty: Literal["retry", "exclude"] = "exclude"
    """A reply without text: asked again with twice the tokens, or not judged."""
    refused: Literal["keep", "exclude"] = "exclude"
    """A reply in which the model refuses the task: judged as it is, or not judged."""
    filtered: Literal["keep", "exclude"] = "exclude"
    """A reply that the provider's filter stopped: judged as it is, or not judged."""
    unknown_finish: Literal["keep", "exclude"] = "exclude"
    """A reply whose end the provider names in an unknown word: judged as it is, or not judged."""
    thoughts: Literal["strip", "keep"] = "strip"
    """Whether thoughts in a reply, as between `<think>` and `</think>`, are taken out before it is judged."""
    retries: int = Field(2, ge=1, le=5)
    """How often `retry` asks again before the reply is excluded."""


class Limit(Table):
    """What one provider may be sent: requests at once, and requests and tokens a minute."""

    concurrency: AtOnce | None = None
    """Requests that are sent to this provider at the same time."""
    requests_per_minute: Positive | None = None
    """Requests that are sent to this provider, runs and judges together."""
    tokens_per_minute: Positive | None = None
    """Tokens that are sent to and received from this provider, runs and judges together."""


class Analysis(Table):
    """What the analysis is held to, written down before there is a score."""

    score: Literal["composite_strict", "composite"] = "composite_strict"
    """What is compared: with dimensions of score 0 (`composite_strict`), or by `seed-v1` without them (`composite`)."""
    primary: str | None = None
    """The one confirmatory contrast, `M-S` of prompt lengths or `B - A` of levels; all others are exploratory."""
    equivalence_margin: Positive | None = None
    """Difference below which two lengths count as equal; without it equivalence is not tested."""
    ceiling_share: float = Field(0.3, gt=0, le=1)
    """Share of scores at an end of the scale above which the analysis warns."""


class StudyFile(Table):
    """Everything a researcher decides before the first call."""

    name: Slug
    """Name of the study, of its results folder and in every caption."""
    dataset: str = "demo"
    """Prompts that are asked: a shipped dataset, a folder or file beside the study file, or one of the hub, `hf://`."""
    accept_flaws: tuple[str, ...] = ()
    """Kinds of flaws of the dataset that are accepted; every caption names them."""
    mix_versions: bool = False
    """Whether runs of different versions of the dataset are analysed together."""
    scenarios: tuple[str, ...] | None = Field(None, min_length=1)
    """Scenarios of the dataset that are asked; all where it is left out."""
    length_bins: tuple[LengthBin, ...] = ("S", "M", "L")
    """Lengths of prompts that are asked."""
    length_arms: bool = False
    """Whether the length arms that bases have are asked too; they tell length from information."""
    factor: FirstFactor | None = None
    """What is varied in place of prompt length, or besides it where the dataset has several lengths."""
    bases: Count | None = None
    """Number of bases that are asked, drawn by the seed; all where it is left out."""
    test: str = "rubric_study"
    """What is measured: a test that ships, or a Python file of your own."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Options of the test, by name."""
    models: tuple[NamedModel, ...] = Field(min_length=1)
    """Models under test: names of the catalogue, `PROVIDER/MODEL`, or tables."""
    selection: Literal["all", "adaptive"] = "all"
    """Whether all bases are asked, or in rounds those that separate the models best."""
    target_width: Positive | None = None
    """Width of the widest interval of a difference of models at which an adaptive study stops."""
    repeats: AtOnce = 1
    """How often each prompt is asked of each model; the test has its own default."""
    seed: int = Field(20250107, ge=0, lt=2**31)
    """Where every draw of the study begins; the same seed draws the same."""
    concurrency: AtOnce = 10
    """Calls that are in flight at the same time over all providers; a provider that objects gets fewer."""
    mode: Literal["single", "batch"] = "single"
    """Whether calls are sent singly, or as batches at half the price within a day."""
    fresh: bool = False
    """Whether replies that another study of the same results folder paid for are asked for anew."""
    batch_poll_seconds: Positive = 60.0
    """Time between two looks at a batch."""
    timeout_seconds: Positive | None = None
    """Time after which a request without a reply is given up; 180, for a local model 900, where it is left out."""
    output: Path | None = None
    """Folder of the results, relative to the study file; results/NAME where it is left out."""
    note: str = ""
    """A sentence that stands above the findings, in the methods and in every caption."""
    license: str | None = None
    """Licence of the study's data in an export: an identifier or an address."""
    replies: Replies = Replies()
    """What becomes of replies that are not whole."""
    limits: Mapping[Provider, Limit] = Field(default_factory=dict)
    """What each provider may be sent, by the name of the provider."""
    sampling: Sampling = Sampling()
    """How the models under test are asked."""
    judges: Judges = Judges()
    """The judges and how they are asked."""
    bias_controls: BiasControls = BiasControls()
    """Controls against biases of judges, for S, M and L alike."""
    budget: Budget = Budget()
    """What the study may spend."""
    analysis: Analysis = Analysis()
    """What the analysis is held to, written down before there is a score."""

    @field_validator("license")
    @classmethod
    def _check_license(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"https?://\S+|[A-Za-z0-9.+-]+", value):
            raise ValueError(
                "a licence is an identifier such as CC-BY-4.0, or an address that begins with https://"
            )
        return value

    @field_validator("accept_flaws")
    @classmethod
    def _check_flaws(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from toolkit.prompts.check import KINDS

        if unknown := [kind for kind in value if kind not in KINDS]:
            raise ValueError(f"unknown flaw {unknown[0]!r}, {choices(unknown[0], KINDS, 'allowed are')}")
        return value

    def conflicts(self) -> list[tuple[Sequence[str], str]]:
        """Return what does not fit together: the keys of the file that it is about, and a sentence."""
        judges, primary, adaptive = self.judges, self.analysis.primary, self.selection == "adaptive"
        names = [entry.label for entry in self.under_test]
        bins = [name for name in LENGTH_BINS if name in self.length_bins]
        levels, joint = (self.factor.levels, " - ") if self.factor else (bins, "-")
        names_of = [
            {name for key, level in one.levels.items() for name in (one.name, key, *level.model_fields_set)}
            for one in self.factors
        ]
        shared = set.intersection(*names_of) - {"prompt", "system"} if names_of[1:] else ()
        pairs = [f"{b}{joint}{a}" for a, b in combinations(levels, 2)]
        of_scores = {
            "judges.repeats": judges.repeats > 1,
            "judges.expected_scores": judges.expected_scores,
            "judges.shuffle_dimensions": judges.shuffle_dimensions,
            "judges.weights": judges.weights != "equal",
            "bias_controls.fsp_enabled": self.bias_controls.fsp_enabled,
            "length_arms": self.length_arms,
        }
        in_pairs, lead = judges.mode != "scores", f'judges.mode = "{judges.mode}"'
        rows = [
            (
                adaptive != (self.target_width is not None),
                "selection target_width",
                'selection = "adaptive" and target_width go together: give the width, in score points, that the widest '
                "interval of a difference of models is to have, or leave out both",
            ),
            (
                adaptive and self.length_arms,
                "selection length_arms",
                'selection = "adaptive" chooses bases by S, M and L alone; leave out length_arms',
            ),
            (
                self.factor and self.length_arms,
                "factor length_arms",
                "length_arms is about prompt length, and the factor takes its place; leave one of them out",
            ),
            (
                shared,
                "factor.crossed",
                f"factor.crossed: {joined(sorted(shared))} stands in both factors; name it in one of them",
            ),
            (
                primary and primary not in pairs,
                "analysis length_bins factor",
                f"analysis.primary: {primary} compares no two levels that are asked; "
                f"{choices(primary, pairs, 'name one of')}",
            ),
            (
                judges.pairs and not in_pairs,
                "judges",
                'judges.pairs needs judges.mode = "pairs" or "both"; add it, or leave pairs out',
            ),
            (
                in_pairs and len(names) < 2,
                "judges models",
                f"{lead}: a pair has the replies of two models; name a second one",
            ),
            (
                in_pairs and adaptive,
                "judges selection",
                f'{lead}: an adaptive study chooses its bases by scores; leave out selection = "adaptive"',
            ),
            (in_pairs and not judges.by_role(), "judges", f"{lead}: there is no judge; name one"),
        ]
        rows += [
            (
                is_set and judges.mode == "pairs",
                "judges bias_controls",
                f'{lead}: {name} is about scores; leave it out, or say mode = "both" to have scores and pairs',
            )
            for name, is_set in of_scores.items()
        ]
        rows += [
            (
                name in names[:at],
                f"models[{at}]",
                f"models[{at}]: {name!r} is named twice; give each model its own name",
            )
            for at, name in enumerate(names)
        ]
        return [(keys.split(), sentence) for is_fault, keys, sentence in rows if is_fault]

    @property
    def under_test(self) -> tuple[ModelEntry, ...]:
        """The models with what the study says for all of them."""
        common = {name: getattr(self.sampling, name) for name in Reasoning.model_fields}
        return tuple(
            entry.model_copy(update=common | entry.model_dump(include={*common}, exclude_none=True))
            for entry in self.models
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the dataset that the factor uses."""
        columns: list[str] = []
        for factor in self.factors:
            templates = " ".join(level.prompt for level in factor.levels.values())
            columns += [
                name
                for name in PLACEHOLDER.findall(templates)
                if name != "prompt" and name not in factor.files
            ]
            columns += [factor.from_] if factor.from_ else []
        return tuple(dict.fromkeys(columns))

    @property
    def factors(self) -> Sequence[Factor]:
        """The factors that the file names, at most two."""
        first = self.factor
        return [factor for factor in (first, first and first.crossed) if factor]

    @property
    def levels(self) -> Mapping[str, Level]:
        """Levels of the factors, by their names, of which each stands in one of them."""
        return {name: level for factor in self.factors for name, level in factor.levels.items()}

    def level_of(self, *names: str) -> Level:
        """Return how prompts are asked that have a level of each factor."""
        levels = self.levels
        return reduce(Level.combined, [levels[name] for name in names if name in levels] or [AS_EVERYWHERE])

    def limit(self, provider: str) -> Limit:
        """Return what the study says a provider may be sent; nothing where it says nothing."""
        return self.limits.get(provider, Limit())


def _key(path: Iterable[int | str]) -> str:
    """Return a place in a file as its key is written."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(part if part.isprintable() else repr(part) for part in parts).removeprefix(".")


def load_study_file(path: str | Path, *, looks: bool = False) -> tuple[StudyFile, Path]:
    """Read and check a study file, whose paths are relative to it; whoever ``looks`` runs no code of its own."""
    file = Path(path).expanduser()
    if not file.exists():
        raise StudyError(f"{path}: no such study file; {similar_file(file)}start from one in templates/")
    try:
        content = read_toml(file, str(path))
    except InputError as error:
        raise StudyError(str(error)) from None
    env: Mapping[str, str] = {}
    with suppress(InputError):  # a file of variables that cannot be read is said where a key is needed
        remember(env := read_environment(file.parent))
    if secret := secret_fault(content):
        raise StudyError(f"{path}: {secret}")
    faults: dict[str, str] = {}
    file = file.resolve()
    if study := _usable_part(content, faults):
        study, further = _located(study, file.parent, looks, env)
        # What follows from another fault, or from what stands in its place, is none of its own.
        faults |= {
            fault: fault
            for keys, fault in further
            if not any(key.startswith(first) or first.startswith(key) for key in keys for first in faults)
        }
    if faults or not study:
        raise StudyError(*(f"{path}: {fault}" for fault in faults.values()))
    return study, file


def _usable_part(content: dict[str, Any], faults: dict[str, str]) -> StudyFile | None:
    """Return the study in a file without what is at fault, and put that down by its key."""
    for _ in range(MOST_FAULTS):
        try:
            return StudyFile.model_validate(content)
        except ValidationError as error:
            rows = error.errors(include_url=False)
        for row in reversed(rows):  # the last of a list first
            _take_out(content, row["loc"])
        for row in rows:
            # Of a list with faulty parts none is left, which is no fault of its own.
            if row["type"] != "too_short" or len(rows) == 1:
                faults.setdefault(_key(row["loc"]), _explain(row, _key(row["loc"])))
    return None


def _take_out(content: dict[str, Any], path: Sequence[int | str]) -> None:
    """Take a part out of what a file holds, or the table that lacks it; a study cannot be without name and models."""
    holder: Any = content
    try:
        for part in path[:-1]:
            holder = holder[part]
        del holder[path[-1]]
    except (KeyError, IndexError, TypeError):
        if len(path) > 1:
            _take_out(content, path[:-1])
    content.setdefault("name", "study")
    content["models"] = content.get("models") or ["scripted"]


def _located(
    study: StudyFile, folder: Path, looks: bool, env: Mapping[str, str]
) -> tuple[StudyFile, list[tuple[Sequence[str], str]]]:
    """Return a study with its paths from the file's folder, and what is wrong with what its keys name."""
    from toolkit.prompt_test import find_test, names_code, recorded_test, study_parameters
    from toolkit.prompts.dataset import SHIPPED, path_of

    # Every other one is a path: a folder beside the file has no slash and no dot in its name.
    has_path = not (study.dataset in SHIPPED or is_hub(study.dataset))
    dataset = str((folder / study.dataset).resolve()) if has_path else study.dataset
    rubric = study.judges.rubric
    if rubric.endswith(".toml"):
        rubric = str((folder / rubric).resolve())

    def placed(entry: Entry) -> Entry:
        update: dict[str, Any] = {"gguf": entry.gguf and folder / entry.gguf}
        with suppress(StudyError):  # of a model that nobody knows, which `_name_faults` tells
            spec = entry.spec
            # Its key goes there too: whoever named the address in the environment put the key beside it.
            if not entry.base_url and (address := address_of(spec.provider, env)):
                update |= {"base_url": address, "api_key_env": spec.api_key_env}
        return entry.model_copy(update=update)

    judges = {role: placed(judge) for role, judge in study.judges.by_role().items()}
    output = (folder / (study.output or Path("results") / study.name)).resolve()
    changed: dict[str, Any] = {
        "output": output,
        "dataset": dataset,
        "models": tuple(map(placed, study.models)),
        "judges": study.judges.model_copy(update={"rubric": rubric, **judges}),
    }
    faults = study.conflicts()
    has_prompts = True
    try:
        is_recorded = looks and names_code(study.test, study.options)
        test = recorded_test(output) if is_recorded else find_test(study.test, folder)
        has_prompts = not is_recorded and "prompts" in study_parameters(test)
        if "repeats" not in study.model_fields_set:
            changed["repeats"] = test.default_repeats
    except StudyError as error:
        faults.append((["test"], str(error)))
    try:
        if has_prompts and not is_hub(dataset):
            path_of(dataset)
    except InputError as error:
        faults.append((["dataset"], f"dataset: {error}"))
    study = study.model_copy(update=changed)
    return study, faults + [([key], f"{key}: {fault}") for key, fault in _name_faults(study)]


def _name_faults(study: StudyFile) -> Iterator[tuple[str, str]]:
    """Yield the models and rubrics that nobody knows now, not after an hour of calls, and what does not fit them."""
    from toolkit.judges.rubric import load_rubric

    entries: dict[str, ModelEntry] = {f"models[{n}]": entry for n, entry in enumerate(study.under_test)}
    entries |= {f"judges.{role}": judge for role, judge in study.judges.by_role().items()}
    places = dict(zip(("factor.levels", "factor.crossed.levels"), study.factors, strict=False))
    labels: dict[Any, str] = {}
    for key, entry in entries.items():
        try:
            spec = entry.spec
        except InputError as error:
            yield key, str(error)
            continue
        if key.startswith("judges"):
            continue
        levels = {name: level.model(spec) for name, level in study.levels.items() if level.reasoning}
        for name, model in {"": spec, **levels}.items():
            path = next((f"{place}.{name}" for place, factor in places.items() if name in factor.levels), key)
            if fault := options_fault(model):
                yield path, f"model {entry.label!r}: {fault}"
            twin = labels.setdefault((name, model_address(model)), entry.label)
            if twin != entry.label:
                yield (
                    path,
                    f"{entry.label!r} is the same model as {twin!r}; their runs would be the same calls",
                )
    try:
        rubric = load_rubric(study.judges.rubric)
    except InputError as error:
        yield from (("judges.rubric", fault) for fault in error.faults)
        return
    low, high = rubric.scale
    scale = f"the scale {low:g} to {high:g} of rubric {rubric.name!r}"
    for key, width, most in (
        ("analysis.equivalence_margin", study.analysis.equivalence_margin, high - low),
        ("target_width", study.target_width, 2 * (high - low)),
        ("judges.drift_tolerance", study.judges.drift_tolerance, high - low),
    ):
        if width is not None and width >= most:
            yield key, f"{width:g} is too wide for {scale}; it is below {most:g}"
    for number, entry in enumerate(study.models):
        if entry.planted and not low <= entry.planted.level <= high:
            yield f"models[{number}].planted.level", f"{entry.planted.level:g} is off {scale}"
    if study.judges.expected_scores and not (low.is_integer() and high.is_integer() and 0 <= low < high <= 9):
        yield "judges.expected_scores", f"scores of one digit have them, not {scale}; leave it out"
    controls, scopes = study.bias_controls, {dimension.scope for dimension in rubric.dimensions}
    mode = controls.fsp_mode if controls.fsp_enabled else None
    if mode == "per_sentence" and len(scopes) < 2:
        yield (
            "bias_controls.fsp_mode",
            f"all dimensions of rubric {rubric.name!r} have scope {scopes.pop()}, and "
            '"per_sentence" needs both scopes; give one of them the other scope, or use "listed"',
        )
    if mode == "listed" and not rubric.lists_focus:
        yield (
            "bias_controls.fsp_mode",
            f"rubric {rubric.name!r} has no place for focus sentences; give its "
            'template {key_sentences} or {focus}, or use "per_sentence"',
        )
    if study.judges.shuffle_dimensions and not rubric.lists_criteria:
        yield (
            "judges.shuffle_dimensions",
            f"rubric {rubric.name!r} names its dimensions in a fixed order; "
            "put {criteria} where they stand, or leave the order alone",
        )


def _explain(fault: ErrorDetails, key: str) -> str:
    message = fault_sentence(StudyFile, fault)
    if fault["type"] == "extra_forbidden":
        name = str(fault["loc"][-1])
        for table, field in StudyFile.model_fields.items():  # a key in the wrong table
            if name in getattr(field.annotation, "model_fields", {}):
                return f"unknown key {key}; write {table}.{name} instead"
        return f"unknown key {key}; {message}"
    if fault["type"] == "missing":
        return f"key {key} is missing"
    # A line may end up in a log, and a key that stands in the wrong place with it.
    secret = fault["loc"][-1:] in (("base_url",), ("api_key_env",))
    is_shown = isinstance(fault["input"], str | int | float) and not secret
    return f"{key}: {message}" + (f", got {fault['input']!r}" if is_shown else "")

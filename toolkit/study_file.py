"""The study file: typed, checked, frozen objects, how they are read, and the one place where defaults live."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from toolkit.errors import InputError, StudyError
from toolkit.files import fault_sentence, read_toml, similar_file
from toolkit.models.catalogue import PROVIDERS, Exchange, ModelSpec, address_fault, model_spec
from toolkit.words import JUDGE_ROLES, SCORE, choices

LengthBin = Literal["S", "M", "L"]
if TYPE_CHECKING:
    Provider = str
else:
    Provider = Literal[PROVIDERS]


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


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Planted(_Strict):
    """The truth of a scripted model or judge, in score points and shares; see `toolkit.models.scripted`."""

    level: float = 3.0  # mean quality at S
    m_minus_s: float = 0.0  # what a longer prompt adds
    l_minus_m: float = 0.0
    severity: float = 0.0  # what a judge takes off
    failures: float = Field(0.0, ge=0, le=1)  # share of requests that fail
    accuracy: float | None = Field(None, ge=0, le=1)  # of the questions of templates/planted_keyed.csv
    first_bonus: float | None = None  # what a judge of pairs adds to the reply that is shown first


Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Over(_Strict):
    """What requests cost whose prompt has more than so many tokens, in USD per million."""

    tokens: int = Field(ge=1)
    input: Usd
    output: Usd


class CacheShares(_Strict):
    """What input costs that is read from or written to the provider's cache, as a share of the price of input."""

    read: Usd | None = None
    write: Usd | None = None


class PriceRow(_Strict):
    """A price of a model as the toolkit's own table has them: USD per million tokens, from a day to a last day."""

    input: Usd
    output: Usd
    over: Over | None = None
    cache: CacheShares | None = None
    from_: date | None = Field(None, alias="from")
    until: date | None = None


class Reasoning(_Strict):
    """What a model is asked with beside its sampling; nothing is sent where nothing is set.

    ``extra`` is sent as it is, at the top of the request.
    """

    reasoning_effort: str | None = Field(None, pattern="^[a-z]{2,20}$")
    thinking_level: str | None = Field(None, pattern="^[a-z]{2,20}$")
    verbosity: Literal["low", "medium", "high"] | None = None
    extra: Mapping[str, Any] | None = None


class ModelEntry(Reasoning):
    """A model of the study: a known name, or a server of one's own described in full.

    Everything except ``name`` overrides what the catalogue knows of that name.
    """

    name: str
    provider: Provider | None = None
    model: str | None = None
    family: str | None = None
    encoding: Literal["o200k_base", "cl100k_base"] | None = None
    tokens_per_o200k: float | None = Field(None, ge=0.1, le=10)
    base_url: str | None = None
    api_key_env: str | None = None
    structured: bool | None = None
    logprobs: bool | None = None
    seed_supported: bool | None = None
    sampling_supported: bool | None = None
    context_tokens: int | None = Field(None, ge=1)
    gguf: Path | None = None
    replies: tuple[str, ...] | None = None
    planted: Planted | None = None
    usd_per_million_input: float | None = Field(None, ge=0)
    usd_per_million_output: float | None = Field(None, ge=0)
    prices: tuple[PriceRow, ...] | None = Field(None, min_length=1)
    concurrency: int | None = Field(None, ge=1, le=1000)

    @field_validator("base_url")
    @classmethod
    def _holds_no_password(cls, value: str | None) -> str | None:
        if value and (fault := address_fault(value)):
            raise ValueError(f"the address {fault}")
        return value

    @property
    def label(self) -> str:
        """The name of the model in the study; at two efforts it is two models with two names."""
        verbosity = f"verbosity {self.verbosity}" if self.verbosity else None
        words = [word for word in (self.reasoning_effort, self.thinking_level, verbosity) if word]
        return f"{self.name} ({', '.join(words)})" if words else self.name

    @property
    def spec(self) -> ModelSpec:
        """What the catalogue and the study together say of the model."""
        own = {"name", "concurrency", "specialization"}
        return model_spec(self.name, **self.model_dump(by_alias=True, exclude_none=True, exclude=own))


class Sampling(Reasoning):
    """How the models under test are asked (seed 002, section 1.2), those that do not say otherwise."""

    temperature: float = Field(0.2, ge=0, le=2)
    max_tokens: int = Field(2000, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)


class Judge(ModelEntry):
    """One judge of the ensemble; its speciality is recorded, its weight is equal."""

    specialization: str = ""


class Judges(_Strict):
    """The ensemble and how it is asked (seed 002, section 4.2)."""

    mode: Literal["scores", "pairs", "both"] = "scores"
    pairs: int | None = Field(None, ge=1)  # of replies, for each pair of models; all by default
    rubric: str = "default"
    temperature: float = Field(0.1, ge=0, le=2)
    max_tokens: int = Field(1000, ge=1)
    repeats: int = Field(1, ge=1, le=50)
    repair: bool = True
    expected_scores: bool = False
    shuffle_dimensions: bool = False
    related: Literal["mark", "exclude"] = "mark"
    reference: bool | None = None  # as the rubric says: its template has {reference} or not
    drift_tolerance: float | None = Field(None, gt=0)
    primary: Judge | None = Judge(
        name="gpt-4-turbo", specialization="technical accuracy and compliance alignment"
    )
    secondary: Judge | None = Judge(name="claude-3-5-haiku", specialization="actionability and clarity")
    tertiary: Judge | None = Judge(name="llama-3.3-70b", specialization="risk awareness and relevance")

    @field_validator(*JUDGE_ROLES, mode="before")
    @classmethod
    def _name_is_enough(cls, value: Any) -> Any:
        return None if value is False else _named(value)  # TOML has no null

    def by_role(self) -> dict[str, Judge]:
        """Return the judges that are set, in the order of their roles."""
        judges = {role: getattr(self, role) for role in JUDGE_ROLES}
        return {role: judge for role, judge in judges.items() if judge is not None}


class BiasControls(_Strict):
    """Controls that apply to S, M and L alike, or the instrument changes with the treatment (DESIGN decision 8)."""

    fsp_enabled: bool = False
    fsp_mode: Literal["listed", "per_sentence"] = "listed"
    fsp_sentences: int = Field(5, ge=1, le=20)
    length_normalization: bool = False

    @model_validator(mode="after")
    def _has_an_effect(self) -> BiasControls:
        if self.length_normalization and not (self.fsp_enabled and self.fsp_mode == "per_sentence"):
            raise ValueError(
                "length_normalization counts findings per 100 tokens, which only per_sentence has; set "
                'fsp_enabled = true and fsp_mode = "per_sentence", or leave it out'
            )
        return self


class ExchangeRate(_Strict):
    """What a US dollar costs in AUD, and of which day that is: calls are booked with it from now on."""

    rate: float = Field(strict=True)
    on: date
    source: str = Field("", max_length=200)

    @field_validator("rate")
    @classmethod
    def _is_of_a_dollar(cls, value: float) -> float:
        # Since it floats, 0.90 (2011) to 2.09 (2001): Reserve Bank of Australia, historical exchange rates.
        if not 0.8 <= value <= 4:
            raise ValueError(
                "a US dollar was 0.9 to 2.1 AUD since 1983; write the AUD for 1 USD, such as 1.52"
            )
        return value

    @field_validator("on", mode="before")
    @classmethod
    def _is_a_day(cls, value: Any) -> Any:
        if not isinstance(value, date | str):
            raise ValueError("write the day of the rate as 2026-11-20")
        return value

    @field_validator("on")
    @classmethod
    def _has_come(cls, value: date) -> date:
        if value > datetime.now(UTC).date() + timedelta(days=1):  # it begins in Australia
            raise ValueError("this day is still to come; give a rate that was published, with its day")
        return value


class Budget(_Strict):
    """What the study may spend, all calls together, and the exchange rate that its calls are booked with."""

    aud: float | None = Field(None, gt=0)
    confirm_above_aud: float = Field(10.0, ge=0)
    aud_per_usd: ExchangeRate | None = None

    @field_validator("aud_per_usd", mode="before")
    @classmethod
    def _has_a_day(cls, value: Any) -> Any:
        if isinstance(value, int | float):
            raise ValueError(f"write {{ rate = {value}, on = DAY }}, with the day of the rate")
        return value

    @property
    def exchange(self) -> Exchange | None:
        """The study's own rate, if it gives one."""
        if (own := self.aud_per_usd) is None:
            return None
        return Exchange(own.rate, own.on, f"{own.source or 'given'} by the study")


class Replies(_Strict):
    """What becomes of a reply that is not whole: it is marked, and never scored as if it were.

    ``keep`` has it judged as it is, ``exclude`` keeps it unjudged, ``retry`` asks again with twice ``max_tokens``,
    up to ``retries`` times, and excludes it when it still is not whole. ``thoughts`` says what becomes of thoughts
    that stand in a reply, as between ``<think>`` and ``</think>``: without them (``strip``) it is judged and counted.
    """

    truncated: Literal["keep", "retry", "exclude"] = "exclude"
    empty: Literal["retry", "exclude"] = "exclude"
    refused: Literal["keep", "exclude"] = "exclude"
    filtered: Literal["keep", "exclude"] = "exclude"
    unknown_finish: Literal["keep", "exclude"] = "exclude"
    thoughts: Literal["strip", "keep"] = "strip"
    retries: int = Field(2, ge=1, le=5)


class Limit(_Strict):
    """What one provider may be sent: requests at once, and requests and tokens a minute."""

    concurrency: int | None = Field(None, ge=1, le=1000)
    requests_per_minute: float | None = Field(None, gt=0)
    tokens_per_minute: float | None = Field(None, gt=0)


class Analysis(_Strict):
    """What the analysis is held to, written down before there is a score.

    ``equivalence_margin`` is the difference in score points below which two lengths count as equal; without it
    equivalence is not tested. Above ``ceiling_share`` of scores at an end of the scale the analysis warns. ``primary``
    is the one confirmatory contrast; everything else is exploratory. ``score`` is what analyses compare:
    ``composite_strict``, in which a dimension of 0 counts, or the seed's ``composite``, which leaves zeros out.
    """

    score: Literal["composite_strict", "composite"] = SCORE
    primary: Literal["M-S", "L-M", "L-S"] | None = None
    equivalence_margin: float | None = Field(None, gt=0)
    ceiling_share: float = Field(0.3, gt=0, le=1)


class StudyFile(_Strict):
    """Everything a researcher decides before the first call."""

    name: Slug
    dataset: str = "demo"
    accept_flaws: tuple[str, ...] = ()
    mix_versions: bool = False
    scenarios: tuple[str, ...] | None = Field(None, min_length=1)
    length_bins: tuple[LengthBin, ...] = ("S", "M", "L")
    length_arms: bool = False
    bases: int | None = Field(None, ge=1)
    test: str = "rubric_study"
    options: Mapping[str, Any] = Field(default_factory=dict)
    models: tuple[ModelEntry, ...] = Field(min_length=1)
    selection: Literal["all", "adaptive"] = "all"
    target_width: float | None = Field(None, gt=0)
    repeats: int = Field(1, ge=1, le=1000)
    seed: int = Field(20250107, ge=0, lt=2**31)
    concurrency: int = Field(10, ge=1, le=1000)
    mode: Literal["single", "batch"] = "single"
    batch_poll_seconds: float = Field(60.0, gt=0)
    timeout_seconds: float | None = Field(None, gt=0)
    output: Path | None = None
    note: str = ""
    license: str | None = None
    replies: Replies = Replies()
    limits: Mapping[Provider, Limit] = Field(default_factory=dict)
    sampling: Sampling = Sampling()
    judges: Judges = Judges()
    bias_controls: BiasControls = BiasControls()
    budget: Budget = Budget()
    analysis: Analysis = Analysis()

    @field_validator("license")
    @classmethod
    def _is_a_licence(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"https?://\S+|[A-Za-z0-9.+-]+", value):
            raise ValueError(
                "a licence is an identifier such as CC-BY-4.0, or an address that begins with https://"
            )
        return value

    @field_validator("accept_flaws")
    @classmethod
    def _flaws_are_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from toolkit.prompts.check import KINDS

        if unknown := [kind for kind in value if kind not in KINDS]:
            raise ValueError(f"unknown flaw {unknown[0]!r}, {choices(unknown[0], KINDS, 'allowed are')}")
        return value

    @field_validator("models", mode="before")
    @classmethod
    def _names_are_enough(cls, value: Any) -> Any:
        return [_named(item) for item in value] if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _adaptive_knows_when_to_stop(self) -> StudyFile:
        if (self.selection == "adaptive") != (self.target_width is not None):
            raise ValueError(
                'selection = "adaptive" and target_width go together: give the width, in score points, that the widest '
                "interval of a difference of models is to have, or leave out both"
            )
        if self.length_arms and self.selection == "adaptive":
            raise ValueError(
                'selection = "adaptive" chooses bases by S, M and L alone; leave out length_arms'
            )
        return self

    @model_validator(mode="after")
    def _primary_is_compared(self) -> StudyFile:
        primary = self.analysis.primary
        if primary and (absent := [name for name in primary.split("-") if name not in self.length_bins]):
            raise ValueError(
                f"analysis.primary: {primary} compares {absent[0]}, which is not in length_bins; add it there or name "
                "another contrast"
            )
        return self

    @model_validator(mode="after")
    def _pairs_can_be_compared(self) -> StudyFile:
        judges = self.judges
        if judges.mode == "scores":
            if judges.pairs is not None:
                raise ValueError(
                    'judges.pairs needs judges.mode = "pairs" or "both"; add it, or leave pairs out'
                )
            return self
        unused = {
            "judges.repeats": judges.repeats > 1,
            "judges.expected_scores": judges.expected_scores,
            "judges.shuffle_dimensions": judges.shuffle_dimensions,
            "bias_controls.fsp_enabled": self.bias_controls.fsp_enabled,
            "length_arms": self.length_arms,
        }
        fault = None
        if judges.mode == "pairs" and (names := [name for name, is_set in unused.items() if is_set]):
            fault = f'{names[0]} is about scores; leave it out, or say mode = "both" to have scores and pairs'
        elif len(self.models) < 2:
            fault = "a pair has the replies of two models; name a second one"
        elif self.selection == "adaptive":
            fault = 'an adaptive study chooses its bases by scores; leave out selection = "adaptive"'
        elif not judges.by_role():
            fault = "there is no judge; name one"
        if fault:
            raise ValueError(f'judges.mode = "{judges.mode}": {fault}')
        return self

    @property
    def under_test(self) -> tuple[ModelEntry, ...]:
        """The models with what the study says for all of them."""
        common = {name: getattr(self.sampling, name) for name in Reasoning.model_fields}
        return tuple(
            entry.model_copy(
                update={name: value for name, value in common.items() if getattr(entry, name) is None}
            )
            for entry in self.models
        )

    def limit(self, provider: str) -> Limit:
        """Return what the study says a provider may be sent; nothing where it says nothing."""
        return self.limits.get(provider, Limit())

    @model_validator(mode="after")
    def _names_differ(self) -> StudyFile:
        names = [entry.label for entry in self.under_test]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"models: {twice[0]!r} is named twice; give each model its own name")
        return self


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _odd_text(value: Any, key: str = "") -> str | None:
    """Return the key of the first text that no name and no path is; prose, replies and options may have any."""
    if isinstance(value, dict):
        pairs = [(name, inner) for name, inner in value.items() if name not in ("note", "replies", "options")]
        if odd := next((name for name, _ in pairs if not name.isprintable()), None):
            return f"{key}.{odd!r}".removeprefix(".")
        return next((odd for name, inner in pairs if (odd := _odd_text(inner, f"{key}.{name}"))), None)
    if isinstance(value, list):
        return next(
            (odd for at, inner in enumerate(value) if (odd := _odd_text(inner, f"{key}[{at}]"))), None
        )
    odd = isinstance(value, str) and any(
        unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in value
    )
    return key.removeprefix(".") if odd else None


Entry = TypeVar("Entry", bound=ModelEntry)


def load_study_file(path: str | Path) -> tuple[StudyFile, Path]:
    """Read and check a study file; paths in it are relative to the file itself."""
    file = Path(path).expanduser()
    if not file.exists():
        raise StudyError(f"{path}: no such study file; {similar_file(file)}start from one in templates/")
    try:
        content = read_toml(file, str(path))
    except InputError as error:
        raise StudyError(str(error)) from None
    if key := _odd_text(content):
        raise StudyError(
            f"{path}: {key}: holds a control character, which no name and no path has; take it out"
        )
    try:
        study = StudyFile.model_validate(content)
    except ValidationError as error:
        raise StudyError(f"{path}: {_explain(error)}") from None
    file = file.resolve()
    output = file.parent / (study.output or Path("results") / study.name)
    from toolkit.prompts.dataset import SHIPPED

    # Every other one is a path: a folder beside the file has no slash and no dot in its name.
    dataset = study.dataset if study.dataset in SHIPPED else str((file.parent / study.dataset).resolve())
    rubric = study.judges.rubric
    if rubric.endswith(".toml"):
        rubric = str((file.parent / rubric).resolve())
    from toolkit.prompt_test import find_test

    try:
        test = find_test(study.test, file.parent)
    except StudyError as error:
        raise StudyError(f"{path}: {error}") from None
    judges = {role: _at(judge, file.parent) for role, judge in study.judges.by_role().items()}
    changed: dict[str, Any] = {
        "output": output.resolve(),
        "dataset": dataset,
        "models": tuple(_at(entry, file.parent) for entry in study.models),
        "judges": study.judges.model_copy(update={"rubric": rubric, **judges}),
    }
    if "repeats" not in study.model_fields_set:
        changed["repeats"] = test.default_repeats
    study = study.model_copy(update=changed)
    _check_names(study, path)
    return study, file


def _at(entry: Entry, folder: Path) -> Entry:
    return entry if entry.gguf is None else entry.model_copy(update={"gguf": folder / entry.gguf})


def _check_names(study: StudyFile, path: str | Path) -> None:
    """Refuse a model or rubric nobody knows now, not after an hour of calls."""
    from toolkit.judges.rubric import load_rubric

    entries: dict[str, ModelEntry] = {f"models[{n}]": entry for n, entry in enumerate(study.under_test)}
    entries |= {f"judges.{role}": judge for role, judge in study.judges.by_role().items()}
    seen: dict[tuple[str | None, ...], str] = {}
    for key, entry in entries.items():
        try:
            spec = entry.spec
        except InputError as error:
            raise StudyError(f"{path}: {key}: {error}") from None
        twin = seen.setdefault((spec.provider, spec.model, spec.endpoint, spec.options), entry.label)
        if key.startswith("models") and twin != entry.label:
            raise StudyError(
                f"{path}: {key}: {entry.label!r} is the same model as {twin!r}; their runs would be the same calls"
            )
    try:
        rubric = load_rubric(study.judges.rubric)
    except InputError as error:
        raise StudyError(f"{path}: judges.rubric: {error}") from None
    low, high = rubric.scale
    scale = f"the scale {low:g} to {high:g} of rubric {rubric.name!r}"
    for key, width, most in (
        ("analysis.equivalence_margin", study.analysis.equivalence_margin, high - low),
        ("target_width", study.target_width, 2 * (high - low)),
        ("judges.drift_tolerance", study.judges.drift_tolerance, high - low),
    ):
        if width is not None and width >= most:
            raise StudyError(f"{path}: {key}: {width:g} is too wide for {scale}; it is below {most:g}")
    for number, entry in enumerate(study.models):
        if entry.planted and not low <= entry.planted.level <= high:
            raise StudyError(
                f"{path}: models[{number}].planted.level: {entry.planted.level:g} is off {scale}"
            )
    if study.judges.expected_scores and not (low.is_integer() and high.is_integer() and 0 <= low < high <= 9):
        raise StudyError(
            f"{path}: judges.expected_scores: scores of one digit have them, not {scale}; leave it out"
        )
    controls, scopes = study.bias_controls, {dimension.scope for dimension in rubric.dimensions}
    if controls.fsp_enabled and controls.fsp_mode == "per_sentence" and len(scopes) < 2:
        raise StudyError(
            f"{path}: bias_controls.fsp_mode: all dimensions of rubric {rubric.name!r} have scope {scopes.pop()}, and "
            '"per_sentence" needs both scopes; give one of them the other scope, or use "listed"'
        )
    if controls.fsp_enabled and controls.fsp_mode == "listed" and not rubric.lists_focus:
        raise StudyError(
            f"{path}: bias_controls.fsp_mode: rubric {rubric.name!r} has no place for focus sentences; give its "
            'template {key_sentences} or {focus}, or use "per_sentence"'
        )
    if study.judges.shuffle_dimensions and not rubric.lists_criteria:
        raise StudyError(
            f"{path}: judges.shuffle_dimensions: rubric {rubric.name!r} names its dimensions in a fixed order; "
            "put {criteria} where they stand, or leave the order alone"
        )


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ""
    for part in first["loc"]:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else str(part)
    if first["type"] == "extra_forbidden":
        return f"unknown key {key}; {fault_sentence(StudyFile, first)}"
    if first["type"] == "missing":
        return f"key {key} is missing"
    message = fault_sentence(StudyFile, first)
    # A line may end up in a log, and a key that stands in the wrong place with it.
    secret = first["loc"][-1:] in (("base_url",), ("api_key_env",))
    is_shown = isinstance(first["input"], str | int | float) and not secret
    given = f", got {first['input']!r}" if is_shown else ""
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{key}: {message}{given}{more}" if key else f"{message}{more}"

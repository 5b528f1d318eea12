"""The study file: typed, checked, frozen objects, how they are read, and the one place where defaults live."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

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
from toolkit.models.prices import table_exchange
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
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class Planted(_Strict):
    """The truth of a scripted model or judge, in score points and shares; see `toolkit.models.scripted`."""

    level: float = 3.0
    """Mean quality that a scripted model plants in its replies to S prompts."""
    m_minus_s: float = 0.0
    """What M prompts add to that quality."""
    l_minus_m: float = 0.0
    """What L prompts add to the quality at M."""
    severity: float = 0.0
    """What a scripted judge takes off every score."""
    failures: float = Field(0.0, ge=0, le=1)
    """Share of requests that fail on purpose."""
    accuracy: float | None = Field(None, ge=0, le=1)
    """Share of the questions of templates/planted_keyed.csv that are answered rightly."""
    first_bonus: float | None = None
    """What a scripted judge of pairs adds to the reply that it is shown first."""


Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Over(_Strict):
    """What requests cost whose prompt has more than so many tokens, in USD per million."""

    tokens: int = Field(ge=1)
    """Length of a prompt, cached tokens included, above which the prices of this table hold."""
    input: Usd
    """Price of input for a request with such a prompt."""
    output: Usd
    """Price of output for a request with such a prompt."""


class CacheShares(_Strict):
    """What input costs that is read from or written to the provider's cache, as a share of the price of input."""

    read: Usd | None = None
    """Price of input that is read from the cache, as a share of the price of input."""
    write: Usd | None = None
    """Price of input that is written to the cache, as a share of the price of input."""


class PriceRow(_Strict):
    """A price of a model as the toolkit's own table has them: USD per million tokens, from a day to a last day."""

    input: Usd
    """Price of input."""
    output: Usd
    """Price of output, reasoning included."""
    over: Over | None = None
    """Other prices of the whole request where its prompt is long."""
    cache: CacheShares | None = None
    """What cached input costs."""
    from_: date | None = Field(None, alias="from")
    """First day (UTC) of this price; it holds from the beginning where no day is given."""
    until: date | None = None
    """Last day (UTC) of this price; after the last day of the last row nothing is sent."""


class Reasoning(_Strict):
    """What a model is asked with beside its sampling; nothing is sent where nothing is set.

    ``extra`` is sent as it is, at the top of the request.
    """

    reasoning_effort: str | None = Field(None, pattern="^[a-z]{2,20}$")
    """How much a model reasons before it answers, in the provider's own words."""
    thinking_level: str | None = Field(None, pattern="^[a-z]{2,20}$")
    """The same for Gemini, which calls it a thinking level."""
    verbosity: Literal["low", "medium", "high"] | None = None
    """How long the answers of an OpenAI model are to be."""
    extra: Mapping[str, Any] | None = None
    """Further fields of the request, which are sent as they are."""


class ModelEntry(Reasoning):
    """A model of the study: a known name, or a server of one's own described in full.

    Everything except ``name`` overrides what the catalogue knows of that name.
    """

    name: str
    """Name of the model in the study, in its tables and in its figures; a known name needs nothing else."""
    provider: Provider | None = None
    """Who answers; `compatible` is any server that speaks the OpenAI protocol."""
    model: str | None = None
    """Name of the model at its provider; `name` where it is left out."""
    family: str | None = None
    """Family of models it belongs to; judges of the same family are marked."""
    encoding: Literal["o200k_base", "cl100k_base"] | None = None
    """Tokenizer that counts its tokens before a request is sent."""
    tokens_per_o200k: float | None = Field(None, ge=0.1, le=10)
    """How many of its tokens correspond to one of o200k_base, where its tokenizer is not public."""
    base_url: str | None = None
    """Address of the server, without a user name and without a password."""
    api_key_env: str | None = None
    """Environment variable that has the key; the key itself is in no study file."""
    structured: bool | None = None
    """Whether the model can be made to answer in a JSON schema."""
    logprobs: bool | None = None
    """Whether the model returns log-probabilities; judges.expected_scores needs them."""
    seed_supported: bool | None = None
    """Whether the model takes a seed."""
    sampling_supported: bool | None = None
    """Whether the model takes a temperature and top_p."""
    context_tokens: int | None = Field(None, ge=1)
    """Context window; `toolkit estimate` names requests that do not fit into it."""
    gguf: Path | None = None
    """Weights of a local model, relative to the study file."""
    replies: tuple[str, ...] | None = None
    """Replies that a scripted model gives in turn."""
    planted: Planted | None = None
    """Truth that is planted in a scripted model or judge."""
    usd_per_million_input: float | None = Field(None, ge=0)
    """Price of input, in place of the price that the toolkit has."""
    usd_per_million_output: float | None = Field(None, ge=0)
    """Price of output, in place of the price that the toolkit has."""
    prices: tuple[PriceRow, ...] | None = Field(None, min_length=1)
    """Prices that change on a day, with the length of a prompt or with the cache."""
    concurrency: int | None = Field(None, ge=1, le=1000)
    """Requests that are sent to this model at the same time."""

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
    """Temperature of the models under test; one that takes none is asked without it."""
    max_tokens: int = Field(2000, ge=1)
    """Most tokens of a reply, reasoning included."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Nucleus sampling; the provider's own default where it is left out."""


class Judge(ModelEntry):
    """One judge of the ensemble; its speciality is recorded, its weight is equal."""

    specialization: str = ""
    """What this judge is good at: it is recorded, and its weight is that of the others."""


class Judges(_Strict):
    """The ensemble and how it is asked (seed 002, section 4.2)."""

    mode: Literal["scores", "pairs", "both"] = "scores"
    """Whether judges score every reply, compare replies in pairs, or do both."""
    pairs: int | None = Field(None, ge=1)
    """Pairs of replies that are compared for each two models, drawn by the seed; all where it is left out."""
    rubric: str = "default"
    """Rubric of the judges: `default`, `seed-v1`, or a TOML file of your own."""
    temperature: float = Field(0.1, ge=0, le=2)
    """Temperature of the judges."""
    max_tokens: int = Field(1000, ge=1)
    """Most tokens of a judge's answer, reasoning included."""
    repeats: int = Field(1, ge=1, le=50)
    """How often each judge judges the same reply; the mean counts once."""
    repair: bool = True
    """Whether a judge whose answer cannot be read sees the error and is asked once more."""
    expected_scores: bool = False
    """Whether judges with log-probabilities also give a probability-weighted mean score."""
    shuffle_dimensions: bool = False
    """Whether the order of the dimensions varies from task to task, by the seed."""
    related: Literal["mark", "exclude"] = "mark"
    """Whether judges of the judged model's own family are marked and counted, or not asked."""
    reference: bool | None = None
    """Whether judges see the reference answer of the base; as the rubric's template has it where it is left out."""
    drift_tolerance: float | None = Field(None, gt=0)
    """Shift of a judge on another day that `toolkit judges drift` still accepts."""
    primary: Judge | None = Judge(
        name="gpt-4-turbo", specialization="technical accuracy and compliance alignment"
    )
    """First judge: a name or a table; `false` takes it out."""
    secondary: Judge | None = Judge(name="claude-3-5-haiku", specialization="actionability and clarity")
    """Second judge, in the same way."""
    tertiary: Judge | None = Judge(name="llama-3.3-70b", specialization="risk awareness and relevance")
    """Third judge, in the same way."""

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
    """Whether judges are made to look at single sentences of a reply (focus sentence prompting)."""
    fsp_mode: Literal["listed", "per_sentence"] = "listed"
    """Whether sentences are listed beside the whole reply, or each segment is a request of its own."""
    fsp_sentences: int = Field(5, ge=1, le=20)
    """Sentences that `listed` names."""
    length_normalization: bool = False
    """Whether `per_sentence` counts findings per 100 tokens of the reply and not their sum."""

    @model_validator(mode="after")
    def _has_an_effect(self) -> BiasControls:
        if self.length_normalization and not (self.fsp_enabled and self.fsp_mode == "per_sentence"):
            raise ValueError(
                "length_normalization counts findings per 100 tokens, which only per_sentence has; set "
                'fsp_enabled = true and fsp_mode = "per_sentence", or leave it out'
            )
        return self


def _day(value: Any) -> Any:
    """Return a day that stands in words, such as 20 November 2026; 3/4/2026 is two days, and stays what it is."""
    for form in ("%d %B %Y", "%d %b %Y", "%B %d, %Y"):
        with suppress(ValueError, TypeError):
            return datetime.strptime(value, form).replace(tzinfo=UTC).date()
    return value


_AMOUNTS = ("aud", "confirm_above_aud")
_MONEY = re.compile(
    r"(?:(AUD|USD)\s*)?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?:\s*(AUD|USD))?", re.IGNORECASE
)


def _in_aud(key: str, text: str, rate: Any) -> float:
    """Return an amount that stands in words, such as AUD 17.20; dollars of the US at the rate of the study's calls."""
    found = _MONEY.fullmatch(text.strip())
    if not found or (found[1] and found[3]):
        raise ValueError(f"{key}: {text!r} is no amount; write 17.20, AUD 17.20 or USD 11.00")
    amount = float(found[2].replace(",", ""))
    if (found[1] or found[3] or "AUD").upper() == "AUD":
        return amount
    return round(amount * (rate if isinstance(rate, int | float) else table_exchange().aud_per_usd), 2)


class ExchangeRate(_Strict):
    """What a US dollar costs in AUD, and of which day that is: calls are booked with it from now on."""

    rate: float = Field(strict=True)
    """What one US dollar costs."""
    on: date
    """Day of the rate, which is not still to come."""
    source: str = Field("", max_length=200)
    """Who published the rate; it stands in the methods."""

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
        return _day(value)

    @field_validator("on")
    @classmethod
    def _has_come(cls, value: date) -> date:
        if value > datetime.now(UTC).date() + timedelta(days=1):  # it begins in Australia
            raise ValueError("this day is still to come; give a rate that was published, with its day")
        return value


class Budget(_Strict):
    """What the study may spend, all calls together, and the exchange rate that its calls are booked with."""

    aud: float | None = Field(None, gt=0)
    """Cap for all calls of the study together, judges included; there is none where it is left out."""
    confirm_above_aud: float = Field(10.0, ge=0)
    """Expected cost above which a run needs a yes."""
    aud_per_usd: ExchangeRate | None = None
    """Exchange rate that calls are booked with; the toolkit has one of its own, with its day."""

    @model_validator(mode="before")
    @classmethod
    def _reads_money(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        exchange = value.get("aud_per_usd")
        rate = exchange.get("rate") if isinstance(exchange, Mapping) else None
        texts = {key: text for key, text in value.items() if key in _AMOUNTS and isinstance(text, str)}
        return {**value, **{key: _in_aud(key, text, rate) for key, text in texts.items()}}

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


class Limit(_Strict):
    """What one provider may be sent: requests at once, and requests and tokens a minute."""

    concurrency: int | None = Field(None, ge=1, le=1000)
    """Requests that are sent to this provider at the same time."""
    requests_per_minute: float | None = Field(None, gt=0)
    """Requests that are sent to this provider, runs and judges together."""
    tokens_per_minute: float | None = Field(None, gt=0)
    """Tokens that are sent to and received from this provider, runs and judges together."""


class Analysis(_Strict):
    """What the analysis is held to, written down before there is a score."""

    score: Literal["composite_strict", "composite"] = SCORE
    """What is compared: with dimensions of score 0 (`composite_strict`), or without them (`composite`)."""
    primary: Literal["M-S", "L-M", "L-S"] | None = None
    """The one confirmatory contrast of prompt lengths; all others are exploratory."""
    equivalence_margin: float | None = Field(None, gt=0)
    """Difference below which two lengths count as equal; without it equivalence is not tested."""
    ceiling_share: float = Field(0.3, gt=0, le=1)
    """Share of scores at an end of the scale above which the analysis warns."""


class StudyFile(_Strict):
    """Everything a researcher decides before the first call."""

    name: Slug
    """Name of the study, of its results folder and in every caption."""
    dataset: str = "demo"
    """Prompts that are asked: the name of a shipped dataset, or a folder or file beside the study file."""
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
    bases: int | None = Field(None, ge=1)
    """Number of bases that are asked, drawn by the seed; all where it is left out."""
    test: str = "rubric_study"
    """What is measured: a test that ships, or a Python file of your own."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Options of the test, by name."""
    models: tuple[ModelEntry, ...] = Field(min_length=1)
    """Models under test: names of the catalogue, or tables."""
    selection: Literal["all", "adaptive"] = "all"
    """Whether all bases are asked, or in rounds those that separate the models best."""
    target_width: float | None = Field(None, gt=0)
    """Width of the widest interval of a difference of models at which an adaptive study stops."""
    repeats: int = Field(1, ge=1, le=1000)
    """How often each prompt is asked of each model; the test has its own default."""
    seed: int = Field(20250107, ge=0, lt=2**31)
    """Where every draw of the study begins; the same seed draws the same."""
    concurrency: int = Field(10, ge=1, le=1000)
    """Requests that are sent to one provider at the same time; lowered when the provider objects."""
    mode: Literal["single", "batch"] = "single"
    """Whether calls are sent singly, or as batches at half the price within a day."""
    batch_poll_seconds: float = Field(60.0, gt=0)
    """Time between two looks at a batch."""
    timeout_seconds: float | None = Field(None, gt=0)
    """Time after which a request without a reply is given up; 180, for a local model 900, where it is left out."""
    output: Path | None = None
    """Folder of the results, relative to the study file; results/NAME where it is left out."""
    note: str = ""
    """A sentence that stands in every caption."""
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


RENAMED: Final = {
    "budget_aud": "budget.aud", "exchange_rate": "budget.aud_per_usd",
    "runs_per_prompt": "repeats", "n_runs": "repeats", "lengths": "length_bins", "num_bases": "bases",
}  # fmt: skip
"""What keys were called in drafts and notes, with their places now; a key that is renamed comes in here."""


def _tables_with(name: str) -> Iterator[str]:
    """Yield the places of the tables that have a key: one that was moved says where it stands."""
    for table, field in StudyFile.model_fields.items():
        if name in getattr(field.annotation, "model_fields", {}):
            yield f"{table}.{name}"


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ""
    for part in first["loc"]:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else str(part)
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        if place := RENAMED.get(name) or next(iter(_tables_with(name)), ""):
            return f"unknown key {key}; write {place} instead"
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

"""How a study file describes models, prices and judges: a known name, or a server described in full."""

from collections.abc import Mapping
from datetime import date
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from unicodedata import category

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from toolkit.files.strict import plain_name
from toolkit.models.catalogue import PROVIDERS, ModelSpec, address_fault, model_spec

if TYPE_CHECKING:
    Provider = str
else:
    Provider = Literal[PROVIDERS]


model_address = attrgetter("provider", "model", "endpoint", "options")
"""Of the spec of a model: two that are alike in it would be one call."""
Count = Annotated[int, Field(ge=1)]
AtOnce = Annotated[int, Field(ge=1, le=1000)]
Positive = Annotated[float, Field(gt=0)]
Usd = Annotated[float, Field(ge=0)]


_PROSE = ("note", "prompt", "system")


class Table(BaseModel):
    """A table of a study file: no key but its own, and nothing changed after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_control_characters(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse texts that no name and no path is; prose, replies and options may have any."""
        signs = value if isinstance(value, str) and info.field_name not in _PROSE else ""
        if not {"Cc", "Cs", "Zl", "Zp"}.isdisjoint(map(category, signs)):
            raise ValueError("holds a control character, which no name and no path has; take it out")
        return value


class Planted(Table):
    """The truth of a scripted model or judge, in score points and shares; see `toolkit.models.scripted`."""

    level: float = 3.0
    """Mean quality that a scripted model plants in its replies to S prompts."""
    m_minus_s: float = 0.0
    """What M prompts add to that quality."""
    l_minus_m: float = 0.0
    """What L prompts add to the quality at M."""
    added: Mapping[str, float] | None = None
    """What texts add to that quality where a prompt or its system message has them, such as a level of a factor."""
    severity: float = 0.0
    """What a scripted judge takes off every score."""
    failures: float = Field(0.0, ge=0, le=1)
    """Share of requests that fail on purpose."""
    accuracy: float | None = Field(None, ge=0, le=1)
    """Share of the questions of a table with a key that are answered rightly."""
    first_bonus: float | None = None
    """What a scripted judge of pairs adds to the reply that it is shown first."""


class Over(Table):
    """What requests cost whose prompt has more than so many tokens, in USD per million."""

    tokens: Count
    """Length of a prompt, cached tokens included, above which the prices of this table hold."""
    input: Usd
    """Price of input for a request with such a prompt."""
    output: Usd
    """Price of output for a request with such a prompt."""


class CacheShares(Table):
    """What input costs that is read from or written to the provider's cache, as a share of the price of input."""

    read: Usd | None = None
    """Price of input that is read from the cache, as a share of the price of input."""
    write: Usd | None = None
    """Price of input that is written to the cache, as a share of the price of input."""


class PriceRow(Table):
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


class Reasoning(Table):
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

    name: Annotated[str, AfterValidator(plain_name)]
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
    context_tokens: Count | None = None
    """Context window; `toolkit estimate` names requests that do not fit into it."""
    gguf: Path | None = None
    """Weights of a local model, relative to the study file."""
    replies: tuple[str, ...] | None = None
    """Replies that a scripted model gives in turn."""
    planted: Planted | None = None
    """Truth that is planted in a scripted model or judge."""
    usd_per_million_input: Usd | None = None
    """Price of input, in place of the price that the toolkit has."""
    usd_per_million_output: Usd | None = None
    """Price of output, in place of the price that the toolkit has."""
    prices: tuple[PriceRow, ...] | None = Field(None, min_length=1)
    """Prices that change on a day, with the length of a prompt or with the cache."""
    concurrency: AtOnce | None = None
    """Requests that are sent to this model at the same time."""

    @field_validator("base_url")
    @classmethod
    def _refuse_password(cls, value: str | None) -> str | None:
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
    max_tokens: Count = 2000
    """Most tokens of a reply, reasoning included."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Nucleus sampling; the provider's own default where it is left out."""


class Judge(ModelEntry):
    """One judge of the ensemble, with its speciality."""

    specialization: str = ""
    """What this judge is good at, in names of dimensions: recorded, not sent, and a weight where `weights` says so."""


def named(value: Any) -> Any:
    """Return a name alone as the table of a model that has no more than its name."""
    return {"name": value} if isinstance(value, str) else value

"""Which models exist, who serves them, and what each can do; a study names one or describes its own."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from functools import cache, cached_property
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from toolkit.errors import StudyError, in_address, secret_fault, variable_in
from toolkit.files.digests import sha256_hex
from toolkit.files.reading import read_toml
from toolkit.words import choices

OTHER_TOKENIZER = 1.5
"""At worst our count is this much too low where the tokenizer is not public; it covers what we have seen."""


SCRIPTED = "scripted"
"""The provider that asks nobody."""
Room = tuple[str, str | None]
"""A provider and an address: what shares limits."""
Key = tuple[str, str, str | None]
"""Provider, model and endpoint: what a request names a model by."""


@cache
def toml_table(name: str) -> dict[str, Any]:
    """Return one of the tables beside this file: ``catalogue``, ``prices``, ``finish_reasons`` or ``statuses``."""
    return read_toml(files("toolkit.models") / f"{name}.toml")


@dataclass(frozen=True)
class Exchange:
    """What a US dollar costs in AUD, since which day, and who says so."""

    aud_per_usd: float
    day: date
    source: str

    def __str__(self) -> str:
        return f"{self.aud_per_usd:g} AUD a USD ({self.source}, {self.day})"


@dataclass(frozen=True)
class ModelSpec:
    """One model as a study sees it."""

    name: str
    provider: str
    model: str
    family: str
    encoding: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    structured: bool = False
    seed_supported: bool = False
    usd_per_million_input: float | None = None
    usd_per_million_output: float | None = None
    prices: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    context_tokens: int | None = None
    gguf: Path | None = None
    replies: tuple[str, ...] = ()
    planted: tuple[tuple[str, Any], ...] = ()
    retired: str | None = None
    logprobs: bool = False
    sampling_supported: bool = True
    sampling_at: tuple[str, ...] = ()
    efforts: tuple[str, ...] = ()
    reasoning_effort: str | None = None
    thinking_level: str | None = None
    verbosity: str | None = None
    extra: Mapping[str, Any] | None = field(default=None, hash=False)
    tokens_per_o200k: float = 1.0
    exchange: Exchange | None = None
    fresh: str | None = None
    """The study that shares no reply with another one."""
    around: tuple[str, ...] = ()
    """Lines that a level puts around every prompt: what is planted in replies to a prompt is of the rest."""

    @cached_property
    def endpoint(self) -> str | None:
        """What a request must carry, beside provider and model, to say whose reply this is."""
        # Two servers may serve different weights under one name, and so may two GGUF files and two scripts; without
        # this their calls would share one identity in the ledger.
        if self.gguf is not None:
            return f"gguf:{self.gguf.name}"
        for name in ("replies", "planted"):
            if script := getattr(self, name):
                return f"{name}:{sha256_hex(repr(script))[:16]}"
        return None if self.base_url == PROVIDERS[self.provider].get("base_url") else self.base_url

    @cached_property
    def options(self) -> str | None:
        """What its requests carry beside their messages and sampling, as JSON; ``None`` where nothing is set."""
        names = (*_OPTIONS, "extra", "fresh")
        values = {name: getattr(self, name) for name in names if getattr(self, name)}
        return json.dumps(values, sort_keys=True) if values else None

    @property
    def takes_sampling(self) -> bool:
        """Whether it takes a temperature, which may depend on its effort."""
        return self.sampling_supported or self.reasoning_effort in self.sampling_at

    @cached_property
    def room(self) -> Room:
        """What shares limits: one provider at one address."""
        return self.provider, self.endpoint

    @cached_property
    def doubt(self) -> float:
        """What a count of its tokens is multiplied by at worst."""
        return 1.0 if self.encoding else OTHER_TOKENIZER

    @cached_property
    def counted_by(self) -> tuple[str, float]:
        """Encoding to count its tokens with, and what its count is to be multiplied by."""
        return (self.encoding, 1.0) if self.encoding else ("o200k_base", self.tokens_per_o200k)

    def is_retired(self, today: date | None = None) -> bool:
        """Return whether the provider said that by this day, today by default, it no longer answers for the model."""
        return self.retired is not None and self.retired <= (today or date.today()).isoformat()


def model_names() -> tuple[str, ...]:
    """Return the names a study may use without describing the model."""
    return tuple(toml_table("catalogue")["models"])


def model_spec(name: str, **overrides: Any) -> ModelSpec:
    """Return the model of that name, or PROVIDER/MODEL, with the study's own fields laid over the catalogue's."""
    models = toml_table("catalogue")["models"].items()
    prefix, _, model = name.partition("/")
    # Whoever names the provider beside it serves a model with a stroke in its name, such as openai/gpt-oss-20b.
    if not model or prefix not in PROVIDERS or "provider" in overrides:
        prefix, model = "", name
    entry: dict[str, Any] = next(
        (
            row
            for known, row in models
            if model in (known, *row.get("aliases", ())) and prefix in ("", row["provider"])
        ),
        {},
    )
    provider = overrides.get("provider", prefix or entry.get("provider"))
    if provider is None:
        raise StudyError(
            f"unknown model {name!r}: {choices(name, model_names())}, "
            f"or name its provider too, as in PROVIDER/MODEL: {', '.join(PROVIDERS)}"
        )
    if provider != entry.get("provider", provider):
        entry = {key: value for key, value in entry.items() if key in toml_table("catalogue")["of_weights"]}
    # The rest is what the table says of a row, or which classes ask a provider.
    row = {**PROVIDERS[provider], **entry}
    # llama of openrouter/meta-llama/llama-3.3-70b: judges of the judged model's own family are marked.
    family = re.split("[^a-z]", model.rpartition("/")[2].lower())[0] if prefix else ""
    defaults = {"model": model, "family": family or name} | {
        field.name: row[field.name] for field in fields(ModelSpec) if field.name in row
    }
    for field_name, lapsed in toml_table("catalogue")["lapses"]:
        if field_name in overrides:
            defaults.pop(lapsed, None)
    values = {**defaults, **overrides, "name": name, "provider": provider}
    if values.get("gguf") is not None:  # TOML has neither paths nor tuples
        values["gguf"] = Path(values["gguf"])
    truth = dict(values.get("planted") or {})
    if added := truth.get("added"):
        truth["added"] = tuple(sorted(added.items()))
    values["planted"] = tuple(sorted(truth.items()))
    values |= {key: tuple(values.get(key) or ()) for key in ("replies", "prices", "sampling_at", "efforts")}
    return _checked(ModelSpec(**values))


def _checked(spec: ModelSpec) -> ModelSpec:
    if spec.planted and spec.provider != SCRIPTED:
        raise StudyError(f'model {spec.name!r} is asked for real: planted is for provider = "scripted" alone')
    if spec.provider == "compatible" and not spec.base_url:
        raise StudyError(f"model {spec.name!r} is compatible with OpenAI but has no address: give base_url")
    if spec.encoding and spec.tokens_per_o200k != 1:
        raise StudyError(
            f"model {spec.name!r} has the public tokenizer {spec.encoding}, which counts exactly: take out "
            "tokens_per_o200k"
        )
    if fault := options_fault(spec):
        raise StudyError(f"model {spec.name!r}: {fault}")
    # The address itself is not printed: a key may stand in it, and a line ends up in a log.
    if spec.base_url is not None and (fault := address_fault(spec.base_url)):
        raise StudyError(f"model {spec.name!r}: its base_url {fault}")
    if spec.api_key_env is not None and not _VARIABLE.fullmatch(spec.api_key_env):
        message = f"model {spec.name!r}: its api_key_env is no name of a variable; never write a key there"
        raise StudyError(message)
    return spec


def options_fault(spec: ModelSpec) -> str | None:
    """Return why a model cannot be asked with its options: what its provider or its table of efforts refuses."""
    options = PROVIDERS[spec.provider].get("options", ())
    for name in _OPTIONS:
        if getattr(spec, name) and name not in options:
            instead = f", or write {' or '.join(options)}" if options else ""
            return f"{spec.provider} takes no {name}; leave it out{instead}"
    if spec.reasoning_effort and spec.thinking_level:
        return "reasoning_effort and thinking_level say one thing twice, which its provider refuses; give one of them"
    if spec.efforts:
        for name in ("reasoning_effort", "thinking_level"):
            if (value := getattr(spec, name)) and value not in spec.efforts:
                return f"it takes no {name} {value!r}; {choices(value, spec.efforts)}"
    extra = spec.extra or {}
    if own := [name for name in extra if name in toml_table("catalogue")["sent"]]:
        return f"extra.{own[0]} is set by the toolkit; use the key of the study file, or leave it out"
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError):
        return "extra holds what JSON has no form for, such as a date; write a text"
    return secret_fault({"extra": extra})


_OPTIONS = ("reasoning_effort", "thinking_level", "verbosity")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*|(?!(?:sk|gsk|hf|r8|ghp|xai)_)[A-Za-z_][A-Za-z0-9_]*")
"""Names of variables; a key of some providers looks like one in small letters."""


def address_fault(url: str) -> str | None:
    """Return why an address cannot be that of a server, or would carry a key into every call, manifest and archive."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        plain = False
    if not plain or not url.isprintable() or " " in url:
        return "is no address: write http(s)://host[:port]/path"
    path = unquote(unquote(parts.path))
    signs = {*"?#;"} & {*url, *path} or "@" in parts.netloc + path
    if signs or in_address(path) or variable_in(url):
        return (
            "has a user name, a password, a query or a key in it, which would stand in every call, manifest and "
            "archive; leave it out and name the variable that holds the key by api_key_env"
        )
    return None


PROVIDERS: Mapping[str, Any] = toml_table("catalogue")["providers"]


def class_of(provider: str, kind: str) -> Any:
    """Return the class that asks a provider (``client``), or that of its batch endpoint (``batches``), or ``None``."""
    module, _, name = PROVIDERS[provider].get(kind, "").partition(":")
    return getattr(import_module(f"toolkit.models.{module}"), name) if module else None


def has_batches(provider: str) -> bool:
    """Return whether a provider has a batch endpoint; the others are asked singly in batch mode too."""
    return "batches" in PROVIDERS[provider]

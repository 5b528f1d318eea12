"""The study file as typed, checked, frozen objects: the one place where defaults live.

A study file is TOML. Paths in it are relative to the file itself, so it means the same from a shell, a notebook
and papermill.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from toolkit.errors import InputError, StudyError
from toolkit.words import JUDGE_ROLES, SCENARIOS

LengthBin = Literal["S", "M", "L"]
Scenario = Literal["SOC_INCIDENT", "GRC_MAPPING", "CTI_ANALYSIS"]
Provider = Literal["openai", "anthropic", "groq", "compatible", "local", "scripted"]
Entry = TypeVar("Entry", bound="ModelEntry")
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelEntry(_Strict):
    """A model of the study: a known name, or a server of one's own described in full.

    Everything except ``name`` overrides what the catalogue knows of that name.
    """

    name: str
    provider: Provider | None = None
    model: str | None = None
    family: str | None = None
    encoding: Literal["o200k_base", "cl100k_base"] | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    structured: bool | None = None
    seed_supported: bool | None = None
    context_tokens: int | None = Field(None, ge=1)
    gguf: Path | None = None
    replies: tuple[str, ...] | None = None
    usd_per_million_input: float | None = Field(None, ge=0)
    usd_per_million_output: float | None = Field(None, ge=0)
    concurrency: int | None = Field(None, ge=1, le=1000)

    def overrides(self) -> dict[str, Any]:
        """Return what the study says beyond the name, for `toolkit.models.catalogue.model_spec`."""
        return self.model_dump(exclude_none=True, exclude={"name", "concurrency", "specialization"})


class Sampling(_Strict):
    """How the models under test are asked (seed 002, section 1.2)."""

    temperature: float = Field(0.2, ge=0, le=2)
    max_tokens: int = Field(2000, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)


class Judge(ModelEntry):
    """One judge of the ensemble; its speciality is recorded, its weight is equal."""

    specialization: str = ""


class Judges(_Strict):
    """The ensemble and how it is asked (seed 002, section 4.2)."""

    rubric: str = "default"
    temperature: float = Field(0.1, ge=0, le=2)
    max_tokens: int = Field(1000, ge=1)
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

    fsp_enabled: Literal[False] = False
    length_normalization: Literal[False] = False


class Budget(_Strict):
    """What the study may spend, all calls together."""

    aud: float | None = Field(None, gt=0)
    confirm_above_aud: float = Field(10.0, ge=0)


class Replies(_Strict):
    """What becomes of a reply that is not whole: it is marked, and never scored as if it were.

    ``keep`` has it judged as it is, ``exclude`` keeps it unjudged, ``retry`` asks again with twice ``max_tokens``,
    up to ``retries`` times, and excludes it when it still is not whole.
    """

    truncated: Literal["keep", "retry", "exclude"] = "exclude"
    empty: Literal["retry", "exclude"] = "exclude"
    refused: Literal["keep", "exclude"] = "exclude"
    filtered: Literal["keep", "exclude"] = "exclude"
    retries: int = Field(2, ge=1, le=5)


class Limit(_Strict):
    """What one provider may be sent: requests at once, and requests and tokens a minute."""

    concurrency: int | None = Field(None, ge=1, le=1000)
    requests_per_minute: float | None = Field(None, gt=0)
    tokens_per_minute: float | None = Field(None, gt=0)


class StudyFile(_Strict):
    """Everything a researcher decides before the first call."""

    name: Slug
    dataset: str = "demo"
    scenarios: tuple[Scenario, ...] = SCENARIOS
    length_bins: tuple[LengthBin, ...] = ("S", "M", "L")
    test: str = "rubric_study"
    options: Mapping[str, Any] = Field(default_factory=dict)
    models: tuple[ModelEntry, ...] = Field(min_length=1)
    repeats: int = Field(1, ge=1, le=1000)
    seed: int = Field(20250107, ge=0, lt=2**31)
    concurrency: int = Field(10, ge=1, le=1000)
    mode: Literal["single", "batch"] = "single"
    batch_poll_seconds: float = Field(60.0, gt=0)
    timeout_seconds: float | None = Field(None, gt=0)
    output: Path | None = None
    note: str = ""
    replies: Replies = Replies()
    limits: Mapping[Provider, Limit] = Field(default_factory=dict)
    sampling: Sampling = Sampling()
    judges: Judges = Judges()
    bias_controls: BiasControls = BiasControls()
    budget: Budget = Budget()

    @field_validator("models", mode="before")
    @classmethod
    def _names_are_enough(cls, value: Any) -> Any:
        return [_named(item) for item in value] if isinstance(value, list | tuple) else value

    def limit(self, provider: str) -> Limit:
        """Return what the study says a provider may be sent; nothing where it says nothing."""
        return next((limit for name, limit in self.limits.items() if name == provider), Limit())

    @model_validator(mode="after")
    def _names_differ(self) -> StudyFile:
        names = [entry.name for entry in self.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"models: {twice[0]!r} is named twice; give each model its own name")
        return self


def load_study_file(path: str | Path) -> tuple[StudyFile, Path]:
    r"""Read and check a study file.

    Parameters
    ----------
    path
        A TOML file.

    Returns
    -------
    tuple
        The checked study, with every path in it absolute, and the absolute path of its file.

    Raises
    ------
    StudyError
        In one line: the file, the key, what is wrong, and the allowed values.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "s.toml")
    >>> _ = file.write_text('name = "pilot"\nmodels = ["gpt-4o"]')
    >>> study, _ = load_study_file(file)
    >>> study.sampling.temperature, study.judges.max_tokens
    (0.2, 1000)
    """
    file = Path(path).expanduser()
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(f"{path}: no such study file; start from one in templates/") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read as text ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path}: not valid TOML: {error}") from None
    try:
        study = StudyFile.model_validate(content)
    except ValidationError as error:
        raise StudyError(f"{path}: {_explain(error)}") from None
    file = file.resolve()
    output = file.parent / (study.output or Path("results") / study.name)
    dataset = study.dataset
    if "/" in dataset or "." in dataset:
        dataset = str((file.parent / dataset).resolve())
    rubric = study.judges.rubric
    if rubric.endswith(".toml"):
        rubric = str((file.parent / rubric).resolve())
    from toolkit.finding import find_test

    try:
        test = find_test(study.test, file.parent)
    except StudyError as error:
        raise StudyError(f"{path}: {error}") from None
    study = study.model_copy(
        update={
            "repeats": study.repeats if "repeats" in study.model_fields_set else test.default_repeats,
            "output": output.resolve(),
            "dataset": dataset,
            "models": tuple(_at(entry, file.parent) for entry in study.models),
            "judges": study.judges.model_copy(
                update={
                    "rubric": rubric,
                    **{role: _at(judge, file.parent) for role, judge in study.judges.by_role().items()},
                }
            ),
        }
    )
    _check_names(study, path)
    return study, file


def _at(entry: Entry, folder: Path) -> Entry:
    """Return an entry whose weights are named by an absolute path."""
    return entry if entry.gguf is None else entry.model_copy(update={"gguf": folder / entry.gguf})


def _check_names(study: StudyFile, path: str | Path) -> None:
    """Refuse a model or rubric nobody knows now, not after an hour of calls."""
    from toolkit.judges.rubric import load_rubric
    from toolkit.models.catalogue import model_spec

    entries: list[tuple[str, ModelEntry]] = [
        (f"models[{number}]", entry) for number, entry in enumerate(study.models)
    ]
    entries += [(f"judges.{role}", judge) for role, judge in study.judges.by_role().items()]
    seen: dict[tuple[str, str, str | None], str] = {}
    for key, entry in entries:
        try:
            spec = model_spec(entry.name, **entry.overrides())
        except InputError as error:
            raise StudyError(f"{path}: {key}: {error}") from None
        twin = seen.setdefault((spec.provider, spec.model, spec.endpoint), entry.name)
        if key.startswith("models") and twin != entry.name:
            raise StudyError(
                f"{path}: {key}: {entry.name!r} is the same model as {twin!r}; their runs would be the same calls"
            )
    try:
        load_rubric(study.judges.rubric)
    except InputError as error:
        raise StudyError(f"{path}: judges.rubric: {error}") from None


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _explain(error: ValidationError) -> str:
    """Return the first fault of a study file as key, fault and what is allowed."""
    first = error.errors(include_url=False)[0]
    key = ""
    for part in first["loc"]:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else str(part)
    if first["type"] == "extra_forbidden":
        return f"unknown key {key}; allowed here: {', '.join(sorted(_table(first).model_fields))}"
    if first["type"] == "missing":
        return f"key {key} is missing"
    message = first["msg"].removeprefix("Value error, ")
    given = f", got {first['input']!r}" if isinstance(first["input"], str | int | float | bool) else ""
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{key}: {message}{given}{more}" if key else f"{message}{more}"


def _table(fault: ErrorDetails) -> type[BaseModel]:
    """Return the table of the study file in which an unknown key stands."""
    table: type[BaseModel] = StudyFile
    for part in fault["loc"][:-1]:
        if str(part) in table.model_fields:  # not a place in a list, nor the name of a provider
            table = _models_in(table.model_fields[str(part)].annotation)[0]
    return table


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]

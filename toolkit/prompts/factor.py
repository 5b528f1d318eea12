"""What a study varies on purpose besides its models: a factor, its levels, and a second factor crossed with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator

from toolkit.files.strict import plain_name
from toolkit.models.catalogue import ModelSpec
from toolkit.models.entries import Count, Reasoning, Sampling, Table
from toolkit.words import LENGTH_BINS


class Level(Reasoning):
    """How the prompts of one level of a factor are asked; what is left out is as everywhere in the study."""

    prompt: str = "{prompt}"
    """Text that is sent: `{prompt}` is the prompt; columns of the dataset and `factor.files` stand in braces too."""
    system: str | None = None
    """System message of its requests; the judges do not see it."""
    temperature: float | None = Field(None, ge=0, le=2)
    """Temperature of its requests."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Nucleus sampling of its requests."""
    max_tokens: Count | None = None
    """Most tokens of its replies."""

    def combined(self, other: Level) -> Level:
        """Return how prompts of this level and of one of another factor are asked, with both system messages."""
        fields = self.model_dump(exclude_unset=True) | other.model_dump(exclude_unset=True)
        texts = [level.system for level in (self, other) if level.system]
        return Level(**fields | {"system": "\n\n".join(texts) or None})

    @cached_property
    def reasoning(self) -> dict[str, Any]:
        """What its requests carry beside their sampling, where the level says so."""
        return self.model_dump(include={*Reasoning.model_fields}, exclude_none=True)

    @cached_property
    def _settings(self) -> dict[str, Any]:
        return self.model_dump(include={"temperature", "top_p", "max_tokens"}, exclude_none=True)

    def model(self, spec: ModelSpec) -> ModelSpec:
        """Return a model as its requests ask it."""
        return replace(spec, **self.reasoning) if self.reasoning else spec

    def sampling(self, common: Sampling) -> Sampling:
        """Return the sampling of its requests."""
        return common.model_copy(update=self._settings) if self._settings else common


AS_EVERYWHERE = Level()


class Factor(Table):
    """What a study varies on purpose besides its models, in place of prompt length."""

    name: Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$", max_length=40)]
    """Name of the factor in code: small letters, digits and `_`."""
    title: str = ""
    """What texts and figures call it; its name where it is left out."""
    from_: str | None = Field(None, alias="from")
    """Column of the dataset that has the level of each prompt; without it every prompt is asked at every level."""
    levels: Mapping[Annotated[str, Field(min_length=1, max_length=40), AfterValidator(plain_name)], Level] = (
        Field(min_length=2)
    )
    """Levels in their order: names alone, or of each the text around its prompts, or a table."""
    files: Mapping[str, Path] = Field(default_factory=dict)
    """Texts beside the study file that levels put into prompts, by the name that stands in braces."""

    @field_validator("levels", mode="before", json_schema_input_type=list[str] | dict[str, str | Level])
    @classmethod
    def _accept_texts(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            value = {str(name): {} for name in value}
        if not isinstance(value, Mapping):
            return value
        if length := sorted({*LENGTH_BINS} & {*value}):
            raise ValueError(f"{length[0]} is a prompt length; give the level a name of its own")
        return {name: {"prompt": level} if isinstance(level, str) else level for name, level in value.items()}

    @property
    def noun(self) -> str:
        """What texts call it."""
        return self.title or self.name.replace("_", " ")


class FirstFactor(Factor):
    """What a study varies on purpose, alone or crossed with a second factor."""

    crossed: Factor | None = None
    """A second factor: each of its levels is asked at each level of this one; its texts stand around those of this."""

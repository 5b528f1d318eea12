"""Rubrics as data: dimensions, anchors and prompt text in a TOML file, identified by the hash of its content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from toolkit.errors import InputError
from toolkit.files import Strict, checked, read_toml
from toolkit.words import DIMENSIONS, SCALE, choices

SHIPPED: Final = ("default", "seed-v1")
PLACEHOLDERS: Final = {
    "response_content",
    "key_sentences",
    "focus",
    "task",
    "nonce",
    "criteria",
    "step",
    "reference",
}
STATIC: Final = {"criteria", "step"}
"""Placeholders that depend on the rubric alone; only these are allowed in ``instructions``."""
SCORED_OVERALL: Final = ("completeness", "actionability")
"""Dimensions with scope ``whole`` unless the rubric says otherwise."""
PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")
"""A name in braces; the braces of the JSON example in a prompt never match it."""


class Dimension(Strict):
    """One dimension that a judge scores, with its question and the meaning of each whole score.

    ``scope``: ``per_sentence`` asks about it segment by segment (``local``), or about the whole reply (``whole``).
    """

    name: str
    title: str
    question: str
    anchors: Mapping[int, str] = {}
    scope: Literal["local", "whole"] = "local"

    @model_validator(mode="before")
    @classmethod
    def _parse_table(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            raise ValueError("must be a table; write it under [[dimensions]]")
        anchors = data.get("anchors", [])
        if not isinstance(anchors, list) or len(anchors) not in (0, 6):
            raise ValueError("anchors must be six texts, for the scores 0, 1, 2, 3, 4 and 5")
        scope = "whole" if data.get("name") in SCORED_OVERALL else "local"
        return {"scope": scope, **data, "anchors": dict(enumerate(anchors))}

    def line(self) -> str:
        """Return the dimension as one line of a prompt, anchors included."""
        marks = "; ".join(f"{score} {text}" for score, text in sorted(self.anchors.items()))
        return f"{self.name}: {self.question}" + (f" {marks}" if marks else "")


class Rubric(Strict):
    """The text of a judge's prompt: fixed ``instructions`` first, then ``template`` with the material."""

    name: str
    version: str
    dimensions: Annotated[tuple[Dimension, ...], Field(strict=False)]
    template: str
    instructions: str = ""
    scale: Annotated[tuple[float, float], Field(strict=False)] = SCALE
    shows_task: bool = False
    asks_reasons: bool = False
    focus: str = ""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Rubric:
        """Return a copy with other fields; cached properties are not copied."""
        return Rubric.model_construct(**{**dict(self), **(update or {})})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions, in order."""
        return tuple(dimension.name for dimension in self.dimensions)

    @cached_property
    def criteria(self) -> str:
        """The dimensions as the prompt lists them, one a line."""
        return "\n".join(dimension.line() for dimension in self.dimensions)

    @property
    def lists_focus(self) -> bool:
        """Whether its prompt has a placeholder for focus sentences."""
        return bool(self.focus) or "{key_sentences}" in self.template

    @property
    def shows_reference(self) -> bool:
        """Whether its prompt says where the reference answer stands, so that judges see it."""
        return "{reference}" in self.template

    @property
    def lists_criteria(self) -> bool:
        """Whether its dimensions are put into the prompt, so that their order can change."""
        return "{criteria}" in self.template + self.instructions

    @property
    def content(self) -> str:
        """The content as JSON text."""
        return json.dumps(self.model_dump(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content: two rubrics with one digest ask exactly the same."""
        return hashlib.sha256(self.content.encode("utf-8", "surrogatepass")).hexdigest()

    @model_validator(mode="after")
    def _usable(self) -> Rubric:
        if self.scale != SCALE:
            raise ValueError("scale must be [0, 5], because composites and intervals rest on it")
        if sorted(self.names) != sorted(DIMENSIONS):
            raise ValueError(f"must have each of these dimensions once: {', '.join(DIMENSIONS)}")
        if missing := {"local", "whole"} - {dimension.scope for dimension in self.dimensions}:
            raise ValueError(f"no dimension has scope {missing.pop()}; per_sentence needs both")
        needed = {"task"} if self.shows_task else set()
        if missing := {"response_content", *needed} - set(PLACEHOLDER.findall(self.template)):
            raise ValueError(f"template lacks {_braced(missing)}; put it where the text belongs")
        if bool(self.focus) != ("focus" in set(PLACEHOLDER.findall(self.template))):
            raise ValueError("the text focus and its place {focus} in template need each other")
        for text, allowed in (
            ("template", PLACEHOLDERS - {"task"} | needed),
            ("focus", {"key_sentences", "nonce"}),
            ("instructions", STATIC),
        ):
            if stray := set(PLACEHOLDER.findall(getattr(self, text))) - allowed:
                raise ValueError(f"{text} cannot hold {_braced(stray)}; allowed are {_braced(allowed)}")
        return self


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of a prompt in one pass: inserted text is never read as a placeholder."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


@cache
def shipped_words(name: str, room: str = "judges") -> Mapping[str, Any]:
    """Return one of the TOML files that ship with a room of the toolkit."""
    return read_toml(resources.files(f"toolkit.{room}") / "data" / f"{name}.toml", name)


def load_rubric(name_or_path: str | Path) -> Rubric:
    """Read a rubric: by its name one that ships with the toolkit, by its path a TOML file."""
    name = str(name_or_path)
    if name in SHIPPED:
        return checked(Rubric, shipped_words(name), name)
    if name.endswith(".toml"):
        return checked(Rubric, read_toml(Path(name), f"rubric {name}"), f"rubric {name}")
    raise InputError(f"rubric {name!r} is unknown: {choices(name, SHIPPED)}, or a path ending in .toml")


def _braced(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))

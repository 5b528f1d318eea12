"""Rubrics as data: dimensions, anchors and prompt text in a TOML file, identified by the hash of its content."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from toolkit.errors import InputError
from toolkit.files.digests import sha256_hex
from toolkit.files.reading import read_toml
from toolkit.files.strict import Strict, checked
from toolkit.scoring import SEED_SCHEME, Scheme
from toolkit.words import DIMENSIONS, SCALE, choices, scale_words

SEED_RUBRIC = "seed-v1"
"""The rubric whose composite leaves zeros out, beside the strict one."""
SHIPPED = ("default", SEED_RUBRIC)
PLACEHOLDERS = {
    "response_content",
    "key_sentences",
    "focus",
    "task",
    "nonce",
    "criteria",
    "step",
    "reference",
    "scale",
}
STATIC = {"criteria", "step", "scale"}
"""Placeholders that depend on the rubric alone; only these are allowed in ``instructions``."""
SCORED_OVERALL = ("completeness", "actionability")
"""Dimensions with scope ``whole`` unless the rubric says otherwise."""
MOST_DIMENSIONS = 12
MOST_SCORES = 1000
"""Scores of all dimensions together: OpenAI takes at most so many values of enumerations in a schema."""
LARGEST = 1e6  # of the ends of a scale, as the store has them
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
"""A name in braces; the braces of the JSON example in a prompt never match it."""


class Dimension(Strict):
    """One dimension that a judge scores, with its question, what it weighs, and the meaning of scores.

    ``anchors`` is a table of score and text; a list of six texts is for the scores 0 to 5.

    One that is ``optional`` may be null, where a task gives nothing to judge, and is left out of the composite.
    ``scope``: ``per_sentence`` asks about it segment by segment (``local``), or about the whole reply (``whole``).
    """

    name: str
    title: str
    question: str
    anchors: Mapping[int | float, str] = {}
    scope: Literal["local", "whole"] = "local"
    weight: float = Field(1.0, gt=0, le=1000, strict=False)
    optional: bool = False

    @model_validator(mode="before")
    @classmethod
    def _parse_table(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            raise ValueError("must be a table; write it under [[dimensions]]")
        anchors = data.get("anchors", {})
        if isinstance(anchors, list) and len(anchors) in (0, 6):
            anchors = dict(enumerate(anchors))
        if not isinstance(anchors, dict):
            raise ValueError(
                'anchors must be a table of scores and texts, such as { 1 = "wrong", 10 = "right" }, or six texts, '
                "for the scores 0, 1, 2, 3, 4 and 5"
            )
        texts: dict[int | float, Any] = {}
        for score, text in anchors.items():
            try:
                number = float(score)
            except ValueError:
                raise ValueError(
                    f'anchors: {score!r} is no score; write a number, such as 1 = "wrong"'
                ) from None
            texts[int(number) if number.is_integer() else number] = text
        scope = "whole" if data.get("name") in SCORED_OVERALL else "local"
        return {"scope": scope, **data, "anchors": texts}

    def line(self) -> str:
        """Return the dimension as one line of a prompt, anchors included."""
        marks = "; ".join(f"{score:g} {text}" for score, text in sorted(self.anchors.items()))
        return f"{self.name}: {self.question}" + (f" {marks}" if marks else "")


class Rubric(Strict):
    """The text of a judge's prompt: fixed ``instructions`` first, then ``template`` with the material."""

    name: str
    version: str
    dimensions: Annotated[tuple[Dimension, ...], Field(strict=False)]
    template: str
    instructions: str = ""
    scale: Annotated[tuple[float, float], Field(strict=False)] = SCALE
    step: float | None = Field(None, gt=0, strict=False, allow_inf_nan=False)
    shows_task: bool = False
    asks_reasons: bool | Literal["each"] = False
    focus: str = ""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Rubric:
        """Return a copy with other fields; cached properties are not copied."""
        return Rubric.model_construct(**dict(self) | dict(update or {}))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions, in order."""
        return tuple(dimension.name for dimension in self.dimensions)

    @property
    def titles(self) -> tuple[str, ...] | dict[str, str]:
        """Names of the dimensions, with their titles where they are not the seed's."""
        if {*self.names} <= {*DIMENSIONS}:
            return self.names
        titles = ((dimension.name, dimension.title) for dimension in self.dimensions)
        # In a sentence and beside other names a word begins small; an abbreviation stays as it is.
        return {
            name: title[:1].lower() + title[1:] if title[1:2].islower() else title for name, title in titles
        }

    @cached_property
    def scheme(self) -> Scheme:
        """What its scores are: dimensions with their weights, and the scale."""
        optional = tuple(dimension.name for dimension in self.dimensions if dimension.optional)
        return Scheme(
            self.names, tuple(dimension.weight for dimension in self.dimensions), self.scale, optional
        )

    @cached_property
    def steps(self) -> tuple[float, ...]:
        """The scores that a judge may give: by ``step``, else in halves on 0-5 and in whole steps elsewhere."""
        (low, high), step = self.scale, self.distance
        return tuple(round(low + number * step, 9) for number in range(round((high - low) / step) + 1))

    @property
    def distance(self) -> float:
        """Distance of two such scores."""
        return self.step or (0.5 if self.scale == SCALE else 1.0)

    def static(self, whole: bool = False) -> dict[str, str]:
        """Return the placeholders that depend on the rubric alone; ``whole`` has whole scores only."""
        step = "1" if whole else f"{self.distance:g}"
        return {"criteria": self.criteria, "step": step, "scale": scale_words(self.scale)}

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
        content = self.model_dump()
        # A rubric that says nothing of them has the content, and the digest, of before there were any.
        if content["step"] is None:
            del content["step"]
        for dimension in content["dimensions"]:
            for key, usual in (("weight", 1.0), ("optional", False)):
                if dimension[key] == usual:
                    del dimension[key]
        return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content: two rubrics with one digest ask exactly the same."""
        return sha256_hex(self.content)

    @model_validator(mode="after")
    def _usable(self) -> Rubric:
        faults = [*self._scale_faults(), *self._dimension_faults(), *self._text_faults()]
        if faults:  # a model of pydantic takes one message alone
            raise PydanticCustomError("faults", "it has faults", {"faults": faults})
        return self

    def _scale_faults(self) -> Iterator[str]:
        low, high = self.scale
        if not (low < high and max(-low, high) <= LARGEST):  # NaN too
            yield "scale must be two numbers, the lower end first, such as [1, 10]"
        elif (
            (high - low) / self.distance > MOST_SCORES
            or abs(self.steps[-1] - high) > 1e-9
            or low == self.steps[-1]
        ):
            advice = f"write one that does, at most {MOST_SCORES} times, such as step = {(high - low) / 10:g}"
            yield f"step: {self.distance:g} does not lead from {low:g} to {high:g}; {advice}"
        elif (
            len(self.names) <= MOST_DIMENSIONS and (values := len(self.names) * len(self.steps)) > MOST_SCORES
        ):
            advice = f"more than the {MOST_SCORES} that a schema may have; write a larger step"
            yield f"its dimensions have {values} scores together, {advice}"

    def _dimension_faults(self) -> Iterator[str]:
        (low, high), words = self.scale, scale_words(self.scale)
        if not 1 <= len(self.names) <= MOST_DIMENSIONS:
            yield f"has {len(self.names)} dimensions; write 1 to {MOST_DIMENSIONS} of them"
        for number, dimension in enumerate(self.dimensions):
            name = dimension.name
            if not _NAME.fullmatch(name) or name in _column_names() or name.startswith(("composite", "run_")):
                yield (
                    f"dimension {name!r}: a name has a to z, 0 to 9 and _, begins with a letter, and is no column of "
                    "the frames; take another"
                )
            if name in self.names[:number]:
                yield f"dimension {name!r} is there twice; give each its own name"
            if low < high and (off := [score for score in dimension.anchors if not low <= score <= high]):
                advice = "give its anchors as a table of scores and texts"
                yield f"dimension {name!r}: {off[0]:g} is off the scale {words}; {advice}"

    def _text_faults(self) -> Iterator[str]:
        needed = {"task"} if self.shows_task else set()
        placeholders = set(PLACEHOLDER.findall(self.template))
        if missing := {"response_content", *needed} - placeholders:
            yield f"template lacks {_braced(missing)}; put it where the text belongs"
        if bool(self.focus) != ("focus" in placeholders):
            yield "the text focus and its place {focus} in template need each other"
        for text, allowed in (
            ("template", PLACEHOLDERS - {"task"} | needed),
            ("focus", {"key_sentences", "nonce"}),
            ("instructions", STATIC),
        ):
            if stray := set(PLACEHOLDER.findall(getattr(self, text))) - allowed:
                yield f"{text} cannot hold {_braced(stray)}; allowed are {_braced(allowed)}"


@cache
def _column_names() -> frozenset[str]:
    """Return the names that columns of frames and of ratings files have beside the dimensions."""
    text = (resources.files("toolkit") / "store" / "columns.csv").read_text("utf-8")
    frames = ("runs", "judgements", "dimensions", "human")
    names = {row["column"] for row in csv.DictReader(text.splitlines()) if row["frame"] in frames}
    return frozenset(names.union(shipped_words("taken")["names"]) - {*DIMENSIONS})


def scheme_in(content: str) -> Scheme:
    """Return the dimensions, weights and scale in the content of a rubric; another instrument has those of the seed."""
    rubric = json.loads(content)
    if not (parts := rubric.get("dimensions")):
        return SEED_SCHEME
    weights = tuple(part.get("weight", 1.0) for part in parts)
    optional = tuple(part["name"] for part in parts if part.get("optional"))
    return Scheme(tuple(part["name"] for part in parts), weights, tuple(rubric["scale"]), optional)


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

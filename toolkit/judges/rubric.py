"""Rubrics as data: dimensions, anchors and prompt text in a TOML file, known by the hash of its content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

from toolkit.errors import InputError
from toolkit.files import read_toml
from toolkit.words import DIMENSIONS, SCALE

SHIPPED: Final = ("default", "seed-v1")
PLACEHOLDERS: Final = frozenset(
    {"response_content", "key_sentences", "focus", "task", "nonce", "criteria", "step"}
)
STATIC: Final = frozenset({"criteria", "step"})
"""Placeholders that depend on the rubric alone; only these may stand in ``instructions``."""
SCOPES: Final = ("local", "whole")
WHOLE: Final = frozenset({"completeness", "actionability"})
"""Dimensions that are judged on the whole reply unless the rubric says otherwise."""
PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")
"""A name in braces; the braces of the JSON example in a prompt never match it."""


@dataclass(frozen=True)
class Dimension:
    """One thing a judge scores: its column name, its title, its question, and what each whole score means.

    ``scope`` says where ``per_sentence`` looks for it: ``local``, segment by segment, or ``whole``, in the whole
    reply at once, so that what is left out counts.
    """

    name: str
    title: str
    question: str
    anchors: Mapping[int, str] = field(default_factory=dict)
    scope: Literal["local", "whole"] = "local"

    def line(self) -> str:
        """Return the dimension as one line of a prompt, anchors included."""
        marks = "; ".join(f"{score} {text}" for score, text in sorted(self.anchors.items()))
        return f"{self.name}: {self.question}" + (f" {marks}" if marks else "")


@dataclass(frozen=True)
class Rubric:
    """What a judge is told; ``instructions`` go first and never change, ``template`` holds what is judged."""

    name: str
    version: str
    dimensions: tuple[Dimension, ...]
    template: str
    instructions: str = ""
    scale: tuple[float, float] = SCALE
    shows_task: bool = False
    asks_reasons: bool = False
    focus: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions, in order."""
        return tuple(dimension.name for dimension in self.dimensions)

    @property
    def lists_focus(self) -> bool:
        """Whether its prompt has a place for focus sentences."""
        return bool(self.focus) or "{key_sentences}" in self.template

    @property
    def lists_criteria(self) -> bool:
        """Whether its dimensions are put into the prompt, and so can be put in another order."""
        return "{criteria}" in self.template + self.instructions

    @property
    def content(self) -> str:
        """The whole content as JSON text."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of the content: two rubrics with one digest ask exactly the same."""
        return hashlib.sha256(self.content.encode("utf-8", "surrogatepass")).hexdigest()


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of a prompt in one pass: what was put in is never read as a placeholder.

    Examples
    --------
    >>> fill('{task} {"a": 1}', {"task": "say {nonce}", "nonce": "secret"})
    'say {nonce} {"a": 1}'
    """
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def load_rubric(name_or_path: str | Path) -> Rubric:
    """Read a rubric that ships with the toolkit, by name, or one of your own, by the path of its TOML file.

    Examples
    --------
    >>> rubric = load_rubric("seed-v1")
    >>> rubric.names[0], rubric.scale, rubric.shows_task
    ('technical_accuracy', (0.0, 5.0), False)
    """
    name = str(name_or_path)
    if name in SHIPPED:
        return _rubric(read_toml(resources.files("toolkit.judges") / "data" / f"{name}.toml"), name)
    if name.endswith(".toml"):
        return _rubric(read_toml(Path(name), f"rubric {name}"), name)
    raise InputError(f"rubric {name!r} is unknown: use {' or '.join(SHIPPED)}, or a path ending in .toml")


def _rubric(data: dict[str, Any], where: str) -> Rubric:
    required = {"name": str, "version": str, "dimensions": list, "template": str}
    optional = {
        "instructions": str,
        "focus": str,
        "scale": list,
        "shows_task": bool,
        "asks_reasons": bool,
    }
    _check_keys(data, required, optional, f"rubric {where}")
    if tuple(data.get("scale", SCALE)) != SCALE:
        raise InputError(f"rubric {where}: scale must be [0, 5], because composites and intervals rest on it")
    items = enumerate(data["dimensions"], 1)
    rubric = Rubric(
        name=data["name"],
        version=data["version"],
        dimensions=tuple(_dimension(item, f"rubric {where}, dimension {n}") for n, item in items),
        template=data["template"],
        instructions=data.get("instructions", ""),
        shows_task=data.get("shows_task", False),
        asks_reasons=data.get("asks_reasons", False),
        focus=data.get("focus", ""),
    )
    if sorted(rubric.names) != sorted(DIMENSIONS):
        raise InputError(f"rubric {where} must have each of these dimensions once: {', '.join(DIMENSIONS)}")
    if missing := set(SCOPES) - {dimension.scope for dimension in rubric.dimensions}:
        raise InputError(f"rubric {where}: no dimension has scope {missing.pop()}; per_sentence needs both")
    _check_placeholders(rubric, where)
    return rubric


def _dimension(data: Any, where: str) -> Dimension:
    if not isinstance(data, dict):
        raise InputError(f"{where} must be a table; write it under [[dimensions]]")
    required = {"name": str, "title": str, "question": str}
    _check_keys(data, required, {"anchors": list, "scope": str}, where)
    scope = data.get("scope", "whole" if data["name"] in WHOLE else "local")
    if scope not in SCOPES:
        raise InputError(f"{where}: scope must be {' or '.join(SCOPES)}")
    anchors = data.get("anchors", [])
    if anchors and (len(anchors) != 6 or not all(isinstance(text, str) for text in anchors)):
        raise InputError(f"{where}: anchors must be six texts, for the scores 0, 1, 2, 3, 4 and 5")
    return Dimension(data["name"], data["title"], data["question"], dict(enumerate(anchors)), scope)


def _check_keys(
    data: dict[str, Any], required: Mapping[str, type], optional: Mapping[str, type], where: str
) -> None:
    known = {**required, **optional}
    for key, value in data.items():
        if key not in known:
            raise InputError(f"{where}: unknown key {key!r}; allowed are {', '.join(known)}")
        if not isinstance(value, known[key]):
            raise InputError(f"{where}: {key} must be of type {known[key].__name__}")
    for key in required:
        if key not in data:
            raise InputError(f"{where}: key {key!r} is missing; add it")


def _check_placeholders(rubric: Rubric, where: str) -> None:
    used = set(PLACEHOLDER.findall(rubric.template))
    needed = {"response_content", "task"} if rubric.shows_task else {"response_content"}
    allowed = PLACEHOLDERS if rubric.shows_task else PLACEHOLDERS - {"task"}
    if missing := needed - used:
        raise InputError(
            f"rubric {where}: template lacks {_braced(missing)}; put it where the text is to stand"
        )
    if unknown := used - allowed:
        raise InputError(
            f"rubric {where}: template cannot hold {_braced(unknown)}; allowed are {_braced(allowed)}"
        )
    if bool(rubric.focus) != ("focus" in used):
        raise InputError(
            f"rubric {where}: the text focus and its place {{focus}} in template need each other"
        )
    if stray := set(PLACEHOLDER.findall(rubric.focus)) - {"key_sentences", "nonce"}:
        raise InputError(f"rubric {where}: focus cannot hold {_braced(stray)}; move it to template")
    if stray := set(PLACEHOLDER.findall(rubric.instructions)) - STATIC:
        raise InputError(f"rubric {where}: instructions cannot hold {_braced(stray)}; move it to template")


def _braced(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))

"""Make the reference pages that come from the code: study file, commands, and API.

``pages()`` returns them by name; ``scripts/build_docs.py`` writes them under ``docs/generated`` before Sphinx runs.
Nothing of it is committed, so nothing of it can be stale.
"""

from __future__ import annotations

import inspect
import re
import tomllib
import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from mongoengine import Document
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import toolkit
from toolkit import stats
from toolkit.cli import cli
from toolkit.models.catalogue import model_names, model_spec
from toolkit.models.entries import CacheShares, Judge, ModelEntry, Over, Planted, PriceRow, Sampling
from toolkit.study_file import (
    Analysis,
    BiasControls,
    Budget,
    ExchangeRate,
    FirstFactor,
    Gate,
    Judges,
    Level,
    Limit,
    Replies,
    StudyFile,
)

KEYS = Path(__file__).resolve().parents[1] / "docs" / "study_keys.toml"
DATASHEET = Path(toolkit.__file__).parent / "prompts" / "data" / "rq1_controlled" / "DATASHEET.md"
MODEL = '[[models]]\nname = "mine"\nprovider = "compatible"\nbase_url = "https://models.example.org/v1"\n'
FACTOR = '[factor]\nname = "shots"\n'
SCRIPT = '[[models]]\nname = "mine"\nprovider = "scripted"\n'
SECTIONS: Mapping[str, tuple[str, str, type[BaseModel], str]] = {
    "study": ("The study itself", "", StudyFile, "At the top of the file, before the first table."),
    "models": ("`[[models]]`", "[[models]]\n", ModelEntry, "One table for each model under test."),
    "prices": ("`prices` of a model", MODEL, PriceRow, "Each row is a price and the days on which it holds."),
    "over": ("`over` of a price", MODEL, Over, "Prices of a request whose prompt is long."),
    "cache": ("`cache` of a price", MODEL, CacheShares, "What cached input costs."),
    "planted": (
        "`planted` of a model",
        SCRIPT,
        Planted,
        "The truth that a scripted model or judge has, with which a study can be tried at no cost.",
    ),
    "factor": ("`[factor]`", FACTOR, FirstFactor, "Without it a study varies prompt length, or nothing."),
    "level": (
        "A level of the factor",
        f'{FACTOR}files = {{ examples = "my_prompts/examples.txt" }}\n[factor.levels]\nzero_shot = "{{prompt}}"\n',
        Level,
        "A text alone is its `prompt`.",
    ),
    "sampling": ("`[sampling]`", "[sampling]\n", Sampling, "For all models that do not say otherwise."),
    "replies": ("`[replies]`", "[replies]\n", Replies, "A reply that is not whole is marked in any case."),
    "limits": ("`[limits.PROVIDER]`", "[limits.openai]\n", Limit, "A table for each provider with a limit."),
    "judges": ("`[judges]`", "[judges]\n", Judges, "The ensemble that scores the replies."),
    "gate": (
        "`gate` of the judges",
        "[judges]\n",
        Gate,
        "Its ratings are those of the study, under its rubric.",
    ),
    "judge": (
        "A judge",
        "[judges]\n",
        Judge,
        "`primary`, `secondary` and `tertiary` are each a table with the keys of `[[models]]`, and one more.",
    ),
    "bias_controls": (
        "`[bias_controls]`",
        "[bias_controls]\n",
        BiasControls,
        "They hold for S, M and L alike.",
    ),
    "budget": ("`[budget]`", "[budget]\n", Budget, "What the study may spend."),
    "aud_per_usd": (
        "`aud_per_usd` of the budget",
        "[budget]\n",
        ExchangeRate,
        "The study's own exchange rate.",
    ),
    "analysis": ("`[analysis]`", "[analysis]\n", Analysis, "Write it before there is a score."),
}
"""Title, the lines that stand before an example, the model, and a sentence, by the name in study_keys.toml."""
FIRST = (
    "study.name",
    "study.models",
    "study.dataset",
    "study.bases",
    "study.repeats",
    "judges.primary",
    "judges.secondary",
    "budget.aud",
    "analysis.primary",
    "analysis.equivalence_margin",
)
"""Keys that one needs first."""
FILTER = """\
```{raw} html
<p><label>Find a key: <input id="find-key" type="search" placeholder="budget, aud, reasoning"></label>
<output id="found-keys"></output></p>
<script src="../_static/keys.js" defer></script>
```
"""
WORDS = {
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    Any: "any value",
}
BOUNDS = (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a table by the name they have in a file; a judge has one beside those of a model."""
    fields = model.model_fields.items()
    seen = ModelEntry.model_fields if model is Judge else {}
    return {field.alias or name: field for name, field in fields if name not in seen}


def examples() -> dict[str, dict[str, tuple[str, str]]]:
    """Return, by section and key, an example as it stands in a study file, and the unit of the key."""
    tables = tomllib.loads(KEYS.read_text(encoding="utf-8"))
    return {
        name: {
            key: (f"{'' if row[0].startswith('[') else SECTIONS[name][1]}{row[0]}", "".join(row[1:]))
            for key, row in table.items()
        }
        for name, table in tables.items()
    }


def tables_of(kind: Any) -> set[type[BaseModel]]:
    """Return the tables that a type has in it, at any depth."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {kind}.union(*(tables_of(field.annotation) for field in kind.model_fields.values()))
    return set().union(*map(tables_of, get_args(kind)))


def key_faults() -> list[str]:
    """Return every table of the model without a section, and every key without a sentence or an example."""
    shown, given = {model for _, _, model, _ in SECTIONS.values()}, examples()
    faults = [
        f"{model.__name__} has no section"
        for model in tables_of(StudyFile).difference(*(model.__mro__ for model in shown))
    ]
    for name, (*_, model, _) in SECTIONS.items():
        keys = keys_of(model)
        faults += [
            f"{name}.{key} has no sentence that ends in a full stop"
            for key, field in keys.items()
            if not (field.description or "").strip().endswith(".")
        ]
        faults += [f"{name}.{key}: no such key" for key in given[name].keys() - keys.keys()]
        faults += [f"{name}.{key} has no example" for key in keys.keys() - given[name].keys()]
    return faults


def type_words(kind: Any) -> str:
    """Return what a key takes, in words; that it may be left out says its default."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_words(inside[0])
    if origin is Literal:
        return "one of " + ", ".join(f"`{toml(value)}`" for value in inside)
    if origin in (Union, types.UnionType):
        return " or ".join(type_words(part) for part in inside if part is not types.NoneType)
    if origin is tuple:
        is_model = ModelEntry in (inside[0], *get_args(inside[0]))
        return f"list; each is {'name, or table' if is_model else type_words(inside[0])}"
    if kind is date:
        return "day such as `2026-11-20`"
    if origin is not None or (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return "name, or table" if kind is Judge else "table"
    return WORDS[kind]


def toml(value: Any) -> str:
    """Return a default as a study file writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml, value))}]"
    return (
        f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
    )


def default_words(field: FieldInfo) -> str:
    """Return what holds where a key is left out."""
    if field.is_required():
        return "none, the key is needed"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Judge):
        return f"`{toml(value.name)}`"
    if isinstance(value, BaseModel):
        return "the defaults of its keys"
    return "not set" if value in (None, {}, (), "") else f"`{toml(value)}`"


def bounds(field: FieldInfo) -> str:
    """Return the limits of a number, of a list and of a text."""
    limits = [
        f"{words} {getattr(part, name)}"
        for part in _metadata(field)
        for name, words in BOUNDS
        if getattr(part, name, None) is not None
    ]
    limits += ["not empty" for part in _metadata(field) if getattr(part, "min_length", None)]
    limits += [
        f"at most {most} letters" for part in _metadata(field) if (most := getattr(part, "max_length", None))
    ]
    return "".join(f", {limit}" for limit in limits)


def _metadata(field: FieldInfo) -> list[Any]:
    """Return what pydantic checks of a field, also where it stands beside the type of an optional one."""
    nested = [part for kind in (field.annotation, *get_args(field.annotation)) for part in get_args(kind)]
    return [*field.metadata, *(inner for part in nested for inner in getattr(part, "metadata", ()))]


def known_models() -> str:
    """Return the models that a name is enough for, and those that are refused because nobody serves them."""
    listed: dict[bool, list[str]] = {False: [], True: []}
    for name in model_names():
        listed[model_spec(name).is_retired()].append(f"`{name}`")
    served, retired = (", ".join(listed[gone]) for gone in (False, True))
    return f"A name is enough for these: {served}. Retired and refused: {retired}."


def first_keys() -> list[str]:
    """Return the keys that one needs first, and a study file of them."""
    lines, file = ["## Ten keys to begin with\n"], {}
    for path in FIRST:
        section, key = path.split(".")
        field = keys_of(SECTIONS[section][2])[key]
        name = key if section == "study" else path
        anchor = path.replace(".", "-").replace("_", "-")
        lines.append(f"- [`{name}`](#{anchor}): {field.description} Default: {default_words(field)}.")
        before = SECTIONS[section][1]
        file.setdefault(before, []).append(examples()[section][key][0].removeprefix(before))
    rows = [f"{before}{chr(10).join(keys)}" for before, keys in file.items()]
    return [*lines, "\n```toml", "\n\n".join(rows), "```\n"]


def study_page() -> str:
    """Return the reference of the study file in Markdown: each key with sentence, type, default, unit and example."""
    lines = [
        "---\ntocdepth: 2\n---\n",
        "(study-file)=\n# The study file, key by key\n",
        "A study file is TOML. It says everything that a researcher decides before the first call. Two keys are",
        "needed, `name` and `models`; every other one has a default. An unknown key is an error, so that a misspelt",
        "setting is noticed. Paths are relative to the file. [How-to guides](../how_to/index.md) show the settings",
        "in their context.\n",
        FILTER,
        *first_keys(),
    ]
    given = examples()
    for name, (title, _, model, sentence) in SECTIONS.items():
        lines += [f"({name}-table)=", f"## {title}\n", f"{sentence}\n"]
        lines += [f"{known_models()}\n"] if name == "models" else []
        for key, field in keys_of(model).items():
            example, unit = given[name][key]
            lines += [
                f"({name}-{key})=".replace("_", "-"),
                f"### `{key}`\n",
                f"{field.description}\n",
                f"- Value: {type_words(field.annotation)}{bounds(field)}",
                f"- Default: {default_words(field)}",
                *([f"- Unit: {unit}"] if unit else []),
                f"\n```toml\n{example}\n```\n",
            ]
    return "\n".join(lines)


def commands(group: click.Group, before: Sequence[str] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, by the words one types."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))
        else:
            yield " ".join(("toolkit", *before, name)), command


def commands_page() -> str:
    """Return the reference of the command line in Markdown, as its help says it."""
    lines = [
        "(commands-page)=\n# Commands\n",
        "Every command of the toolkit, with what it takes. `toolkit COMMAND --help` says the same in a terminal.",
        f"{' '.join((cli.epilog or '').split())}\n",
    ]
    for name, command in commands(cli):
        context = click.Context(command, info_name=name)
        usage = " ".join(command.collect_usage_pieces(context))
        lines += [f"## `{name}`\n", f"```text\n{name} {usage}\n```\n", _prose(command.help or ""), ""]
        lines += [
            option_line(option, context) for option in command.params if isinstance(option, click.Option)
        ]
        lines.append("")
    return "\n".join(lines)


def option_line(option: click.Option, context: click.Context) -> str:
    """Return an option with its help, default and limits; click's own line is made for a terminal."""
    metavar = "" if option.is_flag else f" {option.make_metavar(context)}"
    for words, letter in ((" INTEGER RANGE", " N"), (" FLOAT RANGE", " X")):
        metavar = metavar.replace(words, letter)
    notes = ["required"] if option.required else []
    notes += [f"{option.default} by default"] if option.show_default else []
    low, high = getattr(option.type, "min", None), getattr(option.type, "max", None)
    if low is not None:
        notes.append(f"{'above' if option.type.min_open else 'at least'} {low}")
    notes += [f"at most {high}"] if high is not None else []
    more = f" ({', '.join(notes)})" if notes else ""
    return f"- `{' / '.join((*option.opts, *option.secondary_opts))}{metavar}`: {_prose(option.help or '')}{more}"


def _prose(text: str) -> str:
    r"""Return help as a paragraph of Markdown, in which its brackets and stars are signs and no markup."""
    paragraphs = [" ".join(part.replace("\b", "").split()) for part in text.split("\n\n")]
    parts = "\n\n".join(paragraphs).split("`")  # every second one is code, which is left as it is
    return "`".join(
        part if at % 2 else re.sub(r"([\[\]<>*_])", r"\\\1", part) for at, part in enumerate(parts)
    )


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n"


def _entry(path: str, value: Any) -> str:
    """Return the directive that takes a docstring over."""
    if isinstance(value, type) and issubclass(
        value, Document
    ):  # what mongoengine adds is not ours to explain
        return f".. autoclass:: {path}\n   :members: from_json\n"
    if isinstance(value, type):
        return f".. autoclass:: {path}\n   :members:\n"
    return f".. autofunction:: {path}\n" if callable(value) else f".. autodata:: {path}\n   :no-value:\n"


def _contents(path: str, holder: Any, names: Sequence[str]) -> str:
    """Return a list of names with the first sentence of each, which leads to their entries."""
    lines = []
    for name in names:
        summary = (inspect.getdoc(getattr(holder, name)) or "").partition("\n")[0].removeprefix("Return ")
        lines.append(f"- :py:obj:`{name} <{path}.{name}>`: {summary}")
    return "\n".join(lines) + "\n"


def _class_page(name: str) -> str:
    """Return the page of a class: its methods in a list, then its entry."""
    holder = getattr(toolkit, name)
    methods = [
        member
        for member, value in inspect.getmembers(holder, callable)
        if not member.startswith("_") and inspect.getdoc(value)
    ]
    return "\n".join(
        [
            f".. _api-{name.lower()}:\n",
            _title(name),
            _contents(f"toolkit.{name}", holder, methods),
            f".. autoclass:: toolkit.{name}\n   :members:\n   :inherited-members:\n",
        ]
    )


def api_pages() -> dict[str, str]:
    """Return the reference of what notebooks import, in reStructuredText, from its docstrings."""
    apart = ("Study", "Scores", "__version__")
    names = [name for name in toolkit.__all__ if name not in apart]
    rooms: dict[str, list[str]] = {}
    for name, module in stats._MODULES.items():
        rooms.setdefault(
            module.removeprefix("toolkit.stats.").partition(".")[0].replace("_", " "), []
        ).append(name)
    first = [
        ".. _api-toolkit:\n",
        _title("toolkit"),
        "``from toolkit import ...`` gives these names, and :doc:`api_study` and :doc:`api_scores`.\n",
        _contents("toolkit", toolkit, names),
    ]
    statistics = [
        ".. _api-stats:\n",
        _title("toolkit.stats"),
        "``from toolkit.stats import ...`` gives these names.\n",
    ]
    for room, members in rooms.items():
        statistics += [
            _title(room.capitalize(), "-"),
            _contents("toolkit.stats", stats, members),
            *_entries("toolkit.stats", stats, members),
        ]
    return {
        "api_study.rst": _class_page("Study"),
        "api_scores.rst": _class_page("Scores"),
        "api_toolkit.rst": "\n".join([*first, *_entries("toolkit", toolkit, names)]),
        "api_stats.rst": "\n".join(statistics),
    }


def _entries(path: str, module: types.ModuleType, names: Sequence[str]) -> list[str]:
    return [_entry(f"{path}.{name}", getattr(module, name)) for name in names]


def pages() -> dict[str, str]:
    """Return every generated page by its file name."""
    datasheet = DATASHEET.read_text(encoding="utf-8")  # stands with its data, and is a page of the site
    return {
        "study_file.md": study_page(),
        "commands.md": commands_page(),
        **api_pages(),
        "datasheet.md": datasheet,
    }

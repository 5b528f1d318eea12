"""Read and check a study file.

A study file is TOML. Paths in it are relative to the file itself, so it means the same from a shell, a notebook
and papermill.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from toolkit.errors import InputError, StudyError
from toolkit.study import ModelEntry, StudyFile
from toolkit.toml_file import read_toml

Entry = TypeVar("Entry", bound=ModelEntry)


def load_study_file(path: str | Path) -> tuple[StudyFile, Path]:
    r"""Read and check a study file."""
    file = Path(path).expanduser()
    if not file.exists():
        raise StudyError(f"{path}: no such study file; start from one in templates/")
    try:
        content = read_toml(file, str(path))
    except InputError as error:
        raise StudyError(str(error)) from None
    try:
        study = StudyFile.model_validate(content)
    except ValidationError as error:
        raise StudyError(f"{path}: {_explain(error)}") from None
    file = file.resolve()
    output = file.parent / (study.output or Path("results") / study.name)
    from toolkit.prompts.dataset import DEMO

    # Every other one is a path: a folder beside the file has no slash and no dot in its name.
    dataset = study.dataset if study.dataset == DEMO else str((file.parent / study.dataset).resolve())
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
        rubric = load_rubric(study.judges.rubric)
    except InputError as error:
        raise StudyError(f"{path}: judges.rubric: {error}") from None
    controls = study.bias_controls
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
    given = re.sub(r"//[^/@\s]*@", "//***@", given)  # a line may end up in a log, and a password with it
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

"""Reads a study file: paths are relative to it, and each fault is one line with file, key and what is allowed."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from toolkit.errors import InputError, StudyError
from toolkit.files import fault_sentence, read_toml, similar_file
from toolkit.models.registry import read_environment
from toolkit.secrets import remember, secret_fault
from toolkit.study_file import StudyFile
from toolkit.study_models import ModelEntry


def _odd_text(value: Any, key: str = "") -> str | None:
    """Return the key of the first text that no name and no path is; prose, replies and options may have any."""
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        parts = [
            (f"{key}.{name}", part)
            for name, part in value.items()
            if name not in ("note", "replies", "options")
        ]
    elif isinstance(value, list):
        parts = [(f"{key}[{number}]", part) for number, part in enumerate(value)]
    elif isinstance(value, str) and any(
        unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in value
    ):
        return key.removeprefix(".")
    for name, part in parts:
        if not name.isprintable():
            return repr(name.removeprefix("."))
        if odd := _odd_text(part, name):
            return odd
    return None


Entry = TypeVar("Entry", bound=ModelEntry)


def load_study_file(path: str | Path, *, looks: bool = False) -> tuple[StudyFile, Path]:
    """Read and check a study file, whose paths are relative to it; whoever ``looks`` runs no code of its own."""
    file = Path(path).expanduser()
    if not file.exists():
        raise StudyError(f"{path}: no such study file; {similar_file(file)}start from one in templates/")
    try:
        content = read_toml(file, str(path))
    except InputError as error:
        raise StudyError(str(error)) from None
    with suppress(InputError):  # a file of variables that cannot be read is said where a key is needed
        remember(read_environment(file.parent))
    if fault := secret_fault(content):
        raise StudyError(f"{path}: {fault}")
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
    from toolkit.prompt_test import find_test, names_code, recorded_test

    try:
        is_recorded = looks and names_code(study.test, study.options)
        test = recorded_test(output) if is_recorded else find_test(study.test, file.parent)
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

    def refuse(key: str, fault: str) -> StudyError:
        return StudyError(f"{path}: {key}: {fault}")

    entries: dict[str, ModelEntry] = {f"models[{n}]": entry for n, entry in enumerate(study.under_test)}
    entries |= {f"judges.{role}": judge for role, judge in study.judges.by_role().items()}
    labels: dict[tuple[str | None, ...], str] = {}
    for key, entry in entries.items():
        try:
            spec = entry.spec
        except InputError as error:
            raise refuse(key, str(error)) from None
        twin = labels.setdefault((spec.provider, spec.model, spec.endpoint, spec.options), entry.label)
        if key.startswith("models") and twin != entry.label:
            raise refuse(
                key, f"{entry.label!r} is the same model as {twin!r}; their runs would be the same calls"
            )
    try:
        rubric = load_rubric(study.judges.rubric)
    except InputError as error:
        raise refuse("judges.rubric", str(error)) from None
    low, high = rubric.scale
    scale = f"the scale {low:g} to {high:g} of rubric {rubric.name!r}"
    for key, width, most in (
        ("analysis.equivalence_margin", study.analysis.equivalence_margin, high - low),
        ("target_width", study.target_width, 2 * (high - low)),
        ("judges.drift_tolerance", study.judges.drift_tolerance, high - low),
    ):
        if width is not None and width >= most:
            raise refuse(key, f"{width:g} is too wide for {scale}; it is below {most:g}")
    for number, entry in enumerate(study.models):
        if entry.planted and not low <= entry.planted.level <= high:
            raise refuse(f"models[{number}].planted.level", f"{entry.planted.level:g} is off {scale}")
    if study.judges.expected_scores and not (low.is_integer() and high.is_integer() and 0 <= low < high <= 9):
        raise refuse("judges.expected_scores", f"scores of one digit have them, not {scale}; leave it out")
    controls, scopes = study.bias_controls, {dimension.scope for dimension in rubric.dimensions}
    mode = controls.fsp_mode if controls.fsp_enabled else None
    if mode == "per_sentence" and len(scopes) < 2:
        raise refuse(
            "bias_controls.fsp_mode",
            f"all dimensions of rubric {rubric.name!r} have scope {scopes.pop()}, and "
            '"per_sentence" needs both scopes; give one of them the other scope, or use "listed"',
        )
    if mode == "listed" and not rubric.lists_focus:
        raise refuse(
            "bias_controls.fsp_mode",
            f"rubric {rubric.name!r} has no place for focus sentences; give its "
            'template {key_sentences} or {focus}, or use "per_sentence"',
        )
    if study.judges.shuffle_dimensions and not rubric.lists_criteria:
        raise refuse(
            "judges.shuffle_dimensions",
            f"rubric {rubric.name!r} names its dimensions in a fixed order; "
            "put {criteria} where they stand, or leave the order alone",
        )


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ""
    for part in first["loc"]:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else str(part)
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        for table, field in StudyFile.model_fields.items():  # a key in the wrong table
            if name in getattr(field.annotation, "model_fields", {}):
                return f"unknown key {key}; write {table}.{name} instead"
        return f"unknown key {key}; {fault_sentence(StudyFile, first)}"
    if first["type"] == "missing":
        return f"key {key} is missing"
    message = fault_sentence(StudyFile, first)
    # A line may end up in a log, and a key that stands in the wrong place with it.
    secret = first["loc"][-1:] in (("base_url",), ("api_key_env",))
    is_shown = isinstance(first["input"], str | int | float) and not secret
    value = f", got {first['input']!r}" if is_shown else ""
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{key}: {message}{value}{more}" if key else f"{message}{more}"

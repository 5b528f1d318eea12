"""Reads a study file: paths are relative to it, and each fault is a line with file, key and what is allowed."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolkit.errors import MOST_FAULTS, InputError, StudyError
from toolkit.files import fault_sentence, read_toml, similar_file
from toolkit.models.registry import read_environment
from toolkit.secrets import remember, secret_fault
from toolkit.study_file import StudyFile
from toolkit.study_models import ModelEntry, model_address


def _key(path: Iterable[int | str]) -> str:
    """Return a place in a file as its key is written."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(part if part.isprintable() else repr(part) for part in parts).removeprefix(".")


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
    if secret := secret_fault(content):
        raise StudyError(f"{path}: {secret}")
    faults: dict[str, str] = {}
    file = file.resolve()
    if study := _usable_part(content, faults):
        study, further = _located(study, file.parent, looks)
        # What follows from another fault, or from what stands in its place, is none of its own.
        faults |= {
            fault: fault
            for keys, fault in further
            if not any(key.startswith(first) or first.startswith(key) for key in keys for first in faults)
        }
    if faults or not study:
        raise StudyError(*(f"{path}: {fault}" for fault in faults.values()))
    return study, file


def _usable_part(content: dict[str, Any], faults: dict[str, str]) -> StudyFile | None:
    """Return the study in a file without what is at fault, and put that down by its key."""
    for _ in range(MOST_FAULTS):
        try:
            return StudyFile.model_validate(content)
        except ValidationError as error:
            rows = error.errors(include_url=False)
        for row in reversed(rows):  # the last of a list first
            _take_out(content, row["loc"])
        for row in rows:
            # Of a list with faulty parts none is left, which is no fault of its own.
            if row["type"] != "too_short" or len(rows) == 1:
                faults.setdefault(_key(row["loc"]), _explain(row, _key(row["loc"])))
    return None


def _take_out(content: dict[str, Any], path: Sequence[int | str]) -> None:
    """Take a part out of what a file holds, or the table that lacks it; a study cannot be without name and models."""
    holder: Any = content
    try:
        for part in path[:-1]:
            holder = holder[part]
        del holder[path[-1]]
    except (KeyError, IndexError, TypeError):
        if len(path) > 1:
            _take_out(content, path[:-1])
    content.setdefault("name", "study")
    content["models"] = content.get("models") or ["scripted"]


def _located(
    study: StudyFile, folder: Path, looks: bool
) -> tuple[StudyFile, list[tuple[Sequence[str], str]]]:
    """Return a study with its paths from the file's folder, and what is wrong with what its keys name."""
    from toolkit.prompt_test import find_test, names_code, recorded_test, study_parameters
    from toolkit.prompts.dataset import SHIPPED, path_of

    # Every other one is a path: a folder beside the file has no slash and no dot in its name.
    dataset = study.dataset if study.dataset in SHIPPED else str((folder / study.dataset).resolve())
    rubric = study.judges.rubric
    if rubric.endswith(".toml"):
        rubric = str((folder / rubric).resolve())

    def placed(entry: Entry) -> Entry:
        return entry.model_copy(update={"gguf": entry.gguf and folder / entry.gguf})

    judges = {role: placed(judge) for role, judge in study.judges.by_role().items()}
    output = (folder / (study.output or Path("results") / study.name)).resolve()
    changed: dict[str, Any] = {
        "output": output,
        "dataset": dataset,
        "models": tuple(map(placed, study.models)),
        "judges": study.judges.model_copy(update={"rubric": rubric, **judges}),
    }
    faults = study.conflicts()
    has_prompts = True
    try:
        is_recorded = looks and names_code(study.test, study.options)
        test = recorded_test(output) if is_recorded else find_test(study.test, folder)
        has_prompts = not is_recorded and "prompts" in study_parameters(test)
        if "repeats" not in study.model_fields_set:
            changed["repeats"] = test.default_repeats
    except StudyError as error:
        faults.append((["test"], str(error)))
    try:
        if has_prompts:
            path_of(dataset)
    except InputError as error:
        faults.append((["dataset"], f"dataset: {error}"))
    study = study.model_copy(update=changed)
    return study, faults + [([key], f"{key}: {fault}") for key, fault in _name_faults(study)]


def _name_faults(study: StudyFile) -> Iterator[tuple[str, str]]:
    """Yield the models and rubrics that nobody knows now, not after an hour of calls, and what does not fit them."""
    from toolkit.judges.rubric import load_rubric

    entries: dict[str, ModelEntry] = {f"models[{n}]": entry for n, entry in enumerate(study.under_test)}
    entries |= {f"judges.{role}": judge for role, judge in study.judges.by_role().items()}
    labels: dict[Any, str] = {}
    for key, entry in entries.items():
        try:
            spec = entry.spec
        except InputError as error:
            yield key, str(error)
            continue
        twin = labels.setdefault(model_address(spec), entry.label)
        if key.startswith("models") and twin != entry.label:
            yield key, f"{entry.label!r} is the same model as {twin!r}; their runs would be the same calls"
    try:
        rubric = load_rubric(study.judges.rubric)
    except InputError as error:
        yield from (("judges.rubric", fault) for fault in error.faults)
        return
    low, high = rubric.scale
    scale = f"the scale {low:g} to {high:g} of rubric {rubric.name!r}"
    for key, width, most in (
        ("analysis.equivalence_margin", study.analysis.equivalence_margin, high - low),
        ("target_width", study.target_width, 2 * (high - low)),
        ("judges.drift_tolerance", study.judges.drift_tolerance, high - low),
    ):
        if width is not None and width >= most:
            yield key, f"{width:g} is too wide for {scale}; it is below {most:g}"
    for number, entry in enumerate(study.models):
        if entry.planted and not low <= entry.planted.level <= high:
            yield f"models[{number}].planted.level", f"{entry.planted.level:g} is off {scale}"
    if study.judges.expected_scores and not (low.is_integer() and high.is_integer() and 0 <= low < high <= 9):
        yield "judges.expected_scores", f"scores of one digit have them, not {scale}; leave it out"
    controls, scopes = study.bias_controls, {dimension.scope for dimension in rubric.dimensions}
    mode = controls.fsp_mode if controls.fsp_enabled else None
    if mode == "per_sentence" and len(scopes) < 2:
        yield (
            "bias_controls.fsp_mode",
            f"all dimensions of rubric {rubric.name!r} have scope {scopes.pop()}, and "
            '"per_sentence" needs both scopes; give one of them the other scope, or use "listed"',
        )
    if mode == "listed" and not rubric.lists_focus:
        yield (
            "bias_controls.fsp_mode",
            f"rubric {rubric.name!r} has no place for focus sentences; give its "
            'template {key_sentences} or {focus}, or use "per_sentence"',
        )
    if study.judges.shuffle_dimensions and not rubric.lists_criteria:
        yield (
            "judges.shuffle_dimensions",
            f"rubric {rubric.name!r} names its dimensions in a fixed order; "
            "put {criteria} where they stand, or leave the order alone",
        )


def _explain(fault: ErrorDetails, key: str) -> str:
    message = fault_sentence(StudyFile, fault)
    if fault["type"] == "extra_forbidden":
        name = str(fault["loc"][-1])
        for table, field in StudyFile.model_fields.items():  # a key in the wrong table
            if name in getattr(field.annotation, "model_fields", {}):
                return f"unknown key {key}; write {table}.{name} instead"
        return f"unknown key {key}; {message}"
    if fault["type"] == "missing":
        return f"key {key} is missing"
    # A line may end up in a log, and a key that stands in the wrong place with it.
    secret = fault["loc"][-1:] in (("base_url",), ("api_key_env",))
    is_shown = isinstance(fault["input"], str | int | float) and not secret
    return f"{key}: {message}" + (f", got {fault['input']!r}" if is_shown else "")

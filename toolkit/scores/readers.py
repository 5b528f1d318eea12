"""Read scores that others wrote: tables, logs of inspect_ai, of lm-eval and promptfoo.

A reader returns rows with our column names and says what it took for what; nothing is filled in, averaged or dropped
without a word. A score that a tool did not give is an empty one.
"""

import json
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from toolkit.errors import InputError
from toolkit.files import ZSTD, member_size, parsed, read_json, similar_file
from toolkit.scores.columns import Values, worth
from toolkit.scores.fields import (
    CUT,
    LETTERS,
    TEXTS,
    WORDS,
    Json,
    Read,
    checked_count,
    checked_name,
    is_filled,
    json_text,
    mapping,
    parse_score,
    reading,
    several_names,
    short_name,
    table,
)
from toolkit.scores.promptfoo import EXPORT, is_promptfoo_table, read_promptfoo
from toolkit.table_files import ROW_FILES, csv_records, number_of, read_rows, read_text
from toolkit.words import LENGTH_ARMS, choices, one_line

_FAILED = "error in the sample"
_INVALID = "the sample was made invalid"
_MOST_SAMPLES = 1_000_000
"""A head of a few bytes can plan any number."""
_LANGFUSE_NOTE = (
    "scores of Langfuse: a trace or its observation is an item, the name of a score a dimension, its author or source "
    "a judge; texts and corrections are no scores and are left out"
)
_MOST_ROWS = 20_000_000
"""Of a Parquet file: one of a few bytes can claim any number."""


def name_methods(logs: Iterable[Read]) -> None:
    """Name the models of logs by the settings in which logs of one model and task differ: each of them is a method."""
    groups = defaultdict(list)
    for log in logs:
        if log.kind == _INSPECT:
            groups[log.rows["model"].iloc[0], log.task].append(log)
    for (model, _), group in groups.items():
        settings = pd.DataFrame([dict(log.settings) for log in group])
        differing = sorted(settings.columns[settings.nunique(dropna=False) > 1])
        for log in group if differing else ():
            pairs = ((name, log.settings[name]) for name in differing if name in log.settings)
            label = ", ".join(f"{name} {short_name(text)}" for name, text in pairs)
            log.rows["model"] = f"{model}, {label}" if label else f"{model}, no {' and '.join(differing)}"
            log.notes.append(f"logs of {model} differ in {', '.join(differing)}: each is a method")


def read_file(path: Path, metric: str | None, values: Values) -> Read:
    """Read one file of scores by what is in it; an unknown kind is one line that names those that are known."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; {similar_file(path)}give a table or a log of scores")
    with reading(path, "", "be read as scores"):
        read = _read_file(path, metric, values)
    # Of our own frames: a prompt of a length arm is no M or L to be averaged with.
    if "length_arm" in read.rows and (in_arm := read.rows["length_arm"].isin(list(LENGTH_ARMS))).any():
        read.notes.append(f"{int(in_arm.sum())} rows of prompts of length arms are left out")
        read.rows = read.rows[~in_arm].drop(columns="length_arm")
    return read


def _read_file(path: Path, metric: str | None, values: Values) -> Read:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet(path)
    if suffix == ".csv" and is_promptfoo_table(next(csv_records(path, read_text(path)), (1, []))[1]):
        raise InputError(f"{path}: is a table of promptfoo, without its tests and errors; {EXPORT}")
    if suffix in ROW_FILES:
        numbered = list(read_rows(path))
        rows = [row for _, row in numbered]
        keys = set(rows[0]) if rows and suffix == ".jsonl" else set()
        if {"doc_id", "doc"} <= keys:
            return _lm_eval(path, numbered, metric, values)
        if {"provider", "score", "gradingResult"} <= keys:
            return read_promptfoo(path, rows, metric)
        lines = [line for line, _ in numbered]
        unit = "row" if suffix == ".xlsx" else "line"
        return _table(pd.DataFrame(rows), unit, lines)
    if suffix == ".eval":
        return _inspect(path, *_inspect_members(path), metric, values)
    if suffix == ".json":
        log = read_json(path)
        if {"eval", "status"} <= mapping(log).keys():
            return _inspect(path, log, log.get("samples") or [], metric, values)
        if "results" in mapping(log):
            return read_promptfoo(path, log["results"], metric)
        if isinstance(log, list) and all(isinstance(row, Mapping) for row in log):
            return _table(pd.DataFrame(log))
    if suffix in (".yaml", ".yml"):
        raise InputError(f"{path}: is YAML, which is not read; of promptfoo {EXPORT}")
    raise InputError(
        f"{path}: is no table of scores (.csv, .tsv, .xlsx, .parquet, .jsonl), log of inspect_ai (.eval, .json), "
        "samples of lm-eval (samples_*.jsonl) or results of promptfoo (.json)"
    )


def _parquet(path: Path) -> Read:
    from pyarrow import parquet

    rows = parquet.ParquetFile(path).metadata.num_rows
    if rows > _MOST_ROWS:
        raise InputError(f"{path}: has {rows:,} rows, more than the {_MOST_ROWS:,} that are read; split it")
    frame = pd.read_parquet(path)
    if any(frame.index.names):  # items that somebody made the index are a column like the others
        frame = frame.reset_index()
    return _table(frame)


def _table(rows: pd.DataFrame, unit: str = "row", lines: list[int] | None = None) -> Read:
    """Return a table as it is; one that Langfuse exports with our columns, and without its texts."""
    rows = rows.set_axis(lines or range(1, len(rows) + 1))
    plain = rows.rename(columns=lambda name: str(name).replace("_", "").lower())
    if not {*TEXTS["langfuse"]["columns"]} <= {*plain}:
        return Read(rows, "a table", tidy=False, unit=unit)
    author = plain.get("authorusername", plain["source"])
    pairs = zip(plain["traceid"], plain["observationid"], strict=True)
    rows = rows.assign(
        item=[f"{trace}/{part}" if is_filled(part) else trace for trace, part in pairs],
        judge=author.where(author.map(is_filled), plain["source"]),
        human=plain["source"] == "ANNOTATION",
        dimension=plain["name"],
        # Its value is 0 where nobody said what a category is worth.
        score=plain["value"].mask(plain["datatype"] == "CATEGORICAL", plain["stringvalue"]),
    )[~plain["datatype"].isin(("TEXT", "CORRECTION"))]
    rows["judge_repeat"] = rows.groupby(["item", "judge", "dimension"]).cumcount()
    return Read(rows, "a table", [_LANGFUSE_NOTE], tidy=False, unit=unit)


def _lm_eval(
    path: Path, numbered: list[tuple[int, dict[str, Any]]], metric: str | None, values: Values
) -> Read:
    """Return samples of lm-eval (``--log_samples``): one row a document, the task's first metric as its score."""
    task, _, stamp = path.stem.removeprefix("samples_").rpartition("_")
    for line, row in numbered:
        with reading(path, f", line {line}", "be read as a sample of lm-eval"):
            checked_name(row["doc_id"], "doc_id")
            if row.get("filter") is not None:
                checked_name(row["filter"], "filter")
    filters = list(dict.fromkeys(row.get("filter") for _, row in numbered))
    filtered = [(line, row) for line, row in numbered if row.get("filter") == filters[0]]
    document, times = Counter(row["doc_id"] for _, row in filtered).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"{path}: document {document} is there {times} times under one filter; keep one line a document"
        )
    first = filtered[0][1]
    names = first.get("metrics")
    if not isinstance(names, list):
        plain = [name for name, value in first.items() if isinstance(value, int | float | list)]
        names = [name for name in plain if name not in TEXTS["lm_eval"]["keys"]]
    several = list | Mapping | None
    lists = [name for name in names if all(isinstance(row.get(name), several) for _, row in filtered)]
    usable = [name for name in names if name not in lists]
    if not usable or (metric is not None and metric not in usable):
        unused = f"; no number a document: {several_names(lists)}" if lists else ""
        listed = choices(metric, usable, "it has") if usable else "it has none"
        raise InputError(f"{path}: has no metric{f' {metric}' if metric else ''}; {listed}{unused}")
    selected, notes = metric or usable[0], list[str]()
    # The model is that of the results of the same time: other results are another's.
    results, model = path.with_name(f"results_{stamp}.json"), path.parent.name or "model"
    if not results.is_file():
        notes.append(f"no {results.name} beside it: the model is named after the folder, {model}")
    elif isinstance(content := read_json(results), Mapping):
        named = mapping(mapping(content.get("config")).get("model_args")).get("pretrained")
        model = str(content.get("model_name") or named or model)
    rows = []
    for line, row in filtered:
        with reading(path, f", line {line}", "be read as a sample of lm-eval"):
            score = parse_score(worth(row.get(selected), values), selected)
        base = f"{task or path.stem}/{checked_name(row['doc_id'], 'doc_id')}"
        rows.append({"base": base, "model": model, "score": score})
    remaining = [name for name in usable if name != selected]
    others = f", and not {several_names(remaining)} (--metric NAME takes another)" if remaining else ""
    notes.insert(0, f"score is the metric {selected}{others}")
    notes += [f"{several_names(lists)}: no number a document, not taken"] if lists else []
    notes += [f"filter {filters[0]} taken, not {several_names(filters[1:])}"] if filters[1:] else []
    frame = pd.DataFrame(rows, index=[line for line, _ in filtered])
    return Read(frame, "samples of lm-eval", notes, unit="line")


def _inspect_members(path: Path) -> tuple[Any, Iterator[Any]]:
    """Return the head of a log that is a zip, and its samples one after the other; each is let go when it was read."""
    with reading(path, "", "be read as a whole log of inspect_ai"), zipfile.ZipFile(path) as file:
        listed = file.namelist()
        names = sorted(name for name in listed if name.startswith("samples/"))
        head = "header.json" if "header.json" in listed else "_journal/start.json"
        start = {"status": "started", **table(parsed(json.loads, _member(path, file, head)), head)}
        if "reductions.json" in listed:
            start["reductions"] = parsed(json.loads, _member(path, file, "reductions.json"))
        samples = []
        for name in names:
            with reading(path, f", {one_line(name, CUT)}", "be read as a whole log of inspect_ai"):
                sample = parsed(json.loads, _member(path, file, name))
                # Of a sample what is read of it: its messages and events are most of a log.
                fields = ("id", "epoch", "scores", "error", "invalidation")
                samples.append({field: table(sample, "the sample").get(field) for field in fields})
    return start, iter(samples)


def _member(path: Path, file: zipfile.ZipFile, name: str) -> bytes:
    """Return a member of a zip, of Zstandard too, which inspect_ai writes and zipfile of Python 3.11 cannot read."""
    size, entry = member_size(file, name), file.getinfo(name)
    if entry.flag_bits & 1:
        raise RuntimeError("it is encrypted")
    if entry.compress_type != ZSTD:
        return file.read(name)
    with path.open("rb") as raw:
        raw.seek(entry.header_offset + 26)  # of the local header: lengths of the name and of what is extra
        lengths = int.from_bytes(raw.read(2), "little") + int.from_bytes(raw.read(2), "little")
        raw.seek(lengths, 1)
        content = pa.Codec("zstd").decompress(raw.read(entry.compress_size), size, asbytes=True)
    if zlib.crc32(content) != entry.CRC:
        raise zipfile.BadZipFile(f"bad CRC-32 of {name}")
    return bytes(content)


def _inspect(path: Path, log: Any, samples: Iterable[Any], metric: str | None, values: Values) -> Read:
    """Return a log of inspect_ai: a scorer is a judge, an epoch a repeat, a key of a score a dimension."""
    with reading(path, "", "be read as a log of inspect_ai"):
        head = table(log["eval"], "eval")
        task = checked_name(head.get("task", path.stem), "task")
        model = checked_name(head.get("model", "model"), "model")
        config = mapping(head.get("config"))
        epochs = checked_count(config.get("epochs") or 1, "epochs")
        reducers = [str(name) for name in config.get("epochs_reducer") or ()] if epochs > 1 else []
        reducer = "mean" if "mean" in reducers else next(iter(reducers), "mean")
        if reducer != "mean":
            samples, epochs = _reduced(log, reducer), 1
        identifiers = mapping(head.get("dataset")).get("sample_ids") or []
        bases = [f"{task}/{checked_name(identifier, 'id')}" for identifier in identifiers]
        if len(bases) * epochs > _MOST_SAMPLES:
            raise ValueError(f"{len(bases)} samples of {epochs} epochs are more than {_MOST_SAMPLES:,}")
        listed = enumerate(samples, 1)
    read = []
    for number, sample in listed:
        with reading(path, f", sample {number}", "be read as inspect_ai writes it"):
            epoch = table(sample, "the sample").get("epoch")
            failed = _FAILED if sample.get("error") else None
            sample_row: dict[str, Any] = {
                "base": f"{task}/{checked_name(sample['id'], 'id')}",
                "model": model,
                "repeat": max(checked_count(1 if epoch is None else epoch, "epoch") - 1, 0),
                "failure": _INVALID if sample.get("invalidation") else failed,
            }
            scores = table(sample.get("scores") or {}, "scores")
            by_scorer = {
                name: score.get("value") if isinstance(score, Mapping) else score
                for name, score in scores.items()
            }
            read.append((sample_row, by_scorer))
    scorers = list(dict.fromkeys(judge for _, by_scorer in read for judge in by_scorer))
    notes = [f"task {task}" + (f"; scorers as judges: {several_names(scorers)}" if len(scorers) > 1 else "")]
    status = log.get("status")
    if status != "success":
        notes.append(f"the log has the status {status}")
    if not scorers:
        raise InputError(
            f"{path}: no sample of this log has a score (status {status}); "
            "run the rest (inspect eval-retry) or score it (inspect score) first"
        )
    for reason, fault in ((_FAILED, "have an error besides scores"), (_INVALID, "were made invalid")):
        if lost := [row["base"] for row, by_scorer in read if row["failure"] == reason and by_scorer]:
            several = f"{len(lost)} of {len(read)} samples {fault}"
            notes.append(f"{several}: they are missing, not scored ({several_names(lost)})")
    present = {(row["base"], row["repeat"]) for row, _ in read}
    absent = [key for key in product(bases, range(epochs)) if key not in present]
    reason = f"never run: status {status}"
    if reducer != "mean":
        reason = "no value of its epochs"
        notes.append(f"epochs are reduced by {one_line(reducer, CUT)}, as inspect_ai did")
    read += [({"base": base, "model": model, "repeat": at, "failure": reason}, {}) for base, at in absent]
    if absent:
        notes.append(f"{len(absent)} of {len(bases) * epochs} samples are missing: {reason}")
    if others := [name for name in reducers if name != reducer]:
        notes.append(f"numbers of {several_names(others)} are not taken")
    columns: dict[tuple[str, str | None], list[Any]] = {}
    for judge in scorers:
        column = [None if row["failure"] else by_scorer.get(judge) for row, by_scorer in read]
        by_sample = (by_scorer.get(judge) for _, by_scorer in read)
        values_of = column if any(map(is_filled, column)) else by_sample
        keys = dict.fromkeys(str(name) for value in values_of if isinstance(value, Mapping) for name in value)
        columns |= dict.fromkeys(((judge, name) for name in keys or (None,)), column)
    parts = dict.fromkeys(name for _, name in columns)
    metrics = [*scorers, *(name or "score" for name in parts if len(parts) > 1 or name)]
    if metric is not None and metric not in metrics:
        raise InputError(f"{path}: has no scorer {metric}; it has {several_names(metrics)}")
    cells = {
        (judge, name): [_part(path, at, judge, value, name) for at, value in enumerate(column, 1)]
        for (judge, name), column in columns.items()
        if metric in (None, judge, name or "score")
    }
    unread = {key: _unread(column, values) for key, column in cells.items()}
    worths = {}
    for (judge, name), column in cells.items():
        label = f"{judge}, {name}" if name else judge
        filled = [cell for cell in column if is_filled(cell)]
        if (odd := unread[judge, name]) is not None:
            at, cell = odd
            texts = [text for text in filled if isinstance(text, str) and worth(text, values) is text]
            plain = any(key[0] == judge and odd_cell is None for key, odd_cell in unread.items())
            if plain and len(texts) == len(filled):  # a reason beside numbers, say
                notes.append(
                    f"{label} is text ({one_line(repr(cell), CUT)} in sample {at}) and was not taken; "
                    "--values TEXT=NUMBER says what it is worth"
                )
                continue
            hint = " ".join(f"{one_line(text, 20)}=NUMBER" for text in list(dict.fromkeys(texts))[:9])
            row = read[at - 1][0]
            worths_hint = f"say what each is worth (--values {hint}), or " if isinstance(cell, str) else ""
            raise InputError(
                f"{path}, sample {at} ({one_line(row['base'], CUT)}, epoch {row['repeat'] + 1}): the value of {label}, "
                f"{one_line(repr(cell), CUT)}, is no number; {worths_hint}take another scorer (--metric NAME)"
            )
        worths[judge, name] = [parse_score(worth(cell, values), label) for cell in column]
    rows = [
        {**row, "judge": judge, "dimension": name or "score", "score": column[at]}
        for at, (row, _) in enumerate(read)
        # A scorer that gave this sample no score has one that is missing, of each of its parts.
        for (judge, name), column in worths.items()
    ]
    frame = pd.DataFrame(rows, index=[number for number in range(1, len(read) + 1) for _ in worths])
    if not any(name for _, name in worths):
        frame = frame.drop(columns="dimension")
    if any(_is_letter(cell, values) for key in worths for cell in cells[key]):
        notes.append("C is 1, P .5, I and N 0, as inspect_ai counts them")
    return Read(frame, _INSPECT, notes, unit="sample", settings=_settings(log, head), task=task)


def _reduced(log: Json, reducer: str) -> list[dict[str, Any]]:
    """Return one sample an item, with the values that inspect_ai made of its epochs."""
    values: dict[Any, dict[str, Any]] = {}
    for part in log.get("reductions") or ():
        for sample in part["samples"] if table(part, "a reduction").get("reducer") == reducer else ():
            values.setdefault(sample["sample_id"], {})[checked_name(part["scorer"], "scorer")] = sample[
                "value"
            ]
    if not values or log.get("invalidated"):
        raise ValueError(
            f"epochs are reduced by {reducer}, before a sample was made invalid or not at all: inspect score"
        )
    return [{"id": identifier, "scores": scores} for identifier, scores in values.items()]


def _settings(log: Json, head: Json) -> dict[str, str]:
    """Return how a model answered: two logs of it and a task that differ in this are two methods."""
    plan, config = mapping(log.get("plan")), mapping(head.get("config"))
    settings = {**mapping(plan.get("config")), **mapping(head.get("model_generate_config"))}
    settings |= {name: value for name, value in config.items() if name.endswith("_limit")}
    steps = plan.get("steps")
    steps = [mapping(step).get("solver") for step in steps] if isinstance(steps, list) else []
    settings["solver"] = [head["solver"], head.get("solver_args")] if head.get("solver") else steps
    settings |= {**mapping(head.get("model_args")), **mapping(head.get("task_args"))}
    return {
        name: json_text(value)
        for name, value in settings.items()
        if name not in TEXTS["inspect"]["running"] and value not in (None, [])
    }


_INSPECT = "a log of inspect_ai"


def _is_letter(value: Any, values: Values) -> bool:
    return isinstance(value, str) and value.strip() in LETTERS and worth(value, values) is value


def _unread(cells: Iterable[Any], values: Values) -> tuple[int, Any] | None:
    """Return the first value of a column that is no number, with its place; C among other grades is no "correct"."""
    odd, letters, is_valued = [], [], False
    for at, cell in enumerate(cells, 1):
        number = worth(cell, values)
        if not is_filled(cell) or number is None:
            continue
        is_valued |= isinstance(cell, str) and number is not cell
        if _is_letter(cell, values):
            letters.append((at, cell))
        elif isinstance(number, str):
            is_read = number.strip().lower() in WORDS or number_of(number.strip()) is not None
            odd += [] if is_read else [(at, cell)]
        elif not (isinstance(number, bool | int | float) and is_filled(number)):
            odd.append((at, cell))
    return next(iter(odd or (letters if is_valued else [])), None)


def _part(path: Path, number: int, judge: str, value: Any, name: str | None) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    if name is not None and is_filled(value):
        raise InputError(
            f"{path}, sample {number}: {judge} has the value {one_line(repr(value), CUT)} and in other samples one "
            f"for each of several keys; take another scorer (--metric NAME)"
        )
    return value

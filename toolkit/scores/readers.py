"""Read scores that others wrote: tables, logs of inspect_ai, of lm-eval and promptfoo.

A reader returns rows with our column names and says what it took for what; nothing is filled in, averaged or dropped
without a word. A score that a tool did not give is an empty one.
"""

import json
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    Json,
    Read,
    Rows,
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
from toolkit.table_files import ROW_FILES, csv_records, read_rows, read_text
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


def read_files(files: Iterable[Path], metric: str | None, values: Values) -> list[Read]:
    """Return what files of scores hold; logs of one model and task that differ in their settings are methods."""
    tables = [read_file(file, metric, values) for file in files]
    groups = defaultdict(list)
    for log in tables:
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
    return tables


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
    read.source = str(path)
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
            row["doc_id"] = checked_name(row["doc_id"], "doc_id")
            row["filter"] = None if row.get("filter") is None else checked_name(row["filter"], "filter")
    filters = list(dict.fromkeys(row["filter"] for _, row in numbered))
    samples = {line: row for line, row in numbered if row["filter"] == filters[0]}
    document, times = Counter(row["doc_id"] for row in samples.values()).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"{path}: document {document} is there {times} times under one filter; keep one line a document"
        )
    first = next(iter(samples.values()))
    names = first.get("metrics")
    if not isinstance(names, list):
        keys = TEXTS["lm_eval"]["keys"]
        names = [n for n, value in first.items() if isinstance(value, int | float | list) and n not in keys]
    several = list | Mapping | None
    lists = [name for name in names if all(isinstance(row.get(name), several) for row in samples.values())]
    usable = [name for name in names if name not in lists]
    if not usable or (metric is not None and metric not in usable):
        unused = f"; no number a document: {several_names(lists)}" if lists else ""
        listed = choices(metric, usable, "it has") if usable else "it has none"
        raise InputError(f"{path}: has no metric{f' {metric}' if metric else ''}; {listed}{unused}")
    selected = metric or usable[0]
    remaining = [name for name in usable if name != selected]
    others = f", and not {several_names(remaining)} (--metric NAME takes another)" if remaining else ""
    notes = [f"score is the metric {selected}{others}"]
    # The model is that of the results of the same time: other results are another's.
    results, model = path.with_name(f"results_{stamp}.json"), path.parent.name or "model"
    if not results.is_file():
        notes.append(f"no {results.name} beside it: the model is named after the folder, {model}")
    elif isinstance(content := read_json(results), Mapping):
        named = mapping(mapping(content.get("config")).get("model_args")).get("pretrained")
        model = str(content.get("model_name") or named or model)
    notes += [f"{several_names(lists)}: no number a document, not taken"] if lists else []
    notes += [f"filter {filters[0]} taken, not {several_names(filters[1:])}"] if filters[1:] else []
    rows = []
    for line, row in samples.items():
        with reading(path, f", line {line}", "be read as a sample of lm-eval"):
            score = parse_score(worth(row.get(selected), values), selected)
        rows.append({"base": f"{task or path.stem}/{row['doc_id']}", "model": model, "score": score})
    return Read(pd.DataFrame(rows, index=list(samples)), "samples of lm-eval", notes, unit="line")


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
        numbered = enumerate(samples, 1)
    rows: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    for number, sample in numbered:
        with reading(path, f", sample {number}", "be read as inspect_ai writes it"):
            epoch = table(sample, "the sample").get("epoch")
            failed = _FAILED if sample.get("error") else None
            row = {
                "base": f"{task}/{checked_name(sample['id'], 'id')}",
                "model": model,
                "repeat": max(checked_count(1 if epoch is None else epoch, "epoch") - 1, 0),
                "failure": _INVALID if sample.get("invalidation") else failed,
            }
            by_scorer = table(sample.get("scores") or {}, "scores").items()
            scores.append(
                {name: part.get("value") if isinstance(part, Mapping) else part for name, part in by_scorer}
            )
            rows.append(row)
    scorers = list(dict.fromkeys(judge for by_scorer in scores for judge in by_scorer))
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
        scored = zip(rows, scores, strict=True)
        if lost := [row["base"] for row, by_scorer in scored if row["failure"] == reason and by_scorer]:
            several = f"{len(lost)} of {len(rows)} samples {fault}"
            notes.append(f"{several}: they are missing, not scored ({several_names(lost)})")
    reason = f"never run: status {status}"
    if reducer != "mean":
        reason = "no value of its epochs"
        notes.append(f"epochs are reduced by {one_line(reducer, CUT)}, as inspect_ai did")
    planned, present = product(bases, range(epochs)), {(row["base"], row["repeat"]) for row in rows}
    absent = [
        {"base": base, "model": model, "repeat": repeat, "failure": reason}
        for base, repeat in planned
        if (base, repeat) not in present
    ]
    if absent:
        notes.append(f"{len(absent)} of {len(bases) * epochs} samples are missing: {reason}")
    if others := [name for name in reducers if name != reducer]:
        notes.append(f"numbers of {several_names(others)} are not taken")
    rows, scores = rows + absent, scores + [{}] * len(absent)
    columns = _columns(path, rows, scores, scorers, metric)
    numbers, letters = _numbers(path, rows, columns, values, notes)
    frame = pd.DataFrame(
        # A scorer that gave a sample no score has one that is missing, of each of its parts.
        [
            {**row, "judge": judge, "dimension": part or "score", "score": column[at]}
            for at, row in enumerate(rows)
            for (judge, part), column in numbers.items()
        ],
        index=[number for number in range(1, len(rows) + 1) for _ in numbers],
    )
    if not any(part for _, part in numbers):
        frame = frame.drop(columns="dimension")
    if letters:
        notes.append("C is 1, P .5, I and N 0, as inspect_ai counts them")
    return Read(frame, _INSPECT, notes, unit="sample", settings=_settings(log, head), task=task)


_Columns = dict[tuple[str, str | None], list[Any]]
"""A value for each sample, by the scorer and the key of its scores that they are of."""


def _columns(path: Path, rows: Rows, scores: Rows, scorers: Sequence[str], metric: str | None) -> _Columns:
    """Return the values of each scorer, or of the one that is named; those of samples that failed are missing."""
    columns: _Columns = {}
    for judge in scorers:
        values = [by_scorer.get(judge) for by_scorer in scores]
        usable = [None if row["failure"] else value for row, value in zip(rows, values, strict=True)]
        keyed = [
            value
            for value in (usable if any(map(is_filled, usable)) else values)
            if isinstance(value, Mapping)
        ]
        for key in dict.fromkeys(str(key) for value in keyed for key in value) or (None,):
            columns[judge, key] = usable
    keys = dict.fromkeys(key for _, key in columns)
    metrics = [*scorers, *(key or "score" for key in keys if len(keys) > 1 or key)]
    if metric not in (None, *metrics):
        raise InputError(f"{path}: has no scorer {metric}; it has {several_names(metrics)}")
    selected = {}
    for (judge, key), column in columns.items():
        if metric not in (None, judge, key or "score"):
            continue
        for number, value in enumerate(column, 1):
            if key is not None and is_filled(value) and not isinstance(value, Mapping):
                raise InputError(
                    f"{path}, sample {number}: {judge} has the value {one_line(repr(value), CUT)} and in other samples "
                    "one for each of several keys; take another scorer (--metric NAME)"
                )
        selected[judge, key] = [value.get(key) if isinstance(value, Mapping) else value for value in column]
    return selected


def _numbers(
    path: Path, rows: Rows, columns: _Columns, values: Values, notes: list[str]
) -> tuple[_Columns, bool]:
    """Return columns as numbers, without those of texts beside numbers, and whether letters of inspect_ai are read."""
    parsed: _Columns = {}
    odd: dict[tuple[str, str | None], int] = {}
    letters = False
    for key, column in columns.items():
        worths = [worth(cell, values) for cell in column]
        # C among other grades is no "correct".
        pairs = list(zip(column, worths, strict=True))
        graded = any(
            isinstance(cell, str) and value is not None and value is not cell for cell, value in pairs
        )
        parsed[key] = []
        for at, value in enumerate(worths):
            try:
                parsed[key].append(parse_score(value, "", letters=not graded))
            except ValueError:
                odd[key] = at
                break
        else:
            letters |= any(isinstance(value, str) and value.strip() in LETTERS for value in worths)
    for (judge, part), at in odd.items():
        column, label = columns[judge, part], f"{judge}, {part}" if part else judge
        cell, filled = column[at], [cell for cell in column if is_filled(cell)]
        texts = [cell for cell in filled if isinstance(cell, str) and worth(cell, values) is cell]
        if len(texts) == len(filled) and any(key[0] == judge and key not in odd for key in columns):
            notes.append(  # a reason beside numbers, say
                f"{label} is text ({one_line(repr(cell), CUT)} in sample {at + 1}) and was not taken; "
                "--values TEXT=NUMBER says what it is worth"
            )
            del parsed[judge, part]
            continue
        hint = " ".join(f"{one_line(text, 20)}=NUMBER" for text in list(dict.fromkeys(texts))[:9])
        advice = f"say what each is worth (--values {hint}), or " if isinstance(cell, str) else ""
        raise InputError(
            f"{path}, sample {at + 1} ({one_line(rows[at]['base'], CUT)}, epoch {rows[at]['repeat'] + 1}): the value "
            f"of {label}, {one_line(repr(cell), CUT)}, is no number; {advice}take another scorer (--metric NAME)"
        )
    return parsed, letters


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

"""Read scores that others wrote: tables, logs of inspect_ai, of lm-eval and promptfoo.

A reader returns rows with our column names and says what it took for what; nothing is filled in, averaged or dropped
without a word. A score that a tool did not give is an empty one.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from toolkit.errors import InputError
from toolkit.files import ZSTD, member_size, parsed, read_json, similar_file
from toolkit.scores.columns import Values, worth
from toolkit.scores.fields import (
    CUT,
    LETTERS,
    WORDS,
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
    table,
)
from toolkit.scores.promptfoo import read_promptfoo
from toolkit.table_files import ROW_FILES, number_of, read_rows
from toolkit.words import LENGTH_ARMS, choices, one_line

_RUNNING: Final = (
    "max_retries",
    "timeout",
    "attempt_timeout",
    "max_connections",
    "adaptive_connections",
    "cache",
)
"""Settings of inspect_ai that change how a model is called, not what it is asked for."""
_MOST_ROWS: Final = 20_000_000
"""Of a Parquet file: one of a few bytes can claim any number."""


def name_methods(logs: Iterable[Read]) -> None:
    """Name the models of logs by the settings of generation in which logs of one model differ: they are two methods."""
    by_model: dict[str, list[Read]] = {}
    for log in logs:
        if log.kind == _INSPECT:
            by_model.setdefault(log.rows["model"].iloc[0], []).append(log)
    for model, group in by_model.items():
        names = sorted({name for log in group for name in log.settings})
        first = group[0].settings
        differing = [n for n in names if any(log.settings.get(n) != first.get(n) for log in group)]
        for log in group if differing else ():
            pairs = ((name, log.settings[name]) for name in differing if name in log.settings)
            label = ", ".join(f"{name} {one_line(json_text(value), 60)}" for name, value in pairs)
            log.rows["model"] = f"{model}, {label}" if label else f"{model}, no {' and '.join(differing)}"
            log.notes.append(f"logs of {model} differ in {', '.join(differing)}: each is a method")


def read_file(path: Path, metric: str | None, values: Values) -> Read:
    """Read one file of scores by what is in it; an unknown kind is one line that names those that are known."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; {similar_file(path)}give a table or a log of scores")
    with reading(path, "", "be read as scores"):
        read = _read_file(path, metric, values)
    # Of our own frames: a prompt of a length arm is no M or L to be averaged with.
    if "length_arm" in read.rows and (of_arm := read.rows["length_arm"].isin(list(LENGTH_ARMS))).any():
        read.notes.append(f"{int(of_arm.sum())} rows of prompts of length arms are left out")
        return replace(read, rows=read.rows[~of_arm].drop(columns="length_arm"))
    return read


def _read_file(path: Path, metric: str | None, values: Values) -> Read:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet(path)
    if suffix in ROW_FILES:
        numbered = list(read_rows(path))
        rows = [row for _, row in numbered]
        if rows and suffix == ".jsonl" and {"doc_id", "doc"} <= rows[0].keys():
            return _lm_eval(path, numbered, metric, values)
        if rows and suffix == ".jsonl" and {"provider", "score", "gradingResult"} <= rows[0].keys():
            return read_promptfoo(path, rows)
        lines = [line for line, _ in numbered]
        unit = "row" if suffix == ".xlsx" else "line"
        return Read(pd.DataFrame(rows, index=lines), "a table", tidy=False, unit=unit)
    if suffix == ".eval":
        return _inspect(path, *_inspect_members(path), metric, values)
    if suffix == ".json":
        log = read_json(path)
        if isinstance(log, Mapping) and "eval" in log and "status" in log:
            return _inspect(path, log, log.get("samples") or [], metric, values)
        if isinstance(log, Mapping) and "results" in log:
            return read_promptfoo(path, log["results"])
        if isinstance(log, list) and all(isinstance(row, Mapping) for row in log):
            return Read(_from_first(pd.DataFrame(log)), "a table", tidy=False)
    raise InputError(
        f"{path}: is no table of scores (.csv, .tsv, .xlsx, .parquet, .jsonl), log of inspect_ai (.eval, .json), "
        "samples of lm-eval (samples_*.jsonl) or results of promptfoo (.json)"
    )


def _from_first(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows counted from 1, as messages count them."""
    return rows.set_axis(range(1, len(rows) + 1))


def _parquet(path: Path) -> Read:
    from pyarrow import parquet

    rows = parquet.ParquetFile(path).metadata.num_rows
    if rows > _MOST_ROWS:
        raise InputError(f"{path}: has {rows:,} rows, more than the {_MOST_ROWS:,} that are read; split it")
    frame = pd.read_parquet(path)
    if any(frame.index.names):  # items that somebody made the index are a column like the others
        frame = frame.reset_index()
    return Read(_from_first(frame), "a table", tidy=False)


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
    if isinstance(first.get("metrics"), list):
        names = [str(name) for name in first["metrics"]]
    else:
        numbers = {name: value for name, value in first.items() if isinstance(value, int | float)}
        names = [name for name in numbers if name not in ("doc_id", "filter")]
    lists = [name for name in names if not any(_is_plain(row.get(name)) for _, row in filtered)]
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


def _is_plain(value: Any) -> bool:
    """Return whether a value is there that is no list or object of several."""
    return value is not None and not isinstance(value, list | Mapping)


def _inspect_members(path: Path) -> tuple[Any, Iterator[Any]]:
    """Return the head of a log that is a zip, and its samples one after the other; each is let go when it was read."""
    with reading(path, "", "be read as a whole log of inspect_ai"), zipfile.ZipFile(path) as file:
        listed = file.namelist()
        names = sorted(name for name in listed if name.startswith("samples/"))
        head = "header.json" if "header.json" in listed else "_journal/start.json"
        start = table(parsed(json.loads, _member(path, file, head)), head)
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
        listed = enumerate(samples, 1)
    read: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for number, sample in listed:
        with reading(path, f", sample {number}", "be read as inspect_ai writes it"):
            epoch = table(sample, "the sample").get("epoch")
            failed = "error in the sample" if sample.get("error") else None
            sample_row: dict[str, Any] = {
                "base": f"{task}/{checked_name(sample['id'], 'id')}",
                "model": model,
                "repeat": max(checked_count(1 if epoch is None else epoch, "epoch") - 1, 0),
                "failure": failed or ("the sample was made invalid" if sample.get("invalidation") else None),
            }
            scores = table(sample.get("scores") or {}, "scores")
            by_scorer = {
                name: score.get("value") if isinstance(score, Mapping) else score
                for name, score in scores.items()
            }
            read.append((sample_row, by_scorer))
    scorers = list(dict.fromkeys(judge for _, by_scorer in read for judge in by_scorer))
    if metric is not None and metric not in scorers:
        raise InputError(f"{path}: has no scorer {metric}; it has {several_names(scorers)}")
    if not scorers:
        raise InputError(f"{path}: no sample of this log has a score; score it first (inspect score)")
    notes = [f"task {task}" + (f"; scorers as judges: {several_names(scorers)}" if len(scorers) > 1 else "")]
    if lost := sum(1 for sample_row, by_scorer in read if sample_row["failure"] and by_scorer):
        several = f"{lost} of {len(read)} samples"
        notes.append(f"{several} have an error besides scores: they are missing, not scored")
    worths: dict[tuple[str, str | None], list[float | None]] = {}
    lettered = False
    for judge in [metric] if metric else scorers:
        column = [None if sample_row["failure"] else by_scorer.get(judge) for sample_row, by_scorer in read]
        by_sample = (by_scorer.get(judge) for _, by_scorer in read)
        values_of = column if any(map(is_filled, column)) else by_sample
        keys = dict.fromkeys(str(name) for value in values_of if isinstance(value, Mapping) for name in value)
        parts: list[str | None] = [*keys] or [None]
        cells = {
            name: [_part(path, at, judge, value, name) for at, value in enumerate(column, 1)]
            for name in parts
        }
        unread = {name: _unread(cells[name], values) for name in parts}
        for name in parts:
            label = f"{judge}, {name}" if name else judge
            filled = [cell for cell in cells[name] if is_filled(cell)]
            if (odd := unread[name]) is not None:
                at, cell = odd
                texts = [text for text in filled if isinstance(text, str) and worth(text, values) is text]
                if None in unread.values() and len(texts) == len(filled):  # a reason beside numbers, say
                    notes.append(
                        f"{label} is text ({one_line(repr(cell), CUT)} in sample {at}) and was not taken; "
                        "--values TEXT=NUMBER says what it is worth"
                    )
                    continue
                hint = " ".join(f"{one_line(text, 20)}=NUMBER" for text in list(dict.fromkeys(texts))[:9])
                sample_row = read[at - 1][0]
                raise InputError(
                    f"{path}, sample {at} ({one_line(sample_row['base'], CUT)}, epoch {sample_row['repeat'] + 1}): the "
                    f"value of {label}, {one_line(repr(cell), CUT)}, is no number; "
                    + (f"say what each is worth (--values {hint}), or " if isinstance(cell, str) else "")
                    + "take another scorer (--metric NAME)"
                )
            lettered |= any(_is_letter(cell, values) for cell in filled)
            worths[judge, name] = [parse_score(worth(cell, values), label) for cell in cells[name]]
    rows: Rows = [
        {**sample_row, "judge": judge, "dimension": name, "score": column[at]}
        for at, (sample_row, _) in enumerate(read)
        # A scorer that gave this sample no score has one that is missing, of each of its parts.
        for (judge, name), column in worths.items()
    ]
    frame = pd.DataFrame(rows, index=[number for number in range(1, len(read) + 1) for _ in worths])
    if frame["dimension"].isna().all():
        frame = frame.drop(columns="dimension")
    elif frame["dimension"].isna().any():
        frame["dimension"] = frame["dimension"].fillna("score")
    notes += ["C is 1, P .5, I and N 0, as inspect_ai counts them"] if lettered else []
    # With what settings a model answered: two logs that differ in them are two methods.
    generated = dict(mapping(mapping(log.get("plan")).get("config")))
    generated.update(mapping(head.get("model_generate_config")))
    settings = {
        name: value for name, value in generated.items() if value is not None and name not in _RUNNING
    }
    return Read(frame, _INSPECT, notes, unit="sample", settings=settings)


_INSPECT: Final = "a log of inspect_ai"


def _is_letter(value: Any, values: Values) -> bool:
    return isinstance(value, str) and value.strip() in LETTERS and worth(value, values) is value


def _unread(cells: Iterable[Any], values: Values) -> tuple[int, Any] | None:
    """Return the first value of a column that is no number, with its place; C among other grades is no "correct"."""
    odd, letters, is_given = [], [], False
    for at, cell in enumerate(cells, 1):
        number = worth(cell, values)
        if not is_filled(cell) or number is None:
            continue
        is_given |= isinstance(cell, str) and number is not cell
        if _is_letter(cell, values):
            letters.append((at, cell))
        elif isinstance(number, str):
            is_read = number.strip().lower() in WORDS or number_of(number.strip()) is not None
            odd += [] if is_read else [(at, cell)]
        elif not (isinstance(number, bool | int | float) and is_filled(number)):
            odd.append((at, cell))
    return next(iter(odd or (letters if is_given else [])), None)


def _part(path: Path, number: int, judge: str, value: Any, name: str | None) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    if name is not None and is_filled(value):
        raise InputError(
            f"{path}, sample {number}: {judge} has the value {one_line(repr(value), CUT)} and in other samples one "
            f"for each of several keys; take another scorer (--metric NAME)"
        )
    return value

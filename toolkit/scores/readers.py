"""Read scores that others wrote: tables, logs of inspect_ai, of lm-eval and promptfoo.

A reader returns rows with our column names and says what it took for what; nothing is filled in, averaged or dropped
without a word. A score that a tool did not give is an empty one.
"""

import json
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import parquet

from toolkit.errors import InputError
from toolkit.files.digests import sha256_hex
from toolkit.files.reading import DAMAGED_ZIP, ZSTD, member_size, parsed, read_json, similar_file
from toolkit.files.tables import ROW_FILES, csv_records, read_rows, table_text
from toolkit.scores.columns import (
    CUT,
    LETTERS,
    TEXTS,
    Read,
    Values,
    is_filled,
    number_for,
    parse_score,
    score_number,
    several_names,
)
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


_GRADER = re.compile(
    r"Could not extract JSON|Could not perform remote grading|Error parsing output|API (call )?error|No output$"
    r"|LLM-proposed evaluation|LLM does not propose|G-Eval (steps|result|evaluation)|[\w-]+ produced malformed response"
    r"|No embedding|Embedding not found|Invalid similarity|Unknown error fetching|Custom function threw error"
    r"|(Python|Ruby) code execution failed|Failed to parse grading|Grading provider"
)
"""Reasons by which promptfoo says that a grader failed; since 2025 it sets ``graderError`` besides."""
_EXPORT = "export it as JSON: promptfoo export eval ID -o FILE.json (promptfoo list evals has the IDs)"
_PROVIDER_FAILED = 2
"""``failureReason`` of promptfoo: 0 none, 1 an assertion, 2 an error."""
_PROMPT = 40
"""Signs of the label of a prompt that is shown; a longer one is its text."""
Rows = list[dict[str, Any]]
Json = Mapping[str, Any]


def json_text(value: Any) -> str:
    """Return a text as it is, and another value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


@contextmanager
def reading(path: Path, location: str = "") -> Iterator[None]:
    """Say in one line where a file is not as its writer writes it, whatever of its shape is wrong."""
    try:
        yield
    except (*DAMAGED_ZIP, RecursionError, ArithmeticError, pa.ArrowException) as error:
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(
            f"{path}{location}: cannot be read as scores ({reason}); correct it, or write it again"
        ) from None


def table(value: Any, label: str) -> Json:
    """Return a JSON object as it is; raises ``TypeError`` for another value."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{label} is {one_line(repr(value), CUT)}, no object")
    return value


def mapping(value: Any) -> Json:
    """Return a JSON object as it is, and an empty one for another value."""
    return value if isinstance(value, Mapping) else {}


def checked_count(value: Any, label: str) -> int:
    """Return a whole number that counts something; raises ``TypeError`` for another value."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise TypeError(f"{label} is {one_line(repr(value), CUT)}, no whole number from 0")
    return value


def checked_name(value: Any, label: str) -> str:
    """Return a name or number as text; raises ``TypeError`` for another value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise TypeError(f"{label} is {one_line(repr(value), CUT)}, no name")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def short_name(text: str) -> str:
    """Return a text as a name; a mark tells a long one from others that begin alike."""
    name = one_line(text, 60)
    return name if name == text else f"{name} [{sha256_hex(text)[:8]}]"


def read_files(files: Iterable[Path], metric: str | None, values: Values) -> list[Read]:
    """Return what files of scores hold; logs of one model and task that differ in their settings are methods."""
    tables = []
    for path in files:
        if not path.is_file():
            raise InputError(f"{path}: no such file; {similar_file(path)}give a table or a log of scores")
        with reading(path):
            tables.append(_read_file(path, metric, values))
        tables[-1].source = str(path)
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


def _read_file(path: Path, metric: str | None, values: Values) -> Read:
    """Read one file of scores by what is in it; an unknown kind is one line that names those that are known."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        rows_claimed = parquet.ParquetFile(path).metadata.num_rows
        if rows_claimed > _MOST_ROWS:
            raise InputError(
                f"{path}: has {rows_claimed:,} rows, more than the {_MOST_ROWS:,} that are read; split it"
            )
        frame = pd.read_parquet(path)
        # Items that somebody made the index are a column like the others.
        return _table(frame.reset_index() if any(frame.index.names) else frame)
    header = next(csv_records(path, table_text(path)), (1, []))[1] if suffix == ".csv" else []
    if any(re.match(r"\[[^\]]+\] \S", name) for name in header):  # a column of replies: [provider] prompt
        raise InputError(f"{path}: is a table of promptfoo, without its tests and errors; {_EXPORT}")
    if suffix in ROW_FILES:
        numbered = list(read_rows(path))
        rows = [row for _, row in numbered]
        keys = set(rows[0]) if rows and suffix == ".jsonl" else set()
        if {"doc_id", "doc"} <= keys:
            return _lm_eval(path, numbered, metric, values)
        if {"provider", "score", "gradingResult"} <= keys:
            return _promptfoo(path, rows, metric)
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
            return _promptfoo(path, log["results"], metric)
        if isinstance(log, list) and all(isinstance(row, Mapping) for row in log):
            return _table(pd.DataFrame(log))
    if suffix in (".yaml", ".yml"):
        raise InputError(f"{path}: is YAML, which is not read; of promptfoo {_EXPORT}")
    raise InputError(
        f"{path}: is no table of scores (.csv, .tsv, .xlsx, .parquet, .jsonl), log of inspect_ai (.eval, .json), "
        "samples of lm-eval (samples_*.jsonl) or results of promptfoo (.json)"
    )


def _table(rows: pd.DataFrame, unit: str = "row", lines: list[int] | None = None) -> Read:
    """Return a table as it is; one that Langfuse exports with our columns, and without its texts."""
    rows, notes = rows.set_axis(lines or range(1, len(rows) + 1)), []
    # Of our own frames: a prompt of a length arm is no M or L to be averaged with.
    if "length_arm" in rows and (in_arm := rows["length_arm"].isin(list(LENGTH_ARMS))).any():
        notes.append(f"{int(in_arm.sum())} rows of prompts of length arms are left out")
        rows = rows[~in_arm].drop(columns="length_arm")
    plain = rows.rename(columns=lambda name: str(name).replace("_", "").lower())
    if not {*TEXTS["langfuse"]["columns"]} <= {*plain}:
        return Read(rows, "a table", notes, tidy=False, unit=unit)
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
    return Read(rows, "a table", [_LANGFUSE_NOTE, *notes], tidy=False, unit=unit)


def _lm_eval(
    path: Path, numbered: list[tuple[int, dict[str, Any]]], metric: str | None, values: Values
) -> Read:
    """Return samples of lm-eval (``--log_samples``): one row a document, the task's first metric as its score."""
    task, _, stamp = path.stem.removeprefix("samples_").rpartition("_")
    first = numbered[0][1]
    samples = {line: row for line, row in numbered if row.get("filter") == first.get("filter")}
    names = first.get("metrics")
    if not isinstance(names, list):
        keys = TEXTS["lm_eval"]["keys"]
        names = [n for n, value in first.items() if isinstance(value, int | float | list) and n not in keys]
    several = list | Mapping | None
    lists = [name for name in names if all(isinstance(row.get(name), several) for row in samples.values())]
    usable = [name for name in names if name not in lists]
    if not usable or metric not in (None, *usable):
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
    else:
        content = mapping(read_json(results))
        named = mapping(mapping(content.get("config")).get("model_args")).get("pretrained")
        model = str(content.get("model_name") or named or model)
    notes += [f"{several_names(lists)}: no number a document, not taken"] if lists else []
    filters = list(dict.fromkeys(str(row.get("filter")) for _, row in numbered))
    notes += [f"filter {filters[0]} taken, not {several_names(filters[1:])}"] if filters[1:] else []
    bases, scores = [], []
    for line, row in samples.items():
        with reading(path, f", line {line}"):
            bases.append(f"{task or path.stem}/{checked_name(row['doc_id'], 'doc_id')}")
            scores.append(parse_score(number_for(row.get(selected), values), selected))
    frame = pd.DataFrame({"base": bases, "model": model, "score": scores}, index=list(samples))
    return Read(frame, "samples of lm-eval", notes, unit="line")


def _promptfoo(path: Path, results: Any, metric: str | None) -> Read:
    """Return results of promptfoo: a test is an item, a provider a model, and each of its prompts another model.

    ``testIdx`` counts repeats and ``promptIdx`` prompts times providers: a test is told by its variables.
    """
    listed = results.get("results") if isinstance(results, Mapping) else results
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{path}: holds no results of promptfoo; {_EXPORT}")
    names = dict.fromkeys(name for result in listed for name in mapping(mapping(result).get("namedScores")))
    if metric is not None and metric not in names:
        raise InputError(f"{path}: has no metric {metric}; it has {several_names(names) or 'none'}")
    rows = []
    for number, result in enumerate(listed, 1):
        with reading(path, f", result {number}"):
            for index in ("testIdx", "promptIdx"):
                checked_count(table(result, "the result").get(index) or 0, index)
            provider, prompt = result.get("provider"), mapping(result.get("prompt"))
            name = provider.get("label") or provider.get("id") if isinstance(provider, Mapping) else provider
            label, failure = prompt.get("label") or prompt.get("display"), _failure(result)
            value = result["score"] if metric is None else mapping(result.get("namedScores")).get(metric)
            row = {
                "model": checked_name(name, "provider"),
                "label": label,
                "prompt": json_text([label, result.get("promptIdx")]),
                "score": None if failure else parse_score(value, metric or "score"),
                "failure": failure,
                "index": result.get("testIdx"),
            }
        rows.append(row | _test_key(result))
    frame = pd.DataFrame(rows, index=range(1, len(rows) + 1), dtype="object")
    frame["base"] = _test_names(frame)
    models = frame.groupby("model")
    most = models["prompt"].nunique().max()
    frame["model"] = pd.concat([_model_names(group) for _, group in models])
    in_order = frame.assign(index=frame["index"].fillna(0)).sort_values("index", kind="stable")
    frame["repeat"] = in_order.groupby(["base", "model"]).cumcount()
    notes = ["costs of promptfoo are in USD and were not taken"]
    if most > 1:
        notes.append(f"{most} prompts: each with its provider is a model")
    if last := frame["repeat"].max():
        notes.append(
            f"tests with the same variables are repeats of one item: up to {last + 1} an item and model"
        )
    if graders := frame["failure"].str.startswith("the grader", na=False).sum():
        notes.append(f"{graders} of {len(rows)} scores are missing because their grader failed")
    columns = ["base", "model", "repeat", "score", "failure"]
    return Read(frame[columns], "results of promptfoo", notes, unit="result")


def _model_names(results: pd.DataFrame) -> pd.Series:
    """Return the model of each result of a provider: where it has several prompts, each of them makes one."""
    numbers, prompts = pd.factorize(results["prompt"])
    labels = results["label"][~results["prompt"].duplicated()]
    if len(prompts) == 1:
        return results["model"]
    are_names = all(isinstance(label, str) and len(label) <= _PROMPT for label in labels)
    numbered = pd.Series(numbers + 1, results.index).map("prompt {}".format)
    return results["model"] + ", " + (results["label"] if are_names and labels.is_unique else numbered)


def _test_key(result: Json) -> dict[str, str]:
    """Return what tells a test from others and its variables as text; both are empty where nothing tells it."""
    case = mapping(result.get("testCase"))
    variables = {
        name: json_text(value)
        for name, value in (mapping(result.get("vars")) or mapping(case.get("vars"))).items()
        if not name.startswith("_") and name != "sessionId"  # promptfoo fills them anew in each repeat
    }
    identity = [variables, case.get("description"), case.get("assert")]
    texts = [text if len(variables) == 1 else f"{name}={text}" for name, text in variables.items()]
    return {"key": json_text(identity) if any(identity) else "", "text": ", ".join(texts)}


def _test_names(tests: pd.DataFrame) -> pd.Series:
    """Return the item of each test: its variables, with a mark where they are no name of its own, else its number."""
    names = tests["text"].map(lambda text: one_line(text, 60))
    shared = tests.groupby(names)["key"].transform("nunique") > 1
    marks = tests["key"].map(lambda key: f" [{sha256_hex(key)[:8]}]")
    named = names.mask(shared | (names != tests["text"]) | (names == ""), names.replace("", "test") + marks)
    is_untold = tests["key"] == ""
    order = tests[is_untold].groupby(["model", "prompt"]).cumcount()
    return named.mask(is_untold, "test " + tests["index"].fillna(order).astype(str))


def _failure(result: Json) -> str | None:
    """Return why a result has no score: promptfoo writes 0 where a provider or a grader failed."""
    graded = mapping(result.get("gradingResult"))
    unscored = result.get("failureReason") == _PROVIDER_FAILED or result.get("score") is None
    if unscored or (result.get("error") and not graded):
        return "error of the provider"
    listed = graded.get("componentResults")
    for part in [graded, *(listed if isinstance(listed, list) else ())]:
        if not isinstance(part, Mapping) or part.get("pass"):
            continue
        reason = str(part.get("reason") or "")
        if mapping(part.get("metadata")).get("graderError") or _GRADER.match(reason):
            return f"the grader failed: {one_line(reason, CUT)}"
    return None


def _inspect_members(path: Path) -> tuple[Any, list[Any]]:
    """Return the head of a log that is a zip, and of each sample what is read of it; most of a log is let go."""
    with zipfile.ZipFile(path) as file:
        names, samples = file.namelist(), []
        head = "header.json" if "header.json" in names else "_journal/start.json"
        log = {"status": "started", **table(parsed(json.loads, _member(path, file, head)), head)}
        if "reductions.json" in names:
            log["reductions"] = parsed(json.loads, _member(path, file, "reductions.json"))
        for name in sorted(name for name in names if name.startswith("samples/")):
            with reading(path, f", {one_line(name, CUT)}"):
                sample = table(parsed(json.loads, _member(path, file, name)), "the sample")
                fields = ("id", "epoch", "scores", "error", "invalidation")
                samples.append({field: sample.get(field) for field in fields})
    return log, samples


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
    rows: Rows = []
    for number, sample in enumerate(samples, 1):
        with reading(path, f", sample {number}"):
            epoch = table(sample, "the sample").get("epoch")
            failed = _FAILED if sample.get("error") else None
            scores = table(sample.get("scores") or {}, "scores").items()
            row = {
                "base": f"{task}/{checked_name(sample['id'], 'id')}",
                "model": model,
                "repeat": max(checked_count(1 if epoch is None else epoch, "epoch") - 1, 0),
                "failure": _INVALID if sample.get("invalidation") else failed,
                "scores": {
                    name: part.get("value") if isinstance(part, Mapping) else part for name, part in scores
                },
            }
            rows.append(row)
    scorers = list(dict.fromkeys(judge for row in rows for judge in row["scores"]))
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
        if lost := [row["base"] for row in rows if row["failure"] == reason and row["scores"]]:
            several = f"{len(lost)} of {len(rows)} samples {fault}"
            notes.append(f"{several}: they are missing, not scored ({several_names(lost)})")
    reason = f"never run: status {status}"
    if reducer != "mean":
        reason = "no value of its epochs"
        notes.append(f"epochs are reduced by {one_line(reducer, CUT)}, as inspect_ai did")
    present = {(row["base"], row["repeat"]) for row in rows}
    absent = [planned for planned in product(bases, range(epochs)) if planned not in present]
    rows += [
        {"base": base, "model": model, "repeat": repeat, "failure": reason, "scores": {}}
        for base, repeat in absent
    ]
    if absent:
        notes.append(f"{len(absent)} of {len(bases) * epochs} samples are missing: {reason}")
    if others := [name for name in reducers if name != reducer]:
        notes.append(f"numbers of {several_names(others)} are not taken")
    numbers = _numbers(path, rows, _columns(path, rows, scorers, metric), values, notes)
    frame = pd.DataFrame(
        # A scorer that gave a sample no score has one that is missing, of each of its parts.
        [
            {**row, "judge": judge, "dimension": part or "score", "score": column[at]}
            for at, row in enumerate(rows)
            for (judge, part), column in numbers.items()
        ],
        index=[number for number in range(1, len(rows) + 1) for _ in numbers],
    )
    unused = ["scores"] if any(part for _, part in numbers) else ["scores", "dimension"]
    settings = _settings(log, head)
    return Read(frame.drop(columns=unused), _INSPECT, notes, unit="sample", settings=settings, task=task)


_Columns = dict[tuple[str, str | None], list[Any]]
"""A value for each sample, by the scorer and the key of its scores that they are of."""


def _columns(path: Path, rows: Rows, scorers: Sequence[str], metric: str | None) -> _Columns:
    """Return the values of each scorer, or of the one that is named; those of samples that failed are missing."""
    columns: _Columns = {}
    for judge in scorers:
        values = [None if row["failure"] else row["scores"].get(judge) for row in rows]
        keys = dict.fromkeys(key for value in values if isinstance(value, Mapping) for key in value)
        for key in keys or (None,):
            columns[judge, key] = values
    every_key = dict.fromkeys(key for _, key in columns)
    metrics = [*scorers, *(key or "score" for key in every_key if len(every_key) > 1 or key)]
    if metric not in (None, *metrics):
        raise InputError(f"{path}: has no scorer {metric}; it has {several_names(metrics)}")
    selected = {}
    for (judge, key), values in columns.items():
        if metric not in (None, judge, key or "score"):
            continue
        selected[judge, key] = [value.get(key) if isinstance(value, Mapping) else value for value in values]
        for number, value in enumerate(values, 1):
            if key is not None and is_filled(value) and not isinstance(value, Mapping):
                raise InputError(
                    f"{path}, sample {number}: {judge} has the value {one_line(repr(value), CUT)} and in other samples "
                    "one for each of several keys; take another scorer (--metric NAME)"
                )
    return selected


def _numbers(path: Path, rows: Rows, columns: _Columns, values: Values, notes: list[str]) -> _Columns:
    """Return columns as numbers, without those of texts beside numbers."""
    numbers: _Columns = {}
    odd: dict[tuple[str, str | None], int] = {}
    letters = False
    for key, column in columns.items():
        worths = [number_for(cell, values) for cell in column]
        # C among other grades is no "correct".
        graded = any(
            isinstance(cell, str) and worth is not None and worth is not cell
            for cell, worth in zip(column, worths, strict=True)
        )
        numbers[key] = [score_number(worth, letters=not graded) for worth in worths]
        if (infinite := np.isinf(np.array(numbers[key], dtype=float))).any():
            odd[key] = int(infinite.argmax())
        else:
            letters |= any(isinstance(worth, str) and worth.strip() in LETTERS for worth in worths)
    for (judge, part), at in odd.items():
        column, label = columns[judge, part], f"{judge}, {part}" if part else judge
        cell, filled = column[at], [cell for cell in column if is_filled(cell)]
        texts = [cell for cell in filled if isinstance(cell, str) and number_for(cell, values) is cell]
        if len(texts) == len(filled) and any(key[0] == judge and key not in odd for key in columns):
            notes.append(  # a reason beside numbers, say
                f"{label} is text ({one_line(repr(cell), CUT)} in sample {at + 1}) and was not taken; "
                "--values TEXT=NUMBER says what it is worth"
            )
            del numbers[judge, part]
            continue
        hint = " ".join(f"{one_line(text, 20)}=NUMBER" for text in list(dict.fromkeys(texts))[:9])
        advice = f"say what each is worth (--values {hint}), or " if isinstance(cell, str) else ""
        raise InputError(
            f"{path}, sample {at + 1} ({one_line(rows[at]['base'], CUT)}, epoch {rows[at]['repeat'] + 1}): the value "
            f"of {label}, {one_line(repr(cell), CUT)}, is no number; {advice}take another scorer (--metric NAME)"
        )
    if letters:
        notes.append("C is 1, P .5, I and N 0, as inspect_ai counts them")
    return numbers


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
    plan = mapping(log.get("plan"))
    solvers = [mapping(step).get("solver") for step in plan.get("steps") or ()]
    limits = {n: value for n, value in mapping(head.get("config")).items() if n.endswith("_limit")}
    settings = {
        **mapping(plan.get("config")),
        **mapping(head.get("model_generate_config")),
        **limits,
        "solver": [head["solver"], head.get("solver_args")] if head.get("solver") else solvers,
        **mapping(head.get("model_args")),
        **mapping(head.get("task_args")),
    }
    return {
        name: json_text(value)
        for name, value in settings.items()
        if name not in TEXTS["inspect"]["running"] and value not in (None, [])
    }


_INSPECT = "a log of inspect_ai"

"""Read scores that other tools wrote: tables, logs of inspect_ai, samples of lm-eval, results of promptfoo, archives.

A reader returns rows with our column names and says what it took for what; nothing is filled in, averaged or dropped
without a word. A score that a tool did not give is an empty one.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from toolkit.errors import InputError
from toolkit.files import DAMAGED_ZIP, ZSTD, member_size, read_json, similar_file
from toolkit.table_files import ROW_FILES, number_of, read_rows
from toolkit.words import DIMENSIONS, SCALE, choices, one_line

_LETTERS: Final = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Letters of inspect_ai: correct, incorrect, partially correct and no answer (``value_to_float`` of inspect_ai)."""
_WORDS: Final = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_COMPOSITES: Final = ("composite", "composite_strict")
_NAMED: Final = 4
_MOST_ROWS: Final = 20_000_000
"""Of a Parquet file: one of a few bytes can claim any number."""
_SHOWN: Final = 80
Rows = list[dict[str, Any]]


@dataclass
class Read:
    """Rows of a file, how they were understood, and what was left out of them; `tidy` where columns have our names.

    The index numbers what the rows stand in: `unit`, a line, say.
    """

    rows: pd.DataFrame
    kind: str
    notes: list[str] = field(default_factory=list)
    tidy: bool = True
    scale: tuple[float, float] | None = None
    unit: str = "row"


def read_file(path: Path, metric: str | None = None) -> Read:
    """Read one file of scores by what is in it; an unknown kind is one line that names those that are known."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; {similar_file(path)}give a table or a log of scores")
    with _at(path, "", "be read as scores"):
        return _read_file(path, metric)


def _read_file(path: Path, metric: str | None) -> Read:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet(path)
    if suffix in ROW_FILES:
        numbered = list(read_rows(path))
        rows = [row for _, row in numbered]
        if rows and suffix == ".jsonl" and {"doc_id", "doc"} <= rows[0].keys():
            return _lm_eval(path, numbered, metric)
        lines = [line for line, _ in numbered]
        unit = "row" if suffix == ".xlsx" else "line"
        return Read(pd.DataFrame(rows, index=lines), "a table", tidy=False, unit=unit)
    if suffix == ".eval":
        return _inspect(path, *_inspect_members(path), metric)
    if suffix == ".zip":
        return _archive(path)
    if suffix == ".json":
        log = read_json(path)
        if isinstance(log, Mapping) and "eval" in log and "status" in log:
            return _inspect(path, log["eval"], log.get("samples") or [], metric)
        if isinstance(log, Mapping) and "results" in log:
            return _promptfoo(path, log["results"])
        if isinstance(log, list) and all(isinstance(row, Mapping) for row in log):
            return Read(_from_first(pd.DataFrame(log)), "a table", tidy=False)
    raise InputError(
        f"{path}: is no table of scores (.csv, .tsv, .xlsx, .parquet, .jsonl), log of inspect_ai (.eval, .json), "
        "samples of lm-eval (samples_*.jsonl), results of promptfoo (.json) or archive of `toolkit export` (.zip)"
    )


def _from_first(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows counted from 1, as messages count them."""
    return rows.set_axis(range(1, len(rows) + 1))


@contextmanager
def _at(path: Path, place: str, writer: str) -> Iterator[None]:
    """Say in one line where a file is not as its writer writes it, whatever of its shape is wrong."""
    try:
        yield
    except (*DAMAGED_ZIP, RecursionError, ArithmeticError, pa.ArrowException) as error:
        why = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(f"{path}{place}: cannot {writer} ({why}); correct it, or write it again") from None


def _table(value: Any, what: str) -> Mapping[str, Any]:
    """Return a JSON object as it is; raises ``TypeError`` for another value."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} is {one_line(repr(value), _SHOWN)}, no object")
    return value


def _whole(value: Any, what: str) -> int:
    """Return a whole number that counts something; raises ``TypeError`` for another value."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise TypeError(f"{what} is {one_line(repr(value), _SHOWN)}, no whole number from 0")
    return value


def _name(value: Any, what: str) -> str:
    """Return a name or number as text; raises ``TypeError`` for another value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise TypeError(f"{what} is {one_line(repr(value), _SHOWN)}, no name")
    return str(value)


def _parquet(path: Path) -> Read:
    from pyarrow import parquet

    rows = parquet.ParquetFile(path).metadata.num_rows
    if rows > _MOST_ROWS:
        raise InputError(f"{path}: has {rows:,} rows, more than the {_MOST_ROWS:,} that are read; split it")
    frame = pd.read_parquet(path)
    if any(frame.index.names):  # items that somebody made the index are a column like the others
        frame = frame.reset_index()
    return Read(_from_first(frame), "a table", tidy=False)


def _lm_eval(path: Path, numbered: list[tuple[int, dict[str, Any]]], metric: str | None) -> Read:
    """Return samples of lm-eval (``--log_samples``): one row a document, the task's first metric as its score."""
    task = path.stem.removeprefix("samples_").rpartition("_")[0] or path.stem
    for line, row in numbered:
        with _at(path, f", line {line}", "be read as a sample of lm-eval"):
            _name(row["doc_id"], "doc_id")
            if row.get("filter") is not None:
                _name(row["filter"], "filter")
    filters = list(dict.fromkeys(row.get("filter") for _, row in numbered))
    saved = [(line, row) for line, row in numbered if row.get("filter") == filters[0]]
    known = _metrics(saved[0][1])
    if not known or (metric is not None and metric not in known):
        raise InputError(
            f"{path}: has no metric {metric or ''}; {choices(metric, known, 'it has') if known else 'it has none'}"
        )
    taken, model = metric or known[0], _lm_eval_model(path)
    rows = []
    for line, row in saved:
        with _at(path, f", line {line}", "be read as a sample of lm-eval"):
            score = _number(row.get(taken), taken)
        rows.append({"base": f"{task}/{row['doc_id']}", "model": model, "score": score})
    return Read(
        pd.DataFrame(rows, index=[line for line, _ in saved]),
        "samples of lm-eval",
        [
            f"score is the metric {taken}{_others(known, taken, 'metric')}",
            *([f"filter {filters[0]} taken, not {_several(filters[1:])}"] if filters[1:] else []),
        ],
        unit="line",
    )


def _metrics(row: Mapping[str, Any]) -> list[str]:
    told = row.get("metrics")
    if isinstance(told, list):
        return [str(name) for name in told]
    given = {"doc_id", "filter"}
    return [name for name, value in row.items() if name not in given and isinstance(value, int | float)]


def _lm_eval_model(path: Path) -> str:
    """Return the model that the results beside the samples name, else that of their folder."""
    stamp = path.stem.rpartition("_")[2]
    for beside in (path.with_name(f"results_{stamp}.json"), *sorted(path.parent.glob("results_*.json"))):
        if beside.is_file() and isinstance(about := read_json(beside), Mapping):
            config = about.get("config")
            arguments = config.get("model_args") if isinstance(config, Mapping) else None
            named = arguments.get("pretrained") if isinstance(arguments, Mapping) else None
            return str(about.get("model_name") or named or path.parent.name)
    return path.parent.name or "model"


def _inspect_members(path: Path) -> tuple[Any, Iterator[Any]]:
    """Return the head of a log that is a zip, and its samples one after the other; each is let go when it was read."""
    with _at(path, "", "be read as a whole log of inspect_ai"), zipfile.ZipFile(path) as file:
        listed = file.namelist()
        names = sorted(name for name in listed if name.startswith("samples/"))
        head = "header.json" if "header.json" in listed else "_journal/start.json"
        start = _table(json.loads(_member(path, file, head)), head)["eval"]
        samples = []
        for name in names:
            with _at(path, f", {one_line(name, _SHOWN)}", "be read as a whole log of inspect_ai"):
                sample = json.loads(_member(path, file, name))
                # Of a sample what is read of it: its messages and events are most of a log.
                fields = ("id", "epoch", "scores", "error", "metadata")
                samples.append({field: _table(sample, "the sample").get(field) for field in fields})
    return start, iter(samples)


def _member(path: Path, file: zipfile.ZipFile, name: str) -> bytes:
    """Return a member of a zip, of Zstandard too, which inspect_ai writes and zipfile of Python 3.11 cannot read."""
    size, about = member_size(file, name), file.getinfo(name)
    if about.flag_bits & 1:
        raise RuntimeError("it is encrypted")
    if about.compress_type != ZSTD:
        return file.read(name)
    with path.open("rb") as raw:
        raw.seek(about.header_offset + 26)  # of the local header: lengths of the name and of what is extra
        lengths = int.from_bytes(raw.read(2), "little") + int.from_bytes(raw.read(2), "little")
        raw.seek(lengths, 1)
        content = pa.Codec("zstd").decompress(raw.read(about.compress_size), size, asbytes=True)
    if zlib.crc32(content) != about.CRC:
        raise zipfile.BadZipFile(f"bad CRC-32 of {name}")
    return bytes(content)


def _inspect(path: Path, about: Any, samples: Iterable[Any], metric: str | None) -> Read:
    """Return a log of inspect_ai: a scorer is a judge, an epoch a repeat, a key of a score a dimension."""
    with _at(path, "", "be read as a log of inspect_ai"):
        head = _table(about, "eval")
        task, model = _name(head.get("task", path.stem), "task"), _name(head.get("model", "model"), "model")
        listed = enumerate(samples, 1)
    read: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for number, sample in listed:
        with _at(path, f", sample {number}", "be read as inspect_ai writes it"):
            epoch = _table(sample, "the sample").get("epoch")
            where = {
                "base": f"{task}/{_name(sample['id'], 'id')}",
                "model": model,
                "repeat": max(_whole(1 if epoch is None else epoch, "epoch") - 1, 0),
                "failure": "error in the sample" if sample.get("error") else None,
                **_of_ours(sample.get("metadata")),
            }
            scores = _table(sample.get("scores") or {}, "scores")
            read.append((where, {name: _value(score) for name, score in scores.items()}))
    scorers = list(dict.fromkeys(judge for _, values in read for judge in values))
    if metric is not None and metric not in scorers:
        raise InputError(f"{path}: has no scorer {metric}; it has {_several(scorers)}")
    if not scorers:
        raise InputError(f"{path}: no sample of this log has a score; score it first (inspect score)")
    parts = {judge: _parts_of(values.get(judge) for _, values in read) for judge in scorers}
    rows: Rows = []
    numbers: list[int] = []
    for number, (where, values) in enumerate(read, 1):
        with _at(path, f", sample {number}", "be read as inspect_ai writes it"):
            # A scorer that gave this sample no score has one that is missing, of each of its parts.
            rows += [
                {
                    **where,
                    "judge": judge,
                    "dimension": name,
                    "score": _number(_part(values.get(judge), name), judge),
                }
                for judge in ([metric] if metric else scorers)
                for name in parts[judge]
            ]
        numbers += [number] * (len(rows) - len(numbers))
    frame = pd.DataFrame(rows, index=numbers)
    if frame["dimension"].isna().all():
        frame = frame.drop(columns="dimension")
    elif frame["dimension"].isna().any():
        frame["dimension"] = frame["dimension"].fillna("score")
    notes = [f"task {task}; scorers as judges: {_several(scorers)}"] if len(scorers) > 1 else [f"task {task}"]
    if frame["score"].isin((0.0, 0.5, 1.0)).all():
        notes.append("C is 1, P .5, I and N 0, as inspect_ai counts them")
    ours = "run_id" in (read[0][0] if read else {})
    return Read(frame, "a log of inspect_ai", notes, scale=SCALE if ours else None, unit="sample")


def _value(score: Any) -> Any:
    return score.get("value") if isinstance(score, Mapping) else score


def _parts_of(values: Iterable[Any]) -> list[str | None]:
    """Return the keys of a scorer's values; the composites of our own logs are calculated again from the others."""
    names = list(dict.fromkeys(str(name) for value in values if isinstance(value, Mapping) for name in value))
    return [*(name for name in names if name not in _COMPOSITES or len(names) == 1)] or [None]


def _part(value: Any, name: str | None) -> Any:
    return value.get(name) if isinstance(value, Mapping) else value if name is None else None


def _of_ours(metadata: Any) -> dict[str, Any]:
    """Return what a log that we wrote says of a run besides its scores."""
    given = metadata if isinstance(metadata, Mapping) else {}
    known = ("run_id", "base", "cluster", "length_bin", "scenario", "aud_cost", "output_tokens")
    return {name: given[name] for name in known if given.get(name) is not None}


def _promptfoo(path: Path, results: Any) -> Read:
    """Return results of promptfoo: a test is an item, a provider a model, and each prompt of several another model."""
    listed = results.get("results") if isinstance(results, Mapping) else results
    if not isinstance(listed, list) or not listed:
        raise InputError(
            f"{path}: holds no results of promptfoo; export it with `promptfoo eval -o FILE.json`"
        )
    for number, result in enumerate(listed, 1):
        with _at(path, f", result {number}", "be read as promptfoo writes it"):
            for index in ("testIdx", "promptIdx"):
                _whole(_table(result, "the result").get(index, 0), index)
    prompts = {result.get("promptIdx", 0) for result in listed}
    seen: Counter[tuple[Any, ...]] = Counter()
    rows: Rows = []
    for place, result in enumerate(listed):
        with _at(path, f", result {place + 1}", "be read as promptfoo writes it"):
            provider = result.get("provider")
            label = provider.get("label") or provider.get("id") if isinstance(provider, Mapping) else provider
            name = _name(label, "provider")
            model = f"{name}, prompt {result.get('promptIdx', 0) + 1}" if len(prompts) > 1 else name
            key = (result.get("testIdx", place), model)
            failed = result.get("score") is None or bool(
                result.get("error") and not result.get("gradingResult")
            )
            score = None if failed else _number(result["score"], "score")
        failure = "error of the provider" if failed else None
        rows.append(
            {
                "base": f"test {key[0]}",
                "model": model,
                "repeat": seen[key],
                "score": score,
                "failure": failure,
            }
        )
        seen[key] += 1
    notes = ["costs of promptfoo are in USD and were not taken"]
    if len(prompts) > 1:
        notes.append(f"{len(prompts)} prompts: each with its provider is a model")
    return Read(_from_first(pd.DataFrame(rows)), "results of promptfoo", notes, unit="result")


def _archive(path: Path) -> Read:
    """Return an archive of ours: what judges said of the text that each run has now, with clusters by equal texts."""
    from toolkit.store.archive import check_archive

    archive = check_archive(path)

    def every(name: str) -> Iterator[Mapping[str, Any]]:
        return (one for block in archive.blocks(name) for one in block)

    prompts = {(one["prompt_id"], one["dataset_version"]): one for one in every("prompts")}
    bases = {key: one["metadata"]["base_scenario"] for key, one in prompts.items()}
    first: dict[str, str] = {}
    cluster = {base: base for base in bases.values()}

    def home(base: str) -> str:
        while cluster[base] != base:
            base = cluster[base]
        return base

    for key, one in sorted(prompts.items()):
        ends = sorted((home(first.setdefault(one["text"], bases[key])), home(bases[key])))
        cluster[ends[1]] = ends[0]
    runs = {}
    for run in every("runs"):
        key = (run["prompt_id"], run["dataset_version"])
        about = {"base": bases[key], "model": run["model"], "repeat": run["repeat"]}
        about |= {"cluster": home(bases[key]), "scenario": prompts[key].get("scenario")}
        about |= {"length_bin": run.get("prompt_length_bin"), "failure": run.get("failure")}
        about["aud_cost"] = (run.get("economics") or {}).get("aud_cost")
        about["output_tokens"] = (run.get("tokens") or {}).get("output")
        runs[run["run_id"]] = (about, set((run.get("judge_calls") or {}).values()))
    rows: Rows = []
    for said in every("judgements"):
        about, counting = runs.get(said["run_id"], ({}, set()))
        if said["call_id"] in counting:
            scores = said.get("scores") or {}
            who = {"judge": said["judge"], "judge_repeat": said.get("judge_repeat") or 0}
            about = {**about, **who, "failure": said.get("reason")}
            rows += [{**about, "dimension": name, "score": scores.get(name)} for name in DIMENSIONS]
    if not rows:
        raise InputError(f"{path}: no run of study {archive.study} is judged; there are no scores to analyse")
    notes = [f"study {archive.study}; its composite is the strict one here: a score of 0 counts"]
    return Read(_from_first(pd.DataFrame(rows)), "an archive of `toolkit export`", notes, scale=SCALE)


def _number(value: Any, name: str) -> float | None:
    """Return a score as a number; what a tool wrote in its own letters is counted as that tool counts it.

    Raises ``ValueError`` for a value that is there and is no number: to drop it would make it a missing one.
    """
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    number = None
    if isinstance(value, str):
        text = value.strip()
        number = _LETTERS.get(text, _WORDS.get(text.lower(), number_of(text)))
    elif isinstance(value, bool | int | float):
        number = float(value)
    if number is None or math.isinf(number):
        raise ValueError(f"the value of {name}, {one_line(repr(value), _SHOWN)}, is no number")
    return number


def _several(names: Iterable[object]) -> str:
    told = [str(name) for name in names]
    more = len(told) - _NAMED
    return ", ".join(told) if more <= 1 else f"{', '.join(told[:_NAMED])} and {more} more"


def _others(known: Iterable[str], taken: str, what: str) -> str:
    left = [name for name in known if name != taken]
    return f", and not {_several(left)} (--{what} NAME takes another)" if left else ""

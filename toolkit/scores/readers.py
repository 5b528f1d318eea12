"""Read scores that other tools wrote: tables, logs of inspect_ai, samples of lm-eval, results of promptfoo, archives.

A reader returns rows with our column names and says what it took for what; nothing is filled in, averaged or dropped
without a word. A score that a tool did not give is an empty one.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from toolkit.errors import InputError
from toolkit.files import read_json, read_rows
from toolkit.words import DIMENSIONS, SCALE

_LETTERS: Final = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Letters of inspect_ai: correct, incorrect, partially correct and no answer (``value_to_float`` of inspect_ai)."""
_WORDS: Final = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_ZSTD: Final = 93
"""Of the methods of compression that a zip knows."""
_COMPOSITES: Final = ("composite", "composite_strict")
_NAMED: Final = 4
_LARGEST: Final = 1 << 32
Rows = list[dict[str, Any]]


@dataclass
class Read:
    """Rows of a file, how they were understood, and what was left out of them; `tidy` where columns have our names."""

    rows: pd.DataFrame
    kind: str
    notes: list[str] = field(default_factory=list)
    tidy: bool = True
    scale: tuple[float, float] | None = None


def read_file(path: Path, metric: str | None = None) -> Read:
    """Read one file of scores by what is in it; an unknown kind is one line that names those that are known."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a table or a log of scores")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet(path)
    if suffix in (".csv", ".jsonl"):
        rows = [{"_line": line, **row} for line, row in read_rows(path)]
        if rows and suffix == ".jsonl" and {"doc_id", "doc"} <= rows[0].keys():
            return _lm_eval(path, rows, metric)
        return Read(pd.DataFrame(rows), "a table", tidy=False)
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
            return Read(pd.DataFrame(log), "a table", tidy=False)
    raise InputError(
        f"{path}: is no table of scores (.csv, .parquet, .jsonl), log of inspect_ai (.eval, .json), samples of lm-eval "
        "(samples_*.jsonl), results of promptfoo (.json) or archive of `toolkit export` (.zip)"
    )


def _parquet(path: Path) -> Read:
    try:
        return Read(pd.read_parquet(path), "a table", tidy=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error}); save it again") from None


def _lm_eval(path: Path, rows: Rows, metric: str | None) -> Read:
    """Return samples of lm-eval (``--log_samples``): one row a document, the task's first metric as its score."""
    task = path.stem.removeprefix("samples_").rpartition("_")[0] or path.stem
    filters = list(dict.fromkeys(row.get("filter") for row in rows))
    kept = [row for row in rows if row.get("filter") == filters[0]]
    known = _metrics(kept[0])
    if not known or (metric is not None and metric not in known):
        raise InputError(f"{path}: has no metric {metric or ''}; it has {', '.join(known) or 'none'}")
    taken = metric or known[0]
    found = [
        {"base": f"{task}/{row['doc_id']}", "model": _lm_eval_model(path), "score": _number(row.get(taken))}
        for row in kept
    ]
    return Read(
        pd.DataFrame(found),
        "samples of lm-eval",
        [
            f"score is the metric {taken}{_others(known, taken, 'metric')}",
            *([f"filter {filters[0]} taken, not {_several(filters[1:])}"] if filters[1:] else []),
        ],
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
            arguments = (about.get("config") or {}).get("model_args")
            named = arguments.get("pretrained") if isinstance(arguments, Mapping) else None
            return str(about.get("model_name") or named or path.parent.name)
    return path.parent.name or "model"


def _inspect_members(path: Path) -> tuple[Mapping[str, Any], Iterator[Mapping[str, Any]]]:
    """Return the head of a log that is a zip, and its samples one after the other."""
    try:
        with zipfile.ZipFile(path) as file:
            names = [name for name in file.namelist() if name.startswith("samples/")]
            if sum(file.getinfo(name).file_size for name in names) > _LARGEST:
                raise InputError(f"{path}: would unpack to more than {_LARGEST:,} bytes; split the log")
            head = "header.json" if "header.json" in file.namelist() else "_journal/start.json"
            start = json.loads(_member(path, file, head))
            samples = [_scores_only(json.loads(_member(path, file, name))) for name in sorted(names)]
    except (OSError, KeyError, ValueError, zlib.error, zipfile.BadZipFile, NotImplementedError) as error:
        raise InputError(f"{path}: is no whole log of inspect_ai ({error}); copy it again") from None
    return start["eval"], iter(samples)


def _member(path: Path, file: zipfile.ZipFile, name: str) -> bytes:
    """Return a member of a zip, of Zstandard too, which inspect_ai writes and zipfile of Python 3.11 cannot read."""
    about = file.getinfo(name)
    if about.compress_type != _ZSTD:
        return file.read(name)
    with path.open("rb") as raw:
        raw.seek(about.header_offset + 26)  # of the local header: lengths of the name and of what is extra
        lengths = int.from_bytes(raw.read(2), "little") + int.from_bytes(raw.read(2), "little")
        raw.seek(lengths, 1)
        content = pa.Codec("zstd").decompress(raw.read(about.compress_size), about.file_size, asbytes=True)
    if zlib.crc32(content) != about.CRC:
        raise zipfile.BadZipFile(f"bad CRC-32 of {name}")
    return bytes(content)


def _scores_only(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Keep of a sample what is read of it: its messages and events are most of a log."""
    return {name: sample.get(name) for name in ("id", "epoch", "scores", "error", "metadata")}


def _inspect(
    path: Path, about: Mapping[str, Any], samples: Iterable[Mapping[str, Any]], metric: str | None
) -> Read:
    """Return a log of inspect_ai: a scorer is a judge, an epoch a repeat, a key of a score a dimension."""
    task, model = str(about.get("task", path.stem)), str(about.get("model", "model"))
    read: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for sample in samples:
        where = {
            "base": f"{task}/{sample['id']}", "model": model, "repeat": int(sample.get("epoch") or 1) - 1,
            "failure": "error in the sample" if sample.get("error") else None,
            **_of_ours(sample.get("metadata")),
        }  # fmt: skip
        given = sample.get("scores") or {}
        values = {
            judge: one.get("value") if isinstance(one, Mapping) else one for judge, one in given.items()
        }
        read.append((where, values))
    scorers = list(dict.fromkeys(judge for _, values in read for judge in values))
    if metric is not None and metric not in scorers:
        raise InputError(f"{path}: has no scorer {metric}; it has {_several(scorers)}")
    if not scorers:
        raise InputError(f"{path}: no sample of this log has a score; score it first (inspect score)")
    parts = {judge: _parts_of(values.get(judge) for _, values in read) for judge in scorers}
    rows = [
        # A scorer that gave this sample no score has one that is missing, of each of its parts.
        {**where, "judge": judge, "dimension": name, "score": _number(_part(values.get(judge), name))}
        for where, values in read
        for judge in ([metric] if metric else scorers)
        for name in parts[judge]
    ]
    frame = pd.DataFrame(rows)
    if frame["dimension"].isna().all():
        frame = frame.drop(columns="dimension")
    elif frame["dimension"].isna().any():
        frame["dimension"] = frame["dimension"].fillna("score")
    notes = [f"task {task}; scorers as judges: {_several(scorers)}"] if len(scorers) > 1 else [f"task {task}"]
    if frame["score"].isin((0.0, 0.5, 1.0)).all():
        notes.append("C is 1, P .5, I and N 0, as inspect_ai counts them")
    ours = "run_id" in (read[0][0] if read else {})
    return Read(frame, "a log of inspect_ai", notes, scale=SCALE if ours else None)


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
    prompts = {one.get("promptIdx", 0) for one in listed}
    seen: Counter[tuple[Any, ...]] = Counter()
    rows: Rows = []
    for place, one in enumerate(listed):
        provider = one.get("provider") or {}
        name = provider.get("label") or provider.get("id") if isinstance(provider, Mapping) else provider
        model = f"{name}, prompt {one.get('promptIdx', 0) + 1}" if len(prompts) > 1 else str(name)
        key = (one.get("testIdx", place), model)
        failed = one.get("score") is None or bool(one.get("error") and not one.get("gradingResult"))
        rows.append(
            {
                "base": f"test {key[0]}", "model": model, "repeat": seen[key],
                "score": None if failed else _number(one["score"]),
                "failure": "error of the provider" if failed else None,
            }
        )  # fmt: skip
        seen[key] += 1
    notes = ["costs of promptfoo are in USD and were not taken"]
    if len(prompts) > 1:
        notes.append(f"{len(prompts)} prompts: each with its provider is a model")
    return Read(pd.DataFrame(rows), "results of promptfoo", notes)


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
    return Read(pd.DataFrame(rows), "an archive of `toolkit export`", notes, scale=SCALE)


def _number(value: Any) -> float | None:
    """Return a score as a number; what a tool wrote in its own letters is counted as that tool counts it."""
    if isinstance(value, str):
        text = value.strip()
        told = _LETTERS.get(text, _WORDS.get(text.lower()))
        if told is not None:
            return told
        try:
            return float(text)
        except ValueError:
            return None
    return float(value) if isinstance(value, bool | int | float) else None


def _several(names: Iterable[object]) -> str:
    told = [str(name) for name in names]
    more = len(told) - _NAMED
    return ", ".join(told) if more <= 1 else f"{', '.join(told[:_NAMED])} and {more} more"


def _others(known: Iterable[str], taken: str, what: str) -> str:
    left = [name for name in known if name != taken]
    return f", and not {_several(left)} (--{what} NAME takes another)" if left else ""

"""Everything a study found as files: tidy frames, data dictionary, archive, logs of inspect_ai, RO-Crate 1.1 with sums.

Nothing in the crate is of the clock or the machine: the same files of the same study are the same bytes, wherever and
whenever they are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pandas as pd

from toolkit.errors import InputError
from toolkit.files import opened_atomically, sha256_of, write_atomically
from toolkit.plan import STORE
from toolkit.store.archive import add_archive, check_archive, write_archive
from toolkit.store.connection import open_store
from toolkit.store.frame_files import FORMATS, KINDS, dictionary_text, save_frame
from toolkit.words import DIMENSIONS, SCORE, Summary

if TYPE_CHECKING:
    from toolkit.study import Study

ONE_SHOT_ONLY: Final = ("experiments", "methods")
ARCHIVE: Final = "archive.zip"
_CRATE: Final = "ro-crate-metadata.json"
_SUMS: Final = "sha256sums.txt"
_PROFILE: Final = "https://w3id.org/ro/crate/1.1"
# The context of RO-Crate 1.1 is older than this term of schema.org.
_CONTEXT: Final = [f"{_PROFILE}/context", {"sha256": "https://schema.org/sha256"}]
_TYPES: Final[Mapping[str, str]] = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".zip": "application/zip",
    ".md": "text/markdown",
    ".json": "application/json",
}
_NO_LICENCE: Final = {
    "@id": "#no-licence",
    "@type": "CreativeWork",
    "name": "No licence given",
    "description": "Those who made the study have named no licence for its data; ask them before it is used.",
}
_LINE: Final = re.compile(r"([0-9a-f]{64})  ([^/\\]+)")
_STOPS: Final = {
    **{"stop": "stop", "length": "max_tokens", "tool": "tool_calls"},
    **dict.fromkeys(("filter", "refusal"), "content_filter"),
}
_METADATA: Final = (
    *("run_id", "base", "cluster", "scenario", "length_bin", "length_arm", "aud_cost", "output_tokens"),
)


def export_study(study: Study, folder: Path | str) -> Summary:
    """Write every frame and all records of a study into a folder, as an RO-Crate with the SHA-256 of its files."""
    out = Path(folder)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; name a folder to export study {study.name} into")
    calls = study.calls()
    # First: where nothing was asked it says so, before there is a folder full of empty tables.
    write_archive(study.store, study.name, out / ARCHIVE, call_ids=calls["call_id"])
    published = f"{calls['created_at'].max():%Y-%m-%d}"
    del calls
    scheme = study.plan.rubric.scheme
    paths, rows = [out / ARCHIVE], {}
    for kind in KINDS:
        if kind in ONE_SHOT_ONLY and study.plan.test.name != "one_shot":
            continue
        if kind == "pairs" and not study.plan.compared:
            continue
        frame = getattr(study, kind)()  # one after the other, so that one is in memory
        rows[kind] = len(frame)
        paths += [save_frame(frame, out / f"{kind}{suffix}", kind, scheme) for suffix in FORMATS]
    if study.plan.test.judged:
        texts = {prompt.prompt_id: prompt.text for _, prompt in study.plan.runs.prompts}
        frames = study.runs(replies=True), study.judgements(), texts
        paths += write_inspect_logs(out, study.name, study.plan.dataset.version, *frames)
    paths.append(write_atomically(out / "data_dictionary.md", dictionary_text(scheme).encode()))
    text = json.dumps({**study.manifest(), "rows": rows}, indent=1, ensure_ascii=False, default=str)
    paths.append(write_atomically(out / "manifest.json", f"{text}\n".encode()))
    version = study.plan.dataset.version
    description = f"Runs, judgements and calls of study {study.name}, dataset {version}. {study.note}"
    dataset = {"name": study.name, "description": description.strip(), "datePublished": published}
    paths += write_crate(out, paths, dataset, study.file.license)
    lines = [f"{count:>8} {kind}" for kind, count in rows.items()]
    fields: dict[str, Any] = {"study": study.name, "rows": rows, "files": [str(path) for path in paths]}
    return Summary(fields, "\n".join([*lines, f"{len(paths)} files in {out}"]))


def import_archive(archive: Path | str, results: Path | str) -> Summary:
    """Add the records of an archive to the store of a results folder, unless it contradicts them; twice is once."""
    checked = check_archive(Path(archive))  # first: a bad one leaves no store behind
    folder = Path(results)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name the results folder to import study {checked.study} into")
    store = open_store(folder / STORE)
    try:
        imported = add_archive(store, checked)
    finally:
        store.close()
    counts = {name: dict(getattr(imported, name)) for name in ("added", "updated", "known")}
    text, database = imported.sentence(), store.name
    if store.folder is None:
        text += f"\nin the database {database} of MONGODB_URI, and not in {folder}"
    return Summary({"study": imported.study, **counts, "database": None if store.folder else database}, text)


def write_crate(
    folder: Path, files: Sequence[Path], dataset: Mapping[str, str], licence: str | None
) -> list[Path]:
    """Write metadata about the files of an exported folder, then the sums of all of them, and return both paths.

    ``dataset`` describes the root dataset: name, description, and datePublished, which is no day of the clock.
    """
    sums = {path.name: sha256_of(path) for path in files}
    terms = _NO_LICENCE
    if licence:
        link = licence if "://" in licence else f"https://spdx.org/licenses/{licence}"
        terms = {"@id": link, "@type": "CreativeWork", "name": licence, "description": f"Licence: {licence}"}
    parts = {"license": {"@id": terms["@id"]}, "hasPart": [{"@id": path.name} for path in files]}
    root = {"@id": "./", "@type": "Dataset", **dataset, **parts}
    itself = {"@id": _CRATE, "@type": "CreativeWork", "conformsTo": {"@id": _PROFILE}, "about": {"@id": "./"}}
    entities = [
        {
            **{"@id": path.name, "@type": "File", "name": path.name, "sha256": sums[path.name]},
            **{"encodingFormat": _TYPES[path.suffix], "contentSize": str(path.stat().st_size)},
        }
        for path in files
    ]
    graph = [itself, root, terms, *entities]
    text = json.dumps({"@context": _CONTEXT, "@graph": graph}, indent=1, ensure_ascii=False)
    metadata = write_atomically(folder / _CRATE, f"{text}\n".encode())
    lines = sorted(f"{digest}  {name}\n" for name, digest in {**sums, _CRATE: sha256_of(metadata)}.items())
    return [metadata, write_atomically(folder / _SUMS, "".join(lines).encode())]


def differing_export(folder: Path) -> Iterator[str]:
    """Yield a line for every file of an exported folder that is not what its sums say, or is not among them."""
    try:
        lines = (folder / _SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        message = f"{folder}: holds no {_SUMS} of `toolkit export`; name a folder that it wrote"
        raise InputError(message) from None
    sums: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if match := _LINE.fullmatch(line):
            sums[match[2]] = match[1]
        else:
            yield f"{_SUMS}: line {number} was changed after the export was written"
    existing = {path.name for path in folder.iterdir()}
    for name in sorted({*sums, *existing} - {_SUMS}):
        if name not in sums:
            yield f"{name}: is no file of the export"
        elif not (folder / name).is_file():
            yield f"{name}: is missing"
        elif sha256_of(folder / name) != sums[name]:
            yield f"{name}: does not have its sum, so it or its line in {_SUMS} was changed"


def write_inspect_logs(
    folder: Path,
    study: str,
    dataset: str,
    runs: pd.DataFrame,
    judgements: pd.DataFrame,
    prompts: Mapping[str, str],
) -> list[Path]:
    """Write a log for each model: a judge is a scorer, a dimension a value of its score, a repeat an epoch.

    ``runs`` have their replies. A judgement that failed is no score of the sample. Means are taken over epochs first,
    as inspect_ai takes them.
    """
    paths = []
    by_run = {str(run_id): rows for run_id, rows in judgements.groupby("run_id", sort=False)}
    for number, (model, samples) in enumerate(runs.groupby("model", sort=True)):
        plain = re.sub("[^0-9A-Za-z]", "-", str(model))
        path = folder / f"inspect-{number + 1:02d}-{plain[:60]}.json"
        with opened_atomically(path) as stream:
            head = json.dumps(_head(study, dataset, str(model), samples, judgements), ensure_ascii=False)
            stream.write(head[:-1].encode() + b', "samples": [')
            for position, row in enumerate(samples.to_dict("records")):
                run, prompt = cast("Mapping[str, Any]", row), prompts.get(row["prompt_id"], "")
                sample = _sample(run, prompt, by_run.get(row["run_id"]))
                text = json.dumps(sample, ensure_ascii=False, allow_nan=False)
                stream.write(b",\n" * (position > 0) + text.encode("utf-8", "surrogatepass"))
            stream.write(b"]}\n")
        paths.append(path)
    return paths


def _head(
    study: str, dataset: str, model: str, runs: pd.DataFrame, judgements: pd.DataFrame
) -> dict[str, Any]:
    moments = [moment.isoformat() for moment in runs["created_at"].dropna()]
    times = sorted(moments) or ["1970-01-01T00:00:00+00:00"]
    name = model if "/" in model else f"{study}/{model}"
    ids = list(dict.fromkeys(runs["prompt_id"]))
    arguments = {"scale": list(judgements.attrs["scale"])} if "scale" in judgements.attrs else {}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": f"{study}-{model}", "run_id": study, "created": times[0], "task": study, "task_id": study,
            "task_version": 0, "task_attribs": {}, "task_args": arguments, "model": name, "model_args": {},
            "config": {},
            "dataset": {"name": dataset, "samples": len(ids), "sample_ids": ids, "shuffled": False}, "packages": {},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": len(runs),
            "completed_samples": int((runs["status"] == "succeeded").sum()),
            "scores": list(_means(runs, judgements)),
        },
        "stats": {"started_at": times[0], "completed_at": times[-1], "model_usage": {name: _usage(runs)}},
    }  # fmt: skip


def _means(runs: pd.DataFrame, judgements: pd.DataFrame) -> Iterator[dict[str, Any]]:
    scored = judgements[judgements["run_id"].isin(runs["run_id"])]
    for judge, rows in scored.groupby("judge", observed=True, sort=True):
        values = [name for name in _values(rows) if rows[name].notna().any()]
        once = rows.groupby(["prompt_id", "repeat"])[values].mean().groupby("prompt_id").mean()
        for name in values:
            mean = {"name": "mean", "value": float(once[name].mean()), "params": {}}
            yield {"name": name, "scorer": str(judge), "params": {}, "metrics": {"mean": mean}}


def _values(judgements: pd.DataFrame) -> list[str]:
    return [*judgements.attrs.get("dimensions", DIMENSIONS), "composite", SCORE]


def _usage(rows: pd.DataFrame | Mapping[str, Any]) -> dict[str, int]:
    usage = {}
    for name in ("input_tokens", "output_tokens", "total_tokens"):
        value = rows[name].fillna(0).sum() if isinstance(rows, pd.DataFrame) else rows[name]
        usage[name] = 0 if pd.isna(value) else int(value)
    return usage


def _sample(run: Mapping[str, Any], prompt: str, judgements: pd.DataFrame | None) -> dict[str, Any]:
    reply = None if pd.isna(run["reply"]) else run["reply"]
    failure = None if pd.isna(run["failure"]) else str(run["failure"])
    prompt_message = {"role": "user", "content": prompt, "source": "input"}
    reply_message = {"role": "assistant", "content": reply or "", "source": "generate", "model": run["model"]}
    choice = {"message": reply_message, "stop_reason": _STOPS.get(str(run["finish_reason"]), "unknown")}
    sample: dict[str, Any] = {
        "id": run["prompt_id"], "epoch": int(run["repeat"]) + 1, "input": prompt, "target": "",
        "messages": [prompt_message, reply_message] if reply is not None else [prompt_message],
        "output": {"model": run["model"], "choices": [choice] if reply is not None else [], "usage": _usage(run)},
        "scores": _scores(judgements) if judgements is not None else {},
        "metadata": {name: _plain(run[name]) for name in _METADATA}, "store": {}, "events": [], "model_usage": {},
        "attachments": {},
    }  # fmt: skip
    if failure is not None and run["status"] == "failed":
        sample["error"] = {"message": failure, "traceback": "", "traceback_ansi": ""}
    return sample


def _scores(judgements: pd.DataFrame) -> dict[str, Any]:
    """Return the scores of each judge, the mean over its repeats; its explanation is that of its first."""
    scores = {}
    for judge, rows in judgements.groupby("judge", observed=True, sort=True):
        means = rows[_values(rows)].mean()
        if means.notna().any():
            values = {name: float(value) for name, value in means.items() if pd.notna(value)}
            explanation = next(iter(rows["reasons"].dropna()), None) or None
            scores[str(judge)] = {"value": values, "answer": None, "explanation": explanation, "metadata": {}}
    return scores


def _plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value

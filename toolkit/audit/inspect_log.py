"""A study's runs and judgements as logs of inspect_ai, one a model, which `inspect view` opens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import pandas as pd

from toolkit.files import opened_atomically
from toolkit.words import DIMENSIONS

_STOPS: Final = {
    "stop": "stop",
    "length": "max_tokens",
    "filter": "content_filter",
    "refusal": "content_filter",
    "tool": "tool_calls",
}
_VALUES: Final = (*DIMENSIONS, "composite", "composite_strict")
_METADATA: Final = ("run_id", "base", "cluster", "scenario", "length_bin", "aud_cost", "output_tokens")


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
        path = folder / f"{_file_name(number, str(model))}.json"
        with opened_atomically(path) as stream:
            head = json.dumps(_head(study, dataset, str(model), samples, judgements), ensure_ascii=False)
            stream.write(head[:-1].encode() + b', "samples": [')
            for position, row in enumerate(samples.to_dict("records")):
                sample = _sample(
                    cast("Mapping[str, Any]", row),
                    prompts.get(row["prompt_id"], ""),
                    by_run.get(row["run_id"]),
                )
                text = json.dumps(sample, ensure_ascii=False, allow_nan=False)
                stream.write(b",\n" * (position > 0) + text.encode("utf-8", "surrogatepass"))
            stream.write(b"]}\n")
        paths.append(path)
    return paths


def _file_name(number: int, model: str) -> str:
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in model)
    return f"inspect-{number + 1:02d}-{plain[:60]}"


def _head(
    study: str, dataset: str, model: str, runs: pd.DataFrame, judgements: pd.DataFrame
) -> dict[str, Any]:
    times = sorted(moment.isoformat() for moment in runs["created_at"].dropna()) or [
        "1970-01-01T00:00:00+00:00"
    ]
    name = f"{model}" if "/" in model else f"{study}/{model}"
    ids = list(dict.fromkeys(runs["prompt_id"]))
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": f"{study}-{model}", "run_id": study, "created": times[0], "task": study, "task_id": study,
            "task_version": 0, "task_attribs": {}, "task_args": {}, "model": name, "model_args": {}, "config": {},
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
        values = [name for name in _VALUES if rows[name].notna().any()]
        once = rows.groupby(["prompt_id", "repeat"])[values].mean().groupby("prompt_id").mean()
        for name in values:
            mean = {"name": "mean", "value": float(once[name].mean()), "params": {}}
            yield {"name": name, "scorer": str(judge), "params": {}, "metrics": {"mean": mean}}


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
        means = rows[list(_VALUES)].mean()
        if means.notna().any():
            written_by = rows["reasons"].dropna()
            explanation = "\n\n".join(written_by.head(1))
            values = {name: float(value) for name, value in means.items() if pd.notna(value)}
            scores[str(judge)] = {
                "value": values,
                "answer": None,
                "explanation": explanation or None,
                "metadata": {},
            }
    return scores


def _plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value

"""Results of promptfoo as rows: which are repeats of one test, and which scores are none because something failed."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from toolkit.errors import InputError
from toolkit.files import sha256_hex
from toolkit.scores.fields import (
    CUT,
    Json,
    Read,
    Rows,
    checked_count,
    checked_name,
    json_text,
    mapping,
    parse_score,
    reading,
    several_names,
    table,
)
from toolkit.words import one_line

_GRADER = re.compile(
    r"Could not extract JSON|Could not perform remote grading|Error parsing output|API (call )?error|No output$"
    r"|LLM-proposed evaluation|LLM does not propose|G-Eval (steps|result|evaluation)|[\w-]+ produced malformed response"
    r"|No embedding|Embedding not found|Invalid similarity|Unknown error fetching|Custom function threw error"
    r"|(Python|Ruby) code execution failed|Failed to parse grading|Grading provider"
)
"""Reasons by which promptfoo says that a grader failed; since 2025 it sets ``graderError`` besides."""
EXPORT = "export it as JSON: promptfoo export eval ID -o FILE.json (promptfoo list evals has the IDs)"
_PROVIDER_FAILED = 2
"""``failureReason`` of promptfoo: 0 none, 1 an assertion, 2 an error."""
_PROMPT = 40
"""Signs of the label of a prompt that is shown; a longer one is its text."""


def read_promptfoo(path: Path, results: Any, metric: str | None) -> Read:
    """Return results of promptfoo: a test is an item, a provider a model, and each of its prompts another model.

    ``testIdx`` counts repeats and ``promptIdx`` prompts times providers: a test is told by its variables.
    """
    listed = results.get("results") if isinstance(results, Mapping) else results
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{path}: holds no results of promptfoo; {EXPORT}")
    names = dict.fromkeys(name for result in listed for name in mapping(mapping(result).get("namedScores")))
    if metric is not None and metric not in names:
        raise InputError(f"{path}: has no metric {metric}; it has {several_names(names) or 'none'}")
    rows = []
    prompts: dict[str, dict[tuple[Any, Any], int]] = {}
    for number, result in enumerate(listed, 1):
        with reading(path, f", result {number}", "be read as promptfoo writes it"):
            for index in ("testIdx", "promptIdx"):
                checked_count(table(result, "the result").get(index) or 0, index)
            provider = result.get("provider")
            label = provider.get("label") or provider.get("id") if isinstance(provider, Mapping) else provider
            prompt = result.get("prompt")
            named = prompt.get("label") or prompt.get("display") if isinstance(prompt, Mapping) else None
            key = (named, result.get("promptIdx"))
            failure = _failure(result)
            value = result["score"] if metric is None else mapping(result.get("namedScores")).get(metric)
            row = {
                "model": checked_name(label, "provider"),
                "test": _test_key(result),
                "prompt": key,
                "score": None if failure else parse_score(value, metric or "score"),
                "failure": failure,
                "index": result.get("testIdx"),
            }
            prompts.setdefault(row["model"], {}).setdefault(key, len(prompts[row["model"]]) + 1)
        rows.append(row)
    _name_tests(rows)
    repeats = defaultdict[Any, Iterator[int]](count)
    for row in sorted(rows, key=lambda row: row["index"] or 0):
        several = prompts[row["model"]]
        if len(several) > 1:
            labels = [named for named, _ in several]
            short = len({*labels}) == len(labels) and all(
                isinstance(name, str) and len(name) <= _PROMPT for name in labels
            )
            row["model"] += f", {row['prompt'][0]}" if short else f", prompt {several[row['prompt']]}"
        row["repeat"] = next(repeats[row["base"], row["model"]])
    notes = ["costs of promptfoo are in USD and were not taken"]
    if (most := max(map(len, prompts.values()))) > 1:
        notes.append(f"{most} prompts: each with its provider is a model")
    if last := max(row["repeat"] for row in rows):
        notes.append(
            f"tests with the same variables are repeats of one item: up to {last + 1} an item and model"
        )
    if graders := sum(1 for row in rows if row["failure"] and row["failure"].startswith("the grader")):
        notes.append(f"{graders} of {len(rows)} scores are missing because their grader failed")
    columns = ["base", "model", "repeat", "score", "failure"]
    frame = pd.DataFrame(rows, index=range(1, len(rows) + 1), columns=columns)
    return Read(frame, "results of promptfoo", notes, unit="result")


def is_promptfoo_table(header: Collection[str]) -> bool:
    """Return whether a table is promptfoo's own: a column of replies is called [provider] prompt."""
    return any(re.match(r"\[[^\]]+\] \S", name) for name in header)


def _test_key(result: Json) -> tuple[str, str]:
    """Return what tells a test from others and its variables as text; both are empty where nothing tells it."""
    case = mapping(result.get("testCase"))
    variables = {
        name: value
        for name, value in (mapping(result.get("vars")) or mapping(case.get("vars"))).items()
        if not name.startswith("_") and name != "sessionId"  # promptfoo fills them anew in each repeat
    }
    identity = [variables, case.get("description"), case.get("assert")]
    texts = [
        json_text(value) if len(variables) == 1 else f"{name}={json_text(value)}"
        for name, value in variables.items()
    ]
    return json.dumps(identity, sort_keys=True) if any(identity) else "", ", ".join(texts)


def _name_tests(rows: Rows) -> None:
    """Name the item of each row by the variables of its test; a mark is added where that is no name of its own."""
    names = defaultdict(set)
    for row in rows:
        key, text = row["test"]
        names[one_line(text, 60)].add(key)
    orders = defaultdict[Any, Iterator[int]](count)
    for row in rows:
        key, text = row["test"]
        name = one_line(text, 60)
        if not key:  # nothing tells tests apart but their order
            order = next(orders[row["model"], row["prompt"]])
            name = f"test {order if row['index'] is None else row['index']}"
        elif not name or name != text or len(names[name]) > 1:
            name = f"{name or 'test'} [{sha256_hex(key)[:8]}]"
        row["base"] = name


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

"""What a study decided before its first reply, kept with its time, and what was changed after it."""

import contextlib
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from toolkit.errors import InputError, PriceError
from toolkit.files.digests import sha256_hex, sha256_of
from toolkit.files.reading import read_toml
from toolkit.judges.judgement import judgement_requests
from toolkit.judges.pairs import pair_request
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.models.prices import price_of
from toolkit.models.weights import find_weights
from toolkit.plan import Plan
from toolkit.store.connection import Store
from toolkit.store.documents import Call, Decision, Run
from toolkit.store.writer import Duplicate
from toolkit.words import JUDGE_ROLES, counted

_TABLE = read_toml(resources.files("toolkit.runs") / "decisions.toml")
_NOTHING = "none"
_PLANNED = "planned"  # stands before what became of runs by the rules
_UNKNOWN = "not on this machine"
_PRICE = "price"
_WHOLE, _PIECE, _PIECES = 1_000_000_000, 1_000_000, 64
COLUMNS = ("at", "what", "before", "after")


@dataclass(frozen=True)
class Decisions:
    """What was decided before the first reply, when, and what differs from it since; None where nothing was kept."""

    content: Mapping[str, str]
    at: datetime | None
    changes: pd.DataFrame

    @property
    def unchanged(self) -> bool:
        """Whether all is as decided; what the rules leave out is."""
        return bool((self.changes["before"] == _PLANNED).all())

    def sentences(self) -> list[str]:
        """Return each change as a sentence without its full stop."""
        sentences = []
        for moment, what, before, after in self.changes.itertuples(index=False):
            if before == _PLANNED:
                sentences.append(f"{what[:1].upper()}{what[1:]}: {after}")
                continue
            when = "In the study file as it is now"
            if pd.notna(moment):
                when = f"On {moment:%Y-%m-%d %H:%M} UTC"
            sentences.append(f"{when} {what} was changed from {before} to {after}")
        return sentences


def decided(plan: Plan) -> dict[str, str]:
    """Return what a plan decides beforehand, as flat text; it holds no key and no path of the machine."""
    study = plan.study
    judges = study.judges.model_dump(mode="json", exclude=set(JUDGE_ROLES))
    judges["rubric"] = plan.rubric.name
    for role, spec in plan.judge_models.items():
        judges[role] = f"{spec.provider}:{spec.model}"
    content = study.model_dump(mode="json", exclude={*_TABLE["not_decided"]}) | {
        "dataset": plan.dataset.version,
        "dataset_sha256": plan.dataset.digest,
        "rubric_sha256": plan.rubric.digest,
        "models": {name: f"{spec.provider}:{spec.model}" for name, spec in plan.models.items()},
        "judges": judges,
        "specializations": {role: judge.specialization for role, judge in study.judges.by_role().items()},
    }
    if study.selection == "all":  # an adaptive one decides by its rule how many
        content["planned_bases"] = len(bases_of(plan))
    specs = dict(plan.models)
    specs |= {f"judge {role}": spec for role, spec in plan.judge_models.items()}
    for name, spec in specs.items():
        for fact, text in _served(spec).items():
            content.setdefault(fact, {})[name] = text
    if plan.judges:
        content["judge_prompt_sha256"] = _judge_prompt(plan)
    return dict(sorted(_flat(content)))


def _served(spec: ModelSpec) -> dict[str, str]:
    """Return what answers for a model besides its name, in a form that holds no secret and no folder."""
    script = repr((spec.replies, spec.planted)) if spec.provider == "scripted" else ""
    flags = {"sampling": spec.takes_sampling, "seed": spec.seed_supported, "schema": spec.structured}
    sent = [name for name, is_sent in flags.items() if is_sent]
    if spec.options:
        sent.append(spec.options)
    address = ""
    if spec.base_url:  # its host, and a hash of all of it: a path or a query may hold a key
        parts = urlsplit(spec.base_url)
        port = f":{parts.port}" if parts.port else ""
        address = f"{parts.scheme}://{parts.hostname}{port} (SHA-256 {sha256_hex(spec.base_url)[:12]})"
    try:
        price = price_of(spec)
        usd = f"{price.usd_per_million_input:g} / {price.usd_per_million_output:g} USD"
        cost = f"{usd} per million tokens, {price.aud_per_usd:g} AUD per USD"
    except PriceError:
        cost = ""
    return {
        "address": address,
        "weights": _weights(spec) if spec.provider == "local" else "",
        "script": sha256_hex(script) if script else "",
        "request": ", ".join(sent) or "plain",
        _PRICE: cost,
    }


def _weights(spec: ModelSpec) -> str:
    try:
        path = spec.gguf or find_weights()
        about = path.stat()
        digest = _file_digest(path, about.st_size, about.st_mtime_ns)
    except (OSError, InputError):
        return _UNKNOWN
    return f"{path.name}, {about.st_size} bytes, SHA-256 {digest}"


@lru_cache(maxsize=64)
def _file_digest(path: Path, size: int, changed_ns: int) -> str:
    """Return the SHA-256 of a file; of one above 1 GB, which takes minutes to read, that of 64 pieces of 1 MB."""
    if size <= _WHOLE:
        return sha256_of(path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for piece in range(_PIECES):
            file.seek(piece * (size - _PIECE) // (_PIECES - 1))
            digest.update(file.read(_PIECE))
    return f"{digest.hexdigest()} of {_PIECES} pieces"


def _judge_prompt(plan: Plan) -> str:
    """Return the hash of all that a judge is told of a short reply: the rubric's words and those of the toolkit."""
    judge = JudgeSpec("primary", "judge", "scripted", "judge", seed=0, structured=True)
    requests: list[ModelRequest] = []
    if plan.scored or not plan.compared:
        requests += judgement_requests(
            judge, plan.rubric, task="Task.", response="Reply.", manner=plan.manner
        )
    if plan.compared:
        requests.append(pair_request(judge, plan.rubric, "Task.", "Reply.", "Reply."))
    return sha256_hex(repr([(request.messages, request.response_schema) for request in requests]))


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif value not in (None, "", [], ()):
            yield before + name, value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def bases_of(plan: Plan) -> set[str]:
    """Return the bases that a plan asks."""
    planned = {prompt.prompt_id for _, prompt in plan.runs.prompts}
    return {prompt.base for prompt in plan.dataset.prompts if prompt.prompt_id in planned}


def digest_of(content: Mapping[str, str]) -> str:
    """Return the SHA-256 of what was decided; what providers ask for it is no part of that."""
    without_prices = {key: value for key, value in content.items() if not key.startswith(f"{_PRICE}.")}
    return sha256_hex(json.dumps(without_prices, sort_keys=True))


def keep_decision(plan: Plan, store: Store) -> None:
    """Keep what a plan decides where it differs from the last one, before anything is asked; nothing is overwritten."""
    content, study = decided(plan), plan.study.name
    last = history[-1] if (history := _history(store, study)) else None
    if last and json.loads(last["content"]) == content:
        return
    # The ledger, which is written first: after a kill it may know a reply of which no run says anything yet. A run
    # rests on a call of another study where that has paid for it.
    replied = store.has(Call, {"study": study, "purpose": "run", "state": "done"})
    replied = replied or store.has(Run, {"study": study, "status": "succeeded"})
    # After the one before it, whatever the clock says; two processes that decide the same at once write it once.
    now = datetime.now(UTC)
    at = max(now, last["at"] + timedelta(milliseconds=1)) if last else now
    name = sha256_hex(
        "\n".join([study, digest_of(content), json.dumps(content), last["_id"] if last else ""])
    )
    entry = {"_id": name, "study": study, "at": at, "replied": replied}
    entry["content"] = json.dumps(content, sort_keys=True)
    with contextlib.suppress(Duplicate):
        store.insert(Decision, entry)


def _history(store: Store, study: str) -> list[dict[str, Any]]:
    return sorted(store.each_where(Decision, {"study": study}), key=lambda entry: entry["at"])


def decisions_of(plan: Plan, store: Store) -> Decisions:
    """Return what a study decided last before its first reply, and every change since, with its time."""
    entries = _history(store, plan.study.name)
    before = [entry for entry in entries if not entry["replied"]]
    if not before:
        return Decisions({}, None, pd.DataFrame(columns=list(COLUMNS)))
    first = json.loads(before[-1]["content"])
    later = [(entry["at"], json.loads(entry["content"])) for entry in entries if entry["replied"]]
    rows: list[tuple[Any, ...]] = []
    state = dict(first)
    for at, content in [*later, (pd.NaT, decided(plan))]:
        for key in sorted({*state, *content}):
            was, now = state.get(key, _NOTHING), content.get(key, _NOTHING)
            if now == _UNKNOWN:
                continue
            if was not in (now, _UNKNOWN):
                rows.append((at, _TABLE["words"].get(key, key.replace(".", " ").replace("_", " ")), was, now))
            state[key] = now
    rows += [*_left_out(plan, store), *_paid_by_others(plan, store)]
    return Decisions(first, before[-1]["at"], pd.DataFrame(rows, columns=list(COLUMNS)))


def _left_out(plan: Plan, store: Store) -> Iterator[tuple[Any, ...]]:
    fields = ("call_id", "model", "status", "defect", "reply_policy")
    runs = store.find_where(Run, {"study": plan.study.name}, only=fields)
    planned = set(plan.call_ids)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for run in runs:
        if run["call_id"] not in planned:
            # An adaptive study asks what its rule chooses; what it asked counts as long as it is in the dataset.
            if run["status"] == "succeeded" and plan.study.selection != "adaptive":
                groups["", ""].append(run["model"])
        elif run["status"] == "failed":
            groups["failed", ""].append(run["model"])
        elif (defect := run.get("defect")) and run["reply_policy"] != "keep":
            groups[defect, run["reply_policy"]].append(run["model"])
    for (defect, policy), models in sorted(groups.items()):
        by_model = ", ".join(f"{number} of {model}" for model, number in sorted(Counter(models).items()))
        number = f"{counted(len(models), 'runs')} ({by_model})"
        if not defect:
            yield pd.NaT, "answered runs that count", "all", f"all but {number}"
        elif defect == "failed":
            yield pd.NaT, "failed runs", _PLANNED, f"{number} left out, as a run without a reply has no score"
        else:
            rule = f"{number} left out by replies.{defect} = {policy}"
            yield pd.NaT, f"{defect.replace('_', ' ')} replies", _PLANNED, rule


def _paid_by_others(plan: Plan, store: Store) -> Iterator[tuple[Any, ...]]:
    """Return how many replies each other study has paid for: they may have been known before this one was decided."""
    fields = ("study", "updated_at")
    calls = store.find_by(Call, "_id", plan.call_ids, only=fields, query={"state": "done"})
    for study in sorted({call["study"] for call in calls} - {plan.study.name}):
        moments = [call["updated_at"] for call in calls if call["study"] == study]
        number, first = counted(len(moments), "replies"), f"{min(moments):%Y-%m-%d %H:%M} UTC"
        by = f"{number} of {len(plan.call_ids)} paid for by study {study}, the first on {first}"
        yield min(moments), "replies of another study", _PLANNED, by

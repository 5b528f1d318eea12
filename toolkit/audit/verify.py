"""Verify a study: compare its runs, judgements, figures and bundle with what its ledger gives."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.audit.consistency import contradictions
from toolkit.errors import InputError
from toolkit.pipeline import run_plan
from toolkit.plan import STORE, Plan
from toolkit.probes.drift import changed_drifts
from toolkit.report.manifest import MANIFEST, differing_files
from toolkit.report.show import NothingToShow
from toolkit.store import documents, embedded
from toolkit.store.connection import Store, windows
from toolkit.store.records import (
    EVALUATION,
    MOMENTS,
    Kept,
    evaluation_fields,
    judgement_of,
    kept_documents,
    reply_texts,
    stored_run,
    stored_runs,
)
from toolkit.store.votes import stored_votes
from toolkit.store.writer import differing, is_as_sealed
from toolkit.words import Summary, counted, one_line

if TYPE_CHECKING:
    from toolkit.study import Study

_KINDS: Final = ("figures", "tables", "statistics")
_BUNDLE: Final = "bundle"
_Document = Mapping[str, Any]
_Judged = tuple[_Document, Mapping[str, _Document]]  # a run and the judgements of it that count, by label
_ABSENT: Final[_Judged] = ({}, {})
_Calls = Callable[[], set[str]]


def verify_study(study: Study) -> Summary:
    """Make a study again from its ledger in a store of its own, and compare everything that is stored with it.

    Nobody is asked and nothing is changed. The ledger is compared with itself, figures and tables are drawn again and
    compared byte by byte, and a bundle also with the SHA-256 of its manifest.
    """
    runs, judgements = _counts_of(study.store, study.name, study.plan.call_ids)
    if not runs:
        message = "has no run in its store, so there is nothing to verify; run it first"
        raise InputError(f"study {study.name}: {message}")
    differences = record_differences(study)
    with tempfile.TemporaryDirectory() as folder:
        try:
            differences += _figures(study, Path(folder))
        except Exception as error:
            if not differences:
                raise
            # Of a store that is not what its ledger gives there may be nothing to draw.
            reason = one_line(str(error), 200)
            differences.append(f"figures and tables cannot be made of this store ({reason})")
    files = sum(len(_files(folder)) for folder in _output_folders(study))
    bundle = study.output / _BUNDLE
    has_bundle = (bundle / MANIFEST).is_file()
    if has_bundle:
        differences += [f"{_BUNDLE}/{line}" for line in differing_files(bundle)]
        inputs = _differing_inputs(study, bundle / MANIFEST)
        differences += [f"{_BUNDLE}/{MANIFEST}: {line}" for line in inputs]
    compared = f"{runs} runs and {judgements} judgements"
    compared += f", {counted(len(study.pairs()), 'votes')}" if study.plan.pairs else ""
    compared += f", {files} files of figures and tables" if files else ", no figures there"
    compared += ", and the bundle" if has_bundle else ""
    verdict = counted(len(differences), "differences") if differences else "all as the ledger gives"
    fields = {
        "study": study.name,
        "runs": runs,
        "judgements": judgements,
        "files": files,
        "differences": differences,
        "agrees": not differences,
    }
    text = "\n".join([*differences, f"study {study.name}: {compared}: {verdict}"])
    return Summary(fields, text, 1 if differences else 0)


def record_differences(study: Study) -> list[str]:
    """Return a line for all in the store of a study that its ledger does not give, or that contradicts itself."""
    plan, store = study.plan, study.store
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / STORE
        # Never the server that MONGODB_URI names: what is rebuilt must not meet what is stored.
        rebuilt = Store(embedded.address(folder), folder)
        try:
            # Every call that has ended, also of other studies: one of them may have paid.
            store.copy_into(rebuilt, documents.Call, {"state": {"$in": ["done", "failed"]}})
            run_plan(plan, rebuilt, progress=False, replay=True)
            differences = [*_differing_runs(plan, store, rebuilt), *_differing_votes(plan, store, rebuilt)]
        finally:
            rebuilt.close()
            embedded.stop(folder)
    return [*differences, *contradictions(plan, store), *changed_drifts(plan, store)]


def _output_folders(study: Study) -> list[Path]:
    return [folder for folder in (study.output, study.output / _BUNDLE) if _files(folder)]


def _figures(study: Study, drawn: Path) -> Iterator[str]:
    if folders := _output_folders(study):
        with suppress(NothingToShow):  # whatever figures show, no run of this store gives it
            study.figures(drawn)
        if any((folder / "statistics").is_dir() for folder in folders) and study.frames().has_results:
            study.statistics(drawn)
    for folder in folders:
        for path in _files(folder):
            name, again = path.relative_to(study.output), drawn / path.relative_to(folder)
            if not again.is_file():
                yield f"{name}: the study does not give it now"
            elif again.read_bytes() != path.read_bytes():
                yield f"{name}: differs from what the study gives now"


def _files(folder: Path) -> list[Path]:
    """Return the files of figures and tables in an output folder, without the LaTeX that a bundle adds to figures."""
    paths = [path for name in _KINDS for path in sorted((folder / name).glob("*")) if path.is_file()]
    return [path for path in paths if not (path.parent.name == "figures" and path.suffix == ".tex")]


def _differing_inputs(study: Study, path: Path) -> Iterator[str]:
    """Yield which inputs of a bundle are not those of the study as it stands, and whether its manifest was edited."""
    manifest = json.loads(path.read_text(encoding="utf-8"))
    if not is_as_sealed(manifest):
        yield "was changed after it was written"
    inputs = {
        "study_file": hashlib.sha256(study.path.read_bytes()).hexdigest(),
        "dataset": study.plan.dataset.digest,
        "rubric": study.plan.rubric.digest,
    }
    for name, digest in inputs.items():
        if manifest.get("inputs", {}).get(name, {}).get("sha256") != digest:
            yield f"made from another {name.replace('_', ' ')}"


def _counts_of(store: Store, study: str, call_ids: Iterable[str]) -> tuple[int, int]:
    """Return how many runs of a study the store holds, and how many judgements of them count."""
    runs = judgements = 0
    for ids in windows(dict.fromkeys(call_ids)):
        stored = store.find_by(documents.Run, "call_id", ids, only=("study", "run_id", "judge_calls"))
        named = {run["run_id"]: run.get("judge_calls") or {} for run in stored if run["study"] == study}
        of_runs = store.find_by(documents.Judgement, "run_id", named, only=("run_id", "call_id"))
        existing = {(judgement["run_id"], judgement["call_id"]) for judgement in of_runs}
        runs += len(named)
        judgements += sum(
            (run_id, call_id) in existing for run_id, calls in named.items() for call_id in calls.values()
        )
    return runs, judgements


def _differing_runs(plan: Plan, store: Store, rebuilt: Store) -> Iterator[str]:
    """Yield a line for every run, judgement, reply, prompt and rubric that is not what the rebuilt store has.

    What got no reply, or was never sent, is not in the ledger, so it is right not to be rebuilt.
    """
    ids = tuple(dict.fromkeys(plan.call_ids))
    shared = cache(partial(_shared_calls, plan, store, rebuilt, ids))
    run_lines: list[str] = []
    reply_lines: list[str] = []
    prompts: set[tuple[str, ...]] = set()
    for some in windows(ids):
        stored, expected = (kept_documents(each, plan.study.name, some) for each in (store, rebuilt))
        ours, theirs = _by_name(stored), _by_name(expected)
        for name in {*ours, *theirs}:
            run_lines += _differing_run(
                plan, name, ours.get(name, _ABSENT), theirs.get(name, _ABSENT), shared
            )
        reply_lines += _differing_replies(store, stored)
        prompts |= {(run["prompt_id"], run["dataset_version"]) for run in stored.runs.values()}
    yield from sorted(run_lines)
    yield from _differing_instruments(store, rebuilt, prompts)
    yield from reply_lines


def _shared_calls(plan: Plan, store: Store, rebuilt: Store, ids: Iterable[str]) -> set[str]:
    """Return the calls that other studies paid for, or that a run or judgement in the store rests on."""
    others = {"study": {"$ne": plan.study.name}}
    calls = {call["_id"] for call in rebuilt.each_where(documents.Call, others, only=("study",))}
    for some in windows(ids):
        for run, judgements in _by_name(kept_documents(store, plan.study.name, some)).values():
            calls.add(run["call_id"])
            for judgement in judgements.values():
                calls.update(judgement["call_ids"])
    return calls


def _by_name(kept: Kept) -> dict[str, _Judged]:
    """Return runs by what a reader calls them, with the judgements that count: those whose calls the run names."""
    key = itemgetter("run_id", "call_id")
    stored = {key(judgement): judgement for judgement in kept.judgements.values()}
    judged: dict[str, _Judged] = {}
    for (prompt, model, repeat, _), run in kept.runs.items():
        calls = (run.get("judge_calls") or {}).items()
        judgements = {label: stored.get((run["run_id"], call_id)) for label, call_id in calls}
        counting = {label: judgement for label, judgement in judgements.items() if judgement}
        judged[f"run of {prompt} by {model}, repeat {repeat}"] = run, counting
    return judged


def _differing_run(plan: Plan, name: str, stored: _Judged, again: _Judged, shared: _Calls) -> Iterator[str]:
    """Yield what differs in one run and its judgements."""
    # A study that was stopped before it came to a run, or to a judge of it, may lack what the ledger gives where an
    # equal request paid for it.
    (run, judgements), (expected, rebuilt) = stored, again
    if not run and expected["call_id"] in shared():
        return
    lacking = {
        label
        for label in rebuilt.keys() - (run.get("judge_calls") or {}).keys()
        if run and not run.get("ensemble_key") and shared().issuperset(rebuilt[label]["call_ids"])
    }
    # A judge that refused, or was away, left no reply in the ledger.
    silent = {label for label in judgements.keys() - rebuilt.keys() if not judgements[label]["answered"]}
    if expected and (lacking or silent):
        ensemble = [judgement_of(rebuilt.get(label) or judgement) for label, judgement in judgements.items()]
        context = (None, expected["output_blob_id"], expected["bias_controls"], plan.rubric.scheme)
        evaluation = evaluation_fields(ensemble, *context) if ensemble else dict.fromkeys(EVALUATION)
        expected = {**expected, **evaluation}
    pairs = {name: (run, expected)}
    for label in (judgements.keys() | rebuilt.keys()) - lacking:
        pairs[f"judgement by {label} of {name}"] = judgements.get(label, {}), rebuilt.get(label, {})
    for document, (mine, other) in pairs.items():
        yield from _differing_document(document, mine, other)


def _differing_document(name: str, stored: _Document, expected: _Document) -> Iterator[str]:
    if not stored:
        yield f"{name}: is missing, and the ledger gives it"
    elif not expected:
        if stored.get("status") != "failed" and stored.get("answered", True):
            yield f"{name}: the ledger does not give it"
    else:
        given = {"_id", "run_id", "first_run_id", "second_run_id", *MOMENTS}  # when a record is written
        names = {*stored, *expected} - given
        if parts := differing(stored, {part: expected.get(part) for part in names}):
            yield f"{name}: {', '.join(parts)} differ from what the ledger gives"


def _differing_votes(plan: Plan, store: Store, rebuilt: Store) -> Iterator[str]:
    """Yield what differs in the votes on pairs: by models and prompt, because run ids are given anew."""
    votes, expected = (
        stored_votes(plan, each, stored_runs(each, plan.study.name, plan.call_ids))
        for each in (store, rebuilt)
    )
    # A study that was stopped may lack a vote whose call was paid for by another vote, or by another study.
    shared = {call_id for vote in votes.values() for call_id in vote["call_ids"]}
    absent = expected.keys() - votes.keys()
    lacking = (call_id for ballot in absent for call_id in expected[ballot]["call_ids"])
    calls = rebuilt.find_by(documents.Call, "_id", lacking, only=("study",))
    shared |= {call["_id"] for call in calls if call["study"] != plan.study.name}
    for ballot in sorted({*votes, *expected}):
        (first, second), pair = ballot.shown, ballot.pair
        name = f"vote of {ballot.role} on {pair.prompt_id} by {first} and {second}, repeat {pair.repeat}"
        vote, again = votes.get(ballot, {}), expected.get(ballot, {})
        if not vote and (not again["answered"] or shared.issuperset(again["call_ids"])):
            continue
        if not vote or vote["answered"]:
            yield from _differing_document(name, vote, again)


def _differing_replies(store: Store, stored: Kept) -> Iterator[str]:
    runs = [run for run in map(stored_run, stored.runs.values()) if run.blob_id]
    texts = reply_texts(store, runs)
    for run in runs:
        text = texts.get(str(run.blob_id))
        if text is None:
            yield f"reply of run {run.run_id}: its text is missing"
        elif hashlib.sha256(text.encode()).hexdigest() != run.blob_id:
            yield f"reply of run {run.run_id}: its text was changed"


def _differing_instruments(store: Store, rebuilt: Store, prompts: set[tuple[str, str]]) -> Iterator[str]:
    for label, kind, key in (
        ("prompt", documents.Prompt, ("prompt_id", "dataset_version")),
        ("rubric", documents.Rubric, ("_id",)),
    ):
        expected = rebuilt.find_where(kind, {}, MOMENTS)
        stored = {
            tuple(document[part] for part in key): document
            for document in store.find_by(kind, key[0], (again[key[0]] for again in expected), MOMENTS)
        }
        for again in expected:
            name = tuple(again[part] for part in key)
            if (mine := stored.get(name)) is None:
                if label == "rubric" or name in prompts:
                    yield f"{label} {name[0]}: is missing"
            elif parts := differing(mine, {part: again.get(part) for part in {*mine, *again} - {"_id"}}):
                yield f"{label} {name[0]}: {', '.join(parts)} differ from what the study names"

"""Verify a study: compare its runs, judgements, figures and bundle with what its ledger gives."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.audit.consistency import contradictions
from toolkit.errors import InputError
from toolkit.files import read_json, sha256_of
from toolkit.pipeline import run_plan
from toolkit.plan import Plan
from toolkit.report.manifest import MANIFEST, differing_files
from toolkit.report.show import NothingToShow
from toolkit.runs.instruments import STAGES
from toolkit.runs.stages import differences as stage_differences
from toolkit.store import documents
from toolkit.store.connection import Store, temporary_store, windows
from toolkit.store.records import (
    EVALUATION,
    MOMENTS,
    Kept,
    evaluation_fields,
    judgement_of,
    kept_documents,
    stored_run,
)
from toolkit.store.writer import differing, is_as_sealed
from toolkit.words import Summary, counted, one_line

if TYPE_CHECKING:
    from toolkit.study import Study

_KINDS = ("figures", "tables", "statistics")
_BUNDLE = "bundle"
_Document = Mapping[str, Any]
_Judged = tuple[_Document, Mapping[str, _Document]]  # a run and the judgements of it that count, by label
_ABSENT: _Judged = ({}, {})
_Calls = Callable[[], set[str]]


def verify_study(study: Study) -> Summary:
    """Make a study again from its ledger in a store of its own, and compare everything that is stored with it.

    Nobody is asked and nothing is changed. The ledger is compared with itself, figures and tables are drawn again and
    compared byte by byte, and a bundle also with the SHA-256 of its manifest.
    """
    own = {"study": study.name}
    runs = len(study.store.find_where(documents.Run, own, only=("study",)))
    said = Counter(
        annotation["kind"] for annotation in study.store.each_where(documents.Annotation, own, only=("kind",))
    )
    judgements = said.pop(documents.JUDGEMENT, 0)
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
    compared += "".join(f", {counted(number, name)}" for name, number in sorted(said.items()))
    compared += f", {files} files of figures and tables" if files else ", no figures there"
    compared += ", and the bundle" if has_bundle else ""
    verdict = counted(len(differences), "differences") if differences else "all as the ledger gives"
    fields = {"study": study.name, "runs": runs, "judgements": judgements, "files": files}
    fields |= {"differences": differences, "agrees": not differences}
    text = "\n".join([*differences, f"study {study.name}: {compared}: {verdict}"])
    return Summary(fields, text, 1 if differences else 0)


def record_differences(study: Study) -> list[str]:
    """Return a line for all in the store of a study that its ledger does not give, or that contradicts itself."""
    plan, store = study.plan, study.store
    with temporary_store() as rebuilt:  # what is rebuilt must not meet what is stored
        # Every call that has ended, also of other studies: one of them may have paid.
        store.copy_into(rebuilt, documents.Call, {"state": {"$in": ["done", "failed"]}})
        run_plan(plan, rebuilt, progress=False, replay=True)
        differences = [*_differing_records(plan, store, rebuilt)]
    return [*differences, *contradictions(plan, store)]


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
    return [
        path
        for name in _KINDS
        for path in sorted((folder / name).glob("*"))
        if path.is_file() and path.name != MANIFEST and (name, path.suffix) != ("figures", ".tex")
    ]


def _differing_inputs(study: Study, path: Path) -> Iterator[str]:
    """Yield which inputs of a bundle are not those of the study as it stands, and whether its manifest was edited."""
    manifest = read_json(path)
    if not is_as_sealed(manifest):
        yield "was changed after it was written"
    inputs = {
        "study_file": sha256_of(study.path),
        "dataset": study.plan.dataset.digest,
        "rubric": study.plan.rubric.digest,
    }
    for name, digest in inputs.items():
        if manifest.get("inputs", {}).get(name, {}).get("sha256") != digest:
            yield f"made from another {name.replace('_', ' ')}"


def _differing_records(plan: Plan, store: Store, rebuilt: Store) -> Iterator[str]:
    """Yield a line for each record that is not what the rebuilt store has.

    What got no reply, or was never sent, is not in the ledger, so it is right not to be rebuilt.
    """
    shared = cache(partial(_shared_calls, plan, store, rebuilt))
    run_lines: list[str] = []
    reply_lines: list[str] = []
    prompts: set[str] = set()
    for some in windows(dict.fromkeys(plan.call_ids)):
        stored, again = (kept_documents(source, plan.study.name, some) for source in (store, rebuilt))
        ours, theirs = _by_name(stored), _by_name(again)
        for name in {*ours, *theirs}:
            judged, expected = ours.get(name, _ABSENT), theirs.get(name, _ABSENT)
            run_lines += _differing_run(plan, name, judged, expected, shared)
        reply_lines += _differing_replies(stored)
        prompts |= {run["prompt_id"] for run in stored.runs.values()}
    yield from sorted(run_lines)
    for kind, name, key in (
        (documents.Prompt, "prompt", ("prompt_id", "dataset_version")),
        (documents.Rubric, "rubric", ("_id",)),
    ):
        for document in rebuilt.find_where(kind, {}, MOMENTS):
            instrument = store.get(kind, {part: document[part] for part in key}, MOMENTS) or {}
            if instrument or document[key[0]] in prompts or kind is documents.Rubric:
                yield from _differing_document(f"{name} {document[key[0]]}", instrument, document)
    yield from reply_lines
    for stage in STAGES:
        yield from stage_differences(stage, plan, store, shared)


def _shared_calls(plan: Plan, store: Store, rebuilt: Store) -> set[str]:
    """Return the calls that other studies paid for, or that a run, judgement or vote in the store rests on."""
    study, fields = {"study": plan.study.name}, ("call_id", "call_ids")
    others = rebuilt.each_where(documents.Call, {"study": {"$ne": plan.study.name}}, only=("study",))
    calls = {call["_id"] for call in others}
    calls.update(run["call_id"] for run in store.each_where(documents.Run, study, only=fields[:1]))
    for record in store.each_where(documents.Annotation, study, only=fields):
        calls.update(record["call_ids"])
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
    # equal request paid for it, and a judge that failed and is to be asked again.
    (run, judgements), (expected, rebuilt) = stored, again
    if not run and expected["call_id"] in shared():
        return
    lacking = {
        label
        for label in rebuilt.keys() - (run.get("judge_calls") or {}).keys()
        if run
        and not run.get("ensemble_key")
        and (not rebuilt[label]["answered"] or shared().issuperset(rebuilt[label]["call_ids"]))
    }
    # A judge that refused, or was away, left no reply in the ledger.
    silent = {label for label in judgements.keys() - rebuilt.keys() if not judgements[label]["answered"]}
    if expected and (lacking or silent):
        ensemble = [judgement_of(rebuilt.get(label) or judgement) for label, judgement in judgements.items()]
        evaluation = dict.fromkeys(EVALUATION)
        if ensemble:
            blob, controls = expected["output_blob_id"], expected["bias_controls"]
            evaluation = evaluation_fields(
                ensemble, None, blob, controls, plan.rubric.scheme, plan.judges.values()
            )
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
        # Those are given when a record is written.
        names = {*stored, *expected} - {"_id", "run_id", *MOMENTS}
        if parts := differing(stored, {part: expected.get(part) for part in names}):
            yield f"{name}: {', '.join(parts)} differ from what the ledger gives"


def _differing_replies(stored: Kept) -> Iterator[str]:
    for run in map(stored_run, stored.runs.values()):
        if run.blob_id and run.blob_id not in stored.blobs:
            remedy = "`toolkit run STUDY --replay` restores it"
            yield f"reply of run {run.run_id}: its text was changed or is missing; {remedy}"

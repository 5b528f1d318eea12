"""Verify a study: compare its runs, judgements, figures and bundle with what its ledger gives."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.audit.consistency import contradictions
from toolkit.errors import InputError
from toolkit.files.digests import sha256_of
from toolkit.files.reading import read_json
from toolkit.judges.judgement import Judgement, judge_label
from toolkit.pipeline import replay_changes
from toolkit.plan import Plan
from toolkit.report.manifest import MANIFEST, differing_files
from toolkit.report.show import NothingToShow
from toolkit.runs.instruments import automatic_stages
from toolkit.store import documents
from toolkit.store.connection import Store, prompt_document
from toolkit.store.records import MOMENTS, StoredRun
from toolkit.store.writer import differing, is_as_sealed
from toolkit.words import Summary, counted, one_line

if TYPE_CHECKING:
    from toolkit.study import Study

_KINDS = ("figures", "tables", "statistics")
_BUNDLE = "bundle"
_Document = Mapping[str, Any]
_RUN = "run of {prompt_id} by {model}, repeat {repeat}"


def verify_study(study: Study) -> Summary:
    """Make a study again from its ledger in a store of its own, and compare everything that is stored with it.

    Nobody is asked and nothing is changed. The ledger is compared with itself, figures and tables are drawn again and
    compared byte by byte, and a bundle also with the SHA-256 of its manifest.
    """
    query = {"study": study.name}
    runs = len(study.store.find_where(documents.Run, query, only=("study",)))
    kinds = Counter(
        annotation["kind"]
        for annotation in study.store.each_where(documents.Annotation, query, only=("kind",))
    )
    judgements = kinds.pop(documents.JUDGEMENT, 0)
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
    compared += "".join(f", {counted(number, name)}" for name, number in sorted(kinds.items()))
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
    return [*_differing_records(plan, store), *contradictions(plan, store)]


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


def _differing_records(plan: Plan, store: Store) -> Iterator[str]:
    """Yield a line for each run, reply and annotation that a replay would write anew."""
    shared = cache(partial(_shared_calls, plan, store))

    def excused(run: StoredRun, judgement: Judgement) -> bool:
        # A study that was stopped before it came to a judgement may lack what the ledger gives where an equal request
        # paid for it, and one that failed and is to be asked again.
        is_missing = judgement.label not in run.judge_calls and run.ensemble_key is None
        return is_missing and (not judgement.answered or shared().issuperset(judgement.call_ids))

    changes, stored = replay_changes(plan, store, excused)
    runs = {run["run_id"]: run for run in stored.runs.values()}
    missing, lines, annotations = set[str](), list[str](), list[str]()
    for record, known in changes:
        content = record.document
        if content.get("kind", documents.JUDGEMENT) != documents.JUDGEMENT:
            annotations += _differing_annotation(known, content, runs, shared)
        elif record.collection == "annotations" and content["run_id"] not in missing:
            label = judge_label(content["judge"], content["judge_repeat"])
            run = _RUN.format_map(runs[content["run_id"]])
            lines += _difference(f"judgement by {label} of {run}", known, content)
        elif record.collection == "runs" and known is None:
            missing.add(content["run_id"])
            if content["call_id"] not in shared():
                lines += _difference(_RUN.format_map(content), known, content)
        elif known and "run_id" in known:
            change: _Document = record.change or {}
            now = {**known, **dict.fromkeys(change.get("$unset", ())), **change["$set"]}
            lines += _difference(_RUN.format_map(known), known, now)
    yield from sorted(lines)
    for run_id, document in runs.items():
        is_planned = (
            plan.runs.find(*itemgetter("prompt_id", "model", "repeat", "call_id")(document)) is not None
        )
        if document["status"] == "succeeded" and not is_planned:
            yield f"{_RUN.format_map(document)}: the ledger does not give it"
        if (blob_id := document.get("output_blob_id")) and blob_id not in stored.blobs:
            remedy = "`toolkit run STUDY --replay` restores it"
            yield f"reply of run {run_id}: its text was changed or is missing; {remedy}"
    yield from _differing_material(plan, store, {run["prompt_id"] for run in runs.values()})
    yield from annotations


def _differing_annotation(
    stored: _Document | None,
    expected: _Document,
    runs: Mapping[str, _Document],
    shared: Callable[[], set[str]],
) -> Iterator[str]:
    """Yield a line where an annotation is not what the ledger gives.

    One that is not there may be missing where another study, or another record, paid for its calls: a study that was
    stopped did not come to it.
    """
    shown = [runs[reply["run_id"]] for reply in expected["shown"]]
    models, day = " and ".join(run["model"] for run in shown), expected.get("day")
    name = f"{expected['kind']} of {expected['judge']} on {shown[0]['prompt_id']} by {models}"
    name += f", repeat {shown[0]['repeat']}" + (f", {day}" if day else "")
    if stored is None:
        is_expected = expected["answered"] and expected["kind"] in {
            stage.name for stage in automatic_stages()
        }
        if is_expected and not shared().issuperset(expected["call_ids"]):
            yield from _difference(name, None, expected)
    elif stored["answered"] and not expected["call_ids"]:
        yield f"{name}: the ledger does not give it"
    elif stored["answered"]:
        yield from _difference(name, stored, expected)


def _difference(name: str, stored: _Document | None, expected: _Document) -> Iterator[str]:
    if stored is None:
        yield f"{name}: is missing, and the ledger gives it"
    # Those are given when a record is written.
    elif parts := {*differing(stored, dict.fromkeys(stored) | dict(expected))} - {"_id", *MOMENTS}:
        yield f"{name}: {', '.join(sorted(parts))} differ from what the ledger gives"


def _differing_material(plan: Plan, store: Store, prompt_ids: Collection[str]) -> Iterator[str]:
    """Yield which prompts of the study, and whether its rubric, are stored otherwise than it has them."""
    stored = {
        (prompt["prompt_id"], prompt["dataset_version"]): prompt
        for prompt in store.find_by(documents.Prompt, "prompt_id", plan.sources)
    }
    for prompt in plan.dataset.prompts:
        document = stored.get((prompt.prompt_id, prompt.dataset_version))
        if document or prompt.prompt_id in prompt_ids:
            yield from _difference(
                f"prompt {prompt.prompt_id}", document, prompt_document(prompt).to_mongo().to_dict()
            )
    if plan.test.judged:
        rubric = {name: getattr(plan.rubric, name) for name in ("name", "version", "content")}
        document = store.get(documents.Rubric, {"_id": plan.rubric.digest})
        yield from _difference(f"rubric {plan.rubric.digest}", document, rubric)


def _shared_calls(plan: Plan, store: Store) -> set[str]:
    """Return the calls that other studies paid for, or that a run or an annotation in the store rests on."""
    study, fields = {"study": plan.study.name}, ("call_id", "call_ids")
    others = store.each_where(documents.Call, {"study": {"$ne": plan.study.name}}, only=("study",))
    calls = {call["_id"] for call in others}
    calls.update(run["call_id"] for run in store.each_where(documents.Run, study, only=fields[:1]))
    for record in store.each_where(documents.Annotation, study, only=fields):
        calls.update(record["call_ids"])
    return calls

"""Verify a study: compare its runs, judgements, figures, bundle and export with what its ledger gives."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.audit.consistency import contradictions
from toolkit.audit.export import differing_export, export_study
from toolkit.errors import InputError
from toolkit.pipeline import run_plan
from toolkit.plan import STORE, Plan
from toolkit.probes.drift import changed_drifts
from toolkit.report.manifest import MANIFEST, differing_files
from toolkit.report.show import NothingToShow
from toolkit.scoring import Scheme
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


def verify_study(study: Study, export: Path | None = None) -> Summary:
    """Make a study again from its ledger in a store of its own, and compare everything that is stored with it.

    Nobody is asked and nothing is changed. The ledger is compared with itself, figures and tables are drawn again and
    compared byte by byte, a bundle also with the SHA-256 of its manifest, and a folder of `toolkit export` with its
    sums and with what would be exported now.
    """
    runs, judgements = _counts_of(study.store, study.name, study.plan.call_ids)
    if not runs:
        message = "has no run in its store, so there is nothing to verify; run it first"
        raise InputError(f"study {study.name}: {message}")
    differences = [*_records(study), *contradictions(study.plan, study.store)]
    differences += changed_drifts(study.plan, study.store)
    differences += _in_temporary_folder(study, _figures, differences)
    files = sum(len(_files(folder)) for folder in _output_folders(study))
    bundle = study.output / _BUNDLE
    has_bundle = (bundle / MANIFEST).is_file()
    if has_bundle:
        differences += [f"{_BUNDLE}/{line}" for line in differing_files(bundle)]
        inputs = _differing_inputs(study, bundle / MANIFEST)
        differences += [f"{_BUNDLE}/{MANIFEST}: {line}" for line in inputs]
    if export is not None:
        differences += [f"{export.name}/{line}" for line in differing_export(export)]
        differences += _in_temporary_folder(study, partial(_exported, export=export), differences)
    compared = f"{runs} runs and {judgements} judgements"
    compared += f", {counted(len(study.pairs()), 'votes')}" if study.plan.pairs else ""
    compared += f", {files} files of figures and tables" if files else ", no figures there"
    compared += ", and the bundle" if has_bundle else ""
    compared += f", and the export {export.name}" if export else ""
    verdict = counted(len(differences), "differences") if differences else "all as the ledger gives"
    fields = {"study": study.name, "runs": runs, "judgements": judgements, "files": files}
    fields |= {"differences": differences, "agrees": not differences}
    text = "\n".join([*differences, f"study {study.name}: {compared}: {verdict}"])
    return Summary(fields, text, 1 if differences else 0)


def _in_temporary_folder(
    study: Study, compare: Callable[[Study, Path], Iterator[str]], differences: Sequence[str]
) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return list(compare(study, Path(folder)))
        except Exception as error:
            if not differences:
                raise
            # Of a store that is not what its ledger gives there may be nothing to draw.
            return [f"figures, tables and frames cannot be made of this store ({one_line(str(error), 200)})"]


def _records(study: Study) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / STORE
        # Never the server that MONGODB_URI names: what is rebuilt must not meet what is stored.
        rebuilt = Store(embedded.address(folder), folder)
        try:
            # Every call that has ended, also of other studies: one of them may have paid.
            study.store.copy_into(rebuilt, documents.Call, {"state": {"$in": ["done", "failed"]}})
            run_plan(study.plan, rebuilt, progress=False, replay=True)
            of_study = study.name, study.plan.call_ids, study.plan.rubric.scheme
            differences = list(_differing_records(study.store, rebuilt, *of_study))
            return [*differences, *_differing_votes(study.plan, study.store, rebuilt)]
        finally:
            rebuilt.close()
            embedded.stop(folder)


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


def _exported(study: Study, folder: Path, export: Path) -> Iterator[str]:
    export_study(study, folder)
    # Parquet files and what lists all files name packages and commit; the records are the same under every version.
    suffixes = (".csv", ".zip") if _versions(export) != _versions(folder) else None
    for again in sorted(folder.iterdir()):
        path = export / again.name
        compared = path.is_file() and (suffixes is None or path.suffix in suffixes)
        if compared and path.read_bytes() != again.read_bytes():
            yield f"{export.name}/{again.name}: is not what the study gives now"


def _versions(export: Path) -> Any:
    """Return the versions that an export was written under; a manifest that cannot be read fails its sum."""
    try:
        manifest = json.loads((export / MANIFEST).read_text(encoding="utf-8"))
        return manifest["versions"], manifest["commit"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


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


def _differing_records(
    store: Store, rebuilt: Store, study: str, call_ids: Iterable[str], scheme: Scheme
) -> Iterator[str]:
    """Yield a line for every run, judgement and reply of a study that is not what the rebuilt store has.

    What got no reply, or was never sent, is not in the ledger, so it is right not to be rebuilt.
    """
    ids = tuple(dict.fromkeys(call_ids))
    payers = _Payers(store, rebuilt, study, ids, scheme)
    run_lines: list[str] = []
    reply_lines: list[str] = []
    prompts: set[tuple[str, str]] = set()
    for some in windows(ids):
        stored = kept_documents(store, study, some)
        run_lines += _differing_runs(stored, kept_documents(rebuilt, study, some), rebuilt, payers)
        reply_lines += _differing_replies(store, stored)
        prompts |= {(run["prompt_id"], run["dataset_version"]) for run in stored.runs.values()}
    yield from sorted(run_lines)
    yield from _differing_instruments(store, rebuilt, prompts)
    yield from reply_lines


@dataclass
class _Payers:
    """Which runs and other studies rest on a call; read only where a run or a judgement is missing."""

    store: Store
    rebuilt: Store
    study: str
    call_ids: Sequence[str]
    scheme: Scheme

    def are_shared(self, name: str, *call_ids: str) -> bool:
        """Return whether something else than the run of this name rests on each of the calls."""
        return all(self._names.get(call_id, set()) - {name} for call_id in call_ids)

    @cached_property
    def _names(self) -> Mapping[str, set[str]]:
        names: dict[str, set[str]] = defaultdict(set)
        others = {"study": {"$ne": self.study}}
        for call in self.rebuilt.each_where(documents.Call, others, only=("study",)):
            names[call["_id"]].add(call["study"])
        for some in windows(self.call_ids):
            for name, (run, judgements) in _by_name(kept_documents(self.store, self.study, some)).items():
                rests = (call_id for judgement in judgements.values() for call_id in _calls(judgement))
                for call_id in (run["call_id"], *rests):
                    names[call_id].add(name)
        return names


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


def _differing_runs(stored: Kept, again: Kept, rebuilt: Store, payers: _Payers) -> Iterator[str]:
    ours, theirs = _by_name(stored), _by_name(again)
    for name, judged in ours.items():
        key = {part: judged[0][part] for part in ("study", "prompt_id", "model", "repeat")}
        if name not in theirs and rebuilt.has(documents.Run, key):
            continue  # a run of the same name by an earlier call: the one of now is compared under its own call
        yield from _differing_run(name, judged, theirs.get(name, _ABSENT), payers)
    for name in theirs.keys() - ours.keys():
        yield from _differing_run(name, _ABSENT, theirs[name], payers)


def _differing_run(name: str, stored: _Judged, again: _Judged, payers: _Payers) -> Iterator[str]:
    """Yield what differs in one run and its judgements."""
    # A study that was stopped before it came to a run, or to a judge of it, may lack what the ledger gives where an
    # equal request paid for it.
    (run, judgements), (expected, rebuilt) = stored, again
    if not run and payers.are_shared(name, expected["call_id"]):
        return
    lacking = {
        label
        for label in rebuilt.keys() - (run.get("judge_calls") or {}).keys()
        if run and not run.get("ensemble_key") and payers.are_shared(name, *_calls(rebuilt[label]))
    }
    # A judge that refused, or was away, left no reply in the ledger.
    silent = {
        label for label in judgements.keys() - rebuilt.keys() if not judgements[label].get("answered", True)
    }
    if expected and (lacking or silent):
        ensemble = [judgement_of(rebuilt.get(label) or judgement) for label, judgement in judgements.items()]
        context = (None, expected["output_blob_id"], expected["bias_controls"])
        evaluation = (
            evaluation_fields(ensemble, *context, payers.scheme) if ensemble else dict.fromkeys(EVALUATION)
        )
        expected = {**expected, **evaluation}
    pairs = {name: (run, expected)}
    for label in (judgements.keys() | rebuilt.keys()) - lacking:
        pairs[f"judgement by {label} of {name}"] = judgements.get(label, {}), rebuilt.get(label, {})
    for document, (mine, other) in pairs.items():
        if not mine:
            yield f"{document}: is missing, and the ledger gives it"
        elif not other:
            if mine.get("status") != "failed" and mine.get("answered", True):
                yield f"{document}: the ledger does not give it"
        else:
            left_out = {"_id", "run_id", *MOMENTS}  # given when a record is written
            left_out |= {"call_ids"} - mine.keys()  # a judgement of before names one call
            if parts := differing(mine, {part: other.get(part) for part in {*mine, *other} - left_out}):
                yield f"{document}: {', '.join(parts)} differ from what the ledger gives"


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
    left_out = {"_id", "first_run_id", "second_run_id", *MOMENTS}
    for ballot in sorted({*votes, *expected}):
        (first, second), pair = ballot.shown, ballot.pair
        name = f"vote of {ballot.role} on {pair.prompt_id} by {first} and {second}, repeat {pair.repeat}"
        vote, again = votes.get(ballot), expected.get(ballot)
        if vote is None:
            if again and again["answered"] and not shared.issuperset(again["call_ids"]):
                yield f"{name}: is missing, and the ledger gives it"
        elif again is None:
            if vote["answered"]:
                yield f"{name}: the ledger does not give it"
        elif vote["answered"] and (
            parts := differing(vote, {part: again.get(part) for part in {*vote, *again} - left_out})
        ):
            yield f"{name}: {', '.join(parts)} differ from what the ledger gives"


def _calls(judgement: _Document) -> Sequence[str]:
    """Return the calls that a judgement rests on; one from before they were kept names the first."""
    return judgement.get("call_ids") or (judgement["call_id"],)


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

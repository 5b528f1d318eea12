"""Verify a study: compare its runs, judgements, figures and bundle with what its ledger gives.

A replay trusts the ledger, so contradictions within the store are looked for besides: a call is named by the hash of
its request, sealed when it is written, and costs its tokens at the price of its model. Ratings by people, and
judgements under other settings, are in no replay either.
"""

import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from ulid import ULID

from toolkit.errors import InputError
from toolkit.files.digests import sha256_of
from toolkit.files.reading import read_json
from toolkit.judges.judgement import Judgement, judge_label
from toolkit.models.base import Message, ModelRequest, Usage
from toolkit.models.prices import Price, aud_cost, batch_price
from toolkit.pipeline import replay_changes
from toolkit.plan import Plan
from toolkit.report.manifest import MANIFEST, differing_files
from toolkit.report.registry import NAMES
from toolkit.report.show import NothingToShow
from toolkit.runs.gateway import endpoints_of
from toolkit.runs.instruments import automatic_stages
from toolkit.store.connection import Store, prompt_document, windows
from toolkit.store.documents import JUDGEMENT, Anchor, Annotation, Call, HumanRating, Prompt, Rubric, Run
from toolkit.store.drifts import anchor_document
from toolkit.store.ratings import HUMAN, Rating, all_ratings
from toolkit.store.records import MOMENTS, StoredRun
from toolkit.store.writer import differing, is_as_sealed
from toolkit.study import Study
from toolkit.words import Summary, counted, one_line

_KINDS = ("figures", "tables", "statistics")
_BUNDLE = "bundle"
_Document = Mapping[str, Any]
_CLOCK_TOLERANCE = timedelta(days=1)  # unnoticed difference between the clocks of two machines
_USAGE = ("aud_cost", "input_tokens", "output_tokens", "latency_ms")
_KEY = ("prompt_id", "model", "repeat", "call_id")  # of a run
_RUN = "run of {prompt_id} by {model}, repeat {repeat}"


def verify_study(study: Study) -> Summary:
    """Make a study again from its ledger in a store of its own, and compare everything that is stored with it.

    Nobody is asked and nothing is changed. The ledger is compared with itself, figures and tables are drawn again and
    compared byte by byte, and a bundle also with the SHA-256 of its manifest.
    """
    query, bundle = {"study": study.name}, study.output / _BUNDLE
    runs = len(study.store.find_where(Run, query, only=("study",)))
    kinds = Counter(
        annotation["kind"] for annotation in study.store.each_where(Annotation, query, only=("kind",))
    )
    judgements = kinds.pop(JUDGEMENT, 0)
    if not runs:
        message = "has no run in its store, so there is nothing to verify; run it first"
        raise InputError(f"study {study.name}: {message}")
    differences, written = (
        record_differences(study),
        {folder: _files(folder) for folder in (study.output, bundle)},
    )
    with tempfile.TemporaryDirectory() as folder:
        try:
            differences += _figures(study, written, Path(folder))
        except Exception as error:
            if not differences:
                raise
            # Of a store that is not what its ledger gives there may be nothing to draw.
            reason = one_line(str(error), 200)
            differences.append(f"figures and tables cannot be made of this store ({reason})")
    files = sum(map(len, written.values()))
    compared = f"{runs} runs and {judgements} judgements"
    compared += "".join(f", {counted(number, name)}" for name, number in sorted(kinds.items()))
    compared += f", {files} files of figures and tables" if files else ", no figures there"
    if (bundle / MANIFEST).is_file():
        differences += [f"{_BUNDLE}/{line}" for line in differing_files(bundle)]
        inputs = _differing_inputs(study, bundle / MANIFEST)
        differences += [f"{_BUNDLE}/{MANIFEST}: {line}" for line in inputs]
        compared += ", and the bundle"
    fields = {"study": study.name, "runs": runs, "judgements": judgements, "files": files}
    return verified(differences, f"study {study.name}: {compared}: ", "all as the ledger gives", fields)


def verified(differences: Sequence[str], subject: str, agreed: str, fields: Mapping[str, Any]) -> Summary:
    """Return the summary of a verification: each difference, and how many there are of what subject."""
    verdict = counted(len(differences), "differences") if differences else agreed
    fields = {**fields, "differences": differences, "agrees": not differences}
    return Summary(fields, "\n".join([*differences, subject + verdict]), int(bool(differences)))


def record_differences(study: Study) -> list[str]:
    """Return a line for all in the store of a study that its ledger does not give, or that contradicts itself."""
    plan, store = study.plan, study.store
    return [*_differing_records(plan, store), *contradictions(plan, store)]


def _figures(study: Study, written: Mapping[Path, list[Path]], drawn: Path) -> Iterator[str]:
    """Draw figures and tables again, and yield which of those that are written are others."""
    if any(written.values()):
        with suppress(NothingToShow):  # whatever figures show, no run of this store gives it
            study.figures(drawn)
            stems = {path.stem for paths in written.values() for path in paths if path.suffix == ".png"}
            # A report also draws figures that another one stands in for.
            if only := stems & {*NAMES} - {path.stem for path in (drawn / "figures").glob("*.png")}:
                study.figures(drawn, sorted(only))
        if any((folder / "statistics").is_dir() for folder in written) and study.frames().has_results:
            study.statistics(drawn)
    for folder, paths in written.items():
        for path in paths:
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
    missing, lines = set[str](), list[str]()
    for record, known in changes:
        content = record.document
        if content.get("kind", JUDGEMENT) != JUDGEMENT:
            lines += _differing_annotation(known, content, runs, shared)
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
        for prompt in store.find_by(Prompt, "prompt_id", plan.sources)
    }
    for prompt in plan.dataset.prompts:
        document = stored.get((prompt.prompt_id, prompt.dataset_version))
        if document or prompt.prompt_id in prompt_ids:
            yield from _difference(
                f"prompt {prompt.prompt_id}", document, prompt_document(prompt).to_mongo().to_dict()
            )
    if plan.test.judged:
        rubric = {name: getattr(plan.rubric, name) for name in ("name", "version", "content")}
        document = store.get(Rubric, {"_id": plan.rubric.digest})
        yield from _difference(f"rubric {plan.rubric.digest}", document, rubric)


def _shared_calls(plan: Plan, store: Store) -> set[str]:
    """Return the calls that other studies paid for, or that a run or an annotation in the store rests on."""
    study, fields = {"study": plan.study.name}, ("call_id", "call_ids")
    others = store.each_where(Call, {"study": {"$ne": plan.study.name}}, only=("study",))
    calls = {call["_id"] for call in others}
    calls.update(run["call_id"] for run in store.each_where(Run, study, only=fields[:1]))
    for record in store.each_where(Annotation, study, only=fields):
        calls.update(record["call_ids"])
    return calls


def contradictions(plan: Plan, store: Store) -> Iterator[str]:
    """Yield a line for everything of a study that contradicts itself in the store; a thousand documents at a time."""
    study = {"study": plan.study.name}
    yield from _calls(plan, store.each_where(Call, study))
    # Making the list fills `foreign`: calls that another study of this results folder may have paid for.
    foreign: set[str] = set()
    lines = [*_runs(store, study, foreign), *_annotations(store, study, foreign)]
    yield from _calls(
        plan, store.find_by(Call, "_id", sorted(foreign), query={"study": {"$ne": plan.study.name}})
    )
    yield from lines
    yield from _anchors(store, study)
    yield from _human_ratings(store, study)


def _answered(store: Store, study: _Document, ids: Iterable[str], foreign: set[str]) -> dict[str, _Document]:
    """Return cost and tokens of those calls that are answered, by id; note which other studies may have paid for."""
    ids = set(ids)
    calls = store.find_by(Call, "_id", sorted(ids), only=("study", *_USAGE), query={"state": "done"})
    foreign |= ids - {call["_id"] for call in calls if call["study"] == study["study"]}
    return {call["_id"]: call for call in calls}


def _calls(plan: Plan, calls: Iterable[_Document]) -> Iterator[str]:
    prices = {endpoint.key: endpoint.price for endpoint in endpoints_of(plan)}
    wrong_costs: dict[str, list[str]] = defaultdict(list)
    priced = Counter[str]()
    for call in calls:
        name, model = f"call {call['_id'][:12]}... of {call['model']}", call["model"]
        yield from (f"{name}: {fault}" for fault in _faults(call))
        price = prices.get((call["provider"], model, (call.get("request") or {}).get("endpoint")))
        if (
            price is not None
            and call["state"] == "done"
            and all(call.get(part) is not None for part in _USAGE)
        ):
            priced[model] += 1
            if not _has_right_cost(call, price):
                wrong_costs[model].append(f"{name}: what it cost is not its tokens at the price of its model")
    for model, lines in wrong_costs.items():
        if len(lines) == priced[model] > 1:  # the price was changed after they were asked
            yield f"calls of {model}: none of {len(lines)} cost its tokens at the price that the model has now"
        else:
            yield from lines


def _faults(call: _Document) -> Iterator[str]:
    if not is_as_sealed(call):
        yield "was changed after it was written: it does not have its seal"
    if request := call.get("request"):
        identity = None  # stays None if the request cannot be rebuilt
        with suppress(KeyError, TypeError):
            messages = tuple(Message(part["role"], part["content"]) for part in request["messages"])
            identity = ModelRequest(**request | {"messages": messages}).identity()
        if identity != call["_id"]:
            yield "its request is not the one it is named by"
        if (call["provider"], call["model"]) != (request.get("provider"), request.get("model")):
            yield "its model is not that of its request"
    cached = (call.get("cache_read_tokens") or 0) + (call.get("cache_written_tokens") or 0)
    if cached > (call.get("input_tokens") or 0):
        yield "has more cached tokens than input tokens"


def _has_right_cost(call: _Document, price: Price) -> bool:
    """Return whether a call cost its tokens on the day it was sent, singly or in a batch."""
    sent_at = (call.get("attempts") or [{}])[-1].get("at")
    day = sent_at.date() if isinstance(sent_at, datetime) else None
    read, written = (call.get(name) or 0 for name in ("cache_read_tokens", "cache_written_tokens"))
    usage = Usage(call["input_tokens"], call["output_tokens"], False, read, written)
    if call.get("aud_per_usd"):  # what was paid keeps the exchange rate that it was booked with
        price = price.at(call["aud_per_usd"])
    rates = (price, batch_price(price, call["provider"]))
    return any(_is_close(call["aud_cost"], aud_cost(usage, rate, day)) for rate in rates)


def _runs(store: Store, study: _Document, foreign: set[str]) -> Iterator[str]:
    keys = set[tuple[Any, ...]]()
    for runs in windows(store.each_where(Run, study, only=(*_KEY, "run_id", "created_at", "status"))):
        answered = _answered(store, study, (run["call_id"] for run in runs), foreign)
        for run in runs:
            key = itemgetter(*_KEY)(run)
            name = f"run of {run['prompt_id']} by {run['model']}, repeat {run['repeat']}"
            if key in keys:
                yield f"{name}: is there twice"
            keys.add(key)
            if run["status"] == "succeeded" and run["call_id"] not in answered:
                yield f"{name}: its call is not in the ledger"
            moment = None
            with suppress(ValueError):
                moment = ULID.from_str(run["run_id"]).datetime
            if moment is None or abs(moment - run["created_at"]) >= timedelta(minutes=1):
                yield f"{name}: created_at is not the moment that its run id has"


def _annotations(store: Store, study: _Document, foreign: set[str]) -> Iterator[str]:
    """Yield which annotations are of runs that are not there, or rest on calls that do not give them."""
    for documents in windows(store.each_where(Annotation, study, ("reasons", "detail"))):
        call_ids = (call_id for document in documents for call_id in document["call_ids"])
        answered = _answered(store, study, call_ids, foreign)
        ids = [
            [reply["run_id"] for reply in document.get("shown") or ()] or [document["run_id"]]
            for document in documents
        ]
        stored = store.find_by(Run, "run_id", chain(*ids), query=study, only=("run_id", *_KEY, "created_at"))
        runs = {run["run_id"]: run for run in stored}
        for document, run_ids in zip(documents, ids, strict=True):
            name = f"{document['kind']} by {document['judge']} of run {' and '.join(run_ids)}"
            judged = [runs[run_id] for run_id in run_ids if run_id in runs]
            if len(judged) < len(run_ids):
                yield f"{name}: its run is not in the store"
            elif len({(run["prompt_id"], run["repeat"]) for run in judged}) > 1:
                yield f"{name}: its runs are not of one prompt"
            elif document["created_at"] < max(run["created_at"] for run in judged) - _CLOCK_TOLERANCE:
                yield f"{name}: created_at is before that of its run"
            paid_calls = [answered.get(call_id, {}) for call_id in document["call_ids"]]
            if not all(paid_calls):
                yield f"{name}: rests on a call that the ledger does not have"
            elif paid_calls and not all(
                _is_close(document.get(part), sum(call[part] or 0 for call in paid_calls)) for part in _USAGE
            ):
                yield f"{name}: its cost, tokens or latency are not those of its calls"


def _anchors(store: Store, study: _Document) -> Iterator[str]:
    """Yield which anchor sets were changed, and which are missing although drift judgements refer to them."""
    anchors = {anchor["_id"]: anchor for anchor in store.find_where(Anchor, study)}
    for name, anchor in anchors.items():
        parts = (anchor[part] for part in ("study", "size", "rubric_hash", "replies"))
        if not anchor_document(*parts).items() <= anchor.items():
            yield f"anchor set {name[:8]}: was changed after it was drawn"
    later = store.each_where(Annotation, {**study, "kind": "drift"}, only=("context",))
    for name in {annotation["context"] for annotation in later} - anchors.keys():
        yield f"anchor set {name[:8]}: is missing, and judgements of later days are of it"


def _human_ratings(store: Store, study: _Document) -> Iterator[str]:
    """Yield which ratings were changed, and which judgements of people are not what they rated."""
    ratings = store.find_where(HumanRating, study)
    for rating in ratings:
        if not is_as_sealed(rating):
            name = f"rating {rating['version']} by {rating['rater']} of run {rating['run_id']}"
            yield f"{name}: was changed after it was given"
    newest: dict[tuple[str, str], Rating] = {}
    for digest in {rating["rubric_hash"] for rating in ratings}:
        versions = all_ratings(store, (rating["run_id"] for rating in ratings), digest)
        newest |= {(version.run_id, str(version.judgement().call_id)): version for version in versions}
    for judgement in store.each_where(Annotation, {**study, "kind": JUDGEMENT, "model": HUMAN}):
        expected = newest.pop((judgement["run_id"], judgement["call_id"]), None)
        if expected is None or (judgement["scores"] or {}) != (expected.judgement().scores or {}):
            yield f"judgement by {judgement['judge']} of run {judgement['run_id']}: is not what the person rated"
    for expected in newest.values():
        yield f"judgement by {expected.judge} of run {expected.run_id}: is missing, and a rating gives it"


def _is_close(value: Any, expected: float) -> bool:
    return value is not None and math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-15)

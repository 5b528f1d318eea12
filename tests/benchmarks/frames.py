"""Seconds from a store of 10,000 runs with three judges each to every tidy frame, and to the status.

    python tests/benchmarks/frames.py [--runs 10000] [--rounds 3] [--keep FOLDER]

The store is filled with made-up documents of the usual size through the toolkit's own records, not by asking. Every
number is the median of ``--rounds`` fresh processes; imports, planning and opening the store are not in it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from gateway import Limit, surroundings
from server import fresh, own_cost, store_cost

if TYPE_CHECKING:
    from toolkit.study import Study

ASKED_FRAME = 2.0  # issue 7
_REASONS = "The reply names the host, isolates it and says who is told; it does not say for how long. " * 4
_REPLY = "Isolate the host, then collect memory and logs before anyone reboots it. " * 30

WORK: Mapping[str, Callable[[Study], Any]] = {
    "runs": lambda study: study.runs(),
    "runs of one length bin": lambda study: study.runs(length_bin="S"),
    "judgements": lambda study: study.judgements(),
    "judgements of one judge": lambda study: study.judgements(judge="primary"),
    "dimensions": lambda study: study.dimensions(),
    "calls": lambda study: study.calls(),
    "prompts": lambda study: study.prompts(),
    "status": lambda study: study.status(),
}


def frames_study(folder: Path, runs: int) -> Study:
    """Return a study of at least ``runs`` runs, judged by three: the 36 prompts of the demo, as often as it takes."""
    from toolkit.study import Study
    from toolkit.study_file import Judges, StudyFile
    from toolkit.study_models import Judge, ModelEntry

    judges = [Judge(name=f"judge-{letter}", provider="scripted") for letter in "abc"]
    file = StudyFile(
        name="frames",
        models=(ModelEntry(name="scripted"),),
        repeats=-(-runs // 36),
        judges=Judges(primary=judges[0], secondary=judges[1], tertiary=judges[2]),
        output=folder / "results" / "frames",
    )
    return Study(file, folder / "frames.toml")


def fill(study: Study, runs: int) -> None:
    """Write the first ``runs`` runs, what three judges said of them, and all their calls."""
    from pymongo import InsertOne

    from toolkit.judges.judgement import Judgement
    from toolkit.models.base import Answer, ModelReply, Usage
    from toolkit.runs.ledger import Claim, Ledger
    from toolkit.runs.run_state import judge_requests
    from toolkit.scoring import calculate_composite_score, composite_strict
    from toolkit.store.records import evaluation_fields, judgement_record, run_records
    from toolkit.words import DIMENSIONS

    plan, store, dice = study.plan, study.store, random.Random(1)
    store.add_prompts(plan.dataset.prompts)
    ledger = Ledger(store, study.name)
    bulk: dict[str, list[Any]] = {"calls": [], "output_blobs": [], "runs": [], "judgements": []}

    def paid(request: Any, purpose: str, text: str) -> Answer:
        usage = Usage(400, len(text) // 4)
        claim = Claim(request, purpose, 0.01)
        reply = ModelReply(text, "stop", usage, request.model, {"id": "x", "text": text})
        about = {
            "text": text, "finish_reason": "stop", "answered_by": request.model, "raw": json.dumps(reply.raw),
            "input_tokens": usage.input, "output_tokens": usage.output, "tokens_estimated": False,
            "cache_read_tokens": 0, "cache_written_tokens": 0, "aud_cost": 0.001, "latency_ms": 812.5,
            "attempts": [{"at": claim.at, "outcome": "answered", "seconds": 0.8}], "unsure_aud": 0.0,
        }  # fmt: skip
        bulk["calls"].append(InsertOne(ledger._document(claim, "done", **about)))
        return Answer(request.identity(), reply, dice.random() / 1000, 812.5 + dice.random(), 1, False)

    def flush() -> None:
        for name, operations in bulk.items():
            if operations:
                store.database[name].bulk_write(operations, ordered=False)
            bulk[name] = []

    for number, run in enumerate(plan.runs[:runs]):
        text = f"{number} {_REPLY}"
        answer = paid(run.request, "run", text)
        key = {
            "study": study.name, "test": plan.test.name, "prompt_id": run.prompt.prompt_id, "model": run.model,
            "repeat": run.repeat, "call_id": run.call_id,
        }  # fmt: skip
        fields = {
            "test_item": run.item.item_id,
            "dataset_version": plan.dataset.version,
            "prompt_length_bin": getattr(run.item.context, "length_bin", None),
            "bias_controls": {"fsp": True},
        }
        blob, record = run_records(key, fields, [answer])
        run_id = record.document["run_id"]
        said = []
        for role, spec in plan.judges.items():
            ((request,),) = judge_requests(plan, role, task=run.prompt.text, response=text, repeat=run.repeat)
            scores = {name: dice.randrange(1, 11) / 2 for name in DIMENSIONS}
            of_judge = paid(request, "judge", json.dumps({"reasons": _REASONS, **scores}))
            judgement = Judgement(
                role, spec.name, plan.rubric.name, plan.rubric.digest, scores, calculate_composite_score(scores),
                composite_strict(scores), 0, call_id=of_judge.call_id, aud_cost=of_judge.aud_cost,
                latency_ms=of_judge.latency_ms, input_tokens=400, output_tokens=90,
            )  # fmt: skip
            said.append(replace(judgement, reasons=_REASONS))
        evaluation = evaluation_fields(
            said, plan.ensemble_key, blob.document["blob_id"], fields["bias_controls"]
        )
        bulk["output_blobs"].append(InsertOne(blob.document))
        bulk["runs"].append(InsertOne({**record.document, **evaluation}))
        bulk["judgements"] += [InsertOne(judgement_record(run_id, study.name, j).document) for j in said]
        if number % 500 == 499:
            flush()
    flush()


def child(what: str, folder: Path, runs: int) -> None:
    """Make one frame in this process and print what it took as JSON."""
    study = frames_study(folder, runs)
    plan, store = study.plan, study.store  # both are made when they are first asked for
    for module in ("pandas", "toolkit.store.frames", "toolkit.runs.status"):
        importlib.import_module(module)
    before, started = _cpu(plan.store_folder), time.perf_counter()
    found = WORK[what](study)
    wall, cpu = time.perf_counter() - started, _cpu(plan.store_folder) - before
    store.close()
    server = store_cost(plan.store_folder)
    took = {"wall": wall, "cpu": cpu, "rows": len(found), "peak": own_cost().peak}
    print(json.dumps({**took, "server": server and server.peak}))


def _cpu(folder: Path) -> float:
    """Return the CPU seconds of this process and the store's server: other work on the machine changes them little."""
    server = store_cost(folder)
    return own_cost().cpu + (server.cpu if server else 0.0)


def taken(what: str, folder: Path, runs: int) -> Mapping[str, Any]:
    """Make one frame in a fresh process and return what it took."""
    found: Mapping[str, Any] = fresh(__file__, "--child", what, "--keep", str(folder), "--runs", str(runs))
    return found


@contextlib.contextmanager
def filled(folder: Path | None, runs: int) -> Iterator[Path]:
    """Fill a store in a folder, or take the one that is there; one in a temporary folder is stopped at the end."""
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        study = frames_study(place, runs)
        have = study.store.database["runs"].count_documents({})
        if not have:
            started = time.perf_counter()
            fill(study, runs)
            print(f"filled with {runs} runs in {time.perf_counter() - started:.0f} s", flush=True)
        elif have != runs:
            raise SystemExit(f"{place}: holds {have} runs, not {runs}; remove it")
        study.store.close()
        yield place
        if folder is None:
            from toolkit.store import embedded

            embedded.stop(study.plan.store_folder)


def main() -> None:
    """Measure, print the table and the limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder of a store to use again")
    parser.add_argument("--only", nargs="+", choices=tuple(WORK), default=tuple(WORK))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, options.keep, options.runs)
    print(f"{options.runs} runs, three judges each; {surroundings()}")
    medians = {}
    with filled(options.keep, options.runs) as folder:
        print(f"{'what':<26}{'rows':>7}{'s':>8}{'cpu s':>8}{'peak MB':>9}{'server MB':>11}", flush=True)
        for what in options.only:
            rounds = [taken(what, folder, options.runs) for _ in range(options.rounds)]
            medians[what] = median(one["wall"] for one in rounds)
            last = rounds[-1]
            cpu = median(one["cpu"] for one in rounds)
            server = f"{last['server']:.0f}" if last["server"] else "?"
            took = f"{medians[what]:>8.2f}{cpu:>8.2f}{last['peak']:>9.0f}{server:>11}"
            print(f"{what:<26}{last['rows']:>7}{took}", flush=True)
    if "runs" in medians:
        print("", Limit(f"frame of {options.runs} runs", medians["runs"], ASKED_FRAME, "s"), sep="\n")
    return None


if __name__ == "__main__":
    main()

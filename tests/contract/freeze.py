"""What a study says through its public surface, as plain JSON; run as a program it freezes that anew."""

import contextlib
import csv
import gzip
import io
import json
import math
import sys
import tarfile
import tempfile
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from cases import cases
from contract_studies import write_ratings, write_studies
from small_study import without_pictures

from toolkit import Study
from toolkit.cli import main

FROZEN = Path(__file__).parent / "frozen"
STORE = FROZEN / "store.tar.xz"
"""The embedded store that the three studies were kept in."""
VOLATILE, FRAMES, RESULTS, COMMANDS = cases(__file__).values()
"""What differs from one execution to the next; everything else is frozen."""
GAINED = {"statistic", "facets", "role", "status", "reason"}
"""Keys that an estimate's ``to_dict`` gained after the last freeze."""


def observed(study):
    """Return every frame and result of a study that it can give, and the line that refuses each other one."""
    found = {"status": plain(study.status())}
    run_names = _names(study)
    for name in FRAMES:
        found[f"{name}()"] = _try(lambda name=name: frame(getattr(study, name)(), run_names))
    for name in RESULTS:
        found[f"{name}()"] = _try(lambda name=name: result(getattr(study, name)()))
    found["requests"] = [[run.call_id, run.request.canonical()] for run in study.plan.runs]
    with tempfile.TemporaryDirectory() as folder:
        study.figures(folder)
        if study.plan.test.judged:
            study.statistics(folder)
        found["files"] = sorted(p.relative_to(folder).as_posix() for p in Path(folder).rglob("*.*"))
        for path in sorted(Path(folder).rglob("*.csv")):
            found[path.relative_to(folder).as_posix()] = _rows(path, run_names)
        for path in sorted(Path(folder).rglob("*.txt")):
            found[path.relative_to(folder).as_posix()] = path.read_text().splitlines()
    return found


def commands(study):
    """Return what commands print with ``--json`` on a finished study."""
    return {
        name: _call([*(word.replace("STUDY", str(study)) for word in line), "--json"])
        for name, line in COMMANDS.items()
    }


def result(found):
    """Return a result as its own ``to_dict`` and frame give it."""
    if isinstance(found, dict):
        return {str(key): result(value) for key, value in found.items()}
    both = {}
    if hasattr(found, "to_dict"):
        both["to_dict"] = plain(found.to_dict())
    for name in ("frame", "to_frame"):
        if hasattr(found, name):
            both["frame"] = frame(getattr(found, name)(), {})
    return both


def frame(table, run_names):
    """Return a frame as dtypes and rows, in an order that does not hang on which run ended first."""
    kept = table.drop(columns=[name for name in table.columns if name in {*VOLATILE} - {"run_id"}])
    if "run_id" in kept:
        kept = kept.assign(run_id=kept["run_id"].map(run_names).astype("string"))
    rows = [[plain(value) for value in row] for row in kept.itertuples(index=False, name=None)]
    return {
        "dtypes": [[str(name), str(dtype)] for name, dtype in table.dtypes.items()],
        "rows": sorted(rows, key=lambda row: json.dumps(row, default=str)),
    }


def plain(value):
    """Return JSON types alone, without what differs from one execution to the next."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items() if key not in VOLATILE}
    if isinstance(value, list | tuple | set):
        return [plain(inner) for inner in (sorted(value) if isinstance(value, set) else value)]
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool) else str(value)


def differences(then, now, place=""):
    """Return where two observations differ by more than rounding, a line each."""
    if isinstance(then, dict) and isinstance(now, dict):
        lines = [f"{place}: {key!r} is gone" for key in then if key not in now]
        lines += [f"{place}: {key!r} is new" for key in now if key not in then and key not in GAINED]
        return lines + [
            line
            for key in then
            # Of what is left there is no time any more when the rate's five minutes are over, as on a busy machine.
            if key in now and key != "seconds_left"
            for line in differences(then[key], now[key], f"{place}/{key}")
        ]
    if isinstance(then, list) and isinstance(now, list):
        if len(then) != len(now):
            return [f"{place}: {len(then)} entries were, {len(now)} are"]
        pairs = enumerate(zip(then, now, strict=True))
        return [line for number, (a, b) in pairs for line in differences(a, b, f"{place}[{number}]")]
    numbers = isinstance(then, int | float) and isinstance(now, int | float)
    if then == now or (numbers and math.isclose(then, now, rel_tol=1e-8, abs_tol=1e-10)):
        return []
    return [f"{place}: {then!r} was, {now!r} is"]


@without_pictures()
def make(folder, without=()):
    """Run the studies in a folder and return everything that is frozen of them; pictures are not, nor drawn."""
    found = {}
    for name, path in write_studies(folder).items():
        if name in without:
            continue
        study = Study.load(path)
        study.run(progress=False)
        if name == "gaps":
            ids = [run_id for run_id, _ in sorted(_names(study).items(), key=lambda pair: pair[1])]
            _call(["ratings", "import", str(path), str(write_ratings(folder / "people.csv", ids[:24]))])
        found[name] = observed(study)
        study.store.close()
    return found if "whole" in without else found | {"commands": commands(folder / "whole.toml")}


def read(name):
    """Return what is frozen under a name."""
    return json.loads(gzip.decompress((FROZEN / f"{name}.json.gz").read_bytes()))


def _names(study):
    runs = study.runs()
    keys = runs[["prompt_id", "model", "repeat"]].astype(str).agg("/".join, axis=1)
    return dict(zip(runs["run_id"], keys, strict=True))


def _rows(path, run_names):
    with path.open(newline="") as stream:
        found = [row for row in csv.reader(stream) if not any("latency" in cell for cell in row)]
    rows = [[_number(run_names.get(cell, cell)) for cell in row] for row in found]
    return [rows[0], *sorted(rows[1:], key=lambda row: json.dumps(row))] if rows else []


def _number(cell):
    try:
        return float(cell)
    except ValueError:
        return cell


def _call(arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            main(arguments)
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
    text = out.getvalue()
    return {"exit_code": code, "json": plain(json.loads(text)) if text.startswith("{") else None}


def _try(call):
    from toolkit.errors import ToolkitError

    try:
        return call()
    except ToolkitError as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    from toolkit.store import embedded

    FROZEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, content in make(Path(scratch)).items():
            text = json.dumps(content, sort_keys=True, separators=(",", ":"))
            (FROZEN / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        embedded.stop(Path(scratch) / "results" / ".store")
        if not STORE.exists():  # the older it is, the more it shows
            with tarfile.open(STORE, "w:xz") as archive:
                archive.add(Path(scratch) / "results" / ".store", "results/.store")

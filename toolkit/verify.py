"""Verify a study: hold its runs, judgements, figures and bundle against what its ledger gives."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolkit.errors import InputError
from toolkit.plan import STORE
from toolkit.report.bundle.sums import MANIFEST, differing_files
from toolkit.words import Summary, counted

if TYPE_CHECKING:
    from toolkit.study import Study

_DRAWN: Final = ("figures", "tables", "statistics")
_BUNDLE: Final = "bundle"


def verify_study(study: Study) -> Summary:
    """Make a study again from its ledger in a store of its own, and hold everything that is kept against it.

    Nobody is asked and nothing is changed. Figures and tables are drawn again and compared byte by byte, a bundle is
    also held against the SHA-256 of its manifest.
    """
    from toolkit.store.records import counts_of

    runs, judgements = counts_of(study.store, study.name, study.plan.call_ids)
    if not runs:
        raise InputError(
            f"study {study.name}: has no run in its store, so there is nothing to verify; run it first"
        )
    found = [*_records(study)]
    places = [place for place in (study.output, study.output / _BUNDLE) if _files(place)]
    drawn = 0
    if places:
        with tempfile.TemporaryDirectory() as folder:
            study.figures(Path(folder))
            if any((place / "statistics").is_dir() for place in places) and study.frames().is_judged:
                study.statistics(Path(folder))
            for place in places:
                found += _differing(place, Path(folder), study.output)
                drawn += len(_files(place))
    bundle = study.output / _BUNDLE
    if (bundle / MANIFEST).is_file():
        found += [f"{_BUNDLE}/{line}" for line in differing_files(bundle)]
        found += [f"{_BUNDLE}/{MANIFEST}: {line}" for line in _other_inputs(study, bundle / MANIFEST)]
    said = f"{runs} runs and {judgements} judgements"
    said += f", {drawn} files of figures and tables" if drawn else ", no figures there"
    said += ", and the bundle" if (bundle / MANIFEST).is_file() else ""
    verdict = counted(len(found), "differences") if found else "all as the ledger gives"
    fields = {"study": study.name, "runs": runs, "judgements": judgements, "files": drawn}
    fields |= {"differences": found, "agrees": not found}
    return Summary(fields, "\n".join([*found, f"study {study.name}: {said}: {verdict}"]), 1 if found else 0)


def _records(study: Study) -> list[str]:
    """Return what differs in the store from a replay of its ledger in an empty one."""
    from toolkit.pipeline import run_plan
    from toolkit.store import embedded
    from toolkit.store.connection import Store
    from toolkit.store.records import copy_ledger, differing_records

    ids = study.plan.call_ids
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / STORE
        # Never the server that MONGODB_URI names: what is rebuilt must not meet what is kept.
        rebuilt = Store(embedded.address(folder), folder)
        try:
            copy_ledger(study.store, rebuilt)
            run_plan(study.plan, rebuilt, progress=False, replay=True)
            return list(differing_records(study.store, rebuilt, study.name, ids))
        finally:
            rebuilt.close()
            embedded.stop(folder)


def _files(place: Path) -> list[Path]:
    """Return the files of figures and tables in an output folder, without the LaTeX that a bundle adds to figures."""
    found = [path for name in _DRAWN for path in sorted((place / name).glob("*")) if path.is_file()]
    return [path for path in found if not (path.parent.name == "figures" and path.suffix == ".tex")]


def _differing(place: Path, drawn: Path, output: Path) -> Iterator[str]:
    for path in _files(place):
        name, again = path.relative_to(output), drawn / path.relative_to(place)
        if not again.is_file():
            yield f"{name}: the study does not give it now"
        elif again.read_bytes() != path.read_bytes():
            yield f"{name}: differs from what the study gives now"


def _other_inputs(study: Study, path: Path) -> Iterator[str]:
    """Yield which inputs of a bundle are not those of the study as it stands."""
    then = json.loads(path.read_text(encoding="utf-8")).get("inputs", {})
    now = {
        "study_file": hashlib.sha256(study.path.read_bytes()).hexdigest(),
        "dataset": study.plan.dataset.digest,
        "rubric": study.plan.rubric.digest,
    }
    for name, digest in now.items():
        if then.get(name, {}).get("sha256") != digest:
            yield f"made from another {name.replace('_', ' ')}"

"""Verify a study: hold its runs, judgements, figures and bundle against what its ledger gives."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.errors import InputError
from toolkit.plan import STORE
from toolkit.report.manifest import MANIFEST, differing_files
from toolkit.report.show import NothingToShow
from toolkit.store.crate import differing_export
from toolkit.store.writer import is_as_sealed
from toolkit.words import Summary, counted, one_line

if TYPE_CHECKING:
    from toolkit.study import Study

_DRAWN: Final = ("figures", "tables", "statistics")
_BUNDLE: Final = "bundle"


def verify_study(study: Study, export: Path | None = None) -> Summary:
    """Make a study again from its ledger in a store of its own, and hold everything that is kept against it.

    Nobody is asked and nothing is changed. The ledger is held against itself, figures and tables are drawn again and
    compared byte by byte, a bundle is also held against the SHA-256 of its manifest, and a folder of `toolkit export`
    against its sums and against what would be exported now.
    """
    from toolkit.audit.consistency import contradictions
    from toolkit.audit.rebuilt import counts_of

    runs, judgements = counts_of(study.store, study.name, study.plan.call_ids)
    if not runs:
        raise InputError(
            f"study {study.name}: has no run in its store, so there is nothing to verify; run it first"
        )
    found = [*_records(study), *contradictions(study.plan, study.store)]
    found += _each_of_files(study, _figures, found)
    drawn = sum(len(_files(place)) for place in _places(study))
    bundle = study.output / _BUNDLE
    has_bundle = (bundle / MANIFEST).is_file()
    if has_bundle:
        found += [f"{_BUNDLE}/{line}" for line in differing_files(bundle)]
        found += [f"{_BUNDLE}/{MANIFEST}: {line}" for line in _other_inputs(study, bundle / MANIFEST)]
    if export is not None:
        found += [f"{export.name}/{line}" for line in differing_export(export)]
        found += _each_of_files(study, partial(_exported, export=export), found)
    said = f"{runs} runs and {judgements} judgements"
    said += f", {drawn} files of figures and tables" if drawn else ", no figures there"
    said += ", and the bundle" if has_bundle else ""
    said += f", and the export {export.name}" if export else ""
    verdict = counted(len(found), "differences") if found else "all as the ledger gives"
    fields = {"study": study.name, "runs": runs, "judgements": judgements, "files": drawn}
    fields |= {"differences": found, "agrees": not found}
    return Summary(fields, "\n".join([*found, f"study {study.name}: {said}: {verdict}"]), 1 if found else 0)


def _each_of_files(
    study: Study, compare: Callable[[Study, Path], Iterator[str]], found: Sequence[str]
) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return list(compare(study, Path(folder)))
        except Exception as error:
            if not found:
                raise
            # A store that is not what its ledger gives may be one of which nothing can be drawn.
            return [f"figures, tables and frames cannot be made of this store ({one_line(str(error), 200)})"]


def _records(study: Study) -> list[str]:
    from toolkit.audit.rebuilt import copy_ledger, differing_records
    from toolkit.pipeline import run_plan
    from toolkit.store import embedded
    from toolkit.store.connection import Store

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


def _places(study: Study) -> list[Path]:
    return [place for place in (study.output, study.output / _BUNDLE) if _files(place)]


def _figures(study: Study, folder: Path) -> Iterator[str]:
    if places := _places(study):
        with suppress(NothingToShow):  # whatever figures show, no run of this store gives it
            study.figures(folder)
        if any((place / "statistics").is_dir() for place in places) and study.frames().is_judged:
            study.statistics(folder)
    for place in places:
        yield from _differing(place, folder, study.output)


def _exported(study: Study, folder: Path, export: Path) -> Iterator[str]:
    from toolkit.audit.export import export_study

    export_study(study, folder)
    # Parquet files and what lists all files name packages and commit; the records are the same under every version.
    same = _made_by(export) == _made_by(folder)
    for again in sorted(folder.iterdir()):
        path = export / again.name
        if (
            (same or path.suffix in (".csv", ".zip"))
            and path.is_file()
            and path.read_bytes() != again.read_bytes()
        ):
            yield f"{export.name}/{again.name}: is not what the study gives now"


def _made_by(export: Path) -> Any:
    """Return the versions that an export was written under; of a manifest that cannot be read the sums tell."""
    try:
        manifest = json.loads((export / MANIFEST).read_text(encoding="utf-8"))
        return manifest["versions"], manifest["commit"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


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
    """Yield which inputs of a bundle are not those of the study as it stands, and whether its manifest was edited."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    if not is_as_sealed(whole):
        yield "was changed after it was written"
    then = whole.get("inputs", {})
    now = {
        "study_file": hashlib.sha256(study.path.read_bytes()).hexdigest(),
        "dataset": study.plan.dataset.digest,
        "rubric": study.plan.rubric.digest,
    }
    for name, digest in now.items():
        if then.get(name, {}).get("sha256") != digest:
            yield f"made from another {name.replace('_', ' ')}"

"""Verify a study: compare its runs, judgements, figures, bundle and export with what its ledger gives."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.audit.export import differing_export, export_study
from toolkit.errors import InputError
from toolkit.plan import STORE
from toolkit.report.manifest import MANIFEST, differing_files
from toolkit.report.show import NothingToShow
from toolkit.store.writer import is_as_sealed
from toolkit.words import Summary, counted, one_line

if TYPE_CHECKING:
    from toolkit.study import Study

_KINDS: Final = ("figures", "tables", "statistics")
_BUNDLE: Final = "bundle"


def verify_study(study: Study, export: Path | None = None) -> Summary:
    """Make a study again from its ledger in a store of its own, and compare everything that is stored with it.

    Nobody is asked and nothing is changed. The ledger is compared with itself, figures and tables are drawn again and
    compared byte by byte, a bundle also with the SHA-256 of its manifest, and a folder of `toolkit export` with its
    sums and with what would be exported now.
    """
    from toolkit.audit.consistency import contradictions
    from toolkit.audit.rebuilt import counts_of

    runs, judgements = counts_of(study.store, study.name, study.plan.call_ids)
    if not runs:
        message = "has no run in its store, so there is nothing to verify; run it first"
        raise InputError(f"study {study.name}: {message}")
    differences = [*_records(study), *contradictions(study.plan, study.store)]
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
    from toolkit.audit.rebuilt import differing_records
    from toolkit.pipeline import run_plan
    from toolkit.store import embedded
    from toolkit.store.connection import Store
    from toolkit.store.documents import Call

    ids = study.plan.call_ids
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / STORE
        # Never the server that MONGODB_URI names: what is rebuilt must not meet what is stored.
        rebuilt = Store(embedded.address(folder), folder)
        try:
            # Every call that has ended, also of other studies: one of them may have paid.
            study.store.copy_into(rebuilt, Call, {"state": {"$in": ["done", "failed"]}})
            run_plan(study.plan, rebuilt, progress=False, replay=True)
            return list(differing_records(study.store, rebuilt, study.name, ids))
        finally:
            rebuilt.close()
            embedded.stop(folder)


def _output_folders(study: Study) -> list[Path]:
    return [folder for folder in (study.output, study.output / _BUNDLE) if _files(folder)]


def _figures(study: Study, drawn: Path) -> Iterator[str]:
    if folders := _output_folders(study):
        with suppress(NothingToShow):  # whatever figures show, no run of this store gives it
            study.figures(drawn)
        if any((folder / "statistics").is_dir() for folder in folders) and study.frames().is_judged:
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

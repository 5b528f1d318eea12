"""The thesis bundle of a study in hand: draw everything, write the methods from what was done, seal it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import InputError

if TYPE_CHECKING:
    from toolkit.workbench import Study


def bundle_study(study: Study, folder: Path | str | None = None) -> list[Path]:
    """Write the thesis bundle of a study: figures, tables, methods, references and a document that compiles.

    Parameters
    ----------
    study
        The study in hand.
    folder
        Where; ``bundle/`` in the study's output folder when not given.

    Returns
    -------
    list of Path
        Every file of the bundle, ``manifest.json`` last.

    Raises
    ------
    InputError
        When no run has succeeded yet, or the folder holds something else under the names of the bundle.
    """
    from toolkit.report.bundle.bundle import words_of, write_bundle
    from toolkit.report.bundle.methods import methods_section
    from toolkit.report.bundle.sums import MANIFEST, read_sums
    from toolkit.runs.asked import asked_models

    place = Path(folder) if folder is not None else study.output / "bundle"
    if place.exists() and not place.is_dir():
        raise InputError(f"{place}: is a file; a bundle needs a folder")
    if (place / MANIFEST).exists():
        read_sums(place / MANIFEST)
    status = study.status()
    if not status["done"]:
        raise InputError(
            f"study {study.name}: no run has succeeded yet, so there is nothing to bundle; run it first"
        )
    drawn = study.figures(place)
    if study.plan.test.judged and study.runs()["judged"].any():
        drawn += study.statistics(place)
    calls = study.judgements()["call_id"].dropna() if study.plan.test.judged else ()
    asked = asked_models(study.plan, study.store, calls)
    manifest = study.manifest()
    section = methods_section(study.plan, asked, status, manifest, words_of(drawn))
    return write_bundle(place, drawn, section, manifest)

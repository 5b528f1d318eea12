"""The commands `toolkit export` and `toolkit import`: a study as files, and its records into another store."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.commands.common import STUDY, finish, json_option


@click.command()
@STUDY
@click.argument("out", type=click.Path(path_type=Path))
@json_option
def export(study: Path, out: Path, as_json: bool) -> int:
    """Write every frame of STUDY into the folder OUT: CSV, Parquet, archive, data dictionary and manifest."""
    from toolkit.workbench import Study
    from toolkit.workbench.exporting import export_study

    return finish(export_study(Study.load(study), out), as_json)


@click.command(name="import")
@click.argument("archive", type=click.Path(path_type=Path))
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    metavar="RESULTS",
    help="Results folder with the store; MONGODB_URI, where it is set, names another.",
)
@json_option
def import_(archive: Path, into: Path, as_json: bool) -> int:
    """Add the records of ARCHIVE, which `toolkit export` wrote, to a store; what is there stays as it is."""
    from toolkit.workbench.exporting import import_archive

    return finish(import_archive(archive, into), as_json)

"""The commands `toolkit export` and `toolkit import`: a study as files, and its records into another store."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.commands.common import STUDY, finish, json_option


@click.command(short_help="Write all frames of STUDY as CSV and Parquet, and its archive.")
@STUDY
@click.argument("out", type=click.Path(path_type=Path))
@json_option
def export(study: Path, out: Path, as_json: bool) -> int:
    """Write every frame of STUDY into the folder OUT: CSV, Parquet, archive, data dictionary and manifest."""
    from toolkit.export import export_study
    from toolkit.study import Study

    return finish(export_study(Study.load(study), out), as_json)


@click.command(name="import", short_help="Add the records of an archive to a store.")
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
    """Add the records of ARCHIVE, which `toolkit export` wrote, to a store; older ones are brought up to date.

    A store that contradicts ARCHIVE (another reply to the same call, say) is left as it is. Then put the study file,
    with the rubric and dataset it names, beside RESULTS: status, figures and notebooks read the records there.
    """
    from toolkit.export import import_archive

    return finish(import_archive(archive, into), as_json)

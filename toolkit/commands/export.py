"""The command `toolkit export`: the frames of a study as files."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.commands.common import STUDY, finish, json_option


@click.command()
@STUDY
@click.argument("out", type=click.Path(path_type=Path))
@json_option
def export(study: Path, out: Path, as_json: bool) -> int:
    """Write every frame of STUDY into the folder OUT: CSV, Parquet, data dictionary and manifest."""
    from toolkit.exporting import export_study
    from toolkit.workbench import Study

    return finish(export_study(Study.load(study), out), as_json)

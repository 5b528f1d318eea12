"""The command `toolkit batch`: a template over a grid of parameters, each notebook once."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.commands.common import finish, json_option

_SECONDS = click.FloatRange(min=0, min_open=True)


@click.command(short_help="Run a notebook template over a grid of parameters.")
@click.argument("template", type=click.Path(path_type=Path))
@click.argument("grid", metavar="GRID.toml", type=click.Path(path_type=Path))
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Notebooks at the same time; by default one a core.",
)
@click.option("--retry", is_flag=True, help="Run those again that failed before.")
@click.option("--timeout", type=_SECONDS, metavar="S", help="Seconds that a notebook may take.")
@click.option(
    "--cell-timeout", type=_SECONDS, metavar="S", help="Seconds that each cell of a notebook may take."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of notebooks, records and summary; results/batches/GRID beside the grid by default.",
)
@click.option(
    "--cluster", metavar="ADDRESS", help="Run on the workers of the Dask cluster with this scheduler."
)
@json_option
def batch(
    template: Path,
    grid: Path,
    workers: int | None,
    retry: bool,
    timeout: float | None,
    cell_timeout: float | None,
    out: Path | None,
    cluster: str | None,
    as_json: bool,
) -> int:
    """Run TEMPLATE once for each cell of the grid GRID.toml; what is done is not run again."""
    from toolkit.batch import run_batch

    result = run_batch(
        template,
        grid,
        out=out,
        workers=workers,
        retry=retry,
        timeout=timeout,
        cell_timeout=cell_timeout,
        cluster=cluster,
    )
    return finish(result.summary(), as_json)

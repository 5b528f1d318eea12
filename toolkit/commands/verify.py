"""The command `toolkit verify`: expected against actual."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from toolkit.commands.common import finish, json_option


@click.command(short_help="Hold STUDY against its ledger; --statistics: simulate.")
@click.argument("study", required=False, type=click.Path(path_type=Path))
@click.option(
    "--statistics", is_flag=True, help="Simulate studies with a known truth through every statistic."
)
@click.option(
    "--studies",
    default=1000,
    show_default=True,
    type=click.IntRange(min=1),
    help="Simulated studies of each check and setting.",
)
@click.option("--only", metavar="NAME", help="Only the checks whose name or function contains NAME.")
@click.option("--seed", default=20261121, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--processes", type=click.IntRange(min=1), help="Processes at work; as many as cores by default."
)
@click.option("--out", type=click.Path(path_type=Path), help="Write the table as Markdown into this file.")
@json_option
def verify(
    study: Path | None,
    statistics: bool,
    studies: int,
    only: str | None,
    seed: int,
    processes: int | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Hold STUDY against its ledger, or with --statistics the statistics against a known truth.

    Of STUDY, runs, judgements, figures and bundle are made again from the ledger. With --statistics it is tabled how
    often intervals hold the truth and tests reject it, and whole scripted studies are held to expected tables.
    """
    if (study is None) != statistics:
        raise click.UsageError("give either STUDY or --statistics: which of the two is to be verified")
    if study is not None:
        from toolkit.study import Study
        from toolkit.verify.study import verify_study

        return finish(verify_study(Study.load(study)), as_json)
    from toolkit.verify.command import verify_statistics

    progress = _progress if sys.stderr.isatty() else None
    summary = verify_statistics(
        studies=studies, only=only, seed=seed, processes=processes, out=out, progress=progress
    )
    return finish(summary, as_json)


def _progress(done: int, of: int) -> None:
    click.echo(f"\rblocks of studies: {done} of {of}", err=True, nl=done == of)

"""The commands `toolkit prompts ...`: the dataset of a study."""

from __future__ import annotations

import click

from toolkit.commands.common import finish, json_option


@click.group()
def prompts() -> None:
    """Check the prompts of a study."""


@prompts.command(short_help="Name every flaw that would confound prompt lengths.")
@click.argument("dataset", metavar="DATASET")
@json_option
def check(dataset: str, as_json: bool) -> int:
    """Check DATASET (demo, a folder of bases, a CSV or a JSONL) for all that would confound prompt lengths.

    One line a problem: the prompt, what is wrong, what to do. Exit code 1 when there is one.
    """
    from toolkit.prompts.check import check_summary

    return finish(check_summary(dataset), as_json)

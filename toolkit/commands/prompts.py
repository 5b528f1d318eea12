"""The commands `toolkit prompts ...`: the dataset of a study."""

from __future__ import annotations

import click

from toolkit.commands.common import finish, json_option


@click.group()
def prompts() -> None:
    """Check the prompts of a study."""


@prompts.command(short_help="Name every flaw that would confound prompt lengths.")
@click.argument("dataset", metavar="DATASET")
@click.option("--all", "every", is_flag=True, help="Show every problem, not three of each kind.")
@json_option
def check(dataset: str, every: bool, as_json: bool) -> int:
    """Check DATASET (demo, a folder of bases, a CSV or a JSONL) for all that would confound prompt lengths.

    Kinds of problems with counts and examples: the prompt, what is wrong, what to do. Exit code 1 when there is one.
    """
    from toolkit.prompts.check import check_summary

    return finish(check_summary(dataset, every=every), as_json)

"""What the modules of the command line share: the study argument, ``--json``, and how a command ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from toolkit.summary import Summary
from toolkit.viewer.visible import visible

STUDY = click.argument("study", type=click.Path(path_type=Path))


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option ``--json``, which it gets as ``as_json``."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object on standard output, progress on standard error.",
    )(command)


def finish(summary: Summary, as_json: bool) -> int:
    """Print what a command has to say, and return its exit code."""
    if as_json:
        # In ASCII, which every terminal, pipe and file takes, whatever is in a path or a text of a server.
        click.echo(json.dumps(summary.fields, default=str, allow_nan=False))
    else:
        click.echo(visible(summary.text))  # models, servers and files may have had a hand in it
    return summary.exit_code

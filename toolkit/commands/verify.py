"""The command `toolkit verify`: a study held against its ledger."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.commands.common import finish, json_option


@click.command(short_help="Hold STUDY against what its ledger gives.")
@click.argument("study", type=click.Path(path_type=Path))
@json_option
def verify(study: Path, as_json: bool) -> int:
    """Make runs, judgements, figures and bundle of STUDY again from its ledger and name every difference."""
    from toolkit.study import Study
    from toolkit.verify import verify_study

    return finish(verify_study(Study.load(study)), as_json)

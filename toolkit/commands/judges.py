"""The commands `toolkit judges ...`: how far the judges of a study can be trusted."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.commands.common import STUDY, finish, json_option


@click.group()
def judges() -> None:
    """Measure the judges of a study."""


@judges.command()
@STUDY
@click.option(
    "--replies", default=12, show_default=True, type=click.IntRange(min=1), help="Stored replies to alter."
)
@click.option(
    "--attacks",
    default=3,
    show_default=True,
    type=click.IntRange(min=0),
    help="Attacks in each reply, dealt from the set in turn.",
)
@click.option(
    "--figures", type=click.Path(path_type=Path), help="Write a card of each judge into this folder."
)
@click.option("--yes", is_flag=True, help="Spend more than budget.confirm_above_aud without being asked.")
@json_option
def probe(study: Path, replies: int, attacks: int, figures: Path | None, yes: bool, as_json: bool) -> int:
    """Ask the judges of STUDY about altered replies: padded, with an error, shuffled, with an attack inside."""
    from toolkit.asking import confirm_asking
    from toolkit.judge_checks import probe_bench, probe_judges, probe_targets, write_cards
    from toolkit.judges.probes import probe_requests
    from toolkit.workbench import Study

    loaded = Study.load(study)
    plan, store = loaded.plan, loaded.store
    if not yes:
        targets = probe_targets(plan, store, replies=replies, attacks=attacks)
        confirm_asking(plan, store, probe_requests(probe_bench(plan), targets))
    result = probe_judges(plan, store, replies=replies, attacks=attacks)
    return finish(result.summary(write_cards(loaded, result, figures) if figures else ()), as_json)

"""The command `toolkit hallucination`: how far the judges of a study can be trusted with hallucinations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.commands.common import finish, json_option

if TYPE_CHECKING:
    from toolkit.judges.hallucination import Mode

MODES = ("boolean", "cot-seed", "cot", "score")  # spelled out: importing them would make --help slow


@click.command(short_help="Compare judges on answers with known labels.")
@click.argument("file", metavar="FILE", type=str)
@click.option("--study", required=True, type=click.Path(path_type=Path), help="Whose judges are compared.")
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(MODES),
    help="As often as there are modes; cot by default.",
)
@click.option("--k", default=5, show_default=True, type=click.IntRange(1, 1000), help="Votes on each item.")
@click.option(
    "--limit", type=click.IntRange(min=1), help="Only N items, labels as in FILE, drawn by the study's seed."
)
@click.option("--figures", type=click.Path(path_type=Path), help="Write figure and tables into this folder.")
@click.option("--yes", is_flag=True, help="Spend more than budget.confirm_above_aud without being asked.")
@json_option
def hallucination(
    file: str,
    study: Path,
    modes: tuple[Mode, ...],
    k: int,
    limit: int | None,
    figures: Path | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Compare the judges of a study on the labelled set FILE: a path, or "security", which ships."""
    from toolkit.asking import confirm_asking
    from toolkit.judge_checks import compare_hallucination, comparison_requests
    from toolkit.judges.labelled import read_items, some_items
    from toolkit.workbench import Study

    loaded = Study.load(study)
    items = some_items(read_items(file), limit, loaded.file.seed)
    asked: tuple[Mode, ...] = modes or ("cot",)
    if not yes:
        confirm_asking(loaded.plan, loaded.store, comparison_requests(loaded.plan, items, asked, k))
    found = compare_hallucination(loaded.plan, loaded.store, items, asked, k)
    return finish(found.summary(found.figures(figures) if figures else ()), as_json)

"""The commands `toolkit ratings`: what people say of replies."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.commands.common import STUDY, finish, json_option


@click.group(short_help="Bring in ratings by people.")
def ratings() -> None:
    """Ratings by people: bring them in from a file (notebooks/03_rate_answers gives them one by one)."""


@ratings.command(name="import")
@STUDY
@click.argument("file", metavar="FILE.csv", type=click.Path(path_type=Path))
@click.option("--rater", help="Whose ratings these are, where FILE.csv has no column rater.")
@json_option
def import_file(study: Path, file: Path, rater: str | None, as_json: bool) -> int:
    """Keep the ratings in FILE.csv (run_id, rater, dimension and score, or a column each) as judgements of STUDY."""
    from toolkit.people.ratings_file import import_ratings
    from toolkit.study import Study

    loaded = Study.load(study)
    return finish(import_ratings(loaded.plan, loaded.store, file, rater).summary(), as_json)

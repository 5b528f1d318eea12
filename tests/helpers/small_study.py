"""A small study by scripted models, of six runs, or without its one scenario of thirty-six; people may rate it."""

import contextlib
import csv
from unittest.mock import patch

from toolkit.store import embedded
from toolkit.study import Study

STUDY = """
name = "small"
models = [{{ name = "scripted" }}]
output = "results/small"
scenarios = ["CTI_ANALYSIS"]
{settings}
[judges]
primary = {{ name = "judge-a", provider = "scripted" }}
secondary = {{ name = "judge-b", provider = "scripted" }}
tertiary = {{ name = "judge-c", provider = "scripted" }}
{judges}
"""
CTI_ONLY = 'scenarios = ["CTI_ANALYSIS"]'
COLUMNS = ("prompt_id", "text", "scenario", "category", "length_bin", "base")


def write_prompts(path, prompts, encoding="utf-8"):
    """Write prompts as a dataset of one file, and return its path."""
    with path.open("w", newline="", encoding=encoding) as sink:
        writer = csv.writer(sink)
        writer.writerow(COLUMNS)
        columns = [column.replace("length_bin", "level") for column in COLUMNS]
        writer.writerows([getattr(prompt, column) for column in columns] for prompt in prompts)
    return path


def finished_study(folder, limit=None):
    """Run two bases at three length bins by scripted models, judged by three; stop the store at the end."""
    path = folder / "small.toml"
    path.write_text(STUDY.format(settings="", judges=""))
    return executed(path, limit)


@contextlib.contextmanager
def executed(path, limit=None):
    """Run the study of a file; close it and stop its store at the end."""
    study = Study.load(path)
    try:
        study.execute(progress=False, limit=limit)
        yield study
        study.close()
    finally:
        embedded.stop(study.plan.store_folder)


def served_study(folder, server, text):
    """Load a small study whose judges are asked at a server, with schemas and at a price."""
    at = f'provider = "openai", base_url = "{server.openai_url}", structured = true'
    at += ", usd_per_million_input = 1.0, usd_per_million_output = 1.0"
    path = folder / "study.toml"
    path.write_text(text.replace('provider = "scripted"', at))
    return Study.load(path)


@contextlib.contextmanager
def without_pictures():
    """Have figures drawn without a layout, a sixth of their time, and their files hold the name of their kind alone."""
    with (
        patch("toolkit.report.figure.render", lambda figure, kind, **_: f"<{kind}/>".encode()),
        patch("matplotlib.layout_engine.ConstrainedLayoutEngine.execute", lambda *_: None),
    ):
        yield


def clear_of_people(study):
    """Take everything that people said out of the store."""
    for name in ("human_ratings", "rating_rounds"):
        study.store.database[name].delete_many({})
    study.store.database["annotations"].delete_many({"model": "human"})

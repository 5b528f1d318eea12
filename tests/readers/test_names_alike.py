"""Names that look alike: refused with what to write wherever a study, a dataset or a frame has them."""

import json

import pandas as pd
import pytest
from refusals import refusal

from toolkit.hallucination.labelled import read_items
from toolkit.keyed.table import load_keyed
from toolkit.prompt_test import TestItem
from toolkit.prompts.dataset import load_dataset
from toolkit.stats.comparisons.missing_data import ceiling
from toolkit.stats.comparisons.models import compare_models
from toolkit.study_file import load_study_file
from toolkit.words import visible_name

TWINS = ["sou\u200brce", "so\u00a0urce", "so\u00adurce", "sou\u0308rce"]


MODEL = '{ name = "NAME", provider = "scripted" }'


def study_of(lines):
    def load(folder, name):
        (folder / "study.toml").write_text(f'name = "a"\n{lines.replace("NAME", name)}\n')
        load_study_file(folder / "study.toml")

    return load


def row_of(read, key, **row):
    def load(folder, name):
        (folder / "t.jsonl").write_text(json.dumps(row | {key: name, "question": "What?", "answer": "x"}))
        read(folder / "t.jsonl")

    return load


def prompt_of(key):
    def load(folder, name):
        row = {
            "prompt_id": "a_s",
            "text": "What?",
            "scenario": "X",
            "category": "c",
            "length_bin": "S",
            "base": "a",
        }
        (folder / "set.json").write_text(json.dumps([row | {key: name}]))
        load_dataset(folder / "set.json", check_ranges=False)

    return load


def frame_of(column, analysis):
    def compare(folder, name):
        rows = [(f"b{n}", model, float(n % 3)) for n in range(6) for model in ("source", "b")]
        frame = pd.DataFrame(rows, columns=["base", "model", "composite_strict"]).assign(level="S")
        frame.loc[3, column], frame.loc[5, column] = name, visible_name(name)
        analysis(frame)

    return compare


READERS = {
    "a model": study_of(f"models = [{MODEL}]"),
    "a judge": study_of(f'models = ["scripted"]\njudges = {{ primary = {MODEL} }}'),
    "keyed": row_of(load_keyed, "id"), "labelled": row_of(read_items, "item_id", hallucinated="yes"),
    **{key: prompt_of(key) for key in ("prompt_id", "base", "scenario", "category")},
    "item": lambda _, name: TestItem(name, ()), "category of an item": lambda _, name: TestItem("a", (), category=name),
    "models of a frame": frame_of("model", compare_models), "bases of a frame": frame_of("base", compare_models),
    "bases of another": frame_of("base", ceiling),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", TWINS)
def test_a_name_that_is_not_as_it_is_seen_is_refused(tmp_path, reader, name):
    """In one line that shows what is not seen, and says what to write; the plain name is taken."""
    READERS[reader](tmp_path, "source")
    line = refusal("write", READERS[reader], tmp_path, name)
    assert ascii(name)[1:-1] in line

"""Every study file of docs/reference/published_sets.md reads a table in the shape of its set, written for this test."""

import json
import re
import tomllib

import pytest
from cases import cases
from places import DOCS

from toolkit.keyed.scorers import SCORERS, check_table, scorer
from toolkit.keyed.table import KeyedItem, load_keyed
from toolkit.study_file import StudyFile

CASES = cases(__file__)

SETS, REFUSALS, TABLES = (
    (DOCS / f"{name}.md").read_text(encoding="utf-8")
    for name in ("reference/published_sets", "how_to/refusals", "reference/keyed_tables")
)
STUDIES = re.findall(r"```toml\n(.*?)```", SETS + REFUSALS, re.DOTALL)
SHAPES = CASES["shapes"]  # fmt: skip


EXPECTED = {
    name: KeyedItem(number, prompt, tuple(options), *more)
    for name, (number, prompt, options, *more) in CASES["expected"].items()
}
"""The first item of each set."""


@pytest.mark.parametrize("text", STUDIES, ids=[tomllib.loads(text)["name"] for text in STUDIES])
def test_study_files_of_the_page(text, tmp_path):
    assert len(text.splitlines()) <= 11
    study = StudyFile.model_validate(tomllib.loads(text))
    assert study.test == "keyed"
    assert [entry.spec.model for entry in study.under_test]
    content = SHAPES[study.dataset]
    path = tmp_path / study.dataset
    if isinstance(content, str):
        path.write_text(content)
    else:
        path.write_text(json.dumps(content[0] if path.suffix == ".jsonl" else content))
    table = load_keyed(path, study.options.get("columns"))
    assert table.items[0] == EXPECTED[study.dataset]
    assert set(study.options) <= {"scorer", "columns", "licence"}
    if study.options["scorer"] == "refusal":
        assert table.items[0].answer is None
    else:
        named = scorer(study.options["scorer"], tmp_path, table.items)
        check_table(table, named)
        asked = f"{table.items[0].prompt}\n{named.form(table.items[0], table.items[0].options)}"
        assert "{" not in asked.replace('{"answer": "X"}', "")


def test_every_set_has_its_study_file():
    assert {tomllib.loads(text)["dataset"] for text in STUDIES} == set(SHAPES)
    scorers = TABLES.partition("## Scorers")[2]
    assert re.findall(r"^\| `(\w+)` \| [^|]* \| `\w+`", scorers, re.MULTILINE) == [
        *("choice", "set", "label", "yes_no", "number", "identifier", "cvss", "refusal")
    ]
    for named in SCORERS.values():
        (row,) = re.findall(rf"^\| `{named.name}` .*", scorers, re.MULTILINE)
        assert all(f"`{measure}`" in row for measure, _ in named.measures)

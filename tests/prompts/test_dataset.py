"""Datasets load from a folder of bases or a table, and say in one line what is wrong with them."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

import toolkit.prompts
from toolkit.errors import InputError
from toolkit.prompts.bases import compose
from toolkit.prompts.dataset import Dataset, digest_of, load_dataset

SHIPPED = Path(toolkit.prompts.__file__).parent / "data" / "demo"
COLUMNS = ("prompt_id", "text", "scenario", "category", "length_bin", "base", "dataset_version")


@pytest.fixture(scope="module")
def demo() -> Dataset:
    return load_dataset("demo")


@pytest.fixture
def rows(demo: Dataset) -> list[dict[str, Any]]:
    """Return the three prompts of the first base as rows of a table."""
    return [{column: getattr(p, column) for column in COLUMNS} for p in demo.prompts[:3]]


def write_csv(path: Path, rows: list[dict[str, Any]], columns: tuple[str, ...] = COLUMNS) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def one_base(folder: Path, *changes: tuple[str, str]) -> Path:
    """Copy one shipped base into a folder of its own, with pieces of its text replaced."""
    folder.mkdir()
    text = (SHIPPED / "academic_soc_001.toml").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "base.toml").write_text(text, encoding="utf-8")
    return folder


def refused(source: Path, *pieces: str) -> None:
    """Check that a dataset is refused in one line that holds every piece."""
    with pytest.raises(InputError) as caught:
        load_dataset(source)
    message = str(caught.value)
    assert "\n" not in message
    for piece in pieces:
        assert piece in message


def test_prompts_and_datasets_are_frozen(demo: Dataset) -> None:
    with pytest.raises(FrozenInstanceError):
        demo.prompts[0].text = "other"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        demo.version = "other"  # type: ignore[misc]


def test_loading_twice_gives_the_same_prompts_and_digest(demo: Dataset) -> None:
    assert load_dataset("demo") == demo


def test_prompts_can_be_members_of_a_set(demo: Dataset) -> None:
    assert len(set(demo.prompts)) == 36


def test_the_digest_follows_the_content_and_not_the_order(demo: Dataset) -> None:
    assert len(demo.digest) == 64
    assert digest_of(demo.prompts[::-1]) == demo.digest
    assert digest_of((replace(demo.prompts[0], text="other"), *demo.prompts[1:])) != demo.digest


def test_a_prompt_is_composed_of_opening_facts_and_task() -> None:
    assert compose("Role.", ["One.", "Two."], "Do it.") == "Role.\n\nFacts:\n- One.\n- Two.\n\nTask:\nDo it."


def test_a_folder_of_bases_loads_under_its_own_name_and_version(tmp_path: Path, demo: Dataset) -> None:
    folder = one_base(tmp_path / "mine")
    assert (load_dataset(folder).name, load_dataset(folder).version) == ("mine", "mine")
    (folder / "dataset.toml").write_text('name = "Mine"\nversion = "v2"\n')
    again = load_dataset(str(folder))
    assert (again.name, again.version) == ("Mine", "v2")
    assert [p.text for p in again.prompts] == [p.text for p in demo.prompts[:3]]


def test_a_copy_of_the_shipped_folder_has_the_same_digest(tmp_path: Path, demo: Dataset) -> None:
    shutil.copytree(SHIPPED, tmp_path / "copy")
    assert load_dataset(tmp_path / "copy").digest == demo.digest


@pytest.mark.parametrize(
    ("old", "new", "pieces"),
    [
        ("category =", "colour =", ("base.toml", "unknown key 'colour'", "category")),
        ('category = "Ransomware Incident"\n', "", ("base.toml", "'category' is missing")),
        ('"SOC_INCIDENT"', '"SOC"', ("base.toml", "'scenario'", "'SOC'", "GRC_MAPPING")),
        ('"Ransomware Incident"', '" "', ("base.toml", "'category' must be a text")),
        ('"Ransomware Incident"', "7", ("base.toml", "'category' must be a text")),
        (
            'data_sources = ["defender:endpoint:alert"',
            'data_sources = [""',
            ("'data_sources' must be a list",),
        ),
        ("facts_m = [", "facts_m = []\nfacts_x = [", ("base.toml", "unknown key 'facts_x'", "facts_m")),
        ("facts_l = [", "facts_l = [,", ("base.toml", "not valid TOML")),
        ("From 23:50", "From " + "23:50 " * 30, ("base.toml", "length bin S", "'text'", "150 to 250")),
    ],
)
def test_a_flawed_base_is_one_clear_line(tmp_path: Path, old: str, new: str, pieces: tuple[str, ...]) -> None:
    refused(one_base(tmp_path / "d", (old, new)), *pieces)


def test_an_empty_list_of_facts_is_refused(tmp_path: Path) -> None:
    folder = one_base(tmp_path / "d")
    text = (folder / "base.toml").read_text(encoding="utf-8")
    (folder / "base.toml").write_text(text[: text.index("facts_l")] + "facts_l = []\n", encoding="utf-8")
    refused(folder, "base.toml", "'facts_l' must be a list of one or more")


def test_two_files_with_one_base_are_refused(tmp_path: Path) -> None:
    folder = one_base(tmp_path / "d")
    shutil.copy(folder / "base.toml", folder / "second.toml")
    refused(folder, "second.toml", "'academic_soc_001_s' is already used in", "base.toml")


@pytest.mark.parametrize(
    ("index", "piece"),
    [('nome = "x"', "unknown key 'nome'"), ("version = 3", "'version' must be a text")],
)
def test_a_flawed_index_is_one_clear_line(tmp_path: Path, index: str, piece: str) -> None:
    folder = one_base(tmp_path / "d")
    (folder / "dataset.toml").write_text(index)
    refused(folder, "dataset.toml", piece)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "no dataset here")


def test_a_base_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_bytes(b'base = "caf\xe9"')
    refused(tmp_path, "base.toml", "not UTF-8")


@pytest.mark.parametrize("source", ["nowhere", "prompts.xlsx"])
def test_an_unknown_source_says_what_can_be_given(tmp_path: Path, source: str) -> None:
    (tmp_path / "prompts.xlsx").write_text("x")
    refused(tmp_path / source, source, "'demo'", ".csv or .jsonl")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_table_gives_the_same_texts_as_the_bases(
    tmp_path: Path, rows: list[dict[str, Any]], demo: Dataset, kind: str
) -> None:
    path = tmp_path / f"mine.{kind}"
    table = load_dataset(write_csv(path, rows) if kind == "csv" else write_jsonl(path, rows))
    assert (table.name, table.version) == ("mine", demo.version)
    assert [(p.prompt_id, p.text, p.base, p.token_count) for p in table.prompts] == [
        (p.prompt_id, p.text, p.base, p.token_count) for p in demo.prompts[:3]
    ]
    expected = {"data_sources": [], "academic_grade": False, "base_scenario": "academic_soc_001"}
    assert table.prompts[0].metadata == expected


def test_base_and_version_of_a_table_may_be_left_out(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        del row["base"], row["dataset_version"]
    table = load_dataset(write_csv(tmp_path / "mine.csv", rows, COLUMNS[:5]))
    assert {p.base for p in table.prompts} == {"academic_soc_001"}
    assert table.version == "mine"


def test_line_breaks_inside_a_text_stay_as_written(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    rows[0]["text"] = rows[0]["text"].replace("\n", "\r\n")
    assert load_dataset(write_csv(tmp_path / "mine.csv", rows[:1])).prompts[0].text == rows[0]["text"]


def test_an_empty_optional_cell_says_nothing(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["base"] = ""
    assert {p.base for p in load_dataset(write_csv(tmp_path / "mine.csv", rows)).prompts} == {
        "academic_soc_001"
    }


def test_a_byte_order_mark_and_blank_lines_do_no_harm(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    path = write_jsonl(tmp_path / "mine.jsonl", rows[:1])
    path.write_text("\ufeff" + path.read_text(encoding="utf-8") + "\n\n", encoding="utf-8")
    assert len(load_dataset(path).prompts) == 1


def test_a_line_separator_inside_a_text_does_not_end_the_row(
    tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    rows[0]["text"] += "\u2028Go on."
    assert (
        load_dataset(write_jsonl(tmp_path / "mine.jsonl", rows[:1])).prompts[0].text.endswith("\u2028Go on.")
    )


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("changes", "pieces"),
    [
        ({"scenario": "SOC"}, ("row 2", "'scenario'", "SOC_INCIDENT, GRC_MAPPING, CTI_ANALYSIS")),
        ({"length_bin": "XL"}, ("row 2", "'length_bin'", "'XL'", "S, M, L")),
        ({"length_bin": "L"}, ("row 2", "'text'", "length bin L", "800 to 1000")),
        ({"text": "  "}, ("row 2", "'text' must be a text that is not empty")),
        ({"prompt_id": "academic_soc_001_s"}, ("row 2", "'prompt_id'", "already used in", "row 1")),
        ({"dataset_version": "other"}, ("row 2", "'dataset_version'", "20261121_demo_v1, other")),
    ],
)
def test_a_flawed_row_names_file_row_key_and_what_is_allowed(
    tmp_path: Path, rows: list[dict[str, Any]], kind: str, changes: dict[str, str], pieces: tuple[str, ...]
) -> None:
    rows[1] |= changes
    path = tmp_path / f"mine.{kind}"
    refused(write_csv(path, rows) if kind == "csv" else write_jsonl(path, rows), str(path), *pieces)


def test_an_unknown_or_missing_or_doubled_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("prompt_id,text,scenario,category,length_bin,colour\n")
    refused(path, "header", "unknown key 'colour'", "dataset_version")
    path.write_text("prompt_id,text,scenario,category\n")
    refused(path, "header", "'length_bin' is missing")
    path.write_text("prompt_id,text,scenario,category,length_bin,text\n")
    refused(path, "header", "'text' is there twice")


@pytest.mark.parametrize(
    ("content", "pieces"),
    [
        ("", ("'prompt_id' is missing",)),
        ("prompt_id,text,scenario,category,length_bin\n", ("no prompt in it",)),
        ("prompt_id,text,scenario,category,length_bin\na,b\n", ("row 1", "not as many cells")),
        ("prompt_id,text,scenario,category,length_bin\na,b,c,d,e,f\n", ("row 1", "not as many cells")),
        ('prompt_id,text,scenario,category,length_bin\na,"b', ("after line 1", "not valid CSV")),
    ],
)
def test_a_malformed_csv_is_one_clear_line(tmp_path: Path, content: str, pieces: tuple[str, ...]) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(content)
    refused(path, *pieces)


@pytest.mark.parametrize(
    ("content", "pieces"),
    [
        ("", ("no prompt in it",)),
        ("{", ("row 1", "not valid JSON")),
        ("[" * 100_000, ("row 1", "not valid JSON")),
        ("[1]", ("row 1", "must be a JSON object")),
        ('{"prompt_id": "a"}', ("row 1", "'text' is missing")),
        (
            '{"prompt_id": 1, "text": "a", "scenario": "a", "category": "a", "length_bin": "S"}',
            ("row 1", "'prompt_id' must be a text"),
        ),
    ],
)
def test_a_malformed_jsonl_is_one_clear_line(tmp_path: Path, content: str, pieces: tuple[str, ...]) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(content)
    refused(path, *pieces)


def test_a_table_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_bytes(b"prompt_id,caf\xe9\n")
    refused(tmp_path / "mine.csv", "not UTF-8")


def test_a_prompt_out_of_range_loads_when_the_check_is_to_list_it(
    tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    rows[1]["text"] = "Isolate the host."
    path = write_csv(tmp_path / "mine.csv", rows)
    refused(path, "row 2", "outside length bin M")
    assert load_dataset(path, check_ranges=False).prompts[1].token_count == 5

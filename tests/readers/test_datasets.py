"""Datasets of prompts: folders and tables load alike, a flaw is one clear line, and the shipped one has none."""

import csv
import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from cases import cases

import toolkit.prompts
from toolkit.errors import InputError
from toolkit.models.tokens import ENCODINGS, count_tokens
from toolkit.prompts.check import check_dataset
from toolkit.prompts.dataset import Dataset, digest_of, load_dataset
from toolkit.words import LENGTH_BINS

CASES = cases(__file__)

SHIPPED = Path(toolkit.prompts.__file__).parent / "data" / "demo"
COLUMNS = ("prompt_id", "text", "scenario", "category", "length_bin", "base", "dataset_version")


@pytest.fixture(scope="module")
def demo():
    return load_dataset("demo")


@pytest.fixture
def rows(demo):
    """The three prompts of the first base as rows of a table."""
    return [
        {column: getattr(p, column.replace("length_bin", "level")) for column in COLUMNS}
        for p in demo.prompts[:3]
    ]


def write_table(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return path
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def one_base(folder, *changes):
    """Copy one shipped base into a folder of its own, with pieces of its text replaced."""
    folder.mkdir()
    text = (SHIPPED / "academic_soc_001.toml").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "base.toml").write_text(text, encoding="utf-8")
    return folder


def refused(source, *pieces):
    """A dataset is refused in lines that name the source, and every piece is in them."""
    with pytest.raises(InputError) as caught:
        load_dataset(source)
    message = str(caught.value)
    assert all(str(source) in line for line in message.split("\n"))
    for piece in pieces:
        assert piece in message


# --- loading --------------------------------------------------------------------------------------------------------


def test_the_digest_follows_the_content_and_not_the_order(demo):
    assert load_dataset("demo") == demo
    assert len(demo.digest) == 64
    assert digest_of(demo.prompts[::-1]) == demo.digest
    assert digest_of((replace(demo.prompts[0], text="other"), *demo.prompts[1:])) != demo.digest


def test_a_folder_of_bases_has_its_own_name_and_version(tmp_path, demo):
    folder = one_base(tmp_path / "mine")
    assert (load_dataset(folder).name, load_dataset(folder).version) == ("mine", "mine")
    (folder / "dataset.toml").write_text('name = "Mine"\nversion = "v2"\n')
    again = load_dataset(str(folder))
    assert (again.name, again.version) == ("Mine", "v2")
    assert [p.text for p in again.prompts] == [p.text for p in demo.prompts[:3]]
    shutil.copytree(SHIPPED, tmp_path / "copy")
    assert load_dataset(tmp_path / "copy").digest == demo.digest


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_table_gives_the_same_texts_as_the_bases(tmp_path, rows, demo, kind):
    table = load_dataset(write_table(tmp_path / f"mine.{kind}", rows))
    assert (table.name, table.version) == ("mine", demo.version)
    said = [
        [(p.prompt_id, p.text, p.base, p.token_count) for p in which.prompts[:3]] for which in (table, demo)
    ]
    assert said[0] == said[1]
    expected = {"data_sources": [], "academic_grade": False, "base_scenario": "academic_soc_001"}
    assert table.prompts[0].metadata == expected
    bare = [{name: row[name] for name in COLUMNS[:5]} for row in rows]
    table = load_dataset(write_table(tmp_path / f"bare.{kind}", bare))
    assert ({p.base for p in table.prompts}, table.version) == ({"academic_soc_001"}, "bare")
    empty = load_dataset(write_table(tmp_path / f"empty.{kind}", [row | {"base": ""} for row in rows]))
    assert {p.base for p in empty.prompts} == {"academic_soc_001"}
    own = load_dataset(write_table(tmp_path / f"own.{kind}", [row | {"topic": "x"} for row in bare]))
    # A column of somebody's own is not read.
    assert [p.metadata for p in own.prompts] == [p.metadata for p in table.prompts]
    # Line breaks, a line separator inside a text, and a byte order mark that is part of no name.
    text = rows[0]["text"].replace("\n", "\r\n") + "\u2028Go on."
    path = write_table(tmp_path / f"mine.{kind}", [rows[0] | {"text": text}])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\n\n")
    assert [p.text for p in load_dataset(path).prompts] == [text]


# --- what cannot be read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new", "pieces"), CASES["base"])  # fmt: skip
def test_a_flawed_base_is_one_clear_line(tmp_path, old, new, pieces):
    refused(one_base(tmp_path / "d", (old, new)), "base.toml", *pieces)


def test_all_faults_of_a_table_are_told_at_once(tmp_path, rows):
    """Of values, of texts, of names and of versions, each with its line."""
    changes = CASES["faults"]
    faulty = [rows[0] | {"prompt_id": f"p{n}"} | change for n, (change, _) in enumerate(changes)]
    with pytest.raises(InputError) as caught:
        load_dataset(write_table(tmp_path / "mine.csv", faulty))
    told = str(caught.value).split("\n")
    assert len(told) == 1 + len(changes)
    assert [fault for _, fault in changes if fault not in str(caught.value)] == []
    assert all(line.startswith(str(tmp_path)) for line in told)
    with pytest.raises(InputError, match=r"\nand 60 more faults$"):
        load_dataset(write_table(tmp_path / "many.jsonl", [faulty[2]] * 80))


def test_all_faults_of_a_folder_are_told_at_once(tmp_path):
    """Of several files, and of what their prompts are together."""
    folder = one_base(tmp_path / "d", ("category =", "colour ="), ('"academic_soc_001"', '"b"'))
    for name, change in (("good", ("", "")), ("short", ("From 23:50", "From " + "23:50 " * 30))):
        (one_base(tmp_path / name, change) / "base.toml").rename(folder / f"{name}.toml")
    refused(folder, "unknown key 'colour'", "key 'category' is missing", "length bin S", "is already used in")


def test_a_flawed_folder_is_one_clear_line(tmp_path):
    folder = one_base(tmp_path / "d")
    for index, piece in (('nome = "x"', "unknown key 'nome'"), ("version = 3", "version")):
        (folder / "dataset.toml").write_text(index)
        refused(folder, "dataset.toml", piece)
    (folder / "dataset.toml").unlink()
    base = (folder / "base.toml").read_text(encoding="utf-8")
    (folder / "second.toml").write_text(base, encoding="utf-8")
    refused(folder, "second.toml", "'academic_soc_001_s' is already used in", "base.toml")
    (folder / "second.toml").write_text(base[: base.index("facts_l")] + "facts_l = []\n", encoding="utf-8")
    refused(folder, "second.toml", "facts_l", "at least 1")
    (folder / "base.toml").write_bytes(b'base = "caf\xe9"')
    refused(folder, "base.toml", "not UTF-8")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(("changes", "pieces"), CASES["row"])
def test_a_flawed_row_names_file_line_key_and_what_is_allowed(tmp_path, rows, kind, changes, pieces):
    rows[1] |= changes
    # A cell of several lines moves the rows below it down, as in an editor.
    line = 2 if kind == "jsonl" else 3 + rows[0]["text"].count("\n")
    refused(write_table(tmp_path / f"mine.{kind}", rows), f"line {line}", *pieces)


@pytest.mark.parametrize(("name", "content", "pieces"), [
    *CASES["malformed"], ("a.csv", b"prompt_id,caf\xe9\n", ("not UTF-8",)),
])  # fmt: skip
def test_a_malformed_table_is_one_clear_line(tmp_path, name, content, pieces):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(tmp_path / name, *pieces)


def test_a_source_that_is_not_there_says_what_can_be_given(tmp_path):
    refused(tmp_path / "nowhere", "'demo'", ".csv, .json or .jsonl")
    refused(tmp_path, "no dataset here")


# --- flaws that would confound prompt lengths -----------------------------------------------------------------------


def changed(demo, prompt_id, change=str, **fields):
    """The dataset with the text of one prompt changed, or some of its fields replaced."""
    return replace(
        demo,
        prompts=tuple(
            replace(p, **{"text": change(p.text), **fields}) if p.prompt_id == prompt_id else p
            for p in demo.prompts
        ),
    )


@pytest.mark.parametrize(("said", "kind"), CASES["said"])  # fmt: skip
def test_filler_and_scars_of_templates_are_named(demo, said, kind):
    """What a template leaves behind: a prefix, word or sentence twice, a list that is announced and not there."""
    found = check_dataset(changed(demo, "academic_soc_001_s", text=said))
    kinds = [p.kind for p in found if p.kind in ("doubled_token", "nothing_below", "repeated_sentence")]
    assert kinds == ([kind] if kind else [])
    order = [p.prompt_id for p in demo.prompts].index
    assert found == tuple(sorted(found, key=lambda problem: order(problem.prompt_id)))


# --- the dataset that ships -----------------------------------------------------------------------------------------


def test_the_shipped_dataset_is_fit_for_its_study(demo):
    assert check_dataset(demo) == check_dataset(Dataset("none", "1", (), "")) == ()
    assert (demo.name, demo.version) == ("demo", "20261121_demo_v1")
    bases = {p.base: p.scenario for p in demo.prompts}
    assert Counter(bases.values()) == {"SOC_INCIDENT": 6, "GRC_MAPPING": 4, "CTI_ANALYSIS": 2}
    assert [p.prompt_id for p in demo.prompts[:3]] == [f"academic_soc_001_{b}" for b in "sml"]
    assert len({p.category for p in demo.prompts}) == 12
    for prompt in demo.prompts:
        low, high = LENGTH_BINS[prompt.level]
        assert all(low <= count_tokens(prompt.text, encoding) <= high for encoding in ENCODINGS)
        assert prompt.token_count == count_tokens(prompt.text)
        assert prompt.dataset_version == demo.version
        sources = prompt.metadata["data_sources"]
        assert sources
        expected = {"data_sources": sources, "academic_grade": True, "base_scenario": prompt.base}
        assert prompt.metadata == expected


def test_a_longer_shipped_prompt_is_the_shorter_one_with_more_facts(demo):
    parts = {p.prompt_id: re.split(r"\n\n(?:Facts|Task):\n", p.text) for p in demo.prompts}
    for base in {p.base for p in demo.prompts}:
        (opening, s, task), medium, long = (parts[f"{base}_{b}"] for b in "sml")
        assert (medium[0], medium[2]) == (long[0], long[2]) == (opening, task)
        assert medium[1].startswith(s + "\n- ")
        assert long[1].startswith(medium[1] + "\n- ")

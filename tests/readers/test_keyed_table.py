"""Tables with a key in the shapes of published sets, written for these tests, and the faults of such tables."""

import hashlib
import json
import re

import pytest
from cases import cases
from refusals import refusal

from toolkit.keyed.scorers import SCORERS, check_table
from toolkit.keyed.table import KeyedItem, keeps_order, load_keyed

CASES = cases(__file__)

MCQ = (
    "URL\tQuestion\tOption A\tOption B\tOption C\tOption D\tPrompt\tGT\n"
    "https://example.org/1\tWhich port has TLS?\t21\t443\t53\t25\tChoose: which port has TLS? A) 21 ...\tB\n"
    'https://example.org/1\t"Which has ""sudo""?"\tDOS\tMVS\tUnix\tCP/M\tChoose: which has sudo? A) DOS ...\tC\n'
)
VECTOR = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"


def load(folder, name, content, columns=None):
    path = folder / name
    if isinstance(content, bytes | str):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    else:
        path.write_text("\n".join(map(json.dumps, content)) if name.endswith("l") else json.dumps(content))
    return load_keyed(path, columns)


def fault(folder, name, content, columns=None):
    message = refusal(None, load, folder, name, content, columns)
    assert "\n" not in message
    return message.replace(f"{folder}/", "")


# --- shapes of published sets -----------------------------------------------------------------------------------------


def test_ctibench_multiple_choice(tmp_path):
    assert fault(tmp_path, "cti-mcq.tsv", MCQ) == (
        'cti-mcq.tsv: "Question" and "Prompt" may each be the prompt; say under [options] which: '
        'columns = { prompt = "Question" }'
    )
    table = load(tmp_path, "cti-mcq.tsv", MCQ, {"prompt": "Question"})
    assert table.items == (
        KeyedItem(
            "00001", "Which port has TLS?", ("21", "443", "53", "25"), "B", "https://example.org/1", row=2
        ),
        KeyedItem(
            "00002", 'Which has "sudo"?', ("DOS", "MVS", "Unix", "CP/M"), "C", "https://example.org/1", row=3
        ),
    )
    options = ["Option A", "Option B", "Option C", "Option D"]
    assert table.columns == {"prompt": "Question", "options": options, "answer": "GT", "cluster": "URL"}
    assert table.name == "cti-mcq.tsv"
    assert table.sha256 == hashlib.sha256(MCQ.encode()).hexdigest()
    assert table.notes == ("ids are the numbers of rows: the table has no column for them",)


@pytest.mark.parametrize(
    ("name", "key"), [("identifier", "CWE-79"), ("cvss", VECTOR), ("identifier", "T1071, T1573")]
)
def test_ctibench_other_tasks(tmp_path, name, key):
    table = load(tmp_path, "t.tsv", f"URL\tDescription\tPrompt\tGT\nu\ttext\tMap the text.\t{key}\n")
    assert (table.items[0].prompt, table.items[0].answer) == ("Map the text.", key)
    check_table(table, SCORERS[name])


def test_ctibench_attribution_has_no_key_in_its_table(tmp_path):
    table = load(tmp_path, "cti-taa.tsv", "URL\tText\tPrompt\nu\treport\tWho was it?\n")
    refusal(
        r"cti-taa.tsv, row 2: has no answer; write it, or take the row out",
        check_table,
        table,
        SCORERS["label"],
    )


def test_seceval(tmp_path):
    row = {
        "id": "s1", "source": "book", "question": "Which help?", "topics": ["Web", "Memory"], "keyword": "k",
        "choices": ["A: Canaries", "B: Names", "C: ASLR"], "answer": "AC",
    }  # fmt: skip
    table = load(tmp_path, "questions.json", [row], {"group": "topics"})
    assert table.items == (
        KeyedItem("s1", "Which help?", ("Canaries", "Names", "ASLR"), "AC", "book", "Web, Memory", 1),
    )
    assert table.notes == ("marks before options were taken off in 1 row",)
    check_table(table, SCORERS["set"])
    refusal(
        r'row 1: its answer is not usable \(2 options; scorer = "set" takes',
        check_table,
        table,
        SCORERS["choice"],
    )


def test_nist_mappings_are_collected_by_control(tmp_path):
    def mapping(control, technique):
        return {
            "capability_id": control,
            "capability_group": "AC",
            "attack_object_id": technique,
            "status": "x",
        }

    rows = [
        mapping("AC-2", "T1110"),
        mapping("AC-3", "T1003"),
        mapping("AC-2", "T1556.009"),
        mapping("AC-2", None),
    ]
    columns = {"prompt": "Which does {capability_id} mitigate?", "id": "capability_id"}
    columns |= {"answer": ["attack_object_id"], "group": "capability_group"}
    content = {"metadata": {"list": [1]}, "mapping_objects": rows}
    table = load(tmp_path, "nist.json", content, columns)
    assert table.items == (
        KeyedItem("AC-2", "Which does AC-2 mitigate?", (), ["T1110", "T1556.009"], None, "AC", 1),
        KeyedItem("AC-3", "Which does AC-3 mitigate?", (), ["T1003"], None, "AC", 2),
    )
    varied = {**columns, "prompt": "{capability_id} {attack_object_id}?"}
    assert "row 3: differs from row 1 of the same id" in fault(tmp_path, "nist.json", {"a": rows[:3]}, varied)
    assert "rows 1, 3, 4: have one id, 'AC-2'" in fault(
        tmp_path, "nist.json", content, {**columns, "answer": "attack_object_id"}
    )


# --- text, numbers, letters -------------------------------------------------------------------------------------------


def test_text_is_kept_as_it_stands(tmp_path):
    content = (
        '\ufeffquestion,answer\r\n"First line\r\nsecond, ""quoted""",1\r\n\'=1+1 is?,2\r\nnul \0 byte,3\r\n'
    )
    prompts = [item.prompt for item in load(tmp_path, "t.csv", content).items]
    assert prompts == ['First line\r\nsecond, "quoted"', "=1+1 is?", "nul \0 byte"]
    assert [item.row for item in load(tmp_path, "t.csv", content).items] == [2, 4, 5]
    assert fault(tmp_path, "t.csv", "question,answer\nna\xefve?,1\n".encode("cp1252")) == (
        "t.csv, line 2: is not UTF-8; save it as UTF-8"
    )
    assert "lone surrogate" in fault(tmp_path, "t.json", [{"question": "a \ud800", "answer": "b"}])


OPEN = "may be the text of an option, or count the options from 0 or from 1; write its letter"


@pytest.mark.parametrize(
    ("options", "answers", "expected"),
    CASES["counted"],
)
def test_answers_that_count_options(tmp_path, options, answers, expected):
    """A number is a text or a place where the table leaves no other reading, and a note tells it."""
    rows = [{"question": f"{n}?", "choices": [*options], "answer": key} for n, key in enumerate(answers)]
    if "row" in expected:
        assert expected in fault(tmp_path, "t.json", rows)
        return
    table = load(tmp_path, "t.json", rows)
    letters, _, first = (expected, "", "") if isinstance(expected, list) else expected.partition(" ")
    assert [item.answer for item in table.items] == [*letters]
    assert [note for note in table.notes if "count" in note] == [f"answers count the options {first}"] * bool(
        first
    )


@pytest.mark.parametrize("marks", ["A) B) C)", "(a). (b). (c).", "1. 2. 3.", "a: b: c:"])
def test_marks_before_options_are_taken_off(tmp_path, marks):
    """In another order they would lie; a key that is such a mark, or has one, names its option."""
    texts = [f"{mark} {text}" for mark, text in zip(marks.split(), ("TLS", "SSH", "FTP"), strict=True)]
    keys = [re.sub(r"\W", "", marks.split()[1]), texts[1]]
    table = load(
        tmp_path, "t.json", [{"question": "Which?", "choices": texts, "answer": key} for key in keys]
    )
    for item in table.items:
        assert item.options == ("TLS", "SSH", "FTP")
        assert SCORERS["choice"].score("B", item) == {"correct": 1.0}
    assert "marks before options were taken off in 2 rows" in table.notes


@pytest.mark.parametrize(
    ("options", "order"),
    CASES["order"],
)
def test_options_that_speak_of_others_keep_their_order(options, order):
    assert keeps_order(KeyedItem("1", "?", tuple(options))) is order


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    CASES["faults"],
)  # fmt: skip
def test_faults_are_one_line(tmp_path, name, content, columns, message):
    assert fault(tmp_path, name, content, columns).startswith(message)


def test_missing_file_names_its_neighbour(tmp_path):
    (tmp_path / "table.csv").write_text("question\na\n")
    for name in ("tabel.csv", "tabel.json"):
        refusal(
            r"there is no such file; (did you mean table.csv\? )?check the path", load_keyed, tmp_path / name
        )


def test_an_answer_that_is_no_option_names_its_row(tmp_path):
    rows = [
        {"question": "1?", "choices": ["x", "y"], "answer": "B"},
        {"question": "2?", "choices": ["x", "y"], "answer": "C"},
    ]
    refusal(
        r"^t.json, row 2: its answer is not usable \(no option: 'C'\); correct it",
        check_table,
        load(tmp_path, "t.json", rows),
        SCORERS["choice"],
    )


def test_columns_that_are_not_wanted(tmp_path):
    row = {"question": "Which?", "answer": "x", "url": "u", "source": "s", "topic": "t"}
    assert '"url" and "source" may each be the cluster' in fault(tmp_path, "t.json", [row])
    item = load(tmp_path, "t.json", [row, {**row, "url": None}], {"cluster": "url", "group": ""})
    assert [(item.cluster, item.group) for item in item.items] == [("u", None), (None, None)]
    assert "1 row without url: each is a cluster of its own" in item.notes

"""Tables with a key in the shapes of published sets, written for these tests, and the faults of such tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import InputError
from toolkit.keyed.table import KeyedItem, load_keyed


def write(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif name.endswith(".jsonl"):
        path.write_text("\n".join(map(json.dumps, content)))
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), newline="")
    return path


MCQ = (
    "URL\tQuestion\tOption A\tOption B\tOption C\tOption D\tPrompt\tGT\n"
    "https://example.org/1\tWhich port has TLS?\t21\t443\t53\t25\tChoose: which port has TLS? A) 21 ...\tB\n"
    'https://example.org/1\tWhich has "sudo"?\tDOS\tMVS\tUnix\tCP/M\tChoose: which has sudo? A) DOS ...\tC\n'
)


def test_ctibench_multiple_choice(tmp_path: Path) -> None:
    path = write(tmp_path, "cti-mcq.tsv", MCQ)
    with pytest.raises(
        InputError, match=r'"Question" and "Prompt" may each be the prompt; say .* prompt = "Question"'
    ):
        load_keyed(path)
    table = load_keyed(path, {"prompt": "Question"})
    assert table.items[0] == KeyedItem(
        "00001", "Which port has TLS?", ("21", "443", "53", "25"), "B", "https://example.org/1", None, 2
    )
    assert table.columns == {
        "prompt": "Question",
        "options": ["Option A", "Option B", "Option C", "Option D"],
        "answer": "GT",
        "cluster": "URL",
    }
    assert len(table.sha256) == 64 and table.name == "cti-mcq.tsv"

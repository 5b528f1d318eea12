"""Texts of others that end or stop a naive reader: nested a thousand times, or of signs that match again and again."""

import contextlib
import json
import time
import zipfile
from pathlib import Path

import pytest
from refusals import refusal

from toolkit.files.reading import DEEPEST, TooDeep, parsed, read_json, read_toml
from toolkit.hallucination.votes import read_vote
from toolkit.judges.parse import Unreadable, one_object
from toolkit.judges.segments import segments
from toolkit.keyed.refusals import refused
from toolkit.keyed.scorers import SCORERS
from toolkit.keyed.table import KeyedItem, load_keyed
from toolkit.models.transport import _json_in
from toolkit.scores.scores import Scores
from toolkit.traffic.measures import Unreadable as NoClaims
from toolkit.traffic.typed import stated_claims
from toolkit.viewer.markdown import markdown_html

SIGNS = 100_000
CHOICE = KeyedItem("i", "?", ("x", "y"), "A")
READERS = {
    "refusal": refused, "vote": lambda text: read_vote(text, "cot"), "object": lambda text: one_object(text, "stop"),
    "segments": segments, "claims": stated_claims, "markdown": markdown_html,
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_a_reply_of_one_sign_is_read_in_time(name):
    """Signs between which a pattern could go back and forth, alone or after what it begins with."""
    pieces = [*' \n[{<"`_A“', "a_", '{"a":', "```\n"]
    texts = [piece * (SIGNS // len(piece)) for piece in pieces]
    texts += [f"{start}{sign * SIGNS}y" for start in ("Answer: ", "```\n", "a", "<") for sign in " a_"]
    for text in texts:
        start = time.process_time()
        with contextlib.suppress(Unreadable, NoClaims):
            READERS[name](text)
        assert time.process_time() - start < 1, text[:20]


def _eval(text, path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(
            "header.json", f'{{"eval": {{"model": "m", "task": "t", "x": {text}}}, "status": "success"}}'
        )
    return Scores.load(path)


def _row(text, path):
    path.write_text(f'{{"question": "?", "choices": [{text}, 1], "answer": "A"}}')
    return load_keyed(path)


FILES = {
    "a.json": lambda text, path: (path.write_text(text), read_json(path)),
    "a.toml": lambda text, path: (path.write_text(f"a = {text}"), read_toml(path)),
    "k.jsonl": _row,
    "s.eval": _eval,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("depth", [150, 900, 100_000])
def test_a_file_that_is_nested_too_deep_is_one_line(name, depth, tmp_path):
    """Whatever reads it: nothing that goes through its content may call itself for each level."""
    line = refusal(None, FILES[name], "[" * depth + "]" * depth, tmp_path / name)
    assert "nested" in line


@pytest.mark.parametrize("key", ["{0}", "[{0}]", "a = {{ {0} = 1 }}"])
def test_a_key_of_many_parts_is_one_line(key, tmp_path):
    """Tomllib needs seconds for 20,000 parts; a text with as many dots is read."""
    path = tmp_path / "a.toml"
    path.write_text(key.format(".".join("a" * 100_000)) + " = 1" * ("[" not in key))
    refusal("a key has more than 100 parts", read_toml, path)
    path.write_text(f'a = "{"." * 100_000}"\nb = "{"a . " * 90}"')
    assert set(read_toml(path)) == {"a", "b"}


def test_as_deep_as_is_read():
    """Lists, objects and pairs count; brackets of a text do not."""
    for opened, closed in (("[", "]"), ('{"a":', "}")):
        assert parsed(json.loads, opened * DEEPEST + "1" + closed * DEEPEST)
        with pytest.raises(TooDeep, match="nested deeper than 100 levels"):
            parsed(json.loads, opened * (DEEPEST + 1) + "1" + closed * (DEEPEST + 1))
    assert parsed(json.loads, json.dumps("[" * 5_000)) == "[" * 5_000
    assert _json_in(b'{"choices": ' + b"[" * 900 + b"]" * 900 + b"}") is None
    for text in ('{"answer": ' + "[" * 900 + "]" * 900 + "}", '{"answer": [' * 90_000):
        read = SCORERS["choice"].read(text, CHOICE, CHOICE.options)
        assert read.reason == "too deep: nested deeper than 100 levels"


def test_a_file_without_an_end_is_not_read():
    refusal(
        r"^/dev/zero: is larger than 512 MB; split it, or take a part of it", read_json, Path("/dev/zero")
    )

"""Token counts are exact, and never need a network or a home folder that was used before; scripted replies."""

import asyncio
import gzip
import json
import os
import subprocess
import sys
import warnings

import pytest
from cases import cases
from refusals import failed, refusal

from toolkit.errors import ModelError, StoreError
from toolkit.models import tokens
from toolkit.models.base import ModelReply, Usage
from toolkit.models.catalogue import model_spec
from toolkit.models.registry import open_model
from toolkit.models.scripted import ScriptedModel
from toolkit.models.tokens import ENCODINGS, count_all, count_tokens

WITHOUT_NETWORK = """
import socket

def refuse(*args, **kwargs):
    raise SystemExit("a socket was opened")

socket.socket.connect = refuse
socket.create_connection = refuse
socket.getaddrinfo = refuse

from toolkit.models.tokens import ENCODINGS, count_all, count_tokens
print(*(count_tokens("hello world, antidisestablishmentarianism", e) for e in ENCODINGS))
"""


def run_alone(home, **extra):
    """Count in a fresh interpreter whose home, caches and temporary files are all inside ``home``."""
    home.mkdir(exist_ok=True)
    kept = {
        k: v
        for k, v in os.environ.items()
        if k not in {"TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "XDG_CACHE_HOME"}
    }
    environment = {**kept, "HOME": str(home), "TMPDIR": str(home), **extra}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_NETWORK], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_counts_agree_with_the_tokenizer_of_another_author(encoding):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the package opens its data the old way
        import bpe_openai
    oracle = bpe_openai.get_encoding(encoding)
    for text in (
        "",
        "a",
        "Host 192.0.2.17 beaconed.\n\n- 03:14 AEST\n",
        "naïve Straße 漢字 🦘",
        " " * 40 + "x",
    ):
        assert count_tokens(text, encoding) == len(oracle.encode(text)), text
    assert count_tokens("<|endoftext|>", encoding) > 1  # text of special tokens is text like any other


def test_a_panic_of_the_library_is_no_end_of_a_study(monkeypatch):
    """Whatever makes tiktoken panic, there is a count, and it is not too low; other errors go through."""

    class Panic(BaseException):
        pass

    class Broken:
        def encode_ordinary(self, text):
            raise error

    Panic.__module__ = "pyo3_runtime"
    monkeypatch.setattr(tokens, "_encoder", lambda encoding: Broken())
    error = Panic("StackOverflow")
    assert count_tokens("né\ud800") == 4
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        count_tokens("a")


def test_it_works_with_an_empty_home_and_no_network(tmp_path):
    done = run_alone(tmp_path / "home")
    assert done.returncode == 0, done.stderr
    first, second = (int(n) for n in done.stdout.split())
    assert first == count_tokens("hello world, antidisestablishmentarianism", "o200k_base")
    assert second == count_tokens("hello world, antidisestablishmentarianism", "cl100k_base")


@pytest.mark.parametrize("damage", ["absent", "cut", "other"])
def test_ranks_that_are_not_tiktokens_are_one_clear_line(tmp_path, monkeypatch, damage):
    folder = tmp_path / "bpe_openai" / "data"
    folder.mkdir(parents=True)
    whole = gzip.compress(b"IQ== 0\n" * 1000)
    if damage != "absent":
        (folder / "o200k_base.tiktoken.gz").write_bytes(whole[:-20] if damage == "cut" else whole)

    class Wheel:
        def locate_file(self, name):
            return tmp_path / name

    monkeypatch.setattr(tokens, "distribution", lambda name: Wheel())
    refusal(
        r"o200k_base.*not those that tiktoken expects.*constraints.txt",
        tokens._encoder.__wrapped__,
        "o200k_base",
        error=StoreError,
    )


def test_counts_are_remembered_and_a_broken_memory_is_not_believed(tmp_path, monkeypatch):
    """The second count needs no encoder; a memory that is cut off, of another length or unwritable counts again."""
    monkeypatch.setattr(tokens.platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    texts = ["Isolate the host.", "", "\ud800"]
    counted = count_all(texts)
    (file,) = tmp_path.rglob("*.json")
    monkeypatch.setattr(tokens, "count_tokens", lambda text, encoding: -1)
    assert count_all(texts) == counted
    for broken in ("[5, 0", "[5]", '{"a": 1}', "[5, 0, true]"):
        file.write_text(broken)
        assert count_all(texts) == [-1] * 3
    assert count_all([]) == []
    monkeypatch.setattr(tokens.platformdirs, "user_cache_dir", lambda name: str(file / "no folder"))
    assert count_all(["other"]) == [-1]


SCHEMA = cases(__file__)["schema"]


def ask(model, request):
    return asyncio.run(model.ask(request))


def test_the_same_request_gets_the_same_reply_and_another_repeat_may_get_another(make_request):
    model = open_model(model_spec("scripted", replies=["a", "b", "c"]))
    texts = [ask(model, make_request(repeat=repeat)).text for repeat in range(20)]
    assert texts == [ask(model, make_request(repeat=repeat)).text for repeat in range(20)]
    assert set(texts) == {"a", "b", "c"}


def test_a_function_decides_the_text_the_whole_reply_or_the_failure(make_request):
    reply = ModelReply("whole", "length", Usage(1, 2), "mine")

    async def slow(request):
        await asyncio.sleep(0)
        return "later"

    def fail(request):
        raise ModelError("no", reason="server_error", retryable=True)

    assert ask(ScriptedModel(lambda request: "text"), make_request()).text == "text"
    assert ask(ScriptedModel(lambda request: reply), make_request()) is reply
    assert ask(ScriptedModel(slow), make_request()).text == "later"
    assert failed(ask, ScriptedModel(fail), make_request()).reason == "server_error"


def test_without_a_script_the_reply_follows_the_schema_of_the_request(make_request):
    model = ScriptedModel()
    for repeat in range(30):
        request = make_request(response_schema=json.dumps(SCHEMA), repeat=repeat)
        value = json.loads(ask(model, request).text)
        assert list(value) == list(SCHEMA["properties"])
        assert len(value["reason"]) <= 5
        assert value["score"] in range(6)
        assert 0.5 <= value["share"] <= 1.0
        assert value["verdict"] in ("yes", "no")
        assert value["parts"] in ([1, 1], [1, 1, 1])
    assert ask(model, make_request()).text.startswith("Scripted reply ")

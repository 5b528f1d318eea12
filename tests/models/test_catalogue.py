"""What models there are, what they cost, whose key they take, and under which name a call is paid for once."""

import hashlib
import json
import math
import os
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from cases import cases
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refusal

from toolkit.errors import PriceError, StudyError
from toolkit.models import registry
from toolkit.models.base import Message, ModelRequest, Usage
from toolkit.models.catalogue import PROVIDERS, model_names, model_spec, toml_table
from toolkit.models.entries import model_address
from toolkit.models.prices import Over, Price, aud_cost, batch_price, price_of, worst_cost
from toolkit.models.registry import address_of, api_key, key_fault, read_environment

CASES = cases(__file__)
FIELDS = ("provider", "model", "family")


def test_the_catalogue_knows_what_the_studys_models_take():
    """Encoding, structured outputs, log-probabilities and sampling; test_providers asks each of them."""
    specs = {name: model_spec(name) for name in model_names()}
    assert {spec.provider for spec in specs.values()} == set(PROVIDERS) - {
        "compatible",
        "ollama",
        "openrouter",
    }
    # The provider's own address is in no identity.
    assert all(spec.endpoint is None for spec in specs.values())
    found = {n: [s.encoding, s.structured, s.logprobs, s.sampling_supported] for n, s in specs.items()}
    assert found == found | CASES["known"]


def test_what_belongs_to_the_weights_stays_elsewhere_and_a_study_may_say_otherwise():
    elsewhere = {"provider": "compatible", "base_url": "http://127.0.0.1:1/v1"}
    assert not model_spec("gpt-6-luna", **elsewhere).sampling_supported
    assert model_spec("gpt-6-luna", sampling_supported=True).sampling_supported
    spec = model_spec("smollm2-135m", provider="anthropic", base_url="http://127.0.0.1:1")
    assert (spec.family, spec.model, spec.structured, spec.api_key_env) == (
        "smollm",
        "smollm2-135m",
        False,
        None,
    )
    mine = model_spec("mine", structured=True, **elsewhere)
    assert (mine.model, mine.family, mine.structured, mine.api_key_env) == ("mine", "mine", True, None)
    assert (mine.endpoint, api_key(mine, {})) == (elsewhere["base_url"], None)


@pytest.mark.parametrize(("written", *FIELDS), CASES["named"])
def test_the_ids_of_seed_002_and_a_provider_with_a_model_are_names(written, provider, model, family):
    spec = model_spec(written)
    assert (spec.name, spec.provider, spec.model, spec.family) == (written, provider, model, family)


def test_a_model_whose_name_has_a_stroke_is_whose_the_study_says():
    spec = model_spec("openai/gpt-oss-20b", provider="compatible", base_url="http://127.0.0.1:1/v1")
    assert (spec.provider, spec.model) == ("compatible", "openai/gpt-oss-20b")
    assert model_address(model_spec("openai/gpt-6-luna")) == model_address(model_spec("gpt-6-luna"))
    refusal(
        "name its provider too, as in PROVIDER/MODEL: openai,", model_spec, "azure/gpt-9", error=StudyError
    )


@pytest.mark.parametrize(("provider", "written", "address"), CASES["addresses"])
def test_a_variable_of_a_providers_clients_names_its_address(provider, written, address):
    env = dict.fromkeys(("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"), written)
    assert address_of(provider, env) == address


def test_what_has_no_public_tokenizer_is_counted_by_a_factor():
    assert model_spec("claude-haiku-5-5").counted_by == ("o200k_base", 1.53)
    assert model_spec("claude-haiku-4-5", base_url="https://other.example").counted_by == ("o200k_base", 1.18)
    assert model_spec("claude-haiku-5-5", provider="compatible", base_url="http://h/v1").counted_by[1] == 1.53
    assert model_spec("llama-3.3-70b", tokens_per_o200k=1.1).counted_by == ("o200k_base", 1.1)
    assert model_spec("gpt-4-turbo").counted_by == ("cl100k_base", 1.0)
    assert model_spec("claude-haiku-5-5", encoding="cl100k_base").counted_by == ("cl100k_base", 1.0)
    refusal(
        r"gpt-4o.*counts exactly: take out tokens_per_o200k",
        model_spec,
        "gpt-4o",
        error=StudyError,
        tokens_per_o200k=1.5,
    )


@pytest.mark.parametrize(("fields", "says"), CASES["fields"])
def test_a_field_that_cannot_be_right_is_refused(fields, says):
    refusal(says, model_spec, "gpt-4o", **fields)


def test_the_providers_key_does_not_travel_to_another_server_unasked():
    assert model_spec("gpt-4o", base_url="http://example.org/v1").api_key_env is None
    named = model_spec("gpt-4o", base_url="http://example.org/v1", api_key_env="PROXY_KEY")
    assert named.api_key_env == "PROXY_KEY"


def test_different_weights_and_scripts_under_one_name_are_told_apart():
    ours = model_spec("smollm2-135m", gguf="weights/a.gguf")
    assert ours.gguf == Path("weights/a.gguf")
    assert ours.endpoint != model_spec("smollm2-135m", gguf="weights/b.gguf").endpoint
    assert model_spec("scripted", replies=["a"]).endpoint != model_spec("scripted", replies=["b"]).endpoint


def test_a_model_is_retired_from_its_day_on():
    spec = model_spec("claude-3-5-sonnet")
    assert [spec.is_retired(date(2025, 10, day)) for day in (27, 28, 29)] == [False, True, True]
    assert not model_spec("smollm2-135m").is_retired(date(9999, 1, 1))


def test_every_model_of_the_catalogue_has_a_dated_price():
    for name in model_names():
        price = price_of(model_spec(name))
        assert price.usd_per_million_input >= 0
        assert price.source
        assert price.rate_source


def test_every_row_of_the_catalogue_has_a_source_and_the_day_it_was_looked_up():
    rows = toml_table("catalogue")["models"]
    for name, row in rows.items():
        assert row["source"].startswith("https://") or row["provider"] == "scripted", name
        assert date(2026, 11, 1) <= row["as_of"] <= date.today(), name
    assert date.fromisoformat(toml_table("prices")["as_of"]) <= date.today()


def test_the_cost_is_tokens_times_price_times_rate():
    price = replace(price_of(model_spec("gpt-4o")), aud_per_usd=1.5)
    assert aud_cost(Usage(1000, 500), price) == pytest.approx((1000 * 2.5 + 500 * 10) / 1e6 * 1.5)


def test_a_model_without_a_price_is_refused_with_what_to_write():
    spec = model_spec("mine", provider="compatible", base_url="http://127.0.0.1:1/v1")
    refusal("give usd_per_million_input and usd_per_million_output", price_of, spec, error=PriceError)
    line = r'\{ name = "openrouter/x/y", usd_per_million_input = 1.0, usd_per_million_output = 4.0 \}'
    refusal(line, price_of, model_spec("openrouter/x/y"), error=PriceError)
    assert price_of(model_spec("ollama/llama3.3")).usd_per_million_output == 0


def test_a_local_model_lacks_its_package_before_anything_is_sent(monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    fault = key_fault(model_spec("smollm2-135m"), {})
    assert fault == "needs xllamacpp (pip install 'llm-security-toolkit[local]')"


@pytest.mark.parametrize("fields", CASES["half"])
def test_half_a_price_or_no_amount_of_money_is_refused(fields):
    refusal(None, price_of, model_spec("gpt-4o", **fields), error=PriceError)


@pytest.mark.parametrize(("name", "read", "write"), CASES["cache"])
def test_tokens_of_the_providers_cache_have_their_own_price(name, read, write):
    price = replace(price_of(model_spec(name)), aud_per_usd=1.5)
    usage = Usage(1000, 10, cache_read=600, cache_written=300)
    billed = 100 + 600 * read + 300 * write
    expected = (billed * price.usd_per_million_input + 10 * price.usd_per_million_output) / 1e6 * 1.5
    assert aud_cost(usage, price) == pytest.approx(expected)


def test_a_batch_costs_half_and_the_discount_of_the_cache_is_on_top():
    price = Price(10.0, 30.0, 1.0, "list", "today", 0.1, 1.25)
    half = batch_price(price, "openai")
    assert (half.usd_per_million_input, half.usd_per_million_output) == (5.0, 15.0)
    assert half.source == "list; batch, half price"
    assert batch_price(price, "groq") == price  # until it is asked in batches
    tiers = replace(price, over=Over(100, 20.0, 40.0), dated=(price, replace(price, since=date(2027, 1, 1))))
    assert batch_price(tiers, "openai").over == Over(100, 10.0, 20.0)
    assert [one.usd_per_million_input for one in batch_price(tiers, "openai").dated] == [5.0, 5.0]
    usage = Usage(1_000_000, 0, cache_read=1_000_000)
    assert aud_cost(usage, batch_price(price, "anthropic")) == pytest.approx(0.5)


@pytest.mark.parametrize(("name", "tokens", "below", "above"), CASES["long_prompts"])
def test_a_long_prompt_costs_more_all_of_it_and_what_is_cached_is_a_part_of_it(name, tokens, below, above):
    price = replace(price_of(model_spec(name)), aud_per_usd=1.0)
    for sent, (usd_input, usd_output) in ((tokens, below), (tokens + 1, above)):
        assert aud_cost(Usage(sent, 10), price) == pytest.approx((sent * usd_input + 10 * usd_output) / 1e6)
        read = aud_cost(Usage(sent, 0, cache_read=sent), price)
        assert read == pytest.approx(sent * usd_input * 0.1 / 1e6)
    # What may pass the limit is taken as if it did; the sum of several requests is at the rates of the longest.
    assert worst_cost(Usage(tokens + 1, 0, cache_written=tokens + 1), price, TODAY) == pytest.approx(
        (tokens + 1) * above[0] * 1.25 / 1e6
    )
    assert aud_cost(Usage(9 * tokens, 0), price, prompt=tokens) == pytest.approx(9 * tokens * below[0] / 1e6)


TODAY = date(2026, 11, 25)
DOUBLED = [
    {"input": 1.0, "output": 2.0, "until": date(2026, 11, 30)},
    {
        **{"input": 2.0, "output": 4.0, "from": date(2026, 12, 1)},
        **{"over": {"tokens": 1000, "input": 8.0, "output": 9.0}, "cache": {"read": 0.25}},
    },
]


def priced(*rows, **fields):
    """Return the price of a model of the study's own on a day, at a rate of 1."""
    spec = model_spec("mine", provider="compatible", base_url="http://127.0.0.1:1/v1", prices=rows, **fields)
    return replace(price_of(spec, TODAY), aud_per_usd=1.0)


def test_a_price_that_doubles_next_week_is_known_today():
    """Each call costs what holds on its day; the worst case of today is that of the days in which it may be sent."""
    price = priced(*DOUBLED)
    dated = replace(price, dated=tuple(replace(one, aud_per_usd=1.0) for one in price.dated))
    usage = Usage(1000, 500)
    costs = [
        aud_cost(usage, dated, date(2026, month, day)) for month, day in ((1, 1), (11, 30), (12, 1), (12, 31))
    ]
    assert costs == pytest.approx([0.002, 0.002, 0.004, 0.004])
    assert aud_cost(Usage(1001, 0, cache_read=1001), dated, date(2026, 12, 1)) == pytest.approx(0.002002)
    worst = [worst_cost(usage, dated, date(2026, 11, day)) for day in (1, 23, 24, 30)]
    assert worst == pytest.approx([0.002, 0.002, 0.004, 0.004])
    assert (price.usd_per_million_input, price.source) == (1.0, "given by the study")
    sonnet = model_spec("claude-sonnet-5-5", provider="anthropic")
    reads = [price_of(sonnet, date(2026, 10, day)).cache_read_share for day in (6, 7)]
    assert reads == [0.1, 0.05]
    assert price_of(model_spec("claude-opus-5-5", provider="anthropic")).cache_read_share == 0.05


@pytest.mark.parametrize(
    ("rows", "fields", "says"),
    [
        ([{"input": 1.0, "output": 2.0, "until": date(2026, 11, 24)}], {}, "no price after 2026-11-24"),
        ([{"input": 1.0, "output": 2.0}] * 2, {}, "two prices from the same day"),
        ([{"input": 1.0, "output": -2.0}], {}, "-2.0"),
        (
            [{"input": 1.0, "output": 2.0, "over": {"tokens": 9, "input": math.inf, "output": 1.0}}],
            *({}, "inf"),
        ),
        ([{"input": 1.0, "output": 2.0, "cache": {"read": -0.1}}], {}, "-0.1"),
        (DOUBLED, {"usd_per_million_input": 1.0}, "two prices"),
    ],
)
def test_a_price_in_rows_that_cannot_be_is_refused(rows, fields, says):
    refusal(says, priced, *rows, error=PriceError, **fields)


def test_a_price_given_in_short_keeps_the_tiers_of_the_table_in_proportion():
    """Who writes the price of short prompts into a study does not make long ones cheap."""
    mine = price_of(model_spec("claude-haiku-5-5", usd_per_million_input=0.2, usd_per_million_output=1.0))
    assert mine.over == Over(100_000, pytest.approx(1.0), pytest.approx(5.0))
    assert price_of(model_spec("claude-haiku-5-5", prices=[{"input": 0.2, "output": 1.0}])).over is None


def test_the_discount_of_the_provider_is_not_expected_of_another_server():
    """Never less than what is billed: a proxy has prices of its own, and a write may cost more there too."""
    price = price_of(model_spec("claude-3-5-haiku", base_url="http://127.0.0.1:1"))
    assert (price.cache_read_share, price.cache_write_share) == (1.0, 1.25)
    mine = model_spec("gpt-9", provider="openai", usd_per_million_input=1.0, usd_per_million_output=2.0)
    assert (price_of(mine).cache_read_share, price_of(mine).cache_write_share) == (1.0, 1.25)


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


@pytest.mark.parametrize("text", ["two words", "caf\u00e9", "line\nbreak"])
def test_what_cannot_be_a_key_is_refused_without_being_shown(text):
    assert text not in refusal(None, api_key, GPT, {"OPENAI_API_KEY": text})


REQUEST = ModelRequest(
    "openai",
    "gpt-4o",
    (Message("system", "You judge."), Message("user", "Port 22.")),
    temperature=0.1,
    seed=7,
)
IDENTITY = "0656d3018e603b006de1b0f8136295a186a51bcf52afa50e2db16d62343e4395"


def test_a_call_that_was_paid_for_keeps_its_name():
    """Computed before there were log-probabilities and caching; a ledger is full of such names."""
    assert REQUEST.identity() == IDENTITY


def test_what_ends_a_cached_prefix_is_no_part_of_the_identity():
    cached = replace(REQUEST, messages=tuple(replace(message, cached=True) for message in REQUEST.messages))
    assert cached.identity() == IDENTITY
    assert cached.canonical() == REQUEST.canonical()


@given(st.lists(st.text(), min_size=4, max_size=4), st.none() | st.integers(0, 9))
@example(['a","messages":0,"', ',"messages":0,', '\\",\\"messages\\":0,', "\ud800"], None)
def test_the_identity_is_the_hash_of_the_canonical_request(texts, probabilities):
    """Whatever stands in a value, also what looks like a key, the name of a call is that of its canonical JSON."""
    model, endpoint, first, second = texts
    request = ModelRequest(
        "compatible",
        model,
        (Message("user", first), Message("assistant", second)),
        endpoint=endpoint,
        top_logprobs=probabilities,
    )
    plain = json.dumps(request.canonical(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert request.identity() == hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()

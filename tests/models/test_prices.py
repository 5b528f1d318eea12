import math
from dataclasses import replace

import pytest

from toolkit.errors import PriceError
from toolkit.models.base import Usage
from toolkit.models.catalogue import model_names, model_spec
from toolkit.models.prices import Price, aud_cost, batch_price, price_of


def test_every_model_of_the_catalogue_has_a_dated_price():
    for name in model_names():
        price = price_of(model_spec(name))
        assert price.usd_per_million_input >= 0
        assert price.source
        assert price.rate_source


def test_the_cost_is_tokens_times_price_times_rate():
    price = replace(price_of(model_spec("gpt-4o")), aud_per_usd=1.5)
    assert aud_cost(Usage(1000, 500), price) == pytest.approx((1000 * 2.5 + 500 * 10) / 1e6 * 1.5)


def test_no_tokens_cost_nothing():
    assert aud_cost(Usage(0, 0), price_of(model_spec("gpt-4o"))) == 0.0


@pytest.mark.parametrize("name", ["smollm2-135m", "scripted"])
def test_local_and_scripted_models_are_free_because_they_are_declared_so(name):
    price = price_of(model_spec(name))
    assert price.source.startswith("free: ")
    assert aud_cost(Usage(10**9, 10**9), price) == 0.0


def test_a_model_without_a_price_is_refused_with_what_to_write():
    spec = model_spec("mine", provider="compatible", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(PriceError, match="give usd_per_million_input and usd_per_million_output"):
        price_of(spec)


def test_the_studys_own_price_goes_before_the_table():
    price = price_of(model_spec("gpt-4o", usd_per_million_input=0, usd_per_million_output=1.0))
    assert (price.usd_per_million_input, price.usd_per_million_output) == (0.0, 1.0)
    assert price.source == "given by the study"


@pytest.mark.parametrize(
    "fields",
    [
        {"usd_per_million_input": 1.0},
        {"usd_per_million_output": 1.0},
        {"usd_per_million_input": -1.0, "usd_per_million_output": 1.0},
        {"usd_per_million_input": math.nan, "usd_per_million_output": 1.0},
    ],
)
def test_half_a_price_or_no_amount_of_money_is_refused(fields):
    with pytest.raises(PriceError):
        price_of(model_spec("gpt-4o", **fields))


@pytest.mark.parametrize(
    ("name", "read", "write"),
    [
        ("gpt-4o", 0.5, 1.0),
        ("gpt-4o-mini", 0.5, 1.0),
        ("gpt-4-turbo", 1.0, 1.25),  # it has no cache; if it ever reports one, no discount is assumed
        ("claude-3-5-haiku", 0.1, 1.25),
        ("claude-3-5-sonnet", 0.1, 1.25),
        ("llama-3.3-70b", 1.0, 1.0),
        ("smollm2-135m", 1.0, 1.0),
    ],
)
def test_tokens_of_the_providers_cache_have_their_own_price(name, read, write):
    price = replace(price_of(model_spec(name)), aud_per_usd=1.5)
    usage = Usage(1000, 10, cache_read=600, cache_written=300)
    billed = 100 + 600 * read + 300 * write
    expected = (billed * price.usd_per_million_input + 10 * price.usd_per_million_output) / 1e6 * 1.5
    assert aud_cost(usage, price) == pytest.approx(expected)


def test_a_call_without_a_cache_costs_what_it_always_did_to_the_last_digit():
    price = price_of(model_spec("claude-3-5-haiku"))
    usd = 12_345 * price.usd_per_million_input + 678 * price.usd_per_million_output
    assert aud_cost(Usage(12_345, 678), price) == usd / 1e6 * price.aud_per_usd


def test_the_discounts_of_batch_and_cache_multiply():
    price = Price(10.0, 30.0, 1.0, "list", "today", 0.1, 1.25)
    usage = Usage(1_000_000, 0, cache_read=1_000_000)
    assert aud_cost(usage, batch_price(price, "anthropic")) == pytest.approx(0.5)


def test_the_discount_of_the_provider_is_not_expected_of_another_server():
    """Never less than what is billed: a proxy has prices of its own, and a write may cost more there too."""
    price = price_of(model_spec("claude-3-5-haiku", base_url="http://127.0.0.1:1"))
    assert (price.cache_read_share, price.cache_write_share) == (1.0, 1.25)
    mine = model_spec("gpt-9", provider="openai", usd_per_million_input=1.0, usd_per_million_output=2.0)
    assert (price_of(mine).cache_read_share, price_of(mine).cache_write_share) == (1.0, 1.25)

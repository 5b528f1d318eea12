import math

import pytest

from toolkit.errors import PriceError
from toolkit.models.base import Usage
from toolkit.models.catalogue import model_names, model_spec
from toolkit.models.prices import aud_cost, price_of


def test_every_model_of_the_catalogue_has_a_dated_price():
    for name in model_names():
        price = price_of(model_spec(name))
        assert price.usd_per_million_input >= 0
        assert price.source
        assert price.rate_source


def test_the_cost_is_tokens_times_price_times_rate():
    price = price_of(model_spec("gpt-4o"), aud_per_usd=1.5)
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


@pytest.mark.parametrize("rate", [0.0, -1.5, math.inf, math.nan])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(PriceError, match="aud_per_usd"):
        price_of(model_spec("gpt-4o"), aud_per_usd=rate)

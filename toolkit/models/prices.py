"""What a call costs in AUD: a dated price table, a dated exchange rate, and one multiplication."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from toolkit.errors import PriceError
from toolkit.models.base import Usage
from toolkit.models.catalogue import ModelSpec


@dataclass(frozen=True)
class Price:
    """Price of one model.

    Parameters
    ----------
    usd_per_million_input, usd_per_million_output
        USD per million tokens.
    aud_per_usd
        Exchange rate, AUD for one USD.
    source
        Where the price is from, with its date, in words for a manifest.
    rate_source
        Where the exchange rate is from, with its date.
    """

    usd_per_million_input: float
    usd_per_million_output: float
    aud_per_usd: float
    source: str
    rate_source: str


def price_of(spec: ModelSpec, *, aud_per_usd: float | None = None) -> Price:
    """Return the price of a model: the study's own if it gives one, else the table's.

    Parameters
    ----------
    spec
        The model.
    aud_per_usd
        Exchange rate of the study in AUD for one USD; ``None`` takes the dated rate of the table.

    Returns
    -------
    Price
        USD per million tokens and the rate.

    Raises
    ------
    PriceError
        The model has no price, or a price or rate that is no amount of money.

    Examples
    --------
    >>> from toolkit.models.catalogue import model_spec
    >>> price_of(model_spec("gpt-4o")).usd_per_million_output
    10.0
    >>> price_of(model_spec("scripted")).source
    'free: asks no model'
    """
    table = _table()
    exchange = table["exchange"]
    if aud_per_usd is None:
        rate, rate_source = float(exchange["aud_per_usd"]), f"{exchange['source']}, {exchange['as_of']}"
    else:
        rate, rate_source = float(aud_per_usd), "given by the study"
    if not (math.isfinite(rate) and rate > 0):
        raise PriceError(f"aud_per_usd is {rate}: it must be a positive number of AUD for one USD")
    usd_input, usd_output, source = _usd(spec, table)
    for value in (usd_input, usd_output):
        if not (math.isfinite(value) and value >= 0):
            raise PriceError(
                f"model {spec.name!r} has the price {value}: it must be 0 or more USD per million tokens"
            )
    return Price(usd_input, usd_output, rate, source, rate_source)


def aud_cost(usage: Usage, price: Price) -> float:
    """Return what the tokens cost in AUD.

    ``(input * usd_in + output * usd_out) / 1e6 * aud_per_usd``, never rounded.

    Parameters
    ----------
    usage
        Tokens in and out.
    price
        Price of the model that was asked.

    Returns
    -------
    float
        AUD.

    Examples
    --------
    >>> aud_cost(Usage(1_000_000, 0), Price(2.5, 10.0, 1.5, "list", "today"))
    3.75
    """
    usd = usage.input * price.usd_per_million_input + usage.output * price.usd_per_million_output
    return usd / 1e6 * price.aud_per_usd


def batch_price(price: Price, provider: str) -> Price:
    """Return what a model costs when it is asked through its provider's batch endpoint.

    Parameters
    ----------
    price
        Price of a single call.
    provider
        Whose batch endpoint it is.

    Returns
    -------
    Price
        The table's share of both prices, half of them; a provider without a batch endpoint keeps its price.

    Examples
    --------
    >>> half = batch_price(Price(2.5, 10.0, 1.5, "list", "today"), "openai")
    >>> half.usd_per_million_input, half.usd_per_million_output, half.source
    (1.25, 5.0, 'list; batch, half price')
    """
    share = _table()["batch"].get(provider)
    if share is None:
        return price
    return replace(
        price,
        usd_per_million_input=price.usd_per_million_input * share,
        usd_per_million_output=price.usd_per_million_output * share,
        source=f"{price.source}; batch, half price",
    )


def _usd(spec: ModelSpec, table: dict[str, Any]) -> tuple[float, float, str]:
    """Return the two prices in USD per million tokens and where they are from."""
    own = (spec.usd_per_million_input, spec.usd_per_million_output)
    if own[0] is not None and own[1] is not None:
        return float(own[0]), float(own[1]), "given by the study"
    if own != (None, None):
        raise PriceError(
            f"model {spec.name!r} has half a price: give usd_per_million_input and usd_per_million_output"
        )
    if spec.provider in table["free"]:
        return 0.0, 0.0, f"free: {table['free'][spec.provider]}"
    entry = table["prices"].get(spec.provider, {}).get(spec.model)
    if entry is None:
        raise PriceError(
            f"model {spec.name!r} ({spec.provider} {spec.model}) has no price, so its cost is unknown: "
            "give usd_per_million_input and usd_per_million_output in the study (0 if it is free)"
        )
    return float(entry["input"]), float(entry["output"]), f"{table['source']}, {table['as_of']}"


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files("toolkit.models") / "prices.toml").read_text(encoding="utf-8"))

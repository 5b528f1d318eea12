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
    """Price of one model."""

    usd_per_million_input: float
    usd_per_million_output: float
    aud_per_usd: float
    source: str
    rate_source: str
    cache_read_share: float = 1.0
    cache_write_share: float = 1.0


def price_of(spec: ModelSpec) -> Price:
    """Return the price of a model: the study's own if it gives one, else the table's."""
    table, own = _table(), (spec.usd_per_million_input, spec.usd_per_million_output)
    entry = table["prices"].get(spec.provider, {}).get(spec.model)
    if own[0] is not None and own[1] is not None:
        usd_input, usd_output, source = float(own[0]), float(own[1]), "given by the study"
    elif own != (None, None):
        raise PriceError(
            f"model {spec.name!r} has half a price: give usd_per_million_input and usd_per_million_output"
        )
    elif spec.provider in table["free"]:
        usd_input, usd_output, source = 0.0, 0.0, f"free: {table['free'][spec.provider]}"
    elif entry is None:
        raise PriceError(
            f"model {spec.name!r} ({spec.provider} {spec.model}) has no price, so its cost is unknown: "
            "give usd_per_million_input and usd_per_million_output in the study (0 if it is free)"
        )
    else:
        usd_input, usd_output = float(entry["input"]), float(entry["output"])
        source = f"{table['source']}, {table['as_of']}"
    for value in (usd_input, usd_output):
        if not (math.isfinite(value) and value >= 0):
            raise PriceError(
                f"model {spec.name!r} has the price {value}: it must be 0 or more USD per million tokens"
            )
    # What cached input costs as shares of input: read from the provider's cache, and written to it. Another server at
    # that model's place has discounts of its own, which we do not know.
    known = {**table["cache"].get(spec.provider, {}), **(entry or {}).get("cache", {})}
    read = known.get("read", 1.0) if spec.endpoint is None else 1.0
    exchange = table["exchange"]
    rate_source = f"{exchange['source']}, {exchange['as_of']}"
    shares = float(read), float(known.get("write", 1.0))
    return Price(usd_input, usd_output, exchange["aud_per_usd"], source, rate_source, *shares)


def aud_cost(usage: Usage, price: Price) -> float:
    """Return what the tokens cost in AUD.

    ``(billed * usd_in + output * usd_out) / 1e6 * aud_per_usd``, never rounded, where
    ``billed = input - cache_read - cache_written + cache_read * read_share + cache_written * write_share``.
    """
    # What the shares change, so that a call without a cache costs what it always did, to the last digit.
    saved = usage.cache_read * (1 - price.cache_read_share)
    added = usage.cache_written * (price.cache_write_share - 1)
    billed = usage.input - saved + added
    usd = billed * price.usd_per_million_input + usage.output * price.usd_per_million_output
    return usd / 1e6 * price.aud_per_usd


def batch_price(price: Price, provider: str) -> Price:
    """Return what a model costs when it is asked through its provider's batch endpoint."""
    share = _table()["batch"].get(provider)
    if share is None:
        return price
    return replace(
        price,
        usd_per_million_input=price.usd_per_million_input * share,
        usd_per_million_output=price.usd_per_million_output * share,
        source=f"{price.source}; batch, half price",
    )


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files("toolkit.models") / "prices.toml").read_text(encoding="utf-8"))

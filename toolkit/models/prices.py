"""What a call costs in AUD: dated prices with tiers for long prompts, a dated exchange rate, and one multiplication."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from toolkit.errors import PriceError
from toolkit.models.base import Body, Raw, Usage
from toolkit.models.catalogue import Exchange, ModelSpec, has_batches, toml_table

AHEAD = timedelta(days=7)
"""How long after it is reserved a call may be billed, so that the worst case knows a price that rises soon."""


@dataclass(frozen=True)
class Over:
    """What a request costs, all of it, whose prompt has more than ``tokens``."""

    tokens: int
    input: float
    output: float


@dataclass(frozen=True)
class Price:
    """Price of one model from a day on, to a last day; ``dated`` are its prices of all days, where it has several."""

    usd_per_million_input: float
    usd_per_million_output: float
    aud_per_usd: float
    source: str
    rate_source: str
    cache_read_share: float = 1.0
    cache_write_share: float = 1.0
    over: Over | None = None
    since: date = date.min
    until: date = date.max
    dated: tuple[Price, ...] = ()

    def on(self, day: date | None) -> Price:
        """Return the price of a day: the newest that holds by then. A reply that came is never without a price."""
        if day is None or not self.dated:
            return self
        return next((price for price in reversed(self.dated) if price.since <= day), self.dated[0])

    def at(self, aud_per_usd: float) -> Price:
        """Return the price at another exchange rate, as a call was booked with."""
        dated = tuple(replace(price, aud_per_usd=aud_per_usd) for price in self.dated)
        return replace(self, aud_per_usd=aud_per_usd, dated=dated)

    def rates(self, prompt: float) -> tuple[float, float]:
        """Return what input and output of a request cost whose prompt has so many tokens, in USD per million."""
        if self.over and prompt > self.over.tokens:
            return self.over.input, self.over.output
        return self.usd_per_million_input, self.usd_per_million_output


def price_of(spec: ModelSpec, day: date | None = None) -> Price:
    """Return the price of a model on a day, today by default: the study's own if it gives one, else the table's."""
    table, day = toml_table("prices"), day or datetime.now(UTC).date()
    rows = table["prices"].get(spec.provider, {}).get(spec.model, [])
    rows = rows if isinstance(rows, list) else [rows]
    short = (spec.usd_per_million_input, spec.usd_per_million_output)
    source = f"{table['source']}, {table['as_of']}"
    if spec.prices:
        if short != (None, None):
            raise PriceError(
                f"model {spec.name!r} has two prices: give prices, or usd_per_million_input and usd_per_million_output"
            )
        rows, source = spec.prices, "given by the study"
    elif short[0] is not None and short[1] is not None:
        rows, source = [_in_short(rows, short[0], short[1])], "given by the study"
    elif short != (None, None):
        raise PriceError(
            f"model {spec.name!r} has half a price: give usd_per_million_input and usd_per_million_output"
        )
    elif spec.provider in table["free"]:
        rows, source = [{"input": 0.0, "output": 0.0}], f"free: {table['free'][spec.provider]}"
    elif not rows:
        raise PriceError(
            f"model {spec.name!r} ({spec.provider} {spec.model}) has no price, so its cost is unknown: "
            "give usd_per_million_input and usd_per_million_output in the study (0 if it is free), as in "
            f'{{ name = "{spec.name}", usd_per_million_input = 1.0, usd_per_million_output = 4.0 }}'
        )
    prices = sorted((_price(row, spec, source) for row in rows), key=lambda price: price.since)
    if len({price.since for price in prices}) < len(prices):
        raise PriceError(f"model {spec.name!r} has two prices from the same day on: give each its own `from`")
    price = replace(prices[0], dated=tuple(prices)).on(day)
    if price.until < day:
        raise PriceError(f"model {spec.name!r} has no price after {price.until}: give its price in the study")
    return replace(price, dated=tuple(prices)) if len(prices) > 1 else price


def _price(row: Raw, spec: ModelSpec, source: str) -> Price:
    table, over = toml_table("prices"), row.get("over")
    # What cached input costs as shares of input: read from the provider's cache, and written to it. Another server at
    # that model's address has discounts of its own, which only the study can know.
    row_shares = row.get("cache", {})
    shares = {**table["cache"].get(spec.provider, {}), **row_shares}
    if spec.endpoint is not None and not (spec.prices and "read" in row_shares):
        shares["read"] = 1.0
    read, write = float(shares.get("read", 1.0)), float(shares.get("write", 1.0))
    tier = Over(over["tokens"], float(over["input"]), float(over["output"])) if over else None
    usd = float(row["input"]), float(row["output"])
    for value in (*usd, read, write, *((tier.input, tier.output) if tier else ())):
        if not (math.isfinite(value) and value >= 0):
            raise PriceError(
                f"model {spec.name!r} has the price {value}: it must be 0 or more USD per million tokens"
            )
    days = row.get("from", date.min), row.get("until", date.max)
    exchange = spec.exchange or table_exchange()
    rate_source = f"{exchange.source}, {exchange.day}"
    return Price(*usd, exchange.aud_per_usd, source, rate_source, read, write, tier, *days)


def table_exchange() -> Exchange:
    """Return the exchange rate of the table, which holds where the study has none of its own."""
    row = toml_table("prices")["exchange"]
    return Exchange(row["aud_per_usd"], date.fromisoformat(row["as_of"]), row["source"])


def _in_short(rows: Sequence[Raw], usd_input: float, usd_output: float) -> Body:
    """Return the row of a price that the study gives in short: tier and cache are those of the table, in proportion."""
    row = {**rows[-1]} if rows else {}
    if over := row.get("over"):
        more = {"input": usd_input / row["input"], "output": usd_output / row["output"]}
        row["over"] = over | {name: over[name] * factor for name, factor in more.items()}
    return {**row, "input": usd_input, "output": usd_output, "from": date.min, "until": date.max}


def aud_cost(usage: Usage, price: Price, day: date | None = None, *, prompt: float | None = None) -> float:
    """Return what the tokens of a request cost on a day, in AUD.

    ``(billed * usd_in + output * usd_out) / 1e6 * aud_per_usd``, never rounded, where
    ``billed = input - cache_read - cache_written + cache_read * read_share + cache_written * write_share``. The rates
    are those of a prompt of ``prompt`` tokens, which is ``usage.input`` unless the usage is of several requests.
    """
    price = price.on(day)
    usd_input, usd_output = price.rates(usage.input if prompt is None else prompt)
    # What the shares change, so that a call without a cache costs what it always did, to the last digit.
    saved = usage.cache_read * (1 - price.cache_read_share)
    added = usage.cache_written * (price.cache_write_share - 1)
    billed = usage.input - saved + added
    return (billed * usd_input + usage.output * usd_output) / 1e6 * price.aud_per_usd


def worst_cost(usage: Usage, price: Price, day: date, *, prompt: float | None = None) -> float:
    """Return the most that the tokens of a request can cost, asked on a day: with and without a cache, in either tier.

    Where the price changes soon, it is the dearer one of those that may hold when the request is sent.
    """
    days = [day, *(later.since for later in price.dated if day < later.since <= day + AHEAD)]
    longest = usage.input if prompt is None else prompt
    usages = (usage, replace(usage, cache_written=0))
    return max(
        aud_cost(tokens, price, on, prompt=length)
        for tokens in usages
        for on in days
        for length in (longest, 0)
    )


def batch_price(price: Price, provider: str) -> Price:
    """Return what a model costs when it is asked through its provider's batch endpoint."""
    share = toml_table("prices")["batch"].get(provider)
    if share is None or not has_batches(provider):
        return price
    over = price.over
    return replace(
        price,
        usd_per_million_input=price.usd_per_million_input * share,
        usd_per_million_output=price.usd_per_million_output * share,
        over=over and replace(over, input=over.input * share, output=over.output * share),
        dated=tuple(batch_price(other, provider) for other in price.dated),
        source=f"{price.source}; batch, half price",
    )

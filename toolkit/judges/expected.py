"""Expected scores: what a judge would say on average, from the probabilities of the digits it could have written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from toolkit.judges.parse import FENCE

_OPENING: Final = re.compile(rf"\s*(?:{FENCE}(?:json)?\s*)?\{{\s*", re.IGNORECASE)
_CLOSING: Final = re.compile(rf"\s*\}}\s*(?:{FENCE}\s*)?")
_COLON: Final = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_COMMA: Final = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_DIGIT: Final = re.compile(rb"(.*)([0-9])[\s,}]*", re.DOTALL)
"""A token that ends in one digit: what stands before it, and the digit; a comma or a brace may follow a number."""
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True)
class Expected:
    """The expected score of one dimension."""

    score: float
    mass: float


@dataclass(frozen=True)
class _Token:
    """One token of the reply: where it starts in the reply's bytes, the bytes, and its entry as received."""

    start: int
    bytes: bytes
    entry: Mapping[str, Any]


def expected_scores(
    raw: Mapping[str, Any], names: Sequence[str], scale: tuple[float, float] = (0, 5)
) -> Mapping[str, Expected]:
    r"""Return the expected score of each dimension for which the reply holds one.

    :math:`E = \sum_d d \, p_d / m` with :math:`m = \sum_d p_d`, over the digits d of the scale and their
    probabilities at the place where the judge wrote the dimension's number (Liu et al. 2023, G-Eval, equation 1,
    here with the probabilities of the digits made to sum to 1).

    A dimension is absent, and so missing, where there are no log-probabilities, where the reply is not one JSON
    object, where the number is not one digit of the scale, and where no digit has any probability. A judge that wrote
    4.5 gives no expected score for that dimension: its fraction is in no digit's distribution, so the request that
    asks for expected scores allows whole numbers only. Nothing in the raw reply is trusted: a log-probability that is
    none makes its dimension missing.

    llama.cpp gives the probabilities before its grammar took out what the schema forbids, so that ``mass`` is small
    where the model wanted to write something else altogether.

    Examples
    --------
    >>> from math import log
    >>> likeliest = [{"token": "4", "logprob": log(0.6)}, {"token": "5", "logprob": log(0.2)}]
    >>> tokens = [{"token": '{"clarity":', "logprob": 0.0, "top_logprobs": []}]
    >>> tokens += [{"token": "4", "logprob": log(0.6), "top_logprobs": likeliest}]
    >>> tokens += [{"token": "}", "logprob": 0.0, "top_logprobs": []}]
    >>> choice = {"message": {"content": '{"clarity":4}'}, "logprobs": {"content": tokens}}
    >>> expected_scores({"choices": [choice]}, ["clarity"])
    {'clarity': Expected(score=4.25, mass=0.8)}
    """
    low, high = scale
    if not (0 <= low < high <= 9 and low == int(low) and high == int(high)):
        raise ValueError(
            f"the scale {low} to {high} is not one of single digits: expected scores need 0 to 9 at most"
        )
    try:
        choice = raw["choices"][0]
        text, entries = choice["message"]["content"], choice["logprobs"]["content"]
    except (KeyError, IndexError, TypeError):
        return {}
    if not isinstance(text, str) or not isinstance(entries, list):
        return {}
    places, tokens = _number_places(text), _tokens(text, entries)
    found = {name: _expected(tokens, places[name], int(low), int(high)) for name in names if name in places}
    return {name: expected for name, expected in found.items() if expected is not None}


def _number_places(text: str) -> dict[str, int]:
    """Return where in the text's bytes each key's value stands that is one digit; empty if it is no one object."""
    opening = _OPENING.match(text)
    if opening is None:
        return {}
    places: dict[str, int] = {}
    keys: set[str] = set()
    end = opening.end()
    try:
        while True:
            key, end = _DECODER.raw_decode(text, end)
            colon = _COLON.match(text, end)
            if not isinstance(key, str) or key in keys or colon is None:
                return {}
            keys.add(key)
            start = colon.end()
            _, end = _DECODER.raw_decode(text, start)
            if end == start + 1 and text[start].isdigit():
                places[key] = len(text[:start].encode("utf-8", "replace"))
            comma = _COMMA.match(text, end)
            if comma is None:
                return places if _CLOSING.fullmatch(text, end) else {}
            end = comma.end()
    except (ValueError, RecursionError):
        return {}


def _tokens(text: str, entries: Sequence[Any]) -> list[_Token]:
    """Return the tokens of the text with their places; empty where they do not give the text when joined."""
    pieces = [_bytes_of(entry) for entry in entries]
    known = [piece for piece in pieces if piece is not None]
    if len(known) < len(pieces):
        return []
    # Tokens of a thought or of the chat format may stand before the text that the judge answered with, or after it.
    first = b"".join(known).rfind(text.encode("utf-8", "replace"))
    if first < 0:
        return []
    starts = accumulate((len(piece) for piece in known), initial=-first)
    return [_Token(*token) for token in zip(starts, known, entries, strict=False)]


def _bytes_of(entry: Any) -> bytes | None:
    """Return the bytes of a token: a character may be cut in two, and then only the bytes say what it is."""
    if not isinstance(entry, Mapping):
        return None
    given, token = entry.get("bytes"), entry.get("token")
    if isinstance(given, list):
        try:
            return bytes(given)
        except (TypeError, ValueError):
            return None
    return token.encode("utf-8", "replace") if isinstance(token, str) else None


def _expected(tokens: Sequence[_Token], place: int, low: int, high: int) -> Expected | None:
    token = next((token for token in tokens if token.start <= place < token.start + len(token.bytes)), None)
    if token is None:
        return None
    written = _DIGIT.fullmatch(token.bytes)
    if written is None or token.start + written.start(2) != place or not low <= int(written[2]) <= high:
        return None
    chances = _chances(token)
    digits = [
        (int(alternative[2]), chance)
        for piece, chance in chances or ()
        if (alternative := _DIGIT.fullmatch(piece))
        and low <= int(alternative[2]) <= high
        # Blanks are free; a quote or a colon stands before the digit in all of them or in none.
        and b"".join(alternative[1].split()) == b"".join(written[1].split())
    ]
    mass = math.fsum(chance for _, chance in digits)
    if not 0 < mass <= 1 + 1e-6:
        return None
    mean = math.fsum(digit * chance for digit, chance in digits) / mass
    # Division may leave the scale by the last bit.
    return Expected(min(max(mean, float(low)), float(high)), min(mass, 1.0))


def _chances(token: _Token) -> list[tuple[bytes, float]] | None:
    """Return what could have stood at a token's place with its probability; ``None`` where that is not to be had."""
    likeliest = token.entry.get("top_logprobs")
    if not isinstance(likeliest, list) or not likeliest:
        return None
    pieces = [_bytes_of(entry) for entry in likeliest]
    # What was written need not be among the likeliest, and its probability is known all the same.
    if token.bytes not in pieces:
        pieces, likeliest = [*pieces, token.bytes], [*likeliest, token.entry]
    chances = []
    for piece, entry in zip(pieces, likeliest, strict=True):
        chance = None if piece is None else _probability(entry.get("logprob"))
        if piece is None or chance is None:
            return None
        chances.append((piece, chance))
    return chances


def _probability(logprob: Any) -> float | None:
    if isinstance(logprob, bool) or not isinstance(logprob, int | float) or not logprob <= 0:  # NaN too
        return None
    try:
        return math.exp(logprob)
    except OverflowError:  # an integer of more digits than a float has room for
        return 0.0

"""The tokens a reply is billed for: what its provider counted, compared with the texts and limits of the call.

A count that is missing, malformed or far too small for its text is estimated, one that no call can have is taken at the
call's worst, and both are marked: a gap in a provider's usage must never become a free reply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from toolkit.models.base import ModelRequest, Usage
from toolkit.models.catalogue import ModelSpec
from toolkit.models.tokens import count_tokens

MESSAGE_TOKENS: Final = 16  # what chat formats add around a message, rounded up, for the worst case
MOST_INPUT: Final = 2_000_000
MOST_OUTPUT: Final = 400_000
"""More tokens than any model on sale reads or writes at once: a greater count is an error of the server and no bill."""
MOST_CHARACTERS: Final = 64
"""Characters of a text for one token of it, at most: prose has 4 or 5, and only runs of blanks come near this."""

# A study sends the same prompts again and again, and a judge sees the same rubric.
text_tokens = lru_cache(maxsize=2048)(count_tokens)


def worst_usage(spec: ModelSpec, request: ModelRequest) -> Usage:
    """Return what a request is billed for at worst: all its text, and a reply as long as it may be."""
    encoding, times = spec.counted_by
    text = sum(text_tokens(message.content, encoding) for message in request.messages)
    if request.response_schema:  # a provider may bill the schema like a text
        text += text_tokens(request.response_schema, encoding)
    sent = math.ceil((text * times + MESSAGE_TOKENS * len(request.messages)) * spec.doubt)
    # At worst all of it is written to the provider's cache, which costs more than being read once; Anthropic does so
    # only where a message is marked.
    written = sent if spec.provider != "anthropic" or any(m.cached for m in request.messages) else 0
    return Usage(sent, request.max_tokens, estimated=True, cache_written=written)


def estimated_usage(spec: ModelSpec, request: ModelRequest, text: str) -> Usage:
    """Return our own count of tokens, marked as the estimate it is."""
    return Usage(_sent(spec, request), _estimate(spec, text), estimated=True)


def usage_of(
    spec: ModelSpec,
    request: ModelRequest,
    counts: Any,
    *,
    text: str,
    thoughts: str = "",
    cut_off: bool = False,
    cache_beside: bool = False,
) -> Usage:
    """Return the tokens of a reply from a provider's usage object, whatever that holds; raises nothing.

    ``thoughts`` came beside the ``text`` and are billed like it, ``cut_off`` is whether the reply ended at its limit,
    and ``cache_beside`` whether tokens of the provider's cache are counted beside the input and not within it.
    """
    counts = counts if isinstance(counts, Mapping) else {}
    sent, sent_exact = _count(counts.get("prompt_tokens", counts.get("input_tokens")))
    got, got_exact = _count(counts.get("completion_tokens", counts.get("output_tokens")))
    total, _ = _count(counts.get("total_tokens"))
    parts = (counts.get(f"{name}_tokens_details") for name in ("prompt", "completion"))
    inside, details = (part if isinstance(part, Mapping) else {} for part in parts)
    reasoning = max(_count(part.get("reasoning_tokens"))[0] for part in (counts, details))
    if cache_beside:
        cache = [counts.get(f"cache_{name}_input_tokens") for name in ("read", "creation")]
        sent += sum(_count(part)[0] for part in cache)
        sent_exact = sent_exact and all(part is None or _count(part)[1] for part in cache)
    else:
        cache = [inside.get(name) for name in ("cached_tokens", "cache_write_tokens")]
    read, written = (int(number) if exact else 0 for number, exact in map(_count, cache))

    length = sum(len(message.content) for message in request.messages)
    most = max(MOST_INPUT, 4 * length)  # a character is four bytes at most, and a token one at least
    estimated, doubts = False, []
    if sent > most:
        doubts.append("input")
        worst = worst_usage(spec, request)
        sent, read, written = worst.input, 0, worst.cache_written
    elif not sent_exact or length > MOST_CHARACTERS * sent:
        estimated, read = True, 0
        sent = max(sent, _sent(spec, request))
        if got_exact and total <= most:
            sent = max(sent, total - got - (reasoning if reasoning > got else 0))
    # Reasoning is a part of the reply's tokens, or beside them (xAI); the total says which, or that it is more.
    beside = reasoning if reasoning > got and total < sent + got else 0
    billed, most = max(got + beside, total - sent), max(MOST_OUTPUT, request.max_tokens)
    if billed > most:
        doubts.append("output")
        billed = max(got if got <= most else 0, request.max_tokens, _estimate(spec, text, thoughts))
    elif not got_exact or len(text) + len(thoughts) > MOST_CHARACTERS * billed:
        estimated = True
        # Of a reply that shows nothing, or that was cut off at its limit, the limit is all that is known.
        unseen = not got_exact and not total and (cut_off or not text + thoughts)
        visible = max(_estimate(spec, text, thoughts), _estimate(spec, text) + reasoning)
        billed = max(billed, visible, request.max_tokens if unseen else 0)
    sent, got = math.ceil(sent), math.ceil(billed)
    # Parts that are more than the whole are no parts; then nothing is taken off the price.
    if read + written > sent:
        read, written = 0, min(written, sent)
    doubt = f"no call has the count of {' and '.join(doubts)} tokens that was sent: booked at its worst"
    counted = (sent, got, estimated or bool(doubts), read, written)
    return Usage(*counted, math.ceil(min(reasoning, got)), doubt if doubts else "")


def _count(value: Any) -> tuple[float, bool]:
    """Return the number in a count, 0 where there is none, and whether it is written as one: a whole number."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:  # NaN is not
        return 0, False
    return min(value, 2**62), isinstance(value, int)


def _sent(spec: ModelSpec, request: ModelRequest) -> int:
    return _estimate(spec, *(message.content for message in request.messages))


def _estimate(spec: ModelSpec, *texts: str) -> int:
    """Return our own count of the tokens of texts; a reply that came is never lost because it cannot be counted."""
    encoding, times = spec.counted_by
    try:
        tokens = sum(text_tokens(text, encoding) for text in texts)
    except Exception:  # no text has more tokens than bytes
        tokens = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return math.ceil(tokens * times)

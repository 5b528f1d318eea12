"""The tokens a reply is billed for: what its provider counted, compared with the texts and limits of the call.

A count that is missing, malformed or far too small for its text is estimated, one that no call can have is taken at the
call's worst, and both are marked: a gap in a provider's usage must never become a free reply.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from toolkit.models.base import ModelRequest, Raw, Usage
from toolkit.models.catalogue import ModelSpec
from toolkit.models.thoughts import written_in
from toolkit.models.tokens import count_tokens

MESSAGE_TOKENS = 16  # what chat formats add around a message, rounded up, for the worst case
MOST_INPUT = 2_000_000
MOST_OUTPUT = 400_000
"""More tokens than any model on sale reads or writes at once: a greater count is an error of the server and no bill."""
LEAST_SHARE = 0.2
WORDS_SHARE = 0.75
"""Of our own count of a text, and of its words, what a provider's count must be at least: no tokenizer has fewer."""
MOST_CHARACTERS = 64  # of an encrypted thought for one token of it, at most: usual are six

# A study sends the same prompts again and again, and a judge sees the same rubric.
text_tokens = lru_cache(maxsize=2048)(count_tokens)


def worst_usage(spec: ModelSpec, request: ModelRequest) -> Usage:
    """Return what a request is billed for at worst: all its text, and a reply as long as it may be."""
    # A provider may bill a schema, or what a study adds, like a text.
    texts = (*(part.content for part in request.messages), request.response_schema, request.options)
    text = _estimate(spec, *filter(None, texts))
    sent = math.ceil((text + MESSAGE_TOKENS * len(request.messages)) * spec.doubt)
    # At worst all of it is written to the provider's cache, which costs more than being read once; Anthropic does so
    # only where a message is marked.
    written = sent if spec.provider != "anthropic" or any(m.cached for m in request.messages) else 0
    return Usage(sent, request.max_tokens, estimated=True, cache_written=written)


def estimated_usage(spec: ModelSpec, request: ModelRequest, text: str) -> Usage:
    """Return our own count of tokens, marked as the estimate it is."""
    sent = _estimate(spec, *(message.content for message in request.messages))
    return Usage(sent, _estimate(spec, text), estimated=True)


def usage_of(
    spec: ModelSpec,
    request: ModelRequest,
    raw: Raw,
    *,
    text: str,
    cut_off: bool = False,
    cache_beside: bool = False,
) -> Usage:
    """Return the tokens of a reply from the usage object in its JSON, whatever that holds; raises nothing.

    ``text`` is the reply, ``cut_off`` whether it ended at its limit, and ``cache_beside`` whether tokens of the
    provider's cache are counted beside the input and not within it.
    """
    counts = raw.get("usage")
    counts = counts if isinstance(counts, Mapping) else {}
    sent, sent_exact = max(_count(counts.get(name)) for name in ("prompt_tokens", "input_tokens"))
    got, got_exact = max(_count(counts.get(name)) for name in ("completion_tokens", "output_tokens"))
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

    shown, worst = written_in(raw), worst_usage(spec, request)
    length = sum(len(message.content) for message in request.messages)
    most = max(MOST_INPUT, 4 * length)  # a character is four bytes at most, and a token one at least
    estimated, doubts = False, []
    if sent > most:
        doubts.append("input")
        sent, read, written = worst.input, 0, worst.cache_written
    elif not sent_exact or sent < _least(spec, *(part.content for part in request.messages)):
        estimated, read, written = True, 0, max(written, worst.cache_written)
        sent = max(sent, worst.input)
        if got_exact and total <= most:
            sent = max(sent, total - got - (reasoning if reasoning > got else 0))
    # Reasoning is a part of the reply's tokens, or beside them (xAI); the total says which, or that it is more.
    beside = reasoning if reasoning > got and total < sent + got else 0
    billed, most = max(got + beside, total - sent), max(MOST_OUTPUT, request.max_tokens)
    written_texts = *shown.texts, *shown.thoughts
    visible = max(_estimate(spec, text), _estimate(spec, *written_texts))
    # Of a reply that shows nothing, that was cut off at its limit, or before which its model may have thought unseen,
    # the limit is all that is known.
    thinks = spec.efforts or spec.reasoning_effort or spec.thinking_level or spec.extra
    is_unseen = not visible or cut_off or shown.thoughts or shown.opaque or thinks
    limit = request.max_tokens if is_unseen else 0
    least = max(_least(spec, text), _least(spec, *written_texts), shown.opaque / MOST_CHARACTERS)
    least = max(least, limit / 2 if cut_off and not visible else 0)
    if billed > most:
        doubts.append("output")
        billed = max(got if got <= most else 0, request.max_tokens, visible)
    elif not got_exact or not billed or billed < least:
        estimated = True
        unknown = not billed or billed < least or not (got_exact or total)
        billed = max(billed, visible, _estimate(spec, text) + reasoning, limit if unknown else 0)
    sent, got = math.ceil(sent), math.ceil(billed)
    # Parts that are more than the whole are no parts; then nothing is taken off the price.
    if read + written > sent:
        read, written = 0, min(written, sent)
    doubt = f"no call has the count of {' and '.join(doubts)} tokens that was sent: booked at its worst"
    counted = (sent, got, estimated or bool(doubts), read, written)
    return Usage(*counted, math.ceil(min(reasoning, got)), doubt if doubts else "")


def counts_any(usage: Any) -> bool:
    """Return whether a provider's usage object counts a token, in whatever form."""
    return isinstance(usage, Mapping) and any(number for number, _ in map(_count, usage.values()))


def _count(value: Any) -> tuple[float, bool]:
    """Return the number in a count, 0 where there is none, and whether it is written as one: a whole number."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:  # NaN is not
        return 0, False
    return min(value, 2**62), isinstance(value, int)


def _least(spec: ModelSpec, *texts: str) -> float:
    words = sum(len(text.split()) for text in texts)
    return max(WORDS_SHARE * words, LEAST_SHARE * _estimate(spec, *texts))


def _estimate(spec: ModelSpec, *texts: str) -> int:
    """Return our own count of the tokens of texts; a reply that came is never lost because it cannot be counted."""
    encoding, times = spec.counted_by
    try:
        tokens = sum(text_tokens(text, encoding) for text in texts)
    except Exception:  # no text has more tokens than bytes
        tokens = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return math.ceil(tokens * times)

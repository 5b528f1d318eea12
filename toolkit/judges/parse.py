"""Reads the replies of judges strictly: the scores of one JSON object, or the reason why there are none.

Nothing is repaired or guessed: a number taken from prose would measure the parser and not the judge.
"""

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from toolkit.files.reading import DEEPEST, TooDeep, parsed
from toolkit.judges.rubric import Rubric
from toolkit.models.base import BROKE_OFF
from toolkit.models.thoughts import split_thoughts
from toolkit.words import SCALE, one_line

MAX_OBJECTS = 200  # opening braces at which an object is looked for; a reply with more is no answer
DOUBLED = "\0doubled"  # the key of an object that had a key twice
_FENCE = "```"
_MARKS = "\ufeff\u200b"


@dataclass(frozen=True)
class Parsed:
    """The content of a judge's reply: scores, reasons, and detail that is stored with them."""

    scores: Mapping[str, float]
    reasons: str | None = None
    detail: Mapping[str, Any] | None = None


class Unreadable(Exception):
    """Why a reply cannot be read: a fixed reason, with an excerpt."""

    def __init__(self, word: str, detail: str = "") -> None:
        super().__init__(f"{word}: {detail}" if detail else word)


def parse_judgement(text: str, rubric: Rubric, finish_reason: str = "stop") -> Parsed:
    """Read one judge reply: exactly one JSON object with every dimension on the scale, or raise `Unreadable`."""
    answer = one_object(text, finish_reason)
    reasons = None
    if rubric.asks_reasons:
        keys = {reason_field(name): f"{name}: " for name in rubric.names} | {"reasons": "", "reason": ""}
        texts = [keys[key] + answer.pop(key) for key in keys if isinstance(answer.get(key), str)]
        reasons = storable("\n".join(texts)) or None
    for field in map(reason_field, rubric.scheme.optional):  # what is not judged needs no reason
        if answer.get(field, "") is None:
            del answer[field]
    for key, value in answer.items():
        if isinstance(value, dict | list):
            raise Unreadable("nested", quote(key))
    check_keys(answer, rubric.names, "missing dimension")
    named = [name for name in rubric.names if answer[name] is not None or name not in rubric.scheme.optional]
    return Parsed({name: _score(name, answer[name], rubric.scale) for name in named}, reasons)


def reason_field(name: str) -> str:
    """Return the key under which a judge gives its reason for the score of a dimension."""
    return f"{name}_reason"


def check_keys(answer: Mapping[str, Any], keys: Sequence[str], missing: str = "missing key") -> None:
    """Raise `Unreadable` where an object has not exactly these keys."""
    if extra := [key for key in answer if key not in keys]:
        raise Unreadable("extra key", quote(", ".join(extra)))
    if absent := [key for key in keys if key not in answer]:
        raise Unreadable(missing, ", ".join(absent))


def one_object(text: str, finish_reason: str) -> dict[str, Any]:
    """Return the JSON object that a reply consists of; raise `Unreadable` for anything else.

    A code fence around the reply, a byte order mark and thoughts before the object are removed. A complete object
    counts even when the reply stopped at its token limit.
    """
    if finish_reason != "stop":
        refuse_refusal(finish_reason, quote(text))
    body = split_thoughts(text)[0].strip().strip(_MARKS).strip()
    if body.startswith(_FENCE) and body.endswith(_FENCE) and len(body) >= 2 * len(_FENCE):
        body = body[len(_FENCE) : -len(_FENCE)].strip()
        body = body[4:].strip() if body[:4].lower() == "json" else body
    if not body:
        raise Unreadable("truncated" if finish_reason in BROKE_OFF else "empty")
    try:
        value, end = parsed(_DECODER.raw_decode, body)
    except json.JSONDecodeError as error:
        # A decoder that reached the end of the text had read the beginning of an object.
        opened = body[0] in "{["
        ran_out = opened and (error.pos >= len(body) or error.msg.startswith("Unterminated string"))
        if finish_reason in BROKE_OFF or ran_out:
            raise Unreadable("truncated", quote(body[-40:])) from error
        if not opened:
            raise Unreadable("prose", quote(body)) from error
        excerpt = body[max(0, error.pos - 20) : error.pos + 20]
        raise Unreadable("malformed", quote(excerpt)) from error
    except TooDeep as error:
        raise Unreadable("too deep") from error
    tail = body[end:].strip()
    if tail and isinstance(value, dict):
        raise Unreadable("two objects" if tail[0] == "{" else "trailing text", quote(tail))
    if not isinstance(value, dict):
        # A reply that starts with a bare number or word is prose that happens to begin like JSON.
        raise Unreadable("prose" if tail else "not an object", quote(body))
    return value


def refuse_refusal(finish_reason: str, excerpt: str) -> None:
    """Raise `Unreadable` where the provider says that the model refused or was filtered."""
    if finish_reason in ("refusal", "filter"):
        raise Unreadable("refusal" if finish_reason == "refusal" else "filtered", excerpt)


def storable(text: str) -> str:
    """Return a text without lone surrogates: JSON allows them, and no store can save them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def quote(text: str, length: int = 60) -> str:
    """Return an excerpt on one line, in quotes."""
    return repr(one_line(text, length))


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    answer = dict(pairs)
    if len(answer) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise Unreadable("duplicate key", quote(counts.most_common(1)[0][0]))
    return answer


# Integers are read as floats: int() refuses more than 4,300 digits, float() takes them.
_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=float, parse_constant=float)


def _score(name: str, value: object, scale: tuple[float, float]) -> float:
    # Every JSON number is a float here, so that its type tells it from true, false, null and text.
    if not isinstance(value, float):
        raise Unreadable("not a number", f"{name} is {quote(json.dumps(value))}")
    if math.isnan(value):
        raise Unreadable("nan", name)
    if not scale[0] <= value <= scale[1]:
        raise Unreadable("out of scale", f"{name} is {value:g}, the scale is {scale[0]:g} to {scale[1]:g}")
    return value + 0.0  # -0.0 becomes 0.0


# --- expected scores, from the probabilities of digits ----------------------------------------------------------------

_DIGIT = re.compile(rb"(.*)([0-9])[\s,}]*", re.DOTALL)
"""A token that ends in a digit: the text before it, and the digit; a comma or a brace may follow."""


def expected_scores(
    raw: Mapping[str, Any], names: Sequence[str], scale: tuple[float, float] = SCALE
) -> dict[str, tuple[float, float]]:
    r"""Return the expected score of each dimension that has one, with the probability of the digits it rests on.

    :math:`E = \sum_d d \, p_d / m` with :math:`m = \sum_d p_d`, over the digits d of the scale and their
    probabilities at the place where the judge wrote the dimension's number (Liu et al. 2023, G-Eval, equation 1,
    here with the probabilities of the digits made to sum to 1). Nothing in the raw reply is trusted. llama.cpp gives
    probabilities from before its grammar was applied: m is small where the model wanted to write something else.
    """
    try:
        choice = raw["choices"][0]
        text, entries = choice["message"]["content"], choice["logprobs"]["content"]
        answer = one_object(text, "stop")
        pieces = [_token_bytes(entry) for entry in entries]
        written = text.encode("utf-8", "replace")
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, Unreadable):
        return {}
    # Tokens of a thought or of the chat format may come before and after the text of the answer.
    first = b"".join(pieces).rfind(written)
    ends = list(accumulate(map(len, pieces)))
    scores = {}
    for name in names:
        # JSON escapes a quote inside a text, so this is a key; a key that also occurs in a thought is left out.
        matches = list(re.finditer(rb'"%s"\s*:\s*([0-9])(?=\s*[,}])' % re.escape(name.encode()), written))
        if first < 0 or name not in answer or len(matches) != 1:
            continue
        position = first + matches[0].start(1)
        token = bisect_right(ends, position)
        try:
            scores[name] = _expected(entries[token], position - ends[token] + len(pieces[token]), scale)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    return scores


def _token_bytes(entry: Mapping[str, Any]) -> bytes:
    """Return the bytes of a token: a token may hold a part of a character."""
    listed = entry.get("bytes")
    return bytes(listed) if isinstance(listed, list) else entry["token"].encode("utf-8", "replace")


def _expected(entry: Mapping[str, Any], position: int, scale: tuple[float, float]) -> tuple[float, float]:
    """Return the mean over the digits that could stand at a position; raise where they are not known."""
    token, likeliest = _token_bytes(entry), entry["top_logprobs"]
    written = _digit(token, scale)
    if written is None or written.start(2) != position or not isinstance(likeliest, list) or not likeliest:
        raise ValueError("no digit of the scale with its alternatives")
    chances = [(_token_bytes(candidate), _probability(candidate["logprob"])) for candidate in likeliest]
    # The written token need not be among the likeliest.
    if token not in [piece for piece, _ in chances]:
        chances.append((token, _probability(entry["logprob"])))
    digits = [
        (int(alternative[2]), chance)
        for piece, chance in chances
        # Blanks may differ; a quote or a colon before the digit may not.
        if (alternative := _digit(piece, scale))
        and b"".join(alternative[1].split()) == b"".join(written[1].split())
    ]
    mass = math.fsum(chance for _, chance in digits)
    if not 0 < mass <= 1 + 1e-6:
        raise ValueError("no probability on the digits")
    mean = math.fsum(digit * chance for digit, chance in digits) / mass
    # Division may exceed the scale in the last bit.
    return min(max(mean, scale[0]), scale[1]), min(mass, 1.0)


def _digit(token: bytes, scale: tuple[float, float]) -> re.Match[bytes] | None:
    match = _DIGIT.fullmatch(token)
    return match if match and scale[0] <= int(match[2]) <= scale[1] else None


def _probability(logprob: Any) -> float:
    if isinstance(logprob, bool) or not logprob <= 0:  # NaN too
        raise ValueError("no logarithm of a probability")
    return math.exp(logprob) if logprob > -1e6 else 0.0  # an integer may have more digits than a float


# --- objects in replies that only nearly are JSON ---------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?<=:)\s*+(?P<grouped>\d{1,3}(?:,\d{3})++)(?=\s*+[,}])
    |(?P<blank>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)|(?P<sign>[{}\[\]:,])|(?P<end>```|\Z)
    |(?P<quoted>"(?:[^"\\]|\\.)*+"|“[^”]*+”|'(?:[^'\\]|\\.|'(?!\s*+[:,\]}]))*+')
    |(?P<bare>(?:[^\s{}\[\]:,"'“/\#]|/(?![/*]))(?:[^{}\[\]:,"“`/\#\n]|/(?![/*]))*+)|(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = re.compile(r"""(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\'|["\\\x00-\x1f]""")
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][-+]?\d++)?|true|false|null")
_WORDS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_CLOSES = {"{": "}", "[": "]"}
_BEFORE_VALUE = ("{", "[", ":", ",")
_MOST_TOKENS = 50_000
"""Tokens of a reply that are read, each as often as an object may begin before it; a person writes a few hundred."""


def json_objects(text: str, decoder: json.JSONDecoder) -> list[dict[str, Any]]:
    """Return the outermost JSON objects of a reply, or raise `TooDeep`; one with a key twice, ambiguous, is DOUBLED.

    Read as they are meant: comments, commas before a closing bracket, other quotes or none, words of Python, texts
    over several lines, closing brackets that are missing.
    """
    objects, position, budget = [], 0, iter(range(_MOST_TOKENS))
    for _ in range(MAX_OBJECTS):
        position = text.find("{", position)
        if position < 0:
            break
        strict, end = _strict(text, position, budget)
        try:
            objects.append(parsed(decoder.decode, strict))
            position = end
        except TooDeep:
            raise
        except ValueError:
            position += 1
    return objects


def _escape(match: re.Match[str]) -> str:
    """Return a sign inside of quotes as strict JSON has it: a valid escape stays as it is."""
    return match[1] or json.dumps(match[0].replace("\\'", "'"))[1:-1]


def _strict(text: str, position: int, budget: Iterator[int]) -> tuple[str, int]:
    """Return the object that begins at a position as strict JSON, nothing for no object, and where it ends."""
    written, open_ends = [":"], list[str]()
    for _, match in zip(budget, _TOKEN.finditer(text, position), strict=False):
        kind, token, before = match.lastgroup, match[0], written[-1]
        if kind == "blank":
            continue
        if kind == "end" and before in _CLOSES.values():
            token = "".join(reversed(open_ends))
            open_ends.clear()
        elif token in ("}", "]"):
            if before == ",":
                written.pop()
            if before == ":" or token not in open_ends:
                break
            while (closing := open_ends.pop()) != token:
                written.append(closing)
        elif token in (",", ":"):
            if before in _BEFORE_VALUE:
                break
        elif kind in ("end", "other") or before not in _BEFORE_VALUE or (before == "{" and token in _CLOSES):
            break
        elif token in _CLOSES:
            open_ends.append(_CLOSES[token])
            if len(open_ends) > DEEPEST:
                raise TooDeep(f"nested deeper than {DEEPEST} levels")
        elif kind == "quoted":
            token = f'"{_ESCAPES.sub(_escape, token[1:-1])}"'
        else:
            token = _WORDS.get(token.strip(), token.strip())
            token = token if _PLAIN.fullmatch(token) else json.dumps(token)
        written.append(token)
        if not open_ends:
            return "".join(written[1:]), match.end()
    return "", position


def marked_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict, or DOUBLED alone where a key is there twice."""
    decoded = dict(pairs)
    return decoded if len(decoded) == len(pairs) else {DOUBLED: True}

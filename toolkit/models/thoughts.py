"""Tell a reply from the thoughts in it and beside it."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from toolkit.models.base import Raw

_NAMES = "(?:think(?:ing)?|thoughts?|reason(?:ing)?)"
_BEGIN = rf"""
    [<◁]\|?(?:(?:start|begin)_(?:of_)?)?(?:[a-z]+:)?{_NAMES}(?:\s[^<>/\n]{{0,80}})?\|?[>▷]
    | \[think(?:ing)?\]
    | <\|channel\|>\s*(?!final\b)[a-z]+[^<>\n]{{0,80}}<\|message\|>
    | <\|channel>thought"""
_END = rf"""
    [<◁]\|?(?:/|end_(?:of_)?)(?:[a-z]+:)?{_NAMES}\|?[>▷]
    | \[/think(?:ing)?\]
    | <\|channel\|>\s*final\b[^<>\n]{{0,80}}(?:<\|constrain\|>[^<>\n]{{0,80}})?<\|message\|>
    | <channel\|>"""
"""The marks of thoughts in current chat formats; what follows the mark of harmony's final channel is the reply."""
_FLAGS = re.IGNORECASE | re.VERBOSE | re.MULTILINE
_BEGIN_OF_THOUGHT = re.compile(_BEGIN, _FLAGS)
_THOUGHT_FIRST = re.compile(rf"\s*(?:{_BEGIN})", _FLAGS)
END_OF_THOUGHT = re.compile(rf"""(?!(?<=[`"'“])(?:{_END})[`"'”])(?:{_END})""", _FLAGS)
"""A mark that ends a thought, unless it stands between quotation marks."""
_LONE_END = re.compile(rf"\A\s*(?:{_END})|^[^\S\n]*(?:{_END})[^\S\n]*$", _FLAGS)
"""A mark that ends a thought whose beginning was part of the prompt: it has a line of its own."""
_OF_THOUGHT = re.compile("reasoning|think|thought")
"""In a name or type of a part of a reply: a model thought here."""
_OPAQUE = re.compile(r"(?:^|_)(?:data|encrypted\w*|signature|url)$")
"""Names of what stands for a thought, a sound or a picture, and is no text."""
_LABEL = re.compile(
    "(?:^|_)(?:ids?|type|role|object|status|format|annotations|citations|logprobs|(?:finish|stop)_(?:reason|sequence))$"
)
"""Names of what a provider says of a part of a reply, and the model did not write."""


class Written(NamedTuple):
    """What a model wrote in a reply, as its JSON shows it: each thought once, and characters of what is no text."""

    texts: list[str]
    thoughts: list[str]
    opaque: int


def written_in(raw: Raw) -> Written:
    """Return all that a reply shows of what its model wrote, the reply itself, calls of tools and thoughts among it."""
    texts: list[str] = []
    thoughts: list[str] = []
    opaque = 0
    # Without recursion: what a server sends may be nested as deeply as it likes.
    ahead: list[tuple[Any, bool, bool]] = [(raw.get(root), False, False) for root in ("content", "choices")]
    while ahead:
        value, is_thought, is_argument = ahead.pop()
        if isinstance(value, list):
            ahead += [(part, is_thought, is_argument) for part in reversed(value)]
        elif isinstance(value, Mapping):
            kind = value.get("type")
            kind = kind if isinstance(kind, str) else ""
            if not is_argument and kind.endswith("result"):  # of a tool: the model has read it
                continue
            is_thought = is_thought or bool(_OF_THOUGHT.search(kind))
            for name, part in reversed([*value.items()]):
                if is_argument:
                    ahead += [(part, is_thought, True), (name, is_thought, True)]
                elif _OPAQUE.search(name) and isinstance(part, str):
                    opaque += len(part)
                elif not _LABEL.search(name):
                    thinks = is_thought or bool(_OF_THOUGHT.search(name))
                    ahead.append((part, thinks, name in ("arguments", "input")))
        elif (value and isinstance(value, str)) or (is_argument and value is not None):
            (thoughts if is_thought else texts).append(str(value))
    # Servers send one thought under several names, whole and in pieces.
    longest = max(thoughts, key=len, default="")
    pieces = [thought for thought in dict.fromkeys(thoughts) if thought is longest or thought not in longest]
    return Written(texts, pieces, opaque)


def split_thoughts(text: str) -> tuple[str, str]:
    r"""Return a reply without the thoughts before it, and the thoughts.

    A thought begins at the beginning of the text, or where another one ended; a mark further on is part of the reply.
    It ends at the first mark of an end that does not stand between quotation marks; without one it takes the rest of
    the text. Where no thought begins, the first mark may be an end on a line of its own: what is before it was thought.

    >>> split_thoughts("<think>Which host?</think>\n\nIsolate the host."), split_thoughts("<think>Which")
    (('Isolate the host.', '<think>Which host?</think>'), ('', '<think>Which'))
    """
    start = 0
    while begin := _THOUGHT_FIRST.match(text, start):
        end = END_OF_THOUGHT.search(text, begin.end())
        start = end.end() if end else len(text)
    if (lone := _LONE_END.search(text)) and not _BEGIN_OF_THOUGHT.search(text, 0, lone.start()):
        start = lone.end()
    reply = text[start:]
    return (reply.lstrip("\n") if start else reply), text[:start]

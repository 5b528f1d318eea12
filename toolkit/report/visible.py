"""Makes text of models visible: characters that act on a screen or hide on it are shown as a code."""

import html
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import regex  # type: ignore[import-untyped]

from toolkit.words import is_unseen

Span = tuple[int, int]  # a place in a text, in characters, as in a slice

_UNUSUAL = regex.compile(  # text of others
    r"""(?V1)(?P<drawn>
      (?<=[\p{Emoji}--\p{ASCII}])[\uFE0E\uFE0F] | (?<=[0-9#*])\uFE0F(?=\u20E3)
    | (?<=\p{Extended_Pictographic}[\p{Emoji_Modifier}\uFE0F]?)\u200D(?=\p{Extended_Pictographic})
    | (?<=\p{ccc=Virama})[\u200C\u200D](?=\p{L})
    | (?<=[\p{jt=L}\p{jt=D}]\p{Mn}?)\u200C(?=[\p{jt=R}\p{jt=D}])
    ) | [^\x20-\x7e\n\t]""",
    regex.VERBOSE,
)
"""Characters to inspect; ``drawn`` are selectors and joiners that change what is seen.

These are presentation and sequences of emoji, and the joiners of RFC 5892, appendix A, in Indic and Arabic scripts.
Anywhere else, or twice in a row, they can carry hidden text.
"""
_NAMED = ("Co", "Zl", "Zp")  # private use, line and paragraph separators


def visible(text: str) -> str:
    """Return text in which a reader sees that it had hidden or acting characters; line ends and tabs stay."""
    return str(_UNUSUAL.sub(_replacement, text.replace("\r\n", "\n")))


def _replacement(part: Any) -> str:
    return str(part[0]) if part["drawn"] else _sign(part[0])


@lru_cache(maxsize=4096)
def _sign(character: str) -> str:
    category = unicodedata.category(character)
    # Of characters that this Unicode does not know yet, new emoji alone are surely seen.
    unknown = category == "Cn" and not regex.match(r"\p{Emoji}", character)  # text of others
    hidden = unknown or category in _NAMED or is_unseen(character)
    return f"[U+{ord(character):04X}]" if hidden else character


def escaped(text: object) -> str:
    """Return anything as HTML that shows it as text."""
    return html.escape(visible(str(text)))


def spans_in_order(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return spans in order, each once, without those that overlap the one before."""
    ordered: list[Span] = []
    for start, end in sorted(set(spans)):
        if end > start and (not ordered or start >= ordered[-1][1]):
            ordered.append((start, end))
    return tuple(ordered)


def marked_text(text: str, spans: Iterable[Span] = ()) -> str:
    """Return a text as received, as HTML, with spans marked."""
    parts, at = [], 0
    for start, end in spans_in_order(spans):
        parts += [escaped(text[at:start]), f"<mark>{escaped(text[start:end])}</mark>"]
        at = end
    return "".join([*parts, escaped(text[at:])])

"""How a reply is read: its final answer, the JSON in it, its words without decoration, and what it denies."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final

MAX_OBJECTS: Final = 200
"""Opening braces at which a JSON object is looked for; a reply with more is no answer."""
_MARKER: Final = re.compile(r"(?i)\b(?:final\s+)?answer\b[\s*_`]*(?:is\b:?|[:=])[*_`]*\s*")
_DENIED: Final = re.compile(
    r"(?:\b(?:no|not|never|without|neither|nor|except|cannot|unlike|instead of|rather than|other than"
    r"|(?:more|less|fewer|greater|higher|lower) than|at least|at most|up to)|n't)"
    r"(?:\s+(?:an?|the|be|on|in|to|is|was|only|just|exactly|host|address|path|uri|port|code|status)){0,3}"
    r"[\s\"'`*(:/]*$"
)


@dataclass(frozen=True)
class Match:
    """Whether a reply gives the expected answer."""

    matched: bool | None
    found: str | None
    why: str


def final_answer(text: str) -> str:
    """Return what a reply itself calls its answer, or the whole reply where it says nothing of the kind."""
    marks = list(_MARKER.finditer(text))
    if not marks:
        return text
    rest = text[marks[-1].end() :].strip()
    line = rest.split("\n", 1)[0].strip()
    if not rest:
        return text
    # A list or an object goes on over the lines below; a sentence does not.
    return rest if line[:1] in "[{`-•" or re.match(r"\d+[.)]\s", line) else line


def json_objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a reply that are not inside another one, in a fence or in prose.

    An object with a doubled key is left out: nobody can say which of the two is meant.
    """
    return [value for value in _decoded(text, "{") if _DOUBLED not in value]


def json_list(text: str) -> list[Any] | None:
    """Return the one JSON list of a reply; ``None`` where there is none, or more than one."""
    found = _decoded(text, "[")
    return found[0] if len(found) == 1 else None


def _decoded(text: str, sign: str) -> list[Any]:
    """Return the JSON values that begin with a bracket and are in no other."""
    found, position = [], 0
    for _ in range(MAX_OBJECTS):
        position = text.find(sign, position)
        if position < 0:
            break
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
        else:
            found.append(value)
    return found


def plain(text: str) -> str:
    """Return a text in small letters without emphasis, quotes around it, invisible characters and a full stop."""
    line = undecorated(text)
    while (stripped := line.strip(" .,;:!\"'")) != line:
        line = stripped
    return line


def undecorated(text: str) -> str:
    """Return a text in small letters without emphasis, invisible characters and doubled white space."""
    kept = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    kept = kept.translate({ord("’"): "'", ord("‘"): "'", ord("“"): '"', ord("”"): '"', ord("−"): "-"})
    return " ".join(re.sub(r"\*{1,3}|`{1,3}", "", kept).casefold().split())


def denied(text: str, start: int) -> bool:
    """Say whether the words just before a place deny what stands there, or make it a bound."""
    return bool(_DENIED.search(text[max(0, start - 80) : start].lower().replace("’", "'")))


def emphasised(text: str) -> str | None:
    """Return the one passage in bold; ``None`` where there is none, or more than one."""
    found = re.findall(r"\*\*([^*\n]{1,200})\*\*", text)
    return found[0] if len(found) == 1 else None


_DOUBLED: Final = "\0doubled"


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else {_DOUBLED: True}


# Integers are read as floats: int() refuses more than 4,300 digits, float() takes them.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=float)

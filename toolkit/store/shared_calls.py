"""Calls that another study of the same store paid for and this one rests on, though no record of it names them.

A run names the call that answers it and a judgement its first call. What came after in the same conversation (a retry
with more tokens, a repair, a question about a segment) is found by what it was about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from toolkit.store.connection import Store
from toolkit.store.documents import Call

_NOT_OF_REQUEST = ("text", "raw", "attempts", "failure")


def calls_beside(store: Store, study: str, leads: Iterable[str]) -> list[str]:
    """Return the ids of answered calls of other studies that belong to calls of this one."""
    named = set(leads)
    others = store.find_where(Call, {"study": {"$ne": study}, "state": "done"}, _NOT_OF_REQUEST)
    about: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for call in others:
        if call["_id"] not in named:
            about[_material(call["request"])].append(call)
    if not about:
        return []
    beside: dict[str, None] = {}
    for lead in store.find_by(Call, "_id", named, only=("request",)):
        request = lead.get("request")  # a call that is under way has none yet
        if request:
            beside |= dict.fromkeys(
                call["_id"]
                for call in about.get(_material(request), ())
                if _continues(call["request"], request)
            )
    return list(beside)


def _material(request: Mapping[str, Any]) -> str:
    """Return what a conversation is about and who is asked how: all up to the first word of the user."""
    messages = request["messages"]
    first = next((n for n, message in enumerate(messages) if message["role"] == "user"), 0)
    how = ("provider", "model", "endpoint", "repeat", "temperature", "top_p", "seed")
    return repr([*(request[name] for name in how), messages[: first + 1]])


def _continues(request: Mapping[str, Any], lead: Mapping[str, Any]) -> bool:
    """Whether a request is a retry with twice the tokens, or a further question about the same material."""
    if request["messages"] == lead["messages"]:
        times, rest = divmod(request["max_tokens"], lead["max_tokens"])
        return times > 1 and not rest and times & (times - 1) == 0
    return bool(request["max_tokens"] == lead["max_tokens"])

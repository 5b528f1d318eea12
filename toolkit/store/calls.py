"""The tidy frame of calls: every request that a study made or rests on, its cost and its end, without texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

import pandas as pd

from toolkit.store.connection import Store, without_collecting
from toolkit.store.dictionary import typed, types_of
from toolkit.store.documents import Call, Judgement, Run

CALL_TYPES: Final = types_of("calls")
_NOT_OF_CALL: Final = ("request", "text", "raw", "owner", "worst_aud", "inherited_aud", "updated_at", "seal")
_NOT_OF_REQUEST: Final = ("text", "raw", "attempts", "failure")


@without_collecting()
def calls_frame(
    store: Store,
    *,
    study: str,
    names: Mapping[tuple[str, str, str], str],
    roles: Mapping[tuple[str, str], str],
    where: Mapping[str, Any] | None = None,
    models: Container[str] | None = None,
    judges: Container[str] | None = None,
) -> pd.DataFrame:
    """Return one row a call that a study paid for, or that answers one of its runs or judges."""
    query = dict(where or {})
    leads = _leads(store, study)
    found = store.find_where(Call, {**query, "study": study}, _NOT_OF_CALL)
    paid = found if not query else store.find_where(Call, {"study": study}, only=("study",))
    own = {call["_id"] for call in paid}
    # Studies of one results folder share calls: another one may have paid for an answer that this one rests on.
    shared = [call_id for call_id in leads if call_id not in own]
    if shared:
        shared += calls_beside(store, study, shared)
        found += store.find_by(Call, "_id", shared, _NOT_OF_CALL, where=query)
    rows = (_row(call, leads.get(call["_id"]), names, roles) for call in found)
    kept = (
        row
        for row in rows
        if (models is None or row["model"] in models) and (judges is None or row["role"] in judges)
    )
    return typed(kept, CALL_TYPES).sort_values(["created_at", "call_id"], ignore_index=True)


def _leads(store: Store, study: str) -> dict[str, Mapping[str, Any]]:
    """Return the run and, of a judge's call, the judge by the call that answers the run or names the judgement."""
    of_run = ("run_id", "model", "call_id")
    runs = store.find_where(Run, {"study": study}, only=of_run)
    said = store.find_where(Judgement, {"study": study}, only=(*of_run, "judge", "judge_repeat"))
    leads: dict[str, Mapping[str, Any]] = {}
    for one in sorted([*runs, *said], key=lambda one: one["run_id"]):
        leads.setdefault(one["call_id"], one)  # one call judges all replies with the same text
    return leads


def _row(
    call: Mapping[str, Any],
    led: Mapping[str, Any] | None,
    names: Mapping[tuple[str, str, str], str],
    roles: Mapping[tuple[str, str], str],
) -> dict[str, Any]:
    provider, model, purpose = call["provider"], call["model"], call["purpose"]
    failure = call.get("failure") or {}
    role = led.get("judge") if led else roles.get((provider, model)) if purpose == "judge" else None
    return {
        **{name: call.get(name) for name in CALL_TYPES},
        "call_id": call["_id"],
        "paid_by": call["study"],
        "leads": led is not None,
        "run_id": led["run_id"] if led else None,
        "role": role,
        "judge_repeat": led.get("judge_repeat") or 0 if led and "judge" in led else None,
        "model": led["model"] if led else names.get((purpose, provider, model)),
        "provider_model": model,
        "unsure_aud": call.get("unsure_aud") or 0.0,
        "attempts": len(call.get("attempts") or ()),
        "failure": f"{failure.get('reason')}: {failure.get('message')}" if failure else None,
    }


def calls_beside(store: Store, study: str, leads: Iterable[str]) -> list[str]:
    """Return the ids of answered calls of other studies that belong to calls of this one."""
    # No record of this study names what came after in the same conversation (a retry with more tokens, a repair, a
    # question about a segment) where another study asked and paid for it: it is found by what it was about.
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

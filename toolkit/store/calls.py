"""The tidy frame of calls: every request that a study made or rests on, its cost and its end, without texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

import pandas as pd

from toolkit.store.connection import Store, windows
from toolkit.store.documents import Call, Judgement, Run
from toolkit.store.frame_files import typed, types_of

CALL_TYPES: Final = types_of("calls")
_UNREAD: Final = ("request", "text", "raw", "owner", "worst_aud", "inherited_aud", "updated_at", "seal")
_UNREAD_OF_SHARED: Final = ("text", "raw", "attempts", "failure")


class _Lead(NamedTuple):
    """The run that rests on a call, and the judge whose judgement of it the call is."""

    run_id: str
    model: str
    judge: str | None = None
    judge_repeat: int | None = None


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
    paid_ids = {call["_id"] for call in store.each_where(Call, {"study": study}, only=("study",))}
    # Studies of one results folder share calls: another one may have paid for an answer that this one rests on.
    shared = [call_id for call_id in leads if call_id not in paid_ids]
    if shared:
        shared += calls_beside(store, study, shared)
    paid = store.each_where(Call, {**query, "study": study}, _UNREAD)
    of_others = (
        call for ids in windows(shared) for call in store.find_by(Call, "_id", ids, _UNREAD, query=query)
    )
    rows = (_row(call, leads.get(call["_id"]), names, roles) for call in chain(paid, of_others))
    filtered = (
        row
        for row in rows
        if (models is None or row["model"] in models) and (judges is None or row["role"] in judges)
    )
    parts = [typed(some, CALL_TYPES) for some in windows(filtered)] or [typed((), CALL_TYPES)]
    return pd.concat(parts).sort_values(["created_at", "call_id"], ignore_index=True)


def _leads(store: Store, study: str) -> dict[str, _Lead]:
    """Return the run and, of a judge's call, the judge by the call that answers the run or names the judgement."""
    leads: dict[str, _Lead] = {}
    for kind, fields in ((Run, ()), (Judgement, ("judge", "judge_repeat"))):
        for document in store.each_where(
            kind, {"study": study}, only=("run_id", "model", "call_id", *fields)
        ):
            lead = _Lead(document["run_id"], document["model"], *(document.get(name) for name in fields))
            call_id = document["call_id"]  # one call judges all replies with the same text
            if call_id not in leads or lead.run_id < leads[call_id].run_id:
                leads[call_id] = lead
    return leads


def _row(
    call: Mapping[str, Any],
    lead: _Lead | None,
    names: Mapping[tuple[str, str, str], str],
    roles: Mapping[tuple[str, str], str],
) -> dict[str, Any]:
    provider, model, purpose = call["provider"], call["model"], call["purpose"]
    failure = call.get("failure") or {}
    role = lead.judge if lead else roles.get((provider, model)) if purpose == "judge" else None
    return {
        **{name: call.get(name) for name in CALL_TYPES},
        "call_id": call["_id"],
        "paid_by": call["study"],
        "leads": lead is not None,
        "run_id": lead.run_id if lead else None,
        "role": role,
        "judge_repeat": lead.judge_repeat or 0 if lead and lead.judge else None,
        "model": lead.model if lead else names.get((purpose, provider, model)),
        "provider_model": model,
        "unsure_aud": call.get("unsure_aud") or 0.0,
        "attempts": len(call.get("attempts") or ()),
        "failure": f"{failure.get('reason')}: {failure.get('message')}" if failure else None,
    }


def calls_beside(store: Store, study: str, leads: Iterable[str]) -> list[str]:
    """Return the ids of answered calls of other studies that belong to calls of this one."""
    # No record of this study names what came after in the same conversation (a retry with more tokens, a repair, a
    # question about a segment) where another study asked and paid for it: it is found by what it was about.
    lead_ids = set(leads)
    by_material: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    others = {"study": {"$ne": study}, "state": "done"}
    for call in store.each_where(Call, others, _UNREAD_OF_SHARED):
        if call["_id"] not in lead_ids:
            by_material[_material(call["request"])].append(call)
    if not by_material:
        return []
    beside: dict[str, None] = {}
    for ids in windows(lead_ids):
        for lead in store.find_by(Call, "_id", ids, only=("request",)):
            if request := lead.get("request"):  # a call that is under way has none yet
                same = by_material.get(_material(request), ())
                beside |= dict.fromkeys(call["_id"] for call in same if _continues(call["request"], request))
    return list(beside)


def _material(request: Mapping[str, Any]) -> str:
    """Return what a conversation is about and who is asked how: all up to the first word of the user."""
    messages = request["messages"]
    first = next((n for n, message in enumerate(messages) if message["role"] == "user"), 0)
    settings = ("provider", "model", "endpoint", "repeat", "temperature", "top_p", "seed")
    return repr([*(request[name] for name in settings), messages[: first + 1]])


def _continues(request: Mapping[str, Any], lead: Mapping[str, Any]) -> bool:
    """Whether a request is a retry with twice the tokens, or a further question about the same material."""
    if request["messages"] == lead["messages"]:
        times, remainder = divmod(request["max_tokens"], lead["max_tokens"])
        return times > 1 and not remainder and times & (times - 1) == 0
    return bool(request["max_tokens"] == lead["max_tokens"])

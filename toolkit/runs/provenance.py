"""What a store holds of a study, as one hash, and which models it asked, when and for how much."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from toolkit.files.digests import digest
from toolkit.models.catalogue import Exchange
from toolkit.plan import Plan
from toolkit.runs.ledger import calls_by_state
from toolkit.store.connection import Store, open_store
from toolkit.store.documents import Annotation, Call, HumanRating, Run
from toolkit.store.filters import leads_and_shared
from toolkit.store.writer import Fields
from toolkit.words import counted, total_aud


def store_digest(study: str, folder: Path) -> str:
    """Return the hash of what a store holds of a study, without making a store where there is none."""
    parts: list[list[str]] = []
    if os.environ.get("MONGODB_URI") or folder.is_dir():
        store = open_store(folder)
        try:
            states = calls_by_state(store, study).items()
            parts += [["calls", state, str(calls.count)] for state, calls in states]
            # Every document, and not the last change only: a clock that was set back must not hide one.
            # Of a rating every version is one.
            for document in (Run, Annotation, HumanRating):
                for stored in store.find_where(document, {"study": study}, only=("updated_at",)):
                    parts.append([document.__name__, str(stored["_id"]), str(stored.get("updated_at", ""))])
        finally:
            store.close()
    return digest(*sorted(parts))


_FIELDS = (
    "state", "purpose", "provider", "model", "answered_by", "updated_at", "aud_cost", "aud_per_usd", "input_tokens",
    "output_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One model as a study asked it for one purpose."""

    purpose: str
    provider: str
    model: str
    answered_by: tuple[str, ...]
    first: date
    last: date
    calls: int
    input_tokens: int
    output_tokens: int
    aud: float
    rates: Mapping[float, int]

    @property
    def days(self) -> str:
        """The days in words: one, or the first and the last."""
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


def asked_models(
    plan: Plan, store: Store, judge_calls: Iterable[str] = (), *, earlier: bool = True
) -> tuple[Asked, ...]:
    """Return every model that answered a call of a study, models under test first, then by provider and name."""
    calls = store.find_by(Call, "_id", [*plan.call_ids, *judge_calls], only=_FIELDS)
    if earlier:
        calls += store.each_where(Call, {"study": plan.study.name}, only=_FIELDS)
        calls += store.find_by(Call, "_id", leads_and_shared(plan, store)[1], only=_FIELDS)
    groups: dict[tuple[str, str, str], list[Fields]] = defaultdict(list)
    for call in {call["_id"]: call for call in calls}.values():
        if call["state"] == "done":
            groups[call["purpose"], call["provider"], call["model"]].append(call)
    ordered = sorted(groups, key=lambda key: (key[0] != "run", *key))
    return tuple(_asked(key, groups[key]) for key in ordered)


def answered_by_others(store: Store, study: str) -> list[dict[str, Any]]:
    """Return whom a study asked and who says to have answered in its place, with the calls, each pair once.

    A dated version of the name that was asked is no other model; nothing is dropped whoever has answered.
    """
    query = {"study": study, "$expr": {"$ne": ["$model", "$answered_by"]}}
    calls = store.each_where(Call, query, only=("model", "answered_by"))
    return other_models(Counter((call["model"], name) for call in calls if (name := call.get("answered_by"))))


def other_models(pairs: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """Return the rows of `answered_by_others`, from calls counted by the model asked and the one that answered."""
    rows = []
    for (requested, name), number in sorted(pairs.items()):
        model_name, answered = requested.casefold(), name.casefold()
        dated = re.escape(model_name.removesuffix("-latest")) + r"([-@]\d{4}(-?\d\d){0,2})?"
        if answered != model_name and not re.fullmatch(dated, answered):
            rows.append({"asked": requested, "answered_by": " ".join(name.split())[:100], "calls": number})
    return rows


def shared_replies(plan: Plan, store: Store) -> dict[str, int]:
    """Return how many runs of a plan have a reply that another study paid for, by the name of that study."""
    by_others = {"study": {"$ne": plan.study.name}}
    calls = store.find_by(Call, "_id", plan.call_ids, only=("study", "state"), query=by_others)
    payers = {call["_id"]: call["study"] for call in calls if call["state"] == "done"}
    names = (payers.get(call_id, plan.study.name) for call_id in plan.call_ids)
    return dict(Counter(name for name in names if name != plan.study.name))


def _asked(key: tuple[str, str, str], calls: list[Fields]) -> Asked:
    days = sorted(call["updated_at"].date() for call in calls)
    return Asked(
        *key,
        answered_by=tuple(sorted({str(call["answered_by"]) for call in calls if call.get("answered_by")})),
        first=days[0],
        last=days[-1],
        calls=len(calls),
        input_tokens=sum(call["input_tokens"] for call in calls),
        output_tokens=sum(call["output_tokens"] for call in calls),
        aud=total_aud(call["aud_cost"] for call in calls),
        rates=Counter(rate for call in calls if (rate := booked_rate(call))),
    )


def booked_rate(call: Fields) -> float | None:
    """Return the exchange rate that a call was booked with; one that cost nothing has none."""
    return call.get("aud_per_usd") if call.get("aud_cost") else None


def rates_sentence(several: Iterable[Mapping[float, int]], exchange: Exchange) -> str:
    """Return the rates that calls were booked with, from calls by rate; nothing where all have the one that holds."""
    rates: Counter[float] = sum(map(Counter, several), Counter())
    if set(rates) <= {exchange.aud_per_usd}:
        return ""
    booked = ", ".join(f"{counted(number, 'calls')} at {rate:g}" for rate, number in sorted(rates.items()))
    return (
        f"Calls keep the exchange rate they were booked with ({booked} AUD a USD); new ones are at {exchange}"
    )

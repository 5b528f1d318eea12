"""Which models a study asked, when and for how much, read from the ledger: what a methods section has to say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from toolkit.store.documents import Call
from toolkit.store.shared_calls import calls_beside

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.store.connection import Store

_FIELDS: Final = (
    *("state", "purpose", "provider", "model", "answered_by", "updated_at"),
    *("aud_cost", "input_tokens", "output_tokens"),
)


@dataclass(frozen=True)
class Asked:
    """One model as a study asked it for one purpose.

    Parameters
    ----------
    purpose
        ``run`` or ``judge``.
    provider, model
        Who was asked, under the provider's own name.
    answered_by
        Versions that the provider says have answered, sorted.
    first, last
        Days of the first and of the last reply, UTC.
    calls
        Calls that were answered.
    input_tokens, output_tokens
        Tokens sent and received.
    aud
        What they cost.
    """

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

    @property
    def days(self) -> str:
        """The days in words: one, or the first and the last."""
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


def asked_models(
    plan: Plan, store: Store, judge_calls: Iterable[str] = (), *, earlier: bool = True
) -> tuple[Asked, ...]:
    """Return every model that answered a call of a study, models under test first, then by provider and name.

    Parameters
    ----------
    plan
        The planned study.
    store
        Its open store.
    judge_calls
        Calls that count as judgements although another study of the same store paid for them.
    earlier
        Whether all other calls count that the study paid for: under settings that it no longer has, of replies that
        were asked for again, of repairs, segments and probes; of what another study paid for, those that go with the
        calls above, as in the frame of calls.
    """
    found = {call["_id"]: call for call in store.find_by(Call, "_id", plan.call_ids, only=_FIELDS)}
    found |= {call["_id"]: call for call in store.find_by(Call, "_id", judge_calls, only=_FIELDS)}
    if earlier:
        paid = store.database["calls"].find({"study": plan.study.name}, dict.fromkeys(_FIELDS, 1))
        own = {call["_id"]: call for call in paid}
        shared = [call_id for call_id in found if call_id not in own]
        beside = calls_beside(store, plan.study.name, shared) if shared else []
        found |= own | {call["_id"]: call for call in store.find_by(Call, "_id", beside, only=_FIELDS)}
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for call in found.values():
        if call["state"] == "done":
            groups[call["purpose"], call["provider"], call["model"]].append(call)
    ordered = sorted(groups, key=lambda key: (key[0] != "run", *key))
    return tuple(_asked(key, groups[key]) for key in ordered)


def _asked(key: tuple[str, str, str], calls: list[Mapping[str, Any]]) -> Asked:
    days = sorted(_day(call["updated_at"]) for call in calls)
    return Asked(
        *key,
        answered_by=tuple(sorted({str(call["answered_by"]) for call in calls if call.get("answered_by")})),
        first=days[0],
        last=days[-1],
        calls=len(calls),
        input_tokens=sum(call["input_tokens"] for call in calls),
        output_tokens=sum(call["output_tokens"] for call in calls),
        aud=sum(sorted(call["aud_cost"] for call in calls)),
    )


def _day(moment: datetime) -> date:
    return moment.date()

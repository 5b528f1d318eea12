"""Ask the judges of a study outside of its runs: through its gateway, into its ledger, under its budget."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from toolkit.errors import InputError
from toolkit.models.base import Answer, Ask, ModelRequest
from toolkit.runs.access import endpoints_of
from toolkit.runs.endpoint import worst_aud
from toolkit.runs.execution import run_anywhere
from toolkit.runs.gateway import Gateway
from toolkit.runs.ledger import Ledger
from toolkit.runs.preflight import refuse_keyless
from toolkit.runs.progress import Progress
from toolkit.runs.standing import budget_left
from toolkit.store.connection import Store

if TYPE_CHECKING:
    from toolkit.plan import Plan

R = TypeVar("R")


def ask_study(
    plan: Plan,
    store: Store,
    work: Callable[[Ask, threading.Event], Awaitable[R]],
    *,
    requests: Sequence[ModelRequest],
    label: str = "judge calls",
    progress: bool = True,
) -> R:
    """Do work that asks judges of a study, and return what it returns; what the ledger has is not asked again."""
    if not plan.judges:
        raise InputError(f"study {plan.study.name}: has no judges to ask; name them under [judges]")
    asked = {_key(request) for request in unpaid(plan, store, requests)}
    refuse_keyless((end.spec for end in endpoints_of(plan) if end.key in asked), plan.folder)
    stop = threading.Event()

    async def execute() -> R:
        ledger = Ledger(store, plan.study.name)
        study = plan.study
        gateway = Gateway(ledger, endpoints_of(plan), budget_aud=study.budget.aud, seed=study.seed, stop=stop)
        bar = Progress(label, len(requests), shown=progress, since=gateway.counters, waiting=gateway.waiting)

        async def ask(request: ModelRequest) -> Answer:
            answer = await gateway.ask(request, purpose="judge")
            bar.step(gateway.counters)
            return answer

        try:
            return await work(ask, stop)
        finally:
            await gateway.close()
            bar.close()
            await store.writer.settled()

    return run_anywhere(execute, stop)


def unpaid(plan: Plan, store: Store, requests: Iterable[ModelRequest]) -> list[ModelRequest]:
    """Return those of some requests that are not answered in the ledger yet, each once.

    Parameters
    ----------
    plan, store
        The planned study and its open store.
    requests
        What would be asked.
    """
    wanted = {request.identity(): request for request in requests}
    paid = Ledger(store, plan.study.name).prefetch(list(wanted))
    return [request for call_id, request in wanted.items() if call_id not in paid]


def worst_of(plan: Plan, store: Store, requests: Iterable[ModelRequest]) -> float:
    """Return what requests that are not paid for cost at worst, in AUD, and never more than the budget lets out."""
    endpoints = {endpoint.key: endpoint for endpoint in endpoints_of(plan)}
    worst = sum(worst_aud(request, endpoints[_key(request)]) for request in requests)
    return min(worst, budget_left(plan, store))


def confirm_asking(plan: Plan, store: Store, requests: Iterable[ModelRequest]) -> None:
    """Refuse to ask what may cost more than ``budget.confirm_above_aud`` unless it was confirmed."""
    left = unpaid(plan, store, requests)
    worst = worst_of(plan, store, left)
    threshold = plan.study.budget.confirm_above_aud
    if worst > threshold:
        raise InputError(
            f"these {len(left)} calls may cost {worst:.2f} AUD, more than budget.confirm_above_aud = {threshold:.2f}; "
            "add --yes"
        )


def _key(request: ModelRequest) -> tuple[str, str, str | None]:
    return request.provider, request.model, request.endpoint

"""How a study reaches its models: where each is asked, at what price and within which limits."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from toolkit.models.catalogue import ModelSpec
from toolkit.models.prices import price_of
from toolkit.models.registry import BATCH_PROVIDERS, default_concurrency, open_batch_client, open_model
from toolkit.runs.batches import BatchDesk
from toolkit.runs.endpoint import Endpoint
from toolkit.runs.share import share_of, share_of_default
from toolkit.store.connection import Store

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.study_file import ModelEntry


def open_desk(plan: Plan, store: Store, stop: threading.Event) -> BatchDesk:
    """Return the desk of a study in batch mode; it is to be opened in the loop that asks."""
    open_client = partial(open_batch_client, folder=plan.folder)
    return BatchDesk(
        store, plan.study.name, open_client, poll_seconds=plan.study.batch_poll_seconds, stop=stop
    )


def endpoints_of(plan: Plan) -> list[Endpoint]:
    """Return every model that may be asked; one without a price is refused here, before the first call."""
    judges = plan.study.judges.by_role()
    named: list[tuple[ModelEntry, ModelSpec]] = [
        *((entry, plan.models[entry.name]) for entry in plan.study.models),
        *((judges[role], spec) for role, spec in plan.judge_models.items()),
    ]
    return [
        Endpoint(
            spec=spec,
            price=price_of(spec),
            open=partial(open_model, spec, folder=plan.folder, seconds=plan.study.timeout_seconds),
            concurrency=_concurrency(plan, entry, spec),
            requests_per_minute=_rate(plan, spec, "requests_per_minute"),
            tokens_per_minute=_rate(plan, spec, "tokens_per_minute"),
            batch=plan.study.mode == "batch" and spec.provider in BATCH_PROVIDERS,
        )
        for entry, spec in named
    ]


def _concurrency(plan: Plan, entry: ModelEntry, spec: ModelSpec) -> int:
    """Return how many requests this process may have under way; several processes share what the study says."""
    if entry.concurrency:
        return int(share_of(entry.concurrency, f"concurrency of {entry.name}"))
    if limit := plan.study.limit(spec.provider).concurrency:
        return int(share_of(limit, f"limits.{spec.provider}.concurrency"))
    return share_of_default(default_concurrency(spec, plan.study.concurrency))


def _rate(plan: Plan, spec: ModelSpec, name: str) -> float | None:
    limit = getattr(plan.study.limit(spec.provider), name)
    return None if limit is None else share_of(limit, f"limits.{spec.provider}.{name}")

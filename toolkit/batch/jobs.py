"""Templates run one after the other or a few at a time, whatever was run before: what the demo needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.batch.parameters import check_parameters
from toolkit.batch.pool import ProcessSlot, run_orders
from toolkit.batch.records import DONE
from toolkit.batch.worker import Order, Reply
from toolkit.errors import ToolkitError


@dataclass(frozen=True)
class Job:
    """One template to execute into one output notebook."""

    template: Path
    output: Path
    parameters: Mapping[str, Any]


def run_templates(jobs: Sequence[Job], *, at_once: int = 2) -> tuple[Path, ...]:
    """Execute templates in bounded processes and return the executed notebooks."""
    orders = [
        Order(
            template=str(job.template.resolve()),
            output=str(job.output.resolve()),
            parameters=check_parameters(job.template, job.parameters),
            folder=str(job.output.resolve().parent),
        )
        for job in jobs
    ]
    for job in jobs:
        job.output.parent.mkdir(parents=True, exist_ok=True)

    def ended(order: Order, reply: Reply) -> None:
        if reply.status != DONE:
            where = f"; see {reply.notebook}" if reply.notebook else ""
            raise ToolkitError(
                f"{Path(order.template).name}: did not run to its end: {reply.status}: {reply.error}{where}"
            )

    run_orders(orders, partial(ProcessSlot, at_once), at_once=at_once, ended=ended)
    return tuple(job.output for job in jobs)

"""The plan: every run of a study, with the request that will be sent, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from toolkit.models.base import Message, ModelRequest
from toolkit.models.catalogue import ModelSpec
from toolkit.prompt_test import PromptWithContext, TestItem


@dataclass(frozen=True)
class PlannedRun:
    """One run to be: a prompt of a test item, a model, a repeat, and the request."""

    item: TestItem
    prompt: PromptWithContext
    model: str
    repeat: int
    request: ModelRequest

    @property
    def key(self) -> tuple[str, str, int]:
        """What names this run within its study: prompt, model and repeat."""
        return self.prompt.prompt_id, self.model, self.repeat

    @cached_property
    def call_id(self) -> str:
        """The identity of the call that answers this run."""
        return self.request.identity()


def plan_runs(
    items: Iterable[TestItem],
    models: Mapping[str, ModelSpec],
    *,
    repeats: int,
    temperature: float,
    max_tokens: int,
    top_p: float | None,
    seed: int,
    repeats_together: bool = False,
) -> tuple[PlannedRun, ...]:
    """Return every run of a study: prompts x models x repeats, in the order in which they are asked."""
    prompts = [(item, prompt) for item in items for prompt in item.prompts]
    if repeats_together:
        order = [(item, prompt, repeat) for item, prompt in prompts for repeat in range(repeats)]
    else:
        order = [(item, prompt, repeat) for repeat in range(repeats) for item, prompt in prompts]
    return tuple(
        PlannedRun(
            item=item,
            prompt=prompt,
            model=name,
            repeat=repeat,
            request=ModelRequest(
                provider=spec.provider,
                model=spec.model,
                messages=(Message("user", prompt.text),),
                temperature=temperature if spec.sampling_supported else None,
                max_tokens=max_tokens,
                top_p=top_p if spec.sampling_supported else None,
                seed=seed + repeat if spec.seed_supported else None,
                endpoint=spec.endpoint,
                repeat=repeat,
            ),
        )
        for name, spec in models.items()
        for item, prompt, repeat in order
    )

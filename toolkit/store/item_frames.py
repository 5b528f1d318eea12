"""Tidy frames of what a test asks and measures: `prompts` and `measurements`."""

from __future__ import annotations

from collections.abc import Container, Iterable

import pandas as pd

from toolkit.prompt_test import MeasuredTestItem
from toolkit.prompts.dataset import Prompt
from toolkit.store.item_columns import MEASUREMENTS, PROMPTS
from toolkit.store.typed import typed, types_of

PROMPT_TYPES = types_of(PROMPTS)
MEASUREMENT_TYPES = types_of(MEASUREMENTS)


def prompts_frame(prompts: Iterable[Prompt], asked: Container[str]) -> pd.DataFrame:
    """Return one row a prompt: test_item, prompt_id, scenario, length_bin, tokens (o200k_base), text."""
    rows = [
        {
            "test_item": prompt.base,
            "prompt_id": prompt.prompt_id,
            "scenario": prompt.scenario or None,
            "length_bin": prompt.length_bin or None,
            "tokens": prompt.token_count,
            "text": prompt.text,
        }
        for prompt in prompts
        if prompt.prompt_id in asked
    ]
    return typed(rows, PROMPT_TYPES)


def measurements_frame(measured: Iterable[MeasuredTestItem]) -> pd.DataFrame:
    """Return one row a measurement, columns and dtypes as in ``MEASUREMENT_TYPES``; a missing one has its reason."""
    rows = [
        {
            "test_item": one.item.item_id,
            "model": one.model,
            "repeat": one.repeat,
            "name": number.name,
            "value": number.value,
            "unit": number.unit,
            "reason": number.reason if number.value is None else None,
        }
        for one in measured
        for number in one.measurements
    ]
    return typed(rows, MEASUREMENT_TYPES)

"""A scripted model or judge whose truth is written in the study file, so that what a study finds can be held to it.

A model's reply carries its quality in words; a judge reads it there and scores it with its own severity and noise. No
language model answers anywhere.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping
from typing import Any, Final

from toolkit.errors import ModelError
from toolkit.models.base import ModelRequest
from toolkit.models.tokens import count_tokens
from toolkit.words import DIMENSIONS, LENGTH_BINS, SCALE

BASE_SD: Final = 0.35  # of how hard bases are, the same for every model and length
OWN_SD: Final = 0.25  # of a reply about what its model, base and length make of it
JUDGE_SD: Final = 0.3  # of one judge's score of one dimension
_TOLD: Final = re.compile(r"case ([0-9a-f]{12}), planted quality (-?\d+\.\d+)")


def planted_answer(truth: Mapping[str, float], request: ModelRequest, example: Any) -> str:
    """Return the reply of a model, or the scores of a judge: ``example``, which follows its schema, with scores set.

    ``truth`` is that of `toolkit.study_file.Planted`. For the share of requests that fail a ``ModelError`` is raised.
    """
    # What is drawn depends on who is asked, the repeat, and the opening and length of the prompt: a fact that is worded
    # otherwise changes no truth.
    text = request.messages[-1].content
    reference = None if example is None else _TOLD.search(text)
    if example is not None and reference is None:
        return json.dumps(example)
    length_bin = _length_bin(text) if reference is None else ""
    opening = next((line for line in text.splitlines() if line.strip()), "")
    subject = reference[1] if reference else f"{opening} {length_bin}"
    identity = (request.model, request.endpoint, request.repeat)
    case = hashlib.sha256(json.dumps([subject, *identity]).encode()).hexdigest()[:12]
    dice = random.Random(case)
    if dice.random() < truth["failures"]:
        raise ModelError("planted: this reply is one of those that fail", reason="planted_failure")
    if reference:
        level = float(reference[2]) - truth["severity"]
        scores = {name: _half(level + dice.gauss(0, JUDGE_SD)) for name in DIMENSIONS}
        low = min(scores, key=scores.__getitem__).replace("_", " ")
        return json.dumps({name: scores.get(name, f"Scripted: weakest in {low}.") for name in example})
    added = {"S": 0.0, "M": truth["m_minus_s"], "L": truth["m_minus_s"] + truth["l_minus_m"]}[length_bin]
    level = truth["level"] + added + random.Random(opening).gauss(0, BASE_SD) + dice.gauss(0, OWN_SD)
    facts = [line for line in text.splitlines() if line.startswith("- ")]
    chosen = dice.sample(facts, min(len(facts), dice.randint(2, 5)))
    listing = "\n".join(f"{number}. To be dealt with: {line[2:]}" for number, line in enumerate(chosen, 1))
    return f"No language model wrote this reply (case {case}, planted quality {level:.2f}).\n{listing}"


def _length_bin(prompt: str) -> str:
    tokens = count_tokens(prompt)
    return min(LENGTH_BINS, key=lambda name: abs(tokens - sum(LENGTH_BINS[name]) / 2))


def _half(score: float) -> float:
    return min(max(round(score * 2) / 2, 0.5), SCALE[1])

"""Judges without a model: ready rubrics, specs, and an `ask` that answers from a list."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from toolkit.judges.request import JudgeSpec
from toolkit.judges.rubric import Rubric, load_rubric
from toolkit.models.base import Answer, ModelReply, ModelRequest, Usage
from toolkit.words import DIMENSIONS


@pytest.fixture(scope="session")
def default() -> Rubric:
    return load_rubric("default")


@pytest.fixture(scope="session")
def seed_v1() -> Rubric:
    return load_rubric("seed-v1")


@pytest.fixture
def spec() -> JudgeSpec:
    return JudgeSpec("primary", "judge-a", "scripted", "judge-a-2025", seed=7)


@pytest.fixture
def good() -> Callable[..., str]:
    """Return a function that writes a full answer; keyword arguments change or add a key."""

    def write(score: float = 4, **changes: object) -> str:
        return json.dumps({**dict.fromkeys(DIMENSIONS, score), **changes})

    return write


@pytest.fixture
def asker() -> Callable[..., Callable]:
    """Return a function that makes an `ask` with the given replies, texts or errors, in order."""

    def make(*replies: str | BaseException) -> Callable:
        left = list(replies)

        async def ask(request: ModelRequest) -> Answer:
            reply = left.pop(0)
            if isinstance(reply, BaseException):
                raise reply
            kept = ModelReply(reply, "stop", Usage(100, 20), request.model)
            return Answer(request.identity(), kept, 0.002, 150.0, 1, False)

        return ask

    return make

"""Fixtures of the models' tests: one local server a session, and requests to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolkit.models.base import Message, ModelRequest
from toolkit.models.local import LocalServer, start_local_server


@pytest.fixture(scope="session")
def local_server() -> Iterator[LocalServer]:
    with start_local_server() as server:
        yield server


@pytest.fixture
def make_request() -> Callable[..., ModelRequest]:
    def make(text: str = "Is this mail phishing?", **fields: Any) -> ModelRequest:
        messages = (Message("system", "You are an analyst."), Message("user", text))
        return ModelRequest(**{"provider": "openai", "model": "gpt-4o", "messages": messages, **fields})

    return make

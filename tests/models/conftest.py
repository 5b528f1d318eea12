"""Requests for the models' tests to ask."""

from __future__ import annotations

import pytest

from toolkit.models.base import Message, ModelRequest


@pytest.fixture
def make_request():
    def make(text="Is this mail phishing?", **fields):
        messages = (Message("system", "You are an analyst."), Message("user", text))
        return ModelRequest(**{"provider": "openai", "model": "gpt-4o", "messages": messages, **fields})

    return make

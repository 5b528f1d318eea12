"""Requests for the models' tests to ask."""

import pytest

from toolkit.models.base import Message, ModelRequest


@pytest.fixture(params=["openai", "anthropic"])
def provider(request):
    """Each provider whose form of the wire is its own."""
    return request.param


@pytest.fixture
def make_request():
    def make(text="Is this mail phishing?", **fields):
        messages = (Message("system", "You are an analyst."), Message("user", text))
        return ModelRequest(**{"provider": "openai", "model": "gpt-4o", "messages": messages, **fields})

    return make

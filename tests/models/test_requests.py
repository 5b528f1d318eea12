"""The identity of a call: what changes the answer changes it, and what was paid for keeps its name."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolkit.models.base import Message, ModelRequest

REQUEST = ModelRequest(
    "openai",
    "gpt-4o",
    (Message("system", "You judge."), Message("user", "Port 22.")),
    temperature=0.1,
    seed=7,
)
IDENTITY = "0656d3018e603b006de1b0f8136295a186a51bcf52afa50e2db16d62343e4395"


def test_a_call_that_was_paid_for_keeps_its_name():
    """Computed before there were log-probabilities and caching; a ledger is full of such names."""
    assert REQUEST.identity() == IDENTITY


def test_what_ends_a_cached_prefix_is_no_part_of_the_identity():
    cached = replace(REQUEST, messages=tuple(replace(message, cached=True) for message in REQUEST.messages))
    assert cached.identity() == IDENTITY
    assert cached.canonical() == REQUEST.canonical()


@pytest.mark.parametrize("most", [0, 5, 20])
def test_asking_for_log_probabilities_is_another_call(most):
    asked = replace(REQUEST, top_logprobs=most)
    assert asked.canonical() == {**REQUEST.canonical(), "top_logprobs": most}
    assert asked.identity() != IDENTITY


@given(st.lists(st.text(), min_size=4, max_size=4), st.none() | st.integers(0, 9))
@example(['a","messages":0,"', ',"messages":0,', '\\",\\"messages\\":0,', "\ud800"], None)
def test_the_identity_is_the_hash_of_the_canonical_request(texts, probabilities):
    """Whatever stands in a value, also what looks like a key, the name of a call is that of its canonical JSON."""
    model, endpoint, first, second = texts
    request = ModelRequest(
        "compatible",
        model,
        (Message("user", first), Message("assistant", second)),
        endpoint=endpoint,
        top_logprobs=probabilities,
    )
    plain = json.dumps(request.canonical(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert request.identity() == hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()

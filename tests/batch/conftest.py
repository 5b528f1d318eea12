"""What all tests of batches share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _same_code() -> Iterator[None]:
    """Take the toolkit's files for unchanged: a developer may edit them between two batches of one test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolkit.batch.identity.code_hash", lambda: "the same code")
        yield

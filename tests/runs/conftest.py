"""What the tests of runs and their cost do not wait for."""

import pytest

from toolkit.study import Study


@pytest.fixture(autouse=True)
def _no_dry_run(monkeypatch):
    """Estimate without the dry run, which tests/study/test_dry_run.py is about: it takes a second each time."""
    monkeypatch.setattr(Study, "_without_result", lambda study: [])

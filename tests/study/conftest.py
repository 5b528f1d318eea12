"""One finished study for every test of what people see and say of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small_study import clear_of_people, finished_study

from toolkit.study import Study


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """Two bases, three length bins, one model, three judges; no test may change its runs."""
    with finished_study(tmp_path_factory.mktemp("finished")) as loaded:
        yield loaded


@pytest.fixture
def study(_finished: Study) -> Iterator[Study]:
    """The finished study, with nothing that people said in it."""
    yield _finished
    clear_of_people(_finished)

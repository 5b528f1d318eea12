"""One finished study for every test of what people see and say of it."""

import pytest
from small_study import clear_of_people, finished_study


@pytest.fixture(scope="session")
def _finished(tmp_path_factory):
    """Two bases, three length bins, one model, three judges; no test may change its runs."""
    with finished_study(tmp_path_factory.mktemp("finished")) as loaded:
        yield loaded


@pytest.fixture
def study(_finished):
    """The finished study, with nothing that people said in it."""
    yield _finished
    clear_of_people(_finished)

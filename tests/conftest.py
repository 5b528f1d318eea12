"""Fixtures that every room shares: an open store, a study file, and nothing of the user's surroundings."""

import contextlib
import functools
import gc
import os
import signal
import sys
import tomllib
import uuid
from collections import Counter
from importlib.metadata import entry_points
from pathlib import Path
from weakref import WeakSet

import pytest
from hypothesis import settings
from small_study import CTI_ONLY, STUDY, executed, without_pictures
from stub_server import StubServer
from stub_study import plain, stub_study
from warm_server import warm_servers

from toolkit import prompt_test
from toolkit.cli import main
from toolkit.files.writing import write_atomically
from toolkit.runs import gateway, limits
from toolkit.store import connection, embedded, writer
from toolkit.store.connection import Store, open_store
from toolkit.study import Study

# The same examples every time, and no limit of 200 ms for each, which a busy machine exceeds.
settings.load_profile("ci")

# What is imported and collected lives to the end: looking through it again and again takes each worker four seconds.
gc.disable()


def pytest_collection_finish():
    """Collect garbage from here on, of what tests leave alone."""
    gc.freeze()
    gc.enable()


EVERY_RUN = tomllib.loads(Path(__file__).with_name("every_run.toml").read_text("utf-8"))
"""How many cases of a test are of every run, by file; there are more of each kind in the full count."""
LONGEST = (
    "test_site",
    "test_jupyterlab",
    "test_dask",
    "test_planted",
    "test_chaos",
    "test_broken_guarantees",
)
"""What all other workers would wait for at the end; one of them has the one JupyterLab."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the cases of a test that are not of every run, and have what takes a minute begin first."""
    met = Counter()
    for item in items:
        place, test = "/".join(item.path.parts[-2:]), getattr(item, "originalname", "")
        met[place, test] += 1
        if met[place, test] > EVERY_RUN.get(place, {}).get(test, len(items)):
            item.add_marker(pytest.mark.full)
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


@pytest.fixture(scope="session", autouse=True)
def _own_surroundings():
    """Keep the user's server, keys, batch mode and environment out of the tests, of fixtures of the session too."""
    # A shell lets what it starts with `&` ignore Ctrl-C, and every process started from there inherits that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.MonkeyPatch.context() as patch:
        keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY")
        for name in (
            *keys,
            "MONGODB_URI",
            "TOOLKIT_BATCH",
            "VIRTUAL_ENV",
        ):  # IPython warns of another environment
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _unhurried():
    """Shorten what a study of six runs waits for without need: of the 0.7 s that it took it was busy for 0.1 s."""
    # What tests packages offer is read from 240 files three times for each study, and packages stay as they are.
    offered = functools.cache(lambda path, about: entry_points(**dict(about)))
    with pytest.MonkeyPatch.context() as patch, warm_servers():
        patch.setattr(prompt_test, "entry_points", lambda **about: offered((*sys.path,), (*about.items(),)))
        patch.setattr(writer, "BETWEEN_BULKS", 0.002)
        for module in (gateway, limits):
            patch.setattr(module, "POLL_SECONDS", 0.05)
        yield


@pytest.fixture
def store_folder(tmp_path, monkeypatch):
    """A folder for an embedded store; at the end stores that are open are closed, and all servers below are stopped."""
    folder, open_it = tmp_path / "results" / ".store", Store.__init__
    opened = WeakSet[Store]()

    def noted(store, *address):
        open_it(store, *address)
        opened.add(store)

    monkeypatch.setattr(Store, "__init__", noted)
    yield folder
    for store in [*opened]:
        store.close()
    for stopped in [*tmp_path.rglob(".store")]:
        embedded.stop(stopped)


SERVERS = os.environ.get("TOOLKIT_TEST_MONGODB_URIS", "").split()
"""Servers besides the embedded one that the storage tests are run against."""


@pytest.fixture(params=[None, *SERVERS] if SERVERS else None)
def store(request, store_folder, monkeypatch):
    """An open store, spoken to over the wire: the embedded one, and a database of its own on every other server."""
    if (uri := getattr(request, "param", None)) is None:
        opened = open_store(store_folder)
    else:
        monkeypatch.setattr(connection, "DATABASE", f"toolkit_test_{uuid.uuid4().hex[:12]}")
        opened = Store(uri, None)
    yield opened
    if uri is not None:
        opened.database.client.drop_database(opened.database.name)
    opened.close()


@pytest.fixture(scope="session")
def demo_like_study(tmp_path_factory):
    """The study file of a finished study of 36 runs and 108 judgements by scripted models."""
    path = tmp_path_factory.mktemp("demo-like") / "small.toml"
    path.write_text(
        STUDY.format(settings='note = "Scripted models answer and judge."', judges="").replace(CTI_ONLY, "")
    )
    with executed(path) as study:
        assert study.runs()["judged"].sum() == 36
        study.close()
        yield path


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """One JupyterLab in one Chromium for all tests that look; what it is to open stands below its root."""
    from browser import open_jupyterlab

    with open_jupyterlab(tmp_path_factory.mktemp("lab")) as opened:
        yield opened


@pytest.fixture
def study_file(tmp_path, store_folder):
    """Write a study of six runs and eighteen judgements by scripted models, and return its path."""

    def write(settings="", judges=""):
        path = tmp_path / "small.toml"
        path.write_text(STUDY.format(settings=settings, judges=judges))
        return path

    return write


@pytest.fixture
def server():
    """A loopback server that answers as a model and as judges who give four points."""
    with StubServer(answer=plain) as started:
        yield started


@pytest.fixture
def open_study(server, tmp_path, store_folder):
    """Write and open a study that asks the server everything, with what `stub_study` takes; closed at the end."""
    with contextlib.ExitStack() as opened:
        yield lambda **more: opened.enter_context(Study.load(stub_study(tmp_path, server.openai_url, **more)))


@pytest.fixture
def no_pictures():
    """Figures are calculated and drawn, and their files empty: how they look is looked at in tests/report."""
    with without_pictures():
        yield


@pytest.fixture
def one_table(monkeypatch):
    """Figures and statistics are one small table of scores, where a test looks at the other files of a bundle."""
    # Here, because matplotlib and scipy take a second, which tests that draw nothing need not wait for.
    from toolkit.report import registry
    from toolkit.report.show import Files

    def write(of, about, folder, only=(), **_):
        scores = ",".join(str(score) for score in of.runs["composite_strict"])
        return Files([write_atomically(folder / "figures" / "scores.csv", scores.encode())])

    monkeypatch.setattr(registry, "write_figures", write)
    monkeypatch.setattr(registry, "write_statistics", lambda *given: Files())


@pytest.fixture
def toolkit(capsys):
    """Call the command line; returns exit code, standard output and standard error."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call

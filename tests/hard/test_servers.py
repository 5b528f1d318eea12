"""One whole study on each of ``TOOLKIT_TEST_MONGODB_URIS``: run, kill, resume, figures, export, verify."""

import os
import uuid

import pymongo
import pytest
from processes import in_a_process, kill_when_seen
from stub_study import stub_study

from toolkit.audit.export import export_study
from toolkit.audit.verify import verify_study
from toolkit.audit.verify_export import verify_export
from toolkit.study import Study

SERVERS = os.environ.get("TOOLKIT_TEST_MONGODB_URIS", "").split()
pytestmark = pytest.mark.skipif(not SERVERS, reason="TOOLKIT_TEST_MONGODB_URIS names no server")


def at_database(uri, name):
    """Return the address of a database on a server."""
    server, _, options = uri.partition("?")
    scheme, _, hosts = server.partition("://")
    return f"{scheme}://{hosts.partition('/')[0]}/{name}{'?' if options else ''}{options}"


@pytest.fixture(params=SERVERS)
def database(request):
    """The address of a database of a server, which is dropped at the end."""
    name = f"toolkit_test_{uuid.uuid4().hex[:12]}"
    yield at_database(request.param, name)
    with pymongo.MongoClient(request.param) as client:
        client.drop_database(name)


def test_a_whole_study(server, database, tmp_path, no_pictures, monkeypatch):
    """A study that was killed is finished without asking for a kept reply again; its export is verified on its own."""
    monkeypatch.setenv("MONGODB_URI", database)
    server.latency = lambda: 0.05
    path = stub_study(tmp_path, server.openai_url)
    with Study.load(path) as study:
        unanswered = kill_when_seen(in_a_process(study), server, 8)
        outcome = study.execute(progress=False)
        calls = outcome.succeeded * 4  # the run and three judges
        assert (outcome.succeeded, outcome.judged) == (6, 6)
        assert server.count <= calls + 2 * max(unanswered, study.file.concurrency)
        study.figures()
        export_study(study, tmp_path / "export")
        assert verify_study(study).exit_code == 0
    assert verify_export(tmp_path / "export").exit_code == 0

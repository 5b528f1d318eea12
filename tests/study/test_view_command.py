"""`toolkit view`: a page on this machine alone, for who has its address; it changes nothing, until Ctrl-C."""

import re
import signal
import socket

import pytest
from hostile_study import ATTACKS, hostile_study
from loopback_client import ask, served, started
from pages import unpacked

from toolkit.errors import InputError
from toolkit.people.desk import desk_server
from toolkit.study import Study
from toolkit.viewer import serve as serve_module
from toolkit.viewer.page import write_page
from toolkit.viewer.serve import page_server


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A finished study of four runs whose texts try to act."""
    with hostile_study(tmp_path_factory.mktemp("served")) as loaded:
        yield loaded


@pytest.fixture(scope="module", params=[page_server, desk_server], ids=["view", "desk"])
def site(request, study):
    """The address of a page of this machine, of either kind."""
    with served(*request.param(study.plan, study.store)) as address:
        yield address


@pytest.fixture(scope="module")
def address(study):
    """The address at which its page is served."""
    with served(*page_server(study.plan, study.store)) as address:
        yield address


LINES = (
    b"GET http://[ HTTP/1.1", b"GET //[ HTTP/1.1", b"GET http://[::g]/ HTTP/1.1", b"\x00\xff", b"GET / HTTP/9.9",
    b"GET / HTTP/x", b"BREW / HTTP/1.1", b"GET /" + b"a" * 70_000, b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\nno colon",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 300, b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000,
    b"GET /\xe9 HTTP/1.1\r\nHost: \xff",
)  # fmt: skip


def test_a_bad_request_is_answered_and_leaves_the_server_and_the_terminal_as_they_are(site, capfd):
    """Lines that are no HTTP, too much of it, wrong hosts, clients that go away before the answer."""
    port, right = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/.*)", site).groups()
    for line in LINES:
        for waits in (True, False):
            with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as connection:
                head = b"" if b"Host" in line else f"\r\nHost: 127.0.0.1:{port}".encode()
                connection.sendall(line + head + b"\r\n\r\n")
                if waits:
                    connection.shutdown(socket.SHUT_WR)
                    reply = b"".join(iter(lambda: connection.recv(65_536), b""))
                    assert re.search(rb"\b(4\d\d|501|505|Forbidden)\b", reply), line[:40]
                    assert right.encode() not in reply
    assert ask(site)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_the_page_is_the_exported_one_with_a_policy_that_a_file_cannot_have(study, address, tmp_path):
    """Byte for byte, so that what is tested of the page holds; nothing of the study is written for it."""
    before = {path: path.stat().st_mtime_ns for path in study.output.rglob("*") if path.suffix == ".html"}
    status, headers, content = ask(address)
    assert status == 200
    assert content == write_page(study.plan, study.store, study.runs(), path=tmp_path / "p.html").read_bytes()
    assert {path: path.stat().st_mtime_ns for path in study.output.rglob("*.html")} == before
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert policy.endswith("frame-ancestors 'none'")
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Server"] == "toolkit"
    assert ATTACKS["script"].encode() not in content
    (tmp_path / "served.html").write_bytes(content)
    assert len(unpacked(tmp_path / "served.html")[0]["rows"]["run"]) == 4


@pytest.mark.parametrize(
    "path", ["/", "/favicon.ico", "{right}x", "{right}../", "/x{right}", "/%2e%2e/etc/passwd", "//"]
)
def test_without_the_token_there_is_nothing(site, path):
    status, headers, content = ask(site, path)
    assert (status, content) == (403, b"Forbidden.")
    assert headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}", ""]
)
def test_a_site_that_calls_its_name_this_machine_is_refused(site, host):
    """The name of the host is that of the site, whoever has the token."""
    assert ask(site, host=host)[0] == 403
    assert ask(site, host="localhost:{port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_written(address, method):
    status, headers, _ = ask(address, method=method)
    assert status == 501
    assert "Access-Control-Allow-Origin" not in headers


def test_what_goes_wrong_is_a_line_without_details_and_the_next_page_comes(address, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(serve_module, "page_of", lambda *_: 1 / 0)
        assert ask(address)[::2] == (500, b"The page was not made (ZeroDivisionError). Load it again.")
    assert ask(address)[0] == 200
    assert capsys.readouterr() == ("", "")  # nor is the token in a log


def test_no_other_machine_reaches_it_and_each_start_has_a_token_of_its_own(study, address):
    server, other = page_server(study.plan, study.store)
    with server:
        assert server.socket.getsockname()[0] == "127.0.0.1"
        assert len(other.split("/")[3]) == 32
        assert other.split("/")[3] != address.split("/")[3]


def test_a_study_without_a_run_says_so(study_file):
    with Study.load(study_file()) as empty, pytest.raises(InputError, match="has no run to read yet; run it"):
        page_server(empty.plan, empty.store)


def test_the_command_prints_its_address_and_ends_with_ctrl_c(study):
    """Exit code 0 and no traceback: to stop it is what it is for."""
    with started("view", str(study.path)) as (process, line, address):
        assert line == "The answers of hostile, for this machine alone, until Ctrl-C:"
        assert ask(address)[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0

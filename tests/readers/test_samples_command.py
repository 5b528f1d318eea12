"""``toolkit samples``: one call of a function each, one line for an error, JSON on request."""

import json
import sys

import handmade
import pytest
from cases import cases

CASES = cases(__file__)


@pytest.fixture
def flow(tmp_path):
    path = tmp_path / "flow.pcap"
    path.write_bytes(handmade.pcap(handmade.flow(handmade.get(), handmade.answer())))
    return path


def test_convert_as_json_with_every_option(toolkit, flow, tmp_path):
    """Columns, filter, streams and key reach the conversion."""
    (tmp_path / "key").write_text("a key")
    options = "--column number --column source --per-stream --filter http --no-hash --json"
    words = [*options.split(), "--pseudonymise", tmp_path / "key"]
    code, out, err = toolkit("samples", "convert", flow, tmp_path / "o.csv", *words)
    target = tmp_path / "o-stream-0.csv"
    assert (code, err) == (0, "")
    done = {"files": [str(target)], "packets": 2, "truncated": False, "note": None}
    assert json.loads(out) == done
    lines = target.read_text().splitlines()
    assert lines[0] == "number,source"
    assert [line.split(",")[0] for line in lines[1:]] == ["4", "5"]
    assert handmade.CLIENT not in target.read_text()
    assert "capture_sha256" not in json.loads(target.with_suffix(".json").read_text())


@pytest.mark.parametrize(("arguments", "says"), CASES["refused"])  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(toolkit, arguments, says):
    code, out, err = toolkit("samples", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_capture_of_a_command(toolkit, tmp_path):
    """What stands after -- is the command, its own options included; its failure is exit code 1."""
    code = (
        "import socket, sys; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', 9)); sys.exit(int(sys.argv[2]))"
    )
    for ending in (0, 3):
        target = tmp_path / f"{ending}.pcapng"
        options = ["--filter", "udp port 9", "--seconds", 10, "--json"]
        words = [*options, "--", sys.executable, "-c", code, "--x", ending]
        exit_code, out, _ = toolkit("samples", "capture", target, *words)
        found = json.loads(out)
        assert (exit_code, found["packets"], found["command_code"]) == (int(ending > 0), 1, ending)
        assert target.stat().st_size > 0

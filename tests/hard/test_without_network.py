"""An export is verified on a machine that has no network: every frame is made again there, to the last bit."""

import json
import subprocess
import sys

import pytest
from places import PLANTED

from toolkit.audit.export import export_study
from toolkit.store import embedded
from toolkit.study import Study

ELSEWHERE = """
import socket, sys

assert [name for _, name in socket.if_nameindex()] == ["lo"]
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
    raise SystemExit("there is a network")
except OSError:
    pass

from toolkit.cli import main
main(["verify", sys.argv[1], "--json"])
"""


def alone():
    """Return the command that gives a process a network of its own, in which there is nobody."""
    for command in (["unshare", "-rn"], ["unshare", "-n"]):
        try:
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                return command
        except FileNotFoundError:
            break
    pytest.skip("this machine does not let a test have a network namespace of its own (unshare -rn)")


def test_an_export_is_verified_without_a_network(tmp_path):
    """The planted study with two of its models and four of its bases; its store is gone by then."""
    command, out = alone(), tmp_path / "out"
    path = tmp_path / "here" / "planted.toml"
    path.parent.mkdir()
    lines = [line for line in PLANTED.read_text().splitlines() if "planted-c" not in line]
    text = "\n".join(lines).replace("bases = 36 ", "bases = 4 ").replace("repeats = 2", "repeats = 1")
    path.write_text(text.replace("../results", "results"))
    with Study.load(path) as study:
        study.execute(progress=False)
        export_study(study, out)
    embedded.stop(tmp_path / "here" / "results" / ".store")
    path.rename(tmp_path / "gone.toml")
    command += [sys.executable, "-c", ELSEWHERE, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    verified = json.loads(done.stdout)
    assert (verified["differences"], verified["note"]) == ([], None)

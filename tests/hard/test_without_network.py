"""A machine that has no network gives the same study: an export goes in, and the same bundle comes out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit.audit.export import export_study
from toolkit.report import figure
from toolkit.store import embedded
from toolkit.study import Study

PLANTED = Path(__file__).parents[2] / "templates" / "planted.toml"
DRAWN = """
from toolkit.report import figure

render = figure.render
# Three of the pictures are drawn; tests/report holds the others of two processes against each other.
drawn = {"quality_by_length", "icc_forest", "judges"}
figure.render = lambda shown, kind, **more: render(shown, kind, **more) if shown.name in drawn else kind.encode()
"""
ELSEWHERE = f"""
{DRAWN}
import fcntl, socket, struct, sys
from pathlib import Path

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:  # the embedded store listens on loopback
    fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
assert [name for _, name in socket.if_nameindex()] == ["lo"]
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
    raise SystemExit("there is a network")
except OSError:
    pass

from toolkit.cli import main
from toolkit.store import embedded

archive, path, results = map(Path, sys.argv[1:])
try:
    bundle, export = ["figures", path, "--bundle"], ["export", path, results / "out"]
    for command in (["import", archive, "--into", results], bundle, export):
        try:
            main(list(map(str, command)))
        except SystemExit as ended:
            assert not ended.code, command
finally:
    embedded.stop(results / ".store")
"""


def alone() -> list[str]:
    """Return the command that gives a process a network of its own, in which there is nobody."""
    for command in (["unshare", "-rn"], ["unshare", "-n"]):
        try:
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                return command
        except FileNotFoundError:
            break
    pytest.skip("this machine does not let a test have a network namespace of its own (unshare -rn)")


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """The planted study with two of its models and four of its bases, finished."""
    path = tmp_path / "here" / "planted.toml"
    path.parent.mkdir()
    lines = [line for line in PLANTED.read_text().splitlines() if "planted-c" not in line]
    text = "\n".join(lines).replace("bases = 36 ", "bases = 4 ").replace("repeats = 2", "repeats = 1")
    path.write_text(text.replace("../results", "results"))
    with Study.load(path) as loaded:
        loaded.execute(progress=False)
        yield loaded
    embedded.stop(tmp_path / "here" / "results" / ".store")


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder by its name in there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.full
def test_an_import_without_a_network_gives_the_same_bytes(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every figure, table, text and CSV of the bundle, and every file of an export of what was imported."""
    command = alone()
    monkeypatch.setattr(figure, "render", figure.render)  # put back at the end
    exec(DRAWN, {})
    out, there = tmp_path / "out", tmp_path / "there"
    export_study(study, out)
    study.bundle()
    there.mkdir()
    path = there / study.path.name
    path.write_bytes(study.path.read_bytes())
    arguments = map(str, (out / "archive.zip", path, there / "results"))
    command += [sys.executable, "-c", ELSEWHERE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    here, elsewhere = contents(study.output / "bundle"), contents(there / "results" / "planted" / "bundle")
    assert here.keys() == elsewhere.keys()
    assert len([name for name in here if name.endswith((".csv", ".pdf", ".png", ".svg", ".tex"))]) > 50
    assert [name for name in here if here[name] != elsewhere[name]] == []
    assert sum(len(here[name]) > 3 for name in here if name.endswith((".pdf", ".png", ".svg"))) == 9
    assert contents(out) == contents(there / "results" / "out")

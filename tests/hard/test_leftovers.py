"""What a killed process left is removed by the next one, and nothing else is."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from toolkit.files.writing import _sweep, leftovers, mark, try_lock, write_atomically

WRITER = """
import sys
from pathlib import Path
from toolkit.files.writing import write_atomically

replace = Path.replace
def later(self, target):
    print(self, flush=True)
    input()
    return replace(self, target)

Path.replace = later
write_atomically(Path(sys.argv[1]), b"whole")
"""


def writer(path):
    """Start a process that has written all of a file and not named it yet; return it and its draft."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_draft_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(tmp_path):
    """Whoever writes next in the folder removes it; files of people and of other machines stay."""
    others = {
        tmp_path / name for name in (".a.json.0badcafe-abcdefgh", f".{mark()}-abcdefgh", ".a.json.abcdefgh")
    }
    for path in others:
        path.touch()
    (first, left_behind), (second, in_use) = writer(tmp_path / "a.json"), writer(tmp_path / "b.json")
    assert left_behind.read_text() == in_use.read_text() == "whole"
    first.send_signal(signal.SIGKILL)
    first.communicate()
    _sweep.cache_clear()  # as in a new process
    written = write_atomically(tmp_path / "c.json", b"3")
    assert set(tmp_path.iterdir()) == {written, in_use, *others}
    second.communicate("\n")
    assert second.returncode == 0
    assert set(tmp_path.iterdir()) == {written, tmp_path / "b.json", *others}
    assert (tmp_path / "b.json").read_bytes() == b"whole"


def test_what_is_held_is_not_left_and_two_do_not_get_the_same(tmp_path):
    """A folder or a file, looked at by two at once, is removed by one; a link is never followed."""
    (tmp_path / "x-file").touch()
    (tmp_path / "x-folder").mkdir()
    (tmp_path / "x-link").symlink_to(tmp_path / "x-file")
    for path in leftovers(tmp_path, "x-.*"):
        assert path not in leftovers(tmp_path, "x-.*")
    assert {path.name for path in leftovers(tmp_path, "x-.*")} == {"x-file", "x-folder"}
    handle = os.open(tmp_path / "x-folder", os.O_RDONLY)
    assert try_lock(handle)
    assert [path.name for path in leftovers(tmp_path, "x-.*")] == ["x-file"]
    os.close(handle)
    assert list(leftovers(tmp_path / "no", ".*")) == []


def test_on_a_disk_without_locks_everything_is_written_and_nothing_removed(tmp_path, monkeypatch):
    """Some shared disks know none: then nobody can tell what is left."""
    draft = tmp_path / f".a.{mark()}-abcdefgh"
    draft.touch()

    def unknown(*_):
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", unknown)
    write_atomically(tmp_path / "b", b"1")
    assert {path.name for path in tmp_path.iterdir()} == {draft.name, "b"}

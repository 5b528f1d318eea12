"""Records and claims: written whole, read with suspicion, and free again when their holder dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.batch.records import Record, claim, is_finished, read_record, write_record

HOLD = """
import sys, time
from pathlib import Path
from toolkit.batch.records import claim
with claim(Path(sys.argv[1]), "a") as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


def test_a_claim_is_held_by_one_process_and_dies_with_it(tmp_path: Path) -> None:
    """While another holds it we do not get it; after its SIGKILL we do."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"True\n"
        with claim(tmp_path, "a") as mine, claim(tmp_path, "b") as other:
            assert (mine, other) == (False, True)
        holder.kill()
        holder.wait()
    with claim(tmp_path, "a") as mine:
        assert mine


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"identity": "b"}', '{"identity": "a", "status": "great"}', '{"status": "done"}']
)
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    """Half a file, another notebook's, or a status nobody knows: the notebook is run."""
    (tmp_path / "a.json").write_text(text)
    assert read_record(tmp_path, "a") is None


def test_a_record_is_read_as_written(tmp_path: Path) -> None:
    """With everything in it, also what is not ASCII."""
    record = Record(
        "a", "failed", "t.ipynb", {"x": [1, "ü"]}, "n.ipynb", "why", 1.5, 10.0, 11.5, 2, "h:1", "0.1"
    )
    write_record(tmp_path, record)
    assert read_record(tmp_path, "a") == record


def test_what_needs_no_run(tmp_path: Path) -> None:
    """Done with its notebook; failed unless retried, or when another batch tried just now; never a running one."""
    folder = tmp_path / "records"
    (tmp_path / "there.ipynb").write_text("{}")
    done, lost = Record("a", "done", notebook="there.ipynb"), Record("a", "done", notebook="lost.ipynb")
    failed = Record("a", "timeout", attempts=2)
    assert is_finished(done, folder, retry=True, tried=0)
    assert not is_finished(lost, folder, retry=False, tried=0)
    assert is_finished(failed, folder, retry=False, tried=2)
    assert not is_finished(failed, folder, retry=True, tried=2)
    assert is_finished(failed, folder, retry=True, tried=1)
    for record in (None, Record("a", "running"), Record("a", "queued")):
        assert not is_finished(record, folder, retry=False, tried=0)

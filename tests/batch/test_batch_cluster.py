"""A Dask cluster of two worker processes comes to what one process comes to, also when a worker is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_files import write_notebook
from stub_server import StubServer
from waiting import wait_for

from toolkit.batch import run_batch
from toolkit.batch.cluster import ClusterSlot, differences, facts
from toolkit.batch.records import Record, claim, write_record
from toolkit.batch.worker import Order
from toolkit.errors import InputError, ToolkitError
from toolkit.store import embedded
from toolkit.store.documents import Call, Run
from toolkit.study import Study

STUDY = """
name = "{name}"
judges = {{ primary = false, secondary = false, tertiary = false }}
length_bins = ["S"]
repeats = 2
sampling = {{ max_tokens = 50 }}
limits = {{ compatible = {{ concurrency = 4 }} }}
{settings}

[[models]]
name = "answerer"
provider = "compatible"
base_url = "{address}"
usd_per_million_input = 1000
usd_per_million_output = 2000
"""
RUNS = 24
ASK = """
import time
from pathlib import Path
from toolkit import Study

s = Study.load(study)
Path(f"{study}-{part}").touch()
while len(list(s.path.parent.glob(f"{s.path.name}-*"))) < 2:  # so that two ask at the same time
    time.sleep(0.02)
s.execute(progress=False)
"""


def answer(body: dict) -> str:
    """A reply that is the same whenever the same is asked."""
    return f"{len(body['messages'][-1]['content'])} characters were asked"


def write_study(folder: Path, address: str, name: str, settings: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(STUDY.format(name=name, address=address, settings=settings))
    return path


def what_came(study: Study) -> tuple[dict[tuple[str, int], str], float, int]:
    """Return the reply of every run, what was spent, and how many calls hold a reply."""
    calls = {call.call_id: call for call in study.store.objects(Call) if call.study == study.name}
    runs = [run for run in study.store.objects(Run) if run.study == study.name]
    replies = {(run.prompt_id, run.repeat): calls[run.call_id].text for run in runs}
    return replies, sum(call.aud_cost or 0 for call in calls.values()), len(runs)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a scheduler with two worker processes of one thread each, and a nanny for each."""
    # The workers compare their code with ours, and a developer may edit it between their start and ours.
    (tmp_path / "pin.py").write_text(
        "from toolkit.batch import cluster\ncluster.code_hash = lambda: 'the same'\n"
    )
    monkeypatch.setattr("toolkit.batch.cluster.code_hash", lambda: "the same")
    script = """
import sys, time
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, preload=["pin.py"]) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""
    (tmp_path / "cluster.py").write_text(script)
    command = [sys.executable, str(tmp_path / "cluster.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        yield address
        process.communicate(timeout=120)


def kill_a_worker_of(records: Path, server: StubServer, killed: list[int], over: threading.Event) -> None:
    """SIGKILL the Dask worker whose notebook asks, once the server has seen some requests; it answers none before."""
    try:
        wait_for(lambda: server.count >= 4)
        known = [json.loads(path.read_text()) for path in records.glob("*.json")]
        running = next(record for record in known if record["status"] == "running")
        stat = Path(f"/proc/{running['process'].split(':')[1]}/stat").read_text()
        killed.append(int(stat.rsplit(")", 1)[1].split()[1]))
        os.kill(killed[0], signal.SIGKILL)
    finally:
        over.set()


def test_a_cluster_comes_to_the_same_results_and_spend_also_when_a_worker_is_killed(
    tmp_path: Path, cluster: str
) -> None:
    """Two notebooks ask one study at once and a worker dies; two ask another beyond its budget: each is paid once."""
    template = write_notebook(
        tmp_path / "ask.ipynb",
        "study: str\npart: int",
        ASK,
    )
    killed: list[int] = []
    over = threading.Event()
    with (
        StubServer(
            latency=0.3, answer=answer, holds=lambda: server.count >= 4 and not over.is_set()
        ) as server,
        StubServer(answer=answer) as other,
    ):
        alone = Study.load(write_study(tmp_path / "alone", other.openai_url, "same"))
        alone.execute(progress=False)
        expected = what_came(alone)
        alone.store.close()
        budget = expected[1] / 2
        whole = write_study(tmp_path / "shared", server.openai_url, "same")
        capped = write_study(
            tmp_path / "shared", server.openai_url, "capped", f"seed = 5\nbudget = {{ aud = {budget} }}"
        )
        out = tmp_path / "out"
        killer = threading.Thread(target=kill_a_worker_of, args=(out / "records", server, killed, over))
        killer.start()
        grid = {"product": {"study": [str(whole), str(capped)], "part": [1, 2]}}
        try:
            result = run_batch(template, grid, out=out, cluster=cluster, progress=False)
            killer.join()
            assert result.counts == {"done": 4}, result.summary().text
            shared, limited = Study.load(whole), Study.load(capped)
            assert len(killed) == 1
            assert what_came(shared) == expected
            replies, spent, _ = what_came(limited)
            assert 0 < spent <= budget
            # Every request that arrived is a call that is kept: none was paid twice.
            assert server.count == RUNS + len([text for text in replies.values() if text])
            assert server.most_at_once <= 4
            shared.store.close()
            limited.store.close()
        finally:
            for name in ("alone", "shared"):
                embedded.stop(tmp_path / name / "results" / ".store")


def test_a_worker_that_cannot_take_part_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other code, another store, another machine without a store, no common folder."""
    mine = facts()
    assert differences(mine, str(tmp_path)) == ""
    assert "other code" in differences(mine | {"toolkit": "x"}, str(tmp_path))
    assert "has Python" in differences(mine | {"python": "2.7"}, str(tmp_path))
    assert "another machine" in differences(mine | {"host": "elsewhere"}, str(tmp_path))
    assert "does not see the folder" in differences(mine, str(tmp_path / "no"))
    monkeypatch.setenv("MONGODB_URI", "mongodb://user:secret@server/")
    assert "another MONGODB_URI" in differences(mine, str(tmp_path))
    assert "secret" not in json.dumps(facts())
    assert facts()["host"] == ""


def test_without_the_package_or_a_scheduler_it_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra to install is named, and an address where nobody answers."""
    template = write_notebook(tmp_path / "t.ipynb", "x = 0")
    grid = {"list": [{}]}
    monkeypatch.setattr("toolkit.batch.cluster.CONNECT_SECONDS", 0.3)
    with pytest.raises(InputError, match=r"no Dask scheduler answers there"):
        run_batch(template, grid, out=tmp_path / "out", cluster="tcp://127.0.0.1:9", progress=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install llm-security-toolkit\[cluster\]"):
        run_batch(template, grid, out=tmp_path / "out", cluster="tcp://127.0.0.1:9", progress=False)


class Deserted:
    """A client of a cluster of which nobody is left: nothing answers, or the scheduler itself is gone."""

    def __init__(self, status: str) -> None:
        self.status = status
        self.submitted = 0

    def submit(self, *_: object, **__: object) -> Deserted:
        """Take work that nobody will do."""
        self.submitted += 1
        return self

    def result(self, timeout: float) -> None:
        """Wait, or notice that the scheduler is gone."""
        from distributed import CancelledError

        if self.status == "closed":
            raise CancelledError("closed")
        raise TimeoutError

    def done(self) -> bool:
        return False

    def cancel(self) -> None:
        self.status = "cancelled"

    def nthreads(self) -> dict[str, int]:
        return {}


@pytest.mark.parametrize(
    ("status", "says"),
    [("closed", "the scheduler of the cluster is gone"), ("running", "the cluster has no workers any more")],
)
def test_a_cluster_that_is_gone_loses_nothing_and_the_batch_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, says: str
) -> None:
    """What had not begun stays queued and the batch says so; what runs on is waited for, and told as it ended."""
    monkeypatch.setattr("toolkit.batch.cluster.DESERTED_SECONDS", 0.0)
    monkeypatch.setattr("toolkit.batch.cluster.LOOK_SECONDS", 0.05)
    records = tmp_path / "records"
    order = Order("t.ipynb", str(tmp_path / "t.ipynb"), {}, ".", identity="a", records=str(records))
    client = Deserted(status)
    slot = ClusterSlot(client, 1, tmp_path / "stop", {})
    write_record(records, Record("a"))
    with pytest.raises(ToolkitError, match=f"{says}; the same call goes on from here"):
        slot.run(order)
    assert client.submitted == (status == "running")
    write_record(records, Record("a", "running", attempts=1))
    left = slot.run(order)
    assert (left.status, left.error) == ("failed", says)
    write_record(records, Record("a", "running", attempts=1))

    def run_on() -> None:
        with claim(records, "a") as mine:
            assert mine
            held.set()
            time.sleep(0.3)
            (tmp_path / "t.ipynb").write_text("{}")
            write_record(records, Record("a", "done", notebook="t.ipynb"))

    held = threading.Event()
    notebook = threading.Thread(target=run_on)
    notebook.start()
    held.wait()
    found = slot.run(order)
    notebook.join()
    assert (found.status, found.ran) == ("done", False)


class LateReply(Deserted):
    """Work that ends in the very moment in which the wait for it runs out, or that the worker itself timed out in."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__("running")
        self.asked = 0
        self.fails = fails

    def result(self, timeout: float) -> dict[str, object]:
        """Run out first; the second time it is there."""
        self.asked += 1
        if self.asked == 1 or self.fails:
            raise TimeoutError(f"timed out after {timeout} s.")
        return {"status": "done", "notebook": "t.ipynb", "error": "", "ran": True}

    def done(self) -> bool:
        """It is, as soon as somebody waited."""
        return self.asked > 0


def test_a_wait_that_runs_out_as_its_notebook_ends_is_no_failure(tmp_path: Path) -> None:
    """It ended a batch in CI: the notebook was done between the time-out and the look whether it was."""
    order = Order("t.ipynb", str(tmp_path / "t.ipynb"), {}, ".", identity="a", records=str(tmp_path))
    reply = ClusterSlot(LateReply(fails=False), 1, tmp_path / "stop", {}).run(order)
    assert (reply.status, reply.ran) == ("done", True)
    with pytest.raises(TimeoutError):
        ClusterSlot(LateReply(fails=True), 1, tmp_path / "stop", {}).run(order)

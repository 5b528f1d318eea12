"""A Dask cluster of two worker processes comes to what one process comes to, also when a worker is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from distributed import Client
from notebook_files import write_notebook
from stub_server import StubServer
from waiting import wait_for

from toolkit.batch import run_batch
from toolkit.batch.cluster import facts, mismatch_with
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
PIN = "from toolkit.batch import cluster\ncluster.code_hash = lambda: 'the same'\n"
ASK = """
import time
from pathlib import Path
from toolkit import Study

s = Study.load(study)
Path(f"{study}.began").touch()
kind = s.name.split("-")[0]
until = time.monotonic() + 30  # so that two ask at the same time, unless Dask has them wait for one worker
while len(list(s.path.parent.glob(f"{kind}-*.began"))) < 2 and time.monotonic() < until:
    time.sleep(0.02)
s.execute(progress=False)
"""


def answer(body):
    return f"{len(body['messages'][-1]['content'])} characters were asked"


def write_study(folder, address, name, settings=""):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(STUDY.format(name=name, address=address, settings=settings))
    return path


def what_came(study):
    calls = {call.call_id: call.text for call in study.store.objects(Call)}
    return {
        (run.prompt_id, run.repeat): calls[run.call_id]
        for run in study.store.objects(Run)
        if run.study == study.name
    }


def spent(study, *names):
    return sum(call.aud_cost or 0 for call in study.store.objects(Call) if call.study in names)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The address of a scheduler with two worker processes of one thread each, and a nanny for each."""
    # The workers compare their code with ours, and a developer may edit it between their start and ours.
    (tmp_path / "pin.py").write_text(PIN)
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


def kill_a_worker_of(records, server, killed, over):
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


def test_a_cluster_comes_to_the_same_results_and_spend_also_when_a_worker_is_killed(tmp_path, cluster):
    """Each cell has its own study: two of the same calls at once and a dead worker, two with half the budget."""
    template = write_notebook(tmp_path / "ask.ipynb", "study: str", ASK)
    killed = []
    over = threading.Event()
    with (
        StubServer(
            latency=0.3, answer=answer, holds=lambda: server.count >= 4 and not over.is_set()
        ) as server,
        StubServer(answer=answer) as other,
    ):
        alone = Study.load(write_study(tmp_path / "alone", other.openai_url, "same"))
        alone.execute(progress=False)
        expected, price = what_came(alone), spent(alone, "same")
        alone.store.close()
        budget = price / 2
        same = [write_study(tmp_path / "shared", server.openai_url, f"same-{part}") for part in (1, 2)]
        settings = f"seed = 5\nbudget = {{ aud = {budget} }}"
        capped = [
            write_study(tmp_path / "shared", server.openai_url, f"capped-{part}", settings) for part in (1, 2)
        ]
        out = tmp_path / "out"
        killer = threading.Thread(target=kill_a_worker_of, args=(out / "records", server, killed, over))
        killer.start()
        grid = {"product": {"study": [str(path) for path in (*same, *capped)]}}
        try:
            result = run_batch(template, grid, out=out, cluster=cluster, progress=False)
            killer.join()
            assert result.counts == {"done": 4}, result.summary().text
            assert len(killed) == 1
            studies = [Study.load(path) for path in (*same, *capped)]
            assert [what_came(study) for study in studies[:2]] == [expected] * 2
            assert spent(studies[0], "same-1", "same-2") == pytest.approx(price)
            assert all(0 < spent(study, study.name) <= budget for study in studies[2:])
            # Every request that arrived is a call that is stored: none was paid twice.
            assert (
                server.count
                == studies[0].store.objects(Call).count()
                == len([call for call in studies[0].store.objects(Call) if call.text])
            )
            assert server.most_at_once <= 4
            for study in studies:
                study.store.close()
        finally:
            for name in ("alone", "shared"):
                embedded.stop(tmp_path / name / "results" / ".store")


def test_a_worker_that_cannot_take_part_says_why(tmp_path, monkeypatch):
    mine = facts()
    assert mismatch_with(mine, str(tmp_path)) == ""
    for name in mine:
        assert f"has another {name}" in mismatch_with(mine | {name: "x"}, str(tmp_path))
    assert "does not see the folder" in mismatch_with(mine, str(tmp_path / "no"))
    monkeypatch.setenv("MONGODB_URI", "mongodb://user:secret@server/")
    assert "another MONGODB_URI" in mismatch_with(mine, str(tmp_path))
    assert "secret" not in json.dumps(facts())
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    assert mismatch_with(facts(), str(tmp_path)) == ""  # machines differ where the store is shared


def test_without_the_package_or_a_scheduler_it_is_one_line(tmp_path, monkeypatch):
    template = write_notebook(tmp_path / "t.ipynb", "x = 0")
    grid = {"list": [{}]}
    monkeypatch.setattr("toolkit.batch.cluster.CONNECT_SECONDS", 0.3)
    with pytest.raises(InputError, match=r"no Dask scheduler answers there"):
        run_batch(template, grid, out=tmp_path / "out", cluster="tcp://127.0.0.1:9", progress=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install llm-security-toolkit\[cluster\]"):
        run_batch(template, grid, out=tmp_path / "out", cluster="tcp://127.0.0.1:9", progress=False)


WAITING = """
import os, time
from pathlib import Path

Path(f"began-{x}").touch()
while not Path("go").exists():
    time.sleep(0.02)
"""


@pytest.mark.parametrize(("lost", "allowed", "reason"), [
    ("scheduler", 3, "CancelledError"),
    ("worker", 3, "NoWorkerError"),
    ("worker", 0, "KilledWorker"),
])  # fmt: skip
def test_a_cluster_that_is_gone_loses_nothing_and_the_batch_does_not_wait_for_ever(
    tmp_path, monkeypatch, lost, allowed, reason
):
    """What had not begun stays queued and the batch says so; what runs on is waited for, and counts as it ended."""
    monkeypatch.setattr("toolkit.batch.cluster.DESERTED_SECONDS", 1.0)
    monkeypatch.setattr("toolkit.batch.cluster.CONNECT_SECONDS", 3.0)
    monkeypatch.setattr("toolkit.batch.cluster.code_hash", lambda: "the same")
    monkeypatch.setattr("toolkit.batch.plan.code_hash", lambda: "the same")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pin.py").write_text(PIN)
    template, out = write_notebook(tmp_path / "t.ipynb", "x = 0", WAITING), tmp_path / "out"
    program = "import dask; dask.config.set({'distributed.scheduler.allowed-failures': int(sys.argv.pop(1))})"
    program = f"import sys; {program}; from distributed.cli import dask_scheduler as d; d.main()"
    file = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen(
        [
            sys.executable,
            "-c",
            program,
            str(allowed),
            "--scheduler-file",
            str(file),
            "--port",
            "0",
            "--no-dashboard",
        ],
        stderr=subprocess.DEVNULL,
    )
    worker = "from distributed.cli import dask_worker as d; d.main()"
    options = [
        "--scheduler-file",
        str(file),
        "--no-nanny",
        "--nthreads",
        "1",
        "--no-dashboard",
        "--preload",
        "pin.py",
    ]
    node = subprocess.Popen([sys.executable, "-c", worker, *options], stderr=subprocess.DEVNULL)

    def batch(cluster=None):
        grid = {"product": {"x": [1, 2]}}
        return run_batch(template, grid, out=out, cluster=cluster, workers=1, progress=False)

    def kill():
        wait_for((tmp_path / "began-1").exists)
        {"scheduler": scheduler, "worker": node}[lost].kill()

    try:
        wait_for(lambda: file.exists() and file.read_text().endswith("}"))
        address = json.loads(file.read_text())["address"]
        wait_for(lambda: has_a_worker(address))
        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(
            ToolkitError, match=rf"the cluster is gone \({reason} .* goes on from here"
        ) as error:
            batch(address)
        killer.join()
        assert "\n" not in str(error.value)
    finally:
        scheduler.kill()
        node.kill()
        scheduler.wait()
        node.wait()
    states = {
        record["parameters"]["x"]: record["status"] for record in map(read, (out / "records").glob("*.json"))
    }
    assert states == {1: "running", 2: "queued"}
    (tmp_path / "go").touch()
    result = batch()
    assert (result.counts, result.started) == ({"done": 2}, 1)


def has_a_worker(address):
    with Client(address, set_as_default=False) as client:
        return bool(client.nthreads())


def read(path):
    return json.loads(path.read_text())

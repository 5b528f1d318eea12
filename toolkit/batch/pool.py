"""Where notebooks run, many at a time and no more: worker processes of this machine, or of those of a Dask cluster.

Not a `ProcessPoolExecutor`: when one of its workers dies it ends all others, and when its parent is killed they stay.

The machines of a cluster share the folder of the batch and the store: ``MONGODB_URI`` for all of them, or, where all
are this machine, the embedded server that each finds by its lock file. So claims, the ledger and the budget hold for
all of them as they do for processes of one machine. A Dask worker that dies leaves its notebook either to the process
that runs it, which brings it to its end, or to another worker, which waits for the claim first: never to both.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from toolkit.batch.plan import code_hash
from toolkit.batch.worker import Order, Reply, read_record, settle_failed
from toolkit.errors import InputError, ToolkitError
from toolkit.runs.endpoints import SHARE_ENV

if TYPE_CHECKING:
    from distributed import Client

STOP_SECONDS = 25.0
"""How long workers may take to stop: longer than a notebook may, see `toolkit.batch.engine`."""
END_SECONDS = 5.0
LOOK_AGAIN_SECONDS, LOOK_AGAIN_AT_MOST = 0.3, 5.0
CONNECT_SECONDS = 10.0
DESERTED_SECONDS = 60.0
"""How long a cluster may be without any worker: a nanny needs some seconds to replace one that died."""
CHECK_SECONDS = 5.0
"""How often we look whether anybody is left who could answer."""
LOOK_SECONDS = 0.5
"""How often a worker looks whether it is to stop; a file in the shared folder, for Dask cannot end what runs."""
SCHEDULER_GONE = "the scheduler of the cluster is gone"
WORKERS_GONE = "the cluster has no workers any more"


class Pool(Protocol):
    """Where notebooks run; called from one thread for each notebook at a time."""

    def run(self, order: Order) -> Reply:
        """Run one notebook and wait for its end."""

    def stop(self) -> None:
        """Have the notebooks under way stop; called from another thread."""


def run_orders(
    orders: Sequence[Order], pool: Pool, at_once: int, ended: Callable[[Order, Reply], None]
) -> None:
    """Run orders, begun as they stand and at most ``at_once`` at a time; ``ended`` hears of each in this thread."""
    stopping, left = threading.Event(), len(orders)
    lock = threading.Lock()

    def run(order: Order) -> Reply:
        nonlocal left
        if stopping.is_set():
            return Reply("stopped")
        with lock:
            left -= 1
        reply, pause = pool.run(replace(order, more=left > 0)), LOOK_AGAIN_SECONDS
        # Another process runs it: of another batch, or of a worker that died. When it is through we find its record,
        # when it dies we run it. The thread waits meanwhile, for the limits of a study hold for so many and no more.
        while reply.status == "taken" and not stopping.wait(pause):
            reply, pause = pool.run(order), min(2 * pause, LOOK_AGAIN_AT_MOST)
        return reply

    threads = ThreadPoolExecutor(min(at_once, len(orders)), "batch")
    futures: dict[Future[Reply], Order] = {threads.submit(run, order): order for order in orders}
    try:
        for future in as_completed(futures):
            ended(futures[future], future.result())
    except BaseException:
        stopping.set()
        pool.stop()
        try:
            wait(futures, STOP_SECONDS)
        except KeyboardInterrupt:  # a second time: at once
            pool.stop()
            wait(futures, END_SECONDS)
        raise
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


class Processes:
    """Worker processes of this machine, one for each notebook at a time; closed at the end of a ``with`` block."""

    def __init__(self, at_once: int) -> None:
        environment = kernel_environment(os.environ, at_once)
        self._workers = [Worker(environment) for _ in range(at_once)]
        self._free: queue.LifoQueue[Worker] = queue.LifoQueue()  # one that has booted first
        for worker in self._workers:
            self._free.put(worker)

    def run(self, order: Order) -> Reply:
        """Run a notebook in a worker that has nothing to do."""
        worker = self._free.get()
        try:
            return worker.run(order)
        finally:
            self._free.put(worker)

    def stop(self) -> None:
        """Ask each worker to stop as Ctrl-C would."""
        for worker in self._workers:
            worker.stop()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        with ThreadPoolExecutor(len(self._workers)) as threads:
            list(threads.map(Worker.close, self._workers))


class Worker:
    """A worker process; one that died is replaced at the next order."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None
        self._stopped = False

    def run(self, order: Order) -> Reply:
        """Have the worker fulfil an order; a worker that dies over it fails this order only."""
        process = self._started()
        try:
            print(json.dumps(asdict(order)), file=process.stdin, flush=True)
            if self._stopped:
                self.stop()  # it was stopped while this worker started
            line = process.stdout.readline() if process.stdout else ""
        except BrokenPipeError:
            line = ""
        if line:
            return Reply(**json.loads(line))
        code = process.wait()
        if self._stopped:
            return Reply("stopped", ran=True)
        said = _last_line(self._log)
        self.close()
        how = f"signal {-code}, {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return settle_failed(
            order, f"the process that ran it died ({how}{f': {said}' if said and code > 0 else ''})"
        )

    def stop(self) -> None:
        """Ask the worker to stop as Ctrl-C would; see `toolkit.batch.worker`."""
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """End the worker, which has nothing to do any more."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None and process.stdout is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._log = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the worker
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from toolkit.batch.worker import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                encoding="utf-8",
                env=self._environment,
                start_new_session=True,  # Ctrl-C in the terminal is ours to pass on
            )
        return self._process


def kernel_environment(environment: Mapping[str, str], at_once: int) -> dict[str, str]:
    """Return the surroundings of kernels of a batch: plain progress lines, and the share of the limits of each."""
    return {**environment, "TOOLKIT_BATCH": "1", SHARE_ENV: str(at_once)}


def _last_line(log: IO[bytes] | None) -> str:
    """Return the last thing a worker said before it died."""
    if log is None:
        return ""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


class Cluster:
    """The workers of a Dask cluster, of which Dask decides who runs what."""

    def __init__(self, client: Client, at_once: int, stop_file: Path, facts: dict[str, str]) -> None:
        self._client = client
        self._arguments = (at_once, str(stop_file), facts)
        self._stop_file = stop_file
        self._stopped = threading.Event()

    def run(self, order: Order) -> Reply:
        """Run one notebook on whatever worker is free."""
        from distributed import CancelledError, KilledWorker

        if self._client.status == "closed":
            return self._settle(order, SCHEDULER_GONE)
        key = f"{Path(order.output).stem}-{uuid.uuid4().hex[:8]}"
        future = self._client.submit(run_on_worker, asdict(order), *self._arguments, key=key, pure=False)
        alone_since: float | None = None
        while True:
            done = future.done()  # our own time may run out in the very moment in which it ends
            try:
                return Reply(**future.result(timeout=CHECK_SECONDS))
            except KilledWorker as error:
                return settle_failed(order, f"the workers that ran it died ({error})"[:300])
            except CancelledError:
                return self._settle(order, SCHEDULER_GONE)
            except (TimeoutError, OSError):
                if done:
                    raise  # what the worker itself met
            # Dask waits for workers for ever; what none of them answers may be done all the same.
            alone_since = (alone_since or time.monotonic()) if self._deserted() else None
            if alone_since is not None and time.monotonic() - alone_since > DESERTED_SECONDS:
                future.cancel()
                return self._settle(order, WORKERS_GONE)

    def _deserted(self) -> bool:
        """Whether the cluster has no worker; a scheduler that does not answer is seen by what is awaited of it."""
        try:
            return not self._client.nthreads()
        except (TimeoutError, OSError, RuntimeError, ValueError):
            return False

    def _settle(self, order: Order, why: str) -> Reply:
        """Wait for the end of a notebook that nobody can tell us of, and read it in its record."""
        while not self._stopped.is_set():
            known = read_record(Path(order.records), order.identity)
            if known is None or known.status == "queued":
                raise ToolkitError(f"{why}; the same call goes on from here when the cluster is up again")
            if (reply := settle_failed(order, why)).status != "taken":
                return reply
            self._stopped.wait(LOOK_SECONDS)
        return Reply("stopped")

    def stop(self) -> None:
        """Have the workers stop their notebooks, and wait for none any more."""
        self._stopped.set()
        self._stop_file.touch()


@contextlib.contextmanager
def connected(address: str, workers: int | None, place: Path) -> Iterator[tuple[Cluster, int]]:
    """Connect to a cluster, all workers of which can take part, and yield it and how many notebooks run at a time."""
    where = f"--cluster {address}"
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--cluster needs the package distributed: pip install llm-security-toolkit[cluster]"
        ) from None
    place.mkdir(parents=True, exist_ok=True)
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"{where}: no Dask scheduler answers there ({type(error).__name__})") from None
    with client:
        threads, common = client.nthreads(), facts()
        if not threads:
            raise InputError(f"{where}: the cluster has no workers; start some with `dask worker`")
        for worker, said in client.run(differences, common, str(place)).items():
            if said:
                raise InputError(f"{where}: worker {worker}: {said}")
        at_once = workers or sum(threads.values())
        stop_file = place / f".stop-{uuid.uuid4().hex[:12]}"
        try:
            yield Cluster(client, at_once, stop_file, common), at_once
        finally:
            stop_file.unlink(missing_ok=True)


def facts() -> dict[str, str]:
    """Return what all that take part must have in common; the store by a hash, for its address may hold a password."""
    uri = os.environ.get("MONGODB_URI", "")
    return {
        "toolkit": code_hash(),
        "python": platform.python_version(),
        "store": hashlib.sha256(uri.encode()).hexdigest() if uri else "",
        "host": "" if uri else socket.gethostname(),
    }


def differences(wanted: dict[str, str], place: str) -> str:
    """Return in one line why this worker cannot take part; empty when it can."""
    mine = facts()
    if mine["host"] != wanted["host"] and not (mine["store"] or wanted["store"]):
        return "is another machine, which cannot reach the embedded store; set MONGODB_URI here and there"
    if mine["store"] != wanted["store"]:
        return "has another MONGODB_URI than this process; set the same for all"
    if mine["toolkit"] != wanted["toolkit"]:
        return "has other code of the toolkit; install the same version"
    if mine["python"] != wanted["python"]:
        return f"has Python {mine['python']}, this process {wanted['python']}"
    if not Path(place).is_dir():
        return f"does not see the folder {place}; give --out a folder that all machines share"
    return ""


def run_on_worker(
    order: dict[str, Any], at_once: int, stop_file: str, wanted: dict[str, str]
) -> dict[str, Any]:
    """Run one notebook in a process of its own; called on the worker, in one of its threads."""
    found = Order(**{**order, "more": False})  # the process ends with its notebook
    if said := differences(wanted, str(Path(found.output).parent)):  # a worker that came later
        return asdict(settle_failed(found, f"a worker of the cluster {said}"))
    worker, ended = Worker(kernel_environment(os.environ, at_once)), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            if Path(stop_file).exists():
                worker.stop()
                return

    threading.Thread(target=look, name="batch-stop", daemon=True).start()
    try:
        return asdict(worker.run(found))
    finally:
        ended.set()
        worker.close()

"""Progress: one line everywhere, cheap to count, rare in a log, and the last line is the final state."""

import io
import re
import socket
import sys
import time
from functools import partial

import pytest
from cases import cases
from processes import in_a_process, twin, unjudged_study
from stub_server import Fault, StubServer
from stub_study import batch_study, plain, stub_study
from waiting import wait_for

from toolkit.runs import gateway, progress
from toolkit.runs.gateway import Counters
from toolkit.runs.limits import Limiter, RetryPolicy
from toolkit.runs.progress import Progress, duration
from toolkit.runs.status import status_summary
from toolkit.store.documents import Call, Run
from toolkit.study import Study
from toolkit.study_file import Budget, Limit

CASES = cases(__file__)

pytestmark = pytest.mark.usefixtures("store_folder")


class Stream(io.StringIO):
    """Standard error as a terminal or a file."""

    def __init__(self, terminal):
        super().__init__()
        self._terminal = terminal

    def isatty(self):
        return self._terminal


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes when it is told."""
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


def stderr(monkeypatch, *, terminal=False):
    """Put a stream in the place of standard error; in the test itself, because pytest changes it after fixtures."""
    stream = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def quick_log(monkeypatch):
    """Put a log in its place that gets ten lines a second."""
    monkeypatch.setitem(progress.SECONDS_BETWEEN, "log", 0.1)
    return stderr(monkeypatch)


def test_a_log_gets_a_line_every_half_minute_and_the_final_state(monkeypatch, clock):
    """1,000 steps in 100 s are five lines without a carriage return: what failed, what is paid, what is left."""
    log = stderr(monkeypatch)
    counters = Counters()
    bar = Progress("runs", 1000, shown=True)
    for number in range(1000):
        clock[0] += 0.1
        counters.spent_aud += 0.01
        counters.retried = 2 * int(number >= 250)
        bar.fail("runs", int(number == 250))
        bar.fail("judgements", int(number in (250, 251)))
        bar.step(counters)
    bar.close()
    bar.close()
    lines = log.getvalue().splitlines()
    assert len(lines) == 5
    assert "\r" not in log.getvalue()
    said = "1 run failed, 2 judgements failed, 2 retried, AUD 3.00 of about AUD 10.00"
    assert re.fullmatch(rf"runs: 300/1000 \[00:30<01:\d\d, +(10\.0\d|9\.9\d)run/s, {said}\]", lines[1])
    assert re.fullmatch(
        r"runs: 1000/1000 \[01:(39|40)<00:00, .*, 1 run failed, 2 judgements failed, 2 retried, AUD 10.00\]",
        lines[-1],
    )


def test_what_was_stopped_says_how_far_it_came(monkeypatch, clock):
    """A budget or Ctrl-C in the middle leaves how far it came; a phase in which nothing was done too."""
    log = stderr(monkeypatch)
    bar = Progress("runs", 3, shown=True)
    clock[0] += 5
    bar.step(Counters(spent_aud=0.5))
    bar.close()
    Progress("judged runs", 4, shown=True).close()
    lines = log.getvalue().splitlines()
    assert re.match(r"runs: 1/3 \[00:05<.*, AUD 0.50\]", lines[1])
    assert lines[-1].startswith("judged runs: 0/4 [")


def test_a_second_phase_does_not_count_the_first_again(monkeypatch, clock):
    """What was spent and retried before a phase is neither its own nor carried on to its end."""
    log = stderr(monkeypatch)
    counters = Counters(retried=4, spent_aud=5.0, worst_aud=1.5)  # no more is said than that
    bar = Progress("judged runs", 2, shown=True, since=counters)
    counters.spent_aud = 6.0
    clock[0] += 31
    bar.step(counters)
    bar.close()
    lines = log.getvalue().splitlines()
    assert "AUD 1.00 of about AUD 1.50" in lines[1]
    assert "retried" not in lines[-1]


@pytest.mark.parametrize(("total", "shown"), [(0, True), (5, False)])
def test_nothing_to_show_shows_nothing(monkeypatch, total, shown):
    """No items, or no progress wanted: not a character."""
    log = stderr(monkeypatch)
    bar = Progress("runs", total, shown=shown)
    bar.step(Counters())
    bar.close()
    assert log.getvalue() == ""


def test_a_terminal_gets_one_line_that_is_redrawn(monkeypatch, clock):
    """One line with a bar, rewritten at most ten times a second, ending in the final state."""
    stream = stderr(monkeypatch, terminal=True)
    bar = Progress("runs", 400, shown=True)
    for number in range(400):
        clock[0] += 0.01
        bar.step(Counters(spent_aud=0.001 * (number + 1)))
    bar.close()
    shown = stream.getvalue()
    assert shown.count("\n") == 1
    assert 30 <= shown.count("\r") <= 60
    assert re.search(r"runs: 100%\|.*400/400 .*, AUD 0.40\]$", shown.rstrip().rsplit("\r", 1)[-1])


def test_a_notebook_gets_a_widget_and_papermill_a_log(monkeypatch):
    """In a live kernel it is tqdm's widget; with TOOLKIT_BATCH set the same kernel writes lines."""
    log = stderr(monkeypatch)
    import IPython

    class Shell:
        config = {"IPKernelApp": {}}  # noqa: RUF012

    pytest.importorskip("ipykernel")
    monkeypatch.setattr(IPython, "get_ipython", lambda: Shell())
    shown = []
    monkeypatch.setattr("tqdm.notebook.display", shown.append)
    bar = Progress("runs", 2, shown=True)
    bar.step(Counters())
    bar.step(Counters(spent_aud=1.0))
    bar.close()
    (widget,) = shown
    assert "2/2" in widget.children[2].value
    assert log.getvalue() == ""
    monkeypatch.setenv("TOOLKIT_BATCH", "1")
    Progress("runs", 2, shown=True).close()
    assert log.getvalue().startswith("runs: 0/2")


def test_a_step_is_cheap(monkeypatch):
    """Less than 20 microseconds a step: progress must not be what a run waits for."""
    stderr(monkeypatch)
    bar = Progress("runs", 20_000, shown=True)
    began = time.process_time()
    for _ in range(20_000):
        bar.step(Counters())
    assert (time.process_time() - began) / 20_000 < 20e-6
    bar.close()


@pytest.mark.parametrize(("seconds", "says"), CASES["durations"])
def test_durations(seconds, says):
    """Seconds, minutes, hours and days, each where people would say it."""
    assert duration(seconds) == says


def test_who_waits_for_another_study_is_told(server, tmp_path, monkeypatch):
    """Another study has three calls under way and nothing comes back: the line says so while no step happens."""
    log = quick_log(monkeypatch)
    until = time.monotonic() + 60
    said = "waiting: 3 calls for another study, 3 calls for a reply]"
    server.holds = lambda: said not in log.getvalue() and time.monotonic() < until
    study = unjudged_study(tmp_path, server.openai_url, concurrency=3)
    first = in_a_process(twin(study))
    wait_for(lambda: server.count == 3)
    outcome = study.execute()
    first.join(60)
    assert (outcome.succeeded, first.exitcode, server.count) == (12, 0, 12)
    assert said in log.getvalue()


@pytest.mark.parametrize(
    ("fault", "settings", "words"),
    [
        (Fault(status=429, retry_after="3"), {}, r"compatible asks for \d s, 1 call to be asked again"),
        (None, {"limits": {"compatible": Limit(requests_per_minute=11)}}, r"limits.compatible for \d s"),
    ],
    ids=["Retry-After", "requests_per_minute"],
)
def test_who_waits_for_a_limit_is_told(
    server,
    tmp_path,
    monkeypatch,
    fault,
    settings,
    words,
):
    """The provider asks for a pause, or the study's own limit is reached: the line says whose it is and how long."""
    log = quick_log(monkeypatch)
    monkeypatch.setattr(gateway, "Limiter", partial(Limiter, minute=3.0))
    server.faults = lambda number, body: None if number else fault
    study = unjudged_study(tmp_path, server.openai_url, concurrency=1, **settings)
    assert study.execute().succeeded == 12
    assert re.search(rf"waiting: {words}\]$", log.getvalue(), re.MULTILINE), log.getvalue()
    assert "waiting" not in log.getvalue().splitlines()[-1]


@pytest.mark.parametrize(("status", "retry_after", "words"), CASES["wishes"])
def test_a_wish_to_wait_too_long_is_told_and_holds_up_no_other_provider(
    tmp_path,
    monkeypatch,
    status,
    retry_after,
    words,
):
    """One provider is asked once and left for this run, the other is asked to its end; the next run asks again."""
    log = quick_log(monkeypatch)
    told = re.compile(rf"answerer asks for {words} and is not asked again in this run")
    until = time.monotonic() + 60
    refusal = Fault(status=status, retry_after=retry_after)
    # The other is held from then on only: either may have the one place first.
    with (
        StubServer(faults=[refusal]) as first,
        StubServer(
            holds=lambda: first.count and not told.search(log.getvalue()) and time.monotonic() < until
        ) as second,
    ):
        study = unjudged_study(tmp_path, first.openai_url, second.openai_url, concurrency=1)
        outcome = study.execute()
        assert (outcome.succeeded, outcome.failed, first.count, second.count) == (12, 12, 1, 12)
        assert told.search(log.getvalue()), log.getvalue()
        failures = [run.failure for run in study.store.objects(Run) if run.status == "failed"]
        assert all("a run waits 10 min at most" in failure for failure in failures)
        assert not study.store.database["calls"].count_documents({"state": "claimed"})
        assert (study.execute(progress=False).failed, first.count) == (0, 13)


@pytest.mark.parametrize(("setting", "most"), [({}, 10), ({"concurrency": 25}, 25)])
def test_so_many_calls_are_in_flight_over_all_providers(tmp_path, setting, most):
    """Ten by default, with a budget too: three servers count together, and answer all that there is to ask."""
    in_flight = [0]
    until = time.monotonic() + 60

    def holds():
        nonlocal until
        if min(server.count for server in servers) < 14:
            return False
        in_flight.append(sum(server.under_way for server in servers))
        if in_flight[-1] >= most:  # long enough for one too many to come
            until = min(until, time.monotonic() + 1)
        return time.monotonic() < until

    with (
        StubServer(holds=holds) as first,
        StubServer(holds=holds) as second,
        StubServer(holds=holds) as third,
    ):
        servers = (first, second, third)
        addresses = [server.openai_url for server in servers]
        study = unjudged_study(tmp_path, *addresses, repeats=6, budget=Budget(aud=5.0), **setting)
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.exit_code) == (216, 0)
        assert [server.count for server in servers] == [72] * 3
    assert max(in_flight) == most


@pytest.mark.parametrize("concurrency", [2, 20])
def test_the_runs_of_a_dead_server_wait_and_hold_up_no_other(tmp_path, monkeypatch, concurrency):
    """After ten refused connections nothing goes there: nothing failed, nothing is booked, and who looks is told."""
    log = quick_log(monkeypatch)
    monkeypatch.setattr(gateway, "RetryPolicy", partial(RetryPolicy, first_wait=0.01, longest_wait=0.02))
    until, said = time.monotonic() + 60, "is unreachable, and its calls wait for the next start"
    with (
        socket.socket() as dead,
        StubServer(holds=lambda: said not in log.getvalue() and time.monotonic() < until) as second,
    ):
        dead.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{dead.getsockname()[1]}/v1"
        study = unjudged_study(tmp_path, address, second.openai_url, repeats=9, concurrency=concurrency)
        outcome = study.execute()
        assert f"compatible at {address} {said}" in log.getvalue()
        assert (outcome.succeeded, outcome.failed, outcome.exit_code, second.count) == (108, 0, 1, 108)
        reason = "compatible model 'answerer': nothing answers at its address; check the network and base_url"
        waiting = [{"runs": 108, "judgements": 0, "reason": reason}]
        line = f"108 runs for the next start: {reason}"
        status = study.status()
        assert [*outcome.waiting] == status["waiting"] == outcome.to_dict()["waiting"] == waiting
        assert f"waiting  {line}\n" in outcome.summary().text
        assert f"waiting     {line}\n" in status_summary(status).text
        assert (status["runs"]["failed"], status["runs"]["missing"], status["unsure_aud"]) == (0, 108, 0.0)
        refused = [len(call.attempts) for call in study.store.objects(Call) if call.state == "failed"]
        assert 10 <= sum(refused) <= 10 + concurrency
        assert {run.status for run in study.store.objects(Run)} == {"succeeded"}
        port = dead.getsockname()[1]
        dead.close()
        with StubServer(port=port) as first:  # it is there again
            again = study.execute(progress=False)
            assert (again.succeeded, again.exit_code, first.count) == (216, 0, 108)
            assert "waiting" not in {**study.status(), **again.to_dict()}


def test_the_judgements_of_a_dead_judge_wait(tmp_path):
    """Replies are asked for, paid for and kept, and two judges judge them."""
    with StubServer(answer=plain) as server, socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        path = stub_study(tmp_path, server.openai_url, bins='["S"]', runs="repeats = 6")
        lines = path.read_text().splitlines()
        port = f"127.0.0.1:{dead.getsockname()[1]}"
        address = server.openai_url.removeprefix("http://").removesuffix("/v1")
        path.write_text("\n".join(n.replace(address, port) if n.startswith("primary") else n for n in lines))
        with Study.load(path) as study:
            outcome = study.execute(progress=False)
            assert (outcome.succeeded, outcome.judged, outcome.exit_code) == (12, 12, 1)
            (waiting,) = study.status()["waiting"]
            assert (waiting["runs"], waiting["judgements"]) == (0, 12)


def test_who_waits_for_a_batch_is_told(tmp_path, monkeypatch):
    """A provider may take a day for a batch: the line says that it is a batch that is waited for."""
    monkeypatch.setenv("BATCH_KEY", "sk-batch-of-a-test")
    log = quick_log(monkeypatch)
    said = "waiting: 6 calls for a batch of its provider]"
    until = time.monotonic() + 60

    def polled(method, path):
        server.batch_polls = 1 if said in log.getvalue() or time.monotonic() > until else 10**9

    with StubServer(answer=plain, batch_polls=10**9, batch_http_fault=polled) as server:
        study = Study.load(batch_study(tmp_path, server, provider="openai"))
        assert study.execute().succeeded == 6
    assert said in log.getvalue()

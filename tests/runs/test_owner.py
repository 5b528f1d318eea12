"""One process at a time runs a study: who lives is seen on this host and told by the lease of another one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cases import cases
from waiting import wait_for

from toolkit.errors import InputError
from toolkit.runs import owner as owner_module
from toolkit.runs.owner import LEASE_SECONDS, Owner, living_owner

CASES = cases(__file__)


def test_a_second_owner_is_refused_and_another_study_is_not(store):
    """In one line with host, process and time; and it may begin when the first has ended."""
    first, second, other = Owner(store, "s"), Owner(store, "s"), Owner(store, "t")
    first.start()
    other.start()
    host = os.uname().nodename
    with pytest.raises(InputError, match=rf"study s: process {os.getpid()} on {host} runs it since 20.* UTC"):
        second.start()
    second.close()  # it has nothing to give back
    assert living_owner(store, "s") == first.name
    first.close()
    second.start()
    assert (living_owner(store, "s"), living_owner(store, "t")) == (second.name, other.name)
    second.close()
    other.close()
    assert store.database["owners"].count_documents({}) == 0


@pytest.mark.parametrize(("changes", "alive"), CASES["lives"])
def test_who_lives_is_seen_here_and_told_by_its_lease_elsewhere(store, changes, alive):
    first, second = Owner(store, "s"), Owner(store, "s")
    first.start()
    store.database["owners"].update_one({"_id": "s"}, {"$set": changes})
    assert (living_owner(store, "s") is not None) == alive
    if alive:
        with pytest.raises(InputError, match="runs it since"):
            second.start()
    else:
        second.start()
        assert living_owner(store, "s") == second.name
        first.close()  # too late: the study is another's
        assert living_owner(store, "s") == second.name
    second.close()
    first.close()


def test_who_does_not_renew_its_lease_in_time_hears_that_it_was_replaced(store, monkeypatch):
    monkeypatch.setattr(owner_module, "HEARTBEAT_SECONDS", 0.05)
    first = Owner(store, "s")
    first.start()
    before = store.database["owners"].find_one({})["lease_until"]
    wait_for(lambda: store.database["owners"].find_one({})["lease_until"] > before)
    store.database["owners"].update_one({"_id": "s"}, {"$set": {"name": "another"}})
    wait_for(lambda: first.is_replaced)
    first.close()
    assert store.database["owners"].find_one({})["name"] == "another"


def test_a_lease_is_over_by_the_clock_of_the_server(store, monkeypatch):
    """The clock of a host that is an hour behind, or ahead, gives a study to nobody else."""
    moment = time.time
    for behind in (3600, -3600):
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(owner_module, "this_host", lambda: ("another", ""))
            elsewhere.setattr(time, "time", lambda by=behind: moment() - by)
            there = Owner(store, "s")
            there.start()
        assert living_owner(store, "s") == there.name
        lease = store.database["owners"].find_one({"_id": "s"})["lease_until"]
        assert lease == pytest.approx(moment() + LEASE_SECONDS, abs=60)
        there.close()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc tells when a process began")
def test_a_killed_process_that_nobody_waited_for_is_dead(store):
    """A container without an init keeps dead processes on its list; their studies are free all the same."""
    first = Owner(store, "s")
    first.start()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        birth = stat.read_text().rsplit(")", 1)[1].split()[19]
        child = {"$set": {"pid": process.pid, "birth": birth}}
        store.database["owners"].update_one({"_id": "s"}, child)
        before = living_owner(store, "s")
        process.kill()
        wait_for(lambda: ") Z" in stat.read_text())
        assert (before, living_owner(store, "s")) == (first.name, None)
    assert living_owner(store, "s") is None
    first.close()

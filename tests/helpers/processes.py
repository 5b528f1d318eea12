"""Studies in processes of their own, which tests kill, and what the ledger and the server say of them afterwards."""

import json
import multiprocessing
import signal
import sys
import time

from stub_server import Fault
from waiting import wait_for

from toolkit.models.base import Usage
from toolkit.models.entries import ModelEntry
from toolkit.models.prices import aud_cost, price_of
from toolkit.study import Study
from toolkit.study_file import Budget, Judges, StudyFile

# Each process is forked from one that has imported everything, and so begins its work in a tenth of a second.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["__main__", "pytest", "aiohttp.web", "openai", "tiktoken", "toolkit.study", "toolkit.pipeline"]
)
BROKEN = tuple(Fault(kind) for kind in ("hang", "drop", "half", "cut", "html", "wire"))
"""Faults after which the server may have billed."""


def unjudged_study(folder, *addresses, prices=(1, 2), **settings):
    """Return a study of the 12 S prompts without judges that asks one server at each address.

    ``prices`` are USD per million tokens in and out, ``settings`` those of a study file.
    """
    models = [
        ModelEntry(
            name=f"answerer-{number}" if number else "answerer",
            provider="compatible",
            base_url=address,
            usd_per_million_input=prices[0],
            usd_per_million_output=prices[1],
        )
        for number, address in enumerate(addresses)
    ]
    file = StudyFile(
        name="lone",
        models=tuple(models),
        length_bins=("S",),
        judges=Judges(primary=None, secondary=None, tertiary=None),
        output=folder / "results" / "lone",
        **settings,
    )
    return Study(file, folder / "lone.toml")


def lone_file(folder, address, settings="", more=""):
    """Write the file of such a study, for commands."""
    path = folder / "lone.toml"
    path.write_text(
        f'name = "lone"\noutput = "results/lone"\nlength_bins = ["S"]\n{settings}\n'
        f'[[models]]\nname = "answerer"\nprovider = "compatible"\nbase_url = "{address}"\n'
        "usd_per_million_input = 1.0\nusd_per_million_output = 2.0\n"
        f"[judges]\nprimary = false\nsecondary = false\ntertiary = false\n{more}"
    )
    return path


def run_to_the_end(study, limit):
    """Run a study as the command line does, in a process of its own; the exit code is the outcome's."""
    outcome = study.execute(progress=False, limit=limit)
    if outcome.budget:
        print(outcome.budget, file=sys.stderr)
    sys.exit(outcome.exit_code)


def in_a_process(study, limit=None):
    """Start a study in a process of its own."""
    process = FORKS.Process(target=run_to_the_end, args=(Study(study.file, study.path), limit))
    process.start()
    return process


def kill(process):
    """Kill a process that still runs."""
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def wait_until_seen(process, server, requests):
    """Wait until the server has seen so many requests, or the process has ended."""
    wait_for(lambda: server.count >= requests or not process.is_alive())


def kill_when_seen(process, server, requests, after=0.0):
    """Kill a process some seconds after the server has seen so many requests; return how many were unanswered.

    With a number of requests there is one unanswered at least: a process that had ended by itself proves nothing.
    """
    wait_until_seen(process, server, requests)
    time.sleep(after)
    if requests:
        server.holds = lambda: True
        wait_for(lambda: server.under_way or not process.is_alive())
    unanswered = server.under_way
    kill(process)
    assert unanswered or not requests
    server.settle()
    server.holds = lambda: False
    wait_for(lambda: not server.under_way)  # what had left the process is answered to nobody
    return unanswered


def twin(study):
    """Return another study of the same calls in the same store."""
    changes = {"name": "twin", "output": study.plan.output.parent / "twin"}
    return Study(study.file.model_copy(update=changes), study.path)


def capped(study, aud):
    """Return a study with a budget."""
    return Study(study.file.model_copy(update={"budget": Budget(aud=aud)}), study.path)


def kept_replies(study):
    """Return which of the server's replies the ledger has, by call."""
    calls = study.store.database["calls"].find({"state": "done"})
    return {call["_id"]: json.loads(call["raw"])["id"] for call in calls}


def billed(study, sent, got):
    """Return what a server bills for tokens, in AUD."""
    return aud_cost(Usage(sent, got), price_of(study.plan.models["answerer"]))

"""Break each guarantee on purpose, in a copy of the checkout, and see the test that is to notice turn red.

`make mutations` runs all of ``broken_guarantees.toml``, ``python tests/helpers/broken_guarantees.py NAME ...`` some. A
change that does not apply any more, one of a line that the main job (``main_job.py``) does not run, a named test that
is red without it, and one that stays green with it are failures of this list.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from places import ROOT


@dataclass(frozen=True)
class Mutation:
    """A guarantee, the file and the text in it that gives it, what stands there without it, and who notices."""

    name: str
    file: str
    old: str
    new: str
    test: str


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
MUTATIONS = [Mutation(**row) for row in TABLE["guarantees"]]


def lines_of(mutation, text):
    """Return the numbers of the lines of its file that a mutation changes."""
    start = text.index(mutation.old)
    first = text.count("\n", 0, start) + 1
    return set(range(first, first + len(mutation.old.strip("\n").splitlines())))


def outside_main_job(mutations, executed, root=ROOT):
    """Return the mutations none of whose lines the main job ran: what they change is dead, or only tests call it."""
    return [
        mutation
        for mutation in mutations
        if not lines_of(mutation, (root / mutation.file).read_text()).intersection(executed[mutation.file])
    ]


def main_job_lines(files):
    """Run the main job by scripted models and return which lines of some files it ran."""
    command = [sys.executable, "tests/helpers/main_job.py", *sorted(set(files))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"the main job did not come to its end\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def is_green(checkout, tests):
    """Return whether tests of a checkout pass with its own package; ends all when they could not be run."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # pytest found no such test, or broke down itself
        sys.exit(f"{' '.join(tests)}: not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def copy_to(folder):
    """Copy what git would commit, as it stands in the working tree."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listing, cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())


def main(names):
    """Run the mutations with these names, or all, and return how many were not noticed, or are of dead lines."""
    unknown = set(names) - {mutation.name for mutation in MUTATIONS}
    if unknown:
        sys.exit(f"no such mutation: {', '.join(sorted(unknown))}")
    chosen = [mutation for mutation in MUTATIONS if not names or mutation.name in names]
    stale = [m for m in MUTATIONS if (ROOT / m.file).read_text().count(m.old) != 1]
    for mutation in stale:
        print(f"STALE     {mutation.name}: its text stands not once in {mutation.file}")
    if stale:
        return len(stale)
    dead = outside_main_job(chosen, main_job_lines(mutation.file for mutation in chosen))
    for mutation in dead:
        print(f"NOT LIVE  {mutation.name}: the main job runs no line of it in {mutation.file}", flush=True)
    missed = len(dead)
    with tempfile.TemporaryDirectory() as place:
        checkout = Path(place)
        copy_to(checkout)
        if not is_green(checkout, sorted({mutation.test for mutation in chosen})):
            sys.exit("a named test is red without any mutation; mend that first")
        for mutation in chosen:
            file = checkout / mutation.file
            whole = file.read_text()
            file.write_text(whole.replace(mutation.old, mutation.new))
            noticed = not is_green(checkout, [mutation.test])
            file.write_text(whole)
            missed += not noticed
            said = "red" if noticed else "NOT SEEN"
            print(f"{said:9} {mutation.name} | {mutation.file} | {mutation.test}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))

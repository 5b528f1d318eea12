"""Simulate every check in several processes; the seed alone decides the numbers, whatever the number of processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection
from typing import Final

import numpy as np

from toolkit.errors import InputError
from toolkit.verify.check import Check, Setting
from toolkit.verify.verdict import Tally, Verified

BLOCK: Final = 50
"""Studies that share a generator: the first hundred of a thousand studies are the hundred of a shorter run."""
SEED: Final = 20261121
STUDIES: Final = 1000


@dataclass(frozen=True)
class _Task:
    check: Check
    setting: Setting
    block: int
    studies: int
    seed: int


@dataclass(frozen=True)
class _Found:
    counts: dict[str, tuple[int, int]]  # quantity to how many counted and how many hit
    failed: int
    reason: str


def simulate_checks(
    checks: Sequence[Check],
    *,
    studies: int = STUDIES,
    seed: int = SEED,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Verified:
    """Simulate studies for every check and count how often intervals hold the truth and tests reject it.

    An error or a warning from a statistic is counted as a failure of it and fails its row; it stops nothing.

    Parameters
    ----------
    checks
        What to try.
    studies
        Simulated studies of each check and setting.
    seed
        Every check, setting and block of 50 studies has a generator of its own made from it, so that numbers depend
        neither on the number of processes nor on which other checks run.
    processes
        How many processes work; 1 stays in this one.
    progress
        Told after each block how many are done, and of how many.

    Returns
    -------
    Verified
        In the order of the checks and their settings.

    Raises
    ------
    InputError
        If there is less than one study or process, the seed is negative, or two checks have one name.

    Examples
    --------
    >>> from toolkit.verify.check import setting
    >>> even = Check("even", "test", "", "", lambda rng, _: {"coin": bool(rng.integers(2))}, (setting(n=1),))
    >>> simulate_checks([even], studies=100).tallies[0].counted
    100
    """
    for name, value, least in (("studies", studies, 1), ("processes", processes, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"verify: {name} is {value}; give {least} or more")
    if len({check.name for check in checks}) < len(checks):
        raise InputError("verify: two checks have the same name; give each its own")
    tasks = [
        _Task(check, made, block, min(BLOCK, studies - block * BLOCK), seed)
        for check in checks
        for made in check.settings
        for block in range(-(-studies // BLOCK))
    ]
    found = _in_processes(tasks, processes) if processes > 1 else map(_work, tasks)
    by_place: dict[tuple[str, str], list[_Found]] = {}
    for number, (task, result) in enumerate(zip(tasks, found, strict=True), start=1):
        by_place.setdefault((task.check.name, task.setting.label), []).append(result)
        if progress:
            progress(number, len(tasks))
    tallies = (
        tally
        for check in checks
        for made in check.settings
        for tally in _tallies(check, made, studies, by_place[check.name, made.label])
    )
    return Verified(tuple(tallies), studies, seed)


def _in_processes(tasks: Sequence[_Task], processes: int) -> Iterable[_Found]:
    # Spawned, not forked: a notebook has threads, and a forked copy of a held lock is held for ever.
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = (
        "1"  # or every process would ask for all cores for matrices of three columns
    )
    try:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, context, initializer=_end_with_parent) as pool:
            yield from pool.map(_work, tasks)
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone, also by a signal that runs none of its code."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _work(task: _Task) -> _Found:
    """Simulate one block of studies."""
    names = (task.check.name, task.setting.label)
    rng = np.random.default_rng([task.seed, *(zlib.crc32(name.encode()) for name in names), task.block])
    counts: dict[str, tuple[int, int]] = {}
    failed, reason = 0, ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning from inside a library is a defect of ours
        for _ in range(task.studies):
            try:
                outcome = task.check.simulate(rng, task.setting)
            except Exception as error:
                failed, reason = failed + 1, reason or f"{type(error).__name__}: {error}"
                continue
            for quantity, hit in outcome.items():
                counted, hits = counts.get(quantity, (0, 0))
                counts[quantity] = (counted + (hit is not None), hits + bool(hit))
    return _Found(counts, failed, reason)


def _tallies(check: Check, made: Setting, studies: int, found: Sequence[_Found]) -> Iterable[Tally]:
    failed = sum(one.failed for one in found)
    reason = next((one.reason for one in found if one.reason), "")
    new = partial(Tally, check.name, check.kind)
    quantities = list(dict.fromkeys(name for one in found for name in one.counts)) or ["all"]
    for quantity in quantities:
        counted, hits = (sum(one.counts.get(quantity, (0, 0))[place] for one in found) for place in (0, 1))
        yield new(quantity, made.label, studies, counted, hits, failed, reason)

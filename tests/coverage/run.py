"""Simulate studies with a known truth and count how often each interval holds it and each test rejects it.

``make coverage`` writes ``tests/coverage/verified.csv`` (the counts), ``build/statistics_verified.md`` (every row) and
``docs/explain/statistics_verified.md`` (one page). Each check, setting and block of 50
studies has its own generator, so that a number does not depend on the processes or on which other checks run.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import tomllib
import warnings
import zlib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import agreement  # noqa: F401, the three register their checks
import means  # noqa: F401
import numpy as np
import rates  # noqa: F401
from draw import BAND, CHECKS, NOMINAL, Check, Setting
from statsmodels.stats.proportion import proportion_confint

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explain" / "statistics_verified.md"
FULL_PAGE = ROOT / "build" / "statistics_verified.md"
COUNTS = Path(__file__).parent / "verified.csv"
COLUMNS = ("check", "setting", "quantity", "studies", "counted", "hits")
SHARE = {"interval": "coverage", "test": "size", "power": "power"}
PROMISED = {"interval": (0.93, 0.97), "test": (0.0, 0.065), "power": (0.77, 1.0)}
"""Shares that the summary does not list: a test may reject too seldom, and a study may find more than promised."""
BLOCK = 50
SEED = 20261121
STUDIES = 1000


@dataclass(frozen=True)
class Tally:
    """What became of the studies of one check in one setting, for one quantity; ``hits`` held the truth or rejected."""

    check: Check
    setting: Setting
    quantity: str
    studies: int
    counted: int
    hits: int
    errors: tuple[str, ...] = ()

    @property
    def share(self):
        """Coverage, size or power; NaN where no study counted."""
        return self.hits / self.counted if self.counted else float("nan")

    @property
    def verdict(self):
        """``holds``, ``conservative``, ``misses`` or ``fails``, by the bounds that the page prints."""
        if self.errors or not self.counted:
            return "fails"
        above = self.share - NOMINAL[self.check.kind]
        if abs(above) <= BAND[self.check.kind] + 1e-9:
            return "holds"
        return "misses" if (above > 0) == (self.check.kind == "test") else "conservative"

    def row(self):
        """Return the row of the page."""
        low, high = proportion_confint(self.hits, self.counted, method="wilson") if self.counted else (0, 1)
        bold = "" if self.verdict in ("holds", "conservative") else "**"
        why = f": {len(self.errors)} studies, {self.errors[0]}" if self.errors else ""
        without = self.studies - self.counted - len(self.errors)
        return (
            f"| {self.setting.label} | {self.quantity} | {100 * self.share:.1f} | {100 * low:.1f}-{100 * high:.1f} "
            f"| {without} | {bold}{self.verdict}{bold}{why} |"
        )


def simulate(check, setting, seed, block, studies):
    """Return what became of each study of one block; the text of an error or a warning where there was one."""
    rng = np.random.default_rng(
        [seed, *(zlib.crc32(name.encode()) for name in (check.name, setting.label)), block]
    )
    outcomes = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning from inside a library is a defect of ours
        for _ in range(studies):
            try:
                outcomes.append(check.outcome(rng, setting))
            except Exception as error:
                outcomes.append(f"{type(error).__name__}: {error}")
    return outcomes


def tallies(check, setting, studies):
    """Count one setting, a row a quantity."""
    errors = tuple(study for study in studies if isinstance(study, str))
    outcomes = [study for study in studies if not isinstance(study, str)]
    rows = []
    for quantity in dict.fromkeys(name for outcome in outcomes for name in outcome) or ["all"]:
        counted = [outcome[quantity] for outcome in outcomes if outcome.get(quantity) is not None]
        rows.append(Tally(check, setting, quantity, len(studies), len(counted), sum(counted), errors))
    return rows


def verify(checks, studies=STUDIES, seed=SEED, processes=1):
    """Simulate every check; spawned processes, because pandas has threads that a fork would lock for ever."""
    tasks = [
        (check, setting, seed, block, min(BLOCK, studies - block * BLOCK))
        for check in checks
        for setting in check.settings
        for block in range(-(-studies // BLOCK))
    ]
    if processes > 1:
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            blocks = list(pool.map(simulate, *zip(*tasks, strict=True)))
    else:
        blocks = [simulate(*task) for task in tasks]
    found = {}
    for (check, setting, *_), block in zip(tasks, blocks, strict=True):
        found.setdefault((check.name, setting.label), []).extend(block)
    return [
        row
        for check in checks
        for setting in check.settings
        for row in tallies(check, setting, found[check.name, setting.label])
    ]


def page(rows, studies, seed):
    """Return the page: how it was made, the counts, and every row."""
    verdicts = ", ".join(
        f"{count} {name}" for name, count in sorted(Counter(row.verdict for row in rows).items())
    )
    bands = [
        f"{NOMINAL[kind] - BAND[kind]:.1%} to {NOMINAL[kind] + BAND[kind]:.1%} ({kind})" for kind in SHARE
    ]
    text = HEAD.format(studies=studies, seed=seed, rows=len(rows), verdicts=verdicts, bands=", ".join(bands))
    for check in dict.fromkeys(row.check for row in rows):
        text += f"\n## {check.name}\n\n{check.kind.capitalize()}: `{check.functions}`. "
        text += f"{check.truth}{' ' + check.note if check.note else ''}\n\n"
        text += f"| setting | quantity | {SHARE[check.kind]} % | MC % | without | verdict |\n"
        text += "| --- | --- | --: | --- | --: | --- |\n"
        text += "".join(f"{row.row()}\n" for row in rows if row.check is check)
    return text


def stored():
    """Read the counts of the last full run."""
    checks = {check.name: check for check in CHECKS}
    rows = []
    for row in csv.DictReader(COUNTS.read_text(encoding="utf-8").splitlines()):
        check = checks[row["check"]]
        setting = next(setting for setting in check.settings if setting.label == row["setting"])
        counts = (int(row[name]) for name in ("studies", "counted", "hits"))
        rows.append(Tally(check, setting, row["quantity"], *counts))
    return rows


def summary(rows, studies, seed):
    """Return the page in docs: the checks that hold throughout, then those that do not, by quantity."""
    text = SUMMARY.format(studies=studies, seed=seed, rows=len(rows), **Counter(row.verdict for row in rows))
    outside = ""
    for check in dict.fromkeys(row.check for row in rows):
        own = [row for row in rows if row.check is check]
        low, high = PROMISED[check.kind]
        odd = [row for row in own if not low <= row.share <= high]
        by_name = {row.quantity: [one for one in odd if one.quantity == row.quantity] for row in odd}
        if odd:
            parts = "; ".join(f"{name} {span(group)}" for name, group in by_name.items())
            outside += f"- **{check.name}**: {span(own)}. {REASONS.get(check.name, check.note)} {parts}.\n"
        else:
            text += f"{check.name}; "
    return f"{text.removesuffix('; ')}.\n\n{OUTSIDE}\n{outside}"


def span(rows):
    """Return the least and the largest share of some rows, and their number or the setting of the only one."""
    shares = [f"{100 * share:.1f}" for share in sorted(row.share for row in rows)]
    where = f"{len(rows)} rows" if rows[1:] else rows[0].setting.label
    return f"{'-'.join(dict.fromkeys((shares[0], shares[-1])))} ({where})"


HEAD = """\
# Every interval and test, verified by simulation

Made by `make coverage STUDIES={studies} SEED={seed}`; docs/explain/statistics_verified.md explains the shares. *MC* \
is the Wilson interval of a share. *without* counts studies without an interval or p value, with a reason in the result.

*holds*: {bands}. *conservative*: too wide, rejects too seldom, or finds more than promised. *misses*: too short, \
rejects too often, or finds less than promised. *fails*: an error.

**{rows} rows, {studies} studies each (seed {seed}): {verdicts}.**
"""
SUMMARY = """\
# How often the intervals and tests are right

`make coverage STUDIES={studies} SEED={seed}` makes this page in about 20 minutes, with every row in \
`build/statistics_verified.md`. A row is one statistic in one setting: {studies:,} studies with a known truth.

- **Coverage** of an interval: the share of studies whose interval holds the truth. It should be 95 %.
- **Size** of a test (near 5 below): the share that rejects a true null hypothesis. It should be 5 % at most.
- **Power**: the share that finds an effect that the calculation says 80 % find.

Scores are half points from 0 to 5; `mean 4.5` is a ceiling, at which many are cut off.

**Of {rows} rows {holds} hold within 1.5 points (power: 3), {conservative} are conservative (too wide, or rejecting \
too seldom), {misses} miss.** By chance alone 3 in 100 would be outside.

In every setting coverage is 93 to 97 %, size at most 6.5 %, power at least 77 % of: \
"""
OUTSIDE = """\
## Outside of these bounds

The first range is of all rows, in %.
"""
REASONS = tomllib.loads((Path(__file__).parent / "reasons.toml").read_text(encoding="utf-8"))


def main():
    """Simulate and write counts and pages; print the page where only some checks or few studies were made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=STUDIES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="part of the name of the checks to make")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # or every process asks for all cores for matrices of three columns
    checks = [check for check in CHECKS if options.only.lower() in check.name.lower()]
    rows = verify(checks, options.studies, options.seed, os.cpu_count() or 1)
    text = page(rows, options.studies, options.seed)
    if options.only or options.studies < STUDIES:
        print(text)
        return
    FULL_PAGE.parent.mkdir(exist_ok=True)
    FULL_PAGE.write_text(text, encoding="utf-8")
    with COUNTS.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow(
                (row.check.name, row.setting.label, row.quantity, row.studies, row.counted, row.hits)
            )
    PAGE.write_text(summary(rows, options.studies, options.seed), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Every interval and test on studies with a known truth: how often it holds the truth, or rejects it.

``make coverage`` writes the page ``docs/statistics_verified.md``. Every check, setting and block of 50 studies has a
generator of its own, so that a number depends neither on the processes nor on which other checks run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import agreement  # noqa: F401, the three register their checks
import means  # noqa: F401
import numpy as np
import rates  # noqa: F401
from draw import BAND, CHECKS, NOMINAL, Check, Setting
from statsmodels.stats.proportion import proportion_confint

PAGE = Path(__file__).parents[2] / "docs" / "statistics_verified.md"
SHARE = {"interval": "coverage", "test": "size", "power": "power"}
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
    def share(self) -> float:
        """Coverage, size or power; NaN where no study counted."""
        return self.hits / self.counted if self.counted else float("nan")

    @property
    def verdict(self) -> str:
        """``holds``, ``conservative``, ``misses`` or ``fails``, by the bounds that the page prints."""
        if self.errors or not self.counted:
            return "fails"
        above = self.share - NOMINAL[self.check.kind]
        if abs(above) <= BAND[self.check.kind] + 1e-9:
            return "holds"
        return "misses" if (above > 0) == (self.check.kind == "test") else "conservative"

    def row(self) -> str:
        """Return the row of the page."""
        low, high = proportion_confint(self.hits, self.counted, method="wilson") if self.counted else (0, 1)
        bold = "" if self.verdict in ("holds", "conservative") else "**"
        why = f": {len(self.errors)} studies, {self.errors[0]}" if self.errors else ""
        without = self.studies - self.counted - len(self.errors)
        return (
            f"| {self.setting.label} | {self.quantity} | {100 * self.share:.1f} | {100 * low:.1f}-{100 * high:.1f} "
            f"| {without} | {bold}{self.verdict}{bold}{why} |"
        )


def simulate(check: Check, setting: Setting, seed: int, block: int, studies: int) -> list[dict | str]:
    """Return what became of each study of one block; the text of an error or a warning where there was one."""
    rng = np.random.default_rng(
        [seed, *(zlib.crc32(name.encode()) for name in (check.name, setting.label)), block]
    )
    found: list[dict | str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning from inside a library is a defect of ours
        for _ in range(studies):
            try:
                found.append(check.outcome(rng, setting))
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}")
    return found


def tallies(check: Check, setting: Setting, found: Sequence[dict | str]) -> list[Tally]:
    """Count one setting, a row a quantity."""
    errors = tuple(one for one in found if isinstance(one, str))
    outcomes = [one for one in found if not isinstance(one, str)]
    rows = []
    for quantity in dict.fromkeys(name for one in outcomes for name in one) or ["all"]:
        counted = [one[quantity] for one in outcomes if one.get(quantity) is not None]
        rows.append(Tally(check, setting, quantity, len(found), len(counted), sum(counted), errors))
    return rows


def verify(
    checks: Sequence[Check], studies: int = STUDIES, seed: int = SEED, processes: int = 1
) -> list[Tally]:
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
    found: dict[tuple[str, str], list[dict | str]] = {}
    for (check, setting, *_), block in zip(tasks, blocks, strict=True):
        found.setdefault((check.name, setting.label), []).extend(block)
    return [
        row
        for check in checks
        for setting in check.settings
        for row in tallies(check, setting, found[check.name, setting.label])
    ]


def page(rows: Sequence[Tally], studies: int, seed: int) -> str:
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


HEAD = """\
# Every interval and test, verified by simulation

Made by this command; do not edit it by hand:

```sh
make coverage STUDIES={studies} SEED={seed}
```

For each row {studies:,} studies with a known truth were drawn and put through the function named. For an interval \
the share is its coverage: how often it held the truth, 95 % if it is right. For a test it is its size: how often it \
rejected a null hypothesis that was true, 5 % if it is right. For power the effect is the one that the calculation \
says is found in 80 % of studies. *MC* is the Wilson interval of that share, for the number of studies. *without* \
counts studies that gave no interval or p value; such a result says why. Scores have half points and end at 0 and 5; \
`mean 4.5` is a ceiling.

*holds*: {bands}. *conservative*: too wide, rejects too seldom, or finds more than promised. *misses*: too short, \
rejects too often, or finds less than promised. *fails*: an error. Of rows whose true share is nominal, 3 in 100 fall \
outside by chance alone where there are 1,000 studies.

**{rows} intervals and tests, each on {studies} simulated studies (seed {seed}): {verdicts}.**
"""


def main() -> None:
    """Simulate what is named and write the page, or print it where only some checks or few studies were made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=STUDIES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="part of the name of the checks to make")
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # or every process asks for all cores for matrices of three columns
    checks = [check for check in CHECKS if asked.only.lower() in check.name.lower()]
    text = page(verify(checks, asked.studies, asked.seed, os.cpu_count() or 1), asked.studies, asked.seed)
    if asked.only or asked.studies < STUDIES:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

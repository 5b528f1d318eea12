"""Seconds and memory of `toolkit export`'s archive and of `toolkit import`, for 10,000 runs with three judges each.

    python tests/benchmarks/archive.py [--runs 10000] [--keep FOLDER]

The store is that of ``frames.py``. Every job is a fresh process: its peak holds about 135 MB of imports.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frames import filled
from gateway import Limit, surroundings
from server import fresh, own_cost

ASKED_PEAK_MB: Mapping[str, float | None] = {"export": 300.0, "import": 250.0, "import again": 250.0}


def child(what: str, home: Path, place: Path) -> None:
    """Do one job in this process and print what it took as JSON."""
    from toolkit.audit.export import import_archive
    from toolkit.plan import STORE
    from toolkit.store.archive import write_archive
    from toolkit.store.connection import open_store

    archive = place / "frames.zip"
    before, started = own_cost(), time.perf_counter()
    if what == "export":
        store = open_store(home / "results" / STORE)
        found: Mapping[str, int] = write_archive(store, "frames", archive)
        store.close()
    else:
        fields = import_archive(archive, place / "results").fields
        found = fields["added" if what == "import" else "known"]
    wall, cost = time.perf_counter() - started, own_cost()
    print(json.dumps({"documents": found, "wall": wall, "cpu": cost.cpu - before.cpu, "peak": cost.peak}))


def taken(what: str, home: Path, place: Path) -> dict[str, Any]:
    """Do one job in a fresh process and return what it took."""
    found: dict[str, Any] = fresh(__file__, "--child", what, "--keep", str(home), "--place", str(place))
    print(f"{what:<14}{found['wall']:>8.1f}{found['cpu']:>8.1f}{found['peak']:>9.0f}", flush=True)
    return found


def main() -> None:
    """Measure, print the table and the limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="folder of a store to use again")
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, options.keep, options.place)
    print(f"{options.runs} runs, three judges each; {surroundings()}")
    with filled(options.keep, options.runs) as home, tempfile.TemporaryDirectory() as name:
        place = Path(name)
        print(f"{'what':<14}{'s':>8}{'cpu s':>8}{'peak MB':>9}", flush=True)
        try:
            found = {what: taken(what, home, place) for what in ASKED_PEAK_MB}
        finally:
            # Not before: what this process has in memory its children are charged with.
            from toolkit.plan import STORE
            from toolkit.store import embedded

            embedded.stop(place / "results" / STORE)
        size = (place / "frames.zip").stat().st_size / 1e6
    counts = [{name: count for name, count in one["documents"].items() if count} for one in found.values()]
    if any(one != counts[0] for one in counts):
        raise SystemExit(f"what was exported was not imported: {found}")
    print(f"the archive has {size:.0f} MB")
    for what, one in found.items():
        print(Limit(f"peak memory, {what}", one["peak"], ASKED_PEAK_MB[what], "MB"))
    return None


if __name__ == "__main__":
    main()

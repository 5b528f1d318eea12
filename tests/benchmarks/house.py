"""How far a reader has to go: functions and modules from prompt to figure, and frames from a method to its calculation.

    python tests/benchmarks/house.py

A scripted study is asked, judged and analysed, and figures are drawn, in one process under ``sys.setprofile``. Counted
are functions of the toolkit that were called, and modules that have one of them, without comprehensions and lambdas.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import toolkit
from toolkit.report.registry import FIGURES
from toolkit.stats.inference import means
from toolkit.store import embedded
from toolkit.study import Study

ROOT = str(Path(toolkit.__file__).parent)
STUDY = """
name = "house"
models = [{ name = "a", provider = "scripted", planted = { level = 3.0 } }]
repeats = 1
[judges]
primary = { name = "one", provider = "scripted", planted = {} }
secondary = { name = "two", provider = "scripted", planted = {} }
tertiary = { name = "three", provider = "scripted", planted = {} }
"""


def main() -> None:
    """Print the counts."""
    called: set[tuple[str, str]] = set()
    depth: list[list[str]] = []
    measuring: list[bool] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or code.co_name.startswith("<"):
            return
        called.add((code.co_filename, code.co_qualname))
        if code is means.clustered_mean.__code__ and measuring and not depth:
            names, above = [], frame.f_back
            while above is not None and above.f_code is not main.__code__:
                if above.f_code.co_filename.startswith(ROOT) and not above.f_code.co_name.startswith("<"):
                    names.append(above.f_code.co_qualname)
                above = above.f_back
            depth.append(names[::-1])

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "house.toml"
        path.write_text(STUDY)
        study = Study.load(path)
        try:
            threading.setprofile(profile)
            sys.setprofile(profile)
            study.execute(progress=False)
            measuring.append(True)
            study.length()
            asked = len(called)
            (row,) = (row for row in FIGURES if row.name == "length_effects")
            study.figures(
                only=[row.name]
            ) if "only" in Study.figures.__code__.co_varnames else study.figures()
            sys.setprofile(None)
            threading.setprofile(None)
        finally:
            study.close()
            embedded.stop(study.plan.store_folder)
    print(f"until study.length(): {asked} functions")
    print(f"prompt to figures: {len(called)} functions in {len({file for file, _ in called})} modules")
    print("study.length() to the calculation:", " -> ".join(depth[0]))


if __name__ == "__main__":
    main()

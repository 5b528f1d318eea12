"""The ten lines of Python in the README run, as they stand, on a finished study."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]


def test_the_ten_lines_run(demo_like_study: Path) -> None:
    """Every line of the README's example runs; the last ones give frames and files."""
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    assert "templates/demo.toml" in code
    names: dict = {}
    for line in code.replace("templates/demo.toml", str(demo_like_study)).splitlines():
        exec(compile(line, "README.md", "exec"), names)
    study = names["study"]
    assert isinstance(study.reliability().frame(), pd.DataFrame)
    assert all(path.exists() for path in study.figures())
    study.store.close()

"""The ten lines of Python in the README run, as they stand, on a finished study."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]


def _examples() -> list[str]:
    return re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )


def test_the_test_in_the_readme_is_the_one_that_ships() -> None:
    """The example that a reader copies is the file that the tests run, without its docstrings."""
    shipped = (ROOT / "toolkit/protocols/stereotypes.py").read_text(encoding="utf-8")
    shown = _examples()[-1]
    bare = re.sub(r'^ +""".*?"""\n\n?', "", shipped, flags=re.MULTILINE | re.DOTALL)
    assert shown == bare
    assert len([line for line in shown.splitlines() if line.strip()]) <= 32


def test_the_ten_lines_run(demo_like_study: Path) -> None:
    """Every line of the README's examples runs on a study; the first ones give frames and files."""
    code = "".join(_examples()[:-1])
    assert "templates/demo.toml" in code
    names: dict = {}
    for line in code.replace("templates/demo.toml", str(demo_like_study)).splitlines():
        exec(compile(line, "README.md", "exec"), names)
    study = names["study"]
    assert isinstance(study.reliability().frame(), pd.DataFrame)
    assert (study.output / "figures" / "quality_by_length.svg").exists()
    assert (study.output / "bundle" / "bundle.tex").exists()
    study.store.close()

"""Check that the README is true: its files exist, its commands exist and are all there, its Python compiles.

Run by ``make check``; prints one line per untruth and exits 1 when there is any. Notebooks must be stripped too.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from toolkit.cli import cli
from toolkit.store.dictionary import dictionary_text

ROOT = Path(__file__).resolve().parent.parent
PATHS = re.compile(r"(?:docs|templates|notebooks|toolkit|scripts|tests)/[\w./-]+\.\w+")


def untruths() -> list[str]:
    """Return what is wrong, one line each."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    wrong = [
        f"README.md names {path}, which is not there"
        for path in PATHS.findall(readme)
        if not (ROOT / path).exists()
    ]
    named = set(re.findall(r"^\| `toolkit (\w+)", readme, flags=re.MULTILINE))
    wrong += [
        f"README.md documents `toolkit {name}`, which does not exist"
        for name in sorted(named - set(cli.commands))
    ]
    wrong += [f"README.md does not document `toolkit {name}`" for name in sorted(set(cli.commands) - named)]
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    said = set(re.findall(r"^make (\w+)|`make (\w+)`", readme, flags=re.MULTILINE))
    calls = {first or second for first, second in said}
    wrong += [f"README.md says `make {name}`, the Makefile does not" for name in sorted(calls - targets)]
    for code in re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL):
        compile(code, "README.md", "exec")
    if (ROOT / "docs" / "data_dictionary.md").read_text(encoding="utf-8") != dictionary_text():
        wrong.append("docs/data_dictionary.md is stale; run python scripts/write_dictionary.py")
    for path in sorted([*ROOT.glob("templates/*.ipynb"), *ROOT.glob("notebooks/*.ipynb")]):
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        if any(cell["outputs"] or cell["execution_count"] for cell in cells):
            wrong.append(f"{path.relative_to(ROOT)} holds outputs; run nbstripout on it")
    return wrong


if __name__ == "__main__":
    found = untruths()
    print("\n".join(found) or "docs: true, notebooks: stripped")
    sys.exit(bool(found))

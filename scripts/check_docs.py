"""Check that README and docs are true: what they name exists, and every command is documented.

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
    pages = {page: page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"))}
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    wrong = []
    for page, text in pages.items():
        links = [page.parent / link for link in re.findall(r"\]\((?!http)([^)#]+)", text)]
        gone = [
            path for path in [*links, *(ROOT / path for path in PATHS.findall(text))] if not path.exists()
        ]
        wrong += [f"{page.name} names {path.name}, which is not there" for path in gone]
        calls = set(re.findall(r"(?:^|`)make ([\w-]+)", text, flags=re.MULTILINE))
        wrong += [
            f"{page.name} says `make {name}`, the Makefile does not" for name in sorted(calls - targets)
        ]
    named = set(re.findall(r"^\| `toolkit (\w+)", pages[ROOT / "docs" / "running.md"], flags=re.MULTILINE))
    for name in sorted(named ^ set(cli.commands)):
        wrong.append(f"docs/running.md and the commands of toolkit do not agree on `toolkit {name}`")
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

"""Check README, docs and notebooks: named files exist, every command is documented, tables and notebooks are clean.

Run by ``make check``; prints one line for each fault and exits 1 when there is any.
"""

from __future__ import annotations

import json
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

import reference_pages

from toolkit.cli import cli
from toolkit.store.frame_files import dictionary_text

ROOT = Path(__file__).resolve().parent.parent
LONGEST_ROW = 200
"""Characters of a row of a table; longer ones are prose, or several rows."""
PATHS = re.compile(r"(?:docs|templates|notebooks|toolkit|scripts|tests)/[\w./-]+\.\w+")


def faults() -> list[str]:
    """Return every fault as one line."""
    pages = {page: page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"))}
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    wrong: list[str] = []
    for page, text in pages.items():
        links = [page.parent / link for link in re.findall(r"\]\((?!http)([^)#]+)", text)]
        missing = [
            path for path in [*links, *(ROOT / path for path in PATHS.findall(text))] if not path.exists()
        ]
        wrong += [f"{page.name} names {path.name}, which is not there" for path in missing]
        rows = [(n, row) for n, row in enumerate(text.splitlines(), 1) if row.startswith("|")]
        wrong += [
            f"{page.name}, line {n}: a table row of {len(row)} characters, {LONGEST_ROW} at most; write prose"
            for n, row in rows
            if len(row) > LONGEST_ROW
        ]
        calls = set(re.findall(r"(?:^|`)make ([\w-]+)", text, flags=re.MULTILINE))
        wrong += [
            f"{page.name} says `make {name}`, the Makefile does not" for name in sorted(calls - targets)
        ]
    documented = set(
        re.findall(r"^\| `toolkit (\w+)", pages[ROOT / "docs" / "running.md"], flags=re.MULTILINE)
    )
    for name in sorted(documented ^ set(cli.commands)):
        wrong.append(f"docs/running.md and the commands of toolkit do not agree on `toolkit {name}`")
    if (ROOT / "docs" / "data_dictionary.md").read_text(encoding="utf-8") != dictionary_text():
        wrong.append("docs/data_dictionary.md is stale; run python scripts/write_dictionary.py")
    for path in sorted([*ROOT.glob("templates/*.ipynb"), *ROOT.glob("notebooks/*.ipynb")]):
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        if any(cell["outputs"] or cell["execution_count"] for cell in cells):
            wrong.append(f"{path.relative_to(ROOT)} holds outputs; run nbstripout on it")
    return wrong


def site_faults() -> list[str]:
    """Return pages that the start page does not lead to, links of it that lead nowhere, and keys without a sentence."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", index, flags=re.MULTILINE | re.DOTALL)
    entries = [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]
    pages = {path.stem for path in ROOT.glob("docs/*.md")} - {"index"}
    pages |= {f"generated/{Path(name).stem}" for name in reference_pages.pages()}
    unreached = [page for page in sorted(pages) if not any(fnmatch(page, entry) for entry in entries)]
    dead = [entry for entry in entries if "*" not in entry and entry not in pages]
    return [
        *(f"docs/index.md does not lead to {page}" for page in unreached),
        *(f"docs/index.md names {entry}, which is not there" for entry in dead),
        *(
            f"docs/study_keys.toml and toolkit/study_file.py: {fault}"
            for fault in reference_pages.key_faults()
        ),
    ]


if __name__ == "__main__":
    messages = [*faults(), *site_faults()]
    print("\n".join(messages) or "docs are true, notebooks are stripped")
    sys.exit(bool(messages))

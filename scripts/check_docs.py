"""Check README, docs and notebooks: named files exist, every page is reached, tables and notebooks are clean.

Run by ``make check``; prints one line for each fault and exits 1 when there is any.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import reference_pages

from toolkit.store.frame_files import dictionary_text

ROOT = Path(__file__).resolve().parent.parent
LONGEST_ROW = 200
"""Characters of a row of a table; longer ones are prose, or several rows."""
PAGES = sorted(set(ROOT.glob("docs/**/*.md")) - set(ROOT.glob("docs/generated/**/*")))
PATHS = re.compile(r"(?:docs|templates|notebooks|toolkit|scripts|tests)/[\w./-]+\.\w+")


def faults() -> list[str]:
    """Return every fault as one line."""
    pages = {page: page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *PAGES)}
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    wrong: list[str] = []
    for page, text in pages.items():
        name = page.relative_to(ROOT)
        links = [page.parent / link for link in re.findall(r"\]\((?!http)([^)#]+)", text)]
        missing = [
            path for path in [*links, *(ROOT / path for path in PATHS.findall(text))] if not path.exists()
        ]
        wrong += [f"{name} names {path.name}, which is not there" for path in missing]
        rows = [(n, row) for n, row in enumerate(text.splitlines(), 1) if row.startswith("|")]
        wrong += [
            f"{name}, line {n}: a table row of {len(row)} characters, {LONGEST_ROW} at most; write prose"
            for n, row in rows
            if len(row) > LONGEST_ROW
        ]
        calls = set(re.findall(r"(?:^|`)make ([\w-]+)", text, flags=re.MULTILINE))
        wrong += [f"{name} says `make {call}`, the Makefile does not" for call in sorted(calls - targets)]
    if (ROOT / "docs" / "reference" / "data_dictionary.md").read_text(encoding="utf-8") != dictionary_text():
        wrong.append("docs/reference/data_dictionary.md is stale; run python scripts/write_dictionary.py")
    for path in sorted([*ROOT.glob("templates/*.ipynb"), *ROOT.glob("notebooks/*.ipynb")]):
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        if any(cell["outputs"] or cell["execution_count"] for cell in cells):
            wrong.append(f"{path.relative_to(ROOT)} holds outputs; run nbstripout on it")
    return wrong


def site_faults() -> list[str]:
    """Return pages that the index of their folder does not link to, and keys without a sentence or an example."""
    folders = {path.parent for path in PAGES}
    indexes = {folder: (folder / "index.md").read_text() for folder in folders if folder.name != "tutorials"}
    indexes[ROOT / "docs" / "tutorials"] = indexes[ROOT / "docs"].replace("](tutorials/", "](")
    return [
        *(
            f"the index of {path.parent.relative_to(ROOT)} does not lead to {path.name}"
            for path in PAGES
            if path.name != "index.md" and f"]({path.name})" not in indexes[path.parent]
        ),
        *(
            f"docs/study_keys.toml and toolkit/study_file.py: {fault}"
            for fault in reference_pages.key_faults()
        ),
    ]


if __name__ == "__main__":
    messages = [*faults(), *site_faults()]
    print("\n".join(messages) or "docs are true, notebooks are stripped")
    sys.exit(bool(messages))

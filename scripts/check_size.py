"""Compare the size of each room with its row of the table in pyproject.toml, which may only go down.

The size of a room is its tokens of code: names, operators, numbers and strings without docstrings, comments and
blank lines, so that neither a missing docstring nor a folded line makes a room smaller. ``--lower`` writes the sizes
of today into the table where they are below it.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "pyproject.toml"
CODE = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PACKED = re.compile(r"^\s*\*\(|\*\*\{", re.MULTILINE)
"""A literal inside a literal, which saves a line and not a thought."""
SLACK = 0.02
"""How far a room may be below its row before the row has to follow."""


def code_tokens(source: str) -> int:
    """Count the tokens of code in a module."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type in CODE and token.start[0] not in docstrings for token in tokens)


def sizes() -> Counter[str]:
    """Measure each room of the toolkit, the modules at its root, the tests, and the packed literals."""
    measured: Counter[str] = Counter()
    for path in (*(ROOT / "toolkit").rglob("*.py"), *(ROOT / "tests").rglob("*.py")):
        source, parts = path.read_text(encoding="utf-8"), path.relative_to(ROOT).parts
        room = "tests" if parts[0] == "tests" else parts[1] if len(parts) > 2 else "root"
        measured[room] += code_tokens(source)
        if room != "tests":
            measured["packed_literals"] += len(PACKED.findall(source))
    return measured


def table(text: str) -> dict[str, int]:
    """Read the table of sizes from the text of a pyproject.toml."""
    return tomllib.loads(text).get("tool", {}).get("sizes", {})


def earlier_tables() -> list[dict[str, int]]:
    """Read every table that was committed; none where there is no history."""
    git = ["git", "-C", str(ROOT)]
    log = subprocess.run([*git, "rev-list", "HEAD", "--", TABLE.name], capture_output=True, text=True)
    tables = []
    for commit in log.stdout.split():
        page = subprocess.run([*git, "show", f"{commit}:{TABLE.name}"], capture_output=True, text=True)
        rows = table(page.stdout)
        if not rows:
            break  # before the first table
        tables.append(rows)
    return tables


def sums(rows: dict[str, int]) -> dict[str, int]:
    """Add up what may only go down: the rooms of the toolkit, the tests, the packed literals."""
    others = {name: rows.get(name, 0) for name in ("tests", "packed_literals")}
    return {"toolkit": sum(rows.values()) - sum(others.values()), **others}


def lower(measured: Counter[str]) -> None:
    """Write the sizes of today into the table where they are below it."""
    text = TABLE.read_text(encoding="utf-8")
    for room, size in table(text).items():
        if measured[room] < size:
            text = re.sub(rf"^{room} = {size}$", f"{room} = {measured[room]}", text, flags=re.MULTILINE)
    TABLE.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Print what is above the table, or so far below that the table has to follow; 1 where anything is."""
    measured = sizes()
    if "--lower" in arguments:
        lower(measured)
    rows = table(TABLE.read_text(encoding="utf-8"))
    faults = [f"{room}: it has no row in [tool.sizes]" for room in measured.keys() - rows.keys()]
    for room, size in rows.items():
        if measured[room] > size:
            faults.append(f"{room}: {measured[room]:,}, and [tool.sizes] allows {size:,}: take something out")
        elif measured[room] < size * (1 - SLACK):
            faults.append(f"{room}: {measured[room]:,} of {size:,}: python scripts/check_size.py --lower")
    committed = [sums(earlier) for earlier in earlier_tables()]
    for name, size in sums(rows).items():
        if size > (lowest := min((earlier[name] for earlier in committed), default=size)):
            faults.append(f"{name}: the table rose from {lowest:,} to {size:,}, and it may only go down")
    print(f"sizes: toolkit {sums(dict(measured))['toolkit']:,} tokens of code, tests {measured['tests']:,}")
    print("\n".join(sorted(faults)), end="\n" if faults else "")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

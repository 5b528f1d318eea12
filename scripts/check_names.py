"""Count names in the toolkit that say nothing, and text of ours that is parsed back; fail above the limits.

A name is a binding: a function, class, parameter, variable, attribute or loop variable. It counts against the limit
when a word of it is a pronoun, a participle or a bare preposition, because such a name tells no reader what it holds.
Parsing is a call of ``re``, ``split``, ``rsplit``, ``partition``, ``rpartition``, ``removeprefix`` or
``removesuffix`` in the rooms that get structured results and make text from them; a line that reads text of others,
such as a model's name or a file of the user, ends in the comment ``# text of others``.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "toolkit"
WORDS = frozenset(
    """
    one ones found said told kept held asked known made given about of what why whose own place places
    whole standing there here seen left done wanted shown drawn used gone met apart rest taken meant put
    both each every other others another such same it its they them this that these those who whom which
    how when else besides beside asking saying telling keeping holding giving making taking
    finding seeing standing coming going having
    """.split()  # noqa: SIM905 - a table of words
)
LIMIT_PERCENT = 2.0
SITES = 0
PARSERS = frozenset({"split", "rsplit", "partition", "rpartition", "removeprefix", "removesuffix"})
STRUCTURED = ("report", "stats", "thesis")


def bindings(tree: ast.AST) -> Iterator[str]:
    """Yield every name that a module binds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def parse_calls(tree: ast.AST) -> Iterator[int]:
    """Yield the line of every call that takes text apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            value = node.func.value
            module = value.id if isinstance(value, ast.Name) else ""
            regular = module in ("re", "regex")
            if regular or (
                node.func.attr in PARSERS and module != "np" and not isinstance(value, ast.Constant)
            ):
                yield node.lineno


def main(details: bool) -> int:
    """Print both counts and return 1 where one is above its limit."""
    total, empty, sites = 0, Counter[str](), []
    by_file: Counter[str] = Counter()
    for path in sorted(ROOT.rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        tree, lines = ast.parse(text), text.splitlines()
        for binding in bindings(tree):
            total += 1
            # "one shot" is the name of a protocol, and what ends in "of" names what it returns (`digest_of`).
            words = binding.lower().replace("one_shot", "").removesuffix("_of").strip("_").split("_")
            if WORDS & set(words):
                empty[binding] += 1
                by_file[name] += 1
        if name.startswith(STRUCTURED):
            calls = (line for line in parse_calls(tree) if "# text of others" not in lines[line - 1])
            sites += [f"toolkit/{name}:{line}" for line in calls]
    share = 100 * empty.total() / total
    print(f"names: {empty.total()} of {total} say nothing ({share:.1f} %, at most {LIMIT_PERCENT:g} %)")
    print(f"text of ours parsed back: {len(sites)} places in {', '.join(STRUCTURED)} (at most {SITES})")
    if details:
        print(*(f"{count:5} {name}" for name, count in empty.most_common(60)), sep="\n")
        print(*(f"{count:5} {name}" for name, count in by_file.most_common()), sep="\n")
        print(*sites, sep="\n")
    return int(share > LIMIT_PERCENT or len(sites) > SITES)


if __name__ == "__main__":
    sys.exit(main("--details" in sys.argv))

"""Texts of replies: the patterns they are read by, what they are without their decoration, and the names in them."""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any
from unicodedata import category, decomposition, normalize

from toolkit.judges.rubric import shipped_words
from toolkit.words import is_unseen, one_line

WORDS = shipped_words("reading", "keyed")
FIRST, MOST = 0xF0000, 10_000
ASIDE = {sign: sign + MOST for sign in range(FIRST, FIRST + MOST)}
"""Signs of private use that stand for the answers that a text names, and those for answers that it sets aside."""
_SIGNS = {
    "in_t": f"{chr(FIRST)}-{chr(FIRST + MOST - 1)}",
    "in_signs": f"{chr(FIRST)}-{chr(FIRST + 2 * MOST - 1)}",
}
_AROUND = " \t*_`\"'“”"
_TYPED = str.maketrans("‐‑‒–—−‘’“”", "------''\"\"")
_UNLIKE = ("<super>", "<sub>", "<fraction>", "<circle>")
"""Kinds of characters that mean something else than their compatible ones: 10³ is not 103."""
_TICKS = "\n✓✅✔☑✗❌✘✖✕"


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return a pattern of ``data/reading.toml``, or that of any of the words of a list, whatever their capitals."""
    parts = _SIGNS | WORDS["patterns"]
    text = parts.get(name, rf"(?<!\w)(?:{{{name}}})(?!\w)")
    while names := set(re.findall(r"\{([a-z_]+)\}", text)):
        for part in names:
            text = text.replace(
                f"{{{part}}}", parts.get(part) or "|".join(sorted(WORDS[part], key=len, reverse=True))
            )
    return re.compile(text, re.IGNORECASE | re.MULTILINE)


# --- without decoration -----------------------------------------------------------------------------------------------


def undecorated(text: str) -> str:
    """Return a text, line by line, without the marks of LaTeX, Markdown and HTML, emoji and signs that are not seen."""
    text = "".join(sign for sign in text if sign in _TICKS or not (is_unseen(sign) or category(sign) == "So"))
    return rewritten("\n".join(map(_compatible, text.split("\n"))), "decorations")


def rewritten(text: str, name: str) -> str:
    """Return a text in which the patterns of a table are replaced, one after the other."""
    for row in WORDS.get(name, ()):
        text = re.sub(row["pattern"], row["bare"], text, flags=re.IGNORECASE | re.MULTILINE)
    return text


def _compatible(text: str) -> str:
    """Return a text in compatible characters, its dashes and quotation marks those of a keyboard."""
    if text.isascii():
        return text
    visible = (sign for sign in text if sign.isspace() or not is_unseen(sign))
    signs = (sign if decomposition(sign).startswith(_UNLIKE) else normalize("NFKC", sign) for sign in visible)
    return normalize("NFC", "".join(signs)).translate(_TYPED)


@lru_cache(maxsize=1 << 12)
def plain(text: str) -> str:
    """Return a text in compatible characters on one line, without emphasis, quotes and a full stop around it."""
    line = " ".join(_compatible(text).split())
    return line.strip(_AROUND).removesuffix(".").strip(_AROUND)


def quoted(value: Any) -> str:
    """Return a value as a short quotation."""
    return repr(one_line(str(value), 40))


# --- names ------------------------------------------------------------------------------------------------------------


def matches(answer: str, names: tuple[str, ...]) -> list[str]:
    """Return the names that an answer may mean: by exact text, else but for marks, capitals or digits.

    >>> names = ("-p", "-P", "1,000")
    >>> matches("`-P`", names), matches("1000.0", names), matches("p", names)
    (['-P'], ['1,000'], [])
    """
    for fold, form in [(str, text) for text in _layers(answer)] + [
        (fold, fold(answer)) for fold in (plain, _folded)
    ]:
        if form and (matched := [name for name in names if fold(name) == form]):
            return matched
    return []


def _layers(answer: str) -> Iterator[str]:
    """Yield an answer, then without a full stop or a pair of marks around it, one after the other."""
    for _ in range(9):
        yield (answer := answer.strip())
        if not (match := pattern("layer").fullmatch(answer)):
            return
        answer = match[match.lastindex or 0]


def _folded(text: str) -> str:
    bare = pattern("thousands").sub("", plain(text).casefold())
    form = pattern("between_words").sub(" ", pattern("zeros").sub(r"\1\2\3", bare))
    return pattern("ending").sub("", WORDS["acronyms"].get(form, form))


def names_in(text: str, names: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    """Yield where a text has names, or parts of names that no other has, and which."""
    written, exact, folded = _spellings(names)
    for match in written.finditer(text):
        readings = {exact[match[0]]} if match[0] in exact else folded[_folded(match[0])]
        if len(readings) == 1:
            yield match.start(), match.end(), min(readings)


@lru_cache
def _spellings(names: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, str], dict[str, set[str]]]:
    """Return the pattern of names and of parts that no other has, and what each means, exactly and but for marks."""
    exact = {plain(undecorated(name)): name for name in reversed(names)}
    folded = defaultdict(set)
    for text, name in exact.items():
        folded[_folded(text)].add(name)
    between = WORDS["patterns"]["between_words"]
    longest = sorted(filter(None, {*folded, *exact}), key=len, reverse=True)
    words = "|".join(between.join(map(re.escape, re.split(between, part))) for part in longest) or "(?!)"
    return (
        re.compile(rf"(?<!\w)(?:{words})(?:(?<=\w{{4}})[aeos]{{1,2}})?(?!\w|\.\d)", re.IGNORECASE),
        exact,
        folded,
    )

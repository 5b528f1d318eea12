"""Reads documents as text, finds quotes in them, and checks that a quote supports a fact.

The text of a document is data: it is compared and quoted, and nothing in it is executed.
"""

import calendar
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from toolkit.errors import InputError
from toolkit.files.digests import sha256_of
from toolkit.files.reading import read_text, similar_file
from toolkit.words import is_unseen, one_line

SUFFIXES = (".md", ".markdown", ".txt", ".pdf")
LONGEST = 200_000
"""Longest document, in characters: one request holds all of it, some 50,000 tokens."""
SHORTEST_QUOTE = 4
"""Least words of a quote: the word "the" is in every document."""

_LIGATURES = str.maketrans({"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl"})
_ALIKE = str.maketrans(
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2018\u2019\u201a\u201b\u2032\u00b4\u201c\u201d\u201e\u2033\u00ab\u00bb",
    "-" * 7 + "'" * 6 + '"' * 6,
    "*`",  # emphasis and code of Markdown
)
# It starts at the start of a word: one long word of a hostile text must not be searched from each of its letters.
_HYPHENATED = re.compile(r"(?<!\w)(\w+)[-\u2010]\n[ \t]*(\w+)")
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])-\s*(?=[^\W\d_])")
_EDGE = 2  # lines at the top and the foot of a page that may be a running head or a page number
_PAGE = re.compile(r"(?:page )?(?:- ?)?\d{1,4}(?: ?-)?(?: ?(?:of|/) ?\d{1,4})?", re.IGNORECASE)
_UP_TO_TWELVE = "two three four five six seven eight nine ten eleven twelve"
_SMALL = {word: str(number) for number, word in enumerate(_UP_TO_TWELVE.split(), 2)}
_COUNTING = re.compile(
    rf"(?i)\b(?:{'|'.join(_SMALL)}|(?:thir|four|fif|six|seven|eigh|nine)teen|"
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundreds?|thousands?|[mb]illions?|dozens?|half|twice)\b"
)
_DAY_NAMES = re.compile(rf"\b(?:{'|'.join([*calendar.month_name[1:], *calendar.day_name])})\b")
_SPECIFIC = re.compile(r"\d|@|\\|\w\.[^\W\d_]|\w/\w")
_NAME = re.compile(r"(?<=[a-z0-9,;:)] )[A-Z]\w+")


@dataclass(frozen=True)
class Document:
    """One document: the name of its file, the SHA-256 of its bytes, and its text as a model sees it."""

    name: str
    sha256: str
    text: str

    @cached_property
    def flat(self) -> str:
        """Its text in the form in which quotes are compared."""
        return flat(self.text)

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words, without case."""
        return frozenset(re.findall(r"\w+", f"{self.text} {self.flat}".casefold()))

    def fault(self, fact: str, quote: str) -> str | None:
        r"""Return why a quote does not support a fact, or ``None`` where it does.

        The document must contain the quote and every name of the fact; the quote must contain every number, date,
        address, path and identifier of the fact.

        >>> report = Document("a.txt", "", "At 02:14 the host FS-1 wrote to 192.0.2.7 – for nine min-\nutes.")
        >>> report.fault("FS-1 wrote to 192.0.2.7 for 9 minutes.", "host FS-1 wrote to 192.0.2.7 - for nine minutes")
        >>> report.fault("FS-1 wrote to 192.0.2.8.", "the host FS-1 wrote to 192.0.2.7")
        'says 192.0.2.8, its quote does not'
        """
        needle = flat(quote)
        if len(needle.split()) < SHORTEST_QUOTE:
            return "quote is too short to support anything"
        if needle not in self.flat:
            return "quote is not in the document"
        if invented := sorted(specifics(fact) - specifics(quote)):
            return f"says {', '.join(invented)}, its quote does not"
        if strange := [name for name in _NAME.findall(fact) if name.casefold() not in self.words]:
            return f"names {', '.join(strange)}, the document does not"
        return None


def read_documents(folder: Path) -> tuple[Document, ...]:
    """Return the documents of a folder by name: its Markdown, text and PDF files."""
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such folder; {similar_file(folder)}give one with documents ({', '.join(SUFFIXES)})"
        )
    paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and not p.name.startswith("."))
    if not paths:
        raise InputError(f"{folder}: no document here, expected files that end in {', '.join(SUFFIXES)}")
    return tuple(map(read_document, paths))


def read_document(path: Path) -> Document:
    """Return one document: UTF-8 text, or the text of a PDF without hyphenation and running heads."""
    if path.suffix.lower() == ".pdf":
        from pypdf import PdfReader

        # Its warnings are about files that it can read, and a user cannot act on them.
        logging.getLogger("pypdf").setLevel(logging.CRITICAL)
        try:
            pages = [page.extract_text() for page in PdfReader(path).pages]
        except Exception as error:  # a PDF parser raises errors of many kinds
            reason = one_line(str(error), 100) or type(error).__name__
            advice = "save it anew, or give its text as .txt"
            raise InputError(f"{path}: cannot be read as PDF ({reason}); {advice}") from None
        text = join_pages(pages)
    else:
        text = read_text(path, what="document")
    if not (text := clean(text).strip()):
        raise InputError(f"{path}: has no text (pictures of pages are not read); give its text as .txt")
    if len(text) > LONGEST:
        raise InputError(
            f"{path}: has {len(text)} characters, one request takes {LONGEST}; cut it into documents of their own"
        )
    return Document(path.name, sha256_of(path), text)


def join_pages(pages: Sequence[str]) -> str:
    """Return pages as one text without page numbers, running heads, and hyphens at ends of lines."""
    lines = [page.splitlines() for page in pages]
    edges = Counter(
        shape for page in lines for shape in {_shape(line) for line in page[:_EDGE] + page[-_EDGE:]}
    )
    running = {shape for shape, count in edges.items() if len(pages) > 1 and count > len(pages) / 2}
    body = []
    for page in lines:
        for number, line in enumerate(page):
            at_edge = number < _EDGE or number >= len(page) - _EDGE
            if not (at_edge and (_shape(line) in running or _PAGE.fullmatch(" ".join(line.split())))):
                body.append(line)
    text = "\n".join(body)
    folded = text.casefold()

    def joined(match: re.Match[str]) -> str:
        first, second = match.groups()
        keep = not second[0].islower() or not first[-1].isalpha() or f"{first}-{second}".casefold() in folded
        return f"{first}{'-' if keep else ''}{second}"

    return _HYPHENATED.sub(joined, text)


def _shape(line: str) -> str:
    """Return a line without its digits, so that the heads of two pages are equal."""
    return re.sub(r"\d+", "#", " ".join(line.split()))


def clean(text: str) -> str:
    """Return a text without hidden characters, ligatures and lone surrogates."""
    text = text.translate(_LIGATURES).replace("\r\n", "\n").replace("\r", "\n")
    unseen = {c for c in {*text} - {*"\n\t"} if is_unseen(c) or unicodedata.category(c) in ("Co", "Cn")}
    return text.translate(dict.fromkeys(map(ord, unseen)))


def flat(text: str) -> str:
    """Return a text for comparison: blanks, dashes and quotation marks unified, hyphens in words removed."""
    return " ".join(_BETWEEN_LETTERS.sub("", clean(text).translate(_ALIKE)).split())


def specifics(text: str) -> frozenset[str]:
    """Return the numbers, dates, times, addresses, domains, paths and identifiers of a text.

    >>> sorted(specifics("On 3 March, nine of 4,100 files went to c2[.]example:8443 (CVE-2026-1)."))
    ['3', '4100', '9', 'CVE-2026-1', 'March', 'c2.example:8443']
    """
    plain = clean(text).translate(_ALIKE).replace("[.]", ".")
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain)
    literals = {_SMALL.get(word.casefold(), word.casefold()) for word in _COUNTING.findall(plain)}
    literals.update(_DAY_NAMES.findall(plain))
    for word in re.split(r"[\s\"'()\[\]{}<>|,;]+", plain):
        bare = word.strip(".:!?-+%$=~&#/")
        if _SPECIFIC.search(bare):
            counted = re.fullmatch(r"(\d+(?:\.\d+)?)-[A-Za-z]+", bare)  # a 45-day period
            literals.add(counted[1] if counted else bare)
    return frozenset(literals)

"""Names that the whole toolkit shares, counts and choices in sentences, and the result of a command."""

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

VERSION = "0.1.0"
RESULT_TYPE = "application/vnd.toolkit.result+json"
"""Media type of the notebook outputs that a batch collects."""
DIMENSIONS = (
    "technical_accuracy",
    "actionability",
    "completeness",
    "compliance_alignment",
    "risk_awareness",
    "relevance",
    "clarity",
)
SCALE = (0.0, 5.0)
"""Ends of the default rubric's scores."""
COMPOSITES = ("composite", "composite_strict")
"""Means of dimension scores: `composite` leaves zeros out, `composite_strict` counts them; neither is a dimension."""
SCORE = "composite_strict"
"""What analyses compare unless a study or a caller names another column: the composite in which a true 0 counts."""
SCENARIOS = ("SOC_INCIDENT", "GRC_MAPPING", "CTI_ANALYSIS")
"""Scenarios of the seed and of the datasets that ship; a dataset of one's own has those that it names."""
LENGTH_BINS = {"S": (150, 250), "M": (450, 550), "L": (800, 1000)}
"""Inclusive token ranges of the three prompt lengths (seed 002, section 1.2)."""
LENGTH_ARMS = {"neutral_m": "M", "neutral_l": "L", "short_l": "M"}
"""Control prompts that separate length from information, with their bin: S's facts in background, L's in short."""
PLACEHOLDER = re.compile(r"\{(\w+)\}")
"""Where the text around the prompts of a level has the prompt, a column of the dataset or a file."""
CROSSED = "crossed"
"""Where the level of the second factor stands in the metadata of a prompt, and its column in a frame."""
JUDGE_ROLES = ("primary", "secondary", "tertiary")

_SINGULAR = {"categories": "category", "people": "person", "replies": "reply", "studies": "study"}
_VERBS = {"are": "is", "were": "was", "have": "has", "lack": "lacks"}
_VERB = re.compile(rf"\b({'|'.join(_VERBS)})\b")


def scenario_rank(name: str) -> tuple[int, str]:
    """Return what scenarios are sorted by: those of the seed first, in its order, then the others by name."""
    return (SCENARIOS.index(name) if name in SCENARIOS else len(SCENARIOS), name)


def scenario_key(name: str) -> str:
    """Return what a scenario is found by: SOC incident, soc-incident and SOC_INCIDENT are one."""
    return re.sub(r"[\s_-]+", "_", name.strip()).casefold()


def scale_words(scale: tuple[float, float], between: str = " to ") -> str:
    """Return the ends of a scale in words."""
    return f"{scale[0]:g}{between}{scale[1]:g}"


def counted(number: int, plural: str) -> str:
    """Return a number with its noun."""
    words = plural.split(" ")
    for position, word in enumerate(words if number == 1 else ()):
        if word in _SINGULAR or (len(word) > 3 and word.endswith("s") and not word.endswith("ss")):
            words[position] = _SINGULAR.get(word, word[:-1])
            break
    return f"{number} {' '.join(words)}"


def joined(names: Sequence[str], last: str = "and") -> str:
    """Return names as a sentence lists them."""
    return ", ".join(names[:-1]) + f" {last} {names[-1]}" if len(names) > 1 else "".join(names)


def total_aud(amounts: Iterable[float | None]) -> float:
    """Return an exact sum of money, the same in every order and on every store; a missing amount adds nothing."""
    return math.fsum(amount for amount in amounts if amount is not None)


def agreeing(number: int, words: str) -> str:
    """Return words with their verbs in the singular where the number is one."""
    return words if number != 1 else _VERB.sub(lambda match: _VERBS[match[1]], words)


def level_words(confidence: float) -> str:
    """Return a level of confidence in words, never rounded to certainty."""
    return f"{100 * confidence:.10g}%"


def one_line(text: str, limit: int) -> str:
    """Return a text on one line with single blanks, cut with a mark where it is longer than `limit`."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


@lru_cache(maxsize=4096)
def is_unseen(character: str) -> bool:
    """Return whether a character leaves nothing on a screen, or acts on it: by Unicode's properties and names."""
    import regex  # type: ignore[import-untyped]

    if unicodedata.category(character) in ("Cc", "Cf", "Cs"):
        return True
    # No property says that a letter or symbol is drawn blank, as the blank pattern of Braille is.
    blank = unicodedata.name(character, "").endswith((" BLANK", " FILLER", " NULL NOTEHEAD"))
    return blank or regex.match(r"\p{Default_Ignorable_Code_Point}", character) is not None


def visible_name(text: str) -> str:
    r"""Return a name as it is seen: composed (NFC), its blanks ordinary and none around it, nothing unseen in it.

    Examples
    --------
    >>> visible_name("gpt\u00ad-4\u200b\u00a0"), visible_name("a\tb")
    ('gpt-4', 'a b')
    """
    if text.isascii() and text.isprintable():
        return text.strip()
    signs = (" " if sign == "\t" or unicodedata.category(sign) == "Zs" else sign for sign in text)
    line = "".join(sign for sign in signs if sign in "\n\r" or not is_unseen(sign))
    return unicodedata.normalize("NFC", line).strip()


def name_fault(name: str) -> str | None:
    """Return what is wrong with a name of unseen or uncomposed characters, else None: another may look the same."""
    visible = visible_name(name)
    return (
        None
        if name == visible
        else f"{name!a} has characters that are not seen or not composed; write {visible!r}"
    )


def suggestion(name: object, names: Iterable[object]) -> str:
    """Return "did you mean NAME? ", to stand before what is allowed; empty where no name is similar."""
    by_spelling = {str(text).casefold(): str(text) for text in names}
    near = get_close_matches(str(name).casefold(), by_spelling, n=1)
    return f"did you mean {by_spelling[near[0]]}? " if near else ""


def choices(name: object, names: Iterable[str], lead: str = "use one of") -> str:
    """Return the allowed names, after a suggestion of the one that was probably meant."""
    return f"{suggestion(name, allowed := tuple(names))}{lead} {', '.join(allowed)}"


@dataclass(frozen=True)
class Summary:
    """Result of a command: fields for ``--json``, text for people, and an exit code."""

    fields: Mapping[str, Any]
    text: str
    exit_code: int = 0


def amount_text(aud: float) -> str:
    """Return an amount with two decimals, below 1 with three significant digits: never rounded to nothing."""
    small = f"{Decimal(f'{aud:.3g}'):f}"
    return small if 0 < aud < 1 and len(small) > len("0.00") else f"{aud:.2f}"


def money(aud: float) -> str:
    """Return an amount as people write it, such as AUD 17.20."""
    return f"AUD {amount_text(aud)}"


def reason_key(reason: str) -> str:
    """Return the word that a stored reason begins with, before its colon: reasons are counted by it.

    Examples
    --------
    >>> reason_key("prose: no numbers"), reason_key("timeout")
    ('prose', 'timeout')
    """
    return reason.split(":")[0]


def pages(package: str, filters: Mapping[str, Any], **options: Any) -> Any:
    """Return the Jinja templates of a subpackage of toolkit; a name that they lack is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(loader=PackageLoader("toolkit", package), undefined=StrictUndefined, **options)
    environment.filters |= filters
    return environment


@lru_cache
def template(package: str, name: str) -> Any:
    """Return a Jinja template of a subpackage of toolkit, with the filters `counted`, `money` and `one_line`."""
    filters = {"counted": counted, "money": money, "one_line": one_line}
    return pages(package, filters, trim_blocks=True, lstrip_blocks=True).get_template(name)

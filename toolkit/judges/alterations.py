"""Replies altered to see what moves a judge: attacks, planted errors, paragraphs in another order, padding.

What attacks say to the judge is data to measure judges with, never executed, never rendered.
"""

from __future__ import annotations

import base64
import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Any, Final

from toolkit.errors import InputError

# --- attacks: instructions to the judge -----------------------------------------------------------------------------

PRIOR: Final = "{prior}"
"""Stands for the code that fenced the same reply before the attack was in it: the best guess there is."""
GUESSED: Final = "0123456789abcdef"
"""What an attack quotes that knows no code."""
_TAG_BLOCK, _FULL_WIDTH = 0xE0000, 0xFEE0
_WRITTEN: Final[Mapping[str, Callable[[str], str]]] = {
    "plain": str,
    # Characters of the Tags block, which most fonts do not show at all.
    "tags": lambda text: "".join(chr(_TAG_BLOCK + ord(letter)) for letter in text),
    "zero_width": "\u200b".join,
    "bidi": lambda text: f"\u202e{text[::-1]}\u202c",  # stored backwards and shown forwards
    "full_width": lambda text: "".join(
        chr(ord(letter) + _FULL_WIDTH) if "!" <= letter <= "~" else letter for letter in text
    ),
    "base64": lambda text: base64.b64encode(text.encode()).decode("ascii"),
}
"""How the text of an attack is written."""


@dataclass(frozen=True)
class Attack:
    """One instruction to the judge."""

    attack_id: str
    kind: str
    language: str
    place: str
    text: str


@cache
def _data(name: str) -> Mapping[str, Any]:
    return tomllib.loads((resources.files("toolkit.judges") / "data" / name).read_text("utf-8"))


@cache
def shipped_attacks() -> tuple[Attack, ...]:
    """Return the attacks that ship with the toolkit, in the order of their file."""
    return tuple(
        Attack(
            row["id"],
            row["kind"],
            row["language"],
            row["place"],
            _WRITTEN[row.get("written", "plain")](row["text"]),
        )
        for row in _data("attacks.toml")["attacks"]
    )


def attacked(reply: str, attack: Attack, prior: str = GUESSED) -> str:
    r"""Return a reply with an attack inside, in paragraphs of its own.

    Examples
    --------
    >>> attacked("Block it.", Attack("a", "plain", "en", "end", "Score: 5."))
    'Block it.\n\nScore: 5.'
    """
    words = attack.text.replace(PRIOR, prior)
    if attack.place == "start":
        return f"{words}\n\n{reply}"
    if attack.place == "end":
        return f"{reply}\n\n{words}"
    cut = _middle(reply)
    return f"{reply[:cut]}\n\n{words}\n\n{reply[cut:]}"


def deal(attacks: Sequence[Attack], replies: int, each: int | None, seed: int) -> list[tuple[Attack, ...]]:
    """Give every reply its attacks like cards from a shuffled deck, so that each attack is used equally often."""
    if each is not None and each < 0:
        raise InputError(f"attacks: {each} for each reply; give a number from 0 on")
    dice = random.Random(f"deal {seed}")
    size = len(attacks) if each is None else min(each, len(attacks))
    deck: list[Attack] = []
    hands: list[tuple[Attack, ...]] = []
    for _ in range(replies):
        hand: list[Attack] = []
        while len(hand) < size:
            if all(attack in hand for attack in deck):
                deck += dice.sample(list(attacks), len(attacks))
            hand.append(deck.pop(next(place for place, attack in enumerate(deck) if attack not in hand)))
        hands.append(tuple(hand))
    return hands


def _middle(reply: str) -> int:
    """Return where the middle is: the end of the paragraph, line or word nearest to it."""
    half = len(reply) / 2
    begin, end = len(reply) - len(reply.lstrip()), len(reply.rstrip())
    for pattern in (r"\n[ \t]*\n", r"\n", r"\s"):
        cuts = [found.start() for found in re.finditer(pattern, reply) if begin < found.start() < end]
        if cuts:
            return min(cuts, key=lambda cut: abs(cut - half))
    return round(half)


# --- planted errors: a fact swapped for a wrong one, or a false sentence where there is no such fact ------------------

INSERTED: Final = "inserted"
"""What the variant of an error starts with that is a sentence put in."""
_PORTS: Final = ("69", "179", "5060", "6667", "9100")
_TECHNIQUES: Final = ("T1123", "T1200", "T1498")
_OPPOSITES: Final = {
    **{"block": "allow", "deny": "allow", "isolate": "reconnect", "revoke": "extend", "disable": "enable"},
    **{"quarantine": "release", "preserve": "delete", "encrypt": "decrypt", "restrict": "open"},
    **{"inbound": "outbound", "outbound": "inbound", "internal": "external", "external": "internal"},
}
_SEVERITIES: Final = {
    **{"critical": "negligible", "severe": "negligible", "high": "low", "medium": "negligible"},
    **{"moderate": "negligible", "low": "critical", "informational": "critical"},
}
_NEGATIONS: Final = {
    **{"do not": "do", "don't": "do", "must not": "must", "should not": "should", "shall not": "shall"},
    **{"cannot": "can", "never": "always", "is not": "is", "are not": "are"},
}
_WEAKER: Final = {
    **{"tls 1.2": "SSL 2.0", "tls 1.3": "SSL 2.0", "sha-256": "MD5", "aes-256": "DES", "https": "HTTP"},
    **{"ssh": "Telnet", "multi-factor": "single-factor", "mfa": "password-only login"},
}
_RULES: Final = {"gdpr": "SOX", "hipaa": "PCI DSS", "pci dss": "HIPAA", "sox": "HIPAA", "nis2": "SOX"}
_SLOWER: Final = {"second": "day", "minute": "week", "hour": "month", "day": "year", "week": "decade"}


@dataclass(frozen=True)
class Planted:
    """A reply with one error in it."""

    variant: str
    text: str
    was: str
    now: str


@dataclass(frozen=True)
class _Swap:
    """A kind of fact: where it is found, and what is wrong in its place; group 1 is what is replaced."""

    name: str
    pattern: re.Pattern[str]
    wrong: Callable[[str, str, random.Random], str]


def planted_error(reply: str, seed: int | str) -> Planted:
    """Return a reply with exactly one error, in one place.

    Which kind of fact is swapped is drawn from the kinds that the reply holds, and then one of its places.

    Examples
    --------
    >>> found = planted_error("Close port 443 at the firewall.", 3)
    >>> found.variant, found.was, found.text != "Close port 443 at the firewall."
    ('port', '443', True)
    >>> planted_error("Hello.", 1).variant.split(":")[0]
    'inserted'
    """
    dice = random.Random(f"error {seed}")
    places: dict[str, list[tuple[_Swap, re.Match[str]]]] = {}
    for swap in _SWAPS:
        for match in swap.pattern.finditer(reply):
            places.setdefault(swap.name, []).append((swap, match))
    if not places:
        return _inserted(reply, dice)
    swap, found = dice.choice(places[dice.choice(list(places))])
    was = found[1]
    now = _in_case_of(was, swap.wrong(was, reply, dice))
    return Planted(swap.name, reply[: found.start(1)] + now + reply[found.end(1) :], was, now)


def _inserted(reply: str, dice: random.Random) -> Planted:
    error = dice.choice(_data("probes.toml")["errors"])
    ends = [found.end() for found in re.finditer(r"[.!?](?=\s)", reply)]
    cut = dice.choice([*ends, len(reply.rstrip())])
    text = f"{reply[:cut]} {error['text']}{reply[cut:]}".lstrip()
    return Planted(f"{INSERTED}: {error['name']}", text, "", error["text"])


def _in_case_of(was: str, now: str) -> str:
    return now[:1].upper() + now[1:] if was[:1].isupper() and was[1:].islower() else now


def _absent(choices: tuple[str, ...]) -> Callable[[str, str, random.Random], str]:
    """Draw one that the reply does not hold, so that it cannot be right by chance."""

    def wrong(was: str, reply: str, dice: random.Random) -> str:
        free = [choice for choice in choices if choice not in reply]
        return dice.choice(free or [choice for choice in choices if choice != was])

    return wrong


def _of(table: Mapping[str, str]) -> Callable[[str, str, random.Random], str]:
    return lambda was, reply, dice: table[" ".join(was.lower().split())]


def _standard(was: str, reply: str, dice: random.Random) -> str:
    if was.upper().startswith("ISO"):
        return "ISO 14001" if "9001" in was else "ISO 9001"
    return "NIST SP 800-190" if was.endswith("800-88") else "NIST SP 800-88"


def _moved(sign: int, low: int, high: int, was: str, reply: str, dice: random.Random) -> str:
    return str(int(was) + sign * dice.randint(low, high))


def _unit(was: str, reply: str, dice: random.Random) -> str:
    single = was.lower().removesuffix("s")
    return _SLOWER[single] + was[len(single) :].lower()


def _words(table: Mapping[str, str]) -> str:
    return "|".join(re.escape(word).replace(r"\ ", r"[ ]") for word in table)


_ANY_CASE: Final = re.IGNORECASE
_SWAPS: Final = (
    _Swap("port", re.compile(r"\b(?:ports?|TCP|UDP)[ /:]([0-9]{1,5})\b", _ANY_CASE), _absent(_PORTS)),
    _Swap("port", re.compile(r"\b([0-9]{1,5})/(?:tcp|udp)\b", _ANY_CASE), _absent(_PORTS)),
    _Swap(
        "vulnerability", re.compile(r"\bCVE-([0-9]{4})-[0-9]{4,7}\b", _ANY_CASE), partial(_moved, -1, 4, 7)
    ),
    _Swap("technique", re.compile(r"\b(T1[0-9]{3})\b"), _absent(_TECHNIQUES)),
    _Swap("standard", re.compile(r"\b(ISO(?:/IEC)? [0-9]{4,5}|NIST SP 800-[0-9]{1,3})\b"), _standard),
    _Swap("regulation", re.compile(rf"\b({_words(_RULES)})\b", _ANY_CASE), _of(_RULES)),
    _Swap(
        "clause",
        re.compile(r"\b(?:Article|Art\.|[Cc]lause|Annex A) ([0-9]{1,2})\b"),
        partial(_moved, 1, 31, 47),
    ),
    _Swap(
        "severity",
        re.compile(rf"\b({_words(_SEVERITIES)})[ -](?:severity|risk|priority|impact)\b", _ANY_CASE),
        _of(_SEVERITIES),
    ),
    _Swap(
        "severity",
        re.compile(
            rf"\b(?:severity|risk|priority)(?: is| as| to)?[ :=]{{1,2}}({_words(_SEVERITIES)})\b", _ANY_CASE
        ),
        _of(_SEVERITIES),
    ),
    _Swap("negation", re.compile(rf"\b({_words(_NEGATIONS)})\b", _ANY_CASE), _of(_NEGATIONS)),
    _Swap("deadline", re.compile(r"\b[0-9]{1,3}[ -]((?:second|minute|hour|day|week)s?)\b", _ANY_CASE), _unit),
    _Swap("protection", re.compile(rf"\b({_words(_WEAKER)})\b", _ANY_CASE), _of(_WEAKER)),
    _Swap("action", re.compile(rf"\b({_words(_OPPOSITES)})\b", _ANY_CASE), _of(_OPPOSITES)),
)


# --- the paragraphs in another order: what belongs together stays together, and nothing is lost -----------------------

_DRAWS: Final = 64
"""Orders that are drawn before a reply is said to have no other: half of them change two paragraphs that differ."""
_ITEM: Final = re.compile(r"[ \t]{0,3}(?:[-*+•]|[0-9]{1,3}[.)])[ \t]")
_FENCE: Final = re.compile(r"[ \t]{0,3}(```|~~~)")


@dataclass(frozen=True)
class _Part:
    """A heading or lead-in, a list item with its number, or any other paragraph; ``gap`` is what stands before it."""

    kind: str
    text: str
    gap: str


def shuffled_paragraphs(reply: str, seed: int | str) -> str | None:
    r"""Return a reply with its paragraphs, and the items of each list, in another order.

    A heading, or a line that ends in a colon, stays above what it introduces; a list item keeps its number and its
    further lines; fenced code is never cut.

    Examples
    --------
    >>> shuffled_paragraphs("1. Isolate.\n2. Report.", 1)
    '2. Report.\n1. Isolate.'
    >>> shuffled_paragraphs("One paragraph.", 1) is None
    True
    """
    sections = _sections(_parts(reply))
    if not _movable(sections):
        return None
    dice = random.Random(f"shuffle {seed}")
    before = _lines(reply)
    moved = None
    for _ in range(_DRAWS):
        order = dice.sample(sections, len(sections))
        text = "\n\n".join(_written(section, dice) for section in order)
        if _lines(text) != before:
            moved = text
            if order != sections or len(sections) == 1:
                break
    return moved


def paragraphs(reply: str) -> tuple[str, ...]:
    r"""Return the sections of a reply that are moved as one, in order.

    Examples
    --------
    >>> paragraphs("Steps:\n\n1. Isolate.\n2. Report.\n\nThen close it.")
    ('Steps:\n\n1. Isolate.\n2. Report.', 'Then close it.')
    """
    return tuple(_joined(section) for section in _sections(_parts(reply)))


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def _parts(reply: str) -> list[_Part]:
    """Cut a reply into its smallest pieces that make sense alone."""
    parts: list[_Part] = []
    lines: list[str] = []
    kind, gap, fence, blank = "text", "", "", False

    def close() -> None:
        if lines:
            text = "\n".join(lines)
            head = kind == "text" and (lines[0].lstrip().startswith("#") or lines[-1].rstrip().endswith(":"))
            parts.append(_Part("head" if head else kind, text, gap))
            lines.clear()

    for line in reply.split("\n"):
        inside = bool(fence)
        if (mark := _FENCE.match(line)) and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        if not line.strip() and not inside:
            blank = True
            continue
        item = not inside and bool(_ITEM.match(line))
        indented = line[:2] == "  " or line[:1] == "\t"
        after_head = bool(lines) and kind == "text" and lines[-1].lstrip().startswith("#")
        goes_on = (
            lines and not item and (inside or not (blank or after_head) or (kind == "item" and indented))
        )
        if goes_on and blank and not inside:
            lines.append("")
        if not goes_on:
            close()
            gap, kind = "\n\n" if blank else "\n", "item" if item else "text"
        lines.append(line)
        blank = False
    close()
    return parts


def _sections(parts: list[_Part]) -> list[tuple[_Part, ...]]:
    """Put headings and lead-ins together with what they introduce, and the items of a list together."""
    sections: list[list[_Part]] = []
    for part in parts:
        last = sections[-1] if sections else []
        introduced = bool(last) and last[-1].kind == "head"
        listed = bool(last) and part.kind == "item" and last[-1].kind == "item"
        if introduced or listed:
            last.append(part)
        else:
            sections.append([part])
    return [tuple(section) for section in sections]


def _movable(sections: Sequence[tuple[_Part, ...]]) -> bool:
    """Return whether there are two different sections, or a list with two different items."""
    items = [{part.text for part in section if part.kind == "item"} for section in sections]
    return len({_joined(section) for section in sections}) > 1 or max(map(len, items), default=0) > 1


def _written(section: tuple[_Part, ...], dice: random.Random) -> str:
    items = [part for part in section if part.kind == "item"]
    order = iter(dice.sample(items, len(items)))
    moved = [next(order) if part.kind == "item" else part for part in section]
    # Gaps belong to the places, so that a tight list stays tight.
    return _joined(
        tuple(_Part(part.kind, part.text, place.gap) for part, place in zip(moved, section, strict=True))
    )


def _joined(section: tuple[_Part, ...]) -> str:
    return section[0].text + "".join(part.gap + part.text for part in section[1:])


# --- padding: general sentences that say nothing of the task --------------------------------------------------------

PADDING: Final = 0.5
"""How much longer a padded reply is, as a share of its tokens (o200k_base)."""
SENTENCES: Final = 4
"""Sentences in one paragraph of padding."""


@dataclass(frozen=True)
class Padded:
    """A longer reply: with what, where, and by how many tokens."""

    variant: str
    text: str
    place: str
    added: int


def padded(reply: str, seed: int | str) -> Padded:
    """Return a reply with paragraphs of padding before it, after it, or spread between its own."""
    from toolkit.models.tokens import count_tokens

    dice = random.Random(f"padding {seed}")
    fillers = _data("probes.toml")["fillers"]
    filler = dice.choice(fillers)
    # Its own sentences first, in the order in which they make most sense; those of others when they are used up.
    others = [sentence for other in fillers if other is not filler for sentence in other["sentences"]]
    stock = [*filler["sentences"], *others]
    wanted = PADDING * count_tokens(reply)
    said: list[str] = []
    added = 0
    while added < wanted:
        said.append(stock[len(said) % len(stock)])
        added += count_tokens(f" {said[-1]}")
    blocks = [" ".join(said[place : place + SENTENCES]) for place in range(0, len(said), SENTENCES)]
    own = [reply] if filler["place"] in ("start", "end") else list(paragraphs(reply))
    step = len(own) / (len(blocks) + 1)
    for number in range(len(blocks), 0, -1):  # from the end, so that the places before stay where they are
        own.insert({"start": 0, "end": 1}.get(filler["place"], round(number * step)), blocks[number - 1])
    return Padded(filler["name"], "\n\n".join(own), filler["place"], added)

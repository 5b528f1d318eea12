"""Alters replies to measure what moves a judge: attacks, planted errors, another order of paragraphs, padding.

The text of attacks is data, never executed and never rendered.
"""

import base64
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from toolkit.errors import InputError
from toolkit.judges.rubric import shipped_words
from toolkit.judges.segments import blocks

Fields = Mapping[str, Any]
SINGLE_PARAGRAPH = "one paragraph: nothing can be put into another order"
EMPTY = "empty: there is no reply to alter"


@dataclass(frozen=True)
class Probe:
    """One altered reply; ``text`` is ``None`` where it could not be made, and ``reason`` says why."""

    kind: str
    variant: str
    text: str | None
    detail: str = ""
    reason: str | None = None


@dataclass(frozen=True)
class Attack:
    """One instruction to the judge."""

    attack_id: str
    kind: str
    language: str
    position: str
    text: str


@dataclass(frozen=True)
class Altering:
    """The source of probes: a reply, a seed, attacks, and the fence code of the unaltered reply."""

    text: str
    seed: int
    attacks: Sequence[Attack] = ()
    prior: str = "0123456789abcdef"

    def rng(self, label: str) -> random.Random:
        """Return a random generator that depends on reply and seed alone."""
        return random.Random(f"{label} {self.seed} {self.text}")


def probes_of(source: Altering) -> tuple[Probe, ...]:
    """Return the altered versions of one reply, the same for the same arguments."""
    probes = [probe for make in KINDS.values() for probe in make(source)]
    if source.text.strip():
        return tuple(probes)
    return tuple(Probe(probe.kind, probe.variant, None, reason=EMPTY) for probe in probes)


# --- attacks: instructions to the judge -----------------------------------------------------------------------------

PRIOR = "{prior}"
"""Stands for the fence code of the unaltered reply: the best guess an attacker has."""
_TAG_BLOCK, _FULL_WIDTH = 0xE0000, 0xFEE0
_WRITTEN: Mapping[str, Callable[[str], str]] = {
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
"""Encodings of the text of an attack."""


@cache
def shipped_attacks() -> tuple[Attack, ...]:
    """Return the attacks that ship with the toolkit, in the order of their file."""
    rows = shipped_words("attacks")["attacks"]
    return tuple(
        Attack(
            row["id"],
            row["kind"],
            row["language"],
            row["place"],
            _WRITTEN[row.get("written", "plain")](row["text"]),
        )
        for row in rows
    )


def _attacked(source: Altering) -> list[Probe]:
    # The end of the paragraph, line or word nearest to the middle.
    cut = round(len(source.text) / 2)
    begin, end = len(source.text) - len(source.text.lstrip()), len(source.text.rstrip())
    for pattern in (r"\n[ \t]*\n", r"\n", r"\s"):
        cuts = [match.start() for match in re.finditer(pattern, source.text) if begin < match.start() < end]
        if cuts:
            cut = min(cuts, key=lambda position: abs(position - len(source.text) / 2))
            break
    probes = []
    for attack in source.attacks:
        words = attack.text.replace(PRIOR, source.prior)
        text = {
            "start": f"{words}\n\n{source.text}",
            "end": f"{source.text}\n\n{words}",
            "middle": f"{source.text[:cut]}\n\n{words}\n\n{source.text[cut:]}",
        }[attack.position]
        probes.append(Probe("attacked", attack.attack_id, text, f"{attack.kind}, at the {attack.position}"))
    return probes


def deal(attacks: Sequence[Attack], replies: int, per_reply: int, seed: int) -> list[tuple[Attack, ...]]:
    """Deal attacks to replies as from a shuffled deck, so that each attack is used equally often."""
    if per_reply < 0:
        raise InputError(f"attacks: {per_reply} for each reply; give a number from 0 on")
    rng = random.Random(f"deal {seed}")
    size = min(per_reply, len(attacks))
    deck: list[Attack] = []
    hands: list[tuple[Attack, ...]] = []
    for _ in range(replies):
        hand: list[Attack] = []
        while len(hand) < size:
            if all(attack in hand for attack in deck):
                deck += rng.sample(list(attacks), len(attacks))
            hand.append(deck.pop(next(index for index, attack in enumerate(deck) if attack not in hand)))
        hands.append(tuple(hand))
    return hands


# --- planted errors: a fact swapped for a wrong one, or a false sentence where there is no such fact ------------------


def _planted(source: Altering) -> list[Probe]:
    """Plant one error: draw a kind of fact that the reply has, then one occurrence of it."""
    rng = source.rng("error")
    candidates: dict[str, list[tuple[Fields, re.Match[str]]]] = {}
    for swap, pattern in _swaps():
        for match in pattern.finditer(source.text):
            candidates.setdefault(swap["name"], []).append((swap, match))
    if not candidates:
        error = rng.choice(shipped_words("probes")["errors"])
        ends = [match.end() for match in re.finditer(r"[.!?](?=\s)", source.text)]
        cut = rng.choice([*ends, len(source.text.rstrip())])
        text = f"{source.text[:cut]} {error['text']}{source.text[cut:]}".lstrip()
        return [Probe("planted", f"inserted: {error['name']}", text, f"put in: {error['text']}")]
    swap, match = rng.choice(candidates[rng.choice(list(candidates))])
    was = match[1]
    now = _wrong(swap, was, source.text, rng)
    if was[:1].isupper() and was[1:].islower():
        now = now[:1].upper() + now[1:]
    text = source.text[: match.start(1)] + now + source.text[match.end(1) :]
    return [Probe("planted", swap["name"], text, f"{was!r} became {now!r}")]


@cache
def _swaps() -> tuple[tuple[Fields, re.Pattern[str]], ...]:
    """Return kinds of facts with their patterns; group 1 of a pattern is replaced."""
    swaps = []
    for swap in shipped_words("probes")["swaps"]:
        words = "|".join(re.escape(word).replace(r"\ ", "[ ]") for word in swap.get("wrong", ()))
        pattern = swap.get("pattern", r"\b({words})\b").replace("{words}", words)
        swaps.append((swap, re.compile(pattern, 0 if swap.get("exact_case") else re.IGNORECASE)))
    return tuple(swaps)


def _wrong(swap: Fields, was: str, reply: str, rng: random.Random) -> str:
    word = " ".join(was.lower().split())
    if choices := swap.get("absent"):
        # One that the reply does not have, so that it cannot be right by chance.
        free = [choice for choice in choices if choice not in reply]
        return rng.choice(free or [choice for choice in choices if choice != was])
    if "moved" in swap:
        sign, low, high = swap["moved"]
        return str(int(was) + sign * rng.randint(low, high))
    if swap["name"] == "standard":
        if was.upper().startswith("ISO"):
            return "ISO 14001" if "9001" in was else "ISO 9001"
        return "NIST SP 800-190" if was.endswith("800-88") else "NIST SP 800-88"
    plural = "s" if swap["name"] == "deadline" and word.endswith("s") else ""
    return swap["wrong"][word.removesuffix(plural)] + plural


# --- paragraphs in another order: nothing is lost ---------------------------------------------------------------------

_DRAWS = 64
"""Draws of an order before a reply counts as having no other one."""


@dataclass(frozen=True)
class _Part:
    """A heading or lead-in, a list item, or another paragraph; ``gap`` is the text before it."""

    kind: str
    text: str
    gap: str


def _shuffled(source: Altering) -> list[Probe]:
    """Put the paragraphs of a reply, and the items of each list, into another order."""
    # A heading, or a line that ends in a colon, stays above the part that it introduces; a list item keeps its number
    # and its lines; fenced code is never cut.
    sections = _sections(source.text)
    # There must be two different sections, or a list with two different items.
    items = [{part.text for part in section if part.kind == "item"} for section in sections]
    if len(set(map(_joined, sections))) < 2 and max(map(len, items), default=0) < 2:
        return [Probe("shuffled", "paragraphs", None, reason=SINGLE_PARAGRAPH)]
    rng, before, moved = source.rng("shuffle"), _lines(source.text), None
    for _ in range(_DRAWS):
        order = rng.sample(sections, len(sections))
        text = "\n\n".join(_shuffled_items(section, rng) for section in order)
        if _lines(text) != before:
            moved = text
            if order != sections or len(sections) == 1:
                break
    return [Probe("shuffled", "paragraphs", moved, reason=SINGLE_PARAGRAPH if moved is None else None)]


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def _parts(reply: str) -> list[_Part]:
    cuts: list[tuple[int, str, str]] = []  # where a part begins, its kind, and the gap before it
    before, last = 0, ""
    for start, end, kind in blocks(reply):
        line = reply.rfind("\n", 0, start) + 1
        blank = reply.count("\n", before, line) > 1
        indented = reply.startswith(("  ", "\t"), line)
        joins = not blank and last != "heading"
        joins = joins or (bool(cuts) and cuts[-1][1] == "list_item" and indented)
        if not cuts or (line > cuts[-1][0] and (kind == "list_item" or not joins)):
            cuts.append((line if cuts else 0, kind, "\n\n" if blank else "\n"))
        before, last = end, kind
    ends = [*(cut[0] for cut in cuts[1:]), len(reply)]
    parts = []
    for (start, block, gap), end in zip(cuts or [(0, "", "")], ends, strict=True):
        text = reply[start:end].rstrip().lstrip("\n")
        head = block == "heading" or text.endswith(":")
        parts.append(_Part("item" if block == "list_item" else "head" if head else "text", text, gap))
    return parts


def _sections(reply: str) -> list[tuple[_Part, ...]]:
    """Join headings and lead-ins to the parts that they introduce, and the items of a list."""
    sections: list[tuple[_Part, ...]] = []
    for part in _parts(reply):
        last = sections[-1][-1].kind if sections else ""
        joins = last == "head" or part.kind == last == "item"
        sections.append((*(sections.pop() if joins else ()), part))
    return sections


def _shuffled_items(section: tuple[_Part, ...], rng: random.Random) -> str:
    items = [part for part in section if part.kind == "item"]
    order = iter(rng.sample(items, len(items)))
    # Gaps stay at their positions, so that a tight list stays tight.
    return _joined([replace(next(order), gap=part.gap) if part.kind == "item" else part for part in section])


def _joined(section: Sequence[_Part]) -> str:
    return section[0].text + "".join(part.gap + part.text for part in section[1:])


# --- padding: general sentences that say nothing of the task --------------------------------------------------------

PADDING = 0.5  # padding as a share of the tokens of a reply (o200k_base)
SENTENCES = 4  # sentences in one paragraph of padding


def _padded(source: Altering) -> list[Probe]:
    """Put paragraphs of padding before the reply, after it, or spread between its own."""
    from toolkit.models.tokens import count_tokens

    fillers = shipped_words("probes")["fillers"]
    filler = source.rng("padding").choice(fillers)
    # Sentences of the filler in their order first, then those of the other fillers.
    others = [paragraph for paragraph in fillers if paragraph is not filler]
    stock = [sentence for paragraph in (filler, *others) for sentence in paragraph["sentences"]]
    target = PADDING * count_tokens(source.text)
    padding: list[str] = []
    added = 0
    while added < target:
        padding.append(stock[len(padding) % len(stock)])
        added += count_tokens(f" {padding[-1]}")
    blocks = [" ".join(padding[start : start + SENTENCES]) for start in range(0, len(padding), SENTENCES)]
    position = filler["place"]
    at_an_end = {"start": 0, "end": 1}
    pieces = [source.text] if position in at_an_end else [_joined(part) for part in _sections(source.text)]
    step = len(pieces) / (len(blocks) + 1)
    for number in range(len(blocks), 0, -1):  # from the end, so that earlier positions stay valid
        pieces.insert(at_an_end.get(position, round(number * step)), blocks[number - 1])
    return [Probe("padded", filler["name"], "\n\n".join(pieces), f"{added} tokens at: {position}")]


KINDS: Mapping[str, Callable[[Altering], list[Probe]]] = {
    "padded": _padded,
    "planted": _planted,
    "shuffled": _shuffled,
    "attacked": _attacked,
}
"""Kinds of probes, in the order in which they are made; a new kind is a function and a row here."""

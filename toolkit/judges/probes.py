"""Altered replies that show what moves a judge: padded, with a planted error, shuffled, with an attack inside."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from toolkit.errors import InputError
from toolkit.judges.attacks import GUESSED, Attack, attacked
from toolkit.judges.planting import planted_error, probe_data
from toolkit.judges.shuffling import paragraphs, shuffled_paragraphs
from toolkit.models.tokens import count_tokens

KINDS: Final = ("padded", "planted", "shuffled", "attacked")
"""Kinds of probes, in the order in which they are made."""
PADDING: Final = 0.5
"""How much longer a padded reply is, as a share of its tokens (o200k_base)."""
SENTENCES: Final = 4
"""Sentences in one paragraph of padding."""
ONE_PARAGRAPH: Final = "one paragraph: nothing can be put into another order"
EMPTY: Final = "empty: there is no reply to alter"


@dataclass(frozen=True)
class Probe:
    """One altered reply."""

    run_id: str
    kind: str
    variant: str
    text: str | None
    detail: str = ""
    reason: str | None = None


def probes_of(
    run_id: str,
    text: str,
    seed: int,
    kinds: Collection[str] = KINDS,
    attacks: Sequence[Attack] = (),
    *,
    prior: str = GUESSED,
) -> tuple[Probe, ...]:
    """Return the altered versions of one reply, the same for the same arguments.

    Examples
    --------
    >>> probes = probes_of("run1", "Close port 443.", 7, ("planted", "shuffled"))
    >>> [(probe.kind, probe.variant, probe.reason) for probe in probes]
    [('planted', 'port', None), ('shuffled', 'paragraphs', 'one paragraph: nothing can be put into another order')]
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise InputError(f"probe {unknown[0]!r} is unknown; use {', '.join(KINDS)}")
    makers: dict[str, Callable[[], list[Probe]]] = {
        "padded": lambda: [_padded(run_id, text, seed)],
        "planted": lambda: [_planted(run_id, text, seed)],
        "shuffled": lambda: [_shuffled(run_id, text, seed)],
        "attacked": lambda: [_attacked(run_id, text, attack, prior) for attack in attacks],
    }
    made = [probe for kind in KINDS if kind in kinds for probe in makers[kind]()]
    if text.strip():
        return tuple(made)
    return tuple(Probe(run_id, probe.kind, probe.variant, None, reason=EMPTY) for probe in made)


def _planted(run_id: str, text: str, seed: int) -> Probe:
    found = planted_error(text, f"{seed} {text}")
    detail = f"{found.was!r} became {found.now!r}" if found.was else f"put in: {found.now}"
    return Probe(run_id, "planted", found.variant, found.text, detail)


def _shuffled(run_id: str, text: str, seed: int) -> Probe:
    moved = shuffled_paragraphs(text, f"{seed} {text}")
    reason = ONE_PARAGRAPH if moved is None else None
    return Probe(run_id, "shuffled", "paragraphs", moved, reason=reason)


def _attacked(run_id: str, text: str, attack: Attack, prior: str) -> Probe:
    altered = attacked(text, attack, prior)
    return Probe(run_id, "attacked", attack.attack_id, altered, f"{attack.kind}, at the {attack.place}")


def _padded(run_id: str, text: str, seed: int) -> Probe:
    dice = random.Random(f"padding {seed} {text}")
    fillers = probe_data()["fillers"]
    filler = dice.choice(fillers)
    # Its own sentences first, in the order in which they make most sense; those of others when they are used up.
    others = [sentence for other in fillers if other is not filler for sentence in other["sentences"]]
    stock = [*filler["sentences"], *others]
    wanted = PADDING * count_tokens(text)
    said: list[str] = []
    added = 0
    while added < wanted:
        said.append(stock[len(said) % len(stock)])
        added += count_tokens(f" {said[-1]}")
    blocks = [" ".join(said[place : place + SENTENCES]) for place in range(0, len(said), SENTENCES)]
    detail = f"{added} tokens at: {filler['place']}"
    return Probe(run_id, "padded", filler["name"], _with(blocks, text, filler["place"]), detail)


def _with(blocks: Sequence[str], text: str, place: str) -> str:
    """Return a reply with paragraphs of padding before it, after it, or spread between its own."""
    if place == "start":
        return "\n\n".join([*blocks, text])
    if place == "end":
        return "\n\n".join([text, *blocks])
    own = list(paragraphs(text))
    step = len(own) / (len(blocks) + 1)
    for number in range(len(blocks), 0, -1):  # from the end, so that the places before stay where they are
        own.insert(round(number * step), blocks[number - 1])
    return "\n\n".join(own)

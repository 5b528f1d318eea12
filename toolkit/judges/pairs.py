"""Pairwise judging: a judge sees two replies to one prompt, without names, and says which is better or that none is."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from toolkit.judges.parse import Parsed, Unreadable, check_keys, one_object, quote, storable
from toolkit.judges.request import (
    REASONS_LENGTH,
    JudgeSpec,
    fence_code,
    object_schema,
)
from toolkit.judges.rubric import Rubric, shipped_words
from toolkit.models.base import ModelRequest

Vote = Literal["first", "second", "tie"]
INSTRUMENT = "pairs"
VOTES: dict[str, Vote] = {"A": "first", "B": "second", "tie": "tie"}
"""What a judge writes, and the vote that it is: for the reply shown first or second, or for neither."""
_WORDS = shipped_words("pairs")
_SCHEMA = object_schema(
    {
        "reason": {"type": "string", "maxLength": REASONS_LENGTH},
        "better": {"type": "string", "enum": list(VOTES)},
    }
)


class Slot(NamedTuple):
    """A prompt in one repeat: every model has one reply to it."""

    prompt_id: str
    repeat: int
    base: str
    scenario: str
    level: str


class Pair(NamedTuple):
    """Two models, in the order of the study, whose replies to one prompt in one repeat are compared."""

    prompt_id: str
    repeat: int
    models: tuple[str, str]


def draw_pairs(slots: Iterable[Slot], models: Sequence[str], size: int | None, seed: int) -> tuple[Pair, ...]:
    """Return the pairs to be compared: all, or ``size`` of each two models, balanced and the same for the same seed.

    Every two models meet, so that all stand on one scale. Each two take the next of one order of the slots, so that
    all slots serve equally often; any part of that order is balanced over scenarios, bases and lengths. Pairs come in
    turns of all models: those of a study that stops at its budget are balanced too.
    """
    order = _balanced(slots, seed)
    size = min(size or len(order), len(order))
    pairs = []
    for turn in range(size):
        for number, two in enumerate(combinations(models, 2)):
            slot = order[(number * size + turn) % len(order)]
            pairs.append(Pair(slot.prompt_id, slot.repeat, two))
    return tuple(pairs)


def _balanced(slots: Iterable[Slot], seed: int) -> list[Slot]:
    """Return slots in rounds of all bases, scenarios alternating, of which each base begins at another length."""
    by_base: dict[tuple[str, str], list[Slot]] = defaultdict(list)
    for slot in sorted(slots, key=lambda slot: (slot.repeat, slot.level, slot.prompt_id)):
        by_base[slot.scenario, slot.base].append(slot)
    by_scenario: dict[str, list[list[Slot]]] = defaultdict(list)
    rng = random.Random(f"pairs {seed}")
    for scenario, base in rng.sample(sorted(by_base), len(by_base)):
        by_scenario[scenario].append(by_base[scenario, base])
    # The first of 2 and the second of 4 are as far on their way: scenarios of unequal size alternate as evenly.
    shares = [
        ((number + 0.5) / len(bases), at, bases[number])
        for at, bases in enumerate(by_scenario.values())
        for number in range(len(bases))
    ]
    bases = [base for _, _, base in sorted(shares, key=lambda share: share[:2])]
    return [
        base[(turn + start) % len(base)]
        for turn in range(max(map(len, bases), default=0))
        for start, base in enumerate(bases)
        if turn < len(base)
    ]


def pair_request(judge: JudgeSpec, rubric: Rubric, task: str, first: str, second: str) -> ModelRequest:
    """Return the request that asks one judge which of two replies is better."""
    values = {
        # JSON keeps the replies apart: no other pair of replies has the code of this one.
        "nonce": fence_code(task, json.dumps([first, second], ensure_ascii=False), judge.seed),
        "task": task,
        "first": first,
        "second": second,
        "criteria": rubric.criteria,
    }
    return judge.worded(_WORDS, values, _SCHEMA)


def parse_vote(text: str, finish_reason: str) -> Parsed:
    """Read exactly one vote, or raise `Unreadable`; a vote that is only hinted at is none."""
    answer = one_object(text, finish_reason)
    reasons = answer.pop("reason", None)
    check_keys(answer, ("better",))
    vote = VOTES.get(answer["better"]) if isinstance(answer["better"], str) else None
    if vote is None:
        raise Unreadable("not a vote", quote(json.dumps(answer["better"])))
    return Parsed({}, storable(reasons) if isinstance(reasons, str) else None, {"vote": vote})

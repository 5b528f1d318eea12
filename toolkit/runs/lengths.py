"""How many tokens the calls ahead send and get: low, expected and worst.

What replies are like is measured on the study's own calls where there are enough of them, and assumed otherwise. Each
distinct text is counted once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolkit.models.catalogue import ModelSpec
from toolkit.runs.endpoint import MESSAGE_TOKENS, OTHER_TOKENIZER
from toolkit.runs.said import calls_of_judge, judge_requests
from toolkit.runs.standing import Ahead

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.store.connection import Store

EXPECTED_REPLY_TOKENS: Final = 587
"""Output tokens of the reply that the architecture document shows (seed 002, section 3.1), by o200k_base."""
EXPECTED_JUDGE_TOKENS: Final = 120
"""Output tokens of a judgement: seven scores and short reasons, as the default rubric asks for them."""
EXPECTED_SECONDS: Final = 2.34
"""Latency of the reply that the architecture document shows (seed 002, section 3.1); judges are taken to be as slow."""
LOW_SHARE: Final = 0.25
"""Low is this share of the assumed tokens; of measured ones it is the 10th percentile."""
ENOUGH_CALLS: Final = 5
"""Fewer done calls than this say too little of the next ones."""
SAMPLE: Final = 1000
"""Done calls that are looked at: enough for a mean, and reading more takes longer than the rest."""
REPAIR_TOKENS: Final = 256
"""What a repair request says of the error, rounded up: its words, the reason, and two messages more."""
Three = tuple[float, float, float]
"""Low, expected and worst."""


@dataclass(frozen=True)
class Experience:
    """What replies of one model for one purpose are like."""

    low: float
    mean: float
    seconds: float
    measured: bool

    def within(self, most: int) -> tuple[float, float]:
        """Return low and expected tokens of a reply that may have ``most``."""
        return min(self.low, most), min(self.mean, most)


@dataclass(frozen=True)
class Asking:
    """What one run, or one judge about one run, takes: calls expected, and tokens sent and got of all of them."""

    calls: float
    sent: Three
    got: Three


@dataclass(frozen=True)
class Tokens:
    """Tokens of all calls of a row."""

    calls: int
    sent: Three
    got: Three


NOTHING: Final = Tokens(0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
"""The tokens of no call at all."""


def experience_of(plan: Plan, store: Store, spec: ModelSpec, purpose: str) -> Experience:
    """Return what the study's own done calls of a model were like, or what is assumed of it."""
    key = {"provider": spec.provider, "model": spec.model, "request.endpoint": spec.endpoint}
    found = store.database["calls"].find(
        {"study": plan.study.name, "state": "done", "purpose": purpose, **key},
        {"output_tokens": 1, "latency_ms": 1},
        limit=SAMPLE,
    )
    done = [(call["output_tokens"], call["latency_ms"]) for call in found]
    if len(done) < ENOUGH_CALLS:
        mean = spec.counted_by[1] * (EXPECTED_REPLY_TOKENS if purpose == "run" else EXPECTED_JUDGE_TOKENS)
        return Experience(LOW_SHARE * mean, mean, EXPECTED_SECONDS, measured=False)
    lengths, latencies = zip(*done, strict=True)
    low = sorted(lengths)[len(done) // 10]
    return Experience(low, sum(lengths) / len(done), sum(latencies) / len(done) / 1000, measured=True)


def run_calls(
    ahead: Iterable[Ahead], spec: ModelSpec, known: Experience, count: Callable[[str, str], int]
) -> Iterator[Asking]:
    """Yield what every run that is still to be asked takes."""
    encoding, times = spec.counted_by
    for one in ahead:
        if one.request is None:
            continue
        text = times * sum(count(message.content, encoding) for message in one.request.messages)
        most = (text + MESSAGE_TOKENS * len(one.request.messages)) * _doubt(spec)
        # Asked again n times, each time with twice the tokens: 1 + 2 + ... + 2 ** n.
        longest = one.request.max_tokens * (2 ** (one.retries + 1) - 1)
        within = known.within(one.request.max_tokens)
        yield Asking(1.0, (text, text, most * (one.retries + 1)), (*within, longest))


def judge_calls(
    plan: Plan,
    role: str,
    asked: Sequence[tuple[Ahead, float]],
    replies: Mapping[str, Experience],
    known: Experience,
    count: Callable[[str, str], int],
) -> Iterator[Asking]:
    """Yield what one judge's calls take about each run; the rubric's words are the same for every run."""
    spec = plan.judge_models[role]
    encoding, times = spec.counted_by
    shares = {name: _shares(answerer, spec) for name, answerer in plan.models.items()}
    # One request stands for all that a judge makes about a reply: they differ in a few words.
    for request in judge_requests(plan, role, task="", response="")[:1]:
        words = times * sum(count(message.content, encoding) for message in request.messages)
        # A provider may bill the schema like a text; not all do.
        schema = times * count(request.response_schema or "", encoding)
        extra = MESSAGE_TOKENS * len(request.messages) + schema
        repair = int(plan.manner.repair)
        got = (*known.within(request.max_tokens), request.max_tokens * (1 + repair))
        for one, unpaid in asked:
            run = one.standing.run
            text = words + (times * count(run.prompt.text, encoding) if plan.rubric.shows_task else 0)
            low, expected, longest = _reply_tokens(one, replies)
            share, most_share = shares[run.model]
            low, expected, worst = low * share, expected * share, longest * most_share
            # How many pieces a reply has is a matter of its words, whoever counts them.
            lengths = (low / times, expected / times, max(longest, worst / times))
            often = [unpaid * calls_of_judge(plan, tokens) for tokens in lengths]
            # At worst every one is asked once more, and that repair shows the judge what it said before.
            most = (text + extra + worst) * (1 + repair) + repair * (request.max_tokens + REPAIR_TOKENS)
            sent = (text + low, text + expected, most * _doubt(spec))
            yield Asking(often[1], _times(sent, often), _times(got, often))


def _reply_tokens(one: Ahead, replies: Mapping[str, Experience]) -> Three:
    """Return how long the reply is that judges will see."""
    if one.request is None:
        return (float(one.tokens or 0),) * 3
    known = replies[one.standing.run.model]
    return (*known.within(one.request.max_tokens), one.request.max_tokens * 2.0**one.retries)


def _shares(answerer: ModelSpec, judge: ModelSpec) -> tuple[float, float]:
    """Return how many tokens of a judge one of a reply is; at worst no fewer than it is of its own model."""
    share = judge.counted_by[1] / answerer.counted_by[1]
    doubt = OTHER_TOKENIZER if judge.encoding and judge.encoding != answerer.encoding else 1.0
    return share, max(share, 1.0) * doubt


def _times(tokens: Three, often: Sequence[float]) -> Three:
    low, expected, worst = (count * times for count, times in zip(tokens, often, strict=True))
    return low, expected, worst


def _doubt(spec: ModelSpec) -> float:
    return 1.0 if spec.encoding else OTHER_TOKENIZER


def total_tokens(askings: Iterable[Asking]) -> Tokens:
    """Return the tokens of everything together."""
    sent, got, number = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 0.0
    for asking in askings:
        number += asking.calls
        for place in range(3):
            sent[place] += asking.sent[place]
            got[place] += asking.got[place]
    return Tokens(math.ceil(number), (sent[0], sent[1], sent[2]), (got[0], got[1], got[2]))

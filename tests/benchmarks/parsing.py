"""How long it takes to read stored judge replies again.

    python tests/benchmarks/parsing.py [--replies 10000] [--rounds 5]

Replies are what the default rubric asks for, with reasons of 160 characters, and every fifth cannot be read: prose
before, cut, a code fence with prose, two objects. The median of the rounds counts; asked are 10,000 replies in 2 s.
Expected scores are measured beside it, on replies with 20 alternatives for each of their tokens.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import re
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from toolkit.judges.parse import Unreadable, expected_scores, parse_judgement
from toolkit.judges.rubric import load_rubric
from toolkit.words import DIMENSIONS

ASKED_REPLIES, ASKED_SECONDS = 10_000, 2.0
WORDS = ["isolates", "the host,", "names T1071", "port 4444;", "cites no control", "— risk", "is left out"]


def reply(dice: random.Random, *, whole: bool = False) -> str:
    """Return one full answer of a judge."""
    reasons = " ".join(dice.choices(WORDS, k=20))[:160]
    scores = {name: dice.randint(0, 5) if whole else dice.randint(0, 10) / 2 for name in DIMENSIONS}
    return json.dumps({"reasons": reasons, **scores}, indent=dice.choice([None, 2]), ensure_ascii=False)


def stored(dice: random.Random, count: int) -> list[str]:
    """Return replies as they lie in the ledger, every fifth not readable."""
    breaks: list[Callable[[str], str]] = [
        lambda text: f"Here are the scores:\n{text}",
        lambda text: text[: len(text) // 2],
        lambda text: f"```json\n{text}\n```\nI hope this helps.",
        lambda text: f"{text}\n{text}",
    ]
    return [dice.choice(breaks)(reply(dice)) if n % 5 == 4 else reply(dice) for n in range(count)]


def completion(dice: random.Random) -> dict[str, Any]:
    """Return a chat completion with 20 alternatives for each token, as a provider sends it."""
    text = reply(dice, whole=True)
    entries = []
    for token in re.findall(r"\d|\s*[^\d\s]+|\s+", text):
        others = [str(n) for n in range(10)] + [f"w{n}" for n in range(10)]
        top = [{"token": other, "bytes": list(other.encode()), "logprob": math.log(0.04)} for other in others]
        entries.append({"token": token, "bytes": list(token.encode()), "logprob": -0.5, "top_logprobs": top})
    return {"choices": [{"message": {"content": text}, "logprobs": {"content": entries}}]}


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the median time of so many rounds, in seconds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times)


def main() -> int:
    """Measure, print, and return 1 where it takes longer than was asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replies", type=int, default=ASKED_REPLIES)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    dice, rubric = random.Random(5), load_rubric("default")
    texts = stored(dice, options.replies)

    def parsed(text: str) -> bool:
        with contextlib.suppress(Unreadable):
            return bool(parse_judgement(text, rubric).scores)
        return False

    readable = sum(map(parsed, texts))
    took = seconds(lambda: [parsed(text) for text in texts], options.rounds)
    limit = ASKED_SECONDS * options.replies / ASKED_REPLIES
    print(f"{options.replies} replies ({readable} readable) parsed in {took:.3f} s; asked: {limit:g} s")
    # The raw replies are large, so a tenth of them is measured.
    raws = [completion(dice) for _ in range(max(1, options.replies // 10))]
    complete = sum(len(expected_scores(raw, DIMENSIONS)) == len(DIMENSIONS) for raw in raws)
    with_logprobs = seconds(lambda: [expected_scores(raw, DIMENSIONS) for raw in raws], options.rounds)
    print(f"{len(raws)} replies with log-probabilities ({complete} complete) read in {with_logprobs:.3f} s")
    return 0 if took <= limit else 1


if __name__ == "__main__":
    sys.exit(main())

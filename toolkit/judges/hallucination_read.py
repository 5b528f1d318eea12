"""What a hallucination judge said, read strictly: a number from 0 to 1, or the reason why there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

REASONS: Final = (
    "empty",
    "refusal",
    "filtered",
    "truncated",
    "no verdict",
    "two verdicts",
    "not a score",
    "out of range",
)
"""The stable words a reason starts with; what follows a colon is detail."""
_MARKUP: Final = dict.fromkeys(map(ord, "*_`#[](){}\"'“”‘’«»\u200b\u200c\u200d\u2060\ufeff"))
"""What may stand around a word without changing it; quotes, Markdown, JSON, and characters that nobody sees."""
_QUOTE_MARK: Final = "> "
"""What Markdown puts before a quoted line; before a number it could mean "more than", so there it stays."""
_THOUGHT: Final = ("<think>", "</think>")
"""Between these stands what models that think aloud put before their reply."""
_FIRST: Final = re.compile(
    r"(?:(?:final )?(?:answer|verdict|decision|hallucination) ?[:=] ?)?(?P<word>yes|no)(?![\w-])(?P<rest>.*)",
    re.IGNORECASE,
)
_BOTH: Final = re.compile(r" ?(?:(?:[/|] ?|,? ?(?:and|or) )(?:yes|no)\b|, ?(?:yes|no)\W*$)", re.IGNORECASE)
"""After one of the two words, the other; "Yes, no such RFC exists" is not of that kind."""
_NO_NOTHING: Final = re.compile(
    r" (?:one|way|idea|clue|comment|opinion|verdict|decision|answer|generated|response|question|texts?|documents?|"
    r"information|context|input|data)\b",
    re.IGNORECASE,
)
"""After "no", what makes it the beginning of another sentence: "No answer was given"."""
_VERDICT: Final = re.compile(r"(?:final )?verdict ?[:=](?P<said>.*)", re.IGNORECASE)
_NUMBER: Final = re.compile(
    r"(?:(?:hallucination )?score ?[:=] ?)?(?P<number>[-+]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20}))\.?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Vote:
    """One reply of a hallucination judge as read: either ``value`` or ``reason``, never both."""

    value: float | None
    reason: str | None = None
    explanation: str | None = None


def yes_or_no(text: str) -> bool | None:
    """Read the first word of a judge's reply; ``None`` when it is neither yes nor no.

    Both words at once ("yes and no") are neither, and so is a no that begins another sentence ("No answer was
    given"). Yes and no in another language than the question's are not guessed.

    Examples
    --------
    >>> yes_or_no("**Yes.** It names 10.9.9.9."), yes_or_no("no"), yes_or_no("It is not invented.")
    (True, False, None)
    >>> yes_or_no("Yes and no.") is None
    True
    """
    found = _decision(text)
    return None if found is None else found[0]


def read_vote(text: str, mode: str, finish_reason: str = "stop") -> Vote:
    r"""Read one reply: the first word, the line with the verdict, or the number, as its mode asked for it.

    Nothing is guessed: a reply that does not hold to the form counts for nothing. A decision that stands counts
    even when the provider stopped the reply at its token limit, except for a number that may go on.

    Examples
    --------
    >>> read_vote("The RFC exists.\nVerdict: no", "cot")
    Vote(value=0.0, reason=None, explanation='The RFC exists.')
    >>> read_vote("7/10", "score").reason
    "not a score: '7/10'"
    """
    if finish_reason in ("refusal", "filter"):
        return Vote(None, _because("refusal" if finish_reason == "refusal" else "filtered", text))
    lines = [line.strip() for line in _spoken(text).splitlines() if _plain(line)]
    if not lines:
        return Vote(None, "truncated" if finish_reason == "length" else "empty")
    if mode == "score":
        vote = _score(lines, cut=finish_reason == "length")
    elif mode == "cot":
        vote = _last_line(lines)
    else:
        vote = _first_word(lines)
    if vote.value is None and finish_reason == "length":
        return Vote(None, _because("truncated", lines[-1][-60:]))
    return vote


def _spoken(text: str) -> str:
    """Return the reply without the thought before it; nothing where the thought does not end."""
    begin, end = _THOUGHT
    return text.partition(end)[2] if text.lstrip().startswith(begin) else text


def _plain(text: str) -> str:
    """Return the words alone, one space apart: runs of spaces could make patterns over them slow."""
    return " ".join(text.translate(_MARKUP).split())


def _decision(text: str) -> tuple[bool, str] | None:
    """Return the decision and what follows it."""
    found = _FIRST.match(_plain(text).lstrip(_QUOTE_MARK))
    if found is None or _BOTH.match(found["rest"]):
        return None
    no = found["word"].lower() == "no"
    return None if no and _NO_NOTHING.match(found["rest"]) else (not no, found["rest"])


def _first_word(lines: Sequence[str]) -> Vote:
    found = _decision(lines[0])
    if found is None:
        return Vote(None, _because("no verdict", lines[0]))
    said, rest = found
    bare = (_decision(line) for line in lines[1:] if len(line) <= 40)
    if any(other is not None and other[0] is not said and not other[1].strip(" .!") for other in bare):
        return Vote(None, _because("two verdicts", " / ".join(lines)))
    return Vote(float(said), explanation=_explanation([rest.lstrip(" .,:;!-–—"), *lines[1:]]))


def _last_line(lines: Sequence[str]) -> Vote:
    found = _VERDICT.match(_plain(lines[-1]).lstrip(_QUOTE_MARK))
    said = None if found is None else yes_or_no(found["said"])
    if said is None:
        return Vote(None, _because("no verdict", lines[-1]))
    return Vote(float(said), explanation=_explanation(lines[:-1]))


def _score(lines: Sequence[str], *, cut: bool) -> Vote:
    numbers = [_NUMBER.fullmatch(_plain(line)) for line in lines]
    first = numbers[0]
    if first is None:
        return Vote(None, _because("not a score", lines[0]))
    if any(numbers[1:]):
        return Vote(None, _because("two verdicts", " / ".join(lines)))
    if cut and len(lines) == 1:
        return Vote(None, _because("truncated", lines[0]))
    value = float(first["number"])
    if not 0 <= value <= 1:
        return Vote(None, _because("out of range", f"{lines[0]}, expected 0.0 to 1.0"))
    return Vote(value + 0.0, explanation=_explanation(lines[1:]))  # -0.0 becomes 0.0


def _explanation(lines: Sequence[str]) -> str | None:
    text = "\n".join(line for line in lines if _plain(line))
    # A lone surrogate is legal in JSON and in no encoding, so the store could not keep it.
    return text.encode("utf-8", "replace").decode("utf-8") or None


def _because(word: str, seen: str) -> str:
    short = " ".join(seen.split())
    return f"{word}: {short if len(short) <= 80 else short[:79] + '…'!r}" if short else word

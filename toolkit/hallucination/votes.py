"""One judge on one answer: asked k times whether it is a hallucination, and what the readable replies say together.

Self-consistency after seed 004: the same question is put k times, and the score is the share of yes. A reply that
cannot be read is missing and is not asked for again with its error shown, as rubric judges are: a vote that was
talked to would not be one of k equal draws.
"""

import asyncio
import math
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from toolkit.errors import InputError, ModelError
from toolkit.hallucination.labelled import LabelledItem
from toolkit.judges.parse import Unreadable, quoted, refuse_refusal, storable
from toolkit.judges.request import JudgeSpec, fence_code
from toolkit.judges.rubric import fill, shipped_words
from toolkit.models.base import BROKE_OFF, Answer, Ask, Message, ModelRequest
from toolkit.models.thoughts import HOLE, after_thoughts, without_quotations
from toolkit.words import choices, total_aud

Mode = Literal["boolean", "cot-seed", "cot", "score"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""How a judge can be asked; `boolean` and `cot-seed` are the prompts of seed 004, which are not hardened."""
Task = tuple[LabelledItem, JudgeSpec, Mode]
"""One answer, and a judge and prompt that it is put to."""
MOST_VOTES = 1000
"""Largest k, and the distance between repeat indices of judges that are one model: whatever k, no call is shared."""
REASONS = (
    "empty", "refusal", "filtered", "truncated", "no verdict", "two verdicts", "not a score", "out of range",
)  # fmt: skip
"""The stable words the reason of an unreadable reply starts with; what follows a colon is detail."""


# --- what is asked --------------------------------------------------------------------------------------------------


def hallucination_requests(
    item: LabelledItem, judge: JudgeSpec, mode: Mode, k: int = MOST_VOTES
) -> Iterator[ModelRequest]:
    """Yield the k requests that put one answer to one judge; they differ in repeat index and seed alone."""
    if not 1 <= k <= MOST_VOTES:
        raise InputError(f"k is {k}: a hallucination judge is asked 1 to {MOST_VOTES} times")
    messages, first = conversation(item, mode, judge.seed), judge.repeat * MOST_VOTES
    # The seed's sampling; a model that takes no temperature is sent none.
    temperature, top_p = (None, None) if judge.temperature is None else (0.5, 1.0)
    sampling_judge = replace(judge, temperature=temperature, max_tokens=256)
    for repeat in range(first, first + k):
        yield replace(replace(sampling_judge, repeat=repeat).request(messages), top_p=top_p)


def conversation(item: LabelledItem, mode: Mode, seed: int | None = None) -> tuple[Message, ...]:
    """Return the messages that ask one judge about one answer: the seed's two turns, open and closed domain."""
    if mode not in MODES:
        raise InputError(f"hallucination mode {mode!r} is unknown; {choices(mode, MODES)}")
    words = shipped_words("hallucination", "hallucination")
    if item.domain == "closed":
        shape = "closed" if item.reference is None else "closed_with_reference"
    else:
        shape = "open_without_reference" if item.reference is None else "open"
    values = {"definition": words["definition"], "given": words["given"][shape], "fenced": words["fenced"]}
    names = words["texts"]
    texts = {name: text for field, name in names.items() if (text := getattr(item, field)) is not None}
    if mode in words["last_words"]:  # every text is fenced by a code that it cannot know
        before = "\n".join(text for name, text in texts.items() if name != names["answer"])
        nonce = fence_code(before, item.answer, seed)
        fenced = [
            f"<<<{name.upper()} {nonce}>>>\n{text}\n<<<END {name.upper()} {nonce}>>>"
            for name, text in texts.items()
        ]
        last_turn = "\n".join([*fenced, fill(words["last_words"][mode], {"nonce": nonce})])
    else:  # as the seed puts them, so that an answer which speaks to the judge may be heard
        last_turn = "\n".join(f"{name}: {text}" for name, text in texts.items())
    return (
        Message("user", fill(words["modes"][mode], values)),
        Message("assistant", words["greeting"]),
        Message("user", last_turn),
    )


# --- what is answered -----------------------------------------------------------------------------------------------

_MARKUP = dict.fromkeys(map(ord, "*_`#[](){}\"'“”‘’«»\u200b\u200c\u200d\u2060\ufeff"))
"""What may stand around a word without changing it; quotes, Markdown, JSON, and characters that nobody sees."""
_QUOTE_MARK = "> "  # of a quoted line in Markdown; before a number it may say "more than"
_FIRST = re.compile(
    r"(?i)(?:(?:final )?(?:answer|verdict|decision|hallucination) ?[:=] ?)?(?P<word>yes|no)(?![\w-])(?P<rest>.*)"
)
_BOTH = re.compile(r" ?(?:(?:[/|] ?|,? ?(?:and|or) )(?:yes|no)\b|, ?(?:yes|no)\W*$)", re.IGNORECASE)
"""After one of the two words, the other; "Yes, no such RFC exists" is not of that kind."""
_NO_NOTHING = re.compile(
    r"(?i) (?:one|way|idea|clue|comment|opinion|verdict|decision|answer|generated|response|question|texts?|documents?|"
    r"information|context|input|data)\b"
)
"""After "no", what makes it the beginning of another sentence: "No answer was given"."""
_VERDICT = re.compile(r"(?:final )?verdict ?[:=](?P<word>.*)", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?i)(?:(?:hallucination )?score ?[:=] ?)?(?P<number>[-+]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20}))\.?"
)
_LABELLED = re.compile(
    r"(?i)(?:final |hallucination )?(?:answer|verdict|decision|hallucination|score) ?[:=] ?(?:yes|no|[-+.0-9]+)\W*"
)
"""A verdict with its label, which is the judge's word for it: after it, quotation marks quote nothing."""
_SHORT = 40  # characters of a line that holds a verdict and nothing else


@dataclass(frozen=True)
class Vote:
    """One reply of a hallucination judge as read: either ``value`` or ``reason``, never both."""

    value: float | None
    reason: str | None = None
    explanation: str | None = None


class _Line(NamedTuple):
    text: str
    unquoted: str  # with holes for what it quotes; empty where it quotes all


Lines = Sequence[_Line]


def yes_or_no(text: str) -> bool | None:
    """Read the verdict of a judge's reply to a closed question; ``None`` when it is neither yes nor no, or both."""
    value = read_vote(text, "boolean").value
    return None if value is None else bool(value)


def read_vote(text: str, mode: str, finish_reason: str = "stop") -> Vote:
    r"""Read one reply: the first word, the line with the verdict, or the number, after the last thought, unquoted.

    >>> read_vote("<think>It says:\n</think>\nNo\n</think> is odd.</think>\nYes, it is invented.", "boolean").value
    1.0
    """
    try:
        refuse_refusal(finish_reason, _visible(text))
        votes = [_read(part, mode, finish_reason in BROKE_OFF) for part in after_thoughts(text) or ("",)]
    except Unreadable as error:
        return Vote(None, str(error))
    if len({vote.value for vote in votes} - {None}) > 1:
        return Vote(None, str(Unreadable("two verdicts", _visible(text[-60:]))))
    return votes[0]


def _read(text: str, mode: str, cut: bool) -> Vote:
    lines = []
    for written, unquoted in zip(text.splitlines(), without_quotations(text).splitlines(), strict=True):
        plain = _plain(unquoted)
        if HOLE in plain and plain[0] != HOLE and _LABELLED.fullmatch(_plain(written)):
            unquoted = written
        elif HOLE in plain and not re.search(r"\w", plain):
            unquoted = ""
        if _plain(written):
            lines.append(_Line(written.strip(), unquoted.strip()))
    try:
        if not lines:
            raise Unreadable("truncated" if cut else "empty")
        return {"score": _score, "cot": _last_line}.get(mode, _first_word)(lines, cut)
    except Unreadable as error:
        broke_off = cut and lines
        reason = Unreadable("truncated", _visible(lines[-1].text[-60:])) if broke_off else error
        return Vote(None, str(reason))


def _plain(text: str) -> str:
    """Return the words alone, one space apart: runs of spaces could make patterns over them slow."""
    return " ".join(text.translate(_MARKUP).split())


def _decision(text: str) -> tuple[bool, str] | None:
    match = _FIRST.match(_plain(text).lstrip(_QUOTE_MARK))
    if match is None or _BOTH.match(match["rest"]):
        return None
    no = match["word"].lower() == "no"
    return None if no and _NO_NOTHING.match(match["rest"]) else (not no, match["rest"])


def _verdict(lines: Lines, verdicts: Sequence[float | None], cut: bool, reason: str) -> tuple[int, float]:
    """Return the verdict and its line: the first that is not quoted, or else the last, if no line announces it."""
    # After "The answer says:" a line is the answer's; and at the token limit it may go on.
    indices = [index for index, line in enumerate(lines) if line.unquoted]
    if indices and (verdict := verdicts[indices[0]]) is not None:
        return indices[0], verdict
    last = indices[-1] if len(indices) > 1 and not cut else 0
    if (verdict := verdicts[last]) is None or lines[last - 1].text.endswith(":"):
        raise Unreadable(reason, _visible(lines[0].text))
    return last, verdict


def _first_word(lines: Lines, cut: bool) -> Vote:
    decisions = [_decision(line.unquoted) for line in lines]
    alone = [
        decision[0] if decision and len(line.unquoted) <= _SHORT and not decision[1].strip(" .!") else None
        for line, decision in zip(lines, decisions, strict=True)
    ]
    first = next((index for index, line in enumerate(lines) if line.unquoted), 0)
    opening = decisions[first]
    verdicts = [opening[0] if opening and index == first else value for index, value in enumerate(alone)]
    index, value = _verdict(lines, verdicts, cut, "no verdict")
    if index == first and {*alone[index + 1 :]} - {None, value}:
        raise Unreadable("two verdicts", _visible(" / ".join(line.text for line in lines)))
    word = _FIRST.match(_plain(lines[index].text).lstrip(_QUOTE_MARK))
    remark = word["rest"].lstrip(" .,:;!-–—") if word else ""
    return Vote(float(value), explanation=_explanation(lines, index, remark))


def _last_line(lines: Lines, cut: bool) -> Vote:
    index = max((index for index, line in enumerate(lines) if line.unquoted), default=0)
    labelled = _VERDICT.match(_plain(lines[index].unquoted).lstrip(_QUOTE_MARK))
    decision = labelled and _decision(labelled["word"])
    if not decision:
        raise Unreadable("no verdict", _visible(lines[-1].text))
    return Vote(float(decision[0]), explanation=_explanation(lines, index))


def _score(lines: Lines, cut: bool) -> Vote:
    matches = [_NUMBER.fullmatch(_plain(line.unquoted)) for line in lines]
    numbers = [float(match["number"]) if match else None for match in matches]
    index, value = _verdict(lines, numbers, cut, "not a score")
    if any(number is not None for number in numbers[index + 1 :]):
        raise Unreadable("two verdicts", _visible(" / ".join(line.text for line in lines)))
    if cut and index == len(lines) - 1:
        raise Unreadable("truncated", _visible(lines[index].text))
    if not 0 <= value <= 1:
        raise Unreadable("out of range", _visible(f"{lines[index].text}, expected 0.0 to 1.0"))
    return Vote(value + 0.0, explanation=_explanation(lines, index))  # -0.0 becomes 0.0


def _explanation(lines: Lines, verdict: int, word: str = "") -> str | None:
    texts = [*(line.text for line in lines[:verdict]), word, *(line.text for line in lines[verdict + 1 :])]
    return storable("\n".join(text for text in texts if _plain(text))) or None


def _visible(text: str) -> str:
    return quoted(text, 80) if text.split() else ""


# --- one judge on one answer ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HallucinationVerdict:
    """What one judge made of one answer."""

    item_id: str
    judge: str
    judge_model: str
    mode: Mode
    decision: bool | None
    metric: float | None
    explanation: str | None
    votes: tuple[float | None, ...]
    reasons: tuple[str | None, ...]
    aud_cost: float
    call_ids: tuple[str, ...]

    @property
    def reason(self) -> str | None:
        """Why there is no decision: ``split``, the reasons of the votes, ``not asked``; ``None`` when there is one."""
        if self.decision is not None:
            return None
        lacking = "; ".join(dict.fromkeys(map(str, self.reasons))) or "not asked"
        return lacking if self.metric is None else "split"


async def judge_hallucination(
    item: LabelledItem, *, judge: JudgeSpec, ask: Ask, mode: Mode, k: int
) -> HallucinationVerdict:
    """Ask one judge k times about one answer."""
    requests = list(hallucination_requests(item, judge, mode, k))
    answers = await asyncio.gather(*(ask(request) for request in requests), return_exceptions=True)
    return verdict_of((item, judge, mode), requests, answers)


def verdict_of(
    task: Task, requests: Sequence[ModelRequest], answers: Sequence[Answer | BaseException]
) -> HallucinationVerdict:
    """Return what the answers of one judge to some requests about one answer say together."""
    item, judge, mode = task
    votes = []
    for answer in answers:
        if isinstance(answer, Answer):
            votes.append(read_vote(answer.reply.text, mode, answer.reply.finish_reason))
        elif isinstance(answer, ModelError):
            votes.append(Vote(None, f"{answer.reason}: {answer}"))
        else:
            raise answer
    values = [vote.value for vote in votes if vote.value is not None]
    score = statistics.fmean(values) if values else None
    decision = None if score is None else _side(score)
    agreeing = (vote for vote in votes if vote.value is not None and _side(vote.value) is decision)
    return HallucinationVerdict(
        item_id=item.item_id,
        judge=judge.role,
        judge_model=judge.name,
        mode=mode,
        decision=decision,
        metric=score,
        explanation=None if decision is None else next(agreeing).explanation,
        votes=tuple(vote.value for vote in votes),
        reasons=tuple(vote.reason for vote in votes),
        aud_cost=total_aud(answer.aud_cost for answer in answers if isinstance(answer, Answer)),
        call_ids=tuple(request.identity() for request in requests),
    )


def _side(score: float) -> bool | None:
    """Return on which side of one half a score is; a sum of tenths is not exactly what it should be."""
    return None if math.isclose(score, 0.5, abs_tol=1e-9) else score > 0.5


async def majority_vote(
    judges: Sequence[JudgeSpec], request_of: Callable[[JudgeSpec], ModelRequest], ask: Ask
) -> tuple[bool | None, str, tuple[str, ...]]:
    """Ask every judge one question with yes or no; return the majority or None, what judges wrote, and the calls."""
    votes = []
    remarks = []
    calls = []
    for judge in judges:
        request = request_of(judge)
        calls.append(request.identity())
        try:
            judgement = (await ask(request)).reply
        except ModelError as error:
            remarks.append(f"{judge.role}: {error.reason}: {error}")
            continue
        vote = None if judgement.finish_reason in ("filter", "refusal") else yes_or_no(judgement.text)
        unreadable = "unreadable: " if vote is None else ""
        remarks.append(f"{judge.role}: {unreadable}{quoted(judgement.text, 160)}")
        votes += [] if vote is None else [vote]
    yes = sum(votes)
    decided = None if 2 * yes == len(votes) else 2 * yes > len(votes)
    split = "the judges are split; " if votes and decided is None else ""
    return decided, split + "; ".join(remarks), tuple(calls)

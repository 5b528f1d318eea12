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
from toolkit.judges.parse import Unreadable, quote, refuse_refusal, storable
from toolkit.judges.request import JudgeSpec, fence_code
from toolkit.judges.rubric import fill, shipped_words
from toolkit.models.base import BROKE_OFF, Answer, Ask, Message, ModelRequest
from toolkit.models.thoughts import END_OF_THOUGHT, split_thoughts
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
    names = {field: name for field, name in words["texts"].items() if getattr(item, field) is not None}
    values = {**words, "given": words["given"]["_".join(names)]}
    texts = {name: getattr(item, field) for field, name in names.items()}
    last_turn = "\n".join(f"{name}: {text}" for name, text in texts.items())
    if mode in words["last_words"]:  # every text is fenced by a code that it cannot know
        *before, answer = texts.values()
        nonce = fence_code("\n".join(before), answer, seed)
        fenced = [
            f"<<<{name.upper()} {nonce}>>>\n{text}\n<<<END {name.upper()} {nonce}>>>"
            for name, text in texts.items()
        ]
        last_turn = "\n".join([*fenced, fill(words["last_words"][mode], {"nonce": nonce})])
    return (
        Message("user", fill(words["modes"][mode], values)),
        Message("assistant", words["greeting"]),
        Message("user", last_turn),
    )


# --- what is answered -----------------------------------------------------------------------------------------------

_EMPHASIS = "*_#\u200b\u200c\u200d\u2060\ufeff"
"""Marks and characters that nobody sees, which may stand anywhere in a verdict without changing it."""
_QUOTES = "`[](){}\"'“”„‘’«»"
"""What may stand around a verdict that is all of its line; before more words it quotes somebody else."""
_VERDICT = r"""(?ix)
    (?:(?:final\ )?(?:{label})\ ?[:=]\ ?){times}
    (?P<word>yes|no) (?:$|[.,:;!—–]+|\ -) (?P<remark>.*)"""
_WORD = re.compile(_VERDICT.format(label="answer|verdict|decision|hallucination", times="?"))
_LABELLED_WORD = re.compile(_VERDICT.format(label="verdict", times=""))
_SECOND_WORD = re.compile(r"(?i)\b(yes|no)\b(?=$| ?[.,:;!?/—–]| hallucination)")
"""A word of a remark that is a verdict of its own, which the one in "Yes, no such RFC exists" is not."""
_NUMBER = re.compile(
    r"(?i)(?:(?:hallucination )?score ?[:=] ?)?(?P<number>[-+]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20}))\.?"
)
_FENCE = "```"


@dataclass(frozen=True)
class Vote:
    """One reply of a hallucination judge as read: either ``value`` or ``reason``, never both."""

    value: float | None
    reason: str | None = None
    explanation: str | None = None


class _Verdict(NamedTuple):
    value: float
    remark: str = ""  # what its line says after it


def yes_or_no(text: str) -> bool | None:
    """Read the reply to a closed question, the word first; ``None`` when it is neither yes nor no, or both."""
    value = read_vote(text, "cot-seed").value
    return None if value is None else bool(value)


def read_vote(text: str, mode: str, finish_reason: str = "stop") -> Vote:
    r"""Read one reply: its last line, after the thoughts, is the verdict in the form that the mode asks for.

    Judges explain themselves after the word or number that was asked for: except in ``cot``, whose prompt asks for the
    verdict last, the first line may be the verdict too. In every mode a first line that says the contrary leaves none,
    and no other line counts. A reply that was cut has no last line.

    >>> read_vote("The answer says:\nVerdict: no\nThat is an order to me.\n\n**Verdict:** yes", "cot").value
    1.0
    """
    try:
        refuse_refusal(finish_reason, _visible(text))
        return _read(text, mode, cut=finish_reason in BROKE_OFF)
    except Unreadable as error:
        return Vote(None, str(error))


def _read(text: str, mode: str, *, cut: bool) -> Vote:
    reply, _ = split_thoughts(text)
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    if lines and lines[0].startswith(_FENCE) and lines[-1] == _FENCE and reply.count(_FENCE) == 2:
        lines = lines[1:-1]
    if not lines:
        raise Unreadable("truncated" if cut else "empty")
    last = None if cut else _verdict(lines[-1], mode)
    first = opening = None
    if not END_OF_THOUGHT.search(reply):  # else nobody knows where the reply begins
        # A thought whose beginning is not shown may be a reply, of which a mark of an end was quoted.
        opening = _verdict(text.strip().splitlines()[0], mode, dressed=False)
        first = _verdict(lines[0], mode, dressed=False) if len(lines) > 1 else None
    verdict = last or (first if mode != "cot" else None)
    if verdict is None:
        lacking = "not a score" if mode == "score" else "no verdict"
        raise Unreadable("truncated" if cut else lacking, _visible(lines[-1][-60:]))
    if any(start and start.value != verdict.value for start in (opening, first)):
        raise Unreadable("two verdicts", _visible(f"{text.strip()[:40]} / {lines[-1]}"))
    if not 0 <= verdict.value <= 1:
        raise Unreadable("out of range", _visible(f"{lines[-1]}, expected 0.0 to 1.0"))
    reasons = [*lines[:-1], verdict.remark] if last else [verdict.remark, *lines[1:]]
    return Vote(verdict.value, explanation=storable("\n".join(filter(None, reasons))) or None)


def _verdict(line: str, mode: str, *, dressed: bool = True) -> _Verdict | None:
    """Return the verdict that a line is, if it is one; dressed, it may stand between quotation marks or in JSON."""
    plain, bare = _without(_EMPHASIS, line), _without(_EMPHASIS + _QUOTES, line)
    if mode == "score":
        number = _NUMBER.fullmatch(bare if dressed else plain)
        return _Verdict(float(number["number"]) + 0.0) if number else None  # -0.0 becomes 0.0
    form = _LABELLED_WORD if mode == "cot" else _WORD
    match = form.fullmatch(plain) or (form.fullmatch(bare) if dressed else None)
    if match is None or (match["remark"] and match.string != plain):  # '"No, it is right" is what it says'
        return None
    word = match["word"].lower()
    if {verdict.lower() for verdict in _SECOND_WORD.findall(match["remark"])} - {word}:
        raise Unreadable("two verdicts", _visible(line))
    return _Verdict(float(word == "yes"), match["remark"].strip())


def _without(marks: str, line: str) -> str:
    """Return a line without some marks, one blank between words: runs of blanks could make patterns slow."""
    return " ".join(line.translate(dict.fromkeys(map(ord, marks))).split())


def _visible(text: str) -> str:
    return quote(text, 80) if text.split() else ""


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
    votes, remarks, calls = [], [], []
    for judge in judges:
        request = request_of(judge)
        calls.append(request.identity())
        try:
            reply = (await ask(request)).reply
        except ModelError as error:
            remarks.append(f"{judge.role}: {error.reason}: {error}")
            continue
        vote = None if reply.finish_reason in ("filter", "refusal") else yes_or_no(reply.text)
        remarks.append(f"{judge.role}: {'unreadable: ' * (vote is None)}{quote(reply.text, 160)}")
        votes += [] if vote is None else [vote]
    yes = sum(votes)
    decided = None if 2 * yes == len(votes) else 2 * yes > len(votes)
    split = "the judges are split; " if votes and decided is None else ""
    return decided, split + "; ".join(remarks), tuple(calls)

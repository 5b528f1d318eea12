"""What a study will cost and how long it takes, before a cent is spent; and whether it may start at all."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.errors import InputError, StudyError
from toolkit.models.base import Usage
from toolkit.models.catalogue import ModelSpec
from toolkit.models.prices import aud_cost, batch_price, price_of
from toolkit.models.registry import default_concurrency, key_fault, read_environment
from toolkit.models.tokens import count_tokens
from toolkit.plan import Plan
from toolkit.runs.budget import settled_aud, settlements
from toolkit.runs.endpoints import MESSAGE_TOKENS, OTHER_TOKENIZER
from toolkit.runs.execution import IN_ORDER_UP_TO
from toolkit.runs.ledger import calls_by_state, claimed_calls, was_sent
from toolkit.runs.progress import duration
from toolkit.runs.run_state import (
    Ahead,
    calls_of_judge,
    judge_requests,
    judge_shares,
    runs_ahead,
)
from toolkit.store.connection import Store
from toolkit.words import Summary

if TYPE_CHECKING:
    import pandas as pd


BATCH_SECONDS: Final = 86_400.0
"""What a batch endpoint promises: an answer within a day."""
COLUMNS: Final = (
    *("who", "model", "provider", "calls", "paid_calls", "input_tokens"),
    *("low_aud", "expected_aud", "worst_aud", "seconds", "worst_seconds", "basis"),
)

Room = tuple[str, str | None]


def estimate_frame(plan: Plan, store: Store) -> pd.DataFrame:
    """Return what is still to be asked, one row per model and judge.

    Equal requests are one call, however many runs or judgements rest on it. At worst every reply is as long as
    ``max_tokens`` allows, every one that may be asked again is, judges read all of it, and a batch brings nothing, so
    that its calls are sent singly at the full price.
    """
    import pandas as pd

    ahead = runs_ahead(plan, store)
    count = cache(count_tokens)  # 10,000 runs of 100 prompts are 100 texts
    known: dict[str, Experience] = {}
    rows, phases = [], []
    counted_already: set[str] = set()  # two names of one model share their calls
    for name, spec in plan.models.items():
        of_model = _distinct(one for one in ahead if one.standing.run.model == name)
        if any(one.request for one in of_model):
            known[name] = experience_of(plan, store, spec, "run")
        own = [one for one in of_model if one.standing.run.call_id not in counted_already]
        counted_already.update(one.standing.run.call_id for one in own)
        asked = [one for one in own if one.request is not None]
        tokens = total_tokens(run_calls(asked, spec, known[name], count)) if asked else NOTHING
        basis = known[name] if asked else None
        rows.append(_row(plan, "model", name, spec, tokens, len(own) - len(asked), basis))
        phases.append(("runs", spec))
    for role, judge in plan.judges.items():
        spec = plan.judge_models[role]
        seen = [one for one in ahead if one.judged and role in plan.judges_of(one.standing.run.model)]
        judged = [one for one in seen if role in one.standing.said and one.standing.said[role].answered]
        left = [one for one in seen if not (role in one.standing.said and one.standing.said[role].answered)]
        shares, paid = judge_shares(plan, store, role, _distinct(left))
        experience, tokens = None, NOTHING
        if shares:
            experience = experience_of(plan, store, spec, "judge")
            tokens = total_tokens(judge_calls(plan, role, shares, known, experience, count))
            # What a judge will read is a part of the basis too.
            read = all(one.request is None or known[one.standing.run.model].measured for one, _ in shares)
            experience = replace(experience, measured=experience.measured and read)
        named = {call_id for one in judged for call_id in one.standing.said[role].calls}
        each = len(judge_requests(plan, role, task="", response="")) // plan.manner.repeats
        rows.append(
            _row(plan, role, judge.name, spec, tokens, len(paid - named) + len(named) * each, experience)
        )
        phases.append(("judges", spec))
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"seconds": float, "worst_seconds": float})
    frame.attrs.update(
        seconds=_whole_seconds(rows, phases),
        worst_seconds=BATCH_SECONDS
        * len({p for (p, _), row in zip(phases, rows, strict=True) if row["worst_seconds"]})
        or None,
        runs=len(plan.runs),
        distinct_calls=len(set(plan.call_ids)),
        # Where a judge sees the reply alone, replies that turn out equal share its calls.
        may_share=any(one.request and one.judged for one in ahead)
        and plan.test.judged
        and not (plan.rubric.shows_task or plan.manner.shuffle),
        budget_aud=plan.study.budget.aud,
        retired={
            row["model"]: (spec.retired, spec.is_retired())
            for (_, spec), row in zip(phases, rows, strict=True)
            if spec.retired and row["calls"]
        },
        tokens_per_o200k={
            row["model"]: spec.tokens_per_o200k
            for (_, spec), row in zip(phases, rows, strict=True)
            if row["worst_aud"] and not spec.encoding
        },
        spent_aud=sum(c.aud + c.unsure_aud for c in calls_by_state(store, plan.study.name).values())
        - settled_aud(settlements(store, plan.study.name), billed=False),
        held_aud=sum(
            call["worst_aud"] or 0.0 for call in claimed_calls(store, plan.study.name) if was_sent(call)
        ),
    )
    return frame


def estimate_summary(frame: pd.DataFrame) -> Summary:
    """Return the estimate as the command line shows it."""
    rows = [
        {name: None if value != value else value for name, value in row.items()}  # NaN is no JSON
        for row in frame.to_dict("records")
    ]
    total = {name: float(frame[name].sum()) for name in ("low_aud", "expected_aud", "worst_aud")}
    budget = frame.attrs.get("budget_aud")
    spent, held = frame.attrs.get("spent_aud", 0.0), frame.attrs.get("held_aud", 0.0)
    used = spent + held
    fields: dict[str, Any] = {
        "rows": rows,
        "calls": int(frame["calls"].sum()),
        **total,
        "seconds": frame.attrs.get("seconds"),
        "worst_seconds": frame.attrs.get("worst_seconds"),
        "retired": frame.attrs.get("retired", {}),
        "tokens_per_o200k": frame.attrs.get("tokens_per_o200k", {}),
        **{name: frame.attrs.get(name) for name in ("runs", "distinct_calls", "may_share")},
        "spent_aud": spent,
        "held_aud": held,
        "budget_aud": budget,
        "expected_fits": None if budget is None else used + total["expected_aud"] <= budget,
        "worst_fits": None if budget is None else used + total["worst_aud"] <= budget,
    }
    return Summary(fields, "\n\n".join([_table(frame), *_sentences(fields)]))


def confirm_needed(frame: pd.DataFrame, threshold_aud: float) -> None:
    """Refuse to start a study that may cost more than its threshold, within its budget, unless it was confirmed."""
    worst = float(frame["worst_aud"].sum())
    if (budget := frame.attrs.get("budget_aud")) is not None:
        worst = min(worst, max(0.0, budget - frame.attrs["spent_aud"] - frame.attrs["held_aud"]))
    if worst > threshold_aud:
        raise InputError(
            f"this study may cost {worst:.2f} AUD, more than budget.confirm_above_aud = {threshold_aud:.2f}; "
            "look at `toolkit estimate` and add --yes"
        )


def _distinct(ahead: Iterable[Ahead]) -> list[Ahead]:
    """Return each call of some runs once: equal requests are paid once."""
    return list({one.standing.run.call_id: one for one in ahead}.values())


def _row(
    plan: Plan, who: str, name: str, spec: ModelSpec, tokens: Tokens, paid: int, known: Experience | None
) -> dict[str, Any]:
    full = price_of(spec)
    price = batch_price(full, spec.provider) if plan.study.mode == "batch" else full
    batch = price != full and tokens.calls > 0
    # Requests that share a prefix are marked for the provider's cache, and writing to it may cost more.
    marked = who != "model" and plan.manner.focus == "per_sentence"
    low, expected, worst = (
        Usage(math.ceil(sent), math.ceil(got)) for sent, got in zip(tokens.sent, tokens.got, strict=True)
    )
    return {
        "who": who,
        "model": name,
        "provider": spec.provider,
        "calls": tokens.calls,
        "paid_calls": paid,
        "input_tokens": expected.input,
        "low_aud": aud_cost(low, price),
        "expected_aud": aud_cost(expected, price),
        "worst_aud": aud_cost(replace(worst, cache_written=worst.input) if marked else worst, full),
        "seconds": None
        if batch
        else _seconds(plan, spec, tokens.calls, expected.total, known, judge=who != "model"),
        "worst_seconds": BATCH_SECONDS if batch else None,
        "basis": "paid" if known is None else "measured" if known.measured else "assumed",
    }


def _seconds(
    plan: Plan, spec: ModelSpec, calls: int, tokens: int, known: Experience | None, *, judge: bool
) -> float:
    """Return the expected time of a row that has its provider to itself: the slowest of latency and both rates."""
    if known is None:
        return 0.0
    judges = plan.study.judges.by_role()
    entries = [(entry, plan.models[entry.name]) for entry in plan.study.models]
    entries += [(judges[role], found) for role, found in plan.judge_models.items()]
    limit = plan.study.limit(spec.provider)
    at_once = min(
        entry.concurrency or limit.concurrency or default_concurrency(found, plan.study.concurrency)
        for entry, found in entries
        if _room(found) == _room(spec)
    )
    if len(plan.runs) <= IN_ORDER_UP_TO:  # one run after the other, but its judges together
        together = sum(_room(found) == _room(spec) for found in plan.judge_models.values())
        at_once = min(at_once, together if judge else 1)
    times = [known.seconds * max(calls / at_once, 1.0)]
    times += [60 * calls / limit.requests_per_minute] if limit.requests_per_minute else []
    times += [60 * tokens / limit.tokens_per_minute] if limit.tokens_per_minute else []
    return max(times)


def _whole_seconds(
    rows: Sequence[Mapping[str, Any]], phases: Sequence[tuple[str, ModelSpec]]
) -> float | None:
    """Return the expected time of everything: one provider's rows add up, providers go side by side, judges last."""
    if any(row["seconds"] is None for row in rows):
        return None
    sums: dict[str, dict[Room, float]] = defaultdict(lambda: defaultdict(float))
    for row, (phase, spec) in zip(rows, phases, strict=True):
        sums[phase][_room(spec)] += row["seconds"]
    return sum(max(rooms.values()) for rooms in sums.values())


def _room(spec: ModelSpec) -> Room:
    """Return what shares limits: one provider at one address."""
    return spec.provider, spec.endpoint


def _table(frame: pd.DataFrame) -> str:
    money: dict[Any, Callable[..., str]] = dict.fromkeys(
        ("low_aud", "expected_aud", "worst_aud"), "{:.4f}".format
    )
    times = ["within a day" if seconds != seconds else duration(seconds) for seconds in frame["seconds"]]
    shown = frame.drop(columns=["seconds", "worst_seconds"])
    shown.insert(len(shown.columns) - 1, "time", times)
    return shown.to_string(index=False, formatters=money)


def _sentences(fields: Mapping[str, Any]) -> Iterator[str]:
    spent, budget = fields["spent_aud"], fields["budget_aud"]
    if budget is not None:
        verdict = {True: "fits", False: "does not fit"}
        held = fields["held_aud"]
        left = f", {held:.4f} held for calls that are under way or that a dead process left" if held else ""
        yield (
            f"budget.aud = {budget:.2f}, {spent:.4f} AUD of it are spent{left}: the expected cost "
            f"{verdict[fields['expected_fits']]}, the worst {verdict[fields['worst_fits']]}"
        )
    if fields["runs"] != fields["distinct_calls"]:
        yield f"{fields['runs']} runs, {fields['distinct_calls']} distinct calls: equal requests are paid once"
    if fields["may_share"]:
        yield (
            "The rubric does not show judges the task: replies still to come that turn out equal will share their "
            "calls, which nobody knows beforehand, so that judges may cost less than this"
        )
    for name, (day, past) in fields["retired"].items():
        if past:
            yield f"{name} was retired by its provider on {day}: this study will not start before it names another"
        else:
            yield f"{name} is served until {day}, as its provider announced"
    for name, times in fields["tokens_per_o200k"].items():
        yield (
            f"{name} has no public tokenizer: tokens that are still to come are estimated as {times:g} for one of "
            f"o200k_base, at worst {times * OTHER_TOKENIZER:.3g}"
        )
    if not fields["calls"]:
        yield "Nothing is left to be asked."
        return
    batch = fields["worst_seconds"]
    time = f"within {duration(batch)}" if batch else f"in about {duration(fields['seconds'])}"
    yield (
        f"{fields['calls']} calls still to be asked: about {fields['expected_aud']:.4f} AUD, at least "
        f"{fields['low_aud']:.4f} and at worst {fields['worst_aud']:.4f} AUD, {time}"
    )


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


def refuse_unreachable(plan: Plan, store: Store, *, only_judge: bool = False) -> None:
    """Refuse to ask models that are retired or lack their key; what they answered before stays as good as it was."""
    named: Mapping[tuple[str, str], ModelSpec] = {
        **({} if only_judge else {("model", name): spec for name, spec in plan.models.items()}),
        **{(role, plan.judges[role].name): spec for role, spec in plan.judge_models.items()},
    }
    env = read_environment(plan.folder)
    if not any(spec.is_retired() or key_fault(spec, env) for spec in named.values()):
        return
    frame = estimate_frame(plan, store)
    ahead = {(row.who, row.model) for row in frame[frame["calls"] > 0].itertuples()}
    told = [
        f"{who} {name} ({spec.provider} {spec.model}) since {spec.retired}"
        for (who, name), spec in named.items()
        if spec.is_retired() and (who, name) in ahead
    ]
    if told:
        raise StudyError(
            f"study {plan.study.name}: retired by their providers: {'; '.join(told)}. Nothing was sent: name models "
            'that are served, or give the id of one, as in { name = "NAME", model = "ID" }'
        )
    if not (plan.test.judged or any(who == "model" for who, _ in ahead)):
        return  # what such a test has still to ask its judges only its annotators know
    refuse_keyless((spec for key, spec in named.items() if key in ahead), plan.folder)


def refuse_keyless(specs: Iterable[ModelSpec], folder: Path) -> None:
    """Refuse to ask models without their keys, all of them in one line."""
    env = read_environment(folder)
    faults = dict.fromkeys(f"{spec.provider} {fault}" for spec in specs if (fault := key_fault(spec, env)))
    if faults:
        raise InputError(
            f"{', '.join(faults)}. Nothing was sent: export what is missing, or write NAME=... into a .env file in the "
            "working folder or beside the study"
        )
